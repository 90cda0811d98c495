//! Random bytes into every decoder, and round trips of random values.

#![allow(clippy::unwrap_used)]

use idl_cdr::{
    CdrReader, DdsType, Encoding, from_cdr, from_plain_bytes, plain_ref, serialize_into,
    serialized_size, to_cdr, to_cdr_with,
};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
enum Kind {
    A,
    B = 7,
    C = -2,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Leaf {
    kind: Kind,
    name: String,
    wide: i64,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Tree {
    #[dds(key)]
    id: u16,
    leaves: Vec<Leaf>,
    rows: Vec<Vec<u16>>,
    grid: [[i32; 2]; 3],
    #[dds(bound = 20)]
    flags: Vec<bool>,
    pairs: [Leaf; 2],
    #[dds(bound = [10, 8])]
    words: Vec<String>,
}

const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];

fn leaf() -> impl Strategy<Value = Leaf> {
    let kind = prop_oneof![Just(Kind::A), Just(Kind::B), Just(Kind::C)];
    (kind, "[^\0]{0,6}", any::<i64>()).prop_map(|(kind, name, wide)| Leaf { kind, name, wide })
}

fn tree() -> impl Strategy<Value = Tree> {
    (
        any::<u16>(),
        vec(leaf(), 0..4),
        vec(vec(any::<u16>(), 0..4), 0..4),
        any::<[[i32; 2]; 3]>(),
        vec(any::<bool>(), 0..20),
        [leaf(), leaf()],
        vec("[a-z]{0,8}", 0..10),
    )
        .prop_map(|(id, leaves, rows, grid, flags, pairs, words)| Tree {
            id,
            leaves,
            rows,
            grid,
            flags,
            pairs,
            words,
        })
}

fn encoding() -> impl Strategy<Value = Encoding> {
    (0..ENCODINGS.len()).prop_map(|index| ENCODINGS[index])
}

/// Reads a `T` in every encoding; a value that is read must survive writing and reading.
fn feed<T: DdsType + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    for encoding in ENCODINGS {
        let mut reader = CdrReader::new(bytes, encoding);
        let Ok(value) = T::deserialize(&mut reader) else { continue };
        assert!(reader.position() <= bytes.len());
        let again = from_cdr::<T>(&to_cdr_with(&value, encoding).unwrap()).unwrap();
        // Bytes are compared instead of values because a NaN is not equal to itself.
        assert_eq!(to_cdr(&again).unwrap(), to_cdr(&value).unwrap());
    }
    if let Ok(value) = from_cdr::<T>(bytes) {
        to_cdr(&value).unwrap();
    }
    if let Some(value) = from_plain_bytes::<T>(bytes) {
        to_cdr(&value).unwrap();
    }
    plain_ref::<T>(bytes);
}

macro_rules! feed_all {
    ($bytes:expr; $($kind:ty),* $(,)?) => { $(feed::<$kind>($bytes);)* };
}

proptest! {
    #[test]
    fn decoder_does_not_panic_on_random_bytes(bytes in vec(any::<u8>(), 0..200)) {
        feed_all!(&bytes; u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool, String, Kind, Leaf,
            Tree, Vec<u8>, Vec<f64>, Vec<bool>, Vec<String>, Vec<Kind>, Vec<Leaf>, Vec<Vec<u64>>,
            Vec<[u32; 3]>, [u8; 7], [[f32; 2]; 2], [String; 2], [Leaf; 1], [[Kind; 2]; 1]);
    }

    /// Random bytes rarely get past the first length; small numbers get further.
    #[test]
    fn decoder_does_not_panic_on_plausible_bytes(bytes in vec(prop_oneof![4 => Just(0), 1 => 0_u8..9], 0..200)) {
        feed_all!(&bytes; String, Kind, Leaf, Tree, Vec<String>, Vec<Leaf>, Vec<Vec<u64>>,
            Vec<[u32; 3]>, [String; 2], [[Kind; 2]; 1]);
    }

    #[test]
    fn decoder_does_not_panic_on_damaged_payload(
        tree in tree(),
        encoding in encoding(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut payload = to_cdr_with(&tree, encoding).unwrap();
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        feed::<Tree>(&payload[4..]);
        payload.truncate(cut.index(payload.len() + 1));
        feed::<Tree>(&payload);
    }

    #[test]
    fn tree_survives_round_trip_in_every_encoding(tree in tree(), encoding in encoding()) {
        let payload = to_cdr_with(&tree, encoding).unwrap();
        prop_assert_eq!(payload.len() % 4, 0);
        prop_assert_eq!(from_cdr::<Tree>(&payload).unwrap(), tree);
    }

    #[test]
    fn to_cdr_serialized_size_and_serialize_into_agree(tree in tree()) {
        let payload = to_cdr(&tree).unwrap();
        prop_assert_eq!(serialized_size(&tree).unwrap(), payload.len());
        let mut buffer = vec![0xee; payload.len() + 5];
        prop_assert_eq!(serialize_into(&tree, &mut buffer).unwrap(), payload.len());
        prop_assert_eq!(&buffer[..payload.len()], &payload[..]);
    }

    #[test]
    fn decoder_rejects_truncated_value(tree in tree(), cut in any::<prop::sample::Index>()) {
        let payload = to_cdr(&tree).unwrap();
        let padding = usize::from(payload[3]);
        let mut body = payload[..cut.index(payload.len() - padding)].to_vec();
        if let Some(options) = body.get_mut(3) {
            *options = 0;
        }
        prop_assert!(from_cdr::<Tree>(&body).is_err());
    }
}
