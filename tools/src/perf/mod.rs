//! `squall perf`: throughput and latency between processes.
//!
//! Owns: the roles (publisher, subscriber, ping, pong), the harness that starts them as processes
//! of their own, and the baselines. Never does: reach below the public API of `dds-api`, except
//! where the lower layer itself is measured: the shared state table, and the multicast.

mod baseline;
pub(crate) mod clock;
mod control;
mod late_joiner;
mod latency;
mod levels;
mod machine;
mod member;
mod members;
mod payload;
mod peer;
mod pingpong;
mod process_group;
mod publish;
mod regress;
mod report;
mod role;
mod roles;
mod sst;
mod sst_node;
mod subscribe;
mod subscriber_stats;
mod summary;
mod throughput;
mod upcall;
mod views;

use clap::{Args, Subcommand};

use crate::outcome::CommandResult;

/// Measurement, or role in one.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  \
    squall perf throughput --size 1024 --subs 2 --baseline"
)]
pub(crate) struct PerfArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Throughput(throughput::ThroughputArgs),
    Latency(latency::LatencyArgs),
    LateJoiner(late_joiner::LateJoinerArgs),
    Levels(levels::LevelsArgs),
    Regress(regress::RegressArgs),
    Summary(summary::SummaryArgs),
    Pub(roles::PubArgs),
    Sub(roles::SubArgs),
    Ping(roles::PingArgs),
    Pong(roles::PongArgs),
    Peer(peer::PeerArgs),
    Sst(sst::SstArgs),
    Upcall(upcall::UpcallArgs),
    Views(views::ViewsArgs),
    #[command(hide = true)]
    Bare(baseline::BareArgs),
    #[command(hide = true)]
    BareNode(baseline::BareNodeArgs),
    #[command(hide = true)]
    BareHaul(baseline::TransferArgs),
    #[command(hide = true)]
    LateJoinerPart(late_joiner::ProcessArgs),
    #[command(hide = true)]
    Member(member::MemberArgs),
    #[command(hide = true)]
    Trial(member::trial::TrialArgs),
    #[command(hide = true)]
    ViewsMember(views::ViewsMemberArgs),
    #[command(hide = true)]
    SstNode(sst_node::SstNodeArgs),
}

/// Runs a command.
pub(crate) fn run(args: PerfArgs, json: bool) -> CommandResult {
    match args.command {
        Command::Throughput(args) => throughput::run(&args, json),
        Command::Latency(args) => latency::run(&args, json),
        Command::LateJoiner(args) => late_joiner::run(&args, json),
        Command::LateJoinerPart(args) => late_joiner::play(args),
        Command::BareHaul(args) => baseline::run_haul(&args),
        Command::Levels(args) => levels::run(&args, json),
        Command::Regress(args) => regress::run(&args, json),
        Command::Summary(args) => summary::run(&args, json),
        Command::Pub(args) => roles::publish(args, json),
        Command::Sub(args) => roles::subscribe(args, json),
        Command::Ping(args) => roles::ping(args, json),
        Command::Pong(args) => roles::pong(args, json),
        Command::Peer(args) => peer::run(args),
        Command::Sst(args) => sst::run(&args, json),
        Command::Bare(args) => baseline::run_alone(&args, json),
        Command::BareNode(args) => baseline::run_node(&args),
        Command::Upcall(args) => upcall::run(&args, json),
        Command::Views(args) => views::run(&args, json),
        Command::ViewsMember(args) => views::play(&args),
        Command::Trial(args) => member::trial::run(args),
        Command::Member(args) => member::run(args),
        Command::SstNode(args) => sst_node::run(&args),
    }
}
