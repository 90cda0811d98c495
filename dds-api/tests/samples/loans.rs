//! Returned loans make room for other threads, which may be asleep; and the bytes that plain
//! samples leave in memory.

use std::mem::{MaybeUninit, offset_of};
use std::time::Duration;

use crate::support::{CheckedSample, SOON, TestDomain};
use dds_api::prelude::*;
use dds_api::qos::LifespanQosPolicy;
use dds_api::topic::Bytes;

#[test]
fn a_write_that_waits_for_room_is_woken_by_a_loan_that_is_dropped() {
    const TOO_LONG: Timeout = Timeout::secs(5);
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = participant.writer(&topic).memory(4096).in_flight(2);
    let writer = writer.max_blocking_time(TOO_LONG).create().unwrap();
    for _ in 0..3 {
        let loans = [writer.loan().unwrap(), writer.loan().unwrap()];
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| writer.write(&CheckedSample::new(1)));
            // Long enough for the thread to be asleep in most runs; in other runs the test
            // cannot fail.
            std::thread::sleep(Duration::from_millis(50));
            assert!(!writing.is_finished());
            drop(loans);
            writing.join().unwrap().unwrap();
        });
    }
}

/// A type with padding after `first`.
#[derive(DdsType, Clone, Debug, Default)]
#[repr(C)]
struct Padded {
    first: u8,
    second: u64,
}

/// Returns the bytes of a sample including its padding.
fn bytes_of(sample: &Padded) -> Vec<u8> {
    let first = (&raw const *sample).cast::<u8>();
    // SAFETY: the sample lies in shared memory of which every byte was written by the kernel or by
    // its writer.
    (0..size_of::<Padded>()).map(|at| unsafe { first.add(at).read_volatile() }).collect()
}

#[test]
fn padding_of_plain_samples_shows_nothing_of_their_writer() {
    const PADDING: std::ops::Range<usize> = 1..offset_of!(Padded, second);
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Padded>("Padded").create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let mut secret = MaybeUninit::<Padded>::uninit();
    // SAFETY: every bit pattern is a `Padded`.
    let secret = unsafe {
        secret.as_mut_ptr().write_bytes(0x55, 1);
        secret.assume_init_ref()
    };
    writer.write(secret).unwrap();
    let taken = reader.take_next_data(SOON).unwrap().unwrap();
    assert_eq!((taken.first, taken.second), (0x55, 0x5555_5555_5555_5555));
    assert!(bytes_of(&taken)[PADDING].iter().all(|byte| *byte == 0), "{:x?}", bytes_of(&taken));
    let mut loan = writer.loan_as_left().unwrap();
    let place: *mut Padded = &mut *loan;
    // SAFETY: the memory belongs to the loan, and every bit pattern is a `Padded`.
    unsafe { place.write_bytes(0x77, 1) };
    loan.publish().unwrap();
    let taken = reader.take_next_data(SOON).unwrap().unwrap();
    assert_eq!(taken.first, 0x77);
    assert!(bytes_of(&taken)[PADDING].iter().all(|byte| *byte == 0), "{:x?}", bytes_of(&taken));
}

/// Sets or removes LIFESPAN, which takes some bytes of each record.
fn set_lifespan<T: DdsType>(writer: &DataWriter<T>, lifespan: Option<Duration>) {
    let mut qos = writer.qos();
    qos.lifespan = LifespanQosPolicy { duration: lifespan.into() };
    writer.set_qos(&qos).unwrap();
}

/// A loan claims room for the policies at its beginning. Those at its publication count.
#[test]
fn loans_are_published_with_policies_that_changed_meanwhile() {
    const SHORT: Duration = Duration::from_millis(1);
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let bytes = participant.topic::<Bytes>("Bytes").create().unwrap();
    let byte_reader = participant.reader(&bytes).reliable_all().create().unwrap();
    let byte_writer = participant.writer(&bytes).create().unwrap();
    byte_writer.wait_for_readers(1, SOON).unwrap();
    for number in 0..20 {
        let [before, after] = match number % 2 {
            0 => [None, Some(SHORT)],
            _ => [Some(SHORT), None],
        };
        set_lifespan(&writer, before);
        set_lifespan(&byte_writer, before);
        let mut loan = writer.loan().unwrap();
        *loan = CheckedSample::new(number);
        let mut byte_loan = byte_writer.loan_bytes(100).unwrap();
        byte_loan.fill(number as u8);
        set_lifespan(&writer, after);
        set_lifespan(&byte_writer, after);
        loan.publish().unwrap();
        byte_loan.publish().unwrap();
        match after {
            // The samples have expired, or will before they are taken.
            Some(_) => {
                std::thread::sleep(10 * SHORT);
                assert!(reader.take_next(Timeout::NOW).unwrap().is_none(), "{number}");
                assert!(byte_reader.take_next(Timeout::NOW).unwrap().is_none(), "{number}");
            }
            None => {
                let sample = reader.take_next_data(SOON).unwrap().unwrap();
                assert_eq!(sample.number, number);
                let sample = byte_reader.take_next_data(SOON).unwrap().unwrap();
                assert_eq!(**sample, [number as u8; 100]);
            }
        }
    }
}
