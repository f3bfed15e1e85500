//! The plots, as SVG: distributions of times, and lines over the number of tasks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::load::Outcome;
use crate::load::{Latency, median};

/// Width and height, in points.
const SIZE: (u32, u32) = (760, 420);

const CURVE_POINTS: u32 = 400;

/// Up to which part of the calls a distribution is drawn: what lies beyond is a few calls.
const QUANTILE_MAX: f64 = 0.995;

/// Colours that are told apart by the colour-blind too.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Plot {
    LatencyRun,
    LatencyZooKeeper,
    HandoffZooKeeper,
    ThroughputMemory,
    ThroughputZooKeeper,
}

impl Plot {
    /// The name of its file, and its title.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::LatencyRun => ("latency-run.svg", "A whole command under a lock"),
            Self::LatencyZooKeeper => ("latency-zookeeper.svg", "Uncontended lock + release on Apache ZooKeeper"),
            Self::HandoffZooKeeper => ("hand-off-zookeeper.svg", "A hand-off on Apache ZooKeeper, Strict"),
            Self::ThroughputMemory => ("throughput-memory.svg", "Grants of one lock in memory"),
            Self::ThroughputZooKeeper => ("throughput-zookeeper.svg", "Grants of one lock on Apache ZooKeeper"),
        }
    }

    /// What the axes of lines show.
    const fn axes(self) -> (&'static str, &'static str) {
        match self {
            Self::HandoffZooKeeper => ("waiters", "milliseconds"),
            _ => ("tasks", "grants a second"),
        }
    }
}

/// What is known for one plot: series by name.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    pub(super) latencies: BTreeMap<String, Latency>,
    /// Of each x, what the rounds brought.
    pub(super) lines: BTreeMap<String, BTreeMap<u32, Vec<f64>>>,
}

/// Draws what there are figures for, each plot into its file.
pub(crate) fn draw(sketches: &BTreeMap<Plot, Sketch>, folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    for (plot, sketch) in sketches {
        let file = folder.join(plot.names().0);
        let area = SVGBackend::new(&file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        if sketch.lines.is_empty() {
            draw_latencies(&area, *plot, &sketch.latencies)?;
        } else {
            draw_lines(&area, *plot, &sketch.lines)?;
        }
        area.present()?;
    }
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The part of the calls that took at most each time.
fn draw_latencies(area: &Area<'_>, plot: Plot, latencies: &BTreeMap<String, Latency>) -> Outcome<()> {
    let all: Vec<_> = latencies.iter().filter(|(_, latency)| !latency.is_empty()).collect();
    let millis = |latency: &Latency, part: f64| latency.quantile(part) * 1e3;
    let least = all.iter().map(|(_, latency)| millis(latency, 0.0)).fold(f64::INFINITY, f64::min);
    let most = all.iter().map(|(_, latency)| millis(latency, QUANTILE_MAX)).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(plot.names().1, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((least..most).log_scale(), 0.0..100.0)?;
    chart.configure_mesh().x_desc("milliseconds").y_desc("% of the calls took at most this").draw()?;
    for ((name, latency), colour) in all.into_iter().zip(COLOURS) {
        let curve = (0..=CURVE_POINTS).map(|index| {
            let part = f64::from(index) / f64::from(CURVE_POINTS) * QUANTILE_MAX;
            (millis(latency, part), part * 100.0)
        });
        let label = format!("{name}: median {:.2} ms", millis(latency, 0.5));
        chart
            .draw_series(LineSeries::new(curve, colour.stroke_width(2)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().position(SeriesLabelPosition::LowerRight).background_style(WHITE).draw()?;
    Ok(())
}

fn draw_lines(area: &Area<'_>, plot: Plot, lines: &BTreeMap<String, BTreeMap<u32, Vec<f64>>>) -> Outcome<()> {
    let medians: BTreeMap<&String, Vec<(f64, f64)>> = lines
        .iter()
        .map(|(name, line)| (name, line.iter().map(|(x, y)| (f64::from(*x), median(y.clone()))).collect()))
        .collect();
    let values = |pick: fn(&(f64, f64)) -> f64| medians.values().flatten().map(pick).collect::<Vec<_>>();
    let bounds = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        (least * 0.7)..(most * 1.4)
    };
    let (x, y) = (bounds(&values(|point| point.0)), bounds(&values(|point| point.1)));
    let mut chart = ChartBuilder::on(area)
        .caption(plot.names().1, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(x.log_scale(), y.log_scale())?;
    let plain = |value: &f64| super::row::digits(*value).trim_end_matches(".00").trim_end_matches(".0").to_owned();
    chart
        .configure_mesh()
        .x_desc(plot.axes().0)
        .y_desc(plot.axes().1)
        .x_label_formatter(&plain)
        .y_label_formatter(&plain)
        .draw()?;
    for ((name, line), colour) in medians.into_iter().zip(COLOURS) {
        let points = line.clone();
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::MiddleRight).background_style(WHITE).draw()?;
    Ok(())
}
