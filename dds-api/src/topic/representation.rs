//! Data representations: those that a type allows its topics, writers and readers, and the one that
//! a writer uses.
//!
//! Owns: the default of DATA_REPRESENTATION, and the text of a refusal. Never does: encode.

use idl_cdr::{Encoding, Representations};
use idl_xtypes::TopicData;
use qos_profiles::{DataRepresentationId, DataRepresentationQosPolicy};

use crate::infrastructure::{DdsError, DdsResult};

/// Representations of a type's samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeRepresentations {
    /// The representations that the type allows.
    allowed: Representations,
    /// Whether another version of the type, or of a type that it contains, may have other members.
    may_change: bool,
}

/// Owner of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PolicyOwner {
    Topic,
    Writer,
    Reader,
}

impl PolicyOwner {
    fn words(self) -> &'static str {
        match self {
            PolicyOwner::Topic => "topic",
            PolicyOwner::Writer => "a writer of",
            PolicyOwner::Reader => "a reader of",
        }
    }
}

impl TypeRepresentations {
    pub(crate) fn of<T: TopicData>(support: &T::TypeSupport) -> TypeRepresentations {
        let may_change = T::dynamic_type(support).may_change();
        TypeRepresentations { allowed: T::representations(support), may_change }
    }

    /// Fills in the policy if it is empty. Refuses representations that the type does not allow, or
    /// that no participant could send.
    pub(crate) fn settle(
        self,
        whose: PolicyOwner,
        topic: &str,
        policy: &mut DataRepresentationQosPolicy,
    ) -> DdsResult<()> {
        let allowed = self.allowed;
        let refuse = |why: &str| {
            let whose = whose.words();
            Err(DdsError::InconsistentPolicy(format!(
                "{whose} `{topic}`: DATA_REPRESENTATION: {why}"
            )))
        };
        let by_type =
            |why: &str| refuse(&format!("its type allows {allowed} (@data_representation), {why}"));
        if !allowed.contains(Representations::XCDR1) && !allowed.contains(Representations::XCDR2) {
            return by_type("which no writer supports: allow XCDR2 as well");
        }
        let found = policy.value.iter().find(|one| !allowed.contains(representation(**one)));
        if let Some(found) = found {
            return by_type(&format!(
                "and {found:?} is requested: leave it out of the list, or clear the list"
            ));
        }
        let is_cdr = |one: &DataRepresentationId| *one != DataRepresentationId::Xml;
        if whose == PolicyOwner::Writer && policy.value.first().is_some_and(|first| !is_cdr(first))
        {
            return refuse(
                "XML comes first, and a writer uses the first entry, but XML is not supported: \
                 begin with Xcdr or Xcdr2",
            );
        }
        if !policy.value.is_empty() && !policy.value.iter().any(is_cdr) {
            return refuse("XML is the only entry, but XML is not supported: add Xcdr or Xcdr2");
        }
        // An empty list stands for XCDR1. XCDR1 does not say where a part ends whose members differ
        // in another version.
        let second = allowed.contains(Representations::XCDR2)
            && (self.may_change || !allowed.contains(Representations::XCDR1));
        if policy.value.is_empty() && second {
            policy.value = vec![DataRepresentationId::Xcdr2];
        }
        Ok(())
    }
}

/// The encoding of a writer that offers this policy.
pub(crate) fn encoding(policy: &DataRepresentationQosPolicy) -> Encoding {
    match policy.representations().first() {
        Some(DataRepresentationId::Xcdr2) => Encoding::PLAIN_CDR2_LE,
        // No writer offers XML, because it is refused before.
        _ => Encoding::CDR_LE,
    }
}

fn representation(of: DataRepresentationId) -> Representations {
    match of {
        DataRepresentationId::Xcdr => Representations::XCDR1,
        DataRepresentationId::Xml => Representations::XML,
        DataRepresentationId::Xcdr2 => Representations::XCDR2,
    }
}
