//! No text whatever makes the compiler panic or hang; what it takes, it can write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::time::{Duration, Instant};

use idl::{Compiler, Memory};
use proptest::prelude::*;

/// Long for a small text, short enough to tell a hang.
const PATIENCE: Duration = Duration::from_secs(20);

const GOLDEN: [&str; 6] = [
    include_str!("golden/nav.idl"),
    include_str!("golden/constants.idl"),
    include_str!("golden/types.idl"),
    include_str!("golden/annotated.idl"),
    include_str!("golden/names.idl"),
    include_str!("golden/skipped.idl"),
];

/// Compiles a text that can include itself and another one, and writes the Rust if it is right.
fn survive(text: &str) -> bool {
    let started = Instant::now();
    let files = Memory::new([("a.idl", text), ("b.idl", "#define B 1\nstruct InB { long b; };\n")]);
    let compiled = Compiler::new().compile_from(&files, &["a.idl"]).unwrap();
    drop(compiled.diagnostics.to_string());
    let sound = compiled.specification.is_some();
    assert!(sound || compiled.diagnostics.has_errors());
    if let Some(specification) = compiled.specification {
        drop(idl::generate(&specification));
    }
    assert!(started.elapsed() < PATIENCE, "{text}");
    sound
}

const WORDS: &[&str] = &[
    "module",
    "struct",
    "enum",
    "typedef",
    "sequence",
    "string",
    "long",
    "unsigned",
    "short",
    "double",
    "union",
    "switch",
    "case",
    "default",
    "bitmask",
    "bitset",
    "bitfield",
    "map",
    "const",
    "fixed",
    "any",
    "interface",
    "exception",
    "valuetype",
    "component",
    "native",
    "wchar",
    "wstring",
    "boolean",
    "TRUE",
    "@annotation",
    "@key",
    "@final",
    "@id(3)",
    "@default(1)",
    "@range(min = 1, max = 2)",
    "@x",
    "@",
    "{",
    "}",
    ";",
    ",",
    "<",
    ">",
    "[",
    "]",
    "::",
    "(",
    ")",
    "=",
    ":",
    "+",
    "-",
    "*",
    "/",
    "|",
    "~",
    "<<",
    ">>",
    "##",
    "a",
    "A",
    "b",
    "c",
    "_d",
    "1",
    "3",
    "0",
    "1.5",
    "2.5d",
    "'c'",
    "L'c'",
    "\"s\"",
    "L\"s\"",
    "//\n",
    "/*",
    "*/",
    "\n",
    "\n#p\n",
    "\n#if 1\n",
    "\n#if 0\n",
    "\n#else\n",
    "\n#elif 1\n",
    "\n#endif\n",
    "\n#define a b\n",
    "\n#define b(x) x x\n",
    "\n#include \"a.idl\"\n",
    "\n#include \"b.idl\"\n",
    "\n#pragma keylist a b\n",
    "\\\n",
    "ä",
];

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        survive(&text);
    }

    /// Words of the language get further than letters do.
    #[test]
    fn no_sequence_of_words_makes_it_panic(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..120)
    ) {
        survive(&words.join(" "));
    }

    /// A few words changed in a sound file.
    #[test]
    fn no_small_change_makes_it_panic(
        file in proptest::sample::select(&GOLDEN[..]),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), proptest::sample::select(WORDS), 0..4_u8), 1..4
        ),
    ) {
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
        survive(&words.concat());
    }
}

/// A generator of numbers that needs nothing; the runs are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Bytes changed, cut, doubled and moved between files, for a bounded time; more of it with
/// `IDL_FUZZ_SECONDS`.
#[test]
fn no_mutation_of_bytes_makes_it_panic() {
    let seconds = std::env::var("IDL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(5));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut runs, mut sound) = (0_u64, 0_u64);
    while Instant::now() < until {
        let mut bytes = GOLDEN[random.below(GOLDEN.len())].as_bytes().to_vec();
        for _ in 0..=random.below(6) {
            let length = bytes.len().max(1);
            let (at, other) = (random.below(length), random.below(length));
            match random.below(7) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.insert(at.min(bytes.len()), random.below(256) as u8),
                3 => bytes.truncate(at),
                4 => {
                    let (from, to) = (at.min(other), at.max(other).min(bytes.len()));
                    let part = bytes[from.min(to)..to.min(from + 200)].to_vec();
                    let into = random.below(bytes.len() + 1);
                    bytes.splice(into..into, part);
                }
                5 => {
                    let donor = GOLDEN[random.below(GOLDEN.len())].as_bytes();
                    let from = random.below(donor.len());
                    let part = donor[from..(from + random.below(120)).min(donor.len())].to_vec();
                    let into = random.below(bytes.len() + 1);
                    bytes.splice(into..into, part);
                }
                _ => {
                    let from = at.min(bytes.len());
                    let to = (from + random.below(40)).min(bytes.len());
                    bytes.drain(from..to);
                }
            }
        }
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect());
        sound += u64::from(survive(&text));
        runs += 1;
    }
    assert!(runs > 50, "only {runs} runs");
    println!("{runs} mutated files, {sound} of them sound");
}

/// Every file that breaks off somewhere.
#[test]
fn no_prefix_of_a_file_makes_it_panic() {
    for file in GOLDEN {
        let steps = (file.len() / 120).max(1);
        for end in (0..file.len()).step_by(steps).filter(|end| file.is_char_boundary(*end)) {
            survive(&file[..end]);
        }
    }
}

#[test]
fn the_compilers_own_sources_are_no_idl_and_do_no_harm() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            survive(&fs::read_to_string(path).unwrap());
        }
    }
}
