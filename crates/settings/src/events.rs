//! The section `[events]`, which determines where the program's events go and which of them are
//! reported.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;
use transfix_session::settings_table;

/// The finest level that a destination, or a part of the engine, reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventLevel {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Events that need attention.
    Warn,
    /// Events of sessions.
    Info,
    /// Events that help to find an error.
    Debug,
    /// All events.
    Trace,
}

impl EventLevel {
    const ALL: [(&str, Self); 6] = [
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];

    /// Returns the name of the level in a settings file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    fn of(word: &str) -> Option<Self> {
        let is_it = |(name, _): &&(&str, Self)| name.eq_ignore_ascii_case(word);
        Self::ALL.iter().find(is_it).map(|(_, level)| *level)
    }
}

impl From<EventLevel> for LevelFilter {
    fn from(level: EventLevel) -> Self {
        match level {
            EventLevel::Off => Self::OFF,
            EventLevel::Error => Self::ERROR,
            EventLevel::Warn => Self::WARN,
            EventLevel::Info => Self::INFO,
            EventLevel::Debug => Self::DEBUG,
            EventLevel::Trace => Self::TRACE,
        }
    }
}

/// The format of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventForm {
    /// A line of text to be read by people, with the event code at the end.
    #[default]
    Text,
    /// A JSON object in each line.
    Json,
}

/// The facility that lines for syslog name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are those of RFC 5424")]
pub enum SyslogFacility {
    User = 1,
    Daemon = 3,
    Local0 = 16,
    Local1,
    Local2,
    Local3,
    Local4,
    Local5,
    Local6,
    Local7,
}

settings_table! {
    /// `[events]`: destinations and levels of the program's events. The library writes no events:
    /// `transfix serve` and `transfix connect` do.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct EventSettings {
        /// Events to produce, in the syntax of `tracing`: one level, or levels for parts of the
        /// program, such as `warn,transfix=info`. Levels are `off`, `error`, `warn`, `info`,
        /// `debug`, `trace`. A reload and `transfix admin levels` change the levels of a running
        /// engine.
        pub levels: String = "info".into(),
        /// Finest level of events on standard error: `off`, `error`, `warn`, `info`, `debug`,
        /// `trace`. `--verbose` writes all events that `levels` allows.
        pub stderr_level: EventLevel = EventLevel::Warn,
        /// Format on standard error: `text` or `json`. `--events` overrides this key.
        pub stderr_form: EventForm = EventForm::Text,
        /// File to which events are appended. Closed files remain in its directory, with the time
        /// in their names. Empty = no file.
        pub file: PathBuf = PathBuf::new(),
        /// Finest level of events in the file: `off`, `error`, `warn`, `info`, `debug`, `trace`.
        pub file_level: EventLevel = EventLevel::Trace,
        /// Format in the file: `text` or `json`.
        pub file_form: EventForm = EventForm::Text,
        /// File size in bytes at which a new file begins: at least 1,024. 0 = unlimited.
        pub roll_bytes: u64 = 64 << 20,
        /// Time, counted from midnight UTC, after which a new file begins: 24 = each day, 0 =
        /// never.
        #[least(0)]
        #[most(8_784)]
        #[hours("roll_every_h")]
        pub roll_every: Duration = 24,
        /// Closed files to keep; older files are deleted. 0 = unlimited.
        pub rolled_files_max: usize = 30,
        /// Time after which closed files are deleted. 0 = never.
        #[least(0)]
        #[most(36_500)]
        #[days("rolled_days_max")]
        pub rolled_age_max: Duration = 0,
        /// If true, closed files are compressed to `.zst`. Needs the cargo feature `zstd`.
        pub compress: bool = false,
        /// Destination of syslog lines (RFC 5424): the path of a socket, usually `/dev/log`, or
        /// `udp://host:port`. Empty = no syslog.
        pub syslog: String = String::new(),
        /// Finest level of events in syslog: `off`, `error`, `warn`, `info`, `debug`, `trace`.
        pub syslog_level: EventLevel = EventLevel::Trace,
        /// Facility of syslog lines: `user`, `daemon`, or `local0`, `local1`, `local2`, `local3`,
        /// `local4`, `local5`, `local6`, `local7`.
        pub syslog_facility: SyslogFacility = SyslogFacility::Daemon,
        /// Socket of journald, usually `/run/systemd/journal/socket`. Empty = no journald.
        pub journald: PathBuf = PathBuf::new(),
        /// Finest level of events in journald: `off`, `error`, `warn`, `info`, `debug`, `trace`.
        pub journald_level: EventLevel = EventLevel::Trace,
    }
}

impl EventSettings {
    /// Returns the wrong key and the error, if a key is wrong.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |key, what: String| Err((key, what));
        if let Err(what) = self.levels.parse::<EventLevels>() {
            return wrong("levels", format!("levels of [events]: {what}"));
        }
        if self.compress && !cfg!(feature = "zstd") {
            let what = "compress of [events] requires the cargo feature `zstd` of the package \
                        transfix; build with this feature, or remove the key";
            return wrong("compress", what.to_owned());
        }
        if let Err(what) = self.check_ranges() {
            let what = what.to_string();
            let key = Self::KEYS.iter().find(|key| what.starts_with(key.name));
            return wrong(key.map_or("", |key| key.name), what);
        }
        if (1..1_024).contains(&self.roll_bytes) {
            let what = format!("roll_bytes must be 0 or at least 1024, not {}", self.roll_bytes);
            return wrong("roll_bytes", what);
        }
        let file = &self.file;
        if !file.as_os_str().is_empty() && file.file_name().is_none() {
            return wrong("file", format!("file = \"{}\" does not name a file", file.display()));
        }
        let is_address = |text: &str| {
            text.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        let syslog = &*self.syslog;
        let is_udp = syslog.strip_prefix("udp://").is_some_and(is_address);
        if !syslog.is_empty() && !syslog.starts_with('/') && !is_udp {
            let what = "must be the path of a socket, such as /dev/log, or udp://host:port";
            return wrong("syslog", format!("syslog {what}, not {syslog}"));
        }
        let journald = &self.journald;
        if !journald.as_os_str().is_empty() && !journald.is_absolute() {
            let what = "must be the path of a socket, usually /run/systemd/journal/socket";
            return wrong("journald", format!("journald {what}, not {}", journald.display()));
        }
        Ok(())
    }
}

/// The levels of events, for each part of the program: `levels` of `[events]`.
///
/// ```
/// let levels: transfix_settings::EventLevels = "info,transfix::link=debug".parse().unwrap();
/// assert_eq!(levels.to_string(), "info,transfix::link=debug");
/// assert!("info,transfix::link=loud".parse::<transfix_settings::EventLevels>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLevels {
    /// The level of all parts that `of_parts` does not name.
    pub of_others: EventLevel,
    /// Parts of the program, named by the modules of its code, with their levels. If several names
    /// fit, the longest one applies.
    pub of_parts: Vec<(String, EventLevel)>,
}

/// The maximum length of the text of levels, in bytes.
const LEVELS_MAX: usize = 2_048;

/// The reason why a text of levels is not valid.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventLevelsError {
    /// The text has this length, but only 2,048 bytes are allowed.
    TooLong(usize),
    /// This is no level.
    NoLevel(String),
    /// This word is no name of a part of the program.
    NoPart(String),
    /// This part has two levels. An empty name means the level of all other parts.
    Twice(String),
}

impl fmt::Display for EventLevelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => {
                write!(f, "levels has {bytes} bytes, but at most {LEVELS_MAX} are allowed")
            }
            Self::NoLevel(word) => {
                let words = EventLevel::ALL.map(|(name, _)| name).join(", ");
                write!(f, "`{}` is not a level; write one of {words}", word.escape_debug())
            }
            Self::NoPart(part) => {
                write!(
                    f,
                    "`{}` is not the name of a program part; write for example \
                           transfix::link=debug",
                    part.escape_debug()
                )
            }
            Self::Twice(part) if part.is_empty() => {
                f.write_str("the level for all other parts appears twice; remove one")
            }
            Self::Twice(part) => write!(f, "the level for `{part}` appears twice; remove one"),
        }
    }
}

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
impl fmt::Debug for EventLevelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for EventLevelsError {}

impl FromStr for EventLevels {
    type Err = EventLevelsError;

    fn from_str(text: &str) -> Result<Self, EventLevelsError> {
        if text.len() > LEVELS_MAX {
            return Err(EventLevelsError::TooLong(text.len()));
        }
        let (mut of_others, mut of_parts) = (None, Vec::new());
        let level = |word: &str| {
            EventLevel::of(word).ok_or_else(|| EventLevelsError::NoLevel(word.to_owned()))
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
        for one in text.split(',') {
            let Some((part, word)) = one.split_once('=') else {
                if of_others.replace(level(one)?).is_some() {
                    return Err(EventLevelsError::Twice(String::new()));
                }
                continue;
            };
            if part.is_empty() || !part.chars().all(is_name) {
                return Err(EventLevelsError::NoPart(part.to_owned()));
            }
            let level = level(word)?;
            if of_parts.iter().any(|(name, _)| name == part) {
                return Err(EventLevelsError::Twice(part.to_owned()));
            }
            of_parts.push((part.to_owned(), level));
        }
        Ok(Self { of_others: of_others.unwrap_or(EventLevel::Off), of_parts })
    }
}

/// Writes the levels in the form in which they are parsed.
impl fmt::Display for EventLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of_others.as_str())?;
        self.of_parts.iter().try_for_each(|(part, level)| write!(f, ",{part}={}", level.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_strictly() {
        for (text, expected) in [
            ("info", Ok("info")),
            ("transfix=WARN", Ok("off,transfix=warn")),
            ("transfix::link=debug,error", Ok("error,transfix::link=debug")),
            (
                "loud",
                Err("`loud` is not a level; write one of off, error, warn, info, debug, \
                          trace"),
            ),
            ("", Err("`` is not a level; write one of off, error, warn, info, debug, trace")),
            ("info,", Err("`` is not a level; write one of off, error, warn, info, debug, trace")),
            (
                "info, a=warn",
                Err("` a` is not the name of a program part; write for example \
                                  transfix::link=debug"),
            ),
            ("info,warn", Err("the level for all other parts appears twice; remove one")),
            ("a=info,a=warn", Err("the level for `a` appears twice; remove one")),
            (
                "a[b]=info",
                Err("`a[b]` is not the name of a program part; write for example \
                               transfix::link=debug"),
            ),
            (
                "=info",
                Err("`` is not the name of a program part; write for example \
                           transfix::link=debug"),
            ),
            (
                "a\nb=info",
                Err("`a\\nb` is not the name of a program part; write for example \
                               transfix::link=debug"),
            ),
        ] {
            let read = text.parse::<EventLevels>().map(|levels| levels.to_string());
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(|error| &**error), expected, "{text:?}");
        }
        assert!("x".repeat(LEVELS_MAX + 1).parse::<EventLevels>().is_err());
    }

    #[test]
    fn what_no_destination_can_be_is_told_with_its_key() {
        let wrong = |change: fn(&mut EventSettings)| {
            let mut settings = EventSettings::default();
            change(&mut settings);
            settings.check().map_err(|(key, _)| key)
        };
        assert_eq!(wrong(|_| ()), Ok(()));
        assert_eq!(wrong(|of| of.levels = "loud".into()), Err("levels"));
        assert_eq!(wrong(|of| of.roll_bytes = 5), Err("roll_bytes"));
        assert_eq!(wrong(|of| of.roll_every = Duration::from_hours(9_000)), Err("roll_every_h"));
        assert_eq!(wrong(|of| of.file = "/".into()), Err("file"));
        for syslog in ["dev/log", "udp://", "udp://host", "udp://:514", "udp://h:0", "tcp://h:1"] {
            let of = EventSettings { syslog: syslog.into(), ..EventSettings::default() };
            assert_eq!(of.check().map_err(|(key, _)| key), Err("syslog"), "{syslog}");
        }
        for syslog in ["/dev/log", "udp://logs.example:514", "udp://[::1]:514"] {
            let of = EventSettings { syslog: syslog.into(), ..EventSettings::default() };
            assert_eq!(of.check(), Ok(()), "{syslog}");
        }
        assert_eq!(wrong(|of| of.journald = "socket".into()), Err("journald"));
    }
}
