//! A participant's part in reading the history of topics: the choice of the participant to ask, and
//! the forwarding of requests to the thread that reads logs here.
//!
//! Owns: the choice of the participant that is asked. Never does: read a log.

use std::sync::Arc;

use derecho_core::ids::NodeId;
use derecho_core::machine::Effects;
use derecho_core::storage::store_set::StoreGroupState;

use super::ParticipantMachine;
use crate::mapping::past::{
    LogLocation, OwnLog, PastMessage, PastPage, PastRequest, SharedPastRequests,
};

impl ParticipantMachine {
    /// Requests for the history of topics.
    pub(crate) fn past(&self) -> SharedPastRequests {
        Arc::clone(&self.past)
    }

    /// This participant's log of a reader's topic.
    pub(crate) fn own_log(&self, reader: u64) -> OwnLog {
        let key = self.readers.get(&reader).map(|reader| reader.endpoint.key());
        key.map_or(OwnLog::Absent, |key| self.atomic.own_log(key))
    }

    /// Folder and stream of this participant's log of a topic, if the log is complete.
    pub(crate) fn complete_log_of(&self, key: u64) -> Option<LogLocation> {
        match self.atomic.own_log(key) {
            OwnLog::Complete { location, .. } => Some(location),
            OwnLog::Absent | OwnLog::Incomplete | OwnLog::Over(_) => None,
        }
    }

    /// Participants other than this one whose logs of a reader's topic are complete.
    fn others_with_log(&self, reader: u64) -> Option<(u64, Vec<NodeId>)> {
        let key = self.readers.get(&reader)?.endpoint.key();
        let (state, me) = (self.group.state(), self.group.node().id());
        let (logs, holders) = state.logs(key).zip(state.holders(key))?;
        let complete = logs.complete(holders).map(|(node, _)| node);
        Some((key, complete.filter(|node| *node != me).collect()))
    }

    /// Whether another participant has a complete log of a reader's topic.
    pub(crate) fn has_other_log(&self, reader: u64) -> bool {
        self.others_with_log(reader).is_some_and(|(_, others)| !others.is_empty())
    }

    /// Whether this participant knows who keeps logs.
    pub(crate) fn knows_logs(&self) -> bool {
        self.group.is_informed()
    }

    /// Asks a participant with a complete log of this reader's topic: the last one again if
    /// possible, and none that was tried before. Returns the participant, and the number of
    /// other candidates.
    pub(crate) fn ask_past(
        &mut self,
        reader: u64,
        request: PastRequest,
        last: Option<NodeId>,
        tried: &[NodeId],
        effects: &mut Effects,
    ) -> Option<(NodeId, usize)> {
        let (key, mut others) = self.others_with_log(reader)?;
        others.retain(|node| !tried.contains(node));
        let of = last.filter(|last| others.contains(last)).or(others.first().copied())?;
        let request = PastRequest { key, ..request };
        self.past.note_sent(&request, of);
        if !self.group.send_direct(of, PastMessage::Request(request).to_bytes(), effects) {
            self.past.answered(
                of,
                request.reading,
                request.page,
                PastPage::Refused("the participant has left".to_owned()),
            );
        }
        Some((of, others.len() - 1))
    }

    /// Answers a request.
    pub(crate) fn answer_past(
        &mut self,
        to: NodeId,
        request: PastRequest,
        content: PastPage,
        effects: &mut Effects,
    ) {
        let PastRequest { reading, page, .. } = request;
        let answer = PastMessage::Answer { reading, page, content };
        self.group.send_direct(to, answer.to_bytes(), effects);
    }

    pub(super) fn receive_past_message(
        &mut self,
        from: NodeId,
        word: Option<PastMessage>,
        effects: &mut Effects,
    ) {
        match word {
            Some(PastMessage::Request(request)) => {
                let why = match self.complete_log_of(request.key) {
                    None => "the participant keeps no complete log of the topic",
                    Some(_) if self.past.enqueue(from, request) => return,
                    Some(_) => "too many requests of other participants are pending",
                };
                self.answer_past(from, request, PastPage::Refused(why.to_owned()), effects);
            }
            Some(PastMessage::Answer { reading, page, content }) => {
                self.past.answered(from, reading, page, content);
            }
            None => tracing::warn!(node = %from, "malformed message about past samples ignored"),
        }
    }
}
