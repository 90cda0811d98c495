//! Topics of types that a program was not compiled with, and of types that another program was
//! compiled with differently: every sample is read as it was written, in real processes, at
//! every level.

use std::path::Path;

use crate::levels::{self, LEVELS, at_level};
use crate::support::{Actor, SOON, TestDomain, join, listen, role, say, until};
use dds_api::prelude::*;
use dds_api::subscription::{InstanceState, ReadCondition, States};
use dds_api::types::{DynamicData, DynamicType, TopicData, Value, ValueRef};

/// Defines a plain type, and a sample of it, in a module of this name, with this layout.
macro_rules! fix {
    ($(#[$doc:meta])* $name:ident $(, $layout:meta)?) => {
        $(#[$doc])*
        mod $name {
            use dds_api::prelude::*;

            #[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
            #[dds(name = "Nav::Fix")]
            $(#[$layout])?
            pub(crate) struct Fix {
                pub(crate) quality: u8,
                #[dds(key)]
                pub(crate) id: u32,
                pub(crate) flag: u8,
                pub(crate) at: [Corner; 2],
            }

            #[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
            #[dds(name = "Nav::Corner")]
            $(#[$layout])?
            pub(crate) struct Corner {
                pub(crate) turn: i8,
                pub(crate) x: f64,
                pub(crate) y: f32,
            }

            pub(crate) fn fix(id: u32) -> Fix {
                let corner = |x: f64| Corner { turn: -3, x, y: 0.5 };
                Fix { quality: 9, id, flag: 4, at: [corner(f64::from(id)), corner(-1.5)] }
            }
        }
    };
}

fix! {
    /// The layout chosen by the compiler.
    usual
}
fix! {
    /// The type in the order of declaration.
    declared, repr(C)
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Nav::Track", extensibility = "appendable")]
struct Track {
    #[dds(key)]
    callsign: String,
    altitude: f64,
    echoes: Vec<u16>,
}

const MANY: u32 = 20;

fn ends<T: TopicData>(topic: &Topic<T>, by: &DomainParticipant) -> (DataReader<T>, DataWriter<T>) {
    (by.reader(topic).reliable_all().create().unwrap(), by.writer(topic).create().unwrap())
}

/// Takes the next samples of a reader, and checks that there are no more than the given number.
fn take<T: TopicData, R>(reader: &DataReader<T>, count: usize, of: impl Fn(&T) -> R) -> Vec<R> {
    let all = levels::take(reader, count, of);
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none(), "and no more");
    all
}

fn fix_json(id: u32) -> String {
    let corner = |x: &str| format!("{{\"turn\": -3, \"x\": {x}, \"y\": 0.5}}");
    let (first, second) = (corner(&format!("{id}.0")), corner("-1.5"));
    format!("{{\"quality\": 9, \"id\": {id}, \"flag\": 4, \"at\": [{first}, {second}]}}")
}

fn track(number: u32) -> Track {
    let altitude = f64::from(number) * 100.0;
    Track { callsign: format!("SQL{number}"), altitude, echoes: vec![1, number as u16] }
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "compiled" => act_compiled(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// A program compiled with both types: reports its samples, writes, and reads the samples of the
/// other one.
fn act_compiled(folder: &Path) {
    let participant = join(folder);
    let mut all = Vec::new();
    for level in LEVELS {
        let fixes = at_level(participant.topic::<declared::Fix>(&format!("fix {level}")), level);
        let tracks = at_level(participant.topic::<Track>(&format!("track {level}")), level);
        all.push((ends(&fixes, &participant), ends(&tracks, &participant)));
    }
    say("there");
    // For ordered topics participants are counted, for others readers.
    let Some(readers) = listen() else { return };
    let readers: usize = readers.parse().unwrap();
    for (level, ((fixes, to), (tracks, track_to))) in LEVELS.iter().zip(&all) {
        let readers = if *level == "unordered" { readers } else { 2 };
        to.wait_for_readers(readers, SOON).unwrap();
        track_to.wait_for_readers(readers, SOON).unwrap();
        (0..MANY).for_each(|id| to.write(&declared::fix(id)).unwrap());
        (0..MANY).for_each(|number| track_to.write(&track(number)).unwrap());
        say("written");
        listen().unwrap();
        let mut got = take(fixes, 2 * MANY as usize, |fix| *fix);
        got.sort_by_key(|fix| fix.id);
        assert!(got.into_iter().eq((0..2 * MANY).map(declared::fix)));
        let mut got = take(tracks, 2 * MANY as usize, Clone::clone);
        got.sort_by_key(|track| track.altitude as u64);
        assert!(got.into_iter().eq((0..2 * MANY).map(track)));
        say("read");
        listen().unwrap();
        to.dispose(&declared::fix(7)).unwrap();
    }
    while listen().is_some() {}
}

#[test]
fn program_without_the_type_exchanges_samples_with_compiled_program() {
    let domain = TestDomain::new();
    let mut other = Actor::start(module_path!(), "compiled", &domain, 0);
    assert_eq!(other.hear(), "there");
    let participant = domain.join();
    for level in LEVELS {
        let fixes = participant.find_dynamic_topic(&format!("fix {level}"), SOON).unwrap();
        assert_eq!(fixes.is_atomic(), level != "unordered");
        assert_eq!((fixes.is_kept(), fixes.type_name()), (level == "kept", "Nav::Fix"));
    }
    let all: Vec<_> = LEVELS
        .iter()
        .map(|level| {
            let fixes = participant.find_dynamic_topic(&format!("fix {level}"), SOON).unwrap();
            let raw = participant.find_serialized_topic(&format!("fix {level}"), SOON).unwrap();
            let tracks = participant.find_dynamic_topic(&format!("track {level}"), SOON).unwrap();
            let high = participant
                .content_filtered_topic("high", &tracks, "altitude >= %0", &["1000".into()])
                .unwrap();
            let (fixes, tracks) = (ends(&fixes, &participant), ends(&tracks, &participant));
            let raw = participant.reader(&raw).reliable_all().create().unwrap();
            let high = participant.reader(&high).reliable_all().create().unwrap();
            (fixes, tracks, raw, high)
        })
        .collect();
    other.tell("3");
    for ((fixes, to), (tracks, track_to), raw, high) in &all {
        assert_eq!(other.hear(), "written");
        let of = fixes.topic().dynamic_type();
        let got = take(fixes, MANY as usize, Clone::clone);
        for id in 0..MANY {
            let expected = DynamicData::parse(&of, &fix_json(id)).unwrap();
            assert!(got.contains(&expected), "{id}: {got:?}");
        }
        let got = take(tracks, MANY as usize, |track| track.to_text());
        assert_eq!(got.len(), MANY as usize);
        // Bytes that are forwarded can be read by a program that has the type.
        let raws = take(raw, MANY as usize, Clone::clone);
        let read = |raw: &dds_api::types::SerializedData| {
            dds_api::types::from_cdr::<usual::Fix>(raw.payload()).unwrap()
        };
        let mut read: Vec<_> = raws.iter().map(read).collect();
        read.sort_by_key(|fix| fix.id);
        assert!(read.into_iter().eq((0..MANY).map(usual::fix)));
        assert_eq!(take(high, MANY as usize / 2, |_| ()).len(), MANY as usize / 2);
        // The program also receives its own samples.
        to.wait_for_readers(2, SOON).unwrap();
        track_to.wait_for_readers(2, SOON).unwrap();
        for id in MANY..2 * MANY {
            let mut fix = DynamicData::parse(&fixes.topic().dynamic_type(), &fix_json(0)).unwrap();
            fix.set("id", Value::Unsigned(id.into())).unwrap();
            fix.set("at[0].x", Value::Double(id.into())).unwrap();
            to.write(&fix).unwrap();
            let Track { callsign, altitude, echoes } = track(id);
            let text =
                format!("{{callsign: \"{callsign}\", altitude: {altitude}, echoes: {echoes:?}}}");
            track_to
                .write(&DynamicData::parse(&tracks.topic().dynamic_type(), &text).unwrap())
                .unwrap();
        }
        other.tell("read");
        assert_eq!(other.hear(), "read");
        assert_eq!(take(fixes, MANY as usize, |_| ()).len(), MANY as usize);
        // Instances, by keys that are read from the serialised samples.
        other.tell("dispose");
        let key = DynamicData::parse(&fixes.topic().dynamic_type(), "{id: 7}").unwrap();
        until("the instance is over", || {
            fixes.read_w_condition(.., &ReadCondition::new(States::any())).unwrap();
            fixes.take(.., Timeout::millis(1)).unwrap().any(|sample| {
                let info = sample.info();
                info.instance_state == InstanceState::NotAliveDisposed
                    && matches!(sample.key_value().get("id"), Ok(ValueRef::Unsigned(7)))
                    && fixes.lookup_instance(&key) == Some(info.instance_handle)
            })
        });
    }
    drop(all);
    other.finish();
    drop(participant);
    domain.assert_empty();
}

/// Two builds of one program: the compiler has put the members of a plain type at
/// different offsets.
#[test]
fn values_of_another_memory_layout_are_read_as_written() {
    assert_ne!(
        <usual::Fix as TopicData>::LAYOUT.unwrap().hash(),
        <declared::Fix as TopicData>::LAYOUT.unwrap().hash(),
        "the two are laid out alike: the test shows nothing"
    );
    let domain = TestDomain::new();
    let mut other = Actor::start(module_path!(), "compiled", &domain, 0);
    assert_eq!(other.hear(), "there");
    let participant = domain.join();
    let all: Vec<_> = LEVELS
        .iter()
        .map(|level| {
            let fixes = at_level(participant.topic::<usual::Fix>(&format!("fix {level}")), level);
            let tracks = at_level(participant.topic::<Track>(&format!("track {level}")), level);
            (ends(&fixes, &participant), ends(&tracks, &participant))
        })
        .collect();
    other.tell("2");
    for ((fixes, to), (_, track_to)) in &all {
        assert_eq!(other.hear(), "written");
        let mut got = take(fixes, MANY as usize, |fix| *fix);
        got.sort_by_key(|fix| fix.id);
        assert!(got.into_iter().eq((0..MANY).map(usual::fix)));
        to.wait_for_readers(2, SOON).unwrap();
        track_to.wait_for_readers(2, SOON).unwrap();
        (MANY..2 * MANY).for_each(|id| to.write(&usual::fix(id)).unwrap());
        (MANY..2 * MANY).for_each(|number| track_to.write(&track(number)).unwrap());
        other.tell("read");
        assert_eq!(other.hear(), "read");
        assert!(
            take(fixes, MANY as usize, |fix| *fix).into_iter().eq((MANY..2 * MANY).map(usual::fix))
        );
        other.tell("dispose");
    }
    drop(all);
    other.finish();
    drop(participant);
    domain.assert_empty();
}

/// The program builds the type, and no other participant exists.
#[test]
fn run_time_type_works_like_a_compiled_type() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let of = DynamicType::of::<Track>();
    let topic =
        participant.dynamic_topic("Tracks", &of).transient_local().keep_all().create().unwrap();
    let (reader, writer) = ends(&topic, &participant);
    let same = participant.topic::<Track>("Tracks").transient_local().keep_all().create().unwrap();
    let compiled = participant.reader(&same).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let mut one = DynamicData::new(&of);
    one.set("callsign", Value::Text("SQL7".to_owned())).unwrap();
    writer.write(&one).unwrap();
    one.set("altitude", Value::Double(70.0)).unwrap();
    writer.write(&one).unwrap();
    assert_eq!(compiled.take_next_data(SOON).unwrap().unwrap().callsign, "SQL7");
    let low =
        ReadCondition::query_in(&topic, States::any(), "altitude < 100 ORDER BY altitude", &[]);
    let low = low.unwrap();
    until("both are there", || reader.read_w_condition(.., &low).unwrap().len() == 2);
    let found = reader.take_w_condition(.., &low).unwrap();
    assert_eq!((found[1].data(), found.len()), (Some(&one), 2));
    let error = ReadCondition::<DynamicData>::query_in(&topic, States::any(), "speed < 1", &[]);
    assert!(error.err().unwrap().to_string().contains("has no member `speed`"));
    let nobody = participant.find_dynamic_topic("Nothing", Timeout::millis(10)).err().unwrap();
    assert!(matches!(nobody, DdsError::Timeout(_)), "{nobody}");
    let announced = participant.announced_topics();
    assert_eq!(announced.len(), 1);
    let announced = &announced[0];
    assert_eq!((announced.writers(), announced.readers()), (1, 2));
    assert_eq!((announced.name(), announced.type_name()), ("Tracks", "Nav::Track"));
    drop((found, reader, writer, compiled, topic, same, participant));
    domain.assert_empty();
}

/// Kept samples outlive their writer, and so does the information about their memory layout.
#[test]
fn program_without_the_type_reads_kept_samples_of_departed_writer() {
    let domain = TestDomain::new();
    let holder = domain.join();
    let mut other = Actor::start(module_path!(), "compiled", &domain, 0);
    assert_eq!(other.hear(), "there");
    let found = holder.find_serialized_topic("fix kept", SOON).unwrap();
    let raw = holder.reader(&found).reliable_all().create().unwrap();
    raw.wait_for_historical_data(SOON).unwrap();
    let writer = {
        let participant = domain.join();
        let topic = at_level(participant.topic::<usual::Fix>("fix kept"), "kept");
        let writer = participant.writer(&topic).create().unwrap();
        writer.wait_for_readers(2, SOON).unwrap();
        (0..MANY).for_each(|id| writer.write(&usual::fix(id)).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
        writer
    };
    assert_eq!(take(&raw, MANY as usize, |_| ()).len(), MANY as usize);
    drop(writer);
    other.finish();
    let late = domain.join();
    let topic = late.find_dynamic_topic("fix kept", SOON).unwrap();
    let reader = late.reader(&topic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    let got = take(&reader, MANY as usize, Clone::clone);
    let of = topic.dynamic_type();
    assert!(
        got.iter().eq((0..MANY)
            .map(|id| DynamicData::parse(&of, &fix_json(id)).unwrap())
            .collect::<Vec<_>>()
            .iter())
    );
    drop((reader, topic, late, raw, found, holder));
    domain.assert_empty();
}
