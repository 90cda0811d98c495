//! The duty cycle (event loop): one turn of a machine over its link.
//!
//! Owns: the machine, its link, and the order of a turn: events in, the turn, posts out, bells.
//! Never does: wait, or decide when to turn.

use derecho_core::ids::Time;
use derecho_core::link::{Link, LinkError};
use derecho_core::machine::{Effects, Machine, PostKind};

/// A machine and the link that it works over.
pub struct EventLoop<M, L> {
    /// The protocol.
    pub machine: M,
    /// Transport of the machine's words.
    pub link: L,
    effects: Effects,
}

impl<M: Machine, L: Link> EventLoop<M, L> {
    /// Creates the duty cycle of a machine that has not turned yet.
    pub fn new(machine: M, link: L) -> Self {
        EventLoop { machine, link, effects: Effects::new() }
    }

    /// Runs one turn. Returns the amount of work done; zero means that nothing was ready.
    #[inline]
    pub fn turn(&mut self, now: Time) -> usize {
        let EventLoop { machine, link, effects } = self;
        let events = link.poll(&mut |event| machine.handle(event, effects));
        let done = machine.turn(now, effects);
        self.perform();
        events + done
    }

    /// Runs `f` on the machine and its link as a part of the duty cycle. Its effects are carried
    /// out before this returns.
    pub fn act<T>(&mut self, f: impl FnOnce(&mut M, &mut L, &mut Effects) -> T) -> T {
        let result = f(&mut self.machine, &mut self.link, &mut self.effects);
        self.perform();
        result
    }

    /// Carries out the effects: first the ranges that must become private, then posts in their
    /// order, then the bells of all peers that have news.
    fn perform(&mut self) {
        let EventLoop { link, effects, .. } = self;
        if effects.is_empty() {
            effects.clear();
            return;
        }
        for (replica, bytes) in effects.take_privatized() {
            replica.privatize(bytes);
        }
        for post in effects.take_posts() {
            let done = match post.kind {
                PostKind::Write(region, range) => link.write(post.peer, region, range),
                PostKind::Read(region, range) => link.read(post.peer, region, range).map(|_| ()),
                PostKind::Note(bytes) => link.note(post.peer, &bytes),
            };
            match done {
                Ok(()) => {}
                // The peer has died meanwhile; the event that reports the death is on its way to
                // the machine.
                Err(LinkError::PeerGone(_)) => {}
                Err(error) => tracing::error!(%error, "post refused by the link"),
            }
        }
        for region in effects.take_closes() {
            if let Err(error) = link.close(region) {
                tracing::error!(%error, "closing of a region refused by the link");
            }
        }
        if !effects.touched().is_empty() || !effects.hinted().is_empty() {
            link.ring(effects.touched(), effects.hinted());
        }
        effects.clear();
    }
}
