//! Messages whose content can be checked, laid out as those of `squall perf peer`.
//!
//! ```text
//!   byte  0   index: u64 le       0, 1, ...
//!         8   zero: u64                                                      } if there
//!        16   filling             every byte is the lowest one of the index  } are 24 bytes
//!   last 8    index again                                                    } or more
//! ```

/// Minimum size of a message with a second index at its end.
const FULL: usize = 24;

/// Writes every byte of a message.
pub(crate) fn fill(bytes: &mut [u8], index: u64) {
    let size = bytes.len();
    let mark = index.to_le_bytes();
    bytes[..8].copy_from_slice(&mark);
    if size >= FULL {
        bytes[8..16].fill(0);
        bytes[16..size - 8].fill(mark[0]);
        bytes[size - 8..].copy_from_slice(&mark);
    } else {
        bytes[8..].fill(mark[0]);
    }
}

/// Returns the index of a message, or `None` if its size or its ends are wrong.
pub(crate) fn check(bytes: &[u8], size: usize) -> Option<u64> {
    let word = |chunk: Option<&[u8; 8]>| chunk.map(|chunk| u64::from_le_bytes(*chunk));
    let index = word(bytes.first_chunk())?;
    let is_same = size < FULL || word(bytes.last_chunk()) == Some(index);
    (bytes.len() == size && is_same).then_some(index)
}

/// Counters of a subscriber.
#[derive(Debug, Default)]
pub(crate) struct SequenceCheck {
    /// Index after the highest one so far.
    pub(crate) next: u64,
    /// Messages, intact or not.
    pub(crate) received: u64,
    /// Indexes that were left out.
    pub(crate) lost: u64,
    /// Messages behind a higher index, or doubled.
    pub(crate) disorder: u64,
    /// Messages with wrong content.
    pub(crate) corrupt: u64,
}

impl SequenceCheck {
    /// Counts a message.
    pub(crate) fn look(&mut self, bytes: &[u8], size: usize) {
        self.received += 1;
        match check(bytes, size) {
            None => self.corrupt += 1,
            Some(index) if index < self.next => self.disorder += 1,
            Some(index) => {
                self.lost += index - self.next;
                self.next = index + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_filled_message_and_detects_changed_ends() {
        for size in [8, 16, 24, 128] {
            let mut bytes = vec![0xee; size];
            fill(&mut bytes, 0x0102_0304);
            assert_eq!(check(&bytes, size), Some(0x0102_0304));
            assert_eq!(check(&bytes, size + 1), None);
        }
        let mut bytes = [0; 24];
        fill(&mut bytes, 7);
        bytes[23] = 1;
        assert_eq!(check(&bytes, 24), None);
    }

    #[test]
    fn gaps_and_repeated_indexes_are_counted() {
        let mut seen = SequenceCheck::default();
        for index in [0u64, 1, 4, 3, 5] {
            seen.look(&index.to_le_bytes(), 8);
        }
        seen.look(&[1, 2], 8);
        let counts = [seen.received, seen.lost, seen.disorder, seen.corrupt, seen.next];
        assert_eq!(counts, [6, 2, 1, 1, 6]);
    }
}
