//! Definitions of structs, unions, enums, bitmasks and bitsets.
//!
//! Owns their layout and annotations. Never decides their order.

use idl_cdr::{Extensibility, Representations, TryConstruct};

use super::check::{is_unused, without_gaps};
use super::literals::{bound, label, list, literal, quoted};
use super::{IdlPrinter, NotInIdl, parts_of};
use crate::data::Value;
use crate::model::{
    BitField, Case, Element, Flag, Literal, NO_BOUND, NodeKind, Structure, StructureMember,
    TypeGraph, TypeNodeId, Union,
};

/// Default number of bits of an enum or bitmask.
const USUAL_BITS: u32 = 32;

/// Lines of a definition, and the typedefs that it needs in front.
#[derive(Default)]
struct DefinitionText {
    typedefs: Vec<String>,
    head: Vec<String>,
    body: Vec<String>,
}

impl<'a> IdlPrinter<'a> {
    /// Prints the definition of a type.
    pub(super) fn definition(&mut self, of: TypeNodeId) -> Result<(), NotInIdl> {
        let graph = self.graph;
        let node = graph.node(of);
        let (modules, name) = parts_of(&node.name);
        self.enter(&modules)?;
        let name = self.identifier(of, name)?;
        let mut text = DefinitionText::default();
        match &node.kind {
            NodeKind::Structure(structure) => self.structure(of, &name, structure, &mut text)?,
            NodeKind::Union(union) => self.union(of, &name, union, &mut text)?,
            NodeKind::Enumeration { bit_bound, literals, ignore_literal_names } => {
                text.head.extend(ignore_literal_names.then(|| "@ignore_literal_names".to_owned()));
                text.head.extend(bits(*bit_bound));
                text.head.push(format!("enum {name} {{"));
                self.enumerators(of, literals, &mut text)?;
            }
            NodeKind::Bitmask { bit_bound, flags } => {
                text.head.extend(bits(*bit_bound));
                text.head.push(format!("bitmask {name} {{"));
                self.flags(of, flags, &mut text)?;
            }
            NodeKind::Bitset(fields) => {
                text.head.push(format!("bitset {name} {{"));
                self.bit_fields(of, fields, &mut text)?;
            }
            // Other types have no definition.
            _ => {}
        }
        text.typedefs.iter().chain(&text.head).for_each(|line| self.line(0, line));
        text.body.iter().for_each(|line| self.line(1, line));
        self.line(0, "};");
        Ok(())
    }

    fn structure(
        &mut self,
        of: TypeNodeId,
        name: &str,
        structure: &Structure,
        text: &mut DefinitionText,
    ) -> Result<(), NotInIdl> {
        text.head.extend(type_notes(
            structure.extensibility,
            structure.nested,
            structure.representations,
        ));
        let base = match structure.base {
            Some(base) => format!(" : {}", self.reference(self.graph.resolved(base))?),
            None => String::new(),
        };
        text.head.push(format!("struct {name}{base} {{"));
        let mut next = structure.base.map_or(0, |base| next_id(self.graph, base));
        for member in &structure.members {
            let line = self.member(of, member, next, text)?;
            text.body.push(line);
            next = member.id.saturating_add(1);
        }
        Ok(())
    }

    fn union(
        &mut self,
        of: TypeNodeId,
        name: &str,
        union: &Union,
        text: &mut DefinitionText,
    ) -> Result<(), NotInIdl> {
        text.head.extend(type_notes(union.extensibility, union.nested, union.representations));
        let discriminator = &union.discriminator;
        let mut notes = Vec::new();
        notes.extend(discriminator.key.then(|| "@key".to_owned()));
        notes.extend(try_construct(discriminator.try_construct));
        notes.extend(self.default(discriminator)?);
        let words = self.type_words(of, "discriminator", discriminator.of, text)?;
        text.head.push(format!("union {name} switch ({}) {{", annotated(&notes, &words)));
        let mut next = 1;
        for case in &union.cases {
            // A case without a member is every value of the discriminator that IDL leaves out.
            let Some(member) = &case.member else { continue };
            self.labels(of, case, discriminator.of, text)?;
            let line = self.member(of, member, next, text)?;
            text.body.push(format!("    {line}"));
            next = member.id.saturating_add(1);
        }
        Ok(())
    }

    fn labels(
        &self,
        of: TypeNodeId,
        case: &Case,
        discriminator: TypeNodeId,
        text: &mut DefinitionText,
    ) -> Result<(), NotInIdl> {
        for &value in &case.labels {
            let shown = match self.graph.kind(discriminator) {
                NodeKind::Enumeration { literals, .. } => {
                    let literal = literals.iter().find(|one| i64::from(one.value) == value);
                    literal.map(|one| self.enumerator(discriminator, &one.name.text)).transpose()?
                }
                kind => label(kind, value),
            };
            let Some(shown) = shown else {
                let reason = format!("the label {value} of a case has no name or literal");
                return Err(NotInIdl { name: self.graph.node(of).name.clone(), reason });
            };
            text.body.push(format!("case {shown}:"));
        }
        text.body.extend(case.default.then(|| "default:".to_owned()));
        Ok(())
    }

    /// Returns the name of an enumerator, which belongs to the module of its enum.
    fn enumerator(&self, of: TypeNodeId, name: &str) -> Result<String, NotInIdl> {
        let of = self.graph.resolved(of);
        let name = self.identifier(of, name)?;
        let reference = self.reference(of)?;
        Ok(match reference.rsplit_once("::") {
            Some((modules, _)) => format!("{modules}::{name}"),
            None => name,
        })
    }

    /// Returns a member with its annotations. `next` is the id that it has without one.
    fn member(
        &mut self,
        of: TypeNodeId,
        member: &StructureMember,
        next: u32,
        text: &mut DefinitionText,
    ) -> Result<String, NotInIdl> {
        let mut notes = Vec::new();
        let mut note = |is: bool, words: &str| notes.extend(is.then(|| words.to_owned()));
        note(member.key, "@key");
        match &member.hash_id {
            Some(hashed) if hashed.is_empty() => note(true, "@hashid"),
            Some(hashed) => note(true, &format!("@hashid({})", quoted(hashed))),
            None => note(member.id != next, &format!("@id({})", member.id)),
        }
        note(member.optional, "@optional");
        note(member.external, "@external");
        note(member.must_understand && !member.key, "@must_understand");
        notes.extend(try_construct(member.try_construct));
        notes.extend(self.default(member)?);
        notes.extend(member.unit.as_ref().map(|unit| format!("@unit({})", quoted(unit))));
        let kind = self.graph.kind(innermost(self.graph, member.of));
        for (word, limit) in [("min", &member.min), ("max", &member.max)] {
            let limit = limit.as_ref().and_then(|limit| bound(kind, limit));
            notes.extend(limit.map(|limit| format!("@{word}({limit})")));
        }
        let name = self.identifier(of, &member.name.text)?;
        let (words, lengths) = self.declaration(of, &member.name.text, member.of, text)?;
        Ok(annotated(&notes, &format!("{words} {name}{lengths};")))
    }

    /// Returns the annotation of a member's default; none if IDL cannot write the value.
    fn default(&self, member: &StructureMember) -> Result<Option<String>, NotInIdl> {
        let Some(value) = &member.default else { return Ok(None) };
        let words = match (self.graph.kind(member.of), value) {
            (_, Value::Enumerator { name, .. }) => Some(self.enumerator(member.of, name)?),
            (
                NodeKind::Sequence { element, .. } | NodeKind::Array { element, .. },
                Value::Collection(values),
            ) => list(self.graph, element.of, values),
            _ => literal(self.graph, member.of, value),
        };
        Ok(words.map(|words| format!("@default({words})")))
    }

    /// Returns the type of a member, and the lengths after its name if it is an array.
    fn declaration(
        &mut self,
        of: TypeNodeId,
        member: &str,
        ty: TypeNodeId,
        text: &mut DefinitionText,
    ) -> Result<(String, String), NotInIdl> {
        match array(self.graph, ty) {
            Some((element, lengths)) if element_notes(&element).is_empty() => {
                Ok((self.type_words(of, member, element.of, text)?, lengths))
            }
            // Annotations of elements have a place in a typedef alone.
            _ => Ok((self.type_words(of, member, ty, text)?, String::new())),
        }
    }

    /// Returns a type without lengths. An array gets a typedef.
    fn type_words(
        &mut self,
        of: TypeNodeId,
        member: &str,
        ty: TypeNodeId,
        text: &mut DefinitionText,
    ) -> Result<String, NotInIdl> {
        let graph: &'a TypeGraph = self.graph;
        let ty = graph.resolved(ty);
        let bounded = |bound: u32| match bound {
            NO_BOUND => String::new(),
            bound => format!(", {bound}"),
        };
        Ok(match &graph.node(ty).kind {
            NodeKind::Primitive(primitive) => primitive.name().to_owned(),
            NodeKind::Text { wide, bound } => {
                let bound = if *bound == NO_BOUND { String::new() } else { format!("<{bound}>") };
                format!("{}string{bound}", if *wide { "w" } else { "" })
            }
            NodeKind::Fixed { digits, scale } => format!("fixed<{digits}, {scale}>"),
            NodeKind::Sequence { element, bound } => {
                let words = self.element(of, member, element, text)?;
                format!("sequence<{words}{}>", bounded(*bound))
            }
            NodeKind::Map { key, value, bound } => {
                let key = self.element(of, member, key, text)?;
                let value = self.element(of, member, value, text)?;
                format!("map<{key}, {value}{}>", bounded(*bound))
            }
            NodeKind::Array { .. } => match array(graph, ty) {
                Some((element, lengths)) => {
                    let words = self.element(of, member, &element, text)?;
                    let name = self.typedef_name(of, member);
                    text.typedefs.push(format!("typedef {words} {name}{lengths};"));
                    name
                }
                None => String::new(),
            },
            _ if graph.is_any(ty) => "any".to_owned(),
            _ => self.reference(ty)?,
        })
    }

    fn element(
        &mut self,
        of: TypeNodeId,
        member: &str,
        element: &Element,
        text: &mut DefinitionText,
    ) -> Result<String, NotInIdl> {
        let words = self.type_words(of, member, element.of, text)?;
        Ok(annotated(&element_notes(element), &words))
    }

    /// Returns a new name for the type of a member.
    fn typedef_name(&mut self, of: TypeNodeId, member: &str) -> String {
        let full = &self.graph.node(of).name;
        let last = parts_of(full).1;
        let mut suffix = "_array".to_owned();
        while !self.taken.insert(format!("{full}_{member}{suffix}").to_ascii_lowercase()) {
            suffix.push('_');
        }
        format!("{last}_{member}{suffix}")
    }

    fn enumerators(
        &self,
        of: TypeNodeId,
        literals: &[Literal],
        text: &mut DefinitionText,
    ) -> Result<(), NotInIdl> {
        let mut next = 0;
        for (index, one) in literals.iter().enumerate() {
            let mut notes = String::new();
            if one.default && index > 0 {
                notes += "@default_literal ";
            }
            if i64::from(one.value) != next {
                notes += &format!("@value({}) ", one.value);
            }
            next = i64::from(one.value) + 1;
            let name = self.identifier(of, &one.name.text)?;
            let comma = if index + 1 < literals.len() { "," } else { "" };
            text.body.push(format!("{notes}{name}{comma}"));
        }
        Ok(())
    }

    fn flags(
        &self,
        of: TypeNodeId,
        flags: &[Flag],
        text: &mut DefinitionText,
    ) -> Result<(), NotInIdl> {
        let mut next = 0;
        for (index, Flag { name, position }) in flags.iter().enumerate() {
            let notes =
                if *position == next { String::new() } else { format!("@position({position}) ") };
            next = position + 1;
            let name = self.identifier(of, &name.text)?;
            let comma = if index + 1 < flags.len() { "," } else { "" };
            text.body.push(format!("{notes}{name}{comma}"));
        }
        Ok(())
    }

    fn bit_fields(
        &self,
        of: TypeNodeId,
        fields: &[BitField],
        text: &mut DefinitionText,
    ) -> Result<(), NotInIdl> {
        for (index, field) in without_gaps(fields).iter().enumerate() {
            let (bits, holder) = (field.bits, field.holder.name());
            let name = match is_unused(self.graph, of, index) {
                true => String::new(),
                false => format!(" {}", self.identifier(of, &field.name.text)?),
            };
            text.body.push(format!("bitfield<{bits}, {holder}>{name};"));
        }
        Ok(())
    }
}

fn bits(bit_bound: u32) -> Option<String> {
    (bit_bound != USUAL_BITS).then(|| format!("@bit_bound({bit_bound})"))
}

fn type_notes(
    extensibility: Extensibility,
    nested: bool,
    representations: Representations,
) -> Vec<String> {
    let word = match extensibility {
        Extensibility::Final => "@final",
        Extensibility::Appendable => "@appendable",
        Extensibility::Mutable => "@mutable",
    };
    let mut notes = vec![word.to_owned()];
    notes.extend(nested.then(|| "@nested".to_owned()));
    if representations != Representations::ALL {
        let names = representations.to_string().replace(", ", " | ");
        notes.push(format!("@data_representation({names})"));
    }
    notes
}

fn try_construct(of: TryConstruct) -> Option<String> {
    match of {
        TryConstruct::Discard => None,
        TryConstruct::UseDefault => Some("@try_construct(USE_DEFAULT)".to_owned()),
        TryConstruct::Trim => Some("@try_construct(TRIM)".to_owned()),
    }
}

/// Returns the annotations of an element.
fn element_notes(element: &Element) -> Vec<String> {
    let external = element.external.then(|| "@external".to_owned());
    external.into_iter().chain(try_construct(element.try_construct)).collect()
}

/// Returns annotations with the text that they apply to. The name of an annotation would continue
/// in a `::` behind it, so its argument is written there.
fn annotated(notes: &[String], words: &str) -> String {
    let mut text = notes.join(" ");
    if words.starts_with("::") && !text.is_empty() && !text.ends_with(')') {
        text += if text.ends_with("@hashid") { "(\"\")" } else { "(TRUE)" };
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text + words
}

/// Returns the innermost element of an array, and all lengths.
fn array(graph: &TypeGraph, of: TypeNodeId) -> Option<(Element, String)> {
    let (mut of, mut found, mut lengths) = (graph.resolved(of), None, String::new());
    while let NodeKind::Array { element, count } = graph.kind(of) {
        lengths += &format!("[{count}]");
        found = Some(*element);
        of = graph.resolved(element.of);
    }
    found.map(|element| (element, lengths))
}

/// Returns the type of the numbers in nested arrays and sequences.
fn innermost(graph: &TypeGraph, of: TypeNodeId) -> TypeNodeId {
    let mut of = of;
    while let NodeKind::Array { element, .. } | NodeKind::Sequence { element, .. } = graph.kind(of)
    {
        of = element.of;
    }
    of
}

/// Returns the id that the first member of a derived struct has without one of its own.
fn next_id(graph: &TypeGraph, base: TypeNodeId) -> u32 {
    let NodeKind::Structure(of) = graph.kind(base) else { return 0 };
    match of.members.last() {
        Some(last) => last.id.saturating_add(1),
        None => of.base.map_or(0, |base| next_id(graph, base)),
    }
}
