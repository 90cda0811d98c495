//! The publication module of the standard: writers.

mod acknowledgment;
mod builder;
mod by_handle;
mod bytes;
mod changes;
mod enabling;
mod instances;
mod limits;
mod loan;
mod notification;
mod publisher;
mod statuses;
mod writer;
mod writer_claim;

pub use builder::DataWriterBuilder;
pub(crate) use builder::refused;
pub use bytes::ByteLoan;
pub(crate) use changes::HeldChanges;
pub use loan::Loan;
pub use publisher::{Publisher, PublisherBuilder};
pub use writer::DataWriter;
#[doc(hidden)]
pub use writer::WriterCore;
