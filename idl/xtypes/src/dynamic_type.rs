//! A type as a value.
//!
//! Owns where types of run time come from. They are cheap to clone, and do not change.

use std::sync::Arc;

use idl_cdr::{DdsType, Extensibility, Representations, TypeDescriptor, descriptor_of};

use crate::data;
use crate::descriptor::FromDescriptors;
use crate::model::{Graph, Kind, NodeId};
use crate::objects::{ObjectKind, Objects, TypeObjects};

/// A type as a value.
///
/// Where it comes from: [`of`](Self::of) a derived type, [`from_objects`](Self::from_objects) of a peer,
/// [`primitive`](Self::primitive) and what follows it, [`StructBuilder`](crate::StructBuilder),
/// [`UnionBuilder`](crate::UnionBuilder).
#[derive(Clone, Debug)]
pub struct DynamicType {
    pub(crate) graph: Arc<Graph>,
    pub(crate) root: NodeId,
}

impl DynamicType {
    /// The type `T`.
    pub fn of<T: DdsType>() -> Self {
        Self::of_descriptor(descriptor_of::<T>())
    }

    /// The type that is described.
    pub fn of_descriptor(descriptor: &'static TypeDescriptor) -> Self {
        let mut made = FromDescriptors::default();
        let root = made.add(descriptor, idl_cdr::Limits::NONE);
        Self { graph: Arc::new(made.finish()), root }
    }

    /// Its name in IDL; of what has no name, none.
    pub fn name(&self) -> &str {
        &self.graph.node(self.root).name
    }

    /// How it may change.
    pub fn extensibility(&self) -> Extensibility {
        data::layout::extensibility_of(&self.graph, self.root)
    }

    /// Whether it has a key.
    pub fn is_keyed(&self) -> bool {
        data::layout::is_keyed(&self.graph, self.root)
    }

    /// Whether it says that it is the type of no topic.
    pub fn is_nested(&self) -> bool {
        match self.graph.kind(self.root) {
            Kind::Structure(of) => of.nested,
            Kind::Union(of) => of.nested,
            _ => false,
        }
    }

    /// In which representations its samples may travel. Type objects do not say it, so of a type that a peer told it is all.
    pub fn representations(&self) -> Representations {
        match self.graph.kind(self.root) {
            Kind::Structure(of) => of.representations,
            Kind::Union(of) => of.representations,
            _ => Representations::ALL,
        }
    }

    /// Whether it, or a type that it is made of, may have other members in another version: it is appendable or mutable.
    pub fn may_change(&self) -> bool {
        let changes = |part| data::layout::extensibility_of(&self.graph, part);
        self.all_parts().into_iter().any(|part| changes(part) != Extensibility::Final)
    }

    /// What names it, and what it is made of. A type that is known by minimal objects has no names to tell:
    /// its objects are minimal, whatever is asked for.
    pub fn objects(&self, kind: ObjectKind) -> TypeObjects {
        let kind = if self.graph.has_names() { kind } else { ObjectKind::Minimal };
        Objects::of(&self.graph, self.root, kind)
    }
}
