//! Programs on the shared state table: the examples of the papers, written on the public SST API.
//!
//! Owns: for each program the row, the predicates and the triggers, given as a *setup* for
//! [`Sst::new`](derecho_core::sst::Sst::new). Never does: know a link, a clock or a thread. The
//! same program runs over shared memory, RDMA, TCP and the simulator.
//!
//! * [`counting`]: all nodes count in lock step.
//! * [`detection`]: predicates of chosen size, to measure how fast and how often they are detected.
//! * [`broadcast`]: a master sends the next message when all nodes have the previous one.
//! * [`two_phase_commit`]: all or nothing, through crashes, including that of the leader.
//! * [`routing`]: routers share link costs and recompute when a shortest path may have changed.
//!
//! A program over real or simulated links consists of a table and its driver:
//!
//! ```
//! use derecho_core::ids::NodeId;
//! use derecho_core::machine::{Effects, Machine};
//! use derecho_core::memory::OwnRegion;
//! use derecho_core::sst::{Sst, Strategy};
//! use sst_programs::counting::{self, Count};
//!
//! let own = OwnRegion::heap(Sst::<Count>::REGION_WORDS); // a link opens it, when there are others
//! let setup = counting::setup(3, |count| println!("everyone has counted to {count}"));
//! let mut sst = Sst::new(NodeId(1), own, 1, Strategy::Writes, Count::ZERO, setup);
//! let mut effects = Effects::new();
//! while sst.turn(Default::default(), &mut effects) > 0 {}
//! let table = sst.table().expect("alone, it starts at once");
//! assert_eq!(table.get(table.me(), Count::count), 3);
//! ```

pub mod broadcast;
pub mod counting;
pub mod detection;
pub mod routing;
pub mod two_phase_commit;
