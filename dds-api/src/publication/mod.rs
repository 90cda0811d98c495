//! The publication module of the standard: writers.

mod loan;
mod writer;

pub use loan::Loan;
pub use writer::{DataWriter, DataWriterBuilder};
pub(crate) use writer::{broken_order, refused};
