//! Policies that endpoints offer or request, in the form in which participants announce them.
//!
//! Owns: the default policies of an endpoint, and the announcement of policies that differ: field
//! by field, by the standard's numbers. Never does: decide what policies mean.

use idl_cdr::DdsType;
use qos_profiles::{
    DataReaderQos, DataWriterQos, DurabilityQosPolicyKind, Duration, EntityQos,
    HistoryQosPolicyKind, Incompatibility, Length, Offered, PartitionQosPolicy, PolicyId,
    PresentationQosPolicyAccessScopeKind, PublisherQos, ReliabilityQosPolicy,
    ReliabilityQosPolicyKind, Requested, SubscriberQos, Value, incompatible,
};

use super::level::TopicLevel;
use super::record::RecordedOffer;
use super::type_identity::Consistency;
use crate::infrastructure::{DdsError, DdsResult};

/// Maximum length of an announcement in bytes. The control stream must be able to carry it (I-182).
pub(crate) const LONGEST_ANNOUNCEMENT: usize = 12 << 10;

/// Policies that a writer offers or a reader requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EndpointPolicies {
    Offered { writer: DataWriterQos, publisher: PublisherQos },
    Requested { reader: DataReaderQos, subscriber: SubscriberQos },
}

/// A field of a policy whose value differs from the default.
#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) struct PolicySetting {
    policy: u8,
    field: u8,
    value: EncodedValue,
}

/// Encoded form of a policy's value.
#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr", union, discriminator = "u8")]
enum EncodedValue {
    #[dds(case = 0)]
    Bool(bool),
    #[dds(case = 1)]
    Unsigned(u32),
    #[dds(case = 2)]
    Signed(i32),
    #[dds(case = 3)]
    Length(i32),
    #[dds(case = 4)]
    Duration(Span),
    #[dds(case = 5)]
    Kind(u8),
    #[dds(case = 6)]
    Octets(Vec<u8>),
    #[dds(case = 7)]
    Texts(Vec<String>),
    #[dds(case = 8)]
    Kinds(Vec<u8>),
}

#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
struct Span {
    sec: i32,
    nanosec: u32,
}

impl From<Value> for EncodedValue {
    fn from(value: Value) -> EncodedValue {
        match value {
            Value::Bool(value) => EncodedValue::Bool(value),
            Value::Unsigned(value) => EncodedValue::Unsigned(value),
            Value::Signed(value) => EncodedValue::Signed(value),
            Value::Length(value) => EncodedValue::Length(value.into()),
            Value::Duration(value) => {
                EncodedValue::Duration(Span { sec: value.sec(), nanosec: value.nanosec() })
            }
            Value::Kind(value) => EncodedValue::Kind(value),
            Value::Octets(value) => EncodedValue::Octets(value),
            Value::Texts(value) => EncodedValue::Texts(value),
            Value::Kinds(value) => EncodedValue::Kinds(value),
        }
    }
}

impl EncodedValue {
    /// The value; `None` if it is invalid.
    fn value(self) -> Option<Value> {
        Some(match self {
            EncodedValue::Bool(value) => Value::Bool(value),
            EncodedValue::Unsigned(value) => Value::Unsigned(value),
            EncodedValue::Signed(value) => Value::Signed(value),
            EncodedValue::Length(value) => Value::Length(Length::try_from(value).ok()?),
            EncodedValue::Duration(Span { sec, nanosec }) => {
                let infinite = Duration::INFINITE;
                match (sec, nanosec) == (infinite.sec(), infinite.nanosec()) {
                    true => Value::Duration(infinite),
                    false => Value::Duration(Duration::new(sec, nanosec)?),
                }
            }
            EncodedValue::Kind(value) => Value::Kind(value),
            EncodedValue::Octets(value) => Value::Octets(value),
            EncodedValue::Texts(value) => Value::Texts(value),
            EncodedValue::Kinds(value) => Value::Kinds(value),
        })
    }
}

/// Policies of an endpoint, and of its publisher or subscriber.
type EndpointAndGroupQos = [EntityQos; 2];

impl EndpointPolicies {
    /// Default policies of a writer on a topic of this level. The writer offers what the topic
    /// guarantees anyway.
    pub(crate) fn offered(level: TopicLevel) -> EndpointPolicies {
        let mut writer = DataWriterQos::default();
        writer.durability.kind = durability(level);
        EndpointPolicies::Offered { writer, publisher: publisher() }
    }

    /// Assumed policies of a departed writer that is only known by its kept samples on such
    /// a topic.
    pub(crate) fn of_departed(level: TopicLevel) -> EndpointPolicies {
        let mut left = EndpointPolicies::offered(level);
        if let EndpointPolicies::Offered { writer, .. } = &mut left {
            writer.durability.kind = most_durable(level);
        }
        left
    }

    /// Default policies of a reader.
    pub(crate) fn requested(level: TopicLevel) -> EndpointPolicies {
        let mut reader = DataReaderQos::default();
        reader.durability.kind = durability(level);
        reader.history.kind = HistoryQosPolicyKind::KeepAll;
        reader.reliability = ReliabilityQosPolicy::of(ReliabilityQosPolicyKind::Reliable);
        EndpointPolicies::Requested { reader, subscriber: SubscriberQos::default() }
    }

    /// The policies with this offer, if they are a writer's.
    pub(super) fn with(mut self, offer: RecordedOffer) -> EndpointPolicies {
        if let EndpointPolicies::Offered { writer, publisher } = &mut self {
            offer.put_into(writer, publisher);
        }
        self
    }

    fn of_kind(is_writer: bool, level: TopicLevel) -> EndpointPolicies {
        if is_writer {
            EndpointPolicies::offered(level)
        } else {
            EndpointPolicies::requested(level)
        }
    }

    fn is_writer(&self) -> bool {
        matches!(self, EndpointPolicies::Offered { .. })
    }

    /// Policies of the endpoint, and of its publisher or subscriber.
    pub(crate) fn both(&self) -> EndpointAndGroupQos {
        match self {
            EndpointPolicies::Offered { writer, publisher } => {
                [writer.clone().into(), publisher.clone().into()]
            }
            EndpointPolicies::Requested { reader, subscriber } => {
                [reader.clone().into(), subscriber.clone().into()]
            }
        }
    }

    fn of_both(both: EndpointAndGroupQos) -> Option<EndpointPolicies> {
        match both {
            [EntityQos::DataWriter(writer), EntityQos::Publisher(publisher)] => {
                Some(EndpointPolicies::Offered { writer, publisher })
            }
            [EntityQos::DataReader(reader), EntityQos::Subscriber(subscriber)] => {
                Some(EndpointPolicies::Requested { reader, subscriber })
            }
            _ => None,
        }
    }

    /// The settings to announce: those that differ from the defaults for a topic of this level.
    pub(crate) fn settings(&self, level: TopicLevel) -> Vec<PolicySetting> {
        let default = EndpointPolicies::of_kind(self.is_writer(), level);
        if *self == default {
            return Vec::new();
        }
        let both = self.both().into_iter().zip(default.both());
        both.flat_map(|(set, default)| settings_beyond(&default, &set)).collect()
    }

    /// The policies with these announced settings; `None` if the settings are invalid.
    pub(crate) fn decoded_with(
        is_writer: bool,
        level: TopicLevel,
        settings: Vec<PolicySetting>,
    ) -> Option<EndpointPolicies> {
        let default = EndpointPolicies::of_kind(is_writer, level);
        if settings.is_empty() {
            return Some(default);
        }
        let mut both = default.both();
        tell(&mut both, settings)?;
        EndpointPolicies::of_both(both)
    }

    /// Whether RELIABILITY is best effort.
    pub(crate) fn is_best_effort(&self) -> bool {
        let kind = match self {
            EndpointPolicies::Offered { writer, .. } => writer.reliability.kind,
            EndpointPolicies::Requested { reader, .. } => reader.reliability.kind,
        };
        kind == ReliabilityQosPolicyKind::BestEffort
    }

    /// PARTITION.
    pub(crate) fn partition(&self) -> &PartitionQosPolicy {
        match self {
            EndpointPolicies::Offered { publisher, .. } => &publisher.partition,
            EndpointPolicies::Requested { subscriber, .. } => &subscriber.partition,
        }
    }

    /// TYPE_CONSISTENCY_ENFORCEMENT.
    pub(crate) fn consistency(&self) -> Consistency {
        match self {
            EndpointPolicies::Offered { .. } => Consistency::default(),
            EndpointPolicies::Requested { reader, .. } => Consistency::of(&reader.type_consistency),
        }
    }

    pub(crate) fn partition_mut(&mut self) -> &mut PartitionQosPolicy {
        match self {
            EndpointPolicies::Offered { publisher, .. } => &mut publisher.partition,
            EndpointPolicies::Requested { subscriber, .. } => &mut subscriber.partition,
        }
    }

    /// The policies in which the offer of a writer is less than the request of this reader.
    pub(crate) fn refuses(&self, offered: &EndpointPolicies) -> Vec<Incompatibility> {
        match (self, offered) {
            (
                EndpointPolicies::Requested { reader, subscriber },
                EndpointPolicies::Offered { writer, publisher },
            ) => incompatible(&Offered { writer, publisher }, &Requested { reader, subscriber }),
            // Two readers, or two writers, request nothing from each other.
            _ => Vec::new(),
        }
    }
}

/// The settings that turn known policies into the given ones.
pub(crate) fn settings_beyond(known: &EntityQos, set: &EntityQos) -> Vec<PolicySetting> {
    let mut settings = Vec::new();
    for (policy, _) in set.kind().policies() {
        for field in 0..policy.fields().len() {
            let value = set.value(policy, field);
            if value != known.value(policy, field)
                && let Some(value) = value
            {
                let (policy, field) = (policy.id() as u8, field as u8);
                settings.push(PolicySetting { policy, field, value: value.into() });
            }
        }
    }
    settings
}

/// Known policies with these announced settings; `None` if the settings are invalid.
pub(crate) fn decoded_over(known: EntityQos, settings: Vec<PolicySetting>) -> Option<EntityQos> {
    let mut sets = [known];
    tell(&mut sets, settings)?;
    let [decoded] = sets;
    Some(decoded)
}

/// Applies each setting to the first of these sets that has such a policy; `None` if a setting
/// is invalid.
fn tell(sets: &mut [EntityQos], settings: Vec<PolicySetting>) -> Option<()> {
    for PolicySetting { policy, field, value } in settings {
        let policy = PolicyId::from_id(policy.into())?;
        let value = value.value()?;
        let set = sets.iter_mut().find(|set| set.value(policy, field.into()).is_some())?;
        if !set.set_value(policy, field.into(), &value) {
            return None;
        }
    }
    Some(())
}

/// Checks whether an application's data can be announced, apart from the rest of the announcement.
pub(crate) fn check_data(policy: PolicyId, bytes: &[u8]) -> DdsResult<()> {
    match bytes.len() > LONGEST_ANNOUNCEMENT {
        true => Err(DdsError::BadParameter(format!(
            "{policy} has {} bytes, and a whole announcement has at most {LONGEST_ANNOUNCEMENT}: \
             make the policy's value shorter",
            bytes.len()
        ))),
        false => Ok(()),
    }
}

/// Checks whether a writer on a topic of this level may offer this DURABILITY. The error says which
/// topic would be needed.
pub(crate) fn check_durability(
    level: TopicLevel,
    offered: DurabilityQosPolicyKind,
) -> Result<(), String> {
    if offered <= most_durable(level) {
        return Ok(());
    }
    let remedy = match offered {
        DurabilityQosPolicyKind::Persistent => "make the topic persistent()",
        _ => "make the topic transient_local()",
    };
    Err(format!(
        "DURABILITY {offered:?} is more than the topic provides, which is {level}: {remedy}"
    ))
}

/// Maximum DURABILITY that a writer on a topic of this level may offer.
fn most_durable(level: TopicLevel) -> DurabilityQosPolicyKind {
    match level {
        TopicLevel::Kept => DurabilityQosPolicyKind::Transient,
        level => durability(level),
    }
}

/// DURABILITY of a topic of this level.
pub(crate) fn durability(level: TopicLevel) -> DurabilityQosPolicyKind {
    match level {
        TopicLevel::Unordered | TopicLevel::Atomic => DurabilityQosPolicyKind::Volatile,
        TopicLevel::Kept => DurabilityQosPolicyKind::TransientLocal,
        TopicLevel::Logged => DurabilityQosPolicyKind::Persistent,
    }
}

/// Policies of writers without a publisher of their own. The samples of a writer always keep their
/// order, so ordered access is offered.
pub(crate) fn publisher() -> PublisherQos {
    let mut publisher = PublisherQos::default();
    publisher.presentation.access_scope = PresentationQosPolicyAccessScopeKind::Topic;
    publisher.presentation.ordered_access = true;
    publisher
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [TopicLevel; 4] =
        [TopicLevel::Unordered, TopicLevel::Atomic, TopicLevel::Kept, TopicLevel::Logged];

    #[test]
    fn default_policies_are_not_announced_and_changed_policies_round_trip() {
        for level in LEVELS {
            for is_writer in [true, false] {
                let default = EndpointPolicies::of_kind(is_writer, level);
                assert_eq!(default.settings(level), []);
                assert_eq!(
                    EndpointPolicies::decoded_with(is_writer, level, Vec::new()),
                    Some(default.clone())
                );
                for set in 0..2 {
                    for (policy, _) in default.both()[set].kind().policies() {
                        for field in 0..policy.fields().len() {
                            let mut both = default.both();
                            let value = other(both[set].value(policy, field).unwrap());
                            assert!(both[set].set_value(policy, field, &value));
                            let changed = EndpointPolicies::of_both(both).unwrap();
                            let settings = changed.settings(level);
                            assert_eq!(settings.len(), 1, "{policy}.{field}");
                            let decoded =
                                EndpointPolicies::decoded_with(is_writer, level, settings);
                            assert_eq!(decoded, Some(changed), "{policy}.{field}");
                        }
                    }
                }
            }
        }
    }

    fn other(value: Value) -> Value {
        match value {
            Value::Bool(value) => Value::Bool(!value),
            Value::Unsigned(value) => Value::Unsigned(value + 7),
            Value::Signed(value) => Value::Signed(value - 7),
            Value::Length(_) => Value::Length(Length::of(7)),
            Value::Duration(Duration::INFINITE) => Value::Duration(Duration::from_millis(7)),
            Value::Duration(_) => Value::Duration(Duration::INFINITE),
            Value::Kind(value) => Value::Kind(1 - value.min(1)),
            Value::Octets(_) => Value::Octets(vec![7]),
            Value::Texts(_) => Value::Texts(vec!["seven".into()]),
            Value::Kinds(_) => Value::Kinds(vec![2]),
        }
    }

    #[test]
    fn default_policies_match_at_every_level() {
        for level in LEVELS {
            let refused =
                EndpointPolicies::requested(level).refuses(&EndpointPolicies::offered(level));
            assert_eq!(refused, []);
        }
    }

    #[test]
    fn decoder_rejects_unknown_policies_fields_and_values() {
        let decode = |policy, field, value| {
            EndpointPolicies::decoded_with(
                true,
                TopicLevel::Atomic,
                vec![PolicySetting { policy, field, value }],
            )
        };
        assert_eq!(decode(0, 0, EncodedValue::Bool(true)), None, "no such policy");
        assert_eq!(decode(2, 1, EncodedValue::Kind(1)), None, "no such field");
        assert_eq!(decode(2, 0, EncodedValue::Bool(true)), None, "no such value");
        assert_eq!(decode(2, 0, EncodedValue::Kind(9)), None, "no such kind");
        assert_eq!(decode(4, 0, EncodedValue::Duration(Span { sec: -1, nanosec: 0 })), None);
        assert_eq!(
            decode(9, 0, EncodedValue::Duration(Span { sec: 1, nanosec: 0 })),
            None,
            "policy 9 belongs to readers"
        );
        assert!(decode(2, 0, EncodedValue::Kind(1)).is_some());
    }

    use DurabilityQosPolicyKind::{Persistent, Transient, TransientLocal, Volatile};

    /// For each level the default DURABILITY of writers, and the maximum.
    const DURABILITIES: [[DurabilityQosPolicyKind; 2]; 4] = [
        [Volatile, Volatile],
        [Volatile, Volatile],
        [TransientLocal, Transient],
        [Persistent, Persistent],
    ];

    #[test]
    fn writers_offer_durability_of_their_level_and_no_more() {
        let in_order = publisher().presentation;
        assert!(in_order.ordered_access && !in_order.coherent_access);
        assert_eq!(in_order.access_scope, PresentationQosPolicyAccessScopeKind::Topic);
        for (level, [default, most]) in LEVELS.into_iter().zip(DURABILITIES) {
            assert_eq!(durability(level), default);
            for offered in [Volatile, TransientLocal, Transient, Persistent] {
                let checked = check_durability(level, offered);
                assert_eq!(checked.is_ok(), offered <= most, "{level}, {offered:?}");
                let remedy =
                    if offered == Persistent { "persistent()" } else { "transient_local()" };
                assert!(checked.is_ok() || checked.unwrap_err().ends_with(remedy));
            }
            let kind = |policies| match policies {
                EndpointPolicies::Offered { writer, .. } => writer.durability.kind,
                EndpointPolicies::Requested { reader, .. } => reader.durability.kind,
            };
            assert_eq!(kind(EndpointPolicies::offered(level)), default);
            assert_eq!(kind(EndpointPolicies::requested(level)), default);
            assert_eq!(
                kind(EndpointPolicies::of_departed(level)),
                most,
                "departed writer may have offered the maximum"
            );
        }
    }

    #[test]
    fn record_reproduces_offer_of_departed_writer() {
        let level = TopicLevel::Atomic;
        let offered = |index| EndpointPolicies::offered(level).with(RecordedOffer::at(index));
        for index in 0..RecordedOffer::COUNT {
            let EndpointPolicies::Offered { writer, publisher } = offered(index) else {
                panic!("policies of a writer")
            };
            assert_eq!(RecordedOffer::of(&writer, &publisher).index(), index);
        }
        assert_eq!(offered(0), EndpointPolicies::offered(level));
        let requested = EndpointPolicies::requested(level);
        assert_eq!(
            requested.clone().with(RecordedOffer::at(7)),
            requested,
            "offer does not change the policies of a reader"
        );
    }

    #[test]
    fn policies_report_side_partition_reliability_and_type_consistency() {
        let level = TopicLevel::Atomic;
        for (mut policies, is_writer) in
            [(EndpointPolicies::offered(level), true), (EndpointPolicies::requested(level), false)]
        {
            assert_eq!(policies.is_writer(), is_writer);
            assert!(!policies.is_best_effort());
            policies.partition_mut().name = vec!["a".into()];
            assert_eq!(policies.partition().name, ["a"]);
            assert_eq!(policies.consistency(), Consistency::default());
            match &mut policies {
                EndpointPolicies::Offered { writer, publisher } => {
                    assert_eq!(publisher.partition.name, ["a"]);
                    writer.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
                }
                EndpointPolicies::Requested { reader, subscriber } => {
                    assert_eq!(subscriber.partition.name, ["a"]);
                    reader.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
                    reader.type_consistency.prevent_type_widening = true;
                }
            }
            assert!(policies.is_best_effort());
            assert_eq!(policies.consistency() == Consistency::default(), is_writer);
        }
    }

    #[test]
    fn reader_refuses_offer_below_its_request_and_writer_refuses_nothing() {
        let level = TopicLevel::Unordered;
        let offered = EndpointPolicies::offered(level);
        let requested = EndpointPolicies::requested(TopicLevel::Kept);
        let refused: Vec<_> = requested.refuses(&offered).iter().map(|it| it.policy).collect();
        assert_eq!(refused, [PolicyId::Durability]);
        assert_eq!(offered.refuses(&requested), []);
        assert_eq!(requested.refuses(&requested), []);
    }

    #[test]
    fn settings_encode_differences_from_known_policies_and_decode_back() {
        let known = EntityQos::from(SubscriberQos::default());
        assert_eq!(settings_beyond(&known, &known), []);
        assert_eq!(decoded_over(known.clone(), Vec::new()), Some(known.clone()));
        let other = EntityQos::from(SubscriberQos {
            partition: PartitionQosPolicy { name: vec!["a".into()] },
            ..SubscriberQos::default()
        });
        let settings = settings_beyond(&known, &other);
        assert_eq!(settings.len(), 1);
        assert_eq!(decoded_over(known.clone(), settings), Some(other));
        let nonsense = PolicySetting { policy: 0, field: 0, value: EncodedValue::Bool(true) };
        assert_eq!(decoded_over(known, vec![nonsense]), None);
    }

    #[test]
    fn data_too_large_for_an_announcement_is_refused() {
        assert!(check_data(PolicyId::UserData, &[0; LONGEST_ANNOUNCEMENT]).is_ok());
        let refused = check_data(PolicyId::UserData, &[0; LONGEST_ANNOUNCEMENT + 1]);
        let Err(DdsError::BadParameter(why)) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("USER_DATA has 12289 bytes"), "{why}");
    }
}
