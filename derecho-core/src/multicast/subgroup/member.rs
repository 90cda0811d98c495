//! Member of a subgroup, as another member sees it.
//!
//! Owns: the two lines between this node and that member, one in each direction. Never does: decide
//! what follows from either.

use crate::ids::{Peer, RegionId};
use crate::link::{INLINE_WORDS, Sharing};
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, OwnRegion, Replica};
use crate::multicast::PeerFault;
use crate::multicast::acknowledgement::{AckLine, AckView, Acknowledged};
use crate::multicast::budget::BellAction;
use crate::multicast::geometry::{ENTRY_WORDS, Geometry};
use crate::multicast::incoming::IncomingStream;
use crate::multicast::send::Sender;
use crate::multicast::stream::StreamStart;

/// Number of line slots: the maximum number of members of a subgroup with more than one epoch.
pub const LINE_SLOTS: usize = 64;
/// Number of lines of a member: one set for even epochs, and one for odd ones (I-33).
pub const SUBGROUP_LINES: usize = 2 * LINE_SLOTS;

/// Description of a member, required before an epoch can begin.
#[derive(Clone, Debug)]
pub struct OpeningMember {
    /// Location of the member; `None` if it is this node.
    pub target: Option<Target>,
    /// Bell of the member.
    pub bell: Option<u32>,
    /// Line slot of the member.
    pub slot: usize,
    /// Whether the member delivers.
    pub reads: bool,
    /// Stream of the member, if it sends.
    pub sends: Option<SentStream>,
    /// Whether this node's stream can be posted to the member already.
    pub ready: bool,
    /// Region of the member's lines.
    pub lines: Replica,
}

/// Stream of a member.
#[derive(Clone, Debug)]
pub struct SentStream {
    /// Region of the stream.
    pub stream: RegionId,
    /// View of the stream's memory from this node.
    pub replica: Replica,
    /// Geometry of the stream's memory.
    pub geometry: Geometry,
    /// Beginning of the epoch in the stream. Not needed by a node that has received the stream
    /// in the epoch before, which ended there. An unknown stream without this value begins at
    /// its first entry.
    pub start: Option<StreamStart>,
}

/// Acknowledgement lines of this node.
#[derive(Clone, Debug)]
pub struct OwnLines {
    /// Region of the lines.
    pub region: OwnRegion,
    /// Identifier of the region.
    pub id: RegionId,
}

/// Common properties of the lines of an epoch, as one member sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineBank {
    /// First line.
    first: usize,
    /// Name of the epoch in the lines.
    name: u64,
    /// Line slot of this node.
    slot: usize,
}

impl LineBank {
    pub(super) fn new(epoch: u64, name: u64, slot: usize) -> LineBank {
        LineBank { first: (epoch % 2) as usize * LINE_SLOTS, name, slot }
    }

    /// Index of the slot's line.
    pub(super) fn line(self) -> Option<usize> {
        self.first.checked_add(self.slot)
    }

    /// Name of the epoch.
    pub(super) fn name(self) -> u64 {
        self.name
    }

    /// Line of the slot in these lines; `None` if it does not exist.
    pub(super) fn own_line(self, lines: &OwnLines) -> Option<AckLine> {
        let line = self.line()?;
        let fits = line < lines.region.words() / LINE_WORDS;
        fits.then(|| AckLine::new(lines.region.clone(), lines.id, line, self.name))
    }
}

fn line_to(opening_member: &OpeningMember, lines: &OwnLines, bank: LineBank) -> AckLine {
    let line =
        AckLine::new(lines.region.clone(), lines.id, bank.first + opening_member.slot, bank.name);
    line.clear();
    line
}

fn view_of(opening_member: &OpeningMember, bank: LineBank, seen: Acknowledged) -> Option<AckView> {
    AckView::going_on(opening_member.lines.clone(), bank.line()?, bank.name, seen)
}

/// Position that no order reaches. A member that leaves by a layout change stores it in its lines
/// of the epoch that it leaves, to say that it has finished.
pub(super) const FINISHED: u64 = 1 << 38;

/// Number of entries in a write whose contents are taken at the post.
const SHORT: u64 = (INLINE_WORDS / ENTRY_WORDS) as u64;

pub(super) struct SubgroupMember {
    target: Option<Target>,
    bell: Option<u32>,
    pub(super) reads: bool,
    /// Rank of the member among the senders.
    pub(super) source: Option<usize>,
    /// Line from this node to the member.
    line: AckLine,
    /// Line from the member to this node.
    view: AckView,
    ready: bool,
    pub(super) gone: bool,
    /// Whether the member's node has left the group: nothing is kept for the member once this
    /// epoch is over.
    pub(super) put_out: bool,
    /// Whether the member broke the rules: its line is no longer believed.
    pub(super) broken: bool,
    /// Number of entries of this node that were posted or shown to the member.
    shown: u64,
    /// Number of entries whose posts have left: shown before this turn.
    left: u64,
    /// Number of entries that the member's replica may have had when it appeared, before any post.
    early: u64,
    reported: Option<Acknowledged>,
    /// Whether this node knows nothing of the member before its line shows: the member may have
    /// seen, and may refer to, commits that precede this node's beginning (I-35).
    pub(super) unknown: bool,
}

impl SubgroupMember {
    /// Creates a new member. This node's stream, in which the epoch begins at `start`, is sent to
    /// the member from entry `from` on. `None` if the member's lines do not lie in its region.
    pub(super) fn new(
        opening_member: &OpeningMember,
        source: Option<usize>,
        lines: &OwnLines,
        bank: LineBank,
        from: u64,
        start: u64,
    ) -> Option<SubgroupMember> {
        let seen = Acknowledged { received: 0, taken: start, held: 0 };
        Some(SubgroupMember {
            target: opening_member.target,
            bell: opening_member.bell,
            reads: opening_member.reads,
            source,
            line: line_to(opening_member, lines, bank),
            view: view_of(opening_member, bank, seen)?,
            ready: opening_member.ready,
            gone: false,
            put_out: false,
            broken: false,
            shown: from,
            left: from,
            early: 0,
            reported: None,
            unknown: true,
        })
    }

    /// Returns the same member for the next epoch, which begins at `start` in this node's stream.
    /// Posted entries stay posted (I-34). Taken entries stay taken, except those that the member
    /// must deliver in the new epoch (I-35).
    pub(super) fn go_on(
        &self,
        opening_member: &OpeningMember,
        source: Option<usize>,
        lines: &OwnLines,
        bank: LineBank,
        start: u64,
    ) -> Option<SubgroupMember> {
        let Acknowledged { taken, held, .. } = self.view.seen();
        let seen = Acknowledged { received: 0, taken: taken.min(start), held };
        Some(SubgroupMember {
            target: self.target,
            bell: self.bell,
            reads: opening_member.reads,
            source,
            line: line_to(opening_member, lines, bank),
            view: view_of(opening_member, bank, seen)?,
            ready: self.ready || opening_member.ready,
            gone: self.gone,
            put_out: self.put_out,
            broken: self.broken,
            shown: self.shown,
            left: self.left,
            early: self.early,
            reported: None,
            unknown: self.unknown && !self.view.is_whole(),
        })
    }

    /// Line of another epoch in which the member says that it has finished.
    pub(super) fn parting_view(&self, bank: LineBank) -> Option<AckView> {
        let nothing = Acknowledged { received: 0, taken: 0, held: 0 };
        self.view.in_line(bank.line()?, bank.name(), nothing)
    }

    /// Whether the member shows anything under the name of another epoch.
    pub(super) fn has_parted_in(&self, bank: LineBank) -> bool {
        let view = self.parting_view(bank);
        view.is_some_and(|mut view| view.look_received(|| u64::MAX).is_ok() && view.is_named())
    }

    /// Line of the member in its epoch.
    pub(super) fn view(&self) -> AckView {
        self.view.clone()
    }

    /// Line from this node to the member.
    pub(super) fn line(&self) -> AckLine {
        self.line.clone()
    }

    /// Whether `other` is this member in another epoch. If their lines lie in different regions,
    /// the member has left and come back.
    pub(super) fn goes_on_in(&self, other: &SubgroupMember) -> bool {
        self.peer() == other.peer() && self.view.is_with(&other.view)
    }

    /// Acknowledgement of the member at the last look.
    pub(super) fn seen(&self) -> Acknowledged {
        self.view.seen()
    }

    /// Whether the member has acknowledged anything that a sender of this memory can use. A member
    /// that stops without having done so has looked at nothing.
    pub(super) fn is_known(&mut self, sender: &Sender) -> bool {
        // Faults in the line are reported where its contents matter.
        let _ = self.taken(sender);
        !self.unknown || self.view.is_whole()
    }

    /// Notes the return of a member: entries that this node has sent meanwhile are not for it.
    pub(super) fn come_back(&mut self, sender: &Sender, from: u64) {
        self.shown = self.shown.max(from);
        self.note_early(sender);
    }

    /// Resets the progress for a new stream of this node, of which nothing was posted to the
    /// member. `ready`: whether the stream can be posted to it.
    pub(super) fn begin_stream(&mut self, ready: bool) {
        (self.ready, self.shown, self.left) = (ready, 0, 0);
    }

    pub(super) fn peer(&self) -> Option<Peer> {
        self.target.map(|target| target.peer)
    }

    /// Location and bell of the member.
    pub(super) fn bell(&self) -> (Option<Target>, Option<u32>) {
        (self.target, self.bell)
    }

    /// Whether the member shows that it has begun, and has received the order up to `count`. Always
    /// true for this node itself.
    pub(super) fn has_received(&mut self, count: u64) -> Result<bool, PeerFault> {
        let received = self.received()?;
        Ok(received.is_none_or(|received| self.view.is_named() && received >= count))
    }

    /// Whether an earlier look has shown that the member has begun. Always true for this node.
    pub(super) fn is_known_to_have_begun(&self) -> bool {
        self.target.is_none() || self.view.is_named()
    }

    /// Whether the member is known to have begun. Reads nothing else of its line.
    pub(super) fn has_begun(&mut self) -> bool {
        // Faults in the line are reported where its contents matter.
        self.is_known_to_have_begun() || {
            let _ = self.view.look_received(|| u64::MAX);
            self.view.is_named()
        }
    }

    pub(super) fn become_ready(&mut self, sender: &Sender) {
        if self.target.is_some() && !core::mem::replace(&mut self.ready, true) {
            self.note_early(sender);
        }
    }

    /// Whether the sender has taken in entries that this member was not shown.
    pub(super) fn is_behind(&self, sender: &Sender) -> bool {
        self.target.is_some() && self.ready && !self.gone && self.shown < sender.entries()
    }

    /// Whether the member was shown everything that the sender has taken in, and will be
    /// shown later entries.
    pub(super) fn is_shown(&self, sender: &Sender) -> bool {
        self.target.is_none() || (self.ready && self.shown == sender.entries())
    }

    /// Notes the commits that may be in the first contents of the member's replica. The member can
    /// take them from there, and their places can be reused, before their post has been read.
    pub(super) fn note_early(&mut self, sender: &Sender) {
        self.early = sender.committed();
    }

    /// Shows the member the entries that the sender has taken in since the last call. Returns
    /// whether anything is posted.
    pub(super) fn send(
        &mut self,
        sender: &Sender,
        bells: BellAction,
        effects: &mut Effects,
    ) -> bool {
        self.left = self.shown;
        let (mut from, to) = (self.shown, sender.entries());
        let is_news = from < to || bells == BellAction::Due;
        let Some(target) = self.target.filter(|_| self.ready && !self.gone && is_news) else {
            return false;
        };
        match target.sharing {
            Sharing::Copied => {
                // I-9: a long write requires a receiver that takes entries only from their post.
                while from < to.min(self.early) {
                    let short = to.min(self.early).min(from + SHORT);
                    sender.post(target, from, short, effects);
                    from = short;
                }
                if from < to {
                    sender.post(target, from, to, effects);
                }
            }
            Sharing::Shared if bells == BellAction::Delayed => {}
            Sharing::Shared => effects.touch(target.peer),
        }
        let is_posted = target.sharing == Sharing::Copied && self.shown < to;
        self.shown = to;
        is_posted
    }

    /// Tells the member how far this node has received the order, and, if the member sends, which
    /// of its entries this node has taken and which chunks it holds.
    pub(super) fn tell(
        &mut self,
        received: u64,
        incoming: Option<&IncomingStream>,
        effects: &mut Effects,
    ) {
        let Some(target) = self.target.filter(|_| !self.gone) else { return };
        let what = match incoming {
            Some(incoming) => incoming.acknowledged(received),
            None => Acknowledged { received, taken: 0, held: 0 },
        };
        if self.reported == Some(what) {
            return;
        }
        self.reported = Some(what);
        match incoming {
            Some(incoming) => {
                let geometry = incoming.sender_replica().geometry();
                self.line.store(what, geometry);
                self.line.post(Some(target), geometry, effects);
            }
            None => {
                self.line.store_received(received);
                self.line.post_received(target, effects);
            }
        }
    }

    /// Position up to which the member has received the order; `None` for this node itself.
    #[inline]
    pub(super) fn received(&mut self) -> Result<Option<u64>, PeerFault> {
        match self.target {
            None => Ok(None),
            Some(_) if self.broken => Ok(Some(self.view.seen().received)),
            // The other member may have received entries that this node has not seen yet.
            Some(_) => self.view.look_received(|| u64::MAX).map(Some),
        }
    }

    /// Acknowledgement of this node's entries by the member; `None` for this node itself.
    #[inline]
    pub(super) fn taken(&mut self, sender: &Sender) -> Result<Option<Acknowledged>, PeerFault> {
        let Some(target) = self.target else { return Ok(None) };
        let geometry = sender.memory().geometry();
        let mut seen = match self.broken {
            true => self.view.seen(),
            false => self.view.look_taken(|| sender.committed(), geometry)?,
        };
        if self.unknown && !self.view.is_whole() {
            return Ok(Some(Acknowledged { taken: 0, ..seen }));
        }
        // Entries that the member took without having been shown them still have to
        // be posted unchanged.
        seen.taken = seen.taken.min(match target.sharing {
            Sharing::Copied => self.left,
            Sharing::Shared => sender.entries(),
        });
        Ok(Some(seen))
    }
}
