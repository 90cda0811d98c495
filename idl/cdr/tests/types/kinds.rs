//! A type of every kind.

use std::collections::BTreeMap;

use idl_cdr::{DdsType, Fixed, LongDouble, WChar, WString};

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bit_bound = 8)]
#[repr(i16)]
pub(crate) enum Color {
    Red = -3,
    #[dds(default_literal)]
    Green = 5,
    Blue = 200,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitmask, bit_bound = 12, flags(READ = 0, WRITE = 11))]
pub(crate) struct Flags(pub(crate) u16);

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitset)]
pub(crate) struct Gear {
    #[dds(bits = 3)]
    pub(crate) position: u8,
    #[dds(bits = 1)]
    pub(crate) locked: bool,
    #[dds(bits = 10)]
    pub(crate) load: i16,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
pub(crate) struct Numbers {
    pub(crate) a: u8,
    pub(crate) b: i64,
    pub(crate) c: f32,
    pub(crate) d: bool,
    pub(crate) e: u16,
    pub(crate) f: f64,
    pub(crate) g: LongDouble,
    pub(crate) h: Fixed<7, 2>,
    pub(crate) i: [[i16; 3]; 2],
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
pub(crate) struct Texts {
    pub(crate) a: String,
    pub(crate) b: WString,
    pub(crate) c: char,
    pub(crate) d: WChar,
    #[dds(bound = [4, 6])]
    pub(crate) e: Vec<String>,
    pub(crate) f: Option<WString>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
pub(crate) struct Collections {
    pub(crate) octets: Vec<u8>,
    pub(crate) doubles: Vec<f64>,
    pub(crate) flags: Vec<bool>,
    pub(crate) colors: Vec<Color>,
    pub(crate) rows: [Vec<u16>; 2],
    #[dds(bound = [3, 5, 7])]
    pub(crate) names: BTreeMap<String, Vec<u64>>,
    pub(crate) squares: BTreeMap<i32, f64>,
    pub(crate) gears: [[Gear; 1]; 2],
    pub(crate) letters: Vec<char>,
    pub(crate) texts: Vec<Texts>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "i16")]
pub(crate) enum Choice {
    #[dds(case = 1, -7)]
    Number(u64),
    #[dds(case = 0, bound = 9)]
    Text(String),
    #[dds(case = 5)]
    Nothing,
    #[dds(default)]
    Other { discriminator: i16, data: Vec<u8> },
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "Color", extensibility = "appendable")]
pub(crate) enum Colored {
    #[dds(case = Color::Red, Color::Blue)]
    Sharp { discriminator: Color, value: f64 },
    #[dds(case = Color::Green)]
    Soft(Box<Choice>),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "bool", extensibility = "mutable")]
pub(crate) enum Either {
    #[dds(case = true)]
    Left(String),
    #[dds(case = false, id = 70000)]
    Right(Gear),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
pub(crate) struct Changing {
    #[dds(key, id = 9)]
    pub(crate) number: u32,
    #[dds(hashid)]
    pub(crate) wide: u64,
    #[dds(id = 3)]
    pub(crate) name: String,
    pub(crate) maybe: Option<u16>,
    pub(crate) octets: Vec<u8>,
    pub(crate) words: Vec<u32>,
    pub(crate) doubles: Vec<f64>,
    pub(crate) texts: Vec<String>,
    #[dds(must_understand, id = 20)]
    pub(crate) inner: Point,
    pub(crate) choice: Either,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
pub(crate) struct Point {
    pub(crate) x: i32,
    pub(crate) y: f64,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
pub(crate) struct Derived {
    #[dds(base)]
    pub(crate) base: Changing,
    #[dds(key, id = 1)]
    pub(crate) more: Color,
    #[dds(non_serialized)]
    pub(crate) cache: u64,
    pub(crate) last: Flags,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
pub(crate) struct Tree {
    pub(crate) value: i8,
    pub(crate) children: Vec<Tree>,
    #[dds(external)]
    pub(crate) next: Option<Box<Tree>>,
}

/// A struct with a member of each kind.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
pub(crate) struct Everything {
    #[dds(key)]
    pub(crate) derived: Derived,
    pub(crate) numbers: Numbers,
    pub(crate) texts: Texts,
    pub(crate) collections: Collections,
    pub(crate) choice: Choice,
    pub(crate) colored: Colored,
    pub(crate) maybe: Option<Numbers>,
    pub(crate) tree: Tree,
}
