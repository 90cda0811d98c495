//! Type objects are untrusted input: those of a peer are an error or a usable type, whatever their
//! contents. The target `objects` of `tools/fuzz` tests damaged ones in large numbers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../cdr/tests/types/mod.rs"]
mod types;

use idl_cdr::{from_cdr, to_cdr};
use idl_xtypes::standard::*;
use idl_xtypes::{
    DynamicData, DynamicType, ObjectKind, TypeConsistency, TypeObjectError, TypeObjects,
};
use types::{Everything, Tree};

/// Kinds of primitive types, by the standard's numbers.
const TK_BOOLEAN: u8 = 0x01;
const TK_BYTE: u8 = 0x02;
const TK_FLOAT32: u8 = 0x09;
/// A flag of members.
const IS_KEY: u16 = 1 << 5;

/// Compares an accepted type and makes its type objects again.
fn use_it(objects: &TypeObjects) {
    let of = DynamicType::from_objects(objects).unwrap();
    TypeConsistency::default().check(&of, &of).unwrap();
    let decoded = DynamicType::from_objects(&of.objects(ObjectKind::Complete)).unwrap();
    TypeConsistency::default().check(&of, &decoded).unwrap();
}

#[test]
fn announced_type_objects_survive_round_trip() {
    for kind in [ObjectKind::Minimal, ObjectKind::Complete] {
        for of in [DynamicType::of::<Everything>(), DynamicType::of::<Tree>()] {
            let of = of.objects(kind);
            let again: TypeObjects = from_cdr(&to_cdr(&of).unwrap()).unwrap();
            let decoded = DynamicType::from_objects(&again).unwrap();
            assert_eq!(decoded.objects(kind).identifier, of.identifier, "{kind:?}");
        }
    }
}

#[test]
fn wrong_hash_and_missing_type_object_are_reported() {
    let whole = DynamicType::of::<Everything>().objects(ObjectKind::Complete);
    let TypeObjects { identifier, objects } = whole;
    let mut few = objects.clone();
    few.remove(0);
    let said =
        DynamicType::from_objects(&TypeObjects { identifier: identifier.clone(), objects: few });
    assert!(matches!(said, Err(TypeObjectError::Missing { .. })), "{said:?}");
    let mut other = objects;
    other[0].type_object = other[1].type_object.clone();
    let said = DynamicType::from_objects(&TypeObjects { identifier, objects: other });
    assert!(matches!(said, Err(TypeObjectError::WrongHash { .. })), "{said:?}");
}

/// Returns type objects of a struct of one member, a struct with a base, or a typedef.
fn only(identifier: &TypeIdentifier, object: CompleteTypeObject) -> TypeObjects {
    let pair = TypeIdentifierTypeObjectPair {
        type_identifier: identifier.clone(),
        type_object: TypeObject::Complete(object),
    };
    TypeObjects { identifier: identifier.clone(), objects: vec![pair] }
}

fn struct_of(
    base: TypeIdentifier,
    member: Option<TypeIdentifier>,
    flags: u16,
) -> CompleteTypeObject {
    let detail =
        CompleteTypeDetail { ann_builtin: None, ann_custom: None, type_name: "Loop".to_owned() };
    let member = member.map(|of| CompleteStructMember {
        common: CommonStructMember { member_id: 0, member_flags: flags, member_type_id: of },
        detail: CompleteMemberDetail { name: "a".to_owned(), ann_builtin: None, ann_custom: None },
    });
    CompleteTypeObject::Structure(CompleteStructType {
        struct_flags: IS_APPENDABLE,
        header: CompleteStructHeader { base_type: base, detail },
        member_seq: member.into_iter().collect(),
    })
}

fn itself() -> TypeIdentifier {
    TypeIdentifier::Component(StronglyConnectedComponentId {
        sc_component_id: TypeObjectHashId::Complete([7; 14]),
        scc_length: 1,
        scc_index: 1,
    })
}

fn refusal(objects: &TypeObjects) -> String {
    DynamicType::from_objects(objects).unwrap_err().to_string()
}

#[test]
fn type_without_finite_value_is_rejected() {
    let direct = struct_of(TypeIdentifier::None, Some(itself()), 1);
    assert_eq!(refusal(&only(&itself(), direct)), "`Loop` contains itself in every value");
    let external = struct_of(TypeIdentifier::None, Some(itself()), 1 | IS_EXTERNAL);
    assert_eq!(refusal(&only(&itself(), external)), "`Loop` contains itself in every value");
    let optional = struct_of(TypeIdentifier::None, Some(itself()), 1 | IS_OPTIONAL | IS_EXTERNAL);
    use_it(&only(&itself(), optional));
    let base = struct_of(itself(), None, 1);
    assert_eq!(refusal(&only(&itself(), base)), "`Loop` contains itself in every value");
    let alias = CompleteTypeObject::Alias(CompleteAliasType {
        alias_flags: 0,
        header: CompleteAliasHeader {
            detail: CompleteTypeDetail {
                ann_builtin: None,
                ann_custom: None,
                type_name: "Loop".to_owned(),
            },
        },
        body: CompleteAliasBody {
            common: CommonAliasBody { related_flags: 0, related_type: itself() },
            ann_builtin: None,
            ann_custom: None,
        },
    });
    assert_eq!(refusal(&only(&itself(), alias)), "`Loop` contains itself in every value");
}

#[test]
fn overlapping_bit_fields_and_duplicate_enumerators_are_rejected() {
    let detail = || CompleteTypeDetail {
        ann_builtin: None,
        ann_custom: None,
        type_name: "Twice".to_owned(),
    };
    let named = |name: &str| CompleteMemberDetail {
        name: name.to_owned(),
        ann_builtin: None,
        ann_custom: None,
    };
    let field = |name, position| CompleteBitfield {
        common: CommonBitfield { position, flags: 0, bitcount: 4, holder_type: 2 },
        detail: named(name),
    };
    let bitset = |second| {
        CompleteTypeObject::Bitset(CompleteBitsetType {
            bitset_flags: 0,
            header: CompleteBitsetHeader { detail: detail() },
            field_seq: vec![field("a", 0), field("b", second)],
        })
    };
    let apart = only(&itself(), bitset(4));
    assert!(DynamicType::from_objects(&apart).is_ok());
    let overlap = "`Twice` is a bitset whose fields overlap";
    assert_eq!(refusal(&only(&itself(), bitset(3))), overlap);
    let literal = |name, value| CompleteEnumeratedLiteral {
        common: CommonEnumeratedLiteral { value, flags: 0 },
        detail: named(name),
    };
    let two = CompleteTypeObject::Enumeration(CompleteEnumeratedType {
        enum_flags: 0,
        header: CompleteEnumeratedHeader {
            common: CommonEnumeratedHeader { bit_bound: 32 },
            detail: detail(),
        },
        literal_seq: vec![literal("a", 0), literal("a", 1)],
    });
    assert_eq!(
        refusal(&only(&itself(), two)),
        "`Twice` is an enum with two enumerators of the same name"
    );
}

/// The names of a minimal object are unknown; none are invented when the type is forwarded.
#[test]
fn type_without_names_is_forwarded_unchanged() {
    let objects = DynamicType::of::<Tree>().objects(ObjectKind::Minimal);
    let decoded = DynamicType::from_objects(&objects).unwrap().objects(ObjectKind::Complete);
    assert_eq!(decoded.identifier, objects.identifier);
}

#[test]
fn huge_array_type_is_rejected_when_type_is_built() {
    let huge = TypeIdentifier::ArrayLarge(PlainArrayLElemDefn {
        header: PlainCollectionHeader { equiv_kind: EK_BOTH, element_flags: 1 },
        array_bound_seq: vec![u32::MAX, u32::MAX, u32::MAX],
        element_identifier: Box::new(TypeIdentifier::Byte),
    });
    let of = struct_of(TypeIdentifier::None, Some(huge), 1);
    assert_eq!(refusal(&only(&itself(), of)), "`` has values with too many parts");
}

#[test]
fn deep_chain_of_types_causes_depth_error() {
    let names = |place: u32| {
        let [a, b, c, d] = place.to_le_bytes();
        let mut hash = [0; 14];
        hash[..4].copy_from_slice(&[a, b, c, d]);
        TypeIdentifier::Component(StronglyConnectedComponentId {
            sc_component_id: TypeObjectHashId::Complete(hash),
            scc_length: 1,
            scc_index: 1,
        })
    };
    for flags in [1, 1 | IS_OPTIONAL] {
        let objects = (0..4000).map(|place| TypeIdentifierTypeObjectPair {
            type_identifier: names(place),
            type_object: TypeObject::Complete(struct_of(
                TypeIdentifier::None,
                Some(if place < 3999 { names(place + 1) } else { TypeIdentifier::Byte }),
                flags,
            )),
        });
        let objects = TypeObjects { identifier: names(0), objects: objects.collect() };
        match DynamicType::from_objects(&objects) {
            Ok(of) => {
                let said = TypeConsistency::default().check(&of, &of).unwrap_err();
                assert!(said.reason.contains("deeper"), "{said}");
                assert_eq!(of.objects(ObjectKind::Minimal).objects.len(), 4000);
            }
            Err(error) => assert!(error.to_string().contains("deep"), "{error}"),
        }
    }
}

fn union_of(
    flags_of_discriminator: u16,
    discriminator: TypeIdentifier,
    labels: &[i32],
) -> CompleteTypeObject {
    let named = |name: &str| CompleteMemberDetail {
        name: name.to_owned(),
        ann_builtin: None,
        ann_custom: None,
    };
    CompleteTypeObject::Union(CompleteUnionType {
        union_flags: IS_APPENDABLE,
        header: CompleteUnionHeader {
            detail: CompleteTypeDetail {
                ann_builtin: None,
                ann_custom: None,
                type_name: "Loop".to_owned(),
            },
        },
        discriminator: CompleteDiscriminatorMember {
            common: CommonDiscriminatorMember {
                member_flags: flags_of_discriminator,
                type_id: discriminator,
            },
            ann_builtin: None,
            ann_custom: None,
        },
        member_seq: vec![CompleteUnionMember {
            common: CommonUnionMember {
                member_id: 1,
                member_flags: 1,
                type_id: TypeIdentifier::Byte,
                label_seq: labels.to_vec(),
            },
            detail: named("a"),
        }],
    })
}

/// A case for an impossible discriminator value would have values that cannot be written.
#[test]
fn case_label_outside_discriminator_type_is_rejected() {
    for (of, label) in [(TypeIdentifier::Int16, 40_000), (TypeIdentifier::Boolean, 2)] {
        let message = refusal(&only(&itself(), union_of(1, of, &[label])));
        assert_eq!(message, "`Loop` is a union with a label that its discriminator cannot have");
    }
    assert!(
        DynamicType::from_objects(&only(&itself(), union_of(1, TypeIdentifier::Int16, &[40])))
            .is_ok()
    );
}

/// A union without its discriminator would have no value, whatever the peer's flags say.
#[test]
fn discriminator_flagged_optional_is_always_present() {
    let objects = only(&itself(), union_of(1 | IS_OPTIONAL, TypeIdentifier::Int16, &[0]));
    let of = DynamicType::from_objects(&objects).unwrap();
    assert_eq!(DynamicData::new(&of).to_json_line(), "{\"discriminator\": 0,\"a\": 0}");
}

/// A field of a bitset has an integer type with enough bits.
#[test]
fn bitset_field_must_fit_its_holder_type() {
    let field = |holder_type, bitcount| {
        let field = CompleteBitfield {
            common: CommonBitfield { position: 0, flags: 0, bitcount, holder_type },
            detail: CompleteMemberDetail {
                name: "a".to_owned(),
                ann_builtin: None,
                ann_custom: None,
            },
        };
        let detail = CompleteTypeDetail {
            ann_builtin: None,
            ann_custom: None,
            type_name: "Bits".to_owned(),
        };
        let header = CompleteBitsetHeader { detail };
        let bits = CompleteBitsetType { bitset_flags: 0, header, field_seq: vec![field] };
        only(&itself(), CompleteTypeObject::Bitset(bits))
    };
    // An octet, a boolean, a float.
    assert!(DynamicType::from_objects(&field(TK_BYTE, 8)).is_ok());
    for (holder, bits) in [(TK_BYTE, 9), (TK_BOOLEAN, 2), (TK_FLOAT32, 3)] {
        assert_eq!(
            refusal(&field(holder, bits)),
            "`a` is a field of a bitset that does not fit its type, or 64 bits"
        );
    }
}

/// A peer's types that contain each other have no names; their order is kept.
#[test]
fn mutually_recursive_types_are_forwarded_in_same_order() {
    let of = DynamicType::of::<TypeObjects>();
    let objects = of.objects(ObjectKind::Minimal);
    let decoded = DynamicType::from_objects(&objects).unwrap();
    let again = decoded.objects(ObjectKind::Minimal);
    assert_eq!(again.identifier, objects.identifier);
    // Their samples are read as written, even without names.
    let sample = DynamicData::new(&decoded);
    assert_eq!(DynamicData::parse(&decoded, &sample.to_text()).unwrap(), sample);
    assert_eq!(DynamicData::parse(&decoded, &sample.to_json()).unwrap(), sample);
}

/// A sample without its key belongs to no instance.
#[test]
fn optional_key_member_is_rejected() {
    let of = struct_of(TypeIdentifier::None, Some(TypeIdentifier::Byte), 1 | IS_KEY | IS_OPTIONAL);
    assert_eq!(refusal(&only(&itself(), of)), "`Loop` has a member of its key that is optional");
}
