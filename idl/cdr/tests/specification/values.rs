//! Rules (2) to (7): values without parts.

use std::fmt::Debug;

use idl_cdr::{DdsType, Fixed, LongDouble, WChar, WString};

use super::{V1, V1_BIG, V2, V2_BIG, bare, header, spelled};

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

/// Rule (2) and 7.4.3.2.1: a number is aligned to its size, to at most eight bytes in version 1 and
/// four in version 2.
#[test]
fn primitive_alignment_follows_rule_2() {
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

/// Rule (3): the length counts the NUL. Rule (4): the length of a wide string counts bytes, and
/// there is no NUL.
#[test]
fn strings_follow_rules_3_and_4() {
    spelled(&"ab".to_owned(), V1_BIG, &[&header(V1_BIG, 1), &[0, 0, 0, 3, b'a', b'b', 0, 0]]);
    spelled(&"ab".to_owned(), V2, &[&header(V2, 1), &[3, 0, 0, 0, b'a', b'b', 0, 0]]);
    spelled(&String::new(), V2, &[&header(V2, 3), &[1, 0, 0, 0, 0, 0, 0, 0]]);
    let wide = WString::from("a\u{20ac}");
    spelled(&wide, V2_BIG, &[&header(V2_BIG, 0), &[0, 0, 0, 4, 0, b'a', 0x20, 0xac]]);
    spelled(&wide, V1, &[&header(V1, 0), &[4, 0, 0, 0, b'a', 0, 0xac, 0x20]]);
}

macro_rules! enums {
    ($($name:ident $bits:literal)*) => {$(
        #[derive(DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[dds(crate = "idl_cdr", bit_bound = $bits)]
        pub(crate) enum $name { Zero, Seven = 7 }
    )*};
}
enums! { Byte 8 Short 9 Long 17 }

macro_rules! bitmasks {
    ($($name:ident($holder:ty) $bits:literal)*) => {$(
        #[derive(DdsType, Clone, Copy, Debug, PartialEq)]
        #[dds(crate = "idl_cdr", bitmask, bit_bound = $bits, flags(LOW = 0, HIGH = 5))]
        pub(crate) struct $name(pub(crate) $holder);
    )*};
}
bitmasks! { Mask8(u8) 8 Mask16(u16) 9 Mask32(u32) 17 Mask64(u64) 33 }

/// Rules (5) and (6): the value, as the smallest integer that has the bits.
#[test]
fn enums_and_bitmasks_follow_rules_5_and_6() {
    spelled(&Byte::Seven, V2_BIG, &[&header(V2_BIG, 3), &[7, 0, 0, 0]]);
    spelled(&Short::Seven, V2_BIG, &[&header(V2_BIG, 2), &[0, 7, 0, 0]]);
    spelled(&Long::Seven, V2_BIG, &[&header(V2_BIG, 0), &[0, 0, 0, 7]]);
    spelled(&Mask8(0x21), V1_BIG, &[&header(V1_BIG, 3), &[0x21, 0, 0, 0]]);
    spelled(&Mask16(0x21), V1_BIG, &[&header(V1_BIG, 2), &[0, 0x21, 0, 0]]);
    spelled(&Mask32(0x21), V1_BIG, &[&header(V1_BIG, 0), &[0, 0, 0, 0x21]]);
    spelled(&Mask64(0x21), V1_BIG, &[&header(V1_BIG, 0), &[0, 0, 0, 0, 0, 0, 0, 0x21]]);
}

/// Checks a number against its bytes, the highest first or last.
#[track_caller]
fn number<T: DdsType + PartialEq + Debug>(value: T, big: &[u8]) {
    let little: Vec<u8> = big.iter().rev().copied().collect();
    for (encoding, bytes) in [(V1_BIG, big), (V2_BIG, big), (V1, &little), (V2, &little)] {
        bare(&value, encoding, bytes);
    }
}

/// Rule (2): each primitive type by itself. A character is one byte (7.4.1.1.2: Latin-1), a wide
/// one two; an `octet` is a byte and a `boolean` 0 or 1.
#[test]
fn each_primitive_type_follows_rule_2() {
    number(true, &[1]);
    number(false, &[0]);
    number(0xfe_u8, &[0xfe]);
    number(-2_i8, &[0xfe]);
    number(-2_i16, &[0xff, 0xfe]);
    number(0x0102_u16, &[1, 2]);
    number(-2_i32, &[0xff, 0xff, 0xff, 0xfe]);
    number(0x0102_0304_u32, &[1, 2, 3, 4]);
    number(-2_i64, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
    number(0x0102_0304_0506_0708_u64, &[1, 2, 3, 4, 5, 6, 7, 8]);
    number(1.5_f32, &[0x3f, 0xc0, 0, 0]);
    number(-2.25_f64, &[0xc0, 0x02, 0, 0, 0, 0, 0, 0]);
    let long = [0x3f, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    number(LongDouble::from(1.5), &long);
    number('\u{e9}', &[0xe9]);
    number(WChar(0x20ac), &[0x20, 0xac]);
}

/// Rule (4): beyond the basic plane a character has two units, and both count.
#[test]
fn surrogate_pairs_follow_rule_4() {
    let clef = WString::from("\u{1d11e}");
    bare(&clef, V2_BIG, &[0, 0, 0, 4, 0xd8, 0x34, 0xdd, 0x1e]);
    bare(&clef, V1, &[4, 0, 0, 0, 0x34, 0xd8, 0x1e, 0xdd]);
    bare(&WString::default(), V2, &[0; 4]);
}

type Altitude = u32;
type Label = String;
type Corners = [Altitude; 2];

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Aliased {
    first: u8,
    corners: Corners,
    more: Vec<Altitude>,
    label: Label,
}

/// Rule (7): an alias is the type it stands for. A sequence of aliases of a primitive type is one
/// of a primitive type, so that rule (11) applies and not rule (12).
#[test]
fn aliases_follow_rule_7() {
    let value = Aliased { first: 1, corners: [2, 3], more: vec![4], label: "a".to_owned() };
    let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, b'a', 0];
    bare(&value, V1, &bytes);
    bare(&value, V2, &bytes);
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitset)]
struct Set8 {
    #[dds(bits = 3)]
    low: u8,
    #[dds(bits = 1)]
    high: bool,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitset)]
struct Set16 {
    #[dds(bits = 3)]
    low: u8,
    #[dds(bits = 10)]
    high: i16,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitset)]
struct Set32 {
    #[dds(bits = 16)]
    low: u16,
    #[dds(bits = 1)]
    high: bool,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitset)]
struct Set64 {
    #[dds(bits = 32)]
    low: u32,
    #[dds(bits = 2)]
    high: i8,
}

/// Bitsets: like bitmasks, the first field in the lowest bits, in the smallest integer that has
/// room for all.
#[test]
fn bitset_is_encoded_as_smallest_integer_with_first_field_lowest() {
    number(Set8 { low: 0b101, high: true }, &[0b1101]);
    number(Set16 { low: 0b010, high: -1 }, &[0b0001_1111, 0b1111_1010]);
    number(Set32 { low: 0x0102, high: true }, &[0, 1, 1, 2]);
    number(Set64 { low: 0x0102_0304, high: -2 }, &[0, 0, 0, 2, 1, 2, 3, 4]);
}

/// Fixed-point numbers as defined by CORBA (CDR, 9.3.2.8 in 3.3): one digit per half byte, the
/// highest first, zero before an even number of digits, and 0xc or 0xd after them for the sign.
/// They are octets, which have neither alignment nor byte order.
#[test]
fn fixed_point_numbers_follow_corba_cdr() {
    for encoding in [V1, V1_BIG, V2, V2_BIG] {
        bare(&Fixed::<3, 1>::from_units(-125).unwrap(), encoding, &[0x12, 0x5d]);
        bare(&Fixed::<4, 0>::from_units(1234).unwrap(), encoding, &[0x01, 0x23, 0x4c]);
        bare(&Fixed::<1, 0>::from_units(0).unwrap(), encoding, &[0x0c]);
    }
}
