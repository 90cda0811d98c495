//! The walk of a subgroup from layout to layout, with a view change in between at every point.
#![cfg(model)]

use derecho_model::walk::{LayoutPart, WalkSetting, walk};

/// Maximum number of states: enough for the largest of these walks, with a margin.
const MOST: usize = 6_000_000;

const A: LayoutPart = (0, true, true);
const B: LayoutPart = (1, true, true);
const C: LayoutPart = (2, true, true);
const READS_B: LayoutPart = (1, true, false);
const READS_C: LayoutPart = (2, true, false);
const SENDS_A: LayoutPart = (0, false, true);

const COMES: &[&[LayoutPart]] = &[&[A, READS_B], &[A, READS_B, READS_C]];
const GOES: &[&[LayoutPart]] = &[&[A, B], &[A]];

fn holds(name: &str, course: WalkSetting) {
    let begun = std::time::Instant::now();
    let found = walk(course, MOST);
    println!("{name}: {found:?}, {:.1} s", begun.elapsed().as_secs_f32());
    assert!(found.failure.is_none() && found.complete, "{name}");
    assert!(found.quiet > 0 && (course.views == 0 || found.met > 0), "{name} shows nothing");
}

fn course(nodes: usize, layouts: &'static [&'static [LayoutPart]]) -> WalkSetting {
    WalkSetting { nodes, layouts, messages: 1, views: 0, crashes: 0, doubts: 0, planted: None }
}

#[test]
fn layout_changes_are_correct_without_view_change() {
    holds("goes", WalkSetting { messages: 2, ..course(2, GOES) });
    holds("comes", course(3, COMES));
}

#[test]
fn layout_changes_are_correct_with_one_view_change() {
    let one = |layouts| WalkSetting { views: 1, crashes: 1, doubts: 1, ..course(2, layouts) };
    holds("goes", one(GOES));
    holds("sender comes", one(&[&[A], &[A, B]]));
    holds("reader comes", one(&[&[A], &[A, READS_B]]));
    holds("begins to send", one(&[&[A, READS_B], &[A, B]]));
    holds("begins to read", one(&[&[SENDS_A, B], &[A, B]]));
    holds("changes over", one(&[&[A], &[B]]));
    holds("comes and goes", one(&[&[A], &[A, READS_B], &[READS_B]]));
}

#[test]
fn layout_changes_are_correct_with_two_view_changes() {
    let two = |layouts| WalkSetting { views: 2, messages: 0, ..course(2, layouts) };
    holds("goes", two(GOES));
    holds("sender comes", two(&[&[A], &[A, B]]));
    holds("reader comes", two(&[&[A], &[A, READS_B]]));
    holds("changes over", two(&[&[A], &[B]]));
}

#[test]
fn layout_changes_of_three_members_are_correct_with_view_change() {
    let one = |layouts| WalkSetting { views: 1, messages: 0, ..course(3, layouts) };
    holds("comes", one(COMES));
    holds("goes", one(&[&[A, READS_B, READS_C], &[A, READS_B]]));
    holds("changes over", one(&[&[A, READS_B], &[A, READS_C]]));
}

/// Longer walks: a third sender, two views for a reader that begins late, one more message for
/// three members.
#[test]
#[ignore = "takes some minutes"]
fn longer_layout_changes_are_correct_with_view_changes() {
    let few = WalkSetting { messages: 0, ..course(3, &[&[A, READS_B], &[A, READS_B, C]]) };
    holds("sender comes", WalkSetting { views: 1, ..few });
    let late = course(2, &[&[SENDS_A, B], &[A, B]]);
    holds("begins to read", WalkSetting { views: 2, messages: 0, ..late });
    holds("comes", WalkSetting { views: 1, ..course(3, COMES) });
    holds(
        "changes over",
        WalkSetting { views: 1, crashes: 1, ..course(3, &[&[A, READS_B], &[A, READS_C]]) },
    );
}
