//! `squall perf peer ROLE`: one role by the measuring protocol, for any outside harness.
//!
//! ```text
//!   role                                   harness
//!   READY (matched with all others)  -->
//!                                    <--   GO      (pub and ping wait for it)
//!   {"role": ..., ...}               -->
//!                                    <--   EXIT    (or the end of standard input: end now)
//! ```

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::control::HarnessControl;
use super::payload::{ReadExtent, form};
use super::pingpong::PingPongSettings;
use super::publish::{PublishLimit, PublisherSettings, WriteMethod};
use super::role::{ParticipantCounts, RoleSettings};
use super::subscribe::SubscriberSettings;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say};

/// One role by the measuring protocol: READY, GO, a line of JSON, EXIT.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Example (GO and EXIT are typed or piped in):\n  \
    squall perf peer sub --size 128 --count 1000 --subs 1 --index 0 --session s1\n  \
    squall perf peer pub --size 128 --count 1000 --subs 1 --session s1"
)]
pub(crate) struct PeerArgs {
    #[command(subcommand)]
    role: PeerRole,
}

#[derive(Args, Debug)]
struct Session {
    #[command(flatten)]
    part: RoleSettings,
    /// Samples, or round trips.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Name under which the processes of one measurement meet.
    #[arg(long, value_name = "NAME")]
    session: String,
}

#[derive(Subcommand, Debug)]
enum PeerRole {
    /// Publishes.
    Pub {
        #[command(flatten)]
        session: Session,
        /// Number of subscribers.
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        subs: u16,
    },
    /// Subscribes.
    Sub {
        #[command(flatten)]
        session: Session,
        /// Number of subscribers.
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        subs: u16,
        /// Index of this subscriber.
        #[arg(long)]
        index: u16,
    },
    /// Sends and waits for the answer.
    Ping {
        #[command(flatten)]
        session: Session,
    },
    /// Answers.
    Pong {
        #[command(flatten)]
        session: Session,
    },
}

/// Runs the role.
pub(crate) fn run(args: PeerArgs) -> CommandResult {
    match args.role {
        PeerRole::Pub { session: Session { part, count, session }, subs } => {
            let plain = form(part.size) == "plain";
            let settings = PublisherSettings {
                size: part.size,
                delivery: part.means,
                session,
                cast: ParticipantCounts::one_to(usize::from(subs)),
                amount: PublishLimit::Count(count),
                method: if plain { WriteMethod::Loan } else { WriteMethod::Copy },
                stamps: false,
            };
            settings.run(HarnessControl::new(true), |done| {
                let (start, end) = (done.t_start_ns, done.t_end_ns);
                tell(json!({
                    "role": "pub", "sent": done.sent, "t_start_ns": start, "t_end_ns": end,
                }))
            })?;
        }
        PeerRole::Sub { session: Session { part, count, session }, subs, index } => {
            if index >= subs {
                return Err(Failure::Usage(format!(
                    "--index {index} of {subs} subscribers: they are numbered from 0"
                )));
            }
            let settings = SubscriberSettings {
                size: part.size,
                delivery: part.means,
                session,
                cast: ParticipantCounts::one_to(usize::from(subs)),
                index: usize::from(index),
                count: Some(count),
                read: ReadExtent::Ends,
            };
            settings.run(HarnessControl::new(true), |seen| {
                tell(json!({
                    "role": "sub", "index": seen.index, "received": seen.received,
                    "lost": seen.lost, "disorder": seen.disorder, "corrupt": seen.corrupt,
                    "t_first_ns": seen.t_first_ns, "t_last_ns": seen.t_last_ns,
                }))
            })?;
        }
        PeerRole::Ping { session } => {
            settings_of(session).ping(HarnessControl::new(true), |found| {
                let times = &found.one_way;
                tell(json!({
                    "role": "ping", "count": found.count, "p50_ns": times.p50_ns,
                    "p99_ns": times.p99_ns, "p999_ns": times.p999_ns, "mean_ns": times.mean_ns,
                    "min_ns": times.min_ns,
                }))
            })?
        }
        PeerRole::Pong { session } => {
            settings_of(session)
                .pong(HarnessControl::new(true), |_| tell(json!({ "role": "pong" })))?;
        }
    }
    Ok(CommandAnswer::Yes)
}

fn settings_of(session: Session) -> PingPongSettings {
    let Session { part, count, session } = session;
    PingPongSettings { size: part.size, delivery: part.means, session, rounds: count }
}

fn tell(result: Value) -> Result<(), Failure> {
    say(&result.to_string())
}
