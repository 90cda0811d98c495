//! Compilation of files to a specification: the stages in their order.
//!
//! Owns the settings of a run. Never knows what a stage does.

use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostics, Reports};
use crate::lower::{TypeUse, lower};
use crate::model::Specification;
use crate::parser;
use crate::preprocessor::{Preprocessor, Settings};
use crate::source::{Disk, Files, SourceMap, decode};

/// Compiles IDL files.
///
/// ```
/// let files = idl::Memory::new([
///     ("nav.idl", "#include <units.idl>\nstruct Fix { Metre height[N]; };"),
///     ("lib/units.idl", "typedef double Metre;"),
/// ]);
/// let compiler = idl::Compiler::new().include("lib").define("N", "2");
/// let compiled = compiler.compile_from(&files, &["nav.idl"])?;
/// assert!(compiled.diagnostics.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    settings: Settings,
}

/// Result of a run.
#[derive(Debug)]
pub struct Compilation {
    /// All definitions of the files; `None` if there are errors.
    pub specification: Option<Specification>,
    /// Errors, warnings and notes.
    pub diagnostics: Diagnostics,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

impl Compiler {
    /// Creates a compiler without settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory to search for included files, after those given before.
    #[must_use]
    pub fn include(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.directories.push(directory.into());
        self
    }

    /// Defines a macro like `#define NAME VALUE`; for example `define("DEBUG", "1")`.
    #[must_use]
    pub fn define(mut self, name: &str, value: &str) -> Self {
        self.settings.defines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Compiles files of the disk into one specification. A definition that several of them include
    /// appears once. Each file begins with only the macros of the settings.
    pub fn compile<P: AsRef<Path>>(&self, files: &[P]) -> std::io::Result<Compilation> {
        self.compile_from(&Disk, files)
    }

    /// Compiles like [`Compiler::compile`], with files from another source than the disk.
    pub fn compile_from<P: AsRef<Path>>(
        &self,
        files: &dyn Files,
        roots: &[P],
    ) -> std::io::Result<Compilation> {
        let mut texts = Vec::new();
        for root in roots {
            let path = root.as_ref();
            texts.push(RootText { path: path.to_owned(), text: decode(files.read(path)?) });
        }
        Ok(self.compile_texts(files, texts, TypeUse::Rust))
    }

    fn compile_texts(&self, files: &dyn Files, roots: Vec<RootText>, of: TypeUse) -> Compilation {
        let (mut sources, mut reports) = (SourceMap::default(), Reports::default());
        let mut preprocessor = Preprocessor::new(files, &self.settings, &mut sources, &mut reports);
        for RootText { path, text } in roots {
            preprocessor.root(&path, text);
        }
        let preprocessed = preprocessor.finish();
        let (files, standard) = (preprocessed.files.clone(), preprocessed.standard);
        let definitions = parser::parse(preprocessed, &sources, &mut reports);
        let specification = lower(&definitions, standard, &mut reports, of);
        let has_errors = reports.has_errors();
        let diagnostics = reports.finish(&sources);
        Compilation { specification: (!has_errors).then_some(specification), diagnostics, files }
    }
}

/// IDL file that no other file includes.
struct RootText {
    path: PathBuf,
    text: String,
}

/// Compiles the text of an IDL file, for types that are used at run time. `file` is the file's name
/// in messages. The text can include files of the disk.
pub fn parse(file: &str, text: &str) -> Result<Specification, Diagnostics> {
    let roots = vec![RootText { path: PathBuf::from(file), text: text.to_owned() }];
    let compilation = Compiler::new().compile_texts(&Disk, roots, TypeUse::RunTime);
    compilation.specification.ok_or(compilation.diagnostics)
}
