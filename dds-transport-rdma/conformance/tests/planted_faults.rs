//! Proof that each clause of the suite can fail: a model that breaks it is detected, a correct
//! one passes.

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use link_conformance::{LinkRig, clauses};
use model::{LinkFault, ModelRig, plant};

/// Every fault and the clause that must detect it.
const PLANTED: &[(LinkFault, &str)] = &[
    (LinkFault::MeetTwice, "nodes_meet"),
    (LinkFault::ReorderWrites, "writes_become_visible_in_order"),
    (LinkFault::ReorderWrites, "order_holds_while_many_writes_are_under_way"),
    (LinkFault::ReorderWrites, "a_counter_guards_the_bytes_before_it"),
    (LinkFault::TakeShortWritesLate, "a_counter_guards_the_bytes_before_it"),
    (LinkFault::TearWords, "words_are_never_torn"),
    (LinkFault::LoseWrites, "what_is_posted_arrives"),
    (LinkFault::LoseWrites, "a_counter_guards_the_bytes_before_it"),
    (LinkFault::LoseWrites, "a_thousand_regions"),
    (LinkFault::LoseWrites, "opening_and_closing_goes_on_for_ever"),
    (LinkFault::AcceptEarlyWrites, "a_write_before_ready_is_refused"),
    (LinkFault::AcceptAnyRange, "what_lies_outside_is_refused"),
    (LinkFault::LoseNotes, "many_notes_arrive"),
    (LinkFault::LoseNotes, "notes_and_regions_keep_their_order"),
    (LinkFault::LoseNotes, "survivors_go_on"),
    (LinkFault::ReorderNotes, "notes_and_regions_keep_their_order"),
    (LinkFault::ReorderNotes, "many_notes_arrive"),
    (LinkFault::AcceptLongNotes, "notes_have_a_limit"),
    (LinkFault::SpeakAfterTheEnd, "a_death_is_the_last_event"),
    (LinkFault::SpeakAfterTheEnd, "a_leave_is_the_last_event"),
    (LinkFault::CallDeathALeave, "a_death_is_the_last_event"),
    (LinkFault::CallLeaveALoss, "a_leave_is_the_last_event"),
    (LinkFault::AcceptTheDead, "a_death_is_the_last_event"),
    (LinkFault::ThawTheDead, "replicas_of_the_dead_are_frozen"),
    (LinkFault::ForgetLateJoiners, "a_late_joiner_is_told_of_what_is_open"),
    (LinkFault::ShowDirtyRegions, "a_replica_appears_zeroed"),
    (LinkFault::ReuseNames, "names_are_not_reused"),
    (LinkFault::OverwriteClosed, "a_closed_region_stays_readable"),
    (LinkFault::FinishReadsEarly, "reads_complete_in_order_and_are_fresh"),
    (LinkFault::ReorderReads, "reads_complete_in_order_and_are_fresh"),
    (LinkFault::Miscount, "writes_reads_and_notes_are_counted"),
    (LinkFault::NeverRing, "a_ring_wakes_a_sleeper"),
    (LinkFault::RingTheWaking, "a_ring_wakes_a_sleeper"),
    (LinkFault::HintEverybody, "a_sleeper_is_woken_for_what_it_wants"),
    (LinkFault::IgnoreHints, "a_sleeper_is_woken_for_what_it_wants"),
    (LinkFault::NeverRing, "a_sleeper_is_woken_for_what_it_wants"),
    (LinkFault::IgnoreBells, "a_bell_wakes_a_sleeper"),
    (LinkFault::RingBellsOfTheWaking, "a_bell_wakes_a_sleeper"),
    (LinkFault::ForgetTheOwnBell, "a_bell_wakes_a_sleeper"),
    (LinkFault::ShareAPlace, "a_bell_wakes_a_sleeper"),
    (LinkFault::RingTheGone, "a_place_whose_peer_has_gone_says_nothing"),
    (LinkFault::ShareAPlace, "a_place_whose_peer_has_gone_says_nothing"),
    (LinkFault::LoseBells, "no_bell_is_lost"),
    (LinkFault::IgnoreBells, "no_bell_is_lost"),
    (LinkFault::FoundTwice, "one_of_many_founds"),
    (LinkFault::FoundTwice, "a_member_keeps_the_group"),
    (LinkFault::FoundInTwoSteps, "one_of_many_founds_at_once"),
    (LinkFault::LetTheLastWin, "one_ballot_wins_a_view"),
    (LinkFault::SettleInTwoSteps, "one_ballot_wins_a_race"),
    (LinkFault::SettleOldViews, "an_older_view_is_refused"),
    (LinkFault::ForgetGenerations, "who_founds_after_a_death_is_one"),
    (LinkFault::RememberTheDead, "who_founds_after_a_death_is_one"),
    (LinkFault::ForgetWhoEntered, "a_member_keeps_the_group"),
    (LinkFault::KeepWhoLeft, "a_member_keeps_the_group"),
    (LinkFault::KeepWhoLeft, "only_members_keep_the_group"),
    (LinkFault::ClearWhoCameLater, "the_excluded_keep_no_group"),
    (LinkFault::ClearNobody, "the_excluded_keep_no_group"),
    (LinkFault::HaltTheRunning, "who_runs_is_not_halted"),
    (LinkFault::HaltNobody, "who_is_stopped_is_halted"),
];

fn check(name: &str, seed: u64) -> bool {
    let clauses = clauses::<ModelRig>();
    let clause = clauses.iter().find(|clause| clause.name == name).expect("there is such a clause");
    catch_unwind(AssertUnwindSafe(|| (clause.check)(seed))).is_ok()
}

#[test]
fn correct_link_passes_every_clause() {
    plant(LinkFault::None);
    for clause in clauses::<ModelRig>() {
        for seed in 0..2 * ModelRig::SEEDS {
            (clause.check)(seed);
        }
    }
}

#[test]
fn suite_detects_every_planted_fault() {
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<_> = PLANTED
        .iter()
        .filter(|(fault, clause)| {
            plant(*fault);
            (0..4).all(|seed| check(clause, seed))
        })
        .collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn clause_names_are_unique() {
    let mut names: Vec<&str> = clauses::<ModelRig>().iter().map(|clause| clause.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
