//! Several subgroups: figures 8, 9 and 13.

use super::{Bench, ENOUGH, Optimisations, gigabytes, near, span};
use crate::multicast_test_bed::{MulticastOutcome, MulticastTestSetup, mean};
use crate::{Figure, FigureError, Options};

/// Numbers of subgroups in the paper.
const COUNTS: [usize; 6] = [1, 2, 5, 10, 20, 50];

fn name(count: usize) -> String {
    if count == 1 { "1 subgroup".into() } else { format!("{count} subgroups") }
}

/// Creates the setup of `all` subgroups over the same members, all of which send in the first
/// `active` ones.
fn setup_of(
    bench: &Bench<'_>,
    members: usize,
    stage: Optimisations,
    all: usize,
    active: usize,
) -> MulticastTestSetup {
    let mut setup = bench.setup(members, members, stage);
    setup.parameters.subgroups = all;
    setup.parameters.active = active;
    if all > 5 && active == 1 {
        // Turns are long: a part of a window shows the rate.
        (setup.warm_windows, setup.least_windows) = (0.2, 0.2);
    }
    setup
}

fn counts(options: &Options) -> &'static [usize] {
    if options.quick { &[1, 2, 50] } else { &COUNTS }
}

/// Returns the mean, over the sizes, of the rate with more subgroups as a share of the rate
/// with one.
fn left(many: &[MulticastOutcome], one: &[MulticastOutcome]) -> f64 {
    super::mean_ratio(many, one, gigabytes)
}

/// Figure 8: the baseline, with idle subgroups.
pub(crate) fn figure_8(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "The baseline with one active subgroup";
    let mut figure = Figure::new("spindle-8", title, "members", "bandwidth, GB/s");
    let counts = counts(options);
    let found =
        bench.sweep(counts, |all, n| setup_of(&bench, n, Optimisations::Baseline, all, 1))?;
    for (&count, outcomes) in counts.iter().zip(&found) {
        figure.series.push(bench.line(name(count), outcomes, gigabytes));
    }
    let one_more = 100.0 - left(&found[1], &found[0]) * 100.0;
    let claim = "one inactive subgroup costs, mean over the sizes, %";
    figure.claim(claim, 18.0, one_more, near(one_more, 18.0));
    let fifty = found.last().map_or(f64::NAN, |fifty| 100.0 - left(fifty, &found[0]) * 100.0);
    figure.claim("50 subgroups cost, mean over the sizes, %", 90.0, fifty, near(fifty, 90.0));
    let falls = found.windows(2).all(|pair| left(&pair[1], &pair[0]) < 1.0);
    let text = if falls { "yes" } else { "no" };
    figure.claim("more subgroups are slower throughout", "yes", text, falls);
    figure.note(
        "The baseline evaluates every predicate of every subgroup in each turn. What that costs is \
         the price of a predicate, which in paper.toml includes its body, for the paper does not tell \
         one from the other: an idle subgroup is too dear there. This product's idle predicates take \
         some nanoseconds (ours.toml), so the same baseline loses next to nothing.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Figure 9: batching, with idle subgroups.
pub(crate) fn figure_9(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Batching with one active subgroup";
    let mut figure = Figure::new("spindle-9", title, "members", "bandwidth, GB/s");
    let counts = counts(options);
    let found =
        bench.sweep(counts, |all, n| setup_of(&bench, n, Optimisations::Batching, all, 1))?;
    for (&count, outcomes) in counts.iter().zip(&found) {
        figure.series.push(bench.line(format!("batching, {}", name(count)), outcomes, gigabytes));
    }
    let ends = [1, 50];
    let full = bench.sweep(&ends, |all, n| setup_of(&bench, n, Optimisations::Full, all, 1))?;
    let base = bench.sweep(&ends, |all, n| setup_of(&bench, n, Optimisations::Baseline, all, 1))?;
    for ((count, full), base) in ends.iter().zip(&full).zip(&base) {
        figure.series.push(bench.line(format!("everything, {}", name(*count)), full, gigabytes));
        figure.series.push(bench.line(format!("baseline, {}", name(*count)), base, gigabytes));
    }
    let fifty = found.last().map_or(f64::NAN, |fifty| left(fifty, &found[0]) * 100.0);
    let baseline = left(&base[1], &base[0]) * 100.0;
    figure.claim(
        "50 subgroups leave more with batching than of the baseline, %",
        "more (9.9 of the baseline)",
        format!("{fifty:.1} and {baseline:.1}"),
        fifty > baseline,
    );
    let two = left(&found[1], &found[0]);
    figure.claim("2 subgroups / 1", "about 1, at times above", two, two > ENOUGH);
    batches(&mut figure, &bench, counts, &found);
    figure.note(
        "A turn of many idle subgroups takes longer, so more has become ready by the next one: \
         batches grow, and with slices a batch of sends is 7 messages at most. With everything on \
         the idle subgroups are not looked at as soon as the core tracks which have changed; until \
         then \"everything\" evaluates them, too.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Adds the mean batches in the greatest group.
fn batches(
    figure: &mut Figure,
    bench: &Bench<'_>,
    counts: &[usize],
    found: &[Vec<MulticastOutcome>],
) {
    let paper =
        [(1, "1.7, 22, 35"), (2, "6.2, 49, 128"), (10, "22, 79, 334"), (50, "50, 207, 639")];
    let mut sizes = Vec::new();
    for (count, outcomes) in counts.iter().zip(found) {
        let Some(outcome) = outcomes.last() else { continue };
        let size = mean(&outcome.receives) + mean(&outcome.deliveries);
        if let Some((_, paper)) = paper.iter().find(|(own, _)| own == count) {
            sizes.push(size);
            let text = format!(
                "{:.1}, {:.0}, {:.0}",
                mean(&outcome.sends),
                mean(&outcome.receives),
                mean(&outcome.deliveries)
            );
            let met = sizes.windows(2).all(|pair| pair[1] > pair[0]);
            let members = bench.most();
            figure.claim(
                &format!("{members} members: sent, received, delivered at once, {}", name(*count)),
                *paper,
                text,
                met,
            );
        }
    }
}

/// Whether the memory of the simulated members suffices: each active subgroup takes the square of
/// the number of members times a window.
fn fits(members: usize, subgroups: usize) -> bool {
    members * members * subgroups <= 800
}

/// Figure 13: several subgroups in which all members send.
pub(crate) fn figure_13(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Several active subgroups, all senders";
    let mut figure = Figure::new("spindle-13", title, "members", "bandwidth, GB/s");
    let counts: &[usize] = if options.quick { &[1, 10] } else { &COUNTS };
    let mut full = Vec::new();
    for stage in [Optimisations::Full, Optimisations::Baseline] {
        for &count in counts {
            let fitting: Vec<usize> =
                bench.sizes().iter().copied().filter(|&n| fits(n, count)).collect();
            let found = bench.sweep_over(&fitting, &[count], |count, n| {
                let mut setup = setup_of(&bench, n, stage, count, count);
                // Many windows have many messages: a part of them shows the rate.
                setup.least_windows /= count as f64;
                setup.warm_windows = setup.warm_windows.min(0.15 + 0.5 / count as f64);
                setup
            })?;
            let title = format!("{}, {}", stage.name(), name(count));
            figure.series.push(bench.line(title, &found[0], gigabytes));
            if stage == Optimisations::Full {
                full.push(found.into_iter().flatten().collect::<Vec<MulticastOutcome>>());
            }
        }
    }
    for (&count, outcomes) in counts.iter().zip(&full).skip(1) {
        let share = left(outcomes, &full[0]);
        let claim = format!("everything: {} / 1 subgroup, mean over the sizes", name(count));
        figure.claim(&claim, "excellent scaling", share, share > ENOUGH);
        // Half of the deliveries of two members are their own.
        if let Some(rest) = outcomes.get(1..).filter(|rest| rest.len() > 1) {
            let (low, high) = span(rest, gigabytes);
            let which = name(count);
            let claim = format!("everything, {which}: least / greatest over more than 2 members");
            figure.claim(&claim, "relatively stable", low / high, low / high > 0.7);
        }
    }
    figure.note(
        "Each active subgroup has a window of its own in every member's memory and a copy of it at \
         every other member: groups for which the simulated cluster would need more than some \
         gigabytes are left out (5 subgroups beyond 12 members, 10 beyond 8, 20 and 50 beyond 4).",
    );
    bench.sign(&mut figure);
    Ok(figure)
}
