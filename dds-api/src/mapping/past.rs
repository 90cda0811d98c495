//! The past of topics, for participants that keep no log of them: what is asked of those that do, and what they answer.
//!
//! Owns: the messages, what was asked of whom, and what has come. Never does: read a log; [`server`] does, in no turn.
//!
//! ```text
//!   one that keeps no log                          one whose log lacks nothing
//!     --- Ask(reading, page, what is wanted) -->   its attendant reads so much of the files
//!     <-- Answer(reading, page, records) ---
//!     ... the next page, of the same one, or of another one if that is gone ...
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::bytes::{Reader, Wire};
use derecho_core::group::report::StreamId;
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::log::StreamKey;

use crate::infrastructure::LogCondition;

pub(crate) mod files;
pub(crate) mod server;

/// What these messages begin with; none that speaks of what is kept does.
const TAG: u8 = 0x50;
/// So many questions wait to be answered at most; who asks beyond that is told so.
const MOST_ASKS: usize = 256;

/// What of the past is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// What comes after this place in the topic's order.
    After(u64),
    /// Of what comes after this place what was written at this time or later.
    Since(u64, u64),
    /// The last sample of each instance that was written at this time or before.
    StateAt(u64),
}

/// A participant's own log of a topic, and how much of the topic's past the log holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OwnLog {
    /// The participant keeps no log of the topic.
    Absent,
    /// The log still lacks samples that were written before.
    Incomplete,
    /// The log takes nothing more, and lacks what came since.
    Over(LogCondition),
    /// The log holds every sample up to `durable`; so many were delivered to the participant.
    Complete { place: (PathBuf, StreamKey), durable: u64, delivered: u64 },
}

/// A question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    /// What the asker calls it, and which part of it.
    pub(crate) reading: u64,
    pub(crate) page: u64,
    /// The topic.
    pub(crate) key: u64,
    pub(crate) wanted: Wanted,
}

/// A sample as a log has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PastRecord {
    /// Its place in the topic's order.
    pub(crate) place: u64,
    pub(crate) stream: StreamId,
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
}

/// What comes of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Page {
    /// These samples, the place up to which that is, and whether that is the end.
    Records(Vec<PastRecord>, u64, bool),
    /// The log begins with this place now.
    Gone(u64),
    /// The log ends with this place.
    Beyond(u64),
    /// It cannot answer, because of this.
    Refused(String),
}

impl Wire for PastRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.place, (self.stream.node, self.stream.region.0)).encode(out);
        (self.number, self.payload.clone()).encode(out);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let (place, (node, region)) = Wire::decode(from)?;
        let (number, payload) = Wire::decode(from)?;
        let stream = StreamId { node, region: RegionId(region) };
        Some(PastRecord { place, stream, number, payload })
    }
}

/// What one says to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Ask(Ask),
    Answer { reading: u64, page: u64, content: Page },
}

impl Word {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![TAG];
        match self {
            Word::Ask(Ask { reading, page, key, wanted }) => {
                (0_u8, ((*reading, *page), *key)).encode(&mut out);
                match wanted {
                    Wanted::After(place) => (0_u8, (*place, 0_u64)),
                    Wanted::Since(time, place) => (1_u8, (*place, *time)),
                    Wanted::StateAt(time) => (2_u8, (0, *time)),
                }
                .encode(&mut out);
            }
            Word::Answer { reading, page, content } => {
                (1_u8, (*reading, *page)).encode(&mut out);
                match content {
                    Page::Records(records, next, over) => {
                        (0_u8, (*next, *over)).encode(&mut out);
                        records.encode(&mut out);
                    }
                    Page::Gone(from) => (1_u8, *from).encode(&mut out),
                    Page::Beyond(last) => (2_u8, *last).encode(&mut out),
                    Page::Refused(why) => (3_u8, why.clone()).encode(&mut out),
                }
            }
        }
        out
    }

    /// `None` if it is not about the past; `Some(None)` if it makes no sense.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Option<Word>> {
        let rest = bytes.strip_prefix(&[TAG])?;
        Some(Word::decode(&mut Reader::new(rest)))
    }

    fn decode(from: &mut Reader<'_>) -> Option<Word> {
        match from.byte()? {
            0 => {
                let ((reading, page), key) = Wire::decode(from)?;
                let (what, (place, time)) = <(u8, (u64, u64))>::decode(from)?;
                let wanted = match what {
                    0 => Wanted::After(place),
                    1 => Wanted::Since(time, place),
                    2 => Wanted::StateAt(time),
                    _ => return None,
                };
                Some(Word::Ask(Ask { reading, page, key, wanted }))
            }
            1 => {
                let (reading, page) = Wire::decode(from)?;
                let content = match from.byte()? {
                    0 => {
                        let (next, over) = Wire::decode(from)?;
                        Page::Records(Wire::decode(from)?, next, over)
                    }
                    1 => Page::Gone(Wire::decode(from)?),
                    2 => Page::Beyond(Wire::decode(from)?),
                    3 => Page::Refused(Wire::decode(from)?),
                    _ => return None,
                };
                Some(Word::Answer { reading, page, content })
            }
            _ => None,
        }
    }
}

/// A question that was asked, and what has come of it.
struct Asked {
    page: u64,
    of: NodeId,
    content: Option<Page>,
}

/// What a participant has asked, and what it was asked, through all its lives.
#[derive(Default)]
pub(crate) struct PastDesk {
    readings: AtomicU64,
    asked: Mutex<BTreeMap<u64, Asked>>,
    asks: Mutex<VecDeque<(NodeId, Ask)>>,
    has_asks: AtomicBool,
}

impl PastDesk {
    fn asked(&self) -> MutexGuard<'_, BTreeMap<u64, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for another reading.
    pub(crate) fn begin(&self) -> u64 {
        self.readings.fetch_add(1, Ordering::Relaxed)
    }

    /// This is asked of a participant.
    pub(crate) fn asks(&self, ask: &Ask, of: NodeId) {
        self.asked().insert(ask.reading, Asked { page: ask.page, of, content: None });
    }

    /// Whether something has come of what was asked.
    pub(crate) fn has(&self, reading: u64) -> bool {
        self.asked().get(&reading).is_some_and(|asked| asked.content.is_some())
    }

    /// What has come of it. Nothing more of it is wanted.
    pub(crate) fn take(&self, reading: u64) -> Option<Page> {
        self.asked().remove(&reading)?.content
    }

    /// Somebody answers.
    pub(crate) fn answered(&self, from: NodeId, reading: u64, page: u64, content: Page) {
        if let Some(asked) = self.asked().get_mut(&reading)
            && (asked.of, asked.page) == (from, page)
        {
            asked.content = Some(content);
        }
    }

    /// Those alone are there.
    pub(crate) fn retain(&self, is_there: impl Fn(NodeId) -> bool) {
        for asked in self.asked().values_mut().filter(|asked| !is_there(asked.of)) {
            asked.content.get_or_insert_with(|| Page::Refused("it is gone".to_owned()));
        }
    }

    /// Somebody asks. `false`: too many wait already.
    pub(crate) fn is_asked(&self, from: NodeId, ask: Ask) -> bool {
        let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = asks.len() < MOST_ASKS;
        if has_room {
            asks.push_back((from, ask));
            self.has_asks.store(true, Ordering::Release);
        }
        has_room
    }

    /// What is to be answered.
    pub(crate) fn take_asks(&self) -> VecDeque<(NodeId, Ask)> {
        if !self.has_asks.swap(false, Ordering::AcqRel) {
            return VecDeque::new();
        }
        std::mem::take(&mut *self.asks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What participants share of it.
pub(crate) type SharedPastDesk = Arc<PastDesk>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_and_no_prefix_is() {
        let stream = StreamId { node: NodeId(4), region: RegionId(5) };
        let record = PastRecord { place: 1, stream, number: 6, payload: vec![7, 8] };
        let ask = |wanted| Word::Ask(Ask { reading: 1, page: 2, key: 3, wanted });
        let answer = |content| Word::Answer { reading: 1, page: 2, content };
        for word in [
            ask(Wanted::After(9)),
            ask(Wanted::Since(9, 10)),
            ask(Wanted::StateAt(9)),
            answer(Page::Records(vec![record.clone(), record], 9, true)),
            answer(Page::Gone(9)),
            answer(Page::Beyond(9)),
            answer(Page::Refused("no".to_owned())),
        ] {
            let bytes = word.to_bytes();
            assert_eq!(Word::from_bytes(&bytes), Some(Some(word)));
            for end in 1..bytes.len() {
                assert_eq!(Word::from_bytes(&bytes[..end]), Some(None));
            }
        }
        assert_eq!(Word::from_bytes(&[1, 2]), None);
    }

    #[test]
    fn only_what_was_asked_is_taken_and_only_from_whom() {
        let desk = PastDesk::default();
        let reading = desk.begin();
        let ask = Ask { reading, page: 1, key: 3, wanted: Wanted::After(0) };
        desk.asks(&ask, NodeId(1));
        desk.answered(NodeId(2), reading, 1, Page::Gone(1));
        desk.answered(NodeId(1), reading, 0, Page::Gone(1));
        assert!(!desk.has(reading));
        desk.retain(|node| node != NodeId(2));
        assert!(!desk.has(reading));
        desk.answered(NodeId(1), reading, 1, Page::Gone(7));
        desk.retain(|_| false);
        assert_eq!(desk.take(reading), Some(Page::Gone(7)), "it had answered");
        assert_eq!(desk.take(reading), None);
        desk.asks(&ask, NodeId(1));
        desk.retain(|_| false);
        assert!(matches!(desk.take(reading), Some(Page::Refused(_))));
    }
}
