//! Descriptions that the derive macro makes of a type, and the order of members with ids of
//! their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use idl_cdr::{
    CdrError, DdsStruct, DdsType, DdsUnion, Encoding, Reflect, TryConstruct, TypeKind, UNBOUNDED,
    fingerprint, from_cdr, key_to_cdr, to_cdr, to_cdr_with,
};

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", nested)]
struct Members {
    #[dds(hashid)]
    color: u8,
    #[dds(hashid = "color of the other")]
    other: u8,
    #[dds(id = 6, unit = "m", range(min = -1.5, max = 9), default = 3)]
    six: i32,
    seven: Option<Box<u8>>,
    #[dds(element_bound = 4)]
    names: Vec<String>,
    #[dds(bound = 2, element_bound = [3, 5])]
    more: Vec<Vec<String>>,
    #[dds(bound = [2, 3, 4])]
    map: BTreeMap<String, Vec<u8>>,
    #[dds(non_serialized, default = 5)]
    cache: u64,
    #[dds(must_understand, try_construct = "use_default")]
    vital: bool,
}

#[test]
fn member_descriptors_have_declared_ids_and_bounds() {
    // `printf color | md5sum` begins with 70dda5df.
    let members = Members::MEMBERS;
    assert_eq!(members[0].id, 0x0fa5_dd70);
    assert_eq!(members[1].id, 0x0f5e_6095);
    let ids: Vec<u32> = members[2..].iter().map(|member| member.id).collect();
    assert_eq!(ids, [6, 7, 8, 9, 10, 11]);
    let texts: Vec<_> = members[2].remembered.iter().map(|it| (it.name, it.text)).collect();
    assert_eq!(texts, [("unit", "m"), ("min", "- 1.5"), ("max", "9"), ("default", "3")]);
    assert!(members[3].optional && members[3].external && !members[2].optional);
    assert_eq!(members[4].bounds, [UNBOUNDED, 4]);
    assert_eq!(members[5].bounds, [2, 3, 5]);
    assert_eq!(members[6].bounds, [2, 3, 4]);
    assert_eq!((members[7].name, members[7].must_understand), ("vital", true));
    assert_eq!(members[7].try_construct, TryConstruct::UseDefault);
    let TypeKind::Structure(structure) = Members::DESCRIPTOR.kind else { panic!() };
    assert!(structure.nested && structure.members.len() == 8);
    assert!(Members::LAYOUT.is_none());
}

#[test]
fn non_serialized_member_takes_no_bytes_and_reads_as_default() {
    let members = Members { six: 9, cache: 77, ..Members::default_value() };
    assert_eq!((Members::default_value().six, Members::default_value().cache), (3, 5));
    let again = from_cdr::<Members>(&to_cdr(&members).unwrap()).unwrap();
    assert_eq!(again, Members { cache: 5, ..members.clone() });
    let long = Members { more: vec![vec!["too long".into()]], ..members.clone() };
    assert!(to_cdr(&long).is_err());
    let long = Members { map: [("a".into(), vec![0; 5])].into(), ..members.clone() };
    assert!(to_cdr(&long).is_err());
    let long = Members { map: [("abcd".into(), vec![])].into(), ..members };
    assert!(to_cdr(&long).is_err());
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", autoid = "hash")]
struct Base {
    #[dds(key)]
    color: u8,
    size: u16,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Middle {
    #[dds(base)]
    base: Base,
    #[dds(key, id = 2)]
    two: u16,
    three: u8,
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Top {
    #[dds(base)]
    base: Middle,
    #[dds(key, id = 1)]
    one: u8,
    #[dds(id = 9)]
    last: u8,
}

/// Members of the base come first; key members are ordered by id, whichever struct has them.
#[test]
fn base_members_come_first_and_keys_are_ordered_by_id() {
    let base = Base { color: 0xc0, size: 0x0102 };
    let middle = Middle { base, two: 0x0304, three: 5 };
    let top = Top { base: middle, one: 6, last: 7 };
    let body = [0xc0, 0, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!(to_cdr_with(&top, Encoding::CDR_BE).unwrap()[4..13], body);
    assert_eq!(from_cdr::<Top>(&to_cdr(&top).unwrap()).unwrap(), top);
    assert_eq!(Top::KEY_IDS, [1, 2, 0x0fa5_dd70]);
    assert_eq!(key_to_cdr(&top).unwrap(), [6, 0, 3, 4, 0xc0]);
    assert_eq!((Middle::NEXT_ID, Top::NEXT_ID), (4, 10));
    assert_eq!(Top::IDS[2..], [2, 3, 1, 9]);
    const { assert!(Top::KEYED && Base::KEYED) };
    assert_ne!(fingerprint::<Top>(), fingerprint::<Middle>());
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "char", name = "M::Letter")]
enum Letter {
    #[dds(case = 'a', 'b', name = "first", id = 4, unit = "m")]
    First(u8),
    #[dds(case = 'c', bound = 2)]
    Second(String),
    #[dds(default)]
    Third(f32),
}

#[test]
fn union_cases_have_their_labels_and_ids() {
    let cases = Letter::CASES;
    assert_eq!(Letter::TYPE_NAME, "M::Letter");
    assert_eq!(cases[0].labels, [97, 98]);
    let ids: Vec<u32> = cases.iter().map(|case| case.member.unwrap().id).collect();
    assert_eq!(ids, [4, 5, 6]);
    assert_eq!(
        (cases[0].member.unwrap().name, cases[1].member.unwrap().bounds),
        ("first", &[2][..])
    );
    assert!(cases[2].default && cases[2].labels.is_empty());
    assert!(to_cdr(&Letter::Second("abc".into())).is_err());
}

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "i32")]
enum Surface {
    #[dds(case = 4, 2)]
    Wing { discriminator: i32, area: f64 },
    #[dds(case = 7, 8)]
    Tail(f64),
    #[dds(default)]
    Unknown { discriminator: i32 },
}

/// The label of a case is stored if the variant has a field for it, and written again.
#[test]
fn union_case_with_several_labels_keeps_label_of_value() {
    let payload = |label: i32, area: Option<f64>| {
        let area = area.map(|area| area.to_le_bytes().to_vec()).unwrap_or_default();
        [&[0, 7, 0, 0][..], &label.to_le_bytes(), &area].concat()
    };
    for discriminator in [2, 4] {
        let wing = Surface::Wing { discriminator, area: 1.5 };
        assert_eq!(to_cdr(&wing).unwrap(), payload(discriminator, Some(1.5)));
        assert_eq!(from_cdr::<Surface>(&to_cdr(&wing).unwrap()).unwrap(), wing);
        let shown = format!("{:?}", wing.part(0));
        assert_eq!(shown, format!("Signed({discriminator})"));
        assert_eq!(format!("{:?}", wing.part(1)), "Double(1.5)");
    }
    for discriminator in [-1, 0, 99] {
        let unknown = Surface::Unknown { discriminator };
        assert_eq!(to_cdr(&unknown).unwrap(), payload(discriminator, None));
        assert_eq!(from_cdr::<Surface>(&to_cdr(&unknown).unwrap()).unwrap(), unknown);
    }
    // Without a field for it, the first label is written.
    assert_eq!(from_cdr::<Surface>(&payload(8, Some(2.5))).unwrap(), Surface::Tail(2.5));
    assert_eq!(to_cdr(&Surface::Tail(2.5)).unwrap(), payload(7, Some(2.5)));
    assert_eq!(Surface::default_value(), Surface::Unknown { discriminator: 0 });
    assert_eq!(Surface::CASES[0].labels, [4, 2]);
}

/// If the discriminator's default selects nothing, a value begins with the first case.
#[test]
fn union_without_default_case_defaults_to_first_case() {
    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(crate = "idl_cdr", union, discriminator = "i32")]
    enum Closed {
        #[dds(case = 4, 2, default_value = 1.5)]
        Wing { discriminator: i32, area: f64 },
        #[dds(case = 7)]
        Tail(f64),
    }
    assert_eq!(Closed::default_value(), Closed::Wing { discriminator: 4, area: 1.5 });
}

#[test]
fn encoder_rejects_label_of_another_case() {
    for wrong in [
        Surface::Wing { discriminator: 7, area: 1.5 },
        Surface::Wing { discriminator: 5, area: 1.5 },
        Surface::Unknown { discriminator: 2 },
    ] {
        let error = to_cdr(&wrong).unwrap_err();
        assert!(matches!(error, CdrError::OtherCase { .. }), "{error}");
        assert!(error.to_string().contains("does not select its variant"), "{error}");
    }
}
