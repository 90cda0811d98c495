//! What is not plain data is refused when it is compiled, in words that name the rule.
#![cfg(not(loom))]

#[test]
fn only_plain_data_is_a_column() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
