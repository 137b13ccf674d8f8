//! Draws lines and dots over two axes.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::axis::{Axis, Extent};
use super::colors;

/// Width and height, in the picture's units.
const SIZE: (u32, u32) = (880, 330);
const FONT: (&str, u32) = ("sans-serif", 14);
/// Height of the caption and series names above a picture in its own file.
const HEAD_HEIGHT: u32 = 60;
const CAPTION_FONT: (&str, u32) = ("sans-serif", 18);

/// One picture.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What the picture shows.
    pub caption: String,
    /// An additional note of one sentence; may be empty.
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines and points.
    pub series: Vec<Series>,
    /// Ranges of the x axis that are shaded and named.
    pub bands: Vec<Band>,
}

/// The values of one series.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// How it is drawn.
    pub shape: Shape,
    /// The points; in order of x for a line.
    pub points: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A line.
    Line,
    /// A line with a dot at each value; suits few values.
    MarkedLine,
    /// Dots alone.
    Dots,
}

/// A range of the x axis.
#[derive(Clone, Debug)]
pub struct Band {
    /// The name beside it.
    pub name: String,
    /// Its first value.
    pub from: f64,
    /// Its last value.
    pub to: f64,
}

impl Lines {
    /// The picture as SVG.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub(super) fn to_svg(&self) -> Result<String> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        self.draw(&area)
            .and_then(|()| area.present().map_err(|error| anyhow!("{error}")))?;
        drop(area);
        Ok(svg)
    }

    /// The picture as a separate file, with its caption and the names of its series.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn to_file(&self) -> Result<String> {
        let mut svg = String::new();
        let size = (SIZE.0, SIZE.1 + HEAD_HEIGHT);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
        let (head, body) = area.split_vertically(HEAD_HEIGHT);
        self.draw_head(&head)?;
        self.draw(&body)
            .and_then(|()| area.present().map_err(|error| anyhow!("{error}")))?;
        drop((area, head, body));
        Ok(svg)
    }

    fn draw_head(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let text = |text: &str, at: (i32, i32), style: TextStyle<'_>| {
            let text = Text::new(text.to_owned(), at, style);
            area.draw(&text).map_err(|error| anyhow!("{error}"))
        };
        text(
            &self.caption,
            (16, 12),
            CAPTION_FONT.into_font().color(&colors::INK),
        )?;
        let mut left = 16;
        for (place, series) in self.series.iter().enumerate() {
            let square = Rectangle::new(
                [(left, 40), (left + 12, 52)],
                colors::series(place).filled(),
            );
            area.draw(&square).map_err(|error| anyhow!("{error}"))?;
            text(
                &series.name,
                (left + 18, 39),
                FONT.into_font().color(&colors::INK),
            )?;
            left += 42 + 8 * series.name.chars().count() as i32;
        }
        Ok(())
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let ends = self.bands.iter().flat_map(|band| [band.from, band.to]);
        let x = self.x.extent(points().map(|point| point.0).chain(ends));
        let y = self.y.extent(points().map(|point| point.1));
        let (top, bottom) = (y.high, y.low);
        let mut chart = ChartBuilder::on(area)
            .margin_top(26)
            .margin_right(24)
            .x_label_area_size(48)
            .y_label_area_size(78)
            .build_cartesian_2d(x, y)
            .map_err(|error| anyhow!("{error}"))?;
        for band in &self.bands {
            let shade =
                Rectangle::new([(band.from, top), (band.to, bottom)], colors::BAND.filled());
            let name = FONT.into_font().color(&colors::FAINT);
            // The name is above the picture, where no line crosses it.
            let name = Text::new(band.name.clone(), (2, -18), name);
            let name = EmptyElement::at((band.from, top)) + name;
            chart
                .draw_series([shade])
                .map_err(|error| anyhow!("{error}"))?;
            chart
                .draw_series([name])
                .map_err(|error| anyhow!("{error}"))?;
        }
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(colors::LINE)
            .axis_style(colors::FAINT)
            .label_style(FONT.into_font().color(&colors::INK))
            .x_desc(self.x.label.as_str())
            .y_desc(self.y.label.as_str())
            .axis_desc_style(FONT.into_font().color(&colors::FAINT))
            .x_label_formatter(&|at| self.x.tick_label(*at))
            .y_label_formatter(&|at| self.y.tick_label(*at))
            .draw()
            .map_err(|error| anyhow!("{error}"))?;
        // The first series is drawn last, so it lies on top where series coincide.
        for (place, series) in self.series.iter().enumerate().rev() {
            let position = |(x, y): &(f64, f64)| Some((self.x.position(*x)?, self.y.position(*y)?));
            let points: Vec<(f64, f64)> = series.points.iter().filter_map(position).collect();
            draw_series(&mut chart, place, series.shape, &points)?;
        }
        Ok(())
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Extent, Extent>>;

/// Draws series number `place` in its palette colour; past the palette with another mark.
fn draw_series(
    chart: &mut Chart<'_, '_>,
    place: usize,
    shape: Shape,
    points: &[(f64, f64)],
) -> Result<()> {
    let color = colors::series(place);
    let at = points.iter().copied();
    let dot = |radius| move |at| Circle::new(at, radius, color.filled());
    let marked = match (shape, place / colors::COUNT) {
        (Shape::Line, _) => Ok(()),
        (Shape::Dots, _) => chart.draw_series(at.clone().map(dot(3))).map(drop),
        (Shape::MarkedLine, 0) => chart.draw_series(at.clone().map(dot(4))).map(drop),
        (Shape::MarkedLine, 1) => {
            let triangle = |at| TriangleMarker::new(at, 6, color.filled());
            chart.draw_series(at.clone().map(triangle)).map(drop)
        }
        (Shape::MarkedLine, _) => {
            let cross = |at| Cross::new(at, 5, color.stroke_width(2));
            chart.draw_series(at.clone().map(cross)).map(drop)
        }
    };
    marked.map_err(|error| anyhow!("{error}"))?;
    if shape != Shape::Dots {
        let line = LineSeries::new(at, color.stroke_width(2));
        chart
            .draw_series(line)
            .map_err(|error| anyhow!("{error}"))?;
    }
    Ok(())
}
