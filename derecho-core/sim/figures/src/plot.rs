//! Drawing of a figure.
//!
//! Owns: the positions of lines, axes and legend. Never does: change a point.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::FigureError;
use crate::figure::{Figure, Series, short};

const SIZE: (u32, u32) = (900, 560);
/// Colours of the lines, distinguishable also with colour blindness; further lines reuse them,
/// with rings.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
    RGBColor(148, 103, 189),
];

impl Figure {
    /// Returns the figure as an SVG picture.
    pub fn to_svg(&self) -> Result<String, FigureError> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            self.draw(&area).map_err(|error| FigureError::Picture(error.to_string()))?;
        }
        Ok(text)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), DrawError> {
        area.fill(&WHITE)?;
        let points = || self.series.iter().flat_map(|s| s.x.iter().zip(&s.y));
        let greatest = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::MIN, f64::max);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::MAX, f64::min);
        if points().next().is_none() {
            return area.present();
        }
        let (left, right) =
            (least(&mut points().map(|p| *p.0)), greatest(&mut points().map(|p| *p.0)));
        let margin = if self.ticks.is_empty() { (right - left) * 0.03 } else { 0.5 };
        let x = left - margin.max(0.1)..right + margin.max(0.1);
        let top = greatest(&mut points().map(|p| *p.1)).max(f64::MIN_POSITIVE);
        if !self.rows.is_empty() {
            // The first row is at the top.
            self.draw_chart(area, x, self.rows.len() as f64 + 0.5..0.5)
        } else if self.log_y {
            let bottom = least(&mut points().map(|p| *p.1)).max(top * 1e-9);
            self.draw_chart(area, x, (bottom / 1.5..top * 1.5).log_scale())
        } else {
            self.draw_chart(area, x, 0.0..top * 1.08)
        }
    }

    fn draw_chart<Y>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        x: std::ops::Range<f64>,
        y: Y,
    ) -> Result<(), DrawError>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        // The legend has a strip of its own, so that it never covers a point.
        let (plot, legend) = area.split_horizontally(SIZE.0 - self.legend_width());
        let mut chart = ChartBuilder::on(&plot)
            .caption(&self.title, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(50)
            .y_label_area_size(if self.rows.is_empty() { 76 } else { 130 })
            .build_cartesian_2d(x, y)?;
        let columns = if self.ticks.is_empty() { 10 } else { 2 * self.ticks.len() + 1 };
        chart
            .configure_mesh()
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_labels(columns)
            .x_label_formatter(&|x| self.tick((x * 1e6).round() / 1e6))
            .y_labels(if self.rows.is_empty() { 10 } else { 2 * self.rows.len() + 1 })
            .y_label_formatter(&|y| self.row(*y))
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 16))
            .light_line_style(WHITE)
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let points = || series.x.iter().copied().zip(series.y.iter().copied());
            if self.ticks.is_empty() && self.rows.is_empty() {
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
            }
            // Lines with a reused colour have rings.
            let style = || match index < COLOURS.len() {
                true => colour.filled(),
                false => colour.stroke_width(2),
            };
            chart.draw_series(points().map(|point| Circle::new(point, 4, style())))?;
            let line = 30 + 22 * index as i32;
            legend.draw(&PathElement::new([(4, line), (24, line)], colour.stroke_width(2)))?;
            legend.draw(&Circle::new((14, line), 4, style()))?;
            legend.draw(&Text::new(series.name.clone(), (30, line - 7), ("sans-serif", 14)))?;
        }
        area.present()
    }

    /// Returns the label at `y` of the y axis.
    fn row(&self, y: f64) -> String {
        if self.rows.is_empty() {
            return short(y);
        }
        let whole = (y - y.round()).abs() < 1e-6 && y.round() >= 1.0;
        let name = whole.then(|| self.rows.get(y.round() as usize - 1)).flatten();
        name.cloned().unwrap_or_default()
    }

    fn legend_width(&self) -> u32 {
        let longest = |series: &Series| series.name.chars().count() as u32;
        40 + 8 * self.series.iter().map(longest).max().unwrap_or(0)
    }
}

type DrawError = DrawingAreaErrorKind<std::io::Error>;
