//! The ready-made profiles.
//!
//! Owns: which files of them there are. What each is for stands in the files.

/// The files of `qos-profiles/profiles`, by the names that they have in errors.
pub(super) const FILES: [(&str, &str); 4] = [
    ("ready-made/levels.xml", include_str!("../../profiles/levels.xml")),
    ("ready-made/throughput.xml", include_str!("../../profiles/throughput.xml")),
    ("ready-made/latency.xml", include_str!("../../profiles/latency.xml")),
    ("ready-made/avionics.xml", include_str!("../../profiles/avionics.xml")),
];
