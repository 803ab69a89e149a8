//! The settings of what a store keeps, and the store that is opened with them.

use std::path::PathBuf;

use serde::Deserialize;
use transfix_store::{
    Compress, FileStore, MemoryStore, Options, Retention, Store, StoreError, WhenFull,
};

use crate::network;
use crate::settings::{Durability, SessionSettings};

/// What becomes of messages beyond `bytes_max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
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
/// Largest store segment, unless the first one is larger.
const SEGMENT_BYTES_MAX: usize = 64 << 20;
const HOUR_NS: u64 = 3_600_000_000_000;

impl RetentionSettings {
    const fn when_full(&self) -> WhenFull {
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

/// Opens the session's store.
pub(crate) fn open_store(
    settings: &SessionSettings,
    now_ns: u64,
) -> Result<Box<dyn Store>, StoreError> {
    let keep = &settings.retention;
    let durability = match settings.durability {
        Durability::Memory => {
            let bytes = usize::try_from(keep.bytes_max).unwrap_or(0);
            let bytes = if bytes == 0 { MemoryStore::CAPACITY_BYTES } else { bytes };
            return Ok(Box::new(MemoryStore::bounded(bytes, keep.when_full(), now_ns)));
        }
        Durability::Process => transfix_store::Durability::Process,
        Durability::Power => transfix_store::Durability::Power,
    };
    // Forgetting goes by whole segments.
    let segment_max = match usize::try_from(keep.bytes_max) {
        Ok(bytes) if bytes > 0 => bytes / 4,
        _ => usize::MAX,
    };
    let options = Options {
        durability,
        segment_bytes_first: settings.segment_bytes.min(segment_max),
        segment_bytes_max: settings.segment_bytes.max(SEGMENT_BYTES_MAX).min(segment_max),
    };
    let path = settings.store_path();
    let doubt = network::check(&path, settings.allow_network_store)?;
    let opened = FileStore::open_for(&settings.folder(), &path, options, now_ns);
    let (mut store, recovered) = opened?;
    if let Some(why) = doubt {
        // Of a store that is open: a store that fails to open is tried again and again.
        let store = path.display();
        tracing::warn!(%store, why, "the store may lie on a network file system");
    }
    // At most once a segment, each of which is larger than the last up to a limit: 64 MiB, unless
    // `retention.bytes_max` asks for less.
    store.report_to(|error| {
        tracing::warn!(%error, "the next segment of a store cannot be made beforehand");
    });
    if recovered.cut_bytes > 0 {
        // Once: it is cut now.
        let cut_bytes = recovered.cut_bytes;
        tracing::warn!(path = %path.display(), cut_bytes, "an unfinished batch was cut");
    }
    if *keep != RetentionSettings::default() {
        let retention = Retention {
            archive_dir: keep.archive_dir.as_ref().map(|dir| dir.join(settings.folder())),
            compress: if keep.compress { Compress::Zstd } else { Compress::Never },
            delete_after_ns: u64::from(keep.delete_after_days) * 24 * HOUR_NS,
            rotate_every_ns: u64::from(keep.rotate_every_h) * HOUR_NS,
            bytes_max: keep.bytes_max,
            when_full: keep.when_full(),
        };
        // At most once a segment, as above.
        store.retain(retention, now_ns, |error| {
            tracing::error!(%error, "old segments stay where they are");
        });
    }
    Ok(Box::new(store))
}
