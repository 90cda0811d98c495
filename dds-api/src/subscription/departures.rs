//! Ends of streams, and notices about writers, in the order of a topic.
//!
//! Owns: what has ended before the record that was taken last, in order. Never does: mark a writer
//! as lost; the cache does that before it takes in later records (I-145).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use derecho_core::group::report::StreamId;

use super::authors::SampleAuthors;
use crate::infrastructure::InstanceHandle;
use crate::mapping::membership_state::Life;
use crate::mapping::record::WriterNotice;

/// See the [module](self).
#[derive(Default)]
pub(super) struct WriterDepartures {
    is_any: AtomicBool,
    departed: Mutex<Vec<Departure>>,
}

/// End of streams, or of a writer, that a reader has been told of.
pub(super) enum Departure {
    /// These streams.
    Streams(Vec<StreamId>),
    /// All streams except these, and those that joined later.
    OthersThan(Vec<StreamId>),
    /// A notice about a writer, with the time at which it was written.
    Notice(InstanceHandle, WriterNotice, u64),
    /// All streams: this life of the participant has begun.
    Life(Life),
}

impl WriterDepartures {
    /// Notes that these streams bring nothing from here on.
    #[cold]
    pub(super) fn note(&self, streams: impl IntoIterator<Item = StreamId>) {
        self.change(|departed| match departed.last_mut() {
            Some(Departure::Streams(ended)) => ended.extend(streams),
            _ => {
                let ended: Vec<StreamId> = streams.into_iter().collect();
                departed.extend((!ended.is_empty()).then_some(Departure::Streams(ended)));
            }
        });
    }

    /// Notes that only these streams bring anything from here on.
    #[cold]
    pub(super) fn note_others_than(&self, streams: Vec<StreamId>) {
        self.change(|departed| {
            // None of these streams had ended before.
            let is_stream =
                |it: &Departure| matches!(it, Departure::Streams(_) | Departure::OthersThan(_));
            while departed.pop_if(|it| is_stream(it)).is_some() {}
            departed.push(Departure::OthersThan(streams));
        });
    }

    /// Notes that a life of the participant has begun: what comes from here on is of that life.
    #[cold]
    pub(super) fn note_life(&self, life: Life) {
        self.change(|departed| departed.push(Departure::Life(life)));
    }

    /// Notes a notice about a writer, which was written at this time.
    #[cold]
    pub(super) fn note_notice(&self, writer: InstanceHandle, notice: WriterNotice, time: u64) {
        self.change(|departed| departed.push(Departure::Notice(writer, notice, time)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Departure>)) {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut departed);
        self.is_any.store(!departed.is_empty(), Ordering::Release);
    }

    /// Whether a writer of samples that were given out has ended. If none has, what has ended is
    /// forgotten.
    #[cold]
    pub(super) fn concern(&self, authors: &SampleAuthors) -> bool {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        let concerned = departed.iter().any(|departure| match departure {
            Departure::Streams(ended) => authors.any_stream(|stream| ended.contains(&stream)),
            Departure::OthersThan(left) => authors.any_stream(|stream| !left.contains(&stream)),
            Departure::Notice(writer, ..) => authors.has(*writer),
            // Only a cache continues from one life to the next.
            Departure::Life(_) => false,
        });
        if !concerned {
            departed.clear();
            self.is_any.store(false, Ordering::Release);
        }
        concerned
    }

    /// Whether anything has ended since the last [`take`](Self::take).
    #[inline(always)]
    pub(super) fn are_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Returns the ends since the last call, in order.
    #[cold]
    pub(super) fn take(&self) -> Vec<Departure> {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut departed)
    }
}
