//! Words on the way: posted writes and reads that have not all landed.
//!
//! Owns: the moment at which each word is read at its source and at which it lands. Never does: let
//! a word of a write land before the last word of the previous write.
//!
//! ```text
//!   short         all read at the post
//!   adversarial   post ........[ piece 2 .. piece 0 .. piece 1 ]   each piece read at some
//!                              ^ not before the write before      moment from the post on
//!   costed        post, egress port: all read, wire, ingress port: all land
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use derecho_core::link::{INLINE_WORDS, LinkEvent, ReadId, WordRange};
use derecho_core::memory::{OwnRegion, Replica};

use super::{Event, Network, NetworkStep, PendingRead, bytes_of};
use crate::link::NetworkMode;

/// Maximum number of words of a transfer that move individually; longer transfers move in this many
/// random groups.
const PIECES_LIMIT: usize = 64;

/// Lane of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// Posted by the sender.
    Write,
    /// Requested by the receiver.
    Read,
}

/// Position of a transfer. Invalid once the lane has a newer plan.
#[derive(Clone, Copy)]
pub(super) struct TransferRef {
    from: usize,
    to: usize,
    lane: LaneKind,
    plan: u32,
    number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceStage {
    Posted,
    Read,
    Landed,
}

/// Words that are read and land together.
struct Piece {
    /// Indexes among the transfer's ordered words.
    words: Range<usize>,
    stage: PieceStage,
}

/// A posted write or read.
pub(super) struct Transfer {
    source: Replica,
    target: OwnRegion,
    range: WordRange,
    /// The words as they were read.
    values: Vec<u64>,
    /// Order of the words, with those of one piece side by side; empty if they are in their
    /// natural order.
    order: Vec<usize>,
    pieces: Vec<Piece>,
    left: usize,
    /// True once the transfer has left its sender's port (costed).
    departed: bool,
    read: Option<ReadId>,
}

impl Transfer {
    pub(super) fn new(
        source: Replica,
        target: OwnRegion,
        range: WordRange,
        read: Option<ReadId>,
    ) -> Transfer {
        Transfer {
            source,
            target,
            range,
            values: vec![0; range.count],
            order: Vec::new(),
            pieces: Vec::new(),
            left: 0,
            departed: false,
            read,
        }
    }

    /// Returns the word at this place of the order.
    fn word_at(&self, place: usize) -> usize {
        self.order.get(place).copied().unwrap_or(place)
    }

    fn read_piece(&mut self, piece: usize) {
        for place in self.pieces[piece].words.clone() {
            let word = self.word_at(place);
            self.values[word] = self.source.load(self.range.first + word);
        }
        self.pieces[piece].stage = PieceStage::Read;
    }
}

/// Transfers of one kind from one node to another, oldest first.
#[derive(Default)]
pub(super) struct Lane {
    transfers: VecDeque<Transfer>,
    /// Number of the oldest transfer.
    first: u64,
    plan: u32,
    last_landing: u64,
    last_ingress: u64,
}

impl Lane {
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty()
    }

    pub(super) fn last_landing(&self) -> u64 {
        self.last_landing
    }

    /// Invalidates every pending event of this lane.
    pub(super) fn void(&mut self) {
        self.plan += 1;
    }

    /// Drops everything that has not landed.
    pub(super) fn purge(&mut self) {
        self.void();
        self.first += self.transfers.len() as u64;
        self.transfers.clear();
    }

    fn get(&mut self, transfer_ref: TransferRef) -> Option<&mut Transfer> {
        if self.plan != transfer_ref.plan {
            return None;
        }
        let index = usize::try_from(transfer_ref.number.checked_sub(self.first)?).ok()?;
        self.transfers.get_mut(index)
    }
}

impl Network {
    fn lane(&mut self, from: usize, to: usize, lane_kind: LaneKind) -> &mut Lane {
        let channel = &mut self.channels[from][to];
        match lane_kind {
            LaneKind::Write => &mut channel.writes,
            LaneKind::Read => &mut channel.reads,
        }
    }

    fn transfer(&mut self, transfer_ref: TransferRef) -> Option<&mut Transfer> {
        self.lane(transfer_ref.from, transfer_ref.to, transfer_ref.lane).get(transfer_ref)
    }

    fn way_is_open(&self, from: usize, to: usize, lane_kind: LaneKind) -> bool {
        // A read needs the direction of its request, too.
        !self.channels[from][to].cut
            && (lane_kind == LaneKind::Write || !self.channels[to][from].cut)
    }

    pub(super) fn post_transfer(&mut self, from: usize, to: usize, mut transfer: Transfer) {
        self.split(&mut transfer);
        transfer.left = transfer.pieces.len();
        if transfer.read.is_none() && transfer.range.count <= INLINE_WORDS {
            (0..transfer.pieces.len()).for_each(|piece| transfer.read_piece(piece));
        }
        let lane_kind = if transfer.read.is_some() { LaneKind::Read } else { LaneKind::Write };
        let lane = self.lane(from, to, lane_kind);
        lane.transfers.push_back(transfer);
        let number = lane.first + lane.transfers.len() as u64 - 1;
        let plan = lane.plan;
        if self.way_is_open(from, to, lane_kind) {
            self.plan(TransferRef { from, to, lane: lane_kind, plan, number });
        }
    }

    /// Decides which words move together.
    fn split(&mut self, transfer: &mut Transfer) {
        let count = transfer.range.count;
        let pieces = match self.mode {
            NetworkMode::Costed => 1,
            NetworkMode::Adversarial(_) => count.clamp(1, PIECES_LIMIT),
        };
        if pieces > 1 && pieces < count {
            // Shuffled, so that a piece consists of arbitrary words and not of neighbours.
            transfer.order = (0..count).collect();
            for place in (1..count).rev() {
                transfer.order.swap(place, self.random.below(place as u64 + 1) as usize);
            }
        }
        let bound = |piece: usize| piece * count / pieces;
        transfer.pieces = (0..pieces)
            .map(|piece| Piece { words: bound(piece)..bound(piece + 1), stage: PieceStage::Posted })
            .collect();
    }

    /// Gives every transfer of a reopened lane new moments.
    pub(super) fn replan(&mut self, from: usize, to: usize, lane_kind: LaneKind) {
        if !self.way_is_open(from, to, lane_kind) {
            return;
        }
        let lane = self.lane(from, to, lane_kind);
        lane.last_landing = 0;
        lane.last_ingress = 0;
        let (plan, first, count) = (lane.plan, lane.first, lane.transfers.len() as u64);
        for number in first..first + count {
            self.plan(TransferRef { from, to, lane: lane_kind, plan, number });
        }
    }

    fn plan(&mut self, transfer_ref: TransferRef) {
        match self.mode {
            NetworkMode::Adversarial(_) => self.plan_adversely(transfer_ref),
            NetworkMode::Costed if transfer_ref.lane == LaneKind::Read => {
                let at = self.now + self.costs.request_ns(transfer_ref.to, transfer_ref.from);
                self.schedule(at, Event::Queue { spot: transfer_ref });
            }
            NetworkMode::Costed => {
                self.queue_for_egress(transfer_ref);
            }
        }
    }

    fn plan_adversely(&mut self, transfer_ref: TransferRef) {
        let NetworkMode::Adversarial(adversary) = &self.mode else { return };
        let spread = adversary.spread_ns;
        let arrival =
            self.now.saturating_add(self.adverse_delay(transfer_ref.from, transfer_ref.to));
        let lane = self.lane(transfer_ref.from, transfer_ref.to, transfer_ref.lane);
        // Reads, too: values fetched by an older read must not land over those of a newer one.
        let begin = arrival.max(lane.last_landing);
        // A lane that falls behind becomes faster, so that delays stay as drawn.
        let spread = spread / lane.transfers.len().max(1) as u64;
        let Some(transfer) = lane.get(transfer_ref) else { return };
        let pieces = std::mem::take(&mut transfer.pieces);
        let mut last = begin;
        for (piece, &Piece { stage, .. }) in pieces.iter().enumerate() {
            if stage == PieceStage::Landed {
                continue;
            }
            let landing = begin.saturating_add(self.random.between(0, spread));
            last = last.max(landing);
            if stage == PieceStage::Posted {
                let source = match self.random.below(4) {
                    0 => self.now,
                    1 => landing,
                    _ => self.random.between(self.now, landing),
                };
                self.schedule(source, Event::Source { spot: transfer_ref, piece });
            }
            self.schedule(landing, Event::Land { spot: transfer_ref, piece });
        }
        let lane = self.lane(transfer_ref.from, transfer_ref.to, transfer_ref.lane);
        lane.last_landing = lane.last_landing.max(last);
        if let Some(transfer) = lane.get(transfer_ref) {
            transfer.pieces = pieces;
        }
    }

    /// Queues a costed transfer at its sender's port.
    pub(super) fn queue_for_egress(&mut self, transfer_ref: TransferRef) -> NetworkStep {
        let Some(transfer) = self.transfer(transfer_ref) else { return NetworkStep::Unseen };
        let bytes = bytes_of(transfer.range);
        let busy = self.costs.transmit_ns(bytes, transfer_ref.from, transfer_ref.to);
        let port = &mut self.nodes[transfer_ref.from].egress_free_at;
        let at = self.now.max(*port);
        *port = at + busy;
        self.schedule(at, Event::Depart { spot: transfer_ref });
        NetworkStep::Unseen
    }

    /// Sends a costed transfer: its source is read now.
    pub(super) fn depart(&mut self, transfer_ref: TransferRef) -> NetworkStep {
        let Some(transfer) = self.transfer(transfer_ref) else { return NetworkStep::Unseen };
        transfer.departed = true;
        if transfer.pieces[0].stage == PieceStage::Posted {
            transfer.read_piece(0);
        }
        let bytes = bytes_of(transfer.range);
        let busy = self.costs.transmit_ns(bytes, transfer_ref.from, transfer_ref.to);
        let latency = match transfer_ref.lane {
            LaneKind::Write => {
                self.costs.write_latency_ns(bytes, transfer_ref.from, transfer_ref.to)
            }
            LaneKind::Read => {
                let whole = self.costs.read_latency_ns(bytes, transfer_ref.to, transfer_ref.from);
                whole
                    .saturating_sub(self.costs.request_ns(transfer_ref.to, transfer_ref.from))
                    .max(busy)
            }
        };
        let first_bytes = self.now + latency - busy;
        let lane = self.lane(transfer_ref.from, transfer_ref.to, transfer_ref.lane);
        let at = first_bytes.max(lane.last_ingress);
        lane.last_ingress = at;
        self.schedule(at, Event::Ingress { spot: transfer_ref });
        NetworkStep::Unseen
    }

    /// Passes a costed transfer through the receiver's port when that is free.
    pub(super) fn ingress(&mut self, transfer_ref: TransferRef) -> NetworkStep {
        let Some(transfer) = self.transfer(transfer_ref) else { return NetworkStep::Unseen };
        let bytes = bytes_of(transfer.range);
        let busy = self.costs.transmit_ns(bytes, transfer_ref.from, transfer_ref.to);
        let port = &mut self.nodes[transfer_ref.to].ingress_free_at;
        let at = self.now.max(*port) + busy;
        *port = at;
        let lane = self.lane(transfer_ref.from, transfer_ref.to, transfer_ref.lane);
        lane.last_landing = at;
        self.schedule(at, Event::Land { spot: transfer_ref, piece: 0 });
        NetworkStep::Unseen
    }

    pub(super) fn read_source(&mut self, transfer_ref: TransferRef, piece: usize) -> NetworkStep {
        // Words that a crash has broken off were read at that moment and are not read again.
        if let Some(transfer) = self.transfer(transfer_ref)
            && transfer.pieces[piece].stage == PieceStage::Posted
        {
            transfer.read_piece(piece);
        }
        NetworkStep::Unseen
    }

    pub(super) fn land(&mut self, transfer_ref: TransferRef, piece: usize) -> NetworkStep {
        let oldest = self.lane(transfer_ref.from, transfer_ref.to, transfer_ref.lane).first;
        let Some(transfer) = self.transfer(transfer_ref) else { return NetworkStep::Unseen };
        assert!(transfer_ref.number == oldest, "a transfer lands before the one posted before it");
        let mut sum = transfer_ref.number.rotate_left(32) ^ piece as u64;
        let part = &transfer.pieces[piece];
        assert!(part.stage == PieceStage::Read, "a piece lands once, after its source was read");
        for place in part.words.clone() {
            let word = transfer.word_at(place);
            let value = transfer.values[word];
            transfer.target.word(transfer.range.first + word).publish(value);
            // Cheap, because there are many words; the sum is mixed well when it enters the trace.
            sum = (sum.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        transfer.pieces[piece].stage = PieceStage::Landed;
        transfer.left -= 1;
        let trace_kind = if transfer_ref.lane == LaneKind::Write { 4 } else { 5 };
        self.note_trace(&[trace_kind, transfer_ref.from as u64, transfer_ref.to as u64, sum]);
        self.retire(transfer_ref.from, transfer_ref.to, transfer_ref.lane);
        NetworkStep::Arrived(transfer_ref.to)
    }

    /// Removes completely landed transfers, oldest first, and reports the reads among them.
    fn retire(&mut self, from: usize, to: usize, lane_kind: LaneKind) {
        loop {
            let lane = self.lane(from, to, lane_kind);
            if lane.transfers.front().is_none_or(|transfer| transfer.left > 0) {
                return;
            }
            let read = lane.transfers.pop_front().and_then(|transfer| transfer.read);
            lane.first += 1;
            self.events += 1;
            if let Some(read) = read {
                let reading = self.nodes[to].reading.iter_mut();
                reading.filter(|reading| reading.read == read).for_each(|it| it.landed = true);
                self.tell_reads(to);
            }
        }
    }

    /// Reports landed reads to a node, up to the first that has not landed: reads complete in the
    /// order of posting, whichever peer they read from.
    fn tell_reads(&mut self, node: usize) {
        while self.nodes[node].reading.front().is_some_and(|reading| reading.landed) {
            if let Some(PendingRead { read, owner, .. }) = self.nodes[node].reading.pop_front() {
                let peer = self.handle(node, owner);
                self.tell(node, LinkEvent::ReadDone { peer, read });
            }
        }
    }

    /// Drops the reads from a node that is gone: they will not complete, and no longer hold up
    /// the others.
    pub(super) fn forget_reads(&mut self, node: usize, owner: usize) {
        self.nodes[node].reading.retain(|reading| reading.owner != owner);
        self.tell_reads(node);
    }

    /// Decides which writes of a dying node still land.
    ///
    /// In adversarial mode a random prefix, and a random part of the words of the next write; in
    /// costed mode everything that had left its port.
    pub(super) fn break_off_writes(&mut self, from: usize, to: usize) {
        let count = self.channels[from][to].writes.transfers.len();
        let whole = match self.mode {
            NetworkMode::Adversarial(_) => self.random.between(0, count as u64) as usize,
            NetworkMode::Costed => {
                let writes = &self.channels[from][to].writes.transfers;
                writes.iter().take_while(|transfer| transfer.departed).count()
            }
        };
        let torn = matches!(self.mode, NetworkMode::Adversarial(_)) && whole < count;
        let lane = &mut self.channels[from][to].writes;
        lane.transfers.truncate(whole + usize::from(torn));
        for (index, transfer) in lane.transfers.iter_mut().enumerate() {
            let torn = torn && index == whole;
            for piece in 0..transfer.pieces.len() {
                if transfer.pieces[piece].stage == PieceStage::Landed {
                    continue;
                }
                if torn && self.random.one_in(2) {
                    transfer.pieces[piece].words = 0..0;
                }
                // The node's memory is gone: words that will land have been read by now.
                if transfer.pieces[piece].stage == PieceStage::Posted {
                    transfer.read_piece(piece);
                }
            }
        }
    }
}
