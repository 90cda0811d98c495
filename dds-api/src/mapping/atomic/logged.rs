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
use crate::mapping::kept_replay::RECORD_FORMAT;
use crate::mapping::past::OwnLog;
use crate::mapping::topic_logs::TopicLogs;

impl AtomicTopics {
    /// Keeps logs of logged topics in these logs' folder.
    pub(in crate::mapping) fn keep_logs(&mut self, logs: TopicLogs) {
        self.logs = Some(logs);
    }

    /// Stops keeping logs. Other participants may use the folder once the returned value
    /// is dropped.
    pub(in crate::mapping) fn end_logs(&mut self) -> Option<TopicLogs> {
        let logs = self.logs.take()?;
        self.stores.end_logs();
        Some(logs)
    }

    /// Whether the topic of this endpoint must be logged here and has no log yet.
    pub(in crate::mapping) fn wants(&self, endpoint: &Endpoint) -> bool {
        let wanted = |logs: &TopicLogs| logs.wants(endpoint);
        let fresh = || !self.stores.has_log(endpoint.key());
        endpoint.level.is_logged() && self.logs.as_ref().is_some_and(wanted) && fresh()
    }

    /// Storage status of a topic, as far as it is known here; `None` if the topic is not kept.
    pub(in crate::mapping) fn storage(
        &mut self,
        domain: &DomainGroup,
        key: u64,
    ) -> Option<StorageStatus> {
        let kept = self.stores.store_mut(key)?.store().len();
        let store = self.stores.subgroup_store(key)?;
        let state = domain.state();
        let complete = state.logs(key).zip(state.holders(key));
        let mut status = StorageStatus {
            samples: store.version(),
            kept,
            durable: self.stores.durable(key),
            logs: complete.map_or(0, |(logs, holders)| logs.complete(holders).count()),
            log: store.condition().map(|condition| self.described(condition)),
            full_logs: self.full_logs(domain, key),
            waits_for: Vec::new(),
        };
        match domain.state().awaited(key) {
            Some(election_state @ ElectionState::Waits(_)) => {
                let election = state.logs(key);
                status.waits_for =
                    election.map_or(Vec::new(), |book| book.described(&election_state));
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
        let full: BTreeSet<NodeId> = self.stores.full(key).collect();
        let theirs = logs.complete(holders).filter(|(node, _)| full.contains(node));
        theirs.map(|(node, log)| format!("log {log} of participant {node}")).collect()
    }

    /// Condition of a local log. Descriptions of faults name the folder.
    fn described(&self, condition: LogPortCondition) -> LogCondition {
        let folder = self.logs.as_ref().map(|logs| logs.folder().display().to_string());
        let within = |why: String| match &folder {
            Some(folder) if !why.contains(folder) => format!("{folder}: {why}"),
            _ => why,
        };
        match LogCondition::from(condition) {
            LogCondition::Damaged(why) => LogCondition::Damaged(within(why)),
            LogCondition::Failed(why) => LogCondition::Failed(within(why)),
            condition => condition,
        }
    }

    /// Traces the number of samples that are durable everywhere, as a counter for each topic.
    pub(super) fn count_durable(&mut self) {
        let mut newly_durable = std::mem::take(&mut self.newly_durable);
        newly_durable.extend(self.stores.newly_durable());
        for key in newly_durable.drain(..) {
            let membership = self.memberships.get(&key).and_then(VecDeque::front);
            let topic = membership.and_then(|stay| stay.endpoints.values().next());
            if let Some(Endpoint { topic, .. }) = topic {
                let durable = self.stores.durable(key);
                tracing::trace!(target: "squall::durable", topic, counter.durable = durable);
            }
        }
        self.newly_durable = newly_durable;
    }

    /// This participant's log of a topic, and how much of the topic's history the log holds.
    pub(in crate::mapping) fn own_log(&self, key: u64) -> OwnLog {
        let store = self.stores.subgroup_store(key);
        let Some((condition, logs)) =
            store.and_then(|keeper| keeper.condition()).zip(self.logs.as_ref())
        else {
            return OwnLog::Absent;
        };
        if condition.is_over() {
            return OwnLog::Over(self.described(condition));
        }
        if !self.stores.has_complete_log(key) {
            return OwnLog::Incomplete;
        }
        OwnLog::Complete {
            location: logs.location_of(key),
            durable: self.stores.own_durable(key),
            delivered: store.map_or(0, |keeper| keeper.version()),
        }
    }

    /// Names, types and storage statuses of the topics that are kept here.
    pub(in crate::mapping) fn stored(
        &mut self,
        domain: &DomainGroup,
    ) -> Vec<(String, String, StorageStatus)> {
        let memberships =
            self.memberships.iter().filter_map(|(key, stays)| Some((*key, stays.front()?)));
        let named = memberships.filter_map(|(key, membership)| {
            let endpoint = membership.endpoints.values().next()?;
            Some((key, endpoint.topic.clone(), endpoint.data_type.name.clone()))
        });
        let named: Vec<(u64, String, String)> = named.collect();
        let all = named
            .into_iter()
            .filter_map(|(key, topic, of)| Some((topic, of, self.storage(domain, key)?)));
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
        let is_member = self.membership(domain, link, endpoint, effects).map(drop).is_ok();
        if is_member {
            self.keep(domain, endpoint);
        }
        is_member
    }

    /// Keeps the samples of this topic from now on, if its level requires that.
    pub(super) fn keep(&mut self, domain: &mut DomainGroup, endpoint: &Endpoint) {
        let key = endpoint.key();
        if endpoint.level.is_kept() {
            self.stores.keep(key, endpoint.retention.retention(), RECORD_FORMAT);
        }
        let logs = self.logs.as_ref().filter(|_| endpoint.level.is_logged());
        let (Some(logs), false) = (logs, self.stores.has_log(key)) else { return };
        let of = domain.state().types().encoded(&endpoint.data_type);
        self.stores.log(key, logs.log_port(endpoint, of.as_deref()));
        // The topic is logged as long as this participant exists, even if all other
        // participants leave.
        let Some(memberships) = self.memberships.get_mut(&key) else { return };
        let is_first = memberships.len() == 1;
        let Some(membership) = memberships.back_mut() else { return };
        let lines = membership.lines.0.0;
        let stand_in = endpoint.stand_in(EndpointKind::Log, 0, lines);
        membership.add(domain, log_endpoint_id(key), stand_in, is_first);
    }
}

/// Id of the endpoint that stands for the log of a topic. No other endpoint has such an id, because
/// ids are counted from one.
fn log_endpoint_id(key: u64) -> u64 {
    key | STAND_INS
}
