//! A few nodes in one process, with a network that does nothing by itself.
//!
//! Owns: the machines, their regions, and posted but undelivered writes. Never does: deliver, turn
//! or fail anything unless the test asks for it.

use std::collections::{BTreeMap, VecDeque};

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Evidence, LinkEvent, Sharing, WordRange};
use derecho_core::machine::{Effects, Machine, PostKind, Work};
use derecho_core::memory::OwnRegion;
use derecho_core::sst::{Scope, Sst, Strategy, Table, TableRow};

pub(crate) struct Node<R: TableRow> {
    pub(crate) sst: Sst<R>,
    pub(crate) own: BTreeMap<RegionId, OwnRegion>,
    up: bool,
}

/// Nodes by index; node `i` knows node `j` as `Peer(j)`.
pub(crate) struct Rig<R: TableRow> {
    pub(crate) nodes: Vec<Node<R>>,
    sharing: Sharing,
    /// A reader's view of an owner's region, by (owner, reader): the memory itself, or a copy.
    seen: BTreeMap<(usize, usize, RegionId), OwnRegion>,
    posted: BTreeMap<(usize, usize), VecDeque<(RegionId, WordRange)>>,
    /// Number of writes posted since the start, and the work of the last turn.
    pub(crate) writes: usize,
    pub(crate) work: Work,
}

pub(crate) type Setup<R> = Box<dyn FnOnce(&mut Scope<'_, R>) + Send>;

pub(crate) fn no_setup<R: TableRow>(_: usize) -> Setup<R> {
    Box::new(|_| {})
}

pub(crate) fn id(index: usize) -> NodeId {
    NodeId(100 + index as u128)
}

impl<R: TableRow> Rig<R> {
    /// Creates nodes that have not met.
    pub(crate) fn apart(
        count: usize,
        sharing: Sharing,
        initial: impl Fn(usize) -> R,
        mut setup: impl FnMut(usize) -> Setup<R>,
    ) -> Rig<R> {
        let region = Sst::<R>::region(0);
        let nodes = (0..count)
            .map(|index| {
                let own = OwnRegion::heap(Sst::<R>::REGION_WORDS);
                let (setup, initial) = (setup(index), initial(index));
                let sst = Sst::new(id(index), own.clone(), count, Strategy::Writes, initial, setup);
                Node { sst, own: BTreeMap::from([(region, own)]), up: true }
            })
            .collect();
        let (seen, posted) = (BTreeMap::new(), BTreeMap::new());
        Rig { nodes, sharing, seen, posted, writes: 0, work: Work::default() }
    }

    /// Creates nodes whose tables have started and are at rest.
    pub(crate) fn started(
        count: usize,
        sharing: Sharing,
        initial: impl Fn(usize) -> R,
        setup: impl FnMut(usize) -> Setup<R>,
    ) -> Rig<R> {
        let mut rig = Rig::apart(count, sharing, initial, setup);
        rig.meet();
        rig.settle();
        assert!(rig.nodes.iter().all(|node| node.sst.table().is_some()), "all tables started");
        rig
    }

    /// Makes all nodes meet, and see the open regions.
    pub(crate) fn meet(&mut self) {
        for owner in 0..self.nodes.len() {
            for reader in 0..self.nodes.len() {
                if owner != reader {
                    let (peer, node, sharing) = (Peer(owner as u32), id(owner), self.sharing);
                    self.tell(reader, LinkEvent::PeerUp { peer, node, sharing, place: None });
                }
            }
        }
        self.announce(Sst::<R>::region(0));
    }

    /// Shows each node's region of that name to all other nodes.
    pub(crate) fn announce(&mut self, region: RegionId) {
        for owner in 0..self.nodes.len() {
            for reader in 0..self.nodes.len() {
                if owner != reader && self.nodes[owner].up && self.nodes[reader].up {
                    self.show(owner, reader, region);
                }
            }
        }
    }

    fn show(&mut self, owner: usize, reader: usize, region: RegionId) {
        let Some(own) = self.nodes[owner].own.get(&region) else { return };
        let seen = match self.sharing {
            Sharing::Shared => own.clone(),
            Sharing::Copied => OwnRegion::heap(own.words()),
        };
        let replica = seen.replica();
        self.seen.insert((owner, reader, region), seen);
        self.tell(reader, LinkEvent::RegionUp { peer: Peer(owner as u32), region, replica });
        self.tell(owner, LinkEvent::RegionReady { peer: Peer(reader as u32), region });
    }

    pub(crate) fn tell(&mut self, node: usize, event: LinkEvent) {
        let mut effects = Effects::new();
        self.nodes[node].sst.handle(event, &mut effects);
        self.take(node, effects);
    }

    /// Runs one turn of one node.
    pub(crate) fn turn(&mut self, node: usize) -> usize {
        let mut effects = Effects::new();
        let done = self.nodes[node].sst.turn(Time::default(), &mut effects);
        self.take(node, effects);
        done
    }

    /// Runs an application's step at one node.
    pub(crate) fn with<T>(&mut self, node: usize, f: impl FnOnce(&mut Scope<'_, R>) -> T) -> T {
        let mut effects = Effects::new();
        let result = self.nodes[node].sst.with_table(&mut effects, f).expect("the table started");
        self.take(node, effects);
        result
    }

    pub(crate) fn table(&self, node: usize) -> &Table<R> {
        self.nodes[node].sst.table().expect("the table started")
    }

    pub(crate) fn take(&mut self, from: usize, mut effects: Effects) {
        self.work = effects.work_done();
        for post in effects.take_posts() {
            if let PostKind::Write(region, range) = post.kind {
                self.writes += 1;
                let way = (from, post.peer.index());
                self.posted.entry(way).or_default().push_back((region, range));
            }
        }
    }

    /// Delivers the oldest write from one node to another: the source is read only now.
    pub(crate) fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some((region, range)) = self.posted.get_mut(&(from, to)).and_then(|q| q.pop_front())
        else {
            return false;
        };
        let seen = &self.seen[&(from, to, region)];
        for index in range.first..range.first + range.count {
            seen.word(index).publish(self.nodes[from].own[&region].word(index).load());
        }
        true
    }

    pub(crate) fn deliver_all(&mut self) {
        for (from, to) in self.posted.keys().copied().collect::<Vec<_>>() {
            while self.deliver(from, to) {}
        }
    }

    /// Returns a reader's view of an owner's region, for the test to overwrite.
    pub(crate) fn seen(&self, owner: usize, reader: usize) -> &OwnRegion {
        &self.seen[&(owner, reader, Sst::<R>::region(0))]
    }

    /// Delivers and turns until nothing happens any more.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            self.deliver_all();
            let live = (0..self.nodes.len()).filter(|&node| self.nodes[node].up);
            let done: usize = live.collect::<Vec<_>>().into_iter().map(|n| self.turn(n)).sum();
            if done == 0 && self.posted.values().all(VecDeque::is_empty) {
                return;
            }
        }
        panic!("the nodes do not come to rest");
    }

    /// Stops a node; its posts are lost, and the others learn of the stop.
    pub(crate) fn crash(&mut self, node: usize) {
        self.nodes[node].up = false;
        self.posted.retain(|way, _| way.0 != node && way.1 != node);
        for other in 0..self.nodes.len() {
            if other != node && self.nodes[other].up {
                let (peer, evidence) = (Peer(node as u32), Evidence::Certain);
                self.tell(other, LinkEvent::PeerDown { peer, evidence });
            }
        }
    }
}
