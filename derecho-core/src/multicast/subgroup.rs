//! Subgroup: members and senders, and the delivery of messages in the same order at every member.
//!
//! Owns: the predicates of one subgroup, each over everything that is ready. Never does:
//! allocate or wait in a turn, or decide its own membership: the subgroup is told, and goes from
//! [`epoch`] to epoch.
//!
//! ```text
//!   receive   looks at the next entries of every other sender
//!   null      owes the others as many slots as their messages need
//!   send      takes in commits, and posts them
//!   deliver   unordered: all received messages; atomic: the round-robin order, as far as every
//!             reading member has received it without a gap
//!   release   releases chunks to which no reader refers any more
//!   reclaim   reuses memory that no member needs any more
//! ```
//! The acknowledgements of one member to another one lie in one line. They cost one store for each
//! word, and, if memory is copied, one short write in a turn.

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

use self::epoch::{EpochOpening, EpochPhase};
use self::member::SubgroupMember;
pub use self::member::{LINE_SLOTS, OpeningMember, OwnLines, SUBGROUP_LINES, SentStream};
use self::parting::{FormerSource, RetainedMemory};
use self::waits::LastProgress;
use super::PeerFault;
use super::ablation::Ablation;
use super::budget::BellAction;
use super::claim::SenderMemory;
use super::geometry::GRAIN;
use super::inbox::Inbox;
use super::incoming::IncomingStream;
use super::order::{SlotPosition, owed, received_without_gap};
use super::send::Sender;
use super::stream::StreamStart;
use crate::atomic::AtomicU64;
use crate::ids::{Peer, RegionId, Time};
use crate::link::Waker;
use crate::machine::Effects;
use crate::memory::OwnRegion;

/// Delivery guarantee of a subgroup.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeliveryGuarantee {
    /// Delivers received messages, each sender's in their order.
    Unordered,
    /// Delivers one order at all members, and only messages that all reading members have received.
    Atomic,
}

/// Number of grains of messages that a turn sends, and perhaps slightly exceeds: 64 KiB. The rest
/// is left to the next turn, which comes at once. If a whole window went to each member in one
/// write, the last member would receive it long after the first one has finished with it, and
/// nothing is delivered before all members have it.
const SLICE_GRAINS: usize = (64 << 10) / GRAIN;

/// Function that the turn calls after a delivery, with the queue that received the batch. For
/// applications that must act at once: a reader that takes from its queue at its own pace
/// delays no member.
pub type Upcall = Box<dyn FnMut(&Inbox) + Send>;

/// Configuration of a subgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubgroupConfig {
    /// Delivery guarantee.
    pub level: DeliveryGuarantee,
    /// Mechanisms that are switched off.
    pub ablation: Ablation,
}

/// Sender, as this member receives it.
struct SubgroupSource {
    incoming: IncomingStream,
    /// Number of null slots of its last run that the order has not passed yet.
    nulls: u64,
    /// Whether the sender broke the rules: it is no longer read.
    broken: bool,
    /// Peer that sends the stream, and region of the stream there.
    origin: (Option<Peer>, RegionId),
    /// End of the finished epoch.
    end: u64,
    /// Number of slots that the order needed of the sender at the last look for awaited members.
    wanted: u64,
}

impl SubgroupSource {
    /// Whether an entry is ready to be received, or an end of another epoch to be passed (I-39).
    #[inline]
    fn has_next(&self) -> bool {
        !self.broken && (self.incoming.has_next() || self.incoming.has_stale())
    }
}

/// Stream that this member itself sends.
struct OwnStream {
    sender: Sender,
    rank: usize,
    /// Beginning of the next epoch in the stream, if this epoch was closed.
    closed: Option<StreamStart>,
    /// Number of slots that the order needs of the stream, and number of slots of which all
    /// members were told.
    wanted: u64,
    announced: u64,
}

/// State of one subgroup at one of its members. See the [module](self).
pub struct Subgroup {
    config: SubgroupConfig,
    lines: OwnLines,
    waker: Waker,
    epoch: u64,
    /// Mark of the epoch in its senders' streams.
    mark: u32,
    phase: EpochPhase,
    me: usize,
    members: Vec<SubgroupMember>,
    /// Former members whose nodes are still present.
    former: Vec<FormerMember>,
    /// Lines of the epochs passed over since the current one began, in which former members may say
    /// that they have finished.
    skipped: Vec<member::LineBank>,
    /// Senders to whose memory this node still refers after it has left.
    former_sources: Vec<FormerSource>,
    /// Sources, in the order of the senders' ranks.
    sources: Vec<SubgroupSource>,
    /// Number of the next new sender in the readers' queues.
    next_number: u16,
    own_stream: Option<OwnStream>,
    /// Number of positions of the order received without a gap.
    received: u64,
    /// Next position in the order.
    next: SlotPosition,
    inboxes: Vec<Arc<Inbox>>,
    /// Place of the next delivery, valid while there is no reader.
    place: u64,
    upcall: Option<Upcall>,
    /// Whether there was a delivery since the last call of `upcall`.
    upcall_due: bool,
    /// Whether every turn may find something to do.
    always: bool,
    /// Whether a member that the others need is gone: nothing more can be agreed on in this epoch.
    stalled: bool,
    /// Whether there are receipts or releases that the other members have not been told.
    unreported: bool,
    /// Number of grains of messages that a turn sends.
    slice: usize,
    /// Bit that is set when memory held for long is released.
    notice: Option<(Arc<AtomicU64>, u32)>,
    /// Progress at the last look for awaited members.
    looked: LastProgress,
}

/// Former member.
struct FormerMember {
    member: SubgroupMember,
    /// Length of the order at the member's departure, if the member has not said yet that
    /// it has finished.
    unfinished: Option<u64>,
    /// Memory that this node, as a sender, keeps until the member has shown that it does not
    /// need it (I-260).
    retained: Option<RetainedMemory>,
}

impl Subgroup {
    /// Creates the subgroup with this opening, which is the same at every member. `None` if the
    /// opening is invalid.
    pub fn new(
        config: SubgroupConfig,
        opening: EpochOpening,
        lines: OwnLines,
        waker: &Waker,
    ) -> Option<Subgroup> {
        // If a turn delivers one message in no order, nothing shows that more messages wait.
        let always = config.ablation.activity
            || (config.level == DeliveryGuarantee::Unordered && config.ablation.delivery_batching);
        let mut subgroup = Subgroup {
            config,
            lines,
            waker: Arc::clone(waker),
            epoch: opening.epoch,
            mark: 0,
            phase: EpochPhase::Finished,
            me: 0,
            members: Vec::new(),
            former: Vec::new(),
            skipped: Vec::new(),
            former_sources: Vec::new(),
            sources: Vec::new(),
            next_number: 0,
            own_stream: None,
            received: 0,
            next: SlotPosition::default(),
            inboxes: Vec::new(),
            place: 0,
            upcall: None,
            upcall_due: false,
            always,
            stalled: false,
            unreported: true,
            looked: LastProgress::default(),
            slice: SLICE_GRAINS,
            notice: None,
        };
        subgroup.begin(opening).then_some(subgroup)
    }

    /// Region of the stream that this member sends, if it sends.
    pub fn region(&self) -> Option<RegionId> {
        self.own_stream.as_ref().map(|own| own.sender.region())
    }

    /// Memory of the stream that this member sends, if it sends.
    pub fn memory(&self) -> Option<&SenderMemory> {
        self.own_stream.as_ref().map(|own| own.sender.memory())
    }

    /// Acknowledgement lines of this node.
    pub fn lines(&self) -> &OwnRegion {
        &self.lines.region
    }

    /// Identifier of the region of this node's lines.
    pub fn lines_id(&self) -> RegionId {
        self.lines.id
    }

    /// Adds a queue for a reader at this node: the queue gets everything that is delivered from now
    /// on. `None` if this member does not read.
    pub fn add_reader(&mut self) -> Option<Arc<Inbox>> {
        if !self.members.get(self.me)?.reads {
            return None;
        }
        let sources =
            self.sources.iter().map(|source| Arc::clone(source.incoming.sender_replica()));
        let inbox = Inbox::beginning(sources.collect(), self.place());
        self.inboxes.push(Arc::clone(&inbox));
        Some(inbox)
    }

    /// Place of the next delivery, while there is a reader.
    fn place(&self) -> u64 {
        self.inboxes.first().map_or(self.place, |inbox| inbox.next_put())
    }

    /// Whether this reader's queue still gets deliveries: not after this member has begun an epoch
    /// in which it does not read.
    pub fn has_reader(&self, inbox: &Arc<Inbox>) -> bool {
        self.inboxes.iter().any(|known| Arc::ptr_eq(known, inbox))
    }

    /// Removes a reader.
    pub fn remove_reader(&mut self, inbox: &Arc<Inbox>) {
        self.place = self.place();
        self.inboxes.retain(|known| !Arc::ptr_eq(known, inbox));
    }

    /// Registers `upcall`, which is called with the first reader's queue whenever something was
    /// put into it.
    pub fn set_upcall(&mut self, upcall: Upcall) {
        self.upcall = Some(upcall);
    }

    /// Whether the subgroup can agree on nothing more in this epoch, because a member is gone.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Number of positions of the epoch's order delivered so far.
    pub fn delivered(&self) -> u64 {
        self.next.count
    }

    /// Number of reading members that have begun.
    pub fn readers(&mut self) -> usize {
        let reading = self.members.iter_mut().filter(|member| member.reads);
        reading.filter_map(|member| member.has_begun().then_some(())).count()
    }

    /// Reading members that are known to have begun (`None`: this node).
    pub fn begun_readers(&self) -> impl Iterator<Item = Option<Peer>> + '_ {
        let reading = self.members.iter().filter(|member| member.reads);
        reading.filter(|member| member.is_known_to_have_begun()).map(SubgroupMember::peer)
    }

    /// Whether all members have begun.
    pub fn is_gathered(&mut self) -> bool {
        self.members.iter_mut().all(SubgroupMember::has_begun)
    }

    /// Number of members that send.
    pub fn senders(&self) -> usize {
        self.sources.len()
    }

    /// Number of sending members other than this node.
    pub fn other_senders(&self) -> usize {
        self.sources.len() - usize::from(self.own_stream.is_some())
    }

    /// Time by which delayed bells must ring, if any are delayed.
    pub fn bells_due(&self) -> Option<Time> {
        self.own_stream.as_ref()?.sender.memory().bells_due()
    }

    /// Whether every member has delivered or dropped every message that this member has committed.
    pub fn is_acknowledged(&self) -> bool {
        self.own_stream.as_ref().is_none_or(|own| own.sender.is_acknowledged())
    }

    /// Whether a received message cannot be delivered before other members have received it, or an
    /// owed slot cannot be sent before other members have taken entries.
    #[inline]
    pub fn awaits_others(&self) -> bool {
        let short = self.own_stream.as_ref().is_some_and(|own| own.sender.wants_place());
        let waits = short
            || self.next.count < self.received
            || self.phase == EpochPhase::Closing
            || self.awaits_senders()
            || self.awaits_former();
        waits && self.phase.is_at_work()
    }

    /// Whether the turn of a received message in the order comes only after other members have sent
    /// something, at least a null.
    fn awaits_senders(&self) -> bool {
        let senders = self.sources.len() as u64;
        self.config.level == DeliveryGuarantee::Atomic
            && self.sources.iter().zip(0..).any(|(source, rank)| {
                let last = source.incoming.message_slots().checked_sub(1);
                last.is_some_and(|last| last * senders + rank >= self.received)
            })
    }

    /// Declares that this member sends no message in this number of rounds. `false` if it does not
    /// send, or cannot declare this now.
    pub fn declare_silence(&mut self, rounds: u64) -> bool {
        let open = self.phase == EpochPhase::Open;
        self.own_stream.as_mut().is_some_and(|own| open && own.sender.fill_up_with(rounds))
    }

    /// Notes that a member's region can be written to from now on.
    pub fn region_ready(&mut self, peer: Peer, region: RegionId) {
        let Some(own) = self.own_stream.as_ref().filter(|own| own.sender.region() == region) else {
            return;
        };
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.become_ready(&own.sender);
        }
    }

    /// Notes that a member is gone. Everything that it has published is still received. The
    /// subgroup can no longer agree on messages that not all members have received.
    pub fn peer_down(&mut self, peer: Peer) {
        let alone = self.sources.len() <= 1;
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.gone = true;
            self.stalled |= member.reads || (member.source.is_some() && !alone);
        }
        // Nothing more will be heard from the peer, and nothing is posted to it again.
        self.former.retain(|former| former.member.peer() != Some(peer));
        self.forget_former_source(peer);
        self.tell_audience();
    }

    /// Excludes a member that broke the rules: it counts as gone, and nothing that it publishes
    /// from now on is read.
    pub fn leave_out(&mut self, peer: Peer) {
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.broken = true;
            member.source.into_iter().for_each(|rank| self.sources[rank].broken = true);
        }
        self.peer_down(peer);
    }

    fn tell_audience(&mut self) {
        if let Some(own) = &self.own_stream {
            let staying = self.members.iter().filter(|member| !member.gone);
            let needs_turn = own.sender.tell_audience(staying.map(SubgroupMember::bell));
            // If nothing is posted, slices are pointless.
            self.slice = if needs_turn { SLICE_GRAINS } else { usize::MAX };
        }
    }

    /// Whether a turn could find anything to do. Looks at one word of each sender, so that a
    /// subgroup without traffic costs almost nothing.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        self.lingers()
            || self.phase.is_at_work()
                && self.may_find(|source| source.incoming.is_held() || source.has_next())
    }

    #[inline(always)]
    fn may_find(&self, in_source: impl Fn(&SubgroupSource) -> bool) -> bool {
        self.unreported
            || self.always
            || self.upcall_due
            || self.awaits_others()
            || self.own_stream.as_ref().is_some_and(|own| self.has_to_send(own))
            || self.sources.iter().any(in_source)
    }

    #[inline]
    fn has_to_send(&self, own: &OwnStream) -> bool {
        own.sender.memory().committed() != own.sender.messages()
            || own.sender.memory().bells_due().is_some()
            || !own.sender.is_given_back()
            || self.members.iter().any(|member| member.is_behind(&own.sender))
    }

    /// Runs one pass of all predicates over everything that is ready. Returns the amount of work
    /// done, and calls `faulty` for each peer that broke the rules.
    pub fn turn(
        &mut self,
        now: Time,
        effects: &mut Effects,
        faulty: &mut dyn FnMut(Peer, PeerFault),
    ) -> usize {
        if !self.phase.is_at_work() {
            return self.report_releases(effects);
        }
        let early = self.config.ablation.post_at_end;
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
        let full = |own: &OwnStream| own.sender.memory().is_half_full() || own.sender.wants_place();
        if idle || self.own_stream.as_ref().is_some_and(full) {
            done += self.reclaim(effects, faulty);
        }
        if self.phase == EpochPhase::Closing {
            done += self.look_for_completion(faulty);
        }
        done
    }

    /// Lets the application act on the last turn's batch. The call comes after that turn's posts
    /// have left, so that other members do not wait for the application.
    fn call_up(&mut self) {
        if core::mem::take(&mut self.upcall_due)
            && let (Some(upcall), Some(inbox)) = (&mut self.upcall, self.inboxes.first())
        {
            upcall(inbox);
        }
    }

    fn receive(&mut self, effects: &mut Effects, faulty: &mut dyn FnMut(Peer, PeerFault)) -> usize {
        let most = self.config.ablation.most_received();
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
            // A sender that has ended counts as having all slots.
            let slots = |source: &SubgroupSource| match source.incoming.is_ended() {
                true => u64::MAX,
                false => source.incoming.slots(),
            };
            self.received = match received_without_gap(self.sources.iter().map(slots)) {
                u64::MAX => self.length(),
                received => received,
            };
            self.unreported = true;
        }
    }

    /// Rank of this member, if its own entries are received when the send predicate takes them in,
    /// without a second look.
    #[inline]
    fn follows(&self) -> Option<usize> {
        let batched = self.config.ablation.most_received() == u64::MAX;
        self.own_stream.as_ref().filter(|_| batched).map(|own| own.rank)
    }

    /// Commits owed nulls. Sender-invariant: a sender that has committed enough sends no null, and
    /// no member waits for the sender because of nulls.
    fn null(&mut self, effects: &mut Effects) -> usize {
        let SubgroupConfig { level, ablation } = self.config;
        if self.phase != EpochPhase::Open && self.close_own() {
            return 0;
        }
        let Some(own) = &mut self.own_stream else { return 0 };
        if level == DeliveryGuarantee::Unordered || ablation.nulls || self.sources.len() == 1 {
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
        let open = self.phase == EpochPhase::Open;
        let Some(own) = &mut self.own_stream else { return 0 };
        effects.work().predicates += 1;
        // I-202: no member waits for delayed bells, least of all the order.
        let at_once = has_nulls || !open || own.wanted > own.announced;
        let bells = own.sender.memory().bells(now, at_once);
        let mut done = own.sender.send(self.config.ablation.most_sent(), self.slice);
        effects.work().sent += done as u64;
        done += usize::from(bells == BellAction::Due);
        for member in from(&mut self.members, self.me) {
            done += usize::from(member.send(&own.sender, bells, effects));
        }
        if bells != BellAction::Delayed {
            own.announced = own.sender.slots();
        }
        if let Some(rank) = self.follows()
            && let Some(own) = &self.own_stream
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
        self.unreported |= released > 0;
        released
    }

    /// Tells the other members the progress of this member.
    fn acknowledge(&mut self, effects: &mut Effects) {
        if !core::mem::take(&mut self.unreported) {
            return;
        }
        for member in from(&mut self.members, self.me) {
            let incoming = member.source.map(|rank| &self.sources[rank].incoming);
            member.tell(self.received, incoming, effects);
        }
    }

    fn reclaim(&mut self, effects: &mut Effects, faulty: &mut dyn FnMut(Peer, PeerFault)) -> usize {
        if self.own_stream.as_ref().is_none_or(|own| own.sender.is_given_back()) {
            // The acknowledgements of former members are read even while nothing is
            // to be reclaimed.
            self.needed_by_former();
            return 0;
        }
        effects.work().predicates += 1;
        effects.work().cells += self.members.len() as u64;
        let former = self.needed_by_former();
        let Some(own) = &mut self.own_stream else { return 0 };
        let incoming = &self.sources[own.rank].incoming;
        let what = incoming.acknowledged(self.received);
        let (mut taken, mut held) = (what.taken.min(own.sender.entries()), what.held);
        (taken, held) = (taken.min(former.0), held | former.1);
        // The acknowledgements of a member that only sends are irrelevant once it is gone.
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

    fn broke(&self, rank: usize, fault: PeerFault, faulty: &mut dyn FnMut(Peer, PeerFault)) {
        let member = self.members.iter().find(|member| member.source == Some(rank));
        member.and_then(SubgroupMember::peer).into_iter().for_each(|peer| faulty(peer, fault));
    }
}

/// Iterates over the members, this node first. Each member begins with another one, so that
/// simultaneous posts of all members do not meet at the same member's port.
fn from(members: &mut [SubgroupMember], me: usize) -> impl Iterator<Item = &mut SubgroupMember> {
    let (before, after) = members.split_at_mut(me);
    after.iter_mut().chain(before)
}
