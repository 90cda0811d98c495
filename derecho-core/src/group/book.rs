//! The roll of those who keep logs: what a group knows of them, and of the views that were logged before it.
//!
//! Owns: the rule which logs have to be back before anything that is logged begins (I-151, I-152). Never does: read or
//! write a log; [`chronicle`](super::chronicle) has it done.
//!
//! ```text
//!   last view of the life before     {A, B, C}          awaited until each is back (I-90)
//!   this life's, as A logs it        {A, N} + B, C      nobody can begin later from less than what is awaited now
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::bytes::{Reader, Wire, in_order};
use crate::fault::{Fault, planted};
use crate::ids::NodeId;
use crate::log::restart::{self, Reach};
use crate::log::views::{LoggedMember, LoggedView};
use crate::log::{LogId, StreamKey, are_apart, era_after};
use crate::membership::View;

/// What a member that keeps logs says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roll {
    /// Its log.
    pub log: LogId,
    /// The last view that is logged in it, or in a log in reach.
    pub last: Option<LoggedView>,
}

in_order! { Roll { log, last } }

/// What members that keep logs say to all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// It has logs of these streams from before. Said before it enrols.
    Has(Vec<StreamKey>),
    /// It keeps logs.
    Enrols(Box<Roll>),
    /// The first so many who have enrolled are in its log for good, as far as they were members then.
    Notes(u64),
}

impl Wire for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Has(streams) => {
                out.push(0);
                streams.encode(out);
            }
            Entry::Enrols(roll) => {
                out.push(1);
                roll.encode(out);
            }
            Entry::Notes(changes) => (2_u8, *changes).encode(out),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Entry::Has(Wire::decode(from)?),
            1 => Entry::Enrols(Box::new(Wire::decode(from)?)),
            2 => Entry::Notes(Wire::decode(from)?),
            _ => return None,
        })
    }
}

/// For which logs a subgroup that is logged waits, whatever those say that are there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Awaited {
    /// Those of the last view that are not back.
    views: BTreeSet<LogId>,
    /// Members that have a log of it from before.
    members: BTreeMap<NodeId, LogId>,
    /// Members of whom these logs may not know.
    unknown: BTreeMap<NodeId, BTreeSet<LogId>>,
}

in_order! { Awaited { views, members, unknown } }

impl Awaited {
    /// Those logs, if these members claim and of those who have a log from before some were heard.
    pub fn logs(
        &self,
        claimants: impl Iterator<Item = NodeId>,
        heard: impl Fn(NodeId) -> bool,
    ) -> BTreeSet<LogId> {
        let members = self.members.iter().filter(|(node, _)| !heard(**node));
        let mut logs: BTreeSet<LogId> = members.map(|(_, log)| *log).collect();
        logs.extend(&self.views);
        let unaware: Option<Vec<_>> = claimants.map(|node| self.unknown.get(&node)).collect();
        // For one that is known all wait who come back without the others.
        let unaware = unaware.filter(|_| !planted(Fault::NewcomerCounts));
        logs.extend(unaware.into_iter().flatten().flatten());
        logs
    }
}

/// A member that keeps logs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Enrolled {
    log: LogId,
    /// How many had enrolled when it had.
    since: u64,
    /// Logs that were there before, and may not know of it.
    unaware: BTreeSet<LogId>,
}

in_order! { Enrolled { log, since, unaware } }

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Book {
    /// Whether all members are on one host.
    is_local: bool,
    /// What this life of the group is called in logs, and what it was called before. Nothing while nobody has kept any.
    era: u64,
    eras: Vec<u64>,
    /// The last view of another life of which those know who have enrolled.
    last: Option<LoggedView>,
    /// All who have enrolled in this life.
    back: BTreeSet<LogId>,
    enrolled: BTreeMap<NodeId, Enrolled>,
    /// Of which streams members have logs from before.
    streams: BTreeMap<NodeId, BTreeSet<StreamKey>>,
    /// How many have enrolled so far.
    changes: u64,
}

in_order! { Book { is_local, era, eras, last, back, enrolled, streams, changes } }

impl Book {
    /// Nobody has enrolled yet.
    pub(super) fn new(is_local: bool) -> Book {
        Book {
            is_local,
            era: 0,
            eras: Vec::new(),
            last: None,
            back: BTreeSet::new(),
            enrolled: BTreeMap::new(),
            streams: BTreeMap::new(),
            changes: 0,
        }
    }

    /// Somebody says something.
    pub(super) fn apply(&mut self, from: NodeId, entry: Entry) {
        match entry {
            Entry::Has(streams) => self.streams.entry(from).or_default().extend(streams),
            Entry::Enrols(roll) => self.enrol(from, *roll),
            Entry::Notes(changes) => self.notes(from, changes),
        }
    }

    fn enrol(&mut self, node: NodeId, Roll { log, last }: Roll) {
        let before = last.as_ref().map_or(0, |last| last.era);
        // What its log says of this life is known here better.
        if let Some(last) = last.filter(|last| !self.eras.contains(&last.era)) {
            self.learn(last);
        }
        if self.era == 0 || before >= self.era && !self.eras.contains(&before) {
            self.era = era_after(before.max(self.era), node);
            self.eras.push(self.era);
        }
        self.changes += 1;
        self.back.insert(log);
        // Nor do those know of it, wherever they are, that do not know of somebody who is here: they would come back without both.
        let others = self.enrolled.iter().filter(|(other, _)| **other != node);
        let before =
            others.flat_map(|(_, other)| other.unaware.iter().chain([&other.log]).copied());
        let unaware = before.filter(|other| *other != log).collect();
        self.enrolled.insert(node, Enrolled { log, since: self.changes, unaware });
    }

    /// A view of another life, which may be the last one.
    fn learn(&mut self, view: LoggedView) {
        match &mut self.last {
            Some(last) if are_apart(last.era, view.era) || last.place() == view.place() => {
                // Neither is the later one: all that either names are meant.
                last.await_more(view.names());
            }
            Some(last) if last.place() > view.place() => {}
            _ => self.last = Some(view),
        }
    }

    fn notes(&mut self, node: NodeId, changes: u64) {
        let Some(noter) = self.enrolled.get(&node) else { return };
        let (log, is_known) = (noter.log, noter.unaware.is_empty());
        for (_, other) in self.enrolled.iter_mut().filter(|(_, it)| it.since <= changes) {
            other.unaware.remove(&log);
            if is_known {
                // Whoever comes back without knowing of it waits for the one that does.
                other.unaware.clear();
            }
        }
    }

    /// A node is no member any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.streams.remove(&node);
        self.enrolled.remove(&node);
    }

    /// Logs of the last view of the life before that are not back.
    pub fn awaited(&self) -> BTreeSet<LogId> {
        let reach = if self.is_local { Reach::Local } else { Reach::Networked };
        let last = self.last.as_ref().filter(|_| !planted(Fault::LastViewForgotten));
        last.map_or(BTreeSet::new(), |last| {
            restart::missing(reach, last, |log| self.back.contains(&log))
        })
    }

    /// For which logs the subgroup waits that is logged as this stream.
    pub fn awaited_of(&self, stream: StreamKey) -> Awaited {
        let has = |(node, _): &(&NodeId, &Enrolled)| {
            self.streams.get(node).is_some_and(|streams| streams.contains(&stream))
        };
        let members = self.enrolled.iter().filter(has).map(|(node, it)| (*node, it.log));
        let unknown = self.enrolled.iter().filter(|(_, it)| !it.unaware.is_empty());
        Awaited {
            views: self.awaited(),
            members: members.collect(),
            unknown: unknown.map(|(node, it)| (*node, it.unaware.clone())).collect(),
        }
    }

    /// How many have enrolled so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether somebody waits to be noted by this node.
    pub(super) fn lacks_note_of(&self, node: NodeId) -> bool {
        let log = self.enrolled.get(&node).map(|it| it.log);
        log.is_some_and(|log| self.enrolled.values().any(|it| it.unaware.contains(&log)))
    }

    /// This view, as a member logs it that has enrolled. `leans`: the logs that have what nobody's has that is there.
    pub(super) fn record(
        &self,
        view: &View,
        of: NodeId,
        leans: &BTreeSet<LogId>,
    ) -> Option<LoggedView> {
        let own = self.enrolled.get(&of)?;
        let members = view.members.iter().map(|member| LoggedMember {
            node: member.node,
            log: self.enrolled.get(&member.node).map(|it| it.log),
            votes: member.votes,
            weight: member.weight,
        });
        let mut awaits = self.awaited();
        awaits.extend(&own.unaware);
        if !planted(Fault::NobodyLeans) {
            // A log of a member is named in any case.
            let is_here = |log: &LogId| self.enrolled.values().any(|it| it.log == *log);
            awaits.extend(leans.iter().filter(|log| !is_here(log)));
        }
        let members: Vec<LoggedMember> = members.collect();
        Some(LoggedView {
            era: self.era,
            number: view.number,
            members,
            awaits: awaits.into_iter().collect(),
        })
    }

    /// What this life of the group is called in logs; 0 while nobody has kept any.
    pub fn era(&self) -> u64 {
        self.era
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn enrol(book: &mut Book, node: NodeId, log: u128, last: Option<LoggedView>) {
        book.apply(node, Entry::Enrols(Box::new(Roll { log: LogId(log), last })));
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

    fn awaited(book: &Book) -> Vec<u128> {
        book.awaited().into_iter().map(|log| log.0).collect()
    }

    #[test]
    fn the_latest_view_that_anybody_brings_is_meant() {
        let mut book = Book::new(true);
        enrol(&mut book, A, 1, Some(view(5 << 32, 3, &[1, 2, 3])));
        assert_eq!((awaited(&book), book.era() >> 32), ([2, 3].into(), 6));
        // Of a life before that, and of one after it.
        enrol(&mut book, B, 2, Some(view(4 << 32, 9, &[2, 7])));
        assert_eq!(awaited(&book), [3]);
        let (before, now) = (book.era(), view(8 << 32, 1, &[4, 5]));
        enrol(&mut book, NodeId(4), 4, Some(now));
        assert_eq!((awaited(&book), book.era() > before), ([5].into(), true));
        // What is logged of this life is known here better.
        let of_this = view(book.era(), 1, &[1, 2, 4, 9]);
        enrol(&mut book, NodeId(5), 6, Some(of_this));
        assert_eq!(awaited(&book), [5]);
        assert_eq!(Book::from_bytes(&book.to_bytes()), Some(book));
    }

    #[test]
    fn of_two_lives_that_know_nothing_of_each_other_both_are_meant() {
        let mut book = Book::new(true);
        enrol(&mut book, A, 1, Some(view(5 << 32 | 1, 3, &[1, 2])));
        enrol(&mut book, B, 3, Some(view(5 << 32 | 2, 1, &[3, 4])));
        assert_eq!(awaited(&book), [2, 4]);
    }

    #[test]
    fn a_newcomer_is_noted_by_all_or_by_one_that_is() {
        let mut book = Book::new(true);
        enrol(&mut book, A, 1, None);
        enrol(&mut book, B, 2, None);
        enrol(&mut book, NodeId(3), 3, None);
        let awaits = |book: &Book, claimants: &[NodeId]| {
            let awaited = book.awaited_of(StreamKey(9));
            awaited.logs(claimants.iter().copied(), |_| true).len()
        };
        assert_eq!([A, B, NodeId(3)].map(|node| awaits(&book, &[node])), [0, 1, 2]);
        assert_eq!(awaits(&book, &[A, B]), 0, "one that counts is enough");
        // The second one does not count itself, and the first one is gone.
        book.apply(B, Entry::Notes(3));
        assert_eq!(awaits(&book, &[NodeId(3)]), 1);
        book.apply(A, Entry::Notes(2));
        assert_eq!([B, NodeId(3)].map(|node| awaits(&book, &[node])), [0, 1]);
        book.forget(A);
        book.apply(B, Entry::Notes(3));
        assert_eq!(awaits(&book, &[NodeId(3)]), 0);
    }

    #[test]
    fn a_log_that_is_gone_and_knows_of_nobody_here_knows_of_no_newcomer() {
        let mut book = Book::new(true);
        enrol(&mut book, A, 1, None);
        enrol(&mut book, B, 2, None);
        book.forget(A);
        enrol(&mut book, NodeId(3), 3, None);
        book.apply(B, Entry::Notes(3));
        let awaited = |book: &Book| {
            let awaited = book.awaited_of(StreamKey(9));
            awaited.logs([B, NodeId(3)].into_iter(), |_| true)
        };
        assert_eq!(awaited(&book), [LogId(1)].into());
        // It is back, and notes them.
        enrol(&mut book, NodeId(4), 1, None);
        book.apply(NodeId(4), Entry::Notes(3));
        assert_eq!(awaited(&book), BTreeSet::new());
    }
}
