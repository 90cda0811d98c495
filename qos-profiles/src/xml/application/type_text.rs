//! IDL text of the types in XML, and the mapping from its lines to the elements.
//!
//! Owns: the text, in which each line belongs to one element, so that a compiler's message about a
//! line can be reported for the element. Never does: compile it.

use crate::xml::error::{FilePosition, LineColumn};
use std::sync::Arc;

/// Maximum number of lines: elements of types, and their ends.
pub(super) const MOST_LINES: usize = 1 << 16;

/// An element that lines of the text come from.
struct LineOrigin {
    /// Enclosing element, if it belongs to types too.
    outer: Option<u32>,
    element: &'static str,
    label: Option<Box<str>>,
    file: Arc<str>,
    at: LineColumn,
}

/// Types of all files, in the order of definition, as IDL.
#[derive(Default)]
pub struct TypeText {
    text: String,
    origins: Vec<LineOrigin>,
    /// Element of each line.
    lines: Vec<u32>,
}

impl TypeText {
    /// Returns the text: IDL of names, bounds and annotations; empty if no file has types.
    pub fn idl(&self) -> &str {
        &self.text
    }

    /// Returns the element of a line, counted from 1: its position, and its path.
    pub fn origin(&self, line: usize) -> Option<(FilePosition, String)> {
        let mut at = *self.lines.get(line.checked_sub(1)?)?;
        let origin = &self.origins[at as usize];
        let position = FilePosition::new(&origin.file, origin.at);
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
        Some((position, parts.join("/")))
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MOST_LINES
    }

    /// Adds an element, whose lines follow.
    pub(super) fn element(
        &mut self,
        outer: Option<u32>,
        element: &'static str,
        label: Option<&str>,
        file: &Arc<str>,
        at: LineColumn,
    ) -> u32 {
        let number = u32::try_from(self.origins.len()).expect("lines are limited");
        let file = Arc::clone(file);
        self.origins.push(LineOrigin { outer, element, label: label.map(Into::into), file, at });
        number
    }

    /// Adds a line of an element.
    pub(super) fn line(&mut self, of: u32, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push(of);
    }
}
