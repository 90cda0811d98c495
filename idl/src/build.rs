//! IDL files in a build script.
//!
//! Owns the reading and writing of files. Never decides about the contents.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), idl::build::BuildError> {
//!     idl::build::compile(&["nav.idl"])
//! }
//! ```
//!
//! The types are then brought in with `include!(concat!(env!("OUT_DIR"), "/nav.rs"));`.

use crate::{Diagnostics, Generator, parse};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

/// Compiles IDL files into `OUT_DIR`: `dir/nav.idl` becomes `nav.rs`. Cargo runs the build script
/// again when one of the files changes.
pub fn compile<P: AsRef<Path>>(files: &[P]) -> Result<(), BuildError> {
    compile_with(&Generator::new(), files)
}

/// As [`compile`], with a generator of the caller's making.
pub fn compile_with<P: AsRef<Path>>(generator: &Generator, files: &[P]) -> Result<(), BuildError> {
    for file in files {
        println!("cargo::rerun-if-changed={}", file.as_ref().display());
    }
    let directory = env::var_os("OUT_DIR").ok_or(BuildError::NoOutDir)?;
    compile_into(generator, files, Path::new(&directory)).map(|_| ())
}

/// Compiles IDL files into a directory, and gives the files written. All files are read and checked
/// before the first one is written.
pub fn compile_into<P: AsRef<Path>>(
    generator: &Generator,
    files: &[P],
    directory: &Path,
) -> Result<Vec<PathBuf>, BuildError> {
    let mut outputs: BTreeMap<PathBuf, (PathBuf, String)> = BTreeMap::new();
    let mut diagnostics = Vec::new();
    for file in files.iter().map(AsRef::as_ref) {
        let stem = file.file_stem().ok_or_else(|| BuildError::NoName { file: file.into() })?;
        let mut output = directory.join(stem).into_os_string();
        output.push(".rs");
        let output = PathBuf::from(output);
        if let Some((other, _)) = outputs.get(&output) {
            return Err(BuildError::SameOutput { file: file.into(), other: other.clone() });
        }
        let text = fs::read_to_string(file)
            .map_err(|error| BuildError::Read { file: file.into(), error })?;
        match parse(&file.display().to_string(), &text) {
            Ok(specification) => {
                outputs.insert(output, (file.into(), generator.generate(&specification)));
            }
            Err(found) => diagnostics.extend(found.0),
        }
    }
    if !diagnostics.is_empty() {
        return Err(BuildError::Idl(Diagnostics(diagnostics)));
    }
    for (output, (_, rust)) in &outputs {
        fs::write(output, rust)
            .map_err(|error| BuildError::Write { file: output.clone(), error })?;
    }
    Ok(outputs.into_keys().collect())
}

/// Why IDL files could not be compiled.
#[non_exhaustive]
pub enum BuildError {
    /// The files have errors.
    Idl(Diagnostics),
    /// A file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be written.
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Two files would be written to the same place.
    SameOutput {
        /// The later file.
        file: PathBuf,
        /// The earlier file.
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
                write!(f, "{} names no file; give the path of an IDL file", file.display())
            }
            Self::NoOutDir => {
                f.write_str("OUT_DIR is not set; call this from a build script, which Cargo runs")
            }
        }
    }
}

/// As people read it, because this is what a build script that fails prints.
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
