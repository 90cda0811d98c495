//! The hashes of the standard.
//!
//! Owns what goes into them. Never knows what a hash stands for.

use md5::{Digest, Md5};

use crate::standard::{EquivalenceHash, NameHash};

/// The first four bytes of the MD5 of a member's name.
pub(crate) fn of_name(name: &str) -> NameHash {
    let [a, b, c, d, ..]: [u8; 16] = Md5::digest(name.as_bytes()).into();
    [a, b, c, d]
}

/// The first fourteen bytes of the MD5 of a serialized object.
pub(crate) fn of_object(bytes: &[u8]) -> EquivalenceHash {
    let digest: [u8; 16] = Md5::digest(bytes).into();
    let mut hash = [0; 14];
    hash.copy_from_slice(&digest[..14]);
    hash
}

/// The MD5 of a key that does not fit into its hash.
pub(crate) fn of_key(key: &[u8]) -> [u8; 16] {
    Md5::digest(key).into()
}
