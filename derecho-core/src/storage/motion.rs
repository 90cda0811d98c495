//! What a member says to all about its part in what is kept of a subgroup.
//!
//! Owns: the encoding. Never does: say it; a keeper does.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::logbook::Claim;
use crate::bytes::{Reader, Wire};

/// Says to all how it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Motion {
    /// It has it, of this beginning.
    Holds(u128),
    /// It lacks it, and was asked in this vacancy.
    Lacks(u64),
    /// It has a log, and in this vacancy claims this.
    Claims(u64, Box<Claim>),
    /// Its log takes nothing more; `true` if it has the store all the same.
    Disclaims(bool),
}

impl Wire for Motion {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Motion::Holds(beginning) => (0_u8, *beginning).encode(out),
            Motion::Lacks(vacancy) => (1_u8, *vacancy).encode(out),
            Motion::Claims(vacancy, claim) => {
                (2_u8, *vacancy).encode(out);
                claim.encode(out);
            }
            Motion::Disclaims(holds) => (3_u8, *holds).encode(out),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Motion::Holds(Wire::decode(from)?),
            1 => Motion::Lacks(Wire::decode(from)?),
            2 => Motion::Claims(Wire::decode(from)?, Box::new(Wire::decode(from)?)),
            3 => Motion::Disclaims(Wire::decode(from)?),
            _ => return None,
        })
    }
}
