//! One member of a group: a node, and an application that writes and reads topics.
//!
//! Owns: the application's actions, and its reports to the checker. Never does: stop reporting when
//! it is out; the checker judges its later deliveries as well.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::group::membership_service::JoinMode;
use derecho_core::group::{Group, GroupEvent, SubgroupRegions, Wait};
use derecho_core::ids::{NodeId, RegionId, Time};
use derecho_core::link::{Generation, Interest, Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::membership::{ExitReason, MemberStatus, ViewChangeStage};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::SUBGROUP_LINES;
use derecho_core::node::NodeEvent;
use derecho_sim::world::{GroupNode, HaltedNodes, ReadPace, WorldMember};
use derecho_sim::{Random, SimLink};

use crate::checker::{Delivered, Epoch, SafetyChecker};
use crate::late_reader::LateReader;
use crate::report::ViewChangeStep;
use crate::topics::{TopicRole, Topics};
use crate::withheld::WithheldPosts;

/// A member's part in a topic.
struct TopicState {
    lines: (RegionId, OwnRegion),
    stream: Option<(RegionId, SenderMemory)>,
    reads: bool,
    inbox: Option<Arc<Inbox>>,
    /// Second reader, in demanding lives.
    late: Option<LateReader>,
    /// Epoch of the inbox's deliveries: a new one begins with the first record that is put in after
    /// its start.
    epoch: Epoch,
    written: u64,
    leaves: bool,
}

/// Whether a member may leave a topic while one of its readers has records that it has not taken
/// or released.
const LEAVERS_HOLD: bool = true;

/// Events of the last turn.
#[derive(Clone, Copy, Default)]
struct TurnEvents {
    reported: bool,
    installed: bool,
}

/// One node and its application.
pub struct LifeMember {
    pub(crate) me: NodeId,
    /// `None` before the node knows its group.
    group: Option<Group<Topics>>,
    pub(crate) out: Option<ExitReason>,
    base: GroupNode,
    checker: Rc<RefCell<SafetyChecker>>,
    parts: BTreeMap<u64, TopicState>,
    demands: bool,
    /// Late readers of topics that the member has left.
    left_readers: Vec<LateReader>,
    stage: ViewChangeStage,
    turned: TurnEvents,
    /// Group and number of the view to which the events belong: several views may begin in
    /// one turn.
    view: (Generation, u64),
    /// True if the view is new, and not all streams have continued in it yet.
    is_new_view: bool,
    walking: bool,
    suspects: usize,
    withheld: WithheldPosts,
    /// True once the node has found that the others continued without it; it has delivered
    /// nothing since.
    is_overtaken: bool,
}

/// Returns the bytes of a message: its writer, topic, stream and number, and bytes that follow
/// from these.
pub(crate) fn content(writer: NodeId, topic: u64, stream: u64, number: u64) -> Vec<u8> {
    let mut bytes = writer.0.to_le_bytes().to_vec();
    bytes.extend(number.to_le_bytes());
    bytes.extend((topic << 32 | stream).to_le_bytes());
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream ^ writer.0 as u64;
    for _ in 0..number % 31 {
        word ^= word >> 29;
        word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bytes.push((word >> 56) as u8);
    }
    bytes
}

impl LifeMember {
    /// Creates a member. `demands`: as in the product, the node counts changes in its streams, and
    /// its application has late readers.
    pub(crate) fn new(
        link: &mut SimLink,
        checker: &Rc<RefCell<SafetyChecker>>,
        demands: bool,
    ) -> LifeMember {
        LifeMember {
            me: link.node(),
            group: None,
            out: None,
            base: GroupNode::new(link, None, demands),
            checker: Rc::clone(checker),
            parts: BTreeMap::new(),
            demands,
            left_readers: Vec::new(),
            stage: ViewChangeStage::Calm,
            turned: TurnEvents::default(),
            view: (Generation::NONE, 0),
            is_new_view: false,
            walking: false,
            suspects: 0,
            withheld: WithheldPosts::default(),
            is_overtaken: false,
        }
    }

    /// Enters its group. `halted`: nodes that the host shows as standing still, if the host
    /// shows any.
    pub(crate) fn begin(&mut self, join_mode: JoinMode, halted: Option<HaltedNodes>) {
        self.group = Some(self.base.group(join_mode, Topics::default(), halted));
    }

    pub(crate) fn group(&self) -> &Group<Topics> {
        self.group.as_ref().expect("the member has begun")
    }

    /// Node id of the member.
    pub fn id(&self) -> NodeId {
        self.me
    }

    /// Conditions that the member waits for, with the awaited nodes.
    pub fn waits(&self) -> impl Iterator<Item = Wait> + '_ {
        self.group().waits().map(|(wait, _)| wait)
    }

    /// Members of the view that it has installed.
    pub fn members(&self) -> Vec<NodeId> {
        self.group().view().members.iter().map(|member| member.node).collect()
    }

    /// Reason why it is no longer a member, if so.
    pub fn exit_reason(&self) -> Option<ExitReason> {
        self.out
    }

    /// Withholds all later posts of this node's stream in a topic to one node, or to all: a
    /// planted error.
    pub fn withhold_stream(&mut self, topic: u64, to: Option<NodeId>) {
        let part = self.parts.get(&topic).and_then(|part| part.stream.as_ref());
        let region = part.map(|(region, _)| *region);
        region.into_iter().for_each(|region| self.withhold(region, to));
    }

    /// Withholds all later posts of this node's acknowledgements in a topic to one node, or to all:
    /// a planted error.
    pub fn withhold_lines(&mut self, topic: u64, to: Option<NodeId>) {
        let region = self.parts.get(&topic).map(|part| part.lines.0);
        region.into_iter().for_each(|region| self.withhold(region, to));
    }

    fn withhold(&mut self, region: RegionId, to: Option<NodeId>) {
        let peer = to.map(|to| self.group().peer_of(to).expect("a node that it has met"));
        self.withheld.add(region, peer);
    }

    /// Number of messages that it has written to its stream in a topic.
    pub fn count_written(&self, topic: u64) -> u64 {
        self.written(topic).1
    }

    fn group_mut(&mut self) -> &mut Group<Topics> {
        self.group.as_mut().expect("the member has begun")
    }

    /// Joins a topic as a reader, a writer, or both.
    pub fn enter(&mut self, topic: u64, reads: bool, sends: bool) {
        if self.parts.contains_key(&topic) || self.out.is_some() {
            return;
        }
        let lines_id = self.group_mut().node_mut().fresh_region();
        let lines = self
            .base
            .link
            .open(lines_id, SUBGROUP_LINES * LINE_WORDS)
            .expect("a node that runs opens regions");
        let stream = sends.then(|| self.open_stream());
        let epoch = (Generation::NONE, topic, 0);
        let taken = TopicState {
            lines: (lines_id, lines),
            stream,
            reads,
            inbox: None,
            late: None,
            epoch,
            written: 0,
            leaves: false,
        };
        self.parts.insert(topic, taken);
        self.announce(topic, true);
    }

    /// Registers this member's regions of a topic with its group, and announces its part to
    /// all members.
    fn announce(&mut self, topic: u64, is_new: bool) {
        let Some(taken) = self.parts.get(&topic) else { return };
        let share = SubgroupRegions { lines: taken.lines.clone(), memory: taken.stream.clone() };
        let sends = taken.stream.as_ref().map(|(id, _)| *id);
        let part = TopicRole { topic, reads: taken.reads, sends, lines: taken.lines.0 };
        // A node that stops writing registers nothing new: an epoch that still has its stream may
        // be to come.
        if is_new || sends.is_some() {
            self.group_mut().add_regions(topic, share);
        }
        self.group_mut().submit(&part.encode());
    }

    /// Begins to write a topic that this member reads, with a stream of its own; or stops writing,
    /// and continues to read.
    pub fn toggle_writer(&mut self, topic: u64) {
        let may_toggle = self.parts.get(&topic).is_some_and(|part| part.reads && !part.leaves);
        if self.out.is_some() || !may_toggle {
            return;
        }
        let sends = self.writes(topic);
        let stream = (!sends).then(|| self.open_stream());
        if let Some(part) = self.parts.get_mut(&topic) {
            (part.stream, part.written) = (stream, 0);
        }
        self.announce(topic, false);
    }

    /// Opens memory for a stream of its own.
    fn open_stream(&mut self) -> (RegionId, SenderMemory) {
        let id = self.group_mut().node_mut().fresh_region();
        // Small memory is reused soon.
        let (bytes, messages) = match (self.demands, id.0 % 3) {
            (false, _) | (true, 0) => (4096, 16),
            (true, 1) => (1024, 8),
            (true, _) => (1024, 4),
        };
        let geometry = Geometry::fitting(bytes, messages, 64).expect("a small shape");
        let region =
            self.base.link.open(id, geometry.words()).expect("a node that runs opens regions");
        let memory = SenderMemory::with_nulls(region, geometry);
        (id, self.group_mut().node_mut().count_changes(memory))
    }

    /// Makes a member that reads a topic write it as well.
    pub(crate) fn begin_to_write(&mut self, topic: u64) {
        let reads = self.parts.get(&topic).is_some_and(|part| part.inbox.is_some());
        if reads && !self.writes(topic) {
            self.toggle_writer(topic);
        }
    }

    /// Replaces the late reader of a topic; the old one discards everything that it has not taken.
    pub(crate) fn renew_late_reader(&mut self, topic: u64) {
        if self.close_late_reader(topic) {
            self.add_late_reader(topic);
        }
    }

    /// Closes a late reader. Returns whether there was one.
    fn close_late_reader(&mut self, topic: u64) -> bool {
        self.drain(topic);
        let late = self.parts.get_mut(&topic).and_then(|part| part.late.take());
        let Some((late, subgroup)) = late.zip(self.group().subgroup(topic)) else { return false };
        self.group_mut().node_mut().remove_subgroup_reader(subgroup, late.inbox());
        late.discard();
        true
    }

    fn add_late_reader(&mut self, topic: u64) {
        let Some(subgroup) = self.group().subgroup(topic) else { return };
        let inbox = self.group_mut().node_mut().add_subgroup_reader(subgroup);
        if let Some(part) = self.parts.get_mut(&topic) {
            part.late = inbox.map(|inbox| LateReader::new(self.me, topic, inbox));
        }
    }

    /// Lets late readers take and release some records.
    pub(crate) fn read_late(&mut self, mut random: Random) {
        let (hold_one_in, release_one_in) = (random.between(2, 6), random.between(2, 12));
        let pace = ReadPace { count: random.below(8), hold_one_in, release_one_in };
        self.take_late(pace, &mut random);
    }

    /// Lets late readers take and release everything.
    pub(crate) fn read_all(&mut self) {
        self.take_late(ReadPace::ALL, &mut Random::new(0));
    }

    fn take_late(&mut self, pace: ReadPace, random: &mut Random) {
        self.topics().into_iter().for_each(|topic| self.drain(topic));
        if self.out.is_some() {
            // The others may have continued without this member: records that it holds are no
            // longer guaranteed.
            self.left_readers.clear();
            self.parts.values_mut().for_each(|part| part.late = None);
            return;
        }
        let host = self.base.link.arbiter();
        let is_member = || host.as_ref().is_none_or(|host| host.is_member());
        let mut checker = self.checker.borrow_mut();
        let here = self.parts.values_mut().filter_map(|part| part.late.as_mut());
        for late in here.chain(&mut self.left_readers) {
            late.take(pace, random, &is_member, &mut checker);
        }
        self.left_readers.retain(|late| !late.is_done());
    }

    /// Leaves a topic.
    pub fn exit(&mut self, topic: u64) {
        if !LEAVERS_HOLD {
            self.close_late_reader(topic);
        }
        if let Some(part) = self.parts.get_mut(&topic).filter(|part| !part.leaves) {
            (part.stream, part.leaves) = (None, true);
            let gone = TopicRole { topic, reads: false, sends: None, lines: part.lines.0 };
            self.group_mut().submit(&gone.encode());
        }
    }

    /// Asks to leave the group.
    pub fn leave(&mut self) {
        if self.out.is_none() {
            self.checker.borrow_mut().wants_to_leave(self.me);
        }
        self.group_mut().leave();
    }

    /// Whether the node, which is out, refuses every act (I-48).
    pub(crate) fn refuses(&mut self) -> bool {
        let part = TopicRole { topic: 5, reads: true, sends: None, lines: RegionId(0) };
        !self.group_mut().submit(&part.encode()) && !self.group_mut().leave()
    }

    /// Returns the member's step in a view change. `unposted`: whether posts of its last turn are
    /// still pending.
    pub(crate) fn step(&self, unposted: bool) -> Option<ViewChangeStep> {
        let group = self.group.as_ref().filter(|group| group.status() == MemberStatus::Member)?;
        match group.agreement().stage() {
            ViewChangeStage::Calm if self.turned.installed && unposted => {
                Some(ViewChangeStep::Decided)
            }
            ViewChangeStage::Calm if self.is_new_view => Some(ViewChangeStep::Installed),
            ViewChangeStage::Calm => None,
            ViewChangeStage::Wedged => Some(ViewChangeStep::Wedged),
            ViewChangeStage::Reported if self.turned.reported && unposted => {
                Some(ViewChangeStep::Wedged)
            }
            ViewChangeStage::Reported => Some(ViewChangeStep::Reported),
            ViewChangeStage::Proposed => Some(ViewChangeStep::Proposed),
            ViewChangeStage::Accepted => Some(ViewChangeStep::Accepted),
            ViewChangeStage::Decided => Some(ViewChangeStep::Decided),
        }
    }

    /// Whether it is a member, and has nothing under way.
    pub fn is_settled(&self) -> bool {
        self.group.as_ref().is_some_and(Group::is_settled)
    }

    /// Whether it is between two layouts of a topic, without a view change as the cause.
    pub(crate) fn is_between(&self) -> bool {
        self.walking && !self.is_new_view && self.stage == ViewChangeStage::Calm
    }

    /// Whether it is the leader, in its own view.
    pub(crate) fn leads(&self) -> bool {
        let agreement = self.group().agreement();
        agreement.leader() == Some(agreement.rank())
    }

    /// Returns the topics in which it takes part, or is about to.
    pub fn topics(&self) -> Vec<u64> {
        self.parts.keys().copied().collect()
    }

    /// Whether it has begun an epoch of a topic in which it reads.
    pub(crate) fn reads_now(&self, topic: u64) -> bool {
        self.parts.get(&topic).is_some_and(|part| part.inbox.is_some())
    }

    pub(crate) fn writes(&self, topic: u64) -> bool {
        self.parts.get(&topic).is_some_and(|part| part.stream.is_some())
    }

    /// Returns its stream in a topic, and the number of messages written there.
    pub(crate) fn written(&self, topic: u64) -> (u64, u64) {
        let part = self.parts.get(&topic);
        let stream = |part: &TopicState| part.stream.as_ref().map_or(0, |(region, _)| region.0);
        part.map_or((0, 0), |part| (stream(part), part.written))
    }

    /// Writes a message, if there is room for it.
    pub fn write(&mut self, topic: u64) {
        let me = self.me;
        let Some(part) = self.parts.get_mut(&topic) else { return };
        let Some((region, memory)) = &part.stream else { return };
        let number = part.written;
        let bytes = content(me, topic, region.0, number);
        let Ok(mut claim) = memory.claim(bytes.len()) else { return };
        claim.bytes().copy_from_slice(&bytes);
        self.checker.borrow_mut().writes((me, region.0), number);
        let stream_number = claim.commit(bytes.len(), |_, _| {});
        assert_eq!(stream_number, number, "a commit has the number of its message");
        part.written += 1;
    }

    /// Whether the others have continued without this member, now or at an earlier check. This
    /// model keeps no memory private for a member that leaves in order (I-335).
    fn is_overtaken(&mut self) -> bool {
        let host = self.base.link.arbiter().filter(|_| self.demands);
        self.is_overtaken |= host.is_some_and(|host| !host.is_member());
        self.is_overtaken
    }

    fn drain(&mut self, topic: u64) {
        let Some(part) = self.parts.get(&topic) else { return };
        let (Some(inbox), lines) = (part.inbox.clone(), part.lines.0) else { return };
        let epoch = part.epoch;
        while let Some(record) = inbox.take() {
            let bytes = record.bytes().to_vec();
            // A record that a member finds after the others have continued without it is not
            // delivered, nor is anything later.
            if self.is_overtaken() {
                return;
            }
            let mut checker = self.checker.borrow_mut();
            let words: Option<Vec<u64>> = (bytes.len() >= 32).then(|| {
                let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
                bytes[..32].chunks(8).map(word).collect()
            });
            let Some(words) = words else {
                checker.record_violation("origin", &format!("a message of {} bytes", bytes.len()));
                return;
            };
            let writer = NodeId(u128::from(words[1]) << 64 | u128::from(words[0]));
            let (number, stream) = (words[2], words[3] & 0xffff_ffff);
            if bytes != content(writer, topic, stream, number) || record.number() != number {
                let name = checker.journal.name_of(self.me);
                let what = format!("{name} reads {words:?} as number {}", record.number());
                checker.record_violation("origin", &what);
            }
            let what = Delivered { writer: (writer, stream), number };
            checker.delivers(self.me, (topic, lines), epoch, what);
            drop(checker);
            if let Some(late) = self.parts.get_mut(&topic).and_then(|part| part.late.as_mut()) {
                late.is_due(what);
            }
        }
    }

    fn take_in(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Begun { key, subgroup, epoch, layout, .. } => {
                let reads = layout.member(self.me).is_some_and(|seat| seat.reads);
                self.drain(key);
                if self.is_overtaken() {
                    return;
                }
                let demands = self.demands;
                let LifeMember { parts, group, .. } = self;
                let Some(part) = parts.get_mut(&key) else { return };
                let (founding, view) = self.view;
                part.epoch = (founding, key, epoch);
                if reads && part.inbox.is_none() {
                    let node = group.as_mut().expect("the member has begun").node_mut();
                    part.inbox = node.add_subgroup_reader(subgroup);
                    let late = demands && (LEAVERS_HOLD || !part.leaves);
                    let late = late.then(|| node.add_subgroup_reader(subgroup)).flatten();
                    part.late = late.map(|inbox| LateReader::new(self.me, key, inbox));
                }
                let membership = (key, part.lines.0);
                self.checker.borrow_mut().begins(self.me, membership, part.epoch, view, &layout);
            }
            GroupEvent::Left { key } => {
                self.drain(key);
                if let Some(part) = self.parts.remove(&key) {
                    self.checker.borrow_mut().left(self.me, (key, part.lines.0));
                    self.left_readers.extend(part.late.filter(|late| !late.is_done()));
                }
            }
            GroupEvent::Installed(view) => {
                (self.turned.installed, self.is_new_view) = (true, true);
                self.view = (view.group, view.number);
                let mut checker = self.checker.borrow_mut();
                checker.installs(self.me, &view);
                let group = self.group.as_ref().expect("the member has begun");
                // If several views began in one turn, the state is as the last one left it.
                if group.is_informed() && group.view().number == view.number {
                    checker.begins_with(self.me, &view, group.state());
                }
            }
            GroupEvent::Out(reason) => {
                // Everything delivered up to this moment was delivered as a member.
                self.topics().into_iter().for_each(|topic| self.drain(topic));
                self.out = Some(reason);
                self.checker.borrow_mut().is_out(self.me, reason);
            }
            // Findings of a member without which the others have continued prove nothing.
            GroupEvent::Node(NodeEvent::Faulty { .. })
                if self.demands && self.group().is_overtaken() => {}
            GroupEvent::Node(NodeEvent::Faulty { peer, fault }) => {
                let mut checker = self.checker.borrow_mut();
                let name = checker.journal.name_of(self.me);
                checker
                    .record_violation("honesty", &format!("{name} finds {peer:?} faulty: {fault}"));
            }
            GroupEvent::Direct { .. } => {}
            GroupEvent::Stuck { wait, answer } => {
                let mut checker = self.checker.borrow_mut();
                let (name, about) =
                    (checker.journal.name_of(self.me), checker.journal.name_of(wait.node));
                let what = format!("{name} finds that {about} {}: {answer:?}", wait.condition);
                checker.stuck.push((self.me, wait, answer));
                if !checker.has_late_links {
                    checker.record_violation("progress", &what);
                }
            }
            GroupEvent::Changed if self.out.is_some() => {
                let mut checker = self.checker.borrow_mut();
                let name = checker.journal.name_of(self.me);
                checker
                    .record_violation("isolation", &format!("{name} is out and its state changes"));
            }
            GroupEvent::Changed => {
                let state = self.group().state().clone();
                let mut checker = self.checker.borrow_mut();
                let parts = state.0.keys();
                let text = parts
                    .map(|(topic, node)| format!("{topic}:{} ", checker.journal.name_of(*node)));
                let text: String = text.collect();
                checker.journal.record_for(self.me, format_args!("knows {text}"));
            }
            GroupEvent::Node(_) | GroupEvent::Gathered { .. } => {}
        }
    }
}

impl WorldMember for LifeMember {
    type Checker = SafetyChecker;
    type Setting = ();
}

impl Machine for LifeMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.group_mut().handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        self.checker.borrow_mut().journal.now = self.base.link.network().now();
        self.turned = TurnEvents::default();
        let done = self.group_mut().turn(now, effects);
        self.withheld.leave_out(effects);
        self.note_stage();
        // Deliveries of this turn belong to the epoch before any that begins in it.
        let mut events = Vec::new();
        while let Some(event) = self.group_mut().next_event() {
            events.push(event);
        }
        if !events.iter().any(|event| matches!(event, GroupEvent::Begun { .. })) {
            self.topics().into_iter().for_each(|topic| self.drain(topic));
        }
        let count = events.len();
        events.into_iter().for_each(|event| self.take_in(event));
        self.walking = self.group().is_changing_epochs();
        self.is_new_view &= self.walking || !self.group().is_informed();
        done + count
    }

    fn interest(&self) -> Interest {
        self.group().interest()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.group().wants_turn_at()
    }
}

impl LifeMember {
    /// Reports changes in its agreement on a view.
    fn note_stage(&mut self) {
        let group = self.group.as_ref().expect("the member has begun");
        let agreement = group.agreement();
        let (before, stage) = (self.stage, agreement.stage());
        let suspects = agreement.suspects();
        let mut checker = self.checker.borrow_mut();
        if suspects.count() > self.suspects {
            let nodes = suspects.iter().map(|rank| agreement.view().member(rank).node);
            let names = checker.journal.names_of(nodes);
            checker.journal.record_for(self.me, format_args!("suspects {names}"));
        }
        self.suspects = suspects.count();
        self.stage = stage;
        if before == stage || stage == ViewChangeStage::Calm {
            return;
        }
        if before == ViewChangeStage::Calm {
            checker.layouts_met += u64::from(self.walking && !self.is_new_view);
            let view = agreement.view().number;
            checker.journal.record_for(self.me, format_args!("wedges view {view}"));
        }
        // Within one turn it may have advanced by more than one step.
        self.turned.reported =
            before < ViewChangeStage::Reported && ViewChangeStage::Reported <= stage;
        if self.turned.reported {
            checker.journal.record_for(self.me, format_args!("reports its progress"));
        }
        match stage {
            ViewChangeStage::Proposed => {
                checker.journal.record_for(self.me, format_args!("proposes a decision"))
            }
            ViewChangeStage::Accepted => {
                let leader = agreement.leader().map(|rank| agreement.view().member(rank).node);
                let name = checker.journal.names_of(leader);
                checker.journal.record_for(self.me, format_args!("accepts the decision of {name}"));
            }
            ViewChangeStage::Decided => {
                checker
                    .journal
                    .record_for(self.me, format_args!("knows which decision was chosen"));
            }
            ViewChangeStage::Calm | ViewChangeStage::Wedged | ViewChangeStage::Reported => {}
        }
    }
}
