//! What a log answers when it is asked on behalf of a topic: nothing is taken for complete, or for accounted for, that
//! may not be.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::NodeId;
use derecho_core::log::Check;
use derecho_core::log::{
    Entry, EpochId, GroupId, KeyHash, Kind, Limits, LogId, Mark, Owner, StreamKey, StreamLog, Tail,
    Version, WallTime, folder,
};
use derecho_core::storage::errands::{self, Neighbour};
use derecho_core::storage::journal::{Answer, Errand};
use derecho_core::storage::logbook::{Claim, LogBook, Standing};
use derecho_sim::disk::SimDisk;

const STREAM: StreamKey = StreamKey(7);

fn epoch(view: u64, sequence: u64) -> EpochId {
    EpochId { view, sequence }
}

/// A folder with a log of so many messages of an epoch, which begins and ends with these marks.
fn log(id: u128, messages: u64, of: EpochId, marks: &[Mark]) -> (StreamLog, SimDisk) {
    let mut disk = SimDisk::new(id as u64);
    let owner = folder::claim(&mut disk, GroupId(9), LogId(id)).unwrap();
    let owner = Owner { group: owner.group, log: LogId(id) };
    let (mut log, _) =
        StreamLog::open(&mut disk, (owner, STREAM), Limits::default(), Check::All).unwrap();
    for number in 0..messages {
        let payload = [id as u8, number as u8];
        let entry = Entry {
            kind: Kind::Sample,
            epoch: of,
            writer: NodeId(id),
            writer_sequence: number,
            source_time: WallTime(0),
            reception_time: WallTime(0),
            key: KeyHash::default(),
            payload: &payload,
        };
        log.append(entry, &disk).unwrap();
    }
    marks.iter().for_each(|mark| log.mark(mark, WallTime(0), &disk).unwrap());
    log.commit(&mut disk).unwrap();
    (log, disk)
}

fn claim(own: &mut (StreamLog, SimDisk), others: &mut [Neighbour<SimDisk>]) -> Claim {
    match errands::run(Errand::Claim(true), &mut own.0, &mut own.1, others) {
        Answer::Claimed(claim) => *claim,
        _ => panic!("no claim"),
    }
}

/// A folder that nobody keeps says that another log has more: that one is waited for.
#[test]
fn who_is_named_by_a_log_that_cannot_win_is_waited_for() {
    let marks = [Mark::Begun(epoch(1, 5), vec![LogId(9)])];
    let (_, disk) = log(1, 10, epoch(1, 5), &marks);
    let mut others = [Neighbour { log: LogId(1), disk, busy: false }];
    let mut own = log(2, 0, epoch(0, 0), &[]);
    let claim = claim(&mut own, &mut others);
    let mut book = LogBook::default();
    book.claim(NodeId(2), 0, claim);
    assert_eq!(book.standing(0), Standing::Waits([LogId(9)].into()));
}

/// Older marks that come with what is taken over do not take the place of a newer one.
#[test]
fn the_newest_mark_stays_the_newest() {
    let begun = |sequence, of: &[u128]| {
        Mark::Begun(epoch(1, sequence), of.iter().map(|log| LogId(*log)).collect())
    };
    let marks = [begun(3, &[1]), begun(4, &[1, 7]), begun(5, &[1, 2])];
    let (_, disk) = log(1, 10, epoch(1, 5), &marks);
    let mut others = [Neighbour { log: LogId(1), disk, busy: false }];
    let mut own = log(2, 0, epoch(1, 5), &[begun(5, &[1, 2])]);
    let claim = claim(&mut own, &mut others);
    assert_eq!(claim.found.begun, Some((epoch(1, 5), vec![LogId(1), LogId(2)])));
}

/// As many messages are not the same ones.
#[test]
fn a_log_of_another_beginning_is_not_complete() {
    let mut own = log(2, 10, epoch(1, 1), &[]);
    let base = Tail { epoch: epoch(1, 2), version: Version(10) };
    let mut others: [Neighbour<SimDisk>; 0] = [];
    let errand = Errand::Complete(vec![LogId(1)], Version(10), (base, 2));
    let answer = errands::run(errand, &mut own.0, &mut own.1, &mut others);
    assert!(matches!(answer, Answer::OutOfReach));
}

/// Who alone kept the last noted epoch was emptied to be completed anew, from one that has all of it, and whose own
/// marks were lost: that one wins.
#[test]
fn one_that_was_emptied_does_not_win_over_the_one_it_was_emptied_for() {
    let marks = [Mark::Begun(epoch(1, 5), vec![LogId(6)])];
    let other = |(log, disk): (StreamLog, SimDisk)| {
        let log = log.owner().log;
        Neighbour { log, disk, busy: false }
    };
    let mut others = [other(log(1, 10, epoch(1, 5), &marks)), other(log(6, 0, epoch(0, 0), &[]))];
    let mut own = log(2, 0, epoch(0, 0), &[]);
    let claim = claim(&mut own, &mut others);
    assert_eq!(claim.found.tail.version, Version(10));
    let mut book = LogBook::default();
    book.claim(NodeId(2), 0, claim);
    assert_eq!(book.standing(0), Standing::Begins(NodeId(2)));
}

/// While one that is named is elsewhere, what this log has is not given up for the less that another one has.
#[test]
fn nothing_is_given_up_while_others_are_awaited() {
    let marks = [Mark::Begun(epoch(1, 5), vec![LogId(6), LogId(9)])];
    let emptied = log(6, 0, epoch(0, 0), &[]);
    let mut others = [Neighbour { log: LogId(6), disk: emptied.1, busy: false }];
    let mut own = log(2, 10, epoch(1, 5), &marks);
    let claim = claim(&mut own, &mut others);
    assert_eq!(claim.found.tail.version, Version(10));
    let mut book = LogBook::default();
    book.claim(NodeId(2), 0, claim);
    assert_eq!(book.standing(0), Standing::Waits([LogId(9)].into()));
}
