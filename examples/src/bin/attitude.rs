//! One process flies, two watch: typed samples between processes, without configuration.
//!
//! ```text
//! cargo run --release -p squall-examples                       # all three processes
//! cargo run --release -p squall-examples -- --part watcher     # one of them, in each terminal
//! cargo run --release -p squall-examples -- --part aircraft
//! ```

use dds_api::prelude::*;
use squall_examples::{ExampleResult, part, play_all};

/// Orientation of the aircraft, in degrees.
#[derive(DdsType, Clone, Debug, Default)]
struct Attitude {
    #[dds(key)]
    aircraft: u32,
    pitch: f64,
    roll: f64,
    yaw: f64,
}

/// Number of samples that the aircraft writes.
const SAMPLES: u32 = 1000;

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["watcher", "watcher", "aircraft"]),
        Some("aircraft") => fly(),
        Some("watcher") => watch(),
        Some(other) => Err(format!("there is no part `{other}`: aircraft or watcher").into()),
    }
}

fn fly() -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Attitude>("Attitude").create()?;
    let writer = participant.writer(&topic).create()?;
    writer.wait_for_readers(2, Timeout::secs(30))?;

    for step in 0..SAMPLES {
        let angle = f64::from(step) / f64::from(SAMPLES) * std::f64::consts::TAU;
        // The sample is built where the watchers read it: no copy on the way.
        let mut sample = writer.loan()?;
        sample.aircraft = 7;
        sample.pitch = 10.0 * angle.sin();
        sample.roll = 25.0 * (2.0 * angle).sin();
        sample.yaw = angle.to_degrees();
        sample.publish()?;
    }
    writer.wait_for_acknowledgments(Timeout::secs(30))?;
    println!("aircraft 7 wrote {SAMPLES} attitudes, and all watchers have received them");
    Ok(())
}

fn watch() -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Attitude>("Attitude").create()?;
    let reader = participant.reader(&topic).reliable_all().create()?;

    let mut seen = 0;
    while seen < SAMPLES {
        let mut samples = reader.take_data(.., Timeout::secs(30))?.peekable();
        if samples.peek().is_none() {
            return Err(format!("only {seen} of {SAMPLES} attitudes came within 30 s").into());
        }
        for sample in samples {
            if seen % 200 == 0 {
                println!("watcher {}: {:?}", std::process::id(), *sample);
            }
            seen += 1;
        }
    }
    println!("watcher {} took all {seen} attitudes", std::process::id());
    Ok(())
}
