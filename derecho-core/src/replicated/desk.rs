//! Where objects are: the other side of a [`House`](super::house::House), outside of all its turns.
//!
//! Owns: the objects of this member, its queries, and what its application is to be told. Never does: wait,
//! or touch the machine; what is to be done there are [`Errand`]s.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::errand::{Errand, Outcome, Parcel};
use super::house::Item;
use super::keeper::{Around, Keeper};
pub use super::keeper::{Checkpointing, Head, LogStatus, OpenLog};
use super::ledger::Ledger;
use super::{Object, Position};
use crate::ids::{NodeId, Time};
use crate::membership::{Fate, View};
use crate::multicast::claim::SenderMemory;

/// How often it is looked again for logs that are awaited.
const CLAIM_AGAIN: u64 = 100_000_000;
/// While a log is at something it is looked after so often at least.
const LOOK: u64 = 1_000_000;

/// How a member comes to have an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// It begins anew, for nobody had it.
    Anew,
    /// Nobody had it, and it begins from the checkpoint that this member has offered.
    Checkpoint,
    /// Nobody had it, and it begins with what this member's log leads to.
    Logged {
        /// How many updates led to it.
        version: u64,
    },
    /// This member had kept it since the shard was there before.
    Kept,
    /// Another member has told it.
    Transferred {
        /// Who.
        from: NodeId,
        /// How long it was.
        bytes: usize,
    },
}

/// What an application may want to know, in the order in which it came about.
#[derive(Debug)]
pub enum Occasion {
    /// A view was installed.
    View {
        /// The view.
        view: View,
        /// Who was not in the one before.
        joined: Vec<NodeId>,
        /// Who was, and is gone.
        departed: Vec<NodeId>,
    },
    /// This member has a seat in a shard.
    Begun {
        /// The shard.
        key: u64,
        /// The readers.
        readers: Vec<NodeId>,
    },
    /// This member has the object of a shard.
    Started {
        /// The shard.
        key: u64,
        /// How it came to it.
        start: Start,
    },
    /// Another member has told an object that this one cannot read.
    Unreadable {
        /// The shard.
        key: u64,
        /// Who.
        from: NodeId,
    },
    /// This member has no seat in a shard any more.
    Left {
        /// The shard.
        key: u64,
    },
    /// The others have declared other subgroups than this member.
    Refused,
    /// This member is out.
    Out(Fate),
}

/// Makes the object of a shard.
pub type Make<O> = Box<dyn FnMut(u64) -> O + Send>;

/// See the [module](self).
pub struct Desk<O> {
    me: NodeId,
    make: Make<O>,
    keepers: BTreeMap<u64, Keeper<O>>,
    sending: BTreeMap<u64, SenderMemory>,
    members: Vec<NodeId>,
    ledger: Ledger,
    errands: Vec<Errand>,
    occasions: VecDeque<Occasion>,
    checkpoints: BTreeMap<u64, Vec<u8>>,
    open_log: OpenLog,
    checkpointing: Option<Checkpointing>,
    /// When it is looked again for logs that are awaited.
    claim_at: Option<Time>,
    out: Option<Fate>,
}

impl<O: Object> Desk<O> {
    /// A desk for a node, with nothing on it.
    pub fn new(me: NodeId, make: Make<O>) -> Desk<O> {
        Desk {
            me,
            make,
            keepers: BTreeMap::new(),
            sending: BTreeMap::new(),
            members: Vec::new(),
            ledger: Ledger::default(),
            errands: Vec::new(),
            occasions: VecDeque::new(),
            checkpoints: BTreeMap::new(),
            open_log: Box::new(|_| None),
            checkpointing: None,
            claim_at: None,
            out: None,
        }
    }

    /// Shards that are logged have their logs from here. How often objects are put into them as a whole.
    pub fn keep_logs(&mut self, open: OpenLog, checkpointing: Option<Checkpointing>) {
        (self.open_log, self.checkpointing) = (open, checkpointing);
    }

    /// Copies what logs are to take next. Returns whether there are any logs, which are then to be [tended](Desk::tend), if this
    /// member is still one when that is asked after this (I-108).
    pub fn stage(&mut self) -> bool {
        self.keepers.values_mut().for_each(Keeper::stage);
        self.out.is_none() && self.keepers.values().any(Keeper::has_log)
    }

    /// Goes on with logs as far as they can; wanted whenever a log has news. Returns how much was done.
    pub fn tend(&mut self, now: Time) -> usize {
        if self.out.is_some() {
            return 0;
        }
        let again = self.claim_at.is_none_or(|at| at <= now);
        if again {
            self.claim_at = Some(now.after(CLAIM_AGAIN));
        }
        self.keepers.values_mut().for_each(Keeper::vouch);
        self.tend_all(again)
    }

    fn tend_all(&mut self, again: bool) -> usize {
        let (mut done, checkpointing) = (0, self.checkpointing);
        for key in self.keepers.keys().copied().collect::<Vec<u64>>() {
            if let Some((keeper, mut around)) = self.keeper(key) {
                if again && keeper.awaits_logs() {
                    keeper.claim_again();
                }
                done += keeper.log(checkpointing, &mut around);
            }
        }
        done
    }

    /// When it wants to be [tended](Desk::tend) at the latest.
    pub fn wants_tending(&self, now: Time) -> Option<Time> {
        if self.keepers.values().any(Keeper::is_logging) {
            return Some(now.after(LOOK));
        }
        self.claim_at.filter(|_| self.keepers.values().any(Keeper::awaits_logs))
    }

    /// How a logged object stands; none if it is not one of which this member has heard.
    pub fn log_status(&self, key: u64) -> Option<LogStatus> {
        self.keepers.get(&key)?.log_status()
    }

    /// Of the messages that this member has sent in this stay in a shard, how many were applied here, and which version of
    /// a logged object the last one led to.
    pub fn own(&self, key: u64) -> (u64, u64) {
        self.keepers.get(&key).map(Keeper::own).unwrap_or_default()
    }

    /// If a shard's object begins anew here, it begins with this. Its position is told to the house.
    pub fn begin_from(&mut self, key: u64, checkpoint: Vec<u8>) {
        self.checkpoints.insert(key, checkpoint);
    }

    /// Takes the next item of the house.
    pub fn take(&mut self, item: Item) {
        match item {
            Item::View { view, joined, departed } => {
                self.members = view.members.iter().map(|member| member.node).collect();
                self.ledger.failed(&departed);
                self.occasions.push_back(Occasion::View { view, joined, departed });
            }
            Item::Stands { key, standing } => {
                let me = self.me;
                let is_logged = standing.logs.is_some();
                if is_logged || self.keepers.contains_key(&key) || standing.holders.contains(&me) {
                    let ordered = standing.ordered;
                    self.keep(key, ordered, |keeper, around| keeper.stands(standing, around));
                }
            }
            Item::Begun { key, epoch, layout, memory, standing, numbers } => {
                let members = layout.seats.iter().map(|seat| seat.node).collect();
                let readers = layout.seats.iter().filter(|seat| seat.reads);
                let readers: Vec<NodeId> = readers.map(|seat| seat.node).collect();
                let reads = readers.contains(&self.me);
                self.sending.extend(memory.map(|memory| (key, memory)));
                let told = readers.clone();
                self.occasions.push_back(Occasion::Begun { key, readers });
                let ordered = standing.ordered;
                self.keep(key, ordered, |keeper, around| {
                    keeper.stands(standing, around);
                    keeper.begun((epoch, members), (told, reads), numbers, around);
                });
            }
            Item::Message { key, from, record } => {
                if let Some((keeper, mut around)) = self.keeper(key) {
                    keeper.message(from, record, &mut around);
                }
            }
            Item::Left { key } => {
                self.sending.remove(&key);
                if let Some((keeper, mut around)) = self.keeper(key) {
                    keeper.left(&mut around);
                }
                self.occasions.push_back(Occasion::Left { key });
            }
            Item::Parcel { from, parcel, .. } => self.parcel(from, parcel),
            Item::Refused => self.occasions.push_back(Occasion::Refused),
            Item::Out(fate) => {
                // What is known to be whole goes into its log as far as that takes it now.
                self.tend_all(false);
                self.out = Some(fate);
                self.sending.clear();
                self.keepers.values_mut().for_each(Keeper::let_go_of_log);
                self.ledger.out();
                self.occasions.push_back(Occasion::Out(fate));
            }
        }
    }

    fn keep(&mut self, key: u64, ordered: bool, act: impl FnOnce(&mut Keeper<O>, &mut Around<'_>)) {
        if !self.keepers.contains_key(&key) {
            let checkpoint = self.checkpoints.remove(&key);
            let keeper = Keeper::new(key, (self.make)(key), ordered, checkpoint);
            self.keepers.insert(key, keeper);
        }
        if let Some((keeper, mut around)) = self.keeper(key) {
            act(keeper, &mut around);
        }
    }

    fn keeper(&mut self, key: u64) -> Option<(&mut Keeper<O>, Around<'_>)> {
        let Desk { me, keepers, ledger, errands, occasions, members, open_log, .. } = self;
        let around = Around { me: *me, members, ledger, errands, occasions, open_log };
        Some((keepers.get_mut(&key)?, around))
    }

    fn parcel(&mut self, from: NodeId, parcel: Parcel) {
        match parcel {
            // The house's business.
            Parcel::Taken(_) => {}
            Parcel::Want { key, epoch, request } => {
                // Others may know before this member that it is to begin.
                self.keep(key, true, |keeper, around| {
                    keeper.wanted(from, epoch, request, around);
                });
            }
            Parcel::Part { key, request, position, edition, last, bytes } => {
                if let Some((keeper, mut around)) = self.keeper(key) {
                    let part = (request, (position, edition), last, bytes.as_slice());
                    keeper.part(from, part, &mut around);
                }
            }
            Parcel::Durable { key, version } => {
                if let Some((keeper, _)) = self.keeper(key) {
                    keeper.told_durable(from, version);
                }
            }
            Parcel::Say { key, bytes } => {
                if let Some((keeper, _)) = self.keeper(key)
                    && keeper.is_seated()
                {
                    keeper.object.hear(from, &bytes);
                }
            }
            Parcel::Ask { key, query, bytes } => {
                let keeper = self.keepers.get(&key).filter(|it| it.position().is_some());
                let answer = keeper.map(|keeper| keeper.object.answer(from, &bytes));
                let outcome = answer.map_or(Outcome::NoObject, Outcome::Answer);
                match from == self.me {
                    true => self.ledger.replied(from, query, outcome),
                    false => {
                        self.errands.push(Errand::Direct(from, Parcel::Reply { query, outcome }))
                    }
                }
            }
            Parcel::Reply { query, outcome } => self.ledger.replied(from, query, outcome),
        }
    }

    /// What the house is to do, in this order.
    pub fn take_errands(&mut self) -> Vec<Errand> {
        core::mem::take(&mut self.errands)
    }

    /// What the application is to be told next.
    pub fn next_occasion(&mut self) -> Option<Occasion> {
        self.occasions.pop_front()
    }

    /// The object of a shard, and where it is, if this member has it.
    pub fn object(&self, key: u64) -> Option<(Position, &O)> {
        let keeper = self.keepers.get(&key)?;
        Some((keeper.position()?, &keeper.object))
    }

    /// The object as bytes, and where in the order it is.
    pub fn checkpoint(&self, key: u64) -> Option<(Position, Vec<u8>)> {
        self.object(key).map(|(position, object)| (position, object.snapshot()))
    }

    /// How a shard's object stands, for whoever looks for what is wrong.
    pub fn describe(&self, key: u64) -> Option<alloc::string::String> {
        self.keepers.get(&key).map(Keeper::describe)
    }

    /// Whether this member reads in a shard.
    pub fn reads(&self, key: u64) -> bool {
        self.keepers.get(&key).is_some_and(Keeper::is_seated)
    }

    /// What this member sends from in a shard.
    pub fn sending(&self, key: u64) -> Option<&SenderMemory> {
        self.sending.get(&key)
    }

    /// The members of the newest view of which the application may know.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// Whether this member is out, and why.
    pub fn fate(&self) -> Option<Fate> {
        self.out
    }

    /// This member's queries.
    pub fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}
