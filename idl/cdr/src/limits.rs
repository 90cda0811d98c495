//! Limits for the parts of a value while it is read: bounds, and actions on elements that
//! violate them.
//!
//! Owns the order in which both are listed, from the outside in. Never does: read a byte.

use crate::{CdrError, CdrReader, DdsType, TryConstruct, UNBOUNDED};

/// Bounds of a value, and actions of a reader on elements whose values their type does not allow.
///
/// Bounds are listed for each string, sequence and map, from the outside in; for a map its own
/// bound, its keys', its values'. A `sequence<string<32>, 8>` has the bounds `[8, 32]`. Actions are
/// listed in the same order, one for each sequence and array, two for each map; an array of arrays
/// is one array. Beyond the end of the lists, there is no bound, and a disallowed element discards
/// its collection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    bounds: &'a [u32],
    elements: &'a [TryConstruct],
    /// Whether the outermost bound is ignored, because a longer value is truncated later.
    relaxed: bool,
}

impl<'a> Limits<'a> {
    /// No limits.
    pub const NONE: Limits<'static> = Limits { bounds: &[], elements: &[], relaxed: false };

    /// Makes limits from bounds and actions.
    #[inline(always)]
    pub const fn new(bounds: &'a [u32], elements: &'a [TryConstruct]) -> Self {
        Self { bounds, elements, relaxed: false }
    }

    /// Returns the same limits without the outermost bound.
    pub fn relaxed(self) -> Self {
        Self { relaxed: true, ..self }
    }

    /// Returns the outermost bound, if it applies.
    #[inline(always)]
    pub fn bound(self) -> u32 {
        match self.bounds.first() {
            Some(&bound) if !self.relaxed => bound,
            _ => UNBOUNDED,
        }
    }

    /// Returns the action on a sequence's elements, and their limits.
    #[inline(always)]
    pub fn of_elements(self) -> (TryConstruct, Self) {
        self.without_bound().of_row()
    }

    /// Returns the action on an array's elements, and their limits. An array takes no bound.
    #[inline(always)]
    pub fn of_row(self) -> (TryConstruct, Self) {
        let (how, elements) = match self.elements.split_first() {
            Some((how, inner)) => (*how, inner),
            None => (TryConstruct::Discard, self.elements),
        };
        (how, Self { elements, relaxed: false, ..self })
    }

    /// Returns the actions on the keys and the values of a map, and their limits. `bounds` and
    /// `elements` are the numbers that the type of the keys has.
    pub fn of_entries(self, bounds: usize, elements: usize) -> [(TryConstruct, Self); 2] {
        let inner = self.without_bound();
        let (of_keys, of_values) = inner.bounds.split_at(bounds.min(inner.bounds.len()));
        let (keys, values) = inner.elements.split_at((1 + elements).min(inner.elements.len()));
        [Limits::new(of_keys, keys).of_row(), Limits::new(of_values, values).of_row()]
    }

    fn without_bound(self) -> Self {
        Self { bounds: self.bounds.get(1..).unwrap_or_default(), relaxed: false, ..self }
    }
}

impl CdrReader<'_> {
    /// Reads an element of a collection.
    #[inline(always)]
    pub(crate) fn read_element<T: DdsType>(
        &mut self,
        how: TryConstruct,
        limits: Limits<'_>,
    ) -> Result<T, CdrError> {
        match how {
            TryConstruct::Discard => T::deserialize_bounded(self, limits),
            _ => self.read_tried(how, limits, T::default_value, T::deserialize_bounded),
        }
    }

    /// Reads a value, and applies the action if its type does not allow the value.
    pub(crate) fn read_tried<T: DdsType>(
        &mut self,
        how: TryConstruct,
        limits: Limits<'_>,
        default: impl Fn() -> T,
        read: impl FnOnce(&mut Self, Limits<'_>) -> Result<T, CdrError>,
    ) -> Result<T, CdrError> {
        let trims = how == TryConstruct::Trim;
        let asked = if trims { limits.relaxed() } else { limits };
        let (mut value, fault) = self.leniently(|reader| read(reader, asked))?;
        match (how, fault) {
            (TryConstruct::UseDefault, Some(_)) => return Ok(default()),
            (_, Some(error)) => self.fault(error)?,
            (_, None) => {}
        }
        if trims && limits.bound() != UNBOUNDED {
            value.trim_to(limits.bound());
        }
        Ok(value)
    }
}
