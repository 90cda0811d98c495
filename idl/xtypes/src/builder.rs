//! Types that are made at run time, part by part.
//!
//! Owns the way from parts to a type. What is made is checked as a peer's type is.

use std::sync::Arc;

use idl_cdr::{Extensibility, Representations, TryConstruct};

use crate::model::{Case, Element, Graph, Kind, Literal, Member, Name, NodeId, Structure, Union};
use crate::{DynamicType, Primitive, TypeObjectError, soundness};

/// A type with one node on top of those of its parts.
fn on_top(parts: &[&DynamicType], name: &str, kind: impl FnOnce(&[NodeId]) -> Kind) -> DynamicType {
    let mut graph = Graph::default();
    let roots: Vec<NodeId> =
        parts.iter().map(|part| graph.take_in(&part.graph, part.root)).collect();
    let root = graph.add(name, kind(&roots));
    DynamicType { graph: Arc::new(graph), root }
}

fn element(of: NodeId) -> Element {
    Element { of, external: false, try_construct: TryConstruct::Discard }
}

impl DynamicType {
    /// A primitive type.
    pub fn primitive(of: Primitive) -> Self {
        on_top(&[], "", |_| Kind::Primitive(of))
    }

    /// A string, of at most so many bytes; 0 is no bound.
    pub fn string(bound: u32) -> Self {
        on_top(&[], "", |_| Kind::Text { wide: false, bound })
    }

    /// A string of 16-bit characters, of at most so many; 0 is no bound.
    pub fn wide_string(bound: u32) -> Self {
        on_top(&[], "", |_| Kind::Text { wide: true, bound })
    }

    /// A sequence of it, of at most so many elements; 0 is no bound.
    #[must_use]
    pub fn sequence(&self, bound: u32) -> Self {
        on_top(&[self], "", |of| Kind::Sequence { element: element(of[0]), bound })
    }

    /// An array of it.
    #[must_use]
    pub fn array(&self, count: u32) -> Self {
        on_top(&[self], "", |of| Kind::Array { element: element(of[0]), count })
    }

    /// A map from it to values of another type, of at most so many entries; 0 is no bound.
    #[must_use]
    pub fn map_to(&self, value: &DynamicType, bound: u32) -> Self {
        on_top(&[self, value], "", |of| Kind::Map {
            key: element(of[0]),
            value: element(of[1]),
            bound,
        })
    }

    /// An enum of 32 bits; the first of its names is its default.
    pub fn enumeration(name: &str, literals: &[(&str, i32)]) -> Result<Self, TypeObjectError> {
        let literals = literals.iter().enumerate().map(|(place, (name, value))| Literal {
            name: Name::new(name),
            value: *value,
            default: place == 0,
        });
        let literals = literals.collect();
        let ignore_literal_names = false;
        checked(on_top(&[], name, |_| Kind::Enumeration {
            bit_bound: 32,
            literals,
            ignore_literal_names,
        }))
    }

    /// A bitmask of so many bits, with the names and positions of those that are known.
    pub fn bitmask(
        name: &str,
        bit_bound: u32,
        flags: &[(&str, u32)],
    ) -> Result<Self, TypeObjectError> {
        let flags: Vec<_> = flags.iter().map(|(name, bit)| (Name::new(name), *bit)).collect();
        if flags.iter().any(|(_, bit)| *bit >= bit_bound) {
            let reason = "is a bitmask with a bit beyond its last one";
            return Err(TypeObjectError::Invalid { name: name.to_owned(), reason });
        }
        checked(on_top(&[], name, |_| Kind::Bitmask { bit_bound, flags }))
    }
}

fn checked(of: DynamicType) -> Result<DynamicType, TypeObjectError> {
    soundness::check(&of.graph)?;
    Ok(of)
}

/// What is said of a member beside its name and type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberOptions {
    /// Whether it belongs to the key.
    pub key: bool,
    /// Whether a sample may lack it.
    pub optional: bool,
    /// Whether it lies elsewhere in memory (`@external`), which changes no byte.
    pub external: bool,
    /// Whether who does not know it refuses the sample; members of the key always are.
    pub must_understand: bool,
    /// Its id; the one after the member before, if absent.
    pub id: Option<u32>,
    /// What a reader does with a value that its type does not allow.
    pub try_construct: TryConstruct,
}

/// Makes a struct, member by member.
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
    members: Vec<(Member, DynamicType)>,
}

impl StructBuilder {
    /// A struct without members so far.
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

    /// The struct, or what is wrong with it.
    pub fn build(self) -> Result<DynamicType, TypeObjectError> {
        let parts: Vec<&DynamicType> = self.members.iter().map(|(_, of)| of).collect();
        let members = self.members.iter().map(|(member, _)| member);
        checked(on_top(&parts, &self.name, |of| {
            Kind::Structure(Structure {
                extensibility: self.extensibility,
                nested: false,
                representations: Representations::ALL,
                base: None,
                members: members
                    .zip(of)
                    .map(|(member, &of)| Member { of, ..member.clone() })
                    .collect(),
            })
        }))
    }
}

fn member(name: &str, next: u32, options: MemberOptions) -> Member {
    Member {
        name: Name::new(name),
        id: options.id.unwrap_or(next),
        of: NodeId(0),
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

/// Makes a union, case by case.
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
    /// A union without cases so far, and the type of what selects them.
    pub fn new(name: &str, extensibility: Extensibility, discriminator: &DynamicType) -> Self {
        let discriminator = discriminator.clone();
        Self { name: name.to_owned(), extensibility, discriminator, cases: Vec::new() }
    }

    /// Adds the member of these labels.
    #[must_use]
    pub fn case(self, labels: &[i64], name: &str, of: &DynamicType) -> Self {
        self.add(labels, false, name, of)
    }

    /// Adds the member of all other labels.
    #[must_use]
    pub fn default(self, name: &str, of: &DynamicType) -> Self {
        self.add(&[], true, name, of)
    }

    fn add(mut self, labels: &[i64], default: bool, name: &str, of: &DynamicType) -> Self {
        // The discriminator is the member 0.
        let id = self.cases.len() as u32 + 1;
        let member = Some(member(name, id, MemberOptions::default()));
        self.cases.push((Case { labels: labels.to_vec(), default, member }, of.clone()));
        self
    }

    /// The union, or what is wrong with it.
    pub fn build(self) -> Result<DynamicType, TypeObjectError> {
        let mut parts = vec![&self.discriminator];
        parts.extend(self.cases.iter().map(|(_, of)| of));
        checked(on_top(&parts, &self.name, |of| {
            let options = MemberOptions { must_understand: true, ..MemberOptions::default() };
            let discriminator = Member { of: of[0], ..member("discriminator", 0, options) };
            let cases = self.cases.iter().zip(&of[1..]).map(|((case, _), &of)| Case {
                member: case.member.clone().map(|member| Member { of, ..member }),
                ..case.clone()
            });
            Kind::Union(Union {
                extensibility: self.extensibility,
                nested: false,
                representations: Representations::ALL,
                discriminator,
                cases: cases.collect(),
            })
        }))
    }
}
