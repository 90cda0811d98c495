//! IDL of run-time types: the text compiles to an equal type, whatever the type came from.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use idl_cdr::{DdsType, Extensibility, Representations};
use idl_xtypes::{
    DynamicData, DynamicType, MemberOptions, ObjectKind, Primitive, StructBuilder, Value,
    type_names,
};

/// Compiles the type from IDL.
fn compiled(text: &str, name: &str) -> DynamicType {
    let idl = idl::parse("test.idl", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    DynamicType::from_idl(&idl, name).unwrap()
}

/// Checks that the printed IDL makes an equal type, with equal defaults, and that the same holds
/// for the type that a peer would see. Returns the text.
#[track_caller]
fn assert_round_trip(of: &DynamicType) -> String {
    let text = of.to_idl().unwrap();
    let again = compiled(&text, of.name());
    assert_eq!(again.objects(ObjectKind::Complete), of.objects(ObjectKind::Complete), "{text}");
    assert_eq!(again.representations(), of.representations(), "{text}");
    assert_eq!(DynamicData::new(&again).to_text(), DynamicData::new(of).to_text(), "{text}");
    // Printing is stable.
    assert_eq!(again.to_idl().unwrap(), text);
    let peer = DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap();
    let of_peer = compiled(&peer.to_idl().unwrap(), of.name());
    let (of_peer, own) =
        (of_peer.objects(ObjectKind::Complete), peer.objects(ObjectKind::Complete));
    assert_eq!(of_peer, own, "{text}");
    text
}

/// Checks each type of an IDL text, and all of them as one text.
#[track_caller]
fn assert_all_round_trip(text: &str) {
    let idl = idl::parse("test.idl", text).unwrap_or_else(|errors| panic!("{errors}"));
    let names = type_names(&idl);
    let types = DynamicType::all_from_idl(&idl, names.iter().map(String::as_str));
    let types: Vec<DynamicType> = types.into_iter().map(Result::unwrap).collect();
    for of in &types {
        assert_round_trip(of);
    }
    let all = DynamicType::all_to_idl(&types).unwrap();
    for of in &types {
        let again = compiled(&all, of.name());
        assert_eq!(again.objects(ObjectKind::Complete), of.objects(ObjectKind::Complete), "{all}");
    }
}

#[test]
fn text_has_modules_annotations_and_definitions_before_their_use() {
    let text = "\
module Nav {
    @final
    @nested
    struct Point {
        double x;
        double y;
    };
    @bit_bound(8)
    enum Phase {
        TAXI,
        @value(4) CLIMB,
        @default_literal CRUISE
    };
};
module Air {
    typedef Nav::Point Track_corners_array[4];
    @appendable
    struct Track {
        @key int32 aircraft;
        @try_construct(TRIM) string<8> call_sign;
        @optional Nav::Point at;
        sequence<Track_corners_array, 3> corners;
        @id(9) @default(Nav::CLIMB) @unit(\"phase\") Nav::Phase phase;
        @must_understand @min(-1.5) @max(1e30) float level[2][3];
    };
};
";
    assert_eq!(assert_round_trip(&compiled(text, "Air::Track")), text);
}

#[test]
fn every_kind_of_idl_survives_the_round_trip() {
    assert_all_round_trip(
        r#"
        module M {
            enum Color { RED, @value(-3) GREEN, @value(9) @default_literal BLUE };
            @bit_bound(16) bitmask Flags { @position(3) LOW, HIGH };
            bitset Bits { bitfield<3> a; bitfield<4>; bitfield<1> on; bitfield<20, long> level; };
            exception Lost { long why; };
            @mutable @nested struct Base { @key @id(3) long a; @hashid octet b; @hashid("x") char c; };
            @mutable struct Derived : Base { short d; @id(268435455) wchar e; };
            union U switch (@key @default(BLUE) Color) {
                case RED: case GREEN: @default(4) long a; default: @external string b; };
            @appendable union V switch (@try_construct(USE_DEFAULT) unsigned long) {
                case 4294967295: @id(7) long a; case 0: double b[2]; };
            union W switch (boolean) { case TRUE: long a; case FALSE: any b; };
            union X switch (char) { case '\'': long a; case '\xff': long b; case '\\': octet c; };
            union Y switch (wchar) { case L'\u20ac': long a; };
            union Z switch (Flags) { case 8: long a; case LOW | HIGH: long b; };
            union Q switch (unsigned long long) { case 4: long a; };
            module Deep { struct M { long a; }; };
            struct Uses { Deep::M m; ::M::Base base; };
        };
        @data_representation(XCDR2) struct Defaults {
            @default(TRUE) boolean a; @default('\x07') char b; @default(L'\u00e4') wchar c;
            @default("q\"\\\n\x01ä") string<20> d; @default(L"\u20ac") wstring e;
            @default(0.1) float f; @default(3.4e38) float g; @default(-1e-300) double h;
            @default(0.1) long double i; @default(-1.50d) fixed<5, 2> j;
            @default("(1, 2)") sequence<long> k; @default("('a, b', \"c\")") sequence<string> l;
            @default(-9223372036854775808) long long m; @default(LOW) M::Flags n;
            @default(M::GREEN) M::Color o; @default("(TRUE, FALSE)") boolean p[2];
            @min(0.5) @max(3.4e38) float q; @range(min = -1, max = 2) long double r;
            @unit("\"°C\"\n") double s; @max(1.0e300) double t[2];
        };
        struct Collections {
            map<string<3>, sequence<@external @try_construct(TRIM) string<2>, 5>, 7> a;
            map<M::Color, map<long, octet>> b;
            sequence<sequence<wstring<4>, 2>> c;
            @optional @external M::Derived d;
            uint8 e; int8 f; fixed<31, 3> g[2]; long double h;
        };
        typedef @external @try_construct(TRIM) string<2> Names[2][3];
        typedef long Rows[2];
        struct Arrays { Names names; sequence<Rows> rows; sequence<Rows> more[3]; M::U last[1]; };
        struct Hashed { @hashid M::Deep::M m; @key M::Base b; sequence<@external M::U> u; };
        struct _struct { long _module; octet _sequence; @key long component; };
        struct Tree; union Choice;
        struct Tree { sequence<Tree> inner; @external @optional Choice other; };
        union Choice switch (long) { case 1: Tree tree; case 2: sequence<Choice> more; };
    "#,
    );
}

#[test]
fn types_that_contain_each_other_are_announced_before_their_definitions() {
    let text = "struct Tree; struct Leaf { sequence<Tree> up; }; struct Tree { Leaf leaf; };";
    for name in ["Tree", "Leaf"] {
        let text = assert_round_trip(&compiled(text, name));
        assert!(text.find("struct Tree;").unwrap() < text.find("struct Leaf {").unwrap(), "{text}");
    }
}

#[test]
fn interface_files_of_ros_and_large_files_survive_the_round_trip() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "idl") {
            continue;
        }
        let compiled = idl::Compiler::new().compile(&[&path]).unwrap();
        let idl = compiled.specification.unwrap();
        let names = type_names(&idl);
        for of in DynamicType::all_from_idl(&idl, names.iter().map(String::as_str)) {
            assert_round_trip(&of.unwrap());
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "Geo::Shape", union, discriminator = "u16")]
enum Shape {
    #[dds(case = 1, 65535)]
    Circle(f64),
    #[dds(case = 2)]
    Nothing,
    #[dds(default)]
    Path(Vec<[f32; 2]>),
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", extensibility = "mutable", data_representation(XCDR2))]
struct Node {
    #[dds(key)]
    id: u64,
    #[dds(default = 0.25)]
    weight: f32,
    next: Option<Box<Node>>,
    shape: Shape,
    r#type: String,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", name = "List")]
struct List {
    value: i32,
    next: Option<Box<List>>,
}

/// A type that contains itself in an optional member is the same in Rust and at run time.
#[test]
fn recursion_through_optional_member_has_values() {
    let of = compiled("struct List { long value; @optional List next; };", "List");
    let complete = |of: &DynamicType| of.objects(ObjectKind::Complete);
    assert_eq!(complete(&of), complete(&DynamicType::of::<List>()));
    assert_round_trip(&of);
    let text = "{value: 1, next: {value: 2, next: {value: 3}}}";
    let sample = DynamicData::parse(&of, text).unwrap();
    assert_eq!(sample.get_value("next.next.value").unwrap(), &Value::Signed(3));
    for encoding in [idl_cdr::Encoding::CDR_LE, idl_cdr::Encoding::PLAIN_CDR2_BE] {
        let payload = sample.to_cdr(encoding).unwrap();
        let list: List = idl_cdr::from_cdr(&payload).unwrap();
        assert_eq!(list.next.as_ref().unwrap().next.as_ref().unwrap().value, 3);
        assert_eq!(idl_cdr::to_cdr_with(&list, encoding).unwrap(), payload);
        assert_eq!(DynamicData::from_cdr(&of, &payload).unwrap().whole(), sample.whole());
    }
}

/// The path of a key is a key of one use of a type.
#[test]
fn keylist_path_is_the_key_of_one_use_at_run_time() {
    let text = "struct In { long i1; long i2; }; struct T { In o1; In o2; };
        struct V { @key In o1; };\n#pragma keylist T o1.i1\n";
    let [t, v, inner] = ["T", "V", "In"].map(|name| compiled(text, name));
    assert!(!inner.is_keyed() && t.is_keyed());
    let key = |of: &DynamicType, text: &str| DynamicData::parse(of, text).unwrap().key_to_cdr();
    assert_eq!(key(&t, "{o1: {i1: 1, i2: 2}, o2: {i1: 3}}").unwrap(), [0, 0, 0, 1]);
    assert_eq!(key(&v, "{o1: {i1: 1, i2: 2}}").unwrap(), [0, 0, 0, 1, 0, 0, 0, 2]);
    assert_round_trip(&t);
}

/// The largest labels of `uint32`, and discriminators without a case, survive the description that
/// peers receive.
#[test]
fn unions_of_peers_have_large_labels_and_values_without_a_case() {
    let text = "union U switch (unsigned long) { case 4294967295: long a; case 1: long b; };";
    let of = compiled(text, "U");
    let peer = DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap();
    for text in ["{discriminator: 4294967295, a: 7}", "{discriminator: 5}"] {
        let sample = DynamicData::parse(&of, text).unwrap();
        let payload = sample.to_cdr(idl_cdr::Encoding::default()).unwrap();
        let read = DynamicData::from_cdr(&peer, &payload).unwrap();
        assert_eq!(read.to_json_line(), sample.to_json_line());
    }
}

#[test]
fn derived_types_survive_the_round_trip() {
    let text = assert_round_trip(&DynamicType::of::<Node>());
    assert!(text.contains("@data_representation(XCDR2)\nstruct Node {\n"), "{text}");
    assert!(text.contains("    @optional @external Node next;\n"), "{text}");
    assert_eq!(compiled(&text, "Node").representations(), Representations::XCDR2);
}

#[test]
fn typedefs_of_peer_are_printed_as_types_that_they_name() {
    let text = "struct Fix { sequence<long, 4> at; uint8 kind; };";
    let of = compiled(text, "Fix");
    assert_eq!(
        of.to_idl().unwrap(),
        "@final\nstruct Fix {\n    sequence<int32, 4> at;\n    octet kind;\n};\n"
    );
}

#[test]
fn type_without_an_idl_form_is_refused_with_the_reason() {
    let number = DynamicType::primitive(Primitive::Int32);
    assert_eq!(
        number.sequence(3).to_idl().unwrap_err().to_string(),
        "the type cannot be written in IDL: only a type with a name has a definition"
    );
    let of = |name: &str, members: &[&str]| {
        let start = StructBuilder::new(name, Extensibility::Final);
        let add =
            |to: StructBuilder, member: &&str| to.member(member, &number, MemberOptions::default());
        members.iter().fold(start, add).build().unwrap().to_idl().unwrap_err().to_string()
    };
    assert_eq!(of("A", &["a b"]), "`A` cannot be written in IDL: `a b` is no identifier of IDL");
    assert!(of("A; #include", &["a"]).contains("`A; #include` is no identifier"));
    assert!(of("A", &["x\n#include \"y\""]).contains("is no identifier"));
    // Case does not count in IDL.
    assert!(of("A", &["a", "A"]).contains("there is a member `A` already"));
    let peer = compiled("struct Fix { long a; };", "Fix").objects(ObjectKind::Minimal);
    let error = DynamicType::from_objects(&peer).unwrap().to_idl().unwrap_err();
    assert!(error.to_string().contains("the names of its members are not known"), "{error}");
}
