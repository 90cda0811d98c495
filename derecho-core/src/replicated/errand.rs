//! What members say to each other for the sake of replicated objects: motions to all, parcels to one.
//!
//! Owns: their encoding. Never does: trust a byte of what another member has said.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::shard::Offer;
use super::{Edition, Position};
use crate::bytes::{Reader, Wire};
use crate::ids::NodeId;
use crate::storage::logbook::Claim;

/// A message of the control stream: it changes the agenda.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Motion {
    /// Who says so takes part; or its attributes have changed.
    Hello {
        /// What it declares, as a number.
        declared: u64,
        /// What it says of itself.
        attributes: Vec<u8>,
    },
    /// Who says so has opened its regions for a shard.
    Offer {
        /// The shard.
        key: u64,
        /// Which regions.
        offer: Offer,
    },
    /// Who says so has a shard's object.
    Holds {
        /// The shard.
        key: u64,
        /// The object's beginning.
        beginning: u128,
    },
    /// Who says so has not got it, and nobody whom it could ask is left.
    Lacks {
        /// The shard.
        key: u64,
        /// Which vacancy it speaks of.
        vacancy: u64,
    },
    /// Who says so has a log of a shard.
    Claims {
        /// The shard.
        key: u64,
        /// Which vacancy it speaks of.
        vacancy: u64,
        /// What it has found.
        claim: Box<Claim>,
    },
    /// The log of who says so takes nothing more.
    Disclaims {
        /// The shard.
        key: u64,
        /// Whether it has the object all the same.
        holds: bool,
    },
}

/// How a query ended at a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The answer.
    Answer(Vec<u8>),
    /// It has the query's effect from another member, and so no answer of its own.
    Transferred,
    /// It has no such object.
    NoObject,
    /// It fell out of the group before its answer had come.
    Failed,
}

/// A direct message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parcel {
    /// So many bytes of parcels were taken.
    Taken(u64),
    /// Asks a holder for the object, at a position in this epoch or a later one.
    Want {
        /// The shard.
        key: u64,
        /// The name of the epoch.
        epoch: u64,
        /// The asker's number for this.
        request: u64,
    },
    /// A part of the object; the last one ends it.
    Part {
        /// The shard.
        key: u64,
        /// What it answers.
        request: u64,
        /// Where the object is.
        position: Position,
        /// Which edition of it that is.
        edition: Edition,
        /// Whether it is the last part.
        last: bool,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Something for a member's object, or the application around it.
    Say {
        /// The shard.
        key: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// A query for this member alone.
    Ask {
        /// The shard.
        key: u64,
        /// The asker's number for it.
        query: u64,
        /// What is asked.
        bytes: Vec<u8>,
    },
    /// What came of a query.
    Reply {
        /// The asker's number for it.
        query: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// The log of who says so is durable up to this version.
    Durable {
        /// The shard.
        key: u64,
        /// The version.
        version: u64,
    },
}

/// Something that the desk wants done by the house.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Errand {
    /// To be said to all.
    Submit(Motion),
    /// To be said to one.
    Direct(NodeId, Parcel),
}

impl Wire for Motion {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Motion::Hello { declared, attributes } => {
                out.push(0);
                declared.encode(out);
                attributes.encode(out);
            }
            Motion::Offer { key, offer } => {
                out.push(1);
                key.encode(out);
                offer.encode(out);
            }
            Motion::Holds { key, beginning } => {
                out.push(2);
                (*key, *beginning).encode(out);
            }
            Motion::Lacks { key, vacancy } => {
                out.push(3);
                (*key, *vacancy).encode(out);
            }
            Motion::Claims { key, vacancy, claim } => {
                out.push(4);
                (*key, *vacancy).encode(out);
                claim.encode(out);
            }
            Motion::Disclaims { key, holds } => {
                out.push(5);
                (*key, *holds).encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Motion::Hello { declared: u64::decode(from)?, attributes: Vec::decode(from)? },
            1 => Motion::Offer { key: u64::decode(from)?, offer: Offer::decode(from)? },
            2 => Motion::Holds { key: u64::decode(from)?, beginning: u128::decode(from)? },
            3 => Motion::Lacks { key: u64::decode(from)?, vacancy: u64::decode(from)? },
            4 => {
                let (key, vacancy) = Wire::decode(from)?;
                Motion::Claims { key, vacancy, claim: Box::new(Wire::decode(from)?) }
            }
            5 => Motion::Disclaims { key: u64::decode(from)?, holds: bool::decode(from)? },
            _ => return None,
        })
    }
}

impl Wire for Outcome {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Outcome::Answer(bytes) => {
                out.push(0);
                bytes.encode(out);
            }
            Outcome::Transferred => out.push(1),
            Outcome::NoObject => out.push(2),
            Outcome::Failed => out.push(3),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Outcome::Answer(Vec::decode(from)?),
            1 => Outcome::Transferred,
            2 => Outcome::NoObject,
            3 => Outcome::Failed,
            _ => return None,
        })
    }
}

impl Wire for Parcel {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Parcel::Taken(bytes) => {
                out.push(0);
                bytes.encode(out);
            }
            Parcel::Want { key, epoch, request } => {
                out.push(1);
                ((*key, *epoch), *request).encode(out);
            }
            Parcel::Part { key, request, position, edition, last, bytes } => {
                out.push(2);
                ((*key, *request), *last).encode(out);
                (*position, *edition).encode(out);
                bytes.encode(out);
            }
            Parcel::Say { key, bytes } => {
                out.push(3);
                key.encode(out);
                bytes.encode(out);
            }
            Parcel::Ask { key, query, bytes } => {
                out.push(4);
                (*key, *query).encode(out);
                bytes.encode(out);
            }
            Parcel::Reply { query, outcome } => {
                out.push(5);
                query.encode(out);
                outcome.encode(out);
            }
            Parcel::Durable { key, version } => {
                out.push(6);
                (*key, *version).encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Parcel::Taken(u64::decode(from)?),
            1 => {
                let ((key, epoch), request) = Wire::decode(from)?;
                Parcel::Want { key, epoch, request }
            }
            2 => {
                let ((key, request), last) = Wire::decode(from)?;
                let ((position, edition), bytes) = Wire::decode(from)?;
                Parcel::Part { key, request, position, edition, last, bytes }
            }
            3 => Parcel::Say { key: u64::decode(from)?, bytes: Vec::decode(from)? },
            4 => {
                let ((key, query), bytes) = Wire::decode(from)?;
                Parcel::Ask { key, query, bytes }
            }
            6 => Parcel::Durable { key: u64::decode(from)?, version: u64::decode(from)? },
            5 => Parcel::Reply { query: u64::decode(from)?, outcome: Outcome::decode(from)? },
            _ => return None,
        })
    }
}
