//! Null-sends: sender-invariance, low overhead, correctness, quiescence, and silence declared in
//! advance. Everything is counted in the memory of members; the members are not asked.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::rc::Rc;

use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::world::subgroups::{END, Pace, Scenario, SubgroupRole, World, adversarial};
use derecho_sim::{Config, StopReason};

/// Pace of a writer that never lets the others wait.
const EAGER: Pace = Pace { goal: 60, burst: 4, pause_ns: 500, careless: false };

/// Returns the null entries and null slots of each sender, as seen at the first member.
fn nulls(world: &World) -> Vec<(u64, u64)> {
    let arrived = world.member(0).part().arrived.iter();
    arrived.map(|arrived| (arrived.null_entries, arrived.null_slots)).collect()
}

/// Makes every member commit `count` records at once, as soon as all have begun.
fn commit_all(world: &mut World, members: std::ops::Range<usize>, count: usize) {
    for member in members {
        world.act(member, move |member, effects| {
            let mut fits = (0..count).map(|_| member.commit(0, 40, effects));
            assert!(fits.all(|fits| fits), "the burst fits the memory");
        });
    }
}

fn gather(world: &mut World) {
    let stop = world.cluster.run_until_met(|_| false);
    assert_eq!(stop, StopReason::Quiet, "seed {}", world.seed);
}

/// Ends a run: everything committed is taken, and the end is correct and quiet.
fn finish(world: &mut World) {
    world.calm();
    run(world);
}

fn run(world: &mut World) {
    let complaints = world.run_to_end();
    assert!(complaints.is_empty(), "seed {}: {complaints:#?}", world.seed);
}

fn roomy(members: Vec<SubgroupRole>) -> Scenario {
    let geometry = derecho_core::multicast::geometry::Geometry::fitting(1 << 16, 256, 200);
    Scenario { geometry: geometry.unwrap(), ..Scenario::atomic(members) }
}

/// Senders that have committed enough for the others' messages send nothing else, in whatever order
/// these arrive.
#[test]
fn sender_invariance_senders_that_keep_up_send_no_null() {
    for seed in 0..200 {
        let members = 2 + seed as usize % 5;
        let mut world =
            World::new(adversarial(seed), roomy(vec![SubgroupRole::both(EAGER); members]));
        gather(&mut world);
        for _ in 0..4 {
            commit_all(&mut world, 0..members, 10);
            let before = nulls(&world);
            assert!(before.iter().all(|&(entries, _)| entries == 0), "seed {seed}: {before:?}");
        }
        finish(&mut world);
        // The messages of `again` at the end, one per sender, come one after the other. The last
        // one needs at most one null of each earlier sender.
        let (entries, slots): (Vec<u64>, Vec<u64>) = nulls(&world).into_iter().unzip();
        assert!(entries.iter().all(|&entries| entries <= members as u64), "{seed}: {entries:?}");
        assert!(slots.iter().all(|&slots| slots <= members as u64), "{seed}: {slots:?}");
    }
}

/// Committed messages count before any null, and a null exists only because of a message: there are
/// never more rounds than messages, whichever member sends them, and each sender's messages come in
/// their order.
#[test]
fn sender_invariance_there_are_no_more_rounds_than_messages() {
    for seed in 0..200 {
        let scenario = Scenario::random(seed, DeliveryGuarantee::Atomic, 40);
        let mut world = World::started(adversarial(seed), scenario);
        world.complete();
        world.calm();
        world.assert_no_complaints();
        let checker = world.checker.borrow();
        for member in 0..world.nodes() {
            for (rank, arrived) in world.member(member).part().arrived.iter().enumerate() {
                let (own, total) = (checker.writers[rank].committed, checker.committed());
                let text = format!("seed {seed}: {own} of {total}, {} slots", arrived.slots);
                assert!(arrived.slots <= total, "{text}");
                assert!(arrived.null_entries <= total - own, "{text}");
                assert_eq!(arrived.slots - arrived.null_slots, own, "{text}");
            }
        }
    }
}

/// A silent sender answers k messages with at most k entries; with far fewer when the messages come
/// in bursts, because a run is one entry.
#[test]
fn low_overhead_nulls_take_at_most_one_entry_per_message_or_burst() {
    const BURSTS: u64 = 10;
    const BURST: u64 = 20;
    let mut in_bursts = 0;
    for seed in 0..200 {
        let silent = 1 + seed as usize % 4;
        let members =
            [vec![SubgroupRole::both(EAGER)], vec![SubgroupRole::both(Pace::SILENT); silent]]
                .concat();
        let mut world = World::new(adversarial(seed), roomy(members));
        gather(&mut world);
        for burst in 1..=BURSTS {
            commit_all(&mut world, 0..1, BURST as usize);
            world.cluster.run_until(world.cluster.now().after(1_000));
            if seed % 2 == 0 {
                gather(&mut world);
            }
            for (rank, (entries, slots)) in nulls(&world).into_iter().enumerate() {
                let text = format!("seed {seed}: {entries} entries of {slots} nulls of {rank}");
                assert!(slots <= burst * BURST * u64::from(rank > 0), "{text}");
                assert!(entries <= slots, "{text}");
            }
        }
        gather(&mut world);
        for (entries, slots) in nulls(&world).into_iter().skip(1) {
            // Rank 0 precedes all others, so all of its rounds but the last need them.
            assert!((BURSTS * BURST - 1..=BURSTS * BURST).contains(&slots), "seed {seed}: {slots}");
            in_bursts += u64::from(entries <= 3 * BURSTS);
        }
        finish(&mut world);
    }
    assert!(in_bursts > 400, "{in_bursts} of 500 silent senders answered with few entries");
}

/// With nulls a silent sender blocks no member; without them it does, which proves that this test
/// can fail. Order and agreement hold either way.
#[test]
fn correctness_a_silent_sender_blocks_the_order_only_without_nulls() {
    for seed in 0..150 {
        for ablated in [false, true] {
            let quiet = SubgroupRole { reads: seed % 2 == 0, sends: Some(Pace::SILENT) };
            let mut scenario =
                Scenario::atomic(vec![SubgroupRole::both(EAGER), quiet, SubgroupRole::both(EAGER)]);
            scenario.terms.ablation.nulls = ablated;
            let mut world = World::started(adversarial(seed), scenario);
            if ablated {
                world.cluster.run_until(END.min(derecho_core::ids::Time(3_000_000)));
                world.assert_no_complaints();
                assert!(nulls(&world).iter().all(|&(entries, _)| entries == 0));
                // Only the messages before the silent sender's first slot.
                let id = world.member(0).part().id.unwrap();
                assert_eq!(world.member(0).node.delivered(id), 1, "seed {seed}");
            } else {
                run(&mut world);
                assert!(nulls(&world)[1].1 >= EAGER.goal - 1, "seed {seed}");
            }
        }
    }
}

/// Neither time, nor silence, nor nulls cause posts.
#[test]
fn quiescence_nulls_end_with_the_messages() {
    for seed in 0..150 {
        let mut world =
            World::new(adversarial(seed), roomy(vec![SubgroupRole::both(Pace::SILENT); 4]));
        gather(&mut world);
        assert!(nulls(&world).iter().all(|&nulls| nulls == (0, 0)), "no member has sent a message");
        // One message costs at most one null of each other sender, and then there is silence.
        let sender = seed as usize % 4;
        commit_all(&mut world, sender..sender + 1, 1);
        gather(&mut world);
        for (rank, nulls) in nulls(&world).into_iter().enumerate() {
            let owed = u64::from(rank < sender);
            assert_eq!(nulls, (owed, owed), "seed {seed}: rank {rank}, message of {sender}");
        }
        let (posted, steps) = (world.cluster.network().counters(), world.cluster.steps());
        world.cluster.run_until(END);
        assert_eq!(world.cluster.network().counters(), posted, "seed {seed}");
        assert_eq!(world.cluster.steps(), steps, "seed {seed}");
        world.assert_no_complaints();
    }
}

/// The others do not wait for a sender that has declared its silence. In those rounds it sends no
/// null by itself, and no member answers its nulls.
#[test]
fn declared_silence_costs_one_entry_and_no_member_waits() {
    const ROUNDS: u64 = 100;
    for seed in 0..150 {
        let mut world =
            World::new(adversarial(seed), roomy(vec![SubgroupRole::both(Pace::SILENT); 3]));
        gather(&mut world);
        world.act(1, |member, _| {
            let id = member.part().id.unwrap();
            assert!(member.node.declare_silence(id, ROUNDS));
        });
        gather(&mut world);
        assert_eq!(nulls(&world), [(0, 0), (1, ROUNDS), (0, 0)], "seed {seed}");
        // The declared sender stands still, and the others deliver nevertheless.
        let silent = derecho_sim::NodeIndex(1);
        for _ in 0..4 {
            commit_all(&mut world, 0..1, 20);
            commit_all(&mut world, 2..3, 20);
        }
        let checker = Rc::clone(&world.checker);
        let stop = world.cluster.run_until_met(|_| checker.borrow().received(0, 0) >= 3 * 80);
        assert_eq!(stop, StopReason::Reached, "seed {seed}");
        assert_eq!(nulls(&world)[1], (1, ROUNDS), "seed {seed}");
        // After its declared rounds it owes nulls again.
        commit_all(&mut world, 0..1, 30);
        gather(&mut world);
        let slots = nulls(&world)[1].1;
        assert!((109..=110).contains(&slots), "seed {seed}: {slots}");
        assert!(world.cluster.is_running(silent));
        finish(&mut world);
    }
}

/// Writes of one turn depend on adjacency, not on the number of messages: two for the bytes
/// and two for the entries where the memory wraps around, and one line for each member that is
/// sent an acknowledgement.
#[test]
fn posts_of_a_turn_do_not_grow_with_its_messages() {
    const BATCH: usize = 24;
    for members in 2..6_usize {
        let mut config = Config::costed(members as u64);
        config.start_spread_ns = 0;
        let mut world = World::new(config, roomy(vec![SubgroupRole::both(Pace::SILENT); members]));
        gather(&mut world);
        let others = members as u64 - 1;
        for batch in 0..60 {
            let sender = batch % members;
            let node = derecho_sim::NodeIndex(sender);
            let before = world.cluster.counters(node).writes;
            let turns = world.cluster.thread_use(node, 0).turns;
            world.act(sender, |member, effects| {
                (0..BATCH).for_each(|_| assert!(member.commit(0, 40, effects)));
            });
            // A turn's posts are made before the next turn begins.
            let stop = world
                .cluster
                .run_until_met(|cluster| cluster.thread_use(node, 0).turns >= turns + 2);
            assert_eq!(stop, StopReason::Reached);
            let writes = world.cluster.counters(node).writes - before;
            let text = format!("{writes} writes to {others} members for one batch");
            assert!((2 * others..=(2 + 2 + 1) * others).contains(&writes), "{text}");
            gather(&mut world);
            (0..members).for_each(|member| world.act(member, |member, _| member.take_all()));
            gather(&mut world);
        }
        world.assert_no_complaints();
    }
}
