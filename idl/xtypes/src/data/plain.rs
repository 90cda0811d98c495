//! Reading of values from their memory layout.
//!
//! Owns the parallel traversal of a type and the offsets of its parts. Never trusts an offset: one
//! outside of the value is an error.

use idl_cdr::derived::bytes_for;
use idl_cdr::{CdrReader, Encoding, Endianness, LongDouble};

use super::cdr::read_primitive;
use super::{DataError, Value};
use crate::DynamicType;
use crate::model::{NodeKind, Primitive, TypeGraph, TypeNodeId};

/// Encoding of numbers in memory, which is that of a CDR writer with this byte order.
const NATIVE: Encoding = match Endianness::NATIVE {
    Endianness::Big => Encoding::PLAIN_CDR2_BE,
    Endianness::Little => Encoding::PLAIN_CDR2_LE,
};

/// Reads a value from its bytes; `places` are the offsets from
/// [`DdsType::places`](idl_cdr::DdsType::places).
pub(super) fn read(of: &DynamicType, places: &[u32], bytes: &[u8]) -> Result<Value, DataError> {
    let mut traversal = PlainTraversal { graph: &of.graph, places: places.iter(), bytes };
    let value = traversal.read(of.root, 0).filter(|_| traversal.places.len() == 0);
    value.ok_or_else(|| DataError::Unfit {
        path: of.name().to_owned(),
        reason: format!("has another layout in memory than its {} bytes", bytes.len()),
    })
}

struct PlainTraversal<'a> {
    graph: &'a TypeGraph,
    places: std::slice::Iter<'a, u32>,
    bytes: &'a [u8],
}

impl<'a> PlainTraversal<'a> {
    fn read(&mut self, of: TypeNodeId, at: usize) -> Option<Value> {
        let graph = self.graph;
        match graph.kind(of) {
            NodeKind::Primitive(Primitive::Float128) => {
                Some(Value::LongDouble(LongDouble(*self.bytes.get(at..)?.first_chunk()?)))
            }
            NodeKind::Primitive(primitive) => {
                let bytes = self.bytes.get(at..at.checked_add(primitive.size())?)?;
                read_primitive(*primitive, &mut CdrReader::new(bytes, NATIVE)).ok()
            }
            NodeKind::Bitmask { bit_bound, .. } => {
                let size = bytes_for(*bit_bound);
                let bytes = self.bytes.get(at..at.checked_add(size)?)?;
                let mut wide = [0; 8];
                match Endianness::NATIVE {
                    Endianness::Little => wide[..size].copy_from_slice(bytes),
                    Endianness::Big => wide[8 - size..].copy_from_slice(bytes),
                }
                Some(Value::Bitmask(u64::from_ne_bytes(wide)))
            }
            NodeKind::Alias(of) => self.read(*of, at),
            NodeKind::Array { element, count } => {
                let distance = *self.places.next()? as usize;
                let inside = self.places.clone();
                let mut elements = Vec::new();
                for index in 0..*count as usize {
                    self.places = inside.clone();
                    let at = at.checked_add(index.checked_mul(distance)?)?;
                    elements.push(self.read(element.of, at)?);
                }
                Some(Value::Collection(elements))
            }
            NodeKind::Structure(structure) => {
                let mut parts = Vec::new();
                if let Some(base) = structure.base {
                    let at = at.checked_add(*self.places.next()? as usize)?;
                    let Value::Structure(of_base) = self.read(base, at)? else { return None };
                    parts = of_base;
                }
                for member in &structure.members {
                    if member.optional || member.external {
                        return None;
                    }
                    let at = at.checked_add(*self.places.next()? as usize)?;
                    parts.push(self.read(member.of, at)?);
                }
                Some(Value::Structure(parts))
            }
            _ => None,
        }
    }
}
