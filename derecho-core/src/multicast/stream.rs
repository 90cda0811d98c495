//! A stream: one sender, and readers that come and go.
//!
//! Owns: who reads the stream from which entry. Never does: put anything in an order with what
//! others send; that is a [subgroup](super::subgroup)'s.

use alloc::vec::Vec;
use core::fmt;

use super::Fault;
use super::acknowledgement::AckView;
use super::budget::Bells;
use super::claim::SenderMemory;
use super::send::Sender;
use crate::ids::{Peer, RegionId, Time};
use crate::link::Sharing;
use crate::machine::{Effects, Target};
use crate::memory::Replica;

/// One reader node of a stream.
pub struct Member {
    /// Where it is; none if it is this node itself.
    target: Option<Target>,
    /// Its place among the bells.
    place: Option<u32>,
    /// The reader node's name for its subscription.
    reader: u64,
    /// What it shows of this stream; nothing if it is untethered: then nobody waits for it.
    tether: Option<Tether>,
    /// It leaves, and was sent nothing from this entry on.
    until: Option<u64>,
}

/// What a reader shows of a stream that waits for it.
struct Tether {
    /// Its line of acknowledgements.
    ack: AckView,
    /// What it had received when it was last asked who lags.
    looked: u64,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Member");
        all.field("peer", &self.peer()).field("reader", &self.reader).field("until", &self.until);
        all.field("seen", &self.tether.as_ref().map(|tether| tether.ack.seen())).finish()
    }
}

impl Member {
    /// The reader node's name for its subscription.
    pub fn reader(&self) -> u64 {
        self.reader
    }

    /// Whether it is this peer's (or this node's own) subscription of that name.
    pub fn is(&self, peer: Option<Peer>, reader: u64) -> bool {
        self.peer() == peer && self.reader == reader
    }

    /// The peer; none if it is this node itself.
    pub fn peer(&self) -> Option<Peer> {
        self.target.map(|target| target.peer)
    }

    /// How far it has received, if somebody waits for that.
    fn awaited(&self) -> Option<u64> {
        let tether = self.tether.as_ref().filter(|_| self.until.is_none())?;
        Some(tether.ack.seen().received)
    }

    /// Whether the sender waits for it: for an acknowledgement, for its leaving, or for memory that it refers to.
    fn is_awaited_by(&self, sender: &Sender) -> bool {
        self.tether.as_ref().is_some_and(|tether| {
            let seen = tether.ack.seen();
            let is_behind = match self.until {
                Some(last) => seen.taken < last,
                None => seen.received < sender.entries(),
            };
            self.peer().is_some() && (is_behind || sender.lacks_chunk() && seen.held != 0)
        })
    }
}

/// Where a reader begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beginning {
    /// The first entry that it gets.
    pub entry: u64,
    /// The number of the first message that it gets.
    pub message: u64,
}

/// One stream that this node sends.
pub struct Stream {
    sender: Sender,
    members: Vec<Member>,
    members_changed: bool,
    /// Readers that have left since they were last asked for.
    departed: Vec<(Peer, u64)>,
}

impl Stream {
    /// The stream of a memory that lies in `region`.
    pub fn new(memory: SenderMemory, region: RegionId) -> Stream {
        let sender = Sender::new(memory, region);
        Stream { sender, members: Vec::new(), members_changed: false, departed: Vec::new() }
    }

    /// The stream's region.
    pub fn region(&self) -> RegionId {
        self.sender.region()
    }

    /// What it sends.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Who reads the stream, and who has not quite left it yet.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many read the stream.
    pub fn readers(&self) -> usize {
        self.members.iter().filter(|member| member.until.is_none()).count()
    }

    /// Shows the header to a peer that can receive it from now on.
    pub fn introduce(&self, target: Target, effects: &mut Effects) {
        self.sender.introduce(target, effects);
    }

    /// Counts a node among the readers, from the next entry on; returns which. `place` is its place
    /// among the bells, `line` the region and the line in it where it acknowledges. Without one it reads untethered: it is told of
    /// commits as others are, and waited for in nothing; it has to see this memory itself, for nothing is posted to it.
    /// `None` if the reader's line does not lie in its region.
    pub fn add_member(
        &mut self,
        target: Option<Target>,
        place: Option<u32>,
        reader: u64,
        line: Option<(Replica, usize)>,
    ) -> Option<Beginning> {
        let (entry, message) = (self.sender.entries(), self.sender.messages());
        let tether = match line {
            Some((acks, line)) => {
                Some(Tether { ack: AckView::new(acks, line, reader, entry)?, looked: entry })
            }
            None => None,
        };
        self.members.push(Member { target, place, reader, tether, until: None });
        self.changed();
        Some(Beginning { entry, message })
    }

    fn changed(&mut self) {
        self.members_changed = true;
        let spreads = self.members.iter().any(|member| member.tether.is_none());
        self.sender.memory().set_spreads(spreads);
        let staying = self.members.iter().filter(|member| member.until.is_none());
        self.sender.tell_audience(staying.map(|member| (member.target, member.place)));
    }

    /// Sends a reader nothing more, and counts it no more. It has left when it shows that everything which was posted to
    /// it has arrived and that it refers to nothing: then no write from this memory to it is under way any more, and the
    /// memory may be closed, or read by the same node anew.
    ///
    /// `false` if there is no such reader.
    pub fn dismiss(&mut self, peer: Option<Peer>, reader: u64) -> bool {
        let until = self.sender.entries();
        let mut known = false;
        for member in self.members.iter_mut().filter(|member| member.is(peer, reader)) {
            member.until.get_or_insert(until);
            known = true;
        }
        // Nothing was ever on its way to who is untethered.
        let leaves = |member: &mut Member| member.tether.is_none() && member.until.is_some();
        let gone = self.members.extract_if(.., leaves);
        self.departed.extend(gone.filter_map(|it| Some((it.peer()?, it.reader))));
        self.changed();
        known
    }

    /// Takes out a reader that was dismissed and has left.
    pub fn take_departed(&mut self) -> Option<(Peer, u64)> {
        self.departed.pop()
    }

    /// Waits for these readers no more.
    pub fn remove_members(&mut self, mut gone: impl FnMut(&Member) -> bool) {
        let before = self.members.len();
        self.members.retain(|member| !gone(member));
        if before != self.members.len() {
            self.changed();
        }
    }

    /// How many readers there are now, if that has changed since the last call.
    pub fn take_members_changed(&mut self) -> Option<usize> {
        core::mem::take(&mut self.members_changed).then(|| self.readers())
    }

    /// Whether every reader that is waited for has received everything that was committed.
    pub fn is_acknowledged(&self) -> bool {
        self.sender.memory().committed() == self.sender.messages() && !self.is_awaited()
    }

    /// Readers that this stream awaits (see [`Stream::awaits_somebody`]), and that have received nothing since this was asked
    /// last.
    pub fn lagging(&mut self) -> impl Iterator<Item = Peer> + '_ {
        let Stream { sender, members, .. } = self;
        members.iter_mut().filter_map(|member| {
            let tether = member.tether.as_mut()?;
            let received = tether.ack.seen().received;
            let stands = core::mem::replace(&mut tether.looked, received) == received;
            (stands && member.is_awaited_by(sender)).then(|| member.peer()).flatten()
        })
    }

    /// Whether some reader has not received what was sent to it, or refers to memory of which nothing is free.
    pub fn awaits_somebody(&self) -> bool {
        self.members.iter().any(|member| member.is_awaited_by(&self.sender))
    }

    /// Whether some reader that is waited for has not received what was sent.
    fn is_awaited(&self) -> bool {
        let sent = self.sender.entries();
        self.members.iter().filter_map(Member::awaited).any(|received| received < sent)
    }

    /// Whether an acknowledgement would be news.
    pub fn awaits_readers(&self) -> bool {
        !self.sender.is_at_rest() && self.members.iter().any(|member| member.tether.is_some())
    }

    /// Whether it is time to look what readers have given back, in a turn that is not idle.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.sender.memory().is_half_full()
    }

    /// Sends every complete commit to every reader. Who sees commits as they are made is told of them when their bells
    /// are due. Returns how many.
    #[inline]
    pub fn send(&mut self, now: Time, effects: &mut Effects) -> usize {
        let bells = self.sender.memory().bells(now, false);
        let from = self.sender.entries();
        let count = self.sender.send(u64::MAX, usize::MAX);
        if count == 0 && bells != Bells::Due {
            return 0;
        }
        let to = self.sender.entries();
        for (index, member) in self.members.iter().enumerate() {
            let Some(target) = member.target.filter(|_| member.until.is_none()) else { continue };
            // Once for each node, however many subscriptions it has: it would take the entries from
            // the first post, and a second one, read late, could carry what follows them (I-9).
            let same = |other: &Member| other.peer() == member.peer() && other.until.is_none();
            if self.members[..index].iter().any(same) {
                continue;
            }
            match target.sharing {
                Sharing::Copied if from < to => self.sender.post(target, from, to, effects),
                Sharing::Shared if bells != Bells::PutOff => effects.touch(target.peer),
                Sharing::Copied | Sharing::Shared => {}
            }
        }
        count + usize::from(bells == Bells::Due)
    }

    /// Gives back what all readers are done with that are waited for. Returns how much, counting each reader that has
    /// received more, for somebody may wait for just that; and tells `faulty` of each reader whose
    /// acknowledgement cannot be; it is waited for no more.
    #[inline]
    pub fn reclaim(&mut self, mut faulty: impl FnMut(&Member, Fault)) -> usize {
        let sent = self.sender.entries();
        let (mut taken, mut held) = (sent, 0);
        let geometry = self.sender.memory().geometry();
        let (mut index, mut news) = (0, 0);
        while index < self.members.len() {
            let Some(tether) = &mut self.members[index].tether else {
                index += 1;
                continue;
            };
            let known = tether.ack.seen().received;
            match tether.ack.look(|| self.sender.committed(), geometry) {
                Ok(seen) if self.members[index].until.is_some_and(|entry| seen.taken >= entry) => {
                    if seen.held != 0 {
                        held |= seen.held;
                        index += 1;
                        continue;
                    }
                    let member = self.members.swap_remove(index);
                    self.departed.extend(member.peer().map(|peer| (peer, member.reader)));
                    self.changed();
                }
                Ok(seen) => {
                    taken = taken.min(seen.taken);
                    held |= seen.held;
                    news += usize::from(seen.received != known);
                    index += 1;
                }
                Err(fault) => {
                    faulty(&self.members.swap_remove(index), fault);
                    self.changed();
                }
            }
        }
        self.sender.give_back(taken, held) + news
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::OwnRegion;
    use crate::multicast::acknowledgement::{ACK_RECEIVED, ACK_WORDS, AckLine, Acknowledged};
    use crate::multicast::geometry::Geometry;

    /// Whoever waits until a sample is acknowledged sleeps until a turn does something.
    #[test]
    fn a_turn_that_learns_only_that_a_reader_has_received_does_something() {
        let geometry = Geometry::fitting(4096, 16, 64).expect("a small shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let mut stream = Stream::new(memory, RegionId(16));
        let acks = OwnRegion::heap(ACK_WORDS);
        let line = AckLine::new(acks.clone(), RegionId(1), 0, 7);
        stream.add_member(None, None, 7, Some((acks.replica(), 0))).expect("the line is there");
        line.store(Acknowledged { received: 0, taken: 0, held: 0 }, geometry);
        let none = |_: &Member, _| panic!("nothing is wrong");
        stream.sender().memory().claim(8).expect("room").commit(8, |_, _| ());
        stream.send(Time::default(), &mut Effects::new());
        // The words of one write appear in any order.
        let before = acks.word(ACK_RECEIVED).peek();
        line.store(Acknowledged { received: 1, taken: 1, held: 0 }, geometry);
        let after = acks.word(ACK_RECEIVED).peek();
        acks.word(ACK_RECEIVED).put(before);
        while stream.reclaim(none) > 0 {}
        assert!(!stream.is_acknowledged());
        acks.word(ACK_RECEIVED).put(after);
        assert!(stream.reclaim(none) > 0, "nobody is told");
        assert!(stream.is_acknowledged());
        assert_eq!(stream.reclaim(none), 0);
    }

    /// I-202: who sleeps is told when its bell is due, and whoever has a copy as ever.
    #[test]
    fn bells_that_are_put_off_ring_when_they_are_due() {
        let geometry = Geometry::fitting(4096, 16, 64).expect("a small shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let mut stream = Stream::new(memory.clone(), RegionId(16));
        let acks = OwnRegion::heap(4 * ACK_WORDS);
        for (peer, sharing) in [(1, Sharing::Shared), (2, Sharing::Copied)] {
            let target = Some(Target { peer: Peer(peer), sharing });
            let line = peer as usize;
            stream
                .add_member(target, Some(peer), 7, Some((acks.replica(), line)))
                .expect("the line is there");
        }
        let turn = |stream: &mut Stream, now: u64| {
            let mut effects = Effects::new();
            let done = stream.send(Time(now), &mut effects);
            let told: Vec<u32> = effects.touched().iter().map(|peer| peer.index() as u32).collect();
            (done, told)
        };
        let commit = || memory.claim(8).expect("room").commit(8, |_, _| ());
        commit();
        assert_eq!(turn(&mut stream, 5), (1, alloc::vec![1, 2]), "nothing may be put off");
        commit();
        assert!(memory.put_off(Time(10), 100));
        assert_eq!(turn(&mut stream, 50), (1, alloc::vec![2]));
        commit();
        assert!(!memory.put_off(Time(60), 100));
        assert_eq!(turn(&mut stream, 109), (1, alloc::vec![2]));
        assert_eq!(turn(&mut stream, 110), (1, alloc::vec![1]), "the oldest of them waits no more");
        assert_eq!(turn(&mut stream, 111), (0, alloc::vec![]));
        commit();
        assert!(memory.put_off(Time(120), 100));
        memory.hurry();
        assert_eq!(turn(&mut stream, 121), (2, alloc::vec![1, 2]));
        (0..8).for_each(|_| assert!(commit() > 3));
        assert!(memory.put_off(Time(130), 100));
        assert_eq!(turn(&mut stream, 131), (9, alloc::vec![1, 2]), "half of the ring is in use");
    }
}
