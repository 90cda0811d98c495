//! Errors planted into the rules are found, each by the property named for it. An error affects the
//! whole process, so all of them are one test.
#![cfg(model)]

use derecho_model::{Arbitration, Fault, Setting, explore, plant};

const ONE_VIEW: &str = "one view per number";
const CUT: &str = "the cut is at most what was reported";
const PRIMARY: &str = "views intersect in a primary partition";
const JOINS: &str = "every joining node becomes a member";
const SETTLES: &str = "the group settles";
const GOES_ON: &str = "at least one member continues";
const DELIVERED: &str = "every delivery is below the cut";
const OUT: &str = "a node that is out stays out";

fn network(members: usize) -> Setting {
    Setting::new(Arbitration::Network, members)
}

fn local(members: usize) -> Setting {
    Setting::new(Arbitration::Local, members)
}

#[test]
fn planted_errors_are_found() {
    let two_fresh = Setting { joiners: 2, crashes: 2, mortal: 0b110, ..network(1) };
    // The first leader needs two more votes for its decision, the second one only one more.
    let overtaken = Setting {
        votes: [1, 2, 2, 2],
        leaves: 1,
        leavers: 0b1000,
        doubts: 2,
        doubters: 0b0010,
        doubted: 0b1001,
        ..network(4)
    };
    let both_stopped = Setting { stops: 2, ..local(2) };
    let joined = Setting { leaves: 1, joiners: 1, crashes: 1, ..network(2) };
    let cases = [
        (Fault::AcceptFromAnybody, overtaken, ONE_VIEW),
        (Fault::AcceptLower, overtaken, ONE_VIEW),
        (Fault::Hasty, overtaken, ONE_VIEW),
        (Fault::AdoptNothing, overtaken, ONE_VIEW),
        (Fault::MajorityOffByOne, Setting { cuts: 2, ..network(3) }, PRIMARY),
        (Fault::DeadDoNotCount, Setting { crashes: 1, doubts: 1, ..network(3) }, PRIMARY),
        (Fault::JoinersVote, two_fresh, GOES_ON),
        (Fault::WithoutKernel, both_stopped, ONE_VIEW),
        (Fault::CutOfOne, Setting { crashes: 1, ..network(3) }, CUT),
        (Fault::Silent, Setting { joiners: 1, ..network(1) }, JOINS),
        (Fault::OutGoesOn, Setting { doubts: 1, ..network(3) }, OUT),
        (Fault::NewcomersSilent, joined, GOES_ON),
        (Fault::SuspectedLeads, Setting { doubts: 1, ..network(3) }, SETTLES),
        (Fault::Rash, Setting { crashes: 2, ..local(3) }, GOES_ON),
    ];
    for (fault, setting, property) in cases {
        plant(Some(fault));
        let found = explore(setting, 8_000_000);
        plant(None);
        let failure = found.failure.map_or("nothing", |failure| failure.property);
        println!("{fault:?}: {} states, {failure}", found.states);
        assert_eq!(failure, property, "{fault:?}");
    }
    let streams = Setting { streams: true, unstoppable: true, crashes: 1, ..network(3) };
    let found = explore(streams, 8_000_000).failure.map_or("nothing", |failure| failure.property);
    assert_eq!(found, DELIVERED, "streams continue after they have stopped");
}
