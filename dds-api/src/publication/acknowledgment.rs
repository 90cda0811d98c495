//! Waiting until what was written is with all readers.
//!
//! Owns: the wait. Never does: know what an acknowledgment is; the machine does.

use derecho_core::ids::Time;
use derecho_node::Waited;

use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult};

/// Whether all that a writer has written so far is acknowledged by this time, or before the writer `is_gone`.
pub(super) fn are_acknowledged(
    participant: &Inner,
    writer: u64,
    deadline: Option<Time>,
    is_gone: impl Fn() -> bool,
) -> DdsResult<bool> {
    let (engine, standing) = (&participant.engine, &participant.standing);
    let life = standing.life();
    loop {
        // Acknowledgements are rows that change; each turn that sees one is a busy turn. Read
        // before the look, so that a turn in between is not taken for an old one.
        let turns = engine.counters().busy_turns();
        let acknowledged = engine.act(|machine, _, _| machine.is_acknowledged(writer));
        if !standing.is_in(life) {
            return Err(standing.error());
        }
        // Of one that is gone the machine knows nothing any more.
        if is_gone() {
            return Ok(false);
        }
        if acknowledged {
            return Ok(true);
        }
        let ready =
            || engine.counters().busy_turns() != turns || !standing.is_in(life) || is_gone();
        match engine.wait(deadline, ready) {
            Waited::Ready => {}
            Waited::Stopped => {
                return Err(DdsError::AlreadyDeleted("the participant has left".to_owned()));
            }
            Waited::TimedOut => return Ok(false),
        }
    }
}
