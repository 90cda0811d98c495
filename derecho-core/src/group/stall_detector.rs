//! Detection of a member that is alive, answers, and makes no progress (I-336).
//!
//! Owns: the question why a condition of a subgroup does not come true, the answers, and the
//! consequences of an answer that stays the same. Never does: judge a silent member, which the
//! [silence detector](super::silence_detector) does.
//!
//! ```text
//!   a wait lasts for the limit ──> Why ──> the awaited member looks at its own part ──> Because
//!   same answer for four limits, or for sixteen if memory is copied over a link that may be slow:
//!     Excused   it waits itself                     nothing: it asks the member that it awaits
//!     Due       it owes this, waits for nobody      it is suspected
//!     True      it has done this                    the other members are asked for their view.
//!     Unseen    it sees nothing that asks for this  If more of them need the same and lack it than
//!                                                   see it, it is suspected. If more see it and it
//!                                                   says True, this node is blind and falls out
//! ```
//! If two members contradict each other and no other member is a witness, nobody is suspected; the
//! status names the awaited member.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::control::UnicastMessage;
use super::{Group, GroupEvent, ReplicatedState, Wait};
use crate::bytes::{ByteReader, Wire};
use crate::ids::{NodeId, Time};
use crate::link::Sharing;
use crate::membership::{MemberStatus, WaitAnswer, WaitCondition};

/// Number of limits for which an answer must stay the same before it counts.
fn answer_limits(sharing: Sharing) -> u64 {
    match sharing {
        Sharing::Shared => 4,
        // New data may wait behind a full send buffer.
        Sharing::Copied => 16,
    }
}

/// Number of questions to a member within the limit.
const ASKS: u64 = 4;

/// Question about an awaited member: to that member, or to a witness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WaitQuestion {
    /// View of the asking member.
    view: u64,
    /// Awaited member.
    about: NodeId,
    /// Key of the subgroup.
    key: u64,
    /// Epoch in which the condition must come true, or which must begin.
    epoch: u64,
    condition: WaitCondition,
    /// Progress of the awaited member, as the asking member sees it.
    progress: u64,
}

impl Wire for WaitQuestion {
    fn encode(&self, out: &mut Vec<u8>) {
        let WaitQuestion { view, about, key, epoch, condition, progress } = *self;
        ((view, about), ((key, epoch), (condition as u8, progress))).encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        let ((view, about), ((key, epoch), (condition, progress))) = Wire::decode(from)?;
        let condition: u8 = condition;
        let condition = *WaitCondition::ALL.get(usize::from(condition))?;
        Some(WaitQuestion { view, about, key, epoch, condition, progress })
    }
}

/// Wait that has lasted for the limit.
struct StuckWait {
    /// Start of the wait: a later start is another wait.
    since: Time,
    question: WaitQuestion,
    asked_at: Time,
    /// Last answer of the awaited member, time since which it is the same, and time of
    /// its last arrival.
    answer: Option<(WaitAnswer, Time, Time)>,
    /// Observations of the other members, each with its time; `None` if the other members have
    /// not been asked.
    witnesses: Option<BTreeMap<NodeId, (WaitAnswer, Time)>>,
}

/// Detector of awaited members that make no progress: the waits of this node that have lasted for
/// the limit.
pub(super) struct StallDetector {
    /// Maximum time without progress; `None` if no member is ever suspected.
    limit: Option<u64>,
    stuck_waits: BTreeMap<Wait, StuckWait>,
}

impl StallDetector {
    pub(super) fn new(limit: Option<u64>) -> StallDetector {
        StallDetector { limit, stuck_waits: BTreeMap::new() }
    }
}

/// Consequence of an answer that has stayed the same.
enum StallVerdict {
    Wait,
    Suspect,
    /// This node does not see data that other members see.
    Blind,
}

/// Whether the protocol itself makes the condition true. Room is excluded, because it
/// depends on applications.
fn is_of_protocol(condition: WaitCondition) -> bool {
    use WaitCondition::{End, Opening, Receipt, Slot, Start};
    matches!(condition, Start | Opening | Receipt | Slot | End)
}

impl<S: ReplicatedState> Group<S> {
    /// Asks the members for which this node has waited for the limit why their conditions do
    /// not come true.
    pub(super) fn ask_why(&mut self, now: Time) {
        let Some(limit) = self.stall_detector.limit else { return };
        let lasting = self.waits().filter(|(wait, since)| {
            wait.key.is_some() && is_of_protocol(wait.condition) && now.since(*since) >= limit
        });
        let lasting: BTreeMap<Wait, Time> = lasting.collect();
        self.stall_detector
            .stuck_waits
            .retain(|wait, stuck| lasting.get(wait) == Some(&stuck.since));
        for (wait, since) in lasting {
            let Some(question) = self.question(wait) else { continue };
            let limits = self.answer_limits_of(wait.node);
            let known =
                self.stall_detector.stuck_waits.get_mut(&wait).filter(|it| it.question == question);
            let needs_witnesses = match known {
                Some(stuck) if now.since(stuck.asked_at) < limit / ASKS => continue,
                Some(stuck) => {
                    stuck.asked_at = now;
                    let is_disputed =
                        |answer| matches!(answer, WaitAnswer::True | WaitAnswer::Unseen);
                    let answer = stuck.answer.filter(|(answer, ..)| is_disputed(*answer));
                    answer.is_some_and(|(_, since, _)| now.since(since) >= (limits - 1) * limit)
                }
                None => {
                    let stuck =
                        StuckWait { since, question, asked_at: now, answer: None, witnesses: None };
                    self.stall_detector.stuck_waits.insert(wait, stuck);
                    false
                }
            };
            self.send_soon(wait.node, &UnicastMessage::Why(question));
            if needs_witnesses {
                if let Some(stuck) = self.stall_detector.stuck_waits.get_mut(&wait) {
                    stuck.witnesses.get_or_insert_default();
                }
                let members = self.installed.members.iter().map(|member| member.node);
                let others = members.filter(|node| *node != wait.node && *node != self.node.id());
                let others: Vec<NodeId> = others.collect();
                others
                    .into_iter()
                    .for_each(|node| self.send_soon(node, &UnicastMessage::Why(question)));
            }
        }
    }

    fn question(&self, wait: Wait) -> Option<WaitQuestion> {
        let Wait { key, condition, node: about } = wait;
        let key = key?;
        let subgroup_progress = self.progress.get(&key);
        let epoch = match condition {
            WaitCondition::Start => self.expected.get(&key).or_else(|| self.next_of(key))?.number,
            WaitCondition::Opening => subgroup_progress?.last_epoch().number,
            _ => self.node.epoch(subgroup_progress?.id()?)?,
        };
        let (view, progress) = (self.installed.number, self.progress_of(&wait)?);
        Some(WaitQuestion { view, about, key, epoch, condition, progress })
    }

    /// Answers a member that asks why a condition of this node, or of another member, does
    /// not come true.
    pub(super) fn explain(&mut self, node: NodeId, question: WaitQuestion) {
        if self.installed.rank_of(node).is_some() {
            let answer = match question.about == self.node.id() {
                true => self.answer(question),
                false => self.testify(question),
            };
            self.send_soon(node, &UnicastMessage::Because(question, answer));
        }
    }

    /// Whether this node is a member of this view, and in no view change.
    fn is_at_work_in(&self, view: u64) -> bool {
        let agreement = self.membership_service.membership();
        let is_member = agreement.status() == MemberStatus::Member && !agreement.is_wedged();
        is_member && agreement.view().number == view && self.installed.number == view
    }

    fn answer(&self, question: WaitQuestion) -> WaitAnswer {
        let WaitQuestion { view, key, epoch, condition, progress, .. } = question;
        let is_linked = self.membership_service.unlinked().next().is_none();
        if !self.is_at_work_in(view) || !self.informed || !is_linked {
            return WaitAnswer::Excused;
        }
        let subgroup_progress = self.progress.get(&key);
        let last = subgroup_progress.map_or(0, |walk| walk.last_epoch().number);
        let is_expected = self.expected.get(&key).is_some_and(|it| it.number == epoch);
        // A node that waits for a beginning from other members cannot be given an epoch.
        let waits = self.unannounced().iter().any(|(awaited, _)| *awaited == key);
        match condition {
            WaitCondition::Start => {
                let me = self.node.id();
                let heard = self.announced_starts.get(&(key, epoch));
                let has_announced =
                    heard.is_some_and(|it| it.keys().any(|stream| stream.node == me));
                match last >= epoch || has_announced {
                    true => WaitAnswer::True,
                    // After a view change the node knows by itself where its stream goes on.
                    false if is_expected => WaitAnswer::Due,
                    false => WaitAnswer::Excused,
                }
            }
            WaitCondition::Opening if last >= epoch => WaitAnswer::True,
            WaitCondition::Opening => {
                let is_known =
                    is_expected || self.registry.epochs(key).any(|it| it.number == epoch);
                let is_on_its_way = subgroup_progress.is_some_and(|walk| !walk.is_settled());
                match is_known && !waits && !is_on_its_way {
                    true => WaitAnswer::Due,
                    false => WaitAnswer::Excused,
                }
            }
            _ => match self.begun_in(key) {
                Some((_, begun)) if begun > epoch => WaitAnswer::True,
                Some((id, begun)) if begun == epoch => self.node.answer(id, condition, progress),
                _ => WaitAnswer::Excused,
            },
        }
    }

    /// Observation of this node about a member that another member awaits.
    fn testify(&mut self, question: WaitQuestion) -> WaitAnswer {
        let WaitQuestion { view, about, key, epoch, condition, progress } = question;
        let peer = self.peers.get(&about).copied().filter(|_| self.is_at_work_in(view));
        match self.begun_in(key).zip(peer) {
            Some(((_, begun), _)) if begun > epoch => WaitAnswer::True,
            Some(((id, begun), peer)) if begun == epoch => {
                self.node.testify(id, peer, condition, progress)
            }
            _ => WaitAnswer::Excused,
        }
    }

    fn begun_in(&self, key: u64) -> Option<(crate::node::SubgroupId, u64)> {
        let id = self.subgroup(key)?;
        Some((id, self.node.epoch(id)?))
    }

    /// Takes the answer of an awaited member or of a witness.
    pub(super) fn receive_answer(
        &mut self,
        from: NodeId,
        question: WaitQuestion,
        answer: WaitAnswer,
    ) {
        let Some(limit) = self.stall_detector.limit else { return };
        if self.status() != MemberStatus::Member || self.installed.rank_of(from).is_none() {
            return;
        }
        let WaitQuestion { about, key, condition, .. } = question;
        let (now, wait) = (self.now, Wait { key: Some(key), node: about, condition });
        let Some(stuck) = self.stall_detector.stuck_waits.get_mut(&wait) else { return };
        if stuck.question != question {
            return;
        }
        if from != about {
            stuck.witnesses.iter_mut().for_each(|seen| {
                seen.insert(from, (answer, now));
            });
            return;
        }
        let since = match stuck.answer {
            Some((before, since, last)) if before == answer && now.since(last) <= limit => since,
            _ => now,
        };
        stuck.answer = Some((answer, since, now));
        if now.since(since) < self.answer_limits_of(about) * limit {
            return;
        }
        let verdict = self.verdict(wait, limit);
        if matches!(verdict, StallVerdict::Wait) {
            return;
        }
        self.stall_detector.stuck_waits.remove(&wait);
        self.events.push_back(GroupEvent::Stuck { wait, answer });
        match verdict {
            StallVerdict::Blind => self.membership_service.fall_blind(),
            _ => self.membership_service.faulty(about, now),
        }
    }

    fn verdict(&self, wait: Wait, limit: u64) -> StallVerdict {
        let Some(StuckWait { answer, witnesses, .. }) = self.stall_detector.stuck_waits.get(&wait)
        else {
            return StallVerdict::Wait;
        };
        match answer {
            None | Some((WaitAnswer::Excused, ..)) => StallVerdict::Wait,
            Some((WaitAnswer::Due, ..)) => StallVerdict::Suspect,
            Some((disputed, ..)) => {
                let witnesses = witnesses.iter().flat_map(BTreeMap::values);
                let fresh = witnesses.filter(|(_, at)| self.now.since(*at) <= limit);
                let fresh: Vec<WaitAnswer> = fresh.map(|(answer, _)| *answer).collect();
                let count = |what| fresh.iter().filter(|answer| **answer == what).count();
                let (see, lack) = (count(WaitAnswer::True), count(WaitAnswer::Unseen));
                match see.cmp(&lack) {
                    Ordering::Less => StallVerdict::Suspect,
                    Ordering::Greater if *disputed == WaitAnswer::True => StallVerdict::Blind,
                    _ => StallVerdict::Wait,
                }
            }
        }
    }

    /// Number of limits for which an answer of that member must stay the same.
    fn answer_limits_of(&self, node: NodeId) -> u64 {
        let peer = self.peers.get(&node);
        answer_limits(peer.and_then(|peer| self.node.sharing(*peer)).unwrap_or(Sharing::Copied))
    }

    fn send_soon(&mut self, node: NodeId, message: &UnicastMessage) {
        self.unsent.entry(node).or_default().push(message.to_bytes());
    }
}
