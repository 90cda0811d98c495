//! Faulty log folders: missing, not a folder, not writable, of another format, removed or without
//! room while they are written. In processes of their own: each reports the error, the position,
//! and a remedy, none ends because of it, and the topic continues or waits according to its policy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Actor, SOON, TestDomain, listen, role, say, until};
use dds_api::infrastructure::LogCondition;
use dds_api::prelude::*;
use rustix::process::{Resource, getrlimit, setrlimit};

/// A sample that fills a file quickly.
#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
struct Block {
    number: u64,
    rest: [u64; 500],
}

fn block(number: u64) -> Block {
    Block { number, rest: [!number; 500] }
}

/// Returns the file that names the log folder of actors.
fn named_in(folder: &Path) -> PathBuf {
    folder.with_file_name("log-folder")
}

fn join(folder: &Path) -> DdsResult<DomainParticipant> {
    let logs = std::fs::read_to_string(named_in(folder)).unwrap();
    let config = ParticipantConfig::new().runtime_dir(folder).log_folder(logs);
    DomainParticipant::with_config(0, config)
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "opens" => match join(&folder) {
            Ok(_) => say("open"),
            Err(error) => say(&error.to_string()),
        },
        "keeps" => act_keeper(&folder, false),
        "detaches" => act_keeper(&folder, true),
        other => panic!("no such role: {other}"),
    }
}

fn blocks(participant: &DomainParticipant, detaches: bool) -> Topic<Block> {
    let topic = participant.topic::<Block>("Blocks").persistent();
    if detaches { topic.detach_full_logs() } else { topic }.create().unwrap()
}

/// Keeps a log of a topic, and obeys orders.
fn act_keeper(folder: &Path, detaches: bool) {
    let participant = join(folder).unwrap();
    let topic = blocks(&participant, detaches);
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).memory(1 << 20).in_flight(64);
    let writer = writer.max_blocking_time(Duration::from_millis(300)).create().unwrap();
    say("here");
    let mut written = 0;
    while let Some(order) = listen() {
        let (word, count) = order.split_once(' ').unwrap_or((&order, "0"));
        let count: u64 = count.parse().unwrap();
        match word {
            "begin" => match reader.wait_for_historical_data(Timeout::millis(count)) {
                Ok(()) => say("begun"),
                Err(error) => say(&format!("not begun: {error}")),
            },
            "write" => {
                let begin = written;
                let held_up = loop {
                    if written == begin + count {
                        break None;
                    }
                    while reader.take_next_data(Timeout::NOW).unwrap().is_some() {}
                    match writer.write(&block(written)) {
                        Ok(()) => written += 1,
                        Err(error) => break Some(error),
                    }
                };
                let why = held_up.map_or(String::new(), |error| format!(": {error}"));
                say(&format!("wrote {}{why}", written - begin));
            }
            "sync" => match writer.wait_for_acknowledgments(Timeout::millis(count)) {
                Ok(()) => say("durable"),
                Err(error) => say(&format!("not durable: {error}")),
            },
            "status" => {
                let status = topic.storage_status().unwrap();
                let log = match status.log {
                    Some(LogCondition::Failed(why)) => format!("failed: {why}"),
                    other => format!("{other:?}"),
                };
                let full = status.full_logs.join(", ");
                say(&format!(
                    "{} logs, {log}{}{full}",
                    status.logs,
                    if full.is_empty() { "" } else { ", full: " }
                ));
            }
            "kept" => {
                let status = topic.storage_status().unwrap();
                say(&format!("{} samples, {} durable", status.samples, status.durable));
            }
            "limit" => {
                let limit = (count > 0).then_some(count);
                let limits = rustix::process::Rlimit {
                    current: limit,
                    maximum: getrlimit(Resource::Fsize).maximum,
                };
                setrlimit(Resource::Fsize, limits).unwrap();
                say("limited");
            }
            _ => break,
        }
    }
    drop((reader, writer, topic, participant));
    say("gone");
}

/// Actors that keep their logs in this folder, whatever it contains.
struct LogFaultSetup {
    domain: TestDomain,
    logs: PathBuf,
}

impl LogFaultSetup {
    fn new() -> LogFaultSetup {
        let domain = TestDomain::new();
        let logs = domain.runtime_dir().with_file_name("logs");
        let setup = LogFaultSetup { domain, logs: logs.clone() };
        setup.keep_in(&logs);
        setup
    }

    fn keep_in(&self, folder: &Path) {
        let text = folder.to_str().unwrap();
        std::fs::write(named_in(&self.domain.runtime_dir()), text).unwrap();
    }

    /// Returns the output of a process that creates a participant, and leaves.
    fn opens(&self) -> String {
        let mut actor = Actor::start(module_path!(), "opens", &self.domain, 0);
        let line = actor.hear();
        actor.finish();
        line
    }

    fn start(&self, role: &str) -> Actor {
        let mut actor = Actor::start(module_path!(), role, &self.domain, 0);
        assert_eq!(actor.hear(), "here");
        actor
    }

    /// Returns the folder of the only process that has kept logs here.
    fn folder(&self) -> PathBuf {
        self.logs.join("domain-0").join("0")
    }

    fn end(self) {
        let _ = std::fs::remove_dir_all(&self.logs);
        self.domain.clean_logs();
        self.domain.assert_empty();
    }
}

fn ask(actor: &mut Actor, what: &str) -> String {
    actor.tell(what);
    actor.hear()
}

fn leave(mut actor: Actor) {
    assert_eq!(ask(&mut actor, "leave"), "gone");
    actor.finish();
}

#[track_caller]
fn assert_contains(said: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(said.contains(word), "no `{word}` in: {said}"));
}

/// Changes a file to another format: its checksum is one that this version does not compute.
fn reformat(file: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[8..12].copy_from_slice(&9_u32.to_le_bytes());
    bytes[12] ^= 0x55;
    std::fs::write(file, &bytes).unwrap();
    bytes
}

#[test]
fn unusable_log_folder_is_refused_with_the_reason() {
    let setup = LogFaultSetup::new();
    let (logs, home) = (setup.logs.clone(), setup.logs.join("domain-0"));
    let (in_words, folder) = (logs.display().to_string(), setup.folder());
    assert_contains(
        &setup.opens(),
        &["no logs can be kept", &in_words, "it is not there", "make it first"],
    );
    std::fs::write(&logs, "a file").unwrap();
    assert_contains(&setup.opens(), &[&in_words, "it is not a folder", "name a folder"]);
    setup.keep_in(&logs.join("below"));
    assert_contains(&setup.opens(), &["logs/below", "it is not a folder"]);
    setup.keep_in(&logs);
    std::fs::remove_file(&logs).unwrap();
    std::fs::create_dir(&logs).unwrap();
    std::fs::write(&home, "a file").unwrap();
    assert_contains(&setup.opens(), &["logs/domain-0: it is not a folder"]);
    std::fs::remove_file(&home).unwrap();
    std::fs::create_dir(&home).unwrap();
    std::fs::write(&folder, "a file").unwrap();
    assert_contains(&setup.opens(), &["logs/domain-0/0: it is not a folder"]);
    std::fs::remove_file(&folder).unwrap();
    assert_eq!(setup.opens(), "open");

    let identity = folder.join("identity");
    let good = std::fs::read(&identity).unwrap();
    let bad = reformat(&identity);
    assert_contains(
        &setup.opens(),
        &["logs/domain-0/0/identity is of format 9", "use the program"],
    );
    assert_eq!(std::fs::read(&identity).unwrap(), bad, "it is left as it is");
    std::fs::write(&identity, &good[..20]).unwrap();
    assert_contains(
        &setup.opens(),
        &["logs/domain-0/0/identity has no valid log header", "restore the file"],
    );
    std::fs::remove_file(&identity).unwrap();
    assert_contains(&setup.opens(), &["logs/domain-0/0 has logs", "identity", "restore this file"]);
    let other = logs.join("domain-1");
    std::fs::write(&identity, &good).unwrap();
    assert_eq!(setup.opens(), "open");
    std::fs::rename(&home, &other).unwrap();
    let config = ParticipantConfig::new().runtime_dir(setup.domain.runtime_dir());
    let refused = DomainParticipant::with_config(1, config.log_folder(&logs)).err().unwrap();
    assert_contains(&refused.to_string(), &["logs/domain-1/0 is of group", "another folder"]);
    setup.end();
}

/// A place where not even root may make a folder.
#[test]
fn read_only_log_folder_is_reported() {
    let setup = LogFaultSetup::new();
    setup.keep_in(Path::new("/sys"));
    assert_contains(&setup.opens(), &["/sys/domain-0", "it is read-only", "name another folder"]);
    setup.end();
}

/// A log of another version is not changed, and no topic begins without it.
#[test]
fn log_of_another_format_stays_unchanged_and_blocks_its_topic() {
    for views in [false, true] {
        let setup = LogFaultSetup::new();
        std::fs::create_dir(&setup.logs).unwrap();
        let mut log_owner = setup.start("keeps");
        assert_eq!(ask(&mut log_owner, "begin 60000"), "begun");
        assert_eq!(ask(&mut log_owner, "write 20"), "wrote 20");
        assert_eq!(ask(&mut log_owner, "sync 60000"), "durable");
        leave(log_owner);
        let files = std::fs::read_dir(setup.folder()).unwrap().map(|file| file.unwrap().path());
        let is_it = |file: &PathBuf| {
            let name = file.file_name().unwrap().to_str().unwrap();
            name.ends_with(".log") && name.starts_with(&"0".repeat(32)) == views
        };
        let file = files.filter(is_it).max().unwrap();
        let bytes = reformat(&file);
        let mut log_owner = setup.start("keeps");
        let why = ["takes nothing more", "format"];
        until("it says so", || ask(&mut log_owner, "status").contains("failed"));
        let said = ask(&mut log_owner, "status");
        match views {
            false => {
                assert_contains(&said, &["logs/domain-0/0/", "is of format 9", "use the program"])
            }
            true => {
                assert_contains(&said, &["log of views", "logs/domain-0/0", "squall log verify"])
            }
        }
        let said = ask(&mut log_owner, "begin 200");
        assert_contains(&said, &["not begun", "waits for", "takes nothing more"]);
        assert!(views || said.contains(why[1]), "{said}");
        leave(log_owner);
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "it is left as it is");
        setup.end();
    }
}

/// Samples written after the removal of the folder are not reported as durable, whatever the
/// topic's policy for full disks. The topic continues without the log, and reports it, until a
/// participant keeps a log again.
#[test]
fn removal_of_a_log_folder_during_writing_is_reported() {
    for role in ["keeps", "detaches"] {
        let setup = LogFaultSetup::new();
        std::fs::create_dir(&setup.logs).unwrap();
        let mut log_owner = setup.start(role);
        assert_eq!(ask(&mut log_owner, "begin 60000"), "begun");
        assert_eq!(ask(&mut log_owner, "write 100"), "wrote 100");
        assert_eq!(ask(&mut log_owner, "sync 60000"), "durable");
        log_owner.tell("write 500");
        std::fs::remove_dir_all(&setup.logs).unwrap();
        assert_eq!(log_owner.hear(), "wrote 500");
        until("it is noticed", || {
            assert_eq!(ask(&mut log_owner, "write 1"), "wrote 1");
            ask(&mut log_owner, "status").starts_with("0 logs, failed")
        });
        let line = ask(&mut log_owner, "status");
        assert_contains(&line, &["logs/domain-0/0", "removed", "restart the process"]);
        let line = ask(&mut log_owner, "sync 100");
        assert_contains(
            &line,
            &[
                "not durable",
                "takes nothing more",
                "removed",
                "No participant keeps",
                "squall store",
            ],
        );
        assert_eq!(ask(&mut log_owner, "write 100"), "wrote 100", "the topic goes on");
        // Another participant keeps a log.
        let (folder, here) = (setup.domain.runtime_dir(), setup.logs.with_file_name("here"));
        std::fs::create_dir(&here).unwrap();
        let config = ParticipantConfig::new().runtime_dir(&folder).log_folder(&here);
        let other = DomainParticipant::with_config(0, config).unwrap();
        let topic = blocks(&other, role == "detaches");
        let reader = other.reader(&topic).reliable_all().create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        until("it keeps a log", || topic.storage_status().is_some_and(|it| it.logs == 1));
        assert_eq!(ask(&mut log_owner, "write 1"), "wrote 1");
        assert_eq!(ask(&mut log_owner, "sync 60000"), "durable");
        leave(log_owner);
        drop((reader, topic, other));
        std::fs::remove_dir_all(here).unwrap();
        setup.end();
    }
}

/// A file that cannot grow is treated like a full disk: the topic waits for room, or continues
/// without the log, according to its policy.
#[test]
fn file_size_limit_is_treated_as_a_full_disk() {
    for (role, shown) in [("keeps", "Some(Full)"), ("detaches", "0 logs, Some(Detached)")] {
        let setup = LogFaultSetup::new();
        std::fs::create_dir(&setup.logs).unwrap();
        let mut log_owner = setup.start(role);
        assert_eq!(ask(&mut log_owner, "begin 60000"), "begun");
        assert_eq!(ask(&mut log_owner, "write 10"), "wrote 10");
        assert_eq!(ask(&mut log_owner, "sync 60000"), "durable");
        assert_eq!(ask(&mut log_owner, "limit 200000"), "limited");
        until("it is full", || {
            assert!(ask(&mut log_owner, "write 20").starts_with("wrote"));
            ask(&mut log_owner, "status").ends_with(shown)
        });
        let line = ask(&mut log_owner, "sync 100");
        if role == "keeps" {
            assert_contains(&line, &["not durable", "waits for room"]);
            // Samples that wait for the log are in memory, up to a limit.
            let line = ask(&mut log_owner, "write 100000");
            assert_contains(&line, &["made room", "waits for room"]);
            assert_eq!(ask(&mut log_owner, "limit 0"), "limited");
            assert_eq!(ask(&mut log_owner, "sync 60000"), "durable");
            assert_eq!(ask(&mut log_owner, "status"), "1 logs, Some(Open)");
        } else {
            assert_contains(&line, &["not durable", "disk was full", "No participant keeps"]);
        }
        assert_eq!(ask(&mut log_owner, "write 100"), "wrote 100", "the topic goes on");
        leave(log_owner);
        setup.end();
    }
}

/// A topic that waits for room in the log of another participant names that log.
#[test]
fn the_full_log_of_another_participant_is_named() {
    let setup = LogFaultSetup::new();
    std::fs::create_dir(&setup.logs).unwrap();
    let mut log_owners = [(); 2].map(|()| setup.start("keeps"));
    for log_owner in &mut log_owners {
        assert_eq!(ask(log_owner, "begin 60000"), "begun");
    }
    let [full, other] = &mut log_owners;
    assert_eq!(ask(full, "write 10"), "wrote 10");
    assert_eq!(ask(full, "sync 60000"), "durable");
    until("both keep logs", || ask(other, "status") == "2 logs, Some(Open)");
    assert_eq!(ask(full, "limit 200000"), "limited");
    until("it is full", || {
        assert!(ask(full, "write 20").starts_with("wrote"));
        ask(full, "status") == "2 logs, Some(Full)"
    });
    let named = |said: &str| said.starts_with("2 logs, Some(Open), full: log ");
    until("the other one names it", || named(&ask(other, "status")));
    let said = ask(other, "status");
    let log = said.split("full: ").nth(1).unwrap();
    assert!(log.contains(" of participant "), "{said}");
    assert_eq!(ask(other, "write 1"), "wrote 1");
    assert_contains(&ask(other, "sync 100"), &["not durable", "waits for room in", log]);
    assert_eq!(ask(full, "limit 0"), "limited");
    until("there is room again", || ask(other, "status") == "2 logs, Some(Open)");
    assert_eq!(ask(other, "sync 60000"), "durable");
    log_owners.into_iter().for_each(leave);
    setup.end();
}

/// Returns the files of topics in a folder.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let is_it = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        name.ends_with(".log") && !name.starts_with(&"0".repeat(32))
    };
    files.filter(is_it).collect()
}

/// Two participants have kept a topic of a number of samples, and both are gone. The second one
/// left last; `more` samples were written after the first one had left.
fn kept_by_two(setup: &LogFaultSetup, more: u64) {
    std::fs::create_dir(&setup.logs).unwrap();
    let mut first = setup.start("keeps");
    assert_eq!(ask(&mut first, "begin 60000"), "begun");
    let mut second = setup.start("keeps");
    assert_eq!(ask(&mut second, "begin 60000"), "begun");
    until("both keep logs", || ask(&mut first, "status") == "2 logs, Some(Open)");
    assert_eq!(ask(&mut first, "write 20"), "wrote 20");
    assert_eq!(ask(&mut first, "sync 60000"), "durable");
    leave(first);
    until("one is gone", || ask(&mut second, "status") == "1 logs, Some(Open)");
    assert_eq!(ask(&mut second, &format!("write {more}")), format!("wrote {more}"));
    assert_eq!(ask(&mut second, "sync 60000"), "durable");
    leave(second);
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).unwrap();
}

/// One of two logs is damaged: it is put aside and completed from the other one, whichever returns
/// first (I-98).
#[test]
fn damaged_log_is_completed_from_the_other_log() {
    for harmed in [0, 1] {
        let setup = LogFaultSetup::new();
        kept_by_two(&setup, 0);
        let folder = setup.logs.join("domain-0").join(harmed.to_string());
        flip(&segments(&folder)[0], 1000);
        let mut first = setup.start("keeps");
        assert_eq!(ask(&mut first, "begin 60000"), "begun");
        let mut second = setup.start("keeps");
        assert_eq!(ask(&mut second, "begin 60000"), "begun");
        until("both keep logs", || ask(&mut first, "status") == "2 logs, Some(Open)");
        until("both keep logs", || ask(&mut second, "status") == "2 logs, Some(Open)");
        assert_eq!(ask(&mut first, "write 1"), "wrote 1");
        assert_eq!(ask(&mut first, "sync 60000"), "durable");
        assert_eq!(ask(&mut first, "kept"), "21 samples, 21 durable");
        leave(first);
        leave(second);
        let aside = |name: &str| name.ends_with(".aside");
        let names = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
        let asides = names.filter(|name| aside(name.to_str().unwrap())).count();
        assert_eq!(asides, 1, "the damaged files are there to be examined");
        setup.end();
    }
}

/// A damaged log with more samples than the other one, or one whose files are gone, is named by all
/// waiting participants.
#[test]
fn damaged_log_that_may_have_more_samples_is_named() {
    for is_gone in [false, true] {
        let setup = LogFaultSetup::new();
        kept_by_two(&setup, 5);
        let file = &segments(&setup.logs.join("domain-0").join("1"))[0];
        match is_gone {
            false => flip(file, 1000),
            true => std::fs::remove_file(file).unwrap(),
        }
        let mut log_owners = [(); 2].map(|()| setup.start("keeps"));
        for log_owner in &mut log_owners {
            until("it is named", || ask(log_owner, "begin 100").contains("which is damaged"));
        }
        let line = ask(&mut log_owners[1], "status");
        assert_contains(
            &line,
            &["0 logs", "Damaged", "domain-0/1", if is_gone { "is gone" } else { "is bad" }],
        );
        log_owners.into_iter().for_each(leave);
        setup.end();
    }
}

/// Processes that keep logs in one root have a folder each.
#[test]
fn processes_with_one_log_root_use_separate_folders() {
    let setup = LogFaultSetup::new();
    std::fs::create_dir(&setup.logs).unwrap();
    let mut log_owners = [(); 3].map(|()| setup.start("keeps"));
    for log_owner in &mut log_owners {
        assert_eq!(ask(log_owner, "begin 60000"), "begun");
        assert_eq!(ask(log_owner, "write 10"), "wrote 10");
        assert_eq!(ask(log_owner, "sync 60000"), "durable");
    }
    until("all keep logs", || ask(&mut log_owners[0], "status") == "3 logs, Some(Open)");
    assert_eq!(std::fs::read_dir(setup.logs.join("domain-0")).unwrap().count(), 3);
    log_owners.into_iter().for_each(leave);
    setup.end();
}
