//! The subscription module of the standard: readers and their samples.

mod past;
mod reader;
mod sample;

pub use past::{PastSamples, Since};
pub use reader::{DataReader, DataReaderBuilder, Limit, SampleStream, Samples};
pub use sample::{Sample, SampleInfo};
