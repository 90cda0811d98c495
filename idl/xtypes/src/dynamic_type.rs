//! Types as values.
//!
//! Owns the construction of run-time types. They are immutable and cheap to clone.

use std::sync::Arc;

use idl_cdr::{DdsType, Extensibility, Representations, TypeDescriptor, descriptor_of};

use crate::data;
use crate::descriptor::FromDescriptors;
use crate::model::{NodeKind, TypeGraph, TypeNodeId};
use crate::objects::{ObjectKind, Objects, TypeObjects};
use crate::soundness;

/// A type as a value.
///
/// Constructors: [`of`](Self::of) for a derived type, [`from_objects`](Self::from_objects) for the
/// type of a peer, [`primitive`](Self::primitive) and the methods after it,
/// [`StructBuilder`](crate::StructBuilder), [`UnionBuilder`](crate::UnionBuilder).
#[derive(Clone, Debug)]
pub struct DynamicType {
    pub(crate) graph: Arc<TypeGraph>,
    pub(crate) root: TypeNodeId,
}

impl DynamicType {
    /// Returns the type `T`.
    pub fn of<T: DdsType>() -> Self {
        Self::of_descriptor(descriptor_of::<T>())
    }

    /// Returns the described type.
    pub fn of_descriptor(descriptor: &'static TypeDescriptor) -> Self {
        let mut made = FromDescriptors::default();
        let root = made.add(descriptor, idl_cdr::Limits::NONE);
        Self { graph: Arc::new(made.finish()), root }
    }

    /// Returns the IDL name; empty for types without one.
    pub fn name(&self) -> &str {
        &self.graph.node(self.root).name
    }

    /// Returns the changes that the type allows.
    pub fn extensibility(&self) -> Extensibility {
        data::layout::extensibility_of(&self.graph, self.root)
    }

    /// Whether the type has a key.
    pub fn is_keyed(&self) -> bool {
        data::layout::is_keyed(&self.graph, self.root)
    }

    /// Returns the number of parts of an empty value, arrays included: memory for them is needed
    /// for every sample.
    pub fn parts(&self) -> u64 {
        soundness::parts_of(&self.graph, self.root)
    }

    /// Whether the type declares that it is not for topics.
    pub fn is_nested(&self) -> bool {
        match self.graph.kind(self.root) {
            NodeKind::Structure(of) => of.nested,
            NodeKind::Union(of) => of.nested,
            _ => false,
        }
    }

    /// Returns the representations in which samples may be sent. Type objects do not contain this
    /// information, so for the type of a peer the result is all of them.
    pub fn representations(&self) -> Representations {
        match self.graph.kind(self.root) {
            NodeKind::Structure(of) => of.representations,
            NodeKind::Union(of) => of.representations,
            _ => Representations::ALL,
        }
    }

    /// Whether the type, or a type within it, is appendable or mutable, and may have other members
    /// in another version.
    pub fn may_change(&self) -> bool {
        let changes = |part| data::layout::extensibility_of(&self.graph, part);
        self.all_parts().into_iter().any(|part| changes(part) != Extensibility::Final)
    }

    /// Returns the type identifier and the type objects. For a type known by minimal objects the
    /// names are unknown, so its objects are minimal, whatever kind is requested.
    pub fn objects(&self, kind: ObjectKind) -> TypeObjects {
        let kind = if self.graph.has_names() { kind } else { ObjectKind::Minimal };
        Objects::of(&self.graph, self.root, kind)
    }
}
