//! End of an epoch in ordinary turns: a layout change without failures.
//!
//! Owns: this member's part in it: the end in its own stream, and the moment from which it may
//! begin the next epoch. Never does: begin the next epoch, or give up an epoch of which a
//! member is missing.
//!
//! ```text
//!   close       on request; an end is put into the own stream, after earlier commits
//!   receive     a sender that has ended counts as having all slots
//!   complete    all ends were received, all is delivered, and all members show that they have
//!               received it
//!   next epoch  or leave, saying so
//! ```

use super::Subgroup;
use super::epoch::EpochPhase;
use super::member::{FINISHED, SubgroupMember};
use super::parting::SuccessorEpoch;
use crate::fault::{Fault as Planted, planted};
use crate::ids::{Peer, RegionId};
use crate::machine::Effects;
use crate::multicast::PeerFault;
use crate::multicast::stream::StreamStart;

impl Subgroup {
    /// Ends the epoch: messages committed from about now on belong to the next epoch. Every member
    /// is told so, and eventually the epoch is [complete](Subgroup::is_complete) at each of them.
    pub fn close(&mut self) {
        if self.phase == EpochPhase::Open {
            self.phase = EpochPhase::Closing;
            self.close_own();
        }
    }

    /// Puts the end into the own stream, as soon as there is a place for it. Returns whether the
    /// end is there; until then this member owes nulls as before.
    pub(super) fn close_own(&mut self) -> bool {
        let mark = self.mark;
        self.own_stream.as_mut().is_none_or(|own| {
            own.closed = own.closed.or_else(|| own.sender.close(mark));
            own.closed.is_some()
        })
    }

    /// Beginning of the next epoch in this member's stream, once it is certain.
    pub fn cut(&self) -> Option<StreamStart> {
        self.own_stream.as_ref().and_then(|own| own.closed)
    }

    /// Whether everything of the epoch is delivered here, and all members have received it.
    pub fn is_complete(&self) -> bool {
        self.phase == EpochPhase::Complete
    }

    /// One past the last position of the order that can have any contents, plus one round, so that
    /// all ends are passed.
    pub(super) fn length(&self) -> u64 {
        let slots = self.sources.iter().map(|source| source.incoming.slots()).max();
        let rounds = slots.map_or(0, |slots| slots.saturating_add(1));
        rounds.saturating_mul(self.sources.len() as u64)
    }

    /// Checks whether the epoch is complete. Returns 1 if it has just become complete.
    pub(super) fn look_for_completion(&mut self, faulty: &mut dyn FnMut(Peer, PeerFault)) -> usize {
        let mut incoming = self.sources.iter().map(|source| &source.incoming);
        if !incoming.all(|i| i.is_ended() && i.taken() >= i.entries()) {
            return 0;
        }
        let length = self.length();
        let asked = |member: &&mut SubgroupMember| member.reads || !member.gone;
        let members = self.members.iter_mut().filter(asked).map(|member| (member, length));
        // A member that has left the epoch before still reads lines that the next epoch is
        // going to use.
        let former = self.former.iter_mut().filter_map(|former| {
            let unfinished = former.unfinished.filter(|_| !planted(Planted::LinesReused));
            unfinished.map(|length| (&mut former.member, length.saturating_add(1)))
        });
        for (member, count) in members.chain(former) {
            match member.has_received(count) {
                Ok(true) => {}
                Ok(false) => return 0,
                Err(fault) => {
                    member.peer().into_iter().for_each(|peer| faulty(peer, fault));
                    return 0;
                }
            }
        }
        for source in &mut self.sources {
            source.end = source.incoming.entries();
        }
        self.phase = EpochPhase::Complete;
        1
    }

    /// Leaves the subgroup: this node is no member of the next epoch. Members that go on are told
    /// that this node has finished. Its readers can take the rest of their queues, and memory to
    /// which this node refers stays unchanged (I-260).
    pub fn leave(&mut self, successor: &SuccessorEpoch, effects: &mut Effects) {
        if self.phase == EpochPhase::Complete {
            self.received = FINISHED;
            self.unreported = true;
            self.acknowledge(effects);
        }
        self.announce_departure(successor, effects);
        if let Some(own) = self.own_stream.take() {
            own.sender.memory().set_audience(0, false);
        }
        self.members.clear();
        self.former.clear();
        self.sources.clear();
        self.inboxes.clear();
        self.upcall = None;
        self.phase = EpochPhase::Left;
    }

    /// Position of this entry of this member's own stream, with the number of messages before it.
    pub fn own_start_at(&self, entry: u64) -> Option<StreamStart> {
        let own = self.own_stream.as_ref()?;
        self.sources[own.rank].incoming.beginning_of(entry)
    }

    /// End of this epoch in each sender's stream, whether it is received here or not. Known when
    /// the epoch is complete or finished.
    pub fn ends(&self) -> impl Iterator<Item = ((Option<Peer>, RegionId), u64)> + '_ {
        let known = self.is_over();
        self.sources.iter().filter(move |_| known).map(|source| (source.origin, source.end))
    }

    /// Beginning of this epoch in this member's own stream, with the number of messages before it.
    pub fn own_start(&self) -> Option<StreamStart> {
        let own = self.own_stream.as_ref()?;
        self.own_start_at(self.sources[own.rank].incoming.start_of_epoch())
    }

    /// Beginning of the next epoch in each sender's stream, as far as known here, with the
    /// peer and the region of the stream. For members that must be told, when this epoch is
    /// complete or finished.
    pub fn starts(
        &self,
    ) -> impl Iterator<Item = ((Option<Peer>, RegionId), Option<StreamStart>)> + '_ {
        let known = self.is_over();
        self.sources.iter().map(move |source| {
            let start = known.then(|| source.incoming.beginning_of(source.end)).flatten();
            (source.origin, start)
        })
    }
}
