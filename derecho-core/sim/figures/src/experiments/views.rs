//! Derecho's figures 5 and 6, and the pause of deliveries in a view change.
//!
//! Owns: the changes of the groups, and the evaluation of the measurements. Never does: hold
//! a duration.

use derecho_core::ids::Time;
use derecho_sim::Random;

use crate::figure::{Figure, Series, short};
use crate::parallel::each;
use crate::views::{
    CRASH_KNOWN, GroupKind, MemberStep, ViewChangeKind, ViewParameters, ViewTestBed, ViewTestSetup,
};
use crate::{FigureError, Network, Options};

/// Share of the previous rate from which on a rate counts as recovered.
const RECOVERED: f64 = 0.8;
const MS: u64 = 1_000_000;

fn setup(options: &Options, kind: GroupKind, members: usize) -> Result<ViewTestSetup, FigureError> {
    let costs = options.costs.network(Network::Derecho).costs(&options.prices)?;
    let parameters = ViewParameters { bytes: 10 << 10, window: 100, pause: 0 };
    Ok(ViewTestSetup { costs, seed: options.seed, kind, members, senders: members, parameters })
}

/// Adds the inputs common to all figures of this module.
fn sign(figure: &mut Figure, options: &Options) {
    let file = match options.costs {
        crate::Costs::Paper => "derecho.toml",
        crate::Costs::Ours => "ours.toml",
    };
    figure.note(format!(
        "Prices: {file}. Inputs, not results: the links of its peers know of a crash {} to {} µs after it, at \
         random; on a network that is only likely, and a member gathers such suspicions for 2 ms before it tells \
         the others (the product's default).",
        CRASH_KNOWN.0 / 1000,
        CRASH_KNOWN.1 / 1000
    ));
}

/// Deliveries of one run of figure 5.
struct DeliveryCurve {
    /// Delivered GB/s to each remaining member, by time.
    line: Series,
    /// Longest pauses of deliveries after a join, a leave, a crash, in µs, over the
    /// remaining members.
    stops: Vec<f64>,
    /// Rate in the last stretch before the first change, and after each change.
    rates: Vec<f64>,
}

/// Groups of figure 5: name, bytes of a message, window, and number of senders among the four.
const FLOWS: [(&str, usize, usize, usize); 4] = [
    ("10 KB, all send", 10 << 10, 100, 4),
    ("100 KB, all send", 100 << 10, 10, 4),
    ("1 MB, all send", 1 << 20, 2, 4),
    ("1 MB, one sends", 1 << 20, 2, 1),
];

fn flow(
    setup: &ViewTestSetup,
    name: &str,
    stretch: u64,
    bucket: u64,
) -> Result<DeliveryCurve, FigureError> {
    let mut test_bed = ViewTestBed::settle(setup)?;
    test_bed.pass(2 * MS);
    // The last member crashes at the end.
    let stay = setup.members - 1;
    let begin = test_bed.now();
    let (mut stops, mut moments) = (Vec::new(), Vec::new());
    for change in ViewChangeKind::EACH {
        test_bed.pass(stretch);
        let at = test_bed.now();
        moments.push(at);
        test_bed.strike(change)?;
        test_bed.until_resumed()?;
        let least = at.after(stretch);
        if test_bed.now() < least {
            test_bed.pass(least.since(test_bed.now()));
        }
        let worst = (0..stay).map(|member| test_bed.silence(member, at)).max();
        stops.push(worst.unwrap_or(0) as f64 / 1000.0);
    }
    test_bed.pass(stretch);
    let end = test_bed.now();
    let rate = |from: u64, to: u64| {
        let (from, to) = (Time(from), Time(to));
        let taken: u64 = (0..stay).map(|member| test_bed.taken(member, from, to)).sum();
        taken as f64 * setup.parameters.bytes as f64 / stay as f64 / to.since(from) as f64
    };
    let mut line = Series::new(name);
    let mut from = begin.0;
    while from + bucket <= end.0 {
        line.push((from - begin.0) as f64 / 1e6, rate(from, from + bucket));
        from += bucket;
    }
    // In each case, the last part before the next change.
    let calm = stretch * 3 / 4;
    let ends = moments.iter().map(|at| at.0).chain([end.0]);
    let rates = ends.map(|end| rate(end - calm, end)).collect();
    Ok(DeliveryCurve { line, stops, rates })
}

/// Figure 5 (a): bandwidth through a join, a leave and a crash.
pub(crate) fn figure_5(options: &Options) -> Result<Figure, FigureError> {
    let title = "Bandwidth as a node joins, leaves, and another crashes; 4 members, networked";
    let y = "delivered to each member that stays, GB/s";
    let mut figure = Figure::new("derecho-5", title, "time, ms", y);
    let (stretch, bucket) = if options.quick { (4 * MS, 500_000) } else { (8 * MS, 500_000) };
    let base = setup(options, GroupKind::Network, 4)?;
    let flows = each(&FLOWS, |&(name, bytes, window, senders)| {
        let parameters = ViewParameters { bytes, window, pause: 0 };
        flow(&ViewTestSetup { senders, parameters, ..base.clone() }, name, stretch, bucket)
    })?;
    for ((name, ..), flow) in FLOWS.iter().zip(&flows) {
        // Once the newcomer has joined and a member has left, the number of members is the
        // same again.
        let left = flow.rates[2] / flow.rates[0];
        let claim = format!("{name}: the rate after join and leave / before");
        figure.claim(&claim, "recovers", left, left >= RECOVERED);
        let stops: Vec<String> = flow.stops.iter().map(|stop| short(*stop)).collect();
        let rates: Vec<String> = flow.rates.iter().map(|rate| short(*rate)).collect();
        figure.note(format!(
            "{name}: {} GB/s; the longest times without deliveries at those that stay: join {} µs, leave {} µs, \
             crash {} µs.",
            rates.join(", "),
            stops[0],
            stops[1],
            stops[2]
        ));
    }
    let [small, _, large, lone] = &flows[..] else {
        return Err(FigureError::Stuck("figure 5 has four lines".into()));
    };
    for (index, change) in ViewChangeKind::EACH.iter().enumerate().take(2) {
        let name = change.name();
        let ratio = large.stops[index] / lone.stops[index];
        let claim = format!("1 MB, {name}: the stop with all senders / with one");
        figure.claim(&claim, "grows with the senders", ratio, ratio > 1.0);
        let ratio = large.stops[index] / small.stops[index];
        let claim = format!("{name}: the stop with 1 MB / with 10 KB");
        figure.claim(&claim, "much shorter with shorter messages", ratio, ratio > 2.0);
    }
    figure.note(
        "The paper's messages have 200 MB and 20 MB and are passed on in blocks from receiver to receiver (RDMC); \
         here a sender writes to every member itself, messages of up to 1 MB, so far fewer bytes are in flight. How \
         long the paper's stops were was in the figure, which is lost.",
    );
    figure.note(
        "Where one member sends, the newcomer sends nothing. Delivered to a member: its own messages too, which no \
         port sees. A bucket has whole messages, and 1 MB are delivered by whole windows, so its lines are ragged. The rates are \
         means: of 4 members, 5, 4 and 3.",
    );
    sign(&mut figure, options);
    figure.series = flows.into_iter().map(|flow| flow.line).collect();
    Ok(figure)
}

/// One band of figure 6: the steps of each member, in µs from the beginning.
struct StepBand {
    rows: Vec<String>,
    points: Vec<(MemberStep, usize, f64)>,
}

impl StepBand {
    /// Collects a band. `begin`: the step that counts as zero; earlier ones are left out of
    /// the picture.
    fn of(test_bed: &ViewTestBed, name: &str, members: &[usize], begin: MemberStep) -> StepBand {
        let measurements = test_bed.measurements();
        let steps = || measurements.steps.iter();
        let begun = steps().filter(|step| step.1 == begin).map(|step| step.2).min();
        let begun = begun.unwrap_or(Time(0));
        let rows = members.iter().map(|member| format!("{name}: n{}", member + 1)).collect();
        let row = |member| members.iter().position(|own| *own == member);
        let points = steps().filter(|step| step.2 >= begun).filter_map(|(member, step, at)| {
            Some((*step, row(*member)?, at.since(begun) as f64 / 1000.0))
        });
        StepBand { rows, points: points.collect() }
    }

    /// Returns the times of a step, over the members.
    fn times(&self, step: MemberStep) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().filter(move |point| point.0 == step).map(|point| point.2)
    }

    fn first(&self, step: MemberStep) -> f64 {
        self.times(step).fold(f64::INFINITY, f64::min)
    }

    fn last(&self, step: MemberStep) -> f64 {
        self.times(step).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Follows one multicast in a group whose members all send slowly. Also returns the number of
/// messages that were delivered together with it.
fn multicast(base: &ViewTestSetup) -> Result<(StepBand, u64), FigureError> {
    let mut setup = base.clone();
    setup.parameters.pause = 20_000;
    let mut test_bed = ViewTestBed::settle(&setup)?;
    test_bed.pass(MS);
    test_bed.watch();
    test_bed.follow(0);
    test_bed.until("a message is not delivered everywhere", |town| {
        let measurements = town.measurements();
        let done = |member: &usize| measurements.when(*member, MemberStep::Delivered).is_some();
        town.members().iter().all(done)
    })?;
    let batch = test_bed.measurements().batch;
    Ok((StepBand::of(&test_bed, "multicast", &test_bed.members(), MemberStep::Committed), batch))
}

/// Follows one view change, in a group whose members all send as fast as they can. Also returns the
/// times after the crash, in µs, at which the links and then the members reported it.
fn change(
    base: &ViewTestSetup,
    change: ViewChangeKind,
) -> Result<(StepBand, [f64; 2]), FigureError> {
    let mut test_bed = ViewTestBed::settle(base)?;
    test_bed.pass(MS);
    let struck = test_bed.strike(change)?;
    test_bed.until_resumed()?;
    let mut members = test_bed.members();
    if change == ViewChangeKind::Leave {
        members.push(struck);
    }
    let begin =
        if change == ViewChangeKind::Crash { MemberStep::Suspected } else { MemberStep::Asked };
    let noticed = [MemberStep::Noticed, MemberStep::Suspected].map(|step| {
        let measurements = test_bed.measurements();
        let asked = measurements.when(struck, MemberStep::Asked);
        let first = members.iter().filter_map(|member| measurements.when(*member, step)).min();
        asked.zip(first).map_or(f64::NAN, |(asked, first)| first.since(asked) as f64 / 1000.0)
    });
    Ok((StepBand::of(&test_bed, change.name(), &members, begin), noticed))
}

/// Figures 5 (b) and 6: the steps of a multicast, of a join, of a leave and of a crash at
/// each member.
pub(crate) fn figure_6(options: &Options) -> Result<Figure, FigureError> {
    let title = "What happens when: a multicast, a join, a leave, a crash; 5 members, networked";
    let mut figure = Figure::new("derecho-6", title, "time, µs", "member");
    let base = setup(options, GroupKind::Network, 5)?;
    let (followed, batch) = multicast(&base)?;
    let (join, _) = change(&base, ViewChangeKind::Join)?;
    let (leave, _) = change(&base, ViewChangeKind::Leave)?;
    let (crash, noticed) = change(&base, ViewChangeKind::Crash)?;
    let everywhere = followed.last(MemberStep::Received);
    figure.claim(
        "multicast: the first delivery after the last member has received it, µs",
        "later",
        followed.first(MemberStep::Delivered) - everywhere,
        followed.first(MemberStep::Delivered) > everywhere,
    );
    figure.claim(
        "multicast: delivered in a batch of so many messages (5 senders)",
        "a small batch, about the senders",
        batch as f64,
        (1..=10).contains(&batch),
    );
    for (name, band) in [("join", &join), ("leave", &leave), ("crash", &crash)] {
        let (wedged, proposed) = (band.last(MemberStep::Wedged), band.first(MemberStep::Proposed));
        let text = format!("{} and {}", short(wedged), short(proposed));
        let claim = format!("{name}: the last wedges, then the leader proposes the trim, µs");
        figure.claim(&claim, "in this order", text, wedged <= proposed);
        let (decided, resumed) =
            (band.first(MemberStep::Installed), band.last(MemberStep::Resumed));
        figure.note(format!(
            "{name}: the last is wedged at {} µs, the leader proposes at {}, the first is in the next view at {}, the \
             last at {}, and all deliver again at {}.",
            short(wedged),
            short(proposed),
            short(decided),
            short(band.last(MemberStep::Installed)),
            short(resumed)
        ));
    }
    let view = join.last(MemberStep::Installed) - join.first(MemberStep::Wedged);
    let anew = join.last(MemberStep::Resumed) - join.last(MemberStep::Installed);
    figure.claim(
        "join: from the view to the last first delivery / from the first wedging to the view",
        "new sessions, which wait for the view, limit",
        anew / view,
        anew > view,
    );
    let late = crash.last(MemberStep::Wedged) - crash.first(MemberStep::Suspected);
    let claim = "crash: from the first announced suspicion to the last member's wedging, µs";
    figure.claim(
        claim,
        "each wedges when it learns of it",
        late,
        late < crash.first(MemberStep::Proposed),
    );
    figure.note(format!(
        "The crash's time begins with the first announced suspicion, {} µs after the crash; the first link knew of \
         it after {} µs. The other three begin with the commit or the request.",
        short(noticed[1]),
        short(noticed[0])
    ));
    figure.note(
        "A step has the moment at which the turn ends that took it, and a commit its own; \"stable\" is the beginning of \
         the turn that sees that all have received the message and what is ordered before it, for it is delivered in \
         the same turn. Steps of one turn have one moment: a member that accepts and then knows that enough members have accepted is in the next view at once. The multicast has 10 KB and each member \
         sends one every 20 µs; in the view changes all send without a pause.",
    );
    sign(&mut figure, options);
    let bands = [followed, join, leave, crash];
    for step in MemberStep::EACH {
        let mut line = Series::new(step.name());
        let mut first = 1;
        for band in &bands {
            for (_, row, at) in band.points.iter().filter(|point| point.0 == step) {
                line.push(*at, (first + row) as f64);
            }
            first += band.rows.len();
        }
        if !line.x.is_empty() {
            figure.series.push(line);
        }
    }
    figure.rows = bands.into_iter().flat_map(|band| band.rows).collect();
    Ok(figure)
}

/// Measures one view change: the longest pause of deliveries of each survivor, and of each member
/// in a millisecond before the change, in µs.
fn stop(
    setup: &ViewTestSetup,
    change: ViewChangeKind,
) -> Result<(Vec<f64>, Vec<f64>), FigureError> {
    let mut test_bed = ViewTestBed::settle(setup)?;
    test_bed.pass(MS);
    let begin = test_bed.now();
    test_bed.pass(MS);
    let silences = |test_bed: &ViewTestBed, stay: &[usize], from| -> Vec<f64> {
        stay.iter().map(|member| test_bed.silence(*member, from) as f64 / 1000.0).collect()
    };
    let before = silences(&test_bed, &test_bed.members(), begin);
    let at = test_bed.now();
    // Any member may go, including the leader. In a networked pair, only the one without which the
    // other has a majority.
    let pair = setup.kind == GroupKind::Network && setup.members == 2;
    let anybody = Random::new(setup.seed ^ 0x1ead).below(setup.members as u64) as usize;
    test_bed.put_last(if pair { 1 } else { anybody });
    let mut stay = test_bed.members();
    let struck = test_bed.strike(change)?;
    stay.retain(|member| *member != struck);
    test_bed.until_resumed()?;
    test_bed.pass(MS / 10);
    Ok((silences(&test_bed, &stay, at), before))
}

/// View-change figure: the pause of deliveries.
pub(crate) fn view_change(options: &Options) -> Result<Figure, FigureError> {
    let title = "The time without deliveries at those that stay, in a view change";
    let x = "members before the change";
    let mut figure = Figure::new("view-change", title, x, "longest time without a delivery, µs");
    figure.log_y = true;
    let sizes: &[usize] = if options.quick { &[2, 4, 8] } else { &[2, 3, 4, 6, 8, 12, 16] };
    let seeds = if options.quick { 1 } else { 5 };
    let mut lines: Vec<(GroupKind, ViewChangeKind)> = Vec::new();
    for kind in [GroupKind::Local, GroupKind::Network] {
        lines.extend(ViewChangeKind::EACH.map(|change| (kind, change)));
    }
    let mut runs = Vec::new();
    for &(kind, change) in &lines {
        for &members in sizes {
            for seed in 0..seeds {
                let mut setup = setup(options, kind, members)?;
                setup.seed = options.seed.wrapping_add(seed * 1000);
                setup.parameters = ViewParameters { bytes: 1 << 10, window: 16, pause: 5_000 };
                runs.push((setup, change));
            }
        }
    }
    let found = each(&runs, |(setup, change)| stop(setup, *change))?;
    let named =
        lines.iter().map(|line| (Some(*line), format!("{}, {}", line.1.name(), line.0.name())));
    for (line, name) in named.chain([(None, "no change".to_owned())]) {
        let mut median = Series::new(format!("{name}: median"));
        let mut worst = Series::new(format!("{name}: worst"));
        for &members in sizes {
            let is_own = |run: &(ViewTestSetup, ViewChangeKind)| {
                run.0.members == members && line.is_none_or(|line| line == (run.0.kind, run.1))
            };
            let own = runs.iter().zip(&found).filter(|(run, _)| is_own(run));
            let mut times: Vec<f64> = own
                .flat_map(|(_, (after, before))| if line.is_some() { after } else { before })
                .copied()
                .collect();
            times.sort_by(f64::total_cmp);
            if let Some(last) = times.last() {
                median.push(members as f64, times[times.len() / 2]);
                worst.push(members as f64, *last);
            }
        }
        if let (Some((_, change)), Some(first), Some(last)) =
            (line, median.y.first(), median.y.last())
            && change != ViewChangeKind::Crash
        {
            let claim = format!("{name}: the most members / the fewest, median");
            figure.claim(&claim, "grows with the senders", last / first, last > first);
        }
        figure.series.extend([median, worst]);
    }
    figure.note(format!(
        "Every member sends 1 KB every 5 µs, with a window of 16. All survivors of so many seeds: {seeds}. \
         \"No change\": the same in a millisecond before it; what a change costs is what lies above."
    ));
    figure.note(
        "The paper says only that stops grow with the senders. Whoever leaves or crashes has any rank, so the leader is among them; of two on a \
         network it is the one of the higher rank, for half of the votes decide only with the lowest. What a crash \
         takes is mostly the time until it is known, and on a network the 2 ms more.",
    );
    sign(&mut figure, options);
    Ok(figure)
}
