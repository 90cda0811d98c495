//! What can go wrong, in words for whoever called: what happened, to what, and what to do.

use std::fmt;
use std::time::Duration;

use derecho_core::ids::NodeId;
use derecho_core::membership::Fate;

/// Why a call did not do what it was to do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupError {
    /// This process could not come into the group.
    Join(String),
    /// This process is no member any more: it is isolated, and delivers nothing.
    Isolated(Fate),
    /// The other members have declared other subgroups, or the same ones with other layouts.
    OtherDeclarations,
    /// There is no subgroup type of this name, or its objects are of another type.
    NoSuchSubgroup(String),
    /// The layout finds too few members: no shard of this type exists.
    Inadequate {
        /// The subgroup type.
        subgroup: String,
        /// What is missing.
        missing: String,
    },
    /// This process is no member of the shard.
    NoSeat {
        /// The subgroup type.
        subgroup: String,
        /// The shard.
        shard: usize,
    },
    /// This process is a member of the shard, and does not have its object yet.
    NoObject {
        /// The subgroup type.
        subgroup: String,
        /// The shard.
        shard: usize,
    },
    /// Nobody has the object of a logged shard, and it does not begin before certain logs are back.
    AwaitsLogs {
        /// The subgroup type.
        subgroup: String,
        /// The shard.
        shard: usize,
        /// Which ones, by the identities of their folders; none: a member that keeps one.
        logs: Vec<String>,
    },
    /// The log has no such version any more, or not one so old.
    Gone {
        /// The version from which on it has them.
        from: u64,
    },
    /// Something is wrong with the logs of this process.
    Log(String),
    /// It takes part in the shard without sending, or without reading.
    NotInThisPlace(&'static str),
    /// The message is longer than any that a shard takes.
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest.
        longest: usize,
    },
    /// It is no member of the view.
    NoMember(NodeId),
    /// The time was up.
    TimedOut(Duration),
    /// A call that waits was made in an upcall, which would wait for itself.
    InUpcall,
    /// The link refused something.
    Link(String),
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, GroupError>;

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Join(why) => write!(f, "this process could not join the group: {why}"),
            GroupError::Isolated(Fate::Left) => {
                f.write_str("this process has left the group; join again for a new membership")
            }
            GroupError::Isolated(fate) => {
                let why = match fate {
                    Fate::Excluded => "the others went on without it, for it was silent too long",
                    Fate::Blind => "it does not see what the others have received",
                    Fate::Minority => "it has lost so many others that it may decide nothing",
                    _ => "the group has decided something that nobody who is left could tell it",
                };
                write!(
                    f,
                    "this process is isolated from the group: {why}. What it has sent and not seen \
                     delivered may be lost; join again, or ask for rejoin(true)"
                )
            }
            GroupError::OtherDeclarations => f.write_str(
                "the members of this group have declared other subgroups: let all processes \
                 declare the same types, in the same order, with the same layouts",
            ),
            GroupError::NoSuchSubgroup(name) => {
                write!(f, "no subgroup type `{name}` of that kind was declared before the join")
            }
            GroupError::Inadequate { subgroup, missing } => write!(
                f,
                "`{subgroup}` is inadequately provisioned and does not exist now: {missing}; wait \
                 for more members"
            ),
            GroupError::NoSeat { subgroup, shard } => {
                write!(f, "this process is no member of shard {shard} of `{subgroup}` (yet)")
            }
            GroupError::NoObject { subgroup, shard } => write!(
                f,
                "the object of shard {shard} of `{subgroup}` has not arrived yet; wait until it is \
                 ready"
            ),
            GroupError::AwaitsLogs { subgroup, shard, logs } => match logs.is_empty() {
                true => write!(
                    f,
                    "shard {shard} of `{subgroup}` has no member that keeps a log: wait for more members"
                ),
                false => write!(
                    f,
                    "shard {shard} of `{subgroup}` waits for logs that may be newer than those that are \
                     here: {}; start the processes that keep them, or bring their folders back",
                    logs.join(", ")
                ),
            },
            GroupError::Gone { from } => {
                write!(
                    f,
                    "the log begins with version {from}: a checkpoint stands for what was before"
                )
            }
            GroupError::Log(text) => write!(f, "the log: {text}"),
            GroupError::NotInThisPlace(what) => {
                write!(f, "the layout gives this process a place in which it does not {what}")
            }
            GroupError::TooLong { length, longest } => write!(
                f,
                "a message of {length} bytes is longer than {longest}; declare a larger memory"
            ),
            GroupError::NoMember(node) => write!(f, "{node:?} is no member of the view"),
            GroupError::TimedOut(limit) => {
                write!(f, "not within {} ms; others may be slow, try again", limit.as_millis())
            }
            GroupError::InUpcall => f.write_str(
                "this call waits for upcalls and was made in one; make it in another thread",
            ),
            GroupError::Link(text) => write!(f, "the link refused it: {text}"),
        }
    }
}

impl std::error::Error for GroupError {}
