//! What a participant announces of its writers and readers.
//!
//! Owns: the announcement's content and encoding (CDR, like any sample), and the rule by which a
//! reader and a writer match; whether their types go together is said in `type_identity`. Never does: trust a peer's announcement beyond decoding it.

use std::fmt;

use derecho_core::group::CONTROL;
use derecho_core::log;
use derecho_core::storage::store::Retention;
use idl_cdr::{DdsType, from_cdr, to_cdr};

use super::type_identity::{Consistency, TypeIdentity, Types};

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
    /// What a reader asks of writers' types.
    pub(crate) consistency: Consistency,
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

    /// Whether two endpoints mean the same topic, and promise the same of it.
    pub(crate) fn shares_topic(&self, other: &Endpoint) -> Match {
        if self.topic != other.topic {
            return Match::OtherTopic;
        }
        let (ours, theirs) = (&self.data_type, &other.data_type);
        if ours.name != theirs.name {
            return Match::Inconsistent(format!(
                "topic `{}` has type `{}` here and `{}` there: give one of the two topics \
                 another name",
                self.topic, ours.name, theirs.name
            ));
        }
        if self.level != other.level {
            return Match::Inconsistent(format!(
                "topic `{}` is {} here and {} there: make it alike in all participants",
                self.topic, self.level, other.level
            ));
        }
        if self.keeping != other.keeping {
            return Match::Inconsistent(format!(
                "of topic `{}` {} are kept here and {} there: make it alike in all participants",
                self.topic, self.keeping, other.keeping
            ));
        }
        Match::Yes
    }

    /// Whether this reader gets what that writer writes (I-150).
    pub(crate) fn matches(&self, writer: &Endpoint, types: &Types) -> Match {
        match self.shares_topic(writer) {
            Match::Yes => {}
            other => return other,
        }
        let (ours, theirs) = (&self.data_type, &writer.data_type);
        let (name, topic) = (&ours.name, &self.topic);
        if let Err(why) = types.check((ours, self.consistency), theirs) {
            return Match::Inconsistent(format!(
                "type `{name}` of topic `{topic}` is not one that this reader understands: {why}"
            ));
        }
        if ours.layout != theirs.layout {
            return Match::Inconsistent(format!(
                "type `{name}` of topic `{topic}` lies differently in memory here than there: build \
                 both with the same compiler, or give the type #[repr(C)]"
            ));
        }
        if self.level.is_ordered() && self.key() != writer.key() {
            return Match::Inconsistent(format!(
                "type `{name}` of topic `{topic}` is final, and differs: samples in one order are of one \
                 type; make it appendable or mutable"
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

/// What the subgroup of a topic of this name and type is called. All versions of a type that may change have one.
pub(crate) fn topic_key(topic: &str, data_type: &TypeIdentity) -> u64 {
    let TypeIdentity { name, digest, layout, evolves } = data_type;
    let key = Name::new().add(topic.as_bytes()).add(name.as_bytes());
    let key = match evolves {
        true => key.add(b"evolves").0,
        false => key.add(digest).add(&layout.to_le_bytes()).0,
    };
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
        let digest = [1; 14];
        let data_type = TypeIdentity { name: "T".into(), digest, layout: 2, evolves: false };
        Endpoint {
            kind,
            topic: topic.into(),
            data_type,
            level: TopicLevel::Unordered,
            keeping: Keeping::default(),
            stream: 16,
            lines: 0,
            consistency: Consistency::default(),
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
    fn a_match_needs_the_topic_and_a_type_that_is_understood() {
        let types = Types::default();
        let reader = endpoint(EndpointKind::Reader, "A");
        let mut writer = endpoint(EndpointKind::Writer, "A");
        let matches = |writer: &Endpoint| reader.matches(writer, &types);
        assert_eq!(matches(&writer), Match::Yes);
        assert_eq!(matches(&endpoint(EndpointKind::Writer, "B")), Match::OtherTopic);
        let why = |writer: &Endpoint| match matches(writer) {
            Match::Inconsistent(why) => why,
            other => panic!("{other:?}"),
        };
        writer.data_type.layout = 3;
        assert!(why(&writer).contains("repr(C)"));
        writer.data_type.digest = [3; 14];
        assert!(why(&writer).contains("nothing is known"));
        writer.level = TopicLevel::Atomic;
        assert!(why(&writer).contains("atomic"));
        writer.data_type.name = "U".into();
        assert!(why(&writer).contains("`U`"));
    }

    /// Endpoints of different versions are in one subgroup if the type may change, and only then.
    #[test]
    fn versions_of_a_type_share_a_subgroup() {
        let of = |digest, evolves| TypeIdentity {
            name: "T".into(),
            digest: [digest; 14],
            layout: 0,
            evolves,
        };
        assert_eq!(topic_key("A", &of(1, true)), topic_key("A", &of(2, true)));
        assert_ne!(topic_key("A", &of(1, false)), topic_key("A", &of(2, false)));
        assert_ne!(topic_key("A", &of(1, true)), topic_key("B", &of(1, true)));
        assert_ne!(topic_key("A", &of(1, true)), topic_key("A", &of(1, false)));
    }
}
