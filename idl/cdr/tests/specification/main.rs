//! Bytes written by hand from clauses of the standards: DDS-XTYPES 1.3 (its rules of serialization,
//! 7.4.3.5.3, by their numbers, which end with (30)) and DDSI-RTPS 2.5. Each case names the clause;
//! cases without a rule, such as bitsets and fixed-point numbers, name their subject.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod collections;
mod keys;
mod parameters;
mod structs;
mod unions;
mod values;

use std::fmt::Debug;

use idl_cdr::{DdsType, Encoding, from_cdr, to_cdr_with};

const V1_BIG: Encoding = Encoding::CDR_BE;
const V1: Encoding = Encoding::CDR_LE;
const V2_BIG: Encoding = Encoding::PLAIN_CDR2_BE;
const V2: Encoding = Encoding::PLAIN_CDR2_LE;

/// Checks that a value has this payload, and is read from it.
#[track_caller]
fn spelled<T: DdsType + PartialEq + Debug>(value: &T, encoding: Encoding, payload: &[&[u8]]) {
    let payload = payload.concat();
    assert_eq!(to_cdr_with(value, encoding).unwrap(), payload, "{encoding:?}");
    assert_eq!(from_cdr::<T>(&payload).unwrap(), *value, "{encoding:?}");
}

/// Checks that a value of a type without framing has these bytes after the header, and is read
/// from them.
#[track_caller]
fn bare<T: DdsType + PartialEq + Debug>(value: &T, encoding: Encoding, bytes: &[u8]) {
    let padding = bytes.len().next_multiple_of(4) - bytes.len();
    spelled(value, encoding, &[&header(encoding, padding as u8), bytes, &[0; 3][..padding]]);
}

/// Returns the header of a payload of a final type that ends with this number of padding bytes.
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

/// XTYPES table 60 (7.6.3.1.2), which implementations follow; the identifiers of RTPS table 10.3
/// differ for version 2.
#[test]
fn encapsulation_identifiers_follow_xtypes_table_60() {
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

/// XTYPES 7.6.3.1.2 and rule (1): the last two bits of the options count the padding up to a
/// multiple of four, and alignment counts from the end of the header.
#[test]
fn header_options_count_padding_bytes() {
    spelled(&0x55_u8, V2, &[&[0, 7, 0, 3], &[0x55, 0, 0, 0]]);
    spelled(&0x55aa_u16, V2, &[&[0, 7, 0, 2], &[0xaa, 0x55, 0, 0]]);
    spelled(&[1_u8, 2, 3], V1_BIG, &[&[0, 0, 0, 1], &[1, 2, 3, 0]]);
    spelled(&1_u64, V1_BIG, &[&[0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 1]]);
}
