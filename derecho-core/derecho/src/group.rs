//! A process's part in a group, as its threads use it.
//!
//! Owns: the handle. Never does: drive; see `life`.

use std::sync::Arc;
use std::time::Duration;

use dds_transport_rdma::shm::ShmLink;
use derecho_core::ids::NodeId;
use derecho_core::link::Link;
use derecho_core::membership::{self, Fate};
use derecho_core::replicated::Position;
use derecho_core::replicated::desk::Start;
use derecho_core::replicated::plan::{Attendee, Shard as ShardPlan};

use crate::builder::{Connect, GroupBuilder};
use crate::error::{GroupError, Result};
use crate::life::{Shared, lock};
use crate::replicated::Replicated;
use crate::shard::Shard;

/// The numbered membership of a group; a member's rank is its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Views of a group are numbered one after the other.
    pub number: u64,
    /// Its members, in the order of ranks.
    pub members: Vec<NodeId>,
}

impl View {
    pub(crate) fn of(view: &membership::View) -> View {
        let members = view.members.iter().map(|member| member.node).collect();
        View { number: view.number, members }
    }

    /// A member's rank.
    pub fn rank_of(&self, node: NodeId) -> Option<usize> {
        self.members.iter().position(|member| *member == node)
    }
}

/// A view, and what is new in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewChange {
    /// The view.
    pub view: View,
    /// Who came with it.
    pub joined: Vec<NodeId>,
    /// Who is gone with it.
    pub departed: Vec<NodeId>,
}

/// An object as bytes, and where in the order of its shard it was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Where: later ones are greater.
    pub position: Position,
    /// The object.
    pub bytes: Vec<u8>,
}

/// What happens to the objects of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ObjectEvent {
    /// This process has an object from now on.
    Started {
        /// The subgroup type.
        subgroup: String,
        /// The shard.
        shard: usize,
        /// How it came to it; nobody had it if it begins anew.
        start: Start,
    },
    /// A member has told an object that this process cannot read: their programs differ.
    Unreadable {
        /// The subgroup type.
        subgroup: String,
        /// The shard.
        shard: usize,
        /// Who told it.
        from: NodeId,
    },
    /// This process has no seat in the shard any more.
    Left {
        /// The subgroup type.
        subgroup: String,
        /// The shard.
        shard: usize,
    },
    /// This process has fallen out of the group.
    Isolated(Fate),
    /// It has come in again, as this member.
    Rejoined(NodeId),
}

/// A process's part in a group. Clones, shards and replies are handles on the same one; when the last one is dropped, the process leaves
/// without a word, and counts as failed at once.
pub struct Group<L: Link + Send + 'static = ShmLink> {
    pub(crate) shared: Arc<Shared<L>>,
    /// Ends the upcalls' thread when the last handle goes.
    _held: Arc<Held<L>>,
}

struct Held<L: Link + Send + 'static>(Arc<Shared<L>>);

impl<L: Link + Send + 'static> Drop for Held<L> {
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
        connect: Connect<L>,
        limit: Duration,
    ) -> Result<Group<L>> {
        let shared = Shared::start(builder, connect)?;
        let group = Group { _held: Arc::new(Held(Arc::clone(&shared))), shared };
        group.wait_view(limit, |_| true)?;
        Ok(group)
    }

    /// Which member this process is: another one after each rejoin.
    pub fn me(&self) -> NodeId {
        self.shared.life().me
    }

    /// The newest view of which the upcalls have been told.
    pub fn view(&self) -> Result<View> {
        let state = self.shared.state();
        state.standing()?;
        state.view.clone().ok_or(GroupError::TimedOut(Duration::ZERO))
    }

    /// Waits for a view that is as it should be.
    pub fn wait_view(&self, limit: Duration, mut is_it: impl FnMut(&View) -> bool) -> Result<View> {
        self.shared.wait(limit, |state| {
            state.standing()?;
            Ok(state.view.clone().filter(|view| is_it(view)))
        })
    }

    /// Members and what they say of themselves, in the order in which they came.
    pub fn members(&self) -> Vec<Attendee> {
        self.shared.life().engine.act(|house, _, _| house.agenda().members().to_vec())
    }

    /// Changes what this member says of itself; layouts follow.
    pub fn set_attributes(&self, attributes: &[u8]) -> Result<()> {
        self.shared.state().standing()?;
        let attributes = attributes.to_vec();
        self.shared.life().engine.act(|house, _, _| house.describe_self(attributes));
        Ok(())
    }

    /// Who is wanted in the shards of a type now. [`GroupError::Inadequate`]: too few are there.
    pub fn layout(&self, subgroup: &str) -> Result<Vec<ShardPlan>> {
        let index = self.shared.index_of(subgroup)?;
        self.shared.plan(index)
    }

    /// Waits until there are members enough for all shards of a type.
    pub fn wait_layout(&self, subgroup: &str, limit: Duration) -> Result<Vec<ShardPlan>> {
        let index = self.shared.index_of(subgroup)?;
        self.shared.wait_outside(limit, || match self.shared.plan(index) {
            Ok(plan) => Ok(Some(plan)),
            Err(GroupError::Inadequate { .. }) => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// A shard of a type that was declared with this object.
    pub fn shard<T: Replicated>(&self, subgroup: &str, shard: usize) -> Result<Shard<T, L>> {
        Shard::new(self.clone(), subgroup, shard)
    }

    /// A raw subgroup: messages without an order among senders, and without an object.
    pub fn raw(&self, subgroup: &str, shard: usize) -> Result<Shard<(), L>> {
        Shard::new_raw(self.clone(), subgroup, shard)
    }

    /// How everything stands, for whoever looks for what is wrong.
    pub fn describe(&self) -> String {
        let life = self.shared.life();
        let (mut text, shards) = life.engine.act(|house, _, _| {
            let shards: Vec<_> =
                house.agenda().shards().map(|(key, shard)| (key, format!("{shard:?}"))).collect();
            (house.group().describe(), shards)
        });
        let desk = lock(&life.desk);
        for (key, shard) in shards {
            text += &format!("\n shard {key:#x}: {shard}\n  object: {:?}", desk.describe(key));
        }
        text
    }

    /// Why this process is no member any more, if it is none.
    pub fn isolated(&self) -> Option<Fate> {
        self.shared.state().fate
    }

    /// Leaves: the others go on without this member in a next view, and have all that it has sent.
    pub fn leave(&self, limit: Duration) -> Result<()> {
        self.shared.state().leaving = true;
        self.shared.life().engine.act(|house, _, _| house.leave());
        self.shared.wait(limit, |state| Ok(state.fate.map(|_| ())))
    }
}
