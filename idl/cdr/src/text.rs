//! Characters and strings, of 8 and of 16 bits.
//!
//! Owns the conversion of Rust text to them. Never does: bounds of other types.

use std::ops::{Deref, DerefMut};

use crate::dds_type::as_unbounded;
use crate::{
    CdrError, CdrReader, CdrWriter, DdsType, Discriminator, Fingerprint, Limits, PlainLayout,
    StringFault, TypeDescriptor, TypeKind, UNBOUNDED, ValueRef,
};

impl DdsType for String {
    const TYPE_NAME: &'static str = "string";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::String };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = size_of::<u32>();
    const BOUNDS: usize = 1;
    const LENGTH_CODE: u32 = 5;

    fn default_value() -> Self {
        String::new()
    }

    #[inline(always)]
    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        writer.write_string(self, UNBOUNDED)
    }

    #[inline(always)]
    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        reader.read_string(UNBOUNDED).map(str::to_owned)
    }

    #[inline(always)]
    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        writer.write_string(self, bounds.first().copied().unwrap_or(UNBOUNDED))
    }

    #[inline(always)]
    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        reader.read_string(limits.bound()).map(str::to_owned)
    }

    fn trim_to(&mut self, bound: u32) {
        self.truncate(self.floor_char_boundary(bound as usize));
    }
}

/// A character of 8 bits: up to U+00FF.
impl DdsType for char {
    const TYPE_NAME: &'static str = "char";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Primitive(1) };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = 1;
    const PRIMITIVE: bool = true;
    const LENGTH_CODE: u32 = 0;

    fn default_value() -> Self {
        '\0'
    }

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        let offset = writer.position();
        let byte =
            u8::try_from(*self).map_err(|_| CdrError::WideCharacter { offset, found: *self })?;
        writer.write_u8(byte)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        reader.read_u8().map(char::from)
    }
}

/// A character of 16 bits, IDL's `wchar`: a UTF-16 code unit, possibly half of a surrogate pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct WChar(pub u16);

impl From<WChar> for char {
    /// Returns the character; U+FFFD for half of a surrogate pair.
    fn from(unit: WChar) -> char {
        char::from_u32(u32::from(unit.0)).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

impl TryFrom<char> for WChar {
    type Error = CdrError;

    fn try_from(character: char) -> Result<WChar, CdrError> {
        let wide = || CdrError::WideCharacter { offset: 0, found: character };
        u16::try_from(u32::from(character)).map(WChar).map_err(|_| wide())
    }
}

impl DdsType for WChar {
    const TYPE_NAME: &'static str = "wchar";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Primitive(2) };
    const LAYOUT: Option<PlainLayout<Self>> = {
        let big = cfg!(target_endian = "big") as u64;
        let hash = Fingerprint::new("primitive").text(Self::TYPE_NAME).number(big).finish();
        // SAFETY: the type is a u16 and nothing else, and every bit pattern is valid.
        Some(unsafe { PlainLayout::new(hash) })
    };
    const MIN_CDR_SIZE: usize = 2;
    const PRIMITIVE: bool = true;
    const LENGTH_CODE: u32 = 1;

    fn default_value() -> Self {
        WChar(0)
    }

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        writer.write_u16(self.0)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        reader.read_u16().map(WChar)
    }
}

impl Discriminator for WChar {
    fn from_label(label: i64) -> Option<Self> {
        u16::try_from(label).ok().map(WChar)
    }

    fn label(&self) -> i64 {
        i64::from(self.0)
    }

    fn nth_label(index: usize) -> Option<i64> {
        u16::try_from(index).ok().map(i64::from)
    }

    fn value_of_label(label: i64) -> Option<ValueRef<'static>> {
        Self::from_label(label).map(ValueRef::WideChar)
    }
}

/// A string of 16-bit characters, IDL's `wstring`: text that is sent as UTF-16. Its bound counts
/// code units.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WString(pub String);

impl Deref for WString {
    type Target = String;

    fn deref(&self) -> &String {
        &self.0
    }
}

impl DerefMut for WString {
    fn deref_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

impl From<&str> for WString {
    fn from(text: &str) -> WString {
        WString(text.to_owned())
    }
}

impl From<String> for WString {
    fn from(text: String) -> WString {
        WString(text)
    }
}

impl DdsType for WString {
    const TYPE_NAME: &'static str = "wstring";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::WideString };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = size_of::<u32>();
    const BOUNDS: usize = 1;
    const LENGTH_CODE: u32 = 5;

    fn default_value() -> Self {
        WString::default()
    }

    as_unbounded!();

    /// Writes the number of bytes, then the code units, without a terminator.
    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        let (offset, found) = (writer.position(), self.0.encode_utf16().count());
        if let Some(&bound) = bounds.first()
            && found > bound as usize
        {
            return Err(CdrError::BoundExceeded { offset, bound, found });
        }
        writer.write_length(found.saturating_mul(2), UNBOUNDED)?;
        self.0.encode_utf16().try_for_each(|unit| writer.write_u16(unit))
    }

    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        let length_at = reader.position();
        let length = reader.read_length(1, UNBOUNDED)?;
        let offset = reader.position();
        let (bound, found) = (limits.bound(), length / 2);
        if found > bound as usize {
            reader.fault(CdrError::BoundExceeded { offset: length_at, bound, found })?;
        }
        if length % 2 != 0 {
            let fault = StringFault::OddLength;
            return Err(CdrError::InvalidString { offset, fault });
        }
        let units = u16::deserialize_elements(reader, found, Limits::NONE)?;
        let fault = CdrError::InvalidString { offset, fault: StringFault::NotUtf16 };
        String::from_utf16(&units).map(WString).map_err(|_| fault)
    }

    fn trim_to(&mut self, bound: u32) {
        let mut room = bound as usize;
        let end = self.0.char_indices().find(|(_, character)| {
            let fits = character.len_utf16() <= room;
            room = room.saturating_sub(character.len_utf16());
            !fits
        });
        if let Some((end, _)) = end {
            self.0.truncate(end);
        }
    }
}
