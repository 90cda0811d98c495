//! What has to be true when no fault is at work any more.
//!
//! Owns: liveness, and whether a group may be lost. Never does: ask the protocol whether it may.
//!
//! Nobody has to go on who was harmed: who stood still, was slow, was cut off from others or has lost a
//! connection for good. But in the newest view there are members to whom nothing was done since
//! shortly before it began. If those are a primary partition of it (networked), or more than the others
//! that live (local), the group goes on, and whoever is a member then gets everything.

use std::collections::BTreeSet;

use derecho_core::ids::NodeId;
use derecho_core::membership::{Standing, View};
use derecho_sim::NodeIndex;

use crate::court::is_primary;
use crate::member::TIMEOUT;
use crate::world::{Kind, World};

/// A group comes to rest within this time after the last fault; nothing that a member waits for takes
/// longer than a few hundred milliseconds.
const REST: u64 = 3_000_000_000;
const LOOK: u64 = 500_000;

/// What was posted on a link while that was slow has arrived after this time, and all behind it.
const IN_FLIGHT: u64 = 200_000_000;

/// A silence that began so long before a view may be noticed in it.
const AFTERMATH: u64 = 3 * TIMEOUT;

impl World {
    /// Ends all faults, and lets the group come to rest. Returns whether it has.
    pub fn settle(&mut self) -> bool {
        self.end_storm();
        let end = self.now().after(REST);
        while !self.is_guilty() && !self.is_at_rest() {
            if self.now() >= end {
                self.charge_unrest();
                return false;
            }
            self.run(LOOK);
        }
        !self.is_guilty()
    }

    /// All that live are members of one view, and all topics have come to rest; who wants to be a member is
    /// one, if there is a group.
    fn is_at_rest(&self) -> bool {
        let living = self.living();
        let mut nodes: Vec<NodeId> = living.iter().map(|node| self.member(*node).me).collect();
        nodes.sort_unstable();
        let settled = living.iter().all(|node| {
            let group = self.member(*node).group();
            let members = group.view().members.iter().map(|member| member.node);
            let mut members: Vec<NodeId> = members.collect();
            members.sort_unstable();
            group.is_settled() && members == nodes
        });
        let is_out =
            |node: &NodeIndex| matches!(self.member(*node).group().standing(), Standing::Out(_));
        // Who has lost its connection to a member can be none beside it.
        let is_cut_off = |node: &NodeIndex| {
            living.iter().any(|other| self.cluster.network().is_broken(*node, *other))
        };
        let waiting = self
            .running()
            .into_iter()
            .filter(|node| !living.contains(node) && !is_out(node) && !is_cut_off(node));
        match living.is_empty() {
            // Those who wait of a networked group that is lost wait in vain.
            true => self.kind == Kind::Network && !self.has_to_go_on() || waiting.count() == 0,
            false => settled && waiting.count() == 0,
        }
    }

    fn charge_unrest(&mut self) {
        let what = format!("nothing comes to rest:{}", self.describe());
        self.court.borrow_mut().charge("liveness", &what);
    }

    /// The state of each that lives, and how it stands.
    fn describe_states(&self) -> String {
        let states = self.living().into_iter().map(|node| {
            let group = self.member(node).group();
            format!("\n  n{}: {:?}", node.0, group.state())
        });
        states.collect::<String>() + &self.describe()
    }

    /// How all that are not out stand.
    fn describe(&self) -> String {
        let mut text = String::new();
        let journal = &self.court.borrow().journal;
        for node in self.running() {
            let member = self.member(node);
            let (group, me) = (member.group(), journal.name_of(member.me));
            let agreement = group.agreement();
            if let Standing::Out(fate) = agreement.standing() {
                text += &format!("\n  {me}: out, {fate:?}");
                continue;
            }
            let (standing, stage) = (group.standing(), agreement.stage());
            let view = agreement.view();
            let names = journal.names_of(view.members.iter().map(|member| member.node));
            let suspects = agreement.suspects().iter().map(|rank| view.member(rank).node);
            let suspects = journal.names_of(suspects);
            let others = self.running().into_iter().filter(|other| *other != node);
            let lost = others.filter(|other| self.cluster.network().is_broken(node, *other));
            let lost = journal.names_of(lost.map(|other| self.member(other).me));
            text +=
                &format!("\n  {me}: {standing:?}, {stage:?} in view {} of {names}", view.number);
            text += &format!(", suspects {suspects}, has lost {lost}; {}", group.describe());
        }
        text
    }

    /// Whether nothing was done to a member of this view that could be noticed in it.
    fn is_unharmed(&self, node: NodeId, view: &View) -> bool {
        let index = |node| self.all().into_iter().find(|index| self.member(*index).me == node);
        let Some(own) = index(node).filter(|own| self.cluster.is_running(*own)) else {
            return false;
        };
        let since = self.court.borrow().newest_at.0.saturating_sub(AFTERMATH);
        let network = self.cluster.network();
        let others = view.members.iter().filter_map(|member| index(member.node));
        // A peer that has crashed has lost its connections to all, and harms nobody.
        let mut others = others.filter(|other| *other != own && self.cluster.is_running(*other));
        !self.court.borrow().is_leaving(node)
            && self.storm.harmed_until(own) < since.max(1)
            && !others.any(|other| network.is_broken(own, other))
    }

    /// Whether there is a group that may not be lost: in the newest view, and in those in which unharmed members
    /// of it are who have not heard of it, enough are unharmed to decide on the next one.
    fn has_to_go_on(&self) -> bool {
        let court = self.court.borrow();
        let newest = court.newest().or(court.founding()).cloned();
        drop(court);
        // Before a local group is founded, anybody can do it.
        let Some(newest) = newest else { return !self.running().is_empty() };
        let unharmed = |view: &View| -> BTreeSet<NodeId> {
            let nodes = view.members.iter().map(|member| member.node);
            nodes.filter(|node| self.is_unharmed(*node, view)).collect()
        };
        let court = self.court.borrow();
        let last = unharmed(&newest).into_iter().filter_map(|node| court.last_view_of(node));
        let views: Vec<View> = last.chain([&newest]).cloned().collect();
        drop(court);
        views.iter().all(|view| {
            let unharmed = unharmed(view);
            match self.kind {
                Kind::Network => is_primary(view, |node| unharmed.contains(&node)),
                Kind::Local => {
                    let lives =
                        |node| self.running().iter().any(|index| self.member(*index).me == node);
                    let living = view.members.iter().filter(|member| lives(member.node));
                    2 * unharmed.len() > living.count()
                }
            }
        })
    }

    /// The end of a life: all faults end, and then everything that is promised has to be there.
    pub fn check(&mut self) {
        if !self.settle() {
            return;
        }
        self.run(IN_FLIGHT);
        self.check_isolation();
        if self.living().is_empty() {
            return self.check_loss();
        }
        if !self.write_once_more() {
            return;
        }
        self.run(5_000_000);
        let living = self.living();
        let groups: Vec<_> = living.iter().map(|node| self.member(*node).group()).collect();
        if groups.windows(2).any(|pair| pair[0].state() != pair[1].state()) {
            let what = format!("members have different states:{}", self.describe_states());
            self.court.borrow_mut().charge("agreement", &what);
            return;
        }
        let topics = groups.first().map(|group| group.state().clone()).unwrap_or_default();
        let parts = topics.0.iter().filter(|(_, part)| part.reads);
        let readers: Vec<(NodeId, u64)> = parts.map(|((topic, node), _)| (*node, *topic)).collect();
        let there = living.iter().map(|node| self.member(*node).me).collect();
        let written = self.writers();
        let mut court = self.court.borrow_mut();
        court.judge(&there);
        court.complete(&readers, &written);
        drop(court);
        if self.is_guilty() {
            let text = self.describe();
            let mut court = self.court.borrow_mut();
            court.journal.say(format_args!("how all stand:{text}"));
        }
        if self.living() != living {
            self.court.borrow_mut().charge("liveness", "a member is lost while nothing happens");
        }
    }

    /// Of every writer the last message is one that all readers were there for.
    fn write_once_more(&mut self) -> bool {
        let before = self.writers();
        for _ in 0..500 {
            let now = self.writers();
            if now.len() != before.len() {
                self.court
                    .borrow_mut()
                    .charge("liveness", "a writer is lost while nothing happens");
                return false;
            }
            if now.iter().zip(&before).all(|(now, before)| now.2 > before.2) {
                return true;
            }
            self.write_for(1);
        }
        self.court.borrow_mut().charge("liveness", "a writer has no room for ever");
        false
    }

    /// Who is out says so, for good, and refuses everything.
    fn check_isolation(&mut self) {
        let out = self.court.borrow().out().clone();
        for node in self.running() {
            let member = self.cluster.machine_mut(node, 0);
            let Some(fate) = out.get(&member.me).copied() else { continue };
            let standing = member.group().standing();
            if standing != Standing::Out(fate) || !member.refuses() {
                let what = format!("node {} is out ({fate:?}) and acts: {standing:?}", node.0);
                self.court.borrow_mut().charge("isolation", &what);
            }
        }
    }

    /// Nobody is left.
    fn check_loss(&mut self) {
        self.tally.lost += 1;
        if self.has_to_go_on() {
            let court = self.court.borrow();
            let newest = court.newest().or(court.founding());
            let newest = newest.map(|view| (view.number, view.members.clone()));
            drop(court);
            let what = format!("nobody goes on, though enough were unharmed: {newest:?}");
            self.court.borrow_mut().charge("liveness", &what);
        }
        self.court.borrow_mut().judge(&BTreeSet::new());
    }
}
