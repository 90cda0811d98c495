//! Messages of a participant to its whole domain, delivered in the group's order.
//!
//! Owns: the encoding. Never does: decide the consequences; the replicated state does.

use derecho_core::bytes::{ByteReader, Wire};
use derecho_core::storage::store_set::StoreAnnouncement;

use super::directory::{ParticipantFacts, TopicFacts};
use super::endpoint::Endpoint;
use super::type_parts::TypePart;

/// A message of a participant to all members.
pub(crate) enum Announcement {
    /// The endpoint with this id; `None` if it has ended.
    Endpoint(u64, Option<Endpoint>),
    /// Change of the kept samples of a topic.
    Storage(u64, StoreAnnouncement),
    /// Part of the description of a type that the participant uses.
    Type(TypePart),
    /// Announcement of the participant about itself.
    Participant(ParticipantFacts),
    /// The topic with this id; `None` if it has ended.
    Topic(u64, Option<TopicFacts>),
}

impl Wire for Announcement {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Announcement::Endpoint(id, endpoint) => {
                out.push(0);
                encode_named(*id, endpoint.as_ref().map(Endpoint::encode), out);
            }
            Announcement::Storage(key, announcement) => {
                out.push(1);
                key.encode(out);
                announcement.encode(out);
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

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
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

/// Encodes an id and a value. An ended entity has empty bytes.
fn encode_named(id: u64, what: Option<Vec<u8>>, out: &mut Vec<u8>) {
    id.encode(out);
    what.unwrap_or_default().encode(out);
}

fn decode_named<T>(
    from: &mut ByteReader<'_>,
    decode: fn(&[u8]) -> Option<T>,
) -> Option<(u64, Option<T>)> {
    let (id, bytes) = (u64::decode(from)?, Vec::<u8>::decode(from)?);
    let what = if bytes.is_empty() { None } else { Some(decode(&bytes)?) };
    Some((id, what))
}
