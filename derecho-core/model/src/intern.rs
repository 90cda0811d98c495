//! Interning: every large value is stored once and named by a number, so that a state of the world
//! is a few numbers, and equal states are identical.
//!
//! Owns: the tables. Never does: forget a value.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::rc::Rc;

/// Hash map with quick hashing.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<QuickHasher>>;

/// Values by number, numbers by value.
pub struct Table<T> {
    all: Vec<Rc<T>>,
    numbers: Map<Rc<T>, u32>,
}

impl<T: Eq + Hash> Default for Table<T> {
    fn default() -> Table<T> {
        Table { all: Vec::new(), numbers: Map::default() }
    }
}

impl<T: Eq + Hash> Table<T> {
    /// Returns the number of a value, a new one if the value was not seen before.
    pub fn number(&mut self, thing: T) -> u32 {
        if let Some(&known) = self.numbers.get(&thing) {
            return known;
        }
        let (thing, number) = (Rc::new(thing), self.all.len() as u32);
        self.all.push(Rc::clone(&thing));
        self.numbers.insert(thing, number);
        number
    }

    /// Returns the value of a number that [`Table::number`] gave.
    pub fn get(&self, number: u32) -> &Rc<T> {
        &self.all[number as usize]
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        self.all.len()
    }
}

/// Hasher that multiplies and rotates: good enough for numbers, and quick.
#[derive(Clone, Copy, Default)]
pub struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 =
            (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ (self.0 >> 7);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
