//! One member of a subgroup, as another one sees it.
//!
//! Owns: the two lines between this node and that member: what it is told, and what it tells.
//! Never does: decide what follows from either.

use crate::ids::{Peer, RegionId};
use crate::link::{INLINE_WORDS, OWN_PLACE, Sharing};
use crate::machine::{Effects, Target};
use crate::memory::{OwnRegion, Replica};
use crate::multicast::Fault;
use crate::multicast::acknowledgement::{AckLine, AckView, Acknowledged};
use crate::multicast::geometry::{ENTRY_WORDS, Geometry};
use crate::multicast::incoming::Incoming;
use crate::multicast::send::Sender;

/// What has to be known of a member before a subgroup can begin.
#[derive(Clone, Debug)]
pub struct Founder {
    /// Where it is; none if it is this node itself.
    pub target: Option<Target>,
    /// Its place among the bells.
    pub place: Option<u32>,
    /// Whether it delivers.
    pub reads: bool,
    /// Its memory, if it sends.
    pub sends: Option<(Replica, Geometry)>,
    /// Whether this node's stream can be posted to it by now.
    pub ready: bool,
    /// The region of its lines.
    pub lines: Replica,
    /// The first of them; there is one for each member.
    pub first_line: usize,
}

/// This node's lines, one for each member.
#[derive(Clone, Debug)]
pub struct OwnLines {
    /// The region that they lie in.
    pub region: OwnRegion,
    /// Its name.
    pub id: RegionId,
    /// The first of them.
    pub first: usize,
    /// What the subgroup is called in the lines, the same at every member.
    pub name: u64,
}

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
    /// It broke the rules: what it tells is believed no more.
    pub(super) broken: bool,
    /// Entries of this node's that were posted or shown to it.
    shown: u64,
    /// Those of them whose posts have left: shown before this turn.
    left: u64,
    /// Entries that its replica may have had when it appeared, before any post.
    early: u64,
    told: Option<Acknowledged>,
}

impl Member {
    /// The member of this number; `None` if its lines do not lie in its region.
    pub(super) fn new(
        founder: Founder,
        source: Option<usize>,
        lines: &OwnLines,
        index: usize,
        me: usize,
    ) -> Option<Member> {
        let its_line = founder.first_line.checked_add(me)?;
        let line = AckLine::new(lines.region.clone(), lines.id, lines.first + index, lines.name);
        line.clear();
        Some(Member {
            target: founder.target,
            place: founder.place,
            reads: founder.reads,
            source,
            line,
            view: AckView::new(founder.lines, its_line, lines.name, 0)?,
            ready: founder.ready,
            gone: false,
            broken: false,
            shown: 0,
            left: 0,
            early: 0,
            told: None,
        })
    }

    pub(super) fn peer(&self) -> Option<Peer> {
        self.target.map(|target| target.peer)
    }

    /// The place of the bell that tells it of a commit; `None` if a turn has to.
    pub(super) fn bell(&self) -> Option<u32> {
        match self.target {
            None => Some(OWN_PLACE),
            Some(Target { sharing: Sharing::Shared, .. }) => self.place,
            Some(Target { sharing: Sharing::Copied, .. }) => None,
        }
    }

    /// Whether it is known to have begun. Looks whether it shows so, and at nothing else.
    pub(super) fn has_begun(&mut self) -> bool {
        // What is wrong with its line is found where its content matters.
        self.target.is_none() || self.view.is_named() || {
            let _ = self.view.look_received(|| u64::MAX);
            self.view.is_named()
        }
    }

    pub(super) fn become_ready(&mut self, sender: &Sender, effects: &mut Effects) {
        if let Some(target) = self.target
            && !core::mem::replace(&mut self.ready, true)
        {
            sender.introduce(target, effects);
            self.note_early(sender);
        }
    }

    /// Whether the sender has taken in what this member was not shown.
    pub(super) fn is_behind(&self, sender: &Sender) -> bool {
        self.target.is_some() && self.ready && !self.gone && self.shown < sender.entries()
    }

    /// What is committed by now may be in the words with which its replica appears. It can be taken
    /// from there, and its places be used again, before the post of it has been read.
    pub(super) fn note_early(&mut self, sender: &Sender) {
        self.early = sender.committed();
    }

    /// Shows it what the sender has taken in since the last time. Returns whether something is
    /// posted for it.
    pub(super) fn send(&mut self, sender: &Sender, effects: &mut Effects) -> bool {
        self.left = self.shown;
        let (mut from, to) = (self.shown, sender.entries());
        let Some(target) = self.target.filter(|_| self.ready && !self.gone && from < to) else {
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
            Sharing::Shared => effects.touch(target.peer),
        }
        self.shown = to;
        target.sharing == Sharing::Copied
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
        // What it has taken without having been shown it is still to be posted as it is.
        seen.taken = seen.taken.min(match target.sharing {
            Sharing::Copied => self.left,
            Sharing::Shared => sender.entries(),
        });
        Ok(Some(seen))
    }
}
