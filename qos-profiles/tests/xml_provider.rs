//! Sources of profiles: files, texts, lists, the environment; reading again; the
//! ready-made profiles.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use qos_profiles::xml::{DeliveryLevel, QosProvider};
use qos_profiles::{
    DurabilityQosPolicyKind, Duration, EntityKind, HistoryQosPolicyKind, Offered,
    OwnershipQosPolicyKind, ReliabilityQosPolicyKind, Requested, incompatible,
};

fn text(depth: u32) -> String {
    support::file(EntityKind::DataWriter, &format!("<history><depth>{depth}</depth></history>"))
}

fn depth(provider: &QosProvider) -> u32 {
    provider.datawriter_qos("L::P").unwrap().history.depth
}

#[test]
fn provider_reads_files_texts_and_uri_lists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a;b c.xml");
    std::fs::write(&path, text(7)).unwrap();
    assert_eq!(depth(&QosProvider::from_file(&path).unwrap()), 7);
    assert_eq!(depth(&QosProvider::from_str(&text(8)).unwrap()), 8);
    let path = folder.path().join("b.xml");
    std::fs::write(&path, text(9)).unwrap();
    let list = format!(
        "str://\"<dds><qos_profile name='Q' base_name='L::P'/></dds>\";file://{}",
        path.display()
    );
    let provider = QosProvider::from_uri_list(&list).unwrap();
    assert_eq!(provider.datawriter_qos("Q").unwrap().history.depth, 9);

    let told = |list: &str| QosProvider::from_uri_list(list).unwrap_err().to_string();
    assert_eq!(
        told("file:///nowhere/at/all.xml"),
        "/nowhere/at/all.xml: cannot be read (No such file or directory (os error 2)); expected a file that can be read"
    );
    assert_eq!(
        told("ftp://a"),
        "the list of files: found `ftp://a`: `ftp://` is not supported; expected `file://` or `str://`; expected paths of files, separated by `;`"
    );
    // Errors in several files are reported in one run, each with its file name.
    let other = folder.path().join("c.xml");
    std::fs::write(&other, "<dds>\n<y/>\n</dds>").unwrap();
    let list = format!("str://\"<dds><x/></dds>\";{};/nowhere;{}", other.display(), path.display());
    let errors = QosProvider::from_uri_list(&list).unwrap_err();
    let places: Vec<String> = errors.errors().iter().map(|error| error.place.to_string()).collect();
    assert_eq!(
        places,
        ["str:1:1:6".to_owned(), format!("{}:2:1", other.display()), "/nowhere".to_owned()]
    );
    let error = &errors.errors()[1];
    // A base that may be in the unread part of a file is not reported as missing.
    let list = "str://\"<dds><qos_library name='L'></dds>\";str://\"<dds><qos_profile name='Q' base_name='L::P'/></dds>\"";
    assert_eq!(QosProvider::from_uri_list(list).unwrap_err().errors().len(), 1);
    assert_eq!(
        told("/nowhere;str://\"<dds><qos_profile name='Q' base_name='L::P'/></dds>\"")
            .lines()
            .count(),
        1
    );
    assert_eq!(
        (error.place.file(), error.place.line(), error.place.column()),
        (other.to_str().unwrap(), 2, 1)
    );
}

#[test]
fn reload_replaces_profiles_or_keeps_previous_on_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.xml");
    std::fs::write(&path, text(1)).unwrap();
    let provider = QosProvider::from_file(&path).unwrap();
    std::fs::write(&path, text(2)).unwrap();
    assert_eq!(depth(&provider), 1);
    provider.reload().unwrap();
    assert_eq!(depth(&provider), 2);
    std::fs::write(&path, text(3).replace("</dds>", "")).unwrap();
    assert_eq!(provider.reload().unwrap_err().errors().len(), 1);
    assert_eq!(depth(&provider), 2);
    std::fs::remove_file(&path).unwrap();
    assert!(provider.reload().is_err());
    assert_eq!(depth(&provider), 2);
}

#[test]
fn lookup_during_reload_sees_consistent_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.xml");
    // All values of one version of the file are the same number.
    let state = |number: u32| {
        support::file(
            EntityKind::DataWriter,
            &format!(
                "<history><depth>{number}</depth></history><ownership_strength><value>{number}</value></ownership_strength>"
            ),
        )
    };
    std::fs::write(&path, state(1)).unwrap();
    let provider = QosProvider::from_file(&path).unwrap();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !end.load(Relaxed) {
                    let writer = provider.datawriter_qos("L::P").unwrap();
                    assert_eq!(
                        writer.history.depth,
                        u32::try_from(writer.ownership_strength.value).unwrap()
                    );
                }
            });
        }
        for number in 2..60 {
            let new = folder.path().join("new.xml");
            std::fs::write(&new, state(number)).unwrap();
            std::fs::rename(&new, &path).unwrap();
            provider.reload().unwrap();
        }
        end.store(true, Relaxed);
    });
    assert_eq!(depth(&provider), 59);
}

/// Runs one of the tests below, which are otherwise ignored, in a process with its own environment
/// and working folder.
#[track_caller]
fn in_process(test: &str, folder: &Path, files: Option<&str>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test]).current_dir(folder).env_remove("SQUALL_QOS_FILES");
    if let Some(files) = files {
        command.env("SQUALL_QOS_FILES", files);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn the_environment_and_the_working_folder_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    in_process("nothing_there", folder.path(), None);
    std::fs::write(folder.path().join("SQUALL_QOS_PROFILES.xml"), text(5)).unwrap();
    in_process("default_file_there", folder.path(), None);
    in_process("default_file_there", folder.path(), Some("SQUALL_QOS_PROFILES.xml"));
    std::fs::write(
        folder.path().join("b.xml"),
        "<dds><qos_profile name=\"Q\" base_name=\"L::P\"/></dds>",
    )
    .unwrap();
    in_process("both_there", folder.path(), Some("file://b.xml"));
    in_process("a_file_missing", folder.path(), Some("b.xml;c.xml"));
    in_process("a_wrong_list", folder.path(), Some("http://b.xml"));
}

#[test]
fn a_setuid_program_looks_at_neither() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    std::fs::write(folder.path().join("SQUALL_QOS_PROFILES.xml"), text(5)).unwrap();
    let program = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    if chown(&program, Some(65534), None).is_err() {
        return eprintln!("skipped: only root can give a program to another user");
    }
    open(&program, 0o4755);
    let mut command = Command::new(&program);
    command.args(["--ignored", "--exact", "ready_made_alone"]).current_dir(folder.path());
    command.env("SQUALL_QOS_FILES", "http://nowhere");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "a part of a_setuid_program_looks_at_neither"]
fn ready_made_alone() {
    let provider = QosProvider::from_environment().unwrap();
    assert!(provider.profile("Squall::Atomic").is_ok() && provider.profile("L::P").is_err());
}

#[test]
#[ignore = "a part of the_environment_and_the_working_folder_are_looked_at"]
fn nothing_there() {
    let provider = QosProvider::from_environment().unwrap();
    assert!(provider.profile("Squall::Atomic").is_ok());
    // A file that appears later is read on reload.
    std::fs::write("SQUALL_QOS_PROFILES.xml", text(5)).unwrap();
    provider.reload().unwrap();
    assert_eq!(depth(&provider), 5);
    std::fs::remove_file("SQUALL_QOS_PROFILES.xml").unwrap();
}

#[test]
#[ignore = "a part of the_environment_and_the_working_folder_are_looked_at"]
fn default_file_there() {
    assert_eq!(depth(&QosProvider::from_environment().unwrap()), 5);
}

#[test]
#[ignore = "a part of the_environment_and_the_working_folder_are_looked_at"]
fn both_there() {
    let provider = QosProvider::from_environment().unwrap();
    assert_eq!(provider.datawriter_qos("Q").unwrap().history.depth, 5);
}

#[test]
#[ignore = "a part of the_environment_and_the_working_folder_are_looked_at"]
fn a_file_missing() {
    let error = QosProvider::from_environment().unwrap_err().to_string();
    assert!(error.starts_with("c.xml: cannot be read"), "{error}");
}

#[test]
#[ignore = "a part of the_environment_and_the_working_folder_are_looked_at"]
fn a_wrong_list() {
    let error = QosProvider::from_environment().unwrap_err().to_string();
    assert!(error.starts_with("SQUALL_QOS_FILES: found `http://b.xml`"), "{error}");
}

#[test]
fn ready_made_profiles_have_expected_values() {
    use DeliveryLevel::*;
    let provider = QosProvider::from_str("<dds/>").unwrap();
    assert!(provider.ignored().is_empty() && provider.default_profile().is_none());
    let millis = Duration::from_millis;
    let rows = [
        // Profile, level, number of kept samples; further values are checked below.
        ("Squall::Atomic", Atomic, None),
        ("Squall::Kept", Kept, None),
        ("Squall::Latency", Unordered, Some(1)),
        ("Squall::Logged", Logged, None),
        ("Squall::Throughput", Atomic, None),
        ("Squall::Unordered", Unordered, None),
        ("SquallAvionics::Alarm", Kept, None),
        ("SquallAvionics::Command", Atomic, None),
        ("SquallAvionics::Event", Atomic, None),
        ("SquallAvionics::FlightRecorder", Logged, None),
        ("SquallAvionics::Parameter", Kept, Some(1)),
        ("SquallAvionics::PeriodicState", Unordered, Some(1)),
    ];
    let mut names = provider.profile_names();
    names.sort();
    assert_eq!(names, rows.map(|(name, ..)| name));
    for (name, level, kept) in rows {
        for kind in [EntityKind::Topic, EntityKind::DataWriter, EntityKind::DataReader] {
            assert_eq!(
                provider.entity(kind, name, None).unwrap().level(),
                Some(level),
                "{name} {kind:?}"
            );
        }
        let (topic, writer) =
            (provider.topic_qos(name).unwrap(), provider.datawriter_qos(name).unwrap());
        let reader = provider.datareader_qos(name).unwrap();
        // A topic's HISTORY determines the samples kept in memory for late joiners.
        let last = HistoryQosPolicyKind::KeepLast;
        let last_is_kept = (topic.history.kind, topic.history.depth) == (last, 1);
        assert_eq!(last_is_kept, level == Kept || kept == Some(1), "{name}");
        for history in [&writer.history, &reader.history] {
            let own = (history.kind == HistoryQosPolicyKind::KeepLast).then_some(history.depth);
            assert_eq!(own, kept, "{name}");
        }
        // A topic gives the offer of its writers.
        assert_eq!(
            (
                &topic.durability,
                &topic.durability_service,
                &topic.deadline,
                &topic.latency_budget,
                &topic.liveliness
            ),
            (
                &writer.durability,
                &writer.durability_service,
                &writer.deadline,
                &writer.latency_budget,
                &writer.liveliness
            ),
            "{name}"
        );
        assert_eq!(
            (&topic.ownership, &topic.lifespan, &topic.transport_priority, topic.reliability.kind),
            (
                &writer.ownership,
                &writer.lifespan,
                &writer.transport_priority,
                writer.reliability.kind
            ),
            "{name}"
        );
        // Its writers and readers match, and its XML form is read back as the same profile.
        let (publisher, subscriber) =
            (provider.publisher_qos(name).unwrap(), provider.subscriber_qos(name).unwrap());
        let offered = Offered { writer: &writer, publisher: &publisher };
        let requested = Requested { reader: &reader, subscriber: &subscriber };
        assert_eq!(incompatible(&offered, &requested), [], "{name}");
        let xml = provider.profile(name).unwrap().to_xml().replace("name=\"Squall", "name=\"Own");
        let own = support::provider(&xml).datawriter_qos(&name.replace("Squall", "Own")).unwrap();
        assert_eq!(own, writer);
    }
    let writer = |name: &str| provider.datawriter_qos(name).unwrap();
    let throughput = writer("Squall::Throughput");
    assert_eq!(throughput.latency_budget.duration, millis(10));
    assert_eq!(throughput.reliability.max_blocking_time, Duration::from_secs(1));
    let latency = writer("Squall::Latency");
    assert_eq!(
        (latency.latency_budget.duration, latency.transport_priority.value),
        (Duration::ZERO, 10)
    );
    assert_eq!(latency.reliability.max_blocking_time, millis(10));
    assert_eq!(latency.reliability.kind, ReliabilityQosPolicyKind::Reliable);
    assert_eq!(
        writer("Squall::Kept").durability_service.history_kind,
        HistoryQosPolicyKind::KeepLast
    );
    assert_eq!(
        writer("Squall::Logged").durability_service.history_kind,
        HistoryQosPolicyKind::KeepAll
    );
    let state = writer("SquallAvionics::PeriodicState");
    assert_eq!(state.reliability.kind, ReliabilityQosPolicyKind::BestEffort);
    assert_eq!(
        (state.deadline.period, state.lifespan.duration, state.liveliness.lease_duration),
        (millis(100), millis(200), millis(300))
    );
    assert_eq!(state.ownership.kind, OwnershipQosPolicyKind::Exclusive);
    let alarm = writer("SquallAvionics::Alarm");
    assert_eq!(alarm.durability.kind, DurabilityQosPolicyKind::TransientLocal);
    assert_eq!((alarm.transport_priority.value, alarm.durability_service.history_depth), (100, 1));
    assert!(!alarm.writer_data_lifecycle.autodispose_unregistered_instances);
    let command = writer("SquallAvionics::Command");
    assert_eq!(
        (command.lifespan.duration, command.ownership.kind),
        (Duration::from_secs(1), OwnershipQosPolicyKind::Exclusive)
    );
    assert!(
        !writer("SquallAvionics::Parameter")
            .writer_data_lifecycle
            .autodispose_unregistered_instances
    );
    let recorder = writer("SquallAvionics::FlightRecorder");
    assert_eq!(recorder.reliability.max_blocking_time, Duration::from_secs(1));
    assert_eq!(recorder.durability_service.history_kind, HistoryQosPolicyKind::KeepAll);
}

#[test]
fn each_ready_made_profile_is_explained_in_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        all += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    for name in QosProvider::from_str("<dds/>").unwrap().profile_names() {
        let (library, profile) = name.split_once("::").unwrap();
        assert!(all.contains(&format!("<qos_profile name=\"{profile}\"")), "{name} is in no file");
        let explained = |text: &str| {
            all.contains(&format!("\n    {text}  ")) || all.contains(&format!("\n    {text}:"))
        };
        assert!(
            explained(profile) || explained(&format!("{library}::{profile}")),
            "{name} is not explained"
        );
    }
}
