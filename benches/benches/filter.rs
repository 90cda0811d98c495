//! Evaluation of filter expressions on samples, beside the same condition in Rust.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use dds_sql::Filter;
use idl_cdr::DdsType;

#[derive(DdsType, Clone, Debug)]
#[dds(crate = "idl_cdr")]
struct Track {
    #[dds(key)]
    callsign: String,
    altitude: f64,
    position: Position,
    airborne: bool,
}

#[derive(DdsType, Clone, Copy, Debug)]
#[dds(crate = "idl_cdr")]
struct Position {
    x: f64,
    y: f64,
}

fn filters(criterion: &mut Criterion) {
    let track = Track {
        callsign: "F-GKXA".to_owned(),
        altitude: 1200.0,
        position: Position { x: 1.0, y: 2.0 },
        airborne: true,
    };
    let mut group = criterion.benchmark_group("filter");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(800));
    group.bench_function("in Rust: altitude > 1000", |bencher| {
        let limit = black_box(1000.0);
        bencher.iter(|| black_box(black_box(&track).altitude > limit));
    });
    for expression in [
        "altitude > 1000",
        "altitude BETWEEN 1000 AND 2000",
        "position.x < position.y",
        "callsign LIKE 'F-%A'",
        "(altitude > 1000 AND airborne = TRUE) AND NOT position.x > 5 AND callsign <> 'D-ABCD'",
    ] {
        let filter = Filter::new::<Track>(expression, &[]).expect("an expression of ours");
        assert!(filter.accepts(&track));
        group.bench_function(expression, |bencher| {
            bencher.iter(|| black_box(filter.accepts(black_box(&track))));
        });
    }
    group.bench_function("made: altitude > 1000", |bencher| {
        bencher.iter(|| Filter::new::<Track>(black_box("altitude > 1000"), &[]));
    });
    group.finish();
}

criterion_group!(benches, filters);
criterion_main!(benches);
