//! A specification after its names have been looked up and its values worked out.
//!
//! Owns the shape of what the compiler gives and the generator takes. Every name in it is whole,
//! every reopened module is one module, every bound is positive, every value fits its type.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::constant::Value;

/// Everything that was compiled together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Specification {
    /// What stands outside all modules, in order.
    pub definitions: Vec<Definition>,
    /// Rust for the beginning and the end of the file (`@verbatim(language = "rust", ...)`).
    pub verbatim: Vec<Verbatim>,
}

/// Something that has a name.
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

/// A module with everything in it, however often it was reopened.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Its name.
    pub name: ScopedName,
    /// Whether it is an interface, of which the operations are left out.
    pub interface: bool,
    /// The comment in front of it.
    pub docs: Vec<String>,
    /// What stands in it, in order.
    pub definitions: Vec<Definition>,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its name.
    pub name: ScopedName,
    /// Its comment.
    pub docs: Vec<String>,
    /// Its type.
    pub ty: Type,
    /// Its value, which fits the type.
    pub value: Value,
    /// Its unit (`@unit`).
    pub unit: Option<String>,
}

/// How a type may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensibility {
    /// Not at all.
    Final,
    /// Members may be added at the end.
    Appendable,
    /// Members may come and go.
    Mutable,
}

/// What annotations say of a struct, union, enum, bitmask or bitset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeNotes {
    /// Its comment.
    pub docs: Vec<String>,
    /// How it may change, if that is said.
    pub extensibility: Option<Extensibility>,
    /// Whether it is the type of no topic.
    pub nested: bool,
    /// Whether member ids are hashes of names (`@autoid(HASH)`), if that is said.
    pub hashed_ids: Option<bool>,
    /// The topic's name, if there is one (`@topic(name = "...")`).
    pub topic: Option<String>,
    /// The encodings that are allowed (`@data_representation`), as `XCDR1 | XCDR2`.
    pub representations: Vec<String>,
    /// Whether names of enumerators and bits do not count in comparing types.
    pub ignore_literal_names: bool,
    /// Text for the generated code.
    pub verbatim: Vec<Verbatim>,
}

/// Text for the generated code, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbatim {
    /// Where it goes.
    pub placement: Placement,
    /// The text.
    pub text: String,
}

/// Where verbatim text goes.
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
    /// Its name.
    pub name: ScopedName,
    /// What annotations say of it.
    pub notes: TypeNotes,
    /// The struct it inherits from.
    pub base: Option<ScopedName>,
    /// Its own members, in order.
    pub members: Vec<Member>,
    /// Whether it is an exception.
    pub exception: bool,
}

/// What a reader does with a value that a type does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TryConstruct {
    Discard,
    UseDefault,
    Trim,
}

/// Where a member's id comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberId {
    /// From its place, or by `@autoid`.
    Auto,
    /// `@id(N)`.
    Number(u32),
    /// `@hashid`, of its name or of a text.
    Hash(Option<String>),
}

/// A member of a struct or a union.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its comment.
    pub docs: Vec<String>,
    /// Its type.
    pub ty: Type,
    /// Whether it belongs to the key.
    pub key: bool,
    /// Its id.
    pub id: MemberId,
    /// Whether a sample may lack it.
    pub optional: bool,
    /// Whether it lies in memory of its own.
    pub external: bool,
    /// Whether who does not know it refuses the sample.
    pub must_understand: bool,
    /// Whether it is in no sample.
    pub non_serialized: bool,
    /// Its value where a sample lacks it.
    pub default: Option<Value>,
    /// What happens to a value that the type does not allow.
    pub try_construct: Option<TryConstruct>,
    /// The least and the greatest value.
    pub range: (Option<Value>, Option<Value>),
    /// Its unit.
    pub unit: Option<String>,
}

/// A union.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// Its name.
    pub name: ScopedName,
    /// What annotations say of it.
    pub notes: TypeNotes,
    /// The type of the discriminator.
    pub discriminator: Type,
    /// Whether the discriminator is the key.
    pub key: bool,
    /// The discriminator of a value of which nothing is said, if that is not the default of its type.
    pub default: Option<Value>,
    /// What happens to a discriminator that selects nothing.
    pub try_construct: Option<TryConstruct>,
    /// Its cases, in order.
    pub cases: Vec<Case>,
    /// Whether some value of the discriminator has no case.
    pub open: bool,
}

/// A case of a union.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The values of the discriminator.
    pub labels: Vec<Value>,
    /// Whether it is taken for all values without a case.
    pub default: bool,
    /// What there is in this case.
    pub member: Member,
}

/// An enum, which has at least one enumerator.
#[derive(Clone, Debug, PartialEq)]
pub struct Enum {
    /// Its name.
    pub name: ScopedName,
    /// What annotations say of it.
    pub notes: TypeNotes,
    /// Its bits, 1 to 32.
    pub bit_bound: u16,
    /// Its enumerators.
    pub enumerators: Vec<Enumerator>,
}

/// An enumerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumerator {
    /// Its name.
    pub name: String,
    /// Its comment.
    pub docs: Vec<String>,
    /// Its number.
    pub value: i32,
    /// Whether it is the enum's default (`@default_literal`).
    pub default: bool,
}

/// A bitmask.
#[derive(Clone, Debug, PartialEq)]
pub struct Bitmask {
    /// Its name.
    pub name: ScopedName,
    /// What annotations say of it.
    pub notes: TypeNotes,
    /// Its bits, 1 to 64.
    pub bit_bound: u16,
    /// Its named bits.
    pub flags: Vec<Flag>,
}

/// A bit of a bitmask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name.
    pub name: String,
    /// Its comment.
    pub docs: Vec<String>,
    /// Which bit it is, from 0.
    pub position: u16,
}

/// A bitset, with the fields of its base.
#[derive(Clone, Debug, PartialEq)]
pub struct Bitset {
    /// Its name.
    pub name: ScopedName,
    /// What annotations say of it.
    pub notes: TypeNotes,
    /// The bitset it inherits from; its fields are the first of `fields`.
    pub base: Option<ScopedName>,
    /// Its fields, the lowest bits first.
    pub fields: Vec<Bitfield>,
}

/// A field of a bitset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitfield {
    /// Its name; none for bits that only fill.
    pub name: Option<String>,
    /// Its comment.
    pub docs: Vec<String>,
    /// How many bits it has.
    pub bits: u8,
    /// The type of its values.
    pub ty: Primitive,
}

/// A second name for a type.
#[derive(Clone, Debug, PartialEq)]
pub struct Typedef {
    /// The new name.
    pub name: ScopedName,
    /// Its comment.
    pub docs: Vec<String>,
    /// The type.
    pub ty: Type,
}

/// A name with all its modules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopedName {
    /// The modules, from the outside in.
    pub modules: Vec<String>,
    /// The name itself.
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
    /// A string of at most so many characters.
    String {
        /// Whether its characters are wide.
        wide: bool,
        /// How many there may be.
        bound: Option<u32>,
    },
    /// A sequence of at most so many elements.
    Sequence(Arc<Element>, Option<u32>),
    /// A map of at most so many entries.
    Map(Arc<Element>, Arc<Element>, Option<u32>),
    /// An array of so many elements.
    Array(Arc<Element>, u32),
    /// A fixed-point number.
    Fixed {
        /// All its digits.
        digits: u8,
        /// Those behind the point.
        scale: u8,
    },
    /// A value of any type, which no sample can carry.
    Any,
    /// A struct, union, enum, bitmask or bitset.
    Named(Arc<ScopedName>, NamedKind),
    /// A type under the name that a typedef gave it.
    Alias(Arc<Alias>),
}

/// What a collection is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its type.
    pub ty: Type,
    /// Whether it lies in memory of its own.
    pub external: bool,
    /// What happens to a value that the type does not allow.
    pub try_construct: Option<TryConstruct>,
}

impl Element {
    /// That of an array of arrays.
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
    /// An element of which nothing is said.
    fn from(ty: Type) -> Self {
        Self { ty, external: false, try_construct: None }
    }
}

/// A type's second name.
#[derive(Debug, PartialEq, Eq)]
pub struct Alias {
    /// The name.
    pub name: ScopedName,
    /// The type.
    pub ty: Type,
    /// How many types are in it, inside each other and in all.
    pub(crate) size: TypeSize,
}

/// How large a type is as it is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeSize {
    pub(crate) depth: usize,
    pub(crate) parts: usize,
}

/// What a name in a type stands for.
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
    /// The shortest name in IDL.
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

    /// How many bits an integer type or a boolean has; `None` for others.
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
    /// The type itself, without the names that typedefs gave it.
    pub fn resolved(&self) -> &Type {
        let mut ty = self;
        while let Self::Alias(alias) = ty {
            ty = &alias.ty;
        }
        ty
    }

    /// The bounds in this type, as the derive macro counts them: from the outside in; of a map its
    /// own, its key's, its value's. Trailing ones that are none are left out.
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

    /// What happens to elements that their types do not allow, as the derive macro counts them: from the outside
    /// in; of a map its keys, what is in them, its values; an array of arrays is one. Trailing ones of which nothing
    /// is said are left out.
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

    /// Whether a collection in it has elements in memory of their own.
    pub fn has_external_elements(&self) -> bool {
        let found = |element: &Element| element.external || element.has_external_elements();
        match self.resolved() {
            Self::Sequence(element, _) | Self::Array(element, _) => found(element),
            Self::Map(key, value, _) => found(key) || found(value),
            _ => false,
        }
    }

    /// How many types are in this one.
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

/// As it would stand in IDL, arrays with their length behind.
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
