//! Description of a logged topic in a file beside its log, for programs that examine logs.
//!
//! Owns: the text, the name of the file, and the reading of both. Never does: serve the use of a
//! log, which needs its topic's key alone. `docs/reference/log-format.md` describes the file.

use std::fmt::{Display, Write};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use derecho_core::log::StreamKey;
use idl_xtypes::{DynamicData, DynamicType};

use crate::mapping::endpoint::Endpoint;
use crate::mapping::layouts::MemoryLayouts;
use crate::mapping::record::{RecordContext, RecordEffect, is_notice, read_out};
use crate::mapping::set::records;
use crate::mapping::type_identity::read_description;
use crate::mapping::type_parts;
use crate::subscription::InstanceState;

/// First line of the file.
const HEAD: &str = "squall topic 1";
/// Name of the value that describes the topic's type, in hexadecimal digits.
const TYPE: &str = "type_description";
/// Maximum length of a description that is read, in bytes.
const LONGEST: u64 = 2 * type_parts::LONGEST as u64 + (1 << 20);

/// Writes the description of a topic, unless the file has it already. A failure is reported in the
/// messages of the library alone, because the log can be used without a description.
pub(super) fn write(folder: &Path, stream: StreamKey, text: &str) {
    let path = folder.join(format!("{stream}.topic"));
    if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return;
    }
    // An incomplete file has a name that is cleaned up.
    let new = folder.join(format!("{stream}.topic.new"));
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
    if let Err(error) = written {
        tracing::warn!("{}: the description of a topic cannot be written: {error}", path.display());
    }
}

/// Returns the description: a line for the topic, its type, its level, each policy, and the encoded
/// description of the type.
pub(super) fn text(endpoint: &Endpoint, described_type: Option<&[u8]>) -> String {
    let mut text = format!("{HEAD}\n");
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} = {}", value.escape_debug());
    };
    line("topic", &endpoint.topic);
    line("type", &endpoint.data_type.name);
    line("level", &endpoint.level.to_string());
    line("retention", &endpoint.retention.to_string());
    let [own, _] = endpoint.policies.both();
    for (policy, name) in own.kind().policies() {
        for (index, field) in policy.fields().iter().enumerate() {
            if let Some(value) = own.value(policy, index) {
                line(&format!("{name}.{}", field.name), &field.show(&value).to_string());
            }
        }
    }
    if let Some(bytes) = described_type {
        let hexadecimal = bytes.iter().map(|byte| format!("{byte:02x}"));
        line(TYPE, &hexadecimal.collect::<String>());
    }
    text
}

/// Description of a logged topic, from the file beside its log.
///
/// ```no_run
/// # use std::path::Path;
/// use dds_api::topic::LogDescription;
///
/// let folder = Path::new("/var/lib/squall/domain-0/0");
/// let description = LogDescription::read(folder, "00000000000000000000000000000102");
/// println!("{:?} has samples of {:?}", description.value("topic"), description.value("type"));
/// ```
#[derive(Default)]
pub struct LogDescription {
    fields: Vec<(String, String)>,
    of: Option<(DynamicType, MemoryLayouts)>,
}

/// A sample in a log.
///
/// ```
/// use dds_api::topic::LoggedSample;
///
/// fn show(sample: &LoggedSample) {
///     println!("{:?}: {}", sample.instance_state, sample.data.to_text());
/// }
/// ```
pub struct LoggedSample {
    /// State of the instance after the sample.
    pub instance_state: InstanceState,
    /// The sample. Only the key is valid if the instance is not alive.
    pub data: DynamicData,
}

impl LogDescription {
    /// Reads the description of the log of this stream; an empty one if there is none.
    pub fn read(folder: &Path, stream: impl Display) -> LogDescription {
        let path = folder.join(format!("{stream}.topic"));
        // A link, a device or a FIFO is no description, and may have no end.
        let is_file = path.symlink_metadata().is_ok_and(|data| data.is_file());
        let mut text = String::new();
        if is_file
            && let Ok(file) = File::open(path)
            && file.take(LONGEST).read_to_string(&mut text).is_err()
        {
            return LogDescription::default();
        }
        LogDescription::parse(&text)
    }

    fn parse(text: &str) -> LogDescription {
        let mut description = LogDescription::default();
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return description;
        }
        for (name, value) in lines.filter_map(|line| line.split_once(" = ")) {
            match name {
                TYPE => description.of = described_type(value),
                _ => description.fields.push((printable(name), printable(value))),
            }
        }
        description
    }

    /// Names and values in the order of the file: the topic, its type, its level, what its log
    /// retains, and its policies. Control characters are escaped.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the value of this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Type of the topic's samples; `None` if the file does not describe it.
    pub fn data_type(&self) -> Option<&DynamicType> {
        self.of.as_ref().map(|(of, _)| of)
    }

    /// Reads the samples in the payload of a record of the log: one, those of a coherent set, or
    /// none if the record only tells that a writer is gone. `None` if the type is not known, or the
    /// payload cannot be read as that type. A payload of another version of the type that can be
    /// read as this one is read as such.
    pub fn samples(&self, payload: &[u8]) -> Option<Vec<LoggedSample>> {
        let (of, layouts) = self.of.as_ref()?;
        let context = RecordContext::<DynamicData> { support: of, layouts };
        let sample = |record: &[u8]| {
            let (header, data) = read_out(record, &context)?;
            let instance_state = match header.effect() {
                RecordEffect::Alive => InstanceState::Alive,
                RecordEffect::Unregistered => InstanceState::NotAliveNoWriters,
                RecordEffect::Disposed | RecordEffect::DisposedAndUnregistered => {
                    InstanceState::NotAliveDisposed
                }
            };
            Some(LoggedSample { instance_state, data })
        };
        match records(payload) {
            Some(mut set) => set.try_fold(Vec::new(), |mut samples, record| {
                samples.push(sample(record.ok()?)?);
                Some(samples)
            }),
            None if is_notice(payload) => Some(Vec::new()),
            None => Some(vec![sample(payload)?]),
        }
    }
}

/// Reads a type, and the memory layout of its samples, from hexadecimal digits.
fn described_type(digits: &str) -> Option<(DynamicType, MemoryLayouts)> {
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    let (of, layout) = read_description(&bytes?).ok()?;
    let layouts = MemoryLayouts::default();
    layout.into_iter().for_each(|layout| layouts.learn(layout));
    Some((of, layouts))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::endpoint::EndpointKind;
    use crate::mapping::level::TopicLevel;

    #[test]
    fn description_names_topic_type_level_and_policies() {
        let of = Endpoint::with_defaults(EndpointKind::Writer, "a\nb", TopicLevel::Logged);
        let text = text(&of, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], [HEAD, "topic = a\\nb"]);
        assert_eq!(lines[2], format!("type = {}", of.data_type.name));
        assert_eq!(lines[3], "level = logged");
        assert!(lines.iter().any(|line| line.starts_with("durability.kind = ")), "{text}");
    }

    fn described(topic: &str) -> String {
        text(&Endpoint::with_defaults(EndpointKind::Writer, topic, TopicLevel::Logged), None)
    }

    #[test]
    fn control_characters_of_a_description_are_escaped() {
        let text = format!("{HEAD}\ntopic = a\u{1b}[31m\ntype = T\nretention = all\n");
        assert_eq!(LogDescription::parse(&text).value("topic"), Some("a\\u{1b}[31m"));
    }

    #[test]
    fn description_that_is_no_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let stream = StreamKey(7);
        let path = folder.path().join(format!("{stream}.topic"));
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(LogDescription::read(folder.path(), stream).fields().count(), 0);
        std::fs::remove_file(&path).unwrap();
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path.as_c_str(), fifo, mode, 0).unwrap();
        assert_eq!(LogDescription::read(folder.path(), stream).fields().count(), 0);
    }

    #[test]
    fn description_is_read_and_foreign_text_is_none() {
        let text = "squall topic 1\ntopic = A = b\ntype = T\nretention = all\nno pair\n";
        let description = LogDescription::parse(text);
        assert_eq!(description.value("topic"), Some("A = b"));
        assert_eq!(description.fields().count(), 3);
        for text in ["", "squall topic 2\ntopic = A\n", "topic = A\n"] {
            assert_eq!(LogDescription::parse(text).fields().count(), 0, "{text}");
        }
    }

    #[test]
    fn damaged_description_of_a_type_is_none() {
        for digits in ["", "0", "zz", "\u{e9}\u{e9}", "00010203"] {
            let text = format!("{HEAD}\ntopic = A\n{TYPE} = {digits}\n");
            let description = LogDescription::parse(&text);
            assert_eq!(description.value("topic"), Some("A"));
            assert!(description.data_type().is_none() && description.samples(&[0; 64]).is_none());
        }
    }

    #[test]
    fn file_is_written_once_and_replaced_when_topic_changes() {
        let folder = tempfile::tempdir().unwrap();
        let stream = StreamKey(0x4f);
        let path = folder.path().join(format!("{stream}.topic"));
        for topic in ["a", "a", "b"] {
            write(folder.path(), stream, &described(topic));
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(&format!("topic = {topic}\n")), "{text}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        // A folder that cannot be written is no error for the log.
        write(&folder.path().join("none"), stream, &described("a"));
    }
}
