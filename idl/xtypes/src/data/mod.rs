//! A sample of a type of run time.
//!
//! Owns [`DynamicData`] and [`Value`], and how members are reached. Never knows
//! bytes or text; those are beside it.

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
use crate::model::{Graph, Kind, NodeId, Primitive};

/// A value of a type that is known at run time only.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An optional member that is not there, or the member of a case that has none.
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
        /// Its digits, the point left out.
        units: i128,
        /// How many of them are behind the point.
        scale: u32,
    },
    /// A character of 8 bits.
    Char(char),
    /// A character of 16 bits.
    WideChar(WChar),
    /// A string, of 8 or 16 bits.
    Text(String),
    /// One name of an enumeration.
    Enumerator {
        /// Its number.
        value: i32,
        /// Its name in IDL.
        name: Arc<str>,
    },
    /// The bits of a bitmask.
    Bitmask(u64),
    /// The members of a struct, those of its base first, or of a bitset.
    Structure(Vec<Value>),
    /// A union.
    Union(Box<UnionValue>),
    /// The elements of a sequence or array; arrays of several dimensions are arrays of arrays.
    Collection(Vec<Value>),
    /// The entries of a map, in the order of their keys.
    Map(Vec<(Value, Value)>),
}

/// What a union holds.
#[derive(Clone, Debug, PartialEq)]
pub struct UnionValue {
    /// What selects the case.
    pub discriminator: Value,
    /// Which case it is, in the order of their declaration.
    pub case: usize,
    /// Its member, if it has one.
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

    fn part(&self, place: usize) -> ValueRef<'_> {
        let part = match self {
            Self::Structure(parts) | Self::Collection(parts) => parts.get(place),
            Self::Union(union) if place == 0 => Some(&union.discriminator),
            Self::Union(union) if place == union.case + 1 => Some(&union.member),
            Self::Map(entries) => entries.get(place).map(|(_, value)| value),
            _ => None,
        };
        part.map_or(ValueRef::Absent, Self::value)
    }

    fn key(&self, place: usize) -> ValueRef<'_> {
        match self {
            Self::Map(entries) => {
                entries.get(place).map_or(ValueRef::Absent, |(key, _)| key.value())
            }
            _ => ValueRef::Absent,
        }
    }
}

impl Value {
    /// The order of a map's keys, which are of one type.
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

    /// The number that selects a case of a union.
    pub(crate) fn label(&self) -> i64 {
        match self {
            Self::Bool(value) => i64::from(*value),
            Self::Signed(value) => *value,
            Self::Unsigned(value) => *value as i64,
            Self::Char(value) => i64::from(u32::from(*value)),
            Self::WideChar(value) => i64::from(value.0),
            Self::Enumerator { value, .. } => i64::from(*value),
            _ => 0,
        }
    }
}

/// Why a sample of a type of run time could not be written, read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataError {
    /// Its bytes.
    Cdr {
        /// The member, and those on the way.
        path: String,
        /// What is wrong.
        source: CdrError,
    },
    /// There is no such member.
    Path(PathError),
    /// A value that the member's type does not have.
    Unfit {
        /// The member.
        path: String,
        /// What is wrong.
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

/// A sample of a type that is known at run time only.
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
    /// The same value, whatever it is of.
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

    fn part(&self, place: usize) -> ValueRef<'_> {
        self.value.part(place)
    }

    fn key(&self, place: usize) -> ValueRef<'_> {
        self.value.key(place)
    }
}

impl DynamicData {
    /// A sample in which every member has its default: what is said of it, or zero, empty, absent, the first of several.
    pub fn new(of: &DynamicType) -> Self {
        Self { of: of.clone(), value: default_of(&of.graph, of.root) }
    }

    /// The sample of which this is the payload.
    pub fn from_cdr(of: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        Ok(Self { of: of.clone(), value: cdr::read(of, payload, false)? })
    }

    /// The sample of which this is the payload of the key alone; what is not in the key has its default.
    pub fn from_key(of: &DynamicType, payload: &[u8]) -> Result<Self, DataError> {
        Ok(Self { of: of.clone(), value: cdr::read(of, payload, true)? })
    }

    /// The sample that lies so in memory; `places` are those of its parts, as [`DdsType::places`](idl_cdr::DdsType::places)
    /// gives them.
    pub fn from_plain(of: &DynamicType, places: &[u32], bytes: &[u8]) -> Result<Self, DataError> {
        Ok(Self { of: of.clone(), value: plain::read(of, places, bytes)? })
    }

    /// Its payload.
    pub fn to_cdr(&self, encoding: Encoding) -> Result<Vec<u8>, DataError> {
        cdr::write(&self.of, &self.value, encoding)
    }

    /// Its key as XCDR2, big endian, without header; empty if the type has no key.
    pub fn key_to_cdr(&self) -> Result<Vec<u8>, DataError> {
        cdr::write_key(&self.of, &self.value)
    }

    /// A payload that has its key alone, framed as the type is; without a key, the header alone.
    pub fn key_to_cdr_with(&self, encoding: Encoding) -> Result<Vec<u8>, DataError> {
        cdr::write_key_payload(&self.of, &self.value, encoding)
    }

    /// Its key in 16 bytes: the key itself if that of every value of the type fits, else its MD5.
    pub fn key_hash(&self) -> Result<[u8; 16], DataError> {
        let key = self.key_to_cdr()?;
        if layout::keys_fit_hash(&self.of.graph, self.of.root) {
            let mut hash = [0; 16];
            hash[..key.len()].copy_from_slice(&key);
            return Ok(hash);
        }
        Ok(crate::hash::of_key(&key))
    }

    /// The sample that a text or JSON says. Members that are not there have their defaults.
    pub fn parse(of: &DynamicType, text: &str) -> Result<Self, TextError> {
        Ok(Self { of: of.clone(), value: text::parse(of, text)? })
    }

    /// The size of what [`write_cdr`](Self::write_cdr) writes.
    pub fn cdr_size(&self, encoding: Encoding) -> Result<usize, DataError> {
        cdr::size(&self.of, &self.value, encoding)
    }

    /// Writes its payload at the start of the bytes, and gives its size. Allocates nothing.
    pub fn write_cdr(&self, encoding: Encoding, bytes: &mut [u8]) -> Result<usize, DataError> {
        cdr::write_into(&self.of, &self.value, encoding, bytes)
    }

    /// It as text, for people: names without quotes.
    pub fn to_text(&self) -> String {
        text::print(&self.of, &self.value, text::Style::Text)
    }

    /// It as JSON.
    pub fn to_json(&self) -> String {
        text::print(&self.of, &self.value, text::Style::Json)
    }

    /// It as JSON on one line.
    pub fn to_json_line(&self) -> String {
        // No line ends within a value, so what begins a line is only there to be looked at.
        self.to_json().lines().map(str::trim_start).collect()
    }

    /// Its type.
    pub fn of(&self) -> &DynamicType {
        &self.of
    }

    /// All of it.
    pub fn whole(&self) -> &Value {
        &self.value
    }

    /// What is at a path: `position[1]`, `names["a"].x`, `choice.discriminator`.
    pub fn get(&self, path: &str) -> Result<ValueRef<'_>, DataError> {
        let graph = &self.of.graph;
        let (mut of, mut value) = (graph.resolved(self.of.root), Some(&self.value));
        for (offset, step) in idl_cdr::parse_path(path).map_err(DataError::Path)? {
            let fail =
                |reason| DataError::Path(PathError { path: path.to_owned(), offset, reason });
            let (part, next) = part_of(graph, of, &step).map_err(fail)?;
            value = value.and_then(|value| inside(value, &part));
            of = graph.resolved(next);
        }
        Ok(value.map_or(ValueRef::Absent, Value::value))
    }

    /// Sets what is at a path. An optional member on the way is there afterwards; a member of a union selects
    /// its case; an element must be there, and one just behind the last of a sequence is added; so is an entry
    /// of a map.
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
pub(crate) enum Part {
    Place(usize),
    /// Of a union.
    Case(usize),
    Key(Value),
}

/// The part of a type that a step leads to, and what that is of.
pub(crate) fn part_of(
    graph: &Graph,
    of: NodeId,
    step: &PathStep,
) -> Result<(Part, NodeId), String> {
    let no_member = |name: &str, names: Vec<&str>| {
        let names = names.join(", ");
        Err(format!("`{}` has no member `{name}`; it has {names}", graph.node(of).name))
    };
    match (graph.kind(of), step) {
        (Kind::Structure(structure), PathStep::Member(name)) => {
            let members = graph.members(structure);
            match members.iter().position(|member| *member.name.text == **name) {
                Some(place) => Ok((Part::Place(place), members[place].of)),
                None => no_member(name, members.iter().map(|member| &*member.name.text).collect()),
            }
        }
        (Kind::Bitset(fields), PathStep::Member(name)) => {
            match fields.iter().position(|field| *field.name.text == **name) {
                Some(place) => Ok((Part::Place(place), fields[place].of)),
                None => no_member(name, fields.iter().map(|field| &*field.name.text).collect()),
            }
        }
        (Kind::Union(union), PathStep::Member(name)) => {
            if **name == *union.discriminator.name.text {
                return Ok((Part::Place(0), union.discriminator.of));
            }
            let members = || {
                let cases = union.cases.iter().enumerate();
                cases.filter_map(|(at, case)| Some((at, case.member.as_ref()?)))
            };
            match members().find(|(_, member)| *member.name.text == **name) {
                Some((case, member)) => Ok((Part::Case(case), member.of)),
                None => no_member(name, members().map(|(_, member)| &*member.name.text).collect()),
            }
        }
        (Kind::Sequence { element, .. }, PathStep::Index(index)) => {
            Ok((Part::Place(place(*index)?), element.of))
        }
        (Kind::Array { element, count }, PathStep::Index(index)) => {
            let place = place(*index)?;
            match place < *count as usize {
                true => Ok((Part::Place(place), element.of)),
                false => Err(format!("the array has {count} elements, there is none {place}")),
            }
        }
        (Kind::Map { key, value, .. }, step) => {
            Ok((Part::Key(key_of(graph, key.of, step)?), value.of))
        }
        (kind, PathStep::Member(name)) => {
            Err(format!("{} has no member `{name}`", crate::words::word_of(kind)))
        }
        (kind, _) => Err(format!("{} has no elements", crate::words::word_of(kind))),
    }
}

fn place(index: i64) -> Result<usize, String> {
    usize::try_from(index)
        .map_err(|_| format!("elements are counted from 0, there is none {index}"))
}

/// The key of a map's entry as a path has it.
fn key_of(graph: &Graph, of: NodeId, step: &PathStep) -> Result<Value, String> {
    let key = match (graph.kind(of), step) {
        (Kind::Text { .. }, PathStep::Key(text)) => Value::Text(text.clone()),
        (Kind::Text { .. }, PathStep::Index(number)) => Value::Text(number.to_string()),
        (Kind::Enumeration { literals, .. }, PathStep::Key(text)) => {
            let literal = literals.iter().find(|literal| *literal.name.text == **text);
            literal.map_or(Value::Absent, |literal| Value::Enumerator {
                value: literal.value,
                name: literal.name.text.clone(),
            })
        }
        (Kind::Primitive(Primitive::Boolean), PathStep::Key(text)) => match &**text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::Absent,
        },
        (Kind::Primitive(Primitive::Char8), PathStep::Key(text)) if text.chars().count() == 1 => {
            Value::Char(text.chars().next().unwrap_or_default())
        }
        (Kind::Primitive(primitive), PathStep::Index(number)) => {
            layout::integer(*primitive, i128::from(*number)).unwrap_or(Value::Absent)
        }
        _ => Value::Absent,
    };
    match layout::require_fit(graph, of, &key) {
        Ok(()) => Ok(key),
        Err(_) => Err(format!("{step} is no key of this map")),
    }
}

fn inside<'a>(value: &'a Value, part: &Part) -> Option<&'a Value> {
    match (value, part) {
        (Value::Structure(parts) | Value::Collection(parts), Part::Place(place)) => {
            parts.get(*place)
        }
        (Value::Union(union), Part::Place(_)) => Some(&union.discriminator),
        (Value::Union(union), Part::Case(case)) if union.case == *case => Some(&union.member),
        (Value::Map(entries), Part::Key(key)) => {
            entries.iter().find(|(other, _)| other == key).map(|(_, value)| value)
        }
        _ => None,
    }
}

fn is_optional(graph: &Graph, of: NodeId, part: &Part) -> bool {
    match (graph.kind(of), part) {
        (Kind::Structure(structure), Part::Place(place)) => {
            graph.members(structure).get(*place).is_some_and(|member| member.optional)
        }
        _ => false,
    }
}

fn inside_mut<'a>(
    graph: &Graph,
    of: NodeId,
    value: &'a mut Value,
    part: &Part,
    part_type: NodeId,
) -> Result<&'a mut Value, String> {
    let is_sequence = matches!(graph.kind(of), Kind::Sequence { .. });
    match (value, part) {
        (Value::Structure(parts) | Value::Collection(parts), Part::Place(place)) => {
            let count = parts.len();
            if *place == count && is_sequence {
                parts.push(default_of(graph, part_type));
            }
            parts
                .get_mut(*place)
                .ok_or_else(|| format!("it has {count} elements, there is none {place}"))
        }
        (Value::Union(_), Part::Place(_)) => {
            Err("the discriminator follows from the member: set that".to_owned())
        }
        (Value::Union(union), Part::Case(case)) => {
            if union.case != *case
                && let Kind::Union(of) = graph.kind(of)
            {
                **union = union_of_case(graph, of, *case);
            }
            Ok(&mut union.member)
        }
        (Value::Map(entries), Part::Key(key)) => {
            let found = entries.binary_search_by(|(other, _)| other.order(key));
            let place = found.unwrap_or_else(|place| {
                entries.insert(place, (key.clone(), default_of(graph, part_type)));
                place
            });
            Ok(&mut entries[place].1)
        }
        _ => Err("there is nothing inside of it".to_owned()),
    }
}
