//! Finds the sources of a search: files and stores, named directly or found in directories.
//!
//! Invariant: the rolled files of a log are read before its current file.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use transfix_codec::shown::Shown;

use super::report::{Report, count};
use crate::input::{holds_store, is_segment, store_beside};

/// The direction of a message, from the view of the log's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

impl Direction {
    /// Returns `in` or `out`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A log, a capture, or the standard input.
    Stream,
    /// The directory of a store.
    Store,
    /// A segment of a store.
    Segment,
}

/// A file, store or store segment to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// The name shown in results.
    pub(super) name: String,
    /// The name of the file or directory, without its path.
    pub(super) file_name: String,
    /// The direction that the file name states, if any.
    pub(super) way: Option<Direction>,
    /// The file name without the suffix that log rotation adds; equal for all files of one log.
    pub(super) log: String,
}

/// Maximum depth of the directory search.
const DEPTH_MAX: usize = 8;

/// File extensions of logs and captures; `.zst` may follow.
const ENDINGS: &[&str] = &["log", "in", "out", "fix", "messages", "txt"];

/// Parts that log rotation adds to file names.
const PIECES: &[&str] = &["log", "zst", "current", "backup"];

impl Source {
    pub(super) fn new(path: &Path) -> Self {
        let file_name = path.file_name().unwrap_or(path.as_os_str());
        let file_name = file_name.to_string_lossy().into_owned();
        let kind = match path {
            _ if path.is_dir() => Kind::Store,
            _ if is_segment(path) => Kind::Segment,
            _ => Kind::Stream,
        };
        let is_piece = |part: &&str| PIECES.contains(part) || is_number(part);
        let parts: Vec<&str> = file_name.split('.').collect();
        let count = parts.iter().rev().take_while(|part| is_piece(part)).count();
        let parts = &parts[..parts.len() - count];
        let way = match parts.last() {
            Some(&"in") if parts.len() > 1 => Some(Direction::In),
            Some(&"out") if parts.len() > 1 => Some(Direction::Out),
            _ => None,
        };
        let log = match kind {
            Kind::Stream => path.with_file_name(parts.join(".")),
            Kind::Store => path.to_path_buf(),
            Kind::Segment => path.parent().unwrap_or(path).to_path_buf(),
        };
        let log = log.to_string_lossy().into_owned();
        let name = Shown::whole(path.as_os_str().as_encoded_bytes()).to_string();
        Self { path: path.to_path_buf(), kind, name, file_name, way, log }
    }

    pub(super) fn is_standard_input(&self) -> bool {
        self.path == Path::new("-")
    }
}

/// Returns true if the part consists of digits and `-`, like the date or number in the name of a
/// rolled log.
fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

/// The sources found under the paths that the user gave.
#[derive(Debug, Default)]
pub struct Sources {
    /// The sources, in reading order.
    pub all: Vec<Source>,
    /// Number of files in directories that were skipped because their names are not those of logs.
    pub others: u64,
    /// Paths that cannot be read, with the reasons.
    pub unreadable: Vec<String>,
}

impl Sources {
    /// Finds files and stores at these paths; directories are searched.
    ///
    /// `-` means the standard input.
    #[must_use]
    pub fn of(paths: &[PathBuf]) -> Self {
        let mut sources = Self::default();
        for path in paths {
            if !path.is_dir() {
                sources.all.push(Source::new(path));
                continue;
            }
            let before = sources.all.len();
            sources.dir(path, 0);
            if sources.all.len() == before {
                let shown = path.display();
                let endings = ENDINGS.join(", .");
                sources.unreadable.push(format!(
                    "{shown}: contains no store and no log (files that end in .{endings}); name a \
                     file"
                ));
            }
            sources.all[before..].sort_by(|a, b| natural(&a.path, &b.path));
        }
        sources
    }

    /// Reports the unreadable paths and the number of skipped files.
    pub fn tell(&self, report: &mut Report) {
        self.unreadable.iter().for_each(|error| report.failed(error));
        if self.others > 0 {
            let others = count(self.others, "other file");
            report.note(format!(
                "skipped {others} in the directories: the names are not those of logs"
            ));
        }
    }

    /// Adds the store in this directory, if any, and the sources among the directory's entries.
    fn dir(&mut self, dir: &Path, depth: usize) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable.push(format!("{}: {error}", dir.display())),
        };
        let is_store = holds_store(dir);
        if is_store {
            self.all.push(Source::new(dir));
        }
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                if depth < DEPTH_MAX {
                    self.dir(&path, depth + 1);
                }
            } else if is_log(&path) {
                self.all.push(Source::new(&path));
            } else if !is_store && store_beside(&path).is_none() {
                self.others += 1;
            }
        }
    }
}

/// Returns true if the file name is the name of a log or a capture.
fn is_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_suffix(".zst").unwrap_or(name);
    name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Compares file names so that 9 precedes 10, and rolled files precede the current file.
pub(super) fn natural(a: &Path, b: &Path) -> Ordering {
    let [mut a, mut b] = [a, b].map(|path| path.as_os_str().as_encoded_bytes());
    loop {
        let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
        let (of_a, of_b) = (digits(a), digits(b));
        if of_a > 0 && of_b > 0 {
            let [x, y] = [&a[..of_a], &b[..of_b]]
                .map(|text| &text[text.iter().take_while(|b| **b == b'0').count()..]);
            let order = x.len().cmp(&y.len()).then(x.cmp(y)).then(of_a.cmp(&of_b));
            if order.is_ne() {
                return order;
            }
            (a, b) = (&a[of_a..], &b[of_b..]);
            continue;
        }
        match (a.split_first(), b.split_first()) {
            (Some((x, rest_a)), Some((y, rest_b))) if x == y => (a, b) = (rest_a, rest_b),
            (x, y) => return x.map(|(x, _)| x).cmp(&y.map(|(y, _)| y)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_and_logs_by_name() {
        for (name, way, log) in [
            ("FIX.4.4-A-B.in.log", Some(Direction::In), "FIX.4.4-A-B.in"),
            ("FIX.4.4-A-B.out.20261121-092825.000.log", Some(Direction::Out), "FIX.4.4-A-B.out"),
            ("FIX.4.4-A-B.in.20261121-092825.012.log.zst", Some(Direction::In), "FIX.4.4-A-B.in"),
            ("FIX.4.4-A-B.messages.log", None, "FIX.4.4-A-B.messages"),
            ("FIX.4.4-A-B.messages.current.log", None, "FIX.4.4-A-B.messages"),
            ("FIX.4.4-A-B.messages.backup.12.log", None, "FIX.4.4-A-B.messages"),
            ("A-B.in", Some(Direction::In), "A-B.in"),
            ("A-B.out", Some(Direction::Out), "A-B.out"),
            ("in.log", None, "in"),
            ("capture.fix", None, "capture.fix"),
        ] {
            let source = Source::new(Path::new(name));
            assert_eq!((source.way, &*source.log), (way, log), "{name}");
        }
    }

    #[test]
    fn rolled_files_come_first() {
        let mut names = [
            "a.in.log",
            "a.in.20261122-000000.000.log",
            "a.in.20261121-092825.010.log",
            "a.in.20261121-092825.009.log.zst",
            "b.messages.current.log",
            "b.messages.backup.10.log",
            "b.messages.backup.9.log",
        ];
        names.sort_by(|a, b| natural(Path::new(a), Path::new(b)));
        let expected = [
            "a.in.20261121-092825.009.log.zst",
            "a.in.20261121-092825.010.log",
            "a.in.20261122-000000.000.log",
            "a.in.log",
            "b.messages.backup.9.log",
            "b.messages.backup.10.log",
            "b.messages.current.log",
        ];
        assert_eq!(names, expected);
    }
}
