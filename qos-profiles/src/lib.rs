//! The QoS policies of the OMG as plain data: values, defaults, and the three kinds of rules.
//!
//! Owns the definition of each policy: its fields, its default, whether it may change on an enabled
//! entity ([`PolicyId::changeable_after_enable`]), which values are consistent on one entity
//! ([`DataWriterQos::inconsistencies`] and the same method of other sets), and which offered value
//! satisfies which requested one ([`incompatible`]). Never acts on a policy, and knows nothing
//! about the transport of samples.
//!
//! The policies are those of DDS 1.4, with DATA_REPRESENTATION and TYPE_CONSISTENCY_ENFORCEMENT of
//! DDS-XTypes 1.3. Fields have the OMG's names. All values can be read and written with serde; a
//! field that is left out has its default.
//!
//! Profiles of policies in files are read, checked, resolved and written by [`xml`].
//!
//! ```
//! use qos_profiles::{
//!     DataReaderQos, DataWriterQos, DurabilityQosPolicyKind, Offered, PolicyId, PublisherQos,
//!     Requested, SubscriberQos, incompatible,
//! };
//!
//! let (writer, publisher) = (DataWriterQos::default(), PublisherQos::default());
//! let (mut reader, subscriber) = (DataReaderQos::default(), SubscriberQos::default());
//! reader.durability.kind = DurabilityQosPolicyKind::TransientLocal;
//!
//! let reasons = incompatible(
//!     &Offered { writer: &writer, publisher: &publisher },
//!     &Requested { reader: &reader, subscriber: &subscriber },
//! );
//! assert_eq!(reasons[0].policy, PolicyId::Durability);
//! ```

mod any;
mod consistency;
mod duration;
mod entities;
mod fields;
mod glob;
mod length;
mod policies;
mod policy_id;
mod rxo;
mod wire;
pub mod xml;

pub use any::{EntityKind, EntityQos};
pub use consistency::Inconsistency;
pub use duration::Duration;
pub use entities::{
    DataReaderQos, DataWriterQos, DomainParticipantQos, PublisherQos, SubscriberQos, TopicQos,
};
pub use fields::{Field, FieldType, Names, Value};
pub use glob::Glob;
pub use length::Length;
pub use policies::*;
pub use policy_id::PolicyId;
pub use rxo::{Incompatibility, Offered, Requested, incompatible};
