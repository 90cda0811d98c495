//! Tests of every target with its corpus and with inputs made from it; and tests of the
//! corpus itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../idl/cdr/tests/types/mod.rs"]
mod types;

use std::fs;
use std::path::{Path, PathBuf};

use dds_transport_rdma::shm::wire::{
    Greeting, Message as Packet, Platform, RefusalReason, encode, encode_greeting,
};
use derecho_core::bytes::Wire;
use derecho_core::group::registry::Registry;
use derecho_core::group::report::{MemberReport, StreamId, StreamReport, SubgroupReport};
use derecho_core::ids::{NodeId, Rank, RegionId};
use derecho_core::link::Generation;
use derecho_core::membership::{Decision, RankSet, Report, View, ViewChangeMessage, ViewMember};
use derecho_core::multicast::entry::{RecordExtent, RingEntry as Sent};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::node::ACKS;
use derecho_core::note::Note;
use idl_cdr::{DdsType, to_cdr_with};
use idl_xtypes::{Any, DynamicData, DynamicType, ObjectKind, TypeObjects, object_bytes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use squall_fuzz::{Mutator, TARGETS, Target, frame, log_of};
use types::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("corpus").join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// Runs the corpus, and some hundred inputs made from it. For more: `cargo run -p squall-fuzz --
/// TARGET --seconds 600`.
fn holds(name: &str, inputs: usize) {
    let target = Target::named(name).unwrap();
    let corpus = corpus(name);
    assert!(corpus.len() >= 5, "{} files are no corpus", corpus.len());
    let mut outcomes = std::collections::BTreeSet::new();
    for (file, bytes) in &corpus {
        println!("{}", file.display());
        outcomes.insert(target.run(bytes));
    }
    let corpus: Vec<Vec<u8>> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    let mut mutator = Mutator::new(target, 1);
    for _ in 0..inputs {
        let input = mutator.next(&corpus);
        let before = std::panic::catch_unwind(|| target.run(&input));
        outcomes.insert(before.unwrap_or_else(|_| panic!("input {input:02x?}")));
    }
    // The inputs reach different places, so outcomes differ.
    assert!(outcomes.len() > 20, "{} outcomes", outcomes.len());
}

#[test]
fn idl_input_compiles_to_rust_or_is_rejected() {
    holds("idl", 400);
}

#[test]
fn derived_and_dynamic_types_read_and_rewrite_payloads_alike() {
    holds("cdr", 2000);
}

#[test]
fn type_objects_yield_usable_types_or_are_rejected() {
    holds("objects", 1000);
}

#[test]
fn lenient_type_consistency_accepts_all_strictly_assignable_types() {
    holds("assign", 600);
}

#[test]
fn parsed_samples_round_trip_through_text_json_and_cdr() {
    holds("samples", 1500);
}

#[test]
fn qos_profiles_round_trip_through_xml_or_are_rejected() {
    holds("profiles", 400);
}

#[test]
fn link_packets_round_trip_or_are_rejected() {
    holds("link", 4000);
}

#[test]
fn notes_of_peers_cause_only_bounded_work_per_turn() {
    holds("notes", 1500);
}

#[test]
fn group_messages_cause_only_bounded_work_per_turn() {
    holds("group", 800);
}

#[test]
fn any_contents_of_peer_memory_are_read_within_bounds() {
    holds("rows", 3000);
}

#[test]
fn log_files_are_read_or_rejected() {
    holds("logs", 1500);
}

#[test]
fn every_fuzz_target_has_libfuzzer_target() {
    for target in TARGETS {
        let file = root().join(format!("libfuzzer/fuzz_targets/{}.rs", target.name));
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(
            text.contains(&format!("squall_fuzz::fuzz(\"{}\"", target.name)),
            "{}",
            file.display()
        );
        let manifest = fs::read_to_string(root().join("libfuzzer/Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}

#[test]
fn mutator_yields_same_inputs_only_for_same_seed() {
    let target = Target::named("idl").unwrap();
    let corpus = vec![b"struct S { long a; };".to_vec(), b"enum E { A };".to_vec()];
    let made = |seed| {
        let mut mutator = Mutator::new(target, seed);
        (0..50).map(|_| mutator.next(&corpus)).collect::<Vec<_>>()
    };
    assert_eq!(made(3), made(3));
    assert_ne!(made(3), made(4));
}

/// Returns the initial inputs that are made from values. Inputs from files and from former faults
/// are added by hand.
fn made() -> Vec<(String, Vec<u8>)> {
    let mut runner = TestRunner::deterministic();
    let mut all = Vec::new();
    for number in 0..3 {
        let value = everything().new_tree(&mut runner).unwrap().current();
        let tree = tree().new_tree(&mut runner).unwrap().current();
        let any = Any::of(&vec![Any::of(&value.choice).unwrap(), Any::default()]).unwrap();
        let kinds: [&dyn Fn(usize) -> (Vec<u8>, String); 10] = [
            &|how| sample(&value, how),
            &|how| sample(&value.derived, how),
            &|how| sample(&value.texts, how),
            &|how| sample(&value.collections, how),
            &|how| sample(&value.choice, how),
            &|how| sample(&value.colored, how),
            &|how| sample(&value.derived.base.choice, how),
            &|how| sample(&tree, how),
            &|how| sample(&value.numbers, how),
            &|how| sample(&any, how),
        ];
        for (kind, sample) in [0, 1, 2, 3, 4, 5, 6, 7, 8, 11].into_iter().zip(kinds) {
            for how in 0..4 {
                let payload = sample(how).0;
                let options = how as u8 | (payload[3] & 3) << 2;
                let input = [&[kind, options][..], &payload[4..]].concat();
                all.push((format!("cdr/value-{kind}-{how}-{number}"), input));
            }
            let text = [&[kind][..], sample(3).1.as_bytes()].concat();
            all.push((format!("samples/value-{kind}-{number}"), text));
        }
    }
    let types = [
        DynamicType::of::<Everything>(),
        DynamicType::of::<Derived>(),
        DynamicType::of::<Texts>(),
        DynamicType::of::<Collections>(),
        DynamicType::of::<Colored>(),
        DynamicType::of::<Either>(),
        DynamicType::of::<Tree>(),
        DynamicType::of::<Point>(),
        DynamicType::of::<TypeObjects>(),
    ];
    for (place, of) in types.iter().enumerate() {
        for (kind, objects) in [ObjectKind::Minimal, ObjectKind::Complete].iter().enumerate() {
            let bytes = object_bytes(&of.objects(*objects));
            for how in 0..2 {
                let input = [&[how as u8][..], &bytes].concat();
                all.push((format!("objects/type-{place}-{kind}-{how}"), input));
            }
            if place < 8 {
                let other = object_bytes(&types[place.max(1) - 1].objects(*objects));
                for (with, second) in [&bytes, &other].into_iter().enumerate() {
                    let [low, high] = (bytes.len() as u16).to_le_bytes();
                    let input = [&[3, low, high][..], &bytes, second].concat();
                    all.push((format!("assign/types-{place}-{kind}-{with}"), input));
                }
            }
        }
    }
    all.extend(said());
    all
}

/// Returns control messages between nodes as correct nodes send them.
fn said() -> Vec<(String, Vec<u8>)> {
    let mut all = packets();
    let notes = [
        Note::Announce { id: 5, bytes: vec![1, 2, 3] },
        Note::Retract { id: 5 },
        Note::Attach {
            reader: 1,
            entity: 1,
            stream: RegionId(16),
            acks: ACKS,
            line: 2,
            tethered: true,
        },
        Note::Attach {
            reader: 2,
            entity: 2,
            stream: RegionId(16),
            acks: ACKS,
            line: 3,
            tethered: false,
        },
        Note::Accept { reader: 0, entry: 0, message: 0 },
        Note::End { reader: 1, entry: 4 },
        Note::Detach { reader: 1, stream: RegionId(16) },
        Note::Detached { reader: 0 },
        Note::Fragment { left: 3, bytes: vec![9; 4] },
        Note::Fragment { left: 0, bytes: vec![9; 3] },
    ];
    let frames: Vec<Vec<u8>> =
        notes.iter().zip(0..).map(|(note, who)| frame(who % 3, &note.encode())).collect();
    for (number, some) in frames.windows(4).step_by(2).chain([&frames[..]]).enumerate() {
        all.push((format!("notes/said-{number}"), some.concat()));
    }
    let words = words();
    for how in 0..3_u8 {
        for (number, some) in words.windows(3).chain([&words[..]]).enumerate() {
            let frames = some.iter().enumerate().map(|(at, word)| frame((at % 2 + 3) as u8, word));
            let input = [vec![how], frames.collect::<Vec<_>>().concat()].concat();
            all.push((format!("group/said-{how}-{number}"), input));
        }
    }
    let geometry = Geometry::fitting(1024, 16, 128).unwrap();
    for (number, how) in [0_u8, 1, 0, 1, 1].into_iter().enumerate() {
        let mut words = geometry.header().to_vec();
        words.resize(geometry.words().min(200), 0);
        for index in 0..10 {
            let entry = match (index as usize + number) % 4 {
                0 => Sent::Nulls(3 + number as u32),
                1 => Sent::End(1 + number as u32),
                _ => Sent::Message(RecordExtent { position: 2 * index as u32, length: 20 }),
            };
            let at = geometry.entry_word(index);
            words[at..at + 2].copy_from_slice(&entry.encode(index));
        }
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        all.push((format!("rows/stream-{number}"), [how].into_iter().chain(bytes).collect()));
    }
    for (records, segment) in [(0, 1 << 20), (1, 1 << 20), (3, 600), (6, 1 << 20), (7, 700)] {
        all.push((format!("logs/log-{records}"), log_of(records, segment)));
    }
    all
}

fn packets() -> Vec<(String, Vec<u8>)> {
    let platform = Platform { order: 0x0102_0304, word: 8, page: 4096 };
    let greeting = Greeting { platform, features: 3, node: 77, domain: "domain-0" };
    let rest = encode_greeting(&greeting);
    let packets = [
        Packet::Hello { versions: vec![1, 9], rest: &rest },
        Packet::Refuse { versions: vec![1], reason: RefusalReason::Full, text: "no room" },
        Packet::Accept { version: 1 },
        Packet::Arena { index: 1, bytes: 1 << 20 },
        Packet::Region { serial: 1, region: 16, arena: 1, offset: 4096, words: 512 },
        Packet::Ready { serial: 1 },
        Packet::Note(&[1, 2, 3]),
        Packet::Goodbye,
        Packet::Cut { text: "it broke the protocol" },
        Packet::Retire { index: 1 },
        Packet::Group,
    ];
    let named =
        |(number, packet): (usize, Packet<'_>)| (format!("link/packet-{number}"), encode(&packet));
    packets.into_iter().enumerate().map(named).collect()
}

/// Returns messages to a group: valid ones, ones of other kinds, and invalid ones.
fn words() -> Vec<Vec<u8>> {
    let member = |node, slot| ViewMember { node: NodeId(node), slot, votes: 1, weight: 1 };
    let members = vec![member(1, 0), member(2, 1), member(3, 2)];
    let next = View { group: Generation::NONE, number: 1, members };
    let stream = StreamId { node: NodeId(2), region: RegionId(4) };
    let reached = StreamReport { stream, start: 0, received: 5 };
    let of_one = SubgroupReport {
        key: 0,
        epoch: 0,
        left: false,
        readers: vec![NodeId(1), NodeId(2)],
        streams: vec![reached],
    };
    let report = MemberReport { informed: true, subgroups: vec![of_one] };
    let cut = MemberReport::cut([(NodeId(2), &report)].into_iter());
    let decision = Decision { next, cut };
    let rules: [ViewChangeMessage<MemberReport>; 6] = [
        ViewChangeMessage::Join { node: NodeId(2), weight: 1 },
        ViewChangeMessage::Join { node: NodeId(4), weight: 1 },
        ViewChangeMessage::Wedged { view: 0, suspects: RankSet::EMPTY, leaves: false, report },
        ViewChangeMessage::Suspects { view: 0, suspects: RankSet::one(Rank(2)) },
        ViewChangeMessage::Accepted { view: 0, ballot: Rank(0), decision: decision.clone() },
        ViewChangeMessage::Decided(decision),
    ];
    let rules = rules.iter().map(|rule| [&[0][..], &rule.to_bytes()].concat());
    let asks = [vec![1], vec![2], vec![3]];
    let membership = rules.chain(asks).map(|word| [vec![0], word.to_bytes()].concat());
    let snapshot = ((1_u8, 1_u64), (Registry::default(), vec![0_u8; 4])).to_bytes();
    let starts = (2_u8, vec![((0_u64, 1_u64), ((RegionId(4), 5_u64), 6_u64))]).to_bytes();
    let direct = |view: u64| ((3_u8, view), vec![7_u8; 9]).to_bytes();
    let others = [snapshot, starts, direct(1), direct(2), (4_u8, 1_u64).to_bytes()];
    membership.chain(others).chain([(5_u8, 1_u64).to_bytes()]).collect()
}

fn sample<T: DdsType>(value: &T, encoding: usize) -> (Vec<u8>, String) {
    let payload = to_cdr_with(value, ENCODINGS[encoding]).unwrap();
    let text = DynamicData::from_cdr(&DynamicType::of::<T>(), &payload).unwrap().to_text();
    (payload, text)
}

/// The stored corpus equals the generated one; `UPDATE_CORPUS=1` writes it.
#[test]
fn stored_corpus_contains_all_generated_inputs() {
    let update = std::env::var_os("UPDATE_CORPUS").is_some();
    for (name, bytes) in made() {
        let file = root().join("corpus").join(&name);
        if update {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &bytes).unwrap();
        }
        let there =
            fs::read(&file).unwrap_or_else(|error| panic!("{name}: {error}; UPDATE_CORPUS=1"));
        assert_eq!(there.len(), bytes.len(), "{name} differs; UPDATE_CORPUS=1 writes it");
        assert!(there == bytes, "{name} differs; UPDATE_CORPUS=1 writes it");
    }
}
