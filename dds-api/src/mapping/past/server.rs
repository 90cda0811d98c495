//! Reading a log for other participants.
//!
//! Owns: the readings of other participants from this log, page by page (I-154). Never does: block
//! a turn; the log service thread calls it.

use std::collections::BTreeMap;

use derecho_core::ids::NodeId;
use derecho_core::log::{LogError, WallTime};

use super::files::{self, PastFileReader};
use super::{LogLocation, PastPage, PastRange, PastRequest};

/// Maximum number of bytes and of samples in one page.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_SAMPLES: usize = 4096;
/// Maximum number of bytes of a state, which is sent as a whole.
const STATE_BYTES: usize = 32 << 20;
/// Maximum number of open readings. The oldest ones beyond that are reopened for their next page.
const MOST_OPEN: usize = 16;

/// A reading in progress, and its last page.
struct OpenReading {
    page: u64,
    files: PastFileReader,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct PastServer {
    open: BTreeMap<(NodeId, u64), OpenReading>,
}

impl PastServer {
    /// Answers a request from the given log.
    pub(crate) fn answer(
        &mut self,
        log: Option<LogLocation>,
        from: NodeId,
        request: &PastRequest,
    ) -> PastPage {
        let Some(log) = log else {
            return PastPage::Refused("the participant keeps no log of the topic".to_owned());
        };
        let answer = match request.wanted {
            PastRange::StateAt(time) => state_at(&log, WallTime(time)),
            _ => self.page(&log, from, request),
        };
        answer.unwrap_or_else(|error| match error {
            LogError::Gone { from } => PastPage::Gone(from.0),
            LogError::Beyond { last } => PastPage::Beyond(last.0),
            error => PastPage::Refused(format!("the participant's log cannot be read: {error}")),
        })
    }

    fn page(
        &mut self,
        log: &LogLocation,
        from: NodeId,
        ask: &PastRequest,
    ) -> Result<PastPage, LogError> {
        let name = (from, ask.reading);
        // Continues an open reading, if this is its next page.
        let known = self.open.remove(&name).filter(|open| open.page + 1 == ask.page);
        let mut files = match (known, ask.wanted) {
            (Some(open), _) => open.files,
            (None, PastRange::Since(time, 0)) => PastFileReader::since(log, WallTime(time))?,
            (None, PastRange::After(position) | PastRange::Since(_, position)) => {
                PastFileReader::after(log, position)?
            }
            (None, PastRange::StateAt(_)) => {
                return Ok(PastPage::Refused("a request for the state has no pages".to_owned()));
            }
        };
        let since = WallTime(if let PastRange::Since(time, _) = ask.wanted { time } else { 0 });
        let (mut records, mut bytes, mut over) = (Vec::new(), 0, false);
        while !over && bytes < PAGE_BYTES && records.len() < PAGE_SAMPLES {
            let next = files.next(since)?;
            over = next.is_none();
            bytes += next.as_ref().map_or(0, |record| record.payload.len());
            records.extend(next);
        }
        let next = files.position();
        if !over {
            if self.open.len() >= MOST_OPEN {
                self.open.pop_first();
            }
            self.open.insert(name, OpenReading { page: ask.page, files });
        }
        Ok(PastPage::Records(records, next, over))
    }
}

fn state_at(log: &LogLocation, time: WallTime) -> Result<PastPage, LogError> {
    let state = files::state_at(log, time)?;
    if state.iter().map(|record| record.payload.len()).sum::<usize>() > STATE_BYTES {
        return Ok(PastPage::Refused(format!(
            "the state has more than {} MiB, the limit for answers to other participants: ask in \
             the participant that keeps the log",
            STATE_BYTES >> 20
        )));
    }
    let last = state.last().map_or(0, |record| record.position);
    Ok(PastPage::Records(state, last, true))
}
