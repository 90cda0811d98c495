//! What is said about files with errors, and that no text whatever makes the compiler panic.

use proptest::prelude::*;
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
fn a_message_shows_place_line_and_caret() {
    let text = "module Nav {\n\tstruct Fix { double latitude; lngitude x; };\n};\n";
    let error = idl::parse("nav.idl", text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nav.idl:2:32: there is no type `lngitude` here; define it before its use\n   \
         2 | \tstruct Fix { double latitude; lngitude x; };\n     \
         | \t                              ^^^^^^^^"
    );
}

#[test]
fn several_errors_in_one_run() {
    let text = "
        struct A { long a; Unknown b; union c; double d; };
        const long X = 1;
        struct B { A a; };
        union U switch (long) { case 1: long x; };
        enum E { P, Q, P };
        struct C { E e; long e; long long long l; };
    ";
    assert_eq!(
        messages(text),
        [
            "2:28: there is no type `Unknown` here; define it before its use",
            "2:39: expected a member (boolean, octet, an integer, float, double, string, sequence \
             or a name), found `union`",
            "3:9: expected `module`, `struct`, `enum` or `typedef`, found `const`",
            "5:9: expected `module`, `struct`, `enum` or `typedef`, found `union`",
            "6:24: `P` is the same name as `P` (case does not count in IDL); rename one of the two",
            "7:30: `e` is the same name as `e` (case does not count in IDL); rename one of the two",
            "7:43: expected the name of a member, found the keyword `long`; write `_long` to use \
             it as a name",
        ]
    );
}

#[test]
fn what_is_not_known_is_named() {
    for (text, start) in [
        ("interface I {};", "1:1: expected `module`"),
        ("struct S : T { long a; };", "1:10: expected `{`, found `:`"),
        ("struct S;", "1:9: expected `{`, found `;`"),
        ("struct S { char c; };", "1:12: expected a member (boolean"),
        ("struct S { long double d; };", "1:17: expected `long long`"),
        ("struct S { unsigned float f; };", "1:21: expected `short` or `long`"),
        ("struct S { @optional long a; };", "1:12: expected `@key`, `@final` or no annotation"),
        ("@mutable struct S { long a; };", "1:1: expected `@key`, `@final` or no annotation"),
        ("struct S { @key(TRUE) long a; };", "1:16: expected no parameters"),
        ("@key struct S { long a; };", "1:1: `@key` belongs"),
        ("@final enum E { A };", "1:1: `@final` belongs"),
        ("struct S { @final long a; };", "1:12: `@final` belongs"),
        ("struct S {};", "1:11: expected a member, found `}`"),
        ("enum E {};", "1:9: expected the name of an enumerator, found `}`"),
        ("enum E { A = 1 };", "1:12: expected `,` or `}`, found `=`"),
        ("module M {};", "1:11: expected a definition, found `}`"),
        ("struct S { long a[0]; };", "1:19: expected the length of an array (a number from 1"),
        ("struct S { long a[N]; };", "1:19: expected the length of an array"),
        ("struct S { string<4294967295> a; };", "1:19: expected a bound"),
        ("struct S { sequence<long, 1.5> a; };", "1:27: expected a bound"),
        ("struct S { sequence<long 5> a; };", "1:26: expected `,` or `>`, found `5`"),
        ("struct S { long a }; ", "1:19: expected `,`, `[` or `;`, found `}`"),
        ("struct S { long a; }", "1:21: expected `;`, found the end of the file"),
        ("struct S { long a; ", "1:10: this brace is never closed"),
        ("struct S { long a; }; }", "1:23: expected a definition, found `}`"),
        ("struct Struct { long a; };", "1:8: expected the name of a struct, found the keyword"),
        ("#include \"a.idl\"", "1:1: expected a definition, found a preprocessor directive"),
    ] {
        one_error(text, start);
    }
}

#[test]
fn names_follow_the_rules_of_idl() {
    for (text, start) in [
        ("struct S { long a; }; struct S { long a; };", "1:30: `S` is defined already"),
        ("struct S { long a; }; enum s { A };", "1:28: `s` and `S`, defined already"),
        ("enum E { A }; struct A { long a; };", "1:22: `A` is defined already"),
        ("struct S { long a; }; struct T { s a; };", "1:34: `s` is spelt `S`"),
        ("struct S { S a; };", "1:12: the struct `S` is not complete here"),
        ("struct S { sequence<S> a; };", "1:21: the struct `S` is not complete here"),
        ("module M { enum E { A }; }; struct T { M a; };", "1:40: expected a type, found the mod"),
        ("enum E { A }; struct T { A a; };", "1:26: expected a type, found the enumerator `A`"),
        ("struct T { Later a; }; struct Later { long a; };", "1:12: there is no type `Later`"),
        (
            "module M { struct S { long a; }; module N { module M { enum E { A }; }; \
             struct T { M::S s; }; }; };",
            "1:84: there is no `M::S` here",
        ),
    ] {
        one_error(text, start);
    }
    let fine = "module M { struct S { long a; }; module N { module M { enum E { A }; }; \
                struct T { ::M::S s; M::E e; N::M::E f; }; }; };";
    assert_eq!(messages(fine), [""; 0]);
}

#[test]
fn names_that_are_one_name_in_rust_are_refused() {
    for (text, start) in [
        ("struct S { long fooBar; long foo_bar; };", "1:30: `foo_bar` and `fooBar` would both be"),
        ("enum a_b { A }; enum aB { C };", "1:22: `aB` and `a_b` would both be `AB`"),
        ("enum E { A_B, aB };", "1:15: `aB` and `A_B` would both be `AB`"),
        ("struct vec { long a; };", "1:8: `vec` would hide Rust's own `Vec`"),
    ] {
        one_error(text, start);
    }
}

#[test]
fn nesting_has_a_limit_whatever_builds_it_up() {
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
        write!(text, "typedef t{level} t{};", level + 1).unwrap();
        text
    });
    assert!(messages(&typedefs)[0].contains("nested more than 64 deep"));
}

#[test]
fn the_number_of_errors_has_a_limit() {
    assert_eq!(messages(&"const;".repeat(10_000)).len(), idl::MAX_DIAGNOSTICS);
    assert_eq!(messages(&"$".repeat(1_000_000)).len(), idl::MAX_DIAGNOSTICS);
}

const WORDS: &[&str] = &[
    "module", "struct", "enum", "typedef", "sequence", "string", "long", "unsigned", "short",
    "double", "union", "@key", "@final", "@x", "{", "}", ";", ",", "<", ">", "[", "]", "::", "(",
    "a", "A", "b", "c", "_d", "1", "3", "0", "1.5", "'c'", "\"s\"", "//\n", "/*", "*/", "\n",
    "#p\n",
];

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        if let Err(diagnostics) = idl::parse("test.idl", &text) {
            prop_assert!(diagnostics.iter().count() > 0);
            diagnostics.to_string();
        }
    }

    /// Words of the language get further than letters do.
    #[test]
    fn no_sequence_of_words_makes_it_panic(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..80)
    ) {
        match idl::parse("test.idl", &words.join(" ")) {
            Ok(specification) => drop(idl::generate(&specification)),
            Err(diagnostics) => drop(diagnostics.to_string()),
        }
    }

    /// One word changed in a sound file: whatever is still sound is generated.
    #[test]
    fn no_small_change_makes_it_panic(
        at in any::<prop::sample::Index>(),
        word in proptest::sample::select(WORDS),
    ) {
        let text = include_str!("golden/nav.idl");
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n', ';', '<']).collect();
        let at = at.index(words.len());
        words[at] = word;
        match idl::parse("test.idl", &words.concat()) {
            Ok(specification) => drop(idl::generate(&specification)),
            Err(diagnostics) => drop(diagnostics.to_string()),
        }
    }
}
