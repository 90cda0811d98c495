//! What a participant announces of its writers and readers.
//!
//! Owns: the announcement's content and encoding (CDR, like any sample), and the rule by which a
//! reader and a writer match. Never does: trust a peer's announcement beyond decoding it.

use std::fmt;

use idl_cdr::{DdsType, from_cdr, to_cdr};

/// Writer or reader.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) enum EndpointKind {
    Writer,
    Reader,
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
            fingerprint: T::FINGERPRINT,
            layout: T::LAYOUT.map_or(0, |layout| layout.hash()),
        }
    }
}

/// How many participants an ordered topic is made for. Zero of both: it is not ordered.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[dds(crate = "idl_cdr")]
pub(crate) struct Founders {
    pub(crate) writers: u32,
    pub(crate) readers: u32,
}

impl Founders {
    pub(crate) fn is_ordered(self) -> bool {
        self != Founders::default()
    }
}

/// An endpoint, as its participant announces it.
#[derive(DdsType, Clone, PartialEq, Eq, Debug)]
#[dds(crate = "idl_cdr")]
pub(crate) struct Endpoint {
    pub(crate) kind: EndpointKind,
    pub(crate) topic: String,
    pub(crate) data_type: TypeIdentity,
    pub(crate) founders: Founders,
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
        if self.founders != writer.founders {
            return Match::Inconsistent(format!(
                "topic `{}` is {} here and {} there: make it alike in all participants",
                self.topic, self.founders, writer.founders
            ));
        }
        Match::Yes
    }
}

impl fmt::Display for Founders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_ordered() {
            return f.write_str("unordered");
        }
        let Founders { writers, readers } = self;
        write!(f, "atomic for {writers} that write and {readers} that read")
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
            founders: Founders::default(),
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
        writer.founders = Founders { writers: 1, readers: 2 };
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
