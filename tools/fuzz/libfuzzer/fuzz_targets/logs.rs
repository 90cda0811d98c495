//! The target `logs` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| squall_fuzz::fuzz("logs", bytes));
