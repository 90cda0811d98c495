//! Common parts of the tests of coherent sets: routes of several legs, each of which is written as
//! a set.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::Path;

use dds_api::prelude::*;
use dds_api::publication::Publisher;
use dds_api::qos::{PresentationQosPolicy, PresentationQosPolicyAccessScopeKind};
use dds_api::subscription::Subscriber;
use dds_api::topic::TopicBuilder;

use super::support::{SOON, join};

/// Element of a set, of a plain type.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Leg {
    #[dds(key)]
    pub(crate) number: u32,
    pub(crate) route: u64,
}

pub(crate) fn coherent() -> PresentationQosPolicy {
    let access_scope = PresentationQosPolicyAccessScopeKind::Topic;
    PresentationQosPolicy { access_scope, coherent_access: true, ordered_access: true }
}

pub(crate) fn publisher(participant: &DomainParticipant) -> Publisher {
    participant.publisher().presentation(coherent()).create().unwrap()
}

pub(crate) fn subscriber(participant: &DomainParticipant) -> Subscriber {
    participant.subscriber().presentation(coherent()).create().unwrap()
}

/// Creates a topic of a level.
pub(crate) fn topic<T: DdsType>(participant: &DomainParticipant, level: &str) -> Topic<T> {
    let topic = participant.topic::<T>("Legs");
    let topic: TopicBuilder<T> = match level {
        "unordered" => topic,
        "atomic" => topic.atomic(),
        "logged" => topic.persistent().keep_all(),
        _ => topic.transient_local().keep_all(),
    };
    topic.create().unwrap()
}

pub(crate) fn writer<T: DdsType>(publisher: &Publisher, topic: &Topic<T>) -> DataWriter<T> {
    publisher.writer(topic).max_blocking_time(SOON).create().unwrap()
}

/// Takes with one call, without notices of ended instances.
pub(crate) fn take(reader: &DataReader<Leg>, timeout: Timeout) -> Vec<(u32, u64)> {
    let legs = reader.take_data(.., timeout).unwrap();
    legs.map(|leg| (leg.number, leg.route)).collect()
}

/// Takes the available samples with one call.
pub(crate) fn taken(reader: &DataReader<Leg>) -> Vec<(u32, u64)> {
    take(reader, Timeout::NOW)
}

/// Takes with one call, once there is a sample.
pub(crate) fn next(reader: &DataReader<Leg>) -> Vec<(u32, u64)> {
    take(reader, SOON)
}

pub(crate) fn route(route: u64, legs: u32) -> Vec<(u32, u64)> {
    (0..legs).map(|number| (number, route)).collect()
}

pub(crate) fn write(writer: &DataWriter<Leg>, legs: &[(u32, u64)]) {
    legs.iter().for_each(|&(number, route)| writer.write(&Leg { number, route }).unwrap());
}

pub(crate) fn config(folder: &Path) -> ParticipantConfig {
    let logs = folder.parent().unwrap().join("logs");
    std::fs::create_dir_all(&logs).unwrap();
    ParticipantConfig::new().runtime_dir(folder).log_folder(logs)
}

pub(crate) fn join_at(folder: &Path, level: &str) -> DomainParticipant {
    match level {
        "logged" => DomainParticipant::with_config(0, config(folder)).unwrap(),
        _ => join(folder),
    }
}
