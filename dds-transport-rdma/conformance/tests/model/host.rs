//! The model's host with its arbiters, and the ways in which it can answer wrongly.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use derecho_core::ids::Rank;
use derecho_core::link::{Arbiter, Founding, Generation, LinkError};

use super::LinkFault;

/// State that all nodes share.
#[derive(Default)]
struct SharedWords {
    group: u64,
    view: u64,
    ballot: u16,
    /// Members of the group: the view in which each entered, and its slot.
    members: BTreeMap<usize, (u64, u8)>,
    gone: Vec<usize>,
}

/// The host.
#[derive(Clone)]
pub(crate) struct ModelHost {
    fault: LinkFault,
    words: Arc<Mutex<SharedWords>>,
}

/// Arbiter of one node.
pub(crate) struct ModelArbiter {
    pub(crate) node: usize,
    pub(crate) host: ModelHost,
}

impl ModelHost {
    pub(crate) fn new(fault: LinkFault) -> ModelHost {
        ModelHost { fault, words: Arc::default() }
    }

    fn words(&self) -> MutexGuard<'_, SharedWords> {
        self.words.lock().expect("nobody panics with it")
    }

    /// Widens the race of a planted fault.
    fn dawdle(&self, fault: LinkFault) {
        if self.fault == fault {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub(crate) fn node_gone(&self, node: usize, left: bool) {
        let mut words = self.words();
        words.gone.push(node);
        if left && self.fault != LinkFault::KeepWhoLeft {
            words.members.remove(&node);
        }
    }

    /// Whether `group` is the current group.
    fn meant(&self, words: &SharedWords, group: Generation) -> bool {
        words.group > 0 && (words.group == group.0 || self.fault == LinkFault::ForgetGenerations)
    }
}

impl Arbiter for ModelArbiter {
    fn found(&self) -> Result<Founding, LinkError> {
        let fault = self.host.fault;
        let words = self.host.words();
        let lives =
            |node: &usize| !words.gone.contains(node) || fault == LinkFault::RememberTheDead;
        if fault != LinkFault::FoundTwice && words.members.keys().any(lives) {
            return Ok(Founding::Exists(Generation(words.group)));
        }
        let mut words = if fault == LinkFault::FoundInTwoSteps {
            drop(words);
            self.host.dawdle(LinkFault::FoundInTwoSteps);
            self.host.words()
        } else {
            words
        };
        words.group += 1;
        (words.view, words.ballot) = (1, 0);
        words.members = BTreeMap::from([(self.node, (1, 0))]);
        Ok(Founding::Founded(Generation(words.group)))
    }

    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank> {
        let fault = self.host.fault;
        let words = self.host.words();
        let old = view < words.view && fault != LinkFault::SettleOldViews;
        if !self.host.meant(&words, group) || old {
            return None;
        }
        if view == words.view && fault != LinkFault::LetTheLastWin {
            return Some(Rank(words.ballot));
        }
        drop(words);
        self.host.dawdle(LinkFault::SettleInTwoSteps);
        let mut words = self.host.words();
        if view == words.view
            && !matches!(fault, LinkFault::SettleInTwoSteps | LinkFault::LetTheLastWin)
        {
            return Some(Rank(words.ballot));
        }
        (words.view, words.ballot) = (view, ballot.0);
        Some(ballot)
    }

    fn entered(&self, group: Generation, view: u64, slot: u8) -> bool {
        let mut words = self.host.words();
        let meant = self.host.meant(&words, group);
        if meant && self.host.fault != LinkFault::ForgetWhoEntered {
            words.members.insert(self.node, (view, slot));
        }
        meant
    }

    fn left(&self) {
        if self.host.fault != LinkFault::KeepWhoLeft {
            self.host.words().members.remove(&self.node);
        }
    }

    fn is_member(&self) -> bool {
        self.host.words().members.contains_key(&self.node)
    }

    fn cleared(&self, group: Generation, view: u64, slots: u64) {
        let fault = self.host.fault;
        let mut words = self.host.words();
        if !self.host.meant(&words, group) || fault == LinkFault::ClearNobody {
            return;
        }
        words.members.retain(|_, &mut (entered, slot)| {
            let late = entered >= view && fault != LinkFault::ClearWhoCameLater;
            late || slots >> slot & 1 == 0
        });
    }
}
