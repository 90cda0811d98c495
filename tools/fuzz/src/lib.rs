//! What reads bytes that others wrote, as functions of bytes that check what must hold of any.
//!
//! Owns: the targets, what is checked, and how much memory and time an input may take. Never does: choose inputs;
//! that is the part of the command (`mutate`), of libFuzzer (`libfuzzer/`) and of the test of the corpus.
//!
//! ```text
//!  idl      preprocessor, parser, lowering, generator          text of a file
//!  cdr      XCDR1 and XCDR2, derived and of run time            kind, encoding, body (or a whole payload)
//!  objects  type identifiers and type objects                   options, TypeObjects
//!  assign   assignability of two types                          size of the first, TypeObjects, TypeObjects
//!  samples  text and JSON of samples                            kind, text
//!  profiles QoS profiles and applications in XML                text of a file
//!  link     packets of the rendezvous of the link               a packet
//!  notes    notes of peers to a node                            frames: who, length, note
//!  group    words of nodes to a member of a group               how it came in, then frames: who, length, word
//!  rows     streams and rows in a peer's memory                 whose header, then words
//!  logs     files of a log                                      frames: which file, length, part of it
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

/// Memory that an input may take beyond [`MEMORY_PER_BYTE`] times its size.
const MEMORY: isize = 64 << 20;
/// A byte of input may stand for a part of a type, with names and places.
const MEMORY_PER_BYTE: isize = 4096;
/// Long for a small input on a busy machine, short enough to tell a hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that reads bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its folder in the corpus.
    pub name: &'static str,
    /// Pieces that mean something to it.
    pub words: &'static [&'static str],
    /// The longest input that is tried.
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
    /// The target of this name.
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Feeds it, and says what became of the input.
    ///
    /// # Panics
    /// If something does not hold that must: that is what it is there for. So does too much memory or time.
    pub fn run(&self, bytes: &[u8]) -> Outcome {
        let (meter, started) = (meter::Meter::start(), Instant::now());
        let outcome = (self.check)(bytes);
        let (memory, time) = (meter.most(), started.elapsed());
        let allowed =
            MEMORY + MEMORY_PER_BYTE * isize::try_from(bytes.len()).unwrap_or(isize::MAX >> 16);
        assert!(
            memory < allowed,
            "{memory} bytes of memory were in use for {} of input",
            bytes.len()
        );
        assert!(time < PATIENCE, "it took {time:?}");
        outcome
    }
}

/// For libFuzzer: runs the target of this name.
pub fn fuzz(name: &str, bytes: &[u8]) {
    Target::named(name).expect("a target of that name").run(bytes);
}
