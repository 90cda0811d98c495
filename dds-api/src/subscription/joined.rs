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
use qos_profiles::DataReaderQos;

use super::cache::Selection;
use super::intake::ReaderCore;
use super::reader::DataReader;
use super::reader_cache::wall;
use super::sample::{Sample, SampleBody};
use super::subscriber::Subscriber;
use super::{DataReaderBuilder, InstanceState};
use crate::domain::ParticipantInner;
use crate::infrastructure::DdsResult;
use crate::mapping::builtin::{BuiltinKind, DiscoverySink, EntityUpdate};
use crate::mapping::kept_replay::GONE_SENDER;
use crate::topic::JoinedTopics;
use crate::topic::join::{Join, JoinChange};

/// Source of a multi-topic reader's samples: the readers of the joined topics.
pub(super) struct JoinedReaders {
    pub(super) readers: Vec<DataReader<DynamicData>>,
    join: Mutex<Join>,
}

/// Listener that ignores all that discovery reports.
pub(super) struct NullDiscoverySink;

impl DiscoverySink for NullDiscoverySink {
    fn kind(&self) -> Option<BuiltinKind> {
        None
    }

    fn report(&self, _: Vec<EntityUpdate>) {}
}

impl JoinedReaders {
    /// Makes readers of these topics, with HISTORY and RELIABILITY of the multi-topic's reader.
    pub(super) fn new(
        joined: &JoinedTopics,
        participant: &Arc<ParticipantInner>,
        subscriber: Option<&Subscriber>,
        qos: &DataReaderQos,
    ) -> DdsResult<JoinedReaders> {
        let reader = |topic| {
            let builder = DataReaderBuilder::new(Arc::clone(participant), topic).providing(qos);
            let reader = match subscriber {
                Some(subscriber) => builder.within(subscriber.clone()).create()?,
                None => builder.create()?,
            };
            reader.enable().map(|()| reader)
        };
        let readers = joined.topics.iter().map(reader).collect::<DdsResult<_>>()?;
        Ok(JoinedReaders { readers, join: Mutex::new(Join::new(&joined.plan)) })
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Joins the new samples of the joined topics.
    #[cold]
    pub(super) fn join_changes(&self, joined_readers: &JoinedReaders) {
        let mut join = joined_readers.join.lock().unwrap_or_else(PoisonError::into_inner);
        for (table, reader) in joined_readers.readers.iter().enumerate() {
            // A take without a sample would wake the machine.
            while reader.has_samples() {
                let taken = reader.cache().access(wall(), true, &Selection::default(), &|_| true);
                if taken.is_empty() {
                    break;
                }
                taken.iter().for_each(|sample| self.join_sample(&mut join, table, sample));
            }
        }
    }

    fn join_sample(&self, join: &mut Join, table: usize, sample: &Sample<DynamicData>) {
        let info = sample.info();
        let Some(row) = info.instance_handle.instance_key() else { return };
        let changes = match sample.data() {
            Some(data) => join.put(table, row, data.clone()),
            None => join.remove(table, row),
        };
        let written = info.source_timestamp.duration_since(UNIX_EPOCH).unwrap_or_default();
        let written = written.as_nanos() as u64;
        let Ok(changes) = changes else { return self.note_unreadable() };
        for changes in changes {
            let (made, state) = match changes {
                JoinChange::Updated(made) => (made, InstanceState::Alive),
                JoinChange::Disposed(made) => (made, InstanceState::NotAliveDisposed),
            };
            let payload = made.to_cdr(Encoding::default());
            let read = payload.ok().and_then(|it| T::read_cdr(self.topic.support(), &it).ok());
            match read {
                Some(data) => {
                    let body = SampleBody::of_update(data, state, written, GONE_SENDER.node);
                    self.unqueued.receive([(body, GONE_SENDER)].into_iter());
                }
                None => self.note_unreadable(),
            }
        }
    }
}

/// Calls that concern all joined topics.
impl JoinedReaders {
    pub(super) fn matched_writers(&self) -> usize {
        self.readers.iter().map(DataReader::matched_writers).sum()
    }
}
