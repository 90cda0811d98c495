//! [`DdsType`] for sequences (`Vec`), maps (`BTreeMap`) and arrays.
//!
//! Owns the rule for size headers: collections of elements that are not primitive carry their
//! size. An array of arrays is one array of several dimensions, as in IDL, with one size header at
//! the start.

use std::collections::BTreeMap;

use crate::dds_type::as_unbounded;
use crate::dds_type::try_array;
use crate::member::require_present;
use crate::plain::clear_each;
use crate::{
    CdrError, CdrReader, CdrWriter, DdsType, Fingerprint, Limits, PlainLayout, TypeDescriptor,
    TypeKind, UNBOUNDED, descriptor_of,
};

impl<T: DdsType> DdsType for Vec<T> {
    const TYPE_NAME: &'static str = "sequence";
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Sequence(descriptor_of::<T>) };
    const MIN_CDR_SIZE: usize = size_of::<u32>();
    const BOUNDS: usize = 1 + T::BOUNDS;
    const ELEMENTS: usize = 1 + T::ELEMENTS;
    const LENGTH_CODE: u32 = if T::PRIMITIVE { row_length_code(T::MIN_CDR_SIZE) } else { 5 };

    fn default_value() -> Self {
        Vec::new()
    }

    as_unbounded!();

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
        writer.enter()?;
        for element in self {
            element.serialize_bounded(writer, inner)?;
        }
        writer.leave();
        writer.end_delimited(open)
    }

    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        const { require_bytes::<T>() };
        if T::PRIMITIVE {
            let count = reader.read_length(T::MIN_CDR_SIZE, limits.bound())?;
            return T::deserialize_elements(reader, count, limits);
        }
        let open = reader.begin_delimited()?;
        let count = reader.read_length(T::MIN_CDR_SIZE, limits.bound())?;
        reader.enter()?;
        let elements = T::deserialize_elements(reader, count, limits)?;
        reader.leave();
        reader.end_delimited(open)?;
        Ok(elements)
    }

    fn trim_to(&mut self, bound: u32) {
        self.truncate(bound as usize);
    }
}

/// Bounds of a map: its own, then those of its keys, then those of its values.
impl<K: DdsType + Ord, V: DdsType> DdsType for BTreeMap<K, V> {
    const TYPE_NAME: &'static str = "map";
    const DESCRIPTOR: TypeDescriptor = TypeDescriptor {
        name: Self::TYPE_NAME,
        kind: TypeKind::Map(descriptor_of::<K>, descriptor_of::<V>),
    };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = size_of::<u32>();
    const BOUNDS: usize = 1 + K::BOUNDS + V::BOUNDS;
    const ELEMENTS: usize = 2 + K::ELEMENTS + V::ELEMENTS;
    const LENGTH_CODE: u32 = if K::PRIMITIVE && V::PRIMITIVE { 4 } else { 5 };

    fn default_value() -> Self {
        BTreeMap::new()
    }

    as_unbounded!();

    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        const { require_bytes::<K>() };
        const { require_present::<V>() };
        let (bound, inner) = outermost(bounds);
        let (of_keys, of_values) = inner.split_at(K::BOUNDS.min(inner.len()));
        let delimited = !(K::PRIMITIVE && V::PRIMITIVE);
        let open = if delimited { Some(writer.begin_delimited()?) } else { None };
        writer.write_length(self.len(), bound)?;
        writer.enter()?;
        for (key, value) in self {
            key.serialize_bounded(writer, of_keys)?;
            value.serialize_bounded(writer, of_values)?;
        }
        writer.leave();
        open.map_or(Ok(()), |open| writer.end_delimited(open))
    }

    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        const { require_bytes::<K>() };
        const { require_present::<V>() };
        let [(of_key, keys), (of_value, values)] = limits.of_entries(K::BOUNDS, K::ELEMENTS);
        let delimited = !(K::PRIMITIVE && V::PRIMITIVE);
        let open = if delimited { Some(reader.begin_delimited()?) } else { None };
        let least = K::MIN_CDR_SIZE.saturating_add(V::MIN_CDR_SIZE);
        let count = reader.read_length(least, limits.bound())?;
        reader.enter()?;
        let mut map = BTreeMap::new();
        for _ in 0..count {
            let offset = reader.position();
            let key = reader.read_element(of_key, keys)?;
            let value = reader.read_element(of_value, values)?;
            if map.insert(key, value).is_some() {
                // Trimmed or replaced keys may be equal now. The end of the map is known, so this
                // is only a fault.
                reader.fault(CdrError::DuplicateKey { offset })?;
            }
        }
        reader.leave();
        open.map_or(Ok(()), |open| reader.end_delimited(open))?;
        Ok(map)
    }

    fn trim_to(&mut self, bound: u32) {
        while self.len() > bound as usize {
            self.pop_last();
        }
    }
}

impl<T: DdsType, const N: usize> DdsType for [T; N] {
    const TYPE_NAME: &'static str = "array";
    const LAYOUT: Option<PlainLayout<Self>> = match T::LAYOUT {
        None => None,
        Some(element) => {
            let hash = Fingerprint::new("array").number(N as u64).number(element.hash()).finish();
            // SAFETY: an array consists of its elements, one after the other. Each element is
            // plain, as its layout proves, so every bit pattern of the array is valid.
            let layout = unsafe { PlainLayout::new(hash) };
            Some(if element.has_padding() { layout.with_padding(clear_each::<T>) } else { layout })
        }
    };
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Array(descriptor_of::<T>, N) };
    const MIN_CDR_SIZE: usize = N.saturating_mul(T::MIN_CDR_SIZE);
    const PRIMITIVE_ROW: bool = T::PRIMITIVE_ROW;
    const BOUNDS: usize = T::BOUNDS;
    const ELEMENTS: usize = T::ROW_ELEMENTS;
    const ROW_ELEMENTS: usize = T::ROW_ELEMENTS;
    const LENGTH_CODE: u32 = if T::PRIMITIVE_ROW { 4 } else { 5 };

    fn default_value() -> Self {
        std::array::from_fn(|_| T::default_value())
    }

    fn places(places: &mut Vec<u32>) {
        places.push(size_of::<T>() as u32);
        T::places(places);
    }

    as_unbounded!();

    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        const { require_present::<T>() };
        if T::PRIMITIVE_ROW {
            return T::serialize_row(self, writer, bounds);
        }
        let open = writer.begin_delimited()?;
        T::serialize_row(self, writer, bounds)?;
        writer.end_delimited(open)
    }

    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        const { require_present::<T>() };
        if T::PRIMITIVE_ROW {
            return T::deserialize_row(reader, limits);
        }
        let open = reader.begin_delimited()?;
        let array = T::deserialize_row(reader, limits)?;
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
        limits: Limits<'_>,
    ) -> Result<[Self; M], CdrError> {
        try_array(|| T::deserialize_row(reader, limits))
    }
}

/// Returns the bound of the outermost sequence, and the bounds of its contents.
fn outermost(bounds: &[u32]) -> (u32, &[u32]) {
    match bounds.split_first() {
        Some((&bound, inner)) => (bound, inner),
        None => (UNBOUNDED, &[]),
    }
}

/// Length code of a parameter for a sequence of primitives: if a code for elements of this size
/// exists, the sequence's own element count gives the length.
const fn row_length_code(element: usize) -> u32 {
    match element {
        1 => 5,
        4 => 6,
        8 => 7,
        _ => 4,
    }
}

/// Rejects element types without bytes at compile time: the length of a sequence is checked against
/// the bytes that follow, and that check needs elements with bytes.
const fn require_bytes<T: DdsType>() {
    require_present::<T>();
    assert!(
        T::MIN_CDR_SIZE > 0,
        "the elements of a sequence must take bytes in CDR: give the element type a member"
    );
}
