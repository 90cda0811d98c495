//! The subscription module of the standard: readers and their samples.

mod authors;
mod builder;
mod builtin;
#[doc(hidden)]
pub mod cache;
mod calls;
mod condition;
mod data_available;
mod data_on_readers;
mod departures;
mod enabling;
mod group_access;
mod in_step;
mod intake;
mod joined;
mod lending;
mod notification;
mod past;
mod queues;
mod queues_by_time;
mod reader;
mod reader_cache;
mod sample;
mod sets;
mod states;
mod statuses;
mod subscriber;
mod unqueued;

pub use builder::DataReaderBuilder;
pub(crate) use builtin::{is_builtin, not_with_builtin};
pub use condition::ReadCondition;
pub(crate) use group_access::{GroupAccess, check_order, is_one};
pub use past::{PastSamples, Since};
pub use reader::{DataReader, DataSamples, DataStream, Limit, SampleStream, Samples};
pub use reader_cache::{SampleRejectedStatus, SampleRejectedStatusKind};
pub(crate) use sample::key_of;
pub use sample::{Sample, SampleInfo, ValidSample};
pub use states::{
    InstanceState, InstanceStateMask, SampleState, SampleStateMask, States, ViewState,
    ViewStateMask,
};
pub(crate) use subscriber::SubscriberGroup;
pub use subscriber::{Subscriber, SubscriberBuilder};
