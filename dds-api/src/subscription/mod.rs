//! The subscription module of the standard: readers and their samples.

#[doc(hidden)]
pub mod cache;
mod past;
mod reader;
mod sample;
mod states;

pub use past::{PastSamples, Since};
pub use reader::{DataReader, DataReaderBuilder, Limit, SampleStream, Samples};
pub use sample::{Sample, SampleInfo};
pub use states::{
    InstanceState, InstanceStateMask, SampleState, SampleStateMask, States, ViewState,
    ViewStateMask,
};
