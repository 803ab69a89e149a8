//! The published pages that measure round trips: their messages, pace and configurations.

use std::path::Path;

use super::column::Column;

/// A published page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Number of the scenario.
    pub(crate) scenario: &'static str,
    /// The heading of tables and charts.
    pub(crate) title: &'static str,
    /// The other side's answer to an order.
    pub(crate) answer: Answer,
    /// True if orders and reports carry ClientID(109).
    pub(crate) client_id: bool,
    /// Orders to measure.
    pub(crate) messages: usize,
    /// Orders before the measured ones.
    pub(crate) warm_up: usize,
    /// Orders per second; without a pace each order follows the previous answer.
    pub(crate) rate: Option<u64>,
    /// Slices of a run; engine and floor alternate.
    pub(crate) slices: usize,
    /// The page's figures for itself and others, in microseconds, measured on its own machines.
    pub(crate) published: &'static [Published],
    columns: &'static [(&'static str, &'static str)],
}

/// A row of a published page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) name: &'static str,
    /// Min, max, average, p50, p95, p99, as the page prints them.
    pub(crate) us: [&'static str; 6],
}

const fn row(name: &'static str, us: [&'static str; 6]) -> Published {
    Published { name, us }
}

/// The acceptor's answer to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An ExecutionReport(8).
    Report,
    /// The same message.
    Echo,
}

impl Answer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Echo => "echo",
        }
    }
}

macro_rules! columns {
    ($page:literal: $($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../configurations/", $page, "/", $name, ".toml")),
        )),+]
    };
}

/// S1: "Latency2" of FIX Antenna C++ 2.19.
pub(crate) static LATENCY: Page = Page {
    name: "latency",
    scenario: "S1",
    title: "Order round trip (S1): NewOrderSingle(D) to ExecutionReport(8), paced",
    answer: Answer::Report,
    client_id: false,
    messages: 10_000,
    warm_up: 0,
    rate: Some(1_000),
    slices: 10,
    published: &[
        row("FIX Antenna C++, Default", ["47.1", "190.7", "51.6", "49.8", "59.9", "67.1"]),
        row("FIX Antenna C++, Aggressive", ["46.1", "218.0", "51.1", "48.8", "59.0", "90.4"]),
        row("FIX Antenna C++, Balanced", ["27.3", "217.5", "31.5", "29.9", "38.9", "45.8"]),
        row("FIX Antenna C++, Opt.hard.spin", ["19.0", "223.7", "21.6", "21.0", "24.0", "25.3"]),
        row("FIX Antenna C++, Bal.onload", ["11.3", "199.5", "13.2", "11.8", "18.6", "24.6"]),
        row("FIX Antenna C++, Opt.hard", ["8.3", "13.2", "8.7", "8.5", "9.3", "10.4"]),
        row(
            "QuickFIX 1.14.3, no validation",
            ["155.0", "371.5", "158.9", "157.6", "165.0", "177.4"],
        ),
        row("QuickFIX 1.14.3, validation", ["157", "377.8", "161.8", "159.5", "167.1", "183.5"]),
    ],
    columns: columns!(
        "latency":
        "default",
        "aggressive",
        "balanced",
        "optimized-hard-spin",
        "balanced-onload",
        "optimized-hard",
    ),
};

/// S4a: the echo of FIX Antenna .NET Core 0.9.2.
pub(crate) static ECHO: Page = Page {
    name: "echo",
    scenario: "S4a",
    title: "Echo (S4a): a message and itself, back in the same session, paced",
    answer: Answer::Echo,
    client_id: false,
    messages: 100_000,
    warm_up: 1_000,
    rate: Some(5_000),
    slices: 5,
    published: &[
        row(
            "FIX Antenna .NET Core 0.9.2, A (memory)",
            ["13.6–13.8", "212.9–800.8", "14.7–14.9", "14.2–14.4", "15.6–15.8", "18.3–18.8"],
        ),
        row(
            "FIX Antenna .NET Core 0.9.2, B (file)",
            ["25.8–26.0", "377.6–422.9", "27.7–27.9", "27.0–27.2", "30.0–30.2", "33.8–33.9"],
        ),
    ],
    columns: columns!("echo": "memory", "file"),
};

/// S5: the round trip of FIX Antenna Java 2.15.27.
pub(crate) static ROUND_TRIP: Page = Page {
    name: "round-trip",
    scenario: "S5",
    title: "Round trip (S5): each order after the report of the one before",
    answer: Answer::Report,
    client_id: true,
    messages: 100_000,
    warm_up: 5_000,
    rate: None,
    slices: 10,
    published: &[
        row("FIX Antenna Java, balanced", ["39.9", "1442.3", "45.8", "43.0", "62.6", "74.8"]),
        row("FIX Antenna Java, optimized", ["27.2", "1200.7", "31.1", "29.5", "39.3", "57.6"]),
        row("QuickFIX/J 1.6.3, default", ["85.7", "3891.8", "258.0", "113.5", "182.1", "2107.0"]),
        row(
            "QuickFIX/J 1.6.3, optimized",
            ["70.0", "43565.9", "258.0", "114.3", "165.0", "1336.4"],
        ),
    ],
    columns: columns!("round-trip": "balanced", "optimized"),
};

/// All pages.
pub(crate) static PAGES: [&Page; 3] = [&LATENCY, &ECHO, &ROUND_TRIP];

impl Page {
    /// Returns the page's columns, in its order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Result<Column, String>> + '_ {
        self.columns.iter().map(|(name, text)| Column::parse(name, text))
    }

    /// Returns the named columns: those of the page, `all`, or files of the user.
    pub(crate) fn named(&self, names: &[String]) -> Result<Vec<Column>, String> {
        let mut columns = Vec::new();
        for name in names {
            if name == "all" {
                columns.extend(self.columns().collect::<Result<Vec<_>, _>>()?);
            } else {
                columns.push(self.column(name)?);
            }
        }
        Ok(columns)
    }

    /// Returns a column by its name, by the page's spelling of the name, or by its file.
    pub(crate) fn column(&self, name: &str) -> Result<Column, String> {
        let canonical = name.to_lowercase().replace(['.', '_'], "-");
        if let Some((name, text)) = self.columns.iter().find(|(known, _)| *known == canonical) {
            return Column::parse(name, text);
        }
        let path = Path::new(name);
        if path.exists() {
            let mut column = Column::load(path)?;
            if self.columns.iter().any(|(known, _)| *known == column.name) {
                // Its figures are not those of the page's column.
                column.name = format!("own-{}", column.name);
            }
            return Ok(column);
        }
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        Err(format!(
            "there is no configuration {name}; known are {} and all, or name a file",
            names.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_can_be_read() {
        for page in [&LATENCY, &ECHO, &ROUND_TRIP] {
            for column in page.columns() {
                let column = column.unwrap();
                assert!(!column.beside.title.is_empty() && !column.beside.advice.is_empty());
            }
        }
        assert_eq!(LATENCY.columns().count(), 6);
        assert_eq!(LATENCY.column("Optimized.hard.spin").unwrap().name, "optimized-hard-spin");
        let error = LATENCY.column("nonsense").unwrap_err();
        assert!(error.contains("known are default, aggressive, "), "{error}");
    }
}
