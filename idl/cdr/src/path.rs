//! Paths to parts of a value: `position.corners[2].x`.
//!
//! Owns the text form of a path and its comparison with a type. Never looks at a value by itself.

use std::error::Error;
use std::fmt;

use crate::{
    DdsType, MemberDescriptor, Reflect, StructureDescriptor, TypeDescriptor, TypeKind, UNBOUNDED,
    ValueRef, descriptor_of,
};

/// A path through a type, made once and followed in many values.
///
/// Members are named as in IDL and joined by `.`. `[3]` is an element; `["name"]`, `[-3]` or
/// `[RED]` is a map's value by its key; `discriminator` is the discriminator of a union. Members of
/// a base count as the struct's own.
#[derive(Clone, Debug)]
pub struct MemberPath {
    steps: Box<[ResolvedStep]>,
}

/// One step of a path in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedStep {
    /// Goes to the part at an index.
    Part(usize),
    /// Goes to the entry of a map with this key.
    Text(String),
    /// Goes to the entry of a map with this number as key.
    Number(i64),
}

/// One step of a path in its text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// `.name`, or a name at the beginning.
    Member(String),
    /// `[3]`
    Index(i64),
    /// `["text"]`, or `[NAME]`.
    Key(String),
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) => write!(f, "{name}"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(key) => write!(f, "[{key:?}]"),
        }
    }
}

/// Reason why a path does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Text of the path.
    pub path: String,
    /// Offset of the error in the text, in bytes.
    pub offset: usize,
    /// Description of the error.
    pub reason: String,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, at {}: {}", self.path, self.offset, self.reason)
    }
}

impl Error for PathError {}

impl MemberPath {
    /// Parses a path in values of `T`.
    pub fn of<T: DdsType>(text: &str) -> Result<Self, PathError> {
        Self::in_type(descriptor_of::<T>(), text)
    }

    /// Parses a path in values of a type.
    pub fn in_type(of: &'static TypeDescriptor, text: &str) -> Result<Self, PathError> {
        Ok(Self::resolve(of, text)?.0)
    }

    /// Parses a path in values of a type, and returns the path with the type at its end.
    pub fn resolve(
        of: &'static TypeDescriptor,
        text: &str,
    ) -> Result<(Self, &'static TypeDescriptor), PathError> {
        let mut at = StepTarget { of: unwrapped(of), bounds: &[] };
        let mut steps = Vec::new();
        for (offset, step) in parse_path(text)? {
            let (step, target) = follow(&at, &step).map_err(|reason| PathError {
                path: text.to_owned(),
                offset,
                reason,
            })?;
            steps.push(step);
            at = StepTarget { of: unwrapped(target.of), ..target };
        }
        Ok((Self { steps: steps.into() }, at.of))
    }

    /// Makes a path from its steps.
    pub fn of_steps(steps: Vec<ResolvedStep>) -> Self {
        Self { steps: steps.into() }
    }

    /// Makes a path through the parts at these indices, each within the one before.
    pub fn of_places(places: &[usize]) -> Self {
        Self { steps: places.iter().copied().map(ResolvedStep::Part).collect() }
    }

    /// Returns the part of a value at the path; [`ValueRef::Absent`] if any part on the way
    /// is absent.
    #[inline]
    pub fn find<'a, R: Reflect>(&self, value: &'a R) -> ValueRef<'a> {
        match &*self.steps {
            [] => value.value(),
            [ResolvedStep::Part(index)] => value.part(*index),
            [ResolvedStep::Part(index), rest @ ..] => find_further(value.part(*index), rest),
            steps => find_further(value.value(), steps),
        }
    }
}

fn find_further<'a>(start: ValueRef<'a>, steps: &[ResolvedStep]) -> ValueRef<'a> {
    let mut found = start;
    for step in steps {
        let Some(value) = found.nested() else { return ValueRef::Absent };
        found = match step {
            ResolvedStep::Part(index) => value.part(*index),
            ResolvedStep::Text(text) => entry(value, ValueRef::Text(text)),
            ResolvedStep::Number(number) => entry(value, ValueRef::Signed(*number)),
        };
    }
    found
}

fn entry<'a>(map: &'a dyn Reflect, key: ValueRef<'_>) -> ValueRef<'a> {
    let is_it = |index: &usize| map.key(*index).compare(key).is_some_and(|order| order.is_eq());
    (0..map.parts()).find(is_it).map_or(ValueRef::Absent, |index| map.part(index))
}

/// Returns the type inside options and boxes, which are not steps of a path.
fn unwrapped(mut of: &'static TypeDescriptor) -> &'static TypeDescriptor {
    while let TypeKind::Optional(inner) | TypeKind::External(inner) = of.kind {
        of = inner();
    }
    of
}

/// Type of the part to which a step leads.
struct StepTarget {
    of: &'static TypeDescriptor,
    /// Bounds of the type within its member, outermost first.
    bounds: &'static [u32],
}

impl StepTarget {
    fn of_member(member: &MemberDescriptor) -> Self {
        Self { of: (member.type_of)(), bounds: member.bounds }
    }

    /// Target of a type within this one, after the first bounds.
    fn within(&self, of: &'static TypeDescriptor, skipped: usize) -> Self {
        Self { of, bounds: self.bounds.get(skipped..).unwrap_or_default() }
    }
}

fn follow(at: &StepTarget, step: &PathStep) -> Result<(ResolvedStep, StepTarget), String> {
    let of = at.of;
    match (&of.kind, step) {
        (TypeKind::Structure(structure), PathStep::Member(name)) => {
            let mut place = 0;
            member(structure, name, &mut place)
                .map(|member| (ResolvedStep::Part(place), StepTarget::of_member(member)))
                .ok_or_else(|| no_member(of.name, name, &names(structure)))
        }
        (TypeKind::Union(union), PathStep::Member(name)) => {
            if name == union.discriminator.name {
                return Ok((ResolvedStep::Part(0), StepTarget::of_member(&union.discriminator)));
            }
            let members = union.cases.iter().enumerate();
            let mut members = members.filter_map(|(at, case)| Some((at + 1, case.member?)));
            match members.clone().find(|(_, member)| member.name == name) {
                Some((place, member)) => {
                    Ok((ResolvedStep::Part(place), StepTarget::of_member(&member)))
                }
                None => {
                    let names: Vec<_> = members.by_ref().map(|(_, member)| member.name).collect();
                    Err(no_member(of.name, name, &names))
                }
            }
        }
        (TypeKind::Bitset(fields), PathStep::Member(name)) => {
            match fields.iter().position(|field| field.name == name) {
                Some(place) => {
                    Ok((ResolvedStep::Part(place), at.within((fields[place].type_of)(), 0)))
                }
                None => {
                    let names: Vec<_> = fields.iter().map(|field| field.name).collect();
                    Err(no_member(of.name, name, &names))
                }
            }
        }
        (TypeKind::Sequence(element) | TypeKind::Array(element, _), PathStep::Index(index)) => {
            let Ok(place) = usize::try_from(*index) else {
                return Err(format!("indexes of elements start at 0, found {index}"));
            };
            let bound = at.bounds.first().map_or(UNBOUNDED, |bound| *bound);
            match of.kind {
                TypeKind::Array(_, count) if place >= count => {
                    Err(format!("the array has {count} elements, found index {place}"))
                }
                TypeKind::Sequence(_) if bound != UNBOUNDED && place >= bound as usize => {
                    Err(format!("the sequence has at most {bound} elements, found index {place}"))
                }
                TypeKind::Array(..) => Ok((ResolvedStep::Part(place), at.within(element(), 0))),
                _ => Ok((ResolvedStep::Part(place), at.within(element(), 1))),
            }
        }
        (TypeKind::Sequence(_) | TypeKind::Array(..), PathStep::Key(text)) if is_number(text) => {
            Err(format!("the index {text} is out of bounds"))
        }
        (TypeKind::Map(key, value), PathStep::Index(number)) => {
            let within = at.within(value(), 1 + bounds_of(key()));
            Ok((ResolvedStep::Number(*number), within))
        }
        (TypeKind::Map(key, value), PathStep::Key(text)) => {
            let within = at.within(value(), 1 + bounds_of(key()));
            Ok((ResolvedStep::Text(text.clone()), within))
        }
        (_, PathStep::Member(name)) => Err(format!("a {} has no member `{name}`", of.name)),
        (_, PathStep::Index(_) | PathStep::Key(_)) => Err(format!("a {} has no elements", of.name)),
    }
}

/// Returns the number of bounds that a type can take.
pub fn bounds_of(of: &TypeDescriptor) -> usize {
    match of.kind {
        TypeKind::String | TypeKind::WideString => 1,
        TypeKind::Sequence(element) => 1 + bounds_of(element()),
        TypeKind::Array(element, _) => bounds_of(element()),
        TypeKind::Map(key, value) => 1 + bounds_of(key()) + bounds_of(value()),
        TypeKind::Optional(inner) | TypeKind::External(inner) => bounds_of(inner()),
        _ => 0,
    }
}

/// Whether the text between brackets is a number, which may be too large for any index.
pub fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Finds a member by name, and its index, counted on from `index`.
fn member(
    of: &StructureDescriptor,
    name: &str,
    index: &mut usize,
) -> Option<&'static MemberDescriptor> {
    if let Some(TypeKind::Structure(base)) = of.base.map(|base| &base().kind)
        && let Some(found) = member(base, name, index)
    {
        return Some(found);
    }
    for member in of.members {
        if member.name == name {
            return Some(member);
        }
        *index += 1;
    }
    None
}

fn names(of: &StructureDescriptor) -> Vec<&'static str> {
    let mut all = match of.base.map(|base| &base().kind) {
        Some(TypeKind::Structure(base)) => names(base),
        _ => Vec::new(),
    };
    all.extend(of.members.iter().map(|member| member.name));
    all
}

fn no_member(of: &str, name: &str, names: &[&str]) -> String {
    format!("`{of}` has no member `{name}`; it has {}", names.join(", "))
}

/// Returns the steps of a path in text form, and the offset of each.
pub fn parse_path(text: &str) -> Result<Vec<(usize, PathStep)>, PathError> {
    let fail = |offset: usize, reason: &str| PathError {
        path: text.to_owned(),
        offset,
        reason: reason.to_owned(),
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut steps = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, size) = parse_index(inside).map_err(|reason| fail(at, reason))?;
            steps.push((at, step));
            at += 1 + size;
            continue;
        }
        let name_at = match rest.strip_prefix('.') {
            Some(_) if !steps.is_empty() => at + 1,
            _ if steps.is_empty() => at,
            _ => return Err(fail(at, "expected `.` or `[`")),
        };
        let rest = &text[name_at..];
        let size = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        if size == 0 {
            return Err(fail(name_at, "expected the name of a member"));
        }
        steps.push((name_at, PathStep::Member(rest[..size].to_owned())));
        at = name_at + size;
    }
    Ok(steps)
}

/// Reads the text between brackets, and returns its size in bytes with the closing bracket.
fn parse_index(inside: &str) -> Result<(PathStep, usize), &'static str> {
    if let Some(quoted) = inside.strip_prefix(['"', '\'']) {
        let quote = &inside[..1];
        let end = quoted.find(quote).ok_or("the quote is not closed")?;
        if !quoted[end + 1..].starts_with(']') {
            return Err("`]` is missing behind the key");
        }
        return Ok((PathStep::Key(quoted[..end].to_owned()), end + 3));
    }
    let end = inside.find(']').ok_or("`]` is missing")?;
    let word = inside[..end].trim();
    let step = match word.parse() {
        Ok(number) => PathStep::Index(number),
        Err(_) if word.is_empty() => return Err("expected a number or a key in brackets"),
        Err(_) => PathStep::Key(word.to_owned()),
    };
    Ok((step, end + 1))
}
