//! Samples that members write, and their topics.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use dds_api::infrastructure::DdsResult;
use dds_api::prelude::*;

/// Delivery level of a topic. There is one topic of each level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum ChaosLevel {
    Unordered,
    Atomic,
    Kept,
    Logged,
}

impl ChaosLevel {
    pub(crate) const ALL: [ChaosLevel; 4] =
        [ChaosLevel::Unordered, ChaosLevel::Atomic, ChaosLevel::Kept, ChaosLevel::Logged];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ChaosLevel::Unordered => "unordered",
            ChaosLevel::Atomic => "atomic",
            ChaosLevel::Kept => "kept",
            ChaosLevel::Logged => "logged",
        }
    }

    /// Whether all readers receive the same samples in the same order.
    pub(crate) fn is_ordered(self) -> bool {
        self != ChaosLevel::Unordered
    }

    /// Whether late joiners receive earlier samples.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, ChaosLevel::Kept | ChaosLevel::Logged)
    }

    /// Creates the topic of this level.
    pub(crate) fn topic(self, participant: &DomainParticipant) -> DdsResult<Topic<CheckedSample>> {
        let topic = participant.topic::<CheckedSample>(&format!("Chaos/{}", self.name()));
        match self {
            ChaosLevel::Unordered => topic,
            ChaosLevel::Atomic => topic.atomic(),
            ChaosLevel::Kept => topic.transient_local().keep_all(),
            ChaosLevel::Logged => topic.persistent().keep_all(),
        }
        .create()
    }
}

impl fmt::Display for ChaosLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ChaosLevel {
    type Err = String;

    fn from_str(name: &str) -> Result<ChaosLevel, String> {
        let found = ChaosLevel::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| format!("no level is called `{name}`"))
    }
}

/// Violation that a member feigns in its records, so that tests can verify the checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FeignedViolation {
    /// One sample of an atomic topic is not recorded.
    Skip,
    /// Two samples of different writers of an atomic topic are recorded in swapped order.
    Swap,
    /// One sample is recorded twice.
    Twice,
    /// The last samples of an atomic topic are not recorded.
    Tail,
    /// A writer pauses for longer than the bound of recovery.
    Stall,
    /// A member ends as if it were isolated.
    Isolate,
    /// A sample that is held changes.
    Change,
    /// A member ignores the command to leave.
    Linger,
}

/// Identity of a sample: the process, the writer within the process, the number within the writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SampleId(pub(crate) u64);

/// Bits of a sample's number, and bits of a writer; with 14 bits for processes, four bits of a word
/// are left.
const NUMBER_BITS: u32 = 36;
const WRITER_BITS: u32 = 10;

impl SampleId {
    pub(crate) fn new(process: u32, writer: u32, number: u64) -> SampleId {
        debug_assert!(number < 1 << NUMBER_BITS && process < 1 << 14 && writer < 1 << WRITER_BITS);
        let writer = u64::from(process) << WRITER_BITS | u64::from(writer);
        SampleId(writer << NUMBER_BITS | number)
    }

    /// Returns the identity of the writer, unique within a cycle.
    pub(crate) fn writer(self) -> u64 {
        self.0 >> NUMBER_BITS
    }

    /// Returns the number of the process that wrote the sample.
    pub(crate) fn process(self) -> u32 {
        (self.writer() >> WRITER_BITS) as u32
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// Returns the name of a writer in messages.
pub(crate) fn writer_name(writer: u64) -> String {
    format!("writer {} of process {}", writer & ((1 << WRITER_BITS) - 1), writer >> WRITER_BITS)
}

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {} of {}", self.number(), writer_name(self.writer()))
    }
}

/// A sample that contains a check of all its bytes.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CheckedSample {
    pub(crate) id: u64,
    /// Time of writing, in nanoseconds of the monotonic clock.
    pub(crate) written: u64,
    /// Non-zero in the last sample of a writer.
    pub(crate) last: u64,
    /// Check value, a function of the other fields.
    pub(crate) check: [u64; 4],
}

impl CheckedSample {
    pub(crate) fn new(id: SampleId, written: u64, last: bool) -> CheckedSample {
        let last = u64::from(last);
        CheckedSample {
            id: id.0,
            written,
            last,
            check: CheckedSample::check_of(id.0, written, last),
        }
    }

    fn check_of(id: u64, written: u64, last: u64) -> [u64; 4] {
        let mut word = id ^ written.rotate_left(17) ^ last.rotate_left(41);
        std::array::from_fn(|_| {
            word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x5eed;
            word
        })
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.check == CheckedSample::check_of(self.id, self.written, self.last)
    }
}
