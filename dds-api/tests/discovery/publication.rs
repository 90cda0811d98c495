//! Writers and readers of one host, as separate participants of one process.

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
struct Report {
    #[dds(key)]
    aircraft: u32,
    text: String,
    readings: Vec<f32>,
}

/// Folder in which the participants of one test meet, removed at its end.
struct TestDomain(tempfile::TempDir);

impl TestDomain {
    fn new() -> TestDomain {
        TestDomain(tempfile::tempdir().unwrap())
    }

    fn join(&self) -> DomainParticipant {
        let config = ParticipantConfig::new().runtime_dir(self.0.path().join("run"));
        DomainParticipant::with_config(0, config).unwrap()
    }
}

const SOON: Timeout = Timeout::secs(10);

fn attitude(n: u32) -> Attitude {
    Attitude { aircraft: n, pitch: f64::from(n) / 2.0, roll: -1.0, yaw: 271.0 }
}

#[test]
fn reader_in_other_participant_takes_samples_in_written_order() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.topic::<Attitude>("Attitude").create().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    let reader = there
        .reader(&there.topic::<Attitude>("Attitude").create().unwrap())
        .reliable_all()
        .create()
        .unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    reader.wait_for_writers(1, SOON).unwrap();
    for n in 0..100 {
        writer.write(&attitude(n)).unwrap();
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    let taken: Vec<_> = reader.take_data(.., SOON).unwrap().collect();
    assert_eq!(taken.len(), 100);
    for (n, sample) in taken.iter().enumerate() {
        assert!(sample.is_borrowed(), "a plain sample is read in place");
        assert_eq!(**sample, attitude(n as u32));
        assert_eq!(sample.info().publication_handle, writer.instance_handle());
    }
    assert!(taken.windows(2).all(|w| w[0].info().sequence_number < w[1].info().sequence_number));
}

#[test]
fn all_samples_arrive_when_total_exceeds_writer_memory() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.topic::<Attitude>("Attitude").create().unwrap();
    let writer = here
        .writer(&topic)
        .memory(64 << 10)
        .in_flight(64)
        .max_blocking_time(SOON)
        .create()
        .unwrap();
    let theirs = there.topic::<Attitude>("Attitude").create().unwrap();
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..20_000 {
                writer.write(&attitude(n)).unwrap();
            }
        });
        for n in 0..20_000 {
            let sample = reader.take_next_data(SOON).unwrap().expect("nothing is lost");
            assert_eq!(*sample, attitude(n));
        }
    });
}

#[test]
fn samples_with_heap_data_travel_as_cdr() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let writer = here.writer(&here.topic::<Report>("Report").create().unwrap()).create().unwrap();
    let reader = there
        .reader(&there.topic::<Report>("Report").create().unwrap())
        .reliable_all()
        .create()
        .unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let report = Report { aircraft: 1, text: "climbing".into(), readings: vec![1.0, 2.0] };
    writer.write(&report).unwrap();
    let mut loan = writer.loan().unwrap();
    loan.text = "level".into();
    loan.publish().unwrap();
    let first = reader.take_next_data(SOON).unwrap().expect("the first report");
    assert_eq!(*first, report);
    assert!(!first.is_borrowed());
    assert_eq!(reader.take_next_data(SOON).unwrap().expect("the second").text, "level");
}

#[test]
fn write_waits_then_times_out_when_memory_is_full() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.topic::<Attitude>("Attitude").create().unwrap();
    let writer = here
        .writer(&topic)
        .memory(4096)
        .in_flight(16)
        .max_blocking_time(Timeout::millis(20))
        .create()
        .unwrap();
    let theirs = there.topic::<Attitude>("Attitude").create().unwrap();
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let mut written = 0;
    let refusal = loop {
        match writer.write(&attitude(written)) {
            Ok(()) => written += 1,
            Err(refusal) => break refusal,
        }
        assert!(written < 10_000, "a reader that takes nothing must stop the writer");
    };
    assert!(matches!(&refusal, DdsError::Timeout(why) if why.contains("Attitude")), "{refusal}");
    // A held sample blocks only its part of the memory.
    let held = reader.take_next_data(SOON).unwrap().expect("the first sample");
    for n in 1..written {
        assert_eq!(*reader.take_next_data(SOON).unwrap().expect("the rest"), attitude(n));
    }
    for n in 0..written / 2 {
        writer.write(&attitude(n)).unwrap();
    }
    assert_eq!(*held, attitude(0), "what is held is never overwritten");
}

#[test]
fn dropped_and_forgotten_loans_do_not_block_writer() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = here.topic::<Attitude>("Attitude").create().unwrap();
    let writer = here.writer(&topic).memory(64 << 10).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let _forgotten = std::mem::ManuallyDrop::new(writer.loan().unwrap());
    let held = writer.loan().unwrap();
    for n in 0..5_000 {
        drop(writer.loan().unwrap());
        let mut loan = writer.loan().unwrap();
        loan.aircraft = n;
        loan.publish().unwrap();
        assert_eq!(reader.take_next_data(SOON).unwrap().expect("each loan").aircraft, n);
    }
    drop(held);
}

#[test]
fn loan_as_left_delivers_assigned_value() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = here.topic::<Attitude>("Attitude").create().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    for n in 0..100 {
        let mut loan = writer.loan_as_left().unwrap();
        *loan = attitude(n);
        loan.publish().unwrap();
        assert_eq!(*reader.take_next_data(SOON).unwrap().expect("each loan"), attitude(n));
    }
}

#[test]
fn deletion_of_reader_or_writer_blocks_no_other_entity() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.topic::<Attitude>("Attitude").create().unwrap();
    let theirs = there.topic::<Attitude>("Attitude").create().unwrap();
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    for round in 0..20 {
        let writer = here.writer(&topic).memory(64 << 10).create().unwrap();
        let passer_by = there.reader(&theirs).reliable_all().create().unwrap();
        writer.wait_for_readers(2, SOON).unwrap();
        drop(passer_by);
        for n in 0..500 {
            writer.write(&attitude(round * 1000 + n)).unwrap();
            let sample = reader.take_next_data(SOON).unwrap().expect("the other reader goes on");
            assert_eq!(sample.aircraft, round * 1000 + n);
        }
        writer.write(&attitude(7)).unwrap();
        drop(writer);
        let last =
            reader.take_next_data(SOON).unwrap().expect("the last sample outlives its writer");
        assert_eq!(*last, attitude(7));
    }
}

#[test]
fn misuse_returns_error_with_advice() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let says = |error: DdsError, words: &str| {
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
    };
    says(DomainParticipant::new(1000).err().unwrap(), "0 to 232");
    says(here.topic::<Attitude>("").create().err().unwrap(), "1 to 255 bytes");
    let topic = here.topic::<Attitude>("Attitude").create().unwrap();
    says(there.writer(&topic).create().err().unwrap(), "another participant");
    says(there.reader(&topic).reliable_all().create().err().unwrap(), "another participant");
    says(here.writer(&topic).memory(usize::MAX).create().err().unwrap(), "limits");
    let reports = here.topic::<Report>("Report").create().unwrap();
    let writer = here.writer(&reports).memory(16 << 10).create().unwrap();
    let report = Report { text: "x".repeat(100_000), ..Report::default() };
    says(writer.write(&report).unwrap_err(), ".max_sample_size(");
    says(writer.wait_for_readers(1, Timeout::millis(1)).unwrap_err(), "0 of 1 readers");
    let reader = here.reader(&reports).reliable_all().create().unwrap();
    assert!(reader.take_next_data(Timeout::NOW).unwrap().is_none());
    assert!(reader.take_data(.., Timeout::millis(1)).unwrap().next().is_none());
    let other_type = there.topic::<Attitude>("Report").create().unwrap();
    let stranger = there.writer(&other_type).create().unwrap();
    let seen = std::time::Instant::now();
    while reader.inconsistent_writers() == 0 {
        assert!(seen.elapsed().as_secs() < 10, "the type is announced");
        let _ = reader.take_next_data(Timeout::millis(1)).unwrap();
    }
    assert_eq!(stranger.matched_readers(), 0);
}

#[test]
fn wait_until_waits_for_room_or_samples_in_one_thread() {
    const EACH: u32 = 2_000;
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Attitude>("Both").create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).memory(4096).in_flight(8).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let (mut written, mut taken) = (0, 0);
    // Either room or a sample ends the wait.
    while taken < EACH {
        let room = || written < EACH && writer.has_room_for(&attitude(written));
        assert!(participant.wait_until(SOON, || room() || reader.has_samples()).unwrap());
        while written < EACH && writer.has_room_for(&attitude(written)) {
            writer.write(&attitude(written)).unwrap();
            written += 1;
        }
        for sample in reader.take_data(.., Timeout::NOW).unwrap() {
            assert_eq!(*sample, attitude(taken));
            taken += 1;
        }
    }
    assert!(!reader.has_samples() && writer.has_room_for(&attitude(0)));
    let soon = Timeout::millis(1);
    assert!(!participant.wait_until(soon, || reader.has_samples()).unwrap(), "it ends in time");
}

/// While the condition is evaluated nothing is processed, so calls that would wait return at once,
/// or fail; the participant is unchanged.
#[test]
fn wait_until_condition_may_query_peers_and_never_blocks() {
    let domain = TestDomain::new();
    let participant = &domain.join();
    let topic = participant.topic::<Attitude>("Both").create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let alone = || participant.peer_count() == 0 && participant.view().1 == 1;
    assert!(participant.wait_until(SOON, alone).unwrap());
    std::thread::scope(|scope| {
        let two = || participant.peer_count() == 1 && participant.view().1 == 2;
        let waits = scope.spawn(move || participant.wait_until(SOON, two).unwrap());
        let other = domain.join();
        assert!(waits.join().unwrap());
        drop(other);
    });
    let takes = || reader.take_next_data(Timeout::FOREVER).is_ok_and(|sample| sample.is_some());
    assert!(!participant.wait_until(Timeout::millis(5), takes).unwrap());
    let asks = || participant.stored_topics().len() == 7;
    let asked = || participant.wait_until(SOON, asks).unwrap();
    let refusal = std::panic::catch_unwind(std::panic::AssertUnwindSafe(asked)).unwrap_err();
    let said = refusal.downcast_ref::<&str>().expect("words");
    assert!(said.contains("ask before the call"), "{said}");
    assert!(participant.stored_topics().is_empty(), "it works on");
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&attitude(1)).unwrap();
    assert_eq!(*reader.take_next_data(SOON).unwrap().unwrap(), attitude(1));
}

#[test]
fn writer_has_no_room_for_sample_larger_than_memory() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Report>("Long").create().unwrap();
    let writer = participant.writer(&topic).memory(4096).create().unwrap();
    let report = |length| Report { text: "x".repeat(length), ..Report::default() };
    assert!(writer.has_room_for(&report(100)));
    assert!(!writer.has_room_for(&report(10_000)));
}
