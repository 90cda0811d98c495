//! A file of samples in the order of arrival.
//!
//! ```text
//!   byte  0   "SQUALLRC", version: u32
//!   then frames, one after the other:
//!         0   size of what follows the two words: u32
//!         4   CRC32C of it: u32
//!         8   an entry, CDR with its header: a topic before its first sample, or a sample
//! ```
//! Numbers are little endian. An incomplete frame at the end is left by a crash and is ignored.
//!
//! Owns: the format. Never does: take part in a domain.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use idl_cdr::{DdsType, from_cdr, to_cdr};
use idl_xtypes::{DynamicType, TypeObjects};

use crate::outcome::Failure;

const MAGIC: &[u8; 8] = b"SQUALLRC";
const VERSION: u32 = 1;
/// Maximum length of an entry.
const LONGEST: u32 = 1 << 30;

/// An entry of a recording.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", union, discriminator = "u8", extensibility = "appendable")]
pub(super) enum RecordingEntry {
    /// A topic whose samples follow.
    #[dds(case = 0)]
    Topic(RecordedTopic),
    /// A sample.
    #[dds(case = 1)]
    Sample(RecordedSample),
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
pub(super) struct RecordedTopic {
    /// Number by which its samples refer to the topic.
    pub(super) number: u32,
    pub(super) name: String,
    /// Type objects of its type, as CDR.
    pub(super) of: Vec<u8>,
    pub(super) atomic: bool,
    pub(super) kept: bool,
    pub(super) logged: bool,
    pub(super) exclusive: bool,
    pub(super) by_source_timestamp: bool,
    /// Number of samples of each instance that are kept; 0: all.
    pub(super) depth: u32,
    /// Default CDR version of its writers: 1 or 2; 0: the usual one of its type.
    pub(super) cdr_version: u8,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "appendable")]
pub(super) struct RecordedSample {
    pub(super) topic: u32,
    /// Nanoseconds since the recording began.
    pub(super) came: u64,
    /// Nanoseconds since 1970.
    pub(super) source_timestamp: u64,
    /// 0 alive, 1 disposed, 2 unregistered.
    pub(super) fate: u8,
    /// CDR with its header; for the end of an instance only its key.
    pub(super) payload: Vec<u8>,
}

impl RecordedTopic {
    pub(super) fn type_objects(&self) -> Result<TypeObjects, String> {
        from_cdr(&self.of).map_err(|error| error.to_string())
    }
}

/// Whether these are the first bytes of a recording.
pub(crate) fn begins_recording(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Returns the types of the recorded topics.
pub(crate) fn types_of(path: &Path) -> Result<Vec<DynamicType>, Failure> {
    let (mut recording, mut types) = (Recording::open(path)?, Vec::new());
    while let Some(entry) = recording.next()? {
        let RecordingEntry::Topic(topic) = entry else { continue };
        let objects = topic.type_objects().map_err(|error| recording.wrong(&error))?;
        let of = DynamicType::from_objects(&objects);
        types.push(of.map_err(|error| recording.wrong(&error.to_string()))?);
    }
    Ok(types)
}

/// A file that is being written.
pub(super) struct Recorder {
    path: PathBuf,
    out: BufWriter<File>,
    pub(super) bytes: u64,
}

impl Recorder {
    pub(super) fn new(path: &Path) -> Result<Recorder, Failure> {
        let file = File::create_new(path).map_err(|error| {
            Failure::new(format!(
                "{} cannot be created: {error}; existing files are not overwritten",
                path.display()
            ))
        })?;
        let mut recorder = Recorder {
            path: path.to_owned(),
            out: BufWriter::with_capacity(1 << 20, file),
            bytes: 0,
        };
        recorder.write(MAGIC)?;
        recorder.write(&VERSION.to_le_bytes())?;
        Ok(recorder)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| self.fail(&error))
    }

    fn fail(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("{} cannot be written: {error}", self.path.display()))
    }

    pub(super) fn put(&mut self, entry: &RecordingEntry) -> Result<(), Failure> {
        let bytes = to_cdr(entry).map_err(|error| Failure::new(error.to_string()))?;
        self.write(&(bytes.len() as u32).to_le_bytes())?;
        self.write(&crc32c::crc32c(&bytes).to_le_bytes())?;
        self.write(&bytes)
    }

    /// Writes all buffered data to the file.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| self.fail(&error))
    }
}

/// A file that is being read.
pub(super) struct Recording {
    path: PathBuf,
    from: BufReader<File>,
    at: u64,
}

impl Recording {
    pub(super) fn open(path: &Path) -> Result<Recording, Failure> {
        let file = File::open(path).map_err(|error| Failure::unreadable(path, &error))?;
        let mut recording = Recording {
            path: path.to_owned(),
            from: BufReader::with_capacity(1 << 20, file),
            at: 0,
        };
        let mut head = [0; 12];
        let is_whole = recording.fill(&mut head)?;
        if !is_whole || head[..8] != *MAGIC {
            return Err(recording.wrong("the file is no recording of squall record"));
        }
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if version != VERSION {
            return Err(recording.wrong(&format!(
                "the recording has version {version}, and this command reads version {VERSION}"
            )));
        }
        recording.at = head.len() as u64;
        Ok(recording)
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::new(format!("{}, at byte {}: {why}", self.path.display(), self.at))
    }

    /// Fills the buffer; returns whether there were enough bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, Failure> {
        let mut done = 0;
        while done < bytes.len() {
            match self.from.read(&mut bytes[done..]) {
                Ok(0) => return Ok(false),
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::unreadable(&self.path, &error)),
            }
        }
        Ok(true)
    }

    /// Returns the next entry; `None` at the end, or where a crash has cut the file.
    pub(super) fn next(&mut self) -> Result<Option<RecordingEntry>, Failure> {
        let mut head = [0; 8];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let [a, b, c, d, e, f, g, h] = head;
        let (size, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if size > LONGEST {
            return Err(self.wrong(&format!("an entry of {size} bytes: the file is damaged")));
        }
        // Memory is allocated for the bytes present, not for a possibly damaged size.
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(size.into()).read_to_end(&mut bytes);
        read.map_err(|error| Failure::unreadable(&self.path, &error))?;
        if bytes.len() < size as usize {
            return Ok(None);
        }
        if crc32c::crc32c(&bytes) != sum {
            return Err(self.wrong("the checksum of an entry is wrong: the file is damaged"));
        }
        let entry = from_cdr(&bytes).map_err(|error| self.wrong(&error.to_string()))?;
        self.at += 8 + u64::from(size);
        Ok(Some(entry))
    }
}
