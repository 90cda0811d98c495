//! One member of a subgroup, as another one sees it.
//!
//! Owns: the two lines between this node and that member: what it is told, and what it tells.
//! Never does: decide what follows from either.

use crate::ids::{Peer, RegionId};
use crate::link::{INLINE_WORDS, Sharing};
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, OwnRegion, Replica};
use crate::multicast::Fault;
use crate::multicast::acknowledgement::{AckLine, AckView, Acknowledged};
use crate::multicast::budget::Bells;
use crate::multicast::geometry::{ENTRY_WORDS, Geometry};
use crate::multicast::incoming::Incoming;
use crate::multicast::send::Sender;
use crate::multicast::stream::Beginning;

/// Line slots: as many as a subgroup can have members, if it is to have more than one epoch.
pub const LINE_SLOTS: usize = 64;
/// Lines of a member: one set for even epochs, and one for odd ones (I-33).
pub const SUBGROUP_LINES: usize = 2 * LINE_SLOTS;

/// What has to be known of a member before an epoch can begin.
#[derive(Clone, Debug)]
pub struct Founder {
    /// Where it is; none if it is this node itself.
    pub target: Option<Target>,
    /// Its place among the bells.
    pub place: Option<u32>,
    /// Its line slot.
    pub slot: usize,
    /// Whether it delivers.
    pub reads: bool,
    /// What it sends, if it does.
    pub sends: Option<Sends>,
    /// Whether this node's stream can be posted to it by now.
    pub ready: bool,
    /// The region of its lines.
    pub lines: Replica,
}

/// What a member sends.
#[derive(Clone, Debug)]
pub struct Sends {
    /// The region of its stream.
    pub stream: RegionId,
    /// What is seen of it here.
    pub replica: Replica,
    /// Its shape.
    pub geometry: Geometry,
    /// Where the epoch begins in it. Not needed by whoever has received it in the epoch before, which
    /// ended there; a stream that nobody knows yet begins at its beginning.
    pub start: Option<Beginning>,
}

/// This node's lines.
#[derive(Clone, Debug)]
pub struct OwnLines {
    /// The region that they lie in.
    pub region: OwnRegion,
    /// Its name.
    pub id: RegionId,
}

/// What the lines of an epoch have in common, as one member sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bank {
    /// The first line.
    first: usize,
    /// What the epoch is called in them.
    name: u64,
    /// This node's line slot.
    slot: usize,
}

impl Bank {
    pub(super) fn new(epoch: u64, name: u64, slot: usize) -> Bank {
        Bank { first: (epoch % 2) as usize * LINE_SLOTS, name, slot }
    }

    /// The line of the slot.
    pub(super) fn line(self) -> Option<usize> {
        self.first.checked_add(self.slot)
    }

    /// What the epoch is called.
    pub(super) fn name(self) -> u64 {
        self.name
    }

    /// The line of the slot among these; `None` if there is none.
    pub(super) fn own_line(self, lines: &OwnLines) -> Option<AckLine> {
        let line = self.line()?;
        let fits = line < lines.region.words() / LINE_WORDS;
        fits.then(|| AckLine::new(lines.region.clone(), lines.id, line, self.name))
    }
}

fn line_to(founder: &Founder, lines: &OwnLines, bank: Bank) -> AckLine {
    let line = AckLine::new(lines.region.clone(), lines.id, bank.first + founder.slot, bank.name);
    line.clear();
    line
}

fn view_of(founder: &Founder, bank: Bank, seen: Acknowledged) -> Option<AckView> {
    AckView::going_on(founder.lines.clone(), bank.line()?, bank.name, seen)
}

/// More of an order than anybody receives: whoever leaves by a change of layout says with it, in its lines of the epoch
/// that it leaves, that it has finished.
pub(super) const FINISHED: u64 = 1 << 38;

/// Entries in a write that is taken at the post.
const SHORT: u64 = (INLINE_WORDS / ENTRY_WORDS) as u64;

pub(super) struct Member {
    target: Option<Target>,
    place: Option<u32>,
    pub(super) reads: bool,
    /// Its rank among the senders.
    pub(super) source: Option<usize>,
    /// What this node tells it.
    line: AckLine,
    /// What it tells this node.
    view: AckView,
    ready: bool,
    pub(super) gone: bool,
    /// Its node is no member of the group any more: nothing is kept for it once this epoch is over.
    pub(super) put_out: bool,
    /// It broke the rules: what it tells is believed no more.
    pub(super) broken: bool,
    /// Entries of this node's that were posted or shown to it.
    shown: u64,
    /// Those of them whose posts have left: shown before this turn.
    left: u64,
    /// Entries that its replica may have had when it appeared, before any post.
    early: u64,
    told: Option<Acknowledged>,
    /// This node knows nothing of it before its line shows: it may have seen, and may refer to, what was
    /// committed before this node began (I-35).
    pub(super) unknown: bool,
}

impl Member {
    /// One that was none before. It is to get this node's stream, which begins at `start`, `from` this
    /// entry on. `None` if its lines do not lie in its region.
    pub(super) fn new(
        founder: &Founder,
        source: Option<usize>,
        lines: &OwnLines,
        bank: Bank,
        from: u64,
        start: u64,
    ) -> Option<Member> {
        let seen = Acknowledged { received: 0, taken: start, held: 0 };
        Some(Member {
            target: founder.target,
            place: founder.place,
            reads: founder.reads,
            source,
            line: line_to(founder, lines, bank),
            view: view_of(founder, bank, seen)?,
            ready: founder.ready,
            gone: false,
            put_out: false,
            broken: false,
            shown: from,
            left: from,
            early: 0,
            told: None,
            unknown: true,
        })
    }

    /// The same member in the next epoch, in which this node's stream begins at `start`. What was
    /// posted to it stays posted (I-34); what it has taken it has taken, but not what it is to
    /// deliver now (I-35).
    pub(super) fn go_on(
        &self,
        founder: &Founder,
        source: Option<usize>,
        lines: &OwnLines,
        bank: Bank,
        start: u64,
    ) -> Option<Member> {
        let Acknowledged { taken, held, .. } = self.view.seen();
        let seen = Acknowledged { received: 0, taken: taken.min(start), held };
        Some(Member {
            target: self.target,
            place: self.place,
            reads: founder.reads,
            source,
            line: line_to(founder, lines, bank),
            view: view_of(founder, bank, seen)?,
            ready: self.ready || founder.ready,
            gone: self.gone,
            put_out: self.put_out,
            broken: self.broken,
            shown: self.shown,
            left: self.left,
            early: self.early,
            told: None,
            unknown: self.unknown && !self.view.is_whole(),
        })
    }

    /// The line of another epoch in which it says that it has finished.
    pub(super) fn parting_view(&self, bank: Bank) -> Option<AckView> {
        let nothing = Acknowledged { received: 0, taken: 0, held: 0 };
        self.view.in_line(bank.line()?, bank.name(), nothing)
    }

    /// Whether it shows something under the name of another epoch.
    pub(super) fn has_parted_in(&self, bank: Bank) -> bool {
        let view = self.parting_view(bank);
        view.is_some_and(|mut view| view.look_received(|| u64::MAX).is_ok() && view.is_named())
    }

    /// Its line of the epoch that it is in.
    pub(super) fn view(&self) -> AckView {
        self.view.clone()
    }

    /// What this node tells it.
    pub(super) fn line(&self) -> AckLine {
        self.line.clone()
    }

    /// Whether the other is this member in another epoch. If the lines of the two lie in different regions, it has left and
    /// come back.
    pub(super) fn goes_on_in(&self, other: &Member) -> bool {
        self.peer() == other.peer() && self.view.is_with(&other.view)
    }

    /// What it has told so far.
    pub(super) fn seen(&self) -> Acknowledged {
        self.view.seen()
    }

    /// Whether it has told anything that a sender of this memory can use. If it has not when it stops, it has looked at
    /// nothing.
    pub(super) fn is_known(&mut self, sender: &Sender) -> bool {
        // What is wrong with its line is found where its content matters.
        let _ = self.taken(sender);
        !self.unknown || self.view.is_whole()
    }

    /// It comes back: what this node has sent meanwhile is not for it.
    pub(super) fn come_back(&mut self, sender: &Sender, from: u64) {
        self.shown = self.shown.max(from);
        self.note_early(sender);
    }

    /// Nothing was posted to it of the stream that this node sends from now on, which can be posted
    /// to it or not.
    pub(super) fn begin_stream(&mut self, ready: bool) {
        (self.ready, self.shown, self.left) = (ready, 0, 0);
    }

    pub(super) fn peer(&self) -> Option<Peer> {
        self.target.map(|target| target.peer)
    }

    /// Where it is, and its place among the bells.
    pub(super) fn bell(&self) -> (Option<Target>, Option<u32>) {
        (self.target, self.place)
    }

    /// Whether it shows to have begun, and to have received the order up to `count`. This node itself
    /// is not asked.
    pub(super) fn has_received(&mut self, count: u64) -> Result<bool, Fault> {
        let received = self.received()?;
        Ok(received.is_none_or(|received| self.view.is_named() && received >= count))
    }

    /// Whether it is known to have begun. Looks whether it shows so, and at nothing else.
    pub(super) fn has_begun(&mut self) -> bool {
        // What is wrong with its line is found where its content matters.
        self.target.is_none() || self.view.is_named() || {
            let _ = self.view.look_received(|| u64::MAX);
            self.view.is_named()
        }
    }

    pub(super) fn become_ready(&mut self, sender: &Sender) {
        if self.target.is_some() && !core::mem::replace(&mut self.ready, true) {
            self.note_early(sender);
        }
    }

    /// Whether the sender has taken in what this member was not shown.
    pub(super) fn is_behind(&self, sender: &Sender) -> bool {
        self.target.is_some() && self.ready && !self.gone && self.shown < sender.entries()
    }

    /// Whether it was shown all that the sender has taken in, and is shown what follows.
    pub(super) fn is_shown(&self, sender: &Sender) -> bool {
        self.target.is_none() || (self.ready && self.shown == sender.entries())
    }

    /// What is committed by now may be in the words with which its replica appears. It can be taken
    /// from there, and its places be used again, before the post of it has been read.
    pub(super) fn note_early(&mut self, sender: &Sender) {
        self.early = sender.committed();
    }

    /// Shows it what the sender has taken in since the last time. Returns whether something is
    /// posted for it.
    pub(super) fn send(&mut self, sender: &Sender, bells: Bells, effects: &mut Effects) -> bool {
        self.left = self.shown;
        let (mut from, to) = (self.shown, sender.entries());
        let is_news = from < to || bells == Bells::Due;
        let Some(target) = self.target.filter(|_| self.ready && !self.gone && is_news) else {
            return false;
        };
        match target.sharing {
            Sharing::Copied => {
                // I-9: only a receiver that takes entries from their post allows for a long one.
                while from < to.min(self.early) {
                    let short = to.min(self.early).min(from + SHORT);
                    sender.post(target, from, short, effects);
                    from = short;
                }
                if from < to {
                    sender.post(target, from, to, effects);
                }
            }
            Sharing::Shared if bells == Bells::PutOff => {}
            Sharing::Shared => effects.touch(target.peer),
        }
        let is_posted = target.sharing == Sharing::Copied && self.shown < to;
        self.shown = to;
        is_posted
    }

    /// Tells it how far this node has received the order, and if it sends, what this node has
    /// taken and still refers to.
    pub(super) fn tell(
        &mut self,
        received: u64,
        incoming: Option<&Incoming>,
        effects: &mut Effects,
    ) {
        let Some(target) = self.target.filter(|_| !self.gone) else { return };
        let what = match incoming {
            Some(incoming) => incoming.acknowledged(received),
            None => Acknowledged { received, taken: 0, held: 0 },
        };
        if self.told == Some(what) {
            return;
        }
        self.told = Some(what);
        match incoming {
            Some(incoming) => {
                let geometry = incoming.source().geometry();
                self.line.store(what, geometry);
                self.line.post(Some(target), geometry, effects);
            }
            None => {
                self.line.store_received(received);
                self.line.post_received(target, effects);
            }
        }
    }

    /// How far it has received the order; `None` for this node itself.
    #[inline]
    pub(super) fn received(&mut self) -> Result<Option<u64>, Fault> {
        match self.target {
            None => Ok(None),
            Some(_) if self.broken => Ok(Some(self.view.seen().received)),
            // This node may not have seen yet what the other has received.
            Some(_) => self.view.look_received(|| u64::MAX).map(Some),
        }
    }

    /// What it has taken of this node's entries, and refers to; `None` for this node itself.
    #[inline]
    pub(super) fn taken(&mut self, sender: &Sender) -> Result<Option<Acknowledged>, Fault> {
        let Some(target) = self.target else { return Ok(None) };
        let geometry = sender.memory().geometry();
        let mut seen = match self.broken {
            true => self.view.seen(),
            false => self.view.look_taken(|| sender.committed(), geometry)?,
        };
        if self.unknown && !self.view.is_whole() {
            return Ok(Some(Acknowledged { taken: 0, ..seen }));
        }
        // What it has taken without having been shown it is still to be posted as it is.
        seen.taken = seen.taken.min(match target.sharing {
            Sharing::Copied => self.left,
            Sharing::Shared => sender.entries(),
        });
        Ok(Some(seen))
    }
}
