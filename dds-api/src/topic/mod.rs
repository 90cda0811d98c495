//! The topic module of the standard: a name for samples of one type.

use std::marker::PhantomData;
use std::sync::Arc;

use idl_cdr::DdsType;

use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::endpoint::{TopicLevel, TypeIdentity};

/// The longest topic name, as in other DDS products.
const LONGEST_NAME: usize = 255;

/// A name under which samples of type `T` are written and read.
pub struct Topic<T> {
    name: Arc<str>,
    participant: Arc<Inner>,
    level: TopicLevel,
    _type: PhantomData<fn() -> T>,
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        let (name, participant) = (Arc::clone(&self.name), Arc::clone(&self.participant));
        Topic { name, participant, level: self.level, _type: PhantomData }
    }
}

impl<T: DdsType> Topic<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        T::TYPE_NAME
    }

    /// Whether its samples come in one order at all readers.
    pub fn is_atomic(&self) -> bool {
        self.level.is_ordered()
    }

    pub(crate) fn level(&self) -> TopicLevel {
        self.level
    }

    pub(crate) fn identity(&self) -> TypeIdentity {
        TypeIdentity::of::<T>()
    }

    /// Whether it belongs to this participant.
    pub(crate) fn is_of(&self, participant: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.participant, participant)
    }
}

/// A topic that is being made.
pub struct TopicBuilder<T> {
    participant: Arc<Inner>,
    name: String,
    level: TopicLevel,
    _type: PhantomData<fn() -> T>,
}

impl<T: DdsType> TopicBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, name: &str) -> Self {
        TopicBuilder {
            participant,
            name: name.to_owned(),
            level: TopicLevel::Unordered,
            _type: PhantomData,
        }
    }

    /// Makes it an atomic topic: all its readers get the same samples in the same order, all or nothing,
    /// also those of several writers, and also when participants crash.
    ///
    /// Participants join and leave it with their writers and readers. A reader gets what is written from some
    /// sample on that is the same for all of its participant's readers; who is there before the others write
    /// gets all: [`DataWriter::wait_for_readers`](crate::publication::DataWriter::wait_for_readers).
    pub fn atomic(mut self) -> Self {
        self.level = TopicLevel::Atomic;
        self
    }

    /// Makes the topic.
    pub fn create(self) -> DdsResult<Topic<T>> {
        let TopicBuilder { participant, name, level, .. } = self;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(DdsError::BadParameter(format!(
                "a topic's name has 1 to {LONGEST_NAME} bytes and no NUL; this one has {} bytes",
                name.len()
            )));
        }
        Ok(Topic { name: name.into(), participant, level, _type: PhantomData })
    }
}
