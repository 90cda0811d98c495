//! Routing: figure 9.

use derecho_core::ids::{Rank, Time};
use sst_programs::routing::{self, LinkState};

use crate::sst_test_bed::{SstTestBed, SstTransfer, Stamp, StampLog, TableSetup};
use crate::{Figure, FigureError, Network, Options, Series};

const HUB_COST: i32 = 10;
const RING_COST: i32 = 100;

/// Times of one link change.
struct LinkChangeTimes {
    start: Time,
    /// First install of every router after the change, by the order in which they ended.
    installs: Vec<Stamp>,
}

impl LinkChangeTimes {
    fn all(&self) -> u64 {
        self.installs.iter().map(|stamp| stamp.at.since(self.start)).max().unwrap_or(0)
    }

    fn first_remote(&self) -> u64 {
        let remote = self.installs.iter().filter(|stamp| stamp.rank != Rank(0));
        remote.map(|stamp| stamp.at.since(self.start)).min().unwrap_or(0)
    }

    fn computing(&self) -> u64 {
        self.installs.iter().map(|stamp| stamp.at.since(stamp.began)).max().unwrap_or(0)
    }
}

/// Changes a link of the hub, back and forth, and waits for all routers each time.
fn changes(
    options: &Options,
    kind: SstTransfer,
    routers: usize,
    rounds: u64,
) -> Result<Vec<LinkChangeTimes>, FigureError> {
    let costs = Network::Susitna.costs(&options.prices)?;
    let role = move |rank: Rank, log: StampLog| -> TableSetup<LinkState> {
        Box::new(move |scope| {
            let own = LinkState::hub_and_ring(routers, rank.index(), HUB_COST, RING_COST);
            for to in 0..routers {
                scope.set(LinkState::links.at(to), own.links[to]);
            }
            scope.push_row();
            routing::setup(move |_| log.stamp(rank, 0))(scope);
        })
    };
    let mut test_bed = SstTestBed::new(costs, kind, routers, options.seed, LinkState::ALONE, role)?;
    test_bed.pass(20_000_000);
    test_bed.log().take();
    let mut random = derecho_sim::Random::new(options.seed);
    let mut changes = Vec::new();
    for round in 0..rounds {
        // Costlier and back again, and always cheaper than the ring, so that the others use the
        // hub's link to router 1 before and after.
        let cost = if round % 2 == 0 { HUB_COST + 5 } else { HUB_COST };
        let start = test_bed.act(Rank(0), random.between(1, 10_000), move |table| {
            routing::set_link(table, Rank(1), cost);
        });
        let what = format!("{routers} routers after link change {round}");
        test_bed.run_until(&what, |log, _| log.len() == routers - 1)?;
        test_bed.pass(1_000_000);
        let installs = test_bed.log().take();
        changes.push(LinkChangeTimes { start, installs });
    }
    Ok(changes)
}

fn mean(changes: &[LinkChangeTimes], of: impl Fn(&LinkChangeTimes) -> u64) -> f64 {
    changes.iter().map(of).sum::<u64>() as f64 / changes.len() as f64 / 1000.0
}

/// Figure 9: time until routers install new tables.
pub(crate) fn figure_9(options: &Options) -> Result<Figure, FigureError> {
    let rounds = if options.quick { 4 } else { 40 };
    let title = format!("New routing tables after a link change, mean over {rounds}");
    let mut figure = Figure::new("sst-9", title, "routers", "time, µs");
    let sizes: &[usize] = if options.quick { &[5, 15, 30] } else { &[5, 10, 15, 20, 25, 30] };
    let mut all = Series::new("all nodes");
    let mut first = Series::new("first remote node");
    let mut computing = Series::new("computing at one node");
    let mut once = true;
    for &routers in sizes {
        let x = routers as f64;
        let run = changes(options, SstTransfer::Writes, routers, rounds)?;
        once &= run.iter().all(|change| change.installs.len() == routers - 1);
        all.push(x, mean(&run, LinkChangeTimes::all));
        first.push(x, mean(&run, LinkChangeTimes::first_remote));
        // Where rows are fetched, a turn posts nothing: its length is the computation.
        computing.push(
            x,
            mean(
                &changes(options, SstTransfer::Reads, routers, rounds)?,
                LinkChangeTimes::computing,
            ),
        );
    }
    let ordered = (0..sizes.len()).all(|i| computing.y[i] < first.y[i] && first.y[i] < all.y[i]);
    figure.claim(
        "one link change makes every router recompute that it concerns, once",
        "yes",
        if once { "yes" } else { "no" },
        once,
    );
    figure.claim(
        "computing < first remote node < all nodes, for every network size",
        "yes",
        if ordered { "yes" } else { "no" },
        ordered,
    );
    let last = sizes.len() - 1;
    let gap = all.y[last] - first.y[last];
    figure.note(format!(
        "The paper's text gives no numbers. At {} routers the gap between the first remote node \
         and all is {gap:.1} µs; the writes that tell of the change are posted one after the \
         other, and their latency is the same for all.",
        sizes[last]
    ));
    figure.note(
        "Inputs: the prices of [susitna]. Computing is the turn that detects the change and runs \
         Dijkstra over the table, priced by the cells that it looked at; it was taken from the \
         same program with SST-reads, where a turn posts nothing. A node that reacts has to end \
         the evaluation under way first, which looks at all links; that is most of the rest.",
    );
    figure.note(
        "Router 0 is the hub and changes the cost of its link to router 1, which all but router 1 \
         itself use: a link leads one way here. Times count from the moment of the change.",
    );
    figure.series = vec![all, first, computing];
    Ok(figure)
}
