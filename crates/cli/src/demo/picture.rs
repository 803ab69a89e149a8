//! Draws the distribution of latencies as an SVG picture, with one percentile curve for each
//! series.

use std::fmt::Write as _;

/// A name, and round-trip times in nanoseconds in the order of sending.
pub(super) type Series = (String, Vec<u64>);

/// Left, top, right and bottom edge of the chart in the picture, in pixels.
const CHART: (f64, f64, f64, f64) = (80.0, 130.0, 930.0, 560.0);
/// Marked percentiles.
const MARKS: [(f64, &str); 5] =
    [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];
const COLORS: [&str; 4] = ["#0044cc", "#88aaee", "#cc2200", "#ee9988"];
/// Number of segments of a curve.
const POINTS: usize = 200;

/// Draws latency against percentile. Both axes are logarithmic, which stretches the slowest
/// percentiles.
pub(super) fn draw(title: &str, all: &[Series]) -> String {
    let all: Vec<(&str, Vec<u64>)> = all.iter().map(|(name, ns)| (&**name, sorted(ns))).collect();
    let shortest = all.iter().map(|(_, ns)| ns.len()).min().unwrap_or(1).max(2);
    // The x axis is logarithmic: at position x, one in 10^x round trips is slower.
    let x_max = (shortest as f64).log10();
    let ends = all.iter().flat_map(|(_, ns)| [ns.first(), ns.last()]).flatten();
    let decades = ends.map(|ns| (*ns as f64).max(1.0).log10());
    let (low, high) = decades.fold((f64::MAX, 0.0), |(low, high): (f64, f64), decade| {
        (low.min(decade.floor()), high.max(decade.ceil()))
    });
    let low = low.min(high);
    let (left, top, right, bottom) = CHART;
    let x_of = |x: f64| left + (right - left) * x / x_max;
    let y_of = |decade: f64| bottom - (bottom - top) * (decade - low) / (high - low).max(1.0);
    let mut svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"640\" \
                   font-family=\"sans-serif\" font-size=\"13\">\n\
                   <rect width=\"960\" height=\"640\" fill=\"white\"/>\n"
        .to_owned();
    text(&mut svg, (left, 28.0), "start", title);
    text(&mut svg, (left, 610.0), "start", "round-trip time in µs, by percentile");
    for decade in low as i32..=high as i32 {
        let y = y_of(decade.into());
        line(&mut svg, (left, y), (right, y));
        text(&mut svg, (left - 8.0, y + 4.0), "end", &us(10_f64.powi(decade)));
    }
    let shown = MARKS.map(|(part, name)| (-(1.0 - part).log10(), name));
    for (x, name) in shown.into_iter().filter(|(x, _)| *x <= x_max) {
        line(&mut svg, (x_of(x), top), (x_of(x), bottom));
        text(&mut svg, (x_of(x), bottom + 20.0), "middle", name);
    }
    for (n, (name, ns)) in all.iter().enumerate() {
        let color = COLORS[n % COLORS.len()];
        let point = |n: usize| {
            let x = x_max * n as f64 / POINTS as f64;
            let ns = quantile(ns, 1.0 - 10_f64.powf(-x));
            format!("{:.1},{:.1}", x_of(x), y_of((ns as f64).max(1.0).log10()))
        };
        let points: Vec<String> = (0..=POINTS).map(point).collect();
        // Writing to a `String` never fails.
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" points=\"{}\"/>",
            points.join(" ")
        );
        let y = 50.0 + 18.0 * n as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{}\" width=\"24\" height=\"3\" fill=\"{color}\"/>",
            y - 5.0
        );
        let [p50, p99] = [0.5, 0.99].map(|part| us(quantile(ns, part) as f64));
        let label = format!("{}: p50 {p50} µs, p99 {p99} µs", name.trim());
        text(&mut svg, (left + 32.0, y), "start", &label);
    }
    svg + "</svg>\n"
}

/// Returns the `part` quantile of the sorted values; `part` is from 0 to 1.
pub(super) fn quantile(sorted: &[u64], part: f64) -> u64 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

pub(super) fn sorted(times: &[u64]) -> Vec<u64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted
}

fn us(ns: f64) -> String {
    format!("{}", (ns / 100.0).round() / 10.0)
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ccc\"/>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_one_of_numbers() {
        for times in [vec![], vec![0], vec![5_000; 3], (1..5_000).collect()] {
            let svg = draw("t", &[("a".to_owned(), times.clone()), ("b".to_owned(), times)]);
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("<polyline").count(), 2);
        }
    }
}
