//! Bytes of type objects written by hand from clauses of DDS-XTYPES 1.3.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "of these types only their descriptions count")]

use std::collections::BTreeMap;

use idl_cdr::{CdrReader, DdsType, Encoding, LongDouble, WChar, WString};
use idl_xtypes::standard::{
    CompleteTypeObject, PlainCollectionHeader, PlainSequenceSElemDefn, TypeIdentifier,
    TypeIdentifierTypeObjectPair, TypeObject,
};
use idl_xtypes::{DynamicData, DynamicType, ObjectKind, TypeObjects, object_bytes};
use md5::{Digest, Md5};

fn identifier<T: DdsType>() -> Vec<u8> {
    object_bytes(&DynamicType::of::<T>().objects(ObjectKind::Minimal).identifier)
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    Md5::digest(bytes)[..14].to_vec()
}

/// 7.3.4.2: the identifier of a primitive is only its kind.
#[test]
fn primitive_type_identifier_is_its_kind() {
    let found = [
        identifier::<bool>(),
        identifier::<u8>(),
        identifier::<i16>(),
        identifier::<i32>(),
        identifier::<i64>(),
        identifier::<u16>(),
        identifier::<u32>(),
        identifier::<u64>(),
        identifier::<f32>(),
        identifier::<f64>(),
        identifier::<LongDouble>(),
        identifier::<i8>(),
        identifier::<char>(),
        identifier::<WChar>(),
    ];
    let kinds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x0c, 0x10, 0x11];
    assert_eq!(found.concat(), kinds);
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Bounded {
    #[dds(bound = 255)]
    small: String,
    #[dds(bound = 256)]
    large: String,
    #[dds(bound = 4)]
    wide: WString,
    #[dds(bound = 1000)]
    numbers: Vec<u16>,
}

/// 7.3.4.6: TI_STRING8_SMALL 0x70, its bound in one byte; TI_STRING8_LARGE 0x71, in four;
/// TI_STRING16_SMALL 0x72; TI_PLAIN_SEQUENCE_SMALL 0x80 and LARGE 0x81, TI_PLAIN_ARRAY_SMALL 0x90,
/// TI_PLAIN_MAP_SMALL 0xa0: a header of the equivalence kind (0xf3, as both kinds of objects are
/// the same here) and the flags of elements (TRY_CONSTRUCT1), then bound and element.
#[test]
fn string_and_collection_identifiers_contain_whole_type() {
    assert_eq!(identifier::<String>(), [0x70, 0]);
    assert_eq!(identifier::<WString>(), [0x72, 0]);
    assert_eq!(identifier::<Vec<i32>>(), [0x80, 0xf3, 1, 0, 0, 0x04]);
    assert_eq!(identifier::<[f64; 3]>(), [0x90, 0xf3, 1, 0, 1, 0, 0, 0, 3, 0x0a]);
    // Two dimensions, outermost first.
    assert_eq!(identifier::<[[u8; 3]; 2]>(), [0x90, 0xf3, 1, 0, 2, 0, 0, 0, 2, 3, 0x02]);
    // The element, then the flags of keys and the key.
    let map = [0xa0, 0xf3, 1, 0, 0, 0x07, 1, 0, 0x70, 0];
    assert_eq!(identifier::<BTreeMap<String, u32>>(), map);

    let objects = DynamicType::of::<Bounded>().objects(ObjectKind::Complete);
    let TypeObject::Complete(CompleteTypeObject::Structure(of)) = &objects.objects[0].type_object
    else {
        panic!("{objects:?}");
    };
    let members = of.member_seq.iter().map(|one| object_bytes(&one.common.member_type_id));
    let wanted: [&[u8]; 4] = [
        &[0x70, 0xff],
        &[0x71, 0, 0, 0, 0, 1, 0, 0],
        &[0x72, 4],
        &[0x81, 0xf3, 1, 0, 0xe8, 3, 0, 0, 0x06],
    ];
    assert_eq!(members.collect::<Vec<_>>(), wanted);
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "Spot", extensibility = "final")]
struct Spot {
    x: i32,
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "Paint", extensibility = "appendable")]
struct Paint {
    #[dds(key, hashid = "color")]
    color: Part,
}

/// A nested type, identified by its hash.
#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "Spot", extensibility = "final")]
struct Part {
    x: i32,
}

/// 7.3.4.9.1 and annex B: the minimal object of a final struct of one `long x` in version 2, little
/// endian, byte by byte. Its hash is the first 14 bytes of the MD5, and its identifier EK_MINIMAL
/// 0xf1 and the hash. A name is the first four bytes of its MD5.
#[test]
fn minimal_struct_object_and_hash_follow_standard() {
    #[rustfmt::skip]
    let object = [
        35, 0, 0, 0,            // the size of TypeObject, which is appendable
        0xf1,                   // EK_MINIMAL
        0x51,                   // TK_STRUCTURE
        0x01, 0x00,             // IS_FINAL
        1, 0, 0, 0,             // the size of the header
        0x00,                   // no base: TK_NONE; the detail is empty
        0, 0, 0,
        19, 0, 0, 0,            // the size of the sequence of members
        1, 0, 0, 0,             // one member
        11, 0, 0, 0,            // its size
        0, 0, 0, 0,             // the member id
        0x01, 0x00,             // TRY_CONSTRUCT1: discard
        0x04,                   // TK_INT32
        0x9d, 0xd4, 0xe4, 0x61, // `printf x | md5sum`
    ];
    let objects = DynamicType::of::<Spot>().objects(ObjectKind::Minimal);
    assert_eq!(objects.objects.len(), 1);
    assert_eq!(object_bytes(&objects.objects[0].type_object), object);
    assert_eq!(
        hash(&object),
        [0xc7, 0x3b, 0x47, 0x0c, 0xaa, 0xfd, 0xb6, 0x05, 0xb2, 0x96, 0x42, 0x58, 0x93, 0xc0]
    );
    assert_eq!(object_bytes(&objects.identifier), [&[0xf1][..], &hash(&object)].concat());
    assert_eq!(TypeObjects::digest(&object).to_vec(), hash(&object));
}

/// The complete object of the same struct has EK_COMPLETE 0xf2, and names in place of hashes.
#[test]
fn complete_struct_object_and_hash_follow_standard() {
    #[rustfmt::skip]
    let object = [
        52, 0, 0, 0,
        0xf2,                   // EK_COMPLETE
        0x51,
        0x01, 0x00,
        13, 0, 0, 0,            // the size of the header
        0x00,                   // no base
        0, 0,                   // no builtin annotations, and no others
        0,
        5, 0, 0, 0, b'S', b'p', b'o', b't', 0,
        0, 0, 0,
        24, 0, 0, 0,            // the size of the sequence of members
        1, 0, 0, 0,
        16, 0, 0, 0,            // the size of the member
        0, 0, 0, 0,
        0x01, 0x00,
        0x04,
        0,
        2, 0, 0, 0, b'x', 0,
        0, 0,                   // no builtin annotations, and no others
    ];
    let objects = DynamicType::of::<Spot>().objects(ObjectKind::Complete);
    assert_eq!(object_bytes(&objects.objects[0].type_object), object);
    assert_eq!(object_bytes(&objects.identifier), [&[0xf2][..], &hash(&object)].concat());
}

/// 7.3.4.9.1: flags of members (K 1 << 5, M 1 << 4) and of types (IS_APPENDABLE 1 << 1); a member
/// id by hash; a type refers to a type within it by the hash of the latter, which precedes it.
#[test]
fn type_object_refers_to_nested_types_by_hash() {
    let objects = DynamicType::of::<Paint>().objects(ObjectKind::Minimal);
    let [spot, paint] = objects.objects.as_slice() else { panic!("{objects:?}") };
    let TypeIdentifier::Minimal(of_spot) = &spot.type_identifier else { panic!("{spot:?}") };
    let mut object = vec![49, 0, 0, 0, 0xf1, 0x51, 0x02, 0x00, 1, 0, 0, 0, 0, 0, 0, 0];
    object.extend([33, 0, 0, 0, 1, 0, 0, 0, 25, 0, 0, 0]);
    object.extend([0x70, 0xdd, 0xa5, 0x0f, 0x31, 0x00, 0xf1]);
    object.extend(of_spot);
    object.extend([0x70, 0xdd, 0xa5, 0xdf]); // `printf color | md5sum`
    assert_eq!(object_bytes(&paint.type_object), object);
    assert_eq!(object_bytes(&objects.identifier)[1..], hash(&object));
}

/// Checks the minimal object of a type against bytes written by hand, and its identifier against
/// their hash.
#[track_caller]
fn minimal<T: DdsType>(object: &[u8]) {
    let objects = DynamicType::of::<T>().objects(ObjectKind::Minimal);
    assert_eq!(objects.objects.len(), 1);
    assert_eq!(object_bytes(&objects.objects[0].type_object), object);
    assert_eq!(object_bytes(&objects.identifier), [&[0xf1][..], &hash(object)].concat());
}

#[derive(DdsType, Clone, Copy)]
#[dds(crate = "idl_cdr")]
enum Letter {
    A,
    #[dds(default_literal)]
    B = 7,
}

/// Annex B, MinimalEnumeratedType: the bits, and each literal with its value and the hash of its
/// name. DEFAULT is 1 << 6.
#[test]
fn minimal_enum_object_follows_standard() {
    #[rustfmt::skip]
    minimal::<Letter>(&[
        58, 0, 0, 0,
        0xf1,
        0x40,                   // TK_ENUM
        0x01, 0,                // IS_FINAL, as idlc has it as well
        2, 0, 0, 0,             // the size of the header
        32, 0,                  // bit_bound
        0, 0,
        42, 0, 0, 0,            // the size of the sequence of literals
        2, 0, 0, 0,
        14, 0, 0, 0,            // the size of the literal
        6, 0, 0, 0,             // the size of the part that both kinds of objects have in common
        0, 0, 0, 0,
        0, 0,
        0x7f, 0xc5, 0x62, 0x70, // `printf A | md5sum`
        0, 0,
        14, 0, 0, 0,
        6, 0, 0, 0,
        7, 0, 0, 0,
        0x40, 0,
        0x9d, 0x5e, 0xd6, 0x78, // `printf B | md5sum`
    ]);
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", bitmask, bit_bound = 12, flags(READ = 0, WRITE = 11))]
struct Mask(u16);

/// Annex B, MinimalBitmaskType: the bits, and each flag with its position.
#[test]
fn minimal_bitmask_object_follows_standard() {
    #[rustfmt::skip]
    minimal::<Mask>(&[
        52, 0, 0, 0,
        0xf1,
        0x41,                   // TK_BITMASK
        0, 0,
        44, 0, 0, 0,            // the size of MinimalBitmaskType, which is appendable
        0x01, 0,                // IS_FINAL
        0, 0,
        2, 0, 0, 0,             // the size of the header
        12, 0,                  // bit_bound
        0, 0,
        28, 0, 0, 0,            // the size of the sequence of flags
        2, 0, 0, 0,
        8, 0, 0, 0,
        0, 0, 0, 0,             // its position, and no flags
        0x34, 0x66, 0xfa, 0xb4, // `printf READ | md5sum`
        8, 0, 0, 0,
        11, 0, 0, 0,
        0xd4, 0xb9, 0xe4, 0x7f, // `printf WRITE | md5sum`
    ]);
}

#[derive(DdsType, Clone, Copy)]
#[dds(crate = "idl_cdr", bitset)]
struct Set {
    #[dds(bits = 3)]
    low: u8,
    #[dds(bits = 1)]
    high: bool,
}

/// Annex B, MinimalBitsetType: each field with its position, its number of bits, and the kind of
/// its holder.
#[test]
fn minimal_bitset_object_follows_standard() {
    #[rustfmt::skip]
    minimal::<Set>(&[
        54, 0, 0, 0,
        0xf1,
        0x53,                   // TK_BITSET
        0, 0,
        46, 0, 0, 0,            // the size of MinimalBitsetType, which is appendable
        0, 0,                   // no flags
        0, 0,
        0, 0, 0, 0,             // nothing in the header
        34, 0, 0, 0,            // the size of the sequence of fields
        2, 0, 0, 0,
        10, 0, 0, 0,
        0, 0, 0, 0, 3, 0x0d,    // its position, no flags, three bits, TK_UINT8
        0x53, 0xcc, 0xed, 0x8d, // `printf low | md5sum`
        0, 0,
        10, 0, 0, 0,
        3, 0, 0, 0, 1, 0x01,    // TK_BOOLEAN
        0x8d, 0x96, 0x6b, 0x22, // `printf high | md5sum`
    ]);
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr", union, discriminator = "i32", extensibility = "final")]
enum Choice {
    #[dds(case = 1, name = "one")]
    One(u8),
    #[dds(default, name = "rest")]
    Rest(u16),
}

/// Annex B, MinimalUnionType: the discriminator, and each member with its id, flags (DEFAULT is 1
/// << 6), type and labels.
#[test]
fn minimal_union_object_follows_standard() {
    #[rustfmt::skip]
    minimal::<Choice>(&[
        68, 0, 0, 0,
        0xf1,
        0x52,                   // TK_UNION
        0x01, 0,                // IS_FINAL
        0, 0, 0, 0,             // nothing in the header
        3, 0, 0, 0,             // the size of the discriminator
        0x11, 0,                // TRY_CONSTRUCT1, MUST_UNDERSTAND
        0x04,
        0,
        48, 0, 0, 0,            // the size of the sequence of members
        2, 0, 0, 0,
        20, 0, 0, 0,
        1, 0, 0, 0,             // the member id
        0x01, 0, 0x02,          // TRY_CONSTRUCT1, TK_BYTE
        0,
        1, 0, 0, 0, 1, 0, 0, 0, // one label
        0xf9, 0x7c, 0x5d, 0x29, // `printf one | md5sum`
        16, 0, 0, 0,
        2, 0, 0, 0,
        0x41, 0, 0x06,          // TRY_CONSTRUCT1, DEFAULT; TK_UINT16
        0,
        0, 0, 0, 0,
        0x65, 0xe8, 0x80, 0x0b, // `printf rest | md5sum`
    ]);
}

/// Annex B, MinimalAliasType; and rule (7) of 7.4.3.5.3: a value of an alias is a value of its
/// type. Types of this implementation have no aliases, but a peer may send them: a sequence of
/// aliases of numbers is a sequence of numbers, without a size in front.
#[test]
fn minimal_alias_object_follows_standard() {
    #[rustfmt::skip]
    let object = [
        15, 0, 0, 0,
        0xf1,
        0x30,                   // TK_ALIAS
        0, 0,                   // no flags
        0, 0, 0, 0,             // nothing in the header
        3, 0, 0, 0,             // the size of the body
        0, 0, 0x04,             // no flags, TK_INT32
    ];
    let mut reader = CdrReader::new(&object, Encoding::PLAIN_CDR2_LE);
    let type_object = TypeObject::deserialize(&mut reader).unwrap();
    assert_eq!(object_bytes(&type_object), object);
    let identifier = TypeIdentifier::Minimal(TypeObjects::digest(&object));
    let element_identifier = Box::new(identifier.clone());
    let header = PlainCollectionHeader { equiv_kind: 0xf1, element_flags: 1 };
    let told = TypeObjects {
        identifier: TypeIdentifier::SequenceSmall(PlainSequenceSElemDefn {
            header,
            bound: 0,
            element_identifier,
        }),
        objects: vec![TypeIdentifierTypeObjectPair { type_identifier: identifier, type_object }],
    };
    let of = DynamicType::from_objects(&told).unwrap();
    for encoding in [Encoding::CDR_LE, Encoding::PLAIN_CDR2_LE] {
        let payload = idl_cdr::to_cdr_with(&vec![2_i32, 3], encoding).unwrap();
        assert_eq!(payload[4..], [2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        let data = DynamicData::from_cdr(&of, &payload).unwrap();
        assert_eq!(data.to_json(), "[2, 3]");
        assert_eq!(data.to_cdr(encoding).unwrap(), payload);
    }
}

#[derive(DdsType)]
#[dds(crate = "idl_cdr")]
struct Large {
    row: [u8; 256],
    #[dds(bound = 256)]
    map: BTreeMap<u8, u16>,
    #[dds(bound = 256)]
    wide: WString,
}

/// 7.3.4.6: TI_PLAIN_ARRAY_LARGE 0x91, TI_PLAIN_MAP_LARGE 0xa1 and TI_STRING16_LARGE 0x73, for
/// bounds above 255.
#[test]
fn large_collection_identifiers_follow_standard() {
    let objects = DynamicType::of::<Large>().objects(ObjectKind::Complete);
    let TypeObject::Complete(CompleteTypeObject::Structure(of)) = &objects.objects[0].type_object
    else {
        panic!("{objects:?}");
    };
    let members = of.member_seq.iter().map(|one| object_bytes(&one.common.member_type_id));
    let wanted: [&[u8]; 3] = [
        &[0x91, 0xf3, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0x02],
        &[0xa1, 0xf3, 1, 0, 0, 1, 0, 0, 0x06, 0, 1, 0, 0x02],
        &[0x73, 0, 0, 0, 0, 1, 0, 0],
    ];
    assert_eq!(members.collect::<Vec<_>>(), wanted);
}
