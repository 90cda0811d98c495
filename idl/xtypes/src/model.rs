//! Data model of run-time types: nodes that refer to each other by index.
//!
//! Owns the model. Types that contain each other are possible, because an index is not ownership.
//! Never knows the origin of a type.

use std::sync::Arc;

use idl_cdr::{Extensibility, Representations, TryConstruct};

use crate::data::Value;

/// Index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TypeNodeId(pub(crate) u32);

/// All nodes of a type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TypeGraph {
    pub(crate) nodes: Vec<TypeNode>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeNode {
    /// IDL name; empty for types without one.
    pub(crate) name: String,
    /// Position among types that contain each other, if a peer gave it for types whose names it
    /// left out.
    pub(crate) place: i32,
    pub(crate) kind: NodeKind,
}

/// Primitive types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of IDL")]
pub enum Primitive {
    Boolean,
    Byte,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
    Float128,
    Char8,
    Char16,
}

impl Primitive {
    pub(crate) const ALL: [Primitive; 15] = [
        Self::Boolean,
        Self::Byte,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Float32,
        Self::Float64,
        Self::Float128,
        Self::Char8,
        Self::Char16,
    ];

    /// Returns the IDL name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Byte => "octet",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float32 => "float",
            Self::Float64 => "double",
            Self::Float128 => "long double",
            Self::Char8 => "char",
            Self::Char16 => "wchar",
        }
    }

    /// Returns the size of a value in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Boolean | Self::Byte | Self::Int8 | Self::Uint8 | Self::Char8 => 1,
            Self::Int16 | Self::Uint16 | Self::Char16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
            Self::Float128 => 16,
        }
    }
}

/// Value of an unbounded bound.
pub(crate) const NO_BOUND: u32 = 0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeKind {
    Primitive(Primitive),
    /// A string of 8-bit or 16-bit characters, with a bound.
    Text {
        wide: bool,
        bound: u32,
    },
    Fixed {
        digits: u32,
        scale: u32,
    },
    Sequence {
        element: Element,
        bound: u32,
    },
    /// An array; one of several dimensions is an array of arrays.
    Array {
        element: Element,
        count: u32,
    },
    Map {
        key: Element,
        value: Element,
        bound: u32,
    },
    Enumeration {
        bit_bound: u32,
        literals: Vec<Literal>,
        /// Whether another version may use other names for the same numbers. Type objects do not
        /// contain this flag.
        ignore_literal_names: bool,
    },
    Bitmask {
        bit_bound: u32,
        flags: Vec<Flag>,
    },
    Bitset(Vec<BitField>),
    Alias(TypeNodeId),
    Structure(Structure),
    Union(Union),
    /// A struct or union that is not yet made; occurs only during construction.
    Later,
}

/// A name, or the part of it that a minimal type object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashedName {
    pub(crate) text: Arc<str>,
    pub(crate) hash: [u8; 4],
}

impl HashedName {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.into(), hash: crate::hash::of_name(text) }
    }

    pub(crate) fn of_hash(hash: [u8; 4]) -> Self {
        let [a, b, c, d] = hash;
        Self { text: format!("#{a:02x}{b:02x}{c:02x}{d:02x}").into(), hash }
    }

    /// Whether the text is the real name, not a placeholder for a name of which only the hash
    /// is known.
    fn is_known(&self) -> bool {
        self.hash == crate::hash::of_name(&self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Element {
    pub(crate) of: TypeNodeId,
    pub(crate) external: bool,
    pub(crate) try_construct: TryConstruct,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Literal {
    pub(crate) name: HashedName,
    pub(crate) value: i32,
    pub(crate) default: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flag {
    pub(crate) name: HashedName,
    pub(crate) position: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BitField {
    pub(crate) name: HashedName,
    pub(crate) position: u32,
    pub(crate) bits: u32,
    pub(crate) holder: Primitive,
    /// Node of the integer type that holds the field.
    pub(crate) of: TypeNodeId,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Structure {
    pub(crate) extensibility: Extensibility,
    pub(crate) nested: bool,
    pub(crate) representations: Representations,
    pub(crate) base: Option<TypeNodeId>,
    /// Own members.
    pub(crate) members: Vec<StructureMember>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Union {
    pub(crate) extensibility: Extensibility,
    pub(crate) nested: bool,
    pub(crate) representations: Representations,
    pub(crate) discriminator: StructureMember,
    pub(crate) cases: Vec<Case>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) labels: Vec<i64>,
    pub(crate) default: bool,
    pub(crate) member: Option<StructureMember>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StructureMember {
    pub(crate) name: HashedName,
    pub(crate) id: u32,
    pub(crate) of: TypeNodeId,
    pub(crate) key: bool,
    pub(crate) must_understand: bool,
    pub(crate) optional: bool,
    pub(crate) external: bool,
    pub(crate) try_construct: TryConstruct,
    /// Value where a sample lacks the member, if it differs from the default of its type.
    pub(crate) default: Option<Value>,
    pub(crate) unit: Option<String>,
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
    /// Text whose hash is the id; empty if it is the name.
    pub(crate) hash_id: Option<String>,
}

impl NodeKind {
    /// Returns an own member by index. For a union, index 0 is the discriminator, followed by one
    /// index for each case.
    pub(crate) fn member_at(&mut self, place: usize) -> Option<&mut StructureMember> {
        match (self, place) {
            (NodeKind::Structure(of), _) => of.members.get_mut(place),
            (NodeKind::Union(of), 0) => Some(&mut of.discriminator),
            (NodeKind::Union(of), _) => of.cases.get_mut(place - 1)?.member.as_mut(),
            _ => None,
        }
    }

    /// Visits all indices of other nodes in this one.
    pub(crate) fn references(&mut self, mut visit: impl FnMut(&mut TypeNodeId)) {
        match self {
            NodeKind::Sequence { element, .. } | NodeKind::Array { element, .. } => {
                visit(&mut element.of);
            }
            NodeKind::Map { key, value, .. } => {
                visit(&mut key.of);
                visit(&mut value.of);
            }
            NodeKind::Bitset(fields) => fields.iter_mut().for_each(|field| visit(&mut field.of)),
            NodeKind::Alias(of) => visit(of),
            NodeKind::Structure(structure) => {
                structure.base.iter_mut().for_each(&mut visit);
                structure.members.iter_mut().for_each(|member| visit(&mut member.of));
            }
            NodeKind::Union(union) => {
                visit(&mut union.discriminator.of);
                let members = union.cases.iter_mut().filter_map(|case| case.member.as_mut());
                members.for_each(|member| visit(&mut member.of));
            }
            NodeKind::Primitive(_)
            | NodeKind::Text { .. }
            | NodeKind::Fixed { .. }
            | NodeKind::Enumeration { .. }
            | NodeKind::Bitmask { .. }
            | NodeKind::Later => {}
        }
    }
}

impl TypeGraph {
    pub(crate) fn node(&self, id: TypeNodeId) -> &TypeNode {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn add(&mut self, name: &str, kind: NodeKind) -> TypeNodeId {
        let id = TypeNodeId(u32::try_from(self.nodes.len()).expect("nodes take memory each"));
        self.nodes.push(TypeNode { name: name.to_owned(), place: 0, kind });
        id
    }

    /// Whether all names are known; those of a minimal object are not.
    pub(crate) fn has_names(&self) -> bool {
        self.nodes.iter().all(|node| match &node.kind {
            NodeKind::Structure(of) => of.members.iter().all(|member| member.name.is_known()),
            NodeKind::Union(of) => {
                of.cases.iter().filter_map(|case| case.member.as_ref()).all(|m| m.name.is_known())
            }
            NodeKind::Enumeration { literals, .. } => {
                literals.iter().all(|one| one.name.is_known())
            }
            NodeKind::Bitmask { flags, .. } => flags.iter().all(|flag| flag.name.is_known()),
            NodeKind::Bitset(fields) => fields.iter().all(|field| field.name.is_known()),
            _ => true,
        })
    }

    /// Whether a type is [`Any`](crate::Any), or an equivalent type of a peer. The name alone is no
    /// proof, because peers choose names freely.
    pub(crate) fn is_any(&self, id: TypeNodeId) -> bool {
        let node = self.node(self.resolved(id));
        let is_octets = |member: &StructureMember| {
            let NodeKind::Sequence { element, bound: NO_BOUND } = self.kind(member.of) else {
                return false;
            };
            !member.optional && *self.kind(element.of) == NodeKind::Primitive(Primitive::Byte)
        };
        match &node.kind {
            NodeKind::Structure(of) if node.name == <crate::Any as idl_cdr::DdsType>::TYPE_NAME => {
                let names = of.members.iter().map(|member| &*member.name.text);
                of.base.is_none()
                    && names.eq(["type_objects", "value"])
                    && of.members.iter().all(is_octets)
            }
            _ => false,
        }
    }

    /// Copies all nodes of another type, and returns its index here.
    pub(crate) fn take_in(&mut self, other: &TypeGraph, root: TypeNodeId) -> TypeNodeId {
        let first = self.nodes.len() as u32;
        for node in &other.nodes {
            let mut node = node.clone();
            node.kind.references(|id| id.0 += first);
            self.nodes.push(node);
        }
        TypeNodeId(root.0 + first)
    }

    /// Returns the type behind aliases.
    pub(crate) fn resolved(&self, id: TypeNodeId) -> TypeNodeId {
        let mut id = id;
        // Cyclic aliases have been refused when the type was made.
        while let NodeKind::Alias(of) = self.node(id).kind {
            id = of;
        }
        id
    }

    /// Returns the kind of a type behind its aliases.
    pub(crate) fn kind(&self, id: TypeNodeId) -> &NodeKind {
        &self.node(self.resolved(id)).kind
    }

    /// Returns all members of a struct, those of its base first.
    pub(crate) fn members<'a>(&'a self, structure: &'a Structure) -> Vec<&'a StructureMember> {
        let mut members = match structure.base.map(|base| self.kind(base)) {
            Some(NodeKind::Structure(base)) => self.members(base),
            _ => Vec::new(),
        };
        members.extend(&structure.members);
        members
    }

    /// Returns the types that a type refers to directly.
    pub(crate) fn parts(&self, id: TypeNodeId) -> Vec<TypeNodeId> {
        match &self.node(id).kind {
            NodeKind::Sequence { element, .. } | NodeKind::Array { element, .. } => {
                vec![element.of]
            }
            NodeKind::Map { key, value, .. } => vec![value.of, key.of],
            NodeKind::Alias(of) => vec![*of],
            NodeKind::Structure(structure) => {
                structure.base.into_iter().chain(structure.members.iter().map(|m| m.of)).collect()
            }
            NodeKind::Union(union) => std::iter::once(union.discriminator.of)
                .chain(union.cases.iter().filter_map(|case| Some(case.member.as_ref()?.of)))
                .collect(),
            _ => Vec::new(),
        }
    }
}
