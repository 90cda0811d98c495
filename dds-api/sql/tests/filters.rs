//! Samples that filters accept, and expressions that filters refuse.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cmp::Ordering;
use std::collections::BTreeMap;

use dds_sql::{ExpressionError, Filter};
use idl_cdr::{DdsType, Fixed, LongDouble, to_cdr};
use idl_xtypes::{DynamicData, DynamicType, MemberLookup};
use proptest::prelude::*;

#[derive(DdsType, Clone, Copy, PartialEq, Debug, Default)]
#[dds(crate = "idl_cdr")]
enum Phase {
    #[default]
    Taxi,
    Climb = 4,
    Cruise = 9,
}

#[derive(DdsType, Clone, Debug, Default)]
#[dds(crate = "idl_cdr")]
struct Position {
    x: f64,
    y: f32,
}

#[derive(DdsType, Clone, Debug)]
#[dds(crate = "idl_cdr", union, discriminator = "i16")]
enum Reading {
    #[dds(case = 1)]
    Speed(u16),
    #[dds(case = 2)]
    Note(String),
}

#[derive(DdsType, Clone, Debug)]
#[dds(crate = "idl_cdr")]
struct Track {
    #[dds(key)]
    callsign: String,
    position: Position,
    altitude: i32,
    large: u64,
    airborne: bool,
    grade: char,
    phase: Phase,
    last_phase: Phase,
    corners: Vec<Position>,
    squawk: [u16; 4],
    remark: Option<String>,
    reading: Reading,
}

fn track() -> Track {
    Track {
        callsign: "F-GKXA".to_owned(),
        position: Position { x: 1.5, y: 0.1 },
        altitude: -100,
        large: u64::MAX,
        airborne: true,
        grade: 'B',
        phase: Phase::Climb,
        last_phase: Phase::Taxi,
        corners: vec![Position { x: 7.0, y: 8.0 }],
        squawk: [7, 0, 0, 1],
        remark: None,
        reading: Reading::Speed(250),
    }
}

fn strings(parameters: &[&str]) -> Vec<String> {
    parameters.iter().map(|parameter| (*parameter).to_owned()).collect()
}

fn accepts(expression: &str, parameters: &[&str]) -> bool {
    let filter = Filter::new::<Track>(expression, &strings(parameters));
    filter.unwrap_or_else(|error| panic!("{error}")).accepts(&track())
}

fn error(expression: &str, parameters: &[&str]) -> ExpressionError {
    Filter::new::<Track>(expression, &strings(parameters)).unwrap_err()
}

#[test]
fn every_kind_of_member_is_compared() {
    for (expression, is) in [
        ("altitude = -100", true),
        ("altitude < -99.5", true),
        ("-99.5 > altitude", true),
        ("altitude >= 0", false),
        ("large > 9223372036854775807", true),
        ("large = 18446744073709551615", true),
        ("large = 18446744073709551614", false),
        ("altitude < large", true),
        ("position.x = 1.5", true),
        ("position.x <> 1.5", false),
        ("position.y = 0.1", true),
        ("position.x > position.y", true),
        ("airborne = TRUE", true),
        ("airborne = false", false),
        ("airborne = 1", true),
        ("grade = 'B'", true),
        ("grade > 'A'", true),
        ("phase = 'Climb'", true),
        ("phase = Climb", true),
        ("Climb = phase", true),
        ("phase > Taxi AND phase < Cruise", true),
        ("Cruise > phase", true),
        ("phase = 4", true),
        ("phase <> last_phase", true),
        ("callsign = 'F-GKXA'", true),
        ("callsign < 'G'", true),
        ("callsign LIKE 'F-%'", true),
        ("callsign NOT LIKE '%X_'", false),
        ("grade LIKE '_'", true),
        ("corners[0].x = 7", true),
        ("squawk[3] = 1", true),
        ("altitude BETWEEN -100 AND 0", true),
        ("altitude NOT BETWEEN -99 AND 0", true),
        ("phase BETWEEN Taxi AND Climb", true),
        ("callsign BETWEEN 'F' AND 'G'", true),
        ("reading.Speed = 250", true),
    ] {
        assert_eq!(accepts(expression, &[]), is, "{expression}");
    }
}

#[derive(DdsType, Clone, Debug)]
#[dds(crate = "idl_cdr")]
struct Precise {
    exact: LongDouble,
    far: LongDouble,
    double: f64,
    price: Fixed<31, 30>,
    whole: Fixed<31, 0>,
    count: u64,
}

/// Long doubles are compared by their 113 bits and decimal numbers by all their digits, with
/// values of their own kind and with members of any other numeric kind, for compiled and for
/// dynamic types.
#[test]
fn numbers_that_are_no_doubles_are_compared_as_what_they_are() {
    let value = Precise {
        exact: LongDouble::parse("0.1").unwrap(),
        far: LongDouble::parse("-1e4000").unwrap(),
        double: 0.1,
        price: Fixed::from_units(1_000_000_000_000_000_000_000_000_000_001).unwrap(),
        whole: Fixed::from_units(9_999_999_999_999_999_999_999_999_999_999).unwrap(),
        count: u64::MAX,
    };
    let of = DynamicType::of::<Precise>();
    let data = DynamicData::from_cdr(&of, &to_cdr(&value).unwrap()).unwrap();
    for (expression, is) in [
        ("exact = 0.1", true),
        ("exact = 0.1000000000000000000000000000000001", false),
        ("exact < 0.1000000000000000000000000000000001", true),
        // The double nearest to a tenth is slightly larger than a tenth.
        ("exact = double", false),
        ("exact < double", true),
        ("double > exact", true),
        ("double = 0.1", true),
        ("exact BETWEEN 0.0999999999999999999999999999 AND 0.1000000000000000000000000001", true),
        ("far = -1e4000", true),
        ("far < -1e3999", true),
        ("far > -1.0000000000000000000000000000001e4000", true),
        ("far < double", true),
        ("far < count", true),
        ("exact < 1 AND exact > 0", true),
        ("price = 1.000000000000000000000000000001", true),
        ("price > 1", true),
        ("price > 1.000000000000000000000000000000", true),
        ("price < 1.000000000000000000000000000002", true),
        ("price > double", true),
        ("price > exact", true),
        ("whole > count", true),
        ("whole = 9999999999999999999999999999999.0", true),
        ("whole = 9999999999999999999999999999998.0", false),
        ("count = 18446744073709551615", true),
    ] {
        assert_eq!(
            Filter::new::<Precise>(expression, &[]).unwrap().accepts(&value),
            is,
            "{expression}"
        );
        let filter = Filter::in_type(MemberLookup::Dynamic(&of), expression, &[]).unwrap();
        assert_eq!(filter.accepts(&data), is, "{expression}");
    }
    let given = Filter::new::<Precise>("exact = %0 AND far = %1", &strings(&["0.1", "-1e4000"]));
    assert!(given.unwrap().accepts(&value));
    let wrong = Filter::new::<Precise>("double < 1e400", &[]).unwrap_err();
    assert_eq!(wrong.reason(), "beside `double`: 1e400 is larger than any double");
    let wrong = Filter::new::<Precise>("far < 1e5000", &[]).unwrap_err();
    assert_eq!(wrong.reason(), "`1e5000` is no number");
}

#[test]
fn what_is_not_there_is_neither_so_nor_not_so() {
    for absent in ["remark = 'x'", "corners[1].x = 7", "reading.Note LIKE '%'"] {
        assert!(!accepts(absent, &[]), "{absent}");
        assert!(!accepts(&format!("NOT {absent}"), &[]), "NOT {absent}");
        assert!(accepts(&format!("{absent} OR airborne = TRUE"), &[]), "{absent}");
        assert!(!accepts(&format!("NOT ({absent} AND airborne = TRUE)"), &[]), "{absent}");
        assert!(accepts(&format!("NOT ({absent} AND airborne = FALSE)"), &[]), "{absent}");
    }
}

#[test]
fn what_is_no_number_is_equal_to_nothing() {
    let nan = Track { position: Position { x: f64::NAN, y: 0.0 }, ..track() };
    for (expression, is) in [
        ("position.x = 0", false),
        ("position.x <> 0", true),
        ("position.x < 0", false),
        ("position.x >= 0", false),
    ] {
        assert_eq!(
            Filter::new::<Track>(expression, &[]).unwrap().accepts(&nan),
            is,
            "{expression}"
        );
    }
}

#[test]
fn parameters_are_values_that_change() {
    let text = "altitude > %1 AND callsign = %0";
    let filter = Filter::new::<Track>(text, &strings(&["'F-GKXA'", "-200"])).unwrap();
    assert!(filter.accepts(&track()));
    let stricter = filter.with_parameters(&strings(&["'F-GKXA'", "0"])).unwrap();
    assert!(!stricter.accepts(&track()));
    assert!(filter.accepts(&track()), "the one before is not changed");
    assert_eq!((stricter.expression(), stricter.parameters().len()), (text, 2));
    assert!(accepts("phase = %0", &["Climb"]) && accepts("phase = %0", &["'Climb'"]));
    assert!(accepts("callsign LIKE %0", &["'%A'"]));
    let wrong = filter.with_parameters(&strings(&["'x'"])).unwrap_err();
    assert_eq!(wrong.reason(), "there is no parameter %1: one was given, counted from %0");
}

#[test]
fn what_cannot_be_compared_is_refused_with_its_place() {
    for (expression, parameters, at, reason) in [
        (
            "height > 3",
            &[][..],
            0,
            "`Track` has no member `height`; it has callsign, position, altitude, large, airborne, \
             grade, phase, last_phase, corners, squawk, remark, reading",
        ),
        ("position.z > 3", &[], 9, "`Position` has no member `z`; it has x, y"),
        ("position > 3", &[], 0, "`position` is a whole `Position`: say which of its members"),
        ("corners = 3", &[], 0, "`corners` has elements: say which, like `[0]`"),
        ("squawk[4] = 3", &[], 6, "the array has 4 elements, found index 4"),
        ("altitude > 'high'", &[], 11, "beside `altitude`: a number was expected, found 'high'"),
        ("callsign = 3", &[], 11, "beside `callsign`: a text in quotes was expected, found 3"),
        ("airborne = 2.5", &[], 11, "beside `airborne`: TRUE or FALSE was expected, found 2.5"),
        ("grade = 7", &[], 8, "beside `grade`: a character in quotes was expected, found 7"),
        (
            "phase = 'Climbing'",
            &[],
            8,
            "beside `phase`: there is no `Climbing` among Taxi, Climb, Cruise",
        ),
        (
            "phase = Descent",
            &[],
            8,
            "beside `phase`: there is no `Descent` among Taxi, Climb, Cruise",
        ),
        (
            "callsign = altitude",
            &[],
            11,
            "`callsign` and `altitude` cannot be compared: beside `callsign` a text in quotes was expected",
        ),
        ("altitude LIKE '1%'", &[], 0, "`altitude` is no text, and LIKE compares texts"),
        (
            "callsign LIKE 3",
            &[],
            14,
            "beside `callsign`: a pattern in quotes was expected, found 3",
        ),
        ("altitude > %0", &[], 11, "there is no parameter %0: none was given, counted from %0"),
        (
            "altitude > %0",
            &["'x'"],
            11,
            "parameter %0 beside `altitude`: a number was expected, found 'x'",
        ),
        (
            "altitude > %0",
            &["1 2"],
            11,
            "parameter %0 is `1 2`: one value was expected, and here is more",
        ),
        (
            "callsign = %0",
            &["F"],
            11,
            "parameter %0 beside `callsign`: a text in quotes was expected, found F",
        ),
    ] {
        let found = error(expression, parameters);
        assert_eq!((found.position(), found.reason()), (at, reason), "{expression}");
    }
}

#[test]
fn a_query_puts_samples_in_order() {
    let query =
        Filter::query::<Track>("airborne = TRUE ORDER BY phase, remark, altitude", &[]).unwrap();
    assert!(query.is_ordered() && query.accepts(&track()));
    let sample = Track { remark: Some(String::new()), ..track() };
    let higher = Track { altitude: 0, ..track() };
    let cruising = Track { phase: Phase::Cruise, altitude: -5_000, ..track() };
    assert_eq!(query.order(&track(), &track()), Ordering::Equal);
    assert_eq!(query.order(&track(), &higher), Ordering::Less);
    assert_eq!(query.order(&sample, &higher), Ordering::Greater, "what is not there comes first");
    assert_eq!(query.order(&cruising, &sample), Ordering::Greater);
    let all = Filter::query::<Track>("ORDER BY altitude", &[]).unwrap();
    assert!(all.accepts(&Track { airborne: false, ..track() }));
    let wrong = Filter::query::<Track>("ORDER BY position", &[]).unwrap_err();
    assert_eq!(wrong.reason(), "`position` is a whole `Position`: say which of its members");
    assert!(!Filter::query::<Track>("", &[]).unwrap().is_ordered());
}

/// Rust equivalent of the tested expression.
fn plainly(track: &Track, low: i32, high: i32) -> bool {
    (track.altitude > low && track.altitude <= high || track.airborne)
        && f64::from(track.altitude) >= track.position.x
}

proptest! {
    #[test]
    fn a_filter_says_what_the_same_condition_says_in_rust(
        altitude in -4_i32..4, x in -4.0..4.0, airborne: bool, low in -4_i32..4, high in -4_i32..4,
    ) {
        let text = "(altitude > %0 AND altitude <= %1 OR airborne = TRUE) AND NOT altitude < position.x";
        let parameters = [low.to_string(), high.to_string()];
        let track = Track { altitude, airborne, position: Position { x, y: 0.0 }, ..track() };
        let filter = Filter::new::<Track>(text, &parameters).unwrap();
        prop_assert_eq!(filter.accepts(&track), plainly(&track, low, high));
    }

    #[test]
    fn patterns_are_what_they_are_by_definition(text in "[ab]{0,8}", pattern in "[ab%_]{0,6}") {
        fn by_definition(text: &[u8], pattern: &[u8]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some((b'%', rest)) => (0..=text.len()).any(|at| by_definition(&text[at..], rest)),
                Some((b'_', rest)) => text.split_first().is_some_and(|(_, text)| by_definition(text, rest)),
                Some((letter, rest)) => {
                    text.split_first().is_some_and(|(found, text)| found == letter && by_definition(text, rest))
                }
            }
        }
        let track = Track { callsign: text.clone(), ..track() };
        let filter = Filter::new::<Track>("callsign LIKE %0", &[format!("'{pattern}'")]).unwrap();
        let expected = by_definition(text.as_bytes(), pattern.as_bytes());
        prop_assert_eq!(filter.accepts(&track), expected);
    }
}

#[test]
fn match_and_like_test_texts_both_ways_round() {
    for (expression, is) in [
        ("callsign MATCH 'F-*'", true),
        ("callsign MATCH 'D-*, E-*'", false),
        ("callsign match 'D-*,?-GK[A-Z]A'", true),
        ("callsign NOT MATCH 'D-*'", true),
        ("grade MATCH '[AB]'", true),
        ("'F-GKXA' LIKE callsign", true),
        ("'F-GKX' LIKE callsign", false),
        ("'F-GKX' NOT LIKE callsign", true),
        ("callsign LIKE callsign", true),
        ("callsign LIKE grade", false),
        ("callsign NOT LIKE grade", true),
        // Neither true nor false, because the pattern does not exist.
        ("callsign LIKE remark", false),
        ("callsign NOT LIKE remark", false),
        ("callsign LIKE reading.Note", false),
    ] {
        assert_eq!(accepts(expression, &[]), is, "{expression}");
    }
    assert!(accepts("callsign MATCH %0", &["'*XA'"]));
    let patterned = Track { remark: Some("F-G%A".to_owned()), ..track() };
    let filter = Filter::new::<Track>("callsign LIKE remark", &[]).unwrap();
    assert!(filter.accepts(&patterned));
    let other = Track { callsign: "D-GKXA".to_owned(), ..patterned };
    assert!(!filter.accepts(&other));
    for (wrong, reason) in [
        ("callsign LIKE altitude", "`altitude` is no text, and LIKE compares texts"),
        ("callsign LIKE callsing", "no member `callsing`"),
        ("squawk[99999999999999999999] = 1", "the index 99999999999999999999 is out of bounds"),
        ("corners[99999999999999999999].x = 1", "is out of bounds"),
    ] {
        let error = Filter::new::<Track>(wrong, &[]).unwrap_err();
        assert!(error.reason().contains(reason), "{wrong}: {error}");
    }
    let error = Filter::new::<Track>("altitude MATCH '1*'", &[]).unwrap_err();
    assert_eq!(error.reason(), "`altitude` is no text, and MATCH compares texts");
}

#[test]
fn booleans_compare_with_integers_and_characters_with_texts() {
    for (expression, is) in [
        ("airborne = 1", true),
        ("airborne = 2", false),
        ("airborne < 2", true),
        ("squawk[3] = TRUE", true),
        ("squawk[1] = TRUE", false),
        ("squawk[3] = airborne", true),
        ("airborne > squawk[1]", true),
        ("grade = 'BC'", false),
        ("grade < 'BC'", true),
        ("grade < callsign", true),
    ] {
        assert_eq!(accepts(expression, &[]), is, "{expression}");
    }
}

#[test]
fn empty_expression_selects_all_samples() {
    assert!(accepts("", &[]) && accepts(" \n", &[]));
}

/// The wildcards of a shell select what has these characters, and cause a remark.
#[test]
fn pattern_of_like_with_wildcards_of_a_shell_causes_remark() {
    let remarks = |expression: &str, parameters: &[&str]| {
        let filter = Filter::new::<Track>(expression, &strings(parameters)).unwrap();
        assert!(!filter.accepts(&track()), "{expression}");
        let remarks = filter.remarks().into_iter();
        remarks.map(|remark| (remark.position(), remark.reason().to_owned())).collect::<Vec<_>>()
    };
    let told = remarks("callsign LIKE 'F*' OR NOT callsign NOT LIKE %0", &["'F-????'"]);
    assert_eq!(told.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [14, 44]);
    assert!(told[0].1.starts_with("`F*` is compared with each of its characters"), "{told:?}");
    assert!(told[1].1.contains("`%` for any text and `_` for one character"), "{told:?}");
    for silent in
        ["callsign LIKE 'G%*'", "callsign LIKE 'G_?'", "callsign MATCH 'G*'", "grade = '*'"]
    {
        assert_eq!(remarks(silent, &[]), [], "{silent}");
    }
}

#[derive(DdsType, Clone, Debug)]
#[dds(crate = "idl_cdr")]
struct Bounded {
    #[dds(bound = [2, 3])]
    names: Vec<String>,
    #[dds(bound = [4, 8, 2, 5])]
    by_name: BTreeMap<String, [Vec<Vec<u8>>; 3]>,
    #[dds(bound = 2)]
    rows: [Vec<i32>; 2],
    #[dds(bound = 1)]
    tracks: Option<Vec<Inner>>,
    free: Vec<i32>,
}

#[derive(DdsType, Clone, Debug)]
#[dds(crate = "idl_cdr")]
struct Inner {
    #[dds(bound = 6)]
    values: Vec<i16>,
}

#[test]
fn index_beyond_bound_of_compiled_type_is_refused() {
    let dynamic = DynamicType::of::<Bounded>();
    for (path, limit) in [
        ("names[1] = 'a'", None),
        ("names[2] = 'a'", Some(2)),
        ("by_name['x'][2][1][4] = 1", None),
        ("by_name['x'][2][2][4] = 1", Some(2)),
        ("by_name['x'][2][1][5] = 1", Some(5)),
        ("rows[1][1] = 1", None),
        ("rows[1][2] = 1", Some(2)),
        ("tracks[0].values[5] = 1", None),
        ("tracks[1].values[5] = 1", Some(1)),
        ("tracks[0].values[6] = 1", Some(6)),
        ("free[100000] = 1", None),
    ] {
        let reason = |made: Result<Filter, ExpressionError>| {
            made.err().map(|error| (error.position(), error.reason().to_owned()))
        };
        let found = reason(Filter::new::<Bounded>(path, &[]));
        let wanted = limit.map(|limit| format!("the sequence has at most {limit} elements"));
        match (&found, wanted) {
            (Some((_, found)), Some(wanted)) => assert!(found.starts_with(&wanted), "{found}"),
            (found, wanted) => assert!(found.is_none() && wanted.is_none(), "{path}: {found:?}"),
        }
        // A type at run time gives the same answer.
        assert_eq!(reason(Filter::in_type(MemberLookup::Dynamic(&dynamic), path, &[])), found);
    }
}

#[test]
fn index_beyond_bound_is_refused_when_filter_is_made() {
    let text = "struct S { long a[3]; sequence<long, 2> b; sequence<long> c; };";
    let of = DynamicType::from_idl(&idl::parse("s.idl", text).unwrap(), "S").unwrap();
    let reason = |expression: &str| {
        let filter = Filter::in_type(MemberLookup::Dynamic(&of), expression, &[]);
        filter.err().map(|error| error.reason().to_owned()).unwrap_or_default()
    };
    assert_eq!(reason("a[3] = 1"), "the array has 3 elements, found index 3");
    assert_eq!(reason("b[2] = 1"), "the sequence has at most 2 elements, found index 2");
    assert_eq!(reason("a[2] = 1 AND b[1] = 1 AND c[7] = 1"), "");
}
