//! Plots of a run, as SVG with logarithmic axes.

use std::fmt::Write as _;

use crate::log::{FigureKind, RunLog};
use crate::page::label;
use crate::scenario::Scenario;
use crate::statistics::Quartiles;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 40.0;
/// Room for the legend.
const RIGHT: f64 = 250.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 10] = [
    "#d62728", "#ff7f0e", "#1f77b4", "#17becf", "#2ca02c", "#9467bd", "#8c564b", "#e377c2",
    "#7f7f7f", "#bcbd22",
];

/// A logarithmic axis between two powers of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LogAxis {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl LogAxis {
    /// Makes an axis for all values between two places of the picture.
    fn new(values: &[f64], from: f64, to: f64) -> LogAxis {
        let logs = || values.iter().filter(|value| **value > 0.0).map(|value| value.log10());
        let low = logs().fold(f64::INFINITY, f64::min).floor();
        let high = logs().fold(f64::NEG_INFINITY, f64::max).ceil();
        let low = if low.is_finite() { low as i32 } else { 0 };
        let high = if high.is_finite() { (high as i32).max(low + 1) } else { low + 1 };
        LogAxis { low, high, from, to }
    }

    fn at(self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    fn powers(self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10f64.powi(power))
    }
}

/// A picture in the making. Writing to a string never fails.
struct SvgPicture {
    text: String,
}

impl SvgPicture {
    fn new(title: &str) -> SvgPicture {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>"
        );
        let mut picture = SvgPicture { text };
        picture.label(LEFT, 22.0, "start", title);
        picture
    }

    fn line(&mut self, from: [f64; 2], to: [f64; 2], colour: &str, width: f64) {
        let ([x1, y1], [x2, y2]) = (from, to);
        let _ = writeln!(
            self.text,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>"
        );
    }

    fn dot(&mut self, x: f64, y: f64, colour: &str) {
        let _ =
            writeln!(self.text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
    }

    fn label(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Returns a figure of an axis.
fn power_name(value: f64) -> String {
    if value >= 1e6 {
        format!("{} M", value / 1e6)
    } else if value >= 1e3 {
        format!("{} k", value / 1e3)
    } else {
        format!("{value}")
    }
}

/// A line of a plot: one system.
struct PlotSeries {
    name: String,
    points: Vec<Option<Quartiles>>,
}

/// Returns the plot of the rates to a number of subscribers.
pub(crate) fn throughput(log: &RunLog, subs: usize) -> String {
    let scenarios: Vec<Scenario> =
        log.scenarios.iter().copied().filter(|scenario| scenario.subs == subs).collect();
    let mut all: Vec<PlotSeries> = log
        .measured()
        .map(|entry| PlotSeries {
            name: label(&entry.name).to_owned(),
            points: scenarios
                .iter()
                .map(|&scenario| log.quartiles(&entry.name, scenario, FigureKind::Rate))
                .collect(),
        })
        .collect();
    all.push(PlotSeries {
        name: "bare polling ring".to_owned(),
        points: scenarios.iter().map(|&scenario| log.ring(scenario)).collect(),
    });
    let values: Vec<f64> = all
        .iter()
        .flat_map(|series| series.points.iter().flatten())
        .flat_map(|point| [point.low, point.high])
        .collect();
    let to =
        if subs == 1 { "one subscriber".to_owned() } else { format!("each of {subs} subscribers") };
    let title = format!("messages a second to {to}: median, with quartiles");
    let mut picture = SvgPicture::new(&title);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let axis = LogAxis::new(&values, bottom, TOP);
    for value in axis.powers() {
        picture.line([LEFT, axis.at(value)], [right, axis.at(value)], "#dddddd", 1.0);
        picture.label(LEFT - 8.0, axis.at(value) + 4.0, "end", &power_name(value));
    }
    let step = (right - LEFT) / scenarios.len().max(1) as f64;
    let middle = |index: usize| LEFT + (index as f64 + 0.5) * step;
    for (index, scenario) in scenarios.iter().enumerate() {
        picture.label(middle(index), bottom + 20.0, "middle", &scenario.size_name());
    }
    let last = all.len() - 1;
    for (number, series) in all.iter().enumerate() {
        let colour = if number == last { "#000000" } else { COLOURS[number % COLOURS.len()] };
        // Neighbours must not hide each other.
        let shift = (number as f64 - last as f64 / 2.0) * 3.0;
        let mut before: Option<[f64; 2]> = None;
        for (index, point) in series.points.iter().enumerate() {
            let Some(point) = point else {
                before = None;
                continue;
            };
            let (x, y) = (middle(index) + shift, axis.at(point.median));
            picture.line([x, axis.at(point.low)], [x, axis.at(point.high)], colour, 2.0);
            if let Some(before) = before {
                picture.line(before, [x, y], colour, 1.0);
            }
            picture.dot(x, y, colour);
            before = Some([x, y]);
        }
        let y = TOP + 10.0 + 24.0 * number as f64;
        picture.dot(right + 20.0, y - 4.0, colour);
        picture.label(right + 32.0, y, "start", &series.name);
    }
    picture.finish()
}

/// Returns the plot of the one-way times.
pub(crate) fn latency(log: &RunLog) -> String {
    let scenario = log.scenarios.iter().copied().find(|scenario| scenario.is_latency());
    let rows: Vec<(String, [Option<Quartiles>; 2])> = log
        .measured()
        .map(|entry| {
            let times = [FigureKind::P50, FigureKind::P99]
                .map(|kind| log.quartiles(&entry.name, scenario?, kind));
            (label(&entry.name).to_owned(), times)
        })
        .collect();
    let times = rows.iter().flat_map(|(_, times)| times.iter().flatten());
    let values: Vec<f64> = times.flat_map(|time| [time.low / 1e3, time.high / 1e3]).collect();
    let title = "µs one way: p50 (dot) to p99 (end of the line), medians of the repeats";
    let mut picture = SvgPicture::new(title);
    let bottom = HEIGHT - BOTTOM;
    let axis = LogAxis::new(&values, RIGHT, WIDTH - LEFT);
    for value in axis.powers() {
        picture.line([axis.at(value), TOP], [axis.at(value), bottom], "#dddddd", 1.0);
        picture.label(axis.at(value), bottom + 20.0, "middle", &format!("{value}"));
    }
    let step = (bottom - TOP) / rows.len().max(1) as f64;
    for (index, (name, times)) in rows.iter().enumerate() {
        let y = TOP + (index as f64 + 0.5) * step;
        picture.label(RIGHT - 12.0, y + 4.0, "end", name);
        let [Some(p50), Some(p99)] = times else { continue };
        let colour = COLOURS[index % COLOURS.len()];
        let [from, to] = [p50, p99].map(|time| axis.at(time.median / 1e3));
        picture.line([from, y], [to, y], colour, 3.0);
        picture.line([to, y - 6.0], [to, y + 6.0], colour, 2.0);
        picture.dot(from, y, colour);
    }
    picture.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::sample;

    #[test]
    fn axis_covers_all_values_in_powers_of_ten() {
        let axis = LogAxis::new(&[30.0, 4000.0], 0.0, 100.0);
        assert_eq!([axis.low, axis.high], [1, 4]);
        assert_eq!(axis.at(10.0), 0.0);
        assert_eq!(axis.at(10_000.0), 100.0);
        assert_eq!(LogAxis::new(&[], 0.0, 1.0).high, 1);
    }

    #[test]
    fn plots_name_every_measured_system() {
        for picture in [throughput(&sample(), 1), latency(&sample())] {
            assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
            assert!(picture.contains("zenoh") && picture.contains("Squall DDS, atomic"));
            assert!(!picture.contains("NaN") && !picture.contains("inf"));
        }
    }
}
