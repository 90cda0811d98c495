//! Networks of the papers, with their prices.
//!
//! Owns: the committed price files. Never does: price anything; the simulator does.

use derecho_sim::CostModel;

use crate::FigureError;

const SST: &str = include_str!("../networks/sst.toml");
const DERECHO: &str = include_str!("../networks/derecho.toml");
const PAPER: &str = include_str!("../networks/paper.toml");
const OURS: &str = include_str!("../networks/ours.toml");

/// Section of a price file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// 40 Gb/s, one rack.
    Susitna,
    /// 56 Gb/s, three racks.
    Stampede,
    /// 1 Gb/s, slow reads.
    Marmot,
    /// 100 Gb/s.
    Derecho,
    /// The `Derecho` cluster, with the values measured in the Spindle paper.
    Spindle,
    /// The `Spindle` network, with the processor prices measured in this product.
    Ours,
}

/// Price file of the multicast figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Costs {
    /// Values measured by the papers.
    #[default]
    Paper,
    /// Values measured of this product, on the papers' network.
    Ours,
}

impl Costs {
    /// Returns the network with these prices; `papers` is the network measured by a paper.
    pub(crate) fn network(self, papers: Network) -> Network {
        match self {
            Costs::Paper => papers,
            Costs::Ours => Network::Ours,
        }
    }
}

impl Network {
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Network::Susitna => (SST, "susitna"),
            Network::Stampede => (SST, "stampede"),
            Network::Marmot => (SST, "marmot"),
            Network::Derecho => (DERECHO, "derecho"),
            Network::Spindle => (PAPER, "spindle"),
            Network::Ours => (OURS, "ours"),
        }
    }

    /// Returns the prices, with those of `changes` (TOML, as in the files but without a
    /// section) replaced.
    pub fn costs(self, changes: &str) -> Result<CostModel, FigureError> {
        let (file, name) = self.place();
        let table = |text: &str| -> Result<toml::Table, FigureError> {
            text.parse().map_err(|error: toml::de::Error| FigureError::Network(error.to_string()))
        };
        let mut file = table(file)?;
        let Some(toml::Value::Table(mut section)) = file.remove(name) else {
            return Err(FigureError::Network(format!("there is no section [{name}]")));
        };
        for (key, change) in table(changes)? {
            match (section.get_mut(&key), change) {
                (Some(toml::Value::Table(prices)), toml::Value::Table(change)) => {
                    prices.extend(change);
                }
                (_, change) => {
                    section.insert(key, change);
                }
            }
        }
        CostModel::from_toml(&section.to_string())
            .map_err(|error| FigureError::Network(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Network; 6] = [
        Network::Susitna,
        Network::Stampede,
        Network::Marmot,
        Network::Derecho,
        Network::Spindle,
        Network::Ours,
    ];

    #[test]
    fn every_section_is_a_complete_cost_model_and_can_be_changed() {
        for network in ALL {
            let costs = network.costs("").unwrap();
            let dearer = network.costs("post_ns = 5000\n[write]\nbase_ns = 7").unwrap();
            assert_eq!((dearer.post_ns, dearer.write.base_ns), (5000.0, 7.0));
            assert_eq!(dearer.write.ns_per_byte, costs.write.ns_per_byte);
            assert_eq!(dearer.read, costs.read);
        }
        let stampede = Network::Stampede.costs("").unwrap();
        assert_eq!(stampede.racks.map(|racks| racks.groups.len()), Some(3));
        assert!(Network::Susitna.costs("").unwrap().racks.is_none());
    }

    #[test]
    fn network_rejects_malformed_change_and_names_unknown_price() {
        let error = Network::Susitna.costs("post_nanos = 1").unwrap_err();
        assert!(error.to_string().contains("post_nanos"), "{error}");
        assert!(Network::Susitna.costs("post_ns =").is_err());
    }

    #[test]
    fn every_network_section_sets_all_prices() {
        for (file, sections) in [(SST, 3), (DERECHO, 1), (PAPER, 1), (OURS, 1)] {
            let table: toml::Table = file.parse().unwrap();
            assert_eq!(table.len(), sections);
            for (name, section) in table {
                let section = section.as_table().unwrap().clone();
                let keys = section.keys().filter(|&key| key != "racks").count();
                assert_eq!(keys, 16, "{name}");
            }
        }
    }
}
