//! Samples of run-time types.
//!
//! Owns [`DynamicData`] and [`Value`], and access to members. Never knows bytes or text; the
//! sibling modules do.

mod cdr;
mod defaults;
pub(crate) mod layout;
mod plain;
mod serialized;
mod text;

use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use idl_cdr::{CdrError, Encoding, LongDouble, PathError, PathStep, Reflect, ValueRef, WChar};

pub(crate) use cdr::default_of_descriptor;
pub(crate) use defaults::{default_of, default_of_member, union_of_case};
pub use serialized::SerializedData;
pub use text::TextError;

use crate::DynamicType;
use crate::model::{NodeKind, Primitive, TypeGraph, TypeNodeId};

/// A value of a type that is known only at run time.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An absent optional member, or the member of a case without one.
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
    LongDouble(LongDouble),
    /// A decimal number.
    Fixed {
        /// Digits without the decimal point.
        units: i128,
        /// Number of digits after the decimal point.
        scale: u32,
    },
    /// A character of 8 bits.
    Char(char),
    /// A character of 16 bits.
    WideChar(WChar),
    /// A string, of 8 or 16 bits.
    Text(String),
    /// An enumerator.
    Enumerator {
        /// Number of the enumerator.
        value: i32,
        /// IDL name.
        name: Arc<str>,
    },
    /// The bits of a bitmask.
    Bitmask(u64),
    /// Members of a struct, those of its base first, or of a bitset.
    Structure(Vec<Value>),
    /// A union.
    Union(Box<UnionValue>),
    /// Elements of a sequence or array; arrays of several dimensions are arrays of arrays.
    Collection(Vec<Value>),
    /// Entries of a map, in the order of their keys.
    Map(Vec<(Value, Value)>),
}

/// Contents of a union.
#[derive(Clone, Debug, PartialEq)]
pub struct UnionValue {
    /// Discriminator, which selects the case.
    pub discriminator: Value,
    /// Index of the case, in the order of declaration.
    pub case: usize,
    /// Member of the case; [`Value::Absent`] if there is none.
    pub member: Value,
}

impl Reflect for Value {
    fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Absent => ValueRef::Absent,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Signed(value) => ValueRef::Signed(*value),
            Self::Unsigned(value) => ValueRef::Unsigned(*value),
            Self::Float(value) => ValueRef::Float(*value),
            Self::Double(value) => ValueRef::Double(*value),
            Self::LongDouble(value) => ValueRef::LongDouble(value),
            Self::Fixed { units, scale } => ValueRef::Fixed { units, scale: *scale },
            Self::Char(value) => ValueRef::Char(*value),
            Self::WideChar(value) => ValueRef::WideChar(*value),
            Self::Text(text) => ValueRef::Text(text),
            Self::Enumerator { value, name } => ValueRef::Enumerator { value: *value, name },
            Self::Bitmask(bits) => ValueRef::Bitmask(*bits),
            Self::Structure(_) => ValueRef::Structure(self),
            Self::Union(_) => ValueRef::Union(self),
            Self::Collection(_) => ValueRef::Collection(self),
            Self::Map(_) => ValueRef::Map(self),
        }
    }

    fn parts(&self) -> usize {
        match self {
            Self::Structure(parts) | Self::Collection(parts) => parts.len(),
            Self::Union(union) => union.case + 2,
            Self::Map(entries) => entries.len(),
            _ => 0,
        }
    }

    fn part(&self, index: usize) -> ValueRef<'_> {
        let part = match self {
            Self::Structure(parts) | Self::Collection(parts) => parts.get(index),
            Self::Union(union) if index == 0 => Some(&union.discriminator),
            Self::Union(union) if index == union.case + 1 => Some(&union.member),
            Self::Map(entries) => entries.get(index).map(|(_, value)| value),
            _ => None,
        };
        part.map_or(ValueRef::Absent, Self::value)
    }

    fn key(&self, index: usize) -> ValueRef<'_> {
        match self {
            Self::Map(entries) => {
                entries.get(index).map_or(ValueRef::Absent, |(key, _)| key.value())
            }
            _ => ValueRef::Absent,
        }
    }
}

impl Value {
    /// Compares keys of a map, which have the same type.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => one.total_cmp(other),
            (Self::Double(one), Self::Double(other)) => one.total_cmp(other),
            (Self::WideChar(one), Self::WideChar(other)) => one.cmp(other),
            (Self::Structure(one), Self::Structure(other))
            | (Self::Collection(one), Self::Collection(other)) => {
                let parts = one.iter().zip(other).map(|(one, other)| one.order(other));
                parts.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
            }
            (one, other) => one.value().compare(other.value()).unwrap_or(Ordering::Equal),
        }
    }

    /// Returns the number that selects a case of a union.
    pub(crate) fn label(&self) -> i64 {
        match self {
            Self::Bool(value) => i64::from(*value),
            Self::Signed(value) => *value,
            Self::Unsigned(value) | Self::Bitmask(value) => *value as i64,
            Self::Char(value) => i64::from(u32::from(*value)),
            Self::WideChar(value) => i64::from(value.0),
            Self::Enumerator { value, .. } => i64::from(*value),
            _ => 0,
        }
    }
}

/// Reason why a sample of a run-time type could not be written, read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataError {
    /// The bytes are invalid.
    Cdr {
        /// Path of the member.
        path: String,
        /// Error of the bytes.
        source: CdrError,
    },
    /// No such member exists.
    Path(PathError),
    /// The member's type does not allow the value.
    Unfit {
        /// Path of the member.
        path: String,
        /// Description of the error.
        reason: String,
    },
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cdr { path, source } => write!(f, "{path}: {source}"),
            Self::Path(error) => write!(f, "{error}"),
            Self::Unfit { path, reason } => write!(f, "`{path}` {reason}"),
        }
    }
}

impl Error for DataError {}

/// A sample of a type that is known only at run time.
///
/// ```
/// use idl_cdr::{DdsType, Encoding, from_cdr, to_cdr};
/// use idl_xtypes::{DynamicData, DynamicType, Value};
///
/// #[derive(DdsType, Debug, PartialEq)]
/// #[dds(crate = "idl_cdr")]
/// struct Track { name: String, position: [f64; 2] }
///
/// let of = DynamicType::of::<Track>();
/// let mut track = DynamicData::new(&of);
/// track.set("name", Value::Text("SQL7".to_owned()))?;
/// track.set("position[1]", Value::Double(4.5))?;
/// let payload = track.to_cdr(Encoding::default())?;
/// let typed = Track { name: "SQL7".to_owned(), position: [0.0, 4.5] };
/// assert_eq!(from_cdr::<Track>(&payload).unwrap(), typed);
/// assert_eq!(DynamicData::from_cdr(&of, &to_cdr(&typed).unwrap())?, track);
/// # Ok::<(), idl_xtypes::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DynamicData {
    of: DynamicType,
    value: Value,
}

impl PartialEq for DynamicData {
    /// Whether the values are equal, whatever their types.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Reflect for DynamicData {
    fn value(&self) -> ValueRef<'_> {
        self.value.value()
    }

    fn parts(&self) -> usize {
        self.value.parts()
    }

    fn part(&self, index: usize) -> ValueRef<'_> {
        self.value.part(index)
    }

    fn key(&self, index: usize) -> ValueRef<'_> {
        self.value.key(index)
    }
}

impl DynamicData {
    /// Makes a sample in which every member has its default: the declared one, or else zero, empty,
    /// absent, or the first of several.
    pub fn new(of: &DynamicType) -> Self {
        Self { of: of.clone(), value: default_of(&of.graph, of.root) }
    }

    /// Reads a sample from its payload.
    pub fn from_cdr(of: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        Ok(Self { of: of.clone(), value: cdr::read(of, payload, false)? })
    }

    /// Reads a sample from a key-only payload. Members outside the key have their defaults.
    pub fn from_key(of: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        Ok(Self { of: of.clone(), value: cdr::read(of, payload, true)? })
    }

    /// Reads a sample from its memory layout. `places` are the offsets of its parts
    /// from [`DdsType::places`](idl_cdr::DdsType::places).
    pub fn from_plain(of: &DynamicType, places: &[u32], bytes: &[u8]) -> Result<Self, DataError> {
        Ok(Self { of: of.clone(), value: plain::read(of, places, bytes)? })
    }

    /// Returns the payload.
    pub fn to_cdr(&self, encoding: Encoding) -> Result<Vec<u8>, DataError> {
        cdr::write(&self.of, &self.value, encoding)
    }

    /// Returns the key as XCDR2, big endian, without header; empty if the type has no key.
    pub fn key_to_cdr(&self) -> Result<Vec<u8>, DataError> {
        cdr::write_key(&self.of, &self.value)
    }

    /// Returns a key-only payload, framed like the type; for a type without key, only the header.
    pub fn key_to_cdr_with(&self, encoding: Encoding) -> Result<Vec<u8>, DataError> {
        cdr::write_key_payload(&self.of, &self.value, encoding)
    }

    /// Returns the key in 16 bytes: the key itself if the key of every value of the type fits,
    /// otherwise its MD5.
    pub fn key_hash(&self) -> Result<[u8; 16], DataError> {
        let key = self.key_to_cdr()?;
        if layout::keys_fit_hash(&self.of.graph, self.of.root) {
            let mut hash = [0; 16];
            hash[..key.len()].copy_from_slice(&key);
            return Ok(hash);
        }
        Ok(crate::hash::of_key(&key))
    }

    /// Parses a sample from text or JSON. Missing members have their defaults.
    pub fn parse(of: &DynamicType, text: &str) -> Result<Self, TextError> {
        Ok(Self { of: of.clone(), value: text::parse(of, text)? })
    }

    /// Returns the size of the output of [`write_cdr`](Self::write_cdr).
    pub fn cdr_size(&self, encoding: Encoding) -> Result<usize, DataError> {
        cdr::size(&self.of, &self.value, encoding)
    }

    /// Writes the payload at the start of the bytes, and returns its size. Allocates nothing.
    pub fn write_cdr(&self, encoding: Encoding, bytes: &mut [u8]) -> Result<usize, DataError> {
        cdr::write_into(&self.of, &self.value, encoding, bytes)
    }

    /// Returns the sample as text for human readers: names without quotes.
    pub fn to_text(&self) -> String {
        text::print(&self.of, &self.value, text::Style::Text)
    }

    /// Returns the sample as JSON.
    pub fn to_json(&self) -> String {
        text::print(&self.of, &self.value, text::Style::Json)
    }

    /// Returns the sample as JSON on one line.
    pub fn to_json_line(&self) -> String {
        // No value spans lines, so indentation at the start of a line has no meaning.
        self.to_json().lines().map(str::trim_start).collect()
    }

    /// Returns the type.
    pub fn of(&self) -> &DynamicType {
        &self.of
    }

    /// Returns the whole value.
    pub fn whole(&self) -> &Value {
        &self.value
    }

    /// Returns the part at a path: `position[1]`, `names["a"].x`, `choice.discriminator`.
    pub fn get(&self, path: &str) -> Result<ValueRef<'_>, DataError> {
        self.get_value(path).map(Value::value)
    }

    /// Returns the part at a path as a value, for example to clone it; [`Value::Absent`] if there
    /// is none.
    pub fn get_value(&self, path: &str) -> Result<&Value, DataError> {
        let graph = &self.of.graph;
        let (mut of, mut value) = (graph.resolved(self.of.root), Some(&self.value));
        for (offset, step) in idl_cdr::parse_path(path).map_err(DataError::Path)? {
            let fail =
                |reason| DataError::Path(PathError { path: path.to_owned(), offset, reason });
            let (part, next) = part_of(graph, of, &step).map_err(fail)?;
            value = value.and_then(|value| inside(value, &part));
            of = graph.resolved(next);
        }
        Ok(value.unwrap_or(&Value::Absent))
    }

    /// Sets the part at a path. An optional member on the way becomes present. A member of a union
    /// selects its case. An element must exist, or be the one after the last of a sequence, which
    /// is then added. A missing entry of a map is added.
    pub fn set(&mut self, path: &str, new: Value) -> Result<(), DataError> {
        let of = self.of.clone();
        let graph = &of.graph;
        let (mut node, mut optional, mut steps) = (graph.resolved(of.root), false, Vec::new());
        let fail = |offset, reason: String| {
            DataError::Path(PathError { path: path.to_owned(), offset, reason })
        };
        for (offset, step) in idl_cdr::parse_path(path).map_err(DataError::Path)? {
            let (part, next) = part_of(graph, node, &step).map_err(|why| fail(offset, why))?;
            optional = is_optional(graph, node, &part);
            steps.push((offset, node, part, next));
            node = graph.resolved(next);
        }
        if !(optional && new == Value::Absent) {
            layout::require_fit(graph, node, &new)
                .map_err(|reason| DataError::Unfit { path: path.to_owned(), reason })?;
        }
        let mut value = &mut self.value;
        for (offset, node, part, next) in steps {
            if *value == Value::Absent {
                *value = default_of(graph, node);
            }
            value = inside_mut(graph, node, value, &part, next).map_err(|why| fail(offset, why))?;
        }
        *value = new;
        Ok(())
    }
}

/// A step into a value.
pub(crate) enum ValueStep {
    Place(usize),
    /// A case of a union.
    Case(usize),
    Key(Value),
}

/// Returns the part of a type that a step leads to, and its type.
pub(crate) fn part_of(
    graph: &TypeGraph,
    of: TypeNodeId,
    step: &PathStep,
) -> Result<(ValueStep, TypeNodeId), String> {
    let no_member = |name: &str, names: Vec<&str>| {
        let names = names.join(", ");
        Err(format!("`{}` has no member `{name}`; it has {names}", graph.node(of).name))
    };
    match (graph.kind(of), step) {
        (NodeKind::Structure(structure), PathStep::Member(name)) => {
            let members = graph.members(structure);
            match members.iter().position(|member| *member.name.text == **name) {
                Some(place) => Ok((ValueStep::Place(place), members[place].of)),
                None => no_member(name, members.iter().map(|member| &*member.name.text).collect()),
            }
        }
        (NodeKind::Bitset(fields), PathStep::Member(name)) => {
            match fields.iter().position(|field| *field.name.text == **name) {
                Some(place) => Ok((ValueStep::Place(place), fields[place].of)),
                None => no_member(name, fields.iter().map(|field| &*field.name.text).collect()),
            }
        }
        (NodeKind::Union(union), PathStep::Member(name)) => {
            if **name == *union.discriminator.name.text {
                return Ok((ValueStep::Place(0), union.discriminator.of));
            }
            let members = || {
                let cases = union.cases.iter().enumerate();
                cases.filter_map(|(at, case)| Some((at, case.member.as_ref()?)))
            };
            match members().find(|(_, member)| *member.name.text == **name) {
                Some((case, member)) => Ok((ValueStep::Case(case), member.of)),
                None => no_member(name, members().map(|(_, member)| &*member.name.text).collect()),
            }
        }
        (NodeKind::Sequence { element, bound }, PathStep::Index(index)) => {
            let place = place(*index)?;
            match place < *bound as usize || *bound == crate::model::NO_BOUND {
                true => Ok((ValueStep::Place(place), element.of)),
                false => {
                    Err(format!("the sequence has at most {bound} elements, found index {place}"))
                }
            }
        }
        (NodeKind::Array { element, count }, PathStep::Index(index)) => {
            let place = place(*index)?;
            match place < *count as usize {
                true => Ok((ValueStep::Place(place), element.of)),
                false => Err(format!("the array has {count} elements, found index {place}")),
            }
        }
        (NodeKind::Sequence { .. } | NodeKind::Array { .. }, PathStep::Key(text))
            if idl_cdr::is_number(text) =>
        {
            Err(format!("the index {text} is out of bounds"))
        }
        (NodeKind::Map { key, value, .. }, step) => {
            Ok((ValueStep::Key(key_of(graph, key.of, step)?), value.of))
        }
        (kind, PathStep::Member(name)) => {
            Err(format!("{} has no member `{name}`", crate::words::kind_name(kind)))
        }
        (kind, _) => Err(format!("{} has no elements", crate::words::kind_name(kind))),
    }
}

fn place(index: i64) -> Result<usize, String> {
    usize::try_from(index).map_err(|_| format!("indexes of elements start at 0, found {index}"))
}

/// Returns the key of a map's entry that a path gives.
fn key_of(graph: &TypeGraph, of: TypeNodeId, step: &PathStep) -> Result<Value, String> {
    let key = match (graph.kind(of), step) {
        (NodeKind::Text { .. }, PathStep::Key(text)) => Value::Text(text.clone()),
        (NodeKind::Text { .. }, PathStep::Index(number)) => Value::Text(number.to_string()),
        (NodeKind::Enumeration { literals, .. }, PathStep::Key(text)) => {
            let literal = literals.iter().find(|literal| *literal.name.text == **text);
            literal.map_or(Value::Absent, |literal| Value::Enumerator {
                value: literal.value,
                name: literal.name.text.clone(),
            })
        }
        (NodeKind::Primitive(Primitive::Boolean), PathStep::Key(text)) => match &**text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::Absent,
        },
        (NodeKind::Primitive(Primitive::Char8), PathStep::Key(text))
            if text.chars().count() == 1 =>
        {
            Value::Char(text.chars().next().unwrap_or_default())
        }
        (NodeKind::Primitive(primitive), PathStep::Index(number)) => {
            layout::integer(*primitive, i128::from(*number)).unwrap_or(Value::Absent)
        }
        _ => Value::Absent,
    };
    match layout::require_fit(graph, of, &key) {
        Ok(()) => Ok(key),
        Err(_) => Err(format!("{step} is not a key of this map's key type")),
    }
}

fn inside<'a>(value: &'a Value, part: &ValueStep) -> Option<&'a Value> {
    match (value, part) {
        (Value::Structure(parts) | Value::Collection(parts), ValueStep::Place(place)) => {
            parts.get(*place)
        }
        (Value::Union(union), ValueStep::Place(_)) => Some(&union.discriminator),
        (Value::Union(union), ValueStep::Case(case)) if union.case == *case => Some(&union.member),
        (Value::Map(entries), ValueStep::Key(key)) => {
            entries.iter().find(|(other, _)| other == key).map(|(_, value)| value)
        }
        _ => None,
    }
}

fn is_optional(graph: &TypeGraph, of: TypeNodeId, part: &ValueStep) -> bool {
    match (graph.kind(of), part) {
        (NodeKind::Structure(structure), ValueStep::Place(place)) => {
            graph.members(structure).get(*place).is_some_and(|member| member.optional)
        }
        _ => false,
    }
}

fn inside_mut<'a>(
    graph: &TypeGraph,
    of: TypeNodeId,
    value: &'a mut Value,
    part: &ValueStep,
    part_type: TypeNodeId,
) -> Result<&'a mut Value, String> {
    let is_sequence = matches!(graph.kind(of), NodeKind::Sequence { .. });
    match (value, part) {
        (Value::Structure(parts) | Value::Collection(parts), ValueStep::Place(place)) => {
            let count = parts.len();
            if *place == count && is_sequence {
                parts.push(default_of(graph, part_type));
            }
            parts
                .get_mut(*place)
                .ok_or_else(|| format!("the value has {count} elements, found index {place}"))
        }
        (Value::Union(_), ValueStep::Place(_)) => {
            Err("the discriminator follows from the member: set the member".to_owned())
        }
        (Value::Union(union), ValueStep::Case(case)) => {
            if union.case != *case
                && let NodeKind::Union(of) = graph.kind(of)
            {
                **union = union_of_case(graph, of, *case);
            }
            Ok(&mut union.member)
        }
        (Value::Map(entries), ValueStep::Key(key)) => {
            let found = entries.binary_search_by(|(other, _)| other.order(key));
            let place = found.unwrap_or_else(|place| {
                entries.insert(place, (key.clone(), default_of(graph, part_type)));
                place
            });
            Ok(&mut entries[place].1)
        }
        _ => Err("the value has no parts".to_owned()),
    }
}
