//! `squall-fuzz TARGET`: inputs made of a corpus into a target, for some seconds.
//!
//! Owns: the corpus on disk, how long it goes on, and that what fails can be run again. Never does: check anything.
//!
//! An input whose outcome none had before is gone on from. That is no coverage, but needs nothing of the compiler.

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

/// So many inputs are gone on from; then new ones take the place of others.
const MOST_KEPT: usize = 8192;

/// Feeds what reads untrusted bytes with harmed ones
#[derive(Parser)]
struct Arguments {
    /// What is fed: idl, cdr, objects, assign, samples or profiles; `all` for one after the other
    target: String,
    /// How long each target is fed
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Chooses the inputs: the same are made from the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where inputs are found to begin with: a folder with one for each target
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))]
    corpus: PathBuf,
    /// Runs this file alone
    #[arg(long)]
    only: Option<PathBuf>,
    /// Where an input is put that fails
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

/// Whether all that must hold held.
fn feed(target: Target, arguments: &Arguments) -> io::Result<bool> {
    if let Some(file) = &arguments.only {
        let outcome = target.run(&read(file)?);
        println!("{}: {} is no fault: {outcome:?}", target.name, file.display());
        return Ok(true);
    }
    let mut corpus = corpus(&arguments.corpus.join(target.name))?;
    fs::create_dir_all(&arguments.failures)?;
    // Always there while an input is run: a stack that overflows, or a kill, leaves it behind.
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
    // In one order, or the seed would choose nothing.
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    fs::read(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}
