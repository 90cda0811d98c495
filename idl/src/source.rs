//! Source texts and positions in them.
//!
//! Owns the texts that were read, their include relations, and the conversion of a byte offset to
//! line and column. Never reads a file: the caller supplies texts through [`Files`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

/// Maximum size of a text; positions in it are 32-bit numbers.
pub const MAX_FILE_SIZE: usize = 64 << 20;

/// Source of the texts of files: a port, so that tests need no disk.
pub trait Files {
    /// Returns the whole text of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns a path that is the same for all spellings of the path of one file.
    fn identity(&self, path: &Path) -> PathBuf;
}

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let size = fs::metadata(path)?.len();
        if size > MAX_FILE_SIZE as u64 {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the file is longer than {} MiB", MAX_FILE_SIZE >> 20),
            ));
        }
        fs::read(path)
    }

    fn identity(&self, path: &Path) -> PathBuf {
        fs::canonicalize(path)
            .or_else(|_| env::current_dir().map(|here| tidy(&here.join(path))))
            .unwrap_or_else(|_| tidy(path))
    }
}

/// Texts in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct Memory(pub BTreeMap<PathBuf, String>);

impl Memory {
    /// Makes a set of texts from their paths and contents.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.into(), text.to_owned())).collect())
    }
}

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.0.get(&tidy(path));
        text.map(|text| text.clone().into_bytes())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no text has this path"))
    }

    fn identity(&self, path: &Path) -> PathBuf {
        tidy(path)
    }
}

/// Returns the path without `.` and `..`, as far as possible without access to the disk.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if tidy.file_name().is_some() => {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    tidy
}

/// Decodes bytes as UTF-8, or else as Latin-1, the original character set of IDL.
pub(crate) fn decode(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect())
}

/// Number of a text in its [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u32);

/// A range of a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) file: FileId,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Returns the span from the start of this one to the end of another, if both are in one text.
    pub(crate) fn to(self, end: Span) -> Span {
        if self.file == end.file && end.end >= self.start {
            Span { end: end.end, ..self }
        } else {
            self
        }
    }

    /// Returns an empty span at the end of this one; the width of the next character is
    /// unknown here.
    pub(crate) fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// A source text.
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: std::rc::Rc<str>,
    /// Offsets at which lines start.
    lines: Vec<u32>,
}

/// All texts of one run.
#[derive(Default)]
pub(crate) struct SourceMap {
    files: Vec<SourceFile>,
}

/// A position in a form for human readers.
pub(crate) struct SourcePosition<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) text: &'a str,
    /// Number of characters to underline.
    pub(crate) width: usize,
}

impl SourceMap {
    pub(crate) fn add(&mut self, name: &str, text: String) -> FileId {
        let mut lines = vec![0];
        lines.extend(text.match_indices('\n').map(|(at, _)| at as u32 + 1));
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceFile { name: name.to_owned(), text: text.into(), lines });
        id
    }

    pub(crate) fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    pub(crate) fn place(&self, span: Span) -> SourcePosition<'_> {
        let file = self.file(span.file);
        let line = file.lines.partition_point(|start| *start <= span.start) - 1;
        let line_start = file.lines[line] as usize;
        let rest = &file.text[line_start..];
        let text = rest.split(['\n', '\r']).next().unwrap_or(rest);
        let start = span.start as usize - line_start;
        let end = (span.end as usize - line_start).min(text.len()).max(start);
        let before = file.text.get(line_start..line_start + start).unwrap_or(text);
        let marked = text.get(start..end).unwrap_or_default();
        SourcePosition {
            file: &file.name,
            line: line + 1,
            column: before.chars().count() + 1,
            text,
            width: marked.chars().count().max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_position_counts_characters_and_ends_at_end_of_line() {
        let mut map = SourceMap::default();
        let id = map.add("a", "é = 1;\r\nxy\n".to_owned());
        let place = |start, end| {
            let place = map.place(Span { file: id, start, end });
            (place.line, place.column, place.text.to_owned(), place.width)
        };
        assert_eq!(place(0, 2), (1, 1, "é = 1;".to_owned(), 1));
        assert_eq!(place(5, 12), (1, 5, "é = 1;".to_owned(), 2));
        assert_eq!(place(9, 11), (2, 1, "xy".to_owned(), 2));
        assert_eq!(place(12, 12), (3, 1, String::new(), 1));
    }

    #[test]
    fn relative_path_is_normalized() {
        assert_eq!(tidy(Path::new("./a/../b/./c")), Path::new("b/c"));
        assert_eq!(tidy(Path::new("../a")), Path::new("../a"));
    }
}
