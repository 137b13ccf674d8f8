//! Draws bars: a group of bars for each category, or one bar in parts.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::axis::{Axis, Extent};
use super::colors;

/// Height of a category and of the axis, and the total width, in the picture's units.
const CATEGORY_HEIGHT: u32 = 44;
const AXIS_HEIGHT: u32 = 56;
const WIDTH: u32 = 880;
const FONT: (&str, u32) = ("sans-serif", 14);
/// The share of a category's height that its bars fill.
const FILL: f64 = 0.76;

/// One picture. Bars are horizontal, so that names have room.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What the picture shows.
    pub caption: String,
    /// An additional note of one sentence; may be empty.
    pub note: String,
    /// The axis of the values; linear, so that lengths can be compared.
    pub axis: Axis,
    /// The categories, from top to bottom.
    pub categories: Vec<String>,
    /// A value for each category.
    pub series: Vec<(String, Vec<f64>)>,
    /// Whether the series are parts of one bar rather than separate bars.
    pub is_stacked: bool,
}

impl Bars {
    /// The picture as SVG.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub(super) fn to_svg(&self) -> Result<String> {
        let bars_each = if self.is_stacked {
            1
        } else {
            self.series.len()
        };
        let category = CATEGORY_HEIGHT.max(bars_each as u32 * 18);
        let height = AXIS_HEIGHT + category * self.categories.len() as u32;
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        self.draw(&area)
            .and_then(|()| area.present().map_err(|error| anyhow!("{error}")))?;
        drop(area);
        Ok(svg)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let rectangles = self.rectangles();
        let extent = self.axis.extent(rectangles.iter().map(|bar| bar.right));
        let count = self.categories.len();
        let downwards = Extent {
            low: count as f64,
            high: 0.0,
            ticks: (0..count).map(|index| index as f64 + 0.5).collect(),
        };
        let longest = self
            .categories
            .iter()
            .map(|name| name.chars().count())
            .max();
        let mut chart = ChartBuilder::on(area)
            .margin_top(6)
            .margin_right(28)
            .x_label_area_size(46)
            .y_label_area_size(16 + 8 * longest.unwrap_or(0) as u32)
            .build_cartesian_2d(extent, downwards)
            .map_err(|error| anyhow!("{error}"))?;
        let name = |at: &f64| {
            self.categories
                .get(*at as usize)
                .cloned()
                .unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(colors::LINE)
            .axis_style(colors::FAINT)
            .label_style(FONT.into_font().color(&colors::INK))
            .x_desc(self.axis.label.as_str())
            .axis_desc_style(FONT.into_font().color(&colors::FAINT))
            .x_label_formatter(&|at| self.axis.tick_label(*at))
            .y_label_formatter(&name)
            .draw()
            .map_err(|error| anyhow!("{error}"))?;
        let bars = rectangles.into_iter().map(|bar| {
            let corners = [(bar.left, bar.top), (bar.right, bar.bottom)];
            Rectangle::new(corners, colors::series(bar.series).filled())
        });
        chart
            .draw_series(bars)
            .map_err(|error| anyhow!("{error}"))?;
        Ok(())
    }

    /// Places the bars: values to the right, categories downwards.
    fn rectangles(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        for category in 0..self.categories.len() {
            let first_top = category as f64 + (1.0 - FILL) / 2.0;
            let mut left = 0.0;
            for (series, (_, values)) in self.series.iter().enumerate() {
                let value = values.get(category).copied().unwrap_or(0.0);
                let bar = if self.is_stacked {
                    let right = left + value;
                    let bar = Bar {
                        series,
                        left,
                        right,
                        top: first_top,
                        bottom: first_top + FILL,
                    };
                    left = right;
                    bar
                } else {
                    let height = FILL / self.series.len() as f64;
                    let top = first_top + height * series as f64;
                    Bar {
                        series,
                        left: 0.0,
                        right: value,
                        top,
                        bottom: top + height * 0.92,
                    }
                };
                bars.push(bar);
            }
        }
        bars
    }
}

/// One rectangle, in axis units.
struct Bar {
    series: usize,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}
