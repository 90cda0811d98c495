//! Description of a logged topic in a file beside its log, for programs that examine logs.
//!
//! Owns: the text and the name of the file. Never does: read it; a log is used by its topic's key.
//! `docs/reference/log-format.md` describes the file.

use std::fmt::Write;
use std::path::Path;

use derecho_core::log::StreamKey;

use crate::mapping::endpoint::Endpoint;

/// First line of the file.
const HEAD: &str = "squall topic 1";

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

/// Returns the description: a line for the topic, its type, its level, and each policy.
pub(super) fn text(endpoint: &Endpoint) -> String {
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::endpoint::EndpointKind;
    use crate::mapping::level::TopicLevel;

    #[test]
    fn description_names_topic_type_level_and_policies() {
        let of = Endpoint::with_defaults(EndpointKind::Writer, "a\nb", TopicLevel::Logged);
        let text = text(&of);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], [HEAD, "topic = a\\nb"]);
        assert_eq!(lines[2], format!("type = {}", of.data_type.name));
        assert_eq!(lines[3], "level = logged");
        assert!(lines.iter().any(|line| line.starts_with("durability.kind = ")), "{text}");
    }

    fn described(topic: &str) -> String {
        text(&Endpoint::with_defaults(EndpointKind::Writer, topic, TopicLevel::Logged))
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
