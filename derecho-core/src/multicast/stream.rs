//! Stream: one sender, with readers that come and go.
//!
//! Owns: the set of readers, and the entry from which each of them reads. Never does: order its
//! messages relative to those of other senders; a [subgroup](super::subgroup) does.

use alloc::vec::Vec;
use core::fmt;

use super::PeerFault;
use super::acknowledgement::AckView;
use super::budget::BellAction;
use super::claim::SenderMemory;
use super::send::Sender;
use crate::ids::{Peer, RegionId, Time};
use crate::link::Sharing;
use crate::machine::{Effects, Target};
use crate::memory::Replica;

/// Line in which a reader acknowledges.
#[derive(Clone)]
pub struct ReaderLine {
    /// Region of the reader's lines.
    pub acks: Replica,
    /// Number of the line in the region.
    pub line: usize,
}

/// Names of a reader, chosen by its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderName {
    /// Name of the subscription, never reused.
    pub subscription: u64,
    /// Name of the reader for the upper layer.
    pub entity: u64,
}

/// Reader of a stream.
pub struct StreamReader {
    /// Location of the reader; `None` if the reader is this node.
    target: Option<Target>,
    /// Bell of the reader.
    bell: Option<u32>,
    name: ReaderName,
    /// Acknowledgements of the reader; `None` if it is untethered: the sender does not wait for it
    /// (I-223).
    acks: Option<ReaderAcks>,
    /// End of the stream for a departing reader: entries from here on are not sent to it.
    until: Option<u64>,
}

/// Acknowledgements of a reader for which the sender waits.
struct ReaderAcks {
    /// Acknowledgement line of the reader.
    ack: AckView,
    /// Progress of the reader at the last check for lagging readers.
    looked: u64,
}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("StreamReader");
        all.field("peer", &self.peer()).field("name", &self.name).field("until", &self.until);
        all.field("seen", &self.acks.as_ref().map(|acks| acks.ack.seen())).finish()
    }
}

impl StreamReader {
    /// Reader node's name for its subscription.
    pub fn reader(&self) -> u64 {
        self.name.subscription
    }

    /// Whether this is the subscription with that name of this peer (`None`: of this node).
    pub fn is(&self, peer: Option<Peer>, reader: u64) -> bool {
        self.peer() == peer && self.name.subscription == reader
    }

    /// Peer of the reader; `None` if the reader is this node.
    pub fn peer(&self) -> Option<Peer> {
        self.target.map(|target| target.peer)
    }

    /// Number of entries that the reader has received, if the sender waits for that.
    fn awaited(&self) -> Option<u64> {
        let acks = self.acks.as_ref().filter(|_| self.until.is_none())?;
        Some(acks.ack.seen().received)
    }

    /// Whether the sender waits for the reader: for an acknowledgement, for its departure, or for
    /// memory to which it refers.
    fn is_awaited_by(&self, sender: &Sender) -> bool {
        self.acks.as_ref().is_some_and(|acks| {
            let seen = acks.ack.seen();
            let is_behind = match self.until {
                Some(last) => seen.taken < last,
                None => seen.received < sender.entries(),
            };
            self.peer().is_some() && (is_behind || sender.lacks_chunk() && seen.held != 0)
        })
    }
}

/// Beginning of a reader or epoch in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamStart {
    /// First entry.
    pub entry: u64,
    /// Number of the first message.
    pub message: u64,
}

/// Stream that this node sends.
pub struct Stream {
    sender: Sender,
    readers: Vec<StreamReader>,
    readers_changed: bool,
    /// Readers that have departed since the last call of [`Stream::take_departed`].
    departed: Vec<(Peer, u64)>,
}

impl Stream {
    /// Creates the stream of a memory in `region`.
    pub fn new(memory: SenderMemory, region: RegionId) -> Stream {
        let sender = Sender::new(memory, region);
        Stream { sender, readers: Vec::new(), readers_changed: false, departed: Vec::new() }
    }

    /// Region of the stream.
    pub fn region(&self) -> RegionId {
        self.sender.region()
    }

    /// Sender of the stream.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Readers of the stream, including departing ones.
    pub fn all_readers(&self) -> &[StreamReader] {
        &self.readers
    }

    /// Readers that receive each message that is committed from now on: the peer (`None`: this
    /// node) and the name of each reader for the upper layer.
    pub fn served(&self) -> impl Iterator<Item = (Option<Peer>, u64)> + '_ {
        let staying = self.readers.iter().filter(|reader| reader.until.is_none());
        staying.map(|reader| (reader.peer(), reader.name.entity))
    }

    /// Number of readers of the stream.
    pub fn readers(&self) -> usize {
        self.served().count()
    }

    /// Posts the header to a peer that can receive it from now on.
    pub fn introduce(&self, target: Target, effects: &mut Effects) {
        self.sender.introduce(target, effects);
    }

    /// Counts a node among the readers, from the next entry on, and returns that entry. `bell`:
    /// bell of the node. `line`: where it acknowledges. Without a line the
    /// reader is untethered: it is told of commits as other readers are, but the sender never waits
    /// for it. An untethered reader must see this memory itself, because nothing is posted to it.
    /// `None` if the reader's line is not in its region.
    pub fn add_reader(
        &mut self,
        target: Option<Target>,
        bell: Option<u32>,
        name: ReaderName,
        line: Option<ReaderLine>,
    ) -> Option<StreamStart> {
        let (entry, message) = (self.sender.entries(), self.sender.messages());
        let tether = match line {
            Some(ReaderLine { acks, line }) => Some(ReaderAcks {
                ack: AckView::new(acks, line, name.subscription, entry)?,
                looked: entry,
            }),
            None => None,
        };
        self.readers.push(StreamReader { target, bell, name, acks: tether, until: None });
        self.changed();
        Some(StreamStart { entry, message })
    }

    fn changed(&mut self) {
        self.readers_changed = true;
        let spreads = self.readers.iter().any(|reader| reader.acks.is_none());
        self.sender.memory().set_spreads(spreads);
        let staying = self.readers.iter().filter(|reader| reader.until.is_none());
        self.sender.tell_audience(staying.map(|reader| (reader.target, reader.bell)));
    }

    /// Stops sending to a reader, which no longer counts as a reader. The reader has departed when
    /// it shows that everything posted to it has arrived and that it refers to no memory. At that
    /// point no write from this memory to the reader is under way: the memory may be closed, or the
    /// same node may read it again.
    ///
    /// `false` if there is no such reader.
    pub fn dismiss(&mut self, peer: Option<Peer>, reader: u64) -> bool {
        let until = self.sender.entries();
        let mut known = false;
        for member in self.readers.iter_mut().filter(|member| member.is(peer, reader)) {
            member.until.get_or_insert(until);
            known = true;
        }
        // I-223: nothing is ever on its way to an untethered reader.
        let leaves = |member: &mut StreamReader| member.acks.is_none() && member.until.is_some();
        let gone = self.readers.extract_if(.., leaves);
        self.departed.extend(gone.filter_map(|it| Some((it.peer()?, it.reader()))));
        self.changed();
        known
    }

    /// Removes and returns a dismissed reader that has departed.
    pub fn take_departed(&mut self) -> Option<(Peer, u64)> {
        self.departed.pop()
    }

    /// Removes these readers without waiting for them.
    pub fn remove_readers(&mut self, mut gone: impl FnMut(&StreamReader) -> bool) {
        let before = self.readers.len();
        self.readers.retain(|reader| !gone(reader));
        if before != self.readers.len() {
            self.changed();
        }
    }

    /// Number of readers, if it has changed since the last call.
    pub fn take_readers_changed(&mut self) -> Option<usize> {
        core::mem::take(&mut self.readers_changed).then(|| self.readers())
    }

    /// Whether every tethered reader has received everything that was committed.
    pub fn is_acknowledged(&self) -> bool {
        self.sender.memory().committed() == self.sender.messages() && !self.is_awaited()
    }

    /// Readers that this stream awaits (see [`Stream::awaits_somebody`]), and that have received
    /// nothing since the last call (I-65).
    pub fn lagging(&mut self) -> impl Iterator<Item = Peer> + '_ {
        let Stream { sender, readers, .. } = self;
        readers.iter_mut().filter_map(|reader| {
            let acks = reader.acks.as_mut()?;
            let received = acks.ack.seen().received;
            let stands = core::mem::replace(&mut acks.looked, received) == received;
            (stands && reader.is_awaited_by(sender)).then(|| reader.peer()).flatten()
        })
    }

    /// Whether some reader has not received everything that was sent to it, or refers to memory
    /// while no chunk is free.
    pub fn awaits_somebody(&self) -> bool {
        self.readers.iter().any(|reader| reader.is_awaited_by(&self.sender))
    }

    /// Whether some tethered reader has not received everything that was sent.
    fn is_awaited(&self) -> bool {
        let sent = self.sender.entries();
        self.readers.iter().filter_map(StreamReader::awaited).any(|received| received < sent)
    }

    /// Whether an acknowledgement could bring news.
    pub fn awaits_readers(&self) -> bool {
        !self.sender.is_at_rest() && self.readers.iter().any(|reader| reader.acks.is_some())
    }

    /// Whether readers' acknowledgements are checked even in a turn that is not idle.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.sender.memory().is_half_full()
    }

    /// Sends every complete commit to every reader. Readers that see commits at once are told of
    /// them when their bells are due. Returns the number of entries sent, plus one for due bells.
    #[inline]
    pub fn send(&mut self, now: Time, effects: &mut Effects) -> usize {
        let bells = self.sender.memory().bells(now, false);
        let from = self.sender.entries();
        let count = self.sender.send(u64::MAX, usize::MAX);
        if count == 0 && bells != BellAction::Due {
            return 0;
        }
        let to = self.sender.entries();
        for (index, reader) in self.readers.iter().enumerate() {
            let Some(target) = reader.target.filter(|_| reader.until.is_none()) else { continue };
            // One post for each node, however many subscriptions it has: the node takes the entries
            // from the first post, and a second one, read late, could carry later contents (I-9).
            let same =
                |other: &StreamReader| other.peer() == reader.peer() && other.until.is_none();
            if self.readers[..index].iter().any(same) {
                continue;
            }
            match target.sharing {
                Sharing::Copied if from < to => self.sender.post(target, from, to, effects),
                Sharing::Shared if bells != BellAction::Delayed => effects.touch(target.peer),
                Sharing::Copied | Sharing::Shared => {}
            }
        }
        count + usize::from(bells == BellAction::Due)
    }

    /// Reclaims memory that no tethered reader needs any more. Returns the amount of work, counting
    /// each reader with a new acknowledgement, because a thread may wait for just that. Calls
    /// `faulty` for each reader with an impossible acknowledgement, which is removed.
    #[inline]
    pub fn reclaim(&mut self, mut faulty: impl FnMut(&StreamReader, PeerFault)) -> usize {
        let sent = self.sender.entries();
        let (mut taken, mut held) = (sent, 0);
        let geometry = self.sender.memory().geometry();
        let (mut index, mut news) = (0, 0);
        while index < self.readers.len() {
            let Some(acks) = &mut self.readers[index].acks else {
                index += 1;
                continue;
            };
            let known = acks.ack.seen().received;
            match acks.ack.look(|| self.sender.committed(), geometry) {
                Ok(seen) if self.readers[index].until.is_some_and(|entry| seen.taken >= entry) => {
                    if seen.held != 0 {
                        held |= seen.held;
                        index += 1;
                        continue;
                    }
                    let reader = self.readers.swap_remove(index);
                    self.departed.extend(reader.peer().map(|peer| (peer, reader.reader())));
                    self.changed();
                }
                Ok(seen) => {
                    taken = taken.min(seen.taken);
                    held |= seen.held;
                    news += usize::from(seen.received != known);
                    index += 1;
                }
                Err(fault) => {
                    faulty(&self.readers.swap_remove(index), fault);
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

    /// A thread that waits for the acknowledgement of a sample sleeps until a turn has
    /// done some work.
    #[test]
    fn turn_that_learns_only_a_reception_counts_as_work() {
        let geometry = Geometry::fitting(4096, 16, 64).expect("a small shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let mut stream = Stream::new(memory, RegionId(16));
        let acks = OwnRegion::heap(ACK_WORDS);
        let line = AckLine::new(acks.clone(), RegionId(1), 0, 7);
        stream
            .add_reader(
                None,
                None,
                ReaderName { subscription: 7, entity: 0 },
                Some(ReaderLine { acks: acks.replica(), line: 0 }),
            )
            .expect("the line is there");
        line.store(Acknowledged { received: 0, taken: 0, held: 0 }, geometry);
        let none = |_: &StreamReader, _| panic!("nothing is wrong");
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

    /// I-202: a sleeping peer is told when its bell is due, and a peer with a copy at once.
    #[test]
    fn delayed_bells_ring_when_due() {
        let geometry = Geometry::fitting(4096, 16, 64).expect("a small shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let mut stream = Stream::new(memory.clone(), RegionId(16));
        let acks = OwnRegion::heap(4 * ACK_WORDS);
        for (peer, sharing) in [(1, Sharing::Shared), (2, Sharing::Copied)] {
            let target = Some(Target { peer: Peer(peer), sharing });
            let line = peer as usize;
            stream
                .add_reader(
                    target,
                    Some(peer),
                    ReaderName { subscription: 7, entity: 0 },
                    Some(ReaderLine { acks: acks.replica(), line }),
                )
                .expect("the line is there");
        }
        let turn = |stream: &mut Stream, now: u64| {
            let mut effects = Effects::new();
            let done = stream.send(Time(now), &mut effects);
            let touched: Vec<u32> =
                effects.touched().iter().map(|peer| peer.index() as u32).collect();
            (done, touched)
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
