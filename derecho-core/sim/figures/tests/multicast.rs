//! The multicast figures: their points depend on the prices and on the disabled optimisations.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_figures::{Costs, Figure, Options, run};

fn quick(name: &str, prices: &str) -> Figure {
    at(name, Costs::Paper, prices)
}

fn at(name: &str, costs: Costs, prices: &str) -> Figure {
    let options = Options { quick: true, costs, prices: prices.into(), ..Options::default() };
    run(name, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn line<'a>(figure: &'a Figure, name: &str) -> &'a [f64] {
    &figure.line(name).unwrap_or_else(|| panic!("{name} is missing in {}", figure.name)).y
}

fn all_above(higher: &[f64], lower: &[f64]) -> bool {
    higher.iter().zip(lower).all(|(higher, lower)| higher > lower)
}

#[test]
fn multicast_figures_are_the_same_in_each_run() {
    for name in ["spindle-3", "spindle-10", "derecho-2"] {
        assert_eq!(quick(name, ""), quick(name, ""), "{name}");
    }
}

#[test]
fn seed_changes_points_of_a_figure_but_no_claim() {
    let with_seed = |seed| {
        let options = Options { quick: true, seed, ..Options::default() };
        run("spindle-3", &options).unwrap()
    };
    let (one, other) = (with_seed(1), with_seed(2));
    assert_ne!(one, other);
    assert_eq!(one.unmet, other.unmet);
}

#[test]
fn dearer_posts_slow_the_baseline_at_every_size() {
    let (plain, dearer) = (quick("spindle-3", ""), quick("spindle-3", "post_ns = 3000"));
    for senders in ["all senders", "half senders", "one sender"] {
        let name = format!("baseline, {senders}");
        assert!(all_above(line(&plain, &name), line(&dearer, &name)), "{senders}");
    }
}

#[test]
fn cheaper_predicates_speed_the_baseline_up_and_the_port_limits_batching() {
    let (plain, cheap) = (quick("spindle-3", ""), quick("spindle-3", "predicate_ns = 20"));
    let baseline = "baseline, all senders";
    assert!(all_above(line(&cheap, baseline), line(&plain, baseline)));
    let slow = quick("spindle-3", "port_bytes_per_second = 3e9\n[write]\nns_per_byte = 0.34");
    let batching = "batching, all senders";
    assert!(all_above(line(&plain, batching), line(&slow, batching)));
    let (of_all, of_port) = (line(&slow, batching)[2], 3.0 * 8.0 / 7.0);
    assert!((0.5..1.05).contains(&(of_all / of_port)), "{of_all} of {of_port} GB/s");
}

#[test]
fn optimisation_stages_raise_bandwidth_and_lower_latency() {
    let figure = quick("spindle-5", "");
    let bandwidth = |stage: &str| line(&figure, &format!("{stage}: bandwidth"));
    let latency = |stage: &str| line(&figure, &format!("{stage}: latency"));
    assert!(all_above(bandwidth("delivery"), bandwidth("baseline")));
    assert!(all_above(bandwidth("delivery, receive, send"), bandwidth("delivery, receive")));
    assert!(all_above(latency("baseline"), latency("delivery")));
    assert!(all_above(latency("delivery, receive"), latency("delivery, receive, send")));
    let figure = quick("spindle-12", "");
    assert!(all_above(line(&figure, "everything"), line(&figure, "batching, nulls")));
    assert!(all_above(line(&figure, "batching"), line(&figure, "baseline")));
}

#[test]
fn only_copied_messages_pay_the_copy_price() {
    let copied = "everything, copied, all senders";
    let (plain, dearer) = (quick("spindle-15", ""), quick("spindle-15", "copy_ns_per_byte = 1.0"));
    assert!(all_above(line(&plain, copied), line(&dearer, copied)));
    assert_eq!(line(&plain, "everything, all senders"), line(&dearer, "everything, all senders"));
    let free = quick("spindle-15", "copy_ns_per_byte = 0.0");
    let shares = line(&free, copied).iter().zip(line(&free, "everything, all senders"));
    assert!(shares.map(|(copied, placed)| copied / placed).all(|share| share > 0.9));
}

#[test]
fn silent_sender_delays_no_other_sender_if_nulls_are_sent() {
    let figure = quick("spindle-10", "");
    assert!(line(&figure, "one sender delayed, lengthy").iter().all(|&rate| rate > 1.0));
    let claim = "one silent sender: what each of the others sends / without it";
    assert!(!figure.unmet.contains(&claim.to_owned()), "{}", figure.to_table());
}

#[test]
fn cost_of_idle_subgroups_follows_the_price_of_predicates() {
    let (paper, ours) = (quick("spindle-8", ""), at("spindle-8", Costs::Ours, ""));
    let left = |figure: &Figure| line(figure, "50 subgroups")[2] / line(figure, "1 subgroup")[2];
    assert!(left(&paper) < 0.2, "{}", left(&paper));
    assert!(left(&ours) > 2.0 * left(&paper), "{}", left(&ours));
}

/// The window of a sender becomes free again even if all of it was used at once and all its
/// messages are taken: bytes are released later than they are taken.
#[test]
fn smallest_sender_window_becomes_free_again() {
    let figure = quick("spindle-6", "");
    assert!(line(&figure, "w = 5").iter().all(|&rate| rate > 0.5));
}

#[test]
fn stored_messages_cost_copy_time_and_logged_messages_disk_time() {
    let plain = quick("spindle-18", "");
    let dearer = quick("spindle-18", "copy_ns_per_byte = 1.0\n[disk]\nbytes_per_second = 200e6");
    for stage in ["everything", "baseline"] {
        let of = |figure: &Figure, level: &str| line(figure, &format!("{stage}, {level}")).to_vec();
        for level in ["unordered", "atomic"] {
            assert_eq!(of(&plain, level), of(&dearer, level), "{stage}, {level}");
        }
        for level in ["volatile storage", "logged storage"] {
            assert!(all_above(&of(&plain, level), &of(&dearer, level)), "{stage}, {level}");
        }
        assert!(all_above(&of(&plain, "atomic"), &of(&plain, "volatile storage")), "{stage}");
    }
    // Storage without cost would be no limit, and the figure says so.
    let free = quick(
        "spindle-18",
        "copy_ns_per_byte = 0.0\n[disk]\nbytes_per_second = 1e15\nsync_ns = 0.0",
    );
    for level in ["volatile storage", "logged storage"] {
        let claim = format!("everything: {level} / atomic, mean");
        assert!(!plain.unmet.contains(&claim), "{}", plain.to_table());
        assert!(free.unmet.contains(&claim), "{}", free.to_table());
    }
    // A sender faster than the disk runs at the disk's rate, with or without whole batches.
    for (figure, disk) in [(&plain, 471.1), (&dearer, 200.0)] {
        let logged = line(figure, "everything, logged storage");
        assert!(logged.iter().all(|rate| (0.95..1.05).contains(&(rate / disk))), "{logged:?}");
    }
}
