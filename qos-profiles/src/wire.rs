//! Form of times and limits in samples, as in the OMG's IDL.
//!
//! Owns this form. Never does: accept an invalid value; an invalid value from a peer becomes the
//! nearest valid one.

use idl_cdr::{
    CdrError, CdrReader, CdrWriter, DdsType, PlainLayout, Reflect, TypeDescriptor, ValueRef,
};

use crate::{Duration, Length};

/// Serialised form of a time.
#[derive(DdsType)]
#[dds(crate = "idl_cdr", name = "DDS::Duration_t", nested)]
struct SerializedTime {
    sec: i32,
    nanosec: u32,
}

impl From<Duration> for SerializedTime {
    fn from(time: Duration) -> Self {
        SerializedTime { sec: time.sec(), nanosec: time.nanosec() }
    }
}

impl From<SerializedTime> for Duration {
    fn from(SerializedTime { sec, nanosec }: SerializedTime) -> Self {
        Duration::new(sec, nanosec).unwrap_or(Duration::INFINITE)
    }
}

impl Reflect for Duration {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Structure(self)
    }

    fn parts(&self) -> usize {
        2
    }

    fn part(&self, place: usize) -> ValueRef<'_> {
        match place {
            0 => ValueRef::Signed(self.sec().into()),
            1 => ValueRef::Unsigned(self.nanosec().into()),
            _ => ValueRef::Absent,
        }
    }
}

/// Serialised form of a limit.
struct SerializedLimit(i32);

impl From<SerializedLimit> for Length {
    fn from(SerializedLimit(limit): SerializedLimit) -> Self {
        Length::new(limit).unwrap_or(Length::UNLIMITED)
    }
}

impl Reflect for Length {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Signed(i32::from(*self).into())
    }
}

/// Implements serialisation in the form of another type.
macro_rules! written_as {
    ($name:ident as $form:ty, $to:expr, $from:expr) => {
        impl DdsType for $name {
            const TYPE_NAME: &'static str = <$form>::TYPE_NAME;
            const DESCRIPTOR: TypeDescriptor = <$form>::DESCRIPTOR;
            const LAYOUT: Option<PlainLayout<Self>> = None;
            const MIN_CDR_SIZE: usize = <$form>::MIN_CDR_SIZE;
            const PRIMITIVE: bool = <$form>::PRIMITIVE;
            const LENGTH_CODE: u32 = <$form>::LENGTH_CODE;

            fn default_value() -> Self {
                $from(<$form>::default_value())
            }

            fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
                $to(*self).serialize(writer)
            }

            fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
                <$form>::deserialize(reader).map($from)
            }
        }
    };
}

written_as!(Duration as SerializedTime, SerializedTime::from, Duration::from);
written_as!(Length as i32, i32::from, |limit| Length::from(SerializedLimit(limit)));

#[cfg(test)]
mod tests {
    use idl_cdr::{MemberPath, from_cdr, to_cdr};

    use super::*;
    use crate::{DurabilityServiceQosPolicy, HistoryQosPolicyKind, LivelinessQosPolicy};

    #[test]
    fn policies_survive_cdr_round_trip() {
        let mut service = DurabilityServiceQosPolicy {
            service_cleanup_delay: Duration::from_millis(1500),
            max_samples: Length::of(7),
            ..DurabilityServiceQosPolicy::default()
        };
        service.history_kind = HistoryQosPolicyKind::KeepAll;
        let bytes = to_cdr(&service).unwrap();
        assert_eq!(from_cdr(&bytes), Ok(service));
        let usual = LivelinessQosPolicy::default();
        assert_eq!(from_cdr(&to_cdr(&usual).unwrap()), Ok(usual));
    }

    #[test]
    fn invalid_duration_is_infinite_and_invalid_length_is_unlimited() {
        let bytes = to_cdr(&SerializedTime { sec: -3, nanosec: 7 }).unwrap();
        assert_eq!(from_cdr(&bytes), Ok(Duration::INFINITE));
        assert_eq!(from_cdr(&to_cdr(&-1_i32).unwrap()), Ok(Length::UNLIMITED));
        assert_eq!(from_cdr(&to_cdr(&-7_i32).unwrap()), Ok(Length::UNLIMITED));
    }

    #[test]
    fn policy_members_are_found_by_name() {
        let service = DurabilityServiceQosPolicy::default();
        let find = |path: &str| MemberPath::of::<DurabilityServiceQosPolicy>(path);
        let depth = find("history_depth").unwrap();
        assert!(matches!(depth.find(&service), ValueRef::Unsigned(1)));
        let limit = find("max_samples").unwrap();
        assert!(matches!(limit.find(&service), ValueRef::Signed(-1)));
        let delay = find("service_cleanup_delay.nanosec").unwrap();
        assert!(matches!(delay.find(&service), ValueRef::Unsigned(0)));
    }

    /// A traversal of the members of a sample finds exactly two parts of a time.
    #[test]
    fn duration_has_two_reflected_parts() {
        let time = Duration::new(3, 7).unwrap();
        assert!(matches!(time.value(), ValueRef::Structure(_)));
        assert_eq!(Reflect::parts(&time), 2);
        assert!(matches!(time.part(0), ValueRef::Signed(3)));
        assert!(matches!(time.part(1), ValueRef::Unsigned(7)));
        assert!(matches!(time.part(2), ValueRef::Absent));
    }
}
