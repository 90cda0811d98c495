//! `squall-fuzz TARGET`: feeds inputs made from a corpus into a target, for some seconds.
//!
//! Owns: the corpus on disk, the duration, and the file that reproduces a failure. Never does:
//! check anything.
//!
//! An input with a new outcome is used as the basis of further inputs. Outcomes are a weaker guide
//! than coverage, but need no support from the compiler.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use squall_fuzz::{Mutator, Outcome, TARGETS, Target};

/// Maximum number of inputs used as a basis; further ones replace earlier ones.
const MOST_KEPT: usize = 8192;

/// Feed decoders of untrusted bytes with mutated inputs
#[derive(Parser)]
struct Arguments {
    /// Target to feed: idl, cdr, objects, assign, samples, profiles, link, notes, group, rows or
    /// logs; `all` for one after the other
    target: String,
    /// Seconds for which each target is fed
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the inputs; the same seed gives the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder of initial inputs, with one folder for each target
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))]
    corpus: PathBuf,
    /// Run only this file
    #[arg(long)]
    only: Option<PathBuf>,
    /// Folder for inputs that fail
    #[arg(long, default_value = "target/fuzz")]
    failures: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let targets: Vec<Target> =
        TARGETS.into_iter().filter(|of| [of.name, "all"].contains(&&*arguments.target)).collect();
    if targets.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|of| of.name).collect();
        eprintln!(
            "there is no target `{}`; there are {} and all",
            arguments.target,
            names.join(", ")
        );
        return ExitCode::from(2);
    }
    for target in targets {
        match feed(target, &arguments) {
            Ok(true) => {}
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}

/// Feeds a target; returns whether all checks held.
fn feed(target: Target, arguments: &Arguments) -> io::Result<bool> {
    if let Some(file) = &arguments.only {
        let outcome = target.run(&read(file)?);
        println!("{}: {} is no fault: {outcome:?}", target.name, file.display());
        return Ok(true);
    }
    let mut corpus = corpus(&arguments.corpus.join(target.name))?;
    fs::create_dir_all(&arguments.failures)?;
    // The file exists while an input runs, so that it stays after a stack overflow or a kill.
    let path = arguments.failures.join(format!("{}-{}", target.name, arguments.seed));
    let current = fs::File::create(&path)?;
    let given = corpus.len();
    let mut seen: BTreeSet<Outcome> = BTreeSet::new();
    let mut mutator = Mutator::new(target, arguments.seed);
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let (mut runs, mut longest) = (0_usize, Duration::ZERO);
    while runs < given || Instant::now() < until {
        let input = if runs < given { corpus[runs].clone() } else { mutator.next(&corpus) };
        runs += 1;
        current.write_all_at(&input, 0)?;
        current.set_len(input.len() as u64)?;
        let started = Instant::now();
        let Ok(outcome) = panic::catch_unwind(AssertUnwindSafe(|| target.run(&input))) else {
            let (name, path) = (target.name, path.display());
            eprintln!("{name}: input {runs} fails; again: squall-fuzz {name} --only {path}");
            return Ok(false);
        };
        longest = longest.max(started.elapsed());
        if seen.insert(outcome) && runs > given {
            let place = corpus.len();
            if place < given + MOST_KEPT {
                corpus.push(input);
            } else {
                corpus[given + runs % MOST_KEPT] = input;
            }
        }
    }
    fs::remove_file(&path)?;
    let (name, outcomes) = (target.name, seen.len());
    println!(
        "{name}: {runs} inputs, {outcomes} outcomes, the longest took {longest:?}, seed {}",
        arguments.seed
    );
    Ok(true)
}

fn corpus(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let there =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(there)? {
        files.push(entry.map_err(there)?.path());
    }
    // A fixed order makes the run depend on the seed only.
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    fs::read(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}
