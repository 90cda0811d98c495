//! Lowering of enums.

use std::collections::HashMap;
use std::rc::Rc;

use crate::annotation::AnnotationPlace;
use crate::constant::Value;
use crate::diagnostic::Checked;
use crate::model::{Enum, Enumerator, NamedKind};
use crate::scope::Meaning;
use crate::source::Span;
use crate::syntax::{self, AnnotationsAndDocs};

use super::{Lowering, docs};

impl Lowering<'_> {
    pub(super) fn enumeration(
        &mut self,
        syntax: &syntax::Enum,
        notes: &AnnotationsAndDocs,
    ) -> Checked<Enum> {
        let name = self.full_name(&syntax.name);
        let ty = self.named(&syntax.name, NamedKind::Enum);
        self.declare(&syntax.name, Meaning::Type(ty))?;
        let mut found = self.found(notes, AnnotationPlace::Enum);
        let type_notes = self.type_notes(notes, &mut found);
        let bit_bound = match found.bit_bound {
            Some((bits, span)) if bits > 32 => {
                self.reports.error(span, "an enum has 1 to 32 bits");
                32
            }
            Some((bits, _)) => bits,
            None => 32,
        };
        // The encodings reserve one bit for the sign.
        let max = (1_i128 << (bit_bound - 1)) - 1;
        let mut enumerators: Vec<Enumerator> = Vec::new();
        let mut literals = Vec::new();
        let mut taken: HashMap<i32, Span> = HashMap::new();
        let (mut next, mut is_beyond) = (0_i128, false);
        let mut default: Option<Span> = None;
        for literal in &syntax.literals {
            let found = self.found(&literal.notes, AnnotationPlace::Enumerator);
            if let (Some(value), Some(_)) = (&literal.value, found.value) {
                let text = "the value is given twice; remove `@value` or `= ...`";
                self.reports.error(value.span, text);
            }
            let given = found.value.or(literal.value.as_ref());
            if let Some(expression) = given {
                match self.value(expression, None) {
                    Ok(Value::Integer(value)) => next = value,
                    Ok(Value::Enumerator { value, .. }) => next = value.into(),
                    Ok(other) => {
                        let text = format!("expected an integer, found {}", other.kind());
                        self.reports.error(expression.span, text);
                    }
                    Err(_) => {}
                }
            }
            let span = given.map_or(literal.name.span, |expression| expression.span);
            // Of enumerators that are counted on from one that does not fit, none fits either.
            let is_counted_on = given.is_none() && is_beyond;
            is_beyond = !(-max - 1..=max).contains(&next);
            if is_beyond && !is_counted_on {
                let text = format!(
                    "{next} does not fit an enum of {bit_bound} bits, which goes from {} to {max}",
                    -max - 1
                );
                self.reports.error(span, text);
            }
            let value = i32::try_from(next).unwrap_or_default();
            if !is_beyond && let Some(other) = taken.insert(value, span) {
                let text = format!("`{}` has the value {value}, which is taken", literal.name.text);
                self.reports.error_with(span, text, other, "value used here");
            }
            next = next.saturating_add(1);
            if let Some(span) = found.default_literal
                && let Some(other) = default.replace(span)
            {
                let text = "an enum has one default";
                self.reports.error_with(span, text, other, "default set here");
            }
            let text = literal.name.text.to_string();
            let meaning = Value::Enumerator { of: name.clone(), name: text.clone(), value };
            // A duplicate name has been reported.
            let _ = self.declare(&literal.name, Meaning::Enumerator(meaning.clone()));
            literals.push((text.clone(), meaning));
            enumerators.push(Enumerator {
                name: text,
                docs: docs(&literal.notes, found.docs),
                value,
                default: found.default_literal.is_some(),
            });
        }
        self.literals.insert(name.clone(), Rc::new(literals));
        Ok(Enum { name, notes: type_notes, bit_bound, enumerators })
    }
}
