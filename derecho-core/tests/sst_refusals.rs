//! Types that are not plain data are refused at compile time, with messages that name the rule.
#![cfg(not(loom))]

#[test]
fn only_plain_data_is_a_column() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
