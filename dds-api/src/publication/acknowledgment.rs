//! Waiting until all readers have acknowledged the written samples.
//!
//! Owns: the wait. Never does: interpret acknowledgements; the machine does.

use derecho_core::ids::Time;
use derecho_node::WaitOutcome;

use crate::domain::ParticipantInner;
use crate::infrastructure::{DdsError, DdsResult};

/// Waits until all samples written so far are acknowledged. Returns `false` if the deadline passes
/// or the writer `is_gone` before that.
pub(super) fn are_acknowledged(
    participant: &ParticipantInner,
    writer: u64,
    deadline: Option<Time>,
    is_gone: impl Fn() -> bool,
) -> DdsResult<bool> {
    let (engine, membership) = (&participant.engine, &participant.membership);
    let life = membership.life();
    loop {
        // Acknowledgements are changes of rows, and each turn that sees one is a busy turn. The
        // counter is read before the check, so that a turn between the two is noticed by the wait.
        let turns = engine.counters().busy_turns();
        let acknowledged = engine.act(|machine, _, _| machine.is_acknowledged(writer));
        if !membership.is_in(life) {
            return Err(membership.error());
        }
        // The machine knows nothing about a deleted writer.
        if is_gone() {
            return Ok(false);
        }
        if acknowledged {
            return Ok(true);
        }
        let ready =
            || engine.counters().busy_turns() != turns || !membership.is_in(life) || is_gone();
        match engine.wait(deadline, ready) {
            WaitOutcome::Ready => {}
            WaitOutcome::Stopped => {
                return Err(DdsError::AlreadyDeleted("the participant has left".to_owned()));
            }
            WaitOutcome::TimedOut => return Ok(false),
        }
    }
}
