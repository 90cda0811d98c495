//! Squall DDS: OMG DDS (DCPS) in Rust on atomic multicast.
//!
//! The folders are the chapters of the standard: [`domain`], [`topic`], [`publication`],
//! [`subscription`], [`infrastructure`]. Start with [`prelude`]:
//!
//! ```no_run
//! use dds_api::prelude::*;
//!
//! #[derive(DdsType, Clone, Debug, Default)]
//! struct Attitude { #[dds(key)] aircraft: u32, pitch: f64, roll: f64, yaw: f64 }
//!
//! fn main() -> DdsResult<()> {
//!     let participant = DomainParticipant::new(0)?;
//!     let topic = participant.topic::<Attitude>("Attitude").create()?;
//!     let writer = participant.writer(&topic).create()?;
//!     let reader = participant.reader(&topic).create()?;
//!
//!     writer.wait_for_readers(1, Timeout::secs(1))?;
//!     writer.write(&Attitude { aircraft: 7, pitch: 1.5, roll: 0.0, yaw: 271.0 })?;
//!     for sample in reader.take_data(.., Timeout::secs(1))? {
//!         println!("{:?}", *sample);
//!     }
//!
//!     let mut sample = writer.loan()?; // in place: what is written here is what readers see
//!     sample.aircraft = 7;
//!     sample.pitch = 1.6;
//!     sample.publish()?;
//!     for sample in reader.take_data(.., Timeout::secs(1))? {
//!         println!("{:?}", *sample);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Beside topics, [`shared_state`] lets processes share a table of plain rows and act when
//! predicates over it come true.
//!
//! Participants of one domain on one host discover each other. A topic is one of:
//!
//! * *reliable, unordered*: every reader receives every sample that was written after reader and
//!   writer were matched, in the order of each writer;
//! * [*atomic*](topic::TopicBuilder::atomic): all readers receive the same samples in the same
//!   order, all or nothing;
//! * [*transient-local*](topic::TopicBuilder::transient_local): atomic, and samples are kept for
//!   late joiners.
//!
//! A writer that is faster than its readers waits.

// The derive macro refers to this crate by name, also inside this crate.
extern crate self as dds_api;

pub mod domain;
pub mod infrastructure;
mod mapping;
pub mod publication;
pub mod shared_state;
pub mod subscription;
pub mod topic;

/// The QoS policies of the standard, as plain data.
pub use qos_profiles as qos;

/// Topic types: [`types::DdsType`] and the CDR encodings; types and samples known only at run time:
/// [`types::DynamicType`], [`types::DynamicData`], [`types::SerializedData`].
pub mod types {
    pub use idl_cdr::*;
    pub use idl_xtypes::{
        Any, AnyError, DataError, DynamicData, DynamicType, MemberOptions, NotInIdl, Primitive,
        SerializedData, StructBuilder, TextError, TopicData, TypeObjectError, UnionBuilder,
        UnionValue, Value, topic_types,
    };
}

#[cfg(feature = "laboratory")]
#[doc(hidden)]
pub use derecho_core::multicast::ablation::Ablation;

/// Names that most programs need.
pub mod prelude {
    pub use crate::domain::{DomainParticipant, ParticipantConfig};
    pub use crate::infrastructure::{DdsError, DdsResult, InstanceHandle, Timeout};
    pub use crate::publication::{DataWriter, Loan};
    pub use crate::subscription::{DataReader, Sample, SampleInfo, ValidSample};
    pub use crate::topic::Topic;
    pub use crate::types::DdsType;
}
