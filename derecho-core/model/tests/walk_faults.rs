//! Errors in the walk of a subgroup are found, each by the property named for it. One of them is
//! planted into derecho-core for the whole process, so all of them are one test.
#![cfg(model)]

use derecho_model::walk::{
    AGREEMENT, BEGUN, COME_TO_CUT, Course, ONE_START, Part, RESTS, SEQUENCE, Slip, walk,
};
use derecho_model::{Fault, plant};

const MOST: usize = 3_000_000;

const A: Part = (0, true, true);
const B: Part = (1, true, true);
const SENDS_A: Part = (0, false, true);
const READS_B: Part = (1, true, false);
const READS_C: Part = (2, true, false);

const GOES: &[&[Part]] = &[&[A, B], &[A]];
const COMES: &[&[Part]] = &[&[A, READS_B], &[A, READS_B, READS_C]];
const SENDER: &[&[Part]] = &[&[SENDS_A, READS_B], &[A, READS_B]];
const READER: &[&[Part]] = &[&[A], &[A, READS_B]];
const OVER: &[&[Part]] = &[&[A, READS_B], &[A, READS_C]];

fn course(nodes: usize, layouts: &'static [&'static [Part]]) -> Course {
    Course { nodes, layouts, messages: 1, views: 1, crashes: 0, doubts: 0, slip: None }
}

#[test]
fn planted_errors_in_layout_changes_are_found() {
    let cases = [
        (Slip::DebtEarly, course(3, COMES), BEGUN),
        (Slip::CompleteEarly, course(2, SENDER), BEGUN),
        (Slip::NotStopped, course(2, GOES), AGREEMENT),
        (Slip::BeyondTheEnd, Course { views: 2, ..course(2, GOES) }, SEQUENCE),
        (Slip::Boasts, course(2, GOES), COME_TO_CUT),
        (Slip::NotBegunKnows, course(2, READER), ONE_START),
        (Slip::LinesOnce, course(3, OVER), RESTS),
        (Slip::CutIgnored, course(2, GOES), AGREEMENT),
        (Slip::OwnStart, course(2, GOES), SEQUENCE),
        (Slip::EndsDecidedAnew, Course { views: 2, ..course(3, OVER) }, SEQUENCE),
    ];
    for (slip, course, property) in cases {
        let found = walk(Course { slip: Some(slip), ..course }, MOST);
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
