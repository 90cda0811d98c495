//! Kinds of faults.
//!
//! Owns: their names. Never does: cause a fault; the fault injector does.

use std::fmt;
use std::str::FromStr;

/// Fault of a node or of the connections between nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Fault {
    /// A node stops for good, possibly in the middle of a turn.
    Crash,
    /// A node stops for good, and comes back a moment later as a new one.
    Restart,
    /// Nothing passes between two halves, or between some pairs, for a while. Networked
    /// groups only.
    Partition,
    /// Nothing passes in one direction, for a while. Networked groups only.
    OneWay,
    /// A node stands still for a while, and then continues as if nothing had happened.
    Pause,
    /// Everything that a node does takes many times as long, for a while.
    SlowNode,
    /// Messages between two nodes are many times slower, for a while.
    SlowLink,
    /// Posts of a node arrive at some of its peers much later than at others, for a while.
    Delay,
    /// Each node's clock is ahead by some time, and fast or slow.
    Skew,
    /// A node stands still and does not continue before the others have been judged without it.
    Stop,
}

/// All faults with their names.
const NAMES: [(&str, Fault); 10] = [
    ("crash", Fault::Crash),
    ("restart", Fault::Restart),
    ("partition", Fault::Partition),
    ("one-way", Fault::OneWay),
    ("pause", Fault::Pause),
    ("slow-node", Fault::SlowNode),
    ("slow-link", Fault::SlowLink),
    ("delay", Fault::Delay),
    ("skew", Fault::Skew),
    ("stop", Fault::Stop),
];

/// Set of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults(u16);

impl Faults {
    /// The empty set.
    pub const NONE: Faults = Faults(0);
    /// The set of all faults.
    pub const ALL: Faults = Faults((1 << NAMES.len()) - 1);

    /// Whether the set contains this fault.
    pub fn has(self, fault: Fault) -> bool {
        self.0 >> fault as u8 & 1 == 1
    }

    /// Returns the set with this fault added.
    #[must_use]
    pub fn and(self, fault: Fault) -> Faults {
        Faults(self.0 | 1 << fault as u8)
    }

    /// Returns the set without this fault.
    #[must_use]
    pub fn without(self, fault: Fault) -> Faults {
        Faults(self.0 & !(1 << fault as u8))
    }

    /// Iterates over the faults of the set.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        NAMES.iter().map(|(_, fault)| *fault).filter(move |fault| self.has(*fault))
    }

    /// Iterates over the names of all faults.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Faults::NONE => return f.write_str("none"),
            Faults::ALL => return f.write_str("all"),
            _ => {}
        }
        let named = NAMES.iter().filter(|(_, fault)| self.has(*fault)).map(|(name, _)| *name);
        f.write_str(&named.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(list: &str) -> Result<Faults, String> {
        let mut faults = Faults::NONE;
        for name in list.split(',') {
            match (name, NAMES.iter().find(|(known, _)| *known == name)) {
                (_, Some((_, fault))) => faults = faults.and(*fault),
                ("all", None) => faults = Faults::ALL,
                ("none", None) if list == "none" => {}
                _ => {
                    let names: Vec<&str> = Faults::names().collect();
                    let names = names.join(", ");
                    return Err(format!("there is no fault `{name}`: {names}, or all, or none"));
                }
            }
        }
        Ok(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_list_round_trips_and_invalid_list_is_rejected() {
        for list in ["all", "none", "crash", "crash,partition,skew"] {
            let faults: Faults = list.parse().expect("a list");
            assert_eq!(faults.to_string(), list);
        }
        assert_eq!("crash,all".parse(), Ok(Faults::ALL));
        for wrong in ["", "crash,", "crash,none", "crash, pause", "Crash"] {
            assert!(wrong.parse::<Faults>().is_err(), "{wrong}");
        }
    }
}
