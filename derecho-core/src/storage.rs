//! Store of a subgroup: the records that members keep in memory for late joiners.
//!
//! Owns: the records, and how they are sent to members that lack them; who asks whom is the part
//! of [`transfer`](crate::transfer). Never does: interpret a record; the creator of the store
//! passes functions that find a record's key.
//!
//! Reading order: [`store`] (the records of one member), [`cursor`] (reading them),
//! `subgroup_store` (a member's part in one subgroup), [`store_set`] (its part in all subgroups),
//! `transfer_sender` (transfer of records from one member to another). For stores that are also
//! logged: [`log_port`] (the port), [`log_election`] (the logs that a store begins from),
//! `log_follower` (how a log follows a store), `store_log_input` (a store as a log follows it),
//! [`checkpoint_state`] (the content of a checkpoint), [`log_tasks`] (slow operations),
//! [`log_damage`] (log tasks of a member whose log is damaged), `durability_tracker` (what is
//! durable everywhere).

mod announcement;
pub mod checkpoint_state;
pub mod cursor;
pub(crate) mod durability_tracker;
mod key_counts;
pub mod log_damage;
pub mod log_election;
pub(crate) mod log_follower;
pub mod log_port;
pub mod log_tasks;
mod segment;
pub mod store;
mod store_log_input;
mod store_message;
pub mod store_set;
mod subgroup_store;
mod transfer_sender;

pub use log_follower::MOST_BEHIND;
