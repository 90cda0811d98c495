//! Bytes spelled by hand from clauses of the standards: DDS-XTYPES 1.3 (its rules of serialization by their numbers) and
//! DDSI-RTPS 2.5. Each case names the clause.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fmt::Debug;

use idl_cdr::{
    DdsStruct, DdsType, Encoding, LongDouble, WString, from_cdr, key_hash, key_to_cdr, to_cdr_with,
};

const V1_BIG: Encoding = Encoding::CDR_BE;
const V1: Encoding = Encoding::CDR_LE;
const V2_BIG: Encoding = Encoding::PLAIN_CDR2_BE;
const V2: Encoding = Encoding::PLAIN_CDR2_LE;

/// A value has this payload, and is read from it.
#[track_caller]
fn spelled<T: DdsType + PartialEq + Debug>(value: &T, encoding: Encoding, payload: &[&[u8]]) {
    let payload = payload.concat();
    assert_eq!(to_cdr_with(value, encoding).unwrap(), payload, "{encoding:?}");
    assert_eq!(from_cdr::<T>(&payload).unwrap(), *value, "{encoding:?}");
}

/// The header of a payload of a final type that ends with so many bytes of padding.
const fn header(encoding: Encoding, padding: u8) -> [u8; 4] {
    let [_, low] = encoding.representation_id(idl_cdr::Extensibility::Final).to_be_bytes();
    [0, low, 0, padding]
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "final")]
struct Final {
    a: u8,
    b: u32,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Appendable {
    a: u8,
    b: u32,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Mutable {
    a: u8,
    b: u32,
}

/// XTYPES table 60 (7.6.3.1.2), which is how implementations write them; the identifiers of RTPS table 10.3 differ for
/// version 2.
#[test]
fn encapsulation_identifiers() {
    let of = |encoding| {
        let (a, b) = (1, 2);
        let payloads = [
            to_cdr_with(&Final { a, b }, encoding).unwrap(),
            to_cdr_with(&Appendable { a, b }, encoding).unwrap(),
            to_cdr_with(&Mutable { a, b }, encoding).unwrap(),
        ];
        payloads.map(|payload| [payload[0], payload[1]])
    };
    assert_eq!(of(V1_BIG), [[0x00, 0x00], [0x00, 0x00], [0x00, 0x02]]); // CDR_BE, PL_CDR_BE
    assert_eq!(of(V1), [[0x00, 0x01], [0x00, 0x01], [0x00, 0x03]]); // CDR_LE, PL_CDR_LE
    assert_eq!(of(V2_BIG), [[0x00, 0x06], [0x00, 0x08], [0x00, 0x0a]]); // CDR2_BE, D_CDR2_BE, PL_CDR2_BE
    assert_eq!(of(V2), [[0x00, 0x07], [0x00, 0x09], [0x00, 0x0b]]); // CDR2_LE, D_CDR2_LE, PL_CDR2_LE
}

/// XTYPES 7.6.3.1.2 and rule (1): the last two bits of the options count the padding up to a multiple of four, and
/// alignment counts from behind the header.
#[test]
fn options_count_the_padding() {
    spelled(&0x55_u8, V2, &[&[0, 7, 0, 3], &[0x55, 0, 0, 0]]);
    spelled(&0x55aa_u16, V2, &[&[0, 7, 0, 2], &[0xaa, 0x55, 0, 0]]);
    spelled(&[1_u8, 2, 3], V1_BIG, &[&[0, 0, 0, 1], &[1, 2, 3, 0]]);
    spelled(&1_u64, V1_BIG, &[&[0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 1]]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Aligned {
    a: u8,
    b: u16,
    c: u8,
    d: u64,
    e: u8,
    f: LongDouble,
}

/// Rule (2) and 7.4.3.2.1: a number is aligned to its size, in version 1 to eight bytes at most and in version 2 to four.
#[test]
fn rule_2_primitives() {
    let f = LongDouble(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10_u128.to_le_bytes());
    let value = Aligned { a: 1, b: 0x0203, c: 4, d: 0x0506_0708_090a_0b0c, e: 13, f };
    let f: [u8; 16] = std::array::from_fn(|place| place as u8 + 1);
    let d = [5, 6, 7, 8, 9, 10, 11, 12];
    let head = [1, 0, 2, 3, 4, 0, 0, 0];
    spelled(&value, V1_BIG, &[&header(V1_BIG, 0), &head, &d, &[13, 0, 0, 0, 0, 0, 0, 0], &f]);
    spelled(&value, V2_BIG, &[&header(V2_BIG, 0), &head, &d, &[13, 0, 0, 0], &f]);
    let (mut d, mut f) = (d, f);
    d.reverse();
    f.reverse();
    let head = [1, 0, 3, 2, 4, 0, 0, 0];
    spelled(&value, V2, &[&header(V2, 0), &head, &d, &[13, 0, 0, 0], &f]);
    spelled(&true, V1, &[&header(V1, 3), &[1, 0, 0, 0]]);
    spelled(&-1.0_f32, V1_BIG, &[&header(V1_BIG, 0), &[0xbf, 0x80, 0, 0]]);
}

/// Rule (3): the length counts the NUL. Rule (4): of a wide string it counts bytes, and there is no NUL.
#[test]
fn rules_3_and_4_strings() {
    spelled(&"ab".to_owned(), V1_BIG, &[&header(V1_BIG, 1), &[0, 0, 0, 3, b'a', b'b', 0, 0]]);
    spelled(&"ab".to_owned(), V2, &[&header(V2, 1), &[3, 0, 0, 0, b'a', b'b', 0, 0]]);
    spelled(&String::new(), V2, &[&header(V2, 3), &[1, 0, 0, 0, 0, 0, 0, 0]]);
    let wide = WString::from("a\u{20ac}");
    spelled(&wide, V2_BIG, &[&header(V2_BIG, 0), &[0, 0, 0, 4, 0, b'a', 0x20, 0xac]]);
    spelled(&wide, V1, &[&header(V1, 0), &[4, 0, 0, 0, b'a', 0, 0xac, 0x20]]);
}

macro_rules! enums {
    ($($name:ident $bits:literal)*) => {$(
        #[derive(DdsType, Clone, Copy, Debug, PartialEq)]
        #[dds(crate = "idl_cdr", bit_bound = $bits)]
        enum $name { Zero, Seven = 7 }
    )*};
}
enums! { Byte 8 Short 9 Long 17 }

macro_rules! bitmasks {
    ($($name:ident($holder:ty) $bits:literal)*) => {$(
        #[derive(DdsType, Clone, Copy, Debug, PartialEq)]
        #[dds(crate = "idl_cdr", bitmask, bit_bound = $bits, flags(LOW = 0, HIGH = 5))]
        struct $name($holder);
    )*};
}
bitmasks! { Mask8(u8) 8 Mask16(u16) 9 Mask32(u32) 17 Mask64(u64) 33 }

/// Rules (5) and (6): the value, as the smallest integer that has the bits.
#[test]
fn rules_5_and_6_enums_and_bitmasks() {
    spelled(&Byte::Seven, V2_BIG, &[&header(V2_BIG, 3), &[7, 0, 0, 0]]);
    spelled(&Short::Seven, V2_BIG, &[&header(V2_BIG, 2), &[0, 7, 0, 0]]);
    spelled(&Long::Seven, V2_BIG, &[&header(V2_BIG, 0), &[0, 0, 0, 7]]);
    spelled(&Mask8(0x21), V1_BIG, &[&header(V1_BIG, 3), &[0x21, 0, 0, 0]]);
    spelled(&Mask16(0x21), V1_BIG, &[&header(V1_BIG, 2), &[0, 0x21, 0, 0]]);
    spelled(&Mask32(0x21), V1_BIG, &[&header(V1_BIG, 0), &[0, 0, 0, 0x21]]);
    spelled(&Mask64(0x21), V1_BIG, &[&header(V1_BIG, 0), &[0, 0, 0, 0, 0, 0, 0, 0x21]]);
}

fn texts() -> [String; 2] {
    ["a".to_owned(), "bc".to_owned()]
}

const TEXTS: [u8; 15] = [2, 0, 0, 0, b'a', 0, 0, 0, 3, 0, 0, 0, b'b', b'c', 0];

/// Rule (8): an array of primitives is its elements. Rules (9) and (10): of other elements the size is in front in
/// version 2 (DHEADER, 7.4.3.4.1), which counts neither itself nor the padding in front of it.
#[test]
fn rules_8_to_10_arrays() {
    for encoding in [V1, V2] {
        spelled(&[1_u16, 2], encoding, &[&header(encoding, 0), &[1, 0, 2, 0]]);
    }
    spelled(&texts(), V2, &[&header(V2, 1), &[15, 0, 0, 0], &TEXTS, &[0]]);
    spelled(&texts(), V1, &[&header(V1, 1), &TEXTS, &[0]]);
}

/// Rule (11): how many, then the elements. Rules (12) and (13): the same, with the size in front in version 2.
#[test]
fn rules_11_to_13_sequences() {
    for encoding in [V1, V2] {
        spelled(&vec![1_u16, 2], encoding, &[&header(encoding, 0), &[2, 0, 0, 0, 1, 0, 2, 0]]);
    }
    let texts = texts().to_vec();
    spelled(&texts, V2, &[&header(V2, 1), &[19, 0, 0, 0], &[2, 0, 0, 0], &TEXTS, &[0]]);
    spelled(&texts, V1, &[&header(V1, 1), &[2, 0, 0, 0], &TEXTS, &[0]]);
}

/// Rules (14) to (16): a map is a sequence of keys and values, with the size in front in version 2 unless both are primitive.
#[test]
fn rules_14_to_16_maps() {
    let numbers: BTreeMap<u8, u16> = [(1, 2), (3, 4)].into();
    for encoding in [V1, V2] {
        let bytes = [2, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0];
        spelled(&numbers, encoding, &[&header(encoding, 0), &bytes]);
    }
    let named: BTreeMap<String, i16> = [("a".to_owned(), 5)].into();
    let bytes = [1, 0, 0, 0, 2, 0, 0, 0, b'a', 0, 5, 0];
    spelled(&named, V2, &[&header(V2, 0), &[12, 0, 0, 0], &bytes]);
    spelled(&named, V1, &[&header(V1, 0), &bytes]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Optional {
    first: u8,
    maybe: Option<u64>,
    last: u8,
}

/// Rules (17) and (18): a final struct is its members. Rules (19) and (20): an optional one is a parameter in version 1,
/// inside of which alignment counts anew, and a boolean and the value in version 2.
#[test]
fn rules_17_to_20_final_structs() {
    let value = Final { a: 1, b: 2 };
    spelled(&value, V1_BIG, &[&[0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 2]]);
    let with = |maybe| Optional { first: 1, maybe, last: 3 };
    let long = [0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28];
    let there = with(Some(u64::from_be_bytes(long)));
    let short_header = [0, 1, 0, 8]; // the id, which is the place, and the length
    let first = [1, 0, 0, 0];
    // The value begins at 8, counted from the header, and at 0, counted anew: also where it would not be aligned otherwise.
    spelled(&there, V1_BIG, &[&[0, 0, 0, 3], &first, &short_header, &long, &[3, 0, 0, 0]]);
    spelled(&with(None), V1_BIG, &[&[0, 0, 0, 3], &first, &[0, 1, 0, 0], &[3, 0, 0, 0]]);
    spelled(&there, V2_BIG, &[&[0, 6, 0, 3], &[1, 1, 0, 0], &long, &[3, 0, 0, 0]]);
    spelled(&with(None), V2_BIG, &[&[0, 6, 0, 1], &[1, 0, 3, 0]]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Parameters {
    #[dds(id = 1, must_understand)]
    a: u8,
    #[dds(id = 2)]
    b: u16,
    #[dds(id = 3)]
    c: u32,
    #[dds(id = 4)]
    d: u64,
    #[dds(id = 5)]
    e: [u8; 3],
    #[dds(id = 6)]
    f: String,
    #[dds(id = 7)]
    g: Vec<u32>,
    #[dds(id = 0x0abc_def0)]
    h: Vec<u64>,
}

/// 7.4.3.4.2: EMHEADER1 = (M_FLAG << 31) + (LC << 28) + member id.
const fn emheader1(must_understand: bool, length_code: u32, id: u32) -> [u8; 4] {
    (((must_understand as u32) << 31) + (length_code << 28) + id).to_le_bytes()
}

/// Rules (21) and (22) with 7.4.3.4.2: the size of all, and each member behind its EMHEADER1. The length code says 1, 2, 4 or 8
/// bytes, or NEXTINT does, which from code 5 on is a part of the value: 1, 4 or 8 times it are behind it.
#[test]
fn rules_21_and_22_mutable_structs_of_version_2() {
    assert_eq!(emheader1(true, 0, 1), [0x01, 0, 0, 0x80]);
    assert_eq!(emheader1(false, 7, 0x0abc_def0), [0xf0, 0xde, 0xbc, 0x7a]);
    let value = Parameters {
        a: 0x11,
        b: 0x2222,
        c: 0x3333_3333,
        d: 0x4444_4444_4444_4444,
        e: [0x55; 3],
        f: "hi".to_owned(),
        g: vec![0x6666_6666; 2],
        h: vec![0x7777_7777_7777_7777],
    };
    let payload: [&[u8]; 19] = [
        &[0, 0x0b, 0, 0],
        &[92, 0, 0, 0],
        &emheader1(true, 0, 1),
        &[0x11, 0, 0, 0],
        &emheader1(false, 1, 2),
        &[0x22, 0x22, 0, 0],
        &emheader1(false, 2, 3),
        &[0x33; 4],
        &emheader1(false, 3, 4),
        &[0x44; 8],
        &emheader1(false, 4, 5),
        &[3, 0, 0, 0, 0x55, 0x55, 0x55, 0],
        &emheader1(false, 5, 6),
        &[3, 0, 0, 0, b'h', b'i', 0, 0],
        &emheader1(false, 6, 7),
        &[2, 0, 0, 0],
        &[0x66; 8],
        &emheader1(false, 7, 0x0abc_def0),
        &[1, 0, 0, 0, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77],
    ];
    spelled(&value, V2, &payload);
    // Every one of them may have code 4, and NEXTINT of its own.
    let members: [(u32, &[u8]); 8] = [
        (1, &[0x11]),
        (2, &[0x22, 0x22]),
        (3, &[0x33; 4]),
        (4, &[0x44; 8]),
        (5, &[0x55; 3]),
        (6, &[3, 0, 0, 0, b'h', b'i', 0]),
        (7, &[2, 0, 0, 0, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66]),
        (0x0abc_def0, &[1, 0, 0, 0, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77]),
    ];
    let mut body = Vec::new();
    for (id, bytes) in members {
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(emheader1(id == 1, 4, id));
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend(bytes);
    }
    let size = (body.len() as u32).to_le_bytes();
    assert_eq!(from_cdr::<Parameters>(&[&[0, 0x0b, 0, 0][..], &size, &body].concat()), Ok(value));
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Listed {
    #[dds(id = 1, must_understand)]
    a: u8,
    #[dds(id = 0x3eff)]
    b: u16,
    #[dds(id = 0x3f00)]
    c: u32,
    #[dds(id = 0x0001_2345, must_understand)]
    d: u64,
}

/// Rules (23) to (25) with 7.4.1.2.1: 0x4000 in front of an id says must_understand; ids above 0x3eff take the long form, PID_EXTENDED
/// 0x3f01 with must_understand set, eight bytes of header; PID_LIST_END 0x3f02 ends the list. Lengths are those of the values, and
/// alignment counts anew in each.
#[test]
fn rules_23_to_25_mutable_structs_of_version_1() {
    let value = Listed { a: 0x11, b: 0x2222, c: 0x3333_3333, d: 0x4444_4444_4444_4444 };
    let list = |flag: u8| -> Vec<u8> {
        [
            &[0, 2, 0, 0][..],
            &[0x40, 0x01, 0, 1, 0x11, 0, 0, 0],
            &[0x3e, 0xff, 0, 2, 0x22, 0x22, 0, 0],
            &[0x3f | flag, 0x01, 0, 8, 0, 0, 0x3f, 0x00, 0, 0, 0, 4, 0x33, 0x33, 0x33, 0x33],
            &[0x3f | flag, 0x01, 0, 8, 0x40, 0x01, 0x23, 0x45, 0, 0, 0, 8],
            &[0x44; 8],
            &[0x3f | flag, 0x02, 0, 0],
        ]
        .concat()
    };
    spelled(&value, V1_BIG, &[&list(0x40)]);
    // The flag of the reserved ids themselves says nothing to a reader that knows them.
    assert_eq!(from_cdr::<Listed>(&list(0)), Ok(value));
}

/// 7.4.1.2.1: PID_IGNORE 0x3f03 is skipped, and so is an unknown id without must_understand; with it the sample is none.
#[test]
fn parameters_that_are_not_known() {
    let list = |pid: [u8; 2]| {
        [
            &[0, 2, 0, 0][..],
            &[pid[0], pid[1], 0, 2, 9, 9, 0, 0],
            &[0x00, 0x00, 0, 1, 1, 0, 0, 0],
            &[0x00, 0x01, 0, 4, 0, 0, 0, 2],
            &[0x3f, 0x02, 0, 0],
        ]
        .concat()
    };
    for skipped in [[0x3f, 0x03], [0x00, 0x77], [0x3d, 0x00]] {
        assert_eq!(from_cdr::<Mutable>(&list(skipped)), Ok(Mutable { a: 1, b: 2 }));
    }
    assert!(from_cdr::<Mutable>(&list([0x40, 0x77])).is_err());
}

macro_rules! unions {
    ($($name:ident $extensibility:literal)*) => {$(
        #[derive(DdsType, Clone, Debug, PartialEq)]
        #[dds(crate = "idl_cdr", union, discriminator = "i32", extensibility = $extensibility)]
        enum $name {
            #[dds(case = 1)]
            One(u8),
            #[dds(case = 2)]
            Two(u16),
            #[dds(default)]
            Rest { discriminator: i32 },
        }
    )*};
}
unions! { FinalUnion "final" AppendableUnion "appendable" MutableUnion "mutable" }

/// Rule (26): the discriminator and what it selects, if anything. Rules (27) and (28): both as members, the discriminator
/// with the id 0. 7.4.3.5.1 has it that a discriminator has to be understood.
#[test]
fn rules_26_to_28_unions() {
    for (encoding, head) in [(V1_BIG, [0, 0, 0]), (V2_BIG, [0, 6, 0])] {
        let two = [0, 0, 0, 2, 0x22, 0x22, 0, 0];
        spelled(&FinalUnion::Two(0x2222), encoding, &[&head, &[2], &two]);
        let rest = FinalUnion::Rest { discriminator: 9 };
        spelled(&rest, encoding, &[&head, &[0], &[0, 0, 0, 9]]);
    }
    let value = MutableUnion::Two(0x2222);
    let payload: [&[u8]; 6] = [
        &[0, 0x0b, 0, 2],
        &[14, 0, 0, 0],
        &emheader1(true, 2, 0),
        &[2, 0, 0, 0],
        &emheader1(false, 1, 2),
        &[0x22, 0x22, 0, 0],
    ];
    spelled(&value, V2, &payload);
    let payload: [&[u8]; 6] = [
        &[0, 2, 0, 0],
        &[0x40, 0x00, 0, 4],
        &[0, 0, 0, 2],
        &[0x00, 0x02, 0, 2],
        &[0x22, 0x22, 0, 0],
        &[0x7f, 0x02, 0, 0],
    ];
    spelled(&value, V1_BIG, &payload);
}

/// Rule (29): in version 1 an appendable type is as a final one. Rule (30): in version 2 its size is in front.
#[test]
fn rules_29_and_30_appendable_types() {
    let value = Appendable { a: 1, b: 2 };
    spelled(&value, V1, &[&[0, 1, 0, 0], &[1, 0, 0, 0, 2, 0, 0, 0]]);
    spelled(&value, V2, &[&[0, 9, 0, 0], &[8, 0, 0, 0], &[1, 0, 0, 0, 2, 0, 0, 0]]);
    let union = AppendableUnion::One(7);
    spelled(&union, V1, &[&[0, 1, 0, 3], &[1, 0, 0, 0, 7, 0, 0, 0]]);
    spelled(&union, V2, &[&[0, 9, 0, 3], &[5, 0, 0, 0], &[1, 0, 0, 0, 7, 0, 0, 0]]);
}

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

/// The examples of RTPS 9.6.4.8 (9.6.3.8 in 2.3) with XTYPES 7.6.8: the key as big endian version 2, filled up with zeroes, or its MD5
/// if the longest key does not fit into 16 bytes, whether or not this one does.
#[test]
fn key_hashes() {
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
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Hashed {
    #[dds(hashid = "color")]
    paint: u8,
    #[dds(hashid)]
    shapesize: u8,
}

/// 7.3.1.2.1.1: a member id by hash is the first four bytes of the name's MD5, little endian, without the highest four bits.
#[test]
fn member_ids_by_hash() {
    // `printf color | md5sum` is 70dda5df..., `printf shapesize | md5sum` is da907714...
    assert_eq!(Hashed::IDS, [0x0fa5_dd70, 0x0477_90da]);
    let value = Hashed { paint: 1, shapesize: 2 };
    let payload: [&[u8]; 6] = [
        &[0, 0x0b, 0, 3],
        &[13, 0, 0, 0],
        &[0x70, 0xdd, 0xa5, 0x0f],
        &[1, 0, 0, 0],
        &[0xda, 0x90, 0x77, 0x04],
        &[2, 0, 0, 0],
    ];
    spelled(&value, V2, &payload);
}
