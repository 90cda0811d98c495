//! Initial values, and values of members that a sample lacks.
//!
//! Owns the standard's defaults of each kind of type, and those of annotated members. Never reads
//! a sample.

use idl_cdr::{LongDouble, WChar};

use super::{UnionValue, Value, layout};
use crate::model::{NodeKind, Primitive, StructureMember, TypeGraph, TypeNodeId, Union};

/// Returns a union in the given case with the member's default.
pub(crate) fn union_of_case(graph: &TypeGraph, of: &Union, case: usize) -> UnionValue {
    let member = of.cases.get(case).and_then(|case| case.member.as_ref());
    UnionValue {
        discriminator: layout::discriminator(graph, of, case),
        case,
        member: member.map_or(Value::Absent, |member| default_of_member(graph, member)),
    }
}

/// Returns the default value of a union. The discriminator's default is kept if it selects the
/// default case.
fn default_of_union(graph: &TypeGraph, of: &Union) -> UnionValue {
    // Types of other origin than derived Rust are refused before.
    let case = layout::default_case(graph, of).expect("a union has a finite value");
    let held = union_of_case(graph, of, case);
    let discriminator = default_of_member(graph, &of.discriminator);
    match layout::case_of(of, discriminator.label()) == Some(case) {
        true => UnionValue { discriminator, ..held },
        false => held,
    }
}

/// Returns the value of a member that a sample lacks.
pub(crate) fn default_of_member(graph: &TypeGraph, of: &StructureMember) -> Value {
    match &of.default {
        Some(default) => default.clone(),
        None if of.optional => Value::Absent,
        None => default_of(graph, of.of),
    }
}

/// Returns the initial value of a type. Types with infinite values have been refused before.
pub(crate) fn default_of(graph: &TypeGraph, of: TypeNodeId) -> Value {
    match graph.kind(of) {
        NodeKind::Primitive(primitive) => match primitive {
            Primitive::Boolean => Value::Bool(false),
            Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64 => {
                Value::Signed(0)
            }
            Primitive::Byte
            | Primitive::Uint8
            | Primitive::Uint16
            | Primitive::Uint32
            | Primitive::Uint64 => Value::Unsigned(0),
            Primitive::Float32 => Value::Float(0.0),
            Primitive::Float64 => Value::Double(0.0),
            Primitive::Float128 => Value::LongDouble(LongDouble::default()),
            Primitive::Char8 => Value::Char('\0'),
            Primitive::Char16 => Value::WideChar(WChar(0)),
        },
        NodeKind::Text { .. } => Value::Text(String::new()),
        NodeKind::Fixed { scale, .. } => Value::Fixed { units: 0, scale: *scale },
        NodeKind::Sequence { .. } => Value::Collection(Vec::new()),
        NodeKind::Array { element, count } => {
            Value::Collection(vec![default_of(graph, element.of); *count as usize])
        }
        NodeKind::Map { .. } => Value::Map(Vec::new()),
        NodeKind::Enumeration { literals, .. } => {
            let default = literals.iter().find(|literal| literal.default).or(literals.first());
            default.map_or(Value::Absent, |literal| Value::Enumerator {
                value: literal.value,
                name: literal.name.text.clone(),
            })
        }
        NodeKind::Bitmask { .. } => Value::Bitmask(0),
        NodeKind::Bitset(fields) => {
            Value::Structure(fields.iter().map(|field| default_of(graph, field.of)).collect())
        }
        NodeKind::Structure(structure) => {
            let members = graph.members(structure);
            Value::Structure(members.into_iter().map(|of| default_of_member(graph, of)).collect())
        }
        NodeKind::Union(union) => Value::Union(Box::new(default_of_union(graph, union))),
        NodeKind::Alias(_) | NodeKind::Later => Value::Absent,
    }
}
