//! Writing of values to bytes.
//!
//! Owns the order in which parts are written. Values are compared with their types before they
//! arrive here, so a value of another type is a bug of this crate.

use idl_cdr::derived::{write_bits, write_fixed};
use idl_cdr::{
    CdrError, CdrVersion, CdrWriter, DdsType, Extensibility, KeyForm, MemberFraming, TryConstruct,
    WString,
};

use super::{CdrResult, CdrTraversal, NAME, bound_of, form_of};
use crate::data::layout::{
    field_bits, is_primitive, is_primitive_row, key_members, length_code, total_bits,
};
use crate::data::{UnionValue, Value};
use crate::model::{Element, NodeKind, Primitive, Structure, StructureMember, TypeNodeId, Union};

impl<'a> CdrTraversal<'a> {
    pub(super) fn write(
        &mut self,
        of: TypeNodeId,
        value: &Value,
        writer: &mut CdrWriter<'_>,
    ) -> CdrResult {
        let graph = self.graph;
        match (graph.kind(of), value) {
            (NodeKind::Primitive(primitive), value) => write_primitive(*primitive, value, writer),
            (NodeKind::Text { wide: false, bound }, Value::Text(text)) => {
                writer.write_string(text, bound_of(*bound))
            }
            (NodeKind::Text { wide: true, bound }, Value::Text(text)) => {
                WString(text.clone()).serialize_bounded(writer, &[bound_of(*bound)])
            }
            (NodeKind::Fixed { digits, .. }, Value::Fixed { units, .. }) => {
                write_fixed(writer, *units, *digits)
            }
            (NodeKind::Sequence { element, bound }, Value::Collection(parts)) => {
                if is_primitive(graph, element) {
                    writer.write_length(parts.len(), bound_of(*bound))?;
                    return parts.iter().try_for_each(|part| self.write(element.of, part, writer));
                }
                let open = writer.begin_delimited()?;
                writer.write_length(parts.len(), bound_of(*bound))?;
                writer.enter()?;
                parts.iter().try_for_each(|part| self.write_element(element, part, writer))?;
                writer.leave();
                writer.end_delimited(open)
            }
            (NodeKind::Array { element, .. }, Value::Collection(parts)) => {
                if is_primitive_row(graph, element) {
                    return self.write_row(element, parts, writer);
                }
                let open = writer.begin_delimited()?;
                self.write_row(element, parts, writer)?;
                writer.end_delimited(open)
            }
            (NodeKind::Map { key, value: of_value, bound }, Value::Map(entries)) => {
                let delimited = !(is_primitive(graph, key) && is_primitive(graph, of_value));
                let open = if delimited { Some(writer.begin_delimited()?) } else { None };
                writer.write_length(entries.len(), bound_of(*bound))?;
                writer.enter()?;
                for (one, other) in entries {
                    self.write_element(key, one, writer)?;
                    self.write_element(of_value, other, writer)?;
                }
                writer.leave();
                open.map_or(Ok(()), |open| writer.end_delimited(open))
            }
            (NodeKind::Enumeration { bit_bound, .. }, Value::Enumerator { value, .. }) => {
                write_bits(writer, u64::from(*value as u32), *bit_bound)
            }
            (NodeKind::Bitmask { bit_bound, .. }, Value::Bitmask(bits)) => {
                write_bits(writer, *bits, *bit_bound)
            }
            (NodeKind::Bitset(fields), Value::Structure(parts)) => {
                let mut number = 0;
                for (field, part) in fields.iter().zip(parts) {
                    let bits = CdrError::BitsExceeded { bits: field.bits };
                    number |= field_bits(field, part).ok_or(bits)? << field.position;
                }
                write_bits(writer, number, total_bits(fields))
            }
            (NodeKind::Structure(of), Value::Structure(parts)) => {
                self.write_struct(of, parts, writer)
            }
            (NodeKind::Union(of), Value::Union(held)) => self.write_union(of, held, writer),
            _ => Err(CdrError::NoLabel { offset: writer.position(), type_name: NAME }),
        }
    }

    fn write_element(
        &mut self,
        of: &Element,
        value: &Value,
        writer: &mut CdrWriter<'_>,
    ) -> CdrResult {
        if !of.external {
            return self.write(of.of, value, writer);
        }
        writer.enter()?;
        self.write(of.of, value, writer)?;
        writer.leave();
        Ok(())
    }

    /// Writes the elements of an array. An array of arrays has the elements of one array.
    fn write_row(
        &mut self,
        of: &Element,
        parts: &[Value],
        writer: &mut CdrWriter<'_>,
    ) -> CdrResult {
        if let NodeKind::Array { element, .. } = self.graph.kind(of.of)
            && !of.external
        {
            return parts.iter().try_for_each(|part| match part {
                Value::Collection(parts) => self.write_row(element, parts, writer),
                _ => Ok(()),
            });
        }
        parts.iter().try_for_each(|part| self.write_element(of, part, writer))
    }

    fn write_struct(
        &mut self,
        of: &'a Structure,
        parts: &[Value],
        writer: &mut CdrWriter<'_>,
    ) -> CdrResult {
        let members = self.graph.members(of);
        let mut written = key_members(&members);
        match writer.key_form() {
            Some(KeyForm::Hash) => {
                return written.into_iter().try_for_each(|(index, member)| {
                    self.write_member(member, &parts[index], writer, MemberFraming::Plain)
                });
            }
            Some(KeyForm::Payload) => written.sort_by_key(|(index, _)| *index),
            None => written = members.into_iter().enumerate().collect(),
        }
        let open = match of.extensibility {
            Extensibility::Final => None,
            _ => Some(writer.begin_delimited()?),
        };
        let form = form_of(of.extensibility);
        written.into_iter().try_for_each(|(index, member)| {
            self.write_member(member, &parts[index], writer, form)
        })?;
        if of.extensibility == Extensibility::Mutable {
            writer.end_parameters()?;
        }
        open.map_or(Ok(()), |open| writer.end_delimited(open))
    }

    fn write_member(
        &mut self,
        member: &'a StructureMember,
        value: &Value,
        writer: &mut CdrWriter<'_>,
        form: MemberFraming,
    ) -> CdrResult {
        self.enter(&member.name.text, writer.position())?;
        let is_absent = *value == Value::Absent;
        let id = member.id;
        match form {
            MemberFraming::Parameters if is_absent && member.optional => {}
            MemberFraming::Parameters => {
                let code = length_code(self.graph, member.of);
                let open = writer.begin_parameter(id, member.must_understand, code)?;
                self.write_inside(member, value, writer)?;
                writer.end_parameter(open)?;
            }
            MemberFraming::Plain if !member.optional => self.write_inside(member, value, writer)?,
            MemberFraming::Plain if writer.encoding().version == CdrVersion::Xcdr2 => {
                writer.write_bool(!is_absent)?;
                if !is_absent {
                    self.write_inside(member, value, writer)?;
                }
            }
            MemberFraming::Plain => {
                let open = writer.begin_parameter(id, member.must_understand, 4)?;
                if !is_absent {
                    self.write_inside(member, value, writer)?;
                }
                writer.end_parameter(open)?;
            }
        }
        self.path.pop();
        Ok(())
    }

    fn write_inside(
        &mut self,
        member: &StructureMember,
        value: &Value,
        writer: &mut CdrWriter<'_>,
    ) -> CdrResult {
        let (of, external) = (member.of, member.external);
        let element = Element { of, external, try_construct: TryConstruct::Discard };
        self.write_element(&element, value, writer)
    }

    fn write_union(
        &mut self,
        of: &'a Union,
        held: &UnionValue,
        writer: &mut CdrWriter<'_>,
    ) -> CdrResult {
        let is_whole = writer.key_form().is_none() || !of.discriminator.key;
        let is_flat =
            writer.key_form() == Some(KeyForm::Hash) || of.extensibility == Extensibility::Final;
        let open = if is_flat { None } else { Some(writer.begin_delimited()?) };
        let form = if is_flat { MemberFraming::Plain } else { form_of(of.extensibility) };
        self.write_member(&of.discriminator, &held.discriminator, writer, form)?;
        let member = of.cases.get(held.case).and_then(|case| case.member.as_ref());
        if let Some(member) = member.filter(|_| is_whole) {
            self.write_member(member, &held.member, writer, form)?;
        }
        if form == MemberFraming::Parameters {
            writer.end_parameters()?;
        }
        open.map_or(Ok(()), |open| writer.end_delimited(open))
    }
}

fn write_primitive(of: Primitive, value: &Value, writer: &mut CdrWriter<'_>) -> CdrResult {
    match (of, value) {
        (Primitive::Int8, Value::Signed(value)) => writer.write_i8(*value as i8),
        (Primitive::Int16, Value::Signed(value)) => writer.write_i16(*value as i16),
        (Primitive::Int32, Value::Signed(value)) => writer.write_i32(*value as i32),
        (Primitive::Int64, Value::Signed(value)) => writer.write_i64(*value),
        (Primitive::Uint16, Value::Unsigned(value)) => writer.write_u16(*value as u16),
        (Primitive::Uint32, Value::Unsigned(value)) => writer.write_u32(*value as u32),
        (Primitive::Uint64, Value::Unsigned(value)) => writer.write_u64(*value),
        (_, Value::Unsigned(value)) => writer.write_u8(*value as u8),
        (_, Value::Bool(value)) => writer.write_bool(*value),
        (_, Value::Float(value)) => writer.write_f32(*value),
        (_, Value::Double(value)) => writer.write_f64(*value),
        (_, Value::LongDouble(value)) => value.serialize(writer),
        (_, Value::Char(value)) => value.serialize(writer),
        (_, Value::WideChar(value)) => value.serialize(writer),
        _ => Err(CdrError::NoLabel { offset: writer.position(), type_name: NAME }),
    }
}
