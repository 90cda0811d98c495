//! Assignability: whether samples of one type can be read as another, by the rules of DDS-XTYPES
//! 1.3 (7.2.4).
//!
//! Owns the rules for each kind of type, and the text of a refusal. Never reads a sample. Samples
//! are sent in XCDR2, where everything is delimited, so the standard's "strongly assignable"
//! requires nothing more here.

use std::collections::BTreeSet;

use idl_cdr::{Extensibility, MAX_DEPTH};

use crate::model::{
    BitField, Element, Literal, NO_BOUND, NodeKind, Primitive, Structure, StructureMember,
    TypeGraph, TypeNodeId, Union,
};
use crate::words::{differ, kind_name, shown};
use crate::{ConsistencyKind, DynamicType, Mismatch, TypeConsistency};

/// Checks whether a reader of one type understands a writer of the other; returns the reason
/// if not.
pub(crate) fn check(
    consistency: TypeConsistency,
    reader: &DynamicType,
    writer: &DynamicType,
) -> Checked {
    let path = match reader.name() {
        "" => "the type".to_owned(),
        name => name.to_owned(),
    };
    let mut rules = Rules {
        consistency,
        exact: consistency.kind == ConsistencyKind::DisallowTypeCoercion,
        reader: &reader.graph,
        writer: &writer.graph,
        seen: BTreeSet::new(),
        path: vec![path],
    };
    if rules.exact {
        rules.require_name(reader.name(), writer.name())?;
    }
    rules.check(reader.root, writer.root)
}

struct Rules<'a> {
    consistency: TypeConsistency,
    /// Whether the types must be identical.
    exact: bool,
    reader: &'a TypeGraph,
    writer: &'a TypeGraph,
    /// Pairs already compared or being compared; ends the recursion for types that
    /// contain themselves.
    seen: BTreeSet<(TypeNodeId, TypeNodeId)>,
    path: Vec<String>,
}

type Checked = Result<(), Mismatch>;

impl<'a> Rules<'a> {
    fn refuse<T>(&self, reason: impl Into<String>) -> Result<T, Mismatch> {
        Err(Mismatch { path: self.path.concat(), reason: reason.into() })
    }

    fn require(&self, holds: bool, reason: impl FnOnce() -> String) -> Checked {
        if holds { Ok(()) } else { self.refuse(reason()) }
    }

    fn inside(&mut self, step: String, check: impl FnOnce(&mut Self) -> Checked) -> Checked {
        if self.path.len() > MAX_DEPTH as usize {
            return self.refuse("types are nested deeper than values can be");
        }
        self.path.push(step);
        let checked = check(self);
        self.path.pop();
        checked
    }

    fn require_name(&self, reader: &str, writer: &str) -> Checked {
        self.require(reader == writer, || {
            format!("the writer's type is `{writer}`, and types may not differ")
        })
    }

    fn check(&mut self, reader: TypeNodeId, writer: TypeNodeId) -> Checked {
        let (reader, writer) = (self.reader.resolved(reader), self.writer.resolved(writer));
        if !self.seen.insert((reader, writer)) {
            return Ok(());
        }
        let (of_reader, of_writer) = (self.reader, self.writer);
        match (&of_reader.node(reader).kind, &of_writer.node(writer).kind) {
            (NodeKind::Primitive(one), NodeKind::Primitive(other)) => {
                self.require(is_same(*one, *other), || differ(one.name(), other.name()))
            }
            (NodeKind::Primitive(one), NodeKind::Bitmask { bit_bound, .. })
            | (NodeKind::Bitmask { bit_bound, .. }, NodeKind::Primitive(one))
                if !self.exact =>
            {
                let is_unsigned = matches!(
                    one,
                    Primitive::Byte
                        | Primitive::Uint8
                        | Primitive::Uint16
                        | Primitive::Uint32
                        | Primitive::Uint64
                );
                self.require(is_unsigned && one.size() == bytes(*bit_bound), || {
                    format!("a bitmask of {bit_bound} bits is no {}", one.name())
                })
            }
            (NodeKind::Text { wide, bound }, NodeKind::Text { wide: other_wide, bound: other }) => {
                let name = |wide: bool| if wide { "wstring" } else { "string" };
                self.require(wide == other_wide, || differ(name(*wide), name(*other_wide)))?;
                self.bound(*bound, *other, self.consistency.ignore_string_bounds, "characters")
            }
            (
                NodeKind::Fixed { digits, scale },
                NodeKind::Fixed { digits: other_digits, scale: other_scale },
            ) => self.require((digits, scale) == (other_digits, other_scale), || {
                differ(
                    &format!("fixed<{digits}, {scale}>"),
                    &format!("fixed<{other_digits}, {other_scale}>"),
                )
            }),
            // The type object of a fixed describes only its bytes.
            (NodeKind::Fixed { digits, .. }, NodeKind::Array { element, count })
                if *count == digits / 2 + 1 && is_octet(of_writer.kind(element.of)) =>
            {
                Ok(())
            }
            (NodeKind::Array { element, count }, NodeKind::Fixed { digits, .. })
                if *count == digits / 2 + 1 && is_octet(of_reader.kind(element.of)) =>
            {
                Ok(())
            }
            (
                NodeKind::Sequence { element, bound },
                NodeKind::Sequence { element: other, bound: other_bound },
            ) => {
                let ignore = self.consistency.ignore_sequence_bounds;
                self.bound(*bound, *other_bound, ignore, "elements")?;
                self.element(element, other, "[]")
            }
            (
                NodeKind::Array { element, count },
                NodeKind::Array { element: other, count: other_count },
            ) => {
                let word = |count: &u32| format!("an array [{count}]");
                self.require(count == other_count, || differ(&word(count), &word(other_count)))?;
                self.element(element, other, "[]")
            }
            (
                NodeKind::Map { key, value, bound },
                NodeKind::Map { key: other_key, value: other_value, bound: other_bound },
            ) => {
                let ignore = self.consistency.ignore_sequence_bounds;
                self.bound(*bound, *other_bound, ignore, "entries")?;
                self.element(key, other_key, "[key]")?;
                self.element(value, other_value, "[]")
            }
            (
                NodeKind::Enumeration { bit_bound, literals, ignore_literal_names },
                NodeKind::Enumeration { bit_bound: other_bits, literals: others, .. },
            ) => {
                self.bits(*bit_bound, *other_bits)?;
                self.literals(literals, others, *ignore_literal_names && !self.exact)
            }
            (
                NodeKind::Bitmask { bit_bound, flags },
                NodeKind::Bitmask { bit_bound: other_bits, flags: others },
            ) => {
                self.require(bit_bound == other_bits, || {
                    format!("{bit_bound} bits in the reader's type, {other_bits} in the writer's")
                })?;
                self.require(!self.exact || flags == others, || {
                    "the bits have other names in the writer's type, and types may not differ"
                        .into()
                })
            }
            (NodeKind::Bitset(fields), NodeKind::Bitset(others)) => self.bitset(fields, others),
            (NodeKind::Structure(one), NodeKind::Structure(other)) => self.structure(one, other),
            (NodeKind::Union(one), NodeKind::Union(other)) => self.union(one, other),
            (one, other) => self.refuse(differ(kind_name(one), kind_name(other))),
        }
    }

    fn bits(&self, one: u32, other: u32) -> Checked {
        let is_right = if self.exact { one == other } else { bytes(one) == bytes(other) };
        self.require(is_right, || {
            format!("{one} bits in the reader's type, {other} in the writer's")
        })
    }

    fn bound(&self, reader: u32, writer: u32, ignored: bool, of_what: &str) -> Checked {
        let is_right = if self.exact {
            reader == writer
        } else {
            ignored || reader == NO_BOUND || writer != NO_BOUND && reader >= writer
        };
        self.require(is_right, || {
            let text = |bound: u32| match bound {
                NO_BOUND => format!("any number of {of_what}"),
                bound => format!("at most {bound} {of_what}"),
            };
            format!("{} in the reader's type, {} in the writer's", text(reader), text(writer))
        })
    }

    fn element(&mut self, reader: &Element, writer: &Element, step: &str) -> Checked {
        self.inside(step.to_owned(), |rules| rules.check(reader.of, writer.of))
    }

    fn literals(&self, literals: &[Literal], others: &[Literal], by_value: bool) -> Checked {
        for literal in literals.iter().filter(|_| !by_value) {
            let named = others.iter().find(|other| other.name.hash == literal.name.hash);
            if let Some(named) = named {
                self.require(named.value == literal.value, || {
                    let (name, ours, theirs) =
                        (shown(&literal.name, &named.name), literal.value, named.value);
                    format!("`{name}` is {ours} in the reader's type, {theirs} in the writer's")
                })?;
            } else if !self.consistency.ignore_member_names
                && let Some(other) = others.iter().find(|other| other.value == literal.value)
            {
                let (name, other) = (&literal.name.text, &other.name.text);
                return self.refuse(format!(
                    "{} is `{name}` in the reader's type, `{other}` in the writer's",
                    literal.value
                ));
            }
        }
        if self.exact {
            let values = |literals: &[Literal]| -> BTreeSet<i32> {
                literals.iter().map(|literal| literal.value).collect()
            };
            return self.require(values(literals) == values(others), || {
                "the writer's enumerators are different, and types may not differ".into()
            });
        }
        let is_common = |one: &Literal| others.iter().any(|other| other.value == one.value);
        self.require(literals.iter().any(is_common), || {
            "the reader's and the writer's type have no enumerator in common".to_owned()
        })
    }

    fn bitset(&self, fields: &[BitField], others: &[BitField]) -> Checked {
        let total = |fields: &[BitField]| {
            bytes(fields.iter().map(|field| field.position + field.bits).max().unwrap_or(0))
        };
        self.require(total(fields) == total(others), || {
            format!(
                "{} bytes in the reader's type, {} in the writer's",
                total(fields),
                total(others)
            )
        })?;
        let place = |field: &BitField| (field.position, field.bits);
        for field in fields {
            let Some(other) = others.iter().find(|other| other.position == field.position) else {
                continue;
            };
            self.require(place(field) == place(other), || {
                let name = shown(&field.name, &other.name);
                format!(
                    "`{name}` has {} bits in the reader's type, {} in the writer's",
                    field.bits, other.bits
                )
            })?;
            let same = self.consistency.ignore_member_names || field.name.hash == other.name.hash;
            self.require(same, || {
                format!(
                    "the bit {} begins `{}` in the reader's type, `{}` in the writer's",
                    field.position, field.name.text, other.name.text
                )
            })?;
        }
        let places = |fields: &[BitField]| -> BTreeSet<_> { fields.iter().map(place).collect() };
        self.require(!self.exact || places(fields) == places(others), || {
            "the writer's fields are different, and types may not differ".to_owned()
        })
    }

    fn extensibility(&self, reader: Extensibility, writer: Extensibility) -> Checked {
        let word = |of: Extensibility| match of {
            Extensibility::Final => "final",
            Extensibility::Appendable => "appendable",
            Extensibility::Mutable => "mutable",
        };
        self.require(reader == writer, || differ(word(reader), word(writer)))
    }

    fn structure(&mut self, reader: &'a Structure, writer: &'a Structure) -> Checked {
        self.extensibility(reader.extensibility, writer.extensibility)?;
        let (of_reader, of_writer) = (self.reader, self.writer);
        let (ours, theirs) = (of_reader.members(reader), of_writer.members(writer));
        let is_mutable = reader.extensibility == Extensibility::Mutable;
        let is_fixed = self.exact || reader.extensibility == Extensibility::Final;
        self.names(&ours, &theirs)?;
        for (index, theirs) in theirs.iter().enumerate() {
            match (ours.iter().position(|ours| ours.id == theirs.id), ours.get(index)) {
                (Some(found), _) if is_mutable || found == index => {}
                (None, _) if is_mutable => self.lacked_by_reader(theirs)?,
                (Some(_), _) => {
                    let name = &theirs.name.text;
                    return self
                        .refuse(format!("`{name}` is at another position in the writer's type"));
                }
                (None, Some(ours)) => {
                    let (ours, theirs) = (&ours.name.text, &theirs.name.text);
                    return self.refuse(format!(
                        "at the position of `{ours}`, the writer's type has `{theirs}`"
                    ));
                }
                (None, None) => self.lacked_by_reader(theirs)?,
            }
            if is_fixed && !ours.iter().any(|ours| ours.id == theirs.id) {
                let name = &theirs.name.text;
                return self.refuse(format!(
                    "the writer has a member `{name}` that the reader lacks{}",
                    self.why_fixed()
                ));
            }
        }
        let mut common = false;
        for ours in &ours {
            match theirs.iter().find(|theirs| theirs.id == ours.id) {
                Some(theirs) => {
                    common = true;
                    self.member(ours, theirs, is_mutable)?;
                }
                None if is_fixed => {
                    let name = &ours.name.text;
                    return self.refuse(format!(
                        "the writer lacks the member `{name}`{}",
                        self.why_fixed()
                    ));
                }
                None => self.lacked_by_writer(ours)?,
            }
        }
        self.require(common || ours.is_empty() || theirs.is_empty(), || {
            "the reader's and the writer's type have no member in common".to_owned()
        })
    }

    fn why_fixed(&self) -> &'static str {
        if self.exact { ", and types may not differ" } else { ", and the type is final" }
    }

    /// Checks that equal ids have equal names.
    fn names(&self, ours: &[&StructureMember], theirs: &[&StructureMember]) -> Checked {
        if self.consistency.ignore_member_names && !self.exact {
            return Ok(());
        }
        for ours in ours {
            for theirs in theirs {
                let same_name = ours.name.hash == theirs.name.hash;
                if same_name != (ours.id == theirs.id) {
                    let (name, other) = (&ours.name.text, &theirs.name.text);
                    return self.refuse(match same_name {
                        true => format!(
                            "`{}` has the id {} in the reader's type, {} in the writer's",
                            shown(&ours.name, &theirs.name),
                            ours.id,
                            theirs.id
                        ),
                        false => {
                            format!(
                                "the member {} is `{name}` in the reader's type, `{other}` in the \
                                 writer's",
                                ours.id
                            )
                        }
                    });
                }
            }
        }
        Ok(())
    }

    fn lacked_by_reader(&self, theirs: &StructureMember) -> Checked {
        let name = &theirs.name.text;
        self.require(!self.consistency.prevent_type_widening, || {
            format!(
                "the writer has a member `{name}` that the reader lacks, and prevent_type_widening \
                 is set"
            )
        })?;
        self.require(!theirs.key, || {
            format!("the writer's key has a member `{name}` that the reader lacks")
        })?;
        self.require(!theirs.must_understand, || {
            format!("the writer has a member `{name}` that has to be understood")
        })
    }

    fn lacked_by_writer(&self, ours: &StructureMember) -> Checked {
        let name = &ours.name.text;
        self.require(!ours.key, || format!("the writer lacks the member `{name}` of the key"))?;
        self.require(!ours.must_understand || ours.optional, || {
            format!("the writer lacks the member `{name}`, which has to be understood")
        })
    }

    fn member(
        &mut self,
        ours: &StructureMember,
        theirs: &StructureMember,
        is_mutable: bool,
    ) -> Checked {
        self.inside(format!(".{}", shown(&ours.name, &theirs.name)), |rules| {
            let word = |key: bool| if key { "a member of the key" } else { "not of the key" };
            rules.require(ours.key == theirs.key, || differ(word(ours.key), word(theirs.key)))?;
            let word = |optional: bool| if optional { "optional" } else { "not optional" };
            let may_differ = is_mutable && !rules.exact;
            rules.require(may_differ || ours.optional == theirs.optional, || {
                differ(word(ours.optional), word(theirs.optional))
            })?;
            if ours.key {
                rules.key_bounds(ours.of, theirs.of)?;
            }
            rules.check(ours.of, theirs.of)
        })
    }

    /// Checks the bounds in keys: truncating a key would make one instance of two.
    fn key_bounds(&mut self, ours: TypeNodeId, theirs: TypeNodeId) -> Checked {
        let (reader, writer) = (self.reader, self.writer);
        match (reader.kind(ours), writer.kind(theirs)) {
            (NodeKind::Text { bound, .. }, NodeKind::Text { bound: other, .. }) => {
                self.bound(*bound, *other, false, "characters")
            }
            (NodeKind::Sequence { bound, .. }, NodeKind::Sequence { bound: other, .. }) => {
                self.bound(*bound, *other, false, "elements")
            }
            (NodeKind::Map { bound, .. }, NodeKind::Map { bound: other, .. }) => {
                self.bound(*bound, *other, false, "entries")
            }
            (
                NodeKind::Enumeration { literals, .. },
                NodeKind::Enumeration { literals: others, .. },
            ) => {
                let is_known = |one: &&Literal| !literals.iter().any(|l| l.value == one.value);
                match others.iter().find(is_known) {
                    Some(other) => {
                        let name = &other.name.text;
                        self.refuse(format!(
                            "the writer's key may be `{name}`, which the reader's enum lacks"
                        ))
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn union(&mut self, reader: &'a Union, writer: &'a Union) -> Checked {
        self.extensibility(reader.extensibility, writer.extensibility)?;
        let (ours, theirs) = (&reader.discriminator, &writer.discriminator);
        let word = |key: bool| if key { "the key" } else { "no key" };
        self.inside(".discriminator".to_owned(), |rules| {
            rules.require(ours.key == theirs.key, || differ(word(ours.key), word(theirs.key)))?;
            rules.check(ours.of, theirs.of)
        })?;
        let members = |union: &'a Union| -> Vec<&'a StructureMember> {
            union.cases.iter().filter_map(|case| case.member.as_ref()).collect()
        };
        self.names(&members(reader), &members(writer))?;
        let is_fixed = self.exact || reader.extensibility == Extensibility::Final;
        let labels = |union: &Union| -> BTreeSet<i64> {
            let with_member = union.cases.iter().filter(|case| case.member.is_some());
            with_member.flat_map(|case| case.labels.iter().copied()).collect()
        };
        let (our_labels, their_labels) = (labels(reader), labels(writer));
        let our_default = default_of(reader);
        let their_default = default_of(writer);
        if is_fixed {
            if let Some(label) = our_labels.symmetric_difference(&their_labels).next() {
                let who = if our_labels.contains(label) { "writer" } else { "reader" };
                return self.refuse(format!("the {who} lacks a case {label}{}", self.why_fixed()));
            }
            self.require(our_default.is_some() == their_default.is_some(), || {
                format!("only one of the two types has a default case{}", self.why_fixed())
            })?;
        }
        let mut common = false;
        for &label in &their_labels {
            match (selected(reader, label), selected(writer, label)) {
                (Some(ours), Some(theirs)) => {
                    common = true;
                    self.case(ours, theirs)?;
                }
                _ => self.require(!self.consistency.prevent_type_widening, || {
                    format!(
                        "the writer has a case {label} that the reader lacks, and \
                         prevent_type_widening is set"
                    )
                })?,
            }
        }
        for label in our_labels.difference(&their_labels) {
            if let (Some(ours), Some(theirs)) = (selected(reader, *label), their_default) {
                self.case(ours, theirs)?;
            }
        }
        if let (Some(ours), Some(theirs)) = (our_default, their_default) {
            common = true;
            self.case(ours, theirs)?;
        }
        let nothing = members(reader).is_empty() || members(writer).is_empty();
        self.require(common || nothing, || {
            "the reader's and the writer's type have no case in common".to_owned()
        })
    }

    fn case(&mut self, ours: &StructureMember, theirs: &StructureMember) -> Checked {
        self.inside(format!(".{}", shown(&ours.name, &theirs.name)), |rules| {
            rules.check(ours.of, theirs.of)
        })
    }
}

fn default_of(union: &Union) -> Option<&StructureMember> {
    union.cases.iter().find(|case| case.default)?.member.as_ref()
}

fn selected(union: &Union, label: i64) -> Option<&StructureMember> {
    let labelled = union.cases.iter().find(|case| case.labels.contains(&label));
    labelled.or_else(|| union.cases.iter().find(|case| case.default))?.member.as_ref()
}

fn is_octet(kind: &NodeKind) -> bool {
    matches!(kind, NodeKind::Primitive(Primitive::Byte | Primitive::Uint8))
}

/// Whether two primitives are the same for implementations, such as Rust, that use one type
/// for both.
fn is_same(one: Primitive, other: Primitive) -> bool {
    let plain = |of: Primitive| if of == Primitive::Uint8 { Primitive::Byte } else { of };
    plain(one) == plain(other)
}

fn bytes(bits: u32) -> usize {
    idl_cdr::derived::bytes_for(bits)
}
