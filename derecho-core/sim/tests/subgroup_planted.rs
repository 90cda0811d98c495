//! Proof that the checkers can fail: members of a subgroup with a planted fault. In every range of
//! seeds, the checker named for the fault must catch it.
//!
//! All faults are planted from outside, in the words that one member publishes or believes, or in
//! the order of its posts, before or after its turns: production has no switch for any of them.
//! From outside, a member that begins the round-robin order at another rank than the others appears
//! as one that counts a null more than they do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::Time;
use derecho_core::machine::{Effects, PostKind};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::acknowledgement::{ACK_HELD, ACK_RECEIVED, ACK_TAKEN};
use derecho_core::multicast::entry::{EntryRead, RingEntry};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_sim::world::subgroups::{
    ArrivedEntries, FaultMoment, LONGEST, Pace, PlantedFault, Rule, Scenario, SubgroupMember,
    SubgroupRole, World, post, take_posts,
};
use derecho_sim::{Config, Random};

mod planted;

const RANGES: u64 = 3;
const SEEDS: u64 = 12;
const END: Time = Time(20_000_000);
/// Low bits of a line's word that hold the count.
const COUNT: u64 = (1 << 40) - 1;

/// Iterates over the first words of the lines that a member has written.
fn lines(member: &SubgroupMember) -> impl Iterator<Item = (OwnRegion, usize)> {
    let region = &member.part().lines.as_ref().unwrap().1;
    let lines = (0..region.words() / LINE_WORDS).map(|line| line * LINE_WORDS);
    let written = lines.filter(|first| region.word(first + ACK_RECEIVED).peek() != 0);
    written.map(|first| (region.clone(), first))
}

fn add(region: &OwnRegion, word: usize, more: u64) {
    region.word(word).publish(region.word(word).peek() + more);
}

/// Treats the others as having received what only it has.
fn delivers_what_only_it_has_received(
    member: &mut SubgroupMember,
    when: FaultMoment,
    _: &mut Effects,
) {
    if when == FaultMoment::Before {
        let checker = member.checker.borrow();
        let roles = checker.epochs[&(0, 0)].roles.iter();
        let views = roles.filter_map(|role| member.replicas.get(&(role.node, role.lines)));
        for view in views {
            // SAFETY: the copy is on the heap, is made of lines, and no slices of it are created.
            let word = unsafe { view.word(member.me * LINE_WORDS + ACK_RECEIVED) };
            // Far more than there is, with the name that is there.
            let name = word.peek() & !COUNT;
            if name != 0 {
                word.publish(name | 1_000_000);
            }
        }
    }
}

fn says_that_it_has_received_one_more(
    member: &mut SubgroupMember,
    when: FaultMoment,
    _: &mut Effects,
) {
    if when == FaultMoment::After {
        // Only words that were updated in this turn are posted.
        let received = member.checker.borrow().received(0, member.me);
        for (lines, first) in lines(member) {
            let word = lines.word(first + ACK_RECEIVED);
            if word.peek() & COUNT == received && received > 0 {
                word.publish(word.peek() + 1);
            }
        }
    }
}

/// Acknowledges everything that the others have committed, before it has received it.
fn acknowledges_before_it_receives(
    member: &mut SubgroupMember,
    when: FaultMoment,
    _: &mut Effects,
) {
    if when == FaultMoment::After {
        let checker = member.checker.borrow();
        let received = (0..checker.ids.len()).map(|node| checker.received(0, node));
        let most = received.max().unwrap();
        for (lines, first) in lines(member) {
            let word = lines.word(first + ACK_RECEIVED);
            word.publish(word.peek() & !COUNT | most.max(word.peek() & COUNT));
        }
    }
}

fn clears_held_while_it_still_reads(
    member: &mut SubgroupMember,
    when: FaultMoment,
    _: &mut Effects,
) {
    if when == FaultMoment::After {
        for (lines, first) in lines(member) {
            let word = lines.word(first + ACK_HELD);
            word.publish(word.peek() & !0xffff);
        }
    }
}

/// Reports two more taken entries than it has taken, wherever there are two more.
fn takes_too_much(member: &mut SubgroupMember, when: FaultMoment, _: &mut Effects) {
    if when == FaultMoment::After {
        let checker = member.checker.borrow();
        let lines = &member.part().lines.as_ref().unwrap().1;
        for sender in &checker.writers {
            let first = sender.node * LINE_WORDS;
            let taken = lines.word(first + ACK_TAKEN).peek() & COUNT;
            if sender.node != member.me && taken >= 4 && sender.committed >= taken + 2 {
                add(lines, first + ACK_TAKEN, 2);
                // With the matching stamp, and without any chunk.
                let word = lines.word(first + ACK_HELD);
                word.publish((word.peek() & !0xffff) + (2 << 16));
            }
        }
    }
}

/// Iterates over the entries of the other senders that have arrived, with the senders.
fn of_others(member: &SubgroupMember) -> impl Iterator<Item = (usize, &ArrivedEntries)> {
    let own = member.part().sending.map(|sending| sending.writer);
    let arrived = member.part().arrived.iter().enumerate();
    arrived.filter(move |(writer, _)| Some(*writer) != own)
}

/// Changes the null runs of the others in this member's memory, each once.
fn change_runs(member: &mut SubgroupMember, change: fn(u32) -> u32) {
    for (_, arrived) in of_others(member) {
        let Some(replica) = &arrived.replica else { continue };
        let geometry = Geometry::read(replica).unwrap().unwrap();
        // All entries that have arrived since the last turn.
        for index in arrived.entries()..arrived.entries() + geometry.entries() {
            let word = geometry.entry_word(index);
            let words = [replica.load(word), replica.load(word + 1)];
            if let EntryRead::Entry(RingEntry::Nulls(run)) =
                RingEntry::decode(words, index, geometry)
            {
                let words = RingEntry::Nulls(change(run)).encode(index);
                // SAFETY: the copy is on the heap, and this thread, the only one, has no slice of a
                // record here.
                unsafe { replica.word(word + 1) }.publish(words[1]);
            }
        }
    }
}

fn counts_a_null_twice(member: &mut SubgroupMember, when: FaultMoment, _: &mut Effects) {
    if when == FaultMoment::Before {
        change_runs(member, |run| run + 1);
    }
}

fn reads_a_run_as_one_slot(member: &mut SubgroupMember, when: FaultMoment, _: &mut Effects) {
    if when == FaultMoment::Before {
        change_runs(member, |_| 1);
    }
}

/// Commits runs that are one slot shorter than owed.
fn owes_one_null_too_few(member: &mut SubgroupMember, when: FaultMoment, _: &mut Effects) {
    let part = member.part();
    let Some(sending) = part.sending.filter(|_| when == FaultMoment::After) else { return };
    let Some(arrived) = part.arrived.get(sending.writer) else { return };
    let (geometry, region) = (sending.memory.geometry(), sending.memory.replica());
    // Entries that the turn has committed, and possibly received already.
    let next = arrived.entries();
    let first = next.saturating_sub(geometry.entries());
    for index in first..next + geometry.entries() {
        let word = geometry.entry_word(index);
        let words = [region.load(word), region.load(word + 1)];
        match RingEntry::decode(words, index, geometry) {
            EntryRead::Entry(RingEntry::Nulls(run)) if run > 1 && member.mark <= index => {
                // SAFETY: the memory is on the heap, and this thread, the only one, has no slice of
                // a claim or of a record here.
                let entry = unsafe { region.word(word + 1) };
                entry.publish(RingEntry::Nulls(run - 1).encode(index)[1]);
                member.mark = index + 1;
            }
            _ => {}
        }
    }
}

/// Posts entries before the bytes to which they refer (against I-1).
fn posts_entries_before_bytes(
    member: &mut SubgroupMember,
    when: FaultMoment,
    effects: &mut Effects,
) {
    if when == FaultMoment::After {
        let stream = member.part().sending.map(|sending| sending.region);
        let mut posts = take_posts(effects);
        posts.sort_by_key(|(_, kind)| match kind {
            PostKind::Write(region, range) if Some(*region) == stream => (0, range.first),
            _ => (1, 0),
        });
        posts.into_iter().for_each(|(target, kind)| post(target, kind, effects));
    }
}

/// Stops acknowledging to the others, once it has begun.
fn tells_nobody_any_more(member: &mut SubgroupMember, when: FaultMoment, effects: &mut Effects) {
    if when == FaultMoment::After {
        let lines = member.part().lines.as_ref().map(|lines| lines.0);
        for (target, kind) in take_posts(effects) {
            match kind {
                PostKind::Write(region, _) if Some(region) == lines => {}
                kind => post(target, kind, effects),
            }
        }
    }
}

/// Answers nulls with a null of its own.
fn answers_nulls(member: &mut SubgroupMember, when: FaultMoment, _: &mut Effects) {
    if when == FaultMoment::Before {
        let runs: u64 = of_others(member).map(|(_, arrived)| arrived.null_entries).sum();
        if runs > member.mark && member.node.declare_silence(member.part().id.unwrap(), 1) {
            member.mark = runs;
        }
    }
}

/// Returns the violations of a run in which some members have a fault.
fn trouble(
    seed: u64,
    level: DeliveryGuarantee,
    planted: Option<PlantedFault>,
    everywhere: bool,
) -> Vec<Rule> {
    let config = Config { deadline: END, ..Config::adversarial(seed) };
    let mut random = Random::new(seed);
    let pace = Pace { goal: 60, burst: 5, pause_ns: 2_000, careless: false };
    let mut members = vec![SubgroupRole::both(pace); 3];
    // One member is silent most of the time, so that there are nulls.
    members[random.below(3) as usize].sends = Some(Pace { goal: 4, pause_ns: 60_000, ..pace });
    let mut scenario = Scenario::atomic(members);
    scenario.terms.level = level;
    // Little memory, so that every chunk is reused many times.
    scenario.geometry = Geometry::fitting(1024, 16, LONGEST as usize).unwrap();
    let mut world = World::started(config, scenario);
    let victim = random.below(3) as usize;
    for member in (0..3).filter(|&member| everywhere || member == victim) {
        world.member_mut(member).planted = planted;
    }
    world.run_to_end().into_iter().map(|(checker, _)| checker).collect()
}

#[test]
fn checkers_accept_subgroup_runs_without_a_planted_fault() {
    for seed in 0..RANGES * SEEDS {
        for level in [DeliveryGuarantee::Unordered, DeliveryGuarantee::Atomic] {
            assert_eq!(trouble(seed, level, None, false), [], "seed {seed}");
        }
    }
}

/// Checks that the named checker finds the fault of one member first, at least once in each range
/// of seeds.
fn caught(name: &str, planted: PlantedFault, by: Rule) {
    let run = |seed| trouble(seed, DeliveryGuarantee::Atomic, Some(planted), false);
    planted::caught(name, by, (RANGES, SEEDS), run);
}

#[test]
fn delivery_of_messages_received_by_one_member_only_is_caught() {
    caught(
        "a member that delivers without acknowledgements",
        delivers_what_only_it_has_received,
        Rule::Agreement,
    );
}

#[test]
fn received_count_that_is_one_too_high_is_caught() {
    caught(
        "a member that has received one more",
        says_that_it_has_received_one_more,
        Rule::Agreement,
    );
}

#[test]
fn acknowledging_before_receiving_is_caught() {
    caught(
        "a member that acknowledges too early",
        acknowledges_before_it_receives,
        Rule::Agreement,
    );
}

#[test]
fn a_held_bit_that_is_cleared_too_early_is_caught() {
    caught("a member that clears held too early", clears_held_while_it_still_reads, Rule::Content);
}

#[test]
fn taken_count_that_is_too_high_is_caught() {
    caught("a member that takes too much", takes_too_much, Rule::Content);
}

#[test]
fn a_null_that_is_counted_twice_is_caught() {
    caught("a member that counts a null twice", counts_a_null_twice, Rule::Order);
}

#[test]
fn a_run_that_is_read_as_one_slot_is_caught() {
    caught("a member that reads a run as one slot", reads_a_run_as_one_slot, Rule::Order);
}

#[test]
fn a_null_that_is_owed_and_not_sent_is_caught() {
    caught("a member that owes one too few", owes_one_null_too_few, Rule::Liveness);
}

#[test]
fn entries_that_are_posted_before_their_bytes_are_caught() {
    let run =
        |seed| trouble(seed, DeliveryGuarantee::Unordered, Some(posts_entries_before_bytes), false);
    planted::caught("a member that posts entries first", Rule::Content, (RANGES, SEEDS), run);
}

#[test]
fn a_member_that_does_not_acknowledge_is_caught() {
    caught("a member that stops acknowledging", tells_nobody_any_more, Rule::Liveness);
}

#[test]
fn nulls_that_answer_nulls_are_caught() {
    let run = |seed| trouble(seed, DeliveryGuarantee::Atomic, Some(answers_nulls), true);
    planted::caught("members that answer nulls", Rule::Quiescence, (RANGES, SEEDS), run);
}
