//! Type objects: the contents of types.

use idl_cdr::{DdsType, LongDouble, WChar, WString};

use super::identifier::*;
use super::structs;

/// Value of an annotation's parameter.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", nested, union, discriminator = "u8")]
pub enum AnnotationParameterValue {
    #[dds(case = TK_BOOLEAN)]
    Boolean(bool),
    #[dds(case = TK_BYTE)]
    Byte(u8),
    #[dds(case = TK_INT8)]
    Int8(i8),
    #[dds(case = TK_UINT8)]
    Uint8(u8),
    #[dds(case = TK_INT16)]
    Int16(i16),
    #[dds(case = TK_UINT16)]
    Uint16(u16),
    #[dds(case = TK_INT32)]
    Int32(i32),
    #[dds(case = TK_UINT32)]
    Uint32(u32),
    #[dds(case = TK_INT64)]
    Int64(i64),
    #[dds(case = TK_UINT64)]
    Uint64(u64),
    #[dds(case = TK_FLOAT32)]
    Float32(f32),
    #[dds(case = TK_FLOAT64)]
    Float64(f64),
    #[dds(case = TK_FLOAT128)]
    Float128(LongDouble),
    #[dds(case = TK_CHAR8)]
    Char(char),
    #[dds(case = TK_CHAR16)]
    WideChar(WChar),
    #[dds(case = TK_ENUM)]
    Enumerated(i32),
    #[dds(case = TK_STRING8, bound = 128)]
    String8(String),
    #[dds(case = TK_STRING16, bound = 128)]
    String16(WString),
    #[dds(default)]
    Extended(ExtendedAnnotationParameterValue),
}

// A NaN is not equal to itself, but does not occur in annotations.
impl Eq for AnnotationParameterValue {}

structs! {
    "mutable" ExtendedAnnotationParameterValue {}
    "appendable" AppliedAnnotationParameter {
        paramname_hash: NameHash, value: AnnotationParameterValue
    }
    "appendable" AppliedAnnotation {
        annotation_typeid: TypeIdentifier, param_seq: Option<Vec<AppliedAnnotationParameter>>
    }
    "final" AppliedVerbatimAnnotation {
        #[dds(bound = 32)] placement: String, #[dds(bound = 32)] language: String, text: String
    }
    "appendable" AppliedBuiltinMemberAnnotations {
        unit: Option<String>, min: Option<AnnotationParameterValue>,
        max: Option<AnnotationParameterValue>, hash_id: Option<String>
    }

    "final" CommonStructMember {
        member_id: u32, member_flags: u16, member_type_id: TypeIdentifier
    }
    "final" CompleteMemberDetail {
        #[dds(bound = 256)] name: String, ann_builtin: Option<AppliedBuiltinMemberAnnotations>,
        ann_custom: Option<Vec<AppliedAnnotation>>
    }
    "final" MinimalMemberDetail { name_hash: NameHash }
    "appendable" CompleteStructMember { common: CommonStructMember, detail: CompleteMemberDetail }
    "appendable" MinimalStructMember { common: CommonStructMember, detail: MinimalMemberDetail }
    "appendable" AppliedBuiltinTypeAnnotations { verbatim: Option<AppliedVerbatimAnnotation> }
    "final" MinimalTypeDetail {}
    "final" CompleteTypeDetail {
        ann_builtin: Option<AppliedBuiltinTypeAnnotations>,
        ann_custom: Option<Vec<AppliedAnnotation>>, #[dds(bound = 256)] type_name: String
    }
    "appendable" CompleteStructHeader { base_type: TypeIdentifier, detail: CompleteTypeDetail }
    "appendable" MinimalStructHeader { base_type: TypeIdentifier, detail: MinimalTypeDetail }
    "final" CompleteStructType {
        struct_flags: u16, header: CompleteStructHeader, member_seq: Vec<CompleteStructMember>
    }
    "final" MinimalStructType {
        struct_flags: u16, header: MinimalStructHeader, member_seq: Vec<MinimalStructMember>
    }

    "final" CommonUnionMember {
        member_id: u32, member_flags: u16, type_id: TypeIdentifier, label_seq: Vec<i32>
    }
    "appendable" CompleteUnionMember { common: CommonUnionMember, detail: CompleteMemberDetail }
    "appendable" MinimalUnionMember { common: CommonUnionMember, detail: MinimalMemberDetail }
    "final" CommonDiscriminatorMember { member_flags: u16, type_id: TypeIdentifier }
    "appendable" CompleteDiscriminatorMember {
        common: CommonDiscriminatorMember, ann_builtin: Option<AppliedBuiltinTypeAnnotations>,
        ann_custom: Option<Vec<AppliedAnnotation>>
    }
    "appendable" MinimalDiscriminatorMember { common: CommonDiscriminatorMember }
    "appendable" CompleteUnionHeader { detail: CompleteTypeDetail }
    "appendable" MinimalUnionHeader { detail: MinimalTypeDetail }
    "final" CompleteUnionType {
        union_flags: u16, header: CompleteUnionHeader, discriminator: CompleteDiscriminatorMember,
        member_seq: Vec<CompleteUnionMember>
    }
    "final" MinimalUnionType {
        union_flags: u16, header: MinimalUnionHeader, discriminator: MinimalDiscriminatorMember,
        member_seq: Vec<MinimalUnionMember>
    }

    "final" CommonAnnotationParameter { member_flags: u16, member_type_id: TypeIdentifier }
    "appendable" CompleteAnnotationParameter {
        common: CommonAnnotationParameter, #[dds(bound = 256)] name: String,
        default_value: AnnotationParameterValue
    }
    "appendable" MinimalAnnotationParameter {
        common: CommonAnnotationParameter, name_hash: NameHash,
        default_value: AnnotationParameterValue
    }
    "appendable" CompleteAnnotationHeader { #[dds(bound = 256)] annotation_name: String }
    "appendable" MinimalAnnotationHeader {}
    "final" CompleteAnnotationType {
        annotation_flag: u16, header: CompleteAnnotationHeader,
        member_seq: Vec<CompleteAnnotationParameter>
    }
    "final" MinimalAnnotationType {
        annotation_flag: u16, header: MinimalAnnotationHeader,
        member_seq: Vec<MinimalAnnotationParameter>
    }

    "final" CommonAliasBody { related_flags: u16, related_type: TypeIdentifier }
    "appendable" CompleteAliasBody {
        common: CommonAliasBody, ann_builtin: Option<AppliedBuiltinMemberAnnotations>,
        ann_custom: Option<Vec<AppliedAnnotation>>
    }
    "appendable" MinimalAliasBody { common: CommonAliasBody }
    "appendable" CompleteAliasHeader { detail: CompleteTypeDetail }
    "appendable" MinimalAliasHeader {}
    "final" CompleteAliasType {
        alias_flags: u16, header: CompleteAliasHeader, body: CompleteAliasBody
    }
    "final" MinimalAliasType { alias_flags: u16, header: MinimalAliasHeader, body: MinimalAliasBody }

    "final" CompleteElementDetail {
        ann_builtin: Option<AppliedBuiltinMemberAnnotations>,
        ann_custom: Option<Vec<AppliedAnnotation>>
    }
    "final" CommonCollectionElement { element_flags: u16, r#type: TypeIdentifier }
    "appendable" CompleteCollectionElement {
        common: CommonCollectionElement, detail: CompleteElementDetail
    }
    "appendable" MinimalCollectionElement { common: CommonCollectionElement }
    "final" CommonCollectionHeader { bound: u32 }
    "appendable" CompleteCollectionHeader {
        common: CommonCollectionHeader, detail: Option<CompleteTypeDetail>
    }
    "appendable" MinimalCollectionHeader { common: CommonCollectionHeader }
    "final" CompleteSequenceType {
        collection_flag: u16, header: CompleteCollectionHeader, element: CompleteCollectionElement
    }
    "final" MinimalSequenceType {
        collection_flag: u16, header: MinimalCollectionHeader, element: MinimalCollectionElement
    }
    "final" CommonArrayHeader { bound_seq: Vec<u32> }
    "appendable" CompleteArrayHeader { common: CommonArrayHeader, detail: CompleteTypeDetail }
    "appendable" MinimalArrayHeader { common: CommonArrayHeader }
    "appendable" CompleteArrayType {
        collection_flag: u16, header: CompleteArrayHeader, element: CompleteCollectionElement
    }
    "final" MinimalArrayType {
        collection_flag: u16, header: MinimalArrayHeader, element: MinimalCollectionElement
    }
    "final" CompleteMapType {
        collection_flag: u16, header: CompleteCollectionHeader, key: CompleteCollectionElement,
        element: CompleteCollectionElement
    }
    "final" MinimalMapType {
        collection_flag: u16, header: MinimalCollectionHeader, key: MinimalCollectionElement,
        element: MinimalCollectionElement
    }

    "appendable" CommonEnumeratedLiteral { value: i32, flags: u16 }
    "appendable" CompleteEnumeratedLiteral {
        common: CommonEnumeratedLiteral, detail: CompleteMemberDetail
    }
    "appendable" MinimalEnumeratedLiteral {
        common: CommonEnumeratedLiteral, detail: MinimalMemberDetail
    }
    "final" CommonEnumeratedHeader { bit_bound: u16 }
    "appendable" CompleteEnumeratedHeader {
        common: CommonEnumeratedHeader, detail: CompleteTypeDetail
    }
    "appendable" MinimalEnumeratedHeader { common: CommonEnumeratedHeader }
    "final" CompleteEnumeratedType {
        enum_flags: u16, header: CompleteEnumeratedHeader,
        literal_seq: Vec<CompleteEnumeratedLiteral>
    }
    "final" MinimalEnumeratedType {
        enum_flags: u16, header: MinimalEnumeratedHeader,
        literal_seq: Vec<MinimalEnumeratedLiteral>
    }
    "final" CommonBitflag { position: u16, flags: u16 }
    "appendable" CompleteBitflag { common: CommonBitflag, detail: CompleteMemberDetail }
    "appendable" MinimalBitflag { common: CommonBitflag, detail: MinimalMemberDetail }
    "appendable" CompleteBitmaskType {
        bitmask_flags: u16, header: CompleteEnumeratedHeader, flag_seq: Vec<CompleteBitflag>
    }
    "appendable" MinimalBitmaskType {
        bitmask_flags: u16, header: MinimalEnumeratedHeader, flag_seq: Vec<MinimalBitflag>
    }
    "final" CommonBitfield { position: u16, flags: u16, bitcount: u8, holder_type: u8 }
    "appendable" CompleteBitfield { common: CommonBitfield, detail: CompleteMemberDetail }
    "appendable" MinimalBitfield { common: CommonBitfield, name_hash: NameHash }
    "appendable" CompleteBitsetHeader { detail: CompleteTypeDetail }
    "appendable" MinimalBitsetHeader {}
    "appendable" CompleteBitsetType {
        bitset_flags: u16, header: CompleteBitsetHeader, field_seq: Vec<CompleteBitfield>
    }
    "appendable" MinimalBitsetType {
        bitset_flags: u16, header: MinimalBitsetHeader, field_seq: Vec<MinimalBitfield>
    }
    "mutable" CompleteExtendedType {}
    "mutable" MinimalExtendedType {}

    "final" TypeIdentifierTypeObjectPair { type_identifier: TypeIdentifier, type_object: TypeObject }
    "final" TypeIdentifierPair { type_identifier1: TypeIdentifier, type_identifier2: TypeIdentifier }
}

/// Contents of a type, with names and annotations.
#[derive(DdsType, Clone, Debug, PartialEq, Eq)]
#[dds(crate = "idl_cdr", nested, union, discriminator = "u8")]
pub enum CompleteTypeObject {
    #[dds(case = TK_ALIAS)]
    Alias(CompleteAliasType),
    #[dds(case = TK_ANNOTATION)]
    Annotation(CompleteAnnotationType),
    #[dds(case = TK_STRUCTURE)]
    Structure(CompleteStructType),
    #[dds(case = TK_UNION)]
    Union(CompleteUnionType),
    #[dds(case = TK_BITSET)]
    Bitset(CompleteBitsetType),
    #[dds(case = TK_SEQUENCE)]
    Sequence(CompleteSequenceType),
    #[dds(case = TK_ARRAY)]
    Array(CompleteArrayType),
    #[dds(case = TK_MAP)]
    Map(CompleteMapType),
    #[dds(case = TK_ENUM)]
    Enumeration(CompleteEnumeratedType),
    #[dds(case = TK_BITMASK)]
    Bitmask(CompleteBitmaskType),
    #[dds(default)]
    Extended(CompleteExtendedType),
}

/// Contents of a type relevant to assignability, with hashes of names.
#[derive(DdsType, Clone, Debug, PartialEq, Eq)]
#[dds(crate = "idl_cdr", nested, union, discriminator = "u8")]
pub enum MinimalTypeObject {
    #[dds(case = TK_ALIAS)]
    Alias(MinimalAliasType),
    #[dds(case = TK_ANNOTATION)]
    Annotation(MinimalAnnotationType),
    #[dds(case = TK_STRUCTURE)]
    Structure(MinimalStructType),
    #[dds(case = TK_UNION)]
    Union(MinimalUnionType),
    #[dds(case = TK_BITSET)]
    Bitset(MinimalBitsetType),
    #[dds(case = TK_SEQUENCE)]
    Sequence(MinimalSequenceType),
    #[dds(case = TK_ARRAY)]
    Array(MinimalArrayType),
    #[dds(case = TK_MAP)]
    Map(MinimalMapType),
    #[dds(case = TK_ENUM)]
    Enumeration(MinimalEnumeratedType),
    #[dds(case = TK_BITMASK)]
    Bitmask(MinimalBitmaskType),
    #[dds(default)]
    Extended(MinimalExtendedType),
}

/// Contents of a type.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the larger kind")]
#[derive(DdsType, Clone, Debug, PartialEq, Eq)]
#[dds(crate = "idl_cdr", nested, union, discriminator = "u8", extensibility = "appendable")]
pub enum TypeObject {
    #[dds(case = EK_COMPLETE)]
    Complete(CompleteTypeObject),
    #[dds(case = EK_MINIMAL)]
    Minimal(MinimalTypeObject),
}
