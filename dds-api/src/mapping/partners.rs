//! With whom an endpoint of this participant is matched, and with whom it cannot be: what its statuses tell.
//!
//! Owns: when a match, or that there can be none, is news. Never does: decide whether two endpoints match.

use std::collections::BTreeMap;

use derecho_core::ids::NodeId;
use qos_profiles::{Incompatibility, PolicyId};

use super::endpoint::Match;
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::board::{Board, Statuses};
use crate::infrastructure::status::{QosPolicyCount, StatusKind};

/// On which side of a match an endpoint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Writer,
    Reader,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Partner {
    Matched,
    Incompatible(Vec<PolicyId>),
    Inconsistent,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Partners {
    side: Side,
    known: BTreeMap<(NodeId, u64), Partner>,
}

/// What a verdict means for somebody who has to know.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Nothing,
    /// They cannot be matched, as was not known: of a topic of the same name something else is meant.
    Inconsistent(String),
}

impl Partners {
    pub(super) fn new(side: Side) -> Partners {
        Partners { side, known: BTreeMap::new() }
    }

    /// Whether it is matched with an endpoint.
    pub(super) fn has(&self, node: NodeId, id: u64) -> bool {
        self.known.get(&(node, id)) == Some(&Partner::Matched)
    }

    /// Those that it is matched with.
    pub(super) fn matched(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let matched = self.known.iter().filter(|(_, partner)| **partner == Partner::Matched);
        matched.map(|(who, _)| *who)
    }

    /// It was looked at whether it goes with an endpoint.
    pub(super) fn judge(&mut self, board: &Board, who: (NodeId, u64), verdict: Match) -> Outcome {
        let partner = match &verdict {
            Match::Yes => Partner::Matched,
            Match::Incompatible(why) => {
                Partner::Incompatible(why.iter().map(|one| one.policy).collect())
            }
            Match::Inconsistent(_) => Partner::Inconsistent,
            Match::OtherTopic | Match::OtherPartition => {
                self.lose(board, who);
                return Outcome::Nothing;
            }
        };
        if self.known.get(&who) == Some(&partner) {
            return Outcome::Nothing;
        }
        self.lose(board, who);
        self.known.insert(who, partner);
        match verdict {
            Match::Incompatible(why) => self.refuse(board, &why),
            Match::Inconsistent(why) => return Outcome::Inconsistent(why),
            _ => self.count(board, who, 1),
        }
        Outcome::Nothing
    }

    /// An endpoint is no more, or has nothing to do with this one any more.
    pub(super) fn lose(&mut self, board: &Board, who: (NodeId, u64)) {
        if self.known.remove(&who) == Some(Partner::Matched) {
            self.count(board, who, -1);
        }
    }

    /// All that it knows of are lost to it.
    pub(super) fn part(&self, board: &Board) {
        self.matched().for_each(|who| self.count(board, who, -1));
    }

    /// One more it is matched with, or one less.
    fn count(&self, board: &Board, (node, entity): (NodeId, u64), change: i64) {
        let handle = Some(InstanceHandle { node, entity });
        let more = u64::from(change > 0);
        match self.side {
            Side::Writer => board.note(StatusKind::PublicationMatched, |all| {
                let status = &mut all.publication_matched;
                status.count(more);
                status.current_count = status.current_count.saturating_add_signed(change);
                status.current_count_change += change;
                status.last_subscription_handle = handle;
            }),
            Side::Reader => board.note(StatusKind::SubscriptionMatched, |all| {
                let status = &mut all.subscription_matched;
                status.count(more);
                status.current_count = status.current_count.saturating_add_signed(change);
                status.current_count_change += change;
                status.last_publication_handle = handle;
            }),
        }
    }

    /// One that offers too little, or requests too much.
    fn refuse(&self, board: &Board, why: &[Incompatibility]) {
        let kind = match self.side {
            Side::Writer => StatusKind::OfferedIncompatibleQos,
            Side::Reader => StatusKind::RequestedIncompatibleQos,
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

    fn refusal(policy: PolicyId) -> Match {
        Match::Incompatible(vec![Incompatibility {
            policy,
            name: policy.name(),
            reason: "less".into(),
        }])
    }

    #[test]
    fn each_change_is_counted_once() {
        let (board, mut partners) = (Board::default(), Partners::new(Side::Writer));
        let matched =
            || board.take(StatusKind::PublicationMatched, |all| &mut all.publication_matched);
        for _ in 0..2 {
            assert_eq!(partners.judge(&board, ONE, Match::Yes), Outcome::Nothing);
            partners.judge(&board, TWO, Match::Yes);
        }
        let status = matched();
        assert_eq!((status.total_count, status.current_count), (2, 2));
        partners.judge(&board, ONE, Match::OtherPartition);
        partners.lose(&board, ONE);
        let status = matched();
        assert_eq!((status.total_count, status.current_count), (2, 1));
        assert_eq!((status.total_count_change, status.current_count_change), (0, -1));
        assert!(!partners.has(ONE.0, ONE.1) && partners.has(TWO.0, TWO.1));
        assert!(matches!(
            partners.judge(&board, TWO, Match::Inconsistent("other".into())),
            Outcome::Inconsistent(_)
        ));
        assert_eq!(matched().current_count, 0);
    }

    #[test]
    fn a_refusal_names_its_policies_and_is_news_again_when_they_are_others() {
        let (board, mut partners) = (Board::default(), Partners::new(Side::Reader));
        for _ in 0..2 {
            partners.judge(&board, ONE, refusal(PolicyId::Deadline));
        }
        partners.judge(&board, TWO, refusal(PolicyId::Deadline));
        partners.judge(&board, TWO, refusal(PolicyId::Ownership));
        let kind = StatusKind::RequestedIncompatibleQos;
        let status = board.take(kind, |all| &mut all.incompatible_qos);
        assert_eq!((status.total_count, status.last_policy_id), (3, Some(PolicyId::Ownership)));
        let counts: Vec<_> = status.policies.iter().map(|it| (it.policy_id, it.count)).collect();
        assert_eq!(counts, [(PolicyId::Deadline, 2), (PolicyId::Ownership, 1)]);
        assert!(status.last_reason.unwrap().contains("OWNERSHIP"));
    }
}
