//! Errors, worded for the caller: what happened, to what, and what to do.

use std::fmt;
use std::time::Duration;

use derecho_core::ids::NodeId;
use derecho_core::membership::ExitReason;

/// Reason why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupError {
    /// This process could not join the group.
    Join(String),
    /// This process is no longer a member: it is isolated, and delivers nothing.
    Isolated(ExitReason),
    /// The other members have declared other subgroups, or the same subgroups with other layouts.
    OtherDeclarations,
    /// No subgroup type has this name, or its objects are of another type.
    NoSuchSubgroup(String),
    /// The layout finds too few members: no shard of this type exists.
    Inadequate {
        /// Name of the subgroup type.
        subgroup: String,
        /// Members that are missing.
        missing: String,
    },
    /// This process is not a member of the shard.
    NoSeat {
        /// Name of the subgroup type.
        subgroup: String,
        /// Index of the shard.
        shard: usize,
    },
    /// This process is a member of the shard, and does not have its object yet.
    NoObject {
        /// Name of the subgroup type.
        subgroup: String,
        /// Index of the shard.
        shard: usize,
    },
    /// No member has the object of a logged shard, and the shard does not begin before certain logs
    /// are back.
    AwaitsLogs {
        /// Name of the subgroup type.
        subgroup: String,
        /// Index of the shard.
        shard: usize,
        /// Identities of the folders of these logs; empty: any member that keeps a log.
        logs: Vec<String>,
    },
    /// The log no longer has this version, or has never had one so old.
    Gone {
        /// First version that the log has.
        from: u64,
    },
    /// The logs of this process have a fault.
    Log(String),
    /// This process takes part in the shard without sending, or without reading.
    NotInThisPlace(&'static str),
    /// The message is longer than the longest that a shard accepts.
    TooLong {
        /// Length of the message in bytes.
        length: usize,
        /// Maximum length in bytes.
        longest: usize,
    },
    /// The node is not a member of the view.
    NoMember(NodeId),
    /// The time limit has passed.
    TimedOut(Duration),
    /// An upcall made a call that waits, which would wait for itself.
    InUpcall,
    /// The link refused an operation.
    Link(String),
}

/// Result of a call.
pub type Result<T> = std::result::Result<T, GroupError>;

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Join(why) => write!(f, "this process could not join the group: {why}"),
            GroupError::Isolated(ExitReason::Left) => {
                f.write_str("this process has left the group; join again for a new membership")
            }
            GroupError::Isolated(exit_reason) => {
                let why = match exit_reason {
                    ExitReason::Excluded => {
                        "the other members excluded this process: it was silent for too long"
                    }
                    ExitReason::Blind => {
                        "this process does not see what the other members have received"
                    }
                    ExitReason::Minority => {
                        "this process lost so many members that no majority is left here"
                    }
                    _ => "no remaining member could tell this process a decision of the group",
                };
                write!(
                    f,
                    "this process is isolated from the group: {why}. Messages that this process \
                     sent and has not seen delivered may be lost; join again, or use rejoin(true)"
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
                    "shard {shard} of `{subgroup}` waits for logs that may be newer than the \
                     present ones: {}; start the processes that keep these logs, or restore their \
                     folders",
                    logs.join(", ")
                ),
            },
            GroupError::Gone { from } => {
                write!(
                    f,
                    "the log begins with version {from}: a checkpoint replaces the earlier updates"
                )
            }
            GroupError::Log(text) => write!(f, "the log: {text}"),
            GroupError::NotInThisPlace(what) => {
                write!(f, "the layout gives this process a seat that does not {what}")
            }
            GroupError::TooLong { length, longest } => write!(
                f,
                "a message of {length} bytes is longer than {longest}; declare a larger memory"
            ),
            GroupError::NoMember(node) => write!(f, "{node:?} is no member of the view"),
            GroupError::TimedOut(limit) => {
                write!(
                    f,
                    "the call timed out after {} ms: other members may be slow; try again",
                    limit.as_millis()
                )
            }
            GroupError::InUpcall => f.write_str(
                "this call waits for upcalls and was made within an upcall; make the call in \
                 another thread",
            ),
            GroupError::Link(text) => write!(f, "the link refused the request: {text}"),
        }
    }
}

impl std::error::Error for GroupError {}
