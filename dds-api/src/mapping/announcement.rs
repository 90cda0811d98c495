//! What a participant says to all of its domain, in the group's order.
//!
//! Owns: the forms of it. Never does: say what follows; the state that hears it does.

use derecho_core::bytes::{Reader, Wire};
use derecho_core::storage::depot::Motion;

use super::directory::{ParticipantFacts, TopicFacts};
use super::endpoint::Endpoint;
use super::type_parts::TypePart;

/// What a participant says to all.
pub(crate) enum Announcement {
    /// It has this endpoint, which it calls so; none if it is no more.
    Endpoint(u64, Option<Endpoint>),
    /// Of what is kept of a topic.
    Storage(u64, Motion),
    /// Of a type that it has topics or endpoints of.
    Type(TypePart),
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
                encode_named(*id, endpoint.as_ref().map(Endpoint::encode), out);
            }
            Announcement::Storage(key, motion) => {
                out.push(1);
                key.encode(out);
                motion.encode(out);
            }
            Announcement::Type(part) => {
                out.push(2);
                part.encode(out);
            }
            Announcement::Participant(data) => {
                out.push(3);
                data.encode().encode(out);
            }
            Announcement::Topic(id, data) => {
                out.push(4);
                encode_named(*id, data.as_ref().map(TopicFacts::encode), out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => {
                let (id, endpoint) = decode_named(from, Endpoint::decode)?;
                Announcement::Endpoint(id, endpoint)
            }
            1 => Announcement::Storage(Wire::decode(from)?, Wire::decode(from)?),
            2 => Announcement::Type(Wire::decode(from)?),
            3 => {
                let bytes = Vec::<u8>::decode(from)?;
                Announcement::Participant(ParticipantFacts::decode(&bytes)?)
            }
            4 => {
                let (id, data) = decode_named(from, TopicFacts::decode)?;
                Announcement::Topic(id, data)
            }
            _ => return None,
        })
    }
}

/// What is called so, or that it is no more: nothing at all.
fn encode_named(id: u64, what: Option<Vec<u8>>, out: &mut Vec<u8>) {
    id.encode(out);
    what.unwrap_or_default().encode(out);
}

fn decode_named<T>(
    from: &mut Reader<'_>,
    decode: fn(&[u8]) -> Option<T>,
) -> Option<(u64, Option<T>)> {
    let (id, bytes) = (u64::decode(from)?, Vec::<u8>::decode(from)?);
    let what = if bytes.is_empty() { None } else { Some(decode(&bytes)?) };
    Some((id, what))
}
