//! [`DdsType`] for sequences (`Vec`) and arrays.
//!
//! Owns the rule which collections say their size: those whose elements are not primitive. An
//! array of arrays is one array of several dimensions, as in IDL; its size stands once, in front.

use crate::dds_type::try_array;
use crate::{CdrError, CdrReader, CdrWriter, DdsType, Fingerprint, PlainLayout, UNBOUNDED};

impl<T: DdsType> DdsType for Vec<T> {
    const TYPE_NAME: &'static str = "sequence";
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const FINGERPRINT: u64 = Fingerprint::new("sequence").number(T::FINGERPRINT).finish();
    const MIN_CDR_SIZE: usize = size_of::<u32>();
    const BOUNDS: usize = 1 + T::BOUNDS;

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        self.serialize_bounded(writer, &[])
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        Self::deserialize_bounded(reader, &[])
    }

    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        const { require_bytes::<T>() };
        let (bound, inner) = outermost(bounds);
        if T::PRIMITIVE {
            writer.write_length(self.len(), bound)?;
            return T::serialize_row(self, writer, inner);
        }
        let open = writer.begin_delimited()?;
        writer.write_length(self.len(), bound)?;
        for element in self {
            element.serialize_bounded(writer, inner)?;
        }
        writer.end_delimited(open)
    }

    fn deserialize_bounded(reader: &mut CdrReader<'_>, bounds: &[u32]) -> Result<Self, CdrError> {
        const { require_bytes::<T>() };
        let (bound, inner) = outermost(bounds);
        if T::PRIMITIVE {
            let count = reader.read_length(T::MIN_CDR_SIZE, bound)?;
            return T::deserialize_elements(reader, count, inner);
        }
        let open = reader.begin_delimited()?;
        let count = reader.read_length(T::MIN_CDR_SIZE, bound)?;
        let elements = T::deserialize_elements(reader, count, inner)?;
        reader.end_delimited(open)?;
        Ok(elements)
    }
}

impl<T: DdsType, const N: usize> DdsType for [T; N] {
    const TYPE_NAME: &'static str = "array";
    const LAYOUT: Option<PlainLayout<Self>> = match T::LAYOUT {
        None => None,
        Some(element) => {
            let hash = Fingerprint::new("array").number(N as u64).number(element.hash()).finish();
            // SAFETY: an array is its elements side by side; each of them is plain, as its layout
            // proves, so every bit pattern of the array is valid.
            Some(unsafe { PlainLayout::new(hash) })
        }
    };
    const FINGERPRINT: u64 =
        Fingerprint::new("array").number(N as u64).number(T::FINGERPRINT).finish();
    const MIN_CDR_SIZE: usize = N.saturating_mul(T::MIN_CDR_SIZE);
    const PRIMITIVE_ROW: bool = T::PRIMITIVE_ROW;
    const BOUNDS: usize = T::BOUNDS;

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        self.serialize_bounded(writer, &[])
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        Self::deserialize_bounded(reader, &[])
    }

    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        if T::PRIMITIVE_ROW {
            return T::serialize_row(self, writer, bounds);
        }
        let open = writer.begin_delimited()?;
        T::serialize_row(self, writer, bounds)?;
        writer.end_delimited(open)
    }

    fn deserialize_bounded(reader: &mut CdrReader<'_>, bounds: &[u32]) -> Result<Self, CdrError> {
        if T::PRIMITIVE_ROW {
            return T::deserialize_row(reader, bounds);
        }
        let open = reader.begin_delimited()?;
        let array = T::deserialize_row(reader, bounds)?;
        reader.end_delimited(open)?;
        Ok(array)
    }

    fn serialize_row(
        row: &[Self],
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        T::serialize_row(row.as_flattened(), writer, bounds)
    }

    fn deserialize_row<const M: usize>(
        reader: &mut CdrReader<'_>,
        bounds: &[u32],
    ) -> Result<[Self; M], CdrError> {
        try_array(|| T::deserialize_row(reader, bounds))
    }
}

/// The bound of the outermost sequence, and those of what is inside.
fn outermost(bounds: &[u32]) -> (u32, &[u32]) {
    match bounds.split_first() {
        Some((&bound, inner)) => (bound, inner),
        None => (UNBOUNDED, &[]),
    }
}

/// The length of a sequence is checked against the bytes that follow it, which says nothing about
/// elements without bytes.
const fn require_bytes<T: DdsType>() {
    assert!(
        T::MIN_CDR_SIZE > 0,
        "the elements of a sequence must take bytes in CDR: give the element type a member"
    );
}
