//! Groups with replicated objects.
//!
//! Owns: what the members' applications do with the objects. Never does: judge; the checker does.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

pub mod checker;
pub mod member;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use derecho_core::replicated::plan::shard_of;

use super::LogFolders;
use crate::{Config, NodeIndex};
use checker::ObjectChecker;
use member::{TestMember, stream_of};

/// A group with replicated objects.
pub type World = super::World<TestMember>;

const SALT: u64 = 0x0b1ec7;

impl World {
    /// Creates a group of `nodes` nodes on one host, or of as many founders in a network.
    pub fn new(config: Config, nodes: usize, local: bool) -> World {
        World::over(config, nodes, local, Rc::default(), None)
    }

    /// Creates a group over these logs, with the knowledge of this checker.
    pub fn over(
        config: Config,
        nodes: usize,
        local: bool,
        checker: Rc<RefCell<ObjectChecker>>,
        folders: Option<LogFolders>,
    ) -> World {
        let mut world = World::of_group(config, SALT, checker, folders);
        world.setting.founders = if local { 0 } else { nodes };
        let nodes: Vec<NodeIndex> = (0..nodes).map(|_| world.add_node(true)).collect();
        nodes.into_iter().for_each(|node| world.begin(node));
        world
    }

    /// Checks that everything durable is present, and that logs agree.
    pub fn compare_logs(&self) {
        let Some(folders) = &self.setting.folders else { return };
        let living = self.living();
        // All members may have left.
        let Some(first) = living.first() else { return };
        let directory = self.member(*first).machine().directory();
        for key in self.member(*first).keys().into_iter().filter(|key| shard_of(*key).0 < 2) {
            let at = living.iter().filter_map(|node| self.member(*node).object_host().object(key));
            let newest = at.map(|(_, links)| links.chain.count).max().unwrap_or(0);
            let firm = self.checker.borrow().firm(key);
            // A type with too few members has no seats.
            let exists = directory.plan(shard_of(key).0).is_ok();
            let is_there = newest >= firm || !exists;
            assert!(is_there, "I-111: {key:#x} is at {newest}, and {firm} was durable");
            let mut known = BTreeMap::new();
            for found in folders.logs(stream_of(key)) {
                for owned in found.records {
                    let record = owned.record();
                    let entry = (record.entry.epoch, record.entry.payload.to_vec());
                    let other = known.entry(record.version).or_insert(entry.clone());
                    assert_eq!(*other, entry, "of {} in {}", record.version, found.log);
                }
            }
        }
    }
}
