//! Two applications that are fully described in `examples/applications.xml`: their types, topics,
//! policies, writers and readers.
//!
//! ```text
//! cargo run --release -p squall-examples --bin applications
//! ```
//! The program contains only the handling of samples. The display's filter passes only warnings.

use std::error::Error;
use std::path::Path;

use dds_api::prelude::*;
use dds_api::types::DynamicData;

fn main() -> Result<(), Box<dyn Error>> {
    let files = [Path::new(env!("CARGO_MANIFEST_DIR")).join("applications.xml")];
    let sensor = DomainParticipant::from_xml(&files, "Applications::Sensor")?;
    let display = DomainParticipant::from_xml(&files, "Applications::Display")?;

    let attitudes = sensor.writer("Air::Attitude")?;
    let alarms = sensor.writer("Air::Alarms")?;
    attitudes.wait_for_readers(1, Timeout::secs(5))?;
    alarms.wait_for_readers(1, Timeout::secs(5))?;

    let of = sensor.dynamic_type("Attitude")?;
    attitudes.write(&DynamicData::parse(&of, "{aircraft: 7, pitch: 1.5, yaw: 271}")?)?;
    let of = sensor.dynamic_type("Alarms")?;
    alarms.write(&DynamicData::parse(&of, "{code: 1, severity: ADVISORY, text: \"Fuel low\"}")?)?;
    alarms.write(&DynamicData::parse(&of, "{code: 2, severity: WARNING, text: \"Fire\"}")?)?;

    for reader in ["Screen::Attitude", "Screen::Warnings"] {
        for sample in display.reader(reader)?.take_data(.., Timeout::secs(5))? {
            println!("{reader}: {}", sample.to_json().replace("\n", " "));
        }
    }
    Ok(())
}
