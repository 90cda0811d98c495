//! IDL's `any`: a value that brings its type along.
//!
//! Owns its form and the two ways into it, by a type of the program and by the type that it tells. The standard
//! has no encoding for `any`, so it is a struct here, which every other implementation can read as what it is.
//! Never looks inside before it is asked: what a peer wrote is checked then.
//!
//! ```text
//!  type_objects | sequence<octet>: the payload of the complete TypeObjects, those that others need first |
//!  value        | sequence<octet>: the payload of the value                                            |
//! ```
//! Both are XCDR2, little endian, with their encapsulation headers, whatever the encoding around them; both are
//! empty where nothing is held.

use std::error::Error;
use std::fmt;

use idl_cdr::{CdrError, DdsType, Encoding, from_cdr, to_cdr};

use crate::{
    DataError, DynamicData, DynamicType, Mismatch, ObjectKind, TypeConsistency, TypeObjectError,
    TypeObjects, Value,
};

/// A value of any type, with its type: IDL's `any`.
///
/// ```
/// use idl_xtypes::{Any, DynamicType};
/// use idl_cdr::DdsType;
///
/// #[derive(DdsType, Debug, PartialEq)]
/// #[dds(crate = "idl_cdr")]
/// struct Fix { id: u32, at: [f64; 2] }
///
/// #[derive(DdsType)]
/// #[dds(crate = "idl_cdr")]
/// struct Report { from: String, what: Any }
///
/// let fix = Fix { id: 7, at: [1.5, 2.0] };
/// let report = Report { from: "radar".to_owned(), what: Any::of(&fix)? };
/// assert_eq!(report.what.get::<Fix>()?, fix);
/// assert_eq!(
///     report.what.get::<u32>().unwrap_err().to_string(),
///     "this any holds `Fix`, which cannot be taken as uint32: `the type`: it is uint32, the writer's is a struct"
/// );
/// // Who has no such type finds out what it is.
/// assert_eq!(report.what.data()?.of().name(), "Fix");
/// assert!(report.what.data()?.to_json().contains("\"id\": 7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(DdsType, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[dds(crate = "idl_cdr", name = "any", nested)]
pub struct Any {
    type_objects: Vec<u8>,
    value: Vec<u8>,
}

impl Any {
    /// Holds a value. What its type is made of is put together anew each time.
    pub fn of<T: DdsType>(value: &T) -> Result<Self, CdrError> {
        let value = to_cdr(value)?;
        Ok(Self { type_objects: told(&DynamicType::of::<T>())?, value })
    }

    /// Holds a value of a type of run time.
    pub fn of_data(data: &DynamicData) -> Result<Self, DataError> {
        let value = data.to_cdr(Encoding::PLAIN_CDR2_LE)?;
        let path = || data.of().name().to_owned();
        let type_objects =
            told(data.of()).map_err(|source| DataError::Cdr { path: path(), source })?;
        Ok(Self { type_objects, value })
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.type_objects.is_empty() && self.value.is_empty()
    }

    /// The type of what it holds.
    pub fn dynamic_type(&self) -> Result<DynamicType, AnyError> {
        if self.is_empty() {
            return Err(AnyError::Empty);
        }
        let objects: TypeObjects = from_cdr(&self.type_objects).map_err(AnyError::Told)?;
        DynamicType::from_objects(&objects).map_err(AnyError::Type)
    }

    /// What it holds, if that can be read as a `T`: as a reader of a topic would read what a writer of the type that is held
    /// here has written, by the default of TYPE_CONSISTENCY_ENFORCEMENT.
    pub fn get<T: DdsType>(&self) -> Result<T, AnyError> {
        let (held, wanted) = (self.dynamic_type()?, DynamicType::of::<T>());
        let names = (held.name(), wanted.name());
        let refused = |why| AnyError::Other { held: words(&held), wanted: words(&wanted), why };
        // A type that was told without names, or has none, goes by what it is made of.
        if names.0 != names.1 && !names.0.is_empty() && !names.1.is_empty() {
            return Err(refused(None));
        }
        TypeConsistency::default().check(&wanted, &held).map_err(|why| refused(Some(why)))?;
        from_cdr(&self.value).map_err(AnyError::Value)
    }

    /// What it holds, as a value of the type that it tells.
    pub fn data(&self) -> Result<DynamicData, AnyError> {
        DynamicData::from_cdr(&self.dynamic_type()?, &self.value).map_err(AnyError::Data)
    }

    /// One of these bytes, whatever they are.
    pub(crate) fn of_parts(type_objects: Vec<u8>, value: Vec<u8>) -> Self {
        Self { type_objects, value }
    }

    pub(crate) fn type_objects(&self) -> &[u8] {
        &self.type_objects
    }

    /// It as a value among others of run time.
    pub(crate) fn to_value(&self) -> Value {
        let octets = |bytes: &[u8]| {
            Value::Collection(bytes.iter().map(|byte| Value::Unsigned((*byte).into())).collect())
        };
        Value::Structure(vec![octets(&self.type_objects), octets(&self.value)])
    }

    /// The one that a value is, if it is one.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let octet = |value: &Value| match value {
            Value::Unsigned(byte) => u8::try_from(*byte).ok(),
            _ => None,
        };
        let octets = |value: &Value| match value {
            Value::Collection(all) => all.iter().map(octet).collect::<Option<Vec<u8>>>(),
            _ => None,
        };
        match value {
            Value::Structure(parts) => match parts.as_slice() {
                [of, value] => Some(Self { type_objects: octets(of)?, value: octets(value)? }),
                _ => None,
            },
            _ => None,
        }
    }
}

fn told(of: &DynamicType) -> Result<Vec<u8>, CdrError> {
    to_cdr(&of.objects(ObjectKind::Complete))
}

/// A type in a message.
fn words(of: &DynamicType) -> String {
    match of.name() {
        "" => crate::words::word_of(of.graph.kind(of.root)).to_owned(),
        name => format!("`{name}`"),
    }
}

impl DynamicData {
    /// The `any` at a path.
    ///
    /// ```
    /// use idl_xtypes::{Any, DynamicData, DynamicType};
    ///
    /// let idl = idl::parse("report.idl", "struct Report { any what; };")?;
    /// let mut report = DynamicData::new(&DynamicType::from_idl(&idl, "Report")?);
    /// assert!(report.any("what")?.is_empty());
    /// report.set_any("what", &Any::of(&7_u32)?)?;
    /// assert_eq!(report.any("what")?.get::<u32>()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn any(&self, path: &str) -> Result<Any, DataError> {
        let none = || DataError::Unfit { path: path.to_owned(), reason: "is no any".to_owned() };
        Any::from_value(self.get_value(path)?).ok_or_else(none)
    }

    /// Sets the `any` at a path.
    pub fn set_any(&mut self, path: &str, any: &Any) -> Result<(), DataError> {
        self.set(path, any.to_value())
    }
}

/// Why an [`Any`] does not give what it was asked for.
///
/// ```
/// use idl_xtypes::{Any, AnyError};
///
/// assert_eq!(Any::default().get::<u32>(), Err(AnyError::Empty));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyError {
    /// It holds nothing.
    Empty,
    /// What it tells of its type cannot be read.
    Told(CdrError),
    /// What it tells is no type.
    Type(TypeObjectError),
    /// It holds a value of another type.
    Other {
        /// What it holds.
        held: String,
        /// What it was asked for.
        wanted: String,
        /// What is different, if not the name.
        why: Option<Mismatch>,
    },
    /// The value cannot be read as the type that was asked for.
    Value(CdrError),
    /// The value cannot be read as the type that it tells.
    Data(DataError),
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("this any is empty; ask `is_empty` first"),
            Self::Told(error) => write!(f, "what this any tells of its type is broken: {error}"),
            Self::Type(error) => write!(f, "what this any tells of its type is wrong: {error}"),
            Self::Other { held, wanted, why } => {
                write!(f, "this any holds {held}, which cannot be taken as {wanted}")?;
                match why {
                    Some(why) => write!(f, ": {why}"),
                    None => f.write_str("; ask for that type, or look at it with `data`"),
                }
            }
            Self::Value(error) => write!(f, "the value in this any is broken: {error}"),
            Self::Data(error) => write!(f, "the value in this any is broken: {error}"),
        }
    }
}

impl Error for AnyError {}
