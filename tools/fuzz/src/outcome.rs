//! What became of an input, in so few bits that inputs of one kind share them.
//!
//! Owns: what makes an input worth to go on from where no coverage is known. Never does: judge.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What became of an input. One that differs from all before is worth to go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome(u32);

/// Gathers it.
#[derive(Default)]
pub(crate) struct Gathered(DefaultHasher);

impl Gathered {
    /// A number that says how far the input came; magnitudes count, not single steps.
    pub(crate) fn size(&mut self, size: usize) -> &mut Self {
        size.checked_ilog2().hash(&mut self.0);
        self
    }

    /// A choice.
    pub(crate) fn kind(&mut self, kind: impl Hash) -> &mut Self {
        kind.hash(&mut self.0);
        self
    }

    /// What is said of it, without numbers and what is quoted.
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
