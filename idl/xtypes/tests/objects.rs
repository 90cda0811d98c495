//! Type objects equal those that other implementations make of the same types.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "of these types only their descriptions count")]

use std::collections::BTreeMap;

use idl_cdr::{CdrReader, DdsType, Encoding, Extensibility, LongDouble};
use idl_xtypes::standard::*;
use idl_xtypes::{
    DynamicData, DynamicType, MemberOptions, ObjectKind, Primitive, StructBuilder, UnionBuilder,
    Value, object_bytes, topic_types,
};

#[derive(DdsType, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[dds(crate = "idl_cdr", name = "V::Color")]
enum Color {
    #[dds(name = "RED")]
    Red,
    #[dds(name = "GREEN")]
    Green,
    #[dds(name = "BLUE")]
    Blue = 7,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Flags", bitmask, bit_bound = 12, flags(READ = 0, WRITE = 11))]
struct Flags(u16);

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Point")]
struct Point {
    x: i32,
    y: f64,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Texts", extensibility = "appendable")]
struct Texts {
    a: String,
    b: Option<String>,
    #[dds(bound = 8)]
    c: String,
    #[dds(bound = [4, 6])]
    d: Vec<String>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Changing", extensibility = "mutable")]
struct Changing {
    #[dds(key, id = 9)]
    number: u32,
    #[dds(hashid)]
    wide: u64,
    #[dds(id = 3)]
    name: String,
    maybe: Option<i16>,
    octets: Vec<u8>,
    #[dds(must_understand, id = 20)]
    inner: Point,
    far: Box<Point>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Choice", union, discriminator = "i16")]
enum Choice {
    #[dds(case = -7, 1, name = "number")]
    Number(u64),
    #[dds(case = 0, bound = 9, name = "text")]
    Text(String),
    #[dds(default, name = "other")]
    Other(Vec<u8>),
}

#[derive(DdsType)]
#[dds(
    crate = "idl_cdr",
    name = "V::Colored",
    union,
    discriminator = "Color",
    extensibility = "appendable"
)]
enum Colored {
    #[dds(case = Color::Red, Color::Blue, name = "sharp")]
    Sharp(f64),
    #[dds(case = Color::Green, name = "soft")]
    Soft(Choice),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Collections")]
struct Collections {
    doubles: Vec<f64>,
    #[dds(bound = 3)]
    colors: Vec<Color>,
    rows: [[i16; 3]; 2],
    points: [Point; 2],
    flags: Flags,
    b: bool,
    c: char,
    f: f32,
    deep: Vec<Vec<Point>>,
    big: [i32; 300],
    #[dds(bound = 300)]
    bounded: Vec<i32>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Base", extensibility = "mutable")]
struct Base {
    #[dds(key, id = 1)]
    k: i32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Derived", extensibility = "mutable")]
struct Derived {
    #[dds(base)]
    base: Base,
    #[dds(id = 5)]
    c: Color,
    #[dds(id = 6)]
    d: Color,
    #[dds(id = 7, bound = 4)]
    e: String,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Small", nested)]
struct Small {
    v: u16,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Units")]
struct Units {
    #[dds(unit = "m", range(min = 0, max = 9))]
    v: i32,
    w: i32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Everything")]
struct Everything {
    texts: Texts,
    changing: Changing,
    choice: Choice,
    colored: Colored,
    collections: Collections,
    derived: Derived,
    units: Units,
    small: Small,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Tree", extensibility = "appendable")]
struct Tree {
    value: i8,
    children: Vec<Tree>,
    next: Option<Box<Tree>>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Husband", extensibility = "mutable")]
struct Husband {
    name: String,
    wife: Option<Box<Wife>>,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Wife", extensibility = "mutable")]
struct Wife {
    name: String,
    husband: Option<Box<Husband>>,
}

/// Type objects from other implementations for a type and all types within it.
#[derive(DdsType, Debug)]
#[dds(crate = "idl_cdr")]
struct TypeMapping {
    minimal: Vec<TypeIdentifierTypeObjectPair>,
    complete: Vec<TypeIdentifierTypeObjectPair>,
    pairs: Vec<TypeIdentifierPair>,
}

const VECTORS: &str = include_str!("vectors/vectors.txt");

fn mapping(of: &str, name: &str) -> (TypeMapping, Vec<u8>) {
    let line = VECTORS.lines().find(|line| line.starts_with(&format!("{of} {name} "))).unwrap();
    let hex = line.rsplit(' ').next().unwrap().as_bytes();
    let digits = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = hex.chunks(2).map(digits).collect();
    let mut reader = CdrReader::new(&bytes, Encoding::PLAIN_CDR2_LE);
    let mapping = TypeMapping::deserialize(&mut reader).unwrap();
    (mapping, bytes)
}

/// Compares the objects in any order.
fn compare<T: DdsType>(of: &str) {
    let (mapping, bytes) = mapping(of, T::TYPE_NAME);
    assert_eq!(object_bytes(&mapping), bytes, "read and written again, nothing is lost");
    let of = DynamicType::of::<T>();
    for (kind, theirs) in
        [(ObjectKind::Complete, &mapping.complete), (ObjectKind::Minimal, &mapping.minimal)]
    {
        let ours = of.objects(kind).objects;
        for ours in &ours {
            assert!(theirs.contains(ours), "{ours:?}\nis not among\n{theirs:#?}");
        }
        assert_eq!(ours.len(), theirs.len(), "{kind:?}");
    }
}

#[test]
fn type_objects_match_idlc() {
    compare::<Everything>("idlc");
}

#[test]
fn recursive_type_objects_match_python_implementation() {
    compare::<Tree>("python");
    compare::<Husband>("python");
}

/// A type built at run time is the same type.
#[test]
fn built_types_have_same_objects_as_derived_types() {
    let (option, some) =
        (MemberOptions::default(), |id| MemberOptions { id: Some(id), ..MemberOptions::default() });
    let of = |primitive| DynamicType::primitive(primitive);
    let point = StructBuilder::new("V::Point", Extensibility::Final)
        .member("x", &of(Primitive::Int32), option)
        .member("y", &of(Primitive::Float64), option)
        .build()
        .unwrap();
    let texts = StructBuilder::new("V::Texts", Extensibility::Appendable)
        .member("a", &DynamicType::string(0), option)
        .member("b", &DynamicType::string(0), MemberOptions { optional: true, ..option })
        .member("c", &DynamicType::string(8), option)
        .member("d", &DynamicType::string(6).sequence(4), option)
        .build()
        .unwrap();
    let color =
        DynamicType::enumeration("V::Color", [("RED", 0), ("GREEN", 1), ("BLUE", 7)]).unwrap();
    let choice = UnionBuilder::new("V::Choice", Extensibility::Final, &of(Primitive::Int16))
        .case(&[-7, 1], "number", &of(Primitive::Uint64))
        .case(&[0], "text", &DynamicType::string(9))
        .default("other", &of(Primitive::Byte).sequence(0))
        .build()
        .unwrap();
    let colored = UnionBuilder::new("V::Colored", Extensibility::Appendable, &color)
        .case(&[0, 7], "sharp", &of(Primitive::Float64))
        .case(&[1], "soft", &choice)
        .build()
        .unwrap();
    let both = StructBuilder::new("Both", Extensibility::Mutable)
        .member("key", &of(Primitive::Uint32), MemberOptions { key: true, ..some(4) })
        .member("points", &point.array(3).array(2), option)
        .member("one", &point, some(9))
        .member("map", &of(Primitive::Int8).map_to(&color, 5), option)
        .build()
        .unwrap();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        assert_eq!(point.objects(kind), DynamicType::of::<Point>().objects(kind));
        assert_eq!(texts.objects(kind), DynamicType::of::<Texts>().objects(kind));
        assert_eq!(colored.objects(kind), DynamicType::of::<Colored>().objects(kind));
        assert_eq!(both.objects(kind), DynamicType::of::<Both>().objects(kind));
    }

    #[derive(DdsType, Clone, Copy)]
    #[dds(crate = "idl_cdr", bitmask, bit_bound = 8, flags(UP = 0, DOWN = 5))]
    struct Keys(u8);
    let keys = DynamicType::bitmask("Keys", 8, [("UP", 0), ("DOWN", 5)]).unwrap();
    assert_eq!(
        keys.objects(ObjectKind::Complete),
        DynamicType::of::<Keys>().objects(ObjectKind::Complete)
    );
    let beyond = DynamicType::bitmask("Keys", 8, [("UP", 8)]).unwrap_err().to_string();
    assert_eq!(beyond, "`Keys` is a bitmask with a bit beyond its last one");
    assert!(DynamicType::bitmask("Keys", 65, []).is_err());
    let twice = StructBuilder::new("Twice", Extensibility::Final)
        .member("a", &point, some(1))
        .member("b", &point, some(1));
    assert_eq!(twice.build().unwrap_err().to_string(), "`Twice` has two members of the same id");
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct Both {
    #[dds(key, id = 4)]
    key: u32,
    points: [[Point; 3]; 2],
    #[dds(id = 9)]
    one: Point,
    #[dds(bound = 5)]
    map: BTreeMap<i8, Color>,
}

/// The IDL text is the one given to idlc, and no generated Rust is involved.
#[test]
fn idl_types_have_same_objects_as_derived_types_and_idlc() {
    let specification = idl::parse("types.idl", include_str!("vectors/types.idl")).unwrap();
    let of = DynamicType::from_idl(&specification, "V::Everything").unwrap();
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        let derived = DynamicType::of::<Everything>().objects(kind);
        assert_eq!(of.objects(kind), derived, "{kind:?}");
        assert_eq!(derived.objects.len(), 13);
    }
    assert_eq!(topic_types(&specification).last().unwrap(), "V::Everything");
    let missing = DynamicType::from_idl(&specification, "V::Nothing").unwrap_err();
    assert_eq!(missing.to_string(), "the type object of `V::Nothing` is missing");
    let text = "struct Node; typedef sequence<Node> Nodes; struct Node { long v; Nodes next; };";
    let node = DynamicType::from_idl(&idl::parse("node.idl", text).unwrap(), "Node").unwrap();
    assert_eq!(node.objects(ObjectKind::Complete).objects.len(), 1);
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Falling")]
enum Falling {
    High = 5,
    Middle = 3,
    Low = 1,
}

#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "Falling")]
enum SaidOfTheLowest {
    High = 5,
    Middle = 3,
    #[dds(default_literal)]
    Low = 1,
}

/// Returns the number of an enum's default.
fn number(of: &DynamicType) -> i32 {
    match DynamicData::new(of).whole() {
        Value::Enumerator { value, .. } => *value,
        other => panic!("{other:?}"),
    }
}

/// Objects list enumerators by value, so the first one in the list need not be the first declared
/// one. The default is sent all the same.
#[test]
fn enum_default_is_announced_for_any_order_of_values() {
    for (of, default) in [
        (DynamicType::of::<Falling>(), "High"),
        (DynamicType::of::<SaidOfTheLowest>(), "Low"),
        (DynamicType::enumeration("Falling", [("High", 5), ("Low", 1)]).unwrap(), "High"),
    ] {
        for kind in [ObjectKind::Complete, ObjectKind::Minimal] {
            let said = of.objects(kind);
            let decoded = DynamicType::from_objects(&said).unwrap();
            assert_eq!(decoded.objects(kind), said, "{kind:?}");
            assert_eq!(number(&decoded), number(&of), "{kind:?}");
        }
        let text = DynamicData::new(&of).to_text();
        assert!(text.contains(default), "{text}");
    }
}

/// The flags of an enum's object are unused in the standard (7.3.4.5, `EnumTypeFlag`), and
/// `@ignore_literal_names` is no builtin annotation in objects: the reader applies it locally.
/// Types that differ only in this annotation have the same identifiers.
#[test]
fn local_annotations_do_not_change_type_objects() {
    let of = |text: &str| {
        let idl = idl::parse("color.idl", text).unwrap();
        DynamicType::from_idl(&idl, "Color").unwrap()
    };
    let plain = of("enum Color { BLACK, WHITE };");
    let by_value = of("@ignore_literal_names enum Color { BLACK, WHITE };");
    for kind in [ObjectKind::Complete, ObjectKind::Minimal] {
        assert_eq!(by_value.objects(kind), plain.objects(kind));
    }
    // The allowed representations are not part of type objects either.
    let free = of("struct Color { string name; };");
    let bound = of("@data_representation(XCDR2) struct Color { string name; };");
    for kind in [ObjectKind::Complete, ObjectKind::Minimal] {
        assert_eq!(bound.objects(kind), free.objects(kind));
    }
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "V::Exact")]
struct Exact {
    #[dds(range(min = -1.5, max = "0x73e6a3750647fcab18c21ab905450cc3"))]
    number: LongDouble,
}

/// All bits are sent: 1e4000 is not a double.
#[test]
fn long_double_range_is_announced_with_all_bits() {
    let idl = "module V { struct Exact { @min(-1.5) @max(1e4000) long double number; }; };";
    let of_idl = DynamicType::from_idl(&idl::parse("v.idl", idl).unwrap(), "V::Exact").unwrap();
    let objects = DynamicType::of::<Exact>().objects(ObjectKind::Complete);
    assert_eq!(of_idl.objects(ObjectKind::Complete), objects);
    let TypeObject::Complete(CompleteTypeObject::Structure(of)) = &objects.objects[0].type_object
    else {
        panic!("{objects:?}");
    };
    let said = of.member_seq[0].detail.ann_builtin.as_ref().unwrap();
    let bits = 0x73e6_a375_0647_fcab_18c2_1ab9_0545_0cc3_u128.to_le_bytes();
    assert_eq!(said.min, Some(AnnotationParameterValue::Float128((-1.5).into())));
    assert_eq!(said.max, Some(AnnotationParameterValue::Float128(LongDouble(bits))));
    let decoded = DynamicType::from_objects(&objects).unwrap();
    assert_eq!(decoded.objects(ObjectKind::Complete), objects);
}
