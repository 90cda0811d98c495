//! Encoding of control messages between nodes.
//!
//! Owns: the encoding. Never does: act on a message. Decoding checks every length against the bytes
//! left, and returns `None` for anything that no node of this version would send.
//!
//! ```text
//!   [tag: 1] [u64 little endian] ... [bytes to the end]
//! ```

use alloc::vec::Vec;

use crate::ids::RegionId;

/// A control message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// An announcement by the sender of this note about itself, under an identifier of its choice.
    Announce {
        /// Identifier of the announcement, for [`Note::Retract`].
        id: u64,
        /// Content, interpreted by the upper layer.
        bytes: Vec<u8>,
    },
    /// An announcement is no longer valid.
    Retract {
        /// Identifier of the announcement.
        id: u64,
    },
    /// The sender of this note wants to read a stream.
    Attach {
        /// Identifier of this subscription, chosen by the sender of this note and never reused.
        reader: u64,
        /// Name of the reader within its node, for the upper layer.
        entity: u64,
        /// Region of the stream, at the receiver of this note.
        stream: RegionId,
        /// Region of the reader's acknowledgements.
        acks: RegionId,
        /// Line in that region.
        line: u64,
        /// Whether the sender waits for the reader's acknowledgements.
        tethered: bool,
    },
    /// A reader is counted from an entry on.
    Accept {
        /// Subscription of the reader.
        reader: u64,
        /// First entry that the reader receives.
        entry: u64,
        /// Number of the first message that the reader receives.
        message: u64,
    },
    /// The stream that a reader wants does not exist, or ends.
    End {
        /// Subscription of the reader.
        reader: u64,
        /// One past the last entry that the reader receives.
        entry: u64,
    },
    /// A reader has stopped reading a stream, and no longer refers to anything in it.
    Detach {
        /// Subscription of the reader.
        reader: u64,
        /// Region of the stream.
        stream: RegionId,
    },
    /// A reader is no longer counted, and its line of acknowledgements is no longer read.
    Detached {
        /// Subscription of the reader.
        reader: u64,
    },
    /// Fragment of a message that is sent in several notes.
    Fragment {
        /// Number of the message's bytes that follow in other fragments.
        left: u64,
        /// Bytes of this fragment.
        bytes: Vec<u8>,
    },
}

impl Note {
    /// Encodes the note.
    pub fn encode(&self) -> Vec<u8> {
        let (tag, numbers, bytes): (u8, &[u64], &[u8]) = match self {
            Note::Announce { id, bytes } => (1, &[*id], bytes),
            Note::Retract { id } => (2, &[*id], &[]),
            Note::Attach { reader, entity, stream, acks, line, tethered } => {
                (3, &[*reader, *entity, stream.0, acks.0, *line, u64::from(*tethered)], &[])
            }
            Note::Accept { reader, entry, message } => (4, &[*reader, *entry, *message], &[]),
            Note::End { reader, entry } => (5, &[*reader, *entry], &[]),
            Note::Detach { reader, stream } => (6, &[*reader, stream.0], &[]),
            Note::Detached { reader } => (7, &[*reader], &[]),
            Note::Fragment { left, bytes } => (8, &[*left], bytes),
        };
        let mut out = Vec::with_capacity(1 + numbers.len() * 8 + bytes.len());
        out.push(tag);
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.extend_from_slice(bytes);
        out
    }

    /// Decodes a note; `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let (tag, mut rest) = bytes.split_first()?;
        let mut number = || {
            let (number, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let note = match tag {
            1 => {
                let id = number()?;
                return Some(Note::Announce { id, bytes: rest.to_vec() });
            }
            2 => Note::Retract { id: number()? },
            3 => {
                let (reader, entity) = (number()?, number()?);
                let (stream, acks) = (RegionId(number()?), RegionId(number()?));
                let (line, tethered) = (number()?, number()?);
                let tethered = [false, true].into_iter().find(|it| u64::from(*it) == tethered)?;
                Note::Attach { reader, entity, stream, acks, line, tethered }
            }
            4 => Note::Accept { reader: number()?, entry: number()?, message: number()? },
            5 => Note::End { reader: number()?, entry: number()? },
            6 => Note::Detach { reader: number()?, stream: RegionId(number()?) },
            7 => Note::Detached { reader: number()? },
            8 => {
                let left = number()?;
                return Some(Note::Fragment { left, bytes: rest.to_vec() });
            }
            _ => return None,
        };
        rest.is_empty().then_some(note)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn each_note_is_decoded_and_malformed_notes_are_refused() {
        let (stream, acks) = (RegionId(7), RegionId(1));
        let notes = [
            Note::Announce { id: 3, bytes: vec![1, 2, 3] },
            Note::Retract { id: 3 },
            Note::Attach { reader: 5, entity: 3, stream, acks, line: 9, tethered: true },
            Note::Attach { reader: 6, entity: 3, stream, acks, line: 9, tethered: false },
            Note::Accept { reader: 5, entry: 1 << 40, message: 7 },
            Note::End { reader: 5, entry: 9 },
            Note::Detach { reader: 5, stream },
            Note::Detached { reader: 5 },
            Note::Fragment { left: 7, bytes: vec![4, 5] },
        ];
        for note in notes {
            let bytes = note.encode();
            assert_eq!(Note::decode(&bytes), Some(note.clone()));
            if !matches!(note, Note::Announce { .. } | Note::Fragment { .. }) {
                (0..bytes.len()).for_each(|end| assert_eq!(Note::decode(&bytes[..end]), None));
                let longer = [bytes.as_slice(), &[0]].concat();
                assert_eq!(Note::decode(&longer), None);
            }
        }
        assert_eq!(Note::decode(&[]), None);
        let mut unsure =
            Note::Attach { reader: 5, entity: 3, stream, acks, line: 9, tethered: true }.encode();
        unsure[1 + 5 * 8] = 2;
        assert_eq!(Note::decode(&unsure), None);
        assert_eq!(Note::decode(&[99, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
