//! What is seen of a topic by who has nothing of it: its endpoints, taken together.
//!
//! Owns: which endpoint stands for all. Never does: look for endpoints; discovery does.

use std::collections::BTreeSet;

use idl_xtypes::DynamicType;
use qos_profiles::TopicQos;

use super::directory::TopicFacts;
use super::endpoint::{Endpoint, EndpointKind};

/// See the [module](self).
pub(crate) struct Sight {
    /// One that stands for all, a writer if there is one.
    pub(crate) endpoint: Endpoint,
    /// The policies of its topic, if its participant has said them.
    pub(crate) topic: Option<TopicQos>,
    /// Its type; none if nobody tells of it.
    pub(crate) of: Option<DynamicType>,
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    /// The partitions that are named, in their order.
    pub(crate) partitions: Vec<String>,
}

impl Sight {
    /// Of the endpoints of a topic, beside what their participants say of it; none if there are no writers and readers.
    pub(super) fn of<'a>(
        endpoints: impl Iterator<Item = (&'a Endpoint, Option<&'a TopicFacts>)>,
        find: impl Fn(&Endpoint) -> Option<DynamicType>,
    ) -> Option<Sight> {
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
        Some(Sight {
            of: find(endpoint),
            endpoint: endpoint.clone(),
            topic: topic.map(|topic| topic.qos.clone()),
            writers,
            readers,
            partitions: partitions.into_iter().collect(),
        })
    }
}
