//! Topic types from IDL, written by each call of a writer: from a value, into a loan, and with a
//! closure.
//!
//! ```text
//! cargo run --release -p squall-examples --bin idl_types
//! ```
//! `build.rs` compiles `idl/fleet.idl` to Rust. Samples start with the default values of the IDL.

use dds_api::prelude::*;
use fleet::{Phase, Track};

include!(concat!(env!("OUT_DIR"), "/fleet.rs"));

fn main() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Track>("Tracks").create()?;
    let reader = participant.reader(&topic).reliable_all().create()?;
    let writer = participant.writer(&topic).create()?;
    writer.wait_for_readers(1, Timeout::secs(30))?;

    let phase = Phase::Taxi;
    writer.write(&Track { aircraft: 1, call_sign: "SQL1".into(), phase, altitude: 0.0 })?;
    let mut loan = writer.loan()?;
    loan.aircraft = 2;
    loan.call_sign.push_str("SQL2");
    loan.publish()?;
    writer.write_with(|track| track.aircraft = 3)?;

    for _ in 0..3 {
        if let Some(track) = reader.take_next_data(Timeout::secs(30))? {
            println!("aircraft {} {:?} at {} m", track.aircraft, track.phase, track.altitude);
        }
    }
    Ok(())
}
