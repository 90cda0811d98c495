//! Files for tests, and their errors and results.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use qos_profiles::EntityKind;
use qos_profiles::xml::{QosProvider, ResolvedEntity};

/// Returns a file with one set of policies in profile `P` of library `L`; the set begins in line 4.
pub(crate) fn file(kind: EntityKind, inside: &str) -> String {
    let element = kind.element();
    format!(
        "<dds>\n<qos_library name=\"L\">\n<qos_profile name=\"P\">\n<{element}>\n{inside}\n</{element}>\n\
         </qos_profile>\n</qos_library>\n</dds>\n"
    )
}

/// Returns the path of the set of policies in such a file.
pub(crate) fn path(kind: EntityKind) -> String {
    format!("dds/qos_library[L]/qos_profile[P]/{}", kind.element())
}

/// Returns the errors in a text.
#[track_caller]
pub(crate) fn errors(text: &str) -> Vec<String> {
    match QosProvider::from_str(text) {
        Ok(_) => panic!("nothing is wrong with:\n{text}"),
        Err(errors) => errors.errors().iter().map(ToString::to_string).collect(),
    }
}

/// Returns the profiles of a text without errors.
#[track_caller]
pub(crate) fn provider(text: &str) -> QosProvider {
    QosProvider::from_str(text).unwrap_or_else(|errors| panic!("{errors}\nin:\n{text}"))
}

/// Returns the resolved set of such a file.
#[track_caller]
pub(crate) fn resolved(kind: EntityKind, inside: &str) -> ResolvedEntity {
    provider(&file(kind, inside)).entity(kind, "L::P", None).unwrap()
}
