//! The table `retention`: what a store keeps.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use transfix_session::settings_table;

use crate::session::SessionSettings;
use crate::store::Durability;

/// The reaction to messages beyond `bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeyondLimit {
    /// The oldest are forgotten: a resend fills their numbers as a gap.
    Forget,
    /// The next one is not sent: the session ends. It comes back when there is room, such as after
    /// a reset of the numbers by the schedule.
    Refuse,
}

settings_table! {
    /// `retention`: what a session's store keeps, and where.
    #[derive(PartialEq, Eq)]
    pub struct RetentionSettings {
        /// Directory that segments of the store are moved to once neither a start nor a resend
        /// needs them; each session has a folder of its own in it. On another file system than that
        /// of the store they are copied. By default they stay.
        pub archive_dir: Option<PathBuf> = None,
        /// If true, such segments are compressed to `.zst`; needs the cargo feature `zstd`.
        pub compress: bool = false,
        /// Time after which such segments are deleted; 0 for never.
        #[days("delete_after_days")]
        pub delete_after: Duration = 0,
        /// Time, counted from midnight UTC, after which a new segment is begun; 0 for never.
        #[most(8_784)]
        #[hours("rotate_every_h")]
        pub rotate_every: Duration = 0,
        /// Bytes that the messages since the last reset of the numbers may take; 0 for any in
        /// files, and 64 MiB in memory.
        pub bytes_max: u64 = 0,
        /// The reaction to messages beyond `bytes_max`: `forget` the oldest or `refuse` the next.
        pub when_full: BeyondLimit = BeyondLimit::Forget,
    }
}

/// The least `bytes_max`.
const BYTES_MAX_MIN: u64 = 64 << 10;

/// Checks across the keys.
pub(crate) fn check(session: &SessionSettings) -> Result<(), String> {
    let retention = &session.retention;
    let bytes_max = retention.bytes_max;
    if (1..BYTES_MAX_MIN).contains(&bytes_max) {
        return Err(format!(
            "retention.bytes_max is 0 or at least {BYTES_MAX_MIN}, not {bytes_max}"
        ));
    }
    retention.check_ranges().map_err(|what| format!("retention.{what}"))?;
    if retention.compress && !cfg!(feature = "zstd") {
        return Err("retention.compress needs the cargo feature `zstd` of the package transfix; \
                    build with it, or leave the key out"
            .to_owned());
    }
    if retention.when_full == BeyondLimit::Refuse
        && bytes_max == 0
        && session.store.durability != Durability::Memory
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
    if retention.archive_dir.as_ref() == Some(&session.store.store_dir) {
        return Err("retention.archive_dir must be another directory than store_dir".to_owned());
    }
    if session.store.durability != Durability::Memory {
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
