//! What a type says of itself, for people and for tools.
//!
//! Owns the words for types, in IDL's way, and the list of what a type is made of. Decides nothing.

use std::fmt::{self, Write};

use idl_cdr::{Extensibility, TryConstruct};

use crate::DynamicType;
use crate::model::{Graph, Kind, Member, NO_BOUND, Node, NodeId};
use crate::words::word_of;

/// What a type with a name says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDescription {
    /// Its name in IDL.
    pub name: String,
    /// What it is made of.
    pub shape: TypeShape,
}

/// What a type with a name is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeShape {
    /// A struct.
    Structure {
        /// How it may change.
        extensibility: Extensibility,
        /// Whether it is no type of a topic.
        nested: bool,
        /// The name of the type that it inherits from.
        base: Option<String>,
        /// Its own members.
        members: Vec<MemberDescription>,
    },
    /// A union.
    Union {
        /// How it may change.
        extensibility: Extensibility,
        /// Whether it is no type of a topic.
        nested: bool,
        /// What selects the case.
        discriminator: MemberDescription,
        /// The cases in the order of their declaration.
        cases: Vec<CaseDescription>,
    },
    /// An enum: names and values.
    Enumeration {
        /// How many bits a value has.
        bit_bound: u32,
        /// The enumerators in the order of their declaration.
        literals: Vec<(String, i32)>,
        /// The name of the one that a value has if nothing is said.
        default: Option<String>,
    },
    /// A bitmask: names and positions.
    Bitmask {
        /// How many bits a value has.
        bit_bound: u32,
        /// The names of the bits.
        flags: Vec<(String, u32)>,
    },
    /// A bitset.
    Bitset(Vec<BitFieldDescription>),
    /// A typedef, and what it stands for.
    Alias(String),
}

/// What is said of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: u32,
    /// Its type in IDL's words, with bounds.
    pub type_name: String,
    /// Whether it belongs to the key.
    pub key: bool,
    /// Whether who does not know it refuses the sample.
    pub must_understand: bool,
    /// Whether a sample may lack it.
    pub optional: bool,
    /// Whether it is in memory of its own.
    pub external: bool,
    /// What a reader does with a value that its type does not allow.
    pub try_construct: TryConstruct,
}

/// A case of a union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseDescription {
    /// The values that select it.
    pub labels: Vec<i64>,
    /// Whether all other values select it.
    pub default: bool,
    /// What it holds, if anything.
    pub member: Option<MemberDescription>,
}

/// Bits of a bitset that have a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitFieldDescription {
    /// Its name.
    pub name: String,
    /// Its lowest bit.
    pub position: u32,
    /// How many bits it has.
    pub bits: u32,
    /// The type of its values.
    pub type_name: String,
}

impl DynamicType {
    /// What it says of itself, if it has a name.
    ///
    /// ```
    /// use idl_xtypes::{DynamicType, TypeShape};
    ///
    /// let idl = idl::parse("fix.idl", "struct Fix { @key long id; sequence<double, 3> at; };")?;
    /// let fix = DynamicType::from_idl(&idl, "Fix")?;
    /// let TypeShape::Structure { members, .. } = fix.description().unwrap().shape else { panic!() };
    /// assert!(members[0].key);
    /// assert_eq!(members[1].type_name, "sequence<double, 3>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn description(&self) -> Option<TypeDescription> {
        let graph = &*self.graph;
        let node = graph.node(self.root);
        let shape = match &node.kind {
            Kind::Structure(of) => TypeShape::Structure {
                extensibility: of.extensibility,
                nested: of.nested,
                base: of.base.map(|base| words(graph, base)),
                members: of.members.iter().map(|member| describe(graph, member)).collect(),
            },
            Kind::Union(of) => TypeShape::Union {
                extensibility: of.extensibility,
                nested: of.nested,
                discriminator: describe(graph, &of.discriminator),
                cases: of
                    .cases
                    .iter()
                    .map(|case| CaseDescription {
                        labels: case.labels.clone(),
                        default: case.default,
                        member: case.member.as_ref().map(|member| describe(graph, member)),
                    })
                    .collect(),
            },
            Kind::Enumeration { bit_bound, literals, .. } => TypeShape::Enumeration {
                bit_bound: *bit_bound,
                literals: literals
                    .iter()
                    .map(|one| (one.name.text.to_string(), one.value))
                    .collect(),
                default: literals
                    .iter()
                    .find(|one| one.default)
                    .map(|one| one.name.text.to_string()),
            },
            Kind::Bitmask { bit_bound, flags } => TypeShape::Bitmask {
                bit_bound: *bit_bound,
                flags: flags.iter().map(|(name, bit)| (name.text.to_string(), *bit)).collect(),
            },
            Kind::Bitset(fields) => TypeShape::Bitset(
                fields
                    .iter()
                    .map(|field| BitFieldDescription {
                        name: field.name.text.to_string(),
                        position: field.position,
                        bits: field.bits,
                        type_name: field.holder.name().to_owned(),
                    })
                    .collect(),
            ),
            Kind::Alias(of) => TypeShape::Alias(words(graph, *of)),
            _ => return None,
        };
        Some(TypeDescription { name: node.name.clone(), shape })
    }

    /// All types with a name that it is made of, each once: itself first, if it has one, then the others where
    /// they are first named.
    pub fn named_types(&self) -> Vec<DynamicType> {
        let mut found: Vec<DynamicType> = Vec::new();
        for root in self.all_parts() {
            let one = DynamicType { root, ..self.clone() };
            // A type that was put together of others may have one of them twice.
            if !one.name().is_empty() && found.iter().all(|other| other.name() != one.name()) {
                found.push(one);
            }
        }
        found
    }

    /// It, and all that it is made of, each once, where it is first met.
    pub(crate) fn all_parts(&self) -> Vec<NodeId> {
        let mut seen = vec![false; self.graph.nodes.len()];
        let (mut order, mut open) = (Vec::new(), vec![self.root]);
        while let Some(of) = open.pop() {
            if std::mem::replace(&mut seen[of.0 as usize], true) {
                continue;
            }
            order.push(of);
            let mut parts = self.graph.parts(of);
            // The first part is to be taken next. A map has its values first, and people read the keys first.
            if !matches!(self.graph.node(of).kind, Kind::Map { .. }) {
                parts.reverse();
            }
            open.extend(parts);
        }
        order
    }
}

/// The type as IDL has it in a member: its name, or what it is.
impl fmt::Display for DynamicType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_words(&self.graph, self.root, f)
    }
}

fn describe(graph: &Graph, member: &Member) -> MemberDescription {
    MemberDescription {
        name: member.name.text.to_string(),
        id: member.id,
        type_name: words(graph, member.of),
        key: member.key,
        must_understand: member.must_understand,
        optional: member.optional,
        external: member.external,
        try_construct: member.try_construct,
    }
}

fn words(graph: &Graph, of: NodeId) -> String {
    let mut text = String::new();
    // A string takes whatever is written to it.
    let _ = write_words(graph, of, &mut text);
    text
}

/// What has no name cannot contain itself, so this ends.
fn write_words(graph: &Graph, of: NodeId, out: &mut dyn Write) -> fmt::Result {
    let node = graph.node(of);
    if !node.name.is_empty() {
        return out.write_str(&node.name);
    }
    match &node.kind {
        Kind::Primitive(primitive) => out.write_str(primitive.name()),
        Kind::Text { wide, bound } => {
            out.write_str(if *wide { "wstring" } else { "string" })?;
            match *bound {
                NO_BOUND => Ok(()),
                bound => write!(out, "<{bound}>"),
            }
        }
        Kind::Fixed { digits, scale } => write!(out, "fixed<{digits}, {scale}>"),
        Kind::Sequence { element, bound } => {
            out.write_str("sequence<")?;
            write_words(graph, element.of, out)?;
            close(*bound, out)
        }
        Kind::Map { key, value, bound } => {
            out.write_str("map<")?;
            write_words(graph, key.of, out)?;
            out.write_str(", ")?;
            write_words(graph, value.of, out)?;
            close(*bound, out)
        }
        Kind::Array { .. } => {
            let (mut inner, mut sizes) = (of, String::new());
            while let Node { name, kind: Kind::Array { element, count }, .. } = graph.node(inner)
                && name.is_empty()
            {
                write!(sizes, "[{count}]")?;
                inner = element.of;
            }
            write_words(graph, inner, out)?;
            out.write_str(&sizes)
        }
        kind => out.write_str(word_of(kind)),
    }
}

fn close(bound: u32, out: &mut dyn Write) -> fmt::Result {
    match bound {
        NO_BOUND => out.write_char('>'),
        bound => write!(out, ", {bound}>"),
    }
}
