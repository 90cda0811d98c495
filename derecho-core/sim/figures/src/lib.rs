//! The papers' experiments, run by the product's own code in virtual time.
//!
//! Owns: the experiments, the prices of the papers' networks (`networks/*.toml`) and the output
//! formats of figures. Never does: compute a point. Points come from executed turns of machines
//! over simulated links, from the links' counters and from the virtual clock. Prices come from the
//! price files, and none was tuned to a claim.
//!
//! ```
//! let options = derecho_figures::Options { quick: true, ..Default::default() };
//! let figure = derecho_figures::run("sst-8", &options)?;
//! println!("{}", figure.to_table());
//! std::fs::write(std::env::temp_dir().join("sst-8.svg"), figure.to_svg()?).ok();
//! # std::fs::remove_file(std::env::temp_dir().join("sst-8.svg")).ok();
//! # Ok::<(), derecho_figures::FigureError>(())
//! ```

mod experiments;
mod figure;
mod keeping;
mod member;
mod multicast_test_bed;
mod network;
mod parallel;
mod plot;
mod raw;
mod sst_test_bed;
mod views;

use std::fmt;

use experiments::spindle::{batching, delays, finals, levels, prices, subgroups, windows};
use experiments::{counting, detection, routing, throughput, views as changes};

pub use figure::{ClaimValue, Figure, Series};
pub use network::{Costs, Network};

/// Options of an experiment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// True for fewer points and fewer rounds: seconds instead of minutes.
    pub quick: bool,
    /// Seed of all randomness: random waits, and the assignment of ranks.
    pub seed: u64,
    /// Price file of the multicast figures.
    pub costs: Costs,
    /// Prices that replace those in the files: TOML, as in a section of them.
    pub prices: String,
}

impl Default for Options {
    fn default() -> Options {
        Options { quick: false, seed: 1, costs: Costs::Paper, prices: String::new() }
    }
}

type Experiment = fn(&Options) -> Result<Figure, FigureError>;

/// The experiments: name, subject, source in the papers.
const EXPERIMENTS: &[(&str, &str, Experiment)] = &[
    ("sst-3", "parallel RDMA reads and writes (SST, figure 3)", throughput::figure_3),
    ("sst-table4", "the simplest predicate (SST, table 4)", detection::table_4),
    ("sst-complex", "a predicate over all rows (SST, 5.5.2)", detection::complex),
    ("sst-5a", "SST-reads by predicate complexity (SST, figure 5a)", detection::figure_5a),
    ("sst-5b", "SST-writes by predicate complexity (SST, figure 5b)", detection::figure_5b),
    ("sst-6", "latency by row size (SST, figure 6)", detection::figure_6),
    ("sst-7", "throughput by predicate complexity (SST, figure 7)", throughput::figure_7),
    ("sst-8", "distributed counting (SST, figure 8)", counting::figure_8),
    ("sst-9", "routing (SST, figure 9)", routing::figure_9),
    ("sst-table5", "nodes on different racks (SST, table 5)", counting::table_5),
    ("sst-11", "old hardware (SST, figure 11)", counting::figure_11),
    (
        "spindle-1",
        "a write by its size, and posts: the prices (Spindle, figure 1)",
        prices::figure_1,
    ),
    ("spindle-3", "opportunistic batching (Spindle, figure 3)", batching::figure_3),
    ("spindle-4", "messages a second by their size (Spindle, figure 4)", batching::figure_4),
    ("spindle-5", "batching stage by stage (Spindle, figure 5)", batching::figure_5),
    ("spindle-6", "window sizes (Spindle, figure 6)", windows::figure_6),
    ("spindle-7", "sizes of batches (Spindle, figure 7)", batching::figure_7),
    ("spindle-8", "inactive subgroups, baseline (Spindle, figure 8)", subgroups::figure_8),
    ("spindle-9", "inactive subgroups, batching (Spindle, figure 9)", subgroups::figure_9),
    ("spindle-10", "delayed senders (Spindle, figure 10)", delays::figure_10),
    ("spindle-11", "nulls without delayed senders (Spindle, figure 11)", delays::figure_11),
    ("spindle-12", "posting at the end (Spindle, figure 12)", finals::figure_12),
    ("spindle-13", "several active subgroups (Spindle, figure 13)", subgroups::figure_13),
    ("spindle-14", "a copy by its size: the prices (Spindle, figure 14)", prices::figure_14),
    ("spindle-15", "messages copied in and out (Spindle, figure 15)", finals::figure_15),
    ("spindle-16", "throughput with everything (Spindle, figure 16)", finals::figure_16),
    ("spindle-17", "latency with everything (Spindle, figure 17)", finals::figure_17),
    ("spindle-18", "a DDS topic by its QoS level (Spindle, figure 18)", levels::figure_18),
    ("derecho-2", "small messages, raw (Derecho, figure 2)", finals::small_messages),
    (
        "derecho-5",
        "bandwidth as nodes come, leave and crash (Derecho, figure 5a)",
        changes::figure_5,
    ),
    ("derecho-6", "timelines of a multicast and of views (Derecho, 5b, 6)", changes::figure_6),
    ("derecho-sst", "updates shared by 4 and 16 nodes (Derecho, 3.2)", throughput::derecho),
    ("view-change", "the time without deliveries in a view change", changes::view_change),
];

/// Returns the names of all figures, with the subject of each.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS.iter().map(|&(name, shows, _)| (name, shows))
}

/// Runs an experiment.
pub fn run(name: &str, options: &Options) -> Result<Figure, FigureError> {
    match EXPERIMENTS.iter().find(|&&(own, ..)| own == name) {
        Some((.., experiment)) => experiment(options),
        None => Err(FigureError::Unknown(name.into())),
    }
}

/// Reason why there is no figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FigureError {
    /// No figure has this name.
    Unknown(String),
    /// The prices cannot be used; the text says why.
    Network(String),
    /// An experiment did not finish; the text says which one, and how far it came.
    Stuck(String),
    /// The picture could not be drawn.
    Picture(String),
}

impl fmt::Display for FigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FigureError::Unknown(name) => {
                write!(f, "there is no figure \"{name}\"; `squall sim figure all` runs every one")
            }
            FigureError::Network(text) => write!(f, "the prices cannot be used: {text}"),
            FigureError::Stuck(text) => write!(f, "the experiment did not end: {text}"),
            FigureError::Picture(text) => write!(f, "the picture could not be drawn: {text}"),
        }
    }
}

impl std::error::Error for FigureError {}
