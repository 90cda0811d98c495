//! This participant's part in topics that are kept in logs.
//!
//! Owns: the choice of topics that are logged here, and their storage status. Never does: write a
//! log; the log ports of the store set do.

use std::collections::{BTreeSet, VecDeque};

use derecho_core::ids::NodeId;
use derecho_core::link::Link;
use derecho_core::machine::Effects;
use derecho_core::storage::log_election::ElectionState;
use derecho_core::storage::log_port::LogPortCondition;
use derecho_core::storage::store_set::StoreGroupState;

use super::{AtomicTopics, DomainGroup};
use crate::infrastructure::{LogCondition, StorageStatus};
use crate::mapping::discovery::STAND_INS;
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::kept_replay::MEANING;
use crate::mapping::past::OwnLog;
use crate::mapping::topic_logs::TopicLogs;

impl AtomicTopics {
    /// Keeps logs of logged topics in these logs' folder.
    pub(in crate::mapping) fn keep_logs(&mut self, logs: TopicLogs) {
        self.archive = Some(logs);
    }

    /// Stops keeping logs. Other participants may use the folder once the returned value
    /// is dropped.
    pub(in crate::mapping) fn end_logs(&mut self) -> Option<TopicLogs> {
        let logs = self.archive.take()?;
        self.depot.end_logs();
        Some(logs)
    }

    /// Whether the topic of this endpoint must be logged here and has no log yet.
    pub(in crate::mapping) fn wants(&self, endpoint: &Endpoint) -> bool {
        let wanted = |logs: &TopicLogs| logs.wants(endpoint);
        let fresh = || !self.depot.has_log(endpoint.key());
        endpoint.level.is_logged() && self.archive.as_ref().is_some_and(wanted) && fresh()
    }

    /// Storage status of a topic, as far as it is known here; `None` if the topic is not kept.
    pub(in crate::mapping) fn storage(
        &self,
        domain: &DomainGroup,
        key: u64,
    ) -> Option<StorageStatus> {
        let keeper = self.depot.store(key)?;
        let state = domain.state();
        let complete = state.logs(key).zip(state.holders(key));
        let mut status = StorageStatus {
            samples: keeper.store().version(),
            kept: keeper.store().len(),
            durable: self.depot.durable(key),
            logs: complete.map_or(0, |(logs, holders)| logs.complete(holders).count()),
            log: keeper.condition().map(|condition| self.described(condition)),
            full_logs: self.full_logs(domain, key),
            waits_for: Vec::new(),
        };
        match domain.state().awaited(key) {
            Some(standing @ ElectionState::Waits(_)) => {
                let book = state.logs(key);
                status.waits_for = book.map_or(Vec::new(), |book| book.described(&standing));
            }
            Some(ElectionState::NoLogs) => {
                status.waits_for.push("a participant that keeps logs".to_owned());
            }
            Some(ElectionState::Begins(_)) | None => {}
        }
        Some(status)
    }

    /// Other participants' logs that wait for disk space and block the topic, with their owners. A
    /// log that is being completed blocks nothing.
    fn full_logs(&self, domain: &DomainGroup, key: u64) -> Vec<String> {
        let state = domain.state();
        let Some((logs, holders)) = state.logs(key).zip(state.holders(key)) else {
            return Vec::new();
        };
        let full: BTreeSet<NodeId> = self.depot.full(key).collect();
        let theirs = logs.complete(holders).filter(|(node, _)| full.contains(node));
        theirs.map(|(node, log)| format!("log {log} of participant {node}")).collect()
    }

    /// Condition of a local log. Descriptions of faults name the folder.
    fn described(&self, condition: LogPortCondition) -> LogCondition {
        let folder = self.archive.as_ref().map(|logs| logs.folder().display().to_string());
        let within = |why: String| match &folder {
            Some(folder) if !why.contains(folder) => format!("{folder}: {why}"),
            _ => why,
        };
        match LogCondition::from(condition) {
            LogCondition::Harmed(why) => LogCondition::Harmed(within(why)),
            LogCondition::Failed(why) => LogCondition::Failed(within(why)),
            condition => condition,
        }
    }

    /// Traces the number of samples that are durable everywhere, as a counter for each topic.
    pub(super) fn count_durable(&mut self) {
        let mut moved = std::mem::take(&mut self.newly_durable);
        moved.extend(self.depot.newly_durable());
        for key in moved.drain(..) {
            let stay = self.memberships.get(&key).and_then(VecDeque::front);
            let topic = stay.and_then(|stay| stay.endpoints.values().next());
            if let Some(Endpoint { topic, .. }) = topic {
                let durable = self.depot.durable(key);
                tracing::trace!(target: "squall::durable", topic, counter.durable = durable);
            }
        }
        self.newly_durable = moved;
    }

    /// This participant's log of a topic, and how much of the topic's history the log holds.
    pub(in crate::mapping) fn own_log(&self, key: u64) -> OwnLog {
        let keeper = self.depot.store(key);
        let Some((condition, logs)) =
            keeper.and_then(|keeper| keeper.condition()).zip(self.archive.as_ref())
        else {
            return OwnLog::Absent;
        };
        if condition.is_over() {
            return OwnLog::Over(self.described(condition));
        }
        if !self.depot.has_complete_log(key) {
            return OwnLog::Incomplete;
        }
        OwnLog::Complete {
            place: logs.place_of(key),
            durable: self.depot.own_durable(key),
            delivered: keeper.map_or(0, |keeper| keeper.store().version()),
        }
    }

    /// Names, types and storage statuses of the topics that are kept here.
    pub(in crate::mapping) fn stored(
        &self,
        domain: &DomainGroup,
    ) -> Vec<(String, String, StorageStatus)> {
        let stays = self.memberships.iter().filter_map(|(key, stays)| Some((*key, stays.front()?)));
        let named = stays.filter_map(|(key, stay)| Some((key, stay.endpoints.values().next()?)));
        let all = named.filter_map(|(key, endpoint)| {
            let (topic, of) = (endpoint.topic.clone(), endpoint.data_type.name.clone());
            Some((topic, of, self.storage(domain, key)?))
        });
        all.collect()
    }

    /// Takes part in a logged topic from now on. Returns `false` if there is no memory for it
    /// at present.
    pub(in crate::mapping) fn log(
        &mut self,
        domain: &mut DomainGroup,
        link: &mut impl Link,
        endpoint: &Endpoint,
        effects: &mut Effects,
    ) -> bool {
        if !self.wants(endpoint) {
            return true;
        }
        let stays = self.membership(domain, link, endpoint, effects).map(drop).is_ok();
        if stays {
            self.keep(domain, endpoint);
        }
        stays
    }

    /// Keeps the samples of this topic from now on, if its level requires that.
    pub(super) fn keep(&mut self, domain: &mut DomainGroup, endpoint: &Endpoint) {
        let key = endpoint.key();
        if endpoint.level.is_kept() {
            self.depot.keep(key, endpoint.retention.retention(), MEANING);
        }
        let logs = self.archive.as_ref().filter(|_| endpoint.level.is_logged());
        let (Some(logs), false) = (logs, self.depot.has_log(key)) else { return };
        self.depot.log(key, logs.journal(endpoint));
        // The topic is logged as long as this participant exists, even if all other
        // participants leave.
        let Some(stays) = self.memberships.get_mut(&key) else { return };
        let is_first = stays.len() == 1;
        let Some(stay) = stays.back_mut() else { return };
        let lines = stay.lines.0.0;
        let keeper = endpoint.stand_in(EndpointKind::Log, (0, lines));
        stay.add(domain, key, (log_endpoint_id(key), keeper), is_first);
    }
}

/// Id of the endpoint that stands for the log of a topic. No other endpoint has such an id, because
/// ids are counted from one.
fn log_endpoint_id(key: u64) -> u64 {
    key | STAND_INS
}
