//! The trait of types that can be written to and read from topics.
//!
//! Owns the contract between a type and the encodings. Only the derive macro and the
//! implementations for primitives and collections should implement the trait.

use crate::key::ShortKey;
use crate::{
    CdrError, CdrReader, CdrWriter, Extensibility, Limits, MemberDescriptor, PlainLayout, Reflect,
    TypeDescriptor,
};

/// Bound of an unbounded string or sequence.
pub const UNBOUNDED: u32 = u32::MAX;

/// Implements the two methods for whole values of a type whose other methods work without bounds.
macro_rules! as_unbounded {
    () => {
        fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
            self.serialize_bounded(writer, &[])
        }

        fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
            Self::deserialize_bounded(reader, Limits::NONE)
        }
    };
}
pub(crate) use as_unbounded;

/// A type that topics can carry.
///
/// Derive it with `#[derive(DdsType)]`. The constants describe the type.
/// [`serialize`](Self::serialize) and [`deserialize`](Self::deserialize) handle whole values.
/// Collections, members and bounds use the other methods, whose defaults are right for every
/// struct, union and enum.
///
/// `bounds` lists, from the outside in, the maximum number of elements of each nested sequence and
/// string: a `sequence<string<32>, 8>` has the bounds `[8, 32]`. Levels beyond the end of the list
/// are [`UNBOUNDED`]. Reading takes more parameters: [`Limits`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that DDS can carry",
    label = "not a DDS type",
    note = "add `#[derive(DdsType)]` to `{Self}` if it is yours",
    note = "the types that DDS can carry are the integers from 8 to 64 bits, f32, f64, bool, char, \
            String, and Vec, BTreeMap, Box, Option and arrays of such"
)]
pub trait DdsType: Reflect + Sized + Send + Sync + 'static {
    /// IDL name of the type, with its modules: `Nav::Attitude`.
    const TYPE_NAME: &'static str;

    /// Name of the intended topic, if one is given (`@topic(name = "...")`).
    const TOPIC: Option<&'static str> = None;

    /// Description of the type.
    const DESCRIPTOR: TypeDescriptor;

    /// Memory layout of values, if their bytes may be copied as they are.
    const LAYOUT: Option<PlainLayout<Self>>;

    /// Minimum number of bytes of a value in CDR, without alignment. Before a reader allocates for
    /// a sequence, it refuses one that would need more bytes than are left.
    const MIN_CDR_SIZE: usize;

    /// Changes that the type allows.
    const EXTENSIBILITY: Extensibility = Extensibility::Final;

    /// Whether a member belongs to the key.
    const KEYED: bool = false;

    /// Whether CDR counts the type as primitive. Collections of other types carry their size.
    const PRIMITIVE: bool = false;

    /// Whether an array of this type holds only primitives. Differs from `PRIMITIVE` for arrays,
    /// because an array of arrays is one array of more dimensions.
    const PRIMITIVE_ROW: bool = Self::PRIMITIVE;

    /// Number of bounds that the type can take.
    const BOUNDS: usize = 0;

    /// Number of element kinds of the type: one for each nested sequence and array, two for
    /// each map.
    const ELEMENTS: usize = 0;

    /// Number of element kinds of an array of this type. An array of arrays is one array.
    const ROW_ELEMENTS: usize = 1 + Self::ELEMENTS;

    /// Whether values may be absent: true for `Option` only.
    const OPTIONAL: bool = false;

    /// Whether values lie elsewhere in memory: true for `Box`, and an `Option` of it.
    const EXTERNAL: bool = false;

    /// Length code of a value of this type in a parameter of XCDR2. Codes 0 to 3: the value has 1,
    /// 2, 4 or 8 bytes. Code 4: a number in front gives the length. Codes 5 to 7: the value's own
    /// first four bytes give the length, in units of one, four or eight bytes.
    const LENGTH_CODE: u32 = 4;

    /// Returns the value of a member that a sample lacks: zero, empty, or the first of several.
    fn default_value() -> Self;

    /// Appends the offsets of the parts of a value whose [`LAYOUT`](Self::LAYOUT) says that it is
    /// plain. Code built without the type uses these offsets. For a struct: the offset of each
    /// member, followed by the member's own offsets. For an array: the distance between elements,
    /// followed by the offsets of one element. For a number: nothing.
    fn places(_places: &mut Vec<u32>) {}

    /// Writes the value.
    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError>;

    /// Reads a value.
    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError>;

    /// Writes the value. Fails if the value exceeds the bounds.
    #[inline(always)]
    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        _bounds: &[u32],
    ) -> Result<(), CdrError> {
        self.serialize(writer)
    }

    /// Reads a value. Fails if the value exceeds the bounds.
    #[inline(always)]
    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        _limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        Self::deserialize(reader)
    }

    /// Whether the keys of all values fit into a key hash unhashed.
    fn keys_fit_hash() -> bool {
        crate::key::keys_fit_hash::<Self>()
    }

    /// Returns the key if it consists of numbers only and is short enough to be its own hash. For
    /// other keys returns `None`, and the key is written as usual.
    #[inline(always)]
    fn short_key(&self) -> Option<ShortKey> {
        None
    }

    /// Writes the value as a part of a short key; `None` if the value is not a number or does
    /// not fit.
    #[inline(always)]
    fn put_in_key(&self, _key: &mut ShortKey) -> Option<()> {
        None
    }

    /// Truncates the value to the bound of its outermost string, sequence or map.
    fn trim_to(&mut self, _bound: u32) {}

    /// Writes the value as one of the members of an object, in sequence.
    #[inline(always)]
    fn serialize_member(
        &self,
        writer: &mut CdrWriter<'_>,
        member: &MemberDescriptor,
    ) -> Result<(), CdrError> {
        self.serialize_bounded(writer, member.bounds)
    }

    /// Reads the member of this id, as [`serialize_member`](Self::serialize_member) wrote it.
    #[inline(always)]
    fn deserialize_member(
        reader: &mut CdrReader<'_>,
        _id: u32,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        Self::deserialize_bounded(reader, limits)
    }

    /// Writes the value as a parameter of a list.
    fn serialize_parameter(
        &self,
        writer: &mut CdrWriter<'_>,
        member: &MemberDescriptor,
    ) -> Result<(), CdrError> {
        let open = writer.begin_parameter(member.id, member.must_understand, Self::LENGTH_CODE)?;
        self.serialize_bounded(writer, member.bounds)?;
        writer.end_parameter(open)
    }

    /// Reads the content of a parameter.
    #[inline(always)]
    fn deserialize_parameter(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        Self::deserialize_bounded(reader, limits)
    }

    /// Writes the elements of an array in sequence.
    fn serialize_row(
        row: &[Self],
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        row.iter().try_for_each(|element| element.serialize_bounded(writer, bounds))
    }

    /// Reads the elements of an array with the given [`Limits`].
    fn deserialize_row<const N: usize>(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<[Self; N], CdrError> {
        let (how, limits) = limits.of_row();
        try_array(|| reader.read_element(how, limits))
    }

    /// Reads the `count` elements of a sequence with the given [`Limits`].
    /// [`CdrReader::read_length`] has checked that enough bytes are left.
    fn deserialize_elements(
        reader: &mut CdrReader<'_>,
        count: usize,
        limits: Limits<'_>,
    ) -> Result<Vec<Self>, CdrError> {
        let (how, limits) = limits.of_elements();
        // A value may be larger in memory than in CDR, so memory is reserved only for elements
        // whose bytes are certainly present.
        let certain = reader.remaining() / size_of::<Self>().max(1) + 1;
        let mut elements = Vec::with_capacity(count.min(certain));
        for _ in 0..count {
            elements.push(reader.read_element(how, limits)?);
        }
        Ok(elements)
    }
}

/// Fills an array from `next`, or returns the first error; `next` is not called after an error.
pub(crate) fn try_array<T, const N: usize>(
    mut next: impl FnMut() -> Result<T, CdrError>,
) -> Result<[T; N], CdrError> {
    let mut failure = None;
    let slots: [Option<T>; N] = std::array::from_fn(|_| {
        if failure.is_some() {
            return None;
        }
        next().map_err(|error| failure = Some(error)).ok()
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(slots.map(|slot| slot.expect("without a failure every slot is filled"))),
    }
}
