//! A reader that takes late and holds the records it has taken.
//!
//! Owns: the records that the reader holds or has not taken yet, and their expected contents. Never
//! does: trust a record before its node's host has confirmed that the node is still a member.

use std::collections::VecDeque;
use std::sync::Arc;

use derecho_core::ids::NodeId;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_sim::Random;
use derecho_sim::world::ReadPace;

use crate::checker::{Delivered, SafetyChecker};

/// Maximum number of records that a reader holds at once.
const MOST_HELD: usize = 12;

/// The late reader, see the [module](self).
pub(crate) struct LateReader {
    node: NodeId,
    topic: u64,
    inbox: Arc<Inbox>,
    /// Messages that the prompt reader of the same member has and this reader has not.
    due: VecDeque<Delivered>,
    held: Vec<(Record, Delivered)>,
}

impl LateReader {
    /// Creates a reader of this node that gets everything delivered from now on.
    pub(crate) fn new(node: NodeId, topic: u64, inbox: Arc<Inbox>) -> LateReader {
        LateReader { node, topic, inbox, due: VecDeque::new(), held: Vec::new() }
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Records a message that the prompt reader has received.
    pub(crate) fn is_due(&mut self, what: Delivered) {
        self.due.push_back(what);
    }

    /// Takes the rest, and releases everything. An inbox that is dropped releases nothing that it
    /// still contains.
    pub(crate) fn discard(self) {
        while self.inbox.take().is_some() {}
    }

    /// Whether the reader has taken and released everything.
    pub(crate) fn is_done(&self) -> bool {
        self.inbox.is_empty() && self.held.is_empty()
    }

    /// Takes and releases some records. `is_member`: whether the host still counts the node as a
    /// member; checked after a record was read.
    pub(crate) fn take(
        &mut self,
        pace: ReadPace,
        random: &mut Random,
        is_member: &dyn Fn() -> bool,
        checker: &mut SafetyChecker,
    ) {
        for _ in 0..pace.count {
            let Some(record) = self.inbox.take() else { break };
            let due = self.due.pop_front();
            let Some(what) = due.filter(|what| what.number == record.number()) else {
                if is_member() {
                    let (name, number) = (checker.journal.name_of(self.node), record.number());
                    let text = format!("{name} takes number {number} late, where {due:?} is due");
                    checker.record_violation("order", &text);
                }
                return;
            };
            self.inspect(&record, what, is_member, checker, "takes late");
            if self.held.len() < MOST_HELD && random.one_in(pace.hold_one_in) {
                self.held.push((record, what));
            }
        }
        for (record, what) in std::mem::take(&mut self.held) {
            self.inspect(&record, what, is_member, checker, "holds");
            if !random.one_in(pace.release_one_in) {
                self.held.push((record, what));
            }
        }
    }

    fn inspect(
        &self,
        record: &Record,
        what: Delivered,
        is_member: &dyn Fn() -> bool,
        checker: &mut SafetyChecker,
        does: &str,
    ) {
        let (writer, stream) = what.writer;
        let written = crate::member::content(writer, self.topic, stream, what.number);
        if record.bytes() != written && is_member() {
            let (name, from) =
                (checker.journal.name_of(self.node), checker.journal.name_of(writer));
            let number = what.number;
            let text = format!("{name} {does} {number} of {from} in topic {}, changed", self.topic);
            checker.record_violation("content", &text);
        }
    }
}
