//! Draws charts as SVG: latencies as percentile curves, and costs as lines.
//!
//! Invariant: all percentile curves end at the same percentile, the highest one that the shortest
//! series supports.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{Figures, Machine, us};

/// Percentiles with a mark on each curve, and their labels.
const MARKS: [(f64, &str); 3] = [(0.50, "p50"), (0.95, "p95"), (0.99, "p99")];

/// Draws latency in microseconds by percentile, one curve per series. The percentile axis is
/// stretched towards 100 %, as in .hgrm plots.
pub(crate) fn draw(path: &Path, title: &str, series: &[(&str, &[u64])]) -> Result<(), String> {
    let root = SVGBackend::new(path, (960, 640)).into_drawing_area();
    draw_in(root, [title, &about()], series).map_err(|error| format!("{}: {error}", path.display()))
}

/// Draws one line per series over a logarithmic x axis; the y axis starts at 0.
pub(crate) fn lines(
    path: &Path,
    title: &str,
    axes: [&str; 2],
    lines: &[(&str, &[(f64, f64)])],
) -> Result<(), String> {
    let root = SVGBackend::new(path, (960, 640)).into_drawing_area();
    lines_in(root, [title, &about()], axes, lines)
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the text about date and machine for the chart.
fn about() -> String {
    let machine = Machine::this();
    let day = transfix::clock::now().utc.to_string();
    format!(
        "{}-{}-{}; {}, {} CPUs, kernel {}",
        &day[..4],
        &day[4..6],
        &day[6..8],
        machine.cpu_model,
        machine.cpus,
        machine.kernel
    )
}

/// Height of a line of the legend, in pixels.
const LEGEND_LINE: i32 = 18;

/// The colors of the curves; a chart with more curves repeats them.
const COLORS: [RGBColor; 6] =
    [BLUE, RED, full(0, 128, 0), full(200, 120, 0), MAGENTA, full(90, 90, 90)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_in(
    root: Area<'_>,
    [title, about]: [&str; 2],
    series: &[(&str, &[u64])],
) -> Result<(), Box<dyn std::error::Error>> {
    let shortest = series.iter().map(|(_, values)| values.len()).min().unwrap_or(1).max(2);
    // The axis counts nines: at position x, one value in 10^x is slower.
    let x_max = (shortest as f64).log10();
    let curves: Vec<_> = series.iter().map(|(_, values)| curve(values, x_max)).collect();
    let shown = || curves.iter().flatten().map(|(_, us)| *us);
    // The axis spans whole decades, because a narrower range might contain no label.
    let decade = |us: f64, round: fn(f64) -> f64| 10_f64.powf(round(us.max(0.001).log10()));
    let highest = decade(shown().fold(0.0, f64::max) * 1.01, f64::ceil);
    let y = decade(shown().fold(f64::MAX, f64::min), f64::floor)..highest;

    root.fill(&WHITE)?;
    let area = root.titled(title, ("sans-serif", 20))?.titled(about, ("sans-serif", 13))?;
    let (legend, chart_area) = area.split_vertically(LEGEND_LINE * series.len() as i32 + 12);
    for ((n, (name, values)), color) in (0..).zip(series).zip(COLORS.iter().cycle()) {
        let y = 12 + n * LEGEND_LINE;
        legend.draw(&PathElement::new([(80, y + 7), (104, y + 7)], color.stroke_width(2)))?;
        legend.draw(&Text::new(label(name, values), (112, y), ("sans-serif", 13)))?;
    }
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(Percentiles(x_max), y.clone().log_scale())?;
    chart
        .configure_mesh()
        .x_desc("percentile of the round trips, in % (the axis stretches towards the slowest)")
        .y_desc("round trip, µs (logarithmic)")
        .y_label_formatter(&|us| format!("{us:.0}"))
        .draw()?;
    for (share, name) in MARKS {
        let x = place(share);
        if x > x_max {
            continue;
        }
        let line = [(x, y.start), (x, y.end)];
        chart.draw_series([PathElement::new(line, BLACK.mix(0.4))])?;
        let centered = ("sans-serif", 13).into_font().color(&BLACK.mix(0.7));
        let style = centered.pos(Pos::new(HPos::Left, VPos::Top));
        chart.draw_series([Text::new(format!(" {name}"), (x, y.end), style)])?;
    }
    for (curve, color) in curves.into_iter().zip(COLORS.iter().cycle()) {
        let dots = MARKS.map(|(share, _)| at(&curve, place(share)));
        let dots = dots.into_iter().flatten().map(|dot| Circle::new(dot, 3, color.filled()));
        chart.draw_series(dots)?;
        chart.draw_series(LineSeries::new(curve, color.stroke_width(2)))?;
    }
    root.present()?;
    Ok(())
}

fn lines_in(
    root: Area<'_>,
    [title, about]: [&str; 2],
    [x_desc, y_desc]: [&str; 2],
    lines: &[(&str, &[(f64, f64)])],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let least = points().map(|(x, _)| x).fold(f64::MAX, f64::min);
    let most = points().map(|(x, _)| x).fold(least * 10.0, f64::max);
    let highest = points().map(|(_, y)| y).fold(0.0, f64::max) * 1.1;

    root.fill(&WHITE)?;
    let area = root.titled(title, ("sans-serif", 20))?.titled(about, ("sans-serif", 13))?;
    let (legend, chart_area) = area.split_vertically(LEGEND_LINE * lines.len() as i32 + 12);
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d((least..most * 1.2).log_scale(), 0.0..highest)?;
    chart
        .configure_mesh()
        .x_desc(x_desc)
        .y_desc(y_desc)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    for ((n, (name, points)), color) in (0..).zip(lines).zip(COLORS.iter().cycle()) {
        let y = 12 + n * LEGEND_LINE;
        legend.draw(&PathElement::new([(80, y + 7), (104, y + 7)], color.stroke_width(2)))?;
        let all: Vec<_> = points.iter().map(|(_, y)| format!("{y:.0}")).collect();
        let label = format!("{name}: {}", all.join(", "));
        legend.draw(&Text::new(label, (112, y), ("sans-serif", 13)))?;
        let dots = points.iter().map(|point| Circle::new(*point, 3, color.filled()));
        chart.draw_series(dots)?;
        chart.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?;
    }
    root.present()?;
    Ok(())
}

/// Returns the legend of a series: name, number of values, and the marked percentiles.
fn label(name: &str, values: &[u64]) -> String {
    let f = Figures::of(values, 0);
    let [p50, p95, p99, max] = [f.p50_ns, f.p95_ns, f.p99_ns, f.max_ns].map(us);
    format!("{name}: {} round trips, p50 {p50}, p95 {p95}, p99 {p99}, max {max} µs", f.n)
}

const fn full(r: u8, g: u8, b: u8) -> RGBColor {
    RGBColor(r, g, b)
}

/// Returns the axis position of the percentile `share`.
fn place(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// The percentile axis up to the highest percentile, with labels at 0 %, 50 %, 90 %, 95 %, 99 %,
/// 99.9 % …
#[derive(Clone)]
struct Percentiles(f64);

impl Ranged for Percentiles {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        begin + (value / self.0 * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: plotters::coord::ranged1d::KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let nines = (1..=9).map(f64::from);
        let all = [0.0, place(0.5), place(0.95)].into_iter().chain(nines);
        all.filter(|x| *x <= self.0).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.0
    }
}

impl ValueFormatter<f64> for Percentiles {
    fn format_ext(&self, x: &f64) -> String {
        let percent = 100.0 - 100.0 / 10_f64.powf(*x);
        // The label has enough digits to differ from the next label.
        let digits = (x.round() as usize).saturating_sub(2);
        format!("{percent:.digits$} %")
    }
}

/// Returns the points of one curve up to `x_max`: a few hundred at most, more of them at high
/// percentiles.
fn curve(values: &[u64], x_max: f64) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for step in 0..=400 {
        // Points have equal distances on the axis, so the share of slower values decreases
        // logarithmically.
        let x = x_max * f64::from(step) / 400.0;
        let rank = ((1.0 - 10_f64.powf(-x)) * n as f64) as usize;
        if let Some(ns) = sorted.get(rank.min(n.saturating_sub(1))) {
            points.push((x, *ns as f64 / 1000.0));
        }
    }
    points
}

/// Returns the point of the curve nearest to `x`, if the curve extends that far.
fn at(curve: &[(f64, f64)], x: f64) -> Option<(f64, f64)> {
    let end = curve.last()?.0;
    let near = |point: &&(f64, f64)| ((point.0 - x).abs() * 1e9) as u64;
    curve.iter().min_by_key(near).filter(|_| x <= end).map(|(_, us)| (x, *us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_curves_end_at_the_same_percentile() {
        let series: [Vec<u64>; 2] = [(1..=10_000).collect(), (1..=500).collect()];
        let x_max = 500_f64.log10();
        for values in &series {
            let points = curve(values, x_max);
            assert_eq!(points.first().map(|(x, _)| *x), Some(0.0));
            assert!((points.last().unwrap().0 - x_max).abs() < 1e-9);
            // The p50 of each curve lies at the mark of p50.
            let (_, us) = at(&points, place(0.5)).unwrap();
            let middle = values[values.len() / 2] as f64 / 1000.0;
            assert!((us / middle - 1.0).abs() < 0.03, "{us} is not {middle}");
        }
        assert_eq!(at(&curve(&series[1], x_max), place(0.999)), None);
    }

    #[test]
    fn the_axis_has_units() {
        let axis = Percentiles(3.2);
        let labels = [0.0, place(0.5), 1.0, place(0.95), 2.0, 3.0].map(|x| axis.format_ext(&x));
        assert_eq!(labels, ["0 %", "50 %", "90 %", "95 %", "99 %", "99.9 %"]);
    }

    #[test]
    fn the_picture_says_what_it_shows() {
        let dir = transfix_testkit::temp::TempDir::new();
        let path = dir.path().join("latency.svg");
        let values: Vec<u64> = (10_000..12_000).collect();
        draw(&path, "Order round trip (S1)", &[("ours", &values), ("floor", &values[..900])])
            .unwrap();
        let picture = std::fs::read_to_string(&path).unwrap();
        for expected in [
            "Order round trip (S1)",
            " CPUs, kernel ",
            "percentile of the round trips, in %",
            "99 %",
            " p95",
            "ours: 2000 round trips, p50 11.0",
            "floor: 900 round trips",
        ] {
            assert!(picture.contains(expected), "{expected}");
        }
    }
}
