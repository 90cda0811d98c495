//! The topic module of the standard: a name for samples of one type.

use std::marker::PhantomData;
use std::sync::Arc;

use idl_cdr::DdsType;

use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::endpoint::TypeIdentity;

/// The longest topic name, as in other DDS products.
const LONGEST_NAME: usize = 255;

/// A name under which samples of type `T` are written and read.
pub struct Topic<T> {
    name: Arc<str>,
    participant: Arc<Inner>,
    _type: PhantomData<fn() -> T>,
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        let (name, participant) = (Arc::clone(&self.name), Arc::clone(&self.participant));
        Topic { name, participant, _type: PhantomData }
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
    _type: PhantomData<fn() -> T>,
}

impl<T: DdsType> TopicBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, name: &str) -> Self {
        TopicBuilder { participant, name: name.to_owned(), _type: PhantomData }
    }

    /// Makes the topic.
    pub fn create(self) -> DdsResult<Topic<T>> {
        let TopicBuilder { participant, name, .. } = self;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(DdsError::BadParameter(format!(
                "a topic's name has 1 to {LONGEST_NAME} bytes and no NUL; this one has {} bytes",
                name.len()
            )));
        }
        Ok(Topic { name: name.into(), participant, _type: PhantomData })
    }
}
