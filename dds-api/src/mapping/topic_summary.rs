//! Description of a topic by its endpoints, for a participant without an endpoint of that topic.
//!
//! Owns: the choice of the representative endpoint. Never does: search for endpoints; discovery
//! does.

use std::collections::BTreeSet;

use idl_xtypes::DynamicType;
use qos_profiles::TopicQos;

use super::directory::TopicFacts;
use super::endpoint::{Endpoint, EndpointKind};

/// See the [module](self).
pub(crate) struct TopicSummary {
    /// A representative endpoint: a writer if there is one.
    pub(crate) endpoint: Endpoint,
    /// Policies of the topic, if the endpoint's participant has announced them.
    pub(crate) topic: Option<TopicQos>,
    /// Type of the topic; `None` if no participant has announced it.
    pub(crate) of: Option<DynamicType>,
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    /// Names of the partitions, sorted.
    pub(crate) partitions: Vec<String>,
}

impl TopicSummary {
    /// Describes a topic by its endpoints and their participants' announcements; `None` if there
    /// are no writers and readers.
    pub(super) fn of<'a>(
        endpoints: impl Iterator<Item = (&'a Endpoint, Option<&'a TopicFacts>)>,
        find: impl Fn(&Endpoint) -> Option<DynamicType>,
    ) -> Option<TopicSummary> {
        let (mut first, mut partitions) = (None, BTreeSet::new());
        let (mut writers, mut readers) = (0, 0);
        for (endpoint, topic) in endpoints {
            let is_first = match endpoint.kind {
                EndpointKind::Writer => {
                    writers += 1;
                    writers == 1
                }
                EndpointKind::Reader => {
                    readers += 1;
                    first.is_none()
                }
                _ => continue,
            };
            if is_first {
                first = Some((endpoint, topic));
            }
            partitions.extend(endpoint.policies.partition().name.iter().cloned());
        }
        let (endpoint, topic) = first?;
        Some(TopicSummary {
            of: find(endpoint),
            endpoint: endpoint.clone(),
            topic: topic.map(|topic| topic.qos.clone()),
            writers,
            readers,
            partitions: partitions.into_iter().collect(),
        })
    }
}
