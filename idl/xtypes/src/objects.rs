//! Type objects of a type: its identifier and its contents, for comparison by peers.
//!
//! Owns the conversion of nodes to the standard's types, the order in which types that contain each
//! other are hashed, and the hashes. Never compares types.
//!
//! The standard has masks for the flags of minimal objects. Other implementations do not apply
//! them. Hashes must be equal across implementations, so this implementation does not apply
//! them either.

use std::collections::BTreeMap;

use idl_cdr::{CdrWriter, DdsType, Encoding};

use crate::components::{components, reaches};
use crate::flags::*;
use crate::hash;
use crate::model::{Case, Element, Literal, NodeKind, StructureMember, TypeGraph, TypeNodeId};
use crate::standard::*;

/// Kinds of type objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Only the information relevant to assignability.
    Minimal,
    /// With names and annotations.
    Complete,
}

/// Identifier of a type, and the objects of all types within it, dependencies first.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
pub struct TypeObjects {
    /// Identifier of the type.
    pub identifier: TypeIdentifier,
    /// Identifiers and their objects. Types that contain each other share a hash.
    pub objects: Vec<TypeIdentifierTypeObjectPair>,
}

impl TypeObjects {
    /// Returns a hash of the payload of type objects, by which a peer recognises objects that
    /// it knows.
    pub fn digest(payload: &[u8]) -> EquivalenceHash {
        hash::of_object(payload)
    }
}

/// Returns the bytes of a type object that its hash and its size are computed from: XCDR2, little
/// endian, without header.
pub fn object_bytes<T: DdsType>(object: &T) -> Vec<u8> {
    let mut counter = CdrWriter::counting(Encoding::PLAIN_CDR2_LE);
    object.serialize(&mut counter).expect("names are within their bounds, values in their ranges");
    let mut bytes = vec![0; counter.position()];
    let mut writer = CdrWriter::over(&mut bytes, Encoding::PLAIN_CDR2_LE);
    object.serialize(&mut writer).expect("it has been counted");
    bytes
}

pub(crate) struct Objects<'a> {
    graph: &'a TypeGraph,
    kind: ObjectKind,
    identifiers: BTreeMap<TypeNodeId, TypeIdentifier>,
    objects: Vec<TypeIdentifierTypeObjectPair>,
}

impl<'a> Objects<'a> {
    pub(crate) fn of(graph: &'a TypeGraph, root: TypeNodeId, kind: ObjectKind) -> TypeObjects {
        let mut made = Self { graph, kind, identifiers: BTreeMap::new(), objects: Vec::new() };
        for component in components(graph, root) {
            made.add_component(component);
        }
        TypeObjects { identifier: made.identifier(root), objects: made.objects }
    }

    fn add_component(&mut self, mut component: Vec<TypeNodeId>) {
        let graph = self.graph;
        let refers_to_itself = |of: &TypeNodeId| reaches(graph, *of, *of);
        // A type without a name is part of the identifiers of the types that use it.
        component.retain(|of| is_hashed(&graph.node(*of).kind));
        match component.as_slice() {
            [] => {}
            [only] if !refers_to_itself(only) => {
                let object = self.object(*only);
                let hash = hash::of_object(&object_bytes(&object));
                self.put(*only, self.hashed(hash), object);
            }
            _ => {
                component.sort_by(|a, b| {
                    let (a, b) = (graph.node(*a), graph.node(*b));
                    a.name.cmp(&b.name).then(a.place.cmp(&b.place))
                });
                // The first hash is zero, because the real hash is computed from the objects that
                // contain the identifier.
                self.name_component(&component, [0; 14]);
                let objects: Vec<_> = component.iter().map(|of| self.object(*of)).collect();
                let hash = hash::of_object(&object_bytes(&objects));
                self.name_component(&component, hash);
                for of in component {
                    let object = self.object(of);
                    let identifier = self.identifiers[&of].clone();
                    self.put(of, identifier, object);
                }
            }
        }
    }

    fn name_component(&mut self, component: &[TypeNodeId], hash: EquivalenceHash) {
        let sc_component_id = match self.kind {
            ObjectKind::Minimal => TypeObjectHashId::Minimal(hash),
            ObjectKind::Complete => TypeObjectHashId::Complete(hash),
        };
        for (index, of) in component.iter().enumerate() {
            let id = StronglyConnectedComponentId {
                sc_component_id: sc_component_id.clone(),
                scc_length: component.len() as i32,
                scc_index: index as i32 + 1,
            };
            self.identifiers.insert(*of, TypeIdentifier::Component(id));
        }
    }

    fn hashed(&self, hash: EquivalenceHash) -> TypeIdentifier {
        match self.kind {
            ObjectKind::Minimal => TypeIdentifier::Minimal(hash),
            ObjectKind::Complete => TypeIdentifier::Complete(hash),
        }
    }

    fn put(&mut self, of: TypeNodeId, type_identifier: TypeIdentifier, type_object: TypeObject) {
        self.identifiers.insert(of, type_identifier.clone());
        // A type built from others may contain one of them twice.
        if self.objects.iter().any(|pair| pair.type_identifier == type_identifier) {
            return;
        }
        self.objects.push(TypeIdentifierTypeObjectPair { type_identifier, type_object });
    }

    /// Returns the identifier of a type. The types within it have been made before.
    fn identifier(&self, of: TypeNodeId) -> TypeIdentifier {
        match &self.graph.node(of).kind {
            NodeKind::Primitive(primitive) => primitive_identifier(*primitive),
            NodeKind::Text { wide, bound } => match (wide, u8::try_from(*bound)) {
                (false, Ok(bound)) => TypeIdentifier::StringSmall(StringSTypeDefn { bound }),
                (true, Ok(bound)) => TypeIdentifier::WideStringSmall(StringSTypeDefn { bound }),
                (false, _) => TypeIdentifier::StringLarge(StringLTypeDefn { bound: *bound }),
                (true, _) => TypeIdentifier::WideStringLarge(StringLTypeDefn { bound: *bound }),
            },
            // The standard has no identifier for a fixed: it becomes an array of its bytes.
            NodeKind::Fixed { digits, .. } => {
                let size = (digits / 2 + 1) as u8;
                TypeIdentifier::ArraySmall(PlainArraySElemDefn {
                    header: header(EK_BOTH, TRY_CONSTRUCT_DISCARD),
                    array_bound_seq: vec![size],
                    element_identifier: Box::new(TypeIdentifier::Byte),
                })
            }
            NodeKind::Sequence { element, bound } => {
                let (header, element_identifier) = self.collection(element);
                match u8::try_from(*bound) {
                    Ok(bound) => TypeIdentifier::SequenceSmall(PlainSequenceSElemDefn {
                        header,
                        bound,
                        element_identifier,
                    }),
                    Err(_) => TypeIdentifier::SequenceLarge(PlainSequenceLElemDefn {
                        header,
                        bound: *bound,
                        element_identifier,
                    }),
                }
            }
            NodeKind::Array { element, count } => {
                let (mut element, mut dimensions) = (element, vec![*count]);
                while let NodeKind::Array { element: inner, count } =
                    &self.graph.node(element.of).kind
                {
                    dimensions.push(*count);
                    element = inner;
                }
                let (header, element_identifier) = match self.graph.node(element.of).kind {
                    // The bytes are one more dimension, because an array of arrays is one array.
                    NodeKind::Fixed { digits, .. } => {
                        dimensions.push(digits / 2 + 1);
                        let of_bytes = header(EK_BOTH, TRY_CONSTRUCT_DISCARD);
                        (of_bytes, Box::new(TypeIdentifier::Byte))
                    }
                    _ => self.collection(element),
                };
                let small: Option<Vec<u8>> =
                    dimensions.iter().map(|size| u8::try_from(*size).ok()).collect();
                match small {
                    Some(array_bound_seq) => TypeIdentifier::ArraySmall(PlainArraySElemDefn {
                        header,
                        array_bound_seq,
                        element_identifier,
                    }),
                    None => TypeIdentifier::ArrayLarge(PlainArrayLElemDefn {
                        header,
                        array_bound_seq: dimensions,
                        element_identifier,
                    }),
                }
            }
            NodeKind::Map { key, value, bound } => {
                let (mut header, element_identifier) = self.collection(value);
                let (of_key, key_identifier) = self.collection(key);
                if header.equiv_kind == EK_BOTH {
                    header.equiv_kind = of_key.equiv_kind;
                }
                let key_flags = of_key.element_flags;
                match u8::try_from(*bound) {
                    Ok(bound) => TypeIdentifier::MapSmall(PlainMapSTypeDefn {
                        header,
                        bound,
                        element_identifier,
                        key_flags,
                        key_identifier,
                    }),
                    Err(_) => TypeIdentifier::MapLarge(PlainMapLTypeDefn {
                        header,
                        bound: *bound,
                        element_identifier,
                        key_flags,
                        key_identifier,
                    }),
                }
            }
            _ => self.identifiers.get(&of).cloned().unwrap_or(TypeIdentifier::None),
        }
    }

    fn collection(&self, element: &Element) -> (PlainCollectionHeader, Box<TypeIdentifier>) {
        let identifier = self.identifier(element.of);
        let kind = equivalence_of(&identifier);
        (header(kind, flags_of_element(element)), Box::new(identifier))
    }

    fn object(&self, of: TypeNodeId) -> TypeObject {
        match self.kind {
            ObjectKind::Minimal => TypeObject::Minimal(self.minimal(of)),
            ObjectKind::Complete => TypeObject::Complete(self.complete(of)),
        }
    }

    fn complete(&self, of: TypeNodeId) -> CompleteTypeObject {
        let node = self.graph.node(of);
        let detail = CompleteTypeDetail {
            ann_builtin: None,
            ann_custom: None,
            type_name: node.name.clone(),
        };
        let named = |name: &str| CompleteMemberDetail {
            name: name.to_owned(),
            ann_builtin: None,
            ann_custom: None,
        };
        match &node.kind {
            NodeKind::Structure(structure) => CompleteTypeObject::Structure(CompleteStructType {
                struct_flags: flags_of_type(structure.extensibility, structure.nested),
                header: CompleteStructHeader { base_type: self.base(structure.base), detail },
                member_seq: structure
                    .members
                    .iter()
                    .map(|member| CompleteStructMember {
                        common: self.struct_member(member),
                        detail: self.detail(member),
                    })
                    .collect(),
            }),
            NodeKind::Union(union) => CompleteTypeObject::Union(CompleteUnionType {
                union_flags: flags_of_type(union.extensibility, union.nested),
                header: CompleteUnionHeader { detail },
                discriminator: CompleteDiscriminatorMember {
                    common: self.discriminator(&union.discriminator),
                    ann_builtin: None,
                    ann_custom: None,
                },
                member_seq: self
                    .union_members(&union.cases)
                    .map(|(common, member)| CompleteUnionMember {
                        common,
                        detail: self.detail(member),
                    })
                    .collect(),
            }),
            NodeKind::Enumeration { bit_bound, literals, .. } => {
                let literal_seq = in_order(literals)
                    .map(|(literal, says_default)| CompleteEnumeratedLiteral {
                        common: literal_of(literal, says_default),
                        detail: named(&literal.name.text),
                    })
                    .collect();
                CompleteTypeObject::Enumeration(CompleteEnumeratedType {
                    enum_flags: IS_FINAL,
                    header: CompleteEnumeratedHeader { common: bits(*bit_bound), detail },
                    literal_seq,
                })
            }
            NodeKind::Bitmask { bit_bound, flags } => {
                let mut flag_seq: Vec<_> = flags
                    .iter()
                    .map(|flag| CompleteBitflag {
                        common: CommonBitflag { position: flag.position as u16, flags: 0 },
                        detail: named(&flag.name.text),
                    })
                    .collect();
                flag_seq.sort_by_key(|flag| flag.common.position);
                CompleteTypeObject::Bitmask(CompleteBitmaskType {
                    bitmask_flags: IS_FINAL,
                    header: CompleteEnumeratedHeader { common: bits(*bit_bound), detail },
                    flag_seq,
                })
            }
            NodeKind::Bitset(fields) => CompleteTypeObject::Bitset(CompleteBitsetType {
                bitset_flags: 0,
                header: CompleteBitsetHeader { detail },
                field_seq: fields
                    .iter()
                    .map(|field| CompleteBitfield {
                        common: field_of(field),
                        detail: named(&field.name.text),
                    })
                    .collect(),
            }),
            NodeKind::Alias(of) => CompleteTypeObject::Alias(CompleteAliasType {
                alias_flags: 0,
                header: CompleteAliasHeader { detail },
                body: CompleteAliasBody {
                    common: self.alias(*of),
                    ann_builtin: None,
                    ann_custom: None,
                },
            }),
            _ => CompleteTypeObject::Extended(CompleteExtendedType {}),
        }
    }

    fn minimal(&self, of: TypeNodeId) -> MinimalTypeObject {
        let detail = MinimalTypeDetail {};
        match &self.graph.node(of).kind {
            NodeKind::Structure(structure) => MinimalTypeObject::Structure(MinimalStructType {
                struct_flags: flags_of_type(structure.extensibility, structure.nested),
                header: MinimalStructHeader { base_type: self.base(structure.base), detail },
                member_seq: structure
                    .members
                    .iter()
                    .map(|member| MinimalStructMember {
                        common: self.struct_member(member),
                        detail: MinimalMemberDetail { name_hash: member.name.hash },
                    })
                    .collect(),
            }),
            NodeKind::Union(union) => MinimalTypeObject::Union(MinimalUnionType {
                union_flags: flags_of_type(union.extensibility, union.nested),
                header: MinimalUnionHeader { detail },
                discriminator: MinimalDiscriminatorMember {
                    common: self.discriminator(&union.discriminator),
                },
                member_seq: self
                    .union_members(&union.cases)
                    .map(|(common, member)| MinimalUnionMember {
                        common,
                        detail: MinimalMemberDetail { name_hash: member.name.hash },
                    })
                    .collect(),
            }),
            NodeKind::Enumeration { bit_bound, literals, .. } => {
                let literal_seq = in_order(literals)
                    .map(|(literal, says_default)| MinimalEnumeratedLiteral {
                        common: literal_of(literal, says_default),
                        detail: MinimalMemberDetail { name_hash: literal.name.hash },
                    })
                    .collect();
                MinimalTypeObject::Enumeration(MinimalEnumeratedType {
                    enum_flags: IS_FINAL,
                    header: MinimalEnumeratedHeader { common: bits(*bit_bound) },
                    literal_seq,
                })
            }
            NodeKind::Bitmask { bit_bound, flags } => {
                let mut flag_seq: Vec<_> = flags
                    .iter()
                    .map(|flag| MinimalBitflag {
                        common: CommonBitflag { position: flag.position as u16, flags: 0 },
                        detail: MinimalMemberDetail { name_hash: flag.name.hash },
                    })
                    .collect();
                flag_seq.sort_by_key(|flag| flag.common.position);
                MinimalTypeObject::Bitmask(MinimalBitmaskType {
                    bitmask_flags: IS_FINAL,
                    header: MinimalEnumeratedHeader { common: bits(*bit_bound) },
                    flag_seq,
                })
            }
            NodeKind::Bitset(fields) => MinimalTypeObject::Bitset(MinimalBitsetType {
                bitset_flags: 0,
                header: MinimalBitsetHeader {},
                field_seq: fields
                    .iter()
                    .map(|field| MinimalBitfield {
                        common: field_of(field),
                        name_hash: field.name.hash,
                    })
                    .collect(),
            }),
            NodeKind::Alias(of) => MinimalTypeObject::Alias(MinimalAliasType {
                alias_flags: 0,
                header: MinimalAliasHeader {},
                body: MinimalAliasBody { common: self.alias(*of) },
            }),
            _ => MinimalTypeObject::Extended(MinimalExtendedType {}),
        }
    }

    fn base(&self, base: Option<TypeNodeId>) -> TypeIdentifier {
        base.map_or(TypeIdentifier::None, |base| self.identifier(base))
    }

    fn alias(&self, of: TypeNodeId) -> CommonAliasBody {
        CommonAliasBody { related_flags: 0, related_type: self.identifier(of) }
    }

    fn discriminator(&self, of: &StructureMember) -> CommonDiscriminatorMember {
        let key = if of.key { IS_KEY } else { 0 };
        CommonDiscriminatorMember {
            member_flags: flags_of(of.try_construct) | IS_MUST_UNDERSTAND | key,
            type_id: self.identifier(of.of),
        }
    }

    fn struct_member(&self, of: &StructureMember) -> CommonStructMember {
        let flag = |is: bool, flag: u16| if is { flag } else { 0 };
        CommonStructMember {
            member_id: of.id,
            member_flags: flags_of(of.try_construct)
                | flag(of.external, IS_EXTERNAL)
                | flag(of.optional, IS_OPTIONAL)
                | flag(of.must_understand, IS_MUST_UNDERSTAND)
                | flag(of.key, IS_KEY),
            member_type_id: self.identifier(of.of),
        }
    }

    fn union_members<'b>(
        &'b self,
        cases: &'b [Case],
    ) -> impl Iterator<Item = (CommonUnionMember, &'b StructureMember)> {
        // The standard does not describe cases without a member.
        cases.iter().filter_map(|case| Some((case, case.member.as_ref()?))).map(|(case, member)| {
            let mut label_seq: Vec<i32> = case.labels.iter().map(|label| *label as i32).collect();
            label_seq.sort_unstable();
            let external = if member.external { IS_EXTERNAL } else { 0 };
            let default = if case.default { IS_DEFAULT } else { 0 };
            let common = CommonUnionMember {
                member_id: member.id,
                member_flags: flags_of(member.try_construct) | external | default,
                type_id: self.identifier(member.of),
                label_seq,
            };
            (common, member)
        })
    }

    fn detail(&self, member: &StructureMember) -> CompleteMemberDetail {
        let kind = self.graph.kind(member.of);
        let number = |text: &Option<String>| parameter(kind, text.as_deref()?);
        let (min, max) = (number(&member.min), number(&member.max));
        let hash_id = member.hash_id.clone();
        let unit = member.unit.clone();
        let is_annotated = unit.is_some() || min.is_some() || max.is_some() || hash_id.is_some();
        CompleteMemberDetail {
            name: member.name.text.to_string(),
            ann_builtin: is_annotated.then_some(AppliedBuiltinMemberAnnotations {
                unit,
                min,
                max,
                hash_id,
            }),
            ann_custom: None,
        }
    }
}

/// Returns enumerators in the order of type objects, by value, and whether each needs the default
/// flag. The first declared one does not need it, because it is the default of an enum without
/// the flag.
fn in_order(literals: &[Literal]) -> impl Iterator<Item = (&Literal, bool)> {
    let mut sorted: Vec<&Literal> = literals.iter().collect();
    sorted.sort_by_key(|literal| literal.value);
    sorted.into_iter().enumerate().map(|(index, literal)| (literal, index > 0))
}

fn is_hashed(kind: &NodeKind) -> bool {
    matches!(
        kind,
        NodeKind::Enumeration { .. }
            | NodeKind::Bitmask { .. }
            | NodeKind::Bitset(_)
            | NodeKind::Alias(_)
            | NodeKind::Structure(_)
            | NodeKind::Union(_)
    )
}
