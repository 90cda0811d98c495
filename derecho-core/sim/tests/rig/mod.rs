//! The conformance suite's rig over a simulated network.

use std::marker::PhantomData;

use derecho_core::ids::Time;
use derecho_core::link::Evidence;
use derecho_sim::{CostModel, EvidenceRules, NetworkMode, NodeIndex, SimLink, SimNetwork};
use link_conformance::LinkRig;

/// Behaviour of the network.
pub(crate) trait NetworkBehaviour {
    /// The mode of the network.
    fn mode() -> NetworkMode;
}

/// Simulated network as the suite drives it.
pub(crate) struct SimRig<T> {
    network: SimNetwork,
    links: Vec<SimLink>,
    evidence: [Evidence; 1],
    behaviour: PhantomData<T>,
}

/// Nanoseconds that pass in one pass.
const PASS_NS: u64 = 700;

impl<T: NetworkBehaviour> LinkRig for SimRig<T> {
    type Link = SimLink;

    const SEEDS: u64 = 8;

    fn new(nodes: usize, seed: u64) -> Self {
        let evidence = if seed.is_multiple_of(2) { Evidence::Certain } else { Evidence::Uncertain };
        let rules =
            EvidenceRules { crash: Some((evidence, (0, 50_000))), ..EvidenceRules::default() };
        let network = SimNetwork::new(seed, T::mode(), CostModel::default(), rules);
        let links = (0..nodes).map(|_| network.add_node()).collect();
        SimRig { network, links, evidence: [evidence], behaviour: PhantomData }
    }

    fn join(&mut self) -> usize {
        self.links.push(self.network.add_node());
        self.links.len() - 1
    }

    fn link(&mut self, node: usize) -> &mut SimLink {
        &mut self.links[node]
    }

    fn pass(&mut self) {
        let Time(now) = self.network.now();
        self.network.advance_to(Time(now + PASS_NS));
    }

    fn kill(&mut self, node: usize) {
        self.network.crash(NodeIndex(node));
    }

    fn leave(&mut self, node: usize) {
        self.network.leave(NodeIndex(node));
    }

    fn halt(&mut self, node: usize, halted: bool) -> bool {
        self.network.show_halted(NodeIndex(node), halted);
        true
    }

    fn kill_evidence(&self) -> &[Evidence] {
        &self.evidence
    }
}
