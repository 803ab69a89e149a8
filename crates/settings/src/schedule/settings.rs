//! The settings of a schedule.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

use super::ScheduleError;
use super::window::Window;

/// The treatment of the next MsgSeqNum(34)s when a window opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NumbersAtOpening {
    /// A new FIX session begins: both directions restart at 1, and messages of earlier windows are
    /// not resent.
    Restart,
    /// Numbers continue from the previous window.
    Keep,
}

/// The treatment of a session outside of its windows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Outside {
    /// The session logs out at the end of the window and accepts no connection before the next
    /// window.
    Disconnect,
    /// The session stays connected. It rejects application messages with this text, by a
    /// BusinessMessageReject(j) with reason 4, or up to FIX 4.1 by a Reject(3).
    Reject(String),
}

settings_table! {
    /// `schedule = { ... }` of a session: the times at which it may be connected.
    ///
    /// Either one window, given by `from` and `to`, or several windows, given by `windows`.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct ScheduleSettings {
        /// Time zone of all times: an IANA name such as `America/New_York`, or an offset from UTC
        /// such as `+02:00`, which has no daylight saving time.
        pub zone: String,
        /// Days on which the window opens: `mon-fri`, `mon,wed,fri`, `sun-thu`. By default every
        /// day.
        pub days: Option<String> = None,
        /// Time at which the window opens: `08:00`, `08:00:30`, or `sun 17:00` for a weekly window.
        pub from: Option<String> = None,
        /// Time at which the window closes: `17:00`, or `fri 17:00`. A time before `from` is on the
        /// following day. A time equal to `from` means 24 hours, or a week.
        pub to: Option<String> = None,
        /// Several windows, each with its own `days`, `from`, `to`, or with `open` and `close`.
        pub windows: Vec<WindowSettings> = Vec::new(),
        /// Days on which no window opens: dates such as `2026-12-25`, or files with one date per
        /// line.
        pub holidays: Vec<PathBuf> = Vec::new(),
        /// Treatment of numbers when a window opens: `restart` at 1, or `keep`.
        pub numbers: NumbersAtOpening = NumbersAtOpening::Restart,
        /// Treatment of the session outside of its windows. `"disconnect"`: logout, and no
        /// connection before the next window. `{ reject = "text" }`: the session stays connected
        /// and rejects application messages with this text.
        pub outside: Outside = Outside::Disconnect,
    }
}

settings_table! {
    /// `windows` of a schedule: one of several windows.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct WindowSettings {
        /// Days on which the window opens, as `days` of the schedule.
        pub days: Option<String> = None,
        /// Time at which the window opens, as `from` of the schedule.
        pub from: Option<String> = None,
        /// Time at which the window closes, as `to` of the schedule.
        pub to: Option<String> = None,
        /// Openings as a cron expression, instead of `days` and `from`: `0 8 * * mon-fri`. In an
        /// expression of six fields, the first field is the second.
        pub open: Option<String> = None,
        /// Times at which the window closes, as a cron expression. A window closes at the first
        /// such time after its opening.
        pub close: Option<String> = None,
    }
}

impl ScheduleSettings {
    /// Returns the settings of a schedule in the time zone `zone` that has no windows yet.
    #[must_use]
    pub fn in_zone(zone: &str) -> Self {
        Self { zone: zone.to_owned(), ..Self::default() }
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
            (true, true) => Err(ScheduleError::new(
                "the schedule has no window; write from and \
                to, or windows",
            )),
            (false, false) => Err(ScheduleError::new(
                "days, from and to define a single window; move this window into the list windows",
            )
            .at("windows")),
        }
    }
}
