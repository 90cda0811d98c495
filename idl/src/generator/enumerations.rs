//! Generation of enums, bitmasks and bitsets.

use crate::model::{Bitmask, Bitset, Enum, Placement};
use crate::naming::{constant_name, value_name};

use super::names::TakenNames;
use super::{CodeWriter, rust_primitive};

/// Derives for types whose values are a single number.
const NUMBER_DERIVES: &str = "Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash";

impl CodeWriter<'_> {
    pub(super) fn enumeration(&mut self, enumeration: &Enum) {
        self.type_docs(&enumeration.notes, &format!("IDL enum `{}`.", enumeration.name));
        let mut attributes = Vec::new();
        if enumeration.bit_bound != 32 {
            attributes.push(format!("bit_bound = {}", enumeration.bit_bound));
        }
        if enumeration.notes.ignore_literal_names {
            attributes.push("ignore_literal_names".to_owned());
        }
        self.derive(NUMBER_DERIVES, &enumeration.name, attributes);
        let variants: Vec<String> = enumeration
            .enumerators
            .iter()
            .map(|one| self.names.variant(&enumeration.name, &one.name))
            .collect();
        let name = self.names.of(&enumeration.name);
        if are_alike(&name, &variants) {
            self.allow(&["clippy::enum_variant_names"]);
        }
        self.block(&format!("pub enum {name}"), |out| {
            out.verbatim(&enumeration.notes.verbatim, Placement::BeginDeclaration);
            let mut next = 0_i64;
            for (enumerator, variant) in enumeration.enumerators.iter().zip(&variants) {
                out.docs(&enumerator.docs, &format!("IDL enumerator `{}`.", enumerator.name));
                let mut attributes = Vec::new();
                if *variant != enumerator.name {
                    attributes.push(format!("name = \"{}\"", enumerator.name));
                }
                if enumerator.default {
                    attributes.push("default_literal".to_owned());
                }
                out.attributes(attributes);
                let value = i64::from(enumerator.value);
                if value == next {
                    out.line(&format!("{variant},"));
                } else {
                    out.line(&format!("{variant} = {value},"));
                }
                next = value + 1;
            }
            out.verbatim(&enumeration.notes.verbatim, Placement::EndDeclaration);
        });
        self.default_implementation(&name);
        self.verbatim(&enumeration.notes.verbatim, Placement::AfterDeclaration);
    }

    pub(super) fn bitmask(&mut self, bitmask: &Bitmask) {
        self.type_docs(&bitmask.notes, &format!("IDL bitmask `{}`.", bitmask.name));
        let mut attributes = vec!["bitmask".to_owned()];
        if bitmask.bit_bound != 32 {
            attributes.push(format!("bit_bound = {}", bitmask.bit_bound));
        }
        let derives = NUMBER_DERIVES.replace("Debug,", "Debug, Default,");
        self.derive(&derives, &bitmask.name, attributes);
        let name = self.names.of(&bitmask.name);
        let flags: Vec<String> =
            bitmask.flags.iter().map(|flag| format!("{} = {}", flag.name, flag.position)).collect();
        self.flags(&flags);
        let holder = match bitmask.bit_bound {
            0..=8 => "u8",
            9..=16 => "u16",
            17..=32 => "u32",
            _ => "u64",
        };
        self.line(&format!("pub struct {name}(pub {holder});"));
        self.line("");
        self.block(&format!("impl {name}"), |out| {
            let mut taken = TakenNames::new(&[]);
            for flag in &bitmask.flags {
                let constant = taken.take(constant_name(&flag.name));
                let what = format!("IDL bit `{}`, number {}.", flag.name, flag.position);
                out.docs(&flag.docs, &what);
                let value = match flag.position {
                    0 => "1".to_owned(),
                    position => format!("1 << {position}"),
                };
                out.line(&format!("pub const {constant}: Self = Self({value});"));
                out.line("");
            }
            out.doc("Returns whether all bits of `other` are set.");
            out.block("pub const fn contains(self, other: Self) -> bool", |out| {
                out.line("self.0 & other.0 == other.0");
            });
        });
        self.line("");
        self.block(&format!("impl ::core::ops::BitOr for {name}"), |out| {
            out.line("type Output = Self;");
            out.line("");
            out.block("fn bitor(self, other: Self) -> Self", |out| {
                out.line("Self(self.0 | other.0)")
            });
        });
        self.verbatim(&bitmask.notes.verbatim, Placement::AfterDeclaration);
    }

    /// Writes the names of bits, with the line broken as rustfmt would.
    fn flags(&mut self, flags: &[String]) {
        let line = format!("flags({})", flags.join(", "));
        if line.len() <= super::ATTRIBUTE_WIDTH {
            return self.line(&format!("#[dds({line})]"));
        }
        self.line("#[dds(flags(");
        self.indent += 1;
        for flag in flags {
            self.line(&format!("{flag},"));
        }
        self.indent -= 1;
        self.line("))]");
    }

    pub(super) fn bitset(&mut self, bitset: &Bitset) {
        let base =
            bitset.base.as_ref().map(|base| format!(", with the fields of its base `{base}`"));
        let what = format!("IDL bitset `{}`{}.", bitset.name, base.unwrap_or_default());
        self.type_docs(&bitset.notes, &what);
        let derives = "Clone, Copy, Debug, Default, PartialEq, Eq, Hash";
        self.derive(derives, &bitset.name, vec!["bitset".to_owned()]);
        let name = self.names.of(&bitset.name);
        self.block(&format!("pub struct {name}"), |out| {
            out.verbatim(&bitset.notes.verbatim, Placement::BeginDeclaration);
            let mut taken = TakenNames::new(&[]);
            for (place, field) in bitset.fields.iter().enumerate() {
                let bits = format!("bits = {}", field.bits);
                let mut attributes = vec![bits];
                let rust = match &field.name {
                    Some(idl) => {
                        out.docs(
                            &field.docs,
                            &format!("IDL bit field `{idl}`: `{}`.", field.ty.idl_name()),
                        );
                        let rust = taken.take(value_name(idl));
                        if rust.strip_prefix("r#").unwrap_or(&rust) != idl {
                            attributes.insert(0, format!("name = \"{idl}\""));
                        }
                        rust
                    }
                    None => {
                        out.docs(&field.docs, "Padding bits.");
                        attributes.insert(0, format!("name = \"reserved_{place}\""));
                        taken.take("filler".to_owned())
                    }
                };
                out.attributes(attributes);
                out.line(&format!("pub {rust}: {},", rust_primitive(field.ty)));
            }
            out.verbatim(&bitset.notes.verbatim, Placement::EndDeclaration);
        });
        self.verbatim(&bitset.notes.verbatim, Placement::AfterDeclaration);
    }
}

/// Whether clippy would report that all variants share a prefix or suffix, or contain the
/// enum's name.
pub(super) fn are_alike(name: &str, variants: &[String]) -> bool {
    if variants.len() < 3 {
        return variants.iter().any(|variant| variant.contains(name));
    }
    let words = |variant: &str| {
        let mut words: Vec<String> = Vec::new();
        for c in variant.chars() {
            if c.is_ascii_uppercase() || words.is_empty() {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(c);
            }
        }
        words
    };
    let all: Vec<Vec<String>> = variants.iter().map(|variant| words(variant)).collect();
    let first = all.iter().all(|one| one.first() == all[0].first());
    let last = all.iter().all(|one| one.last() == all[0].last());
    let lower = name.to_ascii_lowercase();
    let inside = variants.iter().any(|variant| {
        let variant = variant.to_ascii_lowercase();
        variant.starts_with(&lower) || variant.ends_with(&lower)
    });
    first || last || inside
}
