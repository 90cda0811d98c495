//! The topic module of the standard: a name for samples of one type.

use std::marker::PhantomData;
use std::sync::Arc;

use derecho_core::multicast::ablation::Ablation;
use idl_cdr::DdsType;

use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::endpoint::{Founders, TypeIdentity};

/// The most participants that write, or read, an atomic topic.
const MOST_FOUNDERS: u32 = 1024;
/// The longest topic name, as in other DDS products.
const LONGEST_NAME: usize = 255;

/// A name under which samples of type `T` are written and read.
pub struct Topic<T> {
    name: Arc<str>,
    participant: Arc<Inner>,
    founders: Founders,
    ablation: Ablation,
    _type: PhantomData<fn() -> T>,
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        let (name, participant) = (Arc::clone(&self.name), Arc::clone(&self.participant));
        let Topic { founders, ablation, .. } = *self;
        Topic { name, participant, founders, ablation, _type: PhantomData }
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
        self.founders.is_ordered()
    }

    pub(crate) fn founders(&self) -> Founders {
        self.founders
    }

    pub(crate) fn ablation(&self) -> Ablation {
        self.ablation
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
    founders: Founders,
    ablation: Ablation,
    _type: PhantomData<fn() -> T>,
}

impl<T: DdsType> TopicBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, name: &str) -> Self {
        TopicBuilder {
            participant,
            name: name.to_owned(),
            founders: Founders::default(),
            ablation: Ablation::default(),
            _type: PhantomData,
        }
    }

    /// Makes it an atomic topic: all its readers get the same samples in the same order, all or
    /// nothing, also those of several writers.
    ///
    /// In this version the members are fixed: exactly so many participants write and so many read
    /// it, one that does both counts in both. It begins when all of them are there, and what was
    /// written before is delivered then. Every participant says the same numbers. When one is gone
    /// that the others need, what all had received is delivered, and writers and readers get an
    /// error after it.
    pub fn atomic(mut self, writers: u32, readers: u32) -> Self {
        self.founders = Founders { writers, readers };
        self
    }

    /// Switches optimisations off, to measure what each is worth.
    #[doc(hidden)]
    pub fn ablation(mut self, ablation: Ablation) -> Self {
        self.ablation = ablation;
        self
    }

    /// Makes the topic.
    pub fn create(self) -> DdsResult<Topic<T>> {
        let TopicBuilder { participant, name, founders, ablation, .. } = self;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(DdsError::BadParameter(format!(
                "a topic's name has 1 to {LONGEST_NAME} bytes and no NUL; this one has {} bytes",
                name.len()
            )));
        }
        let Founders { writers, readers } = founders;
        if founders.is_ordered() && (writers == 0 || readers == 0) {
            return Err(DdsError::BadParameter(format!(
                "topic `{name}` is atomic for {writers} participants that write and {readers} \
                 that read: at least one of each is needed"
            )));
        }
        if writers.max(readers) > MOST_FOUNDERS {
            return Err(DdsError::BadParameter(format!(
                "topic `{name}` is atomic for {writers} participants that write and {readers} \
                 that read: {MOST_FOUNDERS} of each are the most"
            )));
        }
        Ok(Topic { name: name.into(), participant, founders, ablation, _type: PhantomData })
    }
}
