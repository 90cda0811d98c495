//! CDR, the wire form of topic types, and [`DdsType`], the trait that a topic type implements.
//!
//! Owns the byte rules of XCDR1 and XCDR2, the encapsulation header in front of a payload, the
//! description of types ([`TypeDescriptor`]), and the proof that some types may be sent as they lie
//! in memory ([`PlainLayout`]). Never opens a connection, reads a file or knows a topic.
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
mod decimal;
mod descriptor;
mod encoding;
mod enumeration;
mod error;
mod fingerprint;
mod key;
mod limits;
mod long_double;
mod member;
mod path;
mod payload;
mod plain;
mod primitives;
mod reader;
mod recursion;
mod reflect;
mod representations;
mod sorting;
mod structure;
mod text;
mod union;
mod writer;

pub use dds_type::{DdsType, UNBOUNDED};
pub use decimal::Fixed;
pub use descriptor::{
    AnnotationText, BitField, CaseDescriptor, DescriptorOf, Extensibility, LARGEST_MEMBER_ID,
    Literal, MemberDescriptor, StructureDescriptor, TryConstruct, TypeDescriptor, TypeKind,
    UnionDescriptor, WriteDefault, descriptor_of,
};
pub use encoding::{CdrVersion, Encoding, Endianness, HEADER_SIZE};
pub use error::{CdrError, StringFault};
pub use fingerprint::{Fingerprint, fingerprint};
/// Implements [`trait@DdsType`] for a struct, an enum, a union, a bitmask or a bitset.
pub use idl_derive::DdsType;
pub use key::{KeyForm, key_from_cdr, key_hash, key_to_cdr, key_to_cdr_with, serialize_key_into};
pub use limits::Limits;
pub use long_double::LongDouble;
pub use member::{MAX_DEPTH, MemberFraming};
pub use path::{MemberPath, PathError, PathStep, ResolvedStep, is_number, parse_path};
pub use payload::{
    from_cdr, serialize_into, serialize_into_with, serialized_size, serialized_size_with, to_cdr,
    to_cdr_with,
};
pub use plain::{PlainLayout, PlainMembers, from_plain_bytes, plain_bytes, plain_ref};
pub use reader::{CdrReader, OpenRead, Parameter};
pub use reflect::{Reflect, ValueRef};
pub use representations::Representations;
pub use structure::DdsStruct;
pub use text::{WChar, WString};
pub use union::{DdsUnion, Discriminator};
pub use writer::{CdrWriter, OpenParameter, OpenWrite};

/// Items used by the code of the derive macro and by run-time types, beside the traits.
pub mod derived {
    pub use crate::decimal::{read_fixed, write_fixed};
    pub use crate::enumeration::{
        Bits, bytes_for, fits_bits, length_code_for, lowest, place_bits, read_bits,
        read_enumerator, take_bits, write_bits,
    };
    pub use crate::key::{ShortKey, keys_fit_hash};
    pub use crate::path::bounds_of;
    pub use crate::plain::{PlainPart, clear_between, have_padding, parts_in_order};
    pub use crate::recursion::{ValueGraph, ValueNode};
    pub use crate::reflect::discriminator_of;
    pub use crate::structure::{
        are_unique, deserialize_struct, join_ids, key_ids_of_base, serialize_struct, sort_ids,
    };
    pub use crate::union::{are_distinct, default_union, deserialize_union, serialize_union};
}
