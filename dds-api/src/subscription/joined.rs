//! Readers of multi-topics, which join samples of other readers as they come.
//!
//! ```text
//!   readers of its topics ──samples──> join ──samples──> the reader's cache, like queued samples
//! ```
//! Owns: the readers of the joined topics, which are polled whenever the multi-topic's reader is.
//! Never does: wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use idl_cdr::Encoding;
use idl_xtypes::{DynamicData, TopicData};
use qos_profiles::HistoryQosPolicy;

use super::cache::Selection;
use super::intake::ReaderCore;
use super::reader::DataReader;
use super::sample::{Body, Sample};
use super::shelf::wall;
use super::subscriber::Subscriber;
use super::{DataReaderBuilder, InstanceState};
use crate::domain::Inner;
use crate::infrastructure::DdsResult;
use crate::mapping::builtin::{BuiltinKind, Hears, Told};
use crate::mapping::history::NOBODY;
use crate::topic::Joined;
use crate::topic::join::{Join, News};

/// Source of a multi-topic reader's samples: the readers of the joined topics.
pub(super) struct Joining {
    pub(super) readers: Vec<DataReader<DynamicData>>,
    join: Mutex<Join>,
}

/// Listener that ignores all that discovery reports.
pub(super) struct Deaf;

impl Hears for Deaf {
    fn kind(&self) -> Option<BuiltinKind> {
        None
    }

    fn hear(&self, _: Vec<Told>) {}
}

impl Joining {
    /// Makes readers of these topics, with the HISTORY of the multi-topic's reader.
    pub(super) fn new(
        joined: &Joined,
        (participant, subscriber): (&Arc<Inner>, Option<&Subscriber>),
        history: &HistoryQosPolicy,
    ) -> DdsResult<Joining> {
        let reader = |topic| {
            let builder = DataReaderBuilder::new(Arc::clone(participant), topic).following(history);
            let reader = match subscriber {
                Some(subscriber) => builder.within(subscriber.clone()).create()?,
                None => builder.create()?,
            };
            reader.enable().map(|()| reader)
        };
        let readers = joined.topics.iter().map(reader).collect::<DdsResult<_>>()?;
        Ok(Joining { readers, join: Mutex::new(Join::new(&joined.plan)) })
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Joins the new samples of the joined topics.
    #[cold]
    pub(super) fn join_news(&self, joining: &Joining) {
        let mut join = joining.join.lock().unwrap_or_else(PoisonError::into_inner);
        for (table, reader) in joining.readers.iter().enumerate() {
            // A take without a sample would wake the machine.
            while reader.has_samples() {
                let taken = reader.shelf().access(wall(), true, &Selection::default(), &|_| true);
                if taken.is_empty() {
                    break;
                }
                taken.iter().for_each(|sample| self.join_sample((&mut join, table), sample));
            }
        }
    }

    fn join_sample(&self, (join, table): (&mut Join, usize), sample: &Sample<DynamicData>) {
        let info = sample.info();
        let Some(row) = info.instance_handle.instance_key() else { return };
        let news = match info.valid_data {
            true => join.put(table, row, DynamicData::clone(sample)),
            false => join.remove(table, row),
        };
        let written = info.source_timestamp.duration_since(UNIX_EPOCH).unwrap_or_default();
        let written = written.as_nanos() as u64;
        let Ok(news) = news else { return self.note_unreadable() };
        for news in news {
            let (made, state) = match news {
                News::Is(made) => (made, InstanceState::Alive),
                News::IsNoMore(made) => (made, InstanceState::NotAliveDisposed),
            };
            let payload = made.to_cdr(Encoding::default());
            let read = payload.ok().and_then(|it| T::read_cdr(self.topic.support(), &it).ok());
            match read {
                Some(data) => {
                    let body = Body::of_told(data, state, written, NOBODY.node);
                    self.opened.put([(body, NOBODY)].into_iter());
                }
                None => self.note_unreadable(),
            }
        }
    }
}

/// Calls that concern all joined topics.
impl Joining {
    pub(super) fn matched_writers(&self) -> usize {
        self.readers.iter().map(DataReader::matched_writers).sum()
    }
}
