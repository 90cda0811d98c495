//! Sizes of values in memory.
//!
//! Owns the limit on the size of a value, which Rust and the lengths of CDR have as well.

use crate::diagnostic::Checked;
use crate::model::{NamedKind, Primitive, ScopedName, StructMember, Type};
use crate::source::Span;

use super::Lowering;

/// Largest size of a value in bytes: lengths in CDR have 32 bits.
const LARGEST_VALUE: u128 = u32::MAX as u128;

/// Size in bytes above which a value may not fit the stack of a thread, which is 2 MiB by default.
const LARGE_VALUE: u128 = 1 << 20;

/// Size of a string, sequence or map, whose elements lie elsewhere.
const COLLECTION: u128 = 24;

impl Lowering<'_> {
    /// Returns the size of a value in place, up to alignment. A type that is not complete counts
    /// nothing, because its values lie elsewhere.
    pub(super) fn size_of(&self, ty: &Type) -> u128 {
        match ty.resolved() {
            Type::Primitive(primitive) => size_of_primitive(*primitive),
            Type::String { .. } | Type::Sequence(..) | Type::Map(..) | Type::Any => COLLECTION,
            Type::Array(element, length) => {
                self.size_of(element).saturating_mul(u128::from(*length))
            }
            Type::Fixed { .. } => 16,
            Type::Named(name, NamedKind::Struct | NamedKind::Union) => {
                self.sizes.get(&**name).copied().unwrap_or(0)
            }
            Type::Named(..) => 4,
            Type::Alias(alias) => self.size_of(&alias.ty),
        }
    }

    /// Reports an array that is too large for any value.
    pub(super) fn check_array(&mut self, ty: &Type, span: Span) -> Checked<()> {
        let size = self.size_of(ty);
        if size <= LARGEST_VALUE {
            return Ok(());
        }
        let text = format!(
            "an array of type {ty} takes {size} bytes; a value takes at most {LARGEST_VALUE}; use \
             a shorter array, or a sequence"
        );
        Err(self.reports.error(span, text))
    }

    /// Stores the size of a struct or union, and reports one that is too large.
    pub(super) fn check_value(&mut self, name: &ScopedName, size: u128, span: Span) {
        self.sizes.insert(name.clone(), size);
        self.places.insert(name.clone(), span);
        if size > LARGEST_VALUE {
            let text = format!(
                "a value of `{name}` takes {size} bytes, and at most {LARGEST_VALUE} are possible; \
                 use sequences instead of arrays"
            );
            self.reports.error(span, text);
        } else if size > LARGE_VALUE {
            let text = format!(
                "a value of `{name}` takes {size} bytes in place, which may be more than the stack \
                 of a thread has; a sequence instead of an array lies elsewhere"
            );
            self.reports.warning(span, text);
        }
    }

    /// Returns the size of members, one after the other.
    pub(super) fn size_of_members<'m>(
        &self,
        members: impl Iterator<Item = &'m StructMember>,
    ) -> u128 {
        members.fold(0, |sum: u128, member| sum.saturating_add(self.size_of(&member.ty)))
    }
}

fn size_of_primitive(primitive: Primitive) -> u128 {
    match primitive {
        Primitive::WChar => 2,
        Primitive::Char | Primitive::Float => 4,
        Primitive::Double => 8,
        Primitive::LongDouble => 16,
        integer => u128::from(integer.bits().unwrap_or(8)).div_ceil(8),
    }
}
