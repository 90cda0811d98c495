//! Descriptions of types, as constants that the derive macro writes.
//!
//! Owns the description and the member tables that encoding and decoding use. Recursive types are
//! possible, because a description refers to others through functions, which are called only at run
//! time. Never does: read or write a byte.

use crate::{CdrError, CdrWriter, DdsType, Limits, Representations};

/// Ways in which a type may change while readers and writers of other versions exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Extensibility {
    /// No change is allowed.
    #[default]
    Final,
    /// Members may be added at the end.
    Appendable,
    /// Members may be added, removed and reordered: each is identified by its id.
    Mutable,
}

/// Action of a reader on a member whose value the member's type does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TryConstruct {
    /// Discards the object that the member belongs to.
    #[default]
    Discard,
    /// Uses the member's default.
    UseDefault,
    /// Truncates a string, sequence or map to its bound.
    Trim,
}

/// Function that returns the description of a type.
pub type DescriptorOf = fn() -> &'static TypeDescriptor;

/// Function that writes a member's default in the form of the member's type.
pub type WriteDefault = fn(&mut CdrWriter<'_>) -> Result<(), CdrError>;

/// Returns the description of `T`.
pub fn descriptor_of<T: DdsType>() -> &'static TypeDescriptor {
    const { &T::DESCRIPTOR }
}

/// Description of a type.
#[derive(Clone, Copy, Debug)]
pub struct TypeDescriptor {
    /// IDL name with its modules. For a collection, its kind.
    pub name: &'static str,
    /// Contents of the type.
    pub kind: TypeKind,
}

impl TypeDescriptor {
    /// Whether the type declares that it is not for topics.
    pub const fn is_nested(&self) -> bool {
        match self.kind {
            TypeKind::Structure(of) => of.nested,
            TypeKind::Union(of) => of.nested,
            _ => false,
        }
    }

    /// Returns the data representations that samples of the type may use.
    pub const fn representations(&self) -> Representations {
        match self.kind {
            TypeKind::Structure(of) => of.representations,
            TypeKind::Union(of) => of.representations,
            _ => Representations::ALL,
        }
    }
}

/// Contents of a type.
#[derive(Clone, Copy, Debug)]
pub enum TypeKind {
    /// A number, boolean or character with a size in bytes; the name tells which.
    Primitive(usize),
    /// A string of 8-bit characters.
    String,
    /// A string of 16-bit characters.
    WideString,
    /// A decimal fixed-point number.
    Fixed {
        /// Number of decimal digits.
        digits: u32,
        /// Number of digits after the decimal point.
        scale: u32,
    },
    /// Any number of elements, up to a bound.
    Sequence(DescriptorOf),
    /// A fixed number of elements.
    Array(DescriptorOf, usize),
    /// Values indexed by keys.
    Map(DescriptorOf, DescriptorOf),
    /// A value that may be absent.
    Optional(DescriptorOf),
    /// A value that lies elsewhere in memory.
    External(DescriptorOf),
    /// An enumeration.
    Enumeration {
        /// Number of bits of its values.
        bit_bound: u32,
        /// Enumerators, in the order of declaration.
        literals: &'static [Literal],
        /// Whether another version may use other names for the same numbers.
        ignore_literal_names: bool,
    },
    /// A bitmask with named bits.
    Bitmask {
        /// Number of bits.
        bit_bound: u32,
        /// Known names and the positions of their bits.
        flags: &'static [(&'static str, u32)],
    },
    /// A bitset: small numbers in one integer.
    Bitset(&'static [BitField]),
    /// A struct, which has all of its members.
    Structure(StructureDescriptor),
    /// A union, which has one of its members.
    Union(UnionDescriptor),
}

/// An enumerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    /// IDL name.
    pub name: &'static str,
    /// Number of the enumerator.
    pub value: i32,
    /// Whether the enumerator is the default.
    pub default: bool,
}

/// A field of a bitset.
#[derive(Clone, Copy, Debug)]
pub struct BitField {
    /// IDL name.
    pub name: &'static str,
    /// Position of the lowest bit.
    pub position: u32,
    /// Number of bits.
    pub bits: u32,
    /// Type of the field's values.
    pub type_of: DescriptorOf,
}

/// Description of a struct.
#[derive(Clone, Copy, Debug)]
pub struct StructureDescriptor {
    /// Changes that the struct allows.
    pub extensibility: Extensibility,
    /// Whether the struct is not for topics.
    pub nested: bool,
    /// Data representations that samples may use.
    pub representations: Representations,
    /// Base struct, whose members come first.
    pub base: Option<DescriptorOf>,
    /// Own members, in the order of declaration.
    pub members: &'static [MemberDescriptor],
}

/// Description of a union.
#[derive(Clone, Copy, Debug)]
pub struct UnionDescriptor {
    /// Changes that the union allows.
    pub extensibility: Extensibility,
    /// Whether the union is not for topics.
    pub nested: bool,
    /// Data representations that samples may use.
    pub representations: Representations,
    /// Discriminator, which selects the member.
    pub discriminator: MemberDescriptor,
    /// Cases, in the order of declaration.
    pub cases: &'static [CaseDescriptor],
}

/// One case of a union.
#[derive(Clone, Copy, Debug)]
pub struct CaseDescriptor {
    /// Discriminator values that select the case.
    pub labels: &'static [i64],
    /// Whether all other values select the case too.
    pub default: bool,
    /// Member of the case; `None` if the case has no member.
    pub member: Option<MemberDescriptor>,
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug)]
pub struct MemberDescriptor {
    /// Name of the type that the member belongs to.
    pub owner: &'static str,
    /// IDL name.
    pub name: &'static str,
    /// Member id.
    pub id: u32,
    /// Type of the member.
    pub type_of: DescriptorOf,
    /// Whether the member belongs to the key.
    pub key: bool,
    /// Whether a reader that does not know the member refuses the sample. Always true for members
    /// of the key.
    pub must_understand: bool,
    /// Whether the member may be absent.
    pub optional: bool,
    /// Whether the member lies elsewhere in memory.
    pub external: bool,
    /// Bounds of the member's type, outermost first.
    pub bounds: &'static [u32],
    /// Action of a reader on a value that the type does not allow.
    pub try_construct: TryConstruct,
    /// Actions on disallowed elements of collections, in the order of [`Limits`].
    pub elements: &'static [TryConstruct],
    /// Writes the value for samples that lack the member, if it differs from the default of
    /// its type.
    pub default: Option<WriteDefault>,
    /// Annotations that are only recorded: `unit`, `min`, `max`, `default`, `hashid`.
    pub remembered: &'static [AnnotationText],
}

/// Annotation of a member with its value as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnotationText {
    /// Name of the annotation.
    pub name: &'static str,
    /// Value of the annotation.
    pub text: &'static str,
}

impl MemberDescriptor {
    /// Makes a member of type `T` without further attributes.
    pub const fn new<T: DdsType>(owner: &'static str, name: &'static str, id: u32) -> Self {
        assert!(id <= LARGEST_MEMBER_ID, "a member id has 28 bits");
        Self {
            owner,
            name,
            id,
            type_of: descriptor_of::<T>,
            key: false,
            must_understand: false,
            optional: T::OPTIONAL,
            external: T::EXTERNAL,
            bounds: &[],
            try_construct: TryConstruct::Discard,
            elements: &[],
            default: None,
            remembered: &[],
        }
    }

    /// Marks the member as part of the key.
    #[must_use]
    pub const fn key(self) -> Self {
        Self { key: true, must_understand: true, ..self }
    }

    /// Makes a reader that does not know the member refuse the sample.
    #[must_use]
    pub const fn must_understand(self) -> Self {
        Self { must_understand: true, ..self }
    }

    /// Sets the bounds of the member's type.
    #[must_use]
    pub const fn bounds(self, bounds: &'static [u32]) -> Self {
        Self { bounds, ..self }
    }

    /// Sets the action on a value that the type does not allow.
    #[must_use]
    pub const fn try_construct(self, try_construct: TryConstruct) -> Self {
        Self { try_construct, ..self }
    }

    /// Sets the actions on elements of collections that their type does not allow.
    #[must_use]
    pub const fn elements(self, elements: &'static [TryConstruct]) -> Self {
        Self { elements, ..self }
    }

    /// Sets the function that writes the value for samples that lack the member.
    #[must_use]
    pub const fn default(self, default: WriteDefault) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Returns the limits that apply while the value is read.
    #[inline(always)]
    pub const fn limits(&self) -> Limits<'static> {
        Limits::new(self.bounds, self.elements)
    }

    /// Sets the annotations that are only recorded.
    #[must_use]
    pub const fn remembered(self, remembered: &'static [AnnotationText]) -> Self {
        Self { remembered, ..self }
    }
}

/// Largest member id; ids have 28 bits.
pub const LARGEST_MEMBER_ID: u32 = (1 << 28) - 1;
