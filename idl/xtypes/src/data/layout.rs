//! Properties of types that encodings need: primitive kinds, length codes, allowed values.
//!
//! Owns the counterparts of the constants of `DdsType`. Never writes or reads.

use std::collections::{BTreeMap, BTreeSet};

use idl_cdr::Extensibility;
use idl_cdr::derived::{ValueGraph, ValueNode, bytes_for, length_code_for};

use super::Value;
use crate::model::{
    Element, NO_BOUND, NodeKind, Primitive, Structure, StructureMember, TypeGraph, TypeNode,
    TypeNodeId, Union,
};

/// Whether CDR counts an element as primitive.
pub(crate) fn is_primitive(graph: &TypeGraph, element: &Element) -> bool {
    matches!(graph.kind(element.of), NodeKind::Primitive(_))
}

/// Whether an array of such elements holds only primitives, in all its dimensions.
pub(crate) fn is_primitive_row(graph: &TypeGraph, element: &Element) -> bool {
    match graph.kind(element.of) {
        // Peers treat a fixed as an array of octets.
        NodeKind::Primitive(_) | NodeKind::Fixed { .. } => true,
        NodeKind::Array { element, .. } => is_primitive_row(graph, element),
        _ => false,
    }
}

/// Returns the length code of a value in a parameter of XCDR2.
pub(crate) fn length_code(graph: &TypeGraph, of: TypeNodeId) -> u32 {
    match graph.kind(of) {
        NodeKind::Primitive(primitive) => length_code_for(primitive.size()),
        NodeKind::Text { .. } => 5,
        NodeKind::Sequence { element, .. } => match graph.kind(element.of) {
            NodeKind::Primitive(primitive) => match primitive.size() {
                1 => 5,
                4 => 6,
                8 => 7,
                _ => 4,
            },
            _ => 5,
        },
        NodeKind::Array { element, .. } if is_primitive_row(graph, element) => 4,
        NodeKind::Map { key, value, .. }
            if is_primitive(graph, key) && is_primitive(graph, value) =>
        {
            4
        }
        NodeKind::Array { .. } | NodeKind::Map { .. } => 5,
        NodeKind::Enumeration { bit_bound, .. } | NodeKind::Bitmask { bit_bound, .. } => {
            length_code_for(bytes_for(*bit_bound))
        }
        NodeKind::Bitset(fields) => length_code_for(bytes_for(total_bits(fields))),
        NodeKind::Structure(Structure { extensibility, .. })
        | NodeKind::Union(Union { extensibility, .. }) => match extensibility {
            Extensibility::Final => 4,
            Extensibility::Appendable | Extensibility::Mutable => 5,
        },
        NodeKind::Fixed { .. } | NodeKind::Alias(_) | NodeKind::Later => 4,
    }
}

/// Returns the total number of bits of the fields of a bitset.
pub(crate) fn total_bits(fields: &[crate::model::BitField]) -> u32 {
    fields.iter().map(|field| field.position + field.bits).max().unwrap_or(1)
}

/// Returns the key members in the order of their ids; all members if none is marked.
pub(crate) fn key_members<'a>(
    members: &[&'a StructureMember],
) -> Vec<(usize, &'a StructureMember)> {
    let mut keys: Vec<_> = members.iter().copied().enumerate().collect();
    if members.iter().any(|member| member.key) {
        keys.retain(|(_, member)| member.key);
    }
    keys.sort_by_key(|(_, member)| member.id);
    keys
}

/// Returns the changes that a type allows.
pub(crate) fn extensibility_of(graph: &TypeGraph, of: TypeNodeId) -> Extensibility {
    match graph.kind(of) {
        NodeKind::Structure(of) => of.extensibility,
        NodeKind::Union(of) => of.extensibility,
        _ => Extensibility::Final,
    }
}

/// Minimum sizes of values in bytes, without alignment. They equal those of derived types
/// ([`DdsType::MIN_CDR_SIZE`](idl_cdr::DdsType::MIN_CDR_SIZE)), so that both refuse the
/// same lengths.
#[derive(Debug, Default)]
pub(crate) struct LeastSizes(BTreeMap<TypeNodeId, usize>);

impl LeastSizes {
    pub(crate) fn of(&mut self, graph: &TypeGraph, of: TypeNodeId) -> usize {
        match graph.kind(of) {
            NodeKind::Primitive(primitive) => primitive.size(),
            NodeKind::Text { .. } | NodeKind::Sequence { .. } | NodeKind::Map { .. } => 4,
            NodeKind::Fixed { digits, .. } => *digits as usize / 2 + 1,
            NodeKind::Array { element, count } => {
                (*count as usize).saturating_mul(self.of(graph, element.of))
            }
            NodeKind::Enumeration { bit_bound, .. } | NodeKind::Bitmask { bit_bound, .. } => {
                bytes_for(*bit_bound)
            }
            NodeKind::Bitset(fields) => bytes_for(total_bits(fields)),
            NodeKind::Structure(structure) => {
                if let Some(known) = self.0.get(&of) {
                    return *known;
                }
                let members = graph.members(structure).into_iter();
                let sum = members.fold(0_usize, |sum, member| {
                    let least = if member.optional { 1 } else { self.of(graph, member.of) };
                    sum.saturating_add(least)
                });
                let least = match structure.extensibility {
                    Extensibility::Final => sum,
                    Extensibility::Appendable => sum.min(4),
                    Extensibility::Mutable => 4,
                };
                self.0.insert(of, least);
                least
            }
            NodeKind::Union(union) if union.extensibility == Extensibility::Mutable => 4,
            NodeKind::Union(union) => self.of(graph, union.discriminator.of),
            NodeKind::Alias(_) | NodeKind::Later => 1,
        }
    }
}

/// Whether a type has a key.
pub(crate) fn is_keyed(graph: &TypeGraph, of: TypeNodeId) -> bool {
    match graph.kind(of) {
        NodeKind::Structure(structure) => graph.members(structure).iter().any(|member| member.key),
        NodeKind::Union(union) => union.discriminator.key,
        _ => false,
    }
}

/// Whether the keys of all values of the type fit into a key hash.
pub(crate) fn keys_fit_hash(graph: &TypeGraph, of: TypeNodeId) -> bool {
    !is_keyed(graph, of) || end_of(graph, of, 0, 0).is_some_and(|end| end <= 16)
}

/// Returns the end of the longest value that begins at the offset, in the form of keys; `None` if
/// it exceeds a key hash.
fn end_of(graph: &TypeGraph, of: TypeNodeId, offset: usize, depth: u32) -> Option<usize> {
    if offset > 16 || depth > 64 {
        return None;
    }
    let align = |offset: usize, size: usize| offset.next_multiple_of(size.clamp(1, 4));
    let bounded = |bound: u32| (bound != NO_BOUND).then_some(bound as usize);
    let delimiter = |element: &Element| {
        if is_primitive_row(graph, element) { 0 } else { 4 }
    };
    let repeat = |count: usize, start: usize, of: TypeNodeId| {
        let mut offset = start;
        for _ in 0..count {
            let end = end_of(graph, of, offset, depth + 1)?;
            if end == offset {
                break;
            }
            offset = end;
        }
        Some(offset)
    };
    match graph.kind(of) {
        NodeKind::Primitive(primitive) => Some(align(offset, primitive.size()) + primitive.size()),
        NodeKind::Text { wide: false, bound } => Some(align(offset, 4) + 4 + bounded(*bound)? + 1),
        NodeKind::Text { wide: true, bound } => Some(align(offset, 4) + 4 + 2 * bounded(*bound)?),
        NodeKind::Fixed { digits, .. } => Some(offset + *digits as usize / 2 + 1),
        NodeKind::Sequence { element, bound } => {
            let start = if is_primitive(graph, element) { 0 } else { 4 };
            repeat(bounded(*bound)?, align(offset, 4) + start + 4, element.of)
        }
        NodeKind::Array { element, count } => {
            let (mut innermost, mut count) = (element, *count as usize);
            while let NodeKind::Array { element, count: more } = graph.kind(innermost.of) {
                count = count.saturating_mul(*more as usize);
                innermost = element;
            }
            let start = match delimiter(innermost) {
                0 => offset,
                size => align(offset, 4) + size,
            };
            repeat(count, start, innermost.of)
        }
        NodeKind::Enumeration { bit_bound, .. } | NodeKind::Bitmask { bit_bound, .. } => {
            let size = bytes_for(*bit_bound);
            Some(align(offset, size) + size)
        }
        NodeKind::Bitset(fields) => {
            let size = bytes_for(total_bits(fields));
            Some(align(offset, size) + size)
        }
        NodeKind::Structure(structure) => {
            let members = graph.members(structure);
            key_members(&members).iter().try_fold(offset, |offset, (_, member)| {
                let marked = offset + usize::from(member.optional);
                end_of(graph, member.of, marked, depth + 1)
            })
        }
        NodeKind::Union(union) => {
            let start = end_of(graph, union.discriminator.of, offset, depth + 1)?;
            if union.discriminator.key {
                return Some(start);
            }
            let members = union.cases.iter().filter_map(|case| case.member.as_ref());
            members.into_iter().try_fold(start, |most, member| {
                Some(end_of(graph, member.of, start, depth + 1)?.max(most))
            })
        }
        NodeKind::Map { .. } | NodeKind::Alias(_) | NodeKind::Later => None,
    }
}

/// Returns an integer of a type, if it fits.
pub(crate) fn integer(primitive: Primitive, number: i128) -> Option<Value> {
    let bits = 8 * primitive.size() as u32;
    match primitive {
        Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64 => {
            let limit = 1_i128 << (bits - 1);
            (-limit..limit).contains(&number).then_some(Value::Signed(number as i64))
        }
        Primitive::Byte
        | Primitive::Uint8
        | Primitive::Uint16
        | Primitive::Uint32
        | Primitive::Uint64 => {
            (0..1_i128 << bits).contains(&number).then_some(Value::Unsigned(number as u64))
        }
        _ => None,
    }
}

/// Returns the discriminator for a case: its first label, or the first value that no case has.
pub(crate) fn discriminator(graph: &TypeGraph, of: &Union, case: usize) -> Value {
    let kind = graph.kind(of.discriminator.of);
    let first = of.cases.get(case).and_then(|case| case.labels.first().copied());
    let label = first.or_else(|| {
        // The set avoids a quadratic search: the union of a peer may have very many labels.
        let taken: BTreeSet<i64> =
            of.cases.iter().flat_map(|case| case.labels.iter().copied()).collect();
        match kind {
            NodeKind::Enumeration { literals, .. } => {
                let mut values = literals.iter().map(|literal| i64::from(literal.value));
                values.find(|label| !taken.contains(label))
            }
            _ => (0..=i64::from(u16::MAX)).find(|label| !taken.contains(label)),
        }
    });
    label.and_then(|label| from_label(kind, label)).unwrap_or(Value::Absent)
}

/// Whether the discriminator can have every label as a value.
pub(crate) fn are_labels(graph: &TypeGraph, of: &Union) -> bool {
    let kind = graph.kind(of.discriminator.of);
    let mut labels = of.cases.iter().flat_map(|case| case.labels.iter().copied());
    match kind {
        NodeKind::Enumeration { literals, .. } => {
            let values: BTreeSet<i64> =
                literals.iter().map(|literal| literal.value.into()).collect();
            labels.all(|label| values.contains(&label))
        }
        kind => labels.all(|label| from_label(kind, label).is_some()),
    }
}

/// Returns the value that a label denotes, if the type has it.
fn from_label(kind: &NodeKind, label: i64) -> Option<Value> {
    match kind {
        NodeKind::Primitive(Primitive::Boolean) => {
            matches!(label, 0 | 1).then_some(Value::Bool(label == 1))
        }
        NodeKind::Primitive(Primitive::Char8) => {
            u8::try_from(label).ok().map(|c| Value::Char(c.into()))
        }
        NodeKind::Primitive(Primitive::Char16) => {
            u16::try_from(label).ok().map(|unit| Value::WideChar(idl_cdr::WChar(unit)))
        }
        // Labels of unsigned 64-bit types are their bits.
        NodeKind::Primitive(Primitive::Uint64) => Some(Value::Unsigned(label as u64)),
        NodeKind::Primitive(primitive) => integer(*primitive, i128::from(label)),
        NodeKind::Enumeration { literals, .. } => {
            let literal = literals.iter().find(|literal| i64::from(literal.value) == label)?;
            Some(Value::Enumerator { value: literal.value, name: literal.name.text.clone() })
        }
        // The bits of the integer that holds the mask, as for that integer.
        NodeKind::Bitmask { bit_bound, .. } => {
            let most = u64::MAX >> (64 - 8 * bytes_for(*bit_bound));
            (label as u64 <= most).then_some(Value::Bitmask(label as u64))
        }
        _ => None,
    }
}

/// Checks that a value belongs to a type, bounds included; otherwise returns the reason.
pub(crate) fn require_fit(graph: &TypeGraph, of: TypeNodeId, value: &Value) -> Result<(), String> {
    let kind = graph.kind(of);
    let within = |bound: u32, count: usize, what: &str| {
        if bound == NO_BOUND || count <= bound as usize {
            return Ok(());
        }
        Err(format!("has at most {bound} {what}, found {count}"))
    };
    let is_one = match (kind, value) {
        (NodeKind::Primitive(Primitive::Boolean), Value::Bool(_))
        | (NodeKind::Primitive(Primitive::Float32), Value::Float(_))
        | (NodeKind::Primitive(Primitive::Float64), Value::Double(_))
        | (NodeKind::Primitive(Primitive::Float128), Value::LongDouble(_))
        | (NodeKind::Primitive(Primitive::Char16), Value::WideChar(_)) => true,
        (NodeKind::Primitive(Primitive::Char8), Value::Char(c)) => u8::try_from(*c).is_ok(),
        (NodeKind::Primitive(primitive), Value::Signed(number)) => {
            integer(*primitive, i128::from(*number)).is_some_and(|fit| fit == *value)
        }
        (NodeKind::Primitive(primitive), Value::Unsigned(number)) => {
            integer(*primitive, i128::from(*number)).is_some_and(|fit| fit == *value)
        }
        (NodeKind::Text { wide, bound }, Value::Text(text)) => {
            if !wide && text.contains('\0') {
                return Err("is a string with a NUL inside, which would end the string".to_owned());
            }
            let count = if *wide { text.encode_utf16().count() } else { text.len() };
            return within(*bound, count, "characters");
        }
        (NodeKind::Fixed { digits, scale }, Value::Fixed { units, scale: other }) => {
            scale == other && units.unsigned_abs() < 10_u128.pow(*digits)
        }
        (NodeKind::Enumeration { literals, .. }, Value::Enumerator { value, name }) => {
            literals.iter().any(|literal| literal.value == *value && literal.name.text == *name)
        }
        // Unnamed bits of a later version are preserved.
        (NodeKind::Bitmask { bit_bound, .. }, Value::Bitmask(bits)) => {
            bits.checked_shr(8 * bytes_for(*bit_bound) as u32).unwrap_or(0) == 0
        }
        (NodeKind::Sequence { element, bound }, Value::Collection(parts)) => {
            within(*bound, parts.len(), "elements")?;
            return parts.iter().try_for_each(|part| require_fit(graph, element.of, part));
        }
        (NodeKind::Array { element, count }, Value::Collection(parts)) => {
            if parts.len() != *count as usize {
                return Err(format!("has {count} elements, found {}", parts.len()));
            }
            return parts.iter().try_for_each(|part| require_fit(graph, element.of, part));
        }
        (NodeKind::Map { key, value, bound }, Value::Map(entries)) => {
            within(*bound, entries.len(), "entries")?;
            let ascend = |two: &[(Value, Value)]| two[0].0.order(&two[1].0).is_lt();
            if !entries.windows(2).all(ascend) {
                return Err("is a map, whose keys must be unique and in ascending order".to_owned());
            }
            return entries.iter().try_for_each(|(one, other)| {
                require_fit(graph, key.of, one)?;
                require_fit(graph, value.of, other)
            });
        }
        (NodeKind::Bitset(fields), Value::Structure(parts)) => {
            fields.len() == parts.len()
                && fields.iter().zip(parts).all(|(field, part)| field_bits(field, part).is_some())
        }
        (NodeKind::Structure(structure), Value::Structure(parts)) => {
            let members = graph.members(structure);
            if members.len() != parts.len() {
                return Err(format!("has {} members, found {}", members.len(), parts.len()));
            }
            return members.iter().zip(parts).try_for_each(|(member, part)| {
                match (member.optional, part) {
                    (true, Value::Absent) => Ok(()),
                    _ => require_fit(graph, member.of, part),
                }
            });
        }
        (NodeKind::Union(union), Value::Union(held)) => {
            require_fit(graph, union.discriminator.of, &held.discriminator)?;
            if case_of(union, held.discriminator.label()) != Some(held.case) {
                return Err("has a discriminator that selects another case".to_owned());
            }
            match &union.cases[held.case].member {
                Some(member) => return require_fit(graph, member.of, &held.member),
                None => held.member == Value::Absent,
            }
        }
        _ => false,
    };
    if is_one { Ok(()) } else { Err(format!("is {}, found {value:?}", words(kind))) }
}

fn words(kind: &NodeKind) -> &'static str {
    crate::words::kind_name(kind)
}

/// Returns the case that a label selects.
pub(crate) fn case_of(of: &Union, label: i64) -> Option<usize> {
    let labelled = of.cases.iter().position(|case| case.labels.contains(&label));
    labelled.or_else(|| of.cases.iter().position(|case| case.default))
}

/// Returns the case that the discriminator's default selects.
fn selected_case(graph: &TypeGraph, of: &Union) -> Option<usize> {
    let label = match (&of.discriminator.default, graph.kind(of.discriminator.of)) {
        (Some(default), _) => default.label(),
        (None, NodeKind::Enumeration { literals, .. }) => {
            let default = literals.iter().find(|literal| literal.default).or(literals.first());
            default.map_or(0, |literal| literal.value.into())
        }
        (None, _) => 0,
    };
    case_of(of, label)
}

/// Returns the case of a union's default value, as the derive macro chooses it; `None` if the union
/// has no finite value.
pub(crate) fn default_case(graph: &TypeGraph, of: &Union) -> Option<usize> {
    // Most unions are no parts of themselves, and need no look at all types.
    let is_own = |case: &usize| {
        let member = of.cases[*case].member.as_ref();
        member.is_none_or(|member| !holds_union(graph, member.of, of))
    };
    let selected = selected_case(graph, of).filter(is_own);
    selected.or_else(|| default_case_among(graph, of, &value_graph(graph)))
}

/// Returns what [`default_case`] does, for unions of a graph whose values have been examined.
pub(crate) fn default_case_among(
    graph: &TypeGraph,
    of: &Union,
    values: &ValueGraph,
) -> Option<usize> {
    let is_this =
        |node: &TypeNode| matches!(&node.kind, NodeKind::Union(union) if std::ptr::eq(union, of));
    let place = graph.nodes.iter().position(is_this)?;
    values.default_case(place, selected_case(graph, of))
}

/// Whether values of a type may have a value of the union in them in place.
fn holds_union(graph: &TypeGraph, within: TypeNodeId, union: &Union) -> bool {
    let (mut open, mut seen) = (vec![within], BTreeSet::new());
    while let Some(id) = open.pop() {
        if !seen.insert(id.0) {
            continue;
        }
        match graph.kind(id) {
            NodeKind::Union(of) if std::ptr::eq(of, union) => return true,
            kind => {
                open.extend(value_node(kind).parts().into_iter().map(|of| TypeNodeId(of as u32)))
            }
        }
    }
    false
}

/// Examines the values of all types.
pub(crate) fn value_graph(graph: &TypeGraph) -> ValueGraph {
    ValueGraph::new(graph.nodes.iter().map(|node| value_node(&node.kind)).collect())
}

/// Returns the types of which every value of a type has one in place.
fn value_node(of: &NodeKind) -> ValueNode {
    let place = |id: TypeNodeId| id.0 as usize;
    let part = |member: &StructureMember| {
        (!member.optional && member.default.is_none()).then(|| place(member.of))
    };
    match of {
        NodeKind::Union(of) => {
            ValueNode::One(of.cases.iter().map(|case| part(case.member.as_ref()?)).collect())
        }
        NodeKind::Array { element, .. } => ValueNode::All(vec![place(element.of)]),
        NodeKind::Alias(of) => ValueNode::All(vec![place(*of)]),
        NodeKind::Structure(of) => {
            let base = of.base.into_iter().map(place);
            ValueNode::All(base.chain(of.members.iter().filter_map(part)).collect())
        }
        _ => ValueNode::All(Vec::new()),
    }
}

/// Returns the bits of a bitset's field, if the value fits.
pub(crate) fn field_bits(field: &crate::model::BitField, value: &Value) -> Option<u64> {
    let most = u64::MAX >> (64 - field.bits);
    let bits = match value {
        Value::Bool(value) => u64::from(*value),
        Value::Unsigned(value) => *value,
        Value::Signed(value) => {
            let free = 64 - field.bits;
            return ((value << free) >> free == *value).then_some(*value as u64 & most);
        }
        _ => return None,
    };
    (bits <= most).then_some(bits)
}
