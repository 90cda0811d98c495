//! A small struct to CDR and back, and its key.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use idl_cdr::{DdsType, from_cdr, serialize_into, serialize_key_into, serialized_size, to_cdr};

#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr")]
struct Report {
    #[dds(key)]
    aircraft: u32,
    position: [f64; 3],
    call_sign: String,
    readings: Vec<f32>,
}

fn small_struct(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cdr");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    let report = Report {
        aircraft: 7,
        position: [48.3, 11.8, 9000.0],
        call_sign: "SQL7".to_owned(),
        readings: vec![1.0; 16],
    };
    let payload = to_cdr(&report).expect("nothing in it breaks a bound");
    let mut room = vec![0; payload.len()];
    group.bench_function("size", |bencher| {
        bencher.iter(|| serialized_size(black_box(&report)).expect("as before"));
    });
    group.bench_function("write", |bencher| {
        bencher.iter(|| serialize_into(black_box(&report), &mut room).expect("it fits"));
    });
    group.bench_function("write the key", |bencher| {
        bencher.iter(|| serialize_key_into(black_box(&report), &mut room).expect("it fits"));
    });
    group.bench_function("read", |bencher| {
        bencher.iter(|| from_cdr::<Report>(black_box(&payload)).expect("it was just written"));
    });
    assert_eq!(from_cdr::<Report>(&payload).as_ref(), Ok(&report));
    group.finish();
}

criterion_group!(benches, small_struct);
criterion_main!(benches);
