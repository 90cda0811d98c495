//! Register of the members that keep logs, and of the views that were logged before this life
//! of the group.
//!
//! Owns: the rule that names the logs that must be back before anything logged begins (I-151,
//! I-152). Never does: read or write a log; [`view_log`](super::view_log) starts that work.
//!
//! ```text
//!   last view of the previous life   {A, B, C}       awaited until each log is back (I-90)
//!   views of this life, as A logs    {A, N} + B, C   names the awaited logs as well: nobody can
//!                                                    begin later from less than that
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::bytes::{ByteReader, Wire, in_order};
use crate::fault::{Fault, planted};
use crate::ids::NodeId;
use crate::log::restart::{self, GroupScope};
use crate::log::views::{LoggedMember, LoggedView};
use crate::log::{LogId, StreamKey, are_apart, era_after};
use crate::membership::View;

/// Registration of a member that keeps logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRegistration {
    /// Identity of the member's log.
    pub log: LogId,
    /// Last view that is logged in the member's log, or in a log in reach.
    pub last: Option<LoggedView>,
}

in_order! { LogRegistration { log, last } }

/// Message of a member that keeps logs to all members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LogRegisterMessage {
    /// The member has logs of these streams from before. Sent before the member registers.
    HasStreams(Vec<StreamKey>),
    /// The member keeps logs.
    Registers(Box<LogRegistration>),
    /// The first registrations, up to this number, are durable in the member's log as far as the
    /// registered nodes were members at that time.
    RegistrationsDurable(u64),
}

impl Wire for LogRegisterMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            LogRegisterMessage::HasStreams(streams) => {
                out.push(0);
                streams.encode(out);
            }
            LogRegisterMessage::Registers(registration) => {
                out.push(1);
                registration.encode(out);
            }
            LogRegisterMessage::RegistrationsDurable(changes) => (2_u8, *changes).encode(out),
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => LogRegisterMessage::HasStreams(Wire::decode(from)?),
            1 => LogRegisterMessage::Registers(Box::new(Wire::decode(from)?)),
            2 => LogRegisterMessage::RegistrationsDurable(Wire::decode(from)?),
            _ => return None,
        })
    }
}

/// Logs that a logged subgroup awaits, independently of the claims that its members make.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AwaitedLogs {
    /// Logs of the last view that are not back.
    views: BTreeSet<LogId>,
    /// Members that have a log of the stream from before.
    members: BTreeMap<NodeId, LogId>,
    /// Members, each with the logs that may not know the member's log.
    unknown: BTreeMap<NodeId, BTreeSet<LogId>>,
}

in_order! { AwaitedLogs { views, members, unknown } }

impl AwaitedLogs {
    /// Returns the awaited logs, given the claiming members. `heard`: whether the claim of a member
    /// with an older log was heard.
    pub fn logs(
        &self,
        claimants: impl Iterator<Item = NodeId>,
        heard: impl Fn(NodeId) -> bool,
    ) -> BTreeSet<LogId> {
        let members = self.members.iter().filter(|(node, _)| !heard(**node));
        let mut logs: BTreeSet<LogId> = members.map(|(_, log)| *log).collect();
        logs.extend(&self.views);
        let unaware: Option<Vec<_>> = claimants.map(|node| self.unknown.get(&node)).collect();
        // Every log that comes back without the others waits for a log that is known.
        let unaware = unaware.filter(|_| !planted(Fault::NewcomerCounts));
        logs.extend(unaware.into_iter().flatten().flatten());
        logs
    }
}

/// A member that keeps logs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RegisteredLog {
    log: LogId,
    /// Number of registrations up to and including this one.
    since: u64,
    /// Older logs that may not know this log.
    unaware: BTreeSet<LogId>,
}

in_order! { RegisteredLog { log, since, unaware } }

/// Register of the members that keep logs. See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRegister {
    /// Whether all members are on one host.
    is_local: bool,
    /// Current era of this life of the group in logs, and all eras of this life. 0 and empty while
    /// no member has kept logs.
    era: u64,
    eras: Vec<u64>,
    /// Last view of another life that a registered member knows.
    last: Option<LoggedView>,
    /// Logs of all members that have registered in this life.
    back: BTreeSet<LogId>,
    registered: BTreeMap<NodeId, RegisteredLog>,
    /// Streams of which members have logs from before.
    streams: BTreeMap<NodeId, BTreeSet<StreamKey>>,
    /// Number of registrations.
    changes: u64,
}

in_order! { LogRegister { is_local, era, eras, last, back, registered, streams, changes } }

impl LogRegister {
    /// Creates a register without registrations.
    pub(super) fn new(is_local: bool) -> LogRegister {
        LogRegister {
            is_local,
            era: 0,
            eras: Vec::new(),
            last: None,
            back: BTreeSet::new(),
            registered: BTreeMap::new(),
            streams: BTreeMap::new(),
            changes: 0,
        }
    }

    /// Applies a message of a member.
    pub(super) fn apply(&mut self, from: NodeId, entry: LogRegisterMessage) {
        match entry {
            LogRegisterMessage::HasStreams(streams) => {
                self.streams.entry(from).or_default().extend(streams)
            }
            LogRegisterMessage::Registers(registration) => self.register(from, *registration),
            LogRegisterMessage::RegistrationsDurable(changes) => self.notes(from, changes),
        }
    }

    fn register(&mut self, node: NodeId, LogRegistration { log, last }: LogRegistration) {
        let before = last.as_ref().map_or(0, |last| last.era);
        // Views of this life are known better here than from the member's log.
        if let Some(last) = last.filter(|last| !self.eras.contains(&last.era)) {
            self.learn(last);
        }
        if self.era == 0 || before >= self.era && !self.eras.contains(&before) {
            self.era = era_after(before.max(self.era), node);
            self.eras.push(self.era);
        }
        self.changes += 1;
        self.back.insert(log);
        // Logs that do not know a registered member may not know this one either: they would come
        // back without both.
        let others = self.registered.iter().filter(|(other, _)| **other != node);
        let before =
            others.flat_map(|(_, other)| other.unaware.iter().chain([&other.log]).copied());
        let unaware = before.filter(|other| *other != log).collect();
        self.registered.insert(node, RegisteredLog { log, since: self.changes, unaware });
    }

    /// Learns a view of another life, which may be the last one.
    fn learn(&mut self, view: LoggedView) {
        match &mut self.last {
            Some(last) if are_apart(last.era, view.era) || last.place() == view.place() => {
                // Neither view is the later one: the logs that either view names are awaited.
                last.await_more(view.names());
            }
            Some(last) if last.place() > view.place() => {}
            _ => self.last = Some(view),
        }
    }

    fn notes(&mut self, node: NodeId, changes: u64) {
        let Some(sender) = self.registered.get(&node) else { return };
        let (log, is_known) = (sender.log, sender.unaware.is_empty());
        for (_, other) in self.registered.iter_mut().filter(|(_, it)| it.since <= changes) {
            other.unaware.remove(&log);
            if is_known {
                // A log that comes back without knowing the registered log waits for the log that
                // does know it.
                other.unaware.clear();
            }
        }
    }

    /// Removes a node that is no longer a member.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.streams.remove(&node);
        self.registered.remove(&node);
    }

    /// Logs of the last view of the previous life that are not back.
    pub fn awaited(&self) -> BTreeSet<LogId> {
        let reach = if self.is_local { GroupScope::Local } else { GroupScope::Networked };
        let last = self.last.as_ref().filter(|_| !planted(Fault::LastViewForgotten));
        last.map_or(BTreeSet::new(), |last| {
            restart::missing(reach, last, |log| self.back.contains(&log))
        })
    }

    /// Logs that the subgroup logged as this stream awaits.
    pub fn awaited_of(&self, stream: StreamKey) -> AwaitedLogs {
        let has = |(node, _): &(&NodeId, &RegisteredLog)| {
            self.streams.get(node).is_some_and(|streams| streams.contains(&stream))
        };
        let members = self.registered.iter().filter(has).map(|(node, it)| (*node, it.log));
        let unknown = self.registered.iter().filter(|(_, it)| !it.unaware.is_empty());
        AwaitedLogs {
            views: self.awaited(),
            members: members.collect(),
            unknown: unknown.map(|(node, it)| (*node, it.unaware.clone())).collect(),
        }
    }

    /// Number of registrations.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a member still waits until its registration is durable in the log of this node.
    pub(super) fn lacks_durability_at(&self, node: NodeId) -> bool {
        let log = self.registered.get(&node).map(|it| it.log);
        log.is_some_and(|log| self.registered.values().any(|it| it.unaware.contains(&log)))
    }

    /// Returns this view in the form that a registered member logs. `required_logs`: logs with
    /// durable data that no present member's log has completely.
    pub(super) fn record(
        &self,
        view: &View,
        of: NodeId,
        required_logs: &BTreeSet<LogId>,
    ) -> Option<LoggedView> {
        let own = self.registered.get(&of)?;
        let members = view.members.iter().map(|member| LoggedMember {
            node: member.node,
            log: self.registered.get(&member.node).map(|it| it.log),
            votes: member.votes,
            weight: member.weight,
        });
        let mut awaits = self.awaited();
        awaits.extend(&own.unaware);
        if !planted(Fault::NobodyLeans) {
            // The logs of members are named in any case.
            let is_here = |log: &LogId| self.registered.values().any(|it| it.log == *log);
            awaits.extend(required_logs.iter().filter(|log| !is_here(log)));
        }
        let members: Vec<LoggedMember> = members.collect();
        Some(LoggedView {
            era: self.era,
            number: view.number,
            members,
            awaits: awaits.into_iter().collect(),
        })
    }

    /// Era of this life of the group in logs; 0 while no member has kept logs.
    pub fn era(&self) -> u64 {
        self.era
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn register(log_register: &mut LogRegister, node: NodeId, log: u128, last: Option<LoggedView>) {
        log_register.apply(
            node,
            LogRegisterMessage::Registers(Box::new(LogRegistration { log: LogId(log), last })),
        );
    }

    fn view(era: u64, number: u64, logs: &[u128]) -> LoggedView {
        let member = |log: &u128| LoggedMember {
            node: NodeId(100 + log),
            log: Some(LogId(*log)),
            votes: 1,
            weight: 1,
        };
        LoggedView { era, number, members: logs.iter().map(member).collect(), awaits: Vec::new() }
    }

    fn awaited(log_register: &LogRegister) -> Vec<u128> {
        log_register.awaited().into_iter().map(|log| log.0).collect()
    }

    #[test]
    fn latest_view_in_any_log_names_awaited_logs() {
        let mut log_register = LogRegister::new(true);
        register(&mut log_register, A, 1, Some(view(5 << 32, 3, &[1, 2, 3])));
        assert_eq!((awaited(&log_register), log_register.era() >> 32), ([2, 3].into(), 6));
        // One view of an earlier life, and one of a later life.
        register(&mut log_register, B, 2, Some(view(4 << 32, 9, &[2, 7])));
        assert_eq!(awaited(&log_register), [3]);
        let (before, now) = (log_register.era(), view(8 << 32, 1, &[4, 5]));
        register(&mut log_register, NodeId(4), 4, Some(now));
        assert_eq!((awaited(&log_register), log_register.era() > before), ([5].into(), true));
        // Views of this life are known better here.
        let of_this = view(log_register.era(), 1, &[1, 2, 4, 9]);
        register(&mut log_register, NodeId(5), 6, Some(of_this));
        assert_eq!(awaited(&log_register), [5]);
        assert_eq!(LogRegister::from_bytes(&log_register.to_bytes()), Some(log_register));
    }

    #[test]
    fn two_unrelated_lives_both_name_awaited_logs() {
        let mut log_register = LogRegister::new(true);
        register(&mut log_register, A, 1, Some(view(5 << 32 | 1, 3, &[1, 2])));
        register(&mut log_register, B, 3, Some(view(5 << 32 | 2, 1, &[3, 4])));
        assert_eq!(awaited(&log_register), [2, 4]);
    }

    #[test]
    fn newcomer_log_counts_if_noted_by_all_logs_or_by_a_counted_log() {
        let mut log_register = LogRegister::new(true);
        register(&mut log_register, A, 1, None);
        register(&mut log_register, B, 2, None);
        register(&mut log_register, NodeId(3), 3, None);
        let awaits = |log_register: &LogRegister, claimants: &[NodeId]| {
            let awaited = log_register.awaited_of(StreamKey(9));
            awaited.logs(claimants.iter().copied(), |_| true).len()
        };
        assert_eq!([A, B, NodeId(3)].map(|node| awaits(&log_register, &[node])), [0, 1, 2]);
        assert_eq!(awaits(&log_register, &[A, B]), 0, "one that counts is enough");
        // The second log is not complete itself, and the first member is gone.
        log_register.apply(B, LogRegisterMessage::RegistrationsDurable(3));
        assert_eq!(awaits(&log_register, &[NodeId(3)]), 1);
        log_register.apply(A, LogRegisterMessage::RegistrationsDurable(2));
        assert_eq!([B, NodeId(3)].map(|node| awaits(&log_register, &[node])), [0, 1]);
        log_register.forget(A);
        log_register.apply(B, LogRegisterMessage::RegistrationsDurable(3));
        assert_eq!(awaits(&log_register, &[NodeId(3)]), 0);
    }

    #[test]
    fn departed_log_that_noted_no_present_log_is_awaited() {
        let mut log_register = LogRegister::new(true);
        register(&mut log_register, A, 1, None);
        register(&mut log_register, B, 2, None);
        log_register.forget(A);
        register(&mut log_register, NodeId(3), 3, None);
        log_register.apply(B, LogRegisterMessage::RegistrationsDurable(3));
        let awaited = |log_register: &LogRegister| {
            let awaited = log_register.awaited_of(StreamKey(9));
            awaited.logs([B, NodeId(3)].into_iter(), |_| true)
        };
        assert_eq!(awaited(&log_register), [LogId(1)].into());
        // The first log is back, and logs the registrations.
        register(&mut log_register, NodeId(4), 1, None);
        log_register.apply(NodeId(4), LogRegisterMessage::RegistrationsDurable(3));
        assert_eq!(awaited(&log_register), BTreeSet::new());
    }
}
