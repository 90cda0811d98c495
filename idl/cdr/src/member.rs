//! Reading and writing of members: absent, external, missing, or with disallowed values.
//!
//! Owns [`DdsType`] for `Option` and `Box`, and the reader's action on each member. Never knows
//! which members there are.

use crate::dds_type::as_unbounded;
use crate::{
    CdrError, CdrReader, CdrVersion, CdrWriter, DdsType, Limits, MemberDescriptor, PlainLayout,
    TypeDescriptor, TypeKind, descriptor_of,
};

/// Maximum nesting depth of values through `Box`, `Vec` and `BTreeMap`.
pub const MAX_DEPTH: u32 = 128;

/// Layout of the members of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberFraming {
    /// Members follow each other without headers.
    Plain,
    /// Each member is in a parameter with its id.
    Parameters,
}

impl CdrReader<'_> {
    /// Reads a member whose faults are faults of its object.
    #[inline(always)]
    pub fn read_member<T: DdsType>(
        &mut self,
        member: &'static MemberDescriptor,
        form: MemberFraming,
    ) -> Result<T, CdrError> {
        match form {
            MemberFraming::Plain => T::deserialize_member(self, member.id, member.limits()),
            MemberFraming::Parameters => T::deserialize_parameter(self, member.limits()),
        }
        .map_err(|error| error.in_member(member.owner, member.name))
    }

    /// Reads a member and applies its [`TryConstruct`](crate::TryConstruct).
    pub fn try_member<T: DdsType>(
        &mut self,
        member: &'static MemberDescriptor,
        form: MemberFraming,
        default: fn() -> T,
    ) -> Result<T, CdrError> {
        self.read_tried(member.try_construct, member.limits(), default, |reader, limits| match form
        {
            MemberFraming::Plain => T::deserialize_member(reader, member.id, limits),
            MemberFraming::Parameters => {
                reader.read_confined(default, |reader| T::deserialize_parameter(reader, limits))
            }
        })
        .map_err(|error| error.in_member(member.owner, member.name))
    }

    /// Whether the object ends here. A reader of a longer version of the type uses defaults for the
    /// members that follow.
    #[inline]
    pub fn lacks_more(&self) -> bool {
        self.remaining() == 0 && !self.is_of_keys()
    }
}

impl<T: DdsType> DdsType for Option<T> {
    const TYPE_NAME: &'static str = "optional";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Optional(descriptor_of::<T>) };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = 1;
    const BOUNDS: usize = T::BOUNDS;
    const ELEMENTS: usize = T::ELEMENTS;
    const OPTIONAL: bool = true;
    const EXTERNAL: bool = T::EXTERNAL;

    fn default_value() -> Self {
        None
    }

    /// Outside of a member, written as in XCDR2: a presence flag, then the value.
    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        write_marked(self, writer, &[])
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        read_marked(reader, Limits::NONE)
    }

    fn serialize_member(
        &self,
        writer: &mut CdrWriter<'_>,
        member: &MemberDescriptor,
    ) -> Result<(), CdrError> {
        const { require_present::<T>() };
        if writer.encoding().version == CdrVersion::Xcdr2 {
            return write_marked(self, writer, member.bounds);
        }
        let open = writer.begin_parameter(member.id, member.must_understand, 4)?;
        if let Some(value) = self {
            value.serialize_bounded(writer, member.bounds)?;
        }
        writer.end_parameter(open)
    }

    fn deserialize_member(
        reader: &mut CdrReader<'_>,
        id: u32,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        const { require_present::<T>() };
        if reader.encoding().version == CdrVersion::Xcdr2 {
            return read_marked(reader, limits);
        }
        let offset = reader.position();
        let Some(parameter) = reader.next_parameter()? else {
            return Err(CdrError::UnexpectedMember { offset, expected: id, found: None });
        };
        if parameter.id != id {
            let found = Some(parameter.id);
            return Err(CdrError::UnexpectedMember { offset, expected: id, found });
        }
        let value = if parameter.is_empty(reader) {
            None
        } else {
            Some(T::deserialize_bounded(reader, limits)?)
        };
        reader.end_parameter(parameter);
        Ok(value)
    }

    fn serialize_parameter(
        &self,
        writer: &mut CdrWriter<'_>,
        member: &MemberDescriptor,
    ) -> Result<(), CdrError> {
        self.as_ref().map_or(Ok(()), |value| value.serialize_parameter(writer, member))
    }

    fn deserialize_parameter(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        T::deserialize_bounded(reader, limits).map(Some)
    }

    fn trim_to(&mut self, bound: u32) {
        if let Some(value) = self {
            value.trim_to(bound);
        }
    }
}

fn write_marked<T: DdsType>(
    value: &Option<T>,
    writer: &mut CdrWriter<'_>,
    bounds: &[u32],
) -> Result<(), CdrError> {
    writer.write_bool(value.is_some())?;
    value.as_ref().map_or(Ok(()), |value| value.serialize_bounded(writer, bounds))
}

fn read_marked<T: DdsType>(
    reader: &mut CdrReader<'_>,
    limits: Limits<'_>,
) -> Result<Option<T>, CdrError> {
    if reader.read_bool()? { T::deserialize_bounded(reader, limits).map(Some) } else { Ok(None) }
}

impl<T: DdsType> DdsType for Box<T> {
    const TYPE_NAME: &'static str = "external";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::External(descriptor_of::<T>) };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = T::MIN_CDR_SIZE;
    const EXTENSIBILITY: crate::Extensibility = T::EXTENSIBILITY;
    const KEYED: bool = T::KEYED;
    const PRIMITIVE: bool = T::PRIMITIVE;
    const PRIMITIVE_ROW: bool = T::PRIMITIVE_ROW;
    const BOUNDS: usize = T::BOUNDS;
    const ELEMENTS: usize = T::ELEMENTS;
    const EXTERNAL: bool = true;
    const LENGTH_CODE: u32 = T::LENGTH_CODE;

    fn default_value() -> Self {
        Box::new(T::default_value())
    }

    as_unbounded!();

    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        const { require_present::<T>() };
        writer.enter()?;
        T::serialize_bounded(self, writer, bounds)?;
        writer.leave();
        Ok(())
    }

    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        const { require_present::<T>() };
        reader.enter()?;
        let value = T::deserialize_bounded(reader, limits)?;
        reader.leave();
        Ok(Box::new(value))
    }

    fn trim_to(&mut self, bound: u32) {
        T::trim_to(self, bound);
    }
}

/// Requires at compile time that elements cannot be absent: only a member has a presence flag.
/// `Option<Box<T>>` is the form of an optional external member.
pub(crate) const fn require_present<T: DdsType>() {
    assert!(
        !T::OPTIONAL,
        "only a member can be optional: make the elements a struct with an optional member, and \
         write Option<Box<T>> for Box<Option<T>>"
    );
}
