//! The settings of a protocol log.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use transfix_session::settings_table;

/// How a log tells what came in from what went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogDirection {
    /// By two files, `NAME.in.log` and `NAME.out.log`; lines as QuickFIX writes them.
    Files,
    /// By the words `in` and `out` behind the time, in one file `NAME.messages.log`.
    Words,
}

settings_table! {
    /// `log`: the protocol log of a session.
    #[derive(PartialEq, Eq)]
    pub struct LogSettings {
        /// Directory of the files, which are named after the session as its store is.
        pub dir: PathBuf,
        /// `files`: one for each direction; `words`: one file, `in` or `out` in each line.
        pub direction: LogDirection = LogDirection::Files,
        /// Tags whose values are shown as stars in every message. Those of passwords are always:
        /// 554, 925, 1402 and 1404 in every message, 96 in Logon(A) and UserRequest(BE).
        pub mask: Vec<u32> = Vec::new(),
        /// Bytes at which a file is closed and a new one begun; 0 for any.
        pub roll_bytes: u64 = 256 << 20,
        /// Time, counted from midnight UTC, after which a new file is begun; 0 for never.
        #[least(0)]
        #[most(8_784)]
        #[hours("roll_every_h")]
        pub roll_every: Duration = 24,
        /// How many closed files are kept of each; 0 for all.
        pub rolled_files_max: usize = 0,
        /// If true, closed files are compressed to `.zst`; needs the cargo feature `zstd`.
        pub compress: bool = false,
        /// Bytes that may wait to be written. Lines beyond are lost, and the log says how many.
        #[least(4_096)]
        #[most(1_073_741_824)]
        pub buffer_bytes: usize = 1 << 20,
        /// How long a line may wait: what `kill -9` may cost.
        #[least(1)]
        #[most(60_000)]
        #[millis("write_every_ms")]
        pub write_every: Duration = 100,
    }
}

impl LogSettings {
    /// A log in that directory, with defaults for the rest.
    #[must_use]
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), ..Self::default() }
    }

    /// Checks across the keys.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.compress && !cfg!(feature = "zstd") {
            return Err(
                "log.compress needs the cargo feature `zstd` of the package transfix; build \
                        with it, or leave the key out"
                    .to_owned(),
            );
        }
        self.check_ranges().map_err(|what| format!("log.{what}"))?;
        if (1..1_024).contains(&self.roll_bytes) {
            return Err(format!("log.roll_bytes is 0 or at least 1024, not {}", self.roll_bytes));
        }
        Ok(())
    }
}
