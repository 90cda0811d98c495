//! Assembly of the node, its engine and its link: the only module that knows all three.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::group::membership_service::{HostInterface, JoinMode};
use derecho_core::group::silence_detector::MemberTimeouts;
use derecho_core::group::{
    CONTROL_LINES, CONTROL_STREAM, Group, GroupConfig, SubgroupRegions, control_geometry,
};
use derecho_core::link::{Arbiter, Link, LinkError, Parker};
use derecho_core::log::{DiskError, LogError, LogId};
use derecho_core::membership::RankSet;
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::subgroup::SUBGROUP_LINES;
use derecho_core::node::{ACKS, ACKS_WORDS, CHANGES, CHANGES_WORDS, Node};
use derecho_node::logs::{LogScope, LogSettings, ProcessLogs};
use derecho_node::{Engine, Pace};
use qos_profiles::Glob;

use super::realtime::RealTimeSettings;
use super::rejoin::{Rejoiner, SwitchableParker};
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::discovery::Discovery;
use crate::mapping::machine::ParticipantMachine;
use crate::mapping::membership_state::{Life, MembershipState};
use crate::mapping::topic_logs::TopicLogs;

/// The engine of a participant.
pub(crate) type DomainEngine = Engine<ParticipantMachine, ShmLink>;

/// How long a participant that has left or died may still be counted as a member.
const DEPARTURE_GRACE: Duration = Duration::from_millis(500);
/// How long a participant waits for a process that could admit it.
const STATE_LIMIT: Duration = Duration::from_secs(4);

/// Configuration of the assembled parts.
#[derive(Clone)]
pub(crate) struct AssemblyConfig {
    pub(crate) domain: u32,
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) group: Option<String>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) member_timeouts: MemberTimeouts,
    pub(crate) ablation: Ablation,
    pub(crate) pace: Pace,
    pub(crate) is_caller_driven: bool,
    pub(crate) real_time: RealTimeSettings,
    /// If logs are kept: their folder, the topics to log even if nobody here uses them, and
    /// the settings.
    pub(crate) logs: Option<(PathBuf, Vec<Glob>, LogSettings)>,
}

/// The parts with which a life of a participant begins.
pub(super) struct ParticipantParts {
    pub(super) link: ShmLink,
    pub(super) parker: Arc<dyn Parker>,
    pub(super) group: Group<Discovery>,
    pub(super) host: Option<Arc<dyn Arbiter>>,
    pub(super) logs: Option<TopicLogs>,
}

/// Joins a domain of the link.
pub(crate) fn join(config: ShmConfig) -> DdsResult<ShmLink> {
    ShmLink::join(config).map_err(|error| match error.is_exhaustion() {
        true => DdsError::OutOfResources(error.to_string()),
        false => DdsError::Error(error.to_string()),
    })
}

/// Joins the domain under a new name.
pub(super) fn connect(assembly_config: &AssemblyConfig) -> DdsResult<ParticipantParts> {
    let mut config = ShmConfig::new(format!("domain-{}", assembly_config.domain));
    if assembly_config.runtime_dir.is_some() {
        config.runtime_dir.clone_from(&assembly_config.runtime_dir);
    }
    if assembly_config.group.is_some() {
        config.group.clone_from(&assembly_config.group);
    }
    if assembly_config.memory_limit.is_some() {
        config.memory_limit = assembly_config.memory_limit;
    }
    (config.lock_memory, config.huge_pages) =
        (assembly_config.real_time.lock_memory, assembly_config.real_time.huge_pages);
    let mut link = join(config)?;
    wait_until_admissible(&link, assembly_config.domain)?;
    let parker = link.parker();
    let group_config = GroupConfig {
        join_mode: JoinMode::Local,
        weight: 1,
        timeouts: assembly_config.member_timeouts,
        ablation: assembly_config.ablation,
    };
    let mut group = group(&mut link, group_config, &parker)
        .map_err(|error| DdsError::OutOfResources(error.to_string()))?;
    let host = link.arbiter();
    let logs = assembly_config.logs.as_ref().map(|(folder, topics, settings)| {
        let fresh = LogId(link.node().0);
        let home = LogScope::of_domain(assembly_config.domain);
        let process_logs = ProcessLogs::open(folder, &home, fresh, *settings);
        let process_logs = process_logs.map_err(|error| {
            let hint = match &error {
                LogError::Disk { cause: DiskError::NotFound, .. } => {
                    "; make it first, or name another folder"
                }
                _ => "",
            };
            let folder = folder.display();
            DdsError::Error(format!("no logs can be kept in `{folder}`: {error}{hint}"))
        })?;
        let waker_parker = Arc::clone(&parker);
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(move || waker_parker.wake());
        let tell = Arc::clone(&wake);
        let gate = group.keep_logs(Box::new(process_logs.views(move || tell())));
        Ok(TopicLogs::new(process_logs, topics.clone(), gate, wake))
    });
    Ok(ParticipantParts { link, parker, group, host, logs: logs.transpose()? })
}

/// Returns an error if the domain would never admit this participant: it has the maximum number of
/// participants, or all that could admit this one are stopped.
fn wait_until_admissible(link: &ShmLink, domain: u32) -> DdsResult<()> {
    let begin = Instant::now();
    while let Some((limit, obstacle)) = obstacle(link, domain) {
        if begin.elapsed() >= limit {
            return Err(obstacle);
        }
        std::thread::sleep(DEPARTURE_GRACE / 20);
    }
    Ok(())
}

/// Obstacle that keeps this participant out of the domain now, with the time that it may last.
fn obstacle(link: &ShmLink, domain: u32) -> Option<(Duration, DdsError)> {
    let members = match link.members() {
        Ok(members) => members,
        // The step that founds the group meets the same error and waits until it has passed.
        Err(error) if link.has_met() && !matches!(error, LinkError::Exhausted(_)) => {
            tracing::debug!(%error, "number of participants unknown");
            return None;
        }
        Err(error) => {
            let text = format!("domain {domain} cannot be joined: {error}");
            return Some(match error {
                LinkError::Exhausted(_) => (Duration::ZERO, DdsError::OutOfResources(text)),
                _ => (STATE_LIMIT, DdsError::Error(text)),
            });
        }
    };
    if members.len() >= RankSet::MOST {
        let text = format!(
            "domain {domain} has {} participants, which is the maximum: end one of them, let one \
             participant serve several purposes, or use another domain",
            members.len()
        );
        return Some((DEPARTURE_GRACE, DdsError::OutOfResources(text)));
    }
    let is_halted = link.halts();
    let first = *members.first().filter(|_| members.iter().all(|node| is_halted(*node)))?;
    let text = format!(
        "domain {domain} cannot be joined: all its participants are stopped, that of {} among \
         them: let them run again, or end them",
        link.process_of(first)
    );
    Some((STATE_LIMIT, DdsError::Error(text)))
}

/// Joins the domain and starts to drive the participant. If the participant may rejoin, also starts
/// its rejoiner.
pub(crate) fn assemble(
    assembly_config: AssemblyConfig,
    membership: &Arc<MembershipState>,
) -> DdsResult<(DomainEngine, Option<Rejoiner>)> {
    let ParticipantParts { link, parker, group, host, logs } = connect(&assembly_config)?;
    membership.begin(Life::default(), link.node(), link.halts());
    let mut machine = ParticipantMachine::new(group, Arc::clone(membership), host, Life::default());
    logs.into_iter().for_each(|logs| machine.keep_logs(logs));
    let settings = assembly_config.real_time.engine;
    let start = |machine, link, parker, pace| match assembly_config.is_caller_driven {
        true => Engine::without_thread(machine, link, parker, pace),
        false => Engine::start_on(settings, machine, link, parker, pace),
    };
    if !membership.may_rejoin() {
        return Ok((start(machine, link, parker, assembly_config.pace), None));
    }
    let switchable_parker = Arc::new(SwitchableParker::new(parker));
    let engine = start(
        machine,
        link,
        Arc::clone(&switchable_parker) as Arc<dyn Parker>,
        assembly_config.pace,
    );
    let rejoiner = Rejoiner::start(engine.clone(), assembly_config, switchable_parker, membership)?;
    Ok((engine, Some(rejoiner)))
}

/// This node's part in the domain's group.
fn group(
    link: &mut ShmLink,
    group_config: GroupConfig,
    parker: &Arc<dyn Parker>,
) -> Result<Group<Discovery>, LinkError> {
    let acks = link.open(ACKS, ACKS_WORDS)?;
    let changes = link.open(CHANGES, CHANGES_WORDS)?;
    let lines = link.open(CONTROL_LINES, SUBGROUP_LINES * LINE_WORDS)?;
    let geometry = control_geometry();
    let memory = link.open(CONTROL_STREAM, geometry.words())?;
    let waker_parker = Arc::clone(parker);
    let node = Node::new(link.node(), acks, Arc::new(move || waker_parker.wake()));
    let mut node = node.with_changes(changes, link.barrier());
    let memory = SenderMemory::with_nulls(memory, geometry).with_barrier(link.barrier());
    let memory = node.count_changes(memory);
    let control =
        SubgroupRegions { lines: (CONTROL_LINES, lines), memory: Some((CONTROL_STREAM, memory)) };
    let host = link.arbiter().map(|arbiter| HostInterface { arbiter, is_halted: link.halts() });
    Ok(Group::new(node, group_config, Discovery::default(), control, host))
}
