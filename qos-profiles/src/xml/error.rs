//! What is wrong with a file, where, and what would be right.
//!
//! Owns: the form of every error and of every remark, and how many are told at most. Never does:
//! decide what is wrong.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// So many errors of one run are told; what follows is often a consequence.
pub(super) const MOST_ERRORS: usize = 100;
/// So many elements of other products are told as ignored; the rest is counted.
const MOST_IGNORED: usize = 1000;
/// What was found is told up to so many characters.
const LONGEST_FOUND: usize = 60;

/// A line and a column, from 1; columns are characters. Zero stands for the whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct At {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    file: Arc<str>,
    at: At,
}

impl Place {
    pub(super) fn new(file: &Arc<str>, at: At) -> Self {
        Self { file: Arc::clone(file), at }
    }

    /// The name of the file, or what stands for it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; 0 for the whole file.
    pub fn line(&self) -> u32 {
        self.at.line
    }

    /// The column, in characters from 1; 0 for the whole file.
    pub fn column(&self) -> u32 {
        self.at.column
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.at.line > 0 {
            write!(f, ":{}:{}", self.at.line, self.at.column)?;
        }
        Ok(())
    }
}

/// Something wrong in a file of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// Where it stands.
    pub place: Place,
    /// The elements around it, from the root: `dds/qos_library[Fleet]/qos_profile[State]`.
    pub path: String,
    /// What is there.
    pub found: String,
    /// What would be right.
    pub expected: String,
    /// The name that was probably meant.
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

/// All that is wrong with some files, in the order in which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileErrors(Vec<ProfileError>);

impl ProfileErrors {
    pub(super) fn new(errors: Vec<ProfileError>) -> Self {
        Self(errors)
    }

    /// Errors that were found by whoever uses the files; none if there are none.
    pub fn of(errors: Vec<ProfileError>) -> Option<Self> {
        (!errors.is_empty()).then(|| Self::new(errors))
    }

    /// The errors: one at least, and 100 of a file at most.
    pub fn errors(&self) -> &[ProfileError] {
        &self.0
    }
}

impl fmt::Display for ProfileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{error}")?;
        }
        Ok(())
    }
}

impl Error for ProfileErrors {}

/// An element or attribute that only another product understands, and that has no effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Where it stands.
    pub place: Place,
    /// The elements from the root to it.
    pub path: String,
    /// Whose it is: `RTI Connext`.
    pub product: &'static str,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ignored, it is of {}", self.place, self.path, self.product)
    }
}

/// What is wrong with something, before it is known where that stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) found: String,
    pub(super) expected: String,
    pub(super) suggestion: Option<String>,
}

impl Wrong {
    pub(super) fn new(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { found: found.into(), expected: expected.into(), suggestion: None }
    }

    pub(super) fn suggest(self, suggestion: Option<String>) -> Self {
        Self { suggestion, ..self }
    }
}

/// A text from a file as it is told in an error: in quotes, and not for pages.
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

/// The elements around what is read; each lies on the stack of whoever reads it.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    outer: Option<&'a Path<'a>>,
    element: &'a str,
    label: Option<&'a str>,
}

impl<'a> Path<'a> {
    pub(super) fn root(element: &'a str, label: Option<&'a str>) -> Self {
        Path { outer: None, element, label }
    }

    pub(super) fn inner(&'a self, element: &'a str) -> Path<'a> {
        Path { outer: Some(self), element, label: None }
    }

    pub(super) fn labelled(&'a self, element: &'a str, label: Option<&'a str>) -> Path<'a> {
        Path { outer: Some(self), element, label }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |text: &str| -> String { text.chars().take(LONGEST_FOUND).collect() };
        if let Some(outer) = self.outer {
            write!(f, "{outer}/")?;
        }
        f.write_str(&told(self.element))?;
        match self.label {
            Some(label) => write!(f, "[{}]", told(label)),
            None => Ok(()),
        }
    }
}

/// What is found while one file is read.
pub(super) struct Report {
    pub(super) file: Arc<str>,
    pub(super) errors: Vec<ProfileError>,
    pub(super) ignored: Vec<Ignored>,
    /// Whether the file was read to its end.
    pub(super) whole: bool,
}

impl Report {
    pub(super) fn new(file: &Arc<str>) -> Self {
        Self { file: Arc::clone(file), errors: Vec::new(), ignored: Vec::new(), whole: true }
    }

    pub(super) fn error(&mut self, at: At, path: impl fmt::Display, wrong: Wrong) {
        if self.is_full() {
            return;
        }
        let Wrong { found, expected, suggestion } = wrong;
        let place = Place::new(&self.file, at);
        self.errors.push(ProfileError {
            place,
            path: path.to_string(),
            found,
            expected,
            suggestion,
        });
    }

    /// What was found in a file that this one includes.
    pub(super) fn take(&mut self, inner: Report) {
        self.errors.extend(inner.errors);
        self.ignored.extend(inner.ignored);
        self.whole &= inner.whole;
    }

    /// Whether nothing more is told.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MOST_ERRORS
    }

    pub(super) fn ignored(&mut self, at: At, path: &Path<'_>, product: &'static str) {
        if self.ignored.len() < MOST_IGNORED {
            let place = Place::new(&self.file, at);
            self.ignored.push(Ignored { place, path: path.to_string(), product });
        }
    }
}
