//! ROS 2 packages: their interface files, and the IDL that ROS 2 makes of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use idl::{Compilation, Compiler, Generator, Memory};

const PACKAGES: &str = include_str!("ros2/packages.txt");

fn packages() -> BTreeMap<String, String> {
    let files = PACKAGES.split("\n== ").skip(1).map(|file| {
        let (path, text) = file.split_once('\n').unwrap();
        (path.to_owned(), text.to_owned())
    });
    files.collect()
}

fn compile(files: &BTreeMap<String, String>) -> Compilation {
    let memory = files.iter().map(|(path, text)| (PathBuf::from(path), text.clone()));
    let paths: Vec<&String> = files.keys().collect();
    Compiler::new().include("").compile_from(&Memory(memory.collect()), &paths).unwrap()
}

/// Compiles files with the given text each, and returns the messages about them.
fn messages(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<String, String> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let compiled = compile(&files);
    let shown = compiled.diagnostics.iter();
    shown.map(|d| format!("{}:{}:{}: {}", d.file, d.line, d.column, d.message)).collect()
}

#[track_caller]
fn assert_golden(file: &str, compiled: Compilation) {
    assert!(compiled.diagnostics.is_empty(), "{}", compiled.diagnostics);
    let rust = Generator::new().crate_path("idl_cdr").generate(&compiled.specification.unwrap());
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &rust).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap();
    let line = rust.lines().zip(golden.lines()).position(|(new, old)| new != old);
    assert!(rust == golden, "{file} differs from line {line:?} on (counted from 0)");
}

#[test]
fn interface_files_of_whole_packages_generate() {
    let files = packages();
    assert!(files.len() > 110);
    assert_golden("ros_packages.rs", compile(&files));
}

#[test]
fn errors_of_interface_files_show_their_line() {
    let row = |text, message: &str| {
        assert_eq!(messages(&[("p/msg/A.msg", text)]), [format!("p/msg/A.msg:{message}")]);
    };
    row("\nint32 a\nboolean b\n", "3:1: there is no type `boolean` in ROS 2; did you mean `bool`?");
    row(
        "int32 a\nint32 a",
        "2:7: there is a member `a` already (case does not count in IDL); rename one of the two",
    );
    row("uint8 A = 256", "1:7: 256 does not fit uint8, which goes from 0 to 255");
    row("int32", "1:6: expected the name of a field or constant behind its type");
    row("int32[0] a", "1:7: expected the length of the list, from 1 on");
    row("int32<=3 a", "1:1: only a string or a list has a bound `<=`");
    row("int32[] a 3", "1:11: the default of a list is written [1, 2, 3], found `3`");
    row("int32 A = x", "1:11: expected a number, found `x`");
    row("string A = 'x", "1:12: this text has no end, expected '");
    row("int32 a\n---\n", "2:1: a .msg file has 0 lines `---`, this one has 1");
    row(
        "q/B b",
        "1:1: there is no `q/msg/B.msg`; looked for in ., .; give the directory of `q` by -I",
    );
    assert_eq!(
        messages(&[("A.msg", "int32 a")]),
        ["A.msg:1:1: the path of this file does not name its package; expected \
          PACKAGE/msg/NAME.msg"]
    );
}

/// Returns the name of a type of an interface file in the IDL that ROS 2 makes of it.
fn idl_type(ty: &str, package: &str, includes: &mut String) -> String {
    match ty {
        "bool" => "boolean".to_owned(),
        "byte" => "octet".to_owned(),
        "char" => "uint8".to_owned(),
        "float32" => "float".to_owned(),
        "float64" => "double".to_owned(),
        "string" | "wstring" => ty.to_owned(),
        _ if ty.starts_with("int") || ty.starts_with("uint") => ty.to_owned(),
        _ => {
            let (package, name) = ty.split_once('/').unwrap_or((package, ty));
            writeln!(includes, "#include \"{package}/msg/{name}.idl\"").unwrap();
            format!("{package}::msg::{name}")
        }
    }
}

/// Returns the IDL of a message or service without constants, in the form that ROS 2 gives it:
/// arrays are typedefs, declared in each file that uses them.
fn idl_of(path: &str, text: &str) -> String {
    let (package, rest) = path.split_once('/').unwrap();
    let (module, file) = rest.split_once('/').unwrap();
    let name = file.split_once('.').unwrap().0;
    let suffixes: &[&str] = if module == "srv" { &["_Request", "_Response"] } else { &[""] };
    let (mut includes, mut typedefs, mut structs) = (String::new(), String::new(), String::new());
    for (suffix, part) in suffixes.iter().zip(text.split("---")) {
        let mut members = String::new();
        for line in part.lines().map(|line| line.split('#').next().unwrap()) {
            let mut words = line.split_whitespace();
            let (Some(ty), Some(name)) = (words.next(), words.next()) else { continue };
            if line.contains('=') {
                continue;
            }
            let (base, length) = ty.split_once('[').unwrap_or((ty, ""));
            let base = idl_type(base, package, &mut includes);
            let ty = match length {
                "" => base,
                "]" => format!("sequence<{base}>"),
                length => {
                    let length = length.trim_end_matches(']');
                    let alias = format!("{}__{length}", base.replace("::", "__"));
                    let typedef = format!("typedef {base} {alias}[{length}];\n");
                    if !typedefs.contains(&typedef) {
                        typedefs += &typedef;
                    }
                    alias
                }
            };
            writeln!(members, "{ty} {name};").unwrap();
        }
        if members.is_empty() {
            members += "uint8 structure_needs_at_least_one_member;\n";
        }
        writeln!(structs, "struct {name}{suffix} {{\n{members}}};").unwrap();
    }
    format!("{includes}module {package} {{\nmodule {module} {{\n{typedefs}{structs}}};\n}};\n")
}

#[test]
fn idl_of_whole_packages_generates() {
    let files: BTreeMap<String, String> = packages()
        .into_iter()
        .filter(|(path, _)| !path.starts_with("fleet_msgs"))
        .map(|(path, text)| (path.rsplit_once('.').unwrap().0.to_owned() + ".idl", (path, text)))
        .map(|(idl, (path, text))| (idl, idl_of(&path, &text)))
        .collect();
    assert_golden("ros_packages_idl.rs", compile(&files));
}
