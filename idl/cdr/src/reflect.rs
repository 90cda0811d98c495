//! Access to the parts of a value by index, without serialisation.
//!
//! Owns [`Reflect`], which every [`DdsType`] has and the derive macro writes, and [`ValueRef`], its
//! result. A [`MemberPath`] selects the part. Never does: change a value, allocate during access.
//!
//! ```
//! use idl_cdr::{DdsType, MemberPath, ValueRef};
//!
//! #[derive(DdsType)]
//! #[dds(crate = "idl_cdr")]
//! struct Track { aircraft: u32, altitude: f64, corners: Vec<Corner> }
//!
//! #[derive(DdsType)]
//! #[dds(crate = "idl_cdr")]
//! struct Corner { name: String, x: i16 }
//!
//! // Once, when a filter is made: the path is compared with the type, and errors say what is wrong.
//! let altitude = MemberPath::of::<Track>("altitude")?;
//! let corner = MemberPath::of::<Track>("corners[1].x")?;
//!
//! // For every sample:
//! let track = Track { aircraft: 7, altitude: 1200.0, corners: Vec::new() };
//! let limit = ValueRef::Signed(1000);
//! assert!(altitude.find(&track).compare(limit).is_some_and(|order| order.is_gt()));
//! assert!(matches!(corner.find(&track), ValueRef::Absent));
//! # Ok::<(), idl_cdr::PathError>(())
//! ```

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

#[cfg(doc)]
use crate::{DdsType, MemberPath};
use crate::{DdsUnion, Discriminator, Fixed, LongDouble, WChar, WString};

/// A value whose parts can be read by index.
///
/// Indices count from zero: the members of a struct or bitset in the order of declaration, those of
/// the base first; the elements of a sequence or array; the entries of a map in the map's order. In
/// a union, index 0 is the discriminator, and case `n` has the index `n + 1`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that DDS can carry",
    label = "not a DDS type",
    note = "add `#[derive(DdsType)]` to `{Self}` if it is yours"
)]
pub trait Reflect {
    /// Returns the value itself if it is simple; otherwise a reference to the parts.
    fn value(&self) -> ValueRef<'_>;

    /// Returns the number of parts: members, elements or entries.
    fn parts(&self) -> usize {
        0
    }

    /// Returns the part at an index; for a map, the value of an entry. [`ValueRef::Absent`] if
    /// there is none, as for an absent optional member or a case that is not selected.
    fn part(&self, _place: usize) -> ValueRef<'_> {
        ValueRef::Absent
    }

    /// Returns the key of a map's entry.
    fn key(&self, _place: usize) -> ValueRef<'_> {
        ValueRef::Absent
    }
}

/// A part found in a value: small values are copied, others borrowed.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    /// No value: an absent optional member, a case that is not selected, an index beyond the
    /// last element.
    Absent,
    /// A boolean.
    Bool(bool),
    /// A signed integer of any size.
    Signed(i64),
    /// An unsigned integer of any size.
    Unsigned(u64),
    /// A floating-point number of 32 bits.
    Float(f32),
    /// A floating-point number of 64 bits.
    Double(f64),
    /// A floating-point number of 128 bits.
    LongDouble(&'a LongDouble),
    /// A decimal number.
    Fixed {
        /// Digits without the decimal point.
        units: &'a i128,
        /// Number of digits after the decimal point.
        scale: u32,
    },
    /// A character of 8 bits.
    Char(char),
    /// A character of 16 bits.
    WideChar(WChar),
    /// A string, of 8 or 16 bits.
    Text(&'a str),
    /// An enumerator.
    Enumerator {
        /// Number of the enumerator.
        value: i32,
        /// IDL name.
        name: &'a str,
    },
    /// The bits of a bitmask.
    Bitmask(u64),
    /// A struct or bitset; its parts are its members.
    Structure(&'a dyn Reflect),
    /// A union; its parts are the discriminator and the cases.
    Union(&'a dyn Reflect),
    /// A sequence or array; its parts are the elements.
    Collection(&'a dyn Reflect),
    /// A map; its parts are the values, and each has a key.
    Map(&'a dyn Reflect),
}

impl<'a> ValueRef<'a> {
    /// Returns the value for access to its parts, if it has parts.
    #[inline]
    pub fn nested(self) -> Option<&'a dyn Reflect> {
        match self {
            Self::Structure(value)
            | Self::Union(value)
            | Self::Collection(value)
            | Self::Map(value) => Some(value),
            _ => None,
        }
    }

    /// Compares two comparable values: numbers of any kind with each other by numeric value; texts
    /// and characters; booleans; enumerators with each other and with integers by number, and with
    /// texts by name (then only equality is meaningful). `None` for all other pairs.
    #[inline]
    pub fn compare(self, other: ValueRef<'_>) -> Option<Ordering> {
        use ValueRef::{Bool, Double, Signed, Unsigned};
        match (self, other) {
            (Signed(one), Signed(other)) => Some(one.cmp(&other)),
            (Unsigned(one), Unsigned(other)) => Some(one.cmp(&other)),
            (Double(one), Double(other)) => one.partial_cmp(&other),
            (Bool(one), Bool(other)) => Some(one.cmp(&other)),
            // Literals in filters are usually integers.
            (Unsigned(one), Signed(other)) => Some(compare_signs(one, other)),
            (Signed(one), Unsigned(other)) => Some(compare_signs(other, one).reverse()),
            (Double(one), Signed(other @ LEAST_EXACT..=MOST_EXACT)) => {
                one.partial_cmp(&(other as f64))
            }
            (Signed(one @ LEAST_EXACT..=MOST_EXACT), Double(other)) => {
                (one as f64).partial_cmp(&other)
            }
            _ => compare_kinds(self, other),
        }
    }

    fn number(self) -> Option<Number> {
        Some(match self {
            Self::Signed(number) => Number::Integer(number.into()),
            Self::Unsigned(number) | Self::Bitmask(number) => Number::Integer(number.into()),
            Self::Enumerator { value, .. } => Number::Integer(value.into()),
            Self::Float(number) => Number::Floating(number.into()),
            Self::Double(number) => Number::Floating(number),
            Self::LongDouble(number) => Number::Long(*number),
            Self::Fixed { units, scale: 0 } => Number::Integer(*units),
            Self::Fixed { units, scale } => Number::Decimal(*units, scale),
            _ => return None,
        })
    }
}

/// Integers in this range are exact as doubles.
const LEAST_EXACT: i64 = -MOST_EXACT;
const MOST_EXACT: i64 = 1 << 53;

#[inline]
fn compare_signs(one: u64, other: i64) -> Ordering {
    u64::try_from(other).map_or(Ordering::Greater, |other| one.cmp(&other))
}

/// A number of any kind.
#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Floating(f64),
    Long(LongDouble),
    Decimal(i128, u32),
}

fn compare_kinds(one: ValueRef<'_>, other: ValueRef<'_>) -> Option<Ordering> {
    if let (Some(one), Some(other)) = (one.number(), other.number()) {
        return compare_numbers(one, other);
    }
    let (mut space, mut more_space) = ([0; 4], [0; 4]);
    Some(text_of(one, &mut space)?.cmp(text_of(other, &mut more_space)?))
}

fn text_of<'a>(value: ValueRef<'a>, space: &'a mut [u8; 4]) -> Option<&'a str> {
    match value {
        ValueRef::Text(text) | ValueRef::Enumerator { name: text, .. } => Some(text),
        ValueRef::Char(character) => Some(character.encode_utf8(space)),
        ValueRef::WideChar(unit) => Some(char::from(unit).encode_utf8(space)),
        _ => None,
    }
}

fn compare_numbers(one: Number, other: Number) -> Option<Ordering> {
    match (one, other) {
        (Number::Long(one), other) => one.compare(long(other)),
        (one, Number::Long(other)) => long(one).compare(other),
        (Number::Integer(one), Number::Integer(other)) => Some(one.cmp(&other)),
        (Number::Floating(one), Number::Floating(other)) => one.partial_cmp(&other),
        (Number::Integer(one), Number::Floating(other)) => compare_with_double(one, other),
        (Number::Floating(one), Number::Integer(other)) => {
            compare_with_double(other, one).map(Ordering::reverse)
        }
        (Number::Decimal(units, scale), Number::Floating(other)) => {
            decimal_to_double(units, scale).partial_cmp(&other)
        }
        (Number::Floating(one), Number::Decimal(units, scale)) => {
            one.partial_cmp(&decimal_to_double(units, scale))
        }
        (one, other) => {
            let ((one, scale), (other, other_scale)) = (decimal(one)?, decimal(other)?);
            // A value has at most 31 digits, or is an integer of 64 bits. If the scaling overflows,
            // the magnitude alone decides.
            let raise = |units: i128, by: u32| units.saturating_mul(10_i128.saturating_pow(by));
            let most = scale.max(other_scale);
            Some(raise(one, most - scale).cmp(&raise(other, most - other_scale)))
        }
    }
}

fn decimal(number: Number) -> Option<(i128, u32)> {
    match number {
        Number::Integer(units) => Some((units, 0)),
        Number::Decimal(units, scale) => Some((units, scale)),
        Number::Floating(_) | Number::Long(_) => None,
    }
}

/// Converts to 128 bits; exact except for decimals.
fn long(number: Number) -> LongDouble {
    match number {
        Number::Integer(value) => LongDouble::from_integer(value),
        Number::Floating(value) => value.into(),
        Number::Long(value) => value,
        Number::Decimal(units, scale) => LongDouble::from_decimal(units, scale),
    }
}

fn decimal_to_double(units: i128, scale: u32) -> f64 {
    units as f64 / 10_f64.powi(scale.min(64) as i32)
}

/// Compares an integer with a floating-point number without rounding either.
fn compare_with_double(integer: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Integers have 64 bits, so a double saturated at 128 bits is larger or smaller than all
    // of them.
    let whole = double.trunc() as i128;
    match integer.cmp(&whole) {
        Ordering::Equal => 0.0.partial_cmp(&double.fract()),
        order => Some(order),
    }
}

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("Absent"),
            Self::Bool(value) => write!(f, "Bool({value})"),
            Self::Signed(value) => write!(f, "Signed({value})"),
            Self::Unsigned(value) => write!(f, "Unsigned({value})"),
            Self::Float(value) => write!(f, "Float({value:?})"),
            Self::Double(value) => write!(f, "Double({value:?})"),
            Self::LongDouble(value) => write!(f, "LongDouble({value})"),
            Self::Fixed { units, scale } => write!(f, "Fixed({units}e-{scale})"),
            Self::Char(value) => write!(f, "Char({value:?})"),
            Self::WideChar(value) => write!(f, "WideChar({:?})", char::from(*value)),
            Self::Text(value) => write!(f, "Text({value:?})"),
            Self::Enumerator { value, name } => write!(f, "Enumerator({name} = {value})"),
            Self::Bitmask(bits) => write!(f, "Bitmask({bits:#x})"),
            Self::Structure(value) | Self::Union(value) | Self::Collection(value) => {
                f.debug_list().entries((0..value.parts()).map(|index| value.part(index))).finish()
            }
            Self::Map(value) => {
                let entries = (0..value.parts()).map(|index| (value.key(index), value.part(index)));
                f.debug_map().entries(entries).finish()
            }
        }
    }
}

macro_rules! reflect_as {
    ($($kind:ident($($of:ty),*);)*) => {
        $($(
            impl Reflect for $of {
                #[inline(always)]
                fn value(&self) -> ValueRef<'_> {
                    ValueRef::$kind((*self).into())
                }
            }
        )*)*
    };
}

reflect_as! {
    Bool(bool);
    Signed(i8, i16, i32, i64);
    Unsigned(u8, u16, u32, u64);
    Float(f32);
    Double(f64);
    Char(char);
    WideChar(WChar);
}

impl Reflect for LongDouble {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::LongDouble(self)
    }
}

impl<const DIGITS: u32, const SCALE: u32> Reflect for Fixed<DIGITS, SCALE> {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Fixed { units: self.units_ref(), scale: SCALE }
    }
}

impl Reflect for String {
    #[inline]
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Text(self)
    }
}

impl Reflect for WString {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Text(self)
    }
}

impl<T: Reflect> Reflect for Option<T> {
    #[inline]
    fn value(&self) -> ValueRef<'_> {
        self.as_ref().map_or(ValueRef::Absent, T::value)
    }
}

impl<T: Reflect> Reflect for Box<T> {
    fn value(&self) -> ValueRef<'_> {
        T::value(self)
    }
}

impl<T: Reflect> Reflect for Vec<T> {
    #[inline]
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Collection(self)
    }

    fn parts(&self) -> usize {
        self.len()
    }

    fn part(&self, index: usize) -> ValueRef<'_> {
        self.get(index).map_or(ValueRef::Absent, T::value)
    }
}

impl<T: Reflect, const N: usize> Reflect for [T; N] {
    #[inline]
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Collection(self)
    }

    fn parts(&self) -> usize {
        N
    }

    fn part(&self, index: usize) -> ValueRef<'_> {
        self.get(index).map_or(ValueRef::Absent, T::value)
    }
}

impl<K: Reflect, V: Reflect> Reflect for BTreeMap<K, V> {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Map(self)
    }

    fn parts(&self) -> usize {
        self.len()
    }

    fn part(&self, index: usize) -> ValueRef<'_> {
        self.values().nth(index).map_or(ValueRef::Absent, V::value)
    }

    fn key(&self, index: usize) -> ValueRef<'_> {
        self.keys().nth(index).map_or(ValueRef::Absent, K::value)
    }
}

/// Returns the discriminator of a union in this case as a value.
pub fn discriminator_of<T: DdsUnion>(value: &T) -> ValueRef<'static> {
    let label = value.label().or_else(|| crate::union::label_of::<T>(value.case()));
    label.and_then(T::Discriminator::value_of_label).unwrap_or(ValueRef::Absent)
}
