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
//! The paper names two changes: a used link gets dearer, an unused one cheaper. A used link that
//! gets cheaper is a third: whatever lies behind it is nearer now, and may draw other paths.

use std::sync::Arc;

use derecho_core::ids::Rank;
use derecho_core::row;
use derecho_core::sst::{Fire, Scope, Table};

/// The most routers that a table serves; a row has a column for each.
pub const MAX_ROUTERS: usize = 32;

/// The cost that says: there is no such link.
pub const NO_LINK: i32 = -1;

row! {
    /// A router's links and how far it has come.
    pub struct LinkState {
        /// The cost of the link to each router, or a negative number if there is none.
        pub links: [i32; MAX_ROUTERS],
        /// How many forwarding tables this router has installed.
        pub installed: u64,
    }
}

impl LinkState {
    /// A router without links.
    pub const ALONE: LinkState = LinkState { links: [NO_LINK; MAX_ROUTERS], installed: 0 };

    /// A router in the paper's test network: router 0 is a hub with cheap links to and from all
    /// others, and these form a ring of dearer links.
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

/// How to reach a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The sum of the costs of the links to it.
    pub cost: u64,
    /// The neighbour to hand messages to.
    pub next_hop: Rank,
    /// The last link of the path comes from this router, and costs so much.
    last: (Rank, i32),
}

/// A forwarding table: the shortest paths from one router to all others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes {
    from: Rank,
    to: Vec<Option<Route>>,
}

/// The cost of a link in the table, as a number that can be summed; `None` without a link.
fn link(table: &Table<LinkState>, from: Rank, to: Rank) -> Option<i32> {
    let cost = table.get(from, LinkState::links.at(to.index()));
    (cost >= 0).then_some(cost)
}

impl Routes {
    /// The shortest paths from a router by the links in the table (Dijkstra).
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

    /// Notes where the links of a router, itself reached at this cost, make paths shorter.
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

    /// Whose forwarding table this is.
    pub fn from(&self) -> Rank {
        self.from
    }

    /// How to reach a router; `None` if there is no path, or it is the router itself.
    pub fn to(&self, router: Rank) -> Option<Route> {
        self.to.get(router.index()).copied().flatten()
    }

    /// How far a router is: zero for the router itself.
    fn distance(&self, router: Rank) -> Option<u64> {
        if router == self.from { Some(0) } else { Some(self.to(router)?.cost) }
    }

    /// Whether the links in the table have changed so that a shortest path may be another.
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

/// Computes the routes of this router and keeps them up to date; each forwarding table is given
/// to `install`. The own links are changed by [`set_link`].
pub fn setup<I: FnMut(&Routes) + Send + 'static>(
    install: I,
) -> impl FnOnce(&mut Scope<'_, LinkState>) + Send + 'static {
    move |scope| {
        assert!(scope.len() <= MAX_ROUTERS, "a row has {MAX_ROUTERS} columns");
        recompute(scope, install);
    }
}

/// Changes the cost of an own link, or removes it with [`NO_LINK`], and tells all routers.
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
        Fire::Once,
        move |table| routes.is_outdated(table),
        move |scope| {
            if let Some(install) = install.take() {
                recompute(scope, install);
            }
        },
    );
}
