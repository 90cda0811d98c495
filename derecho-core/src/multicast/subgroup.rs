//! A subgroup: members and senders, and what they deliver, all in the same order.
//!
//! Owns: the predicates of one subgroup, each over everything that is ready. Never does: allocate
//! or wait in a turn, or decide who its members are: it is told, and goes from [`epoch`] to epoch.
//!
//! ```text
//!   receive   looks at the next entries of every other sender
//!   null      owes the others as many slots as their messages need
//!   send      takes in what was committed, and posts it
//!   deliver   unordered: what was received; atomic: the round-robin order, as far as every
//!             reading member has received it without a gap
//!   release   lets go of bytes to which no reader refers any more
//!   reclaim   takes back what all members are done with
//! ```
//! What a member has to tell another one lies in one line, so it costs one store each, and where
//! memory is copied one short write a turn.

mod deliver;
mod end;
pub mod epoch;
mod member;
pub mod parting;
mod rest;
mod waits;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::epoch::{Opening, Phase};
use self::member::Member;
pub use self::member::{Founder, LINE_SLOTS, OwnLines, SUBGROUP_LINES, Sends};
use self::parting::{Kept, Parted};
use self::waits::Looked;
use super::Fault;
use super::ablation::Ablation;
use super::budget::Bells;
use super::claim::SenderMemory;
use super::geometry::GRAIN;
use super::inbox::Inbox;
use super::incoming::Incoming;
use super::order::{Position, owed, received_without_gap};
use super::send::Sender;
use super::stream::Beginning;
use crate::atomic::AtomicU64;
use crate::ids::{Peer, RegionId, Time};
use crate::link::Waker;
use crate::machine::Effects;
use crate::memory::OwnRegion;

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
    /// Who sends it, and the region that it lies in there.
    origin: (Option<Peer>, RegionId),
    /// Where the epoch that was finished ended.
    end: u64,
    /// Slots that the order needed of it when this member last looked whom it awaits.
    wanted: u64,
}

impl Source {
    /// Whether an entry is there to be received, or an end of another epoch to be passed (I-39).
    #[inline]
    fn has_next(&self) -> bool {
        !self.broken && (self.incoming.has_next() || self.incoming.has_stale())
    }
}

/// What this member itself sends.
struct Own {
    sender: Sender,
    rank: usize,
    /// Where the next epoch begins in it, if this one was closed.
    closed: Option<Beginning>,
    /// Slots that the order needs of it by now, and those of which all were told.
    wanted: u64,
    told: u64,
}

/// One subgroup, as one of its members sees it. See the [module](self).
pub struct Subgroup {
    terms: Terms,
    lines: OwnLines,
    waker: Waker,
    epoch: u64,
    /// What the epoch is called in its senders' streams.
    mark: u32,
    phase: Phase,
    me: usize,
    members: Vec<Member>,
    /// Members of earlier epochs that are still there.
    former: Vec<Former>,
    /// Lines of the epochs passed over since the current one began, in which former members may say that they have finished.
    passed: Vec<member::Bank>,
    /// Once this node has left: senders whose memory it still refers to.
    parted: Vec<Parted>,
    /// In the order of their ranks.
    sources: Vec<Source>,
    /// What the next new sender is called in the readers' queues.
    next_number: u16,
    own: Option<Own>,
    /// Positions of the order received without a gap.
    received: u64,
    /// What comes next in the order.
    next: Position,
    inboxes: Vec<Arc<Inbox>>,
    /// The place of what was delivered next when there was a reader last.
    place: u64,
    upcall: Option<Upcall>,
    /// Something was delivered since it was last called.
    upcall_due: bool,
    /// Every turn is one in which something could be found.
    always: bool,
    /// A member that the others need is gone: nothing more can be agreed on in this epoch.
    stalled: bool,
    /// Something was received, taken or released that others have not been told.
    untold: bool,
    /// So many grains of messages are sent in a turn.
    slice: usize,
    /// The bit in which it is noticed when what is held for long is let go of.
    notice: Option<(Arc<AtomicU64>, u32)>,
    /// How far it was when it was last asked whom it awaits.
    looked: Looked,
}

/// Who was a member.
struct Former {
    member: Member,
    /// It left when this much of the order was received, and has not said yet that it has finished.
    unfinished: Option<u64>,
    /// What this node, as a sender, keeps until the member has shown that it does not need it (I-260).
    kept: Option<Kept>,
}

impl Subgroup {
    /// The subgroup that opens so, the same at every member. `None` if that makes no sense.
    pub fn new(terms: Terms, opening: Opening, lines: OwnLines, waker: &Waker) -> Option<Subgroup> {
        // Where a turn delivers one message in no order, nothing shows that there are more.
        let always = terms.ablation.activity
            || (terms.level == Level::Unordered && terms.ablation.delivery_batching);
        let mut subgroup = Subgroup {
            terms,
            lines,
            waker: Arc::clone(waker),
            epoch: opening.epoch,
            mark: 0,
            phase: Phase::Finished,
            me: 0,
            members: Vec::new(),
            former: Vec::new(),
            passed: Vec::new(),
            parted: Vec::new(),
            sources: Vec::new(),
            next_number: 0,
            own: None,
            received: 0,
            next: Position::default(),
            inboxes: Vec::new(),
            place: 0,
            upcall: None,
            upcall_due: false,
            always,
            stalled: false,
            untold: true,
            looked: Looked::default(),
            slice: SLICE_GRAINS,
            notice: None,
        };
        subgroup.begin(opening).then_some(subgroup)
    }

    /// The stream that this member sends, if it does.
    pub fn region(&self) -> Option<RegionId> {
        self.own.as_ref().map(|own| own.sender.region())
    }

    /// What this member sends from, if it does.
    pub fn memory(&self) -> Option<&SenderMemory> {
        self.own.as_ref().map(|own| own.sender.memory())
    }

    /// This node's lines.
    pub fn lines(&self) -> &OwnRegion {
        &self.lines.region
    }

    /// The name of their region.
    pub fn lines_id(&self) -> RegionId {
        self.lines.id
    }

    /// A queue for a reader at this node: it gets what is delivered from now on. `None` if this
    /// member does not read.
    pub fn add_reader(&mut self) -> Option<Arc<Inbox>> {
        if !self.members.get(self.me)?.reads {
            return None;
        }
        let sources = self.sources.iter().map(|source| Arc::clone(source.incoming.source()));
        let inbox = Inbox::beginning(sources.collect(), self.place());
        self.inboxes.push(Arc::clone(&inbox));
        Some(inbox)
    }

    /// The place of what is delivered next, as long as there is a reader.
    fn place(&self) -> u64 {
        self.inboxes.first().map_or(self.place, |inbox| inbox.next_put())
    }

    /// Whether this reader's queue gets what is delivered: not once this member has begun an epoch in which it
    /// does not read.
    pub fn has_reader(&self, inbox: &Arc<Inbox>) -> bool {
        self.inboxes.iter().any(|known| Arc::ptr_eq(known, inbox))
    }

    /// A reader wants no more.
    pub fn remove_reader(&mut self, inbox: &Arc<Inbox>) {
        self.place = self.place();
        self.inboxes.retain(|known| !Arc::ptr_eq(known, inbox));
    }

    /// Has `upcall` called with the first reader's queue whenever something was put into it.
    pub fn set_upcall(&mut self, upcall: Upcall) {
        self.upcall = Some(upcall);
    }

    /// Whether the subgroup can agree on nothing more in this epoch, because a member is gone.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Positions of the epoch's order delivered so far.
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

    /// When bells have to ring that were put off, if any were.
    pub fn bells_due(&self) -> Option<Time> {
        self.own.as_ref()?.sender.memory().bells_due()
    }

    /// Whether every message that this member has committed is delivered, or dropped, by every member.
    pub fn is_acknowledged(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.sender.is_acknowledged())
    }

    /// Whether something was received that cannot be delivered before others have received it, or
    /// is owed and cannot be sent before others have taken something.
    #[inline]
    pub fn awaits_others(&self) -> bool {
        let short = self.own.as_ref().is_some_and(|own| own.sender.wants_place());
        let waits = short
            || self.next.count < self.received
            || self.phase == Phase::Closing
            || self.awaits_senders()
            || self.awaits_former();
        waits && self.phase.is_at_work()
    }

    /// Whether a message was received that does not have its turn in the order before others have sent
    /// something, a null at least.
    fn awaits_senders(&self) -> bool {
        let senders = self.sources.len() as u64;
        self.terms.level == Level::Atomic
            && self.sources.iter().zip(0..).any(|(source, rank)| {
                let last = source.incoming.message_slots().checked_sub(1);
                last.is_some_and(|last| last * senders + rank >= self.received)
            })
    }

    /// Promises that this member sends no message in so many rounds. `false` if it does not send,
    /// or cannot say so now.
    pub fn declare_silence(&mut self, rounds: u64) -> bool {
        let open = self.phase == Phase::Open;
        self.own.as_mut().is_some_and(|own| open && own.sender.fill_up_with(rounds))
    }

    /// A member's region can be written to from now on.
    pub fn region_ready(&mut self, peer: Peer, region: RegionId) {
        let Some(own) = self.own.as_ref().filter(|own| own.sender.region() == region) else {
            return;
        };
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.become_ready(&own.sender);
        }
    }

    /// A member is gone. What it has published is still received; what not all have received can be
    /// agreed on no more.
    pub fn peer_down(&mut self, peer: Peer) {
        let alone = self.sources.len() <= 1;
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.gone = true;
            self.stalled |= member.reads || (member.source.is_some() && !alone);
        }
        // Nothing more is to be heard of it, and nothing is posted to it again.
        self.former.retain(|former| former.member.peer() != Some(peer));
        self.part_from(peer);
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
            let staying = self.members.iter().filter(|member| !member.gone);
            let needs_turn = own.sender.tell_audience(staying.map(Member::bell));
            // Where nothing is posted there is nothing to slice.
            self.slice = if needs_turn { SLICE_GRAINS } else { usize::MAX };
        }
    }

    /// Whether a turn could find anything to do. A look at one word of each sender, so that a
    /// subgroup in which nothing happens costs hardly more than not being there.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        self.lingers()
            || self.phase.is_at_work()
                && self.may_find(|source| source.incoming.is_held() || source.has_next())
    }

    #[inline(always)]
    fn may_find(&self, in_source: impl Fn(&Source) -> bool) -> bool {
        self.untold
            || self.always
            || self.upcall_due
            || self.awaits_others()
            || self.own.as_ref().is_some_and(|own| self.has_to_send(own))
            || self.sources.iter().any(in_source)
    }

    #[inline]
    fn has_to_send(&self, own: &Own) -> bool {
        own.sender.memory().committed() != own.sender.messages()
            || own.sender.memory().bells_due().is_some()
            || !own.sender.is_given_back()
            || self.members.iter().any(|member| member.is_behind(&own.sender))
    }

    /// Everything that is ready: one pass of all predicates. Returns how much was done, and tells
    /// `faulty` who broke the rules.
    pub fn turn(
        &mut self,
        now: Time,
        effects: &mut Effects,
        faulty: &mut dyn FnMut(Peer, Fault),
    ) -> usize {
        if !self.phase.is_at_work() {
            return self.linger(effects);
        }
        let early = self.terms.ablation.post_at_end;
        self.call_up();
        let mut done = self.receive(effects, faulty);
        if early {
            self.acknowledge(effects);
        }
        let nulls = self.null(effects);
        done += nulls + self.send(now, nulls > 0, effects);
        done += self.deliver(effects, faulty);
        let idle = done == 0;
        done += self.release(idle);
        self.acknowledge(effects);
        let full = |own: &Own| own.sender.memory().is_half_full() || own.sender.wants_place();
        if idle || self.own.as_ref().is_some_and(full) {
            done += self.reclaim(effects, faulty);
        }
        if self.phase == Phase::Closing {
            done += self.look_for_completion(faulty);
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
        let follows = self.follows();
        for rank in 0..self.sources.len() {
            if self.sources[rank].broken {
                continue;
            }
            if follows != Some(rank) {
                match self.sources[rank].incoming.receive(most) {
                    Ok(count) => done += count,
                    Err(fault) => self.broke(rank, fault, faulty),
                }
            }
            if self.sources[rank].incoming.has_stale() {
                done += usize::from(self.sources[rank].incoming.pass_stale());
            }
        }
        self.note_received(done, effects);
        done
    }

    fn note_received(&mut self, count: usize, effects: &mut Effects) {
        effects.work().received += count as u64;
        if count > 0 {
            // Who has ended has all slots.
            let slots = |source: &Source| match source.incoming.is_ended() {
                true => u64::MAX,
                false => source.incoming.slots(),
            };
            self.received = match received_without_gap(self.sources.iter().map(slots)) {
                u64::MAX => self.length(),
                received => received,
            };
            self.untold = true;
        }
    }

    /// The rank of this member, if what it sends is received as it is taken in by the send
    /// predicate, and not by looking at it once more.
    #[inline]
    fn follows(&self) -> Option<usize> {
        let batched = self.terms.ablation.most_received() == u64::MAX;
        self.own.as_ref().filter(|_| batched).map(|own| own.rank)
    }

    /// Sender-invariant: a sender that has committed enough sends no null, and nobody waits for it
    /// because of them.
    fn null(&mut self, effects: &mut Effects) -> usize {
        let Terms { level, ablation } = self.terms;
        if self.phase != Phase::Open && self.close_own() {
            return 0;
        }
        let Some(own) = &mut self.own else { return 0 };
        if level == Level::Unordered || ablation.nulls || self.sources.len() == 1 {
            return 0;
        }
        effects.work().predicates += 1;
        let sources = self.sources.iter().enumerate().filter(|(rank, _)| *rank != own.rank);
        let owed =
            owed(own.rank, sources.map(|(rank, source)| (rank, source.incoming.message_slots())));
        own.wanted = owed;
        usize::from(own.sender.fill_up_to(owed))
    }

    fn send(&mut self, now: Time, has_nulls: bool, effects: &mut Effects) -> usize {
        let open = self.phase == Phase::Open;
        let Some(own) = &mut self.own else { return 0 };
        effects.work().predicates += 1;
        // I-202: nobody waits for what is put off, and least of all the order.
        let at_once = has_nulls || !open || own.wanted > own.told;
        let bells = own.sender.memory().bells(now, at_once);
        let mut done = own.sender.send(self.terms.ablation.most_sent(), self.slice);
        effects.work().sent += done as u64;
        done += usize::from(bells == Bells::Due);
        for member in from(&mut self.members, self.me) {
            done += usize::from(member.send(&own.sender, bells, effects));
        }
        if bells != Bells::PutOff {
            own.told = own.sender.slots();
        }
        if let Some(rank) = self.follows()
            && let Some(own) = &self.own
        {
            let count = self.sources[rank].incoming.follow(&own.sender);
            let count = count.expect("this node's own entries make sense");
            self.note_received(count, effects);
            done += count;
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
        if self.own.as_ref().is_none_or(|own| own.sender.is_given_back()) {
            // What a former member shows is read also while nothing is to be given back.
            self.needed_by_former();
            return 0;
        }
        effects.work().predicates += 1;
        effects.work().cells += self.members.len() as u64;
        let former = self.needed_by_former();
        let Some(own) = &mut self.own else { return 0 };
        let incoming = &self.sources[own.rank].incoming;
        let what = incoming.acknowledged(self.received);
        let (mut taken, mut held) = (what.taken.min(own.sender.entries()), what.held);
        (taken, held) = (taken.min(former.0), held | former.1);
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
