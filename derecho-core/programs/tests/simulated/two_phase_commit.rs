//! All or nothing, whichever node fails and whenever.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use derecho_core::sst::{Strategy, Table};
use derecho_sim::Random;
use sst_programs::two_phase_commit::{self, Commit, Decision, RequestQueue};

use crate::group::Group;

/// Votes of one instance: rank, request and vote.
type Votes = Vec<(usize, u64, bool)>;

#[derive(Default)]
struct RunRecord {
    /// Decisions by rank, in order.
    decided: Vec<Vec<Decision>>,
    /// Votes by instance and by the asking leader.
    votes: BTreeMap<(u64, u64), Votes>,
}

type Shared = Arc<Mutex<RunRecord>>;

/// Creates a group whose nodes all have the same `wanted` requests and vote no on multiples
/// of `no`.
fn start(seed: u64, nodes: usize, wanted: u64, no: u64) -> (Group<Commit>, Shared) {
    let record = Arc::new(Mutex::new(RunRecord::default()));
    record.lock().unwrap().decided = vec![Vec::new(); nodes];
    let shared = record.clone();
    let group = Group::new(seed, nodes, Strategy::Writes, Commit::NONE, move |rank| {
        let rank = rank.index();
        let requests = RequestQueue::new();
        for request in 0..wanted {
            requests.push(1000 * rank as u64 + request);
        }
        let (votes, decisions) = (shared.clone(), shared.clone());
        let vote = move |instance: u64, request: u64| {
            let yes = !(instance + rank as u64).is_multiple_of(no);
            let asked = (instance, request / 1000);
            votes.lock().unwrap().votes.entry(asked).or_default().push((rank, request, yes));
            yes
        };
        let decided = move |decision: Decision| {
            decisions.lock().unwrap().decided[rank].push(decision);
        };
        Box::new(two_phase_commit::setup(requests, vote, decided))
    });
    (group, record)
}

/// Checks that all nodes' decisions, including those of failed nodes, are prefixes of one list. For
/// each commit, one leader asked, every node alive at the end voted yes, and none voted no. All
/// nodes vote on the same request.
fn check(seed: u64, nodes: usize, alive: &[usize], record: &Shared) {
    let record = record.lock().unwrap();
    let longest = record.decided.iter().max_by_key(|list| list.len()).unwrap();
    for (index, decision) in longest.iter().enumerate() {
        assert_eq!(decision.instance, index as u64 + 1, "seed {seed}: in order, none left out");
    }
    for (rank, list) in record.decided.iter().enumerate() {
        assert_eq!(*list, longest[..list.len()], "seed {seed}: rank {rank} of {nodes}");
    }
    for (asked, votes) in &record.votes {
        let mut voters: Vec<usize> = votes.iter().map(|vote| vote.0).collect();
        voters.sort_unstable();
        voters.dedup();
        assert_eq!(voters.len(), votes.len(), "seed {seed}: one vote each on {asked:?}");
        assert!(votes.iter().all(|vote| vote.1 == votes[0].1), "seed {seed}: {votes:?}");
    }
    // The next leader may reuse an instance that only its failed leader has seen.
    for decision in longest.iter().filter(|decision| decision.committed) {
        let mut asked = record.votes.iter().filter(|(asked, _)| asked.0 == decision.instance);
        let all = |votes: &Votes| {
            let voted = |rank: &usize| votes.iter().any(|vote| vote.0 == *rank);
            votes.iter().all(|vote| vote.2) && alive.iter().all(voted)
        };
        assert!(asked.any(|(_, votes)| all(votes)), "seed {seed}: {decision:?}");
    }
}

/// Whether the node has finished the instances up to `last`.
fn idle(table: &Table<Commit>, last: u64) -> bool {
    table.get(table.me(), Commit::finished) >= last
}

#[test]
fn all_nodes_decide_by_votes_without_failures() {
    for seed in 0..20 {
        let nodes = 1 + (seed % 6) as usize;
        let (mut group, record) = start(seed, nodes, 12, 5);
        group.run_until(&format!("seed {seed}: 12 decisions"), |tables| {
            tables.iter().all(|table| idle(table, 12))
        });
        check(seed, nodes, &(0..nodes).collect::<Vec<_>>(), &record);
        let record = record.lock().unwrap();
        for list in &record.decided {
            assert_eq!(list.len(), 12);
            for decision in list {
                let refused =
                    (0..nodes as u64).any(|rank| (decision.instance + rank).is_multiple_of(5));
                assert_eq!(decision.committed, !refused, "seed {seed}");
            }
        }
        // A commit has asked all nodes; an abort may have been decided before all had voted.
        for decision in record.decided[0].iter().filter(|decision| decision.committed) {
            assert_eq!(record.votes[&(decision.instance, 0)].len(), nodes, "seed {seed}");
        }
    }
}

#[test]
fn request_is_aborted_when_participant_fails_before_its_vote() {
    for seed in 0..10 {
        let (mut group, record) = start(seed, 4, 0, 1000);
        group.crash(2);
        // No node knows of the crash yet. The leader asks all four.
        group.act(0, 1, |table| {
            table.publish(Commit::request, 77);
            table.publish(Commit::participants, 0b1111);
            table.publish(Commit::instance, 1);
        });
        let survivors = [0, 1, 3];
        group.run_until(&format!("seed {seed}: a decision"), |tables| {
            survivors.iter().all(|&rank| idle(tables[rank], 1))
        });
        check(seed, 4, &survivors, &record);
        let record = record.lock().unwrap();
        assert!(survivors.iter().all(|&rank| !record.decided[rank][0].committed), "seed {seed}");
    }
}

/// Crashes nodes at random moments, the leader more often than others; some survive.
fn crashes(seed: u64) -> (u64, usize) {
    let mut random = Random::new(seed);
    let nodes = random.between(2, 6) as usize;
    let (mut group, record) = start(seed, nodes, 8, 7);
    let mut failed = 0;
    while failed + 1 < nodes && !random.one_in(4) {
        group.run_for(random.between(1, 40_000));
        let leader = (0..nodes).find(|&rank| group.is_running(rank)).unwrap();
        let victim = if random.one_in(2) { leader } else { random.below(nodes as u64) as usize };
        if group.is_running(victim) {
            group.crash(victim);
            failed += 1;
        }
    }
    // The last leader makes all its requests; then all survivors finish all instances.
    let alive: Vec<usize> = (0..nodes).filter(|&rank| group.is_running(rank)).collect();
    group.run_until(&format!("seed {seed}: survivors finish, {failed} failed"), |tables| {
        let last = tables[alive[0]].get(tables[alive[0]].me(), Commit::instance);
        let asked = record
            .lock()
            .unwrap()
            .votes
            .values()
            .any(|votes| votes[0].1 == 1000 * alive[0] as u64 + 7);
        asked && alive.iter().all(|&rank| idle(tables[rank], last))
    });
    check(seed, nodes, &alive, &record);
    let record = record.lock().unwrap();
    let committed = record.decided[alive[0]].iter().filter(|d| d.committed).count();
    (failed as u64, committed)
}

#[test]
fn all_nodes_agree_despite_crashes_of_any_nodes_at_any_time() {
    let runs: Vec<_> = (0..4000).map(crashes).collect();
    // The runs are meaningful: many failures, and work was done nevertheless.
    assert!(runs.iter().map(|run| run.0).sum::<u64>() > 3000);
    assert!(runs.iter().filter(|run| run.1 > 0).count() > 2000);
}
