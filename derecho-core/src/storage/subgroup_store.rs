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

use self::deferred::DeferredRecords;
use self::epoch_counts::EpochCounts;
pub use super::announcement::StoreAnnouncement;
use super::cursor::StoreCursor;
use super::log_election::LogElection;
use super::log_follower::LogFollower;
use super::log_port::LogTask;
use super::store::{RecordFormat, ResumePoint, Store, StoreRetention};
use super::store_log_input::StoreLogInput;
use super::store_message::{
    EpochPosition, RECORD_HEAD, StoreMessage, StreamNumbers, TransferRange,
};
use super::transfer_sender::{TransferReader, TransferRequest};
use crate::fault::{Fault as Planted, planted};
use crate::group::registry::Layout;
use crate::group::report::StreamId;
use crate::ids::{NodeId, RegionId};
use crate::log::{LogId, Tail};
use crate::multicast::inbox::{Inbox, ReleaseBatch};
use crate::node::{Node, SubgroupId};
use crate::transfer::holders::Holders;
use crate::transfer::requester::TransferRequester;

mod deferred;
mod epoch_counts;
mod logging;
mod receive;
mod replay;

/// State of a transfer to this member.
#[derive(Default)]
pub(super) struct StoreReception {
    /// This store's numbers for the streams, by their indices in the run; `None` before they
    /// are announced.
    streams: Option<Vec<u32>>,
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
    /// Version that the store must reach to be complete: all records kept before were received from
    /// a holder that had reached it.
    complete_at: Option<u64>,
    /// Bytes delivered since records were last put into the store.
    arrived: usize,
    /// Beginning of the store that it receives, once it has received a part.
    beginning: Option<u128>,
    /// Cursor along the waiting records, if the store is complete except for these.
    replay: Option<StoreCursor>,
    /// Changes of epoch among the waiting records: first position, epoch, and its logs.
    epoch_changes: VecDeque<(u64, u64, Vec<LogId>)>,
}

impl LateJoinerState {
    fn new(epoch: u64, from: StreamNumbers, waiting: Option<Store>) -> LateJoinerState {
        LateJoinerState {
            epoch,
            from,
            waiting,
            complete_at: None,
            arrived: 0,
            beginning: None,
            replay: None,
            epoch_changes: VecDeque::new(),
        }
    }

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
    /// Records that the store has counted and not copied.
    deferred: DeferredRecords,
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
    /// Requests to holders, and announcements of this member.
    pub(super) requester: TransferRequester<StoreReception>,
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
    /// Version of its last own message.
    own_version: u64,
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
            deferred: DeferredRecords::new(),
            retention,
            format,
            stage: StoreStage::Away,
            epoch: 0,
            inbox: None,
            senders: Vec::new(),
            opening: None,
            pins: BTreeMap::new(),
            requester: TransferRequester::default(),
            gaps: 0,
            me: NodeId(0),
            era: 0,
            base: Tail::default(),
            log_beginning: None,
            epoch_counts: EpochCounts::default(),
            log_follower: None,
            own_version: 0,
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

    /// Version of this member's last own message that was delivered.
    pub fn own_version(&self) -> u64 {
        self.own_version
    }

    /// Returns the store, which may be incomplete. All records delivered to it are in it (I-349).
    pub fn store(&mut self) -> &Store {
        self.copy_all_deferred();
        &self.store
    }

    /// Version of the store: that of the last record delivered to it.
    pub fn version(&self) -> u64 {
        self.store.version()
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
        self.copy_all_deferred();
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
            let lacking = LateJoinerState::new(epoch, numbers.clone(), waiting);
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
            let of = node.node_at(origin);
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
                let is_due = self.requester.announces_lack(vacancy);
                is_due.then_some(StoreAnnouncement::Lacks(vacancy))
            }
            StoreStage::Has => {
                let is_due = !named && !awaits_log && self.requester.announces_holding(holders);
                is_due.then_some(StoreAnnouncement::Holds(holders.beginning()))
            }
            StoreStage::Lacks(lacking) => {
                if named && !lacking.is_given() {
                    self.requester.note_named(holders.beginning());
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
                            self.requester.cancel();
                        }
                        (Some(_), Some(_)) => {
                            self.store = Store::new(self.retention, self.format);
                            self.requester.cancel();
                        }
                        (Some(_), None) => {}
                    }
                }
                lacking.beginning = Some(holders.beginning());
                self.requester.update(holders);
                let vacancy = holders.vacancy().filter(|_| !lacking.is_given())?;
                let is_due = self.requester.announces_lack(vacancy);
                is_due.then_some(StoreAnnouncement::Lacks(vacancy))
            }
        }
    }

    /// Returns the request to make; `None` if nothing is needed, or the request was made.
    pub(super) fn wants(&self) -> Option<TransferRange> {
        let StoreStage::Lacks(lacking) = &self.stage else { return None };
        if self.requester.awaits_answer(self.epoch) {
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

    /// Notes that this member was asked.
    pub(super) fn ask(&mut self, holder: NodeId, request: u64) {
        self.requester.ask(holder, request, self.epoch);
    }

    /// Whether a place was before all places that this member knows of.
    fn is_before(&self, place: &EpochPosition) -> bool {
        self.epoch_counts.first().is_some_and(|first| place.0 < first.0)
    }

    /// Moves this member's beginning to the given place, because the store that it asked for began
    /// again from a log only there.
    pub(super) fn begin_later(&mut self, since: EpochPosition) {
        if let StoreStage::Lacks(lacking) = &mut self.stage {
            (lacking.epoch, lacking.from) = (since.0, since.1.clone());
            self.requester.cancel();
            self.log_beginning = Some(since);
        }
    }

    /// Takes in delivered records. Returns their number, and whether the store became complete
    /// by that.
    pub(super) fn turn(&mut self) -> (usize, bool) {
        let done = self.take() + self.end_turn();
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
        let Some(inbox) = self.inbox.clone() else { return 0 };
        let (taking, deferral_depth) = (inbox.guard(), self.deferral_depth());
        if deferral_depth.is_none() {
            // Records go into the store in their order.
            self.copy_all_deferred();
        }
        let (mut done, mut replaced) = (0, ReleaseBatch::default());
        // Most records come in runs of one sender.
        let mut known: Option<(StreamId, u32)> = None;
        while let Some(record) = taking.take() {
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
            let position = to.count(index, number);
            self.epoch_counts.count();
            match deferral_depth {
                None => {
                    to.put_counted(position, index, number, record.bytes());
                    if matches!(self.stage, StoreStage::Has) {
                        self.kept(stream, record.bytes());
                    }
                }
                Some(depth) => {
                    self.kept(stream, record.bytes());
                    self.put_or_defer(index, position, record, depth, &mut replaced);
                }
            }
        }
        done
    }

    /// Returns the answer to another member's request, and how to read the records that follow it:
    /// those kept where the requester began (I-158). `None` while this member has not reached that
    /// place itself.
    pub(super) fn answer(
        &mut self,
        transfer_request: &TransferRequest,
        is_logged: bool,
        stream: RegionId,
        most_ended: usize,
    ) -> Option<(StoreMessage, Option<TransferReader>)> {
        let &TransferRequest { node, key, request, ref wanted } = transfer_request;
        if !self.is_complete() {
            return Some((StoreMessage::Lack { key, request }, None));
        }
        self.copy_all_deferred();
        if self.is_before(&wanted.now) {
            return Some((StoreMessage::Behind { key, request }, None));
        }
        let since = self.log_beginning.clone().unwrap_or_default();
        if self.log_beginning.is_some() && is_before(&wanted.until, &since) {
            return Some((StoreMessage::Later { key, request, since }, None));
        }
        let mut beyond = self.epoch_counts.since(&wanted.now)?.saturating_add(wanted.before);
        if planted(Planted::HistoryCutLate) {
            beyond = 0;
        }
        // Records replaced before the late joiner began are not transferred.
        let version = self.store.version().saturating_sub(beyond);
        let reader = match !is_logged && self.retention.is_by_order() {
            true => TransferReader::Unpinned(ResumePoint::default()),
            false => {
                let mut cursor = self.pins.remove(&node).unwrap_or_else(|| self.store.cursor());
                self.store.cut(&mut cursor, version);
                TransferReader::Pinned(cursor)
            }
        };
        let streams = self.store.offered(most_ended);
        let give = StoreMessage::Give { key, request, stream, streams, version, since };
        Some((give, Some(reader)))
    }
}

/// Whether a request ends before the place at which a store began from a log.
fn is_before((until, ends): &EpochPosition, (epoch, numbers): &EpochPosition) -> bool {
    let ends = |stream: &StreamId| ends.iter().find(|(known, _)| known == stream);
    let mut numbers = numbers.iter();
    let earlier = |(stream, from): &(StreamId, u64)| ends(stream).is_some_and(|it| it.1 < *from);
    until < epoch || until == epoch && numbers.any(earlier)
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
                let LateJoinerState { epoch: began, from, replay, .. } = &**lacking;
                let (replays, requester) = (replay.is_some(), &self.requester);
                write!(
                    f,
                    "lacks, began {began} at {from:?}, now in {epoch} with {version}, {requester:?}, \
                     replays {replays}, logs {:?}",
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
        let waiting = Some(Store::new(StoreRetention::default(), format));
        let lacking = LateJoinerState::new(1, Vec::new(), waiting);
        subgroup_store.stage = StoreStage::Lacks(Box::new(lacking));
        subgroup_store
    }
}
