//! The arithmetic of the cost model, observed through the link.

mod pair;

use derecho_core::ids::Time;
use derecho_core::link::{Link, LinkEvent, WordRange};
use derecho_sim::{CostModel, EvidenceRules, NetworkMode, NodeIndex, SimNetwork};
use pair::{Nodes, REGION};

/// One megabyte in words.
const MEGABYTE: usize = 1 << 17;

fn nodes(costs: CostModel, count: usize, words: usize) -> Nodes {
    let network = SimNetwork::new(0, NetworkMode::Costed, costs, EvidenceRules::default());
    Nodes::meet(network, count, words)
}

/// Returns the latency of a write of `words` words without competition.
fn alone(costs: CostModel, words: usize) -> u64 {
    let mut nodes = nodes(costs, 2, words);
    let posted = nodes.network.now().0;
    nodes.own[0].word(words - 1).publish(1);
    nodes.write(0, 1, 0, words);
    nodes.until(|nodes| nodes.seen(1, 0).load(words - 1) == 1) - posted
}

#[test]
fn a_write_takes_as_long_as_in_the_paper() {
    // 8 bytes, the shortest write, and 4 KB.
    assert_eq!(alone(CostModel::default(), 1), 1731);
    assert_eq!(alone(CostModel::default(), 512), 2460);
}

#[test]
fn changed_price_changes_write_latency() {
    let dear = CostModel::from_toml("[write]\nbase_ns = 5000\nns_per_byte = 1\n").unwrap();
    assert_eq!(alone(dear, 512), 5000 + 4096);
    // A wire faster than the port is limited by the port.
    let slow_port = CostModel::from_toml("port_bytes_per_second = 1e9").unwrap();
    assert_eq!(alone(slow_port, MEGABYTE), (MEGABYTE * 8) as u64);
}

#[test]
fn two_senders_share_the_port_of_their_receiver() {
    let costs = CostModel::default();
    let first = alone(costs.clone(), MEGABYTE);
    let transmit = costs.transmit_ns(1 << 20, 0, 2);
    let mut nodes = nodes(costs, 3, MEGABYTE);
    let posted = nodes.network.now().0;
    for sender in [0, 1] {
        nodes.own[sender].word(0).publish(1);
        nodes.write(sender, 2, 0, MEGABYTE);
    }
    let one = nodes.until(|nodes| nodes.seen(2, 0).load(0) == 1) - posted;
    let other = nodes.until(|nodes| nodes.seen(2, 1).load(0) == 1) - posted;
    assert_eq!((one, other), (first, first + transmit));
}

#[test]
fn two_receivers_share_the_port_of_their_sender() {
    let costs = CostModel::default();
    let first = alone(costs.clone(), MEGABYTE);
    let transmit = costs.transmit_ns(1 << 20, 0, 2);
    let mut nodes = nodes(costs, 3, MEGABYTE);
    let posted = nodes.network.now().0;
    nodes.own[0].word(0).publish(1);
    nodes.write(0, 1, 0, MEGABYTE);
    nodes.write(0, 2, 0, MEGABYTE);
    let one = nodes.until(|nodes| nodes.seen(1, 0).load(0) == 1) - posted;
    let other = nodes.until(|nodes| nodes.seen(2, 0).load(0) == 1) - posted;
    assert_eq!((one, other), (first, first + transmit));
}

#[test]
fn short_write_overtakes_long_write_to_another_peer_only() {
    let mut nodes = nodes(CostModel::default(), 3, MEGABYTE);
    nodes.own[0].word(0).publish(1);
    nodes.write(0, 1, 0, MEGABYTE);
    nodes.own[0].word(1).publish(1);
    nodes.write(0, 1, 1, 1);
    nodes.write(0, 2, 1, 1);
    nodes.until(|nodes| nodes.seen(2, 0).load(1) == 1);
    assert_eq!(nodes.seen(1, 0).load(0), 0, "the long one is still under way");
    nodes.until(|nodes| nodes.seen(1, 0).load(0) == 1);
}

#[test]
fn write_reads_its_source_on_departure_and_lands_atomically() {
    let mut nodes = nodes(CostModel::default(), 3, MEGABYTE);
    let busy = CostModel::default().transmit_ns(1 << 20, 0, 1);
    let posted = nodes.network.now().0;
    nodes.write(0, 1, 0, MEGABYTE);
    nodes.own[0].word(0).publish(1);
    nodes.write(0, 2, 0, 9);
    // The second write, too long to be captured at the post, waits for the port: it leaves with the
    // values stored meanwhile, and not later ones.
    nodes.network.advance_to(Time(posted + busy - 1));
    (0..2).for_each(|index| nodes.own[0].word(index).publish(2));
    nodes.network.advance_to(Time(posted + busy));
    (0..2).for_each(|index| nodes.own[0].word(index).publish(3));
    nodes.until(|nodes| nodes.seen(2, 0).load(0) != 0);
    assert_eq!((nodes.seen(2, 0).load(0), nodes.seen(2, 0).load(1)), (2, 2));
}

#[test]
fn a_read_is_a_round_trip() {
    let costs = CostModel::default();
    let expected = costs.read_latency_ns(8, 0, 1);
    assert_eq!(expected, 3461);
    let mut nodes = nodes(costs, 2, 4);
    nodes.own[1].word(2).publish(7);
    let posted = nodes.network.now().0;
    let peer = nodes.peer(0, 1);
    let read = nodes.links[0].read(peer, REGION, WordRange::new(2, 1)).unwrap();
    let landed = nodes.until(|nodes| nodes.seen(0, 1).load(2) == 7);
    assert_eq!(landed - posted, expected);
    nodes.settle();
    assert!(
        matches!(nodes.events[0][..], [LinkEvent::ReadDone { read: done, .. }] if done == read)
    );
    assert_eq!(nodes.links[0].counters().reads, 1);
    assert_eq!(nodes.network.counters().read_bytes, 8);
}

#[test]
fn only_writes_that_left_the_port_arrive_after_sender_crash() {
    let costs = CostModel::default();
    let third = MEGABYTE / 3;
    let busy = costs.transmit_ns(third as u64 * 8, 0, 1);
    // No evidence, which would cut short the transfers on the wire.
    let rules = EvidenceRules { crash: None, cut: None };
    let network = SimNetwork::new(0, NetworkMode::Costed, costs, rules);
    let mut nodes = Nodes::meet(network, 2, MEGABYTE);
    let posted = nodes.network.now().0;
    for part in 0..3 {
        nodes.own[0].word(part * third).publish(1);
        nodes.write(0, 1, part * third, third);
    }
    nodes.network.advance_to(Time(posted + busy));
    nodes.network.crash(NodeIndex(0));
    nodes.settle();
    let arrived: Vec<u64> = (0..3).map(|part| nodes.seen(1, 0).load(part * third)).collect();
    assert_eq!(arrived, [1, 1, 0], "the third had not left");
}
