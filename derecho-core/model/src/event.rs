//! Events of the model.
//!
//! Owns: their names, and their encoding. Never does: perform an event.

/// Event of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The oldest message from the first node to the second arrives.
    Deliver(usize, usize),
    /// A node dies. Its pending messages may or may not arrive.
    Crash(usize),
    /// A node learns for certain that another one is dead, out or stopped.
    Evidence(usize, usize),
    /// A node suspects a live one.
    Doubt(usize, usize),
    /// A channel loses its content and everything sent later.
    Cut(usize, usize),
    /// A node is stopped.
    Stop(usize),
    /// A stopped node continues.
    Resume(usize),
    /// A joiner asks a member.
    Join(usize, usize),
    /// A node wants to leave.
    Leave(usize),
    /// The kernel processes a node's request.
    Settle(usize),
    /// The kernel's answer arrives.
    Answer(usize),
    /// A node's streams have stopped.
    Stopped(usize),
    /// A leader gives votes to members that have none.
    Promote(usize),
    /// A node suspects the nodes that suspect it.
    Return(usize),
    /// A node suspects the nodes for which it has waited too long.
    Impatient(usize),
    /// A node stops waiting for a decision that it does not know.
    GiveUp(usize),
    /// A node receives one more message of the stream.
    Receive(usize),
    /// A node delivers one more message of the stream.
    Take(usize),
}

impl Event {
    /// Encodes the event in two bytes.
    pub(crate) fn pack(self) -> u16 {
        let (kind, a, b) = match self {
            Event::Deliver(a, b) => (0, a, b),
            Event::Crash(a) => (1, a, 0),
            Event::Evidence(a, b) => (2, a, b),
            Event::Doubt(a, b) => (3, a, b),
            Event::Cut(a, b) => (4, a, b),
            Event::Stop(a) => (5, a, 0),
            Event::Resume(a) => (6, a, 0),
            Event::Join(a, b) => (7, a, b),
            Event::Leave(a) => (8, a, 0),
            Event::Settle(a) => (9, a, 0),
            Event::Answer(a) => (10, a, 0),
            Event::Stopped(a) => (11, a, 0),
            Event::Promote(a) => (12, a, 0),
            Event::Return(a) => (13, a, 0),
            Event::Impatient(a) => (14, a, 0),
            Event::GiveUp(a) => (15, a, 0),
            Event::Receive(a) => (16, a, 0),
            Event::Take(a) => (17, a, 0),
        };
        kind << 8 | (a as u16) << 4 | b as u16
    }

    pub(crate) fn unpack(packed: u16) -> Event {
        let (a, b) = (usize::from(packed >> 4 & 15), usize::from(packed & 15));
        match packed >> 8 {
            0 => Event::Deliver(a, b),
            1 => Event::Crash(a),
            2 => Event::Evidence(a, b),
            3 => Event::Doubt(a, b),
            4 => Event::Cut(a, b),
            5 => Event::Stop(a),
            6 => Event::Resume(a),
            7 => Event::Join(a, b),
            8 => Event::Leave(a),
            9 => Event::Settle(a),
            10 => Event::Answer(a),
            11 => Event::Stopped(a),
            12 => Event::Promote(a),
            13 => Event::Return(a),
            14 => Event::Impatient(a),
            15 => Event::GiveUp(a),
            16 => Event::Receive(a),
            _ => Event::Take(a),
        }
    }
}
