//! The adversarial link uses every freedom of the contract: each is seen with some seed, and the
//! guarantees of the contract hold with all seeds.

mod pair;

use std::collections::BTreeSet;

use derecho_core::link::INLINE_WORDS;
use derecho_core::link::{Evidence, Link, LinkEvent, WordRange};
use derecho_sim::{Adversary, CostModel, EvidenceRules, NetworkMode, NodeIndex, SimNetwork};
use pair::{Nodes, REGION};

const SEEDS: std::ops::Range<u64> = 0..60;

fn network(seed: u64) -> SimNetwork {
    let mode = NetworkMode::Adversarial(Adversary::default());
    SimNetwork::new(seed, mode, CostModel::default(), EvidenceRules::default())
}

fn nodes(seed: u64, count: usize) -> Nodes {
    Nodes::meet(network(seed), count, 16)
}

#[test]
fn words_of_one_write_land_separately_in_any_order() {
    let mut first_seen = BTreeSet::new();
    for seed in SEEDS {
        let mut nodes = nodes(seed, 2);
        (0..4).for_each(|index| nodes.own[0].word(index).publish(1));
        nodes.write(0, 1, 0, 4);
        let begun = nodes.until(|nodes| (0..4).any(|index| nodes.seen(1, 0).load(index) == 1));
        first_seen.extend((0..4).filter(|&index| nodes.seen(1, 0).load(index) == 1));
        let ended = nodes.until(|nodes| (0..4).all(|index| nodes.seen(1, 0).load(index) == 1));
        assert!(begun <= ended);
    }
    assert_eq!(first_seen.len(), 4, "only words {first_seen:?} ever came first");
}

#[test]
fn each_word_of_a_long_write_is_read_at_its_own_time() {
    const WORDS: usize = INLINE_WORDS + 1;
    let (mut early, mut late, mut mixed) = (0, 0, 0);
    for seed in SEEDS {
        let mut nodes = nodes(seed, 2);
        (0..WORDS).for_each(|index| nodes.own[0].word(index).publish(1));
        nodes.write(0, 1, 0, WORDS);
        let now = nodes.network.now().0;
        nodes.network.advance_to(derecho_core::ids::Time(now + 50));
        (0..WORDS).for_each(|index| nodes.own[0].word(index).publish(2));
        nodes.settle();
        match [0, WORDS - 1].map(|index| nodes.seen(1, 0).load(index)) {
            [1, 1] => early += 1,
            [2, 2] => late += 1,
            [1, 2] | [2, 1] => mixed += 1,
            other => panic!("{other:?} was never stored"),
        }
    }
    assert!(early > 0 && late > 0 && mixed > 0, "early {early}, late {late}, mixed {mixed}");
}

#[test]
fn short_write_carries_source_values_at_the_time_of_the_post() {
    for seed in SEEDS {
        let mut nodes = nodes(seed, 2);
        (0..INLINE_WORDS).for_each(|index| nodes.own[0].word(index).publish(1));
        nodes.write(0, 1, 0, INLINE_WORDS);
        (0..INLINE_WORDS).for_each(|index| nodes.own[0].word(index).publish(2));
        nodes.settle();
        assert!((0..INLINE_WORDS).all(|index| nodes.seen(1, 0).load(index) == 1));
    }
}

#[test]
fn writes_keep_their_order_to_one_peer_but_not_across_peers() {
    let mut overtaken = 0;
    for seed in SEEDS {
        let mut nodes = nodes(seed, 3);
        for word in 0..8 {
            nodes.own[0].word(word).publish(1);
            nodes.write(0, 1, word, 1);
            nodes.write(0, 2, word, 1);
        }
        loop {
            let [one, other] = [1, 2].map(|reader| {
                let seen: Vec<u64> = (0..8).map(|word| nodes.seen(reader, 0).load(word)).collect();
                assert!(seen.is_sorted_by(|a, b| a >= b), "seed {seed}: {seen:?}");
                seen.iter().sum::<u64>()
            });
            // Each word was posted to node 1 before node 2.
            overtaken += u64::from(other > one);
            if !nodes.network.advance_once() {
                break;
            }
        }
    }
    assert!(overtaken > 0);
}

#[test]
fn slow_write_takes_over_ten_times_as_long_as_quick_write() {
    let mut slowest = 0;
    let mut quickest = u64::MAX;
    for seed in SEEDS {
        let mut nodes = nodes(seed, 2);
        nodes.own[0].word(0).publish(1);
        let posted = nodes.network.now().0;
        nodes.write(0, 1, 0, 1);
        let took = nodes.until(|nodes| nodes.seen(1, 0).load(0) == 1) - posted;
        slowest = slowest.max(took);
        quickest = quickest.min(took);
    }
    assert!(quickest < 2_000 && slowest > 20_000, "{quickest} to {slowest} ns");
}

#[test]
fn notes_and_writes_overtake_each_other() {
    let (mut note_first, mut write_first) = (0, 0);
    for seed in SEEDS {
        let mut nodes = nodes(seed, 2);
        nodes.own[0].word(0).publish(1);
        let peer = nodes.peer(0, 1);
        nodes.write(0, 1, 0, 1);
        nodes.links[0].note(peer, b"posted").unwrap();
        loop {
            let mut noted = false;
            nodes.links[1].poll(&mut |_| noted = true);
            match (noted, nodes.seen(1, 0).load(0) == 1) {
                (false, false) => assert!(nodes.network.advance_once()),
                (true, _) => break note_first += 1,
                (false, true) => break write_first += 1,
            }
        }
    }
    assert!(note_first > 0 && write_first > 0, "{note_first} and {write_first}");
}

#[test]
fn replica_appears_zeroed_or_with_current_words() {
    let mut appeared = BTreeSet::new();
    for seed in SEEDS {
        let network = network(seed);
        let (mut owner, mut reader) = (network.add_node(), network.add_node());
        owner.open(REGION, 8).unwrap().word(5).publish(9);
        while network.advance_once() {}
        reader.poll(&mut |event| {
            if let LinkEvent::RegionUp { replica, .. } = event {
                appeared.insert(replica.load(5));
            }
        });
    }
    assert_eq!(appeared, BTreeSet::from([0, 9]));
}

#[test]
fn a_read_fetches_words_of_different_moments() {
    let mut fetched = BTreeSet::new();
    for seed in SEEDS {
        let mut nodes = nodes(seed, 2);
        let peer = nodes.peer(0, 1);
        nodes.links[0].read(peer, REGION, WordRange::new(0, 2)).unwrap();
        let now = nodes.network.now().0;
        nodes.network.advance_to(derecho_core::ids::Time(now + 50));
        (0..2).for_each(|index| nodes.own[1].word(index).publish(2));
        nodes.settle();
        fetched.insert([0, 1].map(|index| nodes.seen(0, 1).load(index)));
    }
    assert_eq!(fetched, BTreeSet::from([[0, 0], [0, 2], [2, 0], [2, 2]]));
}

#[test]
fn crash_leaves_a_prefix_of_writes_and_tears_the_next_write() {
    let (mut torn, mut whole, mut nothing, mut differ) = (0, 0, 0, 0);
    for seed in SEEDS {
        let mut nodes = nodes(seed, 3);
        (0..8).for_each(|index| nodes.own[0].word(index).publish(1));
        for reader in [1, 2] {
            (0..4).for_each(|word| nodes.write(0, reader, word, 1));
            nodes.write(0, reader, 4, 4);
        }
        nodes.network.crash(NodeIndex(0));
        nodes.settle();
        let landed = [1, 2].map(|reader| {
            let seen: Vec<u64> = (0..8).map(|word| nodes.seen(reader, 0).load(word)).collect();
            let singles = seen[..4].iter().sum::<u64>();
            let last = seen[4..].iter().sum::<u64>();
            assert!(seen[..4].is_sorted_by(|a, b| a >= b), "seed {seed}: {seen:?}");
            assert!(last == 0 || singles == 4, "seed {seed}: {seen:?}");
            torn += u64::from((1..4).contains(&last));
            whole += u64::from(last == 4);
            nothing += u64::from(singles == 0);
            singles + last
        });
        differ += u64::from(landed[0] != landed[1]);
        for reader in [1, 2] {
            assert!(matches!(
                nodes.events[reader][..],
                [LinkEvent::PeerDown { evidence: Evidence::Certain, .. }]
            ));
        }
    }
    assert!(
        torn > 0 && whole > 0 && nothing > 0 && differ > 0,
        "{torn} {whole} {nothing} {differ}"
    );
}

#[test]
fn seed_determines_the_network_trace() {
    let run = |seed| {
        let mut nodes = nodes(seed, 3);
        for word in 0..8 {
            nodes.own[0].word(word).publish(1);
            nodes.write(0, 1, 0, word + 1);
            nodes.write(0, 2, 0, word + 1);
        }
        nodes.network.crash(NodeIndex(2));
        nodes.settle();
        nodes.network.trace_hash()
    };
    let hashes: BTreeSet<u64> = SEEDS.map(run).collect();
    assert_eq!(hashes.len(), SEEDS.count(), "two seeds gave the same run");
    assert!({ SEEDS }.all(|seed| hashes.contains(&run(seed))), "a seed gave two different runs");
}

#[test]
fn cut_holds_writes_and_notes_of_one_direction_until_healed() {
    for seed in SEEDS {
        let mode = NetworkMode::Adversarial(Adversary::default());
        let rules = EvidenceRules { crash: None, cut: None };
        let network = SimNetwork::new(seed, mode, CostModel::default(), rules);
        let mut nodes = Nodes::meet(network, 2, 8);
        (0..8).for_each(|index| nodes.own[0].word(index).publish(1));
        nodes.own[1].word(0).publish(1);
        nodes.write(0, 1, 0, 4);
        for _ in 0..seed % 5 {
            nodes.network.advance_once();
        }
        nodes.network.cut(NodeIndex(0), NodeIndex(1));
        let before: Vec<u64> = (0..8).map(|index| nodes.seen(1, 0).load(index)).collect();
        nodes.write(0, 1, 4, 4);
        nodes.write(1, 0, 0, 1);
        let peer = nodes.peer(0, 1);
        nodes.links[0].note(peer, b"held").unwrap();
        nodes.settle();
        let during: Vec<u64> = (0..8).map(|index| nodes.seen(1, 0).load(index)).collect();
        assert_eq!(before, during);
        assert_eq!(nodes.seen(0, 1).load(0), 1, "the other way is open");
        assert!(nodes.events[1].is_empty());
        nodes.network.heal(NodeIndex(0), NodeIndex(1));
        nodes.settle();
        assert!((0..8).all(|index| nodes.seen(1, 0).load(index) == 1));
        assert!(matches!(nodes.events[1][..], [LinkEvent::Note { .. }]));
    }
}

#[test]
fn a_cut_that_lasts_breaks_the_connection_for_good() {
    for seed in SEEDS {
        let mut nodes = nodes(seed, 2);
        nodes.network.cut(NodeIndex(0), NodeIndex(1));
        nodes.own[0].word(0).publish(1);
        nodes.write(0, 1, 0, 1);
        nodes.settle();
        nodes.network.heal(NodeIndex(0), NodeIndex(1));
        nodes.settle();
        assert_eq!(nodes.seen(1, 0).load(0), 0);
        for events in &nodes.events {
            assert!(matches!(
                events[..],
                [LinkEvent::PeerDown { evidence: Evidence::Uncertain, .. }]
            ));
        }
    }
}
