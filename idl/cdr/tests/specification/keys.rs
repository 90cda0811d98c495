//! Keys: input of the hash, and key-only payloads.

use idl_cdr::{DdsType, key_from_cdr, key_hash, key_to_cdr, key_to_cdr_with};

use super::{V1, V2, V2_BIG};

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Foo")]
struct ByNumber {
    #[dds(key)]
    id: i32,
    x: i32,
    y: i32,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Foo")]
struct ByLabel {
    #[dds(key, bound = 12)]
    label: String,
    #[dds(key)]
    id: i64,
    x: i32,
    y: i32,
}

/// The examples of RTPS 9.6.4.8 (9.6.3.8 in 2.3) with XTYPES 7.6.8: the key as big-endian version
/// 2, padded with zeroes, or its MD5 if the longest key does not fit into 16 bytes, whether or not
/// this one does.
#[test]
fn key_hashes_match_examples_of_standard() {
    let foo = ByNumber { id: 0x1234_5678, x: 1, y: 2 };
    let hash = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(key_hash(&foo).unwrap(), hash);
    let foo = ByLabel { label: "BLUE".to_owned(), id: 0x1234_5678_9abc_def0, x: 1, y: 2 };
    #[rustfmt::skip]
    let key = [
        0, 0, 0, 5, b'B', b'L', b'U', b'E', 0,
        0, 0, 0, // up to a multiple of four, as version 2 has it
        0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
    ];
    assert_eq!(key_to_cdr(&foo).unwrap(), key);
    // `printf '\0\0\0\x05BLUE\0\0\0\0\x12\x34\x56\x78\x9a\xbc\xde\xf0' | md5sum`
    let hash = 0xf91a_59e3_2e45_35d9_a69c_d5d9_f5b6_e36e_u128.to_be_bytes();
    assert_eq!(key_hash(&foo).unwrap(), hash);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Numbered {
    x: u64,
    #[dds(key)]
    id: u16,
    #[dds(key)]
    part: Part,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Part {
    #[dds(key)]
    place: u8,
    y: u32,
}

/// RTPS 9.4.6.3 with XTYPES 7.6.8.2: a key-only payload is one of the type that has only the key
/// members (KeyHolder), framed like the type. The input of the hash has neither a header nor a size
/// in front (KeyErased: final).
#[test]
fn key_only_payload_follows_key_holder_rules() {
    let foo = ByNumber { id: 0x1234_5678, x: 1, y: 2 };
    let payload = key_to_cdr_with(&foo, V1).unwrap();
    assert_eq!(payload, [0, 1, 0, 0, 0x78, 0x56, 0x34, 0x12]);
    assert_eq!(key_from_cdr::<ByNumber>(&payload).unwrap().id, foo.id);
    assert_eq!(key_to_cdr_with(&foo, V2_BIG).unwrap(), [0, 6, 0, 0, 0x12, 0x34, 0x56, 0x78]);
    let value = Numbered { x: 1, id: 0x0102, part: Part { place: 3, y: 4 } };
    let payload = key_to_cdr_with(&value, V2).unwrap();
    assert_eq!(payload, [0, 9, 0, 1, 3, 0, 0, 0, 2, 1, 3, 0]);
    assert_eq!(key_to_cdr_with(&value, V1).unwrap(), [0, 1, 0, 1, 2, 1, 3, 0]);
    assert_eq!(key_to_cdr(&value).unwrap(), [1, 2, 3]);
    let read = key_from_cdr::<Numbered>(&payload).unwrap();
    assert_eq!((read.id, read.part.place), (value.id, value.part.place));
}
