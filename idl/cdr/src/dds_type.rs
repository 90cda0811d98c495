//! The trait of types that can be written to and read from topics.
//!
//! Owns the contract between a type and the encodings. The derive macro and the implementations
//! for primitives and collections are the only ones that are meant to implement it.

use crate::key::ShortKey;
use crate::{
    CdrError, CdrReader, CdrWriter, Extensibility, Limits, MemberDescriptor, PlainLayout, Reflect,
    TypeDescriptor,
};

/// The bound of a string or sequence that has none.
pub const UNBOUNDED: u32 = u32::MAX;

/// The two methods for whole values of a type whose others can do with no bounds.
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
/// Derive it: `#[derive(DdsType)]`. Describing the type: the constants. Whole values:
/// [`serialize`](Self::serialize), [`deserialize`](Self::deserialize). The other methods are how
/// collections, members and bounds reach through a type; their defaults are right for every struct,
/// union and enum.
///
/// `bounds` lists, from the outside in, the largest number of elements of each sequence and string
/// that the type is nested of: a `sequence<string<32>, 8>` has the bounds `[8, 32]`. What the list
/// does not reach is [`UNBOUNDED`]. Whoever reads is asked for more: [`Limits`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that DDS can carry",
    label = "not a DDS type",
    note = "add `#[derive(DdsType)]` to `{Self}` if it is yours",
    note = "the types that DDS can carry are the integers from 8 to 64 bits, f32, f64, bool, char, \
            String, and Vec, BTreeMap, Box, Option and arrays of such"
)]
pub trait DdsType: Reflect + Sized + Send + Sync + 'static {
    /// The type's name in IDL, with its modules: `Nav::Attitude`.
    const TYPE_NAME: &'static str;

    /// The name of the topic that it is meant for, if that is said (`@topic(name = "...")`).
    const TOPIC: Option<&'static str> = None;

    /// What it is made of.
    const DESCRIPTOR: TypeDescriptor;

    /// How values lie in memory, if their bytes may be copied as they are.
    const LAYOUT: Option<PlainLayout<Self>>;

    /// The least number of bytes that a value takes in CDR, alignment left out. A reader refuses a
    /// sequence that would need more bytes than there are before it allocates for it.
    const MIN_CDR_SIZE: usize;

    /// How the type may change.
    const EXTENSIBILITY: Extensibility = Extensibility::Final;

    /// Whether a member belongs to the key.
    const KEYED: bool = false;

    /// Whether CDR counts the type as primitive: collections of others say how long they are.
    const PRIMITIVE: bool = false;

    /// Whether an array of this type holds primitives only. Differs from `PRIMITIVE` for arrays:
    /// an array of arrays is one array of more dimensions.
    const PRIMITIVE_ROW: bool = Self::PRIMITIVE;

    /// How many bounds the type can take.
    const BOUNDS: usize = 0;

    /// How many kinds of elements the type has: one for each sequence and array that it is nested of, two for
    /// each map.
    const ELEMENTS: usize = 0;

    /// How many an array of this type has. An array of arrays is one array.
    const ROW_ELEMENTS: usize = 1 + Self::ELEMENTS;

    /// Whether values may be absent: `Option` and nothing else.
    const OPTIONAL: bool = false;

    /// Whether values lie elsewhere in memory: `Box`, and an `Option` of it.
    const EXTERNAL: bool = false;

    /// How a parameter of XCDR2 says the length of a value of this type: 0 to 3, it has 1, 2, 4 or 8
    /// bytes; 4, by a number in front; 5 to 7, by the value's own first four bytes, which count bytes, four or
    /// eight bytes.
    const LENGTH_CODE: u32 = 4;

    /// The value of a member that a sample lacks: zero, empty, or the first of several.
    fn default_value() -> Self;

    /// Where the parts of a value lie that [`LAYOUT`](Self::LAYOUT) says is plain, for those who were built without it: of a
    /// struct the offset of each member, followed by the member's own; of an array the distance of its elements, followed
    /// by those of one; of a number nothing.
    fn places(_places: &mut Vec<u32>) {}

    /// Writes the value.
    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError>;

    /// Reads a value.
    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError>;

    /// Writes the value, which must keep the bounds.
    #[inline(always)]
    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        _bounds: &[u32],
    ) -> Result<(), CdrError> {
        self.serialize(writer)
    }

    /// Reads a value, which must keep the bounds.
    #[inline(always)]
    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        _limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        Self::deserialize(reader)
    }

    /// Whether the keys of all values fit into a key hash as they are.
    fn keys_fit_hash() -> bool {
        crate::key::keys_fit_hash::<Self>()
    }

    /// The key, if it is numbers alone of so few bytes that it is its own hash; for others `None`, and it is written as usual.
    #[inline(always)]
    fn short_key(&self) -> Option<ShortKey> {
        None
    }

    /// Writes the value as a part of such a key; `None` if it is no number, or finds no room.
    #[inline(always)]
    fn put_in_key(&self, _key: &mut ShortKey) -> Option<()> {
        None
    }

    /// Cuts the value to the bound of its outermost string, sequence or map.
    fn trim_to(&mut self, _bound: u32) {}

    /// Writes the value as a member among others, one after the other.
    #[inline(always)]
    fn serialize_member(
        &self,
        writer: &mut CdrWriter<'_>,
        member: &MemberDescriptor,
    ) -> Result<(), CdrError> {
        self.serialize_bounded(writer, member.bounds)
    }

    /// Reads what [`serialize_member`](Self::serialize_member) wrote for the member of this id.
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

    /// Writes the elements of an array, one after the other.
    fn serialize_row(
        row: &[Self],
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        row.iter().try_for_each(|element| element.serialize_bounded(writer, bounds))
    }

    /// Reads the elements of an array, whose [`Limits`] these are.
    fn deserialize_row<const N: usize>(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<[Self; N], CdrError> {
        let (how, limits) = limits.of_row();
        try_array(|| reader.read_element(how, limits))
    }

    /// Reads the `count` elements of a sequence, whose [`Limits`] these are. [`CdrReader::read_length`] has made sure that the
    /// bytes for them are there.
    fn deserialize_elements(
        reader: &mut CdrReader<'_>,
        count: usize,
        limits: Limits<'_>,
    ) -> Result<Vec<Self>, CdrError> {
        let (how, limits) = limits.of_elements();
        // A value may be larger in memory than in CDR: what is not there yet gets no memory in advance.
        let certain = reader.remaining() / size_of::<Self>().max(1) + 1;
        let mut elements = Vec::with_capacity(count.min(certain));
        for _ in 0..count {
            elements.push(reader.read_element(how, limits)?);
        }
        Ok(elements)
    }
}

/// An array of what `next` gives, or the first error; nothing is asked for after it.
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
