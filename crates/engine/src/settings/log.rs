//! The settings of a protocol log.

use std::path::PathBuf;

use serde::Deserialize;

/// How a log tells what came in from what went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogDirection {
    /// By two files, `NAME.in.log` and `NAME.out.log`; lines as QuickFIX writes them.
    #[default]
    Files,
    /// By the words `in` and `out` behind the time, in one file `NAME.messages.log`.
    Words,
}

/// `log`: the protocol log of a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// Directory of the files, which are named after the session as its store is.
    pub dir: PathBuf,
    /// `files`: one for each direction; `words`: one file, `in` or `out` in each line. Default
    /// `files`.
    #[serde(default)]
    pub direction: LogDirection,
    /// Tags whose values are shown as stars in every message. Those of passwords are always: 554,
    /// 925, 1402 and 1404 in every message, 96 in Logon(A) and UserRequest(BE). Default none.
    #[serde(default)]
    pub mask: Vec<u32>,
    /// Bytes at which a file is closed and a new one begun; 0 for any. Default 256 MiB.
    #[serde(default = "default_roll_bytes")]
    pub roll_bytes: u64,
    /// Hours, counted from midnight UTC, at which a new file is begun; 0 for never. Default 24.
    #[serde(default = "default_roll_every_h")]
    pub roll_every_h: u32,
    /// How many closed files are kept of each; 0 for all. Default 0.
    #[serde(default)]
    pub rolled_files_max: usize,
    /// Whether closed files are compressed to `.zst`; needs the cargo feature `zstd`. Default
    /// false.
    #[serde(default)]
    pub compress: bool,
    /// Bytes that may wait to be written. Lines beyond are lost, and the log says how many. Default
    /// 1 MiB.
    #[serde(default = "default_buffer_bytes")]
    pub buffer_bytes: usize,
    /// How long a line may wait, in milliseconds: what `kill -9` may cost. Default 100.
    #[serde(default = "default_write_every_ms")]
    pub write_every_ms: u32,
}

const fn default_roll_bytes() -> u64 {
    256 << 20
}
const fn default_roll_every_h() -> u32 {
    24
}
const fn default_buffer_bytes() -> usize {
    1 << 20
}
const fn default_write_every_ms() -> u32 {
    100
}

impl LogSettings {
    /// A log in that directory, with defaults for the rest.
    #[must_use]
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            direction: LogDirection::default(),
            mask: Vec::new(),
            roll_bytes: default_roll_bytes(),
            roll_every_h: default_roll_every_h(),
            rolled_files_max: 0,
            compress: false,
            buffer_bytes: default_buffer_bytes(),
            write_every_ms: default_write_every_ms(),
        }
    }

    /// What no single key can tell.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.compress && !transfix_store::compress::AVAILABLE {
            return Err(
                "log.compress needs the cargo feature `zstd` of the package transfix; build \
                        with it, or leave the key out"
                    .to_owned(),
            );
        }
        for (key, value, (min, max)) in [
            ("buffer_bytes", self.buffer_bytes, (4 << 10, 1 << 30)),
            ("write_every_ms", self.write_every_ms as usize, (1, 60_000)),
            ("roll_every_h", self.roll_every_h as usize, (0, 24 * 366)),
        ] {
            if value < min || value > max {
                return Err(format!("log.{key} is between {min} and {max}, not {value}"));
            }
        }
        if (1..1_024).contains(&self.roll_bytes) {
            return Err(format!("log.roll_bytes is 0 or at least 1024, not {}", self.roll_bytes));
        }
        Ok(())
    }
}
