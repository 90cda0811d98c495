//! Matched and incompatible endpoints of one local endpoint, as reported by its statuses.
//!
//! Owns: the decision whether a match or an incompatibility is new. Never does: decide whether two
//! endpoints match.

use std::collections::BTreeMap;

use derecho_core::ids::NodeId;
use qos_profiles::{Incompatibility, PolicyId};

use super::endpoint::MatchVerdict;
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
enum Partner {
    /// Whether the endpoint is announced as alive.
    Matched(bool),
    Incompatible(Vec<PolicyId>),
    Inconsistent,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct MatchedPartners {
    side: MatchSide,
    known: BTreeMap<(NodeId, u64), Partner>,
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

    /// Whether the local endpoint is matched with this one.
    pub(super) fn has(&self, node: NodeId, id: u64) -> bool {
        matches!(self.known.get(&(node, id)), Some(Partner::Matched(_)))
    }

    /// The matched endpoints.
    pub(super) fn matched(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let matched =
            self.known.iter().filter(|(_, partner)| matches!(partner, Partner::Matched(_)));
        matched.map(|(endpoint, _)| *endpoint)
    }

    /// Applies the verdict of a match with an endpoint, and whether that endpoint is announced as
    /// alive.
    pub(super) fn judge(
        &mut self,
        board: &StatusBoard,
        (endpoint, alive): ((NodeId, u64), bool),
        verdict: MatchVerdict,
    ) -> MatchOutcome {
        let partner = match &verdict {
            MatchVerdict::Yes => Partner::Matched(alive),
            MatchVerdict::Incompatible(why) => {
                Partner::Incompatible(why.iter().map(|one| one.policy).collect())
            }
            MatchVerdict::Inconsistent(_) => Partner::Inconsistent,
            MatchVerdict::OtherTopic | MatchVerdict::OtherPartition => {
                self.remove(board, endpoint);
                return MatchOutcome::Nothing;
            }
        };
        if self.known.get(&endpoint) == Some(&partner) {
            return MatchOutcome::Nothing;
        }
        if let (Some(Partner::Matched(was)), Partner::Matched(_)) =
            (self.known.get(&endpoint), &partner)
        {
            self.adjust_liveliness(board, endpoint, [(*was, -1), (alive, 1)]);
            self.known.insert(endpoint, partner);
            return MatchOutcome::Nothing;
        }
        self.remove(board, endpoint);
        self.known.insert(endpoint, partner);
        match verdict {
            MatchVerdict::Incompatible(why) => self.refuse(board, &why),
            MatchVerdict::Inconsistent(why) => return MatchOutcome::Inconsistent(why),
            _ => self.count(board, endpoint, (alive, 1)),
        }
        MatchOutcome::Nothing
    }

    /// Removes an endpoint that has ended or is no longer related to the local one.
    pub(super) fn remove(&mut self, board: &StatusBoard, endpoint: (NodeId, u64)) {
        if let Some(Partner::Matched(alive)) = self.known.remove(&endpoint) {
            self.count(board, endpoint, (alive, -1));
        }
    }

    /// Reports the loss of all matched endpoints.
    pub(super) fn unmatch_all(&self, board: &StatusBoard) {
        for (endpoint, partner) in &self.known {
            if let Partner::Matched(alive) = partner {
                self.count(board, *endpoint, (*alive, -1));
            }
        }
    }

    /// Adjusts the counts of writers that are alive or not alive.
    fn adjust_liveliness(
        &self,
        board: &StatusBoard,
        (node, entity): (NodeId, u64),
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
            status.last_publication_handle = Some(InstanceHandle { node, entity });
        });
    }

    /// Counts one match more or one less.
    fn count(&self, board: &StatusBoard, endpoint: (NodeId, u64), (alive, change): (bool, i64)) {
        let (node, entity) = endpoint;
        let handle = Some(InstanceHandle { node, entity });
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
                self.adjust_liveliness(board, endpoint, [(alive, change)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (NodeId, u64) = (NodeId(1), 1);
    const TWO: (NodeId, u64) = (NodeId(2), 1);

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
            assert_eq!(
                partners.judge(&board, (ONE, true), MatchVerdict::Yes),
                MatchOutcome::Nothing
            );
            partners.judge(&board, (TWO, true), MatchVerdict::Yes);
        }
        let status = matched();
        assert_eq!((status.total_count, status.current_count), (2, 2));
        partners.judge(&board, (ONE, true), MatchVerdict::OtherPartition);
        partners.remove(&board, ONE);
        let status = matched();
        assert_eq!((status.total_count, status.current_count), (2, 1));
        assert_eq!((status.total_count_change, status.current_count_change), (0, -1));
        assert!(!partners.has(ONE.0, ONE.1) && partners.has(TWO.0, TWO.1));
        assert!(matches!(
            partners.judge(&board, (TWO, true), MatchVerdict::Inconsistent("other".into())),
            MatchOutcome::Inconsistent(_)
        ));
        assert_eq!(matched().current_count, 0);
    }

    #[test]
    fn incompatibility_names_policies_and_counts_again_when_they_change() {
        let (board, mut partners) =
            (StatusBoard::default(), MatchedPartners::new(MatchSide::Reader));
        for _ in 0..2 {
            partners.judge(&board, (ONE, true), refusal(PolicyId::Deadline));
        }
        partners.judge(&board, (TWO, true), refusal(PolicyId::Deadline));
        partners.judge(&board, (TWO, true), refusal(PolicyId::Ownership));
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
        partners.judge(&board, (ONE, true), MatchVerdict::Yes);
        partners.judge(&board, (TWO, true), MatchVerdict::Yes);
        assert_eq!(counts(), ((2, 0), (2, 0)));
        partners.judge(&board, (ONE, false), MatchVerdict::Yes);
        assert_eq!(counts(), ((1, 1), (-1, 1)));
        partners.judge(&board, (ONE, true), MatchVerdict::Yes);
        partners.judge(&board, (TWO, false), MatchVerdict::Yes);
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
            partners.judge(&board, (ONE, true), MatchVerdict::Yes);
            partners.judge(&board, (TWO, true), refusal(PolicyId::Deadline));
            assert!(partners.matched().eq([ONE]) && !partners.has(TWO.0, TWO.1));
            partners.unmatch_all(&board);
            let counts = match side {
                MatchSide::Writer => {
                    let kind = StatusKind::PublicationMatched;
                    let status = board.take(kind, |all| &mut all.publication_matched);
                    assert_eq!(status.last_subscription_handle.map(|it| it.node), Some(ONE.0));
                    (status.total_count, status.current_count)
                }
                MatchSide::Reader => {
                    let kind = StatusKind::SubscriptionMatched;
                    let status = board.take(kind, |all| &mut all.subscription_matched);
                    assert_eq!(status.last_publication_handle.map(|it| it.node), Some(ONE.0));
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
