//! Partners of one local endpoint: all endpoints that it is compared with. Matches and
//! incompatibilities are told from here alone (I-179).
//!
//! ```text
//!   judge     the announcements say that both are compatible    ┐ both hold: the match is told,
//!   serve     whatever is written from now on reaches the reader ┘ by all counts at once
//! ```
//! Owns: the decision when a match or an incompatibility is told. Never does: decide whether two
//! endpoints are compatible, or whether a reader is served; the machine does.

use std::collections::BTreeMap;

use derecho_core::ids::RegionId;
use qos_profiles::{Incompatibility, PolicyId};

use super::endpoint::{Endpoint, MatchVerdict};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::status::{QosPolicyCount, StatusKind};
use crate::infrastructure::status_board::{StatusBoard, Statuses};

/// Side of a match on which the local endpoint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MatchSide {
    Writer,
    Reader,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum PartnerVerdict {
    Compatible,
    Incompatible(Vec<PolicyId>),
    Inconsistent,
}

/// Another endpoint that the local one is compared with.
#[derive(Debug)]
struct Partner {
    verdict: PartnerVerdict,
    /// Whether the endpoint is announced as alive.
    alive: bool,
    /// Stream of a writer.
    stream: RegionId,
    /// Whether the match is told: the endpoints are compatible, and each sample that the writer
    /// writes from now on reaches the reader.
    is_told: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct MatchedPartners {
    side: MatchSide,
    known: BTreeMap<InstanceHandle, Partner>,
}

/// Consequence of a verdict that the caller must report.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum MatchOutcome {
    Nothing,
    /// The endpoint is newly found to be inconsistent: its topic of the same name is a different
    /// one.
    Inconsistent(String),
}

impl MatchedPartners {
    pub(super) fn new(side: MatchSide) -> MatchedPartners {
        MatchedPartners { side, known: BTreeMap::new() }
    }

    /// Whether the local endpoint is compatible with this one.
    pub(super) fn has(&self, endpoint: InstanceHandle) -> bool {
        let known = self.known.get(&endpoint);
        known.is_some_and(|partner| partner.verdict == PartnerVerdict::Compatible)
    }

    /// The endpoints with which a match is told.
    pub(super) fn matched(&self) -> impl Iterator<Item = InstanceHandle> {
        let matched = self.known.iter().filter(|(_, partner)| partner.is_told);
        matched.map(|(endpoint, _)| *endpoint)
    }

    /// The compatible endpoints.
    pub(super) fn compatible(&self) -> impl Iterator<Item = InstanceHandle> {
        self.known().map(|(endpoint, _)| endpoint).filter(|endpoint| self.has(*endpoint))
    }

    /// All known endpoints, compatible or not, and the stream of each writer.
    pub(super) fn known(&self) -> impl Iterator<Item = (InstanceHandle, RegionId)> {
        self.known.iter().map(|(endpoint, partner)| (*endpoint, partner.stream))
    }

    /// Applies the verdict of a comparison with an announced endpoint. A compatible endpoint is
    /// told by [`serve`](Self::serve).
    pub(super) fn judge(
        &mut self,
        board: &StatusBoard,
        id: InstanceHandle,
        announced: &Endpoint,
        verdict: MatchVerdict,
    ) -> MatchOutcome {
        let partner = match &verdict {
            MatchVerdict::Yes => PartnerVerdict::Compatible,
            MatchVerdict::Incompatible(why) => {
                PartnerVerdict::Incompatible(why.iter().map(|one| one.policy).collect())
            }
            MatchVerdict::Inconsistent(_) => PartnerVerdict::Inconsistent,
            MatchVerdict::OtherTopic | MatchVerdict::OtherPartition => {
                self.remove(board, id);
                return MatchOutcome::Nothing;
            }
        };
        let alive = announced.alive;
        if let Some(known) = self.known.get_mut(&id).filter(|known| known.verdict == partner) {
            let was = std::mem::replace(&mut known.alive, alive);
            if self.side == MatchSide::Reader && known.is_told && was != alive {
                adjust_liveliness(board, id, [(was, -1), (alive, 1)]);
            }
            return MatchOutcome::Nothing;
        }
        self.remove(board, id);
        let stream = RegionId(announced.stream);
        self.known.insert(id, Partner { verdict: partner, alive, stream, is_told: false });
        match verdict {
            MatchVerdict::Incompatible(why) => self.refuse(board, &why),
            MatchVerdict::Inconsistent(why) => return MatchOutcome::Inconsistent(why),
            _ => {}
        }
        MatchOutcome::Nothing
    }

    /// States whether each sample that is written from now on reaches the reader of the match.
    /// Returns whether the match is told or lost by that.
    pub(super) fn serve(
        &mut self,
        board: &StatusBoard,
        endpoint: InstanceHandle,
        served: bool,
    ) -> bool {
        let Some(partner) = self.known.get_mut(&endpoint) else { return false };
        let is_told = served && partner.verdict == PartnerVerdict::Compatible;
        if std::mem::replace(&mut partner.is_told, is_told) == is_told {
            return false;
        }
        let alive = partner.alive;
        self.count(board, endpoint, alive, if is_told { 1 } else { -1 });
        true
    }

    /// Removes an endpoint that has ended or is no longer related to the local one.
    pub(super) fn remove(&mut self, board: &StatusBoard, endpoint: InstanceHandle) {
        self.serve(board, endpoint, false);
        self.known.remove(&endpoint);
    }

    /// Reports the loss of all matched endpoints.
    pub(super) fn unmatch_all(&self, board: &StatusBoard) {
        for (endpoint, partner) in self.known.iter().filter(|(_, partner)| partner.is_told) {
            self.count(board, *endpoint, partner.alive, -1);
        }
    }

    /// Counts one match more or one less.
    fn count(&self, board: &StatusBoard, endpoint: InstanceHandle, alive: bool, change: i64) {
        let handle = Some(endpoint);
        // The loss of a match does not change the total count.
        let more = u64::try_from(change).unwrap_or_default();
        match self.side {
            MatchSide::Writer => board.note(StatusKind::PublicationMatched, |all| {
                let status = &mut all.publication_matched;
                status.count(more);
                status.current_count = status.current_count.saturating_add_signed(change);
                status.current_count_change += change;
                status.last_subscription_handle = handle;
            }),
            MatchSide::Reader => {
                board.note(StatusKind::SubscriptionMatched, |all| {
                    let status = &mut all.subscription_matched;
                    status.count(more);
                    status.current_count = status.current_count.saturating_add_signed(change);
                    status.current_count_change += change;
                    status.last_publication_handle = handle;
                });
                adjust_liveliness(board, endpoint, [(alive, change)]);
            }
        }
    }

    /// Counts an endpoint that offers too little or requests too much.
    fn refuse(&self, board: &StatusBoard, why: &[Incompatibility]) {
        let kind = match self.side {
            MatchSide::Writer => StatusKind::OfferedIncompatibleQos,
            MatchSide::Reader => StatusKind::RequestedIncompatibleQos,
        };
        board.note(kind, |Statuses { incompatible_qos, .. }| {
            incompatible_qos.count(1);
            incompatible_qos.last_policy_id = why.first().map(|one| one.policy);
            let reasons: Vec<String> = why.iter().map(Incompatibility::to_string).collect();
            incompatible_qos.last_reason = Some(reasons.join("; "));
            for Incompatibility { policy, .. } in why {
                let known = incompatible_qos.policies.iter_mut();
                match known.into_iter().find(|count| count.policy_id == *policy) {
                    Some(known) => known.count += 1,
                    None => incompatible_qos
                        .policies
                        .push(QosPolicyCount { policy_id: *policy, count: 1 }),
                }
            }
        });
    }
}

/// Adjusts the counts of writers that are alive or not alive.
fn adjust_liveliness(
    board: &StatusBoard,
    endpoint: InstanceHandle,
    changes: impl IntoIterator<Item = (bool, i64)>,
) {
    board.note(StatusKind::LivelinessChanged, |all| {
        let status = &mut all.liveliness_changed;
        for (alive, change) in changes {
            let (count, changed) = match alive {
                true => (&mut status.alive_count, &mut status.alive_count_change),
                false => (&mut status.not_alive_count, &mut status.not_alive_count_change),
            };
            *count = count.saturating_add_signed(change);
            *changed += change;
        }
        status.last_publication_handle = Some(endpoint);
    });
}

#[cfg(test)]
mod tests {
    use derecho_core::ids::NodeId;

    use super::*;
    use crate::mapping::endpoint::EndpointKind;
    use crate::mapping::level::TopicLevel;

    const ONE: InstanceHandle = InstanceHandle { node: NodeId(1), entity: 1 };
    const TWO: InstanceHandle = InstanceHandle { node: NodeId(2), entity: 1 };

    fn judge(
        partners: &mut MatchedPartners,
        board: &StatusBoard,
        (endpoint, alive): (InstanceHandle, bool),
        verdict: MatchVerdict,
    ) -> MatchOutcome {
        let topic = Endpoint::with_defaults(EndpointKind::Writer, "T", TopicLevel::Unordered);
        partners.judge(board, endpoint, &Endpoint { alive, ..topic }, verdict)
    }

    /// Judges an endpoint to be compatible, and serves it.
    fn match_with(
        partners: &mut MatchedPartners,
        board: &StatusBoard,
        (endpoint, alive): (InstanceHandle, bool),
    ) {
        let outcome = judge(partners, board, (endpoint, alive), MatchVerdict::Yes);
        assert_eq!(outcome, MatchOutcome::Nothing);
        partners.serve(board, endpoint, true);
    }

    fn refusal(policy: PolicyId) -> MatchVerdict {
        MatchVerdict::Incompatible(vec![Incompatibility {
            policy,
            name: policy.name(),
            reason: "less".into(),
        }])
    }

    #[test]
    fn each_change_of_a_match_is_counted_once() {
        let (board, mut partners) =
            (StatusBoard::default(), MatchedPartners::new(MatchSide::Writer));
        let matched =
            || board.take(StatusKind::PublicationMatched, |all| &mut all.publication_matched);
        for _ in 0..2 {
            match_with(&mut partners, &board, (ONE, true));
            match_with(&mut partners, &board, (TWO, true));
        }
        let status = matched();
        assert_eq!((status.total_count, status.current_count), (2, 2));
        judge(&mut partners, &board, (ONE, true), MatchVerdict::OtherPartition);
        partners.remove(&board, ONE);
        let status = matched();
        assert_eq!((status.total_count, status.current_count), (2, 1));
        assert_eq!((status.total_count_change, status.current_count_change), (0, -1));
        assert!(!partners.has(ONE) && partners.has(TWO));
        assert!(matches!(
            judge(&mut partners, &board, (TWO, true), MatchVerdict::Inconsistent("other".into())),
            MatchOutcome::Inconsistent(_)
        ));
        assert_eq!(matched().current_count, 0);
    }

    #[test]
    fn compatible_endpoint_is_told_only_while_it_is_served() {
        for side in [MatchSide::Writer, MatchSide::Reader] {
            let (board, mut partners) = (StatusBoard::default(), MatchedPartners::new(side));
            let count = || match side {
                MatchSide::Writer => board.matched_readers(),
                MatchSide::Reader => board.matched_writers(),
            };
            judge(&mut partners, &board, (ONE, true), MatchVerdict::Yes);
            assert!(board.changes().is_empty() && partners.matched().next().is_none());
            assert!(partners.compatible().eq([ONE]));
            assert!(!partners.serve(&board, TWO, true), "TWO is unknown");
            assert!(partners.serve(&board, ONE, true) && !partners.serve(&board, ONE, true));
            assert!(partners.matched().eq([ONE]) && count() == 1);
            assert!(partners.serve(&board, ONE, false));
            assert!(partners.matched().next().is_none() && count() == 0);
            judge(&mut partners, &board, (ONE, true), refusal(PolicyId::Deadline));
            assert!(!partners.serve(&board, ONE, true), "an incompatible endpoint is not matched");
        }
    }

    #[test]
    fn incompatibility_names_policies_and_counts_again_when_they_change() {
        let (board, mut partners) =
            (StatusBoard::default(), MatchedPartners::new(MatchSide::Reader));
        for _ in 0..2 {
            judge(&mut partners, &board, (ONE, true), refusal(PolicyId::Deadline));
        }
        judge(&mut partners, &board, (TWO, true), refusal(PolicyId::Deadline));
        judge(&mut partners, &board, (TWO, true), refusal(PolicyId::Ownership));
        let kind = StatusKind::RequestedIncompatibleQos;
        let status = board.take(kind, |all| &mut all.incompatible_qos);
        assert_eq!((status.total_count, status.last_policy_id), (3, Some(PolicyId::Ownership)));
        let counts: Vec<_> = status.policies.iter().map(|it| (it.policy_id, it.count)).collect();
        assert_eq!(counts, [(PolicyId::Deadline, 2), (PolicyId::Ownership, 1)]);
        assert!(status.last_reason.unwrap().contains("OWNERSHIP"));
    }

    #[test]
    fn a_writer_may_be_matched_and_not_alive() {
        let (board, mut partners) =
            (StatusBoard::default(), MatchedPartners::new(MatchSide::Reader));
        let counts = || {
            let kind = StatusKind::LivelinessChanged;
            let status = board.take(kind, |all| &mut all.liveliness_changed);
            let changes = (status.alive_count_change, status.not_alive_count_change);
            ((status.alive_count, status.not_alive_count), changes)
        };
        match_with(&mut partners, &board, (ONE, true));
        match_with(&mut partners, &board, (TWO, true));
        assert_eq!(counts(), ((2, 0), (2, 0)));
        match_with(&mut partners, &board, (ONE, false));
        assert_eq!(counts(), ((1, 1), (-1, 1)));
        match_with(&mut partners, &board, (ONE, true));
        match_with(&mut partners, &board, (TWO, false));
        partners.remove(&board, TWO);
        assert_eq!(counts(), ((1, 0), (0, -1)));
        let matched =
            board.take(StatusKind::SubscriptionMatched, |all| &mut all.subscription_matched);
        assert_eq!((matched.total_count, matched.current_count), (2, 1));
        assert_eq!((matched.total_count_change, matched.current_count_change), (2, 1));
    }

    #[test]
    fn parted_endpoint_has_no_match_left() {
        for side in [MatchSide::Writer, MatchSide::Reader] {
            let (board, mut partners) = (StatusBoard::default(), MatchedPartners::new(side));
            match_with(&mut partners, &board, (ONE, true));
            judge(&mut partners, &board, (TWO, true), refusal(PolicyId::Deadline));
            assert!(partners.matched().eq([ONE]) && !partners.has(TWO));
            partners.unmatch_all(&board);
            let counts = match side {
                MatchSide::Writer => {
                    let kind = StatusKind::PublicationMatched;
                    let status = board.take(kind, |all| &mut all.publication_matched);
                    assert_eq!(status.last_subscription_handle.map(|it| it.node), Some(ONE.node));
                    (status.total_count, status.current_count)
                }
                MatchSide::Reader => {
                    let kind = StatusKind::SubscriptionMatched;
                    let status = board.take(kind, |all| &mut all.subscription_matched);
                    assert_eq!(status.last_publication_handle.map(|it| it.node), Some(ONE.node));
                    (status.total_count, status.current_count)
                }
            };
            assert_eq!(counts, (1, 0));
            let kind = match side {
                MatchSide::Writer => StatusKind::OfferedIncompatibleQos,
                MatchSide::Reader => StatusKind::RequestedIncompatibleQos,
            };
            assert!(board.changes().contains(kind));
        }
    }
}
