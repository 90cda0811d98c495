//! The target `group` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| squall_fuzz::fuzz("group", bytes));
