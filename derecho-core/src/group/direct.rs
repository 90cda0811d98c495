//! Direct messages from one member to another, outside of the streams and within views (I-70).
//!
//! Owns: the decision which of them are taken in. Never does: keep messages that arrive ahead of
//! their view; [`early_messages`](super::early_messages) does.
//!
//! ```text
//!   each message carries the number of the sender's view
//!   later than this node's view   waits until that view is installed here
//!   otherwise                     taken in if the sender is a member of the installed view,
//!                                 else dropped
//! ```

use alloc::vec::Vec;

use super::{Group, GroupEvent, ReplicatedState};
use crate::ids::NodeId;
use crate::machine::Effects;

impl<S: ReplicatedState> Group<S> {
    /// Sends a direct message to a member, possibly this node itself. `false` if the receiver
    /// or this node is no member of this node's view. The message arrives unless one of the
    /// two falls out.
    pub fn send_direct(&mut self, node: NodeId, bytes: Vec<u8>, effects: &mut Effects) -> bool {
        let me = self.node.id();
        let both = [me, node].iter().all(|node| self.installed.rank_of(*node).is_some());
        if !both {
            return false;
        }
        let view = self.installed.number;
        match node == me {
            true => return self.direct(me, view, bytes),
            false => self.send_within_budget(node, bytes, effects),
        }
        true
    }

    /// Takes a direct message. `false` if the sender has more messages ahead of a view than
    /// any correct node.
    pub(super) fn direct(&mut self, from: NodeId, view: u64, bytes: Vec<u8>) -> bool {
        if view > self.installed.number {
            return self.keep_early(from, view, bytes);
        }
        self.note_installed(from, view);
        if self.installed.rank_of(from).is_some() {
            self.events.push_back(GroupEvent::Direct { from, view, bytes });
        }
        true
    }
}
