//! Types compiled from IDL: every way of writing a sample takes them.

use crate::support::TestDomain;
use dds_api::prelude::*;
use generated::nav::detail::Position;
use generated::nav::{Aircraft, FlightPhase};

/// The generated code as an application includes it.
mod generated {
    #![allow(unreachable_pub, dead_code, reason = "not every type is used here")]
    include!("../../../idl/tests/golden/nav_for_dds_api.rs");
}

/// A writer and a reader of one topic, matched.
fn endpoints<T: DdsType>(participant: &DomainParticipant) -> (DataWriter<T>, DataReader<T>) {
    let topic = participant.topic::<T>("Samples").create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, Timeout::secs(30)).unwrap();
    (writer, reader)
}

#[test]
fn samples_of_idl_types_are_loaned_and_written_in_every_way() {
    let domain = TestDomain::new();
    let (writer, reader) = endpoints::<Aircraft>(&domain.join());
    let mut loan = writer.loan().unwrap();
    assert_eq!(*loan, Aircraft::default());
    assert_eq!(loan.phases, [FlightPhase::Taxi; 2]);
    loan.aircraft_id = 1;
    loan.publish().unwrap();
    writer.write_with(|aircraft| aircraft.aircraft_id = 2).unwrap();
    writer.write(&Aircraft { aircraft_id: 3, ..Aircraft::default() }).unwrap();

    for expected in 1..=3 {
        let sample = reader.take_next_data(Timeout::secs(30)).unwrap().unwrap();
        assert_eq!(*sample, Aircraft { aircraft_id: expected, ..Aircraft::default() });
    }
}

/// A plain type is built in the writer's memory.
#[test]
fn plain_samples_of_idl_types_are_loaned_in_place() {
    let domain = TestDomain::new();
    let (writer, reader) = endpoints::<Position>(&domain.join());
    let mut loan = writer.loan().unwrap();
    assert_eq!(*loan, Position { latitude: 0.0, longitude: 0.0, altitude: 0.0 });
    loan.altitude = 400.0;
    loan.publish().unwrap();
    let sample = reader.take_next_data(Timeout::secs(30)).unwrap().unwrap();
    assert_eq!(sample.altitude, 400.0);
}
