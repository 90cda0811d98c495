//! Schedule of a cycle: actions with their processes and times. A function of the seed and
//! the settings.
//!
//! Owns: all randomness. Never does: anything to a process.
//!
//! A process occupies a slot. One slot, the anchor, is never killed, stopped or told to leave, so
//! that one process always keeps the kept samples, and logs are never all gone. Any slot can be
//! the anchor. The first process of a domain decides views, so in most cycles it is a victim like
//! the others.

use std::time::Duration;

use super::Settings;
use super::sample::ChaosLevel;

/// Kinds of actions in a schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Action {
    Kill,
    Stop,
    Freeze,
    Join,
    Leave,
    Keep,
    Churn,
    Readers,
    Writers,
    Hold,
    Slow,
    Starve,
}

impl Action {
    pub(crate) const ALL: [Action; 12] = [
        Action::Kill,
        Action::Stop,
        Action::Freeze,
        Action::Join,
        Action::Leave,
        Action::Keep,
        Action::Churn,
        Action::Readers,
        Action::Writers,
        Action::Hold,
        Action::Slow,
        Action::Starve,
    ];
    /// Actions that are not known to fail.
    pub(crate) const DEFAULT: [Action; 6] =
        [Action::Kill, Action::Join, Action::Leave, Action::Hold, Action::Slow, Action::Starve];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::Kill => "kill",
            Action::Stop => "stop",
            Action::Freeze => "freeze",
            Action::Join => "join",
            Action::Leave => "leave",
            Action::Keep => "keep",
            Action::Churn => "churn",
            Action::Readers => "readers",
            Action::Writers => "writers",
            Action::Hold => "hold",
            Action::Slow => "slow",
            Action::Starve => "starve",
        }
    }

    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Action::Kill => "SIGKILL",
            Action::Stop => {
                "SIGSTOP and, after a part or a multiple of the member timeout, SIGCONT"
            }
            Action::Freeze => "SIGSTOP until all others are judged",
            Action::Join => "A new process in the place of one that has ended",
            Action::Leave => "A process leaves in order",
            Action::Keep => "A process leaves, and looks at samples that it holds afterwards",
            Action::Churn => "A process creates and deletes its DataReader in a loop for a while",
            Action::Readers => "A process creates or deletes its DataReader of a topic",
            Action::Writers => {
                "A process creates or deletes its DataWriter of a topic, so readers become writers"
            }
            Action::Hold => "Readers hold the samples that they took for a while",
            Action::Slow => "Readers pause between two calls for a while",
            Action::Starve => "All processors are busy with something else for a while",
        }
    }
}

/// Command to a member, or to its process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MemberCommand {
    /// Start a process if the slot has none.
    Start {
        endpoints: Vec<MemberCommand>,
    },
    Kill,
    Stop,
    Continue,
    /// Stop the process until all others are judged.
    Freeze,
    Leave {
        keep: bool,
    },
    Reader {
        level: ChaosLevel,
        is_on: bool,
    },
    Churn {
        level: ChaosLevel,
        is_on: bool,
    },
    Writer {
        level: ChaosLevel,
        pace: Option<Pace>,
    },
    Hold {
        samples: u32,
    },
    Slow {
        pause_ms: u32,
    },
    Starve {
        time: Duration,
    },
}

impl MemberCommand {
    /// Returns the lines that give the command to a member.
    pub(crate) fn lines(&self) -> Vec<String> {
        let switch = |is_on: &bool| if *is_on { "on" } else { "off" };
        vec![match self {
            MemberCommand::Reader { level, is_on } => format!("READER {level} {}", switch(is_on)),
            MemberCommand::Churn { level, is_on } => format!("CHURN {level} {}", switch(is_on)),
            MemberCommand::Writer { level, pace: None } => format!("WRITER {level} off"),
            MemberCommand::Writer { level, pace: Some(Pace { burst, pause_us, in_flight }) } => {
                format!("WRITER {level} {burst} {pause_us} {in_flight}")
            }
            MemberCommand::Hold { samples } => format!("HOLD {samples}"),
            MemberCommand::Slow { pause_ms } => format!("SLOW {pause_ms}"),
            MemberCommand::Start { .. }
            | MemberCommand::Kill
            | MemberCommand::Stop
            | MemberCommand::Continue
            | MemberCommand::Freeze
            | MemberCommand::Leave { .. }
            | MemberCommand::Starve { .. } => return Vec::new(),
        }]
    }
}

/// Pace of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    pub(crate) burst: u32,
    pub(crate) pause_us: u32,
    pub(crate) in_flight: u32,
}

/// One command and its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScheduleStep {
    /// Time since the beginning of the cycle.
    pub(crate) at: Duration,
    pub(crate) slot: usize,
    /// Action of the command, if recovery is measured from this step.
    pub(crate) action: Option<Action>,
    pub(crate) command: MemberCommand,
}

/// All commands of a cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    pub(crate) steps: Vec<ScheduleStep>,
    /// Slot of the anchor, which is spared.
    pub(crate) anchor: usize,
    /// Whether frozen processes run again after the others are judged.
    pub(crate) wakes_frozen: bool,
}

/// Pseudo-random number generator.
struct ScheduleRandom(u64);

impl ScheduleRandom {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// Returns true in `share` of a hundred calls.
    fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let index = self.below(of.len() as u64) as usize;
        of.get(index).copied()
    }

    fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_micros() as u64;
        least + Duration::from_micros(self.below(span + 1))
    }
}

/// Maximum time after which a started process becomes a writer.
const LATER: Duration = Duration::from_millis(100);

/// State of a slot in the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlotState {
    Empty,
    Running,
    /// Stopped, or possibly isolated since; gets no action until it is started again.
    Uncertain,
    /// Stopped permanently.
    Frozen,
}

#[derive(Clone, Debug)]
struct ProcessSlot {
    is_anchor: bool,
    condition: SlotState,
    /// End of the planned commands; the slot gets no other action before this time.
    taken_until: Duration,
    reads: [bool; 4],
    writes: [bool; 4],
}

struct Planner<'a> {
    settings: &'a Settings,
    random: ScheduleRandom,
    anchor: usize,
    slots: Vec<ProcessSlot>,
    steps: Vec<ScheduleStep>,
}

impl Schedule {
    pub(crate) fn of_seed(seed: u64, settings: &Settings) -> Schedule {
        let mut random = ScheduleRandom(seed);
        let empty = ProcessSlot {
            is_anchor: false,
            condition: SlotState::Empty,
            taken_until: Duration::ZERO,
            reads: [false; 4],
            writes: [false; 4],
        };
        let anchor = random.below(settings.processes as u64) as usize;
        let mut slots = vec![empty; settings.processes];
        slots[anchor].is_anchor = true;
        let mut planner = Planner { settings, random, anchor, slots, steps: Vec::new() };
        planner.plan();
        let wakes_frozen = planner.random.percent(50);
        let mut steps = planner.steps;
        steps.sort_by_key(|step| step.at);
        Schedule { steps, anchor, wakes_frozen }
    }
}

impl Planner<'_> {
    fn plan(&mut self) {
        for slot in 0..self.slots.len() {
            self.start(Duration::ZERO, slot, None);
        }
        let mut at = Duration::from_millis(300);
        loop {
            at += self.random.between(Duration::ZERO, 2 * self.settings.every);
            if at >= self.settings.length {
                return;
            }
            if let Some(action) = self.random.pick(&self.settings.actions) {
                self.act(at, action);
            }
        }
    }

    fn push(&mut self, at: Duration, slot: usize, action: Option<Action>, command: MemberCommand) {
        self.steps.push(ScheduleStep { at, slot, action, command });
    }

    /// Returns a random slot that satisfies a condition.
    fn slot(&mut self, fits: impl Fn(usize, &ProcessSlot) -> bool) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.slots.len()).filter(|slot| fits(*slot, &self.slots[*slot])).collect();
        self.random.pick(&fitting)
    }

    /// Returns a process that runs and is not temporarily stopped.
    fn running(&mut self, at: Duration) -> Option<usize> {
        self.slot(|_, slot| slot.condition == SlotState::Running && slot.taken_until <= at)
    }

    fn victim(&mut self, at: Duration) -> Option<usize> {
        let anchor = self.anchor;
        self.slot(|index, slot| {
            let is_running = slot.condition == SlotState::Running && slot.taken_until <= at;
            is_running && index != anchor
        })
    }

    fn pace(&mut self, level: ChaosLevel) -> Pace {
        let in_flight = self.random.pick(&[64, 128, 256]).unwrap_or(64);
        let (burst, pause_us) = match (level.is_kept(), self.random.below(3)) {
            // Kept samples stay in the memory of every process, so their rate is lower.
            (true, 0) => (4, 2_000),
            (true, _) => (1, 4_000),
            (false, 0) => (16, 500),
            (false, 1) => (4, 1_000),
            (false, _) => (1, 3_000),
        };
        Pace { burst, pause_us, in_flight }
    }

    /// Starts a process with random readers and writers. A process that reads or writes the
    /// unordered topic also reads or writes the atomic one: no member awaits a stopped reader of
    /// an unordered topic, so its writers would wait until an ordered topic causes the eviction of
    /// the reader.
    fn start(&mut self, at: Duration, slot: usize, action: Option<Action>) {
        let is_anchor = slot == self.anchor;
        let mut endpoints = Vec::new();
        let mut later = Vec::new();
        let toggles = self.settings.actions.contains(&Action::Writers);
        for level in ChaosLevel::ALL {
            let index = level as usize;
            let reads = is_anchor || level == ChaosLevel::Atomic || self.random.percent(60);
            let writes = match level {
                ChaosLevel::Atomic => is_anchor || self.random.percent(50),
                _ => self.random.percent(40),
            };
            self.slots[slot].reads[index] = reads;
            self.slots[slot].writes[index] = writes;
        }
        let slot_now = &mut self.slots[slot];
        slot_now.condition = SlotState::Running;
        slot_now.writes[ChaosLevel::Atomic as usize] |=
            slot_now.writes[ChaosLevel::Unordered as usize];
        let (reads, writes) = (slot_now.reads, slot_now.writes);
        for level in ChaosLevel::ALL.into_iter().filter(|level| reads[*level as usize]) {
            endpoints.push(MemberCommand::Reader { level, is_on: true });
        }
        for level in ChaosLevel::ALL.into_iter().filter(|level| writes[*level as usize]) {
            let command = MemberCommand::Writer { level, pace: Some(self.pace(level)) };
            // Readers become writers a moment later, possibly in another view.
            match toggles && self.random.percent(50) {
                true => later.push(command),
                false => endpoints.push(command),
            }
        }
        self.push(at, slot, action, MemberCommand::Start { endpoints });
        self.slots[slot].taken_until = at + LATER;
        for command in later {
            let later = at + self.random.between(Duration::ZERO, LATER);
            self.push(later, slot, None, command);
        }
    }

    fn act(&mut self, at: Duration, action: Action) {
        let timeout = self.settings.member_timeout;
        let for_a_while = self.random.between(Duration::from_millis(50), Duration::from_secs(1));
        let until = (at + for_a_while).min(self.settings.length);
        let some = Some(action);
        match action {
            Action::Kill => {
                let Some(slot) = self.victim(at) else { return };
                self.slots[slot].condition = SlotState::Empty;
                self.push(at, slot, some, MemberCommand::Kill);
            }
            Action::Leave | Action::Keep => {
                let Some(slot) = self.victim(at) else { return };
                self.slots[slot].condition = SlotState::Empty;
                self.push(at, slot, some, MemberCommand::Leave { keep: action == Action::Keep });
            }
            Action::Stop => self.stop(at, timeout),
            Action::Freeze => {
                // At least two processes of each cycle are judged.
                let is_frozen = |slot: &&ProcessSlot| slot.condition == SlotState::Frozen;
                if self.slots.iter().filter(is_frozen).count() + 2 >= self.slots.len() {
                    return;
                }
                let Some(slot) = self.victim(at) else { return };
                self.slots[slot].condition = SlotState::Frozen;
                self.push(at, slot, some, MemberCommand::Freeze);
            }
            Action::Join => {
                let ended = |_: usize, slot: &ProcessSlot| {
                    matches!(slot.condition, SlotState::Empty | SlotState::Uncertain)
                        && slot.taken_until <= at
                };
                let Some(slot) = self.slot(ended) else { return };
                self.start(at, slot, some);
            }
            Action::Churn => {
                let Some((slot, level)) =
                    self.endpoint(at, |slot, level| slot.reads[level as usize])
                else {
                    return;
                };
                self.push(at, slot, some, MemberCommand::Churn { level, is_on: true });
                self.push(until, slot, None, MemberCommand::Churn { level, is_on: false });
            }
            Action::Readers => {
                // The atomic topic keeps its readers, see `start`.
                let Some((slot, level)) = self.endpoint(at, |_, level| level != ChaosLevel::Atomic)
                else {
                    return;
                };
                let reads = &mut self.slots[slot].reads[level as usize];
                *reads = !*reads;
                let command = MemberCommand::Reader { level, is_on: *reads };
                self.push(at, slot, some, command);
            }
            Action::Writers => {
                let Some((slot, level)) = self.endpoint(at, |slot, level| {
                    // The anchor writes the atomic topic all the time, so its stopped readers
                    // are awaited.
                    level != ChaosLevel::Atomic
                        || !slot.is_anchor && !slot.writes[ChaosLevel::Unordered as usize]
                }) else {
                    return;
                };
                let is_on = !self.slots[slot].writes[level as usize];
                let (unordered, atomic) = (ChaosLevel::Unordered, ChaosLevel::Atomic);
                if is_on && level == unordered && !self.slots[slot].writes[atomic as usize] {
                    self.set_writer(at, slot, atomic, true);
                }
                self.set_writer(at, slot, level, is_on);
            }
            Action::Hold => {
                let Some(slot) = self.running(at) else { return };
                let samples = self.random.pick(&[4, 32, 128, 512]).unwrap_or(4);
                self.push(at, slot, some, MemberCommand::Hold { samples });
                self.push(until, slot, None, MemberCommand::Hold { samples: 0 });
            }
            Action::Slow => {
                let Some(slot) = self.running(at) else { return };
                let pause_ms = self.random.pick(&[1, 10, 40]).unwrap_or(1);
                self.push(at, slot, some, MemberCommand::Slow { pause_ms });
                self.push(until, slot, None, MemberCommand::Slow { pause_ms: 0 });
            }
            Action::Starve => {
                let time = self.random.between(Duration::from_millis(20), timeout / 3);
                self.push(at, self.anchor, some, MemberCommand::Starve { time });
            }
        }
    }

    fn set_writer(&mut self, at: Duration, slot: usize, level: ChaosLevel, is_on: bool) {
        self.slots[slot].writes[level as usize] = is_on;
        let pace = is_on.then(|| self.pace(level));
        self.push(at, slot, Some(Action::Writers), MemberCommand::Writer { level, pace });
    }

    /// Returns a running process and a level that satisfy a condition.
    fn endpoint(
        &mut self,
        at: Duration,
        fits: impl Fn(&ProcessSlot, ChaosLevel) -> bool,
    ) -> Option<(usize, ChaosLevel)> {
        let slot = self.running(at)?;
        let levels: Vec<ChaosLevel> =
            ChaosLevel::ALL.into_iter().filter(|level| fits(&self.slots[slot], *level)).collect();
        Some((slot, self.random.pick(&levels)?))
    }

    /// Plans a stop. Half of the stops end long before the member timeout. A process that is
    /// stopped for longer may be isolated, and another one is started in its place.
    fn stop(&mut self, at: Duration, timeout: Duration) {
        let Some(slot) = self.victim(at) else { return };
        let is_brief = self.random.percent(50);
        let time = match is_brief {
            true => self.random.between(Duration::from_millis(1), timeout / 4),
            false => self.random.between(timeout / 2, 2 * timeout),
        };
        let end = at + time;
        self.push(at, slot, Some(Action::Stop), MemberCommand::Stop);
        self.push(end, slot, None, MemberCommand::Continue);
        self.slots[slot].taken_until = end;
        if !is_brief {
            self.slots[slot].condition = SlotState::Uncertain;
            self.slots[slot].taken_until = end + timeout / 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            processes: 5,
            length: Duration::from_secs(60),
            every: Duration::from_millis(50),
            actions: Action::ALL.to_vec(),
            member_timeout: Duration::from_secs(1),
            limit: Duration::from_secs(4),
            plant: None,
        }
    }

    #[test]
    fn seed_determines_schedule() {
        let settings = settings();
        assert_eq!(Schedule::of_seed(3, &settings), Schedule::of_seed(3, &settings));
        assert_ne!(Schedule::of_seed(3, &settings), Schedule::of_seed(4, &settings));
    }

    #[test]
    fn schedule_contains_at_least_9_actions_and_spares_one_slot() {
        let settings = settings();
        for seed in 0..50 {
            let schedule = Schedule::of_seed(seed, &settings);
            let harms = |command: &MemberCommand| {
                matches!(
                    command,
                    MemberCommand::Kill
                        | MemberCommand::Stop
                        | MemberCommand::Freeze
                        | MemberCommand::Leave { .. }
                )
            };
            let victims: std::collections::BTreeSet<usize> = schedule
                .steps
                .iter()
                .filter(|step| harms(&step.command))
                .map(|step| step.slot)
                .collect();
            assert!(victims.len() < settings.processes, "seed {seed}");
            let count =
                |action| schedule.steps.iter().filter(|step| step.action == Some(action)).count();
            // Frozen slots are not available to the other actions.
            assert!(Action::ALL.into_iter().filter(|action| count(*action) > 0).count() > 8);
        }
    }
}
