//! A limit on a number of items, possibly unlimited.
//!
//! Owns the order in which `UNLIMITED` is the largest.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Numeric value of the OMG's `LENGTH_UNLIMITED`.
const UNLIMITED: i32 = -1;

/// A limit on a number of things, or [`UNLIMITED`](Self::UNLIMITED).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
// Unlimited is stored as the largest number, so that the derived comparison is right.
pub struct Length(u32);

impl Length {
    /// No limit, larger than any other.
    pub const UNLIMITED: Self = Self(u32::MAX);

    /// Makes a limit; `None` for a negative number.
    pub const fn new(limit: i32) -> Option<Self> {
        if limit < 0 { None } else { Some(Self(limit as u32)) }
    }

    /// Makes a limit of at most 65535.
    pub const fn of(limit: u16) -> Self {
        Self(limit as u32)
    }

    /// Returns the number, or `None` if there is no limit.
    pub const fn limit(self) -> Option<u32> {
        if self.is_unlimited() { None } else { Some(self.0) }
    }

    /// Whether this is [`UNLIMITED`](Self::UNLIMITED).
    pub const fn is_unlimited(self) -> bool {
        self.0 == u32::MAX
    }
}

impl Default for Length {
    /// Returns no limit.
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl From<Length> for i32 {
    /// Converts; -1 for [`Length::UNLIMITED`], as in the OMG's standard.
    fn from(length: Length) -> Self {
        i32::try_from(length.0).unwrap_or(UNLIMITED)
    }
}

impl TryFrom<i32> for Length {
    type Error = String;

    fn try_from(number: i32) -> Result<Self, String> {
        if number == UNLIMITED {
            return Ok(Self::UNLIMITED);
        }
        Self::new(number)
            .ok_or_else(|| format!("{number} is not a limit: expected 0 or more, or -1 for none"))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit() {
            Some(limit) => write!(f, "{limit}"),
            None => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_length_is_largest_and_converts_to_minus_one() {
        assert!(Length::new(i32::MAX) < Some(Length::UNLIMITED));
        assert_eq!(i32::from(Length::UNLIMITED), -1);
        assert_eq!(Length::try_from(-1), Ok(Length::UNLIMITED));
        for limit in [0, 7] {
            assert_eq!(Length::try_from(limit), Ok(Length::of(limit as u16)));
            assert_eq!(Length::of(limit as u16).limit(), Some(limit as u32));
        }
        assert!(Length::try_from(-2).is_err());
        assert_eq!(Length::UNLIMITED.limit(), None);
        assert_eq!(Length::default(), Length::UNLIMITED);
    }
}
