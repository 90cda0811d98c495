//! Rules (8) to (16): arrays, sequences and maps.

use std::collections::BTreeMap;

use idl_cdr::{DdsType, WChar};

use super::values::{Byte, Mask16};
use super::{Appendable, Final, V1, V1_BIG, V2, V2_BIG, bare, header, spelled};

fn texts() -> [String; 2] {
    ["a".to_owned(), "bc".to_owned()]
}

const TEXTS: [u8; 15] = [2, 0, 0, 0, b'a', 0, 0, 0, 3, 0, 0, 0, b'b', b'c', 0];

/// Rule (8): an array of primitives is its elements. Rules (9) and (10): for other elements,
/// version 2 puts the size in front (DHEADER, 7.4.3.4.1), which counts neither itself nor the
/// padding before it.
#[test]
fn arrays_follow_rules_8_to_10() {
    for encoding in [V1, V2] {
        spelled(&[1_u16, 2], encoding, &[&header(encoding, 0), &[1, 0, 2, 0]]);
    }
    spelled(&texts(), V2, &[&header(V2, 1), &[15, 0, 0, 0], &TEXTS, &[0]]);
    spelled(&texts(), V1, &[&header(V1, 1), &TEXTS, &[0]]);
}

/// Rule (11): the number of elements, then the elements. Rules (12) and (13): likewise, with the
/// size in front in version 2.
#[test]
fn sequences_follow_rules_11_to_13() {
    for encoding in [V1, V2] {
        spelled(&vec![1_u16, 2], encoding, &[&header(encoding, 0), &[2, 0, 0, 0, 1, 0, 2, 0]]);
    }
    let texts = texts().to_vec();
    spelled(&texts, V2, &[&header(V2, 1), &[19, 0, 0, 0], &[2, 0, 0, 0], &TEXTS, &[0]]);
    spelled(&texts, V1, &[&header(V1, 1), &[2, 0, 0, 0], &TEXTS, &[0]]);
}

/// Rules (14) to (16): a map is a sequence of keys and values, with the size in front in version 2
/// unless both are primitive.
#[test]
fn maps_follow_rules_14_to_16() {
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

/// Rules (8) and (9): an array of arrays is one array of all elements.
#[test]
fn multidimensional_arrays_follow_rules_8_and_9() {
    bare(&[[1_u16, 2], [3, 4]], V2, &[1, 0, 2, 0, 3, 0, 4, 0]);
    let rows = texts().map(|text| [text]);
    bare(&rows, V2, &[&[15, 0, 0, 0][..], &TEXTS].concat());
    bare(&rows, V1, &TEXTS);
}

/// Rule (9): enums, bitmasks and structs are not primitive, whatever their own framing.
#[test]
fn arrays_of_non_primitive_elements_follow_rule_9() {
    bare(&[Byte::Seven, Byte::Zero], V2, &[2, 0, 0, 0, 7, 0]);
    bare(&[Byte::Seven, Byte::Zero], V1, &[7, 0]);
    bare(&[Mask16(0x21)], V2_BIG, &[0, 0, 0, 2, 0, 0x21]);
    bare(&[Mask16(0x21)], V1_BIG, &[0, 0x21]);
    let parts = [Final { a: 1, b: 2 }, Final { a: 3, b: 4 }];
    bare(&parts, V2, &[16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    bare(&parts, V1, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    let parts = [Appendable { a: 1, b: 2 }];
    bare(&parts, V2, &[12, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    bare(&parts, V1, &[1, 0, 0, 0, 2, 0, 0, 0]);
}

/// Rules (11) to (13): sequences of each kind of element, in both orders, and empty ones.
#[test]
fn sequence_elements_follow_rules_11_to_13() {
    let longs = vec![0x0102_0304_0506_0708_u64];
    bare(&longs, V1_BIG, &[0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    bare(&longs, V2_BIG, &[0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
    bare(&vec![true, false], V2, &[2, 0, 0, 0, 1, 0]);
    bare(&vec!['a'], V2, &[1, 0, 0, 0, b'a']);
    bare(&vec![WChar(0x20ac)], V2, &[1, 0, 0, 0, 0xac, 0x20]);
    bare(&vec![Byte::Seven], V2, &[5, 0, 0, 0, 1, 0, 0, 0, 7]);
    bare(&vec![Byte::Seven], V1, &[1, 0, 0, 0, 7]);
    bare(&vec!["a".to_owned()], V2_BIG, &[0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 2, b'a', 0]);
    // A sequence is not primitive, whatever its elements.
    let rows = vec![vec![1_u16]];
    bare(&rows, V2, &[10, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
    bare(&rows, V1, &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
    let parts = vec![Appendable { a: 1, b: 2 }];
    bare(&parts, V2, &[16, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    for encoding in [V1, V2] {
        bare(&Vec::<u64>::new(), encoding, &[0; 4]);
        bare(&BTreeMap::<u8, u64>::new(), encoding, &[0; 4]);
    }
    bare(&Vec::<String>::new(), V2, &[4, 0, 0, 0, 0, 0, 0, 0]);
    bare(&Vec::<String>::new(), V1, &[0; 4]);
    bare(&BTreeMap::<String, u8>::new(), V2, &[4, 0, 0, 0, 0, 0, 0, 0]);
    bare(&BTreeMap::<String, u8>::new(), V1, &[0; 4]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Behind {
    first: u8,
    texts: Vec<String>,
}

/// 7.4.3.4.1: the size in front is a number of four bytes with the alignment of one; it does not
/// count the padding before it.
#[test]
fn collection_size_is_aligned() {
    let value = Behind { first: 1, texts: vec!["a".to_owned()] };
    bare(&value, V2, &[1, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', 0]);
}

/// Rules (14) to (16): a key that is an enum, and elements that are collections, are not primitive.
/// Each key and each element is aligned.
#[test]
fn map_keys_and_elements_follow_rules_14_to_16() {
    let lists: BTreeMap<u8, Vec<u8>> = [(1, vec![2])].into();
    bare(&lists, V2, &[13, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2]);
    bare(&lists, V1, &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2]);
    let longs: BTreeMap<u8, u64> = [(1, 2), (3, 4)].into();
    let (two, four) = ([0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 4]);
    let bytes = [&[0, 0, 0, 2, 1, 0, 0, 0][..], &two, &[3, 0, 0, 0], &four].concat();
    bare(&longs, V2_BIG, &bytes);
    let bytes = [&[0, 0, 0, 2, 1, 0, 0, 0][..], &two, &[3, 0, 0, 0, 0, 0, 0, 0], &four].concat();
    bare(&longs, V1_BIG, &bytes);
    let of_enums: BTreeMap<Byte, u8> = [(Byte::Seven, 1)].into();
    bare(&of_enums, V2, &[6, 0, 0, 0, 1, 0, 0, 0, 7, 1]);
    bare(&of_enums, V1, &[1, 0, 0, 0, 7, 1]);
}
