//! A writer's listeners: its own, its publisher's and its participant's.
//!
//! Owns: the choice of the listener that is called. Never does: count; the status board does.

use std::any::Any;
use std::sync::Arc;

use derecho_core::ids::Time;
use idl_xtypes::TopicData;
use qos_profiles::EntityKind;

use super::publisher::Publisher;
use super::writer::{DataWriter, WriterCore};
use crate::domain::{Entity, ListenedEntity};
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::listener::responsible_listener;
use crate::infrastructure::{
    AnyDataWriter, DataWriterListener, DdsResult, InstanceHandle, PublisherListener, StatusKind,
    StatusMask,
};

impl<T: TopicData> AnyDataWriter for DataWriter<T> {
    fn topic_name(&self) -> &str {
        self.topic.name()
    }

    fn type_name(&self) -> &str {
        self.topic.type_name()
    }

    fn instance_handle(&self) -> InstanceHandle {
        DataWriter::instance_handle(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<T: TopicData> DataWriter<T> {
    /// Sets a listener for changes of these statuses. The participant calls all its listeners on
    /// one thread. A listener may call any function. It may block, which delays other listeners. It
    /// may panic; the panic ends in the listener's call.
    pub fn set_listener(
        &self,
        listener: impl DataWriterListener<T> + 'static,
        mask: impl Into<StatusMask>,
    ) -> DdsResult<()> {
        self.listener.set(Box::new(listener), mask.into());
        self.participant.start_listeners()
    }

    /// Removes the writer's listener.
    pub fn clear_listener(&self) {
        self.listener.clear();
    }

    /// The statuses for which the writer's listener is called; empty without a listener. The writer
    /// owns the listener: an application that needs data from the listener must share that data.
    #[doc(alias = "get_listener")]
    pub fn listener_mask(&self) -> StatusMask {
        self.listener.mask()
    }
}

/// Calls the nearest listener that wants a status, and returns whether there is one.
fn call<T: TopicData>(
    writer: &DataWriter<T>,
    kind: StatusKind,
    masks: [StatusMask; 3],
    own: impl FnOnce(&mut dyn DataWriterListener<T>),
    others: impl FnOnce(&mut dyn PublisherListener),
) -> bool {
    match (responsible_listener(kind, masks), &writer.publisher) {
        (Some(0), _) => writer.listener.call(kind, |it| own(it)),
        (Some(1), Some(publisher)) => publisher.listener().call(kind, |it| others(it)),
        (Some(_), _) => writer.participant.listener.call(kind, |it| others(it)),
        (None, _) => return false,
    }
    true
}

/// Calls a listener if the status has changed and a listener wants it. The call reads the status.
macro_rules! tell {
    ($writer:ident, $masks:ident, $kind:ident, $call:ident, $status:ident) => {{
        let kind = StatusKind::$kind;
        let is_news = $writer.shared.board.changes().contains(kind);
        is_news && responsible_listener(kind, $masks).is_some() && {
            let status = $writer.$status();
            let own = |it: &mut dyn DataWriterListener<T>| it.$call(&$writer, &status);
            let others = |it: &mut dyn PublisherListener| it.$call(&$writer, &status);
            call(&$writer, kind, $masks, own, others)
        }
    }};
}

impl<T: TopicData> Entity for WriterCore<T> {
    fn kind(&self) -> EntityKind {
        EntityKind::DataWriter
    }

    fn id(&self) -> u64 {
        self.enabling.id()
    }

    fn group(&self) -> u64 {
        self.publisher.as_ref().map_or(0, Publisher::group)
    }

    fn topic(&self) -> u64 {
        self.topic.id()
    }

    fn topic_name(&self) -> &str {
        self.topic.name()
    }

    fn lifecycle(&self) -> &Lifecycle {
        self.enabling.lifecycle()
    }

    fn handle(self: Arc<Self>) -> Box<dyn Any> {
        Box::new(DataWriter::of(self))
    }

    fn enable(self: Arc<Self>) -> DdsResult<()> {
        WriterCore::enable(&self)
    }

    fn delete(self: Arc<Self>) {
        self.end();
    }
}

impl<T: TopicData> ListenedEntity for WriterCore<T> {
    fn notify_listeners(self: Arc<Self>) -> bool {
        let of_publisher = self.publisher.as_ref().map(|publisher| publisher.listener().mask());
        let of_participant = self.participant.listener.mask();
        let masks = [self.listener.mask(), of_publisher.unwrap_or_default(), of_participant];
        if masks.iter().all(|mask| mask.is_empty()) {
            return false;
        }
        let writer = DataWriter::of(self);
        let changes = [
            tell!(
                writer,
                masks,
                OfferedDeadlineMissed,
                on_offered_deadline_missed,
                offered_deadline_missed_status
            ),
            tell!(
                writer,
                masks,
                OfferedIncompatibleQos,
                on_offered_incompatible_qos,
                offered_incompatible_qos_status
            ),
            tell!(writer, masks, LivelinessLost, on_liveliness_lost, liveliness_lost_status),
            tell!(
                writer,
                masks,
                PublicationMatched,
                on_publication_matched,
                publication_matched_status
            ),
        ];
        changes.contains(&true)
    }

    fn next_check(&self) -> Option<Time> {
        // The machine itself checks when something is due, and the result is a status change.
        None
    }
}
