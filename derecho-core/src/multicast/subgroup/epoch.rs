//! Transitions of a subgroup from one epoch to the next.
//!
//! Owns: the steps of a member in a view change (wedge, finish), and the beginning of
//! an epoch. Never does: decide the trim or the membership; a member is told, and
//! refuses impossible instructions.
//!
//! ```text
//!            close            all have all
//!   Open ------------> Closing -----------> Complete ----+--- begin ---> Open
//!     |                   |                    |         |
//!     +------- wedge -----+------> Wedged -- finish --> Finished
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::member::{LineBank, SubgroupMember};
use super::{
    DeliveryGuarantee, FormerMember, LINE_SLOTS, OpeningMember, OwnStream, RetainedMemory,
    SentStream, Subgroup, SubgroupSource,
};
use crate::fault::{Fault as Planted, planted};
use crate::ids::{Peer, RegionId};
use crate::memory::LINE_WORDS;
use crate::multicast::PeerFault;
use crate::multicast::acknowledgement::epoch_mark;
use crate::multicast::claim::SenderMemory;
use crate::multicast::incoming::IncomingStream;
use crate::multicast::order::SlotPosition;
use crate::multicast::send::Sender;
use crate::multicast::stream::StreamStart;

/// Memory of a stream that a member begins to send.
#[derive(Clone, Debug)]
pub struct OpeningMemory {
    /// The memory.
    pub memory: SenderMemory,
    /// Region of the stream.
    pub region: RegionId,
}

/// Beginning of an epoch. The same at all its members, except for the local views of the members.
#[derive(Clone, Debug)]
pub struct EpochOpening {
    /// Number of the epoch, greater than that of the epoch before.
    pub epoch: u64,
    /// Name of the epoch in its members' lines and its senders' streams, different from any other
    /// name that may appear there.
    pub name: u64,
    /// Members of the epoch, including this node, in an order that all agree on.
    pub members: Vec<OpeningMember>,
    /// Memory of this node's stream, if it begins to send.
    pub memory: Option<OpeningMemory>,
    /// Epochs with this node as a sender that it has passed over, oldest first.
    pub skipped: Vec<SkippedEpoch>,
}

/// Epoch that ended before this node had begun it. Other members may have begun it, and may refer
/// to messages that this node had committed by then (I-260).
#[derive(Clone, Debug)]
pub struct SkippedEpoch {
    /// Number of the epoch.
    pub epoch: u64,
    /// Name of the epoch.
    pub name: u64,
    /// Line slot of this node in the epoch.
    pub slot: usize,
    /// Stream of this node in the epoch.
    pub stream: RegionId,
    /// Other members of the epoch.
    pub members: Vec<OpeningMember>,
}

/// Phase of a member in an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochPhase {
    /// The epoch is in progress.
    Open,
    /// The member was told that the epoch ends.
    Closing,
    /// The epoch has ended; the next one may begin.
    Complete,
    /// The member was told to stop.
    Wedged,
    /// The member has delivered up to the decided trim; the next epoch may begin.
    Finished,
    /// No longer a member.
    Left,
}

impl EpochPhase {
    /// Whether the member takes turns in this phase.
    #[inline]
    pub(super) fn is_at_work(self) -> bool {
        matches!(self, EpochPhase::Open | EpochPhase::Closing | EpochPhase::Complete)
    }
}

/// Progress of a member in one sender's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceProgress {
    /// Sender of the stream; `None` if it is this node.
    pub peer: Option<Peer>,
    /// Region of the stream.
    pub stream: RegionId,
    /// Minimum end of the epoch: its first entry, or its end if the end is decided.
    pub start: u64,
    /// Number of entries received, from the beginning of the stream.
    pub received: u64,
}

impl Subgroup {
    /// Number of the epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Phase of this member in the epoch.
    pub fn phase(&self) -> EpochPhase {
        self.phase
    }

    /// Whether the epoch is over here, so that the next one may begin.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, EpochPhase::Complete | EpochPhase::Finished)
    }

    /// Whether this node refers to memory of any sender.
    pub fn holds(&self) -> bool {
        self.sources.iter().any(|source| source.incoming.is_held())
    }

    /// Stops the subgroup (I-32). Applications continue to claim and commit.
    pub fn wedge(&mut self) {
        if self.phase.is_at_work() {
            self.phase = EpochPhase::Wedged;
        }
    }

    /// Progress of this member in the epoch, reported when it is wedged.
    pub fn progress(&self) -> impl Iterator<Item = SourceProgress> + '_ {
        self.sources.iter().map(|source| {
            let (peer, stream) = source.origin;
            let start = source.incoming.start_of_epoch();
            // A member that has not yet received everything below the start has received nothing
            // of the epoch.
            let received = source.incoming.entries().max(start);
            // Entries beyond the end do not belong to the epoch (I-56), and none below it can be
            // cut away any more (I-337).
            let end = |fault| {
                (self.phase == EpochPhase::Finished && !planted(fault)).then_some(source.end)
            };
            let start = end(Planted::EndsDecidedAnew).unwrap_or(start);
            let received = end(Planted::BeyondTheEnd).unwrap_or(received);
            SourceProgress { peer, stream, start, received }
        })
    }

    /// Senders of the epoch: their numbers in the readers' queues, their peers, and the regions
    /// of their streams.
    pub fn sources(&self) -> impl Iterator<Item = (u16, Option<Peer>, RegionId)> + '_ {
        self.sources.iter().map(|source| {
            let (peer, stream) = source.origin;
            (source.incoming.sender_replica().number(), peer, stream)
        })
    }

    /// Number of the message that is delivered here next, for each sender in the
    /// order of [`Subgroup::sources`].
    pub fn next_numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.sources.iter().map(|source| source.incoming.next_number())
    }

    /// Ends the epoch as decided. `trim`: end of the epoch for each sender. A wedged member that
    /// reads delivers everything below the trim that was not delivered yet, and nothing above.
    /// `false` if it cannot: it has not received as much, or has delivered more already.
    pub fn finish(&mut self, trim: &[u64], faulty: &mut dyn FnMut(Peer, PeerFault)) -> bool {
        if self.phase != EpochPhase::Wedged || trim.len() != self.sources.len() {
            return false;
        }
        let reads = self.members[self.me].reads;
        let ordered = self.config.level == DeliveryGuarantee::Atomic;
        for (rank, (source, trim)) in self.sources.iter().zip(trim).enumerate() {
            let (incoming, start) = (&source.incoming, source.incoming.start_of_epoch());
            let lacks = *trim > incoming.entries().max(start);
            // A sender that is out may have shown different contents to different members.
            let sender = self.members.iter().find(|member| member.source == Some(rank));
            let is_out = source.broken || sender.is_some_and(|member| member.gone);
            let beyond = ordered && !is_out && incoming.is_beyond(*trim);
            if *trim < start || reads && (lacks || beyond) {
                return false;
            }
        }
        if let Some(own) = &self.own_stream
            && trim[own.rank] > own.sender.committed()
        {
            return false;
        }
        if reads && !planted(Planted::TrimIgnored) {
            self.deliver_trim(trim, faulty);
        }
        for (source, trim) in self.sources.iter_mut().zip(trim) {
            source.end = *trim;
        }
        self.phase = EpochPhase::Finished;
        true
    }

    /// Passes over an epoch that others have begun and that has ended without this member. `reads`:
    /// whether this member was to read in that epoch. If it was not, its readers get none of the
    /// deliveries of that epoch and nothing more, and are added again when it reads again.
    pub fn pass_over(&mut self, reads: bool) {
        if self.phase == EpochPhase::Finished && !reads {
            self.members[self.me].reads = false;
            self.place = self.place();
            self.inboxes.clear();
        }
    }

    /// Looks for parting lines of an epoch that this member passes over, in which it was to have
    /// this line slot. Members that leave by that epoch may have been told, and then say under its
    /// name that they have finished (I-260).
    pub fn expect_partings_in(&mut self, epoch: u64, name: u64, slot: usize) {
        self.skipped.push(LineBank::new(epoch, name, slot));
    }

    /// Begins the next epoch, when this one is complete or finished. `false` if the opening is
    /// invalid; in that case nothing has changed.
    pub fn next_epoch(&mut self, opening: EpochOpening) -> bool {
        let over = self.is_over();
        let other = opening.epoch > self.epoch && epoch_mark(opening.name) != self.mark;
        over && other && self.begin(opening)
    }

    pub(super) fn begin(&mut self, opening: EpochOpening) -> bool {
        let EpochOpening { epoch, name, members: opening_members, memory, skipped } = opening;
        let Some(me) =
            opening_members.iter().position(|opening_member| opening_member.target.is_none())
        else {
            return false;
        };
        if !self.makes_sense(epoch, &opening_members, memory.as_ref()) {
            return false;
        }
        let bank = LineBank::new(epoch, name, opening_members[me].slot);
        let own_sends = opening_members[me].sends.as_ref();
        let own_start = own_sends.map_or(0, |sends| self.start_of(None, sends).entry);
        let continues =
            |own: &OwnStream| own_sends.is_some_and(|s| s.stream == own.sender.region());
        let goes_on = self.own_stream.as_ref().is_some_and(continues);
        // A member that is new here may have begun in an epoch that has ended without this node.
        let from = match (&self.own_stream, own_sends.and_then(|s| self.source_of(None, s.stream)))
        {
            (Some(own), Some(source)) => own.sender.returned().max(source.end).min(own_start),
            _ => own_start,
        };
        let mut rank = 0..;
        let members = opening_members.iter().map(|opening_member| {
            let source = opening_member.sends.is_some().then(|| rank.next()).flatten();
            let peer = opening_member.target.map(|target| target.peer);
            let former = self.former.iter().rev().map(|former| &former.member);
            match self.members.iter().chain(former).find(|member| member.peer() == peer) {
                Some(known) => known.go_on(opening_member, source, &self.lines, bank, own_start),
                None => {
                    SubgroupMember::new(opening_member, source, &self.lines, bank, from, own_start)
                }
            }
        });
        let Some(mut members) = members.collect::<Option<Vec<SubgroupMember>>>() else {
            return false;
        };
        let before = core::mem::take(&mut self.members);
        let read_before = before.get(self.me).is_some_and(|member| member.reads);
        let was_member = |peer| before.iter().any(|member| member.peer() == peer);
        let unfinished = (self.phase == EpochPhase::Complete).then(|| self.length());
        let own_rank = members[me].source;
        self.begin_sources(
            &opening_members,
            epoch_mark(name),
            opening_members[me].reads && !read_before,
        );
        self.begin_own(memory.filter(|_| !goes_on), own_rank, own_start);
        let goes_on_from =
            |member: &SubgroupMember| before.iter().any(|other| other.goes_on_in(member));
        for member in members.iter_mut().filter(|member| !goes_on_from(member)) {
            // The member begins in lines of its own, or does not begin at all.
            member.unknown = true;
        }
        if let Some(own) = &self.own_stream {
            for (member, opening_member) in members.iter_mut().zip(&opening_members) {
                match (goes_on, was_member(member.peer())) {
                    (true, true) => {}
                    (true, false) => member.come_back(&own.sender, from),
                    (false, _) => {
                        member.begin_stream(opening_member.ready);
                        member.note_early(&own.sender);
                    }
                }
            }
        }
        self.keep_former(before, &members, unfinished, goes_on, bank);
        self.retain_for_skipped(&skipped, &members, bank);
        self.members = members;
        (self.epoch, self.mark, self.me) = (epoch, epoch_mark(name), me);
        (self.received, self.next) = (0, SlotPosition::default());
        (self.phase, self.stalled, self.unreported) = (EpochPhase::Open, false, true);
        if !self.members[me].reads {
            self.inboxes.clear();
        }
        for inbox in &self.inboxes {
            inbox.go_on(
                self.sources.iter().map(|source| Arc::clone(source.incoming.sender_replica())),
            );
        }
        self.tell_audience();
        true
    }

    /// Turns members of the epoch before that are not members now into former ones.
    fn keep_former(
        &mut self,
        before: Vec<SubgroupMember>,
        members: &[SubgroupMember],
        unfinished: Option<u64>,
        goes_on: bool,
        bank: LineBank,
    ) {
        let is_there = |peer| members.iter().any(|member| member.peer() == peer);
        let is_cut = unfinished.is_none();
        // A leaver may have heard of an epoch that this member passed over, and then says nothing
        // of this one.
        let mut banks = core::mem::take(&mut self.skipped);
        banks.push(bank);
        if !goes_on {
            // I-36: no memory of the earlier stream is used again.
            self.former.iter_mut().for_each(|former| former.retained = None);
        }
        self.former.retain(|former| former.retained.is_some() || !is_there(former.member.peer()));
        for FormerMember { member, unfinished, retained } in &mut self.former {
            *unfinished = None;
            // The former member may have been told to leave by an epoch that it did not come to.
            if let Some(retained) = retained.as_mut().filter(|kept| is_cut && !kept.has_finished())
            {
                banks.iter().for_each(|bank| retained.expect_in(member, *bank));
            }
        }
        // A member that has left and come back, in epochs that this node did not come to, is also
        // a former member.
        let goes_on_as =
            |member: &SubgroupMember| members.iter().any(|other| other.goes_on_in(member));
        let leave = before.into_iter().filter(|member| !goes_on_as(member));
        for mut member in leave.filter(|member| member.peer().is_some() && !member.gone) {
            let sender = self.own_stream.as_ref().filter(|_| goes_on && !member.put_out);
            let sender = sender.map(|own| &own.sender);
            // A member that has not begun the epoch that is cut off has looked at nothing, and may
            // hear of neither epoch.
            let sender = sender.filter(|sender| !is_cut || member.is_known(sender));
            let mut retained = sender.map(|sender| RetainedMemory::new(&member, sender.returned()));
            if let Some(retained) = retained.as_mut().filter(|_| is_cut) {
                banks.iter().for_each(|bank| retained.expect_in(&member, *bank));
            }
            let unfinished = unfinished.filter(|_| !member.put_out);
            if retained.is_some() || !is_there(member.peer()) {
                self.former.push(FormerMember { member, unfinished, retained });
            }
        }
        if !goes_on {
            self.former.iter_mut().for_each(|former| former.member.begin_stream(false));
        }
    }

    /// Adds members of passed-over epochs that do not go on to the former members: this node has
    /// not met them in those epochs.
    fn retain_for_skipped(
        &mut self,
        skipped: &[SkippedEpoch],
        members: &[SubgroupMember],
        bank: LineBank,
    ) {
        let Some(own) = &self.own_stream else { return };
        let of_own = skipped.iter().filter(|it| it.stream == own.sender.region());
        let banks = of_own.clone().map(|it| LineBank::new(it.epoch, it.name, it.slot));
        let banks: Vec<LineBank> = banks.chain([bank]).collect();
        for (index, skipped) in of_own.enumerate() {
            for opening_member in &skipped.members {
                let start = own.sender.entries();
                let member = SubgroupMember::new(
                    opening_member,
                    None,
                    &self.lines,
                    banks[index],
                    start,
                    start,
                );
                let Some(mut member) = member else { continue };
                let former = self.former.iter().filter(|former| former.retained.is_some());
                let mut known = members.iter().chain(former.map(|former| &former.member));
                if known.any(|other| other.goes_on_in(&member)) {
                    continue;
                }
                let later = &banks[index + 1..];
                // A member that has not begun an epoch has looked at nothing in it. The parting
                // line of a leaver may be the line in which it has shown that it had begun.
                let is_known = member.is_known(&own.sender);
                if !is_known && !later.iter().any(|bank| member.has_parted_in(*bank)) {
                    continue;
                }
                let mut retained = RetainedMemory::new(&member, own.sender.returned());
                later.iter().for_each(|bank| retained.expect_in(&member, *bank));
                self.former.push(FormerMember {
                    member,
                    unfinished: None,
                    retained: Some(retained),
                });
            }
        }
    }

    fn makes_sense(
        &self,
        epoch: u64,
        opening_members: &[OpeningMember],
        memory: Option<&OpeningMemory>,
    ) -> bool {
        let own =
            opening_members.iter().filter(|opening_member| opening_member.target.is_none()).count();
        let first = (epoch % 2) as usize * LINE_SLOTS;
        let lines = self.lines.region.words() / LINE_WORDS;
        let fits = opening_members.iter().all(|opening_member| {
            let line = first.checked_add(opening_member.slot);
            line.is_some_and(|line| line < lines)
                && (epoch == 0 || opening_member.slot < LINE_SLOTS)
        });
        // This node sends its previous stream, or a stream whose memory it brings.
        let own_sends =
            opening_members.iter().find(|opening_member| opening_member.target.is_none());
        let sends_right = own_sends.and_then(|own| own.sends.as_ref()).is_none_or(|sends| {
            let start = self.start_of(None, sends).entry;
            match (&self.own_stream, memory) {
                (Some(own), _) if own.sender.region() == sends.stream => {
                    start <= own.sender.committed()
                }
                // Other members may have seen commits that precede this node's beginning.
                (_, Some(OpeningMemory { memory, region })) => {
                    *region == sends.stream && start <= memory.committed()
                }
                _ => false,
            }
        });
        own == 1 && fits && sends_right
    }

    fn source_of(&self, peer: Option<Peer>, stream: RegionId) -> Option<&SubgroupSource> {
        self.sources.iter().find(|source| source.origin == (peer, stream))
    }

    /// Beginning of the coming epoch in a stream.
    fn start_of(&self, peer: Option<Peer>, sends: &SentStream) -> StreamStart {
        let ended = || {
            let source = self.source_of(peer, sends.stream)?;
            // The message number is computed where it is needed.
            Some(StreamStart { entry: source.end, message: 0 })
        };
        sends.start.or_else(ended).unwrap_or(StreamStart { entry: 0, message: 0 })
    }

    /// Sets up the sources of the epoch, continuing known ones. `again`: this member did
    /// not read before.
    fn begin_sources(&mut self, opening_members: &[OpeningMember], mark: u32, again: bool) {
        let ordered = self.config.level == DeliveryGuarantee::Atomic;
        let mut sources = Vec::new();
        for opening_member in opening_members {
            let Some(sends) = &opening_member.sends else { continue };
            let peer = opening_member.target.map(|target| target.peer);
            let origin = (peer, sends.stream);
            let start = self.start_of(peer, sends);
            let known = self.sources.iter().position(|source| source.origin == origin);
            let source = match known.map(|index| self.sources.swap_remove(index)) {
                Some(mut source) => {
                    if ordered || again {
                        source.incoming.begin(start.entry, mark, again);
                    } else {
                        source.incoming.go_on(start.entry, mark);
                    }
                    SubgroupSource { nulls: 0, wanted: 0, ..source }
                }
                None => {
                    let SentStream { replica, geometry, .. } = sends;
                    let (number, waker) = (self.next_number, Arc::clone(&self.waker));
                    self.next_number = self.next_number.wrapping_add(1);
                    let mut incoming =
                        IncomingStream::numbered(number, replica.clone(), *geometry, waker);
                    incoming.start(start.entry, start.message);
                    incoming.begin(start.entry, mark, false);
                    // This precedes the first handle of a reader's queue to the sender replica.
                    if let Some((word, bit)) = &self.notice {
                        incoming.notice_in(word, *bit);
                    }
                    let end = start.entry;
                    SubgroupSource { incoming, nulls: 0, broken: false, origin, end, wanted: 0 }
                }
            };
            sources.push(source);
        }
        self.sources = sources;
    }

    /// Sets up the stream that this member sends in the epoch.
    fn begin_own(&mut self, new: Option<OpeningMemory>, rank: Option<usize>, start: u64) {
        let before = self.own_stream.take();
        self.own_stream = match (new, before, rank) {
            (Some(OpeningMemory { memory, region }), before, Some(rank)) => {
                before.iter().for_each(|own| own.sender.memory().set_audience(0, false));
                Some(OwnStream {
                    sender: Sender::new(memory, region),
                    rank,
                    closed: None,
                    wanted: 0,
                    announced: 0,
                })
            }
            (None, Some(own), Some(rank)) => {
                Some(OwnStream { rank, closed: None, wanted: 0, announced: 0, ..own })
            }
            (_, before, _) => {
                // I-36: the stream reclaims nothing any more.
                before.iter().for_each(|own| own.sender.memory().set_audience(0, false));
                None
            }
        };
        if let Some(own) = &mut self.own_stream {
            let start = match planted(Planted::UnsentForgotten) {
                true => own.sender.memory().committed(),
                false => start,
            };
            own.sender.begin(start);
            // I-29: a new member has not been shown the changes that made the stream quiet.
            own.sender.be_heard();
        }
    }
}
