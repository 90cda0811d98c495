//! Round trips of samples through text and JSON.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../cdr/tests/types/mod.rs"]
mod types;

use idl_cdr::{DdsType, Encoding, LongDouble, to_cdr};
use idl_xtypes::{DynamicData, DynamicType};
use proptest::prelude::*;
use types::*;

fn data<T: DdsType>(value: &T) -> DynamicData {
    DynamicData::from_cdr(&DynamicType::of::<T>(), &to_cdr(value).unwrap()).unwrap()
}

fn parse_error<T: DdsType>(text: &str) -> String {
    DynamicData::parse(&DynamicType::of::<T>(), text).unwrap_err().to_string()
}

#[test]
fn sample_text_and_json_have_expected_form() {
    let changing = Changing {
        number: 7,
        wide: u64::MAX,
        name: "a \"b\"\n".to_owned(),
        maybe: None,
        octets: vec![1, 2],
        words: vec![],
        doubles: vec![0.5, f64::NEG_INFINITY],
        texts: vec!["x".to_owned()],
        inner: Point { x: -1, y: 2.0 },
        choice: Either::Right(Gear { position: 3, locked: true, load: 9 }),
    };
    let derived = Derived { base: changing, more: Color::Blue, cache: 0, last: Flags(3) };
    let data = data(&derived);
    let text = r#"{
  number: 7,
  wide: 18446744073709551615,
  name: "a \"b\"\n",
  octets: [1, 2],
  words: [],
  doubles: [0.5, -Infinity],
  texts: [
    "x"
  ],
  inner: {
    x: -1,
    y: 2.0
  },
  choice: {
    discriminator: false,
    Right: {position: 3, locked: true, load: 9}
  },
  more: Blue,
  last: 3
}"#;
    assert_eq!(data.to_text(), text);
    assert_eq!(DynamicData::parse(data.of(), text).unwrap(), data);
    let json = data.to_json();
    assert!(json.contains("\"doubles\": [0.5, \"-Infinity\"]"), "{json}");
    assert!(json.contains("\"more\": \"Blue\""), "{json}");
    assert_eq!(DynamicData::parse(data.of(), &json).unwrap(), data);
}

#[test]
fn omitted_members_get_their_defaults() {
    let of = DynamicType::of::<Everything>();
    let short = DynamicData::parse(&of, "{ // nothing but\n derived: {number: 0x10,}, }").unwrap();
    let mut expected = DynamicData::new(&of);
    expected.set("derived.number", idl_xtypes::Value::Unsigned(16)).unwrap();
    assert_eq!(short, expected);
    assert_eq!(DynamicData::parse(&of, "{maybe: null}").unwrap(), DynamicData::new(&of));
    let of = DynamicType::of::<Collections>();
    let any = "{squares: [{key: 2, value: 4}, {key: 1, value: 1}]}";
    let keys = DynamicData::parse(&of, any).unwrap();
    assert_eq!(format!("{:?}", keys.get("squares[1]").unwrap()), "Double(1.0)", "in any order");
}

#[test]
fn text_error_states_position_and_reason() {
    assert_eq!(parse_error::<Point>("{x: 1.5}"), "1:5: `x`: expected int32, found `1.5`");
    assert_eq!(parse_error::<Point>("{x: 1\n y: 2}"), "2:2: expected `}` of a struct, found `y`");
    assert_eq!(
        parse_error::<Point>("{z: 1}"),
        "1:2: `z`: there is no member `z`; the members are x, y"
    );
    assert_eq!(
        parse_error::<Point>("{x: 5000000000}"),
        "1:5: `x`: expected int32, found `5000000000`"
    );
    assert_eq!(
        parse_error::<Point>(""),
        "1:1: expected `{` of a struct, found the end of the text"
    );
    assert_eq!(
        parse_error::<Point>("{} {}"),
        "1:4: expected the end after the value, found more text"
    );
    assert_eq!(
        parse_error::<Everything>("{derived: {more: Pink}}"),
        "1:18: `derived.more`: `Pink` is not one of Red, Green, Blue"
    );
    assert_eq!(
        parse_error::<Everything>("{derived: {texts: [\"a\", 7]}}"),
        "1:25: `derived.texts[1]`: expected a string, found `7`"
    );
    assert_eq!(
        parse_error::<Everything>("{texts: {e: [\"1234567\"]}}"),
        "1:23: `texts.e[0]`: this has at most 6 characters, found 7"
    );
    assert_eq!(
        parse_error::<Everything>("{numbers: {i: [[1,2,3]]}}"),
        "1:15: `numbers.i`: the array has 2 elements, found 1"
    );
    assert_eq!(
        parse_error::<Choice>("{discriminator: 1, Text: \"a\"}"),
        "1:1: the discriminator selects another member"
    );
    assert_eq!(
        parse_error::<Collections>("{squares: [{key: 1, value: 1}, {key: 1, value: 2}]}"),
        "1:51: `squares`: this is a map, whose keys must be unique and in ascending order"
    );
    assert_eq!(
        parse_error::<Texts>("{a: \"x"),
        "1:5: `a`: the text that begins here has no closing quote in its line"
    );
    let deep = format!("{}{}", "{next: ".repeat(5000), "}".repeat(5000));
    assert!(parse_error::<Tree>(&deep).ends_with("the value is nested too deep"));
}

proptest! {
    #[test]
    fn samples_survive_round_trip_through_text_and_json(value in everything()) {
        let data = data(&value);
        for text in [data.to_text(), data.to_json()] {
            let again = DynamicData::parse(data.of(), &text);
            prop_assert!(again.is_ok(), "{:?} {}", again, text);
            let (again, data) = (again.unwrap(), data.to_cdr(Encoding::default()).unwrap());
            prop_assert_eq!(again.to_cdr(Encoding::default()).unwrap(), data);
        }
    }

    #[test]
    fn parser_does_not_panic_on_damaged_text(
        value in everything(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..4),
    ) {
        let data = data(&value);
        let mut text: Vec<char> = data.to_text().chars().collect();
        for (at, with) in damage {
            let at = at.index(text.len());
            text[at] = with;
        }
        let _ = DynamicData::parse(data.of(), &text.into_iter().collect::<String>());
    }
}

/// Enough digits to identify the number; bits only for numbers without a decimal form.
#[test]
fn long_double_is_written_as_decimal_digits() {
    let of = DynamicType::of::<LongDouble>();
    let cases = [
        ("0.1", "0.1", "0.1"),
        ("1", "1.0", "1.0"),
        ("-0.0", "-0.0", "-0.0"),
        ("1.0000000000000000000000000000000002", "", "1.0000000000000000000000000000000002"),
        ("1e4000", "1.0e4000", "\"1.0e4000\""),
        ("\"1e-4000\"", "1.0e-4000", "1.0e-4000"),
        ("-Infinity", "-Infinity", "\"-Infinity\""),
        ("NaN", "NaN", "\"NaN\""),
        ("0x3fff8000000000000000000000000000", "1.5", "1.5"),
        (
            "0x7fff8000000000000000000000000001",
            "\"0x7fff8000000000000000000000000001\"",
            "\"0x7fff8000000000000000000000000001\"",
        ),
    ];
    for (read, text, json) in cases {
        let data = DynamicData::parse(&of, read).unwrap();
        let text = if text.is_empty() { json } else { text };
        assert_eq!((data.to_text().as_str(), data.to_json().as_str()), (text, json), "{read}");
        for written in [text, json] {
            assert_eq!(DynamicData::parse(&of, written).unwrap(), data, "{read}");
        }
    }
    assert_eq!(parse_error::<LongDouble>("1.5.5"), "1:1: expected long double, found `1.5.5`");
}

/// Bits that only a later version names are preserved, in text as in bytes.
#[test]
fn unnamed_bitmask_bits_survive_text_round_trip() {
    let of = DynamicType::of::<Flags>();
    let data = DynamicData::parse(&of, "65535").unwrap();
    assert_eq!(DynamicData::parse(&of, &data.to_text()).unwrap(), data);
    assert!(parse_error::<Flags>("65536").contains("this is a bitmask"), "beyond its two bytes");
}

/// A NUL ends a string on the wire, so a string with an inner NUL could not be written.
#[test]
fn parser_rejects_string_with_inner_nul() {
    assert_eq!(
        parse_error::<Texts>("{a: \"x\\u0000\"}"),
        "1:14: `a`: this is a string with a NUL inside, which would end the string"
    );
    assert!(DynamicData::parse(&DynamicType::of::<Texts>(), "{b: \"x\\u0000\"}").is_ok());
}

/// Peers choose names freely; the printed text is read back.
#[test]
fn member_name_that_is_not_identifier_is_quoted() {
    use idl_xtypes::{MemberOptions, StructBuilder};
    let number = DynamicType::of::<i32>();
    let of = StructBuilder::new("Odd", idl_cdr::Extensibility::Final)
        .member("a b", &number, MemberOptions::default())
        .member("plain", &number, MemberOptions::default())
        .build()
        .unwrap();
    let text = "{\n  \"a b\": 1,\n  plain: 2\n}";
    let data = DynamicData::parse(&of, text).unwrap();
    assert_eq!(data.to_text(), text);
}

/// Numbers of a list are on one line, also those with a decimal point; the entries of a map are on
/// one line each if their values are.
#[test]
fn lists_of_numbers_and_short_entries_are_printed_on_one_line() {
    let idl = "struct P { long x; };
        struct S { fixed<5, 2> f[2]; map<short, string> short_ones; map<short, P> long_ones; };";
    let of = DynamicType::from_idl(&idl::parse("s.idl", idl).unwrap(), "S").unwrap();
    let text = "{f: [1.5, -2], short_ones: [{key: 1, value: \"a\"}], long_ones: [{key: 2, value: {x: 3}}]}";
    let shown = DynamicData::parse(&of, text).unwrap().to_text();
    assert_eq!(
        shown,
        "{\n  f: [1.50, -2.00],\n  short_ones: [\n    {key: 1, value: \"a\"}\n  ],\n  \
         long_ones: [\n    {\n      key: 2,\n      value: {\n        x: 3\n      }\n    }\n  ]\n}"
    );
    assert_eq!(DynamicData::parse(&of, &shown).unwrap().to_text(), shown);
}
