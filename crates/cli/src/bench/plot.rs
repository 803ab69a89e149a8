//! The picture of a distribution: percentile curves, one a series, as SVG.

use std::path::Path;

use plotters::prelude::*;

/// Draws latency (µs) over percentile; the axis stretches towards the worst, as in .hgrm plots.
pub(crate) fn draw(path: &Path, title: &str, series: &[(&str, &[u64])]) -> Result<(), String> {
    draw_curves(path, title, series).map_err(|error| format!("{}: {error}", path.display()))
}

fn draw_curves(
    path: &Path,
    title: &str,
    series: &[(&str, &[u64])],
) -> Result<(), Box<dyn std::error::Error>> {
    let longest = series.iter().map(|(_, values)| values.len()).max().unwrap_or(1).max(2);
    let x_max = (longest as f64).log10();
    let highest = series.iter().flat_map(|(_, v)| v.iter()).max().copied().unwrap_or(1);
    let lowest = series.iter().flat_map(|(_, v)| v.iter()).min().copied().unwrap_or(1);
    // Whole decades, or a narrow range would have no label.
    let decade =
        |ns: u64, round: fn(f64) -> f64| 10_f64.powf(round((ns.max(1) as f64 / 1000.0).log10()));
    let y = decade(lowest, f64::floor)..decade(highest + 1, f64::ceil);

    let root = SVGBackend::new(path, (960, 540)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..x_max, y.log_scale())?;
    // The axis counts nines: at x, one in 10^x is slower.
    let percentile = |x: &f64| format!("{:.*}", x.ceil() as usize, 100.0 - 100.0 / 10_f64.powf(*x));
    chart
        .configure_mesh()
        .x_labels(x_max as usize + 1)
        .x_desc("percentile")
        .y_desc("round trip, µs (log)")
        .x_label_formatter(&percentile)
        .y_label_formatter(&|us| format!("{us:.0}"))
        .draw()?;
    let colors = [BLUE, RED, full(0, 128, 0), full(200, 120, 0), MAGENTA, BLACK];
    for (n, (name, values)) in series.iter().enumerate() {
        let color = colors[n % colors.len()];
        let line = LineSeries::new(curve(values), color.stroke_width(2));
        chart
            .draw_series(line)?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

const fn full(r: u8, g: u8, b: u8) -> RGBColor {
    RGBColor(r, g, b)
}

/// Points of one series: at most a few hundred, dense towards the worst.
fn curve(values: &[u64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let mut points = Vec::new();
    let mut last = usize::MAX;
    for step in 0..=400 {
        // The share that is slower falls from 1 to 1/n in even steps of its logarithm.
        let slower = (n.max(1) as f64).powf(-f64::from(step) / 400.0);
        let rank = (((1.0 - slower) * n as f64) as usize).min(n.saturating_sub(1));
        if rank != last && n > 0 {
            points.push((-slower.log10(), sorted[rank] as f64 / 1000.0));
            last = rank;
        }
    }
    points
}
