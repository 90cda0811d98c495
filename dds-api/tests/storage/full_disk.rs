//! Logs on a full file system: the topic waits for room and continues when there is some, or
//! continues without the log. The tests use a small file system of their own, which only root can
//! mount; without root they report this and do nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, SOON, TestDomain, until};
use dds_api::infrastructure::LogCondition;
use dds_api::prelude::*;

/// A sample that fills a disk quickly.
#[derive(DdsType, Clone, Copy, Debug, PartialEq)]
struct Block {
    number: u64,
    /// Non-zero data: a file system may omit zeros.
    rest: [u64; 2000],
}

fn block(number: u64) -> Block {
    Block { number, rest: [!number; 2000] }
}

/// A file system of some MiB, mounted while this value exists.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path) -> Option<SmallDisk> {
        let at = folder.parent().unwrap_or(folder).join("small disk");
        std::fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(&at).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(at)),
            why => {
                eprintln!("NOT TESTED: no file system can be mounted here: {why:?}");
                std::fs::remove_dir(&at).unwrap();
                None
            }
        }
    }

    /// Fills all free space.
    fn fill(&self) {
        let mut filler = std::fs::File::create(self.0.join("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[7; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A process that another test starts at this moment has inherited open files until it
        // executes its program.
        let begun = Instant::now();
        let umount = || Command::new("umount").arg(&self.0).status().unwrap().success();
        while !umount() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_gone = !std::fs::read_to_string("/proc/mounts")
            .unwrap()
            .contains(&self.0.to_string_lossy().replace(' ', "\\040"));
        assert!(is_gone || std::thread::panicking(), "{:?} stays", self.0);
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn join(folder: &Path, disk: &SmallDisk) -> DomainParticipant {
    let config = ParticipantConfig::new().runtime_dir(folder).log_folder(&disk.0);
    DomainParticipant::with_config(0, config).unwrap()
}

fn log_of(topic: &Topic<Block>) -> Option<LogCondition> {
    topic.storage_status().and_then(|status| status.log)
}

/// Writes until it is blocked, or up to a maximum, and takes the samples. Returns the
/// number written.
fn write_on(
    (writer, reader): (&DataWriter<Block>, &DataReader<Block>),
    from: u64,
    most: u64,
) -> u64 {
    for number in from..from + most {
        while reader.take_next_data(Timeout::NOW).unwrap().is_some() {}
        match writer.write(&block(number)) {
            Ok(()) => {}
            Err(DdsError::Timeout(_)) => return number - from,
            Err(other) => panic!("{other}"),
        }
    }
    most
}

fn writer_of(participant: &DomainParticipant, topic: &Topic<Block>) -> DataWriter<Block> {
    let writer = participant.writer(topic).memory(1 << 20).in_flight(64);
    writer.max_blocking_time(Duration::from_millis(500)).create().unwrap()
}

/// Writers wait when the disk is full, no sample is falsely reported as durable, and all continue
/// when there is room.
#[test]
fn writers_wait_for_room_and_go_on() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    let participant = join(&folder, &disk);
    let topic = participant.topic::<Block>("Blocks").persistent().create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    let writer = writer_of(&participant, &topic);
    writer.write(&block(0)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    disk.fill();
    let (mut written, begun) = (1, Instant::now());
    // Samples that wait for the log are in memory, up to a limit.
    loop {
        let more = write_on((&writer, &reader), written, 20_000);
        written += more;
        if more == 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing holds the writer up");
    }
    assert_eq!(log_of(&topic), Some(LogCondition::Full));
    let status = topic.storage_status().unwrap();
    assert!(status.durable < 100 && status.durable < written, "{status:?}");
    assert!(writer.wait_for_acknowledgments(Timeout::millis(100)).is_err(), "it is not durable");
    // A larger disk.
    let larger = Command::new("mount").args(["-o", "remount,size=4g"]).arg(&disk.0).status();
    assert!(larger.unwrap().success());
    until("it goes on", || log_of(&topic) == Some(LogCondition::Open));
    assert_eq!(write_on((&writer, &reader), written, 10), 10);
    writer.wait_for_acknowledgments(SOON).unwrap();
    let status = topic.storage_status().unwrap();
    assert_eq!((status.samples, status.durable), (written + 10, written + 10));
    println!("{written} samples of 16 KB were written before the writer was held up");
    drop((reader, writer, topic, participant));
}

/// With `detach_full_logs` no writer waits.
#[test]
fn full_log_is_detached_and_writers_continue() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    let participant = join(&folder, &disk);
    let topic = participant.topic::<Block>("Blocks").persistent().detach_full_logs();
    let topic = topic.create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    let writer = writer_of(&participant, &topic);
    // Twice the capacity of the disk. A slow reader blocks the writer briefly, a full
    // disk permanently.
    let (mut written, begun) = (0, Instant::now());
    let mut write_up_to = |most: u64| {
        while written < most {
            assert!(begun.elapsed() < PATIENCE, "{written} of {most}");
            written += write_on((&writer, &reader), written, most - written);
        }
    };
    write_up_to(1_000);
    until("the log is left behind", || log_of(&topic) == Some(LogCondition::Detached));
    until("all know that", || topic.storage_status().unwrap().logs == 0);
    write_up_to(2_000);
    writer.write(&block(2_000)).unwrap();
    let mut last = None;
    until("all are there", || {
        last =
            reader.take_next_data(Timeout::millis(10)).unwrap().map(|block| block.number).or(last);
        last == Some(2_000)
    });
    drop((reader, writer, topic, participant));
}

/// The topic also waits for a disk that is full before the log exists.
#[test]
fn a_topic_begins_when_there_is_room_for_its_log() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    let participant = join(&folder, &disk);
    disk.fill();
    let topic = participant.topic::<Block>("Blocks").persistent().create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    until("it is full", || log_of(&topic) == Some(LogCondition::Full));
    disk.make_room();
    reader.wait_for_historical_data(SOON).unwrap();
    until("it goes on", || log_of(&topic) == Some(LogCondition::Open));
    let writer = writer_of(&participant, &topic);
    writer.write(&block(1)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(topic.storage_status().unwrap().durable, 1);
    drop((reader, writer, topic, participant));
}

/// Without room for the folder itself no participant is created, and the error gives the reason.
#[test]
fn participant_without_room_for_its_log_folder_reports_the_reason() {
    let meeting = TestDomain::new();
    let folder = meeting.runtime_dir();
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    disk.fill();
    let config = ParticipantConfig::new().runtime_dir(&folder).log_folder(&disk.0);
    let refused = DomainParticipant::with_config(0, config).err().unwrap().to_string();
    for words in ["no logs can be kept", "small disk/domain-0", "no room left", "make room"] {
        assert!(refused.contains(words), "{refused}");
    }
    disk.make_room();
    drop(join(&folder, &disk));
}

/// On a read-only file system no participant with logs is created; the contents of the logs are
/// available when it is writable again.
#[test]
fn read_only_file_system_for_logs_is_reported() {
    let meeting = TestDomain::new();
    let folder = meeting.runtime_dir();
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    let remount = |how: &str| {
        let remount = || Command::new("mount").args(["-o", how]).arg(&disk.0).status().unwrap();
        until("it may be mounted so", || remount().success());
    };
    let blocks = |participant: &DomainParticipant| {
        participant.topic::<Block>("Blocks").persistent().keep_all().create().unwrap()
    };
    let participant = join(&folder, &disk);
    let writer = writer_of(&participant, &blocks(&participant));
    writer.write(&block(1)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    drop((writer, participant));
    remount("remount,ro");
    let config = ParticipantConfig::new().runtime_dir(&folder).log_folder(&disk.0);
    let refused = DomainParticipant::with_config(0, config).err().unwrap().to_string();
    for words in ["small disk/domain-0", "it is read-only", "name another folder"] {
        assert!(refused.contains(words), "{refused}");
    }
    remount("remount,rw");
    let participant = join(&folder, &disk);
    let topic = blocks(&participant);
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    assert_eq!(*reader.take_next_data(SOON).unwrap().unwrap(), block(1));
    drop((reader, topic, participant));
}
