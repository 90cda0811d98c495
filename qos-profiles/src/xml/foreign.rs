//! Configuration files of other products that contain no QoS policies.
//!
//! Owns: the signs by which they are recognised, and what is said about each. Never does: read one.

use super::error::UnplacedError;

/// Number of bytes at the beginning of a file that are looked at.
const LOOKED_AT: usize = 64 << 10;

const CYCLONE: &str = "found the configuration of Cyclone DDS (`CYCLONEDDS_URI`), which has settings \
    of its network, discovery and threads, and no QoS policies";
const CYCLONE_ADVICE: &str = "expected a file of QoS profiles; participants of one host need no \
    such settings here: what can be set is in `ParticipantConfig`, `SQUALL_*` variables and `squall.*` \
    properties of a participant, and the domain is the argument of `DomainParticipant::new`";
const OPENDDS: &str = "found an ini file of OpenDDS (`-DCPSConfigFile`), which has settings of its \
    transports, discovery and repositories";
const OPENDDS_ADVICE: &str = "expected a file of QoS profiles in XML; participants of one host need \
    no transports and no repository here: what can be set is in `ParticipantConfig`, `SQUALL_*` \
    variables and `squall.*` properties of a participant, topics and QoS of its `[topic]`, \
    `[datawriterqos]` and similar sections belong into `domain_library` and `qos_library`";

/// Returns the error for a file of another product; `None` for any other file.
pub(super) fn recognised(bytes: &[u8]) -> Option<UnplacedError> {
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    let text = String::from_utf8_lossy(start);
    let text = text.trim_start_matches('\u{feff}');
    if is_cyclone(text) {
        return Some(UnplacedError::new(CYCLONE, CYCLONE_ADVICE));
    }
    is_opendds(text).then(|| UnplacedError::new(OPENDDS, OPENDDS_ADVICE))
}

/// Whether a text is XML whose root is `CycloneDDS`, or `Domain` as in a fragment of it.
fn is_cyclone(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(after) = rest.strip_prefix("<?").or(rest.strip_prefix("<!--")) {
        let end = if rest.starts_with("<?") { "?>" } else { "-->" };
        let Some((_, after)) = after.split_once(end) else { return false };
        rest = after.trim_start();
    }
    let Some(rest) = rest.strip_prefix('<') else { return false };
    let name = rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    matches!(name, "CycloneDDS" | "Domain")
}

/// Whether a text is an ini file with a section that OpenDDS has.
fn is_opendds(text: &str) -> bool {
    const SECTIONS: [&str; 17] = [
        "common",
        "config",
        "connection",
        "datareader",
        "datareaderqos",
        "datawriter",
        "datawriterqos",
        "domain",
        "endpoint",
        "publisherqos",
        "repository",
        "rtps_discovery",
        "rtps_relay",
        "static_discovery",
        "subscriberqos",
        "topic",
        "transport",
    ];
    let first =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let section = first.and_then(|line| line.strip_prefix('[')?.split_once(']'));
    let name = section.map(|(name, _)| name.split('/').next().unwrap_or_default().trim());
    name.is_some_and(|name| SECTIONS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_other_products_are_recognised() {
        for text in [
            "<CycloneDDS><Domain/></CycloneDDS>",
            "\u{feff}<?xml version='1.0'?>\n<!-- <dds/> -->\n<CycloneDDS xmlns='https://cdds.io/config'>",
            "<Domain id='any'><General/></Domain>",
        ] {
            let found = recognised(text.as_bytes()).map(|error| error.found);
            assert_eq!(found.as_deref(), Some(CYCLONE), "{text}");
        }
        for text in [
            "[common]\nDCPSGlobalTransportConfig=c\n",
            "# a comment\n\n ; another\n[transport/t1]\ntransport_type=shmem",
            "[rtps_discovery/a]",
        ] {
            let found = recognised(text.as_bytes()).map(|error| error.found);
            assert_eq!(found.as_deref(), Some(OPENDDS), "{text}");
        }
        for text in [
            "",
            "<dds/>",
            "<!-- [common] -->",
            "[other]",
            "common",
            "[",
            "<Domains/>",
            "<!--",
            "\u{0}",
        ] {
            assert_eq!(recognised(text.as_bytes()), None, "{text}");
        }
    }
}
