//! A small avionics system: sensors, two flight computers of which one commands, and displays that
//! never disagree.
//!
//! ```text
//! cargo run --release -p squall-examples --bin avionics                      # with scripted kills
//! cargo run --release -p squall-examples --bin avionics -- --part display    # one part by hand
//! ```
//! A ready-made profile gives the guarantees of each topic. Attitude and air data are periodic
//! states. Guidance comes from two computers: readers receive only the stronger one, and if it dies
//! the other one, from the same sample on at all displays. An alarm stays on for displays that
//! start late, even if its source is gone.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use squall_examples::{ExampleResult, PartProcess, part};

#[derive(DdsType, Clone, Debug, Default)]
struct AirData {
    feet: f64,
}

#[derive(DdsType, Clone, Debug, Default)]
struct Attitude {
    pitch: f64,
}

/// Instructions that the displays show to the pilots: the computer they come from, and the number
/// of sensors they rest on.
#[derive(DdsType, Clone, Debug, Default)]
struct Guidance {
    computer: u32,
    step: u32,
    sensors: u32,
}

#[derive(DdsType, Clone, Debug, Default)]
struct Alarm {
    #[dds(key)]
    code: String,
    on: bool,
}

#[derive(DdsType, Clone, Debug, Default)]
struct Event {
    what: String,
}

const SOON: Timeout = Timeout::secs(30);
const TICK: Duration = Duration::from_millis(20);
/// Time after which a silent sensor counts as lost.
const LOST: Duration = Duration::from_millis(400);

/// Creates a topic with the ready-made profile of its kind.
fn topic<T: DdsType>(of: &DomainParticipant, name: &str, kind: &str) -> DdsResult<Topic<T>> {
    of.topic(name).profile(&format!("SquallAvionics::{kind}")).create()
}

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => script(),
        Some("air data") => sense("AirData", |step| AirData { feet: 3000.0 + f64::from(step) }),
        Some("attitude") => sense("Attitude", |step| Attitude { pitch: f64::from(step).sin() }),
        Some("primary") => compute(1, 20),
        Some("backup") => compute(2, 10),
        Some("display") => display(),
        Some("bell") => ring(),
        Some(other) => Err(format!("there is no part `{other}`").into()),
    }
}

/// A sensor, which measures until it is ended.
fn sense<T: DdsType>(name: &str, measure: impl Fn(u32) -> T) -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let topic = topic(&participant, name, "PeriodicState")?;
    let writer = participant.writer(&topic).create()?;
    for step in 0.. {
        writer.write(&measure(step))?;
        sleep(TICK);
    }
    Ok(())
}

/// A flight computer, which commands according to the sensors, and raises an alarm if one of them
/// is lost.
fn compute(computer: u32, strength: i32) -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let air = topic::<AirData>(&participant, "AirData", "PeriodicState")?;
    let air = participant.reader(&air).create()?;
    let attitude = topic::<Attitude>(&participant, "Attitude", "PeriodicState")?;
    let attitude = participant.reader(&attitude).create()?;
    let guidance = topic::<Guidance>(&participant, "Guidance", "Command")?;
    let guidance = participant.writer(&guidance).ownership_strength(strength).create()?;
    let alarms = topic::<Alarm>(&participant, "Alarms", "Alarm")?;
    let alarms = participant.writer(&alarms).create()?;
    let mut last_seen: [Option<Instant>; 2] = [None, None];
    let mut is_on = false;
    for step in 0.. {
        let counts = [
            air.take_data(.., Timeout::NOW)?.count(),
            attitude.take_data(.., Timeout::NOW)?.count(),
        ];
        for (last_seen, _) in last_seen.iter_mut().zip(counts).filter(|(_, news)| *news > 0) {
            *last_seen = Some(Instant::now());
        }
        let sensors =
            last_seen.iter().flatten().filter(|heard| heard.elapsed() < LOST).count() as u32;
        guidance.write(&Guidance { computer, step, sensors })?;
        let lost = last_seen[1].is_some_and(|heard| heard.elapsed() >= LOST);
        if lost && !is_on {
            alarms.write(&Alarm { code: "ATTITUDE LOST".to_owned(), on: true })?;
            is_on = true;
        }
        sleep(TICK);
    }
    Ok(())
}

/// A display, which records what it shows, until the flight is over.
fn display() -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let guidance = topic::<Guidance>(&participant, "Guidance", "Command")?;
    let guidance = participant.reader(&guidance).create()?;
    let alarms = topic::<Alarm>(&participant, "Alarms", "Alarm")?;
    let alarms = participant.reader(&alarms).create()?;
    let events = topic::<Event>(&participant, "Events", "Event")?;
    let events = participant.reader(&events).create()?;
    println!("ready");
    let mut is_over = false;
    while !is_over {
        let is_news = || events.has_samples() || guidance.has_samples() || alarms.has_samples();
        participant.wait_until(SOON, is_news)?;
        // A sample acknowledged before the end is received before the end.
        is_over = events.take_data(.., Timeout::NOW)?.any(|event| event.what == "landed");
        // The last values of a source that is gone stay valid, so notices of its end do not matter.
        for shown in guidance.take_data(.., Timeout::NOW)? {
            println!(
                "guidance {} of computer {} by {} sensors",
                shown.step, shown.computer, shown.sensors
            );
        }
        for alarm in alarms.take_data(.., Timeout::NOW)? {
            println!("alarm {} {}", alarm.code, if alarm.on { "on" } else { "off" });
        }
    }
    Ok(())
}

/// Announces the end of the flight.
fn ring() -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let events = topic::<Event>(&participant, "Events", "Event")?;
    let writer = participant.writer(&events).create()?;
    writer.wait_for_readers(3, SOON)?;
    writer.write(&Event { what: "landed".to_owned() })?;
    Ok(writer.wait_for_acknowledgments(SOON)?)
}

/// Flies, and kills the primary computer and the attitude sensor on the way.
fn script() -> ExampleResult {
    let mut displays = [PartProcess::listened_to("display")?, PartProcess::listened_to("display")?];
    displays.iter_mut().try_for_each(|display| display.wait_for("ready").map(drop))?;
    let air = PartProcess::start("air data")?;
    let attitude = PartProcess::start("attitude")?;
    let backup = PartProcess::start("backup")?;
    let primary = PartProcess::start("primary")?;
    displays[0].wait_for("of computer 1 by 2 sensors")?;
    primary.kill()?;
    displays[0].wait_for("of computer 2 by 2 sensors")?;
    attitude.kill()?;
    displays[0].wait_for("alarm ATTITUDE LOST on")?;
    let primary = PartProcess::start("primary")?;
    displays[0].wait_for("of computer 1 by 1 sensors")?;
    let mut late = PartProcess::listened_to("display")?;
    late.wait_for("alarm ATTITUDE LOST on")?;
    [primary, backup, air].into_iter().try_for_each(PartProcess::kill)?;
    PartProcess::start("bell")?.finish()?;

    let [left, right] = displays;
    let (left, right) = (left.listen_to_the_end()?, right.listen_to_the_end()?);
    let (left, right) = (by_topic(&left), by_topic(&right));
    if left != right {
        return Err(format!("the displays disagree:\n{left:?}\n{right:?}").into());
    }
    late.listen_to_the_end()?;
    let guidance = &left["guidance"];
    let of = |computer| guidance.iter().filter(|line| line.contains(computer)).count();
    let (first, second) = (of("computer 1"), of("computer 2"));
    println!("both displays showed the same: {first} of computer 1, {second} of computer 2");
    println!("and the alarm, which was on at a display that came late: {:?}", left["alarm"]);
    Ok(())
}

/// Returns the lines that a display has shown, by topic, in order.
fn by_topic(lines: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut shown: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (topic, rest) in lines.iter().filter_map(|line| line.split_once(' ')) {
        shown.entry(topic).or_default().push(rest);
    }
    shown
}
