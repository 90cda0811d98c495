//! Prices: the CPU of a polling thread, the wire, the ports of a NIC, a log's disk.
//!
//! Owns: the prices and the arithmetic on them. Never does: decide when something happens; the
//! links and the cluster ask for a price and add it to their clocks.
//!
//! ```text
//!   post          egress port        wire              ingress port      visible
//!   |-- waits --->[== transmit ==]-- latency ... ----->[== transmit ==]-|
//!                                  latency counts from the first byte out to the last byte in
//! ```
//! A transfer without competition takes exactly its latency: the bytes leave while they arrive.

use std::fmt;

use derecho_core::machine::Work;
use serde::Deserialize;

/// Default prices, as the papers give them.
const PAPER: &str = include_str!("cost/paper.toml");

/// Latency of a transfer without competition.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Latency of an empty transfer, in nanoseconds.
    pub base_ns: f64,
    /// Additional latency per byte, in nanoseconds.
    pub ns_per_byte: f64,
}

/// Groups of nodes behind one switch each.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Racks {
    /// Nodes of each rack, by the order in which they were added to the network. Nodes in no list
    /// share one further rack.
    pub groups: Vec<Vec<usize>>,
    /// Additional latency between racks, in nanoseconds.
    pub extra_ns: f64,
    /// Fraction of a port's bandwidth available to a transfer between racks: at most 1.
    pub bandwidth_factor: f64,
}

/// Prices of a log's disk; each member has its own disk.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPrices {
    /// Rate of sequential writes.
    pub bytes_per_second: f64,
    /// Additional time of a sync, in nanoseconds.
    pub sync_ns: f64,
}

impl DiskPrices {
    /// Returns the time to write `bytes` bytes sequentially and sync them.
    pub fn group_ns(&self, bytes: u64) -> u64 {
        whole(bytes as f64 * 1e9 / self.bytes_per_second + self.sync_ns)
    }
}

/// All prices. See `cost/paper.toml` for the sources of the defaults.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostModel {
    /// CPU time to post one write, read or note.
    pub post_ns: f64,
    /// CPU time to poll one completion; paid by the turn that posted.
    pub completion_ns: f64,
    /// Fixed CPU time of a turn.
    pub turn_ns: f64,
    /// CPU time to evaluate one predicate.
    pub predicate_ns: f64,
    /// CPU time to read one cell of a row.
    pub cell_ns: f64,
    /// CPU time to run one trigger.
    pub trigger_ns: f64,
    /// CPU time to copy one byte.
    pub copy_ns_per_byte: f64,
    /// CPU time of an application to claim and commit a message.
    pub commit_ns: f64,
    /// CPU time to take in an entry to send.
    pub send_ns: f64,
    /// CPU time to process an entry for the posts to one peer, in addition to the posts.
    pub show_ns: f64,
    /// CPU time to receive an entry.
    pub receive_ns: f64,
    /// CPU time to deliver an entry.
    pub deliver_ns: f64,
    /// Bandwidth of each port of a NIC in each direction. Transfers pass through a port one by one.
    pub port_bytes_per_second: f64,
    /// Latency of a write, from its post to its visibility.
    pub write: Wire,
    /// Latency of a read, from its post to its completion.
    pub read: Wire,
    /// Prices of writing to a log.
    pub disk: DiskPrices,
    /// Racks, if the nodes are not all behind one switch.
    #[serde(default)]
    pub racks: Option<Racks>,
}

impl Default for CostModel {
    fn default() -> CostModel {
        CostModel::from_toml("").expect("the default prices are committed with this file")
    }
}

impl CostModel {
    /// Reads prices; those that the text omits are the papers'.
    pub fn from_toml(text: &str) -> Result<CostModel, CostError> {
        let mut prices = parse(PAPER)?;
        merge(&mut prices, parse(text)?);
        let model: CostModel = toml::Value::Table(prices)
            .try_into()
            .map_err(|error: toml::de::Error| CostError::Format(error.to_string()))?;
        model.check()?;
        Ok(model)
    }

    /// Returns the CPU time of a turn's work.
    pub fn work_ns(&self, work: Work) -> f64 {
        work.predicates as f64 * self.predicate_ns
            + work.cells as f64 * self.cell_ns
            + work.triggers as f64 * self.trigger_ns
            + work.copied_bytes as f64 * self.copy_ns_per_byte
            + work.committed as f64 * self.commit_ns
            + work.sent as f64 * self.send_ns
            + work.shown as f64 * self.show_ns
            + work.received as f64 * self.receive_ns
            + work.delivered as f64 * self.deliver_ns
    }

    /// Returns the time for which a transfer between two nodes occupies one port.
    pub fn transmit_ns(&self, bytes: u64, from: usize, to: usize) -> u64 {
        let share = match self.racks_apart(from, to) {
            Some(racks) => racks.bandwidth_factor,
            None => 1.0,
        };
        whole(bytes as f64 * 1e9 / (self.port_bytes_per_second * share))
    }

    /// Returns the latency of a write without competition, from its post to its visibility.
    pub fn write_latency_ns(&self, bytes: u64, from: usize, to: usize) -> u64 {
        let wire = self.write.base_ns + bytes as f64 * self.write.ns_per_byte;
        self.on_the_way(wire, bytes, from, to, 1.0)
    }

    /// Returns the latency of a read without competition, from its post to its completion.
    pub fn read_latency_ns(&self, bytes: u64, reader: usize, owner: usize) -> u64 {
        let wire = self.read.base_ns + bytes as f64 * self.read.ns_per_byte;
        self.on_the_way(wire, bytes, owner, reader, 2.0)
    }

    /// Returns the time of a read's request to the owner; part of the read's latency.
    pub(crate) fn request_ns(&self, reader: usize, owner: usize) -> u64 {
        let extra = self.racks_apart(reader, owner).map_or(0.0, |racks| racks.extra_ns);
        whole(self.read.base_ns / 2.0 + extra)
    }

    fn on_the_way(&self, wire: f64, bytes: u64, from: usize, to: usize, crossings: f64) -> u64 {
        let extra = self.racks_apart(from, to).map_or(0.0, |racks| racks.extra_ns * crossings);
        // However low the prices are, the last byte does not arrive before it has left.
        whole(wire + extra).max(self.transmit_ns(bytes, from, to))
    }

    fn racks_apart(&self, from: usize, to: usize) -> Option<&Racks> {
        let racks = self.racks.as_ref()?;
        let rack = |node| racks.groups.iter().position(|group| group.contains(&node));
        (rack(from) != rack(to)).then_some(racks)
    }

    fn check(&self) -> Result<(), CostError> {
        let mut prices = vec![
            ("post_ns", self.post_ns),
            ("completion_ns", self.completion_ns),
            ("turn_ns", self.turn_ns),
            ("predicate_ns", self.predicate_ns),
            ("cell_ns", self.cell_ns),
            ("trigger_ns", self.trigger_ns),
            ("copy_ns_per_byte", self.copy_ns_per_byte),
            ("commit_ns", self.commit_ns),
            ("send_ns", self.send_ns),
            ("show_ns", self.show_ns),
            ("receive_ns", self.receive_ns),
            ("deliver_ns", self.deliver_ns),
            ("write.base_ns", self.write.base_ns),
            ("write.ns_per_byte", self.write.ns_per_byte),
            ("read.base_ns", self.read.base_ns),
            ("read.ns_per_byte", self.read.ns_per_byte),
            ("disk.sync_ns", self.disk.sync_ns),
        ];
        let mut rates = vec![
            ("port_bytes_per_second", self.port_bytes_per_second),
            ("disk.bytes_per_second", self.disk.bytes_per_second),
        ];
        if let Some(racks) = &self.racks {
            prices.push(("racks.extra_ns", racks.extra_ns));
            rates.push(("racks.bandwidth_factor", racks.bandwidth_factor));
            if racks.bandwidth_factor > 1.0 {
                return Err(CostError::Field {
                    name: "racks.bandwidth_factor",
                    problem: "must not be above 1: a transfer goes through the ports as well",
                });
            }
        }
        // Written so that a NaN fails too.
        let price = |value: f64| value.is_finite() && value >= 0.0;
        let rate = |value: f64| value.is_finite() && value > 0.0;
        if let Some(&(name, _)) = prices.iter().find(|&&(_, value)| !price(value)) {
            return Err(CostError::Field { name, problem: "must be a number from zero up" });
        }
        if let Some(&(name, _)) = rates.iter().find(|&&(_, value)| !rate(value)) {
            return Err(CostError::Field { name, problem: "must be a number above zero" });
        }
        Ok(())
    }
}

/// Rounds to whole nanoseconds.
pub(crate) fn whole(nanos: f64) -> u64 {
    nanos.round() as u64
}

fn parse(text: &str) -> Result<toml::Table, CostError> {
    text.parse().map_err(|error: toml::de::Error| CostError::Format(error.to_string()))
}

fn merge(into: &mut toml::Table, from: toml::Table) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(value)) => merge(inner, value),
            // A price may be written as 1000 or as 1000.0.
            (_, toml::Value::Integer(value)) => {
                into.insert(name, toml::Value::Float(value as f64));
            }
            (_, toml::Value::Table(value)) => {
                let mut table = toml::Table::new();
                merge(&mut table, value);
                into.insert(name, toml::Value::Table(table));
            }
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// Error in the text of a cost model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CostError {
    /// The text is not TOML, or a field is unknown or of the wrong kind; the message says which.
    Format(String),
    /// The value of a field is not permitted.
    Field {
        /// Name of the field.
        name: &'static str,
        /// Fault of the value.
        problem: &'static str,
    },
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostError::Format(text) => write!(f, "the cost model cannot be read: {text}"),
            CostError::Field { name, problem } => write!(f, "{name} {problem}"),
        }
    }
}

impl std::error::Error for CostError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_prices_meet_the_figures_of_the_paper() {
        let costs = CostModel::default();
        assert_eq!(costs.write_latency_ns(1, 0, 1), 1730);
        assert_eq!(costs.write_latency_ns(4096, 0, 1), 2460);
        assert_eq!(costs.transmit_ns(12_500, 0, 1), 1000);
        assert_eq!(costs.post_ns, 1000.0);
        assert_eq!(costs.completion_ns, 0.0);
    }

    #[test]
    fn cost_model_text_changes_only_named_prices() {
        let costs = CostModel::from_toml("post_ns = 7\n[write]\nbase_ns = 10\n").unwrap();
        let paper = CostModel::default();
        assert_eq!((costs.post_ns, costs.write.base_ns), (7.0, 10.0));
        assert_eq!(costs.write.ns_per_byte, paper.write.ns_per_byte);
        assert_eq!(costs.read, paper.read);
    }

    #[test]
    fn errors_name_the_field() {
        for (text, field) in [
            ("post_nz = 1", "post_nz"),
            ("post_ns = \"soon\"", "post_ns"),
            ("post_ns = -1", "post_ns"),
            ("cell_ns = nan", "cell_ns"),
            ("port_bytes_per_second = 0", "port_bytes_per_second"),
            ("[write]\nbase_ns = -2", "write.base_ns"),
            ("[disk]\nbytes_per_second = 0", "disk.bytes_per_second"),
            ("[disk]\nsync_ns = -1", "disk.sync_ns"),
            ("[read]\nbase = 2", "base"),
            ("[read]\nbase_ns = true", "base_ns"),
            ("[racks]\ngroups = [[0]]\nextra_ns = 1\nbandwidth_factor = 2", "bandwidth_factor"),
            ("[racks]\ngroups = [[0]]\nextra_ns = 1", "bandwidth_factor"),
            ("post_ns", "post_ns"),
        ] {
            let error = CostModel::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(field), "{text:?} gave: {error}");
        }
    }

    #[test]
    fn racks_add_latency_and_reduce_bandwidth_only_between_racks() {
        let costs = CostModel::from_toml(
            "[racks]\ngroups = [[0, 1], [2]]\nextra_ns = 500\nbandwidth_factor = 0.5\n",
        )
        .unwrap();
        assert_eq!(costs.write_latency_ns(1, 0, 1), 1730);
        assert_eq!(costs.write_latency_ns(1, 0, 2), 2230);
        assert_eq!(costs.transmit_ns(12_500, 1, 0), 1000);
        assert_eq!(costs.transmit_ns(12_500, 1, 2), 2000);
        // Nodes in no rack's list are together.
        assert_eq!(costs.write_latency_ns(1, 7, 8), 1730);
    }
}
