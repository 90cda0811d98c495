//! The four roles.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::control::{HarnessControl, say};
use crate::payload::{SequenceCheck, check, fill};
use crate::{Peer, PeerOptions, PeerReader, PeerResult, PeerWriter};

/// Maximum time of one wait, between looks at standard input.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks for others.
const MATCH_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum time that a subscriber waits for the next message.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time for others to come, and for the first message.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Nanoseconds of CLOCK_MONOTONIC.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until `is_matched`; fails after [`START_LIMIT`] or at the end of standard input.
fn meet(
    control: &HarnessControl,
    mut is_matched: impl FnMut() -> PeerResult<bool>,
) -> PeerResult<()> {
    let start = Instant::now();
    while !is_matched()? {
        if control.ended() || start.elapsed() >= START_LIMIT {
            return Err("the others of the session have not come".into());
        }
        std::thread::sleep(MATCH_INTERVAL);
    }
    Ok(())
}

pub(crate) fn publish<P: Peer>(options: &PeerOptions) -> PeerResult<()> {
    let control = HarnessControl::new();
    let peer = P::open(options)?;
    let mut writer = peer.writer(&options.session, options.subs)?;
    meet(&control, || Ok(writer.matched()? >= options.subs))?;
    if !control.ready(true)? {
        return Ok(());
    }
    let t_start_ns = now();
    for index in 0..options.count {
        writer.send(options.size, |bytes| fill(bytes, index))?;
        if control.ended() {
            return Ok(());
        }
    }
    let t_end_ns = now();
    writer.finish()?;
    let (sent, start, end) = (options.count, t_start_ns, t_end_ns);
    let line = json!({"role": "pub", "sent": sent, "t_start_ns": start, "t_end_ns": end});
    say(&line.to_string())?;
    control.wait_for_exit();
    Ok(())
}

pub(crate) fn subscribe<P: Peer>(options: &PeerOptions) -> PeerResult<()> {
    let control = HarnessControl::new();
    let peer = P::open(options)?;
    let mut reader = peer.reader(&options.session, options.subs)?;
    meet(&control, || Ok(reader.matched()? >= 1))?;
    control.ready(false)?;
    let mut seen = SequenceCheck::default();
    let (mut t_first_ns, mut t_last_ns) = (0, 0);
    let mut heard = Instant::now();
    while seen.next < options.count && !control.ended() {
        let messages = reader.receive(LOOK, |bytes| {
            if t_first_ns == 0 {
                t_first_ns = now();
            }
            seen.look(bytes, options.size);
        })?;
        if messages > 0 {
            t_last_ns = now();
            heard = Instant::now();
            continue;
        }
        let limit = if t_first_ns == 0 { START_LIMIT } else { SILENCE_LIMIT };
        if heard.elapsed() >= limit {
            break;
        }
    }
    let missing = options.count.saturating_sub(seen.next);
    let line = json!({
        "role": "sub", "index": options.index, "received": seen.received,
        "lost": seen.lost + missing, "disorder": seen.disorder, "corrupt": seen.corrupt,
        "t_first_ns": t_first_ns, "t_last_ns": t_last_ns,
    });
    say(&line.to_string())?;
    control.wait_for_exit();
    Ok(())
}

/// Writer and reader of a side of a ping-pong, once both are matched.
fn both_ways<P: Peer>(
    options: &PeerOptions,
    control: &HarnessControl,
    [to, from]: [&str; 2],
) -> PeerResult<BothWays<P>> {
    let peer = P::open(options)?;
    let mut writer = peer.writer(&format!("{}_{to}", options.session), 1)?;
    let mut reader = peer.reader(&format!("{}_{from}", options.session), 1)?;
    meet(control, || Ok(writer.matched()? >= 1 && reader.matched()? >= 1))?;
    Ok(BothWays { writer, reader, _peer: peer })
}

struct BothWays<P: Peer> {
    writer: P::Writer,
    reader: P::Reader,
    _peer: P,
}

/// Receives the message with this index. Returns `false` if the role must end.
fn receive_index<R: PeerReader>(
    reader: &mut R,
    control: &HarnessControl,
    options: &PeerOptions,
    index: u64,
) -> PeerResult<bool> {
    let mut seen = None;
    let start = Instant::now();
    while reader.receive(LOOK, |bytes| seen = check(bytes, options.size))? == 0 {
        if control.ended() {
            return Ok(false);
        }
        if start.elapsed() >= START_LIMIT {
            return Err("no message came".into());
        }
    }
    if seen != Some(index) {
        return Err(format!("message {seen:?} came in place of {index}").into());
    }
    Ok(true)
}

fn warm_up(options: &PeerOptions) -> u64 {
    options.count / 10
}

pub(crate) fn ping<P: Peer>(options: &PeerOptions) -> PeerResult<()> {
    let control = HarnessControl::new();
    let mut both = both_ways::<P>(options, &control, ["ping", "pong"])?;
    if !control.ready(true)? {
        return Ok(());
    }
    let mut times = Histogram::<u64>::new(3)?;
    for index in 0..warm_up(options) + options.count {
        let start = now();
        both.writer.send(options.size, |bytes| fill(bytes, index))?;
        if !receive_index(&mut both.reader, &control, options, index)? {
            return Ok(());
        }
        if index >= warm_up(options) {
            times.record((now() - start) / 2)?;
        }
    }
    let at = |quantile| times.value_at_quantile(quantile);
    let line = json!({
        "role": "ping", "count": options.count, "p50_ns": at(0.5), "p99_ns": at(0.99),
        "p999_ns": at(0.999), "mean_ns": times.mean(), "min_ns": times.min(),
    });
    say(&line.to_string())?;
    control.wait_for_exit();
    Ok(())
}

pub(crate) fn pong<P: Peer>(options: &PeerOptions) -> PeerResult<()> {
    let control = HarnessControl::new();
    let mut both = both_ways::<P>(options, &control, ["pong", "ping"])?;
    control.ready(false)?;
    for index in 0..warm_up(options) + options.count {
        if !receive_index(&mut both.reader, &control, options, index)? {
            return Ok(());
        }
        both.writer.send(options.size, |bytes| fill(bytes, index))?;
    }
    both.writer.finish()?;
    say(&json!({"role": "pong"}).to_string())?;
    control.wait_for_exit();
    Ok(())
}
