//! State of a stream's log that its users can see.
//!
//! Owns: the durable version, the state of the log, and its error. Never does: wait.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use derecho_core::log::{LogError, StreamKey, Version};
use derecho_core::storage::log_tasks::TopicLogRetention;

use super::batch::Batch;

/// Behaviour of a stream when the disk is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullDiskPolicy {
    /// Wait for room, together with all logs of the folder: pushes are refused when the queue
    /// is full.
    Wait,
    /// Detach the log: it records nothing more.
    Detach,
}

/// State of a stream's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StreamState {
    /// The log accepts pushes.
    Open = 0,
    /// The disk is full, and the log waits for room.
    Full = 1,
    /// The disk was full, and the log accepts nothing more.
    Detached = 2,
    /// The log has failed, and nothing more becomes durable (I-82).
    Failed = 3,
    /// The log was closed.
    Closed = 4,
    /// The log cannot be opened, and is not put aside, because it may have what no other log
    /// has (I-98).
    Damaged = 5,
}

/// Visible state of a stream's log.
pub(super) struct SharedLogState {
    pub(super) key: StreamKey,
    pub(super) on_full: FullDiskPolicy,
    /// Retention of the log; `None` keeps everything.
    pub(super) retention: Option<TopicLogRetention>,
    durable: AtomicU64,
    /// Number of marks appended from batches, and how many of them are durable.
    marked: AtomicU64,
    noted: AtomicU64,
    state: AtomicU8,
    error: Mutex<Option<LogError>>,
    /// Last batch of a user that has left the log.
    left: Mutex<Option<Batch>>,
    /// Number of batches pushed, and number of batches that the log thread has taken.
    pushed: AtomicU64,
    taken: AtomicU64,
    pub(super) waker: Box<dyn Fn() + Send + Sync>,
}

impl SharedLogState {
    pub(super) fn new(
        key: StreamKey,
        on_full: FullDiskPolicy,
        keep: Option<TopicLogRetention>,
        waker: impl Fn() + Send + Sync + 'static,
    ) -> SharedLogState {
        SharedLogState {
            key,
            on_full,
            retention: keep,
            durable: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            noted: AtomicU64::new(0),
            state: AtomicU8::new(StreamState::Open as u8),
            error: Mutex::default(),
            left: Mutex::default(),
            pushed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            waker: Box::new(waker),
        }
    }

    pub(super) fn durable(&self) -> Version {
        Version(self.durable.load(Ordering::Acquire))
    }

    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }

    /// Counts an appended mark.
    pub(super) fn mark(&self) {
        self.marked.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a batch that goes into the queue; `take_back` reverts this if there is no room.
    pub(super) fn push(&self) {
        self.pushed.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn take_back(&self) {
        self.pushed.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts a batch taken from the queue.
    pub(super) fn take(&self) {
        self.taken.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the last batch, if the log has no user any more and the queue has no earlier batch.
    pub(super) fn rest(&self) -> Option<Batch> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        // Compared only after the user has left: then no further push follows.
        left.take_if(|_| self.taken.load(Ordering::Acquire) >= self.pushed.load(Ordering::Acquire))
    }

    /// Publishes that everything appended is durable.
    pub(super) fn publish_all(&self, version: Version) {
        let marked = self.marked.load(Ordering::Relaxed);
        if self.noted.swap(marked, Ordering::Release) != marked {
            (self.waker)();
        }
        self.publish(version);
    }

    pub(super) fn error(&self) -> Option<LogError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn state(&self) -> StreamState {
        let states = [
            StreamState::Open,
            StreamState::Full,
            StreamState::Detached,
            StreamState::Failed,
            StreamState::Damaged,
        ];
        let state = self.state.load(Ordering::Acquire);
        states.into_iter().find(|known| *known as u8 == state).unwrap_or(StreamState::Closed)
    }

    /// Whether the log accepts pushes.
    pub(super) fn takes(&self) -> bool {
        matches!(self.state(), StreamState::Open | StreamState::Full | StreamState::Damaged)
    }

    /// Records that the user leaves the log, with its last batch.
    pub(super) fn leave(&self, rest: Batch) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    /// Shows that there is room again, if there was none.
    pub(super) fn show_room(&self) {
        if self.state() == StreamState::Full {
            tracing::warn!("the log of stream {} has room again, and continues", self.key);
            self.show(StreamState::Open, None);
        }
    }

    /// Shows that the log waits for room.
    pub(super) fn show_full(&self, error: LogError) {
        if self.state() != StreamState::Full {
            tracing::warn!("the log of stream {} waits for room: {error}", self.key);
            self.show(StreamState::Full, Some(error));
        }
    }

    /// Shows that the log is damaged, and is not put aside.
    pub(super) fn show_damaged(&self, error: LogError) {
        if self.state() != StreamState::Damaged {
            tracing::error!(
                "the log of stream {} is damaged, and is awaited because it may have records that \
                 no other log has: {error}",
                self.key
            );
            self.show(StreamState::Damaged, Some(error));
        }
    }

    /// Shows that the log is open, if it was damaged before.
    pub(super) fn show_open(&self) {
        if self.state() == StreamState::Damaged {
            self.show(StreamState::Open, None);
        }
    }

    /// Shows a state, and wakes the log's user.
    pub(super) fn show(&self, state: StreamState, error: Option<LogError>) {
        if let Some(error) = error {
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        self.state.store(state as u8, Ordering::Release);
        (self.waker)();
    }

    pub(super) fn show_failed(&self, error: LogError) {
        self.show(StreamState::Failed, Some(error));
    }

    pub(super) fn publish(&self, version: Version) {
        if self.durable.swap(version.0, Ordering::Release) != version.0 {
            (self.waker)();
        }
    }
}
