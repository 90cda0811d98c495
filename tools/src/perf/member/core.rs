//! A member of a subgroup of the multicast itself: claims, commits and queues, without DDS.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::link::{Bells, Link};
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::bias::ThreadToken;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::{self, SubgroupConfig, Upcall};
use derecho_core::node::{ACKS, ACKS_WORDS, Node};
use derecho_node::{Engine, EngineCounters, Pace, WaitOutcome};

use super::super::control::HarnessControl;
use super::super::payload::fill;
use super::super::role::{DeliverySettings, LOOK, PerfLevel, within_match_limit};
use super::super::subscriber_stats::SubscriberStats;
use super::table::{Contribution, SharedSubgroupState, SubgroupFounder};
use super::{MemberArgs, TopicAccess};
use crate::outcome::Failure;

/// Default memory and messages in flight of a sender: those of a DDS writer.
const USUAL: (usize, usize) = (1 << 20, 7168);
/// Number of the only thread that writes in a process.
pub(super) const WRITING: ThreadToken = ThreadToken::new(0);

/// A member of a subgroup. See the [module](self).
pub(super) struct CoreAccess {
    engine: Engine<SubgroupFounder, ShmLink>,
    shared: Arc<SharedSubgroupState>,
    memory: Option<SenderMemory>,
    bells: Arc<dyn Bells>,
    readers: usize,
    size: usize,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

/// Returns a sender's memory for messages of `size` bytes, as large as a DDS writer's.
fn geometry(delivery: &DeliverySettings, size: usize) -> Result<Geometry, Failure> {
    let (bytes, messages) =
        (delivery.memory.unwrap_or(USUAL.0), delivery.in_flight.map(|n| n as usize));
    let messages = messages.unwrap_or(USUAL.1);
    let entries = match delivery.level.is_ordered() {
        false => messages,
        true => messages + messages.div_ceil(7),
    };
    Geometry::fitting(bytes, entries, size).ok_or_else(|| {
        Failure::Usage(format!("no sender keeps {bytes} bytes in {messages} messages of {size}"))
    })
}

impl CoreAccess {
    /// Joins the subgroup; `upcall`, if given, receives the deliveries.
    pub(super) fn join(args: &MemberArgs, upcall: Option<Upcall>) -> Result<CoreAccess, Failure> {
        let delivery = &args.part.means;
        let config = ShmConfig::new(format!("core-{}", delivery.domain));
        let mut link = ShmLink::join(config).map_err(failed)?;
        let acks = link.open(ACKS, ACKS_WORDS).map_err(failed)?;
        let (bells, parker) = (link.bells(), link.parker());
        let bell = Arc::clone(&parker);
        let node = Node::new(link.node(), acks, Arc::new(move || bell.wake()));
        let level = match delivery.level {
            PerfLevel::Unordered => subgroup::DeliveryGuarantee::Unordered,
            PerfLevel::Atomic => subgroup::DeliveryGuarantee::Atomic,
            PerfLevel::Kept | PerfLevel::Logged => {
                let text = "the core keeps nothing by itself: add --interface dds";
                return Err(Failure::Usage(text.to_owned()));
            }
        };
        let terms = SubgroupConfig { level, ablation: delivery.ablation() };
        let mut table = SubgroupFounder::new(node, terms, args.processes);
        table.set_upcall(upcall);
        let shared = table.shared();
        let region = table.fresh_region();
        let lines = (region, link.open(region, args.processes * LINE_WORDS).map_err(failed)?);
        let mut memory = None;
        if args.writes {
            let (region, shape) = (table.fresh_region(), geometry(delivery, args.part.size)?);
            let words = link.open(region, shape.words()).map_err(failed)?;
            memory = Some((
                region,
                match delivery.level.is_ordered() {
                    true => SenderMemory::with_nulls(words, shape),
                    false => SenderMemory::new(words, shape),
                }
                .with_barrier(link.barrier()),
            ));
        }
        let mut pace = Pace::default();
        if let Some(micros) = delivery.spin {
            pace.spin = Duration::from_micros(micros);
        }
        if let Some(micros) = delivery.linger {
            pace.linger = Duration::from_micros(micros);
        }
        let engine = Engine::start(table, link, parker, pace);
        let contribution = Contribution { lines, memory: memory.clone(), reads: args.reads };
        engine.act(|table, _, effects| table.join(contribution, effects));
        let (readers, size) = (args.readers as usize, args.part.size);
        let memory = memory.map(|(_, memory)| memory);
        Ok(CoreAccess { engine, shared, memory, bells, readers, size })
    }

    pub(super) fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.shared.inbox.get()?.as_ref()
    }

    /// Returns the memory it sends from, if it sends.
    pub(super) fn memory(&self) -> Option<&SenderMemory> {
        self.memory.as_ref()
    }

    /// Notifies sleeping members of commits, and reclaims memory that all members have
    /// finished with.
    pub(super) fn tell_of_commits(&self, memory: &SenderMemory) {
        self.bells.before_looking();
        self.bells.ring(memory.audience());
        self.engine.poke();
    }

    /// Declares that this member sends nothing in a number of rounds of the order.
    pub(super) fn declare_silence(&self, rounds: u64) -> bool {
        self.engine.act(|table, _, _| table.declare_silence(rounds))
    }

    fn has_room(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.has_room(self.size))
    }

    fn wait_until(&self, ready: impl FnMut() -> bool) -> Result<bool, Failure> {
        self.wait_for(LOOK, ready)
    }

    /// Drives the node until `ready`; returns whether that was in time.
    pub(super) fn wait_for(
        &self,
        time: Duration,
        ready: impl FnMut() -> bool,
    ) -> Result<bool, Failure> {
        let deadline = derecho_node::clock::now().after(time.as_nanos() as u64);
        match self.engine.wait(Some(deadline), ready) {
            WaitOutcome::Ready => Ok(true),
            WaitOutcome::TimedOut => Ok(false),
            WaitOutcome::Stopped => Err(Failure::new("the engine has stopped")),
        }
    }
}

impl Drop for CoreAccess {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

impl TopicAccess for CoreAccess {
    /// Rank of the writer, which follows from the names of the members.
    type Writer = usize;

    fn meet(&self, control: &HarnessControl) -> Result<bool, Failure> {
        let met = || {
            self.shared.inbox.get().is_some()
                && self.shared.readers.load(Ordering::Acquire) >= self.readers
        };
        within_match_limit(control, || self.wait_until(met))
    }

    fn counters(&self) -> &EngineCounters {
        self.engine.counters()
    }

    fn write(&mut self, first: u64, most: u64) -> Result<u64, Failure> {
        let Some(memory) = &self.memory else { return Ok(0) };
        let mut written = 0;
        while written < most {
            let Ok(mut claim) = memory.claim_on(WRITING, self.size) else { break };
            fill(claim.bytes(), first + written, 0);
            claim.commit_on(WRITING, self.size, |_, _| {});
            written += 1;
        }
        if written > 0 {
            // Members that are awake have seen each message already. One bell wakes all sleeping
            // members, and one turn reclaims the memory they have finished with.
            self.tell_of_commits(memory);
        }
        Ok(written)
    }

    fn take(&mut self, stats: &mut SubscriberStats<usize>) -> Result<u64, Failure> {
        let Some(inbox) = self.inbox() else { return Ok(0) };
        // SAFETY: only the thread of this member takes from the queue and asks for its length.
        let taking = unsafe { inbox.consumer_unchecked() };
        let waiting = taking.len();
        for record in std::iter::from_fn(|| taking.take()).take(waiting) {
            stats.look(record.bytes(), record.sender());
        }
        Ok(waiting as u64)
    }

    fn wait(&self, writing: bool) -> Result<(), Failure> {
        let taken = || self.inbox().is_some_and(|inbox| !inbox.is_empty());
        self.wait_until(|| taken() || (writing && self.has_room())).map(|_| ())
    }

    fn copies(&self) -> (f64, u64) {
        (0.0, 0)
    }

    fn sample_bytes(&self) -> usize {
        size_of::<derecho_core::multicast::inbox::Record>()
    }
}
