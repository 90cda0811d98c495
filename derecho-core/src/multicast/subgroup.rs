//! A subgroup: members and senders that are fixed, and what they deliver, all in the same order.
//!
//! Owns: the predicates of one subgroup, each over everything that is ready. Never does: allocate
//! or wait in a turn, change its members, or decide who they are.
//!
//! ```text
//!   receive   looks at the next entries of every sender
//!   null      owes the others as many slots as their messages need
//!   send      posts what was committed
//!   deliver   unordered: what was received; atomic: the round-robin order, as far as every
//!             reading member has received it without a gap
//!   release   lets go of bytes to which no reader refers any more
//!   reclaim   takes back what all members are done with
//! ```
//! What a member has to tell another one lies in one line, so it costs one store each, and where
//! memory is copied one short write a turn.

mod deliver;
mod member;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::member::Member;
pub use self::member::{Founder, OwnLines};
use super::Fault;
use super::ablation::Ablation;
use super::claim::SenderMemory;
use super::geometry::GRAIN;
use super::inbox::Inbox;
use super::incoming::Incoming;
use super::order::{Position, owed, received_without_gap};
use super::send::Sender;
use crate::ids::{Peer, RegionId};
use crate::link::Waker;
use crate::machine::Effects;

/// What a subgroup promises about what it delivers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// What was received, each sender's messages in their order.
    Unordered,
    /// One order for all members, and only what all members that read have received.
    Atomic,
}

/// A turn sends the messages of so many grains of its memory, and perhaps a bit more: 64 KiB. What is
/// left is the next turn's, which comes at once. All of a window in one write to each member would
/// reach the last one when the first has long been done with it, and nothing is delivered before
/// all have it.
const SLICE_GRAINS: usize = (64 << 10) / GRAIN;

/// What is called by the turn after a delivery, with the queue that the batch was put into. For those who must act at
/// once: a reader that takes from its queue in its own time holds nobody up.
pub type Upcall = Box<dyn FnMut(&Inbox) + Send>;

/// How a subgroup works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// What it promises.
    pub level: Level,
    /// What is switched off.
    pub ablation: Ablation,
}

/// One sender, as this member receives it.
struct Source {
    incoming: Incoming,
    /// Null slots of its last run that the order has not passed yet.
    nulls: u64,
    /// It broke the rules: it is read no more.
    broken: bool,
}

impl Source {
    #[inline]
    fn has_next(&self) -> bool {
        !self.broken && self.incoming.has_next()
    }
}

/// What this member itself sends.
struct Own {
    sender: Sender,
    rank: usize,
}

/// One subgroup, as one of its members sees it. See the [module](self).
pub struct Subgroup {
    terms: Terms,
    me: usize,
    members: Vec<Member>,
    /// In the order of their ranks.
    sources: Vec<Source>,
    own: Option<Own>,
    /// Positions of the order received without a gap.
    received: u64,
    /// What comes next in the order.
    next: Position,
    inboxes: Vec<Arc<Inbox>>,
    upcall: Option<Upcall>,
    /// Something was delivered since it was last called.
    upcall_due: bool,
    /// A member that the others need is gone: nothing more can be agreed on.
    wedged: bool,
    /// Something was received, taken or released that others have not been told.
    untold: bool,
    /// So many grains of messages are sent in a turn.
    slice: usize,
}

impl Subgroup {
    /// The subgroup of these founders, of whom `me` is this node; the same at every one of them.
    /// `memory` is what this node sends from, if it does.
    pub fn new(
        terms: Terms,
        founders: Vec<Founder>,
        me: usize,
        memory: Option<(SenderMemory, RegionId)>,
        lines: &OwnLines,
        waker: &Waker,
    ) -> Option<Subgroup> {
        let mut sources = Vec::new();
        let mut rank = None;
        for (index, founder) in founders.iter().enumerate() {
            if let Some((replica, geometry)) = &founder.sends {
                rank = if index == me { Some(sources.len()) } else { rank };
                let incoming = Incoming::new(replica.clone(), *geometry, Arc::clone(waker));
                sources.push(Source { incoming, nulls: 0, broken: false });
            }
        }
        let mut next_source = 0..;
        let members = founders
            .into_iter()
            .enumerate()
            .map(|(index, founder)| {
                let source = founder.sends.is_some().then(|| next_source.next()).flatten();
                Member::new(founder, source, lines, index, me)
            })
            .collect::<Option<Vec<Member>>>()?;
        let own = rank
            .zip(memory)
            .map(|(rank, (memory, region))| Own { sender: Sender::new(memory, region), rank });
        let mut subgroup = Subgroup {
            terms,
            me,
            members,
            sources,
            own,
            received: 0,
            next: Position::default(),
            inboxes: Vec::new(),
            upcall: None,
            upcall_due: false,
            wedged: false,
            untold: true,
            slice: SLICE_GRAINS,
        };
        if let Some(own) = &subgroup.own {
            subgroup.members.iter_mut().for_each(|member| member.note_early(&own.sender));
        }
        subgroup.tell_audience();
        Some(subgroup)
    }

    /// The stream that this member sends, if it does.
    pub fn region(&self) -> Option<RegionId> {
        self.own.as_ref().map(|own| own.sender.region())
    }

    /// A queue for a reader at this node: it gets what is delivered from now on. `None` if this
    /// member does not read.
    pub fn add_reader(&mut self) -> Option<Arc<Inbox>> {
        if !self.members[self.me].reads {
            return None;
        }
        let sources = self.sources.iter().map(|source| Arc::clone(source.incoming.source()));
        let inbox = Inbox::new(sources.collect());
        self.inboxes.push(Arc::clone(&inbox));
        Some(inbox)
    }

    /// A reader wants no more.
    pub fn remove_reader(&mut self, inbox: &Arc<Inbox>) {
        self.inboxes.retain(|known| !Arc::ptr_eq(known, inbox));
    }

    /// Has `upcall` called with the first reader's queue whenever something was put into it.
    pub fn set_upcall(&mut self, upcall: Upcall) {
        self.upcall = Some(upcall);
    }

    /// Whether the subgroup can agree on nothing more, because a member is gone.
    pub fn is_wedged(&self) -> bool {
        self.wedged
    }

    /// Positions of the order delivered so far.
    pub fn delivered(&self) -> u64 {
        self.next.count
    }

    /// How many of the reading members have begun.
    pub fn readers(&mut self) -> usize {
        let reading = self.members.iter_mut().filter(|member| member.reads);
        reading.filter_map(|member| member.has_begun().then_some(())).count()
    }

    /// Whether all members have begun.
    pub fn is_gathered(&mut self) -> bool {
        self.members.iter_mut().all(Member::has_begun)
    }

    /// How many members send.
    pub fn senders(&self) -> usize {
        self.sources.len()
    }

    /// Members that send, of which this node is not one.
    pub fn other_senders(&self) -> usize {
        self.sources.len() - usize::from(self.own.is_some())
    }

    /// Whether all that this member has committed is delivered, or dropped, by every member.
    pub fn is_acknowledged(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.sender.is_at_rest())
    }

    /// Whether something was received that cannot be delivered before others have received it, or
    /// is owed and cannot be sent before others have taken something.
    pub fn awaits_others(&self) -> bool {
        let short = self.own.as_ref().is_some_and(|own| own.sender.wants_place());
        short || self.next.count < self.received
    }

    /// Promises that this member sends no message in so many rounds. `false` if it does not send,
    /// or cannot say so now.
    pub fn declare_silence(&mut self, rounds: u64) -> bool {
        self.own.as_mut().is_some_and(|own| own.sender.fill_up_with(rounds))
    }

    /// A member's region can be written to from now on.
    pub fn region_ready(&mut self, peer: Peer, region: RegionId, effects: &mut Effects) {
        let Some(own) = self.own.as_ref().filter(|own| own.sender.region() == region) else {
            return;
        };
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.become_ready(&own.sender, effects);
        }
    }

    /// A member is gone. What it has published is still received; what not all have received can be
    /// agreed on no more.
    pub fn peer_down(&mut self, peer: Peer) {
        let alone = self.sources.len() <= 1;
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.gone = true;
            self.wedged |= member.reads || (member.source.is_some() && !alone);
        }
        self.tell_audience();
    }

    /// A member broke the rules: it is gone, and nothing that it publishes from now on is read.
    pub fn leave_out(&mut self, peer: Peer) {
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.broken = true;
            member.source.into_iter().for_each(|rank| self.sources[rank].broken = true);
        }
        self.peer_down(peer);
    }

    fn tell_audience(&mut self) {
        if let Some(own) = &self.own {
            let (mut places, mut needs_turn) = (0, false);
            for member in self.members.iter().filter(|member| !member.gone) {
                match member.bell() {
                    Some(place) => places |= 1 << place,
                    None => needs_turn = true,
                }
            }
            own.sender.memory().set_audience(places, needs_turn);
            // Where nothing is posted there is nothing to slice.
            self.slice = if needs_turn { SLICE_GRAINS } else { usize::MAX };
        }
    }

    /// Whether a turn could find anything to do. A look at one word of each sender, so that a
    /// subgroup in which nothing happens costs hardly more than not being there.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.untold
            || self.terms.ablation.activity
            || self.upcall_due
            || self.awaits_others()
            || self.own.as_ref().is_some_and(|own| self.has_to_send(own))
            || self.sources.iter().any(|source| source.incoming.is_held() || source.has_next())
    }

    fn has_to_send(&self, own: &Own) -> bool {
        own.sender.memory().committed() != own.sender.messages()
            || !own.sender.is_given_back()
            || self.members.iter().any(|member| member.is_behind(&own.sender))
    }

    /// Everything that is ready: one pass of all predicates. Returns how much was done, and tells
    /// `faulty` who broke the rules.
    pub fn turn(&mut self, effects: &mut Effects, faulty: &mut dyn FnMut(Peer, Fault)) -> usize {
        let early = self.terms.ablation.post_at_end;
        self.call_up();
        let mut done = self.receive(effects, faulty);
        if early {
            self.acknowledge(effects);
        }
        done += self.null(effects) + self.send(effects);
        done += self.deliver(effects, faulty);
        let idle = done == 0;
        done += self.release(idle);
        self.acknowledge(effects);
        let full = |own: &Own| own.sender.memory().is_half_full() || own.sender.wants_place();
        if idle || self.own.as_ref().is_some_and(full) {
            done += self.reclaim(effects, faulty);
        }
        done
    }

    /// Lets the application act on the last turn's batch: after that turn's posts have left, so
    /// that what it takes its time for is not what the others wait for.
    fn call_up(&mut self) {
        if core::mem::take(&mut self.upcall_due)
            && let (Some(upcall), Some(inbox)) = (&mut self.upcall, self.inboxes.first())
        {
            upcall(inbox);
        }
    }

    fn receive(&mut self, effects: &mut Effects, faulty: &mut dyn FnMut(Peer, Fault)) -> usize {
        let most = self.terms.ablation.most_received();
        let mut done = 0;
        effects.work().predicates += 1;
        effects.work().cells += self.sources.len() as u64;
        for rank in 0..self.sources.len() {
            if self.sources[rank].broken {
                continue;
            }
            match self.sources[rank].incoming.receive(most) {
                Ok(count) => done += count,
                Err(fault) => self.broke(rank, fault, faulty),
            }
        }
        effects.work().received += done as u64;
        if done > 0 {
            let slots = self.sources.iter().map(|source| source.incoming.slots());
            self.received = received_without_gap(slots);
            self.untold = true;
        }
        done
    }

    /// Sender-invariant: a sender that has committed enough sends no null, and nobody waits for it
    /// because of them.
    fn null(&mut self, effects: &mut Effects) -> usize {
        let Terms { level, ablation } = self.terms;
        let Some(own) = &mut self.own else { return 0 };
        if level == Level::Unordered || ablation.nulls || self.sources.len() == 1 {
            return 0;
        }
        effects.work().predicates += 1;
        let sources = self.sources.iter().enumerate().filter(|(rank, _)| *rank != own.rank);
        let owed =
            owed(own.rank, sources.map(|(rank, source)| (rank, source.incoming.message_slots())));
        usize::from(own.sender.fill_up_to(owed))
    }

    fn send(&mut self, effects: &mut Effects) -> usize {
        let Some(own) = &mut self.own else { return 0 };
        effects.work().predicates += 1;
        let mut done = own.sender.send(self.terms.ablation.most_sent(), self.slice);
        effects.work().sent += done as u64;
        for member in from(&mut self.members, self.me) {
            done += usize::from(member.send(&own.sender, effects));
        }
        done
    }

    fn release(&mut self, idle: bool) -> usize {
        let sources = self.sources.iter_mut();
        let released = sources.filter_map(|s| s.incoming.release(idle).then_some(())).count();
        self.untold |= released > 0;
        released
    }

    /// Tells the others how far this member has come.
    fn acknowledge(&mut self, effects: &mut Effects) {
        if !core::mem::take(&mut self.untold) {
            return;
        }
        for member in from(&mut self.members, self.me) {
            let incoming = member.source.map(|rank| &self.sources[rank].incoming);
            member.tell(self.received, incoming, effects);
        }
    }

    fn reclaim(&mut self, effects: &mut Effects, faulty: &mut dyn FnMut(Peer, Fault)) -> usize {
        let Some(own) = &mut self.own else { return 0 };
        if own.sender.is_given_back() {
            return 0;
        }
        effects.work().predicates += 1;
        effects.work().cells += self.members.len() as u64;
        let incoming = &self.sources[own.rank].incoming;
        let what = incoming.acknowledged(self.received);
        let (mut taken, mut held) = (what.taken.min(own.sender.entries()), what.held);
        // What one takes that only sends matters to nobody once it is gone.
        for member in self.members.iter_mut().filter(|member| member.reads || !member.gone) {
            match member.taken(&own.sender) {
                Ok(Some(seen)) => {
                    taken = taken.min(seen.taken);
                    held |= seen.held;
                }
                Ok(None) => {}
                Err(fault) => {
                    member.peer().into_iter().for_each(|peer| faulty(peer, fault));
                    return 0;
                }
            }
        }
        own.sender.give_back(taken, held)
    }

    fn broke(&self, rank: usize, fault: Fault, faulty: &mut dyn FnMut(Peer, Fault)) {
        let member = self.members.iter().find(|member| member.source == Some(rank));
        member.and_then(Member::peer).into_iter().for_each(|peer| faulty(peer, fault));
    }
}

/// The members, this node first: each begins with another one, so that what all of them post at the
/// same time does not meet at one member's port after the other.
fn from(members: &mut [Member], me: usize) -> impl Iterator<Item = &mut Member> {
    let (before, after) = members.split_at_mut(me);
    after.iter_mut().chain(before)
}
