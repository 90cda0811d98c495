//! One life of a group, from a seed.
//!
//! Owns: the course of a life. Never does: end a life early because its group is lost; the rules
//! hold to the end.

use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use derecho_core::link::Evidence;
use derecho_sim::{Config, Random};

use crate::faults::Faults;
use crate::report::LifeReport;
use crate::world::{GroupKind, World};

/// Plan of a life: the same plan gives the same life, to the last word that lands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LifePlan {
    /// Seed of all randomness.
    pub seed: u64,
    /// Kind of the group.
    pub kind: GroupKind,
    /// Number of nodes at the start.
    pub nodes: usize,
    /// Permitted faults, in addition to joining and leaving nodes.
    pub faults: Faults,
    /// Length of the life in rounds of some twenty to a hundred microseconds each.
    pub rounds: usize,
    /// True if view changes follow each other, and faults are aimed at their steps.
    pub aimed: bool,
    /// True if readers become writers, and writers become pure readers, between any two rounds.
    pub toggles: bool,
    /// True if faults do not spare a networked group: most of these groups are lost.
    pub wild: bool,
}

impl LifePlan {
    /// Returns the usual life of this seed.
    pub fn new(seed: u64, kind: GroupKind) -> LifePlan {
        LifePlan {
            seed,
            kind,
            nodes: 3,
            faults: Faults::ALL,
            rounds: 60,
            aimed: false,
            toggles: false,
            wild: false,
        }
    }
}

impl fmt::Display for LifePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LifePlan { seed, kind, nodes, faults, aimed, toggles, wild, .. } = self;
        let kind = kind.name();
        let aimed = if *aimed { " --aimed" } else { "" };
        let toggles = if *toggles { " --toggles" } else { "" };
        let wild = if *wild { " --wild" } else { "" };
        write!(
            f,
            "--seed {seed} --group {kind} --nodes {nodes} --faults {faults}{aimed}{toggles}{wild}"
        )
    }
}

/// Returns the network configuration of a life.
fn config(plan: &LifePlan) -> Config {
    let mut config = Config::adversarial(plan.seed);
    let mut random = Random::new(plan.seed ^ 0x6e65_7477);
    // On one host the kernel knows of a crash at once; elsewhere that may take a while, and no node
    // can be sure.
    if plan.kind == GroupKind::Network && random.one_in(2) {
        config.evidence.crash = Some((Evidence::Uncertain, (50_000, 1_500_000)));
    }
    config
}

/// Runs a life. `read`: whether to keep a journal.
pub fn live(plan: LifePlan, read: bool) -> LifeReport {
    let mut world = World::empty(config(&plan), plan.kind);
    world.report.lives = 1;
    world.checker.borrow_mut().journal.kept = read;
    let panicked = catch(|| {
        world.prepare(plan.faults, plan.wild);
        world.populate(plan.nodes);
        // Otherwise faults may hit the founding.
        if world.random.one_in(2) {
            world.settle();
        }
        for _ in 0..plan.rounds {
            if plan.toggles {
                world.random_toggle();
            }
            match plan.aimed {
                true => world.aimed_round(plan.nodes),
                false => world.round(plan.nodes),
            }
            if world.is_guilty() {
                return;
            }
        }
        world.check();
    });
    world.checker.borrow_mut().journal.sum_up();
    if let Some(text) = panicked {
        world.checker.borrow_mut().record_violation("assertion", &text);
    }
    world.report()
}

thread_local! {
    /// Message of the panic that is being caught on this thread, if one is.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `run`, in which a panic is a possible result. Returns the panic's message.
fn catch(run: impl FnOnce()) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let caught = CAUGHT.with(|caught| match &mut *caught.borrow_mut() {
                Some(text) => {
                    *text = info.to_string();
                    true
                }
                None => false,
            });
            if !caught {
                before(info);
            }
        }));
    });
    CAUGHT.with(|caught| *caught.borrow_mut() = Some(String::new()));
    let end = panic::catch_unwind(AssertUnwindSafe(run));
    let text = CAUGHT.with(|caught| caught.borrow_mut().take());
    end.is_err().then(|| text.unwrap_or_default())
}
