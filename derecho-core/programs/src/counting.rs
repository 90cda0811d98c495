//! Counting of all nodes in lock step (SST paper, 5.7).
//!
//! Owns: one count per node. Never does: continue without a failed node; the frozen count holds the
//! others, as in the paper's predicate.
//!
//! ```text
//!   when  for all i: count[i] >= count[me]   and count[me] < target
//!   then  count[me] += 1, pushed
//! ```
//! Any two counts therefore differ by at most one. When all counts have reached the target, each
//! node raises `done` in its row.

use derecho_core::row;
use derecho_core::sst::{FireCondition, Scope};

row! {
    /// Row of a counting node.
    pub struct Count {
        /// Current count.
        pub count: u64,
        /// Whether this node has seen all nodes reach the target.
        pub done: bool,
    }
}

impl Count {
    /// Initial row of every node.
    pub const ZERO: Count = Count { count: 0, done: false };
}

/// Counts to `target` with all other nodes; calls `done` once, when all have reached the target.
pub fn setup(
    target: u64,
    done: impl FnMut(u64) + Send + 'static,
) -> impl FnOnce(&mut Scope<'_, Count>) + Send + 'static {
    move |scope| {
        if target == 0 {
            finish(scope, target, done);
            return;
        }
        let mut done = Some(done);
        scope.when(
            FireCondition::Always,
            move |table| {
                let own = table.get(table.me(), Count::count);
                own < target && table.rows().all(|row| row.get(Count::count) >= own)
            },
            move |scope| {
                let next = scope.get(scope.me(), Count::count) + 1;
                scope.publish(Count::count, next);
                if next == target
                    && let Some(done) = done.take()
                {
                    finish(scope, target, done);
                }
            },
        );
    }
}

/// Waits until all nodes have reached the target.
fn finish(scope: &mut Scope<'_, Count>, target: u64, mut done: impl FnMut(u64) + Send + 'static) {
    scope.when(
        FireCondition::Once,
        move |table| table.rows().all(|row| row.get(Count::count) >= target),
        move |scope| {
            scope.publish(Count::done, true);
            done(target);
        },
    );
}
