//! Samples are sent in the representation that their writer offers, and readers detect it for
//! each sample.

use std::path::Path;

use crate::levels::{self, at_level};
use crate::support::{Actor, SOON, TestDomain, join, listen, role, say, until};
use dds_api::prelude::*;
use dds_api::qos::DataRepresentationId::{Xcdr, Xcdr2, Xml};
use dds_api::qos::{DataRepresentationId, DataWriterQos, PolicyId, PresentationQosPolicy};
use dds_api::subscription::InstanceState;
use dds_api::topic::Bytes;
use dds_api::types::{DynamicData, DynamicType, SerializedData, from_cdr, to_cdr_with};
use idl_cdr::{CdrVersion, Encoding};

/// A type whose members, except the first, differ between the two versions of CDR.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Nav::Remark")]
struct Remark {
    #[dds(key)]
    id: u32,
    #[dds(key)]
    station: String,
    at: f64,
    shades: Vec<Shade>,
    said: Option<String>,
}

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
#[dds(name = "Nav::Shade")]
enum Shade {
    #[default]
    Dark,
    Bright,
}

/// A type that may have other members in another version.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Nav::Growing", extensibility = "appendable")]
struct Growing {
    #[dds(key)]
    id: u32,
    name: String,
}

/// A final type with a member of such a type.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Nav::Around")]
struct Around {
    growing: Vec<Growing>,
}

/// A type that is sent as it lies in memory.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
#[dds(name = "Nav::Flat")]
struct Flat {
    #[dds(key)]
    id: u32,
    at: f64,
}

const LEVELS: [&str; 4] = ["unordered", "atomic", "kept", "logged"];

fn topic_of<T: DdsType>(participant: &DomainParticipant, level: &str) -> Topic<T> {
    at_level(participant.topic(&format!("{} {level}", T::TYPE_NAME)), level)
}

/// Creates the same topic of run-time samples, and of their bytes.
fn met<T: DdsType>(
    participant: &DomainParticipant,
    level: &str,
) -> (Topic<DynamicData>, Topic<SerializedData>) {
    let (name, of) = (format!("{} {level}", T::TYPE_NAME), DynamicType::of::<T>());
    let dynamic = at_level(participant.dynamic_topic(&name, &of), level);
    (dynamic, at_level(participant.serialized_topic(&name, &of), level))
}

fn logging(domain: &TestDomain, logs: &Path) -> DomainParticipant {
    let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir()).log_folder(logs);
    DomainParticipant::with_config(0, config).unwrap()
}

fn remark(id: u32) -> Remark {
    let (station, shades) = ("tower".to_owned(), vec![Shade::Bright, Shade::Dark]);
    Remark {
        id,
        station,
        at: f64::from(id),
        shades,
        said: (id.is_multiple_of(2)).then(|| "good".into()),
    }
}

/// Takes like [`levels::take`], and checks that there are no more.
fn take<T: dds_api::types::TopicData, R>(
    reader: &DataReader<T>,
    count: usize,
    of: impl Fn(&T) -> R,
) -> Vec<R> {
    let all = levels::take(reader, count, of);
    assert!(reader.take_next(Timeout::millis(20)).unwrap().is_none(), "and no more");
    all
}

/// Takes like [`levels::take_samples`], and checks that there are no more.
fn take_samples<T: dds_api::types::TopicData, R>(
    reader: &DataReader<T>,
    count: usize,
    of: impl Fn(&Sample<T>) -> R,
) -> Vec<R> {
    let all = levels::take_samples(reader, count, of);
    assert!(reader.take_next(Timeout::millis(20)).unwrap().is_none(), "and no more");
    all
}

fn encoding(of: DataRepresentationId) -> Encoding {
    if of == Xcdr2 { Encoding::PLAIN_CDR2_LE } else { Encoding::CDR_LE }
}

fn coherent() -> PresentationQosPolicy {
    PresentationQosPolicy { coherent_access: true, ..Default::default() }
}

fn version(payload: &[u8]) -> CdrVersion {
    Encoding::of_payload(payload).unwrap().version
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    let representation = if role == "first" { Xcdr } else { Xcdr2 };
    let participant = join(&folder);
    let ends: Vec<_> = LEVELS[..3]
        .iter()
        .map(|level| {
            let topic = topic_of::<Remark>(&participant, level);
            let reader = participant.reader(&topic).reliable_all().representations([Xcdr, Xcdr2]);
            (reader.create().unwrap(), participant.writer(&topic).representation(representation))
        })
        .map(|(reader, writer)| (reader, writer.create().unwrap()))
        .collect();
    say("there");
    while let Some(order) = listen() {
        let first: u32 = order.parse().unwrap();
        for (_, writer) in &ends {
            writer.wait_for_readers(3, SOON).unwrap();
            (first..first + 10).for_each(|id| writer.write(&remark(id)).unwrap());
            writer.dispose(&remark(first)).unwrap();
        }
        say("written");
        // Samples of both, distinguished by the header of each.
        for (reader, _) in &ends {
            let mut alive = take_samples(reader, 22, |sample| sample.data().map(|data| data.id));
            alive.sort_unstable();
            assert!(alive.into_iter().flatten().eq(0..20));
        }
        say("read");
    }
}

/// Two programs write in either representation; both, and this one, read all samples.
#[test]
fn programs_that_write_either_representation_read_each_other() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let readers: Vec<_> = LEVELS[..3]
        .iter()
        .map(|level| {
            let topic = topic_of::<Remark>(&participant, level);
            let (_, raw) = met::<Remark>(&participant, level);
            let reader = participant.reader(&topic).reliable_all().representations([Xcdr2, Xcdr]);
            (topic, reader.create().unwrap(), raw)
        })
        .collect();
    let mut actors = [
        Actor::start(module_path!(), "first", &domain, 0),
        Actor::start(module_path!(), "second", &domain, 1),
    ];
    actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "there"));
    for (actor, first) in actors.iter_mut().zip(["0", "10"]) {
        actor.tell(first);
    }
    for actor in &mut actors {
        assert_eq!(actor.hear(), "written");
        assert_eq!(actor.hear(), "read");
    }
    for (topic, reader, raw) in &readers {
        let got = take_samples(reader, 22, |sample| sample.data().cloned());
        let mut got: Vec<Remark> = got.into_iter().flatten().collect();
        got.sort_by_key(|remark| remark.id);
        assert!(got.into_iter().eq((0..20).map(remark)), "{}", topic.name());
        if topic.is_kept() {
            // Kept samples have the bytes in which they were written.
            let late = participant
                .reader(raw)
                .reliable_all()
                .representations([Xcdr, Xcdr2])
                .create()
                .unwrap();
            late.wait_for_historical_data(SOON).unwrap();
            let kept = take_samples(&late, 20, |sample| {
                let id = sample.data().map(|data| from_cdr::<Remark>(data.payload()).unwrap().id);
                (id, version(sample.key_value().payload()))
            });
            for (id, found) in kept {
                let Some(id) = id else { continue };
                let expected = if id < 10 { CdrVersion::Xcdr1 } else { CdrVersion::Xcdr2 };
                assert_eq!(found, expected, "{id}");
            }
        }
    }
    actors.into_iter().for_each(Actor::finish);
    drop((readers, participant));
    domain.assert_empty();
}

/// A writer writes in the first representation that it offers: samples, and keys of ended
/// instances; of compiled types, of run-time ones, and of forwarded bytes, which are encoded again
/// if they have the other representation.
#[test]
fn writer_uses_the_first_representation_that_it_offers() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let logs = tempfile::tempdir().unwrap();
    drop(participant);
    let participant = logging(&domain, logs.path());
    let lists = [
        (vec![], Xcdr),
        (vec![Xcdr], Xcdr),
        (vec![Xcdr2], Xcdr2),
        (vec![Xcdr2, Xcdr], Xcdr2),
        (vec![Xcdr, Xml, Xcdr2], Xcdr),
    ];
    for level in LEVELS {
        let topic = topic_of::<Remark>(&participant, level);
        let (dynamic_topic, raw_topic) = met::<Remark>(&participant, level);
        let raw = participant
            .reader(&raw_topic)
            .reliable_all()
            .representations([Xcdr, Xcdr2])
            .create()
            .unwrap();
        for (list, first) in &lists {
            let mut qos = DataWriterQos::default();
            qos.copy_from_topic_qos(&topic.qos());
            qos.reliability = DataWriterQos::default().reliability;
            qos.representation.value.clone_from(list);
            let compiled = participant.writer(&topic).qos(&qos).create().unwrap();
            let dynamic = participant.writer(&dynamic_topic).qos(&qos).create().unwrap();
            let passed = participant.writer(&raw_topic).qos(&qos).create().unwrap();
            compiled.wait_for_readers(1, SOON).unwrap();
            dynamic.wait_for_readers(1, SOON).unwrap();
            passed.wait_for_readers(1, SOON).unwrap();
            let expected = to_cdr_with(&remark(4), encoding(*first)).unwrap();
            let of = dynamic_topic.dynamic_type();
            let data = DynamicData::from_cdr(&of, &expected).unwrap();
            compiled.write(&remark(4)).unwrap();
            dynamic.write(&data).unwrap();
            for encoding in [Encoding::CDR_LE, Encoding::PLAIN_CDR2_LE] {
                let other = to_cdr_with(&remark(4), encoding).unwrap();
                passed.write(&SerializedData::new(&of, other)).unwrap();
            }
            for payload in take(&raw, 4, |sample| sample.payload().to_vec()) {
                assert_eq!(payload, expected, "{level} {list:?}");
            }
            let key = idl_cdr::key_to_cdr_with(&remark(4), encoding(*first)).unwrap();
            compiled.dispose(&remark(4)).unwrap();
            dynamic.unregister_instance(&data).unwrap();
            for encoding in [Encoding::CDR_LE, Encoding::PLAIN_CDR2_LE] {
                let other = idl_cdr::key_to_cdr_with(&remark(4), encoding).unwrap();
                let key = SerializedData::of_key(&of, other);
                passed.register_instance(&key).unwrap();
                passed.unregister_instance(&key).unwrap();
            }
            until("the instance is over", || {
                let over = |sample: &Sample<SerializedData>| sample.data().is_none();
                raw.take(.., Timeout::millis(5)).unwrap().any(|sample| {
                    let is_over = over(&sample);
                    assert!(!is_over || sample.key_value().payload() == key, "{level} {list:?}");
                    is_over
                })
            });
            drop((compiled, dynamic, passed));
            while raw.take_next_data(Timeout::millis(20)).unwrap().is_some() {}
        }
    }
    drop(participant);
    domain.assert_empty();
}

/// Keys, instances and filters do not depend on the representation.
#[test]
fn instance_is_the_same_in_either_representation() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic_of::<Remark>(&participant, "atomic");
    let (dynamic, _) = met::<Remark>(&participant, "atomic");
    let filtered =
        participant.content_filtered_topic("some", &topic, "at >= %0", &["5".into()]).unwrap();
    let reader =
        participant.reader(&topic).reliable_all().representations([Xcdr, Xcdr2]).create().unwrap();
    let some = participant
        .reader(&filtered)
        .reliable_all()
        .representations([Xcdr, Xcdr2])
        .create()
        .unwrap();
    let met = participant
        .reader(&dynamic)
        .reliable_all()
        .representations([Xcdr, Xcdr2])
        .create()
        .unwrap();
    let first = participant.writer(&topic).representation(Xcdr).create().unwrap();
    let second = participant.writer(&topic).representation(Xcdr2).create().unwrap();
    for id in 0..10 {
        first.write(&remark(id)).unwrap();
        second.write(&remark(id)).unwrap();
    }
    let handles =
        take_samples(&reader, 20, |sample| (sample.key_value().id, sample.info().instance_handle));
    for id in 0..10 {
        let of_it: Vec<_> = handles.iter().filter(|(one, _)| *one == id).collect();
        assert_eq!(of_it.len(), 2);
        assert_eq!(of_it[0].1, of_it[1].1, "{id}");
    }
    assert_eq!(take(&some, 10, |sample| sample.id).iter().filter(|id| **id >= 5).count(), 10);
    let texts = take(&met, 20, |sample| sample.to_text());
    assert!(texts.chunks(2).all(|pair| pair[0] == pair[1]), "{texts:?}");
    // One writer disposes the instance of the other.
    second.dispose(&remark(3)).unwrap();
    let over =
        take_samples(&reader, 1, |sample| (sample.info().instance_state, sample.key_value().id));
    assert_eq!(over, [(InstanceState::NotAliveDisposed, 3)]);
    drop((reader, some, met, first, second, filtered, dynamic, topic, participant));
    domain.assert_empty();
}

/// Matching follows from the policies only, whatever the reader could decode.
#[test]
fn reader_of_one_representation_receives_no_sample_of_the_other() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    for level in &LEVELS[..3] {
        let (here, there) = (topic_of::<Remark>(&ours, level), topic_of::<Remark>(&theirs, level));
        let first = ours.writer(&here).representation(Xcdr).create().unwrap();
        let second = ours.writer(&here).representation(Xcdr2).create().unwrap();
        let reader =
            theirs.reader(&there).reliable_all().representations([Xcdr2]).create().unwrap();
        until("it is refused", || reader.requested_incompatible_qos_status().total_count >= 1);
        let status = reader.requested_incompatible_qos_status();
        assert_eq!(status.last_policy_id, Some(PolicyId::DataRepresentation), "{level}");
        let offered = || first.offered_incompatible_qos_status().last_policy_id;
        until("nor is it offered", || offered() == Some(PolicyId::DataRepresentation));
        until("the other is not", || reader.subscription_matched_status().current_count == 1);
        until("nor there", || second.matched_readers() == 1);
        first.write(&remark(1)).unwrap();
        second.write(&remark(2)).unwrap();
        first.write(&remark(3)).unwrap();
        second.write(&remark(4)).unwrap();
        assert_eq!(take(&reader, 2, |sample| sample.id), [2, 4], "{level}");
    }
    drop((ours, theirs));
    domain.assert_empty();
}

/// The offers of writers that are gone are not known: each kept sample contains its
/// representation (I-177).
#[test]
fn kept_samples_of_departed_writers_are_matched_by_representation() {
    let domain = TestDomain::new();
    let logs = tempfile::tempdir().unwrap();
    for level in ["kept", "logged"] {
        let log_owner = logging(&domain, logs.path());
        let held = (topic_of::<Remark>(&log_owner, level), topic_of::<Flat>(&log_owner, level));
        // A participant that keeps a topic takes part in it.
        let parts = (
            log_owner.reader(&held.0).reliable_all().create(),
            log_owner.reader(&held.1).reliable_all().create(),
        );
        {
            let gone = domain.join();
            let topic = topic_of::<Remark>(&gone, level);
            let first = gone.writer(&topic).representation(Xcdr).create().unwrap();
            let second = gone.writer(&topic).representation(Xcdr2).create().unwrap();
            let publisher = gone.publisher().presentation(coherent()).create().unwrap();
            let set = publisher.writer(&topic).representation(Xcdr2).create().unwrap();
            for id in 0..5 {
                first.write(&remark(id)).unwrap();
                second.write(&remark(id + 5)).unwrap();
            }
            publisher.begin_coherent_changes().unwrap();
            (10..13).for_each(|id| set.write(&remark(id)).unwrap());
            publisher.end_coherent_changes().unwrap();
            let flat = topic_of::<Flat>(&gone, level);
            let flat = gone.writer(&flat).representation(Xcdr2).create().unwrap();
            (0..5).for_each(|id| flat.write(&Flat { id, at: 0.5 }).unwrap());
            first.wait_for_acknowledgments(SOON).unwrap();
            second.wait_for_acknowledgments(SOON).unwrap();
            set.wait_for_acknowledgments(SOON).unwrap();
            flat.wait_for_acknowledgments(SOON).unwrap();
        }
        let (log_owner, held, parts) = match level {
            "logged" => {
                drop((parts, held, log_owner));
                let log_owner = logging(&domain, logs.path());
                let held =
                    (topic_of::<Remark>(&log_owner, level), topic_of::<Flat>(&log_owner, level));
                let parts = (
                    log_owner.reader(&held.0).reliable_all().create(),
                    log_owner.reader(&held.1).reliable_all().create(),
                );
                (log_owner, held, parts)
            }
            _ => (log_owner, held, parts),
        };
        let left = |representations: &[DataRepresentationId], count| {
            let reader = log_owner
                .reader(&held.0)
                .reliable_all()
                .representations(representations.iter().copied());
            let reader = reader.create().unwrap();
            reader.wait_for_historical_data(SOON).unwrap();
            let mut ids = take(&reader, count, |sample| {
                assert_eq!(*sample, remark(sample.id));
                sample.id
            });
            ids.sort_unstable();
            ids
        };
        assert!(left(&[Xcdr], 5).into_iter().eq(0..5), "{level}");
        assert!(left(&[Xcdr2], 8).into_iter().eq(5..13), "{level}");
        assert!(left(&[Xcdr2, Xcdr], 13).into_iter().eq(0..13), "{level}");
        // Samples sent as they lie in memory contain no representation: if the writer is not
        // remembered, all readers accept them.
        let of_flat: &[DataRepresentationId] =
            if level == "logged" { &[Xcdr, Xcdr2] } else { &[Xcdr2] };
        for one in of_flat {
            let reader =
                log_owner.reader(&held.1).reliable_all().representations([*one]).create().unwrap();
            reader.wait_for_historical_data(SOON).unwrap();
            assert!(take(&reader, 5, |sample| sample.id).into_iter().eq(0..5), "{level}");
        }
        drop((parts, held, log_owner));
        domain.assert_empty();
    }
}

/// By default a type that may change is sent as XCDR2, because XCDR1 does not mark its end.
#[test]
fn default_representation_follows_from_the_type() {
    let domain = TestDomain::new();
    let participant = domain.join();
    fn found<T: DdsType>(participant: &DomainParticipant, sample: &T) -> CdrVersion {
        let topic = participant.topic::<T>(T::TYPE_NAME).create().unwrap();
        let raw = participant.serialized_topic(T::TYPE_NAME, &DynamicType::of::<T>());
        let raw = raw.create().unwrap();
        let reader = participant.reader(&raw).reliable_all().create().unwrap();
        let writer = participant.writer(&topic).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write(sample).unwrap();
        let found = take(&reader, 1, |sample| version(sample.payload()));
        found[0]
    }
    assert_eq!(found(&participant, &remark(1)), CdrVersion::Xcdr1);
    assert_eq!(found(&participant, &Bytes::from(*b"radar")), CdrVersion::Xcdr1);
    assert_eq!(found(&participant, &Growing::default()), CdrVersion::Xcdr2);
    let around = Around { growing: vec![Growing::default()] };
    assert_eq!(found(&participant, &around), CdrVersion::Xcdr2);
    assert!(DynamicType::of::<Around>().may_change() && !DynamicType::of::<Remark>().may_change());
    // Bytes that are built in place are framed as the writer offers.
    let topic = participant.topic::<Bytes>("Frames").create().unwrap();
    let raw = participant.serialized_topic("Frames", &DynamicType::of::<Bytes>()).create().unwrap();
    let raw = participant.reader(&raw).reliable_all().representations([Xcdr2]).create().unwrap();
    let writer = participant.writer(&topic).representation(Xcdr2).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write_bytes(b"radar").unwrap();
    assert_eq!(take(&raw, 1, |sample| version(sample.payload())), [CdrVersion::Xcdr2]);
}

#[test]
fn xml_representation_is_refused_with_the_reason() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic_of::<Remark>(&participant, "unordered");
    let said = |result: DdsResult<()>| match result {
        Err(DdsError::InconsistentPolicy(why)) => why,
        other => panic!("{other:?}"),
    };
    let told = said(participant.writer(&topic).representation(Xml).create().map(drop));
    assert_eq!(
        told,
        "a writer of `Nav::Remark unordered`: DATA_REPRESENTATION: XML comes first, and a writer \
         uses the first entry, but XML is not supported: begin with Xcdr or Xcdr2"
    );
    let told =
        said(participant.reader(&topic).reliable_all().representations([Xml]).create().map(drop));
    assert!(told.contains("XML is the only entry") && told.contains("add Xcdr"), "{told}");
    assert!(
        participant.reader(&topic).reliable_all().representations([Xml, Xcdr]).create().is_ok()
    );
}
