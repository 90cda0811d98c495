//! Proof that the checkers can fail: runs through many epochs in which the membership decides
//! wrongly, or a member has a planted fault. In every range of seeds, the checker named for the
//! fault must catch it.
//!
//! All faults are planted from outside: in announcements to members, in the words that one
//! publishes or believes, or in its posts. Production has no switch for any of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::RegionId;
use derecho_core::link::{Sharing, WordRange};
use derecho_core::machine::{Effects, PostKind, Target};
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::acknowledgement::{ACK_HELD, ACK_RECEIVED, ACK_TAKEN};
use derecho_core::multicast::geometry::{ENTRIES, ENTRY_WORDS, Geometry};
use derecho_core::multicast::subgroup::{DeliveryGuarantee, LINE_SLOTS};
use derecho_sim::world::subgroups::{
    FaultMoment, LONGEST, MembershipFault, PlantedFault, Rule, Scenario, SubgroupMember, World,
    post, take_posts,
};

mod planted;

const RANGES: u64 = 3;
const SEEDS: u64 = 40;

const COPIED: (DeliveryGuarantee, bool) = (DeliveryGuarantee::Atomic, false);
const SHARED: (DeliveryGuarantee, bool) = (DeliveryGuarantee::Atomic, true);
/// Level without an order, where all members deliver, and so take, at once.
const UNORDERED: (DeliveryGuarantee, bool) = (DeliveryGuarantee::Unordered, false);

/// Number of words of the lines of one set of epochs.
const BANK: usize = LINE_SLOTS * LINE_WORDS;

/// Bits of an entry's number that its stamp contains.
const STAMP: u64 = (1 << 21) - 1;

/// Replaces the ends in the others' streams by nulls.
fn ignores_ends(member: &mut SubgroupMember, when: FaultMoment, _: &mut Effects) {
    if when == FaultMoment::After {
        return;
    }
    let writers = member.checker.borrow().writers.clone();
    for writer in writers {
        let Some(replica) = member.replicas.get(&(writer.node, writer.region)) else { continue };
        let Ok(Some(geometry)) = Geometry::read(replica) else { continue };
        for index in 0..geometry.entries() {
            let word = geometry.entry_word(index);
            let words = [replica.load(word), replica.load(word + 1)];
            // Keep the stamps, and use the kind of a null run of one slot.
            if words[0] >> 30 & 3 == 3 && words[0] >> 32 == words[1] >> 32 {
                // SAFETY: the memory is on the heap, and this thread, the only one, has no slice of
                // a claim or of a record here.
                let [first, second] = [word, word + 1].map(|word| unsafe { replica.word(word) });
                first.publish(words[0] & !(1 << 30));
                second.publish(words[1] >> 32 << 32 | 1);
            }
        }
    }
}

/// Uses one set of lines for all epochs: every acknowledgement of one epoch also appears in the
/// other's lines.
fn has_its_lines_once(member: &mut SubgroupMember, when: FaultMoment, effects: &mut Effects) {
    let (FaultMoment::After, Some((id, lines))) = (when, member.part().lines.clone()) else {
        return;
    };
    for (target, kind) in take_posts(effects) {
        if let PostKind::Write(region, range) = kind
            && region == id
        {
            let other = (range.first + BANK) % (2 * BANK);
            for word in 0..range.count {
                lines.word(other + word).publish(lines.word(range.first + word).peek());
            }
            effects.write(target, region, WordRange::new(other, range.count));
        }
        post(target, kind, effects);
    }
}

/// Forgets in each epoch what it has posted, and posts the content of its ring once more.
fn forgets_what_it_has_posted(
    member: &mut SubgroupMember,
    when: FaultMoment,
    effects: &mut Effects,
) {
    let (sending, epoch) = (member.part().sending, member.part().epoch);
    let (FaultMoment::After, Some(sending), Some(epoch)) = (when, sending, epoch) else { return };
    if member.mark == epoch {
        return;
    }
    member.mark = epoch;
    let start = member.checker.borrow().epochs[&(0, epoch)].starts.get(&sending.writer).copied();
    let geometry = sending.memory.geometry();
    let Some(start) = start.filter(|start| start.entry > 0) else { return };
    for &(peer, _) in member.posted.keys().filter(|(_, region)| *region == sending.region) {
        let target = Target { peer, sharing: Sharing::Copied };
        let range = WordRange::new(geometry.entry_word(start.entry), ENTRY_WORDS);
        effects.write(target, sending.region, range);
    }
    assert!(geometry.entry_word(start.entry) >= ENTRIES);
}

/// Continues to report to excluded members, in the lines of the previous epoch, that it has taken
/// everything and refers to nothing.
fn tells_whoever_is_out(member: &mut SubgroupMember, when: FaultMoment, effects: &mut Effects) {
    let (FaultMoment::After, Some((id, lines)), Some(epoch)) =
        (when, member.part().lines.clone(), member.part().epoch)
    else {
        return;
    };
    let checker = member.checker.borrow();
    let Some(before) = member.part().before.map(|before| &checker.epochs[&(0, before)]) else {
        return;
    };
    // This epoch has the other set of lines.
    if before.number % 2 == epoch % 2 {
        return;
    }
    let plan = &checker.epochs[&(0, epoch)];
    for role in before.roles.iter().filter(|place| plan.role_of(place.node).is_none()) {
        let (Some(writer), Some(&peer)) = (role.writer, member.peers.get(&checker.ids[role.node]))
        else {
            continue;
        };
        let Some(replica) = member.replicas.get(&(role.node, checker.writers[writer].region))
        else {
            continue;
        };
        let Ok(Some(geometry)) = Geometry::read(replica) else { continue };
        let stamps = (0..geometry.entries()).map(|index| replica.load(geometry.entry_word(index)));
        let arrived = stamps.filter(|word| *word != 0).map(|word| (word >> 32 & STAMP) + 1).max();
        let first = (before.number % 2) as usize * BANK + role.slot * LINE_WORDS;
        let name = lines.word(first + ACK_RECEIVED).peek() >> 40 << 40;
        let taken = lines.word(first + ACK_TAKEN).peek() & 0xff_ffff;
        let Some(arrived) = arrived.filter(|&arrived| name != 0 && arrived > taken) else {
            continue;
        };
        lines.word(first + ACK_HELD).publish(name | arrived << 16);
        lines.word(first + ACK_TAKEN).publish(name | arrived);
        let target = Target { peer, sharing: Sharing::Copied };
        effects.write(target, id, WordRange::new(first, ACK_HELD + 1));
    }
}

/// Reports in the first line of an epoch that it refers to nothing.
fn forgets_what_it_holds(member: &mut SubgroupMember, when: FaultMoment, effects: &mut Effects) {
    let (FaultMoment::After, Some((id, lines))) = (when, member.part().lines.clone()) else {
        return;
    };
    for (target, kind) in take_posts(effects) {
        if let PostKind::Write(region, range) = kind
            && region == RegionId(id.0)
            && range.count > ACK_HELD
            && member.part().epoch.is_some_and(|epoch| epoch > 0)
        {
            let word = lines.word(range.first + ACK_HELD);
            word.publish(word.peek() & !0xffff);
        }
        post(target, kind, effects);
    }
}

/// Reports to the remaining members, once it has left, that it refers to nothing.
fn forgets_what_it_holds_when_it_leaves(
    member: &mut SubgroupMember,
    when: FaultMoment,
    _: &mut Effects,
) {
    let part = member.part();
    let (FaultMoment::After, None, Some((_, lines))) = (when, part.id, &part.lines) else {
        return;
    };
    for line in 0..2 * LINE_SLOTS {
        for word in ACK_HELD..LINE_WORDS {
            let word = lines.word(line * LINE_WORDS + word);
            word.publish(word.peek() & !0xffff);
        }
    }
}

/// Returns the violations of a run with a planted fault.
fn trouble(
    seed: u64,
    kind: (DeliveryGuarantee, bool),
    membership_fault: Option<MembershipFault>,
    planted: Option<PlantedFault>,
) -> Vec<Rule> {
    trouble_with_leavers(seed, kind, membership_fault, planted, false)
}

/// As [`trouble`], with members that read to the end of the epoch by which they leave, or not.
fn trouble_with_leavers(
    seed: u64,
    (level, shared): (DeliveryGuarantee, bool),
    membership_fault: Option<MembershipFault>,
    planted: Option<PlantedFault>,
    late_leavers: bool,
) -> Vec<Rule> {
    let mut scenario = Scenario { late_leavers, ..Scenario::decided(seed, level, shared) };
    scenario.geometry = Geometry::fitting(1024, 16, LONGEST as usize).unwrap();
    let mut world = World::decided(seed, scenario);
    world.setting.oracle.planted = membership_fault;
    for node in 0..world.nodes() {
        world.member_mut(node).planted = planted;
    }
    world.run_changes().into_iter().map(|(checker, _)| checker).collect()
}

#[test]
fn checkers_accept_epochs_without_a_planted_fault() {
    for seed in 0..RANGES * SEEDS {
        for kind in [COPIED, SHARED, UNORDERED] {
            assert_eq!(trouble(seed, kind, None, None), [], "seed {seed}, {kind:?}");
            let late = trouble_with_leavers(seed, kind, None, None, true);
            assert_eq!(late, [], "seed {seed}, {kind:?}, late leavers");
        }
    }
}

/// Checks that the named checker finds the fault first at least once in each range of seeds.
fn caught(
    name: &str,
    kind: (DeliveryGuarantee, bool),
    membership_fault: Option<MembershipFault>,
    planted: Option<PlantedFault>,
    by: Rule,
) {
    let run = |seed| trouble(seed, kind, membership_fault, planted);
    planted::caught(name, by, (RANGES, SEEDS), run);
}

#[test]
fn a_trim_that_is_one_too_far_is_caught() {
    let membership_fault = Some(MembershipFault::TrimTooFar);
    caught("a trim that is one too far", COPIED, membership_fault, None, Rule::Order);
}

#[test]
fn trim_that_not_all_members_have_received_is_caught() {
    let membership_fault = Some(MembershipFault::TrimOfTheFastest);
    caught("a trim that not all have received", COPIED, membership_fault, None, Rule::Refusal);
}

#[test]
fn a_start_that_is_one_too_early_is_caught() {
    let membership_fault = Some(MembershipFault::StartTooEarly);
    caught("a start that is one too early", SHARED, membership_fault, None, Rule::Order);
}

#[test]
fn counting_of_an_excluded_member_is_caught() {
    let membership_fault = Some(MembershipFault::CountsWhoIsOut);
    caught("an excluded member that is counted", COPIED, membership_fault, None, Rule::Liveness);
}

#[test]
fn a_cut_that_is_ignored_is_caught() {
    caught("a cut that is ignored", COPIED, None, Some(ignores_ends), Rule::Liveness);
}

#[test]
fn single_set_of_lines_for_all_epochs_is_caught() {
    caught("one set of lines for all epochs", COPIED, None, Some(has_its_lines_once), Rule::Blame);
}

#[test]
fn entry_posted_twice_is_caught() {
    let planted = Some(forgets_what_it_has_posted as PlantedFault);
    caught("an entry that is posted twice", COPIED, None, planted, Rule::Once);
}

/// As [`trouble`], with a member that is excluded and continues.
fn trouble_with_one_excluded(seed: u64, shared: bool, planted: Option<PlantedFault>) -> Vec<Rule> {
    let mut scenario = Scenario::decided(seed, DeliveryGuarantee::Atomic, shared);
    scenario.geometry = Geometry::fitting(1024, 16, LONGEST as usize).unwrap();
    scenario.nodes = 3;
    let mut world = World::decided(seed, scenario);
    (0..3).for_each(|node| world.member_mut(node).planted = planted);
    world.run_with_one_put_out().into_iter().map(|(checker, _)| checker).collect()
}

/// An excluded member that does not know of its exclusion reuses its memory as far as the others
/// have taken it.
#[test]
fn acknowledgement_to_an_excluded_member_is_caught() {
    for seed in 0..RANGES * SEEDS {
        for shared in [false, true] {
            assert_eq!(trouble_with_one_excluded(seed, shared, None), [], "seed {seed}");
        }
    }
    let run = |seed| trouble_with_one_excluded(seed, false, Some(tells_whoever_is_out));
    planted::caught("reports to excluded members", Rule::Content, (1, RANGES * SEEDS), run);
}

#[test]
fn held_bits_not_carried_over_to_the_next_epoch_are_caught() {
    let planted = Some(forgets_what_it_holds as PlantedFault);
    caught("held records that are not carried over", COPIED, None, planted, Rule::Content);
}

/// Records that a leaver refers to are kept only because it reports them (I-260).
#[test]
fn records_held_but_not_reported_by_a_leaver_are_caught() {
    let planted = Some(forgets_what_it_holds_when_it_leaves as PlantedFault);
    let run = |seed| trouble_with_leavers(seed, SHARED, None, planted, true);
    planted::caught("records held by a leaver", Rule::Content, (RANGES, SEEDS), run);
}
