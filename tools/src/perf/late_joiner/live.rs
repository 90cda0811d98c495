//! Live samples during the arrival of late joiners.
//!
//! Owns: the writer's pace, and the number of samples in each time window. Never does: know the
//! late joiners.

use std::time::Duration;

use dds_api::prelude::*;
use serde::{Deserialize, Serialize};

use super::process::ProcessSettings;
use crate::outcome::{Failure, say};
use crate::perf::clock;
use crate::perf::control::HarnessControl;
use crate::perf::payload::{Payload, fill};
use crate::perf::publish::STALL_LIMIT;
use crate::perf::role::{LOOK, meet};
use crate::perf::subscriber_stats::SubscriberStats;

/// Window in nanoseconds in which samples are counted together.
const WINDOW: u64 = 1_000_000;
/// Lead in nanoseconds at which a writer that is ahead of its pace rests.
const EARLY: u64 = 200_000;
/// Number of samples between two checks whether the writer must stop.
const LOOK_EVERY: u64 = 64;

/// Result of the writer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WriterResult {
    /// Seconds for the history.
    pub(super) past_s: f64,
    pub(super) peak_mib: u64,
}

/// Result of the reader.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ReaderResult {
    /// Start of the first window.
    start_ns: u64,
    /// Number of samples in each window.
    windows: Vec<u32>,
    /// Samples that were lost, damaged, or out of order.
    pub(super) wrong: u64,
    pub(super) peak_mib: u64,
}

impl ReaderResult {
    fn count(&mut self, now: u64, samples: u32) {
        let window = (now.saturating_sub(self.start_ns) / WINDOW) as usize;
        if window >= self.windows.len() {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += samples;
    }

    /// Returns the windows within a span, including partial ones.
    fn within(&self, from: u64, to: u64) -> &[u32] {
        let at = |time: u64| {
            let window = (time.saturating_sub(self.start_ns) / WINDOW) as usize;
            window.min(self.windows.len())
        };
        &self.windows[at(from)..at(to + WINDOW - 1).max(at(from))]
    }

    /// Returns the samples per second between two moments.
    pub(super) fn rate(&self, from: u64, to: u64) -> f64 {
        let windows = self.within(from, to);
        let samples: u64 = windows.iter().map(|count| u64::from(*count)).sum();
        samples as f64 * 1e9 / (windows.len().max(1) as u64 * WINDOW) as f64
    }

    /// Returns the longest time, in milliseconds, without a sample between two moments.
    pub(super) fn silence(&self, from: u64, to: u64) -> u64 {
        let silences = self.within(from, to).split(|count| *count > 0).map(<[u32]>::len);
        silences.max().unwrap_or(0) as u64
    }
}

/// Writes the history, and then at its pace until it is stopped.
pub(super) fn write<P: Payload>(
    part: &ProcessSettings,
    control: &HarnessControl,
) -> Result<(), Failure> {
    let participant = part.delivery.join()?;
    let writer = part.delivery.writer::<P>(&participant, super::process::TOPIC, part.size)?;
    if !meet(control, || writer.wait_for_readers(1, LOOK))? {
        return Ok(());
    }
    let mut sample = Box::<P>::default();
    sample.resize(part.size);
    let mut put = |index: u64| -> Result<bool, Failure> {
        fill(sample.bytes_mut(), index, 0);
        let deadline = clock::now() + STALL_LIMIT.as_nanos() as u64;
        loop {
            match writer.write(&sample) {
                Ok(()) => return Ok(true),
                Err(DdsError::Timeout(_)) if control.ended() => return Ok(false),
                Err(DdsError::Timeout(_)) if clock::now() < deadline => {}
                Err(error) => return Err(error.into()),
            }
        }
    };
    let start = clock::now();
    for index in 0..part.past {
        if !put(index)? {
            return Ok(());
        }
    }
    writer.wait_for_acknowledgments(STALL_LIMIT)?;
    let past_s = clock::secs(clock::now() - start);
    if !control.ready(Some("GO"))? {
        return Ok(());
    }
    let (start, mut count) = (clock::now(), 0);
    while !(count % LOOK_EVERY == 0 && control.has_received("STOP")) {
        match part.live {
            None => {}
            Some(0) => {
                std::thread::sleep(LOOK);
                continue;
            }
            Some(rate) => {
                let due = start + (count as f64 * 1e9 / rate as f64) as u64;
                let early = due.saturating_sub(clock::now());
                if early > EARLY {
                    std::thread::sleep(Duration::from_nanos(early));
                }
            }
        }
        if !put(part.past + count)? {
            return Ok(());
        }
        count += 1;
    }
    let wrote = WriterResult { past_s, peak_mib: super::process::peak_mib() };
    say(&serde_json::to_string(&wrote).map_err(|error| Failure::new(error.to_string()))?)?;
    control.wait_for_exit();
    Ok(())
}

/// Reads until it is stopped.
pub(super) fn read<P: Payload>(
    part: &ProcessSettings,
    control: &HarnessControl,
) -> Result<(), Failure> {
    let participant = part.delivery.join()?;
    let reader = part.delivery.reader::<P>(&participant, super::process::TOPIC, part.size)?;
    if !meet(control, || reader.wait_for_writers(1, LOOK))? || !control.ready(None)? {
        return Ok(());
    }
    let mut stats = SubscriberStats::new(part.read);
    let mut lived = ReaderResult { start_ns: clock::now(), ..ReaderResult::default() };
    loop {
        let before = stats.seen();
        for sample in reader.take_data(.., LOOK)? {
            stats.look(sample.bytes(), sample.info().publication_handle);
        }
        let seen = stats.seen() - before;
        if seen == 0 && control.has_received("STOP") {
            break;
        }
        lived.count(clock::now(), seen as u32);
    }
    lived.wrong = stats.lost + stats.disorder + stats.corrupt;
    lived.peak_mib = super::process::peak_mib();
    say(&serde_json::to_string(&lived).map_err(|error| Failure::new(error.to_string()))?)?;
    control.wait_for_exit();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_span_are_counted_by_windows() {
        let mut lived = ReaderResult { start_ns: 5 * WINDOW, ..ReaderResult::default() };
        for (at, samples) in [(5, 10), (6, 20), (9, 30), (9, 5)] {
            lived.count(at * WINDOW + 17, samples);
        }
        assert_eq!(lived.windows, [10, 20, 0, 0, 35]);
        assert_eq!(lived.rate(5 * WINDOW, 7 * WINDOW), 15_000.0);
        assert_eq!(lived.rate(0, 100 * WINDOW), 13_000.0);
        assert_eq!(lived.rate(100 * WINDOW, 101 * WINDOW), 0.0);
        assert_eq!(lived.silence(5 * WINDOW, 10 * WINDOW), 2);
        assert_eq!(lived.silence(5 * WINDOW, 7 * WINDOW), 0);
    }
}
