//! The multicast figures: Spindle's, and Derecho's small messages.
//!
//! Owns: the parts common to them: senders, optimisation stages, and parallel runs. Never does:
//! hold a formula for a result.

pub(crate) mod batching;
pub(crate) mod delays;
pub(crate) mod finals;
pub(crate) mod levels;
pub(crate) mod prices;
pub(crate) mod subgroups;
pub(crate) mod windows;

use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};
use derecho_sim::CostModel;

use crate::keeping::StorageMode;
use crate::member::MulticastParameters;
use crate::multicast_test_bed::{MulticastOutcome, MulticastTestSetup, run_all};
use crate::{Figure, FigureError, Network, Options, Series};

/// Default bytes of a message: the paper's 10 KB.
const BYTES: usize = 10 * 1024;
/// The paper's window for these messages.
const WINDOW: usize = 100;
/// Bandwidth of a port in GB/s: the paper's measure of utilisation.
const PORT: f64 = 12.5;
/// Share from which on a number of the paper counts as met.
const ENOUGH: f64 = 0.8;

/// Choice of the sending members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Senders {
    All,
    Half,
    One,
}

impl Senders {
    const EACH: [Senders; 3] = [Senders::All, Senders::Half, Senders::One];

    fn of(self, members: usize) -> usize {
        match self {
            Senders::All => members,
            Senders::Half => members / 2,
            Senders::One => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Senders::All => "all senders",
            Senders::Half => "half senders",
            Senders::One => "one sender",
        }
    }
}

/// Set of enabled optimisations; the paper adds them one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Optimisations {
    Baseline,
    Delivery,
    Receive,
    /// All of batching.
    Batching,
    Nulls,
    /// Everything.
    Full,
    /// Everything, but messages are copied in and out.
    Copying,
}

impl Optimisations {
    fn name(self) -> &'static str {
        match self {
            Optimisations::Baseline => "baseline",
            Optimisations::Delivery => "delivery",
            Optimisations::Receive => "delivery, receive",
            Optimisations::Batching => "batching",
            Optimisations::Nulls => "batching, nulls",
            Optimisations::Full => "everything",
            Optimisations::Copying => "everything, copied",
        }
    }

    /// Returns the disabled optimisations: all named ones except those of this stage. The paper's
    /// own baseline builds messages in place, so copies are not part of it.
    fn ablation(self) -> Ablation {
        let on: &[&str] = match self {
            Optimisations::Baseline => &["in-place"],
            Optimisations::Delivery => &["in-place", "delivery-batching"],
            Optimisations::Receive => &["in-place", "delivery-batching", "receive-batching"],
            Optimisations::Batching => {
                &["in-place", "delivery-batching", "receive-batching", "send-batching"]
            }
            Optimisations::Nulls => {
                &["in-place", "delivery-batching", "receive-batching", "send-batching", "nulls"]
            }
            Optimisations::Full => return Ablation::default(),
            Optimisations::Copying => return Ablation { in_place: true, ..Ablation::default() },
        };
        let mut ablation = Ablation::all();
        for name in on {
            *ablation.named(name).expect("the names are the core's") = false;
        }
        ablation
    }
}

/// Runs of one figure.
struct Bench<'a> {
    options: &'a Options,
    costs: CostModel,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> Result<Bench<'a>, FigureError> {
        Bench::on(options, Network::Spindle)
    }

    /// Creates the bench on the cluster of a paper, unless this product's own prices are wanted.
    fn on(options: &'a Options, papers: Network) -> Result<Bench<'a>, FigureError> {
        let costs = options.costs.network(papers).costs(&options.prices)?;
        Ok(Bench { options, costs })
    }

    /// Returns the sizes of groups: the paper has every size from 2 to 16.
    fn sizes(&self) -> &'static [usize] {
        if self.options.quick { &[2, 4, 8] } else { &[2, 4, 8, 12, 16] }
    }

    /// Returns the greatest size.
    fn most(&self) -> usize {
        *self.sizes().last().expect("the list of sizes is not empty")
    }

    /// Returns the setup of a run with the paper's message size and window.
    fn setup(&self, members: usize, senders: usize, stage: Optimisations) -> MulticastTestSetup {
        MulticastTestSetup {
            costs: self.costs.clone(),
            seed: self.options.seed,
            parameters: MulticastParameters {
                members,
                senders,
                subgroups: 1,
                active: 1,
                bytes: BYTES,
                window: WINDOW,
                terms: SubgroupConfig {
                    level: DeliveryGuarantee::Atomic,
                    ablation: stage.ablation(),
                },
                keeping: StorageMode::Nothing,
            },
            delay: None,
            warm_windows: if self.options.quick { 0.5 } else { 1.0 },
            least_ns: if self.options.quick { 1_000_000 } else { 8_000_000 },
            least_windows: if self.options.quick { 0.5 } else { 1.0 },
        }
    }

    /// Adds a line for each setup of a family, over the sizes of groups. Returns all outcomes, line
    /// by line.
    fn sweep<T: Copy>(
        &self,
        lines: &[T],
        setup: impl Fn(T, usize) -> MulticastTestSetup,
    ) -> Result<Vec<Vec<MulticastOutcome>>, FigureError> {
        self.sweep_over(self.sizes(), lines, setup)
    }

    /// Adds the lines of a family over another quantity.
    fn sweep_over<X: Copy, T: Copy>(
        &self,
        xs: &[X],
        lines: &[T],
        setup: impl Fn(T, X) -> MulticastTestSetup,
    ) -> Result<Vec<Vec<MulticastOutcome>>, FigureError> {
        let setup = &setup;
        let setups: Vec<MulticastTestSetup> =
            lines.iter().flat_map(|&line| xs.iter().map(move |&x| setup(line, x))).collect();
        let outcomes = run_all(&setups)?;
        Ok(outcomes.chunks(xs.len().max(1)).map(<[MulticastOutcome]>::to_vec).collect())
    }

    /// Returns a line through outcomes, over the sizes of groups.
    fn line(
        &self,
        name: String,
        outcomes: &[MulticastOutcome],
        what: impl Fn(&MulticastOutcome) -> f64,
    ) -> Series {
        let mut line = Series::new(name);
        for (&size, outcome) in self.sizes().iter().zip(outcomes) {
            line.push(size as f64, what(outcome));
        }
        line
    }

    /// Notes the prices with which a figure was made.
    fn sign(&self, figure: &mut Figure) {
        let file = match self.options.costs {
            crate::Costs::Paper => "paper.toml: posts, wire and predicates as the paper gives them",
            crate::Costs::Ours => "ours.toml: the paper's network, this product's measured code",
        };
        figure.note(format!(
            "Prices: {file}. Messages of {BYTES} bytes and a window of {WINDOW} unless said; \
             atomic delivery. What the paper achieved counts as met from 80 % of it on, what it \
             found within 80 % to 125 %. GB/s: data delivered to \
             one member; its own part of it does not come through its port."
        ));
    }
}

/// Whether a number of the paper, which is neither a bound nor an achievement, was reproduced.
fn near(measured: f64, paper: f64) -> bool {
    (ENOUGH..=1.0 / ENOUGH).contains(&(measured / paper))
}

/// Returns the GB/s of an outcome.
fn gigabytes(outcome: &MulticastOutcome) -> f64 {
    outcome.gigabytes
}

/// Returns the mean ratio of `better` to `worse`.
fn mean_ratio(
    better: &[MulticastOutcome],
    worse: &[MulticastOutcome],
    what: impl Fn(&MulticastOutcome) -> f64,
) -> f64 {
    let ratios = better.iter().zip(worse).map(|(better, worse)| what(better) / what(worse));
    ratios.sum::<f64>() / better.len().max(1) as f64
}

/// Returns the least and the greatest value of a line.
fn span(outcomes: &[MulticastOutcome], what: impl Fn(&MulticastOutcome) -> f64) -> (f64, f64) {
    outcomes
        .iter()
        .map(what)
        .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

/// Returns the share of its port's bandwidth that a member of a group delivers from the others.
fn utilisation(outcome: &MulticastOutcome, members: usize) -> f64 {
    outcome.gigabytes * (members as f64 - 1.0) / members as f64 / PORT
}
