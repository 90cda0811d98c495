//! The first program: a writer and a reader of one topic, and two samples.
//!
//! ```text
//! cargo run --release -p squall-examples --bin hello
//! ```
//! Writer and reader can also be in two processes: each joins domain 0, and they discover
//! each other.

use dds_api::prelude::*;

#[derive(DdsType, Clone, Debug, Default)]
struct Attitude {
    #[dds(key)]
    aircraft: u32,
    pitch: f64,
    roll: f64,
    yaw: f64,
}

fn main() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?; // finds its peers by itself
    let topic = participant.topic::<Attitude>("Attitude").create()?;
    let writer = participant.writer(&topic).create()?;
    let reader = participant.reader(&topic).reliable_all().create()?; // every sample, in order

    writer.wait_for_readers(1, Timeout::secs(1))?;
    writer.write(&Attitude { aircraft: 7, pitch: 1.5, roll: 0.0, yaw: 271.0 })?;
    for sample in reader.take_data(.., Timeout::secs(1))? {
        println!("{:?}", *sample);
    }

    let mut sample = writer.loan()?; // in place, no copy
    sample.aircraft = 7;
    sample.pitch = 1.6;
    sample.publish()?;
    for sample in reader.take_data(.., Timeout::secs(1))? {
        println!("{:?}", *sample);
    }
    Ok(())
}
