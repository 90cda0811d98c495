//! A reader's requirements on the type of a writer.
//!
//! Owns the switches of TYPE_CONSISTENCY_ENFORCEMENT, and the message of a refusal. The rules are
//! in `assign`.

use std::error::Error;
use std::fmt;

use crate::{DynamicType, assign};

/// Requirements of the QoS policy TYPE_CONSISTENCY_ENFORCEMENT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeConsistency {
    /// Whether types may differ at all.
    pub kind: ConsistencyKind,
    /// Whether a sequence or map of the reader may have a smaller bound than the writer's.
    pub ignore_sequence_bounds: bool,
    /// Whether a string of the reader may have a smaller bound than the writer's.
    pub ignore_string_bounds: bool,
    /// Whether members are identified by their ids only.
    pub ignore_member_names: bool,
    /// Whether a writer's type that has more members than the reader's is refused.
    pub prevent_type_widening: bool,
    /// Whether a peer without a type description is refused.
    pub force_type_validation: bool,
}

/// Whether types may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsistencyKind {
    /// The types must be the same.
    DisallowTypeCoercion,
    /// Samples of the writer's type can be read as the reader's type.
    AllowTypeCoercion,
}

impl Default for TypeConsistency {
    /// Defaults of the standard for readers.
    fn default() -> Self {
        Self {
            kind: ConsistencyKind::AllowTypeCoercion,
            ignore_sequence_bounds: true,
            ignore_string_bounds: true,
            ignore_member_names: false,
            prevent_type_widening: false,
            force_type_validation: false,
        }
    }
}

/// Reason why samples of the writer's type cannot be read as the reader's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Position in the reader's type: its name, and the members on the way.
    pub path: String,
    /// Difference at the position.
    pub reason: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path, self.reason)
    }
}

impl Error for Mismatch {}

impl TypeConsistency {
    /// Checks whether a reader of one type understands a writer of the other; returns the reason
    /// if not.
    ///
    /// ```
    /// use idl_xtypes::{DynamicType, TypeConsistency};
    /// use idl_cdr::DdsType;
    ///
    /// mod old {
    ///     #[derive(idl_cdr::DdsType)]
    ///     #[dds(crate = "idl_cdr", extensibility = "appendable")]
    ///     pub struct Pose { pub x: f64 }
    /// }
    /// #[derive(DdsType)]
    /// #[dds(crate = "idl_cdr", extensibility = "appendable")]
    /// struct Pose { x: f64, y: f32 }
    ///
    /// let (old, new) = (DynamicType::of::<old::Pose>(), DynamicType::of::<Pose>());
    /// let consistency = TypeConsistency::default();
    /// assert!(consistency.check(&new, &old).is_ok());
    /// let narrow = TypeConsistency { prevent_type_widening: true, ..consistency };
    /// assert_eq!(
    ///     narrow.check(&old, &new).unwrap_err().to_string(),
    ///     "`Pose`: the writer has a member `y` that the reader lacks, and prevent_type_widening is set"
    /// );
    /// ```
    pub fn check(&self, reader: &DynamicType, writer: &DynamicType) -> Result<(), Mismatch> {
        assign::check(*self, reader, writer)
    }

    /// Checks like [`check`](Self::check), for a peer that may have announced only the name of
    /// its type.
    pub fn check_named(
        &self,
        reader: &DynamicType,
        writer_name: &str,
        writer: Option<&DynamicType>,
    ) -> Result<(), Mismatch> {
        if let Some(writer) = writer {
            return self.check(reader, writer);
        }
        let path = reader.name().to_owned();
        if self.force_type_validation {
            let reason = "the writer announced only the name of its type, and \
                          force_type_validation is set";
            return Err(Mismatch { path, reason: reason.to_owned() });
        }
        if reader.name() != writer_name {
            let reason = format!(
                "the writer's type is `{writer_name}`, and the writer announced only this name"
            );
            return Err(Mismatch { path, reason });
        }
        Ok(())
    }
}
