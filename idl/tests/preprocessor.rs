//! Directives, macros and included files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use idl::{Compilation, Compiler, Memory};

fn compile(compiler: &Compiler, files: &[(&str, &str)], roots: &[&str]) -> Compilation {
    let texts = files.iter().map(|(path, text)| ((*path).into(), (*text).to_owned())).collect();
    compiler.compile_from(&Memory(texts), roots).unwrap()
}

fn messages(compiled: &Compilation) -> Vec<String> {
    let messages = compiled.diagnostics.iter();
    messages.map(|d| format!("{}:{}:{}: {}", d.file, d.line, d.column, d.message)).collect()
}

/// Returns the Rust of one text, or its errors.
#[track_caller]
fn rust(text: &str) -> String {
    let compiled = compile(&Compiler::new(), &[("a.idl", text)], &["a.idl"]);
    match compiled.specification {
        Some(specification) => idl::generate(&specification),
        None => panic!("{text}\n{}", compiled.diagnostics),
    }
}

#[track_caller]
fn error(text: &str, start: &str) {
    let compiled = compile(&Compiler::new(), &[("a.idl", text)], &["a.idl"]);
    let found = messages(&compiled);
    assert!(found.iter().any(|message| message.starts_with(start)), "{text}\n{found:#?}");
}

#[test]
fn macros_are_expanded() {
    for (text, expected) in [
        ("#define N 3\nconst long A = N;", "A: i32 = 3"),
        ("#define N M\n#define M 4\nconst long A = N;", "A: i32 = 4"),
        ("#define ADD(a, b) ((a) + (b))\nconst long A = ADD(1, ADD(2, 3));", "A: i32 = 6"),
        ("#define F(x) x\n#define N F(5)\nconst long A = N;", "A: i32 = 5"),
        ("#define F(x) #x\nconst string A = F(one  two);", "\"one two\""),
        ("#define F(a, b) a##b\nconst long F(A, B) = F(1, 2);", "AB: i32 = 12"),
        ("#define M(name) struct name { long a; };\nM(First) M(Second)", "pub struct Second"),
        ("#define V(...) enum E { __VA_ARGS__ };\nV(A, B, C)", "C,"),
        ("#define T() long\nstruct S { T() a; };", "a: i32"),
        ("#define A A\nconst long A = 1;", "A: i32 = 1"),
        ("#define F(x) F(x + 1)\n#define long_\nconst long A = 1;", "A: i32 = 1"),
        ("#define N 1 + \\\n  2\nconst long A = N;", "A: i32 = 3"),
        ("#define N 1 // one\nconst long A = N;", "A: i32 = 1"),
        ("#define N 1\n#undef N\nconst long N = 2;", "N: i32 = 2"),
        ("const long A = __LINE__;", "A: i32 = 1"),
        ("const string A = __FILE__;", "\"a.idl\""),
        ("#define F(a) a\nconst long A = F(\n1\n);", "A: i32 = 1"),
        ("#define _X_ 1\nconst long A = _X_;", "A: i32 = 1"),
    ] {
        let found = rust(text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
}

#[test]
fn conditional_directives_select_text() {
    for (condition, holds) in [
        ("#if 1", true),
        ("#if 0", false),
        ("#ifdef N", true),
        ("#ifndef N", false),
        ("#ifdef M", false),
        ("#if defined(N) && !defined M", true),
        ("#if N == 3 || 1 / 0", false),
        ("#if N >= 3 && N < 4", true),
        ("#if (N << 2) == 12 && (N >> 1) == 1", true),
        ("#if M", false),
        ("#if N ? 0 : 1", false),
        ("#if -N + 4 == 1 && ~0 == -1 && N % 2 == 1 && (N & 1) == (2 ^ 3)", true),
        ("#if F(2) == 4", true),
        ("#if __SQUALL_IDL__", true),
        ("#if 0x10 == 16 && 010 == 8", true),
    ] {
        let text = format!(
            "#define N 3\n#define F(x) (x * 2)\n{condition}\nconst long A = 1;\n#else\nconst long \
             A = 2;\n#endif\n"
        );
        let compiled = compile(&Compiler::new(), &[("a.idl", &text)], &["a.idl"]);
        let Some(specification) = compiled.specification else {
            assert!(condition.contains("/ 0"), "{condition}: {}", compiled.diagnostics);
            continue;
        };
        let wanted = if holds { "A: i32 = 1" } else { "A: i32 = 2" };
        assert!(idl::generate(&specification).contains(wanted), "{condition}");
    }
    let text = "#if 0\n#if 1\nx\n#else\ny\n#endif\n'\n#elif 1\nconst long A = 3;\n#elif 1\nz\n#else\n\
                w\n#endif\n";
    assert!(rust(text).contains("A: i32 = 3"));
}

#[test]
fn invalid_directive_is_reported_with_position_and_reason() {
    for (text, start) in [
        ("#if 1\n", "a.idl:1:1: this `#if` has no `#endif`"),
        ("#endif\n", "a.idl:1:1: this `#endif` ends no `#if`"),
        ("#else\n", "a.idl:1:1: this `#else` belongs to no `#if`"),
        ("#if 1\n#else\n#else\n#endif\n", "a.idl:3:1: `#else` comes after `#else`"),
        ("#if\n#endif\n", "a.idl:1:1: expected a condition"),
        ("#if 1 +\n#endif\n", "a.idl:1:1: expected a condition"),
        ("#if (1\n#endif\n", "a.idl:1:1: expected `)`"),
        ("#if 1 2\n#endif\n", "a.idl:1:7: expected an operator or the end of the line"),
        ("#if 1 / 0\n#endif\n", "a.idl:1:1: `/` cannot be evaluated"),
        ("#define\n", "a.idl:1:8: expected the name of a macro"),
        ("#define 3 4\n", "a.idl:1:9: expected the name of a macro"),
        ("#define F(a\n", "a.idl:1:11: expected `,` or `)`"),
        ("#define F(a, a) a\n", "a.idl:1:14: the macro has two parameters `a`"),
        ("#define N 1\n#define N 2\n", "a.idl:2:9: the macro `N` is already defined differently"),
        (
            "#define F(a) a\nconst long A = F(1, 2);",
            "a.idl:2:16: the macro `F` takes 1 argument, found 2",
        ),
        ("#define F(a) a\nconst long A = F(1;", "a.idl:2:16: the arguments of `F` have no `)`"),
        ("#define F(a) a ## ;\nconst long A = F(1);", "a.idl:2:16: `##` produces `1;`"),
        ("#error stop here\n", "a.idl:1:1: #error: stop here"),
        ("#includ <a>\n", "a.idl:1:1: there is no directive `#includ`; did you mean `include`?"),
        ("#include\n", "a.idl:1:9: expected the name of a file"),
        ("#include <>\n", "a.idl:1:9: expected the name of a file"),
        ("#include \"b.idl\"\n", "a.idl:1:10: there is no file `b.idl`"),
        ("#pragma keylist\n", "a.idl:1:1: expected a type and the members"),
        ("#pragma keylist T a\n", "a.idl:1:1: there is no struct `T`"),
        ("struct T { long a; };\n#pragma keylist T b\n", "a.idl:2:1: `T` has no member `b`"),
        ("struct T { long a; };\n#pragma keylist T a.b\n", "a.idl:2:1: `a` is of type int32"),
    ] {
        error(text, start);
    }
}

#[test]
fn known_pragmas_take_effect_and_unknown_pragma_causes_warning() {
    let text = "#pragma prefix \"omg.org\"\n#pragma vendor x\nmodule M { struct S { string a; long b; \
                };\n#pragma keylist S a\n};\n#pragma DCPS_DATA_TYPE \"M::S\"\n";
    let compiled = compile(&Compiler::new(), &[("a.idl", text)], &["a.idl"]);
    assert_eq!(
        messages(&compiled),
        ["a.idl:2:1: the pragma `vendor` is not known and has no effect"]
    );
    let rust = idl::generate(&compiled.specification.unwrap());
    assert!(rust.contains("#[dds(key)]\n        pub a: String"), "{rust}");
    assert_eq!(rust.matches("key").count(), 1);
}

/// `DCPS_DATA_KEY` in the form of OpenDDS: the type and its key in one string or in several, and a
/// nested member.
#[test]
fn pragmas_declare_key_members() {
    let types = "struct In { long b; long c; }; struct T { In a; string d; };";
    for pragma in [
        "DCPS_DATA_KEY \"T a.b\"",
        "DCPS_DATA_KEY \"T\" \"a.b\"",
        "DCPS_DATA_KEY T a.b",
        "keylist T a.b",
    ] {
        let rust = rust(&format!("#pragma DCPS_DATA_TYPE \"T\"\n{types}\n#pragma {pragma}\n"));
        assert!(rust.contains("#[dds(key)]\n    pub b: i32"), "{pragma}: {rust}");
        assert!(rust.contains("#[dds(key)]\n    pub a: InKeyB"), "{pragma}: {rust}");
        assert_eq!(rust.matches("(key)").count(), 2, "{pragma}: {rust}");
    }
    let rust = rust(&format!("{types}\n#pragma DCPS_DATA_KEY \"T d\"\n#pragma keylist In b, c"));
    assert_eq!(rust.matches("#[dds(key)]").count(), 3, "{rust}");
    error(
        &format!("{types}\n#pragma DCPS_DATA_KEY \"T a.d\"\n"),
        "a.idl:2:1: `In` has no member `d`",
    );
    error("#pragma DCPS_DATA_KEY\n", "a.idl:1:1: expected a type and the members of its key");
    error("#pragma DCPS_DATA_TYPE\n", "a.idl:1:1: expected #pragma DCPS_DATA_TYPE");
}

/// A path is a key of one use of a type; other uses, and topics of that type, keep their own keys.
#[test]
fn path_of_keylist_is_the_key_of_one_use() {
    let text = "
        struct In { long i1; long i2; };
        struct Deep { In a; In b; @external In c; };
        struct T { In o1; In o2; };
        struct U { In o1; In o2; Deep d; };
        struct V { @key In o1; };
        #pragma keylist T o1.i1
        #pragma DCPS_DATA_KEY \"U o1.i1\"
        #pragma DCPS_DATA_KEY \"U o2.i2\"
        #pragma DCPS_DATA_KEY \"U d.a.i1\"
        #pragma DCPS_DATA_KEY \"U d.c.i1\"
        #pragma DCPS_DATA_KEY \"U d.c.i2\"
        ";
    let rust = rust(text);
    let body = |of: &str| {
        let (_, rest) = rust.split_once(&format!("pub struct {of} {{")).expect(of);
        rest.split_once("\n}").unwrap().0.to_owned()
    };
    assert_eq!(body("In").matches("(key)").count(), 0, "{rust}");
    assert_eq!(body("Deep").matches("(key)").count(), 0, "{rust}");
    assert!(body("InKeyI1").contains("#[dds(key)]\n    pub i1: i32"), "{rust}");
    assert_eq!(body("InKeyI1").matches("(key)").count(), 1, "{rust}");
    assert!(body("T").contains("#[dds(key)]\n    pub o1: InKeyI1"), "{rust}");
    assert!(body("T").contains("pub o2: In,"), "{rust}");
    assert!(body("U").contains("pub o1: InKeyI1") && body("U").contains("pub o2: InKeyI2"));
    assert!(body("V").contains("#[dds(key)]\n    pub o1: In,"), "{rust}");
    assert_eq!(rust.matches("pub struct InKeyI1 {").count(), 1, "{rust}");
    assert_eq!(rust.matches("pub struct DeepKey").count(), 1, "{rust}");
}

/// Directives that other tools write into files: repository names, line markers, and warnings.
#[test]
fn directives_of_other_tools_are_accepted() {
    let text = "#pragma ID S \"IDL:S:1.0\"\n#pragma version S 1.2\n#pragma prefix \"\"\n# 30 \"made.y\" 2\n\
                #line 7 \"other.y\"\n#line 9\n#\n#warning careful now\nstruct S { long a; };\n";
    let compiled = compile(&Compiler::new(), &[("a.idl", text)], &["a.idl"]);
    assert_eq!(messages(&compiled), ["a.idl:8:1: #warning: careful now"]);
    assert!(compiled.specification.is_some());
    // An error is shown at its position in the file that was read.
    let compiled =
        compile(&Compiler::new(), &[("a.idl", "#line 7 \"b.idl\"\nlung a;\n")], &["a.idl"]);
    assert!(messages(&compiled)[0].starts_with("a.idl:2:1: "), "{:?}", messages(&compiled));
}

/// `#pragma once` matters in a file with conditions, which is otherwise read on each include.
#[test]
fn pragma_once_prevents_second_inclusion() {
    let inner = "#if 1\nstruct B { long b; };\n#endif\n";
    let root = ("a.idl", "#include \"b.idl\"\n#include \"b.idl\"\nstruct A { B b; };");
    let twice = compile(&Compiler::new(), &[root, ("b.idl", inner)], &["a.idl"]);
    assert!(messages(&twice)[0].contains("`B` is defined already"), "{:?}", messages(&twice));
    let once = format!("#pragma once\n{inner}");
    let compiled = compile(&Compiler::new(), &[root, ("b.idl", &once)], &["a.idl"]);
    assert_eq!(messages(&compiled), [""; 0]);
}

/// Macros may expand to the name of a file, in each form.
#[test]
fn include_directive_expands_macros() {
    let files = [
        (
            "a.idl",
            "#define B \"b.idl\"\n#define NAME(x) <x.idl>\n#define QUOTE(x) #x\n#include B\n\
             #include NAME(c)\n#include QUOTE(d.idl)\nstruct A { B_ b; C c; D d; };",
        ),
        ("b.idl", "typedef long B_;"),
        ("lib/c.idl", "typedef long C;"),
        ("d.idl", "typedef long D;"),
    ];
    let compiled = compile(&Compiler::new().include("lib"), &files, &["a.idl"]);
    assert_eq!(messages(&compiled), [""; 0]);
    assert_eq!(compiled.files.len(), 4);
    error("#define B b.idl\n#include B\n", "a.idl:2:");
    error("#include NOWHERE\n", "a.idl:1:");
}

#[test]
fn include_searches_own_directory_then_include_directories() {
    let files = [
        (
            "dir/a.idl",
            "#include \"b.idl\"\n#include <c.idl>\n#include \"sub/d.idl\"\nstruct S { B b; C c; D d; };",
        ),
        ("dir/b.idl", "typedef long B;"),
        ("lib1/b.idl", "typedef short B;"),
        ("lib1/c.idl", "typedef long C;"),
        ("lib2/c.idl", "typedef short C;"),
        ("lib2/sub/d.idl", "#include \"e.idl\"\ntypedef E D;"),
        ("lib2/sub/e.idl", "typedef long E;"),
    ];
    let compiler = Compiler::new().include("lib1").include("lib2");
    let compiled = compile(&compiler, &files, &["dir/a.idl"]);
    assert_eq!(messages(&compiled), [""; 0]);
    assert_eq!(compiled.files.len(), 5);
    assert!(!idl::generate(&compiled.specification.unwrap()).contains("i16"));

    let compiled = compile(&Compiler::new().include("lib1"), &files, &["dir/a.idl"]);
    assert_eq!(
        messages(&compiled)[0],
        "dir/a.idl:3:10: there is no file `sub/d.idl`; looked for in dir, lib1"
    );
}

#[test]
fn error_in_included_file_states_position_in_included_file() {
    let files =
        [("a.idl", "#include \"b.idl\"\nstruct S { B b; };"), ("b.idl", "\nstruct B { long a }")];
    let compiled = compile(&Compiler::new(), &files, &["a.idl"]);
    assert!(
        messages(&compiled)[0].starts_with("b.idl:2:19: expected"),
        "{:?}",
        messages(&compiled)
    );
}

#[test]
fn file_without_guards_is_read_once_and_include_cycle_ends() {
    let files = [
        ("a.idl", "#include \"b.idl\"\n#include \"c.idl\"\nstruct A { B b; C c; };"),
        ("b.idl", "#include \"c.idl\"\nstruct B { C c; };"),
        ("c.idl", "#include \"a.idl\"\nstruct C { long c; };"),
    ];
    let compiled = compile(&Compiler::new(), &files, &["a.idl"]);
    assert_eq!(messages(&compiled), ["c.idl:1:10: `a.idl` includes itself; it is read once"]);
    let rust = idl::generate(&compiled.specification.unwrap());
    assert_eq!(rust.matches("pub struct C ").count(), 1);
}

#[test]
fn include_guards_work_and_endless_inclusion_is_stopped() {
    let files = [
        ("a.idl", "#ifndef A\n#define A\n#include \"b.idl\"\nstruct S { B b; };\n#endif\n"),
        ("b.idl", "#ifndef B_\n#define B_\n#include \"a.idl\"\nstruct B { long b; };\n#endif\n"),
    ];
    let compiled = compile(&Compiler::new(), &files, &["a.idl"]);
    assert_eq!(messages(&compiled), [""; 0]);

    let files = [("a.idl", "#if 1\n#include \"a.idl\"\n#endif\n")];
    let compiled = compile(&Compiler::new(), &files, &["a.idl"]);
    assert!(messages(&compiled)[0].contains("more than 64 deep"), "{:?}", messages(&compiled));

    // Two includes in each of 40 files would take too long.
    let texts: Vec<(String, String)> = (0..40)
        .map(|n| {
            let next = n + 1;
            let text = format!("#if 1\n#include \"{next}\"\n#include \"{next}\"\n#endif\n");
            (n.to_string(), text)
        })
        .chain([("40".to_owned(), String::new())])
        .collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(a, b)| (&**a, &**b)).collect();
    let compiled = compile(&Compiler::new(), &files, &["0"]);
    assert!(messages(&compiled)[0].contains("too many files"), "{:?}", messages(&compiled));
}

#[test]
fn root_files_share_included_file_but_not_macros() {
    let files = [
        ("a.idl", "#include \"c.idl\"\nstruct A { C c; long n[N]; };"),
        ("b.idl", "#include \"c.idl\"\nstruct B { C c; long n[N]; };"),
        ("c.idl", "#ifndef C_IDL\n#define C_IDL\n#define N 3\nstruct C { long c; };\n#endif\n"),
    ];
    for roots in
        [&["a.idl", "b.idl"], &["b.idl", "a.idl"], &["c.idl", "a.idl"], &["a.idl", "c.idl"]]
    {
        let compiled = compile(&Compiler::new(), &files, roots);
        assert_eq!(messages(&compiled), [""; 0], "{roots:?}");
        let rust = idl::generate(&compiled.specification.unwrap());
        assert_eq!(rust.matches("pub struct C ").count(), 1);
    }
    // The macros of one file do not apply to the other.
    let files = [("a.idl", "#define X 1\n"), ("b.idl", "const long A = X;")];
    let compiled = compile(&Compiler::new(), &files, &["a.idl", "b.idl"]);
    assert_eq!(messages(&compiled), ["b.idl:1:16: there is no `X` here; define it before its use"]);
}

#[test]
fn compiler_option_defines_macros() {
    let text = "#if FEATURE > 1\nconst long A = SIZE;\n#endif\n";
    let compiler = Compiler::new().define("FEATURE", "2").define("SIZE", "(3 + 4)");
    let compiled = compile(&compiler, &[("a.idl", text)], &["a.idl"]);
    assert!(idl::generate(&compiled.specification.unwrap()).contains("A: i32 = 7"));
    let compiled = compile(&Compiler::new().define("1", "2"), &[("a.idl", text)], &["a.idl"]);
    assert!(messages(&compiled)[0].starts_with("<command line>:1:9: expected the name of a macro"));
}

#[test]
fn excessive_macro_expansion_is_rejected() {
    let mut text = String::from("#define A0 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1\n");
    for n in 1..20 {
        let m = n - 1;
        text += &format!("#define A{n} A{m} + A{m} + A{m} + A{m} + A{m} + A{m} + A{m} + A{m}\n");
    }
    let chain: String = (0..5_000).map(|n| format!("#define C{n} C{}\n", n + 1)).collect();
    let arguments = "#define D(x) x x\nconst long A = D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(D(\
                     1))))))))))))))))))))))));";
    for text in [
        format!("{text}const long A = A19;"),
        format!("{text}#if A19\n#endif\n"),
        format!("{chain}const long A = C0;"),
        arguments.to_owned(),
        format!("#define E(x) x\nconst long A = {}1{};", "E(".repeat(50_000), ")".repeat(50_000)),
    ] {
        let compiled = compile(&Compiler::new(), &[("a.idl", &text)], &["a.idl"]);
        assert!(compiled.specification.is_none(), "{}", &text[text.len() - 40..]);
    }
}

#[test]
fn ident_and_sccs_directives_are_reported_as_without_effect() {
    let text = "#ident \"@(#)a.idl 1.2\"\nstruct S { long a; };\n#sccs \"x\"\n#identify\n";
    let compiled = compile(&Compiler::new(), &[("a.idl", text)], &["a.idl"]);
    assert_eq!(
        messages(&compiled),
        [
            "a.idl:1:1: `#ident` is for human readers and has no effect",
            "a.idl:3:1: `#sccs` is for human readers and has no effect",
            "a.idl:4:1: there is no directive `#identify`",
        ]
    );
}

#[test]
fn non_utf8_file_is_read_as_latin_1() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.idl");
    std::fs::write(&path, b"// Gr\xf6\xdfe\nconst string A = \"\xe4\";\n").unwrap();
    let compiled = Compiler::new().compile(&[&path]).unwrap();
    let rust = idl::generate(&compiled.specification.unwrap());
    assert!(rust.contains("Größe") && rust.contains("\"ä\""), "{rust}");
}

#[test]
fn files_of_standard_are_found_without_directory() {
    let text = "#include <dds_dcps.idl>\n#include \"dds/dds_primitives.idl\"\n\
        struct S { DDS::Time_t at; DDS::ByteSeq bytes; };";
    let found = rust(text);
    assert!(found.contains("pub at: dds::TimeT") && found.contains("pub struct TimeT"), "{found}");
    // Only what the file uses becomes Rust.
    assert!(!found.contains("Qos") && !found.contains("pub const"), "{found}");
    error(
        "#include \"dds_dcps.idl\"\nstruct S { DDS::DataWriter w; };",
        "a.idl:2:12: `DDS::DataWriter` is an interface, which no sample can carry",
    );
    error("#include \"dds_dcps2.idl\"\n", "a.idl:1:10: there is no file `dds_dcps2.idl`");
}

#[test]
fn interfaces_derive_from_entities_of_standard() {
    let text = "#include <dds_dcps.idl>
        struct Foo { long a; };
        interface FooDataWriter : DDS::DataWriter { long write(in Foo a); };
        interface FooDataReader : DDS::DataReader {
            const DDS::ReturnCode_t GONE = DDS::RETCODE_ALREADY_DELETED;
            const DDS::StatusKind DATA = DDS::DATA_AVAILABLE_STATUS;
        };
        interface FooListener : DDS::DomainParticipantListener { void on_foo(); };
        interface FooSupport : DDS::TypeSupport, DDS::Topic { void register(); };";
    let compiled = compile(&Compiler::new(), &[("a.idl", text)], &["a.idl"]);
    let told = messages(&compiled);
    let skipped = |told: &String| told.contains("`Foo") && told.contains("is skipped");
    assert!(told.len() == 3 && told.iter().all(skipped), "{told:#?}");
    let found = idl::generate(&compiled.specification.unwrap());
    assert!(found.contains("GONE: super::dds::ReturnCodeT = 9"), "{found}");
    assert!(found.contains("DATA: super::dds::StatusKind = 1024"), "{found}");
    assert!(!found.contains("RETCODE_OK"), "{found}");
}

/// Types of the standard can be members; those within them become Rust, too.
#[test]
fn statuses_policies_and_sample_infos_of_standard_are_types() {
    let text = "#include <dds_dcps.idl>
        struct Report {
            DDS::SampleInfo info; DDS::DataWriterQos qos; DDS::BuiltinTopicKey_t key;
            DDS::PublicationMatchedStatus matched; DDS::OfferedIncompatibleQosStatus refused;
            @default(DDS::KEEP_ALL_HISTORY_QOS) DDS::HistoryQosPolicyKind kind;
            @max(DDS::LENGTH_UNLIMITED) DDS::InstanceHandle_t handle;
            DDS::ParticipantBuiltinTopicData peer; DDS::Duration_t lease;
        };";
    let found = rust(text);
    for name in ["SampleInfo", "DataWriterQos", "WriterDataLifecycleQosPolicy", "QosPolicyCount"] {
        assert!(found.contains(&format!("pub struct {name} ")), "{name}: {found}");
    }
    assert!(found.contains("default = dds::HistoryQosPolicyKind::KeepAllHistoryQos"), "{found}");
    assert!(!found.contains("SubscriptionMatchedStatus"), "{found}");
}

#[test]
fn file_with_name_of_standard_file_is_preferred() {
    let files = [
        ("a.idl", "#include <dds_dcps.idl>\nstruct S { Own own; };"),
        ("lib/dds_dcps.idl", "struct Own { long a; };"),
    ];
    let compiled = compile(&Compiler::new().include("lib"), &files, &["a.idl"]);
    assert_eq!(messages(&compiled), [""; 0]);
}
