//! Samples in serialised form.
//!
//! Owns the payload, and the cached result of reading it. Never knows more about the contents than
//! the type says.

use std::sync::OnceLock;

use idl_cdr::{Encoding, Reflect, ValueRef};

use super::{DataError, DynamicData};
use crate::DynamicType;

/// A sample as its unread payload, for tools and bridges that forward it. The payload is read only
/// when a caller asks for its key or filters it.
///
/// ```
/// use idl_cdr::{DdsType, ValueRef, to_cdr};
/// use idl_xtypes::{DynamicType, SerializedData};
///
/// #[derive(DdsType)]
/// #[dds(crate = "idl_cdr")]
/// struct Track { name: String, altitude: f64 }
///
/// let track = Track { name: "SQL7".to_owned(), altitude: 1200.0 };
/// let sample = SerializedData::new(&DynamicType::of::<Track>(), to_cdr(&track).unwrap());
/// assert!(matches!(sample.data()?.get("altitude")?, ValueRef::Double(1200.0)));
/// # Ok::<(), idl_xtypes::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SerializedData {
    of: DynamicType,
    payload: Box<[u8]>,
    is_key: bool,
    read: OnceLock<Result<DynamicData, DataError>>,
}

impl PartialEq for SerializedData {
    /// Whether the bytes are equal.
    fn eq(&self, other: &Self) -> bool {
        (self.is_key, &self.payload) == (other.is_key, &other.payload)
    }
}

impl SerializedData {
    /// Makes a sample from its payload: CDR, with its header of four bytes. The payload is
    /// not read.
    pub fn new(of: &DynamicType, payload: impl Into<Box<[u8]>>) -> Self {
        Self { of: of.clone(), payload: payload.into(), is_key: false, read: OnceLock::new() }
    }

    /// Makes a key-only sample, such as the one that announces the end of an instance.
    pub fn of_key(of: &DynamicType, payload: impl Into<Box<[u8]>>) -> Self {
        Self { is_key: true, ..Self::new(of, payload) }
    }

    /// Returns the payload with its header.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether the payload's header names the CDR version of this encoding. The byte order
    /// may differ.
    pub fn is_in(&self, encoding: Encoding) -> bool {
        Encoding::of_payload(&self.payload).is_some_and(|it| it.version == encoding.version)
    }

    /// Whether the payload has only the key.
    pub fn is_key(&self) -> bool {
        self.is_key
    }

    /// Returns the type.
    pub fn of(&self) -> &DynamicType {
        &self.of
    }

    /// Returns the contents.
    pub fn data(&self) -> Result<&DynamicData, DataError> {
        let read = || match self.is_key {
            true => DynamicData::from_key(&self.of, &self.payload),
            false => DynamicData::from_cdr(&self.of, &self.payload),
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// A sample that cannot be read has no parts.
impl Reflect for SerializedData {
    fn value(&self) -> ValueRef<'_> {
        self.data().map_or(ValueRef::Absent, Reflect::value)
    }

    fn parts(&self) -> usize {
        self.data().map_or(0, Reflect::parts)
    }

    fn part(&self, index: usize) -> ValueRef<'_> {
        self.data().map_or(ValueRef::Absent, |data| data.part(index))
    }

    fn key(&self, index: usize) -> ValueRef<'_> {
        self.data().map_or(ValueRef::Absent, |data| data.key(index))
    }
}
