//! A group: nodes that agree on who is a member, and subgroups that go on from view to view.
//!
//! Owns: what joins a node's streams to its seat in the council. Never does: decide what a subgroup is
//! for, or what its messages mean.
//!
//! Read in this order: [`watch`] (who is suspected when), [`council`] (a node's seat), [`report`] (what a
//! view change needs to know of the streams), [`registry`] (which subgroups there are), [`book`] and [`chronicle`] (views
//! in logs).
//!
//! ```text
//!   control stream   an atomic subgroup of all members. What is delivered there changes the state that
//!                    the group replicates, and with it the subgroups' layouts, at the same point everywhere
//!   subgroups        their members walk from epoch to epoch, each subgroup for itself
//!   view change      all stop, report, come to the cut, and go on with the layouts of the new view
//! ```

mod ahead;
mod awaited;
pub mod book;
pub mod chronicle;
mod control;
pub mod council;
mod direct;
mod evidence;
mod install;
pub mod registry;
pub mod report;
mod share;
mod walk;
pub mod watch;
mod watchdog;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::ahead::{Ahead, Held};
use self::awaited::Awaited;
use self::book::Book;
use self::chronicle::{Chronicle, Gate};
use self::control::{Control, Topic, Word};
use self::council::{Council, Deed, Entrance, Host};
use self::registry::{Epoch, Layout, Registry};
use self::report::{Progress, StreamId};
use self::share::{StreamMemory, stream_memory};
use self::walk::Walk;
use self::watch::Patience;
use self::watchdog::Watchdog;
use crate::bytes::Wire;
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, Peer, RegionId, Time};
use crate::link::{Evidence, Interest, LinkEvent};
use crate::log::LogId;
use crate::machine::{Effects, Machine};
use crate::membership::{Answer, Fate, Membership, Standing, View};
use crate::multicast::ablation::Ablation;
use crate::multicast::stream::Beginning;
use crate::node::{self, Node, NodeEvent, SubgroupId};
use crate::storage::journal::Journal;

pub use awaited::Wait;
pub use control::{CONTROL_LINES, CONTROL_STREAM, control_geometry};
pub use share::Share;

/// The subgroup of all members.
pub const CONTROL: u64 = 0;

/// What a group replicates: every member applies the same messages in the same order, beginning with the
/// same state.
pub trait State {
    /// A member's message. Returns the subgroups whose layout it may have changed.
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64>;

    /// A node is no member any more.
    fn forget(&mut self, node: NodeId);

    /// A view begins; those who are gone were forgotten. What follows from the view as a whole is done here, once.
    fn begin_view(&mut self, _: &View) {}

    /// Who keeps logs has changed, or for which logs is waited. Returns the subgroups whose layout it may have changed.
    fn note_logs(&mut self, _: &Book) -> Vec<u64> {
        Vec::new()
    }

    /// Logs that have what was durable of something, while no member's log has all of it: views name them (I-156).
    fn leans_on(&self) -> BTreeSet<LogId> {
        BTreeSet::new()
    }

    /// All subgroups that have a layout; none is called [`CONTROL`].
    fn keys(&self) -> Vec<u64>;

    /// Who is a member of a subgroup. It follows from the state and the view, and from nothing else; only
    /// members of the view are its members.
    fn layout(&self, key: u64, view: &View) -> Layout;

    /// The state as bytes, for a node that joins.
    fn snapshot(&self) -> Vec<u8>;

    /// Takes over the state of another one. `false` if the bytes make no sense.
    fn restore(&mut self, bytes: &[u8]) -> bool;
}

/// How a node takes part in a group.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How it comes in.
    pub entrance: Entrance,
    /// What it counts in a networked group.
    pub weight: u16,
    /// How long it waits for whom.
    pub patience: Patience,
    /// What is switched off; of the group's own stream all but nulls.
    pub ablation: Ablation,
}

/// What the upper layer should know.
#[derive(Debug)]
pub enum GroupEvent {
    /// A view was installed, and this node is a member of it.
    Installed(View),
    /// The state has changed: messages were applied, or it was taken over as a whole.
    Changed,
    /// This node is no member any more. It delivers nothing after this.
    Out(Fate),
    /// This node has begun an epoch of a subgroup.
    Begun {
        /// The subgroup's key.
        key: u64,
        /// What it is called at this node.
        subgroup: SubgroupId,
        /// What the epoch is called: no other one of this group is called so.
        epoch: u64,
        /// Its members.
        layout: Layout,
        /// Whether it was no member before.
        first: bool,
    },
    /// So many readers of a subgroup have begun its epoch.
    Gathered {
        /// The subgroup's key.
        key: u64,
        /// How many.
        readers: usize,
    },
    /// This node is no member of a subgroup any more.
    Left {
        /// The subgroup's key.
        key: u64,
    },
    /// A member tells this node something directly (I-70).
    Direct {
        /// Who.
        from: NodeId,
        /// In which view it said so.
        view: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// A member lives and makes no progress, by its answer to this node: it is suspected; or, if others see what it has
    /// done, this node falls out (I-336).
    Stuck {
        /// The wait.
        wait: Wait,
        /// The answer.
        answer: Answer,
    },
    /// Something of the node itself, which is not the group's business.
    Node(NodeEvent),
}

/// One node's part in a group. See the [module](self).
pub struct Group<S: State> {
    node: Node,
    council: Council<Progress>,
    state: S,
    /// Whether `state` is the group's.
    informed: bool,
    registry: Registry,
    /// Who keeps logs; as much the group's state as `state` is.
    book: Book,
    /// This node's log of views, if it keeps logs.
    chronicle: Option<Chronicle>,
    /// What the state leans on, if that is still as it was.
    leans: Option<BTreeSet<LogId>>,
    control: Control,
    ablation: Ablation,
    /// By subgroup and the region of the lines.
    shares: BTreeMap<(u64, RegionId), Share>,
    /// Memory for this node's streams, by subgroup and region: as long as an epoch of that stream may be told (I-78).
    memories: BTreeMap<(u64, RegionId), StreamMemory>,
    walks: BTreeMap<u64, Walk>,
    /// The keys of the walks, by what the node calls their subgroups.
    keys: BTreeMap<SubgroupId, u64>,
    /// Subgroups in whose queue there may be an epoch that is still to be told (I-76).
    open: BTreeSet<u64>,
    /// Subgroups that this node has left in this view, and the epoch in which it was no member.
    behind: BTreeMap<u64, Epoch>,
    /// Where epochs begin in streams, as their senders have said.
    heard: BTreeMap<(u64, u64), BTreeMap<StreamId, Beginning>>,
    peers: BTreeMap<NodeId, Peer>,
    nodes: BTreeMap<Peer, NodeId>,
    /// What members are to be told that this node has not met yet.
    untold: BTreeMap<NodeId, Vec<Vec<u8>>>,
    /// Also those that are gone, as long as streams of theirs may be spoken of.
    met: BTreeMap<NodeId, Peer>,
    /// The view in which the streams are: the council's, once they have come to the cut.
    installed: View,
    /// What nodes have said of views that are not installed here.
    ahead: BTreeMap<NodeId, Ahead>,
    /// What this node has told members directly in its view, as far as they may not have installed that.
    held: BTreeMap<NodeId, Held>,
    /// Epochs that a view has brought, and that could not be told yet.
    expected: BTreeMap<u64, Epoch>,
    /// Epochs of subgroups that this node has not joined yet, in which it was to be a member and which views have ended.
    passed: BTreeMap<u64, Vec<node::Epoch>>,
    events: VecDeque<GroupEvent>,
    /// Something has changed that a subgroup may wait for.
    unsettled: bool,
    /// Subgroups of which newcomers are still to be told where an epoch begins in this node's stream.
    owing: BTreeSet<u64>,
    /// When it looks next although nothing has happened.
    next_look: Time,
    awaited: Awaited,
    watchdog: Watchdog,
    /// Who tells this node the state, if it has none.
    sponsor: Option<NodeId>,
    now: Time,
}

/// So often it is looked at whom the streams wait for, in a busy group.
const LOOK_INTERVAL: u64 = 5_000_000;

impl<S: State> Group<S> {
    /// A node's part in a group. `control`: what it brings into the control stream, in the regions
    /// [`CONTROL_LINES`] and [`CONTROL_STREAM`], of [`control_geometry`]. A local group needs a host.
    pub fn new(node: Node, terms: Terms, state: S, control: Share, host: Option<Host>) -> Group<S> {
        let Terms { entrance, weight, patience, ablation } = terms;
        let is_local = matches!(entrance, Entrance::Local);
        let council = Council::new(node.id(), weight, entrance, patience, host);
        Group {
            council,
            state,
            informed: false,
            registry: Registry::default(),
            book: Book::new(is_local),
            chronicle: None,
            leans: None,
            control: Control::new(&control),
            ablation,
            memories: stream_memory(CONTROL, &control).into_iter().collect(),
            shares: BTreeMap::from([((CONTROL, CONTROL_LINES), control)]),
            walks: BTreeMap::new(),
            keys: BTreeMap::new(),
            open: BTreeSet::new(),
            behind: BTreeMap::new(),
            heard: BTreeMap::new(),
            peers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            untold: BTreeMap::new(),
            met: BTreeMap::new(),
            installed: View::of_founders([]),
            ahead: BTreeMap::new(),
            held: BTreeMap::new(),
            expected: BTreeMap::new(),
            passed: BTreeMap::new(),
            events: VecDeque::new(),
            unsettled: false,
            owing: BTreeSet::new(),
            next_look: Time(0),
            awaited: Awaited::new(&patience),
            watchdog: Watchdog::new(patience.member_timeout),
            sponsor: None,
            now: Time(0),
            node,
        }
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The node, for its queues and streams.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// The state, as far as this node has it.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Who keeps logs, as far as this node knows.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// This node keeps logs: views are logged here, before anything that is delivered in them counts as durable. The gate is
    /// for its [other logs](chronicle::Gated).
    pub fn keep_logs(&mut self, views: Box<dyn Journal>) -> Arc<Gate> {
        let chronicle = Chronicle::new(views);
        let gate = chronicle.gate();
        (self.chronicle, self.unsettled) = (Some(chronicle), true);
        gate
    }

    /// It keeps none any more.
    pub fn end_logs(&mut self) {
        self.chronicle = None;
    }

    /// Whether this node has the group's state.
    pub fn is_informed(&self) -> bool {
        self.informed
    }

    /// How this node stands to the group.
    pub fn standing(&self) -> Standing {
        self.council.membership().standing()
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.installed
    }

    /// Whether the others have gone on without this node, as its host knows although it has heard nothing: it may have
    /// been stopped. What was read before this was asked, and answered by no, was there to be read.
    pub fn is_overtaken(&self) -> bool {
        self.council.is_overtaken()
    }

    /// Its part in the agreement on views.
    pub fn agreement(&self) -> &Membership<Progress> {
        self.council.membership()
    }

    /// Whether a subgroup of this node is on its way from one epoch to another.
    pub fn is_walking(&self) -> bool {
        !self.expected.is_empty() || !self.walks.values().all(Walk::is_settled)
    }

    /// Whether the group has come to a view, and this node has the state and has nothing under way.
    pub fn is_settled(&self) -> bool {
        let member = self.standing() == Standing::Member && !self.council.membership().is_wedged();
        member && self.informed && !self.is_walking()
    }

    /// How its subgroups stand, for whoever looks for what is wrong.
    pub fn describe(&self) -> alloc::string::String {
        use core::fmt::Write;
        let mut text = alloc::string::String::new();
        let (view, wedged) = (self.installed.number, self.council.membership().is_wedged());
        let _ = write!(text, "view {view}, wedged {wedged}, informed {}", self.informed);
        let _ = write!(text, ", expected {:?}", self.expected.keys());
        for (key, walk) in &self.walks {
            let id = walk.id();
            let phase = id.and_then(|id| self.node.phase(id));
            let epoch = id.and_then(|id| self.node.epoch(id));
            let _ = write!(text, "; {key}: {walk:?}, {phase:?} in {epoch:?}");
        }
        for key in self.registry.keys() {
            for epoch in self.registry.epochs(key) {
                let seats = epoch.layout.seats.iter().map(|seat| (seat.node, seat.sends));
                let seats: Vec<_> = seats.collect();
                let _ = write!(text, "\n  {key} {}: {seats:?} old {:?}", epoch.number, epoch.old);
            }
        }
        let _ = write!(text, "\n heard {:?}", self.heard);
        for (Wait { key, node, condition }, since) in self.waits() {
            let _ = write!(
                text,
                "\n awaits {node:?} since {since:?}, subgroup {key:?}: it {condition}"
            );
        }
        let _ = write!(text, "\n {}", self.node.describe());
        text
    }

    /// What this node is called in a subgroup at work, if it is a member of it.
    pub fn subgroup(&self, key: u64) -> Option<SubgroupId> {
        self.walks.get(&key).and_then(Walk::id)
    }

    /// Whether this node is in a subgroup, or in an epoch of it that is still to come.
    pub fn has_seat(&self, key: u64) -> bool {
        let me = self.node.id();
        let mut coming = self.registry.epochs(key).chain(self.expected.get(&key));
        self.walks.contains_key(&key) || coming.any(|epoch| epoch.layout.seat_of(me).is_some())
    }

    /// Whether this node reads in the epoch of a subgroup that it is in, and in all that are known to follow.
    pub fn reads_on(&self, key: u64) -> bool {
        let me = self.node.id();
        let Some(walk) = self.walks.get(&key) else { return false };
        let now = walk.id().and_then(|id| self.node.epoch(id)).unwrap_or(0);
        let told = core::iter::once(walk.told());
        let coming = self.registry.epochs(key).chain(self.expected.get(&key)).chain(told);
        let mut coming = coming.filter(|epoch| epoch.number >= now);
        coming.all(|epoch| epoch.layout.seat_of(me).is_some_and(|seat| seat.reads))
    }

    /// Whether this node sends this stream in a subgroup, or will in an epoch that is still to come.
    pub fn sends(&self, key: u64, stream: RegionId) -> bool {
        let own = StreamId { node: self.node.id(), region: stream };
        let told = self.walks.get(&key).map(Walk::told);
        let epochs = self.registry.epochs(key).chain(self.expected.get(&key)).chain(told);
        let mut streams = epochs.flat_map(|epoch| epoch.layout.streams());
        streams.any(|stream| stream == own)
    }

    /// Tells all members something that changes the state. It is applied everywhere, this node included, in one
    /// order; if this node falls out before, perhaps nowhere. `false` if it is out (I-48): nothing is told.
    pub fn submit(&mut self, message: &[u8]) -> bool {
        let is_in = !self.is_out();
        if is_in {
            self.control.submit(Topic::State, message);
        }
        is_in
    }

    /// This node wants to leave. [`GroupEvent::Out`] follows. `false` if it is out already (I-48).
    pub fn leave(&mut self) -> bool {
        let is_in = !self.is_out();
        self.council.leave();
        is_in
    }

    fn is_out(&self) -> bool {
        matches!(self.standing(), Standing::Out(_))
    }

    /// Takes out what the upper layer should know, oldest first.
    pub fn next_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::PeerUp { peer, node } => {
                self.peers.insert(node, peer);
                self.nodes.insert(peer, node);
                self.met.insert(node, peer);
                self.council.linked(node);
                self.unsettled = true;
            }
            NodeEvent::PeerDown { peer, node, evidence } => {
                if self.peers.get(&node) == Some(&peer) {
                    self.peers.remove(&node);
                }
                self.nodes.remove(&peer);
                self.forget_words(node);
                self.council.parted(node, evidence, self.now);
            }
            // It reads no more from that peer, and falls out as its host says.
            NodeEvent::Faulty { fault, .. } if !self.is_proven(fault) => return,
            NodeEvent::Faulty { peer, .. } => {
                if let Some(&node) = self.nodes.get(&peer) {
                    self.council.parted(node, Evidence::Uncertain, self.now);
                }
            }
            NodeEvent::Told { peer, ref bytes } => {
                let Some(&node) = self.nodes.get(&peer) else { return };
                if !Word::from_bytes(bytes).is_some_and(|word| self.told(node, word)) {
                    self.council.faulty(node, self.now);
                }
                return;
            }
            NodeEvent::Founded(id) => return self.begun(id),
            NodeEvent::Begun { subgroup, .. } => return self.begun(subgroup),
            NodeEvent::Left(id) => return self.left(id),
            NodeEvent::Gathered { subgroup, readers, .. } => {
                if let Some(key) = self.key_of(subgroup) {
                    self.events.push_back(GroupEvent::Gathered { key, readers });
                }
                return;
            }
            _ => {}
        }
        self.events.push_back(GroupEvent::Node(event));
    }

    fn told(&mut self, node: NodeId, word: Word) -> bool {
        match word {
            Word::Council(bytes) => return self.council.hear(node, &bytes, self.now),
            Word::Snapshot { view, registry, state } => {
                self.inform(node, (view, registry, state));
            }
            Word::Direct { view, bytes } => return self.direct(node, view, bytes),
            Word::Starts(starts) => return self.hear_starts(node, starts),
            Word::Asks { view } => self.asked_for(node, view),
            Word::Entered { view } => self.has_entered(node, view),
            Word::Why(question) => self.explain(node, question),
            Word::Because(question, answer) => self.hear_answer(node, question, answer),
        }
        true
    }

    fn act(&mut self, deed: Deed<Progress>, effects: &mut Effects) {
        match deed {
            Deed::Tell(node, bytes) => self.tell(node, &Word::Council(bytes), effects),
            Deed::Wedge => {
                if !planted(Fault::WedgedLate) {
                    self.wedge_all();
                }
                if self.council.membership().wants_to_leave() {
                    // Before any member can know the report and go on without this node (I-335).
                    self.node.privatize(effects);
                }
                let report = self.progress();
                self.council.report(report);
            }
            Deed::Install(decision) => {
                if planted(Fault::WedgedLate) {
                    self.wedge_all();
                }
                self.install(&decision, effects);
            }
            Deed::Out(fate) => {
                self.privatize(effects);
                self.end_logs();
                self.events.push_back(GroupEvent::Out(fate));
            }
        }
    }

    /// Delivers nothing more, and makes the memory of peers private where records may refer to it (I-335). To be called before this
    /// node leaves its link, and as soon as it is known that the others have gone on without this node. No turn may follow.
    pub fn privatize(&mut self, effects: &mut Effects) {
        self.wedge_all();
        self.node.privatize(effects);
    }

    fn wedge_all(&mut self) {
        let ids: Vec<SubgroupId> = self.walks.values().filter_map(Walk::id).collect();
        ids.into_iter().for_each(|id| self.node.wedge_subgroup(id));
    }

    fn tell(&mut self, node: NodeId, word: &Word, effects: &mut Effects) {
        match self.peers.get(&node) {
            Some(&peer) => self.node.tell(peer, &word.to_bytes(), effects),
            // A member that this node has not met yet.
            None => self.untold.entry(node).or_default().push(word.to_bytes()),
        }
    }

    /// What could not be told before, after what the council had to tell.
    fn tell_late(&mut self, effects: &mut Effects) {
        let met: Vec<(NodeId, Peer)> =
            self.untold.keys().filter_map(|node| Some((*node, *self.peers.get(node)?))).collect();
        for (node, peer) in met {
            for bytes in self.untold.remove(&node).into_iter().flatten() {
                self.node.tell(peer, &bytes, effects);
            }
        }
    }
}

impl<S: State> Machine for Group<S> {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        if matches!(event, LinkEvent::RegionUp { .. } | LinkEvent::RegionReady { .. }) {
            self.unsettled = true;
        }
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        self.now = now;
        let done = self.node.turn(now, effects);
        match self.is_quiet(now) {
            true => done,
            false => done + self.attend(now, effects),
        }
    }

    fn interest(&self) -> Interest {
        match self.unsettled || self.council.membership().is_wedged() {
            true => Interest::Hints,
            false => self.node.interest(),
        }
    }

    fn awaits_others(&self) -> bool {
        self.node.awaits_others()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let council = self.council.wants_turn_at();
        // Somebody for whom the streams wait has to be watched.
        let streams = self.node.awaits_others() || self.node.awaits_readers();
        let waits = streams || self.node.awaits_room() || self.awaited.is_anybody();
        let look = waits.then_some(self.next_look);
        let logs = self.is_chronicling().then(|| self.now.after(chronicle::LOOK));
        let look = look.into_iter().chain(logs);
        council.into_iter().chain(self.node.wants_turn_at()).chain(look).min()
    }
}

impl<S: State> Group<S> {
    /// Whether there is nothing to do but what the node does: as in almost every turn.
    #[inline]
    fn is_quiet(&self, now: Time) -> bool {
        now < self.next_look
            && !self.unsettled
            && self.owing.is_empty()
            && !self.node.has_events()
            && !self.council.has_deeds()
            && !self.control.has_work(self.informed)
            && !self.is_chronicling()
    }

    fn is_chronicling(&self) -> bool {
        self.chronicle.as_ref().is_some_and(Chronicle::is_busy)
    }

    /// Goes on with the log of views.
    fn chronicle(&mut self) -> usize {
        let Some(chronicle) = &mut self.chronicle else { return 0 };
        let leans = self.leans.get_or_insert_with(|| self.state.leans_on());
        let (done, said) = chronicle.turn((&self.book, &self.installed, self.node.id()), leans);
        said.iter().for_each(|entry| self.control.submit(Topic::Logs, &entry.to_bytes()));
        done + said.len()
    }

    fn attend(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut done = 0;
        while let Some(event) = self.node.next_event() {
            self.take_in(event);
            done += 1;
        }
        done += self.attend_control();
        loop {
            let awaited = self.look_for_awaited(now);
            let deeds = self.council.turn(&awaited, now);
            if deeds.is_empty() {
                break;
            }
            done += deeds.len();
            deeds.into_iter().for_each(|deed| self.act(deed, effects));
        }
        self.ask_why(now);
        if !self.untold.is_empty() {
            self.tell_late(effects);
        }
        done += self.walk(effects) + self.chronicle();
        self.note_new_waits();
        let council = self.council.wants_turn_at().unwrap_or(Time(u64::MAX));
        self.next_look = now.after(self.awaited.interval()).min(council);
        done
    }
}
