//! Types of samples for the targets.
//!
//! Owns: the list of types and the checks of their payloads. Never does: make bytes.

#[path = "../../../idl/cdr/tests/types/kinds.rs"]
mod every;

use std::fmt::Debug;
use std::sync::LazyLock;

use idl_cdr::{
    CdrError, DdsType, Encoding, Extensibility, from_cdr, key_from_cdr, key_hash, key_to_cdr,
    key_to_cdr_with, to_cdr_with,
};
use idl_xtypes::{DynamicType, ObjectKind};

pub(crate) const ENCODINGS: [Encoding; 4] =
    [Encoding::CDR_BE, Encoding::CDR_LE, Encoding::PLAIN_CDR2_BE, Encoding::PLAIN_CDR2_LE];

/// A type whose reader tolerates many disallowed values.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(crate = "idl_cdr", extensibility = "mutable")]
struct TolerantSample {
    #[dds(key, id = 1)]
    number: u16,
    #[dds(bound = 4, try_construct = "trim")]
    text: String,
    #[dds(bound = [3, 2], try_construct = "trim", element_try_construct = "use_default")]
    texts: Vec<String>,
    #[dds(try_construct = "use_default")]
    color: every::Color,
    #[dds(try_construct = "use_default")]
    colored: every::Colored,
    #[dds(default = 7, id = 40)]
    seven: i64,
    #[dds(try_construct = "use_default")]
    lower: Lower,
}

/// A union that replaces a discriminator that selects nothing.
#[derive(DdsType, Clone, Debug, PartialEq)]
#[dds(
    crate = "idl_cdr",
    union,
    discriminator = "u8",
    extensibility = "appendable",
    discriminator_default = 2,
    discriminator_try_construct = "use_default"
)]
enum Lower {
    #[dds(case = 1)]
    One(i32),
    #[dds(case = 2)]
    Two(Vec<u8>),
}

/// A type, and the checks of its payloads.
pub(crate) struct FuzzedType {
    pub(crate) extensibility: Extensibility,
    pub(crate) of: DynamicType,
    /// The type as known by a peer from its type objects.
    pub(crate) told: DynamicType,
    /// Reads a payload, checks the value that was read, and writes it in an encoding.
    pub(crate) rewrite: fn(&[u8], Encoding) -> Result<Vec<u8>, CdrError>,
    /// Reads a key-only payload, and returns the key.
    pub(crate) key: fn(&[u8]) -> Result<Vec<u8>, CdrError>,
}

fn kind<T: DdsType + Debug>() -> FuzzedType {
    let of = DynamicType::of::<T>();
    let told = DynamicType::from_objects(&of.objects(ObjectKind::Complete)).expect("our own type");
    FuzzedType { extensibility: T::EXTENSIBILITY, of, told, rewrite: rewrite::<T>, key: key::<T> }
}

pub(crate) static KINDS: LazyLock<Vec<FuzzedType>> = LazyLock::new(|| {
    vec![
        kind::<every::Everything>(),
        kind::<every::Derived>(),
        kind::<every::Texts>(),
        kind::<every::Collections>(),
        kind::<every::Choice>(),
        kind::<every::Colored>(),
        kind::<every::Either>(),
        kind::<every::Tree>(),
        kind::<every::Numbers>(),
        kind::<TolerantSample>(),
        kind::<idl_xtypes::TypeObjects>(),
        kind::<idl_xtypes::Any>(),
    ]
});

/// Returns the kind that a byte selects.
pub(crate) fn selected(by: u8) -> &'static FuzzedType {
    &KINDS[usize::from(by) % KINDS.len()]
}

/// Reads and writes. Compares bytes instead of values because a NaN is not equal to itself.
fn rewrite<T: DdsType + Debug>(payload: &[u8], encoding: Encoding) -> Result<Vec<u8>, CdrError> {
    let value = from_cdr::<T>(payload)?;
    let written = to_cdr_with(&value, encoding).expect("a value that was read can be written");
    for other in ENCODINGS {
        let payload = to_cdr_with(&value, other).expect("a value that was read can be written");
        assert_eq!(payload.len() % 4, 0, "{other:?}");
        let again = from_cdr::<T>(&payload).expect("a value that was written can be read");
        let again = to_cdr_with(&again, encoding).expect("a value that was read can be written");
        assert_eq!(again, written, "by {other:?}: {value:?}");
        let payload = key_to_cdr_with(&value, other).expect("a key can be written");
        let alone = key_from_cdr::<T>(&payload).expect("a key can be read");
        assert_eq!(key_to_cdr(&alone), key_to_cdr(&value), "by {other:?}: {value:?}");
        assert_eq!(key_hash(&alone), key_hash(&value), "by {other:?}: {value:?}");
    }
    Ok(written)
}

fn key<T: DdsType>(payload: &[u8]) -> Result<Vec<u8>, CdrError> {
    let key =
        key_to_cdr(&key_from_cdr::<T>(payload)?).expect("a value that was read can be written");
    Ok(key)
}
