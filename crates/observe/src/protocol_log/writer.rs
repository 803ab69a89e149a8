//! Moves the lines of one session from its ring buffer to its files.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use transfix_codec::{Mask, Tag, shown};
use transfix_session::nanos;
use transfix_settings::{LogDirection, LogSettings};

use super::file::{LogFile, Rolling};
use super::ring::{Consumer, LineKind};
use crate::clock;
use crate::event;

/// The pause between two attempts to open files, in nanoseconds.
const OPEN_AGAIN_NS: u64 = 1_000_000_000;

/// The log of one session, as the log thread keeps it.
pub(super) struct SessionLog {
    lines: Consumer,
    /// The files: one for each direction, or one for both. Empty while they cannot be opened.
    files: Vec<LogFile>,
    /// The settings and the path of the files, for later attempts to open them.
    place: (LogSettings, PathBuf),
    /// The time of the next attempt to open the files, on the monotonic clock.
    open_ns: u64,
    /// True if the session has ended, so that another session may use its files.
    is_closed: bool,
    mask: Mask,
    line: Vec<u8>,
    pub(super) pause: Duration,
}

/// Opens the files of a session: one for each direction, or one for both.
pub(super) fn open_files(settings: &LogSettings, name: &Path) -> io::Result<Vec<LogFile>> {
    // Only the owner may read the directory, because messages are confidential.
    DirBuilder::new().recursive(true).mode(0o700).create(&settings.dir)?;
    let rolling = Rolling {
        bytes_max: settings.roll_bytes,
        every_ns: nanos(settings.roll_every).cast_signed(),
        kept_max: settings.rolled_files_max,
        compresses: settings.compress,
    };
    let endings: &[&str] = match settings.direction {
        LogDirection::Files => &["in", "out"],
        LogDirection::Words => &["messages"],
    };
    let open = |ending: &&str| {
        let mut base = settings.dir.join(name).into_os_string();
        base.push(".");
        base.push(ending);
        LogFile::open(base.into(), rolling)
    };
    endings.iter().map(open).collect()
}

impl SessionLog {
    /// Returns the log of a session with these files. If `files` is empty, they are opened later.
    pub(super) fn new(
        (settings, name): (&LogSettings, &Path),
        files: Vec<LogFile>,
        lines: Consumer,
    ) -> Self {
        let mask = Mask::of(settings.mask.iter().map(|tag| Tag(*tag)));
        let pause = settings.write_every;
        let place = (settings.clone(), name.to_owned());
        let (line, open_ns) = (Vec::new(), 0);
        Self { lines, files, place, open_ns, is_closed: false, mask, line, pause }
    }

    /// Returns true if the files are open, or can be opened now.
    fn has_files(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        if self.files.is_empty() && !self.is_closed && now_ns >= self.open_ns {
            self.open_ns = now_ns.saturating_add(OPEN_AGAIN_NS);
            // The reason was reported when the session began.
            self.files = open_files(&self.place.0, &self.place.1).unwrap_or_default();
        }
        !self.files.is_empty()
    }

    /// Returns true if the session has ended and no work is left, so that the log can be dropped.
    pub(super) fn is_over(&mut self) -> bool {
        self.is_closed && self.files.iter_mut().all(LogFile::is_settled)
    }

    /// Writes the last lines of an ended session, and releases its files for other sessions.
    fn close(&mut self) {
        self.is_closed = true;
        if self.files.is_empty() && self.lines.fill().0 > 0 {
            let file = self.place.0.dir.join(&self.place.1);
            let (file, error) = (file.display(), "the files could not be opened");
            event!(error, LogEndsWithLoss, %file, error);
        }
        self.files.iter_mut().for_each(LogFile::close);
    }

    /// Writes all lines from the ring. Returns true if the ring has filled faster than the pause
    /// allows for.
    pub(super) fn write_all(&mut self) -> bool {
        // Reads the flag first: if the ring is closed, all its lines are taken below.
        let is_last = !self.is_closed && self.lines.is_closed();
        let (waiting, capacity) = self.lines.fill();
        if self.has_files() {
            self.take_lines();
        }
        if is_last {
            self.close();
        }
        !self.files.is_empty() && waiting > capacity / 4
    }

    fn take_lines(&mut self) {
        while let Some((time, kind)) = self.lines.pop(&mut self.line) {
            if kind == LineKind::Garbled {
                self.mask.garbled_in_place(&mut self.line);
            } else {
                self.mask.message_in_place(&mut self.line);
            }
            shown::escape_line(&mut self.line);
            let words = self.files.len() == 1;
            let label = match kind {
                LineKind::Inbound if words => " in",
                LineKind::Outbound if words => " out",
                LineKind::Garbled if words => " in garbled",
                LineKind::Garbled => " garbled",
                _ => "",
            };
            file(&mut self.files, kind).line(time, label, &self.line);
        }
        for (kind, lost) in
            [LineKind::Inbound, LineKind::Outbound].into_iter().zip(self.lines.take_lost())
        {
            if lost > 0 {
                file(&mut self.files, kind).missing(clock::now().utc, lost);
            }
        }
        self.files.iter_mut().for_each(LogFile::write);
    }

    /// Starts new files. Returns for each file whether it was replaced, which needs at least one
    /// line, or the error.
    pub(super) fn roll(&mut self) -> Vec<Result<bool, String>> {
        // The files of an ended session may belong to another session by now.
        let files = self.files.iter_mut().filter(|_| !self.is_closed);
        files.map(LogFile::roll_now).collect()
    }
}

/// Returns the file for lines of this kind.
fn file(files: &mut [LogFile], kind: LineKind) -> &mut LogFile {
    let at = usize::from(kind.is_outbound()).min(files.len() - 1);
    &mut files[at]
}
