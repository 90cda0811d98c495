//! The `squall` command: measures, examines and simulates Squall DDS.
//!
//! Owns: the command line, and the output of the command: text for human readers, one JSON object
//! for programs (the last line of standard output), progress on standard error, and the exit code.
//! Never does: anything of the protocol; every command calls the libraries.
//!
//! Exit codes: 0 on success, 1 when the answer is no or the command failed (a missing file
//! included), 2 for wrong usage.

mod allocations;
mod arguments;
mod chaos;
mod doctor;
mod end_signals;
mod idl;
mod log;
mod outcome;
mod perf;
mod qos;
mod sim;
mod store;
mod topics;
mod types;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dds_transport_rdma::shm::environment;

use outcome::{CommandAnswer, CommandResult, Failure, say, tell};

#[global_allocator]
static ALLOCATOR: allocations::CountingAllocator = allocations::CountingAllocator;

/// Measures, examines and simulates Squall DDS, a publish-subscribe middleware over shared memory.
#[derive(Parser)]
#[command(
    name = "squall",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        squall doctor                                         what this machine offers\n  \
        squall ls; squall spy Attitude                        what is written, as text\n  \
        squall perf throughput --size 128 --subs 1            messages per second\n  \
        squall perf latency --size 128 --baseline             beside the bare machine's\n\n\
        Exit codes: 0 done, 1 the answer is no or something failed, 2 wrong usage."
)]
struct Cli {
    /// Print one JSON object, on the last line of standard output, instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure throughput and latency between processes, with baselines of the bare machine.
    Perf(perf::PerfArgs),
    /// Run the papers' experiments, and whole groups under faults, in virtual time.
    Sim(sim::SimArgs),
    /// Run processes of one domain under faults, and check their deliveries.
    Chaos(chaos::ChaosArgs),
    #[command(hide = true)]
    ChaosMember(chaos::member::MemberArgs),
    /// Check IDL files, compile them to Rust, and print types as IDL.
    Idl(idl::IdlArgs),
    /// Inspect, check and cut the files of logged streams.
    Log(log::LogArgs),
    /// Check QoS profiles in XML, show their resolved values, and compare two for a match.
    Qos(qos::QosArgs),
    /// Show IDL types with their type objects, compare two, and read samples of them.
    Types(types::TypesArgs),
    /// Show the topics of a domain, and the numbers of their writers and readers.
    Ls(topics::ls::LsArgs),
    /// Show the samples of a topic as text, whatever its type.
    Spy(topics::spy::SpyArgs),
    /// Write samples of a topic from text or JSON.
    Publish(topics::publish::PublishArgs),
    /// Record topics to a file, as they are written.
    Record(topics::record::RecordArgs),
    /// Replay a recording, at its original pace or another.
    Replay(topics::replay::ReplayArgs),
    /// Keep persistent topics, so that they outlive all applications.
    Store(store::StoreArgs),
    /// Check the capabilities of this machine for Squall DDS, and recommend changes.
    #[command(after_help = "Example:\n  squall doctor --json")]
    Doctor(doctor::DoctorArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Messages of the libraries go to standard error; SQUALL_LOG sets their level.
    let chosen = environment("SQUALL_LOG").and_then(|chosen| chosen.into_string().ok());
    let filter = chosen.and_then(|chosen| tracing_subscriber::EnvFilter::try_new(chosen).ok());
    let filter = filter.unwrap_or_else(|| tracing_subscriber::EnvFilter::new("error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A closed standard error must not end the program.
        .log_internal_errors(false)
        .init();
    let json = cli.json;
    let done: CommandResult = match cli.command {
        Command::Perf(args) => perf::run(args, json),
        Command::Sim(args) => sim::run(&args, json),
        Command::Chaos(args) => chaos::run(&args, json),
        Command::ChaosMember(args) => chaos::member::run(args),
        Command::Idl(args) => idl::run(&args, json),
        Command::Log(args) => log::run(&args, json),
        Command::Qos(args) => qos::run(&args, json),
        Command::Types(args) => types::run(&args, json),
        Command::Ls(args) => topics::ls::run(&args, json),
        Command::Spy(args) => topics::spy::run(&args, json),
        Command::Publish(args) => topics::publish::run(&args, json),
        Command::Record(args) => topics::record::run(&args, json),
        Command::Replay(args) => topics::replay::run(&args, json),
        Command::Store(args) => store::run(&args, json),
        Command::Doctor(args) => doctor::run(&args, json),
    };
    match done {
        Ok(CommandAnswer::Yes) => ExitCode::SUCCESS,
        Ok(CommandAnswer::No) => ExitCode::from(1),
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(format_args!("squall: {failure}"));
            if json {
                // The exit code tells of the failure if nobody reads the output.
                let _ = say(&serde_json::json!({ "error": failure.to_string() }).to_string());
            }
            ExitCode::from(match failure {
                Failure::Usage(_) => 2,
                _ => 1,
            })
        }
    }
}
