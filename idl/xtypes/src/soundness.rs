//! Requirements on a type before values of it are made.
//!
//! Owns the limits: an empty value is finite and small, and each kind of type satisfies its
//! encoding. Never knows the origin of the type.

use idl_cdr::MAX_DEPTH;
use idl_cdr::derived::ValueGraph;

use crate::TypeObjectError;
use crate::data::layout::{are_labels, default_case_among, value_graph};
use crate::model::{BitField, NodeKind, Primitive, Structure, TypeGraph, TypeNodeId};

/// Maximum number of parts of an empty value. An image in an array has millions of elements.
const MOST_PARTS: u64 = 1 << 24;

/// Checks that values of these types can exist, and the requirements of each kind.
pub(crate) fn check(graph: &TypeGraph) -> Result<(), TypeObjectError> {
    let (mut parts, values) = (vec![PartCount::Unknown; graph.nodes.len()], value_graph(graph));
    for index in 0..graph.nodes.len() {
        let id = TypeNodeId(index as u32);
        let node = graph.node(id);
        let invalid = |reason| Err(TypeObjectError::Invalid { name: node.name.clone(), reason });
        count(graph, &values, id, 0, &mut parts)?;
        match &node.kind {
            NodeKind::Enumeration { bit_bound: 33.., .. }
            | NodeKind::Enumeration { bit_bound: 0, .. } => {
                return invalid("is an enum whose size is not from 1 to 32 bits");
            }
            NodeKind::Enumeration { literals, .. } if literals.is_empty() => {
                return invalid("is an enum without enumerators");
            }
            NodeKind::Bitmask { bit_bound: 65.., .. } | NodeKind::Bitmask { bit_bound: 0, .. } => {
                return invalid("is a bitmask whose size is not from 1 to 64 bits");
            }
            NodeKind::Enumeration { literals, .. }
                if has_twice(literals.iter().map(|literal| literal.name.hash)) =>
            {
                return invalid("is an enum with two enumerators of the same name");
            }
            NodeKind::Bitset(fields) if overlap(fields) => {
                return invalid("is a bitset whose fields overlap");
            }
            NodeKind::Structure(Structure { base: Some(base), .. })
                if !matches!(graph.kind(*base), NodeKind::Structure(_)) =>
            {
                return invalid("inherits from a type that is not a struct");
            }
            NodeKind::Structure(structure) => {
                let members = graph.members(structure);
                if members.iter().any(|member| member.key && member.optional) {
                    return invalid("has a member of its key that is optional");
                }
                if has_twice(members.iter().map(|member| member.id)) {
                    return invalid("has two members of the same id");
                }
                if has_twice(members.iter().map(|member| member.name.hash)) {
                    return invalid("has two members of the same name");
                }
            }
            NodeKind::Union(union) => {
                let is_discriminator = match graph.kind(union.discriminator.of) {
                    NodeKind::Primitive(primitive) => !matches!(
                        primitive,
                        Primitive::Float32 | Primitive::Float64 | Primitive::Float128
                    ),
                    kind => {
                        matches!(kind, NodeKind::Enumeration { .. } | NodeKind::Bitmask { .. })
                    }
                };
                if !is_discriminator || union.cases.is_empty() {
                    return invalid("is a union without a case, or without a valid discriminator");
                }
                if !are_labels(graph, union) {
                    return invalid("is a union with a label that its discriminator cannot have");
                }
                let members = || union.cases.iter().filter_map(|case| case.member.as_ref());
                if has_twice(members().map(|member| member.id))
                    || has_twice(members().map(|member| member.name.hash))
                {
                    return invalid("is a union with two members of the same id or name");
                }
                if has_twice(union.cases.iter().flat_map(|case| case.labels.iter())) {
                    return invalid("is a union with two cases for one value");
                }
            }
            NodeKind::Array { count: 0, .. } => {
                return invalid("is an array without elements");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the number of parts of an empty value.
pub(crate) fn parts_of(graph: &TypeGraph, of: TypeNodeId) -> u64 {
    let mut parts = vec![PartCount::Unknown; graph.nodes.len()];
    count(graph, &value_graph(graph), of, 0, &mut parts).unwrap_or(MOST_PARTS)
}

fn has_twice<T: Ord>(of: impl Iterator<Item = T>) -> bool {
    let mut all: Vec<T> = of.collect();
    all.sort_unstable();
    all.windows(2).any(|two| two[0] == two[1])
}

fn overlap(fields: &[BitField]) -> bool {
    let mut places: Vec<(u32, u32)> =
        fields.iter().map(|field| (field.position, field.position + field.bits)).collect();
    places.sort_unstable();
    places.windows(2).any(|two| two[1].0 < two[0].1)
}

#[derive(Clone, Copy, PartialEq)]
enum PartCount {
    Unknown,
    Open,
    Known(u64),
}

/// Returns the number of parts of an empty value. A type that is a part of itself has no values.
fn count(
    graph: &TypeGraph,
    values: &ValueGraph,
    id: TypeNodeId,
    depth: u32,
    parts: &mut [PartCount],
) -> Result<u64, TypeObjectError> {
    let index = id.0 as usize;
    let invalid =
        |reason| Err(TypeObjectError::Invalid { name: graph.node(id).name.clone(), reason });
    match parts[index] {
        PartCount::Known(count) => return Ok(count),
        PartCount::Open => return invalid("contains itself in every value"),
        PartCount::Unknown => parts[index] = PartCount::Open,
    }
    if depth > MAX_DEPTH {
        return invalid("is nested too deep");
    }
    let mut inner = |of: TypeNodeId| count(graph, values, of, depth + 1, parts);
    let found = match &graph.node(id).kind {
        NodeKind::Array { element, count } => u64::from(*count).saturating_mul(inner(element.of)?),
        NodeKind::Alias(of) => inner(*of)?,
        NodeKind::Structure(structure) => {
            let mut all = 1_u64;
            let present = structure.members.iter().filter(|member| !member.optional);
            for of in structure.base.into_iter().chain(present.map(|member| member.of)) {
                all = all.saturating_add(inner(of)?);
            }
            all
        }
        NodeKind::Union(union) => {
            let mut all = 1_u64.saturating_add(inner(union.discriminator.of)?);
            let case = match default_case_among(graph, union, values) {
                Some(case) => union.cases.get(case),
                // The case is only to be found in a cycle.
                None => union.cases.first(),
            };
            if let Some(member) = case.and_then(|case| case.member.as_ref()) {
                all = all.saturating_add(inner(member.of)?);
            }
            all
        }
        _ => 1,
    };
    if found > MOST_PARTS {
        return invalid("has values with too many parts");
    }
    parts[index] = PartCount::Known(found);
    Ok(found)
}
