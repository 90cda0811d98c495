//! Notices: records of a writer's stream that are no samples and state something about the writer.
//!
//! Owns: their payload, effect and key. Never does: decide when a notice is due.

use super::{
    END, HEADER, KEY, PayloadKind, PolicyMetadata, RecordEffect, RecordHeader, RecordMetadata,
    payload, write_fields,
};

/// Statement about a writer by a record of its stream that is no sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriterNotice {
    /// The writer has ended, or has lost its liveliness (I-214): it is no longer live for any
    /// instance. No payload.
    Ended,
    /// The writer has disposed its instances, and has ended (I-216). No payload.
    Disposed,
    /// The writer has missed its DEADLINE for this instance (I-215). The payload is the key hash.
    Overdue(u128),
}

impl WriterNotice {
    /// The notice in a record; `None` if the record holds none of a known form.
    #[cold]
    pub(crate) fn of(record: &[u8]) -> Option<WriterNotice> {
        let header = RecordHeader::read(record).filter(|header| header.is_notice())?;
        match header.effect() {
            RecordEffect::Alive => Some(WriterNotice::Ended),
            RecordEffect::Unregistered => {
                let key = payload(header, record)?.first_chunk()?;
                Some(WriterNotice::Overdue(u128::from_le_bytes(*key)))
            }
            RecordEffect::DisposedAndUnregistered => Some(WriterNotice::Disposed),
            RecordEffect::Disposed => None,
        }
    }

    /// Effect by which the record is marked.
    fn effect(self) -> RecordEffect {
        match self {
            WriterNotice::Ended => RecordEffect::Alive,
            WriterNotice::Disposed => RecordEffect::DisposedAndUnregistered,
            WriterNotice::Overdue(_) => RecordEffect::Unregistered,
        }
    }

    /// Key under which the record is kept. Differs from the key of every sample, so the record
    /// replaces none where samples are kept.
    fn kept_key(self, writer: u64) -> u128 {
        match self {
            WriterNotice::Ended | WriterNotice::Disposed => !u128::from(writer),
            WriterNotice::Overdue(key) => !(key.rotate_left(64) ^ u128::from(writer)),
        }
    }
}

/// A notice, ready to be written.
pub(crate) struct NoticeRecord {
    writer: u32,
    notice: WriterNotice,
    metadata: RecordMetadata,
}

impl NoticeRecord {
    /// Record of a notice about the writer with this id, whose topic has this tag.
    pub(crate) fn new(writer: u64, notice: WriterNotice, tag: u64, is_kept: bool) -> NoticeRecord {
        let metadata = RecordMetadata {
            kind: PayloadKind::Notice,
            effect: notice.effect(),
            mark: 0,
            policies: PolicyMetadata { tag, ..PolicyMetadata::default() },
            key: is_kept.then(|| notice.kept_key(writer)),
        };
        NoticeRecord { writer: writer as u32, notice, metadata }
    }

    /// Size of the record.
    pub(crate) fn size(&self) -> usize {
        let payload = if let WriterNotice::Overdue(_) = self.notice { KEY } else { 0 };
        HEADER + payload + self.metadata.size()
    }

    /// Writes the record with this time.
    pub(crate) fn write(&self, record: &mut [u8], timestamp: u64) {
        if let WriterNotice::Overdue(key) = self.notice {
            record[HEADER..HEADER + KEY].copy_from_slice(&key.to_le_bytes());
        }
        write_fields(record, self.writer, timestamp, END, &self.metadata);
    }
}
