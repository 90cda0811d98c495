//! Fuzz targets: decoders of untrusted bytes, with checks that must hold for every input.
//!
//! Owns: the targets, the checks, and the limits on memory and time of an input. Never does: choose
//! inputs; the command (`mutate`), libFuzzer (`libfuzzer/`) and the test of the corpus do.
//!
//! ```text
//!  idl      preprocessor, parser, lowering, generator      text of a file
//!  cdr      XCDR1 and XCDR2, derived and run-time types    kind, encoding, body (or a payload)
//!  objects  type identifiers and type objects              options, TypeObjects
//!  assign   assignability of two types                     size of the first, TypeObjects twice
//!  samples  text and JSON of samples                       kind, text
//!  profiles QoS profiles and applications in XML           text of a file
//!  link     packets of the rendezvous of the link          a packet
//!  notes    control messages of peers to a node            frames: node, length, note
//!  group    messages of nodes to a member of a group       mode, frames: node, length, message
//!  rows     streams and rows in a peer's memory            whose header, then words
//!  logs     files of a log                                 frames: file, length, part of it
//! ```

mod assignability;
mod cdr;
mod compiler;
mod frames;
mod group;
mod kinds;
mod link;
mod logs;
mod meter;
mod mutate;
mod notes;
mod objects;
mod outcome;
mod profiles;
mod rows;
mod samples;

use std::time::{Duration, Instant};

pub use frames::frame;
pub use logs::log_of;
pub use mutate::{Mutator, Random};
pub use outcome::Outcome;

/// Memory that an input may use beyond [`MEMORY_PER_BYTE`] times its size.
const MEMORY: isize = 64 << 20;
/// Memory per byte of input: one byte may encode a part of a type, with names and places.
const MEMORY_PER_BYTE: isize = 4096;
/// Time limit: long for a small input on a busy machine, short enough to detect a hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// A decoder of bytes with its checks.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name, also that of its folder in the corpus.
    pub name: &'static str,
    /// Words that have a meaning for the target.
    pub words: &'static [&'static str],
    /// Maximum length of an input.
    pub longest: usize,
    check: fn(&[u8]) -> Outcome,
}

/// All targets.
pub const TARGETS: [Target; 11] = [
    Target { name: "idl", words: compiler::WORDS, longest: 8 << 10, check: compiler::check },
    Target { name: "cdr", words: &[], longest: 4 << 10, check: cdr::check },
    Target { name: "objects", words: &[], longest: 8 << 10, check: objects::check },
    Target { name: "assign", words: &[], longest: 8 << 10, check: assignability::check },
    Target { name: "samples", words: samples::WORDS, longest: 4 << 10, check: samples::check },
    Target { name: "profiles", words: profiles::WORDS, longest: 8 << 10, check: profiles::check },
    Target { name: "link", words: &[], longest: 2 << 10, check: link::check },
    Target { name: "notes", words: &[], longest: 2 << 10, check: notes::check },
    Target { name: "group", words: &[], longest: 4 << 10, check: group::check },
    Target { name: "rows", words: &[], longest: 8 << 10, check: rows::check },
    Target { name: "logs", words: &[], longest: 8 << 10, check: logs::check },
];

impl Target {
    /// Returns the target of this name.
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Runs the target on an input, and returns its outcome.
    ///
    /// # Panics
    /// If a check fails, or if the input uses too much memory or time.
    pub fn run(&self, bytes: &[u8]) -> Outcome {
        let (meter, started) = (meter::AllocationMeter::start(), Instant::now());
        let outcome = (self.check)(bytes);
        let (memory, time) = (meter.most(), started.elapsed());
        let allowed =
            MEMORY + MEMORY_PER_BYTE * isize::try_from(bytes.len()).unwrap_or(isize::MAX >> 16);
        assert!(
            memory < allowed,
            "{memory} bytes of memory were in use for {} of input",
            bytes.len()
        );
        assert!(time < PATIENCE, "the input took {time:?}");
        outcome
    }
}

/// Entry point for libFuzzer: runs the target of this name.
pub fn fuzz(name: &str, bytes: &[u8]) {
    Target::named(name).expect("a target of that name").run(bytes);
}
