//! Multicast: a sender's memory, and what its readers need of it.
//!
//! ```text
//!   sender's region                          reader's region: a line for each it has to tell
//!   line 0   [ geometry            ]         [ received | taken | held ]
//!   ...      [ order ring          ]
//!   ...      [ byte memory: chunks ]
//! ```
//! Applications reach the sender's memory through [`claim`], without a lock, and take what was
//! delivered from an [`inbox`]. One sender's records, as they come, are a [`stream`] with its
//! [`receive`]rs, or [`untethered`] ones for which it does not wait; those of several senders, in one order for all members, a [`subgroup`].
//!
//! See `docs/PROTOCOL.md` for the invariants cited here.

pub mod ablation;
pub mod acknowledgement;
pub mod bias;
pub mod budget;
pub mod changes;
pub mod claim;
pub mod entry;
pub mod geometry;
pub mod inbox;
pub mod incoming;
pub mod order;
pub mod receive;
pub mod send;
pub mod stream;
pub mod subgroup;
mod tail;
pub mod untethered;

use core::fmt;

/// What a peer did that no correct node does. The peer is not listened to any more; this node
/// goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The header of its stream is nonsense, or its region is shorter than the header says.
    Geometry,
    /// One of its entries is nonsense.
    Entry {
        /// Which one.
        index: u64,
    },
    /// It published more records than its memory holds while they are still being read.
    Overrun,
    /// A control message is nonsense.
    Note,
    /// A reader acknowledged more than was sent, or in another one's name.
    Acknowledgement {
        /// What was sent.
        sent: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Geometry => f.write_str("the header of its stream is no valid geometry"),
            Fault::Entry { index } => write!(f, "its entry {index} is nonsense"),
            Fault::Overrun => f.write_str("it overran memory that is still being read"),
            Fault::Note => f.write_str("it sent a control message that makes no sense"),
            Fault::Acknowledgement { sent } => {
                write!(f, "its acknowledgement of {sent} messages is nonsense")
            }
        }
    }
}
