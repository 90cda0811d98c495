//! Shared state tables over shared memory, as separate members of one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use dds_api::prelude::*;
use dds_api::shared_state::{
    FireCondition, Rank, Scope, SharedState, SharedStateConfig, Strategy, TableRow, row,
};

row! {
    /// Row of a counting member.
    pub struct Count {
        /// Number that it has counted to.
        pub count: u64,
        /// Minimum of the others' counts that it has seen.
        pub least: u64,
    }
}

row! {
    /// A row with other columns than [`Count`].
    pub struct Other {
        /// An unrelated value.
        pub load: f64,
    }
}

const ZERO: Count = Count { count: 0, least: 0 };
const SOON: Timeout = Timeout::secs(20);

struct TestDomain(tempfile::TempDir);

impl TestDomain {
    fn new() -> TestDomain {
        TestDomain(tempfile::tempdir().unwrap())
    }

    fn table(&self, members: usize) -> SharedStateConfig {
        SharedStateConfig::new("test", members).runtime_dir(self.0.path().join("run"))
    }

    /// Returns all members of a table, joined at once.
    fn gather<R: TableRow>(
        &self,
        members: usize,
        strategy: Strategy,
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Clone + Send + 'static,
    ) -> Vec<SharedState<R>> {
        let joining: Vec<_> = (0..members)
            .map(|_| {
                let (config, setup) = (self.table(members).strategy(strategy), setup.clone());
                thread::spawn(move || config.join(initial, setup).unwrap())
            })
            .collect();
        let mut tables: Vec<_> = joining.into_iter().map(|t| t.join().unwrap()).collect();
        tables.sort_by_key(|table| table.update(|scope| scope.me()).unwrap());
        tables
    }
}

/// Counts in lock step.
fn count_to(target: u64) -> impl FnOnce(&mut Scope<'_, Count>) + Clone + Send + 'static {
    move |scope| {
        scope.when(
            FireCondition::Always,
            move |table| {
                let own = table.get(table.me(), Count::count);
                own < target && table.rows().min(|row| row.get(Count::count)) >= own
            },
            |scope| {
                let next = scope.get(scope.me(), Count::count) + 1;
                scope.publish(Count::count, next);
            },
        );
    }
}

#[test]
fn members_count_in_lock_step_by_writes_and_by_reads() {
    for strategy in [Strategy::Writes, Strategy::Reads] {
        let domain = TestDomain::new();
        let tables = domain.gather(3, strategy, ZERO, count_to(300));
        for table in &tables {
            table
                .wait_until(SOON, |table| table.rows().all(|row| row.get(Count::count) == 300))
                .unwrap();
            assert_eq!(table.members().len(), 3);
        }
        let snapshot = tables[0].snapshot().unwrap();
        assert_eq!(snapshot.rows().sum(|row| row.get(Count::count)), 900);
    }
}

#[test]
fn kept_reduction_is_visible_to_all_members() {
    let domain = TestDomain::new();
    let tables = domain.gather(2, Strategy::Writes, ZERO, |scope| {
        scope.keep(Count::least, |table| table.rows().min(|row| row.get(Count::count)));
    });
    for (index, table) in tables.iter().enumerate() {
        table.update(|scope| scope.publish(Count::count, 7 + index as u64)).unwrap();
    }
    // All members know that all members know that all have counted to seven.
    for table in &tables {
        table.wait_until(SOON, |table| table.rows().all(|row| row.get(Count::least) == 7)).unwrap();
    }
}

#[test]
fn departed_member_is_frozen_and_remaining_members_rebuild_table() {
    let domain = TestDomain::new();
    let mut tables = domain.gather(3, Strategy::Writes, ZERO, |_| {});
    let failed = Arc::new(AtomicU64::new(u64::MAX));
    let heard = Arc::clone(&failed);
    tables[0].on_failure(move |scope, rank| {
        assert!(scope.is_frozen(rank));
        heard.store(u64::from(rank.0), Ordering::SeqCst);
    });
    tables[2].update(|scope| scope.publish(Count::count, 5)).unwrap();
    tables[0].wait_until(SOON, |table| table.get(Rank(2), Count::count) == 5).unwrap();
    drop(tables.pop());
    tables[0].wait_until(SOON, |table| table.live().iter().count() == 2).unwrap();
    assert_eq!(failed.load(Ordering::SeqCst), 2);
    assert_eq!(tables[0].snapshot().unwrap().row(Rank(2)).count, 5, "its row stays readable");

    let members = tables[0].members()[..2].to_vec();
    thread::scope(|scope| {
        for table in &tables {
            scope.spawn(|| table.rebuild(1, &members, ZERO, count_to(50), SOON).unwrap());
        }
    });
    for table in &tables {
        assert_eq!(table.members(), members);
        table
            .wait_until(SOON, |table| table.rows().all(|row| row.get(Count::count) == 50))
            .unwrap();
    }
}

#[test]
fn failed_join_or_wait_reports_reason() {
    let domain = TestDomain::new();
    let says = |error: DdsError, words: &str| {
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
    };
    let alone = domain.table(2).start_limit(Timeout::millis(50)).join(ZERO, |_| {});
    says(alone.err().unwrap(), "start the other members");
    says(domain.table(0).join(ZERO, |_| {}).err().unwrap(), "1 to 65535");
    let stranger = {
        let config = domain.table(2).start_limit(Timeout::secs(5));
        thread::spawn(move || config.join(Other { load: 0.0 }, |_| {}).err().unwrap())
    };
    // The first member that detects the mismatch leaves; the other may see only that.
    let impatient = domain.table(2).start_limit(Timeout::secs(5));
    let ours = impatient.join(ZERO, |_| {}).err().unwrap();
    let theirs = stranger.join().unwrap();
    let told = [&ours, &theirs].map(|error| error.to_string().contains("same row! declaration"));
    assert!(told.contains(&true), "{ours}; {theirs}");
    let tables = domain.gather(1, Strategy::Writes, ZERO, |_| {});
    let never = tables[0].wait_until(Timeout::millis(20), |_| false).unwrap_err();
    says(never, "did not hold within 20ms");
}
