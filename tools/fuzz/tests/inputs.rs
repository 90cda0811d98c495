//! Inputs that the mutator does not make: random values, words of the language, truncated files,
//! and damaged type objects with matching hashes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../idl/cdr/tests/types/kinds.rs"]
#[allow(dead_code, reason = "some of them are enough")]
mod kinds;

use std::fs;
use std::path::Path;

use idl_cdr::DdsType;
use idl_xtypes::{DynamicType, ObjectKind, object_bytes};
use kinds::{Everything, Tree};
use proptest::prelude::*;
use squall_fuzz::{Outcome, Target};

fn run(name: &str, bytes: &[u8]) -> Outcome {
    Target::named(name).unwrap().run(bytes)
}

fn files() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/idl");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

fn word() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(Target::named("idl").unwrap().words)
}

proptest! {
    #[test]
    fn any_text_compiles_to_rust_or_is_rejected(text in any::<String>()) {
        run("idl", text.as_bytes());
    }

    /// Words of the language get further in the compiler than random letters.
    #[test]
    fn random_idl_words_compile_to_rust_or_are_rejected(words in proptest::collection::vec(word(), 0..120)) {
        run("idl", words.join(" ").as_bytes());
    }

    /// A valid file with some words changed.
    #[test]
    fn changed_idl_file_compiles_to_rust_or_is_rejected(
        file in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), word(), 0..4_u8), 1..4),
    ) {
        let files = files();
        let file = file.get(&files);
        let mut words: Vec<&str> = file.split_inclusive([' ', '\n', ';', '<', '(']).collect();
        for (at, word, how) in changes {
            let at = at.index(words.len());
            match how {
                0 => words[at] = word,
                1 => words.insert(at, word),
                2 => drop(words.remove(at)),
                _ => {
                    let middle = words.len() / 2;
                    words.swap(at, middle);
                }
            }
        }
        run("idl", words.concat().as_bytes());
    }

    #[test]
    fn random_bytes_yield_usable_type_or_are_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        run("objects", &bytes);
    }

    /// Changed bytes of type objects, with their names recomputed from their hashes.
    #[test]
    fn damaged_type_objects_yield_usable_type_or_are_rejected(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        tree in any::<bool>(),
        how in 0..2_u8,
    ) {
        let mut bytes = vec![how];
        bytes.extend(if tree { told::<Tree>() } else { told::<Everything>() });
        for (at, byte) in damage {
            let at = 1 + at.index(bytes.len() - 1);
            bytes[at] = byte;
        }
        run("objects", &bytes);
    }
}

fn told<T: DdsType>() -> Vec<u8> {
    object_bytes(&DynamicType::of::<T>().objects(ObjectKind::Complete))
}

/// Every prefix of a file.
#[test]
fn truncated_idl_files_compile_to_rust_or_are_rejected() {
    for file in files() {
        let steps = (file.len() / 120).max(1);
        for end in (0..file.len()).step_by(steps).filter(|end| file.is_char_boundary(*end)) {
            run("idl", &file.as_bytes()[..end]);
        }
    }
}

#[test]
fn compiler_handles_own_sources_as_idl_input_without_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../idl/src");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            run("idl", &fs::read(path).unwrap());
        }
    }
}
