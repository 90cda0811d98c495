//! Tasks that wait for what readers give back.
//!
//! Owns: that whoever drives is woken for it. Never does: wait.

use super::Inner;

/// As long as it is there, whoever drives is woken also when readers have received or released something: a task that waits
/// for that drives nothing, and so cannot ask for it itself.
pub(crate) struct HintsWanted<'a>(&'a Inner);

impl Inner {
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
