//! One object of one member: applied in order, transferred to members that lack it, and received
//! from a holder.
//!
//! Owns: the object, its position, and the messages delivered before it arrived. Never does: decide
//! which members hold an object; the shard directory does.
//!
//! ```text
//!   begun ──> lacks it: keeps messages, asks a holder ──parts──> restores, skips, applies
//!                │ named to begin it                                         │
//!                '──> resets (or loads its checkpoint or log), applies all ──┴──> applies new ones
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use self::logging::ObjectLog;
pub use self::logging::{CheckpointPolicy, LogOpener, ObjectLogStatus};
use super::messages::{DirectoryChange, MachineRequest, ObjectMessage, QueryOutcome};
use super::object_host::{ApplicationEvent, ObjectOrigin};
use super::query_table::QueryTable;
use super::shard::ShardStatus;
use super::{Object, ObjectPosition, ObjectVersion};
use crate::group::report::StreamId;
use crate::ids::NodeId;
use crate::multicast::inbox::Record;
use crate::transfer::CHUNK;
use crate::transfer::request_queue::{RequestQueue, TransferRequest};
use crate::transfer::requester::{HolderRotation, TransferRequester};

mod logging;

/// Flags at the beginning of a message: whether its sender wants answers, and whether it carries
/// the time of sending.
const QUERY: u8 = 1;
const TIMED: u8 = 2;

/// Header before the payload of an update or a query.
///
/// ```text
///   kind u8 | number of the query u64, if it is one | time u64, if it is logged
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader {
    bytes: [u8; 17],
    length: usize,
}

impl MessageHeader {
    /// Creates the header of an update or of the query with this number; if the shard is logged,
    /// with the time of sending.
    pub fn new(query: Option<u64>, time: Option<u64>) -> MessageHeader {
        let kind = if query.is_some() { QUERY } else { 0 } | if time.is_some() { TIMED } else { 0 };
        let mut head = MessageHeader { bytes: [kind; 17], length: 1 };
        for word in [query, time].into_iter().flatten() {
            head.bytes[head.length..head.length + 8].copy_from_slice(&word.to_le_bytes());
            head.length += 8;
        }
        head
    }

    /// Encoded header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Content of a message.
struct DecodedMessage<'a> {
    query: Option<u64>,
    time: u64,
    payload: &'a [u8],
}

fn split(message: &[u8]) -> Option<DecodedMessage<'_>> {
    let (&kind, mut rest) = message.split_first()?;
    if kind & !(QUERY | TIMED) != 0 {
        return None;
    }
    let mut word = |flag: u8| -> Option<Option<u64>> {
        if kind & flag == 0 {
            return Some(None);
        }
        let (word, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        Some(Some(u64::from_le_bytes(*word)))
    };
    let (query, time) = (word(QUERY)?, word(TIMED)?);
    Some(DecodedMessage { query, time: time.unwrap_or(0), payload: rest })
}

/// Event of a reader that lacks the object.
enum WaitingEvent {
    Begun { epoch: u64, readers: Vec<NodeId>, numbers: BTreeMap<StreamId, u64> },
    Message(StreamId, Record),
}

/// Part of an object that arrived in a direct message.
pub(super) struct ObjectFragment<'a> {
    pub(super) request: u64,
    pub(super) position: ObjectPosition,
    pub(super) object_version: ObjectVersion,
    /// Whether this is the last part.
    pub(super) last: bool,
    pub(super) bytes: &'a [u8],
}

/// Parts of the object host that a replica needs.
pub(super) struct ReplicaContext<'a> {
    pub(super) me: NodeId,
    pub(super) members: &'a [NodeId],
    pub(super) queries: &'a mut QueryTable,
    pub(super) rotation: &'a mut HolderRotation,
    pub(super) machine_requests: &'a mut Vec<MachineRequest>,
    pub(super) events: &'a mut VecDeque<ApplicationEvent>,
    pub(super) open_log: &'a mut LogOpener,
}

/// One object of one member; see the [module](self).
pub(super) struct ObjectReplica<O> {
    key: u64,
    pub(super) object: O,
    /// Whether messages are ordered, so that there is an object that can be transferred.
    ordered: bool,
    /// Position of the object; `None` if this member lacks it.
    has: Option<ObjectPosition>,
    /// Epoch and number of messages passed so far; nothing in `waiting` was passed.
    cursor: (u64, u64),
    readers: Vec<NodeId>,
    seated: bool,
    waiting: VecDeque<WaitingEvent>,
    /// Beginning of a logged object to which `waiting` belongs, and the members that may begin it,
    /// until the first epoch is known in which one of them reads (I-338).
    origin: (u128, Vec<NodeId>),
    status: ShardStatus,
    /// Requests to holders, with the bytes received so far, and announcements of this member.
    requester: TransferRequester<Vec<u8>>,
    /// Holders whose objects could not be decoded in this epoch.
    unreadable: Vec<NodeId>,
    /// Requests of other members, which state the epochs in which these began to read.
    request_queue: RequestQueue<u64>,
    checkpoint: Option<Vec<u8>>,
    logging: ObjectLog,
}

impl<O: Object> ObjectReplica<O> {
    pub(super) fn new(key: u64, object: O, ordered: bool, checkpoint: Option<Vec<u8>>) -> Self {
        ObjectReplica {
            key,
            object,
            ordered,
            has: None,
            cursor: (0, 0),
            readers: Vec::new(),
            seated: false,
            waiting: VecDeque::new(),
            origin: (0, Vec::new()),
            status: ShardStatus::default(),
            requester: TransferRequester::default(),
            unreadable: Vec::new(),
            request_queue: RequestQueue::default(),
            checkpoint,
            logging: ObjectLog::default(),
        }
    }

    /// Returns the position of the object, if this member has a seat and the object.
    pub(super) fn position(&self) -> Option<ObjectPosition> {
        self.has.filter(|_| self.seated)
    }

    /// Whether this member has a seat as a reader.
    pub(super) fn is_seated(&self) -> bool {
        self.seated
    }

    pub(super) fn describe(&self) -> alloc::string::String {
        let (kept, log) = (self.waiting.len(), self.describe_log());
        let ObjectReplica { has, cursor, seated, requester, request_queue, .. } = self;
        alloc::format!(
            "has {has:?}, passed {cursor:?}, seated {seated}, kept {kept}, {requester:?}, asked by {request_queue:?}{log}"
        )
    }

    /// Takes in the state of the shard according to the directory.
    pub(super) fn set_status(&mut self, status: ShardStatus, context: &mut ReplicaContext<'_>) {
        self.status = status;
        if !self.ordered {
            return;
        }
        self.note_origin();
        self.drop_before_origin(context);
        let is_older = self.is_older();
        let named = self.is_named(context.me);
        if is_older && named && !self.is_logged() {
            self.begin_anew(context);
        } else if self.has.is_some() && (is_older || !(named || self.seated)) {
            // Without a seat or a name in the directory, no member asks it for the object any more.
            self.lose();
        }
        self.look_at_logs(context);
        self.pursue(context);
    }

    /// Whether the directory names this member as a holder.
    fn is_named(&self, me: NodeId) -> bool {
        self.status.holders.names().contains(&me)
    }

    /// Whether this member lacks the object of the present beginning.
    fn is_older(&self) -> bool {
        self.has.is_none_or(|has| has.beginning < self.status.holders.beginning())
    }

    /// Position at which the object of the present beginning begins.
    fn first_position(&self) -> ObjectPosition {
        ObjectPosition { beginning: self.status.holders.beginning(), epoch: 0, applied: 0 }
    }

    fn begin_anew(&mut self, context: &mut ReplicaContext<'_>) {
        let restored = self.checkpoint.take().is_some_and(|bytes| self.object.restore(&bytes));
        if !restored {
            self.object.reset();
        }
        let start = if restored { ObjectOrigin::Checkpoint } else { ObjectOrigin::Initial };
        self.has = Some(self.first_position());
        self.started(start, context);
    }

    fn started(&mut self, start: ObjectOrigin, context: &mut ReplicaContext<'_>) {
        self.requester.cancel();
        context.events.push_back(ApplicationEvent::Started { key: self.key, origin: start });
        for kept in core::mem::take(&mut self.waiting) {
            self.pass(kept, context);
        }
        self.serve(context);
    }

    /// Begins an epoch in which this member may or may not read.
    pub(super) fn begun(
        &mut self,
        epoch: u64,
        members: Vec<NodeId>,
        readers: Vec<NodeId>,
        reads: bool,
        numbers: BTreeMap<StreamId, u64>,
        context: &mut ReplicaContext<'_>,
    ) {
        let me = context.me;
        let comes = reads && !core::mem::replace(&mut self.seated, reads);
        self.meet(&members, me);
        if !reads {
            self.requester.cancel();
            self.lose();
            self.give_up_kept(context);
            return self.look_at_logs(context);
        }
        if comes && self.ordered && !self.is_named(me) {
            self.lose();
        }
        if comes && !self.ordered {
            self.has = Some(ObjectPosition::default());
        }
        if comes && self.has.is_some() && self.ordered && self.cursor.0 > 0 {
            context.events.push_back(ApplicationEvent::Started {
                key: self.key,
                origin: ObjectOrigin::Retained,
            });
        }
        self.take(WaitingEvent::Begun { epoch, readers, numbers }, context);
        self.drop_before_origin(context);
        self.unreadable.clear();
        self.pursue(context);
    }

    /// Takes in a delivered message.
    pub(super) fn message(
        &mut self,
        from: StreamId,
        record: Record,
        context: &mut ReplicaContext<'_>,
    ) {
        if self.seated {
            self.take(WaitingEvent::Message(from, record), context);
        }
    }

    /// Ends this member's seat in the shard.
    pub(super) fn left(&mut self, context: &mut ReplicaContext<'_>) {
        self.seated = false;
        self.requester.cancel();
        self.give_up_kept(context);
        self.reset_own_count();
        if !self.ordered || !self.is_named(context.me) {
            self.lose();
        }
        context.queries.left(self.key);
        // I-340: this member may have learned of the vacancy when its log still followed.
        self.look_at_logs(context);
    }

    /// Drops the waiting messages because the object did not arrive in time.
    fn give_up_kept(&mut self, context: &mut ReplicaContext<'_>) {
        let all = self.waiting.len();
        self.drop_kept(all, context);
    }

    /// Drops the first waiting events: queries among them get no answer from this member.
    fn drop_kept(&mut self, count: usize, context: &mut ReplicaContext<'_>) {
        for kept in self.waiting.drain(..count) {
            let (from, record) = match kept {
                WaitingEvent::Begun { readers, .. } => {
                    self.readers = readers;
                    continue;
                }
                WaitingEvent::Message(from, record) => (from, record),
            };
            let Some(DecodedMessage { query: Some(query), .. }) = split(record.bytes()) else {
                continue;
            };
            if from.node == context.me {
                context.queries.delivered(query, None, self.readers.clone(), context.members);
            }
            context.reply(from.node, query, QueryOutcome::NoObject);
        }
    }

    /// Notes which members begin a logged object anew: the one that is named first, and for a
    /// member that learns of an earlier beginning all that are named. This member keeps the
    /// deliveries from before until it knows where they began.
    fn note_origin(&mut self) {
        let holders = &self.status.holders;
        if self.is_logged() && self.origin.0 != holders.beginning() {
            let is_late = self.origin.0 == 0;
            let count = if is_late { holders.names().len() } else { 1 };
            self.origin =
                (holders.beginning(), holders.names().iter().take(count).copied().collect());
        }
    }

    /// I-338: drops the deliveries from before the epoch with which the object begins anew.
    fn drop_before_origin(&mut self, context: &mut ReplicaContext<'_>) {
        let (mut reads, mut start) = (false, None);
        for (index, kept) in self.waiting.iter().enumerate() {
            let WaitingEvent::Begun { readers, .. } = kept else { continue };
            let read = reads;
            reads = readers.iter().any(|reader| self.origin.1.contains(reader));
            if reads && !read {
                start = Some(index);
            }
        }
        // A member that does not read yet begins in a later epoch.
        let Some(start) = start.filter(|_| reads) else { return };
        self.origin.1 = Vec::new();
        self.drop_kept(start, context);
    }

    fn take(&mut self, kept: WaitingEvent, context: &mut ReplicaContext<'_>) {
        match self.has {
            Some(_) => self.pass(kept, context),
            None => self.waiting.push_back(kept),
        }
    }

    /// Applies a delivered message, unless the object contains it already.
    fn pass(&mut self, kept: WaitingEvent, context: &mut ReplicaContext<'_>) {
        let Some(has) = &mut self.has else { return };
        let (from, record) = match kept {
            WaitingEvent::Begun { epoch, readers, .. } => {
                (self.cursor, self.readers) = ((epoch, 0), readers);
                if has.epoch < epoch {
                    (has.epoch, has.applied) = (epoch, 0);
                }
                self.note_epoch();
                return self.serve(context);
            }
            WaitingEvent::Message(from, record) => (from, record),
        };
        let is_new = self.cursor >= (has.epoch, has.applied);
        self.cursor.1 += 1;
        // I-330: the applied bytes and the logged ones are the same.
        let mut message = record.bytes().to_vec();
        let Some(DecodedMessage { query, time, payload }) = split(&message) else {
            // No correct member sends this; it counts all the same, as it does at all members.
            has.applied += u64::from(is_new);
            if is_new {
                self.note(from, record, None, 0, context.me);
            }
            return;
        };
        let answer = is_new.then(|| {
            has.applied = self.cursor.1;
            self.object.apply(from.node, payload)
        });
        let head = message.len() - payload.len();
        let update = message.split_off(head);
        match is_new {
            true => self.note(from, record, Some(update), time, context.me),
            false => self.had(from, record.number(), context.me),
        }
        let Some(query) = query else { return };
        if from.node == context.me {
            let version = self.version().filter(|_| is_new);
            context.queries.delivered(query, version, self.readers.clone(), context.members);
        }
        let outcome = answer.map_or(QueryOutcome::Transferred, QueryOutcome::Answer);
        context.reply(from.node, query, outcome);
    }

    /// Takes the next step towards having the object. A holder that still loads the object queues
    /// the request (I-73).
    fn pursue(&mut self, context: &mut ReplicaContext<'_>) {
        if !self.seated || !self.ordered {
            return;
        }
        if self.has.is_some() {
            return self.tell_holding(context);
        }
        let (holders, key) = (&self.status.holders, self.key);
        let Some(&WaitingEvent::Begun { epoch, .. }) = self.waiting.front() else { return };
        self.requester.update(holders);
        if self.requester.awaits_answer(epoch) {
            return;
        }
        if let Some((node, request)) = context.rotation.next(holders, context.me, &self.unreadable)
        {
            self.requester.ask(node, request, epoch);
            context.direct(node, ObjectMessage::Want { key, epoch, request });
        } else if let Some(vacancy) = holders.vacancy()
            && self.requester.announces_lack(vacancy)
        {
            context.submit(DirectoryChange::Lacks { key, vacancy });
        }
    }

    /// Takes in a member's request for the object.
    pub(super) fn wanted(
        &mut self,
        request: TransferRequest<u64>,
        context: &mut ReplicaContext<'_>,
    ) {
        self.request_queue.push(request);
        self.serve(context);
    }

    /// Answers the members that began in an epoch that this member has reached.
    fn serve(&mut self, context: &mut ReplicaContext<'_>) {
        let Some(position) = self.position() else { return };
        self.request_queue.retain(|node| context.members.contains(&node));
        let (mut whole, object_version) = (None, self.logging.object_version);
        let is_due = |it: &TransferRequest<u64>| (it.wanted <= position.epoch).then_some(());
        while let Some((asked, ())) = self.request_queue.take_answered(is_due) {
            let TransferRequest { node, key, request, .. } = asked;
            let mut rest = whole.get_or_insert_with(|| self.object.snapshot()).as_slice();
            let mut last = false;
            while !last {
                let (bytes, after) = rest.split_at(rest.len().min(CHUNK));
                (last, rest) = (after.is_empty(), after);
                let bytes = bytes.to_vec();
                context.direct(
                    node,
                    ObjectMessage::Fragment { key, request, position, object_version, last, bytes },
                );
            }
        }
    }

    /// Takes in a part of the object.
    pub(super) fn part(
        &mut self,
        from: NodeId,
        part: ObjectFragment<'_>,
        context: &mut ReplicaContext<'_>,
    ) {
        let ObjectFragment { request, position, object_version, last, bytes } = part;
        if !self.requester.has_asked(from, request) {
            return;
        }
        let Some(received) = self.requester.received() else { return };
        received.extend_from_slice(bytes);
        if !last {
            return;
        }
        let whole = core::mem::take(received);
        if position.beginning < self.status.holders.beginning() {
            // The object belongs to an earlier beginning; the directory names the holders of this
            // one.
            self.requester.cancel();
            return self.pursue(context);
        }
        if !self.object.restore(&whole) {
            // Other holders may run another version of the program, and in a later epoch this one
            // may have another object.
            context.events.push_back(ApplicationEvent::Unreadable { key: self.key, from });
            self.requester.cancel();
            self.unreadable.push(from);
            return self.pursue(context);
        }
        self.has = Some(position);
        let start = ObjectOrigin::Transferred { from, bytes: whole.len() };
        self.received(object_version, whole);
        self.started(start, context);
        self.look_at_logs(context);
        self.tell_holding(context);
    }
}

impl ReplicaContext<'_> {
    pub(super) fn submit(&mut self, directory_change: DirectoryChange) {
        self.machine_requests.push(MachineRequest::Submit(directory_change));
    }

    pub(super) fn direct(&mut self, to: NodeId, message: ObjectMessage) {
        self.machine_requests.push(MachineRequest::Direct(to, message));
    }

    /// Sends the outcome of a query to the member that asked.
    pub(super) fn reply(&mut self, to: NodeId, query: u64, outcome: QueryOutcome) {
        match to == self.me {
            true => self.queries.replied(to, query, outcome),
            false => self.direct(to, ObjectMessage::Reply { query, outcome }),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn message_head_is_decoded_and_invalid_bytes_are_refused() {
        for (query, time) in [(None, None), (Some(7), None), (None, Some(8)), (Some(7), Some(8))] {
            let head = MessageHeader::new(query, time);
            let message = [head.bytes(), &[1, 2]].concat();
            let read = split(&message).expect("it makes sense");
            assert_eq!((read.query, read.time), (query, time.unwrap_or(0)));
            assert_eq!(read.payload, [1, 2]);
            assert!((0..head.bytes().len()).all(|end| split(&message[..end]).is_none()));
        }
        assert!(split(&[4, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
