//! Types built at run time from their parts.
//!
//! Owns the way from parts to a type. The result is checked like the type of a peer.

use std::sync::Arc;

use idl_cdr::{Extensibility, Representations, TryConstruct};

use crate::model::{
    Case, Element, Flag, HashedName, Literal, NodeKind, Structure, StructureMember, TypeGraph,
    TypeNodeId, Union,
};
use crate::{DynamicType, Primitive, TypeObjectError, soundness};

/// Makes a type with one new node above the nodes of its parts.
fn on_top(
    parts: &[&DynamicType],
    name: &str,
    kind: impl FnOnce(&[TypeNodeId]) -> NodeKind,
) -> DynamicType {
    let mut graph = TypeGraph::default();
    let roots: Vec<TypeNodeId> =
        parts.iter().map(|part| graph.take_in(&part.graph, part.root)).collect();
    let root = graph.add(name, kind(&roots));
    DynamicType { graph: Arc::new(graph), root }
}

fn element(of: TypeNodeId) -> Element {
    Element { of, external: false, try_construct: TryConstruct::Discard }
}

impl DynamicType {
    /// Makes a primitive type.
    pub fn primitive(of: Primitive) -> Self {
        on_top(&[], "", |_| NodeKind::Primitive(of))
    }

    /// Makes a string with a maximum number of bytes; 0 is unbounded.
    pub fn string(bound: u32) -> Self {
        on_top(&[], "", |_| NodeKind::Text { wide: false, bound })
    }

    /// Makes a string of 16-bit characters with a maximum number; 0 is unbounded.
    pub fn wide_string(bound: u32) -> Self {
        on_top(&[], "", |_| NodeKind::Text { wide: true, bound })
    }

    /// Makes a sequence of this type with a maximum number of elements; 0 is unbounded.
    #[must_use]
    pub fn sequence(&self, bound: u32) -> Self {
        on_top(&[self], "", |of| NodeKind::Sequence { element: element(of[0]), bound })
    }

    /// Makes an array of this type.
    #[must_use]
    pub fn array(&self, count: u32) -> Self {
        on_top(&[self], "", |of| NodeKind::Array { element: element(of[0]), count })
    }

    /// Makes a map from this type to values of another type, with a maximum number of entries; 0
    /// is unbounded.
    #[must_use]
    pub fn map_to(&self, value: &DynamicType, bound: u32) -> Self {
        on_top(&[self, value], "", |of| NodeKind::Map {
            key: element(of[0]),
            value: element(of[1]),
            bound,
        })
    }

    /// Makes an enum of 32 bits; the first name is the default.
    pub fn enumeration<'a>(
        name: &str,
        literals: impl IntoIterator<Item = (&'a str, i32)>,
    ) -> Result<Self, TypeObjectError> {
        let literals = literals.into_iter().enumerate().map(|(place, (name, value))| Literal {
            name: HashedName::new(name),
            value,
            default: place == 0,
        });
        let literals = literals.collect();
        let ignore_literal_names = false;
        checked(on_top(&[], name, |_| NodeKind::Enumeration {
            bit_bound: 32,
            literals,
            ignore_literal_names,
        }))
    }

    /// Makes a bitmask with a number of bits, and the names and positions of the known ones.
    pub fn bitmask<'a>(
        name: &str,
        bit_bound: u32,
        flags: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<Self, TypeObjectError> {
        let flag = |(name, position)| Flag { name: HashedName::new(name), position };
        let flags: Vec<Flag> = flags.into_iter().map(flag).collect();
        if flags.iter().any(|flag| flag.position >= bit_bound) {
            let reason = "is a bitmask with a bit beyond its last one";
            return Err(TypeObjectError::Invalid { name: name.to_owned(), reason });
        }
        checked(on_top(&[], name, |_| NodeKind::Bitmask { bit_bound, flags }))
    }
}

fn checked(of: DynamicType) -> Result<DynamicType, TypeObjectError> {
    soundness::check(&of.graph)?;
    Ok(of)
}

/// Options of a member beside its name and type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberOptions {
    /// Whether the member belongs to the key.
    pub key: bool,
    /// Whether a sample may lack the member.
    pub optional: bool,
    /// Whether the member lies elsewhere in memory (`@external`). Has no effect on the bytes.
    pub external: bool,
    /// Whether a reader that does not know the member refuses the sample; always true for members
    /// of the key.
    pub must_understand: bool,
    /// Id of the member. Default: one more than the id of the previous member.
    pub id: Option<u32>,
    /// Action of a reader on a value that its type does not allow.
    pub try_construct: TryConstruct,
}

/// Builder of a struct, member by member.
///
/// ```
/// use idl_xtypes::{DynamicData, DynamicType, MemberOptions, Primitive, StructBuilder};
///
/// let number = DynamicType::primitive(Primitive::Int32);
/// let track = StructBuilder::new("Track", idl_cdr::Extensibility::Appendable)
///     .member("aircraft", &number, MemberOptions { key: true, ..MemberOptions::default() })
///     .member("corners", &number.array(2).sequence(8), MemberOptions::default())
///     .build()?;
/// let sample = DynamicData::parse(&track, "{aircraft: 7, corners: [[1, 2]]}").unwrap();
/// assert!(sample.get("corners[0][1]").is_ok());
/// # Ok::<(), idl_xtypes::TypeObjectError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StructBuilder {
    name: String,
    extensibility: Extensibility,
    members: Vec<(StructureMember, DynamicType)>,
}

impl StructBuilder {
    /// Starts a struct without members.
    pub fn new(name: &str, extensibility: Extensibility) -> Self {
        Self { name: name.to_owned(), extensibility, members: Vec::new() }
    }

    /// Adds a member.
    #[must_use]
    pub fn member(mut self, name: &str, of: &DynamicType, options: MemberOptions) -> Self {
        let next = self.members.last().map_or(0, |(last, _)| last.id.saturating_add(1));
        self.members.push((member(name, next, options), of.clone()));
        self
    }

    /// Returns the struct, or the reason why it is invalid.
    pub fn build(self) -> Result<DynamicType, TypeObjectError> {
        let parts: Vec<&DynamicType> = self.members.iter().map(|(_, of)| of).collect();
        let members = self.members.iter().map(|(member, _)| member);
        checked(on_top(&parts, &self.name, |of| {
            NodeKind::Structure(Structure {
                extensibility: self.extensibility,
                nested: false,
                representations: Representations::ALL,
                base: None,
                members: members
                    .zip(of)
                    .map(|(member, &of)| StructureMember { of, ..member.clone() })
                    .collect(),
            })
        }))
    }
}

fn member(name: &str, next: u32, options: MemberOptions) -> StructureMember {
    StructureMember {
        name: HashedName::new(name),
        id: options.id.unwrap_or(next),
        of: TypeNodeId(0),
        key: options.key,
        must_understand: options.must_understand || options.key,
        optional: options.optional,
        external: options.external,
        try_construct: options.try_construct,
        default: None,
        unit: None,
        min: None,
        max: None,
        hash_id: None,
    }
}

/// Builder of a union, case by case.
///
/// ```
/// use idl_xtypes::{DynamicType, Primitive, UnionBuilder};
///
/// let number = DynamicType::primitive(Primitive::Int32);
/// let choice = UnionBuilder::new("Choice", idl_cdr::Extensibility::Final, &number)
///     .case(&[1, 2], "number", &number)
///     .default("text", &DynamicType::string(0))
///     .build()?;
/// assert_eq!(choice.name(), "Choice");
/// # Ok::<(), idl_xtypes::TypeObjectError>(())
/// ```
#[derive(Clone, Debug)]
pub struct UnionBuilder {
    name: String,
    extensibility: Extensibility,
    discriminator: DynamicType,
    cases: Vec<(Case, DynamicType)>,
}

impl UnionBuilder {
    /// Starts a union without cases, with the type of its discriminator.
    pub fn new(name: &str, extensibility: Extensibility, discriminator: &DynamicType) -> Self {
        let discriminator = discriminator.clone();
        Self { name: name.to_owned(), extensibility, discriminator, cases: Vec::new() }
    }

    /// Adds the member for these labels.
    #[must_use]
    pub fn case(self, labels: &[i64], name: &str, of: &DynamicType) -> Self {
        self.add(labels, false, name, of)
    }

    /// Adds the member for all other labels.
    #[must_use]
    pub fn default(self, name: &str, of: &DynamicType) -> Self {
        self.add(&[], true, name, of)
    }

    fn add(mut self, labels: &[i64], default: bool, name: &str, of: &DynamicType) -> Self {
        // The discriminator is member 0.
        let id = self.cases.len() as u32 + 1;
        let member = Some(member(name, id, MemberOptions::default()));
        self.cases.push((Case { labels: labels.to_vec(), default, member }, of.clone()));
        self
    }

    /// Returns the union, or the reason why it is invalid.
    pub fn build(self) -> Result<DynamicType, TypeObjectError> {
        let mut parts = vec![&self.discriminator];
        parts.extend(self.cases.iter().map(|(_, of)| of));
        checked(on_top(&parts, &self.name, |of| {
            let options = MemberOptions { must_understand: true, ..MemberOptions::default() };
            let discriminator =
                StructureMember { of: of[0], ..member("discriminator", 0, options) };
            let cases = self.cases.iter().zip(&of[1..]).map(|((case, _), &of)| Case {
                member: case.member.clone().map(|member| StructureMember { of, ..member }),
                ..case.clone()
            });
            NodeKind::Union(Union {
                extensibility: self.extensibility,
                nested: false,
                representations: Representations::ALL,
                discriminator,
                cases: cases.collect(),
            })
        }))
    }
}
