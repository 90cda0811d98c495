//! Common parts of the tests of topics in one order: two topics, of a plain type and of an
//! encoded one.
#![allow(dead_code, reason = "each test program uses a part of it")]

use dds_api::prelude::*;
use dds_api::publication::Publisher;
use dds_api::qos::{PresentationQosPolicy, PresentationQosPolicyAccessScopeKind};
use dds_api::subscription::{States, Subscriber};

use super::levels::at_level;
use super::support::SOON;

/// A plain sample of a set with this number; a set contains all samples written together.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wind {
    #[dds(key)]
    pub(crate) layer: u32,
    pub(crate) set: u64,
}

/// An encoded sample of a set with this number.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    #[dds(key)]
    pub(crate) point: u32,
    pub(crate) set: u64,
    pub(crate) name: String,
}

/// A seen sample: its topic, its instance, and its set.
pub(crate) type SeenSample = (char, u32, u64);

pub(crate) fn together() -> PresentationQosPolicy {
    let access_scope = PresentationQosPolicyAccessScopeKind::Group;
    PresentationQosPolicy { access_scope, coherent_access: true, ordered_access: true }
}

pub(crate) fn winds(participant: &DomainParticipant, level: &str) -> Topic<Wind> {
    at_level(participant.topic("Winds").common_order("flight"), level)
}

pub(crate) fn turns(participant: &DomainParticipant, level: &str) -> Topic<Turn> {
    at_level(participant.topic("Turns").common_order("flight"), level)
}

/// Writer of both topics.
pub(crate) struct Planner {
    pub(crate) publisher: Publisher,
    pub(crate) winds: DataWriter<Wind>,
    pub(crate) turns: DataWriter<Turn>,
}

impl Planner {
    pub(crate) fn new(participant: &DomainParticipant, level: &str) -> Planner {
        let publisher = participant.publisher().presentation(together()).create().unwrap();
        let winds = publisher.writer(&winds(participant, level)).max_sample_size(1 << 16);
        let turns = publisher.writer(&turns(participant, level)).max_blocking_time(SOON);
        Planner {
            winds: winds.max_blocking_time(SOON).create().unwrap(),
            turns: turns.create().unwrap(),
            publisher,
        }
    }

    pub(crate) fn wait_for_readers(&self, count: usize) {
        self.winds.wait_for_readers(count, SOON).unwrap();
        self.turns.wait_for_readers(count, SOON).unwrap();
    }

    pub(crate) fn write(&self, (topic, number, set): SeenSample) {
        match topic {
            'w' => self.winds.write(&Wind { layer: number, set }).unwrap(),
            _ => {
                let name = "x".repeat(number as usize % 40);
                self.turns.write(&Turn { point: number, set, name }).unwrap();
            }
        }
    }

    pub(crate) fn write_set(&self, samples: &[SeenSample]) {
        self.publisher.begin_coherent_changes().unwrap();
        samples.iter().for_each(|sample| self.write(*sample));
        self.publisher.end_coherent_changes().unwrap();
    }
}

/// Reader of both topics together.
pub(crate) struct Display {
    pub(crate) subscriber: Subscriber,
    pub(crate) winds: DataReader<Wind>,
    pub(crate) turns: DataReader<Turn>,
}

impl Display {
    pub(crate) fn new(participant: &DomainParticipant, level: &str) -> Display {
        let subscriber = participant.subscriber().presentation(together()).create().unwrap();
        Display {
            winds: subscriber.reader(&winds(participant, level)).reliable_all().create().unwrap(),
            turns: subscriber.reader(&turns(participant, level)).reliable_all().create().unwrap(),
            subscriber,
        }
    }

    /// Takes all samples that are available, in order.
    pub(crate) fn look(&self) -> Vec<SeenSample> {
        self.subscriber.begin_access().unwrap();
        let seen = self.taken();
        self.subscriber.end_access().unwrap();
        seen
    }

    /// Takes all available samples in an access that has begun.
    pub(crate) fn taken(&self) -> Vec<SeenSample> {
        let next = self.subscriber.data_readers(States::not_read()).unwrap();
        let seen = next.iter().filter_map(|reader| {
            match reader.instance_handle() == self.winds.instance_handle() {
                true => {
                    let wind = self.winds.take_next_sample().unwrap().unwrap();
                    wind.data().map(|wind| ('w', wind.layer, wind.set))
                }
                false => {
                    let turn = self.turns.take_next_sample().unwrap().unwrap();
                    turn.data().map(|turn| ('t', turn.point, turn.set))
                }
            }
        });
        seen.collect()
    }

    /// Takes until the given number of samples has arrived.
    pub(crate) fn look_for(&self, count: usize) -> Vec<SeenSample> {
        let mut seen = Vec::new();
        super::support::until("all has come", || {
            seen.extend(self.look());
            seen.len() >= count
        });
        seen
    }
}
