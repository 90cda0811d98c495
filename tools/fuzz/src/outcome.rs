//! Outcome of an input, in few bits, so that similar inputs share an outcome.
//!
//! Owns: the novelty of an input where no coverage is known. Never does: judge.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Outcome of an input. An input with a new outcome is a good basis for further inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome(u32);

/// Collector of an outcome.
#[derive(Default)]
pub(crate) struct OutcomeBuilder(DefaultHasher);

impl OutcomeBuilder {
    /// Adds a number that says how far the input got; only its magnitude counts.
    pub(crate) fn size(&mut self, size: usize) -> &mut Self {
        size.checked_ilog2().hash(&mut self.0);
        self
    }

    /// Adds a choice.
    pub(crate) fn kind(&mut self, kind: impl Hash) -> &mut Self {
        kind.hash(&mut self.0);
        self
    }

    /// Adds a message, without its numbers and quoted parts.
    pub(crate) fn said(&mut self, message: &str) -> &mut Self {
        let mut quoted = false;
        for letter in message.chars().take(400) {
            quoted ^= letter == '`';
            if !quoted && !letter.is_ascii_digit() {
                letter.hash(&mut self.0);
            }
        }
        self
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let hash = self.0.finish();
        Outcome((hash ^ (hash >> 32)) as u32)
    }
}
