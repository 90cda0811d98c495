//! Setups of worlds of subgroups: nodes, their memory and roles, the paces of their applications,
//! and the checks that not every suite needs.

use derecho_core::ids::Time;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};

use crate::{Config, Random};

/// Maximum length of a record, except of many subgroups.
pub const LONGEST: u64 = 200;
/// Virtual time within which every run of founded subgroups ends.
pub const END: Time = Time(400_000_000);

/// Pace of a writer.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of messages.
    pub goal: u64,
    /// Maximum number of claims in one act.
    pub burst: u64,
    /// Longest pause between two acts, in nanoseconds.
    pub pause_ns: u64,
    /// True if the writer keeps claims open, abandons some, and forgets one.
    pub careless: bool,
}

impl Pace {
    /// Pace of a writer that writes nothing.
    pub const SILENT: Pace = Pace { goal: 0, burst: 1, pause_ns: 1_000, careless: false };

    /// Pace of an application that writes to one subgroup after the other.
    pub(super) const ALTERNATING: Pace =
        Pace { goal: u64::MAX, burst: 3, pause_ns: 3_000, careless: false };

    fn random(random: &mut Random, most: u64) -> Pace {
        let goal = if random.one_in(5) { 0 } else { random.between(1, most) };
        let pause_ns = [1_000, 1_000, 4_000, 100_000, 1_000_000][random.below(5) as usize];
        // A slow writer has fewer messages, so that a run ends.
        let goal = if pause_ns > 50_000 { goal.min(8) } else { goal };
        Pace { goal, burst: random.between(1, 8), pause_ns, careless: !random.one_in(3) }
    }

    /// Returns the pace of a writer that writes until the end of the run. Such a writer forgets no
    /// claim, because its stream may have to end.
    pub(super) fn endless(random: &mut Random) -> Pace {
        let pause_ns = [1_000, 4_000, 20_000, 100_000][random.below(4) as usize];
        Pace { goal: u64::MAX, burst: random.between(1, 6), pause_ns, careless: true }
    }

    /// Whether the writer has no goal.
    pub(super) fn is_endless(self) -> bool {
        self.goal == u64::MAX
    }
}

/// Role of a node in a subgroup.
#[derive(Clone, Copy, Debug)]
pub struct SubgroupRole {
    /// Whether it reads.
    pub reads: bool,
    /// Pace of its writer, if it sends.
    pub sends: Option<Pace>,
}

impl SubgroupRole {
    /// Role of a member that reads and sends.
    pub fn both(pace: Pace) -> SubgroupRole {
        SubgroupRole { reads: true, sends: Some(pace) }
    }
}

/// Course of applications that write to one subgroup for a while and then to another one, with
/// pauses shorter and longer than the time after which a stream is quiet.
#[derive(Clone, Copy, Debug)]
pub struct Alternation {
    /// Number of acts of each application.
    pub acts: u64,
    /// Longest pause between two acts, in nanoseconds.
    pub pause_ns: u64,
}

/// Setup of a world of subgroups.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Level and switches of all subgroups.
    pub terms: SubgroupConfig,
    /// Memory of each stream.
    pub geometry: Geometry,
    /// Maximum length of a record.
    pub longest: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of hosts, each of whose nodes share memory; `None`: all memory is copied.
    pub hosts: Option<usize>,
    /// Whether nodes count changes in their streams, so that idle subgroups rest.
    pub counts_changes: bool,
    /// Roles of all nodes in each subgroup that they found by themselves. Without any, an oracle
    /// decides about one subgroup.
    pub subgroups: Vec<Vec<Option<SubgroupRole>>>,
    /// Course of the applications, if each of them writes to one subgroup after the other.
    pub alternation: Option<Alternation>,
    /// Whether the checkers read in each turn what has arrived in the memory of the members of
    /// founded subgroups, and compare it with what these deliver.
    pub watches_arrivals: bool,
    /// Whether the checkers examine the posts of each turn.
    pub watches_posts: bool,
    /// Longest time that any expected event takes.
    pub patience: u64,
    /// Whether a member that reads may leave: it reads to the end, and holds records afterwards.
    /// Otherwise only a member that does not read and holds nothing leaves.
    pub late_leavers: bool,
    /// Number of changes that the oracle decides in a run.
    pub changes: usize,
}

impl Scenario {
    fn new(level: DeliveryGuarantee, geometry: Geometry, nodes: usize) -> Scenario {
        Scenario {
            terms: SubgroupConfig { level, ablation: Ablation::default() },
            geometry,
            longest: LONGEST,
            nodes,
            hosts: None,
            counts_changes: false,
            subgroups: Vec::new(),
            alternation: None,
            watches_arrivals: false,
            watches_posts: false,
            patience: END.0,
            late_leavers: false,
            changes: 0,
        }
    }

    /// Returns one atomic subgroup of these members, with far less memory than data.
    pub fn atomic(members: Vec<SubgroupRole>) -> Scenario {
        let geometry = Geometry::fitting(4096, 16, LONGEST as usize).unwrap();
        let nodes = members.len();
        let subgroups = vec![members.into_iter().map(Some).collect()];
        let scenario = Scenario::new(DeliveryGuarantee::Atomic, geometry, nodes);
        Scenario { subgroups, watches_arrivals: true, ..scenario }
    }

    /// Returns one random subgroup of this level: 2 to 7 members, of which any may send and any may
    /// read, with up to `most` messages each.
    pub fn random(seed: u64, level: DeliveryGuarantee, most: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x5ce_4a210);
        let count = random.between(2, 7) as usize;
        let mut members: Vec<SubgroupRole> = (0..count)
            .map(|_| SubgroupRole {
                reads: !random.one_in(3),
                sends: (!random.one_in(3)).then(|| Pace::random(&mut random, most)),
            })
            .collect();
        members[random.below(count as u64) as usize].reads = true;
        if members.iter().all(|member| member.sends.is_none()) {
            members[0].sends = Some(Pace::random(&mut random, most));
        }
        let geometry = little_memory(&mut random);
        let mut scenario = Scenario { geometry, ..Scenario::atomic(members) };
        scenario.terms.level = level;
        scenario
    }

    /// Returns subgroups in which all nodes read and send, one of them at a time.
    pub fn many(nodes: usize, subgroups: usize) -> Scenario {
        let role = SubgroupRole::both(Pace::SILENT);
        let scenario = Scenario::atomic(vec![role; nodes]);
        Scenario {
            geometry: Geometry::fitting(2048, 16, 16).unwrap(),
            longest: 16,
            subgroups: vec![vec![Some(role); nodes]; subgroups],
            alternation: Some(Alternation { acts: 60, pause_ns: 3_000_000 }),
            counts_changes: true,
            watches_arrivals: false,
            ..scenario
        }
    }

    /// Returns 5 to 14 subgroups of 2 to 5 nodes with random roles, most of them idle.
    pub fn random_many(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0xac71);
        let nodes = random.between(2, 5) as usize;
        let mut scenario = Scenario::many(nodes, random.between(5, 14) as usize);
        for roles in &mut scenario.subgroups {
            for role in roles.iter_mut() {
                let (reads, sends) = (!random.one_in(4), !random.one_in(3));
                let sends = sends.then_some(Pace::SILENT);
                *role = (reads || sends.is_some()).then_some(SubgroupRole { reads, sends });
            }
            let at = random.below(nodes as u64) as usize;
            roles[at] = Some(SubgroupRole::both(Pace::SILENT));
        }
        if random.one_in(3) {
            scenario.terms.level = DeliveryGuarantee::Unordered;
        }
        let pause_ns = [30_000, 1_500_000, 5_000_000][random.below(3) as usize];
        scenario.alternation = Some(Alternation { acts: 60, pause_ns });
        scenario
    }

    /// Returns 3 to 7 nodes and an oracle that decides about one subgroup of this level.
    /// `shared`: whether all nodes share memory.
    pub fn decided(seed: u64, level: DeliveryGuarantee, shared: bool) -> Scenario {
        let mut random = Random::new(seed ^ 0x0e_70c4);
        let geometry = little_memory(&mut random);
        let nodes = random.between(3, 7) as usize;
        Scenario {
            hosts: shared.then_some(1),
            watches_posts: true,
            patience: 60_000_000,
            changes: 6,
            ..Scenario::new(level, geometry, nodes)
        }
    }

    /// Returns the role of a node in the first subgroup, also to change it.
    pub fn role_mut(&mut self, node: usize) -> &mut SubgroupRole {
        self.subgroups[0][node].as_mut().expect("all nodes are members of the first subgroup")
    }
}

/// Returns the memory of streams with far less room than data.
fn little_memory(random: &mut Random) -> Geometry {
    let messages = [2, 4, 8, 16, 32][random.below(5) as usize];
    let bytes = [1024, 2048, 4096][random.below(3) as usize];
    Geometry::fitting(bytes, messages, LONGEST as usize).unwrap()
}

/// Returns the setup with a network as adverse as the contract of the link allows.
pub fn adversarial(seed: u64) -> Config {
    Config { deadline: END, ..Config::adversarial(seed) }
}
