//! Kinds of samples: of types compiled into the program, or of types known only at run time.
//!
//! Owns [`TopicData`], the common interface of the three kinds for code that transports samples.
//! Never transports any.

use std::any::TypeId;
use std::fmt;

use idl_cdr::{
    CdrError, DdsType, Encoding, Extensibility, PlainLayout, Reflect, Representations,
    TypeDescriptor, descriptor_of,
};

use crate::{DataError, DynamicData, DynamicType, SerializedData};

/// Place to look up the members of a type.
#[derive(Clone, Copy, Debug)]
pub enum MemberLookup<'a> {
    /// A type compiled into the program.
    Compiled(&'static TypeDescriptor),
    /// A run-time type.
    Dynamic(&'a DynamicType),
}

/// A sample: every [`DdsType`]; [`DynamicData`], a sample of a type known only at run time; and
/// [`SerializedData`], the bytes of a sample.
///
/// The trait is sealed to these. Code that transports samples needs only this trait. The type of
/// run-time samples is passed separately, as [`TypeSupport`](Self::TypeSupport).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that DDS can carry",
    label = "not a DDS type",
    note = "add `#[derive(DdsType)]` to `{Self}` if it is yours"
)]
pub trait TopicData: Reflect + Sized + Send + Sync + 'static {
    /// Run-time information about the type; empty for a compiled type.
    type TypeSupport: Clone + fmt::Debug + Send + Sync + 'static;
    /// Reason why a sample could not be written or read.
    type Error: fmt::Display;

    /// Memory layout of samples, if they may be sent as they lie in memory. Samples of a type that
    /// may change must not: a reader of another version would find other members there.
    const LAYOUT: Option<PlainLayout<Self>>;
    /// Whether no type of this kind of samples has a key. For types known only at run time this is
    /// false, and each type says for itself whether it has a key.
    const NEVER_KEYED: bool;

    /// Returns the IDL name of the type, with its modules.
    fn type_name(support: &Self::TypeSupport) -> &str;

    /// Returns the type's id, if the type is compiled into the program.
    fn compiled() -> Option<TypeId>;

    /// Returns the type.
    fn dynamic_type(support: &Self::TypeSupport) -> DynamicType;

    /// Returns the representations in which samples may be sent.
    fn representations(support: &Self::TypeSupport) -> Representations;

    /// Returns the place to look up members.
    fn fields(support: &Self::TypeSupport) -> MemberLookup<'_>;

    /// Returns the offsets of the parts of a sample that is sent as it lies in
    /// memory: [`DdsType::places`].
    fn places() -> Vec<u32>;

    /// Returns the changes that the type allows.
    fn extensibility(support: &Self::TypeSupport) -> Extensibility;

    /// Whether the type has a key.
    fn has_key(&self) -> bool;

    /// Returns the size of the output of [`write_cdr`](Self::write_cdr).
    fn cdr_size(&self, encoding: Encoding) -> Result<usize, Self::Error>;

    /// Writes the payload at the start of the bytes, and returns its size.
    fn write_cdr(&self, bytes: &mut [u8], encoding: Encoding) -> Result<usize, Self::Error>;

    /// Returns the key-only payload.
    fn key_cdr(&self, encoding: Encoding) -> Result<Vec<u8>, Self::Error>;

    /// Returns the key in 16 bytes.
    fn hash_of_key(&self) -> Result<[u8; 16], Self::Error>;

    /// Reads a sample from its payload.
    fn read_cdr(support: &Self::TypeSupport, payload: &[u8]) -> Result<Self, Self::Error>;

    /// Reads a sample from a key-only payload.
    fn read_key(support: &Self::TypeSupport, payload: &[u8]) -> Result<Self, Self::Error>;
}

impl<T: DdsType> TopicData for T {
    type TypeSupport = ();
    type Error = CdrError;

    const NEVER_KEYED: bool = !T::KEYED;
    const LAYOUT: Option<PlainLayout<Self>> = match T::EXTENSIBILITY {
        Extensibility::Final => <T as DdsType>::LAYOUT,
        _ => None,
    };

    #[inline(always)]
    fn type_name((): &()) -> &str {
        T::TYPE_NAME
    }

    fn compiled() -> Option<TypeId> {
        Some(TypeId::of::<T>())
    }

    fn dynamic_type((): &()) -> DynamicType {
        DynamicType::of::<T>()
    }

    fn representations((): &()) -> Representations {
        T::DESCRIPTOR.representations()
    }

    fn fields((): &()) -> MemberLookup<'_> {
        MemberLookup::Compiled(descriptor_of::<T>())
    }

    fn places() -> Vec<u32> {
        let mut places = Vec::new();
        <T as DdsType>::places(&mut places);
        places
    }

    #[inline(always)]
    fn extensibility((): &()) -> Extensibility {
        T::EXTENSIBILITY
    }

    #[inline(always)]
    fn has_key(&self) -> bool {
        T::KEYED
    }

    #[inline(always)]
    fn cdr_size(&self, encoding: Encoding) -> Result<usize, CdrError> {
        // The common encodings get code of their own, without run-time checks of the encoding.
        match encoding {
            Encoding::CDR_LE => idl_cdr::serialized_size_with(self, Encoding::CDR_LE),
            Encoding::PLAIN_CDR2_LE => idl_cdr::serialized_size(self),
            other => idl_cdr::serialized_size_with(self, other),
        }
    }

    #[inline(always)]
    fn write_cdr(&self, bytes: &mut [u8], encoding: Encoding) -> Result<usize, CdrError> {
        match encoding {
            Encoding::CDR_LE => idl_cdr::serialize_into_with(self, bytes, Encoding::CDR_LE),
            Encoding::PLAIN_CDR2_LE => idl_cdr::serialize_into(self, bytes),
            other => idl_cdr::serialize_into_with(self, bytes, other),
        }
    }

    fn key_cdr(&self, encoding: Encoding) -> Result<Vec<u8>, CdrError> {
        idl_cdr::key_to_cdr_with(self, encoding)
    }

    #[inline(always)]
    fn hash_of_key(&self) -> Result<[u8; 16], CdrError> {
        idl_cdr::key_hash(self)
    }

    #[inline(always)]
    fn read_cdr((): &(), payload: &[u8]) -> Result<Self, CdrError> {
        idl_cdr::from_cdr(payload)
    }

    #[inline(always)]
    fn read_key((): &(), payload: &[u8]) -> Result<Self, CdrError> {
        idl_cdr::key_from_cdr(payload)
    }
}

/// Common code of the two kinds of samples whose type is known only at run time.
macro_rules! of_run_time {
    () => {
        type TypeSupport = DynamicType;
        type Error = DataError;

        const NEVER_KEYED: bool = false;
        const LAYOUT: Option<PlainLayout<Self>> = None;

        fn type_name(support: &DynamicType) -> &str {
            support.name()
        }

        fn compiled() -> Option<TypeId> {
            None
        }

        fn dynamic_type(support: &DynamicType) -> DynamicType {
            support.clone()
        }

        fn representations(support: &DynamicType) -> Representations {
            support.representations()
        }

        fn fields(support: &DynamicType) -> MemberLookup<'_> {
            MemberLookup::Dynamic(support)
        }

        fn places() -> Vec<u32> {
            Vec::new()
        }

        fn extensibility(support: &DynamicType) -> Extensibility {
            support.extensibility()
        }
    };
}

impl TopicData for DynamicData {
    of_run_time!();

    fn has_key(&self) -> bool {
        self.of().is_keyed()
    }

    fn cdr_size(&self, encoding: Encoding) -> Result<usize, DataError> {
        DynamicData::cdr_size(self, encoding)
    }

    fn write_cdr(&self, bytes: &mut [u8], encoding: Encoding) -> Result<usize, DataError> {
        DynamicData::write_cdr(self, encoding, bytes)
    }

    fn key_cdr(&self, encoding: Encoding) -> Result<Vec<u8>, DataError> {
        self.key_to_cdr_with(encoding)
    }

    fn hash_of_key(&self) -> Result<[u8; 16], DataError> {
        self.key_hash()
    }

    fn read_cdr(support: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        DynamicData::from_cdr(support, payload)
    }

    fn read_key(support: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        DynamicData::from_key(support, payload)
    }
}

impl TopicData for SerializedData {
    of_run_time!();

    fn has_key(&self) -> bool {
        self.of().is_keyed()
    }

    fn cdr_size(&self, encoding: Encoding) -> Result<usize, DataError> {
        match self.is_in(encoding) {
            true => Ok(self.payload().len()),
            false => DynamicData::cdr_size(self.data()?, encoding),
        }
    }

    fn write_cdr(&self, bytes: &mut [u8], encoding: Encoding) -> Result<usize, DataError> {
        if !self.is_in(encoding) {
            return DynamicData::write_cdr(self.data()?, encoding, bytes);
        }
        let (payload, free) = (self.payload(), bytes.len());
        let room = bytes.get_mut(..payload.len()).ok_or_else(|| DataError::Unfit {
            path: "the sample".to_owned(),
            reason: format!("has {} bytes, but the buffer has only {free}", payload.len()),
        })?;
        room.copy_from_slice(payload);
        Ok(payload.len())
    }

    fn key_cdr(&self, encoding: Encoding) -> Result<Vec<u8>, DataError> {
        match self.is_key() && self.is_in(encoding) {
            true => Ok(self.payload().to_vec()),
            false => self.data()?.key_to_cdr_with(encoding),
        }
    }

    fn hash_of_key(&self) -> Result<[u8; 16], DataError> {
        self.data()?.key_hash()
    }

    fn read_cdr(support: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        Ok(SerializedData::new(support, payload))
    }

    fn read_key(support: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        Ok(SerializedData::of_key(support, payload))
    }
}
