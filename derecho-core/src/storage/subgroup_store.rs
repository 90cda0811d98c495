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

use self::epoch_counts::EpochCounts;
pub use super::announcement::StoreAnnouncement;
use super::cursor::StoreCursor;
use super::holders::Holders;
use super::log_election::LogElection;
use super::log_follower::LogFollower;
use super::log_port::LogTask;
use super::store::{RecordFormat, ResumePoint, Store, StoreRetention};
use super::store_log_input::StoreLogInput;
use super::store_message::{EpochPosition, RECORD_HEAD, StreamNumbers, TransferRange};
use super::transfer_sender::{TransferReader, TransferRequest};
use crate::fault::{Fault as Planted, planted};
use crate::group::registry::Layout;
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::log::{LogId, Tail};
use crate::multicast::inbox::Inbox;
use crate::node::{Node, StreamOrigin, SubgroupId};

mod epoch_counts;
mod logging;
mod receive;
mod replay;

/// State of a request to a holder.
pub(super) struct PendingStoreRequest {
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
struct LateJoinerState {
    /// Epoch in which the member began.
    epoch: u64,
    /// Numbers of the first messages delivered here.
    from: StreamNumbers,
    /// All records delivered meanwhile; `None` if they are in the store already (I-230).
    waiting: Option<Store>,
    /// Version from which on the store is complete: all records kept before were received from a
    /// holder that had reached this version, so this member must reach it as well.
    complete_at: Option<u64>,
    /// Bytes delivered since records were last put into the store.
    arrived: usize,
    pending_request: Option<PendingStoreRequest>,
    /// Vacancy about which this member has announced that it lacks the store.
    announced_in: Option<u64>,
    /// Beginning of the store that it receives, once it has received a part.
    beginning: Option<u128>,
    /// Cursor along the waiting records, if the store is complete except for these.
    replay: Option<StoreCursor>,
    /// Changes of epoch among the waiting records: first version, epoch, and the logs that keep it.
    epoch_changes: VecDeque<(u64, u64, Vec<LogId>)>,
}

impl LateJoinerState {
    /// Whether it has received everything that it must ask for.
    fn is_given(&self) -> bool {
        self.replay.is_some() || self.complete_at.is_some()
    }
}

enum StoreStage {
    Away,
    Lacks(Box<LateJoinerState>),
    Has,
}

/// Result of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockResult {
    More,
    Complete,
    /// The block is invalid: another holder is asked.
    Invalid,
}

/// A member's part in one subgroup's store.
pub struct SubgroupStore {
    store: Store,
    retention: StoreRetention,
    format: RecordFormat,
    stage: StoreStage,
    /// Present epoch.
    epoch: u64,
    inbox: Option<Arc<Inbox>>,
    /// Stream of each sender, by the queue's number for the sender.
    senders: Vec<Option<StreamId>>,
    /// Cursor for readers that began with this member, along the store as it was when the member
    /// began in the subgroup, or, under I-230, when the store became complete.
    opening: Option<StoreCursor>,
    /// Cursors that preserve removed records for members that have begun and do not have the
    /// store yet.
    pins: BTreeMap<NodeId, StoreCursor>,
    /// Beginning of which it has announced that it has it.
    announced_beginning: Option<u128>,
    /// Vacancy in which this member has last announced that it has, or lacks, the store.
    announced_in: Option<u64>,
    gaps: u64,
    me: NodeId,
    /// Number of the beginning, as the logs count them.
    era: u64,
    /// End of the log from which the subgroup began.
    base: Tail,
    /// Place at which the store began from a log, if it did.
    log_beginning: Option<EpochPosition>,
    epoch_counts: EpochCounts,
    /// Writer of its log, if it keeps one.
    log_follower: Option<LogFollower<StoreLogInput>>,
    /// Version after its last own message.
    own: u64,
    /// Announcement that the log requests.
    announcement: Option<StoreAnnouncement>,
    /// Whether the log has made progress that was not taken yet.
    has_news: bool,
    /// Logs of other members that hold the store.
    holding: Vec<LogId>,
    /// Whether the logs of all holders durably name its own log (I-113).
    is_log_named: bool,
}

impl SubgroupStore {
    pub(super) fn new(retention: StoreRetention, format: RecordFormat) -> SubgroupStore {
        SubgroupStore {
            store: Store::new(retention, format),
            retention,
            format,
            stage: StoreStage::Away,
            epoch: 0,
            inbox: None,
            senders: Vec::new(),
            opening: None,
            pins: BTreeMap::new(),
            announced_beginning: None,
            announced_in: None,
            gaps: 0,
            me: NodeId(0),
            era: 0,
            base: Tail::default(),
            log_beginning: None,
            epoch_counts: EpochCounts::default(),
            log_follower: None,
            own: 0,
            announcement: None,
            has_news: false,
            holding: Vec::new(),
            is_log_named: false,
        }
    }

    /// Whether all records delivered to it are in its store.
    pub(super) fn has_taken_all(&self) -> bool {
        self.is_complete() && self.inbox.as_ref().is_none_or(|inbox| inbox.is_empty())
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
    pub fn is_complete(&self) -> bool {
        matches!(self.stage, StoreStage::Has)
    }

    /// Number of messages that were not delivered although they should have been. Always 0 in a
    /// correct system.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Returns a cursor for a reader that began with this member or while the store was incomplete:
    /// over the records kept when the store became complete, and all later ones. Available from
    /// when it is [complete](SubgroupStore::is_complete) until [`SubgroupStore::close_opening`].
    pub fn opening(&self) -> Option<StoreCursor> {
        self.opening.as_ref().map(StoreCursor::fork)
    }

    /// Closes the opening: no reader that began with this member is still to come.
    pub fn close_opening(&mut self) {
        self.opening = None;
    }

    pub(super) fn is_settled(&self, holders: &Holders, me: NodeId) -> bool {
        let named = holders.names().contains(&me);
        match self.stage {
            // It may be waiting for logs.
            StoreStage::Away => self.log_follower.is_none(),
            StoreStage::Lacks(_) => false,
            StoreStage::Has => named && self.pins.is_empty() && !self.awaits_log(),
        }
    }

    /// Begins an epoch in which this member may or may not read.
    pub(super) fn begun(
        &mut self,
        node: &mut Node,
        subgroup: SubgroupId,
        epoch: u64,
        layout: &Layout,
        holders: Option<&Holders>,
        logs: Option<&LogElection>,
    ) {
        let me = node.id();
        let reads = layout.member(me).is_some_and(|seat| seat.reads);
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
                    self.store = Store::amid(self.retention, self.format);
                    None
                }
                false => Some(Store::new(StoreRetention::default(), self.format)),
            };
            let complete_at = None;
            let (from, pending_request, announced_in, replay) = (numbers.clone(), None, None, None);
            let epoch_changes = VecDeque::new();
            let beginning = None;
            let arrived = 0;
            let lacking = LateJoinerState {
                epoch,
                from,
                waiting,
                complete_at,
                arrived,
                pending_request,
                announced_in,
                beginning,
                replay,
                epoch_changes,
            };
            self.stage = StoreStage::Lacks(Box::new(lacking));
        }
        let named = |node: &NodeId| holders.is_some_and(|holders| holders.names().contains(node));
        let late_joiners = layout.members.iter().filter(|seat| seat.reads && !named(&seat.node));
        self.epoch_counts.begins((epoch, numbers.clone()), late_joiners.clone().next().is_some());
        if matches!(self.stage, StoreStage::Has) && !by_order {
            // I-101: before any record of the epoch is taken in.
            for seat in late_joiners.filter(|seat| seat.node != me) {
                let store = &self.store;
                self.pins.entry(seat.node).or_insert_with(|| store.cursor());
            }
        }
        self.pins.retain(|node, _| layout.member(*node).is_some_and(|seat| seat.reads));
        let takes = match &mut self.stage {
            StoreStage::Lacks(lacking) => lacking.waiting.as_mut().unwrap_or(&mut self.store),
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
        self.note_epoch_logs(logs);
    }

    /// Learns the streams, and the number of the next message of each.
    fn meet(&mut self, node: &Node, subgroup: SubgroupId) -> StreamNumbers {
        let mut numbers = StreamNumbers::new();
        for ((sender, origin, region), number) in node.next_numbers(subgroup) {
            let of = match origin {
                StreamOrigin::Own => Some(node.id()),
                StreamOrigin::Peer(peer) => node.node_of(peer),
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
        let log_follower = self.log_follower.take().map(LogFollower::begin_again);
        *self = SubgroupStore { log_follower, ..SubgroupStore::new(self.retention, self.format) };
    }

    /// Takes in the group's knowledge of the holders. Returns the announcement to make, if any.
    pub(super) fn changed(
        &mut self,
        me: NodeId,
        holders: &Holders,
        logs: Option<&LogElection>,
    ) -> Option<StoreAnnouncement> {
        self.pins.retain(|node, _| !holders.names().contains(node));
        let named = holders.names().contains(&me);
        self.look_at_logs(me, holders, logs);
        if let Some(announcement) = self.announcement.take() {
            return Some(announcement);
        }
        let awaits_log = self.awaits_log();
        match &mut self.stage {
            StoreStage::Away => None,
            StoreStage::Has if !named && !awaits_log && !self.is_log_named => {
                // The former holders would not wait for this member's log, so the logs must be
                // examined again.
                let vacancy = holders.vacancy()?;
                self.log_follower
                    .iter_mut()
                    .for_each(|log_follower| log_follower.claim_again(vacancy));
                let news = self.announced_in.replace(vacancy) != Some(vacancy);
                news.then_some(StoreAnnouncement::Lacks(vacancy))
            }
            StoreStage::Has => {
                let is_due = holders.vacancy().filter(|_| self.announced_in != holders.vacancy());
                let (news, beginning) =
                    (self.announced_beginning != Some(holders.beginning()), holders.beginning());
                if named || awaits_log || !(news || is_due.is_some()) {
                    return None;
                }
                (self.announced_beginning, self.announced_in) =
                    (Some(beginning), holders.vacancy());
                Some(StoreAnnouncement::Holds(beginning))
            }
            StoreStage::Lacks(lacking) => {
                if named && !lacking.is_given() {
                    lacking.pending_request = None;
                    self.announced_beginning = Some(holders.beginning());
                    match &mut self.log_follower {
                        Some(log_follower) => {
                            let (retention, format) = (self.retention, self.format);
                            let until = || lacking.from.iter().copied().collect();
                            log_follower.load(|| LogTask::Load(retention, format, until()));
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
                            self.store.forget_past();
                            lacking.pending_request = None;
                        }
                        (Some(_), Some(_)) => {
                            self.store = Store::new(self.retention, self.format);
                            lacking.pending_request = None;
                        }
                        (Some(_), None) => {}
                    }
                }
                lacking.beginning = Some(holders.beginning());
                let asked = lacking.pending_request.as_ref();
                if asked.is_some_and(|asked| !holders.names().contains(&asked.node)) {
                    lacking.pending_request = None;
                }
                let vacancy = holders.vacancy().filter(|_| !lacking.is_given())?;
                let news = lacking.announced_in != Some(vacancy);
                lacking.announced_in = Some(vacancy);
                news.then_some(StoreAnnouncement::Lacks(vacancy))
            }
        }
    }

    /// Returns the request to make; `None` if nothing is needed, or the request was made.
    pub(super) fn wants(&self) -> Option<TransferRange> {
        let StoreStage::Lacks(lacking) = &self.stage else { return None };
        let is_asked = |asked: &PendingStoreRequest| !asked.is_refused || asked.epoch == self.epoch;
        if lacking.pending_request.as_ref().is_some_and(is_asked) {
            return None;
        }
        let known: StreamNumbers = match &**lacking {
            LateJoinerState { complete_at: None, waiting: None, .. } => {
                self.store.past_numbers().collect()
            }
            LateJoinerState { replay: None, waiting: Some(_), .. } => {
                let streams = self.store.streams().iter();
                streams.filter_map(|it| Some((*it, self.store.number_of(*it)?))).collect()
            }
            _ => return None,
        };
        let (until, now) =
            ((lacking.epoch, lacking.from.clone()), self.epoch_counts.last()?.clone());
        let before =
            self.epoch_counts.since(&until)?.checked_sub(self.epoch_counts.since(&now)?)?;
        Some(TransferRange { until, from: known, now, before })
    }

    pub(super) fn pending_request(&mut self) -> Option<&mut PendingStoreRequest> {
        match &mut self.stage {
            StoreStage::Lacks(lacking) => lacking.pending_request.as_mut(),
            _ => None,
        }
    }

    /// Notes that this member was asked.
    pub(super) fn ask(&mut self, node: NodeId, request: u64) {
        let epoch = self.epoch;
        if let StoreStage::Lacks(lacking) = &mut self.stage {
            let (is_refused, streams, version, partial) = (false, None, 0, Vec::new());
            lacking.pending_request = Some(PendingStoreRequest {
                node,
                request,
                epoch,
                is_refused,
                streams,
                version,
                partial,
            });
        }
    }

    /// Forgets the pending request, so that a member is asked again.
    pub(super) fn cancel_request(&mut self) {
        if let StoreStage::Lacks(lacking) = &mut self.stage {
            lacking.pending_request = None;
        }
    }

    /// Notes that the holder began only after the epoch named in the request: it is asked again in
    /// a later epoch.
    pub(super) fn note_refused(&mut self) {
        self.pending_request().into_iter().for_each(|asked| asked.is_refused = true);
    }

    /// Whether a place was before all places that this member knows of.
    pub(super) fn is_before(&self, place: &EpochPosition) -> bool {
        self.epoch_counts.first().is_some_and(|first| place.0 < first.0)
    }

    /// Moves this member's beginning to the given place, because the store that it asked for began
    /// again from a log only there.
    pub(super) fn begin_later(&mut self, since: EpochPosition) {
        if let StoreStage::Lacks(lacking) = &mut self.stage {
            (lacking.pending_request, lacking.epoch, lacking.from) =
                (None, since.0, since.1.clone());
            self.log_beginning = Some(since);
        }
    }

    /// Place at which the store began from a log, if it did.
    pub(super) fn log_beginning(&self) -> Option<&EpochPosition> {
        self.log_beginning.as_ref()
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
        match self.log_follower.as_ref().is_some_and(LogFollower::holds_up) {
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
                StoreStage::Lacks(lacking) => {
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
            self.epoch_counts.count();
            if matches!(self.stage, StoreStage::Has) {
                self.kept(stream, record.bytes());
            }
        }
        done
    }

    /// Returns how to read what another member requests, the records kept where that member began,
    /// and the number of messages up to there (I-158). `None` while this member has not reached
    /// that place itself.
    pub(super) fn serve(
        &mut self,
        transfer_request: &TransferRequest,
        is_logged: bool,
    ) -> Option<(TransferReader, u64)> {
        let TransferRequest { node, range, .. } = transfer_request;
        if !self.is_complete() {
            return None;
        }
        let mut beyond = self.epoch_counts.since(&range.now)?.saturating_add(range.before);
        if planted(Planted::HistoryCutLate) {
            beyond = 0;
        }
        // Records replaced before the late joiner began are not transferred.
        let cut = self.store.version().saturating_sub(beyond);
        if !is_logged && self.retention.is_by_order() {
            return Some((TransferReader::Unpinned(ResumePoint::default()), cut));
        }
        let mut cursor = self.pins.remove(node).unwrap_or_else(|| self.store.cursor());
        self.store.cut(&mut cursor, cut);
        Some((TransferReader::Pinned(cursor), cut))
    }
}

impl core::fmt::Debug for SubgroupStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (version, epoch, pins) = (self.store.version(), self.epoch, self.pins.keys());
        match &self.stage {
            StoreStage::Away => write!(f, "away"),
            StoreStage::Has => {
                write!(f, "has {version} in {epoch}, pins {pins:?}, logs {:?}", self.log_follower)
            }
            StoreStage::Lacks(lacking) => {
                let asked =
                    lacking.pending_request.as_ref().map(|it| (it.node, it.request, &it.streams));
                let LateJoinerState { epoch: began, from, replay, announced_in, .. } = &**lacking;
                let replays = replay.is_some();
                write!(
                    f,
                    "lacks, began {began} at {from:?}, now in {epoch} with {version}, asked {asked:?}, \
                     replays {replays}, announced_in {announced_in:?}, logs {:?}",
                    self.log_follower
                )
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
impl SubgroupStore {
    /// Creates the subgroup store of a late joiner that waits for the records kept before.
    pub(super) fn late_joiner(retention: StoreRetention, format: RecordFormat) -> SubgroupStore {
        let mut subgroup_store = SubgroupStore::new(retention, format);
        let (waiting, complete_at) = (Some(Store::new(StoreRetention::default(), format)), None);
        subgroup_store.stage = StoreStage::Lacks(Box::new(LateJoinerState {
            epoch: 1,
            from: Vec::new(),
            waiting,
            complete_at,
            arrived: 0,
            pending_request: None,
            announced_in: None,
            beginning: None,
            replay: None,
            epoch_changes: VecDeque::new(),
        }));
        subgroup_store
    }
}
