//! The simulated disk: keeps synced data, and of the rest loses what hurts most.
//!
//! Owns: the content of the disk and of the system's cache, and every freedom that the port
//! leaves. Unsynced sectors survive or not, one by one; so do unsynced names; a failed sync drops
//! the data that it should have kept. Never does: tear a sector, or lose synced data; a bit flips
//! only on request.

use std::collections::BTreeMap;

use derecho_core::log::disk::{Disk, DiskError, SECTOR};

use crate::random::Random;

const BYTES: usize = SECTOR as usize;

/// Content of a file, independent of its name.
#[derive(Clone, Default)]
struct FileContents {
    /// Content that reads return.
    cached: Vec<u8>,
    /// Content that certainly survives a loss of power.
    kept: Vec<u8>,
    /// Contents of each sector since the last sync, and lengths of the file.
    dirty: BTreeMap<usize, Vec<[u8; BYTES]>>,
    lengths: Vec<usize>,
}

impl FileContents {
    fn sector(&self, number: usize) -> [u8; BYTES] {
        sector_of(&self.cached, number)
    }

    fn soil(&mut self, from: usize, to: usize) {
        for number in from / BYTES..to.div_ceil(BYTES) {
            let now = self.sector(number);
            self.dirty.entry(number).or_default().push(now);
        }
        self.lengths.push(self.cached.len());
    }

    /// Makes the writes since the last sync durable; data dropped by that sync stays lost.
    fn keep(&mut self) {
        self.kept.resize(self.cached.len(), 0);
        for number in std::mem::take(&mut self.dirty).into_keys() {
            let (from, to) = (number * BYTES, self.cached.len().min((number + 1) * BYTES));
            if from < to {
                self.kept[from..to].copy_from_slice(&self.cached[from..to]);
            }
        }
        self.lengths.clear();
    }

    /// Sets the content after a loss of power: each unsynced sector gets one of its
    /// earlier contents.
    fn lose_power(&mut self, random: &mut Random) {
        let lengths = std::mem::take(&mut self.lengths);
        let length = match random.below(lengths.len() as u64 + 1) as usize {
            0 => self.kept.len(),
            at => lengths[at - 1],
        };
        // Keep all, nothing, or any of them.
        let mood = random.below(4);
        let mut left = std::mem::take(&mut self.kept);
        left.resize(length, 0);
        for (number, states) in std::mem::take(&mut self.dirty) {
            let some = match mood {
                0 => Some(states.len() - 1),
                1 => None,
                _ => random.below(states.len() as u64 + 1).checked_sub(1).map(|at| at as usize),
            };
            let Some(some) = some else { continue };
            let from = number * BYTES;
            if from < left.len() {
                let to = left.len().min(from + BYTES);
                left[from..to].copy_from_slice(&states[some][..to - from]);
            }
        }
        self.cached.clone_from(&left);
        self.kept = left;
    }
}

fn sector_of(bytes: &[u8], number: usize) -> [u8; BYTES] {
    let mut sector = [0; BYTES];
    let from = (number * BYTES).min(bytes.len());
    let to = (from + BYTES).min(bytes.len());
    sector[..to - from].copy_from_slice(&bytes[from..to]);
    sector
}

/// Change of the set of file names.
#[derive(Clone)]
struct FileNameChange {
    gone: Option<String>,
    there: Option<(String, usize)>,
}

/// Faults of the disk, and their times.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFaults {
    /// Step at which the process ends, counted from the call of [`SimDisk::plan`]; that step is
    /// done partly or not at all.
    pub crash_at: Option<u64>,
    /// One in this many syncs fails. None if zero.
    pub failing_syncs: u64,
    /// Bytes for which the disk has room.
    pub room: Option<u64>,
    /// Frequency of misdirected sectors: one in this many syncs puts a sector in another one's
    /// place. None if zero.
    pub misdirected: u64,
}

/// Folder on a simulated disk.
pub struct SimDisk {
    random: Random,
    contents: Vec<FileContents>,
    names: BTreeMap<String, usize>,
    kept_names: BTreeMap<String, usize>,
    renamed: Vec<FileNameChange>,
    /// Planned faults.
    pub faults: DiskFaults,
    steps: u64,
    crashed: bool,
    misdirected: Option<String>,
    /// Offset from which each of these files cannot be read.
    unreadable: BTreeMap<String, u64>,
}

impl SimDisk {
    /// Creates an empty folder. The seed determines which data is lost.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk {
            random: Random::new(seed),
            contents: Vec::new(),
            names: BTreeMap::new(),
            kept_names: BTreeMap::new(),
            renamed: Vec::new(),
            faults: DiskFaults::default(),
            steps: 0,
            crashed: false,
            misdirected: None,
            unreadable: BTreeMap::new(),
        }
    }

    /// Damages the medium below a file from this byte on: reads there fail.
    pub fn lose_medium(&mut self, name: &str, from: u64) {
        self.unreadable.insert(name.to_owned(), from);
    }

    /// Whether the process has ended at its planned step.
    pub fn has_crashed(&self) -> bool {
        self.crashed
    }

    /// Plans the faults from now on.
    pub fn plan(&mut self, mishaps: DiskFaults) {
        self.faults = mishaps;
        self.steps = 0;
        self.crashed = false;
    }

    /// Kills the process: its writes stay in the system's cache.
    pub fn kill(&mut self) {
        self.plan(DiskFaults::default());
    }

    /// Loses power: unsynced data survives or not.
    pub fn lose_power(&mut self) {
        self.plan(DiskFaults::default());
        let renamed = std::mem::take(&mut self.renamed);
        // A journalling file system keeps a prefix of the changes; without a journal any of them
        // may survive.
        let prefix = (self.random.one_in(2)).then(|| self.random.below(renamed.len() as u64 + 1));
        for (at, change) in renamed.into_iter().enumerate() {
            let happens = match prefix {
                Some(prefix) => (at as u64) < prefix,
                None => self.random.one_in(2),
            };
            if happens {
                change.apply(&mut self.kept_names);
            }
        }
        self.names.clone_from(&self.kept_names);
        for contents in &mut self.contents {
            contents.lose_power(&mut self.random);
        }
    }

    /// Returns all names, in order.
    pub fn files(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// Returns the content of a file as reads see it.
    pub fn bytes(&self, name: &str) -> &[u8] {
        self.names.get(name).map_or(&[], |at| &self.contents[*at].cached)
    }

    /// Flips one bit of a file, on the disk itself.
    pub fn flip(&mut self, name: &str, bit: u64) {
        let Some(at) = self.names.get(name) else { return };
        let contents = &mut self.contents[*at];
        for bytes in [&mut contents.cached, &mut contents.kept] {
            if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Zeroes the synced content of a sector, as if it had never been written.
    pub fn lose_sector(&mut self, name: &str, number: usize) {
        let Some(at) = self.names.get(name) else { return };
        let contents = &mut self.contents[*at];
        for bytes in [&mut contents.cached, &mut contents.kept] {
            let (from, to) = (number * BYTES, ((number + 1) * BYTES).min(bytes.len()));
            if from < to {
                bytes[from..to].fill(0);
            }
        }
    }

    /// Returns, once, the file that received a misdirected sector.
    pub fn take_misdirected(&mut self) -> Option<String> {
        self.misdirected.take()
    }

    /// Counts one step; returns an error if the process has ended.
    fn step(&mut self) -> Result<bool, DiskError> {
        self.steps += 1;
        if self.crashed {
            return Err(ended());
        }
        if self.faults.crash_at.is_some_and(|at| self.steps >= at) {
            self.crashed = true;
            // It is undetermined whether the step is done.
            return if self.random.one_in(2) { Ok(true) } else { Err(ended()) };
        }
        Ok(false)
    }

    /// Returns the result of a step that was done; an error if the process ended in it.
    fn done<T>(ends: bool, answer: T) -> Result<T, DiskError> {
        if ends { Err(ended()) } else { Ok(answer) }
    }

    fn find(&self, name: &str) -> Result<usize, DiskError> {
        self.names.get(name).copied().ok_or(DiskError::NotFound)
    }

    fn change(&mut self, change: FileNameChange) {
        change.clone().apply(&mut self.names);
        self.renamed.push(change);
    }

    fn used(&self) -> u64 {
        self.names.values().map(|at| self.contents[*at].cached.len() as u64).sum()
    }
}

impl FileNameChange {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((name, at)) = self.there {
            names.insert(name, at);
        }
    }
}

fn ended() -> DiskError {
    DiskError::Other("the process has ended".into())
}

impl Disk for SimDisk {
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        let ends = self.step()?;
        SimDisk::done(ends, self.files())
    }

    fn length(&mut self, name: &str) -> Result<u64, DiskError> {
        let ends = self.step()?;
        let length = self.contents[self.find(name)?].cached.len() as u64;
        SimDisk::done(ends, length)
    }

    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let ends = self.step()?;
        if self.unreadable.get(name).is_some_and(|from| at + into.len() as u64 > *from) {
            return Err(DiskError::Other("the medium is bad".into()));
        }
        let bytes = &self.contents[self.find(name)?].cached;
        let from = (at as usize).min(bytes.len());
        let count = into.len().min(bytes.len() - from);
        into[..count].copy_from_slice(&bytes[from..from + count]);
        SimDisk::done(ends, count)
    }

    fn create(&mut self, name: &str) -> Result<(), DiskError> {
        let ends = self.step()?;
        if self.faults.room == Some(0) {
            return Err(DiskError::Full);
        }
        match self.names.get(name) {
            Some(at) => {
                let contents = &mut self.contents[*at];
                let was = contents.cached.len();
                contents.cached.clear();
                contents.soil(0, was);
            }
            None => {
                self.contents.push(FileContents::default());
                let there = Some((name.to_owned(), self.contents.len() - 1));
                self.change(FileNameChange { gone: None, there });
            }
        }
        SimDisk::done(ends, ())
    }

    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut ends = self.step()?;
        let file = self.find(name)?;
        let mut count = bytes.len();
        if ends {
            count = self.random.below(count as u64 + 1) as usize;
        }
        let used = self.used();
        let contents = &mut self.contents[file];
        let from = at as usize;
        let grows = (from + count).saturating_sub(contents.cached.len()) as u64;
        let mut full = false;
        if let Some(room) = self.faults.room
            && used + grows > room
        {
            let fits = room.saturating_sub(used) as usize + contents.cached.len();
            count = count.min(fits.saturating_sub(from));
            full = true;
        }
        if contents.cached.len() < from + count {
            contents.cached.resize(from + count, 0);
        }
        contents.cached[from..from + count].copy_from_slice(&bytes[..count]);
        contents.soil(from, from + count);
        if full && !ends {
            ends = false;
            SimDisk::done(ends, ())?;
            return Err(DiskError::Full);
        }
        SimDisk::done(ends, ())
    }

    fn sync_file(&mut self, name: &str) -> Result<(), DiskError> {
        let ends = self.step()?;
        let file = self.find(name)?;
        if self.random.one_in(self.faults.failing_syncs) {
            let contents = &mut self.contents[file];
            // Part of the data has reached the disk; the rest is dropped, though reads still
            // see it.
            let mut kept = contents.clone();
            kept.lose_power(&mut self.random);
            contents.kept = kept.kept;
            contents.dirty.clear();
            contents.lengths.clear();
            return Err(DiskError::FailedSync);
        }
        let stray = self.random.one_in(self.faults.misdirected);
        let contents = &mut self.contents[file];
        let within = contents.cached.len().div_ceil(BYTES);
        let moved = contents.dirty.range(..within).next_back().map(|(number, _)| *number);
        let moved = moved.filter(|_| stray);
        contents.keep();
        if let Some(number) = moved {
            let to = self.random.below(number as u64 + 1) as usize;
            let sector = contents.sector(number);
            if to < number && contents.sector(to) != sector {
                for bytes in [&mut contents.cached, &mut contents.kept] {
                    let end = bytes.len().min((to + 1) * BYTES);
                    bytes[to * BYTES..end].copy_from_slice(&sector[..end - to * BYTES]);
                    let end = bytes.len().min((number + 1) * BYTES);
                    bytes[number * BYTES..end].fill(0);
                }
                self.misdirected = Some(name.to_owned());
            }
        }
        SimDisk::done(ends, ())
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        let ends = self.step()?;
        if self.random.one_in(self.faults.failing_syncs) {
            // A folder keeps its changes until a sync succeeds.
            return Err(DiskError::FailedSync);
        }
        self.kept_names.clone_from(&self.names);
        self.renamed.clear();
        SimDisk::done(ends, ())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let ends = self.step()?;
        let file = self.find(from)?;
        self.change(FileNameChange {
            gone: Some(from.to_owned()),
            there: Some((to.to_owned(), file)),
        });
        SimDisk::done(ends, ())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let ends = self.step()?;
        self.find(name)?;
        self.change(FileNameChange { gone: Some(name.to_owned()), there: None });
        SimDisk::done(ends, ())
    }

    fn truncate(&mut self, name: &str, length: u64) -> Result<(), DiskError> {
        let ends = self.step()?;
        let file = self.find(name)?;
        let contents = &mut self.contents[file];
        let was = contents.cached.len();
        contents.cached.resize(length as usize, 0);
        contents.soil(was.min(length as usize), was.max(length as usize));
        SimDisk::done(ends, ())
    }
}
