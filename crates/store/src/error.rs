//! The errors of a store, with their remedies.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::record::Numbers;

/// The reason why a store has refused or failed a request.
#[non_exhaustive]
pub enum StoreError {
    /// The operating system reported an error.
    Io {
        /// The file or directory to which the error belongs.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content of a file is damaged in a way that no crash can cause.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damage from the beginning of the file, in bytes.
        offset: u64,
        /// The kind of the damage.
        reason: Damage,
    },
    /// The store belongs to another session.
    Foreign {
        /// Its directory.
        dir: Box<Path>,
        /// The name of the session to which the store belongs.
        owner: Box<str>,
        /// The name of the session for which the store was opened.
        wanted: Box<str>,
    },
    /// Another process, or another part of this process, has the store open.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The store was replaced by an earlier copy, and later commits are missing.
    Older {
        /// Its directory.
        dir: Box<Path>,
        /// The numbers found in the store.
        found: Box<Numbers>,
        /// The numbers that were committed last.
        committed: Box<Numbers>,
    },
    /// An error that a custom store reports in its own words.
    Own(io::Error),
    /// Another process has taken the store over. Nothing of this process is written any more until
    /// the store is refreshed.
    Fenced {
        /// The session of the store.
        session: Box<str>,
    },
    /// The store was not refreshed, because the process that has it is running and uses the
    /// session. The store is as before, and may be refreshed again.
    InUse {
        /// The session of the store.
        session: Box<str>,
        /// The name of the gateway that has the session.
        by: Box<str>,
    },
    /// An earlier write failed, so the store refuses all requests until it is reopened.
    Poisoned,
    /// The messages since the last reset fill all the space that the retention permits.
    Full {
        /// Bytes allowed.
        bytes_max: u64,
    },
    /// The record, or the batch that contains it, is larger than the store can hold.
    TooLarge {
        /// Bytes wanted.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// This is not a failure: the answer is still being read. When it arrives, the store calls the
    /// waker given to [`Store::wake_by`](crate::Store::wake_by); then repeat the request.
    NotYet,
}

impl StoreError {
    /// Returns the code of this error, for logs and other languages. Codes never change; the page
    /// "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::Io { .. } => 501,
            Self::Damaged { reason, .. } => reason.as_u16(),
            Self::Foreign { .. } => 502,
            Self::Locked { .. } => 503,
            Self::Older { .. } => 504,
            Self::Own(_) => 505,
            Self::Poisoned => 506,
            Self::Full { .. } => 507,
            Self::TooLarge { .. } => 508,
            Self::NotYet => 509,
            Self::Fenced { .. } => 510,
            Self::InUse { .. } => 511,
        }
    }
}

/// The kinds of damage of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Damage {
    /// The file does not begin with a valid segment header.
    Header,
    /// The file was written in a format version unknown to this program.
    Version,
    /// The segment number in the header differs from the number in the file's name.
    Name,
    /// In place of a missing segment, there is a segment of another store, or of an earlier state
    /// of this store.
    Store,
    /// Valid batches are at a wrong offset.
    Moved,
    /// Another file has replaced this file since the store was opened.
    Replaced,
    /// The file is missing, although this file or later files were written.
    Missing,
    /// The file is shorter than when it was created.
    Short,
    /// The first numbers of the segment differ from the last numbers of the preceding segment.
    Numbers,
    /// A record was changed after it was written, and valid batches follow it, so this is no
    /// unfinished write.
    Record,
    /// A record was changed by another program while the store was open.
    Changed,
}

impl Damage {
    /// Returns the code of this damage, for logs and other languages. Codes never change; the page
    /// "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::Header => 601,
            Self::Version => 602,
            Self::Name => 603,
            Self::Store => 604,
            Self::Moved => 605,
            Self::Replaced => 606,
            Self::Missing => 607,
            Self::Short => 608,
            Self::Numbers => 609,
            Self::Record => 610,
            Self::Changed => 611,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "unsound segment header",
            Self::Version => "unknown format version",
            Self::Name => "the header's segment number differs from the file's name",
            Self::Store => "this segment was not written by this store at this position",
            Self::Moved => "this segment contains a valid batch of another segment",
            Self::Replaced => "another file replaced the opened file",
            Self::Missing => "this segment is missing",
            Self::Short => "the file was truncated",
            Self::Numbers => "the numbers differ from the last numbers of the previous segment",
            Self::Record => "invalid record with valid records after it",
            Self::Changed => "this record was changed after it was written",
        })
    }
}

/// The end of error texts: the next step after the cause is removed, for operators of an engine and
/// users of commands.
const THEN: &str = "then an engine reopens the store by itself; repeat a command";

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => {
                let remedy = match source.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
                    io::ErrorKind::PermissionDenied => "allow this user to write there",
                    _ => "remove the cause",
                };
                write!(f, "store file {}: {source}; {remedy}, {THEN}", path.display())
            }
            Self::Damaged { path, reason: Damage::Version, offset } => write!(
                f,
                "store file {} at byte {offset}: {}; open the store with the version that wrote it",
                path.display(),
                Damage::Version,
            ),
            Self::Damaged { path, reason: reason @ Damage::Replaced, .. } => write!(
                f,
                "store file {}: {reason}; put the store back into its place, and let one process \
                 at a time use it",
                path.display(),
            ),
            Self::Damaged { path, offset, reason } => write!(
                f,
                "store file {} at byte {offset}: {reason}; `transfix store verify {dir}` lists \
                 the losses, `transfix store repair {dir} --to NEW` saves the rest",
                path.display(),
                dir = path.parent().unwrap_or(Path::new(".")).display(),
            ),
            Self::Foreign { dir, owner, wanted } => write!(
                f,
                "the store {dir} belongs to the session {owner}, not to {wanted}; use the right \
                 directory, or, if the session was renamed, `transfix store repair {dir} --to \
                 NEW --session {wanted}`",
                dir = dir.display(),
            ),
            Self::Locked { path } => write!(
                f,
                "store lock {} is held; stop the other process that uses this store",
                path.display(),
            ),
            Self::Older { dir, found, committed } => write!(
                f,
                "the store {} is an older copy: it ends at next_in {}, next_out {}{}, but next_in \
                 {}, next_out {} was committed; restore the newer copy, or, if it is lost, \
                 compare the numbers with those of the counterparty and start the process again",
                dir.display(),
                found.next_in,
                found.next_out,
                if found.created_ns == committed.created_ns { "" } else { " of another reset" },
                committed.next_in,
                committed.next_out,
            ),
            Self::Own(source) => source.fmt(f),
            Self::Fenced { session } => {
                write!(f, "{session}: another process has taken this store over, and uses it now")
            }
            Self::InUse { session, by } => {
                write!(f, "{session}: the gateway {by} is using this session")
            }
            Self::Poisoned => f.write_str("an earlier write failed; open the store again"),
            Self::Full { bytes_max } => write!(
                f,
                "the messages since the last reset fill the allowed {bytes_max} bytes; reset the \
                 numbers, or raise the limit",
            ),
            Self::TooLarge { len, max } => {
                write!(f, "record of {len} bytes in one batch, at most {max}; commit more often")
            }
            Self::NotYet => f.write_str("the store has not answered yet"),
        }
    }
}

/// Formats as `Display` does, so that an error returned by `main` prints as text.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Own(source) => source.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: &StoreError, expected: &str) {
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn each_error_names_the_file_and_says_what_to_do() {
        let path = || PathBuf::from("store/A/00000001.seg");
        for (kind, expected) in [
            (io::ErrorKind::StorageFull, "no storage space; free some space, then"),
            (io::ErrorKind::QuotaExceeded, "quota exceeded; free some space, then"),
            (
                io::ErrorKind::PermissionDenied,
                "permission denied; allow this user to write there, then",
            ),
            (
                io::ErrorKind::ReadOnlyFilesystem,
                "read-only filesystem or storage medium; remove the cause, then",
            ),
        ] {
            let error = StoreError::Io { path: path(), source: kind.into() };
            let place = "store file store/A/00000001.seg: ";
            check(&error, &format!("{place}{expected}{}", THEN.trim_start_matches("then")));
        }
        let wrong = |reason| StoreError::Damaged { path: path(), offset: 64, reason };
        let place = "store file store/A/00000001.seg at byte 64: ";
        check(
            &wrong(Damage::Record),
            &format!(
                "{place}invalid record with valid records after it; `transfix store verify \
                 store/A` lists the losses, `transfix store repair store/A --to NEW` saves the \
                 rest"
            ),
        );
        check(
            &wrong(Damage::Version),
            &format!(
                "{place}unknown format version; open the store with the version that wrote it"
            ),
        );
        check(
            &StoreError::Foreign {
                dir: Path::new("store/A").into(),
                owner: "FIX.4.4-A-B".into(),
                wanted: "FIX.4.4-A-C".into(),
            },
            "the store store/A belongs to the session FIX.4.4-A-B, not to FIX.4.4-A-C; use the \
             right directory, or, if the session was renamed, `transfix store repair \
             store/A --to NEW --session FIX.4.4-A-C`",
        );
        check(
            &StoreError::Locked { path: "store/A/lock".into() },
            "store lock store/A/lock is held; stop the other process that uses this store",
        );
        check(
            &StoreError::Own(io::Error::other("no route to the database")),
            "no route to the \
               database",
        );
    }
}
