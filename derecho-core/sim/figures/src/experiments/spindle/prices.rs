//! The prices themselves, as the simulator charges them: figures 1 and 14.

use super::{Bench, PORT};
use crate::{Figure, FigureError, Options, Series, raw};

/// Figure 1: writes by their size.
pub(crate) fn figure_1(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "A write by its size: from post to visible; posts; many in a row";
    let y = "time, µs; bandwidth, GB/s";
    let mut figure = Figure::new("spindle-1", title, "bytes, log2", y);
    figure.log_y = true;
    let most = if options.quick { 16 } else { 20 };
    let step = if options.quick { 4 } else { 1 };
    let mut latency = Series::new("latency");
    let mut posting = Series::new("post");
    let mut bandwidth = Series::new("bandwidth, 64 in a row");
    for log in (0..=most).step_by(step) {
        let bytes = 1_usize << log;
        let one = raw::writes(bench.costs.clone(), options.seed, bytes, 1)?;
        let many = raw::writes(bench.costs.clone(), options.seed, bytes, 64)?;
        latency.push(f64::from(log), one.arrival / 1000.0);
        posting.push(f64::from(log), one.post / 1000.0);
        bandwidth.push(f64::from(log), 64.0 * bytes as f64 / (many.post + many.arrival));
    }
    let at = |log: f64| latency.at(log).unwrap_or(f64::NAN);
    let close = |measured: f64, paper: f64| (measured / paper - 1.0).abs() < 0.01;
    figure.claim("1 byte: latency, µs (input)", 1.73, at(0.0), close(at(0.0), 1.73));
    figure.claim("4 KB: latency, µs (input)", 2.46, at(12.0), close(at(12.0), 2.46));
    let growth = at(12.0) / at(0.0);
    figure.claim("4 KB / 1 byte: nearly constant", "marginal", growth, growth < 1.5);
    let post = posting.y[0];
    figure.claim("posting, µs (input)", "about 1", post, (0.8..=1.25).contains(&post));
    let best = bandwidth.y.iter().copied().fold(0.0, f64::max);
    figure.claim("bandwidth of the port, GB/s (input)", PORT, best, best > 0.9 * PORT);
    figure.series = vec![latency, posting, bandwidth];
    figure.note(
        "These are the prices of the file, charged for executed writes over the simulated link: \
         inputs, shown beside what they were taken from. A word is the least that is written, so \
         1 byte is 8. Bandwidth is from the first post to the last write's arrival.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}

/// Figure 14: copies by their size.
pub(crate) fn figure_14(options: &Options) -> Result<Figure, FigureError> {
    let bench = Bench::new(options)?;
    let title = "A copy by its size";
    let y = "time, µs; bandwidth, GB/s";
    let mut figure = Figure::new("spindle-14", title, "bytes, log2", y);
    figure.log_y = true;
    let step = if options.quick { 5 } else { 1 };
    let mut time = Series::new("time");
    let mut bandwidth = Series::new("bandwidth");
    for log in (0..=20).step_by(step) {
        let bytes = 1_u64 << log;
        let nanos = raw::copies(bench.costs.clone(), options.seed, bytes)?;
        time.push(f64::from(log), nanos / 1000.0);
        bandwidth.push(f64::from(log), bytes as f64 / nanos);
    }
    let at = |log: f64| time.at(log).unwrap_or(f64::NAN);
    let low = at(10.0);
    figure.claim("1 KB: low, µs", "below a write's 1.73", low, low < 1.73);
    let large = at(20.0) / at(10.0);
    figure.claim("1 MB / 1 KB: deteriorates", "quickly", large, large > 100.0);
    let best = bandwidth.y.iter().copied().fold(0.0, f64::max);
    figure.claim("bandwidth, GB/s (input: RDMC's 30 Gb/s)", 3.75, best, best >= 3.75 * 0.8);
    figure.series = vec![time, bandwidth];
    figure.note(
        "The price of the file, charged for turns that copy. It is one price for a byte, so the \
         paper's fall of the bandwidth beyond the caches is not in it; its curve is lost.",
    );
    bench.sign(&mut figure);
    Ok(figure)
}
