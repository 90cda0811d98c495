//! Run-time types from the type objects of peers.
//!
//! Owns the checks before a type is accepted: hashes match the objects, all parts are present, and
//! values of the type can exist and are small while empty. Never recurses to a depth that an
//! object determines.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use idl_cdr::{Extensibility, Representations, TryConstruct};

use crate::DynamicType;
use crate::flags::{kind_of_primitive, primitive_identifier};
use crate::hash;
use crate::model::{
    BitField, Case, Element, Flag, HashedName, Literal, NodeKind, Primitive, Structure,
    StructureMember, TypeGraph, TypeNodeId, Union,
};
use crate::objects::{TypeObjects, object_bytes};
use crate::soundness;
use crate::standard::*;

/// Maximum number of objects of one type.
const MOST_OBJECTS: usize = 4096;
/// Maximum number of parts of one type.
const MOST_NODES: usize = 1 << 16;

/// Reason why type objects are not a type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeObjectError {
    /// There are too many objects, or they have too many parts.
    TooLarge,
    /// A needed object is missing.
    Missing {
        /// Description of its identifier.
        identifier: String,
    },
    /// The hash of an object differs from its identifier.
    WrongHash {
        /// Name of the type, if it has one.
        name: String,
    },
    /// The standard reserves this kind of type for a later version.
    Unknown {
        /// Name of the kind.
        kind: &'static str,
    },
    /// The contents of an object are not a type.
    Invalid {
        /// Name of the type, if it has one.
        name: String,
        /// Description of the error.
        reason: &'static str,
    },
}

impl fmt::Display for TypeObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("the type has too many parts"),
            Self::Missing { identifier } => write!(f, "the type object {identifier} is missing"),
            Self::WrongHash { name } => {
                write!(f, "the type object of `{name}` does not match the hash in its identifier")
            }
            Self::Unknown { kind } => write!(f, "{kind} cannot be the type of a value"),
            Self::Invalid { name, reason } => write!(f, "`{name}` {reason}"),
        }
    }
}

impl Error for TypeObjectError {}

struct Resolver<'a> {
    objects: &'a [TypeIdentifierTypeObjectPair],
    /// Index of each object by its identifier's bytes; a peer may refer to an object any number
    /// of times.
    indices: BTreeMap<Vec<u8>, usize>,
    graph: TypeGraph,
    /// Node of each object.
    made: Vec<Option<TypeNodeId>>,
    /// Objects with a node that has no contents yet.
    open: Vec<(TypeNodeId, usize)>,
}

impl DynamicType {
    /// Makes the type of these objects.
    pub fn from_objects(objects: &TypeObjects) -> Result<Self, TypeObjectError> {
        if objects.objects.len() > MOST_OBJECTS {
            return Err(TypeObjectError::TooLarge);
        }
        require_hashes(&objects.objects)?;
        let made = vec![None; objects.objects.len()];
        let graph = TypeGraph::default();
        let identifiers = objects.objects.iter().map(|pair| object_bytes(&pair.type_identifier));
        let places = identifiers.enumerate().map(|(index, bytes)| (bytes, index)).collect();
        let given = &objects.objects;
        let mut resolver =
            Resolver { objects: given, indices: places, graph, made, open: Vec::new() };
        let root = resolver.add(&objects.identifier)?;
        while let Some((id, place)) = resolver.open.pop() {
            resolver.fill(id, place)?;
        }
        complete_unions(&mut resolver.graph);
        soundness::check(&resolver.graph)?;
        Ok(Self { graph: Arc::new(resolver.graph), root })
    }
}

/// Restores what type objects do not state of unions: labels of `uint32` beyond those of `int32`,
/// which is the type of all labels, and the case without a member.
fn complete_unions(graph: &mut TypeGraph) {
    for index in 0..graph.nodes.len() {
        let NodeKind::Union(of) = &graph.nodes[index].kind else { continue };
        let mut discriminator = of.discriminator.of;
        // Typedefs may form a cycle here, which is refused later.
        for _ in 0..graph.nodes.len() {
            let NodeKind::Alias(of) = graph.node(discriminator).kind else { break };
            discriminator = of;
        }
        let kind = &graph.node(discriminator).kind;
        let is_unsigned = *kind == NodeKind::Primitive(Primitive::Uint32);
        let values = match kind {
            NodeKind::Primitive(Primitive::Boolean) => 2,
            NodeKind::Primitive(primitive) => 1_usize << (8 * primitive.size()).min(62),
            NodeKind::Enumeration { literals, .. } => literals.len(),
            _ => usize::MAX,
        };
        if let NodeKind::Union(of) = &mut graph.nodes[index].kind {
            let mut labels: usize = 0;
            for label in of.cases.iter_mut().flat_map(|case| &mut case.labels) {
                labels += 1;
                if is_unsigned {
                    *label = i64::from(*label as u32);
                }
            }
            // Without cases the union is refused later.
            let has_default = of.cases.is_empty() || of.cases.iter().any(|case| case.default);
            if !has_default && labels < values {
                of.cases.push(Case { labels: Vec::new(), default: true, member: None });
            }
        }
    }
}

/// Checks that each object has the hash of its identifier; objects that share one hash are
/// hashed together.
fn require_hashes(objects: &[TypeIdentifierTypeObjectPair]) -> Result<(), TypeObjectError> {
    for pair in objects {
        let wrong = || TypeObjectError::WrongHash { name: name_of(&pair.type_object).to_owned() };
        match &pair.type_identifier {
            TypeIdentifier::Minimal(hash) | TypeIdentifier::Complete(hash) => {
                if hash::of_object(&object_bytes(&pair.type_object)) != *hash {
                    return Err(wrong());
                }
            }
            // The hash was computed from objects with an empty hash in their identifiers; verifying
            // it would mean making them again. Their contents are checked like all others.
            TypeIdentifier::Component(_) => {}
            _ => return Err(wrong()),
        }
    }
    Ok(())
}

fn name_of(object: &TypeObject) -> &str {
    let TypeObject::Complete(object) = object else { return "" };
    match object {
        CompleteTypeObject::Alias(of) => &of.header.detail.type_name,
        CompleteTypeObject::Annotation(of) => &of.header.annotation_name,
        CompleteTypeObject::Structure(of) => &of.header.detail.type_name,
        CompleteTypeObject::Union(of) => &of.header.detail.type_name,
        CompleteTypeObject::Bitset(of) => &of.header.detail.type_name,
        CompleteTypeObject::Array(of) => &of.header.detail.type_name,
        CompleteTypeObject::Enumeration(of) => &of.header.detail.type_name,
        CompleteTypeObject::Bitmask(of) => &of.header.detail.type_name,
        CompleteTypeObject::Sequence(_)
        | CompleteTypeObject::Map(_)
        | CompleteTypeObject::Extended(_) => "",
    }
}

/// Contents of an object. The two forms differ only in their names, which [`NamedElement`] handles.
macro_rules! kind_of {
    ($me:ident, $object:ident, $form:ident) => {
        match $object {
            $form::Alias(of) => NodeKind::Alias($me.add(&of.body.common.related_type)?),
            $form::Structure(of) => NodeKind::Structure(Structure {
                extensibility: extensibility(of.struct_flags),
                nested: of.struct_flags & IS_NESTED != 0,
                // Type objects do not contain this information.
                representations: Representations::ALL,
                base: $me.base(&of.header.base_type)?,
                members: of
                    .member_seq
                    .iter()
                    .map(|member| {
                        let made = $me.member(&member.common, member.detail.name())?;
                        Ok(member.detail.annotated(made))
                    })
                    .collect::<Result<_, _>>()?,
            }),
            $form::Union(of) => NodeKind::Union(Union {
                extensibility: extensibility(of.union_flags),
                nested: of.union_flags & IS_NESTED != 0,
                // Type objects do not contain this information.
                representations: Representations::ALL,
                discriminator: $me.discriminator(&of.discriminator.common)?,
                cases: of
                    .member_seq
                    .iter()
                    .map(|member| {
                        let mut case = $me.case(&member.common, member.detail.name())?;
                        case.member = case.member.map(|made| member.detail.annotated(made));
                        Ok(case)
                    })
                    .collect::<Result<_, _>>()?,
            }),
            $form::Bitset(of) => NodeKind::Bitset(
                of.field_seq
                    .iter()
                    .map(|field| $me.bit_field(&field.common, field.name()))
                    .collect::<Result<_, _>>()?,
            ),
            $form::Sequence(of) => NodeKind::Sequence {
                element: $me.common_element(&of.element.common)?,
                bound: of.header.common.bound,
            },
            $form::Array(of) => {
                let element = $me.common_element(&of.element.common)?;
                $me.array(element, &of.header.common.bound_seq)?
            }
            $form::Map(of) => NodeKind::Map {
                key: $me.common_element(&of.key.common)?,
                value: $me.common_element(&of.element.common)?,
                bound: of.header.common.bound,
            },
            $form::Enumeration(of) => NodeKind::Enumeration {
                bit_bound: of.header.common.bit_bound.into(),
                literals: with_default(
                    of.literal_seq
                        .iter()
                        .map(|literal| Literal {
                            name: literal.detail.name(),
                            value: literal.common.value,
                            default: literal.common.flags & IS_DEFAULT != 0,
                        })
                        .collect(),
                ),
                ignore_literal_names: false,
            },
            $form::Bitmask(of) => NodeKind::Bitmask {
                bit_bound: of.header.common.bit_bound.into(),
                flags: of
                    .flag_seq
                    .iter()
                    .map(|flag| Flag {
                        name: flag.detail.name(),
                        position: flag.common.position.into(),
                    })
                    .collect(),
            },
            $form::Annotation(_) => {
                return Err(TypeObjectError::Unknown { kind: "an annotation" });
            }
            $form::Extended(_) => {
                return Err(TypeObjectError::Unknown { kind: "an extended type" });
            }
        }
    };
}

impl Resolver<'_> {
    fn put(&mut self, name: &str, kind: NodeKind) -> Result<TypeNodeId, TypeObjectError> {
        if self.graph.nodes.len() >= MOST_NODES {
            return Err(TypeObjectError::TooLarge);
        }
        Ok(self.graph.add(name, kind))
    }

    /// Returns the node of an identifier. The CDR reader limits the nesting depth of identifiers.
    fn add(&mut self, of: &TypeIdentifier) -> Result<TypeNodeId, TypeObjectError> {
        let primitive = Primitive::ALL.into_iter().find(|primitive| is_primitive(of, *primitive));
        if let Some(primitive) = primitive {
            return self.put("", NodeKind::Primitive(primitive));
        }
        let kind = match of {
            TypeIdentifier::StringSmall(of) => {
                NodeKind::Text { wide: false, bound: of.bound.into() }
            }
            TypeIdentifier::StringLarge(of) => NodeKind::Text { wide: false, bound: of.bound },
            TypeIdentifier::WideStringSmall(of) => {
                NodeKind::Text { wide: true, bound: of.bound.into() }
            }
            TypeIdentifier::WideStringLarge(of) => NodeKind::Text { wide: true, bound: of.bound },
            TypeIdentifier::SequenceSmall(of) => NodeKind::Sequence {
                element: self.element(&of.element_identifier, of.header.element_flags)?,
                bound: of.bound.into(),
            },
            TypeIdentifier::SequenceLarge(of) => NodeKind::Sequence {
                element: self.element(&of.element_identifier, of.header.element_flags)?,
                bound: of.bound,
            },
            TypeIdentifier::ArraySmall(of) => {
                let element = self.element(&of.element_identifier, of.header.element_flags)?;
                let dimensions: Vec<u32> =
                    of.array_bound_seq.iter().copied().map(u32::from).collect();
                self.array(element, &dimensions)?
            }
            TypeIdentifier::ArrayLarge(of) => {
                let element = self.element(&of.element_identifier, of.header.element_flags)?;
                self.array(element, &of.array_bound_seq)?
            }
            TypeIdentifier::MapSmall(of) => NodeKind::Map {
                key: self.element(&of.key_identifier, of.key_flags)?,
                value: self.element(&of.element_identifier, of.header.element_flags)?,
                bound: of.bound.into(),
            },
            TypeIdentifier::MapLarge(of) => NodeKind::Map {
                key: self.element(&of.key_identifier, of.key_flags)?,
                value: self.element(&of.element_identifier, of.header.element_flags)?,
                bound: of.bound,
            },
            TypeIdentifier::None => return Err(TypeObjectError::Unknown { kind: "nothing" }),
            TypeIdentifier::Extended(_) => {
                return Err(TypeObjectError::Unknown { kind: "an extended type" });
            }
            _ => return self.object(of),
        };
        self.put("", kind)
    }

    fn element(&mut self, of: &TypeIdentifier, flags: u16) -> Result<Element, TypeObjectError> {
        Ok(Element {
            of: self.add(of)?,
            external: flags & IS_EXTERNAL != 0,
            try_construct: try_construct(flags),
        })
    }

    fn array(&mut self, of: Element, dimensions: &[u32]) -> Result<NodeKind, TypeObjectError> {
        let Some((&first, rest)) = dimensions.split_first() else {
            return Err(TypeObjectError::Unknown { kind: "an array without dimensions" });
        };
        let mut element = of;
        for &count in rest.iter().rev() {
            let of = self.put("", NodeKind::Array { element, count })?;
            element = Element { of, external: false, try_construct: TryConstruct::Discard };
        }
        Ok(NodeKind::Array { element, count: first })
    }

    fn object(&mut self, of: &TypeIdentifier) -> Result<TypeNodeId, TypeObjectError> {
        let Some(&index) = self.indices.get(&object_bytes(of)) else {
            return Err(TypeObjectError::Missing { identifier: words(of) });
        };
        if let Some(made) = self.made[index] {
            return Ok(made);
        }
        let id = self.put(name_of(&self.objects[index].type_object), NodeKind::Later)?;
        if let (TypeIdentifier::Component(of), TypeObject::Minimal(_)) =
            (of, &self.objects[index].type_object)
        {
            self.graph.nodes[id.0 as usize].place = of.scc_index;
        }
        self.made[index] = Some(id);
        self.open.push((id, index));
        Ok(id)
    }

    fn fill(&mut self, id: TypeNodeId, index: usize) -> Result<(), TypeObjectError> {
        let objects = self.objects;
        let kind = match &objects[index].type_object {
            TypeObject::Complete(object) => self.complete(object)?,
            TypeObject::Minimal(object) => self.minimal(object)?,
        };
        self.graph.nodes[id.0 as usize].kind = kind;
        Ok(())
    }

    fn complete(&mut self, object: &CompleteTypeObject) -> Result<NodeKind, TypeObjectError> {
        Ok(kind_of!(self, object, CompleteTypeObject))
    }

    fn minimal(&mut self, object: &MinimalTypeObject) -> Result<NodeKind, TypeObjectError> {
        Ok(kind_of!(self, object, MinimalTypeObject))
    }

    fn common_element(&mut self, of: &CommonCollectionElement) -> Result<Element, TypeObjectError> {
        self.element(&of.r#type, of.element_flags)
    }

    fn base(&mut self, of: &TypeIdentifier) -> Result<Option<TypeNodeId>, TypeObjectError> {
        match of {
            TypeIdentifier::None => Ok(None),
            of => self.add(of).map(Some),
        }
    }

    fn member(
        &mut self,
        of: &CommonStructMember,
        name: HashedName,
    ) -> Result<StructureMember, TypeObjectError> {
        self.any_member(&of.member_type_id, of.member_id, of.member_flags, name)
    }

    fn any_member(
        &mut self,
        of: &TypeIdentifier,
        id: u32,
        flags: u16,
        name: HashedName,
    ) -> Result<StructureMember, TypeObjectError> {
        if id > idl_cdr::LARGEST_MEMBER_ID {
            let reason = "has an id of more than 28 bits";
            return Err(TypeObjectError::Invalid { name: name.text.to_string(), reason });
        }
        Ok(StructureMember {
            name,
            id,
            of: self.add(of)?,
            key: flags & IS_KEY != 0,
            must_understand: flags & (IS_MUST_UNDERSTAND | IS_KEY) != 0,
            optional: flags & IS_OPTIONAL != 0,
            external: flags & IS_EXTERNAL != 0,
            try_construct: try_construct(flags),
            default: None,
            unit: None,
            min: None,
            max: None,
            hash_id: None,
        })
    }

    fn discriminator(
        &mut self,
        of: &CommonDiscriminatorMember,
    ) -> Result<StructureMember, TypeObjectError> {
        // A discriminator is always present, whatever its flags say.
        let flags = of.member_flags & !IS_OPTIONAL | IS_MUST_UNDERSTAND;
        self.any_member(&of.type_id, 0, flags, HashedName::new("discriminator"))
    }

    fn bit_field(
        &mut self,
        of: &CommonBitfield,
        name: HashedName,
    ) -> Result<BitField, TypeObjectError> {
        let held = Primitive::ALL.into_iter().find(|one| kind_of_primitive(*one) == of.holder_type);
        let (position, bits) = (u32::from(of.position), u32::from(of.bitcount));
        match held {
            Some(holder) if bits > 0 && bits <= most_bits(holder) && position + bits <= 64 => {
                let of = self.put("", NodeKind::Primitive(holder))?;
                Ok(BitField { name, position, bits, holder, of })
            }
            _ => {
                let reason = "is a field of a bitset that does not fit its type, or 64 bits";
                Err(TypeObjectError::Invalid { name: name.text.to_string(), reason })
            }
        }
    }

    fn case(&mut self, of: &CommonUnionMember, name: HashedName) -> Result<Case, TypeObjectError> {
        // A minimal object with masked flags has a default case without labels.
        let default = of.member_flags & IS_DEFAULT != 0 || of.label_seq.is_empty();
        let flags = of.member_flags & !(IS_OPTIONAL | IS_KEY | IS_MUST_UNDERSTAND);
        Ok(Case {
            labels: of.label_seq.iter().copied().map(i64::from).collect(),
            default,
            member: Some(self.any_member(&of.type_id, of.member_id, flags, name)?),
        })
    }
}

/// Returns the maximum number of bits of a bitset's field whose values are of this type: zero if
/// the type is not an integer.
fn most_bits(holder: Primitive) -> u32 {
    match holder {
        Primitive::Boolean => 1,
        Primitive::Float32
        | Primitive::Float64
        | Primitive::Float128
        | Primitive::Char8
        | Primitive::Char16 => 0,
        integer => 8 * integer.size() as u32,
    }
}

/// A named part of a type object.
trait NamedElement {
    /// Returns the name, or the known part of it.
    fn name(&self) -> HashedName;

    /// Returns the member with its annotations.
    fn annotated(&self, member: StructureMember) -> StructureMember {
        member
    }
}

impl NamedElement for CompleteMemberDetail {
    fn name(&self) -> HashedName {
        HashedName::new(&self.name)
    }

    fn annotated(&self, member: StructureMember) -> StructureMember {
        let Some(annotations) = &self.ann_builtin else { return member };
        StructureMember {
            unit: annotations.unit.clone(),
            hash_id: annotations.hash_id.clone(),
            min: annotations.min.as_ref().and_then(number),
            max: annotations.max.as_ref().and_then(number),
            ..member
        }
    }
}

impl NamedElement for MinimalMemberDetail {
    fn name(&self) -> HashedName {
        HashedName::of_hash(self.name_hash)
    }
}

impl NamedElement for CompleteBitfield {
    fn name(&self) -> HashedName {
        self.detail.name()
    }
}

impl NamedElement for MinimalBitfield {
    fn name(&self) -> HashedName {
        HashedName::of_hash(self.name_hash)
    }
}

fn number(value: &AnnotationParameterValue) -> Option<String> {
    use AnnotationParameterValue as Value;
    Some(match value {
        Value::Byte(value) | Value::Uint8(value) => value.to_string(),
        Value::Int8(value) => value.to_string(),
        Value::Int16(value) => value.to_string(),
        Value::Uint16(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Uint32(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Uint64(value) => value.to_string(),
        Value::Float32(value) => value.to_string(),
        Value::Float64(value) => value.to_string(),
        Value::Float128(value) => format!("{:#034x}", u128::from_le_bytes(value.0)),
        _ => return None,
    })
}

fn with_default(mut literals: Vec<Literal>) -> Vec<Literal> {
    if !literals.iter().any(|literal| literal.default)
        && let Some(first) = literals.first_mut()
    {
        first.default = true;
    }
    literals
}

fn is_primitive(identifier: &TypeIdentifier, primitive: Primitive) -> bool {
    primitive_identifier(primitive) == *identifier
}

fn try_construct(flags: u16) -> TryConstruct {
    match flags & TRY_CONSTRUCT_TRIM {
        TRY_CONSTRUCT_USE_DEFAULT => TryConstruct::UseDefault,
        TRY_CONSTRUCT_TRIM => TryConstruct::Trim,
        _ => TryConstruct::Discard,
    }
}

fn extensibility(flags: u16) -> Extensibility {
    match flags & (IS_FINAL | IS_APPENDABLE | IS_MUTABLE) {
        IS_MUTABLE => Extensibility::Mutable,
        IS_FINAL => Extensibility::Final,
        _ => Extensibility::Appendable,
    }
}

fn words(identifier: &TypeIdentifier) -> String {
    let hex = |hash: &[u8]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match identifier {
        TypeIdentifier::Minimal(hash) => format!("minimal {}", hex(hash)),
        TypeIdentifier::Complete(hash) => format!("complete {}", hex(hash)),
        TypeIdentifier::Component(id) => {
            let (TypeObjectHashId::Minimal(hash) | TypeObjectHashId::Complete(hash)) =
                &id.sc_component_id;
            format!("{} of {} in {}", id.scc_index, id.scc_length, hex(hash))
        }
        other => format!("{other:?}"),
    }
}
