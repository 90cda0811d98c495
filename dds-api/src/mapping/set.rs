//! Layout of a coherent set in a sender's memory: one record, so all invariants of records hold for
//! sets (I-190).
//!
//! ```text
//!   header                         form `set`; the time is that of the latest sample in the set
//!   length: u32, 12 bytes of 0     one for each sample of the set, in the order of writing
//!   record                         as outside a set, without partition names; padded to 16 bytes
//!   ...
//!   partitions, length: u16        partitions of the writer at the end of the set, if any
//! ```
//!
//! Owns: how samples are put together, and taken apart. Never does: trust the bytes that it reads.

use derecho_core::storage::store::KeyLiveness;

use super::record::{self, NEVER, RecordHeader, expiry_of, key_of, payload};

/// Bytes before each record, and alignment of records, so that plain samples are aligned.
const LEAD: usize = 16;

/// Writer number of a set written by several writers.
pub(crate) const OF_SEVERAL: u32 = 0;

/// Samples gathered for one record. All are of one writer, or of the writers of one publisher whose
/// topics share an order.
#[derive(Default)]
pub(crate) struct GatheredSamples {
    bytes: Vec<u8>,
    samples: usize,
    /// Time of the latest sample.
    latest: u64,
    /// Time at which the last sample expires.
    expires: u64,
}

/// Number of bytes that a record takes in a set.
pub(crate) fn footprint(record: usize) -> usize {
    LEAD + record.next_multiple_of(LEAD)
}

impl GatheredSamples {
    /// Number of bytes of the samples as a payload.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Number of samples.
    pub(crate) fn samples(&self) -> usize {
        self.samples
    }

    /// Time of the latest sample.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Time from the latest sample until the last sample expires.
    pub(crate) fn lifespan(&self) -> u64 {
        if self.expires == NEVER { NEVER } else { self.expires.saturating_sub(self.latest) }
    }

    /// The payload.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a record of `length` bytes, written by `fill`.
    pub(crate) fn add<E>(
        &mut self,
        time: u64,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        self.bytes.resize(start + footprint(length), 0);
        let lead = (length as u32).to_le_bytes();
        self.bytes[start..start + lead.len()].copy_from_slice(&lead);
        let record = &mut self.bytes[start + LEAD..start + LEAD + length];
        let filled = fill(record);
        match filled {
            Ok(()) => {
                self.expires = self.expires.max(expiry_of(record, 0));
                self.samples += 1;
                self.latest = self.latest.max(time);
            }
            Err(_) => self.bytes.truncate(start),
        }
        filled
    }
}

/// Whether a record is a set.
#[inline(always)]
pub(crate) fn is_set(record: &[u8]) -> bool {
    RecordHeader::read(record).is_some_and(RecordHeader::is_set)
}

/// Whether a record is a set or a notice about its writer instead of a sample.
#[inline(always)]
pub(crate) fn is_apart(record: &[u8]) -> bool {
    RecordHeader::read(record).is_some_and(RecordHeader::is_apart)
}

/// The records in a set. Ends with an error at the first incomplete record.
pub(crate) struct SetRecords<'a>(&'a [u8]);

/// The records in a set; `None` if the record is not a set.
pub(crate) fn records(record: &[u8]) -> Option<SetRecords<'_>> {
    let header = RecordHeader::read(record).filter(|header| header.is_set())?;
    payload(header, record).map(SetRecords)
}

/// The records in a set written by several writers of a publisher; `None` for any other record. No
/// writer has the number of such a set (I-211).
#[inline]
pub(crate) fn of_several(record: &[u8]) -> Option<SetRecords<'_>> {
    RecordHeader::read(record).filter(|header| header.writer == OF_SEVERAL)?;
    records(record)
}

/// A set with an incomplete record: a fault of its writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BrokenSet;

impl<'a> Iterator for SetRecords<'a> {
    type Item = Result<&'a [u8], BrokenSet>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.0);
        let part = |at: usize, length: usize| all.get(at..at.checked_add(length)?);
        let length = part(0, LEAD).and_then(|lead| lead.first_chunk());
        let length = length.map(|length| u32::from_le_bytes(*length) as usize);
        let record = length.and_then(|length| part(LEAD, length));
        let Some(record) = record.filter(|record| !is_set(record)) else {
            return Some(Err(BrokenSet));
        };
        self.0 = all.get(footprint(record.len())..).unwrap_or_default();
        Some(Ok(record))
    }
}

/// Keys of the records in a set, for a store; `None` if the record is not a set.
pub(crate) fn keys_in_set(record: &[u8]) -> Option<Vec<u128>> {
    Some(records(record)?.map_while(Result::ok).map(key_of).collect())
}

/// Effect of a record on its key, or of each record in a set on its own key.
pub(crate) fn key_livenesses(record: &[u8], each: &mut dyn FnMut(u128, KeyLiveness)) {
    let mut tell = |record: &[u8]| each(key_of(record), record::key_liveness(record));
    match records(record) {
        Some(records) => records.map_while(Result::ok).for_each(tell),
        None => tell(record),
    }
}

/// Keys of a record: one, or those of the records in a set.
pub(crate) fn keys_of(record: &[u8]) -> std::vec::IntoIter<u128> {
    let keys = keys_in_set(record).filter(|keys| !keys.is_empty());
    keys.unwrap_or_else(|| vec![key_of(record)]).into_iter()
}

#[cfg(test)]
mod tests {
    use super::record::{
        PayloadKind, PolicyMetadata, RecordEffect, RecordMetadata, write_metadata,
    };
    use super::*;
    use crate::topic::Bytes;

    /// A record with these contents, payload, effect on the instance and lifespan.
    fn record(
        kind: PayloadKind,
        payload: &[u8],
        (effect, lifespan): (RecordEffect, Option<u64>),
    ) -> Vec<u8> {
        let policy_metadata = PolicyMetadata { lifespan, ..PolicyMetadata::default() };
        let key = (kind == PayloadKind::Sample).then_some(7);
        let metadata = RecordMetadata { kind, effect, mark: 0, policies: policy_metadata, key };
        let mut record = [&[0; record::HEADER], payload].concat();
        record.resize(record.len() + metadata.size(), 0);
        write_metadata::<Bytes>(&mut record, 1, 100, &metadata);
        record
    }

    fn sample(effect: RecordEffect, lifespan: Option<u64>) -> Vec<u8> {
        record(PayloadKind::Sample, &[5; 9], (effect, lifespan))
    }

    /// A set of these records, with the time of the latest one.
    fn gathered(records: &[Vec<u8>], latest: u64) -> GatheredSamples {
        let mut gathered = GatheredSamples::default();
        for record in records {
            let fill = |bytes: &mut [u8]| -> Result<(), BrokenSet> {
                bytes.copy_from_slice(record);
                Ok(())
            };
            assert_eq!(gathered.add(latest, record.len(), fill), Ok(()));
        }
        gathered
    }

    #[test]
    fn a_set_lasts_as_long_as_the_last_of_its_samples() {
        let lasting = |lifespans: &[Option<u64>], latest| {
            let records: Vec<_> =
                lifespans.iter().map(|it| sample(RecordEffect::Alive, *it)).collect();
            gathered(&records, latest).lifespan()
        };
        assert_eq!(lasting(&[Some(50), Some(20)], 100), 50);
        assert_eq!(lasting(&[Some(50)], 120), 30, "lifespan is counted from the latest write");
        assert_eq!(lasting(&[Some(50)], 200), 0);
        assert_eq!(lasting(&[Some(50), None], 100), NEVER);
    }

    #[test]
    fn set_record_is_distinguished_from_sample_and_rejects_nested_set() {
        let records = [sample(RecordEffect::Alive, None), sample(RecordEffect::Disposed, None)];
        let all = gathered(&records, 100);
        let set = record(PayloadKind::Set, all.bytes(), (RecordEffect::Alive, None));
        assert!(is_set(&set) && !is_set(&records[0]));
        let known: Result<Vec<_>, _> = super::records(&set).into_iter().flatten().collect();
        assert_eq!(known, Ok(records.iter().map(Vec::as_slice).collect()));
        assert!(super::records(&records[0]).is_none());
        let outer = gathered(&[set], 100);
        let outer = record(PayloadKind::Set, outer.bytes(), (RecordEffect::Alive, None));
        let mut within = super::records(&outer).unwrap();
        assert_eq!((within.next(), within.next()), (Some(Err(BrokenSet)), None));
    }

    #[test]
    fn set_reports_key_and_instance_state_of_each_record_in_it() {
        let records = [sample(RecordEffect::Alive, None), sample(RecordEffect::Disposed, None)];
        let all = gathered(&records, 100);
        let set = record(PayloadKind::Set, all.bytes(), (RecordEffect::Alive, None));
        let reported = |record: &[u8]| {
            let mut reported = Vec::new();
            key_livenesses(record, &mut |key, says| reported.push((key, says)));
            reported
        };
        assert_eq!(reported(&set), [(7, KeyLiveness::Alive), (7, KeyLiveness::NotAlive)]);
        assert_eq!(reported(&records[1]), [(7, KeyLiveness::NotAlive)]);
        assert_eq!((keys_in_set(&set), keys_in_set(&records[0])), (Some(vec![7, 7]), None));
    }
}
