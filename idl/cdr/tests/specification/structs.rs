//! Rules (17) to (20), (29) and (30): final and appendable structs, and optional members.

use idl_cdr::DdsType;

use super::unions::AppendableUnion;
use super::{Appendable, Final, Mutable, V1, V1_BIG, V2, V2_BIG, bare, spelled};

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Optional {
    first: u8,
    maybe: Option<u64>,
    last: u8,
}

/// Rules (17) and (18): a final struct is its members. Rules (19) and (20): an optional member is
/// a parameter in version 1, inside which alignment restarts, and a boolean and the value in
/// version 2.
#[test]
fn final_structs_follow_rules_17_to_20() {
    let value = Final { a: 1, b: 2 };
    spelled(&value, V1_BIG, &[&[0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 2]]);
    let with = |maybe| Optional { first: 1, maybe, last: 3 };
    let long = [0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28];
    let there = with(Some(u64::from_be_bytes(long)));
    let short_header = [0, 1, 0, 8]; // the id, which is the index, and the length
    let first = [1, 0, 0, 0];
    // The value begins at 8, counted from the header, and at 0, counted from the parameter: also
    // where it would not be aligned otherwise.
    spelled(&there, V1_BIG, &[&[0, 0, 0, 3], &first, &short_header, &long, &[3, 0, 0, 0]]);
    spelled(&with(None), V1_BIG, &[&[0, 0, 0, 3], &first, &[0, 1, 0, 0], &[3, 0, 0, 0]]);
    spelled(&there, V2_BIG, &[&[0, 6, 0, 3], &[1, 1, 0, 0], &long, &[3, 0, 0, 0]]);
    spelled(&with(None), V2_BIG, &[&[0, 6, 0, 1], &[1, 0, 3, 0]]);
}

/// Rule (29): in version 1 an appendable type has the form of a final one. Rule (30): in version 2
/// its size is in front.
#[test]
fn appendable_types_follow_rules_29_and_30() {
    let value = Appendable { a: 1, b: 2 };
    spelled(&value, V1, &[&[0, 1, 0, 0], &[1, 0, 0, 0, 2, 0, 0, 0]]);
    spelled(&value, V2, &[&[0, 9, 0, 0], &[8, 0, 0, 0], &[1, 0, 0, 0, 2, 0, 0, 0]]);
    let union = AppendableUnion::One(7);
    spelled(&union, V1, &[&[0, 1, 0, 3], &[1, 0, 0, 0, 7, 0, 0, 0]]);
    spelled(&union, V2, &[&[0, 9, 0, 3], &[5, 0, 0, 0], &[1, 0, 0, 0, 7, 0, 0, 0]]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Outer {
    first: u8,
    part: Appendable,
    last: u8,
}

/// Rules (29) and (30): a nested type has a size of its own, which the outer size includes.
#[test]
fn nested_appendable_types_follow_rules_29_and_30() {
    let value = Outer { first: 1, part: Appendable { a: 2, b: 3 }, last: 4 };
    let payload: [&[u8]; 5] = [
        &[0, 9, 0, 3],
        &[17, 0, 0, 0],
        &[1, 0, 0, 0, 8, 0, 0, 0],
        &[2, 0, 0, 0, 3, 0, 0, 0],
        &[4, 0, 0, 0],
    ];
    spelled(&value, V2, &payload);
    // A struct itself is not aligned.
    spelled(&value, V1, &[&[0, 1, 0, 3], &[1, 2, 0, 0], &[3, 0, 0, 0], &[4, 0, 0, 0]]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Perhaps {
    maybe: Option<u16>,
    last: u8,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Far {
    #[dds(id = 0x3f00)]
    maybe: Option<u8>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct PerhapsPart {
    first: u8,
    part: Option<Final>,
}

/// Rules (19) and (20) where the struct is appendable, where the id needs the long form of rule
/// (25), and where the member is a struct.
#[test]
fn optional_members_follow_rules_19_and_20() {
    let there = Perhaps { maybe: Some(0x0102), last: 3 };
    spelled(&there, V2, &[&[0, 9, 0, 3], &[5, 0, 0, 0], &[1, 0, 2, 1, 3, 0, 0, 0]]);
    spelled(&there, V1, &[&[0, 1, 0, 1], &[0, 0, 2, 0], &[2, 1, 3, 0]]);
    let absent = Perhaps { maybe: None, last: 3 };
    spelled(&absent, V2, &[&[0, 9, 0, 2], &[2, 0, 0, 0], &[0, 3, 0, 0]]);
    spelled(&absent, V1, &[&[0, 1, 0, 3], &[0, 0, 0, 0], &[3, 0, 0, 0]]);

    let long_header = [0x7f, 0x01, 0, 8, 0, 0, 0x3f, 0x00];
    let far = |maybe| Far { maybe };
    bare(&far(Some(9)), V1_BIG, &[&long_header[..], &[0, 0, 0, 1, 9]].concat());
    bare(&far(None), V1_BIG, &[&long_header[..], &[0, 0, 0, 0]].concat());
    bare(&far(Some(9)), V2, &[1, 9]);

    let part = PerhapsPart { first: 1, part: Some(Final { a: 2, b: 3 }) };
    bare(&part, V1_BIG, &[1, 0, 0, 0, 0, 1, 0, 8, 2, 0, 0, 0, 0, 0, 0, 3]);
    bare(&part, V2_BIG, &[1, 1, 2, 0, 0, 0, 0, 3]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Derived {
    #[dds(base)]
    base: Final,
    c: u8,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct External {
    a: Box<u32>,
    #[dds(external)]
    b: Option<Box<u8>>,
}

/// 7.2.2.4.4: the members of the base come first. 7.3.1.2.1.4: the bytes do not show that a member
/// is external.
#[test]
fn base_members_come_first_and_external_changes_no_bytes() {
    let value = Derived { base: Final { a: 1, b: 2 }, c: 3 };
    bare(&value, V1, &[1, 0, 0, 0, 2, 0, 0, 0, 3]);
    bare(&value, V2_BIG, &[1, 0, 0, 0, 0, 0, 0, 2, 3]);
    bare(&External { a: Box::new(1), b: Some(Box::new(2)) }, V2, &[1, 0, 0, 0, 1, 2]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Tree {
    value: u8,
    children: Vec<Tree>,
}

/// Rule (30) in a type that contains itself.
#[test]
fn recursive_appendable_type_follows_rule_30() {
    let leaf = Tree { value: 7, children: Vec::new() };
    let leaf_bytes = [12, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
    spelled(&leaf, V2, &[&[0, 9, 0, 0], &leaf_bytes]);
    let tree = Tree { value: 1, children: vec![leaf] };
    let payload: [&[u8]; 5] =
        [&[0, 9, 0, 0], &[28, 0, 0, 0], &[1, 0, 0, 0], &[20, 0, 0, 0, 1, 0, 0, 0], &leaf_bytes];
    spelled(&tree, V2, &payload);
    spelled(&tree, V1, &[&[0, 1, 0, 0], &[1, 0, 0, 0, 1, 0, 0, 0], &[7, 0, 0, 0, 0, 0, 0, 0]]);
}

macro_rules! empty {
    ($($name:ident $extensibility:literal)*) => {$(
        #[derive(DdsType, Clone, Debug, PartialEq)]
        #[dds(crate = "idl_cdr", extensibility = $extensibility)]
        struct $name {}
    )*};
}
empty! { EmptyFinal "final" EmptyAppendable "appendable" EmptyMutable "mutable" }

/// Rules (17), (21), (23), (29) and (30): the bytes of structs without members.
#[test]
fn empty_structs_are_encoded_as_framing_only() {
    spelled(&EmptyFinal {}, V1, &[&[0, 1, 0, 0]]);
    spelled(&EmptyFinal {}, V2, &[&[0, 7, 0, 0]]);
    spelled(&EmptyAppendable {}, V1, &[&[0, 1, 0, 0]]);
    spelled(&EmptyAppendable {}, V2, &[&[0, 9, 0, 0], &[0; 4]]);
    spelled(&EmptyMutable {}, V1_BIG, &[&[0, 2, 0, 0], &[0x7f, 0x02, 0, 0]]);
    spelled(&EmptyMutable {}, V2, &[&[0, 0x0b, 0, 0], &[0; 4]]);
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Mixed {
    first: u8,
    part: Mutable,
    last: u8,
}

/// Rules (17) and (18) around (21) and (23): a member of another extensibility is framed according
/// to its own type.
#[test]
fn member_of_other_extensibility_keeps_its_framing_by_rule_18() {
    let value = Mixed { first: 1, part: Mutable { a: 2, b: 3 }, last: 4 };
    #[rustfmt::skip]
    bare(&value, V2_BIG, &[
        1, 0, 0, 0,
        0, 0, 0, 16,
        0, 0, 0, 0, 2, 0, 0, 0,
        0x20, 0, 0, 1, 0, 0, 0, 3,
        4,
    ]);
    #[rustfmt::skip]
    bare(&value, V1_BIG, &[
        1, 0, 0, 0,
        0, 0, 0, 1, 2, 0, 0, 0,
        0, 1, 0, 4, 0, 0, 0, 3,
        0x7f, 0x02, 0, 0,
        4,
    ]);
}
