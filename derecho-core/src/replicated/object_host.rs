//! Objects of a member: the other side of a [`ShardMachine`](super::shard_machine::ShardMachine),
//! outside of all its turns.
//!
//! Owns: the objects of this member, its queries, and the queue of events for its application.
//! Never does: wait, or touch the machine; operations on the machine are [`MachineRequest`]s.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::messages::{MachineRequest, ObjectMessage, QueryOutcome};
pub use super::object_replica::{CheckpointPolicy, LogOpener, MessageHeader, ObjectLogStatus};
use super::object_replica::{ObjectFragment, ObjectReplica, ReplicaContext};
use super::query_table::QueryTable;
use super::shard_machine::ShardEvent;
use super::{Object, ObjectPosition};
use crate::ids::{NodeId, Time};
use crate::membership::{ExitReason, View};
use crate::multicast::claim::SenderMemory;
use crate::storage::log_follower::{BUSY_INTERVAL, CLAIM_INTERVAL};
use crate::transfer::request_queue::TransferRequest;
use crate::transfer::requester::HolderRotation;

/// Origin of an object at a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectOrigin {
    /// The object begins in its initial state, because no member had it.
    Initial,
    /// No member had the object, and it begins from the checkpoint that this member has offered.
    Checkpoint,
    /// No member had the object, and it begins with the content of this member's log.
    Logged {
        /// Number of updates that led to it.
        version: u64,
    },
    /// This member had kept the object since an earlier seat in the shard.
    Retained,
    /// Another member has transferred the object.
    Transferred {
        /// The other member.
        from: NodeId,
        /// Length of the object in bytes.
        bytes: usize,
    },
}

/// Event for the application, in order of occurrence.
#[derive(Debug)]
pub enum ApplicationEvent {
    /// A view was installed.
    View {
        /// The view.
        view: View,
        /// Members that were not in the previous view.
        joined: Vec<NodeId>,
        /// Members of the previous view that are gone.
        departed: Vec<NodeId>,
    },
    /// An epoch of a shard has begun.
    Begun {
        /// The shard.
        key: u64,
        /// The readers.
        readers: Vec<NodeId>,
    },
    /// This member has the object of a shard.
    Started {
        /// The shard.
        key: u64,
        /// Origin of the object.
        origin: ObjectOrigin,
    },
    /// An object cannot be decoded, as another member has transferred it or as the own log has it.
    Unreadable {
        /// The shard.
        key: u64,
        /// The member that has transferred the object, or this member.
        from: NodeId,
    },
    /// This member no longer has a seat in a shard.
    Left {
        /// The shard.
        key: u64,
    },
    /// The other members have declared other subgroups than this member.
    Refused,
    /// This member is out of the group.
    Out(ExitReason),
}

/// Creates the object of a shard.
pub type ObjectFactory<O> = Box<dyn FnMut(u64) -> O + Send>;

/// Objects of a member; see the [module](self).
pub struct ObjectHost<O> {
    me: NodeId,
    make: ObjectFactory<O>,
    replicas: BTreeMap<u64, ObjectReplica<O>>,
    sending: BTreeMap<u64, SenderMemory>,
    members: Vec<NodeId>,
    queries: QueryTable,
    rotation: HolderRotation,
    machine_requests: Vec<MachineRequest>,
    events: VecDeque<ApplicationEvent>,
    checkpoints: BTreeMap<u64, Vec<u8>>,
    open_log: LogOpener,
    checkpointing: Option<CheckpointPolicy>,
    /// Time of the next search for awaited logs.
    claim_at: Option<Time>,
    out: Option<ExitReason>,
}

impl<O: Object> ObjectHost<O> {
    /// Creates an object host for a node, without objects.
    pub fn new(me: NodeId, make: ObjectFactory<O>) -> ObjectHost<O> {
        ObjectHost {
            me,
            make,
            replicas: BTreeMap::new(),
            sending: BTreeMap::new(),
            members: Vec::new(),
            queries: QueryTable::default(),
            rotation: HolderRotation::default(),
            machine_requests: Vec::new(),
            events: VecDeque::new(),
            checkpoints: BTreeMap::new(),
            open_log: Box::new(|_| None),
            checkpointing: None,
            claim_at: None,
            out: None,
        }
    }

    /// Sets how logs of logged shards are opened, and how often objects are put into them as
    /// a whole.
    pub fn keep_logs(&mut self, open: LogOpener, checkpointing: Option<CheckpointPolicy>) {
        (self.open_log, self.checkpointing) = (open, checkpointing);
    }

    /// Prepares the updates that logs take next. Returns whether there are any logs. If so, the
    /// caller must advance them if this member is still a member when checked after this call
    /// (I-108).
    pub fn stage(&mut self) -> bool {
        self.replicas.values_mut().for_each(ObjectReplica::stage);
        self.out.is_none() && self.replicas.values().any(ObjectReplica::has_log)
    }

    /// Advances logs as far as possible; needed whenever a log has news. Returns how much was done.
    pub fn advance_logs(&mut self, now: Time) -> usize {
        if self.out.is_some() {
            return 0;
        }
        let again = self.claim_at.is_none_or(|at| at <= now);
        if again {
            self.claim_at = Some(now.after(CLAIM_INTERVAL));
        }
        self.replicas.values_mut().for_each(ObjectReplica::validate_staged_updates);
        self.advance_all_logs(again)
    }

    fn advance_all_logs(&mut self, again: bool) -> usize {
        let (mut done, checkpointing) = (0, self.checkpointing);
        for key in self.replicas.keys().copied().collect::<Vec<u64>>() {
            if let Some((replica, mut context)) = self.replica(key) {
                if again && replica.awaits_logs() {
                    replica.claim_again();
                }
                done += replica.log(checkpointing, &mut context);
            }
        }
        done
    }

    /// Latest time of the next call of [`ObjectHost::advance_logs`].
    pub fn logs_due_at(&self, now: Time) -> Option<Time> {
        if self.replicas.values().any(ObjectReplica::is_logging) {
            return Some(now.after(BUSY_INTERVAL));
        }
        self.claim_at.filter(|_| self.replicas.values().any(ObjectReplica::awaits_logs))
    }

    /// State of a logged object; `None` if this member knows no such object.
    pub fn log_status(&self, key: u64) -> Option<ObjectLogStatus> {
        self.replicas.get(&key)?.log_status()
    }

    /// Number of messages that this member sent since it got its seat in a shard and that were
    /// applied here, and the version of a logged object after the last of them.
    pub fn own_messages(&self, key: u64) -> (u64, u64) {
        self.replicas.get(&key).map(ObjectReplica::own_messages).unwrap_or_default()
    }

    /// Sets the checkpoint from which a shard's object begins, if it begins here. The shard machine
    /// must be told the checkpoint's position.
    pub fn begin_from(&mut self, key: u64, checkpoint: Vec<u8>) {
        self.checkpoints.insert(key, checkpoint);
    }

    /// Takes in the next event of the shard machine.
    pub fn take(&mut self, item: ShardEvent) {
        match item {
            ShardEvent::View { view, joined, departed } => {
                self.members = view.members.iter().map(|member| member.node).collect();
                self.queries.failed(&departed);
                self.events.push_back(ApplicationEvent::View { view, joined, departed });
            }
            ShardEvent::Status { key, status } => {
                let me = self.me;
                let is_logged = status.logs.is_some();
                if is_logged
                    || self.replicas.contains_key(&key)
                    || status.holders.names().contains(&me)
                {
                    let ordered = status.ordered;
                    self.with_replica(key, ordered, |replica, context| {
                        replica.set_status(status, context)
                    });
                }
            }
            ShardEvent::Begun { key, epoch, layout, memory, status, numbers } => {
                let members = layout.members.iter().map(|seat| seat.node).collect();
                let readers = layout.members.iter().filter(|seat| seat.reads);
                let readers: Vec<NodeId> = readers.map(|seat| seat.node).collect();
                let reads = readers.contains(&self.me);
                self.sending.extend(memory.map(|memory| (key, memory)));
                let announced = readers.clone();
                self.events.push_back(ApplicationEvent::Begun { key, readers });
                let ordered = status.ordered;
                self.with_replica(key, ordered, |replica, context| {
                    replica.set_status(status, context);
                    replica.begun(epoch, members, announced, reads, numbers, context);
                });
            }
            ShardEvent::Message { key, from, record } => {
                if let Some((replica, mut context)) = self.replica(key) {
                    replica.message(from, record, &mut context);
                }
            }
            ShardEvent::Left { key } => {
                self.sending.remove(&key);
                if let Some((replica, mut context)) = self.replica(key) {
                    replica.left(&mut context);
                }
                self.events.push_back(ApplicationEvent::Left { key });
            }
            ShardEvent::Direct { from, message, .. } => self.direct_message(from, message),
            ShardEvent::Refused => self.events.push_back(ApplicationEvent::Refused),
            ShardEvent::Out(exit_reason) => {
                // Updates known to be valid go into the log as far as the log accepts them now.
                self.advance_all_logs(false);
                self.out = Some(exit_reason);
                self.sending.clear();
                self.replicas.values_mut().for_each(ObjectReplica::release_log);
                self.queries.out();
                self.events.push_back(ApplicationEvent::Out(exit_reason));
            }
        }
    }

    fn with_replica(
        &mut self,
        key: u64,
        ordered: bool,
        act: impl FnOnce(&mut ObjectReplica<O>, &mut ReplicaContext<'_>),
    ) {
        if !self.replicas.contains_key(&key) {
            let checkpoint = self.checkpoints.remove(&key);
            let replica = ObjectReplica::new(key, (self.make)(key), ordered, checkpoint);
            self.replicas.insert(key, replica);
        }
        if let Some((replica, mut context)) = self.replica(key) {
            act(replica, &mut context);
        }
    }

    fn replica(&mut self, key: u64) -> Option<(&mut ObjectReplica<O>, ReplicaContext<'_>)> {
        let ObjectHost {
            me,
            replicas,
            queries,
            rotation,
            machine_requests: requests,
            events,
            members,
            open_log,
            ..
        } = self;
        let context = ReplicaContext {
            me: *me,
            members,
            queries,
            rotation,
            machine_requests: requests,
            events,
            open_log,
        };
        Some((replicas.get_mut(&key)?, context))
    }

    fn direct_message(&mut self, from: NodeId, message: ObjectMessage) {
        match message {
            // The shard machine handles this message.
            ObjectMessage::Taken(_) => {}
            ObjectMessage::Want { key, epoch, request } => {
                // Other members may learn before this one that it begins.
                let request = TransferRequest { node: from, key, request, wanted: epoch };
                self.with_replica(key, true, |replica, context| replica.wanted(request, context));
            }
            ObjectMessage::Fragment { key, request, position, object_version, last, bytes } => {
                if let Some((replica, mut context)) = self.replica(key) {
                    let bytes = bytes.as_slice();
                    let part = ObjectFragment { request, position, object_version, last, bytes };
                    replica.part(from, part, &mut context);
                }
            }
            ObjectMessage::Durable { key, version } => {
                if let Some((replica, _)) = self.replica(key) {
                    replica.note_durable(from, version);
                }
            }
            ObjectMessage::Say { key, bytes } => {
                if let Some((replica, _)) = self.replica(key)
                    && replica.is_seated()
                {
                    replica.object.hear(from, &bytes);
                }
            }
            ObjectMessage::Ask { key, query, bytes } => {
                let replica = self.replicas.get(&key).filter(|it| it.position().is_some());
                let answer = replica.map(|replica| replica.object.answer(from, &bytes));
                let outcome = answer.map_or(QueryOutcome::NoObject, QueryOutcome::Answer);
                match from == self.me {
                    true => self.queries.replied(from, query, outcome),
                    false => self.machine_requests.push(MachineRequest::Direct(
                        from,
                        ObjectMessage::Reply { query, outcome },
                    )),
                }
            }
            ObjectMessage::Reply { query, outcome } => self.queries.replied(from, query, outcome),
        }
    }

    /// Takes the requests for the shard machine, in order.
    pub fn take_machine_requests(&mut self) -> Vec<MachineRequest> {
        core::mem::take(&mut self.machine_requests)
    }

    /// Takes the next event for the application.
    pub fn next_event(&mut self) -> Option<ApplicationEvent> {
        self.events.pop_front()
    }

    /// Returns the object of a shard and its position, if this member has it.
    pub fn object(&self, key: u64) -> Option<(ObjectPosition, &O)> {
        let replica = self.replicas.get(&key)?;
        Some((replica.position()?, &replica.object))
    }

    /// Returns the encoded object and its position in the order.
    pub fn checkpoint(&self, key: u64) -> Option<(ObjectPosition, Vec<u8>)> {
        self.object(key).map(|(position, object)| (position, object.snapshot()))
    }

    /// Describes the state of a shard's object for debugging.
    pub fn describe(&self, key: u64) -> Option<alloc::string::String> {
        self.replicas.get(&key).map(ObjectReplica::describe)
    }

    /// Whether this member reads in a shard.
    pub fn reads(&self, key: u64) -> bool {
        self.replicas.get(&key).is_some_and(ObjectReplica::is_seated)
    }

    /// Returns the memory that this member sends from in a shard.
    pub fn sending(&self, key: u64) -> Option<&SenderMemory> {
        self.sending.get(&key)
    }

    /// Members of the newest view that the application may know.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// Reason why this member is out of the group, if it is.
    pub fn exit_reason(&self) -> Option<ExitReason> {
        self.out
    }

    /// Returns this member's queries.
    pub fn queries(&mut self) -> &mut QueryTable {
        &mut self.queries
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::group::registry::{Layout, LayoutMember};
    use crate::ids::RegionId;
    use crate::multicast::subgroup::DeliveryGuarantee;
    use crate::replicated::shard::ShardStatus;
    use crate::transfer::holders::Holders;

    /// An object whose only readable state is one byte 1.
    struct PickyObject;

    impl Object for PickyObject {
        fn apply(&mut self, _: NodeId, _: &[u8]) -> Vec<u8> {
            Vec::new()
        }

        fn answer(&self, _: NodeId, _: &[u8]) -> Vec<u8> {
            Vec::new()
        }

        fn hear(&mut self, _: NodeId, _: &[u8]) {}

        fn snapshot(&self) -> Vec<u8> {
            Vec::new()
        }

        fn restore(&mut self, bytes: &[u8]) -> bool {
            bytes == [1]
        }

        fn reset(&mut self) {}
    }

    const ME: NodeId = NodeId(1);
    const KEY: u64 = 7;

    /// Status of a shard of which two other members hold the object.
    fn status() -> ShardStatus {
        let mut holders = Holders::default();
        holders.settle(&[NodeId(2), NodeId(3)], |_| Some(NodeId(2)));
        holders.holds(NodeId(3), holders.beginning());
        ShardStatus { ordered: true, holders, ..ShardStatus::default() }
    }

    fn begin(host: &mut ObjectHost<PickyObject>, epoch: u64) {
        let seat = |id: u128| {
            let (node, lines) = (NodeId(id), RegionId(id as u64));
            LayoutMember { node, reads: true, sends: None, lines }
        };
        let layout =
            Layout { level: DeliveryGuarantee::Atomic, members: [1, 2, 3].map(seat).into() };
        let (memory, numbers) = (None, BTreeMap::new());
        host.take(ShardEvent::Begun { key: KEY, epoch, layout, memory, status: status(), numbers });
    }

    /// Returns the holders that were asked, with the numbers of the requests.
    fn asked(host: &mut ObjectHost<PickyObject>) -> Vec<(NodeId, u64)> {
        let requests = host.take_machine_requests().into_iter();
        let asked = requests.filter_map(|request| match request {
            MachineRequest::Direct(to, ObjectMessage::Want { request, .. }) => Some((to, request)),
            _ => None,
        });
        asked.collect()
    }

    fn answer(host: &mut ObjectHost<PickyObject>, (from, request): (NodeId, u64), byte: u8) {
        let position =
            ObjectPosition { beginning: status().holders.beginning(), epoch: 4, applied: 0 };
        let (object_version, last) = (Default::default(), true);
        let bytes = alloc::vec![byte];
        let message =
            ObjectMessage::Fragment { key: KEY, request, position, object_version, last, bytes };
        host.take(ShardEvent::Direct { from, message, length: 1 });
    }

    fn unreadable(host: &mut ObjectHost<PickyObject>) -> Vec<NodeId> {
        let events = core::iter::from_fn(|| host.next_event());
        let unreadable = events.filter_map(|event| match event {
            ApplicationEvent::Unreadable { from, .. } => Some(from),
            _ => None,
        });
        unreadable.collect()
    }

    #[test]
    fn unreadable_object_is_asked_of_each_other_holder_and_again_in_the_next_epoch() {
        let mut host = ObjectHost::new(ME, Box::new(|_| PickyObject));
        begin(&mut host, 3);
        let [first] = asked(&mut host)[..] else { panic!("one holder is asked") };
        answer(&mut host, first, 0);
        let [second] = asked(&mut host)[..] else { panic!("the other holder is asked") };
        assert!(second.0 != first.0 && second.1 != first.1);
        answer(&mut host, second, 0);
        host.take(ShardEvent::Status { key: KEY, status: status() });
        assert_eq!(asked(&mut host), [], "both were asked in this epoch");
        assert_eq!(unreadable(&mut host), [first.0, second.0]);
        assert!(host.object(KEY).is_none());

        begin(&mut host, 4);
        let [third] = asked(&mut host)[..] else { panic!("a holder is asked again") };
        answer(&mut host, first, 1);
        assert!(host.object(KEY).is_none(), "the request is over");
        answer(&mut host, third, 1);
        assert!(host.object(KEY).is_some());
        assert_eq!((unreadable(&mut host), asked(&mut host)), (Vec::new(), Vec::new()));
    }
}
