//! What has to be true of what all members of a group deliver, crashed ones too.

use std::collections::BTreeMap;

use derecho_core::group::registry::Layout;
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::link::Generation;
use derecho_core::membership::View;

/// A writer, and the stream of one of its stays in a topic.
pub(crate) type Writer = (NodeId, u64);

/// A message as it was delivered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Delivered {
    pub(crate) writer: Writer,
    pub(crate) number: u64,
}

/// A topic, and one stay of a member in it, which its lines name.
type Stay = (u64, RegionId);

/// What one member has delivered of a topic.
#[derive(Default)]
struct Log {
    epochs: BTreeMap<u64, Vec<Delivered>>,
    /// Epochs that it has begun, and whether it reads in them.
    begun: Vec<(u64, bool)>,
    /// The number of the last message, by writer.
    last: BTreeMap<Writer, u64>,
    left: bool,
}

#[derive(Default)]
pub(crate) struct Court {
    logs: BTreeMap<(NodeId, Stay), Log>,
    /// Layouts of epochs, the same for all.
    layouts: BTreeMap<(u64, u64), Layout>,
    /// By the group's generation: a local group that was lost whole is founded anew.
    views: BTreeMap<(Generation, u64), View>,
    installed: BTreeMap<NodeId, Vec<u64>>,
    pub(crate) deliveries: u64,
    pub(crate) epochs: u64,
}

impl Court {
    pub(crate) fn installs(&mut self, node: NodeId, view: &View) {
        let known = self.views.entry((view.group, view.number)).or_insert_with(|| view.clone());
        assert_eq!(known, view, "one view of a number");
        let installed = self.installed.entry(node).or_default();
        if let Some(last) = installed.last() {
            assert_eq!(last + 1, view.number, "{node:?} installs views in order");
        }
        installed.push(view.number);
    }

    pub(crate) fn views(&self) -> usize {
        self.views.len()
    }

    pub(crate) fn begins(&mut self, (node, stay): (NodeId, Stay), epoch: u64, layout: &Layout) {
        let known = self.layouts.entry((stay.0, epoch)).or_insert_with(|| layout.clone());
        assert_eq!(known, layout, "one layout of an epoch");
        let reads = layout.seat_of(node).is_some_and(|seat| seat.reads);
        self.logs.entry((node, stay)).or_default().begun.push((epoch, reads));
        self.epochs += 1;
    }

    pub(crate) fn left(&mut self, node: NodeId, stay: Stay) {
        self.logs.entry((node, stay)).or_default().left = true;
    }

    pub(crate) fn delivers(&mut self, node: NodeId, stay: Stay, epoch: u64, what: Delivered) {
        self.deliveries += 1;
        let log = self.logs.entry((node, stay)).or_default();
        let last = log.last.insert(what.writer, what.number);
        if let Some(last) = last {
            assert_eq!(last + 1, what.number, "{node:?} from {:?}: no gap, no double", what.writer);
        }
        let mine = log.epochs.entry(epoch).or_default();
        mine.push(what);
        let at = mine.len() - 1;
        for ((other, (topic, _)), log) in &self.logs {
            let theirs = log.epochs.get(&epoch).filter(|_| *topic == stay.0);
            if let Some(theirs) = theirs.and_then(|theirs| theirs.get(at)) {
                assert_eq!(*theirs, what, "{node:?} and {other:?} agree on the order in {epoch}");
            }
        }
    }

    /// Agreement: who goes on from an epoch has delivered all that anybody has delivered in it.
    pub(crate) fn judge(&self) {
        let mut most: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for ((_, (topic, _)), log) in &self.logs {
            for (epoch, delivered) in &log.epochs {
                let known = most.entry((*topic, *epoch)).or_default();
                *known = delivered.len().max(*known);
            }
        }
        for ((node, (topic, _)), log) in &self.logs {
            for (index, (epoch, reads)) in log.begun.iter().enumerate() {
                let goes_on = index + 1 < log.begun.len() || log.left;
                let Some(most) = most.get(&(*topic, *epoch)).filter(|_| goes_on && *reads) else {
                    continue;
                };
                let own = log.epochs.get(epoch).map_or(0, Vec::len);
                assert_eq!(own, *most, "{node:?} has all of epoch {epoch} of topic {topic}");
            }
        }
    }

    /// Liveness and self-delivery: what these writers wrote, these readers have.
    pub(crate) fn complete(&self, readers: &[(NodeId, u64)], written: &[(Writer, u64, u64)]) {
        for (reader, topic) in readers {
            let mut logs =
                self.logs.iter().filter(|((node, (t, _)), _)| node == reader && t == topic);
            let (_, log) = logs.next_back().unwrap_or_else(|| panic!("{reader:?} reads {topic}"));
            for (writer, of, count) in written.iter().filter(|(_, of, _)| of == topic) {
                let last = log.last.get(writer).map_or(0, |last| last + 1);
                assert_eq!(last, *count, "{reader:?} has all that {writer:?} wrote to {of}");
            }
        }
    }
}
