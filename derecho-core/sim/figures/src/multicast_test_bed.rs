//! Test bed of the multicast figures: members of subgroups on a simulated cluster, all of them
//! sending as fast as their windows permit.
//!
//! Owns: the start of a run, the measured period, and the evaluation of the counters. Never does:
//! know a price, or compute what the protocol would do.
//!
//! ```text
//!   all gather ── senders begin ── every window was used once ── measured ──> end
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::ids::Time;
use derecho_sim::{Cluster, Config, CostModel, NodeIndex, Random, StopReason};

use crate::FigureError;
use crate::member::{Batches, MulticastMeasurements, MulticastParameters, MulticastTestMember};
use crate::parallel::each;

/// Members begin to send at random times within this period, in nanoseconds.
const START_SPREAD: u64 = 2_000;
/// Interval between checks of whether a run has advanced enough, in nanoseconds.
const SLICE: u64 = 20_000;
/// Time without any delivery after which a run counts as stuck, in nanoseconds. A log that blocks
/// all deliveries does so for a shorter time.
const STANDSTILL: u64 = 1_000_000_000;
/// Index of a member's thread.
const POLLING: usize = 0;

/// Delay of some senders after each message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Delay {
    /// Number of delayed senders, counted from the last.
    pub(crate) senders: usize,
    /// Delay in nanoseconds after each message; `None` if these senders send nothing at all.
    pub(crate) nanos: Option<u64>,
}

/// Parameters of one run.
#[derive(Clone, Debug)]
pub(crate) struct MulticastTestSetup {
    pub(crate) costs: CostModel,
    pub(crate) seed: u64,
    pub(crate) parameters: MulticastParameters,
    pub(crate) delay: Option<Delay>,
    /// Number of windows of all senders before the measurement begins.
    pub(crate) warm_windows: f64,
    /// Minimum duration of the measurement in nanoseconds.
    pub(crate) least_ns: u64,
    /// Minimum number of windows of all senders in the measurement.
    pub(crate) least_windows: f64,
}

/// Runs setups, in parallel on all processors.
pub(crate) fn run_all(setups: &[MulticastTestSetup]) -> Result<Vec<MulticastOutcome>, FigureError> {
    each(setups, run)
}

/// Result of a run. Rates and shares are means over the members.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MulticastOutcome {
    /// Delivered application data, GB/s.
    pub(crate) gigabytes: f64,
    /// Messages delivered per second.
    pub(crate) messages: f64,
    /// Latency from commit to delivery, in µs.
    pub(crate) latency: f64,
    /// Number of writes of one member per delivered message.
    pub(crate) writes: f64,
    /// Share of the time that the polling thread spends posting.
    pub(crate) posting: f64,
    /// Share of the time that a sending thread waits for room.
    pub(crate) waiting: f64,
    /// Null places of the order per message.
    pub(crate) nulls: f64,
    pub(crate) sends: Batches,
    pub(crate) receives: Batches,
    pub(crate) deliveries: Batches,
}

/// Returns the mean size of batches.
pub(crate) fn mean(batches: &Batches) -> f64 {
    let sum: u64 = batches.iter().map(|(size, often)| size * often).sum();
    sum as f64 / batches.values().sum::<u64>().max(1) as f64
}

/// Counters at the beginning or at the end of the measurement.
struct CounterReading {
    at: Time,
    taken: u64,
    passed: u64,
    writes: u64,
    posting_ns: u64,
}

struct MulticastTestBed {
    cluster: Cluster<MulticastTestMember>,
    parameters: MulticastParameters,
    measurements: Rc<RefCell<MulticastMeasurements>>,
}

/// Runs a setup.
pub(crate) fn run(setup: &MulticastTestSetup) -> Result<MulticastOutcome, FigureError> {
    let mut test_bed = MulticastTestBed::gather(setup)?;
    test_bed.begin(setup);
    let parameters = setup.parameters;
    let round = (parameters.window * parameters.senders * parameters.active) as f64;
    test_bed.until(Time(0), (round * setup.warm_windows) as u64)?;
    let first = test_bed.read();
    test_bed.measurements.borrow_mut().begin();
    let least = test_bed.least() + (round * setup.least_windows) as u64;
    test_bed.until(first.at.after(setup.least_ns), least)?;
    let last = test_bed.read();
    let measurements = test_bed.measurements.borrow();
    if let Some(fault) = measurements.faults.first() {
        return Err(FigureError::Stuck(format!("a member is reported as faulty: {fault}")));
    }
    let (members, nanos) = (parameters.members as f64, last.at.since(first.at) as f64);
    let taken = (last.taken - first.taken) as f64;
    let threads = (parameters.senders * parameters.active) as f64;
    Ok(MulticastOutcome {
        gigabytes: taken * parameters.bytes as f64 / members / nanos,
        messages: taken / members / nanos * 1e9,
        latency: measurements.latency_ns as f64 / measurements.latencies.max(1) as f64 / 1000.0,
        writes: (last.writes - first.writes) as f64 / taken,
        posting: (last.posting_ns - first.posting_ns) as f64 / members / nanos,
        waiting: measurements.waited_ns as f64 / threads / nanos,
        nulls: (last.passed - first.passed) as f64 / taken - 1.0,
        sends: measurements.sends.clone(),
        receives: measurements.receives.clone(),
        deliveries: measurements.deliveries.clone(),
    })
}

impl MulticastTestBed {
    /// Creates all members, whose subgroups have begun.
    fn gather(setup: &MulticastTestSetup) -> Result<MulticastTestBed, FigureError> {
        let parameters = setup.parameters;
        let config = Config {
            costs: setup.costs.clone(),
            deadline: Time(u64::MAX),
            step_limit: u64::MAX,
            ..Config::costed(setup.seed)
        };
        let measurements = MulticastMeasurements::new(
            parameters.members,
            parameters.senders,
            parameters.subgroups,
        );
        let measurements = Rc::new(RefCell::new(measurements));
        let mut cluster = Cluster::new(config);
        let mut failed = None;
        for _ in 0..parameters.members {
            cluster.add_node(|link| {
                match MulticastTestMember::new(link, parameters, setup.costs.disk, &measurements) {
                    Ok(member) => vec![member],
                    Err(problem) => {
                        failed = Some(problem);
                        Vec::new()
                    }
                }
            });
        }
        if let Some(problem) = failed {
            return Err(FigureError::Stuck(format!("a member cannot begin: {problem}")));
        }
        let gathered = |cluster: &Cluster<MulticastTestMember>| {
            let mut nodes = (0..parameters.members).map(NodeIndex);
            nodes.all(|node| cluster.machine(node, POLLING).is_gathered())
        };
        while !gathered(&cluster) {
            let next = cluster.now().after(SLICE);
            if next.0 > STANDSTILL || cluster.run_until(next) != StopReason::Reached {
                return Err(FigureError::Stuck("the subgroups do not begin".into()));
            }
        }
        Ok(MulticastTestBed { cluster, parameters, measurements })
    }

    /// Makes every sender begin to send.
    fn begin(&mut self, setup: &MulticastTestSetup) {
        let mut random = Random::new(setup.seed);
        let undelayed = self.parameters.senders - setup.delay.map_or(0, |delay| delay.senders);
        for sender in 0..self.parameters.senders {
            let delay = setup.delay.filter(|_| sender >= undelayed).map(|delay| delay.nanos);
            if delay == Some(None) {
                continue;
            }
            let wait = delay.flatten().unwrap_or(0);
            for group in 0..self.parameters.active {
                // Senders with intervals do not send in step with each other.
                let spread = random.between(0, START_SPREAD.max(wait));
                let start = self.cluster.now().after(spread);
                self.cluster.inject_again(
                    NodeIndex(sender),
                    POLLING,
                    start,
                    move |member, now, effects| {
                        let next = member.send(group, now, effects);
                        let sent = effects.work_done().committed > 0;
                        Some(if sent { next.after(wait) } else { next })
                    },
                );
            }
        }
    }

    /// Returns the smallest number of messages that any member has taken.
    fn least(&self) -> u64 {
        self.measurements.borrow().taken.iter().copied().min().unwrap_or(0)
    }

    /// Runs at least until `moment`, and until every member has taken `messages` messages.
    fn until(&mut self, moment: Time, messages: u64) -> Result<(), FigureError> {
        let (mut least, mut since) = (self.least(), self.cluster.now());
        while self.cluster.now() < moment || self.least() < messages {
            self.cluster.run_until(self.cluster.now().after(SLICE));
            if self.least() > least {
                (least, since) = (self.least(), self.cluster.now());
            } else if self.cluster.now().since(since) > STANDSTILL {
                let text = format!("nothing is delivered after {least} messages");
                return Err(FigureError::Stuck(text));
            }
        }
        Ok(())
    }

    fn read(&self) -> CounterReading {
        let nodes = || (0..self.parameters.members).map(NodeIndex);
        let thread_use = |node| self.cluster.thread_use(node, POLLING);
        CounterReading {
            at: self.cluster.now(),
            taken: self.measurements.borrow().taken.iter().sum(),
            passed: nodes().map(|node| self.cluster.machine(node, POLLING).passed()).sum(),
            writes: nodes().map(|node| self.cluster.counters(node).writes).sum(),
            posting_ns: nodes().map(|node| thread_use(node).posting_ns).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use derecho_core::multicast::ablation::Ablation;
    use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};

    use super::*;
    use crate::Network;
    use crate::keeping::StorageMode;

    fn sixteen(network: Network, delay: Option<Delay>) -> MulticastOutcome {
        let terms =
            SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation: Ablation::default() };
        run(&MulticastTestSetup {
            costs: network.costs("").unwrap(),
            seed: 1,
            parameters: MulticastParameters {
                members: 16,
                senders: 16,
                subgroups: 1,
                active: 1,
                bytes: 10 * 1024,
                window: 100,
                terms,
                keeping: StorageMode::Nothing,
            },
            delay,
            warm_windows: 1.0,
            least_ns: 6_000_000,
            least_windows: 1.0,
        })
        .unwrap()
    }

    /// More than 80 % of the port, at both prices of the processor.
    #[test]
    fn sixteen_sending_members_use_over_80_percent_of_port_bandwidth() {
        for network in [Network::Spindle, Network::Ours] {
            let through_ports = sixteen(network, None).gigabytes * 15.0 / 16.0;
            assert!(through_ports > 0.8 * 12.5, "{network:?}: {through_ports} GB/s");
        }
    }

    /// At the paper's load of 9.7 GB/s, a message's latency is less than half of the time of a
    /// window, for which the senders wait.
    #[test]
    fn latency_at_paper_load_is_below_half_of_window_time() {
        let every = (16.0 * 10.0 * 1024.0 / 9.7) as u64;
        for network in [Network::Spindle, Network::Ours] {
            let outcome = sixteen(network, Some(Delay { senders: 16, nanos: Some(every) }));
            assert!(outcome.gigabytes > 9.0, "{network:?}: {} GB/s", outcome.gigabytes);
            assert!(outcome.latency < 800.0, "{network:?}: {} µs", outcome.latency);
        }
    }
}
