//! Lowering of the syntax tree to the semantic model.
//!
//! Owns the order in which names are declared, and the rules about which construct may appear
//! where. Structs, unions and other types are lowered in the sibling files. Never writes Rust.

mod bits;
mod defaults;
mod enumeration;
mod nesting;
mod pragmas;
mod recursion;
mod sizes;
mod standard;
mod structure;
mod types;
mod union;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::annotation::{AnnotationPlace, DeclaredAnnotation, DeclaredParameter, FoundAnnotations};
use crate::constant::Value;
use crate::constant::evaluate::{Evaluator, Literals};
use crate::diagnostic::{Checked, Reports};
use crate::model::{
    Bitfield, Constant, Definition, Extensibility, Module, NamedKind, Placement, ScopedName,
    Specification, Type, TypeNotes, Typedef, Verbatim,
};
use crate::preprocessor::Pragma;
use crate::scope::{Meaning, ScopeId, Scopes};
use crate::source::{FileId, Span};
use crate::syntax::{
    self, AnnotationsAndDocs, Declarator, DefinitionKind, Expression, ForwardKind, Name, TypeKind,
    TypeSpec,
};
use types::AliasNotes;

/// Data of a struct that derived structs need.
struct StructInfo {
    /// Member names in lower case, including those of the base.
    members: HashMap<String, Span>,
    extensibility: Option<Extensibility>,
    ids: MemberIds,
}

/// Member ids of a struct or union, including those of the base.
#[derive(Clone, Default)]
struct MemberIds {
    /// Where each id is used.
    taken: BTreeMap<u32, Span>,
    /// Id of the next member without one of its own.
    next: u32,
    /// Whether members without an id have the hash of their name.
    hashed: bool,
}

pub(crate) struct Lowering<'a> {
    scopes: Scopes,
    reports: &'a mut Reports,
    literals: Literals,
    structs: HashMap<ScopedName, StructInfo>,
    bitsets: HashMap<ScopedName, Vec<Bitfield>>,
    aliases: HashMap<ScopedName, AliasNotes>,
    /// Sizes of structs and unions in memory.
    sizes: HashMap<ScopedName, u128>,
    /// Where structs and unions are defined.
    places: HashMap<ScopedName, Span>,
    /// Structs and unions declared before their definition.
    forwards: Vec<(Name, ScopeId)>,
    pragmas: Vec<(Pragma, ScopeId)>,
    verbatim: Vec<Verbatim>,
    /// File of the standard that the compiler brings along, if a file includes it.
    standard: Option<FileId>,
    /// Names of its definitions.
    of_standard: BTreeSet<ScopedName>,
}

/// Use of the types of a specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TypeUse {
    /// Rust is generated from them, so limits of the Rust compiler apply.
    Rust,
    /// Values of them are made at run time.
    RunTime,
}

/// Makes a specification from all definitions.
pub(crate) fn lower(
    definitions: &[syntax::Definition],
    standard: Option<FileId>,
    reports: &mut Reports,
    of: TypeUse,
) -> Specification {
    let mut lowering = Lowering {
        scopes: Scopes::new(),
        reports,
        literals: HashMap::new(),
        structs: HashMap::new(),
        bitsets: HashMap::new(),
        aliases: HashMap::new(),
        sizes: HashMap::new(),
        places: HashMap::new(),
        forwards: Vec::new(),
        pragmas: Vec::new(),
        verbatim: Vec::new(),
        standard,
        of_standard: BTreeSet::new(),
    };
    let mut lowered = Vec::new();
    lowering.definitions(definitions, &mut lowered);
    lowering.check_forwards();
    lowering.apply_pragmas(&mut lowered);
    lowering.remove_unused(&mut lowered);
    lowering.check_recursion(&lowered);
    if of == TypeUse::Rust {
        lowering.check_nesting(&lowered);
    }
    Specification { definitions: lowered, verbatim: lowering.verbatim }
}

impl Lowering<'_> {
    fn evaluator(&mut self) -> Evaluator<'_> {
        Evaluator { scopes: &mut self.scopes, reports: self.reports, literals: &self.literals }
    }

    fn value(&mut self, expression: &Expression, ty: Option<&Type>) -> Checked<Value> {
        self.evaluator().value(expression, ty)
    }

    /// Evaluates the annotations at one place. Verbatim Rust for the whole file is
    /// stored separately.
    fn found<'s>(
        &mut self,
        notes: &'s AnnotationsAndDocs,
        place: AnnotationPlace,
    ) -> FoundAnnotations<'s> {
        let mut found = self.evaluator().annotations(&notes.annotations, place);
        let (of_file, of_type) =
            std::mem::take(&mut found.verbatim).into_iter().partition(|text: &Verbatim| {
                matches!(text.placement, Placement::BeginFile | Placement::EndFile)
            });
        self.verbatim.extend::<Vec<_>>(of_file);
        found.verbatim = of_type;
        let is_type = matches!(
            place,
            AnnotationPlace::Struct
                | AnnotationPlace::Union
                | AnnotationPlace::Enum
                | AnnotationPlace::Bitmask
                | AnnotationPlace::Bitset
        );
        if let (false, false, Some(first)) =
            (is_type, found.verbatim.is_empty(), notes.annotations.first())
        {
            let text = "`@verbatim` with Rust text belongs on a type or at the beginning or end of \
                        the file; here it has no effect";
            self.reports.warning(first.span, text);
        }
        found
    }

    fn declare(&mut self, name: &Name, meaning: Meaning) -> Checked<()> {
        if Some(name.span.file) == self.standard {
            self.of_standard.insert(self.full_name(name));
        }
        self.scopes.declare(name, meaning, self.reports)
    }

    /// Returns the full name of a name in the open scope.
    fn full_name(&self, name: &Name) -> ScopedName {
        ScopedName { modules: self.scopes.modules(), name: name.text.to_string() }
    }

    fn named(&self, name: &Name, kind: NamedKind) -> Type {
        Type::Named(self.full_name(name).into(), kind)
    }

    fn definitions(&mut self, definitions: &[syntax::Definition], into: &mut Vec<Definition>) {
        for definition in definitions {
            if self.reports.is_full() {
                return;
            }
            // The error has been reported; the other definitions are still read.
            let _ = self.definition(definition, into);
        }
    }

    fn definition(
        &mut self,
        definition: &syntax::Definition,
        into: &mut Vec<Definition>,
    ) -> Checked<()> {
        let notes = &definition.notes;
        match &definition.kind {
            DefinitionKind::Module(scope) => self.module(scope, notes, into),
            DefinitionKind::Const { ty, name, value } => {
                let constant = self.constant(ty, name, value, notes)?;
                into.push(Definition::Constant(constant));
                Ok(())
            }
            DefinitionKind::Typedef { ty, declarators } => {
                self.typedef(ty, declarators, notes, into)
            }
            DefinitionKind::Struct(structure) => {
                into.push(Definition::Struct(self.structure(structure, notes)?));
                Ok(())
            }
            DefinitionKind::Forward { kind, name } => self.forward(*kind, name),
            DefinitionKind::Union(union) => {
                into.push(Definition::Union(self.union(union, notes)?));
                Ok(())
            }
            DefinitionKind::Enum(enumeration) => {
                into.push(Definition::Enum(self.enumeration(enumeration, notes)?));
                Ok(())
            }
            DefinitionKind::Bitmask(bitmask) => {
                into.push(Definition::Bitmask(self.bitmask(bitmask, notes)?));
                Ok(())
            }
            DefinitionKind::Bitset(bitset) => {
                into.push(Definition::Bitset(self.bitset(bitset, notes)?));
                Ok(())
            }
            DefinitionKind::Interface { scope, bases, skipped } => {
                self.interface(scope, bases, *skipped, notes, into)
            }
            DefinitionKind::Annotation { name, parameters, definitions } => {
                self.annotation(name, parameters, definitions)
            }
            DefinitionKind::Skipped { what, name, span } => {
                self.found(notes, AnnotationPlace::Other);
                let shown = name.as_ref().map(|name| format!(" `{}`", name.text));
                let text = format!(
                    "this {what}{} is skipped: no sample can carry it",
                    shown.unwrap_or_default()
                );
                self.reports.note(*span, text);
                match name {
                    Some(name) => self.declare(name, Meaning::Skipped(what)),
                    None => Ok(()),
                }
            }
            DefinitionKind::Pragma(pragma) => {
                self.pragmas.push((pragma.clone(), self.scopes.here));
                Ok(())
            }
        }
    }

    fn module(
        &mut self,
        scope: &syntax::Scope,
        notes: &AnnotationsAndDocs,
        into: &mut Vec<Definition>,
    ) -> Checked<()> {
        let name = self.full_name(&scope.name);
        let id = match self.scopes.reopened(&scope.name) {
            Some(id) => id,
            None => {
                let id = self.scopes.add(&scope.name.text, Vec::new());
                self.declare(&scope.name, Meaning::Module(id))?;
                id
            }
        };
        let found = self.found(notes, AnnotationPlace::Module);
        self.scopes.open(id);
        let mut defaults = self.scopes.defaults().clone();
        defaults.nested = found.default_nested.unwrap_or(defaults.nested);
        defaults.hashed_ids = found.hashed_ids.or(defaults.hashed_ids);
        if !found.representations.is_empty() {
            defaults.representations = found.representations;
        }
        self.scopes.set_defaults(defaults);
        let reopened = into.iter_mut().rev().find_map(|definition| match definition {
            Definition::Module(module) if module.name == name => Some(module),
            _ => None,
        });
        match reopened {
            Some(module) => self.definitions(&scope.definitions, &mut module.definitions),
            None => {
                let mut definitions = Vec::new();
                self.definitions(&scope.definitions, &mut definitions);
                let docs = docs(notes, found.docs);
                into.push(Definition::Module(Module { name, interface: false, docs, definitions }));
            }
        }
        self.scopes.close();
        Ok(())
    }

    fn interface(
        &mut self,
        scope: &syntax::Scope,
        bases: &[syntax::Path],
        skipped: usize,
        notes: &AnnotationsAndDocs,
        into: &mut Vec<Definition>,
    ) -> Checked<()> {
        let name = self.full_name(&scope.name);
        let mut base_scopes = Vec::new();
        for base in bases {
            match self.scopes.find(base, self.reports)? {
                Meaning::Interface(id) => base_scopes.push(id),
                other => {
                    let text = format!(
                        "expected an interface that is complete, found {} `{}`",
                        other.kind(),
                        base.text()
                    );
                    self.reports.error(base.span, text);
                }
            }
        }
        let id = self.scopes.add(&scope.name.text, base_scopes);
        self.declare(&scope.name, Meaning::Interface(id))?;
        let found = self.found(notes, AnnotationPlace::Interface);
        let is_own = Some(scope.name.span.file) != self.standard;
        if is_own && (skipped > 0 || scope.definitions.is_empty()) {
            let text = format!(
                "the interface `{}` is skipped, except for the types and constants in it: topics \
                 have no operations or attributes",
                scope.name.text
            );
            self.reports.warning(scope.name.span, text);
        }
        self.scopes.open(id);
        let mut definitions = Vec::new();
        self.definitions(&scope.definitions, &mut definitions);
        self.scopes.close();
        if !definitions.is_empty() {
            let docs = docs(notes, found.docs);
            into.push(Definition::Module(Module { name, interface: true, docs, definitions }));
        }
        Ok(())
    }

    fn constant(
        &mut self,
        ty: &TypeSpec,
        name: &Name,
        value: &Expression,
        notes: &AnnotationsAndDocs,
    ) -> Checked<Constant> {
        let found = self.found(notes, AnnotationPlace::Constant);
        let made = self.constant_value(ty, value);
        let (ty, value) = match made {
            Ok(made) => made,
            Err(reported) => {
                // Declaring the constant avoids further errors where it is used.
                let nothing = (Type::Any, Value::Integer(1));
                self.declare(name, Meaning::Constant(Rc::new(nothing)))?;
                return Err(reported);
            }
        };
        self.declare(name, Meaning::Constant(Rc::new((ty.clone(), value.clone()))))?;
        let name = self.full_name(name);
        Ok(Constant { name, docs: docs(notes, found.docs), ty, value, unit: found.unit })
    }

    fn constant_value(&mut self, ty: &TypeSpec, value: &Expression) -> Checked<(Type, Value)> {
        if let TypeKind::Fixed(None) = ty.kind {
            // The value determines the number of digits.
            let value_found = self.value(value, None)?;
            let Value::Fixed(number) = value_found else {
                let text = format!("expected a fixed-point number, found {}", value_found.kind());
                return Err(self.reports.error(value.span, text));
            };
            let (mantissa, scale) = number.parts();
            let digits = mantissa.unsigned_abs().to_string().len() as u8;
            return Ok((Type::Fixed { digits: digits.max(scale), scale }, value_found));
        }
        let spec = ty;
        let ty = self.complete_type(spec)?;
        let is_simple = matches!(
            ty.resolved(),
            Type::Primitive(_)
                | Type::String { .. }
                | Type::Fixed { .. }
                | Type::Named(_, NamedKind::Enum | NamedKind::Bitmask)
        );
        if !is_simple {
            let text = format!(
                "a constant is of a basic type, a string, an enum or a bitmask, not of type {ty}"
            );
            return Err(self.reports.error(spec.span, text));
        }
        let value = self.value(value, Some(&ty))?;
        Ok((ty, value))
    }

    fn typedef(
        &mut self,
        spec: &TypeSpec,
        declarators: &[Declarator],
        notes: &AnnotationsAndDocs,
        into: &mut Vec<Definition>,
    ) -> Checked<()> {
        let found = self.found(notes, AnnotationPlace::Typedef);
        if let Some((_, span)) = found.topic {
            let text = "`@topic` has no effect on a typedef: put it in front of the struct or \
                        union";
            self.reports.warning(span, text);
        }
        let base = self.complete_type(spec)?;
        // Annotations between `typedef` and the type apply to the elements of an array.
        let inner = self.evaluator().annotations(&spec.annotations, AnnotationPlace::Element);
        for declarator in declarators {
            let of = self.element_with(base.clone(), &inner);
            let (external, try_construct) = (of.external, of.try_construct);
            let ty = self.array_of(of, declarator)?;
            let name = self.full_name(&declarator.name);
            let alias = self.alias(&name, &ty, declarator.name.span)?;
            let mut kept = self.alias_notes(&found, &ty)?;
            if declarator.lengths.is_empty() {
                kept.external |= external;
                kept.try_construct = found.try_construct.or(try_construct);
            }
            let is_repeated = self.scopes.has_typedef(&declarator.name, &alias)
                && self.aliases.get(&name) == Some(&kept);
            if is_repeated {
                continue;
            }
            self.declare(&declarator.name, Meaning::Type(alias))?;
            self.aliases.insert(name.clone(), kept);
            let docs = docs(notes, found.docs.clone());
            into.push(Definition::Typedef(Typedef { name, docs, ty }));
        }
        Ok(())
    }

    fn forward(&mut self, kind: ForwardKind, name: &Name) -> Checked<()> {
        let kind = match kind {
            ForwardKind::Interface => return self.declare(name, Meaning::ForwardInterface),
            ForwardKind::Struct => NamedKind::Struct,
            ForwardKind::Union => NamedKind::Union,
        };
        let ty = self.named(name, kind);
        self.declare(name, Meaning::Incomplete(ty))?;
        self.forwards.push((name.clone(), self.scopes.here));
        Ok(())
    }

    /// Reports forward declarations without a definition.
    fn check_forwards(&mut self) {
        for (name, scope) in std::mem::take(&mut self.forwards) {
            self.scopes.open(scope);
            if let Some(Meaning::Incomplete(_)) = self.scopes.find_quietly(&name.text) {
                let text = format!("`{}` is declared here but not defined", name.text);
                self.reports.error(name.span, text);
            }
        }
    }

    fn annotation(
        &mut self,
        name: &Name,
        parameters: &[syntax::Parameter],
        definitions: &[syntax::Definition],
    ) -> Checked<()> {
        let scope = self.scopes.add(&name.text, Vec::new());
        self.scopes.open(scope);
        self.definitions(definitions, &mut Vec::new());
        let mut declared: Vec<DeclaredParameter> = Vec::new();
        for parameter in parameters {
            let ty = match parameter.ty.kind {
                TypeKind::Any => None,
                _ => match self.complete_type(&parameter.ty) {
                    Ok(ty) => Some(ty),
                    Err(_) => continue,
                },
            };
            if let Some(default) = &parameter.default {
                // An error in the default has been reported.
                let _ = self.value(default, ty.as_ref());
            }
            if declared.iter().any(|other| other.name == *parameter.name.text) {
                let text = format!("the annotation has two parameters `{}`", parameter.name.text);
                self.reports.error(parameter.name.span, text);
            }
            declared.push(DeclaredParameter {
                name: parameter.name.text.to_string(),
                ty,
                has_default: parameter.default.is_some(),
            });
        }
        self.scopes.close();
        self.declare(
            name,
            Meaning::Annotation(Rc::new(DeclaredAnnotation { parameters: declared })),
        )
    }

    /// Returns the annotations that apply to a type as a whole.
    fn type_notes(
        &mut self,
        notes: &AnnotationsAndDocs,
        found: &mut FoundAnnotations<'_>,
    ) -> TypeNotes {
        let topic = found.topic.take();
        if let (Some((_, span)), Some(true)) = (&topic, found.nested) {
            let text =
                "a `@nested` type cannot be the type of a topic; remove `@nested` or `@topic`";
            self.reports.error(*span, text);
        }
        let defaults = self.scopes.defaults();
        // A topic type is not nested, whatever its module says.
        let nested = found.nested.unwrap_or(defaults.nested && topic.is_none());
        let hashed_ids = found.hashed_ids.or(defaults.hashed_ids);
        let mut representations = std::mem::take(&mut found.representations);
        if representations.is_empty() {
            representations.clone_from(&defaults.representations);
        }
        TypeNotes {
            docs: docs(notes, std::mem::take(&mut found.docs)),
            extensibility: found.extensibility.map(|(kind, _)| kind),
            nested,
            hashed_ids,
            topic: topic.and_then(|(name, _)| name),
            representations,
            ignore_literal_names: found.ignore_literal_names,
            verbatim: std::mem::take(&mut found.verbatim),
        }
    }
}

/// Returns the comment before the definition, and the text of `@verbatim`.
fn docs(notes: &AnnotationsAndDocs, more: Vec<String>) -> Vec<String> {
    let mut docs = notes.docs.clone();
    if !docs.is_empty() && !more.is_empty() {
        docs.push(String::new());
    }
    docs.extend(more);
    docs
}
