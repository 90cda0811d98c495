//! Once the links have come to rest, every router's table equals a reference, and no router
//! recomputes without need.

use std::sync::{Arc, Mutex};

use derecho_core::ids::Rank;
use derecho_core::sst::{Strategy, Table};
use derecho_sim::Random;
use sst_programs::routing::{self, LinkState, NO_LINK, Routes};

use crate::group::Group;

type Costs = Vec<Vec<i32>>;

/// Computes all distances by relaxing all links often enough (Bellman and Ford): another algorithm
/// than the program's.
fn reference(costs: &Costs, from: usize) -> Vec<Option<u64>> {
    let mut distance = vec![None; costs.len()];
    distance[from] = Some(0);
    for _ in 0..costs.len() {
        for via in 0..costs.len() {
            for to in 0..costs.len() {
                if let (Some(so_far), true) = (distance[via], costs[via][to] >= 0) {
                    let through = so_far + costs[via][to] as u64;
                    if distance[to].is_none_or(|known: u64| through < known) {
                        distance[to] = Some(through);
                    }
                }
            }
        }
    }
    distance
}

type Tables = Arc<Mutex<Vec<Option<Routes>>>>;

fn check(costs: &Costs, tables: &Tables, what: &str) {
    let tables = tables.lock().unwrap();
    for (from, routes) in tables.iter().enumerate() {
        let routes = routes.as_ref().expect("every router has installed a table");
        for (to, expected) in reference(costs, from).into_iter().enumerate() {
            if to == from {
                continue;
            }
            let found = routes.to(Rank(to as u16));
            assert_eq!(found.map(|r| r.cost), expected, "{what}: from {from} to {to}");
            // The next hop is a neighbour from which the remaining distance is correct.
            if let Some(route) = found {
                let next = route.next_hop.index();
                let rest = reference(costs, next)[to].expect("the next hop can go on");
                assert_eq!(costs[from][next] as u64 + rest, route.cost, "{what}: {from} to {to}");
            }
        }
    }
}

fn start(seed: u64, costs: &Costs) -> (Group<LinkState>, Tables) {
    let routers = costs.len();
    let tables: Tables = Arc::new(Mutex::new(vec![None; routers]));
    let (log, costs) = (tables.clone(), costs.clone());
    let group = Group::new(seed, routers, Strategy::Writes, LinkState::ALONE, move |rank| {
        let (log, own) = (log.clone(), costs[rank.index()].clone());
        Box::new(move |scope| {
            for (to, &cost) in own.iter().enumerate() {
                routing::set_link(scope, Rank(to as u16), cost);
            }
            routing::setup(move |routes| {
                log.lock().unwrap()[rank.index()] = Some(routes.clone());
            })(scope);
        })
    });
    (group, tables)
}

fn random_cost(random: &mut Random) -> i32 {
    if random.one_in(3) { NO_LINK } else { random.between(0, 40) as i32 }
}

#[test]
fn routing_tables_equal_reference_when_links_are_stable() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let routers = 2 + (seed % 7) as usize;
        let mut costs: Costs = (0..routers)
            .map(|from| {
                (0..routers)
                    .map(|to| if from == to { NO_LINK } else { random_cost(&mut random) })
                    .collect()
            })
            .collect();
        let (mut group, tables) = start(seed, &costs);
        group.run_for(5_000_000);
        check(&costs, &tables, &format!("seed {seed}, at first"));
        for round in 0..6 {
            // Several links change at about the same time, some of them twice.
            for _ in 0..random.between(1, 5) {
                let from = random.below(routers as u64) as usize;
                let to = random.below(routers as u64) as usize;
                if from != to {
                    costs[from][to] = random_cost(&mut random);
                    let cost = costs[from][to];
                    group.act(from, 1, move |table| {
                        routing::set_link(table, Rank(to as u16), cost);
                    });
                }
            }
            group.run_for(5_000_000);
            check(&costs, &tables, &format!("seed {seed}, round {round}"));
        }
    }
}

fn installed(group: &Group<LinkState>, rank: usize) -> u64 {
    let table: &Table<LinkState> = group.table(rank);
    table.get(table.me(), LinkState::installed)
}

#[test]
fn a_router_recomputes_only_when_a_shortest_path_may_have_changed() {
    let routers = 6;
    let row = |rank| LinkState::hub_and_ring(routers, rank, 10, 100);
    let costs: Costs = (0..routers).map(|rank| row(rank).links[..routers].to_vec()).collect();
    let (mut group, tables) = start(7, &costs);
    group.run_for(5_000_000);
    check(&costs, &tables, "hub and ring");
    let before: Vec<u64> = (0..routers).map(|rank| installed(&group, rank)).collect();
    // An unused ring link gets costlier, then cheaper but not cheap enough.
    for cost in [200, 21] {
        group.act(2, 1, move |table| routing::set_link(table, Rank(3), cost));
        group.run_for(5_000_000);
    }
    let after: Vec<u64> = (0..routers).map(|rank| installed(&group, rank)).collect();
    assert_eq!(after, before);
    // Now the link is cheap enough: only router 2 has a shorter path by it.
    group.act(2, 1, |table| routing::set_link(table, Rank(3), 19));
    group.run_for(5_000_000);
    for (rank, before) in before.iter().enumerate() {
        let more = installed(&group, rank) - before;
        assert_eq!(more, u64::from(rank == 2), "router {rank}");
    }
    // A link of the hub affects all routers except the one that it leads to. Every router sees how
    // often each has installed a table.
    let before: Vec<u64> = (0..routers).map(|rank| installed(&group, rank)).collect();
    group.act(0, 1, |table| routing::set_link(table, Rank(1), 9));
    group.run_for(5_000_000);
    for (rank, before) in before.iter().enumerate() {
        let more = installed(&group, rank) - before;
        assert_eq!(more, u64::from(rank != 1), "router {rank}");
        let seen = group.table(0).get(Rank(rank as u16), LinkState::installed);
        assert_eq!(seen, installed(&group, rank));
    }
}

#[test]
fn hub_and_ring_topology_has_symmetric_hub_and_ring_links() {
    for routers in 2..=routing::MAX_ROUTERS {
        let rows: Vec<LinkState> =
            (0..routers).map(|rank| LinkState::hub_and_ring(routers, rank, 1, 9)).collect();
        for (from, row) in rows.iter().enumerate() {
            assert_eq!(row.links[from], NO_LINK, "{routers} routers");
            for (to, other) in rows.iter().enumerate() {
                assert_eq!(row.links[to], other.links[from], "links go both ways");
            }
            let ring = row.links.iter().filter(|&&cost| cost == 9).count();
            let expected = if from == 0 { 0 } else { (routers - 2).min(2) };
            assert_eq!(ring, expected, "router {from} of {routers}");
        }
    }
}
