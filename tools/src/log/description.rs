//! Descriptions of logged topics and samples as text.
//!
//! Owns: their form, and dates. Never does: rely on a description, which logs of earlier versions
//! lack.

use std::time::{Duration, SystemTime};

use dds_api::subscription::InstanceState;
use dds_api::topic::{LogDescription, LoggedSample};
use serde_json::{Value, json};

/// Returns the topic with its type, and what it keeps, in one line.
pub(super) fn line(of: &LogDescription) -> Option<String> {
    let (topic, data_type) = of.value("topic").zip(of.value("type"))?;
    let kept = of.value("retention").unwrap_or_default();
    Some(format!("{topic} of type {data_type}: {kept}"))
}

/// Returns all values as an object; null without a description.
pub(super) fn fields(of: &LogDescription) -> Value {
    let fields: serde_json::Map<String, Value> =
        of.fields().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    if fields.is_empty() { Value::Null } else { Value::Object(fields) }
}

/// Returns the samples of a record, each with the state of its instance if that is not alive.
pub(super) fn samples(of: &LogDescription, payload: &[u8]) -> Option<Vec<String>> {
    let text = |sample: &LoggedSample| {
        let data = sample.data.to_json_line();
        match sample.instance_state {
            InstanceState::Alive => data,
            InstanceState::NotAliveNoWriters => format!("unregistered {data}"),
            InstanceState::NotAliveDisposed => format!("disposed {data}"),
        }
    };
    Some(of.samples(payload)?.iter().map(text).collect())
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
