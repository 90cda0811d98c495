//! Conditions for which a node can wait on another node (I-79).
//!
//! Owns: the names of the conditions. Never does: find out whether a condition holds; the component
//! that waits for a condition provides a function that names the members that can make it true.

use core::fmt;

/// Condition that only another member can make true. A node that waits for the condition
/// awaits that member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitCondition {
    /// A node that wants to join is admitted, by the leader.
    Admission,
    /// Members without a vote get their votes, by the leader.
    Promotion,
    /// A member reports in a view change, and suspects all members before the leader.
    Report,
    /// The leader proposes a decision.
    Proposal,
    /// A member accepts the decision that the leader proposes.
    Acceptance,
    /// A member of the view is linked to this node.
    Introduction,
    /// The sponsor tells a new member the state of the group.
    State,
    /// A sender announces where an epoch begins in its stream.
    Start,
    /// A member publishes its acknowledgement lines and its stream, without which an
    /// epoch cannot begin.
    Opening,
    /// A member has received the next message in the order of a subgroup, and everything before it.
    Receipt,
    /// A sender commits the slot for which the order of a subgroup waits.
    Slot,
    /// A member ends its part of an epoch and shows that it has received the whole epoch.
    End,
    /// A member takes entries of this node, whose memory is nearly full.
    Room,
    /// A reader has received what this node sent in a stream outside of subgroups.
    Stream,
}

impl WaitCondition {
    /// All conditions.
    pub const ALL: [WaitCondition; 14] = [
        WaitCondition::Admission,
        WaitCondition::Promotion,
        WaitCondition::Report,
        WaitCondition::Proposal,
        WaitCondition::Acceptance,
        WaitCondition::Introduction,
        WaitCondition::State,
        WaitCondition::Start,
        WaitCondition::Opening,
        WaitCondition::Receipt,
        WaitCondition::Slot,
        WaitCondition::End,
        WaitCondition::Room,
        WaitCondition::Stream,
    ];
}

/// Answer of an awaited member to the question why a condition does not come true (I-336).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum WaitAnswer {
    /// The member itself waits: for another member, for room, or for a view.
    Excused = 0,
    /// The member has made the condition true, as far as it knows.
    True = 1,
    /// The member must make the condition true, and waits for no other node.
    Due = 2,
    /// The member has seen nothing that it could receive.
    Unseen = 3,
}

impl WaitAnswer {
    /// Returns the answer with this number.
    pub fn of(number: u8) -> Option<WaitAnswer> {
        let all = [WaitAnswer::Excused, WaitAnswer::True, WaitAnswer::Due, WaitAnswer::Unseen];
        all.get(usize::from(number)).copied()
    }
}

impl fmt::Display for WaitAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitAnswer::Excused => "waits itself",
            WaitAnswer::True => "reports that it has done so",
            WaitAnswer::Due => "reports that this is due and that it waits for no other member",
            WaitAnswer::Unseen => "has seen nothing to receive, although others have",
        })
    }
}

impl fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitCondition::Admission => "has not admitted a node that wants to join",
            WaitCondition::Promotion => "has not given votes to new members",
            WaitCondition::Report => "has not reported in the view change",
            WaitCondition::Proposal => "has not proposed the next view",
            WaitCondition::Acceptance => "has not accepted the next view",
            WaitCondition::Introduction => "has no link to this participant",
            WaitCondition::State => "has not sent the state of the domain",
            WaitCondition::Start => "has not announced where its stream continues",
            WaitCondition::Opening => "has not published its memory for the topic",
            WaitCondition::Receipt => "has not received what was sent",
            WaitCondition::Slot => "has not sent its next slot in the order",
            WaitCondition::End => "has not ended its part of the previous layout",
            WaitCondition::Room => "has not taken the messages that fill the memory",
            WaitCondition::Stream => "has not received what was sent in a stream",
        })
    }
}
