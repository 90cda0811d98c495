//! Machine of a table: its members, its start, and its reaction to a failed node.
//!
//! Owns: the gathering of members, the table, its predicates. Never does: open a region (the caller
//! opens it through the link and passes it in) or decide by itself that membership changes.
//!
//! ```text
//!   Gathering --all members' rows seen, and mine by all--> Running --rebuild(members)--> Gathering
//!
//!   header of a region   [fingerprint][gathered]     both are the row's fingerprint once they hold
//! ```
//! A table starts only when every member has said in its header that it has seen all rows (I-19).
//! The reason is that the post that first shows a row covers all words of the row and may read them
//! late. If it were still in flight, it could carry the new value of a guard to a peer that does
//! not have the guarded words yet.
//!
//! The set of rows is fixed while a table runs. When nodes join or leave, every member that stays
//! and every new member calls [`Sst::rebuild`] (or [`Sst::new`]) with the next generation and the
//! same members. The old table is torn down and a new one made, as in the paper.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::layout::TableRow;
use super::predicate::{Predicates, Scope};
use super::table::{HEADER, PeerRow, Table, region_words};
use crate::ids::{NodeId, Peer, Rank, RegionId, Time};
use crate::link::{LinkEvent, Sharing, WordRange};
use crate::machine::{Effects, Machine, Target};
use crate::memory::{OwnRegion, Replica};

/// How rows reach the other members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// SST-writes: the owner posts its pushes to all members.
    Writes,
    /// SST-reads: a push only stores; every member fetches the other rows with
    /// a [`super::Refresher`].
    Reads,
}

/// Reason why a table cannot start or go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SstError {
    /// A member's row has other columns than ours.
    RowMismatch {
        /// The member.
        node: NodeId,
        /// Fingerprint of our row.
        ours: u64,
        /// Fingerprint of the member's row.
        theirs: u64,
    },
    /// A member's region is shorter than its row needs.
    RegionTooShort {
        /// The member.
        node: NodeId,
        /// Number of words of the region.
        words: usize,
        /// Number of words that a row needs.
        needed: usize,
    },
    /// A member failed before the table could start.
    LostWhileGathering {
        /// The member.
        node: NodeId,
    },
}

impl fmt::Display for SstError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SstError::RowMismatch { node, ours, theirs } => write!(
                f,
                "the row of node {node} has other columns than ours (fingerprint {theirs:#x}, \
                 ours {ours:#x}): build all members from the same row! declaration"
            ),
            SstError::RegionTooShort { node, words, needed } => write!(
                f,
                "the row of node {node} has {words} words where {needed} are needed: build all \
                 members from the same row! declaration"
            ),
            SstError::LostWhileGathering { node } => {
                write!(f, "node {node} failed before the table was complete: gather again")
            }
        }
    }
}

impl core::error::Error for SstError {}

/// Word of a region that says that its owner has seen all members' rows.
const GATHERED: usize = 1;

/// Members that the table waits for.
enum ExpectedMembers {
    /// The first `n` nodes that meet.
    Count(usize),
    /// Exactly these nodes.
    Members(Vec<NodeId>),
}

struct GatheredPeer {
    node: NodeId,
    sharing: Sharing,
    replicas: BTreeMap<RegionId, Replica>,
    ready: Vec<RegionId>,
    announced: bool,
}

type Setup<R> = Box<dyn FnOnce(&mut Scope<'_, R>) + Send>;
type OnFailure<R> = Box<dyn FnMut(&mut Scope<'_, R>, Rank) + Send>;

/// A shared state table with its predicates, as a machine.
pub struct Sst<R: TableRow> {
    me: NodeId,
    strategy: Strategy,
    expected: ExpectedMembers,
    region: RegionId,
    own_region: OwnRegion,
    initial: R,
    /// Whether this node has said that it has seen all members' rows.
    gathered: bool,
    setup: Option<Setup<R>>,
    on_failure: Option<OnFailure<R>>,
    known_peers: BTreeMap<Peer, GatheredPeer>,
    members: Vec<NodeId>,
    table: Option<Table<R>>,
    predicates: Predicates<R>,
    error: Option<SstError>,
}

impl<R: TableRow> Sst<R> {
    /// Number of words of the region that the caller opens for a row.
    pub const REGION_WORDS: usize = region_words::<R>();

    /// Returns the name of the region for this generation of the table. Each rebuild increments
    /// the generation.
    pub const fn region(generation: u32) -> RegionId {
        RegionId(0x5353_5400_0000_0000 | generation as u64)
    }

    /// Creates a table of the first `members` nodes that meet, including this one; they are ranked
    /// by node id. `own` is this node's region of [`Sst::REGION_WORDS`] words, opened as
    /// [`Sst::region`]`(0)`. `setup` runs once when the table starts, to register predicates.
    pub fn new(
        me: NodeId,
        own_region: OwnRegion,
        members: usize,
        strategy: Strategy,
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
    ) -> Self {
        assert!(members >= 1, "a table has at least the own row");
        Self::gather(
            me,
            own_region,
            0,
            ExpectedMembers::Count(members),
            strategy,
            initial,
            Box::new(setup),
        )
    }

    /// Creates a table of exactly these nodes in the given generation: for a node that joins others
    /// when they rebuild their table. `own` was opened as [`Sst::region`]`(generation)`.
    pub fn with_members(
        me: NodeId,
        own_region: OwnRegion,
        generation: u32,
        members: &[NodeId],
        strategy: Strategy,
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
    ) -> Self {
        let founding = ExpectedMembers::Members(members.to_vec());
        Self::gather(me, own_region, generation, founding, strategy, initial, Box::new(setup))
    }

    fn gather(
        me: NodeId,
        own_region: OwnRegion,
        generation: u32,
        founding: ExpectedMembers,
        strategy: Strategy,
        initial: R,
        setup: Setup<R>,
    ) -> Self {
        // Peers that share memory read the region as it is; the fingerprint vouches for the row.
        initial.put(&mut |index, word| own_region.word(HEADER + index).put(word));
        own_region.word(0).publish(R::FINGERPRINT);
        Sst {
            me,
            strategy,
            expected: founding,
            region: Self::region(generation),
            own_region,
            initial,
            gathered: false,
            setup: Some(setup),
            on_failure: None,
            known_peers: BTreeMap::new(),
            members: Vec::new(),
            table: None,
            predicates: Predicates::new(),
            error: None,
        }
    }

    /// Tears the table down and gathers its next generation, with these members. `own` was opened
    /// as [`Sst::region`]`(generation)`; the own row starts as `initial`. All members call this
    /// with the same generation and members. `setup` registers all predicates again.
    pub fn rebuild(
        &mut self,
        own_region: OwnRegion,
        generation: u32,
        members: &[NodeId],
        initial: R,
        setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
        effects: &mut Effects,
    ) {
        let known = core::mem::take(&mut self.known_peers);
        let on_failure = self.on_failure.take();
        let founding = ExpectedMembers::Members(members.to_vec());
        let setup = Box::new(setup);
        *self =
            Self::gather(self.me, own_region, generation, founding, self.strategy, initial, setup);
        self.known_peers = known;
        self.on_failure = on_failure;
        for known in self.known_peers.values_mut() {
            known.announced = false;
        }
        self.announce(effects);
    }

    /// Registers a function that is called when a member fails, after the member's row was frozen.
    pub fn on_failure(&mut self, upcall: impl FnMut(&mut Scope<'_, R>, Rank) + Send + 'static) {
        self.on_failure = Some(Box::new(upcall));
    }

    /// Returns the table, once it has started.
    pub fn table(&self) -> Option<&Table<R>> {
        self.table.as_ref()
    }

    /// Members of the table, by rank; empty before the table has started.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// Number of registered predicates.
    pub fn predicate_count(&self) -> usize {
        self.predicates.len()
    }

    /// Returns the reason why the table cannot start or go on, if there is one.
    pub fn error(&self) -> Option<&SstError> {
        self.error.as_ref()
    }

    /// Runs a step of the application on the table, like a trigger; its pushes leave with
    /// `effects`. `None` before the table has started.
    pub fn with_table<T>(
        &mut self,
        effects: &mut Effects,
        f: impl FnOnce(&mut Scope<'_, R>) -> T,
    ) -> Option<T> {
        let table = self.table.as_mut()?;
        let result = self.predicates.scope(table, f);
        table.flush(effects);
        Some(result)
    }

    /// Shows the own row to every peer that can receive it and has not received it.
    fn announce(&mut self, effects: &mut Effects) {
        if self.strategy == Strategy::Reads {
            return;
        }
        for (&peer, known) in &mut self.known_peers {
            if known.announced || !known.ready.contains(&self.region) {
                continue;
            }
            known.announced = true;
            let target = Target { peer, sharing: known.sharing };
            // I-1: the row first, then the fingerprint that vouches for it.
            effects.write(target, self.region, WordRange::new(HEADER, R::WORDS));
            effects.write(target, self.region, WordRange::new(0, 1));
        }
    }

    /// Whether this peer's row can be read and written to: `Ok(false)` until it has arrived. A row
    /// with other columns is an error (I-18).
    fn usable(&self, gathered: &GatheredPeer) -> Result<bool, SstError> {
        let Some(replica) = gathered.replicas.get(&self.region) else { return Ok(false) };
        let (words, needed, node) = (replica.words(), Self::REGION_WORDS, gathered.node);
        if words < needed {
            return Err(SstError::RegionTooShort { node, words, needed });
        }
        let theirs = replica.load(0);
        if theirs != 0 && theirs != R::FINGERPRINT {
            return Err(SstError::RowMismatch { node, ours: R::FINGERPRINT, theirs });
        }
        Ok(theirs == R::FINGERPRINT
            && (self.strategy == Strategy::Reads || gathered.ready.contains(&self.region)))
    }

    /// Starts the table if all its members are present.
    fn try_start(&mut self, effects: &mut Effects) -> Result<bool, SstError> {
        let mut usable = Vec::new();
        for (&peer, known) in &self.known_peers {
            if self.usable(known)? {
                usable.push((known.node, peer));
            }
        }
        let mut members: Vec<NodeId> = match &self.expected {
            ExpectedMembers::Members(members) => members.clone(),
            ExpectedMembers::Count(count) => {
                let others = usable.iter().map(|&(node, _)| node);
                let mut nodes: Vec<NodeId> = others.chain([self.me]).collect();
                nodes.sort_unstable();
                if nodes.len() < *count {
                    return Ok(false);
                }
                nodes.truncate(*count);
                nodes
            }
        };
        members.dedup();
        let mut rows = Vec::with_capacity(members.len());
        for node in &members {
            if *node == self.me {
                rows.push(None);
                continue;
            }
            let Some(&(_, peer)) = usable.iter().find(|(other, _)| other == node) else {
                return Ok(false);
            };
            let known = &self.known_peers[&peer];
            let target = Target { peer, sharing: known.sharing };
            let replica = known.replicas[&self.region].clone();
            rows.push(Some(PeerRow { target, replica, frozen: None }));
        }
        let Some(me) = members.iter().position(|node| *node == self.me) else { return Ok(false) };
        if !self.gathered {
            self.gathered = true;
            self.own_region.word(GATHERED).publish(R::FINGERPRINT);
            for row in rows.iter().flatten().filter(|_| self.strategy == Strategy::Writes) {
                effects.write(row.target, self.region, WordRange::new(GATHERED, 1));
            }
        }
        if rows.iter().flatten().any(|row| row.replica.load(GATHERED) != R::FINGERPRINT) {
            return Ok(false);
        }
        let posts = self.strategy == Strategy::Writes;
        let me = Rank(me as u16);
        let mut table =
            Table::new(self.own_region.clone(), self.region, me, rows, posts, self.initial);
        if let Some(setup) = self.setup.take() {
            self.predicates.scope(&mut table, setup);
        }
        table.flush(effects);
        self.table = Some(table);
        self.members = members;
        Ok(true)
    }

    fn peer_down(&mut self, peer: Peer, effects: &mut Effects) {
        let Some(known) = self.known_peers.remove(&peer) else { return };
        let Some(table) = &mut self.table else {
            if let ExpectedMembers::Members(members) = &self.expected
                && members.contains(&known.node)
            {
                self.error = Some(SstError::LostWhileGathering { node: known.node });
            }
            return;
        };
        let Some(rank) = table.rank_of(peer) else { return };
        table.freeze(rank);
        if let Some(upcall) = &mut self.on_failure {
            self.predicates.scope(table, |scope| upcall(scope, rank));
        }
        table.flush(effects);
    }
}

impl<R: TableRow> Machine for Sst<R> {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        match event {
            LinkEvent::PeerUp { peer, node, sharing, .. } => {
                let (replicas, ready) = (BTreeMap::new(), Vec::new());
                let known = GatheredPeer { node, sharing, replicas, ready, announced: false };
                self.known_peers.insert(peer, known);
            }
            LinkEvent::RegionUp { peer, region, replica } => {
                if let Some(known) = self.known_peers.get_mut(&peer) {
                    known.replicas.insert(region, replica);
                }
            }
            LinkEvent::RegionDown { peer, region } => {
                if let Some(known) = self.known_peers.get_mut(&peer) {
                    known.replicas.remove(&region);
                }
            }
            LinkEvent::RegionReady { peer, region } => {
                if let Some(known) = self.known_peers.get_mut(&peer) {
                    known.ready.push(region);
                }
                self.announce(effects);
            }
            LinkEvent::PeerDown { peer, .. } => self.peer_down(peer, effects),
            LinkEvent::Note { .. } | LinkEvent::ReadDone { .. } => {}
        }
    }

    fn turn(&mut self, _now: Time, effects: &mut Effects) -> usize {
        if self.error.is_some() {
            return 0;
        }
        let Some(table) = &mut self.table else {
            return match self.try_start(effects) {
                Ok(started) => usize::from(started),
                Err(error) => {
                    self.error = Some(error);
                    // The error is progress for which a caller may be waiting.
                    1
                }
            };
        };
        let fired = self.predicates.evaluate(table, effects);
        table.flush(effects);
        fired
    }
}
