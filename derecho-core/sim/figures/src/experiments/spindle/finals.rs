//! Posting at the end, copies, and everything together: figures 12, 15, 16 and 17, and Derecho's
//! figure 2.

use super::{
    BYTES, Bench, ENOUGH, Optimisations, PORT, Senders, gigabytes, mean_ratio, span, utilisation,
};
use crate::multicast_test_bed::{Delay, MulticastOutcome, run};
use crate::{Figure, FigureError, Network, Options};
use derecho_core::multicast::subgroup::DeliveryGuarantee;

/// Figure 12: posting at the end, on top of batching and nulls.
pub(crate) fn figure_12(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "One optimisation after the other, all senders";
    let mut figure = Figure::new("spindle-12", title, "members", "bandwidth, GB/s");
    let stages = [
        Optimisations::Full,
        Optimisations::Nulls,
        Optimisations::Batching,
        Optimisations::Baseline,
    ];
    let found = bench.sweep(&stages, |stage, n| bench.setup(n, n, stage))?;
    for (stage, outcomes) in stages.iter().zip(&found) {
        figure.series.push(bench.line(stage.name().into(), outcomes, gigabytes));
    }
    let gain = mean_ratio(&found[0], &found[1], gigabytes);
    figure.claim("posting at the end: mean gain", 1.4, gain, gain >= 1.4 * ENOUGH);
    full_speed(&mut figure, &bench, &found[0]);
    figure.note(
        "Posting at the end gained the paper most by releasing a lock before the posts. There is \
         no such lock here, in either case; what is left is one post of acknowledgements instead of \
         two in a turn, and where ports are full, posts are not what is missing.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Compares the share of its port that a member fills with everything on.
fn full_speed(figure: &mut Figure, bench: &Bench<'_>, full: &[MulticastOutcome]) {
    let used = |outcome: &MulticastOutcome, n: usize| utilisation(outcome, n) * 100.0;
    for (&n, outcome) in bench.sizes().iter().zip(full) {
        if n == 4 {
            let delivered = outcome.gigabytes / PORT * 100.0;
            let claim = "4 members: delivered, % of 12.5 GB/s";
            figure.claim(claim, 77.6, delivered, delivered >= 77.6 * ENOUGH);
        }
        if n == bench.most() {
            let claim = format!("{n} members: share of the port in use, % (asked: 80)");
            figure.claim(&claim, 77.6, used(outcome, n), used(outcome, n) >= 80.0);
        }
    }
    let (low, high) = span(full.get(1..).unwrap_or(full), gigabytes);
    let claim = "4 members to the most: least / greatest delivery";
    figure.claim(claim, "very stable", low / high, low / high >= ENOUGH);
}

/// Figure 15: messages copied in and out.
pub(crate) fn figure_15(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Messages copied at the send and at the delivery";
    let mut figure = Figure::new("spindle-15", title, "members", "bandwidth, GB/s");
    let lines: Vec<(Senders, Optimisations)> = Senders::EACH
        .into_iter()
        .flat_map(|senders| [(senders, Optimisations::Copying), (senders, Optimisations::Full)])
        .collect();
    let found = bench.sweep(&lines, |(senders, stage), n| bench.setup(n, senders.of(n), stage))?;
    for (&(senders, stage), outcomes) in lines.iter().zip(&found) {
        let name = format!("{}, {}", stage.name(), senders.name());
        figure.series.push(bench.line(name, outcomes, gigabytes));
    }
    let (low, _) = span(&found[0], gigabytes);
    figure.claim("all senders, copied: GB/s at worst", 7.5, low, low >= 7.5 * ENOUGH);
    for (pair, senders) in found.chunks(2).zip(Senders::EACH).skip(1) {
        let left = mean_ratio(&pair[0], &pair[1], gigabytes);
        let (paper, least) = match senders {
            Senders::One => ("almost no decline", 0.95),
            _ => ("slight decline", 0.8),
        };
        let claim = format!("{}: copied / in place, mean over the sizes", senders.name());
        figure.claim(&claim, paper, left, left >= least);
    }
    let small = bench.sweep(&[Optimisations::Copying, Optimisations::Full], |stage, n| {
        let mut setup = bench.setup(n, n, stage);
        setup.parameters.bytes = 1;
        setup
    })?;
    let left = mean_ratio(&small[0], &small[1], gigabytes);
    figure.claim("1 B, all senders: copied / in place", "no loss", left, left > 0.98);
    let copies = 1.0 / bench.costs.copy_ns_per_byte;
    figure.note(format!(
        "A copy runs at {copies:.2} GB/s at these prices, on the polling thread at the delivery: a \
         member that copies all that it delivers does not deliver faster than that. The paper's \
         7.5 GB/s needs copies of at least 7.5 GB/s; its figure 14, which said how fast they are, is \
         lost, and the 30 Gb/s of the RDMC paper are of objects beyond the caches.",
    ));
    bench.sign(&mut figure);
    Ok(figure)
}

const FINAL: [(Optimisations, Senders); 6] = [
    (Optimisations::Full, Senders::All),
    (Optimisations::Baseline, Senders::All),
    (Optimisations::Full, Senders::Half),
    (Optimisations::Baseline, Senders::Half),
    (Optimisations::Full, Senders::One),
    (Optimisations::Baseline, Senders::One),
];

fn last_runs(
    bench: &Bench<'_>,
    figure: &mut Figure,
    what: fn(&MulticastOutcome) -> f64,
) -> Result<Vec<Vec<MulticastOutcome>>, FigureError> {
    let found = bench.sweep(&FINAL, |(stage, who), n| bench.setup(n, who.of(n), stage))?;
    for ((stage, senders), outcomes) in FINAL.iter().zip(&found) {
        let name = format!("{}, {}", stage.name(), senders.name());
        figure.series.push(bench.line(name, outcomes, what));
    }
    Ok(found)
}

/// Figure 16: throughput with everything on.
pub(crate) fn figure_16(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Final throughput, one subgroup, 10 KB";
    let mut figure = Figure::new("spindle-16", title, "members", "bandwidth, GB/s");
    let found = last_runs(&bench, &mut figure, gigabytes)?;
    full_speed(&mut figure, &bench, &found[0]);
    let ratios = found[0].iter().zip(&found[1]).map(|(full, base)| full.gigabytes / base.gigabytes);
    let most = ratios.fold(0.0, f64::max);
    figure.claim("all senders: everything / baseline, at most", 20.0, most, most >= 20.0 * ENOUGH);
    if let Some(outcome) = found[4].last() {
        let share = outcome.gigabytes * (bench.most() as f64 - 1.0) / PORT * 100.0;
        figure.note(format!(
            "One sender of {} members fills {share:.1} % of its port.",
            bench.most()
        ));
    }
    figure.note(
        "Members deliver their own messages, too, which no port sees: two members deliver up to \
         25 GB/s through ports of 12.5, in this model. The paper's NICs did not move 12.5 GB/s both \
         ways at a time (Derecho, section 4).",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Figure 17: latency with everything on.
pub(crate) fn figure_17(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Final latency, one subgroup, 10 KB";
    let mut figure = Figure::new("spindle-17", title, "members", "latency, ms");
    figure.log_y = true;
    let found = last_runs(&bench, &mut figure, |outcome| outcome.latency / 1000.0)?;
    for (pair, senders) in found.chunks(2).zip(Senders::EACH) {
        let less = mean_ratio(&pair[1], &pair[0], |outcome| outcome.latency);
        let claim = format!("{}: latency, baseline / everything, mean", senders.name());
        figure.claim(&claim, "above 1", less, less > 1.0);
        if senders == Senders::All {
            let claim = "all senders: latency, baseline / everything (nearly two orders)";
            figure.claim(claim, 100.0, less, less >= 100.0 * ENOUGH);
        }
    }
    same_load(&bench, &mut figure)?;
    figure.note(
        "Senders that send as fast as they can keep their windows full, so a message's latency is \
         the messages in flight over the rate at which they are delivered: it falls by as much as \
         the rate rises (figure 16), with the same window. Two orders of magnitude would need two \
         orders of throughput, or a smaller window.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Delivery rate of the paper's members with everything on, in GB/s.
const LOAD: f64 = 9.7;

/// Measures the latency at the paper's load: its members had at least that share of their windows
/// in flight for which their senders waited for room.
fn same_load(bench: &Bench<'_>, figure: &mut Figure) -> Result<(), FigureError> {
    let members = bench.most();
    let mut setup = bench.setup(members, members, Optimisations::Full);
    // Share of the load of each sender, as the time from one of its messages to the next.
    let nanos = BYTES as f64 * members as f64 / LOAD;
    setup.delay = Some(Delay { senders: members, nanos: Some(nanos as u64) });
    setup.least_windows = 0.5;
    let outcome = run(&setup)?;
    let paper = 0.527 * (super::WINDOW * members * BYTES) as f64 / LOAD / 1e6;
    let claim = format!("{members} members at the paper's load of {LOAD} GB/s: latency, ms");
    let text = format!("{paper:.2} at least");
    let latency = outcome.latency / 1000.0;
    figure.claim(&claim, text, latency, latency < paper);
    figure.note(format!(
        "Paced to the paper's load, {:.1} GB/s are delivered. The paper's latency there was in \
         figure 17, which is lost; its senders waited for room 52.7 % of the time (IV-A), that is \
         with whole windows in flight, and messages in flight over throughput bounds it from below.",
        outcome.gigabytes
    ));
    Ok(())
}

/// Derecho's figure 2: small messages, raw.
pub(crate) fn small_messages(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::on(options, Network::Derecho)?;
    let bytes = 16;
    let title = format!("Small messages, raw (unordered), {bytes} bytes");
    let y = "messages delivered by a member per second, millions";
    let mut figure = Figure::new("derecho-2", title, "members", y);
    let raw = |members: usize, senders: usize| {
        let mut setup = bench.setup(members, senders, Optimisations::Full);
        setup.parameters.bytes = bytes;
        setup.parameters.window = 1000;
        setup.parameters.terms.level = DeliveryGuarantee::Unordered;
        setup
    };
    let found = bench.sweep(&Senders::EACH, |who, n| raw(n, who.of(n)))?;
    let rate = |outcome: &MulticastOutcome| outcome.messages / 1e6;
    for (senders, outcomes) in Senders::EACH.iter().zip(&found) {
        figure.series.push(bench.line(senders.name().into(), outcomes, rate));
    }
    let peak = found[0].last().map_or(f64::NAN, rate);
    let claim = format!("{} members, all send: millions a second each", bench.most());
    figure.claim(&claim, 2.0, peak, peak >= 2.0 * ENOUGH);
    let best = found.iter().flatten().map(rate).fold(0.0, f64::max);
    let text = if best <= peak { "yes" } else { "no" };
    figure.claim("the peak is where all of the most members send", "yes", text, best <= peak);
    for (members, paper) in [(4, 2.0), (bench.most(), 6.0)] {
        let mut setup = raw(members, members);
        setup.delay = Some(Delay { senders: members, nanos: Some(50_000 * members as u64) });
        (setup.least_windows, setup.warm_windows) = (0.1, 0.01);
        let latency = run(&setup)?.latency;
        let claim = format!("{members} members: latency from send to delivery, µs");
        figure.claim(&claim, paper, latency, latency <= paper / ENOUGH);
    }
    figure.note(
        "The paper's slots hold one message each, which its sender posts one by one; here a turn \
         sends all that is ready, so the rate is what the posts of a batch and the memory's places \
         allow, and falls a little with the members that are posted to. The size of the paper's messages was in the figure, which is lost.",
    );
    figure.note(
        "Latency is measured with a message of somebody every 50 µs, at all members, the sender \
         itself included. A message is two posts here, of its bytes and its entry, at 1 µs each and \
         one member after the other: with 16 members the last one's posts begin after 28 µs. The \
         paper's 6 µs allow 0.2 µs for a post, as its own count of posts does (paper.toml).",
    );
    bench.sign(&mut figure);
    Ok(figure)
}
