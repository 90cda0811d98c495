//! What a participant announces of its writers and readers.
//!
//! Owns: the announcement's content and encoding (CDR, like any sample), and the rule by which a
//! reader and a writer match. Never does: trust a peer's announcement beyond decoding it.

use std::fmt;

use derecho_core::group::CONTROL;
use derecho_core::log;
use derecho_core::storage::store::Retention;
use idl_cdr::{DdsType, fingerprint, from_cdr, to_cdr};

/// What an endpoint does.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) enum EndpointKind {
    Writer,
    Reader,
    /// It was a reader of an atomic topic, and its application still has samples from there.
    Guest,
    /// Its participant keeps a log of the topic.
    Keeper,
}

/// A topic's type, as far as two participants have to agree on it.
#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) struct TypeIdentity {
    pub(crate) name: String,
    /// Of the type's members: equal fingerprints have equal CDR forms.
    pub(crate) fingerprint: u64,
    /// How a plain type lies in memory; zero for any other.
    pub(crate) layout: u64,
}

impl TypeIdentity {
    pub(crate) fn of<T: DdsType>() -> TypeIdentity {
        TypeIdentity {
            name: T::TYPE_NAME.to_owned(),
            fingerprint: fingerprint::<T>(),
            layout: T::LAYOUT.map_or(0, |layout| layout.hash()),
        }
    }
}

/// What a topic promises of its samples' order.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[dds(crate = "idl_cdr")]
pub(crate) enum TopicLevel {
    /// Each writer's own.
    #[default]
    Unordered,
    /// One order, the same at all readers, all or nothing.
    Atomic,
    /// The same, and kept in the participants' memory for those who come later.
    VolatileStorage,
    /// The same, and kept in logs, from which it comes back when all participants are gone.
    LoggedStorage,
}

impl TopicLevel {
    pub(crate) fn is_ordered(self) -> bool {
        self != TopicLevel::Unordered
    }

    /// Whether samples are kept for those who come later.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, TopicLevel::VolatileStorage | TopicLevel::LoggedStorage)
    }

    /// Whether samples are kept in logs as well.
    pub(crate) fn is_logged(self) -> bool {
        self == TopicLevel::LoggedStorage
    }
}

/// Which samples are kept: a topic's DURABILITY_SERVICE and LIFESPAN. Zero stands for no limit.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[dds(crate = "idl_cdr")]
pub(crate) struct Keeping {
    /// Of each instance.
    pub(crate) depth: u32,
    pub(crate) most: u32,
    pub(crate) instances: u32,
    /// Nanoseconds.
    pub(crate) lifespan: u64,
    /// What is logged is delivered only when it is durable everywhere.
    pub(crate) durable_first: bool,
    /// A log whose disk is full takes no part any more, instead of holding its topic up.
    pub(crate) detach: bool,
    /// Of the past, so many nanoseconds, bytes and samples are kept in logs at least.
    pub(crate) log_time: u64,
    pub(crate) log_bytes: u64,
    pub(crate) log_samples: u64,
}

impl Keeping {
    /// The same, as stores have it.
    pub(crate) fn retention(self) -> Retention {
        let limit = |limit: u32| (limit > 0).then_some(u64::from(limit));
        Retention {
            depth: (self.depth > 0).then_some(self.depth),
            most: limit(self.most),
            keys: limit(self.instances),
            lifespan: (self.lifespan > 0).then_some(self.lifespan),
        }
    }
}

impl Keeping {
    /// How much of the past is kept in logs; none: all of it.
    pub(crate) fn log_retention(self) -> Option<log::Retention> {
        let limit = |limit: u64| (limit > 0).then_some(limit);
        let (nanos, bytes) = (limit(self.log_time), limit(self.log_bytes));
        let past = log::Retention { nanos, bytes, messages: limit(self.log_samples) };
        (past != log::Retention::default()).then_some(past)
    }
}

impl fmt::Display for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.depth {
            0 => f.write_str("all samples")?,
            depth => write!(f, "{depth} samples of each instance")?,
        }
        let limits = [(self.most, "samples"), (self.instances, "instances")];
        for (limit, what) in limits.into_iter().filter(|(limit, _)| *limit > 0) {
            write!(f, ", at most {limit} {what}")?;
        }
        if self.lifespan > 0 {
            write!(f, ", for {:?}", std::time::Duration::from_nanos(self.lifespan))?;
        }
        if self.durable_first {
            f.write_str(", durable before they are delivered")?;
        }
        if self.log_time > 0 {
            write!(f, ", in logs for {:?}", std::time::Duration::from_nanos(self.log_time))?;
        }
        let limits = [(self.log_bytes, "bytes"), (self.log_samples, "samples")];
        for (limit, what) in limits.into_iter().filter(|(limit, _)| *limit > 0) {
            write!(f, ", in logs at least {limit} {what}")?;
        }
        match self.detach {
            true => f.write_str(", without logs whose disk is full"),
            false => Ok(()),
        }
    }
}

/// An endpoint, as its participant announces it.
#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) struct Endpoint {
    pub(crate) kind: EndpointKind,
    pub(crate) topic: String,
    pub(crate) data_type: TypeIdentity,
    pub(crate) level: TopicLevel,
    /// What is kept of a topic that is.
    pub(crate) keeping: Keeping,
    /// A writer's stream; zero for a reader.
    pub(crate) stream: u64,
    /// Of an ordered topic, where its participant tells the others how far it is.
    pub(crate) lines: u64,
}

/// How a reader and a writer go together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    Yes,
    /// They have nothing to do with each other.
    OtherTopic,
    /// They mean the same topic and cannot talk; the text says why.
    Inconsistent(String),
}

impl Endpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        to_cdr(self).expect("an endpoint has no bounds that it could break")
    }

    /// The endpoint in a peer's announcement, if there is one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Endpoint> {
        from_cdr(bytes).ok()
    }

    /// What the topic's subgroup is called: endpoints that match have one.
    pub(crate) fn key(&self) -> u64 {
        topic_key(&self.topic, &self.data_type)
    }

    /// Whether this reader gets what that writer writes.
    pub(crate) fn matches(&self, writer: &Endpoint) -> Match {
        if self.topic != writer.topic {
            return Match::OtherTopic;
        }
        let (ours, theirs) = (&self.data_type, &writer.data_type);
        if ours.name != theirs.name {
            return Match::Inconsistent(format!(
                "topic `{}` has type `{}` here and `{}` there: give one of the two topics \
                 another name",
                self.topic, ours.name, theirs.name
            ));
        }
        if ours.fingerprint != theirs.fingerprint {
            return Match::Inconsistent(format!(
                "type `{}` of topic `{}` has other members here than there: build both from the \
                 same declaration",
                ours.name, self.topic
            ));
        }
        if ours.layout != theirs.layout {
            return Match::Inconsistent(format!(
                "type `{}` of topic `{}` lies differently in memory here than there: build both \
                 with the same compiler, or give the type #[repr(C)]",
                ours.name, self.topic
            ));
        }
        if self.level == writer.level && self.keeping != writer.keeping {
            return Match::Inconsistent(format!(
                "of topic `{}` {} are kept here and {} there: make it alike in all participants",
                self.topic, self.keeping, writer.keeping
            ));
        }
        if self.level != writer.level {
            return Match::Inconsistent(format!(
                "topic `{}` is {} here and {} there: make it alike in all participants",
                self.topic, self.level, writer.level
            ));
        }
        Match::Yes
    }
}

impl fmt::Display for TopicLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TopicLevel::Unordered => "unordered",
            TopicLevel::Atomic => "atomic",
            TopicLevel::VolatileStorage => "kept (transient-local)",
            TopicLevel::LoggedStorage => "logged (persistent)",
        })
    }
}

/// What the subgroup of a topic of this name and type is called.
pub(crate) fn topic_key(topic: &str, data_type: &TypeIdentity) -> u64 {
    let TypeIdentity { name, fingerprint, layout } = data_type;
    let key = Name::new().add(topic.as_bytes()).add(name.as_bytes());
    let key = key.add(&fingerprint.to_le_bytes()).add(&layout.to_le_bytes()).0;
    // The control stream's is no topic's.
    if key == CONTROL { !CONTROL } else { key }
}

/// A name that follows from what it was made of: FNV-1a, the same in every process.
struct Name(u64);

impl Name {
    fn new() -> Name {
        Name(0xcbf2_9ce4_8422_2325)
    }

    fn add(mut self, bytes: &[u8]) -> Name {
        // The length first, so that two parts are not taken for two others.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(kind: EndpointKind, topic: &str) -> Endpoint {
        let data_type = TypeIdentity { name: "T".into(), fingerprint: 1, layout: 2 };
        Endpoint {
            kind,
            topic: topic.into(),
            data_type,
            level: TopicLevel::Unordered,
            keeping: Keeping::default(),
            stream: 16,
            lines: 0,
        }
    }

    #[test]
    fn an_announcement_comes_back_and_a_cut_one_does_not() {
        let writer = endpoint(EndpointKind::Writer, "Attitude");
        let bytes = writer.encode();
        assert_eq!(Endpoint::decode(&bytes), Some(writer));
        for end in 0..bytes.len() - 4 {
            assert_eq!(Endpoint::decode(&bytes[..end]), None);
        }
    }

    #[test]
    fn a_match_needs_the_topic_and_the_whole_type() {
        let reader = endpoint(EndpointKind::Reader, "A");
        let mut writer = endpoint(EndpointKind::Writer, "A");
        assert_eq!(reader.matches(&writer), Match::Yes);
        assert_eq!(reader.matches(&endpoint(EndpointKind::Writer, "B")), Match::OtherTopic);
        writer.level = TopicLevel::Atomic;
        assert!(
            matches!(reader.matches(&writer), Match::Inconsistent(why) if why.contains("atomic"))
        );
        writer.data_type.layout = 3;
        assert!(
            matches!(reader.matches(&writer), Match::Inconsistent(why) if why.contains("repr(C)"))
        );
        writer.data_type.fingerprint = 3;
        assert!(
            matches!(reader.matches(&writer), Match::Inconsistent(why) if why.contains("members"))
        );
        writer.data_type.name = "U".into();
        assert!(matches!(reader.matches(&writer), Match::Inconsistent(why) if why.contains("`U`")));
    }
}
