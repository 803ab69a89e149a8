//! The table `retention`: what a store keeps.

use std::path::PathBuf;

use serde::Deserialize;
use transfix_store::WhenFull;

use crate::settings::{Durability, SessionSettings};

/// What becomes of messages beyond `bytes_max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BeyondLimit {
    /// The oldest are forgotten: a resend fills their numbers as a gap.
    #[default]
    Forget,
    /// The next one is not sent: the session ends. It comes back when there is room, such as after
    /// a reset of the numbers by the schedule.
    Refuse,
}

/// `retention`: what a session's store keeps, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Directory that segments of the store are moved to once neither a start nor a resend needs
    /// them; each session has a folder of its own in it. On another file system than that of the
    /// store they are copied. Default none: they stay.
    pub archive_dir: Option<PathBuf>,
    /// Whether such segments are compressed to `.zst`; needs the cargo feature `zstd`. Default
    /// false.
    pub compress: bool,
    /// Days after which such segments are deleted; 0 for never. Default 0.
    pub delete_after_days: u32,
    /// Hours, counted from midnight UTC, at which a new segment is begun; 0 for never. Default 0.
    pub rotate_every_h: u32,
    /// Bytes that the messages since the last reset of the numbers may take; 0 for any in files,
    /// and 64 MiB in memory. Default 0.
    pub bytes_max: u64,
    /// What becomes of messages beyond `bytes_max`: `forget` the oldest or `refuse` the next.
    /// Default `forget`.
    pub when_full: BeyondLimit,
}

/// The least `bytes_max`.
const BYTES_MAX_MIN: u64 = 64 << 10;

impl RetentionSettings {
    pub(crate) const fn when_full(&self) -> WhenFull {
        match self.when_full {
            BeyondLimit::Forget => WhenFull::Forget,
            BeyondLimit::Refuse => WhenFull::Refuse,
        }
    }
}

/// What no single key can tell.
pub(crate) fn check(session: &SessionSettings) -> Result<(), String> {
    let retention = &session.retention;
    let bytes_max = retention.bytes_max;
    if (1..BYTES_MAX_MIN).contains(&bytes_max) {
        return Err(format!(
            "retention.bytes_max is 0 or at least {BYTES_MAX_MIN}, not {bytes_max}"
        ));
    }
    if retention.rotate_every_h > 24 * 366 {
        return Err(format!(
            "retention.rotate_every_h is at most 8784, not {}",
            retention.rotate_every_h
        ));
    }
    if retention.compress && !transfix_store::compress::AVAILABLE {
        return Err("retention.compress needs the cargo feature `zstd` of the package transfix; \
                    build with it, or leave the key out"
            .to_owned());
    }
    if retention.when_full == BeyondLimit::Refuse
        && bytes_max == 0
        && session.durability != Durability::Memory
    {
        return Err(
            "retention.when_full = \"refuse\" needs bytes_max: without a limit nothing is \
                    refused"
                .to_owned(),
        );
    }
    if retention.archive_dir.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
        return Err(
            "retention.archive_dir must not be empty; leave the key out for none".to_owned()
        );
    }
    if retention.archive_dir.as_ref() == Some(&session.store_dir) {
        return Err("retention.archive_dir must be another directory than store_dir".to_owned());
    }
    if session.durability != Durability::Memory {
        return Ok(());
    }
    if u32::try_from(bytes_max).is_err() {
        return Err(format!("retention.bytes_max is below 4 GiB in memory, not {bytes_max}"));
    }
    let of_files = RetentionSettings {
        bytes_max,
        when_full: retention.when_full,
        ..RetentionSettings::default()
    };
    if *retention != of_files {
        return Err(
            "with durability = \"memory\" retention has bytes_max and when_full alone".to_owned()
        );
    }
    Ok(())
}
