//! Interface of an application's objects.
//!
//! Owns: the trait, and the conversion from bytes to types. Never does: send anything.

use std::any::Any;

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::replicated::Object;

/// Object that the members of a shard replicate.
///
/// All members apply the same updates in the same order, beginning with the same state. They have
/// the same object if `apply` depends only on its arguments: no clock, no randomness, no iteration
/// in hash order.
///
/// Updates and answers are encoded by [`Wire`], the codec of the protocol itself: numbers, texts,
/// lists, maps, pairs, options of those, and any type that implements it in a few lines. The codec
/// checks every length that a peer sends, gives the same bytes everywhere, and adds no dependency;
/// users of serde send a `Vec<u8>`.
pub trait Replicated: Default + Send + 'static {
    /// Update, or query to all members.
    type Update: Wire;
    /// Question or message to one member.
    type Question: Wire;
    /// Answer to a query or question.
    type Reply: Wire;

    /// Applies an update. The result is this member's answer if the update was a query.
    fn apply(&mut self, from: NodeId, update: Self::Update) -> Self::Reply;

    /// Answers a question to this member alone.
    fn answer(&self, from: NodeId, question: Self::Question) -> Self::Reply;

    /// Receives a message of a member of this shard or another. The object must not depend on it.
    fn heard(&self, from: NodeId, what: Self::Question) {
        let _ = (from, what);
    }

    /// Returns the state as bytes, for joining members and for checkpoints.
    fn snapshot(&self) -> Vec<u8>;

    /// Returns the object with this state, or `None` if the bytes are invalid.
    fn restored(bytes: &[u8]) -> Option<Self>;
}

/// Upcall of a raw subgroup, with the sender and the message.
pub(crate) type RawUpcall = Box<dyn FnMut(NodeId, &[u8]) + Send>;

/// Object whose type the object host does not know.
pub(crate) trait AnyObject: Object + Send {
    fn as_any(&self) -> &dyn Any;
}

pub(crate) type BoxedObject = Box<dyn AnyObject>;

pub(crate) struct TypedObject<T>(pub(crate) T);

impl<T: Replicated> Object for TypedObject<T> {
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u8> {
        // A message that cannot be decoded changes nothing, at any member.
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

impl<T: Replicated> AnyObject for TypedObject<T> {
    fn as_any(&self) -> &dyn Any {
        &self.0
    }
}

/// Placeholder object of a raw subgroup: delivered messages go to its upcall.
pub(crate) struct RawObject(pub(crate) std::sync::Arc<std::sync::Mutex<RawUpcall>>);

impl Object for RawObject {
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

impl AnyObject for RawObject {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Object for BoxedObject {
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
