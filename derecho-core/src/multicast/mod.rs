//! Multicast in one stream: a sender's memory, and what its readers need of it.
//!
//! ```text
//!   sender's region                                      reader's region (one per stream it reads)
//!   line 0   [ geometry            ]  written once        line 0 [ received | taken | held ]
//!   line 1   [ sent                ]  counter
//!   ...      [ order ring          ]  2 words an entry
//!   ...      [ byte memory: chunks ]  records
//! ```
//! One file a predicate, as in the papers: [`send`] publishes what is committed, [`receive`] takes
//! in what `sent` guards, [`reclaim`] gives entries and chunks back. Applications reach the
//! sender's memory through [`claim`], without a lock, and take what was received from an
//! [`inbox`].
//!
//! This is the reliable unordered level: FIFO per sender, nothing lost, back-pressure through what
//! readers still hold. See `docs/PROTOCOL.md` for the invariants cited here.

pub mod acknowledgement;
pub mod claim;
pub mod entry;
pub mod geometry;
pub mod inbox;
pub mod receive;
pub mod reclaim;
pub mod send;

use core::fmt;

/// What a peer did that no correct node does. The peer is not listened to any more; this node
/// goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The header of its stream is nonsense, or its region is shorter than the header says.
    Geometry,
    /// `sent` went further than its order ring is long.
    Sent {
        /// What was seen before.
        known: u64,
        /// What it shows.
        shown: u64,
    },
    /// An entry that `sent` guards is nonsense.
    Entry {
        /// Which slot.
        slot: u64,
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
            Fault::Sent { known, shown } => {
                write!(f, "its sent count went from {known} to {shown}, which cannot be")
            }
            Fault::Entry { slot } => write!(f, "the entry of its slot {slot} is nonsense"),
            Fault::Overrun => f.write_str("it overran memory that is still being read"),
            Fault::Note => f.write_str("it sent a control message that makes no sense"),
            Fault::Acknowledgement { sent } => {
                write!(f, "its acknowledgement of {sent} messages is nonsense")
            }
        }
    }
}
