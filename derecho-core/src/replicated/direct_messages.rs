//! Direct messages, with a limit of unacknowledged bytes for each member.
//!
//! Owns: the messages waiting to be sent, and the number of bytes not yet taken. Never does: wait.
//!
//! ```text
//!   sender    sends while less than WINDOW bytes are not taken; the rest waits here
//!   receiver  acknowledges taken bytes whenever they are OWED or more
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::ids::NodeId;

/// Maximum number of bytes sent to a member before it has taken them; far below what a link buffers
/// for a peer.
const WINDOW: u64 = 1 << 20;
/// Number of taken bytes after which an acknowledgement is sent.
const OWED: u64 = 64 << 10;
/// Maximum number of bytes that an application may leave waiting for a member.
const BACKLOG: u64 = 1 << 20;
/// Bytes added to the length of each message.
const OVERHEAD: u64 = 64;

#[derive(Default)]
struct PeerWindow {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: u64,
    untaken: u64,
    owed: u64,
}

/// Direct messages of a node; see the [module](self).
#[derive(Default)]
pub(super) struct DirectMessages {
    windows: BTreeMap<NodeId, PeerWindow>,
    /// Acknowledgements to send: member and number of taken bytes.
    taken: Vec<(NodeId, u64)>,
}

fn weight(bytes: &[u8]) -> u64 {
    bytes.len() as u64 + OVERHEAD
}

impl DirectMessages {
    /// Queues a message.
    pub(super) fn post(&mut self, to: NodeId, bytes: Vec<u8>) {
        let way = self.windows.entry(to).or_default();
        way.waiting_bytes += weight(&bytes);
        way.waiting.push_back(bytes);
    }

    /// Whether an application may send more to a member now.
    pub(super) fn has_room(&self, to: NodeId) -> bool {
        self.windows.get(&to).is_none_or(|way| way.waiting_bytes < BACKLOG)
    }

    /// Returns the next message that may be sent.
    pub(super) fn next(&mut self) -> Option<(NodeId, Vec<u8>)> {
        let open = |way: &PeerWindow| way.untaken < WINDOW && !way.waiting.is_empty();
        let (node, way) = self.windows.iter_mut().find(|(_, way)| open(way))?;
        let bytes = way.waiting.pop_front()?;
        way.waiting_bytes -= weight(&bytes);
        way.untaken += weight(&bytes);
        Some((*node, bytes))
    }

    /// Notes that a member has taken this number of bytes.
    pub(super) fn taken(&mut self, by: NodeId, bytes: u64) {
        if let Some(way) = self.windows.get_mut(&by) {
            way.untaken = way.untaken.saturating_sub(bytes);
        }
    }

    /// Notes that a message of a member was taken here.
    pub(super) fn took(&mut self, from: NodeId, bytes: usize) {
        let way = self.windows.entry(from).or_default();
        way.owed += bytes as u64 + OVERHEAD;
        if way.owed >= OWED {
            self.taken.push((from, core::mem::take(&mut way.owed)));
        }
    }

    /// Returns the next acknowledgement to send. Acknowledgements do not count towards the window.
    pub(super) fn next_taken(&mut self) -> Option<(NodeId, u64)> {
        self.taken.pop()
    }

    /// Forgets all nodes that are not members.
    pub(super) fn keep(&mut self, is_member: impl Fn(NodeId) -> bool) {
        self.windows.retain(|node, _| is_member(*node));
        self.taken.retain(|(node, _)| is_member(*node));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn window_limits_messages_in_transit_and_taken_messages_free_room() {
        const B: NodeId = NodeId(2);
        let (mut sender, mut receiver) = (DirectMessages::default(), DirectMessages::default());
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
