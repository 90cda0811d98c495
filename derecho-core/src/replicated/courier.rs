//! Direct messages, so many bytes at a time to each member.
//!
//! Owns: what waits to be sent, and what was not taken yet. Never does: wait.
//!
//! ```text
//!   sender    sends while less than WINDOW was not taken; the rest waits here
//!   receiver  says what it has taken whenever that is OWED or more
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::ids::NodeId;

/// So many bytes go to a member before it has taken them. Far below what a link keeps for a peer.
const WINDOW: u64 = 1 << 20;
/// What was taken is said in such steps.
const OWED: u64 = 64 << 10;
/// An application may leave so many bytes waiting for a member.
const BACKLOG: u64 = 1 << 20;
/// What a message counts beside its bytes.
const OVERHEAD: u64 = 64;

#[derive(Default)]
struct Way {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: u64,
    untaken: u64,
    owed: u64,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Courier {
    ways: BTreeMap<NodeId, Way>,
    /// Who is to be told how much was taken.
    taken: Vec<(NodeId, u64)>,
}

fn weight(bytes: &[u8]) -> u64 {
    bytes.len() as u64 + OVERHEAD
}

impl Courier {
    /// Takes a message on.
    pub(super) fn post(&mut self, to: NodeId, bytes: Vec<u8>) {
        let way = self.ways.entry(to).or_default();
        way.waiting_bytes += weight(&bytes);
        way.waiting.push_back(bytes);
    }

    /// Whether an application may say more to a member, for now.
    pub(super) fn has_room(&self, to: NodeId) -> bool {
        self.ways.get(&to).is_none_or(|way| way.waiting_bytes < BACKLOG)
    }

    /// What may be sent now.
    pub(super) fn next(&mut self) -> Option<(NodeId, Vec<u8>)> {
        let open = |way: &Way| way.untaken < WINDOW && !way.waiting.is_empty();
        let (node, way) = self.ways.iter_mut().find(|(_, way)| open(way))?;
        let bytes = way.waiting.pop_front()?;
        way.waiting_bytes -= weight(&bytes);
        way.untaken += weight(&bytes);
        Some((*node, bytes))
    }

    /// A member has taken so much.
    pub(super) fn taken(&mut self, by: NodeId, bytes: u64) {
        if let Some(way) = self.ways.get_mut(&by) {
            way.untaken = way.untaken.saturating_sub(bytes);
        }
    }

    /// A message of so many bytes of a member was taken here.
    pub(super) fn took(&mut self, from: NodeId, bytes: usize) {
        let way = self.ways.entry(from).or_default();
        way.owed += bytes as u64 + OVERHEAD;
        if way.owed >= OWED {
            self.taken.push((from, core::mem::take(&mut way.owed)));
        }
    }

    /// Who is to be told now how much was taken. This does not count.
    pub(super) fn next_taken(&mut self) -> Option<(NodeId, u64)> {
        self.taken.pop()
    }

    /// Only these are members.
    pub(super) fn keep(&mut self, is_member: impl Fn(NodeId) -> bool) {
        self.ways.retain(|node, _| is_member(*node));
        self.taken.retain(|(node, _)| is_member(*node));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn no_more_is_under_way_than_a_window_and_what_is_taken_makes_room() {
        const B: NodeId = NodeId(2);
        let (mut sender, mut receiver) = (Courier::default(), Courier::default());
        let (mut posted, mut sent, mut taken) = (0, VecDeque::new(), 0);
        while taken < 200 {
            while posted < 200 && sender.has_room(B) {
                sender.post(B, vec![posted as u8; 50_000]);
                posted += 1;
            }
            while let Some((_, bytes)) = sender.next() {
                sent.push_back(bytes);
            }
            assert!(sent.len() <= 22, "{} are under way", sent.len());
            let bytes = sent.pop_front().expect("something is always under way");
            assert_eq!(bytes[0], taken as u8);
            taken += 1;
            receiver.took(B, bytes.len());
            while let Some((_, count)) = receiver.next_taken() {
                sender.taken(B, count);
            }
        }
        sender.post(B, vec![0]);
        sender.keep(|_| false);
        assert_eq!(sender.next(), None);
    }
}
