//! What an application says of its objects.
//!
//! Owns: the trait, and the step from bytes to types. Never does: send anything.

use std::any::Any;

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::replicated::Object;

/// An object that the members of a shard replicate.
///
/// All members apply the same updates in the same order, beginning with the same state, so they have the
/// same object if `apply` follows from its arguments alone: no clock, no randomness, no iteration in hash order.
///
/// Updates and answers travel by [`Wire`], the codec of the protocol itself: numbers, texts, lists, maps, pairs,
/// options of those, and whatever implements it in a few lines. It checks every length that a peer
/// sends, gives the same bytes everywhere, and costs no dependency; whoever has serde sends a `Vec<u8>`.
pub trait Replicated: Default + Send + 'static {
    /// What changes it, or asks all members.
    type Update: Wire;
    /// What one member is asked or told.
    type Question: Wire;
    /// What comes back.
    type Reply: Wire;

    /// Applies an update. What it returns is the answer of this member if the update was a query.
    fn apply(&mut self, from: NodeId, update: Self::Update) -> Self::Reply;

    /// Answers a question that was put to this member alone.
    fn answer(&self, from: NodeId, question: Self::Question) -> Self::Reply;

    /// A member, of this shard or not, tells this one something. Nothing of the object may follow from it.
    fn heard(&self, from: NodeId, what: Self::Question) {
        let _ = (from, what);
    }

    /// The state as bytes, for members that come, and for checkpoints.
    fn snapshot(&self) -> Vec<u8>;

    /// The object with this state. `None` if the bytes make no sense.
    fn restored(bytes: &[u8]) -> Option<Self>;
}

/// What a raw subgroup delivers to: who sent it, and what.
pub(crate) type RawUpcall = Box<dyn FnMut(NodeId, &[u8]) + Send>;

/// An object whose type a desk does not know.
pub(crate) trait AnyObject: Object + Send {
    fn as_any(&self) -> &dyn Any;
}

pub(crate) type Boxed = Box<dyn AnyObject>;

pub(crate) struct Typed<T>(pub(crate) T);

impl<T: Replicated> Object for Typed<T> {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8> {
        // What no member sends changes nothing, anywhere.
        let update = T::Update::from_bytes(message);
        update.map(|update| self.0.apply(from, update).to_bytes()).unwrap_or_default()
    }

    fn answer(&self, from: NodeId, query: &[u8]) -> Vec<u8> {
        let question = T::Question::from_bytes(query);
        question.map(|question| self.0.answer(from, question).to_bytes()).unwrap_or_default()
    }

    fn hear(&mut self, from: NodeId, message: &[u8]) {
        if let Some(what) = T::Question::from_bytes(message) {
            self.0.heard(from, what);
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.snapshot()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        T::restored(bytes).map(|object| self.0 = object).is_some()
    }

    fn reset(&mut self) {
        self.0 = T::default();
    }
}

impl<T: Replicated> AnyObject for Typed<T> {
    fn as_any(&self) -> &dyn Any {
        &self.0
    }
}

/// A raw subgroup has no object: what is delivered goes to its upcall.
pub(crate) struct Raw(pub(crate) std::sync::Arc<std::sync::Mutex<RawUpcall>>);

impl Object for Raw {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8> {
        (self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))(from, message);
        Vec::new()
    }

    fn answer(&self, _: NodeId, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn hear(&mut self, _: NodeId, _: &[u8]) {}

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) -> bool {
        true
    }

    fn reset(&mut self) {}
}

impl AnyObject for Raw {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Object for Boxed {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8> {
        (**self).apply(from, message)
    }

    fn answer(&self, from: NodeId, query: &[u8]) -> Vec<u8> {
        (**self).answer(from, query)
    }

    fn hear(&mut self, from: NodeId, message: &[u8]) {
        (**self).hear(from, message);
    }

    fn snapshot(&self) -> Vec<u8> {
        (**self).snapshot()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        (**self).restore(bytes)
    }

    fn reset(&mut self) {
        (**self).reset();
    }
}
