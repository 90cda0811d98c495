//! Samples of measurements: any size, with content that can be checked.
//!
//! ```text
//!   byte  0   index: u64 le       0, 1, ... of each publisher
//!         8   stamp: u64 le       CLOCK_MONOTONIC when it was written, or zero  } if there
//!        16   filling             every byte the low one of the index           } are 24 bytes
//!   last 8    index again                                                      } or more
//! ```
//!
//! Owns: the types (a topic's type is known at compile time, so there is a plain type for each
//! common size, and a sequence of bytes for all others), filling and checking.

use clap::ValueEnum;
use dds_api::prelude::{DataWriter, DdsResult, DdsType, Loan};

/// The smallest sample: an index.
pub(crate) const SMALLEST: usize = 8;
/// The largest sample.
pub(crate) const LARGEST: usize = 64 << 20;
/// Minimum size of a sample with a stamp and a second index at the end.
const FULL: usize = 24;

/// A sample type.
pub(crate) trait Payload: DdsType + Default {
    /// Whether samples are read where they were written.
    const PLAIN: bool;
    /// Returns a loan whose every byte will be written: in the readers' view if the type is plain.
    fn loan(writer: &DataWriter<Self>) -> DdsResult<Loan<'_, Self>>;
    /// Sets the size, if the type does not fix it.
    fn resize(&mut self, size: usize);
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];
    /// Returns the bytes, to be filled.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Work that is generic over the sample type for a size.
pub(crate) trait WithPayload {
    /// Result of the work.
    type Output;
    /// Runs the work.
    fn with<P: Payload>(self) -> Self::Output;
}

macro_rules! plain_payloads {
    ($($name:ident: $size:literal,)*) => {
        $(
            #[derive(DdsType, Clone, Copy)]
            struct $name {
                bytes: [u8; $size],
            }

            impl Default for $name {
                fn default() -> $name {
                    $name { bytes: [0; $size] }
                }
            }

            impl Payload for $name {
                const PLAIN: bool = true;
                #[inline(always)]
                fn loan(writer: &DataWriter<Self>) -> DdsResult<Loan<'_, Self>> {
                    writer.loan_as_left()
                }
                fn resize(&mut self, _size: usize) {}
                fn bytes(&self) -> &[u8] {
                    &self.bytes
                }
                #[inline(always)]
                fn bytes_mut(&mut self) -> &mut [u8] {
                    &mut self.bytes
                }
            }
        )*

        /// Runs work with the type for samples of `size` bytes.
        pub(crate) fn for_size<W: WithPayload>(size: usize, work: W) -> W::Output {
            match size {
                $($size => work.with::<$name>(),)*
                _ => work.with::<Bytes>(),
            }
        }

        /// Returns the form in which samples of this size are sent: `plain` or `cdr`.
        pub(crate) fn form(size: usize) -> &'static str {
            match size {
                $($size => "plain",)*
                _ => "cdr",
            }
        }
    };
}

plain_payloads! {
    P8: 8,
    P16: 16,
    P32: 32,
    P64: 64,
    P128: 128,
    P256: 256,
    P512: 512,
    P1024: 1024,
    P2048: 2048,
    P4096: 4096,
    P8192: 8192,
    P10240: 10240,
    P16384: 16384,
    P32768: 32768,
    P65536: 65536,
    P131072: 131_072,
    P262144: 262_144,
    P524288: 524_288,
    P1048576: 1_048_576,
}

/// A sample of any other size, which is sent as CDR.
#[derive(DdsType, Clone, Default)]
struct Bytes {
    bytes: Vec<u8>,
}

impl Payload for Bytes {
    const PLAIN: bool = false;
    fn loan(writer: &DataWriter<Self>) -> DdsResult<Loan<'_, Self>> {
        writer.loan()
    }
    fn resize(&mut self, size: usize) {
        self.bytes.resize(size, 0);
    }
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Bytes that a subscriber checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ReadExtent {
    /// Every byte.
    Whole,
    /// The first and the last eight bytes.
    Ends,
}

impl ReadExtent {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ReadExtent::Whole => "whole",
            ReadExtent::Ends => "ends",
        }
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// Whether samples of this size have room for a stamp.
pub(crate) fn has_stamp(size: usize) -> bool {
    size >= FULL
}

/// Writes every byte of a sample.
#[inline]
pub(crate) fn fill(bytes: &mut [u8], index: u64, stamp: u64) {
    let size = bytes.len();
    let mark = index.to_le_bytes();
    bytes[..8].copy_from_slice(&mark);
    if has_stamp(size) {
        bytes[8..16].copy_from_slice(&stamp.to_le_bytes());
        bytes[16..size - 8].fill(mark[0]);
        bytes[size - 8..].copy_from_slice(&mark);
    } else {
        bytes[8..].fill(mark[0]);
    }
}

/// Returns the index and the stamp (zero: none) of a sample, or `None` if the checked bytes
/// are corrupt.
#[inline]
pub(crate) fn check(bytes: &[u8], read: ReadExtent) -> Option<(u64, u64)> {
    let size = bytes.len();
    let index = word(bytes)?;
    let (stamp, filling) = if has_stamp(size) {
        if word(&bytes[size - 8..])? != index {
            return None;
        }
        (word(&bytes[8..])?, &bytes[16..size - 8])
    } else {
        (0, &bytes[8..])
    };
    let whole = read == ReadExtent::Ends || is_filled_with(filling, index as u8);
    whole.then_some((index, stamp))
}

/// Whether all bytes are equal to `byte`. Always reads all of them, eight at a time.
#[inline]
fn is_filled_with(bytes: &[u8], byte: u8) -> bool {
    let wanted = u64::from_ne_bytes([byte; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    let difference = words.iter().fold(0, |sum, word| sum | (u64::from_ne_bytes(*word) ^ wanted));
    rest.iter().fold(difference, |sum, &last| sum | u64::from(last ^ byte)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_filled_payload_and_detects_changed_bytes() {
        for size in [8, 16, 23, 24, 25, 100, 128] {
            let mut bytes = vec![0xee; size];
            fill(&mut bytes, 0x0102_0304_0506, 77);
            let stamp = if has_stamp(size) { 77 } else { 0 };
            assert_eq!(check(&bytes, ReadExtent::Whole), Some((0x0102_0304_0506, stamp)), "{size}");
            for at in (16..size).chain(8..size.min(16)).filter(|_| size > 16 && size != 23) {
                if has_stamp(size) && (8..16).contains(&at) {
                    continue;
                }
                let was = std::mem::replace(&mut bytes[at], 0xaa);
                assert_eq!(check(&bytes, ReadExtent::Whole), None, "byte {at} of {size}");
                bytes[at] = was;
            }
        }
        assert_eq!(check(&[1, 2, 3], ReadExtent::Ends), None);
    }

    #[test]
    fn payloads_of_common_sizes_are_plain_and_of_exact_size() {
        struct Size;
        impl WithPayload for Size {
            type Output = (usize, bool);
            fn with<P: Payload>(self) -> (usize, bool) {
                let mut sample = Box::<P>::default();
                sample.resize(100);
                (sample.bytes().len(), P::PLAIN && P::LAYOUT.is_some())
            }
        }
        for size in [16, 128, 1024, 10240] {
            assert_eq!(for_size(size, Size), (size, true));
            assert_eq!(form(size), "plain");
        }
        assert_eq!(for_size(100, Size), (100, false));
        assert_eq!(form(100), "cdr");
    }
}
