//! One member: a shard machine, and an object host that is slower than the machine.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::group::Group;
use derecho_core::group::membership_service::JoinMode;
use derecho_core::group::view_log::GatedLogPort;
use derecho_core::ids::{NodeId, Time};
use derecho_core::link::{Interest, LinkEvent};
use derecho_core::log::StreamKey;
use derecho_core::log::views::VIEWS;
use derecho_core::machine::{Effects, Machine};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_core::replicated::arrangements::{BalancedShards, OneShard};
use derecho_core::replicated::messages::{MachineRequest, ObjectMessage, QueryOutcome};
use derecho_core::replicated::object_host::{
    ApplicationEvent, CheckpointPolicy, MessageHeader, ObjectHost, ObjectOrigin,
};
use derecho_core::replicated::plan::{Declaration, key_of_log, log_of, shard_of};
use derecho_core::replicated::shard_directory::ShardDirectory;
use derecho_core::replicated::shard_machine::{ShardEvent, ShardMachine};
use derecho_core::replicated::{Object, ObjectPosition};
use derecho_core::storage::log_port::LogPort;

use super::World;
use super::checker::{Chain, ObjectChecker, ObjectEdition, ReceivedMessage};
use crate::world::group::OwnFolder;
use crate::world::log_folders::FoundLog;
use crate::world::{GroupMember, GroupNode, GroupSetting, WorldMember};
use crate::{NodeIndex, Random, SimLink};

/// The object: its chain, and some ballast that prolongs its transfer.
pub struct ChainObject {
    /// All updates.
    pub chain: Chain,
    ballast: usize,
    /// States since the last check.
    past: RefCell<Vec<ObjectEdition>>,
}

impl ChainObject {
    fn new(ballast: usize) -> ChainObject {
        ChainObject { chain: Chain::default(), ballast, past: RefCell::default() }
    }
}

impl Object for ChainObject {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8> {
        self.chain = self.chain.with(from, message);
        let number = message.first_chunk().map(|word| u64::from_le_bytes(*word));
        let update = number.map(|number| (from, number));
        self.past.borrow_mut().push(ObjectEdition { chain: self.chain, update });
        self.chain.sum.to_le_bytes().to_vec()
    }

    fn answer(&self, _: NodeId, query: &[u8]) -> Vec<u8> {
        query.to_vec()
    }

    fn hear(&mut self, _: NodeId, _: &[u8]) {}

    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = vec![7; self.ballast];
        bytes.extend(self.chain.sum.to_le_bytes());
        bytes.extend(self.chain.count.to_le_bytes());
        bytes
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        assert!(bytes[..self.ballast].iter().all(|byte| *byte == 7));
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        self.chain = Chain { sum: word(self.ballast), count: word(self.ballast + 8) };
        *self.past.borrow_mut() = vec![ObjectEdition { chain: self.chain, update: None }];
        true
    }

    fn reset(&mut self) {
        self.chain = Chain::default();
        self.past.borrow_mut().clear();
    }
}

/// Declarations of every member: two shards of one to three members, one of all, and one of all
/// without an order.
pub fn declarations(logged: bool) -> Arc<[Declaration]> {
    let sharded = Arc::new(BalancedShards { shards: 2, least: 1, most: 3 });
    let declaration = |name: &str, level, arrangement| {
        let logged = logged && level == DeliveryGuarantee::Atomic;
        Declaration { name: name.to_string(), level, logged, arrangement }
    };
    Arc::new([
        declaration("shards", DeliveryGuarantee::Atomic, sharded),
        declaration(
            "all",
            DeliveryGuarantee::Atomic,
            Arc::new(OneShard { least: if logged { 1 } else { 2 } }),
        ),
        declaration("raw", DeliveryGuarantee::Unordered, Arc::new(OneShard { least: 1 })),
    ])
}

/// Number of objects.
fn objects() -> usize {
    3
}

/// Object to which a message is about to be applied.
#[derive(Clone, Copy)]
struct ObjectBefore {
    key: u64,
    position: ObjectPosition,
    /// Number of its updates.
    count: u64,
}

/// A member of a group with replicated objects.
pub struct TestMember {
    base: GroupNode,
    me: NodeId,
    machine: Option<ShardMachine>,
    object_host: ObjectHost<ChainObject>,
    items: VecDeque<ShardEvent>,
    checker: Rc<RefCell<ObjectChecker>>,
    random: Random,
    view: u64,
    sent_numbers: BTreeMap<NodeId, u64>,
    written: u64,
    /// Number of messages that it has still to send.
    pub unsent: usize,
    /// Queries whose outcomes were not checked yet.
    pub queries: Vec<u64>,
    now: Time,
    /// Objects that begin from its logs, and their versions there.
    begins: BTreeMap<u64, u64>,
    seed: u64,
}

/// Returns the stream key of a shard in logs.
pub fn stream_of(key: u64) -> StreamKey {
    log_of(&declarations(true), key).unwrap()
}

impl TestMember {
    /// Returns its shard machine.
    pub fn machine(&self) -> &ShardMachine {
        self.machine.as_ref().unwrap()
    }

    fn machine_mut(&mut self) -> &mut ShardMachine {
        self.machine.as_mut().unwrap()
    }

    /// Returns its object host.
    pub fn object_host(&self) -> &ObjectHost<ChainObject> {
        &self.object_host
    }

    /// Returns the shards that may concern it.
    pub fn keys(&self) -> Vec<u64> {
        self.machine().directory().shards().map(|(key, _)| key).collect()
    }

    /// Whether its object host has taken everything.
    pub fn is_at_rest(&self) -> bool {
        self.items.is_empty() && !self.machine().wants_opening()
    }

    /// Sends an update, if there is room for it.
    pub fn write(&mut self, key: u64) {
        let Some(memory) = self.object_host.sending(key).cloned() else { return };
        let mut message = self.head(None).bytes().to_vec();
        message.extend(self.written.to_le_bytes());
        message.extend(key.to_le_bytes());
        let Ok(mut claim) = memory.claim(message.len()) else { return };
        claim.bytes().copy_from_slice(&message);
        claim.commit(message.len(), |_, _| {});
        self.written += 1;
    }

    fn head(&self, query: Option<u64>) -> MessageHeader {
        MessageHeader::new(query, self.base.folder.as_ref().map(|_| self.written))
    }

    /// Queries all readers, if it is a reader.
    pub fn ask(&mut self, key: u64) {
        let Some(memory) = self.object_host.sending(key).cloned() else { return };
        let ordered = shard_of(key).0 < 2;
        if !self.object_host.reads(key) || !ordered {
            return;
        }
        let length = self.head(Some(0)).bytes().len();
        let Ok(mut claim) = memory.claim(length) else { return };
        let query = self.object_host.queries().open(key, None);
        claim.bytes().copy_from_slice(self.head(Some(query)).bytes());
        claim.commit(length, |_, _| {});
        self.queries.push(query);
    }

    /// Sends a message or a question to some member.
    fn say(&mut self, effects: &mut Effects) {
        let members = self.object_host.members();
        if members.is_empty() || !members.contains(&self.me) {
            return;
        }
        let to = members[self.random.below(members.len() as u64) as usize];
        let group = self.machine().group().view();
        // Only if the object host's knowledge is current: a number is used only when it is sent.
        if group.rank_of(to).is_none() || !self.machine().has_room_for(to) {
            return;
        }
        let number = self.sent_numbers.entry(to).or_default();
        *number += 1;
        let mut bytes = self.machine.as_ref().unwrap().group().view().number.to_le_bytes().to_vec();
        bytes.extend(number.to_le_bytes());
        let mut requests = vec![MachineRequest::Direct(to, ObjectMessage::Say { key: 0, bytes })];
        if self.random.one_in(4) {
            let key = 1 << 32;
            let query = self.object_host.queries().open(key, Some(to));
            self.queries.push(query);
            requests.push(MachineRequest::Direct(
                to,
                ObjectMessage::Ask { key, query, bytes: vec![1] },
            ));
        }
        self.machine_mut().perform(requests, effects);
    }

    /// Makes the object host take some items, each checked before and after.
    fn work(&mut self, effects: &mut Effects) {
        let some = self.random.between(1, 12);
        for _ in 0..some {
            let Some(item) = self.items.pop_front() else { break };
            let mut applied = None;
            match &item {
                ShardEvent::View { view, .. } => self.view = view.number,
                ShardEvent::Message { key, .. } => {
                    let before = self.object_host.object(*key);
                    applied = before.map(|(position, links)| ObjectBefore {
                        key: *key,
                        position,
                        count: links.chain.count,
                    });
                }
                ShardEvent::Direct { from, message: ObjectMessage::Say { bytes, .. }, .. } => {
                    let word =
                        |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                    let mut checker = self.checker.borrow_mut();
                    let message =
                        ReceivedMessage { from: *from, sent_in: word(0), number: word(8) };
                    checker.receives(self.me, self.view, self.object_host.members(), message);
                }
                _ => {}
            }
            self.object_host.take(item);
            self.judge(applied);
        }
        self.flush(effects);
    }

    /// Gives its logs some time.
    fn tend(&mut self, now: Time, effects: &mut Effects) -> usize {
        let has_logs = self.object_host.stage();
        if !has_logs || self.machine().group().is_overtaken() {
            return 0;
        }
        let done = self.object_host.advance_logs(now);
        self.judge(None);
        self.flush(effects);
        done
    }

    fn flush(&mut self, effects: &mut Effects) {
        let requests = self.object_host.take_machine_requests();
        self.machine_mut().perform(requests, effects);
    }

    /// Reports events and objects to the checker. `applied`: the object to which a message may have
    /// been applied, as it was before.
    fn judge(&mut self, applied: Option<ObjectBefore>) {
        let checker = Rc::clone(&self.checker);
        let mut checker = checker.borrow_mut();
        while let Some(occasion) = self.object_host.next_event() {
            match occasion {
                ApplicationEvent::Started { key, origin: ObjectOrigin::Logged { version } } => {
                    checker.anew(self.me, key, self.object_host.members());
                    checker.logged += 1;
                    self.begins.insert(key, version);
                }
                ApplicationEvent::Started { key, origin: ObjectOrigin::Initial }
                    if shard_of(key).0 < 2 =>
                {
                    checker.anew(self.me, key, self.object_host.members());
                }
                ApplicationEvent::Started { origin: ObjectOrigin::Transferred { .. }, .. } => {
                    checker.transfers += 1
                }
                ApplicationEvent::Started { origin: ObjectOrigin::Retained, .. } => {
                    checker.kept += 1
                }
                ApplicationEvent::Unreadable { .. } | ApplicationEvent::Refused => {
                    panic!("{occasion:?}")
                }
                ApplicationEvent::Out(_) => {
                    checker.died(self.me);
                    // The process ends.
                    if let Some((folders, at)) = self.base.folder.take() {
                        folders.give_back(at, false);
                    }
                }
                _ => {}
            }
        }
        for key in self.keys().into_iter().filter(|key| shard_of(*key).0 < 2) {
            let now = self.object_host.object(key);
            if let Some(before) = applied.filter(|before| before.key == key)
                && let Some((after, links)) = now
                && links.chain.count > before.count
            {
                checker.applies(self.me, key, before.position, after);
            }
            if let (Some((at, links)), true) = (now, self.base.folder.is_some()) {
                let mut past = links.past.borrow_mut();
                if let Some(version) = self.begins.remove(&key) {
                    checker.begins(key, at.beginning, version, &past);
                }
                past.drain(..).for_each(|it| checker.edition(key, at.beginning, it));
                let status = self.object_host.log_status(key).unwrap();
                assert_eq!(status.object_version.map(|it| it.version), Some(links.chain.count));
                checker.durable(key, at.beginning, status.durable);
            }
            let chain = now.map(|(_, links)| links.chain).unwrap_or_default();
            checker.stands(self.me, key, now.map(|(at, _)| at), chain);
        }
    }

    /// Checks the queries with known outcomes: all answers to one query are equal.
    pub fn check_queries(&mut self) -> usize {
        let mut open = 0;
        for query in core::mem::take(&mut self.queries) {
            let known = self.object_host.queries().get(query).unwrap();
            if !known.is_over() {
                open += 1;
                self.queries.push(query);
                continue;
            }
            let mut answers: Vec<&Vec<u8>> = Vec::new();
            for outcome in known.outcomes().values() {
                if let QueryOutcome::Answer(answer) = outcome {
                    answers.push(answer);
                }
            }
            // If an object has begun afresh meanwhile, an answer may belong to the
            // earlier beginning.
            let anew = self.base.folder.is_some() || self.checker.borrow().beginnings > objects();
            let same = answers.windows(2).all(|pair| pair[0] == pair[1]);
            assert!(same || anew, "the answers to one query differ: {known:?}");
            self.checker.borrow_mut().answers += answers.len();
            self.object_host.queries().close(query);
        }
        open
    }
}

impl Machine for TestMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.machine_mut().handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        self.now = now;
        let done = self.machine_mut().turn(now, effects);
        let mut link = self.base.link.clone();
        self.machine_mut().open(&mut link).unwrap();
        let items = self.machine_mut().take_events();
        self.items.extend(items);
        // Posts made outside of turns could overtake those of a turn.
        let said = core::mem::take(&mut self.unsent);
        (0..said).for_each(|_| self.say(effects));
        let tended = if self.base.folder.is_some() { self.tend(now, effects) } else { 0 };
        let waiting = self.items.len() + said + tended;
        if !self.items.is_empty() && self.random.one_in(3) {
            self.work(effects);
        }
        // The object host's requests may need one more turn.
        done + waiting
    }

    fn interest(&self) -> Interest {
        self.machine().interest()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let logs = self.object_host.logs_due_at(self.now);
        match self.items.is_empty() {
            true => self.machine().wants_turn_at().into_iter().chain(logs).min(),
            false => Some(Time(0)),
        }
    }
}

impl WorldMember for TestMember {
    type Checker = ObjectChecker;
    type Setting = GroupSetting;
}

impl GroupMember for TestMember {
    type State = ShardDirectory;
    const FAULTS: (u64, u64) = (40, 9);
    const LEAST: usize = 2;
    const EMPTY_RESTS: bool = true;

    fn create(
        link: &mut SimLink,
        checker: &Rc<RefCell<ObjectChecker>>,
        folder: Option<OwnFolder>,
        seed: u64,
    ) -> TestMember {
        let base = GroupNode::new(link, folder, false);
        let ballast = if seed.is_multiple_of(2) { 100 } else { 300_000 };
        let make = Box::new(move |_| ChainObject::new(ballast));
        TestMember {
            me: base.me,
            machine: None,
            object_host: ObjectHost::new(base.me, make),
            items: VecDeque::new(),
            checker: Rc::clone(checker),
            random: Random::new(seed ^ base.me.0 as u64),
            base,
            view: 0,
            sent_numbers: BTreeMap::new(),
            written: 0,
            unsent: 0,
            queries: Vec::new(),
            now: Time(0),
            begins: BTreeMap::new(),
            seed,
        }
    }

    fn begin(&mut self, join_mode: JoinMode, _: &GroupSetting, _: &mut Effects) {
        let directory = ShardDirectory::new(declarations(self.base.folder.is_some()));
        let mut group = self.base.group(join_mode, directory, None);
        if let Some((folders, at)) = self.base.folder.clone() {
            let mut random = Random::new(self.seed ^ self.me.0 as u64 ^ 0x106);
            let checkpointing = match self.seed % 3 {
                0 => None,
                some => Some(CheckpointPolicy { updates: 10 * some, bytes: 2_000 }),
            };
            let gate = group.keep_logs(Box::new(folders.journal(at, VIEWS, random.next_word())));
            let open = move |key| {
                let journal = Box::new(folders.journal(at, stream_of(key), random.next_word()));
                Some(Box::new(GatedLogPort::new(journal, gate.clone())) as Box<dyn LogPort>)
            };
            self.object_host.keep_logs(Box::new(open), checkpointing);
        }
        let geometry = Geometry::fitting(4096, 16, 64).unwrap();
        let mut machine = ShardMachine::new(group, Vec::new(), geometry);
        if let Some((folders, at)) = &self.base.folder {
            let types = declarations(true);
            let streams = folders.streams(*at).into_iter();
            machine.has_logs(streams.filter_map(|stream| key_of_log(&types, stream)));
        }
        self.machine = Some(machine);
    }

    fn base(&self) -> &GroupNode {
        &self.base
    }

    fn base_mut(&mut self) -> &mut GroupNode {
        &mut self.base
    }

    fn group(&self) -> &Group<ShardDirectory> {
        self.machine().group()
    }

    fn leave(&mut self) {
        self.machine_mut().leave();
    }

    fn drop_logs(&mut self) {
        self.object_host = ObjectHost::new(self.me, Box::new(|_| ChainObject::new(0)));
    }

    fn died(checker: &mut ObjectChecker, node: NodeId) {
        checker.died(node);
    }

    fn all_died(checker: &mut ObjectChecker) {
        checker.restart();
    }

    fn use_once(world: &mut World, node: NodeIndex) {
        for key in world.member(node).keys() {
            match world.random.below(12) {
                0 => world.inject(node, move |member| member.ask(key)),
                1..6 => world.inject(node, move |member| member.write(key)),
                _ => {}
            }
        }
        if world.random.one_in(3) {
            world.inject(node, |member| member.unsent += 1);
        }
    }

    /// Whether it has the objects of all its shards.
    fn is_settled(&self, nodes: &[NodeId]) -> bool {
        let directory = self.machine().directory();
        let has = |key: u64| {
            let shard = directory.shard(key).unwrap();
            let reads = shard.member_of(self.me).is_some_and(|place| place.reads);
            let held = shard_of(key).0 == 2 || shard.holders().contains(&self.me);
            let wanted = reads && directory.plan(shard_of(key).0).is_ok();
            let there = self.object_host().object(key).is_some();
            there == wanted && (!wanted || held)
        };
        directory.members().len() == nodes.len()
            && self.is_at_rest()
            && self.keys().into_iter().all(has)
    }

    fn describe(world: &World) -> String {
        let mut text = String::new();
        for node in world.living() {
            let member = world.member(node);
            text += &format!("\n{:?}: {}", member.me, member.group().describe());
            for (key, shard) in member.machine().directory().shards() {
                let at = member.object_host().object(key).map(|it| it.0);
                let (holders, vacancy) = (shard.holders(), shard.vacancy());
                let (replica, logs) = (member.object_host().describe(key), shard.logs());
                text += &format!("\n  {key:#x} at {at:?}: held by {holders:?}, {vacancy:?}");
                text += &format!("\n    replica: {replica:?}\n    logs: {logs:?}");
            }
        }
        for node in world.all() {
            let member = world.member(node);
            let (runs, standing) = (world.is_running(node), member.group().status());
            let folder = member.base.folder.as_ref().map(|(_, at)| at);
            let me = member.me;
            text += &format!("\n{me:?} runs {runs}, {standing:?}, keeps logs in {folder:?}");
        }
        for key in [1_u64 << 32, (1 << 32) + 1, 2 << 32] {
            let folders = world.setting.folders.iter();
            for found in folders.flat_map(|folders| folders.logs(stream_of(key))) {
                let FoundLog { log, tail, checkpoint, records } = found;
                let versions: Vec<u64> = records.iter().map(|it| it.record().version.0).collect();
                let (first, last) = (versions.first(), versions.last());
                text += &format!("\n{key:#x} in {log}: {tail:?}, state {checkpoint:?}, ");
                text += &format!("{first:?} to {last:?}");
            }
        }
        text
    }

    /// Checks that all members have the same objects, and every query has its outcome.
    fn judge_end(world: &mut World) {
        let living = world.living();
        let directories: Vec<_> =
            living.iter().map(|n| world.member(*n).machine().directory().clone()).collect();
        assert!(
            directories.windows(2).all(|pair| pair[0] == pair[1]),
            "members have different shard directories"
        );
        let mut objects = BTreeMap::new();
        for node in &living {
            let member = world.member(*node);
            for key in member.keys().into_iter().filter(|key| shard_of(*key).0 < 2) {
                let Some((at, links)) = member.object_host().object(key) else { continue };
                let known = *objects.entry(key).or_insert((at, links.chain));
                assert_eq!(known, (at, links.chain), "members have different states of {key:#x}");
            }
        }
        for node in living {
            let open = world.member_mut(node).check_queries();
            assert_eq!(open, 0, "a query is still open at {node:?}");
        }
    }
}
