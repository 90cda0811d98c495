//! Compilation of IDL files in a build script.
//!
//! Owns the writing of the generated files and the messages to Cargo. Never decides about
//! the contents.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), idl::build::BuildError> {
//!     idl::build::compile(&["nav.idl"])
//! }
//! ```
//!
//! A program includes the types with `include!(concat!(env!("OUT_DIR"), "/nav.rs"));`. For
//! directories, macros, or many files that include each other, see [`Build`].

use crate::model::Specification;
use crate::{Compiler, Diagnostics, Generator, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

/// Compiles IDL files into `OUT_DIR`: `dir/nav.idl` becomes `nav.rs`. Cargo runs the build script
/// again when one of the files, or a file that they include, changes.
pub fn compile<P: AsRef<Path>>(files: &[P]) -> Result<(), BuildError> {
    Build::new().compile(files)
}

/// Compiles IDL files with settings.
///
/// ```no_run
/// // build.rs: all messages of a package and what they include, as one file of Rust.
/// fn main() -> Result<(), idl::build::BuildError> {
///     idl::build::Build::new()
///         .include("/opt/ros/share")
///         .define("WITH_STATUS", "1")
///         .together("messages")
///         .compile(&["idl/Position.idl", "idl/Status.idl"])
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Build {
    compiler: Compiler,
    generator: Generator,
    together: Option<String>,
}

/// Files written by a build, and its warnings.
#[derive(Debug)]
pub struct Built {
    /// Generated Rust files.
    pub written: Vec<PathBuf>,
    /// IDL files that were read.
    pub read: BTreeSet<PathBuf>,
    /// Warnings and notes.
    pub diagnostics: Diagnostics,
}

impl Build {
    /// Creates a build without settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory to search for included files.
    #[must_use]
    pub fn include(mut self, directory: impl Into<PathBuf>) -> Self {
        self.compiler = self.compiler.include(directory);
        self
    }

    /// Defines a macro.
    #[must_use]
    pub fn define(mut self, name: &str, value: &str) -> Self {
        self.compiler = self.compiler.define(name, value);
        self
    }

    /// Uses the given generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = generator;
        self
    }

    /// Writes all files into one, `NAME.rs`, which contains definitions included by several files
    /// only once. Without this setting each file is written separately with everything it includes,
    /// so two files that include a third one each have their own types for it.
    #[must_use]
    pub fn together(mut self, name: &str) -> Self {
        self.together = Some(name.to_owned());
        self
    }

    /// Compiles into `OUT_DIR`, and tells Cargo which files were read and which warnings there are.
    pub fn compile<P: AsRef<Path>>(&self, files: &[P]) -> Result<(), BuildError> {
        for file in files {
            println!("cargo::rerun-if-changed={}", file.as_ref().display());
        }
        let directory = env::var_os("OUT_DIR").ok_or(BuildError::NoOutDir)?;
        let built = self.compile_into(files, Path::new(&directory))?;
        for file in &built.read {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        for diagnostic in built.diagnostics.iter() {
            if diagnostic.severity == Severity::Warning {
                let (file, line) = (&diagnostic.file, diagnostic.line);
                println!("cargo::warning={file}:{line}: {}", diagnostic.message);
            }
        }
        Ok(())
    }

    /// Compiles into a directory. All files are read and checked before the first one is written.
    pub fn compile_into<P: AsRef<Path>>(
        &self,
        files: &[P],
        directory: &Path,
    ) -> Result<Built, BuildError> {
        let mut units: Vec<(PathBuf, Vec<&Path>)> = Vec::new();
        match &self.together {
            Some(name) => {
                let all = files.iter().map(AsRef::as_ref).collect();
                units.push((directory.join(format!("{name}.rs")), all));
            }
            None => {
                for file in files.iter().map(AsRef::as_ref) {
                    units.push((self.output(file, directory)?, vec![file]));
                }
            }
        }
        let mut sources: BTreeMap<PathBuf, &Path> = BTreeMap::new();
        let (mut diagnostics, mut read) = (Diagnostics::default(), BTreeSet::new());
        let mut specifications: Vec<(PathBuf, Specification)> = Vec::new();
        for (output, inputs) in units {
            if let (Some(other), [file]) = (sources.get(&output), inputs.as_slice()) {
                let (file, other) = (file.to_path_buf(), other.to_path_buf());
                return Err(BuildError::SameOutput { file, other });
            }
            for file in &inputs {
                sources.insert(output.clone(), file);
            }
            let compiled = self.compiler.compile(&inputs).map_err(|error| {
                let unreadable = inputs.iter().find(|file| fs::metadata(file).is_err());
                let file = unreadable.or(inputs.first()).map_or_else(PathBuf::new, |f| f.into());
                BuildError::Read { file, error }
            })?;
            diagnostics.merge(compiled.diagnostics);
            read.extend(compiled.files);
            specifications.extend(compiled.specification.map(|one| (output, one)));
        }
        if diagnostics.has_errors() {
            return Err(BuildError::Idl(diagnostics));
        }
        let mut written = Vec::new();
        for (output, specification) in &specifications {
            fs::write(output, self.generator.generate(specification))
                .map_err(|error| BuildError::Write { file: output.clone(), error })?;
            written.push(output.clone());
        }
        Ok(Built { written, read, diagnostics })
    }

    fn output(&self, file: &Path, directory: &Path) -> Result<PathBuf, BuildError> {
        let stem = file.file_stem().ok_or_else(|| BuildError::NoName { file: file.into() })?;
        let mut output = directory.join(stem).into_os_string();
        output.push(".rs");
        Ok(output.into())
    }
}

/// Reasons why IDL files could not be compiled.
#[non_exhaustive]
pub enum BuildError {
    /// The files have errors.
    Idl(Diagnostics),
    /// A file cannot be read.
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A file cannot be written.
    Write {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Two files would be written to the same place.
    SameOutput {
        /// Path of the later file.
        file: PathBuf,
        /// Path of the earlier file.
        other: PathBuf,
    },
    /// A path does not end in a file name.
    NoName {
        /// The path.
        file: PathBuf,
    },
    /// The environment variable `OUT_DIR` is not set.
    NoOutDir,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idl(diagnostics) => diagnostics.fmt(f),
            Self::Read { file, error } => write!(
                f,
                "cannot read {}: {error}; paths count from the directory of Cargo.toml",
                file.display()
            ),
            Self::Write { file, error } => write!(f, "cannot write {}: {error}", file.display()),
            Self::SameOutput { file, other } => write!(
                f,
                "{} and {} would be written to the same file; rename one of the two",
                other.display(),
                file.display()
            ),
            Self::NoName { file } => {
                write!(f, "{} has no file name; give the path of an IDL file", file.display())
            }
            Self::NoOutDir => {
                f.write_str("OUT_DIR is not set; compile IDL from a build script, which Cargo runs")
            }
        }
    }
}

/// Same text as `Display`, because a build script that fails prints its error with `Debug`.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Idl(diagnostics) => Some(diagnostics),
            Self::Read { error, .. } | Self::Write { error, .. } => Some(error),
            Self::SameOutput { .. } | Self::NoName { .. } | Self::NoOutDir => None,
        }
    }
}
