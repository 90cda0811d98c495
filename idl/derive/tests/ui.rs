//! Wrong uses of the derive macro are compile errors that say what to do.

#[test]
fn derive_macro_accepts_valid_and_explains_invalid_types() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass_*.rs");
    cases.compile_fail("tests/ui/fail_*.rs");
}
