//! Small groups, every order of events. Larger groups run by command; see the
//! crate's documentation.
#![cfg(model)]

use derecho_model::{Arbitration, Setting, explore};

/// Maximum number of states: enough for the largest of these groups, with a margin.
const MOST: usize = 30_000_000;

fn network(members: usize) -> Setting {
    Setting::new(Arbitration::Network, members)
}

fn local(members: usize) -> Setting {
    Setting::new(Arbitration::Local, members)
}

fn holds(setting: Setting) {
    let found = explore(setting, MOST);
    assert!(found.complete, "not all of {setting:?}: {} states", found.states);
    if let Some(failure) = found.failure {
        panic!("{setting:?}: {failure:?}");
    }
    println!("{} states, {} of them quiet", found.states, found.quiet);
    assert!(found.states > 1 && found.quiet > 0, "no event happens in {setting:?}");
}

#[test]
fn networked_group_is_correct_under_crashes_and_false_suspicion() {
    holds(Setting { crashes: 1, doubts: 2, ..network(2) });
    holds(Setting { crashes: 2, doubts: 1, early_return: true, ..network(3) });
    holds(Setting { doubts: 2, crashes: 1, ..network(3) });
    holds(Setting { stops: 1, doubts: 1, crashes: 1, early_return: true, ..network(3) });
}

#[test]
fn networked_group_is_correct_under_cut_channels() {
    holds(Setting { cuts: 2, crashes: 1, early_return: true, ..network(3) });
    holds(Setting { cuts: 1, doubts: 2, crashes: 1, ..network(3) });
}

#[test]
fn networked_group_of_four_is_correct_under_faults() {
    holds(Setting { crashes: 2, ..network(4) });
    holds(Setting { doubts: 1, ..network(4) });
    holds(Setting { cuts: 1, crashes: 1, ..network(4) });
    holds(Setting { stops: 1, ..network(4) });
}

#[test]
fn local_group_of_four_is_correct_when_member_stops() {
    holds(Setting { stops: 1, ..local(4) });
}

/// The largest that fits: with a stop and a crash a local group of four does not fit into 8 GB.
#[test]
#[ignore = "takes a minute"]
fn networked_group_of_four_is_correct_under_stop_and_crash() {
    holds(Setting { stops: 1, crashes: 1, ..network(4) });
}

#[test]
fn networked_group_is_correct_under_joins_and_faults() {
    holds(Setting { joiners: 2, crashes: 3, ..network(1) });
    holds(Setting { joiners: 1, crashes: 1, doubts: 1, ..network(2) });
    holds(Setting { joiners: 1, cuts: 1, ..network(2) });
    holds(Setting { joiners: 2, ..network(2) });
}

#[test]
fn networked_group_is_correct_under_leaves_and_faults() {
    holds(Setting { leaves: 2, crashes: 2, joiners: 1, ..network(2) });
    holds(Setting { leaves: 1, crashes: 1, doubts: 1, ..network(3) });
    holds(Setting { leaves: 1, joiners: 2, ..network(1) });
}

#[test]
fn founding_of_networked_group_is_correct_under_faults() {
    holds(Setting { founders: true, crashes: 1, doubts: 1, ..network(3) });
    holds(Setting { founders: true, cuts: 1, ..network(3) });
    holds(Setting { founders: true, joiners: 1, crashes: 1, ..network(2) });
}

#[test]
fn local_group_of_two_is_correct_under_faults_and_leaves() {
    holds(Setting { crashes: 2, stops: 2, doubts: 2, early_return: true, ..local(2) });
    holds(Setting { leaves: 2, crashes: 1, ..local(2) });
}

#[test]
fn local_group_is_correct_under_stops_and_crashes() {
    holds(Setting { stops: 1, doubts: 1, crashes: 1, ..local(3) });
    holds(Setting { stops: 2, ..local(3) });
    holds(Setting { stops: 1, crashes: 2, ..local(3) });
}

#[test]
fn local_group_is_correct_under_crashes_and_false_suspicion() {
    holds(Setting { crashes: 2, ..local(4) });
    holds(Setting { crashes: 1, doubts: 1, early_return: true, ..local(3) });
}

#[test]
fn local_group_is_correct_under_joins_leaves_and_faults() {
    holds(Setting { joiners: 1, stops: 1, crashes: 1, early_return: true, ..local(2) });
    holds(Setting { joiners: 2, crashes: 1, stops: 1, ..local(1) });
    holds(Setting { leaves: 1, joiners: 1, crashes: 1, ..local(2) });
    holds(Setting { leaves: 1, crashes: 1, doubts: 1, ..local(3) });
}

/// Streams that take time to stop: the cut covers every delivery, also of dead members.
#[test]
fn streams() {
    holds(Setting { streams: true, crashes: 1, doubts: 1, ..network(3) });
    holds(Setting { streams: true, crashes: 1, cuts: 1, ..network(3) });
    holds(Setting { streams: true, crashes: 1, stops: 1, ..local(3) });
    holds(Setting { streams: true, crashes: 2, ..local(3) });
}
