//! Memory layouts of the values of a topic's writers in programs that were built differently from
//! the reader's.
//!
//! Owns: the announced layouts, by the marks of records. Never does: decide on matches; it learns
//! the layouts of matched writers.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use idl_cdr::Encoding;
use idl_xtypes::{DynamicData, DynamicType};

use super::record::layout_mark;

/// A type and the offsets of its parts in memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLayout {
    /// Hash of the layout.
    pub(crate) hash: u64,
    pub(crate) of: DynamicType,
    pub(crate) offsets: Arc<[u32]>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct MemoryLayouts(RwLock<BTreeMap<u32, Option<MemoryLayout>>>);

impl MemoryLayouts {
    /// Learns a layout of a writer. Two layouts with the same mark cannot be distinguished, so
    /// records with that mark are not read.
    pub(crate) fn learn(&self, layout: MemoryLayout) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(layout_mark(layout.hash)).or_insert_with(|| Some(layout.clone()));
        if entry.as_ref().is_some_and(|known| known.hash != layout.hash) {
            tracing::warn!(of = layout.of.name(), "two layouts of a type have the same mark");
            *entry = None;
        }
    }

    /// Converts a value with the layout of this mark to a CDR payload.
    #[cold]
    pub(crate) fn to_cdr(&self, mark: u32, bytes: &[u8]) -> Option<Vec<u8>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let layout = known.get(&mark)?.as_ref()?;
        let value = DynamicData::from_plain(&layout.of, &layout.offsets, bytes).ok()?;
        value.to_cdr(Encoding::default()).ok()
    }
}
