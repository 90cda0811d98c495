//! Conversion of derived types to run-time types.
//!
//! Owns the way from [`TypeDescriptor`] to nodes. A named type is made once for each name.

use std::collections::BTreeMap;

use idl_cdr::derived::bounds_of;
use idl_cdr::{
    Limits, MemberDescriptor, StructureDescriptor, TryConstruct, TypeDescriptor, TypeKind,
    UNBOUNDED, UnionDescriptor, WriteDefault,
};

use crate::data::default_of_descriptor;
use crate::model::{
    BitField, Case, Element, Flag, HashedName, Literal, NO_BOUND, NodeKind, Primitive, Structure,
    StructureMember, TypeGraph, TypeNodeId, Union,
};

#[derive(Default)]
pub(crate) struct FromDescriptors {
    pub(crate) graph: TypeGraph,
    made: BTreeMap<&'static str, TypeNodeId>,
    /// Members with defaults, by struct or union; their types must be made before the
    /// default values.
    defaults: Vec<(TypeNodeId, usize, WriteDefault)>,
}

impl FromDescriptors {
    /// Adds a type and returns its node. Limits are consumed from the outside in.
    pub(crate) fn add(&mut self, of: &'static TypeDescriptor, limits: Limits<'_>) -> TypeNodeId {
        let bound = if limits.bound() == UNBOUNDED { NO_BOUND } else { limits.bound() };
        match of.kind {
            TypeKind::Primitive(size) => {
                self.graph.add("", NodeKind::Primitive(primitive(of.name, size)))
            }
            TypeKind::String => self.graph.add("", NodeKind::Text { wide: false, bound }),
            TypeKind::WideString => self.graph.add("", NodeKind::Text { wide: true, bound }),
            TypeKind::Fixed { digits, scale } => {
                self.graph.add("", NodeKind::Fixed { digits, scale })
            }
            TypeKind::Sequence(element) => {
                let (try_construct, limits) = limits.of_elements();
                let element = self.element(element(), try_construct, limits);
                self.graph.add("", NodeKind::Sequence { element, bound })
            }
            TypeKind::Array(element, count) => {
                // An array of arrays counts as one array: limits of elements apply to the
                // innermost ones.
                let (try_construct, limits) = match element().kind {
                    TypeKind::Array(..) => (TryConstruct::Discard, limits),
                    _ => limits.of_row(),
                };
                let element = self.element(element(), try_construct, limits);
                self.graph.add("", NodeKind::Array { element, count: count as u32 })
            }
            TypeKind::Map(key, value) => {
                let [of_key, of_value] = limits.of_entries(bounds_of(key()), elements_of(key()));
                let key = self.element(key(), of_key.0, of_key.1);
                let value = self.element(value(), of_value.0, of_value.1);
                self.graph.add("", NodeKind::Map { key, value, bound })
            }
            TypeKind::Optional(inside) | TypeKind::External(inside) => self.add(inside(), limits),
            _ => self.named(of),
        }
    }

    /// Returns the types, with the defaults of their members.
    pub(crate) fn finish(mut self) -> TypeGraph {
        for (id, place, write) in std::mem::take(&mut self.defaults) {
            let Some(member) = self.graph.nodes[id.0 as usize].kind.member_at(place) else {
                continue;
            };
            let of = member.clone();
            let default = default_of_descriptor(&self.graph, &of, write);
            if let Some(member) = self.graph.nodes[id.0 as usize].kind.member_at(place) {
                member.default = default;
            }
        }
        self.graph
    }

    fn element(
        &mut self,
        of: &'static TypeDescriptor,
        try_construct: TryConstruct,
        limits: Limits<'_>,
    ) -> Element {
        let external = matches!(of.kind, TypeKind::External(_));
        Element { of: self.add(of, limits), external, try_construct }
    }

    fn named(&mut self, of: &'static TypeDescriptor) -> TypeNodeId {
        if let Some(&made) = self.made.get(of.name) {
            return made;
        }
        let id = self.graph.add(of.name, NodeKind::Later);
        self.made.insert(of.name, id);
        let kind = match of.kind {
            TypeKind::Enumeration { bit_bound, literals, ignore_literal_names } => {
                NodeKind::Enumeration {
                    bit_bound,
                    ignore_literal_names,
                    literals: literals
                        .iter()
                        .map(|literal| Literal {
                            name: HashedName::new(literal.name),
                            value: literal.value,
                            default: literal.default,
                        })
                        .collect(),
                }
            }
            TypeKind::Bitmask { bit_bound, flags } => NodeKind::Bitmask {
                bit_bound,
                flags: flags
                    .iter()
                    .map(|&(name, position)| Flag { name: HashedName::new(name), position })
                    .collect(),
            },
            TypeKind::Bitset(fields) => NodeKind::Bitset(
                fields
                    .iter()
                    .map(|field| {
                        let of = (field.type_of)();
                        let holder = match of.kind {
                            TypeKind::Primitive(size) => holder(primitive(of.name, size)),
                            _ => Primitive::Uint64,
                        };
                        BitField {
                            name: HashedName::new(field.name),
                            position: field.position,
                            bits: field.bits,
                            holder,
                            of: self.graph.add("", NodeKind::Primitive(holder)),
                        }
                    })
                    .collect(),
            ),
            TypeKind::Structure(structure) => {
                for (index, member) in structure.members.iter().enumerate() {
                    self.defaults.extend(member.default.map(|default| (id, index, default)));
                }
                NodeKind::Structure(self.structure(&structure))
            }
            TypeKind::Union(union) => {
                let members = union.cases.iter().map(|case| case.member.as_ref());
                let all = [Some(&union.discriminator)].into_iter().chain(members).enumerate();
                let default =
                    |(index, of): (_, Option<&MemberDescriptor>)| Some((id, index, of?.default?));
                self.defaults.extend(all.filter_map(default));
                NodeKind::Union(self.union(&union))
            }
            // Types without a name have been made by `add`.
            _ => return id,
        };
        self.graph.nodes[id.0 as usize].kind = kind;
        id
    }

    fn structure(&mut self, of: &StructureDescriptor) -> Structure {
        Structure {
            extensibility: of.extensibility,
            nested: of.nested,
            representations: of.representations,
            base: of.base.map(|base| self.add(base(), Limits::NONE)),
            members: of.members.iter().map(|member| self.member(member)).collect(),
        }
    }

    fn union(&mut self, of: &UnionDescriptor) -> Union {
        Union {
            extensibility: of.extensibility,
            nested: of.nested,
            representations: of.representations,
            discriminator: self.member(&of.discriminator),
            cases: of
                .cases
                .iter()
                .map(|case| Case {
                    labels: case.labels.to_vec(),
                    default: case.default,
                    member: case.member.as_ref().map(|member| self.member(member)),
                })
                .collect(),
        }
    }

    fn member(&mut self, of: &MemberDescriptor) -> StructureMember {
        let remembered = |word: &str| {
            let found = of.remembered.iter().find(|annotation| annotation.name == word);
            found.map(|annotation| annotation.text.to_owned())
        };
        StructureMember {
            name: HashedName::new(of.name),
            id: of.id,
            of: self.add((of.type_of)(), of.limits()),
            key: of.key,
            must_understand: of.must_understand,
            optional: of.optional,
            external: of.external,
            try_construct: of.try_construct,
            default: None,
            unit: remembered("unit"),
            min: remembered("min"),
            max: remembered("max"),
            hash_id: remembered("hashid"),
        }
    }
}

/// Returns the number of element kinds of a type.
fn elements_of(of: &'static TypeDescriptor) -> usize {
    match of.kind {
        TypeKind::Sequence(element) => 1 + elements_of(element()),
        TypeKind::Array(element, _) => match element().kind {
            TypeKind::Array(..) => elements_of(element()),
            _ => 1 + elements_of(element()),
        },
        TypeKind::Map(key, value) => 2 + elements_of(key()) + elements_of(value()),
        TypeKind::Optional(inner) | TypeKind::External(inner) => elements_of(inner()),
        _ => 0,
    }
}

/// Returns the primitive with a name; an unknown one becomes bytes of its size. Rust has one type
/// for `octet` and `uint8`; other implementations use `octet` for both.
fn primitive(name: &str, size: usize) -> Primitive {
    if name == Primitive::Uint8.name() {
        return Primitive::Byte;
    }
    let named = Primitive::ALL.into_iter().find(|primitive| primitive.name() == name);
    named.unwrap_or(match size {
        1 => Primitive::Byte,
        2 => Primitive::Uint16,
        4 => Primitive::Uint32,
        8 => Primitive::Uint64,
        _ => Primitive::Float128,
    })
}

/// Returns the integer type that holds the bits of a field; for `octet` this is `uint8`.
pub(crate) fn holder(of: Primitive) -> Primitive {
    if of == Primitive::Byte { Primitive::Uint8 } else { of }
}
