//! The table `retention`, which determines what a store keeps and where.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use transfix_session::settings_table;

use crate::session::SessionSettings;
use crate::store::Durability;

/// The reaction of a store to messages beyond `bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeyondLimit {
    /// The store discards its oldest messages. A resend replaces them by a gap fill.
    Forget,
    /// The next message is not sent, and the session ends. The session resumes when the store has
    /// room, for example after the schedule has reset the numbers.
    Refuse,
}

settings_table! {
    /// `retention`: contents and location of a session's store.
    #[derive(PartialEq, Eq)]
    pub struct RetentionSettings {
        /// Directory for segments of the store that neither a start nor a resend needs. The engine
        /// moves them there, into a folder for each session. It copies them if the directory is on
        /// another file system. By default segments stay in the store.
        pub archive_dir: Option<PathBuf> = None,
        /// If true, segments that neither a start nor a resend needs are compressed to `.zst`.
        /// Needs the cargo feature `zstd`.
        pub compress: bool = false,
        /// Time after which segments that neither a start nor a resend needs are deleted. 0 =
        /// never.
        #[days("delete_after_days")]
        pub delete_after: Duration = 0,
        /// Time, counted from midnight UTC, after which the store begins a new segment. 0 = never.
        #[most(8_784)]
        #[hours("rotate_every_h")]
        pub rotate_every: Duration = 0,
        /// Bytes of messages that the store keeps since the last reset of the numbers: at least
        /// 65,536. 0 = unlimited in files, 64 MiB in memory.
        pub bytes_max: u64 = 0,
        /// Reaction to messages above `bytes_max`: `forget` discards the oldest messages, `refuse`
        /// does not send the next message and ends the session.
        pub when_full: BeyondLimit = BeyondLimit::Forget,
    }
}

/// The lowest value of `bytes_max` other than 0.
const BYTES_MAX_MIN: u64 = 64 << 10;

/// Checks keys that depend on each other.
pub(crate) fn check(session: &SessionSettings) -> Result<(), String> {
    let retention = &session.retention;
    let bytes_max = retention.bytes_max;
    if (1..BYTES_MAX_MIN).contains(&bytes_max) {
        return Err(format!(
            "retention.bytes_max must be 0 or at least {BYTES_MAX_MIN}, not {bytes_max}"
        ));
    }
    retention.check_ranges().map_err(|what| format!("retention.{what}"))?;
    if retention.compress && !cfg!(feature = "zstd") {
        return Err(
            "retention.compress requires the cargo feature `zstd` of the package transfix; \
                    build with this feature, or remove the key"
                .to_owned(),
        );
    }
    if retention.when_full == BeyondLimit::Refuse
        && bytes_max == 0
        && session.store.durability != Durability::Memory
    {
        return Err(
            "retention.when_full = \"refuse\" requires bytes_max, because without a limit the \
             store is never full"
                .to_owned(),
        );
    }
    if retention.archive_dir.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
        return Err(
            "retention.archive_dir must not be empty; remove the key to have no archive".to_owned()
        );
    }
    if retention.archive_dir.as_ref() == Some(&session.store.store_dir) {
        return Err("retention.archive_dir must not be the same directory as store_dir".to_owned());
    }
    if session.store.durability != Durability::Memory {
        return Ok(());
    }
    if u32::try_from(bytes_max).is_err() {
        return Err(format!(
            "retention.bytes_max must be below 4 GiB with durability = \"memory\", \
                            not {bytes_max}"
        ));
    }
    let of_files = RetentionSettings {
        bytes_max,
        when_full: retention.when_full,
        ..RetentionSettings::default()
    };
    if *retention != of_files {
        return Err(
            "with durability = \"memory\" only bytes_max and when_full of retention are allowed; \
             remove its other keys"
                .to_owned(),
        );
    }
    Ok(())
}
