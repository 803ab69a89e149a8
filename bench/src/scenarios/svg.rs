//! Charts of report.html: lines over two axes as SVG. The page's style sheet colors them, in light
//! and dark mode.

use std::fmt::Write;

/// Number of line colors, used in turn.
pub(super) const COLORS: usize = 8;

/// Escapes text for an element or an attribute.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A chart.
pub(super) struct Chart<'a> {
    /// Description of the chart for readers who cannot see it.
    pub(super) title: &'a str,
    /// Names of the axes.
    pub(super) axes: [&'a str; 2],
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

/// One line; its index gives its color.
pub(super) struct Line {
    pub(super) points: Vec<(f64, f64)>,
    pub(super) color: usize,
    /// True for a dashed line, as floors have.
    pub(super) dashed: bool,
}

/// An axis from its lowest to its highest value.
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) is_logarithmic: bool,
    /// Positions and labels of the marks.
    pub(super) marks: Vec<(f64, String)>,
}

impl Axis {
    /// Returns a logarithmic axis around the values, marked at each power of ten and between.
    pub(super) fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high.max(low * 1.01)) };
        let decades = high.log10() - low.log10();
        let steps: &[f64] = match decades {
            decades if decades < 0.5 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            decades if decades < 2.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let marks =
            powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        let (from, to) = (low / 1.05, high * 1.05);
        let marks = marks.filter(|mark| (from..=to).contains(mark));
        let marks = marks.map(|mark| (mark, short(mark))).collect();
        Self { from, to, is_logarithmic: true, marks }
    }

    /// Returns the position of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let at = |value: f64| if self.is_logarithmic { value.log10() } else { value };
        ((at(value) - at(self.from)) / (at(self.to) - at(self.from))).clamp(0.0, 1.0)
    }
}

/// Formats a number with few digits.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value if value >= 1.0 => format!("{}", (value * 10.0).round() / 10.0),
        value => format!("{value:.3}").trim_end_matches('0').to_owned(),
    }
}

/// Size of the chart, and of the margins around the plot.
const SIZE: (f64, f64) = (760.0, 380.0);
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

impl Chart<'_> {
    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (SIZE.0 - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        SIZE.1 - BOTTOM - self.y.place(value) * (SIZE.1 - TOP - BOTTOM)
    }

    /// Returns the chart as an element.
    pub(super) fn draw(&self) -> String {
        let (width, height) = SIZE;
        let (right, bottom) = (width - RIGHT, height - BOTTOM);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
            escaped(self.title)
        );
        // Writing into a String never fails.
        for (value, name) in &self.x.marks {
            let x = self.x(*value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                bottom + 18.0
            );
        }
        for (value, name) in &self.y.marks {
            let y = self.y(*value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        let [x_name, y_name] = self.axes.map(escaped);
        let (middle, across) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let _ = write!(
            svg,
            "<text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{x_name}</text>\
             <text transform=\"translate(14 {across:.0}) rotate(-90)\" \
             text-anchor=\"middle\">{y_name}</text>",
            height - 8.0
        );
        for line in &self.lines {
            let points = line.points.iter();
            let points: Vec<String> =
                points.map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
            let dashed = if line.dashed { " dashed" } else { "" };
            let color = line.color % COLORS;
            let _ = write!(
                svg,
                "<polyline class=\"c{color}{dashed}\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        svg + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_keeps_its_lines_in_its_field() {
        let points = vec![(1.0, 7.0), (100.0, 70.0), (1_000.0, 900.0)];
        let chart = Chart {
            title: "a < b",
            axes: ["x", "µs"],
            x: Axis::around(points.iter().map(|(x, _)| *x)),
            y: Axis::around(points.iter().map(|(_, y)| *y)),
            lines: vec![Line { points, color: 9, dashed: true }],
        };
        let svg = chart.draw();
        assert!(svg.contains("aria-label=\"a &lt; b\"") && svg.ends_with("</svg>"), "{svg}");
        assert!(svg.contains("class=\"c1 dashed\""), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let names: Vec<String> = chart.y.marks.iter().map(|(_, name)| name.clone()).collect();
        assert_eq!(names, ["10", "100"]);
    }

    #[test]
    fn an_axis_without_values_is_one_still() {
        let axis = Axis::around([].into_iter());
        assert_eq!((axis.place(axis.from), axis.place(axis.to)), (0.0, 1.0));
        let one = Axis::around([5.0].into_iter());
        assert!(one.place(5.0) > 0.0 && one.place(5.0) < 1.0 && !one.marks.is_empty());
    }
}
