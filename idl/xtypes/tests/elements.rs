//! Disallowed elements: the same treatment by derived types, by types from IDL and by types
//! received from peers. Elements in memory of their own have the same bytes as others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use idl_cdr::{DdsType, Encoding, from_cdr, to_cdr_with};
use idl_xtypes::{DynamicData, DynamicType, ObjectKind};

const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];

const IDL: &str = "
@bit_bound(8) enum Level { LOW, @default_literal MIDDLE };
typedef @try_construct(TRIM) string<3> Name;
struct Strict {
    sequence<@try_construct(TRIM) string<2>, 4> cut;
    sequence<@try_construct(USE_DEFAULT) Level> levels;
    Name names[2];
    @try_construct(USE_DEFAULT) sequence<string<2>> all;
    sequence<@try_construct(TRIM) sequence<@try_construct(USE_DEFAULT) string<2>, 2>> lists;
    map<@try_construct(TRIM) string<1>, @external @try_construct(USE_DEFAULT) Level> by_name;
    sequence<@external long> boxed;
    @try_construct(TRIM) sequence<@external @try_construct(TRIM) string<2>, 2> both;
    long last;
};";

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bit_bound = 8)]
enum Level {
    #[dds(name = "LOW")]
    Low,
    #[dds(name = "MIDDLE", default_literal)]
    Middle,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Strict {
    #[dds(bound = [4, 2], element_try_construct = "trim")]
    cut: Vec<String>,
    #[dds(element_try_construct = "use_default")]
    levels: Vec<Level>,
    #[dds(bound = 3, element_try_construct = "trim")]
    names: [String; 2],
    #[dds(element_bound = 2, try_construct = "use_default")]
    all: Vec<String>,
    #[dds(bound = [_, 2, 2], element_try_construct = ["trim", "use_default"])]
    lists: Vec<Vec<String>>,
    #[dds(bound = [_, 1], element_try_construct = ["trim", "use_default"])]
    by_name: BTreeMap<String, Box<Level>>,
    #[allow(clippy::vec_box, reason = "this is what is tested")]
    boxed: Vec<Box<i32>>,
    #[allow(clippy::vec_box, clippy::box_collection, reason = "this is what is tested")]
    #[dds(bound = [2, 2], try_construct = "trim", element_try_construct = "trim")]
    both: Vec<Box<String>>,
    last: i32,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bit_bound = 8)]
enum AnyLevel {
    Low,
    Middle,
    High,
}

/// Version of the type without limits, for a writer that does not check them.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Loose {
    cut: Vec<String>,
    levels: Vec<AnyLevel>,
    names: [String; 2],
    all: Vec<String>,
    lists: Vec<Vec<String>>,
    by_name: BTreeMap<String, AnyLevel>,
    boxed: Vec<i32>,
    both: Vec<String>,
    last: i32,
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn fine() -> Loose {
    Loose {
        cut: texts(&["ab"]),
        levels: vec![AnyLevel::Low, AnyLevel::Middle],
        names: ["a".into(), "b".into()],
        all: texts(&["x"]),
        lists: vec![texts(&["y"])],
        by_name: BTreeMap::from([("k".into(), AnyLevel::Low)]),
        boxed: vec![1, -2],
        both: texts(&["z"]),
        last: 7,
    }
}

/// Returns the type from IDL, as derived, and as received by a peer.
fn types() -> Vec<DynamicType> {
    let derived = DynamicType::of::<Strict>();
    let compiled = DynamicType::from_idl(&idl::parse("elements.idl", IDL).unwrap(), "Strict");
    let compiled = compiled.unwrap();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        assert_eq!(compiled.objects(kind), derived.objects(kind));
    }
    let decoded = DynamicType::from_objects(&derived.objects(ObjectKind::Complete)).unwrap();
    vec![derived, compiled, decoded]
}

/// Returns the result of all types for a loose sample: the derived value, or none.
fn read(loose: &Loose) -> Option<Strict> {
    let types = types();
    let mut results = Vec::new();
    for encoding in ENCODINGS {
        let payload = to_cdr_with(loose, encoding).unwrap();
        let typed = from_cdr::<Strict>(&payload).ok();
        for of in &types {
            let data = DynamicData::from_cdr(of, &payload);
            assert_eq!(data.is_ok(), typed.is_some(), "{data:?} {loose:?}");
            if let (Ok(data), Some(typed)) = (data, &typed) {
                let bytes = to_cdr_with(typed, encoding).unwrap();
                assert_eq!(data.to_cdr(encoding).unwrap(), bytes, "{loose:?}");
            }
        }
        results.push(typed);
    }
    assert!(results.windows(2).all(|two| two[0] == two[1]), "{results:?}");
    results.pop().flatten()
}

#[test]
fn allowed_elements_are_kept_and_external_changes_no_bytes() {
    let read = read(&fine()).unwrap();
    assert_eq!(read.cut, ["ab"]);
    assert_eq!(read.boxed.iter().map(|boxed| **boxed).collect::<Vec<_>>(), [1, -2]);
    for encoding in ENCODINGS {
        let bytes = to_cdr_with(&read, encoding).unwrap();
        assert_eq!(bytes, to_cdr_with(&fine(), encoding).unwrap(), "{encoding:?}");
    }
}

#[test]
fn disallowed_elements_are_trimmed_or_defaulted_individually() {
    let wrong = Loose {
        cut: texts(&["abc", "d", "e\u{e9}"]),
        levels: vec![AnyLevel::Middle, AnyLevel::High, AnyLevel::Low],
        names: ["long".into(), "ok".into()],
        all: texts(&["x", "too long"]),
        lists: vec![texts(&["ab", "abc", "c"]), texts(&["d"])],
        by_name: BTreeMap::from([("key".into(), AnyLevel::High), ("l".into(), AnyLevel::Low)]),
        both: texts(&["abc", "de", "f"]),
        ..fine()
    };
    let read = read(&wrong).unwrap();
    assert_eq!(read.cut, ["ab", "d", "e"], "cut where a character ends");
    assert_eq!(read.levels, [Level::Middle, Level::Middle, Level::Low]);
    assert_eq!(read.names, ["lon", "ok"]);
    assert!(read.all.is_empty(), "what is discarded is so with its collection");
    assert_eq!(read.lists, [texts(&["ab", ""]), texts(&["d"])]);
    let by_name: Vec<_> = read.by_name.iter().map(|(k, v)| (k.as_str(), **v)).collect();
    assert_eq!(by_name, [("k", Level::Middle), ("l", Level::Low)]);
    assert_eq!(read.both.iter().map(|text| text.as_str()).collect::<Vec<_>>(), ["ab", "de"]);
    assert_eq!(read.last, 7, "and reading goes on behind all of them");
}

#[test]
fn sample_with_irreparable_elements_is_rejected() {
    // Too many elements, for which no action is declared.
    assert_eq!(read(&Loose { cut: vec![String::new(); 5], ..fine() }), None);
    // Keys that are equal after truncation.
    let by_name = BTreeMap::from([("ka".into(), AnyLevel::Low), ("kb".into(), AnyLevel::High)]);
    assert_eq!(read(&Loose { by_name, ..fine() }), None);
}
