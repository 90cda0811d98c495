//! CRC32C, the checksum that protects every byte of a log.
//!
//! Owns: the portable implementation. Never does: detect features of the
//! processor, which needs an operating system; a disk may provide a faster
//! implementation ([`Disk::checksum`](super::Disk::checksum)).

use crc::{CRC_32_ISCSI, Crc, Table};

/// Computes CRC32C.
pub type Checksum = fn(&[u8]) -> u32;

static SUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// CRC32C without special instructions of the processor.
pub fn portable(bytes: &[u8]) -> u32 {
    SUM.checksum(bytes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn checksum_is_crc32c_of_rfc_3720() {
        assert_eq!(super::portable(b"123456789"), 0xe306_9283);
        assert_eq!(super::portable(&[0; 32]), 0x8a91_36aa);
    }
}
