//! A process's membership of a group, as its threads use it.
//!
//! Owns: the handle. Never does: drive; see `group_membership`.

use std::sync::Arc;
use std::time::Duration;

use dds_transport_rdma::shm::ShmLink;
use derecho_core::ids::NodeId;
use derecho_core::link::Link;
use derecho_core::membership::{self, ExitReason};
use derecho_core::replicated::ObjectPosition;
use derecho_core::replicated::object_host::ObjectOrigin;
use derecho_core::replicated::plan::{MemberInfo, ShardPlan};

use crate::builder::{GroupBuilder, LinkConnector};
use crate::error::{GroupError, Result};
use crate::group_membership::{SharedGroup, lock};
use crate::replicated::Replicated;
use crate::shard::Shard;

/// Numbered membership of a group; a member's rank is its index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Number of the view. Views of a group are numbered consecutively.
    pub number: u64,
    /// Members in the order of their ranks.
    pub members: Vec<NodeId>,
}

impl View {
    pub(crate) fn of(view: &membership::View) -> View {
        let members = view.members.iter().map(|member| member.node).collect();
        View { number: view.number, members }
    }

    /// Returns a member's rank.
    pub fn rank_of(&self, node: NodeId) -> Option<usize> {
        self.members.iter().position(|member| *member == node)
    }
}

/// A view, and the changes since the previous one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewChange {
    /// The view.
    pub view: View,
    /// Members that joined with this view.
    pub joined: Vec<NodeId>,
    /// Members that left or failed with this view.
    pub departed: Vec<NodeId>,
}

/// An object as bytes, and its position in the order of its shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Position of the checkpoint: later ones are greater.
    pub position: ObjectPosition,
    /// Bytes of the object.
    pub bytes: Vec<u8>,
}

/// Event concerning the objects of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ObjectEvent {
    /// This process has an object from now on.
    Started {
        /// Name of the subgroup type.
        subgroup: String,
        /// Index of the shard.
        shard: usize,
        /// Origin of the object's state.
        origin: ObjectOrigin,
    },
    /// A member sent an object that this process cannot decode: their programs differ. The process
    /// asks the other members that have the object, and asks again when the members of the shard
    /// change.
    Unreadable {
        /// Name of the subgroup type.
        subgroup: String,
        /// Index of the shard.
        shard: usize,
        /// Member that sent the object.
        from: NodeId,
    },
    /// This process no longer has a seat in the shard.
    Left {
        /// Name of the subgroup type.
        subgroup: String,
        /// Index of the shard.
        shard: usize,
    },
    /// This process is no longer a member of the group, for this reason.
    Isolated(ExitReason),
    /// This process has rejoined, as this member.
    Rejoined(NodeId),
}

/// A process's membership of a group. Clones, shards and replies are handles on the same
/// membership. When the last handle is dropped, the process leaves without a goodbye, and counts as
/// failed at once.
pub struct Group<L: Link + Send + 'static = ShmLink> {
    pub(crate) shared: Arc<SharedGroup<L>>,
    /// Ends the upcall thread when the last handle is dropped.
    _held: Arc<CloseOnDrop<L>>,
}

struct CloseOnDrop<L: Link + Send + 'static>(Arc<SharedGroup<L>>);

impl<L: Link + Send + 'static> Drop for CloseOnDrop<L> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<L: Link + Send + 'static> Clone for Group<L> {
    fn clone(&self) -> Self {
        Group { shared: Arc::clone(&self.shared), _held: Arc::clone(&self._held) }
    }
}

impl<L: Link + Send + 'static> Group<L> {
    pub(crate) fn join(
        builder: GroupBuilder,
        connect: LinkConnector<L>,
        limit: Duration,
    ) -> Result<Group<L>> {
        let shared = SharedGroup::start(builder, connect)?;
        let group = Group { _held: Arc::new(CloseOnDrop(Arc::clone(&shared))), shared };
        group.wait_view(limit, |_| true)?;
        Ok(group)
    }

    /// Returns the node id of this member, which changes with each rejoin.
    pub fn me(&self) -> NodeId {
        self.shared.membership().me
    }

    /// Returns the newest view that the upcalls have been told of.
    pub fn view(&self) -> Result<View> {
        let state = self.shared.state();
        state.check_member()?;
        state.view.clone().ok_or(GroupError::TimedOut(Duration::ZERO))
    }

    /// Waits for a view that satisfies `is_it`.
    pub fn wait_view(&self, limit: Duration, mut is_it: impl FnMut(&View) -> bool) -> Result<View> {
        self.shared.wait(limit, |state| {
            state.check_member()?;
            Ok(state.view.clone().filter(|view| is_it(view)))
        })
    }

    /// Returns the members and their attributes, in the order of joining.
    pub fn members(&self) -> Vec<MemberInfo> {
        self.shared.membership().engine.act(|machine, _, _| machine.directory().members().to_vec())
    }

    /// Changes the attributes of this member; layouts follow.
    pub fn set_attributes(&self, attributes: &[u8]) -> Result<()> {
        self.shared.state().check_member()?;
        let attributes = attributes.to_vec();
        self.shared.membership().engine.act(|machine, _, _| machine.describe_self(attributes));
        Ok(())
    }

    /// Returns the present layout of the shards of a type. [`GroupError::Inadequate`]: too
    /// few members.
    pub fn layout(&self, subgroup: &str) -> Result<Vec<ShardPlan>> {
        let index = self.shared.index_of(subgroup)?;
        self.shared.plan(index)
    }

    /// Waits until there are enough members for all shards of a type.
    pub fn wait_layout(&self, subgroup: &str, limit: Duration) -> Result<Vec<ShardPlan>> {
        let index = self.shared.index_of(subgroup)?;
        self.shared.wait_outside(limit, || match self.shared.plan(index) {
            Ok(plan) => Ok(Some(plan)),
            Err(GroupError::Inadequate { .. }) => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Returns a shard of a type that was declared with this object.
    pub fn shard<T: Replicated>(&self, subgroup: &str, shard: usize) -> Result<Shard<T, L>> {
        Shard::new(self.clone(), subgroup, shard)
    }

    /// Returns a shard of a raw subgroup: messages without an order among senders, and without
    /// an object.
    pub fn raw(&self, subgroup: &str, shard: usize) -> Result<Shard<(), L>> {
        Shard::new_raw(self.clone(), subgroup, shard)
    }

    /// Describes the state of the group, for diagnosis.
    pub fn describe(&self) -> String {
        let membership = self.shared.membership();
        let (mut text, shards) = membership.engine.act(|machine, _, _| {
            let shards: Vec<_> = machine
                .directory()
                .shards()
                .map(|(key, shard)| (key, format!("{shard:?}")))
                .collect();
            (machine.group().describe(), shards)
        });
        let object_host = lock(&membership.object_host);
        for (key, shard) in shards {
            text +=
                &format!("\n shard {key:#x}: {shard}\n  object: {:?}", object_host.describe(key));
        }
        text
    }

    /// Returns the reason why this process is no longer a member; `None` if it is one.
    pub fn isolated(&self) -> Option<ExitReason> {
        self.shared.state().exit_reason
    }

    /// Leaves the group: the others continue without this member in a next view, and have received
    /// everything that it sent.
    pub fn leave(&self, limit: Duration) -> Result<()> {
        self.shared.state().leaving = true;
        self.shared.membership().engine.act(|machine, _, _| machine.leave());
        self.shared.wait(limit, |state| Ok(state.exit_reason.map(|_| ())))
    }
}
