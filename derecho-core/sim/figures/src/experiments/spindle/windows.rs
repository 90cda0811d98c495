//! Size of the window: figure 6.

use super::{BYTES, Bench, ENOUGH, Optimisations, WINDOW, gigabytes, mean_ratio};
use crate::multicast_test_bed::MulticastOutcome;
use crate::{Figure, FigureError, Options};

/// Number of members above which a group counts as large in the claim about large windows.
const LARGE_GROUP: usize = 8;

/// Figure 6: windows from 5 to 1000.
pub(crate) fn figure_6(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Window sizes, all senders, 10 KB, batching only";
    let mut figure = Figure::new("spindle-6", title, "members", "bandwidth, GB/s");
    let windows: &[usize] =
        if options.quick { &[5, 10, 50, 100] } else { &[5, 10, 50, 100, 500, 1000] };
    let baseline = bench.sweep(&[Optimisations::Baseline], |stage, n| bench.setup(n, n, stage))?;
    let found = bench.sweep(windows, |window, n| {
        let mut setup = bench.setup(n, n, Optimisations::Batching);
        setup.parameters.window = window;
        // A window of a thousand is used fewer times than one of five, but once before the
        // measurement: otherwise the start of a run would distort the result.
        setup.least_windows = (100.0 / window as f64).clamp(2.0, 5.0);
        setup.warm_windows = 1.0;
        setup
    })?;
    for (window, outcomes) in windows.iter().zip(&found) {
        figure.series.push(bench.line(format!("w = {window}"), outcomes, gigabytes));
    }
    figure.series.push(bench.line(format!("baseline, w = {WINDOW}"), &baseline[0], gigabytes));
    let five = mean_ratio(&found[0], &baseline[0], gigabytes);
    let claim = "window 5 / baseline with window 100, mean over the sizes";
    figure.claim(claim, 4.5, five, five >= 4.5 * ENOUGH);
    let of = |window: usize| windows.iter().position(|&own| own == window).map(|i| &found[i]);
    let sum = |outcomes: &Vec<MulticastOutcome>| outcomes.iter().map(gigabytes).sum::<f64>();
    if let Some(hundred) = of(100) {
        let best = found.iter().map(sum).fold(0.0, f64::max);
        let share = sum(hundred) / best;
        figure.claim("window 100 / the best window, over all sizes", 1.0, share, share > 0.95);
    }
    if let (Some(hundred), Some(thousand)) = (of(100), of(1000)) {
        let above = |outcomes: &[MulticastOutcome]| {
            let large = outcomes.iter().zip(bench.sizes()).filter(|(_, n)| **n > LARGE_GROUP);
            large.map(|(outcome, _)| outcome.gigabytes).sum::<f64>()
        };
        let share = above(thousand) / above(hundred);
        let claim = "beyond 10 members: window 1000 / window 100";
        figure.claim(claim, "below 1", share, share < 1.0);
    }
    figure.note(format!(
        "A window is what a sender's bytes have room for, {BYTES} bytes a message, in at most 16 \
         chunks that come back one by one: 48 messages of a window of 50, 96 of one of 100.",
    ));
    figure.note(
        "A window of 5 comes back after a handful of turns at several members: to be sent, received \
         by all, delivered, let go of and taken back. Each turn is at least four predicates, 9.3 µs in \
         paper.toml, whatever is in it, which is what limits here. At ours.toml posts do: with posts of 0.1 µs a \
         window of 5 delivers three times as much.",
    );
    figure.note(
        "The paper's large windows lose in large groups because a whole window leaves in one write to \
         each member after the other, and because more slots have to be polled. This product sends \
         slices of 64 KiB and looks only at the next entry of each sender, so a window that is larger \
         than needed costs memory and latency, and no throughput.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}
