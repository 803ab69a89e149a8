//! The lines of one session on their way from its ring to its files.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use transfix_codec::{Tag, shown};

use super::file::{LogFile, Rolling};
use super::ring::{Consumer, LineKind};
use crate::clock;
use crate::observe::mask;
use crate::settings::log::{LogDirection, LogSettings};

/// What the thread of the logs has of a session.
pub(super) struct SessionLog {
    lines: Consumer,
    /// One for each direction, or one for both.
    files: Vec<LogFile>,
    mask: Vec<Tag>,
    line: Vec<u8>,
    pub(super) pause: Duration,
}

impl SessionLog {
    pub(super) fn open(settings: &LogSettings, name: &Path, lines: Consumer) -> io::Result<Self> {
        // What counterparties say to each other is nobody else's.
        DirBuilder::new().recursive(true).mode(0o700).create(&settings.dir)?;
        let rolling = Rolling {
            bytes_max: settings.roll_bytes,
            every_h: settings.roll_every_h,
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
        let files = endings.iter().map(open).collect::<io::Result<_>>()?;
        let mask = settings.mask.iter().map(|tag| Tag(*tag)).collect();
        let pause = Duration::from_millis(settings.write_every_ms.into());
        Ok(Self { lines, files, mask, line: Vec::new(), pause })
    }

    /// Writes all that waits. Returns whether more came than should in one pause.
    pub(super) fn write_all(&mut self) -> bool {
        let (waiting, capacity) = self.lines.fill();
        while let Some((time, kind)) = self.lines.pop(&mut self.line) {
            if kind == LineKind::Garbled {
                mask::mask_garbled(&mut self.line, &self.mask);
            } else {
                mask::mask(&mut self.line, &self.mask);
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
        waiting > capacity / 4
    }

    /// Begins new files where there are lines: whether it did, or why it did not.
    pub(super) fn roll(&mut self) -> Vec<Result<bool, String>> {
        self.files.iter_mut().map(LogFile::roll_now).collect()
    }
}

/// That of the direction.
fn file(files: &mut [LogFile], kind: LineKind) -> &mut LogFile {
    let at = usize::from(kind.is_outbound()).min(files.len() - 1);
    &mut files[at]
}
