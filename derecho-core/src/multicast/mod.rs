//! Multicast: a sender's memory, and the acknowledgements of its readers.
//!
//! ```text
//!   sender's region                          reader's region: one line for each node it informs
//!   line 0   [ geometry            ]         [ received | taken | held ]
//!   ...      [ order ring          ]
//!   ...      [ byte memory: chunks ]
//! ```
//! Applications write to the sender's memory through [`claim`], without a lock, and take delivered
//! records from an [`inbox`]. The records of one sender, in their order, are a [`stream`] with its
//! [`receive`]rs, or [`untethered`] receivers for which the sender does not wait. The records of
//! several senders, in one order for all members, are a [`subgroup`].
//!
//! See `docs/internals/protocol/README.md` for the invariants cited here.

pub mod ablation;
pub mod acknowledgement;
pub mod bias;
pub mod budget;
pub mod changes;
pub mod claim;
mod commit_counter;
pub mod entry;
pub mod geometry;
pub mod inbox;
pub mod incoming;
pub mod order;
pub mod receive;
pub mod send;
pub mod stream;
pub mod subgroup;
pub mod untethered;

use core::fmt;

/// Act of a peer that no correct node commits. The peer is excluded; this node continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerFault {
    /// The header of the peer's stream is invalid, or its region is shorter than the header says.
    Geometry,
    /// An entry of the peer is invalid.
    Entry {
        /// Number of the entry.
        index: u64,
    },
    /// The peer published more records than its memory holds while they are still being read.
    Overrun,
    /// A control message is invalid.
    Note,
    /// A reader acknowledged more than was sent, or under a wrong name.
    Acknowledgement {
        /// Number of entries or slots that were sent.
        sent: u64,
    },
}

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerFault::Geometry => f.write_str("the geometry in its stream header is invalid"),
            PeerFault::Entry { index } => write!(f, "its entry {index} is invalid"),
            PeerFault::Overrun => f.write_str("the sender overran memory that is still being read"),
            PeerFault::Note => f.write_str("its control message is invalid"),
            PeerFault::Acknowledgement { sent } => {
                write!(f, "its acknowledgement of {sent} sent messages is invalid")
            }
        }
    }
}
