//! Reports of orders that stand still, to the log and to callers.
//!
//! Owns: the beginning and the last report of each standstill. Never does: decide which member is
//! awaited, or exclude a member; the group does.

use std::collections::BTreeMap;
use std::time::Duration;

use derecho_core::group::Wait;
use derecho_core::ids::Time;
use derecho_core::membership::WaitAnswer;

use super::ParticipantMachine;
use crate::infrastructure::{InstanceHandle, Standstill};

/// Delay in nanoseconds before the first report. A member that keeps up makes every condition true
/// much sooner.
const REPORT_AFTER: u64 = 100_000_000;
/// Interval in nanoseconds between reports of a standstill.
const REPORT_INTERVAL: u64 = 1_000_000_000;

/// An order that stands still.
struct OngoingStandstill {
    since: Time,
    /// Time of the last report, if there was one.
    reported_at: Option<Time>,
}

/// All standstills by subgroup; without a key the group's own.
#[derive(Default)]
pub(super) struct Standstills {
    known: BTreeMap<Option<u64>, OngoingStandstill>,
    now: Time,
}

impl ParticipantMachine {
    /// Checks for standstills and reports them to the log: after a tenth of a second, and
    /// repeatedly while they last.
    pub(super) fn check_standstills(&mut self, now: Time) {
        self.standstills.now = now;
        let mut since: BTreeMap<Option<u64>, Time> = BTreeMap::new();
        for (wait, at) in self.group.waits() {
            let first = since.entry(self.subject_of(wait)).or_insert(at);
            *first = (*first).min(at);
        }
        if since.is_empty() && self.standstills.known.is_empty() {
            return;
        }
        // During a view change all orders stand still, and the members of the view are awaited.
        let changes = self.group.agreement().is_wedged();
        let known = std::mem::take(&mut self.standstills.known);
        for (key, ongoing) in known {
            if since.contains_key(&key) || changes {
                self.standstills.known.insert(key, ongoing);
            } else if ongoing.reported_at.is_some() {
                let topic = self.name_of(key).unwrap_or_default();
                let lasted = now.since(ongoing.since) / 1_000_000;
                tracing::info!(%topic, lasted_ms = lasted, "standstill of an order ended");
            }
        }
        for (key, at) in since {
            let ongoing = self
                .standstills
                .known
                .entry(key)
                .or_insert(OngoingStandstill { since: at, reported_at: None });
            let is_due = match ongoing.reported_at {
                None => now.since(ongoing.since) >= REPORT_AFTER,
                Some(reported_at) => now.since(reported_at) >= REPORT_INTERVAL,
            };
            if is_due {
                ongoing.reported_at = Some(now);
                if let Some(standstill) = self.standstill(key) {
                    tracing::warn!(
                        topic = standstill.topic.as_deref().unwrap_or_default(),
                        "{standstill}"
                    );
                }
            }
        }
    }

    /// Reports a participant that answers but makes no progress. Either it is suspected, or it acts
    /// in a way that this participant cannot see.
    pub(super) fn report_stuck(&self, wait: Wait, answer: WaitAnswer) {
        let topic = self.name_of(wait.key).unwrap_or_default();
        let participant = InstanceHandle { node: wait.node, entity: 0 };
        tracing::error!(
            %topic, %participant, "a participant {}: it answers, and {answer}", wait.condition
        );
    }

    /// Standstills of at least a tenth of a second.
    pub(crate) fn standstills(&self) -> Vec<Standstill> {
        let known = self.standstills.known.iter();
        let long =
            known.filter(|(_, ongoing)| self.standstills.now.since(ongoing.since) >= REPORT_AFTER);
        long.filter_map(|(key, _)| self.standstill(*key)).collect()
    }

    /// Key of the topic that waits; `None` for the group's control stream.
    fn subject_of(&self, wait: Wait) -> Option<u64> {
        wait.key.filter(|key| self.name_of(Some(*key)).is_some())
    }

    fn name_of(&self, key: Option<u64>) -> Option<String> {
        let state = self.group.state();
        let mut endpoints = state.writers_of(key?).chain(state.readers_of(key?));
        endpoints.next().map(|(_, _, endpoint)| endpoint.topic.clone())
    }

    fn standstill(&self, key: Option<u64>) -> Option<Standstill> {
        let ongoing = self.standstills.known.get(&key)?;
        let lasts = Duration::from_nanos(self.standstills.now.since(ongoing.since));
        let waits = self.group.waits().filter(|(wait, _)| self.subject_of(*wait) == key);
        let awaited = waits.map(|(wait, _)| {
            let participant = InstanceHandle { node: wait.node, entity: 0 };
            (participant, wait.condition.to_string())
        });
        Some(Standstill { topic: self.name_of(key), lasts, awaited: awaited.collect() })
    }
}
