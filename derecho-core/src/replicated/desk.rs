//! Where objects are: the other side of a [`House`](super::house::House), outside of all its turns.
//!
//! Owns: the objects of this member, its queries, and what its application is to be told. Never does: wait,
//! or touch the machine; what is to be done there are [`Errand`]s.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::errand::{Errand, Outcome, Parcel};
use super::house::Item;
use super::keeper::{self, Around, Keeper};
use super::ledger::Ledger;
use super::{Object, Position};
use crate::ids::NodeId;
use crate::membership::{Fate, View};
use crate::multicast::claim::SenderMemory;

/// How a member comes to have an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// It begins anew, for nobody had it.
    Anew,
    /// Nobody had it, and it begins from the checkpoint that this member has offered.
    Checkpoint,
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
            out: None,
        }
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
                if self.keepers.contains_key(&key) || standing.holders.contains(&me) {
                    let ordered = standing.ordered;
                    self.keep(key, ordered, |keeper, around| keeper.stands(standing, around));
                }
            }
            Item::Begun { key, epoch, layout, memory, standing } => {
                let readers = layout.seats.iter().filter(|seat| seat.reads);
                let readers: Vec<NodeId> = readers.map(|seat| seat.node).collect();
                let reads = readers.contains(&self.me);
                self.sending.extend(memory.map(|memory| (key, memory)));
                let told = readers.clone();
                self.occasions.push_back(Occasion::Begun { key, readers });
                let ordered = standing.ordered;
                self.keep(key, ordered, |keeper, around| {
                    keeper.stands(standing, around);
                    keeper.begun(epoch, told, reads, around);
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
                self.out = Some(fate);
                self.sending.clear();
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
        let Desk { me, keepers, ledger, errands, occasions, members, .. } = self;
        let around = Around { me: *me, members, ledger, errands, occasions };
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
            Parcel::Part { key, request, position, last, bytes } => {
                if let Some((keeper, mut around)) = self.keeper(key) {
                    keeper.part(from, (request, position, last, &bytes), &mut around);
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

/// An update as it is to be sent in a shard: its parts, one after the other.
pub fn update(payload: &[u8]) -> [&[u8]; 2] {
    keeper::update(payload)
}

/// What is to be sent before the payload of a query to all readers.
pub fn query_head(query: u64) -> [u8; 9] {
    keeper::query_head(query)
}
