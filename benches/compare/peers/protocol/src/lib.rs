//! The measuring protocol for peers of any system: options, standard input and output, payload, and
//! the four roles. A peer implements [`Peer`], [`PeerWriter`] and [`PeerReader`] and calls [`run`].
//!
//! ```text
//!   role                                   harness
//!   READY (matched with all others)  -->
//!                                    <--   GO      (pub and ping wait for it)
//!   {"role": ..., ...}               -->
//!                                    <--   EXIT    (or the end of standard input: end now)
//! ```

mod control;
mod payload;
mod roles;

use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// An error of a peer.
pub type PeerError = Box<dyn std::error::Error + Send + Sync>;
/// Result of an operation of a peer.
pub type PeerResult<T> = Result<T, PeerError>;

/// A system, connected for one role of one measurement.
pub trait Peer: Sized {
    /// Sending side of a topic.
    type Writer: PeerWriter;
    /// Receiving side of a topic.
    type Reader: PeerReader;

    /// Connects to the system.
    fn open(options: &PeerOptions) -> PeerResult<Self>;
    /// Makes a reliable writer for a topic with this number of readers.
    fn writer(&self, topic: &str, readers: usize) -> PeerResult<Self::Writer>;
    /// Makes a reliable reader for a topic with this number of readers.
    fn reader(&self, topic: &str, readers: usize) -> PeerResult<Self::Reader>;
}

/// Sending side of a topic. Nothing that is sent may be lost.
pub trait PeerWriter {
    /// Returns the number of matched readers.
    fn matched(&mut self) -> PeerResult<usize>;
    /// Sends one message whose content `fill` writes. Waits if there is no room.
    fn send(&mut self, size: usize, fill: impl FnOnce(&mut [u8])) -> PeerResult<()>;
    /// Waits until the readers have all messages, if the system can tell.
    fn finish(&mut self) -> PeerResult<()> {
        Ok(())
    }
}

/// Receiving side of a topic.
pub trait PeerReader {
    /// Returns the number of matched writers.
    fn matched(&mut self) -> PeerResult<usize>;
    /// Gives each message that is there to `each`; waits at most `limit` for the first one.
    ///
    /// Returns the number of messages.
    fn receive(&mut self, limit: Duration, each: impl FnMut(&[u8])) -> PeerResult<usize>;
}

/// Options of a role.
#[derive(Clone, Debug, Args)]
pub struct PeerOptions {
    /// Bytes of a message.
    #[arg(long)]
    pub size: usize,
    /// Messages, or round trips.
    #[arg(long)]
    pub count: u64,
    /// Number of subscribers.
    #[arg(long, default_value_t = 1)]
    pub subs: usize,
    /// Index of this subscriber.
    #[arg(long, default_value_t = 0)]
    pub index: usize,
    /// Name under which the processes of one measurement meet.
    #[arg(long)]
    pub session: String,
    /// Variant of the system, if the peer has several.
    #[arg(long, default_value = "")]
    pub variant: String,
    /// Whether the role is `pub` or `ping`: exactly one process of a session.
    #[arg(skip)]
    pub leads: bool,
}

#[derive(Parser)]
struct PeerCommand {
    #[command(subcommand)]
    role: PeerRole,
}

#[derive(Subcommand)]
enum PeerRole {
    /// Publishes.
    Pub(PeerOptions),
    /// Subscribes.
    Sub(PeerOptions),
    /// Sends and waits for the answer.
    Ping(PeerOptions),
    /// Answers.
    Pong(PeerOptions),
}

/// Runs the role that the command line names.
pub fn run<P: Peer>() -> PeerResult<()> {
    match PeerCommand::parse().role {
        PeerRole::Pub(options) => roles::publish::<P>(&PeerOptions { leads: true, ..options }),
        PeerRole::Sub(options) => roles::subscribe::<P>(&options),
        PeerRole::Ping(options) => roles::ping::<P>(&PeerOptions { leads: true, ..options }),
        PeerRole::Pong(options) => roles::pong::<P>(&options),
    }
}
