//! One cycle: a domain of its own, its members, the schedule applied to them, and the end at which
//! all members are judged.
//!
//! Owns: the members, and the folder with their runtime files, logs and journals. All of them are
//! removed with the cycle, however it ends. Never does: judge deliveries ([`super::checks`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Settings;
use super::checks::{self, CycleResult};
use super::evidence::Evidence;
use super::journal::JournalOwner;
use super::member::ISOLATED_CODE;
use super::process::{MemberLine, MemberProcess, lines};
use super::sample::{ChaosLevel, SampleId};
use super::schedule::{MemberCommand, Schedule, ScheduleStep};
use crate::end_signals::EndSignals;
use crate::outcome::{Failure, tell};
use crate::perf::clock;

/// Interval between two checks of the members.
const LOOK: Duration = Duration::from_millis(5);
/// Time added to a multiple of the bound of recovery for each part of the end of a cycle, in which
/// many things happen at once.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time in which the last lines of an ended process arrive.
const LAST_LINES_WAIT: Duration = Duration::from_millis(500);

/// Ways in which a cycle ends.
pub(crate) enum CycleEnd {
    Judged(CycleResult),
    Interrupted,
}

/// A writer that exists at the end.
type FinalWriter = (ChaosLevel, u32, Option<SampleId>);

pub(crate) struct Cycle<'a> {
    settings: &'a Settings,
    end_signals: &'a EndSignals,
    /// Processes of the cycle; dropped before the folder.
    processes: Vec<MemberProcess>,
    /// Index of the process that occupies each slot.
    slots: Vec<Option<usize>>,
    lines: Receiver<MemberLine>,
    line_sender: Sender<MemberLine>,
    evidence: Evidence,
    /// Closing sample of each writer that exists at the end.
    closings: Vec<FinalWriter>,
    frozen: BTreeSet<u32>,
    folder: TempDir,
}

/// Error: a signal asked the command to end.
struct Interrupted;

impl<'a> Cycle<'a> {
    /// Runs a cycle to its end.
    pub(crate) fn run(
        settings: &'a Settings,
        schedule: &Schedule,
        end_signals: &'a EndSignals,
    ) -> Result<CycleEnd, Failure> {
        let fail = |error| Failure::new(format!("no temporary folder can be made: {error}"));
        let folder = tempfile::Builder::new()
            .prefix("squall-chaos-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(fail)?;
        for name in ["run", "logs", "journals"] {
            std::fs::create_dir(folder.path().join(name)).map_err(fail)?;
            let private = Permissions::from_mode(0o700);
            std::fs::set_permissions(folder.path().join(name), private).map_err(fail)?;
        }
        let (line_sender, line_receiver) = lines();
        let mut cycle = Cycle {
            settings,
            end_signals,
            processes: Vec::new(),
            slots: vec![None; settings.processes],
            lines: line_receiver,
            line_sender,
            evidence: Evidence::new(folder.path().join("journals"), settings, schedule.anchor),
            closings: Vec::new(),
            frozen: BTreeSet::new(),
            folder,
        };
        let outcome = match cycle.go_through(schedule)? {
            Ok(()) => {
                cycle.collect()?;
                CycleEnd::Judged(checks::judge(&cycle.evidence))
            }
            Err(Interrupted) => CycleEnd::Interrupted,
        };
        cycle.processes.clear();
        let path = cycle.folder.path().display().to_string();
        let removed = cycle.folder.close();
        removed.map_err(|error| Failure::new(format!("{path} cannot be removed: {error}")))?;
        Ok(outcome)
    }

    fn go_through(&mut self, schedule: &Schedule) -> Result<Result<(), Interrupted>, Failure> {
        let begin = Instant::now();
        for step in &schedule.steps {
            if let Err(Interrupted) = self.watch_until(begin + step.at) {
                return Ok(Err(Interrupted));
            }
            if !self.evidence.violations.is_empty() {
                break;
            }
            // The others need a member that is never killed or stopped.
            if matches!(
                step.command,
                MemberCommand::Kill | MemberCommand::Stop | MemberCommand::Freeze
            ) && let Err(Interrupted) = self.watch_for(Cycle::has_anchor)
            {
                return Ok(Err(Interrupted));
            }
            self.apply(step)?;
        }
        if self.evidence.violations.is_empty()
            && let Err(Interrupted) = self.close()?
        {
            return Ok(Err(Interrupted));
        }
        if !self.evidence.violations.is_empty() {
            self.describe();
            return Ok(Ok(()));
        }
        if let Err(Interrupted) = self.end(schedule.wakes_frozen) {
            return Ok(Err(Interrupted));
        }
        Ok(Ok(()))
    }

    /// Whether the process that is never killed or stopped is a member.
    fn has_anchor(&mut self) -> bool {
        let anchor = self.slots[self.evidence.anchor];
        anchor.is_some_and(|index| self.processes[index].history.ready.is_some())
    }

    fn violation(&mut self, text: String) {
        self.evidence.violations.push(text);
    }

    fn apply(&mut self, step: &ScheduleStep) -> Result<(), Failure> {
        let now = clock::now();
        if let MemberCommand::Start { endpoints } = &step.command {
            return self.start(step, endpoints);
        }
        if let MemberCommand::Starve { time } = step.command {
            starve(time);
        }
        // The process may have been isolated by an earlier stop.
        let Some(process) = self.slots[step.slot].map(|index| &mut self.processes[index]) else {
            return Ok(());
        };
        if !process.takes_part() {
            return Ok(());
        }
        match step.command {
            MemberCommand::Kill => process.kill(),
            MemberCommand::Stop => process.stop(),
            MemberCommand::Freeze => {
                process.stop();
                self.frozen.insert(process.number);
            }
            MemberCommand::Continue => process.go_on(),
            MemberCommand::Leave { keep } => process.leave(keep),
            _ => step.command.lines().iter().for_each(|line| process.tell(line)),
        }
        if matches!(step.command, MemberCommand::Kill | MemberCommand::Leave { .. }) {
            self.slots[step.slot] = None;
        }
        self.evidence.applied(now, step);
        Ok(())
    }

    fn start(&mut self, step: &ScheduleStep, endpoints: &[MemberCommand]) -> Result<(), Failure> {
        if let Some(index) = self.slots[step.slot]
            && self.processes[index].takes_part()
        {
            return Ok(());
        }
        let number = self.processes.len() as u32;
        // The planted violation is in the process of the anchor, which is not killed; all other
        // processes are compared with it.
        let plant = self.settings.plant.filter(|_| step.slot == self.evidence.anchor);
        let now = clock::now();
        let path = self.folder.path();
        let mut process =
            MemberProcess::start(number, path, self.settings, plant, &self.line_sender)?;
        for line in endpoints.iter().flat_map(MemberCommand::lines) {
            process.tell(&line);
        }
        self.slots[step.slot] = Some(self.processes.len());
        self.processes.push(process);
        self.evidence.applied(now, step);
        Ok(())
    }

    /// Handles the lines of the members until a time.
    fn watch_until(&mut self, time: Instant) -> Result<(), Interrupted> {
        loop {
            let left = time.saturating_duration_since(Instant::now());
            self.hear(left.min(LOOK));
            if self.end_signals.are_there() {
                return Err(Interrupted);
            }
            if left.is_zero() || !self.evidence.violations.is_empty() {
                return Ok(());
            }
        }
    }

    /// Handles the lines of the members until a condition holds. Returns whether it holds in time.
    fn watch_for(&mut self, holds: impl Fn(&mut Self) -> bool) -> Result<bool, Interrupted> {
        let deadline = Instant::now() + 3 * self.settings.limit + PATIENCE;
        loop {
            if holds(self) {
                return Ok(true);
            }
            if Instant::now() > deadline || !self.evidence.violations.is_empty() {
                return Ok(false);
            }
            self.watch_until(Instant::now() + LOOK)?;
        }
    }

    /// Handles lines from members.
    fn hear(&mut self, time: Duration) {
        let mut wait = time;
        while let Ok(line) = self.lines.recv_timeout(wait) {
            wait = Duration::ZERO;
            self.handle(&line);
        }
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            if !process.takes_part() {
                continue;
            }
            let Some(status) = process.status() else { continue };
            let deadline = Instant::now() + LAST_LINES_WAIT;
            while self.processes[index].takes_part() && Instant::now() < deadline {
                if let Ok(line) = self.lines.recv_timeout(LAST_LINES_WAIT) {
                    self.handle(&line);
                }
            }
            let process = &mut self.processes[index];
            if process.takes_part() {
                let number = process.number;
                process.history.ended = Some((clock::now(), super::process::MemberEnd::Left));
                self.violation(format!("process {number} ended by itself with {status}"));
            }
        }
    }

    fn handle(&mut self, MemberLine { process: number, line }: &MemberLine) {
        let (number, now) = (*number, clock::now());
        let process = &mut self.processes[number as usize];
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "READY" => process.history.ready = Some(now),
            "ISOLATED" => process.history.isolated = Some((now, rest.to_owned())),
            "SETTLED" => {
                let mut reads = BTreeMap::new();
                for endpoint in rest.split_whitespace() {
                    match (JournalOwner::from_file_name(endpoint), endpoint.strip_prefix("w:")) {
                        (Some(JournalOwner::Reader { level, .. }), _) => {
                            reads.insert(level, endpoint.to_owned());
                        }
                        (_, Some(level)) => {
                            let writer = level.parse().map(|level| (level, number, None));
                            self.closings.extend(writer);
                        }
                        _ => {}
                    }
                }
                process.settled = Some(reads);
            }
            "CLOSED" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let id = words.get(1).and_then(|word| word.parse().ok()).map(SampleId);
                let level = words.first().and_then(|word| word.parse().ok());
                for closing in &mut self.closings {
                    if Some(closing.0) == level && closing.1 == number {
                        closing.2 = id;
                    }
                }
            }
            "DESCRIBED" => {
                process.is_described = true;
                tell(format_args!("squall: process {number}: {}", rest.replace(" | ", "\n  ")));
            }
            _ => self.violation(format!("process {number}: {line}")),
        }
    }

    /// Returns the processes that must make progress.
    fn healthy(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|index| self.processes[*index].is_healthy()).collect()
    }

    /// Lets the survivors write a closing sample each, and waits until each of their readers has
    /// all closing samples.
    fn close(&mut self) -> Result<Result<(), Interrupted>, Failure> {
        for index in self.healthy() {
            self.processes[index].tell("SETTLE");
        }
        let settled = self.watch_for(|cycle| {
            let unsettled = |index: &usize| cycle.processes[*index].settled.is_none();
            !cycle.healthy().iter().any(unsettled)
        });
        match settled {
            Err(Interrupted) => return Ok(Err(Interrupted)),
            Ok(true) => {}
            Ok(false) => {
                for index in self.healthy() {
                    let process = &self.processes[index];
                    let number = process.number;
                    if process.history.ready.is_none() {
                        self.violation(format!("process {number} cannot join"));
                    } else if process.settled.is_none() {
                        self.violation(format!(
                            "process {number} hangs while it creates or deletes an endpoint"
                        ));
                    }
                }
                return Ok(Ok(()));
            }
        }
        // A reader is announced before its writers serve it, so each has to have a sample of each
        // writer before the closing samples are written.
        let served = self.watch_journals(|cycle| cycle.unserved().is_empty())?;
        match served {
            Err(Interrupted) => return Ok(Err(Interrupted)),
            Ok(true) => {}
            Ok(false) => {
                for (reader, number) in self.unserved() {
                    self.violation(format!(
                        "{reader} gets nothing of the writer in process {number}"
                    ));
                }
                return Ok(Ok(()));
            }
        }
        // A process that was stopped for long may detect only now that it is isolated.
        let told = std::cell::RefCell::new(Vec::new());
        let closed = self.watch_for(|cycle| {
            let healthy = cycle.healthy();
            if *told.borrow() != healthy {
                cycle.tell_close(&healthy);
                *told.borrow_mut() = healthy;
            }
            cycle.open_writers().is_empty()
        });
        match closed {
            Err(Interrupted) => return Ok(Err(Interrupted)),
            Ok(true) => {}
            Ok(false) => {
                for (level, number) in self.open_writers() {
                    self.violation(format!(
                        "the writer of the {level} topic in process {number} makes no progress, or its readers are \
                         not those of the survivors"
                    ));
                }
                return Ok(Ok(()));
            }
        }
        let complete = self.watch_journals(|cycle| cycle.missing_closings().is_empty())?;
        match complete {
            Err(Interrupted) => return Ok(Err(Interrupted)),
            Ok(true) => {}
            Ok(false) => {
                for (level, number, id) in self.missing_closings() {
                    self.violation(format!(
                        "the reader of the {level} topic in process {number} lacks {id}, the last one of a survivor"
                    ));
                }
            }
        }
        let survivors = self.healthy();
        self.evidence.survivors =
            survivors.iter().map(|index| self.processes[*index].number).collect();
        let judged = ChaosLevel::ALL.into_iter().filter(|level| self.is_judged(*level)).collect();
        checks::ends_agree(&mut self.evidence, judged);
        Ok(Ok(()))
    }

    /// Reads the journals until a condition holds. Returns whether the condition holds in time.
    fn watch_journals(
        &mut self,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<Result<bool, Interrupted>, Failure> {
        let failure = std::cell::RefCell::new(None);
        let held = self.watch_for(|cycle| match cycle.collect() {
            Ok(()) => holds(cycle),
            Err(error) => {
                *failure.borrow_mut() = Some(error);
                true
            }
        });
        failure.into_inner().map_or(Ok(held), Err)
    }

    /// Whether the closing samples of a level are judged. A logged topic may have to wait for the
    /// log of a process that stands still: the survivors' logs may lack acknowledged samples.
    fn is_judged(&self, level: ChaosLevel) -> bool {
        let stands_still =
            |process: &MemberProcess| process.takes_part() && process.history.is_stopped();
        level != ChaosLevel::Logged || !self.processes.iter().any(stands_still)
    }

    /// Settled readers of healthy processes, each with a process whose writer it has no sample of.
    fn unserved(&self) -> Vec<(String, u32)> {
        let mut unserved = Vec::new();
        for index in self.healthy() {
            let settled = self.processes[index].settled.iter().flatten();
            for (level, name) in settled.filter(|(level, _)| self.is_judged(**level)) {
                let served = self.evidence.writers_of(name);
                let lacks = |(of, number, _): &&FinalWriter| {
                    let is_healthy = self.processes[*number as usize].is_healthy();
                    of == level && is_healthy && !served.contains(number)
                };
                let lacking = self.closings.iter().filter(lacks);
                unserved.extend(lacking.map(|(_, number, _)| (name.clone(), *number)));
            }
        }
        unserved
    }

    fn tell_close(&mut self, healthy: &[usize]) {
        for level in ChaosLevel::ALL {
            let settled =
                healthy.iter().filter_map(|index| self.processes[*index].settled.as_ref());
            let readers: Vec<&str> =
                settled.filter_map(|reads| reads.get(&level)).map(String::as_str).collect();
            let line = format!("CLOSE {level} {}", readers.join(" "));
            healthy.iter().for_each(|index| self.processes[*index].tell(&line));
        }
    }

    /// Returns the writers of healthy processes that have not written their closing samples.
    fn open_writers(&self) -> Vec<(ChaosLevel, u32)> {
        let is_open = |(level, number, closing): &&FinalWriter| {
            let process = &self.processes[*number as usize];
            closing.is_none() && process.is_healthy() && self.is_judged(*level)
        };
        self.closings.iter().filter(is_open).map(|(level, number, _)| (*level, *number)).collect()
    }

    /// Returns the readers of healthy processes, and a closing sample that each lacks.
    fn missing_closings(&self) -> Vec<(ChaosLevel, u32, SampleId)> {
        let mut missing = Vec::new();
        for index in self.healthy() {
            let process = &self.processes[index];
            let levels = process.settled.iter().flat_map(BTreeMap::keys);
            for level in levels.filter(|level| self.is_judged(**level)) {
                let seen = self.evidence.closings_seen(*level, process.number);
                for (of, number, closing) in &self.closings {
                    let is_healthy = self.processes[*number as usize].is_healthy();
                    let Some(id) = closing.filter(|_| of == level && is_healthy) else { continue };
                    if !seen.contains(&id) {
                        missing.push((*level, process.number, id));
                    }
                }
            }
        }
        missing
    }

    /// Ends all processes. Frozen ones are first resumed and observed.
    fn end(&mut self, wakes_frozen: bool) -> Result<(), Interrupted> {
        let frozen: Vec<usize> = (0..self.processes.len())
            .filter(|index| self.processes[*index].takes_part())
            .filter(|index| self.processes[*index].history.is_stopped())
            .collect();
        for index in frozen {
            match wakes_frozen {
                true => self.processes[index].go_on(),
                false => self.processes[index].kill(),
            }
        }
        // An isolated process detects its isolation before it receives the command to leave.
        let _ = self.watch_until(Instant::now() + 4 * LOOK);
        for process in &mut self.processes {
            if process.takes_part() {
                process.leave(false);
            }
        }
        let gone = self.watch_for(|cycle| {
            cycle.processes.iter_mut().all(|process| process.status().is_some())
        })?;
        self.hear(4 * LOOK);
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            let number = process.number;
            match process.status() {
                None => {
                    process.show_threads();
                    self.violation(format!("process {number} does not leave"));
                }
                Some(status) if status.success() => {}
                Some(status) if status.code() == Some(ISOLATED_CODE) => {}
                Some(status) if status.signal() == Some(9) => {}
                Some(status) => self.violation(format!("process {number} ended with {status}")),
            }
        }
        let run = self.folder.path().join("run");
        let left: Vec<_> = std::fs::read_dir(run).into_iter().flatten().flatten().collect();
        if gone && !left.is_empty() && self.last_left_in_order() {
            let names: Vec<_> = left.iter().map(std::fs::DirEntry::file_name).collect();
            self.violation(format!("left behind in the runtime folder: {names:?}"));
        }
        Ok(())
    }

    /// Whether every process that was not killed left in order, so that the last one has removed
    /// the shared files.
    fn last_left_in_order(&mut self) -> bool {
        self.processes.iter_mut().any(|process| process.status().is_some_and(|it| it.success()))
    }

    /// Asks all healthy processes what they wait for, and prints the answers. For a process that
    /// does not answer, prints its threads.
    fn describe(&mut self) {
        let asked = self.healthy();
        for index in &asked {
            self.processes[*index].tell("DESCRIBE");
        }
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end && asked.iter().any(|at| !self.processes[*at].is_described) {
            self.hear(LOOK);
        }
        let asked = asked.iter().map(|at| &self.processes[*at]);
        asked.filter(|process| !process.is_described).for_each(MemberProcess::show_threads);
    }

    /// Reads the records of members.
    fn collect(&mut self) -> Result<(), Failure> {
        for process in &self.processes {
            self.evidence.histories.insert(process.number, process.history.clone());
        }
        let collected = self.evidence.collect();
        collected.map_err(|error| Failure::new(format!("a journal cannot be read: {error}")))
    }
}

/// Keeps all processors busy for a while.
fn starve(time: Duration) {
    let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let end = Instant::now() + time;
    for _ in 0..4 * processors {
        std::thread::spawn(move || {
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        });
    }
}
