//! The only source of randomness: SplitMix64, small enough to read and fixed forever, so that a
//! seed means the same run on every machine.
//!
//! Owns: the generator and the mixing function, which the trace hash shares. Never does: take
//! entropy from anywhere.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a word so that each input bit changes about half of the output bits.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A stream of pseudo-random numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the stream of this seed.
    pub fn new(seed: u64) -> Random {
        // Mixed, so that neighbouring seeds do not give shifted copies of one stream.
        Random { state: mix(seed ^ STEP) }
    }

    /// Returns the next 64 bits.
    pub fn next_word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: evenly spread, up to a bias that no test could see.
        ((u128::from(self.next_word()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included; `low` if they are reversed.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns true once in `n` on average; never if `n` is zero.
    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_stream_and_bounds_hold() {
        let mut a = Random::new(1);
        let mut b = Random::new(1);
        assert!((0..100).all(|_| a.next_word() == b.next_word()));
        assert_ne!(Random::new(2).next_word(), Random::new(1).next_word());
        assert!((0..1000).all(|_| a.below(7) < 7));
        assert!((0..1000).all(|_| (3..=5).contains(&a.between(3, 5))));
        assert_eq!((a.below(0), a.between(9, 2), a.one_in(0)), (0, 9, false));
    }
}
