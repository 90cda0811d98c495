//! Benchmarks of the hot paths, each alone, in one process: `cargo bench -p squall-benches`.
//!
//! | bench | what it times |
//! | --- | --- |
//! | `multicast` | one record through a node: claim, commit, turn, take, release |
//! | `sst` | a predicate over the rows of a shared state table |
//! | `park` | what parking costs a writer and a sleeper that never really sleeps |
//! | `clock` | a look at the clock, beside the system's |
//! | `cdr` | structs and long rows to CDR and back, beside memcpy and the crates `cdr` and `cdr-encoding` |
//! | `dds` | a sample from write to take, through the public API |
//!
//! What happens between processes is measured by `squall perf`, beside the bare machine.
