//! Errors that the models and the simulator can plant, to show that they would find them. Built with `--cfg model`
//! or `--cfg loom` only; in every other build none of them is there, and none can be planted.
//!
//! Owns: their names. Never does: anything in a product.
#![cfg_attr(
    not(any(model, loom)),
    allow(dead_code, unreachable_pub, reason = "only the models plant them")
)]

/// An error in the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// A member accepts what anybody has accepted, not only what its leader itself proposes.
    AcceptFromAnybody = 1,
    /// A member accepts also from those whom it suspects, and ballots below what it has accepted.
    AcceptLower,
    /// A leader does not wait until all suspect those before it.
    Hasty,
    /// A leader makes a decision of its own though somebody has accepted another one.
    AdoptNothing,
    /// A primary partition may be one vote short of a half.
    MajorityOffByOne,
    /// In a networked group those who are dead for certain do not count.
    DeadDoNotCount,
    /// Who is admitted has a vote at once.
    JoinersVote,
    /// A local decision is final without the kernel.
    WithoutKernel,
    /// The cut comes from the leader's report alone.
    CutOfOne,
    /// A reader that has not begun the newest epoch holds nothing of it back.
    LateUncounted,
    /// What is final is not told on.
    Silent,
    /// Only those tell a view on who come to it from the one before.
    NewcomersSilent,
    /// A leader goes on although somebody suspects it.
    SuspectedLeads,
    /// Who lacks too many others is out at once.
    Rash,
    /// Who is out goes on.
    OutGoesOn,
    /// Whoever comes to a cut does not deliver what it still has below it.
    TrimIgnored,
    /// Streams are stopped when the decision comes, and not before the report.
    WedgedLate,
    /// Newcomers are told a beginning one entry too far.
    NewcomerOffByOne,
    /// The state is told as it was before the last messages of the view.
    SnapshotEarly,
    /// Who has ended an epoch reports what it has received beyond its end (I-56).
    BeyondTheEnd,
    /// Who has not begun an epoch takes its start for its end (I-58).
    NotBegunKnows,
    /// What a survivor had committed and not sent is forgotten with the epoch.
    UnsentForgotten,
    /// What a line says of another epoch is believed.
    OldLines,
    /// What was delivered is said to be one entry more than it is.
    TakenTooFar,
    /// What dies after a newcomer began is not given to it (I-101).
    HistoryCutLate,
    /// Who gets what was kept forgets what was delivered to it meanwhile (I-102).
    HistoryWithoutLive,
    /// What was kept is given up to one record before the place where the newcomer began (I-102).
    HistoryTooShort,
    /// What was written to a log is said to be durable before it is synced (I-80).
    DurableBeforeSync,
    /// After a sync that failed the next one is believed (I-82).
    SyncRetried,
    /// A bad record is passed over (I-84).
    BadRecordSkipped,
    /// A file counts as renamed before the folder is synced (I-86).
    RenameNotSynced,
    /// What another process has written and nobody vouches for counts as durable (I-85).
    UnprovenBelieved,
    /// What a log has already is appended to it once more (I-110).
    AppendedTwice,
    /// Who begins an object from a log applies once more what it has kept (I-110).
    RecallUncut,
    /// What was delivered in a view is said to be durable before that view is (I-150).
    DurableBeforeView,
    /// Whoever comes back knows nothing of the last view that was logged (I-151).
    LastViewForgotten,
    /// Whoever has just come counts, although those before it may come back without it (I-152).
    NewcomerCounts,
    /// Nobody waits for the logs that alone have what was durable (I-156).
    NobodyLeans,
    /// Who gets what was kept has it before it has come as far as the one who gave it (I-230).
    HistoryUnripe,
    /// A chunk is used again, and nothing says so to who is not waited for (I-220).
    OpeningUntold,
    /// Who is not waited for does not look whether what it has copied was written anew meanwhile (I-220).
    NoSecondLook,
    /// What is written into a chunk that was opened anew may be seen before that it was (I-220).
    OpeningUnfenced,
    /// Who is not waited for takes what has the stamp of its entry for that entry, however late it is (I-221).
    StampBelieved,
    /// A member that was a reader tells nobody where its first stream goes on after a cut (I-52).
    ReaderTellsNoStart,
    /// The memory of a stream is forgotten with the next one, although epochs of it are still to come (I-78).
    MemoryReplaced,
    /// A sender keeps nothing for those who have left its subgroup (I-260).
    LeaverForgotten,
    /// A version counts as durable everywhere as soon as one storer has it in its log for good (I-105).
    DurableAnywhere,
    /// A beginning waits for none of the logs that marks name (I-106).
    NamedNotAwaited,
    /// Lines are used again without waiting for those that have left the epoch before (I-33).
    LinesReused,
    /// A member that has finished an epoch reports where that began, and its end can be decided once more (I-337).
    EndsDecidedAnew,
}

#[cfg(any(model, loom))]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// From now on this error is there, in all of the process; `None`: no error.
#[cfg(any(model, loom))]
pub fn plant(fault: Option<Fault>) {
    PLANTED.store(fault.map_or(0, |fault| fault as u8), core::sync::atomic::Ordering::Relaxed);
}

#[cfg(any(model, loom))]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == fault as u8
}

#[cfg(not(any(model, loom)))]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}
