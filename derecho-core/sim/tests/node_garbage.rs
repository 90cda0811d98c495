//! A peer that writes nonsense: into its own regions, which others read, and into its notes.
//!
//! Three nodes over shared memory. The evil one behaves for a while; then its words change at
//! random and it sends arbitrary notes. The two good ones never panic, do a bounded amount of work
//! in a turn, and lose nothing of what they send each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::VecDeque;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Evidence, LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine, PostKind};
use derecho_core::memory::{OwnRegion, Replica};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::node::{ACK_LINES, ACKS, ACKS_WORDS, Node, NodeEvent, StreamOrigin};
use derecho_core::note::Note;
use derecho_sim::world::streams::{content_of, tiny};
use proptest::prelude::*;

const GOOD: [usize; 2] = [0, 1];
const EVIL: usize = 2;
/// Upper bound of the work of a turn of a node with so few streams: each stream's ring once, and
/// some steps of settling.
const MOST_WORK: usize = 256;
/// Number of turns within which everything settles.
const PATIENCE: usize = 400;

struct Reader {
    from: usize,
    inbox: Arc<Inbox>,
    next: Option<u64>,
    held: Option<Record>,
}

struct TestMember {
    node: Node,
    inbox: VecDeque<LinkEvent>,
    effects: Effects,
    /// Regions of the node, as all nodes see them.
    regions: Vec<(RegionId, Replica)>,
    stream: RegionId,
    memory: SenderMemory,
    written: u64,
    readers: Vec<Reader>,
    faults: usize,
    /// Node that each subscription reads.
    subscribed: Vec<(derecho_core::node::SubscriptionId, usize)>,
}

/// Three nodes that share memory. A node's handle for a peer is that peer's index.
struct TestGroup {
    members: Vec<TestMember>,
}

fn peer(index: usize) -> Peer {
    Peer(index as u32)
}

impl TestGroup {
    /// Creates nodes that send one stream each. All read the first node's and the evil one's; only
    /// the first node reads the second one's.
    fn new() -> TestGroup {
        let members = (0..3).map(|index| {
            let acks = OwnRegion::heap(ACKS_WORDS);
            let shown = acks.replica();
            let mut node = Node::new(NodeId(index as u128), acks, Arc::new(|| {}));
            let stream = node.fresh_region();
            let memory = SenderMemory::new(OwnRegion::heap(tiny().words()), tiny());
            let mut effects = Effects::new();
            node.add_stream(stream, memory.clone(), &mut effects);
            node.announce(stream.0, vec![index], &mut effects);
            let regions = vec![(ACKS, shown), (stream, memory.replica())];
            let (readers, subscribed, inbox) = (Vec::new(), Vec::new(), VecDeque::new());
            let (written, faults) = (0, 0);
            TestMember {
                node,
                inbox,
                effects,
                regions,
                stream,
                memory,
                written,
                readers,
                faults,
                subscribed,
            }
        });
        let mut bus = TestGroup { members: members.collect() };
        for at in 0..3 {
            for about in (0..3).filter(|&about| about != at) {
                let sharing = Sharing::Shared;
                let node = NodeId(about as u128);
                let up = LinkEvent::PeerUp { peer: peer(about), node, sharing, place: None };
                bus.members[at].inbox.push_back(up);
                for (region, replica) in bus.members[about].regions.clone() {
                    let peer = peer(about);
                    bus.members[at].inbox.push_back(LinkEvent::RegionUp { peer, region, replica });
                }
                for (region, _) in bus.members[at].regions.clone() {
                    let ready = LinkEvent::RegionReady { peer: peer(about), region };
                    bus.members[at].inbox.push_back(ready);
                }
            }
        }
        bus
    }

    fn wants(reader: usize, writer: usize) -> bool {
        writer == 0 || writer == EVIL || (reader == 0 && writer == 1)
    }

    /// Runs one turn of a node and of its application.
    fn turn(&mut self, at: usize) -> Result<(), TestCaseError> {
        let TestMember { node, inbox, effects, .. } = &mut self.members[at];
        inbox.drain(..).for_each(|event| node.handle(event, effects));
        let done = node.turn(Time(0), effects);
        prop_assert!(done <= MOST_WORK, "a turn did {done} things");
        while let Some(event) = self.members[at].node.next_event() {
            self.take_in(at, event);
        }
        let TestMember { effects, .. } = &mut self.members[at];
        let posts: Vec<_> = effects.take_posts().collect();
        effects.clear();
        for post in posts {
            if let PostKind::Note(bytes) = post.kind {
                self.note(at, post.peer.index(), bytes);
            }
        }
        self.take(at)
    }

    fn note(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        self.members[to].inbox.push_back(LinkEvent::Note { peer: peer(from), bytes });
    }

    fn take_in(&mut self, at: usize, event: NodeEvent) {
        let member = &mut self.members[at];
        match event {
            // The evil one may announce without limit.
            NodeEvent::Announced { peer, id, .. }
                if TestGroup::wants(at, peer.index()) && member.subscribed.len() < 16 =>
            {
                let (node, origin, stream) =
                    (&mut member.node, StreamOrigin::Peer(peer), RegionId(id));
                let subscribed = node.subscribe(origin, stream, 0);
                member.subscribed.extend(subscribed.map(|id| (id, peer.index())));
                // An additional reader of the evil one's stream copies instead of borrowing.
                if peer.index() == EVIL {
                    let id = node.subscribe_untethered(origin, stream, 0);
                    member.subscribed.extend(id.map(|id| (id, EVIL)));
                }
            }
            NodeEvent::Subscribed(id, inbox) => {
                let known = member.subscribed.iter().find(|(known, _)| *known == id);
                let from = known.expect("records come from subscribed streams").1;
                member.readers.push(Reader { from, inbox, next: None, held: None });
            }
            NodeEvent::Faulty { peer, .. } => {
                assert_eq!(peer.index(), EVIL, "a good node is not at fault");
                member.faults += 1;
            }
            _ => {}
        }
    }

    /// Takes up to three records of each stream and holds the last one until the next call.
    fn take(&mut self, at: usize) -> Result<(), TestCaseError> {
        for reader in &mut self.members[at].readers {
            for _ in 0..3 {
                let Some(record) = reader.inbox.take() else { break };
                let slot = record.number();
                if reader.from == EVIL {
                    // The content is unknown, but all of it must be readable.
                    let _: u64 = record.bytes().iter().map(|byte| u64::from(*byte)).sum();
                } else {
                    prop_assert_eq!(
                        slot,
                        reader.next.unwrap_or(slot),
                        "a record is lost or duplicated"
                    );
                    prop_assert_eq!(record.bytes(), content_of(reader.from as u64, slot));
                    reader.next = Some(slot + 1);
                }
                reader.held = Some(record);
            }
        }
        Ok(())
    }

    fn write(&mut self, at: usize) {
        let member = &mut self.members[at];
        let content = content_of(at as u64, member.written);
        if let Ok(mut claim) = member.memory.claim(content.len()) {
            claim.bytes().copy_from_slice(&content);
            claim.commit(content.len(), |_, _| {});
            member.written += 1;
        }
    }

    fn change(&mut self, region: u8, word: u32, how: WordChange) {
        let regions = &self.members[EVIL].regions;
        let region = &regions[usize::from(region) % regions.len()].1;
        // Nearly all important words are at the start: headers, counts, rings, the first lines.
        let words = region.words() as u32;
        let word = if word.is_multiple_of(8) { word % words } else { word % words.min(64) };
        let was = region.load(word as usize);
        let value = match how {
            WordChange::Value(value) => value,
            WordChange::Small(value) => u64::from(value),
            WordChange::Bit(bit) => was ^ 1 << (bit % 64),
            WordChange::Add(more) => was.wrapping_add(u64::from(more)),
        };
        store(region, word as usize, value);
    }

    /// Returns the position of a node in another node's stream.
    fn taken(&self, at: usize, from: usize) -> Option<u64> {
        self.members[at].readers.iter().find(|reader| reader.from == from)?.next
    }

    /// Checks that the good nodes continue: everything that they write is taken.
    fn settles(&mut self, pairs: &[(usize, usize)]) -> Result<(), TestCaseError> {
        for (_, from) in pairs {
            let goal = self.members[*from].written + 40;
            let mut turns = 0;
            while self.members[*from].written < goal {
                self.write(*from);
                GOOD.iter().try_for_each(|&node| self.turn(node))?;
                turns += 1;
                prop_assert!(turns < PATIENCE, "the stream of node {} makes no progress", from);
            }
        }
        for _ in 0..PATIENCE {
            GOOD.iter().try_for_each(|&node| self.turn(node))?;
        }
        for &(at, from) in pairs {
            prop_assert_eq!(self.taken(at, from), Some(self.members[from].written));
        }
        Ok(())
    }
}

/// Stores to a word of the evil node.
fn store(region: &Replica, word: usize, value: u64) {
    // SAFETY: the memory is on the heap, and this thread, the only one, has no slice of a claim or
    // of a record here.
    unsafe { region.word(word) }.publish(value);
}

#[derive(Clone, Copy, Debug)]
enum WordChange {
    Value(u64),
    Small(u8),
    Bit(u8),
    Add(u8),
}

#[derive(Clone, Debug)]
enum GarbageStep {
    Turn(usize),
    Write(usize),
    Word(u8, u32, WordChange),
    Bytes(usize, Vec<u8>),
    Note(usize, u8, [u64; 4]),
}

fn change() -> impl Strategy<Value = WordChange> {
    prop_oneof![
        any::<u64>().prop_map(WordChange::Value),
        any::<u8>().prop_map(WordChange::Small),
        any::<u8>().prop_map(WordChange::Bit),
        any::<u8>().prop_map(WordChange::Add),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    // Names in use, and the limits of all ranges.
    let lines = ACK_LINES as u64;
    let known = prop::sample::select(vec![ACKS.0, 16, 16, 17, lines - 1, lines, 1 << 20, u64::MAX]);
    prop_oneof![2 => 0_u64..20, 4 => known, 1 => any::<u64>()]
}

fn step() -> impl Strategy<Value = GarbageStep> {
    prop_oneof![
        4 => (0..2_usize).prop_map(GarbageStep::Turn),
        3 => (0..2_usize).prop_map(GarbageStep::Write),
        4 => (any::<u8>(), any::<u32>(), change()).prop_map(|(r, w, c)| GarbageStep::Word(r, w, c)),
        1 => (0..2_usize, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(to, bytes)| GarbageStep::Bytes(to, bytes)),
        2 => (0..2_usize, 0..9_u8, [number(), number(), number(), number()])
            .prop_map(|(to, tag, numbers)| GarbageStep::Note(to, tag, numbers)),
    ]
}

/// Encodes a note of this kind with these numbers.
fn bytes_of(tag: u8, numbers: [u64; 4], quiet: RegionId) -> Vec<u8> {
    let [reader, stream, acks, line] = numbers;
    // The second node's stream must stay free of the evil one, so that its progress is visible.
    let stream = RegionId(if stream == quiet.0 { 0 } else { stream });
    let note = match tag {
        0 => Note::Announce { id: reader, bytes: Vec::new() },
        1 => Note::Retract { id: reader },
        2 | 3 => {
            let tethered = line % 3 > 0;
            Note::Attach { reader, entity: reader, stream, acks: RegionId(acks), line, tethered }
        }
        4 => Note::Accept { reader, entry: line, message: line },
        5 => Note::End { reader, entry: line },
        6 => Note::Detach { reader, stream },
        7 => Note::Detached { reader },
        _ => return vec![tag],
    };
    note.encode()
}

fn run(rounds: usize, steps: &[GarbageStep]) -> Result<TestGroup, TestCaseError> {
    let mut bus = TestGroup::new();
    for _ in 0..rounds {
        for node in 0..3 {
            bus.write(node);
            bus.turn(node)?;
        }
    }
    // From here on the evil one acts arbitrarily, and no longer as a node.
    for step in steps {
        match step {
            GarbageStep::Turn(node) => bus.turn(*node)?,
            GarbageStep::Write(node) => bus.write(*node),
            GarbageStep::Word(region, word, how) => bus.change(*region, *word, *how),
            GarbageStep::Bytes(to, bytes) => bus.note(EVIL, *to, bytes.clone()),
            GarbageStep::Note(to, tag, numbers) => {
                // Each node has its own names of streams, which are equal.
                let quiet = if *to == 1 { bus.members[1].stream } else { RegionId(u64::MAX) };
                bus.note(EVIL, *to, bytes_of(*tag, *numbers, quiet));
            }
        }
    }
    Ok(bus)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn correct_nodes_survive_arbitrary_words_and_notes_of_a_peer(
        rounds in 0_usize..12,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut bus = run(rounds, &steps)?;
        // While the evil one is still there, a stream that it does not read continues.
        bus.settles(&[(0, 1)])?;
        // When it is gone, all streams continue.
        for node in GOOD {
            let evidence = Evidence::Certain;
            let down = LinkEvent::PeerDown { peer: peer(EVIL), evidence };
            bus.members[node].inbox.push_back(down);
        }
        bus.settles(&[(0, 1), (1, 0)])?;
        for node in GOOD {
            let readers = bus.members[node].node.readers(bus.members[node].stream);
            prop_assert_eq!(readers, 1, "only the other good node is left");
        }
    }

    #[test]
    fn decoded_note_of_random_bytes_encodes_to_the_same_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        if let Some(note) = Note::decode(&bytes) {
            prop_assert_eq!(note.encode(), bytes);
        }
    }
}

/// A reader with nonsense acknowledgements is reported, and no longer counts.
#[test]
fn reader_with_invalid_acknowledgements_is_dropped_and_reported() {
    let mut bus = run(8, &[]).unwrap();
    let stream = bus.members[0].stream;
    assert_eq!(bus.members[0].node.readers(stream), 2);
    // A busy turn need not check the acknowledgements of readers.
    (0..3).for_each(|_| bus.turn(0).unwrap());
    let acks = bus.members[EVIL].regions[0].1.clone();
    (0..ACKS_WORDS).for_each(|word| store(&acks, word, 0x1234_5678_9abc_def0));
    (0..3).for_each(|_| bus.turn(0).unwrap());
    assert_eq!(bus.members[0].faults, 1);
    assert_eq!(bus.members[0].node.readers(stream), 1);
    bus.settles(&[(0, 1), (1, 0)]).unwrap();
}

#[test]
fn writer_with_invalid_entries_is_dropped_and_reported() {
    let mut bus = run(8, &[]).unwrap();
    let region = bus.members[EVIL].regions[1].1.clone();
    // A correct stamp, and a position behind the end.
    let sent = bus.members[EVIL].memory.committed();
    let word = tiny().entry_word(sent);
    let stamp = (sent | 1 << 31) << 32;
    store(&region, word, stamp | (1 << 30) | 0x3fff_ffff);
    store(&region, word + 1, stamp | 64);
    GOOD.iter().for_each(|&node| bus.turn(node).unwrap());
    assert!(GOOD.iter().all(|&node| bus.members[node].faults == 1));
    bus.settles(&[(0, 1), (1, 0)]).unwrap();
}

#[test]
fn peer_with_more_attach_requests_than_lines_is_dropped() {
    let mut bus = run(8, &[]).unwrap();
    for reader in 1000..1000 + ACK_LINES as u64 + 1 {
        // A region that never comes: the node would have to remember all of these requests.
        let (stream, acks) = (bus.members[0].stream, RegionId(7777));
        let note = Note::Attach { reader, entity: reader, stream, acks, line: 0, tethered: true };
        bus.note(EVIL, 0, note.encode());
    }
    bus.turn(0).unwrap();
    assert_eq!(bus.members[0].faults, 1);
    bus.settles(&[(0, 1), (1, 0)]).unwrap();
}
