//! One membership of a process in a group, from its join until it falls out: an engine, an object
//! host, and the upcall thread.
//!
//! Owns: the exchange between the machine and the object host, and the resulting wake-ups. Never
//! does: hold the engine's lock while an object works, or any lock during an upcall.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use derecho_core::group::membership_service::{HostInterface, JoinMode};
use derecho_core::group::view_log::{DurabilityGate, GatedLogPort};
use derecho_core::group::{Group, GroupConfig, SubgroupRegions};
use derecho_core::ids::NodeId;
use derecho_core::link::{Link, Parker};
use derecho_core::log::LogId;
use derecho_core::membership::ExitReason;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::node::{ACKS, ACKS_WORDS, Node};
use derecho_core::replicated::object_host::{ApplicationEvent, LogOpener, ObjectHost};
use derecho_core::replicated::plan::{Declaration, ShardPlan, key_of_log, log_of, shard_of};
use derecho_core::replicated::shard_directory::ShardDirectory;
use derecho_core::replicated::shard_machine::{ShardEvent, ShardMachine};
use derecho_core::storage::log_port::LogPort;
use derecho_node::logs::{FullDiskPolicy, LogScope, ProcessLogs};
use derecho_node::{Engine, clock};

use crate::builder::{GroupBuilder, LinkConnector, ObjectFactory, ObjectUpcall, ViewUpcall};
use crate::error::{GroupError, Result};
use crate::group::{ObjectEvent, View, ViewChange};
use crate::replicated::{AnyObject, BoxedObject};

/// Maximum number of events given to the object host under one lock, so that readers of objects get
/// their turn.
const BATCH: usize = 64;
/// Interval at which a thread that waits for a condition outside of the object host checks again.
const LOOK: Duration = Duration::from_millis(1);
/// Pause between attempts of a process to rejoin.
const RETRY: Duration = Duration::from_millis(100);

/// State that all handles share, over all memberships.
pub(crate) struct SharedGroup<L: Link + Send + 'static> {
    membership: RwLock<Arc<GroupMembership<L>>>,
    state: Mutex<GroupStatus>,
    changed: Condvar,
    pub(crate) types: Arc<[Declaration]>,
    /// This process's folder of logs, if it keeps any.
    pub(crate) process_logs: OnceLock<Arc<ProcessLogs>>,
    closing: AtomicBool,
    upcaller: Mutex<Option<ThreadId>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that waits check; changed by the upcall thread.
#[derive(Default)]
pub(crate) struct GroupStatus {
    pub(crate) view: Option<View>,
    pub(crate) exit_reason: Option<ExitReason>,
    pub(crate) leaving: bool,
    refused: bool,
}

impl GroupStatus {
    /// Fails if this process is not a member.
    pub(crate) fn check_member(&self) -> Result<()> {
        match self.exit_reason {
            _ if self.refused => Err(GroupError::OtherDeclarations),
            Some(exit_reason) => Err(GroupError::Isolated(exit_reason)),
            None => Ok(()),
        }
    }
}

/// One membership.
pub(crate) struct GroupMembership<L: Link + Send + 'static> {
    pub(crate) me: NodeId,
    pub(crate) engine: Engine<ShardMachine, L>,
    pub(crate) object_host: Mutex<ObjectHost<BoxedObject>>,
    /// Sender memories of this process, by shard; apart from the object host, so that upcalls may
    /// send.
    pub(crate) sending: Mutex<BTreeMap<u64, SenderMemory>>,
    news: Arc<AtomicBool>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in an upcall is the application's fault; the guarded state is consistent between two
    // events.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything needed to begin another membership.
struct MembershipFactory<L> {
    connect: LinkConnector<L>,
    builder: GroupBuilder,
    types: Arc<[Declaration]>,
    process_logs: Option<Arc<ProcessLogs>>,
}

impl<L: Link + Send + 'static> MembershipFactory<L> {
    fn begin(&mut self) -> Result<GroupMembership<L>> {
        let (mut link, parker): (L, Arc<dyn Parker>) =
            (self.connect)().map_err(GroupError::Join)?;
        self.open_process_logs(LogId(link.node().0))?;
        let GroupBuilder { entrance, weight, patience, attributes, pace, .. } = &self.builder;
        let refused = |error| GroupError::Join(format!("the link refused memory: {error}"));
        let acks = link.open(ACKS, ACKS_WORDS).map_err(refused)?;
        let control = SubgroupRegions::open_control(&mut link).map_err(refused)?;
        let bell = Arc::clone(&parker);
        let node = Node::new(link.node(), acks, Arc::new(move || bell.wake()));
        let me = node.id();
        let host = match entrance {
            JoinMode::Local => {
                let arbiter = link.arbiter().ok_or_else(|| {
                    GroupError::Join("a group without founders needs a link of one host".into())
                })?;
                Some(HostInterface { arbiter, is_halted: link.halts() })
            }
            JoinMode::Network(_) => None,
        };
        let terms = GroupConfig {
            join_mode: entrance.clone(),
            weight: *weight,
            timeouts: *patience,
            ablation: Ablation::default(),
        };
        let directory = ShardDirectory::new(Arc::clone(&self.types));
        let mut group = Group::new(node, terms, directory, control, host);
        let durability_gate = self.process_logs.as_ref().map(|process_logs| {
            let parker = Arc::clone(&parker);
            group.keep_logs(Box::new(process_logs.views(move || parker.wake())))
        });
        let mut machine = ShardMachine::new(group, attributes.clone(), self.builder.geometry()?);
        let factories: Vec<ObjectFactory> = self.builder.factories.clone();
        let mut object_host =
            ObjectHost::new(me, Box::new(move |key| factories[shard_of(key).0]()));
        for (key, checkpoint) in &self.builder.checkpoints {
            machine.has_checkpoint(*key, checkpoint.position);
            object_host.begin_from(*key, checkpoint.bytes.clone());
        }
        if let (Some(process_logs), Some(durability_gate)) = (&self.process_logs, durability_gate) {
            let logs = process_logs.streams();
            machine.has_logs(logs.into_iter().filter_map(|log| key_of_log(&self.types, log)));
            let opened = open_logs(
                process_logs,
                &durability_gate,
                &self.types,
                machine.nudge(),
                Arc::clone(&parker),
            );
            object_host.keep_logs(opened, self.builder.checkpointing);
        }
        let news = machine.news();
        let engine = Engine::start(machine, link, parker, *pace);
        let (object_host, sending) = (Mutex::new(object_host), Mutex::default());
        Ok(GroupMembership { me, engine, object_host, sending, news })
    }
}

impl<L> MembershipFactory<L> {
    /// Opens the folder in which this process keeps its logs, through all its memberships.
    fn open_process_logs(&mut self, fresh: LogId) -> Result<()> {
        let logged = self.types.iter().any(|it| it.logged);
        if !logged || self.process_logs.is_some() {
            return Ok(());
        }
        let GroupBuilder { name, logs, log_settings, .. } = &self.builder;
        let Some(folder) = logs else {
            let why = "a logged type is declared, but no folder for logs; add `logs(folder)`";
            return Err(GroupError::Join(why.into()));
        };
        let is_logged = |key: &u64| self.types.get(shard_of(*key).0).is_some_and(|it| it.logged);
        if self.builder.checkpoints.iter().any(|(key, _)| is_logged(key)) {
            let why = "a checkpoint is declared for a logged type, which begins from its logs";
            return Err(GroupError::Join(why.into()));
        }
        let process_logs =
            ProcessLogs::open(folder, &LogScope::of_group(name), fresh, *log_settings);
        let process_logs = process_logs.map_err(|error| {
            let folder = folder.display();
            GroupError::Join(format!("no logs can be kept in `{folder}`: {error}"))
        })?;
        self.process_logs = Some(Arc::new(process_logs));
        Ok(())
    }
}

/// Returns the opener of the shards' logs in a process's folder of logs; any change of a log's
/// state wakes the upcall thread.
fn open_logs(
    archive: &Arc<ProcessLogs>,
    gate: &Arc<DurabilityGate>,
    types: &Arc<[Declaration]>,
    nudge: impl Fn() + Send + Sync + 'static,
    parker: Arc<dyn Parker>,
) -> LogOpener {
    let (process_logs, types, nudge) = (Arc::clone(archive), Arc::clone(types), Arc::new(nudge));
    let durability_gate = Arc::clone(gate);
    Box::new(move |key| {
        let (nudge, parker) = (Arc::clone(&nudge), Arc::clone(&parker));
        let wake = move || {
            nudge();
            parker.wake();
        };
        let log_port =
            process_logs.stream_log_port(log_of(&types, key)?, FullDiskPolicy::Wait, None, wake);
        Some(Box::new(GatedLogPort::new(Box::new(log_port), Arc::clone(&durability_gate)))
            as Box<dyn LogPort>)
    })
}

impl<L: Link + Send + 'static> SharedGroup<L> {
    pub(crate) fn start(
        mut builder: GroupBuilder,
        connect: LinkConnector<L>,
    ) -> Result<Arc<SharedGroup<L>>> {
        let types: Arc<[Declaration]> = builder.types.clone().into();
        let (on_view, on_object) = (builder.on_view.take(), builder.on_object.take());
        let rejoins = builder.rejoins;
        let mut factory =
            MembershipFactory { connect, builder, types: Arc::clone(&types), process_logs: None };
        let first = factory.begin()?;
        let process_logs = OnceLock::new();
        if let Some(opened) = &factory.process_logs {
            let _ = process_logs.set(Arc::clone(opened));
        }
        let shared = Arc::new(SharedGroup {
            membership: RwLock::new(Arc::new(first)),
            state: Mutex::default(),
            changed: Condvar::new(),
            types,
            process_logs,
            closing: AtomicBool::new(false),
            upcaller: Mutex::default(),
            thread: Mutex::default(),
        });
        let upcalls = UpcallThread { shared: Arc::clone(&shared), on_view, on_object };
        let thread = std::thread::Builder::new().name("derecho-upcalls".into());
        let run = move || upcalls.run(factory, rejoins);
        let thread = thread.spawn(run).map_err(|error| GroupError::Join(error.to_string()))?;
        *lock(&shared.thread) = Some(thread);
        Ok(shared)
    }

    pub(crate) fn membership(&self) -> Arc<GroupMembership<L>> {
        Arc::clone(&self.membership.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, GroupStatus> {
        lock(&self.state)
    }

    /// Returns the index of the type with this name.
    pub(crate) fn index_of(&self, subgroup: &str) -> Result<usize> {
        let index = self.types.iter().position(|it| it.name == subgroup);
        index.ok_or_else(|| GroupError::NoSuchSubgroup(subgroup.into()))
    }

    pub(crate) fn plan(&self, index: usize) -> Result<Vec<ShardPlan>> {
        self.state().check_member()?;
        let subgroup = self.types[index].name.clone();
        self.membership().engine.act(|machine, _, _| match machine.directory().plan(index) {
            Ok(plan) => Ok(plan.to_vec()),
            Err(missing) => Err(GroupError::Inadequate { subgroup, missing: missing.into() }),
        })
    }

    /// Fails on the upcall thread, which must not wait for its own work.
    pub(crate) fn refuse_in_upcall(&self) -> Result<()> {
        match *lock(&self.upcaller) == Some(std::thread::current().id()) {
            true => Err(GroupError::InUpcall),
            false => Ok(()),
        }
    }

    /// Waits until `ready` returns a value.
    pub(crate) fn wait<T>(
        &self,
        limit: Duration,
        mut ready: impl FnMut(&GroupStatus) -> Result<Option<T>>,
    ) -> Result<T> {
        self.refuse_in_upcall()?;
        let deadline = Instant::now() + limit;
        let mut state = self.state();
        loop {
            if let Some(found) = ready(&state)? {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(GroupError::TimedOut(limit));
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `ready` returns a value, without holding the state's lock.
    pub(crate) fn wait_outside<T>(
        &self,
        limit: Duration,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.refuse_in_upcall()?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(found) = ready()? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(GroupError::TimedOut(limit));
            }
            let state = self.state();
            drop(self.changed.wait_timeout(state, LOOK));
        }
    }

    fn tell_waiters(&self) {
        let _state = self.state();
        self.changed.notify_all();
    }

    /// Closes the group when the last handle is dropped.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.membership().engine.stop();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("an upcall panicked");
        }
    }
}

/// The upcall thread.
struct UpcallThread<L: Link + Send + 'static> {
    shared: Arc<SharedGroup<L>>,
    on_view: Option<ViewUpcall>,
    on_object: Option<ObjectUpcall>,
}

impl<L: Link + Send + 'static> UpcallThread<L> {
    fn run(mut self, mut factory: MembershipFactory<L>, rejoins: bool) {
        *lock(&self.shared.upcaller) = Some(std::thread::current().id());
        loop {
            let membership = self.shared.membership();
            self.live(&membership);
            membership.engine.stop();
            drop(membership);
            let state = self.shared.state();
            let again = rejoins && !state.leaving && !state.refused;
            drop(state);
            if !again || self.shared.closing.load(Ordering::Acquire) {
                return;
            }
            let Some(next) = self.begin_again(&mut factory) else { return };
            let me = next.me;
            *self.shared.membership.write().unwrap_or_else(PoisonError::into_inner) =
                Arc::new(next);
            let mut state = self.shared.state();
            (state.exit_reason, state.view) = (None, None);
            drop(state);
            self.tell_object(&ObjectEvent::Rejoined(me));
        }
    }

    /// Begins the next membership, as soon as possible; `None` if the group was closed.
    fn begin_again(&self, factory: &mut MembershipFactory<L>) -> Option<GroupMembership<L>> {
        while !self.shared.closing.load(Ordering::Acquire) {
            match factory.begin() {
                Ok(next) => return Some(next),
                Err(error) => tracing::warn!(%error, "rejoin failed; trying again"),
            }
            std::thread::sleep(RETRY);
        }
        None
    }

    /// Runs until this process is out, or the group was closed.
    fn live(&mut self, membership: &Arc<GroupMembership<L>>) {
        loop {
            let deadline = lock(&membership.object_host).logs_due_at(clock::now());
            membership.engine.wait(deadline, || {
                membership.news.load(Ordering::Acquire)
                    || self.shared.closing.load(Ordering::Acquire)
            });
            if self.shared.closing.load(Ordering::Acquire) {
                return;
            }
            let (items, opened) = membership.engine.act(|machine, link, _| {
                let opened = machine.open(link);
                (machine.take_events(), opened)
            });
            if let Err(error) = opened {
                tracing::error!(%error, "no memory for a shard: this process leaves its group");
                membership.engine.act(|machine, _, _| machine.leave());
            }
            let mut out = false;
            let mut items = items.into_iter().peekable();
            // Even without events: logs may have news.
            loop {
                let batch: Vec<ShardEvent> = items.by_ref().take(BATCH).collect();
                out |= self.pass(membership, batch);
                if items.peek().is_none() {
                    break;
                }
            }
            if out {
                return;
            }
        }
    }

    /// Gives some events to the object host, then performs its machine requests, wakes waiters, and
    /// makes upcalls. Returns whether this process is out.
    fn pass(&mut self, membership: &Arc<GroupMembership<L>>, batch: Vec<ShardEvent>) -> bool {
        let mut object_host = lock(&membership.object_host);
        for item in batch {
            match &item {
                ShardEvent::Begun { key, memory: Some(memory), .. } => {
                    lock(&membership.sending).insert(*key, memory.clone());
                }
                ShardEvent::Left { key } => {
                    lock(&membership.sending).remove(key);
                }
                ShardEvent::Out(_) => lock(&membership.sending).clear(),
                _ => {}
            }
            object_host.take(item);
        }
        if object_host.stage() {
            drop(object_host);
            let is_member = !membership.engine.act(|machine, _, _| machine.group().is_overtaken());
            object_host = lock(&membership.object_host);
            if is_member {
                object_host.advance_logs(clock::now());
            }
        }
        let requests = object_host.take_machine_requests();
        let mut application_events = Vec::new();
        while let Some(application_event) = object_host.next_event() {
            application_events.push(application_event);
        }
        drop(object_host);
        if !requests.is_empty() {
            membership.engine.act(|machine, _, effects| machine.perform(requests, effects));
        }
        let out = application_events.iter().any(|it| matches!(it, ApplicationEvent::Out(_)));
        application_events
            .into_iter()
            .for_each(|application_event| self.tell(membership, application_event));
        self.shared.tell_waiters();
        out
    }

    fn tell(&mut self, membership: &Arc<GroupMembership<L>>, application_event: ApplicationEvent) {
        let name = |key| self.shared.types[shard_of(key).0].name.clone();
        match application_event {
            ApplicationEvent::View { view, joined, departed } => {
                let view = View::of(&view);
                self.shared.state().view = Some(view.clone());
                self.shared.tell_waiters();
                if let Some(upcall) = &mut self.on_view {
                    upcall(&ViewChange { view, joined, departed });
                }
            }
            ApplicationEvent::Begun { .. } => {}
            ApplicationEvent::Started { key, origin: start } => {
                let (subgroup, shard) = (name(key), shard_of(key).1);
                self.tell_object(&ObjectEvent::Started { subgroup, shard, origin: start });
            }
            ApplicationEvent::Unreadable { key, from } => {
                let (subgroup, shard) = (name(key), shard_of(key).1);
                self.tell_object(&ObjectEvent::Unreadable { subgroup, shard, from });
            }
            ApplicationEvent::Left { key } => {
                let (subgroup, shard) = (name(key), shard_of(key).1);
                self.tell_object(&ObjectEvent::Left { subgroup, shard });
            }
            ApplicationEvent::Refused => {
                self.shared.state().refused = true;
                membership.engine.act(|machine, _, _| machine.leave());
            }
            ApplicationEvent::Out(exit_reason) => {
                self.shared.state().exit_reason = Some(exit_reason);
                self.shared.tell_waiters();
                self.tell_object(&ObjectEvent::Isolated(exit_reason));
            }
        }
    }

    fn tell_object(&mut self, event: &ObjectEvent) {
        if let Some(upcall) = &mut self.on_object {
            upcall(event);
        }
    }
}

/// Casts an object to its type.
pub(crate) fn as_object<T: 'static>(object: &BoxedObject) -> Option<&T> {
    let any: &dyn AnyObject = &**object;
    any.as_any().downcast_ref()
}
