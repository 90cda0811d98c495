//! Joining of a process to a group.
//!
//! Owns: the declarations made before the join. Never does: anything on its own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::group::membership_service::JoinMode;
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::ids::NodeId;
use derecho_core::link::{Link, Parker};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_core::replicated::object_host::CheckpointPolicy;
use derecho_core::replicated::plan::{Arrangement, Declaration, key_of};
use derecho_node::Pace;
use derecho_node::logs::LogSettings;

use crate::error::{GroupError, Result};
use crate::group::{Checkpoint, Group, ObjectEvent, ViewChange};
use crate::replicated::{AnyObject, BoxedObject, RawObject, RawUpcall, Replicated, TypedObject};

/// Creates the objects of a type's shards.
pub(crate) type ObjectFactory = Arc<dyn Fn() -> BoxedObject + Send + Sync>;
pub(crate) type ViewUpcall = Box<dyn FnMut(&ViewChange) + Send>;
pub(crate) type ObjectUpcall = Box<dyn FnMut(&ObjectEvent) + Send>;
/// Creates a link, with the parker of the thread that waits for it: called once, and again for
/// each rejoin.
pub(crate) type LinkConnector<L> =
    Box<dyn FnMut() -> std::result::Result<(L, Arc<dyn Parker>), String> + Send>;

/// Maximum number of messages of a sender under way in a shard.
const MESSAGES: usize = 512;

/// Default interval between checkpoints of objects in logs.
const CHECKPOINTS: CheckpointPolicy = CheckpointPolicy { updates: 100_000, bytes: 64 << 20 };

fn typed<T: Replicated>() -> ObjectFactory {
    Arc::new(|| Box::new(TypedObject(T::default())) as Box<dyn AnyObject>)
}

/// Declarations of a process before it joins. All members declare the same subgroup types.
pub struct GroupBuilder {
    pub(crate) name: String,
    folder: Option<PathBuf>,
    pub(crate) attributes: Vec<u8>,
    pub(crate) types: Vec<Declaration>,
    pub(crate) factories: Vec<ObjectFactory>,
    pub(crate) on_view: Option<ViewUpcall>,
    pub(crate) on_object: Option<ObjectUpcall>,
    pub(crate) rejoins: bool,
    pub(crate) checkpoints: Vec<(u64, Checkpoint)>,
    pub(crate) entrance: JoinMode,
    pub(crate) weight: u16,
    pub(crate) patience: MemberTimeouts,
    memory: (usize, usize),
    pub(crate) pace: Pace,
    /// Folder of the logs.
    pub(crate) logs: Option<PathBuf>,
    pub(crate) log_settings: LogSettings,
    pub(crate) checkpointing: Option<CheckpointPolicy>,
}

impl GroupBuilder {
    /// Declares a group of processes of this host, by its name. The first process founds it.
    pub fn new(name: impl Into<String>) -> GroupBuilder {
        GroupBuilder {
            name: name.into(),
            folder: None,
            attributes: Vec::new(),
            types: Vec::new(),
            factories: Vec::new(),
            on_view: None,
            on_object: None,
            rejoins: false,
            checkpoints: Vec::new(),
            entrance: JoinMode::Local,
            weight: 1,
            patience: MemberTimeouts::default(),
            memory: (1 << 20, 16 << 10),
            pace: Pace::default(),
            logs: None,
            log_settings: LogSettings::default(),
            checkpointing: Some(CHECKPOINTS),
        }
    }

    /// Sets the folder in which the processes meet; by default that of the user.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the attributes of this member, which layouts see. At most 8 KiB.
    #[must_use]
    pub fn attributes(mut self, attributes: impl Into<Vec<u8>>) -> Self {
        self.attributes = attributes.into();
        self
    }

    /// Declares a type of subgroups whose shards replicate one object each, in atomic multicast.
    #[must_use]
    pub fn replicated<T: Replicated>(
        self,
        name: impl Into<String>,
        layout: impl Arrangement + 'static,
    ) -> Self {
        self.declare(name.into(), DeliveryGuarantee::Atomic, false, Arc::new(layout), typed::<T>())
    }

    /// Declares a type of subgroups whose shards replicate one object each, and whose members
    /// log it. The object is restored after all members have gone. [`GroupBuilder::logs`] sets
    /// the location.
    #[must_use]
    pub fn logged<T: Replicated>(
        self,
        name: impl Into<String>,
        layout: impl Arrangement + 'static,
    ) -> Self {
        self.declare(name.into(), DeliveryGuarantee::Atomic, true, Arc::new(layout), typed::<T>())
    }

    /// Sets the folder under which the processes of this host keep logs, each in a folder of its
    /// own. The folder must exist. All members of a group with a logged type keep logs.
    #[must_use]
    pub fn logs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.logs = Some(folder.into());
        self
    }

    /// Sets the maximum bytes that wait in memory for the disk of the logs (64 MiB by default),
    /// over all shards. Further messages wait in the memory of their senders.
    #[must_use]
    pub fn log_queue(mut self, bytes: usize) -> Self {
        self.log_settings.queue_bytes = bytes;
        self
    }

    /// Sets the number of updates, and their bytes, after which an object is written to its log
    /// as a checkpoint, in place of the earlier updates. A restart reads the checkpoint and the
    /// later updates. Versions before the checkpoint can no longer be read. Default: 100 000
    /// updates, 64 MiB.
    #[must_use]
    pub fn checkpoint_every(mut self, updates: u64, bytes: u64) -> Self {
        self.checkpointing = Some(CheckpointPolicy { updates, bytes });
        self
    }

    /// Disables checkpoints: all versions of objects can be read, and a restart applies all updates
    /// ever made.
    #[must_use]
    pub fn keep_all_versions(mut self) -> Self {
        self.checkpointing = None;
        self
    }

    /// Declares a type of subgroups without an object or an order among senders: each sender's
    /// messages are delivered in its order, as soon as they arrive. The upcall receives the
    /// messages of all shards of which this process is a member.
    #[must_use]
    pub fn raw(
        self,
        name: impl Into<String>,
        layout: impl Arrangement + 'static,
        upcall: impl FnMut(NodeId, &[u8]) + Send + 'static,
    ) -> Self {
        let upcall = Arc::new(Mutex::new(Box::new(upcall) as RawUpcall));
        let factory = move || Box::new(RawObject(Arc::clone(&upcall))) as Box<dyn AnyObject>;
        let (level, layout) = (DeliveryGuarantee::Unordered, Arc::new(layout));
        self.declare(name.into(), level, false, layout, Arc::new(factory))
    }

    fn declare(
        mut self,
        name: String,
        level: DeliveryGuarantee,
        logged: bool,
        arrangement: Arc<dyn Arrangement>,
        factory: ObjectFactory,
    ) -> Self {
        self.types.push(Declaration { name, level, logged, arrangement });
        self.factories.push(factory);
        self
    }

    /// Sets the upcall for views. It is called for every view, in order, without any lock.
    #[must_use]
    pub fn on_view(mut self, upcall: impl FnMut(&ViewChange) + Send + 'static) -> Self {
        self.on_view = Some(Box::new(upcall));
        self
    }

    /// Sets the upcall for objects. It is called when this process gets or loses an object, in
    /// order, without any lock.
    #[must_use]
    pub fn on_object(mut self, upcall: impl FnMut(&ObjectEvent) + Send + 'static) -> Self {
        self.on_object = Some(Box::new(upcall));
        self
    }

    /// Sets whether an excluded process rejoins automatically, as a new member.
    #[must_use]
    pub fn rejoin(mut self, rejoins: bool) -> Self {
        self.rejoins = rejoins;
        self
    }

    /// Provides a checkpoint from which a shard (of a type declared before) may begin if no member
    /// has its object. The newest checkpoint among the shard's first members is used. Not for a
    /// logged type, which begins from its logs.
    #[must_use]
    pub fn checkpoint(mut self, subgroup: &str, shard: usize, checkpoint: Checkpoint) -> Self {
        let index = self.types.iter().position(|it| it.name == subgroup);
        self.checkpoints.extend(index.map(|index| (key_of(index, shard), checkpoint)));
        self
    }

    /// Makes the group networked, founded by these nodes, with their votes. For links that name
    /// nodes before they meet; see [`GroupBuilder::join_over`].
    #[must_use]
    pub fn founders(mut self, founders: impl IntoIterator<Item = (NodeId, u16)>) -> Self {
        self.entrance = JoinMode::Network(founders.into_iter().collect());
        self
    }

    /// Sets the number of votes of this member in a group with founders.
    #[must_use]
    pub fn weight(mut self, weight: u16) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the longest silence of a member for which others wait.
    #[must_use]
    pub fn member_timeout(mut self, limit: Duration) -> Self {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.patience.member_timeout = Some(nanos);
        self
    }

    /// Sets the maximum bytes that this process may have under way in each shard, and the
    /// longest message.
    #[must_use]
    pub fn memory(mut self, bytes: usize, longest: usize) -> Self {
        self.memory = (bytes, longest);
        self
    }

    pub(crate) fn geometry(&self) -> Result<Geometry> {
        let (bytes, longest) = self.memory;
        Geometry::fitting(bytes, MESSAGES, longest).ok_or_else(|| {
            GroupError::Join(format!(
                "a memory of {bytes} bytes is invalid for messages of up to {longest} bytes; \
                 change either size"
            ))
        })
    }

    /// Joins the group over shared memory. Returns when this process is a member.
    pub fn join(self, limit: Duration) -> Result<Group<ShmLink>> {
        let (name, folder) = (self.name.clone(), self.folder.clone());
        let connect = move || {
            let mut config = ShmConfig::new(name.clone());
            if folder.is_some() {
                config.runtime_dir = folder.clone();
            }
            let link = ShmLink::join(config).map_err(|error| error.to_string())?;
            let parker = link.parker();
            Ok((link, parker))
        };
        self.join_over(connect, limit)
    }

    /// Joins the group over any link. `connect` creates a link, with the parker of the thread that
    /// waits for it; it is called once, and again for each rejoin.
    pub fn join_over<L: Link + Send + 'static>(
        self,
        connect: impl FnMut() -> std::result::Result<(L, Arc<dyn Parker>), String> + Send + 'static,
        limit: Duration,
    ) -> Result<Group<L>> {
        Group::join(self, Box::new(connect), limit)
    }
}
