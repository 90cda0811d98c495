//! The product reads and writes the bytes of `docs/reference/log-format.md`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::NodeId;
use derecho_core::log::segment::FileHeader;
use derecho_core::log::{
    BadCause, Disk, EpochId, GroupId, KeyHash, LogEntry, LogError, LogId, LogKey, LogLimits,
    LogOwner, RecordKind, RecoveryCheck, StreamKey, StreamLog, Version, WallTime,
};
use derecho_sim::SimDisk;

const OWNER: LogOwner = LogOwner { group: GroupId(1), log: LogId(2) };
const STREAM: StreamKey = StreamKey(0x4f);
const NAME: &str = "0000000000000000000000000000004f-0000000000000001.log";

/// Returns the bytes of the example, from its lines of hexadecimal numbers.
fn example() -> Vec<u8> {
    let page = include_str!("../../../docs/reference/log-format.md");
    let lines = page.lines().filter_map(|line| line.split_once(": ")).filter(|(offset, _)| {
        offset.len() == 8 && offset.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    let mut bytes = Vec::new();
    for (offset, rest) in lines {
        assert_eq!(usize::from_str_radix(offset, 16).unwrap(), bytes.len());
        // Two blanks end the numbers and begin their description.
        let digits: String = rest.split("  ").next().unwrap().split(' ').collect();
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
    }
    bytes
}

fn entry() -> LogEntry<'static> {
    LogEntry {
        kind: RecordKind::Sample,
        epoch: EpochId { view: 1, sequence: 0 },
        writer: NodeId(9),
        writer_sequence: 5,
        source_time: WallTime(6),
        reception_time: WallTime(7),
        key: KeyHash(std::array::from_fn(|at| at as u8)),
        payload: b"fly",
    }
}

fn disk_with(bytes: &[u8]) -> SimDisk {
    let mut disk = SimDisk::new(1);
    disk.create(NAME).unwrap();
    disk.write_at(NAME, 0, bytes).unwrap();
    disk
}

#[test]
fn log_reader_decodes_the_documented_example() {
    let bytes = example();
    assert_eq!(bytes.len(), 248);
    let mut disk = disk_with(&bytes);
    let header = FileHeader::read(&mut disk, NAME).unwrap();
    assert_eq!((header.owner, header.stream, header.version), (OWNER, STREAM, Version(1)));
    assert_eq!(header.name(), NAME);
    let (log, recovery) =
        StreamLog::read(&mut disk, LogKey { owner: OWNER, stream: STREAM }, RecoveryCheck::All)
            .unwrap();
    assert_eq!((log.durable(), recovery.torn), (Version(1), None));
    let mut cursor = log.after(Version(0)).unwrap();
    let record = cursor.next(&mut disk, &log).unwrap().unwrap();
    assert_eq!((record.version, record.entry), (Version(1), entry()));
}

#[test]
fn log_writer_produces_the_documented_example() {
    let mut disk = SimDisk::new(1);
    let of = LogKey { owner: OWNER, stream: STREAM };
    let (mut log, _) =
        StreamLog::open(&mut disk, of, LogLimits::default(), RecoveryCheck::All).unwrap();
    log.append(entry(), &disk).unwrap();
    log.commit(&mut disk).unwrap();
    assert_eq!(disk.bytes(NAME), example());
}

/// The result of truncating or changing the example at each byte.
#[test]
fn damage_to_the_example_is_reported_as_documented() {
    let bytes = example();
    let read = |bytes: &[u8]| {
        let mut disk = disk_with(bytes);
        StreamLog::read(&mut disk, LogKey { owner: OWNER, stream: STREAM }, RecoveryCheck::All)
            .map(|(log, recovery)| (log.durable(), recovery.torn))
    };
    for end in 129..bytes.len() {
        let (last, torn) = read(&bytes[..end]).unwrap();
        assert_eq!((last, torn.map(|torn| torn.offset)), (Version(0), Some(128)), "cut at {end}");
    }
    // The part of the record in the first sector is present, and the rest is missing.
    let zeroed: Vec<u8> = bytes[..128].iter().copied().chain([0; 120]).collect();
    assert_eq!(read(&zeroed).unwrap().1.unwrap().bytes, 120);
    for at in 128..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let Err(LogError::BadRecord { offset: 128, version: Version(1), cause, .. }) = read(&bytes)
        else {
            panic!("byte {at}")
        };
        let expected = match at {
            128..132 => BadCause::NoRecord,
            132..240 => BadCause::HeaderSum,
            _ => BadCause::BodySum,
        };
        assert_eq!(cause, expected, "byte {at}");
    }
}
