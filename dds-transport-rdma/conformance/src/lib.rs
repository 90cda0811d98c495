//! Conformance suite that every link passes.
//!
//! Owns: one function for each clause of the contract in [`derecho_core::link`], over a [`LinkRig`]
//! that creates links and lets time pass. Never does: assume real time, threads or shared memory; a
//! simulated link runs the very same clauses. Abilities that a rig declares ([`LinkRig::parker`],
//! [`LinkRig::PARALLEL`]) are used in addition.
//!
//! ```ignore
//! link_conformance::link_conformance!(MyRig); // a #[test] for each clause
//! ```
//!
//! A clause fails by panicking. The suite's own tests run it over a link with planted faults, to
//! prove that each clause can fail.

use std::sync::Arc;

use derecho_core::link::{Evidence, Link, Parker};

pub mod arbiter;
pub mod bells;
pub mod departure;
pub mod notes;
pub mod reads;
pub mod regions;
pub mod sleep;
mod suite;
pub mod visibility;

pub use suite::{Random, Suite};

/// Creates links and lets time pass for them.
pub trait LinkRig {
    /// Link under test.
    type Link: Link;

    /// Number of seeds with which each clause is run.
    const SEEDS: u64 = 3;

    /// Whether one thread may store into an own region while another reads a replica of it: links
    /// over shared memory.
    const PARALLEL: bool = false;

    /// Creates `nodes` nodes that are about to meet. `seed` determines all random choices.
    fn new(nodes: usize, seed: u64) -> Self;

    /// Adds a node that joins; returns its number, one more than the last.
    fn join(&mut self) -> usize;

    /// Returns the link of a node that is neither killed nor gone.
    fn link(&mut self, node: usize) -> &mut Self::Link;

    /// Lets a little time pass.
    fn pass(&mut self);

    /// Kills a node without a goodbye.
    fn kill(&mut self, node: usize);

    /// Makes a node leave.
    fn leave(&mut self, node: usize);

    /// Evidence with which a node's death may be reported.
    fn kill_evidence(&self) -> &[Evidence] {
        &[Evidence::Certain, Evidence::Uncertain]
    }

    /// Number of [passes](LinkRig::pass) after which an event that has not happened will not
    /// happen.
    fn patience(&self) -> usize {
        10_000
    }

    /// Stops or continues a node. Returns false if this rig cannot stop a node.
    fn halt(&mut self, node: usize, halted: bool) -> bool {
        let _ = (node, halted);
        false
    }

    /// Returns the parker of the node's driver, if the link has one and real threads may use it.
    fn parker(&mut self, node: usize) -> Option<Arc<dyn Parker>> {
        let _ = node;
        None
    }
}

/// Clause of the contract.
pub struct Clause {
    /// Name of the clause.
    pub name: &'static str,
    /// Checks the clause for one seed.
    pub check: fn(u64),
}

/// Returns all clauses, for links of this rig.
pub fn clauses<R: LinkRig>() -> Vec<Clause> {
    __clauses!(list R)
}

/// Checks all clauses with all seeds.
pub fn run_all<R: LinkRig>() {
    for clause in clauses::<R>() {
        for seed in 0..R::SEEDS {
            (clause.check)(seed);
        }
    }
}

/// Creates a `#[test]` for each clause, for links of one rig.
#[macro_export]
macro_rules! link_conformance {
    ($rig:ty) => {
        $crate::__clauses!(tests $rig);
    };
}

/// The only list of clauses.
#[doc(hidden)]
#[macro_export]
macro_rules! __clauses {
    (@tests $rig:ty; $($module:ident :: $name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                for seed in 0..<$rig as $crate::LinkRig>::SEEDS {
                    $crate::$module::$name::<$rig>(seed);
                }
            }
        )*
    };
    (@list $rig:ty; $($module:ident :: $name:ident,)*) => {
        vec![$($crate::Clause { name: stringify!($name), check: $crate::$module::$name::<$rig> }),*]
    };
    ($mode:ident $rig:ty) => {
        $crate::__clauses! { @$mode $rig;
            visibility::nodes_meet,
            visibility::writes_become_visible_in_order,
            visibility::order_holds_while_many_writes_are_under_way,
            visibility::words_are_never_torn,
            visibility::a_counter_guards_the_bytes_before_it,
            visibility::what_is_posted_arrives,
            regions::a_write_before_ready_is_refused,
            regions::what_lies_outside_is_refused,
            regions::a_replica_appears_zeroed,
            regions::a_late_joiner_is_told_of_what_is_open,
            regions::a_closed_region_stays_readable,
            regions::an_own_handle_outlives_the_region,
            regions::names_are_not_reused,
            regions::a_thousand_regions,
            regions::opening_and_closing_goes_on_for_ever,
            notes::notes_and_regions_keep_their_order,
            notes::notes_have_a_limit,
            notes::many_notes_arrive,
            reads::reads_complete_in_order_and_are_fresh,
            reads::writes_reads_and_notes_are_counted,
            departure::a_death_is_the_last_event,
            departure::a_leave_is_the_last_event,
            departure::replicas_of_the_dead_are_frozen,
            departure::survivors_go_on,
            sleep::a_ring_wakes_a_sleeper,
            sleep::no_wake_up_is_lost,
            sleep::an_event_wakes_a_sleeper,
            sleep::a_sleeper_is_woken_for_what_it_wants,
            bells::a_bell_wakes_a_sleeper,
            bells::a_place_whose_peer_has_gone_says_nothing,
            bells::no_bell_is_lost,
            arbiter::one_of_many_founds,
            arbiter::one_of_many_founds_at_once,
            arbiter::one_ballot_wins_a_view,
            arbiter::one_ballot_wins_a_race,
            arbiter::an_older_view_is_refused,
            arbiter::who_founds_after_a_death_is_one,
            arbiter::a_member_keeps_the_group,
            arbiter::only_members_keep_the_group,
            arbiter::the_excluded_keep_no_group,
            arbiter::who_runs_is_not_halted,
            arbiter::who_is_stopped_is_halted,
        }
    };
}
