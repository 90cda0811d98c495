//! Description of a logged topic in a file beside its log, for programs that examine logs.
//!
//! Owns: the text, the name of the file, and the reading of both. Never does: serve the use of a
//! log, which needs its topic's key alone. `docs/reference/log-format.md` describes the file.

use std::fmt::{Display, Write};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use derecho_core::log::StreamKey;
use derecho_core::storage::store::KeyLiveness;
use idl_xtypes::{DynamicData, DynamicType};

use crate::mapping::endpoint::Endpoint;
use crate::mapping::layouts::MemoryLayouts;
use crate::mapping::record::{
    RecordContext, RecordEffect, RecordHeader, is_notice, key_liveness, read_out, unregister_key,
};
use crate::mapping::set::records;
use crate::mapping::type_identity::{TypeIdentity, read_description};
use crate::mapping::type_parts;
use crate::subscription::InstanceState;

/// First line of the file.
const HEAD: &str = "squall topic 1";
/// Name of the value that describes the topic's type, in hexadecimal digits.
const TYPE: &str = "type_description";
/// Name of a value that describes an earlier version of the type, whose samples the log may have.
const EARLIER: &str = "earlier_type_description";
/// Maximum number of earlier versions in a description; the latest ones are kept.
const MOST_EARLIER: usize = 8;
/// Maximum length of the descriptions of earlier versions in bytes.
const LONGEST_EARLIER: usize = 1 << 20;
/// Maximum length of a description that is read, in bytes.
const LONGEST: u64 = 2 * type_parts::LONGEST as u64 + LONGEST_EARLIER as u64 + (1 << 20);
/// Number of parts, such as elements of arrays, that samples of a described type may have beyond
/// the bytes of their record. Memory for all parts is needed to read a sample.
const MOST_PARTS: u64 = 1 << 16;

/// Writes the description of a topic, unless the file has it already. The types of the old
/// description are kept as earlier ones. A failure is reported in the messages of the library
/// alone, because the log can be used without a description.
pub(super) fn write(folder: &Path, stream: StreamKey, text: &str) {
    let path = folder.join(format!("{stream}.topic"));
    let old = text_of(&path).unwrap_or_default();
    let text = text.to_owned() + &earlier_types(&old, text);
    if old == text {
        return;
    }
    // An incomplete file has a name that is cleaned up.
    let new = folder.join(format!("{stream}.topic.new"));
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
    if let Err(error) = written {
        tracing::warn!("{}: the description of a topic cannot be written: {error}", path.display());
    }
}

/// Returns the lines of a new description for the types of an old one.
fn earlier_types(old: &str, new: &str) -> String {
    let types = |text: &'_ str| -> Vec<String> {
        let values = text.lines().filter_map(|line| line.split_once(" = "));
        let types = values.filter(|(name, _)| [TYPE, EARLIER].contains(name));
        types.map(|(_, digits)| digits.to_owned()).collect()
    };
    let current = types(new);
    let mut lines = String::new();
    let earlier = types(old).into_iter().filter(|digits| !current.contains(digits));
    for digits in earlier.take(MOST_EARLIER) {
        if lines.len() + digits.len() > LONGEST_EARLIER {
            break;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{EARLIER} = {digits}");
    }
    lines
}

/// Returns the text of a description; `None` if there is no such file.
fn text_of(path: &Path) -> Option<String> {
    // A link, a device or a FIFO is no description, and may have no end.
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
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
    of: Option<DescribedType>,
    earlier: Vec<DescribedType>,
}

/// A version of the topic's type.
struct DescribedType {
    of: DynamicType,
    key: DynamicType,
    layouts: MemoryLayouts,
    identity: TypeIdentity,
    /// Number of parts of an empty sample.
    parts: u64,
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
    /// The sample; only its key if the instance is not alive.
    pub data: DynamicData,
}

impl LogDescription {
    /// Reads the description of the log of this stream; an empty one if there is none.
    pub fn read(folder: &Path, stream: impl Display) -> LogDescription {
        let text = text_of(&folder.join(format!("{stream}.topic")));
        LogDescription::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> LogDescription {
        let mut description = LogDescription::default();
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return description;
        }
        for (name, value) in lines.filter_map(|line| line.split_once(" = ")) {
            match name {
                TYPE => description.of = DescribedType::read(value),
                EARLIER if description.earlier.len() < MOST_EARLIER => {
                    description.earlier.extend(DescribedType::read(value));
                }
                EARLIER => {}
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
        self.of.as_ref().map(|described| &described.of)
    }

    /// Reads the samples in the payload of a record of the log: one, those of a coherent set, or
    /// none if the record only tells that a writer is gone or has stopped to send. `None` if the
    /// payload cannot be read by the type with which it was written, because the file does not
    /// describe that version of the type: see [`why_unreadable`](Self::why_unreadable).
    pub fn samples(&self, payload: &[u8]) -> Option<Vec<LoggedSample>> {
        self.read_samples(payload).ok()
    }

    /// Returns the reason why [`samples`](Self::samples) cannot read a payload; `None` if it can.
    pub fn why_unreadable(&self, payload: &[u8]) -> Option<&'static str> {
        self.read_samples(payload).err()
    }

    /// Returns the key hash of the instance that a record is about. A record that unregisters an
    /// instance has a key of its own in the log, because it does not replace the last sample.
    pub fn instance_key(&self, key: [u8; 16], payload: &[u8]) -> [u8; 16] {
        let key = u128::from_le_bytes(key);
        let instance = match key_liveness(payload) {
            KeyLiveness::Companion => unregister_key(key),
            _ => key,
        };
        instance.to_le_bytes()
    }

    fn read_samples(&self, payload: &[u8]) -> Result<Vec<LoggedSample>, &'static str> {
        if self.of.is_none() {
            return Err("the type is not described");
        }
        match records(payload) {
            Some(set) => {
                let damaged = "the coherent set is damaged";
                set.map(|record| self.sample(record.map_err(|_| damaged)?)).collect()
            }
            None if is_notice(payload) => Ok(Vec::new()),
            None => Ok(vec![self.sample(payload)?]),
        }
    }

    /// Returns the version of the type with which records of this mark were written.
    fn version_of(&self, mark: u32) -> Result<&DescribedType, &'static str> {
        let known = self.of.iter().chain(&self.earlier);
        let mut known = known.filter(|described| described.may_have(mark));
        let found = known
            .next()
            .ok_or("it was written with a version of the type that is not described")?;
        // Only versions of a type that may change are told apart by their marks.
        match known.any(|other| other.identity.digest != found.identity.digest) {
            true => Err("several versions of the type are described, and its record names none"),
            false => Ok(found),
        }
    }

    /// Reads one sample, by the version of the type that its record was marked with.
    fn sample(&self, record: &[u8]) -> Result<LoggedSample, &'static str> {
        let header = RecordHeader::read(record).ok_or("the record has no header of a sample")?;
        let described = self.version_of(header.mark())?;
        let instance_state = match header.effect() {
            RecordEffect::Alive => InstanceState::Alive,
            RecordEffect::Unregistered => InstanceState::NotAliveNoWriters,
            RecordEffect::Disposed | RecordEffect::DisposedAndUnregistered => {
                InstanceState::NotAliveDisposed
            }
        };
        let (support, parts) = match instance_state {
            InstanceState::Alive => (&described.of, described.parts),
            _ => (&described.key, described.key.parts()),
        };
        if parts > MOST_PARTS + record.len() as u64 {
            return Err("the described type has more parts than the record has bytes");
        }
        let context = RecordContext::<DynamicData> { support, layouts: &described.layouts };
        let read = read_out(record, &context);
        let (_, data) = read.ok_or("its bytes are no value of the described type")?;
        Ok(LoggedSample { instance_state, data })
    }
}

impl DescribedType {
    /// Reads a type, and the memory layout of its samples, from hexadecimal digits.
    fn read(digits: &str) -> Option<DescribedType> {
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        let (of, layout, identity) = read_description(&bytes?).ok()?;
        let layouts = MemoryLayouts::default();
        layout.into_iter().for_each(|layout| layouts.learn(layout));
        let (key, parts) = (of.key_type(), of.parts());
        Some(DescribedType { of, key, layouts, identity, parts })
    }

    /// Whether a record of this mark may have a sample of this version. Records in CDR of a type
    /// that does not change have no mark.
    fn may_have(&self, mark: u32) -> bool {
        mark == self.identity.mark() || mark == 0 && !self.identity.evolves
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::endpoint::EndpointKind;
    use crate::mapping::level::TopicLevel;
    use crate::mapping::record::HEADER;
    use crate::mapping::type_identity::AnnouncedTypes;

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

    /// Returns the line that describes a type in IDL, and the type.
    fn line_of(idl: &str, name: &str) -> (String, DynamicType) {
        let of = DynamicType::from_idl(&idl::parse("t.idl", idl).unwrap(), name).unwrap();
        let identity = TypeIdentity::of::<DynamicData>(&of);
        let bytes = AnnouncedTypes::default().encoded(&identity).unwrap();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        (format!("{TYPE} = {digits}\n"), of)
    }

    fn record(effect: RecordEffect, payload: &[u8]) -> Vec<u8> {
        let mut record = vec![0; HEADER];
        RecordHeader::of_discovery(0, effect).write(&mut record);
        record.extend_from_slice(payload);
        record
    }

    #[test]
    fn description_of_a_type_larger_than_its_records_takes_no_memory() {
        let idl = "@appendable struct Part { octet big[8000000]; };
            struct Lie { @key long id; Part part; };";
        let (line, of) = line_of(idl, "Lie");
        let description = LogDescription::parse(&format!("{HEAD}\n{line}"));
        // An empty part has its default, which the reader would make.
        let alive = record(RecordEffect::Alive, &[0, 7, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert!(description.samples(&alive).is_none());
        let reason = "the described type has more parts than the record has bytes";
        assert_eq!(description.why_unreadable(&alive), Some(reason));
        // The key alone is small.
        let ended = record(RecordEffect::Disposed, &[0, 7, 0, 0, 4, 0, 0, 0]);
        let samples = description.samples(&ended).unwrap();
        assert_eq!(samples[0].data.to_json_line(), "{\"id\": 4}");
        assert_eq!(samples[0].instance_state, InstanceState::NotAliveDisposed);
        // A record of that size is read.
        let whole = DynamicData::new(&of).to_cdr(idl_cdr::Encoding::default()).unwrap();
        assert!(description.samples(&record(RecordEffect::Alive, &whole)).is_some());
    }

    #[test]
    fn earlier_types_are_kept_and_samples_without_a_mark_are_not_guessed() {
        let folder = tempfile::tempdir().unwrap();
        let stream = StreamKey(7);
        let types: Vec<(String, DynamicType)> = (0..12)
            .map(|n| line_of(&format!("struct T {{ long a; string<{}> b; }};", n + 1), "T"))
            .collect();
        let description = |types: &[(String, DynamicType)]| {
            for (line, _) in types {
                write(folder.path(), stream, &format!("{HEAD}\ntopic = A\n{line}"));
            }
            LogDescription::read(folder.path(), stream)
        };
        let payload = DynamicData::new(&types[0].1).to_cdr(idl_cdr::Encoding::default()).unwrap();
        let record = record(RecordEffect::Alive, &payload);
        let one = description(&types[..1]);
        assert_eq!(one.samples(&record).unwrap()[0].data.to_json_line(), "{\"a\": 0,\"b\": \"\"}");
        let two = description(&types[..2]);
        assert_eq!(two.earlier.len(), 1);
        let reason = "several versions of the type are described, and its record names none";
        assert_eq!(two.why_unreadable(&record), Some(reason));
        let again = description(&types[..1]);
        assert_eq!(again.earlier.len(), 1, "both are described once");
        assert_eq!(description(&types).earlier.len(), MOST_EARLIER);
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
