//! Test bed: tables on a simulated cluster, and the actions of an application on them.
//!
//! Owns: the threads of each node as in the paper's table 1 (a detector; with SST-reads also a
//! reader), and the time stamps of callbacks. Never does: know a price.
//!
//! ```text
//!   turn begins                  turn ends = next turn begins
//!   |-- predicates, triggers, posts --|
//!        ^ a callback leaves a stamp   ^ the time that the stamp gets
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::ids::{Rank, Time};
use derecho_core::link::{Link, LinkCounters, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::sst::{Refresher, Scope, Sst, Strategy, Table, TableRow};
use derecho_sim::{Cluster, Config, CostModel, NodeIndex, StopReason};

use crate::FigureError;

/// Means by which rows reach the other nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SstTransfer {
    /// SST-writes.
    Writes,
    /// SST-reads.
    Reads,
}

impl SstTransfer {
    /// Name as in the paper.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SstTransfer::Writes => "SST-writes",
            SstTransfer::Reads => "SST-reads",
        }
    }
}

/// Event at a node, with its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) rank: Rank,
    pub(crate) what: u64,
    /// Start of the turn.
    pub(crate) began: Time,
    /// End of the turn.
    pub(crate) at: Time,
}

#[derive(Default)]
struct Stamps {
    /// Stamps of turns that have not ended.
    open: Vec<Stamp>,
    done: Vec<Stamp>,
    /// Start of the turn under way.
    now: Time,
}

/// Stamps of the callbacks of one experiment.
#[derive(Clone, Default)]
pub(crate) struct StampLog(Arc<Mutex<Stamps>>);

impl StampLog {
    /// Records a stamp, which gets the time at which this turn of the node ends.
    pub(crate) fn stamp(&self, rank: Rank, what: u64) {
        let mut stamps = self.lock();
        let began = stamps.now;
        stamps.open.push(Stamp { rank, what, began, at: began });
    }

    /// Takes the stamps that have their times, oldest first.
    pub(crate) fn take(&self) -> Vec<Stamp> {
        std::mem::take(&mut self.lock().done)
    }

    /// Number of stamps that have their times and were not taken.
    pub(crate) fn len(&self) -> usize {
        self.lock().done.len()
    }

    /// Records the start of a node's turn, which is the end of the previous turn.
    fn begin(&self, rank: Rank, at: Time) {
        let mut stamps = self.lock();
        let Stamps { open, done, now } = &mut *stamps;
        *now = at;
        open.retain(|&stamp| {
            if stamp.rank == rank {
                done.push(Stamp { at, ..stamp });
            }
            stamp.rank != rank
        });
    }

    fn lock(&self) -> MutexGuard<'_, Stamps> {
        // Whatever a panicking test left is still a list of stamps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread of a node.
pub(crate) enum SstThread<R: TableRow> {
    /// Evaluates predicates and fires triggers.
    Detector(Box<Sst<R>>, StampLog),
    /// Refreshes the local table in SST-reads.
    Reader(Refresher<R>),
}

impl<R: TableRow> Machine for SstThread<R> {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        match self {
            SstThread::Detector(sst, _) => sst.handle(event, effects),
            SstThread::Reader(refresher) => refresher.handle(event, effects),
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        match self {
            SstThread::Detector(sst, log) => {
                if let Some(table) = sst.table() {
                    log.begin(table.me(), now);
                }
                sst.turn(now, effects)
            }
            SstThread::Reader(refresher) => refresher.turn(now, effects),
        }
    }

    fn wants_turn_at(&self) -> Option<Time> {
        match self {
            SstThread::Detector(sst, _) => sst.wants_turn_at(),
            SstThread::Reader(refresher) => refresher.wants_turn_at(),
        }
    }
}

/// Registrations of a node when its table starts.
pub(crate) type TableSetup<R> = Box<dyn FnOnce(&mut Scope<'_, R>) + Send>;

/// Threads start at random times within this period, in nanoseconds: longer than any refresh.
const START_SPREAD: u64 = 100_000;

/// Index of a node's evaluating thread.
const DETECTOR: usize = 0;

/// A cluster whose tables have started.
pub(crate) struct SstTestBed<R: TableRow> {
    cluster: Cluster<SstThread<R>>,
    /// Nodes by rank.
    nodes: Vec<NodeIndex>,
    log: StampLog,
}

impl<R: TableRow> SstTestBed<R> {
    /// Creates `nodes` nodes with a table of this row. `role` gives the registrations of the node
    /// of a rank.
    pub(crate) fn new(
        costs: CostModel,
        kind: SstTransfer,
        nodes: usize,
        seed: u64,
        initial: R,
        role: impl Fn(Rank, StampLog) -> TableSetup<R> + Clone + Send + 'static,
    ) -> Result<SstTestBed<R>, FigureError> {
        let config = Config {
            costs,
            deadline: Time(u64::MAX),
            step_limit: u64::MAX,
            start_spread_ns: START_SPREAD,
            ..Config::costed(seed)
        };
        let mut cluster = Cluster::new(config);
        let log = StampLog::default();
        let region = Sst::<R>::region(0);
        let mut failed = None;
        for _ in 0..nodes {
            let (role, log) = (role.clone(), log.clone());
            cluster.add_node(|link| {
                let own = match link.open(region, Sst::<R>::REGION_WORDS) {
                    Ok(own) => own,
                    Err(error) => {
                        failed = Some(error.to_string());
                        return Vec::new();
                    }
                };
                let stamps = log.clone();
                let setup = move |scope: &mut Scope<'_, R>| role(scope.me(), stamps)(scope);
                let strategy = match kind {
                    SstTransfer::Writes => Strategy::Writes,
                    SstTransfer::Reads => Strategy::Reads,
                };
                let sst = Sst::new(link.node(), own, nodes, strategy, initial, setup);
                let mut threads = vec![SstThread::Detector(Box::new(sst), log)];
                if kind == SstTransfer::Reads {
                    threads.push(SstThread::Reader(Refresher::new(region, 0)));
                }
                threads
            });
        }
        if let Some(error) = failed {
            return Err(FigureError::Stuck(format!("a region cannot be opened: {error}")));
        }
        let all: Vec<NodeIndex> = (0..nodes).map(NodeIndex).collect();
        let started =
            |cluster: &Cluster<SstThread<R>>, node| detector(cluster, node).table().is_some();
        let stop = cluster.run_until_met(|cluster| all.iter().all(|&node| started(cluster, node)));
        if stop != StopReason::Reached {
            return Err(FigureError::Stuck(format!("{nodes} tables do not start ({stop:?})")));
        }
        let mut by_rank = all;
        by_rank.sort_by_key(|&node| detector(&cluster, node).table().map(Table::me));
        Ok(SstTestBed { cluster, nodes: by_rank, log })
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Time {
        self.cluster.now()
    }

    /// Iterates over all ranks.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> + use<R> {
        (0..self.nodes.len() as u16).map(Rank)
    }

    /// Returns the stamps.
    pub(crate) fn log(&self) -> &StampLog {
        &self.log
    }

    /// Reads the table of a node from outside, without cost.
    pub(crate) fn table<T>(&self, rank: Rank, look: impl FnOnce(&Table<R>) -> T) -> T {
        let table = detector(&self.cluster, self.nodes[rank.index()]).table();
        look(table.expect("all tables have started"))
    }

    /// Returns the counters of a node's posts.
    pub(crate) fn counters(&self, rank: Rank) -> LinkCounters {
        self.cluster.counters(self.nodes[rank.index()])
    }

    /// Schedules an application's act at a node after `wait` nanoseconds. Returns its time.
    pub(crate) fn act(
        &mut self,
        rank: Rank,
        wait: u64,
        act: impl FnOnce(&mut Scope<'_, R>) + 'static,
    ) -> Time {
        let at = self.now().after(wait);
        self.cluster.inject(self.nodes[rank.index()], DETECTOR, at, |thread, _, effects| {
            if let SstThread::Detector(sst, _) = thread {
                sst.with_table(effects, act);
            }
        });
        at
    }

    /// Lets `nanos` nanoseconds pass.
    pub(crate) fn pass(&mut self, nanos: u64) {
        self.cluster.run_until(self.now().after(nanos));
    }

    /// Runs until a condition holds; the error names `what` if it never does.
    pub(crate) fn run_until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&StampLog, &RunningTables<'_, R>) -> bool,
    ) -> Result<(), FigureError> {
        let (log, nodes) = (self.log.clone(), &self.nodes);
        let stop = self
            .cluster
            .run_until_met(|cluster| condition(&log, &RunningTables { cluster, nodes }));
        if stop == StopReason::Reached {
            return Ok(());
        }
        Err(FigureError::Stuck(format!("{what} stopped at {} ns: {stop:?}", self.now().0)))
    }
}

/// The tables while the cluster runs.
pub(crate) struct RunningTables<'a, R: TableRow> {
    cluster: &'a Cluster<SstThread<R>>,
    nodes: &'a [NodeIndex],
}

impl<R: TableRow> RunningTables<'_, R> {
    /// Whether a condition holds for every node's own table.
    pub(crate) fn all(&self, look: impl Fn(&Table<R>) -> bool) -> bool {
        self.nodes.iter().all(|&node| detector(self.cluster, node).table().is_some_and(&look))
    }
}

fn detector<R: TableRow>(cluster: &Cluster<SstThread<R>>, node: NodeIndex) -> &Sst<R> {
    match cluster.machine(node, DETECTOR) {
        SstThread::Detector(sst, _) => sst,
        SstThread::Reader(_) => unreachable!("thread {DETECTOR} is the detector"),
    }
}

#[cfg(test)]
mod tests {
    use sst_programs::detection::{self, Elements, Push};

    use super::*;
    use crate::Network;

    fn bed(kind: SstTransfer, nodes: usize) -> SstTestBed<Elements<1>> {
        let costs = Network::Susitna.costs("").unwrap();
        let mut test_bed =
            SstTestBed::new(costs, kind, nodes, 1, Elements::ready(), |_, _| Box::new(|_| {}))
                .unwrap();
        test_bed.pass(100_000);
        test_bed
    }

    #[test]
    fn push_posts_one_write_to_each_other_node() {
        for nodes in [1, 2, 5, 12] {
            let mut test_bed = bed(SstTransfer::Writes, nodes);
            let before = test_bed.counters(Rank(0));
            for round in 1..=10 {
                test_bed
                    .act(Rank(0), 1, move |table| detection::set_mark(table, round, Push::Mark));
                test_bed.pass(100_000);
            }
            let after = test_bed.counters(Rank(0));
            let posts = 10 * (nodes as u64 - 1);
            assert_eq!(after.writes - before.writes, posts, "{nodes} nodes");
            assert_eq!(after.written_bytes - before.written_bytes, 8 * posts);
            assert_eq!(after.reads, 0);
            for rank in test_bed.ranks() {
                let seen = test_bed.table(rank, |table| table.get(Rank(0), Elements::mark()));
                assert_eq!(seen, 10);
            }
        }
    }

    #[test]
    fn push_posts_no_write_if_nodes_fetch_all_rows_repeatedly() {
        let mut test_bed = bed(SstTransfer::Reads, 4);
        let before = test_bed.counters(Rank(2));
        test_bed.act(Rank(2), 1, |table| detection::set_mark(table, 7, Push::Mark));
        test_bed.pass(100_000);
        let after = test_bed.counters(Rank(2));
        assert_eq!(after.writes, 0);
        assert!(after.reads - before.reads > 30);
        assert!(test_bed.ranks().all(|rank| {
            test_bed.table(rank, |table| table.get(Rank(2), Elements::mark())) == 7
        }));
    }

    #[test]
    fn observation_of_tables_costs_no_virtual_time() {
        let busy = |looks: bool| {
            let mut test_bed = bed(SstTransfer::Writes, 3);
            let log = test_bed.log().clone();
            test_bed.act(Rank(0), 1, move |scope| {
                let stamps = log.clone();
                detection::begin(scope, 1..=1, 1, Push::Mark, move |_| stamps.stamp(Rank(0), 0));
            });
            test_bed.act(Rank(1), 5000, |table| detection::set_mark(table, 1, Push::Mark));
            test_bed
                .run_until("a detection", |log, nodes| {
                    if looks {
                        nodes.all(|table| table.get(Rank(0), Elements::mark()) < 99);
                    }
                    log.len() == 1
                })
                .unwrap();
            test_bed.log().take()[0]
        };
        assert_eq!(busy(false), busy(true));
    }
}
