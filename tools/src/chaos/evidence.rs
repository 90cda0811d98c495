//! Evidence of a cycle: the journals and histories of its members, and the times of all actions.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use super::Settings;
use super::journal::{JournalOwner, JournalReader, JournalRecord, open_new};
use super::process::MemberHistory;
use super::sample::{ChaosLevel, SampleId};
use super::schedule::{MemberCommand, ScheduleStep};

pub(crate) struct Evidence {
    folder: PathBuf,
    journals: Vec<JournalReader>,
    pub(crate) records: BTreeMap<JournalOwner, Vec<JournalRecord>>,
    pub(crate) histories: BTreeMap<u32, MemberHistory>,
    /// Actions at their times, from which recovery is measured.
    pub(crate) actions: Vec<(u64, &'static str)>,
    /// Times at which a process was stopped. The others may wait for the process for up to the
    /// member timeout.
    pub(crate) stops: Vec<u64>,
    /// Slot of the anchor, which is spared.
    pub(crate) anchor: usize,
    /// Process in that slot.
    pub(crate) anchor_process: Option<u32>,
    /// Processes that were healthy at the end.
    pub(crate) survivors: BTreeSet<u32>,
    pub(crate) violations: Vec<String>,
    /// Bound of recovery, in nanoseconds.
    pub(crate) limit: u64,
    /// Member timeout, in nanoseconds.
    pub(crate) member_timeout: u64,
    processes: u32,
}

impl Evidence {
    pub(crate) fn new(folder: PathBuf, settings: &Settings, anchor: usize) -> Evidence {
        Evidence {
            folder,
            journals: Vec::new(),
            records: BTreeMap::new(),
            histories: BTreeMap::new(),
            actions: Vec::new(),
            stops: Vec::new(),
            anchor,
            anchor_process: None,
            survivors: BTreeSet::new(),
            violations: Vec::new(),
            limit: settings.limit.as_nanos() as u64,
            member_timeout: settings.member_timeout.as_nanos() as u64,
            processes: 0,
        }
    }

    /// Records a step that was applied.
    pub(crate) fn applied(&mut self, time: u64, step: &ScheduleStep) {
        if let Some(action) = step.action {
            self.actions.push((time, action.name()));
        }
        match step.command {
            MemberCommand::Stop | MemberCommand::Freeze => self.stops.push(time),
            MemberCommand::Start { .. } => {
                if step.slot == self.anchor {
                    self.anchor_process.get_or_insert(self.processes);
                }
                self.processes += 1;
            }
            _ => {}
        }
    }

    /// Reads the records written since the last call.
    pub(crate) fn collect(&mut self) -> io::Result<()> {
        open_new(&self.folder, &mut self.journals)?;
        for journal in &mut self.journals {
            let more = journal.more()?;
            self.records.entry(journal.owner).or_default().extend(more);
        }
        Ok(())
    }

    /// Returns all readers of a level with their records.
    pub(crate) fn readers(&self, of: ChaosLevel) -> impl Iterator<Item = RecordedReader<'_>> {
        self.records.iter().filter_map(move |(owner, records)| match *owner {
            JournalOwner::Reader { level, process, ordinal } if level == of => {
                Some(RecordedReader { level, process, ordinal, records })
            }
            _ => None,
        })
    }

    /// Returns the processes whose writers have served a reader, by the name of its journal. The
    /// samples of one that is served now are among the last.
    pub(crate) fn writers_of(&self, reader: &str) -> BTreeSet<u32> {
        let records =
            JournalOwner::from_file_name(reader).and_then(|owner| self.records.get(&owner));
        let records = records.map_or(&[][..], Vec::as_slice);
        let writer = |record: &JournalRecord| match record {
            JournalRecord::Delivered { id, .. } => Some(id.process()),
            _ => None,
        };
        records.iter().rev().take(65_536).filter_map(writer).collect()
    }

    /// Returns the closing samples that the readers of a process have.
    pub(crate) fn closings_seen(&self, level: ChaosLevel, process: u32) -> BTreeSet<SampleId> {
        let readers = self.readers(level).filter(|reader| reader.process == process);
        let closing = |record: &JournalRecord| match record {
            JournalRecord::Closing { id, .. } => Some(*id),
            _ => None,
        };
        // Closing samples are among the last: a few of each writer.
        readers
            .flat_map(|reader| reader.records.iter().rev().take(4096).filter_map(closing))
            .collect()
    }

    /// Returns the longest time within an interval in which some process got no processor, apart
    /// from stops.
    pub(crate) fn starved(&self, from: u64, to: u64) -> u64 {
        let mut longest = 0;
        for (owner, records) in &self.records {
            let JournalOwner::Member { process } = *owner else { continue };
            let stops = self.histories.get(&process).map_or(&[][..], |history| &history.stops);
            let within = |record: &JournalRecord| {
                let JournalRecord::Starved { from: begin, to: end } = *record else { return 0 };
                let was_stopped = |(stop, cont): &(u64, Option<u64>)| {
                    *stop <= end && cont.is_none_or(|cont| cont >= begin)
                };
                match stops.iter().any(was_stopped) {
                    true => 0,
                    false => end.min(to).saturating_sub(begin.max(from)),
                }
            };
            longest = longest.max(records.iter().map(within).sum());
        }
        longest
    }

    /// Returns the time at which a process resumed after the last stop that overlaps an interval.
    pub(crate) fn runs_since(&self, process: u32, from: u64, to: u64) -> u64 {
        let stops = self.histories.get(&process).map_or(&[][..], |history| &history.stops);
        let ends = stops.iter().filter(|(begin, _)| *begin <= to).map(|(_, end)| end.unwrap_or(to));
        ends.filter(|end| *end >= from).max().map_or(from, |end| end.min(to))
    }

    /// Returns the last stop of any process within an interval.
    pub(crate) fn last_stop(&self, from: u64, to: u64) -> u64 {
        let within = self.stops.iter().filter(|time| (from..=to).contains(time));
        within.max().copied().unwrap_or(from)
    }
}

/// A reader and its journal.
#[derive(Clone, Copy)]
pub(crate) struct RecordedReader<'a> {
    pub(crate) level: ChaosLevel,
    pub(crate) process: u32,
    pub(crate) ordinal: u32,
    pub(crate) records: &'a [JournalRecord],
}

/// A sample that a reader has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delivery {
    pub(crate) id: SampleId,
    pub(crate) written: u64,
    pub(crate) delivered: u64,
}

impl<'a> RecordedReader<'a> {
    /// Returns the deliveries in order.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = Delivery> + use<'a> {
        self.records.iter().filter_map(|record| match *record {
            JournalRecord::Delivered { id, written, delivered }
            | JournalRecord::Closing { id, written, delivered } => {
                Some(Delivery { id, written, delivered })
            }
            _ => None,
        })
    }

    pub(crate) fn began(&self) -> u64 {
        let begin = self.records.iter().find_map(|record| match record {
            JournalRecord::Began { time } => Some(*time),
            _ => None,
        });
        begin.unwrap_or(0)
    }

    /// Whether the reader was not deleted.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.records.last(), Some(JournalRecord::Deleted { .. }))
    }

    pub(crate) fn name(&self) -> String {
        format!("reader {} of the {} topic in process {}", self.ordinal, self.level, self.process)
    }
}
