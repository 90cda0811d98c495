//! Identifiers of the policies, with the standard's table.
//!
//! Owns numbers, names and the columns "RxO" and "changeable". Never looks at a policy's value.

use std::fmt;

/// One row of the standard's table of policies.
struct PolicyRow {
    name: &'static str,
    /// The column "RxO": a reader's request is compared with a writer's offer.
    requested_offered: bool,
    /// The column "Changeable".
    changeable: bool,
}

macro_rules! policies {
    ($($(#[$doc:meta])* $policy:ident = $id:literal, $name:literal, $rxo:ident, $changeable:ident;)*) => {
        /// A QoS policy; the numbers are those of the OMG.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum PolicyId {
            $($(#[$doc])* $policy = $id,)*
        }

        impl PolicyId {
            /// Every policy, in the order of the numbers.
            pub const ALL: [Self; TABLE.len()] = [$(Self::$policy),*];
        }

        const TABLE: [PolicyRow; [$($id),*].len()] = [$(PolicyRow {
            name: $name,
            requested_offered: $rxo,
            changeable: $changeable,
        }),*];
    };
}

const RXO: bool = true;
const ALONE: bool = false;
const CHANGEABLE: bool = true;
const FIXED: bool = false;

policies! {
    /// USER_DATA
    UserData = 1, "USER_DATA", ALONE, CHANGEABLE;
    /// DURABILITY
    Durability = 2, "DURABILITY", RXO, FIXED;
    /// PRESENTATION
    Presentation = 3, "PRESENTATION", RXO, FIXED;
    /// DEADLINE
    Deadline = 4, "DEADLINE", RXO, CHANGEABLE;
    /// LATENCY_BUDGET
    LatencyBudget = 5, "LATENCY_BUDGET", RXO, CHANGEABLE;
    /// OWNERSHIP
    Ownership = 6, "OWNERSHIP", RXO, FIXED;
    /// OWNERSHIP_STRENGTH
    OwnershipStrength = 7, "OWNERSHIP_STRENGTH", ALONE, CHANGEABLE;
    /// LIVELINESS
    Liveliness = 8, "LIVELINESS", RXO, FIXED;
    /// TIME_BASED_FILTER
    TimeBasedFilter = 9, "TIME_BASED_FILTER", ALONE, CHANGEABLE;
    /// PARTITION
    Partition = 10, "PARTITION", ALONE, CHANGEABLE;
    /// RELIABILITY
    Reliability = 11, "RELIABILITY", RXO, FIXED;
    /// DESTINATION_ORDER
    DestinationOrder = 12, "DESTINATION_ORDER", RXO, FIXED;
    /// HISTORY
    History = 13, "HISTORY", ALONE, FIXED;
    /// RESOURCE_LIMITS
    ResourceLimits = 14, "RESOURCE_LIMITS", ALONE, FIXED;
    /// ENTITY_FACTORY
    EntityFactory = 15, "ENTITY_FACTORY", ALONE, CHANGEABLE;
    /// WRITER_DATA_LIFECYCLE
    WriterDataLifecycle = 16, "WRITER_DATA_LIFECYCLE", ALONE, CHANGEABLE;
    /// READER_DATA_LIFECYCLE
    ReaderDataLifecycle = 17, "READER_DATA_LIFECYCLE", ALONE, CHANGEABLE;
    /// TOPIC_DATA
    TopicData = 18, "TOPIC_DATA", ALONE, CHANGEABLE;
    /// GROUP_DATA
    GroupData = 19, "GROUP_DATA", ALONE, CHANGEABLE;
    /// TRANSPORT_PRIORITY
    TransportPriority = 20, "TRANSPORT_PRIORITY", ALONE, CHANGEABLE;
    /// LIFESPAN
    Lifespan = 21, "LIFESPAN", ALONE, CHANGEABLE;
    /// DURABILITY_SERVICE
    DurabilityService = 22, "DURABILITY_SERVICE", ALONE, FIXED;
    /// DATA_REPRESENTATION
    DataRepresentation = 23, "DATA_REPRESENTATION", RXO, FIXED;
    /// TYPE_CONSISTENCY_ENFORCEMENT
    TypeConsistencyEnforcement = 24, "TYPE_CONSISTENCY_ENFORCEMENT", ALONE, FIXED;
}

impl PolicyId {
    /// Returns the OMG's number.
    pub const fn id(self) -> i32 {
        self as i32
    }

    /// Returns the policy with this number.
    pub fn from_id(id: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.id() == id)
    }

    /// Returns the policy's name in the standards: `LATENCY_BUDGET`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the policy with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether a reader's request is compared with a writer's offer.
    pub const fn requested_offered(self) -> bool {
        self.row().requested_offered
    }

    /// Whether the policy may change on an enabled entity.
    pub const fn changeable_after_enable(self) -> bool {
        self.row().changeable
    }

    const fn row(self) -> &'static PolicyRow {
        const ROWS: &[PolicyRow; TABLE.len()] = &TABLE;
        // The numbers start at 1 and have no gaps; a test checks the table.
        &ROWS[self as usize - 1]
    }
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_id_equals_its_row_in_table() {
        for (index, policy) in PolicyId::ALL.into_iter().enumerate() {
            assert_eq!(policy.id() as usize, index + 1, "{policy}");
        }
    }

    #[test]
    fn policy_is_found_by_id_and_name() {
        for policy in PolicyId::ALL {
            assert_eq!(PolicyId::from_id(policy.id()), Some(policy));
            assert_eq!(PolicyId::from_name(policy.name()), Some(policy));
        }
        assert_eq!(PolicyId::from_id(0), None);
        assert_eq!(PolicyId::from_id(25), None);
        assert_eq!(PolicyId::from_name("latency_budget"), None);
    }
}
