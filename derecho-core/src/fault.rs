//! Faults that models and the simulator can plant, to show that they would find them. They exist
//! only with `--cfg model` or `--cfg loom`; in every other build no fault can be planted.
//!
//! Owns: the names of the faults. Never does: anything in a product.
#![cfg_attr(
    not(any(model, loom)),
    allow(dead_code, unreachable_pub, reason = "only the models plant them")
)]

/// A violation of one rule of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// A member accepts what any member has accepted, not only what its own leader proposes.
    AcceptFromAnybody = 1,
    /// A member also accepts proposals from members that it suspects, and ballots below one that it
    /// has accepted.
    AcceptLower,
    /// A leader does not wait until all members suspect the members that rank before it.
    Hasty,
    /// A leader makes a decision of its own although a member has accepted another one.
    AdoptNothing,
    /// A primary partition may be one vote short of a half.
    MajorityOffByOne,
    /// In a networked group, members that are certainly dead do not count.
    DeadDoNotCount,
    /// A newly admitted member has a vote at once.
    JoinersVote,
    /// A local decision is final without the kernel's arbitration.
    WithoutKernel,
    /// The cut is taken from the leader's report alone.
    CutOfOne,
    /// A reader that has not begun the newest epoch does not hold the cut of that epoch back.
    LateUncounted,
    /// A member does not pass a final decision on.
    Silent,
    /// Only members that were in the previous view announce the next one.
    NewcomersSilent,
    /// A leader goes on although a member suspects it.
    SuspectedLeads,
    /// A member that suspects too many others leaves the group at once.
    Rash,
    /// A member that is out of the group goes on.
    OutGoesOn,
    /// A member does not deliver the rest of what it has received below the cut.
    TrimIgnored,
    /// Streams are wedged when the decision comes, instead of before the report.
    WedgedLate,
    /// Late joiners are given a start that is one entry too far.
    NewcomerOffByOne,
    /// State transfer sends the state as it was before the last messages of the view.
    SnapshotEarly,
    /// A member that has ended an epoch reports what it has received beyond the end (I-56).
    BeyondTheEnd,
    /// A member that has not begun an epoch takes the start of the epoch for its end (I-58).
    NotBegunKnows,
    /// Messages that a survivor had committed but not sent are forgotten with the epoch.
    UnsentForgotten,
    /// A line is believed although its content is about another epoch.
    OldLines,
    /// A member reports one entry more than was delivered.
    TakenTooFar,
    /// Records that are replaced after a late joiner began are not transferred to it (I-101).
    HistoryCutLate,
    /// A late joiner that receives the kept records forgets what was delivered to it
    /// meanwhile (I-102).
    HistoryWithoutLive,
    /// State transfer of the kept records ends one record before the place where the late joiner
    /// began (I-102).
    HistoryTooShort,
    /// Records written to a log are reported as durable before they are synced (I-80).
    DurableBeforeSync,
    /// After a failed sync, the next sync is believed (I-82).
    SyncRetried,
    /// A bad record is skipped (I-84).
    BadRecordSkipped,
    /// A file counts as renamed before the folder is synced (I-86).
    RenameNotSynced,
    /// Bytes that another process has written and no record vouches for count as durable (I-85).
    UnprovenBelieved,
    /// Messages that a log already has are appended to it again (I-110).
    AppendedTwice,
    /// A member that restores an object from a log applies messages again that it had kept (I-110,
    /// I-339).
    RecallUncut,
    /// Messages delivered in a view are reported as durable before the view is (I-150).
    DurableBeforeView,
    /// A returning member knows nothing of the last logged view (I-151).
    LastViewForgotten,
    /// A new member counts, although the members before it may come back without it (I-152).
    NewcomerCounts,
    /// Nobody waits for the logs that alone contain what was durable (I-156).
    NobodyLeans,
    /// A late joiner completes its store before it has come as far as the member that gave it the
    /// records (I-230).
    HistoryUnripe,
    /// A chunk is reused without announcing this to untethered readers (I-220).
    OpeningUntold,
    /// An untethered reader does not check whether the memory it has copied was rewritten
    /// meanwhile (I-220).
    NoSecondLook,
    /// Writes into a reopened chunk may become visible before the reopening (I-220).
    OpeningUnfenced,
    /// An untethered reader takes any entry with a matching stamp for its entry, however late it
    /// is (I-221).
    StampBelieved,
    /// A member that was a reader does not report where its own first stream continues after a
    /// cut (I-52).
    ReaderTellsNoStart,
    /// The memory of a stream is forgotten with the next stream, although some of its epochs are
    /// still to come (I-78).
    MemoryReplaced,
    /// A sender keeps nothing for members that have left its subgroup (I-260).
    LeaverForgotten,
    /// A version counts as durable everywhere as soon as it is durable in one member's log (I-105).
    DurableAnywhere,
    /// A beginning does not wait for the logs that marks name (I-106).
    NamedNotAwaited,
    /// Lines are reused without waiting for the members that left in the previous epoch (I-33).
    LinesReused,
    /// A member that has finished an epoch reports the start of the epoch, so that its end can be
    /// decided again (I-337).
    EndsDecidedAnew,
}

#[cfg(any(model, loom))]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Plants a fault in the whole process; `None` removes it.
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
