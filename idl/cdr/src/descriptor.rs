//! What a type is made of, as constants that the derive macro writes.
//!
//! Owns the shape of the description and the member tables that encoding and decoding go by. Types
//! that contain each other are no trouble: a description names others by functions, which nobody
//! calls before the program runs. Never does: read or write a byte.

use crate::{CdrError, CdrWriter, DdsType, Limits, Representations};

/// How a type may change while readers and writers of other versions are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Extensibility {
    /// Not at all.
    #[default]
    Final,
    /// Members may be added at the end.
    Appendable,
    /// Members may come, go and change places: each is known by its id.
    Mutable,
}

/// What a reader does with a member whose value its type does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TryConstruct {
    /// Gives up the object that the member belongs to.
    #[default]
    Discard,
    /// Takes the member's default.
    UseDefault,
    /// Cuts a string, sequence or map to its bound.
    Trim,
}

/// Gives the description of a type.
pub type DescriptorOf = fn() -> &'static TypeDescriptor;

/// Writes a member's default, as the member's type is written.
pub type WriteDefault = fn(&mut CdrWriter<'_>) -> Result<(), CdrError>;

/// The description of `T`.
pub fn descriptor_of<T: DdsType>() -> &'static TypeDescriptor {
    const { &T::DESCRIPTOR }
}

/// What a type is.
#[derive(Clone, Copy, Debug)]
pub struct TypeDescriptor {
    /// Its name in IDL, with its modules. Of a collection, what kind it is.
    pub name: &'static str,
    /// What it is made of.
    pub kind: TypeKind,
}

impl TypeDescriptor {
    /// Whether it is the type of no topic, because it says so.
    pub const fn is_nested(&self) -> bool {
        match self.kind {
            TypeKind::Structure(of) => of.nested,
            TypeKind::Union(of) => of.nested,
            _ => false,
        }
    }

    /// In which representations its samples may travel.
    pub const fn representations(&self) -> Representations {
        match self.kind {
            TypeKind::Structure(of) => of.representations,
            TypeKind::Union(of) => of.representations,
            _ => Representations::ALL,
        }
    }
}

/// What a type is made of.
#[derive(Clone, Copy, Debug)]
pub enum TypeKind {
    /// A number, boolean or character of so many bytes; the name says which.
    Primitive(usize),
    /// A string of 8-bit characters.
    String,
    /// A string of 16-bit characters.
    WideString,
    /// A decimal number with a fixed point.
    Fixed {
        /// Decimal digits.
        digits: u32,
        /// How many of them are behind the point.
        scale: u32,
    },
    /// Any number of elements, up to a bound.
    Sequence(DescriptorOf),
    /// A fixed number of elements.
    Array(DescriptorOf, usize),
    /// Values by their keys.
    Map(DescriptorOf, DescriptorOf),
    /// A value that may be absent.
    Optional(DescriptorOf),
    /// A value that lies elsewhere in memory.
    External(DescriptorOf),
    /// One of several names.
    Enumeration {
        /// How many bits its numbers take.
        bit_bound: u32,
        /// Its names, in the order of their declaration.
        literals: &'static [Literal],
        /// Whether another version may have other names for the same numbers.
        ignore_literal_names: bool,
    },
    /// Bits with names.
    Bitmask {
        /// How many bits there are.
        bit_bound: u32,
        /// The names that are known and their positions.
        flags: &'static [(&'static str, u32)],
    },
    /// Small numbers in one integer.
    Bitset(&'static [BitField]),
    /// Members, all of them there.
    Structure(StructureDescriptor),
    /// Members, one of them there.
    Union(UnionDescriptor),
}

/// A name of an enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Its name in IDL.
    pub name: &'static str,
    /// Its number.
    pub value: i32,
    /// Whether it is the enumeration's default.
    pub default: bool,
}

/// A field of a bitset.
#[derive(Clone, Copy, Debug)]
pub struct BitField {
    /// Its name in IDL.
    pub name: &'static str,
    /// Its lowest bit.
    pub position: u32,
    /// How many bits it has.
    pub bits: u32,
    /// The type of its values.
    pub type_of: DescriptorOf,
}

/// What a struct is made of.
#[derive(Clone, Copy, Debug)]
pub struct StructureDescriptor {
    /// How it may change.
    pub extensibility: Extensibility,
    /// Whether it is no topic's type.
    pub nested: bool,
    /// In which representations its samples may travel.
    pub representations: Representations,
    /// The struct whose members come first.
    pub base: Option<DescriptorOf>,
    /// Its own members, in the order of their declaration.
    pub members: &'static [MemberDescriptor],
}

/// What a union is made of.
#[derive(Clone, Copy, Debug)]
pub struct UnionDescriptor {
    /// How it may change.
    pub extensibility: Extensibility,
    /// Whether it is no topic's type.
    pub nested: bool,
    /// In which representations its samples may travel.
    pub representations: Representations,
    /// What says which member is there.
    pub discriminator: MemberDescriptor,
    /// Its members, in the order of their declaration.
    pub cases: &'static [CaseDescriptor],
}

/// One case of a union.
#[derive(Clone, Copy, Debug)]
pub struct CaseDescriptor {
    /// The values of the discriminator that select it.
    pub labels: &'static [i64],
    /// Whether all other values do as well.
    pub default: bool,
    /// What is there then; `None` if nothing is.
    pub member: Option<MemberDescriptor>,
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug)]
pub struct MemberDescriptor {
    /// The name of the type that it belongs to.
    pub owner: &'static str,
    /// Its name in IDL.
    pub name: &'static str,
    /// Its number among the members.
    pub id: u32,
    /// Its type.
    pub type_of: DescriptorOf,
    /// Whether it belongs to the key.
    pub key: bool,
    /// Whether a reader that does not know it refuses the sample. Members of the key always are.
    pub must_understand: bool,
    /// Whether it may be absent.
    pub optional: bool,
    /// Whether it lies elsewhere in memory.
    pub external: bool,
    /// The bounds of its type, outermost first.
    pub bounds: &'static [u32],
    /// What a reader does with a value that the type does not allow.
    pub try_construct: TryConstruct,
    /// The same of the elements of collections, in the order of [`Limits`].
    pub elements: &'static [TryConstruct],
    /// Writes the value that a sample has which lacks it, if that is not the default of its type.
    pub default: Option<WriteDefault>,
    /// Annotations that are remembered only: name and text (`unit`, `min`, `max`, `default`,
    /// `hashid`).
    pub remembered: &'static [(&'static str, &'static str)],
}

impl MemberDescriptor {
    /// A member of type `T` about which nothing else is said.
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

    /// It belongs to the key.
    #[must_use]
    pub const fn key(self) -> Self {
        Self { key: true, must_understand: true, ..self }
    }

    /// A reader that does not know it refuses the sample.
    #[must_use]
    pub const fn must_understand(self) -> Self {
        Self { must_understand: true, ..self }
    }

    /// Its type has these bounds.
    #[must_use]
    pub const fn bounds(self, bounds: &'static [u32]) -> Self {
        Self { bounds, ..self }
    }

    /// What a reader does with a value that the type does not allow.
    #[must_use]
    pub const fn try_construct(self, try_construct: TryConstruct) -> Self {
        Self { try_construct, ..self }
    }

    /// What a reader does with elements of collections that their type does not allow.
    #[must_use]
    pub const fn elements(self, elements: &'static [TryConstruct]) -> Self {
        Self { elements, ..self }
    }

    /// What writes the value that a sample has which lacks it.
    #[must_use]
    pub const fn default(self, default: WriteDefault) -> Self {
        Self { default: Some(default), ..self }
    }

    /// What is asked of its value while it is read.
    #[inline(always)]
    pub const fn limits(&self) -> Limits<'static> {
        Limits::new(self.bounds, self.elements)
    }

    /// Annotations that are remembered only.
    #[must_use]
    pub const fn remembered(self, remembered: &'static [(&'static str, &'static str)]) -> Self {
        Self { remembered, ..self }
    }
}

/// Member ids have 28 bits.
pub const LARGEST_MEMBER_ID: u32 = (1 << 28) - 1;
