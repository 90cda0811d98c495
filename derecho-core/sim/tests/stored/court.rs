//! What is right: every reader gets what was kept when it began, then all that came after, in the order. A reader that came
//! with its member began when the member did, or, of I-230, when it had the store.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::group::report::StreamId;
use derecho_core::ids::NodeId;
use derecho_core::storage::errands::message_of;
use derecho_core::storage::store::{Retention, Says};

use super::member::{BESIDE, key_of, says_of, time_of};
use super::root::Found;

type Id = (NodeId, u64);

struct Reading {
    node: NodeId,
    /// Where in the order what comes live begins; once it is known.
    from: Option<usize>,
    /// What it has got, by places in the order.
    got: Vec<usize>,
}

#[derive(Default)]
pub(crate) struct Court {
    pub(crate) retention: Retention,
    order: Vec<(Id, u8)>,
    places: BTreeMap<Id, usize>,
    contents: BTreeMap<Id, Vec<u8>>,
    /// Of each member the place of what is delivered to it next.
    next: BTreeMap<NodeId, Option<usize>>,
    /// Readers that began with a member, and wait to hear where.
    waiting: BTreeMap<NodeId, Vec<usize>>,
    readings: Vec<Reading>,
    kept: BTreeMap<NodeId, Vec<Id>>,
    /// Which streams were over from which version on, as each member has it in the end.
    over: BTreeMap<NodeId, Vec<(u64, StreamId)>>,
    /// How many messages each member's store counts in the end.
    versions: BTreeMap<NodeId, u64>,
    /// Who has read something else than was written: it is out, and does not know yet.
    accused: Vec<NodeId>,
    gone: BTreeSet<NodeId>,
    /// Somebody who had it was the last one.
    pub(crate) lost: bool,
    /// Whoever gives has it from the beginning.
    pub(crate) strict: bool,
    pub(crate) histories: usize,
    pub(crate) exact: usize,
    /// Readers that began later than their members.
    pub(crate) late: usize,
    /// Streams that were over, and of these that some have not heard of.
    pub(crate) overs: usize,
    pub(crate) untold: usize,
    /// Of streams that are over so many are told to a newcomer; else as many as it takes here.
    pub(crate) tells: Option<usize>,
    /// What is kept is kept in logs as well.
    pub(crate) logged: bool,
    /// So many of the order were said to be durable everywhere.
    pub(crate) durable: usize,
    /// The version up to which each member has said that its own log is durable.
    acknowledged: BTreeMap<NodeId, u64>,
    /// The version up to which each member has said that the logs are durable everywhere.
    everywhere: BTreeMap<NodeId, u64>,
    /// Where it goes on after a crash of all is not known yet.
    comes_back: bool,
    /// With so many of the order it went on after the last crash of all.
    began: usize,
}

/// Whether nothing is kept of a key.
fn is_none_of(kept: &[usize], order: &[(Id, u8)], key: u8) -> bool {
    kept.iter().all(|at| order[*at].1 != key)
}

impl Court {
    pub(crate) fn died(&mut self, node: NodeId) {
        self.gone.insert(node);
        self.next.remove(&node);
        self.waiting.remove(&node);
    }

    pub(crate) fn wrote(&mut self, node: NodeId, number: u64, bytes: &[u8]) {
        self.contents.insert((node, number), bytes.to_vec());
    }

    fn is_right(&mut self, node: NodeId, id: Id, bytes: &[u8]) -> bool {
        let right = self.contents.get(&id).map(Vec::as_slice) == Some(bytes);
        if !right {
            self.accused.push(node);
        }
        right
    }

    /// Nobody who is still a member has read anything wrong.
    pub(crate) fn acquits(&self, node: NodeId) -> bool {
        !self.accused.contains(&node)
    }

    /// A member begins to get what is delivered; a reader begins with it.
    pub(crate) fn begins(&mut self, node: NodeId) -> usize {
        self.next.insert(node, None);
        self.readings.push(Reading { node, from: None, got: Vec::new() });
        self.waiting.insert(node, vec![self.readings.len() - 1]);
        self.readings.len() - 1
    }

    /// A reader begins where its member is.
    pub(crate) fn reads_from_now(&mut self, node: NodeId) -> usize {
        let from = self.next.get(&node).copied().flatten();
        self.readings.push(Reading { node, from, got: Vec::new() });
        let name = self.readings.len() - 1;
        if from.is_none() {
            self.waiting.entry(node).or_default().push(name);
        }
        name
    }

    /// A reader that began with its member begins where that is now (I-230).
    pub(crate) fn reads_late(&mut self, name: usize) {
        let node = self.readings[name].node;
        if let Some(place) = self.next.get(&node).copied().flatten() {
            self.late += usize::from(self.readings[name].from != Some(place));
            self.readings[name].from = Some(place);
        }
    }

    pub(crate) fn delivers(&mut self, node: NodeId, from: NodeId, number: u64, bytes: &[u8]) {
        let id = (from, number);
        // What whoever has left delivers last may be nobody else's, if nobody else is left.
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
            assert_eq!(place, next, "one order, without gaps: at {node:?}");
        }
        self.next.insert(node, Some(place + 1));
        for name in self.waiting.remove(&node).unwrap_or_default() {
            self.readings[name].from = Some(place);
        }
    }

    pub(crate) fn reads(&mut self, name: usize, from: NodeId, number: u64, bytes: &[u8]) {
        let id = (from, number);
        let node = self.readings[name].node;
        if !self.is_right(node, id, bytes) || self.gone.contains(&node) {
            return;
        }
        let place = *self.places.get(&id).unwrap_or_else(|| {
            panic!("{node:?} reads {id:?}, which nobody got, of {}", self.order.len())
        });
        let got = &mut self.readings[name].got;
        assert!(
            got.last().is_none_or(|last| *last < place),
            "in the order, and once: reader {name} of {node:?} gets {id:?}, {place} after {got:?}"
        );
        got.push(place);
    }

    /// Whether records go in their order or not at all, and nothing is logged (I-230).
    pub(crate) fn is_by_order(&self) -> bool {
        let Retention { depth, most: _, keys, lifespan, cleanup } = self.retention;
        !self.logged && (depth.or(keys.map(|_| 0)), lifespan.or(cleanup)) == (None, None)
    }

    /// What was written at this place of the order.
    fn record(&self, place: usize) -> &[u8] {
        &self.contents[&self.order[place].0]
    }

    /// Of what is kept, that of keys that are over by now is forgotten (I-240).
    fn clean(&self, kept: &mut Vec<usize>, now: usize) {
        let Some(delay) = self.retention.cleanup else { return };
        // What stands beside a key is over only when that is gone.
        for _ in 0..2 {
            let last = |key: u8| kept.iter().rfind(|at| self.order[**at].1 == key);
            let is_due = |at: &usize| {
                let key = self.order[*at].1;
                last(key).is_some_and(|last| {
                    let is_over = match says_of(self.record(*last)) {
                        Says::Lives => false,
                        Says::Over => true,
                        Says::Beside => is_none_of(kept, &self.order, key ^ BESIDE),
                    };
                    is_over && time_of(self.record(*last)) + delay <= time_of(self.record(now))
                })
            };
            let left = kept.iter().copied().filter(|at| !is_due(at)).collect();
            *kept = left;
        }
    }

    /// What is kept of the first records of the order, as plainly as can be.
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

    /// A reader has got all that it will get for the time being.
    pub(crate) fn has_read_all(&mut self, name: usize) {
        let Reading { from, got, .. } = &self.readings[name];
        let from = from.unwrap_or(self.order.len());
        let (history, live): (Vec<usize>, Vec<usize>) = got.iter().partition(|at| **at < from);
        if self.lost && self.logged {
            // Of what nobody else had what was not durable is gone; what that would have replaced is there.
            return;
        }
        assert_eq!(live, (from..self.order.len()).collect::<Vec<_>>(), "all that came live");
        let kept = self.kept_of(from);
        assert!(history.iter().all(|at| kept.contains(at)), "nothing that was replaced before");
        if !self.lost {
            // Who got it itself only later may have it without what was replaced meanwhile.
            let missing = kept.iter().filter(|at| !history.contains(at));
            let bounded = self.retention.most.is_some() || self.retention.cleanup.is_some();
            let mut replaced = missing.map(|at| {
                let key = self.order[*at].1;
                self.order[from..].iter().any(|(_, other)| *other == key)
            });
            let is_kept = self.retention != Retention::default();
            assert!(is_kept || history == kept, "everything: {history:?}, not {kept:?}");
            assert!(bounded || replaced.all(|it| it), "{history:?} of {kept:?}");
        }
        let is_exact = self.strict || self.is_by_order() && !self.lost;
        assert!(!is_exact || history == kept, "exactly what was kept: {history:?} of {kept:?}");
        self.histories += 1;
        self.exact += usize::from(history == kept);
    }

    pub(crate) fn keeps(&mut self, node: NodeId, kept: Vec<Id>) {
        self.kept.insert(node, kept);
    }

    pub(crate) fn knows_over(&mut self, node: NodeId, over: &[(u64, StreamId)]) {
        let mut over = over.to_vec();
        over.sort();
        self.over.insert(node, over);
    }

    /// So many messages has a member's store counted in the end.
    pub(crate) fn counts(&mut self, node: NodeId, version: u64) {
        self.versions.insert(node, version);
    }

    /// In the end all have counted the same, and, as long as nothing was lost, all that there was (I-158).
    fn judge_versions(&mut self) {
        let all = std::mem::take(&mut self.versions);
        let first = all.values().next().copied();
        assert!(all.values().all(|it| Some(*it) == first), "one version at one place: {all:?}");
        let whole = self.order.len() as u64;
        assert!(self.lost || first.is_none_or(|it| it == whole), "{all:?} of {whole}");
    }

    /// In the end all know the same places at which streams were over, and nothing of these comes behind (I-155). Of a stream
    /// that had ended before the store began anew from a log they know the last record that was left there: what had been
    /// replaced behind it is nobody's any more.
    fn judge_over(&mut self) {
        let mut all = std::mem::take(&mut self.over);
        if self.lost {
            return;
        }
        // Of a stream that nothing came by nobody has to know.
        let spoke = |node: NodeId| self.order.iter().any(|((from, _), _)| *from == node);
        all.values_mut().for_each(|over| over.retain(|(_, stream)| spoke(stream.node)));
        let left_by: BTreeSet<NodeId> =
            self.kept.values().flatten().map(|(from, _)| *from).collect();
        let known: BTreeSet<(u64, StreamId)> = all.values().flatten().copied().collect();
        match self.tells {
            None => {
                let first = all.values().next();
                assert!(all.values().all(|over| Some(over) == first), "over at one place: {all:?}");
            }
            // I-157: of whom nothing is left not everybody knows.
            Some(_) => {
                let streams: BTreeSet<StreamId> = known.iter().map(|(_, stream)| *stream).collect();
                assert_eq!(streams.len(), known.len(), "over at one place: {all:?}");
                let mut left = known.iter().filter(|(_, stream)| left_by.contains(&stream.node));
                let all_know = |over| all.values().all(|known| known.contains(over));
                assert!(left.all(all_know), "all know whose records they have: {all:?}");
                self.untold += known.iter().filter(|over| !all_know(over)).count();
            }
        }
        for (version, stream) in &known {
            let kept = |id: &Id| self.kept.values().any(|kept| kept.contains(id));
            let behind = self.order.iter().enumerate().skip(*version as usize);
            let theirs = behind
                .filter(|(at, (id, _))| id.0 == stream.node && (*at >= self.began || kept(id)));
            let theirs = theirs.count();
            assert_eq!(theirs, 0, "{stream:?} is over at {version}");
            self.overs += 1;
        }
    }

    /// In the end all keep the same, and it is what is to be kept.
    pub(crate) fn end(&mut self) {
        self.judge_versions();
        self.judge_over();
        let kept = self.kept_of(self.order.len());
        let ids: Vec<Id> = kept.iter().map(|at| self.order[*at].0).collect();
        if self.lost && self.logged {
            let all = std::mem::take(&mut self.kept);
            let first = all.values().next();
            assert!(all.values().all(|kept| Some(kept) == first), "all keep the same: {all:?}");
            return;
        }
        for (node, theirs) in std::mem::take(&mut self.kept) {
            match self.lost {
                true => assert!(theirs.iter().all(|id| ids.contains(id)), "{node:?}"),
                false => assert_eq!(theirs, ids, "{node:?}"),
            }
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.order.len()
    }

    /// A member says that its own log is durable up to this version.
    pub(crate) fn acknowledges(&mut self, node: NodeId, version: u64) {
        // What a log that has failed had said before is in it all the same.
        let known = self.acknowledged.entry(node).or_default();
        *known = version.max(*known);
    }

    /// A member says that so many are durable everywhere. Each of the storers that count there has said so of its own
    /// log: the log that has most proves nothing for the others.
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
            assert!(version <= self.order.len() as u64, "it was not even delivered");
            self.durable = self.durable.max(version as usize);
        }
    }

    /// All have crashed, and this is what is left in logs: the newest has all that was durable, and all of them
    /// are of the same order. What comes next comes after the newest.
    pub(crate) fn restart(&mut self, logs: &[Found]) {
        for Found { log, records, .. } in logs {
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

    /// All have crashed; where the order goes on is seen when somebody begins from a log.
    pub(crate) fn restart_somewhere(&mut self) {
        self.comes_back = true;
    }

    /// Somebody has begun in a life that follows upon another one, from a log that ends here.
    pub(crate) fn begins_from(&mut self, version: u64) {
        if std::mem::take(&mut self.comes_back) {
            assert!(version <= self.order.len() as u64, "so much was never delivered");
            self.begin_again(version as usize);
        }
    }

    fn begin_again(&mut self, length: usize) {
        assert!(self.durable <= length, "{} durable, and {length} are left", self.durable);
        for (id, _) in self.order.drain(length..) {
            self.places.remove(&id);
        }
        self.began = length;
        self.next.clear();
        self.waiting.clear();
        self.readings.clear();
        self.kept.clear();
        // What was lost is no part of the order any more.
        (self.lost, self.durable) = (false, self.durable.min(length));
    }

    /// In the end logs agree, record by record, epochs included, and have all.
    pub(crate) fn compare(&self, logs: &[Found]) {
        let mut epochs = BTreeMap::new();
        for Found { log, records, .. } in logs {
            for owned in records {
                let record = owned.record();
                let known = epochs.entry(record.version).or_insert(record.entry.epoch);
                assert_eq!(*known, record.entry.epoch, "of {} in {log}", record.version);
            }
        }
    }
}
