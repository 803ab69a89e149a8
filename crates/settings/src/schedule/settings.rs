//! The settings of a schedule.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

use super::ScheduleError;
use super::window::Window;

/// The treatment of MsgSeqNum(34) when a window opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NumbersAtOpening {
    /// A new session of FIX begins: both directions start again at 1, and messages of the windows
    /// before are not sent again.
    Restart,
    /// Numbers go on over windows.
    Keep,
}

/// The treatment of a session outside of its windows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Outside {
    /// It logs out at the end of the window and takes no connection before the next one.
    Disconnect,
    /// It stays connected; application messages are answered by BusinessMessageReject(j), reason 4,
    /// with this text (Reject(3) up to FIX 4.1).
    Reject(String),
}

settings_table! {
    /// `schedule = { ... }` of a session.
    ///
    /// Either one window, by `from` and `to`, or several in `windows`.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct ScheduleSettings {
        /// Time zone of all times: an IANA name such as `America/New_York`, or a distance from UTC
        /// such as `+02:00`, which knows no summer time.
        pub zone: String,
        /// Days on which the window opens: `mon-fri`, `mon,wed,fri`, `sun-thu`. By default every
        /// day.
        pub days: Option<String> = None,
        /// When the window opens: `08:00`, `08:00:30`, or `sun 17:00` for one a week.
        pub from: Option<String> = None,
        /// When it closes: `17:00`, or `fri 17:00`. Not later than `from` means on the day after;
        /// the same means 24 hours, or a week.
        pub to: Option<String> = None,
        /// Several windows, each with its own `days`, `from`, `to`, or with `open` and `close`.
        pub windows: Vec<WindowSettings> = Vec::new(),
        /// Days on which no window opens: dates such as `2026-12-25`, or files with one date a
        /// line.
        pub holidays: Vec<PathBuf> = Vec::new(),
        /// The treatment of numbers when a window opens: `restart` at 1, or `keep`.
        pub numbers: NumbersAtOpening = NumbersAtOpening::Restart,
        /// The treatment of the session outside: `"disconnect"`, or `{ reject = "text" }`.
        pub outside: Outside = Outside::Disconnect,
    }
}

settings_table! {
    /// One of several windows.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct WindowSettings {
        /// As `days` of the schedule.
        pub days: Option<String> = None,
        /// As `from` of the schedule.
        pub from: Option<String> = None,
        /// As `to` of the schedule.
        pub to: Option<String> = None,
        /// Openings in cron form, in place of `days` and `from`: `0 8 * * mon-fri`; with six fields
        /// the first is the second.
        pub open: Option<String> = None,
        /// Closings in cron form: each window closes at the first one after it has opened.
        pub close: Option<String> = None,
    }
}

impl ScheduleSettings {
    /// No window yet, in this zone.
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
            (true, true) => Err(ScheduleError::new("write from and to, or windows")),
            (false, false) => Err(ScheduleError::new(
                "days, from and to stand for one window; put them into windows, with the others",
            )
            .at("windows")),
        }
    }
}
