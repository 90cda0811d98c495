//! Bytes that other implementations make of the same values: `vectors/vectors.txt`, made by
//! `vectors/make.py` with pycdr2 1.0.0, cyclonedds 11.0.1 and rosbags 0.11.9, and by
//! `vectors/make.cjs` with @foxglove/cdr 3.5.0.
//!
//! Plain and delimited encodings are compared byte by byte. Parameter lists, in which
//! implementations may differ, are compared by the values read from them. Optional members of XCDR1
//! are parameters too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use idl_cdr::{DdsType, Encoding, Extensibility, from_cdr, key_hash, key_to_cdr, to_cdr_with};

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Basics {
    a: bool,
    b: u8,
    c: i16,
    d: u64,
    e: f32,
    f: f64,
    g: char,
    h: i32,
    i: String,
    j: i64,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Point {
    x: i32,
    y: f64,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
enum Color {
    Red,
    #[dds(default_literal)]
    Green = 5,
    Blue = 9,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Rows {
    a: Vec<u8>,
    b: Vec<f64>,
    c: Vec<String>,
    d: [f64; 2],
    e: [String; 2],
    f: Vec<Vec<i16>>,
    g: Vec<Point>,
    h: [[i16; 2]; 2],
    i: Vec<bool>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Enums {
    a: Color,
    b: Vec<Color>,
    c: [Color; 2],
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitmask, bit_bound = 12, flags(READ = 0, WRITE = 1, for_others = 2))]
struct Flags(u16);

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Masks {
    a: u8,
    b: Flags,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Inner {
    a: u8,
    b: String,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Appended {
    a: u8,
    b: Inner,
    c: Vec<Inner>,
    d: u64,
    e: Point,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Optionals {
    a: Option<u8>,
    b: Option<f64>,
    c: Option<String>,
    d: Option<Point>,
    e: u16,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Mutable {
    #[dds(id = 7)]
    a: u8,
    #[dds(must_understand)]
    b: u64,
    c: String,
    d: Option<i16>,
    e: Option<i32>,
    f: Vec<u8>,
    g: Vec<f64>,
    h: Vec<u32>,
    i: Vec<String>,
    j: Inner,
    k: Point,
    l: Color,
    m: [i16; 3],
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum Number {
    #[dds(case = 1)]
    A(f64),
    #[dds(case = 2, 3)]
    B(String),
    #[dds(default)]
    C(u8),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Unions {
    a: u8,
    b: Number,
    c: Number,
    d: Vec<Number>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "Color", extensibility = "appendable")]
enum Choice {
    #[dds(case = Color::Red)]
    A(f64),
    #[dds(case = Color::Green, Color::Blue)]
    B(Inner),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Choices {
    a: Choice,
    b: Vec<Choice>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Keyed {
    a: u8,
    #[dds(key)]
    b: String,
    #[dds(key)]
    c: u64,
    #[dds(key)]
    d: Point,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Short {
    #[dds(key, id = 9)]
    a: u8,
    b: f64,
    #[dds(key, id = 4)]
    c: u32,
}

fn inner(a: u8, b: &str) -> Inner {
    Inner { a, b: b.into() }
}

/// Compares each line of a type, and returns their number.
fn compare<T: DdsType + PartialEq + std::fmt::Debug>(what: &str, value: &T, lists: bool) -> usize {
    let mut compared = 0;
    for line in include_str!("vectors/vectors.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, of, form, hex] = words[..] else { panic!("{line}") };
        if of != what {
            continue;
        }
        compared += 1;
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let encoding = match form {
            "xcdr1-big" => Encoding::CDR_BE,
            "xcdr1-little" => Encoding::CDR_LE,
            "xcdr2-big" => Encoding::PLAIN_CDR2_BE,
            "xcdr2-little" => Encoding::PLAIN_CDR2_LE,
            "key" => {
                assert_eq!(key_to_cdr(value).unwrap(), bytes, "{line}");
                continue;
            }
            "keyhash" => {
                assert_eq!(key_hash(value).unwrap()[..], bytes, "{line}");
                continue;
            }
            _ => panic!("{line}"),
        };
        assert_eq!(&from_cdr::<T>(&bytes).expect(line), value, "{line}");
        let ours = to_cdr_with(value, encoding).unwrap();
        assert_eq!(ours[..2], bytes[..2], "{line}");
        let is_list = lists
            || T::EXTENSIBILITY == Extensibility::Mutable
            || (what == "optionals" && form.starts_with("xcdr1"));
        if !is_list {
            let padding = usize::from(ours[3]);
            assert_eq!(ours[4..ours.len() - padding], bytes[4..], "{line}");
        }
    }
    compared
}

#[test]
fn payloads_agree_with_other_implementations() {
    let mut lines = 0;
    let basics = Basics {
        a: true,
        b: 200,
        c: -2,
        d: 1 << 40,
        e: 1.5,
        f: -2.25,
        g: 'x',
        h: -7,
        i: "text".into(),
        j: -(1 << 40),
    };
    lines += compare("basics", &basics, false);
    let point = |x, y| Point { x, y };
    let rows = Rows {
        a: vec![1, 2, 3],
        b: vec![0.5],
        c: vec!["a".into(), "".into()],
        d: [1.0, 2.0],
        e: ["bc".into(), "d".into()],
        f: vec![vec![1], vec![2, 3]],
        g: vec![point(1, 2.0)],
        h: [[1, 2], [3, 4]],
        i: vec![true, false],
    };
    lines += compare("rows", &rows, false);
    let (b, c) = (vec![Color::Red, Color::Green], [Color::Green, Color::Blue]);
    lines += compare("enums", &Enums { a: Color::Blue, b, c }, false);
    lines += compare("masks", &Masks { a: 1, b: Flags(0b101) }, false);
    let appended = Appended {
        a: 1,
        b: inner(2, "in"),
        c: vec![inner(3, ""), inner(4, "x")],
        d: 5,
        e: point(6, 7.0),
    };
    lines += compare("appended", &appended, false);
    let (c, d) = (Some("there".into()), Some(point(1, 2.0)));
    lines += compare("optionals", &Optionals { a: Some(9), b: None, c, d, e: 3 }, false);
    let mutable = Mutable {
        a: 1,
        b: 2,
        c: "three".into(),
        d: None,
        e: Some(5),
        f: vec![6, 7],
        g: vec![8.5],
        h: vec![9, 10],
        i: vec!["el".into(), "even".into()],
        j: inner(12, "in"),
        k: point(13, 14.0),
        l: Color::Blue,
        m: [15, 16, 17],
    };
    lines += compare("mutable", &mutable, true);
    let unions =
        Unions { a: 1, b: Number::A(2.5), c: Number::B("two".into()), d: vec![Number::C(3)] };
    lines += compare("unions", &unions, false);
    let choices = Choices { a: Choice::B(inner(1, "a")), b: vec![Choice::A(2.5)] };
    lines += compare("choices", &choices, false);
    let keyed = Keyed { a: 1, b: "name".into(), c: 1 << 40, d: point(2, 3.0) };
    lines += compare("keyed", &keyed, false);
    lines += compare("short", &Short { a: 1, b: 2.5, c: 3 }, true);
    assert_eq!(lines, include_str!("vectors/vectors.txt").lines().count());
}
