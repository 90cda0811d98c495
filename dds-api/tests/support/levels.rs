//! Common parts of tests at every level: topics, and reading from them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::time::Instant;

use dds_api::prelude::*;
use dds_api::topic::TopicBuilder;
use dds_api::types::TopicData;

use crate::support::PATIENCE;

/// Unordered, atomic, and kept for late joiners.
pub(crate) const LEVELS: [&str; 3] = ["unordered", "atomic", "kept"];

/// Creates a topic of one of these levels, or of the level that is kept in logs.
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

/// Takes at least the given number of next samples and converts their data; all must be readable.
pub(crate) fn take<T: TopicData, R>(
    reader: &DataReader<T>,
    count: usize,
    of: impl Fn(&T) -> R,
) -> Vec<R> {
    collect(reader, count, |sample| sample.data().map(&of))
}

/// Takes at least the given number of next samples, with data and without, and converts them with
/// their sample information.
pub(crate) fn take_samples<T: TopicData, R>(
    reader: &DataReader<T>,
    count: usize,
    of: impl Fn(&Sample<T>) -> R,
) -> Vec<R> {
    collect(reader, count, |sample| Some(of(sample)))
}

fn collect<T: TopicData, R>(
    reader: &DataReader<T>,
    count: usize,
    of: impl Fn(&Sample<T>) -> Option<R>,
) -> Vec<R> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} on {}", all.len(), reader.topic().name());
        let taken = reader.take(.., Timeout::millis(50)).unwrap();
        all.extend(taken.filter_map(|sample| of(&sample)));
    }
    assert_eq!(reader.unreadable_samples(), 0);
    all
}
