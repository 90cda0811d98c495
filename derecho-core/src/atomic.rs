//! All atomics of this crate, in one place so that loom can replace them.
//!
//! No other file names `core::sync::atomic`. With `--cfg loom`, the same protocol code runs on
//! loom's checked atomics, so there is no second copy that could diverge. Loom has no compiler
//! fence. A compiler fence is no step of any thread, and the barrier that makes it sufficient
//! ([`crate::park`]) is issued by the kernel.

pub use core::sync::atomic::compiler_fence;

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence,
};
