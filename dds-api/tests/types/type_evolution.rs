//! Programs with different versions of a type in one topic: compatible versions communicate, and
//! others are reported as incompatible.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::levels::at_level;
use crate::support::{Actor, PATIENCE, SOON, TestDomain, listen, role, say, until};
use dds_api::prelude::*;
use dds_api::qos::TypeConsistencyEnforcementQosPolicy;
use dds_api::subscription::InstanceState;

/// The earlier version.
mod old {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Nav::Track", extensibility = "appendable")]
    pub(crate) struct Track {
        #[dds(key)]
        pub(crate) id: u32,
        #[dds(bound = 4, try_construct = "trim")]
        pub(crate) name: String,
        #[dds(bound = 2, try_construct = "trim")]
        pub(crate) echoes: Vec<u16>,
    }

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Nav::Pose", extensibility = "mutable")]
    pub(crate) struct Pose {
        #[dds(key, id = 1)]
        pub(crate) id: u32,
        #[dds(id = 2)]
        pub(crate) x: f64,
        #[dds(id = 3)]
        pub(crate) y: f64,
    }
}

/// A version with more members.
mod new {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Nav::Track", extensibility = "appendable")]
    pub(crate) struct Track {
        #[dds(key)]
        pub(crate) id: u32,
        #[dds(bound = 16)]
        pub(crate) name: String,
        #[dds(bound = 5)]
        pub(crate) echoes: Vec<u16>,
        #[dds(default = 7.5)]
        pub(crate) altitude: f64,
    }

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Nav::Pose", extensibility = "mutable")]
    pub(crate) struct Pose {
        #[dds(id = 3)]
        pub(crate) y: f64,
        #[dds(id = 9, default = "new")]
        pub(crate) remark: String,
        #[dds(id = 2)]
        pub(crate) x: f64,
        #[dds(key, id = 1)]
        pub(crate) id: u32,
    }
}

/// A type with only the name in common.
mod wrong {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Nav::Track", extensibility = "appendable")]
    pub(crate) struct Track {
        #[dds(key)]
        pub(crate) id: u32,
        pub(crate) name: u64,
    }
}

const LEVELS: [&str; 4] = ["unordered", "atomic", "kept", "logged"];
const MANY: u32 = 20;

fn topic<T: DdsType>(participant: &DomainParticipant, level: &str) -> Topic<T> {
    at_level(participant.topic::<T>(&format!("{} {level}", T::TYPE_NAME)), level)
}

/// Creates a reader and a writer at each level.
fn ends<T: DdsType>(participant: &DomainParticipant) -> Vec<(DataReader<T>, DataWriter<T>)> {
    let ends = |level: &&str| {
        let topic = topic(participant, level);
        let reader = participant.reader(&topic).reliable_all().create().unwrap();
        let writer = participant.writer(&topic).memory(64 << 10).in_flight(256);
        (reader, writer.max_blocking_time(SOON).create().unwrap())
    };
    LEVELS.iter().map(ends).collect()
}

fn join(folder: &Path, logs: Option<PathBuf>) -> DomainParticipant {
    let mut config = ParticipantConfig::new().runtime_dir(folder);
    if let Some(logs) = logs {
        config = config.log_folder(logs);
    }
    DomainParticipant::with_config(0, config).unwrap()
}

fn take<T: DdsType + Clone>(reader: &DataReader<T>, count: usize) -> Vec<T> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} on {}", all.len(), reader.topic().name());
        all.extend(reader.take_data(.., Timeout::millis(50)).unwrap().map(|sample| sample.clone()));
    }
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none(), "and no more");
    assert_eq!(reader.unreadable_samples(), 0);
    all
}

fn old_track(id: u32) -> old::Track {
    old::Track { id, name: "old".into(), echoes: vec![1] }
}

fn new_track(id: u32) -> new::Track {
    new::Track { id, name: "newer".into(), echoes: vec![1, 2, 3], altitude: 1.5 }
}

/// Returns either sample as the older version reads it.
fn as_old(id: u32) -> old::Track {
    match id < MANY {
        true => old_track(id),
        false => old::Track { id, name: "newe".into(), echoes: vec![1, 2] },
    }
}

/// Returns either sample as the newer version reads it.
fn as_new(id: u32) -> new::Track {
    match id < MANY {
        true => new::Track { id, name: "old".into(), echoes: vec![1], altitude: 7.5 },
        false => new_track(id),
    }
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "newer" => act_newer(&folder),
        "wrong" => act_wrong(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn act_newer(folder: &Path) {
    let participant = join(folder, None);
    let (tracks, poses) = (ends::<new::Track>(&participant), ends::<new::Pose>(&participant));
    for ((tracks, to), (poses, pose_to)) in tracks.iter().zip(&poses) {
        to.wait_for_readers(2, SOON).unwrap();
        pose_to.wait_for_readers(2, SOON).unwrap();
        say("matched");
        listen().unwrap();
        (MANY..2 * MANY).for_each(|id| to.write(&new_track(id)).unwrap());
        pose_to.write(&new::Pose { id: 2, x: 5.0, y: 6.0, remark: "mine".into() }).unwrap();
        let mut got = take(tracks, 2 * MANY as usize);
        got.sort_by_key(|track| track.id);
        assert!(got.into_iter().eq((0..2 * MANY).map(as_new)));
        let mut got = take(poses, 2);
        got.sort_by_key(|pose| pose.id);
        assert_eq!(got[0], new::Pose { id: 1, x: 3.0, y: 4.0, remark: "new".into() });
        assert_eq!(got[1].remark, "mine");
        say("understood");
    }
    while listen().is_some() {}
}

/// Communicates only with itself, in the same topics.
fn act_wrong(folder: &Path) {
    let participant = join(folder, None);
    let ends = ends::<wrong::Track>(&participant);
    for (reader, writer) in &ends {
        writer.wait_for_readers(1, SOON).unwrap();
        until("it knows of the other", || reader.inconsistent_writers() > 0);
        let why = reader.inconsistency().unwrap();
        assert!(why.contains("`Nav::Track.name`"), "{why}");
        (0..5).for_each(|id| writer.write(&wrong::Track { id, name: u64::MAX }).unwrap());
        let got = take(reader, 5);
        assert!(got.iter().all(|track| track.name == u64::MAX), "{got:?}");
    }
    say("spoken");
    while listen().is_some() {}
}

#[test]
fn compatible_versions_exchange_samples_and_others_are_reported() {
    let (domain, logs) = (TestDomain::new(), tempfile::tempdir().unwrap());
    let participant = join(&domain.runtime_dir(), Some(logs.path().to_owned()));
    let (tracks, poses) = (ends::<old::Track>(&participant), ends::<old::Pose>(&participant));
    let mut newer = Actor::start(module_path!(), "newer", &domain, 0);
    for ((tracks, to), (poses, pose_to)) in tracks.iter().zip(&poses) {
        assert_eq!(newer.hear(), "matched");
        to.wait_for_readers(2, SOON).unwrap();
        pose_to.wait_for_readers(2, SOON).unwrap();
        newer.tell("go on");
        (0..MANY).for_each(|id| to.write(&old_track(id)).unwrap());
        pose_to.write(&old::Pose { id: 1, x: 3.0, y: 4.0 }).unwrap();
        let mut got = take(tracks, 2 * MANY as usize);
        got.sort_by_key(|track| track.id);
        assert!(got.into_iter().eq((0..2 * MANY).map(as_old)));
        let mut got = take(poses, 2);
        got.sort_by_key(|pose| pose.id);
        assert_eq!(got[1], old::Pose { id: 2, x: 5.0, y: 6.0 });
        assert_eq!((tracks.inconsistent_writers(), tracks.inconsistency()), (0, None));
        assert_eq!(newer.hear(), "understood");
    }
    let mut wrong = Actor::start(module_path!(), "wrong", &domain, 0);
    assert_eq!(wrong.hear(), "spoken");
    for (reader, writer) in &tracks {
        until("it knows of the wrong one", || reader.inconsistent_writers() > 0);
        let why = reader.inconsistency().unwrap();
        assert!(why.contains("is not assignable to the reader's"), "{why}");
        assert!(
            why.contains(
                "`Nav::Track.name`: a string in the reader's type, uint64 in the writer's"
            ),
            "{why}"
        );
        writer.write(&old_track(99)).unwrap();
        assert_eq!(take(reader, 1), [old_track(99)], "nothing of what the wrong one wrote");
    }
    wrong.finish();
    newer.finish();
    drop((tracks, poses, participant));
    domain.assert_empty();
}

/// A program with a later version that starts when all others are gone reads the samples in
/// the logs.
#[test]
fn later_type_version_reads_samples_logged_by_an_older_version() {
    let (domain, logs) = (TestDomain::new(), tempfile::tempdir().unwrap());
    let before = join(&domain.runtime_dir(), Some(logs.path().to_owned()));
    let writer = before.writer(&topic::<old::Track>(&before, "logged")).create().unwrap();
    (0..MANY).for_each(|id| writer.write(&old_track(id)).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
    drop((writer, before));
    let after = join(&domain.runtime_dir(), Some(logs.path().to_owned()));
    let reader =
        after.reader(&topic::<new::Track>(&after, "logged")).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    assert!(take(&reader, MANY as usize).into_iter().eq((0..MANY).map(as_new)));
    drop((reader, after));
    domain.assert_empty();
}

/// A writer of another type joins, writes and leaves before any participant checks it; its samples
/// are kept, but are not delivered to readers that would misread them.
#[test]
fn kept_samples_of_incompatible_writer_are_not_misread() {
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let kept = topic::<old::Track>(&one, "kept");
    let reader = one.reader(&kept).reliable_all().create().unwrap();
    let stays = two.reader(&topic::<wrong::Track>(&two, "kept")).reliable_all().create().unwrap();
    let writer = two.writer(&topic::<wrong::Track>(&two, "kept")).create().unwrap();
    (0..5).for_each(|id| writer.write(&wrong::Track { id, name: 3 }).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
    drop(writer);
    assert_eq!(take(&stays, 5).len(), 5);
    let late = one.reader(&kept).reliable_all().create().unwrap();
    late.wait_for_historical_data(SOON).unwrap();
    let right = one.writer(&kept).create().unwrap();
    right.write(&old_track(7)).unwrap();
    assert_eq!(take(&reader, 1), [old_track(7)]);
    assert_eq!(take(&late, 1), [old_track(7)]);
    let three = domain.join();
    let newcomer =
        three.reader(&topic::<new::Track>(&three, "kept")).reliable_all().create().unwrap();
    newcomer.wait_for_historical_data(SOON).unwrap();
    assert_eq!(take(&newcomer, 1), [as_new(7)]);
}

/// TYPE_CONSISTENCY_ENFORCEMENT applies to the reader only; an instance is the same one in
/// all versions.
#[test]
fn reader_policy_decides_how_far_types_may_differ() {
    let domain = TestDomain::new();
    let (one, two) = (domain.join(), domain.join());
    let writer = one.writer(&topic::<new::Track>(&one, "unordered")).create().unwrap();
    let of = topic::<old::Track>(&two, "unordered");
    let policy = TypeConsistencyEnforcementQosPolicy::default();
    let lenient = two.reader(&of).reliable_all().type_consistency(policy.clone());
    let lenient = lenient.create().unwrap();
    let narrow =
        TypeConsistencyEnforcementQosPolicy { prevent_type_widening: true, ..policy.clone() };
    let narrow = two.reader(&of).reliable_all().type_consistency(narrow).create().unwrap();
    let bounded = TypeConsistencyEnforcementQosPolicy { ignore_string_bounds: false, ..policy };
    let bounded = two.reader(&of).reliable_all().type_consistency(bounded).create().unwrap();
    for (reader, word) in [(&narrow, "prevent_type_widening"), (&bounded, "characters")] {
        until("it knows of the writer", || reader.inconsistent_writers() == 1);
        let why = reader.inconsistency().unwrap();
        assert!(why.contains(word), "{why}");
        assert_eq!(reader.matched_writers(), 0);
    }
    lenient.wait_for_writers(1, SOON).unwrap();
    assert_eq!(writer.matched_readers(), 1);
    writer.write(&new_track(3)).unwrap();
    writer.dispose(&new_track(3)).unwrap();
    let mut states = Vec::new();
    until("the instance is disposed", || {
        let taken = lenient.take(.., Timeout::from(Duration::from_millis(20))).unwrap();
        states.extend(taken.map(|sample| (sample.key_value().id, sample.info().instance_state)));
        states.last() == Some(&(3, InstanceState::NotAliveDisposed))
    });
}
