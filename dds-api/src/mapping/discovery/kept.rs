//! Replicated knowledge about the holders of kept samples, and about the participants that keep
//! logs.
//!
//! Owns: how both follow from the endpoints of a topic and from the participants' announcements.
//! Never does: keep samples.

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::storage::log_election::{ElectionState, LogElection};
use derecho_core::storage::store_set::{StoreAnnouncement, StoreGroupState};
use derecho_core::transfer::holders::Holders;

use super::{Discovery, stream_of};
use crate::mapping::announcement::Announcement;
use crate::mapping::endpoint::EndpointKind;
use crate::mapping::level::TopicLevel;

impl Discovery {
    /// Participants with an endpoint of a topic other than the stand-in of a former reader.
    pub(super) fn active_participants(&self, key: u64) -> Vec<NodeId> {
        let mut participants: Vec<NodeId> = Vec::new();
        for (node, id) in self.topics.of(key) {
            let at_work =
                self.endpoint(node, id).is_some_and(|it| it.kind != EndpointKind::FormerReader);
            if at_work && participants.last() != Some(&node) {
                participants.push(node);
            }
        }
        participants
    }

    /// Updates the holders of a topic's kept samples after a change of its endpoints.
    pub(super) fn settle_holders(&mut self, key: u64) {
        let level = self.first_of(key).map(|endpoint| endpoint.level);
        let participants = self.active_participants(key);
        if !level.is_some_and(TopicLevel::is_kept) || participants.is_empty() {
            // A later endpoint of a logged topic begins from the logs.
            self.holders.remove(&key);
            self.logs.remove(&key);
            return;
        }
        let holders = self.holders.entry(key).or_default();
        holders.retain(|node| participants.contains(node));
        if level.is_some_and(TopicLevel::is_logged) {
            let logs = self.logs.entry(key).or_default();
            if let Some(log_register) = &self.log_register {
                logs.await_logs(log_register.awaited_of(stream_of(key)));
            }
            logs.retain(|node| participants.contains(node));
            logs.settle(holders, &participants);
        } else {
            holders.settle(&participants, |_| participants.first().copied());
        }
    }

    /// Whether a logged topic waits for logs (I-106).
    pub(super) fn waits(&self, key: u64) -> bool {
        self.logs.contains_key(&key) && !self.holders.get(&key).is_some_and(Holders::has_begun)
    }

    /// Condition for which a logged topic waits, if it does.
    pub(crate) fn awaited(&self, key: u64) -> Option<ElectionState> {
        let (logs, holders) = (self.logs.get(&key)?, self.holders.get(&key)?);
        holders.names().is_empty().then(|| logs.state(holders.vacancies()))
    }

    /// Applies an announcement about the kept samples of a topic. Returns the keys of topics whose
    /// members change.
    pub(super) fn apply_store_announcement(
        &mut self,
        from: NodeId,
        key: u64,
        announcement: StoreAnnouncement,
    ) -> Vec<u64> {
        let takes_part = self.active_participants(key).contains(&from);
        let Some(holders) = self.holders.get_mut(&key).filter(|_| takes_part) else {
            return Vec::new();
        };
        let had_begun = holders.has_begun();
        match (announcement, self.logs.get_mut(&key)) {
            (StoreAnnouncement::Holds(beginning), _) => holders.holds(from, beginning),
            (StoreAnnouncement::Lacks(vacancy), _) => {
                holders.lacks(from, vacancy);
            }
            (StoreAnnouncement::Claims(vacancy, claim), Some(logs)) => {
                logs.claim(from, vacancy, *claim)
            }
            (StoreAnnouncement::Disclaims(holds), Some(logs)) => {
                logs.disclaim(from);
                if !holds {
                    holders.forget(from);
                }
            }
            (StoreAnnouncement::Claims(..) | StoreAnnouncement::Disclaims(_), None) => {}
        }
        self.settle_holders(key);
        // The topic's layout has seats only from now on.
        let begins = !had_begun && self.holders.get(&key).is_some_and(Holders::has_begun);
        if begins && self.logs.contains_key(&key) { vec![key] } else { Vec::new() }
    }
}

impl StoreGroupState for Discovery {
    fn holders(&self, key: u64) -> Option<&Holders> {
        self.holders.get(&key)
    }

    fn logs(&self, key: u64) -> Option<&LogElection> {
        self.logs.get(&key)
    }

    fn announcement(&self, key: u64, motion: StoreAnnouncement) -> Vec<u8> {
        Announcement::Storage(key, motion).to_bytes()
    }
}
