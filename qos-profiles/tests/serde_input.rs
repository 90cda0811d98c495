//! Missing fields have their defaults, and unknown fields are errors.

use qos_profiles::{
    DataReaderQos, DataWriterQos, DurabilityQosPolicyKind, Duration, HistoryQosPolicy,
    ReliabilityQosPolicy, ReliabilityQosPolicyKind,
};
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};

fn read<'de, T: Deserialize<'de>>(fields: &[(&'de str, &'de str)]) -> Result<T, Error> {
    T::deserialize(MapDeserializer::new(fields.iter().copied()))
}

#[test]
fn empty_input_yields_defaults() {
    assert_eq!(read(&[]), Ok(DataWriterQos::default()));
    assert_eq!(read(&[]), Ok(DataReaderQos::default()));
    assert_eq!(read(&[]), Ok(HistoryQosPolicy::default()));
    assert_eq!(read(&[]), Ok(Duration::ZERO));
}

#[test]
fn serde_input_uses_kind_names_of_standard() {
    let kind = |text| {
        DurabilityQosPolicyKind::deserialize(serde::de::value::StrDeserializer::<Error>::new(text))
    };
    assert_eq!(kind("TRANSIENT_LOCAL"), Ok(DurabilityQosPolicyKind::TransientLocal));
    assert!(kind("TransientLocal").is_err());
}

#[test]
fn reliability_kind_is_required() {
    assert_eq!(
        read(&[("kind", "RELIABLE")]),
        Ok(ReliabilityQosPolicy {
            kind: ReliabilityQosPolicyKind::Reliable,
            max_blocking_time: Duration::from_millis(100),
        })
    );
    assert!(read::<ReliabilityQosPolicy>(&[]).is_err());
}

#[test]
fn unknown_policies_and_fields_are_errors() {
    let error = read::<DataWriterQos>(&[("time_based_filter", "")]).unwrap_err();
    assert!(error.to_string().starts_with("unknown field `time_based_filter`"), "{error}");
    assert!(read::<HistoryQosPolicy>(&[("deepth", "1")]).is_err());
}
