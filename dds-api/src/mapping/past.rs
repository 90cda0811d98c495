//! The history of topics for participants that keep no log of them: requests to participants with
//! logs, and their answers.
//!
//! Owns: the messages, the pending requests, and the received answers. Never does: read a log;
//! [`server`] does, outside of turns.
//!
//! ```text
//!   participant without a log                      participant with a complete log
//!     --- Ask(reading, page, wanted) --------->    its log service thread reads from the files
//!     <-- Answer(reading, page, records) ------
//!     ... the next page, from the same participant, or from another one if that is gone ...
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::bytes::{ByteReader, Wire};
use derecho_core::group::report::StreamId;
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::log::StreamKey;

use crate::infrastructure::LogCondition;

pub(crate) mod files;
pub(crate) mod server;

/// First byte of these messages. No message about kept samples begins with it.
const TAG: u8 = 0x50;
/// Maximum number of waiting requests. Further ones are refused.
const MOST_REQUESTS: usize = 256;

/// The wanted part of the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PastRange {
    /// Samples after this position in the topic's order.
    After(u64),
    /// Samples written at this time or later, after this position.
    Since(u64, u64),
    /// The last sample of each instance that was written at this time or before.
    StateAt(u64),
}

/// Place of a topic's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogLocation {
    pub(crate) folder: PathBuf,
    pub(crate) stream: StreamKey,
}

/// A participant's own log of a topic, and how much of the topic's history the log holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OwnLog {
    /// The participant keeps no log of the topic.
    Absent,
    /// The log still lacks samples that were written before.
    Incomplete,
    /// The log accepts no more samples, and lacks later ones.
    Over(LogCondition),
    /// The log holds every sample up to `durable`. `delivered` is the number of samples delivered
    /// to the participant.
    Complete { location: LogLocation, durable: u64, delivered: u64 },
}

/// A request for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PastRequest {
    /// Number of the reading at the requesting participant, and of its page.
    pub(crate) reading: u64,
    pub(crate) page: u64,
    /// Key of the topic.
    pub(crate) key: u64,
    pub(crate) wanted: PastRange,
}

/// A sample from a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PastRecord {
    /// Position in the topic's order.
    pub(crate) position: u64,
    pub(crate) stream: StreamId,
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
}

/// Answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PastPage {
    /// Samples, the position up to which the page reaches, and whether that is the end.
    Records(Vec<PastRecord>, u64, bool),
    /// The requested part was dropped; the log now begins at this position.
    Gone(u64),
    /// The log ends at this position.
    Beyond(u64),
    /// The participant cannot answer, for this reason.
    Refused(String),
}

impl Wire for PastRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.position, (self.stream.node, self.stream.region.0)).encode(out);
        (self.number, self.payload.clone()).encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        let (position, (node, region)) = Wire::decode(from)?;
        let (number, payload) = Wire::decode(from)?;
        let stream = StreamId { node, region: RegionId(region) };
        Some(PastRecord { position, stream, number, payload })
    }
}

/// A message between two participants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PastMessage {
    Request(PastRequest),
    Answer { reading: u64, page: u64, content: PastPage },
}

impl PastMessage {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![TAG];
        match self {
            PastMessage::Request(PastRequest { reading, page, key, wanted }) => {
                (0_u8, ((*reading, *page), *key)).encode(&mut out);
                match wanted {
                    PastRange::After(position) => (0_u8, (*position, 0_u64)),
                    PastRange::Since(time, position) => (1_u8, (*position, *time)),
                    PastRange::StateAt(time) => (2_u8, (0, *time)),
                }
                .encode(&mut out);
            }
            PastMessage::Answer { reading, page, content } => {
                (1_u8, (*reading, *page)).encode(&mut out);
                match content {
                    PastPage::Records(records, next, over) => {
                        (0_u8, (*next, *over)).encode(&mut out);
                        records.encode(&mut out);
                    }
                    PastPage::Gone(from) => (1_u8, *from).encode(&mut out),
                    PastPage::Beyond(last) => (2_u8, *last).encode(&mut out),
                    PastPage::Refused(why) => (3_u8, why.clone()).encode(&mut out),
                }
            }
        }
        out
    }

    /// Decodes a message: `None` if it is not about history; `Some(None)` if it is invalid.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Option<PastMessage>> {
        let rest = bytes.strip_prefix(&[TAG])?;
        Some(PastMessage::decode(&mut ByteReader::new(rest)))
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<PastMessage> {
        match from.byte()? {
            0 => {
                let ((reading, page), key) = Wire::decode(from)?;
                let (what, (position, time)) = <(u8, (u64, u64))>::decode(from)?;
                let wanted = match what {
                    0 => PastRange::After(position),
                    1 => PastRange::Since(time, position),
                    2 => PastRange::StateAt(time),
                    _ => return None,
                };
                Some(PastMessage::Request(PastRequest { reading, page, key, wanted }))
            }
            1 => {
                let (reading, page) = Wire::decode(from)?;
                let content = match from.byte()? {
                    0 => {
                        let (next, over) = Wire::decode(from)?;
                        PastPage::Records(Wire::decode(from)?, next, over)
                    }
                    1 => PastPage::Gone(Wire::decode(from)?),
                    2 => PastPage::Beyond(Wire::decode(from)?),
                    3 => PastPage::Refused(Wire::decode(from)?),
                    _ => return None,
                };
                Some(PastMessage::Answer { reading, page, content })
            }
            _ => None,
        }
    }
}

/// A request that was sent, and its answer.
struct SentRequest {
    page: u64,
    of: NodeId,
    content: Option<PastPage>,
}

/// Pending requests of a participant and to a participant, kept through all its lives.
#[derive(Default)]
pub(crate) struct PastRequests {
    readings: AtomicU64,
    sent: Mutex<BTreeMap<u64, SentRequest>>,
    received: Mutex<VecDeque<(NodeId, PastRequest)>>,
    has_received: AtomicBool,
}

impl PastRequests {
    fn sent(&self) -> MutexGuard<'_, BTreeMap<u64, SentRequest>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of a new reading.
    pub(crate) fn begin(&self) -> u64 {
        self.readings.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes a request that is sent to a participant.
    pub(crate) fn note_sent(&self, request: &PastRequest, of: NodeId) {
        self.sent().insert(request.reading, SentRequest { page: request.page, of, content: None });
    }

    /// Whether an answer has arrived.
    pub(crate) fn has(&self, reading: u64) -> bool {
        self.sent().get(&reading).is_some_and(|request| request.content.is_some())
    }

    /// Takes the answer and ends the request.
    pub(crate) fn take(&self, reading: u64) -> Option<PastPage> {
        self.sent().remove(&reading)?.content
    }

    /// Stores the answer of a participant.
    pub(crate) fn answered(&self, from: NodeId, reading: u64, page: u64, content: PastPage) {
        if let Some(request) = self.sent().get_mut(&reading)
            && (request.of, request.page) == (from, page)
        {
            request.content = Some(content);
        }
    }

    /// Refuses pending requests to participants that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(NodeId) -> bool) {
        for request in self.sent().values_mut().filter(|asked| !is_there(asked.of)) {
            request
                .content
                .get_or_insert_with(|| PastPage::Refused("the participant has left".to_owned()));
        }
    }

    /// Queues a request of another participant. Returns `false` if too many are waiting.
    pub(crate) fn enqueue(&self, from: NodeId, request: PastRequest) -> bool {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = received.len() < MOST_REQUESTS;
        if has_room {
            received.push_back((from, request));
            self.has_received.store(true, Ordering::Release);
        }
        has_room
    }

    /// Takes the queued requests.
    pub(crate) fn take_received(&self) -> VecDeque<(NodeId, PastRequest)> {
        if !self.has_received.swap(false, Ordering::AcqRel) {
            return VecDeque::new();
        }
        std::mem::take(&mut *self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Handle on the requests, shared within a participant.
pub(crate) type SharedPastRequests = Arc<PastRequests>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_messages_decode_as_encoded_and_prefixes_are_rejected() {
        let stream = StreamId { node: NodeId(4), region: RegionId(5) };
        let record = PastRecord { position: 1, stream, number: 6, payload: vec![7, 8] };
        let request_of =
            |wanted| PastMessage::Request(PastRequest { reading: 1, page: 2, key: 3, wanted });
        let answer = |content| PastMessage::Answer { reading: 1, page: 2, content };
        for message in [
            request_of(PastRange::After(9)),
            request_of(PastRange::Since(9, 10)),
            request_of(PastRange::StateAt(9)),
            answer(PastPage::Records(vec![record.clone(), record], 9, true)),
            answer(PastPage::Gone(9)),
            answer(PastPage::Beyond(9)),
            answer(PastPage::Refused("no".to_owned())),
        ] {
            let bytes = message.to_bytes();
            assert_eq!(PastMessage::from_bytes(&bytes), Some(Some(message)));
            for end in 1..bytes.len() {
                assert_eq!(PastMessage::from_bytes(&bytes[..end]), Some(None));
            }
        }
        assert_eq!(PastMessage::from_bytes(&[1, 2]), None);
    }

    #[test]
    fn answer_is_taken_only_for_requested_page_from_asked_participant() {
        let requests = PastRequests::default();
        let reading = requests.begin();
        let request = PastRequest { reading, page: 1, key: 3, wanted: PastRange::After(0) };
        requests.note_sent(&request, NodeId(1));
        requests.answered(NodeId(2), reading, 1, PastPage::Gone(1));
        requests.answered(NodeId(1), reading, 0, PastPage::Gone(1));
        assert!(!requests.has(reading));
        requests.retain(|node| node != NodeId(2));
        assert!(!requests.has(reading));
        requests.answered(NodeId(1), reading, 1, PastPage::Gone(7));
        requests.retain(|_| false);
        assert_eq!(
            requests.take(reading),
            Some(PastPage::Gone(7)),
            "answer from before the departure counts"
        );
        assert_eq!(requests.take(reading), None);
        requests.note_sent(&request, NodeId(1));
        requests.retain(|_| false);
        assert!(matches!(requests.take(reading), Some(PastPage::Refused(_))));
    }
}
