//! Proof that each clause of the suite can fail: a model that breaks it is detected, a correct
//! one passes.

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use link_conformance::{Rig, clauses};
use model::{Fault, ModelRig, plant};

/// Every fault and the clause that must detect it.
const PLANTED: &[(Fault, &str)] = &[
    (Fault::MeetTwice, "nodes_meet"),
    (Fault::ReorderWrites, "writes_become_visible_in_order"),
    (Fault::ReorderWrites, "order_holds_while_many_writes_are_under_way"),
    (Fault::ReorderWrites, "a_counter_guards_the_bytes_before_it"),
    (Fault::TakeShortWritesLate, "a_counter_guards_the_bytes_before_it"),
    (Fault::TearWords, "words_are_never_torn"),
    (Fault::LoseWrites, "what_is_posted_arrives"),
    (Fault::LoseWrites, "a_counter_guards_the_bytes_before_it"),
    (Fault::LoseWrites, "a_thousand_regions"),
    (Fault::LoseWrites, "opening_and_closing_goes_on_for_ever"),
    (Fault::AcceptEarlyWrites, "a_write_before_ready_is_refused"),
    (Fault::AcceptAnyRange, "what_lies_outside_is_refused"),
    (Fault::LoseNotes, "many_notes_arrive"),
    (Fault::LoseNotes, "notes_and_regions_keep_their_order"),
    (Fault::LoseNotes, "survivors_go_on"),
    (Fault::ReorderNotes, "notes_and_regions_keep_their_order"),
    (Fault::ReorderNotes, "many_notes_arrive"),
    (Fault::AcceptLongNotes, "notes_have_a_limit"),
    (Fault::SpeakAfterTheEnd, "a_death_is_the_last_event"),
    (Fault::SpeakAfterTheEnd, "a_leave_is_the_last_event"),
    (Fault::CallDeathALeave, "a_death_is_the_last_event"),
    (Fault::CallLeaveALoss, "a_leave_is_the_last_event"),
    (Fault::AcceptTheDead, "a_death_is_the_last_event"),
    (Fault::ThawTheDead, "replicas_of_the_dead_are_frozen"),
    (Fault::ForgetLateJoiners, "a_late_joiner_is_told_of_what_is_open"),
    (Fault::ShowDirtyRegions, "a_replica_appears_zeroed"),
    (Fault::ReuseNames, "names_are_not_reused"),
    (Fault::OverwriteClosed, "a_closed_region_stays_readable"),
    (Fault::FinishReadsEarly, "reads_complete_in_order_and_are_fresh"),
    (Fault::ReorderReads, "reads_complete_in_order_and_are_fresh"),
    (Fault::Miscount, "writes_reads_and_notes_are_counted"),
    (Fault::NeverRing, "a_ring_wakes_a_sleeper"),
    (Fault::RingTheWaking, "a_ring_wakes_a_sleeper"),
    (Fault::HintEverybody, "a_sleeper_is_woken_for_what_it_wants"),
    (Fault::IgnoreHints, "a_sleeper_is_woken_for_what_it_wants"),
    (Fault::NeverRing, "a_sleeper_is_woken_for_what_it_wants"),
    (Fault::IgnoreBells, "a_bell_wakes_a_sleeper"),
    (Fault::RingBellsOfTheWaking, "a_bell_wakes_a_sleeper"),
    (Fault::ForgetTheOwnBell, "a_bell_wakes_a_sleeper"),
    (Fault::ShareAPlace, "a_bell_wakes_a_sleeper"),
    (Fault::RingTheGone, "a_place_whose_peer_has_gone_says_nothing"),
    (Fault::ShareAPlace, "a_place_whose_peer_has_gone_says_nothing"),
    (Fault::LoseBells, "no_bell_is_lost"),
    (Fault::IgnoreBells, "no_bell_is_lost"),
    (Fault::FoundTwice, "one_of_many_founds"),
    (Fault::FoundTwice, "a_member_keeps_the_group"),
    (Fault::FoundInTwoSteps, "one_of_many_founds_at_once"),
    (Fault::LetTheLastWin, "one_ballot_wins_a_view"),
    (Fault::SettleInTwoSteps, "one_ballot_wins_a_race"),
    (Fault::SettleOldViews, "an_older_view_is_refused"),
    (Fault::ForgetGenerations, "who_founds_after_a_death_is_one"),
    (Fault::RememberTheDead, "who_founds_after_a_death_is_one"),
    (Fault::ForgetWhoEntered, "a_member_keeps_the_group"),
    (Fault::KeepWhoLeft, "a_member_keeps_the_group"),
    (Fault::KeepWhoLeft, "only_members_keep_the_group"),
    (Fault::ClearWhoCameLater, "the_excluded_keep_no_group"),
    (Fault::ClearNobody, "the_excluded_keep_no_group"),
    (Fault::HaltTheRunning, "who_runs_is_not_halted"),
    (Fault::HaltNobody, "who_is_stopped_is_halted"),
];

fn check(name: &str, seed: u64) -> bool {
    let clauses = clauses::<ModelRig>();
    let clause = clauses.iter().find(|clause| clause.name == name).expect("there is such a clause");
    catch_unwind(AssertUnwindSafe(|| (clause.check)(seed))).is_ok()
}

#[test]
fn correct_link_passes_every_clause() {
    plant(Fault::None);
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
