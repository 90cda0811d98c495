//! Report of a finished life.
//!
//! Owns: counts. Never does: check a rule.

use std::ops::AddAssign;

/// Progress of a member in a view change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ViewChangeStep {
    /// The member's streams are stopped, and its report has not been sent to all.
    Wedged,
    /// The member has sent its report to all.
    Reported,
    /// The member leads, and has proposed a decision, perhaps not to all.
    Proposed,
    /// The member has accepted another member's proposal, and perhaps has not announced it to all.
    Accepted,
    /// The member knows the decision, and has not announced it to all.
    Decided,
    /// The member is in the new view, and not all of its streams have continued yet.
    Installed,
}

impl ViewChangeStep {
    /// All steps, in their order.
    pub const ALL: [ViewChangeStep; 6] = [
        ViewChangeStep::Wedged,
        ViewChangeStep::Reported,
        ViewChangeStep::Proposed,
        ViewChangeStep::Accepted,
        ViewChangeStep::Decided,
        ViewChangeStep::Installed,
    ];

    /// Name of the step.
    pub fn name(self) -> &'static str {
        match self {
            ViewChangeStep::Wedged => "wedged",
            ViewChangeStep::Reported => "reported",
            ViewChangeStep::Proposed => "proposed",
            ViewChangeStep::Accepted => "accepted",
            ViewChangeStep::Decided => "decided",
            ViewChangeStep::Installed => "installed",
        }
    }
}

/// Coverage: situations in which faults happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coverage {
    /// Number of crashes at each step.
    pub crashes: [u64; 6],
    /// Number of those crashes that hit the leader.
    pub leader_crashes: [u64; 6],
    /// Number of pauses, by the step at which they began.
    pub pauses: [u64; 6],
    /// Number of ended pauses, by the node's step at that time.
    pub resumes: [u64; 6],
    /// Number of nodes that stood still in a view change while others decided.
    pub overslept: u64,
    /// Number of members that a view change stopped between two layouts of a topic.
    pub layouts_met: u64,
    /// Number of crashes of a state transfer's sender or receiver before its end.
    pub transfers_cut: u64,
}

impl Coverage {
    /// Returns the name and count of each situation.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let steps = [
            ("crashes", &self.crashes),
            ("leader crashes", &self.leader_crashes),
            ("pauses", &self.pauses),
            ("resumes", &self.resumes),
        ];
        let named = |(what, counts): (&str, &[u64; 6])| {
            let counts = ViewChangeStep::ALL.iter().zip(*counts);
            let one =
                |(step, count): (&ViewChangeStep, u64)| (format!("{what}: {}", step.name()), count);
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

/// Result of one life, or of many.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LifeReport {
    /// Number of landed writes, messages of links, faults and acts of applications.
    pub events: u64,
    /// Number of messages written.
    pub messages: u64,
    /// Number of messages delivered, counted at each reader.
    pub deliveries: u64,
    /// Number of views installed.
    pub view_changes: u64,
    /// Number of epochs begun, counted at each member.
    pub epochs: u64,
    /// Number of nodes that stopped for good.
    pub crashes: u64,
    /// Number of those nodes that came back as new ones.
    pub restarts: u64,
    /// Number of cuts of any kind between nodes.
    pub partitions: u64,
    /// Number of nodes that stood still for a while.
    pub pauses: u64,
    /// Number of nodes that stood still until the others had been judged.
    pub stops: u64,
    /// Number of lives.
    pub lives: u64,
    /// Number of lives that ended with a group, in which all guarantees were checked.
    pub judged: u64,
    /// Number of lives in which all guarantees were also checked while nodes stood still.
    pub judged_without: u64,
    /// Number of messages checked at readers at these ends.
    pub looked_for: u64,
    /// Number of live nodes that were excluded.
    pub evictions: u64,
    /// Number of networked groups that lost their primary partition, as is permitted.
    pub lost: u64,
    /// Situations in which the faults happened.
    pub coverage: Coverage,
    /// Violations of rules.
    pub violations: Vec<String>,
    /// Hash over all events; the same for the same seed.
    pub hash: u64,
    /// Journal of the events, if requested.
    pub journal: Vec<String>,
}

impl LifeReport {
    /// Returns the number of deliveries per message written.
    pub fn deliveries_per_message(&self) -> f64 {
        self.deliveries as f64 / self.messages.max(1) as f64
    }
}

impl AddAssign<&LifeReport> for LifeReport {
    fn add_assign(&mut self, other: &LifeReport) {
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
