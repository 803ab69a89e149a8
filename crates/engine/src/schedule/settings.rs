//! What a schedule is told, as it stands in the settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ScheduleError;
use super::window::Window;

/// What happens to MsgSeqNum(34) when a window opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NumbersAtOpening {
    /// A new session of FIX begins: both directions start again at 1, and messages of the windows
    /// before are not sent again.
    #[default]
    Restart,
    /// Numbers go on over windows.
    Keep,
}

/// What becomes of a session outside of its windows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Outside {
    /// It logs out at the end of the window and takes no connection before the next one.
    #[default]
    Disconnect,
    /// It stays connected; application messages are answered by BusinessMessageReject(j), reason 4,
    /// with this text (Reject(3) up to FIX 4.1).
    Reject(String),
}

/// `schedule = { ... }` of a session.
///
/// Either one window, by `from` and `to`, or several in `windows`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSettings {
    /// Time zone of all times: an IANA name such as `America/New_York`, or a distance from UTC such
    /// as `+02:00`, which knows no summer time.
    pub zone: String,
    /// Days on which the window opens: `mon-fri`, `mon,wed,fri`, `sun-thu`. Default: every day.
    #[serde(default)]
    pub days: Option<String>,
    /// When the window opens: `08:00`, `08:00:30`, or `sun 17:00` for one a week.
    #[serde(default)]
    pub from: Option<String>,
    /// When it closes: `17:00`, or `fri 17:00`. Not later than `from` means on the day after; the
    /// same means 24 hours, or a week.
    #[serde(default)]
    pub to: Option<String>,
    /// Several windows, each with its own `days`, `from`, `to`, or with `open` and `close`.
    #[serde(default)]
    pub windows: Vec<WindowSettings>,
    /// Days on which no window opens: dates such as `2026-12-25`, or files with one date a line.
    #[serde(default)]
    pub holidays: Vec<PathBuf>,
    /// Whether numbers start again when a window opens: `restart` or `keep`. Default `restart`.
    #[serde(default)]
    pub numbers: NumbersAtOpening,
    /// What happens outside: `"disconnect"`, or `{ reject = "text" }`. Default `"disconnect"`.
    #[serde(default)]
    pub outside: Outside,
}

/// One of several windows.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct WindowSettings {
    /// As `days` of the schedule.
    #[serde(default)]
    pub days: Option<String>,
    /// As `from` of the schedule.
    #[serde(default)]
    pub from: Option<String>,
    /// As `to` of the schedule.
    #[serde(default)]
    pub to: Option<String>,
    /// Openings in cron form, in place of `days` and `from`: `0 8 * * mon-fri`; with six fields
    /// the first is the second.
    #[serde(default)]
    pub open: Option<String>,
    /// Closings in cron form: each window closes at the first one after it has opened.
    #[serde(default)]
    pub close: Option<String>,
}

impl ScheduleSettings {
    /// No window yet, in this zone.
    #[must_use]
    pub fn in_zone(zone: &str) -> Self {
        Self {
            zone: zone.to_owned(),
            days: None,
            from: None,
            to: None,
            windows: Vec::new(),
            holidays: Vec::new(),
            numbers: NumbersAtOpening::default(),
            outside: Outside::default(),
        }
    }

    pub(super) fn windows(&self) -> Result<Vec<Window>, ScheduleError> {
        let Self { days, from, to, windows, .. } = self;
        let one = WindowSettings {
            days: days.clone(),
            from: from.clone(),
            to: to.clone(),
            ..WindowSettings::default()
        };
        match (one == WindowSettings::default(), windows.is_empty()) {
            (true, false) => {
                let window = |(n, window)| Window::new(window).map_err(|e| e.in_window(n));
                windows.iter().enumerate().map(window).collect()
            }
            (false, true) => Ok(vec![Window::new(&one)?]),
            (true, true) => Err(ScheduleError::new("write from and to, or windows")),
            (false, false) => Err(ScheduleError::new(
                "days, from and to stand for one window; put them into windows, with the others",
            )
            .at("windows")),
        }
    }
}
