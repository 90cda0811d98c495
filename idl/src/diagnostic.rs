//! Messages about IDL files.
//!
//! Owns the form of a message, the limit on their number, and the suggestion of a similar name:
//!
//! ```text
//! nav.idl:3:5: error: expected a member, found `union`
//!    3 |     union Value switch (long) {
//!      |     ^^^^^
//! nav.idl:1:1: note: the struct begins here
//!    1 | struct Track {
//!      | ^^^^^^
//! ```

use std::error::Error;
use std::fmt;

use crate::source::{SourceMap, Span};

/// Number of errors after which reading stops.
pub const MAX_DIAGNOSTICS: usize = 50;

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file is not compiled.
    Error,
    /// A construct has no effect, or an effect that may be unexpected.
    Warning,
    /// A construct was skipped that a DDS file does not need.
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

/// One message: the problem, its position, and the source line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// Severity of the message.
    pub severity: Severity,
    /// Name of the file.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// Text of the message: the found and the expected text.
    pub message: String,
    /// Related positions, such as the first of two definitions.
    pub related: Vec<Related>,
    /// Line of source and its underlined part.
    shown: ShownLine,
}

/// Another position that explains a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Related {
    /// Name of the file.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// Explanation of the position.
    pub message: String,
    /// Line of source and its underlined part.
    shown: ShownLine,
}

/// A line of source, with the part that the carets underline.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ShownLine {
    /// Whole line of source.
    text: String,
    /// Number of characters that the carets underline.
    width: usize,
}

/// Maximum number of characters of a source line that are shown.
const SHOWN: usize = 200;

impl ShownLine {
    /// Writes the line, and carets below the characters from a column on.
    fn write(&self, f: &mut fmt::Formatter<'_>, line: usize, column: usize) -> fmt::Result {
        let Self { text, width } = self;
        // Of a very long line, only the part around the position is shown.
        let from =
            if column > SHOWN / 2 && text.chars().count() > SHOWN { column - SHOWN / 2 } else { 0 };
        let shown: String = text.chars().skip(from).take(SHOWN).collect();
        writeln!(f, "{line:>4} | {shown}")?;
        // Tabs stay tabs, so that the caret is below its text for every tab width.
        let indent: String = shown
            .chars()
            .take(column - 1 - from)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(f, "     | {indent}{}", "^".repeat((*width).min(SHOWN)))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, file, line, column, message, related, shown } = self;
        writeln!(f, "{file}:{line}:{column}: {severity}: {message}")?;
        shown.write(f, *line, *column)?;
        for Related { file, line, column, message, shown } in related {
            writeln!(f, "\n{file}:{line}:{column}: note: {message}")?;
            shown.write(f, *line, *column)?;
        }
        Ok(())
    }
}

impl Error for Diagnostic {}

/// All messages of one run, ordered by position.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Diagnostics(pub(crate) Vec<Diagnostic>);

impl Diagnostics {
    /// Iterates over the messages.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the messages of another run; equal messages about the same position are added once.
    pub fn merge(&mut self, other: Diagnostics) {
        for diagnostic in other.0 {
            if !self.0.contains(&diagnostic) {
                self.0.push(diagnostic);
            }
        }
    }

    /// Whether one of the messages is an error.
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

/// Same text as `Display`, because a build script that fails prints its error with `Debug`.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl Error for Diagnostics {}

/// A message whose line and column are not yet computed.
struct Report {
    severity: Severity,
    span: Span,
    message: String,
    related: Vec<RelatedSpan>,
}

/// Another position that explains a message.
struct RelatedSpan {
    span: Span,
    message: String,
}

/// Collector of messages.
#[derive(Default)]
pub(crate) struct Reports {
    reports: Vec<Report>,
    errors: usize,
}

/// Marker that an error has been reported; the caller abandons its construct, and an enclosing
/// one continues.
#[derive(Debug)]
pub(crate) struct ErrorReported;

/// Result of reading; the error has already been reported.
pub(crate) type Checked<T> = Result<T, ErrorReported>;

impl Reports {
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) -> ErrorReported {
        self.add(Severity::Error, span, message.into(), Vec::new())
    }

    /// Reports an error with a related position that explains it.
    pub(crate) fn error_with(
        &mut self,
        span: Span,
        message: impl Into<String>,
        other: Span,
        explanation: &str,
    ) -> ErrorReported {
        self.add(
            Severity::Error,
            span,
            message.into(),
            vec![RelatedSpan { span: other, message: explanation.to_owned() }],
        )
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
        related: Vec<RelatedSpan>,
    ) -> ErrorReported {
        if severity == Severity::Error {
            self.errors += 1;
            if self.errors <= MAX_DIAGNOSTICS {
                self.reports.push(Report { severity, span, message, related });
            }
        } else if self.reports.len() < 4 * MAX_DIAGNOSTICS {
            self.reports.push(Report { severity, span, message, related });
        }
        ErrorReported
    }

    /// Whether the limit of errors is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.errors >= MAX_DIAGNOSTICS
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the messages, ordered by position.
    pub(crate) fn finish(mut self, sources: &SourceMap) -> Diagnostics {
        self.reports.sort_by_key(|report| (report.span.file, report.span.start));
        let mut all: Vec<Diagnostic> = Vec::new();
        for report in self.reports {
            let place = sources.place(report.span);
            let related = report.related.into_iter().map(|RelatedSpan { span, message }| {
                let place = sources.place(span);
                let shown = ShownLine { text: place.text.to_owned(), width: place.width };
                let (line, column) = (place.line, place.column);
                Related { file: place.file.to_owned(), line, column, message, shown }
            });
            let diagnostic = Diagnostic {
                severity: report.severity,
                file: place.file.to_owned(),
                line: place.line,
                column: place.column,
                message: report.message,
                related: related.collect(),
                shown: ShownLine { text: place.text.to_owned(), width: place.width },
            };
            if all.last() != Some(&diagnostic) {
                all.push(diagnostic);
            }
        }
        Diagnostics(all)
    }
}

/// Suggests a name similar to `word`: `; did you mean `x`?`, or nothing.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    // Nearly all very short names are similar to each other.
    let most = (word.chars().count() / 3).min(3);
    let best = candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| (distance(word, candidate, most), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min();
    best.map_or_else(String::new, |(_, candidate)| format!("; did you mean `{candidate}`?"))
}

/// Number of letters to add, remove, change or swap with their neighbour. A difference in case only
/// counts nothing at first. Counting stops above `most`.
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
    fn diagnostic_suggests_similar_word() {
        let words = ["latitude", "longitude", "Track", "key"];
        assert_eq!(did_you_mean("lattitude", words), "; did you mean `latitude`?");
        assert_eq!(did_you_mean("track", words), "; did you mean `Track`?");
        assert_eq!(did_you_mean("kye", words), "; did you mean `key`?");
        assert_eq!(did_you_mean("speed", words), "");
        assert_eq!(did_you_mean("key", ["key"]), "");
    }
}
