//! Readers for which nothing, or only `reliable_all`, is specified: their policies, and the states
//! of instances that they report, are those of the standard at every level (I-345).

use std::collections::BTreeSet;

use crate::support::{Dice, SOON, TestDomain, until};
use dds_api::prelude::*;
use dds_api::qos::{
    DataReaderQos, DataWriterQos, DurabilityQosPolicyKind, HistoryQosPolicyKind, Length,
    ResourceLimitsQosPolicy, TopicQos,
};
use dds_api::subscription::{DataReaderBuilder, InstanceState, SampleState, ViewState};
use dds_api::topic::TopicBuilder;

/// A type without a key: all samples are of one instance.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Attitude {
    pitch: f64,
}

/// An encoded type without a key.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Text {
    text: String,
}

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Level {
    Unordered,
    Atomic,
    Kept,
}

const LEVELS: [Level; 3] = [Level::Unordered, Level::Atomic, Level::Kept];

fn topic<T: DdsType>(participant: &DomainParticipant, level: Level) -> Topic<T> {
    let topic: TopicBuilder<T> = participant.topic("Topic");
    let topic = match level {
        Level::Unordered => topic,
        Level::Atomic => topic.atomic(),
        Level::Kept => topic.transient_local(),
    };
    topic.create().unwrap()
}

#[test]
fn builders_without_calls_have_the_policies_of_the_standard() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic::<Track>(&participant, Level::Unordered);
    assert_eq!(topic.qos(), TopicQos::default());
    let settled = DataReaderQos::default();
    for reader in [
        participant.reader(&topic).create().unwrap(),
        participant.reader(&topic).qos(&settled).create().unwrap(),
        participant.subscriber().create().unwrap().reader(&topic).create().unwrap(),
    ] {
        let mut qos = reader.qos();
        // The type settles the representation.
        qos.representation = settled.representation.clone();
        assert_eq!(qos, settled);
    }
    for writer in [
        participant.writer(&topic).create().unwrap(),
        participant.writer(&topic).qos(&DataWriterQos::default()).create().unwrap(),
        participant.publisher().create().unwrap().writer(&topic).create().unwrap(),
    ] {
        let mut qos = writer.qos();
        qos.representation = DataWriterQos::default().representation;
        assert_eq!(qos, DataWriterQos::default());
    }
}

#[test]
fn history_of_an_atomic_topic_does_not_depend_on_the_order_of_calls() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let history = |name: &str, build: fn(TopicBuilder<Track>) -> TopicBuilder<Track>| {
        build(participant.topic(name)).create().unwrap().qos().history
    };
    assert_eq!(history("A", |it| it.atomic()).kind, HistoryQosPolicyKind::KeepAll);
    let last = history("B", |it| it.atomic().keep_last(3));
    assert_eq!((last.kind, last.depth), (HistoryQosPolicyKind::KeepLast, 3));
    assert_eq!(history("C", |it| it.keep_last(3).atomic()), last);
}

#[test]
fn reader_without_calls_keeps_the_last_sample_of_each_instance() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic::<Track>(&participant, Level::Unordered);
    let reader = participant.reader(&topic).create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    for id in [1, 2, 1, 1] {
        writer.write(&Track { id }).unwrap();
    }
    let mut taken = Vec::new();
    until("both instances are there", || {
        taken = reader.read_data(.., Timeout::NOW).unwrap().iter().map(|it| it.id).collect();
        taken.sort_unstable();
        taken == [1, 2]
    });
}

#[test]
fn readers_of_an_atomic_topic_and_reliable_all_readers_get_every_sample_in_order() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Track>("All").atomic().create().unwrap();
    let readers = [
        participant.reader(&topic).create().unwrap(),
        participant.reader(&topic).reliable_all().create().unwrap(),
        participant.subscriber().create().unwrap().reader(&topic).create().unwrap(),
    ];
    let unordered = participant.topic::<Track>("Unordered").create().unwrap();
    let all = participant.reader(&unordered).reliable_all().create().unwrap();
    let ids = [1, 2, 1, 3, 2, 1];
    for (topic, readers) in [(&topic, &readers[..]), (&unordered, std::slice::from_ref(&all))] {
        let writer = participant.writer(topic).create().unwrap();
        writer.wait_for_readers(readers.len(), SOON).unwrap();
        ids.iter().for_each(|id| writer.write(&Track { id: *id }).unwrap());
        for reader in readers {
            let mut taken = Vec::new();
            until("all samples came", || {
                taken.extend(reader.take_data(.., Timeout::millis(20)).unwrap().map(|it| it.id));
                taken.len() >= ids.len()
            });
            assert_eq!(taken, ids);
        }
    }
}

/// Information of a sample about its instance.
type Told = (bool, SampleState, ViewState, InstanceState, [u32; 2], u32);

fn told<T: DdsType>(sample: &Sample<T>, has_order: bool) -> Told {
    let info = sample.info();
    let generations = [info.disposed_generation_count, info.no_writers_generation_count];
    // Without order between writers, the next one may write before the end of the last one is seen.
    let generations = if has_order { generations } else { [0; 2] };
    let (view, state) = (info.view_state, info.instance_state);
    (sample.data().is_some(), info.sample_state, view, state, generations, info.sample_rank)
}

/// The only instance of the topic, as far as is needed to know how many samples come. A reader that
/// has taken all samples forgets it when it has no writers.
#[derive(Default)]
struct ExpectedInstance {
    writers: BTreeSet<usize>,
    is_disposed: bool,
    /// Whether a reader may have forgotten the instance, without a sample that says so.
    may_be_forgotten: bool,
}

impl ExpectedInstance {
    fn write(&mut self, writer: usize) -> usize {
        self.writers.insert(writer);
        (self.is_disposed, self.may_be_forgotten) = (false, false);
        1
    }

    fn dispose(&mut self, writer: usize) -> usize {
        self.writers.insert(writer);
        usize::from(!std::mem::replace(&mut self.is_disposed, true))
    }

    fn leave(&mut self, writer: usize) -> usize {
        let is_over = self.writers.remove(&writer) && self.writers.is_empty();
        self.may_be_forgotten |= is_over && self.is_disposed;
        usize::from(is_over && !std::mem::take(&mut self.is_disposed))
    }
}

struct Writers<T: DdsType> {
    participants: [Option<DomainParticipant>; 2],
    writers: [Option<DataWriter<T>>; 4],
}

impl<T: DdsType> Writers<T> {
    /// The writer of this number; numbers of equal remainder are of the same participant.
    fn writer(&mut self, domain: &TestDomain, level: Level, at: usize) -> &DataWriter<T> {
        self.writers[at].get_or_insert_with(|| {
            let participant = self.participants[at % 2].get_or_insert_with(|| domain.join());
            let writer = participant.writer(&topic::<T>(participant, level));
            let writer = writer.autodispose_unregistered_instances(false).create().unwrap();
            writer.wait_for_readers(2, SOON).unwrap();
            writer
        })
    }
}

/// Two readers of a participant: one takes straight from its queues as long as it can, the other
/// has limits and follows instances from the start. Both report the same.
fn both_report_the_same<T: DdsType + Default>(level: Level, dice: &mut Dice) {
    let domain = TestDomain::new();
    let here = domain.join();
    let ours = topic::<T>(&here, level);
    let limits = ResourceLimitsQosPolicy { max_samples: Length::of(60_000), ..Default::default() };
    let all = |builder: DataReaderBuilder<T>| builder.reliable_all();
    let readers = [
        all(here.reader(&ours)).create().unwrap(),
        all(here.reader(&ours)).resource_limits(limits).create().unwrap(),
    ];
    let mut expected = ExpectedInstance::default();
    let mut there = Writers { participants: Default::default(), writers: Default::default() };
    let mut log = Vec::new();
    for step in 0..40 {
        let at = dice.below(4) as usize;
        let count = match dice.below(8) {
            // Without order between writers, a reader may see the dispose before the end of the
            // last writer.
            0 if level != Level::Unordered || !expected.may_be_forgotten => {
                log.push(format!("{at} disposes"));
                let writer = there.writer(&domain, level, at);
                writer.dispose(&T::default()).unwrap();
                writer.wait_for_acknowledgments(SOON).unwrap();
                expected.dispose(at)
            }
            1 if expected.writers.contains(&at) => {
                log.push(format!("{at} unregisters"));
                let writer = there.writer(&domain, level, at);
                writer.unregister_instance(&T::default()).unwrap();
                writer.wait_for_acknowledgments(SOON).unwrap();
                expected.leave(at)
            }
            2 | 3 if there.writers[at].is_some() => {
                log.push(format!("{at} is deleted"));
                there.writers[at] = None;
                expected.leave(at)
            }
            4 if there.participants[at % 2].is_some() => {
                log.push(format!("the participant of {at} leaves"));
                (there.writers[at % 2], there.writers[at % 2 + 2]) = (None, None);
                there.participants[at % 2] = None;
                expected.leave(at % 2) + expected.leave(at % 2 + 2)
            }
            _ => {
                log.push(format!("{at} writes"));
                let writer = there.writer(&domain, level, at);
                writer.write(&T::default()).unwrap();
                writer.wait_for_acknowledgments(SOON).unwrap();
                expected.write(at)
            }
        };
        let all = [0, 1].map(|at: usize| {
            let reader = &readers[at];
            let mut all = Vec::new();
            until(&format!("{count} samples came: {level:?}, {log:?}"), || {
                let wait = if all.len() < count { Timeout::millis(20) } else { Timeout::NOW };
                let has_order = level != Level::Unordered;
                all.extend(reader.take(.., wait).unwrap().map(|it| told(&it, has_order)));
                all.len() >= count
            });
            assert_eq!(all.len(), count, "reader {at}, step {step}: {all:?}, {level:?}, {log:?}");
            all
        });
        assert_eq!(all[0], all[1], "step {step}: {level:?}, {log:?}");
    }
}

#[test]
fn reliable_all_readers_of_types_without_key_report_states_as_readers_with_limits_do() {
    for round in 0..6 {
        let mut dice = Dice(round);
        for level in LEVELS {
            both_report_the_same::<Attitude>(level, &mut dice);
            both_report_the_same::<Text>(level, &mut dice);
        }
    }
}

#[test]
fn reader_that_looks_late_reports_samples_and_then_the_end_of_their_writer() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let reader = here.reader(&topic::<Attitude>(&here, level)).reliable_all();
        let reader = reader.create().unwrap();
        let writer = there.writer(&topic::<Attitude>(&there, level));
        let writer = writer.autodispose_unregistered_instances(false).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        for pitch in 0..3 {
            writer.write(&Attitude { pitch: f64::from(pitch) }).unwrap();
        }
        writer.wait_for_acknowledgments(SOON).unwrap();
        drop((writer, there));
        until("the writer has left", || reader.matched_writers() == 0);
        let mut all = Vec::new();
        until("samples and end came", || {
            all.extend(reader.take(.., Timeout::millis(20)).unwrap());
            all.len() >= 4
        });
        let valid: Vec<bool> = all.iter().map(|it| it.data().is_some()).collect();
        assert_eq!(valid, [true, true, true, false], "{level:?}");
        assert_eq!(all[3].info().instance_state, InstanceState::NotAliveNoWriters);
        assert!(all[..3].iter().all(|it| it.info().view_state == ViewState::New));
        let wait_set = dds_api::infrastructure::WaitSet::new();
        wait_set.attach(&reader.status_condition()).unwrap();
        assert!(!reader.has_samples(), "{level:?}");
    }
}

/// One call gives what waits, also if an instance or a writer ends in between.
#[test]
fn one_call_takes_samples_before_and_after_an_end() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let here = domain.join();
        let topic = topic::<Attitude>(&here, level);
        let reader = here.reader(&topic).reliable_all().create().unwrap();
        let writer = here.writer(&topic).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        let write = |pitch| writer.write(&Attitude { pitch }).unwrap();
        [1.0, 2.0].into_iter().for_each(write);
        writer.dispose(&Attitude::default()).unwrap();
        [3.0, 4.0].into_iter().for_each(write);
        writer.wait_for_acknowledgments(SOON).unwrap();
        let mut samples = reader.take(..5, Timeout::NOW).unwrap();
        let generation = |it: &Sample<Attitude>| it.info().disposed_generation_count;
        let taken: Vec<_> =
            samples.by_ref().map(|it| (it.data().map(|it| it.pitch), generation(&it))).collect();
        let expected = [(1.0, 0), (2.0, 0), (3.0, 1), (4.0, 1)];
        assert_eq!(taken, expected.map(|(pitch, count)| (Some(pitch), count)), "{level:?}");
        assert!(samples.is_empty());
        write(5.0);
        drop(writer);
        until("the end came", || reader.matched_writers() == 0);
        let states = reader.take(.., SOON).unwrap().map(|it| it.info().instance_state);
        assert_eq!(states.collect::<Vec<_>>(), [InstanceState::NotAliveNoWriters; 2], "{level:?}");
    }
}

/// A type without a key of which two programs have different versions that do not fit.
mod number {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Of", extensibility = "appendable")]
    pub(super) struct Of {
        pub(super) what: u64,
    }
}

mod text {
    use dds_api::prelude::*;

    #[derive(DdsType, Clone, Debug, Default, PartialEq)]
    #[dds(name = "Of", extensibility = "appendable")]
    pub(super) struct Of {
        pub(super) what: String,
    }
}

/// Kept samples of a writer whose type does not fit are as if never written (I-173): neither do
/// they make the instance known, nor is the end of their writer reported.
#[test]
fn refused_kept_samples_leave_the_instance_new() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let texts = topic::<text::Of>(&there, Level::Kept);
    let unfit = there.writer(&texts).create().unwrap();
    let own = there.reader(&texts).reliable_all().create().unwrap();
    unfit.wait_for_readers(1, SOON).unwrap();
    unfit.write(&text::Of { what: "unfit".to_owned() }).unwrap();
    assert_eq!(own.take_next_data(SOON).unwrap().unwrap().what, "unfit");
    let numbers = topic::<number::Of>(&here, Level::Kept);
    let readers = [(); 2].map(|()| {
        let reader = here.reader(&numbers).reliable_all();
        reader.durability(DurabilityQosPolicyKind::TransientLocal).create().unwrap()
    });
    for reader in &readers {
        until("the writer is known", || reader.inconsistent_writers() == 1);
        reader.wait_for_historical_data(SOON).unwrap();
        assert!(reader.take_next(Timeout::millis(20)).unwrap().is_none());
    }
    drop((own, unfit, texts, there));
    until("the writer is gone", || here.peer_count() == 0);
    assert!(readers[0].take_next(Timeout::millis(20)).unwrap().is_none());
    let writer = here.writer(&numbers).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&number::Of { what: 7 }).unwrap();
    for reader in &readers {
        let first = reader.take_next(SOON).unwrap().unwrap();
        assert_eq!(first.data(), Some(&number::Of { what: 7 }));
        assert_eq!(first.info().view_state, ViewState::New);
    }
}

#[test]
fn rank_of_a_sample_is_the_number_of_samples_that_follow() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = topic::<Attitude>(&here, Level::Unordered);
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    let writer = here.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    for limit in [10, 2] {
        (0..3).for_each(|_| writer.write(&Attitude::default()).unwrap());
        until("the samples came", || {
            reader.has_samples() && {
                let taken: Vec<_> = reader.take(..limit, Timeout::NOW).unwrap().collect();
                let ranks = taken.iter().map(|it| it.info().sample_rank as usize);
                ranks.eq((0..taken.len()).rev())
            }
        });
    }
}

/// Several threads take while an instance ends: what is written after the end is of the next
/// generation, and the end is reported, whichever thread meets it.
#[test]
fn threads_that_take_at_once_report_the_end_in_its_place() {
    let domain = TestDomain::new();
    let here = domain.join();
    for level in LEVELS {
        let topic = topic::<Text>(&here, level);
        for round in 0..100 {
            let reader = here.reader(&topic).reliable_all().create().unwrap();
            let writer = here.writer(&topic).create().unwrap();
            writer.wait_for_readers(1, SOON).unwrap();
            for _ in 0..2 {
                writer.write(&Text { text: "x".repeat(2000) }).unwrap();
            }
            writer.dispose(&Text::default()).unwrap();
            for _ in 0..2 {
                writer.write(&Text::default()).unwrap();
            }
            writer.wait_for_acknowledgments(SOON).unwrap();
            let taken = std::thread::scope(|scope| {
                let take = || {
                    let mut taken = Vec::new();
                    while let Some(sample) = reader.take_next(Timeout::millis(5)).unwrap() {
                        let info = sample.info();
                        taken.push((info.sequence_number, info.disposed_generation_count));
                    }
                    taken
                };
                let looks = scope.spawn(|| (0..200).filter(|_| reader.has_samples()).count());
                let threads = [(); 3].map(|()| scope.spawn(take));
                let all = threads.map(|thread| thread.join().unwrap()).concat();
                looks.join().unwrap();
                all
            });
            let mut generations: Vec<u32> = taken.iter().map(|(_, count)| *count).collect();
            generations.sort_unstable();
            assert!(generations.ends_with(&[1, 1]), "round {round}: {taken:?}");
            assert!(generations[..generations.len() - 2].iter().all(|it| *it == 0), "{taken:?}");
            // The next sample continues the generation that began after the end.
            writer.write(&Text::default()).unwrap();
            let next = reader.take_next(SOON).unwrap().unwrap();
            let info = next.info();
            let said = (info.view_state, info.instance_state, info.disposed_generation_count);
            assert_eq!(said, (ViewState::NotNew, InstanceState::Alive, 1), "round {round}");
            drop(writer);
            let end = reader.take_next(SOON).unwrap().unwrap();
            assert_eq!(end.info().instance_state, InstanceState::NotAliveNoWriters, "{round}");
        }
    }
}
