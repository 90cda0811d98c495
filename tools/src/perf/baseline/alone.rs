//! `squall perf bare`: one bare ring alone, to find its limit or to change a ring.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::stable::EVERY;
use super::{BareRingKind, BareSettings, ring_bytes, throughput};
use crate::outcome::{CommandAnswer, CommandResult, show};
use crate::perf::machine::{commit, machine};
use crate::perf::payload::ReadExtent;
use crate::perf::role::sample_size;
use crate::perf::throughput::{seconds, short};

/// One bare ring between processes, without any part of the product.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  squall perf bare --kind stable --size 128 --subs 3")]
pub(crate) struct BareArgs {
    /// Kind of ring.
    #[arg(long, value_enum)]
    kind: BareRingKind,
    /// Bytes of a message.
    #[arg(long, value_name = "BYTES", value_parser = sample_size)]
    size: usize,
    /// Number of readers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32))]
    subs: u32,
    /// Bytes that readers check.
    #[arg(long, value_enum, default_value_t = ReadExtent::Whole)]
    read: ReadExtent,
    /// Seconds of writing.
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: f64,
    /// Number of messages after which a process of the stable ring reports its position.
    #[arg(long, value_name = "MESSAGES", default_value_t = EVERY,
        value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Seconds after which an unfinished run counts as failed.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Runs the ring and reports the result.
pub(crate) fn run(args: &BareArgs, json: bool) -> CommandResult {
    let found = throughput(
        BareSettings {
            size: args.size,
            readers: args.subs as usize,
            read: args.read,
            seconds: args.seconds,
            every: args.every,
            limit: Duration::from_secs(args.limit.into()),
        },
        args.kind,
    )?;
    let bytes_per_s = found.msgs_per_s * args.size as f64;
    let report = json!({
        "kind": args.kind.name(),
        "size": args.size,
        "subs": args.subs,
        "read": args.read.name(),
        "every": args.every,
        "ring_bytes": ring_bytes(args.size),
        "msgs_per_s": found.msgs_per_s,
        "bytes_per_s": bytes_per_s,
        "cpu_s": found.cpu_s,
        "written": found.written,
        "read_by": found.read_by,
        "machine": machine(),
        "commit": commit(),
    });
    let text = format!(
        "bare ring, {}, {} bytes to {}: {} messages/s, {:.3} GB/s to each reader",
        args.kind.label(),
        args.size,
        args.subs,
        short(found.msgs_per_s),
        bytes_per_s / 1e9,
    );
    show(json, &report, &text)?;
    Ok(CommandAnswer::Yes)
}
