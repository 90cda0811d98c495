//! Types in XML as the same types in IDL, and the way from a line of those back to the element.
//!
//! Owns: the text, in which each line is of one element, so that what a compiler says of a line can be said of
//! the element. Never does: compile it.

use crate::xml::error::{At, Place};
use std::sync::Arc;

/// The most lines: elements of types, and their ends.
pub(super) const MOST_LINES: usize = 1 << 16;

/// An element that something of the text stands for.
struct Origin {
    /// The element around it, if that is of types too.
    outer: Option<u32>,
    element: &'static str,
    label: Option<Box<str>>,
    file: Arc<str>,
    at: At,
}

/// The types of all files, in the order in which they are defined, as IDL.
#[derive(Default)]
pub struct TypeText {
    text: String,
    origins: Vec<Origin>,
    /// For each line its element.
    lines: Vec<u32>,
}

impl TypeText {
    /// The text: IDL of names, bounds and annotations; empty if no file has types.
    pub fn idl(&self) -> &str {
        &self.text
    }

    /// The element that a line stands for, from 1: its place, and the elements around it.
    pub fn origin(&self, line: usize) -> Option<(Place, String)> {
        let mut at = *self.lines.get(line.checked_sub(1)?)?;
        let origin = &self.origins[at as usize];
        let place = Place::new(&origin.file, origin.at);
        let mut parts = Vec::new();
        loop {
            let origin = &self.origins[at as usize];
            parts.push(match &origin.label {
                Some(label) => format!("{}[{label}]", origin.element),
                None => origin.element.to_owned(),
            });
            match origin.outer {
                Some(outer) => at = outer,
                None => break,
            }
        }
        parts.reverse();
        Some((place, parts.join("/")))
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MOST_LINES
    }

    /// An element of which lines follow.
    pub(super) fn element(
        &mut self,
        outer: Option<u32>,
        element: &'static str,
        label: Option<&str>,
        (file, at): (&Arc<str>, At),
    ) -> u32 {
        let number = u32::try_from(self.origins.len()).expect("lines are limited");
        let file = Arc::clone(file);
        self.origins.push(Origin { outer, element, label: label.map(Into::into), file, at });
        number
    }

    /// A line of an element.
    pub(super) fn line(&mut self, of: u32, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push(of);
    }
}
