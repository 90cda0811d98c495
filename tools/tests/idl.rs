//! `squall idl`, as users and programs call it.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::fs;

use support::TestFolder;

/// Writes a file into the folder, and returns its path.
fn file(test_folder: &TestFolder, name: &str, text: &str) -> String {
    let path = test_folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn idl_check_accepts_valid_file() {
    let test_folder = TestFolder::new();
    let nav =
        file(&test_folder, "nav.idl", "#include <units.idl>\nstruct Fix { Metre height[N]; };\n");
    file(&test_folder, "lib/units.idl", "typedef double Metre;\n");
    let lib = test_folder.path().join("lib");
    let lib = lib.to_str().unwrap();
    let ended = test_folder.run(&["idl", "check", &nav, "-I", lib, "-D", "N=3"]).code(0);
    assert_eq!(ended.out, "Nothing is wrong in 1 file.\n");
    // Directories and macros may follow their option letter directly.
    let report = test_folder
        .run(&["idl", "check", &nav, &format!("-I{lib}"), "-DN", "--json"])
        .code(0)
        .json();
    assert_eq!(report["errors"], serde_json::json!([]));
    assert_eq!(report["files"], serde_json::json!([nav]));
}

#[test]
fn idl_check_reports_every_error_with_line() {
    let test_folder = TestFolder::new();
    let nav =
        file(&test_folder, "nav.idl", "struct A { lomg a; };\n@unknown struct B { A b; A B; };\n");
    let ended = test_folder.run(&["idl", "check", &nav]).code(1);
    assert!(ended.out.contains("nav.idl:1:12: error: there is no `lomg` here"), "{}", ended.out);
    assert!(ended.out.contains("did you mean `long`?"), "{}", ended.out);
    assert!(
        ended.out.contains("   1 | struct A { lomg a; };\n     |            ^^^^\n"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("warning: the annotation `@unknown`"), "{}", ended.out);
    assert!(ended.out.ends_with("2 errors\n"), "{}", ended.out);
    let report = test_folder.run(&["idl", "check", &nav, "--json"]).code(1).json();
    assert_eq!(report["errors"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&report["errors"][1]["line"], &report["errors"][1]["column"]),
        (&2.into(), &28.into())
    );
    assert_eq!(report["errors"][0]["file"], nav);
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn error_in_file_included_twice_is_reported_once() {
    let test_folder = TestFolder::new();
    let a = file(&test_folder, "a.idl", "#include \"c.idl\"\nstruct A { long a; };\n");
    let b = file(&test_folder, "b.idl", "#include \"c.idl\"\nstruct B { long b; };\n");
    file(&test_folder, "c.idl", "struct C { Z c; };\n");
    let report = test_folder.run(&["idl", "check", &a, &b, "--json"]).code(1).json();
    assert_eq!(report["errors"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn idl_gen_writes_rust_into_one_file_or_into_directory() {
    let test_folder = TestFolder::new();
    let a = file(&test_folder, "a.idl", "#include \"c.idl\"\nstruct A { C a; };\n");
    let b = file(&test_folder, "b.idl", "#include \"c.idl\"\nstruct B { C b; };\n");
    file(&test_folder, "c.idl", "@mutable struct C { long c; };\n");
    let one = test_folder.path().join("out/all.rs");
    let one_text = one.to_str().unwrap();
    let ended = test_folder.run(&["idl", "gen", &a, &b, "-o", one_text]).code(0);
    assert!(ended.out.contains("Written: ") && ended.out.contains("all.rs"), "{}", ended.out);
    let rust = fs::read_to_string(&one).unwrap();
    assert_eq!(rust.matches("pub struct C {").count(), 1);
    assert!(rust.contains("::dds_api::types::DdsType"), "{rust}");

    let many = test_folder.path().join("many");
    let arguments = [
        "idl",
        "gen",
        &a,
        &b,
        "--out",
        many.to_str().unwrap(),
        "--json",
        "--crate-path",
        "idl_cdr",
        "--default-extensibility",
        "appendable",
    ];
    let report = test_folder.run(&arguments).code(0).json();
    assert_eq!(report["written"].as_array().unwrap().len(), 2);
    let rust = fs::read_to_string(many.join("b.rs")).unwrap();
    assert!(rust.contains("pub struct C {") && rust.contains("::idl_cdr::DdsType"), "{rust}");
    assert!(rust.contains("\"appendable\"") && rust.contains("\"mutable\""), "{rust}");
}

#[test]
fn idl_gen_writes_no_file_if_input_has_error() {
    let test_folder = TestFolder::new();
    let a = file(&test_folder, "a.idl", "struct A { Z a; };\n");
    let out = test_folder.path().join("a.rs");
    let ended = test_folder.run(&["idl", "gen", &a, "-o", out.to_str().unwrap()]).code(1);
    assert!(ended.out.contains("one error; nothing is written"), "{}", ended.out);
    assert!(!out.exists());
}

#[test]
fn idl_commands_distinguish_wrong_usage_from_missing_files() {
    let test_folder = TestFolder::new();
    let a = file(&test_folder, "a.idl", "struct A { long a; };\n");
    let b = file(&test_folder, "sub/a.idl", "struct A { long a; };\n");
    test_folder.run(&["idl", "check"]).code(2).says("<FILE>");
    test_folder.run(&["idl", "gen", &a]).code(2).says("--out");
    test_folder.run(&["idl", "check", &a, "-D", "3=4"]).code(2).says("no name of a macro");
    test_folder
        .run(&["idl", "gen", &a, "-o", "x.rs", "--default-extensibility", "soft"])
        .code(2)
        .says("soft");
    let out = test_folder.path().join("out");
    let same = ["idl", "gen", &a, &b, "-o", out.to_str().unwrap()];
    test_folder.run(&same).code(2).says("would be written to the same file");
    test_folder
        .run(&["idl", "check", "/nowhere/at/all.idl"])
        .code(1)
        .says("/nowhere/at/all.idl cannot be read");
    test_folder
        .run(&["idl", "gen", "/nowhere/at/all.idl", "-o", "/nowhere/x.rs"])
        .code(1)
        .says("/nowhere");
}

#[test]
fn idl_gen_reads_interface_files_of_ros_2_packages() {
    let test_folder = TestFolder::new();
    file(&test_folder, "share/std_msgs/msg/String.msg", "string data\n");
    let get = file(
        &test_folder,
        "own/fleet_msgs/srv/Get.srv",
        "std_msgs/String name\n---\nint32[<=3] counts # in order\n",
    );
    let share = test_folder.path().join("share");
    let share = share.to_str().unwrap();
    let out = test_folder.path().join("fleet.rs");
    test_folder.run(&["idl", "check", &get, "-I", share]).code(0);
    test_folder.run(&["idl", "gen", &get, "-I", share, "-o", out.to_str().unwrap()]).code(0);
    let rust = fs::read_to_string(&out).unwrap();
    for name in ["std_msgs::msg::dds_::String_", "fleet_msgs::srv::dds_::Get_Response_"] {
        assert!(rust.contains(&format!("name = \"{name}\"")), "{rust}");
    }
    let ended = test_folder.run(&["idl", "check", &get]).code(1);
    assert!(ended.out.contains("give the directory of `std_msgs` by -I"), "{}", ended.out);
}
