//! Default unions, and unions whose discriminator selects nothing: the same for derived types and
//! for types from IDL.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use idl_cdr::{DdsType, Encoding, Reflect, from_cdr, to_cdr, to_cdr_with};
use idl_xtypes::{DynamicData, DynamicType, ObjectKind};

const IDL: &str = r#"
enum Mode { OFF, @default_literal ON, IDLE };
@appendable union Setting switch (@default(IDLE) @try_construct(USE_DEFAULT) Mode) {
    case OFF: @default("none") string reason;
    case IDLE: @default(2.5) double level;
};
@mutable union Plain switch (Mode) {
    case OFF: long off;
    case ON: @default(7) @try_construct(USE_DEFAULT) long on;
};
union Open switch (long) { case 1: long one; case 2: long two; };
@mutable struct Panel { Setting setting; Plain plain; Open open; long last; };
"#;

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
enum Mode {
    #[dds(name = "OFF")]
    Off,
    #[dds(name = "ON", default_literal)]
    On,
    #[dds(name = "IDLE")]
    Idle,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(
    crate = "idl_cdr",
    union,
    discriminator = "Mode",
    extensibility = "appendable",
    discriminator_default = Mode::Idle,
    discriminator_try_construct = "use_default"
)]
enum Setting {
    #[dds(case = Mode::Off, name = "reason", default_value = "none")]
    Reason(String),
    #[dds(case = Mode::Idle, name = "level", default_value = 2.5)]
    Level(f64),
    #[dds(default)]
    NoCase { discriminator: Mode },
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "Mode", extensibility = "mutable")]
enum Plain {
    #[dds(case = Mode::Off, name = "off")]
    Off(i32),
    #[dds(name = "on", default_value = 7, case = Mode::On, try_construct = "use_default")]
    On(i32),
    #[dds(default)]
    NoCase { discriminator: Mode },
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum Open {
    #[dds(case = 1, name = "one")]
    One(i32),
    #[dds(case = 2, name = "two")]
    Two(i32),
    #[dds(default)]
    NoCase { discriminator: i32 },
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Panel {
    setting: Setting,
    plain: Plain,
    open: Open,
    last: i32,
}

fn types() -> [DynamicType; 2] {
    let derived = DynamicType::of::<Panel>();
    let compiled = DynamicType::from_idl(&idl::parse("unions.idl", IDL).unwrap(), "Panel").unwrap();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        assert_eq!(compiled.objects(kind), derived.objects(kind));
    }
    [derived, compiled]
}

/// The default discriminator is that of `@default`, otherwise that of its type; the selected member
/// has its own default.
#[test]
fn default_union_has_case_of_default_discriminator() {
    let default = Panel::default_value();
    let expected = Panel {
        setting: Setting::Level(2.5),
        plain: Plain::On(7),
        open: Open::NoCase { discriminator: 0 },
        last: 0,
    };
    assert_eq!(default, expected);
    let payload = to_cdr(&default).unwrap();
    for of in types() {
        let sample = DynamicData::new(&of);
        assert_eq!(sample.to_cdr(Encoding::default()).unwrap(), payload, "{}", sample.to_text());
        assert_eq!(DynamicData::parse(&of, "{}").unwrap(), sample);
        let said = DynamicData::parse(&of, "{setting: {discriminator: OFF}}").unwrap();
        assert!(said.to_text().contains("none"), "{}", said.to_text());
    }
}

/// A union whose default discriminator selects a case with the union in it.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum Term {
    #[dds(case = 0, name = "neg", external)]
    Neg(Box<Term>),
    #[dds(case = 3, name = "both", external)]
    Both(Box<Pair>),
    #[dds(case = 5, name = "leaf")]
    Leaf(i32),
    #[dds(default)]
    NoCase { discriminator: i32 },
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Pair {
    left: Term,
    right: [Outer; 2],
}

/// Both cases lead back to the union; the second ends after fewer types.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum Outer {
    #[dds(case = false, name = "outer", external)]
    Outer(Box<Outer>),
    #[dds(case = true, name = "inner", external)]
    Inner(Box<Inner>),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "bool")]
enum Inner {
    #[dds(case = false, name = "outer", external)]
    Outer(Box<Outer>),
    #[dds(case = true, name = "leaf")]
    Leaf(i32),
}

/// The default value of a recursive union ends, and is the same in Rust and at run time.
#[test]
fn default_of_recursive_union_has_first_case_that_ends() {
    let idl = "
        union Inner; union Term; struct Pair;
        union Outer switch (boolean) {
            case FALSE: @external Outer outer; case TRUE: @external Inner inner;
        };
        union Inner switch (boolean) { case FALSE: @external Outer outer; case TRUE: long leaf; };
        union Term switch (long) {
            case 0: @external Term neg; case 3: @external Pair both; case 5: long leaf;
        };
        struct Pair { Term left; Outer right[2]; };";
    let expected =
        Pair { left: Term::Leaf(0), right: [0, 1].map(|_| Outer::Inner(Box::new(Inner::Leaf(0)))) };
    assert_eq!(Pair::default_value(), expected);
    let payload = to_cdr(&expected).unwrap();
    let compiled = DynamicType::from_idl(&idl::parse("terms.idl", idl).unwrap(), "Pair").unwrap();
    let derived = DynamicType::of::<Pair>();
    let objects = derived.objects(ObjectKind::Complete);
    assert_eq!(compiled.objects(ObjectKind::Complete), objects);
    let received = DynamicType::from_objects(&objects).unwrap();
    for of in [compiled, derived, received] {
        let sample = DynamicData::new(&of);
        assert_eq!(sample.to_cdr(Encoding::default()).unwrap(), payload, "{}", sample.to_text());
        assert_eq!(DynamicData::from_cdr(&of, &payload).unwrap(), sample);
    }
}

/// An earlier or later version of `Setting`.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(
    crate = "idl_cdr",
    name = "Setting",
    union,
    discriminator = "i32",
    extensibility = "appendable"
)]
enum Later {
    #[dds(case = 0)]
    Reason(String),
    #[dds(case = 77)]
    Unknown(Vec<u64>),
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Panel", extensibility = "mutable")]
struct LaterPanel {
    setting: Later,
    #[dds(id = 3)]
    last: i32,
}

/// A number that is not an enumerator: the union is skipped if its end is known.
#[test]
fn unknown_discriminator_with_use_default_reads_as_default() {
    let later = LaterPanel { setting: Later::Unknown(vec![0x0101; 5]), last: 3 };
    for encoding in [Encoding::PLAIN_CDR2_LE, Encoding::PLAIN_CDR2_BE] {
        let payload = to_cdr_with(&later, encoding).unwrap();
        let read: Panel = from_cdr(&payload).unwrap();
        assert_eq!(read, Panel { last: 3, ..Panel::default_value() });
        for of in types() {
            let sample = DynamicData::from_cdr(&of, &payload).unwrap();
            assert_eq!(sample.to_cdr(encoding).unwrap(), to_cdr_with(&read, encoding).unwrap());
        }
    }
    // XCDR1 does not mark the end of such a union.
    let payload = to_cdr_with(&later, Encoding::CDR_LE).unwrap();
    let why = from_cdr::<Panel>(&payload).unwrap_err().to_string();
    assert!(why.contains("Setting"), "{why}");
    types().iter().for_each(|of| assert!(DynamicData::from_cdr(of, &payload).is_err()));
    let known = LaterPanel { setting: Later::Reason("why".into()), last: 3 };
    let read: Panel = from_cdr(&to_cdr(&known).unwrap()).unwrap();
    assert_eq!(read.setting, Setting::Reason("why".into()));
}

/// Without `try_construct` such a union is refused together with the value that contains it. A
/// member that may be replaced is replaced as a whole.
#[test]
fn unknown_discriminator_without_use_default_is_rejected() {
    #[derive(DdsType, Debug, PartialEq)]
    #[dds(
        crate = "idl_cdr",
        name = "Plain",
        union,
        discriminator = "i32",
        extensibility = "mutable"
    )]
    enum Later {
        #[dds(case = 77)]
        Unknown(u64),
    }
    let payload = to_cdr(&Later::Unknown(1)).unwrap();
    let why = from_cdr::<Plain>(&payload).unwrap_err().to_string();
    assert!(why.contains("77"), "{why}");
    #[derive(DdsType, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", union, discriminator = "Mode", extensibility = "appendable")]
    enum Fussy {
        #[dds(case = Mode::On)]
        On(Vec<u64>),
    }
    #[derive(DdsType, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", union, discriminator = "i32", extensibility = "appendable")]
    enum LaterFussy {
        #[dds(case = 77)]
        Unknown(u8),
    }
    #[derive(DdsType, Debug, PartialEq)]
    #[dds(crate = "idl_cdr")]
    struct Outer {
        #[dds(try_construct = "use_default", default = Fussy::On(vec![5]))]
        fussy: Fussy,
        after: u8,
    }
    #[derive(DdsType, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", name = "Outer")]
    struct LaterOuter {
        fussy: LaterFussy,
        after: u8,
    }
    // One byte, from which the member of the default case cannot be read.
    let payload = to_cdr(&LaterOuter { fussy: LaterFussy::Unknown(1), after: 9 }).unwrap();
    let read: Outer = from_cdr(&payload).unwrap();
    assert_eq!(read, Outer { fussy: Fussy::On(vec![5]), after: 9 });
    let of = DynamicType::of::<Outer>();
    let sample = DynamicData::from_cdr(&of, &payload).unwrap();
    assert_eq!(sample.to_cdr(Encoding::default()).unwrap(), to_cdr(&read).unwrap());
    assert_eq!(read.parts(), 2);
}

/// A case's member has its default where a sample lacks it.
#[test]
fn missing_case_member_gets_its_default() {
    // A list of one parameter: the discriminator, which must be understood.
    let only = [0, 11, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0xa0, 1, 0, 0, 0];
    assert_eq!(from_cdr::<Plain>(&only).unwrap(), Plain::On(7));
    let of = DynamicType::of::<Plain>();
    let sample = DynamicData::from_cdr(&of, &only).unwrap();
    assert_eq!(sample.to_cdr(Encoding::default()).unwrap(), to_cdr(&Plain::On(7)).unwrap());
    // An appendable union that ends after its discriminator.
    let short = [0, 9, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(from_cdr::<Setting>(&short).unwrap(), Setting::Reason("none".into()));
    let of = DynamicType::of::<Setting>();
    let sample = DynamicData::from_cdr(&of, &short).unwrap();
    assert!(sample.to_text().contains("none"), "{}", sample.to_text());
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq, Eq)]
#[dds(crate = "idl_cdr", bitmask, flags(LEFT = 0, RIGHT = 1))]
struct Parts(u32);

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "Parts")]
enum Wing {
    #[dds(case = Parts(1), name = "left")]
    Left(i32),
    #[dds(case = Parts(3), name = "both")]
    Both(String),
    #[dds(default)]
    NoCase { discriminator: Parts },
}

#[test]
fn bitmask_selects_case_of_union() {
    let text = "bitmask Parts { LEFT, RIGHT };
        union Wing switch (Parts) { case LEFT: long left; case LEFT | RIGHT: string both; };";
    let compiled = DynamicType::from_idl(&idl::parse("wing.idl", text).unwrap(), "Wing").unwrap();
    let objects = DynamicType::of::<Wing>().objects(ObjectKind::Complete);
    assert_eq!(compiled.objects(ObjectKind::Complete), objects);
    assert!(DynamicType::from_objects(&objects).is_ok());
    let cases =
        [Wing::Left(-4), Wing::Both("x".to_owned()), Wing::NoCase { discriminator: Parts(2) }];
    for wing in cases {
        for encoding in [Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE] {
            let payload = to_cdr_with(&wing, encoding).unwrap();
            assert_eq!(from_cdr::<Wing>(&payload).unwrap(), wing);
            let sample = DynamicData::from_cdr(&compiled, &payload).unwrap();
            assert_eq!(sample.to_cdr(encoding).unwrap(), payload, "{}", sample.to_text());
            assert_eq!(DynamicData::parse(&compiled, &sample.to_text()).unwrap(), sample);
        }
    }
    assert_eq!(Wing::default_value(), Wing::NoCase { discriminator: Parts(0) });
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum Chain {
    #[dds(case = 1, name = "next", external)]
    Next(Box<Chain>),
    #[dds(case = 2, name = "end")]
    End(i32),
    #[dds(default)]
    NoCase { discriminator: i32 },
}

#[test]
fn type_objects_of_recursive_union_are_accepted() {
    let chain = Chain::Next(Box::new(Chain::Next(Box::new(Chain::End(7)))));
    let payload = to_cdr(&chain).unwrap();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        let objects = DynamicType::of::<Chain>().objects(kind);
        let of = DynamicType::from_objects(&objects).unwrap();
        let sample = DynamicData::from_cdr(&of, &payload).unwrap();
        assert_eq!(sample.to_cdr(Encoding::default()).unwrap(), payload);
        // An empty value begins with a case that ends.
        assert!(!DynamicData::new(&of).to_text().contains("next"));
    }
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", bitset)]
struct Gaps {
    #[dds(bits = 3)]
    low: u8,
    #[dds(name = "reserved_1", bits = 4)]
    filler: u8,
    #[dds(bits = 1)]
    high: bool,
}

#[test]
fn padding_bits_have_same_name_in_generated_rust_and_at_run_time() {
    let text = "bitset Gaps { bitfield<3> low; bitfield<4>; bitfield<1> high; };";
    let specification = idl::parse("gaps.idl", text).unwrap();
    let rust = idl::generate(&specification);
    assert!(rust.contains("name = \"reserved_1\", bits = 4"), "{rust}");
    let compiled = DynamicType::from_idl(&specification, "Gaps").unwrap();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        assert_eq!(compiled.objects(kind), DynamicType::of::<Gaps>().objects(kind));
    }
}

#[test]
fn image_in_array_is_type_at_run_time() {
    let text = "@final struct Image { octet pixels[1080][1920][3]; };";
    let of = DynamicType::from_idl(&idl::parse("image.idl", text).unwrap(), "Image").unwrap();
    let of = DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap();
    let mut payload = vec![0, 7, 0, 0];
    payload.resize(4 + 1080 * 1920 * 3, 9);
    let sample = DynamicData::from_cdr(&of, &payload).unwrap();
    assert_eq!(sample.to_cdr(Encoding::default()).unwrap(), payload);
}
