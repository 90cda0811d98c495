//! Source text, places in it, and messages about them.
//!
//! Owns the form of a diagnostic:
//!
//! ```text
//! nav.idl:3:5: expected a member, found `union`
//!    3 |     union Value switch (long) {
//!      |     ^^^^^
//! ```

use std::error::Error;
use std::fmt;
use std::ops::Range;

/// One error in an IDL file: what is wrong, where, and the line it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What was found and what was expected.
    pub message: String,
    /// The whole line of source.
    source_line: String,
    /// How many characters the caret underlines.
    width: usize,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, source_line, width } = self;
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        writeln!(f, "{line:>4} | {source_line}")?;
        // Tabs stay tabs, so that the caret stands under its text whatever their width.
        let indent: String = source_line
            .chars()
            .take(column - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(f, "     | {indent}{}", "^".repeat(*width))
    }
}

impl Error for Diagnostic {}

/// All errors of one run, in the order of their places. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics(pub(crate) Vec<Diagnostic>);

impl Diagnostics {
    /// The errors one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{diagnostic}")?;
        }
        Ok(())
    }
}

/// As people read it, because this is what a build script that fails prints.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl Error for Diagnostics {}

/// A part of the source text, in bytes.
pub(crate) type Span = Range<usize>;

/// A source text and its name.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    pub(crate) fn diagnostic(&self, span: &Span, message: String) -> Diagnostic {
        let before = &self.text[..span.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = &self.text[line_start..];
        let source_line = rest.split(['\n', '\r']).next().unwrap_or(rest).to_owned();
        let line_end = line_start + source_line.len();
        let marked = &self.text[span.start..span.end.clamp(span.start, line_end.max(span.start))];
        Diagnostic {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: self.text[line_start..span.start].chars().count() + 1,
            message,
            source_line,
            width: marked.chars().count().max(1),
        }
    }
}
