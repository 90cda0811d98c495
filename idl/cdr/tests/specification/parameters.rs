//! Rules (21) to (25): mutable structs, and the ids and lengths of members.

use std::collections::BTreeMap;

use idl_cdr::{DdsStruct, DdsType, LongDouble, WChar, WString, from_cdr};

use super::values::{Byte, Long, Mask16, Short};
use super::{Appendable, Final, Mutable, V1_BIG, V2, spelled};

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
pub(crate) const fn emheader1(must_understand: bool, length_code: u32, id: u32) -> [u8; 4] {
    (((must_understand as u32) << 31) + (length_code << 28) + id).to_le_bytes()
}

/// Rules (21) and (22) with 7.4.3.4.2: the total size, and each member after its EMHEADER1. The
/// length code gives 1, 2, 4 or 8 bytes, or NEXTINT gives the length. From code 5 on NEXTINT is
/// part of the value, and is followed by 1, 4 or 8 times its number of bytes.
#[test]
fn mutable_structs_of_xcdr2_follow_rules_21_and_22() {
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
    // The codes of this implementation; a separate NEXTINT for all; and mixtures.
    for codes in
        [[0, 1, 2, 3, 4, 5, 6, 7], [4; 8], [0, 1, 2, 3, 4, 4, 4, 4], [4, 4, 2, 3, 4, 5, 4, 7]]
    {
        let mut body = Vec::new();
        for ((id, bytes), code) in members.into_iter().zip(codes) {
            body.resize(body.len().next_multiple_of(4), 0);
            body.extend(emheader1(id == 1, code, id));
            if code == 4 {
                body.extend((bytes.len() as u32).to_le_bytes());
            }
            body.extend(bytes);
        }
        let size = (body.len() as u32).to_le_bytes();
        let payload = [&[0, 0x0b, 0, 0][..], &size, &body].concat();
        assert_eq!(from_cdr::<Parameters>(&payload).as_ref(), Ok(&value), "{codes:?}");
        if codes == [0, 1, 2, 3, 4, 5, 6, 7] {
            assert_eq!(size, [92, 0, 0, 0]);
            spelled(&value, V2, &[&payload]);
        }
    }
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

/// Rules (23) to (25) with 7.4.1.2.1: 0x4000 added to an id means must_understand; ids above
/// 0x3eff take the long form, PID_EXTENDED 0x3f01 with must_understand set, eight bytes of
/// header; PID_LIST_END 0x3f02 ends the list. Lengths are those of the values, and alignment
/// restarts in each.
#[test]
fn mutable_structs_of_xcdr1_follow_rules_23_to_25() {
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
    // A reader that knows the reserved ids ignores the flag on them.
    assert_eq!(from_cdr::<Listed>(&list(0)), Ok(value));
}

/// 7.4.1.2.1: PID_IGNORE 0x3f03 is skipped, and so is an unknown id without must_understand; with
/// the flag the sample is refused.
#[test]
fn unknown_parameter_is_skipped_unless_must_understand() {
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

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Hashed {
    #[dds(hashid = "color")]
    paint: u8,
    #[dds(hashid)]
    shapesize: u8,
}

/// 7.3.1.2.1.1: a member id by hash is the first four bytes of the name's MD5, little endian,
/// without the highest four bits.
#[test]
fn hashed_member_id_is_derived_from_md5_of_name() {
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

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Nesting {
    #[dds(id = 1)]
    part: Mutable,
    #[dds(id = 2)]
    absent: Option<u32>,
    #[dds(id = 3)]
    present: Option<u8>,
}

/// Rules (21) to (24) in nested structs, and optional members of mutable structs: an absent one is
/// left out (7.4.3.5.2). The size in front of a part is its NEXTINT.
#[test]
fn nested_mutable_structs_follow_rules_21_to_24() {
    let value = Nesting { part: Mutable { a: 1, b: 2 }, absent: None, present: Some(3) };
    let payload: [&[u8]; 10] = [
        &[0, 0x0b, 0, 3],
        &[29, 0, 0, 0],
        &emheader1(false, 5, 1),
        &[16, 0, 0, 0],
        &emheader1(false, 0, 0),
        &[1, 0, 0, 0],
        &emheader1(false, 2, 1),
        &[2, 0, 0, 0],
        &emheader1(false, 0, 3),
        &[3, 0, 0, 0],
    ];
    spelled(&value, V2, &payload);
    let payload: [&[u8]; 7] = [
        &[0, 2, 0, 0],
        &[0x00, 0x01, 0, 20],
        &[0x00, 0x00, 0, 1, 1, 0, 0, 0],
        &[0x00, 0x01, 0, 4, 0, 0, 0, 2],
        &[0x7f, 0x02, 0, 0],
        &[0x00, 0x03, 0, 1, 3, 0, 0, 0],
        &[0x7f, 0x02, 0, 0],
    ];
    spelled(&value, V1_BIG, &payload);
}

macro_rules! one_member {
    ($($name:ident $member:ty, $value:expr, $code:literal, [$($byte:expr),*], [$($first:expr),*];)*) => {
        /// 7.4.3.4.2: the length code and the bytes of a member of each kind; those of version 1
        /// as well.
        #[test]
        fn member_of_each_kind_has_correct_length_code_and_bytes() {$({
            #[derive(DdsType, Clone, Debug, PartialEq)]
            #[dds(crate = "idl_cdr", extensibility = "mutable")]
            struct $name {
                #[dds(id = 1)]
                member: $member,
            }
            let value = $name { member: $value };
            let bytes: &[u8] = &[$($byte),*];
            let size = bytes.len() + 4;
            let padding = size.next_multiple_of(4) - size;
            let head = [0, 0x0b, 0, padding as u8];
            let front = [size as u8, 0, 0, 0];
            let payload: [&[u8]; 5] =
                [&head, &front, &emheader1(false, $code, 1), bytes, &[0; 3][..padding]];
            spelled(&value, V2, &payload);
            let bytes: &[u8] = &[$($first),*];
            let padding = bytes.len().next_multiple_of(4) - bytes.len();
            let head = [0, 2, 0, 0, 0x00, 0x01, 0, bytes.len() as u8];
            let end = [0x7f, 0x02, 0, 0];
            spelled(&value, V1_BIG, &[&head, bytes, &[0; 3][..padding], &end]);
        })*}
    };
}
one_member! {
    Boolean bool, true, 0, [1], [1];
    Letter char, 'a', 0, [b'a'], [b'a'];
    Wide WChar, WChar(0x20ac), 1, [0xac, 0x20], [0x20, 0xac];
    Single f32, 1.5, 2, [0, 0, 0xc0, 0x3f], [0x3f, 0xc0, 0, 0];
    Double f64, -2.25, 3, [0, 0, 0, 0, 0, 0, 2, 0xc0], [0xc0, 2, 0, 0, 0, 0, 0, 0];
    Quadruple LongDouble, LongDouble::from(1.0), 4,
        [16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x3f],
        [0x3f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    Enum8 Byte, Byte::Seven, 0, [7], [7];
    Enum16 Short, Short::Seven, 1, [7, 0], [0, 7];
    Enum32 Long, Long::Seven, 2, [7, 0, 0, 0], [0, 0, 0, 7];
    Mask Mask16, Mask16(0x21), 1, [0x21, 0], [0, 0x21];
    WideText WString, WString::from("a"), 5, [2, 0, 0, 0, b'a', 0], [0, 0, 0, 2, 0, b'a'];
    Octets Vec<u8>, vec![7], 5, [1, 0, 0, 0, 7], [0, 0, 0, 1, 7];
    Flags Vec<bool>, vec![true], 5, [1, 0, 0, 0, 1], [0, 0, 0, 1, 1];
    Singles Vec<f32>, vec![1.5], 6, [1, 0, 0, 0, 0, 0, 0xc0, 0x3f], [0, 0, 0, 1, 0x3f, 0xc0, 0, 0];
    // Elements of two bytes have no code of their own.
    Shorts Vec<u16>, vec![7], 4, [6, 0, 0, 0, 1, 0, 0, 0, 7, 0], [0, 0, 0, 1, 0, 7];
    Enums Vec<Byte>, vec![Byte::Seven], 5, [5, 0, 0, 0, 1, 0, 0, 0, 7], [0, 0, 0, 1, 7];
    Texts Vec<String>, vec!["a".to_owned()], 5, [10, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', 0],
        [0, 0, 0, 1, 0, 0, 0, 2, b'a', 0];
    Map BTreeMap<u8, u8>, [(1, 2)].into(), 4, [6, 0, 0, 0, 1, 0, 0, 0, 1, 2], [0, 0, 0, 1, 1, 2];
    Inner Appendable, Appendable { a: 1, b: 2 }, 5, [8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 2];
    Plain Final, Final { a: 1, b: 2 }, 4, [8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 2];
}
