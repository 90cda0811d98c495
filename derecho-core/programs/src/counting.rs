//! Everyone counts in lock step (SST paper, 5.7).
//!
//! Owns: one count a node. Never does: go on without a node that has failed; its frozen count
//! holds the others, as the paper's predicate has it.
//!
//! ```text
//!   when  for all i: count[i] >= count[me]   and count[me] < target
//!   then  count[me] += 1, pushed
//! ```
//! So no two counts ever differ by more than one. When all counts have reached the target, each
//! node raises `done` in its row.

use derecho_core::row;
use derecho_core::sst::{Fire, Scope};

row! {
    /// What each node says of its counting.
    pub struct Count {
        /// How far it has counted.
        pub count: u64,
        /// Whether it has seen everyone reach the target.
        pub done: bool,
    }
}

impl Count {
    /// The row that everyone starts with.
    pub const ZERO: Count = Count { count: 0, done: false };
}

/// Counts to `target` with everyone else; `done` is called once, when all have reached it.
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
            Fire::Always,
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

/// Waits until everyone has reached the target.
fn finish(scope: &mut Scope<'_, Count>, target: u64, mut done: impl FnMut(u64) + Send + 'static) {
    scope.when(
        Fire::Once,
        move |table| table.rows().all(|row| row.get(Count::count) >= target),
        move |scope| {
            scope.publish(Count::done, true);
            done(target);
        },
    );
}
