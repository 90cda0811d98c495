//! Direct messages: from one member to another, beside all streams, in views (I-70).
//!
//! Owns: which of them are taken in, and when. Never does: limit how many there are; whoever sends does.
//!
//! ```text
//!   told with the number of the sender's view
//!   later than this node's view   waits until that view is installed here
//!   otherwise                     taken in if the sender is a member of the view that is, else dropped
//! ```

use alloc::vec::Vec;

use super::control::Word;
use super::{Group, GroupEvent, State};
use crate::ids::NodeId;
use crate::machine::Effects;

/// So many direct messages may wait for their view.
const MOST_EARLY: usize = 4096;

/// A direct message that came before its view.
pub(super) struct Early {
    from: NodeId,
    view: u64,
    bytes: Vec<u8>,
}

impl<S: State> Group<S> {
    /// Tells a member something directly, this node itself too. `false` if it is no member of this node's
    /// view. It arrives unless one of the two falls out.
    pub fn send_direct(&mut self, node: NodeId, bytes: Vec<u8>, effects: &mut Effects) -> bool {
        let me = self.node.id();
        let both = [me, node].iter().all(|node| self.installed.rank_of(*node).is_some());
        if !both {
            return false;
        }
        let view = self.installed.number;
        match node == me {
            true => return self.direct(me, view, bytes),
            false => self.tell(node, &Word::Direct { view, bytes }, effects),
        }
        true
    }

    /// A direct message has come. `false` if no correct node sends so many ahead of a view.
    pub(super) fn direct(&mut self, from: NodeId, view: u64, bytes: Vec<u8>) -> bool {
        if view > self.installed.number {
            if self.early.len() == MOST_EARLY {
                return false;
            }
            self.early.push(Early { from, view, bytes });
        } else if self.installed.rank_of(from).is_some() {
            self.events.push_back(GroupEvent::Direct { from, view, bytes });
        }
        true
    }

    /// A view was installed: what waited for it is taken in.
    pub(super) fn take_early_directs(&mut self) {
        for Early { from, view, bytes } in core::mem::take(&mut self.early) {
            self.direct(from, view, bytes);
        }
    }
}
