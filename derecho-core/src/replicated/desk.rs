//! Objects of a member: the other side of a [`House`](super::house::House), outside of all
//! its turns.
//!
//! Owns: the objects of this member, its queries, and the queue of events for its application.
//! Never does: wait, or touch the machine; operations on the machine are [`Errand`]s.

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

/// Interval, in nanoseconds, between searches for awaited logs.
const CLAIM_AGAIN: u64 = 100_000_000;
/// Maximum interval, in nanoseconds, between calls while a log is busy.
const LOOK: u64 = 1_000_000;

/// Origin of an object at a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// The object begins in its initial state, because no member had it.
    Anew,
    /// No member had the object, and it begins from the checkpoint that this member has offered.
    Checkpoint,
    /// No member had the object, and it begins with the content of this member's log.
    Logged {
        /// Number of updates that led to it.
        version: u64,
    },
    /// This member had kept the object since an earlier stay in the shard.
    Kept,
    /// Another member has transferred the object.
    Transferred {
        /// The other member.
        from: NodeId,
        /// Length of the object in bytes.
        bytes: usize,
    },
}

/// Event for the application, in order of occurrence.
#[derive(Debug)]
pub enum Occasion {
    /// A view was installed.
    View {
        /// The view.
        view: View,
        /// Members that were not in the previous view.
        joined: Vec<NodeId>,
        /// Members of the previous view that are gone.
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
        /// Origin of the object.
        start: Start,
    },
    /// Another member has transferred an object that this member cannot decode.
    Unreadable {
        /// The shard.
        key: u64,
        /// The other member.
        from: NodeId,
    },
    /// This member no longer has a seat in a shard.
    Left {
        /// The shard.
        key: u64,
    },
    /// The other members have declared other subgroups than this member.
    Refused,
    /// This member is out of the group.
    Out(Fate),
}

/// Creates the object of a shard.
pub type Make<O> = Box<dyn FnMut(u64) -> O + Send>;

/// Objects of a member; see the [module](self).
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
    /// Time of the next search for awaited logs.
    claim_at: Option<Time>,
    out: Option<Fate>,
}

impl<O: Object> Desk<O> {
    /// Creates a desk for a node, without objects.
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

    /// Sets how logs of logged shards are opened, and how often objects are put into them as
    /// a whole.
    pub fn keep_logs(&mut self, open: OpenLog, checkpointing: Option<Checkpointing>) {
        (self.open_log, self.checkpointing) = (open, checkpointing);
    }

    /// Prepares the updates that logs take next. Returns whether there are any logs. If so, the
    /// caller must [tend](Desk::tend) them if this member is still a member when checked after this
    /// call (I-108).
    pub fn stage(&mut self) -> bool {
        self.keepers.values_mut().for_each(Keeper::stage);
        self.out.is_none() && self.keepers.values().any(Keeper::has_log)
    }

    /// Advances logs as far as possible; needed whenever a log has news. Returns how much was done.
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

    /// Latest time of the next call of [`Desk::tend`].
    pub fn wants_tending(&self, now: Time) -> Option<Time> {
        if self.keepers.values().any(Keeper::is_logging) {
            return Some(now.after(LOOK));
        }
        self.claim_at.filter(|_| self.keepers.values().any(Keeper::awaits_logs))
    }

    /// State of a logged object; `None` if this member knows no such object.
    pub fn log_status(&self, key: u64) -> Option<LogStatus> {
        self.keepers.get(&key)?.log_status()
    }

    /// Number of messages sent by this member in this stay in a shard that were applied here, and
    /// the version of a logged object after the last of them.
    pub fn own(&self, key: u64) -> (u64, u64) {
        self.keepers.get(&key).map(Keeper::own).unwrap_or_default()
    }

    /// Sets the checkpoint from which a shard's object begins, if it begins here. The house must be
    /// told the checkpoint's position.
    pub fn begin_from(&mut self, key: u64, checkpoint: Vec<u8>) {
        self.checkpoints.insert(key, checkpoint);
    }

    /// Takes in the next item of the house.
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
                // Updates known to be valid go into the log as far as the log accepts them now.
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
            // The house handles this message.
            Parcel::Taken(_) => {}
            Parcel::Want { key, epoch, request } => {
                // Other members may learn before this one that it begins.
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

    /// Takes the errands for the house, in order.
    pub fn take_errands(&mut self) -> Vec<Errand> {
        core::mem::take(&mut self.errands)
    }

    /// Takes the next event for the application.
    pub fn next_occasion(&mut self) -> Option<Occasion> {
        self.occasions.pop_front()
    }

    /// Returns the object of a shard and its position, if this member has it.
    pub fn object(&self, key: u64) -> Option<(Position, &O)> {
        let keeper = self.keepers.get(&key)?;
        Some((keeper.position()?, &keeper.object))
    }

    /// Returns the encoded object and its position in the order.
    pub fn checkpoint(&self, key: u64) -> Option<(Position, Vec<u8>)> {
        self.object(key).map(|(position, object)| (position, object.snapshot()))
    }

    /// Describes the state of a shard's object for debugging.
    pub fn describe(&self, key: u64) -> Option<alloc::string::String> {
        self.keepers.get(&key).map(Keeper::describe)
    }

    /// Whether this member reads in a shard.
    pub fn reads(&self, key: u64) -> bool {
        self.keepers.get(&key).is_some_and(Keeper::is_seated)
    }

    /// Returns the memory that this member sends from in a shard.
    pub fn sending(&self, key: u64) -> Option<&SenderMemory> {
        self.sending.get(&key)
    }

    /// Members of the newest view that the application may know.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// Reason why this member is out of the group, if it is.
    pub fn fate(&self) -> Option<Fate> {
        self.out
    }

    /// Returns this member's queries.
    pub fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}
