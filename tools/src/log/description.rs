//! Descriptions of logged topics, in files beside the logs.
//!
//! Owns: the reading of a description, and dates as text. Never does: rely on a description, which
//! logs of earlier versions lack.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime};

use derecho_core::log::StreamKey;
use serde_json::{Value, json};

/// First line of a description.
const HEAD: &str = "squall topic 1";
/// Maximum length of a description that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Description of a topic: names and values in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Description(Vec<(String, String)>);

impl Description {
    /// Reads the description of a stream; an empty one if there is none.
    pub(super) fn of(folder: &Path, stream: StreamKey) -> Description {
        let path = folder.join(format!("{stream}.topic"));
        // A link, a device or a FIFO is no description, and may have no end.
        let is_file = path.symlink_metadata().is_ok_and(|data| data.is_file());
        let mut text = String::new();
        if is_file
            && let Ok(file) = File::open(path)
            && file.take(LONGEST).read_to_string(&mut text).is_err()
        {
            return Description::default();
        }
        Description::parse(&text)
    }

    fn parse(text: &str) -> Description {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Description::default();
        }
        let pairs = lines.filter_map(|line| line.split_once(" = "));
        Description(pairs.map(|(name, value)| (printable(name), printable(value))).collect())
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the topic's name.
    pub(super) fn topic(&self) -> Option<&str> {
        self.value("topic")
    }

    /// Returns the topic with its type, and what it keeps, in one line.
    pub(super) fn line(&self) -> Option<String> {
        let (topic, of) = self.topic().zip(self.value("type"))?;
        let kept = self.value("retention").unwrap_or_default();
        Some(format!("{topic} of type {of}: {kept}"))
    }

    /// Returns all values as an object; null without a description.
    pub(super) fn fields(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        self.0.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    }
}

/// Returns a text with its control characters escaped, which could otherwise command a terminal.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => printable.extend(c.escape_default()),
            false => printable.push(c),
        }
    }
    printable
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
    fn control_characters_of_a_description_are_escaped() {
        let text = format!("{HEAD}\ntopic = a\u{1b}[31m\ntype = T\nretention = all\n");
        assert_eq!(Description::parse(&text).topic(), Some("a\\u{1b}[31m"));
    }

    #[test]
    fn description_that_is_no_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let stream = StreamKey(7);
        let path = folder.path().join(format!("{stream}.topic"));
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(Description::of(folder.path(), stream).fields(), Value::Null);
        std::fs::remove_file(&path).unwrap();
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path.as_c_str(), fifo, mode, 0).unwrap();
        assert_eq!(Description::of(folder.path(), stream).fields(), Value::Null);
    }

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

    #[test]
    fn description_is_read_and_foreign_text_is_none() {
        let text = "squall topic 1\ntopic = A = b\ntype = T\nretention = all\nno pair\n";
        let description = Description::parse(text);
        assert_eq!(description.line().as_deref(), Some("A = b of type T: all"));
        assert_eq!(description.fields()["type"], "T");
        for text in ["", "squall topic 2\ntopic = A\n", "topic = A\n"] {
            assert_eq!(Description::parse(text).fields(), Value::Null, "{text}");
        }
    }
}
