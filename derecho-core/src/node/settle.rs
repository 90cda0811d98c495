//! Addition and removal of subscriptions and streams.
//!
//! Owns: the steps from one stage to the next, once their conditions hold. Runs only in turns that
//! follow a change, so that established streams pay nothing for it.

use super::reception::SubscriptionReceiver;
use super::{
    ACKS, AttachRequest, Node, NodeEvent, PeerState, StreamOrigin, Subscription, SubscriptionStage,
};
use crate::link::Sharing;
use crate::machine::{Effects, Target};
use crate::multicast::geometry::Geometry;
use crate::multicast::receive::TetheredReceiver;
use crate::multicast::stream::{ReaderLine, ReaderName, StreamStart};
use crate::multicast::untethered::UntetheredReceiver;
use crate::note::Note;

impl Node {
    pub(super) fn settle(&mut self, effects: &mut Effects) -> usize {
        self.unsettled = false;
        let settled = self.settle_readers(effects)
            + self.settle_subscriptions(effects)
            + self.settle_streams(effects)
            + self.settle_subgroups(effects);
        for stream in &mut self.streams {
            if let Some(count) = stream.take_readers_changed() {
                self.events.push_back(NodeEvent::Readers { stream: stream.region(), count });
            }
        }
        settled
    }

    /// Counts peers among the readers once this node can write to them.
    pub(super) fn settle_readers(&mut self, effects: &mut Effects) -> usize {
        let mut settled = 0;
        let Node { peers, streams, ending, unsettled, .. } = self;
        for (&peer, state) in peers.iter_mut() {
            let target = Target { peer, sharing: state.sharing };
            let PeerState { attaching, ready, replicas, bell, .. } = state;
            attaching.retain(|&AttachRequest { reader, stream, acks, line, tethered }| {
                let known = streams.iter_mut().find(|s| s.region() == stream);
                let Some(known) = known.filter(|_| !ending.contains(&stream)) else {
                    let end = Note::End { reader: reader.subscription, entry: 0 };
                    effects.note(peer, end.encode());
                    return false;
                };
                let (true, Some(ack)) = (ready.contains(&stream), replicas.get(&acks)) else {
                    *unsettled = true;
                    return true;
                };
                let line = usize::try_from(line).unwrap_or(usize::MAX);
                let line = tethered.then(|| ReaderLine { acks: ack.clone(), line });
                let start = known.add_reader(Some(target), *bell, reader, line);
                let reader = reader.subscription;
                let note = match start {
                    Some(StreamStart { entry, message }) => Note::Accept { reader, entry, message },
                    None => Note::End { reader, entry: 0 },
                };
                effects.note(peer, note.encode());
                settled += 1;
                false
            });
        }
        settled
    }

    pub(super) fn settle_subscriptions(&mut self, effects: &mut Effects) -> usize {
        let mut settled = 0;
        let mut index = 0;
        while index < self.subscriptions.len() {
            let (found, before) = (self.subscriptions[index].stage, self.subscriptions.len());
            match found {
                SubscriptionStage::AwaitsHeader => settled += self.attach(index, effects),
                SubscriptionStage::Ending(entry) => settled += self.ending(index, entry),
                SubscriptionStage::Draining => {
                    if self.subscriptions[index].is_occupied() {
                        self.unsettled = true;
                    } else {
                        self.detach(index, effects);
                        settled += 1;
                    }
                }
                SubscriptionStage::AwaitsAccept
                | SubscriptionStage::Receiving
                | SubscriptionStage::Detaching => {}
            }
            // The slot may now hold another subscription, moved there by a removal.
            if self.subscriptions.len() == before {
                index += 1;
            }
        }
        settled
    }

    /// Asks the sender to count this node among its readers, once the stream's header is present.
    pub(super) fn attach(&mut self, index: usize, effects: &mut Effects) -> usize {
        let Subscription { id, entity, origin, stream, line, tethered, .. } =
            self.subscriptions[index];
        let (replica, target) = match origin {
            StreamOrigin::Own => (self.stream(stream).map(|s| s.sender().memory().replica()), None),
            StreamOrigin::Peer(peer) => match self.peers.get(&peer) {
                Some(state) => match state.replicas.get(&stream) {
                    Some(replica) => {
                        let target = Target { peer, sharing: state.sharing };
                        (Some(replica.clone()), Some(target))
                    }
                    // The announcement of the stream may have been faster than the link (I-75).
                    None => return 0,
                },
                None => (None, None),
            },
        };
        let Some(replica) = replica else {
            self.end_unattached(index);
            return 1;
        };
        let geometry = match Geometry::read(&replica) {
            Ok(Some(geometry)) => geometry,
            Ok(None) => {
                self.unsettled = true;
                return 0;
            }
            Err(fault) => {
                if let StreamOrigin::Peer(peer) = origin {
                    self.faulty(peer, fault);
                }
                return 1;
            }
        };
        // The integrity of a copy cannot be checked: late bytes may come from newer contents
        // at the source.
        let tethered = tethered || target.is_some_and(|it| it.sharing == Sharing::Copied);
        let mut receiver = match tethered {
            true => {
                let (ack, waker) = (self.ack_line(line, id), self.waker.clone());
                SubscriptionReceiver::Tethered(TetheredReceiver::new(
                    replica, geometry, ack, target, waker,
                ))
            }
            false => SubscriptionReceiver::Untethered(UntetheredReceiver::new(
                replica,
                geometry,
                self.waker.clone(),
            )),
        };
        let stage = match target {
            Some(Target { peer, .. }) => {
                let (reader, acks, line) = (id.0, ACKS, line as u64);
                let note = Note::Attach { reader, entity, stream, acks, line, tethered };
                effects.note(peer, note.encode());
                SubscriptionStage::AwaitsAccept
            }
            None => {
                let line = tethered.then(|| ReaderLine { acks: self.acks.replica(), line });
                let known = self.streams.iter_mut().find(|known| known.region() == stream);
                let name = ReaderName { subscription: id.0, entity };
                let from = known.and_then(|s| s.add_reader(None, None, name, line));
                let from = from.expect("the stream and the line are this node's own");
                receiver.start(from, effects);
                let inbox = receiver.inbox().cloned();
                self.events.extend(inbox.map(|inbox| NodeEvent::Subscribed(id, inbox)));
                SubscriptionStage::Receiving
            }
        };
        let subscription = &mut self.subscriptions[index];
        (subscription.stage, subscription.receiver) = (stage, Some(receiver));
        1
    }

    pub(super) fn end_unattached(&mut self, index: usize) {
        self.subscriptions[index].stage = SubscriptionStage::Draining;
        self.events.push_back(NodeEvent::Ended(self.subscriptions[index].id));
        self.unsettled = true;
    }

    /// Ends a subscription when the last entry of its stream has come.
    pub(super) fn ending(&mut self, index: usize, entry: u64) -> usize {
        let subscription = &mut self.subscriptions[index];
        self.unsettled = true;
        if subscription.receiver.as_ref().is_some_and(|receiver| receiver.next() < entry) {
            return 0;
        }
        if let Some(receiver) = &mut subscription.receiver {
            receiver.close();
        }
        subscription.stage = SubscriptionStage::Draining;
        self.events.push_back(NodeEvent::Ended(subscription.id));
        1
    }

    /// Detaches from a stream that is no longer wanted, and tells the sender. The line is reused
    /// only after the sender has answered (I-11): until then the sender reads the line for
    /// acknowledgements and for held memory (I-225).
    pub(super) fn detach(&mut self, index: usize, effects: &mut Effects) {
        let Subscription { id, origin, stream, ref receiver, .. } = self.subscriptions[index];
        let reader = id.0;
        match origin {
            // The sender was not asked, or has refused: it does not read the line.
            StreamOrigin::Peer(_) if receiver.is_none() => {
                self.free_lines.push(self.subscriptions.swap_remove(index).line);
            }
            StreamOrigin::Peer(peer) => {
                effects.note(peer, Note::Detach { reader, stream }.encode());
                // The subscription still receives and drops what the sender has posted, and
                // releases memory when records are dropped.
                self.subscriptions[index].stage = SubscriptionStage::Detaching;
            }
            StreamOrigin::Own => {
                let known = self.streams.iter_mut().find(|known| known.region() == stream);
                if let Some(known) = known {
                    known.remove_readers(|member| member.is(None, reader));
                }
                self.free_lines.push(self.subscriptions.swap_remove(index).line);
                self.unsettled = true;
            }
        }
    }

    /// Closes the regions of ended streams without readers. Departing readers count as long as they
    /// refer to records (I-12).
    pub(super) fn settle_streams(&mut self, effects: &mut Effects) -> usize {
        let Node { streams, ending, .. } = self;
        let before = ending.len();
        ending.retain(|&stream| {
            let unused = streams.iter().all(|s| s.region() != stream || s.all_readers().is_empty());
            if unused {
                streams.retain(|known| known.region() != stream);
                effects.close(stream);
            }
            !unused
        });
        before - ending.len()
    }
}
