//! Control messages between nodes, byte by byte.
//!
//! Owns: their encoding. Never does: act on one. Decoding checks every length against what is
//! left, and answers `None` for anything that no node of this version would send.
//!
//! ```text
//!   [tag: 1] [u64 little endian] ... [bytes to the end]
//! ```

use alloc::vec::Vec;

use crate::ids::RegionId;

/// A control message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// What the sender of this note has to say about itself, under a name of its choice.
    Announce {
        /// The name, for [`Note::Retract`].
        id: u64,
        /// What is said; the upper layer's business.
        bytes: Vec<u8>,
    },
    /// An announcement holds no more.
    Retract {
        /// Its name.
        id: u64,
    },
    /// The sender of this note wants to read a stream.
    Attach {
        /// Its name for this subscription, never used again.
        reader: u64,
        /// The stream's region, at the receiver of this note.
        stream: RegionId,
        /// The region of the reader's acknowledgements.
        acks: RegionId,
        /// The line in it.
        line: u64,
        /// Whether the reader is waited for.
        tethered: bool,
    },
    /// A reader is counted from an entry on.
    Accept {
        /// The subscription.
        reader: u64,
        /// The first entry that it gets.
        entry: u64,
        /// The number of the first message that it gets.
        message: u64,
    },
    /// The stream that a reader wants is not there, or ends.
    End {
        /// The subscription.
        reader: u64,
        /// One past the last entry that it gets.
        entry: u64,
    },
    /// A reader wants no more of a stream, and refers to nothing in it any more.
    Detach {
        /// The subscription.
        reader: u64,
        /// The stream's region.
        stream: RegionId,
    },
    /// A reader is counted no more, and its line of acknowledgements not looked at any more.
    Detached {
        /// The subscription.
        reader: u64,
    },
    /// A part of something that is told as a whole.
    Part {
        /// How many bytes of it follow in other parts.
        left: u64,
        /// This part.
        bytes: Vec<u8>,
    },
}

impl Note {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (tag, numbers, bytes): (u8, &[u64], &[u8]) = match self {
            Note::Announce { id, bytes } => (1, &[*id], bytes),
            Note::Retract { id } => (2, &[*id], &[]),
            Note::Attach { reader, stream, acks, line, tethered } => {
                (3, &[*reader, stream.0, acks.0, *line, u64::from(*tethered)], &[])
            }
            Note::Accept { reader, entry, message } => (4, &[*reader, *entry, *message], &[]),
            Note::End { reader, entry } => (5, &[*reader, *entry], &[]),
            Note::Detach { reader, stream } => (6, &[*reader, stream.0], &[]),
            Note::Detached { reader } => (7, &[*reader], &[]),
            Note::Part { left, bytes } => (8, &[*left], bytes),
        };
        let mut out = Vec::with_capacity(1 + numbers.len() * 8 + bytes.len());
        out.push(tag);
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.extend_from_slice(bytes);
        out
    }

    /// The message in these bytes, or `None` if there is none.
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
                let (reader, stream, acks) = (number()?, RegionId(number()?), RegionId(number()?));
                let (line, tethered) = (number()?, number()?);
                let tethered = [false, true].into_iter().find(|it| u64::from(*it) == tethered)?;
                Note::Attach { reader, stream, acks, line, tethered }
            }
            4 => Note::Accept { reader: number()?, entry: number()?, message: number()? },
            5 => Note::End { reader: number()?, entry: number()? },
            6 => Note::Detach { reader: number()?, stream: RegionId(number()?) },
            7 => Note::Detached { reader: number()? },
            8 => {
                let left = number()?;
                return Some(Note::Part { left, bytes: rest.to_vec() });
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
    fn every_note_comes_back_and_no_prefix_of_one_does() {
        let (stream, acks) = (RegionId(7), RegionId(1));
        let notes = [
            Note::Announce { id: 3, bytes: vec![1, 2, 3] },
            Note::Retract { id: 3 },
            Note::Attach { reader: 5, stream, acks, line: 9, tethered: true },
            Note::Attach { reader: 6, stream, acks, line: 9, tethered: false },
            Note::Accept { reader: 5, entry: 1 << 40, message: 7 },
            Note::End { reader: 5, entry: 9 },
            Note::Detach { reader: 5, stream },
            Note::Detached { reader: 5 },
            Note::Part { left: 7, bytes: vec![4, 5] },
        ];
        for note in notes {
            let bytes = note.encode();
            assert_eq!(Note::decode(&bytes), Some(note.clone()));
            if !matches!(note, Note::Announce { .. } | Note::Part { .. }) {
                (0..bytes.len()).for_each(|end| assert_eq!(Note::decode(&bytes[..end]), None));
                let longer = [bytes.as_slice(), &[0]].concat();
                assert_eq!(Note::decode(&longer), None);
            }
        }
        assert_eq!(Note::decode(&[]), None);
        let mut unsure = Note::Attach { reader: 5, stream, acks, line: 9, tethered: true }.encode();
        unsure[1 + 4 * 8] = 2;
        assert_eq!(Note::decode(&unsure), None);
        assert_eq!(Note::decode(&[99, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
