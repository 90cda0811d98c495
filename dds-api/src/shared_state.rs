//! The shared state table between processes: one row per process, predicates over all rows.
//!
//! Owns: the process's membership in the table, and the engine that drives it. Never does:
//! interpret the rows. The programming model is that of [`derecho_core::sst`], re-exported here.
//!
//! ```no_run
//! use dds_api::prelude::*;
//! use dds_api::shared_state::{FireCondition, SharedState, row};
//!
//! row! {
//!     /// Progress of a process.
//!     pub struct Step {
//!         /// Steps done.
//!         pub done: u64,
//!     }
//! }
//!
//! fn main() -> DdsResult<()> {
//!     // Three processes that run this go through a thousand steps together.
//!     let table = SharedState::join("steps", 3, Step { done: 0 }, |scope| {
//!         scope.when(
//!             FireCondition::Always,
//!             |table| {
//!                 let own = table.get(table.me(), Step::done);
//!                 own < 1000 && table.rows().min(|row| row.get(Step::done)) >= own
//!             },
//!             |scope| {
//!                 let next = scope.get(scope.me(), Step::done) + 1;
//!                 scope.publish(Step::done, next);
//!             },
//!         );
//!     })?;
//!     table.wait_until(Timeout::secs(60), |table| {
//!         table.rows().all(|row| row.get(Step::done) == 1000)
//!     })
//! }
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
pub use derecho_core::ids::Rank;
use derecho_core::ids::{NodeId, Time};
use derecho_core::link::{Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
pub use derecho_core::row;
pub use derecho_core::sst::{
    Cell, Column, FireCondition, PredicateId, RowRef, RowSet, Scope, Snapshot, Strategy, Table,
    TableRow,
};
use derecho_core::sst::{Refresher, Sst};
use derecho_node::{Engine, Pace, WaitOutcome};

use crate::domain::assembly::join;
use crate::infrastructure::{DdsError, DdsResult, Timeout};

/// Configuration of a process that joins a table. Everything but the name and the number of members
/// has a default.
///
/// ```
/// use dds_api::prelude::Timeout;
/// use dds_api::shared_state::SharedStateConfig;
///
/// let config = SharedStateConfig::new("steps", 3).start_limit(Timeout::secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct SharedStateConfig {
    name: String,
    members: usize,
    strategy: Strategy,
    runtime_dir: Option<PathBuf>,
    group: Option<String>,
    start_limit: Timeout,
    pace: Pace,
}

impl SharedStateConfig {
    /// Configuration for the table of this name with exactly `members` processes.
    pub fn new(name: impl Into<String>, members: usize) -> Self {
        SharedStateConfig {
            name: name.into(),
            members,
            strategy: Strategy::Writes,
            runtime_dir: None,
            group: None,
            start_limit: Timeout::secs(30),
            pace: Pace::default(),
        }
    }

    /// Sets how rows reach the other members (SST-writes by default).
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the folder in which members meet. The default is the user's own folder under `/tmp`.
    pub fn runtime_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.runtime_dir = Some(folder.into());
        self
    }

    /// Shares the table with processes of all users of this UNIX group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets how long to wait until all members have joined (30 s by default).
    pub fn start_limit(mut self, limit: impl Into<Timeout>) -> Self {
        self.start_limit = limit.into();
        self
    }

    /// Joins the table and waits until all members have joined. `setup` runs once and registers
    /// the predicates.
    pub fn join<R: TableRow>(
        self,
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
    ) -> DdsResult<SharedState<R>> {
        SharedState::join_as(self, initial, setup)
    }
}

/// The predicate detector, and the refresher beside it if the strategy is SST-reads.
struct PredicateDetector<R: TableRow> {
    sst: Sst<R>,
    refresher: Option<Refresher<R>>,
}

impl<R: TableRow> Machine for PredicateDetector<R> {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        match (&mut self.refresher, event) {
            (Some(refresher), event @ LinkEvent::ReadDone { .. }) => {
                refresher.handle(event, effects);
            }
            (Some(refresher), LinkEvent::RegionUp { peer, region, replica }) => {
                let event = LinkEvent::RegionUp { peer, region, replica: replica.clone() };
                refresher.handle(event, effects);
                self.sst.handle(LinkEvent::RegionUp { peer, region, replica }, effects);
            }
            (Some(refresher), LinkEvent::PeerDown { peer, evidence }) => {
                refresher.handle(LinkEvent::PeerDown { peer, evidence }, effects);
                self.sst.handle(LinkEvent::PeerDown { peer, evidence }, effects);
            }
            (_, event) => self.sst.handle(event, effects),
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        let fetched = self.refresher.as_mut().map_or(0, |r| r.turn(now, effects));
        self.sst.turn(now, effects) + fetched
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.refresher.as_ref().and_then(Machine::wants_turn_at)
    }
}

/// A shared state table of which this process is a member. The process leaves the table when this
/// value is dropped.
///
/// ```no_run
/// # use dds_api::prelude::*;
/// # use dds_api::shared_state::{SharedState, row};
/// # row! {
/// #     /// Progress of a process.
/// #     pub struct Step {
/// #         /// Steps done.
/// #         pub done: u64,
/// #     }
/// # }
/// # fn main() -> DdsResult<()> {
/// let table = SharedState::join("steps", 3, Step { done: 0 }, |_| {})?;
/// println!("{} processes are in the table", table.members().len());
/// # Ok(())
/// # }
/// ```
pub struct SharedState<R: TableRow> {
    engine: Engine<PredicateDetector<R>, ShmLink>,
    name: String,
}

impl<R: TableRow> SharedState<R> {
    /// Joins the table of this name together with `members - 1` other processes of this host, and
    /// waits until all have joined. Rows start as `initial`; `setup` registers the predicates.
    pub fn join(
        name: &str,
        members: usize,
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
    ) -> DdsResult<Self> {
        Self::join_as(SharedStateConfig::new(name, members), initial, setup)
    }

    fn join_as(
        config: SharedStateConfig,
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
    ) -> DdsResult<Self> {
        let SharedStateConfig { name, members, strategy, runtime_dir, group, start_limit, pace } =
            config;
        if members == 0 || members > usize::from(u16::MAX) {
            return Err(DdsError::BadParameter(format!(
                "table `{name}` cannot have {members} members: 1 to {} processes share a table",
                u16::MAX
            )));
        }
        let mut shm = ShmConfig::new(format!("table-{name}"));
        shm.runtime_dir = runtime_dir.or(shm.runtime_dir);
        shm.group = group.or(shm.group);
        let mut link = join(shm)?;
        let region = Sst::<R>::region(0);
        let own = link.open(region, Sst::<R>::REGION_WORDS).map_err(out_of_resources)?;
        let sst = Sst::new(link.node(), own, members, strategy, initial, setup);
        let refresher = (strategy == Strategy::Reads).then(|| Refresher::new(region, 0));
        let parker = link.parker();
        let engine = Engine::start(PredicateDetector { sst, refresher }, link, parker, pace);
        let table = SharedState { engine, name };
        table.wait_for_members(start_limit)?;
        Ok(table)
    }

    /// Members of the table, by rank.
    pub fn members(&self) -> Vec<NodeId> {
        self.engine.act(|detector, _, _| detector.sst.members().to_vec())
    }

    /// Acts on the table as a trigger does: `f` reads the table, changes and pushes the own row,
    /// and registers predicates.
    pub fn update<T>(&self, f: impl FnOnce(&mut Scope<'_, R>) -> T) -> DdsResult<T> {
        self.engine
            .act(|detector, _, effects| detector.sst.with_table(effects, f))
            .ok_or_else(|| self.not_started(None))
    }

    /// Returns an immutable copy of all rows.
    pub fn snapshot(&self) -> DdsResult<Snapshot<R>> {
        self.update(|scope| scope.snapshot())
    }

    /// Waits until `condition` holds for the table. The condition is a predicate that fires once.
    pub fn wait_until(
        &self,
        timeout: impl Into<Timeout>,
        condition: impl FnMut(&Table<R>) -> bool + Send + 'static,
    ) -> DdsResult<()> {
        let timeout = timeout.into();
        let holds = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&holds);
        let predicate = self.update(|scope| {
            scope.when(FireCondition::Once, condition, move |_| seen.store(true, Ordering::Release))
        })?;
        match self.engine.wait(timeout.deadline(), || holds.load(Ordering::Acquire)) {
            WaitOutcome::Ready => Ok(()),
            WaitOutcome::TimedOut | WaitOutcome::Stopped => {
                // The predicate is already removed if the condition held at the very last moment.
                let _ = self.update(|scope| scope.remove(predicate));
                Err(DdsError::Timeout(format!(
                    "the condition on table `{}` did not hold within {timeout}",
                    self.name
                )))
            }
        }
    }

    /// Waits until all members have joined.
    fn wait_for_members(&self, timeout: Timeout) -> DdsResult<()> {
        let deadline = timeout.deadline();
        loop {
            // Read before the check, so that a turn in between counts as news.
            let turns = self.engine.counters().busy_turns();
            let (started, error) = self.engine.act(|detector, _, _| {
                (detector.sst.table().is_some(), detector.sst.error().cloned())
            });
            if let Some(error) = error {
                return Err(DdsError::Error(format!(
                    "table `{}` cannot continue: {error}",
                    self.name
                )));
            }
            if started {
                return Ok(());
            }
            // Joins are rare, and a busy turn takes in every change that a join makes.
            let changed = || self.engine.counters().busy_turns() != turns;
            if self.engine.wait(deadline, changed) != WaitOutcome::Ready {
                return Err(self.not_started(Some(timeout)));
            }
        }
    }

    /// Registers a callback that runs when a member fails, after the member's row is frozen.
    pub fn on_failure(&self, upcall: impl FnMut(&mut Scope<'_, R>, Rank) + Send + 'static) {
        self.engine.act(|detector, _, _| detector.sst.on_failure(upcall));
    }

    /// Tears the table down and builds the given generation of it with these members. All members
    /// must call this with the same generation and members. Waits until all have joined.
    pub fn rebuild(
        &self,
        generation: u32,
        members: &[NodeId],
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<()> {
        let region = Sst::<R>::region(generation);
        self.engine
            .act(|detector, link, effects| {
                let own = link.open(region, Sst::<R>::REGION_WORDS)?;
                detector.sst.rebuild(own, generation, members, initial, setup, effects);
                if let Some(refresher) = &mut detector.refresher {
                    refresher.retarget(region);
                }
                Ok(())
            })
            .map_err(out_of_resources)?;
        self.wait_for_members(timeout.into())
    }

    fn not_started(&self, timeout: Option<Timeout>) -> DdsError {
        let after = timeout.map_or(String::new(), |timeout| format!(" after {timeout}"));
        DdsError::Timeout(format!(
            "not all members of table `{}` have joined{after}: start the other members, with the \
             same name and number of members",
            self.name
        ))
    }
}

impl<R: TableRow> Drop for SharedState<R> {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

fn out_of_resources(error: derecho_core::link::LinkError) -> DdsError {
    DdsError::OutOfResources(error.to_string())
}
