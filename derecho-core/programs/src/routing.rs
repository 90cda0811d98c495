//! Link-state routing as in OSPF, without gossip (SST paper, 5.8).
//!
//! Owns: the link costs of one router in its row, and its forwarding table. Never does: recompute
//! when no shortest path can have changed.
//!
//! ```text
//!   links[src][dest]   the cost of the link src -> dest, or NO_LINK
//!   installed[src]     how many forwarding tables src has installed
//!
//!   compute routes from the links; install them; then, once,
//!   when  a link used in a shortest path has another cost or is gone,
//!     or  a link that is not used would now make some path shorter
//!   then  compute again
//! ```
//! The paper names two changes: the cost of a used link rises, or that of an unused link falls. A
//! third is a falling cost of a used link: the routers behind it are nearer then, and other paths
//! may change to use it.

use std::sync::Arc;

use derecho_core::ids::Rank;
use derecho_core::row;
use derecho_core::sst::{FireCondition, Scope, Table};

/// Maximum number of routers in a table; a row has a column for each.
pub const MAX_ROUTERS: usize = 32;

/// Cost value that means that there is no link.
pub const NO_LINK: i32 = -1;

row! {
    /// A router's links and its progress.
    pub struct LinkState {
        /// Cost of the link to each router, or a negative number if there is none.
        pub links: [i32; MAX_ROUTERS],
        /// Number of forwarding tables that this router has installed.
        pub installed: u64,
    }
}

impl LinkState {
    /// Row of a router without links.
    pub const ALONE: LinkState = LinkState { links: [NO_LINK; MAX_ROUTERS], installed: 0 };

    /// Returns the row of a router in the paper's test network: router 0 is a hub with cheap links
    /// to and from all others, and these form a ring of costlier links.
    pub fn hub_and_ring(routers: usize, rank: usize, hub_cost: i32, ring_cost: i32) -> LinkState {
        assert!(rank < routers && routers <= MAX_ROUTERS, "a router of the network");
        let mut row = LinkState::ALONE;
        if rank == 0 {
            row.links[1..routers].fill(hub_cost);
            return row;
        }
        let ring = routers - 1;
        if ring > 1 {
            row.links[1 + rank % ring] = ring_cost;
            row.links[1 + (rank + ring - 2) % ring] = ring_cost;
        }
        row.links[0] = hub_cost;
        row
    }
}

/// Route to a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Sum of the link costs on the path.
    pub cost: u64,
    /// Neighbour to which messages are handed.
    pub next_hop: Rank,
    /// Start of the path's last link, and the cost of that link.
    last: (Rank, i32),
}

/// Forwarding table: the shortest paths from one router to all others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes {
    from: Rank,
    to: Vec<Option<Route>>,
}

/// Returns the cost of a link in the table; `None` without a link.
fn link(table: &Table<LinkState>, from: Rank, to: Rank) -> Option<i32> {
    let cost = table.get(from, LinkState::links.at(to.index()));
    (cost >= 0).then_some(cost)
}

impl Routes {
    /// Computes the shortest paths from a router by the links in the table (Dijkstra).
    pub fn compute(table: &Table<LinkState>, from: Rank) -> Routes {
        let mut routes = Routes { from, to: vec![None; table.len()] };
        let mut settled = vec![false; table.len()];
        let mut nearest = Some((0, from));
        while let Some((cost, router)) = nearest {
            settled[router.index()] = true;
            routes.relax(table, router, cost, &settled);
            nearest = table
                .ranks()
                .filter(|rank| !settled[rank.index()])
                .filter_map(|rank| Some((routes.to[rank.index()]?.cost, rank)))
                .min();
        }
        routes
    }

    /// Updates paths that become shorter by the links of router `via`, itself reached at this cost.
    fn relax(&mut self, table: &Table<LinkState>, via: Rank, cost: u64, settled: &[bool]) {
        for next in table.ranks().filter(|rank| !settled[rank.index()]) {
            let Some(link) = link(table, via, next) else { continue };
            let cost = cost + u64::from(link.unsigned_abs());
            if self.to[next.index()].is_none_or(|route| cost < route.cost) {
                let next_hop = self.to[via.index()].map_or(next, |route| route.next_hop);
                self.to[next.index()] = Some(Route { cost, next_hop, last: (via, link) });
            }
        }
    }

    /// Router that owns this forwarding table.
    pub fn from(&self) -> Rank {
        self.from
    }

    /// Returns the route to a router; `None` if there is no path, or for the router itself.
    pub fn to(&self, router: Rank) -> Option<Route> {
        self.to.get(router.index()).copied().flatten()
    }

    /// Returns the distance of a router: zero for the router itself.
    fn distance(&self, router: Rank) -> Option<u64> {
        if router == self.from { Some(0) } else { Some(self.to(router)?.cost) }
    }

    /// Whether the links in the table have changed so that a shortest path may differ.
    pub fn is_outdated(&self, table: &Table<LinkState>) -> bool {
        table.ranks().any(|via| {
            let Some(distance) = self.distance(via) else { return false };
            table.ranks().filter(|&next| next != self.from && next != via).any(|next| {
                let now = link(table, via, next);
                match self.to(next) {
                    Some(route) if route.last.0 == via => now != Some(route.last.1),
                    Some(route) => now
                        .is_some_and(|cost| distance + u64::from(cost.unsigned_abs()) < route.cost),
                    None => now.is_some(),
                }
            })
        })
    }
}

/// Computes the routes of this router and keeps them up to date; calls `install` with each
/// forwarding table. [`set_link`] changes the own links.
pub fn setup<I: FnMut(&Routes) + Send + 'static>(
    install: I,
) -> impl FnOnce(&mut Scope<'_, LinkState>) + Send + 'static {
    move |scope| {
        assert!(scope.len() <= MAX_ROUTERS, "a row has {MAX_ROUTERS} columns");
        recompute(scope, install);
    }
}

/// Changes the cost of an own link, or removes it with [`NO_LINK`], and publishes the change to
/// all routers.
pub fn set_link(table: &mut Table<LinkState>, to: Rank, cost: i32) {
    table.publish(LinkState::links.at(to.index()), cost);
}

fn recompute<I: FnMut(&Routes) + Send + 'static>(scope: &mut Scope<'_, LinkState>, mut install: I) {
    let routes = Arc::new(Routes::compute(scope, scope.me()));
    install(&routes);
    let installed = scope.get(scope.me(), LinkState::installed);
    scope.publish(LinkState::installed, installed + 1);
    let mut install = Some(install);
    scope.when(
        FireCondition::Once,
        move |table| routes.is_outdated(table),
        move |scope| {
            if let Some(install) = install.take() {
                recompute(scope, install);
            }
        },
    );
}
