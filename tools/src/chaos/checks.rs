//! Judgement of a cycle by the records of its members.
//!
//! Owns: the rules. Never does: anything to a member.
//!
//! Every reader of an ordered topic delivers one contiguous part of one sequence. This holds if and
//! only if each sample has at most one successor and one predecessor among all readers, so one pass
//! checks exactly that.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::evidence::{Delivery, Evidence, RecordedReader};
use super::journal::{JournalOwner, JournalRecord};
use super::process::MemberHistory;
use super::sample::{ChaosLevel, SampleId, writer_name};

/// Maximum number of violations of one kind that are reported for a cycle.
const TOLD: usize = 3;
/// Time after an action, in nanoseconds, after which a delivery does not count as recovery from it.
const RECOVERY: u64 = 60_000_000_000;

/// Result of a cycle.
#[derive(Default)]
pub(crate) struct CycleResult {
    pub(crate) violations: Vec<String>,
    pub(crate) deliveries: u64,
    pub(crate) readers: u64,
    pub(crate) writers: u64,
    /// Nanoseconds from each action to the next delivery at each reader of an ordered topic.
    pub(crate) recovery: BTreeMap<&'static str, Vec<u64>>,
}

/// Judges a cycle that has ended.
pub(crate) fn judge(evidence: &Evidence) -> CycleResult {
    let mut result =
        CycleResult { violations: evidence.violations.clone(), ..CycleResult::default() };
    for level in ChaosLevel::ALL {
        let mut found = Vec::new();
        for reader in evidence.readers(level) {
            result.readers += 1;
            result.deliveries += reader.deliveries().count() as u64;
            found.extend(each_writer_in_order(&reader).err());
            found.extend(no_corruption(&reader).err());
            found.extend(deliveries_in_time(evidence, &reader).err());
        }
        if level.is_ordered() {
            found.extend(one_order(evidence, level).err());
        }
        if level.is_kept() {
            found.extend(late_joiners_complete(evidence, level).err());
        }
        result.violations.extend(found.into_iter().take(TOLD));
    }
    let mut found = Vec::new();
    for (owner, records) in &evidence.records {
        if let JournalOwner::Writer { level, process, ordinal } = *owner {
            result.writers += 1;
            found.extend(writer_progresses(evidence, level, process, records).err());
            found.extend(all_of_a_deleted_writer(evidence, level, process, ordinal, records).err());
        }
    }
    result.violations.extend(found.into_iter().take(TOLD));
    result.violations.extend(nobody_healthy_is_isolated(evidence));
    result.recovery = recovery(evidence);
    result
}

/// Checks that each writer's samples arrive in its order, without gap or duplicate.
fn each_writer_in_order(reader: &RecordedReader<'_>) -> Result<(), String> {
    let mut last: HashMap<u64, u64> = HashMap::new();
    for delivery in reader.deliveries() {
        let (writer, number) = (delivery.id.writer(), delivery.id.number());
        let Some(before) = last.insert(writer, number) else { continue };
        if before + 1 == number {
            continue;
        }
        let what = match number <= before {
            true => "a duplicate or a sample out of its writer's order",
            false => "a gap",
        };
        let (name, writer) = (reader.name(), writer_name(writer));
        return Err(format!("{name}: {what}: sample {number} of {writer} after {before}"));
    }
    Ok(())
}

fn no_corruption(reader: &RecordedReader<'_>) -> Result<(), String> {
    let corrupt = reader.records.iter().find_map(|record| match record {
        JournalRecord::Corrupt { id, .. } => Some(*id),
        _ => None,
    });
    match corrupt {
        Some(id) => Err(format!("{}: {id} is not what was written", reader.name())),
        None => Ok(()),
    }
}

/// Checks that all readers deliver contiguous parts of one sequence.
fn one_order(evidence: &Evidence, level: ChaosLevel) -> Result<(), String> {
    let mut next: HashMap<SampleId, (SampleId, RecordedReader<'_>)> = HashMap::new();
    let mut previous: HashMap<SampleId, (SampleId, RecordedReader<'_>)> = HashMap::new();
    for reader in evidence.readers(level) {
        let mut before = None;
        for delivery in reader.deliveries() {
            let id = delivery.id;
            if let Some(before) = before.replace(id) {
                let (theirs, other) = *next.entry(before).or_insert((id, reader));
                if theirs != id {
                    return Err(disagreement(&reader, &other, "after", before, id, theirs));
                }
                let (theirs, other) = *previous.entry(id).or_insert((before, reader));
                if theirs != before {
                    return Err(disagreement(&reader, &other, "before", id, before, theirs));
                }
            }
        }
    }
    Ok(())
}

fn disagreement(
    reader: &RecordedReader<'_>,
    other: &RecordedReader<'_>,
    side: &str,
    at: SampleId,
    own: SampleId,
    theirs: SampleId,
) -> String {
    let (name, others) = (reader.name(), other.name());
    format!("{name} and {others} disagree: {side} {at} one has {own}, the other {theirs}")
}

/// Checks that no survivor lacks a sample at the end that any member has delivered, in the topics
/// of these levels.
pub(crate) fn ends_agree(evidence: &mut Evidence, levels: Vec<ChaosLevel>) {
    let mut found = Vec::new();
    for level in levels.into_iter().filter(|level| level.is_ordered()) {
        let mut next: HashMap<SampleId, (SampleId, RecordedReader<'_>)> = HashMap::new();
        for reader in evidence.readers(level) {
            let mut before = None;
            for delivery in reader.deliveries() {
                if let Some(before) = before.replace(delivery.id) {
                    next.entry(before).or_insert((delivery.id, reader));
                }
            }
        }
        for reader in evidence.readers(level) {
            if !evidence.survivors.contains(&reader.process) || !reader.is_open() {
                continue;
            }
            let Some(last) = reader.deliveries().last() else { continue };
            if let Some((missing, other)) = next.get(&last.id) {
                let (name, other) = (reader.name(), other.name());
                found.push(format!("{name} lacks {missing}, which {other} has delivered"));
            }
        }
    }
    evidence.violations.extend(found.into_iter().take(TOLD));
}

/// Checks that a late joiner's reader begins no later than the anchor's first sample, which the
/// anchor has kept since.
fn late_joiners_complete(evidence: &Evidence, level: ChaosLevel) -> Result<(), String> {
    let is_anchor = |reader: &RecordedReader<'_>| Some(reader.process) == evidence.anchor_process;
    let Some(anchor) = evidence.readers(level).find(|it| is_anchor(it) && it.is_open()) else {
        return Ok(());
    };
    let mut deliveries = anchor.deliveries();
    let Some(first) = deliveries.next() else { return Ok(()) };
    let later: HashSet<SampleId> = deliveries.map(|delivery| delivery.id).collect();
    for reader in evidence.readers(level).filter(|reader| reader.began() > first.delivered) {
        let Some(begin) = reader.deliveries().next() else { continue };
        if later.contains(&begin.id) {
            let (name, kept, begin) = (reader.name(), first.id, begin.id);
            return Err(format!("{name} begins with {begin}, although {kept} before it was kept"));
        }
    }
    Ok(())
}

/// Checks that every delivery comes within the bound of recovery.
fn deliveries_in_time(evidence: &Evidence, reader: &RecordedReader<'_>) -> Result<(), String> {
    let began = reader.began();
    for delivery in reader.deliveries() {
        let (written, to) = (delivery.written.max(began), delivery.delivered);
        if to.saturating_sub(written) <= evidence.limit {
            continue;
        }
        let from = evidence.last_stop(written, to);
        let from = evidence.runs_since(reader.process, from, to);
        let from = evidence.runs_since(delivery.id.process(), from, to);
        let late = to.saturating_sub(from);
        if late > evidence.limit + evidence.starved(from, to) {
            let (name, id, late) = (reader.name(), delivery.id, late / 1_000_000);
            return Err(format!("{name} got {id} {late} ms late"));
        }
    }
    Ok(())
}

/// Checks that a writer makes progress within the bound of recovery after each stop.
fn writer_progresses(
    evidence: &Evidence,
    level: ChaosLevel,
    process: u32,
    records: &[JournalRecord],
) -> Result<(), String> {
    for record in records {
        let JournalRecord::Stalled { from, to } = *record else { continue };
        let begin = evidence.last_stop(from, to);
        let begin = evidence.runs_since(process, begin, to);
        if to - begin > evidence.limit + evidence.starved(begin, to) {
            let (time, whole) = ((to - begin) / 1_000_000, (to - from) / 1_000_000);
            return Err(format!(
                "the writer of the {level} topic in process {process} made no progress for {whole} ms, {time} ms of \
                 it after the last stop of a process"
            ));
        }
    }
    Ok(())
}

/// Checks that survivors have all samples of a writer that was deleted in order.
fn all_of_a_deleted_writer(
    evidence: &Evidence,
    level: ChaosLevel,
    process: u32,
    ordinal: u32,
    records: &[JournalRecord],
) -> Result<(), String> {
    let Some(JournalRecord::Deleted { time, count }) = records.last().copied() else {
        return Ok(());
    };
    let was_stopped =
        evidence.histories.get(&process).is_some_and(|history| !history.stops.is_empty());
    let Some(last) = count.checked_sub(1).filter(|_| !was_stopped) else { return Ok(()) };
    let last = SampleId::new(process, ordinal, last);
    for reader in evidence.readers(level) {
        let is_judged = evidence.survivors.contains(&reader.process) && reader.began() < time;
        if !is_judged || !reader.is_open() {
            continue;
        }
        let of_writer = reader.deliveries().filter(|it| it.id.writer() == last.writer()).last();
        if of_writer.is_some_and(|it| it.id != last) {
            return Err(format!(
                "{} lacks {last}, the last one of a deleted writer",
                reader.name()
            ));
        }
    }
    Ok(())
}

/// Checks that only processes that were stopped or got no processor are isolated.
fn nobody_healthy_is_isolated(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (process, history) in &evidence.histories {
        let Some((time, why)) = &history.isolated else { continue };
        let least = evidence.member_timeout / 2;
        let silences = silences(history, *time, evidence.member_timeout / 4);
        let was_stopped = silences
            .iter()
            .any(|(stopped, end)| *stopped >= least && time.saturating_sub(*end) < evidence.limit);
        let starved = evidence.starved(time.saturating_sub(evidence.limit), *time);
        if !was_stopped && starved < least {
            found.push(format!("process {process} was isolated although it was healthy: {why}"));
        }
    }
    found
}

/// Returns the time for which a process was stopped in each of its silences, and the end of each.
/// Stops belong to one silence if the process ran for at most `pause` between them: a loaded
/// machine may give it no processor for that time.
fn silences(history: &MemberHistory, until: u64, pause: u64) -> Vec<(u64, u64)> {
    let mut silences: Vec<(u64, u64)> = Vec::new();
    for (from, to) in &history.stops {
        let end = to.unwrap_or(until);
        let stopped = end.saturating_sub(*from);
        match silences.last_mut() {
            Some((sum, last)) if from.saturating_sub(*last) <= pause => {
                (*sum, *last) = (*sum + stopped, end);
            }
            _ => silences.push((stopped, end)),
        }
    }
    silences
}

/// Returns the time from each action to the first delivery of a sample that was written after it,
/// at each reader of an ordered topic outside of the action's own process. Only samples of writers
/// from which the reader had received before count, because a new writer begins when it begins.
fn recovery(evidence: &Evidence) -> BTreeMap<&'static str, Vec<u64>> {
    let mut recovery: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
    for level in ChaosLevel::ALL.into_iter().filter(|level| level.is_ordered()) {
        for reader in evidence.readers(level) {
            let deliveries: Vec<_> = reader.deliveries().collect();
            let begin = deliveries.first().map_or(u64::MAX, |first| first.delivered);
            let mut first: HashMap<u64, u64> = HashMap::new();
            for delivery in &deliveries {
                first.entry(delivery.id.writer()).or_insert(delivery.delivered);
            }
            for (time, action) in &evidence.actions {
                if *time < begin {
                    continue;
                }
                // Deliveries are ordered by time.
                let start = deliveries.partition_point(|delivery| delivery.delivered < *time);
                let is_next = |delivery: &&Delivery| {
                    delivery.written >= *time && first[&delivery.id.writer()] < *time
                };
                let next = deliveries[start..].iter().find(is_next);
                let Some(next) = next.map(|next| next.delivered - time) else { continue };
                let was_stopped = evidence.runs_since(reader.process, *time, time + next) > *time;
                if next < RECOVERY && !was_stopped {
                    recovery.entry(action).or_default().push(next);
                }
            }
        }
    }
    recovery
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_with_short_pauses_are_one_silence() {
        let stops = vec![(100, Some(160)), (170, Some(230)), (300, Some(330)), (400, None)];
        let history = MemberHistory { stops, ..MemberHistory::default() };
        assert_eq!(silences(&history, 450, 20), [(120, 230), (30, 330), (50, 450)]);
        assert_eq!(silences(&history, 450, 5), [(60, 160), (60, 230), (30, 330), (50, 450)]);
    }
}
