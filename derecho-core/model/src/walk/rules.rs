//! Possible next events of the members, and their effects.
//!
//! Owns: the preconditions of each event, by the rules of `docs/internals/protocol/README.md`.
//! Never does: compute a cut or a queue of epochs.

use std::collections::BTreeMap;
use std::rc::Rc;

use derecho_core::group::registry::{Epoch, Layout, Registry};
use derecho_core::group::report::MemberReport;
use derecho_core::membership::Report;
use derecho_core::multicast::subgroup::DeliveryGuarantee;

use super::member::{
    AnnouncedEpoch, AnnouncedStart, Counts, EpochLine, EpochPhase, EpochState, KEY, MOST,
    StreamEntry, WalkMember, id, index as index_of, layout, part, senders, stream,
};
use super::progress::{BEGUN, EpochRecord};
use super::{PlantedError, WalkEvent, WalkSetting, WalkState, WalkViolation};

fn each(bits: u8) -> impl Iterator<Item = usize> {
    (0..MOST).filter(move |node| bits >> node & 1 == 1)
}

pub(super) fn bank(course: &WalkSetting, epoch: u64) -> usize {
    if course.planted == Some(PlantedError::LinesOnce) { 0 } else { epoch as usize % 2 }
}

impl WalkState {
    pub(super) fn begin(course: &WalkSetting) -> WalkState {
        assert!((1..=MOST).contains(&course.nodes), "a walk has 1 to {MOST} members");
        let members = (1 << course.nodes) - 1;
        let mut registry = Registry::default();
        registry.change(KEY, layout(course.layouts[0], members));
        let first = registry.epochs(KEY).next().cloned().expect("the first layout has members");
        let lines = |node: usize| {
            let is_in = part(&first.layout, node).is_some();
            let name = if is_in { first.name } else { 0 };
            [EpochLine { name, ..EpochLine::default() }, EpochLine::default()]
        };
        let node = |node: usize| {
            let is_in = part(&first.layout, node).is_some();
            let place = EpochState {
                epoch: first.clone(),
                phase: EpochPhase::Open,
                reads: part(&first.layout, node).is_some_and(|(reads, _)| reads),
                start: Counts::default(),
                delivered: Counts::default(),
                ends: Counts::default(),
                former: 0,
                before: 0,
            };
            let told = AnnouncedEpoch { epoch: first.clone(), starts: [None; MOST] };
            WalkMember {
                lives: true,
                wedged: None,
                view: 1,
                members,
                changes: 0,
                registry: registry.clone(),
                stream: Vec::new(),
                received: Counts::default(),
                current: is_in.then_some(place),
                announced: is_in.then_some(told),
                begun: is_in,
                may_begin: false,
                left_behind: false,
                owes: Vec::new(),
                behind: None,
                expected: None,
                lines: lines(node),
                sees: std::array::from_fn(lines),
                announced_starts: Vec::new(),
                heard: Vec::new(),
            }
        };
        WalkState {
            nodes: (0..course.nodes).map(node).map(Rc::new).collect(),
            decision: None,
            members,
            view: 1,
            record: EpochRecord::default(),
            messages: course.messages,
            views: course.views,
            crashes: course.crashes,
            doubts: course.doubts,
        }
    }

    /// Whether a node is a live member of the newest view.
    pub(super) fn is_member(&self, node: usize) -> bool {
        self.members >> node & 1 == 1 && self.nodes[node].lives
    }

    /// Whether a member of the newest view has stopped, or is dead: the others then stop as well.
    fn has_cause(&self) -> bool {
        let stopped = |node: usize| !self.nodes[node].lives || self.nodes[node].wedged.is_some();
        self.decision.is_none() && each(self.members).any(stopped)
    }

    /// Whether a member wedges between two layouts.
    pub(super) fn meets(&self, event: WalkEvent) -> bool {
        let WalkEvent::Wedge(node) = event else { return false };
        self.nodes[node].announced.is_some() && !self.nodes[node].begun
    }

    /// Whether an event must happen; false for writing and faults.
    pub(super) fn has_to_happen(&self, event: WalkEvent) -> bool {
        match event {
            WalkEvent::Write(_) | WalkEvent::Crash(_) => false,
            WalkEvent::Wedge(_) => self.has_cause(),
            WalkEvent::Decide(bits) => {
                each(self.members & !bits).all(|node| !self.nodes[node].lives)
            }
            _ => true,
        }
    }

    pub(super) fn all_that_can_happen(&self, course: &WalkSetting, into: &mut Vec<WalkEvent>) {
        into.clear();
        for node in (0..course.nodes).filter(|&node| self.nodes[node].lives) {
            self.what_one_can(course, node, into);
        }
        if self.views == 0 || self.decision.is_some() {
            return;
        }
        for bits in 1..=self.members {
            let stopped = |node: usize| self.nodes[node].lives && self.nodes[node].wedged.is_some();
            let excluded = each(self.members & !bits).filter(|&node| self.nodes[node].lives);
            let few = excluded.count() <= usize::from(self.doubts);
            if bits & !self.members == 0 && each(bits).all(stopped) && few {
                into.push(WalkEvent::Decide(bits));
            }
        }
    }

    fn what_one_can(&self, course: &WalkSetting, index: usize, into: &mut Vec<WalkEvent>) {
        let node = &self.nodes[index];
        if self.views > 0 && self.crashes > 0 && self.members >> index & 1 == 1 {
            into.push(WalkEvent::Crash(index));
        }
        let is_member = self.is_member(index);
        let sends = |epoch: &Epoch| part(&epoch.layout, index).is_some_and(|(_, sends)| sends);
        if self.messages > 0 && node.announced.as_ref().is_some_and(|told| sends(&told.epoch)) {
            into.push(WalkEvent::Write(index));
        }
        if let Some((bits, _, _)) = self.decision
            && bits >> index & 1 == 1
            && node.view < self.view
        {
            into.push(WalkEvent::Install(index));
            return;
        }
        let stops = course.planted != Some(PlantedError::NotStopped);
        if node.wedged.is_none() || !stops {
            self.what_streams_can(course, index, into);
        }
        if node.wedged.is_some() {
            return;
        }
        if is_member && node.changes + 1 < course.layouts.len() {
            into.push(WalkEvent::Change(index));
        }
        let mut others: Vec<usize> = node.announced_starts.iter().map(|start| start.of).collect();
        others.dedup();
        into.extend(others.into_iter().map(|other| WalkEvent::Hear(index, other)));
        if self.can_step(course, index) {
            into.push(WalkEvent::Step(index));
        }
        let calm = self.decision.is_none() && node.view == self.view;
        if is_member && calm && self.views > 0 {
            into.push(WalkEvent::Wedge(index));
        }
    }

    fn what_streams_can(&self, course: &WalkSetting, index: usize, into: &mut Vec<WalkEvent>) {
        let node = &self.nodes[index];
        let Some(place) = &node.current else { return };
        let late =
            course.planted == Some(PlantedError::NotStopped) && place.phase == EpochPhase::Wedged;
        if !node.is_at_work() && !late {
            return;
        }
        for of in senders(&place.epoch.layout) {
            let more = usize::from(node.received[of]) < self.nodes[of].stream.len();
            if more && !self.has_ended(index, of) {
                into.push(WalkEvent::Receive(index, of));
            }
        }
        let seats = place.epoch.layout.members.iter().map(|seat| index_of(seat.node));
        for other in seats.chain(each(place.former)).filter(|other| *other != index) {
            if node.sees[other] != self.nodes[other].lines {
                into.push(WalkEvent::See(index, other));
            }
        }
    }

    /// Whether a member has received the end of its epoch in a stream.
    fn has_ended(&self, index: usize, of: usize) -> bool {
        let node = &self.nodes[index];
        let received = &self.nodes[of].stream[..usize::from(node.received[of])];
        let epoch = node.current.as_ref().map(|place| place.epoch.number);
        received.iter().any(|entry| matches!(entry, StreamEntry::End(e) if Some(*e) == epoch))
    }

    pub(super) fn happen(
        &mut self,
        course: &WalkSetting,
        event: WalkEvent,
    ) -> Result<(), WalkViolation> {
        match event {
            WalkEvent::Write(node) => {
                self.messages -= 1;
                Rc::make_mut(&mut self.nodes[node]).stream.push(StreamEntry::Message);
            }
            WalkEvent::Change(node) => Rc::make_mut(&mut self.nodes[node]).change(course),
            WalkEvent::Step(node) => return self.step(course, node),
            WalkEvent::Receive(index, of) => {
                let node = Rc::make_mut(&mut self.nodes[index]);
                node.received[of] += 1;
                if let Some(place) = &node.current {
                    let line = &mut node.lines[bank(course, place.epoch.number)];
                    line.received[of] = node.received[of].max(place.start[of]);
                }
                return self.deliver(course, index);
            }
            WalkEvent::See(node, other) => {
                let lines = self.nodes[other].lines;
                Rc::make_mut(&mut self.nodes[node]).sees[other] = lines;
                return self.deliver(course, node);
            }
            WalkEvent::Hear(node, of) => {
                let node = Rc::make_mut(&mut self.nodes[node]);
                let at = node.announced_starts.iter().position(|start| start.of == of);
                let start = node
                    .announced_starts
                    .remove(at.expect("the event is offered when the start was announced"));
                node.heard.retain(|known| (known.epoch, known.of) != (start.epoch, of));
                node.heard.push(start);
                node.heard.sort_unstable();
            }
            WalkEvent::Crash(node) => {
                self.crashes -= 1;
                let node = Rc::make_mut(&mut self.nodes[node]);
                (node.lives, node.wedged) = (false, None);
            }
            WalkEvent::Wedge(index) => {
                let node = Rc::make_mut(&mut self.nodes[index]);
                let report = node.report(course);
                node.wedged = Some(report);
                if node.is_at_work()
                    && let Some(place) = &mut node.current
                {
                    place.phase = EpochPhase::Wedged;
                }
            }
            WalkEvent::Decide(bits) => self.decide(bits),
            WalkEvent::Install(node) => return self.install(course, node),
        }
        Ok(())
    }

    fn deliver(&mut self, course: &WalkSetting, index: usize) -> Result<(), WalkViolation> {
        let WalkState { nodes, record, .. } = self;
        let node = Rc::make_mut(&mut nodes[index]);
        let Some(place) = &mut node.current else { return Ok(()) };
        let EpochState { epoch, start, delivered, .. } = place;
        let reads = part(&epoch.layout, index).is_some_and(|(reads, _)| reads);
        for of in senders(&epoch.layout) {
            let mut limit = node.received[of].max(start[of]);
            let readers = epoch.layout.members.iter().filter(|seat| seat.reads && reads);
            for reader in readers.map(|seat| index_of(seat.node)) {
                let line = &node.sees[reader][bank(course, epoch.number)];
                let shows = if line.name == epoch.name { line.received[of] } else { start[of] };
                limit = if reader == index { limit } else { limit.min(shows) };
            }
            delivered[of] = limit.max(delivered[of]);
            if reads {
                record.delivers(epoch.number, of, delivered[of])?;
            }
        }
        Ok(())
    }

    /// Lets the members of these bits continue. Any part of the control stream that one has
    /// delivered, all have.
    fn decide(&mut self, bits: u8) {
        self.views -= 1;
        let excluded = each(self.members & !bits).filter(|&node| self.nodes[node].lives).count();
        self.doubts -= excluded as u8;
        let changes = each(self.members).map(|node| self.nodes[node].changes).max().unwrap_or(0);
        let reports = each(bits).map(|node| (id(node), self.nodes[node].wedged.as_ref()));
        let reports = reports.filter_map(|(node, report)| Some((node, report?)));
        self.decision = Some((bits, changes, MemberReport::cut(reports)));
        (self.members, self.view) = (bits, self.view + 1);
    }

    fn install(&mut self, course: &WalkSetting, index: usize) -> Result<(), WalkViolation> {
        let (bits, changes, cut) = self.decision.clone().expect("a decision is being installed");
        let WalkState { nodes, record, .. } = self;
        let node = Rc::make_mut(&mut nodes[index]);
        (node.owes, node.expected, node.may_begin) = (Vec::new(), None, false);
        while node.changes < changes {
            node.change(course);
        }
        node.finish(course, index, &cut, record)?;
        (node.behind, node.wedged) = (None, None);
        (node.view, node.members) = (self.view, bits);
        let layouts = BTreeMap::from([(KEY, layout(course.layouts[changes], bits))]);
        node.registry.collapse(&layouts, &cut);
        let newest = node.registry.epochs(KEY).last().cloned();
        let number = node.announced.as_ref().map(|told| told.epoch.number + 1);
        // Epoch without any member.
        let nobody = || {
            let layout = Layout { level: DeliveryGuarantee::Atomic, members: Vec::new() };
            Some(Epoch { number: number?, name: 0, layout, old: Vec::new() })
        };
        let Some(epoch) = newest.or_else(nobody) else {
            self.over();
            return Ok(());
        };
        let ends = cut.of(KEY).map(|cut| &cut.last.ends);
        let own = epoch.old.contains(&stream(index)).then_some(stream(index));
        let end = ends.and_then(|ends| ends.iter().find(|(of, _)| Some(*of) == own));
        let start =
            end.map(|(_, at)| AnnouncedStart { epoch: epoch.number, of: index, at: *at as u8 });
        if part(&epoch.layout, index).is_some() || node.announced.is_some() {
            node.expected = Some(epoch.clone());
        }
        if let Some(start) = start {
            node.heard.push(start);
            node.heard.sort_unstable();
            for other in epoch.layout.members.iter().map(|seat| index_of(seat.node)) {
                if other != index {
                    Rc::make_mut(&mut self.nodes[other]).announced_starts.push(start);
                }
            }
        }
        self.over();
        Ok(())
    }

    /// Ends the view change when all live members have installed it.
    fn over(&mut self) {
        let late = |node: usize| self.nodes[node].lives && self.nodes[node].view < self.view;
        if !each(self.members).any(late) {
            self.decision = None;
        }
    }

    fn can_step(&self, course: &WalkSetting, index: usize) -> bool {
        self.pays(course, index).is_some()
            || self.next_told(index).is_some()
            || self.is_complete(course, index)
            || self.nodes[index].can_begin()
    }

    fn step(&mut self, course: &WalkSetting, index: usize) -> Result<(), WalkViolation> {
        if let Some(start) = self.pays(course, index) {
            let owes = std::mem::take(&mut Rc::make_mut(&mut self.nodes[index]).owes);
            for newcomer in owes {
                Rc::make_mut(&mut self.nodes[newcomer]).announced_starts.push(start);
            }
        } else if let Some((told, ended)) = self.next_told(index) {
            Rc::make_mut(&mut self.nodes[index]).tell(index, told, ended);
        } else if self.is_complete(course, index) {
            let WalkState { nodes, record, .. } = self;
            let node = Rc::make_mut(&mut nodes[index]);
            let place = node.current.as_mut().expect("the epoch is complete");
            (place.phase, place.ends) = (EpochPhase::Complete, node.received);
            if part(&place.epoch.layout, index).is_some_and(|(reads, _)| reads) {
                for of in senders(&place.epoch.layout) {
                    record.ends(place.epoch.number, of, place.delivered[of])?;
                }
            }
        } else if self.nodes[index].can_begin() {
            self.check_begun(index)?;
            let WalkState { nodes, record, .. } = self;
            Rc::make_mut(&mut nodes[index]).begin(course, index, record)?;
            return self.deliver(course, index);
        }
        Ok(())
    }

    /// Returns a beginning that the member must still announce to newcomers, once it knows that.
    fn pays(&self, course: &WalkSetting, index: usize) -> Option<AnnouncedStart> {
        let node = &self.nodes[index];
        let (place, told) = (node.current.as_ref()?, node.announced.as_ref()?);
        let epoch = told.epoch.number;
        let end = StreamEntry::End(place.epoch.number);
        let end = || Some(node.stream.iter().position(|entry| *entry == end)? as u8 + 1);
        let early = course.planted == Some(PlantedError::DebtEarly);
        let over = node.begun || place.phase == EpochPhase::Complete || early;
        let at = if node.begun { Some(place.start[index]) } else { end() };
        let owes = !node.owes.is_empty() && over;
        at.filter(|_| owes).map(|at| AnnouncedStart { epoch, of: index, at })
    }

    /// Returns the epoch to announce to the member now, if any, and whether a view has brought it.
    fn next_told(&self, index: usize) -> Option<(AnnouncedEpoch, bool)> {
        let node = &self.nodes[index];
        let mut epochs = node.registry.epochs(KEY);
        let next = match (&node.expected, &node.announced) {
            (Some(expected), _) => expected,
            (None, Some(told)) if node.begun && node.owes.is_empty() => {
                epochs.find(|epoch| epoch.number > told.epoch.number)?
            }
            (None, Some(_)) => return None,
            (None, None) => epochs.find(|epoch| part(&epoch.layout, index).is_some())?,
        };
        let knows = node.announced.is_some() && !node.left_behind;
        let is_in = part(&next.layout, index).is_some();
        let mut starts = [None; MOST];
        for of in senders(&next.layout) {
            let heard = node.heard_of(next.number, of);
            let told = knows || heard.is_some() || of == index;
            if is_in && !told && next.old.contains(&stream(of)) {
                return None;
            }
            starts[of] = heard.filter(|_| !knows);
        }
        Some((AnnouncedEpoch { epoch: next.clone(), starts }, node.expected.is_some()))
    }

    fn is_complete(&self, course: &WalkSetting, index: usize) -> bool {
        let node = &self.nodes[index];
        let Some(place) = node.current.as_ref().filter(|place| place.phase == EpochPhase::Closing)
        else {
            return false;
        };
        let epoch = &place.epoch;
        let mut of = senders(&epoch.layout);
        let all =
            of.all(|of| self.has_ended(index, of) && place.delivered[of] == node.received[of]);
        let shows = |other: usize| {
            let line = &node.sees[other][bank(course, epoch.number)];
            let received = |of| line.received[of] >= node.received[of];
            other == index
                || line.name == epoch.name
                    && (line.finished || senders(&epoch.layout).all(received))
        };
        let mut seats = epoch.layout.members.iter().map(|seat| index_of(seat.node));
        let left = |other: usize| {
            let before = bank(course, epoch.number + 1);
            let line = &node.sees[other][before];
            line.name == place.before && line.finished
        };
        let early = course.planted == Some(PlantedError::CompleteEarly);
        all && (early || seats.all(shows) && each(place.former).all(left))
    }

    /// Checks I-51, when an epoch begins by a change of layout.
    fn check_begun(&self, index: usize) -> Result<(), WalkViolation> {
        let node = &self.nodes[index];
        let told = node.announced.as_ref().expect("an announced epoch begins");
        let ends: Vec<(usize, u8)> = match &node.current {
            Some(place) if place.phase == EpochPhase::Complete => {
                senders(&place.epoch.layout).map(|of| (of, place.ends[of])).collect()
            }
            Some(_) => return Ok(()),
            None => (0..MOST).filter_map(|of| Some((of, told.starts[of]?))).collect(),
        };
        let before = told.epoch.number.checked_sub(1);
        for (reader, other) in self.nodes.iter().enumerate() {
            let Some(place) = other.current.as_ref().filter(|p| Some(p.epoch.number) == before)
            else {
                continue;
            };
            let reads = part(&place.epoch.layout, reader).is_some_and(|(reads, _)| reads);
            let lacks = |(of, end): &(usize, u8)| other.received[*of] < *end;
            if reads && place.phase != EpochPhase::Finished && ends.iter().any(lacks) {
                return Err(WalkViolation(BEGUN));
            }
        }
        Ok(())
    }
}
