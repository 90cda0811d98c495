//! Scenarios: throughput to some subscribers, or latency, with messages of a size.

use serde::{Deserialize, Serialize};

/// Sizes for which all peers have types.
pub(crate) const SIZES: [usize; 7] = [16, 64, 128, 1024, 10240, 65536, 1 << 20];
/// Sizes measured with one subscriber, without `--sizes`.
pub(crate) const USUAL_SIZES: [usize; 5] = [16, 128, 1024, 10240, 1 << 20];
/// Sizes measured with three subscribers, of the chosen ones.
const SIZES_OF_THREE: [usize; 3] = [16, 128, 10240];
/// Size of the messages of ping and pong.
const PING_SIZE: usize = 128;

/// One kind of measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) size: usize,
    /// Number of subscribers; zero for latency.
    pub(crate) subs: usize,
}

impl Scenario {
    /// Returns all scenarios for these sizes.
    pub(crate) fn all(sizes: &[usize]) -> Vec<Scenario> {
        let three = sizes.iter().filter(|size| SIZES_OF_THREE.contains(size));
        let one = sizes.iter().map(|&size| Scenario { size, subs: 1 });
        one.chain(three.map(|&size| Scenario { size, subs: 3 }))
            .chain([Scenario { size: PING_SIZE, subs: 0 }])
            .collect()
    }

    pub(crate) fn is_latency(self) -> bool {
        self.subs == 0
    }

    /// Returns the name of the size.
    pub(crate) fn size_name(self) -> String {
        match self.size {
            size if size >= 1 << 20 => format!("{} MiB", size >> 20),
            size if size >= 1 << 10 => format!("{} KiB", size >> 10),
            size => format!("{size} B"),
        }
    }

    /// Returns the name in messages.
    pub(crate) fn name(self) -> String {
        match self.subs {
            0 => format!("latency, {}", self.size_name()),
            1 => format!("{} to one", self.size_name()),
            subs => format!("{} to {subs}", self.size_name()),
        }
    }

    /// Returns the number of messages or round trips of the first warm-up.
    pub(crate) fn first_count(self) -> u64 {
        match self.size {
            _ if self.is_latency() => 500,
            size if size >= 1 << 20 => 50,
            _ => 2000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_cover_one_and_three_subscribers_and_latency() {
        let all = Scenario::all(&USUAL_SIZES);
        let count = |subs| all.iter().filter(|scenario| scenario.subs == subs).count();
        assert_eq!([count(1), count(3), count(0)], [5, 3, 1]);
        assert_eq!(all[4].name(), "1 MiB to one");
    }
}
