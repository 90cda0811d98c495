//! Damaged logs that this process has examined.
//!
//! Owns: the findings, while the files are unchanged, and for half a minute at most, because files
//! may have been restored during the examination. Never does: examine a log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use derecho_core::log::segment::FileHeader;
use derecho_core::log::{LogId, StreamKey};
use derecho_core::storage::log_damage::LogDamage;

/// Age at which a finding is no longer used.
const OLD: Duration = Duration::from_secs(30);

/// Files of a stream: names, lengths, and times of the last change.
type FileStates = Vec<(String, u64, Option<SystemTime>)>;

fn files(folder: &str, stream: StreamKey) -> Option<FileStates> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if FileHeader::parse_name(&name).is_some_and(|(of, ..)| of == stream) {
            let metadata = entry.metadata().ok()?;
            files.push((name, metadata.len(), metadata.modified().ok()));
        }
    }
    files.sort_unstable();
    Some(files)
}

/// Cache of findings, see the [module](self).
#[derive(Default)]
pub(super) struct DamageCache(BTreeMap<(StreamKey, LogId), (FileStates, Instant, LogDamage)>);

impl DamageCache {
    /// Returns the damage of a log, if it was found before and the files are unchanged.
    pub(super) fn find(&self, stream: StreamKey, log: LogId, folder: &str) -> Option<LogDamage> {
        let (known, found, damage) = self.0.get(&(stream, log))?;
        if found.elapsed() >= OLD {
            return None;
        }
        (files(folder, stream).as_ref() == Some(known)).then(|| damage.clone())
    }

    /// Whether damage was found before, which may be gone now.
    pub(super) fn is_known(&self, stream: StreamKey, log: LogId) -> bool {
        self.0.contains_key(&(stream, log))
    }

    /// Records the damage of a log, or that there is none.
    pub(super) fn set(
        &mut self,
        stream: StreamKey,
        log: LogId,
        folder: &str,
        damage: Option<LogDamage>,
    ) {
        let of = (stream, log);
        match damage.zip(files(folder, stream)) {
            Some((damage, files)) => {
                let found = self.0.get(&of).filter(|(.., known)| *known == damage);
                let found = found.filter(|(_, found, _)| found.elapsed() < OLD);
                let found = found.map_or_else(Instant::now, |(_, found, _)| *found);
                self.0.insert(of, (files, found, damage));
            }
            None => drop(self.0.remove(&of)),
        }
    }
}
