//! Pieces of Rust in the guide, with the layout of the guide, each within the code that makes
//! it run.

use std::cell::RefCell;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dds_api::domain::{DomainParticipantFactory, PublicationBuiltinTopicData, SchedulingClass};
use dds_api::infrastructure::{GuardCondition, WaitSet};
use dds_api::prelude::*;
use dds_api::qos::{
    DataWriterQos, DomainParticipantQos, PresentationQosPolicy, PresentationQosPolicyAccessScopeKind,
    PublisherQos, TopicQos, TypeConsistencyEnforcementQosPolicy,
};
use dds_api::subscription::{InstanceState, ReadCondition, Since, States};

type Outcome = Result<(), Box<dyn Error>>;

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Track { #[dds(key)] id: u32, height: f64 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Attitude { #[dds(key)] aircraft: u32, pitch: f64 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Command { code: u32 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Setting { #[dds(key)] name: String, value: f64 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Alarm { #[dds(key)] code: u32 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Fix { #[dds(key)] aircraft: u32, feet: f64 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Leg { #[dds(key)] number: u32, route: u64 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Wind { #[dds(key)] layer: u32, knots: f64 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Turn { #[dds(key)] point: u32, heading: f64 }

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Contact { #[dds(key)] callsign: String, altitude: f64, distance: f64 }

mod display {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default)]
    struct Altitude { #[dds(key)] aircraft: u32, feet: f64 }

    fn main() -> DdsResult<()> {
        let participant = DomainParticipant::new(0)?;                 // a member of domain 0
        let topic = participant.topic::<Altitude>("Altitude").create()?;
        let reader = participant.reader(&topic).reliable_all().create()?;
        while let Some(sample) = reader.take_next(Timeout::secs(60))? {
            match sample.data() {
                Some(data) => println!("{} at {} ft", data.aircraft, data.feet),
                None => break,                                        // nobody writes this aircraft any more
            }
        }
        Ok(())
    }

    pub(super) fn run() -> DdsResult<()> {
        main()
    }
}

mod sensor {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default)]
    struct Altitude { #[dds(key)] aircraft: u32, feet: f64 }

    fn main() -> DdsResult<()> {
        let participant = DomainParticipant::new(0)?;
        let topic = participant.topic::<Altitude>("Altitude").create()?;
        let writer = participant.writer(&topic).create()?;
        writer.wait_for_readers(1, Timeout::secs(60))?;               // what is written before is not for them
        for step in 0..5 {
            writer.write(&Altitude { aircraft: 7, feet: 100.0 * f64::from(step) })?;
        }
        writer.wait_for_acknowledgments(Timeout::secs(5))?;           // they have all of it
        Ok(())
    }

    pub(super) fn run() -> DdsResult<()> {
        main()
    }
}

fn first_application() -> Outcome {
    let shows = std::thread::spawn(display::run);
    sensor::run()?;
    Ok(shows.join().unwrap()?)
}

fn concepts() -> Outcome {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Track>("Tracks").create()?;
    let writer = participant.writer(&topic).create()?;
    let reader = participant.reader(&topic).reliable_all().create()?;
    writer.wait_for_readers(1, Timeout::secs(5))?;            // they are matched

    writer.write(&Track { id: 7, height: 3000.0 })?;          // instance 7
    writer.write(&Track { id: 8, height: 500.0 })?;           // instance 8
    writer.dispose(&Track { id: 7, height: 0.0 })?;           // 7 is no more
    writer.wait_for_acknowledgments(Timeout::secs(5))?;       // the reader has all of it
    for track in reader.take(.., Timeout::secs(1))? {
        println!("{}: {:?}", track.key_value().id, track.info().instance_state);
    }
    Ok(())
}

fn levels() -> Outcome {
    let participant = DomainParticipant::new(0)?;
    let minute = Duration::from_secs(60);
    let commands = participant.topic::<Command>("Commands").atomic().create()?;
    let settings = participant.topic::<Setting>("Settings").transient_local().create()?;
    let alarms = participant.topic::<Alarm>("Alarms").transient_local().keep_last(20).create()?;
    let track = participant.topic::<Fix>("Track").transient_local().keep_all().lifespan(minute).create()?;
    assert!(commands.is_atomic() && !commands.is_kept());
    assert!(settings.is_kept() && alarms.is_kept() && track.is_kept() && !track.is_logged());
    Ok(())
}

fn logged(logs: &Path) -> Outcome {
    let (fix, noon) = (Fix { aircraft: 7, feet: 400.0 }, SystemTime::UNIX_EPOCH);
    let config = ParticipantConfig::new().log_folder(logs);              // or SQUALL_LOG_FOLDER
    let participant = DomainParticipant::with_config(0, config)?;
    let track = participant.topic::<Fix>("Track").persistent().create()?;
    let writer = participant.writer(&track).create()?;
    writer.write(&fix)?;
    writer.wait_for_acknowledgments(Timeout::secs(5))?;                  // with all readers, and durable in all logs
    let reader = participant.reader(&track).create()?;
    for read in reader.past(Since::Time(noon))? {
        let (place, fix) = read?;
        println!("{place}: {fix:?}");
    }
    let then = reader.state_at(SystemTime::now())?;                      // the last of each instance
    assert_eq!(then.len(), 1);
    Ok(())
}

fn lost_history(logs: &Path) -> Outcome {
    let config = ParticipantConfig::new().log_folder(logs);
    let participant = DomainParticipant::with_config(0, config)?;
    let topic = participant.topic::<Track>("Tracks").persistent().create()?;
    let writer = participant.writer(&topic).create()?;
    writer.write(&Track { id: 7, height: 400.0 })?;
    writer.wait_for_acknowledgments(Timeout::secs(5))?;
    let reader = participant.reader(&topic).reliable_all().create()?;
    let past = reader.past(Since::Sample(1))?;                // an error if the log begins later, which says where
    for read in past {
        let (place, track) = read?;                           // an error if a log cannot be read, and no one else has it
        match track.data() {
            Some(data) => println!("{place}: {} at {}", data.id, data.height),
            None => println!("{place}: {} is over", track.key_value().id),
        }
    }
    let status = topic.storage_status().ok_or("it is not kept")?;
    if !status.waits_for.is_empty() {
        eprintln!("the topic begins when these are there: {}", status.waits_for.join(", "));
    }
    println!("{} of {} samples are durable in {} logs", status.durable, status.samples, status.logs);
    assert_eq!((status.samples, status.durable, status.logs), (1, 1, 1));
    Ok(())
}

fn failures() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Track>("Tracks").create()?;
    let picture = participant.reader(&topic).reliable().keep_last(1).create()?;
    let writer = participant.writer(&topic).memory(8 << 20).max_blocking_time(Timeout::secs(1)).create()?;
    writer.wait_for_readers(1, Timeout::secs(5))?;
    let (track, reader) = (Track { id: 7, height: 400.0 }, picture);
    match writer.write(&track) {
        Ok(()) => {}
        Err(DdsError::Timeout(why)) => eprintln!("a reader is too slow: {why}"),
        Err(other) => return Err(other),
    }
    writer.wait_for_acknowledgments(Timeout::secs(5))?;
    let seen = RefCell::new(Vec::new());
    let show = |track: &Track| seen.borrow_mut().push(format!("{} is there", track.id));
    let hide = |id: u32, why: &str| seen.borrow_mut().push(format!("{id}: {why}"));
    for _ in 0..2 {
        for sample in reader.take(.., Timeout::secs(1))? {
            let id = sample.key_value().id;
            match (sample.data(), sample.info().instance_state) {
                (Some(track), _) => show(track),
                (None, InstanceState::NotAliveDisposed) => hide(id, "it is over"),
                (None, _) => hide(id, "nobody says anything of it any more"),
            }
        }
        writer.clone().delete();
    }
    assert_eq!(seen.take(), ["7 is there", "7: it is over"]);
    let use_it = |sample: Option<ValidSample<Track>>| assert!(sample.is_none());
    let join_anew = |why: &str| panic!("{why}");
    match reader.take_next_data(Timeout::secs(1)) {
        Ok(sample) => use_it(sample),
        Err(DdsError::Isolated(why)) => join_anew(&why),      // drop the participant, and make another one
        Err(other) => return Err(other),
    }
    let config = ParticipantConfig::new().rejoin(true);
    let participant = DomainParticipant::with_config(0, config)?;
    assert_eq!(participant.rejoins(), 0);
    Ok(())
}

fn policies() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let (topic_qos, writer_qos) = (TopicQos::default(), DataWriterQos::default());
    let topic = participant.topic::<Attitude>("Attitude").qos(&topic_qos).create()?;   // the level follows from the policies
    let writer = participant.writer(&topic).qos(&writer_qos).create()?;
    let reader = participant.reader(&topic).create()?;
    writer.wait_for_readers(1, Timeout::secs(5))?;
    drop((writer, reader));

    let left = participant.publisher().partition(["left"]).create()?;
    let writer = left.writer(&topic).create()?;
    let both = participant.subscriber().partition(["l*", "right"]).create()?;
    let reader = both.reader(&topic).create()?;
    writer.wait_for_readers(1, Timeout::secs(5))?;

    let policy = TypeConsistencyEnforcementQosPolicy { prevent_type_widening: true, ..Default::default() };
    let reader = participant.reader(&topic).type_consistency(policy).create()?;
    if let Some(why) = reader.inconsistency() { eprintln!("{why}"); }
    Ok(())
}

fn best_effort() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Attitude>("Attitude").create()?;
    let display = participant.reader(&topic).best_effort().keep_last(1).create()?;
    let status = display.sample_lost_status();
    if status.total_count_change > 0 {
        eprintln!("{} samples came too fast, {} in all", status.total_count_change, status.total_count);
    }
    Ok(())
}

fn entities() -> DdsResult<()> {
    let there = DomainParticipant::new(0)?;
    let theirs = there.topic::<Track>("Tracks").atomic().create()?;
    let (participant_qos, publisher_qos) = (DomainParticipantQos::default(), PublisherQos::default());
    let participant = DomainParticipant::with_config(0, ParticipantConfig::new().qos(&participant_qos))?;
    participant.set_default_publisher_qos(Some(publisher_qos))?;         // and of subscribers and topics: where nothing is said
    let topic = participant.find_topic::<Track>("Tracks", Timeout::secs(5))?;   // as another participant has it, as soon as it has
    let same: Option<Topic<Track>> = participant.lookup_topic("Tracks");        // of one's own
    participant.delete_contained_entities()?;
    DomainParticipantFactory::instance().delete_participant(&participant)?;
    assert!(topic.is_atomic() && same.is_some());
    Ok(())
}

fn what_others_have() -> DdsResult<()> {
    let (participant, other) = (DomainParticipant::new(0)?, DomainParticipant::new(0)?);
    let topic = other.topic::<Track>("Tracks").create()?;
    let _writer = other.writer(&topic).create()?;

    let writers = participant.builtin_reader::<PublicationBuiltinTopicData>()?;
    while let Some(writer) = writers.take_next(Timeout::secs(1))? {
        match writer.data() {
            Some(data) => println!("{} writes `{}`: {:?}", data.key, data.topic_name, data.reliability),
            None => println!("{} is gone", writer.key_value().key),             // only the key is left
        }
    }
    Ok(())
}

fn several_topics() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let winds = participant.topic::<Wind>("Winds").atomic().common_order("flight").create()?;
    let turns = participant.topic::<Turn>("Turns").atomic().common_order("flight").create()?;
    let together = PresentationQosPolicy {
        access_scope: PresentationQosPolicyAccessScopeKind::Group,
        coherent_access: true,
        ordered_access: true,
    };
    let publisher = participant.publisher().presentation(together.clone()).create()?;
    let (wind, turn) = (publisher.writer(&winds).create()?, publisher.writer(&turns).create()?);
    let subscriber = participant.subscriber().presentation(together).create()?;
    let (of_winds, of_turns) = (subscriber.reader(&winds).create()?, subscriber.reader(&turns).create()?);
    wind.wait_for_readers(1, Timeout::secs(5))?;
    turn.wait_for_readers(1, Timeout::secs(5))?;

    publisher.begin_coherent_changes()?;
    wind.write(&Wind { layer: 3, knots: 80.0 })?;
    turn.write(&Turn { point: 12, heading: 271.0 })?;
    publisher.end_coherent_changes()?;                  // both are there, or none is
    turn.wait_for_acknowledgments(Timeout::secs(5))?;

    subscriber.begin_access()?;                         // what has come so far, and nothing comes until the end
    for next in subscriber.data_readers(States::not_read())? {
        match next.instance_handle() == of_winds.instance_handle() {
            true => println!("{:?}", of_winds.take_next_sample()?),
            false => println!("{:?}", of_turns.take_next_sample()?),
        }
    }
    subscriber.end_access()?;
    Ok(())
}

fn coherent_changes() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let route = participant.topic::<Leg>("Route").transient_local().keep_all().create()?;
    let legs = &[Leg { number: 0, route: 1 }, Leg { number: 1, route: 1 }];
    let presentation = PresentationQosPolicy {
        access_scope: PresentationQosPolicyAccessScopeKind::Topic,
        coherent_access: true,
        ordered_access: true,
    };
    let publisher = participant.publisher().presentation(presentation).create()?;
    let writer = publisher.writer(&route).create()?;
    publisher.begin_coherent_changes()?;
    for leg in legs {
        writer.write(leg)?;                             // dispose and unregister as well
    }
    publisher.end_coherent_changes()?;                  // now all of it is there, in one place of the order
    let subscriber = participant.subscriber().presentation(publisher.qos().presentation).create()?;
    let reader = subscriber.reader(&route).reliable_all().create()?;
    assert_eq!(reader.take_data(.., Timeout::secs(5))?.count(), 2);
    Ok(())
}

fn instances() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Track>("Tracks").transient_local().create()?;
    let writer = participant.writer(&topic).create()?;
    let (track, timeout) = (Track { id: 7, height: 400.0 }, Timeout::secs(5));
    let hidden = RefCell::new(Vec::new());
    let show = |track: &Track| println!("{track:?}");
    let hide = |id: u32| hidden.borrow_mut().push(id);
    writer.write(&track)?;                                  // track 7 is there
    writer.dispose(&track)?;                                // it is no more
    writer.unregister_instance(&track)?;                    // this writer has nothing more to say of it
    let picture = participant.reader(&topic).keep_last(1).create()?;
    for sample in picture.read(.., timeout)? {              // read: it stays; take: it goes
        match sample.data() {
            Some(track) => show(track),
            None => hide(sample.key_value().id),
        }
    }
    assert!(hidden.take().contains(&7));
    Ok(())
}

fn filters() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let tracks = participant.topic::<Contact>("Contacts").create()?;
    let parameters = ["3000".to_owned()];
    let low = participant.content_filtered_topic("Low", &tracks, "altitude < %0 AND callsign LIKE 'F-%'", &parameters)?;
    let reader = participant.reader(&low).create()?;                     // gets what passes
    low.set_expression_parameters(&["1000".to_owned()])?;                // from now on

    let near = ReadCondition::query(States::not_read(), "distance < 10 ORDER BY distance", &[])?;
    for track in reader.take_w_condition(.., &near)? { /* the nearest first */ }
    Ok(())
}

fn types_of_run_time() -> DdsResult<()> {
    let there = DomainParticipant::new(0)?;
    let theirs = there.topic::<Attitude>("Attitude").transient_local().create()?;
    let writer = there.writer(&theirs).create()?;
    writer.write(&Attitude { aircraft: 7, pitch: 1.5 })?;
    let participant = DomainParticipant::new(0)?;
    let topic = participant.find_dynamic_topic("Attitude", Timeout::secs(5))?;
    let reader = participant.reader(&topic).keep_all().create()?;
    for sample in reader.take_data(.., Timeout::secs(5))? {
        println!("{}", sample.to_json());
    }
    Ok(())
}

fn waiting() -> DdsResult<()> {
    let participant = DomainParticipant::new(0)?;
    let topic = participant.topic::<Track>("Tracks").create()?;
    let reader = participant.reader(&topic).reliable_all().create()?;
    let reader = Arc::new(reader);
    let there = reader.condition(&ReadCondition::new(States::not_read()));
    let (wait_set, stop) = (WaitSet::new(), GuardCondition::new());
    wait_set.attach(&there)?;
    wait_set.attach(&stop)?;
    std::thread::scope(|scope| {
        scope.spawn(|| stop.set_trigger_value(true));
        while !wait_set.wait(Timeout::secs(10))?.contains(stop.as_ref()) { /* take */ }
        Ok(())
    })
}

/// Runs all of them, with logs in this folder.
fn real_time() -> DdsResult<()> {
    let use_usual = |why: &str| { println!("{why}"); DomainParticipant::new(0) };
    let config = ParticipantConfig::new()
        .engine_cores([0])                                       // where the thread that drives runs
        .engine_scheduling(SchedulingClass::Fifo(20))            // before all that is scheduled as usual
        .lock_memory(true);                                      // no access to samples waits for a page
    let participant = match DomainParticipant::with_config(0, config) {
        Err(DdsError::OutOfResources(why)) => use_usual(&why)?,  // says which privilege or limit is missing
        result => result?,
    };
    Ok(())
}

fn byte_strings() -> DdsResult<()> {
    let (participant, frame) = (DomainParticipant::new(0)?, [1_u8; 100]);
    let lengths = RefCell::new(Vec::new());
    let show = |bytes: &[u8]| lengths.borrow_mut().push(bytes.len());
    let receive = |into: &mut [u8]| { into[0] = 7; 1 };
    let air_data = participant.numbered_topic(7).atomic().create()?;      // or: topic::<Bytes>("AirData")
    let writer = participant.writer(&air_data).create()?;
    let reader = participant.reader(&air_data).create()?;
    writer.wait_for_readers(1, Timeout::secs(5))?;

    writer.write_bytes(&frame)?;                                          // copied once
    writer.write_bytes_with(64, |slot| slot[0] = 0xa5)?;                  // built in place
    let mut loan = writer.loan_bytes(1500)?;                              // the same, with time to think
    let length = receive(&mut loan);
    loan.truncate(length);
    loan.publish()?;
    for sample in reader.take_data(.., Timeout::secs(1))? {
        show(sample.in_place());                                          // a `&[u8]`, in the writer's memory
    }
    assert_eq!(lengths.take().first(), Some(&100));
    Ok(())
}

pub(crate) fn run(folder: &Path) {
    first_application().unwrap();
    concepts().unwrap();
    levels().unwrap();
    logged(&folder.join("logged")).unwrap();
    lost_history(&folder.join("lost")).unwrap();
    failures().unwrap();
    policies().unwrap();
    best_effort().unwrap();
    entities().unwrap();
    what_others_have().unwrap();
    coherent_changes().unwrap();
    several_topics().unwrap();
    instances().unwrap();
    filters().unwrap();
    byte_strings().unwrap();
    real_time().unwrap();
    types_of_run_time().unwrap();
    waiting().unwrap();
}
