//! Three processes agree on transfers, all or nothing: two-phase commit over a shared state table.
//! The account of the second participant must not become negative, so it votes no on a transfer
//! that would make it so.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dds_api::prelude::*;
use dds_api::shared_state::SharedState;
use squall_examples::{ExampleResult, part, play_all};
use sst_programs::two_phase_commit::{Commit, RequestQueue, setup};

const MEMBERS: usize = 3;
/// Amounts to transfer, in this order.
const TRANSFERS: [u64; 5] = [40, 30, 50, 20, 10];
/// Funds at the beginning.
const FUNDS: i64 = 100;

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["bank"; MEMBERS]),
        Some("bank") => take_part(),
        Some(other) => Err(format!("there is no part `{other}`: bank").into()),
    }
}

fn take_part() -> ExampleResult {
    let requests = RequestQueue::new();
    let funds = Arc::new(AtomicI64::new(FUNDS));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let decisions = Arc::new(AtomicU64::new(0));

    let (ours, heard) = (Arc::clone(&funds), Arc::clone(&asked));
    let vote = move |_instance, amount: u64| {
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(amount);
        i64::try_from(amount).is_ok_and(|amount| amount <= ours.load(Ordering::SeqCst))
    };
    let (ours, heard, counted) = (Arc::clone(&funds), Arc::clone(&asked), Arc::clone(&decisions));
    let decided = move |decision: sst_programs::two_phase_commit::Decision| {
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let amount = heard.last().copied().unwrap_or(0); // nobody votes on the next before this
        if decision.committed {
            ours.fetch_sub(i64::try_from(amount).unwrap_or(0), Ordering::SeqCst);
        }
        counted.fetch_add(1, Ordering::SeqCst);
    };

    let wanted = requests.clone();
    let table =
        SharedState::join("example-commit", MEMBERS, Commit::NONE, setup(requests, vote, decided))?;
    // The coordinator submits the requests.
    if table.update(|scope| scope.me().index() == 0)? {
        TRANSFERS.iter().for_each(|&amount| wanted.push(amount));
    }
    let all = TRANSFERS.len() as u64;
    let here = Arc::clone(&decisions);
    table.wait_until(Timeout::secs(60), move |_| here.load(Ordering::SeqCst) == all)?;
    // All leave together: a member that leaves early would look like a failed one.
    table.wait_until(Timeout::secs(60), move |table| {
        table.rows().all(|row| row.get(Commit::finished) >= all)
    })?;
    println!(
        "process {}: {} left after {all} requests",
        std::process::id(),
        funds.load(Ordering::SeqCst)
    );
    Ok(())
}
