//! IDL files to Rust files, as in a build script.

use idl::build::{Build, BuildError};
use std::path::{Path, PathBuf};
use std::{fs, process};

/// A directory of its own for each test, removed at the end of the test.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let name = format!("{test}-{}", process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("the directory for test files is writable");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("the directory is there");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that cannot be removed does not affect the next run, which uses another name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn build_writes_rust_file_named_after_each_idl_file() {
    let directory = Directory::new("names");
    let files = [
        directory.file("a.idl", "struct A { long a; };"),
        directory.file("b.b.idl", "enum B { C };"),
    ];
    let written = Build::new().compile_into(&files, &directory.0).unwrap().written;
    assert_eq!(written, [directory.0.join("a.rs"), directory.0.join("b.b.rs")]);
    assert!(fs::read_to_string(&written[0]).unwrap().contains("pub struct A {"));
}

#[test]
fn build_reports_errors_of_all_files_and_writes_no_file() {
    let directory = Directory::new("errors");
    let files = [
        directory.file("a.idl", "struct A { lung a; };"),
        directory.file("b.idl", "struct B { long b; };"),
        directory.file("c.idl", "struct C { long c };"),
    ];
    let error = Build::new().compile_into(&files, &directory.0).unwrap_err();
    // A build script prints the `Debug` form.
    let text = format!("{error:?}");
    assert!(text.contains("a.idl:1:12: error: there is no `lung`"), "{text}");
    assert!(text.contains("c.idl:1:19: error: expected `,`, `[` or `;`"), "{text}");
    assert!(!directory.0.join("b.rs").exists());
}

#[test]
fn build_reports_missing_conflicting_and_nameless_files() {
    let directory = Directory::new("files");
    let missing = directory.0.join("missing.idl");
    let error = Build::new().compile_into(&[&missing], &directory.0).unwrap_err();
    assert!(matches!(&error, BuildError::Read { file, .. } if *file == missing), "{error}");

    fs::create_dir_all(directory.0.join("x")).unwrap();
    let files =
        [directory.file("a.idl", "enum A { B };"), directory.file("x/a.idl", "enum A { B };")];
    let error = Build::new().compile_into(&files, &directory.0).unwrap_err();
    assert!(matches!(error, BuildError::SameOutput { .. }), "{error}");

    let error = Build::new().compile_into(&[".."], &directory.0).unwrap_err();
    assert!(matches!(error, BuildError::NoName { .. }), "{error}");
}
