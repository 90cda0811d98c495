//! Log of a replica's object: its claim, its beginning, its progress, and its status.
//!
//! Owns: the object's version, its log follower, and the known state of the other logs. Never does:
//! put anything into a log; the log follower does.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::messages::{DirectoryChange, ObjectMessage};
use super::super::object_host::{ApplicationEvent, ObjectOrigin};
use super::super::object_log_input::{
    AppliedUpdate, ObjectLogInput, ObjectState, UpdateBytes, state,
};
use super::super::shard::ShardStatus;
use super::super::{Object, ObjectPosition, ObjectVersion, UpdateId};
use super::{ObjectReplica, ReplicaContext, TransferRequester, WaitingEvent};
use crate::fault::{Fault, planted};
use crate::group::report::StreamId;
use crate::ids::{NodeId, RegionId};
use crate::log::{EpochId, LogEntry, LogId, OwnedRecord, RecordKind};
use crate::multicast::inbox::Record;
use crate::storage::durability_tracker::DurabilityTracker;
use crate::storage::log_election::ElectionState;
use crate::storage::log_follower::{LogEvent, LogFollower};
use crate::storage::log_port::{LogPort, LogPortCondition, LogTask};
use crate::storage::log_tasks::LogContent;

/// Opens the log of a shard; `None` if this member keeps no logs.
pub type LogOpener = Box<dyn FnMut(u64) -> Option<Box<dyn LogPort>> + Send>;

/// Condition for putting an object into its log as a whole, in place of all updates that led to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointPolicy {
    /// Number of updates since the last checkpoint.
    pub updates: u64,
    /// Bytes of updates since the last checkpoint, as they are counted in the log.
    pub bytes: u64,
}

/// State of a logged object, as far as it is known here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectLogStatus {
    /// Newest version here, if this member has the object.
    pub object_version: Option<ObjectVersion>,
    /// Last version that is durable in all complete logs.
    pub durable: u64,
    /// Last version that is durable in the own log.
    pub own_durable: u64,
    /// Number of complete logs.
    pub logs: usize,
    /// Own log, and its condition.
    pub own_log: Option<(LogId, LogPortCondition)>,
    /// State of the beginning, with the logs that it waits for.
    pub awaited: Option<ElectionState>,
    /// Descriptions of the logs that it waits for.
    pub awaited_logs: Vec<String>,
}

/// Log of an object; see the [module](self).
#[derive(Default)]
pub(super) struct ObjectLog {
    pub(super) object_version: ObjectVersion,
    log_follower: Option<LogFollower<ObjectLogInput>>,
    /// Updates applied before the log was told to follow.
    input: Option<(ObjectLogInput, u64)>,
    durability: DurabilityTracker,
    /// Whether the log was opened here, so that it may have content.
    opened: bool,
    /// Whether the log accepts nothing more, and this was announced.
    over: bool,
    /// Version of the last checkpoint, and bytes since then.
    checkpointed: u64,
    bytes: u64,
    /// Number of own messages applied since this member got its seat, and the version of
    /// the object after the last of them.
    own_messages: (u64, u64),
}

impl ObjectLog {
    /// Whether the log follows or is over, so that this member may announce that it holds the
    /// object (I-111).
    fn is_settled(&self) -> bool {
        self.log_follower.as_ref().is_none_or(LogFollower::is_settled)
    }

    fn applied(&mut self, applied: AppliedUpdate) {
        if let Some(log_follower) = &mut self.log_follower
            && let Some(log_input) = log_follower.input_mut()
        {
            let bytes = log_input.push(applied).unwrap_or(0);
            log_follower.grows(bytes);
            self.bytes += bytes;
        } else if let Some((log_input, _)) = &mut self.input {
            self.bytes += log_input.push(applied).unwrap_or(0);
        }
    }
}

impl<O: Object> ObjectReplica<O> {
    /// Advances the log as far as possible. Returns how much was done.
    pub(in crate::replicated) fn log(
        &mut self,
        checkpointing: Option<CheckpointPolicy>,
        context: &mut ReplicaContext<'_>,
    ) -> usize {
        if self.status.logs.is_none() {
            return 0;
        }
        self.checkpoint(checkpointing);
        let mut done = 0;
        while let Some(log_follower) = &mut self.logging.log_follower {
            let (some, news) = log_follower.turn(());
            done += some;
            let Some(news) = news else { break };
            match news {
                LogEvent::Claimed(vacancy, mut claim) => {
                    // The member that began earliest has received most; a member that is not
                    // present has received nothing.
                    claim.began = match self.waiting.front() {
                        Some(WaitingEvent::Begun { epoch, .. }) => *epoch,
                        _ => u64::MAX,
                    };
                    context.submit(DirectoryChange::Claims { key: self.key, vacancy, claim });
                }
                LogEvent::Content(content) => self.restore_from_log(&content, context),
                // An object replica never asks for a store.
                LogEvent::Moved | LogEvent::Loaded(_) => {
                    if log_follower.is_settled() {
                        log_follower.input_mut().into_iter().for_each(ObjectLogInput::forget_state);
                    }
                }
                LogEvent::Over => self.end_log(context),
            }
            self.look_at_logs(context);
            self.tell_holding(context);
        }
        // The log may have been busy above, and this may be the last call until the next update.
        self.checkpoint(checkpointing);
        done + self.spread(context)
    }

    /// Whether it keeps a log.
    pub(in crate::replicated) fn has_log(&self) -> bool {
        self.logging.log_follower.is_some()
    }

    /// Releases the senders' memory of the updates that the log takes next.
    pub(in crate::replicated) fn stage(&mut self) {
        let log_input = self.logging.log_follower.as_mut().and_then(LogFollower::input_mut);
        log_input.into_iter().for_each(ObjectLogInput::stage);
    }

    /// Confirms that this member was still a member after [`ObjectReplica::stage`].
    pub(in crate::replicated) fn validate_staged_updates(&mut self) {
        let log_input = self.logging.log_follower.as_mut().and_then(LogFollower::input_mut);
        log_input.into_iter().for_each(ObjectLogInput::validate_staged);
    }

    /// Whether the log is busy.
    pub(in crate::replicated) fn is_logging(&self) -> bool {
        self.logging.log_follower.as_ref().is_some_and(LogFollower::is_busy)
    }

    /// Whether it waits for logs that are elsewhere, so that they must be searched for again.
    pub(in crate::replicated) fn awaits_logs(&self) -> bool {
        matches!(self.status.awaited, Some(ElectionState::Waits(_))) && self.has_log()
    }

    /// Searches for awaited logs again.
    pub(in crate::replicated) fn claim_again(&mut self) {
        let vacancy = self.status.holders.vacancies();
        let log_follower = self.logging.log_follower.as_mut();
        log_follower.into_iter().for_each(|follower| follower.claim(vacancy, true));
    }

    /// Gives the log up, because this member is out and the log belongs to others from now on.
    pub(in crate::replicated) fn release_log(&mut self) {
        (self.logging.log_follower, self.logging.input) = (None, None);
    }

    pub(in crate::replicated) fn log_status(&self) -> Option<ObjectLogStatus> {
        let ShardStatus { logs, holders, awaited, .. } = &self.status;
        let logs = logs.as_ref()?;
        let log_follower = self.logging.log_follower.as_ref();
        Some(ObjectLogStatus {
            object_version: self.position().map(|_| self.logging.object_version),
            durable: self.logging.durability.everywhere(),
            own_durable: log_follower.map_or(0, LogFollower::durable),
            logs: logs.complete(holders).count(),
            own_log: log_follower.map(|follower| (follower.log(), follower.condition())),
            awaited_logs: awaited.as_ref().map_or(Vec::new(), |awaited| logs.described(awaited)),
            awaited: awaited.clone(),
        })
    }

    /// Describes the state of its log for debugging.
    pub(super) fn describe_log(&self) -> String {
        let Some(logs) = &self.status.logs else { return String::new() };
        let ObjectLog { object_version, log_follower, input: log_input, own_messages, .. } =
            &self.logging;
        let complete: Vec<_> = logs.complete(&self.status.holders).collect();
        let (awaited, waits) = (&self.status.awaited, log_input.is_some());
        format!(
            "; logged, {object_version:?}, own {own_messages:?}, waits {waits} for {log_follower:?}, complete {complete:?}, \
             awaited {awaited:?}"
        )
    }

    /// Number of own messages applied since this member got its seat, and the version of
    /// the object after the last of them.
    pub(in crate::replicated) fn own_messages(&self) -> (u64, u64) {
        self.logging.own_messages
    }

    /// Whether delivered messages are logged.
    pub(super) fn is_logged(&self) -> bool {
        self.status.logs.is_some()
    }

    /// Version after a query, if the object is logged.
    pub(super) fn version(&self) -> Option<u64> {
        self.is_logged().then_some(self.logging.object_version.version)
    }

    /// Discards the object: later messages belong to another one.
    pub(super) fn lose(&mut self) {
        self.has = None;
        self.requester = TransferRequester::default();
        if self.is_logged() {
            let logging = &mut self.logging;
            (logging.input, logging.object_version) = (None, ObjectVersion::default());
            logging.log_follower = logging.log_follower.take().map(LogFollower::begin_again);
        }
    }

    /// Resets the count of own messages, because this member has left and other members count its
    /// messages from 0 when it returns.
    pub(super) fn reset_own_count(&mut self) {
        self.logging.own_messages = (0, 0);
    }

    /// Sets the members of the epoch that begins.
    pub(super) fn meet(&mut self, members: &[NodeId], me: NodeId) {
        // Members stay as long as their nodes do, so one region serves for all.
        let others = members.iter().filter(|node| **node != me);
        self.logging.durability.begun(others.map(|node| (*node, RegionId(0))));
    }

    /// Notes the last version that a member reports as durable in its log.
    pub(in crate::replicated) fn note_durable(&mut self, by: NodeId, version: u64) {
        self.logging.durability.note_reported(by, version);
    }

    /// Takes in the state of this shard's logs according to the directory, and decides what follows
    /// for the own log.
    pub(super) fn look_at_logs(&mut self, context: &mut ReplicaContext<'_>) {
        let (named, is_older) = (self.is_named(context.me), self.is_older());
        let ShardStatus { holders, logs: Some(logs), wanted, has_log, .. } = &self.status else {
            return;
        };
        let nobody = holders.names().is_empty();
        let matters =
            named || self.seated || *wanted || nobody && (*has_log || self.logging.opened);
        if !matters {
            // A member without a part in the shard has no claim to keep up.
            self.logging.log_follower = None;
            return;
        }
        if self.logging.log_follower.is_none() && !self.logging.over {
            self.logging.log_follower = (context.open_log)(self.key).map(LogFollower::new);
            self.logging.opened = self.logging.log_follower.is_some();
        }
        let Some(log_follower) = &mut self.logging.log_follower else { return };
        let vacancy = holders.vacancies();
        if log_follower.may_claim(vacancy) && !named {
            log_follower.claim(vacancy, nobody);
        }
        if named && is_older {
            let kept = self.waiting.iter();
            log_follower.load(|| LogTask::Read(first_of(kept)));
        }
        if self.has.is_some()
            && log_follower.awaits_input()
            && logs.claimed(context.me).is_some()
            && let Some((log_input, begin)) = self.logging.input.take()
        {
            let others = logs.complete(holders).filter(|(node, _)| *node != context.me);
            let (others, waiting) = (others.map(|(_, log)| log).collect(), log_input.bytes());
            log_follower.follow(log_input, begin, logs.base(), logs.era(), others);
            log_follower.grows(waiting);
        }
        self.note_epoch();
    }

    /// Notes the epoch of later messages, and the logs that keep it.
    pub(super) fn note_epoch(&mut self) {
        let Some(logs) = &self.status.logs else { return };
        let epoch = EpochId { view: logs.era(), sequence: self.cursor.0 };
        let version = self.logging.object_version.version;
        if self.has.is_some()
            && self.cursor.0 > 0
            && let Some(log_follower) = &mut self.logging.log_follower
        {
            let kept_logs = logs.members_with_logs().map(|(_, log)| log);
            let mut epoch_logs: Vec<LogId> = kept_logs.collect();
            // A member that is about to leave is no longer named by the others, and its log is
            // complete so far.
            if !epoch_logs.contains(&log_follower.log()) {
                epoch_logs.push(log_follower.log());
            }
            log_follower.change_epoch(version, epoch, epoch_logs);
        }
    }

    /// Announces that the log accepts nothing more.
    fn end_log(&mut self, context: &mut ReplicaContext<'_>) {
        self.logging.over = true;
        context.submit(DirectoryChange::Disclaims { key: self.key, holds: self.has.is_some() });
    }

    /// Takes in the object as restored from the log, up to the place where this member began.
    fn restore_from_log(&mut self, content: &LogContent, context: &mut ReplicaContext<'_>) {
        let is_read = match &content.state {
            Some(state) => self.object.restore(state.record().entry.payload),
            None => {
                self.object.reset();
                true
            }
        };
        if !is_read {
            context
                .events
                .push_back(ApplicationEvent::Unreadable { key: self.key, from: context.me });
            self.logging.log_follower = None;
            return self.end_log(context);
        }
        let of = |record: &OwnedRecord| {
            let record = record.record();
            let LogEntry { source_time, writer, writer_sequence: sequence, .. } = record.entry;
            let last_update = Some(UpdateId { writer, sequence });
            ObjectVersion { version: record.version.0, time: source_time.0, last_update }
        };
        let mut object_version = content.state.as_ref().map(of).unwrap_or_default();
        self.logging.checkpointed = object_version.version;
        for message in &content.messages {
            let entry = message.record().entry;
            if entry.kind == RecordKind::Sample {
                self.object.apply(entry.writer, entry.payload);
            }
            object_version = of(message);
        }
        self.logging.object_version = object_version;
        self.has = Some(self.position_after(object_version.last_update));
        let begin = object_version.version;
        if let (Some(log_follower), Some(logs)) =
            (&mut self.logging.log_follower, &self.status.logs)
        {
            let log_input = ObjectLogInput::new(begin, None);
            log_follower.follow(log_input, begin, content.tail, logs.era(), Vec::new());
        }
        let start = if begin == 0 {
            ObjectOrigin::Initial
        } else {
            ObjectOrigin::Logged { version: begin }
        };
        self.started(start, context);
    }

    /// Returns the position of an object that begins from the log with this last update. The update
    /// is among the deliveries that this member has kept if the log has the object only as it was
    /// later than where this member began (I-339).
    fn position_after(&self, last_update: Option<UpdateId>) -> ObjectPosition {
        let mut position = self.first_position();
        for kept in &self.waiting {
            match kept {
                WaitingEvent::Begun { epoch, .. } => {
                    (position.epoch, position.applied) = (*epoch, 0);
                }
                WaitingEvent::Message(from, record) => {
                    position.applied += 1;
                    if last_update == Some(UpdateId::new(*from, record.number()))
                        && !planted(Fault::RecallUncut)
                    {
                        return position;
                    }
                }
            }
        }
        self.first_position()
    }

    /// Notes that the object came from another member, in this version.
    pub(super) fn received(&mut self, object_version: ObjectVersion, bytes: Vec<u8>) {
        if self.is_logged() {
            self.logging.object_version = object_version;
            self.logging.checkpointed = object_version.version;
            let log_input = ObjectLogInput::new(
                object_version.version,
                Some(ObjectState { object_version, bytes }),
            );
            self.logging.input = Some((log_input, object_version.version));
        }
    }

    /// Notes an update that was just applied to the object.
    pub(super) fn note(
        &mut self,
        from: StreamId,
        record: Record,
        update: Option<Vec<u8>>,
        time: u64,
        me: NodeId,
    ) {
        if !self.is_logged() {
            return;
        }
        let logging = &mut self.logging;
        let position = logging.object_version.version;
        logging.object_version = ObjectVersion {
            version: position + 1,
            time: logging.object_version.time.max(time),
            last_update: Some(UpdateId::new(from, record.number())),
        };
        if from.node == me {
            logging.own_messages = (record.number() + 1, position + 1);
        }
        let (time, number, is_sound) =
            (logging.object_version.time, record.number(), update.is_some());
        let update = UpdateBytes { bytes: update.unwrap_or_default(), holds: Some(record) };
        logging.applied(AppliedUpdate { position, time, from, number, is_sound, update });
    }

    /// Notes an update that the object contained when it arrived.
    pub(super) fn had(&mut self, from: StreamId, number: u64, me: NodeId) {
        if from.node == me {
            self.logging.own_messages = (number + 1, self.logging.object_version.version);
        }
    }

    /// Puts the object as a whole into the log, if it is time.
    fn checkpoint(&mut self, checkpointing: Option<CheckpointPolicy>) {
        let Some(CheckpointPolicy { updates, bytes }) = checkpointing else { return };
        let Some(logs) = self.status.logs.as_ref().filter(|_| self.has.is_some()) else { return };
        let ObjectLog { object_version, log_follower, checkpointed, bytes: since, .. } =
            &mut self.logging;
        let Some(log_follower) = log_follower else { return };
        let new = object_version.version - (*checkpointed).min(object_version.version);
        if new == 0
            || new < updates && *since < bytes
            || !log_follower.takes_checkpoint(object_version.version)
        {
            return;
        }
        let epoch = EpochId { view: logs.era(), sequence: self.cursor.0 };
        log_follower.put_checkpoint(
            object_version.version,
            state(*object_version, epoch, &self.object.snapshot()),
        );
        (*checkpointed, *since) = (object_version.version, 0);
    }

    /// Reports how far the own log is durable, and computes what is durable everywhere. Returns
    /// the amount of work done.
    fn spread(&mut self, context: &mut ReplicaContext<'_>) -> usize {
        let Some(logs) = &self.status.logs else { return 0 };
        let ObjectLog { durability, log_follower, .. } = &mut self.logging;
        let own_durable = log_follower.as_ref().map_or(0, LogFollower::durable);
        for node in durability.unannounced(own_durable) {
            context.direct(node, ObjectMessage::Durable { key: self.key, version: own_durable });
            durability.note_announced(node, own_durable);
        }
        let complete_members = logs.complete(&self.status.holders).map(|(node, _)| node);
        usize::from(durability.settle(context.me, own_durable, complete_members))
    }

    /// Announces that this member has the object, if that is not known and the log is complete.
    pub(super) fn tell_holding(&mut self, context: &mut ReplicaContext<'_>) {
        let Some(has) = self.has.filter(|_| self.seated && self.ordered) else { return };
        let holders = &self.status.holders;
        let is_known = holders.names().contains(&context.me);
        if !is_known && self.logging.is_settled() && self.requester.announces_holding(holders) {
            context.submit(DirectoryChange::Holds { key: self.key, beginning: has.beginning });
        }
    }
}

/// Returns the number of the first waiting message of each stream.
fn first_of<'a>(kept: impl Iterator<Item = &'a WaitingEvent>) -> BTreeMap<StreamId, u64> {
    let mut first = BTreeMap::new();
    for kept in kept {
        let WaitingEvent::Begun { numbers, .. } = kept else { continue };
        for (stream, number) in numbers {
            first.entry(*stream).or_insert(*number);
        }
    }
    if planted(Fault::RecallUncut) { BTreeMap::new() } else { first }
}
