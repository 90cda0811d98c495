//! Reading of values from bytes.
//!
//! Owns the action on members that are missing, unknown, or have disallowed values. Never allocates
//! memory according to a received length.

use idl_cdr::derived::{bytes_for, read_bits, read_fixed};
use idl_cdr::{
    CdrError, CdrReader, CdrVersion, DdsType, Extensibility, Limits, LongDouble, MemberFraming,
    TryConstruct, UNBOUNDED, WChar, WString,
};

use super::{CdrResult, CdrTraversal, NAME};
use crate::data::layout::{case_of, is_primitive, is_primitive_row, key_members, total_bits};
use crate::data::{UnionValue, Value, default_of, default_of_member, union_of_case};
use crate::model::{
    Element, NO_BOUND, NodeKind, Primitive, Structure, StructureMember, TypeGraph, TypeNodeId,
    Union,
};

impl<'a> CdrTraversal<'a> {
    /// Reads a value. If `relaxed`, the bound of its outermost string, sequence or map is ignored.
    pub(super) fn read(
        &mut self,
        of: TypeNodeId,
        reader: &mut CdrReader<'_>,
        relaxed: bool,
    ) -> Result<Value, CdrError> {
        let graph = self.graph;
        let bound_of = |bound: u32| if relaxed { UNBOUNDED } else { super::bound_of(bound) };
        match graph.kind(of) {
            NodeKind::Primitive(primitive) => read_primitive(*primitive, reader),
            NodeKind::Text { wide: false, bound } => {
                reader.read_string(bound_of(*bound)).map(|text| Value::Text(text.to_owned()))
            }
            NodeKind::Text { wide: true, bound } => {
                WString::deserialize_bounded(reader, Limits::new(&[bound_of(*bound)], &[]))
                    .map(|text| Value::Text(text.0))
            }
            NodeKind::Fixed { digits, scale } => {
                read_fixed(reader, *digits).map(|units| Value::Fixed { units, scale: *scale })
            }
            NodeKind::Sequence { element, bound } => {
                let least = self.least.of(graph, element.of);
                let open = match is_primitive(graph, element) {
                    true => None,
                    false => Some(reader.begin_delimited()?),
                };
                let count = reader.read_length(least, bound_of(*bound))?;
                let mut parts = Vec::new();
                if open.is_some() {
                    reader.enter()?;
                }
                for _ in 0..count {
                    parts.push(self.try_element(element, reader)?);
                }
                if let Some(open) = open {
                    reader.leave();
                    reader.end_delimited(open)?;
                }
                Ok(Value::Collection(parts))
            }
            NodeKind::Array { element, count } => {
                if is_primitive_row(graph, element) {
                    return self.read_row(element, *count, reader);
                }
                let open = reader.begin_delimited()?;
                let row = self.read_row(element, *count, reader)?;
                reader.end_delimited(open)?;
                Ok(row)
            }
            NodeKind::Map { key, value, bound } => {
                let delimited = !(is_primitive(graph, key) && is_primitive(graph, value));
                let open = if delimited { Some(reader.begin_delimited()?) } else { None };
                let offset = reader.position();
                let least = self.least.of(graph, key.of);
                let least = least.saturating_add(self.least.of(graph, value.of));
                let count = reader.read_length(least, bound_of(*bound))?;
                reader.enter()?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    let key = self.try_element(key, reader)?;
                    entries.push((key, self.try_element(value, reader)?));
                }
                reader.leave();
                open.map_or(Ok(()), |open| reader.end_delimited(open))?;
                entries.sort_by(|(one, _), (other, _)| one.order(other));
                if entries.windows(2).any(|two| two[0].0.order(&two[1].0).is_eq()) {
                    reader.fault(CdrError::DuplicateKey { offset })?;
                    entries.dedup_by(|one, other| one.0.order(&other.0).is_eq());
                }
                Ok(Value::Map(entries))
            }
            NodeKind::Enumeration { bit_bound, literals, .. } => {
                let offset = reader.position();
                let found = read_bits(reader, *bit_bound)? as u32;
                let mask = u32::MAX >> (32 - 8 * bytes_for(*bit_bound));
                let literal = literals.iter().find(|one| one.value as u32 & mask == found);
                let Some(literal) = literal else {
                    reader.fault(CdrError::UnknownEnumerator { offset, type_name: NAME, found })?;
                    return Ok(default_of(graph, of));
                };
                Ok(Value::Enumerator { value: literal.value, name: literal.name.text.clone() })
            }
            NodeKind::Bitmask { bit_bound, .. } => {
                read_bits(reader, *bit_bound).map(Value::Bitmask)
            }
            NodeKind::Bitset(fields) => {
                let number = read_bits(reader, total_bits(fields))?;
                let part = |field: &crate::model::BitField| {
                    let bits = number >> field.position & (u64::MAX >> (64 - field.bits));
                    match default_of(graph, field.of) {
                        Value::Bool(_) => Value::Bool(bits == 1),
                        Value::Signed(_) => {
                            let free = 64 - field.bits;
                            Value::Signed((bits << free) as i64 >> free)
                        }
                        _ => Value::Unsigned(bits),
                    }
                };
                Ok(Value::Structure(fields.iter().map(part).collect()))
            }
            NodeKind::Structure(structure) => self.read_struct(structure, reader),
            NodeKind::Union(union) => self.read_union(of, union, reader),
            NodeKind::Alias(_) | NodeKind::Later => Ok(Value::Absent),
        }
    }

    fn read_element(
        &mut self,
        of: &Element,
        reader: &mut CdrReader<'_>,
        relaxed: bool,
    ) -> Result<Value, CdrError> {
        if !of.external {
            return self.read(of.of, reader, relaxed);
        }
        reader.enter()?;
        let value = self.read(of.of, reader, relaxed)?;
        reader.leave();
        Ok(value)
    }

    fn read_row(
        &mut self,
        of: &Element,
        count: u32,
        reader: &mut CdrReader<'_>,
    ) -> Result<Value, CdrError> {
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(match self.graph.kind(of.of) {
                NodeKind::Array { element, count } if !of.external => {
                    self.read_row(element, *count, reader)?
                }
                _ => self.try_element(of, reader)?,
            });
        }
        Ok(Value::Collection(parts))
    }

    fn read_struct(
        &mut self,
        of: &'a Structure,
        reader: &mut CdrReader<'_>,
    ) -> Result<Value, CdrError> {
        let graph = self.graph;
        let members = graph.members(of);
        let default = |member: &StructureMember| default_of_member(graph, member);
        if reader.is_of_keys() && of.extensibility != Extensibility::Mutable {
            let mut parts: Vec<Value> = members.iter().map(|member| default(member)).collect();
            let open = match of.extensibility {
                Extensibility::Final => None,
                _ => Some(reader.begin_delimited()?),
            };
            let mut keys = key_members(&members);
            keys.sort_by_key(|(index, _)| *index);
            for (index, member) in keys {
                parts[index] = self.read_member(member, reader, MemberFraming::Plain)?;
            }
            if let Some(open) = open {
                reader.skip_delimited(open);
            }
            return Ok(Value::Structure(parts));
        }
        let mut parts = Vec::with_capacity(members.len());
        match of.extensibility {
            Extensibility::Final => {
                for member in members {
                    parts.push(self.read_member(member, reader, MemberFraming::Plain)?);
                }
            }
            Extensibility::Appendable => {
                let open = reader.begin_delimited()?;
                for member in members {
                    parts.push(match reader.lacks_more() {
                        true => default(member),
                        false => self.read_member(member, reader, MemberFraming::Plain)?,
                    });
                }
                reader.skip_delimited(open);
            }
            Extensibility::Mutable => {
                let open = reader.begin_delimited()?;
                parts.extend(members.iter().map(|member| default(member)));
                self.read_parameters(&members, &mut parts, reader)?;
                reader.skip_delimited(open);
            }
        }
        Ok(Value::Structure(parts))
    }

    fn read_parameters(
        &mut self,
        members: &[&'a StructureMember],
        parts: &mut [Value],
        reader: &mut CdrReader<'_>,
    ) -> CdrResult {
        let mut missing: Vec<u32> =
            members.iter().filter(|member| member.key).map(|member| member.id).collect();
        while let Some(parameter) = reader.next_parameter()? {
            let (offset, id) = (parameter.offset, parameter.id);
            let known = members.iter().position(|member| member.id == id);
            match known.filter(|_| !parameter.ignored) {
                Some(place) => {
                    parts[place] =
                        self.read_member(members[place], reader, MemberFraming::Parameters)?;
                    require_end(reader)?;
                    missing.retain(|missing| *missing != id);
                }
                None if parameter.must_understand => {
                    return Err(CdrError::UnknownMember { offset, type_name: NAME, id });
                }
                None => {}
            }
            reader.end_parameter(parameter);
        }
        match missing.first() {
            Some(&id) => {
                let offset = reader.position();
                Err(CdrError::MissingMember { offset, type_name: NAME, id })
            }
            None => Ok(()),
        }
    }

    fn read_member(
        &mut self,
        member: &'a StructureMember,
        reader: &mut CdrReader<'_>,
        form: MemberFraming,
    ) -> Result<Value, CdrError> {
        self.enter(&member.name.text, reader.position())?;
        let value = match member.try_construct {
            TryConstruct::Discard => self.read_inside(member, reader, form, false)?,
            _ => self.try_member(member, reader, form)?,
        };
        self.path.pop();
        Ok(value)
    }

    /// Reads a member and applies its `try_construct`.
    fn try_member(
        &mut self,
        member: &'a StructureMember,
        reader: &mut CdrReader<'_>,
        form: MemberFraming,
    ) -> Result<Value, CdrError> {
        let graph = self.graph;
        let default = || default_of_member(graph, member);
        self.read_tried(
            member.try_construct,
            member.of,
            reader,
            default,
            |traversal, reader, relaxed| match form {
                MemberFraming::Plain => traversal.read_inside(member, reader, form, relaxed),
                MemberFraming::Parameters => reader.read_confined(default, |reader| {
                    traversal.read_inside(member, reader, form, relaxed)
                }),
            },
        )
    }

    /// Reads an element and applies its `try_construct`.
    fn try_element(&mut self, of: &Element, reader: &mut CdrReader<'_>) -> Result<Value, CdrError> {
        if of.try_construct == TryConstruct::Discard {
            return self.read_element(of, reader, false);
        }
        let graph = self.graph;
        let default = || default_of(graph, of.of);
        self.read_tried(of.try_construct, of.of, reader, default, |traversal, reader, relaxed| {
            traversal.read_element(of, reader, relaxed)
        })
    }

    /// Reads a value, and applies the action if its type does not allow the value.
    fn read_tried(
        &mut self,
        how: TryConstruct,
        of: TypeNodeId,
        reader: &mut CdrReader<'_>,
        default: impl Fn() -> Value,
        read: impl FnOnce(&mut Self, &mut CdrReader<'_>, bool) -> Result<Value, CdrError>,
    ) -> Result<Value, CdrError> {
        let trims = how == TryConstruct::Trim;
        let depth = self.path.len();
        let (mut value, fault) = reader.leniently(|reader| read(self, reader, trims))?;
        self.path.truncate(depth);
        match (how, fault) {
            (TryConstruct::UseDefault, Some(_)) => return Ok(default()),
            (_, Some(error)) => reader.fault(error)?,
            (_, None) => {}
        }
        if trims {
            trim(self.graph, of, &mut value);
        }
        Ok(value)
    }

    pub(super) fn read_inside(
        &mut self,
        member: &StructureMember,
        reader: &mut CdrReader<'_>,
        form: MemberFraming,
        relaxed: bool,
    ) -> Result<Value, CdrError> {
        let (of, external) = (member.of, member.external);
        let element = Element { of, external, try_construct: TryConstruct::Discard };
        if form == MemberFraming::Parameters || !member.optional {
            return self.read_element(&element, reader, relaxed);
        }
        if reader.encoding().version == CdrVersion::Xcdr2 {
            return match reader.read_bool()? {
                true => self.read_element(&element, reader, relaxed),
                false => Ok(Value::Absent),
            };
        }
        let (offset, expected) = (reader.position(), member.id);
        let Some(parameter) = reader.next_parameter()? else {
            return Err(CdrError::UnexpectedMember { offset, expected, found: None });
        };
        if parameter.id != expected {
            let found = Some(parameter.id);
            return Err(CdrError::UnexpectedMember { offset, expected, found });
        }
        let value = match reader.remaining() {
            0 => Value::Absent,
            _ => self.read_element(&element, reader, relaxed)?,
        };
        reader.end_parameter(parameter);
        Ok(value)
    }

    fn read_union(
        &mut self,
        id: TypeNodeId,
        of: &'a Union,
        reader: &mut CdrReader<'_>,
    ) -> Result<Value, CdrError> {
        if of.extensibility == Extensibility::Final {
            return self.union_members(id, of, reader);
        }
        let depth = self.path.len();
        let open = reader.begin_delimited()?;
        let value = match of.extensibility {
            Extensibility::Mutable => self.union_parameters(of, reader),
            _ => self.union_members(id, of, reader),
        };
        match value {
            Ok(value) => {
                reader.skip_delimited(open);
                Ok(value)
            }
            Err(error) => {
                reader.skip_union(open, error, of.discriminator.try_construct)?;
                self.path.truncate(depth);
                Ok(default_of(self.graph, id))
            }
        }
    }

    /// Reads the discriminator and the member in sequence.
    fn union_members(
        &mut self,
        id: TypeNodeId,
        of: &'a Union,
        reader: &mut CdrReader<'_>,
    ) -> Result<Value, CdrError> {
        let may_end = of.extensibility == Extensibility::Appendable;
        if may_end && reader.lacks_more() {
            return Ok(default_of(self.graph, id));
        }
        let mut held = self.begin_case(of, reader, MemberFraming::Plain)?;
        let is_key = reader.is_of_keys() && of.discriminator.key;
        let is_short = may_end && reader.lacks_more();
        if let Some(member) = &of.cases[held.case].member
            && !is_key
            && !is_short
        {
            held.member = self.read_member(member, reader, MemberFraming::Plain)?;
        }
        Ok(Value::Union(Box::new(held)))
    }

    /// Reads the discriminator and the member by their ids; the discriminator comes first.
    fn union_parameters(
        &mut self,
        of: &'a Union,
        reader: &mut CdrReader<'_>,
    ) -> Result<Value, CdrError> {
        let mut held: Option<UnionValue> = None;
        while let Some(parameter) = reader.next_parameter()? {
            let (offset, id) = (parameter.offset, parameter.id);
            let selected = held.as_ref().and_then(|held| of.cases[held.case].member.as_ref());
            if parameter.ignored {
            } else if id == of.discriminator.id {
                let begun = self.begin_case(of, reader, MemberFraming::Parameters)?;
                require_end(reader)?;
                held = Some(begun);
            } else if let (Some(held), Some(member)) =
                (&mut held, selected.filter(|member| member.id == id))
            {
                held.member = self.read_member(member, reader, MemberFraming::Parameters)?;
                require_end(reader)?;
            } else if parameter.must_understand {
                return Err(CdrError::UnknownMember { offset, type_name: NAME, id });
            }
            reader.end_parameter(parameter);
        }
        let (offset, id) = (reader.position(), of.discriminator.id);
        let missing = CdrError::MissingMember { offset, type_name: NAME, id };
        held.map(|held| Value::Union(Box::new(held))).ok_or(missing)
    }

    /// Reads the discriminator, and starts the case that it selects.
    fn begin_case(
        &mut self,
        of: &'a Union,
        reader: &mut CdrReader<'_>,
        form: MemberFraming,
    ) -> Result<UnionValue, CdrError> {
        let unknown =
            |offset, found| CdrError::UnknownDiscriminator { offset, type_name: NAME, found };
        let (offset, member) = (reader.position(), &of.discriminator);
        self.enter(&member.name.text, offset)?;
        let read = reader.strictly(|reader| self.read_inside(member, reader, form, false));
        let discriminator = read.map_err(|error| match error {
            // A number that is not an enumerator also selects nothing.
            CdrError::UnknownEnumerator { offset, found, .. } => unknown(offset, found.into()),
            error => error,
        })?;
        self.path.pop();
        let found = discriminator.label();
        let case = case_of(of, found).ok_or(unknown(offset, found))?;
        let held = union_of_case(self.graph, of, case);
        Ok(UnionValue { discriminator, ..held })
    }
}

/// Checks that a parameter of XCDR2 ends where its value does.
fn require_end(reader: &CdrReader<'_>) -> CdrResult {
    let left = reader.remaining();
    if left > 0 && reader.encoding().version == CdrVersion::Xcdr2 {
        return Err(CdrError::SizeMismatch { offset: reader.position(), left });
    }
    Ok(())
}

fn trim(graph: &TypeGraph, of: TypeNodeId, value: &mut Value) {
    match (graph.kind(of), value) {
        (NodeKind::Text { wide: false, bound }, Value::Text(text)) if *bound != NO_BOUND => {
            text.truncate(text.floor_char_boundary(*bound as usize));
        }
        (NodeKind::Text { wide: true, bound }, Value::Text(text)) if *bound != NO_BOUND => {
            let mut wide = WString(std::mem::take(text));
            wide.trim_to(*bound);
            *text = wide.0;
        }
        (NodeKind::Sequence { bound, .. }, Value::Collection(parts)) if *bound != NO_BOUND => {
            parts.truncate(*bound as usize);
        }
        (NodeKind::Map { bound, .. }, Value::Map(entries)) if *bound != NO_BOUND => {
            entries.truncate(*bound as usize);
        }
        _ => {}
    }
}

/// Reads a number or character.
pub(in crate::data) fn read_primitive(
    of: Primitive,
    reader: &mut CdrReader<'_>,
) -> Result<Value, CdrError> {
    Ok(match of {
        Primitive::Boolean => Value::Bool(reader.read_bool()?),
        Primitive::Byte | Primitive::Uint8 => Value::Unsigned(reader.read_u8()?.into()),
        Primitive::Int8 => Value::Signed(reader.read_i8()?.into()),
        Primitive::Int16 => Value::Signed(reader.read_i16()?.into()),
        Primitive::Int32 => Value::Signed(reader.read_i32()?.into()),
        Primitive::Int64 => Value::Signed(reader.read_i64()?),
        Primitive::Uint16 => Value::Unsigned(reader.read_u16()?.into()),
        Primitive::Uint32 => Value::Unsigned(reader.read_u32()?.into()),
        Primitive::Uint64 => Value::Unsigned(reader.read_u64()?),
        Primitive::Float32 => Value::Float(reader.read_f32()?),
        Primitive::Float64 => Value::Double(reader.read_f64()?),
        Primitive::Float128 => Value::LongDouble(LongDouble::deserialize(reader)?),
        Primitive::Char8 => Value::Char(char::deserialize(reader)?),
        Primitive::Char16 => Value::WideChar(WChar::deserialize(reader)?),
    })
}
