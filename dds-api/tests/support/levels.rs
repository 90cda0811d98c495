//! The same at every level: topics, and what is read from them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::time::Instant;

use dds_api::prelude::*;
use dds_api::topic::TopicBuilder;
use dds_api::types::TopicData;

use crate::support::PATIENCE;

/// Unordered, atomic, and kept for those who come later.
pub(crate) const LEVELS: [&str; 3] = ["unordered", "atomic", "kept"];

/// A topic of one of these levels, or of one that is kept in logs.
pub(crate) fn at_level<T: TopicData>(topic: TopicBuilder<T>, level: &str) -> Topic<T> {
    match level {
        "unordered" => topic,
        "atomic" => topic.atomic(),
        "logged" => topic.persistent().keep_all(),
        _ => topic.transient_local().keep_all(),
    }
    .create()
    .unwrap()
}

/// What a reader has of its next samples, of at least so many; it could read them all.
pub(crate) fn take<T: TopicData, R>(
    reader: &DataReader<T>,
    count: usize,
    of: impl Fn(&T) -> R,
) -> Vec<R> {
    take_samples(reader, count, |sample| of(sample))
}

/// The same, with all that is known of them.
pub(crate) fn take_samples<T: TopicData, R>(
    reader: &DataReader<T>,
    count: usize,
    of: impl Fn(&Sample<T>) -> R,
) -> Vec<R> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} on {}", all.len(), reader.topic().name());
        all.extend(reader.take(.., Timeout::millis(50)).unwrap().map(|sample| of(&sample)));
    }
    assert_eq!(reader.unreadable_samples(), 0);
    all
}
