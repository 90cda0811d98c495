//! Hashes of the standard.
//!
//! Owns their input. Never knows the meaning of a hash.

use md5::{Digest, Md5};

use crate::standard::{EquivalenceHash, NameHash};

/// Returns the first four bytes of the MD5 of a member's name.
pub(crate) fn of_name(name: &str) -> NameHash {
    let [a, b, c, d, ..]: [u8; 16] = Md5::digest(name.as_bytes()).into();
    [a, b, c, d]
}

/// Returns the first fourteen bytes of the MD5 of a serialised object.
pub(crate) fn of_object(bytes: &[u8]) -> EquivalenceHash {
    let digest: [u8; 16] = Md5::digest(bytes).into();
    let mut hash = [0; 14];
    hash.copy_from_slice(&digest[..14]);
    hash
}

/// Returns the MD5 of a key that does not fit into its hash.
pub(crate) fn of_key(key: &[u8]) -> [u8; 16] {
    Md5::digest(key).into()
}
