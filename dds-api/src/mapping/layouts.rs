//! How values of the writers of a topic lie in memory that were built otherwise than its reader.
//!
//! Owns: what was told of that, by the marks of records. Never does: decide who is matched; it is told of those who are.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use idl_cdr::Encoding;
use idl_xtypes::{DynamicData, DynamicType};

use super::record::layout_mark;

/// A type, and where the parts of its values lie.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The hash of it.
    pub(crate) hash: u64,
    pub(crate) of: DynamicType,
    pub(crate) places: Arc<[u32]>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Layouts(RwLock<BTreeMap<u32, Option<Layout>>>);

impl Layouts {
    /// Some records are of a writer whose values lie so. Of two that have the same mark none can be told from the other: what
    /// they write is not read.
    pub(crate) fn learn(&self, layout: Layout) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let place = known.entry(layout_mark(layout.hash)).or_insert_with(|| Some(layout.clone()));
        if place.as_ref().is_some_and(|known| known.hash != layout.hash) {
            tracing::warn!(of = layout.of.name(), "two layouts of a type have the same mark");
            *place = None;
        }
    }

    /// The payload in CDR of a value that lies as this mark says.
    #[cold]
    pub(crate) fn to_cdr(&self, mark: u32, bytes: &[u8]) -> Option<Vec<u8>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let layout = known.get(&mark)?.as_ref()?;
        let value = DynamicData::from_plain(&layout.of, &layout.places, bytes).ok()?;
        value.to_cdr(Encoding::default()).ok()
    }
}
