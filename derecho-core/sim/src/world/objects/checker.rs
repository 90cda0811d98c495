//! Rules for the objects of all members, including crashed ones.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::ids::NodeId;
use derecho_core::replicated::ObjectPosition;

/// State of the test's object: a chain over all applied updates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    /// Hash over all updates.
    pub sum: u64,
    /// Number of updates.
    pub count: u64,
}

impl Chain {
    pub(crate) fn with(self, from: NodeId, message: &[u8]) -> Chain {
        let bytes = from.0.to_le_bytes();
        let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let sum = bytes.iter().chain(message).fold(self.sum ^ 0xcbf2_9ce4, step);
        Chain { sum, count: self.count + 1 }
    }
}

/// Writer of an update, and its number among the writer's updates.
pub type Update = (NodeId, u64);

/// State that an object has reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectEdition {
    pub(crate) chain: Chain,
    /// The update that led to this state; `None` if the state was transferred.
    pub(crate) update: Option<Update>,
}

/// A direct message, as its receiver has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedMessage {
    pub(crate) from: NodeId,
    /// View in which the message was sent.
    pub(crate) sent_in: u64,
    /// Number among the messages from its sender to its receiver.
    pub(crate) number: u64,
}

/// Life of the group, object, and beginning of the object.
type ObjectBeginning = (u64, u64, u128);

/// Checker of objects: observes all members, see the [module](self).
#[derive(Default)]
pub struct ObjectChecker {
    /// I-71: the object at each position.
    objects: BTreeMap<(u64, ObjectPosition), Chain>,
    /// Last number of each direct message, by sender and receiver.
    last_numbers: BTreeMap<(NodeId, NodeId), u64>,
    /// Members that have the object of a shard, with its beginning.
    has: BTreeMap<u64, BTreeMap<NodeId, u128>>,
    dead: BTreeSet<NodeId>,
    /// Number of objects that were transferred to a member.
    pub transfers: usize,
    /// Number of objects that began afresh or from logs.
    pub beginnings: usize,
    /// Number of direct messages that were received.
    pub direct_messages: usize,
    /// Number of answers that were compared.
    pub answers: usize,
    /// Number of objects that members had kept.
    pub kept: usize,
    /// All versions that any member has had, for each life and beginning of a logged object. `life`
    /// is the present life.
    lines: BTreeMap<ObjectBeginning, BTreeMap<u64, Chain>>,
    /// Version to which each update has led.
    updates: BTreeMap<ObjectBeginning, BTreeMap<Update, u64>>,
    life: u64,
    /// Versions of each object that were reported to a member as durable everywhere.
    firm: BTreeMap<u64, BTreeMap<u64, Chain>>,
    /// Number of objects that began from logs.
    pub logged: usize,
}

impl ObjectChecker {
    /// Checks the object of a member as it is now.
    pub(crate) fn stands(
        &mut self,
        node: NodeId,
        key: u64,
        at: Option<ObjectPosition>,
        chain: Chain,
    ) {
        match at {
            Some(at) => {
                self.has.entry(key).or_default().insert(node, at.beginning);
                let known = *self.objects.entry((key, at)).or_insert(chain);
                assert_eq!(known, chain, "I-71: {node:?} at {at:?} of {key:#x}");
            }
            None => {
                self.has.entry(key).or_default().remove(&node);
            }
        }
    }

    /// Checks that a member applies a message at its present position.
    pub(crate) fn applies(
        &mut self,
        node: NodeId,
        key: u64,
        before: ObjectPosition,
        after: ObjectPosition,
    ) {
        let next = ObjectPosition { applied: before.applied + 1, ..before };
        assert_eq!(after, next, "I-72: {node:?} skips or repeats a message of {key:#x}");
    }

    /// I-74: checks that no live member has the object.
    pub(crate) fn anew(&mut self, node: NodeId, key: u64, members: &[NodeId]) {
        self.beginnings += 1;
        for (other, beginning) in self.has.entry(key).or_default().iter() {
            let lives = *other != node && members.contains(other) && !self.dead.contains(other);
            assert!(!lives, "I-74: {other:?} has {key:#x} of beginning {beginning}");
        }
    }

    pub(crate) fn died(&mut self, node: NodeId) {
        self.dead.insert(node);
    }

    /// I-70: checks a direct message that a node receives in a view with these members. A number
    /// that is left out is a lost message (I-53).
    pub(crate) fn receives(
        &mut self,
        node: NodeId,
        view: u64,
        members: &[NodeId],
        message: ReceivedMessage,
    ) {
        let ReceivedMessage { from, sent_in, number } = message;
        self.direct_messages += 1;
        assert!(sent_in <= view, "I-70: {node:?} in {view} receives a message sent in {sent_in}");
        assert!(
            members.contains(&from),
            "I-70: {node:?} receives a message of {from:?}, which is excluded"
        );
        let last = self.last_numbers.insert((from, node), number);
        assert_eq!(
            last.unwrap_or(0) + 1,
            number,
            "I-70: a message of {from:?} is lost, duplicated or out of order"
        );
    }

    /// Checks that an object begins from a log that leads to this version. `past`: its states up to
    /// then and since.
    pub(crate) fn begins(
        &mut self,
        key: u64,
        beginning: u128,
        version: u64,
        past: &[ObjectEdition],
    ) {
        let led = past.iter().map(|it| (it.chain.count, it.chain));
        let led: BTreeMap<u64, Chain> = led.filter(|it| it.0 <= version).collect();
        let last = led.get(&version).copied();
        let from = |((_, of, _), line): &(&ObjectBeginning, &BTreeMap<u64, Chain>)| {
            *of == key && line.get(&version).copied() == last
        };
        let before = self.lines.iter().rev().find(from);
        let (of, line) =
            before.unwrap_or_else(|| panic!("I-110: no member had {key:#x} at {last:?}"));
        for (version, chain) in &led {
            assert_eq!(line.get(version), Some(chain), "I-110: {key:#x} at {version}");
        }
        let line = line.range(..=version).map(|(version, chain)| (*version, *chain)).collect();
        let updates = self.updates.get(of).into_iter().flatten();
        let updates = updates.filter(|it| *it.1 <= version).map(|it| (*it.0, *it.1)).collect();
        self.updates.insert((self.life, key, beginning), updates);
        self.lines.insert((self.life, key, beginning), line);
    }

    /// Checks an object that has reached this version.
    pub(crate) fn edition(&mut self, key: u64, beginning: u128, edition: ObjectEdition) {
        let ObjectEdition { chain, update } = edition;
        if let Some(update) = update {
            let updates = self.updates.entry((self.life, key, beginning)).or_default();
            let version = *updates.entry(update).or_insert(chain.count);
            assert_eq!(version, chain.count, "I-110: {update:?} is applied to {key:#x} once");
        }
        let line = self.lines.entry((self.life, key, beginning)).or_default();
        let known = *line.entry(chain.count).or_insert(chain);
        assert_eq!(known, chain, "I-110: {key:#x} of beginning {beginning:#x}");
        let firm = self.firm.get(&key).and_then(|firm| firm.get(&chain.count));
        assert!(firm.is_none_or(|firm| *firm == chain), "I-111: {key:#x} {firm:?} is {chain:?}");
    }

    /// Records that a member knows that everything up to this version is durable everywhere.
    pub(crate) fn durable(&mut self, key: u64, beginning: u128, version: u64) {
        let firm = self.firm.entry(key).or_default();
        let from = firm.last_key_value().map_or(1, |(last, _)| last + 1);
        let line = self.lines.entry((self.life, key, beginning)).or_default();
        for version in from..=version {
            firm.extend(line.get(&version).map(|chain| (version, *chain)));
        }
    }

    /// Returns the last version that is durable everywhere.
    pub fn firm(&self, key: u64) -> u64 {
        let last = self.firm.get(&key).and_then(|firm| firm.last_key_value());
        last.map_or(0, |(version, _)| *version)
    }

    /// Records that all members have crashed, and others come.
    pub(crate) fn restart(&mut self) {
        self.life += 1;
        self.objects.clear();
        self.last_numbers.clear();
        self.has.clear();
    }
}
