//! DATA_ON_READERS: a subscriber's status for all its readers.
//!
//! Owns: the list of readers to ask. Never does: keep a reader that its application has dropped, or
//! read for it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use derecho_core::ids::Time;
use idl_xtypes::TopicData;

use super::intake::ReaderCore;
use super::subscriber::{Subscriber, SubscriberGroup};
use crate::infrastructure::{StatusCondition, StatusKind, StatusMask};

/// A reader as its subscriber asks it.
pub(super) trait HasData: Send + Sync {
    /// Whether the reader has samples that no call has given yet.
    fn has_data(&self) -> bool;
    /// Time at which the reader may have some although nothing arrives.
    fn looks_next(&self) -> Option<Time>;
}

impl<T: TopicData> HasData for ReaderCore<T> {
    fn has_data(&self) -> bool {
        self.changed().contains(StatusKind::DataAvailable)
    }

    fn looks_next(&self) -> Option<Time> {
        self.next_look()
    }
}

/// The readers of a subscriber, and the condition on them once it was requested. The list refers to
/// the cores of readers, not to their active lives: a waiting thread may drop the last reference,
/// and must not end a reader by that.
#[derive(Default)]
pub(crate) struct DataOnReaders {
    readers: Mutex<Vec<Weak<dyn HasData>>>,
    condition: OnceLock<StatusCondition>,
}

impl DataOnReaders {
    /// Adds a reader.
    pub(super) fn enter(&self, reader: Weak<dyn HasData>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(reader);
    }

    fn readers(&self) -> impl Iterator<Item = Arc<dyn HasData>> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        readers.into_iter().filter_map(|reader| reader.upgrade())
    }

    fn changes(&self) -> StatusMask {
        match self.readers().any(|reader| reader.has_data()) {
            true => StatusKind::DataOnReaders.into(),
            false => StatusMask::NONE,
        }
    }
}

/// DATA_ON_READERS for applications without a listener.
///
/// ```no_run
/// use dds_api::infrastructure::WaitSet;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let subscriber = participant.subscriber().create()?;
/// let reader = subscriber.reader(topic).create()?;
/// let wait_set = WaitSet::new();
/// wait_set.attach(&subscriber.status_condition())?;
/// wait_set.wait(Timeout::secs(10))?;                   // for any of its readers
/// for track in reader.take(.., Timeout::NOW)? { println!("{track:?}"); }
/// # Ok(())
/// # }
/// ```
impl Subscriber {
    /// The statuses that have changed: DATA_ON_READERS while one of the readers has samples that no
    /// call has given yet.
    pub fn status_changes(&self) -> StatusMask {
        self.data_on_readers().changes()
    }

    /// Condition that holds while DATA_ON_READERS is enabled in it and one of the readers has
    /// samples that no call has given yet. The condition does not keep the subscriber alive.
    #[doc(alias = "get_statuscondition")]
    pub fn status_condition(&self) -> StatusCondition {
        let made = || {
            let of = |group: &Weak<SubscriberGroup>| group.upgrade().map(Subscriber::of);
            let group = self.downgrade();
            let changes = move || of(&group).map_or(StatusMask::NONE, |it| it.status_changes());
            let group = self.downgrade();
            let next_look = move || {
                let subscriber = of(&group)?;
                subscriber.data_on_readers().readers().filter_map(|it| it.looks_next()).min()
            };
            let group = self.downgrade();
            let entity = move || of(&group).map(|it| it.instance_handle());
            StatusCondition::with_next_check(
                entity,
                changes,
                next_look,
                Arc::clone(self.inner()) as _,
            )
        };
        self.data_on_readers().condition.get_or_init(made).clone()
    }
}
