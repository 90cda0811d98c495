//! The publisher's calls that hold changes back.
//!
//! Owns: the calls. Never does: hold any changes;
//! [`HeldChanges`](crate::publication::changes::HeldChanges) does.

use super::Publisher;
use crate::infrastructure::{DdsResult, Readiness, ReadyFuture, Timeout};

/// Coherent sets: all changes between `begin` and `end` (samples,
/// disposals and unregistrations) reach a reader together or not at all.
/// See [PRESENTATION](super::PublisherBuilder::presentation).
///
/// A set is held back in this process until it ends. If the process is killed, or the writer
/// dropped, before the end, no reader ever sees any part of the set. At the end, each writer's part
/// of the set becomes one record of that writer: readers, late joiners and logs have either the
/// whole record or nothing. Each writer's part must fit into one record. The limit is the largest
/// sample, which is a sixteenth of the writer's memory unless
/// [`max_sample_size`](super::super::DataWriterBuilder::max_sample_size) sets another value.
///
/// ```no_run
/// use dds_api::prelude::*;
/// use dds_api::qos::{PresentationQosPolicy, PresentationQosPolicyAccessScopeKind};
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Leg { #[dds(key)] number: u32, heading: f64 }
/// # fn main() -> DdsResult<()> {
/// let presentation = PresentationQosPolicy {
///     access_scope: PresentationQosPolicyAccessScopeKind::Topic,
///     coherent_access: true,
///     ordered_access: true,
/// };
/// let participant = DomainParticipant::new(0)?;
/// let topic = participant.topic::<Leg>("Route").transient_local().create()?;
/// let publisher = participant.publisher().presentation(presentation.clone()).create()?;
/// let writer = publisher.writer(&topic).create()?;
/// let subscriber = participant.subscriber().presentation(presentation).create()?;
/// let reader = subscriber.reader(&topic).create()?;
///
/// publisher.begin_coherent_changes()?;
/// for number in 0..3 {
///     writer.write(&Leg { number, heading: 271.0 })?;
/// }
/// publisher.end_coherent_changes()?;                  // now all three are there, for everybody
/// assert_eq!(reader.take_data(.., Timeout::secs(1))?.count(), 3);
/// # Ok(())
/// # }
/// ```
impl Publisher {
    /// Begins a coherent set. Sets may be nested; only the outermost one counts.
    ///
    /// If PRESENTATION lacks `coherent_access`, the publisher holds nothing back: its writers write
    /// at once.
    pub fn begin_coherent_changes(&self) -> DdsResult<()> {
        self.changes().begin();
        Ok(())
    }

    /// Ends the innermost set. The end of the outermost set writes all changes: one record for each
    /// writer, in the order of the writers' first changes. If there is no room for a record, waits
    /// for up to its writer's max_blocking_time.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if no
    /// set is open; [`DdsError::Timeout`](crate::infrastructure::DdsError::Timeout) if there was no
    /// room for a writer's record. After a timeout the set is still open and contains the unwritten
    /// changes: end the set again, or [discard](Self::discard_coherent_changes) it.
    pub fn end_coherent_changes(&self) -> DdsResult<()> {
        self.changes().end(None)
    }

    /// As [`Publisher::end_coherent_changes`], once there is room.
    pub async fn end_coherent_changes_async(&self) -> DdsResult<()> {
        let participant = &self.0.participant;
        let membership = &participant.membership;
        loop {
            match self.changes().end(Some(Timeout::NOW)) {
                Err(error) if membership.outlasts(&error) => {}
                result => return result,
            }
            let ready =
                || Readiness::from(self.changes().has_room() || membership.is_out_for_good());
            let _wanted = participant.want_hints();
            ReadyFuture::new(&**participant, ready).await;
        }
    }

    /// Discards all changes that are held back since the outermost set began, and closes all open
    /// sets. Returns the number of discarded samples. The standard has no such call; without it, a
    /// set that cannot be completed could only be ended in part.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if no
    /// set is open.
    pub fn discard_coherent_changes(&self) -> DdsResult<usize> {
        self.changes().discard()
    }

    /// Hints that many samples will be written: until the publisher is resumed, writes do not wake
    /// sleeping readers. Written samples are available at once to readers that poll, and none is
    /// lost if the process ends.
    pub fn suspend_publications(&self) -> DdsResult<()> {
        self.changes().suspend();
        Ok(())
    }

    /// Ends a suspension begun by [`Publisher::suspend_publications`]. Sleeping readers are
    /// woken once.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if the
    /// publisher is not suspended.
    pub fn resume_publications(&self) -> DdsResult<()> {
        self.changes().resume()
    }
}
