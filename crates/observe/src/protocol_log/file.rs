//! A file of a protocol log, to which lines are appended, and which is replaced by a new one at
//! intervals.
//!
//! Invariants: existing contents are never overwritten. Each line is complete and in a single file.
//! If a write fails, its lines are lost and counted; later lines are tried again.

use std::fmt::{Arguments, Write as _};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use tracing::field::display;
use transfix_codec::Timestamp;
use transfix_store::{compress, lines};

use crate::clock;
use crate::event;
use crate::repeats::Repeats;
use crate::tell;

/// The approximate number of bytes per write.
const PIECE_BYTES: usize = 256 << 10;
/// The length of `YYYYMMDD-HH:MM:SS`, with which each line begins.
const SECONDS_LEN: usize = 17;
/// The permissions of a log file: only the owner may access it.
const MODE: u32 = 0o600;
/// The number of digits that distinguish closed files whose first lines are from the same second.
const SERIAL_DIGITS: usize = 3;

/// The rules for replacing a file by a new one, and for keeping closed files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rolling {
    /// The maximum bytes of a file; 0 for no limit.
    pub(super) bytes_max: u64,
    /// The period in nanoseconds after which a file is replaced; 0 for no limit.
    pub(super) every_ns: i64,
    /// The number of closed files to keep; 0 for all.
    pub(super) kept_max: usize,
    pub(super) compresses: bool,
}

impl Rolling {
    /// Returns the number of the period to which a line belongs.
    fn period(self, time: Timestamp) -> i64 {
        match self.every_ns {
            0 => 0,
            every_ns => time.0.div_euclid(every_ns),
        }
    }
}

/// The file that is being written, with the lines that wait to be written.
#[derive(Debug)]
pub(super) struct LogFile {
    /// The path without its ending `.log`.
    base: PathBuf,
    rolling: Rolling,
    file: File,
    bytes: u64,
    /// The number of the period to which the last line belongs.
    period: i64,
    /// Complete lines that wait to be written, and their number.
    waiting: Vec<u8>,
    lines: u64,
    /// The number of lines that could not be written, and whose loss was not recorded yet.
    lost: u64,
    /// True if the last write failed.
    last_write_failed: bool,
    compressing: Vec<JoinHandle<Result<(), NotCompressed>>>,
    repeats: Repeats,
}

/// A closed file that could not be compressed, and the error.
type NotCompressed = (PathBuf, io::Error);

impl LogFile {
    /// Opens the file, and appends to it if it exists.
    pub(super) fn open(base: PathBuf, rolling: Rolling) -> io::Result<Self> {
        let (file, bytes) = lines::open(&with(&base, "log"), MODE)?;
        let changed = file.metadata()?.modified().ok();
        let changed = changed.and_then(|time| Timestamp::try_from(time).ok());
        let period = changed.map_or(0, |time| rolling.period(time));
        let waiting = Vec::with_capacity(2 * PIECE_BYTES);
        Ok(Self {
            base,
            rolling,
            file,
            bytes,
            period,
            waiting,
            lines: 0,
            lost: 0,
            last_write_failed: false,
            compressing: Vec::new(),
            repeats: Repeats::default(),
        })
    }

    /// Adds a line: the time, `label`, ` : ` and the text.
    pub(super) fn line(&mut self, time: Timestamp, label: &str, text: &[u8]) {
        let period = self.rolling.period(time);
        let begun = self.bytes + self.waiting.len() as u64;
        let full = self.rolling.bytes_max > 0
            && begun + (text.len() + 2 * SECONDS_LEN) as u64 > self.rolling.bytes_max;
        if begun > 0 && (full || period != self.period) {
            self.write();
            if let Err(error) = self.roll() {
                // The lines continue in the present file, and the next line tries again to replace
                // it.
                let (file, now_ns) = (display(self.base.display()), clock::monotonic_ns());
                tell!(self.repeats, now_ns, NotRolled, error, LogNotRolled, file = file, %error);
            }
        }
        self.period = period;
        self.tell_lost(time);
        self.begin(format_args!("{time}{label} : "));
        self.waiting.extend_from_slice(text);
        self.end();
    }

    /// Adds a line that records how many lines are missing at this place.
    pub(super) fn missing(&mut self, time: Timestamp, lines: u64) {
        self.begin(format_args!("{time} : {lines} lines are missing near here"));
        self.end();
    }

    fn tell_lost(&mut self, time: Timestamp) {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            self.missing(time, lost);
        }
    }

    fn begin(&mut self, head: Arguments<'_>) {
        let _ = write!(Text(&mut self.waiting), "{head}");
    }

    fn end(&mut self) {
        self.waiting.push(b'\n');
        self.lines += 1;
        if self.waiting.len() >= PIECE_BYTES {
            self.write();
        }
    }

    /// Writes the waiting lines to the system.
    pub(super) fn write(&mut self) {
        self.settle_compressed(false);
        if self.repeats.deadline().is_some() {
            let untold = self.repeats.take_omitted(clock::monotonic_ns());
            self.tell_counts(untold);
        }
        if self.waiting.is_empty() {
            return;
        }
        match self.append() {
            Ok(()) => self.last_write_failed = false,
            Err(error) => {
                self.lost += self.lines;
                if !std::mem::replace(&mut self.last_write_failed, true) {
                    let (file, now_ns) = (display(self.base.display()), clock::monotonic_ns());
                    tell!(
                        self.repeats, now_ns, NotLogged, error, LogLinesLost, file = file, %error
                    );
                }
            }
        }
        self.waiting.clear();
        self.lines = 0;
    }

    fn append(&mut self) -> io::Result<()> {
        if self.last_write_failed {
            // The last attempt may have left a partial line.
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(&self.waiting)?;
        self.bytes += self.waiting.len() as u64;
        Ok(())
    }

    /// Starts a new file at once, unless this one is empty. Returns true if a new file was started.
    pub(super) fn roll_now(&mut self) -> Result<bool, String> {
        self.write();
        if self.bytes == 0 {
            return Ok(false);
        }
        let rolled = self.roll().map(|()| true);
        rolled.map_err(|error| format!("{}.log: {error}", self.base.display()))
    }

    /// Closes the file under a name with the time of its first line, and starts a new file.
    fn roll(&mut self) -> io::Result<()> {
        let current = with(&self.base, "log");
        let rolled = self.rolled_path(&current)?;
        fs::rename(&current, &rolled)?;
        (self.file, self.bytes) = lines::open(&current, MODE)?;
        if self.rolling.compresses {
            let compress = move || compress::compress(&rolled).map_err(|error| (rolled, error));
            let thread = thread::Builder::new().name("tfx-log-zstd".to_owned());
            self.compressing.push(thread.spawn(compress)?);
        }
        self.remove_oldest()
    }

    /// Reports the results of compressions. If `waits` is true, waits for those that are still
    /// running.
    fn settle_compressed(&mut self, waits: bool) {
        for thread in self.compressing.extract_if(.., |thread| waits || thread.is_finished()) {
            if let Ok(Err((path, error))) = thread.join() {
                let (file, now_ns) = (display(path.display()), clock::monotonic_ns());
                tell!(
                    self.repeats, now_ns, NotCompressed, error, LogNotCompressed, file = file,
                    %error
                );
            }
        }
    }

    /// Writes the waiting lines, and releases the lock of the file. No line may be added
    /// afterwards.
    pub(super) fn close(&mut self) {
        self.write();
        // The unlock is explicit, because a child process that was just started may have the file
        // open.
        let _ = self.file.unlock();
    }

    /// Returns true if no closed file is being compressed.
    pub(super) fn is_settled(&mut self) -> bool {
        self.settle_compressed(false);
        self.compressing.is_empty()
    }

    fn tell_counts(&self, counts: Vec<(&'static str, u64)>) {
        for (what, left_out) in counts {
            let file = self.base.display();
            event!(warn, LogLinesLeftOut, %file, left_out, what);
        }
    }

    /// Returns a path whose name sorts after all closed files with a first line from the same
    /// second.
    fn rolled_path(&self, current: &Path) -> io::Result<PathBuf> {
        let mut first = [0; SECONDS_LEN];
        File::open(current)?.read_exact(&mut first)?;
        let is_time = first.iter().all(|b| b.is_ascii_digit() || b"-:".contains(b));
        let digits = first.iter().filter(|b| **b != b':').map(|b| char::from(*b));
        let time: String = if is_time { digits.collect() } else { "00000000-000000".to_owned() };
        let closed = self.closed()?;
        let of_second =
            closed.iter().filter_map(|file| file.name.strip_prefix(&format!("{time}.")));
        let serials = of_second.filter_map(|rest| rest.get(..SERIAL_DIGITS)?.parse::<u32>().ok());
        let serial = serials.max().map_or(0, |last| last + 1);
        if serial >= 10_u32.pow(SERIAL_DIGITS as u32) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(with(&self.base, &format!("{time}.{serial:03}.log")))
    }

    /// Removes closed files beyond the number to keep.
    fn remove_oldest(&self) -> io::Result<()> {
        if self.rolling.kept_max == 0 {
            return Ok(());
        }
        let closed = self.closed()?;
        let beyond = closed.len().saturating_sub(self.rolling.kept_max);
        closed[..beyond].iter().try_for_each(|file| fs::remove_file(&file.path))
    }

    /// Returns the closed files, the oldest first.
    fn closed(&self) -> io::Result<Vec<Closed>> {
        let (Some(dir), Some(base)) = (self.base.parent(), self.base.file_name()) else {
            return Ok(Vec::new());
        };
        let mut closed = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(name) = closed_name(&name.to_string_lossy(), &base.to_string_lossy()) {
                closed.push(Closed { name: name.to_owned(), path: entry.path() });
            }
        }
        closed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(closed)
    }
}

/// A closed file, with a name such as `BASE.YYYYMMDD-HHMMSS.NNN.log`.
struct Closed {
    /// The name without the base; names sort by time.
    name: String,
    path: PathBuf,
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.close();
        self.settle_compressed(true);
        let rest = self.repeats.take_rest();
        self.tell_counts(rest);
    }
}

fn with(base: &Path, ending: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Returns the part after the base in the name of a closed file.
fn closed_name<'a>(name: &'a str, base: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(base)?.strip_prefix('.')?;
    let plain = rest.strip_suffix(&format!(".{}", compress::ENDING)).unwrap_or(rest);
    let (time, serial) = plain.strip_suffix(".log")?.split_once('.')?;
    let digits = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    let (day, time) = time.split_once('-')?;
    let is_closed = digits(day, 8) && digits(time, 6) && digits(serial, SERIAL_DIGITS);
    is_closed.then_some(rest)
}

/// A buffer of bytes into which text can be formatted.
struct Text<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_closed_files() {
        for (name, expected) in [
            ("A.in.20261121-092825.000.log", true),
            ("A.in.20261121-092825.012.log.zst", true),
            ("A.in.log", false),
            ("A.in.20261121-092825.log", false),
            ("A.in.20261121-092825.000.log.new", false),
            ("A.in.B.in.20261121-092825.000.log", false),
            ("B.in.20261121-092825.000.log", false),
        ] {
            assert_eq!(closed_name(name, "A.in").is_some(), expected, "{name}");
        }
    }
}
