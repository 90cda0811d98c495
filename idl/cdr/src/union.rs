//! Unions: a discriminator, and the member that it selects.
//!
//! Owns the framing of a union in each encoding, and the discriminator value of each case. Never
//! knows a member's bytes.

use std::sync::OnceLock;

use crate::recursion::{ValueGraph, value_nodes};
use crate::sorting::{is_ascending, sorted};
use crate::structure::require_end;
use crate::{
    CaseDescriptor, CdrError, CdrReader, CdrWriter, DdsType, Extensibility, KeyForm,
    MemberDescriptor, MemberFraming, ValueRef, descriptor_of,
};

/// A type whose values can distinguish the cases of a union.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the discriminator of a union",
    note = "use an integer, bool, char, WChar or an enum that derives DdsType"
)]
pub trait Discriminator: DdsType {
    /// Returns the value that a label denotes, if the type has it.
    fn from_label(label: i64) -> Option<Self>;

    /// Returns the label of the value.
    fn label(&self) -> i64;

    /// Returns the labels that a default case prefers, ascending from zero, or in the order
    /// of declaration.
    fn nth_label(index: usize) -> Option<i64>;

    /// Returns the value that a label denotes, for comparisons.
    fn value_of_label(label: i64) -> Option<ValueRef<'static>>;
}

macro_rules! integer_discriminator {
    ($($kind:ident($as:ty): $($integer:ty),*;)*) => {
        $($(
            impl Discriminator for $integer {
                fn from_label(label: i64) -> Option<Self> {
                    // Labels of a u64 are its bits.
                    if size_of::<Self>() == 8 { Some(label as Self) } else { label.try_into().ok() }
                }

                fn label(&self) -> i64 {
                    *self as i64
                }

                fn nth_label(index: usize) -> Option<i64> {
                    Self::try_from(index).ok().map(|label| label as i64)
                }

                fn value_of_label(label: i64) -> Option<ValueRef<'static>> {
                    Self::from_label(label).map(|value| ValueRef::$kind(<$as>::from(value)))
                }
            }
        )*)*
    };
}

integer_discriminator! {
    Signed(i64): i8, i16, i32, i64;
    Unsigned(u64): u8, u16, u32, u64;
}

impl Discriminator for bool {
    fn from_label(label: i64) -> Option<Self> {
        matches!(label, 0 | 1).then_some(label == 1)
    }

    fn label(&self) -> i64 {
        i64::from(*self)
    }

    fn nth_label(index: usize) -> Option<i64> {
        (index < 2).then_some(index as i64)
    }

    fn value_of_label(label: i64) -> Option<ValueRef<'static>> {
        Self::from_label(label).map(ValueRef::Bool)
    }
}

impl Discriminator for char {
    fn from_label(label: i64) -> Option<Self> {
        u8::try_from(label).ok().map(char::from)
    }

    fn label(&self) -> i64 {
        i64::from(u32::from(*self))
    }

    fn nth_label(index: usize) -> Option<i64> {
        u8::try_from(index).ok().map(i64::from)
    }

    fn value_of_label(label: i64) -> Option<ValueRef<'static>> {
        Self::from_label(label).map(ValueRef::Char)
    }
}

/// Description of a union by the derive macro, beside [`DdsType`].
pub trait DdsUnion: DdsType {
    /// Type of the discriminator.
    type Discriminator: Discriminator;

    /// The discriminator as a member.
    const DISCRIMINATOR: &'static MemberDescriptor;

    /// Cases, in the order of the variants.
    const CASES: &'static [CaseDescriptor];

    /// Returns the default discriminator.
    fn default_discriminator() -> Self::Discriminator {
        Self::Discriminator::default_value()
    }

    /// Returns the index of the selected case.
    fn case(&self) -> usize;

    /// Returns the label that came with the value, if it is stored.
    fn label(&self) -> Option<i64>;

    /// Returns the default value of a case selected by this label, which must be a label of
    /// the discriminator.
    fn of_case(case: usize, label: i64) -> Option<Self>;

    /// Writes the member of the selected case.
    fn write_case(&self, writer: &mut CdrWriter<'_>, form: MemberFraming) -> Result<(), CdrError>;

    /// Reads the member of the selected case.
    fn read_case(
        &mut self,
        reader: &mut CdrReader<'_>,
        form: MemberFraming,
    ) -> Result<(), CdrError>;
}

/// Writes a union.
pub fn serialize_union<T: DdsUnion>(value: &T, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
    let discriminator = discriminator_of(value, writer.position())?;
    // The key of a keyed union is its discriminator.
    let whole = writer.key_form().is_none() || !T::KEYED;
    if writer.key_form() == Some(KeyForm::Hash) || T::EXTENSIBILITY == Extensibility::Final {
        writer.write_member(&discriminator, T::DISCRIMINATOR, MemberFraming::Plain)?;
        return if whole { value.write_case(writer, MemberFraming::Plain) } else { Ok(()) };
    }
    let form = match T::EXTENSIBILITY {
        Extensibility::Mutable => MemberFraming::Parameters,
        _ => MemberFraming::Plain,
    };
    let open = writer.begin_delimited()?;
    writer.write_member(&discriminator, T::DISCRIMINATOR, form)?;
    if whole {
        value.write_case(writer, form)?;
    }
    if form == MemberFraming::Parameters {
        writer.end_parameters()?;
    }
    writer.end_delimited(open)
}

/// Reads a union.
pub fn deserialize_union<T: DdsUnion>(reader: &mut CdrReader<'_>) -> Result<T, CdrError> {
    if T::EXTENSIBILITY == Extensibility::Final {
        return members(reader);
    }
    let open = reader.begin_delimited()?;
    let value = match T::EXTENSIBILITY {
        Extensibility::Mutable => parameters(reader),
        _ => members(reader),
    };
    match value {
        Ok(value) => {
            reader.skip_delimited(open);
            Ok(value)
        }
        Err(error) => {
            reader.skip_union(open, error, T::DISCRIMINATOR.try_construct)?;
            Ok(T::default_value())
        }
    }
}

/// Reads the discriminator, and starts the case that it selects.
fn begin_case<T: DdsUnion>(reader: &mut CdrReader<'_>, form: MemberFraming) -> Result<T, CdrError> {
    let offset = reader.position();
    let read =
        reader.strictly(|reader| reader.read_member::<T::Discriminator>(T::DISCRIMINATOR, form));
    let label = match read {
        Ok(discriminator) => discriminator.label(),
        // A number that is not an enumerator also selects nothing.
        Err(error) => match *error.root() {
            CdrError::UnknownEnumerator { offset, found, .. } => {
                return Err(unknown::<T>(offset, found.into()));
            }
            _ => return Err(error),
        },
    };
    // The type of the following bytes is unknown, so reading cannot continue.
    let case = case_of::<T>(label).and_then(|case| T::of_case(case, label));
    case.ok_or(unknown::<T>(offset, label))
}

fn unknown<T: DdsUnion>(offset: usize, found: i64) -> CdrError {
    CdrError::UnknownDiscriminator { offset, type_name: T::TYPE_NAME, found }
}

/// Reads the discriminator and the member in sequence.
fn members<T: DdsUnion>(reader: &mut CdrReader<'_>) -> Result<T, CdrError> {
    if T::EXTENSIBILITY == Extensibility::Appendable && reader.lacks_more() {
        return Ok(T::default_value());
    }
    let mut value: T = begin_case(reader, MemberFraming::Plain)?;
    let is_key = reader.is_of_keys() && T::KEYED;
    let is_short = T::EXTENSIBILITY == Extensibility::Appendable && reader.lacks_more();
    if !is_key && !is_short {
        value.read_case(reader, MemberFraming::Plain)?;
    }
    Ok(value)
}

/// Reads the discriminator and the member by their ids; the discriminator comes first.
fn parameters<T: DdsUnion>(reader: &mut CdrReader<'_>) -> Result<T, CdrError> {
    let mut value: Option<T> = None;
    while let Some(parameter) = reader.next_parameter()? {
        let (offset, id) = (parameter.offset, parameter.id);
        let selected = value.as_ref().and_then(|value| T::CASES[value.case()].member);
        if parameter.ignored {
        } else if id == T::DISCRIMINATOR.id {
            let begun = begin_case(reader, MemberFraming::Parameters)?;
            require_end(reader)?;
            value = Some(begun);
        } else if let (Some(value), true) = (&mut value, selected.is_some_and(|m| m.id == id)) {
            value.read_case(reader, MemberFraming::Parameters)?;
            require_end(reader)?;
        } else if parameter.must_understand {
            return Err(CdrError::UnknownMember { offset, type_name: T::TYPE_NAME, id });
        }
        reader.end_parameter(parameter);
    }
    let (offset, id) = (reader.position(), T::DISCRIMINATOR.id);
    value.ok_or(CdrError::MissingMember { offset, type_name: T::TYPE_NAME, id })
}

/// Returns the discriminator to write: the one that came with the value, or one that selects
/// its case.
fn discriminator_of<T: DdsUnion>(value: &T, offset: usize) -> Result<T::Discriminator, CdrError> {
    let type_name = T::TYPE_NAME;
    let found = match value.label() {
        Some(found) if case_of::<T>(found) != Some(value.case()) => {
            return Err(CdrError::OtherCase { offset, type_name, found });
        }
        Some(found) => Some(found),
        None => label_of::<T>(value.case()),
    };
    found.and_then(T::Discriminator::from_label).ok_or(CdrError::NoLabel { offset, type_name })
}

/// Returns the case that a label selects.
fn case_of<T: DdsUnion>(label: i64) -> Option<usize> {
    let labelled = T::CASES.iter().position(|case| case.labels.contains(&label));
    labelled.or_else(|| T::CASES.iter().position(|case| case.default))
}

/// Returns the default value of a union. `chosen` stores its case, which is the same for all values
/// of the type.
///
/// The case is the one that the discriminator's default selects. If the default selects nothing, or
/// a case whose values may contain the union again, the case is the first that cannot, or else the
/// one that ends after the fewest types.
pub fn default_union<T: DdsUnion>(chosen: &OnceLock<usize>) -> T {
    let label = T::default_discriminator().label();
    let selected = case_of::<T>(label);
    let case = *chosen.get_or_init(|| {
        let values = ValueGraph::new(value_nodes(descriptor_of::<T>()));
        values.default_case(0, selected).unwrap_or_else(|| {
            panic!("the union `{}` has no finite value: each case contains another", T::TYPE_NAME)
        })
    });
    let label = if selected == Some(case) { label } else { label_of::<T>(case).unwrap_or(label) };
    T::of_case(case, label).expect("a label of a case fits the discriminator")
}

/// Returns the label for a case: its first one, or the first that no case has.
pub(crate) fn label_of<T: DdsUnion>(case: usize) -> Option<i64> {
    if let Some(&label) = T::CASES[case].labels.first() {
        return Some(label);
    }
    let is_taken = |label: &i64| T::CASES.iter().any(|case| case.labels.contains(label));
    (0..).map_while(T::Discriminator::nth_label).find(|label| !is_taken(label))
}

/// Whether no label occurs twice, and at most one case is the default. `LABELS` is the number of
/// all labels. The time is that of sorting, because the compiler limits the steps of a constant.
pub const fn are_distinct<const LABELS: usize>(cases: &[CaseDescriptor]) -> bool {
    let (mut all, mut found, mut defaults, mut one) = ([0; LABELS], 0, 0, 0);
    while one < cases.len() {
        defaults += cases[one].default as usize;
        let labels = cases[one].labels;
        let mut index = 0;
        while index < labels.len() {
            all[found] = labels[index];
            found += 1;
            index += 1;
        }
        one += 1;
    }
    defaults <= 1 && is_ascending(&sorted(all))
}
