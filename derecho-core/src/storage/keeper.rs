//! A member's part in keeping the records delivered in one subgroup.
//!
//! Owns: its store, its progress towards a complete store, and the records that wait meanwhile.
//! Never does: send anything; it returns what must be sent.
//!
//! ```text
//!   Away ──begun──> Lacks ──asks a holder──> gets older records ──> replays newer ones ──> Has
//!                     │ named to begin it                                  ^
//!                     '────────────────────────────────────────────────────'
//! ```
//! If records are removed strictly in order or never, and no logs are kept, nothing waits:
//! delivered records go into the store at once, and the records kept before are put in front of
//! them (I-230).

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

/// State of a request to a holder.
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) request: u64,
    /// Epoch that this member had reached by then.
    epoch: u64,
    /// Whether the holder began only after that epoch and cannot answer; the request can be
    /// repeated in a later epoch.
    is_refused: bool,
    /// This store's numbers for the streams, by their indices in the run; `None` before they
    /// are announced.
    pub(super) streams: Option<Vec<u32>>,
    /// Number of messages before this member began.
    version: u64,
    /// Received part of a record.
    partial: Vec<u8>,
}

/// State of a member that does not have the store yet.
struct Lacking {
    /// Epoch in which the member began.
    epoch: u64,
    /// Numbers of the first messages delivered here.
    from: Numbers,
    /// All records delivered meanwhile; `None` if they are in the store already (I-230).
    waiting: Option<Store>,
    /// Version from which on the store is complete: all records kept before were received from a
    /// holder that had reached this version, so this member must reach it as well.
    ripe_at: Option<u64>,
    /// Bytes delivered since records were last put into the store.
    arrived: usize,
    asked: Option<Asked>,
    /// Vacancy about which this member has announced that it lacks the store.
    spoke: Option<u64>,
    /// Beginning of the store that it receives, once it has received a part.
    beginning: Option<u128>,
    /// Cursor along the waiting records, if the store is complete except for these.
    replay: Option<Cursor>,
    /// Changes of epoch among the waiting records: first version, epoch, and the logs that keep it.
    turnings: VecDeque<(u64, u64, Vec<LogId>)>,
}

impl Lacking {
    /// Whether it has received everything that it must ask for.
    fn is_given(&self) -> bool {
        self.replay.is_some() || self.ripe_at.is_some()
    }
}

enum Stage {
    Away,
    Lacks(Box<Lacking>),
    Has,
}

/// Result of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    More,
    Whole,
    /// The block is invalid: another holder is asked.
    Nonsense,
}

/// A member's part in one subgroup's store.
pub struct Keeper {
    store: Store,
    retention: Retention,
    meaning: Meaning,
    stage: Stage,
    /// Present epoch.
    epoch: u64,
    inbox: Option<Arc<Inbox>>,
    /// Stream of each sender, by the queue's number for the sender.
    senders: Vec<Option<StreamId>>,
    /// Cursor for readers that began with this member, along the store as it was when the member
    /// began in the subgroup, or, under I-230, when the store became complete.
    opening: Option<Cursor>,
    /// Cursors that preserve removed records for members that have begun and do not have the
    /// store yet.
    pins: BTreeMap<NodeId, Cursor>,
    /// Beginning of which it has announced that it has it.
    told: Option<u128>,
    spoke: Option<u64>,
    gaps: u64,
    me: NodeId,
    era: u64,
    base: Tail,
    since: Option<Place>,
    milestones: Milestones,
    /// Writer of its log, if it keeps one.
    scribe: Option<Scribe<StoreTrail>>,
    /// Version after its last own message.
    own: u64,
    /// Announcement that the log requests.
    motion: Option<Motion>,
    speaks: bool,
    /// Logs of other members that hold the store.
    holding: Vec<LogId>,
    /// Whether the logs of all holders durably name its own log (I-113).
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

    /// Whether all records delivered to it are in its store.
    pub(super) fn has_taken_all(&self) -> bool {
        self.is_whole() && self.inbox.as_ref().is_none_or(|inbox| inbox.is_empty())
    }

    /// Version after this member's last own message that was delivered.
    pub fn own_version(&self) -> u64 {
        self.own
    }

    /// Returns the store, which may be incomplete.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether the store is complete.
    pub fn is_whole(&self) -> bool {
        matches!(self.stage, Stage::Has)
    }

    /// Number of messages that were not delivered although they should have been. Always 0 in a
    /// correct system.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Returns a cursor for a reader that began with this member or while the store was incomplete:
    /// over the records kept when the member began, and all later ones. Available from when it is
    /// [whole](Keeper::is_whole) until [`Keeper::close_opening`].
    pub fn opening(&self) -> Option<Cursor> {
        self.opening.as_ref().map(Cursor::fork)
    }

    /// Closes the opening: no reader that began with this member is still to come.
    pub fn close_opening(&mut self) {
        self.opening = None;
    }

    pub(super) fn is_settled(&self, holders: &Holders, me: NodeId) -> bool {
        let named = holders.names().contains(&me);
        match self.stage {
            // It may be waiting for logs.
            Stage::Away => self.scribe.is_none(),
            Stage::Lacks(_) => false,
            Stage::Has => named && self.pins.is_empty() && !self.awaits_log(),
        }
    }

    /// Begins an epoch in which this member may or may not read.
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
            // The records that this member had before end at another place than where it
            // begins now.
            self.go_away();
        }
        // Records delivered from now on belong to this epoch.
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
            // I-101: before any record of the epoch is taken in.
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
        // I-155: all messages of the other streams have arrived.
        takes.end_others(|stream| numbers.iter().any(|(known, _)| *known == stream));
        self.note_keepers(logs);
    }

    /// Learns the streams, and the number of the next message of each.
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

    /// Ends this member's part: it is no longer a reader.
    pub(super) fn go_away(&mut self) {
        let scribe = self.scribe.take().map(Scribe::begin_again);
        *self = Keeper { scribe, ..Keeper::new(self.retention, self.meaning) };
    }

    /// Takes in the group's knowledge of the holders. Returns the announcement to make, if any.
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
                // The former holders would not wait for this member's log, so the logs must be
                // examined again.
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
                    // The store began again, and the member that began it may lack some of the
                    // received records: they are all discarded.
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

    /// Returns the request to make; `None` if nothing is needed, or the request was made.
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

    /// Notes that this member was asked, or cancels the request.
    pub(super) fn ask(&mut self, asked: Option<(NodeId, u64)>) {
        let epoch = self.epoch;
        if let Stage::Lacks(lacking) = &mut self.stage {
            lacking.asked = asked.map(|(node, request)| {
                let (is_refused, streams, version, partial) = (false, None, 0, Vec::new());
                Asked { node, request, epoch, is_refused, streams, version, partial }
            });
        }
    }

    /// Notes that the holder began only after the epoch named in the request: it is asked again in
    /// a later epoch.
    pub(super) fn is_behind(&mut self) {
        self.asked().into_iter().for_each(|asked| asked.is_refused = true);
    }

    /// Whether a place was before all places that this member knows of.
    pub(super) fn is_before(&self, place: &Place) -> bool {
        self.milestones.first().is_some_and(|first| place.0 < first.0)
    }

    /// Moves this member's beginning to the given place, because the store that it asked for began
    /// again from a log only there.
    pub(super) fn begin_later(&mut self, since: Place) {
        if let Stage::Lacks(lacking) = &mut self.stage {
            (lacking.asked, lacking.epoch, lacking.from) = (None, since.0, since.1.clone());
            self.since = Some(since);
        }
    }

    /// Place at which the store began from a log, if it did.
    pub(super) fn since(&self) -> Option<&Place> {
        self.since.as_ref()
    }

    /// Takes in delivered records. Returns their number, and whether the store became complete
    /// by that.
    pub(super) fn turn(&mut self) -> (usize, bool) {
        let done = self.take();
        let (replayed, whole) = self.replay();
        (done + replayed, whole)
    }

    /// Takes in delivered records, unless its log is too far behind. A record that is copied into
    /// the store holds up no writer any more (I-103).
    pub(super) fn take(&mut self) -> usize {
        match self.scribe.as_ref().is_some_and(Scribe::holds_up) {
            // Records that are not taken block their writers, as with any reader that does
            // not take.
            true => 0,
            false => self.take_all(),
        }
    }

    fn take_all(&mut self) -> usize {
        let mut done = 0;
        // Most records come in runs of one sender.
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

    /// Returns how to read what another member requests, the records kept where that member began,
    /// and the number of messages up to there (I-158). `None` while this member has not reached
    /// that place itself.
    pub(super) fn serve(&mut self, want: &Want, is_logged: bool) -> Option<(Way, u64)> {
        let Want { node, wish, .. } = want;
        if !self.is_whole() {
            return None;
        }
        let mut beyond = self.milestones.since(&wish.now)?.saturating_add(wish.before);
        if planted(Planted::HistoryCutLate) {
            beyond = 0;
        }
        // Records replaced before the late joiner began are not transferred.
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
    /// Creates the keeper of a late joiner that waits for the records kept before.
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
