//! One member: a house, and a desk that is slower than the house.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::group::chronicle::Gated;
use derecho_core::group::council::{Entrance, Host};
use derecho_core::group::watch::Patience;
use derecho_core::group::{Group, Share, Terms};
use derecho_core::ids::{NodeId, Time};
use derecho_core::link::{Interest, Link, LinkEvent};
use derecho_core::log::StreamKey;
use derecho_core::log::views::VIEWS;
use derecho_core::machine::{Effects, Machine};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::Level;
use derecho_core::node::{ACKS, ACKS_WORDS, Node};
use derecho_core::replicated::agenda::Agenda;
use derecho_core::replicated::arrangements::{Everyone, Sharded};
use derecho_core::replicated::desk::{Checkpointing, Desk, Head, Occasion, Start};
use derecho_core::replicated::errand::{Errand, Outcome, Parcel};
use derecho_core::replicated::house::{House, Item};
use derecho_core::replicated::plan::{Declaration, key_of_log, log_of, shard_of};
use derecho_core::replicated::{Object, Position};
use derecho_core::storage::journal::Journal;
use derecho_sim::{Random, SimLink};

use super::court::{Chain, Court, Update};
use super::root::Root;

const PATIENCE: Patience = Patience { member_timeout: Some(2_000_000), gather: 100_000 };

/// The object: its chain, and some ballast that prolongs its transfer.
pub(crate) struct Links {
    pub(crate) chain: Chain,
    ballast: usize,
    /// States since the last check.
    past: RefCell<Vec<(Chain, Option<Update>)>>,
}

impl Links {
    fn new(ballast: usize) -> Links {
        Links { chain: Chain::default(), ballast, past: RefCell::default() }
    }
}

impl Object for Links {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8> {
        self.chain = self.chain.with(from, message);
        let number = message.first_chunk().map(|word| u64::from_le_bytes(*word));
        self.past.borrow_mut().push((self.chain, number.map(|number| (from, number))));
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
        *self.past.borrow_mut() = vec![(self.chain, None)];
        true
    }

    fn reset(&mut self) {
        self.chain = Chain::default();
        self.past.borrow_mut().clear();
    }
}

/// Declarations of every member: two shards of one to three members, one of all, and one of all
/// without an order.
pub(crate) fn declarations(logged: bool) -> Arc<[Declaration]> {
    let sharded = Arc::new(Sharded { shards: 2, least: 1, most: 3 });
    let declaration = |name: &str, level, arrangement| {
        let logged = logged && level == Level::Atomic;
        Declaration { name: name.to_string(), level, logged, arrangement }
    };
    Arc::new([
        declaration("shards", Level::Atomic, sharded),
        declaration("all", Level::Atomic, Arc::new(Everyone { least: if logged { 1 } else { 2 } })),
        declaration("raw", Level::Unordered, Arc::new(Everyone { least: 1 })),
    ])
}

/// Number of objects.
fn objects() -> usize {
    3
}

pub(crate) struct Member {
    pub(crate) me: NodeId,
    house: Option<House>,
    prepared: Option<(Node, Share)>,
    desk: Desk<Links>,
    items: VecDeque<Item>,
    link: SimLink,
    court: Rc<RefCell<Court>>,
    random: Random,
    view: u64,
    said: BTreeMap<NodeId, u64>,
    written: u64,
    /// Number of messages that it has still to send.
    pub(crate) unsaid: usize,
    pub(crate) queries: Vec<u64>,
    /// Folder of its logs, if it keeps any.
    root: Option<(Root, usize)>,
    now: Time,
    /// Objects that begin from its logs, and their versions there.
    begins: BTreeMap<u64, u64>,
    seed: u64,
}

/// Returns the stream key of a shard in logs.
pub(crate) fn stream_of(key: u64) -> StreamKey {
    log_of(&declarations(true), key).unwrap()
}

impl Member {
    pub(crate) fn new(
        link: &mut SimLink,
        court: &Rc<RefCell<Court>>,
        seed: u64,
        root: Option<(Root, usize)>,
    ) -> Member {
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let node = Node::new(link.node(), acks, Arc::new(|| {}));
        let control = Share::open_control(link).unwrap();
        let ballast = if seed.is_multiple_of(2) { 100 } else { 300_000 };
        let make = Box::new(move |_| Links::new(ballast));
        let desk = Desk::new(link.node(), make);
        Member {
            me: link.node(),
            house: None,
            prepared: Some((node, control)),
            desk,
            items: VecDeque::new(),
            link: link.clone(),
            court: Rc::clone(court),
            random: Random::new(seed ^ link.node().0 as u64),
            view: 0,
            said: BTreeMap::new(),
            written: 0,
            unsaid: 0,
            queries: Vec::new(),
            root,
            now: Time(0),
            begins: BTreeMap::new(),
            seed,
        }
    }

    pub(crate) fn begin(&mut self, entrance: Entrance) {
        let (node, control) = self.prepared.take().unwrap();
        let local = matches!(entrance, Entrance::Local);
        let terms =
            Terms { entrance, weight: 1, patience: PATIENCE, ablation: Ablation::default() };
        let host = self.link.arbiter().filter(|_| local);
        let host = host.map(|arbiter| Host { arbiter, is_halted: Arc::new(|_| false) });
        let agenda = Agenda::new(declarations(self.root.is_some()));
        let mut group = Group::new(node, terms, agenda, control, host);
        if let Some((root, at)) = self.root.clone() {
            let mut random = Random::new(self.seed ^ self.me.0 as u64 ^ 0x106);
            let checkpointing = match self.seed % 3 {
                0 => None,
                some => Some(Checkpointing { updates: 10 * some, bytes: 2_000 }),
            };
            let gate = group.keep_logs(Box::new(root.journal(at, VIEWS, random.next_word())));
            let open = move |key| {
                let journal = Box::new(root.journal(at, stream_of(key), random.next_word()));
                Some(Box::new(Gated::new(journal, gate.clone())) as Box<dyn Journal>)
            };
            self.desk.keep_logs(Box::new(open), checkpointing);
        }
        let geometry = Geometry::fitting(4096, 16, 64).unwrap();
        let mut house = House::new(group, Vec::new(), geometry);
        if let Some((root, at)) = &self.root {
            let types = declarations(true);
            let streams = root.streams(*at).into_iter();
            house.has_logs(streams.filter_map(|stream| key_of_log(&types, stream)));
        }
        self.house = Some(house);
    }

    pub(crate) fn house(&self) -> &House {
        self.house.as_ref().unwrap()
    }

    /// Returns the folder of its logs, if it keeps any.
    pub(crate) fn folder(&self) -> Option<usize> {
        self.root.as_ref().map(|(_, at)| *at)
    }

    /// Ends the member; others may then take its logs.
    pub(crate) fn end(&mut self, power: bool) {
        if let Some((root, at)) = self.root.take() {
            self.desk = Desk::new(self.me, Box::new(|_| Links::new(0)));
            root.give_back(at, power);
        }
    }

    fn house_mut(&mut self) -> &mut House {
        self.house.as_mut().unwrap()
    }

    pub(crate) fn desk(&self) -> &Desk<Links> {
        &self.desk
    }

    pub(crate) fn leave(&mut self) {
        self.house_mut().leave();
    }

    /// Returns the shards that may concern it.
    pub(crate) fn keys(&self) -> Vec<u64> {
        self.house().agenda().shards().map(|(key, _)| key).collect()
    }

    /// Whether its desk has taken everything.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.items.is_empty() && !self.house().wants_opening()
    }

    /// Sends an update, if there is room for it.
    pub(crate) fn write(&mut self, key: u64) {
        let Some(memory) = self.desk.sending(key).cloned() else { return };
        let mut message = self.head(None).bytes().to_vec();
        message.extend(self.written.to_le_bytes());
        message.extend(key.to_le_bytes());
        let Ok(mut claim) = memory.claim(message.len()) else { return };
        claim.bytes().copy_from_slice(&message);
        claim.commit(message.len(), |_, _| {});
        self.written += 1;
    }

    fn head(&self, query: Option<u64>) -> Head {
        Head::new(query, self.root.as_ref().map(|_| self.written))
    }

    /// Queries all readers, if it is a reader.
    pub(crate) fn ask(&mut self, key: u64) {
        let Some(memory) = self.desk.sending(key).cloned() else { return };
        let ordered = shard_of(key).0 < 2;
        if !self.desk.reads(key) || !ordered {
            return;
        }
        let length = self.head(Some(0)).bytes().len();
        let Ok(mut claim) = memory.claim(length) else { return };
        let query = self.desk.ledger().open(key, None);
        claim.bytes().copy_from_slice(self.head(Some(query)).bytes());
        claim.commit(length, |_, _| {});
        self.queries.push(query);
    }

    /// Sends a message or a question to some member.
    fn say(&mut self, effects: &mut Effects) {
        let members = self.desk.members();
        if members.is_empty() || !members.contains(&self.me) {
            return;
        }
        let to = members[self.random.below(members.len() as u64) as usize];
        let group = self.house().group().view();
        // Only if the desk's knowledge is current: a number is used only when it is really sent.
        if group.rank_of(to).is_none() || !self.house().has_room_for(to) {
            return;
        }
        let number = self.said.entry(to).or_default();
        *number += 1;
        let mut bytes = self.house.as_ref().unwrap().group().view().number.to_le_bytes().to_vec();
        bytes.extend(number.to_le_bytes());
        let mut errands = vec![Errand::Direct(to, Parcel::Say { key: 0, bytes })];
        if self.random.one_in(4) {
            let key = 1 << 32;
            let query = self.desk.ledger().open(key, Some(to));
            self.queries.push(query);
            errands.push(Errand::Direct(to, Parcel::Ask { key, query, bytes: vec![1] }));
        }
        self.house_mut().perform(errands, effects);
    }

    /// Makes the desk take some items, each checked before and after.
    fn work(&mut self, effects: &mut Effects) {
        let some = self.random.between(1, 12);
        for _ in 0..some {
            let Some(item) = self.items.pop_front() else { break };
            let mut applied = None;
            match &item {
                Item::View { view, .. } => self.view = view.number,
                Item::Message { key, .. } => {
                    let at = self.desk.object(*key).map(|(at, links)| (at, links.chain.count));
                    applied = Some((*key, at));
                }
                Item::Parcel { from, parcel: Parcel::Say { bytes, .. }, .. } => {
                    let word =
                        |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                    let mut court = self.court.borrow_mut();
                    let here = (self.view, self.desk.members());
                    court.hears(self.me, here, *from, (word(0), word(8)));
                }
                _ => {}
            }
            self.desk.take(item);
            self.judge(applied);
        }
        self.flush(effects);
    }

    /// Gives its logs some time.
    fn tend(&mut self, now: Time, effects: &mut Effects) -> usize {
        let has_logs = self.desk.stage();
        if !has_logs || self.house().group().is_overtaken() {
            return 0;
        }
        let done = self.desk.tend(now);
        self.judge(None);
        self.flush(effects);
        done
    }

    fn flush(&mut self, effects: &mut Effects) {
        let errands = self.desk.take_errands();
        self.house_mut().perform(errands, effects);
    }

    fn judge(&mut self, applied: Option<(u64, Option<(Position, u64)>)>) {
        let court = Rc::clone(&self.court);
        let mut court = court.borrow_mut();
        while let Some(occasion) = self.desk.next_occasion() {
            match occasion {
                Occasion::Started { key, start: Start::Logged { version } } => {
                    court.anew(self.me, key, self.desk.members());
                    court.logged += 1;
                    self.begins.insert(key, version);
                }
                Occasion::Started { key, start: Start::Anew } if shard_of(key).0 < 2 => {
                    court.anew(self.me, key, self.desk.members());
                }
                Occasion::Started { start: Start::Transferred { .. }, .. } => court.transfers += 1,
                Occasion::Started { start: Start::Kept, .. } => court.kept += 1,
                Occasion::Unreadable { .. } | Occasion::Refused => panic!("{occasion:?}"),
                Occasion::Out(_) => {
                    court.died(self.me);
                    // The process ends.
                    self.root.take().into_iter().for_each(|(root, at)| root.give_back(at, false));
                }
                _ => {}
            }
        }
        for key in self.keys().into_iter().filter(|key| shard_of(*key).0 < 2) {
            let now = self.desk.object(key);
            if let Some((of, Some((before, count)))) = applied
                && let Some((after, links)) = now
                && of == key
                && links.chain.count > count
            {
                court.applies(self.me, key, before, after);
            }
            if let (Some((at, links)), true) = (now, self.root.is_some()) {
                let mut past = links.past.borrow_mut();
                if let Some(version) = self.begins.remove(&key) {
                    court.begins(key, at.beginning, version, &past);
                }
                let had = |(chain, update)| court.edition(key, at.beginning, chain, update);
                past.drain(..).for_each(had);
                let status = self.desk.log_status(key).unwrap();
                assert_eq!(status.edition.map(|it| it.version), Some(links.chain.count));
                court.durable(key, at.beginning, status.durable);
            }
            let chain = now.map(|(_, links)| links.chain).unwrap_or_default();
            court.stands(self.me, key, now.map(|(at, _)| at), chain);
        }
    }

    /// Checks the queries with known outcomes: all answers to one query are equal.
    pub(crate) fn check_queries(&mut self) -> usize {
        let mut open = 0;
        for query in core::mem::take(&mut self.queries) {
            let known = self.desk.ledger().get(query).unwrap();
            if !known.is_over() {
                open += 1;
                self.queries.push(query);
                continue;
            }
            let mut answers: Vec<&Vec<u8>> = Vec::new();
            for outcome in known.outcomes().values() {
                if let Outcome::Answer(answer) = outcome {
                    answers.push(answer);
                }
            }
            // If an object has begun afresh meanwhile, an answer may belong to the
            // earlier beginning.
            let anew = self.root.is_some() || self.court.borrow().beginnings > objects();
            let same = answers.windows(2).all(|pair| pair[0] == pair[1]);
            assert!(same || anew, "one answer: {known:?}");
            self.court.borrow_mut().answers += answers.len();
            self.desk.ledger().close(query);
        }
        open
    }
}

impl Machine for Member {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.house_mut().handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        self.now = now;
        let done = self.house_mut().turn(now, effects);
        let mut link = self.link.clone();
        self.house_mut().open(&mut link).unwrap();
        let items = self.house_mut().take_items();
        self.items.extend(items);
        // Posts made outside of turns could overtake those of a turn.
        let said = core::mem::take(&mut self.unsaid);
        (0..said).for_each(|_| self.say(effects));
        let tended = if self.root.is_some() { self.tend(now, effects) } else { 0 };
        let waiting = self.items.len() + said + tended;
        if !self.items.is_empty() && self.random.one_in(3) {
            self.work(effects);
        }
        // The desk's requests may need one more turn.
        done + waiting
    }

    fn interest(&self) -> Interest {
        self.house().interest()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let logs = self.desk.wants_tending(self.now);
        match self.items.is_empty() {
            true => self.house().wants_turn_at().into_iter().chain(logs).min(),
            false => Some(Time(0)),
        }
    }
}
