//! Types of several hundred members, whose descriptions need many messages: their versions are
//! compatible like those of short types, and a program without the types reads them.

use std::path::Path;

use crate::levels::{LEVELS, at_level, take};
use crate::support::{Actor, SOON, TestDomain, join, listen, role, say, seed, until};
use dds_api::prelude::*;
use dds_api::types::{DynamicType, MemberOptions, StructBuilder, ValueRef, to_cdr};
use idl_xtypes::ObjectKind;

/// Defines forty types of sixteen members each.
macro_rules! sections {
    ($($name:ident)*) => {
        $(
            #[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
            #[dds(nested)]
            pub(crate) struct $name {
                outside_temperature: f64,
                static_pressure: f64,
                dynamic_pressure: f64,
                angle_of_attack: f64,
                angle_of_sideslip: f64,
                indicated_airspeed: f64,
                true_airspeed: f64,
                mach_number: f64,
                pressure_altitude: f64,
                density_altitude: f64,
                vertical_speed: f64,
                ground_speed: f64,
                track_angle: f64,
                drift_angle: f64,
                wind_speed: f64,
                wind_direction: f64,
            }
        )*

        /// The earlier version.
        #[allow(non_snake_case, reason = "a macro makes no names")]
        mod old {
            use dds_api::prelude::*;

            #[derive(DdsType, Clone, Debug, Default, PartialEq)]
            #[dds(name = "Air::Report", extensibility = "appendable")]
            pub(crate) struct Report {
                #[dds(key)]
                pub(crate) id: u32,
                $(pub(crate) $name: super::$name,)*
            }
        }

        /// A version with more members.
        #[allow(non_snake_case, reason = "a macro makes no names")]
        mod new {
            use dds_api::prelude::*;

            #[derive(DdsType, Clone, Debug, Default, PartialEq)]
            #[dds(name = "Air::Report", extensibility = "appendable")]
            pub(crate) struct Report {
                #[dds(key)]
                pub(crate) id: u32,
                $(pub(crate) $name: super::$name,)*
                #[dds(default = "none")]
                pub(crate) remark: String,
            }
        }
    };
}

sections! {
    P0 P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P13 P14 P15 P16 P17 P18 P19
    P20 P21 P22 P23 P24 P25 P26 P27 P28 P29 P30 P31 P32 P33 P34 P35 P36 P37 P38 P39
}

fn ends<T: DdsType>(by: &DomainParticipant) -> Vec<(DataReader<T>, DataWriter<T>)> {
    let of_level = |level: &&str| {
        let topic = at_level(by.topic::<T>(&format!("Reports {level}")), level);
        (by.reader(&topic).reliable_all().create().unwrap(), by.writer(&topic).create().unwrap())
    };
    LEVELS.iter().map(of_level).collect()
}

fn section(id: u32) -> P39 {
    P39 { wind_direction: f64::from(id), ..P39::default() }
}

fn old_report(id: u32) -> old::Report {
    old::Report { id, P39: section(id), ..old::Report::default() }
}

fn new_report(id: u32, remark: &str) -> new::Report {
    new::Report { id, P39: section(id), remark: remark.to_owned(), ..new::Report::default() }
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "newer" => act_newer(&folder),
        "looker" => act_looker(&folder),
        "endless" => act_endless(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn act_newer(folder: &Path) {
    let participant = join(folder);
    for (reader, writer) in ends::<new::Report>(&participant) {
        writer.wait_for_readers(2, SOON).unwrap();
        say("matched");
        listen().unwrap();
        writer.write(&new_report(2, "mine")).unwrap();
        let mut got = take(&reader, 2, Clone::clone);
        got.sort_by_key(|report| report.id);
        assert_eq!(got, [new_report(1, "none"), new_report(2, "mine")]);
        say("understood");
        listen().unwrap();
    }
    while listen().is_some() {}
}

/// Joins late, and uses neither version itself: it receives the type with the others' state,
/// including the names of all members.
fn act_looker(folder: &Path) {
    let participant = join(folder);
    let name = format!("Reports {}", LEVELS[seed() as usize]);
    let found = participant.find_dynamic_topic(&name, SOON).unwrap();
    assert_eq!(found.dynamic_type().named_types().len(), 41);
    let reader = participant.reader(&found).reliable_all().create().unwrap();
    reader.wait_for_writers(2, SOON).unwrap();
    say("there");
    until("it is there", || {
        reader.take_data(.., Timeout::millis(20)).unwrap().any(|sample| {
            matches!(sample.get("P39.wind_direction"), Ok(ValueRef::Double(3.0)))
                && matches!(sample.get("id"), Ok(ValueRef::Unsigned(3)))
        })
    });
    say("seen");
    while listen().is_some() {}
}

#[test]
fn versions_of_a_type_with_hundreds_of_members_are_compatible() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let ours = ends::<old::Report>(&participant);
    let mut newer = Actor::start(module_path!(), "newer", &domain, 0);
    for (at, (reader, writer)) in ours.iter().enumerate() {
        assert_eq!(newer.hear(), "matched");
        writer.wait_for_readers(2, SOON).unwrap();
        newer.tell("go on");
        writer.write(&old_report(1)).unwrap();
        assert_eq!(newer.hear(), "understood");
        let mut got = take(reader, 2, Clone::clone);
        got.sort_by_key(|report| report.id);
        assert_eq!(got, [old_report(1), old_report(2)]);
        assert_eq!((reader.inconsistent_writers(), reader.inconsistency()), (0, None));
        let mut looker = Actor::start(module_path!(), "looker", &domain, at as u64);
        assert_eq!(looker.hear(), "there");
        writer.wait_for_readers(3, SOON).unwrap();
        writer.write(&old_report(3)).unwrap();
        assert_eq!(looker.hear(), "seen");
        take(reader, 1, |_| ());
        looker.finish();
        newer.tell("go on");
    }
    newer.finish();
    drop((ours, participant));
    domain.assert_empty();
}

/// Returns a type whose type objects exceed the maximum size of an announcement.
fn endless(members: u32, more: bool) -> DynamicType {
    let number = DynamicType::of::<f64>();
    let key = MemberOptions { key: true, ..MemberOptions::default() };
    let mut of = StructBuilder::new("Endless", dds_api::types::Extensibility::Appendable).member(
        "id",
        &DynamicType::of::<u32>(),
        key,
    );
    for n in 0..members + u32::from(more) {
        of = of.member(&format!("m{n}"), &number, MemberOptions::default());
    }
    of.build().unwrap()
}

/// Writes both versions of a type with a number of members.
fn act_endless(folder: &Path) {
    let participant = join(folder);
    let writer = |more| {
        let of = endless(seed() as u32, more);
        let topic = participant.dynamic_topic("Endless", &of).create().unwrap();
        participant.writer(&topic).create().unwrap()
    };
    let _writers = [false, true].map(writer);
    say("there");
    while listen().is_some() {}
}

/// Returns the message of a reader of the old version about a writer of the new one, and checks
/// that the reader matches a writer of its own version.
fn versions_of(members: u32) -> Option<String> {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.dynamic_topic("Endless", &endless(members, false)).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let mut other = Actor::start(module_path!(), "endless", &domain, members.into());
    assert_eq!(other.hear(), "there");
    until("both are known", || reader.inconsistent_writers() + reader.matched_writers() == 2);
    let why = reader.inconsistency();
    assert_eq!(reader.matched_writers(), if why.is_none() { 2 } else { 1 });
    other.finish();
    why
}

#[test]
fn type_too_long_to_be_announced_matches_only_its_own_version() {
    assert_eq!(versions_of(5000), None);
    // With the names of its members this type is too long, so it is announced without them.
    let of = endless(11_000, true);
    let length = |kind| to_cdr(&of.objects(kind)).unwrap().len();
    let (whole, least) = (length(ObjectKind::Complete), length(ObjectKind::Minimal));
    assert!(least < 250 << 10 && whole > 256 << 10, "{least}, {whole}");
    assert_eq!(versions_of(11_000), None);
    let why = versions_of(20_000).unwrap();
    assert!(why.contains("256 KiB"), "{why}");
}
