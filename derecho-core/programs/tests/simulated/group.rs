//! A group of nodes with one table, on a simulated network.
//!
//! Owns: the cluster. Never does: know which program runs.

use derecho_core::ids::{Rank, Time};
use derecho_core::link::{Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::sst::{Refresher, Scope, Sst, Strategy, Table, TableRow};
use derecho_sim::{Cluster, Config, NodeIndex, StopReason};

pub(crate) enum TableMachine<R: TableRow> {
    Detector(Box<Sst<R>>),
    Reader(Refresher<R>),
}

impl<R: TableRow> Machine for TableMachine<R> {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        match self {
            TableMachine::Detector(sst) => sst.handle(event, effects),
            TableMachine::Reader(refresher) => refresher.handle(event, effects),
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        match self {
            TableMachine::Detector(sst) => sst.turn(now, effects),
            TableMachine::Reader(refresher) => refresher.turn(now, effects),
        }
    }

    fn wants_turn_at(&self) -> Option<Time> {
        match self {
            TableMachine::Detector(sst) => sst.wants_turn_at(),
            TableMachine::Reader(refresher) => refresher.wants_turn_at(),
        }
    }
}

pub(crate) type Setup<R> = Box<dyn FnOnce(&mut Scope<'_, R>) + Send>;

/// Nodes by rank.
pub(crate) struct Group<R: TableRow> {
    pub(crate) cluster: Cluster<TableMachine<R>>,
    pub(crate) nodes: Vec<NodeIndex>,
}

fn sst<R: TableRow>(cluster: &Cluster<TableMachine<R>>, node: NodeIndex) -> &Sst<R> {
    match cluster.machine(node, 0) {
        TableMachine::Detector(sst) => sst,
        TableMachine::Reader(_) => panic!("thread 0 is the detector"),
    }
}

impl<R: TableRow> Group<R> {
    /// Creates a group whose tables have started. `role` gives the setup that the node of a
    /// rank registers.
    pub(crate) fn new(
        seed: u64,
        nodes: usize,
        strategy: Strategy,
        initial: R,
        role: impl Fn(Rank) -> Setup<R> + Clone + Send + 'static,
    ) -> Group<R> {
        let config = Config { deadline: Time(u64::MAX), ..Config::adversarial(seed) };
        let mut cluster = Cluster::new(config);
        let region = Sst::<R>::region(0);
        let nodes: Vec<NodeIndex> = (0..nodes)
            .map(|_| {
                let role = role.clone();
                cluster.add_node(|link| {
                    let own = link.open(region, Sst::<R>::REGION_WORDS).unwrap();
                    let setup = move |scope: &mut Scope<'_, R>| role(scope.me())(scope);
                    let sst = Sst::new(link.node(), own, nodes, strategy, initial, setup);
                    let mut threads = vec![TableMachine::Detector(Box::new(sst))];
                    if strategy == Strategy::Reads {
                        threads.push(TableMachine::Reader(Refresher::new(region, 500)));
                    }
                    threads
                })
            })
            .collect();
        let stop = cluster
            .run_until_met(|cluster| nodes.iter().all(|&n| sst(cluster, n).table().is_some()));
        assert_eq!(stop, StopReason::Reached, "seed {seed}: all tables start");
        let mut nodes = nodes;
        nodes.sort_by_key(|&node| sst(&cluster, node).table().map(Table::me));
        Group { cluster, nodes }
    }

    pub(crate) fn table(&self, rank: usize) -> &Table<R> {
        sst(&self.cluster, self.nodes[rank]).table().unwrap()
    }

    pub(crate) fn is_running(&self, rank: usize) -> bool {
        self.cluster.is_running(self.nodes[rank])
    }

    /// Performs an application's action at a node, a little later.
    pub(crate) fn act(
        &mut self,
        rank: usize,
        after: u64,
        act: impl FnOnce(&mut Scope<'_, R>) + 'static,
    ) {
        let at = self.cluster.now().after(after);
        self.cluster.inject(self.nodes[rank], 0, at, |thread, _, effects| {
            if let TableMachine::Detector(sst) = thread {
                sst.with_table(effects, act);
            }
        });
    }

    pub(crate) fn crash(&mut self, rank: usize) {
        self.cluster.crash(self.nodes[rank]);
    }

    pub(crate) fn run_for(&mut self, nanos: u64) {
        let at = self.cluster.now().after(nanos);
        assert_eq!(self.cluster.run_until(at), StopReason::Reached);
    }

    /// Runs until a condition holds over all tables by rank, checking an invariant at each step.
    pub(crate) fn run_until(&mut self, what: &str, mut met: impl FnMut(&[&Table<R>]) -> bool) {
        let nodes = self.nodes.clone();
        let stop = self.cluster.run_until_met(|cluster| {
            let tables: Vec<&Table<R>> =
                nodes.iter().map(|&node| sst(cluster, node).table().unwrap()).collect();
            met(&tables)
        });
        assert_eq!(stop, StopReason::Reached, "{what}");
    }
}
