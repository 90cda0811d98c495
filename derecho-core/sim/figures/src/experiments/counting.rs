//! Distributed counting: figures 8 and 11, table 5.

use derecho_core::sst::Table;
use derecho_sim::{CostModel, Random};
use sst_programs::counting::{self, Count};

use super::within;
use crate::sst_test_bed::{SstTestBed, SstTransfer};
use crate::{Figure, FigureError, Network, Options, Series};

/// Number of counts before the measurement, so that meeting and starting are not measured.
const WARM_UP: u64 = 50;
/// Number of test beds for a mean; their threads start at random times.
const BEDS: u64 = 3;

/// Returns the mean virtual time of one count, in microseconds, when `nodes` nodes count in
/// lock step.
pub(crate) fn time_per_count(
    options: &Options,
    network: Network,
    kind: SstTransfer,
    nodes: usize,
    counts: u64,
) -> Result<f64, FigureError> {
    let costs = network.costs(&options.prices)?;
    let mut random = Random::new(options.seed);
    let mut sum = 0;
    for _ in 0..BEDS {
        sum += count(costs.clone(), random.next_word(), kind, nodes, counts)?;
    }
    Ok(sum as f64 / 1000.0 / (BEDS * counts) as f64)
}

/// Returns the nanoseconds of a number of counts, after some that are not measured.
fn count(
    costs: CostModel,
    seed: u64,
    kind: SstTransfer,
    nodes: usize,
    counts: u64,
) -> Result<u64, FigureError> {
    let last = WARM_UP + counts;
    let mut test_bed = SstTestBed::new(costs, kind, nodes, seed, Count::ZERO, move |_, _| {
        Box::new(counting::setup(last, |_| {}))
    })?;
    let reached =
        |count: u64| move |table: &Table<Count>| table.get(table.me(), Count::count) >= count;
    test_bed.run_until("counting", |_, nodes| nodes.all(reached(WARM_UP)))?;
    let start = test_bed.now();
    test_bed.run_until("counting", |_, nodes| nodes.all(reached(last)))?;
    Ok(test_bed.now().since(start))
}

fn counts(options: &Options) -> u64 {
    if options.quick { 100 } else { 1000 }
}

fn lines(
    figure: &mut Figure,
    options: &Options,
    network: Network,
    sizes: &[usize],
) -> Result<(), FigureError> {
    for kind in [SstTransfer::Writes, SstTransfer::Reads] {
        let mut line = Series::new(kind.name());
        for &nodes in sizes {
            let time = time_per_count(options, network, kind, nodes, counts(options))?;
            line.push(nodes as f64, time);
        }
        figure.series.push(line);
    }
    Ok(())
}

/// Returns the greatest distance of a point from the best-fitting straight line, as a share of the
/// greatest point.
fn unevenness(line: &Series) -> f64 {
    let count = line.x.len() as f64;
    let (mean_x, mean_y) = (line.x.iter().sum::<f64>() / count, line.y.iter().sum::<f64>() / count);
    let points = || line.x.iter().zip(&line.y);
    let slope = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>()
        / line.x.iter().map(|x| (x - mean_x).powi(2)).sum::<f64>();
    let residual = points().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).abs());
    residual.fold(0.0, f64::max) / line.y.iter().copied().fold(0.0, f64::max)
}

/// Figure 8: time of counting by the number of nodes.
pub(crate) fn figure_8(options: &Options) -> Result<Figure, FigureError> {
    let title =
        format!("Counting in lock step: mean time of one count over {} counts", counts(options));
    let mut figure = Figure::new("sst-8", title, "nodes", "time of one count, µs");
    let sizes: &[usize] =
        if options.quick { &[2, 3, 8, 16, 28] } else { &[2, 3, 4, 6, 8, 12, 16, 20, 24, 28] };
    lines(&mut figure, options, Network::Susitna, sizes)?;
    let at = |figure: &Figure, kind: SstTransfer, nodes: f64| {
        figure.line(kind.name()).and_then(|line| line.at(nodes)).unwrap_or(f64::NAN)
    };
    for (kind, nodes, rate) in [
        (SstTransfer::Writes, 3.0, 325_000.0),
        (SstTransfer::Writes, 28.0, 48_000.0),
        (SstTransfer::Reads, 3.0, 400_000.0),
        (SstTransfer::Reads, 28.0, 40_000.0),
    ] {
        let measured = 1e6 / at(&figure, kind, nodes);
        let met = within(measured, rate, 1.5);
        figure.claim(
            &format!("{}, {nodes} nodes: counts per second", kind.name()),
            rate,
            measured,
            met,
        );
    }
    for kind in [SstTransfer::Writes, SstTransfer::Reads] {
        let uneven = figure.line(kind.name()).map_or(f64::NAN, unevenness);
        figure.claim(
            &format!("{}: time grows linearly with the nodes", kind.name()),
            "linear",
            format!("at most {:.1} % off a line", 100.0 * uneven),
            uneven < 0.1,
        );
    }
    let (writes, reads) =
        (at(&figure, SstTransfer::Writes, 28.0), at(&figure, SstTransfer::Reads, 28.0));
    figure.claim(
        "SST-writes scales better: time of reads / time of writes at 28 nodes",
        48.0 / 40.0,
        reads / writes,
        reads > writes,
    );
    figure.note(
        "The paper counts to a million; here each point is the mean over the counts named in the \
         title, after 50 that are not measured. Inputs: the prices of [susitna], which were \
         derived from 2 nodes' time (table 5), so 2 nodes prove nothing.",
    );
    figure.note(
        "A rate counts as met within a factor of 1.5. The paper's slope, 0.7 µs a node, means that \
         one more operation costs 0.7 µs of its sender; but by its section 4.2 seven parallel \
         operations take less than twice as long as one, which with 2 nodes at 3.23 µs a count \
         leaves about 0.2 µs. The two cannot both be met by one price of a post; the files follow \
         section 4.2, so large groups are faster here than there. And 3 nodes with SST-reads, at \
         2.5 µs a count, are faster there than its 2 nodes with SST-writes; a read that takes the \
         way of a write twice cannot be.",
    );
    Ok(figure)
}

/// Figure 11: counting on old hardware, where reads are slow.
pub(crate) fn figure_11(options: &Options) -> Result<Figure, FigureError> {
    let title = format!(
        "Counting on 1 Gb/s with slow reads (Marmot): mean over {} counts",
        counts(options)
    );
    let mut figure = Figure::new("sst-11", title, "nodes", "time of one count, µs");
    let sizes: &[usize] = if options.quick { &[2, 8, 16] } else { &[2, 4, 6, 8, 10, 12, 14, 16] };
    lines(&mut figure, options, Network::Marmot, sizes)?;
    let line =
        |kind: SstTransfer| figure.line(kind.name()).cloned().unwrap_or_else(|| Series::new(""));
    let (writes, reads) = (line(SstTransfer::Writes), line(SstTransfer::Reads));
    let uneven = unevenness(&writes);
    figure.claim(
        "SST-writes still scales linearly",
        "linear",
        format!("at most {:.1} % off a line", 100.0 * uneven),
        uneven < 0.1,
    );
    let added = |line: &Series| {
        (line.at(16.0).unwrap_or(f64::NAN) - line.at(2.0).unwrap_or(f64::NAN)) / 14.0
    };
    let ratio = added(&reads) / added(&writes);
    figure.claim(
        "SST-reads scales very badly: what one more node adds, reads / writes",
        "much above 1",
        ratio,
        ratio > 3.0,
    );
    figure.note(
        "Figures 10 and 11 are lost. Inputs: 1 Gb/s; a read takes 8 times Susitna's (assumed: the \
         text says only that it is much slower than a write). What grows with the nodes is not \
         fed in: it is the ports, through which every refresh fetches every row.",
    );
    Ok(figure)
}

/// Table 5: racks.
pub(crate) fn table_5(options: &Options) -> Result<Figure, FigureError> {
    let title = format!("Counting on one rack and on three: mean over {} counts", counts(options));
    let mut figure = Figure::new("sst-table5", title, "nodes", "time of one count, µs");
    let paper = [
        (Network::Stampede, "Stampede", [0.91, 8.66, 13.16]),
        (Network::Susitna, "Susitna", [3.23, 7.09, 13.42]),
    ];
    for (network, name, _) in paper {
        let mut line = Series::new(name);
        for nodes in [2, 8, 16] {
            let time =
                time_per_count(options, network, SstTransfer::Writes, nodes, counts(options))?;
            line.push(nodes as f64, time);
        }
        figure.series.push(line);
    }
    for (_, name, times) in paper {
        for (nodes, time) in [2.0, 8.0, 16.0].into_iter().zip(times) {
            if (name, nodes) == ("Susitna", 2.0) {
                continue; // An input.
            }
            let measured = figure.line(name).and_then(|line| line.at(nodes)).unwrap_or(f64::NAN);
            let claim = format!("{name}, {nodes} nodes: time of one count, µs");
            figure.claim(&claim, time, measured, within(time, measured, 1.5));
        }
    }
    for (nodes, ratio) in [(8.0, 8.66 / 7.09), (16.0, 13.16 / 13.42)] {
        let time =
            |name: &str| figure.line(name).and_then(|line| line.at(nodes)).unwrap_or(f64::NAN);
        let measured = time("Stampede") / time("Susitna");
        figure.claim(
            &format!("numbers are comparable: Stampede / Susitna at {nodes} nodes"),
            ratio,
            measured,
            within(ratio, measured, 1.5),
        );
    }
    figure.note(
        "Inputs: Susitna's 2 nodes; Stampede differs by 56 Gb/s, twice the latency between racks \
         and 80 % of the bandwidth there, nothing else. 16 nodes are faster than in the paper for \
         the reason that sst-8 gives: the price of one more post.",
    );
    figure.note(
        "Stampede's 0.91 µs with 2 nodes is not met: the paper credits the bandwidth, but 8 bytes \
         take 1 ns of either; a count of 0.91 µs needs a faster processor, which the text does not \
         price.",
    );
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unevenness_is_the_distance_from_the_best_line() {
        let line = |y: [f64; 4]| Series {
            name: String::new(),
            x: vec![1.0, 2.0, 3.0, 4.0],
            y: y.to_vec(),
        };
        assert!(unevenness(&line([3.0, 5.0, 7.0, 9.0])) < 1e-9);
        assert!(unevenness(&line([1.0, 1.0, 1.0, 9.0])) > 0.1);
    }
}
