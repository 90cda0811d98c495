//! A specification with its names looked up and its values evaluated.
//!
//! Owns the data model between the compiler and the generator. Every name in it is fully qualified,
//! every reopened module is one module, every bound is positive, and every value fits its type.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::constant::Value;

/// All definitions that were compiled together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Specification {
    /// Definitions outside all modules, in order.
    pub definitions: Vec<Definition>,
    /// Rust for the beginning and the end of the file (`@verbatim(language = "rust", ...)`).
    pub verbatim: Vec<Verbatim>,
}

/// A named definition.
#[derive(Clone, Debug, PartialEq)]
pub enum Definition {
    /// A module, or the types and constants inside an interface.
    Module(Module),
    /// A constant.
    Constant(Constant),
    /// A struct or an exception.
    Struct(Struct),
    /// A union.
    Union(Union),
    /// An enum.
    Enum(Enum),
    /// A bitmask.
    Bitmask(Bitmask),
    /// A bitset.
    Bitset(Bitset),
    /// A typedef.
    Typedef(Typedef),
}

impl Definition {
    /// The name of the definition.
    pub fn name(&self) -> &ScopedName {
        match self {
            Definition::Module(of) => &of.name,
            Definition::Constant(of) => &of.name,
            Definition::Struct(of) => &of.name,
            Definition::Union(of) => &of.name,
            Definition::Enum(of) => &of.name,
            Definition::Bitmask(of) => &of.name,
            Definition::Bitset(of) => &of.name,
            Definition::Typedef(of) => &of.name,
        }
    }
}

/// A module with all its definitions, however often it was reopened.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Name of the module.
    pub name: ScopedName,
    /// Whether the module is an interface, whose operations are left out.
    pub interface: bool,
    /// Comment before the module.
    pub docs: Vec<String>,
    /// Definitions in the module, in order.
    pub definitions: Vec<Definition>,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Name of the constant.
    pub name: ScopedName,
    /// Comment of the constant.
    pub docs: Vec<String>,
    /// Type of the constant.
    pub ty: Type,
    /// Value, which fits the type.
    pub value: Value,
    /// Unit of the value (`@unit`).
    pub unit: Option<String>,
}

/// Ways in which a type may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensibility {
    /// No change is allowed.
    Final,
    /// Members may be added at the end.
    Appendable,
    /// Members may be added and removed.
    Mutable,
}

/// Annotations of a struct, union, enum, bitmask or bitset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeNotes {
    /// Comment of the type.
    pub docs: Vec<String>,
    /// Extensibility, if an annotation gives it.
    pub extensibility: Option<Extensibility>,
    /// Whether the type is not used for topics.
    pub nested: bool,
    /// Whether member ids are hashes of names (`@autoid(HASH)`), if an annotation says so.
    pub hashed_ids: Option<bool>,
    /// Name of the topic, if one is given (`@topic(name = "...")`).
    pub topic: Option<String>,
    /// Allowed encodings (`@data_representation`), as `XCDR1 | XCDR2`.
    pub representations: Vec<String>,
    /// Whether names of enumerators and bits are ignored when types are compared.
    pub ignore_literal_names: bool,
    /// Text for the generated code.
    pub verbatim: Vec<Verbatim>,
}

/// Text for the generated code, and its placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbatim {
    /// Placement of the text.
    pub placement: Placement,
    /// The text.
    pub text: String,
}

/// Placements of verbatim text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Placement {
    BeginFile,
    BeforeDeclaration,
    BeginDeclaration,
    EndDeclaration,
    AfterDeclaration,
    EndFile,
}

/// A struct or an exception.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// Name of the struct.
    pub name: ScopedName,
    /// Annotations of the struct.
    pub notes: TypeNotes,
    /// Base struct that this struct inherits from.
    pub base: Option<ScopedName>,
    /// Own members, in order, without those of the base.
    pub members: Vec<StructMember>,
    /// Whether the struct is an exception.
    pub exception: bool,
    /// Struct with the same members and another key, if a `#pragma keylist` made this copy of it.
    pub copy_of: Option<ScopedName>,
}

/// Action of a reader on a value that a type does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TryConstruct {
    Discard,
    UseDefault,
    Trim,
}

/// Source of a member's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberId {
    /// From the position of the member, or by `@autoid`.
    Auto,
    /// `@id(N)`.
    Number(u32),
    /// `@hashid`, from the member's name or from a text.
    Hash(Option<String>),
}

/// A member of a struct or a union.
#[derive(Clone, Debug, PartialEq)]
pub struct StructMember {
    /// Name of the member.
    pub name: String,
    /// Comment of the member.
    pub docs: Vec<String>,
    /// Type of the member.
    pub ty: Type,
    /// Whether the member belongs to the key.
    pub key: bool,
    /// Id of the member.
    pub id: MemberId,
    /// Whether a sample may lack the member.
    pub optional: bool,
    /// Whether the member lies in memory of its own.
    pub external: bool,
    /// Whether a reader that does not know the member must refuse the sample.
    pub must_understand: bool,
    /// Whether the member is left out of samples.
    pub non_serialized: bool,
    /// Value of the member where a sample lacks it.
    pub default: Option<Value>,
    /// Action on a value that the type does not allow.
    pub try_construct: Option<TryConstruct>,
    /// Minimum and maximum value.
    pub range: (Option<Value>, Option<Value>),
    /// Unit of the value.
    pub unit: Option<String>,
}

/// A union.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// Name of the union.
    pub name: ScopedName,
    /// Annotations of the union.
    pub notes: TypeNotes,
    /// Type of the discriminator.
    pub discriminator: Type,
    /// Whether the discriminator is the key.
    pub key: bool,
    /// Default discriminator, if it differs from the default of its type.
    pub default: Option<Value>,
    /// Action on a discriminator that selects nothing.
    pub try_construct: Option<TryConstruct>,
    /// Cases of the union, in order.
    pub cases: Vec<Case>,
    /// Whether some value of the discriminator has no case.
    pub open: bool,
}

/// A case of a union.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Discriminator values that select the case.
    pub labels: Vec<Value>,
    /// Whether the case is selected by all values without a case.
    pub default: bool,
    /// Member of the case.
    pub member: StructMember,
}

/// An enum, which has at least one enumerator.
#[derive(Clone, Debug, PartialEq)]
pub struct Enum {
    /// Name of the enum.
    pub name: ScopedName,
    /// Annotations of the enum.
    pub notes: TypeNotes,
    /// Number of bits, 1 to 32.
    pub bit_bound: u16,
    /// Enumerators of the enum.
    pub enumerators: Vec<Enumerator>,
}

/// An enumerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumerator {
    /// Name of the enumerator.
    pub name: String,
    /// Comment of the enumerator.
    pub docs: Vec<String>,
    /// Number of the enumerator.
    pub value: i32,
    /// Whether the enumerator is the enum's default (`@default_literal`).
    pub default: bool,
}

/// A bitmask.
#[derive(Clone, Debug, PartialEq)]
pub struct Bitmask {
    /// Name of the bitmask.
    pub name: ScopedName,
    /// Annotations of the bitmask.
    pub notes: TypeNotes,
    /// Number of bits, 1 to 64.
    pub bit_bound: u16,
    /// Named bits.
    pub flags: Vec<Flag>,
}

/// A bit of a bitmask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name of the bit.
    pub name: String,
    /// Comment of the bit.
    pub docs: Vec<String>,
    /// Position of the bit, from 0.
    pub position: u16,
}

/// A bitset, including the fields of its base.
#[derive(Clone, Debug, PartialEq)]
pub struct Bitset {
    /// Name of the bitset.
    pub name: ScopedName,
    /// Annotations of the bitset.
    pub notes: TypeNotes,
    /// Base bitset; its fields come first in `fields`.
    pub base: Option<ScopedName>,
    /// Fields, the lowest bits first.
    pub fields: Vec<Bitfield>,
}

/// A field of a bitset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitfield {
    /// Name of the field; `None` for padding bits.
    pub name: Option<String>,
    /// Comment of the field.
    pub docs: Vec<String>,
    /// Number of bits.
    pub bits: u8,
    /// Type of the field's values.
    pub ty: Primitive,
}

/// An alias for a type.
#[derive(Clone, Debug, PartialEq)]
pub struct Typedef {
    /// Name of the alias.
    pub name: ScopedName,
    /// Comment of the alias.
    pub docs: Vec<String>,
    /// Aliased type.
    pub ty: Type,
}

/// A name with all its modules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopedName {
    /// Modules, the outermost first.
    pub modules: Vec<String>,
    /// Last part of the name.
    pub name: String,
}

impl fmt::Display for ScopedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.modules.iter().try_for_each(|module| write!(f, "{module}::"))?;
        f.write_str(&self.name)
    }
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number, a boolean or a character.
    Primitive(Primitive),
    /// A string with a maximum number of characters.
    String {
        /// Whether the characters are wide.
        wide: bool,
        /// Maximum number of characters; `None` if unbounded.
        bound: Option<u32>,
    },
    /// A sequence with a maximum number of elements.
    Sequence(Arc<Element>, Option<u32>),
    /// A map with a maximum number of entries.
    Map(Arc<Element>, Arc<Element>, Option<u32>),
    /// An array with a fixed number of elements.
    Array(Arc<Element>, u32),
    /// A fixed-point number.
    Fixed {
        /// Total number of digits.
        digits: u8,
        /// Number of digits after the decimal point.
        scale: u8,
    },
    /// A value of any type, which no sample can carry.
    Any,
    /// A struct, union, enum, bitmask or bitset.
    Named(Arc<ScopedName>, NamedKind),
    /// A type under its typedef name.
    Alias(Arc<Alias>),
}

/// Element of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Type of the element.
    pub ty: Type,
    /// Whether the element lies in memory of its own.
    pub external: bool,
    /// Action on a value that the type does not allow.
    pub try_construct: Option<TryConstruct>,
}

impl Element {
    /// Returns the innermost element of an array of arrays.
    pub fn innermost(&self) -> &Element {
        let mut element = self;
        while let Type::Array(inner, _) = element.resolved() {
            element = inner;
        }
        element
    }
}

impl Deref for Element {
    type Target = Type;

    fn deref(&self) -> &Type {
        &self.ty
    }
}

impl From<Type> for Element {
    /// Makes an element without annotations.
    fn from(ty: Type) -> Self {
        Self { ty, external: false, try_construct: None }
    }
}

/// An alias of a type.
#[derive(Debug, PartialEq, Eq)]
pub struct Alias {
    /// Name of the alias.
    pub name: ScopedName,
    /// Aliased type.
    pub ty: Type,
    /// Nesting depth and total number of the types in the alias.
    pub(crate) size: TypeSize,
}

/// Size of a fully written-out type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeSize {
    pub(crate) depth: usize,
    pub(crate) parts: usize,
}

/// Kind of definition that a name in a type refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum NamedKind {
    Struct,
    Union,
    Enum,
    Bitmask,
    Bitset,
}

/// A type without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Primitive {
    Boolean,
    Octet,
    Char,
    WChar,
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float,
    Double,
    LongDouble,
}

impl Primitive {
    /// Returns the shortest IDL name.
    pub const fn idl_name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Octet => "octet",
            Self::Char => "char",
            Self::WChar => "wchar",
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Float => "float",
            Self::Double => "double",
            Self::LongDouble => "long double",
        }
    }

    /// Returns the number of bits of an integer type or a boolean; `None` for others.
    pub const fn bits(self) -> Option<u8> {
        Some(match self {
            Self::Boolean => 1,
            Self::Octet | Self::Int8 | Self::Uint8 => 8,
            Self::Int16 | Self::Uint16 => 16,
            Self::Int32 | Self::Uint32 => 32,
            Self::Int64 | Self::Uint64 => 64,
            _ => return None,
        })
    }
}

impl Type {
    /// Returns the type without typedef names.
    pub fn resolved(&self) -> &Type {
        let mut ty = self;
        while let Self::Alias(alias) = ty {
            ty = &alias.ty;
        }
        ty
    }

    /// Returns the bounds in this type in the order of the derive macro: from the outside in; for a
    /// map its own bound, then those of its key, then those of its value. Trailing missing bounds
    /// are left out.
    pub fn bounds(&self) -> Vec<Option<u32>> {
        let mut bounds = Vec::new();
        self.collect_bounds(&mut bounds);
        while bounds.last() == Some(&None) {
            bounds.pop();
        }
        bounds
    }

    fn collect_bounds(&self, into: &mut Vec<Option<u32>>) {
        match self.resolved() {
            Self::Sequence(element, bound) => {
                into.push(*bound);
                element.collect_bounds(into);
            }
            Self::Map(key, value, bound) => {
                into.push(*bound);
                key.collect_bounds(into);
                value.collect_bounds(into);
            }
            Self::Array(element, _) => element.collect_bounds(into),
            Self::String { bound, .. } => into.push(*bound),
            _ => {}
        }
    }

    /// Returns the actions on disallowed element values in the order of the derive macro: from the
    /// outside in; for a map its keys, then their contents, then its values. An array of arrays
    /// counts as one. Trailing elements without an annotation are left out.
    pub fn element_try_constructs(&self) -> Vec<Option<TryConstruct>> {
        let mut all = Vec::new();
        self.collect_try_constructs(&mut all);
        while all.last() == Some(&None) {
            all.pop();
        }
        all
    }

    fn collect_try_constructs(&self, into: &mut Vec<Option<TryConstruct>>) {
        let mut add = |element: &Element| {
            into.push(element.try_construct);
            element.collect_try_constructs(into);
        };
        match self.resolved() {
            Self::Sequence(element, _) => add(element),
            Self::Map(key, value, _) => {
                add(key);
                add(value);
            }
            Self::Array(element, _) => add(element.innermost()),
            _ => {}
        }
    }

    /// Whether a collection in the type has elements in memory of their own.
    pub fn has_external_elements(&self) -> bool {
        let found = |element: &Element| element.external || element.has_external_elements();
        match self.resolved() {
            Self::Sequence(element, _) | Self::Array(element, _) => found(element),
            Self::Map(key, value, _) => found(key) || found(value),
            _ => false,
        }
    }

    /// Returns the number of types in this one.
    pub(crate) fn size(&self) -> TypeSize {
        let (depth, parts) = match self {
            Self::Sequence(inner, _) | Self::Array(inner, _) => {
                let inner = inner.size();
                (inner.depth, inner.parts)
            }
            Self::Map(key, value, _) => {
                let (key, value) = (key.size(), value.size());
                (key.depth.max(value.depth), key.parts.saturating_add(value.parts))
            }
            Self::Alias(alias) => (alias.size.depth, alias.size.parts),
            _ => (0, 0),
        };
        TypeSize { depth: depth + 1, parts: parts.saturating_add(1) }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ty.fmt(f)
    }
}

/// Formats the type in IDL syntax, array lengths last.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(primitive) => f.write_str(primitive.idl_name()),
            Self::String { wide, bound } => {
                f.write_str(if *wide { "wstring" } else { "string" })?;
                bound.map_or(Ok(()), |bound| write!(f, "<{bound}>"))
            }
            Self::Sequence(element, None) => write!(f, "sequence<{element}>"),
            Self::Sequence(element, Some(bound)) => write!(f, "sequence<{element}, {bound}>"),
            Self::Map(key, value, None) => write!(f, "map<{key}, {value}>"),
            Self::Map(key, value, Some(bound)) => write!(f, "map<{key}, {value}, {bound}>"),
            Self::Array(..) => {
                let (mut element, mut lengths) = (self, String::new());
                while let Self::Array(inner, length) = element {
                    lengths += &format!("[{length}]");
                    element = inner;
                }
                write!(f, "{element}{lengths}")
            }
            Self::Fixed { digits, scale } => write!(f, "fixed<{digits}, {scale}>"),
            Self::Any => f.write_str("any"),
            Self::Named(name, _) => write!(f, "{name}"),
            Self::Alias(alias) => write!(f, "{}", alias.name),
        }
    }
}
