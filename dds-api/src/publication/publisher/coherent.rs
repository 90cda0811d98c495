//! The publisher's calls that hold changes back.
//!
//! Owns: the calls. Never does: hold anything; [`Changes`](crate::publication::changes::Changes) does.

use super::Publisher;
use crate::infrastructure::{DdsResult, Look, Timeout, Until};

/// Coherent sets: what is written between `begin` and `end`, samples, disposals and unregistrations, reaches a reader as one,
/// or not at all. See [PRESENTATION](super::PublisherBuilder::presentation).
///
/// A set is held back in this process until it ends. If the process is killed, or the writer dropped, before that, nobody
/// ever sees any of it. When it ends, what each writer has written in it becomes one record of that writer: readers,
/// those who come late, and logs have all of that record or nothing. Each writer's part has to fit into one record, so it
/// may be as large as the largest sample, a sixteenth of the writer's memory unless
/// [`max_sample_size`](super::super::DataWriterBuilder::max_sample_size) says more.
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
/// assert_eq!(reader.take(.., Timeout::secs(1))?.count(), 3);
/// # Ok(())
/// # }
/// ```
impl Publisher {
    /// Begins a coherent set. Sets may be within each other: the outermost one counts.
    ///
    /// A publisher whose PRESENTATION is without `coherent_access` keeps nothing together: its writers write at once.
    pub fn begin_coherent_changes(&self) -> DdsResult<()> {
        self.changes().begin();
        Ok(())
    }

    /// Ends the set that was begun last. With the outermost one all of it is written: of each writer as one, in the order in
    /// which the writers wrote first. Waits for up to each writer's max_blocking_time if there is no room for it.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if no set is open;
    /// [`DdsError::Timeout`](crate::infrastructure::DdsError::Timeout) if there was no room for a writer's part. Then the set is
    /// still open, with what is not written yet: end it again, or
    /// [discard](Self::discard_coherent_changes) it.
    pub fn end_coherent_changes(&self) -> DdsResult<()> {
        self.changes().end(None)
    }

    /// As [`Publisher::end_coherent_changes`], once there is room.
    pub async fn end_coherent_changes_async(&self) -> DdsResult<()> {
        let participant = &self.0.participant;
        let standing = &participant.standing;
        loop {
            match self.changes().end(Some(Timeout::NOW)) {
                Err(error) if standing.outlasts(&error) => {}
                result => return result,
            }
            let ready = || Look::from(self.changes().has_room() || standing.is_out_for_good());
            let _wanted = participant.want_hints();
            Until::new(&**participant, ready).await;
        }
    }

    /// Forgets what was written since the outermost set began and is held back, and closes all sets that are open: as if it
    /// had never been written. Returns how many samples that were. The standard has no such call; without it a set
    /// that cannot be completed could only be ended in part.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if no set is open.
    pub fn discard_coherent_changes(&self) -> DdsResult<usize> {
        self.changes().discard()
    }

    /// A hint that much will be written at once: until it is resumed, readers that sleep are not woken for what its writers
    /// write. What is written is there all the same, for whoever looks, and none of it is lost if the process ends.
    pub fn suspend_publications(&self) -> DdsResult<()> {
        self.changes().suspend();
        Ok(())
    }

    /// Ends what [`Publisher::suspend_publications`] has begun: readers that sleep are woken, once.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`](crate::infrastructure::DdsError::PreconditionNotMet) if it is not suspended.
    pub fn resume_publications(&self) -> DdsResult<()> {
        self.changes().resume()
    }
}
