//! CDR, the wire form of topic types, and [`DdsType`], the trait that a topic type implements.
//!
//! This crate owns the byte rules of XCDR1 and XCDR2 for final types, the encapsulation header in
//! front of a payload, and the description of types that may travel as they lie in memory
//! ([`PlainLayout`]). It never opens a connection, reads a file or knows a topic.
//!
//! ```text
//!  payload    | representation id | options | body, alignment counts from here ... | padding |
//!  bytes      | 2, big endian     | 2       | as the encoding says                 | 0 to 3  |
//! ```
//!
//! ```
//! use idl_cdr::{DdsType, from_cdr, to_cdr};
//!
//! #[derive(DdsType, Debug, PartialEq)]
//! #[dds(crate = "idl_cdr")]
//! struct Attitude {
//!     #[dds(key)]
//!     aircraft: u32,
//!     pitch: f64,
//! }
//!
//! let sent = Attitude { aircraft: 7, pitch: 1.5 };
//! let payload = to_cdr(&sent)?;
//! assert_eq!(from_cdr::<Attitude>(&payload)?, sent);
//! # Ok::<(), idl_cdr::CdrError>(())
//! ```

mod collections;
mod dds_type;
mod encoding;
mod error;
mod fingerprint;
mod payload;
mod plain;
mod primitives;
mod reader;
mod writer;

pub use dds_type::{DdsType, UNBOUNDED};
pub use encoding::{CdrVersion, Encoding, Endianness, HEADER_SIZE};
pub use error::{CdrError, StringFault};
pub use fingerprint::Fingerprint;
/// Implements [`trait@DdsType`] for a struct with named fields or an enum without data.
pub use idl_derive::DdsType;
pub use payload::{
    from_cdr, key_hash, key_to_cdr, serialize_into, serialize_key_into, serialized_size, to_cdr,
    to_cdr_with,
};
pub use plain::{PlainLayout, PlainMembers, from_plain_bytes, plain_bytes, plain_ref};
pub use reader::{CdrReader, OpenRead};
pub use writer::{CdrWriter, OpenWrite};
