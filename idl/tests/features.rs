//! One small valid file and one invalid file for each feature of IDL.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use idl::{Severity, generate, parse};

/// A feature, a file with it, text of its Rust, a file with an error in it, and the beginning of
/// the error message.
type FeatureCase = (&'static str, &'static str, &'static str, &'static str, &'static str);

#[track_caller]
fn check(rows: &[FeatureCase]) {
    for (feature, valid, rust, invalid, message) in rows {
        let specification = match parse("valid.idl", valid) {
            Ok(specification) => specification,
            Err(diagnostics) => panic!("{feature}: {diagnostics}"),
        };
        let generated = generate(&specification);
        assert!(generated.contains(rust), "{feature}: {generated}");
        match parse("wrong.idl", invalid) {
            Ok(_) => panic!("{feature}: no error in\n{invalid}"),
            Err(diagnostics) => {
                let found = diagnostics.iter().any(|d| {
                    let text = format!("{}:{}: {}", d.line, d.column, d.message);
                    d.severity == Severity::Error && text.starts_with(message)
                });
                assert!(found, "{feature}:\n{message}\n{diagnostics}");
            }
        }
    }
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_basic_types() {
    check(&[
        ("boolean", "struct S { boolean b; };", "b: bool", "struct S { bool b; };", "1:12: there is no `bool`"),
        ("octet", "struct S { octet o; };", "o: u8", "const octet O = 256;", "1:17: 256 does not fit octet, which goes from 0 to 255"),
        ("char", "struct S { char c; };", "c: char", "const char C = 'ab';", "1:16: expected one character"),
        ("wchar", "struct S { wchar c; };", "c: ::dds_api::types::WChar", "const char C = L'a';", "1:16: this literal is wide"),
        ("int8", "const int8 A = -128;", "A: i8 = -128", "const int8 A = 128;", "1:16: 128 does not fit int8"),
        ("uint8", "const uint8 A = 255;", "A: u8 = 255", "const uint8 A = -1;", "1:17: -1 does not fit uint8"),
        ("int16", "const int16 A = 1; const short B = 2;", "B: i16", "const short A = 0x8000;", "1:17: 32768 does not fit int16"),
        ("uint16", "const uint16 A = 1; const unsigned short B = 2;", "B: u16", "const unsigned int A = 1;", "1:16: expected `short` or `long`"),
        ("int32", "const int32 A = 1; const long B = 2;", "B: i32", "const long A = 2147483648;", "1:16: 2147483648 does not fit int32"),
        ("uint32", "const uint32 A = 1; const unsigned long B = 2;", "B: u32", "const uint32 A = 1 << 32;", "1:18: 4294967296 does not fit uint32"),
        ("int64", "const int64 A = 1; const long long B = -9223372036854775808;", "B: i64 = -9223372036854775808", "const int64 A = 9223372036854775808;", "1:17: 9223372036854775808 does not fit"),
        ("uint64", "const unsigned long long B = 18446744073709551615;", "B: u64", "const uint64 A = 18446744073709551616;", "1:18: 18446744073709551616 is larger than any"),
        ("float", "const float A = 1.5e3;", "A: f32 = 1500.0", "const float A = 1e39;", "1:17: 1"),
        ("double", "const double A = 1;", "A: f64 = 1.0", "const double A = TRUE;", "1:18: expected a value of type double, found a boolean"),
        ("long double", "struct S { long double d; };", "d: ::dds_api::types::LongDouble", "struct S { unsigned double d; };", "1:21: expected `short` or `long`"),
        ("long double constants", "const long double A = 1.5;", "A: ::dds_api::types::LongDouble =\n    ::dds_api::types::LongDouble(0x3fff8000000000000000000000000000_u128.to_le_bytes())", "const long double A = 1.5e5000;", "1:23: 1.5e5000 is larger than any floating-point type"),
        ("long double expressions", "const long double A = 1e4000 / 1e3999; const long double B = -A / 3; const double C = A;", "0xc000aaaaaaaaaaaaaaaaaaaaaaaaaaac_u128", "const double A = 1e4000 / 1e3999;", "1:18: 1.0E+4000 is larger than a double"),
        ("long double as others", "const long double A = 1e300; const double B = A; const long double C = 1; const long double D = 0.1d;", "B: f64 = 1e300", "const long double A = 1e400; const double B = A;", "1:47: 1.0E+400 does not fit double"),
        ("long double arithmetic", "const long double A = 1e4000 * 1e-4000;", "A: ", "const long double A = 1e4000 * 1e4000;", "1:23: `1.0E+4000 * 1.0E+4000` has no value"),
        ("fixed", "struct S { fixed<5, 2> d; };", "d: ::dds_api::types::Fixed<5, 2>", "struct S { fixed<2, 5> d; };", "1:12: a fixed-point type has 1 to 31"),
        ("fixed without digits", "const fixed F = 1.25d;", "Fixed<3, 2>", "struct S { fixed d; };", "1:12: `fixed` needs its digits"),
        ("any", "typedef any Anything; struct S { Anything a; };", "pub a: Anything", "struct S { @default(1) any a; };", "1:21: a value of type any cannot be written as a default"),
        ("any inside", "typedef sequence<any, 3> A; struct S { A a; @optional any b[2]; map<long, any> c; };", "b: Option<[::dds_api::types::Any; 2]>", "struct S { map<any, long> a; };", "1:16: a map's keys are integers"),
        ("any as a case", "union U switch (long) { case 1: any a; };", "A(::dds_api::types::Any)", "union U switch (any) { case 1: long a; };", "1:17: a discriminator"),
        ("any as a constant", "struct S { any a; };", "a: ::dds_api::types::Any", "const any A = 1;", "1:7: "),
        ("case of keywords", "struct S { long a; };", "a: i32", "struct S { Long a; };", "1:12: `Long` is spelt `long`"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_collections() {
    check(&[
        ("string", "struct S { string a; };", "a: String", "struct S { string<> a; };", "1:19: expected a value, found `>`"),
        ("bounded string", "struct S { string<8> a; };", "#[dds(bound = 8)]", "struct S { string<0> a; };", "1:19: the bound of a string is from 1"),
        ("wstring", "struct S { wstring<4> a; };", "a: ::dds_api::types::WString", "struct S { wstring<-1> a; };", "1:20: the bound of a string"),
        ("sequence", "struct S { sequence<long> a; };", "a: Vec<i32>", "struct S { sequence a; };", "1:21: expected `<`, found `a`"),
        ("bounded sequence", "struct S { sequence<long, 3> a; };", "bound = 3", "struct S { sequence<long, 1.5> a; };", "1:27: expected the bound of a sequence (an integer)"),
        ("nested sequence", "struct S { sequence<sequence<string<2>>> a; };", "bound = [_, _, 2]", "struct S { sequence<sequence<long> a; };", "1:36: expected `,` or `>`"),
        ("array", "struct S { long a[2][3]; };", "a: [[i32; 3]; 2]", "struct S { long a[0]; };", "1:19: the length of an array is from 1"),
        ("array without a length", "struct S { long a[1]; };", "[i32; 1]", "struct S { long a[]; };", "1:19: expected the length of the array"),
        ("map", "struct S { map<string<4>, long, 9> a; };", "bound = [9, 4]", "struct S { map<double, long> a; };", "1:16: a map's keys are integers"),
        ("map of enumerators", "enum E { A }; struct S { map<E, long> a; };", "BTreeMap<E, i32>", "struct T { long a; }; struct S { map<T, long> a; };", "1:38: a map's keys"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_definitions() {
    check(&[
        ("module", "module M { struct S { long a; }; };", "pub mod m", "module M { struct S { long a; }; ", "1:10: this brace is never closed"),
        ("reopened module", "module M { const long A = 1; }; module M { const long B = A; };", "B: i32 = 1", "module M { const long A = 1; }; module M { const long A = 2; };", "1:55: `A` is defined already"),
        ("reopened in another case", "module M { const long A = 1; };", "mod m", "module M { const long A = 1; }; module m { const long B = 1; };", "1:40: `m` and `M`, defined already"),
        ("constant", "const long A = 1;", "A: i32 = 1", "const long A;", "1:13: expected `=`, found `;`"),
        ("constant of an enum", "enum E { P, Q }; const E A = Q;", "A: E = E::Q", "enum E { P }; enum F { R }; const E A = R;", "1:41: expected an enumerator of `E`, found one of `F`"),
        ("constant of a bitmask", "bitmask B { X, Y }; const B A = X | Y;", "A: B = B(3)", "bitmask B { X }; const B A = Z;", "1:30: there is no `Z`"),
        ("constant of a struct", "const string A = \"a\";", "A: &str", "struct S { long a; }; const S A = 1;", "1:29: a constant is of a basic type"),
        ("typedef", "typedef long A, B[2];", "pub type B = [i32; 2]", "typedef A B;", "1:9: there is no `A`"),
        ("typedef with a definition", "typedef struct A { long a; } B, C[2]; typedef enum E { X } F; typedef union U switch (F) { case X: B b; } V;", "pub type C = [A; 2]", "typedef struct A B;", "1:18: expected `:`, `;` or `{`"),
        ("typedef with a forward declaration", "typedef enum E { X } F[2];", "pub type F = [E; 2]", "typedef struct A;", "1:17: expected the members of `A` and the new name of the type"),
        ("typedef of an array of typedefs", "typedef long A[2]; struct S { A a[3]; };", "a: [A; 3]", "typedef long A[2] B;", "1:19: expected `;`, found `B`"),
        ("enum", "enum E { A, B, };", "pub enum E", "enum E {};", "1:9: expected the name of an enumerator"),
        ("enum with values", "enum E { @value(3) A, B = 7, C };", "C,", "enum E { @value(1) A, @value(1) B };", "1:30: `B` has the value 1, which is taken"),
        ("enum with bits", "@bit_bound(8) enum E { @value(127) A };", "bit_bound = 8", "@bit_bound(8) enum E { @value(128) A };", "1:31: 128 does not fit an enum of 8 bits"),
        ("enumerators belong to the scope around", "enum E { A }; const E X = A;", "X: E = E::A", "enum E { A }; const E X = E::A;", "1:27: `E` is an enum; its enumerators belong"),
        ("two enums with one enumerator", "module M { enum E { A }; }; enum F { A };", "enum F", "enum E { A }; enum F { A };", "1:24: `A` is defined already"),
        ("bitmask", "@bit_bound(8) bitmask B { @position(7) A };", "pub struct B(pub u8);", "@bit_bound(8) bitmask B { @position(8) A };", "1:27: `A` is bit 8 of a bitmask of 8 bits"),
        ("bitmask without two of one", "bitmask B { @position(2) A, B };", "flags(A = 2, B = 3)", "bitmask B { A, @position(0) C };", "1:16: `C` is bit 0, which is taken"),
        ("bitset", "bitset B { bitfield<3> a; bitfield<9, short> b; };", "b: i16", "bitset B { bitfield<9, octet> a; };", "1:24: octet has fewer than 9 bits"),
        ("bit fields side by side", "bitset B { bitfield<3> a b; bitfield<1> c, d; };", "d: bool", "bitset B { bitfield<3> a b, 4; };", "1:29: expected `,`, `;` or the name"),
        ("bitset's size", "bitset B { bitfield<60> a; bitfield<4> b; };", "b: u8", "bitset B { bitfield<60> a; bitfield<5> b; };", "1:8: `B` has 65 bits"),
        ("bitset's base", "bitset A { bitfield<3> a; }; bitset B : A { bitfield<3> b; };", "a: u8", "struct A { long a; }; bitset B : A { bitfield<3> b; };", "1:34: a bitset inherits from a bitset"),
        ("struct", "struct S { long a, b; };", "b: i32", "struct S { long a b; };", "1:19: expected `,`, `[` or `;`, found `b`"),
        ("struct's base", "struct A { long a; }; struct B : A { long b; };", "#[dds(base)]", "struct A { long a; }; struct B : A { long A; };", "1:43: there is a member `A` already"),
        ("a base that is none", "struct A { long a; }; typedef A T; struct B : T { long b; };", "base: A", "enum A { X }; struct B : A { long b; };", "1:26: a struct inherits from a struct, not from A"),
        ("extensibility of the base", "@mutable struct A { long a; }; struct B : A { long b; };", "extensibility = \"mutable\"", "@mutable struct A { long a; }; @final struct B : A { long b; };", "1:32: `B` has another extensibility"),
        ("exception", "exception E { string why; };", "IDL exception `E`", "exception E;", "1:12: expected `{`, found `;`"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_unions() {
    check(&[
        ("integer", "union U switch (long) { case 1: case -2: long a; };", "case = 1, -2", "union U switch (long) { case 1: long a; case 1: long b; };", "1:46: there is a case 1 already"),
        ("every integer", "union U switch (uint64) { case 1: long a; };", "discriminator = \"u64\"", "union U switch (double) { case 1: long a; };", "1:17: a discriminator is an integer"),
        ("octet", "union U switch (octet) { case 1: long a; };", "discriminator = \"u8\"", "union U switch (octet) { case 256: long a; };", "1:31: 256 does not fit octet"),
        ("int8", "union U switch (int8) { case -1: long a; };", "discriminator = \"i8\"", "union U switch (int8) { case 128: long a; };", "1:30: 128 does not fit int8"),
        ("boolean", "union U switch (boolean) { case TRUE: long a; };", "case = true", "union U switch (boolean) { case 1: long a; };", "1:33: expected a value of type boolean"),
        ("char", "union U switch (char) { case 'x': long a; };", "case = 'x'", "union U switch (char) { case x: long a; };", "1:30: there is no `x`"),
        ("wchar", "union U switch (wchar) { case L'x': long a; };", "WChar", "union U switch (wchar) { case 3: long a; };", "1:31: expected a value of type wchar"),
        ("enum", "enum E { A, B }; union U switch (E) { case A: long a; };", "case = E::A", "enum E { A }; union U switch (E) { case C: long a; };", "1:41: there is no `C`"),
        ("default", "union U switch (long) { case 1: long a; default: long b; };", "default)]", "union U switch (long) { default: long a; default: long b; };", "1:42: there is a default case already"),
        ("without default", "union U switch (long) { case 1: long a; };", "NoCase", "union U switch (long) {};", "1:7: the union `U` has no cases"),
        ("all values have a case", "union U switch (boolean) { case TRUE: long a; case FALSE: long b; };", "case = false", "union U switch (boolean) { case TRUE: long a; case FALSE: };", "1:59: expected the member of a case"),
        ("default of the discriminator", "union U switch (@default(2) long) { case 1: long a; case 2: long b; };", "discriminator_default = 2", "union U switch (@default(256) octet) { case 1: long a; };", "1:26: 256 does not fit octet"),
        ("default of an enum", "enum E { A, B }; union U switch (@default(B) E) { case A: long a; };", "discriminator_default = E::B", "enum E { A, B }; union U switch (@default(C) E) { case A: long a; };", "1:43: there is no `C`"),
        ("default within a range", "union U switch (@range(min = 1, max = 3) @default(3) long) { case 1: long a; };", "discriminator_default = 3", "union U switch (@max(3) @default(4) long) { case 1: long a; };", "1:34: the default 4 is outside of the discriminator's range"),
        ("default of a typedef", "@default(2) typedef long L; union U switch (L) { case 1: long a; };", "discriminator_default = 2", "@default(2.5) typedef long L; union U switch (L) { case 1: long a; };", "1:10: expected"),
        ("default of a member", "union U switch (long) { case 1: @default(\"x\") string a; default: @default(7) long b; };", "default, default_value = 7)]", "union U switch (long) { case 1: @default(\"x\") long a; };", "1:42: expected an integer (int32), found a string"),
        ("what selects nothing", "@appendable union U switch (@try_construct(USE_DEFAULT) long) { case 1: long a; };", "discriminator_try_construct = \"use_default\"", "union U switch (@try_construct(TRIM) long) { case 1: long a; };", "1:38: a discriminator cannot be trimmed"),
        ("key", "union U switch (@key long) { case 1: long a; };", "discriminator_key", "union U switch (@optional long) { case 1: long a; };", "1:17: `@optional` does not belong in front of a discriminator"),
        ("members", "union U switch (long) { case 1: @id(5) @external string<3> a[2]; };", "id = 5, bound = 3, external", "union U switch (long) { case 1: long a; case 2: long A; };", "1:54: there is a member `A` already"),
        ("ids", "union U switch (long) { case 1: @id(1) long a; case 2: long b; };", "id = 1", "union U switch (long) { case 1: @id(2) long a; case 2: @id(2) long b; };", "1:68: `b` has the member id 2, which is taken"),
    ]);
}

/// Every spelling of a discriminator type, with a valid label, the type in Rust and an
/// invalid label.
#[test]
fn discriminator_type_has_eighteen_spellings() {
    for (spelling, label, rust, wrong) in [
        ("boolean", "FALSE", "bool", "2"),
        ("char", "'x'", "char", "L'x'"),
        ("wchar", "L'x'", "::dds_api::types::WChar", "1"),
        ("octet", "255", "u8", "256"),
        ("int8", "-128", "i8", "-129"),
        ("uint8", "255", "u8", "-1"),
        ("int16", "-32768", "i16", "32768"),
        ("short", "-32768", "i16", "32768"),
        ("uint16", "65535", "u16", "65536"),
        ("unsigned short", "65535", "u16", "65536"),
        ("int32", "-2147483648", "i32", "2147483648"),
        ("long", "-2147483648", "i32", "2147483648"),
        ("uint32", "4294967295", "u32", "4294967296"),
        ("unsigned long", "4294967295", "u32", "4294967296"),
        ("int64", "-9223372036854775808", "i64", "9223372036854775808"),
        ("long long", "-9223372036854775808", "i64", "9223372036854775808"),
        ("uint64", "9223372036854775807", "u64", "-1"),
        ("unsigned long long", "9223372036854775807", "u64", "1.5"),
    ] {
        let text =
            |label: &str| format!("union U switch ({spelling}) {{ case {label}: long a; }};");
        let generated = generate(&parse("a.idl", &text(label)).unwrap());
        let wanted = format!("discriminator = \"{rust}\"");
        assert!(generated.contains(&wanted), "{spelling}: {generated}");
        assert!(parse("a.idl", &text(wrong)).is_err(), "{spelling}: {wrong}");
    }
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_recursion() {
    check(&[
        ("forward struct", "struct S; typedef sequence<S> Q; struct S { Q q; };", "q: Q", "struct S; struct T { S s; }; struct S { long a; };", "1:22: `S` is not complete here"),
        ("forward union", "union U; struct S { sequence<U> u; }; union U switch (long) { case 1: S s; };", "S(S)", "union U; struct S { sequence<U> u; };", "1:7: `U` is declared here but not defined"),
        ("twice", "struct S; struct S; struct S { long a; };", "struct S", "struct S; union S;", "1:17: `S` is defined already"),
        ("itself in a sequence", "struct S { sequence<S> s; };", "s: Vec<S>", "struct S { S s; };", "1:12: `S` is not complete here"),
        ("itself in an array", "struct S { @external @optional S s; };", "s: Option<Box<S>>", "struct S { S s[2]; };", "1:12: `S` is not complete here"),
        ("itself in an optional member", "struct S { @optional S s; long x; };", "#[dds(external)]\n    pub s: Option<Box<S>>", "struct S { @optional S s; S t; };", "1:27: `S` is not complete here"),
        ("an optional member that is complete", "struct A { long x; }; struct S { @optional A s; };", "pub s: Option<A>", "struct S { @optional @key A a; };", "1:27: there is no `A` here"),
        ("itself through another optional member", "struct B; struct A { @optional B b[2]; }; struct B { A a; };", "pub b: Option<Box<[B; 2]>>", "struct B; struct A { B b; }; struct B { @optional A a; };", "1:22: `B` is not complete here"),
        ("itself in a typedef", "struct S; typedef sequence<S> Q; struct S { long a; };", "type Q", "struct S; typedef S Q; struct S { long a; };", "1:19: `S` is not complete here"),
        ("itself in an external member", "struct N { @external @optional N a; @external sequence<N> b; };", "a: Option<Box<N>>", "struct N { long a; @external N b; };", "1:8: `N` has no finite value: each one contains another, by `N.b`; make a member `@optional`"),
        ("each other in external members", "struct B; struct A { @external B b; }; struct B { sequence<A> a; };", "b: Box<B>", "struct B; struct A { @external B b[2]; }; struct B { @external A a; }; struct C { A a; };", "1:18: `A` has no finite value: each one contains another, by `A.b` and `B.a`"),
        ("itself through a base", "struct B; struct A { @external @optional B b; }; struct B : A { long c; };", "b: Option<Box<B>>", "struct B; struct A { @external B b; }; struct B : A { long c; };", "1:18: `A` has no finite value: each one contains another, by `A.b` and `B.base`"),
        ("itself in a case", "union U switch (boolean) { case TRUE: @external U a; case FALSE: long b; };", "A(Box<U>)", "union U switch (boolean) { case TRUE: @external U a; case FALSE: @external U b; };", "1:7: `U` has no finite value: each one contains another, by `U.a`"),
        ("itself in a case of some labels", "union U switch (long) { case 1: @external U a; };", "NoCase", "union U switch (long) { case 1: @external U a; default: @external U b; };", "1:7: `U` has no finite value"),
        ("itself as its base", "struct S { long a; }; struct T : S { long b; };", "base: S", "struct S : S { long a; };", "1:12: `S` is not complete here"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_names() {
    check(&[
        ("escaped", "struct _struct { long _long; };", "pub long: i32", "struct struct { long a; };", "1:8: expected the name of a struct, found the keyword `struct`; write `_struct`"),
        ("case of keywords", "struct Foo { long Port; };", "port: i32", "struct struct { long a; };", "1:8: expected the name of a struct, found the keyword `struct`"),
        ("names that differ from keywords in case", "struct String { string data; }; struct Int8 { int8 data; String s; };", "s: String_", "struct S { Int8 a; };", "1:12: `Int8` is spelt `int8`"),
        ("map as a name", "typedef long map_t; struct S { map_t map; map<long, long> m; }; struct map { S s; }; struct T { map map; };", "pub map: Map", "struct S { map<long> m; };", "1:20: expected `,`"),
        ("a typedef twice", "module m { typedef double d[3]; }; module m { typedef double d[3]; struct S { d a; }; };", "a: D", "module m { typedef double d[3]; }; module m { typedef double d[4]; };", "1:62: `d` is defined already"),
        ("a typedef twice with annotations", "@max(3) typedef long T; @max(3) typedef long T;", "pub type T = i32", "@max(3) typedef long T; @max(4) typedef long T;", "1:46: `T` is defined already"),
        ("words of other parts of the standard", "struct S { long port, home, context, in, local; };", "pub r#in: i32", "struct S { long case; };", "1:17: expected the name of a member, found the keyword `case`"),
        ("spelling", "struct Foo { long a; }; struct S { Foo f; };", "f: Foo", "struct Foo { long a; }; struct S { foo f; };", "1:36: `foo` is spelt `Foo`"),
        ("inside out", "const long A = 1; module M { const long A = 2; const long B = A; };", "B: i32 = 2", "module M { const long A = 2; }; const long B = A;", "1:48: there is no `A`"),
        ("absolute", "const long A = 1; module M { const long A = 2; const long B = ::A; };", "B: i32 = 1", "module M { const long A = 2; const long B = ::A; };", "1:45: there is no `A`"),
        ("qualified", "module M { module N { const long A = 3; }; const long B = N::A; };", "B: i32 = 3", "module M { const long A = 2; }; const long B = M::C;", "1:51: there is no `C` in `M`"),
        ("the first name decides", "module M { const long A = 1; module N { module O { const long B = M::A; }; }; };", "B: i32 = 1", "module M { const long A = 1; module N { module M { const long B = 1; }; const long C = M::A; }; };", "1:91: there is no `A` in `M`"),
        ("a used name keeps its meaning", "module M { typedef long T; module N { typedef T U; }; };", "U = super::T", "module M { typedef long T; module N { typedef T U; typedef short T; }; };", "1:66: `T` was used above in this scope with another meaning"),
        ("members", "struct S { long a; }; struct T { S s; };", "s: S", "struct S { long a; long A; };", "1:25: there is a member `A` already"),
        ("no type", "module M { const long A = 1; };", "A", "module M { const long A = 1; }; struct S { M a; };", "1:44: expected a type, found the module `M`"),
        ("no value", "enum E { A }; const E B = A;", "B", "struct S { long a; }; const long B = S;", "1:38: expected a value, found the type `S`"),
        ("one name in Rust", "struct S { long fooBar; long foo_bar; };", "foo_bar_: i32", "struct S { long fooBar; long FooBar; };", "1:30: there is a member `FooBar` already"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_expressions() {
    check(&[
        ("operators", "const long A = (1 + 2 * 3 - 4 / 2) % 4 | 8 & 12 ^ 1 << 2 >> 1;", "A: i32 = 11", "const long A = 1 +;", "1:19: expected a value, found `;`"),
        ("signs", "const long A = - + -3; const octet B = ~0; const short C = ~1;", "C: i16 = -2", "const long A = -TRUE;", "1:16: `-` cannot stand before a boolean"),
        ("literals", "const long A = 0x1F + 017 + 9;", "A: i32 = 55", "const long A = 089;", "1:16: `089` begins with 0, so it is octal"),
        ("division", "const double A = 1 / 4.0;", "A: f64 = 0.25", "const long A = 1 / 0;", "1:16: a number cannot be divided by zero"),
        ("shifts", "const uint64 A = 1 << 63;", "9223372036854775808", "const long A = 1 << 64;", "1:16: a shift is by 0 to 63 bits"),
        ("fixed", "const fixed A = 1.5d * 2.25d;", "from_units(3375)", "const fixed A = 1.5d / 0.0d;", "1:17: `1.5 / 0` has no value"),
        ("strings", "const string A = \"a\" \"b\";", "\"ab\"", "const string A = \"a\" L\"b\";", "1:22: a wide and a narrow string"),
        ("bounded strings", "const string<3> A = \"abc\";", "\"abc\"", "const string<3> A = \"abcd\";", "1:21: this string has 4 characters; string<3> takes 3"),
        ("escapes", r#"const string A = "\t\x41\101\"";"#, r#""\tAA\"""#, r#"const string A = "\q";"#, "1:19: `\\q` is not an escape sequence"),
        ("booleans", "const boolean A = TRUE;", "true", "const boolean A = True;", "1:19: `True` is spelt `TRUE` in IDL"),
        ("booleans in lower case", "const boolean A = true; const boolean B = false; union U switch (boolean) { case true: long a; };", "A: bool = true", "struct true { long a; };", "1:8: expected the name of a struct, found the keyword `true`"),
        ("constants", "const short N = 2; struct S { string<N + 1> a[N]; };", "[String; 2]", "const string N = \"a\"; struct S { long a[N]; };", "1:41: expected the length of an array (an integer), found a string"),
        ("mixed", "const double A = 1.5 + 1;", "2.5", "const long A = 1.5;", "1:16: expected an integer (int32), found a floating-point"),
        ("kinds", "const float A = 2.0 * 3.0;", "6.0", "const long A = 1 | 1.5;", "1:16: `|` cannot stand between an integer and"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compiler_translates_valid_and_rejects_invalid_annotations() {
    check(&[
        ("key", "struct S { @key long a; @key(FALSE) long b; };", "#[dds(key)]", "@key struct S { long a; };", "1:1: `@key` does not belong in front of a struct; it belongs in front of a member"),
        ("id", "struct S { @id(value = 7) long a; };", "id = 7", "struct S { @id(1) long a; @id(1) long b; };", "1:39: `b` has the member id 1"),
        ("ids behind a base", "struct A { @id(4) long a; }; struct B : A { long b; @id(4096) long c; };", "id = 4096", "struct A { @id(4) long a; }; struct B : A { @id(4) long b; };", "1:57: `b` has the member id 4, which is taken"),
        ("ids that follow a base", "struct A { long a; }; struct B : A { long b; @id(2) long c; };", "id = 2", "struct A { long a; }; struct B : A { long b; @id(1) long c; };", "1:58: `c` has the member id 1, which is taken"),
        ("ids by hash", "struct S { @hashid(\"a\") long x; @hashid(\"b\") long y; };", "hashid = \"b\"", "struct S { @hashid(\"a\") long x; @hashid(\"a\") long y; };", "1:51: `y` has the member id 158712076, which is taken"),
        ("ids by hash and by number", "@autoid(HASH) struct S { long a; @id(1) long b; };", "autoid = \"hash\"", "@autoid(HASH) struct S { long a; @id(158712076) long b; };", "1:54: `b` has the member id 158712076, which is taken"),
        ("ids without a member that is not sent", "struct S { @non_serialized long a; long b; @id(1) long c; };", "id = 1", "struct S { @key @non_serialized long a; };", "1:38: a member of the key is in every sample"),
        ("the discriminator's id", "union U switch (long) { case 1: @id(1) long a; };", "id = 1", "union U switch (long) { case 1: @id(0) long a; };", "1:45: `a` has the member id 0, which is taken"),
        ("nothing to trim in a typedef", "typedef @try_construct(TRIM) string<2> A; struct S { A a; };", "trim", "typedef @try_construct(TRIM) string A; struct S { A a; };", "1:53: `a` has no bound to trim to"),
        ("nothing to trim", "struct S { @try_construct(TRIM) sequence<long, 2> a; @try_construct(TRIM) string<2> b[2]; };", "try_construct = \"trim\"", "struct S { @try_construct(TRIM) string a; };", "1:40: `a` has no bound to trim to"),
        ("key of a case", "union U switch (@key long) { case 1: long a; };", "discriminator_key", "union U switch (long) { case 1: @key long a; };", "1:33: `@key` does not belong in front of a case of a union; it belongs in front of a member"),
        ("key in a comment", "struct S { long b; //@key\n };", "#[dds(key)]", "struct S { @optional long b; //@Key\n };", "1:27: a member of the key cannot be optional"),
        ("id in a comment", "struct S { long b; //@ID 3\n };", "id = 3", "struct S { long b; //@ID 268435456\n };", "1:20: expected an integer from 0 to 268435455"),
        ("several in a comment", "struct S { long b; //@Optional //@id(7)\n };", "#[dds(id = 7)]\n    pub b: Option<i32>", "struct S { long a; //@ID 3\n long b; //@ID 3\n };", "2:7: `b` has the member id 3, which is taken"),
        ("extensibility in a comment", "struct S { long b; }; //@Extensibility MUTABLE_EXTENSIBILITY\n", "extensibility = \"mutable\"", "struct S { long a; }; //@Extensibility FINAL_EXTENSIBILITY //@Extensibility\nstruct T { Z z; };", "2:12: there is no `Z` here"),
        ("no topic in a comment", "struct S { long b; };\n//@top-level false\n", "nested", "@topic struct S { long b; };\n//@top-level false\n", "1:1: a `@nested` type cannot be the type of a topic"),
        ("external in a comment", "struct A { long a; }; struct S { A b; //@shared\n };", "Box<A>", "union U switch (long) { case 1: string b; //@shared\n case 1: long c; };", "2:7: there is a case 1 already"),
        ("an annotation and a comment", "@final struct S { @key @id(4) long b; //@key //@ID 9\n }; //@mutable\n", "#[dds(key, id = 4)]", "struct S { @id(4) long b; //@ID 9\n @id(4) long c; };", "2:14: `c` has the member id 4"),
        ("value in a comment", "enum E { A, //@value 4\n B //@default_literal\n };", "A = 4", "enum E { A, //@value 4\n B, //@value 4\n };", "2:5: `B` has the value 4"),
        ("nested interface", "@nested interface I { const long A = 1; };", "mod i", "@mutable interface I { const long A = 1; };", "1:1: `@mutable` does not belong"),
        ("data_representation as a number", "@data_representation(5) struct S { long a; };", "data_representation(XCDR1, XCDR2)", "@data_representation(8) struct S { long a; };", "1:22: expected an integer from 1 to 7"),
        ("ids at the end", "struct S { @id(268435454) long a; long b; };", "id = 268435454", "struct S { @id(268435455) long a; long b; };", "1:40: `b` has no member id: the one before has the largest"),
        ("ids at the end of a base", "struct S { @id(268435455) long a; }; struct T : S { @id(1) long b; };", "id = 1", "struct S { @id(268435455) long a; }; struct T : S { long b; };", "1:58: `b` has no member id"),
        ("size of an array", "typedef octet A[70000]; struct S { A a[10]; };", "[A; 10]", "typedef octet A[70000]; struct S { A a[70000]; };", "1:38: an array of type A[70000] takes 4900000000 bytes"),
        ("size of a struct", "struct S { sequence<octet, 2000000000> a; };", "a: Vec<u8>", "struct S { octet a[2000000000]; octet b[2000000000]; octet c[2000000000]; };", "1:8: a value of `S` takes 6000000000 bytes"),
        ("size of a base", "struct S { octet a[20]; }; struct T : S { octet b; };", "base: S", "struct S { octet a[4000000000]; }; struct T : S { octet b[2000000000]; };", "1:43: a value of `T` takes 6000000000 bytes"),
        ("label of 64 bits", "union U switch (unsigned long long) { case 18446744073709551615: long a; };", "case = 18446744073709551615_u64", "union U switch (long long) { case 18446744073709551615: long a; };", "1:35: 18446744073709551615 does not fit int64"),
        ("long member that is not sent", "struct S { long b; @non_serialized long a[2][40]; };", "default = <[[i32; 40]; 2] as ::dds_api::types::DdsType>::default_value()", "struct S { @key @non_serialized long a[40]; };", "1:38: a member of the key"),
        ("definition within a struct", "struct S { struct P { long x; } at, more[2]; };", "pub struct P", "struct S { struct P { long x; }; };", "1:10: this brace is never closed"),
        ("definition within a definition", "struct S { struct P { enum E { A, B } e; } at; P other; };", "pub enum E", "struct S { struct P { Z z; } at; };", "1:23: there is no `Z`"),
        ("definition of a discriminator", "union U switch (enum E { A, B }) { case A: struct P { long x; } p; case B: long b; };", "pub enum E", "struct S { struct P; long a; };", "1:12: a type cannot be defined inside another one"),
        ("id's range", "struct S { @id(0x0FFFFFFF) long a; };", "id = 268435455", "struct S { @id(0x10000000) long a; };", "1:16: expected an integer from 0 to 268435455"),
        ("autoid", "@autoid(SEQUENTIAL) struct S { long a; };", "autoid = \"sequential\"", "@autoid(RANDOM) struct S { long a; };", "1:9: expected SEQUENTIAL or HASH"),
        ("hashid", "struct S { @hashid long a; @hashid(\"x\") long b; };", "hashid = \"x\"", "struct S { @id(1) @hashid long a; };", "1:12: a member has one id"),
        ("optional", "struct S { @optional long a; };", "a: Option<i32>", "struct S { @key @optional long a; };", "1:32: a member of the key cannot be optional"),
        ("default", "struct S { @default(5) long a; };", "default = 5", "struct S { @default(300) octet a; };", "1:21: 300 does not fit octet"),
        ("default of a list", "struct S { @default(\"(1, 2)\") long a[2]; };", "default = vec![1, 2].try_into()", "struct S { @default(\"(1, 2, 3)\") long a[2]; };", "1:21: int32[2] has 2 elements, found 3"),
        ("default of an optional", "struct S { @default(1) long a; };", "default = 1", "struct S { @optional @default(1) long a; };", "1:39: an optional member cannot have a `@default`"),
        ("default_literal", "enum E { A, @default_literal B };", "default_literal", "enum E { @default_literal A, @default_literal B };", "1:30: an enum has one default"),
        ("must_understand", "struct S { @must_understand long a; };", "must_understand", "@must_understand struct S { long a; };", "1:1: `@must_understand` does not belong"),
        ("external", "struct S { @external long a; };", "a: Box<i32>", "@external enum E { A };", "1:1: `@external` does not belong"),
        ("extensibility", "@extensibility(MUTABLE) struct S { long a; };", "extensibility = \"mutable\"", "@extensibility(MUTABEL) struct S { long a; };", "1:16: expected FINAL, APPENDABLE or MUTABLE; did you mean `MUTABLE`?"),
        ("final", "@final struct S { long a; };", "extensibility = \"final\"", "@final @mutable struct S { long a; };", "1:8: two different extensibilities"),
        ("appendable", "@appendable union U switch (long) { case 1: long a; };", "appendable", "struct S { @appendable long a; };", "1:12: `@appendable` does not belong"),
        ("nested", "@nested struct S { long a; };", "nested", "@nested(3) struct S { long a; };", "1:9: expected a value of type boolean"),
        ("default_nested", "@default_nested module M { struct S { long a; }; };", "nested", "@default_nested struct S { long a; };", "1:1: `@default_nested` does not belong"),
        ("topic", "@topic(name = \"t\") struct S { long a; };", "topic = \"t\"", "@topic(nmae = \"t\") struct S { long a; };", "1:8: `@topic` has no parameter `nmae`; did you mean `name`?"),
        ("try_construct", "struct S { @try_construct(TRIM) string<2> a; };", "try_construct = \"trim\"", "struct S { @try_construct(CUT) string<2> a; };", "1:27: expected DISCARD, USE_DEFAULT or TRIM"),
        ("a topic of another platform", "@topic(name = \"t\", platform = \"DDS\") struct S { long a; };", "topic = \"t\"", "@topic @nested struct S { long a; };", "1:1: a `@nested` type cannot be the type of a topic"),
        ("data_representation", "@data_representation(XCDR1 | XCDR2) struct S { long a; };", "data_representation(XCDR1, XCDR2)", "@data_representation(CDR3) struct S { long a; };", "1:22: expected XCDR1, XML or XCDR2"),
        ("oneway", "interface I { @oneway void f(); struct S { long a; }; };", "struct S", "@oneway struct S { long a; };", "1:1: `@oneway` does not belong in front of a struct; it belongs in front of an operation of an interface"),
        ("unit", "struct S { @unit(\"m\") long a; };", "unit = \"m\"", "struct S { @unit(3) long a; };", "1:18: expected a string"),
        ("range", "struct S { @range(min = 1, max = 3) long a; };", "range(min = 1, max = 3)", "struct S { @range(min = 4, max = 3) long a; };", "1:25: the minimum is above the maximum"),
        ("min, max", "struct S { @min(1.5) @max(2) double a; };", "range(min = 1.5, max = 2.0)", "struct S { @min(1) string a; };", "1:17: expected a value of type string"),
        ("default and range", "struct S { @min(1) @default(1) long a; };", "default = 1", "struct S { @min(1) @default(0) long a; };", "1:29: the default 0 is outside"),
        ("verbatim", "@verbatim(language = \"comment\", text = \"Hello.\") struct S { long a; };", "/// Hello.", "@verbatim(language = \"comment\") struct S { long a; };", "1:1: `@verbatim` needs its parameter `text`"),
        ("position", "bitmask B { @position(4) A };", "A = 4", "enum E { @position(4) A };", "1:10: `@position` does not belong"),
        ("bit_bound", "@bit_bound(64) bitmask B { A };", "u64", "@bit_bound(65) bitmask B { A };", "1:12: expected an integer from 1 to 64"),
        ("value", "enum E { @value(-3) A };", "A = -3", "enum E { @value(\"x\") A };", "1:17: expected an integer, found a string"),
        ("ignore_literal_names", "@ignore_literal_names enum E { A };", "ignore_literal_names)]", "@ignore_literal_names struct S { long a; };", "1:1: `@ignore_literal_names` does not belong"),
        ("service", "@service interface I { const long A = 1; };", "mod i", "@service struct S { long a; };", "1:1: `@service` does not belong"),
        ("twice", "@final struct S { long a; };", "final", "struct S { @key @key long a; };", "1:17: `@key` stands here twice"),
        ("parameters", "struct S { @id(1 + 1) long a; };", "id = 2", "struct S { @id long a; };", "1:12: `@id` needs its parameter `value`"),
        ("parameters by name", "struct S { @default(value = 1) long a; };", "default = 1", "struct S { @range(1) long a; };", "1:19: name the arguments of `@range`"),
        ("no parameters", "enum E { @default_literal A };", "default_literal", "enum E { @default_literal(1) A };", "1:27: `@default_literal` has no parameters"),
        ("declared by the user", "@annotation A { long x default 1; string y; }; @A(y = \"b\") struct S { @A(x = 2, y = \"c\") long a; };", "struct S", "@annotation A { long x; }; @A(x = \"b\") struct S { long a; };", "1:35: expected an integer (int32), found a string"),
        ("a user's enum", "@annotation A { enum E { P, Q }; E e default P; any z default 1; }; @A(e = Q) struct S { long a; };", "struct S", "@annotation A { enum E { P, Q }; E e; }; @A(e = R) struct S { long a; };", "1:49: there is no `R`"),
        ("a user's parameters", "@annotation A { boolean b default TRUE; }; @A struct S { long a; };", "struct S", "@annotation A { boolean b; }; @A struct S { long a; };", "1:31: `@A` needs its parameter `b`"),
        ("in every place", "@annotation A {}; @A module M { @A const long C = 1; @A typedef sequence<@A long> T; @A enum E { @A X }; @A bitmask B { @A Y }; @A bitset Z { @A bitfield<1> b; }; @A union U switch (@A long) { @A case 1: @A long m; }; @A struct S { @A map<@A long, @A string> m; }; @A interface I { @A void f(in @A long a); }; };", "mod m", "struct S { @ long a; };", "1:14: expected the name of an annotation"),
    ]);
}

#[test]
#[rustfmt::skip]
fn compiler_skips_constructs_without_data_and_rejects_misuse() {
    check(&[
        ("interface", "interface I { void f(in long a) raises (E); struct S { long a; }; exception E { long a; }; };", "mod i", "interface I { void f(in long a; };", "1:33: expected `)`"),
        ("interface as a type", "interface I; interface I { const long A = 2; }; struct S { long a[I::A]; };", "[i32; 2]", "interface I {}; struct S { I a; };", "1:28: `I` is an interface, which no sample can carry"),
        ("bases of interfaces", "interface A { const long X = 2; }; interface B : A { const long Y = X; };", "Y: i32 = 2", "interface B : A {};", "1:15: there is no `A`"),
        ("valuetype", "valuetype V { public long a; }; struct S { long a; };", "struct S", "valuetype V { public long a; }; struct S { V v; };", "1:44: `V` is a valuetype, which no sample can carry"),
        ("component", "component C { attribute long a; }; const long A = 1;", "A: i32", "component C { attribute long a; ", "1:13: this is never closed"),
        ("native", "native N; const long A = 1;", "A: i32", "native N; struct S { N n; };", "1:22: `N` is a native type"),
        ("abstract, local", "abstract interface A {}; local interface B {}; abstract valuetype C {}; custom valuetype D {}; const long X = 1;", "X", "abstract struct S { long a; };", "1:1: expected a definition"),
        ("boxed, forward and truncatable valuetypes", "valuetype V; valuetype V { public long a; factory f(in long a) raises (E); }; custom valuetype W : truncatable V supports I { private string s; }; valuetype B sequence<long>; abstract valuetype A { void draw(); }; const long X = 1;", "X: i32", "custom valuetype W : truncatable V { private string s; ", "1:20: this is never closed"),
        ("eventtype", "eventtype E { public long a; }; abstract eventtype F; const long X = 1;", "X: i32", "eventtype E {}; struct S { E e; };", "1:28: `E` is an eventtype, which no sample can carry"),
        ("porttype", "porttype P { provides I a; uses multiple I b; port Q c; mirrorport Q d; }; const long X = 1;", "X: i32", "porttype P {}; struct S { P p; };", "1:27: `P` is a porttype, which no sample can carry"),
        ("connector", "connector C : D { port P a; attribute long b; }; const long X = 1;", "X: i32", "connector C {}; struct S { sequence<C> c; };", "1:37: `C` is a connector, which no sample can carry"),
        ("components with ports", "component C : D supports I { publishes E a; emits E b; consumes E c; port P d; }; home H manages C primarykey K { finder f(in long a); }; const long X = 1;", "X: i32", "component C {}; struct S { C c; };", "1:28: `C` is a component, which no sample can carry"),
        ("typeid", "struct S { long a; }; typeid S \"IDL:S:1.0\"; module M { typeid ::S \"x\"; };", "struct S", "typeid S", "1:8: this is never closed"),
        ("typeprefix", "module M { struct S { long a; }; }; typeprefix M \"example.org\";", "struct S", "typeprefix M", "1:12: this is never closed"),
        ("import", "import M::N; import ::M; import \"m.idl\"; struct S { long import; };", "import: i32", "import M", "1:8: this is never closed"),
        ("words that begin what is skipped", "struct S { long typeid, typeprefix, eventtype, porttype, connector, alias; };", "connector: i32", "struct S { long connector a; };", "1:27: expected `,`, `[` or `;`, found `a`"),
        ("template", "module M { const long A = 1; };", "A", "module M <typename T> { const long A = 1; };", "1:10: template modules are not supported"),
    ]);
}

#[test]
fn skipped_construct_is_reported_in_note() {
    let compiler = idl::Compiler::new();
    let text = "valuetype V {}; interface I { void f(); }; @unknown struct S { long a; };";
    let files = idl::Memory::new([("a.idl", text)]);
    let compiled = compiler.compile_from(&files, &["a.idl"]).unwrap();
    assert!(compiled.specification.is_some());
    let found: Vec<String> = compiled
        .diagnostics
        .iter()
        .map(|d| format!("{}: {}: {}", d.column, d.severity, d.message))
        .collect();
    assert_eq!(
        found,
        [
            "1: note: this valuetype `V` is skipped: no sample can carry it",
            "27: warning: the interface `I` is skipped, except for the types and constants in it: topics have no operations or attributes",
            "44: warning: the annotation `@unknown` is not known and has no effect",
        ]
    );
}

/// An interface is read over with one warning, whatever is in it. Its uses as a type are errors.
#[test]
fn interface_causes_one_warning_and_its_uses_are_errors() {
    let found = |text: &str| {
        let files = idl::Memory::new([("a.idl", text)]);
        let compiled = idl::Compiler::new().compile_from(&files, &["a.idl"]).unwrap();
        let found = compiled.diagnostics.iter();
        let found: Vec<String> =
            found.map(|one| format!("{}: {}", one.severity, one.message)).collect();
        (compiled.specification.is_some(), found)
    };
    let interface = "interface Remote; local interface Remote : Base {
        exception Refused { string why; };
        readonly attribute Unknown count; attribute Remote next;
        oneway void forget(in Unknown id);
        Remote find(in string pattern, out Unknown found) raises (Refused);
    };";
    let (compiles, messages) = found(&format!(
        "interface Base {{ const long N = 2; }}; {interface} struct S {{ long a; }};"
    ));
    assert!(compiles && messages.len() == 1, "{messages:?}");
    assert!(messages[0].starts_with("warning: the interface `Remote` is skipped"), "{messages:?}");
    for part in [
        "struct S { Remote r; };",
        "struct S { sequence<Remote> r; };",
        "typedef Remote R;",
        "union U switch (long) { case 1: Remote r; };",
        "struct S { @optional Remote r; };",
    ] {
        let (compiles, messages) = found(&format!("interface Remote {{ void f(); }}; {part}"));
        assert!(!compiles && messages.len() == 2, "{part}: {messages:?}");
        let error = "error: `Remote` is an interface, which no sample can carry; use a struct";
        assert_eq!(messages[1], error, "{part}");
    }
    let (_, messages) = found("interface Remote { void f(); }; struct S : Remote { long a; };");
    assert_eq!(messages[1], "error: expected a struct, found the interface `Remote`");
}

/// The digits of the largest `float` are above it, and mean it.
#[test]
fn float_constant_is_the_nearest_float() {
    let text = "const float A = 3.4028235e38; const float B = -3.4028235e38; struct S {
        @default(3.4028235e38) @max(3.4028235e38) float a; };";
    let rust = generate(&parse("a.idl", text).unwrap());
    for wanted in ["A: f32 = 3.4028235e38", "B: f32 = -3.4028235e38", "default = 3.4028235e38"] {
        assert!(rust.contains(wanted), "{wanted}: {rust}");
    }
    for beyond in ["3.4028236e38", "-3.5e38", "1e39"] {
        let errors = parse("a.idl", &format!("const float A = {beyond};")).unwrap_err();
        assert!(errors.to_string().contains("does not fit float"), "{errors}");
    }
}

/// Constructs that only ROS 2 generates: a module of constants beside the message, documentation
/// text in pieces, and defaults of lists as strings.
#[test]
fn compiler_reads_idl_generated_by_ros() {
    let text = r#"
        module pkg { module msg {
            module State_Constants {
                @verbatim (language="comment", text="The only" " one." "\n" "Really.")
                const octet IDLE = 0;
                const string NAME = "state";
            };
            typedef double double__3[3];
            @verbatim (language="comment", text="How it" "\n" "is.")
            struct State {
                @verbatim (language="comment", text="In metres.")
                @unit (value="m")
                double__3 position;
                @default (value="(1.5, 2.0, -3)")
                double__3 home;
                @default (value="('a', 'b \"c\"')")
                sequence<string> names;
                @default (value="()")
                sequence<uint8, 3> none;
                @default (value=TRUE)
                boolean on;
                string<4> label;
                uint8 structure_needs_at_least_one_member;
            };
        }; };"#;
    let rust = generate(&parse("a.idl", text).unwrap());
    for wanted in [
        "pub mod state_constants",
        "/// The only one.",
        "/// Really.",
        "pub const IDLE: u8 = 0;",
        "pub const NAME: &str = \"state\";",
        "/// How it",
        "/// In metres.",
        "unit = \"m\"",
        "default = vec![1.5, 2.0, -3.0].try_into()",
        "default = vec![String::from(\"a\"), String::from(\"b \\\"c\\\"\")]",
        "bound = 3, default = Vec::new()",
        "default = true",
        "bound = 4",
    ] {
        assert!(rust.contains(wanted), "{wanted}: {rust}");
    }
}

#[test]
fn verbatim_rust_is_placed_as_annotated() {
    let text = "@verbatim(language = \"rust\", placement = BEGIN_FILE, text = \"// first\") module M {
        @verbatim(language = \"rust\", placement = \"END_FILE\", text = \"// last\") const long A = 1;
        @verbatim(language = \"rust\", text = \"// before\")
        @verbatim(language = \"rust\", placement = BEGIN_DECLARATION, text = \"// in\")
        struct S { long a; }; };";
    let rust = generate(&parse("a.idl", text).unwrap());
    let at = |what: &str| rust.find(what).unwrap();
    let places =
        ["// first", "pub mod m", "// before", "pub struct S", "// in", "pub a", "// last"];
    assert!(places.map(at).is_sorted(), "{rust}");
}
