//! Conformance suite over the shared-memory link: each node has a link of its own in this process.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Duration;

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::link::{Evidence, Interest, Parker};
use link_conformance::{LinkRig, link_conformance};
use tempfile::TempDir;

struct ShmRig {
    links: Vec<Option<ShmLink>>,
    folder: TempDir,
}

impl ShmRig {
    fn add(&mut self) {
        let mut config = ShmConfig::new("conformance");
        config.runtime_dir = Some(self.folder.path().join("run"));
        config.evidence_limit = Duration::from_millis(10);
        self.links.push(Some(ShmLink::join(config).unwrap()));
    }
}

impl LinkRig for ShmRig {
    type Link = ShmLink;
    const PARALLEL: bool = true;

    fn new(nodes: usize, _seed: u64) -> ShmRig {
        let mut rig = ShmRig { links: Vec::new(), folder: tempfile::tempdir().unwrap() };
        (0..nodes).for_each(|_| rig.add());
        rig
    }

    fn join(&mut self) -> usize {
        self.add();
        self.links.len() - 1
    }

    fn link(&mut self, node: usize) -> &mut ShmLink {
        self.links[node].as_mut().unwrap()
    }

    fn pass(&mut self) {
        // Gives the rendezvous threads processor time.
        std::thread::sleep(Duration::from_micros(100));
    }

    fn kill(&mut self, node: usize) {
        self.links[node].take().unwrap().abandon();
    }

    fn leave(&mut self, node: usize) {
        drop(self.links[node].take());
    }

    fn kill_evidence(&self) -> &[Evidence] {
        // The process lives, so no death is certain.
        &[Evidence::Uncertain]
    }

    fn patience(&self) -> usize {
        50_000
    }

    fn parker(&mut self, node: usize) -> Option<Arc<dyn Parker>> {
        Some(self.link(node).parker())
    }
}

link_conformance!(ShmRig);

/// Links of `ShmRig` whose peers cannot see that a node sleeps.
struct SecretSleepers(ShmRig);

struct SecretSleeper(Arc<dyn Parker>);

impl Parker for SecretSleeper {
    fn arm(&self, _interest: Interest) {}

    fn sleep(&self, limit: Option<u64>) {
        self.0.sleep(limit);
    }

    fn disarm(&self) {}

    fn wake(&self) {
        self.0.wake();
    }
}

impl LinkRig for SecretSleepers {
    type Link = ShmLink;
    const PARALLEL: bool = true;

    fn new(nodes: usize, seed: u64) -> SecretSleepers {
        SecretSleepers(ShmRig::new(nodes, seed))
    }

    fn join(&mut self) -> usize {
        self.0.join()
    }

    fn link(&mut self, node: usize) -> &mut ShmLink {
        self.0.link(node)
    }

    fn pass(&mut self) {
        self.0.pass();
    }

    fn kill(&mut self, node: usize) {
        self.0.kill(node);
    }

    fn leave(&mut self, node: usize) {
        self.0.leave(node);
    }

    fn parker(&mut self, node: usize) -> Option<Arc<dyn Parker>> {
        Some(Arc::new(SecretSleeper(self.0.parker(node)?)))
    }
}

#[test]
fn suite_detects_nodes_that_sleep_unannounced() {
    use link_conformance::{bells, sleep};
    // A wake-up is only lost between a look and the sleep behind it, which a busy machine may miss.
    let is_detected = |check: fn(u64)| (0..50).any(|seed| catch_unwind(|| check(seed)).is_err());
    assert!(is_detected(sleep::a_ring_wakes_a_sleeper::<SecretSleepers>));
    assert!(is_detected(sleep::no_wake_up_is_lost::<SecretSleepers>));
    assert!(is_detected(sleep::an_event_wakes_a_sleeper::<SecretSleepers>));
    assert!(is_detected(bells::a_bell_wakes_a_sleeper::<SecretSleepers>));
    assert!(is_detected(bells::no_bell_is_lost::<SecretSleepers>));
}
