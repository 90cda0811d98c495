//! A sample that was taken: a reference into its writer's memory.
//!
//! Owns: the record until it is dropped. Never does: copy a plain sample.

use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use derecho_core::ids::NodeId;
use derecho_core::multicast::inbox::Record;
use derecho_core::storage::cursor::Kept;
use idl_cdr::DdsType;

use crate::infrastructure::InstanceHandle;
use crate::mapping::record::{self, Header, Payload};

/// What is known of a sample besides its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SampleInfo {
    /// When its writer wrote it.
    pub source_timestamp: SystemTime,
    /// Which writer wrote it.
    pub publication_handle: InstanceHandle,
    /// Its place in the writer's order.
    pub sequence_number: u64,
}

/// A sample. It dereferences to the data.
///
/// A plain sample is read where its writer built it; as long as it is held, the writer cannot use
/// that part of its memory again, but can use the rest. There is one exception: a process that is stopped for
/// longer than the [`member_timeout`](crate::domain::ParticipantConfig::member_timeout) while others wait for
/// it is isolated, and what it still holds may be written anew. Whoever may be stopped asks
/// [`is_isolated`](crate::domain::DomainParticipant::is_isolated) after it has read what matters. Where samples are
/// [kept](crate::topic::TopicBuilder::transient_local) and the participant may
/// [come back](crate::domain::ParticipantConfig::rejoin) that is not needed: there samples are copies.
pub struct Sample<T> {
    data: Data<T>,
    writer: NodeId,
}

enum Data<T> {
    InPlace(Record),
    Kept(Kept),
    Decoded(Box<Decoded<T>>),
}

struct Decoded<T> {
    header: Header,
    number: u64,
    value: T,
}

impl<T: DdsType> Sample<T> {
    /// The sample in a record, or `None` if there is none of this type.
    #[inline(always)]
    pub(super) fn new(record: Record, writer: NodeId) -> Option<Sample<T>> {
        let data = match record::read::<T>(record.bytes())? {
            Payload::InPlace => Data::InPlace(record),
            // Boxed, so that a sample is small whatever its type, and one that lies in place is not
            // moved about with room for one that does not.
            Payload::Decoded(header, value) => {
                Data::Decoded(Box::new(Decoded { header, number: record.number(), value }))
            }
        };
        Some(Sample { data, writer })
    }

    /// The same, of its own: what becomes of the record does not matter any more.
    pub(super) fn copied(record: &Record, writer: NodeId) -> Option<Sample<T>> {
        let (header, value) = record::read_out::<T>(record.bytes())?;
        let decoded = Decoded { header, number: record.number(), value };
        Some(Sample { data: Data::Decoded(Box::new(decoded)), writer })
    }

    /// The same of a record that was kept.
    pub(super) fn of_kept(kept: Kept, writer: NodeId) -> Option<Sample<T>> {
        let data = match record::read::<T>(kept.bytes())? {
            Payload::InPlace => Data::Kept(kept),
            Payload::Decoded(header, value) => {
                Data::Decoded(Box::new(Decoded { header, number: kept.number(), value }))
            }
        };
        Some(Sample { data, writer })
    }

    /// When it was written, in nanoseconds since 1970.
    pub(super) fn timestamp(&self) -> u64 {
        self.header().timestamp
    }

    fn header(&self) -> Header {
        let bytes = match &self.data {
            Data::InPlace(record) => record.bytes(),
            Data::Kept(kept) => kept.bytes(),
            Data::Decoded(decoded) => return decoded.header,
        };
        Header::read(bytes).expect("the length was checked when the sample was made")
    }

    /// What is known of it besides its data. Made when it is asked for: most samples never are.
    #[inline]
    pub fn info(&self) -> SampleInfo {
        let number = match &self.data {
            Data::InPlace(record) => record.number(),
            Data::Kept(kept) => kept.number(),
            Data::Decoded(decoded) => decoded.number,
        };
        info(self.header(), number, self.writer)
    }

    /// Whether it is read where its writer built it, or where it is kept for those who come later.
    pub fn is_borrowed(&self) -> bool {
        !matches!(self.data, Data::Decoded(_))
    }
}

#[inline]
fn info(header: Header, number: u64, node: NodeId) -> SampleInfo {
    SampleInfo {
        // Every 64-bit count of nanoseconds is a time before the year 2555.
        source_timestamp: UNIX_EPOCH + Duration::from_nanos(header.timestamp),
        publication_handle: InstanceHandle { node, entity: u64::from(header.writer) },
        sequence_number: number,
    }
}

impl<T: DdsType> Deref for Sample<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        let bytes = match &self.data {
            Data::InPlace(record) => record.bytes(),
            Data::Kept(kept) => kept.bytes(),
            Data::Decoded(decoded) => return &decoded.value,
        };
        record::plain(bytes).expect("length and alignment were checked when the sample was made")
    }
}

impl<T: DdsType + std::fmt::Debug> std::fmt::Debug for Sample<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sample").field("data", &**self).field("info", &self.info()).finish()
    }
}
