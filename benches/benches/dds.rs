//! A sample from write to take through the public API: writer and reader of one participant.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dds_api::prelude::*;

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Attitude {
    #[dds(key)]
    aircraft: u32,
    pitch: f64,
    roll: f64,
    yaw: f64,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Text {
    text: String,
}

const SOON: Timeout = Timeout::secs(10);

fn pair<T: DdsType>(
    participant: &DomainParticipant,
    name: &str,
) -> DdsResult<(DataWriter<T>, DataReader<T>)> {
    let topic = participant.topic::<T>(name).create()?;
    let writer = participant.writer(&topic).create()?;
    let reader = participant.reader(&topic).reliable_all().create()?;
    writer.wait_for_readers(1, SOON)?;
    Ok((writer, reader))
}

fn next<T: DdsType>(reader: &DataReader<T>) -> ValidSample<T> {
    reader.take_next_data(SOON).expect("the participant is there").expect("it was just written")
}

fn write_and_take(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = ParticipantConfig::new().runtime_dir(folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).expect("nobody else is there");
    let mut group = criterion.benchmark_group("dds");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(1));
    {
        let (writer, reader) = pair::<Attitude>(&participant, "Attitude").expect("both are here");
        let attitude = Attitude { aircraft: 7, pitch: 1.5, ..Attitude::default() };
        group.bench_function("plain: write, take", |bencher| {
            bencher.iter(|| {
                writer.write(black_box(&attitude)).expect("there is room");
                black_box(next(&reader).aircraft)
            });
        });
        group.bench_function("plain: loan, publish, take", |bencher| {
            bencher.iter(|| {
                let mut loan = writer.loan().expect("there is room");
                loan.aircraft = black_box(7);
                loan.publish().expect("it was built");
                black_box(next(&reader).aircraft)
            });
        });
    }
    {
        let (writer, reader) = pair::<Text>(&participant, "Text").expect("both are here");
        let text = Text { text: "level at nine thousand".to_owned() };
        group.bench_function("cdr: write, take", |bencher| {
            bencher.iter(|| {
                writer.write(black_box(&text)).expect("there is room");
                black_box(next(&reader).text.len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, write_and_take);
criterion_main!(benches);
