//! Notes: reliable, in order per peer together with region announcements, limited in length.

use derecho_core::ids::RegionId;
use derecho_core::link::{Link, LinkError, NOTE_LIMIT};

use crate::suite::OrderedEvent;
use crate::{LinkRig, Suite};

/// Notes and announcements arrive in the order in which they were made.
pub fn notes_and_regions_keep_their_order<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(3, seed);
    let peers = [suite.peer(0, 1), suite.peer(0, 2)];
    let mut expected = Vec::new();
    let mut open = Vec::new();
    let mut handles = Vec::new();
    for step in 0..120 {
        match suite.random.below(4) {
            0 => {
                let region = RegionId(step);
                handles.push(suite.link(0).open(region, 8).expect("a new region opens"));
                open.push(region);
                expected.push(OrderedEvent::Up(region));
            }
            1 if !open.is_empty() => {
                let region = open.swap_remove(suite.random.below(open.len()));
                suite.link(0).close(region).expect("it is open");
                expected.push(OrderedEvent::Down(region));
            }
            _ => {
                let note = step.to_le_bytes().to_vec();
                for peer in peers {
                    suite.link(0).note(peer, &note).expect("the peer is up");
                }
                expected.push(OrderedEvent::Note(note));
            }
        }
        if suite.random.below(4) == 0 {
            suite.pass();
        }
    }
    suite.until("all has been told", |suite| {
        [1, 2].iter().all(|&at| suite.ordered_events(at, 0).len() >= expected.len())
    });
    for at in [1, 2] {
        assert_eq!(suite.ordered_events(at, 0), expected, "at node {at}");
    }
}

/// The longest note arrives whole, the empty one too; a longer note is refused.
pub fn notes_have_a_limit<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let peer = suite.peer(0, 1);
    let longest: Vec<u8> = (0..NOTE_LIMIT).map(|index| (index * 7) as u8).collect();
    suite.link(0).note(peer, &longest).expect("the longest note is allowed");
    let longer = vec![0; NOTE_LIMIT + 1];
    let refused = suite.link(0).note(peer, &longer);
    assert_eq!(refused, Err(LinkError::NoteTooLong(NOTE_LIMIT + 1)));
    suite.link(0).note(peer, b"").expect("an empty note is allowed");
    suite.until("both arrive", |suite| suite.notes(1, 0).len() == 2);
    assert!(suite.notes(1, 0) == [longest, Vec::new()], "the notes are not as they were sent");
}

/// More notes than any buffer on the way holds, in both directions: none is lost and
/// none duplicated.
pub fn many_notes_arrive<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let (there, back) = (suite.peer(0, 1), suite.peer(1, 0));
    let length = 200;
    let note = |number: u32| {
        let mut note = vec![number as u8; length];
        note[..4].copy_from_slice(&number.to_le_bytes());
        note
    };
    for number in 0..3000 {
        suite.link(0).note(there, &note(number)).expect("the peer is up");
        suite.link(1).note(back, &note(number)).expect("the peer is up");
        if suite.random.below(200) == 0 {
            suite.pass();
        }
    }
    suite.until("all arrive", |suite| {
        suite.notes(0, 1).len() == 3000 && suite.notes(1, 0).len() == 3000
    });
    let expected: Vec<Vec<u8>> = (0..3000).map(note).collect();
    assert!(suite.notes(0, 1) == expected && suite.notes(1, 0) == expected, "not as sent");
}
