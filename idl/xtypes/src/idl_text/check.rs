//! Comparison of IDL text with the types that it was printed for.
//!
//! Owns the differences that do not count. Never prints.

use std::sync::Arc;

use super::NotInIdl;
use crate::model::{BitField, HashedName, NodeKind, Primitive, TypeGraph, TypeNodeId};
use crate::{DynamicType, ObjectKind};

/// Checks that the text compiles, and that its types have the type objects of the given ones.
pub(super) fn require_equal(types: &[&DynamicType], text: &str) -> Result<(), NotInIdl> {
    let name_of = |of: Option<&&DynamicType>| of.map_or(String::new(), |of| of.name().to_owned());
    let specification = idl::parse("printed.idl", text).map_err(|diagnostics| {
        let errors = diagnostics.iter().filter(|one| one.severity == idl::Severity::Error);
        let reason = errors.map(|one| one.message.as_str()).next().unwrap_or_default().to_owned();
        NotInIdl { name: name_of(types.first()), reason }
    })?;
    let names: Vec<&str> = types.iter().map(|of| definition_name(of)).collect();
    let found = DynamicType::all_from_idl(&specification, names.iter().copied());
    for (of, found) in types.iter().zip(found) {
        let refused = |reason: String| NotInIdl { name: of.name().to_owned(), reason };
        let found = found.map_err(|error| refused(error.to_string()))?;
        let objects = |of: &DynamicType| comparable(of).objects(ObjectKind::Complete);
        if objects(of) != objects(&found) {
            let has_namesake = names.iter().filter(|name| **name == of.name()).count() > 1;
            return Err(refused(
                match has_namesake {
                    true => "another one of the types has the same name",
                    false => "IDL cannot express it without a change",
                }
                .to_owned(),
            ));
        }
    }
    Ok(())
}

/// Returns the name under which a type is defined: for a typedef, that of the type behind.
fn definition_name(of: &DynamicType) -> &str {
    &of.graph.node(of.graph.resolved(of.root)).name
}

/// Returns the type without typedefs, without the difference between `uint8` and `octet`, and with
/// the unused bits of bitsets as fields, as the compiler has them.
fn comparable(of: &DynamicType) -> DynamicType {
    let source = &*of.graph;
    let mut graph = source.clone();
    for node in &mut graph.nodes {
        node.kind.references(|id| *id = source.resolved(*id));
        match &mut node.kind {
            NodeKind::Primitive(primitive @ Primitive::Uint8) => *primitive = Primitive::Byte,
            NodeKind::Bitset(fields) => *fields = without_gaps(fields),
            _ => {}
        }
    }
    DynamicType { root: source.resolved(of.root), graph: Arc::new(graph) }
}

/// Returns the fields of a bitset with those between them that have no name.
pub(super) fn without_gaps(fields: &[BitField]) -> Vec<BitField> {
    let mut sorted = fields.to_vec();
    sorted.sort_by_key(|field| field.position);
    let (mut all, mut next) = (Vec::new(), 0);
    for field in sorted {
        if field.position > next {
            let name = HashedName::new(&format!("reserved_{}", all.len()));
            let (position, bits) = (next, field.position - next);
            let holder = match bits {
                1 => Primitive::Boolean,
                2..=8 => Primitive::Uint8,
                9..=16 => Primitive::Uint16,
                17..=32 => Primitive::Uint32,
                _ => Primitive::Uint64,
            };
            all.push(BitField { name, position, bits, holder, of: field.of });
        }
        next = field.position + field.bits;
        all.push(field);
    }
    all
}

/// Whether a field of a bitset has the name of unused bits at this index.
pub(super) fn is_unused(graph: &TypeGraph, of: TypeNodeId, index: usize) -> bool {
    let NodeKind::Bitset(fields) = graph.kind(of) else { return false };
    let fields = without_gaps(fields);
    fields.get(index).is_some_and(|field| *field.name.text == format!("reserved_{index}"))
}
