//! Run-time samples have the same bytes as those of derived types, in both directions, in
//! all encodings.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../cdr/tests/types/mod.rs"]
mod types;

use std::collections::BTreeMap;
use std::fmt::Debug;

use idl_cdr::{
    DdsType, Encoding, Extensibility, Fixed, MemberPath, from_cdr, key_from_cdr, key_hash,
    key_to_cdr, key_to_cdr_with, to_cdr, to_cdr_with,
};
use idl_xtypes::{DynamicData, DynamicType, ObjectKind, Value};
use proptest::prelude::*;
use types::*;

/// Returns the derived type, and the type as a peer knows it.
fn types_of<T: DdsType>() -> [DynamicType; 2] {
    let of = DynamicType::of::<T>();
    let decoded = DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap();
    [of, decoded]
}

fn same<T: DdsType + PartialEq + Debug>(value: &T, of: &DynamicType, encoding: Encoding) {
    let payload = to_cdr_with(value, encoding).unwrap();
    let data = DynamicData::from_cdr(of, &payload).unwrap_or_else(|error| {
        panic!("{error}: {encoding:?} {payload:02x?} {value:?}");
    });
    let again = data.to_cdr(encoding).unwrap();
    assert_eq!(again, payload, "{encoding:?} {value:?}");
    assert_eq!(&from_cdr::<T>(&again).unwrap(), value);
    assert_eq!(data.key_to_cdr().unwrap(), key_to_cdr(value).unwrap());
    assert_eq!(data.key_hash().unwrap(), key_hash(value).unwrap());
    let key = key_to_cdr_with(value, encoding).unwrap();
    assert_eq!(data.key_to_cdr_with(encoding).unwrap(), key, "{encoding:?} {value:?}");
    let of_key = DynamicData::from_key(of, &key).unwrap();
    let typed = to_cdr_with(&key_from_cdr::<T>(&key).unwrap(), encoding).unwrap();
    assert_eq!(of_key.to_cdr(encoding).unwrap(), typed, "what is not in the key has its default");
}

/// A field of a bitset has its declared type, whether the type comes from IDL, Rust or a peer.
#[test]
fn bitset_fields_have_their_declared_types() {
    #[derive(DdsType, Clone, Copy, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", bitset)]
    struct Header {
        #[dds(bits = 3)]
        version: u8,
        #[dds(bits = 1)]
        urgent: bool,
        #[dds(bits = 5)]
        offset: i8,
        #[dds(bits = 10)]
        hops: u32,
        #[dds(bits = 12)]
        load: i16,
    }
    let idl = "bitset Header { bitfield<3> version; bitfield<1> urgent; bitfield<5, int8> offset; \
               bitfield<10, uint32> hops; bitfield<12, short> load; };";
    let idl = idl::parse("header.idl", idl).unwrap();
    let of_idl = DynamicType::from_idl(&idl, "Header").unwrap();
    let derived = DynamicType::of::<Header>();
    let value = Header { version: 5, urgent: true, offset: -3, hops: 1000, load: -2000 };
    let payload = to_cdr(&value).unwrap();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        assert_eq!(of_idl.objects(kind), derived.objects(kind));
    }
    let decoded = DynamicType::from_objects(&derived.objects(ObjectKind::Complete)).unwrap();
    for of in [of_idl, derived, decoded] {
        let data = DynamicData::from_cdr(&of, &payload).unwrap();
        let text = "{version: 5, urgent: true, offset: -3, hops: 1000, load: -2000}";
        assert_eq!(data.to_text(), text);
        let again = DynamicData::parse(&of, text).unwrap();
        assert_eq!(again.to_cdr(Encoding::default()).unwrap(), payload);
        assert!(DynamicData::parse(&of, "{offset: 16}").is_err());
    }
}

proptest! {
    #[test]
    fn dynamic_data_has_same_bytes_as_derived_type(
        value in everything(),
        tree in tree(),
        either in either(),
        encoding in encoding(),
    ) {
        for of in types_of::<Tree>() {
            same(&tree, &of, encoding);
        }
        for of in types_of::<Either>() {
            same(&either, &of, encoding);
        }
        same(&value.derived, &DynamicType::of::<Derived>(), encoding);
        same(&value.texts, &DynamicType::of::<Texts>(), encoding);
        same(&value.colored, &DynamicType::of::<Colored>(), encoding);
        // A fixed is an array of bytes for peers, and a case without a member is not part of
        // type objects.
        same(&value, &DynamicType::of::<Everything>(), encoding);
    }

    /// A damaged payload is read as the same value as by a derived type, or both refuse it.
    #[test]
    fn dynamic_and_derived_types_agree_on_damaged_bytes(
        value in everything(),
        encoding in encoding(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut payload = to_cdr_with(&value, encoding).unwrap();
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        payload.truncate(cut.index(payload.len() + 1).max(4));
        let of = DynamicType::of::<Everything>();
        let typed = from_cdr::<Everything>(&payload).ok();
        let data = DynamicData::from_cdr(&of, &payload).ok();
        prop_assert_eq!(typed.is_some(), data.is_some());
        if let (Some(typed), Some(data)) = (typed, data) {
            // A run-time union stores the label that it was read with, even if its case has another
            // one first.
            let written = data.to_cdr(encoding).unwrap();
            prop_assert_eq!(written.len(), to_cdr_with(&typed, encoding).unwrap().len());
        }
    }
}

#[test]
fn dynamic_default_equals_derived_default() {
    let default = Everything::default_value();
    for encoding in ENCODINGS {
        let data = DynamicData::new(&DynamicType::of::<Everything>());
        assert_eq!(data.to_cdr(encoding).unwrap(), to_cdr_with(&default, encoding).unwrap());
    }
}

/// The value of a member that a sample lacks: the same for the derived type, for its run-time form,
/// and for a type from IDL.
#[test]
fn missing_members_get_declared_defaults() {
    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", extensibility = "appendable", name = "Later")]
    struct Later {
        first: i32,
        #[dds(default = 2.5)]
        number: f64,
        #[dds(default = "text")]
        text: String,
        #[dds(default = vec![1, -2])]
        list: Vec<i16>,
        #[dds(default = vec![true, false].try_into().expect("two"))]
        flags: [bool; 2],
        #[dds(default = 'x')]
        mark: char,
        #[dds(default = Fixed::from_units(250).unwrap())]
        price: Fixed<5, 2>,
        #[dds(default = 7, key)]
        seven: u8,
    }
    let idl = "@appendable struct Later {
        long first; @default(2.5) double number; @default(\"text\") string text;
        @default(\"(1, -2)\") sequence<short> list; @default(\"(True, False)\") boolean flags[2];
        @default('x') char mark; @default(2.50d) fixed<5, 2> price; @key @default(7) octet seven;
    };";
    let compiled = DynamicType::from_idl(&idl::parse("later.idl", idl).unwrap(), "Later").unwrap();
    let short = [0, 9, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0];
    let typed = from_cdr::<Later>(&short).unwrap();
    assert_eq!((typed.number, typed.list.as_slice(), typed.seven), (2.5, &[1, -2][..], 7));
    for of in [DynamicType::of::<Later>(), compiled] {
        let data = DynamicData::from_cdr(&of, &short).unwrap();
        for encoding in ENCODINGS {
            assert_eq!(data.to_cdr(encoding).unwrap(), to_cdr_with(&typed, encoding).unwrap());
        }
        let new = DynamicData::new(&of);
        assert_eq!(new, DynamicData::parse(&of, "{}").unwrap());
        assert_eq!(
            new.to_cdr(ENCODINGS[0]).unwrap(),
            to_cdr_with(&Later::default_value(), ENCODINGS[0]).unwrap()
        );
        let key = DynamicData::from_key(&of, &new.key_to_cdr_with(ENCODINGS[1]).unwrap()).unwrap();
        assert_eq!(key, new);
    }
}

#[test]
fn dynamic_members_are_set_and_read_by_path() {
    let mut data = DynamicData::new(&DynamicType::of::<Everything>());
    data.set("derived.name", Value::Text("x".to_owned())).unwrap();
    data.set("derived.maybe", Value::Unsigned(7)).unwrap();
    data.set("maybe.i[1][2]", Value::Signed(-4)).unwrap();
    data.set("texts.e[0]", Value::Text("abc".to_owned())).unwrap();
    data.set("collections.names[\"k\"][0]", Value::Unsigned(5)).unwrap();
    data.set("colored.Soft.Other[0]", Value::Unsigned(1)).unwrap();
    data.set("tree.next.next.value", Value::Signed(3)).unwrap();
    let typed: Everything = from_cdr(&data.to_cdr(Encoding::default()).unwrap()).unwrap();
    assert_eq!((typed.derived.base.name.as_str(), typed.derived.base.maybe), ("x", Some(7)));
    assert_eq!(typed.maybe.unwrap().i[1][2], -4);
    assert_eq!(typed.texts.e, ["abc"]);
    assert_eq!(typed.collections.names["k"], [5]);
    assert_eq!(
        typed.colored,
        Colored::Soft(Box::new(Choice::Other { discriminator: 2, data: vec![1] }))
    );
    assert_eq!(typed.tree.next.unwrap().next.unwrap().value, 3);
    for path in ["maybe.i[1][2]", "colored.Soft.Other[0]", "tree.next.next.value", "derived.name"] {
        let compiled = MemberPath::of::<Everything>(path).unwrap();
        let (one, other) = (data.get(path).unwrap(), compiled.find(&data));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
    data.set("maybe", Value::Absent).unwrap();
    assert_eq!(format!("{:?}", data.get("maybe.i").unwrap()), "Absent");
}

#[test]
fn unsuitable_value_is_rejected_with_path_and_reason() {
    let mut data = DynamicData::new(&DynamicType::of::<Everything>());
    let mut said = |path: &str, value| data.set(path, value).unwrap_err().to_string();
    assert_eq!(
        said("derived.nam", Value::Bool(true)),
        "`derived.nam`, at 8: `Derived` has no member `nam`; it has number, wide, name, maybe, \
         octets, words, doubles, texts, inner, choice, more, last"
    );
    assert_eq!(
        said("derived.name", Value::Bool(true)),
        "`derived.name` is a string, found Bool(true)"
    );
    assert_eq!(
        said("numbers.e", Value::Unsigned(65536)),
        "`numbers.e` is uint16, found Unsigned(65536)"
    );
    assert_eq!(
        said("texts.e[0]", Value::Text("seven77".to_owned())),
        "`texts.e[0]` has at most 6 characters, found 7"
    );
    assert_eq!(
        said("texts.e[3]", Value::Text(String::new())),
        "`texts.e[3]`, at 7: the value has 0 elements, found index 3"
    );
    assert_eq!(
        said("choice.discriminator", Value::Signed(1)),
        "`choice.discriminator`, at 7: the discriminator follows from the member: set the member"
    );
    assert_eq!(
        said("numbers.i[2][0]", Value::Signed(1)),
        "`numbers.i[2][0]`, at 9: the array has 2 elements, found index 2"
    );
}

#[test]
fn decoding_error_names_member() {
    let of = DynamicType::of::<Point>();
    let error = DynamicData::from_cdr(&of, &[0, 7, 0, 0, 1, 0, 0, 0, 1]).unwrap_err();
    assert!(error.to_string().starts_with("Point.y: "), "{error}");
}

/// A key payload is read as strictly as by a derived type: for a type without a key it is empty,
/// and for an appendable type nothing may follow it.
#[test]
fn dynamic_and_derived_types_reject_bytes_after_key() {
    let payload = [0, 3, 0, 0, 1, 2, 3, 4];
    assert!(key_from_cdr::<Either>(&payload).is_err());
    assert!(DynamicData::from_key(&DynamicType::of::<Either>(), &payload).is_err());
    let empty = [0, 3, 0, 0];
    assert!(DynamicData::from_key(&DynamicType::of::<Either>(), &empty).is_ok());
    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", extensibility = "appendable")]
    struct Keyed {
        #[dds(key)]
        id: u16,
    }
    let long = [0, 1, 0, 0, 7, 0, 9, 9, 9, 9, 9, 9];
    assert!(key_from_cdr::<Keyed>(&long).is_err());
    assert!(DynamicData::from_key(&DynamicType::of::<Keyed>(), &long).is_err());
}

/// A fixed is an array of bytes for peers, and so is an array of fixed; the same type objects are
/// forwarded, and the same bytes are read.
#[test]
fn array_of_fixed_is_announced_as_array_of_bytes() {
    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(crate = "idl_cdr")]
    struct Prices {
        all: [Fixed<5, 2>; 3],
        last: u8,
    }
    let of = DynamicType::of::<Prices>();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        let objects = of.objects(kind);
        let decoded = DynamicType::from_objects(&objects).unwrap();
        assert_eq!(decoded.objects(kind).identifier, objects.identifier);
        let prices = Prices { all: [Fixed::from_units(125).unwrap(); 3], last: 7 };
        for encoding in ENCODINGS {
            let payload = to_cdr_with(&prices, encoding).unwrap();
            let read = DynamicData::from_cdr(&decoded, &payload).unwrap();
            assert_eq!(read.to_cdr(encoding).unwrap(), payload);
        }
    }
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Leg {
    from: u16,
    to: u16,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Legs {
    legs: Vec<Leg>,
    by_name: BTreeMap<u8, Leg>,
}

/// In XCDR1 an appendable element at the end of a payload could be empty. Both kinds of types
/// require the same minimum number of bytes.
#[test]
fn dynamic_and_derived_types_reject_same_lengths() {
    let of = DynamicType::of::<Legs>();
    let decoded = DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap();
    let of_map = |count: u8| [vec![0, 0, 0, 0, count, 0, 0, 0], vec![7; 5]].concat();
    let of_list = |count: u8| [vec![count, 0, 0, 0], vec![7; 4]].concat();
    let bodies = [of_list(1), of_list(2), of_list(3), of_map(1), of_map(2), of_map(5)];
    let mut refused = 0;
    for encoding in [Encoding::CDR_BE, Encoding::CDR_LE] {
        let [high, low] = encoding.representation_id(Extensibility::Appendable).to_be_bytes();
        for body in &bodies {
            let payload = [&[high, low, 0, 0][..], body].concat();
            let typed = from_cdr::<Legs>(&payload).map(|legs| to_cdr(&legs).unwrap());
            for of in [&of, &decoded] {
                let data = DynamicData::from_cdr(of, &payload);
                match (&typed, data) {
                    (Ok(typed), Ok(data)) => {
                        assert_eq!(&data.to_cdr(Encoding::default()).unwrap(), typed);
                    }
                    (Err(_), Err(_)) => refused += 1,
                    (typed, data) => panic!("{body:?}: {typed:?}, {data:?}"),
                }
            }
        }
    }
    assert!(refused > 0);
}
