//! What is known of a life when it is over.
//!
//! Owns: counts. Never does: judge.

use std::ops::AddAssign;

/// Where a member is in a view change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Its streams are stopped, and not everybody has been told how far it has come.
    Wedged,
    /// It has told everybody.
    Reported,
    /// It leads, and has proposed a decision, perhaps not to all.
    Proposed,
    /// It has accepted what another one proposes, and perhaps not told all.
    Accepted,
    /// It knows the decision, and has not told it to all.
    Decided,
    /// It is in the new view, and its streams do not all go on yet.
    Installed,
}

impl Step {
    /// All of them, in their order.
    pub const ALL: [Step; 6] = [
        Step::Wedged,
        Step::Reported,
        Step::Proposed,
        Step::Accepted,
        Step::Decided,
        Step::Installed,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Step::Wedged => "wedged",
            Step::Reported => "reported",
            Step::Proposed => "proposed",
            Step::Accepted => "accepted",
            Step::Decided => "decided",
            Step::Installed => "installed",
        }
    }
}

/// What faults met.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coverage {
    /// Crashes at each step.
    pub crashes: [u64; 6],
    /// Those of them that took the leader.
    pub leader_crashes: [u64; 6],
    /// Nodes that stood still for a while, by the step at which they began to.
    pub pauses: [u64; 6],
    /// Nodes that went on after that, by the step at which they were.
    pub resumes: [u64; 6],
    /// Nodes that stood still in a view change while others decided.
    pub overslept: u64,
    /// Members that were between two layouts of a topic when a view change stopped them.
    pub layouts_met: u64,
    /// Crashes of who told the state to a new member, or of the new member, before it was told.
    pub transfers_cut: u64,
}

impl Coverage {
    /// Everything that faults can meet, what it is called, and how often they have met it.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let steps = [
            ("crashes", &self.crashes),
            ("leader crashes", &self.leader_crashes),
            ("pauses", &self.pauses),
            ("resumes", &self.resumes),
        ];
        let named = |(what, counts): (&str, &[u64; 6])| {
            let counts = Step::ALL.iter().zip(*counts);
            let one = |(step, count): (&Step, u64)| (format!("{what}: {}", step.name()), count);
            counts.map(one).collect::<Vec<_>>()
        };
        let mut all: Vec<(String, u64)> = steps.into_iter().flat_map(named).collect();
        all.push(("decisions overslept".into(), self.overslept));
        all.push(("changes of layout met".into(), self.layouts_met));
        all.push(("state transfers cut".into(), self.transfers_cut));
        all
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Coverage) {
        let add = |sums: &mut [u64; 6], more: [u64; 6]| {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        };
        add(&mut self.crashes, other.crashes);
        add(&mut self.leader_crashes, other.leader_crashes);
        add(&mut self.pauses, other.pauses);
        add(&mut self.resumes, other.resumes);
        self.overslept += other.overslept;
        self.layouts_met += other.layouts_met;
        self.transfers_cut += other.transfers_cut;
    }
}

/// What came of a life, or of many.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Account {
    /// Writes that landed, messages of links, faults and acts of applications.
    pub events: u64,
    /// Messages that were written.
    pub messages: u64,
    /// Messages that were delivered, each at each reader.
    pub deliveries: u64,
    /// Views that were installed.
    pub view_changes: u64,
    /// Epochs that were begun, each at each member.
    pub epochs: u64,
    /// Nodes that stopped for good.
    pub crashes: u64,
    /// Those of them that came back as new ones.
    pub restarts: u64,
    /// Cuts of any kind between nodes.
    pub partitions: u64,
    /// Nodes that stood still for a while.
    pub pauses: u64,
    /// Nodes that stood still until the others had been judged.
    pub stops: u64,
    /// Lives that were led.
    pub lives: u64,
    /// Lives at whose end a group was there, in which everything that is promised was looked for.
    pub judged: u64,
    /// Lives in which the same was done while nodes stood still.
    pub judged_without: u64,
    /// Messages that were looked for at readers at these ends.
    pub looked_for: u64,
    /// Nodes that fell out while they lived.
    pub evictions: u64,
    /// Networked groups that lost their primary partition, as they may.
    pub lost: u64,
    /// What the faults met.
    pub coverage: Coverage,
    /// What should not have been.
    pub violations: Vec<String>,
    /// Follows from everything that happened; the same for the same seed.
    pub hash: u64,
    /// What happened, if somebody wanted to read it.
    pub journal: Vec<String>,
}

impl Account {
    /// Deliveries per message that was written.
    pub fn deliveries_per_message(&self) -> f64 {
        self.deliveries as f64 / self.messages.max(1) as f64
    }
}

impl AddAssign<&Account> for Account {
    fn add_assign(&mut self, other: &Account) {
        self.events += other.events;
        self.messages += other.messages;
        self.deliveries += other.deliveries;
        self.view_changes += other.view_changes;
        self.epochs += other.epochs;
        self.crashes += other.crashes;
        self.restarts += other.restarts;
        self.partitions += other.partitions;
        self.pauses += other.pauses;
        self.stops += other.stops;
        self.lives += other.lives;
        self.judged += other.judged;
        self.judged_without += other.judged_without;
        self.looked_for += other.looked_for;
        self.evictions += other.evictions;
        self.lost += other.lost;
        self.coverage += other.coverage;
        self.violations.extend_from_slice(&other.violations);
        self.journal.extend_from_slice(&other.journal);
        self.hash = self.hash.rotate_left(7) ^ other.hash;
    }
}
