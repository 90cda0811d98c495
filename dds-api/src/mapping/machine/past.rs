//! A participant's part in telling the past of topics: whom it asks, and what it passes on to whoever reads logs here.
//!
//! Owns: the choice of who is asked. Never does: read a log.

use std::path::PathBuf;
use std::sync::Arc;

use derecho_core::ids::NodeId;
use derecho_core::log::StreamKey;
use derecho_core::machine::Effects;
use derecho_core::storage::depot::Holding;

use super::ParticipantMachine;
use crate::mapping::past::{Ask, Page, SharedPastDesk, Word};

impl ParticipantMachine {
    /// What is asked of the past of topics.
    pub(crate) fn past(&self) -> SharedPastDesk {
        Arc::clone(&self.past)
    }

    /// Where the log is of a topic, if there is one here.
    pub(crate) fn log_of_key(&self, key: u64) -> Option<(PathBuf, StreamKey)> {
        self.atomic.log_of_key(key)
    }

    /// Asks a participant whose log of this reader's topic lacks nothing: the last one again, if it can be, and none that was
    /// tried. Returns whom, and how many others could be.
    pub(crate) fn ask_past(
        &mut self,
        reader: u64,
        ask: Ask,
        (last, tried): (Option<NodeId>, &[NodeId]),
        effects: &mut Effects,
    ) -> Option<(NodeId, usize)> {
        let key = self.readers.get(&reader)?.endpoint.key();
        let (state, me) = (self.group.state(), self.group.node().id());
        let (logs, holders) = state.logs(key).zip(state.holders(key))?;
        let complete = logs.complete(holders).map(|(node, _)| node);
        let others: Vec<NodeId> =
            complete.filter(|node| *node != me && !tried.contains(node)).collect();
        let of = last.filter(|last| others.contains(last)).or(others.first().copied())?;
        let ask = Ask { key, ..ask };
        self.past.asks(&ask, of);
        if !self.group.send_direct(of, Word::Ask(ask).to_bytes(), effects) {
            self.past.answered(of, ask.reading, ask.page, Page::Refused("it is gone".to_owned()));
        }
        Some((of, others.len() - 1))
    }

    /// Answers what was asked.
    pub(crate) fn answer_past(
        &mut self,
        (to, ask): (NodeId, Ask),
        content: Page,
        effects: &mut Effects,
    ) {
        let Ask { reading, page, .. } = ask;
        let answer = Word::Answer { reading, page, content };
        self.group.send_direct(to, answer.to_bytes(), effects);
    }

    pub(super) fn told_of_past(&mut self, from: NodeId, word: Option<Word>, effects: &mut Effects) {
        match word {
            Some(Word::Ask(ask)) => {
                let why = match self.log_of_key(ask.key) {
                    None => "it keeps no log of the topic",
                    Some(_) if self.past.is_asked(from, ask) => return,
                    Some(_) => "too many others have asked already",
                };
                self.answer_past((from, ask), Page::Refused(why.to_owned()), effects);
            }
            Some(Word::Answer { reading, page, content }) => {
                self.past.answered(from, reading, page, content);
            }
            None => tracing::warn!(node = %from, "a participant tells what makes no sense"),
        }
    }
}
