//! Handling of peers: their notes, arrival and faults.
//!
//! Owns: the answer to each note, and the cleanup after a peer that is faulty or gone. Never does:
//! advance a subscription; [`settle`](super::settle) does, in the turn.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::reception::SubscriptionReceiver;
use super::{
    ACK_LINES, AttachRequest, MOST_MESSAGE_BYTES, Node, NodeEvent, PeerState, StreamOrigin,
    Subscription, SubscriptionStage,
};
use crate::ids::{Peer, RegionId};
use crate::link::Sharing;
use crate::machine::{Effects, Target};
use crate::multicast::PeerFault;
use crate::multicast::stream::{ReaderName, Stream, StreamStart};
use crate::note::Note;

/// Limit that no count of a correct node reaches: two weeks at a hundred million a second.
const MOST_COUNTED: u64 = 1 << 47;

impl Node {
    pub(super) fn note(&mut self, peer: Peer, bytes: &[u8], effects: &mut Effects) {
        let Some(note) = Note::decode(bytes) else {
            self.faulty(peer, PeerFault::Note);
            return;
        };
        match note {
            Note::Announce { id, bytes } => {
                self.events.push_back(NodeEvent::Announced { peer, id, bytes });
            }
            Note::Retract { id } => self.events.push_back(NodeEvent::Retracted { peer, id }),
            Note::Attach { reader, entity, stream, acks, line, tethered } => {
                let reader = ReaderName { subscription: reader, entity };
                self.attach_asked(peer, AttachRequest { reader, stream, acks, line, tethered });
            }
            Note::Accept { reader, entry, message } => {
                self.accepted(peer, reader, StreamStart { entry, message }, effects);
            }
            Note::End { reader, entry } => self.end_at(StreamOrigin::Peer(peer), reader, entry),
            Note::Detach { reader, stream } => {
                if let Some(state) = self.peers.get_mut(&peer) {
                    state.attaching.retain(|attach| attach.reader.subscription != reader);
                }
                let known = self.streams.iter_mut().find(|s| s.region() == stream);
                if !known.is_some_and(|stream| stream.dismiss(Some(peer), reader)) {
                    effects.note(peer, Note::Detached { reader }.encode());
                }
                self.unsettled = true;
            }
            Note::Fragment { left, bytes } => self.take_fragment(peer, left, bytes),
            Note::Detached { reader } => {
                let detached = |s: &Subscription| {
                    s.id.0 == reader
                        && s.origin == StreamOrigin::Peer(peer)
                        && s.stage == SubscriptionStage::Detaching
                };
                if let Some(index) = self.subscriptions.iter().position(detached) {
                    // I-11: the sender does not look at the line any more.
                    self.free_lines.push(self.subscriptions.swap_remove(index).line);
                }
            }
        }
    }

    /// Takes a fragment of a peer's message.
    fn take_fragment(&mut self, peer: Peer, left: u64, bytes: Vec<u8>) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        if left.saturating_add((state.fragments.len() + bytes.len()) as u64) > MOST_MESSAGE_BYTES {
            self.faulty(peer, PeerFault::Note);
            return;
        }
        state.fragments.extend(bytes);
        if left == 0 {
            let bytes = core::mem::take(&mut state.fragments);
            self.events.push_back(NodeEvent::Told { peer, bytes });
        }
    }

    /// Takes a peer's request to read a stream. A peer has [`ACK_LINES`] lines for such requests,
    /// and each subscription asks once.
    pub(super) fn attach_asked(&mut self, peer: Peer, attach: AttachRequest) {
        let members = self.streams.iter().flat_map(|stream| stream.all_readers());
        let (mut known, mut again) = (0, false);
        for member in members.filter(|member| member.peer() == Some(peer)) {
            let is_same = member.reader() == attach.reader.subscription;
            (known, again) = (known + 1, again || is_same);
        }
        let Some(state) = self.peers.get_mut(&peer).filter(|state| !state.shut_out) else { return };
        let is_same =
            |waiting: &AttachRequest| waiting.reader.subscription == attach.reader.subscription;
        again |= state.attaching.iter().any(is_same);
        // The sender must wait for a reader that has a copy instead of the memory itself.
        let reads_blind = !attach.tethered && state.sharing == Sharing::Copied;
        if again || reads_blind || known + state.attaching.len() >= ACK_LINES {
            self.faulty(peer, PeerFault::Note);
            return;
        }
        state.attaching.push(attach);
        self.unsettled = true;
    }

    pub(super) fn accepted(
        &mut self,
        peer: Peer,
        reader: u64,
        from: StreamStart,
        effects: &mut Effects,
    ) {
        let subscription = self.subscriptions.iter_mut().find(|s| {
            s.id.0 == reader && s.origin == StreamOrigin::Peer(peer) && s.is_unanswered()
        });
        if from.entry > MOST_COUNTED || from.message > MOST_COUNTED {
            self.faulty(peer, PeerFault::Note);
        } else if let Some(Subscription { id, stage, receiver: Some(receiver), .. }) = subscription
        {
            receiver.start(from, effects);
            if *stage == SubscriptionStage::AwaitsAccept {
                *stage = SubscriptionStage::Receiving;
                let inbox = receiver.inbox().cloned();
                self.events.extend(inbox.map(|inbox| NodeEvent::Subscribed(*id, inbox)));
            }
        }
    }

    /// Ends a stream for one of this node's subscriptions.
    pub(super) fn end_at(&mut self, origin: StreamOrigin, reader: u64, entry: u64) {
        let subscription =
            self.subscriptions.iter_mut().find(|s| s.id.0 == reader && s.origin == origin);
        if let Some(subscription) = subscription {
            match subscription.stage {
                SubscriptionStage::Receiving => {
                    subscription.stage = SubscriptionStage::Ending(entry)
                }
                SubscriptionStage::AwaitsHeader | SubscriptionStage::AwaitsAccept => {
                    (subscription.stage, subscription.receiver) =
                        (SubscriptionStage::Draining, None);
                    self.events.push_back(NodeEvent::Ended(subscription.id));
                }
                SubscriptionStage::Draining if subscription.is_unanswered() => {
                    subscription.receiver = None
                }
                SubscriptionStage::Ending(_)
                | SubscriptionStage::Draining
                | SubscriptionStage::Detaching => {}
            }
            self.unsettled = true;
        }
    }

    /// Excludes a peer that broke the rules: it is neither read nor awaited any more. Returns
    /// whether the peer was not known to be faulty.
    pub(super) fn faulty(&mut self, peer: Peer, fault: PeerFault) -> bool {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| !state.faulty) else {
            return false;
        };
        state.faulty = true;
        state.attaching.clear();
        self.events.push_back(NodeEvent::Faulty { peer, fault });
        self.forget(peer);
        self.leave_out(peer);
        true
    }

    /// Describes the readers of this node's unordered streams, readers that are not counted yet,
    /// and this node's subscriptions.
    pub fn describe(&self) -> String {
        use core::fmt::Write;
        let mut text = String::from("streams");
        for stream in &self.streams {
            let _ = write!(text, " {:?}: {:?}", stream.region(), stream.all_readers());
        }
        for (peer, state) in &self.peers {
            let PeerState { node, attaching, faulty, shut_out, .. } = state;
            let waiting: Vec<_> =
                attaching.iter().map(|it| (it.reader.subscription, it.stream)).collect();
            let _ = write!(text, "; {node} ({peer:?}): waiting {waiting:?}");
            let _ = write!(text, ", faulty {faulty}, shut out {shut_out}");
        }
        for Subscription { id, origin, stream, stage, .. } in &self.subscriptions {
            let _ = write!(text, "; {id:?} of {stream:?} at {origin:?}: {stage:?}");
        }
        text
    }

    /// Peers for which this node's streams wait, and that have received nothing since
    /// the last call.
    pub fn lagging_readers(&mut self) -> impl Iterator<Item = Peer> + '_ {
        self.streams.iter_mut().flat_map(Stream::lagging)
    }

    /// Whether a reader of this node's streams is awaited.
    pub fn awaits_readers(&self) -> bool {
        self.streams.iter().any(Stream::awaits_somebody)
    }

    /// Excludes a peer that takes part no more, although it may still run. Everything that it has
    /// shown so far is received, nothing after that, and no stream waits for the peer. The lines
    /// that the peer reads stay unchanged until it is gone: they keep it from reusing bytes to
    /// which this node still refers (I-59).
    pub fn shut_out(&mut self, peer: Peer) {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| !state.shut_out) else { return };
        state.shut_out = true;
        state.attaching.clear();
        self.take_in_the_last(peer);
        let free = self.free_lines.len();
        self.forget(peer);
        let lines = self.free_lines.split_off(free);
        if let Some(state) = self.peers.get_mut(&peer) {
            state.kept_lines = lines;
        }
    }

    /// Stops reading from a peer and waiting for it.
    pub(super) fn forget(&mut self, peer: Peer) {
        for stream in &mut self.streams {
            stream.remove_readers(|member| member.peer() == Some(peer));
        }
        let (gone, remaining) = core::mem::take(&mut self.subscriptions)
            .into_iter()
            .partition::<Vec<_>, _>(|s| s.origin == StreamOrigin::Peer(peer));
        self.subscriptions = remaining;
        self.forgotten.retain(|replica| replica.strong_count() > 0);
        for subscription in gone {
            // The sender no longer reads this line, so the line is free at once. Records of the
            // application keep the memory that they lie in.
            self.free_lines.push(subscription.line);
            let replica =
                subscription.receiver.as_ref().and_then(SubscriptionReceiver::held_replica);
            self.forgotten.extend(replica.map(Arc::downgrade));
            if !matches!(
                subscription.stage,
                SubscriptionStage::Draining | SubscriptionStage::Detaching
            ) {
                self.events.push_back(NodeEvent::Ended(subscription.id));
            }
        }
        self.unsettled = true;
    }

    pub(super) fn region_ready(&mut self, peer: Peer, region: RegionId, effects: &mut Effects) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.ready.push(region);
        let target = Target { peer, sharing: state.sharing };
        if let Some(stream) = self.stream(region) {
            stream.introduce(target, effects);
        }
        self.subgroup_region_ready(peer, region, effects);
        self.unsettled = true;
    }
}
