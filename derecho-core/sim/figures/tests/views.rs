//! The figures of views: their points depend on the prices, and the steps happen in order.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_figures::{Figure, Options, run};

fn quick(name: &str, prices: &str) -> Figure {
    let options = Options { quick: true, prices: prices.into(), ..Options::default() };
    run(name, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn line<'a>(figure: &'a Figure, name: &str) -> &'a [f64] {
    &figure.line(name).unwrap_or_else(|| panic!("{name} is missing in {}", figure.name)).y
}

/// Returns the time of a step in the row of this name.
fn when(figure: &Figure, step: &str, row: &str) -> Option<f64> {
    let row = figure.rows.iter().position(|own| own == row).unwrap() as f64 + 1.0;
    let line = figure.line(step)?;
    line.y.iter().position(|y| *y == row).map(|point| line.x[point])
}

/// Returns all times of a step in the rows whose names begin with `band`.
fn times(figure: &Figure, step: &str, band: &str) -> Vec<f64> {
    let rows = figure.rows.iter().filter(|row| row.starts_with(band));
    rows.filter_map(|row| when(figure, step, row)).collect()
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn view_change_figures_are_the_same_in_each_run() {
    for name in ["derecho-6", "view-change"] {
        assert_eq!(quick(name, ""), quick(name, ""), "{name}");
    }
}

#[test]
fn dearer_posts_make_joins_and_leaves_longer_at_every_size() {
    let (plain, dearer) = (quick("view-change", ""), quick("view-change", "post_ns = 4000"));
    for change in ["join, local", "join, networked", "leave, local", "leave, networked"] {
        let name = format!("{change}: median");
        let mut pairs = line(&plain, &name).iter().zip(line(&dearer, &name));
        assert!(pairs.all(|(plain, dearer)| dearer > plain), "{name}");
    }
}

/// The time that a networked group waits before it suspects is not a price.
#[test]
fn crash_stops_only_networked_group_for_suspicion_time() {
    let figure = quick("view-change", "");
    assert!(line(&figure, "crash, networked: median").iter().all(|stop| *stop > 2000.0));
    assert!(line(&figure, "crash, local: worst").iter().all(|stop| *stop < 1000.0));
}

#[test]
fn narrower_port_slows_group_and_crash_stops_delivery_briefly() {
    let narrow = "port_bytes_per_second = 5e9\n[write]\nns_per_byte = 0.21";
    let (plain, narrow) = (quick("derecho-5", ""), quick("derecho-5", narrow));
    for name in ["10 KB, all send", "1 MB, all send"] {
        let sum = |figure| line(figure, name).iter().sum::<f64>() / line(figure, name).len() as f64;
        let left = sum(&narrow) / sum(&plain);
        assert!((0.2..0.7).contains(&left), "{name}: {left}");
    }
    // The group stops in the crash, and at no other time for that long.
    let stopped = line(&plain, "10 KB, all send").iter().filter(|rate| **rate == 0.0).count();
    assert!((2..=5).contains(&stopped), "{stopped} buckets of half a millisecond");
}

#[test]
fn no_member_delivers_before_all_members_have_received() {
    let figure = quick("derecho-6", "");
    let band = "multicast";
    let received = times(&figure, "received", band);
    assert_eq!(received.len(), 5);
    assert_eq!(times(&figure, "committed", band), [0.0]);
    assert!(least(&times(&figure, "delivered", band)) > most(&received), "{}", figure.to_table());
    for row in figure.rows.iter().filter(|row| row.starts_with(band)) {
        let steps =
            ["received", "stable", "delivered"].map(|step| when(&figure, step, row).unwrap());
        assert!(steps.is_sorted(), "{row}: {steps:?}");
    }
}

#[test]
fn a_view_change_goes_through_its_steps_in_order() {
    let figure = quick("derecho-6", "");
    for (band, members) in [("join", 6), ("leave", 4), ("crash", 4)] {
        let of = |step| times(&figure, step, band);
        assert_eq!(of("installed").len(), members, "{band}");
        assert_eq!(of("delivers again").len(), members, "{band}");
        assert_eq!(of("proposed").len(), 1, "{band}: one leads");
        // Atomic delivery: the proposer has the reports of all members.
        assert!(most(&of("wedged")) <= most(&of("reported")), "{band}");
        assert!(most(&of("reported")) < least(&of("proposed")), "{band}");
        assert!(least(&of("proposed")) < least(&of("accepted")), "{band}");
        assert!(least(&of("accepted")) <= least(&of("installed")), "{band}");
        for row in figure.rows.iter().filter(|row| row.starts_with(band)) {
            let steps = ["wedged", "reported", "installed", "delivers again"];
            let times: Vec<f64> = steps.iter().filter_map(|s| when(&figure, s, row)).collect();
            assert!(times.is_sorted(), "{row}: {times:?}");
        }
    }
}

#[test]
fn slower_wire_delays_every_step_that_waits_for_other_members() {
    let (plain, slow) = (quick("derecho-6", ""), quick("derecho-6", "[write]\nbase_ns = 20000"));
    for (step, band) in [("delivered", "multicast"), ("installed", "join"), ("installed", "crash")]
    {
        let (plain, slow) = (times(&plain, step, band), times(&slow, step, band));
        assert!(least(&slow) > most(&plain), "{step}, {band}: {plain:?}, {slow:?}");
    }
}

#[test]
fn timeline_table_and_svg_name_every_row() {
    let figure = quick("derecho-6", "");
    let (table, svg) = (figure.to_table(), figure.to_svg().unwrap());
    for row in &figure.rows {
        assert!(table.contains(row) && svg.contains(row), "{row}");
    }
}
