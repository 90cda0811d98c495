//! `squall types`, as users and programs call it.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::json;
use support::{EndedCommand, TestFolder};

const NAV: &str = "
    module Nav {
        enum Phase { TAXI, CLIMB, @default_literal CRUISE };
        @bit_bound(8) bitmask Flags { @position(3) ICING };
        @final @nested struct Fix { double at[2][3]; };
        @appendable struct Track {
            @key long aircraft;
            @try_construct(TRIM) string<8> call_sign;
            @id(7) sequence<Fix, 4> fixes;
            @optional @must_understand Phase phase;
            @external map<string, Flags> flags;
        };
        @mutable union Choice switch (long) {
            case 1: case 2: long number;
            default: fixed<5, 2> price;
        };
        typedef sequence<Track> Tracks;
    };
";

/// A folder with files.
fn place(files: &[(&str, &str)]) -> TestFolder {
    let test_folder = TestFolder::new();
    for (name, text) in files {
        let path = test_folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    test_folder
}

/// Runs the command in the folder, with this text on its standard input.
fn run_with(test_folder: &TestFolder, arguments: &[&str], input: &str) -> EndedCommand {
    let mut command = test_folder.command(arguments);
    command.current_dir(test_folder.path()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses its arguments may end before it reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    EndedCommand { status: output.status, out: text(output.stdout), err: text(output.stderr) }
}

fn run(test_folder: &TestFolder, arguments: &[&str]) -> EndedCommand {
    run_with(test_folder, arguments, "")
}

#[test]
fn types_show_lists_members_annotations_and_type_objects() {
    let test_folder = place(&[("nav.idl", NAV)]);
    let output = run(&test_folder, &["types", "show", "nav.idl"]).code(0).out;
    let lines: Vec<&str> = output.lines().collect();
    let (words, objects): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| !line.contains("type object"));
    assert_eq!(
        words.join("\n"),
        "Nav::Track: struct, appendable\n\
         \x20    0  aircraft   int32                    key, must_understand\n\
         \x20    1  call_sign  string<8>                try_construct trim\n\
         \x20    7  fixes      sequence<Nav::Fix, 4>\n\
         \x20    8  phase      Nav::Phase               must_understand, optional\n\
         \x20    9  flags      map<string, Nav::Flags>  external\n\
         \n\
         Nav::Fix: struct, final, nested\n\
         \x20    0  at  double[2][3]\n\
         \n\
         Nav::Phase: enum of 32 bits\n\
         \x20    0  TAXI\n\
         \x20    1  CLIMB\n\
         \x20    2  CRUISE  default\n\
         \n\
         Nav::Flags: bitmask of 8 bits\n\
         \x20    3  ICING\n\
         \n\
         Nav::Choice: union, mutable\n\
         \x20    0  discriminator  int32        must_understand\n\
         \x20    1  number         int32        case 1, case 2\n\
         \x20    2  price          fixed<5, 2>  default"
    );
    // The first two belong to the topic.
    assert_eq!(objects.len(), 10);
    assert_eq!(
        objects[0],
        "  minimal  type object    162 bytes, hash e2d4dbe89c9d98e5b0a9b93d2b96"
    );
    assert_eq!(
        objects[1],
        "  complete type object    228 bytes, hash 54e5bad405e87e57294022054bf2"
    );
}

#[test]
fn shown_hashes_equal_hashes_of_type_objects() {
    let text = "struct Node { sequence<Node> inner; }; struct Other { octet a; };";
    let test_folder = place(&[("tree.idl", text)]);
    let report = run(&test_folder, &["types", "show", "tree.idl", "--json"]).code(0).json();
    let specification = idl::parse("tree.idl", text).unwrap();
    for (test_folder, name) in ["Node", "Other"].into_iter().enumerate() {
        let of = idl_xtypes::DynamicType::from_idl(&specification, name).unwrap();
        let output = &report["types"][test_folder];
        assert_eq!(output["name"], name);
        for (word, kind) in [
            ("minimal", idl_xtypes::ObjectKind::Minimal),
            ("complete", idl_xtypes::ObjectKind::Complete),
        ] {
            let objects = of.objects(kind);
            let bytes = idl_xtypes::object_bytes(&objects.objects[0].type_object);
            assert_eq!(output[word]["bytes"], bytes.len());
            let identifier = idl_xtypes::object_bytes(&objects.identifier);
            let hash: String = output[word]["hash"].as_str().unwrap().to_owned();
            let identifier: String = identifier.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(hash.len() == 28 && identifier.contains(&hash), "{hash} {identifier}");
        }
    }
    // A type that contains itself is a component of one type.
    assert_eq!(report["types"][0]["minimal"]["component"], json!({ "index": 1, "length": 1 }));
    assert_eq!(report["types"][1]["minimal"].get("component"), None);
}

/// A union whose first case contains the union has values; a type whose values are all infinite is
/// refused with the cycle.
#[test]
fn recursive_types_with_finite_values_are_shown() {
    let test_folder = place(&[
        (
            "expr.idl",
            "union Expr switch (long) { case 0: @external Expr neg; case 1: long leaf; };
             @nested struct Holder { Expr expr; long n; };",
        ),
        ("endless.idl", "struct A; struct B { @external A a; }; struct A { @external B b[2]; };"),
    ]);
    run(&test_folder, &["idl", "check", "expr.idl"]).code(0);
    let told = run(&test_folder, &["types", "show", "expr.idl"]).code(0).out;
    assert!(told.starts_with("Expr: union, "), "{told}");
    let converted =
        run_with(&test_folder, &["types", "convert", "expr.idl", "--type", "Holder"], "{n: 1}")
            .code(0)
            .out;
    assert!(converted.contains("leaf: 0"), "{converted}");
    for command in [["idl", "check", "endless.idl"], ["types", "show", "endless.idl"]] {
        let ended = run(&test_folder, &command);
        assert_ne!(ended.status.code(), Some(0));
        let told = ended.out + &ended.err;
        let cycle = "`B` has no finite value: each one contains another, by `B.a` and `A.b`";
        assert!(told.contains(cycle), "{told}");
    }
}

#[test]
fn types_show_selects_type_by_name() {
    let test_folder = place(&[("nav.idl", NAV)]);
    let told = run(&test_folder, &["types", "show", "nav.idl", "Nav::Flags"]).code(0).out;
    assert!(told.starts_with("Nav::Flags: bitmask of 8 bits\n     3  ICING\n  minimal"), "{told}");
    // A typedef is shown as the type it stands for.
    let told = run(&test_folder, &["types", "show", "nav.idl", "Nav::Tracks"]).code(0).out;
    assert!(
        told.starts_with("Nav::Tracks: stands for sequence<Nav::Track>\n\nNav::Track: "),
        "{told}"
    );
    let report =
        run(&test_folder, &["types", "show", "nav.idl", "Nav::Choice", "--json"]).code(0).json();
    let choice = &report["types"][0];
    assert_eq!((&choice["kind"], &choice["extensibility"]), (&"union".into(), &"mutable".into()));
    assert_eq!(choice["cases"][0]["labels"], json!([1, 2]));
    assert_eq!(
        choice["cases"][1]["member"],
        json!({ "id": 2, "name": "price", "type": "fixed<5, 2>", "flags": [], "try_construct": "discard" })
    );
    run(&test_folder, &["types", "show", "nav.idl", "Nav::Trak"]).code(2).says(
        "there is no type `Nav::Trak` in nav.idl; its types for topics are Nav::Track, Nav::Choice",
    );
}

#[test]
fn types_assign_applies_type_consistency_rules_of_reader() {
    let test_folder = place(&[
        ("old.idl", "@appendable struct Track { @key long id; string<8> name; };"),
        ("new.idl", "@appendable struct Track { @key long id; string<4> name; double speed; };"),
        (
            "two.idl",
            "struct Track { short id; }; @appendable struct Trace { @key long nr; string<8> name; };",
        ),
    ]);
    let output = run(&test_folder, &["types", "assign", "new.idl", "old.idl"]).code(0);
    assert_eq!(
        output.out,
        "A reader of Track (new.idl) takes samples of a writer of Track (old.idl).\n"
    );
    let arguments = ["types", "assign", "new.idl", "old.idl", "--ignore-string-bounds=false"];
    let output = run(&test_folder, &arguments).code(1);
    assert_eq!(
        output.out,
        "A reader of Track (new.idl) does not take samples of a writer of Track (old.idl):\n\
         \x20 `Track.name`: at most 4 characters in the reader's type, at most 8 characters in the writer's\n"
    );
    run(&test_folder, &["types", "assign", "old.idl", "new.idl"]).code(0);
    let report = run(
        &test_folder,
        &["types", "assign", "old.idl", "new.idl", "--prevent-type-widening", "--json"],
    )
    .code(1)
    .json();
    assert_eq!((&report["assignable"], &report["path"]), (&false.into(), &"Track".into()));
    assert!(report["reason"].as_str().unwrap().contains("`speed`"), "{report}");
    let output =
        run(&test_folder, &["types", "assign", "old.idl", "new.idl", "--disallow-type-coercion"])
            .code(1);
    assert!(output.out.contains("types may not differ"), "{}", output.out);

    let renamed = ["types", "assign", "old.idl", "two.idl", "--writer-type", "Trace"];
    let output = run(&test_folder, &renamed).code(1);
    assert!(
        output.out.contains("Trace (two.idl)") && output.out.contains("`nr`"),
        "{}",
        output.out
    );
    let report = run(&test_folder, &[&renamed[..], &["--ignore-member-names", "--json"]].concat())
        .code(0)
        .json();
    assert_eq!(report["assignable"], true);
    assert_eq!(report["writer"], json!({ "file": "two.idl", "type": "Trace" }));
    assert_eq!((&report["path"], &report["reason"]), (&json!(null), &json!(null)));
}

#[test]
fn sequence_bound_counts_only_if_requested() {
    let test_folder = place(&[
        ("short.idl", "struct S { sequence<long, 2> of; };"),
        ("long.idl", "struct S { sequence<long, 3> of; };"),
    ]);
    let strict = ["types", "assign", "short.idl", "long.idl", "--ignore-sequence-bounds=false"];
    run(&test_folder, &strict[..4]).code(0);
    let output = run(&test_folder, &strict).code(1);
    assert!(
        output.out.contains("`S.of`: at most 2 elements in the reader's type"),
        "{}",
        output.out
    );
}

#[test]
fn types_convert_translates_samples_between_text_and_json() {
    let test_folder = place(&[
        ("nav.idl", NAV),
        ("one.idl", "struct One { int64 a; fixed<31, 1> b; string c; };"),
    ]);
    let output =
        run_with(&test_folder, &["types", "convert", "one.idl"], "{\"a\": 7, \"b\": 1.5}").code(0);
    assert_eq!(output.out, "{\n  a: 7,\n  b: 1.5,\n  c: \"\"\n}\n");
    // Numbers keep their digits, and texts keep their spaces and line ends.
    let text =
        "{a: -9223372036854775808, b: 123456789012345678901234567890.1, c: \"\\n   x\"} // text";
    let output = run_with(&test_folder, &["types", "convert", "one.idl", "--json"], text).code(0);
    assert_eq!(
        output.out,
        "{\"a\": -9223372036854775808,\"b\": 123456789012345678901234567890.1,\"c\": \"\\n   x\"}\n"
    );
    output.json();

    let track = ["types", "convert", "nav.idl", "--type", "Nav::Track"];
    run_with(&test_folder, &track, "{aircraft: seven}")
        .code(1)
        .says("standard input: 1:12: `aircraft`: ");
    run_with(&test_folder, &track[..3], "{}").code(2).says("name a type of nav.idl with --type");
}

#[test]
fn types_commands_find_includes_and_report_compiler_errors() {
    let test_folder = place(&[
        ("nav.idl", "#include <units.idl>\nstruct Fix { Metre height[N]; };\n"),
        ("lib/units.idl", "typedef double Metre;\n"),
        ("bad.idl", "struct Fix { lomg a; };\n"),
        ("odd.idl", "@unknown struct Fix { long a; };\n"),
        ("none.idl", "@nested struct Fix { long a; };\n"),
        ("any.idl", "typedef any Thing; struct Fix { Thing a; };\n"),
    ]);
    let told =
        run(&test_folder, &["types", "show", "nav.idl", "-I", "lib", "-D", "N=3"]).code(0).out;
    assert!(told.contains("height  double[3]"), "{told}");
    for arguments in [
        &["types", "show", "bad.idl"][..],
        &["types", "assign", "odd.idl", "bad.idl"],
        &["types", "assign", "bad.idl", "odd.idl"],
        &["types", "convert", "bad.idl"],
    ] {
        let told = run(&test_folder, arguments).code(2);
        assert!(told.err.contains("bad.idl:1:14: error: there is no `lomg` here"), "{}", told.err);
        assert!(told.err.contains("did you mean `long`?"), "{}", told.err);
        assert_eq!(told.out, "");
    }
    let told = run(&test_folder, &["types", "show", "bad.idl", "--json"]).code(2).json();
    assert!(told["error"].as_str().unwrap().contains("lomg"), "{told}");
    run(&test_folder, &["types", "show", "odd.idl"])
        .code(0)
        .says("warning: the annotation `@unknown`");
    run(&test_folder, &["types", "show", "none.idl"])
        .code(2)
        .says("the file has no type for topics");
    run(&test_folder, &["types", "show", "none.idl", "Fix"]).code(0);
    let told = run(&test_folder, &["types", "show", "any.idl"]).code(0).out;
    assert!(told.contains("a  any") && told.contains("any: struct, final"), "{told}");
    run(&test_folder, &["types", "show", "nowhere.idl"]).code(1).says("nowhere.idl cannot be read");
    run(&test_folder, &["types", "assign", "nav.idl", "odd.idl"]).code(2);
    run(&test_folder, &["types", "assign", "odd.idl"]).code(2).says("<WRITER>");
    run(&test_folder, &["types", "assign", "odd.idl", "odd.idl", "--ignore-string-bounds=no"])
        .code(2);
    run(&test_folder, &["types", "assign", "odd.idl", "odd.idl", "--type", "Fxi"])
        .code(2)
        .says("`Fxi`");
    run(&test_folder, &["types"]).code(2);
}
