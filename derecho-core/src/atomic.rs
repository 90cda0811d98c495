//! Every atomic of this crate comes from here, so that loom can replace them all.
//!
//! Nothing outside this file names `core::sync::atomic`. Built with `--cfg loom` the very same
//! protocol code runs on loom's checked atomics; there is no second copy of it to drift away.
//! A compiler fence is the one thing that loom has none of: it is no step of any thread, and what
//! makes it enough ([`crate::park`]) happens in the kernel.

pub use core::sync::atomic::compiler_fence;

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence,
};
