//! IDL's `any`: a value together with its type.
//!
//! Owns its form and the two ways to make and read it: by a type of the program, and by the type it
//! carries. The standard has no encoding for `any`, so it is a struct here, which every other
//! implementation can read as a struct. Never reads the contents before a caller asks for them;
//! only then are the bytes from a peer checked.
//!
//! ```text
//!  type_objects | sequence<octet>: the payload of the complete TypeObjects, dependencies first |
//!  value        | sequence<octet>: the payload of the value                                    |
//! ```
//! Both are XCDR2, little endian, with their encapsulation headers, whatever the surrounding
//! encoding. Both are empty if the `any` is empty.

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
///     "this any holds `Fix`, which cannot be taken as uint32: `the type`: uint32 in the reader's type, a struct in the writer's"
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
    /// Makes an `any` from a value. The type objects are built again on each call.
    pub fn of<T: DdsType>(value: &T) -> Result<Self, CdrError> {
        let value = to_cdr(value)?;
        Ok(Self { type_objects: encoded_type(&DynamicType::of::<T>())?, value })
    }

    /// Makes an `any` from a value of a run-time type.
    pub fn of_data(data: &DynamicData) -> Result<Self, DataError> {
        let value = data.to_cdr(Encoding::PLAIN_CDR2_LE)?;
        let path = || data.of().name().to_owned();
        let type_objects =
            encoded_type(data.of()).map_err(|source| DataError::Cdr { path: path(), source })?;
        Ok(Self { type_objects, value })
    }

    /// Whether the `any` is empty.
    pub fn is_empty(&self) -> bool {
        self.type_objects.is_empty() && self.value.is_empty()
    }

    /// Returns the type of the contents.
    pub fn dynamic_type(&self) -> Result<DynamicType, AnyError> {
        if self.is_empty() {
            return Err(AnyError::Empty);
        }
        let objects: TypeObjects = from_cdr(&self.type_objects).map_err(AnyError::Told)?;
        DynamicType::from_objects(&objects).map_err(AnyError::Type)
    }

    /// Returns the contents as a `T`, if possible: with the rules by which a reader of `T` reads
    /// samples from a writer of the contained type, and the default TYPE_CONSISTENCY_ENFORCEMENT.
    pub fn get<T: DdsType>(&self) -> Result<T, AnyError> {
        let (held, wanted) = (self.dynamic_type()?, DynamicType::of::<T>());
        let names = (held.name(), wanted.name());
        let refused = |why| AnyError::Other { held: words(&held), wanted: words(&wanted), why };
        // A type without a name, or with an unknown one, is compared by its contents only.
        if names.0 != names.1 && !names.0.is_empty() && !names.1.is_empty() {
            return Err(refused(None));
        }
        TypeConsistency::default().check(&wanted, &held).map_err(|why| refused(Some(why)))?;
        from_cdr(&self.value).map_err(AnyError::Value)
    }

    /// Returns the contents as a value of the type that the `any` carries.
    pub fn data(&self) -> Result<DynamicData, AnyError> {
        DynamicData::from_cdr(&self.dynamic_type()?, &self.value).map_err(AnyError::Data)
    }

    /// Makes an `any` from bytes, without a check.
    pub(crate) fn of_parts(type_objects: Vec<u8>, value: Vec<u8>) -> Self {
        Self { type_objects, value }
    }

    pub(crate) fn type_objects(&self) -> &[u8] {
        &self.type_objects
    }

    /// Converts to a run-time value.
    pub(crate) fn to_value(&self) -> Value {
        let octets = |bytes: &[u8]| {
            Value::Collection(bytes.iter().map(|byte| Value::Unsigned((*byte).into())).collect())
        };
        Value::Structure(vec![octets(&self.type_objects), octets(&self.value)])
    }

    /// Converts from a run-time value, if it is an `any`.
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

fn encoded_type(of: &DynamicType) -> Result<Vec<u8>, CdrError> {
    to_cdr(&of.objects(ObjectKind::Complete))
}

/// Name of a type in a message.
fn words(of: &DynamicType) -> String {
    match of.name() {
        "" => crate::words::kind_name(of.graph.kind(of.root)).to_owned(),
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
        let none =
            || DataError::Unfit { path: path.to_owned(), reason: "is not an any".to_owned() };
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
    /// The `any` is empty.
    Empty,
    /// The type objects cannot be read.
    Told(CdrError),
    /// The type objects are not a valid type.
    Type(TypeObjectError),
    /// The `any` holds a value of another type.
    Other {
        /// Type of the contents.
        held: String,
        /// Requested type.
        wanted: String,
        /// Difference between the types, if it is not the name.
        why: Option<Mismatch>,
    },
    /// The value cannot be read as the requested type.
    Value(CdrError),
    /// The value cannot be read as the type that the `any` carries.
    Data(DataError),
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("this any is empty; ask `is_empty` first"),
            Self::Told(error) => write!(f, "the type objects of this any cannot be read: {error}"),
            Self::Type(error) => {
                write!(f, "the type objects of this any are not a valid type: {error}")
            }
            Self::Other { held, wanted, why } => {
                write!(f, "this any holds {held}, which cannot be taken as {wanted}")?;
                match why {
                    Some(why) => write!(f, ": {why}"),
                    None => f.write_str("; ask for that type, or read the value with `data`"),
                }
            }
            Self::Value(error) => write!(f, "the value in this any cannot be read: {error}"),
            Self::Data(error) => write!(f, "the value in this any cannot be read: {error}"),
        }
    }
}

impl Error for AnyError {}
