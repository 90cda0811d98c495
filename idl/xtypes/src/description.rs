//! Descriptions of types, for human readers and for tools.
//!
//! Owns the names of types in IDL syntax, and the list of types within a type. Decides nothing.

use std::fmt::{self, Write};

use idl_cdr::{Extensibility, TryConstruct};

use crate::DynamicType;
use crate::model::{NO_BOUND, NodeKind, StructureMember, TypeGraph, TypeNode, TypeNodeId};
use crate::words::kind_name;

/// Description of a named type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDescription {
    /// IDL name.
    pub name: String,
    /// Contents of the type.
    pub shape: TypeShape,
}

/// Contents of a named type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeShape {
    /// A struct.
    Structure {
        /// Changes that the type allows.
        extensibility: Extensibility,
        /// Whether the type is not for topics.
        nested: bool,
        /// Name of the base type.
        base: Option<String>,
        /// Own members.
        members: Vec<MemberDescription>,
    },
    /// A union.
    Union {
        /// Changes that the type allows.
        extensibility: Extensibility,
        /// Whether the type is not for topics.
        nested: bool,
        /// Discriminator, which selects the case.
        discriminator: MemberDescription,
        /// Cases, in the order of declaration.
        cases: Vec<CaseDescription>,
    },
    /// An enum: names and values.
    Enumeration {
        /// Number of bits of a value.
        bit_bound: u32,
        /// Enumerators, in the order of declaration.
        literals: Vec<(String, i32)>,
        /// Name of the default enumerator.
        default: Option<String>,
    },
    /// A bitmask: names and positions.
    Bitmask {
        /// Number of bits of a value.
        bit_bound: u32,
        /// Names of the bits.
        flags: Vec<(String, u32)>,
    },
    /// A bitset.
    Bitset(Vec<BitFieldDescription>),
    /// A typedef, and its type.
    Alias(String),
}

/// Description of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Name of the member.
    pub name: String,
    /// Id of the member.
    pub id: u32,
    /// Type in IDL syntax, with bounds.
    pub type_name: String,
    /// Whether the member belongs to the key.
    pub key: bool,
    /// Whether a reader that does not know the member refuses the sample.
    pub must_understand: bool,
    /// Whether a sample may lack the member.
    pub optional: bool,
    /// Whether the member lies in memory of its own.
    pub external: bool,
    /// Action of a reader on a value that its type does not allow.
    pub try_construct: TryConstruct,
}

/// A case of a union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseDescription {
    /// Discriminator values that select the case.
    pub labels: Vec<i64>,
    /// Whether all other values select it.
    pub default: bool,
    /// Member of the case, if there is one.
    pub member: Option<MemberDescription>,
}

/// A named field of a bitset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitFieldDescription {
    /// Name of the field.
    pub name: String,
    /// Position of the lowest bit.
    pub position: u32,
    /// Number of bits.
    pub bits: u32,
    /// Type of the field's values.
    pub type_name: String,
}

impl DynamicType {
    /// Returns the description of the type, if it has a name.
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
            NodeKind::Structure(of) => TypeShape::Structure {
                extensibility: of.extensibility,
                nested: of.nested,
                base: of.base.map(|base| words(graph, base)),
                members: of.members.iter().map(|member| describe(graph, member)).collect(),
            },
            NodeKind::Union(of) => TypeShape::Union {
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
            NodeKind::Enumeration { bit_bound, literals, .. } => TypeShape::Enumeration {
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
            NodeKind::Bitmask { bit_bound, flags } => TypeShape::Bitmask {
                bit_bound: *bit_bound,
                flags: flags
                    .iter()
                    .map(|flag| (flag.name.text.to_string(), flag.position))
                    .collect(),
            },
            NodeKind::Bitset(fields) => TypeShape::Bitset(
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
            NodeKind::Alias(of) => TypeShape::Alias(words(graph, *of)),
            _ => return None,
        };
        Some(TypeDescription { name: node.name.clone(), shape })
    }

    /// Returns all named types within this type, each once: the type itself first, if it has a
    /// name, then the others in the order of first use.
    pub fn named_types(&self) -> Vec<DynamicType> {
        let mut found: Vec<DynamicType> = Vec::new();
        for root in self.all_parts() {
            let one = DynamicType { root, ..self.clone() };
            // A type built from others may contain one of them twice.
            if !one.name().is_empty() && found.iter().all(|other| other.name() != one.name()) {
                found.push(one);
            }
        }
        found
    }

    /// Returns the type and all types within it, each once, in the order of first use.
    pub(crate) fn all_parts(&self) -> Vec<TypeNodeId> {
        let mut seen = vec![false; self.graph.nodes.len()];
        let (mut order, mut open) = (Vec::new(), vec![self.root]);
        while let Some(of) = open.pop() {
            if std::mem::replace(&mut seen[of.0 as usize], true) {
                continue;
            }
            order.push(of);
            let mut parts = self.graph.parts(of);
            // The first part must be popped next. A map has its values first, but human readers
            // expect the keys first.
            if !matches!(self.graph.node(of).kind, NodeKind::Map { .. }) {
                parts.reverse();
            }
            open.extend(parts);
        }
        order
    }
}

/// Formats the type as a member in IDL: its name, or its contents.
impl fmt::Display for DynamicType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_words(&self.graph, self.root, f)
    }
}

fn describe(graph: &TypeGraph, member: &StructureMember) -> MemberDescription {
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

fn words(graph: &TypeGraph, of: TypeNodeId) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_words(graph, of, &mut text);
    text
}

/// Writes the contents of a type. An unnamed type cannot contain itself, so the recursion ends.
fn write_words(graph: &TypeGraph, of: TypeNodeId, out: &mut dyn Write) -> fmt::Result {
    let node = graph.node(of);
    if !node.name.is_empty() {
        return out.write_str(&node.name);
    }
    match &node.kind {
        NodeKind::Primitive(primitive) => out.write_str(primitive.name()),
        NodeKind::Text { wide, bound } => {
            out.write_str(if *wide { "wstring" } else { "string" })?;
            match *bound {
                NO_BOUND => Ok(()),
                bound => write!(out, "<{bound}>"),
            }
        }
        NodeKind::Fixed { digits, scale } => write!(out, "fixed<{digits}, {scale}>"),
        NodeKind::Sequence { element, bound } => {
            out.write_str("sequence<")?;
            write_words(graph, element.of, out)?;
            close(*bound, out)
        }
        NodeKind::Map { key, value, bound } => {
            out.write_str("map<")?;
            write_words(graph, key.of, out)?;
            out.write_str(", ")?;
            write_words(graph, value.of, out)?;
            close(*bound, out)
        }
        NodeKind::Array { .. } => {
            let (mut inner, mut sizes) = (of, String::new());
            while let TypeNode { name, kind: NodeKind::Array { element, count }, .. } =
                graph.node(inner)
                && name.is_empty()
            {
                write!(sizes, "[{count}]")?;
                inner = element.of;
            }
            write_words(graph, inner, out)?;
            out.write_str(&sizes)
        }
        kind => out.write_str(kind_name(kind)),
    }
}

fn close(bound: u32, out: &mut dyn Write) -> fmt::Result {
    match bound {
        NO_BOUND => out.write_char('>'),
        bound => write!(out, ", {bound}>"),
    }
}
