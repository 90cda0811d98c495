//! Text form of an `any`.
//!
//! Owns the choice of what to show: the value by the type it carries, if text can express all of
//! its bytes; otherwise the bytes, as for any struct of two sequences.

use std::fmt::{self, Write};

use super::parse::{Parsed, Parser};
use super::print::Printer;
use crate::data::{DynamicData, Value, cdr};
use crate::{Any, DynamicType};
use idl_cdr::Encoding;

/// Maximum nesting of `any` values shown by their types; deeper ones are shown as bytes.
pub(super) const MOST_IN_EACH_OTHER: usize = 8;

impl Printer<'_> {
    /// Prints the value, and returns whether it was printed; a value that only bytes can express is
    /// not printed.
    pub(super) fn any(&mut self, value: &Value, level: usize) -> Result<bool, fmt::Error> {
        let Some(any) = Any::from_value(value) else { return Ok(false) };
        if any.is_empty() {
            self.out.push_str("{}");
            return Ok(true);
        }
        let Some((anys, held)) =
            self.anys.checked_sub(1).and_then(|anys| Some((anys, shown(&any)?)))
        else {
            return Ok(false);
        };
        let open = |printer: &mut Self, name: &str| {
            printer.line(level + 1)?;
            printer.name(name)?;
            printer.out.write_str(": ")
        };
        self.out.push('{');
        open(self, "type")?;
        self.name(held.of().name())?;
        self.out.push(',');
        open(self, "type_objects")?;
        self.out.push('"');
        any.type_objects().iter().try_for_each(|byte| write!(self.out, "{byte:02x}"))?;
        self.out.push_str("\",");
        open(self, "value")?;
        let out = std::mem::take(&mut self.out);
        let mut inside = Printer { graph: &held.of().graph, out, style: self.style, anys };
        inside.value(held.of().root, held.whole(), level + 1)?;
        self.out = inside.out;
        self.line(level)?;
        self.out.push('}');
        Ok(true)
    }
}

/// Returns the contents, if writing them again gives the same bytes.
fn shown(any: &Any) -> Option<DynamicData> {
    let held = any.data().ok()?;
    (Any::of_data(&held).ok()? == *any).then_some(held)
}

impl Parser<'_> {
    /// Reads the members of an `any`. `type` is for human readers. After `type_objects` in
    /// hexadecimal digits, `value` is of that type.
    pub(super) fn any(&mut self, octets: crate::model::TypeNodeId) -> Parsed<Value> {
        let mut parts = vec![Value::Collection(Vec::new()), Value::Collection(Vec::new())];
        let mut told: Option<DynamicType> = None;
        self.members("an any", |parser, at, name| {
            match name {
                "type" => drop(parser.word("the name of a type")?),
                "type_objects" if parser.is_quoted() => {
                    let (at, digits) = parser.word("hexadecimal digits")?;
                    let Some(type_objects) = bytes_of(&digits) else {
                        return Err((at, "expected bytes in hexadecimal digits".to_owned()));
                    };
                    let any = Any::of_parts(type_objects, Vec::new());
                    told = Some(any.dynamic_type().map_err(|error| (at, error.to_string()))?);
                    parts = parts_of(&any);
                }
                "type_objects" => parts[0] = parser.value(octets)?,
                "value" => {
                    parts[1] = match told.take() {
                        Some(of) => parser.held(&of)?,
                        None => parser.value(octets)?,
                    }
                }
                _ => {
                    let text = "its members are type, type_objects, value";
                    return Err((at, format!("an any has no member `{name}`; {text}")));
                }
            }
            Ok(())
        })?;
        if let Some(of) = told {
            let held = DynamicData::new(&of);
            parts[1] = parts_of(&payload(self.at, &of, held.whole())?).remove(1);
        }
        Ok(Value::Structure(parts))
    }

    /// Reads a value of another type than the text's, and returns its payload.
    fn held(&mut self, of: &DynamicType) -> Parsed<Value> {
        let path = std::mem::take(&mut self.path);
        let mut inside = Parser { graph: &of.graph, text: self.text, at: self.at, path };
        let value = inside.value(of.root);
        (self.at, self.path) = (inside.at, inside.path);
        Ok(parts_of(&payload(self.at, of, &value?)?).remove(1))
    }
}

fn payload(at: usize, of: &DynamicType, value: &Value) -> Parsed<Any> {
    let payload = cdr::write(of, value, Encoding::PLAIN_CDR2_LE);
    let payload = payload.map_err(|error| (at, error.to_string()))?;
    Ok(Any::of_parts(Vec::new(), payload))
}

fn parts_of(any: &Any) -> Vec<Value> {
    match any.to_value() {
        Value::Structure(parts) => parts,
        _ => Vec::new(),
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| (*digit as char).to_digit(16);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some((digit(high)? << 4 | digit(low)?) as u8);
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}
