//! Messages from established peers.

use std::os::fd::OwnedFd;

use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::Evidence;
use rustix::io::Errno;

use super::{Connection, ConnectionPhase, Message, Rendezvous, RendezvousEvent, wire};
use crate::shm::arbiter::GroupMemory;
use crate::shm::imports::{AnnouncementFault, RegionAnnouncement};

impl Rendezvous {
    /// Reads up to `limit` packets of a connection.
    pub(super) fn read(&mut self, key: u32, limit: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.with(key, |this, connection| {
            if matches!(connection.phase, ConnectionPhase::Departed) {
                // The other end closes its sending half when it no longer reads our memory.
                connection.finish();
                return;
            }
            for _ in 0..limit {
                if !connection.is_listening() || !this.read_packet(connection, &mut buffer) {
                    return;
                }
            }
        });
        self.buffer = buffer;
        self.make_up();
    }

    /// Reads one packet. Returns whether there may be more.
    fn read_packet(&mut self, connection: &mut Connection, buffer: &mut [u8]) -> bool {
        if connection.brings_descriptor() {
            self.spares.lend_one();
        }
        match connection.receive(buffer) {
            Ok(received) if received.too_much => {
                self.on_nonsense(
                    connection,
                    "the peer sent a packet that no node sends, or this process has no descriptor \
                     left for those in the packet (ulimit -n)",
                );
                false
            }
            Ok(received) if received.length == 0 => {
                self.on_ended(connection);
                false
            }
            Ok(received) => {
                match wire::decode(&buffer[..received.length]) {
                    Ok(message) => self.on_message(connection, &message, received.descriptor),
                    Err(nonsense) => self.on_nonsense(connection, &nonsense.to_string()),
                }
                true
            }
            Err(Errno::WOULDBLOCK) => false,
            Err(errno) => {
                tracing::debug!(%errno, "a connection broke");
                self.on_ended(connection);
                false
            }
        }
    }

    /// Disconnects a peer that violates the protocol, or closes the connection of an unknown node.
    fn on_nonsense(&mut self, connection: &mut Connection, why: &str) {
        match connection.phase {
            ConnectionPhase::Greeting { .. } => self.dismiss(connection, why),
            _ => self.cut_off(connection, why),
        }
    }

    fn on_message(
        &mut self,
        connection: &mut Connection,
        message: &Message<'_>,
        descriptor: Option<OwnedFd>,
    ) {
        match connection.phase {
            ConnectionPhase::Greeting { step, .. } => {
                self.on_greeting(connection, step, message, descriptor);
            }
            ConnectionPhase::Up { peer } => {
                if let Err(fault) = self.on_peer_message(connection, peer, message, descriptor) {
                    self.cut_off(connection, &fault.to_string());
                }
            }
            ConnectionPhase::Ended { .. } | ConnectionPhase::Departed | ConnectionPhase::Over => {}
        }
    }

    fn on_peer_message(
        &mut self,
        connection: &mut Connection,
        peer: Peer,
        message: &Message<'_>,
        descriptor: Option<OwnedFd>,
    ) -> Result<(), AnnouncementFault> {
        match *message {
            Message::Arena { index, bytes } => {
                connection.imports.add_arena(index, bytes, descriptor)?;
            }
            Message::Retire { index } => connection.imports.retire(index)?,
            Message::Region { serial, region, arena, offset, words } => {
                let region = RegionId(region);
                let announced = RegionAnnouncement { serial, region, arena, offset, words };
                let lease = connection.lease.as_ref().expect("a peer that is up has a lease");
                let replica = connection.imports.add_region(&announced, lease)?;
                // The node is told before the peer: all consequences of the peer's knowledge
                // come later.
                self.events.send(RendezvousEvent::RegionUp { peer, region, replica });
                connection.queue_message(&Message::Ready { serial });
                connection.flush();
            }
            Message::Close { serial } => {
                let region = connection.imports.close(serial)?;
                self.events.send(RendezvousEvent::RegionDown { peer, region });
            }
            Message::Ready { serial } => {
                // The region may have been closed meanwhile.
                if let Some(region) = self.exports.region(serial, connection.key) {
                    self.events.send(RendezvousEvent::RegionReady { peer, region });
                }
            }
            Message::Released { serial } => self.exports.released(serial, connection.key),
            Message::Note(bytes) => {
                self.events.send(RendezvousEvent::Note { peer, bytes: bytes.to_vec() });
            }
            Message::Goodbye => {
                self.peer_down(connection, Evidence::Left);
                connection.clear_queue();
                connection.depart(&self.epoll);
            }
            Message::Cut { text } => {
                let pid = connection.credentials.pid;
                tracing::warn!(node = ?connection.node, pid, text, "cut off by a peer");
                let evidence = self.evidence(connection);
                self.peer_down(connection, evidence);
                connection.clear_queue();
                connection.depart(&self.epoll);
            }
            Message::Group => self.on_group(connection, descriptor)?,
            Message::Hello { .. } | Message::Refuse { .. } | Message::Accept { .. } => {
                return Err(AnnouncementFault::new("the peer greets again"));
            }
        }
        Ok(())
    }

    /// Receives the words of the local group from a node that uses them.
    pub(super) fn on_group(
        &mut self,
        connection: &Connection,
        descriptor: Option<OwnedFd>,
    ) -> Result<(), AnnouncementFault> {
        let file =
            descriptor.ok_or_else(|| AnnouncementFault::new("the group came without memory"))?;
        let memory = GroupMemory::check(file).map_err(|text| {
            AnnouncementFault::new(format!("the memory of the group cannot be trusted: {text}"))
        })?;
        let node = connection.node.expect("a node sends its hello before its memory");
        self.handed_over.put(connection.key, node, memory);
        Ok(())
    }
}
