//! Waiting of the bare processes: by polling, or asleep in a futex.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;

use clap::ValueEnum;
use rustix::thread::futex;
use rustix::time::Timespec;

use super::shared::Mapping;
use crate::perf::control::HarnessControl;

/// Number of polls before the processor is yielded, or the process sleeps.
const LOOKS: u32 = 200;
/// Number of polls of a process that sleeps as soon as possible.
const FEW_LOOKS: u32 = 1;
/// Maximum sleep, so that a process notices that it must end.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Way of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WaitMethod {
    /// Poll.
    Poll,
    /// Sleep in a futex after some polls.
    Futex,
    /// Sleep in a futex at once.
    Sleep,
}

/// Lines of a futex: its word, and the number of sleepers on it.
#[derive(Clone, Copy)]
pub(crate) struct Futex {
    pub(crate) word: usize,
    pub(crate) sleepers: usize,
}

impl WaitMethod {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WaitMethod::Poll => "poll",
            WaitMethod::Futex => "futex",
            WaitMethod::Sleep => "sleep",
        }
    }

    /// Waits until `ready`, or until the process must end.
    #[inline]
    pub(crate) fn until(
        self,
        mapping: &Mapping,
        at: Futex,
        control: &HarnessControl,
        mut ready: impl FnMut() -> bool,
    ) {
        let looks = if self == WaitMethod::Sleep { FEW_LOOKS } else { LOOKS };
        loop {
            for _ in 0..looks {
                if ready() {
                    return;
                }
                std::hint::spin_loop();
            }
            if control.ended() {
                return;
            }
            match self {
                WaitMethod::Poll => std::thread::yield_now(),
                WaitMethod::Futex | WaitMethod::Sleep => {
                    let (word, sleepers) = (mapping.futex(at.word), mapping.futex(at.sleepers));
                    let seen = word.load(SeqCst);
                    sleepers.fetch_add(1, SeqCst);
                    // Pairs with the fence in `wake`: one of the two sees the other.
                    fence(SeqCst);
                    let asleep = !ready();
                    if asleep {
                        // Woken, too late for the word, or the sleep timed out: the condition is
                        // checked again in each case.
                        let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&NAP));
                    }
                    sleepers.fetch_sub(1, SeqCst);
                    if !asleep {
                        return;
                    }
                }
            }
        }
    }

    /// Wakes all sleepers, after all earlier stores.
    #[inline]
    pub(crate) fn wake(self, mapping: &Mapping, at: Futex) {
        if self == WaitMethod::Poll {
            return;
        }
        fence(SeqCst);
        if mapping.futex(at.sleepers).load(Relaxed) > 0 {
            let word = mapping.futex(at.word);
            word.fetch_add(1, SeqCst);
            // The call can only fail for a bad address.
            let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
        }
    }
}
