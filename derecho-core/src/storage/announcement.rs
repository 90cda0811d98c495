//! Announcements of a member to all members, about its part in a subgroup's store.
//!
//! Owns: the encoding. Never does: send one; a subgroup store does.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::log_election::LogClaim;
use crate::bytes::{ByteReader, Wire};

/// Announcement of a member about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreAnnouncement {
    /// The member has the store of this beginning.
    Holds(u128),
    /// The member lacks the store, as asked in this vacancy.
    Lacks(u64),
    /// The member has a log, and makes this claim in this vacancy.
    Claims(u64, Box<LogClaim>),
    /// The member's log accepts nothing more; `true` if the member has the store nevertheless.
    Disclaims(bool),
}

impl Wire for StoreAnnouncement {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            StoreAnnouncement::Holds(beginning) => (0_u8, *beginning).encode(out),
            StoreAnnouncement::Lacks(vacancy) => (1_u8, *vacancy).encode(out),
            StoreAnnouncement::Claims(vacancy, claim) => {
                (2_u8, *vacancy).encode(out);
                claim.encode(out);
            }
            StoreAnnouncement::Disclaims(holds) => (3_u8, *holds).encode(out),
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => StoreAnnouncement::Holds(Wire::decode(from)?),
            1 => StoreAnnouncement::Lacks(Wire::decode(from)?),
            2 => StoreAnnouncement::Claims(Wire::decode(from)?, Box::new(Wire::decode(from)?)),
            3 => StoreAnnouncement::Disclaims(Wire::decode(from)?),
            _ => return None,
        })
    }
}
