//! Errors in files: position, problem, and correction.
//!
//! Owns: the form of every error and remark, and the maximum number reported. Never does: decide
//! what is wrong.

use super::vendor;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Maximum number of errors reported in one run; later ones are often consequences.
pub(super) const MOST_ERRORS: usize = 100;
/// Maximum number of ignored elements of other products reported; the rest is only counted.
const MOST_IGNORED: usize = 1000;
/// Maximum number of characters shown of a line.
const LONGEST_LINE: usize = 100;
/// Maximum number of characters shown of the found text.
const LONGEST_FOUND: usize = 60;

/// A line and a column, counted from 1; columns count characters. Zero means the whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineColumn {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Position in a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilePosition {
    file: Arc<str>,
    at: LineColumn,
}

impl FilePosition {
    pub(super) fn new(file: &Arc<str>, at: LineColumn) -> Self {
        Self { file: Arc::clone(file), at }
    }

    /// Returns the name of the file, or the substitute for it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the line, counted from 1; 0 for the whole file.
    pub fn line(&self) -> u32 {
        self.at.line
    }

    /// Returns the column in characters, counted from 1; 0 for the whole file.
    pub fn column(&self) -> u32 {
        self.at.column
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.at.line > 0 {
            write!(f, ":{}:{}", self.at.line, self.at.column)?;
        }
        Ok(())
    }
}

/// An error in a file of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// Position in the file.
    pub place: FilePosition,
    /// Path of elements from the root: `dds/qos_library[Fleet]/qos_profile[State]`.
    pub path: String,
    /// Found text.
    pub found: String,
    /// Expected text.
    pub expected: String,
    /// Similar name that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.found, self.expected)?;
        match &self.suggestion {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

impl Error for ProfileError {}

/// All errors in some files, in the order in which they were found.
///
/// The alternate form (`{:#}`) shows the line of each error in its file, with a caret below the
/// column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileErrors {
    errors: Vec<ProfileError>,
    /// Line of each error, if it is known.
    lines: Vec<Option<SourceLine>>,
}

impl ProfileErrors {
    pub(super) fn new(errors: Vec<ProfileError>) -> Self {
        Self { lines: vec![None; errors.len()], errors }
    }

    /// Adds the lines of the errors. `text_of` returns the text of a file by its name.
    pub(super) fn with_lines(mut self, text_of: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let mut texts: BTreeMap<&str, Option<Vec<u8>>> = BTreeMap::new();
        for (error, line) in self.errors.iter().zip(&mut self.lines) {
            let file = error.place.file();
            let text = texts.entry(file).or_insert_with(|| text_of(file));
            *line = text.as_deref().and_then(|text| SourceLine::of(text, error.place.at));
        }
        self
    }

    /// Makes a list from errors found by the user of the files; `None` if there are none.
    pub fn of(errors: Vec<ProfileError>) -> Option<Self> {
        (!errors.is_empty()).then(|| Self::new(errors))
    }

    /// Returns the errors: at least one, and at most 100 of a file.
    pub fn errors(&self) -> &[ProfileError] {
        &self.errors
    }
}

impl fmt::Display for ProfileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (error, line)) in self.errors.iter().zip(&self.lines).enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{error}")?;
            if let (true, Some(line)) = (f.alternate(), line) {
                write!(f, "\n{line}")?;
            }
        }
        Ok(())
    }
}

impl Error for ProfileErrors {}

/// Line of a file with an error, and the position of the error in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SourceLine {
    number: u32,
    text: String,
    /// Number of characters before the error.
    before: usize,
}

impl SourceLine {
    /// Returns the line at a position; a long one is shortened around the position.
    fn of(text: &[u8], at: LineColumn) -> Option<SourceLine> {
        let line = text.split(|byte| *byte == b'\n').nth((at.line as usize).checked_sub(1)?)?;
        let line = String::from_utf8_lossy(line);
        let line = line.trim_start_matches('\u{feff}').trim_end();
        let column = (at.column as usize).checked_sub(1)?;
        let first = column.saturating_sub(LONGEST_LINE / 2);
        // Each character takes one column, whatever the terminal makes of it.
        let shown = line.chars().skip(first).take(LONGEST_LINE);
        let text = shown.map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        Some(SourceLine { number: at.line, text, before: column - first })
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, blank) = (self.number.to_string(), "");
        writeln!(f, "  {number} | {}", self.text)?;
        write!(f, "  {blank:width$} | {blank:before$}^", width = number.len(), before = self.before)
    }
}

/// An element or attribute of another product, which has no effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Position in the file.
    pub place: FilePosition,
    /// Path of elements from the root.
    pub path: String,
    /// Product that it belongs to: `RTI Connext`.
    pub product: &'static str,
    /// Hint on what serves the same purpose here, if there is something to say.
    pub advice: Option<&'static str>,
    /// Number of times that the file has it. Only the first position is reported.
    pub count: usize,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ignored, belongs to {}", self.place, self.path, self.product)?;
        if self.count > 1 {
            write!(f, " ({} times in this file)", self.count)?;
        }
        match self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// An error whose position is not yet known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnplacedError {
    pub(super) found: String,
    pub(super) expected: String,
    pub(super) suggestion: Option<String>,
}

impl UnplacedError {
    pub(super) fn new(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { found: found.into(), expected: expected.into(), suggestion: None }
    }

    pub(super) fn suggest(self, suggestion: Option<String>) -> Self {
        Self { suggestion, ..self }
    }
}

/// Returns a text from a file in quotes and shortened, for an error.
pub(super) fn quoted(text: &str) -> String {
    if text.is_empty() {
        return "nothing".to_owned();
    }
    let mut told = String::new();
    for letter in text.chars().take(LONGEST_FOUND) {
        if letter.is_control() {
            told.extend(letter.escape_default());
        } else {
            told.push(letter);
        }
    }
    if text.chars().nth(LONGEST_FOUND).is_some() {
        told.push_str("...");
    }
    format!("`{told}`")
}

/// Path of the enclosing elements; each is on the stack of the function that reads it.
#[derive(Clone, Copy)]
pub(super) struct ElementPath<'a> {
    outer: Option<&'a ElementPath<'a>>,
    element: &'a str,
    label: Option<&'a str>,
}

impl<'a> ElementPath<'a> {
    pub(super) fn root(element: &'a str, label: Option<&'a str>) -> Self {
        ElementPath { outer: None, element, label }
    }

    pub(super) fn inner(&'a self, element: &'a str) -> ElementPath<'a> {
        ElementPath { outer: Some(self), element, label: None }
    }

    pub(super) fn labelled(&'a self, element: &'a str, label: Option<&'a str>) -> ElementPath<'a> {
        ElementPath { outer: Some(self), element, label }
    }

    /// Returns the name of the last element, attribute, property or base.
    fn last_name(&self) -> &'a str {
        // The names of properties and bases are labels.
        match self.label {
            Some(label) if matches!(self.element, "name" | "base_name") => label,
            _ => self.element.trim_start_matches('@'),
        }
    }
}

impl fmt::Display for ElementPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shortened = |text: &str| -> String { text.chars().take(LONGEST_FOUND).collect() };
        if let Some(outer) = self.outer {
            write!(f, "{outer}/")?;
        }
        f.write_str(&shortened(self.element))?;
        match self.label {
            Some(label) => write!(f, "[{}]", shortened(label)),
            None => Ok(()),
        }
    }
}

/// Findings from reading one file.
pub(super) struct FileReport {
    pub(super) file: Arc<str>,
    pub(super) errors: Vec<ProfileError>,
    pub(super) ignored: Vec<Ignored>,
    /// Index in `ignored` of each product's names.
    known_ignored: BTreeMap<(&'static str, String), usize>,
    /// Whether the file was read to its end.
    pub(super) is_complete: bool,
}

impl FileReport {
    pub(super) fn new(file: &Arc<str>) -> Self {
        Self {
            file: Arc::clone(file),
            errors: Vec::new(),
            ignored: Vec::new(),
            known_ignored: BTreeMap::new(),
            is_complete: true,
        }
    }

    pub(super) fn error(&mut self, at: LineColumn, path: impl fmt::Display, wrong: UnplacedError) {
        if self.is_full() {
            return;
        }
        let UnplacedError { found, expected, suggestion } = wrong;
        let position = FilePosition::new(&self.file, at);
        self.errors.push(ProfileError {
            place: position,
            path: path.to_string(),
            found,
            expected,
            suggestion,
        });
    }

    /// Adds the findings of an included file.
    pub(super) fn take(&mut self, inner: FileReport) {
        self.errors.extend(inner.errors);
        self.ignored.extend(inner.ignored);
        self.is_complete &= inner.is_complete;
    }

    /// Whether the maximum number of errors is reached.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MOST_ERRORS
    }

    /// Reports an element, attribute or property of another product, once for its name.
    pub(super) fn ignored(
        &mut self,
        at: LineColumn,
        path: &ElementPath<'_>,
        product: &'static str,
    ) {
        let name = path.last_name();
        if let Some(known) = self.known_ignored.get(&(product, name.to_owned())) {
            self.ignored[*known].count += 1;
        } else if self.ignored.len() < MOST_IGNORED {
            self.known_ignored.insert((product, name.to_owned()), self.ignored.len());
            let place = FilePosition::new(&self.file, at);
            let (path, advice) = (path.to_string(), vendor::advice(product, name));
            self.ignored.push(Ignored { place, path, product, advice, count: 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, line: u32, column: u32) -> Option<String> {
        SourceLine::of(text.as_bytes(), LineColumn { line, column }).map(|line| line.to_string())
    }

    #[test]
    fn caret_is_below_the_column_of_the_error() {
        assert_eq!(shown("<a>\n\t<b/>\r\n", 2, 2).unwrap(), "  2 |  <b/>\n    |  ^");
        assert_eq!(shown("<é/>", 1, 3).unwrap(), "  1 | <é/>\n    |   ^");
        assert_eq!(shown("\u{feff}<a/>", 1, 1).unwrap(), "  1 | <a/>\n    | ^");
        assert_eq!((shown("<a/>", 0, 0), shown("<a/>", 3, 1)), (None, None));
        let long = format!("{}<x/>{}", "a".repeat(200), "b".repeat(200));
        let told = shown(&long, 1, 201).unwrap();
        let (line, caret) = told.split_once('\n').unwrap();
        assert_eq!(line.chars().count(), 6 + LONGEST_LINE);
        assert_eq!(&line[caret.len() - 1..caret.len() + 3], "<x/>");
    }
}
