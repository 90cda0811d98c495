//! Progress of the group once no further faults happen.
//!
//! Owns: one fair order of the remaining events, and the expected result. Never does: explore.

use derecho_core::membership::{Arbitration, ExitReason};

use crate::event::Event;
use crate::node::{NodeEnd, NodeInput, NodeSet};
use crate::property::{Violation, is_primary, nodes_of};
use crate::world::{ModelState, World};

/// Number of events that settle any small group.
const ENOUGH: usize = 600;

impl World {
    /// Checks progress without further faults: every live node reaches the newest view or is
    /// out, and at least one continues. First with the stopped nodes still stopped, then with
    /// them continued.
    pub fn check_progress(&mut self, state: &ModelState) -> Result<(), (Violation, Vec<Event>)> {
        let mut way = Vec::new();
        let mut now = *state;
        let clean = self.must_go_on(state);
        let settled = |world: &World, now: &ModelState| {
            world.check_settled(now)?;
            let goes_on = |node| world.look(now, node).member && world.runs_now(now, node);
            let some = (0..world.setting.nodes()).any(goes_on);
            if clean && !some { Err(Violation("at least one member continues")) } else { Ok(()) }
        };
        let waited = self.setting.arbitration == Arbitration::Local || now.stopped == 0;
        if waited {
            now = self.let_go_on(now, &mut way)?;
            settled(self, &now).map_err(|broken| (broken, way.clone()))?;
        }
        if now.stopped != 0 {
            for node in 0..self.setting.nodes() {
                if now.stopped >> node & 1 == 1 {
                    way.push(Event::Resume(node));
                    now.stopped &= !(1 << node);
                }
            }
            now = self.let_go_on(now, &mut way)?;
            settled(self, &now).map_err(|broken| (broken, way))?;
        }
        Ok(())
    }

    fn let_go_on(
        &mut self,
        state: ModelState,
        way: &mut Vec<Event>,
    ) -> Result<ModelState, (Violation, Vec<Event>)> {
        let (mut now, mut before_asking) = (state, None);
        for _ in 0..ENOUGH {
            let event = match self.next(&now) {
                Some(event) => event,
                None => {
                    // Joining nodes ask repeatedly; if that changed nothing, nothing will.
                    let same = before_asking == Some(now);
                    before_asking = Some(now);
                    let asked = if same { Vec::new() } else { self.asks(&now) };
                    if asked.is_empty() {
                        return Ok(now);
                    }
                    for event in asked {
                        way.push(event);
                        now = self.apply(&now, event).map_err(|broken| (broken, way.clone()))?;
                    }
                    if let Some(before) = &mut before_asking {
                        before.note_asked(&now);
                    }
                    continue;
                }
            };
            way.push(event);
            now = self.apply(&now, event).map_err(|broken| (broken, way.clone()))?;
        }
        Err((Violation("the group settles"), way.clone()))
    }

    fn asks(&self, state: &ModelState) -> Vec<Event> {
        let nodes = self.setting.nodes();
        let joins = |node: &usize| !self.look(state, *node).member && self.runs_now(state, *node);
        let member = |node: &usize| self.look(state, *node).member && self.runs_now(state, *node);
        (0..nodes)
            .filter(joins)
            .flat_map(|node| (0..nodes).filter(member).map(move |other| Event::Join(node, other)))
            .collect()
    }

    fn runs_now(&self, state: &ModelState, node: usize) -> bool {
        self.lives(state, node) && state.stopped >> node & 1 == 0
    }

    /// Returns the next event when no fault happens any more: messages arrive, certain deaths are
    /// learnt, and a node that waits too long suspects.
    fn next(&mut self, state: &ModelState) -> Option<Event> {
        if let Some(event) = self.due(state) {
            return Some(event);
        }
        let nodes = self.setting.nodes();
        for node in 0..nodes {
            for other in 0..nodes {
                if self.evidence_of(state, node, other) {
                    return Some(Event::Evidence(node, other));
                }
            }
        }
        let running: Vec<usize> = (0..nodes).filter(|&node| self.runs_now(state, node)).collect();
        for &node in &running {
            let look = *self.look(state, node);
            if look.leads && look.lacks_votes && !look.wedged && look.number > 0 {
                return Some(Event::Promote(node));
            }
        }
        for &node in &running {
            let look = *self.look(state, node);
            for &other in &running {
                let waits = look.members >> other & 1 == 1 && look.suspects >> other & 1 == 0;
                let deaf = node != other && waits && self.is_cut(state, other, node);
                if deaf && self.changes(state, node, NodeInput::Suspect(1 << other, false)) {
                    return Some(Event::Doubt(node, other));
                }
            }
        }
        for &node in &running {
            let those = self.look(state, node).suspected_by;
            if those != 0 && self.changes(state, node, NodeInput::Suspect(those, false)) {
                return Some(Event::Return(node));
            }
        }
        for &node in &running {
            let those = self.look(state, node).awaited;
            if those != 0 && self.changes(state, node, NodeInput::Suspect(those, false)) {
                return Some(Event::Impatient(node));
            }
        }
        let gives_up = |&&node: &&usize| self.changes(state, node, NodeInput::GiveUp);
        let mut running = running.iter();
        running.find(gives_up).map(|&node| Event::GiveUp(node))
    }

    fn check_settled(&self, state: &ModelState) -> Result<(), Violation> {
        let nodes = self.setting.nodes();
        let running = |node: &usize| self.runs_now(state, *node);
        let members: Vec<usize> =
            (0..nodes).filter(running).filter(|&node| self.look(state, node).member).collect();
        let newest = self.newest(state);
        for &node in &members {
            let look = self.look(state, node);
            // Too few founders keep waiting for the others.
            let waits = look.number == 0;
            if (look.wedged || look.number != newest) && !waits {
                return Err(Violation("every node reaches the newest view or is out"));
            }
        }
        let uncut = (0..nodes).all(|a| (0..nodes).all(|b| !self.is_cut(state, a, b)));
        let joining = |node: usize| self.look(state, node).end.is_none();
        let joiner =
            (0..nodes).filter(running).find(|node| joining(*node) && !members.contains(node));
        let group = members.iter().any(|&node| self.look(state, node).number > 0);
        if group && uncut && joiner.is_some() {
            return Err(Violation("every joining node becomes a member"));
        }
        Ok(())
    }

    /// Whether the untainted nodes (neither faulty nor affected by a fault) suffice to continue, by
    /// the rule of the newest view that any live node was in.
    fn must_go_on(&self, state: &ModelState) -> bool {
        let nodes = self.setting.nodes();
        let dead = |node: usize| self.look(state, node).end == Some(NodeEnd::Dead);
        let living = (0..nodes).filter(|&node| !dead(node));
        let newest = living.map(|node| self.look(state, node).number).max().unwrap_or(0);
        let Some(last) = self.rightful(state, newest) else { return false };
        let clean = |node: &usize| {
            let left = self.look(state, *node).end == Some(NodeEnd::Out(ExitReason::Left));
            !dead(*node) && !left && state.tainted >> node & 1 == 0
        };
        let clean: NodeSet = (0..nodes).filter(clean).fold(0, |all, node| all | 1 << node);
        let clean = clean & nodes_of(last.members.iter());
        match self.setting.arbitration {
            Arbitration::Network => is_primary(&last, clean),
            Arbitration::Local => clean != 0,
        }
    }
}
