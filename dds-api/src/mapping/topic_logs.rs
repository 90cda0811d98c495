//! Topics that this participant logs, and the folder of their logs.
//!
//! Owns: the participant's log folder, and the rule that selects the topics logged here. Never
//! does: write into a log.

pub(crate) mod description;

use std::path::Path;
use std::sync::Arc;

use derecho_core::group::view_log::{DurabilityGate, GatedLogPort};
use derecho_core::storage::log_port::LogPort;
use derecho_core::storage::log_tasks::TopicLogRetention;
use derecho_node::logs::{FullDiskPolicy, ProcessLogs};
use qos_profiles::Glob;

use super::discovery::stream_of;
use super::endpoint::Endpoint;
use super::kept_replay::RECORD_FORMAT;
use super::past::LogLocation;

/// See the [module](self).
pub(crate) struct TopicLogs {
    process_logs: ProcessLogs,
    /// Name patterns of topics that are logged here even if they are not used here.
    chosen: Vec<Glob>,
    wake: Arc<dyn Fn() + Send + Sync>,
    /// Gate that counts samples as durable only once the views are durable.
    gate: Arc<DurabilityGate>,
}

impl TopicLogs {
    pub(crate) fn new(
        process_logs: ProcessLogs,
        chosen: Vec<Glob>,
        gate: Arc<DurabilityGate>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> TopicLogs {
        TopicLogs { process_logs, chosen, wake, gate }
    }

    /// Whether a topic is logged here even if it is not used here: it is chosen, or an earlier log
    /// of it exists here.
    pub(super) fn wants(&self, endpoint: &Endpoint) -> bool {
        let chosen = self.chosen.iter().any(|pattern| pattern.matches(&endpoint.topic));
        chosen || self.process_logs.knows(stream_of(endpoint.key()))
    }

    /// The participant's log folder.
    pub(super) fn folder(&self) -> &Path {
        self.process_logs.folder()
    }

    /// Folder and stream of a topic's log.
    pub(super) fn location_of(&self, key: u64) -> LogLocation {
        LogLocation { folder: self.process_logs.folder().to_owned(), stream: stream_of(key) }
    }

    /// The log of a topic whose type has this encoded description.
    pub(super) fn log_port(
        &self,
        endpoint: &Endpoint,
        described_type: Option<&[u8]>,
    ) -> Box<dyn LogPort> {
        let on_full =
            if endpoint.retention.detach { FullDiskPolicy::Detach } else { FullDiskPolicy::Wait };
        let wake = Arc::clone(&self.wake);
        let keep = endpoint.retention.log_retention().map(|past| TopicLogRetention {
            past,
            state: endpoint.retention.retention(),
            format: RECORD_FORMAT,
        });
        let stream = stream_of(endpoint.key());
        let journal = self.process_logs.stream_log_port(stream, on_full, keep, move || wake());
        let folder = self.process_logs.folder().to_owned();
        let text = description::text(endpoint, described_type);
        if !journal.run(move || description::write(&folder, stream, &text)) {
            tracing::warn!("{stream}.topic: the log thread has no room to write it");
        }
        Box::new(GatedLogPort::new(Box::new(journal), Arc::clone(&self.gate)))
    }
}
