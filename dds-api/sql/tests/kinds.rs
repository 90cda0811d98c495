//! Filters over members of every kind, for compiled and dynamic types alike.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use dds_sql::Filter;
use idl_cdr::{DdsType, Encoding, Fixed, LongDouble, WChar, WString, to_cdr_with};
use idl_xtypes::{Any, DynamicData, DynamicType, MemberLookup, ObjectKind};

#[derive(DdsType, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[dds(crate = "idl_cdr")]
enum Mood {
    Calm,
    Windy = 7,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitmask, bit_bound = 12, flags(READ = 0, WRITE = 11))]
struct Flags(u16);

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitset)]
struct Gear {
    #[dds(bits = 3)]
    position: u8,
    #[dds(bits = 1)]
    locked: bool,
    #[dds(bits = 10)]
    load: i16,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct NamedPart {
    x: i32,
    names: Vec<String>,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "Mood")]
enum Choice {
    #[dds(case = Mood::Calm, name = "number")]
    Number(u16),
    #[dds(case = Mood::Windy, name = "part")]
    Part(NamedPart),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
struct Tree {
    value: i8,
    children: Vec<Tree>,
    next: Option<Box<Tree>>,
}

/// One member of each kind.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Every {
    #[dds(key)]
    id: u32,
    flag: bool,
    small: i8,
    large: u64,
    single: f32,
    double: f64,
    exact: LongDouble,
    price: Fixed<7, 2>,
    letter: char,
    wide_letter: WChar,
    text: String,
    wide: WString,
    mood: Mood,
    flags: Flags,
    gear: Gear,
    part: NamedPart,
    grid: [[i16; 2]; 2],
    rows: Vec<Vec<u8>>,
    named: BTreeMap<String, NamedPart>,
    numbered: BTreeMap<i16, f64>,
    by_mood: BTreeMap<Mood, WString>,
    choice: Choice,
    maybe: Option<NamedPart>,
    absent: Option<u8>,
    far: Box<NamedPart>,
    tree: Tree,
    what: Any,
}

fn part(x: i32) -> NamedPart {
    NamedPart { x, names: vec!["a".to_owned(), "b".to_owned()] }
}

fn every() -> Every {
    let leaf = |value| Tree { value, children: Vec::new(), next: None };
    Every {
        id: 1,
        flag: true,
        small: -8,
        large: u64::MAX,
        single: 0.1,
        double: 0.1,
        exact: LongDouble::parse("0.1").unwrap(),
        price: Fixed::from_units(1250).unwrap(),
        letter: 'é',
        wide_letter: WChar(0x20ac),
        text: "it's".to_owned(),
        wide: WString::from("grün 𝄞"),
        mood: Mood::Windy,
        flags: Flags(0b1000_0000_0001),
        gear: Gear { position: 5, locked: true, load: -9 },
        part: part(-1),
        grid: [[1, 2], [3, 4]],
        rows: vec![vec![], vec![5, 6]],
        named: [("north east".to_owned(), part(2)), ("it's".to_owned(), part(3))].into(),
        numbered: [(-7, 1.5), (300, 2.5)].into(),
        by_mood: [(Mood::Windy, WString::from("w"))].into(),
        choice: Choice::Part(part(4)),
        maybe: Some(part(5)),
        absent: None,
        far: Box::new(part(6)),
        tree: Tree { value: 1, children: vec![leaf(2), leaf(3)], next: Some(Box::new(leaf(4))) },
        what: Any::of(&7_u32).unwrap(),
    }
}

/// Expressions that hold. Their negations do not.
const HOLD: [&str; 48] = [
    "id = 1",
    "flag = TRUE",
    "small < 0",
    "small = -8",
    "large = 18446744073709551615",
    "single = 0.1",
    "double = 0.1",
    "exact = 0.1",
    "exact < double",
    "price = 12.50",
    "price BETWEEN 12.49 AND 12.51",
    "letter = 'é'",
    "letter < wide_letter",
    "wide_letter = '€'",
    "text = 'it''s'",
    "text LIKE 'it%'",
    "wide = 'grün 𝄞'",
    "wide LIKE 'gr_n%'",
    "mood = Windy",
    "mood > Calm AND mood = 7",
    "flags = 2049",
    "flags = 0x801",
    "gear.position = 5",
    "gear.locked = TRUE",
    "gear.load = -9",
    "part.x = -1",
    "part.names[1] = 'b'",
    "grid[1][0] = 3",
    "rows[1][1] = 6",
    "named['north east'].x = 2",
    "named[\"it's\"].names[0] = 'a'",
    "named['north east'].x < named[\"it's\"].x",
    "numbered[-7] = 1.5",
    "numbered[300] > numbered[-7]",
    "by_mood[Windy] = 'w'",
    "choice.discriminator = Windy",
    "choice.part.x = 4",
    "choice.part.names[0] LIKE '_'",
    "maybe.x = 5",
    "maybe.names[1] = 'b'",
    "far.x = 6",
    "far.x > maybe.x",
    "tree.value = 1",
    "tree.children[1].value = 3",
    "tree.next.value = 4",
    "what.value[4] = 7",
    "NOT small > 0 AND (flag = FALSE OR mood = 'Windy')",
    "id BETWEEN 1 AND 1",
];

/// Expressions that are neither true nor false, because their members are absent.
const ABSENT: [&str; 9] = [
    "absent = 1",
    "rows[0][0] = 1",
    "rows[7][0] = 1",
    "named['south'].x = 1",
    "numbered[7] = 1",
    "by_mood[Calm] = 'w'",
    "choice.number = 1",
    "tree.children[0].children[0].value = 1",
    "tree.next.next.value = 1",
];

#[test]
fn members_of_every_kind_are_compared() {
    let value = every();
    let compiled = DynamicType::of::<Every>();
    let decode = |kind| DynamicType::from_objects(&compiled.objects(kind)).unwrap();
    let announced = decode(ObjectKind::Complete);
    for encoding in [Encoding::CDR_BE, Encoding::PLAIN_CDR2_LE] {
        let payload = to_cdr_with(&value, encoding).unwrap();
        let data = [&compiled, &announced].map(|of| DynamicData::from_cdr(of, &payload).unwrap());
        let accepts = |expression: &str| {
            let typed = Filter::new::<Every>(expression, &[]).unwrap_or_else(|why| panic!("{why}"));
            let typed = typed.accepts(&value);
            // A decimal number is announced as octets, because type objects have no other
            // representation for it.
            let is_announced = !expression.contains("price");
            for data in &data[..1 + usize::from(is_announced)] {
                let filter = Filter::in_type(MemberLookup::Dynamic(data.of()), expression, &[]);
                let filter = filter.unwrap_or_else(|why| panic!("{why}"));
                assert_eq!(filter.accepts(data), typed, "{expression}");
            }
            typed
        };
        for holds in HOLD {
            assert!(accepts(holds), "{holds}");
            assert!(!accepts(&format!("NOT ({holds})")), "NOT {holds}");
        }
        for absent in ABSENT {
            assert!(!accepts(absent), "{absent}");
            assert!(!accepts(&format!("NOT {absent}")), "NOT {absent}");
        }
    }
}

/// Invalid filters are refused with the same text for both kinds of types.
#[test]
fn what_no_member_can_be_is_refused() {
    let of = DynamicType::of::<Every>();
    for (expression, reason) in [
        ("named = 1", "`named` has entries: say which, by its key in brackets"),
        ("rows[0] = 1", "`rows[0]` has elements: say which, like `[0]`"),
        ("choice = 1", "`choice` is a whole `Choice`: say which of its members"),
        ("gear = 1", "`gear` is a whole `Gear`: say which of its members"),
        ("what = 1", "`what` is a whole `any`: say which of its members"),
        ("mood = Sunny", "beside `mood`: there is no `Sunny` among Calm, Windy"),
        ("flags = 'READ'", "beside `flags`: a number was expected, found 'READ'"),
    ] {
        let typed = Filter::new::<Every>(expression, &[]).unwrap_err();
        assert_eq!(typed.reason(), reason);
        let dynamic = Filter::in_type(MemberLookup::Dynamic(&of), expression, &[]).unwrap_err();
        assert_eq!(dynamic.reason(), reason);
    }
}
