//! Where the node, its engine and its link are joined: the only place that knows all three.

use std::path::PathBuf;
use std::sync::Arc;

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::link::Link;
use derecho_core::node::{ACKS, ACKS_WORDS, CHANGES, CHANGES_WORDS, Node};
use derecho_node::{Engine, Pace};

use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::machine::ParticipantMachine;

/// The engine of a participant.
pub(crate) type DomainEngine = Engine<ParticipantMachine, ShmLink>;

/// What the parts have to be told.
pub(crate) struct Plan {
    pub(crate) domain: u32,
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) group: Option<String>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) pace: Pace,
    pub(crate) unattended: bool,
}

/// Joins the domain and starts to drive. Also says who this node is.
pub(crate) fn assemble(plan: Plan) -> DdsResult<(DomainEngine, derecho_core::ids::NodeId)> {
    let mut config = ShmConfig::new(format!("domain-{}", plan.domain));
    if plan.runtime_dir.is_some() {
        config.runtime_dir = plan.runtime_dir;
    }
    if plan.group.is_some() {
        config.group = plan.group;
    }
    if plan.memory_limit.is_some() {
        config.memory_limit = plan.memory_limit;
    }
    let mut link = ShmLink::join(config).map_err(|error| DdsError::Error(error.to_string()))?;
    let node = link.node();
    let mut open = |region, words| {
        link.open(region, words).map_err(|error| DdsError::OutOfResources(error.to_string()))
    };
    let acks = open(ACKS, ACKS_WORDS)?;
    let changes = open(CHANGES, CHANGES_WORDS)?;
    let parker = link.parker();
    let bell = Arc::clone(&parker);
    let node_machine = Node::new(node, acks, Arc::new(move || bell.wake()));
    let machine = ParticipantMachine::new(node_machine.with_changes(changes, link.barrier()));
    let start = if plan.unattended { Engine::unattended } else { Engine::start };
    Ok((start(machine, link, parker, plan.pace), node))
}
