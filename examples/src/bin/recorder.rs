//! A flight recorder: samples outlive all processes that wrote and read them, and past samples can
//! be queried.
//!
//! ```text
//! cargo run --release -p squall-examples --bin recorder
//! ```
//! The altitude is a persistent topic. The first run writes, and ends. In the second run a late
//! joiner receives the last value, and the whole record.

use std::path::Path;

use dds_api::prelude::*;
use dds_api::subscription::Since;
use squall_examples::ExampleResult;

/// An altitude.
#[derive(DdsType, Clone, Copy, Debug, Default)]
struct Altitude {
    #[dds(key)]
    aircraft: u32,
    feet: f64,
}

/// Time limit of each step.
const SOON: Timeout = Timeout::secs(10);

fn join(logs: &Path) -> DdsResult<(DomainParticipant, Topic<Altitude>)> {
    let config = ParticipantConfig::new().log_folder(logs);
    let participant = DomainParticipant::with_config(0, config)?;
    let topic = participant.topic::<Altitude>("Altitude").persistent().create()?;
    Ok((participant, topic))
}

fn main() -> ExampleResult {
    // In an aircraft this would be a folder on a disk, the same for all processes of the host.
    let logs = tempfile::tempdir()?;
    {
        let (participant, topic) = join(logs.path())?;
        let writer = participant.writer(&topic).create()?;
        for feet in [0.0, 400.0, 1200.0, 2100.0] {
            writer.write(&Altitude { aircraft: 7, feet })?;
        }
        writer.wait_for_acknowledgments(SOON)?;
        println!("all of it is on the disk; everybody leaves");
    }
    let (participant, topic) = join(logs.path())?;
    let reader = participant.reader(&topic).reliable_all().create()?;
    reader.wait_for_historical_data(SOON)?;
    for altitude in reader.take_data(.., SOON)? {
        println!("aircraft {} was last seen at {} feet", altitude.aircraft, altitude.feet);
    }
    for read in reader.past(Since::Sample(1))? {
        let (place, altitude) = read?;
        if let Some(data) = altitude.data() {
            println!("record {place}: {} feet", data.feet);
        }
    }
    Ok(())
}
