//! Threads in virtual time: turns, posts, idle times, faults and limits.

mod toy;

use derecho_core::ids::{RegionId, Time};
use derecho_core::link::Link;
use derecho_sim::{Cluster, Config, CostModel, NodeIndex, StopReason};
use toy::{Counter, done, populate};

const LIMIT: u64 = 60;

fn run(config: Config, nodes: usize, restless: bool) -> Cluster<Counter> {
    let mut cluster = Cluster::new(config);
    populate(&mut cluster, nodes, LIMIT, restless);
    assert_eq!(cluster.run_until_met(done), StopReason::Reached);
    cluster
}

#[test]
fn counter_circulates_in_both_modes_and_seed_repeats_the_run() {
    for config in [Config::adversarial, Config::costed] {
        let once = run(config(7), 3, false);
        let again = run(config(7), 3, false);
        let other = run(config(8), 3, false);
        assert_eq!(once.trace_hash(), again.trace_hash());
        assert_eq!((once.now(), once.steps()), (again.now(), again.steps()));
        assert_ne!(once.trace_hash(), other.trace_hash());
        let posted = once.network().counters().writes;
        assert!((2 * LIMIT - 2..=2 * LIMIT).contains(&posted), "{posted} posts");
        assert!(once.events() > LIMIT);
    }
}

#[test]
fn skipping_idle_turns_gives_the_same_run_as_polling() {
    for seed in 0..20 {
        for config in [Config::adversarial, Config::costed] {
            let asleep = run(config(seed), 2, false);
            let polling = run(config(seed), 2, true);
            assert_eq!(asleep.trace_hash(), polling.trace_hash(), "seed {seed}");
            assert_eq!(asleep.now(), polling.now(), "seed {seed}");
            assert!(asleep.steps() < polling.steps());
        }
    }
}

#[test]
fn idle_node_keeps_its_polling_phase() {
    let mut config = Config::costed(1);
    config.start_spread_ns = 0;
    config.costs = CostModel::from_toml("turn_ns = 60\npredicate_ns = 10\ncell_ns = 0").unwrap();
    let mut cluster = Cluster::new(config);
    let node = cluster.add_node(|link| vec![Counter::new(link, 1, 0)]);
    for at in [70, 71, 1000, 1050, 2_000_000_001] {
        cluster.inject(node, 0, Time(at), |_, _, _| {});
    }
    assert_eq!(cluster.run_until_met(|_| false), StopReason::Quiet);
    // An idle turn takes 70 ns: a request at 70 begins at 70, a request at 71 begins at 140.
    let turns: Vec<u64> = cluster.machine(node, 0).turns.iter().map(|time| time.0).collect();
    assert_eq!(turns, [0, 70, 140, 1050, 2_000_000_030]);
    let steps = cluster.steps();
    assert!(steps < 20, "{steps} steps for two seconds of idleness");
}

#[test]
fn machine_runs_its_wanted_turn_at_the_next_polling_time() {
    let mut config = Config::costed(1);
    config.start_spread_ns = 0;
    config.costs = CostModel::from_toml("turn_ns = 100\npredicate_ns = 0\ncell_ns = 0").unwrap();
    let mut cluster = Cluster::new(config);
    let node = cluster.add_node(|link| vec![Counter::new(link, 1, 0)]);
    cluster.machine_mut(node, 0).wants = Some(Time(1_234));
    cluster.run_until(Time(1_350));
    let turns: Vec<u64> = cluster.machine(node, 0).turns.iter().map(|time| time.0).collect();
    assert_eq!(turns, [0, 1_300]);
    assert_eq!(cluster.now(), Time(1_350));
}

#[test]
fn post_happens_after_its_work_and_earlier_posts_are_paid() {
    let mut config = Config::costed(1);
    config.start_spread_ns = 0;
    let mut cluster = Cluster::new(config);
    populate(&mut cluster, 3, 0, false);
    cluster.run_until(Time(1_000_000));
    let before = cluster.counters(NodeIndex(0)).writes;
    cluster.inject(NodeIndex(0), 0, Time(2_000_000), |machine, _, effects| {
        effects.work().copied_bytes += 1000;
        machine.pass_on(0, effects);
    });
    // 1000 bytes are copied at 0.267 ns each, then each of two posts takes a microsecond.
    for (at, posted) in [(1_266, 0), (1_267, 1), (2_266, 1), (2_267, 2)] {
        cluster.run_until(Time(2_000_000 + at));
        assert_eq!(cluster.counters(NodeIndex(0)).writes - before, posted, "after {at} ns");
    }
}

#[test]
fn a_dearer_post_makes_the_round_longer() {
    let lasts = |text| {
        let mut config = Config::costed(3);
        config.costs = CostModel::from_toml(text).unwrap();
        run(config, 3, false).now().0
    };
    let usual = lasts("");
    assert!(lasts("post_ns = 3000") > usual + LIMIT * 1_000);
    assert!(lasts("turn_ns = 5000") > usual);
    assert!(lasts("[write]\nbase_ns = 100") < usual);
}

#[test]
fn crash_within_a_turn_stops_the_remaining_posts() {
    let mut cluster = Cluster::new(Config::costed(1));
    populate(&mut cluster, 4, 0, false);
    cluster.run_until(Time(1_000_000));
    let node = NodeIndex(2);
    let before = cluster.counters(node).writes;
    cluster.inject(node, 0, Time(1_000_000), |machine, _, effects| machine.pass_on(0, effects));
    cluster.run_until(Time(1_002_500));
    cluster.crash(node);
    let turns = cluster.machine(node, 0).turns.len();
    cluster.run_until(Time(2_000_000));
    assert_eq!(cluster.counters(node).writes - before, 2, "the third post is not executed");
    assert_eq!(cluster.machine(node, 0).turns.len(), turns);
    assert!(!cluster.is_running(node));
}

/// Whether the host shows node 0 to node 1 as halted.
fn shows_halted(cluster: &Cluster<Counter>) -> bool {
    let link = cluster.network().link(NodeIndex(1));
    link.peer(NodeIndex(0)).is_some_and(|peer| link.is_halted(peer))
}

#[test]
fn paused_node_stands_still_and_resumes_at_the_same_point() {
    let run = |pause: Option<u64>| {
        let mut cluster = Cluster::new(Config::costed(5));
        populate(&mut cluster, 2, LIMIT, false);
        cluster.run_until_met(|cluster| cluster.machine(NodeIndex(0), 0).count > LIMIT / 2);
        if let Some(pause) = pause {
            let turns = cluster.machine(NodeIndex(0), 0).turns.len();
            let posts = cluster.counters(NodeIndex(0)).writes;
            cluster.pause(NodeIndex(0));
            assert!(shows_halted(&cluster));
            cluster.run_until(cluster.now().after(pause));
            assert_eq!(cluster.machine(NodeIndex(0), 0).turns.len(), turns);
            assert_eq!(cluster.counters(NodeIndex(0)).writes, posts);
            cluster.resume(NodeIndex(0));
            assert!(!shows_halted(&cluster));
        }
        assert_eq!(cluster.run_until_met(done), StopReason::Reached);
        cluster.now().0
    };
    let usual = run(None);
    let paused = run(Some(1_000_000));
    // The peer waited, so the whole count is delayed by the pause, except for the phase of polling.
    assert!((usual + 999_000..=usual + 1_001_000).contains(&paused), "{usual}, {paused}");
}

/// A turn posts to three peers, one microsecond apart, and the node is paused twice within
/// the turn.
#[test]
fn posts_of_a_turn_keep_their_distances_through_pauses() {
    let mut cluster = Cluster::new(Config::costed(1));
    populate(&mut cluster, 4, 0, false);
    cluster.run_until(Time(1_000_000));
    let node = NodeIndex(2);
    let before = cluster.counters(node).writes;
    cluster.inject(node, 0, Time(2_000_000), |machine, _, effects| machine.pass_on(0, effects));
    let run_to = |cluster: &mut Cluster<Counter>, at: u64| cluster.run_until(Time(2_000_000 + at));
    // One pause holds the first post and ends before the second one was due. The other begins when
    // only the third is left, and is longer than the rest of the turn.
    for (pause, resume) in [(500, 1_500), (3_500, 9_500)] {
        run_to(&mut cluster, pause);
        cluster.pause(node);
        run_to(&mut cluster, resume);
        cluster.resume(node);
    }
    assert_eq!(cluster.counters(node).writes - before, 2, "two posts precede the second pause");
    for (at, posted) in [(9_999, 2), (10_000, 3)] {
        run_to(&mut cluster, at);
        assert_eq!(cluster.counters(node).writes - before, posted, "after {at} ns");
    }
    let mut cluster = Cluster::new(Config::costed(1));
    populate(&mut cluster, 4, 0, false);
    cluster.run_until(Time(1_000_000));
    cluster.inject(node, 0, Time(2_000_000), |machine, _, effects| machine.pass_on(0, effects));
    run_to(&mut cluster, 500);
    cluster.pause(node);
    run_to(&mut cluster, 1_500);
    cluster.resume(node);
    for (at, posted) in [(1_999, 0), (2_000, 1), (2_999, 1), (3_000, 2), (3_999, 2), (4_000, 3)] {
        run_to(&mut cluster, at);
        assert_eq!(cluster.counters(node).writes - before, posted, "after {at} ns");
    }
}

#[test]
fn the_threads_of_a_node_share_its_link_and_hear_all_its_events() {
    let mut cluster = Cluster::new(Config::adversarial(4));
    let both = cluster.add_node(|link| {
        let counter = Counter::new(link, 2, 0);
        link.clone().open(RegionId(9), 8).unwrap();
        vec![counter, Counter::watcher(link)]
    });
    cluster.add_node(|link| vec![Counter::new(link, 2, 0)]);
    cluster.run_until(Time(10_000_000));
    // A peer is up, its region is up, and it is ready for two regions.
    assert_eq!(cluster.machine(both, 0).received, 4);
    assert_eq!(cluster.machine(both, 1).received, 4);
    assert!(cluster.thread_use(both, 1).turns > 0);
}

#[test]
fn application_thread_acts_again_at_its_requested_time() {
    let mut cluster = Cluster::new(Config::costed(1));
    let node = cluster.add_node(|link| vec![Counter::new(link, 1, 0)]);
    cluster.inject_again(node, 0, Time(100), |machine, now, _| {
        machine.count += 1;
        (machine.count < 5).then(|| now.after(1_000))
    });
    assert_eq!(cluster.run_until_met(|_| false), StopReason::Quiet);
    assert_eq!(cluster.machine(node, 0).count, 5);
    assert!((4_100..5_000).contains(&cluster.now().0));
}

#[test]
fn cluster_stops_at_its_step_limit_and_at_its_deadline() {
    let mut config = Config::costed(1);
    config.step_limit = 500;
    let mut cluster = Cluster::new(config);
    populate(&mut cluster, 2, u64::MAX, false);
    assert_eq!(cluster.run_until_met(|_| false), StopReason::Steps);
    assert_eq!(cluster.steps(), 500);
    let mut config = Config::costed(1);
    config.deadline = Time(100_000);
    let mut cluster = Cluster::new(config);
    populate(&mut cluster, 2, u64::MAX, false);
    assert_eq!(cluster.run_until_met(|_| false), StopReason::Deadline);
    assert_eq!(cluster.run_until(Time(200_000)), StopReason::Deadline);
    assert_eq!(cluster.now(), Time(100_000));
}
