//! Odd IDL: whatever the compiler accepts, Rust compiles, and its default values survive a round
//! trip.
//!
//! Owns a generator of files with extreme numbers, names and sizes. The accepted files become one
//! Rust program, which is compiled and run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write;
use std::path::Path;

use idl::{Compiler, Generator, Memory};

/// Integer types with their smallest and largest values.
const INTEGERS: [(&str, &str, &str); 8] = [
    ("int8", "-128", "127"),
    ("octet", "0", "255"),
    ("short", "-32768", "32767"),
    ("unsigned short", "0", "65535"),
    ("long", "-2147483648", "2147483647"),
    ("unsigned long", "0", "4294967295"),
    ("long long", "-9223372036854775808", "9223372036854775807"),
    ("unsigned long long", "0", "18446744073709551615"),
];

/// Words that mean something in Rust or in the generated code.
const WORDS: &str = "self Self super crate type async await dyn match impl r#type value \
    discriminator base filler label member writer reader Vec String Option Box Some None Ok Err \
    Default Result i32 u8 bool str DdsType LongDouble core std idl_cdr main default";

fn odd_files() -> Vec<String> {
    let mut files = Vec::new();
    for (ty, min, max) in INTEGERS {
        files.push(format!("const {ty} LEAST = {min}; const {ty} MOST = {max};"));
        files.push(format!(
            "struct S {{ @default({min}) @min({min}) {ty} a; @default({max}) @max({max}) {ty} b; \
             @range(min = {min}, max = {max}) {ty} c[33]; }};"
        ));
        files.push(format!(
            "union U switch ({ty}) {{ case {max}: long a; case {min}: case 1: string b; }};"
        ));
        files.push(format!(
            "union U switch (@default({max}) {ty}) {{ case {max}: case 7: long a; default: long b; }};"
        ));
    }
    for word in WORDS.split_whitespace().filter(|word| !word.contains('#')) {
        files.push(format!("struct {word} {{ @key long a; }};"));
        files.push(format!("struct S {{ long {word}; }}; enum E {{ _{word}, OTHER }};"));
        files.push(format!("union U switch (long) {{ case 1: long {word}; default: long x; }};"));
        files.push(format!("module {word} {{ struct Inner {{ string<3> s; }}; }};"));
    }
    for length in [1_u64, 32, 33, 500] {
        for ty in ["long", "string", "sequence<long>", "E", "Deep", "map<string, long>"] {
            files.push(format!(
                "enum E {{ A }}; typedef long Deep[40];
                 struct S {{ long kept; @non_serialized {ty} a[{length}];
                 @non_serialized @external {ty} b[2][{length}]; @optional {ty} c[{length}];
                 @non_serialized @optional {ty} d[{length}]; }};"
            ));
        }
    }
    files.extend(many_parts());
    files.extend(chains());
    files.extend(ODD.iter().map(|&text| text.to_owned()));
    files
}

/// Files with types within types, of depths up to and beyond what Rust compiles.
fn chains() -> Vec<String> {
    let mut files = Vec::new();
    for (notes, behind) in [("", ""), ("@optional @external ", ""), ("@external ", "[1]")] {
        for count in [20, 33, 48, 64, 98, 99, 140, 300] {
            let mut file = "struct S0 { long a; string b; };".to_owned();
            for n in 1..count {
                let inner = n - 1;
                write!(file, "struct S{n} {{ {notes}S{inner} s{behind}; }};").unwrap();
            }
            files.push(file);
        }
    }
    files
}

/// Files with thousands of labels, cases, enumerators and members.
fn many_parts() -> Vec<String> {
    let list = |of: &dyn Fn(i64) -> String, count| (0..count).map(of).collect::<String>();
    let labels = list(&|n| format!("case {}: ", 3_000 - n), 3_000);
    let cases = list(&|n| format!("case {}: long m{n}; ", (n * 7) % 1_009), 1_000);
    let literals = list(&|n| format!("L{n}, "), 3_000);
    let of_literals = list(&|n| format!("case L{}: ", 2_999 - n), 2_999);
    let members = list(&|n| format!("long m{n}; "), 500);
    let flags = list(&|n| format!("F{n}, "), 64);
    vec![
        format!("union U switch (long) {{ {labels} long a; }};"),
        format!("union U switch (long) {{ {cases} }};"),
        format!("enum E {{ {literals} }}; union U switch (E) {{ {of_literals} long a; }};"),
        format!("struct S {{ {members} }};"),
        format!("@bit_bound(64) bitmask B {{ {flags} }}; struct S {{ B b[33]; }};"),
    ]
}

const ODD: &[&str] = &[
    "struct S { @id(268435455) long a; long b; };",
    "struct S { @id(268435454) long a; long b; };",
    "struct S { @id(268435455) long a; }; struct T : S { long b; };",
    "struct S { @id(268435455) long a; @non_serialized long b; };",
    "union U switch (long) { case 1: @id(268435455) long a; case 2: long b; };",
    "@autoid(HASH) struct S { long a; @id(268435455) long b; long c; };",
    "struct S { long a[1000000000][1000000000][1000]; };",
    "typedef long A[1000000]; typedef A B[1000000]; typedef B C[1000000]; struct S { C c; };",
    "struct A { double a[60000][60000]; }; struct B { A a[60000][60000]; };",
    "struct A { octet a[1000]; }; struct B { sequence<A> a; @external A b; };",
    "union U switch (char) { case '\\'': long a; case '\\\\': long b; case '\\0': long c; \
     case '\\xff': long d; };",
    "union U switch (wchar) { case L'\\uffff': long a; case L'\\'': long b; };",
    "union U switch (boolean) { case TRUE: long a; };",
    "union U switch (boolean) { case TRUE: long a; case FALSE: long b; default: long c; };",
    "union U switch (octet) { default: long a; };",
    "struct S { @default(\"a\\\"b\\\\c\\n\") string a; @default(\"\\u20ac\") wstring b; };",
    "struct S { @default(1e308) double a; @default(1e-45) float b; @default(3.4e38) float c; };",
    "struct S { fixed<31, 31> a; @default(1d) fixed<1, 0> b; };",
    "struct S { @try_construct(TRIM) sequence<string<2>, 3> a; @try_construct(TRIM) string b; };",
    "typedef sequence<@try_construct(TRIM) string<2>, 3> A; struct S { A a; A b[2]; };",
    "typedef sequence<@try_construct(TRIM) string> A; struct S { A a; };",
    "typedef @try_construct(TRIM) string A; struct S { A a; };",
    "struct S { @try_construct(TRIM) long a; };",
    "union U switch (@try_construct(TRIM) long) { case 1: long a; };",
    "struct S; struct S { @external @optional S s; sequence<S> more; long x; };",
    "struct S { @optional S s; long x; }; struct B; struct A { @optional B b[2]; }; \
     struct B { A a; @optional B other; };",
    "union Expr switch (long) { case 0: @external Expr neg; case 1: long leaf; };",
    "union Expr switch (long) { case 1: long leaf; default: @external Expr neg[2]; };",
    "union U switch (long) { case 0: @external U a; case 1: @external U b; };",
    "union U switch (boolean) { case TRUE: @external U a; case FALSE: sequence<U> b; };",
    "union B; union A switch (boolean) { case FALSE: @external A a; case TRUE: @external B b; }; \
     union B switch (boolean) { case FALSE: @external A a; case TRUE: long leaf; };",
    "struct P; union E switch (octet) { case 0: @external P p; case 1: @external E e[2]; \
     default: double d; }; struct P { E left; E right; @non_serialized @external E other; };",
    "struct B; union U switch (long) { case 0: @external B b; case 1: long x; }; \
     struct A { U u; }; struct B : A { long y; };",
    "struct N { map<long, N> by; @optional N more[2]; sequence<sequence<N>> deep; };",
    "struct N { @key sequence<N> parts; @key long a; };",
    "struct N; union U switch (long) { case 0: @external N n; case 1: long x; }; \
     struct N { @key U u; @key @external U v[2]; };",
    "struct N { long a; @external N ext; };",
    "struct N { long a; @non_serialized @external N ext[2]; };",
    "struct B; struct A { @external B b[2]; }; struct B { @external A a; };",
    "struct B; struct A { @external B b; }; struct B : A { long a; };",
    "union U switch (boolean) { case TRUE: @external U a; case FALSE: @external U b[2]; };",
    "struct In { long a; long b; }; struct Deep { @external In x; In y; }; \
     struct T { Deep d; In e; @optional In f; };\n#pragma keylist T d.x.a e.b\n",
    "const float A = 3.4028235e38; struct S { @default(-3.4028235e38) float a; };",
    "struct S { };",
    "struct S { }; struct T : S { }; struct U : T { @key long a; };",
    "struct S { @non_serialized long a; };",
    "@bit_bound(1) enum E { A, B }; struct S { @key E e; };",
    "@bit_bound(1) enum E { A, B, C };",
    "enum E { @value(2147483647) A, B };",
    "enum E { @value(-2147483648) A, @value(2147483647) B }; struct S { @default(B) E e; };",
    "@bit_bound(64) bitmask B { @position(63) A, @position(0) C }; struct S { @default(A | C) B b; };",
    "@bit_bound(8) bitmask B { @position(7) A, C };",
    "bitset B { bitfield<64, long long> a; }; struct S { B b; };",
    "bitset B { bitfield<1, long long> a; bitfield<62>; bitfield<1> c; }; struct S { @key B b; };",
    "bitset B { bitfield<3>; bitfield<1> c; }; bitset C : B { bitfield<60, uint64> d; };",
    "struct S { map<boolean, map<char, sequence<long, 2>, 3>, 4> m; };",
    "struct S { @key map<string, long> m; @key sequence<double> s; @key long a[2][2]; };",
    "enum E { A }; struct S { map<E, sequence<E>> m; @key E e; };",
    "bitmask B { F, G }; union U switch (B) { case F: long a; case F | G: string b; };",
    "@bit_bound(64) bitmask B { @position(63) F }; union U switch (B) { case F: long a; };",
    "struct S { struct P { enum E { X, Y } e; } at, more[2]; };",
    "typedef long A; typedef A B; typedef B C[2]; struct S { C a[3]; B b; };",
    "module M { const string A = \"x\"; enum E { A2 }; }; struct S { @default(M::A2) M::E a; };",
    "const long double A = 1.0; struct S { @default(1.5) long double a; @max(2) long double b; };",
    "exception X { long a; }; exception Y { };",
    "@mutable struct S { @must_understand @id(9) long a; @optional string b; };",
    "@mutable union U switch (@key long) { case 1: @external string a; };",
    "struct S { long a; long A2; long a2b; long a2_b; long _long; };",
    "enum E { a, A_, _enum }; struct E_ { E e; };",
    "struct A { long a; }; struct A_ { long a; }; module a { struct A { long a; }; };",
];

/// Beginning of the program: what each type has to do.
const HEADER: &str = "#![allow(unused, reason = \"only the types count\")]
use idl_cdr::{DdsType, Encoding, from_cdr, to_cdr_with};

fn check<T: DdsType + Default + PartialEq + std::fmt::Debug>() {
    let value = T::default();
    for encoding in [Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE] {
        let bytes = to_cdr_with(&value, encoding).expect(T::TYPE_NAME);
        assert_eq!(from_cdr::<T>(&bytes).expect(T::TYPE_NAME), value);
    }
}
";

/// Returns a program with the Rust of all accepted files, and the refused files.
fn program() -> (String, Vec<String>) {
    let (mut program, mut checks, mut refused) = (HEADER.to_owned(), String::new(), Vec::new());
    for (index, text) in odd_files().into_iter().enumerate() {
        let files = Memory::new([("odd.idl", text.as_str())]);
        let compilation = Compiler::new().compile_from(&files, &["odd.idl"]).unwrap();
        let Some(of) = compilation.specification else {
            refused.push(text);
            continue;
        };
        let rust = Generator::new().crate_path("idl_cdr").generate(&of);
        let shown: String = text.chars().take(90).filter(|c| *c != '\n').collect();
        writeln!(program, "// {shown}\npub mod odd_{index} {{\n{rust}\n}}").unwrap();
        let declared = rust.lines().filter_map(|line| {
            let line = line.strip_prefix("pub struct ").or(line.strip_prefix("pub enum "))?;
            line.split([' ', '(', ';', '{']).next()
        });
        for name in declared {
            writeln!(checks, "    check::<odd_{index}::{name}>();").unwrap();
        }
    }
    writeln!(program, "fn main() {{\n{checks}}}").unwrap();
    (program, refused)
}

#[test]
fn whatever_is_accepted_compiles_and_default_values_survive_round_trip() {
    let (program, refused) = program();
    assert!(refused.len() < 80, "{refused:#?}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odd_files.rs");
    std::fs::write(&file, program).unwrap();
    trybuild::TestCases::new().pass(&file);
}
