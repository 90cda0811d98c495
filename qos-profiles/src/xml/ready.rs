//! The ready-made profiles.
//!
//! Owns: the list of their files. The files describe the purpose of each profile.

/// File with the names of RTI Connext's profiles.
pub(super) const CONNEXT: &str = "ready-made/connext.xml";

/// Files of `qos-profiles/profiles`, with their names in errors.
pub(super) const FILES: [(&str, &str); 5] = [
    ("ready-made/levels.xml", include_str!("../../profiles/levels.xml")),
    ("ready-made/throughput.xml", include_str!("../../profiles/throughput.xml")),
    ("ready-made/latency.xml", include_str!("../../profiles/latency.xml")),
    (CONNEXT, include_str!("../../profiles/connext.xml")),
    ("ready-made/avionics.xml", include_str!("../../profiles/avionics.xml")),
];
