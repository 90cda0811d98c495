//! Generation of structs, exceptions and unions.

use crate::constant::Value;
use crate::model::{
    Case, Element, MemberId, NamedKind, Placement, ScopedName, Struct, StructMember, TryConstruct,
    Type, Union,
};
use crate::naming::{type_name, value_name};

use super::names::TakenNames;
use super::values::quoted;
use super::{CodeWriter, DERIVES, bound_attribute, code, is_collection};

impl CodeWriter<'_> {
    pub(super) fn structure(&mut self, structure: &Struct) {
        let kind = if structure.exception { "exception" } else { "struct" };
        let what = match &structure.copy_of {
            Some(original) => format!("IDL struct `{original}` with the key of one use."),
            None => format!("IDL {kind} `{}`.", structure.name),
        };
        self.type_docs(&structure.notes, &what);
        self.derive(DERIVES, &structure.name, self.type_attributes(&structure.notes));
        let name = self.names.of(&structure.name);
        self.block(&format!("pub struct {name}"), |out| {
            out.verbatim(&structure.notes.verbatim, Placement::BeginDeclaration);
            let mut taken = TakenNames::new(&[]);
            if let Some(base) = &structure.base {
                let (field, ty) = (taken.take("base".to_owned()), out.path(base));
                out.doc(&format!("Members of the base struct `{base}`."));
                out.line("#[dds(base)]");
                out.field(&format!("pub {field}"), &ty);
            }
            for member in &structure.members {
                let field = taken.take(value_name(&member.name));
                out.member(member, &field);
            }
            out.verbatim(&structure.notes.verbatim, Placement::EndDeclaration);
        });
        self.default_implementation(&name);
        if let Some(original) = &structure.copy_of {
            self.conversions(structure, original);
        }
        self.verbatim(&structure.notes.verbatim, Placement::AfterDeclaration);
    }

    /// Writes the conversions between a struct and its copy with another key.
    fn conversions(&mut self, copy: &Struct, original: &ScopedName) {
        let (copy_name, original_name) = (self.names.of(&copy.name), self.path(original));
        for (from, into) in [(&original_name, &copy_name), (&copy_name, &original_name)] {
            self.line("");
            self.block(&format!("impl ::core::convert::From<{from}> for {into}"), |out| {
                out.block(&format!("fn from(value: {from}) -> Self"), |out| {
                    out.line("Self {");
                    out.indent += 1;
                    let mut taken = TakenNames::new(&[]);
                    if copy.base.is_some() {
                        let field = taken.take("base".to_owned());
                        out.line(&format!("{field}: value.{field},"));
                    }
                    for member in &copy.members {
                        let field = taken.take(value_name(&member.name));
                        let value = match (out.has_copied_type(member), member.external) {
                            (false, _) => format!("value.{field}"),
                            (true, false) => format!("value.{field}.into()"),
                            (true, true) => format!("Box::new((*value.{field}).into())"),
                        };
                        out.line(&format!("{field}: {value},"));
                    }
                    out.indent -= 1;
                    out.line("}");
                });
            });
        }
    }

    /// Whether a member of a copied struct is itself of a copied type.
    fn has_copied_type(&self, member: &StructMember) -> bool {
        match &member.ty {
            Type::Named(name, NamedKind::Struct) => member.key && self.copies.contains(name),
            _ => false,
        }
    }

    fn member(&mut self, member: &StructMember, field: &str) {
        self.member_docs(member);
        let mut attributes = Vec::new();
        if member.key {
            attributes.push("key".to_owned());
        }
        if field.strip_prefix("r#").unwrap_or(field) != member.name {
            attributes.push(format!("name = \"{}\"", member.name));
        }
        attributes.extend(member_attributes(member));
        attributes.extend(self.default_of(member).map(|value| format!("default = {value}")));
        if member.must_understand {
            attributes.push("must_understand".to_owned());
        }
        if member.non_serialized {
            attributes.push("non_serialized".to_owned());
        }
        let range: Vec<String> = [("min", &member.range.0), ("max", &member.range.1)]
            .into_iter()
            .filter_map(|(name, value)| {
                let value = value.as_ref()?;
                Some(format!("{name} = {}", self.limit(element(&member.ty), value)))
            })
            .collect();
        if !range.is_empty() {
            attributes.push(format!("range({})", range.join(", ")));
        }
        attributes.extend(member.unit.as_ref().map(|unit| format!("unit = {}", quoted(unit))));
        self.attributes(attributes);
        self.allow(&lints(&member.ty, member.external));
        let ty = self.member_type(member);
        self.field(&format!("pub {field}"), &ty);
    }

    fn member_docs(&mut self, member: &StructMember) {
        let StructMember { name, ty, unit, .. } = member;
        let unit = unit.as_ref().map(|unit| format!(", in {}", code(unit)));
        let what = format!("IDL member `{name}`: `{ty}`{}.", unit.unwrap_or_default());
        self.docs(&member.docs, &what);
    }

    /// Returns the member's default as a value of its Rust type.
    fn default_of(&self, member: &StructMember) -> Option<String> {
        let value = match &member.default {
            Some(value) => self.value(&member.ty, value),
            // Rust has no `Default` for long arrays.
            None if member.non_serialized
                && !member.optional
                && matches!(member.ty.resolved(), Type::Array(..)) =>
            {
                let (ty, company) = (self.rust_type(&member.ty), self.company("DdsType"));
                format!("<{ty} as {company}>::default_value()")
            }
            None => return None,
        };
        Some(if member.external { format!("Box::new({value})") } else { value })
    }

    fn member_type(&self, member: &StructMember) -> String {
        let mut ty = self.rust_type(&member.ty);
        if member.external {
            ty = format!("Box<{ty}>");
        }
        if member.optional {
            ty = format!("Option<{ty}>");
        }
        ty
    }

    pub(super) fn union(&mut self, union: &Union) {
        let what = format!("IDL union `{}` over `{}`.", union.name, union.discriminator);
        self.type_docs(&union.notes, &what);
        let mut taken = TakenNames::new(&[]);
        let variants: Vec<String> =
            union.cases.iter().map(|case| taken.take(type_name(&case.member.name))).collect();
        let name = self.names.of(&union.name);
        let has_names_alike = super::enumerations::are_alike(&name, &variants);
        let mut attributes = vec![
            "union".to_owned(),
            format!("discriminator = \"{}\"", self.rust_type(&union.discriminator)),
        ];
        if union.key {
            attributes.push("discriminator_key".to_owned());
        }
        if let Some(default) = &union.default {
            let value = self.value(&union.discriminator, default);
            attributes.push(format!("discriminator_default = {value}"));
        }
        attributes.extend(
            union
                .try_construct
                .map(|kind| format!("discriminator_try_construct = {}", try_construct(kind))),
        );
        attributes.extend(self.type_attributes(&union.notes));
        self.derive(DERIVES, &union.name, attributes);
        let mut lints = Vec::new();
        if union.cases.iter().any(|case| is_large(&case.member)) {
            lints.push("clippy::large_enum_variant");
        }
        if has_names_alike {
            lints.push("clippy::enum_variant_names");
        }
        self.allow(&lints);
        self.block(&format!("pub enum {name}"), |out| {
            out.verbatim(&union.notes.verbatim, Placement::BeginDeclaration);
            for (case, variant) in union.cases.iter().zip(&variants) {
                out.case(case, variant, &union.discriminator);
            }
            if union.open {
                let variant = taken.take("NoCase".to_owned());
                out.doc("No member; the discriminator has a value without a case.");
                out.line("#[dds(default)]");
                out.labelled(&variant, &union.discriminator, None);
            }
            out.verbatim(&union.notes.verbatim, Placement::EndDeclaration);
        });
        self.default_implementation(&name);
        self.verbatim(&union.notes.verbatim, Placement::AfterDeclaration);
    }

    fn case(&mut self, case: &Case, variant: &str, discriminator: &Type) {
        let member = &case.member;
        self.member_docs(member);
        let mut attributes = Vec::new();
        if variant != member.name {
            attributes.push(format!("name = \"{}\"", member.name));
        }
        attributes.extend(member_attributes(member));
        if case.default {
            attributes.push("default".to_owned());
        }
        if !case.labels.is_empty() {
            let labels: Vec<String> =
                case.labels.iter().map(|label| self.label(discriminator, label)).collect();
            attributes.push(format!("case = {}", labels.join(", ")));
        }
        attributes.extend(self.default_of(member).map(|value| format!("default_value = {value}")));
        self.attributes(attributes);
        if case.default || case.labels.len() > 1 {
            return self.labelled(variant, discriminator, Some(member));
        }
        self.allow(&lints(&member.ty, member.external));
        self.line(&format!("{variant}({}),", self.member_type(member)));
    }

    /// Writes a variant that several labels select; the variant stores the label.
    fn labelled(&mut self, variant: &str, label: &Type, member: Option<&StructMember>) {
        let label = self.rust_type(label);
        self.line(&format!("{variant} {{"));
        self.indent += 1;
        self.doc("Discriminator value that selected this case.");
        self.field("discriminator", &label);
        if let Some(member) = member {
            self.doc("Value of the member.");
            self.allow(&lints(&member.ty, member.external));
            self.field("value", &self.member_type(member));
        }
        self.indent -= 1;
        self.line("},");
    }

    /// Returns a label: a literal, or the path of an enumerator.
    fn label(&self, discriminator: &Type, label: &Value) -> String {
        match label {
            Value::Char(c) => format!("{c:?}"),
            // Labels are stored as `i64`, to which the macro casts them.
            Value::Integer(number)
                if *number > i64::MAX.into()
                    && matches!(discriminator.resolved(), Type::Primitive(_)) =>
            {
                format!("{number}_u64")
            }
            _ => self.value(discriminator, label),
        }
    }

    /// Allows lints that names and types from IDL would trigger.
    pub(super) fn allow(&mut self, lints: &[&str]) {
        if lints.is_empty() {
            return;
        }
        let reason = "reason = \"as in the IDL\"";
        let line = format!("{}, {reason}", lints.join(", "));
        if line.len() <= super::ATTRIBUTE_WIDTH {
            return self.line(&format!("#[allow({line})]"));
        }
        self.line("#[allow(");
        self.indent += 1;
        for lint in lints {
            self.line(&format!("{lint},"));
        }
        self.line(reason);
        self.indent -= 1;
        self.line(")]");
    }
}

/// Whether a member may be so large that clippy would require a box.
fn is_large(member: &StructMember) -> bool {
    let in_place = matches!(
        member.ty.resolved(),
        Type::Array(..) | Type::Named(_, NamedKind::Struct | NamedKind::Union)
    );
    in_place && !member.external
}

/// Attributes common to members of structs and of unions.
fn member_attributes(member: &StructMember) -> Vec<String> {
    let mut attributes = Vec::new();
    match &member.id {
        MemberId::Auto => {}
        MemberId::Number(id) => attributes.push(format!("id = {id}")),
        MemberId::Hash(None) => attributes.push("hashid".to_owned()),
        MemberId::Hash(Some(text)) => attributes.push(format!("hashid = {}", quoted(text))),
    }
    attributes.extend(bound_attribute(&member.ty));
    attributes.extend(
        member.try_construct.map(|kind| format!("try_construct = {}", try_construct(kind))),
    );
    let elements: Vec<&str> = member
        .ty
        .element_try_constructs()
        .into_iter()
        .map(|kind| try_construct(kind.unwrap_or(TryConstruct::Discard)))
        .collect();
    match elements.as_slice() {
        [] => {}
        [kind] => attributes.push(format!("element_try_construct = {kind}")),
        kinds => attributes.push(format!("element_try_construct = [{}]", kinds.join(", "))),
    }
    if member.external {
        attributes.push("external".to_owned());
    }
    attributes
}

/// Name of the kind in an attribute.
fn try_construct(kind: TryConstruct) -> &'static str {
    match kind {
        TryConstruct::Discard => "\"discard\"",
        TryConstruct::UseDefault => "\"use_default\"",
        TryConstruct::Trim => "\"trim\"",
    }
}

/// Lints about memory layout that the IDL requires.
pub(super) fn lints(ty: &Type, external: bool) -> Vec<&'static str> {
    let mut lints = Vec::new();
    if external && is_collection(ty) || has_boxed(ty, &is_collection) {
        lints.push("clippy::box_collection");
    }
    if has_sequence_of_boxes(ty) {
        lints.push("clippy::vec_box");
    }
    lints
}

/// Whether an external element has a type for which `is` holds. Typedefs have their own lints.
fn has_boxed(ty: &Type, is: &impl Fn(&Type) -> bool) -> bool {
    let found = |element: &Element| element.external && is(element) || has_boxed(element, is);
    match ty {
        Type::Sequence(element, _) | Type::Array(element, _) => found(element),
        Type::Map(key, value, _) => found(key) || found(value),
        _ => false,
    }
}

fn has_sequence_of_boxes(ty: &Type) -> bool {
    match ty {
        Type::Sequence(element, _) => element.external || has_sequence_of_boxes(element),
        Type::Array(element, _) => has_sequence_of_boxes(element),
        Type::Map(key, value, _) => has_sequence_of_boxes(key) || has_sequence_of_boxes(value),
        _ => false,
    }
}

/// Type of the values in a list.
fn element(ty: &Type) -> &Type {
    let mut ty = ty;
    while let Type::Array(inner, _) | Type::Sequence(inner, _) = ty.resolved() {
        ty = inner;
    }
    ty
}
