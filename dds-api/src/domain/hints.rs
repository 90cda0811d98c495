//! Wake-ups for tasks that wait until readers have received or released something.
//!
//! Owns: the request that the driving thread be woken for that. Never does: wait.

use super::ParticipantInner;

/// While this value exists, the driving thread is also woken when readers have received or released
/// something. A task that waits for that drives nothing, and so cannot request it itself.
pub(crate) struct HintsWanted<'a>(&'a ParticipantInner);

impl ParticipantInner {
    /// See [`HintsWanted`].
    pub(crate) fn want_hints(&self) -> HintsWanted<'_> {
        self.engine.act(|machine, _, _| machine.hints_wanted += 1);
        HintsWanted(self)
    }
}

impl Drop for HintsWanted<'_> {
    fn drop(&mut self) {
        self.0.engine.act(|machine, _, _| machine.hints_wanted -= 1);
    }
}
