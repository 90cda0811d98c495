//! What a type allows of DATA_REPRESENTATION.
//!
//! Owns: the list of those who say nothing, and the words of a refusal. Never does: encode.

use idl_cdr::Representations;
use qos_profiles::{DataRepresentationId, DataRepresentationQosPolicy};

use crate::infrastructure::{DdsError, DdsResult};

/// Fills in the policy of who says nothing, and refuses one that the type does not allow.
pub(crate) fn settle(
    allowed: Representations,
    of: &str,
    policy: &mut DataRepresentationQosPolicy,
) -> DdsResult<()> {
    let refuse = |why: String| {
        Err(DdsError::InconsistentPolicy(format!(
            "{of}: DATA_REPRESENTATION: its type allows {allowed} (@data_representation), {why}"
        )))
    };
    if !allowed.contains(Representations::XCDR1) && !allowed.contains(Representations::XCDR2) {
        return refuse("which nobody sends here: allow XCDR2 as well".to_owned());
    }
    let found = policy.value.iter().find(|one| !allowed.contains(representation(**one)));
    if let Some(found) = found {
        return refuse(format!(
            "and {found:?} is asked for: leave it out of the list, or clear the list"
        ));
    }
    // A list of nothing stands for XCDR1.
    if policy.value.is_empty() && !allowed.contains(Representations::XCDR1) {
        policy.value = vec![DataRepresentationId::Xcdr2];
    }
    Ok(())
}

fn representation(of: DataRepresentationId) -> Representations {
    match of {
        DataRepresentationId::Xcdr => Representations::XCDR1,
        DataRepresentationId::Xml => Representations::XML,
        DataRepresentationId::Xcdr2 => Representations::XCDR2,
    }
}
