//! Listeners: callbacks that an application registers for changes of statuses.
//!
//! The listener of the entity is called for a change if it wants the status; else the listener of
//! the entity's publisher or subscriber; else that of the participant. If no listener wants the
//! status, the change stays until the application reads the status.
//!
//! Owns: the traits, and the slot in which an entity keeps its listener. Never does: call a
//! listener while holding a lock that a call of this crate takes, or let a panic out of a listener.
//! The [dispatcher](crate::domain) calls all listeners, one after another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idl_xtypes::TopicData;

use super::{
    IncompatibleQosStatus, InconsistentTopicStatus, InstanceHandle, LivelinessChangedStatus,
    LivelinessLostStatus, OfferedDeadlineMissedStatus, PublicationMatchedStatus,
    RequestedDeadlineMissedStatus, SampleLostStatus, StatusKind, StatusMask,
    SubscriptionMatchedStatus,
};
use crate::publication::DataWriter;
use crate::subscription::{DataReader, SampleRejectedStatus, Subscriber};

/// Callbacks of writers' listeners, for each type in which they receive the writer.
macro_rules! of_writers {
    ($writer:ty) => {
        /// An instance was not written again within its DEADLINE.
        fn on_offered_deadline_missed(
            &mut self,
            writer: $writer,
            status: &OfferedDeadlineMissedStatus,
        ) {
            let _ = (writer, status);
        }

        /// A reader requests more than the writer offers.
        fn on_offered_incompatible_qos(&mut self, writer: $writer, status: &IncompatibleQosStatus) {
            let _ = (writer, status);
        }

        /// The application did not assert its liveliness in time.
        fn on_liveliness_lost(&mut self, writer: $writer, status: &LivelinessLostStatus) {
            let _ = (writer, status);
        }

        /// A reader was matched, or is no longer matched.
        fn on_publication_matched(&mut self, writer: $writer, status: &PublicationMatchedStatus) {
            let _ = (writer, status);
        }
    };
}

/// Callbacks of readers' listeners.
macro_rules! of_readers {
    ($reader:ty) => {
        /// Samples have arrived. The callback runs again when more arrive, whether these were taken
        /// or not.
        fn on_data_available(&mut self, reader: $reader) {
            let _ = reader;
        }

        /// Samples arrived too fast for this reader, which is best-effort, and are lost.
        fn on_sample_lost(&mut self, reader: $reader, status: &SampleLostStatus) {
            let _ = (reader, status);
        }

        /// A sample found no room in the reader.
        fn on_sample_rejected(&mut self, reader: $reader, status: &SampleRejectedStatus) {
            let _ = (reader, status);
        }

        /// A writer became alive, or is no longer alive.
        fn on_liveliness_changed(&mut self, reader: $reader, status: &LivelinessChangedStatus) {
            let _ = (reader, status);
        }

        /// No sample of an instance arrived within its DEADLINE.
        fn on_requested_deadline_missed(
            &mut self,
            reader: $reader,
            status: &RequestedDeadlineMissedStatus,
        ) {
            let _ = (reader, status);
        }

        /// A writer offers less than the reader requests.
        fn on_requested_incompatible_qos(
            &mut self,
            reader: $reader,
            status: &IncompatibleQosStatus,
        ) {
            let _ = (reader, status);
        }

        /// A writer was matched, or is no longer matched.
        fn on_subscription_matched(&mut self, reader: $reader, status: &SubscriptionMatchedStatus) {
            let _ = (reader, status);
        }
    };
}

/// Callbacks of a writer. Each callback does nothing by default.
///
/// ```
/// use dds_api::infrastructure::{DataWriterListener, PublicationMatchedStatus, StatusKind};
/// use dds_api::prelude::*;
///
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// struct Counts;
///
/// impl DataWriterListener<Track> for Counts {
///     fn on_publication_matched(&mut self, _: &DataWriter<Track>, status: &PublicationMatchedStatus) {
///         println!("{} readers", status.current_count);
///     }
/// }
///
/// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
/// writer.set_listener(Counts, StatusKind::PublicationMatched)?;
/// # Ok(())
/// # }
/// ```
pub trait DataWriterListener<T: TopicData>: Send {
    of_writers!(&DataWriter<T>);
}

/// Callbacks of a reader. Each callback does nothing by default.
///
/// ```no_run
/// use dds_api::infrastructure::{DataReaderListener, StatusKind};
/// use dds_api::prelude::*;
///
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct Alarm { code: u32 }
///
/// struct Bell;
///
/// impl DataReaderListener<Alarm> for Bell {
///     fn on_data_available(&mut self, reader: &DataReader<Alarm>) {
///         for alarm in reader.take_data(.., Timeout::NOW).into_iter().flatten() {
///             println!("alarm {}", alarm.code);
///         }
///     }
/// }
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let topic = participant.topic::<Alarm>("Alarms").atomic().create()?;
/// let reader = participant.reader(&topic).create()?;
/// reader.set_listener(Bell, StatusKind::DataAvailable)?;
/// # Ok(())
/// # }
/// ```
pub trait DataReaderListener<T: TopicData>: Send {
    of_readers!(&DataReader<T>);
}

/// Callbacks for those writers of a publisher that have no listener of their own for the status.
///
/// ```
/// use dds_api::infrastructure::{AnyDataWriter, LivelinessLostStatus, PublisherListener, StatusMask};
/// # use dds_api::prelude::*;
///
/// struct Warns;
///
/// impl PublisherListener for Warns {
///     fn on_liveliness_lost(&mut self, writer: &dyn AnyDataWriter, _: &LivelinessLostStatus) {
///         eprintln!("a writer of {} has not asserted its liveliness", writer.topic_name());
///     }
/// }
///
/// # fn example(publisher: &dds_api::publication::Publisher) -> DdsResult<()> {
/// publisher.set_listener(Warns, StatusMask::ALL)?;
/// # Ok(())
/// # }
/// ```
pub trait PublisherListener: Send {
    of_writers!(&dyn AnyDataWriter);
}

/// Callbacks for those readers of a subscriber that have no listener of their own for the status.
///
/// ```
/// use dds_api::infrastructure::{AnyDataReader, StatusKind, SubscriberListener};
/// # use dds_api::prelude::*;
///
/// struct Names;
///
/// impl SubscriberListener for Names {
///     fn on_data_available(&mut self, reader: &dyn AnyDataReader) {
///         println!("samples of {}", reader.topic_name());
///     }
/// }
///
/// # fn example(subscriber: &dds_api::subscription::Subscriber) -> DdsResult<()> {
/// subscriber.set_listener(Names, StatusKind::DataAvailable)?;
/// # Ok(())
/// # }
/// ```
pub trait SubscriberListener: Send {
    of_readers!(&dyn AnyDataReader);

    /// DATA_ON_READERS: samples have arrived for some reader. If a listener wants this status, no
    /// reader's `on_data_available` is called.
    fn on_data_on_readers(&mut self, subscriber: &Subscriber) {
        let _ = subscriber;
    }
}

/// Callbacks of a topic.
///
/// ```
/// use dds_api::infrastructure::{InconsistentTopicStatus, TopicListener};
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
///
/// struct Says;
///
/// impl TopicListener for Says {
///     fn on_inconsistent_topic(&mut self, topic: &str, status: &InconsistentTopicStatus) {
///         eprintln!("{topic} is something else to others: {:?}", status.last_reason);
///     }
/// }
///
/// # fn example(topic: &Topic<Track>) -> DdsResult<()> {
/// topic.set_listener(Says)?;
/// # Ok(())
/// # }
/// ```
pub trait TopicListener: Send {
    /// Other participants use the name of the topic for something else.
    fn on_inconsistent_topic(&mut self, topic: &str, status: &InconsistentTopicStatus) {
        let _ = (topic, status);
    }
}

/// Callbacks for all entities of a participant that have no nearer listener for the status.
///
/// ```
/// use dds_api::infrastructure::{
///     AnyDataWriter, PublicationMatchedStatus, PublisherListener, StatusMask, SubscriberListener,
///     TopicListener,
/// };
/// # use dds_api::prelude::*;
///
/// struct Logs;
///
/// impl PublisherListener for Logs {
///     fn on_publication_matched(&mut self, it: &dyn AnyDataWriter, status: &PublicationMatchedStatus) {
///         println!("{}: {} readers", it.topic_name(), status.current_count);
///     }
/// }
/// impl SubscriberListener for Logs {}
/// impl TopicListener for Logs {}
///
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// participant.set_listener(Logs, StatusMask::ALL)?;
/// # Ok(())
/// # }
/// ```
pub trait DomainParticipantListener:
    PublisherListener + SubscriberListener + TopicListener
{
}

impl<L: PublisherListener + SubscriberListener + TopicListener> DomainParticipantListener for L {}

/// A writer of any type.
///
/// ```
/// # use dds_api::infrastructure::AnyDataWriter;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// fn of_tracks(writer: &dyn AnyDataWriter) -> Option<&DataWriter<Track>> {
///     writer.as_any().downcast_ref()
/// }
/// ```
pub trait AnyDataWriter {
    /// Name of the writer's topic.
    fn topic_name(&self) -> &str;
    /// Name of the topic's type.
    fn type_name(&self) -> &str;
    /// Name of the writer in the domain.
    fn instance_handle(&self) -> InstanceHandle;
    /// The writer as `Any`, for `downcast_ref` to a [`DataWriter`] of a type.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A reader of any type.
///
/// ```
/// # use dds_api::infrastructure::AnyDataReader;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// fn of_tracks(reader: &dyn AnyDataReader) -> Option<&DataReader<Track>> {
///     reader.as_any().downcast_ref()
/// }
/// ```
pub trait AnyDataReader {
    /// Name of the reader's topic.
    fn topic_name(&self) -> &str;
    /// Name of the topic's type.
    fn type_name(&self) -> &str;
    /// Name of the reader in the domain.
    fn instance_handle(&self) -> InstanceHandle;
    /// The reader as `Any`, for `downcast_ref` to a [`DataReader`] of a type.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A listener that only one thread at a time calls.
type SharedListener<L> = Arc<Mutex<Box<L>>>;

/// Slot in which an entity keeps its listener.
pub(crate) struct ListenerSlot<L: ?Sized>(Mutex<(StatusMask, Option<SharedListener<L>>)>);

impl<L: ?Sized> Default for ListenerSlot<L> {
    fn default() -> Self {
        ListenerSlot(Mutex::new((StatusMask::NONE, None)))
    }
}

impl<L: ?Sized> ListenerSlot<L> {
    fn lock(&self) -> MutexGuard<'_, (StatusMask, Option<SharedListener<L>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the listener, which is called for these statuses from now on.
    pub(crate) fn set(&self, listener: Box<L>, mask: StatusMask) {
        let before =
            std::mem::replace(&mut *self.lock(), (mask, Some(Arc::new(Mutex::new(listener)))));
        // Dropped without the lock: the drop of a listener may run any code.
        drop(before);
    }

    /// Removes the listener. Does not wait: a call that has begun on another thread
    /// still completes.
    pub(crate) fn clear(&self) {
        let before = std::mem::take(&mut *self.lock());
        drop(before);
    }

    /// Statuses that the listener wants.
    pub(crate) fn mask(&self) -> StatusMask {
        self.lock().0
    }

    /// Calls the listener. A panic of the listener does not leave this function.
    pub(crate) fn call(&self, kind: StatusKind, call: impl FnOnce(&mut L)) {
        let listener = self.lock().1.clone();
        let Some(listener) = listener else { return };
        Self::call_it(&mut listener.lock().unwrap_or_else(PoisonError::into_inner), kind, call);
    }

    /// Calls the listener if it wants the status and is not being called already: the caller may be
    /// the listener itself.
    pub(crate) fn call_unless_busy(&self, kind: StatusKind, call: impl FnOnce(&mut L)) {
        if !self.mask().contains(kind) {
            return;
        }
        let listener = self.lock().1.clone();
        if let Some(Ok(mut listener)) = listener.as_ref().map(|listener| listener.try_lock()) {
            Self::call_it(&mut listener, kind, call);
        }
    }

    fn call_it(listener: &mut L, kind: StatusKind, call: impl FnOnce(&mut L)) {
        if catch_unwind(AssertUnwindSafe(|| call(listener))).is_err() {
            tracing::error!(status = %kind, "a listener has panicked; it is called again for the next change");
        }
    }
}

/// Returns the index of the listener to call for a change of this status: the first that wants it.
pub(crate) fn responsible_listener(kind: StatusKind, masks: [StatusMask; 3]) -> Option<usize> {
    masks.iter().position(|mask| mask.contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_listener_enabled_for_a_status_is_called() {
        let (all, none) = (StatusMask::ALL, StatusMask::NONE);
        let matched = StatusKind::PublicationMatched;
        assert_eq!(responsible_listener(matched, [matched.into(), all, all]), Some(0));
        assert_eq!(
            responsible_listener(StatusKind::LivelinessLost, [matched.into(), all, all]),
            Some(1)
        );
        assert_eq!(responsible_listener(matched, [none, none, all]), Some(2));
        assert_eq!(responsible_listener(matched, [none, none, none]), None);
    }
}
