//! The event file. Lines are appended. A new file begins by size, by time or on request; closed
//! files are compressed and later removed.
//!
//! Invariants: no line is split between two files, and only the last line before a crash may be
//! incomplete. Only one process writes a file. If a write fails, the caller keeps the line for
//! another attempt. A missing folder or file is created again.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transfix::{EventForm, EventSettings, Timestamp, clock};
use transfix_store::{compress, lines};

use super::encoded::missing_in_file;
use super::queue::Destination;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3_600 * SECOND_NS;
/// File mode: the owner may read and write, the group may only read.
const MODE: u32 = 0o640;
/// Number of digits in the serial number that distinguishes files closed in the same second.
const SERIAL_DIGITS: usize = 3;
/// Length of `YYYYMMDD-HH:MM:SS`, the part of a formatted time up to the seconds.
const SECONDS_LEN: usize = 17;

/// The event file and the limits for its closed files.
pub(super) struct RollingFile {
    path: PathBuf,
    form: EventForm,
    bytes_max: u64,
    every_ns: i64,
    open: Option<Open>,
    closed: Closed,
    /// Thread that compresses and removes closed files.
    cleaner: Option<JoinHandle<()>>,
    /// Time of the next check of the closed files, in nanoseconds since 1970.
    clean_at: i64,
    roll_failed: bool,
}

/// The event file that is open for writing.
struct Open {
    file: File,
    bytes: u64,
    /// Number of the roll interval in which the file was begun. A new file begins when the interval
    /// changes.
    period: i64,
    /// True if the last write failed and may have left a partial line.
    is_torn: bool,
}

impl RollingFile {
    /// Opens the event file, and creates its folder if missing.
    pub(super) fn open(settings: &EventSettings) -> io::Result<Self> {
        let closed = Closed {
            path: settings.file.clone(),
            kept_max: settings.rolled_files_max,
            age_max_ns: nanos(settings.rolled_age_max),
            compresses: settings.compress,
        };
        let mut this = Self {
            path: settings.file.clone(),
            form: settings.file_form,
            bytes_max: settings.roll_bytes,
            every_ns: nanos(settings.roll_every),
            open: None,
            closed,
            cleaner: None,
            clean_at: 0,
            roll_failed: false,
        };
        this.open = Some(this.opened()?);
        Ok(this)
    }

    fn opened(&self) -> io::Result<Open> {
        if let Some(dir) = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o750).create(dir)?;
        }
        let (file, bytes) = lines::open(&self.path, MODE)?;
        let changed = file.metadata()?.modified().ok();
        let changed = changed.and_then(|time| Timestamp::try_from(time).ok());
        let period = changed.map_or(0, |time| self.period(time));
        Ok(Open { file, bytes, period, is_torn: false })
    }

    fn period(&self, time: Timestamp) -> i64 {
        match self.every_ns {
            0 => 0,
            every_ns => time.0.div_euclid(every_ns),
        }
    }

    /// Returns true if the path still names the open file, which was neither removed nor replaced.
    fn is_there(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let known = open.file.metadata().map(|meta| (meta.dev(), meta.ino()));
        let named = fs::metadata(&self.path).map(|meta| (meta.dev(), meta.ino()));
        matches!((known, named), (Ok(known), Ok(named)) if known == named)
    }

    /// Begins a new file if the open file has no space for `next` bytes, or its roll interval has
    /// ended. On an error, the open file grows further.
    fn roll_if_due(&mut self, next: usize) {
        let period = self.period(clock::now().utc);
        let Some(open) = &mut self.open else { return };
        let is_full = self.bytes_max > 0 && open.bytes + next as u64 > self.bytes_max;
        if open.bytes == 0 || (!is_full && period == open.period) {
            if open.bytes == 0 {
                open.period = period;
            }
            return;
        }
        match self.begin_anew() {
            Ok(()) => self.roll_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut self.roll_failed, true) {
                    let file = self.path.display();
                    tracing::error!(%file, %error, "the event file could not be rotated");
                }
            }
        }
    }

    /// Renames the file to a name with the current time, and opens a new file.
    fn begin_anew(&mut self) -> io::Result<()> {
        let now = clock::now().utc;
        fs::rename(&self.path, self.closed.next_path(now)?)?;
        self.open = None;
        self.clean_at = 0;
        self.open = Some(self.opened()?);
        Ok(())
    }

    /// Starts a thread that compresses and removes closed files. This happens after each new file,
    /// and every hour.
    fn clean(&mut self) {
        let now = clock::now().utc;
        if now.0 < self.clean_at || self.cleaner.as_ref().is_some_and(|one| !one.is_finished()) {
            return;
        }
        self.clean_at = now.0 + HOUR_NS;
        let closed = self.closed.clone();
        let run = move || {
            if let Err(error) = closed.clean(now) {
                let file = closed.path.display();
                tracing::error!(%file, %error, "closed event files could not be compressed or \
                    removed");
            }
        };
        self.cleaner = thread::Builder::new().name("events-old".to_owned()).spawn(run).ok();
    }
}

impl Destination for RollingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.roll_if_due(line.len());
        if self.open.is_none() {
            self.open = Some(self.opened()?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.is_torn {
            open.file.write_all(b"\n")?;
            open.bytes += 1;
            open.is_torn = false;
        }
        match open.file.write_all(line) {
            Ok(()) => open.bytes += line.len() as u64,
            Err(error) => {
                // The partial line is removed. If the removal fails, the next write begins with a
                // line break.
                open.is_torn = open.file.set_len(open.bytes).is_err();
                return Err(error);
            }
        }
        Ok(())
    }

    fn missing(&self, lines: u64) -> Vec<u8> {
        missing_in_file(self.form, lines)
    }

    fn look_after(&mut self) {
        if self.open.is_some() && !self.is_there() {
            self.open = None;
        }
        self.roll_if_due(0);
        self.clean();
    }

    fn roll(&mut self) -> io::Result<bool> {
        if self.open.as_ref().is_none_or(|open| open.bytes == 0) {
            return Ok(false);
        }
        self.begin_anew()?;
        self.clean();
        Ok(true)
    }
}

impl Drop for RollingFile {
    fn drop(&mut self) {
        // The thread is awaited, because an interrupted compression would start over at the next
        // program start.
        if let Some(cleaner) = self.cleaner.take() {
            let _ = cleaner.join();
        }
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Closed event files: `NAME.YYYYMMDD-HHMMSS.NNN.log` beside `NAME.log`, named by their closing
/// time.
#[derive(Clone)]
struct Closed {
    path: PathBuf,
    /// Maximum number of closed files; 0 means unlimited.
    kept_max: usize,
    /// Maximum age of closed files, in nanoseconds; 0 means unlimited.
    age_max_ns: i64,
    compresses: bool,
}

impl Closed {
    fn next_path(&self, now: Timestamp) -> io::Result<PathBuf> {
        let time = compact(now);
        let all = self.all()?;
        let of_second = all.iter().filter_map(|(name, _)| name.strip_prefix(&*time)?.get(1..4));
        let serial = of_second.filter_map(|serial| serial.parse::<u32>().ok()).max();
        let serial = serial.map_or(0, |last| last + 1);
        if serial >= 10_u32.pow(SERIAL_DIGITS as u32) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (stem, ending) = self.parts();
        Ok(self.path.with_file_name(format!("{stem}.{time}.{serial:03}{ending}")))
    }

    /// Returns the file name without its extension, and the extension with its dot.
    fn parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let ending = self.path.extension().map(|ending| format!(".{}", ending.to_string_lossy()));
        (text(self.path.file_stem()), ending.unwrap_or_default())
    }

    /// Returns the closed files, oldest first. Each entry has the file name after the stem, and the
    /// path.
    fn all(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let (stem, ending) = self.parts();
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let mut found = Vec::new();
        for entry in fs::read_dir(dir.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(rest) = rest_of_closed(&name, &stem, &ending) {
                found.push((rest.to_owned(), entry.path()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Compresses closed files, and removes files beyond the number or age limit.
    fn clean(&self, now: Timestamp) -> io::Result<()> {
        let all = self.all()?;
        let beyond = match self.kept_max {
            0 => 0,
            kept => all.len().saturating_sub(kept),
        };
        let oldest = match self.age_max_ns {
            0 => String::new(),
            age_ns => compact(Timestamp(now.0.saturating_sub(age_ns))),
        };
        let is_gone = |n: usize, name: &str| n < beyond || *name < *oldest;
        for (n, (name, path)) in all.iter().enumerate() {
            if is_gone(n, name) {
                fs::remove_file(path)?;
            }
        }
        if !self.compresses {
            return Ok(());
        }
        for (n, (name, path)) in all.iter().enumerate() {
            if !is_gone(n, name) && path.extension().is_none_or(|one| one != compress::ENDING) {
                let rights = fs::metadata(path)?.permissions();
                compress::compress(path)?;
                let mut compressed = path.clone().into_os_string();
                compressed.push(format!(".{}", compress::ENDING));
                fs::set_permissions(compressed, rights)?;
            }
        }
        Ok(())
    }
}

/// Formats a time for file names: `YYYYMMDD-HHMMSS`.
fn compact(time: Timestamp) -> String {
    time.to_string().chars().take(SECONDS_LEN).filter(|c| *c != ':').collect()
}

/// Returns the part of a closed file's name after the stem, which starts with the closing time.
/// Returns `None` for other files.
fn rest_of_closed<'n>(name: &'n str, stem: &str, ending: &str) -> Option<&'n str> {
    let rest = name.strip_prefix(stem)?.strip_prefix('.')?;
    let plain = rest.strip_suffix(&format!(".{}", compress::ENDING)).unwrap_or(rest);
    let (time, serial) = plain.strip_suffix(ending)?.split_once('.')?;
    let (day, time) = time.split_once('-')?;
    let digits = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    let is_closed = digits(day, 8) && digits(time, 6) && digits(serial, SERIAL_DIGITS);
    is_closed.then_some(rest)
}
