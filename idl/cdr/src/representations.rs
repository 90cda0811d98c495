//! The data representations that a type allows for its samples.
//!
//! Owns the set. Never decides which one a writer uses.

use std::fmt;

/// A set of data representations: those in which samples of a type may be sent,
/// `@data_representation` in IDL. A type without the annotation allows all.
///
/// ```
/// use idl_cdr::{DdsType, Representations};
///
/// #[derive(DdsType)]
/// #[dds(crate = "idl_cdr", data_representation(XCDR2))]
/// struct Frame { pixels: Vec<u8> }
///
/// let allowed = Frame::DESCRIPTOR.representations();
/// assert!(allowed.contains(Representations::XCDR2) && !allowed.contains(Representations::XCDR1));
/// assert_eq!(allowed.to_string(), "XCDR2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Representations(u8);

impl Representations {
    /// All representations.
    pub const ALL: Self = Self(0b111);
    /// CDR, first version.
    pub const XCDR1: Self = Self(0b001);
    /// XML.
    pub const XML: Self = Self(0b010);
    /// CDR, second version.
    pub const XCDR2: Self = Self(0b100);

    /// Returns the union of two sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set contains all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Default for Representations {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for Representations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Self::XCDR1, "XCDR1"), (Self::XML, "XML"), (Self::XCDR2, "XCDR2")];
        let mut first = true;
        for (_, name) in names.into_iter().filter(|(one, _)| self.contains(*one)) {
            let gap = if std::mem::take(&mut first) { "" } else { ", " };
            write!(f, "{gap}{name}")?;
        }
        Ok(())
    }
}
