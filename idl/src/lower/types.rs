//! Lowering of types in uses.
//!
//! Owns the rules of containment: bounds, lengths, keys of maps, incomplete types.

use std::sync::Arc;

use crate::annotation::{AnnotationPlace, FoundAnnotations};
use crate::constant::Value;
use crate::diagnostic::Checked;
use crate::literal::FIXED_DIGITS;
use crate::model::{Alias, Element, NamedKind, Primitive, ScopedName, TryConstruct, Type};
use crate::parser::MAX_NESTING;
use crate::parser::types::{TYPES, too_deep};
use crate::scope::Meaning;
use crate::source::Span;
use crate::syntax::{Declarator, Path, TypeKind, TypeSpec};

use super::Lowering;

/// Maximum number of types within one type; typedefs can build larger types than any
/// single declaration.
const MAX_PARTS: usize = 256;

/// Annotations of a typedef that apply to members of its type.
#[derive(Clone, Default, PartialEq)]
pub(super) struct AliasNotes {
    pub(super) range: (Option<Value>, Option<Value>),
    pub(super) unit: Option<String>,
    pub(super) default: Option<Value>,
    pub(super) try_construct: Option<TryConstruct>,
    pub(super) external: bool,
}

impl Lowering<'_> {
    /// Lowers a type whose values are stored in place.
    pub(super) fn complete_type(&mut self, spec: &TypeSpec) -> Checked<Type> {
        self.type_of(spec, true)
    }

    /// Lowers a type. `complete` says whether the size of its values must be known.
    pub(super) fn type_of(&mut self, spec: &TypeSpec, complete: bool) -> Checked<Type> {
        let ty = match &spec.kind {
            TypeKind::Primitive(primitive) => Type::Primitive(*primitive),
            TypeKind::String { wide, bound } => {
                let bound = match bound {
                    Some(bound) => Some(self.evaluator().length(bound, "the bound of a string")?),
                    None => None,
                };
                Type::String { wide: *wide, bound }
            }
            TypeKind::Sequence(element, bound) => {
                let element = self.element(element)?;
                let bound = match bound {
                    Some(bound) => Some(self.evaluator().length(bound, "the bound of a sequence")?),
                    None => None,
                };
                Type::Sequence(element, bound)
            }
            TypeKind::Map(key, value, bound) => {
                let key_type = self.element(key)?;
                if !is_map_key(&key_type) {
                    let text = format!(
                        "a map's keys are integers, characters, strings, booleans or enumerators, \
                         not of type {key_type}"
                    );
                    return Err(self.reports.error(key.span, text));
                }
                let value = self.element(value)?;
                let bound = match bound {
                    Some(bound) => Some(self.evaluator().length(bound, "the bound of a map")?),
                    None => None,
                };
                Type::Map(key_type, value, bound)
            }
            TypeKind::Fixed(None) => {
                let text = "`fixed` needs its digits here: fixed<digits, scale>";
                return Err(self.reports.error(spec.span, text));
            }
            TypeKind::Fixed(Some(parts)) => {
                let (digits, scale) = (self.small(&parts.0)?, self.small(&parts.1)?);
                if digits == 0 || scale > digits {
                    let text = format!(
                        "a fixed-point type has 1 to {FIXED_DIGITS} digits, and its scale is at \
                         most its number of digits"
                    );
                    return Err(self.reports.error(spec.span, text));
                }
                Type::Fixed { digits, scale }
            }
            TypeKind::Any => Type::Any,
            TypeKind::Named(path) => self.named_type(path, complete)?,
        };
        self.check_size(&ty, spec.span)?;
        Ok(ty)
    }

    /// Evaluates the number of digits of a fixed-point type.
    fn small(&mut self, expression: &crate::syntax::Expression) -> Checked<u8> {
        match self.value(expression, None)? {
            Value::Integer(value) if (0..=i128::from(FIXED_DIGITS)).contains(&value) => {
                Ok(value as u8)
            }
            _ => {
                let text = format!("expected a number of digits, 0 to {FIXED_DIGITS}");
                Err(self.reports.error(expression.span, text))
            }
        }
    }

    /// Lowers an element, which lies in memory of its own anyway. The typedef's annotations apply
    /// where the element has none.
    fn element(&mut self, spec: &TypeSpec) -> Checked<Arc<Element>> {
        let found = self.evaluator().annotations(&spec.annotations, AnnotationPlace::Element);
        let ty = self.type_of(spec, false)?;
        Ok(Arc::new(self.element_with(ty, &found)))
    }

    /// Makes an element with the given annotations.
    pub(super) fn element_with(&self, ty: Type, found: &FoundAnnotations<'_>) -> Element {
        let inherited = self.element_of(ty);
        Element {
            external: found.external || inherited.external,
            try_construct: found.try_construct.or(inherited.try_construct),
            ..inherited
        }
    }

    /// Makes an element with only the annotations of its typedef. An array of arrays has the
    /// elements of its innermost array, and the arrays in between have no annotations.
    pub(super) fn element_of(&self, ty: Type) -> Element {
        if matches!(ty.resolved(), Type::Array(..)) {
            return ty.into();
        }
        let AliasNotes { external, try_construct, .. } = self.inherited(&ty);
        Element { ty, external, try_construct }
    }

    fn named_type(&mut self, path: &Path, complete: bool) -> Checked<Type> {
        let text = match self.scopes.find_or(path, &TYPES, self.reports)? {
            Meaning::Type(ty) => return Ok(ty),
            Meaning::Incomplete(ty) if !complete => return Ok(ty),
            Meaning::Incomplete(_) => format!(
                "`{}` is not complete here, so its size is not known; use sequence<{}>, or make \
                 the member `@optional` or `@external`",
                path.text(),
                path.text()
            ),
            Meaning::Skipped(what) => {
                let article = if what == "eventtype" { "an" } else { "a" };
                let path = path.text();
                format!("`{path}` is {article} {what}, which no sample can carry; use a struct")
            }
            Meaning::Interface(_) | Meaning::ForwardInterface => format!(
                "`{}` is an interface, which no sample can carry; use a struct",
                path.text()
            ),
            other => format!("expected a type, found {} `{}`", other.kind(), path.text()),
        };
        Err(self.reports.error(path.span, text))
    }

    /// Returns the type of a declarator, which is an array if it has lengths.
    pub(super) fn array_of(&mut self, element: Element, declarator: &Declarator) -> Checked<Type> {
        let mut lengths = Vec::new();
        for length in &declarator.lengths {
            lengths.push(self.evaluator().length(length, "the length of an array")?);
        }
        // The last length is the innermost one.
        let ty = lengths
            .into_iter()
            .rev()
            .fold(element, |element, length| Type::Array(element.into(), length).into())
            .ty;
        self.check_size(&ty, declarator.name.span)?;
        self.check_array(&ty, declarator.name.span)?;
        Ok(ty)
    }

    pub(super) fn alias(&mut self, name: &ScopedName, ty: &Type, span: Span) -> Checked<Type> {
        let alias = Alias { name: name.clone(), ty: ty.clone(), size: ty.size() };
        let alias = Type::Alias(Arc::new(alias));
        self.check_size(&alias, span)?;
        Ok(alias)
    }

    fn check_size(&mut self, ty: &Type, span: Span) -> Checked<()> {
        let size = ty.size();
        if size.depth > MAX_NESTING {
            return Err(self.reports.error(span, too_deep()));
        }
        if size.parts > MAX_PARTS {
            let text =
                format!("this type has more than {MAX_PARTS} parts; put a struct in between");
            return Err(self.reports.error(span, text));
        }
        Ok(())
    }

    /// Returns the annotations that members of a typedef's type inherit.
    pub(super) fn alias_notes(
        &mut self,
        found: &FoundAnnotations<'_>,
        ty: &Type,
    ) -> Checked<AliasNotes> {
        let mut notes = self.inherited(ty);
        let (min, max) = self.range(found, ty)?;
        notes.range = (min.or(notes.range.0), max.or(notes.range.1));
        notes.unit = found.unit.clone().or(notes.unit);
        notes.try_construct = found.try_construct.or(notes.try_construct);
        notes.external |= found.external;
        if let Some(default) = found.default {
            notes.default = Some(self.default_value(default, ty)?);
        }
        Ok(notes)
    }

    /// Returns the annotations of the type's typedef, if the type is one.
    pub(super) fn inherited(&self, ty: &Type) -> AliasNotes {
        match ty {
            Type::Alias(alias) => self.aliases.get(&alias.name).cloned().unwrap_or_default(),
            _ => AliasNotes::default(),
        }
    }
}

fn is_map_key(ty: &Type) -> bool {
    match ty.resolved() {
        Type::Primitive(primitive) => {
            !matches!(primitive, Primitive::Float | Primitive::Double | Primitive::LongDouble)
        }
        Type::String { .. } | Type::Named(_, NamedKind::Enum) => true,
        _ => false,
    }
}
