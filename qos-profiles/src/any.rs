//! The policies of an entity of any kind.
//!
//! Owns: the kinds of entities, and access to a set of policies by policy and field. Never does:
//! add a rule of its own.

use crate::fields::{Policy, Value};
use crate::{
    DataReaderQos, DataWriterQos, DomainParticipantQos, Inconsistency, PolicyId, PublisherQos,
    SubscriberQos, TopicQos,
};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($qos:ident), $element:literal, $word:literal;)*) => {
        /// A kind of entity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EntityKind {
            $($(#[$doc])* $kind,)*
        }

        /// The policies of an entity of any kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum EntityQos {
            $($(#[$doc])* $kind($qos),)*
        }

        impl EntityKind {
            /// All kinds.
            pub const ALL: [Self; 6] = [$(Self::$kind),*];

            /// Returns the standard's name of the kind's policy set: `datawriter_qos`.
            pub const fn element(self) -> &'static str {
                match self {
                    $(Self::$kind => $element,)*
                }
            }

            /// Returns the name of the kind in a sentence: `data writer`.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }

            /// Returns the policies of the kind, each with its name in the set.
            pub fn policies(self) -> impl Iterator<Item = (PolicyId, &'static str)> {
                let (policies, names) = match self {
                    $(Self::$kind => ($qos::POLICIES, $qos::NAMES),)*
                };
                policies.iter().copied().zip(names.iter().copied())
            }

            /// Returns the standard's defaults.
            pub fn default_qos(self) -> EntityQos {
                match self {
                    $(Self::$kind => EntityQos::$kind($qos::default()),)*
                }
            }
        }

        impl EntityQos {
            /// Returns the kind of entity.
            pub const fn kind(&self) -> EntityKind {
                match self {
                    $(Self::$kind(_) => EntityKind::$kind,)*
                }
            }

            /// Returns the contradictions in this set; empty if there are none.
            pub fn inconsistencies(&self) -> Vec<Inconsistency> {
                match self {
                    $(Self::$kind(qos) => qos.inconsistencies(),)*
                }
            }

            fn policy(&self, policy: PolicyId) -> Option<&dyn Policy> {
                match self {
                    $(Self::$kind(qos) => qos.policy(policy),)*
                }
            }

            fn policy_mut(&mut self, policy: PolicyId) -> Option<&mut dyn Policy> {
                match self {
                    $(Self::$kind(qos) => qos.policy_mut(policy),)*
                }
            }
        }

        $(
            impl From<$qos> for EntityQos {
                fn from(qos: $qos) -> Self {
                    Self::$kind(qos)
                }
            }
        )*
    };
}

kinds! {
    /// A domain participant.
    DomainParticipant(DomainParticipantQos), "domain_participant_qos", "domain participant";
    /// A topic.
    Topic(TopicQos), "topic_qos", "topic";
    /// A publisher.
    Publisher(PublisherQos), "publisher_qos", "publisher";
    /// A subscriber.
    Subscriber(SubscriberQos), "subscriber_qos", "subscriber";
    /// A data writer.
    DataWriter(DataWriterQos), "datawriter_qos", "data writer";
    /// A data reader.
    DataReader(DataReaderQos), "datareader_qos", "data reader";
}

impl EntityKind {
    /// Whether entities of the kind belong to a topic, so that the topic's name can select one of
    /// their sets.
    pub const fn has_topic(self) -> bool {
        matches!(self, Self::Topic | Self::DataWriter | Self::DataReader)
    }
}

impl EntityQos {
    /// Returns the value of a policy's field, by its index in [`PolicyId::fields`]; `None` if this
    /// kind of entity has no such policy.
    pub fn value(&self, policy: PolicyId, field: usize) -> Option<Value> {
        self.policy(policy)?.get(field)
    }

    /// Whether a policy has the same value in another set.
    pub fn agrees(&self, other: &Self, policy: PolicyId) -> bool {
        let fields = 0..policy.fields().len();
        fields.into_iter().all(|field| self.value(policy, field) == other.value(policy, field))
    }

    /// Copies a policy's value from another set of the same kind.
    pub fn adopt(&mut self, other: &Self, policy: PolicyId) {
        for field in 0..policy.fields().len() {
            if let Some(value) = other.value(policy, field) {
                self.set_value(policy, field, &value);
            }
        }
    }

    /// Sets the value of a policy's field; false if there is no such field, or if the value is of
    /// another type.
    pub fn set_value(&mut self, policy: PolicyId, field: usize, value: &Value) -> bool {
        self.policy_mut(policy).is_some_and(|policy| policy.set(field, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldType;

    #[test]
    fn every_policy_field_is_read_and_set_by_index() {
        for kind in EntityKind::ALL {
            let mut qos = kind.default_qos();
            for (policy, name) in kind.policies() {
                for (index, field) in policy.fields().iter().enumerate() {
                    let old = qos.value(policy, index).unwrap();
                    let fits = matches!(
                        (&old, field.ty),
                        (Value::Bool(_), FieldType::Bool)
                            | (Value::Unsigned(_), FieldType::Unsigned)
                            | (Value::Signed(_), FieldType::Signed)
                            | (Value::Length(_), FieldType::Length)
                            | (Value::Duration(_), FieldType::Duration)
                            | (Value::Kind(_), FieldType::Kind(_))
                            | (Value::Octets(_), FieldType::Octets)
                            | (Value::Texts(_), FieldType::Texts)
                            | (Value::Kinds(_), FieldType::Kinds(_))
                    );
                    assert!(fits, "{name}.{}", field.name);
                    let new = match &old {
                        Value::Bool(value) => Value::Bool(!value),
                        Value::Unsigned(value) => Value::Unsigned(value + 7),
                        Value::Signed(value) => Value::Signed(value - 7),
                        Value::Length(_) => Value::Length(crate::Length::of(7)),
                        Value::Duration(_) => Value::Duration(crate::Duration::from_millis(7)),
                        Value::Kind(value) => Value::Kind(1 - value),
                        Value::Octets(_) => Value::Octets(vec![7]),
                        Value::Texts(_) => Value::Texts(vec!["seven".to_owned()]),
                        Value::Kinds(_) => Value::Kinds(vec![2]),
                    };
                    assert!(qos.set_value(policy, index, &new), "{name}.{}", field.name);
                    assert_eq!(qos.value(policy, index), Some(new));
                }
                assert_eq!(qos.value(policy, policy.fields().len()), None);
            }
        }
    }
}
