//! Real-time settings: each takes effect, and refusals of the system are reported.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dds_api::domain::SchedulingClass;
use dds_api::prelude::*;
use support::{CheckedSample, SOON, TestDomain, until};

const ALONE: &str = "SQUALL_TEST_ALONE";

/// Runs a part in a process of its own, as this user or as one without privileges, and returns
/// its output.
fn alone(part: &str, privileged: bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "play", "--nocapture"])
        .env(ALONE, part)
        .env("ALONE_IN", folder.path());
    if !privileged && rustix::process::geteuid().is_root() {
        // The user `nobody`.
        command.uid(65534).gid(65534).current_dir("/");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn play() {
    let Ok(part) = std::env::var(ALONE) else { return };
    let folder = PathBuf::from(std::env::var_os("ALONE_IN").unwrap()).join("run");
    let result = match part.as_str() {
        "cores" => exchange(&folder, config(&folder).engine_cores([0]), || {
            has_begun(|| thread_has("squall-driver", "Cpus_allowed_list") == "0");
        }),
        "no such core" => exchange(&folder, config(&folder).engine_cores([1000]), || {}),
        "beyond all cores" => exchange(&folder, config(&folder).engine_cores([5000]), || {}),
        "fifo" => {
            let config = config(&folder).engine_scheduling(SchedulingClass::Fifo(7));
            exchange(&folder, config, || has_begun(|| scheduled("squall-driver") == (1, 7)))
        }
        "rr" => {
            let config = config(&folder).engine_scheduling(SchedulingClass::RoundRobin(3));
            exchange(&folder, config, || has_begun(|| scheduled("squall-driver") == (2, 3)))
        }
        "priority" => {
            let config = config(&folder).engine_scheduling(SchedulingClass::Fifo(100));
            exchange(&folder, config, || {})
        }
        "log" => {
            let logs = folder.with_file_name("logs");
            std::fs::create_dir(&logs).unwrap();
            let config = config(&folder).log_folder(logs).log_cores([0]);
            let config = config.log_scheduling(SchedulingClass::RoundRobin(2));
            exchange(&folder, config, || {
                has_begun(|| thread_has("squall-log", "Cpus_allowed_list") == "0");
                has_begun(|| scheduled("squall-log") == (2, 2));
                assert_eq!(scheduled("squall-driver").0, 0);
            })
        }
        "locked" => exchange(&folder, config(&folder).lock_memory(true), || {
            assert!(
                of_process("VmLck") >= 1 << 20,
                "the writer's megabyte: {}",
                of_process("VmLck")
            );
        }),
        "not locked" => exchange(&folder, config(&folder), || assert_eq!(of_process("VmLck"), 0)),
        "locked beyond the limit" => {
            let participant =
                DomainParticipant::with_config(0, config(&folder).lock_memory(true)).unwrap();
            let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
            participant.writer(&topic).memory(64 << 20).create().map(drop)
        }
        "huge" => exchange(&folder, config(&folder).huge_pages(true), || {
            until("the kernel has found huge pages", || in_huge_pages() > 0);
        }),
        "polls" => {
            let config = config(&folder).polling(true);
            exchange(&folder, config, || {
                let before = cpu_time("squall-driver");
                std::thread::sleep(Duration::from_millis(500));
                assert!(cpu_time("squall-driver") - before >= 10, "a tenth of a second of a half");
            })
        }
        "sleeps" => exchange(&folder, config(&folder), || {
            let before = cpu_time("squall-driver");
            std::thread::sleep(Duration::from_millis(500));
            assert!(cpu_time("squall-driver") - before <= 5);
        }),
        "profile" => {
            let file = folder.with_file_name("real-time.xml");
            std::fs::write(&file, PROFILE).unwrap();
            let config = config(&folder).qos_files([file]).profile("Flight::Computer");
            exchange(&folder, config, || {
                has_begun(|| thread_has("squall-driver", "Cpus_allowed_list") == "0");
                has_begun(|| scheduled("squall-driver") == (1, 5));
                assert!(of_process("VmLck") > 0);
            })
        }
        other => panic!("no such part: {other}"),
    };
    println!("@{}", result.map_or_else(|error| error.to_string(), |()| "done".to_owned()));
}

const PROFILE: &str = r#"<dds><qos_library name="Flight"><qos_profile name="Computer"><domain_participant_qos><property><value>
    <element><name>squall.engine.cores</name><value>0</value></element>
    <element><name>squall.engine.scheduling</name><value>fifo:5</value></element>
    <element><name>squall.memory.locked</name><value>true</value></element>
    </value></property></domain_participant_qos></qos_profile></qos_library></dds>"#;

fn config(folder: &Path) -> ParticipantConfig {
    ParticipantConfig::new().runtime_dir(folder)
}

/// Sends some samples from a writer to a reader, and then calls the given function.
fn exchange(folder: &Path, config: ParticipantConfig, inspect: impl FnOnce()) -> DdsResult<()> {
    let participant = DomainParticipant::with_config(0, config)?;
    let other = support::join(folder);
    let writer =
        participant.writer(&participant.topic::<CheckedSample>("Marks").create()?).create()?;
    let reader =
        other.reader(&other.topic::<CheckedSample>("Marks").create()?).reliable_all().create()?;
    writer.wait_for_readers(1, SOON)?;
    for number in 0..100 {
        writer.write(&CheckedSample::new(number))?;
        assert_eq!(reader.take_next_data(SOON)?.unwrap().number, number);
    }
    // The other participant's threads must be gone first.
    drop((reader, other));
    until("it is gone", || participant.view().1 == 1);
    inspect();
    Ok(())
}

/// Returns the folders of threads of this name.
fn threads(name: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|it| it.path());
    let is_it = |path: &PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let found: Vec<_> = all.filter(is_it).collect();
    assert!(!found.is_empty(), "there is no thread `{name}`");
    found
}

fn thread_has(name: &str, what: &str) -> String {
    let status = std::fs::read_to_string(threads(name)[0].join("status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_once(':').unwrap().1.trim().to_owned()
}

/// Returns a field of a thread's `stat`, numbered as in proc(5).
fn field(name: &str, number: usize) -> u64 {
    let stat = std::fs::read_to_string(threads(name)[0].join("stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(number - 3).unwrap().parse().unwrap()
}

/// Returns scheduling class and real-time priority.
fn scheduled(name: &str) -> (u64, u64) {
    (field(name, 41), field(name, 40))
}

/// Waits for a thread to have started with its settings.
fn has_begun(has: impl FnMut() -> bool) {
    until("the thread has its settings", has);
}

/// Returns the CPU time in hundredths of a second.
fn cpu_time(name: &str) -> u64 {
    field(name, 14) + field(name, 15)
}

/// Returns the bytes of this process, of one kind.
fn of_process(kind: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(kind)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn in_huge_pages() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let lines = smaps.lines().filter_map(|line| line.strip_prefix("ShmemPmdMapped:"));
    lines.map(|it| it.split_whitespace().next().unwrap().parse::<u64>().unwrap()).sum()
}

fn is_done(part: &str) {
    let said = alone(part, true);
    assert!(said.contains("@done"), "{part}: {said}");
}

/// Runs a part that needs a grant of the system; the text of a refusal is tested separately.
fn is_done_or_refused(part: &str, words: &str) {
    let said = alone(part, true);
    if said.contains(words) {
        println!("skipped: {said}");
        return;
    }
    assert!(said.contains("@done"), "{part}: {said}");
}

fn is_refused(part: &str, words: &[&str]) {
    let said = alone(part, false);
    words.iter().for_each(|word| assert!(said.contains(word), "{part}: `{word}` in {said}"));
}

#[test]
fn driver_thread_is_pinned_to_configured_cores() {
    is_done("cores");
    is_refused(
        "no such core",
        &["out of resources", "engine thread", "[1000]", "this machine has 0"],
    );
    is_refused("beyond all cores", &["bad parameter", "no core 5000"]);
}

#[test]
fn driver_thread_has_configured_scheduling_class() {
    is_done_or_refused("fifo", "CAP_SYS_NICE");
    is_done_or_refused("rr", "CAP_SYS_NICE");
    is_refused(
        "fifo",
        &["out of resources", "SCHED_FIFO with priority 7", "CAP_SYS_NICE", "ulimit -r 7"],
    );
    let said = alone("priority", true);
    assert!(said.contains("priorities go from 1 to 99"), "{said}");
}

#[test]
fn log_thread_has_separate_cores_and_scheduling() {
    is_done_or_refused("log", "CAP_SYS_NICE");
}

#[test]
fn memory_is_locked() {
    is_done_or_refused("locked", "RLIMIT_MEMLOCK");
    is_done("not locked");
    is_refused(
        "locked beyond the limit",
        &["could not be locked", "RLIMIT_MEMLOCK", "CAP_IPC_LOCK"],
    );
}

/// Huge pages are used as far as the kernel grants them.
#[test]
fn memory_lies_in_huge_pages() {
    let of_kernel = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let is = std::fs::read_to_string(of_kernel).unwrap_or_default();
    if ["[never]", "[deny]"].iter().any(|it| is.contains(it)) || is.is_empty() {
        is_refused("huge", &["out of resources", "no huge pages", of_kernel, "advise"]);
        println!("skipped: this kernel gives no huge pages to shared memory ({})", is.trim());
    } else {
        is_done("huge");
    }
}

#[test]
fn driver_thread_polls_or_sleeps_as_configured() {
    is_done("polls");
    is_done("sleeps");
}

#[test]
fn profile_sets_real_time_settings() {
    is_done_or_refused("profile", "CAP_SYS_NICE");
}

/// Values of the configuration take precedence over those of a profile.
#[test]
fn configuration_overrides_profile() {
    let domain = TestDomain::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("polls.xml");
    let text =
        PROFILE.replace("fifo:5", "other").replace("<value>true</value>", "<value>false</value>");
    std::fs::write(&file, text.replace("<value>0</value>", "<value>1000</value>")).unwrap();
    let config = || config(&domain.runtime_dir()).qos_files([&file]).profile("Flight::Computer");
    let refused = DomainParticipant::with_config(0, config()).err().unwrap();
    assert!(matches!(&refused, DdsError::OutOfResources(why) if why.contains("1000")), "{refused}");
    drop(DomainParticipant::with_config(0, config().engine_cores([0])).unwrap());
    domain.assert_empty();
}
