//! Values with their types: their bytes and text, the ways to read them, and the treatment of
//! damaged ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use golden::boxed::{Either, Late, Report};
use idl_cdr::{DdsType, Encoding, from_cdr, to_cdr, to_cdr_with};
use idl_xtypes::{
    Any, AnyError, DynamicData, DynamicType, ObjectKind, TypeObjects, UnionValue, Value,
};
use proptest::prelude::*;

/// Includes the generated code as a user does.
mod golden {
    #![deny(missing_docs)]
    #![allow(unreachable_pub, dead_code, reason = "not every type is used here")]
    include!("../../tests/golden/any.rs");
}

const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Fix {
    id: u32,
    name: String,
}

/// A later version of the type.
mod later {
    #[derive(idl_cdr::DdsType, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", name = "Fix", extensibility = "appendable")]
    pub(super) struct Fix {
        pub(super) id: u32,
        pub(super) name: String,
        pub(super) height: f64,
    }

    #[derive(idl_cdr::DdsType, Debug)]
    #[dds(crate = "idl_cdr", name = "Fix", extensibility = "appendable")]
    pub(super) struct Other {
        id: String,
    }
}

fn fix(id: u32) -> Fix {
    Fix { id, name: "fix".to_owned() }
}

fn report() -> Report {
    Report {
        id: 7,
        what: Any::of(&fix(1)).unwrap(),
        more: Some(Any::default()),
        far: Box::new(Any::of(&"text".to_owned()).unwrap()),
        few: vec![Any::of(&1_u8).unwrap(), Any::of(&vec![fix(2), fix(3)]).unwrap()],
        pair: [Any::of(&[1.5_f64, 2.5]).unwrap(), Any::default()],
        named: BTreeMap::from([("a".to_owned(), Any::of(&fix(4)).unwrap())]),
    }
}

/// The form in the documentation, byte by byte.
#[test]
fn any_is_encoded_as_two_octet_sequences() {
    // The header, the total size, the identifier TK_UINT32, and no objects: their size, and
    // their number.
    let told = [0, 9, 0, 0, 12, 0, 0, 0, 0x07, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(to_cdr(&DynamicType::of::<u32>().objects(ObjectKind::Complete)).unwrap(), told);
    let size = told.len() as u8;
    let mut wanted = vec![0, 7, 0, 0, size, 0, 0, 0];
    wanted.extend(&told);
    wanted.resize(wanted.len().next_multiple_of(4), 0);
    wanted.extend([8, 0, 0, 0, 0, 7, 0, 0, 0x04, 0x03, 0x02, 0x01]);
    assert_eq!(to_cdr(&Any::of(&0x0102_0304_u32).unwrap()).unwrap(), wanted);
    assert_eq!(to_cdr(&Any::default()).unwrap(), [0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // The contents are the same in every surrounding encoding.
    let big = to_cdr_with(&Any::of(&0x0102_0304_u32).unwrap(), Encoding::CDR_BE).unwrap();
    assert_eq!(big[..8], [0, 0, 0, 0, 0, 0, 0, size]);
    assert_eq!(big[big.len() - 8..], [0, 7, 0, 0, 4, 3, 2, 1]);
}

#[test]
fn any_returns_value_as_assignable_type_or_reports_mismatch() {
    let any = Any::of(&fix(1)).unwrap();
    assert_eq!(any.get::<Fix>(), Ok(fix(1)));
    let newer = any.get::<later::Fix>().unwrap();
    assert_eq!(newer, later::Fix { id: 1, name: "fix".to_owned(), height: 0.0 });
    assert_eq!(Any::of(&newer).unwrap().get::<Fix>(), Ok(fix(1)));
    assert_eq!(any.dynamic_type().unwrap().name(), "Fix");

    let message = |error: AnyError| error.to_string();
    assert_eq!(
        message(any.get::<later::Other>().unwrap_err()),
        "this any holds `Fix`, which cannot be taken as `Fix`: `Fix.id`: a string in the reader's type, uint32 in the writer's"
    );
    assert_eq!(
        message(any.get::<Report>().unwrap_err()),
        "this any holds `Fix`, which cannot be taken as `Boxed::Report`; ask for that type, or read the value with `data`"
    );
    assert_eq!(
        message(Any::of(&7_u32).unwrap().get::<i32>().unwrap_err()),
        "this any holds uint32, which cannot be taken as int32: `the type`: int32 in the reader's type, uint32 in the writer's"
    );
    assert_eq!(Any::default().get::<Fix>(), Err(AnyError::Empty));
    assert_eq!(Any::default().data(), Err(AnyError::Empty));
    assert!(Any::default().is_empty() && !any.is_empty());
    // An `any` in another one, and one of a run-time type.
    let outer = Any::of(&any).unwrap();
    assert_eq!(outer.get::<Any>().unwrap().get::<Fix>(), Ok(fix(1)));
    assert_eq!(Any::of_data(&any.data().unwrap()).unwrap(), any);
}

/// The generated type, the type from IDL and the type received by a peer are the same, and so are
/// their bytes.
#[test]
fn any_is_allowed_in_every_member_position() {
    let text = include_str!("../../tests/golden/any.idl");
    let idl = idl::parse("any.idl", text).unwrap();
    let value = report();
    for (name, derived) in [
        ("Boxed::Report", DynamicType::of::<Report>()),
        ("Boxed::Either", DynamicType::of::<Either>()),
        ("Boxed::Late", DynamicType::of::<Late>()),
    ] {
        let of_idl = DynamicType::from_idl(&idl, name).unwrap();
        for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
            assert_eq!(of_idl.objects(kind), derived.objects(kind), "{name}");
        }
    }
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        let of = DynamicType::from_objects(&DynamicType::of::<Report>().objects(kind)).unwrap();
        for encoding in ENCODINGS {
            let payload = to_cdr_with(&value, encoding).unwrap();
            assert_eq!(from_cdr::<Report>(&payload).unwrap(), value, "{encoding:?}");
            let mut data = DynamicData::from_cdr(&of, &payload).unwrap();
            assert_eq!(data.to_cdr(encoding).unwrap(), payload, "{encoding:?}");
            assert_eq!(DynamicData::parse(&of, &data.to_json()).unwrap(), data);
            if kind == ObjectKind::Complete {
                assert_eq!(data.any("what").unwrap(), value.what);
                assert_eq!(data.any("few[1]").unwrap().get(), Ok(vec![fix(2), fix(3)]));
                data.set_any("few[1]", &Any::of(&true).unwrap()).unwrap();
                assert_eq!(data.any("few[1]").unwrap().get(), Ok(true));
                let error = data.any("id").unwrap_err();
                assert_eq!(error.to_string(), "`id` is not an any");
            }
        }
    }
    for value in [
        Late { either: Either::Held(value.what.clone()), rest: vec![Any::default(), value.what] },
        Late { either: Either::Text { discriminator: 3, value: "none".to_owned() }, rest: vec![] },
    ] {
        for encoding in ENCODINGS {
            let payload = to_cdr_with(&value, encoding).unwrap();
            assert_eq!(from_cdr::<Late>(&payload).unwrap(), value, "{encoding:?}");
        }
    }
    let long = Report { few: vec![Any::default(); 3], ..report() };
    assert!(to_cdr(&long).is_err(), "a bound counts for it as for others");
}

#[test]
fn text_of_any_shows_held_type_and_value() {
    let of = DynamicType::of::<Late>();
    let mut data = DynamicData::new(&of);
    let inner = Any::of(&Any::of(&5_u8).unwrap()).unwrap();
    data.set(
        "rest",
        Value::Collection(vec![Value::Structure(vec![
            Value::Collection(vec![]),
            Value::Collection(vec![]),
        ])]),
    )
    .unwrap();
    data.set_any("rest[1]", &Any::of(&fix(9)).unwrap()).unwrap();
    data.set_any("rest[2]", &inner).unwrap();
    let either = UnionValue {
        discriminator: Value::Signed(1),
        case: 0,
        member: data.get_value("rest[1]").unwrap().clone(),
    };
    data.set("either", Value::Union(Box::new(either))).unwrap();
    let text = data.to_text();
    assert!(text.contains("type: Fix,"), "{text}");
    assert!(text.contains("value: {\n        id: 9,\n        name: \"fix\"\n      }"), "{text}");
    assert!(text.contains("type: octet") || text.contains("value: 5"), "{text}");
    assert_eq!(DynamicData::parse(&of, &text).unwrap(), data);
    assert_eq!(DynamicData::parse(&of, &data.to_json()).unwrap(), data);
    assert_eq!(DynamicData::parse(&of, &data.to_json_line()).unwrap(), data);

    // Contents that the text of the value cannot express are shown as bytes.
    let odd = |value: &[u8]| {
        let told = to_cdr(&DynamicType::of::<u32>().objects(ObjectKind::Complete)).unwrap();
        let octets = |bytes: &[u8]| {
            Value::Collection(bytes.iter().map(|byte| Value::Unsigned((*byte).into())).collect())
        };
        let mut data = DynamicData::new(&of);
        data.set(
            "rest",
            Value::Collection(vec![Value::Structure(vec![octets(&told), octets(value)])]),
        )
        .unwrap();
        data
    };
    for (value, shown) in [
        (&[0, 7, 0, 0, 4, 3, 2, 1][..], "value: 16909060"),
        (&[0, 6, 0, 0, 1, 2, 3, 4], "value: [0, 6, 0, 0, 1, 2, 3, 4]"),
        (&[0, 7, 0, 0, 4], "value: [0, 7, 0, 0, 4]"),
        (&[], "value: []"),
    ] {
        let data = odd(value);
        assert!(data.to_text().contains(shown), "{}", data.to_text());
        assert_eq!(DynamicData::parse(&of, &data.to_text()).unwrap(), data);
    }
    for (text, error) in [
        ("{rest: [{type_objects: \"0\"}]}", "expected bytes in hexadecimal digits"),
        ("{rest: [{type_objects: \"00070000\"}]}", "the type objects of this any cannot be read"),
        ("{rest: [{nothing: 1}]}", "an any has no member `nothing`; its members are type"),
    ] {
        let found = DynamicData::parse(&of, text).unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
}

/// A peer may give this name to its own type. The type then counts as what its contents say.
#[test]
fn type_is_not_any_by_its_name_alone() {
    #[derive(DdsType, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", name = "any")]
    struct Impostor {
        type_objects: Vec<u8>,
        value: Vec<u16>,
    }
    let of = DynamicType::of::<Impostor>();
    let data = DynamicData::parse(&of, "{type_objects: [1], value: [700]}").unwrap();
    assert_eq!(DynamicData::parse(&of, &data.to_text()).unwrap(), data);
    assert!(DynamicData::parse(&of, "{type_objects: \"00\"}").is_err());
    let any = Any::of(&Impostor { type_objects: vec![1], value: vec![700] }).unwrap();
    assert!(matches!(any.get::<Any>(), Err(AnyError::Other { .. })));
}

/// A nesting so deep that recursion would overflow the stack.
#[test]
fn deeply_nested_any_is_read_or_rejected_without_stack_overflow() {
    let mut any = Any::default();
    for _ in 0..300 {
        any = Any::of(&any).unwrap();
    }
    let data = any.data().unwrap();
    let text = data.to_text();
    assert_eq!(DynamicData::parse(data.of(), &text).unwrap(), data);
    let digits: String = to_cdr(&DynamicType::of::<Any>().objects(ObjectKind::Complete))
        .unwrap()
        .iter()
        .fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    let one = format!("{{type_objects: \"{digits}\", value: ");
    let deep = one.repeat(1000) + "{}" + &"}".repeat(1000);
    let error = DynamicData::parse(&DynamicType::of::<Any>(), &deep).unwrap_err();
    assert_eq!(error.reason, "the value is nested too deep");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any bytes are refused or accepted, and accepted ones survive the round trip through text.
    #[test]
    fn damaged_any_is_rejected_or_survives_round_trip(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let whole = Any::of(&report()).unwrap();
        let payload = to_cdr(&whole).unwrap();
        let told = payload.len() - to_cdr(&report()).unwrap().len() - 8;
        for first in [8, told + 8] {
            let mut payload = payload.clone();
            for (place, byte) in &changes {
                let place = first + place.index(payload.len() - first);
                payload[place] = *byte;
            }
            if cuts {
                let place = cut.index(payload.len());
                payload.truncate(place);
            }
            let Ok(any) = from_cdr::<Any>(&payload) else { continue };
            let _ = any.get::<Report>().map_err(|error| error.to_string());
            let _ = any.data().map_err(|error| error.to_string());
            let data = DynamicData::from_cdr(&DynamicType::of::<Any>(), &payload).unwrap();
            let read = DynamicData::parse(data.of(), &data.to_text()).unwrap();
            prop_assert_eq!(&read, &data);
        }
    }

    #[test]
    fn random_any_survives_round_trip(
        numbers in proptest::collection::vec(any::<f64>(), 0..9),
        texts in proptest::collection::vec("[^\0]{0,8}", 0..4),
        more in proptest::option::of(any::<u64>()),
    ) {
        let value = Report {
            what: Any::of(&numbers).unwrap(),
            few: texts.iter().take(2).map(|text| Any::of(text).unwrap()).collect(),
            more: more.map(|number| Any::of(&number).unwrap()),
            ..report()
        };
        for encoding in ENCODINGS {
            let payload = to_cdr_with(&value, encoding).unwrap();
            let read = from_cdr::<Report>(&payload).unwrap();
            prop_assert_eq!(&read, &value);
            let bits = |numbers: &[f64]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&read.what.get::<Vec<f64>>().unwrap()), bits(&numbers));
            prop_assert_eq!(read.more.map(|any| any.get::<u64>().unwrap()), more);
            let of = DynamicType::of::<Report>();
            let data = DynamicData::from_cdr(&of, &payload).unwrap();
            prop_assert_eq!(data.to_cdr(encoding).unwrap(), payload);
            prop_assert_eq!(&DynamicData::parse(&of, &data.to_json()).unwrap(), &data);
        }
        let objects: TypeObjects = DynamicType::of::<Report>().objects(ObjectKind::Complete);
        prop_assert!(DynamicType::from_objects(&objects).is_ok());
    }
}
