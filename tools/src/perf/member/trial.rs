//! One process of a trial: a member of a subgroup that is slow, paced, silent, or holds
//! messages back.
//!
//! Owns: the actions of its one application thread for a given time, and their times. Never does:
//! wait for the other members; a trial ends when its time is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use derecho_core::multicast::claim::Claim;
use derecho_core::multicast::subgroup::Upcall;
use serde::{Deserialize, Serialize};

use super::super::clock;
use super::super::control::HarnessControl;
use super::super::payload::{fill, has_stamp};
use super::super::role::LOOK;
use super::super::subscriber_stats::SubscriberStats;
use super::core::{CoreAccess, WRITING};
use super::{BURST, MemberArgs, TopicAccess, tell};
use crate::outcome::{CommandAnswer, CommandResult, Failure};

/// Rounds for which a silent sender declares silence: more than any trial has.
const SILENT_ROUNDS: u64 = u32::MAX as u64;

/// Place where a reader works on each message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WorkPlace {
    /// In a callback for each delivery, called by the turn.
    Upcall,
    /// In its own thread, which takes from its queue.
    Cache,
}

/// One process of a trial; the harness starts it.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrialArgs {
    #[command(flatten)]
    member: MemberArgs,
    /// Nanoseconds of work for each delivery.
    #[arg(long, default_value_t = 0)]
    work: u64,
    /// Place of the work.
    #[arg(long, value_enum, default_value_t = WorkPlace::Cache)]
    place: WorkPlace,
    /// Nanoseconds between messages; zero for as fast as there is room.
    #[arg(long, default_value_t = 0)]
    every: u64,
    /// Maximum number of messages.
    #[arg(long, default_value_t = u64::MAX)]
    most: u64,
    /// Messages that are built before any of them is committed.
    #[arg(long, default_value_t = 1)]
    fixed_batch: usize,
    /// Sends nothing, although it could.
    #[arg(long)]
    silent: bool,
    /// Declares its silence beforehand.
    #[arg(long)]
    declares: bool,
    /// Number of the first messages whose arrival time is measured.
    #[arg(long)]
    first: u64,
}

/// Result of one process.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrialResult {
    /// Messages that it sent or received.
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) t_start_ns: u64,
    /// Time at which it had the first `first` messages; zero: never.
    pub(crate) t_first_ns: u64,
    pub(crate) bad: u64,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) max_ns: Option<u64>,
    pub(crate) cpu_s: f64,
}

impl TrialResult {
    /// Adds messages.
    fn add(&mut self, count: u64, first: u64) {
        self.count += count;
        if self.t_first_ns == 0 && self.count >= first {
            self.t_first_ns = clock::now();
        }
    }
}

/// Messages that a reader has seen, in either place.
struct ReadTally {
    tried: TrialResult,
    stats: SubscriberStats<usize>,
}

fn spin(nanos: u64) {
    let end = clock::now() + nanos;
    while clock::now() < end {
        std::hint::spin_loop();
    }
}

/// Runs the process.
pub(crate) fn run(args: TrialArgs) -> CommandResult {
    let stats = SubscriberStats::new(args.member.read);
    let seen = Arc::new(Mutex::new(ReadTally { tried: TrialResult::default(), stats }));
    let over = Arc::new(AtomicBool::new(false));
    let upcall = (args.member.reads && args.place == WorkPlace::Upcall)
        .then(|| works_in_turn(&args, Arc::clone(&seen), Arc::clone(&over)));
    let access = CoreAccess::join(&args.member, upcall)?;
    let control = HarnessControl::new(true);
    if !access.meet(&control)? {
        return Ok(CommandAnswer::Yes);
    }
    if args.declares && !access.declare_silence(SILENT_ROUNDS) {
        return Err(Failure::new("silence cannot be declared"));
    }
    if !control.ready(Some("GO"))? {
        return Ok(CommandAnswer::Yes);
    }
    let (cpu, start) = (clock::cpu(), clock::now());
    let end = start + (args.member.seconds.unwrap_or(1.0) * 1e9) as u64;
    let mut tried = if args.member.writes && !args.silent {
        send(&args, &control, &access, start, end)?
    } else if args.member.reads && args.place == WorkPlace::Cache {
        take(&args, &control, &access, &seen, end)?
    } else {
        // The engine's thread does all the work.
        while clock::now() < end && !control.ended() {
            std::thread::sleep(Duration::from_nanos(end.saturating_sub(clock::now())).min(LOOK));
        }
        over.store(true, Ordering::Relaxed);
        TrialResult::default()
    };
    if args.member.reads {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        tried = seen.tried;
        tried.bad = seen.stats.lost + seen.stats.disorder + seen.stats.corrupt;
        let times = Some(&seen.stats.latency).filter(|times| !times.is_empty());
        tried.p50_ns = times.map(|times| times.value_at_quantile(0.5));
        tried.p99_ns = times.map(|times| times.value_at_quantile(0.99));
        tried.max_ns = times.map(|times| times.max());
    }
    tried.t_start_ns = start;
    tried.seconds = clock::secs(clock::now() - start);
    tried.cpu_s = clock::secs(clock::cpu() - cpu);
    tell(&tried)?;
    // Messages still on their way are taken without work, so that they do not block the others.
    let takes = args.place == WorkPlace::Cache;
    while !control.may_leave() {
        let some = || takes && access.inbox().is_some_and(|inbox| inbox.take().is_some());
        access.wait_for(LOOK, some)?;
    }
    Ok(CommandAnswer::Yes)
}

/// Returns the work for each delivery as a callback of the turn.
fn works_in_turn(args: &TrialArgs, seen: Arc<Mutex<ReadTally>>, over: Arc<AtomicBool>) -> Upcall {
    let (work, first) = (args.work, args.first);
    Box::new(move |inbox| {
        while let Some(record) = inbox.take() {
            if over.load(Ordering::Relaxed) {
                continue;
            }
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.stats.look(record.bytes(), record.sender());
            spin(work);
            seen.tried.add(1, first);
        }
    })
}

/// Takes from the queue and works on each message, in this thread.
fn take(
    args: &TrialArgs,
    control: &HarnessControl,
    access: &CoreAccess,
    seen: &Mutex<ReadTally>,
    end: u64,
) -> Result<TrialResult, Failure> {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    while clock::now() < end && !control.ended() {
        let Some(inbox) = access.inbox() else { break };
        // Reading the clock for each message would be work, too. SAFETY: `seen` is locked, and
        // every thread that takes here, or asks for the queue length, has locked it.
        let taking = unsafe { inbox.consumer_unchecked() };
        let most = if args.work > 0 { 1 } else { taking.len().min(BURST as usize) };
        let mut taken = 0;
        for record in std::iter::from_fn(|| taking.take()).take(most) {
            seen.stats.look(record.bytes(), record.sender());
            if args.work > 0 {
                spin(args.work);
            }
            taken += 1;
        }
        if taken > 0 {
            seen.tried.add(taken, args.first);
        } else {
            let left = Duration::from_nanos(end.saturating_sub(clock::now()));
            access.wait_for(left.min(LOOK), || !inbox.is_empty())?;
        }
    }
    Ok(TrialResult::default())
}

/// Sends each message when it is due.
fn send(
    args: &TrialArgs,
    control: &HarnessControl,
    access: &CoreAccess,
    start: u64,
    end: u64,
) -> Result<TrialResult, Failure> {
    let (size, mut tried) = (args.member.part.size, TrialResult::default());
    let Some(memory) = access.memory() else { return Ok(tried) };
    let mut held: Vec<Claim<'_>> = Vec::with_capacity(args.fixed_batch);
    let (mut built, mut untold) = (0, 0);
    let paced = args.every > 0;
    let mut now = start;
    while now < end && built < args.most && !control.ended() {
        let due = start + built * args.every;
        if paced && due > now {
            access.wait_for(Duration::from_nanos(due - now), || clock::now() >= due)?;
        }
        let looks = paced || built.is_multiple_of(BURST);
        now = if looks { clock::now() } else { now };
        let stamp = if has_stamp(size) && looks { now } else { 0 };
        let Ok(mut claim) = memory.claim_on(WRITING, size) else {
            tried.add(std::mem::take(&mut untold), args.first);
            access.tell_of_commits(memory);
            access.wait_for(LOOK, || memory.has_room(size) || clock::now() >= end)?;
            now = clock::now();
            continue;
        };
        fill(claim.bytes(), built, stamp);
        built += 1;
        held.push(claim);
        if held.len() >= args.fixed_batch {
            for claim in held.drain(..) {
                claim.commit_on(WRITING, size, |_, _| {});
                untold += 1;
            }
            if paced || untold >= BURST {
                tried.add(std::mem::take(&mut untold), args.first);
                access.tell_of_commits(memory);
            }
        }
    }
    tried.add(untold, args.first);
    access.tell_of_commits(memory);
    Ok(tried)
}
