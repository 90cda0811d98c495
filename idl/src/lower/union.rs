//! Lowering of unions.

use std::collections::HashMap;

use crate::annotation::AnnotationPlace;
use crate::constant::Value;
use crate::diagnostic::Checked;
use crate::model::{Case, NamedKind, Primitive, TryConstruct, Type, TypeNotes, Union};
use crate::scope::Meaning;
use crate::source::Span;
use crate::syntax::{self, AnnotationsAndDocs, Label};

use super::structure::is_within;
use super::{Lowering, MemberIds};

/// Names and labels that earlier cases have taken.
#[derive(Default)]
struct EarlierCases {
    names: HashMap<String, Span>,
    labels: HashMap<i128, Span>,
    default: Option<Span>,
}

impl Lowering<'_> {
    pub(super) fn union(
        &mut self,
        union: &syntax::Union,
        notes: &AnnotationsAndDocs,
    ) -> Checked<Union> {
        let name = self.full_name(&union.name);
        let ty = self.named(&union.name, NamedKind::Union);
        self.declare(&union.name, Meaning::Incomplete(ty.clone()))?;
        let mut found = self.found(notes, AnnotationPlace::Union);
        let type_notes = self.type_notes(notes, &mut found);
        let was_in_body = std::mem::replace(&mut self.scopes.in_body, true);
        let made = self.cases(union, type_notes.hashed_ids == Some(true));
        self.scopes.in_body = was_in_body;
        // The union is declared even with errors inside, so that its uses are not errors too.
        self.declare(&union.name, Meaning::Type(ty))?;
        let made = made?;
        let sizes = made.cases.iter().map(|case| self.size_of(&case.member.ty));
        let size = sizes.max().unwrap_or(0).saturating_add(8);
        self.check_value(&name, size, union.name.span);
        Ok(Union { name, notes: type_notes, ..made })
    }

    /// Lowers the union without its name and annotations.
    fn cases(&mut self, union: &syntax::Union, hashed: bool) -> Checked<Union> {
        let spec = &union.discriminator;
        let found = self.evaluator().annotations(&spec.annotations, AnnotationPlace::Discriminator);
        let discriminator = self.complete_type(spec)?;
        let values = self.count_values(&discriminator);
        let Some(values) = values else {
            let text = format!(
                "a discriminator is an integer, a character, a boolean, an enumerator or a \
                 bitmask, not of type {discriminator}"
            );
            return Err(self.reports.error(spec.span, text));
        };
        if union.cases.is_empty() {
            let text = format!("the union `{}` has no cases", union.name.text);
            return Err(self.reports.error(union.name.span, text));
        }
        let inherited = self.inherited(&discriminator);
        let default = match found.default {
            // An error in the default has been reported.
            Some(default) => self.value(default, Some(&discriminator)).ok(),
            None => inherited.default,
        };
        let (min, max) = self.range(&found, &discriminator).unwrap_or_default();
        let range = (min.or(inherited.range.0), max.or(inherited.range.1));
        if let (Some(value), Some(at)) = (&default, found.default)
            && !is_within(value, range.0.as_ref(), range.1.as_ref())
        {
            let text = format!("the default {value} is outside of the discriminator's range");
            self.reports.error(at.span, text);
        }
        let try_construct = found.try_construct.or(inherited.try_construct);
        if try_construct == Some(TryConstruct::Trim) {
            let text = "a discriminator cannot be trimmed; use `USE_DEFAULT` or `DISCARD`";
            self.reports.error(spec.span, text);
        }
        let mut taken = EarlierCases::default();
        let mut cases = Vec::new();
        for case in &union.cases {
            // The error has been reported; the other cases are still read.
            if let Ok(case) = self.case(case, &discriminator, &mut taken) {
                cases.push(case);
            }
        }
        let spans = union.cases.iter().map(|case| case.declarator.name.span);
        if cases.len() == union.cases.len() {
            // The discriminator is member 0.
            let taken = [(0, spec.span)].into();
            let mut ids = MemberIds { taken, next: 1, hashed };
            self.check_ids(cases.iter().map(|case| &case.member).zip(spans), &mut ids);
        }
        let covered = taken.labels.len() as u64 >= values;
        if let Some(span) = taken.default
            && covered
        {
            self.reports
                .warning(span, "every value has a case, so the default case is unreachable");
        }
        Ok(Union {
            name: self.full_name(&union.name),
            notes: TypeNotes::default(),
            discriminator,
            key: found.key.unwrap_or(false),
            default,
            try_construct,
            cases,
            open: taken.default.is_none() && !covered,
        })
    }

    fn case(
        &mut self,
        case: &syntax::Case,
        discriminator: &Type,
        taken: &mut EarlierCases,
    ) -> Checked<Case> {
        let found = self.found(&case.notes, AnnotationPlace::Case);
        let mut values = Vec::new();
        let mut is_default = false;
        for label in &case.labels {
            match label {
                Label::Case(expression) => {
                    let value = self.value(expression, Some(discriminator))?;
                    if let Some(other) = taken.labels.get(&number(&value)) {
                        let text = format!("there is a case {value} already");
                        return Err(self.reports.error_with(
                            expression.span,
                            text,
                            *other,
                            "first case here",
                        ));
                    }
                    taken.labels.insert(number(&value), expression.span);
                    values.push(value);
                }
                Label::Default(span) => {
                    if let Some(other) = taken.default.replace(*span) {
                        let text = "there is a default case already";
                        return Err(self.reports.error_with(
                            *span,
                            text,
                            other,
                            "first default case here",
                        ));
                    }
                    is_default = true;
                }
            }
        }
        self.take_name(&case.declarator, &mut taken.names)?;
        let base = self.type_of(&case.ty, !found.external)?;
        let member = self.member(&base, &case.declarator, &case.notes, &found)?;
        Ok(Case { labels: values, default: is_default, member })
    }

    /// Number of values of a discriminator type; `None` if the type cannot be one.
    fn count_values(&self, ty: &Type) -> Option<u64> {
        Some(match ty.resolved() {
            Type::Primitive(primitive) => match primitive {
                Primitive::Boolean => 2,
                Primitive::Octet | Primitive::Int8 | Primitive::Uint8 | Primitive::Char => 1 << 8,
                Primitive::Int16 | Primitive::Uint16 => 1 << 16,
                Primitive::Int32 | Primitive::Uint32 | Primitive::WChar => 1 << 32,
                Primitive::Int64 | Primitive::Uint64 => u64::MAX,
                Primitive::Float | Primitive::Double | Primitive::LongDouble => return None,
            },
            Type::Named(name, NamedKind::Enum) => {
                self.literals.get(&**name).map_or(u64::MAX, |literals| literals.len() as u64)
            }
            // Unnamed bits are values as well.
            Type::Named(_, NamedKind::Bitmask) => u64::MAX,
            _ => return None,
        })
    }
}

/// Returns the number of a label in its discriminator's type.
fn number(label: &Value) -> i128 {
    match label {
        Value::Integer(number) => *number,
        Value::Boolean(value) => i128::from(*value),
        Value::Char(character) => i128::from(u32::from(*character)),
        Value::Enumerator { value, .. } => i128::from(*value),
        // A discriminator has no other kind of value.
        _ => 0,
    }
}
