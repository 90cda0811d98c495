//! Types of every kind, and random values of them.

#![allow(dead_code, reason = "each test uses a part")]

mod kinds;

use idl_cdr::{Encoding, Fixed, LongDouble, WChar, WString};
pub(crate) use kinds::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

pub(crate) const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];

pub(crate) fn encoding() -> impl Strategy<Value = Encoding> {
    (0..ENCODINGS.len()).prop_map(|index| ENCODINGS[index])
}

/// Returns numbers that are equal to themselves, hence no NaN.
fn double() -> impl Strategy<Value = f64> {
    any::<i32>().prop_map(|number| f64::from(number) / 8.0)
}

fn color() -> impl Strategy<Value = Color> {
    prop_oneof![Just(Color::Red), Just(Color::Green), Just(Color::Blue)]
}

fn gear() -> impl Strategy<Value = Gear> {
    (0..8_u8, any::<bool>(), -512..512_i16).prop_map(|(position, locked, load)| Gear {
        position,
        locked,
        load,
    })
}

fn narrow() -> impl Strategy<Value = char> {
    any::<u8>().prop_map(char::from)
}

pub(crate) fn numbers() -> impl Strategy<Value = Numbers> {
    let digits = -9_999_999..=9_999_999_i128;
    let fixed = digits.prop_map(|units| Fixed::from_units(units).unwrap());
    let long = any::<[u8; 16]>().prop_map(LongDouble);
    let small = (any::<u8>(), any::<i64>(), any::<bool>(), any::<u16>());
    (small, double(), double(), long, fixed, any::<[[i16; 3]; 2]>())
        .prop_map(|((a, b, d, e), c, f, g, h, i)| Numbers { a, b, c: c as f32, d, e, f, g, h, i })
}

fn wide_text() -> impl Strategy<Value = WString> {
    "[a-z\u{100}\u{1f600}]{0,5}".prop_map(WString)
}

pub(crate) fn texts() -> impl Strategy<Value = Texts> {
    (
        "[^\0]{0,6}",
        wide_text(),
        narrow(),
        any::<u16>().prop_map(WChar),
        vec("[a-z]{0,6}", 0..4),
        option::of(wide_text()),
    )
        .prop_map(|(a, b, c, d, e, f)| Texts { a, b, c, d, e, f })
}

pub(crate) fn collections() -> impl Strategy<Value = Collections> {
    let rows = vec(any::<u16>(), 0..4);
    (
        vec(any::<u8>(), 0..9),
        vec(double(), 0..4),
        vec(any::<bool>(), 0..4),
        vec(color(), 0..4),
        [rows.clone(), rows],
        btree_map("[a-z]{0,5}", vec(any::<u64>(), 0..7), 0..3),
        btree_map(any::<i32>(), double(), 0..4),
        (gear(), gear()).prop_map(|(a, b)| [[a], [b]]),
        vec(narrow(), 0..4),
        vec(texts(), 0..3),
    )
        .prop_map(
            |(octets, doubles, flags, colors, rows, names, squares, gears, letters, texts)| {
                Collections {
                    octets,
                    doubles,
                    flags,
                    colors,
                    rows,
                    names,
                    squares,
                    gears,
                    letters,
                    texts,
                }
            },
        )
}

pub(crate) fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        any::<u64>().prop_map(Choice::Number),
        "[a-z]{0,9}".prop_map(Choice::Text),
        Just(Choice::Nothing),
        (2_i16..5, vec(any::<u8>(), 0..5))
            .prop_map(|(discriminator, data)| Choice::Other { discriminator, data }),
    ]
}

pub(crate) fn colored() -> impl Strategy<Value = Colored> {
    prop_oneof![
        (prop_oneof![Just(Color::Red), Just(Color::Blue)], double())
            .prop_map(|(discriminator, value)| Colored::Sharp { discriminator, value }),
        choice().prop_map(|choice| Colored::Soft(Box::new(choice))),
    ]
}

pub(crate) fn either() -> impl Strategy<Value = Either> {
    prop_oneof!["[a-z]{0,9}".prop_map(Either::Left), gear().prop_map(Either::Right)]
}

pub(crate) fn changing() -> impl Strategy<Value = Changing> {
    (
        (any::<u32>(), any::<u64>(), "[a-z]{0,9}", option::of(any::<u16>())),
        vec(any::<u8>(), 0..9),
        vec(any::<u32>(), 0..4),
        vec(double(), 0..4),
        vec("[a-z]{0,9}", 0..4),
        (any::<i32>(), double()).prop_map(|(x, y)| Point { x, y }),
        either(),
    )
        .prop_map(
            |((number, wide, name, maybe), octets, words, doubles, texts, inner, choice)| {
                Changing { number, wide, name, maybe, octets, words, doubles, texts, inner, choice }
            },
        )
}

pub(crate) fn derived() -> impl Strategy<Value = Derived> {
    (changing(), color(), 0..4096_u16).prop_map(|(base, more, last)| Derived {
        base,
        more,
        cache: 0,
        last: Flags(last),
    })
}

pub(crate) fn tree() -> impl Strategy<Value = Tree> {
    let leaf = any::<i8>().prop_map(|value| Tree { value, children: Vec::new(), next: None });
    leaf.prop_recursive(4, 12, 3, |inner| {
        (any::<i8>(), vec(inner.clone(), 0..3), option::of(inner))
            .prop_map(|(value, children, next)| Tree { value, children, next: next.map(Box::new) })
    })
}

pub(crate) fn everything() -> impl Strategy<Value = Everything> {
    (
        derived(),
        numbers(),
        texts(),
        collections(),
        choice(),
        colored(),
        option::of(numbers()),
        tree(),
    )
        .prop_map(|(derived, numbers, texts, collections, choice, colored, maybe, tree)| {
            Everything { derived, numbers, texts, collections, choice, colored, maybe, tree }
        })
}
