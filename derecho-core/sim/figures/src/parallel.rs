//! Parallel execution of many runs.
//!
//! Owns: the threads. Never does: let the results depend on them.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::FigureError;

/// Runs every setup, in parallel on all processors. Each run is an independent world, so the
/// results do not depend on the parallelism.
pub(crate) fn each<S: Sync, T: Send>(
    setups: &[S],
    run: impl Fn(&S) -> Result<T, FigureError> + Sync,
) -> Result<Vec<T>, FigureError> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Result<T, FigureError>)>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(setups.len()) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(setup) = setups.get(index)
                {
                    let outcome = run(setup);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((index, outcome));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}
