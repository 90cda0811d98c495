//! Hashes of types, computed by the compiler.
//!
//! Owns the hash function (FNV-1a, 64 bits) and the way names and numbers go into it. A hash is
//! compared between processes, so nothing here may depend on the machine.

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A hash in the making. Each step takes the hash and gives the next one, so that a whole type can
/// be hashed in a constant.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The start of the hash of a `kind` of thing (`"struct"`, `"sequence"`, ...).
    pub const fn new(kind: &str) -> Self {
        Self(OFFSET_BASIS).text(kind)
    }

    /// Adds a text; its length goes in first, so that neighbours cannot be confused.
    #[must_use]
    pub const fn text(self, text: &str) -> Self {
        self.number(text.len() as u64).bytes(text.as_bytes())
    }

    /// Adds a number.
    #[must_use]
    pub const fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Adds a list of numbers, with its length.
    #[must_use]
    pub const fn numbers(self, numbers: &[u32]) -> Self {
        let mut next = self.number(numbers.len() as u64);
        let mut index = 0;
        while index < numbers.len() {
            next = next.number(numbers[index] as u64);
            index += 1;
        }
        next
    }

    /// Adds a member of a struct: its name, its type's fingerprint, the bounds of its type, and
    /// whether it belongs to the key.
    #[must_use]
    pub const fn member(
        self,
        name: &str,
        type_fingerprint: u64,
        bounds: &[u32],
        key: bool,
    ) -> Self {
        self.text(name).number(type_fingerprint).numbers(bounds).number(key as u64)
    }

    /// The finished hash.
    pub const fn finish(self) -> u64 {
        self.0
    }

    const fn bytes(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        let mut index = 0;
        while index < bytes.len() {
            hash = (hash ^ bytes[index] as u64).wrapping_mul(PRIME);
            index += 1;
        }
        Self(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_function_is_fnv_1a() {
        assert_eq!(Fingerprint(OFFSET_BASIS).bytes(b"").finish(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fingerprint(OFFSET_BASIS).bytes(b"a").finish(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fingerprint(OFFSET_BASIS).bytes(b"foobar").finish(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn neighbouring_texts_keep_their_border() {
        let one = Fingerprint::new("struct").text("ab").text("c").finish();
        let other = Fingerprint::new("struct").text("a").text("bc").finish();
        assert_ne!(one, other);
    }
}
