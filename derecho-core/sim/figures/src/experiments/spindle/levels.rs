//! A topic at each level of service: figure 18.

use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_core::storage::MOST_BEHIND;

use super::{BYTES, Bench, ENOUGH, Optimisations, WINDOW, mean_ratio, near, span};
use crate::keeping::StorageMode;
use crate::multicast_test_bed::MulticastOutcome;
use crate::{Figure, FigureError, Options, Series};

/// The paper's four levels: agreement, storage, and name.
const LEVELS: [(DeliveryGuarantee, StorageMode, &str); 4] = [
    (DeliveryGuarantee::Unordered, StorageMode::Nothing, "unordered"),
    (DeliveryGuarantee::Atomic, StorageMode::Nothing, "atomic"),
    (DeliveryGuarantee::Atomic, StorageMode::Memory, "volatile storage"),
    (DeliveryGuarantee::Atomic, StorageMode::Log, "logged storage"),
];
const STAGES: [Optimisations; 2] = [Optimisations::Full, Optimisations::Baseline];
/// Limits of the axis of the paper's figure, in MB/s: the only values that remain of it.
const AXIS: (f64, f64) = (100.0, 6000.0);

fn megabytes(outcome: &MulticastOutcome) -> f64 {
    outcome.gigabytes * 1000.0
}

/// Figure 18: one publisher, by the number of subscribers.
pub(crate) fn figure_18(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "A topic at each level of service, one publisher, 10 KB";
    let mut figure = Figure::new("spindle-18", title, "subscribers", "bandwidth, MB/s");
    figure.log_y = true;
    let subscribers: &[usize] = if options.quick { &[1, 3] } else { &[1, 2, 3, 4, 5, 15] };
    let lines: Vec<_> =
        LEVELS.into_iter().flat_map(|level| STAGES.map(|stage| (level, stage))).collect();
    let found = bench.sweep_over(subscribers, &lines, |((level, keeping, _), stage), count| {
        let mut setup = bench.setup(count + 1, 1, stage);
        setup.parameters.terms.level = level;
        setup.parameters.keeping = keeping;
        if keeping == StorageMode::Log {
            // A log that blocks the stream releases it in whole batches: from one such time to the
            // next, as many bytes are taken as the log may be behind.
            let tides = if options.quick { 1.0 } else { 3.0 };
            let tide = MOST_BEHIND as f64 / (BYTES * WINDOW) as f64;
            setup.warm_windows = 1.5 * tide;
            setup.least_windows = tides * tide;
        }
        setup
    })?;
    for (((.., name), stage), outcomes) in lines.iter().zip(&found) {
        let mut line = Series::new(format!("{}, {name}", stage.name()));
        for (&count, outcome) in subscribers.iter().zip(outcomes) {
            line.push(count as f64, megabytes(outcome));
        }
        figure.series.push(line);
    }
    claims(&mut figure, &found);
    let costs = &bench.costs;
    figure.note(format!(
        "Every member keeps, the publisher's too. A copy runs at {:.2} GB/s on the polling thread, at \
         the delivery. A log is written by a thread of its own at {:.0} MB/s; all that is ready is \
         one group, whose sync takes {:.0} µs more. Beyond {} MiB behind, its member takes nothing \
         more. What that thread itself costs, and a file system, is not in it.",
        1.0 / costs.copy_ns_per_byte,
        costs.disk.bytes_per_second / 1e6,
        costs.disk.sync_ns / 1000.0,
        MOST_BEHIND >> 20,
    ));
    figure.note(
        "The prices of the disk are assumed: the SSD is that of Derecho's table 1, and the paper does \
         not say what its samples hold, which decides about that SSD's speed (72 to 471 MB/s). The \
         points of the paper's figure are lost; left are its text and its axis.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Adds the paper's claims of this figure; `found` has the lines of each level in turn, with
/// everything and as the baseline.
fn claims(figure: &mut Figure, found: &[Vec<MulticastOutcome>]) {
    for (pair, (.., name)) in found.chunks(2).zip(LEVELS) {
        let ratios =
            pair[0].iter().zip(&pair[1]).map(|(full, base)| megabytes(full) / megabytes(base));
        let least = ratios.fold(f64::MAX, f64::min);
        let claim = format!("{name}: everything / baseline, at least");
        figure.claim(&claim, "above 1", least, least > 1.0);
    }
    let share = mean_ratio(&found[2], &found[0], megabytes);
    figure.claim(
        "everything: atomic / unordered, mean",
        "nearly the same",
        share,
        near(share, 1.0),
    );
    for (level, (.., name)) in LEVELS.into_iter().enumerate().skip(1) {
        let left = mean_ratio(&found[2 * level + 1], &found[2 * level - 1], megabytes);
        let claim = format!("baseline: {name} / the level before, mean");
        figure.claim(&claim, "decreases considerably", left, left <= ENOUGH);
    }
    for level in [2, 3] {
        let (full, name) = (&found[2 * level], LEVELS[level].2);
        let left = mean_ratio(full, &found[2], megabytes);
        let claim = format!("everything: {name} / atomic, mean");
        figure.claim(&claim, "limited by copies and the disk", left, left < 1.0);
    }
    let spans = found.iter().map(|outcomes| span(outcomes, megabytes));
    let (low, high) =
        spans.fold((f64::MAX, 0.0), |(low, high), one| (one.0.min(low), one.1.max(high)));
    figure.claim("the least, MB/s (where the axis begins)", AXIS.0, low, low >= AXIS.0);
    figure.claim("the most, MB/s (where the axis ends)", AXIS.1, high, high >= AXIS.1 * ENOUGH);
}
