//! Listeners while entities are made: a listener finds each entity in a usable state, with the
//! handle that the application receives.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{CheckedSample, SOON, TestDomain, until};
use dds_api::infrastructure::{
    AnyDataReader, AnyDataWriter, DataReaderListener, DataWriterListener, InconsistentTopicStatus,
    InstanceHandle, PublicationMatchedStatus, PublisherListener, StatusKind, StatusMask,
    SubscriberListener, SubscriptionMatchedStatus, TopicListener,
};
use dds_api::prelude::*;
use dds_api::qos::{EntityFactoryQosPolicy, PublisherQos, SubscriberQos};
use dds_api::subscription::{States, Subscriber};

/// Number of entities that are made while others write and match.
const ROUNDS: u64 = 150;
const LATER: EntityFactoryQosPolicy = EntityFactoryQosPolicy { autoenable_created_entities: false };

/// Findings of listeners.
#[derive(Default)]
struct Findings {
    /// Handles of the entities for which a listener was called.
    handles: BTreeSet<InstanceHandle>,
    /// Calls that failed in a listener.
    failures: BTreeSet<String>,
}

/// Listener that uses the entity for which it is called.
#[derive(Clone, Default)]
struct UsingListener(Arc<Mutex<Findings>>);

impl UsingListener {
    fn note(&self, handle: InstanceHandle, used: DdsResult<()>) {
        let mut findings = self.0.lock().unwrap();
        findings.handles.insert(handle);
        match used {
            Ok(()) | Err(DdsError::Timeout(_) | DdsError::AlreadyDeleted(_)) => {}
            Err(error) => findings.failures.extend([error.to_string()]),
        }
    }

    fn use_writer(&self, writer: &DataWriter<CheckedSample>) {
        self.note(writer.instance_handle(), writer.write(&CheckedSample::new(0)));
    }

    fn use_reader(&self, reader: &DataReader<CheckedSample>) {
        self.note(reader.instance_handle(), reader.take(.., Timeout::NOW).map(drop));
    }

    /// Handles of the entities for which the listener was called, all without failure.
    fn handles(&self) -> BTreeSet<InstanceHandle> {
        let findings = self.0.lock().unwrap();
        assert!(findings.failures.is_empty(), "{:?}", findings.failures);
        findings.handles.clone()
    }

    fn is_called_for(&self, handle: InstanceHandle) -> bool {
        self.0.lock().unwrap().handles.contains(&handle)
    }
}

impl DataWriterListener<CheckedSample> for UsingListener {
    fn on_publication_matched(
        &mut self,
        writer: &DataWriter<CheckedSample>,
        _: &PublicationMatchedStatus,
    ) {
        self.use_writer(writer);
    }
}

impl DataReaderListener<CheckedSample> for UsingListener {
    fn on_data_available(&mut self, reader: &DataReader<CheckedSample>) {
        self.use_reader(reader);
    }

    fn on_subscription_matched(
        &mut self,
        reader: &DataReader<CheckedSample>,
        _: &SubscriptionMatchedStatus,
    ) {
        self.use_reader(reader);
    }
}

impl PublisherListener for UsingListener {
    fn on_publication_matched(&mut self, writer: &dyn AnyDataWriter, _: &PublicationMatchedStatus) {
        self.use_writer(writer.as_any().downcast_ref().unwrap());
    }
}

impl SubscriberListener for UsingListener {
    fn on_data_available(&mut self, reader: &dyn AnyDataReader) {
        self.use_reader(reader.as_any().downcast_ref().unwrap());
    }

    fn on_subscription_matched(
        &mut self,
        reader: &dyn AnyDataReader,
        _: &SubscriptionMatchedStatus,
    ) {
        self.use_reader(reader.as_any().downcast_ref().unwrap());
    }

    fn on_data_on_readers(&mut self, subscriber: &Subscriber) {
        for reader in subscriber.data_readers(States::any()).unwrap() {
            self.use_reader(reader.as_any().downcast_ref().unwrap());
        }
    }
}

impl TopicListener for UsingListener {
    fn on_inconsistent_topic(&mut self, _: &str, _: &InconsistentTopicStatus) {}
}

fn topic(participant: &DomainParticipant, level: &str) -> Topic<CheckedSample> {
    let topic = participant.topic::<CheckedSample>("Marks");
    if level == "atomic" { topic.atomic() } else { topic }.create().unwrap()
}

/// Runs `make` while another participant writes without a pause and makes readers and writers.
fn in_a_flood(domain: &TestDomain, level: &str, make: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let stop = Stop(&over);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let others = domain.join();
            let topic = topic(&others, level);
            let writer = others.writer(&topic).create().unwrap();
            let _reader = others.reader(&topic).reliable().keep_last(1).create().unwrap();
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let _ = writer.write(&CheckedSample::new(number));
                if number % 512 == 0 {
                    let _passing = others.reader(&topic).reliable().keep_last(1).create().unwrap();
                }
            }
        });
        make();
        drop(stop);
    });
}

/// Ends the flood, also if an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn participant_listener_finds_new_writers_and_readers_usable() {
    for level in ["unordered", "atomic"] {
        let domain = TestDomain::new();
        let ours = domain.join();
        let listener = UsingListener::default();
        ours.set_listener(listener.clone(), StatusMask::ALL).unwrap();
        in_a_flood(&domain, level, || {
            let topic = topic(&ours, level);
            let mut made = BTreeSet::new();
            for round in 0..ROUNDS {
                let reader = ours.reader(&topic).reliable().keep_last(1).create().unwrap();
                let writer = ours.writer(&topic).create().unwrap();
                made.extend([reader.instance_handle(), writer.instance_handle()]);
                if round % 16 == 0 {
                    until("the listener is called for both", || {
                        listener.is_called_for(reader.instance_handle())
                            && listener.is_called_for(writer.instance_handle())
                    });
                }
            }
            let strange: Vec<_> = listener.handles().difference(&made).copied().collect();
            assert_eq!(strange, [], "{level}: handles that the application has not received");
        });
        ours.clear_listener();
    }
}

#[test]
fn listener_of_a_group_finds_new_writers_and_readers_usable() {
    let domain = TestDomain::new();
    let ours = domain.join();
    let listener = UsingListener::default();
    in_a_flood(&domain, "unordered", || {
        let topic = topic(&ours, "unordered");
        let mut made = BTreeSet::new();
        for _ in 0..ROUNDS / 3 {
            let subscriber = ours.subscriber().create().unwrap();
            subscriber.set_listener(listener.clone(), StatusMask::ALL).unwrap();
            let publisher = ours.publisher().create().unwrap();
            publisher.set_listener(listener.clone(), StatusMask::ALL).unwrap();
            let reader = subscriber.reader(&topic).reliable().keep_last(1).create().unwrap();
            let writer = publisher.writer(&topic).create().unwrap();
            made.extend([reader.instance_handle(), writer.instance_handle()]);
            writer.wait_for_readers(1, SOON).unwrap();
            until("the listener is called for both", || {
                listener.is_called_for(reader.instance_handle())
                    && listener.is_called_for(writer.instance_handle())
            });
        }
        let strange: Vec<_> = listener.handles().difference(&made).copied().collect();
        assert_eq!(strange, [], "handles that the application has not received");
    });
}

/// A listener that is set before its entity is enabled is there from the first event on.
#[test]
fn own_listener_set_before_enabling_finds_its_entity_usable() {
    let domain = TestDomain::new();
    let ours = domain.join();
    let publisher = PublisherQos { entity_factory: LATER, ..Default::default() };
    let publisher = ours.publisher().qos(&publisher).create().unwrap();
    let subscriber = SubscriberQos { entity_factory: LATER, ..Default::default() };
    let subscriber = ours.subscriber().qos(&subscriber).create().unwrap();
    in_a_flood(&domain, "unordered", || {
        let topic = topic(&ours, "unordered");
        for _ in 0..ROUNDS / 3 {
            let (of_writer, of_reader) = (UsingListener::default(), UsingListener::default());
            let writer = publisher.writer(&topic).create().unwrap();
            writer.set_listener(of_writer.clone(), StatusKind::PublicationMatched).unwrap();
            let reader = subscriber.reader(&topic).reliable().keep_last(1).create().unwrap();
            reader.set_listener(of_reader.clone(), StatusMask::ALL).unwrap();
            writer.enable().unwrap();
            reader.enable().unwrap();
            let (writer, reader) = (writer.instance_handle(), reader.instance_handle());
            until("both listeners are called", || {
                of_writer.is_called_for(writer) && of_reader.is_called_for(reader)
            });
            assert_eq!(of_writer.handles(), [writer].into());
            assert_eq!(of_reader.handles(), [reader].into());
        }
    });
}
