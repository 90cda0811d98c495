//! `squall store`: samples outlive the applications that wrote them, and the store itself.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dds_api::prelude::*;
use support::Place;

/// A value.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    #[dds(key)]
    sensor: u32,
    value: u32,
}

const SOON: Timeout = Timeout::secs(60);

fn store(place: &Place, topics: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_squall"));
    command.args(["store", "--topics", topics, "--dir"]).arg(place.path().join("logs"));
    command.arg("--runtime-dir").arg(place.path().join("run"));
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("keeps"), "{line}");
    (process, output)
}

fn with_application(place: &Place, what: impl FnOnce(&DomainParticipant, &Topic<Reading>)) {
    let config = ParticipantConfig::new().runtime_dir(place.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let topic = participant.topic::<Reading>("Flight/Readings").persistent().keep_all();
    what(&participant, &topic.create().unwrap());
}

fn write(place: &Place, values: std::ops::Range<u32>) {
    with_application(place, |participant, topic| {
        let writer = participant.writer(topic).create().unwrap();
        values.for_each(|value| writer.write(&Reading { sensor: 1, value }).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
    });
}

fn read(place: &Place, count: usize) -> Vec<u32> {
    let mut all = Vec::new();
    with_application(place, |participant, topic| {
        let reader = participant.reader(topic).create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        while all.len() < count {
            let taken = reader.take(.., SOON).unwrap();
            all.extend(taken.map(|sample| sample.value));
        }
    });
    all
}

#[test]
fn samples_outlive_applications_and_the_store() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("logs")).unwrap();
    let (mut first, listens) = store(&place, "Flight/*");
    write(&place, 0..1000);
    assert_eq!(read(&place, 1000), (0..1000).collect::<Vec<_>>());
    assert!(first.try_wait().unwrap().is_none(), "it is there");
    first.kill().unwrap();
    first.wait().unwrap();
    drop(listens);
    let (mut second, mut output) = store(&place, "Flight/*");
    write(&place, 1000..1500);
    assert_eq!(read(&place, 1500), (0..1500).collect::<Vec<_>>());
    let pid = rustix::process::Pid::from_child(&second);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut said = String::new();
    while output.read_line(&mut said).unwrap() > 0 {}
    assert!(second.wait().unwrap().success(), "{said}");
    assert!(said.contains("Flight/Readings: is logged"), "{said}");
    assert!(said.contains("1 topics, 1500 samples"), "{said}");
}

#[test]
fn what_does_not_match_is_not_kept_and_a_wrong_folder_is_said() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("logs")).unwrap();
    let (mut other, _) = store(&place, "Ground/*");
    with_application(&place, |participant, topic| {
        let writer = participant.writer(topic).create().unwrap();
        writer.write(&Reading::default()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let error = writer.wait_for_acknowledgments(Timeout::millis(50)).unwrap_err();
        assert!(error.to_string().contains("squall store"), "{error}");
    });
    other.kill().unwrap();
    other.wait().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_squall"));
    command.args(["store", "--for", "1", "--dir"]).arg(place.path().join("nowhere"));
    let ended = command.output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("nowhere") && said.contains("not there"), "{said}");
}
