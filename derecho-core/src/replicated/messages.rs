//! Messages between members about replicated objects: directory changes to all, direct messages to
//! one.
//!
//! Owns: their encoding. Never does: trust a byte from another member.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::shard::ShardOffer;
use super::{ObjectPosition, ObjectVersion};
use crate::bytes::{ByteReader, Wire};
use crate::ids::NodeId;
use crate::storage::log_election::LogClaim;

/// Message of the control stream, which changes the shard directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryChange {
    /// The sender takes part, or its attributes have changed.
    Hello {
        /// Fingerprint of its declarations.
        declared: u64,
        /// Its attributes.
        attributes: Vec<u8>,
    },
    /// The sender has opened its regions for a shard.
    Offer {
        /// The shard.
        key: u64,
        /// The regions.
        offer: ShardOffer,
    },
    /// The sender has a shard's object.
    Holds {
        /// The shard.
        key: u64,
        /// Number of the object's beginning.
        beginning: u128,
    },
    /// The sender lacks the object, and no member is left that it could ask.
    Lacks {
        /// The shard.
        key: u64,
        /// Vacancy that this is about.
        vacancy: u64,
    },
    /// The sender has a log of a shard.
    Claims {
        /// The shard.
        key: u64,
        /// Vacancy that this is about.
        vacancy: u64,
        /// Content of the claim.
        claim: Box<LogClaim>,
    },
    /// The sender's log accepts nothing more.
    Disclaims {
        /// The shard.
        key: u64,
        /// Whether the sender has the object nevertheless.
        holds: bool,
    },
}

/// Outcome of a query at a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueryOutcome {
    /// The answer.
    Answer(Vec<u8>),
    /// The member received the query's effect by state transfer, and so has no answer of its own.
    Transferred,
    /// The member does not have the object.
    NoObject,
    /// The member fell out of the group before its answer arrived.
    Failed,
}

/// A direct message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectMessage {
    /// Acknowledgement: number of bytes of direct messages that were taken.
    Taken(u64),
    /// Request for the object, at a position in this epoch or a later one.
    Want {
        /// The shard.
        key: u64,
        /// Name of the epoch.
        epoch: u64,
        /// Number of the request, chosen by the requester.
        request: u64,
    },
    /// Part of the object.
    Fragment {
        /// The shard.
        key: u64,
        /// Number of the request.
        request: u64,
        /// Position of the object.
        position: ObjectPosition,
        /// Version of the object and its time.
        object_version: ObjectVersion,
        /// Whether this is the last part.
        last: bool,
        /// Bytes of the part.
        bytes: Vec<u8>,
    },
    /// Message to a member's object, or to the application around it.
    Say {
        /// The shard.
        key: u64,
        /// Content of the message.
        bytes: Vec<u8>,
    },
    /// Query to this member alone.
    Ask {
        /// The shard.
        key: u64,
        /// Number of the query, chosen by the asker.
        query: u64,
        /// Content of the query.
        bytes: Vec<u8>,
    },
    /// Outcome of a query.
    Reply {
        /// Number of the query, chosen by the asker.
        query: u64,
        /// The outcome.
        outcome: QueryOutcome,
    },
    /// The sender's log is durable up to and including this version.
    Durable {
        /// The shard.
        key: u64,
        /// Last durable version.
        version: u64,
    },
}

/// Operation that the object host requests from the shard machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MachineRequest {
    /// Message to all members.
    Submit(DirectoryChange),
    /// Message to one member.
    Direct(NodeId, ObjectMessage),
}

impl Wire for DirectoryChange {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            DirectoryChange::Hello { declared, attributes } => {
                out.push(0);
                declared.encode(out);
                attributes.encode(out);
            }
            DirectoryChange::Offer { key, offer } => {
                out.push(1);
                key.encode(out);
                offer.encode(out);
            }
            DirectoryChange::Holds { key, beginning } => {
                out.push(2);
                (*key, *beginning).encode(out);
            }
            DirectoryChange::Lacks { key, vacancy } => {
                out.push(3);
                (*key, *vacancy).encode(out);
            }
            DirectoryChange::Claims { key, vacancy, claim } => {
                out.push(4);
                (*key, *vacancy).encode(out);
                claim.encode(out);
            }
            DirectoryChange::Disclaims { key, holds } => {
                out.push(5);
                (*key, *holds).encode(out);
            }
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => DirectoryChange::Hello {
                declared: u64::decode(from)?,
                attributes: Vec::decode(from)?,
            },
            1 => {
                DirectoryChange::Offer { key: u64::decode(from)?, offer: ShardOffer::decode(from)? }
            }
            2 => DirectoryChange::Holds { key: u64::decode(from)?, beginning: u128::decode(from)? },
            3 => DirectoryChange::Lacks { key: u64::decode(from)?, vacancy: u64::decode(from)? },
            4 => {
                let (key, vacancy) = Wire::decode(from)?;
                DirectoryChange::Claims { key, vacancy, claim: Box::new(Wire::decode(from)?) }
            }
            5 => DirectoryChange::Disclaims { key: u64::decode(from)?, holds: bool::decode(from)? },
            _ => return None,
        })
    }
}

impl Wire for QueryOutcome {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            QueryOutcome::Answer(bytes) => {
                out.push(0);
                bytes.encode(out);
            }
            QueryOutcome::Transferred => out.push(1),
            QueryOutcome::NoObject => out.push(2),
            QueryOutcome::Failed => out.push(3),
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => QueryOutcome::Answer(Vec::decode(from)?),
            1 => QueryOutcome::Transferred,
            2 => QueryOutcome::NoObject,
            3 => QueryOutcome::Failed,
            _ => return None,
        })
    }
}

impl Wire for ObjectMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ObjectMessage::Taken(bytes) => {
                out.push(0);
                bytes.encode(out);
            }
            ObjectMessage::Want { key, epoch, request } => {
                out.push(1);
                ((*key, *epoch), *request).encode(out);
            }
            ObjectMessage::Fragment { key, request, position, object_version, last, bytes } => {
                out.push(2);
                ((*key, *request), *last).encode(out);
                (*position, *object_version).encode(out);
                bytes.encode(out);
            }
            ObjectMessage::Say { key, bytes } => {
                out.push(3);
                key.encode(out);
                bytes.encode(out);
            }
            ObjectMessage::Ask { key, query, bytes } => {
                out.push(4);
                (*key, *query).encode(out);
                bytes.encode(out);
            }
            ObjectMessage::Reply { query, outcome } => {
                out.push(5);
                query.encode(out);
                outcome.encode(out);
            }
            ObjectMessage::Durable { key, version } => {
                out.push(6);
                (*key, *version).encode(out);
            }
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => ObjectMessage::Taken(u64::decode(from)?),
            1 => {
                let ((key, epoch), request) = Wire::decode(from)?;
                ObjectMessage::Want { key, epoch, request }
            }
            2 => {
                let ((key, request), last) = Wire::decode(from)?;
                let ((position, object_version), bytes) = Wire::decode(from)?;
                ObjectMessage::Fragment { key, request, position, object_version, last, bytes }
            }
            3 => ObjectMessage::Say { key: u64::decode(from)?, bytes: Vec::decode(from)? },
            4 => {
                let ((key, query), bytes) = Wire::decode(from)?;
                ObjectMessage::Ask { key, query, bytes }
            }
            6 => ObjectMessage::Durable { key: u64::decode(from)?, version: u64::decode(from)? },
            5 => ObjectMessage::Reply {
                query: u64::decode(from)?,
                outcome: QueryOutcome::decode(from)?,
            },
            _ => return None,
        })
    }
}
