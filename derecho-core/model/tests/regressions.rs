//! Orders of events that once broke a group, each the trace that the model had found.
#![cfg(model)]

use derecho_model::Event::{Crash, Deliver, Doubt, Evidence, Join, Leave, Promote, Settle};
use derecho_model::{Arbitration, Event, Setting, replay};

fn network(members: usize) -> Setting {
    Setting::new(Arbitration::Network, members)
}

fn local(members: usize) -> Setting {
    Setting::new(Arbitration::Local, members)
}

fn holds(setting: Setting, events: &[Event]) {
    if let Err(failure) = replay(setting, events) {
        panic!("{failure:?}");
    }
}

/// The leader proposed an unchanged view, the same suspicion ended that view, and so on.
#[test]
fn a_leader_that_is_suspected_waits() {
    let one_round = [(0, 1), (0, 2), (2, 0), (0, 1), (0, 2), (2, 0), (0, 1), (1, 0)];
    let rounds = one_round.iter().cycle().take(6 * one_round.len());
    let rounds = rounds.map(|&(from, to)| Deliver(from, to));
    let events: Vec<Event> = [Doubt(1, 0), Deliver(1, 0)].into_iter().chain(rounds).collect();
    holds(Setting { doubts: 1, ..network(3) }, &events);
}

/// The last process learnt of one death, and that the other one was suspected, but not yet
/// for certain.
#[test]
fn the_last_of_three_processes_goes_on() {
    let events = [Crash(1), Evidence(0, 1), Crash(0), Deliver(0, 2), Evidence(2, 0)];
    holds(Setting { crashes: 2, ..local(3) }, &events);
}

/// The member saw half of its view dead while the others had already continued, as a view of which
/// most lived.
#[test]
fn lagging_member_waits_for_decided_view() {
    let events = [
        Crash(1),
        Evidence(2, 1),
        Deliver(2, 0),
        Deliver(0, 3),
        Deliver(3, 0),
        Crash(0),
        Evidence(2, 0),
        Deliver(0, 3),
    ];
    holds(Setting { crashes: 2, ..network(4) }, &events);
}

/// The decision that the member had accepted had won at the kernel, and the member went out because
/// its proposer died.
#[test]
fn an_accepted_decision_outlives_its_proposer() {
    let events = [
        Doubt(0, 1),
        Deliver(0, 2),
        Deliver(2, 0),
        Crash(0),
        Deliver(0, 2),
        Settle(2),
        Evidence(2, 0),
    ];
    holds(Setting { crashes: 1, doubts: 1, ..local(3) }, &events);
}

/// The leaver's decision came only to the joining node, which did not pass it on to the
/// remaining member.
#[test]
fn joiner_forwards_view_of_its_own_admission() {
    let events = [
        Leave(0),
        Deliver(0, 1),
        Join(2, 0),
        Deliver(2, 0),
        Deliver(1, 0),
        Crash(0),
        Deliver(0, 2),
        Evidence(1, 0),
    ];
    holds(Setting { joiners: 1, leaves: 1, crashes: 1, ..network(2) }, &events);
}

/// The only member with a vote left, and no member could decide anything.
#[test]
fn at_least_one_member_always_has_a_vote() {
    let events =
        [Leave(0), Crash(1), Join(2, 0), Deliver(2, 0), Evidence(0, 1), Deliver(0, 2), Promote(2)];
    holds(Setting { joiners: 1, leaves: 1, crashes: 1, ..network(2) }, &events);
}

/// A leaver and the last remaining member suspect each other; the leaver decided for no member.
#[test]
fn leaver_yields_to_last_remaining_member() {
    let events = [
        Leave(0),
        Doubt(1, 0),
        Crash(1),
        Deliver(1, 2),
        Deliver(2, 0),
        Deliver(0, 2),
        Evidence(0, 1),
        Deliver(0, 2),
        Evidence(2, 1),
    ];
    holds(Setting { leaves: 1, crashes: 1, doubts: 1, ..local(3) }, &events);
}

/// A founder without which the others continued is not a member that is out.
#[test]
fn founder_excluded_from_founding_may_join_later() {
    let founded = [Doubt(0, 2), Deliver(0, 1), Deliver(0, 1), Deliver(1, 0), Deliver(0, 1)];
    let events = [&[Deliver(1, 0)], &founded[..], &[Deliver(1, 0), Crash(1)]].concat();
    holds(Setting { founders: true, crashes: 1, doubts: 1, ..network(3) }, &events);
}
