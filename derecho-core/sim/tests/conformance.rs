//! The simulated link keeps the contract of the port, in both of its modes.

mod rig;

mod adversarial {
    use crate::rig::{NetworkBehaviour, SimRig};
    use derecho_sim::{Adversary, NetworkMode};

    struct AdversarialNetwork;

    impl NetworkBehaviour for AdversarialNetwork {
        fn mode() -> NetworkMode {
            NetworkMode::Adversarial(Adversary::default())
        }
    }

    link_conformance::link_conformance!(SimRig<AdversarialNetwork>);
}

mod costed {
    use crate::rig::{NetworkBehaviour, SimRig};
    use derecho_sim::NetworkMode;

    struct CostedNetwork;

    impl NetworkBehaviour for CostedNetwork {
        fn mode() -> NetworkMode {
            NetworkMode::Costed
        }
    }

    link_conformance::link_conformance!(SimRig<CostedNetwork>);
}
