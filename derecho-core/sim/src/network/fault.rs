//! Faults: crashes, cuts, and their reports to nodes.
//!
//! Owns: the losses of a fault and the times of its reports. Never does: stop a thread (the cluster
//! does), or report more to a node than its link could know.

use derecho_core::link::{Evidence, LinkEvent};

use super::transfer::LaneKind;
use super::{Event, Network, NetworkStep};
use crate::link::NetworkMode;

/// The cut that causes a silence; once it is healed, nothing is concluded from the silence.
#[derive(Clone, Copy)]
pub(super) struct CutSilence {
    from: usize,
    to: usize,
    cut: u32,
}

/// Temporary slow-down of the posts from one node to another.
#[derive(Clone, Copy)]
pub(crate) struct SlowDown {
    /// Factor of the time that a post takes.
    pub(crate) factor: u64,
    /// Maximum of an additional random delay, in nanoseconds.
    pub(crate) later: u64,
}

impl Network {
    /// Stops a node at this very moment. Its posts arrive in part.
    pub(crate) fn crash(&mut self, node: usize) {
        if !self.nodes[node].up {
            return;
        }
        self.nodes[node].up = false;
        self.host.node_down(node, false);
        self.events += 1;
        self.note_trace(&[11, node as u64]);
        for other in (0..self.nodes.len()).filter(|&other| other != node) {
            self.break_off_writes(node, other);
            if matches!(self.mode, NetworkMode::Adversarial(_)) {
                let control = self.channels[node][other].control.len() as u64;
                let kept = self.random.between(0, control) as usize;
                self.channels[node][other].control.truncate(kept);
            }
            // No reads of its memory are answered, and nothing that arrives there is processed.
            self.channels[node][other].reads.purge();
            self.channels[other][node].writes.purge();
            self.channels[other][node].reads.purge();
            self.channels[other][node].control.clear();
            self.channels[other][node].replicas.clear();
            if let Some((evidence, (low, high))) = self.rules.crash {
                let after = self.random.between(low, high);
                self.conclude(other, node, evidence, after);
            }
        }
    }

    /// Reports to `at` after `after` nanoseconds that `about` is gone, whether or not that is true.
    pub(crate) fn conclude(&mut self, at: usize, about: usize, evidence: Evidence, after: u64) {
        let when = self.now.saturating_add(after);
        self.schedule(when, Event::Evidence { at, about, evidence, silence: None });
    }

    /// Stops everything from one node to another until the cut is healed.
    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        let channel = &mut self.channels[from][to];
        if channel.cut {
            return;
        }
        channel.cut = true;
        channel.cuts += 1;
        channel.control_plan += 1;
        channel.writes.void();
        channel.reads.void();
        let silence = Some(CutSilence { from, to, cut: channel.cuts });
        self.channels[to][from].reads.void();
        self.events += 1;
        self.note_trace(&[12, from as u64, to as u64]);
        let Some((low, high)) = self.rules.cut else { return };
        // The receiver gets nothing and the sender gets no acknowledgement: each may give up.
        for (at, about) in [(to, from), (from, to)] {
            let when = self.now.saturating_add(self.random.between(low, high));
            let evidence = Evidence::Uncertain;
            self.schedule(when, Event::Evidence { at, about, evidence, silence });
        }
    }

    /// Slows down later posts; `None` ends this.
    pub(crate) fn hamper(&mut self, from: usize, to: usize, hampered: Option<SlowDown>) {
        self.channels[from][to].hampered = hampered;
        self.events += 1;
        self.note_trace(&[15, from as u64, to as u64]);
    }

    /// Whether either end has given up the connection.
    pub(crate) fn is_broken(&self, from: usize, to: usize) -> bool {
        self.channels[from][to].down || self.channels[to][from].down
    }

    /// Heals a cut: everything held back continues, in its order.
    pub(crate) fn heal(&mut self, from: usize, to: usize) {
        let channel = &mut self.channels[from][to];
        if !channel.cut {
            return;
        }
        channel.cut = false;
        self.events += 1;
        self.note_trace(&[13, from as u64, to as u64]);
        self.replan_control(from, to);
        self.replan(from, to, LaneKind::Write);
        self.replan(from, to, LaneKind::Read);
        self.replan(to, from, LaneKind::Read);
    }

    pub(super) fn deliver_evidence(
        &mut self,
        at: usize,
        about: usize,
        evidence: Evidence,
        silence: Option<CutSilence>,
    ) -> NetworkStep {
        if let Some(CutSilence { from, to, cut }) = silence {
            let channel = &self.channels[from][to];
            if !channel.cut || channel.cuts != cut {
                return NetworkStep::Unseen;
            }
        }
        let channel = &mut self.channels[about][at];
        if channel.down || !self.nodes[at].up {
            return NetworkStep::Unseen;
        }
        channel.down = true;
        channel.control.clear();
        channel.writes.purge();
        channel.reads.purge();
        channel.replicas.clear();
        let known = channel.up;
        self.forget_reads(at, about);
        self.events += 1;
        self.note_trace(&[14, at as u64, about as u64]);
        // The connection is closed on this side, so the other side learns of this too, after the
        // time for everything that was sent before.
        let unaware = self.nodes[about].up && !self.channels[at][about].down;
        if let (true, Some((low, high))) = (unaware, self.rules.cut) {
            let after = self.random.between(low, high);
            self.conclude(about, at, Evidence::Uncertain, after);
        }
        if !known {
            return NetworkStep::Unseen;
        }
        let peer = self.handle(at, about);
        self.tell(at, LinkEvent::PeerDown { peer, evidence });
        NetworkStep::Arrived(at)
    }
}
