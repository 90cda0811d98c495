//! Errors that the model can plant, to show that it would find them. Built with `--cfg model` only; in
//! every other build none of them is there, and none can be planted.
//!
//! Owns: their names. Never does: anything in a product.
#![cfg_attr(not(model), allow(dead_code, unreachable_pub, reason = "only the model plants them"))]

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
}

#[cfg(model)]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// From now on this error is there, in all of the process; `None`: no error.
#[cfg(model)]
pub fn plant(fault: Option<Fault>) {
    PLANTED.store(fault.map_or(0, |fault| fault as u8), core::sync::atomic::Ordering::Relaxed);
}

#[cfg(model)]
pub(super) fn planted(fault: Fault) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == fault as u8
}

#[cfg(not(model))]
pub(super) const fn planted(_: Fault) -> bool {
    false
}
