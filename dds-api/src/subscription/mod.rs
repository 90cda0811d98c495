//! The subscription module of the standard: readers and their samples.

mod attended;
mod builder;
#[doc(hidden)]
pub mod cache;
mod calls;
mod condition;
mod departures;
mod enabling;
mod past;
mod queues;
mod reader;
mod sample;
mod sets;
mod shelf;
mod states;
mod statuses;
mod subscriber;

pub use builder::DataReaderBuilder;
pub use condition::ReadCondition;
pub use past::{PastSamples, Since};
pub use reader::{DataReader, Limit, SampleStream, Samples};
pub use sample::{Sample, SampleInfo};
pub use shelf::{SampleRejectedStatus, SampleRejectedStatusKind};
pub use states::{
    InstanceState, InstanceStateMask, SampleState, SampleStateMask, States, ViewState,
    ViewStateMask,
};
pub use subscriber::{Subscriber, SubscriberBuilder};
