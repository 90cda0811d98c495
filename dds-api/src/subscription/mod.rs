//! The subscription module of the standard: readers and their samples.

mod reader;
mod sample;

pub use reader::{DataReader, DataReaderBuilder, Limit, Samples};
pub use sample::{Sample, SampleInfo};
