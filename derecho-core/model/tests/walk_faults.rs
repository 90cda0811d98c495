//! Errors in the walk of a subgroup are found, each by the property named for it. One of them is
//! planted into derecho-core for the whole process, so all of them are one test.
#![cfg(model)]

use derecho_model::walk::{
    AGREEMENT, BEGUN, COME_TO_CUT, LayoutPart, ONE_START, PlantedError, RESTS, SEQUENCE,
    WalkSetting, walk,
};
use derecho_model::{Fault, plant};

const MOST: usize = 3_000_000;

const A: LayoutPart = (0, true, true);
const B: LayoutPart = (1, true, true);
const SENDS_A: LayoutPart = (0, false, true);
const READS_B: LayoutPart = (1, true, false);
const READS_C: LayoutPart = (2, true, false);

const GOES: &[&[LayoutPart]] = &[&[A, B], &[A]];
const COMES: &[&[LayoutPart]] = &[&[A, READS_B], &[A, READS_B, READS_C]];
const SENDER: &[&[LayoutPart]] = &[&[SENDS_A, READS_B], &[A, READS_B]];
const READER: &[&[LayoutPart]] = &[&[A], &[A, READS_B]];
const OVER: &[&[LayoutPart]] = &[&[A, READS_B], &[A, READS_C]];

fn course(nodes: usize, layouts: &'static [&'static [LayoutPart]]) -> WalkSetting {
    WalkSetting { nodes, layouts, messages: 1, views: 1, crashes: 0, doubts: 0, planted: None }
}

#[test]
fn planted_errors_in_layout_changes_are_found() {
    let cases = [
        (PlantedError::DebtEarly, course(3, COMES), BEGUN),
        (PlantedError::CompleteEarly, course(2, SENDER), BEGUN),
        (PlantedError::NotStopped, course(2, GOES), AGREEMENT),
        (PlantedError::BeyondTheEnd, WalkSetting { views: 2, ..course(2, GOES) }, SEQUENCE),
        (PlantedError::Boasts, course(2, GOES), COME_TO_CUT),
        (PlantedError::NotBegunKnows, course(2, READER), ONE_START),
        (PlantedError::LinesOnce, course(3, OVER), RESTS),
        (PlantedError::CutIgnored, course(2, GOES), AGREEMENT),
        (PlantedError::OwnStart, course(2, GOES), SEQUENCE),
        (PlantedError::EndsDecidedAnew, WalkSetting { views: 2, ..course(3, OVER) }, SEQUENCE),
    ];
    for (slip, course, property) in cases {
        let found = walk(WalkSetting { planted: Some(slip), ..course }, MOST);
        let failure = found.failure.as_ref().map_or("nothing", |failure| failure.0);
        println!("{slip:?}: {} states, {failure}", found.states);
        assert_eq!(failure, property, "{slip:?}");
    }
    plant(Some(Fault::LateUncounted));
    let found = walk(course(3, COMES), MOST);
    plant(None);
    let failure = found.failure.as_ref().map_or("nothing", |failure| failure.0);
    println!("LateUncounted: {} states, {failure}", found.states);
    assert_eq!(failure, SEQUENCE, "a reader that has not begun is counted");
}
