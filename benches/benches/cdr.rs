//! Structs and long rows of numbers to CDR and back, beside `memcpy` and two other crates.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use byteorder::LittleEndian;
use cdr::{CdrLe, Infinite};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use idl_cdr::{
    CdrWriter, DdsType, Encoding, Extensibility, from_cdr, serialize_into, serialize_key_into,
    serialized_size, to_cdr, to_cdr_with,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(DdsType, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[dds(crate = "idl_cdr")]
struct Report {
    #[dds(key)]
    aircraft: u32,
    position: [f64; 3],
    call_sign: String,
    readings: Vec<f32>,
}

/// Twenty members, five of them strings.
#[derive(DdsType, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[dds(crate = "idl_cdr")]
struct Flight {
    #[dds(key)]
    number: u32,
    call_sign: String,
    origin: String,
    destination: String,
    latitude: f64,
    longitude: f64,
    altitude: f32,
    speed: f32,
    heading: f32,
    climb: f32,
    gear_down: bool,
    on_ground: bool,
    squawk: u16,
    fuel: u32,
    passengers: u16,
    gate: String,
    stand: u8,
    operator: String,
    departed: i64,
    expected: i64,
}

fn report() -> Report {
    Report {
        aircraft: 7,
        position: [48.3, 11.8, 9000.0],
        call_sign: "SQL7".to_owned(),
        readings: vec![1.0; 16],
    }
}

fn flight() -> Flight {
    Flight {
        number: 7,
        call_sign: "SQL7".to_owned(),
        origin: "EDDM".to_owned(),
        destination: "KJFK".to_owned(),
        latitude: 48.3,
        longitude: 11.8,
        altitude: 9000.0,
        speed: 240.0,
        heading: 271.0,
        climb: 0.0,
        gear_down: false,
        on_ground: false,
        squawk: 0o1200,
        fuel: 12_000,
        passengers: 180,
        gate: "B12".to_owned(),
        stand: 12,
        operator: "Squall Air".to_owned(),
        departed: 1_700_000_000,
        expected: 1_700_030_000,
    }
}

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    group
}

/// Converts a value to CDR in existing memory, and back; then does the same with the other crates.
fn beside<T>(group: &mut BenchmarkGroup<'_, WallTime>, value: &T)
where
    T: DdsType + PartialEq + Serialize + DeserializeOwned,
{
    let payload = to_cdr(value).expect("nothing in it breaks a bound");
    assert!(from_cdr::<T>(&payload).is_ok_and(|again| again == *value));
    let mut room = vec![0; payload.len()];
    group.bench_function("size", |bencher| {
        bencher.iter(|| serialized_size(black_box(value)).expect("as before"));
    });
    group.bench_function("write", |bencher| {
        bencher.iter(|| serialize_into(black_box(value), &mut room).expect("it fits"));
    });
    group.bench_function("read", |bencher| {
        bencher.iter(|| from_cdr::<T>(black_box(&payload)).expect("it was just written"));
    });

    let others = cdr::serialize::<_, _, CdrLe>(value, Infinite).expect("it can be written");
    let mut room = vec![0; others.len()];
    group.bench_function("cdr write", |bencher| {
        bencher.iter(|| {
            cdr::serialize_into::<_, _, _, CdrLe>(&mut room[..], black_box(value), Infinite)
        });
    });
    group.bench_function("cdr read", |bencher| {
        bencher.iter(|| cdr::deserialize::<T>(black_box(&others)).expect("it was just written"));
    });

    let others = cdr_encoding::to_vec::<T, LittleEndian>(value).expect("it can be written");
    group.bench_function("cdr-encoding write", |bencher| {
        bencher.iter(|| cdr_encoding::to_vec::<T, LittleEndian>(black_box(value)));
    });
    group.bench_function("cdr-encoding read", |bencher| {
        bencher.iter(|| cdr_encoding::from_bytes::<T, LittleEndian>(black_box(&others)));
    });
}

fn structs(criterion: &mut Criterion) {
    let mut small = group(criterion, "cdr: a small struct");
    let report = report();
    beside(&mut small, &report);
    let mut room = [0; 16];
    small.bench_function("write the key", |bencher| {
        bencher.iter(|| serialize_key_into(black_box(&report), &mut room).expect("it fits"));
    });
    small.finish();
    let mut large = group(criterion, "cdr: 20 members, 5 strings");
    beside(&mut large, &flight());
    large.finish();
}

/// A mebibyte of numbers, beside the cost of copying its bytes.
fn row<T>(criterion: &mut Criterion, name: &str, value: Vec<T>)
where
    T: DdsType + PartialEq + Copy + Serialize + DeserializeOwned,
{
    let mut group = group(criterion, name);
    group.throughput(Throughput::Bytes(size_of_val(&value[..]) as u64));
    let mut to = value.clone();
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| black_box(&mut to[..]).copy_from_slice(black_box(&value)));
    });
    group.bench_function("memcpy to new memory", |bencher| {
        bencher.iter(|| black_box(&value).clone());
    });
    beside(&mut group, &value);

    let swapped = to_cdr_with(&value, Encoding::PLAIN_CDR2_BE).expect("it has no bound");
    let mut room = vec![0; swapped.len()];
    group.bench_function("write swapped", |bencher| {
        bencher.iter(|| {
            let mut writer = CdrWriter::over(&mut room, Encoding::PLAIN_CDR2_BE);
            writer.write_header(Extensibility::Final).expect("it fits");
            DdsType::serialize(black_box(&value), &mut writer).expect("it fits");
        });
    });
    group.bench_function("read swapped", |bencher| {
        bencher.iter(|| from_cdr::<Vec<T>>(black_box(&swapped)).expect("it was just written"));
    });
    group.finish();
}

const MEBIBYTE: usize = 1 << 20;

fn rows(criterion: &mut Criterion) {
    row(criterion, "cdr: 1 MiB of octets", vec![7_u8; MEBIBYTE]);
    row(criterion, "cdr: 1 MiB of doubles", vec![7.5_f64; MEBIBYTE / 8]);
}

criterion_group!(benches, structs, rows);
criterion_main!(benches);
