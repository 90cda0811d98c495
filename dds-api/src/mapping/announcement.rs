//! What a participant says to all of its domain, in the group's order.
//!
//! Owns: the forms of it. Never does: say what follows; the state that hears it does.

use derecho_core::bytes::{Reader, Wire};
use derecho_core::storage::depot::Motion;

use super::directory::{ParticipantFacts, TopicFacts};
use super::endpoint::Endpoint;

/// What a participant says to all.
pub(crate) enum Announcement {
    /// It has this endpoint, which it calls so; none if it is no more.
    Endpoint(u64, Option<Endpoint>),
    /// Of what is kept of a topic.
    Storage(u64, Motion),
    /// A type that it has topics or endpoints of.
    Type(Vec<u8>),
    /// What there is to say of itself.
    Participant(ParticipantFacts),
    /// It has this topic, which it calls so; none if it is no more.
    Topic(u64, Option<TopicFacts>),
}

impl Wire for Announcement {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Announcement::Endpoint(id, endpoint) => {
                out.push(0);
                id.encode(out);
                endpoint.as_ref().map_or(Vec::new(), Endpoint::encode).encode(out);
            }
            Announcement::Storage(key, motion) => {
                out.push(1);
                key.encode(out);
                motion.encode(out);
            }
            Announcement::Type(bytes) => {
                out.push(2);
                bytes.encode(out);
            }
            Announcement::Participant(data) => {
                out.push(3);
                data.encode().encode(out);
            }
            Announcement::Topic(id, data) => {
                out.push(4);
                id.encode(out);
                data.as_ref().map_or(Vec::new(), TopicFacts::encode).encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => {
                let id = u64::decode(from)?;
                let bytes = Vec::<u8>::decode(from)?;
                let endpoint = match bytes.is_empty() {
                    true => None,
                    false => Some(Endpoint::decode(&bytes)?),
                };
                Announcement::Endpoint(id, endpoint)
            }
            1 => Announcement::Storage(Wire::decode(from)?, Wire::decode(from)?),
            2 => Announcement::Type(Wire::decode(from)?),
            3 => {
                let bytes = Vec::<u8>::decode(from)?;
                Announcement::Participant(ParticipantFacts::decode(&bytes)?)
            }
            4 => {
                let id = u64::decode(from)?;
                let bytes = Vec::<u8>::decode(from)?;
                let data = match bytes.is_empty() {
                    true => None,
                    false => Some(TopicFacts::decode(&bytes)?),
                };
                Announcement::Topic(id, data)
            }
            _ => return None,
        })
    }
}
