//! One member of the experiments with views: a group, and an application that sends and
//! takes messages.
//!
//! Owns: the behaviour of its application, and the measurements of it and of the view changes.
//! Never does: know a price, or decide anything of a view change.
//!
//! Events of a turn get the time at which the turn ends, which is the start of the next one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::group::membership_service::{HostInterface, JoinMode};
use derecho_core::group::registry::{Layout, LayoutMember};
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::group::{
    Group, GroupConfig, GroupEvent, ReplicatedState, StreamRegion, SubgroupRegions,
};
use derecho_core::ids::{NodeId, RegionId, Time};
use derecho_core::link::{Interest, Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::membership::{ExitReason, MemberStatus, View, ViewChangeStage};
use derecho_core::memory::LINE;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent, StreamOrigin};
use derecho_sim::SimLink;

/// Key of the subgroup of all members.
const ALL: u64 = 1;
const LINES: RegionId = RegionId(1 << 20);
const STREAM: RegionId = RegionId((1 << 20) + 1);
/// Interval at which an application looks for room, in nanoseconds.
const LOOK_AGAIN: u64 = 250;
/// Bytes of a message's header: its sender and its number.
const HEAD: usize = 16;

/// Group state with all members of the view in one subgroup: the state is the view, and members
/// submit nothing.
pub(crate) struct WholeViewState;

impl ReplicatedState for WholeViewState {
    fn apply(&mut self, _: NodeId, _: &[u8]) -> Vec<u64> {
        Vec::new()
    }

    fn forget(&mut self, _: NodeId) {}

    fn keys(&self) -> Vec<u64> {
        vec![ALL]
    }

    fn layout(&self, _: u64, view: &View) -> Layout {
        let seat = |node| LayoutMember { node, reads: true, sends: Some(STREAM), lines: LINES };
        let seats = view.members.iter().map(|member| seat(member.node)).collect();
        Layout { level: DeliveryGuarantee::Atomic, members: seats }
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        bytes.is_empty()
    }
}

/// Steps of a member in a multicast or in a view change, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MemberStep {
    /// The application has committed the message.
    Committed,
    /// The member has received the message.
    Received,
    /// The turn begins that sees that all members have received the message and everything ordered
    /// before it.
    Stable,
    /// The application has received the message.
    Delivered,
    /// The node wants to join, to leave, or it crashes.
    Asked,
    /// The link has reported that a node has joined or is gone.
    Noticed,
    /// The member has announced to the others that it suspects a member.
    Suspected,
    /// The member's streams are stopped.
    Wedged,
    /// The member has reported its progress to the others.
    Reported,
    /// The member leads, and has proposed the next view and the cut.
    Proposed,
    /// The member has accepted another member's proposal.
    Accepted,
    /// The member knows the decision, has reached the cut, and is in the next view.
    Installed,
    /// The member delivers the first message after that.
    Resumed,
}

impl MemberStep {
    pub(crate) const EACH: [MemberStep; 13] = [
        MemberStep::Committed,
        MemberStep::Received,
        MemberStep::Stable,
        MemberStep::Delivered,
        MemberStep::Asked,
        MemberStep::Noticed,
        MemberStep::Suspected,
        MemberStep::Wedged,
        MemberStep::Reported,
        MemberStep::Proposed,
        MemberStep::Accepted,
        MemberStep::Installed,
        MemberStep::Resumed,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            MemberStep::Committed => "committed",
            MemberStep::Received => "received",
            MemberStep::Stable => "stable",
            MemberStep::Delivered => "delivered",
            MemberStep::Asked => "asked, crashed",
            MemberStep::Noticed => "noticed",
            MemberStep::Suspected => "suspected",
            MemberStep::Wedged => "wedged",
            MemberStep::Reported => "reported",
            MemberStep::Proposed => "proposed",
            MemberStep::Accepted => "accepted",
            MemberStep::Installed => "installed",
            MemberStep::Resumed => "delivers again",
        }
    }
}

/// Measurements of all members, by their index in the order of joining.
#[derive(Default)]
pub(crate) struct ViewMeasurements {
    /// Times of takes, with the number of messages taken.
    pub(crate) taken: Vec<Vec<(Time, u64)>>,
    /// First time of each step since the list was last cleared.
    pub(crate) steps: Vec<(usize, MemberStep, Time)>,
    /// Whether steps are recorded.
    pub(crate) watching: bool,
    /// Followed message: its sender and number. `entry` is its entry once it is committed.
    pub(crate) followed: Option<(usize, u64)>,
    entry: Option<(NodeId, u64)>,
    /// Number of messages taken together with it.
    pub(crate) batch: u64,
    /// Errors that members reported.
    pub(crate) faults: Vec<String>,
}

impl ViewMeasurements {
    /// Returns the time at which a member took a step.
    pub(crate) fn when(&self, member: usize, step: MemberStep) -> Option<Time> {
        let is_it = |known: &&(usize, MemberStep, Time)| (known.0, known.1) == (member, step);
        self.steps.iter().find(is_it).map(|(_, _, at)| *at)
    }

    pub(crate) fn note(&mut self, member: usize, step: MemberStep, at: Time) {
        if self.watching && self.when(member, step).is_none() {
            self.steps.push((member, step, at));
        }
    }
}

/// Parameters common to all members of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewParameters {
    /// Bytes of a message.
    pub(crate) bytes: usize,
    /// Maximum number of messages of a sender in flight.
    pub(crate) window: usize,
    /// Pause of a sender after each message, in nanoseconds.
    pub(crate) pause: u64,
}

/// The member, see the [module](self).
pub(crate) struct ViewTestMember {
    me: usize,
    id: NodeId,
    parameters: ViewParameters,
    link: SimLink,
    prepared: Option<(Node, SubgroupRegions, SubgroupRegions)>,
    group: Option<Group<WholeViewState>>,
    memory: SenderMemory,
    inbox: Option<Arc<Inbox>>,
    out: bool,
    suspects: usize,
    /// Start of the last turn, and the steps in it.
    began: Time,
    passed: Vec<MemberStep>,
    sent: u64,
    measurements: Rc<RefCell<ViewMeasurements>>,
}

impl ViewTestMember {
    pub(crate) fn new(
        link: &mut SimLink,
        habits: ViewParameters,
        measurements: &Rc<RefCell<ViewMeasurements>>,
    ) -> Result<ViewTestMember, String> {
        let text = |error: derecho_core::link::LinkError| error.to_string();
        let acks = link.open(ACKS, ACKS_WORDS).map_err(text)?;
        let node = Node::new(link.node(), acks, Arc::new(|| {}));
        let control = SubgroupRegions::open_control(link).map_err(text)?;
        let record = habits.bytes.next_multiple_of(LINE);
        let geometry = Geometry::fitting(record * habits.window, habits.window, record)
            .ok_or_else(|| format!("no memory fits {habits:?}"))?;
        let stream = StreamRegion { region: STREAM, geometry };
        let share = SubgroupRegions::open(link, LINES, Some(stream)).map_err(text)?;
        let Some((_, memory)) = share.memory.clone() else { return Err("no stream".into()) };
        measurements.borrow_mut().taken.push(Vec::new());
        Ok(ViewTestMember {
            me: link.index().0,
            id: link.node(),
            parameters: habits,
            link: link.clone(),
            prepared: Some((node, control, share)),
            group: None,
            memory,
            inbox: None,
            out: false,
            suspects: 0,
            began: Time(0),
            passed: Vec::new(),
            sent: 0,
            measurements: Rc::clone(measurements),
        })
    }

    /// Node id of the member.
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    /// Enters its group, with a product's patience.
    pub(crate) fn begin(&mut self, entrance: JoinMode) {
        let Some((node, control, share)) = self.prepared.take() else { return };
        let local = matches!(entrance, JoinMode::Local);
        let host = self.link.arbiter().filter(|_| local);
        let host = host.map(|arbiter| HostInterface { arbiter, is_halted: Arc::new(|_| false) });
        let ablation = Ablation::default();
        let terms = GroupConfig {
            join_mode: entrance,
            weight: 1,
            timeouts: MemberTimeouts::default(),
            ablation,
        };
        let mut group = Group::new(node, terms, WholeViewState, control, host);
        group.add_regions(ALL, share);
        self.group = Some(group);
    }

    /// Asks to leave the group.
    pub(crate) fn leave(&mut self) {
        self.group.as_mut().map(Group::leave);
    }

    /// Returns the number of members of its view, if it is one of them and has nothing under way.
    pub(crate) fn settled_among(&self) -> Option<usize> {
        let group = self.group.as_ref().filter(|group| group.is_settled())?;
        self.inbox.as_ref().map(|_| group.view().members.len())
    }

    /// Returns its rank in its view.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.group.as_ref().and_then(|group| group.view().rank_of(self.id)).map(|rank| rank.index())
    }

    /// Performs one act of the sending thread: sends a message, if there is room. Returns the time
    /// of its next act.
    pub(crate) fn send(&mut self, now: Time, effects: &mut Effects) -> Option<Time> {
        if self.out {
            return None;
        }
        let ViewParameters { bytes, pause, .. } = self.parameters;
        let Ok(mut claim) = self.memory.claim(bytes) else { return Some(now.after(LOOK_AGAIN)) };
        claim.bytes()[..8].copy_from_slice(&(self.me as u64).to_le_bytes());
        claim.bytes()[8..HEAD].copy_from_slice(&self.sent.to_le_bytes());
        claim.commit(bytes, |_, _| {});
        effects.work().committed += 1;
        self.sent += 1;
        let mut measurements = self.measurements.borrow_mut();
        if measurements.followed == Some((self.me, self.sent - 1)) {
            measurements.note(self.me, MemberStep::Committed, now);
            // Earlier messages were taken in long ago: a followed message is sent without haste.
            let entry = self.group.as_ref().and_then(|group| received(group, self.id));
            measurements.entry = entry.map(|entry| (self.id, entry));
        }
        Some(now.after(pause))
    }

    /// Number of messages that it has sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Takes the deliveries of the last turn, which has ended, as the application.
    fn take(&mut self, now: Time) -> usize {
        let mut measurements = self.measurements.borrow_mut();
        let measurements = &mut *measurements;
        for step in self.passed.drain(..) {
            measurements.note(self.me, step, now);
        }
        let (mut count, mut followed) = (0, false);
        while let Some(record) = self.inbox.as_ref().and_then(|inbox| inbox.take()) {
            count += 1;
            if let Some((sender, number)) = measurements.followed {
                let head = [sender as u64, number].map(u64::to_le_bytes);
                followed |= record.bytes()[..HEAD] == *head.as_flattened();
            }
        }
        if followed {
            measurements.note(self.me, MemberStep::Stable, self.began);
            measurements.note(self.me, MemberStep::Delivered, now);
            measurements.batch = measurements.batch.max(count);
        }
        if count > 0 {
            measurements.taken[self.me].push((now, count));
            let installed = measurements.when(self.me, MemberStep::Installed);
            if installed.is_some_and(|at| at < now) {
                measurements.note(self.me, MemberStep::Resumed, now);
            }
        }
        count as usize
    }

    /// Records the steps that the turn has led to.
    fn look(&mut self) {
        let Some(group) = &self.group else { return };
        let agreement = group.agreement();
        let suspects = agreement.suspects().count();
        if suspects > self.suspects {
            self.passed.push(MemberStep::Suspected);
        }
        self.suspects = suspects;
        let stage = agreement.stage();
        let stages = [
            (ViewChangeStage::Wedged, MemberStep::Wedged),
            (ViewChangeStage::Reported, MemberStep::Reported),
        ];
        let through = stages.iter().filter(|(passed, _)| *passed <= stage).map(|(_, step)| *step);
        self.passed.extend(through);
        match stage {
            ViewChangeStage::Proposed => self.passed.push(MemberStep::Proposed),
            ViewChangeStage::Accepted => self.passed.push(MemberStep::Accepted),
            _ => {}
        }
        let measurements = self.measurements.borrow();
        if let Some((sender, entry)) = measurements.entry
            && received(group, sender).is_some_and(|received| received > entry)
        {
            self.passed.push(MemberStep::Received);
        }
    }

    fn hear(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Begun { subgroup, .. } if self.inbox.is_none() => {
                let node = self.group.as_mut().map(Group::node_mut);
                self.inbox = node.and_then(|node| node.add_subgroup_reader(subgroup));
            }
            GroupEvent::Installed(_) => {
                // The member may have passed several steps within one turn.
                self.passed.extend([
                    MemberStep::Wedged,
                    MemberStep::Reported,
                    MemberStep::Installed,
                ]);
            }
            GroupEvent::Out(fate) => {
                self.out = true;
                if fate != ExitReason::Left {
                    let text = format!("member {} is out: {fate:?}", self.me);
                    self.measurements.borrow_mut().faults.push(text);
                }
            }
            GroupEvent::Node(NodeEvent::PeerUp { .. } | NodeEvent::PeerDown { .. }) => {
                self.passed.push(MemberStep::Noticed);
            }
            GroupEvent::Node(NodeEvent::Faulty { fault, .. }) => {
                self.measurements.borrow_mut().faults.push(fault.to_string());
            }
            _ => {}
        }
    }
}

/// Returns how many entries of a member's stream have been received.
fn received(group: &Group<WholeViewState>, sender: NodeId) -> Option<u64> {
    let node = group.node();
    let (_, reaches) = node.progress(group.subgroup(ALL)?)?;
    let of = |origin| match origin {
        StreamOrigin::Own => Some(node.id()),
        StreamOrigin::Peer(peer) => node.node_of(peer),
    };
    reaches.iter().find(|reach| of(reach.origin) == Some(sender)).map(|reach| reach.received)
}

impl Machine for ViewTestMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        if let Some(group) = &mut self.group {
            group.handle(event, effects);
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut done = self.take(now);
        self.began = now;
        let Some(group) = &mut self.group else { return done };
        let was_joining = group.status() == MemberStatus::Joining;
        done += group.turn(now, effects);
        if !was_joining {
            self.look();
        }
        while let Some(event) = self.group.as_mut().and_then(Group::next_event) {
            self.hear(event);
            done += 1;
        }
        if was_joining {
            self.passed.retain(|step| matches!(step, MemberStep::Noticed | MemberStep::Installed));
        }
        done
    }

    fn interest(&self) -> Interest {
        self.group.as_ref().map_or(Interest::Hints, Group::interest)
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.group.as_ref().and_then(Group::wants_turn_at)
    }
}
