//! Journal of a life's events, line by line, for a human reader.
//!
//! Owns: the lines. Never does: decide anything; the life is the same without a reader.

use std::collections::BTreeMap;
use std::fmt;

use derecho_core::ids::{NodeId, Time};

/// The journal, see the [module](self).
#[derive(Default)]
pub(crate) struct Journal {
    /// Whether the journal is kept.
    pub(crate) kept: bool,
    pub(crate) now: Time,
    lines: Vec<String>,
    /// Number of deliveries of each node since the last summary, by topic.
    delivered: BTreeMap<(NodeId, u64), u64>,
    names: BTreeMap<NodeId, usize>,
}

impl Journal {
    /// Sets a node's index in the order in which nodes came.
    pub(crate) fn name(&mut self, node: NodeId, index: usize) {
        self.names.insert(node, index);
    }

    pub(crate) fn name_of(&self, node: NodeId) -> String {
        self.names.get(&node).map_or_else(|| format!("{node:?}"), |index| format!("n{index}"))
    }

    pub(crate) fn names_of(&self, nodes: impl IntoIterator<Item = NodeId>) -> String {
        let names: Vec<String> = nodes.into_iter().map(|node| self.name_of(node)).collect();
        if names.is_empty() { "nobody".into() } else { names.join(" ") }
    }

    pub(crate) fn record(&mut self, line: fmt::Arguments<'_>) {
        if self.kept {
            let micros = self.now.0 as f64 / 1000.0;
            self.lines.push(format!("{micros:>12.3} µs  {line}"));
        }
    }

    pub(crate) fn record_for(&mut self, node: NodeId, what: fmt::Arguments<'_>) {
        if self.kept {
            let name = self.name_of(node);
            self.record(format_args!("{name:<4} {what}"));
        }
    }

    pub(crate) fn delivers(&mut self, node: NodeId, topic: u64) {
        if self.kept {
            *self.delivered.entry((node, topic)).or_default() += 1;
        }
    }

    /// Writes the deliveries since the last summary, in one line for each node.
    pub(crate) fn sum_up(&mut self) {
        let mut nodes: BTreeMap<NodeId, String> = BTreeMap::new();
        for ((node, topic), count) in std::mem::take(&mut self.delivered) {
            *nodes.entry(node).or_default() += &format!(" {count} of topic {topic},");
        }
        for (node, text) in nodes {
            self.record_for(node, format_args!("  has delivered{}", text.trim_end_matches(',')));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}
