//! Compatibility of a writer's offer with a reader's request.
//!
//! Owns the table of rules, one for each policy that the standard marks RxO. Never decides the
//! consequences of an incompatibility.

use crate::{
    DataReaderQos, DataRepresentationId, DataWriterQos, PolicyId, PublisherQos, SubscriberQos,
};
use std::fmt;

/// Writer's side: its own policies and its publisher's.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// Policies of the writer.
    pub writer: &'a DataWriterQos,
    /// Policies of its publisher.
    pub publisher: &'a PublisherQos,
}

/// Reader's side: its own policies and its subscriber's.
#[derive(Clone, Copy, Debug)]
pub struct Requested<'a> {
    /// Policies of the reader.
    pub reader: &'a DataReaderQos,
    /// Policies of its subscriber.
    pub subscriber: &'a SubscriberQos,
}

/// A policy for which a writer offers less than a reader requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incompatibility {
    /// The policy.
    pub policy: PolicyId,
    /// Name of the policy.
    pub name: &'static str,
    /// Sentence with both values, and the rule between them.
    pub reason: String,
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

/// Returns the policies for which less is offered than requested, in the order of their numbers;
/// empty if writer and reader can match.
pub fn incompatible(offered: &Offered<'_>, requested: &Requested<'_>) -> Vec<Incompatibility> {
    RULES
        .iter()
        .filter_map(|(policy, rule)| {
            let reason = rule(offered, requested)?;
            Some(Incompatibility { policy: *policy, name: policy.name(), reason })
        })
        .collect()
}

/// Rule that returns the reason why a request is not met.
type Rule = fn(&Offered<'_>, &Requested<'_>) -> Option<String>;

const RULES: [(PolicyId, Rule); 9] = [
    (PolicyId::Durability, |offered, requested| {
        at_least("kind", offered.writer.durability.kind, requested.reader.durability.kind)
    }),
    (PolicyId::Presentation, presentation),
    (PolicyId::Deadline, |offered, requested| {
        at_most("period", offered.writer.deadline.period, requested.reader.deadline.period)
    }),
    (PolicyId::LatencyBudget, |offered, requested| {
        let (offered, requested) = (&offered.writer.latency_budget, &requested.reader);
        at_most("duration", offered.duration, requested.latency_budget.duration)
    }),
    (PolicyId::Ownership, |offered, requested| {
        let (offered, requested) = (offered.writer.ownership.kind, requested.reader.ownership.kind);
        (offered != requested).then(|| {
            format!(
                "the writer offers kind {offered:?}, the reader requests {requested:?}; both must \
                 be the same"
            )
        })
    }),
    (PolicyId::Liveliness, |offered, requested| {
        let (offered, requested) = (&offered.writer.liveliness, &requested.reader.liveliness);
        at_least("kind", offered.kind, requested.kind)
            .or_else(|| at_most("lease_duration", offered.lease_duration, requested.lease_duration))
    }),
    (PolicyId::Reliability, |offered, requested| {
        at_least("kind", offered.writer.reliability.kind, requested.reader.reliability.kind)
    }),
    (PolicyId::DestinationOrder, |offered, requested| {
        let (offered, requested) = (&offered.writer.destination_order, &requested.reader);
        at_least("kind", offered.kind, requested.destination_order.kind)
    }),
    (PolicyId::DataRepresentation, representation),
];

fn presentation(offered: &Offered<'_>, requested: &Requested<'_>) -> Option<String> {
    let (offered, requested) =
        (&offered.publisher.presentation, &requested.subscriber.presentation);
    let missing = |field: &str| {
        format!(
            "the subscriber requests {field}, which the publisher does not offer; set it on the \
             publisher, or clear it on the subscriber"
        )
    };
    if requested.coherent_access && !offered.coherent_access {
        return Some(missing("coherent_access"));
    }
    if requested.ordered_access && !offered.ordered_access {
        return Some(missing("ordered_access"));
    }
    at_least("access_scope", offered.access_scope, requested.access_scope)
}

/// A writer sends in the first form of its list, so the reader must accept that one.
fn representation(offered: &Offered<'_>, requested: &Requested<'_>) -> Option<String> {
    let sent: DataRepresentationId = offered.writer.representation.representations()[0];
    let taken = requested.reader.representation.representations();
    (!taken.contains(&sent)).then(|| {
        format!(
            "the writer sends {sent:?}, the reader takes {taken:?}; add it to the reader's list, \
             or put another one first in the writer's"
        )
    })
}

fn at_least<T: PartialOrd + fmt::Debug>(field: &str, offered: T, requested: T) -> Option<String> {
    (offered < requested).then(|| {
        format!(
            "the writer offers {field} {offered:?}, the reader requests {requested:?}; a writer \
             must offer at least what a reader requests"
        )
    })
}

fn at_most<T: PartialOrd + fmt::Display>(field: &str, offered: T, requested: T) -> Option<String> {
    (offered > requested).then(|| {
        format!(
            "the writer offers {field} {offered}, the reader requests {requested}; a writer must \
             offer at most what a reader requests"
        )
    })
}
