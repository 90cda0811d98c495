//! Every target with its corpus, and with some inputs made of it; and the corpus itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../idl/cdr/tests/types/mod.rs"]
mod types;

use std::fs;
use std::path::{Path, PathBuf};

use idl_cdr::{DdsType, to_cdr_with};
use idl_xtypes::{Any, DynamicData, DynamicType, ObjectKind, TypeObjects, object_bytes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use squall_fuzz::{Mutator, TARGETS, Target};
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

/// Runs the corpus, and some hundred inputs made of it. More: `cargo run -p squall-fuzz -- TARGET --seconds 600`.
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
    // They get somewhere: not all end at the same place.
    assert!(outcomes.len() > 20, "{} outcomes", outcomes.len());
}

#[test]
fn idl_is_rust_or_refused() {
    holds("idl", 400);
}

#[test]
fn payloads_are_read_alike_and_written_as_read() {
    holds("cdr", 2000);
}

#[test]
fn type_objects_are_types_or_refused() {
    holds("objects", 1000);
}

#[test]
fn types_of_peers_are_compared() {
    holds("assign", 600);
}

#[test]
fn samples_come_back_from_their_text() {
    holds("samples", 1500);
}

#[test]
fn profiles_come_back_from_their_text() {
    holds("profiles", 400);
}

#[test]
fn every_target_has_one_for_libfuzzer() {
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
fn the_same_inputs_come_from_the_same_seed() {
    let target = Target::named("idl").unwrap();
    let corpus = vec![b"struct S { long a; };".to_vec(), b"enum E { A };".to_vec()];
    let made = |seed| {
        let mut mutator = Mutator::new(target, seed);
        (0..50).map(|_| mutator.next(&corpus)).collect::<Vec<_>>()
    };
    assert_eq!(made(3), made(3));
    assert_ne!(made(3), made(4));
}

/// The inputs to begin with that are made of values. Those of files and of faults that were found are put there by hand.
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
    all
}

fn sample<T: DdsType>(value: &T, encoding: usize) -> (Vec<u8>, String) {
    let payload = to_cdr_with(value, ENCODINGS[encoding]).unwrap();
    let text = DynamicData::from_cdr(&DynamicType::of::<T>(), &payload).unwrap().to_text();
    (payload, text)
}

/// What is made stays what the code makes; `UPDATE_CORPUS=1` writes it.
#[test]
fn the_corpus_has_what_the_code_makes() {
    let update = std::env::var_os("UPDATE_CORPUS").is_some();
    for (name, bytes) in made() {
        let file = root().join("corpus").join(&name);
        if update {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &bytes).unwrap();
        }
        let there =
            fs::read(&file).unwrap_or_else(|error| panic!("{name}: {error}; UPDATE_CORPUS=1"));
        assert_eq!(there.len(), bytes.len(), "{name} is another; UPDATE_CORPUS=1 writes it");
        assert!(there == bytes, "{name} is another; UPDATE_CORPUS=1 writes it");
    }
}
