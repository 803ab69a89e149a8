//! Log lines about stages whose latency becomes unusual, or usual again.
//!
//! Invariants: a stage that alternates has at most two lines and a summary in [`TOLD_AGAIN`]
//! windows. Each stage reported as unusual is later reported as usual.

use crate::event;
use transfix_session::SessionId;

use super::LatencyStage;

/// Windows in which a stage is reported as unusual once; further changes are summarized.
pub(super) const TOLD_AGAIN: usize = 30;

/// A change of a stage at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The 99th percentile has become unusual.
    Left { p99_ns: u64, usual_ns: u64 },
    /// The 99th percentile is usual again.
    Returned { p99_ns: u64, usual_ns: u64 },
    /// The stage no longer counts as unusual, because several windows had too few times to compare.
    Rests { usual_ns: u64 },
    /// The 99th percentile has been unusual for so long that it now counts as usual.
    Adopted { p99_ns: u64 },
}

/// A log line about a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Changed(Change),
    /// A summary: how often, and within how many windows, the stage has become unusual since the
    /// last report.
    Again {
        times: u64,
        windows: usize,
        is_unusual: bool,
    },
}

/// The state of the log lines about a stage.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Windows since the stage was reported as unusual; `None` if more than [`TOLD_AGAIN`] windows
    /// ago.
    windows: Option<usize>,
    /// Times that the stage has become unusual since that report.
    untold: u64,
    /// True if the last line reported the stage as unusual.
    is_unusual: bool,
}

impl Reported {
    /// Notes the end of a window, in which `change` has occurred. `is_unusual` is true if the stage
    /// is unusual now. Returns the line to log, if any.
    pub(super) fn window(&mut self, change: Option<Change>, is_unusual: bool) -> Option<Line> {
        self.windows = self.windows.map(|windows| windows + 1);
        match change {
            Some(Change::Left { .. }) if self.windows.is_none() => {
                (self.windows, self.is_unusual) = (Some(0), true);
                return change.map(Line::Changed);
            }
            Some(Change::Left { .. }) => self.untold += 1,
            Some(Change::Returned { .. } | Change::Rests { .. })
                if std::mem::take(&mut self.is_unusual) =>
            {
                return change.map(Line::Changed);
            }
            Some(Change::Adopted { .. }) => {
                *self = Self::default();
                return change.map(Line::Changed);
            }
            Some(Change::Returned { .. } | Change::Rests { .. }) | None => {}
        }
        let windows = self.windows.filter(|windows| *windows >= TOLD_AGAIN)?;
        let times = std::mem::take(&mut self.untold);
        if times == 0 {
            self.windows = None;
            return None;
        }
        (self.windows, self.is_unusual) = (Some(0), is_unusual);
        Some(Line::Again { times, windows, is_unusual })
    }
}

impl Line {
    pub(super) fn tell(self, id: &SessionId, stage: LatencyStage) {
        match self {
            Self::Changed(Change::Left { p99_ns, usual_ns }) => {
                event!(warn, LatencyUnusual, session = %id, %stage, p99_ns, usual_ns);
            }
            Self::Changed(Change::Returned { p99_ns, usual_ns }) => {
                event!(info, LatencyUsual, session = %id, %stage, p99_ns, usual_ns);
            }
            Self::Changed(Change::Rests { usual_ns }) => {
                event!(info, LatencyNotJudged, session = %id, %stage, usual_ns);
            }
            Self::Changed(Change::Adopted { p99_ns }) => {
                event!(warn, LatencyUsualNow, session = %id, %stage, p99_ns);
            }
            Self::Again { times, windows, is_unusual } => {
                event!(warn, LatencyChanges, session = %id, %stage, times, windows, is_unusual);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Change = Change::Left { p99_ns: 9, usual_ns: 1 };
    const RETURNED: Change = Change::Returned { p99_ns: 1, usual_ns: 1 };
    const RESTS: Change = Change::Rests { usual_ns: 1 };

    /// Returns the lines logged for these windows, each with the window's number.
    fn told(changes: impl IntoIterator<Item = Option<Change>>) -> Vec<(usize, Line)> {
        let (mut told, mut is_unusual) = (Reported::default(), false);
        let lines = changes.into_iter().enumerate().filter_map(|(n, change)| {
            is_unusual = match change {
                Some(LEFT) => true,
                Some(_) => false,
                None => is_unusual,
            };
            Some((n, told.window(change, is_unusual)?))
        });
        lines.collect()
    }

    #[test]
    fn one_that_comes_and_goes_once_is_told_so() {
        for end in [RETURNED, RESTS] {
            let lines = told([Some(LEFT), None, Some(end)].into_iter().chain([None; 100]));
            assert_eq!(lines, [(0, Line::Changed(LEFT)), (2, Line::Changed(end))]);
        }
    }

    #[test]
    fn one_that_comes_and_goes_all_the_time_is_summed_up() {
        let flaps = (0..10 * TOLD_AGAIN).map(|n| Some([LEFT, RETURNED][n % 2]));
        let lines = told(flaps);
        assert_eq!(lines[..2], [(0, Line::Changed(LEFT)), (1, Line::Changed(RETURNED))]);
        let again = Line::Again { times: 15, windows: 30, is_unusual: true };
        assert_eq!(lines[2..4], [(30, again), (31, Line::Changed(RETURNED))]);
        assert!(lines.len() <= 2 * 10, "{lines:?}");
    }

    #[test]
    fn whatever_is_told_to_be_unusual_is_told_to_end() {
        // The stage becomes unusual for the second time within thirty windows, and stays so for
        // long.
        let begin = [Some(LEFT), Some(RETURNED), Some(LEFT)];
        let lines = told(begin.into_iter().chain([None; 60]).chain([Some(RETURNED)]));
        let again = Line::Again { times: 1, windows: 30, is_unusual: true };
        assert_eq!(lines[2..], [(30, again), (63, Line::Changed(RETURNED))]);
        // The stage is no longer unusual when the summary is due.
        let lines = told(begin.into_iter().chain([Some(RESTS)]).chain([None; 60]));
        let again = Line::Again { times: 1, windows: 30, is_unusual: false };
        assert_eq!(lines[2..], [(30, again)]);
    }

    #[test]
    fn after_a_quiet_while_it_is_told_at_once() {
        let quiet = [None; 2 * TOLD_AGAIN];
        let lines = told([Some(LEFT), Some(RETURNED)].into_iter().chain(quiet).chain([Some(LEFT)]));
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[2], (2 + 2 * TOLD_AGAIN, Line::Changed(LEFT)));
    }
}
