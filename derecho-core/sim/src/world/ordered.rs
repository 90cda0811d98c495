//! Rules for ordered deliveries.
//!
//! Owns: the names of the rules, the contents of records, and the orders of deliveries. Never does:
//! ask a member whether it was right.

use std::collections::BTreeMap;

use crate::Random;

/// Violated rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Two members deliver in different orders (I-20).
    Order,
    /// A gap, a duplicate or a message that no member sent, within an epoch or from one to the next
    /// (I-4, I-30).
    Fifo,
    /// Bytes differ from those written, when taken or when released (I-5, I-6, I-32, I-36).
    Content,
    /// A delivery happened before all readers had received the message (I-21, I-24), or a member
    /// has delivered more of an epoch than others that have finished it (I-31).
    Agreement,
    /// A member lacks messages of its own.
    SelfDelivery,
    /// An expected event does not occur although all members continue, for example because members
    /// wait for each other's room (I-23), or a commit stays unseen (I-26).
    Liveness,
    /// A post is made although there is nothing to say (I-22).
    Quiescence,
    /// A member calls a correct one faulty.
    Blame,
    /// An entry is posted to a node twice (I-9a, I-34).
    Once,
    /// A member refuses a valid request.
    Refusal,
}

/// Maximum number of violations that a run records.
const MOST: usize = 8;

/// Violations of a run, the first one first.
#[derive(Default)]
pub struct Violations(Vec<(Rule, String)>);

impl Violations {
    /// Records a violation of a rule.
    pub fn record(&mut self, rule: Rule, text: String) {
        if self.0.len() < MOST {
            self.0.push((rule, text));
        }
    }

    /// Whether no rule was broken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all violations, and forgets them.
    pub fn take(&mut self) -> Vec<(Rule, String)> {
        std::mem::take(&mut self.0)
    }

    /// All violations.
    pub fn all(&self) -> &[(Rule, String)] {
        &self.0
    }
}

/// A message: its writer, and its number among the writer's messages.
pub type Message = (usize, u64);

/// The order of each epoch, as far as any member has delivered it.
pub struct Orders<E, M = Message>(BTreeMap<E, Vec<M>>);

impl<E, M> Default for Orders<E, M> {
    fn default() -> Orders<E, M> {
        Orders(BTreeMap::new())
    }
}

impl<E: Ord, M: Copy + PartialEq> Orders<E, M> {
    /// Records that a member delivers a message at this place of an epoch's order. Returns the
    /// message that belongs there if it is another one.
    pub fn deliver(&mut self, epoch: E, place: usize, message: M) -> Option<M> {
        let order = self.0.entry(epoch).or_default();
        match order.get(place) {
            Some(&agreed) => (agreed != message).then_some(agreed),
            None => {
                order.push(message);
                None
            }
        }
    }

    /// Number of messages that any member has delivered of an epoch; `None`: no order is known.
    pub fn length(&self, epoch: &E) -> Option<usize> {
        self.0.get(epoch).map(Vec::len)
    }
}

/// Fills the record of this number with a writer's content.
pub fn fill(writer: usize, number: u64, bytes: &mut [u8]) {
    let seed = (writer as u64).rotate_left(20) ^ number.rotate_left(32) ^ bytes.len() as u64;
    let mut random = Random::new(seed);
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&random.next_word().to_le_bytes()[..part.len()]);
    }
}

/// Whether a record has the content that its writer has given it.
pub fn is_as_written(writer: usize, number: u64, bytes: &[u8]) -> bool {
    let mut room = [0; 512];
    let written = &mut room[..bytes.len()];
    fill(writer, number, written);
    written == bytes
}

/// Moment at which a planted fault acts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FaultMoment {
    /// Before a turn.
    Before,
    /// After a turn.
    After,
}
