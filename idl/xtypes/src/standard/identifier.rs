//! Identifiers of types: the type itself if it is short, otherwise a hash of its object.

use idl_cdr::DdsType;

use super::structs;

/// Kinds of a hash or of a collection's element: minimal, complete, or the same for both.
pub const EK_MINIMAL: u8 = 0xf1;
pub const EK_COMPLETE: u8 = 0xf2;
pub const EK_BOTH: u8 = 0xf3;

/// First 14 bytes of the MD5 of a serialised type object.
pub type EquivalenceHash = [u8; 14];
/// First 4 bytes of the MD5 of a name.
pub type NameHash = [u8; 4];

/// Bits of a member's flags.
pub const TRY_CONSTRUCT_DISCARD: u16 = 1;
pub const TRY_CONSTRUCT_USE_DEFAULT: u16 = 2;
pub const TRY_CONSTRUCT_TRIM: u16 = 3;
pub const IS_EXTERNAL: u16 = 1 << 2;
pub const IS_OPTIONAL: u16 = 1 << 3;
pub const IS_MUST_UNDERSTAND: u16 = 1 << 4;
pub const IS_KEY: u16 = 1 << 5;
pub const IS_DEFAULT: u16 = 1 << 6;

/// Bits of a type's flags.
pub const IS_FINAL: u16 = 1;
pub const IS_APPENDABLE: u16 = 1 << 1;
pub const IS_MUTABLE: u16 = 1 << 2;
pub const IS_NESTED: u16 = 1 << 3;
pub const IS_AUTOID_HASH: u16 = 1 << 4;

/// Kinds of types.
pub const TK_NONE: u8 = 0x00;
pub const TK_BOOLEAN: u8 = 0x01;
pub const TK_BYTE: u8 = 0x02;
pub const TK_INT16: u8 = 0x03;
pub const TK_INT32: u8 = 0x04;
pub const TK_INT64: u8 = 0x05;
pub const TK_UINT16: u8 = 0x06;
pub const TK_UINT32: u8 = 0x07;
pub const TK_UINT64: u8 = 0x08;
pub const TK_FLOAT32: u8 = 0x09;
pub const TK_FLOAT64: u8 = 0x0a;
pub const TK_FLOAT128: u8 = 0x0b;
pub const TK_INT8: u8 = 0x0c;
pub const TK_UINT8: u8 = 0x0d;
pub const TK_CHAR8: u8 = 0x10;
pub const TK_CHAR16: u8 = 0x11;
pub const TK_STRING8: u8 = 0x20;
pub const TK_STRING16: u8 = 0x21;
pub const TK_ALIAS: u8 = 0x30;
pub const TK_ENUM: u8 = 0x40;
pub const TK_BITMASK: u8 = 0x41;
pub const TK_ANNOTATION: u8 = 0x50;
pub const TK_STRUCTURE: u8 = 0x51;
pub const TK_UNION: u8 = 0x52;
pub const TK_BITSET: u8 = 0x53;
pub const TK_SEQUENCE: u8 = 0x60;
pub const TK_ARRAY: u8 = 0x61;
pub const TK_MAP: u8 = 0x62;

structs! {
    "final" StringSTypeDefn { bound: u8 }
    "final" StringLTypeDefn { bound: u32 }
    "final" PlainCollectionHeader { equiv_kind: u8, element_flags: u16 }
    "final" PlainSequenceSElemDefn {
        header: PlainCollectionHeader, bound: u8, element_identifier: Box<TypeIdentifier>
    }
    "final" PlainSequenceLElemDefn {
        header: PlainCollectionHeader, bound: u32, element_identifier: Box<TypeIdentifier>
    }
    "final" PlainArraySElemDefn {
        header: PlainCollectionHeader, array_bound_seq: Vec<u8>,
        element_identifier: Box<TypeIdentifier>
    }
    "final" PlainArrayLElemDefn {
        header: PlainCollectionHeader, array_bound_seq: Vec<u32>,
        element_identifier: Box<TypeIdentifier>
    }
    "final" PlainMapSTypeDefn {
        header: PlainCollectionHeader, bound: u8, element_identifier: Box<TypeIdentifier>,
        key_flags: u16, key_identifier: Box<TypeIdentifier>
    }
    "final" PlainMapLTypeDefn {
        header: PlainCollectionHeader, bound: u32, element_identifier: Box<TypeIdentifier>,
        key_flags: u16, key_identifier: Box<TypeIdentifier>
    }
    "appendable" StronglyConnectedComponentId {
        sc_component_id: TypeObjectHashId, scc_length: i32, scc_index: i32
    }
    "mutable" ExtendedTypeDefn {}
}

/// Hash of an object, and the kind of the object.
#[derive(DdsType, Clone, Debug, PartialEq, Eq)]
#[dds(crate = "idl_cdr", nested, union, discriminator = "u8")]
pub enum TypeObjectHashId {
    #[dds(case = EK_MINIMAL)]
    Minimal(EquivalenceHash),
    #[dds(case = EK_COMPLETE)]
    Complete(EquivalenceHash),
}

/// Identifier of a type.
#[derive(DdsType, Clone, Debug, PartialEq, Eq)]
#[dds(crate = "idl_cdr", nested, union, discriminator = "u8")]
pub enum TypeIdentifier {
    #[dds(case = TK_NONE)]
    None,
    #[dds(case = TK_BOOLEAN)]
    Boolean,
    #[dds(case = TK_BYTE)]
    Byte,
    #[dds(case = TK_INT8)]
    Int8,
    #[dds(case = TK_INT16)]
    Int16,
    #[dds(case = TK_INT32)]
    Int32,
    #[dds(case = TK_INT64)]
    Int64,
    #[dds(case = TK_UINT8)]
    Uint8,
    #[dds(case = TK_UINT16)]
    Uint16,
    #[dds(case = TK_UINT32)]
    Uint32,
    #[dds(case = TK_UINT64)]
    Uint64,
    #[dds(case = TK_FLOAT32)]
    Float32,
    #[dds(case = TK_FLOAT64)]
    Float64,
    #[dds(case = TK_FLOAT128)]
    Float128,
    #[dds(case = TK_CHAR8)]
    Char8,
    #[dds(case = TK_CHAR16)]
    Char16,
    #[dds(case = 0x70)]
    StringSmall(StringSTypeDefn),
    #[dds(case = 0x71)]
    StringLarge(StringLTypeDefn),
    #[dds(case = 0x72)]
    WideStringSmall(StringSTypeDefn),
    #[dds(case = 0x73)]
    WideStringLarge(StringLTypeDefn),
    #[dds(case = 0x80)]
    SequenceSmall(PlainSequenceSElemDefn),
    #[dds(case = 0x81)]
    SequenceLarge(PlainSequenceLElemDefn),
    #[dds(case = 0x90)]
    ArraySmall(PlainArraySElemDefn),
    #[dds(case = 0x91)]
    ArrayLarge(PlainArrayLElemDefn),
    #[dds(case = 0xa0)]
    MapSmall(PlainMapSTypeDefn),
    #[dds(case = 0xa1)]
    MapLarge(PlainMapLTypeDefn),
    #[dds(case = 0xb0)]
    Component(StronglyConnectedComponentId),
    #[dds(case = EK_MINIMAL)]
    Minimal(EquivalenceHash),
    #[dds(case = EK_COMPLETE)]
    Complete(EquivalenceHash),
    #[dds(default)]
    Extended(ExtendedTypeDefn),
}
