//! Numbers in type objects: flags, kinds, bounds, minimum and maximum values.
//!
//! Owns the conversion of the model to the standard's numbers. Never knows of other types.

use idl_cdr::{Extensibility, LongDouble, TryConstruct};

use crate::model::{BitField, Element, Literal, NodeKind, Primitive};
use crate::standard::*;

pub(crate) fn header(equiv_kind: u8, element_flags: u16) -> PlainCollectionHeader {
    PlainCollectionHeader { equiv_kind, element_flags }
}

pub(crate) fn flags_of_element(element: &Element) -> u16 {
    flags_of(element.try_construct) | if element.external { IS_EXTERNAL } else { 0 }
}

pub(crate) fn flags_of(try_construct: TryConstruct) -> u16 {
    match try_construct {
        TryConstruct::Discard => TRY_CONSTRUCT_DISCARD,
        TryConstruct::UseDefault => TRY_CONSTRUCT_USE_DEFAULT,
        TryConstruct::Trim => TRY_CONSTRUCT_TRIM,
    }
}

pub(crate) fn flags_of_type(extensibility: Extensibility, nested: bool) -> u16 {
    let flags = match extensibility {
        Extensibility::Final => IS_FINAL,
        Extensibility::Appendable => IS_APPENDABLE,
        Extensibility::Mutable => IS_MUTABLE,
    };
    flags | if nested { IS_NESTED } else { 0 }
}

pub(crate) fn bits(bit_bound: u32) -> CommonEnumeratedHeader {
    CommonEnumeratedHeader { bit_bound: bit_bound as u16 }
}

/// Returns the literal of a type object. The default flag may be omitted for the first enumerator,
/// which is the default anyway.
pub(crate) fn literal_of(of: &Literal, says_default: bool) -> CommonEnumeratedLiteral {
    let flags = if of.default && says_default { IS_DEFAULT } else { 0 };
    CommonEnumeratedLiteral { value: of.value, flags }
}

pub(crate) fn field_of(of: &BitField) -> CommonBitfield {
    CommonBitfield {
        position: of.position as u16,
        flags: 0,
        bitcount: of.bits as u8,
        holder_type: kind_of_primitive(of.holder),
    }
}

/// Returns the minimum or maximum of a member as a value of its type.
pub(crate) fn parameter(kind: &NodeKind, text: &str) -> Option<AnnotationParameterValue> {
    use AnnotationParameterValue as Value;
    let text = text.trim().replace(' ', "");
    let NodeKind::Primitive(primitive) = kind else { return None };
    Some(match primitive {
        Primitive::Byte => Value::Byte(text.parse().ok()?),
        Primitive::Int8 => Value::Int8(text.parse().ok()?),
        Primitive::Uint8 => Value::Uint8(text.parse().ok()?),
        Primitive::Int16 => Value::Int16(text.parse().ok()?),
        Primitive::Uint16 => Value::Uint16(text.parse().ok()?),
        Primitive::Int32 => Value::Int32(text.parse().ok()?),
        Primitive::Uint32 => Value::Uint32(text.parse().ok()?),
        Primitive::Int64 => Value::Int64(text.parse().ok()?),
        Primitive::Uint64 => Value::Uint64(text.parse().ok()?),
        Primitive::Float32 => Value::Float32(text.parse().ok()?),
        Primitive::Float64 => Value::Float64(text.parse().ok()?),
        // The text has all bits of the number, or the digits of a double.
        Primitive::Float128 => Value::Float128(match text.strip_prefix("0x") {
            Some(bits) => LongDouble(u128::from_str_radix(bits, 16).ok()?.to_le_bytes()),
            None => text.parse::<f64>().ok()?.into(),
        }),
        Primitive::Boolean | Primitive::Char8 | Primitive::Char16 => return None,
    })
}

/// Returns whether a type of these parts is the same in minimal and complete form, as an
/// equivalence kind.
pub(crate) fn equivalence_of(identifier: &TypeIdentifier) -> u8 {
    match identifier {
        TypeIdentifier::Minimal(_) => EK_MINIMAL,
        TypeIdentifier::Complete(_) => EK_COMPLETE,
        TypeIdentifier::Component(id) => match id.sc_component_id {
            TypeObjectHashId::Minimal(_) => EK_MINIMAL,
            TypeObjectHashId::Complete(_) => EK_COMPLETE,
        },
        TypeIdentifier::SequenceSmall(of) => of.header.equiv_kind,
        TypeIdentifier::SequenceLarge(of) => of.header.equiv_kind,
        TypeIdentifier::ArraySmall(of) => of.header.equiv_kind,
        TypeIdentifier::ArrayLarge(of) => of.header.equiv_kind,
        TypeIdentifier::MapSmall(of) => of.header.equiv_kind,
        TypeIdentifier::MapLarge(of) => of.header.equiv_kind,
        _ => EK_BOTH,
    }
}

pub(crate) fn primitive_identifier(primitive: Primitive) -> TypeIdentifier {
    match primitive {
        Primitive::Boolean => TypeIdentifier::Boolean,
        Primitive::Byte => TypeIdentifier::Byte,
        Primitive::Int8 => TypeIdentifier::Int8,
        Primitive::Int16 => TypeIdentifier::Int16,
        Primitive::Int32 => TypeIdentifier::Int32,
        Primitive::Int64 => TypeIdentifier::Int64,
        Primitive::Uint8 => TypeIdentifier::Uint8,
        Primitive::Uint16 => TypeIdentifier::Uint16,
        Primitive::Uint32 => TypeIdentifier::Uint32,
        Primitive::Uint64 => TypeIdentifier::Uint64,
        Primitive::Float32 => TypeIdentifier::Float32,
        Primitive::Float64 => TypeIdentifier::Float64,
        Primitive::Float128 => TypeIdentifier::Float128,
        Primitive::Char8 => TypeIdentifier::Char8,
        Primitive::Char16 => TypeIdentifier::Char16,
    }
}

/// Returns the standard's number of a primitive.
pub(crate) fn kind_of_primitive(primitive: Primitive) -> u8 {
    match primitive {
        Primitive::Boolean => TK_BOOLEAN,
        Primitive::Byte => TK_BYTE,
        Primitive::Int8 => TK_INT8,
        Primitive::Int16 => TK_INT16,
        Primitive::Int32 => TK_INT32,
        Primitive::Int64 => TK_INT64,
        Primitive::Uint8 => TK_UINT8,
        Primitive::Uint16 => TK_UINT16,
        Primitive::Uint32 => TK_UINT32,
        Primitive::Uint64 => TK_UINT64,
        Primitive::Float32 => TK_FLOAT32,
        Primitive::Float64 => TK_FLOAT64,
        Primitive::Float128 => TK_FLOAT128,
        Primitive::Char8 => TK_CHAR8,
        Primitive::Char16 => TK_CHAR16,
    }
}
