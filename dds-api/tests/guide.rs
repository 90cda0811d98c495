//! Checks of the guide: its pieces of Rust run, the tests it names exist, and its links resolve.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[rustfmt::skip]
#[allow(unused_variables, reason = "a piece of a page need not use what it shows")]
#[path = "guide/pieces.rs"]
mod pieces;
#[allow(dead_code, reason = "only tests are looked for here")]
#[path = "conformance/tree.rs"]
mod tree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tree::{TestFile, path_of, root};

const FOLDER: &str = "SQUALL_TEST_GUIDE";

/// Runs in a process whose participants meet in a folder of its own, because the programs in the
/// pages name no folder.
#[test]
fn guide_examples_run() {
    let folder = tempfile::tempdir().unwrap();
    let logs = ["logged", "lost"].map(|name| folder.path().join(name));
    logs.iter().for_each(|logs| std::fs::create_dir(logs).unwrap());
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "play", "--nocapture"]).env(FOLDER, folder.path());
    let output = program.env("SQUALL_RUNTIME_DIR", folder.path().join("run")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("7 at ").count(), 6, "five of the display, and one of the log: {text}");
    assert!(text.contains("7: NotAliveDisposed"), "{text}");
    assert!(text.contains(r#""pitch": 1.5"#), "{text}");
}

/// Role of the child process; does nothing when the test program is run normally.
#[test]
fn play() {
    if let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) {
        pieces::run(&folder);
    }
}

/// The pages of the guide, with their paths.
fn pages() -> Vec<(PathBuf, String)> {
    let guide = std::fs::read_dir(root().join("docs/guide")).unwrap().flatten().map(|it| it.path());
    let others = ["docs/reference/conformance.md", "README.md"].map(|path| root().join(path));
    let pages =
        guide.chain(others).map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()));
    pages.collect()
}

/// Returns a text without its layout.
fn bare(text: &str) -> String {
    text.split_whitespace().collect::<String>().replace(",}", "}").replace(",)", ")")
}

#[test]
fn each_rust_example_in_pages_is_executed() {
    let programs = ["dds-api/tests/guide/pieces.rs", "examples/src/bin/hello.rs"];
    let programs = programs.map(|path| bare(&std::fs::read_to_string(root().join(path)).unwrap()));
    let mut pieces = 0;
    for (path, page) in pages() {
        for piece in page.split("```rust\n").skip(1) {
            let piece = piece.split("```").next().unwrap();
            pieces += 1;
            let runs = programs.iter().any(|program| program.contains(&bare(piece)));
            assert!(runs, "{}: this does not run as it stands there:\n{piece}", path.display());
        }
    }
    assert!(pieces > 20, "{pieces}");
}

/// Each `file::test` in a page is a test of this crate.
#[test]
fn each_test_named_in_pages_exists() {
    let mut named = 0;
    for (path, page) in pages() {
        for name in page.split('`').skip(1).step_by(2) {
            let Some((file, test)) = name.split_once("::") else { continue };
            let is_file = file.chars().all(|it| it.is_ascii_lowercase() || it == '_');
            let Some(file) = TestFile::read(&path_of(file)).filter(|_| is_file) else { continue };
            named += 1;
            assert!(file.test(test).is_ok(), "{}: `{name}` is no test", path.display());
        }
    }
    assert!(named > 10, "{named}");
}

/// Returns the anchor of a heading in links.
fn anchor(heading: &str) -> String {
    let kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[test]
fn each_link_in_pages_resolves() {
    for (path, page) in pages() {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") || link.contains(char::is_whitespace) {
                continue;
            }
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link}", path.display());
            if !part.is_empty() {
                let target = std::fs::read_to_string(target).unwrap();
                let mut headings = target.lines().filter_map(|line| line.strip_prefix('#'));
                let found = headings.any(|it| anchor(it.trim_start_matches('#').trim()) == part);
                assert!(found, "{}: {link}", path.display());
            }
        }
    }
}

/// Returns the public types of `dds-api`, as its modules name or define them. A macro defines masks
/// of states, with their examples.
fn public_types(folder: &Path) -> BTreeSet<String> {
    let modules = std::fs::read_dir(folder).unwrap().flatten().map(|it| it.path().join("mod.rs"));
    let mut types = BTreeSet::new();
    for path in modules.chain([folder.join("shared_state.rs")]) {
        let Ok(source) = std::fs::read_to_string(&path) else { continue };
        let source = source.replace("#[doc(hidden)]\npub use", "use");
        let ours = source.split("\npub ").skip(1).filter_map(|rest| match rest.split_once(' ') {
            // Types of another crate have their examples there.
            Some(("use", named)) if !named.starts_with("derecho_") => named.split(';').next(),
            Some(("struct" | "enum" | "trait", name)) => name.split(['<', ' ', '(', ':']).next(),
            _ => None,
        });
        let is_type = |word: &&str| word.starts_with(|it: char| it.is_uppercase());
        types.extend(ours.flat_map(tree::words).filter(is_type).map(str::to_owned));
    }
    types.retain(|name| !name.ends_with("StateMask"));
    types
}

/// Whether this line defines the type, directly or by a macro.
fn makes(line: &str, name: &str) -> bool {
    let line = line.trim_start();
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let declared = kinds.iter().find_map(|kind| line.strip_prefix(kind));
    let listed = ([" {", " {};"].iter().any(|end| line.ends_with(end)) && !line.contains('='))
        .then_some(line);
    declared.or(listed).and_then(|rest| tree::words(rest).next()) == Some(name)
}

#[test]
fn each_public_type_has_an_example() {
    let folder = root().join("dds-api/src");
    let (types, mut shown) = (public_types(&folder), BTreeSet::new());
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().flatten().map(|it| it.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(path).unwrap();
            let lines: Vec<&str> = source.lines().collect();
            for name in types.iter() {
                let places = (0..lines.len()).filter(|at| makes(lines[*at], name));
                let is_said = |line: &&&str| line.trim_start().starts_with(['/', '#']);
                let said = |at: usize| lines[..at].iter().rev().take_while(is_said);
                if places.into_iter().any(|at| said(at).any(|line| line.contains("```"))) {
                    shown.insert(name.clone());
                }
            }
        }
    }
    assert!(types.len() > 70, "{}", types.len());
    let missing: Vec<_> = types.difference(&shown).collect();
    assert!(missing.is_empty(), "without an example: {missing:?}");
}
