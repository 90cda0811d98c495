//! Types of keys: a type with only the members that determine the instance.
//!
//! Owns the choice of the members. A key-only payload of a type is the payload of its key type.

use std::sync::Arc;

use idl_cdr::Encoding;

use crate::data::layout::is_keyed;
use crate::model::{NodeKind, TypeGraph, TypeNodeId};
use crate::{DataError, DynamicData, DynamicType};

impl DynamicType {
    /// Returns the type with only the members of the key. A type without a key has no member left.
    #[must_use]
    pub fn key_type(&self) -> DynamicType {
        let source = &*self.graph;
        let mut graph = source.clone();
        for index in 0..graph.nodes.len() {
            let of = TypeNodeId(index as u32);
            keep_key(source, of, &mut graph.nodes[index].kind);
        }
        let root = source.resolved(self.root);
        if !is_keyed(source, root)
            && let NodeKind::Structure(of) = &mut graph.nodes[root.0 as usize].kind
        {
            of.members.clear();
        }
        DynamicType { graph: Arc::new(graph), root }
    }
}

/// Removes what is not in the key of a value that is itself a part of a key.
fn keep_key(source: &TypeGraph, of: TypeNodeId, kind: &mut NodeKind) {
    match kind {
        NodeKind::Structure(structure) => {
            let is_keyed = is_keyed(source, of);
            let members = source.members(structure).into_iter();
            let members = members.filter(|member| member.key || !is_keyed).cloned().collect();
            (structure.base, structure.members) = (None, members);
        }
        NodeKind::Union(union) if union.discriminator.key => {
            union.cases.iter_mut().for_each(|case| case.member = None);
        }
        _ => {}
    }
}

impl DynamicData {
    /// Returns the key of the sample: a value with only the members that determine its instance.
    ///
    /// ```
    /// use idl_xtypes::{DynamicData, DynamicType};
    ///
    /// let idl = idl::parse("fix.idl", "struct Fix { long height; @key long id; };")?;
    /// let fix = DynamicData::parse(&DynamicType::from_idl(&idl, "Fix")?, "{id: 7, height: 9}")?;
    /// assert_eq!(fix.only_key()?.to_json_line(), "{\"id\": 7}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only_key(&self) -> Result<DynamicData, DataError> {
        let payload = self.key_to_cdr_with(Encoding::default())?;
        DynamicData::from_key(&self.of().key_type(), &payload)
    }
}
