//! Where the node, its engine and its link are joined: the only place that knows all three.

use std::path::PathBuf;
use std::sync::Arc;

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::group::council::{Entrance, Host};
use derecho_core::group::watch::Patience;
use derecho_core::group::{CONTROL_LINES, CONTROL_STREAM, Group, Share, Terms, control_geometry};
use derecho_core::ids::NodeId;
use derecho_core::link::{Link, LinkError, Parker};
use derecho_core::log::LogId;
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::subgroup::SUBGROUP_LINES;
use derecho_core::node::{ACKS, ACKS_WORDS, CHANGES, CHANGES_WORDS, Node};
use derecho_node::logs::{Archive, Home, Settings};
use derecho_node::{Engine, Pace};

use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::discovery::Discovery;
use crate::mapping::machine::ParticipantMachine;
use crate::mapping::standing::Standing;
use crate::mapping::topic_logs::TopicLogs;

/// The engine of a participant.
pub(crate) type DomainEngine = Engine<ParticipantMachine, ShmLink>;

/// What the parts have to be told.
pub(crate) struct Plan {
    pub(crate) domain: u32,
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) group: Option<String>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) patience: Patience,
    pub(crate) ablation: Ablation,
    pub(crate) pace: Pace,
    pub(crate) unattended: bool,
    /// Where logs are kept, if they are, and of which topics that nobody here uses.
    pub(crate) logs: Option<(PathBuf, Vec<String>)>,
}

/// Joins the domain and starts to drive. Also says who this node is.
pub(crate) fn assemble(plan: Plan, standing: &Arc<Standing>) -> DdsResult<(DomainEngine, NodeId)> {
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
    let parker = link.parker();
    let terms = Terms {
        entrance: Entrance::Local,
        weight: 1,
        patience: plan.patience,
        ablation: plan.ablation,
    };
    let group = group(&mut link, terms, &parker)
        .map_err(|error| DdsError::OutOfResources(error.to_string()))?;
    let node = link.node();
    let mut machine = ParticipantMachine::new(group, Arc::clone(standing), link.arbiter());
    if let Some((folder, topics)) = plan.logs {
        let fresh = LogId(node.0);
        let archive =
            Archive::open(&folder, &Home::of_domain(plan.domain), fresh, Settings::default());
        let archive = archive.map_err(|error| {
            DdsError::Error(format!("no logs can be kept in `{}`: {error}", folder.display()))
        })?;
        let bell = Arc::clone(&parker);
        machine.keep_logs(TopicLogs::new(archive, topics, Arc::new(move || bell.wake())));
    }
    let start = if plan.unattended { Engine::unattended } else { Engine::start };
    Ok((start(machine, link, parker, plan.pace), node))
}

/// This node's part in the domain's group.
fn group(
    link: &mut ShmLink,
    terms: Terms,
    parker: &Arc<dyn Parker>,
) -> Result<Group<Discovery>, LinkError> {
    let acks = link.open(ACKS, ACKS_WORDS)?;
    let changes = link.open(CHANGES, CHANGES_WORDS)?;
    let lines = link.open(CONTROL_LINES, SUBGROUP_LINES * LINE_WORDS)?;
    let geometry = control_geometry();
    let memory = link.open(CONTROL_STREAM, geometry.words())?;
    let bell = Arc::clone(parker);
    let node = Node::new(link.node(), acks, Arc::new(move || bell.wake()));
    let mut node = node.with_changes(changes, link.barrier());
    let memory = SenderMemory::with_nulls(memory, geometry).with_barrier(link.barrier());
    let memory = node.count_changes(memory);
    let control = Share { lines: (CONTROL_LINES, lines), memory: Some((CONTROL_STREAM, memory)) };
    let host = link.arbiter().map(|arbiter| Host { arbiter, is_halted: link.halts() });
    Ok(Group::new(node, terms, Discovery::default(), control, host))
}
