//! The words that a host keeps for a group: one ballot per view, and no member of an
//! abandoned group.
#![cfg(loom)]

use std::convert::Infallible;
use std::sync::Arc;

use derecho_core::ids::Rank;
use derecho_core::link::host::{DecisionWord, HostSeat, found};
use derecho_core::link::{Founding, Generation};
use derecho_loom::explore;
use loom::thread;

const ONE: Generation = Generation(1);

#[derive(Default)]
struct Host {
    word: DecisionWord,
    seats: [HostSeat; 3],
}

impl Host {
    /// Creates a host with a group that node 0 has founded.
    fn founded() -> Arc<Host> {
        let host = Arc::new(Host::default());
        assert_eq!(host.found(0), Founding::Founded(ONE));
        host
    }

    /// Asks as node `own`. Node 0 counts as dead for all but itself.
    fn found(&self, own: usize) -> Founding {
        let seats: Vec<&HostSeat> = self.seats.iter().collect();
        let told = found(&self.word, &seats, own, |seat| Ok::<_, Infallible>(seat != 0));
        told.unwrap_or_else(|never| match never {})
    }
}

#[test]
fn no_node_enters_abandoned_group() {
    explore(4, || {
        let host = Host::founded();
        let entering = Arc::clone(&host);
        let member = thread::spawn(move || entering.seats[1].enter(&entering.word, ONE, 2, 1));
        let told = host.found(2);
        let member = member.join().unwrap();
        match told {
            Founding::Exists(group) => assert!(member && group == ONE),
            Founding::Founded(group) => assert!(!member && group > ONE),
            Founding::Exhausted => panic!("so often was not founded"),
        }
    });
}

#[test]
fn late_clear_of_seat_keeps_its_new_member() {
    explore(4, || {
        let host = Host::founded();
        assert!(host.seats[1].enter(&host.word, ONE, 2, 1));
        let clearing = Arc::clone(&host);
        let late = thread::spawn(move || {
            clearing.seats.iter().for_each(|seat| seat.clear_if(ONE, 3, 1 << 1));
        });
        assert!(host.seats[1].enter(&host.word, ONE, 4, 1));
        late.join().unwrap();
        assert!(host.seats[1].is_member(ONE));
    });
}

#[test]
fn concurrent_ballots_and_founding_agree_on_one_winner() {
    explore(4, || {
        let host = Host::founded();
        let settle = |rank: u16| {
            let host = Arc::clone(&host);
            thread::spawn(move || host.word.settle(ONE, 2, Rank(rank)))
        };
        let (one, two) = (settle(1), settle(2));
        let new = host.found(2);
        let heard: Vec<Rank> = [one, two].into_iter().filter_map(|it| it.join().unwrap()).collect();
        assert!(heard.windows(2).all(|two| two[0] == two[1]), "{heard:?}");
        // No late write affects the new group.
        let Founding::Founded(new) = new else { panic!("nobody lives in the old one: {new:?}") };
        assert_eq!(host.word.settle(new, 2, Rank(5)), Some(Rank(5)));
    });
}
