//! Rules for readers: each gets the records kept when it began, then all later ones, in order. A
//! reader that came with its member began when the member did or, under I-230, when the member had
//! the store.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::group::report::StreamId;
use derecho_core::ids::NodeId;
use derecho_core::storage::log_tasks::message_of;
use derecho_core::storage::store::{KeyLiveness, Store, StoreRetention};

use super::member::{BESIDE, key_of, says_of, time_of};
use crate::world::log_folders::FoundLog;

type RecordId = (NodeId, u64);

struct ReaderRecords {
    node: NodeId,
    /// Place in the order at which live records begin, once it is known.
    from: Option<usize>,
    /// Received records, by places in the order.
    got: Vec<usize>,
}

/// Checker of a stored subgroup: observes all members, see the [module](self).
#[derive(Default)]
pub struct StoreChecker {
    /// Retention of the store.
    pub retention: StoreRetention,
    order: Vec<(RecordId, u8)>,
    places: BTreeMap<RecordId, usize>,
    contents: BTreeMap<RecordId, Vec<u8>>,
    /// Place of the next delivery to each member.
    next: BTreeMap<NodeId, Option<usize>>,
    /// Readers that began with a member, and wait for their beginning.
    waiting: BTreeMap<NodeId, Vec<usize>>,
    readers: Vec<ReaderRecords>,
    kept: BTreeMap<NodeId, Vec<RecordId>>,
    /// Ends of streams, with the version of each end, as each member has them at the end of a run.
    over: BTreeMap<NodeId, Vec<(u64, StreamId)>>,
    /// Number of messages that each member's store counts at the end of a run.
    versions: BTreeMap<NodeId, u64>,
    /// Members that have read wrong content: they are out, and do not know that yet.
    accused: Vec<NodeId>,
    gone: BTreeSet<NodeId>,
    /// True if the last member that had the store is gone.
    pub lost: bool,
    /// True if every sender of a transfer has the store from its beginning.
    pub strict: bool,
    /// Number of histories that were compared.
    pub histories: usize,
    /// Number of histories that were exactly the kept records.
    pub exact: usize,
    /// Number of readers that began later than their members.
    pub late: usize,
    /// Number of streams that were over.
    pub overs: usize,
    /// Number of these that some members do not know.
    pub untold: usize,
    /// Number of finished streams that are announced to a newcomer; `None`: as many as occur here.
    pub tells: Option<usize>,
    /// Whether the store is also logged.
    pub logged: bool,
    /// Length of the order that was reported as durable everywhere.
    pub durable: usize,
    /// Version up to which each member has reported its own log as durable.
    acknowledged: BTreeMap<NodeId, u64>,
    /// Version up to which each member has reported the logs as durable everywhere.
    everywhere: BTreeMap<NodeId, u64>,
    /// True while the point of continuation after a crash of all is unknown.
    comes_back: bool,
    /// Length of the order with which it continued after the last crash of all.
    began: usize,
}

impl StoreChecker {
    pub(crate) fn died(&mut self, node: NodeId) {
        self.gone.insert(node);
        self.next.remove(&node);
        self.waiting.remove(&node);
    }

    pub(crate) fn wrote(&mut self, node: NodeId, number: u64, bytes: &[u8]) {
        self.contents.insert((node, number), bytes.to_vec());
    }

    fn is_right(&mut self, node: NodeId, id: RecordId, bytes: &[u8]) -> bool {
        let right = self.contents.get(&id).map(Vec::as_slice) == Some(bytes);
        if !right {
            self.accused.push(node);
        }
        right
    }

    /// Whether a member has read nothing wrong.
    pub(crate) fn acquits(&self, node: NodeId) -> bool {
        !self.accused.contains(&node)
    }

    /// Records that a member begins to get deliveries; a reader begins with it.
    pub(crate) fn begins(&mut self, node: NodeId) -> usize {
        self.next.insert(node, None);
        self.readers.push(ReaderRecords { node, from: None, got: Vec::new() });
        self.waiting.insert(node, vec![self.readers.len() - 1]);
        self.readers.len() - 1
    }

    /// Adds a reader that begins at its member's position.
    pub(crate) fn reads_from_now(&mut self, node: NodeId) -> usize {
        let from = self.next.get(&node).copied().flatten();
        self.readers.push(ReaderRecords { node, from, got: Vec::new() });
        let name = self.readers.len() - 1;
        if from.is_none() {
            self.waiting.entry(node).or_default().push(name);
        }
        name
    }

    /// Moves the beginning of a reader that began with its member to the member's present
    /// position (I-230).
    pub(crate) fn reads_late(&mut self, name: usize) {
        let node = self.readers[name].node;
        if let Some(place) = self.next.get(&node).copied().flatten() {
            self.late += usize::from(self.readers[name].from != Some(place));
            self.readers[name].from = Some(place);
        }
    }

    pub(crate) fn delivers(&mut self, node: NodeId, from: NodeId, number: u64, bytes: &[u8]) {
        let id = (from, number);
        // The last deliveries of a leaver may be no other member's, if no other member is left.
        if !self.is_right(node, id, bytes) || !self.acquits(node) || self.gone.contains(&node) {
            return;
        }
        let next = self.next.get(&node).copied().flatten();
        let place = match self.places.get(&id) {
            Some(place) => *place,
            None => {
                let place = self.order.len();
                self.order.push((id, key_of(bytes) as u8));
                self.places.insert(id, place);
                place
            }
        };
        if let Some(next) = next {
            assert_eq!(place, next, "the deliveries at {node:?} have a gap or another order");
        }
        self.next.insert(node, Some(place + 1));
        for name in self.waiting.remove(&node).unwrap_or_default() {
            self.readers[name].from = Some(place);
        }
    }

    pub(crate) fn reads(&mut self, name: usize, from: NodeId, number: u64, bytes: &[u8]) {
        let id = (from, number);
        let node = self.readers[name].node;
        if !self.is_right(node, id, bytes) || self.gone.contains(&node) {
            return;
        }
        let place = *self.places.get(&id).unwrap_or_else(|| {
            panic!("{node:?} reads {id:?}, which no member delivered, of {}", self.order.len())
        });
        let got = &mut self.readers[name].got;
        assert!(
            got.last().is_none_or(|last| *last < place),
            "out of order or twice: reader {name} of {node:?} gets {id:?}, {place} after {got:?}"
        );
        got.push(place);
    }

    /// Whether records are removed in their order or not at all, and nothing is logged (I-230).
    pub(crate) fn is_by_order(&self) -> bool {
        let StoreRetention { depth, most: _, keys, lifespan, cleanup } = self.retention;
        !self.logged && (depth.or(keys.map(|_| 0)), lifespan.or(cleanup)) == (None, None)
    }

    /// Returns the content written at this place of the order.
    fn record(&self, place: usize) -> &[u8] {
        &self.contents[&self.order[place].0]
    }

    /// Whether nothing is kept of a key.
    fn is_none_of(&self, kept: &[usize], key: u8) -> bool {
        kept.iter().all(|at| self.order[*at].1 != key)
    }

    /// Removes the kept records of keys that are over by now (I-240).
    fn clean(&self, kept: &mut Vec<usize>, now: usize) {
        let Some(delay) = self.retention.cleanup else { return };
        // A record beside a key is over only when that key is gone.
        for _ in 0..2 {
            let last = |key: u8| kept.iter().rfind(|at| self.order[**at].1 == key);
            let is_due = |at: &usize| {
                let key = self.order[*at].1;
                last(key).is_some_and(|last| {
                    let is_over = match says_of(self.record(*last)) {
                        KeyLiveness::Alive => false,
                        KeyLiveness::NotAlive => true,
                        KeyLiveness::Companion => self.is_none_of(kept, key ^ BESIDE),
                    };
                    is_over && time_of(self.record(*last)) + delay <= time_of(self.record(now))
                })
            };
            let left = kept.iter().copied().filter(|at| !is_due(at)).collect();
            *kept = left;
        }
    }

    /// Returns the kept records of the first part of the order, by the simplest computation.
    fn kept_of(&self, end: usize) -> Vec<usize> {
        let mut kept: Vec<usize> = Vec::new();
        for place in 0..end {
            self.clean(&mut kept, place);
            kept.push(place);
            let key = self.order[place].1;
            let of_key =
                |kept: &[usize]| kept.iter().filter(|at| self.order[**at].1 == key).count();
            if self.retention.depth.is_some_and(|depth| of_key(&kept) > depth as usize) {
                let oldest = kept.iter().position(|at| self.order[*at].1 == key).unwrap();
                kept.remove(oldest);
            }
            self.clean(&mut kept, place);
            if self.retention.most.is_some_and(|most| kept.len() as u64 > most) {
                kept.remove(0);
            }
        }
        kept
    }

    /// Checks a reader that has got everything for the time being.
    pub(crate) fn has_read_all(&mut self, name: usize) {
        let ReaderRecords { from, got, .. } = &self.readers[name];
        let from = from.unwrap_or(self.order.len());
        let live = got.iter().filter(|at| **at >= from).count();
        let is_all = from + live == self.order.len();
        assert!(self.lost && self.logged || is_all, "live records are missing or wrong");
        self.gets_queue(name);
    }

    /// Whether it is known where a reader's live records begin.
    pub(crate) fn knows_start(&self, name: usize) -> bool {
        self.readers[name].from.is_some()
    }

    /// Checks a reader that has got everything which its member has, and reads on along a queue.
    pub(crate) fn gets_queue(&mut self, name: usize) {
        let ReaderRecords { from, got, .. } = &self.readers[name];
        let from = from.unwrap_or(self.order.len());
        let (history, live): (Vec<usize>, Vec<usize>) = got.iter().partition(|at| **at < from);
        if self.lost && self.logged {
            // Records that were not durable and that no other member had are gone; records that
            // they would have replaced are present.
            return;
        }
        assert!(
            live.iter().copied().eq(from..from + live.len()),
            "live records are missing or wrong"
        );
        let kept = self.kept_of(from);
        assert!(
            history.iter().all(|at| kept.contains(at)),
            "the history has a record that was replaced before"
        );
        if !self.lost {
            // A member that received the store only later may lack records replaced meanwhile.
            let missing = kept.iter().filter(|at| !history.contains(at));
            let bounded = self.retention.most.is_some() || self.retention.cleanup.is_some();
            let mut replaced = missing.map(|at| {
                let key = self.order[*at].1;
                self.order[from..].iter().any(|(_, other)| *other == key)
            });
            let is_kept = self.retention != StoreRetention::default();
            assert!(
                is_kept || history == kept,
                "the history lacks kept records: {history:?}, not {kept:?}"
            );
            assert!(bounded || replaced.all(|it| it), "{history:?} of {kept:?}");
        }
        let is_exact = self.strict || self.is_by_order() && !self.lost;
        assert!(
            !is_exact || history == kept,
            "the history differs from the kept records: {history:?} of {kept:?}"
        );
        self.histories += 1;
        self.exact += usize::from(history == kept);
    }

    pub(crate) fn keeps(&mut self, node: NodeId, kept: Vec<RecordId>) {
        self.kept.insert(node, kept);
    }

    /// Records the ended streams and the number of messages of a member's store at the end.
    pub(crate) fn ends_with(&mut self, node: NodeId, store: &Store) {
        let mut over = store.ended_streams().to_vec();
        over.sort();
        self.over.insert(node, over);
        self.versions.insert(node, store.version());
    }

    /// Checks that all members have counted the same number and, while nothing was lost, all
    /// messages (I-158).
    fn judge_versions(&mut self) {
        let all = std::mem::take(&mut self.versions);
        let first = all.values().next().copied();
        assert!(
            all.values().all(|it| Some(*it) == first),
            "stores count different numbers of messages: {all:?}"
        );
        let whole = self.order.len() as u64;
        assert!(self.lost || first.is_none_or(|it| it == whole), "{all:?} of {whole}");
    }

    /// Checks that all members know the same ends of streams, and nothing of a stream follows its
    /// end (I-155). For a stream that had ended before the store began afresh from a log, they know
    /// the last record that was left there: records replaced after it belong to no member any more.
    fn judge_over(&mut self) {
        let mut all = std::mem::take(&mut self.over);
        if self.lost {
            return;
        }
        // No member need know a stream without records.
        let spoke = |node: NodeId| self.order.iter().any(|((from, _), _)| *from == node);
        all.values_mut().for_each(|over| over.retain(|(_, stream)| spoke(stream.node)));
        let left_by: BTreeSet<NodeId> =
            self.kept.values().flatten().map(|(from, _)| *from).collect();
        let known: BTreeSet<(u64, StreamId)> = all.values().flatten().copied().collect();
        match self.tells {
            None => {
                let first = all.values().next();
                assert!(
                    all.values().all(|over| Some(over) == first),
                    "members know different ends of streams: {all:?}"
                );
            }
            // I-157: not every member knows a stream of which nothing is left.
            Some(_) => {
                let streams: BTreeSet<StreamId> = known.iter().map(|(_, stream)| *stream).collect();
                assert_eq!(
                    streams.len(),
                    known.len(),
                    "members know different ends of streams: {all:?}"
                );
                let mut left = known.iter().filter(|(_, stream)| left_by.contains(&stream.node));
                let all_know = |over| all.values().all(|known| known.contains(over));
                assert!(
                    left.all(all_know),
                    "a member does not know the end of a stream whose records it has: {all:?}"
                );
                self.untold += known.iter().filter(|over| !all_know(over)).count();
            }
        }
        for (version, stream) in &known {
            let kept = |id: &RecordId| self.kept.values().any(|kept| kept.contains(id));
            let behind = self.order.iter().enumerate().skip(*version as usize);
            let theirs = behind
                .filter(|(at, (id, _))| id.0 == stream.node && (*at >= self.began || kept(id)));
            let theirs = theirs.count();
            assert_eq!(theirs, 0, "{stream:?} is over at {version}");
            self.overs += 1;
        }
    }

    /// Checks that all members finally keep the same records, and the correct ones.
    pub(crate) fn end(&mut self) {
        self.judge_versions();
        self.judge_over();
        let kept = self.kept_of(self.order.len());
        let ids: Vec<RecordId> = kept.iter().map(|at| self.order[*at].0).collect();
        if self.lost && self.logged {
            let all = std::mem::take(&mut self.kept);
            let first = all.values().next();
            assert!(
                all.values().all(|kept| Some(kept) == first),
                "members keep different records: {all:?}"
            );
            return;
        }
        for (node, theirs) in std::mem::take(&mut self.kept) {
            match self.lost {
                true => assert!(theirs.iter().all(|id| ids.contains(id)), "{node:?}"),
                false => assert_eq!(theirs, ids, "{node:?}"),
            }
        }
    }

    /// Number of messages in the order.
    pub fn length(&self) -> usize {
        self.order.len()
    }

    /// Records that a member reports its own log as durable up to this version.
    pub(crate) fn acknowledges(&mut self, node: NodeId, version: u64) {
        // A failed log still contains what it had reported before.
        let known = self.acknowledged.entry(node).or_default();
        *known = version.max(*known);
    }

    /// Checks a member's report that a number of messages is durable everywhere. Each of the
    /// storers that count there has reported this for its own log: the longest log proves nothing
    /// for the others.
    pub(crate) fn durable(
        &mut self,
        node: NodeId,
        version: u64,
        storers: impl Iterator<Item = NodeId>,
    ) {
        let before = self.everywhere.insert(node, version).unwrap_or(0);
        if version > before && !self.gone.contains(&node) {
            for storer in storers {
                let own = self.acknowledged.get(&storer).copied().unwrap_or(0);
                assert!(own >= version, "I-105: {version} everywhere, {own} at {storer:?}");
            }
        }
        if !self.lost && !self.gone.contains(&node) {
            assert!(
                version <= self.order.len() as u64,
                "{version} is durable, and fewer messages were delivered"
            );
            self.durable = self.durable.max(version as usize);
        }
    }

    /// Checks the logs after a crash of all: the newest has everything durable, and all are of the
    /// same order. Later records follow the newest log.
    pub fn restart(&mut self, logs: &[FoundLog]) {
        for FoundLog { log, records, .. } in logs {
            for owned in records {
                let record = owned.record();
                let place = record.version.0 as usize - 1;
                let (stream, number) = message_of(&record);
                let id = (stream.node, number);
                assert_eq!(self.order.get(place).map(|(id, _)| *id), Some(id), "in {log}");
                assert_eq!(record.entry.payload, self.contents[&id]);
            }
        }
        let newest = logs.iter().map(|found| found.tail).max();
        let length = newest.map_or(0, |tail| tail.version.0 as usize);
        self.begin_again(length);
        self.comes_back = false;
    }

    /// Records a crash of all; the point of continuation is seen when a member begins from a log.
    pub fn restart_somewhere(&mut self) {
        self.comes_back = true;
    }

    /// Records that a member has begun from a log that ends here, in a life that follows
    /// another one.
    pub(crate) fn begins_from(&mut self, version: u64) {
        if std::mem::take(&mut self.comes_back) {
            assert!(
                version <= self.order.len() as u64,
                "the log has {version} messages, and fewer were delivered"
            );
            self.begin_again(version as usize);
        }
    }

    fn begin_again(&mut self, length: usize) {
        assert!(
            self.durable <= length,
            "{} messages were durable, and {length} are left",
            self.durable
        );
        for (id, _) in self.order.drain(length..) {
            self.places.remove(&id);
        }
        self.began = length;
        self.next.clear();
        self.waiting.clear();
        self.readers.clear();
        self.kept.clear();
        // Lost records are no longer part of the order.
        (self.lost, self.durable) = (false, self.durable.min(length));
    }

    /// Checks that the logs finally agree, record by record, including epochs, and have everything.
    pub fn compare(&self, logs: &[FoundLog]) {
        let mut epochs = BTreeMap::new();
        for FoundLog { log, records, .. } in logs {
            for owned in records {
                let record = owned.record();
                let known = epochs.entry(record.version).or_insert(record.entry.epoch);
                assert_eq!(*known, record.entry.epoch, "of {} in {log}", record.version);
            }
        }
    }
}
