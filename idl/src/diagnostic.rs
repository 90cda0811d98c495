//! Messages about IDL files.
//!
//! Owns the form of a message, how many are given, and the guess at what was meant:
//!
//! ```text
//! nav.idl:3:5: error: expected a member, found `union`
//!    3 |     union Value switch (long) {
//!      |     ^^^^^
//! nav.idl:1:1: note: the struct begins here
//! ```

use std::error::Error;
use std::fmt;

use crate::source::{SourceMap, Span};

/// After so many errors, reading stops.
pub const MAX_DIAGNOSTICS: usize = 50;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file is not compiled.
    Error,
    /// Something has no effect, or another one than may be thought.
    Warning,
    /// Something was left out that a DDS file does not need.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One message: what is wrong, where, and the line it stands in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What was found and what was expected.
    pub message: String,
    /// Other places that belong to it, such as the first of two definitions.
    pub related: Vec<Related>,
    /// The whole line of source.
    source_line: String,
    /// How many characters the caret underlines.
    width: usize,
}

/// Another place that explains a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Related {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is there.
    pub message: String,
}

/// The longest part of a source line that is shown.
const SHOWN: usize = 200;

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, file, line, column, message, related, source_line, width } = self;
        writeln!(f, "{file}:{line}:{column}: {severity}: {message}")?;
        // Of a very long line, what is around the place.
        let from = if *column > SHOWN / 2 && source_line.chars().count() > SHOWN {
            column - SHOWN / 2
        } else {
            0
        };
        let shown: String = source_line.chars().skip(from).take(SHOWN).collect();
        writeln!(f, "{line:>4} | {shown}")?;
        // Tabs stay tabs, so that the caret stands under its text whatever their width.
        let indent: String = shown
            .chars()
            .take(column - 1 - from)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(f, "     | {indent}{}", "^".repeat((*width).min(SHOWN)))?;
        for Related { file, line, column, message } in related {
            write!(f, "\n{file}:{line}:{column}: note: {message}")?;
        }
        Ok(())
    }
}

impl Error for Diagnostic {}

/// All messages of one run, in the order of their places.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Diagnostics(pub(crate) Vec<Diagnostic>);

impl Diagnostics {
    /// The messages one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes another run's messages in, each that says the same of the same place once.
    pub fn merge(&mut self, other: Diagnostics) {
        for diagnostic in other.0 {
            if !self.0.contains(&diagnostic) {
                self.0.push(diagnostic);
            }
        }
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
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

/// A message whose place is not yet looked up.
struct Report {
    severity: Severity,
    span: Span,
    message: String,
    related: Vec<(Span, String)>,
}

/// Collects messages.
#[derive(Default)]
pub(crate) struct Reports {
    reports: Vec<Report>,
    errors: usize,
}

/// Marks that an error has been reported; the caller leaves off and goes on further out.
#[derive(Debug)]
pub(crate) struct Reported;

/// What was read, or that an error has been reported.
pub(crate) type Checked<T> = Result<T, Reported>;

impl Reports {
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) -> Reported {
        self.add(Severity::Error, span, message.into(), Vec::new())
    }

    /// An error with another place that explains it.
    pub(crate) fn error_with(
        &mut self,
        span: Span,
        message: impl Into<String>,
        other: (Span, &str),
    ) -> Reported {
        self.add(Severity::Error, span, message.into(), vec![(other.0, other.1.to_owned())])
    }

    pub(crate) fn warning(&mut self, span: Span, message: impl Into<String>) {
        self.add(Severity::Warning, span, message.into(), Vec::new());
    }

    pub(crate) fn note(&mut self, span: Span, message: impl Into<String>) {
        self.add(Severity::Note, span, message.into(), Vec::new());
    }

    fn add(
        &mut self,
        severity: Severity,
        span: Span,
        message: String,
        related: Vec<(Span, String)>,
    ) -> Reported {
        if severity == Severity::Error {
            self.errors += 1;
            if self.errors <= MAX_DIAGNOSTICS {
                self.reports.push(Report { severity, span, message, related });
            }
        } else if self.reports.len() < 4 * MAX_DIAGNOSTICS {
            self.reports.push(Report { severity, span, message, related });
        }
        Reported
    }

    /// Whether so much is wrong that reading on helps nobody.
    pub(crate) fn is_full(&self) -> bool {
        self.errors >= MAX_DIAGNOSTICS
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// The messages, in the order of their places.
    pub(crate) fn finish(mut self, sources: &SourceMap) -> Diagnostics {
        self.reports.sort_by_key(|report| (report.span.file, report.span.start));
        let mut all: Vec<Diagnostic> = Vec::new();
        for report in self.reports {
            let place = sources.place(report.span);
            let related = report.related.into_iter().map(|(span, message)| {
                let place = sources.place(span);
                let (line, column) = (place.line, place.column);
                Related { file: place.file.to_owned(), line, column, message }
            });
            let diagnostic = Diagnostic {
                severity: report.severity,
                file: place.file.to_owned(),
                line: place.line,
                column: place.column,
                message: report.message,
                related: related.collect(),
                source_line: place.text.to_owned(),
                width: place.width,
            };
            if all.last() != Some(&diagnostic) {
                all.push(diagnostic);
            }
        }
        Diagnostics(all)
    }
}

/// What may have been meant by `word`: `; did you mean `x`?`, or nothing.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    // Of very short names nearly all are near each other.
    let most = (word.chars().count() / 3).min(3);
    let best = candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| (distance(word, candidate, most), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min();
    best.map_or_else(String::new, |(_, candidate)| format!("; did you mean `{candidate}`?"))
}

/// How many letters have to be added, left out, changed or swapped with their neighbour; letters
/// that differ in case only count nothing at first. More than `most` is not counted.
fn distance(a: &str, b: &str, most: usize) -> usize {
    let fold = |text: &str| text.chars().flat_map(char::to_lowercase).take(80).collect::<Vec<_>>();
    let (a, b) = (fold(a), fold(b));
    if a.len().abs_diff(b.len()) > most {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_guessed() {
        let words = ["latitude", "longitude", "Track", "key"];
        assert_eq!(did_you_mean("lattitude", words), "; did you mean `latitude`?");
        assert_eq!(did_you_mean("track", words), "; did you mean `Track`?");
        assert_eq!(did_you_mean("kye", words), "; did you mean `key`?");
        assert_eq!(did_you_mean("speed", words), "");
        assert_eq!(did_you_mean("key", ["key"]), "");
    }
}
