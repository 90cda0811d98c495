//! Descriptions of logged topics and samples as text.
//!
//! Owns: their form, and dates. Never does: rely on a description, which logs of earlier versions
//! lack.

use std::time::{Duration, SystemTime};

use dds_api::subscription::InstanceState;
use dds_api::topic::{LogDescription, LoggedSample};
use derecho_core::log::{Disk, LogKey, RecoveryCheck, StreamLog, Version};
use qos_profiles::EntityKind;
use serde_json::{Value, json};

/// Returns a line with the topic, its type and what it keeps, and one with the policies that differ
/// from the standard's defaults; nothing without a description.
pub(super) fn lines(of: &LogDescription) -> Vec<String> {
    let Some((topic, data_type)) = of.value("topic").zip(of.value("type")) else {
        return Vec::new();
    };
    let kept = of.value("retention").unwrap_or_default();
    let level = of.value("level").unwrap_or_default();
    let mut lines = vec![format!("{topic} of type {data_type}: {level}, {kept}")];
    let policies = chosen_policies(of);
    if !policies.is_empty() {
        lines.push(format!("QoS: {}", policies.join(", ")));
    }
    lines
}

/// Returns the values of policies that differ from the defaults of writers or readers, whichever
/// the description is about.
fn chosen_policies(of: &LogDescription) -> Vec<String> {
    let is_of_reader = of.fields().any(|(name, _)| name.starts_with("time_based_filter."));
    let kind = if is_of_reader { EntityKind::DataReader } else { EntityKind::DataWriter };
    let default = kind.default_qos();
    let mut chosen = Vec::new();
    for (policy, name) in kind.policies() {
        for (index, field) in policy.fields().iter().enumerate() {
            let name = format!("{name}.{}", field.name);
            let usual = default.value(policy, index).map(|value| field.show(&value).to_string());
            if let Some(value) = of.value(&name).filter(|value| usual.as_deref() != Some(*value)) {
                chosen.push(format!("{name} {value}"));
            }
        }
    }
    chosen
}

/// Returns all values as an object; null without a description.
pub(super) fn fields(of: &LogDescription) -> Value {
    let fields: serde_json::Map<String, Value> =
        of.fields().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    if fields.is_empty() { Value::Null } else { Value::Object(fields) }
}

/// Text of a record without samples.
const NOTICE: &str = "notice: a writer is gone, or has stopped to send";

/// Number of bytes of an unreadable payload that are shown as text.
const SHOWN_BYTES: usize = 64;

/// Returns the lines for the samples of a record, each with the state of its instance if that is
/// not alive. A payload that cannot be read is shown as bytes, with the reason.
pub(super) fn sample_lines(of: &LogDescription, payload: &[u8]) -> Vec<String> {
    let line = |sample: &LoggedSample| {
        let data = sample.data.to_json_line();
        match sample.instance_state {
            InstanceState::Alive => data,
            state => format!("{} {data}", kind(state)),
        }
    };
    match of.samples(payload) {
        Some(samples) if samples.is_empty() => vec![NOTICE.to_owned()],
        Some(samples) => samples.iter().map(line).collect(),
        // Logs of earlier versions have no description, and nothing is missing then.
        None if of.data_type().is_none() => Vec::new(),
        None => {
            let shown = &payload[..payload.len().min(SHOWN_BYTES)];
            let bytes: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            let more = if shown.len() < payload.len() { "..." } else { "" };
            vec![format!("bytes {bytes}{more}: {}", of.why_unreadable(payload).unwrap_or_default())]
        }
    }
}

/// Adds the samples of a record to its values, or the reason why they cannot be read, with the
/// bytes. If all samples end an instance in the same way, so does the record.
pub(super) fn add_samples(of: &LogDescription, payload: &[u8], fields: &mut Value) {
    let Some(samples) = of.samples(payload) else {
        fields["unreadable"] = json!(of.why_unreadable(payload));
        fields["payload"] = json!(super::hexadecimal(payload));
        return;
    };
    let sample = |sample: &LoggedSample| {
        // Some numbers of IDL types exceed the range of JSON libraries; such samples are texts.
        let text = sample.data.to_json_line();
        let data = serde_json::from_str(&text).unwrap_or(Value::String(text));
        json!({ "kind": kind(sample.instance_state), "data": data })
    };
    let kinds: Vec<&str> = samples.iter().map(|sample| kind(sample.instance_state)).collect();
    if kinds.is_empty() {
        fields["kind"] = json!("notice");
    } else if let Some(first) =
        kinds.first().filter(|first| kinds.iter().all(|kind| kind == *first))
    {
        fields["kind"] = json!(first);
    }
    fields["samples"] = samples.iter().map(sample).collect();
}

fn kind(of: InstanceState) -> &'static str {
    match of {
        InstanceState::Alive => "sample",
        InstanceState::NotAliveNoWriters => "unregistered",
        InstanceState::NotAliveDisposed => "disposed",
    }
}

/// Times at which the first and the last record of a log were written by their applications, in
/// nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct LogDates {
    first: u64,
    last: u64,
}

impl LogDates {
    /// Reads the times from the two records; `None` if there are none, or they cannot be read.
    pub(super) fn read(disk: &mut Box<dyn Disk>, log: LogKey) -> Option<LogDates> {
        let (log, _) = StreamLog::read(disk, log, RecoveryCheck::Last).ok()?;
        let (first, last) = (log.complete_from().0, log.durable().0);
        let mut time = |version: u64| {
            let mut cursor = log.after(Version(version.checked_sub(1)?)).ok()?;
            Some(cursor.next(disk, &log).ok()??.entry.source_time.0)
        };
        Some(LogDates { first: time(first)?, last: time(last)? })
    }

    pub(super) fn first(&self) -> String {
        date(self.first)
    }

    pub(super) fn last(&self) -> String {
        date(self.last)
    }
}

/// Returns a time in nanoseconds since 1970 as a date in UTC, to the microsecond.
pub(super) fn date(nanos: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, of_day) = (seconds.as_secs() / 86_400, seconds.as_secs() % 86_400);
    let (hours, minutes, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (year, month, day) = calendar(days);
    let micros = seconds.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{second:02}.{micros:06}Z")
}

/// Returns year, month and day of a number of days since 1970.
fn calendar(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
            (1_735_689_600, "2025-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), expected);
        }
        assert_eq!(date(1_500), "1970-01-01T00:00:00.000001Z");
        assert!(date(u64::MAX).starts_with("2554-07-21"));
    }
}
