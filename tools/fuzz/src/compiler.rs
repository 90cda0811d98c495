//! IDL: every text is refused with diagnostics that point into it, or becomes Rust and
//! run-time types.

use idl::{Compiler, Memory};
use idl_xtypes::{DynamicData, DynamicType, ObjectKind, topic_types};

use crate::outcome::{Outcome, OutcomeBuilder};

/// Words of IDL.
pub(crate) const WORDS: &[&str] = &[
    "module M {",
    "struct S {",
    "};",
    "enum E { A, B };",
    "typedef ",
    "sequence<",
    "string<8>",
    "wstring",
    "long ",
    "unsigned long long ",
    "long double ",
    "octet ",
    "char ",
    "wchar ",
    "boolean ",
    "union U switch (long) {",
    "case 1: ",
    "default: ",
    "bitmask ",
    "bitset ",
    "bitfield<3> ",
    "map<string, long> ",
    "const ",
    "fixed<5, 2> ",
    "any ",
    "interface ",
    "exception ",
    "valuetype ",
    "component ",
    "native ",
    "@annotation ",
    "@key ",
    "@final ",
    "@appendable ",
    "@mutable ",
    "@id(3) ",
    "@optional ",
    "@external ",
    "@default(1) ",
    "@range(min = 1, max = 2) ",
    "@min(1) ",
    "@bit_bound(8) ",
    "@position(2) ",
    "@value(7) ",
    "@hashid ",
    "@autoid(HASH) ",
    "@try_construct(TRIM) ",
    "@nested ",
    "@topic(name = \"t\") ",
    "@data_representation(XCDR2) ",
    "@verbatim(text = \"x\") ",
    "@unit(\"m\") ",
    "{",
    "}",
    ";",
    ",",
    "<",
    ">",
    "[",
    "]",
    "[3]",
    "::",
    "(",
    ")",
    "=",
    ":",
    "+",
    "-",
    "*",
    "/",
    "|",
    "~",
    "<<",
    ">>",
    "%",
    "##",
    "_d",
    "0x7fffffffffffffff",
    "18446744073709551615",
    "1.5e400",
    "'\\xff'",
    "L'c'",
    "\"s\"",
    "L\"s\"",
    "//\n",
    "/*",
    "*/",
    "\\\n",
    "\n#if 1\n",
    "\n#if 0\n",
    "\n#ifdef A\n",
    "\n#else\n",
    "\n#elif 1\n",
    "\n#endif\n",
    "\n#define a b\n",
    "\n#define b(x) x x\n",
    "\n#define c(...) __VA_ARGS__ # x ## y\n",
    "\n#undef a\n",
    "\n#include \"a.idl\"\n",
    "\n#include \"b.idl\"\n",
    "\n#pragma keylist S x\n",
    "\n#pragma DCPS_DATA_TYPE \"M::S\"\n",
    "a",
    "b(1)",
    "M::S ",
    "S ",
    "E ",
    "U ",
];

pub(crate) fn check(bytes: &[u8]) -> Outcome {
    let mut outcome = OutcomeBuilder::default();
    // Bytes that are not UTF-8 are read as Latin-1, as the compiler reads files.
    let text = String::from_utf8(bytes.to_vec())
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect());
    let other = "#define B 1\nstruct InB { long b; };\n";
    let files = Memory::new([("a.idl", text.as_str()), ("b.idl", other)]);
    let compiled = Compiler::new().compile_from(&files, &["a.idl"]).expect("the file is there");
    let lines = [("a.idl", text.as_str()), ("b.idl", other)];
    for diagnostic in compiled.diagnostics.iter() {
        outcome.said(&diagnostic.message);
        if let Some((_, text)) = lines.iter().find(|(name, _)| diagnostic.file == *name) {
            // Lines count from 1 and end with the file.
            let most = text.split('\n').count() + 1;
            assert!((1..=most).contains(&diagnostic.line), "line {} of {most}", diagnostic.line);
        }
    }
    drop(compiled.diagnostics.to_string());
    match compiled.specification {
        Some(specification) => {
            assert!(!compiled.diagnostics.has_errors());
            let rust = idl::generate(&specification);
            // Verbatim Rust in the file is not checked.
            let brings_rust = || format!("{specification:?}").contains("verbatim: [Verbatim");
            if let Err(error) = syn::parse_file(&rust)
                && !brings_rust()
            {
                panic!("the generated code is not Rust: {error}: {rust}");
            }
            outcome.kind(true).size(rust.len());
            types(&specification, &mut outcome);
        }
        None => {
            assert!(compiled.diagnostics.has_errors(), "a file is refused without a diagnostic")
        }
    }
    outcome.outcome()
}

/// Checks that each possible topic type can be sent to peers, and has samples.
fn types(specification: &idl::Specification, outcome: &mut OutcomeBuilder) {
    let names = topic_types(specification);
    let all = DynamicType::all_from_idl(specification, names.iter().map(String::as_str));
    for of in all {
        match of {
            Ok(of) => {
                for kind in [ObjectKind::Complete, ObjectKind::Minimal] {
                    let objects = of.objects(kind);
                    let announced =
                        DynamicType::from_objects(&objects).expect("own type objects are accepted");
                    assert_eq!(
                        announced.objects(kind).identifier,
                        objects.identifier,
                        "{}",
                        of.name()
                    );
                }
                crate::samples::comes_back(&DynamicData::new(&of));
            }
            Err(error) => {
                outcome.said(&error.to_string());
            }
        }
    }
}
