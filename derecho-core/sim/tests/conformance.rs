//! The simulated link keeps the contract of the port, in both of its modes.

mod rig;

mod adversarial {
    use crate::rig::{Manner, SimRig};
    use derecho_sim::{Adversary, Mode};

    struct Badly;

    impl Manner for Badly {
        fn mode() -> Mode {
            Mode::Adversarial(Adversary::default())
        }
    }

    link_conformance::link_conformance!(SimRig<Badly>);
}

mod costed {
    use crate::rig::{Manner, SimRig};
    use derecho_sim::Mode;

    struct Priced;

    impl Manner for Priced {
        fn mode() -> Mode {
            Mode::Costed
        }
    }

    link_conformance::link_conformance!(SimRig<Priced>);
}
