//! Steps of one member: epoch announced, begun, left; its report, and its finish at a cut.
//!
//! Owns: the changes of a step at the member that takes it. Never does: know when a step may
//! be taken.

use derecho_core::group::registry::Epoch;
use derecho_core::group::report::{GroupCut, MemberReport, StreamReport, SubgroupReport};

use super::member::{
    AnnouncedEpoch, Counts, EpochLine, EpochPhase, EpochState, KEY, StreamEntry, WalkMember,
    index as index_of, layout, part, senders, stream,
};
use super::progress::{COME_TO_CUT, EpochRecord, SEQUENCE};
use super::rules::bank;
use super::{PlantedError, WalkSetting, WalkViolation};

impl WalkMember {
    /// Delivers a change of layout.
    pub(super) fn change(&mut self, course: &WalkSetting) {
        self.changes += 1;
        self.registry.change(KEY, layout(course.layouts[self.changes], self.members));
    }

    pub(super) fn report(&self, course: &WalkSetting) -> MemberReport {
        let mut subgroups = Vec::new();
        let told = self.announced.as_ref().filter(|_| !self.begun);
        let readers = |epoch: &Epoch| {
            let seats = epoch.layout.members.iter().filter(|seat| seat.reads);
            seats.map(|seat| seat.node).collect()
        };
        let mut push = |epoch: &Epoch, left: bool, start: &Counts, received: &Counts| {
            let reached = |of: usize| {
                let (start, received) = (start[of].into(), received[of].into());
                StreamReport { stream: stream(of), start, received }
            };
            let streams = senders(&epoch.layout).filter(|_| !left).map(reached).collect();
            let (number, readers) = (epoch.number, readers(epoch));
            subgroups.push(SubgroupReport { key: KEY, epoch: number, left, readers, streams });
        };
        match (&self.current, told) {
            (Some(place), Some(told)) if place.phase == EpochPhase::Finished && !self.begun => {
                let starts = self.starts_of(told);
                push(&told.epoch, false, &starts, &starts);
            }
            (Some(place), _) => {
                let ahead = u8::from(course.planted == Some(PlantedError::Boasts));
                let beyond = course.planted == Some(PlantedError::BeyondTheEnd);
                let received = match place.phase {
                    EpochPhase::Finished if !beyond => place.ends,
                    _ => std::array::from_fn(|of| self.received[of].max(place.start[of]) + ahead),
                };
                let anew = course.planted == Some(PlantedError::EndsDecidedAnew);
                let start = match place.phase {
                    EpochPhase::Finished if !anew => &place.ends,
                    _ => &place.start,
                };
                push(&place.epoch, false, start, &received);
            }
            (None, _) => {
                let none = Counts::default();
                self.behind.iter().for_each(|epoch| push(epoch, true, &none, &none));
            }
        }
        MemberReport { informed: true, subgroups }
    }

    /// Returns the beginnings of an epoch, as far as they are known here.
    fn starts_of(&self, told: &AnnouncedEpoch) -> Counts {
        std::array::from_fn(|of| {
            let place = self.current.as_ref();
            let known = place.filter(|place| senders(&place.epoch.layout).any(|s| s == of));
            told.starts[of].or(known.map(|place| place.ends[of])).unwrap_or(0)
        })
    }

    /// Finishes at the cut.
    pub(super) fn finish(
        &mut self,
        course: &WalkSetting,
        index: usize,
        cut: &GroupCut,
        record: &mut EpochRecord,
    ) -> Result<(), WalkViolation> {
        let told = self.announced.as_ref().filter(|_| !self.begun).map(|told| told.epoch.number);
        let epoch = match &self.current {
            Some(place) if place.phase == EpochPhase::Finished => {
                told.unwrap_or(place.epoch.number)
            }
            Some(place) => place.epoch.number,
            None => match told {
                Some(told) => told,
                None => return Ok(()),
            },
        };
        let Some(decided) = cut.of(KEY) else { return Ok(()) };
        let newest = epoch == decided.last.epoch;
        let before = decided.before.iter().find(|cut| cut.epoch == epoch && !newest);
        let ends = before.map_or(&decided.last.ends, |before| &before.ends);
        let was_in_it =
            self.current.as_ref().is_some_and(|place| place.phase == EpochPhase::Wedged);
        if let Some(place) = self.current.as_mut().filter(|_| was_in_it) {
            let reads = part(&place.epoch.layout, index).is_some_and(|(reads, _)| reads);
            for of in senders(&place.epoch.layout) {
                let end = ends.iter().find(|(known, _)| *known == stream(of));
                let end = end.map_or(place.start[of], |(_, end)| *end as u8);
                let lacks = end > self.received[of].max(place.start[of]);
                let beyond = end < place.delivered[of];
                let own = of == index && usize::from(end) > self.stream.len();
                if end < place.start[of] || own || reads && (lacks || beyond) {
                    return Err(WalkViolation(COME_TO_CUT));
                }
                place.ends[of] = end;
                if reads {
                    if course.planted != Some(PlantedError::CutIgnored) {
                        place.delivered[of] = end;
                    }
                    record.ends(place.epoch.number, of, place.delivered[of])?;
                }
            }
            place.phase = EpochPhase::Finished;
        } else if let (Some(place), Some(told)) = (&mut self.current, &self.announced)
            && !self.begun
        {
            // The member skips an epoch in which it should have taken part.
            place.reads &= part(&told.epoch.layout, index).is_some_and(|(reads, _)| reads);
        }
        let took_part = was_in_it || course.planted == Some(PlantedError::NotBegunKnows);
        self.left_behind |= !newest || !took_part;
        Ok(())
    }

    /// Announces an epoch to the member. `ended`: a view has ended the previous one.
    pub(super) fn tell(&mut self, index: usize, next: AnnouncedEpoch, ended: bool) {
        let is_in = part(&next.epoch.layout, index).is_some();
        if ended {
            self.expected = None;
        }
        if self.current.is_none() {
            self.announced = is_in.then_some(next);
            (self.begun, self.may_begin) = (false, is_in);
            return;
        }
        if let (Some(told), false) = (&self.announced, ended) {
            let is_new = |node: &usize| part(&told.epoch.layout, *node).is_none();
            let seats = next.epoch.layout.members.iter().map(|seat| index_of(seat.node));
            let newcomers: Vec<usize> = seats.filter(is_new).collect();
            let stays = senders(&next.epoch.layout).any(|of| of == index);
            self.owes = if stays { newcomers } else { Vec::new() };
        }
        if let Some(place) =
            self.current.as_mut().filter(|place| place.phase == EpochPhase::Open && !ended)
        {
            place.phase = EpochPhase::Closing;
            if senders(&place.epoch.layout).any(|of| of == index) {
                self.stream.push(StreamEntry::End(place.epoch.number));
            }
        }
        (self.announced, self.begun, self.may_begin) = (Some(next), false, true);
    }

    pub(super) fn can_begin(&self) -> bool {
        let over =
            |place: &EpochState| matches!(place.phase, EpochPhase::Complete | EpochPhase::Finished);
        self.may_begin && self.current.as_ref().is_none_or(over)
    }

    pub(super) fn begin(
        &mut self,
        course: &WalkSetting,
        me: usize,
        record: &mut EpochRecord,
    ) -> Result<(), WalkViolation> {
        let told = self.announced.clone().expect("an announced epoch begins");
        let (number, before) = (told.epoch.number, self.current.take());
        self.may_begin = false;
        let complete = before.as_ref().filter(|place| place.phase == EpochPhase::Complete);
        let Some((reads, _)) = part(&told.epoch.layout, me) else {
            if let Some(place) = complete {
                self.lines[bank(course, place.epoch.number)].finished = true;
            }
            (self.announced, self.begun, self.behind) = (None, false, Some(told.epoch));
            self.registry.forget_before(KEY, number);
            self.owes.clear();
            return Ok(());
        };
        self.current.clone_from(&before);
        let mut start = self.starts_of(&told);
        let was = |of| before.as_ref().is_some_and(|p| senders(&p.epoch.layout).any(|s| s == of));
        let mut line = EpochLine { name: told.epoch.name, ..EpochLine::default() };
        for (of, start) in start.iter_mut().enumerate() {
            if !senders(&told.epoch.layout).any(|sender| sender == of) {
                *start = 0;
                continue;
            }
            if course.planted == Some(PlantedError::OwnStart) && was(of) {
                *start = self.received[of];
            }
            if !was(of) {
                self.received[of] = *start;
            }
            line.received[of] = self.received[of].max(*start);
            record.begins(number, of, *start)?;
            let read = before.as_ref().filter(|place| was(of) && reads && place.reads);
            if read.is_some_and(|place| place.delivered[of] != *start) {
                return Err(WalkViolation(SEQUENCE));
            }
        }
        let complete = before.as_ref().filter(|place| place.phase == EpochPhase::Complete);
        let gone = |place: &EpochState| {
            let seats = place.epoch.layout.members.iter().map(|seat| index_of(seat.node));
            let left = seats.filter(|node| part(&told.epoch.layout, *node).is_none());
            left.fold(0, |bits, node| bits | 1 << node)
        };
        let former = complete.map_or(0, gone);
        let name = before.as_ref().map_or(0, |place| place.epoch.name);
        self.lines[bank(course, number)] = line;
        self.current = Some(EpochState {
            epoch: told.epoch,
            phase: EpochPhase::Open,
            reads,
            start,
            delivered: start,
            ends: Counts::default(),
            former,
            before: name,
        });
        (self.begun, self.left_behind, self.behind) = (true, false, None);
        self.heard.retain(|start| start.epoch > number);
        self.registry.forget_before(KEY, number);
        Ok(())
    }
}
