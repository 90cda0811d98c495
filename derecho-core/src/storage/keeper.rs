//! A member's part in keeping what is delivered in one subgroup.
//!
//! Owns: its store, how far it is on the way to having it, and what waits meanwhile. Never does: send
//! anything; it says what it wants.
//!
//! ```text
//!   Away ──begun──> Lacks ──asks a holder──> gets what was kept before it began ──> replays what it has
//!                     │ named to begin anew                    received meanwhile     │
//!                     '──────────────────────────────> replays ──────────────────────-┴──> Has
//! ```
//! Where records go in their order or not at all, and no logs are kept, nothing waits: what is delivered is in the store at
//! once, and what was kept before it comes in front of it (I-230).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::milestones::Milestones;
use super::cursor::Cursor;
use super::holders::Holders;
use super::journal::Errand;
use super::logbook::LogBook;
pub use super::motion::Motion;
use super::parcel::{Numbers, Place, RECORD_HEAD, Wish};
use super::porter::{Want, Way};
use super::scribe::Scribe;
use super::store::{Meaning, Retention, Store, Walk};
use super::trail::StoreTrail;
use crate::fault::{Fault as Planted, planted};
use crate::group::registry::Layout;
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::log::{LogId, Tail};
use crate::multicast::inbox::Inbox;
use crate::node::{Node, Origin, SubgroupId};

mod given;
mod logging;
mod milestones;
mod replay;

/// Whom a keeper asks.
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) request: u64,
    /// The epoch to which this member had come by then.
    epoch: u64,
    /// The one who was asked has begun only after that, and cannot tell: it can in a later one.
    is_refused: bool,
    /// What is called so in the run, by this store's numbers.
    pub(super) streams: Option<Vec<u32>>,
    /// So many messages were before this member began.
    version: u64,
    /// A record that has come in part.
    partial: Vec<u8>,
}

/// What a member has that has not got the store yet.
struct Lacking {
    /// The epoch in which it began.
    epoch: u64,
    /// What is delivered here, from these numbers on.
    from: Numbers,
    /// It waits here, all of it; none if it is in the store already (I-230).
    waiting: Option<Store>,
    /// All that was kept before is there as far as a holder had it that had come to this version: so far this member has to come
    /// as well.
    ripe_at: Option<u64>,
    /// Bytes that have come to it since some of it was put into the store last.
    arrived: usize,
    asked: Option<Asked>,
    /// The vacancy about which it has spoken.
    spoke: Option<u64>,
    /// The beginning that it gets the store of, once it was given any.
    beginning: Option<u128>,
    /// The store is there but for what waits: how far that was put in.
    replay: Option<Cursor>,
    /// From which version of what waits on what is of which epoch, and kept in which logs.
    turnings: VecDeque<(u64, u64, Vec<LogId>)>,
}

impl Lacking {
    /// Whether it needs nothing any more that it would have to ask for.
    fn is_given(&self) -> bool {
        self.replay.is_some() || self.ripe_at.is_some()
    }
}

enum Stage {
    Away,
    Lacks(Box<Lacking>),
    Has,
}

/// What came of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    More,
    Whole,
    /// It makes no sense: another one is asked.
    Nonsense,
}

/// A member's part in keeping what is delivered in one subgroup.
pub struct Keeper {
    store: Store,
    retention: Retention,
    meaning: Meaning,
    stage: Stage,
    /// The epoch.
    epoch: u64,
    inbox: Option<Arc<Inbox>>,
    /// The streams' numbers in the store that takes what is delivered, by the queue's numbers for their senders.
    senders: Vec<Option<StreamId>>,
    /// Along the store as it was when this member began in the subgroup, or of I-230 when it was whole, for readers that began
    /// with it.
    opening: Option<Cursor>,
    /// Holders are to keep what has died for those who have begun and have not got it yet.
    pins: BTreeMap<NodeId, Cursor>,
    /// The beginning of which it has said that it has it.
    told: Option<u128>,
    spoke: Option<u64>,
    gaps: u64,
    me: NodeId,
    era: u64,
    base: Tail,
    since: Option<Place>,
    milestones: Milestones,
    /// Its log, if it keeps one.
    scribe: Option<Scribe<StoreTrail>>,
    /// The version after the last message of its own.
    own: u64,
    /// What the log wants said to all.
    motion: Option<Motion>,
    speaks: bool,
    /// Logs of others that hold the store.
    holding: Vec<LogId>,
    /// The logs of those who hold the store have named its own for good (I-113).
    known: bool,
}

impl Keeper {
    pub(super) fn new(retention: Retention, meaning: Meaning) -> Keeper {
        Keeper {
            store: Store::new(retention, meaning),
            retention,
            meaning,
            stage: Stage::Away,
            epoch: 0,
            inbox: None,
            senders: Vec::new(),
            opening: None,
            pins: BTreeMap::new(),
            told: None,
            spoke: None,
            gaps: 0,
            me: NodeId(0),
            era: 0,
            base: Tail::default(),
            since: None,
            milestones: Milestones::default(),
            scribe: None,
            own: 0,
            motion: None,
            speaks: false,
            holding: Vec::new(),
            known: false,
        }
    }

    /// Whether all that was delivered to it is in its store.
    pub(super) fn has_taken_all(&self) -> bool {
        self.is_whole() && self.inbox.as_ref().is_none_or(|inbox| inbox.is_empty())
    }

    /// The version after its own member's last message, as far as that was delivered.
    pub fn own_version(&self) -> u64 {
        self.own
    }

    /// What it keeps, as far as it has it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether it has all that it is to have.
    pub fn is_whole(&self) -> bool {
        matches!(self.stage, Stage::Has)
    }

    /// Messages that it should have got and did not. None, ever.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// For a reader that began when this member did, or while it was on its way: what was kept when it began,
    /// and all that has come since. Once it is [whole](Keeper::is_whole), until [`Keeper::close_opening`].
    pub fn opening(&self) -> Option<Cursor> {
        self.opening.as_ref().map(Cursor::fork)
    }

    /// Nobody who began with this member is still to come.
    pub fn close_opening(&mut self) {
        self.opening = None;
    }

    pub(super) fn is_settled(&self, holders: &Holders, me: NodeId) -> bool {
        let named = holders.names().contains(&me);
        match self.stage {
            // It may wait for logs.
            Stage::Away => self.scribe.is_none(),
            Stage::Lacks(_) => false,
            Stage::Has => named && self.pins.is_empty() && !self.awaits_log(),
        }
    }

    /// An epoch has begun in which this member reads, or does not.
    pub(super) fn begun(
        &mut self,
        node: &mut Node,
        subgroup: SubgroupId,
        (epoch, layout): (u64, &Layout),
        (holders, logs): (Option<&Holders>, Option<&LogBook>),
    ) {
        let me = node.id();
        let reads = layout.seat_of(me).is_some_and(|seat| seat.reads);
        if !reads {
            return self.go_away();
        }
        let lives = |inbox: &Arc<Inbox>| node.has_subgroup_reader(subgroup, inbox);
        let goes_on = self.inbox.as_ref().is_some_and(lives);
        if !goes_on {
            // What this member has had before ends somewhere else than where it begins now.
            self.go_away();
        }
        // What comes from now on is of this epoch.
        self.take_all();
        self.me = me;
        let numbers = self.meet(node, subgroup);
        self.epoch = epoch;
        let by_order = logs.is_none() && self.retention.is_by_order();
        if !goes_on {
            self.inbox = node.add_subgroup_reader(subgroup);
            let waiting = match by_order {
                true => {
                    self.store = Store::amid(self.retention, self.meaning);
                    None
                }
                false => Some(Store::new(Retention::default(), self.meaning)),
            };
            let ripe_at = None;
            let (from, asked, spoke, replay) = (numbers.clone(), None, None, None);
            let turnings = VecDeque::new();
            let beginning = None;
            let arrived = 0;
            let lacking = Lacking {
                epoch,
                from,
                waiting,
                ripe_at,
                arrived,
                asked,
                spoke,
                beginning,
                replay,
                turnings,
            };
            self.stage = Stage::Lacks(Box::new(lacking));
        }
        let named = |node: &NodeId| holders.is_some_and(|holders| holders.names().contains(node));
        let newcomers = layout.seats.iter().filter(|seat| seat.reads && !named(&seat.node));
        self.milestones.begins((epoch, numbers.clone()), newcomers.clone().next().is_some());
        if matches!(self.stage, Stage::Has) && !by_order {
            // I-101: before anything of the epoch is taken in.
            for seat in newcomers.filter(|seat| seat.node != me) {
                let store = &self.store;
                self.pins.entry(seat.node).or_insert_with(|| store.cursor());
            }
        }
        self.pins.retain(|node, _| layout.seat_of(*node).is_some_and(|seat| seat.reads));
        let takes = match &mut self.stage {
            Stage::Lacks(lacking) => lacking.waiting.as_mut().unwrap_or(&mut self.store),
            _ => &mut self.store,
        };
        for &(stream, number) in &numbers {
            takes.meet(stream, epoch);
            if takes.number_of(stream).is_none() {
                takes.expect(stream, number);
            }
        }
        // I-155: all that the others have sent is there.
        takes.end_others(|stream| numbers.iter().any(|(known, _)| *known == stream));
        self.note_keepers(logs);
    }

    /// Learns who sends, and from where on.
    fn meet(&mut self, node: &Node, subgroup: SubgroupId) -> Numbers {
        let mut numbers = Numbers::new();
        for ((sender, origin, region), number) in node.next_numbers(subgroup) {
            let of = match origin {
                Origin::Own => Some(node.id()),
                Origin::Peer(peer) => node.node_of(peer),
            };
            let sender = usize::from(sender);
            self.senders.resize(self.senders.len().max(sender + 1), None);
            let Some(node) = of else { continue };
            let stream = StreamId { node, region };
            self.senders[sender] = Some(stream);
            numbers.push((stream, number));
        }
        numbers
    }

    /// This member is no reader there any more.
    pub(super) fn go_away(&mut self) {
        let scribe = self.scribe.take().map(Scribe::begin_again);
        *self = Keeper { scribe, ..Keeper::new(self.retention, self.meaning) };
    }

    /// What the group says of who has it. Returns what is to be said to all.
    pub(super) fn changed(
        &mut self,
        me: NodeId,
        holders: &Holders,
        logs: Option<&LogBook>,
    ) -> Option<Motion> {
        self.pins.retain(|node, _| !holders.names().contains(node));
        let named = holders.names().contains(&me);
        self.look_at_logs(me, holders, logs);
        if let Some(motion) = self.motion.take() {
            return Some(motion);
        }
        let awaits_log = self.awaits_log();
        match &mut self.stage {
            Stage::Away => None,
            Stage::Has if !named && !awaits_log && !self.known => {
                // Who had it before would not wait for this one's log: the logs have to be looked at again.
                let vacancy = holders.vacancy()?;
                self.scribe.iter_mut().for_each(|scribe| scribe.claim_again(vacancy));
                let news = self.spoke.replace(vacancy) != Some(vacancy);
                news.then_some(Motion::Lacks(vacancy))
            }
            Stage::Has => {
                let speaks = holders.vacancy().filter(|_| self.spoke != holders.vacancy());
                let (news, beginning) =
                    (self.told != Some(holders.beginning()), holders.beginning());
                if named || awaits_log || !(news || speaks.is_some()) {
                    return None;
                }
                (self.told, self.spoke) = (Some(beginning), holders.vacancy());
                Some(Motion::Holds(beginning))
            }
            Stage::Lacks(lacking) => {
                if named && !lacking.is_given() {
                    lacking.asked = None;
                    self.told = Some(holders.beginning());
                    match &mut self.scribe {
                        Some(scribe) => {
                            let (retention, meaning) = (self.retention, self.meaning);
                            let until = &lacking.from;
                            scribe.load(|| Errand::Load(retention, meaning, until.clone()));
                        }
                        None => self.begin_replay(),
                    }
                    return None;
                }
                let other = lacking.beginning.is_some_and(|known| known != holders.beginning());
                if other && !lacking.is_given() {
                    // It began anew, and who did so may not have all that was given: nothing of that is kept.
                    match (&lacking.waiting, logs) {
                        (None, _) => {
                            self.store.forget_front();
                            lacking.asked = None;
                        }
                        (Some(_), Some(_)) => {
                            self.store = Store::new(self.retention, self.meaning);
                            lacking.asked = None;
                        }
                        (Some(_), None) => {}
                    }
                }
                lacking.beginning = Some(holders.beginning());
                let asked = lacking.asked.as_ref();
                if asked.is_some_and(|asked| !holders.names().contains(&asked.node)) {
                    lacking.asked = None;
                }
                let vacancy = holders.vacancy().filter(|_| !lacking.is_given())?;
                let news = lacking.spoke != Some(vacancy);
                lacking.spoke = Some(vacancy);
                news.then_some(Motion::Lacks(vacancy))
            }
        }
    }

    /// What it wants of others. None if it wants nothing, or has asked.
    pub(super) fn wants(&self) -> Option<Wish> {
        let Stage::Lacks(lacking) = &self.stage else { return None };
        let is_asked = |asked: &Asked| !asked.is_refused || asked.epoch == self.epoch;
        if lacking.asked.as_ref().is_some_and(is_asked) {
            return None;
        }
        let known: Numbers = match &**lacking {
            Lacking { ripe_at: None, waiting: None, .. } => self.store.front_numbers().collect(),
            Lacking { replay: None, waiting: Some(_), .. } => {
                let streams = self.store.streams().iter();
                streams.filter_map(|it| Some((*it, self.store.number_of(*it)?))).collect()
            }
            _ => return None,
        };
        let (until, now) = ((lacking.epoch, lacking.from.clone()), self.milestones.last()?.clone());
        let before = self.milestones.since(&until)?.checked_sub(self.milestones.since(&now)?)?;
        Some(Wish { until, from: known, now, before })
    }

    pub(super) fn asked(&mut self) -> Option<&mut Asked> {
        match &mut self.stage {
            Stage::Lacks(lacking) => lacking.asked.as_mut(),
            _ => None,
        }
    }

    /// It has asked this member, or gives up what it has asked.
    pub(super) fn ask(&mut self, asked: Option<(NodeId, u64)>) {
        let epoch = self.epoch;
        if let Stage::Lacks(lacking) = &mut self.stage {
            lacking.asked = asked.map(|(node, request)| {
                let (is_refused, streams, version, partial) = (false, None, 0, Vec::new());
                Asked { node, request, epoch, is_refused, streams, version, partial }
            });
        }
    }

    /// The one it has asked has begun only after the epoch of which it was told: it is asked again in a later one.
    pub(super) fn is_behind(&mut self) {
        self.asked().into_iter().for_each(|asked| asked.is_refused = true);
    }

    /// Whether a place was before all that this member knows of.
    pub(super) fn is_before(&self, place: &Place) -> bool {
        self.milestones.first().is_some_and(|first| place.0 < first.0)
    }

    /// What it has asked for began anew from a log only in this epoch, after these numbers: so does it, here.
    pub(super) fn begin_later(&mut self, since: Place) {
        if let Stage::Lacks(lacking) = &mut self.stage {
            (lacking.asked, lacking.epoch, lacking.from) = (None, since.0, since.1.clone());
            self.since = Some(since);
        }
    }

    /// If it began from a log: in which epoch, and from which numbers on.
    pub(super) fn since(&self) -> Option<&Place> {
        self.since.as_ref()
    }

    /// Takes in what was delivered. Returns how much, and whether it has become whole by that.
    pub(super) fn turn(&mut self) -> (usize, bool) {
        let done = self.take();
        let (replayed, whole) = self.replay();
        (done + replayed, whole)
    }

    /// Takes in what was delivered, unless its log is too far behind.
    pub(super) fn take(&mut self) -> usize {
        match self.scribe.as_ref().is_some_and(Scribe::holds_up) {
            // What is not taken holds its writers up, as with any reader that does not take.
            true => 0,
            false => self.take_all(),
        }
    }

    fn take_all(&mut self) -> usize {
        let mut done = 0;
        // Most come in runs of one sender.
        let mut known: Option<(StreamId, u32)> = None;
        while let Some(record) = self.inbox.as_ref().and_then(|inbox| inbox.take()) {
            done += 1;
            let sender = self.senders.get(record.sender()).copied().flatten();
            let Some(stream) = sender else {
                self.gaps += 1;
                continue;
            };
            let to = match &mut self.stage {
                Stage::Lacks(lacking) => {
                    lacking.arrived += RECORD_HEAD + record.bytes().len();
                    lacking.waiting.as_mut().unwrap_or(&mut self.store)
                }
                _ => &mut self.store,
            };
            let index = match known {
                Some((of, index)) if of == stream => index,
                _ => to.stream(stream),
            };
            known = Some((stream, index));
            let number = record.number();
            self.gaps += u64::from(to.next_in(index).is_some_and(|next| next != number));
            to.append(index, number, record.bytes());
            self.milestones.count();
            if matches!(self.stage, Stage::Has) {
                self.kept(stream, record.bytes());
            }
        }
        done
    }

    /// Along what another member wants: what was kept where it began, and how many messages that were in all (I-158). None as long as this
    /// member has not come so far itself.
    pub(super) fn serve(&mut self, want: &Want, is_logged: bool) -> Option<(Way, u64)> {
        let Want { node, wish, .. } = want;
        if !self.is_whole() {
            return None;
        }
        let mut beyond = self.milestones.since(&wish.now)?.saturating_add(wish.before);
        if planted(Planted::HistoryCutLate) {
            beyond = 0;
        }
        // What was replaced before the newcomer began is none of its business.
        let cut = self.store.version().saturating_sub(beyond);
        if !is_logged && self.retention.is_by_order() {
            return Some((Way::Along(Walk::default()), cut));
        }
        let mut cursor = self.pins.remove(node).unwrap_or_else(|| self.store.cursor());
        self.store.cut(&mut cursor, cut);
        Some((Way::Pinned(cursor), cut))
    }
}

impl core::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (version, epoch, pins) = (self.store.version(), self.epoch, self.pins.keys());
        match &self.stage {
            Stage::Away => write!(f, "away"),
            Stage::Has => {
                write!(f, "has {version} in {epoch}, pins {pins:?}, logs {:?}", self.scribe)
            }
            Stage::Lacks(lacking) => {
                let asked = lacking.asked.as_ref().map(|it| (it.node, it.request, &it.streams));
                let Lacking { epoch: began, from, replay, spoke, .. } = &**lacking;
                let replays = replay.is_some();
                write!(
                    f,
                    "lacks, began {began} at {from:?}, now in {epoch} with {version}, asked {asked:?}, \
                     replays {replays}, spoke {spoke:?}, logs {:?}",
                    self.scribe
                )
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
impl Keeper {
    /// One that waits for what was kept before.
    pub(super) fn newcomer(retention: Retention, meaning: Meaning) -> Keeper {
        let mut keeper = Keeper::new(retention, meaning);
        let (waiting, ripe_at) = (Some(Store::new(Retention::default(), meaning)), None);
        keeper.stage = Stage::Lacks(Box::new(Lacking {
            epoch: 1,
            from: Vec::new(),
            waiting,
            ripe_at,
            arrived: 0,
            asked: None,
            spoke: None,
            beginning: None,
            replay: None,
            turnings: VecDeque::new(),
        }));
        keeper
    }
}
