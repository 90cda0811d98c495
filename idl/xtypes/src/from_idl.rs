//! Run-time types from IDL, without generated Rust.
//!
//! Owns the conversion of the compiler's model to nodes. The types equal those of the generated
//! Rust, so typedefs are resolved. Never reads a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use idl::model::{self, Definition, MemberId, Type, TypeNotes};
use idl::{Specification, Value};
use idl_cdr::{DdsType, Extensibility, LongDouble, Representations, TryConstruct};

use crate::descriptor::holder;
use crate::model::{
    BitField, Case, Element, Flag, HashedName, Literal, NO_BOUND, NodeKind, Primitive, Structure,
    StructureMember, TypeGraph, TypeNodeId, Union,
};
use crate::{Any, DynamicType, TypeObjectError, data, soundness};

impl DynamicType {
    /// Returns the type with this name, modules included, from a compiled specification.
    ///
    /// ```
    /// use idl_xtypes::{DynamicData, DynamicType};
    ///
    /// let text = "module Nav { struct Fix { @key long id; double at[2]; }; };";
    /// let fix = DynamicType::from_idl(&idl::parse("nav.idl", text)?, "Nav::Fix")?;
    /// let sample = DynamicData::parse(&fix, "{id: 7, at: [1.5, 2]}")?;
    /// assert!(sample.to_json().contains("\"id\": 7"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_idl(of: &Specification, name: &str) -> Result<Self, TypeObjectError> {
        let mut all = Self::all_from_idl(of, [name]);
        all.pop().expect("one result per requested name")
    }

    /// Returns several types by name, in little more time than one.
    pub fn all_from_idl<'a>(
        of: &Specification,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Result<Self, TypeObjectError>> {
        let mut types = BTreeMap::new();
        gather(&of.definitions, &mut types);
        let one = |name| {
            let (graph, made) = (TypeGraph::default(), BTreeMap::new());
            let mut made = FromIdl { types: &types, graph, made, depth: 0 };
            let root = made.named(name)?;
            soundness::check(&made.graph)?;
            Ok(Self { graph: Arc::new(made.graph), root })
        };
        names.into_iter().map(one).collect()
    }
}

/// Returns the names of possible topic types: structs and unions that are not nested, in order.
pub fn topic_types(of: &Specification) -> Vec<String> {
    fn gather(definitions: &[Definition], names: &mut Vec<String>) {
        for definition in definitions {
            match definition {
                Definition::Module(module) => gather(&module.definitions, names),
                Definition::Struct(of) if !of.notes.nested => names.push(of.name.to_string()),
                Definition::Union(of) if !of.notes.nested => names.push(of.name.to_string()),
                _ => {}
            }
        }
    }
    let mut names = Vec::new();
    gather(&of.definitions, &mut names);
    names
}

/// Returns the names of all types except typedefs, in order.
pub fn type_names(of: &Specification) -> Vec<String> {
    fn gather(definitions: &[Definition], names: &mut Vec<String>) {
        for definition in definitions {
            match definition {
                Definition::Module(module) => gather(&module.definitions, names),
                Definition::Constant(_) | Definition::Typedef(_) => {}
                _ => names.push(definition.name().to_string()),
            }
        }
    }
    let mut names = Vec::new();
    gather(&of.definitions, &mut names);
    names
}

fn gather<'a>(definitions: &'a [Definition], types: &mut BTreeMap<String, &'a Definition>) {
    for definition in definitions {
        match definition {
            Definition::Module(module) => gather(&module.definitions, types),
            Definition::Constant(_) => {}
            _ => {
                types.insert(definition.name().to_string(), definition);
            }
        }
    }
}

struct FromIdl<'a> {
    types: &'a BTreeMap<String, &'a Definition>,
    graph: TypeGraph,
    made: BTreeMap<String, TypeNodeId>,
    /// Number of named types being made, each within the one before.
    depth: usize,
}

/// Maximum length of a chain of named types, each first used in the one before; the recursion
/// through the chain uses the stack.
const LONGEST_CHAIN: usize = 256;

type Converted<T> = Result<T, TypeObjectError>;

impl FromIdl<'_> {
    fn named(&mut self, name: &str) -> Converted<TypeNodeId> {
        if let Some(&made) = self.made.get(name) {
            return Ok(made);
        }
        let Some(&definition) = self.types.get(name) else {
            return Err(TypeObjectError::Missing { identifier: format!("of `{name}`") });
        };
        if let Definition::Typedef(of) = definition {
            return self.ty(&of.ty);
        }
        if self.depth >= LONGEST_CHAIN {
            let reason = "is nested too deep";
            return Err(TypeObjectError::Invalid { name: name.to_owned(), reason });
        }
        self.depth += 1;
        let id = self.graph.add(name, NodeKind::Later);
        self.made.insert(name.to_owned(), id);
        let kind = match definition {
            Definition::Struct(of) => NodeKind::Structure(self.structure(of)?),
            Definition::Union(of) => NodeKind::Union(self.union(of)?),
            Definition::Enum(of) => {
                let ignore_literal_names = of.notes.ignore_literal_names;
                let (bit_bound, literals) = (of.bit_bound.into(), literals(of));
                NodeKind::Enumeration { bit_bound, literals, ignore_literal_names }
            }
            Definition::Bitmask(of) => NodeKind::Bitmask {
                bit_bound: of.bit_bound.into(),
                flags: of
                    .flags
                    .iter()
                    .map(|flag| Flag {
                        name: HashedName::new(&flag.name),
                        position: flag.position.into(),
                    })
                    .collect(),
            },
            Definition::Bitset(of) => NodeKind::Bitset(self.bit_fields(of)),
            Definition::Module(_) | Definition::Constant(_) | Definition::Typedef(_) => {
                NodeKind::Later
            }
        };
        self.depth -= 1;
        self.graph.nodes[id.0 as usize].kind = kind;
        Ok(id)
    }

    fn ty(&mut self, of: &Type) -> Converted<TypeNodeId> {
        let bound = |bound: &Option<u32>| bound.unwrap_or(NO_BOUND);
        let kind = match of.resolved() {
            Type::Primitive(of) => NodeKind::Primitive(primitive(*of)),
            Type::String { wide, bound: of } => NodeKind::Text { wide: *wide, bound: bound(of) },
            Type::Sequence(element, of) => {
                NodeKind::Sequence { element: self.element(element)?, bound: bound(of) }
            }
            Type::Map(key, value, of) => NodeKind::Map {
                key: self.element(key)?,
                value: self.element(value)?,
                bound: bound(of),
            },
            Type::Array(element, count) => {
                NodeKind::Array { element: self.element(element)?, count: *count }
            }
            Type::Fixed { digits, scale } => {
                NodeKind::Fixed { digits: (*digits).into(), scale: (*scale).into() }
            }
            Type::Any => return Ok(self.any()),
            Type::Named(name, _) => return self.named(&name.to_string()),
            // `resolved` returns no alias.
            Type::Alias(alias) => return self.named(&alias.name.to_string()),
        };
        Ok(self.graph.add("", kind))
    }

    /// Returns the node of an `any`. Its name is a keyword, so no IDL type can have it.
    fn any(&mut self) -> TypeNodeId {
        if let Some(&made) = self.made.get(Any::TYPE_NAME) {
            return made;
        }
        let of = DynamicType::of::<Any>();
        let made = self.graph.take_in(&of.graph, of.root);
        self.made.insert(Any::TYPE_NAME.to_owned(), made);
        made
    }

    fn element(&mut self, of: &model::Element) -> Converted<Element> {
        let external = of.external;
        Ok(Element { of: self.ty(of)?, external, try_construct: try_construct(of.try_construct) })
    }

    fn structure(&mut self, of: &model::Struct) -> Converted<Structure> {
        let base = match &of.base {
            Some(base) => Some(self.named(&base.to_string())?),
            None => None,
        };
        let mut next = base.map_or(0, |base| self.next_id(base));
        let hashed = of.notes.hashed_ids.unwrap_or(false);
        let mut members = Vec::new();
        for member in of.members.iter().filter(|member| !member.non_serialized) {
            let member = self.member(member, next, hashed)?;
            next = member.id.saturating_add(1);
            members.push(member);
        }
        let extensibility = extensibility(of.notes.extensibility);
        Ok(Structure {
            extensibility,
            nested: of.notes.nested,
            representations: representations(&of.notes),
            base,
            members,
        })
    }

    /// Returns the id that the next member would get.
    fn next_id(&self, of: TypeNodeId) -> u32 {
        let NodeKind::Structure(of) = self.graph.kind(of) else { return 0 };
        match of.members.last() {
            Some(last) => last.id.saturating_add(1),
            None => of.base.map_or(0, |base| self.next_id(base)),
        }
    }

    fn union(&mut self, of: &model::Union) -> Converted<Union> {
        let selects = self.ty(&of.discriminator)?;
        let discriminator = StructureMember {
            name: HashedName::new("discriminator"),
            of: selects,
            key: of.key,
            must_understand: true,
            try_construct: try_construct(of.try_construct),
            default: of.default.as_ref().and_then(|value| self.value(selects, value)),
            ..plain_member()
        };
        let hashed = of.notes.hashed_ids.unwrap_or(false);
        // The discriminator is member 0.
        let mut next = 1;
        let mut cases = Vec::new();
        for case in &of.cases {
            let member = self.member(&case.member, next, hashed)?;
            next = member.id.saturating_add(1);
            let labels = case.labels.iter().map(label).collect();
            cases.push(Case { labels, default: case.default, member: Some(member) });
        }
        if of.open {
            cases.push(Case { labels: Vec::new(), default: true, member: None });
        }
        let extensibility = extensibility(of.notes.extensibility);
        Ok(Union {
            extensibility,
            nested: of.notes.nested,
            representations: representations(&of.notes),
            discriminator,
            cases,
        })
    }

    fn member(
        &mut self,
        of: &model::StructMember,
        next: u32,
        hashed: bool,
    ) -> Converted<StructureMember> {
        let name = HashedName::new(&of.name);
        let of_hash = |text: &str| u32::from_le_bytes(crate::hash::of_name(text)) & 0x0fff_ffff;
        let (id, hash_id) = match &of.id {
            MemberId::Number(id) => (*id, None),
            MemberId::Hash(Some(text)) => (of_hash(text), Some(text.clone())),
            MemberId::Hash(None) => (of_hash(&of.name), Some(String::new())),
            MemberId::Auto if hashed => (of_hash(&of.name), None),
            MemberId::Auto => (next, None),
        };
        let node = self.ty(&of.ty)?;
        Ok(StructureMember {
            name,
            id,
            of: node,
            key: of.key,
            must_understand: of.must_understand || of.key,
            optional: of.optional,
            external: of.external,
            try_construct: try_construct(of.try_construct),
            default: of.default.as_ref().and_then(|value| self.value(node, value)),
            unit: of.unit.clone(),
            min: of.range.0.as_ref().and_then(number),
            max: of.range.1.as_ref().and_then(number),
            hash_id,
        })
    }

    /// Returns a value, if the type can have one in IDL.
    fn value(&self, of: TypeNodeId, value: &Value) -> Option<data::Value> {
        use data::Value as Made;
        Some(match (self.graph.kind(of), value) {
            (NodeKind::Primitive(primitive), Value::Integer(number)) => {
                data::layout::integer(*primitive, *number)?
            }
            (NodeKind::Primitive(Primitive::Float32), Value::Floating(number)) => {
                Made::Float(*number as f32)
            }
            (NodeKind::Primitive(Primitive::Float128), Value::LongDouble(number)) => {
                Made::LongDouble(LongDouble(number.to_bits().to_le_bytes()))
            }
            (NodeKind::Primitive(_), Value::Floating(number)) => Made::Double(*number),
            (NodeKind::Primitive(_), Value::Boolean(value)) => Made::Bool(*value),
            (NodeKind::Primitive(Primitive::Char16), Value::Char(character)) => {
                Made::WideChar((*character).try_into().ok()?)
            }
            (NodeKind::Primitive(_), Value::Char(character)) => Made::Char(*character),
            (NodeKind::Text { .. }, Value::String(text)) => Made::Text(text.clone()),
            (NodeKind::Fixed { scale, .. }, Value::Fixed(number)) => {
                Made::Fixed { units: number.parts().0, scale: *scale }
            }
            (NodeKind::Bitmask { .. }, Value::Integer(bits)) => Made::Bitmask(*bits as u64),
            (NodeKind::Enumeration { literals, .. }, Value::Enumerator { value, .. }) => {
                let literal = literals.iter().find(|literal| literal.value == *value)?;
                Made::Enumerator { value: *value, name: literal.name.text.clone() }
            }
            (
                NodeKind::Sequence { element, .. } | NodeKind::Array { element, .. },
                Value::List(values),
            ) => {
                let values = values.iter().map(|value| self.value(element.of, value));
                Made::Collection(values.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    fn bit_fields(&mut self, of: &model::Bitset) -> Vec<BitField> {
        let mut position = 0;
        let mut fields = Vec::new();
        for (place, field) in of.fields.iter().enumerate() {
            let (bits, holder) = (u32::from(field.bits), holder(primitive(field.ty)));
            let node = self.graph.add("", NodeKind::Primitive(holder));
            let name = field.name.clone().unwrap_or_else(|| format!("reserved_{place}"));
            fields.push(BitField {
                name: HashedName::new(&name),
                position,
                bits,
                holder,
                of: node,
            });
            position += bits;
        }
        fields
    }
}

fn try_construct(of: Option<model::TryConstruct>) -> TryConstruct {
    match of {
        None | Some(model::TryConstruct::Discard) => TryConstruct::Discard,
        Some(model::TryConstruct::UseDefault) => TryConstruct::UseDefault,
        Some(model::TryConstruct::Trim) => TryConstruct::Trim,
    }
}

fn plain_member() -> StructureMember {
    StructureMember {
        name: HashedName::new(""),
        id: 0,
        of: TypeNodeId(0),
        key: false,
        must_understand: false,
        optional: false,
        external: false,
        try_construct: TryConstruct::Discard,
        default: None,
        unit: None,
        min: None,
        max: None,
        hash_id: None,
    }
}

fn literals(of: &model::Enum) -> Vec<Literal> {
    let default = of.enumerators.iter().position(|one| one.default).unwrap_or(0);
    let literals = of.enumerators.iter().enumerate();
    let literal = |(index, one): (usize, &model::Enumerator)| Literal {
        name: HashedName::new(&one.name),
        value: one.value,
        default: index == default,
    };
    literals.map(literal).collect()
}

fn extensibility(of: Option<model::Extensibility>) -> Extensibility {
    match of {
        None | Some(model::Extensibility::Final) => Extensibility::Final,
        Some(model::Extensibility::Appendable) => Extensibility::Appendable,
        Some(model::Extensibility::Mutable) => Extensibility::Mutable,
    }
}

fn label(of: &Value) -> i64 {
    match of {
        // Labels of unsigned 64-bit types are their bits.
        Value::Integer(number) => *number as i64,
        Value::Boolean(value) => i64::from(*value),
        Value::Char(character) => i64::from(u32::from(*character)),
        Value::Enumerator { value, .. } => i64::from(*value),
        // A discriminator has no other kind of value.
        _ => 0,
    }
}

fn number(of: &Value) -> Option<String> {
    match of {
        Value::Integer(number) => Some(number.to_string()),
        Value::Floating(number) => Some(number.to_string()),
        Value::LongDouble(number) => Some(format!("{:#034x}", number.to_bits())),
        _ => None,
    }
}

/// Returns the primitive. As in derived types, `uint8` becomes `octet`.
fn primitive(of: model::Primitive) -> Primitive {
    match of {
        model::Primitive::Boolean => Primitive::Boolean,
        model::Primitive::Octet | model::Primitive::Uint8 => Primitive::Byte,
        model::Primitive::Char => Primitive::Char8,
        model::Primitive::WChar => Primitive::Char16,
        model::Primitive::Int8 => Primitive::Int8,
        model::Primitive::Int16 => Primitive::Int16,
        model::Primitive::Uint16 => Primitive::Uint16,
        model::Primitive::Int32 => Primitive::Int32,
        model::Primitive::Uint32 => Primitive::Uint32,
        model::Primitive::Int64 => Primitive::Int64,
        model::Primitive::Uint64 => Primitive::Uint64,
        model::Primitive::Float => Primitive::Float32,
        model::Primitive::Double => Primitive::Float64,
        model::Primitive::LongDouble => Primitive::Float128,
    }
}

/// Returns the representations that `@data_representation` allows.
fn representations(of: &TypeNotes) -> Representations {
    let all = of.representations.iter().map(|name| match name.as_str() {
        "XCDR1" => Representations::XCDR1,
        "XML" => Representations::XML,
        _ => Representations::XCDR2,
    });
    all.reduce(Representations::or).unwrap_or_default()
}
