//! A specification after its names have been looked up.
//!
//! Owns the shape of what [`parse`](crate::parse) gives and the generator takes. Every name in it
//! is whole, every reopened module is one module, every bound is positive.

use std::fmt;

/// A whole IDL file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specification {
    /// What stands outside all modules, in order.
    pub definitions: Vec<Definition>,
}

/// Something that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A module.
    Module(Module),
    /// A struct.
    Struct(Struct),
    /// An enum.
    Enum(Enum),
    /// A typedef.
    Typedef(Typedef),
}

/// A module with everything in it, however often it was reopened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: ScopedName,
    /// What stands in it, in order.
    pub definitions: Vec<Definition>,
}

/// A struct, which has at least one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name.
    pub name: ScopedName,
    /// Its members, in order.
    pub members: Vec<Member>,
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Whether it belongs to the key.
    pub key: bool,
}

/// An enum, which has at least one enumerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// Its name.
    pub name: ScopedName,
    /// Its enumerators; they count from zero.
    pub enumerators: Vec<String>,
}

/// A second name for a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typedef {
    /// The new name.
    pub name: ScopedName,
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
    /// A number or a boolean.
    Primitive(Primitive),
    /// A string of at most so many bytes.
    String(Option<u32>),
    /// A sequence of at most so many elements.
    Sequence(Box<Type>, Option<u32>),
    /// An array of so many elements.
    Array(Box<Type>, u32),
    /// A struct or an enum.
    Named(ScopedName, NamedKind),
    /// A type under the name that a typedef gave it.
    Alias(ScopedName, Box<Type>),
}

/// What a name in a type stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedKind {
    /// A struct.
    Struct,
    /// An enum.
    Enum,
}

/// A type without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Primitive {
    Boolean,
    Octet,
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
}

impl Primitive {
    /// The shortest name in IDL.
    pub const fn idl_name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Octet => "octet",
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
        }
    }
}

impl Type {
    /// The bounds of the sequences and strings in this type, from the outside in, as far as there
    /// are any.
    pub fn bounds(&self) -> Vec<Option<u32>> {
        let mut bounds = Vec::new();
        let mut ty = self;
        loop {
            match ty {
                Self::Sequence(element, bound) => {
                    bounds.push(*bound);
                    ty = element;
                }
                Self::Array(inner, _) | Self::Alias(_, inner) => ty = inner,
                Self::String(bound) => {
                    bounds.push(*bound);
                    break;
                }
                Self::Primitive(_) | Self::Named(..) => break,
            }
        }
        while bounds.last() == Some(&None) {
            bounds.pop();
        }
        bounds
    }

    /// How many types are inside each other.
    pub(crate) fn depth(&self) -> usize {
        let (mut ty, mut depth) = (self, 1);
        while let Self::Sequence(inner, _) | Self::Array(inner, _) | Self::Alias(_, inner) = ty {
            ty = inner;
            depth += 1;
        }
        depth
    }
}

/// As it would stand in IDL, arrays with their length behind.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(primitive) => f.write_str(primitive.idl_name()),
            Self::String(None) => f.write_str("string"),
            Self::String(Some(bound)) => write!(f, "string<{bound}>"),
            Self::Sequence(element, None) => write!(f, "sequence<{element}>"),
            Self::Sequence(element, Some(bound)) => write!(f, "sequence<{element}, {bound}>"),
            Self::Array(..) => {
                let (mut element, mut lengths) = (self, String::new());
                while let Self::Array(inner, length) = element {
                    lengths += &format!("[{length}]");
                    element = inner;
                }
                write!(f, "{element}{lengths}")
            }
            Self::Named(name, _) | Self::Alias(name, _) => write!(f, "{name}"),
        }
    }
}
