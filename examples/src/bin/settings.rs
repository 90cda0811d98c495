//! A panel writes settings and leaves; a display that joins later still receives them.
//!
//! ```text
//! cargo run --release -p squall-examples --bin settings
//! ```
//! All participants of the topic keep the last value of each setting: here the first display does,
//! after the panel has left.

use dds_api::prelude::*;
use squall_examples::ExampleResult;

/// A setting of the flight deck.
#[derive(DdsType, Clone, Debug, Default)]
struct Setting {
    #[dds(key)]
    name: String,
    value: f64,
}

/// Time limit of each step.
const SOON: Timeout = Timeout::secs(10);

/// Creates the topic: one instance for each setting, of which the last value is kept.
fn settings(participant: &DomainParticipant) -> DdsResult<Topic<Setting>> {
    participant.topic::<Setting>("Settings").transient_local().create()
}

fn set(writer: &DataWriter<Setting>, name: &str, value: f64) -> DdsResult<()> {
    writer.write(&Setting { name: name.to_owned(), value })
}

/// A display that joins, and shows the current settings.
fn display(name: &str) -> DdsResult<(DomainParticipant, DataReader<Setting>)> {
    let participant = DomainParticipant::new(0)?;
    let reader = participant.reader(&settings(&participant)?).reliable_all().create()?;
    reader.wait_for_historical_data(SOON)?;
    for setting in reader.take_data(.., SOON)? {
        println!("{name} shows {} = {}", setting.name, setting.value);
    }
    Ok((participant, reader))
}

fn main() -> ExampleResult {
    let panel = DomainParticipant::new(0)?;
    let writer = panel.writer(&settings(&panel)?).create()?;
    set(&writer, "altimeter", 1013.25)?;
    set(&writer, "heading", 271.0)?;
    set(&writer, "altimeter", 1009.0)?;
    writer.wait_for_acknowledgments(SOON)?;

    let _first = display("the first display")?;
    drop((writer, panel));
    println!("the panel has left");

    let (_participant, reader) = display("a late display")?;
    assert!(reader.take_next_data(Timeout::millis(50))?.is_none(), "and nothing twice");
    Ok(())
}
