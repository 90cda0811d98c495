//! Messages about files with errors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write;

fn messages(text: &str) -> Vec<String> {
    let Err(diagnostics) = idl::parse("test.idl", text) else { return Vec::new() };
    diagnostics.iter().map(|d| format!("{}:{}: {}", d.line, d.column, d.message)).collect()
}

#[track_caller]
fn one_error(text: &str, start: &str) {
    let found = messages(text);
    assert!(found.len() == 1 && found[0].starts_with(start), "{text}\n{found:#?}");
}

#[test]
fn diagnostic_shows_position_line_and_caret() {
    let text = "module Nav {\n\tstruct Fix { double latitude; lngitude x; };\n};\n";
    let error = idl::parse("nav.idl", text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nav.idl:2:32: error: there is no `lngitude` here; define it before its use\n   \
         2 | \tstruct Fix { double latitude; lngitude x; };\n     \
         | \t                              ^^^^^^^^"
    );
}

#[test]
fn diagnostic_about_two_places_adds_note() {
    let error = idl::parse("nav.idl", "struct A { long a; };\nenum A { B };\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "nav.idl:2:6: error: `A` is defined already in this scope; rename one of the two\n   \
         2 | enum A { B };\n     \
         |      ^\n\
         nav.idl:1:8: note: defined here\n   \
         1 | struct A { long a; };\n     \
         |        ^"
    );
}

#[test]
fn diagnostic_truncates_very_long_line() {
    let text = format!("struct S {{ {} lung a; }};", "/* long */ ".repeat(100));
    let error = idl::parse("a.idl", &text).unwrap_err().to_string();
    assert!(error.contains("there is no `lung`"), "{error}");
    assert!(error.lines().all(|line| line.len() < 250), "{error}");
}

#[test]
fn parser_reports_several_errors_in_one_run() {
    let text = "
        struct A { long a; Unknown b; union c; double d; };
        const long X = 1
        struct B { A a; };
        union U switch (float) { case 1: long x; };
        enum E { P, Q, P };
        struct C { E e; long e; long long long l; };
        modul D { };
        struct F { U u; C c; E e; }
        struct G { Z z; };
    ";
    assert_eq!(
        messages(text),
        [
            "2:28: there is no `Unknown` here; define it before its use",
            "2:39: a type cannot be defined inside another one; define the union in front of it and \
             use its name",
            "3:25: expected `;` here, found `struct` on the next line",
            "5:25: a discriminator is an integer, a character, a boolean, an enumerator or a bitmask, \
             not of type float",
            "6:24: `P` is defined already in this scope; rename one of the two",
            "7:30: there is a member `e` already (case does not count in IDL); rename one of the two",
            "7:43: expected the name of a member, found the keyword `long`; write `_long` to use it \
             as a name",
            "8:9: expected a definition, found `modul`; did you mean `module`?",
            "9:36: expected `;` here, found `struct` on the next line",
            "10:20: there is no `Z` here; define it before its use",
        ]
    );
}

#[test]
fn one_mistake_causes_one_error() {
    for (text, start) in [
        ("struct S { long a }; ", "1:19: expected `,`, `[` or `;`, found `}`"),
        ("struct S { long a; }", "1:21: expected `;`, found the end of the file"),
        ("struct S { long a; ", "1:10: this brace is never closed"),
        ("struct S { long a;\nstruct T { long b; };\n", "1:10: this brace is never closed"),
        ("module M {\n struct S {\n  long a;\n};\n", "2:11: this brace is never closed"),
        (
            "module M {\n  module N {\n    struct S { long a; };\n};\nmodule O {\n struct S \
             { long a; };\n};\n",
            "2:12: this brace is never closed",
        ),
        ("struct S { long a; }; }", "1:23: expected a definition, found `}`"),
        ("struct S { Z a; }; struct T { S s; };", "1:12: there is no `Z`"),
        ("const long N = Z; struct T { long a[N]; };", "1:16: there is no `Z`"),
        ("enum E { A = \"x\", B }; const E C = B;", "1:14: expected an integer"),
        ("union U switch (long) { case X: long a; }; struct T { U u; };", "1:30: there is no `X`"),
        ("interface I { struct S { Z z; }; }; struct T { I::S s; };", "1:26: there is no `Z`"),
        ("module M { struct S { Z z; }; }; struct T { M::S s; };", "1:23: there is no `Z`"),
        ("struct S { sequence<long 5> a; };", "1:26: expected `,` or `>`, found `5`"),
    ] {
        one_error(text, start);
    }
}

#[test]
fn error_message_suggests_spelling_of_misspelt_word() {
    for (text, guess) in [
        ("struct S { lomg a; };", "`long`"),
        ("struct Track { long a; }; struct S { Trakc a; };", "`Track`"),
        ("module Nav { struct Fix { long a; }; }; struct S { Nav::Fux a; };", "`Fix`"),
        ("strct S { long a; };", "`struct`"),
        ("union U swich (long) { case 1: long a; };", "`switch`"),
        ("union U switch (long) { csae 1: long a; };", "`case`"),
        ("enum E { RED }; const E C = RDE;", "`RED`"),
        ("struct S { long pump; };\n#pragma keylist S pumpe\n", "`pump`"),
        ("#inclde \"a.idl\"\n", "`include`"),
    ] {
        let found = messages(text).join("\n");
        assert!(found.contains(&format!("did you mean {guess}?")), "{text}\n{found}");
    }
}

#[test]
fn nesting_is_limited_for_every_construct() {
    let depth = idl::MAX_NESTING;
    let sequences = |depth: usize| {
        format!("struct S {{ {}long{} a; }};", "sequence<".repeat(depth), ">".repeat(depth))
    };
    assert_eq!(messages(&sequences(depth - 1)), [""; 0]);
    assert!(messages(&sequences(depth))[0].contains("nested more than 64 deep"));
    assert!(messages(&sequences(100_000))[0].contains("nested more than 64 deep"));

    let modules = |depth: usize| {
        let open: String = (0..depth).fold(String::new(), |mut text, level| {
            write!(text, "module m{level} {{ ").unwrap();
            text
        });
        format!("{open} enum E {{ A }}; {}", "}; ".repeat(depth))
    };
    assert_eq!(messages(&modules(depth)), [""; 0]);
    assert!(messages(&modules(10_000))[0].contains("nested more than 64 deep"));

    let arrays = format!("struct S {{ long a{}; }};", "[1]".repeat(10_000));
    assert!(messages(&arrays)[0].contains("nested more than 64 deep"));

    let typedefs = (0..100).fold("typedef long t0;".to_owned(), |mut text, level| {
        write!(text, "typedef sequence<t{level}> t{};", level + 1).unwrap();
        text
    });
    assert!(messages(&typedefs)[0].contains("nested more than 64 deep"));

    // Each of these is twice as large as the previous one.
    let maps = (0..60).fold("typedef string<3> t0;".to_owned(), |mut text, level| {
        write!(text, "typedef map<string, t{level}> u{level};").unwrap();
        write!(text, "struct s{level} {{ sequence<u{level}> a; u{level} b; }};").unwrap();
        write!(text, "typedef map<long, map<string, u{level}>> t{};", level + 1).unwrap();
        text
    });
    assert!(messages(&maps)[0].contains("nested more than 64 deep"));

    for text in [
        format!("const long A = {}1{};", "(".repeat(100_000), ")".repeat(100_000)),
        format!("const long A = {}1;", "-".repeat(100_000)),
        format!("const long A = 1{};", " + 1".repeat(100_000)),
        format!("const long A = {}A;", "A::".repeat(100_000)),
        format!("#if {}1{}\n#endif", "(".repeat(100_000), ")".repeat(100_000)),
        format!("interface I {{ void f({}", "(".repeat(100_000)),
        format!("valuetype V {}", "{".repeat(100_000)),
        format!("{} struct S {{ long a; }};", "@key ".repeat(100_000)),
    ] {
        let found = messages(&text).len();
        assert!((1..=2).contains(&found), "{found}: {}", &text[..40]);
    }
    // Each of these is valid by itself.
    let conditions = format!("#if {}1\n{}", "!".repeat(10_000), "#endif\n");
    assert_eq!(messages(&conditions), [""; 0]);
    let ifs = format!("{}{}", "#if 1\n".repeat(10_000), "#endif\n".repeat(10_000));
    assert_eq!(messages(&ifs), [""; 0]);
}

#[test]
fn number_of_diagnostics_is_limited() {
    assert_eq!(messages(&"const;".repeat(10_000)).len(), idl::MAX_DIAGNOSTICS);
    assert_eq!(messages(&"$".repeat(1_000_000)).len(), idl::MAX_DIAGNOSTICS);
    assert_eq!(messages(&"struct S { Z z; };".repeat(1_000)).len(), idl::MAX_DIAGNOSTICS);
}

#[test]
fn parser_accepts_large_valid_file() {
    let members: String = (0..20_000).fold(String::new(), |mut text, number| {
        writeln!(text, "    long member_{number}; // the number {number}").unwrap();
        text
    });
    assert_eq!(messages(&format!("struct S {{ {members} }};")), [""; 0]);
    let structs: String = (0..20_000).fold(String::new(), |mut text, number| {
        writeln!(text, "struct S{number} {{ long a; }};").unwrap();
        text
    });
    assert_eq!(messages(&structs), [""; 0]);
}

/// Enumerators and bits that are counted on from one that does not fit cause no further errors.
#[test]
fn number_that_does_not_fit_its_bits_causes_one_error() {
    let enumeration = "@bit_bound(2) enum E { A, B, C, D, F, @value(7) G, H, @value(-1) I, J };";
    assert_eq!(
        messages(enumeration),
        [
            "1:30: 2 does not fit an enum of 2 bits, which goes from -2 to 1",
            "1:46: 7 does not fit an enum of 2 bits, which goes from -2 to 1",
            "1:69: `J` has the value 0, which is taken",
        ]
    );
    let bitmask = "@bit_bound(2) bitmask M { A, B, C, D, @position(9) F, G };";
    assert_eq!(
        messages(bitmask),
        [
            "1:33: `C` is bit 2 of a bitmask of 2 bits, which count from 0",
            "1:39: `F` is bit 9 of a bitmask of 2 bits, which count from 0",
        ]
    );
}

#[test]
fn annotations_without_effect_are_warnings() {
    let warnings = |text: &str| {
        let files = idl::Memory::new([("a.idl", text)]);
        let compiled = idl::Compiler::new().compile_from(&files, &["a.idl"]).unwrap();
        assert!(compiled.specification.is_some(), "{}", compiled.diagnostics);
        let shown = compiled.diagnostics.iter();
        shown.map(|d| format!("{}:{}: {}", d.line, d.column, d.message)).collect::<Vec<_>>()
    };
    // Not behind a member, not in this place, with a wrong value, unknown.
    assert_eq!(
        warnings("struct S {\n  //@key\n  long a; // @key\n  long b; //@final\n};"),
        [
            "2:3: this comment has no effect: it is not directly behind a construct that can have \
             the annotation, or its value is wrong; write `@key` in front of the construct",
            "4:11: this comment has no effect: it is not directly behind a construct that can have \
             the annotation, or its value is wrong; write `@final` in front of the construct",
        ]
    );
    assert_eq!(
        warnings("struct S {\n  long a; //@ID three\n  long b; //@copy-c #include\n};"),
        [
            "2:11: this comment has no effect: it is not directly behind a construct that can have \
             the annotation, or its value is wrong; write `@id` in front of the construct",
            "3:11: the annotation `//@copy-c` in this comment is not known and has no effect",
        ]
    );
    // Applied, told once for the file.
    assert_eq!(
        warnings("struct S {\n  long a; //@key\n  long b; //@ID 3\n};"),
        ["2:11: this comment has the effect of `@key`, but other products may ignore it, and all \
             such comments of this file: write `@key` in front of the construct",]
    );
    assert_eq!(
        warnings("@nested interface I { const long A = 1; };"),
        ["1:1: `@nested` has no effect on an interface, which no topic has as its type"]
    );
}

#[test]
fn types_of_other_languages_are_named_in_idl() {
    for (text, spelt) in [
        ("struct S { int a; };", "`int` here; write `long` or `int32` in IDL"),
        ("struct S { bool a; };", "`bool` here; write `boolean` in IDL"),
        ("struct S { std::string a; };", "`std::string` here; write `string` in IDL"),
        ("struct S { sequence<uint8_t> a; };", "`uint8_t` here; write `uint8` in IDL"),
        ("typedef size_t Size;", "`size_t` here; write `uint64` in IDL"),
    ] {
        let found = messages(text).join("\n");
        assert!(found.contains(spelt), "{text}\n{found}");
    }
}

/// Types that Rust does not compile are refused, in whatever order they are defined.
#[test]
fn types_nested_too_deep_are_refused_once_with_the_innermost_one() {
    let compile = |text: &str| {
        let files = idl::Memory::new([("a.idl", text)]);
        idl::Compiler::new().compile_from(&files, &["a.idl"]).unwrap()
    };
    let chain = |notes: &str, count: usize, is_reversed: bool| {
        let mut all: Vec<String> =
            (1..count).map(|n| format!("struct S{n} {{ {notes} S{} s; }};\n", n - 1)).collect();
        all.insert(0, "struct S0 { long a; };\n".to_owned());
        if is_reversed {
            all.reverse();
        }
        let forward: String = (0..count).map(|n| format!("struct S{n};\n")).collect();
        forward + &all.concat()
    };
    for (notes, count, reversed) in [
        ("", 140, false),
        ("@optional @external", 64, false),
        ("@external", 64, true),
        ("@optional @external", 3000, true),
    ] {
        let text = chain(notes, count, reversed);
        let compiled = compile(&text);
        assert!(compiled.specification.is_none(), "{notes} {count}");
        let errors = compiled.diagnostics;
        let errors: Vec<&str> = errors.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("more than 100 levels deep"), "{errors:?}");
        assert!(idl::parse("a.idl", &text).is_ok(), "types of run time have no such limit");
    }
    for (notes, count, reversed) in
        [("", 99, false), ("@optional @external", 33, true), ("@external", 50, true)]
    {
        let compiled = compile(&chain(notes, count, reversed));
        assert!(compiled.specification.is_some(), "{notes} {count}");
    }
}
