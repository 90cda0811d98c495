//! Listeners that concern a reader: its own, its subscriber's and its participant's.
//!
//! Owns: which of them is called. Never does: count; the status board and the cache do.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use derecho_core::ids::Time;
use idl_xtypes::TopicData;
use qos_profiles::EntityKind;

use super::data_available::ArrivalMark;
use super::reader::{ActiveReader, DataReader};
use super::subscriber::Subscriber;
use crate::domain::{Entity, ListenedEntity};
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::listener::responsible_listener;
use crate::infrastructure::{
    AnyDataReader, DataReaderListener, DdsResult, InstanceHandle, StatusKind, StatusMask,
    SubscriberListener,
};
use crate::topic::TopicOrigin;

impl<T: TopicData> AnyDataReader for DataReader<T> {
    fn topic_name(&self) -> &str {
        self.topic.name()
    }

    fn type_name(&self) -> &str {
        self.topic.type_name()
    }

    fn instance_handle(&self) -> InstanceHandle {
        DataReader::instance_handle(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<T: TopicData> DataReader<T> {
    /// Sets the listener that is called for changes of these statuses, on the thread of the
    /// participant that calls all its listeners. The listener may make any call. It may wait, which
    /// delays other listeners. It may panic, which affects nothing else.
    pub fn set_listener(
        &self,
        listener: impl DataReaderListener<T> + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.listener.set(Box::new(listener), mask.into());
        self.participant.start_listeners()
    }

    /// Removes the reader's own listener.
    pub fn clear_listener(&self) {
        self.listener.clear();
    }

    /// The statuses for which the listener is called; none if there is no listener. The reader owns
    /// the listener and does not return it. State that the application needs from the listener must
    /// be shared with it.
    pub fn listener_mask(&self) -> StatusMask {
        self.listener.mask()
    }
}

/// Calls the nearest listener that wants a status. Returns whether there is one.
fn call<T: TopicData>(
    reader: &DataReader<T>,
    kind: StatusKind,
    masks: [StatusMask; 3],
    own: impl FnOnce(&mut dyn DataReaderListener<T>),
    others: impl FnOnce(&mut dyn SubscriberListener),
) -> bool {
    match (responsible_listener(kind, masks), &reader.subscriber) {
        (Some(0), _) => reader.listener.call(kind, |it| own(it)),
        (Some(1), Some(subscriber)) => subscriber.listener().call(kind, |it| others(it)),
        (Some(_), _) => reader.participant.listener.call(kind, |it| others(it)),
        (None, _) => return false,
    }
    true
}

/// Reports a status if it has changed and a listener wants it. This reads the status.
macro_rules! tell {
    ($reader:ident, $masks:ident, $kind:ident, $call:ident, $status:ident) => {{
        let kind = StatusKind::$kind;
        let is_news = $reader.shared.board.changes().contains(kind);
        is_news && responsible_listener(kind, $masks).is_some() && {
            let status = $reader.$status();
            let own = |it: &mut dyn DataReaderListener<T>| it.$call(&$reader, &status);
            let others = |it: &mut dyn SubscriberListener| it.$call(&$reader, &status);
            call(&$reader, kind, $masks, own, others)
        }
    }};
}

impl<T: TopicData> Entity for ActiveReader<T> {
    fn kind(&self) -> EntityKind {
        EntityKind::DataReader
    }

    fn id(&self) -> u64 {
        self.core.enabling.id()
    }

    fn group(&self) -> u64 {
        self.core.subscriber.as_ref().map_or(0, Subscriber::group)
    }

    fn topic(&self) -> u64 {
        self.core.topic.id()
    }

    fn topic_name(&self) -> &str {
        self.core.topic.name()
    }

    fn is_builtin(&self) -> bool {
        self.core.topic.entity().origin == TopicOrigin::Discovery
    }

    fn lifecycle(&self) -> &Lifecycle {
        self.core.enabling.lifecycle()
    }

    fn handle(self: Arc<Self>) -> Box<dyn Any> {
        Box::new(DataReader::alive(self))
    }

    fn enable(self: Arc<Self>) -> DdsResult<()> {
        ActiveReader::enable(&self)
    }

    fn delete(self: Arc<Self>) {
        self.end();
    }
}

impl<T: TopicData> ListenedEntity for ActiveReader<T> {
    fn priority(&self) -> i32 {
        self.core.shared.priority()
    }

    fn notify_listeners(self: Arc<Self>) -> bool {
        let core = &self.core;
        let of_subscriber = core.subscriber.as_ref().map(|subscriber| subscriber.listener().mask());
        let of_participant = core.participant.listener.mask();
        let masks = [core.listener.mask(), of_subscriber.unwrap_or_default(), of_participant];
        let wanted = masks.into_iter().fold(StatusMask::NONE, |all, mask| all | mask);
        if wanted.is_empty() {
            return false;
        }
        let reader = DataReader::alive(self);
        let data = StatusKind::DataAvailable | StatusKind::DataOnReaders;
        // Data is reported again only after more has come. This requires a cache, which
        // counts arrivals.
        let arrivals = match (wanted & data).is_empty() && reader.cache.get().is_none() {
            true => None,
            false => Some(reader.cache().arrivals()),
        };
        let called = [
            tell!(
                reader,
                masks,
                RequestedDeadlineMissed,
                on_requested_deadline_missed,
                requested_deadline_missed_status
            ),
            tell!(
                reader,
                masks,
                RequestedIncompatibleQos,
                on_requested_incompatible_qos,
                requested_incompatible_qos_status
            ),
            tell!(
                reader,
                masks,
                LivelinessChanged,
                on_liveliness_changed,
                liveliness_changed_status
            ),
            tell!(
                reader,
                masks,
                SubscriptionMatched,
                on_subscription_matched,
                subscription_matched_status
            ),
            tell!(reader, masks, SampleLost, on_sample_lost, sample_lost_status),
            tell!(reader, masks, SampleRejected, on_sample_rejected, sample_rejected_status),
        ];
        let has_new =
            |arrivals: u64| reader.notified_arrivals.swap(arrivals, Ordering::AcqRel) != arrivals;
        let of_data = arrivals
            .filter(|arrivals| has_new(*arrivals))
            .is_some_and(|arrivals| call_data_listener(&reader, masks, arrivals));
        of_data || called.contains(&true)
    }

    fn next_check(&self) -> Option<Time> {
        self.core.next_look()
    }
}

/// Reports that samples have come. A listener for the readers of a subscriber precedes those of
/// single readers.
fn call_data_listener<T: TopicData>(
    reader: &DataReader<T>,
    masks: [StatusMask; 3],
    arrivals: u64,
) -> bool {
    let kind = StatusKind::DataOnReaders;
    if let Some(subscriber) = &reader.subscriber {
        if masks[1].contains(kind) || masks[2].contains(kind) {
            subscriber.data_on_readers().reset();
        }
        if masks[1].contains(kind) {
            subscriber.listener().call(kind, |it| it.on_data_on_readers(subscriber));
            return true;
        }
        if masks[2].contains(kind) {
            reader.participant.listener.call(kind, |it| it.on_data_on_readers(subscriber));
            return true;
        }
    }
    if responsible_listener(StatusKind::DataAvailable, masks).is_some() {
        reader.note_read(ArrivalMark::InCache(arrivals));
    }
    let own = |it: &mut dyn DataReaderListener<T>| it.on_data_available(reader);
    let others = |it: &mut dyn SubscriberListener| it.on_data_available(reader);
    call(reader, StatusKind::DataAvailable, masks, own, others)
}
