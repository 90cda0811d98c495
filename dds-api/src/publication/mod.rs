//! The publication module of the standard: writers.

mod instances;
mod loan;
mod place;
mod writer;

pub use loan::Loan;
pub(crate) use writer::refused;
pub use writer::{DataWriter, DataWriterBuilder};
