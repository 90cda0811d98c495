//! Five routers share the costs of their links in a table, and compute new routes only when a
//! shortest path may have changed: a hub in the middle, with a ring of more expensive links
//! around it.

use std::sync::mpsc;
use std::time::Duration;

use dds_api::prelude::*;
use dds_api::shared_state::{Rank, SharedState};
use squall_examples::{ExampleResult, part, play_all};
use sst_programs::routing::{LinkState, NO_LINK, Routes, set_link, setup};

const ROUTERS: usize = 5;
const HUB_COST: i32 = 1;
const RING_COST: i32 = 5;

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["router"; ROUTERS]),
        Some("router") => route(),
        Some(other) => Err(format!("there is no part `{other}`: router").into()),
    }
}

fn route() -> ExampleResult {
    let (installed, installs) = mpsc::channel::<Routes>();
    // A router knows its rank only when all routers are present, so it announces its
    // links afterwards.
    let table = SharedState::join(
        "example-routing",
        ROUTERS,
        LinkState::ALONE,
        setup(move |routes: &Routes| {
            // The receiver lives as long as the table; a router that is leaving needs no routes.
            let _ = installed.send(routes.clone());
        }),
    )?;
    let me = table.update(|scope| {
        let me = scope.me();
        let links = LinkState::hub_and_ring(ROUTERS, me.index(), HUB_COST, RING_COST).links;
        for to in scope.ranks() {
            if links[to.index()] != NO_LINK {
                set_link(scope, to, links[to.index()]);
            }
        }
        me
    })?;

    let last = Rank(ROUTERS as u16 - 1);
    let cost_to_last = if me == Rank(0) { HUB_COST } else { 2 * HUB_COST };
    settle(&installs, me, last, u64::from(cost_to_last.unsigned_abs()))?;
    // All routers have the routes of the first network before one continues.
    table.update(|scope| scope.publish(LinkState::installed, 1_000_000))?;
    table.wait_until(Timeout::secs(60), |table| {
        table.rows().all(|row| row.get(LinkState::installed) >= 1_000_000)
    })?;

    // The hub loses its link to the last router; all routers find another way around the ring.
    if me == Rank(0) {
        table.update(|scope| set_link(scope, last, NO_LINK))?;
    }
    let detour = match me.0 {
        0 => HUB_COST + RING_COST,
        2 => 2 * HUB_COST + RING_COST,
        _ => RING_COST,
    };
    let routes = settle(&installs, me, last, u64::from(detour.unsigned_abs()))?;
    if let Some(routes) = routes {
        let via = routes.to(last).map(|route| route.next_hop.0);
        println!("router {}: now reaches router {} via {via:?}", me.0, last.0);
    }
    table.update(|scope| scope.publish(LinkState::installed, 2_000_000))?;
    table.wait_until(Timeout::secs(60), |table| {
        table.rows().all(|row| row.get(LinkState::installed) >= 2_000_000)
    })?;
    Ok(())
}

/// Waits for the forwarding table in which `to` has the given distance.
fn settle(
    installs: &mpsc::Receiver<Routes>,
    me: Rank,
    to: Rank,
    cost: u64,
) -> Result<Option<Routes>, Box<dyn std::error::Error>> {
    if me == to {
        return Ok(None);
    }
    loop {
        let routes = installs
            .recv_timeout(Duration::from_secs(30))
            .map_err(|_| format!("router {}: no route of cost {cost} came up", me.0))?;
        if routes.to(to).is_some_and(|route| route.cost == cost) {
            return Ok(Some(routes));
        }
    }
}
