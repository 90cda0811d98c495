//! Test bed of the figures of views: groups that send without a stop, while nodes join, leave
//! and crash.
//!
//! Owns: the formation of a group, and its changes. Never does: know a price, or define any
//! duration; `member` records the measurements.

mod member;

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::group::membership_service::JoinMode;
use derecho_core::ids::{NodeId, Time};
use derecho_core::link::Evidence;
use derecho_sim::{Cluster, Config, CostModel, NodeIndex, Random, StopReason};

use crate::FigureError;
use member::ViewTestMember;
pub(crate) use member::{MemberStep, ViewMeasurements, ViewParameters};

/// Index of a member's only thread.
const POLLING: usize = 0;
/// Interval between checks of whether a run has advanced enough, in nanoseconds.
const SLICE: u64 = 5_000;
/// Time in nanoseconds after which a group that has not formed, or has not continued, is given up.
const PATIENCE: u64 = 3_000_000_000;
/// Minimum and maximum time after a crash at which its peers' links know of it, in nanoseconds: an
/// input of every figure in which a member crashes.
pub(crate) const CRASH_KNOWN: (u64, u64) = (10_000, 100_000);

/// Environment of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GroupKind {
    /// Nodes of one host: a crash is certain, and the kernel picks the decision.
    Local,
    /// Nodes of several hosts: a crash is only likely, and a majority decides.
    Network,
}

impl GroupKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            GroupKind::Local => "local",
            GroupKind::Network => "networked",
        }
    }
}

/// Change of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ViewChangeKind {
    Join,
    Leave,
    Crash,
}

impl ViewChangeKind {
    pub(crate) const EACH: [ViewChangeKind; 3] =
        [ViewChangeKind::Join, ViewChangeKind::Leave, ViewChangeKind::Crash];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ViewChangeKind::Join => "join",
            ViewChangeKind::Leave => "leave",
            ViewChangeKind::Crash => "crash",
        }
    }
}

/// Parameters of a group.
#[derive(Clone, Debug)]
pub(crate) struct ViewTestSetup {
    pub(crate) costs: CostModel,
    pub(crate) seed: u64,
    pub(crate) kind: GroupKind,
    pub(crate) members: usize,
    /// Number of sending members, counted from the first; a joining member sends if all do.
    pub(crate) senders: usize,
    pub(crate) parameters: ViewParameters,
}

/// A running group.
pub(crate) struct ViewTestBed {
    setup: ViewTestSetup,
    cluster: Cluster<ViewTestMember>,
    measurements: Rc<RefCell<ViewMeasurements>>,
    random: Random,
    founders: Vec<(NodeId, u16)>,
    /// Members in the order of joining.
    members: Vec<NodeIndex>,
}

impl ViewTestBed {
    /// Creates a group whose nodes are all members of one view, and makes them begin to send.
    pub(crate) fn settle(setup: &ViewTestSetup) -> Result<ViewTestBed, FigureError> {
        let mut config = Config {
            costs: setup.costs.clone(),
            deadline: Time(u64::MAX),
            step_limit: u64::MAX,
            ..Config::costed(setup.seed)
        };
        let evidence = match setup.kind {
            GroupKind::Local => Evidence::Certain,
            GroupKind::Network => Evidence::Uncertain,
        };
        config.evidence.crash = Some((evidence, CRASH_KNOWN));
        let mut test_bed = ViewTestBed {
            setup: setup.clone(),
            cluster: Cluster::new(config),
            measurements: Rc::default(),
            random: Random::new(setup.seed),
            founders: Vec::new(),
            members: Vec::new(),
        };
        let all: Result<Vec<NodeIndex>, FigureError> =
            (0..setup.members).map(|_| test_bed.add()).collect();
        let all = all?;
        let named = all.iter().map(|node| (test_bed.cluster.machine(*node, POLLING).id(), 1));
        test_bed.founders = named.collect();
        all.iter().for_each(|node| test_bed.begin(*node));
        test_bed.members = all;
        test_bed.until_settled()?;
        for sender in 0..setup.senders {
            test_bed.send(test_bed.members[sender]);
        }
        Ok(test_bed)
    }

    fn add(&mut self) -> Result<NodeIndex, FigureError> {
        let (parameters, measurements) = (self.setup.parameters, Rc::clone(&self.measurements));
        let mut failed = None;
        let node = self.cluster.add_node(|link| {
            match ViewTestMember::new(link, parameters, &measurements) {
                Ok(member) => vec![member],
                Err(problem) => {
                    failed = Some(problem);
                    Vec::new()
                }
            }
        });
        match failed {
            Some(problem) => Err(FigureError::Stuck(format!("a member cannot begin: {problem}"))),
            None => Ok(node),
        }
    }

    fn begin(&mut self, node: NodeIndex) {
        let entrance = match self.setup.kind {
            GroupKind::Local => JoinMode::Local,
            GroupKind::Network => JoinMode::Network(self.founders.clone()),
        };
        self.cluster.machine_mut(node, POLLING).begin(entrance);
    }

    /// Makes a member send from some time on; members with pauses do not send in step with
    /// each other.
    fn send(&mut self, node: NodeIndex) {
        let spread = self.random.between(0, self.setup.parameters.pause.max(2_000));
        let start = self.now().after(spread);
        let act =
            |member: &mut ViewTestMember, now: Time, effects: &mut _| member.send(now, effects);
        self.cluster.inject_again(node, POLLING, start, act);
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Time {
        self.cluster.now()
    }

    /// Returns the measurements.
    pub(crate) fn measurements(&self) -> std::cell::RefMut<'_, ViewMeasurements> {
        self.measurements.borrow_mut()
    }

    /// Makes the member of this rank the next one that leaves or crashes.
    pub(crate) fn put_last(&mut self, rank: usize) {
        let is_it = |node: &NodeIndex| self.cluster.machine(*node, POLLING).rank() == Some(rank);
        if let Some(place) = self.members.iter().position(is_it) {
            let node = self.members.remove(place);
            self.members.push(node);
        }
    }

    /// Returns the present members, in the order of joining.
    pub(crate) fn members(&self) -> Vec<usize> {
        self.members.iter().map(|node| node.0).collect()
    }

    /// Lets `nanos` nanoseconds pass.
    pub(crate) fn pass(&mut self, nanos: u64) {
        self.cluster.run_until(self.now().after(nanos));
    }

    /// Runs until a condition holds; the error names `what` if it never does.
    pub(crate) fn until(
        &mut self,
        what: &str,
        condition: impl Fn(&ViewTestBed) -> bool,
    ) -> Result<(), FigureError> {
        let end = self.now().after(PATIENCE);
        while !condition(self) {
            let stop = self.cluster.run_until(self.now().after(SLICE));
            let measurements = self.measurements.borrow();
            if let Some(fault) = measurements.faults.first() {
                return Err(FigureError::Stuck(format!("{what}: {fault}")));
            }
            if stop != StopReason::Reached || self.now() > end {
                return Err(FigureError::Stuck(format!("{what}: not by {} ns", self.now().0)));
            }
        }
        Ok(())
    }

    /// Runs until all members are in one view of them all, with nothing under way.
    pub(crate) fn until_settled(&mut self) -> Result<(), FigureError> {
        let (count, kind) = (self.members.len(), self.setup.kind.name());
        self.until(&format!("a {kind} group of {count} does not settle"), |test_bed| {
            let among = |node: &NodeIndex| test_bed.cluster.machine(*node, POLLING).settled_among();
            test_bed.members.iter().all(|node| among(node) == Some(count))
        })
    }

    /// Starts to record steps, and drops earlier ones.
    pub(crate) fn watch(&mut self) {
        let mut measurements = self.measurements();
        measurements.steps.clear();
        measurements.watching = true;
    }

    /// Follows the message after a member's next one through the group.
    pub(crate) fn follow(&mut self, sender: usize) {
        let number = self.cluster.machine(self.members[sender], POLLING).sent() + 1;
        self.measurements().followed = Some((sender, number));
    }

    /// Makes a node join, or the last of the members leave or crash. Returns that node.
    pub(crate) fn strike(&mut self, change: ViewChangeKind) -> Result<usize, FigureError> {
        self.watch();
        let node = match change {
            ViewChangeKind::Join => {
                let node = self.add()?;
                self.begin(node);
                self.members.push(node);
                if self.setup.senders >= self.setup.members {
                    self.send(node);
                }
                node
            }
            ViewChangeKind::Leave | ViewChangeKind::Crash => {
                let Some(node) = self.members.pop() else {
                    return Err(FigureError::Stuck("no member is left".into()));
                };
                match change {
                    ViewChangeKind::Crash => self.cluster.crash(node),
                    _ => {
                        let now = self.now();
                        self.cluster.inject(node, POLLING, now, |member, _, _| member.leave());
                    }
                }
                node
            }
        };
        let now = self.now();
        self.measurements().note(node.0, MemberStep::Asked, now);
        Ok(node.0)
    }

    /// Runs until every member delivers in the view after the change.
    pub(crate) fn until_resumed(&mut self) -> Result<(), FigureError> {
        self.until_settled()?;
        self.until("messages are not delivered again", |test_bed| {
            let measurements = test_bed.measurements();
            test_bed
                .members
                .iter()
                .all(|node| measurements.when(node.0, MemberStep::Resumed).is_some())
        })
    }

    /// The longest time without a delivery at a member after `from`, in nanoseconds.
    pub(crate) fn silence(&self, member: usize, from: Time) -> u64 {
        let measurements = self.measurements();
        let taken = &measurements.taken[member];
        let pairs = taken.windows(2).filter(|pair| pair[1].0 > from);
        pairs.map(|pair| pair[1].0.since(pair[0].0)).max().unwrap_or(0)
    }

    /// Returns the number of messages delivered to a member from `from` to before `to`.
    pub(crate) fn taken(&self, member: usize, from: Time, to: Time) -> u64 {
        let measurements = self.measurements();
        let within = measurements.taken[member].iter().filter(|(at, _)| (from..to).contains(at));
        within.map(|(_, count)| count).sum()
    }
}
