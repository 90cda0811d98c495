//! Access to the fields of policies by name, for generic reading, writing and listing.
//!
//! Owns: the type of each field, and one value type for all of them. Never does: define the form of
//! a value in a file.

use crate::policies::*;
use crate::{Duration, Length, PolicyId};
use std::fmt;

/// A field of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name in the standard: `max_blocking_time`.
    pub name: &'static str,
    /// Type of the values.
    pub ty: FieldType,
}

/// Type of a field's values.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// True or false.
    Bool,
    /// An unsigned number.
    Unsigned,
    /// A signed number.
    Signed,
    /// A limit.
    Length,
    /// A span of time.
    Duration,
    /// One of these names.
    Kind(&'static Names),
    /// Bytes.
    Octets,
    /// Texts.
    Texts,
    /// A list of these names.
    Kinds(&'static Names),
}

/// Names of the values of a kind.
#[derive(Debug)]
pub struct Names {
    /// Names in Rust's spelling.
    pub(crate) variants: &'static [&'static str],
    /// Suffix of the standard's constants: `_RELIABILITY_QOS`.
    pub(crate) suffix: &'static str,
}

impl Names {
    /// Returns the number of names.
    pub const fn count(&self) -> usize {
        self.variants.len()
    }

    /// Returns a name without the common suffix: `BEST_EFFORT`; `None` beyond the last.
    pub fn short(&self, index: usize) -> Option<String> {
        self.variants.get(index).map(|variant| screaming(variant).collect())
    }

    /// Returns the standard's constant: `BEST_EFFORT_RELIABILITY_QOS`.
    pub fn constant(&self, index: usize) -> Option<String> {
        self.short(index).map(|name| name + self.suffix)
    }

    /// Returns the index of a name, in short or full form.
    pub fn find(&self, name: &str) -> Option<usize> {
        let short = name.strip_suffix(self.suffix).unwrap_or(name);
        self.variants.iter().position(|variant| screaming(variant).eq(short.chars()))
    }
}

/// Converts `BestEffort` to `BEST_EFFORT`.
fn screaming(variant: &'static str) -> impl Iterator<Item = char> {
    variant.char_indices().flat_map(|(at, letter)| {
        let gap = (at > 0 && letter.is_ascii_uppercase()).then_some('_');
        gap.into_iter().chain([letter.to_ascii_uppercase()])
    })
}

/// A value of any field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// An unsigned number.
    Unsigned(u32),
    /// A signed number.
    Signed(i32),
    /// A limit.
    Length(Length),
    /// A span of time.
    Duration(Duration),
    /// Index of a name of its kind.
    Kind(u8),
    /// Bytes.
    Octets(Vec<u8>),
    /// Texts.
    Texts(Vec<String>),
    /// Indices of names of their kind.
    Kinds(Vec<u8>),
}

impl Field {
    /// Formats a value of this field for human readers: kinds by their short names, bytes
    /// in hexadecimal.
    pub fn show<'a>(&self, value: &'a Value) -> impl fmt::Display + use<'a> {
        ValueDisplay { ty: self.ty, value }
    }
}

struct ValueDisplay<'a> {
    ty: FieldType,
    value: &'a Value,
}

impl fmt::Display for ValueDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |index: &u8| match self.ty {
            FieldType::Kind(names) | FieldType::Kinds(names) => names.short(usize::from(*index)),
            _ => None,
        };
        match self.value {
            Value::Bool(value) => value.fmt(f),
            Value::Unsigned(value) => value.fmt(f),
            Value::Signed(value) => value.fmt(f),
            Value::Length(value) => value.fmt(f),
            Value::Duration(value) => value.fmt(f),
            Value::Kind(index) => f.write_str(&name(index).unwrap_or_default()),
            Value::Octets(bytes) if bytes.is_empty() => f.write_str("none"),
            Value::Octets(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Texts(texts) if texts.is_empty() => f.write_str("none"),
            Value::Texts(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
                f.write_str(&texts.join(", "))
            }
            Value::Kinds(kinds) if kinds.is_empty() => f.write_str("none"),
            Value::Kinds(kinds) => {
                let kinds: Vec<String> = kinds.iter().filter_map(name).collect();
                f.write_str(&kinds.join(", "))
            }
        }
    }
}

/// Conversion between a field's Rust type and [`Value`].
pub(crate) trait FieldValue: Sized {
    const TYPE: FieldType;
    fn to_value(&self) -> Value;
    /// Converts from a value; `None` if the value is of another type.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! field_value {
    ($ty:ty, $variant:ident) => {
        impl FieldValue for $ty {
            const TYPE: FieldType = FieldType::$variant;

            fn to_value(&self) -> Value {
                Value::$variant(self.clone())
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }
    };
}

field_value!(bool, Bool);
field_value!(u32, Unsigned);
field_value!(i32, Signed);
field_value!(Length, Length);
field_value!(Duration, Duration);
field_value!(Vec<u8>, Octets);
field_value!(Vec<String>, Texts);

impl FieldValue for Vec<DataRepresentationId> {
    const TYPE: FieldType = FieldType::Kinds(&DataRepresentationId::NAMES);

    fn to_value(&self) -> Value {
        Value::Kinds(self.iter().map(|id| *id as u8).collect())
    }

    fn from_value(value: &Value) -> Option<Self> {
        let Value::Kinds(kinds) = value else { return None };
        kinds.iter().map(|kind| DataRepresentationId::at(*kind)).collect()
    }
}

/// A policy of any type.
pub(crate) trait Policy {
    /// Returns the value of a field; `None` beyond the last.
    fn get(&self, field: usize) -> Option<Value>;
    /// Sets a field; false if there is no such field, or if the value is of another type.
    fn set(&mut self, field: usize, value: &Value) -> bool;
}

/// Lists a policy's fields.
macro_rules! fields {
    ($name:ident { $($field:ident: $ty:ty,)* }) => {
        impl $name {
            pub(crate) const FIELDS: &'static [crate::fields::Field] = &[$(crate::fields::Field {
                name: stringify!($field),
                ty: <$ty as crate::fields::FieldValue>::TYPE,
            }),*];
        }

        impl crate::fields::Policy for $name {
            fn get(&self, field: usize) -> Option<crate::fields::Value> {
                #[allow(non_camel_case_types, reason = "the fields' names")]
                enum At { $($field),* }
                $(
                    if field == At::$field as usize {
                        return Some(crate::fields::FieldValue::to_value(&self.$field));
                    }
                )*
                None
            }

            fn set(&mut self, field: usize, value: &crate::fields::Value) -> bool {
                #[allow(non_camel_case_types, reason = "the fields' names")]
                enum At { $($field),* }
                $(
                    if field == At::$field as usize {
                        return match crate::fields::FieldValue::from_value(value) {
                            Some(value) => {
                                self.$field = value;
                                true
                            }
                            None => false,
                        };
                    }
                )*
                false
            }
        }
    };
}
pub(crate) use fields;

impl PolicyId {
    /// Returns the policy's fields, with the standard's names and in its order.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::UserData => UserDataQosPolicy::FIELDS,
            Self::Durability => DurabilityQosPolicy::FIELDS,
            Self::Presentation => PresentationQosPolicy::FIELDS,
            Self::Deadline => DeadlineQosPolicy::FIELDS,
            Self::LatencyBudget => LatencyBudgetQosPolicy::FIELDS,
            Self::Ownership => OwnershipQosPolicy::FIELDS,
            Self::OwnershipStrength => OwnershipStrengthQosPolicy::FIELDS,
            Self::Liveliness => LivelinessQosPolicy::FIELDS,
            Self::TimeBasedFilter => TimeBasedFilterQosPolicy::FIELDS,
            Self::Partition => PartitionQosPolicy::FIELDS,
            Self::Reliability => ReliabilityQosPolicy::FIELDS,
            Self::DestinationOrder => DestinationOrderQosPolicy::FIELDS,
            Self::History => HistoryQosPolicy::FIELDS,
            Self::ResourceLimits => ResourceLimitsQosPolicy::FIELDS,
            Self::EntityFactory => EntityFactoryQosPolicy::FIELDS,
            Self::WriterDataLifecycle => WriterDataLifecycleQosPolicy::FIELDS,
            Self::ReaderDataLifecycle => ReaderDataLifecycleQosPolicy::FIELDS,
            Self::TopicData => TopicDataQosPolicy::FIELDS,
            Self::GroupData => GroupDataQosPolicy::FIELDS,
            Self::TransportPriority => TransportPriorityQosPolicy::FIELDS,
            Self::Lifespan => LifespanQosPolicy::FIELDS,
            Self::DurabilityService => DurabilityServiceQosPolicy::FIELDS,
            Self::DataRepresentation => DataRepresentationQosPolicy::FIELDS,
            Self::TypeConsistencyEnforcement => TypeConsistencyEnforcementQosPolicy::FIELDS,
        }
    }
}
