//! How a process comes into a group.
//!
//! Owns: what is declared before. Never does: anything on its own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::group::council::Entrance;
use derecho_core::group::watch::Patience;
use derecho_core::ids::NodeId;
use derecho_core::link::{Link, Parker};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::Level;
use derecho_core::replicated::desk::Checkpointing;
use derecho_core::replicated::plan::{Arrangement, Declaration, key_of};
use derecho_node::Pace;
use derecho_node::logs::Settings;

use crate::error::{GroupError, Result};
use crate::group::{Checkpoint, Group, ObjectEvent, ViewChange};
use crate::replicated::{AnyObject, Boxed, Raw, RawUpcall, Replicated, Typed};

/// Makes the objects of a type's shards.
pub(crate) type Factory = Arc<dyn Fn() -> Boxed + Send + Sync>;
pub(crate) type ViewUpcall = Box<dyn FnMut(&ViewChange) + Send>;
pub(crate) type ObjectUpcall = Box<dyn FnMut(&ObjectEvent) + Send>;
/// Makes a link, and what a thread that waits for it sleeps on: once, and again for each rejoin.
pub(crate) type Connect<L> =
    Box<dyn FnMut() -> std::result::Result<(L, Arc<dyn Parker>), String> + Send>;

/// So many messages of a sender may be under way in a shard.
const MESSAGES: usize = 512;

/// When objects are put into logs as a whole.
const CHECKPOINTS: Checkpointing = Checkpointing { updates: 100_000, bytes: 64 << 20 };

fn typed<T: Replicated>() -> Factory {
    Arc::new(|| Box::new(Typed(T::default())) as Box<dyn AnyObject>)
}

/// What a process declares before it joins. All members declare the same subgroup types.
pub struct GroupBuilder {
    pub(crate) name: String,
    folder: Option<PathBuf>,
    pub(crate) attributes: Vec<u8>,
    pub(crate) types: Vec<Declaration>,
    pub(crate) factories: Vec<Factory>,
    pub(crate) on_view: Option<ViewUpcall>,
    pub(crate) on_object: Option<ObjectUpcall>,
    pub(crate) rejoins: bool,
    pub(crate) checkpoints: Vec<(u64, Checkpoint)>,
    pub(crate) entrance: Entrance,
    pub(crate) weight: u16,
    pub(crate) patience: Patience,
    memory: (usize, usize),
    pub(crate) pace: Pace,
    /// Where logs are kept.
    pub(crate) logs: Option<PathBuf>,
    pub(crate) log_settings: Settings,
    pub(crate) checkpointing: Option<Checkpointing>,
}

impl GroupBuilder {
    /// A group of the processes of this host, by its name. Whoever comes first founds it.
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
            entrance: Entrance::Local,
            weight: 1,
            patience: Patience::default(),
            memory: (1 << 20, 16 << 10),
            pace: Pace::default(),
            logs: None,
            log_settings: Settings::default(),
            checkpointing: Some(CHECKPOINTS),
        }
    }

    /// The folder in which the processes meet; by default that of the user.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// What this member says of itself: layouts see it. At most 8 KiB.
    #[must_use]
    pub fn attributes(mut self, attributes: impl Into<Vec<u8>>) -> Self {
        self.attributes = attributes.into();
        self
    }

    /// A type of subgroups whose shards replicate an object each, in atomic multicast.
    #[must_use]
    pub fn replicated<T: Replicated>(
        self,
        name: impl Into<String>,
        layout: impl Arrangement + 'static,
    ) -> Self {
        self.declare((name.into(), Level::Atomic, false), Arc::new(layout), typed::<T>())
    }

    /// A type of subgroups whose shards replicate an object each, and whose members keep logs of it: it is there again when
    /// all have been gone. [`GroupBuilder::logs`] says where.
    #[must_use]
    pub fn logged<T: Replicated>(
        self,
        name: impl Into<String>,
        layout: impl Arrangement + 'static,
    ) -> Self {
        self.declare((name.into(), Level::Atomic, true), Arc::new(layout), typed::<T>())
    }

    /// The folder under which the processes of this host keep logs, each in a folder of its own; it must be there. All members
    /// of a group with a logged type keep logs.
    #[must_use]
    pub fn logs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.logs = Some(folder.into());
        self
    }

    /// What waits in memory for the disk of the logs takes so many bytes at most (64 MiB by default), all shards together. More
    /// waits in the memory of those who sent it.
    #[must_use]
    pub fn log_queue(mut self, bytes: usize) -> Self {
        self.log_settings.queue_bytes = bytes;
        self
    }

    /// After so many updates of an object, or so many bytes of them, it is put into its log as a whole, in place of what led to
    /// it: whoever starts again reads that and what came after it. Versions before it cannot be read any more. As declared
    /// by default: 100 000 updates, 64 MiB.
    #[must_use]
    pub fn checkpoint_every(mut self, updates: u64, bytes: u64) -> Self {
        self.checkpointing = Some(Checkpointing { updates, bytes });
        self
    }

    /// Objects are never put into logs as a whole: all their versions can be read, and whoever starts again applies all
    /// that ever was.
    #[must_use]
    pub fn keep_all_versions(mut self) -> Self {
        self.checkpointing = None;
        self
    }

    /// A type of subgroups without an object or an order among senders: each sender's messages come in its
    /// order, as soon as they are there. The upcall gets those of all shards of which this process is a member.
    #[must_use]
    pub fn raw(
        self,
        name: impl Into<String>,
        layout: impl Arrangement + 'static,
        upcall: impl FnMut(NodeId, &[u8]) + Send + 'static,
    ) -> Self {
        let upcall = Arc::new(Mutex::new(Box::new(upcall) as RawUpcall));
        let factory = move || Box::new(Raw(Arc::clone(&upcall))) as Box<dyn AnyObject>;
        let level = (name.into(), Level::Unordered, false);
        self.declare(level, Arc::new(layout), Arc::new(factory))
    }

    fn declare(
        mut self,
        (name, level, logged): (String, Level, bool),
        arrangement: Arc<dyn Arrangement>,
        factory: Factory,
    ) -> Self {
        self.types.push(Declaration { name, level, logged, arrangement });
        self.factories.push(factory);
        self
    }

    /// Called for every view, in their order, without any lock.
    #[must_use]
    pub fn on_view(mut self, upcall: impl FnMut(&ViewChange) + Send + 'static) -> Self {
        self.on_view = Some(Box::new(upcall));
        self
    }

    /// Called when this process gets or loses an object, in the order of that, without any lock.
    #[must_use]
    pub fn on_object(mut self, upcall: impl FnMut(&ObjectEvent) + Send + 'static) -> Self {
        self.on_object = Some(Box::new(upcall));
        self
    }

    /// Whether a process that has fallen out comes in again by itself, as a new member.
    #[must_use]
    pub fn rejoin(mut self, rejoins: bool) -> Self {
        self.rejoins = rejoins;
        self
    }

    /// If nobody has the object of a shard (of a type declared before), it may begin from this checkpoint: the
    /// newest one that its first members have is taken. Not of a logged type, which begins from its logs.
    #[must_use]
    pub fn checkpoint(mut self, subgroup: &str, shard: usize, checkpoint: Checkpoint) -> Self {
        let index = self.types.iter().position(|it| it.name == subgroup);
        self.checkpoints.extend(index.map(|index| (key_of(index, shard), checkpoint)));
        self
    }

    /// A group over a network, founded by these nodes, with their votes. For links that name nodes before they
    /// meet; see [`GroupBuilder::join_over`].
    #[must_use]
    pub fn founders(mut self, founders: impl IntoIterator<Item = (NodeId, u16)>) -> Self {
        self.entrance = Entrance::Network(founders.into_iter().collect());
        self
    }

    /// What this member's vote counts in a group with founders.
    #[must_use]
    pub fn weight(mut self, weight: u16) -> Self {
        self.weight = weight;
        self
    }

    /// How long a member for whom others wait may be silent.
    #[must_use]
    pub fn member_timeout(mut self, limit: Duration) -> Self {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.patience.member_timeout = Some(nanos);
        self
    }

    /// How many bytes this process may have under way in each shard, and the longest message.
    #[must_use]
    pub fn memory(mut self, bytes: usize, longest: usize) -> Self {
        self.memory = (bytes, longest);
        self
    }

    pub(crate) fn geometry(&self) -> Result<Geometry> {
        let (bytes, longest) = self.memory;
        Geometry::fitting(bytes, MESSAGES, longest).ok_or_else(|| {
            GroupError::Join(format!(
                "a memory of {bytes} bytes for messages of {longest} cannot be"
            ))
        })
    }

    /// Comes into the group over shared memory. Returns when this process is a member.
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

    /// Comes into the group over any link. `connect` makes one, with what a thread that waits for it sleeps on; it
    /// is called once, and for each rejoin.
    pub fn join_over<L: Link + Send + 'static>(
        self,
        connect: impl FnMut() -> std::result::Result<(L, Arc<dyn Parker>), String> + Send + 'static,
        limit: Duration,
    ) -> Result<Group<L>> {
        Group::join(self, Box::new(connect), limit)
    }
}
