//! Result of an experiment: points, and the paper's claims beside the measured values.
//!
//! Owns: the output formats of a figure: JSON, a table for people, CSV. Never does: compute
//! a point.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

/// Points of one line.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// Name of the line.
    pub name: String,
    /// Horizontal positions of the points.
    pub x: Vec<f64>,
    /// Vertical positions of the points.
    pub y: Vec<f64>,
}

impl Series {
    /// Creates a line without points.
    pub fn new(name: impl Into<String>) -> Series {
        Series { name: name.into(), x: Vec::new(), y: Vec::new() }
    }

    /// Adds a point.
    pub fn push(&mut self, x: f64, y: f64) {
        self.x.push(x);
        self.y.push(y);
    }

    /// Returns the y value at `x`, if there is a point.
    pub fn at(&self, x: f64) -> Option<f64> {
        let index = self.x.iter().position(|&own| own == x)?;
        self.y.get(index).copied()
    }
}

/// Value of a claim: as in the paper, or as measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum ClaimValue {
    /// A number; its unit is in the claim's name.
    Number(f64),
    /// A value that is not a single number: a bound, a shape.
    Text(String),
}

impl From<f64> for ClaimValue {
    fn from(number: f64) -> ClaimValue {
        ClaimValue::Number(number)
    }
}

impl From<&str> for ClaimValue {
    fn from(text: &str) -> ClaimValue {
        ClaimValue::Text(text.into())
    }
}

impl From<String> for ClaimValue {
    fn from(text: String) -> ClaimValue {
        ClaimValue::Text(text)
    }
}

impl std::fmt::Display for ClaimValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClaimValue::Number(number) => f.write_str(&short(*number)),
            ClaimValue::Text(text) => f.write_str(text),
        }
    }
}

/// Result of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Name of the figure, as in [`list`](crate::list()).
    #[serde(rename = "figure")]
    pub name: String,
    /// Subject of the figure.
    pub title: String,
    /// Quantity of the x axis, with its unit.
    pub x_label: String,
    /// Quantity of the y axis, with its unit.
    pub y_label: String,
    /// Whether the y axis is logarithmic.
    pub log_y: bool,
    /// Names of x = 1, 2, ..., where x is not a quantity.
    pub ticks: Vec<String>,
    /// Names of y = 1, 2, ..., where y is a member and x is a time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// Lines of the figure.
    pub series: Vec<Series>,
    /// Claims of the paper.
    pub paper: BTreeMap<String, ClaimValue>,
    /// Measured values of the same claims.
    pub measured: BTreeMap<String, ClaimValue>,
    /// Claims that are not met; a note says why.
    pub unmet: Vec<String>,
    /// Inputs, assumptions, and differences from the paper with their reasons.
    pub notes: Vec<String>,
}

impl Figure {
    /// Creates a figure without points.
    pub fn new(name: &str, title: impl Into<String>, x_label: &str, y_label: &str) -> Figure {
        Figure {
            name: name.into(),
            title: title.into(),
            x_label: x_label.into(),
            y_label: y_label.into(),
            log_y: false,
            ticks: Vec::new(),
            rows: Vec::new(),
            series: Vec::new(),
            paper: BTreeMap::new(),
            measured: BTreeMap::new(),
            unmet: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Records a claim of the paper with the measured value, and whether they agree.
    pub fn claim(
        &mut self,
        claim: &str,
        paper: impl Into<ClaimValue>,
        measured: impl Into<ClaimValue>,
        met: bool,
    ) {
        self.paper.insert(claim.into(), paper.into());
        self.measured.insert(claim.into(), measured.into());
        if !met {
            self.unmet.push(claim.into());
        }
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Returns the line with this name.
    pub fn line(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Returns one JSON object, as `squall sim figure --json` prints it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts are JSON; names are texts")
    }

    /// Returns the points, one line each: `series,x,y`.
    pub fn to_csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut text = format!("series,{},{}\n", quoted(&self.x_label), quoted(&self.y_label));
        for series in &self.series {
            for (x, y) in series.x.iter().zip(&series.y) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{},{x},{y}", quoted(&series.name));
            }
        }
        text
    }

    /// Returns everything as text for people.
    pub fn to_table(&self) -> String {
        let mut text = format!("{}: {}\n{}\n\n", self.name, self.title, self.y_label);
        if self.rows.is_empty() {
            align(&mut text, &self.by_x());
        } else {
            align(&mut text, &self.by_row());
        }
        self.claims_and_notes(&mut text);
        text
    }

    /// Returns a line of the table for each x.
    fn by_x(&self) -> Vec<Vec<String>> {
        let mut xs: Vec<f64> = self.series.iter().flat_map(|series| series.x.clone()).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let mut rows = vec![vec![self.x_label.clone()]];
        rows[0].extend(self.series.iter().map(|series| series.name.clone()));
        for x in xs {
            let cells = self.series.iter().map(|s| s.at(x).map_or("-".into(), short));
            rows.push([self.tick(x)].into_iter().chain(cells).collect());
        }
        rows
    }

    /// Returns a line of the table for each name of y, with its times.
    fn by_row(&self) -> Vec<Vec<String>> {
        let head = [self.x_label.clone()].into_iter();
        let mut rows = vec![head.chain(self.series.iter().map(|line| line.name.clone())).collect()];
        for (index, name) in self.rows.iter().enumerate() {
            let y = index as f64 + 1.0;
            let cell = |line: &Series| {
                let point = line.y.iter().position(|own| *own == y);
                point.map_or("-".into(), |point| short(line.x[point]))
            };
            rows.push([name.clone()].into_iter().chain(self.series.iter().map(cell)).collect());
        }
        rows
    }

    fn claims_and_notes(&self, text: &mut String) {
        if !self.paper.is_empty() {
            let mut rows = vec![["claim", "paper", "measured", "met"].map(String::from).to_vec()];
            for (claim, paper) in &self.paper {
                let measured = self.measured.get(claim).map_or("-".into(), ClaimValue::to_string);
                let met = if self.unmet.contains(claim) { "NO" } else { "yes" };
                rows.push(vec![claim.clone(), paper.to_string(), measured, met.into()]);
            }
            text.push('\n');
            align(text, &rows);
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "* {note}");
        }
    }

    /// Returns the label at `x` of the x axis.
    pub(crate) fn tick(&self, x: f64) -> String {
        let named = (x.fract() == 0.0 && x >= 1.0).then(|| self.ticks.get(x as usize - 1));
        named
            .flatten()
            .cloned()
            .unwrap_or_else(|| if !self.ticks.is_empty() { String::new() } else { short(x) })
    }
}

/// Formats a number with a readable number of digits.
pub(crate) fn short(number: f64) -> String {
    let size = number.abs();
    if number.fract() == 0.0 && size < 1e9 {
        format!("{number}")
    } else if size >= 1000.0 {
        format!("{number:.0}")
    } else if size >= 10.0 {
        format!("{number:.1}")
    } else if size >= 0.01 {
        format!("{number:.2}")
    } else {
        format!("{number:.2e}")
    }
}

fn align(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let length =
        |row: &Vec<String>, column| row.get(column).map_or(0, |c: &String| c.chars().count());
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| length(row, column)).max().unwrap_or(0))
        .collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                })
                .collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let mut figure = Figure::new("f", "A figure", "nodes", "time, us");
        let mut line = Series::new("SST-\"writes\"");
        line.push(2.0, 3.25);
        line.push(4.0, 1234.5);
        figure.series.push(line);
        figure.series.push(Series { name: "b".into(), x: vec![4.0], y: vec![1e-5] });
        figure.claim("grows", "by less than 2", 1.5, true);
        figure.claim("rate at 4, 1/s", 48_000.0, 20_000.0, false);
        figure.note("A note.");
        figure
    }

    #[test]
    fn json_has_the_agreed_fields() {
        let json: serde_json::Value = serde_json::from_str(&figure().to_json()).unwrap();
        assert_eq!(json["figure"], "f");
        assert_eq!(json["series"][0]["name"], "SST-\"writes\"");
        assert_eq!(json["series"][0]["x"], serde_json::json!([2.0, 4.0]));
        assert_eq!(json["series"][1]["y"], serde_json::json!([1e-5]));
        assert_eq!(json["paper"]["grows"], "by less than 2");
        assert_eq!(json["measured"]["grows"], 1.5);
        assert_eq!(json["measured"]["rate at 4, 1/s"], 20_000.0);
    }

    #[test]
    fn csv_has_one_line_per_point_and_quotes_names() {
        let csv = figure().to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "series,\"nodes\",\"time, us\"");
        assert_eq!(lines[1], "\"SST-\"\"writes\"\"\",2,3.25");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn the_table_shows_points_claims_and_notes() {
        let table = figure().to_table();
        for part in ["f: A figure", "3.25", "1234", "1.00e-5", "by less than 2", "NO", "* A note."]
        {
            assert!(table.contains(part), "{part} is missing in\n{table}");
        }
    }
}
