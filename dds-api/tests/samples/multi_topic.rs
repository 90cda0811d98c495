//! Multi-topics: samples that are joined from those of several topics.

use crate::support::{SOON, TestDomain, until};
use dds_api::infrastructure::WaitSet;
use dds_api::prelude::*;
use dds_api::subscription::{InstanceState, ReadCondition, States};
use dds_api::topic::MultiTopic;
use dds_api::types::{
    DynamicType, Extensibility, MemberOptions, Primitive, StructBuilder, ValueRef,
};

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Location {
    #[dds(key)]
    flight: u32,
    position: [f64; 2],
    z: f64,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct FlightPlan {
    #[dds(key)]
    flight: u32,
    name: String,
    carrier: String,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Carrier {
    #[dds(key)]
    carrier: String,
    country: String,
}

/// Displayed data of a flight.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct View {
    #[dds(key)]
    name: String,
    x: f64,
    height: f64,
    country: String,
}

fn view(name: &str, height: f64, country: &str) -> View {
    View { name: name.to_owned(), x: height / 2.0, height, country: country.to_owned() }
}

const THREE: &str = "SELECT name, position[0] AS x, z height, country FROM Location NATURAL JOIN FlightPlan \
                     INNER NATURAL JOIN Carrier WHERE height < %0";

/// Two participants: one that writes, and one that joins the topics.
struct Air {
    locations: DataWriter<Location>,
    plans: DataWriter<FlightPlan>,
    carriers: DataWriter<Carrier>,
    here: DomainParticipant,
    // Entities that must stay alive.
    _topics: (Topic<Location>, Topic<FlightPlan>, Topic<Carrier>),
    _there: DomainParticipant,
    _meeting: TestDomain,
}

fn made<T: DdsType>(of: &DomainParticipant, name: &str, kept: bool) -> Topic<T> {
    let topic = of.topic::<T>(name);
    if kept { topic.transient_local() } else { topic }.create().unwrap()
}

impl Air {
    fn new(kept: bool) -> Air {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let topics = (
            made(&here, "Location", kept),
            made(&here, "FlightPlan", kept),
            made(&here, "Carrier", kept),
        );
        let locations = there.writer(&made(&there, "Location", kept)).create().unwrap();
        let plans = there.writer(&made(&there, "FlightPlan", kept)).create().unwrap();
        let carriers = there.writer(&made(&there, "Carrier", kept)).create().unwrap();
        Air { locations, plans, carriers, here, _topics: topics, _there: there, _meeting: domain }
    }

    fn multi(&self, limit: &str) -> MultiTopic<View> {
        self.here.multi_topic("Views", THREE, &[limit.to_owned()]).unwrap()
    }

    fn reader(&self, of: &MultiTopic<View>) -> DataReader<View> {
        let reader = self.here.reader(of).reliable_all().create().unwrap();
        self.locations.wait_for_readers(1, SOON).unwrap();
        self.plans.wait_for_readers(1, SOON).unwrap();
        self.carriers.wait_for_readers(1, SOON).unwrap();
        reader.wait_for_writers(3, SOON).unwrap();
        reader
    }

    fn locate(&self, flight: u32, z: f64) {
        self.locations.write(&Location { flight, position: [z / 2.0, 0.0], z }).unwrap();
    }

    fn plan(&self, flight: u32, name: &str, carrier: &str) {
        let (name, carrier) = (name.to_owned(), carrier.to_owned());
        self.plans.write(&FlightPlan { flight, name, carrier }).unwrap();
    }

    fn carry(&self, carrier: &str, country: &str) {
        let (carrier, country) = (carrier.to_owned(), country.to_owned());
        self.carriers.write(&Carrier { carrier, country }).unwrap();
    }
}

/// Takes the next samples, and whether each has data, or reports the end of its instance.
fn next(reader: &DataReader<View>, count: usize) -> Vec<(View, bool)> {
    let mut all = Vec::new();
    while all.len() < count {
        let sample = reader.take_next(SOON).unwrap().expect("another one comes");
        let info = sample.info();
        assert_eq!(info.valid_data, info.instance_state == InstanceState::Alive);
        all.push((View::clone(sample.key_value()), info.valid_data));
    }
    assert!(reader.take_next(Timeout::millis(30)).unwrap().is_none(), "and no more");
    all
}

#[test]
fn samples_of_three_topics_are_joined_where_common_members_are_equal() {
    let air = Air::new(false);
    let multi = air.multi("1000");
    assert_eq!(multi.related_topics().collect::<Vec<_>>(), ["Location", "FlightPlan", "Carrier"]);
    let reader = air.reader(&multi);
    air.locate(1, 100.0);
    air.plan(1, "AF1", "AF");
    air.plan(2, "AF2", "AF");
    air.plan(3, "LH3", "LH");
    air.locate(2, 5000.0);
    air.locate(3, 300.0);
    assert_eq!(next(&reader, 0), [], "nobody says where carriers are from");
    air.carry("AF", "France");
    assert_eq!(
        next(&reader, 1),
        [(view("AF1", 100.0, "France"), true)],
        "the other one is too high"
    );
    air.locate(1, 200.0);
    assert_eq!(next(&reader, 1), [(view("AF1", 200.0, "France"), true)]);
    // Parameters apply to samples that arrive from then on.
    multi.set_expression_parameters(&["10000".to_owned()]).unwrap();
    air.locate(2, 4000.0);
    air.carry("LH", "Germany");
    let expected = [(view("AF2", 4000.0, "France"), true), (view("LH3", 300.0, "Germany"), true)];
    let mut two = next(&reader, 2);
    two.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    assert_eq!(two, expected);
    assert!(multi.set_expression_parameters(&[]).is_err());
    assert_eq!(multi.expression_parameters(), ["10000"]);
}

#[test]
fn joined_instance_is_disposed_when_no_samples_form_it_any_more() {
    let air = Air::new(false);
    let reader = air.reader(&air.multi("10000"));
    air.carry("AF", "France");
    air.plan(1, "AF1", "AF");
    air.locate(1, 100.0);
    next(&reader, 1);
    // The same flight under another name: the old instance ends.
    air.plan(1, "AF100", "AF");
    let mut two = next(&reader, 2);
    two.sort_by_key(|(_, is_there)| *is_there);
    assert_eq!(
        two.iter().map(|(it, is)| (&*it.name, *is)).collect::<Vec<_>>(),
        [("AF1", false), ("AF100", true)]
    );
    // Two flights make one instance, which exists as long as one of them does.
    air.plan(2, "AF100", "AF");
    air.locate(2, 200.0);
    next(&reader, 1);
    air.locations.dispose(&Location { flight: 1, ..Location::default() }).unwrap();
    assert_eq!(next(&reader, 0), []);
    air.carriers.dispose(&Carrier { carrier: "AF".to_owned(), ..Carrier::default() }).unwrap();
    assert!(!next(&reader, 1)[0].1, "nobody says any more where it is from");
    // The instance appears again.
    air.carry("AF", "France");
    assert_eq!(next(&reader, 1), [(view("AF100", 200.0, "France"), true)]);
    let info = reader.read(.., Timeout::NOW).unwrap();
    assert!(info.is_empty());
}

#[test]
fn waiting_threads_are_woken_by_a_sample_of_a_joined_topic() {
    let air = Air::new(false);
    let reader = air.reader(&air.multi("10000"));
    air.carry("AF", "France");
    air.plan(1, "AF1", "AF");
    let wanted = ReadCondition::new(States::not_read());
    let (set, condition) = (WaitSet::new(), reader.condition(&wanted));
    set.attach(&condition).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            assert_eq!(set.wait(SOON).unwrap().len(), 1);
            assert!(condition.trigger_value());
            reader.read_w_condition(.., &wanted).unwrap()[0].data().unwrap().clone()
        });
        let takes = scope.spawn(|| air.here.wait_until(SOON, || reader.has_samples()).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        air.locate(1, 100.0);
        assert_eq!(waits.join().unwrap(), view("AF1", 100.0, "France"));
        takes.join().unwrap();
    });
}

#[test]
fn late_multi_topic_reader_receives_kept_samples_of_its_topics() {
    let air = Air::new(true);
    air.carry("AF", "France");
    air.plan(1, "AF1", "AF");
    air.locate(1, 100.0);
    air.locations.wait_for_acknowledgments(SOON).unwrap();
    let reader = air.reader(&air.multi("10000"));
    reader.wait_for_historical_data(SOON).unwrap();
    assert_eq!(next(&reader, 1), [(view("AF1", 100.0, "France"), true)]);
    // The reader keeps the last sample of each instance, however many arrive between reads.
    let last = air.here.reader(&air.multi("10000")).reliable().keep_last(1).create().unwrap();
    for height in 1..2000 {
        air.locate(1, f64::from(height));
    }
    until("the last one has come", || {
        last.read_data(.., Timeout::NOW).unwrap().iter().any(|sample| sample.height == 1999.0)
    });
    assert_eq!(last.read(.., Timeout::NOW).unwrap().len(), 1);
}

/// All members by name; and the product of all samples, if the topics have no common member.
#[test]
fn all_members_are_selected_and_unrelated_topics_are_cross_joined() {
    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    struct Wind {
        #[dds(key)]
        station: u16,
        knots: i32,
    }
    let of =
        [("flight", Primitive::Uint32), ("z", Primitive::Float64), ("knots", Primitive::Int32)];
    let of =
        of.iter().fold(StructBuilder::new("Hazard", Extensibility::Final), |of, (name, it)| {
            let key = MemberOptions { key: *name == "flight", ..MemberOptions::default() };
            of.member(name, &DynamicType::primitive(*it), key)
        });
    let of = of.build().unwrap();
    let domain = TestDomain::new();
    let participant = domain.join();
    let (locations, winds) =
        (made(&participant, "Location", false), made(&participant, "Wind", false));
    let expression = "SELECT * FROM Location NATURAL INNER JOIN Wind WHERE knots > 10 AND z < 1000";
    let multi = participant.dynamic_multi_topic("Hazards", &of, expression, &[]).unwrap();
    let reader =
        participant.subscriber().create().unwrap().reader(&multi).reliable_all().create().unwrap();
    let (location, wind) = (
        participant.writer(&locations).create().unwrap(),
        participant.writer(&winds).create().unwrap(),
    );
    location.wait_for_readers(1, SOON).unwrap();
    wind.wait_for_readers(1, SOON).unwrap();
    for flight in 1..4_u32 {
        location
            .write(&Location { flight, z: 400.0 * f64::from(flight), ..Location::default() })
            .unwrap();
    }
    wind.write(&Wind { station: 1, knots: 20 }).unwrap();
    wind.write(&Wind { station: 2, knots: 5 }).unwrap();
    let mut found = Vec::new();
    until("two flights are in it", || {
        for sample in reader.take_data(.., Timeout::NOW).unwrap() {
            assert!(matches!(sample.get("knots"), Ok(ValueRef::Signed(20))));
            let Ok(ValueRef::Unsigned(flight)) = sample.get("flight") else { panic!("{sample:?}") };
            found.push(flight);
        }
        found.len() == 2
    });
    found.sort_unstable();
    assert_eq!(found, [1, 2]);
    // A topic stays as long as a multi-topic uses it.
    assert!(matches!(locations.clone().delete(), Err(DdsError::PreconditionNotMet(_))));
    reader.delete();
    drop(multi);
    drop((location, wind));
    locations.delete().unwrap();
}

#[test]
fn error_in_multi_topic_expression_is_reported_with_its_position() {
    let air = Air::new(false);
    let refused = |expression: &str, parameters: &[String]| match air
        .here
        .multi_topic::<View>("Views", expression, parameters)
    {
        Ok(_) => panic!("`{expression}` is none"),
        Err(why) => why.to_string(),
    };
    let says = |expression: &str, column: usize, why: &str| {
        let said = refused(expression, &["1".to_owned()]);
        assert!(said.contains(&format!("at character {column}:")) && said.contains(why), "{said}");
    };
    says("SELECT name FROM Location NATURAL JOIN", 39, "");
    says("SELECT nickname FROM FlightPlan", 8, "none of the topics has a member `nickname`");
    says("SELECT carrier FROM FlightPlan", 8, "carrier");
    says(
        "SELECT flight AS name FROM FlightPlan",
        8,
        "`flight` of `FlightPlan` cannot be assigned to `name`",
    );
    says("SELECT name FROM FlightPlan NATURAL JOIN FlightPlan", 42, "occurs twice");
    says("SELECT name FROM FlightPlan WHERE carrier = 'AF'", 35, "carrier");
    says("SELECT * FROM FlightPlan", 1, "none of the topics has a member `x`");
    let unknown = refused("SELECT name FROM Plans", &[]);
    assert!(unknown.contains("no topic `Plans`"), "{unknown}");
    #[derive(DdsType, Clone, Debug, Default)]
    struct Other {
        flight: String,
    }
    let _other: Topic<Other> = made(&air.here, "Other", false);
    says("SELECT name FROM FlightPlan NATURAL JOIN Other", 42, "cannot be compared");
    let none = refused(THREE, &[]);
    assert!(none.contains("%0"), "{none}");
    // The multi-topic is found by its name, and cannot be written to.
    let multi = air.multi("1");
    assert!(air.here.lookup_topic::<MultiTopic<View>>("Views").is_some());
    assert!(air.here.lookup_topic::<Topic<View>>("Views").is_none());
    assert_eq!(multi.subscription_expression(), THREE);
    drop(multi);
    assert!(air.here.lookup_topic::<MultiTopic<View>>("Views").is_none());
}
