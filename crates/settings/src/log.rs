//! The settings of a protocol log.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use transfix_session::settings_table;

/// The way in which a log distinguishes inbound and outbound messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogDirection {
    /// The log has two files, `NAME.in.log` and `NAME.out.log`, with lines in QuickFIX's format.
    Files,
    /// The log has one file, `NAME.messages.log`, with `in` or `out` after the time of each line.
    Words,
}

settings_table! {
    /// `log`: the protocol log of a session.
    #[derive(PartialEq, Eq)]
    pub struct LogSettings {
        /// Directory of the log files. File names begin with the name of the session's store.
        pub dir: PathBuf,
        /// `files`: one file for each direction. `words`: one file, with `in` or `out` in each
        /// line.
        pub direction: LogDirection = LogDirection::Files,
        /// Tags whose values the log replaces by asterisks in every message. Passwords are always
        /// replaced: 554, 925, 1402 and 1404 in every message, 96 in Logon(A) and UserRequest(BE).
        pub mask: Vec<u32> = Vec::new(),
        /// File size in bytes at which the log begins a new file: at least 1,024. 0 = unlimited.
        pub roll_bytes: u64 = 256 << 20,
        /// Time, counted from midnight UTC, after which the log begins a new file. 0 = never.
        #[least(0)]
        #[most(8_784)]
        #[hours("roll_every_h")]
        pub roll_every: Duration = 24,
        /// Closed files to keep of each log file; older files are deleted. 0 = all.
        pub rolled_files_max: usize = 0,
        /// If true, closed files are compressed to `.zst`. Needs the cargo feature `zstd`.
        pub compress: bool = false,
        /// Bytes of lines that may wait to be written. Lines above the limit are lost; the log
        /// records their number.
        #[least(4_096)]
        #[most(1_073_741_824)]
        pub buffer_bytes: usize = 1 << 20,
        /// Longest time that a line waits in memory before it is written. `kill -9` loses these
        /// lines.
        #[least(1)]
        #[most(60_000)]
        #[millis("write_every_ms")]
        pub write_every: Duration = 100,
    }
}

impl LogSettings {
    /// Returns the settings of a log in `dir`. All other keys have their defaults.
    #[must_use]
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), ..Self::default() }
    }

    /// Checks keys that depend on each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.compress && !cfg!(feature = "zstd") {
            return Err(
                "log.compress requires the cargo feature `zstd` of the package transfix; build \
                 with this feature, or remove the key"
                    .to_owned(),
            );
        }
        self.check_ranges().map_err(|what| format!("log.{what}"))?;
        if (1..1_024).contains(&self.roll_bytes) {
            return Err(format!(
                "log.roll_bytes must be 0 or at least 1024, not {}",
                self.roll_bytes
            ));
        }
        Ok(())
    }
}
