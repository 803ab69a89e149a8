//! The published pages that measure round trips: their messages, pace and configurations.

use std::path::Path;

use super::column::Column;

/// A published page, with the parameters of its benchmark.
#[derive(Debug)]
pub(crate) struct Page {
    /// Name of the scenario on the command line.
    pub(crate) name: &'static str,
    /// Number of the scenario, such as S1.
    pub(crate) scenario: &'static str,
    /// The heading of tables and charts.
    pub(crate) title: &'static str,
    /// The other side's answer to an order.
    pub(crate) answer: Answer,
    /// True if orders and reports carry ClientID(109).
    pub(crate) client_id: bool,
    /// Number of measured orders.
    pub(crate) messages: usize,
    /// Number of unmeasured orders before the first measured order.
    pub(crate) warm_up: usize,
    /// Orders per second; without a rate, each order follows the answer to the previous order.
    pub(crate) rate: Option<u64>,
    /// Number of slices of a run; engine and floor alternate.
    pub(crate) slices: usize,
    columns: &'static [(&'static str, &'static str)],
}

/// The acceptor's answer to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An ExecutionReport(8).
    Report,
    /// The acceptor returns the order unchanged.
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
    columns: columns!("round-trip": "balanced", "optimized"),
};

/// All pages.
pub(crate) static PAGES: [&Page; 3] = [&LATENCY, &ECHO, &ROUND_TRIP];

impl Page {
    /// Returns the configurations of the page, in the page's order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Result<Column, String>> + '_ {
        self.columns.iter().map(|(name, text)| Column::parse(name, text))
    }

    /// Returns the configurations with these names; a name is a configuration of the page, `all`,
    /// or a file of the user.
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

    /// Returns a configuration by its name, by the page's spelling of the name, or by its file.
    pub(crate) fn column(&self, name: &str) -> Result<Column, String> {
        let canonical = name.to_lowercase().replace(['.', '_'], "-");
        if let Some((name, text)) = self.columns.iter().find(|(known, _)| *known == canonical) {
            return Column::parse(name, text);
        }
        let path = Path::new(name);
        if path.exists() {
            let mut column = Column::load(path)?;
            if self.columns.iter().any(|(known, _)| *known == column.name) {
                // A user's file with a known name gets another name, because its figures do not
                // belong to the page's configuration.
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
