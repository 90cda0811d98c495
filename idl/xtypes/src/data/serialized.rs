//! A sample as its bytes.
//!
//! Owns the payload, and what has been read in it for those who look inside. Never knows more of it than its type says.

use std::sync::OnceLock;

use idl_cdr::{Encoding, Reflect, ValueRef};

use super::{DataError, DynamicData};
use crate::DynamicType;

/// A sample that nobody has to look into: the payload as it is, for tools and bridges that pass it on. It is read where
/// somebody asks for its key, or filters it.
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
    /// The same bytes.
    fn eq(&self, other: &Self) -> bool {
        (self.is_key, &self.payload) == (other.is_key, &other.payload)
    }
}

impl SerializedData {
    /// The sample of which this is the payload: CDR, with its header of four bytes. It is not looked at.
    pub fn new(of: &DynamicType, payload: impl Into<Box<[u8]>>) -> Self {
        Self { of: of.clone(), payload: payload.into(), is_key: false, read: OnceLock::new() }
    }

    /// A sample of which there is the key alone, as of one that says that its instance is over.
    pub fn of_key(of: &DynamicType, payload: impl Into<Box<[u8]>>) -> Self {
        Self { is_key: true, ..Self::new(of, payload) }
    }

    /// Its payload, header and all.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether the payload's header names the version of CDR of this encoding. In which byte order is the payload's business.
    pub fn is_in(&self, encoding: Encoding) -> bool {
        Encoding::of_payload(&self.payload).is_some_and(|it| it.version == encoding.version)
    }

    /// Whether the payload is that of the key alone.
    pub fn is_key(&self) -> bool {
        self.is_key
    }

    /// Its type.
    pub fn of(&self) -> &DynamicType {
        &self.of
    }

    /// What is in it.
    pub fn data(&self) -> Result<&DynamicData, DataError> {
        let read = || match self.is_key {
            true => DynamicData::from_key(&self.of, &self.payload),
            false => DynamicData::from_cdr(&self.of, &self.payload),
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// What cannot be read has nothing in it.
impl Reflect for SerializedData {
    fn value(&self) -> ValueRef<'_> {
        self.data().map_or(ValueRef::Absent, Reflect::value)
    }

    fn parts(&self) -> usize {
        self.data().map_or(0, Reflect::parts)
    }

    fn part(&self, place: usize) -> ValueRef<'_> {
        self.data().map_or(ValueRef::Absent, |data| data.part(place))
    }

    fn key(&self, place: usize) -> ValueRef<'_> {
        self.data().map_or(ValueRef::Absent, |data| data.key(place))
    }
}
