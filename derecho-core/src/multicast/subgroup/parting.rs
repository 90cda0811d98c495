//! Relations between a sender and a former member of its subgroup.
//!
//! Owns: the last lines of a leaving member, and the memory that a sender keeps because of them.
//! Never does: change the membership, or wait for a member whose node is gone.
//!
//! ```text
//!   leaver    a line for each sender that goes on: in the epoch that it leaves by a layout change,
//!             or under the name of the epoch that a view change begins without it
//!             [ it reads no entry any more | taken | chunks that it still refers to ]
//!   sender    reclaims nothing until that line shows, and no chunk that the line names
//! ```

use alloc::vec::Vec;

use super::epoch::EpochPhase;
use super::member::{FINISHED, LineBank, SubgroupMember};
use super::{FormerMember, Subgroup, SubgroupSource};
use crate::fault::{Fault as Planted, planted};
use crate::ids::{Peer, RegionId};
use crate::machine::{Effects, Target};
use crate::multicast::acknowledgement::{AckLine, AckView, Acknowledged};
use crate::multicast::claim::SenderMemory;
use crate::multicast::incoming::IncomingStream;

/// Description of the epoch that begins without the leaver.
#[derive(Clone, Debug, Default)]
pub struct SuccessorEpoch {
    /// Number of the epoch.
    pub epoch: u64,
    /// Name of the epoch.
    pub name: u64,
    /// Senders of the epoch: location, line slot, and region of the stream.
    pub senders: Vec<(Target, usize, RegionId)>,
}

/// Memory that a sender keeps for a former member.
pub(super) struct RetainedMemory {
    /// Lines in which the member may say that it has finished, each with the count that says so.
    /// The change of which the member heard determines the line that it uses.
    views: Vec<(AckView, u64)>,
    /// Entries that were reclaimed when the member left, and the chunks to which it referred.
    until: Acknowledged,
}

impl RetainedMemory {
    /// Creates the state for a member of the epoch that is over. `returned`: number of entries
    /// reclaimed so far.
    pub(super) fn new(member: &SubgroupMember, returned: u64) -> RetainedMemory {
        let until = Acknowledged { received: 0, taken: returned, held: member.seen().held };
        RetainedMemory { views: alloc::vec![(member.view(), FINISHED)], until }
    }

    /// Adds the line of another epoch begun by a view change: the member may hear only of that one.
    pub(super) fn expect_in(&mut self, member: &SubgroupMember, bank: LineBank) {
        self.views.extend(member.parting_view(bank).map(|view| (view, 1)));
    }

    /// Whether the member has shown that it reads no entry any more.
    pub(super) fn has_finished(&self) -> bool {
        self.until.taken == u64::MAX
    }

    /// Memory that must not be reused because of that member: entries from `taken` on, and the
    /// chunks in `held`. `None` once the member has shown that it needs nothing.
    pub(super) fn look(&mut self, committed: u64, memory: &SenderMemory) -> Option<Acknowledged> {
        for (view, finished) in &mut self.views {
            // A fault in the line of a former member harms only that member's own records.
            if view.look_received(|| u64::MAX).is_ok_and(|received| received < *finished) {
                continue;
            }
            match view.look_taken(|| committed, memory.geometry()) {
                Ok(seen) if view.is_whole() => {
                    self.until = Acknowledged { taken: u64::MAX, ..seen };
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        (!self.has_finished() || self.until.held != 0).then_some(self.until)
    }
}

/// Sender of the epoch that this node has left, to whose memory this node may still refer.
pub(super) struct FormerSource {
    incoming: IncomingStream,
    line: AckLine,
    target: Target,
    /// Contents of the line.
    reported: Acknowledged,
}

impl FormerSource {
    fn tell(&mut self, effects: &mut Effects) {
        let geometry = self.incoming.sender_replica().geometry();
        // Applies to copied memory too: earlier posts may be read late, and must find
        // their bytes unchanged.
        self.reported.held = self.incoming.acknowledged(0).held;
        self.line.store(self.reported, geometry);
        self.line.post(Some(self.target), geometry, effects);
    }
}

impl FormerMember {
    /// Whether the member, at the last look, had not shown that it has finished an epoch that it
    /// left by a layout change.
    fn is_unfinished(&self) -> bool {
        let shows = self.member.seen().received;
        self.unfinished.is_some_and(|length| shows <= length)
    }
}

impl Subgroup {
    /// Tells all senders of the epoch that begins without this node that it reads no entry any
    /// more, and to which chunks it still refers.
    pub(super) fn announce_departure(&mut self, successor: &SuccessorEpoch, effects: &mut Effects) {
        let is_complete = self.phase == EpochPhase::Complete;
        for &(target, slot, stream) in &successor.senders {
            let bank = LineBank::new(successor.epoch, successor.name, slot);
            let line = match is_complete {
                true => self
                    .members
                    .iter()
                    .find(|it| it.peer() == Some(target.peer))
                    .map(SubgroupMember::line),
                false => bank.own_line(&self.lines).inspect(AckLine::clear),
            };
            let Some(line) = line else { continue };
            let origin = (Some(target.peer), stream);
            let source = self.sources.iter().position(|source| source.origin == origin);
            let Some(SubgroupSource { incoming, .. }) =
                source.map(|index| self.sources.swap_remove(index))
            else {
                // The sender began to send in an epoch that this node did not come to.
                if !is_complete {
                    line.finish(target, effects);
                }
                continue;
            };
            let received = if is_complete { FINISHED } else { 1 };
            let told = Acknowledged { received, taken: incoming.taken(), held: 0 };
            let mut former_source = FormerSource { incoming, line, target, reported: told };
            former_source.incoming.count();
            former_source.incoming.release(true);
            former_source.tell(effects);
            if former_source.incoming.is_held() {
                self.former_sources.push(former_source);
            }
        }
    }

    /// Whether this node has left, and still refers to memory of senders that have gone on.
    pub(super) fn lingers(&self) -> bool {
        self.phase == EpochPhase::Left && !self.former_sources.is_empty()
    }

    /// Reports chunks that were released since the last call. Returns the amount of work done.
    pub(super) fn report_releases(&mut self, effects: &mut Effects) -> usize {
        let mut done = 0;
        self.former_sources.retain_mut(|former_source| {
            if former_source.incoming.release(true) {
                former_source.tell(effects);
                done += 1;
            }
            former_source.incoming.is_held()
        });
        done
    }

    /// Notes that the node of a member has left the group: from the next epoch on nothing is kept
    /// for it, although it may still run.
    pub fn put_out(&mut self, peer: Peer) {
        for member in self.members.iter_mut().filter(|member| member.peer() == Some(peer)) {
            member.put_out = true;
        }
        for former in self.former.iter_mut().filter(|former| former.member.peer() == Some(peer)) {
            (former.retained, former.unfinished) = (None, None);
        }
        self.forget_former_source(peer);
    }

    /// Makes memory of all other senders, present and former, private where records may refer to it
    /// (I-335). The subgroup must be wedged or left.
    pub fn privatize(&mut self, effects: &mut Effects) {
        let others = self.sources.iter_mut().filter(|source| source.origin.0.is_some());
        others.for_each(|source| source.incoming.privatize(effects));
        self.former_sources
            .iter_mut()
            .for_each(|former_source| former_source.incoming.privatize(effects));
    }

    /// Forgets a former sender that is gone and needs no report.
    pub(super) fn forget_former_source(&mut self, peer: Peer) {
        self.former_sources.retain(|former_source| former_source.target.peer != peer);
    }

    /// Memory of this node's stream that former members still need: entries from the first number
    /// on, and the chunks of the second one.
    pub(super) fn needed_by_former(&mut self) -> (u64, u64) {
        let (mut taken, mut held) = (u64::MAX, 0);
        let Some(own) = &self.own_stream else { return (taken, held) };
        let (committed, memory) = (own.sender.committed(), own.sender.memory());
        for former in &mut self.former {
            let Some(retained) = &mut former.retained else { continue };
            match retained.look(committed, memory) {
                Some(needed) if !planted(Planted::LeaverForgotten) => {
                    taken = taken.min(needed.taken);
                    held |= needed.held;
                }
                _ => former.retained = None,
            }
        }
        (taken, held)
    }

    /// Whether a former member has not shown yet that it has finished the epoch that it left. The
    /// next layout change waits for that, and eventually this node's stream runs out of room.
    #[inline]
    pub(super) fn awaits_former(&self) -> bool {
        !self.former.is_empty() && self.lagging_former().next().is_some()
    }

    /// Former members that referred to chunks of this node's memory at the last look, each
    /// with these chunks.
    pub(super) fn holding_former(&self) -> impl Iterator<Item = (Peer, u64)> + '_ {
        self.former.iter().filter_map(|former| {
            let held = former.retained.as_ref()?.until.held;
            Some((former.member.peer().filter(|_| held != 0)?, held))
        })
    }

    /// Former members that have not shown yet that they have finished.
    pub(super) fn lagging_former(&self) -> impl Iterator<Item = Peer> + '_ {
        let closing = self.phase == EpochPhase::Closing;
        let lags = move |former: &&FormerMember| {
            let unfinished = closing && former.is_unfinished();
            unfinished || former.retained.as_ref().is_some_and(|retained| !retained.has_finished())
        };
        self.former.iter().filter(lags).filter_map(|former| former.member.peer())
    }
}
