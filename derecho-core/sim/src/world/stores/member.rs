//! One member: a group with one stored subgroup, and an application that reads the stored records.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::bytes::Wire;
use derecho_core::group::log_register::{AwaitedLogs, LogRegister};
use derecho_core::group::membership_service::JoinMode;
use derecho_core::group::registry::{Layout, LayoutMember};
use derecho_core::group::view_log::GatedLogPort;
use derecho_core::group::{Group, GroupEvent, ReplicatedState, SubgroupRegions};
use derecho_core::ids::{NodeId, RegionId, Time};
use derecho_core::link::{Interest, Link, LinkEvent};
use derecho_core::log::views::VIEWS;
use derecho_core::log::{LogId, StreamKey};
use derecho_core::machine::{Effects, Machine};
use derecho_core::membership::View;
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SUBGROUP_LINES};
use derecho_core::storage::cursor::StoreCursor;
use derecho_core::storage::log_election::LogElection;
use derecho_core::storage::store::{Key, KeyLiveness, RecordFormat, StoreRetention};
use derecho_core::storage::store_set::{
    StoreAnnouncement, StoreGroupState, StoreSet, transfer_geometry,
};
use derecho_core::transfer::holders::Holders;

use super::World;
use super::checker::StoreChecker;
use crate::world::group::OwnFolder;
use crate::world::{GroupMember, GroupNode, GroupSetting, LogFolders, WorldMember};
use crate::{NodeIndex, Random, SimLink};

/// Key of the subgroup.
pub const KEY: u64 = 7;
/// Stream key of its log.
pub const LOG: StreamKey = StreamKey(7);
const LINES: RegionId = RegionId(1000);
const STREAM: RegionId = RegionId(1001);
const TRANSFER_STREAM: RegionId = RegionId(1002);

/// Returns a record's key.
pub fn key_of(record: &[u8]) -> Key {
    Key::from(record[0])
}

/// Returns the number of a record's content, used as its time. The times of different members are
/// not in order.
pub fn time_of(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[1..9].try_into().unwrap())
}

/// Flag of a record of another key that stands beside this key.
pub const BESIDE: u8 = 0x80;

/// Returns the effect of a record on its key.
pub fn says_of(record: &[u8]) -> KeyLiveness {
    match time_of(record) % 5 {
        _ if record[0] & BESIDE != 0 => KeyLiveness::Companion,
        3 => KeyLiveness::NotAlive,
        _ => KeyLiveness::Alive,
    }
}

const FORMAT: RecordFormat = RecordFormat {
    key: key_of,
    time: time_of,
    all_keys: |_| None,
    liveness: |record, each| each(key_of(record), says_of(record)),
    companion: |key| key ^ Key::from(BESIDE),
};

/// Replicated state of the group: the participants, and the holders of the store.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct TestGroupState {
    seats: Vec<NodeId>,
    holders: Holders,
    /// Log register, if the store is logged.
    logs: Option<LogElection>,
    awaited: AwaitedLogs,
}

impl TestGroupState {
    /// Whether a node takes part.
    pub fn has_seat(&self, node: NodeId) -> bool {
        self.seats.contains(&node)
    }

    fn settle(&mut self) {
        let TestGroupState { seats, holders, logs, awaited } = self;
        logs.iter_mut().for_each(|logs| logs.await_logs(awaited.clone()));
        match logs {
            Some(logs) => logs.settle(holders, seats),
            None => holders.settle(seats, |_| seats.first().copied()),
        }
    }
}

impl ReplicatedState for TestGroupState {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64> {
        match message[0] {
            0 if !self.seats.contains(&from) => self.seats.push(from),
            1 => return self.forget_seat(from),
            2 if self.seats.contains(&from) => {
                self.holders.holds(from, u128::from_bytes(&message[1..]).unwrap());
            }
            3 => {
                self.holders.lacks(from, u64::from_bytes(&message[1..]).unwrap());
            }
            4 if self.seats.contains(&from) => {
                let (vacancy, claim) = Wire::from_bytes(&message[1..]).unwrap();
                self.logs.as_mut().unwrap().claim(from, vacancy, claim);
            }
            5 => {
                self.logs.as_mut().unwrap().disclaim(from);
                if message[1] == 0 {
                    self.holders.forget(from);
                }
            }
            _ => {}
        }
        self.settle();
        vec![KEY]
    }

    fn forget(&mut self, node: NodeId) {
        self.forget_seat(node);
    }

    fn note_logs(&mut self, register: &LogRegister) -> Vec<u64> {
        self.awaited = register.awaited_of(LOG);
        self.settle();
        vec![KEY]
    }

    fn required_logs(&self) -> BTreeSet<LogId> {
        self.logs.iter().flat_map(|logs| logs.leans_on(&self.holders)).collect()
    }

    fn keys(&self) -> Vec<u64> {
        vec![KEY]
    }

    fn layout(&self, _: u64, view: &View) -> Layout {
        // I-106
        let waits = self.logs.is_some() && !self.holders.has_begun();
        let here = |node: &&NodeId| !waits && view.rank_of(**node).is_some();
        let seats = self.seats.iter().filter(here);
        let seat = |node: &NodeId| LayoutMember {
            node: *node,
            reads: true,
            sends: Some(STREAM),
            lines: LINES,
        };
        Layout { level: DeliveryGuarantee::Atomic, members: seats.map(seat).collect() }
    }

    fn snapshot(&self) -> Vec<u8> {
        (self.seats.clone(), (self.holders.clone(), self.logs.clone())).to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        let Some((seats, (holders, logs))) = Wire::from_bytes(bytes) else { return false };
        (self.seats, self.holders, self.logs) = (seats, holders, logs);
        true
    }
}

impl TestGroupState {
    fn forget_seat(&mut self, node: NodeId) -> Vec<u64> {
        self.seats.retain(|seat| *seat != node);
        self.holders.forget(node);
        self.logs.iter_mut().for_each(|logs| logs.forget(node));
        if self.seats.is_empty() && self.logs.is_some() {
            // Members that come later begin from the logs.
            (self.holders, self.logs) = (Holders::default(), Some(LogElection::default()));
        }
        self.settle();
        vec![KEY]
    }
}

impl StoreGroupState for TestGroupState {
    fn holders(&self, key: u64) -> Option<&Holders> {
        (key == KEY).then_some(&self.holders)
    }

    fn logs(&self, _: u64) -> Option<&LogElection> {
        self.logs.as_ref()
    }

    fn announcement(&self, _: u64, motion: StoreAnnouncement) -> Vec<u8> {
        match motion {
            StoreAnnouncement::Holds(beginning) => [vec![2], beginning.to_bytes()].concat(),
            StoreAnnouncement::Lacks(vacancy) => [vec![3], vacancy.to_bytes()].concat(),
            StoreAnnouncement::Claims(vacancy, claim) => {
                [vec![4], (vacancy, *claim).to_bytes()].concat()
            }
            StoreAnnouncement::Disclaims(holds) => vec![5, u8::from(holds)],
        }
    }
}

/// Reader of the stored records.
struct Reader {
    /// Cursor along the store; `None` once the reader has a queue.
    cursor: Option<StoreCursor>,
    /// Name of the reader in the checker.
    name: usize,
}

/// A member of a group with a stored subgroup.
pub struct TestMember {
    base: GroupNode,
    /// Id of the node.
    pub me: NodeId,
    group: Option<Group<TestGroupState>>,
    /// Its stores.
    pub stores: StoreSet,
    checker: Rc<RefCell<StoreChecker>>,
    memory: Option<SenderMemory>,
    inbox: Option<Arc<Inbox>>,
    /// Name in the checker of the readers that began with this membership.
    begun_at: Option<usize>,
    readers: Vec<Reader>,
    senders: BTreeMap<usize, NodeId>,
    members: Vec<NodeId>,
    written: u64,
    random: Random,
    /// Whether it has the whole store.
    pub whole: bool,
    /// Whether it has asked to leave.
    pub leaves: bool,
    retention: StoreRetention,
    /// Whether it is in the subgroup.
    pub takes_part: bool,
    /// Last version that it has reported as durable in its log.
    reported: u64,
    /// Member whose requests this member handles too late.
    pub deaf_to: Option<NodeId>,
}

impl TestMember {
    fn group_mut(&mut self) -> &mut Group<TestGroupState> {
        self.group.as_mut().unwrap()
    }

    /// Writes a record, if there is room for it.
    pub fn write(&mut self) {
        if self.begun_at.is_none() {
            return;
        }
        let length = match self.random.below(8) {
            0 => self.random.between(4000, 8000),
            _ => self.random.between(24, 600),
        } as usize;
        let Some(Ok(mut claim)) = self.memory.as_ref().map(|memory| memory.claim(length)) else {
            return;
        };
        let bytes = claim.bytes();
        bytes[..length].fill(self.written as u8);
        bytes[0] = self.random.below(6) as u8;
        bytes[1..9].copy_from_slice(&self.written.to_le_bytes());
        if self.retention.cleanup.is_some() && self.written % 7 == 5 {
            bytes[0] |= BESIDE;
        }
        self.checker.borrow_mut().wrote(self.me, self.written, &bytes[..length]);
        claim.commit(length, |_, _| {});
        self.written += 1;
    }

    /// Adds another reader, which begins later than the member.
    pub fn read_along(&mut self) {
        let Some(store) = self.stores.store_mut(KEY).filter(|keeper| keeper.is_complete()) else {
            return;
        };
        let cursor = store.store().cursor();
        let name = self.checker.borrow_mut().reads_from_now(self.me);
        self.readers.push(Reader { cursor: Some(cursor), name });
    }

    fn take_in(&mut self, event: GroupEvent) {
        let TestMember { group, stores, .. } = self;
        let group = group.as_mut().unwrap();
        match event {
            GroupEvent::Begun { key, subgroup, epoch, layout, .. } => {
                if let Some(logs) = group.state().logs(key) {
                    self.checker.borrow_mut().begins_from(logs.base().version.0);
                }
                for (number, origin, _) in group.node().senders(subgroup) {
                    let node = match origin {
                        derecho_core::node::StreamOrigin::Own => Some(self.me),
                        derecho_core::node::StreamOrigin::Peer(peer) => group.node().node_of(peer),
                    };
                    self.senders.extend(node.map(|node| (usize::from(number), node)));
                }
                stores.begun(group, key, subgroup, epoch, &layout);
                let alive = |inbox: &Arc<Inbox>| group.node().has_subgroup_reader(subgroup, inbox);
                if !self.inbox.as_ref().is_some_and(alive) {
                    self.inbox = group.node_mut().add_subgroup_reader(subgroup);
                    self.readers.clear();
                    self.begun_at = Some(self.checker.borrow_mut().begins(self.me));
                    self.whole = false;
                }
            }
            GroupEvent::Changed => stores.changed(group),
            GroupEvent::Installed(view) => {
                stores.changed(group);
                let members: Vec<NodeId> = view.members.iter().map(|member| member.node).collect();
                let before = std::mem::replace(&mut self.members, members);
                // As a participant does, because the excluded node may still run.
                for node in before.into_iter().filter(|node| view.rank_of(*node).is_none()) {
                    if let Some(peer) = group.peer_of(node) {
                        group.node_mut().shut_out(peer);
                    }
                }
            }
            GroupEvent::Stuck { wait, answer } => {
                panic!("a correct member is reported as stuck: {wait:?}, {answer:?}")
            }
            GroupEvent::Direct { from, .. } if self.deaf_to == Some(from) => {}
            GroupEvent::Direct { from, bytes, .. } => {
                assert!(stores.direct(group, from, &bytes));
            }
            GroupEvent::Left { key } => stores.left(key),
            GroupEvent::Node(event) => {
                stores.take_in(&event);
            }
            GroupEvent::Out(_) => {
                self.checker.borrow_mut().died(self.me);
                self.end(false);
            }
            GroupEvent::Gathered { .. } => {}
        }
    }

    /// Whether it keeps a log.
    pub fn stores(&self) -> bool {
        self.base.folder.as_ref().is_some_and(|(folders, at)| !folders.is_failing(*at))
    }

    /// Returns the folder of its log, if it keeps one.
    pub fn folder(&self) -> Option<(LogFolders, usize)> {
        self.base.folder.clone()
    }

    /// Records that others continue, none of which has a complete log.
    pub fn is_left_behind(&self) {
        if let Some((folders, at)) = &self.base.folder {
            folders.leave_behind(*at);
        }
    }

    fn judge(&mut self) {
        let mut checker = self.checker.borrow_mut();
        while let Some(record) = self.inbox.as_ref().and_then(|inbox| inbox.take()) {
            let from = self.senders[&record.sender()];
            checker.delivers(self.me, from, record.number(), record.bytes());
        }
        let own = self.stores.own_durable(KEY);
        checker.acknowledges(self.me, own);
        let state = self.group.as_ref().unwrap().state();
        let logs = state.logs(KEY).zip(state.holders(KEY));
        let storers = logs.into_iter().flat_map(|(logs, holders)| logs.complete(holders));
        checker.durable(self.me, self.stores.durable(KEY), storers.map(|(node, _)| node));
        if let Some((folders, at)) = self.base.folder.as_ref().filter(|_| own > self.reported) {
            let group = self.group.as_ref().unwrap();
            let now = (group.log_register().era(), group.view().number);
            assert!(folders.viewed(*at) >= now, "I-150: {own} durable before view {now:?} is");
        }
        self.reported = own;
        let Some(store) = self.stores.store_mut(KEY) else { return };
        assert_eq!(store.gaps(), 0, "consecutive deliveries have a gap");
        if store.is_complete() && !self.whole {
            self.whole = true;
            let cursor = store.opening().unwrap();
            store.close_opening();
            if checker.is_by_order() {
                checker.reads_late(self.begun_at.unwrap());
            }
            self.readers.push(Reader { cursor: Some(cursor), name: self.begun_at.unwrap() });
        }
        let streams = store.store().streams().to_vec();
        // Readers of every other member get a queue when they have read everything, so that the
        // store of that member has no cursor then.
        let get_queues = self.me.0.is_multiple_of(2);
        for reader in &mut self.readers {
            if self.random.one_in(3) {
                continue;
            }
            for kept in reader.cursor.iter_mut().flatten() {
                let from = streams[kept.stream() as usize].node;
                checker.reads(reader.name, from, kept.number(), kept.bytes());
            }
            if get_queues && reader.cursor.is_some() && checker.knows_start(reader.name) {
                reader.cursor = None;
                checker.gets_queue(reader.name);
            }
        }
    }

    /// Reads all remaining stored records.
    pub fn read_all(&mut self) {
        let mut checker = self.checker.borrow_mut();
        let Some(store) = self.stores.store_mut(KEY) else { return };
        let streams = store.store().streams().to_vec();
        for reader in &mut self.readers {
            let Some(cursor) = &mut reader.cursor else { continue };
            for kept in cursor {
                let from = streams[kept.stream() as usize].node;
                checker.reads(reader.name, from, kept.number(), kept.bytes());
            }
            checker.has_read_all(reader.name);
        }
        // The finally kept records.
        let cursor = store.store().cursor();
        let mut kept = Vec::new();
        for record in cursor {
            kept.push((streams[record.stream() as usize].node, record.number()));
        }
        checker.keeps(self.me, kept);
        checker.ends_with(self.me, store.store());
    }
}

impl Machine for TestMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.group_mut().handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut done = self.group_mut().turn(now, effects);
        while let Some(event) = self.group_mut().next_event() {
            self.take_in(event);
            done += 1;
        }
        let TestMember { group, stores, .. } = self;
        let (kept, _) = stores.turn(group.as_mut().unwrap(), now, effects);
        self.judge();
        done + kept
    }

    fn interest(&self) -> Interest {
        self.group().interest()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let stores = self.stores.wants_turn_at();
        self.group().wants_turn_at().into_iter().chain(stores).min()
    }
}

impl WorldMember for TestMember {
    type Checker = StoreChecker;
    type Setting = GroupSetting;
}

impl GroupMember for TestMember {
    type State = TestGroupState;
    const FAULTS: (u64, u64) = (30, 10);
    const LEAST: usize = 1;
    const EMPTY_RESTS: bool = false;

    fn create(
        link: &mut SimLink,
        checker: &Rc<RefCell<StoreChecker>>,
        folder: Option<OwnFolder>,
        _: u64,
    ) -> TestMember {
        let base = GroupNode::new(link, folder, false);
        TestMember {
            me: base.me,
            base,
            group: None,
            stores: StoreSet::default(),
            checker: Rc::clone(checker),
            memory: None,
            inbox: None,
            begun_at: None,
            readers: Vec::new(),
            senders: BTreeMap::new(),
            members: Vec::new(),
            written: 0,
            random: Random::new(link.node().0 as u64),
            whole: false,
            leaves: false,
            retention: checker.borrow().retention,
            takes_part: true,
            reported: 0,
            deaf_to: None,
        }
    }

    fn begin(&mut self, join_mode: JoinMode, setting: &GroupSetting, effects: &mut Effects) {
        let logs = setting.folders.is_some().then(LogElection::default);
        let state = TestGroupState { logs, ..TestGroupState::default() };
        let mut group = self.base.group(join_mode, state, None);
        let link = &mut self.base.link;
        let lines = link.open(LINES, SUBGROUP_LINES * LINE_WORDS).unwrap();
        let geometry = Geometry::fitting(64 << 10, 64, 8 << 10).unwrap();
        let memory = link.open(STREAM, geometry.words()).unwrap();
        let memory = SenderMemory::with_nulls(memory, geometry);
        group.add_regions(
            KEY,
            SubgroupRegions { lines: (LINES, lines), memory: Some((STREAM, memory.clone())) },
        );
        self.memory = Some(memory);
        let geometry = transfer_geometry();
        let transfer_region = link.open(TRANSFER_STREAM, geometry.words()).unwrap();
        let transfer_memory = SenderMemory::new(transfer_region, geometry);
        self.stores.bring(&mut group, TRANSFER_STREAM, transfer_memory, effects);
        self.stores.keep(KEY, self.retention, FORMAT);
        self.checker.borrow().tells.iter().for_each(|most| self.stores.set_most_ended(*most));
        if let Some((folders, at)) = &self.base.folder {
            let mut journal =
                |stream| Box::new(folders.journal(*at, stream, self.random.next_word()));
            let gate = group.keep_logs(journal(VIEWS));
            if self.takes_part {
                self.stores.log(KEY, Box::new(GatedLogPort::new(journal(LOG), gate)));
            }
        }
        if self.takes_part {
            group.submit(&[0]);
        }
        self.group = Some(group);
    }

    fn base(&self) -> &GroupNode {
        &self.base
    }

    fn base_mut(&mut self) -> &mut GroupNode {
        &mut self.base
    }

    fn group(&self) -> &Group<TestGroupState> {
        self.group.as_ref().unwrap()
    }

    fn leave(&mut self) {
        self.group_mut().leave();
    }

    fn drop_logs(&mut self) {
        self.stores = StoreSet::default();
    }

    fn died(checker: &mut StoreChecker, node: NodeId) {
        checker.died(node);
    }

    fn before_departure(world: &mut World, node: NodeIndex) {
        world.leave_behind(node);
    }

    fn after_departure(world: &mut World, node: NodeIndex, leaves: bool) {
        // A leaver takes with it what it alone has.
        world.member_mut(node).leaves |= leaves;
        world.notice_loss();
    }

    fn stores_next(world: &mut World) -> bool {
        !world.random.one_in(4)
    }

    fn join(world: &mut World) {
        let folders = world.setting.folders.as_ref();
        let is_fresh = folders.is_some_and(|folders| folders.is_separate() && folders.is_used());
        match is_fresh && world.random.one_in(3) {
            true => world.add_bystander(),
            false => world.add(),
        };
    }

    fn use_once(world: &mut World, node: NodeIndex) {
        for _ in 0..world.random.below(12) {
            world.inject(node, |member| member.write());
        }
        if world.random.one_in(40) {
            world.inject(node, |member| member.read_along());
        }
    }

    fn is_settled(&self, _: &[NodeId]) -> bool {
        let is_named = self.group().state().holders.names().contains(&self.me);
        !self.takes_part || self.whole && is_named
    }

    fn describe(world: &World) -> String {
        let mut text = String::new();
        for node in world.living() {
            let member = world.member(node);
            let (me, stores, group) = (member.me, &member.stores, member.group());
            text += &format!("\n{me:?}: {stores:?}, {:?}\n  {}", group.state(), group.describe());
        }
        for node in world.all() {
            let member = world.member(node);
            let (me, standing) = (member.me, member.group().status());
            let (runs, stores) = (world.is_running(node), member.stores());
            text += &format!("\n{me:?} runs {runs}, {standing:?}, keeps a log {stores}");
        }
        text
    }

    fn before_judgement(world: &mut World) {
        let keeps = |node: &NodeIndex| {
            let member = world.member(*node);
            member.stores() && !member.leaves
        };
        if world.setting.folders.is_some() && !world.living().iter().any(keeps) {
            // The group does not continue without a member that keeps a log.
            world.add_one(true);
        }
    }

    /// Checks that all readers finally have their records, and that all members keep the same.
    fn judge_end(world: &mut World) {
        for node in world.living() {
            if !world.member(node).takes_part {
                continue;
            }
            world.member_mut(node).read_all();
            let me = world.member(node).me;
            assert!(
                world.checker.borrow().acquits(me),
                "{me:?} has read content that was not written"
            );
        }
        world.checker.borrow_mut().end();
    }
}
