//! Compatibility of types under each switch, and the messages for incompatible types.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "of these types only their descriptions count")]

use idl_cdr::DdsType;
use idl_xtypes::{ConsistencyKind, DynamicType, ObjectKind, TypeConsistency};

/// Declares two versions of a type.
macro_rules! versions {
    ($($name:ident { $($(#[$meta:meta])* $version:ident { $($members:tt)* })* })*) => {
        $(
            #[allow(non_snake_case, reason = "named as the type is")]
            mod $name {
                $(
                    pub(crate) mod $version {
                        #[allow(unused_imports, reason = "not all of them need any")]
                        use std::collections::BTreeMap;
                        #[derive(idl_cdr::DdsType)]
                        #[dds(crate = "idl_cdr")]
                        $(#[$meta])*
                        pub(crate) struct $name { $($members)* }
                    }
                )*
            }
        )*
    };
}

versions! {
    Final {
        one { pub(crate) a: i32, pub(crate) b: String }
        more { pub(crate) a: i32, pub(crate) b: String, pub(crate) c: u8 }
        other { pub(crate) a: i32, pub(crate) b: f64 }
        renamed { pub(crate) a: i32, pub(crate) c: String }
        short { pub(crate) a: i32, #[dds(bound = 3)] pub(crate) b: String }
        long { pub(crate) a: i32, #[dds(bound = 9)] pub(crate) b: String }
    }
    Open {
        #[dds(extensibility = "appendable")] one { pub(crate) a: i32, pub(crate) b: Vec<u16> }
        #[dds(extensibility = "appendable")] more { pub(crate) a: i32, pub(crate) b: Vec<u16>, pub(crate) c: Option<u8> }
        #[dds(extensibility = "appendable")] must {
            pub(crate) a: i32, pub(crate) b: Vec<u16>, #[dds(must_understand)] pub(crate) c: u8
        }
        #[dds(extensibility = "appendable")] keyed { #[dds(key)] pub(crate) a: i32, pub(crate) b: Vec<u16> }
        #[dds(extensibility = "appendable")] swapped { #[dds(id = 1)] pub(crate) b: Vec<u16>, #[dds(id = 0)] pub(crate) a: i32 }
        #[dds(extensibility = "appendable")] bounded { pub(crate) a: i32, #[dds(bound = 4)] pub(crate) b: Vec<u16> }
        #[dds(extensibility = "appendable")] optional { pub(crate) a: Option<i32>, pub(crate) b: Vec<u16> }
        #[dds(extensibility = "mutable")] mutable { pub(crate) a: i32, pub(crate) b: Vec<u16> }
    }
    Free {
        #[dds(extensibility = "mutable")] one { #[dds(id = 5)] pub(crate) a: i32, #[dds(id = 7)] pub(crate) b: [u8; 2] }
        #[dds(extensibility = "mutable")] swapped { #[dds(id = 7)] pub(crate) b: [u8; 2], #[dds(id = 5)] pub(crate) a: Option<i32> }
        #[dds(extensibility = "mutable")] apart { #[dds(id = 8)] pub(crate) z: i32 }
        #[dds(extensibility = "mutable")] moved { #[dds(id = 6)] pub(crate) a: i32, #[dds(id = 7)] pub(crate) b: [u8; 2] }
        #[dds(extensibility = "mutable")] wider { #[dds(id = 5)] pub(crate) a: i32, #[dds(id = 7)] pub(crate) b: [u8; 3] }
        #[dds(extensibility = "mutable")] map { #[dds(id = 5)] pub(crate) a: BTreeMap<i8, i8> }
    }
    Keyed {
        #[dds(extensibility = "appendable")] long { #[dds(key, bound = 9)] pub(crate) name: String }
        #[dds(extensibility = "appendable")] short { #[dds(key, bound = 3)] pub(crate) name: String }
        #[dds(extensibility = "appendable")] more { #[dds(key, bound = 3)] pub(crate) name: String, #[dds(key)] pub(crate) id: u8 }
    }
    Outer {
        #[dds(extensibility = "appendable")] one { pub(crate) header: super::super::Final::one::Final, pub(crate) list: Vec<super::super::Open::one::Open> }
        #[dds(extensibility = "appendable")] other { pub(crate) header: super::super::Final::other::Final, pub(crate) list: Vec<super::super::Open::one::Open> }
        #[dds(extensibility = "appendable")] list { pub(crate) header: super::super::Final::one::Final, pub(crate) list: Vec<super::super::Open::mutable::Open> }
    }
}

mod color {
    use idl_cdr::DdsType;

    #[derive(DdsType, Clone, Copy)]
    #[dds(crate = "idl_cdr", name = "Color")]
    pub(crate) enum One {
        Red,
        Green,
    }
    #[derive(DdsType, Clone, Copy)]
    #[dds(crate = "idl_cdr", name = "Color")]
    pub(crate) enum More {
        Red,
        Green,
        Blue,
    }
    #[derive(DdsType, Clone, Copy)]
    #[dds(crate = "idl_cdr", name = "Color")]
    pub(crate) enum Other {
        Red = 1,
        Green = 0,
    }
    #[derive(DdsType, Clone, Copy)]
    #[dds(crate = "idl_cdr", name = "Color")]
    pub(crate) enum Renamed {
        Rot,
        Green,
    }
    #[derive(DdsType, Clone, Copy)]
    #[dds(crate = "idl_cdr", name = "Color", ignore_literal_names)]
    pub(crate) enum ByValue {
        Red,
        Green,
    }
    #[derive(DdsType, Clone, Copy)]
    #[dds(crate = "idl_cdr", name = "Color", bit_bound = 8)]
    pub(crate) enum Short {
        Red,
        Green,
    }
    #[derive(DdsType)]
    #[dds(crate = "idl_cdr", bitmask, bit_bound = 12)]
    pub(crate) struct Mask(pub(crate) u16);
    #[derive(DdsType)]
    #[dds(crate = "idl_cdr", bitset)]
    pub(crate) struct Set {
        #[dds(bits = 3)]
        a: u8,
        #[dds(bits = 4)]
        b: u8,
    }
    #[derive(DdsType)]
    #[dds(crate = "idl_cdr", bitset, name = "Set")]
    pub(crate) struct OtherSet {
        #[dds(bits = 3)]
        a: u8,
        #[dds(bits = 3)]
        b: u8,
    }
    #[derive(DdsType)]
    #[dds(crate = "idl_cdr", union, discriminator = "i32", name = "Choice")]
    pub(crate) enum Closed {
        #[dds(case = 1)]
        A(i32),
        #[dds(case = 2)]
        B(u8),
    }
    #[derive(DdsType)]
    #[dds(crate = "idl_cdr", union, discriminator = "i32", name = "Choice")]
    pub(crate) enum ClosedMore {
        #[dds(case = 1)]
        A(i32),
        #[dds(case = 2)]
        B(u8),
        #[dds(case = 3)]
        C(u8),
    }
    #[derive(DdsType)]
    #[dds(
        crate = "idl_cdr",
        union,
        discriminator = "i32",
        extensibility = "appendable",
        name = "Choice"
    )]
    pub(crate) enum Open {
        #[dds(case = 1)]
        A(i32),
        #[dds(default)]
        B(u8),
    }
    #[derive(DdsType)]
    #[dds(
        crate = "idl_cdr",
        union,
        discriminator = "i32",
        extensibility = "appendable",
        name = "Choice"
    )]
    pub(crate) enum OpenMore {
        #[dds(case = 1)]
        A(i32),
        #[dds(case = 2, id = 3)]
        C(u8),
        #[dds(default, id = 2)]
        B(u8),
    }
    #[derive(DdsType)]
    #[dds(
        crate = "idl_cdr",
        union,
        discriminator = "i32",
        extensibility = "appendable",
        name = "Choice"
    )]
    pub(crate) enum OpenOther {
        #[dds(case = 1)]
        A(i32),
        #[dds(case = 2, id = 3)]
        C(String),
        #[dds(default, id = 2)]
        B(u8),
    }
}

const DEFAULT: TypeConsistency = TypeConsistency {
    kind: ConsistencyKind::AllowTypeCoercion,
    ignore_sequence_bounds: true,
    ignore_string_bounds: true,
    ignore_member_names: false,
    prevent_type_widening: false,
    force_type_validation: false,
};
const EXACT: TypeConsistency =
    TypeConsistency { kind: ConsistencyKind::DisallowTypeCoercion, ..DEFAULT };

/// Returns the message for the types themselves, and checks it for the types as peers receive them.
fn refusal<R: DdsType, W: DdsType>(consistency: TypeConsistency) -> String {
    let (reader, writer) = (DynamicType::of::<R>(), DynamicType::of::<W>());
    let message = consistency.check(&reader, &writer).err().map(|why| why.to_string());
    let decoded = DynamicType::from_objects(&writer.objects(ObjectKind::Complete)).unwrap();
    let again = consistency.check(&reader, &decoded).err().map(|why| why.to_string());
    assert_eq!(message, again, "with the complete type object");
    let decoded = DynamicType::from_objects(&writer.objects(ObjectKind::Minimal)).unwrap();
    if consistency.kind == ConsistencyKind::AllowTypeCoercion {
        let again = consistency.check(&reader, &decoded).is_ok();
        assert_eq!(message.is_none(), again, "with the minimal type object");
    }
    message.unwrap_or_else(|| "goes".to_owned())
}

#[test]
fn default_type_consistency_follows_standard() {
    assert_eq!(TypeConsistency::default(), DEFAULT);
}

#[test]
fn every_type_is_assignable_from_itself() {
    for consistency in [DEFAULT, EXACT] {
        assert_eq!(refusal::<Final::one::Final, Final::one::Final>(consistency), "goes");
        assert_eq!(refusal::<Outer::one::Outer, Outer::one::Outer>(consistency), "goes");
        assert_eq!(refusal::<Free::one::Free, Free::one::Free>(consistency), "goes");
        assert_eq!(refusal::<color::Closed, color::Closed>(consistency), "goes");
        assert_eq!(refusal::<color::OpenMore, color::OpenMore>(consistency), "goes");
        assert_eq!(refusal::<color::Set, color::Set>(consistency), "goes");
        assert_eq!(refusal::<color::More, color::More>(consistency), "goes");
    }
}

#[test]
fn assignable_final_structs_have_same_members() {
    use Final::{more, one, other, renamed};
    assert_eq!(
        refusal::<one::Final, more::Final>(DEFAULT),
        "`Final`: the writer has a member `c` that the reader lacks, and the type is final"
    );
    assert_eq!(
        refusal::<more::Final, one::Final>(DEFAULT),
        "`Final`: the writer lacks the member `c`, and the type is final"
    );
    assert_eq!(
        refusal::<one::Final, other::Final>(DEFAULT),
        "`Final.b`: a string in the reader's type, double in the writer's"
    );
    assert_eq!(
        refusal::<one::Final, renamed::Final>(DEFAULT),
        "`Final`: the member 1 is `b` in the reader's type, `c` in the writer's"
    );
    let ignoring = TypeConsistency { ignore_member_names: true, ..DEFAULT };
    assert_eq!(refusal::<one::Final, renamed::Final>(ignoring), "goes");
}

#[test]
fn bounds_are_compared_unless_ignored() {
    use Final::{long, one, short};
    let strict =
        TypeConsistency { ignore_string_bounds: false, ignore_sequence_bounds: false, ..DEFAULT };
    assert_eq!(refusal::<short::Final, long::Final>(DEFAULT), "goes");
    assert_eq!(
        refusal::<short::Final, long::Final>(strict),
        "`Final.b`: at most 3 characters in the reader's type, at most 9 characters in the writer's"
    );
    assert_eq!(refusal::<long::Final, short::Final>(strict), "goes");
    assert_eq!(refusal::<one::Final, long::Final>(strict), "goes");
    assert_eq!(
        refusal::<long::Final, one::Final>(strict),
        "`Final.b`: at most 9 characters in the reader's type, any number of characters in the writer's"
    );
    assert_eq!(refusal::<Open::bounded::Open, Open::one::Open>(DEFAULT), "goes");
    assert_eq!(
        refusal::<Open::bounded::Open, Open::one::Open>(strict),
        "`Open.b`: at most 4 elements in the reader's type, any number of elements in the writer's"
    );
    assert_eq!(
        refusal::<long::Final, short::Final>(EXACT),
        "`Final.b`: at most 9 characters in the reader's type, at most 3 characters in the writer's"
    );
}

#[test]
fn assignable_appendable_structs_share_leading_members() {
    use Open::{keyed, more, must, mutable, one, optional, swapped};
    assert_eq!(refusal::<one::Open, more::Open>(DEFAULT), "goes");
    assert_eq!(refusal::<more::Open, one::Open>(DEFAULT), "goes");
    let narrow = TypeConsistency { prevent_type_widening: true, ..DEFAULT };
    assert_eq!(
        refusal::<one::Open, more::Open>(narrow),
        "`Open`: the writer has a member `c` that the reader lacks, and prevent_type_widening is set"
    );
    assert_eq!(refusal::<more::Open, one::Open>(narrow), "goes");
    assert_eq!(
        refusal::<one::Open, must::Open>(DEFAULT),
        "`Open`: the writer has a member `c` that has to be understood"
    );
    assert_eq!(
        refusal::<must::Open, one::Open>(DEFAULT),
        "`Open`: the writer lacks the member `c`, which has to be understood"
    );
    assert_eq!(
        refusal::<one::Open, keyed::Open>(DEFAULT),
        "`Open.a`: not of the key in the reader's type, a member of the key in the writer's"
    );
    assert_eq!(
        refusal::<one::Open, swapped::Open>(DEFAULT),
        "`Open`: `b` is at another position in the writer's type"
    );
    assert_eq!(
        refusal::<one::Open, optional::Open>(DEFAULT),
        "`Open.a`: not optional in the reader's type, optional in the writer's"
    );
    assert_eq!(
        refusal::<one::Open, mutable::Open>(DEFAULT),
        "`Open`: appendable in the reader's type, mutable in the writer's"
    );
    assert_eq!(
        refusal::<one::Open, more::Open>(EXACT),
        "`Open`: the writer has a member `c` that the reader lacks, and types may not differ"
    );
}

#[test]
fn mutable_structs_are_matched_by_member_ids() {
    use Free::{apart, map, moved, one, swapped, wider};
    assert_eq!(refusal::<one::Free, swapped::Free>(DEFAULT), "goes");
    assert_eq!(refusal::<swapped::Free, one::Free>(DEFAULT), "goes");
    assert_eq!(
        refusal::<one::Free, apart::Free>(DEFAULT),
        "`Free`: the reader's and the writer's type have no member in common"
    );
    assert_eq!(
        refusal::<one::Free, moved::Free>(DEFAULT),
        "`Free`: `a` has the id 5 in the reader's type, 6 in the writer's"
    );
    assert_eq!(
        refusal::<one::Free, wider::Free>(DEFAULT),
        "`Free.b`: an array [2] in the reader's type, an array [3] in the writer's"
    );
    assert_eq!(
        refusal::<one::Free, map::Free>(DEFAULT),
        "`Free.a`: int32 in the reader's type, a map in the writer's"
    );
}

#[test]
fn assignability_requires_same_key_without_truncation() {
    use Keyed::{long, more, short};
    assert_eq!(refusal::<long::Keyed, short::Keyed>(DEFAULT), "goes");
    assert_eq!(
        refusal::<short::Keyed, long::Keyed>(DEFAULT),
        "`Keyed.name`: at most 3 characters in the reader's type, at most 9 characters in the writer's"
    );
    assert_eq!(
        refusal::<short::Keyed, more::Keyed>(DEFAULT),
        "`Keyed`: the writer's key has a member `id` that the reader lacks"
    );
    assert_eq!(
        refusal::<more::Keyed, short::Keyed>(DEFAULT),
        "`Keyed`: the writer lacks the member `id` of the key"
    );
}

#[test]
fn assignability_error_names_member_path() {
    assert_eq!(
        refusal::<Outer::one::Outer, Outer::other::Outer>(DEFAULT),
        "`Outer.header.b`: a string in the reader's type, double in the writer's"
    );
    assert_eq!(
        refusal::<Outer::one::Outer, Outer::list::Outer>(DEFAULT),
        "`Outer.list[]`: appendable in the reader's type, mutable in the writer's"
    );
    assert_eq!(
        refusal::<Outer::one::Outer, Final::one::Final>(DEFAULT),
        "`Outer`: appendable in the reader's type, final in the writer's"
    );
    assert_eq!(
        refusal::<Final::one::Final, Outer::one::Outer>(EXACT),
        "`Final`: the writer's type is `Outer`, and types may not differ"
    );
}

#[test]
fn enum_assignability_compares_enumerator_names_and_values() {
    use color::{ByValue, Mask, More, One, Other, Renamed, Set, Short};
    assert_eq!(refusal::<One, More>(DEFAULT), "goes");
    assert_eq!(refusal::<More, One>(DEFAULT), "goes");
    assert_eq!(
        refusal::<One, More>(EXACT),
        "`Color`: the writer's enumerators are different, and types may not differ"
    );
    assert_eq!(
        refusal::<One, Other>(DEFAULT),
        "`Color`: `Red` is 0 in the reader's type, 1 in the writer's"
    );
    assert_eq!(
        refusal::<One, Renamed>(DEFAULT),
        "`Color`: 0 is `Red` in the reader's type, `Rot` in the writer's"
    );
    let ignoring = TypeConsistency { ignore_member_names: true, ..DEFAULT };
    assert_eq!(refusal::<One, Renamed>(ignoring), "goes");
    // The reader's annotation decides, and then only values count.
    assert_eq!(refusal::<ByValue, Renamed>(DEFAULT), "goes");
    assert_eq!(refusal::<ByValue, Other>(DEFAULT), "goes");
    assert_eq!(
        refusal::<Renamed, ByValue>(DEFAULT),
        "`Color`: 0 is `Rot` in the reader's type, `Red` in the writer's"
    );
    assert!(refusal::<ByValue, Renamed>(EXACT).starts_with("`Color`: 0 is `Red`"));
    let text = "@ignore_literal_names enum Color { BLACK, WHITE };";
    let of = idl::parse("color.idl", text).unwrap();
    let of = DynamicType::from_idl(&of, "Color").unwrap();
    assert!(DEFAULT.check(&of, &DynamicType::of::<One>()).is_ok());
    assert_eq!(
        refusal::<One, Short>(DEFAULT),
        "`Color`: 32 bits in the reader's type, 8 in the writer's"
    );
    assert_eq!(refusal::<Mask, u16>(DEFAULT), "goes");
    assert_eq!(refusal::<u16, Mask>(DEFAULT), "goes");
    assert_eq!(refusal::<u32, Mask>(DEFAULT), "`the type`: a bitmask of 12 bits is no uint32");
    assert_eq!(
        refusal::<Set, color::OtherSet>(DEFAULT),
        "`Set`: `b` has 4 bits in the reader's type, 3 in the writer's"
    );
    assert_eq!(
        refusal::<One, Set>(DEFAULT),
        "`Color`: an enum in the reader's type, a bitset in the writer's"
    );
}

#[test]
fn unions_are_matched_by_case_labels() {
    use color::{Closed, ClosedMore, Open, OpenMore, OpenOther};
    assert_eq!(
        refusal::<Closed, ClosedMore>(DEFAULT),
        "`Choice`: the reader lacks a case 3, and the type is final"
    );
    assert_eq!(
        refusal::<ClosedMore, Closed>(DEFAULT),
        "`Choice`: the writer lacks a case 3, and the type is final"
    );
    assert_eq!(refusal::<Open, OpenMore>(DEFAULT), "goes");
    assert_eq!(refusal::<OpenMore, Open>(DEFAULT), "goes");
    assert_eq!(
        refusal::<Open, OpenOther>(DEFAULT),
        "`Choice.B`: uint8 in the reader's type, a string in the writer's"
            .replace("uint8", "octet")
    );
    assert_eq!(
        refusal::<Closed, Open>(DEFAULT),
        "`Choice`: final in the reader's type, appendable in the writer's"
    );
}

#[test]
fn type_name_decides_if_peer_announces_no_type() {
    let reader = DynamicType::of::<Final::one::Final>();
    assert!(DEFAULT.check_named(&reader, "Final", None).is_ok());
    assert_eq!(
        DEFAULT.check_named(&reader, "Other", None).unwrap_err().to_string(),
        "`Final`: the writer's type is `Other`, and the writer announced only this name"
    );
    let forced = TypeConsistency { force_type_validation: true, ..DEFAULT };
    assert!(forced.check_named(&reader, "Final", None).is_err());
    assert!(forced.check_named(&reader, "Other", Some(&reader)).is_ok());
}
