//! Opportunistic batching: figures 3, 4, 5 and 7.

use super::{
    BYTES, Bench, ENOUGH, Optimisations, Senders, gigabytes, mean_ratio, near, utilisation,
};
use crate::member::Batches;
use crate::multicast_test_bed::{MulticastOutcome, MulticastTestSetup, mean};
use crate::{Figure, FigureError, Options, Series};

/// Figure 3: batching and the baseline.
pub(crate) fn figure_3(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "One subgroup with opportunistic batching, 10 KB";
    let mut figure = Figure::new("spindle-3", title, "members", "bandwidth, GB/s");
    let lines: Vec<(Optimisations, Senders)> = Senders::EACH
        .into_iter()
        .flat_map(|senders| {
            [(Optimisations::Batching, senders), (Optimisations::Baseline, senders)]
        })
        .collect();
    let found = bench.sweep(&lines, |(stage, who), n| bench.setup(n, who.of(n), stage))?;
    for (&(stage, senders), outcomes) in lines.iter().zip(&found) {
        let name = format!("{}, {}", stage.name(), senders.name());
        figure.series.push(bench.line(name, outcomes, gigabytes));
    }
    for (pair, (senders, paper)) in
        found.chunks(2).zip(Senders::EACH.into_iter().zip([9.0, 6.0, 3.0]))
    {
        let ratio = mean_ratio(&pair[0], &pair[1], gigabytes);
        let claim = format!("{}: batching / baseline, mean over the sizes", senders.name());
        figure.claim(&claim, paper, ratio, ratio >= paper * ENOUGH);
    }
    let most = bench.most();
    let last = |line: usize| found[line].last().map_or(f64::NAN, gigabytes);
    let ratio = last(0) / last(1);
    figure.claim(
        &format!("{most} senders: batching / baseline"),
        16.0,
        ratio,
        ratio >= 16.0 * ENOUGH,
    );
    let peak = found[0].iter().zip(bench.sizes()).map(|(o, &n)| utilisation(o, n));
    let peak = peak.fold(0.0, f64::max) * 100.0;
    figure.claim("utilisation of the port at best, %", 64.2, peak, peak >= 64.2 * ENOUGH);
    let one: Vec<f64> = found[4].iter().map(gigabytes).collect();
    let falls = one.windows(2).all(|pair| pair[1] < pair[0]);
    figure.claim(
        "one sender declines with the size",
        "yes",
        if falls { "yes" } else { "no" },
        falls,
    );
    figure.note(format!(
        "The paper's greatest group has 16 members, here it has {most}. The baseline takes one message in each \
         predicate, but this core acknowledges what it has received of all senders and what it has \
         delivered in one line for each member, where the paper's posts each by itself; so it posts \
         less, and a factor over it is smaller where posts are what the baseline's time goes into."
    ));
    figure.note(
        "One sender posts every message to each other member through one port, so it cannot \
         deliver more than the port's bandwidth over one less than the members: nothing is left \
         for a factor to grow with the group.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Figure 4: messages per second, by their size.
pub(crate) fn figure_4(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Rate of delivery in one subgroup with opportunistic batching";
    let mut figure = Figure::new("spindle-4", title, "members", "messages per second, millions");
    figure.log_y = true;
    let sizes = [("10 KB", BYTES), ("1 KB", 1024), ("128 B", 128), ("1 B", 1)];
    let lines: Vec<(Senders, &str, usize)> = Senders::EACH
        .into_iter()
        .flat_map(|senders| sizes.map(|(name, bytes)| (senders, name, bytes)))
        .collect();
    let found = bench.sweep(&lines, |(senders, _, bytes), n| {
        let mut setup = bench.setup(n, senders.of(n), Optimisations::Batching);
        setup.parameters.bytes = bytes;
        setup
    })?;
    let rate = |outcome: &MulticastOutcome| outcome.messages / 1e6;
    for (&(senders, name, _), outcomes) in lines.iter().zip(&found) {
        let name = format!("{name}, {}", senders.name());
        figure.series.push(bench.line(name, outcomes, rate));
    }
    for (of, senders) in found.chunks(sizes.len()).zip(Senders::EACH) {
        let small = mean_ratio(&of[3], &of[1], rate);
        let claim = format!("{}: rate of 1 B / rate of 1 KB", senders.name());
        figure.claim(&claim, "about 1", small, (0.5..=2.0).contains(&small));
        let large = mean_ratio(&of[3], &of[0], rate);
        let claim = format!("{}: rate of 1 B / rate of 10 KB", senders.name());
        figure.claim(&claim, "about 1", large, (0.5..=2.0).contains(&large));
    }
    figure.note(
        "The rate is the same for all sizes where each message costs the processor the same and \
         that is what limits it. Here 10 KB are limited by the port (figure 3), and smaller ones by \
         nothing of their size: a batch costs its posts, and as many more messages fit into it. So \
         the smaller the message, the more of them, until the window limits them.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Figure 5: batching in one stage after the other.
pub(crate) fn figure_5(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "Batching in successively more stages, all senders, 10 KB";
    let y = "bandwidth, GB/s; latency, ms";
    let mut figure = Figure::new("spindle-5", title, "members", y);
    figure.log_y = true;
    let stages = [
        Optimisations::Baseline,
        Optimisations::Delivery,
        Optimisations::Receive,
        Optimisations::Batching,
    ];
    let found = bench.sweep(&stages, |stage, n| bench.setup(n, n, stage))?;
    let latency = |outcome: &MulticastOutcome| outcome.latency / 1000.0;
    for (stage, outcomes) in stages.iter().zip(&found) {
        let name = if *stage == Optimisations::Batching {
            "delivery, receive, send"
        } else {
            stage.name()
        };
        figure.series.push(bench.line(format!("{name}: bandwidth"), outcomes, gigabytes));
        figure.series.push(bench.line(format!("{name}: latency"), outcomes, latency));
    }
    for (pair, stage) in found.windows(2).zip(&stages[1..]) {
        let name = if *stage == Optimisations::Batching { "send" } else { stage.name() };
        let more = mean_ratio(&pair[1], &pair[0], gigabytes);
        figure.claim(&format!("adding {name}: bandwidth"), "above 1", more, more > 1.0);
        let less = mean_ratio(&pair[1], &pair[0], latency);
        figure.claim(&format!("adding {name}: latency"), "below 1", less, less < 1.0);
    }
    counters(&bench, &mut figure, &found);
    figure.note(
        "Batching of receipts alone gains nothing: as long as a turn sends one message, there is one \
         entry of each sender to receive, and that is what this core takes without it. Deliveries \
         and sends are where its stages count.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Compares the paper's counters of the greatest group.
fn counters(bench: &Bench<'_>, figure: &mut Figure, found: &[Vec<MulticastOutcome>]) {
    let (Some(baseline), Some(batched)) = (found[0].last(), found[3].last()) else { return };
    let members = bench.most();
    let others = members as f64 - 1.0;
    // The paper's members deliver 16 million messages; each of their requests goes to all others.
    let requests = |outcome: &MulticastOutcome| outcome.writes / others * 16.0;
    let claim = format!("{members} senders, baseline: requests for 16 million messages, millions");
    figure.claim(&claim, 18.2, requests(baseline), near(requests(baseline), 18.2));
    let claim = format!("{members} senders, batching: requests for 16 million messages, millions");
    figure.claim(&claim, 1.1, requests(batched), requests(batched) <= 1.1 / ENOUGH);
    let posting = |outcome: &MulticastOutcome| outcome.posting / outcome.messages * 16e6;
    let less = posting(baseline) / posting(batched);
    let claim = format!("{members} senders: time spent in posts, baseline / batching");
    figure.claim(&claim, 64.84 / 4.29, less, less >= 64.84 / 4.29 * ENOUGH);
    let waiting = |outcome: &MulticastOutcome| outcome.waiting * 100.0;
    let claim =
        format!("{members} senders, baseline: sending thread waits for room, % of the time");
    figure.claim(&claim, 97.6, waiting(baseline), waiting(baseline) >= 97.6 * ENOUGH);
    let claim =
        format!("{members} senders, batching: sending thread waits for room, % of the time");
    figure.claim(&claim, 52.7, waiting(batched), waiting(batched) <= 52.7 / ENOUGH);
    figure.note(format!(
        "The counters are those of 16 senders in the paper, of {members} here. A request is the \
         writes to all other members, as the links count them. This core's baseline has fewer of \
         them: it takes one entry of each sender in a turn and acknowledges all of them in one line. \
         So less is left for batching to save, in requests and in the time of their posts.",
    ));
    figure.note(
        "A sending thread here claims and commits in some nanoseconds and has nothing else to do, so \
         it waits for room whenever the port is what limits; the paper's took half of the time for \
         itself.",
    );
}

/// Figure 7: sizes of batches.
pub(crate) fn figure_7(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let members = bench.most();
    let title = format!("Sizes of batches, {members} senders, window 100, batching only");
    let mut figure = Figure::new("spindle-7", title, "messages in a batch", "share of batches, %");
    let setup: MulticastTestSetup = bench.setup(members, members, Optimisations::Batching);
    let outcome = crate::multicast_test_bed::run(&setup)?;
    let shares = |name: &str, batches: &Batches| {
        let mut line = Series::new(name);
        let all: u64 = batches.values().sum();
        for (&size, &often) in batches {
            line.push(size as f64, often as f64 / all as f64 * 100.0);
        }
        line
    };
    let (sends, receives, deliveries) =
        (mean(&outcome.sends), mean(&outcome.receives), mean(&outcome.deliveries));
    figure.series = vec![
        shares("sends", &outcome.sends),
        shares("receives", &outcome.receives),
        shares("deliveries", &outcome.deliveries),
    ];
    let paper =
        [("sends", 1.72, sends), ("receives", 22.18, receives), ("deliveries", 35.19, deliveries)];
    for (name, paper, measured) in paper {
        figure.claim(&format!("mean batch of {name}"), paper, measured, near(measured, paper));
    }
    let grows = sends < receives && receives < deliveries;
    let text = if grows { "yes" } else { "no" };
    figure.claim("send < receive < delivery, on average", "yes", text, grows);
    let small = share(&outcome.sends, |size| size < 5);
    figure.claim("sends below 5 messages, %", "typical", small, small > 50.0);
    let whole = share(&outcome.deliveries, |size| size % members as u64 == 0);
    figure.claim("deliveries of whole rounds, %", "most", whole, whole > 50.0);
    figure.note(
        "A slice of 64 KiB, which is 6 or 7 messages of 10 KB, is the most that a turn sends here; \
         while the window is full and comes back in rounds, slices are full. The paper's senders \
         took half of the time for themselves, so theirs found one or two messages at a time.",
    );
    figure.note(
        "A delivery ends where the first sender's messages end that all have received, which is in \
         the middle of a round as soon as two senders are not equally far.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

fn share(batches: &Batches, of: impl Fn(u64) -> bool) -> f64 {
    let all: u64 = batches.values().sum();
    let those: u64 = batches.iter().filter(|(size, _)| of(**size)).map(|(_, often)| often).sum();
    those as f64 / all.max(1) as f64 * 100.0
}
