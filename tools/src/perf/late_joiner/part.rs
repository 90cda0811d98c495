//! One of the processes of `squall perf late-joiner`.
//!
//! Owns: what all of them have in common, and the newcomer. Never does: judge what it measures.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::live;
use crate::outcome::{Done, Failure, Outcome, say};
use crate::perf::clock;
use crate::perf::control::Control;
use crate::perf::payload::{Payload, Read, WithPayload, check, for_size};
use crate::perf::role::{self, LOOK, Means, on_large_stack};
use crate::perf::track::Track;

/// Where they meet.
pub(super) const TOPIC: &str = "late-joiner";

/// One of the processes.
#[derive(Args, Clone, Debug)]
pub(crate) struct PartArgs {
    #[arg(value_enum)]
    role: Role,
    #[command(flatten)]
    part: role::Part,
    /// Samples of the past.
    #[arg(long)]
    past: u64,
    /// Samples a second after that; none: as many as there is room for.
    #[arg(long)]
    live: Option<u64>,
    /// What the newcomer looks at.
    #[arg(long, value_enum)]
    read: Read,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Role {
    Writer,
    Reader,
    Newcomer,
}

/// What a part has to know.
pub(super) struct Part {
    role: Role,
    pub(super) means: Means,
    pub(super) size: usize,
    pub(super) past: u64,
    pub(super) live: Option<u64>,
    pub(super) read: Read,
}

/// What a newcomer says when it has the past.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Came {
    /// CLOCK_MONOTONIC, when its process began to do anything.
    pub(super) t_start_ns: u64,
    /// When it was a participant.
    pub(super) t_joined_ns: u64,
    /// When it had the first sample of the past.
    pub(super) t_first_ns: u64,
    /// When it had the last one.
    pub(super) t_last_ns: u64,
}

/// What it says in the end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Stayed {
    /// Samples that it lacked, that were spoilt or out of order.
    pub(super) wrong: u64,
    pub(super) peak_mib: u64,
}

struct Playing(Part, Control);

impl WithPayload for Playing {
    type Output = Result<(), Failure>;

    fn with<P: Payload>(self) -> Result<(), Failure> {
        let Playing(part, control) = self;
        match part.role {
            Role::Writer => live::write::<P>(&part, &control),
            Role::Reader => live::read::<P>(&part, &control),
            Role::Newcomer => come::<P>(&part, &control),
        }
    }
}

/// Plays one of them.
pub(crate) fn play(args: PartArgs) -> Done {
    let PartArgs { role, part, past, live, read } = args;
    let part = Part { role, means: part.means, size: part.size, past, live, read };
    let control = Control::new(true);
    on_large_stack(move || for_size(part.size, Playing(part, control)))?;
    Ok(Outcome::Yes)
}

/// Comes late: gets the past, and goes on with what is live.
fn come<P: Payload>(part: &Part, control: &Control) -> Result<(), Failure> {
    let t_start_ns = clock::now();
    let participant = part.means.join()?;
    let t_joined_ns = clock::now();
    let reader = part.means.reader::<P>(&participant, TOPIC, part.size)?;
    let mut track = Track::new(part.read);
    let (mut first, mut has_come) = (None, false);
    loop {
        for sample in reader.take(.., LOOK)? {
            let bytes = sample.bytes();
            // What was before the past that is kept is not missed.
            first.get_or_insert_with(|| {
                (clock::now(), check(bytes, part.read).map_or(0, |it| it.0))
            });
            track.look(bytes, sample.info().publication_handle);
        }
        if let (Some((t_first_ns, _)), false) = (first, has_come)
            && track.seen() >= part.past
        {
            let came = Came { t_start_ns, t_joined_ns, t_first_ns, t_last_ns: clock::now() };
            say(&serde_json::to_string(&came).map_err(|error| Failure::new(error.to_string()))?)?;
            has_come = true;
        }
        if has_come && control.has_heard("STOP") || control.ended() {
            break;
        }
    }
    let passed = first.map_or(0, |(_, index)| index);
    let wrong = track.lost.saturating_sub(passed) + track.disorder + track.corrupt;
    let stayed = Stayed { wrong, peak_mib: peak_mib() };
    say(&serde_json::to_string(&stayed).map_err(|error| Failure::new(error.to_string()))?)?;
    control.wait_for_exit();
    Ok(())
}

/// The most memory that this process has had, in MiB.
pub(super) fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
