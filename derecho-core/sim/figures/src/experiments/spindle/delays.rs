//! Senders that lag behind, and nulls: figures 10 and 11.

use super::{Bench, ENOUGH, Optimisations, Senders, gigabytes, mean_ratio};
use crate::multicast_test_bed::{Delay, MulticastOutcome};
use crate::{Figure, FigureError, Options};

/// A sender's delays after each message.
const DELAYS: [(&str, Option<u64>); 3] =
    [("1 µs", Some(1_000)), ("100 µs", Some(100_000)), ("lengthy", None)];

/// Figure 10: one or half of the senders are delayed.
pub(crate) fn figure_10(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Delayed senders, with batching and nulls";
    let mut figure = Figure::new("spindle-10", title, "members", "bandwidth, GB/s");
    let mut lines: Vec<(String, Senders, Option<Option<u64>>)> =
        vec![("no delayed sender".into(), Senders::One, None)];
    for who in [Senders::One, Senders::Half] {
        for (name, nanos) in DELAYS {
            let delayed = if who == Senders::One { "one sender" } else { "half senders" };
            lines.push((format!("{delayed} delayed, {name}"), who, Some(nanos)));
        }
    }
    let indices: Vec<usize> = (0..lines.len()).collect();
    let found = bench.sweep(&indices, |line, n| {
        let (_, who, delay) = &lines[line];
        let mut setup = bench.setup(n, n, Optimisations::Nulls);
        setup.delay = delay.map(|nanos| Delay { senders: who.of(n), nanos });
        setup
    })?;
    let none = &found[0];
    for ((name, ..), outcomes) in lines.iter().zip(&found) {
        figure.series.push(bench.line(name.clone(), outcomes, gigabytes));
    }
    for ((name, who, delay), outcomes) in lines.iter().zip(&found).skip(1) {
        let ratio = mean_ratio(outcomes, none, gigabytes);
        let exempt = *who == Senders::Half && *delay == Some(None);
        let paper = if exempt { "below 1" } else { "above 1" };
        let met = if exempt { ratio < 1.0 } else { ratio > 1.0 };
        figure.claim(&format!("{name} / no delay, mean over the sizes"), paper, ratio, met);
    }
    let peak = found.iter().flatten().map(gigabytes).fold(0.0, f64::max);
    figure.claim("peak, GB/s", 10.0, peak, peak >= 10.0 * ENOUGH);
    // Loss of the undelayed senders due to the others, if any.
    let members = bench.most() as f64;
    let active = |outcome: &MulticastOutcome, delayed: f64| outcome.gigabytes / (members - delayed);
    let (Some(even), Some(one)) = (none.last(), found[3].last()) else {
        return Err(FigureError::Stuck("a line has no points".into()));
    };
    let share = active(one, 1.0) / active(even, 0.0);
    let claim = "one silent sender: what each of the others sends / without it";
    figure.claim(claim, "full speed", share, share > 0.95);
    figure.note(
        "The paper's undelayed senders had bandwidth to spare, so larger batches made up for the \
         delayed ones and more. Here no delayed sender leaves none: each sender's messages go to \
         all others through its own port, which is full, and one that sends less leaves its port \
         empty. That cannot be made up for, and what is asked of nulls is that the others go on at \
         full speed, which the last claim says.",
    );
    figure.note(
        "A lengthy delay is a sender that never sends in the time that is measured. It is not known \
         to be one, so all its slots are null runs, which it sends because of the others' messages.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Figure 11: nulls where all senders send all the time.
pub(crate) fn figure_11(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Nulls without delayed senders";
    let mut figure = Figure::new("spindle-11", title, "members", "bandwidth, GB/s");
    let lines: Vec<(Senders, Optimisations)> = Senders::EACH
        .into_iter()
        .flat_map(|senders| [(senders, Optimisations::Nulls), (senders, Optimisations::Batching)])
        .collect();
    let found = bench.sweep(&lines, |(senders, stage), n| bench.setup(n, senders.of(n), stage))?;
    for (&(senders, stage), outcomes) in lines.iter().zip(&found) {
        let name = format!("{}, {}", stage.name(), senders.name());
        figure.series.push(bench.line(name, outcomes, gigabytes));
    }
    let ratio =
        |with: &MulticastOutcome, without: &MulticastOutcome| with.gigabytes / without.gigabytes;
    for (pair, senders) in found.chunks(2).zip(Senders::EACH) {
        let ratios = pair[0].iter().zip(&pair[1]).map(|(with, without)| ratio(with, without));
        let worst = ratios.fold(f64::MAX, f64::min);
        let (paper, least) = match senders {
            Senders::All => ("at least 0.75", 0.75),
            Senders::Half => ("almost 1", 0.95),
            Senders::One => ("1", 0.999),
        };
        let claim = format!("{}: with nulls / without, at worst", senders.name());
        figure.claim(&claim, paper, worst, worst >= least);
    }
    if let (Some(with), Some(without)) = (found[0].last(), found[1].last()) {
        let gain = ratio(with, without);
        figure.claim("16 senders: with nulls / without", "above 1", gain, gain > 1.0);
        figure.claim(
            "16 senders: null places for each message",
            "few",
            with.nulls,
            with.nulls < 0.1,
        );
    }
    let one = found[4].iter().map(|outcome| outcome.nulls.abs()).fold(0.0, f64::max);
    figure.claim("one sender: null places for each message", 0.0, one, one < 0.01);
    figure.note(
        "Without nulls the paper's large groups wait for whoever lags a little; here senders do not \
         lag, for they have nothing to do but send, so there is nothing to gain. What is lost is the \
         evaluation of one predicate more in each turn, which is priced as any other (2.3 µs in \
         paper.toml; the paper's null logic is a part of its receive predicate): at ours.toml it is \
         nothing. Null places are counted between two moments, with messages on their way at both, so \
         less than a hundredth is none.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}
