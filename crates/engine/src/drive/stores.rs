//! Opens the store that a session's settings ask for.

use std::path::Path;
use std::sync::Arc;

use transfix_observe::event;
use transfix_settings::{BeyondLimit, Durability, RetentionSettings, SessionSettings};
use transfix_store::{
    Compress, FileStore, Helpers, MemoryStore, Options, Retention, Store, StoreError, WhenFull,
    file_system,
};

/// The maximum length of a segment file in bytes, unless the first segment is configured to be
/// longer.
const SEGMENT_BYTES_MAX: usize = 64 << 20;

/// Converts the setting for a full store to the type of the store crate.
const fn when_full(choice: BeyondLimit) -> WhenFull {
    match choice {
        BeyondLimit::Forget => WhenFull::Forget,
        BeyondLimit::Refuse => WhenFull::Refuse,
    }
}

/// Opens the session's store.
pub(crate) fn open(
    settings: &SessionSettings,
    helpers: &Arc<Helpers>,
    now_ns: u64,
) -> Result<Box<dyn Store>, StoreError> {
    let keep = &settings.retention;
    let durability = match settings.store.durability {
        Durability::Memory => {
            let bytes = usize::try_from(keep.bytes_max).unwrap_or(0);
            let bytes = if bytes == 0 { MemoryStore::CAPACITY_BYTES } else { bytes };
            let mut store = MemoryStore::bounded(bytes, when_full(keep.when_full), now_ns);
            store.help_by(helpers);
            return Ok(Box::new(store));
        }
        Durability::Process => transfix_store::Durability::Process,
        Durability::Power => transfix_store::Durability::Power,
    };
    // Keeps segments short against the limit, because a store forgets only whole segments.
    let segment_max = match usize::try_from(keep.bytes_max) {
        Ok(bytes) if bytes > 0 => bytes / 4,
        _ => usize::MAX,
    };
    let options = Options {
        durability,
        segment_bytes_first: settings.store.segment_bytes.min(segment_max),
        segment_bytes_max: settings.store.segment_bytes.max(SEGMENT_BYTES_MAX).min(segment_max),
    };
    let path = settings.store_path();
    let doubt = file_system::check(&path, settings.store.allow_network_store)?;
    let opened = FileStore::open_for(&settings.folder(), &path, options, now_ns);
    let (mut store, recovered) = opened?;
    if let Some(why) = doubt {
        // Logs the warning only after the store was opened, because opening is retried after a
        // failure.
        let store = path.display();
        event!(warn, StoreOnNetwork, %store, why);
    }
    store.help_by(helpers);
    // This line is logged at most once per segment; in a busy store, a segment has thousands of
    // messages.
    store.report_to(|error| {
        event!(warn, SegmentNotPrepared, %error);
    });
    if recovered.cut_bytes > 0 {
        // This line is logged once per interrupted batch, because recovery has removed the batch.
        let cut_bytes = recovered.cut_bytes;
        event!(warn, BatchCut, path = %path.display(), cut_bytes);
    }
    if recovered.note_damaged {
        // The line is logged once, because the note is written again.
        let lock = path.join("lock");
        event!(error, LockDamaged, lock = %lock.display());
    }
    tell_older(&mut store, &path);
    if *keep != RetentionSettings::default() {
        let retention = Retention {
            archive_dir: keep.archive_dir.as_ref().map(|dir| dir.join(settings.folder())),
            compress: if keep.compress { Compress::Zstd } else { Compress::Never },
            delete_after: keep.delete_after,
            rotate_every: keep.rotate_every,
            bytes_max: keep.bytes_max,
            when_full: when_full(keep.when_full),
        };
        // This line is logged at most once per segment.
        store.retain(retention, now_ns, |error| {
            event!(error, SegmentsStay, %error);
        });
    }
    Ok(Box::new(store))
}

/// Logs an error if the store's numbers are lower than when it was last closed, as after restoring
/// an old copy.
fn tell_older(store: &mut FileStore, path: &Path) {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".numbers");
    match store.keep_numbers_in(beside.into()) {
        Ok(None) => {}
        Ok(Some(had)) => {
            let (store, has) = (path.display(), store.numbers());
            let (next_in, next_out) = (has.next_in, has.next_out);
            let (had_next_in, had_next_out) = (had.next_in, had.next_out);
            event!(
                error,
                StoreOlder,
                %store,
                next_in,
                next_out,
                had_next_in,
                had_next_out
            );
        }
        Err(error) => {
            let store = path.display();
            event!(warn, NumbersNotKept, %store, %error);
        }
    }
}
