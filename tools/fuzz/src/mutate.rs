//! Mutation of inputs.
//!
//! Owns: the kind and number of changes. Never does: run a target, or know the meaning of bytes
//! beyond lengths and words.

use crate::Target;

/// Pseudo-random number generator; the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below a limit, or 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % (limit.max(1) as u64)) as usize
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

/// Edge cases of lengths, bounds and counts.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    3,
    4,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x1000_0000,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Generator of inputs from given ones.
#[derive(Clone, Debug)]
pub struct Mutator {
    target: Target,
    random: Random,
}

impl Mutator {
    /// Makes a mutator of a target's inputs; the seed determines the results.
    pub fn new(target: Target, seed: u64) -> Self {
        Self { target, random: Random::new(seed) }
    }

    /// Returns an input of the corpus with some changes.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.random.of(corpus).cloned().unwrap_or_default();
        for _ in 0..=self.random.below(6) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(self.target.longest);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let (random, length) = (&mut self.random, bytes.len());
        let at = random.below(length + 1);
        let kinds = if self.target.words.is_empty() { 9 } else { 12 };
        match random.below(kinds) {
            0 if at < length => bytes[at] ^= 1 << random.below(8),
            1 if at < length => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + random.below(24)).min(length))),
            4 => {
                let part = bytes[at..(at + random.below(64)).min(length)].to_vec();
                let into = random.below(length + 1);
                bytes.splice(into..into, part);
            }
            5 => {
                let Some(donor) = random.of(corpus) else { return };
                let from = random.below(donor.len() + 1);
                let to = (from + random.below(200)).min(donor.len());
                let over = random.below(40).min(length - at);
                bytes.splice(at..at + over, donor[from..to].iter().copied());
            }
            6 => number(random, bytes, at),
            7 => {
                let byte = random.below(256) as u8;
                bytes.insert(at, byte);
            }
            // Changes a count slightly.
            8 if at < length => {
                let by = random.below(9) as u8;
                bytes[at] = bytes[at].wrapping_add(by).wrapping_sub(4);
            }
            9.. => {
                let Some(word) = random.of(self.target.words) else { return };
                let over = random.below(2) * random.below(12).min(length - at);
                bytes.splice(at..at + over, word.bytes());
            }
            _ => {}
        }
    }
}

/// Replaces bytes that may be a number (a length, a bound, a count), often at an aligned position.
fn number(random: &mut Random, bytes: &mut [u8], at: usize) {
    let size = [1, 2, 4, 8][random.below(4)];
    // In most encodings four bytes lie at multiples of four.
    let at = if random.below(2) == 0 { at } else { at - at % size };
    let Some(place) = bytes.get_mut(at..at + size) else { return };
    let number = EDGES[random.below(EDGES.len())].to_le_bytes();
    place.copy_from_slice(&number[..size]);
    if random.below(2) == 0 {
        place.reverse();
    }
}
