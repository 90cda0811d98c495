//! Every experiment runs, its points depend on the prices, and it can be output in every format.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use derecho_figures::{Figure, FigureError, Options, list, run};

fn quick(name: &str, prices: &str) -> Figure {
    let options = Options { quick: true, prices: prices.into(), ..Options::default() };
    run(name, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn leaves_in_every_form(figure: &Figure) {
    let name = &figure.name;
    assert!(!figure.series.is_empty(), "{name}");
    for series in &figure.series {
        assert!(!series.x.is_empty() && series.x.len() == series.y.len(), "{name}: {series:?}");
        assert!(series.x.iter().all(|x| x.is_finite() && *x >= 0.0), "{name}: {series:?}");
        assert!(series.y.iter().all(|y| y.is_finite() && *y >= 0.0), "{name}: {series:?}");
        // Nothing is delivered while a group stops; everything else takes time, or has a rate.
        let stops = name == "derecho-5";
        assert!(stops || series.y.iter().all(|y| *y > 0.0), "{name}: {series:?}");
        assert!(series.y.iter().any(|y| *y > 0.0), "{name}: {series:?}");
    }
    assert!(figure.paper.keys().eq(figure.measured.keys()), "{name}");
    assert!(!figure.paper.is_empty() && !figure.notes.is_empty(), "{name}");
    assert!(figure.unmet.iter().all(|claim| figure.paper.contains_key(claim)), "{name}");
    let json: serde_json::Value = serde_json::from_str(&figure.to_json()).unwrap();
    assert_eq!(json["figure"], name.as_str());
    let points: usize = figure.series.iter().map(|series| series.x.len()).sum();
    assert_eq!(figure.to_csv().lines().count(), points + 1, "{name}");
    let (table, svg) = (figure.to_table(), figure.to_svg().unwrap());
    for series in &figure.series {
        assert!(table.contains(&series.name), "{name}: {}", series.name);
        assert!(svg.contains(&series.name), "{name}: {}", series.name);
    }
    assert!(svg.contains(&figure.y_label) && svg.contains(&figure.x_label), "{name}");
}

macro_rules! every_figure {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                let figure = quick($name, "");
                assert_eq!(figure.name, $name);
                leaves_in_every_form(&figure);
            }
        )*

        #[test]
        fn list_names_exactly_the_tested_figures() {
            assert!(list().map(|(name, _)| name).eq([$($name),*]));
        }
    };
}

every_figure! {
    parallel_operations "sst-3"
    simplest_predicate "sst-table4"
    most_complex_predicate "sst-complex"
    complexity_with_reads "sst-5a"
    complexity_with_writes "sst-5b"
    row_size "sst-6"
    throughput "sst-7"
    counting "sst-8"
    routing "sst-9"
    racks "sst-table5"
    old_hardware "sst-11"
    writes_by_size "spindle-1"
    batching "spindle-3"
    message_sizes "spindle-4"
    batching_stages "spindle-5"
    windows "spindle-6"
    batch_sizes "spindle-7"
    inactive_subgroups_baseline "spindle-8"
    inactive_subgroups_batching "spindle-9"
    delayed_senders "spindle-10"
    nulls "spindle-11"
    posting_at_the_end "spindle-12"
    active_subgroups "spindle-13"
    copies_by_size "spindle-14"
    copied_messages "spindle-15"
    final_throughput "spindle-16"
    final_latency "spindle-17"
    levels "spindle-18"
    small_messages "derecho-2"
    bandwidth_through_changes "derecho-5"
    timelines "derecho-6"
    shared_updates "derecho-sst"
    silence_in_changes "view-change"
}

#[test]
fn unknown_figure_error_names_command_that_runs_all_figures() {
    let error = run("sst-99", &Options::default()).unwrap_err();
    assert_eq!(error, FigureError::Unknown("sst-99".into()));
    assert!(error.to_string().contains("squall sim figure all"));
}

#[test]
fn error_message_names_the_invalid_price() {
    let options = Options { prices: "post_ns = -1".into(), ..Options::default() };
    let error = run("sst-8", &options).unwrap_err();
    assert!(error.to_string().contains("post_ns"), "{error}");
}

#[test]
fn sst_figure_is_the_same_in_each_run() {
    assert_eq!(quick("sst-complex", ""), quick("sst-complex", ""));
}

/// Returns all points of a line.
fn line<'a>(figure: &'a Figure, name: &str) -> &'a [f64] {
    &figure.line(name).unwrap().y
}

fn all_above(higher: &[f64], lower: &[f64]) -> bool {
    higher.iter().zip(lower).all(|(higher, lower)| higher > lower)
}

#[test]
fn dearer_post_raises_every_point_of_figure_8_more_with_more_nodes() {
    let (plain, dearer) = (quick("sst-8", ""), quick("sst-8", "post_ns = 1000"));
    for kind in ["SST-writes", "SST-reads"] {
        assert!(all_above(line(&dearer, kind), line(&plain, kind)), "{kind}");
        let moved: Vec<f64> =
            line(&dearer, kind).iter().zip(line(&plain, kind)).map(|(d, p)| d - p).collect();
        assert!(moved.windows(2).all(|pair| pair[1] > pair[0]), "{kind}: {moved:?}");
    }
}

#[test]
fn slower_reads_raise_only_sst_reads_times() {
    let (plain, slower) = (quick("sst-8", ""), quick("sst-8", "[read]\nbase_ns = 9000"));
    assert_eq!(line(&slower, "SST-writes"), line(&plain, "SST-writes"));
    assert!(all_above(line(&slower, "SST-reads"), line(&plain, "SST-reads")));
}

#[test]
fn dearer_cells_slow_predicates_more_with_more_rows() {
    let (plain, dearer) = (quick("sst-7", ""), quick("sst-7", "cell_ns = 100"));
    let name = "evaluations and triggers";
    let share: Vec<f64> =
        line(&dearer, name).iter().zip(line(&plain, name)).map(|(d, p)| d / p).collect();
    assert!(share[0] > 0.9 && share.windows(2).all(|pair| pair[1] < pair[0]), "{share:?}");
}

#[test]
fn narrower_port_slows_parallel_reads_of_long_rows_only() {
    let narrow = "port_bytes_per_second = 1e9\n[read]\nns_per_byte = 1.0";
    let (plain, narrow) = (quick("sst-3", ""), quick("sst-3", narrow));
    let growth = |bytes: &str| {
        let name = format!("reads, {bytes} bytes");
        line(&narrow, &name)[2] / line(&plain, &name)[2]
    };
    assert!(growth("8") < 1.05, "{}", growth("8"));
    assert!(growth("4096") > 2.0, "{}", growth("4096"));
}

#[test]
fn counting_time_grows_linearly_with_nodes() {
    let figure = quick("sst-8", "");
    for kind in ["SST-writes", "SST-reads"] {
        let claim = format!("{kind}: time grows linearly with the nodes");
        assert!(figure.paper.contains_key(&claim));
        assert!(!figure.unmet.contains(&claim), "{}", figure.to_table());
    }
}

#[test]
fn only_sst_reads_detection_time_grows_with_number_of_nodes() {
    let (reads, writes) = (quick("sst-5a", ""), quick("sst-5b", ""));
    let first = |figure: &Figure| figure.series.iter().map(|s| s.y[0]).collect::<Vec<_>>();
    let ratio = |points: Vec<f64>| points[points.len() - 1] / points[0];
    assert!((0.8..1.25).contains(&ratio(first(&writes))));
    assert!(ratio(first(&reads)) > 1.25);
    // A table that is fetched whole does not depend on the part that a predicate reads.
    let with_writes = ratio(writes.series[1].y.clone());
    assert!(with_writes > 1.5 * ratio(reads.series[1].y.clone()));
}
