//! Round trips of random values of every kind of type, and hostile bytes into every decoder.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod types;

use idl_cdr::{
    CdrError, CdrReader, CdrWriter, DdsType, Encoding, from_cdr, key_from_cdr, key_hash,
    key_to_cdr, key_to_cdr_with, serialize_into, serialized_size, to_cdr, to_cdr_with,
};
use proptest::collection::vec;
use proptest::prelude::*;
use types::*;

/// Checks that the payload of a value is read as the value.
fn comes_back<T: DdsType + PartialEq + std::fmt::Debug>(value: &T, encoding: Encoding) {
    let payload = to_cdr_with(value, encoding).unwrap();
    assert_eq!(payload.len() % 4, 0);
    assert_eq!(&from_cdr::<T>(&payload).unwrap(), value, "{encoding:?} {payload:02x?}");
}

/// Checks that a value read from bytes can be written and read again as the same bytes.
fn feed<T: DdsType>(bytes: &[u8], encoding: Encoding) {
    let mut reader = CdrReader::new(bytes, encoding);
    if let Ok(value) = T::deserialize(&mut reader) {
        assert!(reader.position() <= bytes.len());
        let payload = to_cdr_with(&value, encoding).unwrap();
        let again = from_cdr::<T>(&payload).unwrap();
        assert_eq!(to_cdr_with(&again, encoding).unwrap(), payload);
    }
}

fn feed_all(bytes: &[u8]) {
    for encoding in ENCODINGS {
        feed::<Everything>(bytes, encoding);
        feed::<Derived>(bytes, encoding);
        feed::<Texts>(bytes, encoding);
        feed::<Collections>(bytes, encoding);
        feed::<Colored>(bytes, encoding);
        feed::<Either>(bytes, encoding);
        feed::<Tree>(bytes, encoding);
        feed::<Numbers>(bytes, encoding);
    }
    let _ = from_cdr::<Everything>(bytes);
    let _ = key_from_cdr::<Everything>(bytes);
}

proptest! {
    #[test]
    fn random_value_survives_round_trip(value in everything(), encoding in encoding()) {
        comes_back(&value, encoding);
    }

    #[test]
    fn random_unions_and_trees_survive_round_trip(
        colored in colored(),
        either in either(),
        tree in tree(),
        changing in changing(),
        encoding in encoding(),
    ) {
        comes_back(&colored, encoding);
        comes_back(&either, encoding);
        comes_back(&tree, encoding);
        comes_back(&changing, encoding);
    }

    /// The counted size equals the written size, in any buffer, whatever its old contents.
    #[test]
    fn to_cdr_cdr_writer_and_serialized_size_agree(value in everything(), encoding in encoding()) {
        let payload = to_cdr_with(&value, encoding).unwrap();
        let mut buffer = vec![0xee; payload.len() + 5];
        let mut writer = CdrWriter::over(&mut buffer, encoding);
        writer.write_header(Everything::EXTENSIBILITY).unwrap();
        value.serialize(&mut writer).unwrap();
        prop_assert_eq!(writer.finish().unwrap(), payload.len());
        prop_assert_eq!(&buffer[..payload.len()], &payload[..]);
        if encoding == Encoding::default() {
            prop_assert_eq!(serialized_size(&value).unwrap(), payload.len());
            let mut short = vec![0; payload.len() - 1];
            let no_room = matches!(serialize_into(&value, &mut short), Err(CdrError::NoRoom { .. }));
            prop_assert!(no_room);
        }
    }

    #[test]
    fn key_only_payload_survives_round_trip(value in everything(), encoding in encoding()) {
        let payload = key_to_cdr_with(&value, encoding).unwrap();
        let key = key_from_cdr::<Everything>(&payload).unwrap();
        prop_assert_eq!(key.derived.more, value.derived.more);
        prop_assert_eq!(key.derived.base.number, value.derived.base.number);
        prop_assert_eq!(key.derived.base.wide, 0);
        prop_assert_eq!(key_to_cdr(&key).unwrap(), key_to_cdr(&value).unwrap());
        prop_assert_eq!(key_hash(&key).unwrap(), key_hash(&value).unwrap());
    }

    #[test]
    fn decoder_of_each_kind_does_not_panic_on_random_bytes(bytes in vec(any::<u8>(), 0..200)) {
        feed_all(&bytes);
    }

    /// Random bytes rarely get past the first length; small numbers get further.
    #[test]
    fn decoder_of_each_kind_does_not_panic_on_plausible_bytes(
        bytes in vec(prop_oneof![6 => Just(0), 2 => Just(1), 1 => 0_u8..9, 1 => any::<u8>()], 0..300),
    ) {
        feed_all(&bytes);
    }

    #[test]
    fn decoder_of_each_kind_does_not_panic_on_damaged_payload(
        value in everything(),
        encoding in encoding(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut payload = to_cdr_with(&value, encoding).unwrap();
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        payload.truncate(cut.index(payload.len() + 1));
        feed_all(&payload);
        if payload.len() > 4 {
            feed::<Everything>(&payload[4..], encoding);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Every truncation, every flipped bit, every four bytes replaced by a huge number.
    #[test]
    fn decoder_does_not_panic_on_truncation_bit_flip_or_huge_number(value in everything(), encoding in encoding()) {
        let payload = to_cdr_with(&value, encoding).unwrap();
        for end in 0..payload.len() {
            let _ = from_cdr::<Everything>(&payload[..end]);
        }
        for at in 4..payload.len() {
            for bit in 0..8 {
                let mut damaged = payload.clone();
                damaged[at] ^= 1 << bit;
                let _ = from_cdr::<Everything>(&damaged);
            }
        }
        for at in 4..payload.len().saturating_sub(4) {
            for number in [u32::MAX, 1 << 31, 0x7fff_ffff, 1 << 20] {
                let mut damaged = payload.clone();
                damaged[at..at + 4].copy_from_slice(&number.to_le_bytes());
                let _ = from_cdr::<Everything>(&damaged);
            }
        }
    }
}

/// For types without missing members, every truncation is an error.
#[test]
fn decoder_rejects_every_truncated_payload() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (numbers(), collections(), changing(), encoding());
    runner
        .run(&strategy, |(numbers, collections, changing, encoding)| {
            fn cut<T: DdsType>(value: &T, encoding: Encoding) {
                let payload = to_cdr_with(value, encoding).unwrap();
                let padding = usize::from(payload[3]);
                for end in 4..payload.len() - padding {
                    let mut body = payload[..end].to_vec();
                    body[3] = 0;
                    assert!(from_cdr::<T>(&body).is_err(), "{end} of {}", payload.len());
                }
            }
            cut(&numbers, encoding);
            cut(&changing, encoding);
            if encoding.version == idl_cdr::CdrVersion::Xcdr2 {
                cut(&collections, encoding);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn default_payload_states_its_representation() {
    let value = Either::Left("a".into());
    assert_eq!(to_cdr(&value).unwrap()[..2], [0, 0x0b]);
}
