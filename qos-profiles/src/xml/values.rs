//! Values in files.
//!
//! Owns: the spellings of numbers, durations, lengths, kinds and lists, with the constants of other
//! products. Never does: know which policy a value belongs to.

use super::error::{UnplacedError, quoted};
use super::octets::octets;
use super::source::Element;
use super::suggest::suggest;
use crate::{Duration, FieldType, Length, Names, Value};

/// Maximum number of texts in a list, and maximum length of a text in bytes; the limits of
/// other products.
const MOST_TEXTS: usize = 256;
const LONGEST_TEXT: usize = 256;
/// Maximum number of entries in a list of kinds: each kind a few times.
const MOST_KINDS: usize = 16;

/// An invalid value, and the nested element that is wrong.
pub(super) struct WrongValue<'a> {
    /// Nested elements, the outermost first.
    pub(super) inside: Vec<&'a Element>,
    pub(super) error: UnplacedError,
}

impl From<UnplacedError> for WrongValue<'_> {
    fn from(error: UnplacedError) -> Self {
        Self { inside: Vec::new(), error }
    }
}

type ReadResult<'a, T> = Result<T, WrongValue<'a>>;

/// Reads the value of an element.
pub(super) fn value(ty: FieldType, element: &Element) -> ReadResult<'_, Value> {
    Ok(match ty {
        FieldType::Bool => Value::Bool(boolean(text(element)?)?),
        FieldType::Unsigned => Value::Unsigned(
            number(text(element)?, 0).and_then(|number| u32::try_from(number).ok()).ok_or_else(
                || wrong_text(element, format!("expected a number from 0 to {}", i32::MAX)),
            )?,
        ),
        FieldType::Signed => Value::Signed(number(text(element)?, i32::MIN).ok_or_else(|| {
            wrong_text(element, format!("expected a number from {} to {}", i32::MIN, i32::MAX))
        })?),
        FieldType::Length => Value::Length(length(text(element)?)?),
        FieldType::Duration => Value::Duration(duration(element)?),
        FieldType::Kind(names) => Value::Kind(kind(text(element)?, names)?),
        FieldType::Octets => Value::Octets(bytes(element)?),
        FieldType::Texts => Value::Texts(texts(element)?),
        FieldType::Kinds(names) => Value::Kinds(kinds(element, names)?),
    })
}

/// Returns the text of an element that has only text.
pub(super) fn text(element: &Element) -> ReadResult<'_, &str> {
    match element.children.first() {
        None => Ok(&element.text),
        Some(inner) => Err(WrongValue {
            inside: vec![inner],
            error: UnplacedError::new("found an element", "expected a text"),
        }),
    }
}

/// Checks that an element has no text.
pub(super) fn no_text(
    element: &Element,
    expected: impl FnOnce() -> String,
) -> Result<(), UnplacedError> {
    if element.text.is_empty() {
        return Ok(());
    }
    Err(UnplacedError::new(format!("found the text {}", quoted(&element.text)), expected()))
}

fn wrong_text(element: &Element, expected: impl Into<String>) -> UnplacedError {
    UnplacedError::new(format!("found {}", quoted(&element.text)), expected)
}

/// Returns a name of the standard without the prefix `DDS_` of some products.
fn name(text: &str) -> &str {
    text.strip_prefix("DDS_").unwrap_or(text)
}

pub(super) fn boolean(text: &str) -> Result<bool, UnplacedError> {
    match name(text) {
        "true" | "TRUE" | "1" | "BOOLEAN_TRUE" => Ok(true),
        "false" | "FALSE" | "0" | "BOOLEAN_FALSE" => Ok(false),
        _ => {
            Err(UnplacedError::new(format!("found {}", quoted(text)), "expected `true` or `false`")
                .suggest(suggest(text, ["true", "false"])))
        }
    }
}

/// Reads a number of at least `least`.
fn number(text: &str, least: i32) -> Option<i32> {
    text.parse().ok().filter(|number| *number >= least)
}

fn length(text: &str) -> Result<Length, UnplacedError> {
    const UNLIMITED: &str = "LENGTH_UNLIMITED";
    if name(text) == UNLIMITED {
        return Ok(Length::UNLIMITED);
    }
    number(text, -1).and_then(|number| Length::try_from(number).ok()).ok_or_else(|| {
        UnplacedError::new(
            format!("found {}", quoted(text)),
            format!("expected a number from 0 to {}, or `{UNLIMITED}`", i32::MAX),
        )
        .suggest(suggest(text, [UNLIMITED]))
    })
}

fn kind(text: &str, names: &Names) -> Result<u8, UnplacedError> {
    let wanted = match name(text) {
        // Some products add a number to the name of the first version.
        "XCDR1" => "XCDR",
        "XCDR1_DATA_REPRESENTATION" => "XCDR_DATA_REPRESENTATION",
        other => other,
    };
    if let Some(index) = names.find(wanted).and_then(|index| u8::try_from(index).ok()) {
        return Ok(index);
    }
    let constants: Vec<String> = (0..names.count()).filter_map(|at| names.constant(at)).collect();
    let short: Vec<String> = (0..names.count()).filter_map(|at| names.short(at)).collect();
    let all = constants.iter().chain(&short).map(String::as_str);
    Err(UnplacedError::new(
        format!("found {}", quoted(text)),
        format!("expected {}", one_of(&constants)),
    )
    .suggest(suggest(text, all)))
}

/// Returns names as alternatives for a message.
pub(super) fn one_of<T: AsRef<str>>(names: &[T]) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        text += match index {
            0 => "",
            _ if index + 1 == names.len() => " or ",
            _ => ", ",
        };
        text.push('`');
        text += name.as_ref();
        text.push('`');
    }
    text
}

/// A part of a duration: a number, or infinite.
#[derive(Clone, Copy)]
enum DurationPart {
    Number(i32),
    Infinite,
}

fn duration(element: &Element) -> ReadResult<'_, Duration> {
    const EXPECTED: &str = "expected `<sec>` and `<nanosec>`, or `DURATION_INFINITE`";
    if element.children.is_empty() {
        return match name(&element.text) {
            "DURATION_INFINITE" | "DURATION_INFINITY" => Ok(Duration::INFINITE),
            "DURATION_ZERO" => Ok(Duration::ZERO),
            "" => Err(UnplacedError::new("found no duration", EXPECTED).into()),
            _ => Err(wrong_text(element, EXPECTED)
                .suggest(suggest(&element.text, ["DURATION_INFINITE"]))
                .into()),
        };
    }
    no_text(element, || EXPECTED.to_owned())?;
    let (mut sec, mut nanosec) = (None, None);
    for inner in &element.children {
        let here = |error| WrongValue { inside: vec![inner], error };
        let (slot, names): (_, &[&str]) = match inner.name.as_str() {
            "sec" => (
                &mut sec,
                &[
                    "DURATION_INFINITE_SEC",
                    "DURATION_INFINITY_SEC",
                    "DURATION_INFINITE",
                    "DURATION_INFINITY",
                ],
            ),
            "nanosec" => (
                &mut nanosec,
                &[
                    "DURATION_INFINITE_NSEC",
                    "DURATION_INFINITY_NSEC",
                    "DURATION_INFINITE_NANOSEC",
                    "DURATION_INFINITY_NANOSEC",
                    "DURATION_INFINITE",
                    "DURATION_INFINITY",
                ],
            ),
            other => {
                let error =
                    UnplacedError::new("found an unknown element", "expected `sec` or `nanosec`");
                return Err(here(error.suggest(suggest(other, ["sec", "nanosec"]))));
            }
        };
        let text = text(inner)?;
        let part = match name(text) {
            text if names.contains(&text) => DurationPart::Infinite,
            "DURATION_ZERO_SEC" | "DURATION_ZERO_NSEC" => DurationPart::Number(0),
            text => {
                let limit = if inner.name == "sec" { i32::MAX } else { 999_999_999 };
                match number(text, 0) {
                    // Number that means infinite in the standard.
                    Some(i32::MAX) => DurationPart::Infinite,
                    Some(number) if number <= limit => DurationPart::Number(number),
                    _ => {
                        let expected = format!(
                            "expected a number from 0 to {}, or `{}`",
                            limit.min(i32::MAX - 1),
                            names[0]
                        );
                        return Err(here(
                            wrong_text(inner, expected)
                                .suggest(suggest(text, names.iter().copied())),
                        ));
                    }
                }
            }
        };
        if slot.replace(part).is_some() {
            return Err(here(UnplacedError::new(
                "found this element a second time",
                "expected it once",
            )));
        }
    }
    match (sec, nanosec) {
        (Some(DurationPart::Infinite), None | Some(DurationPart::Infinite)) => {
            Ok(Duration::INFINITE)
        }
        (None | Some(DurationPart::Number(_)), None | Some(DurationPart::Number(_))) => {
            let number = |part| match part {
                Some(DurationPart::Number(number)) => number,
                _ => 0,
            };
            let nanosec = u32::try_from(number(nanosec)).ok();
            let duration = nanosec.and_then(|nanosec| Duration::new(number(sec), nanosec));
            duration.ok_or_else(|| UnplacedError::new("found no duration", EXPECTED).into())
        }
        _ => Err(UnplacedError::new(
            "found a duration with one infinite and one finite part",
            "expected both or none to be infinite",
        )
        .into()),
    }
}

fn bytes(element: &Element) -> ReadResult<'_, Vec<u8>> {
    if element.children.is_empty() {
        return Ok(octets(&element.text)?);
    }
    no_text(element, || "expected `<element>` alone, or text alone".to_owned())?;
    let mut list = String::new();
    for inner in &element.children {
        list += item(inner, "element")?;
        list.push(',');
    }
    Ok(octets(&list)?)
}

fn item<'a>(element: &'a Element, expected: &str) -> ReadResult<'a, &'a str> {
    if element.name == expected {
        return text(element).map_err(|mut error| {
            error.inside.insert(0, element);
            error
        });
    }
    let error = UnplacedError::new("found an unknown element", format!("expected `{expected}`"));
    Err(WrongValue {
        inside: vec![element],
        error: error.suggest(suggest(&element.name, [expected])),
    })
}

/// Returns the items of a list, at most `most`.
fn items<'a>(element: &'a Element, most: usize) -> ReadResult<'a, Vec<(&'a Element, &'a str)>> {
    // One product has `<names><name>` for `<name><element>`.
    let inner = if element.name == "names" { "name" } else { "element" };
    no_text(element, || format!("expected `<{inner}>` for each"))?;
    if element.children.len() > most {
        let found = format!("found {} of them", element.children.len());
        return Err(UnplacedError::new(found, format!("expected {most} at most")).into());
    }
    element.children.iter().map(|child| Ok((child, item(child, inner)?))).collect()
}

fn texts(element: &Element) -> ReadResult<'_, Vec<String>> {
    let mut texts = Vec::new();
    for (child, text) in items(element, MOST_TEXTS)? {
        if text.len() > LONGEST_TEXT {
            let found = format!("found a name of {} bytes", text.len());
            let error = UnplacedError::new(found, format!("expected {LONGEST_TEXT} at most"));
            return Err(WrongValue { inside: vec![child], error });
        }
        texts.push(text.to_owned());
    }
    Ok(texts)
}

fn kinds<'a>(element: &'a Element, names: &Names) -> ReadResult<'a, Vec<u8>> {
    let mut kinds = Vec::new();
    for (child, text) in items(element, MOST_KINDS)? {
        let kind = match text.parse::<u8>() {
            // The standard's numbers are the indices of the names.
            Ok(number) if usize::from(number) < names.count() => Ok(number),
            _ => kind(text, names),
        };
        kinds.push(kind.map_err(|error| WrongValue { inside: vec![child], error })?);
    }
    Ok(kinds)
}
