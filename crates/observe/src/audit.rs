//! The audit file: a permanent record of operators' actions.
//!
//! Invariants: lines are only appended. A line is durable before its action begins. A failed write
//! leaves no incomplete line.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use transfix_codec::Timestamp;
mod line;

pub use line::{AuditError, AuditLine, Verified, verify};

use crate::event;
use line::{NO_HASH, chained, hash_of};

/// The length, in bytes, of the end of the file in which the last line is searched.
const TAIL: u64 = 2 << 20;

/// The audit file, open and locked.
pub struct AuditFile {
    path: PathBuf,
    chain: Mutex<Chain>,
}

/// The state of the hash chain, which links each line to the one before.
struct Chain {
    file: File,
    /// The offset after the last complete line.
    length: u64,
    /// The number of the last line.
    n: u64,
    hash: String,
    /// True if an incomplete line may follow the last complete one.
    is_torn: bool,
}

/// A line that was written to the audit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenLine {
    /// The number of the line, from 1.
    pub n: u64,
    /// The hash of the line, in hexadecimal digits.
    pub hash: String,
}

impl AuditFile {
    /// Opens the file, or creates it. If a crash has left an incomplete last line, moves that line
    /// to `FILE.torn`, and records this in the chain.
    pub fn open(path: &Path, now: Timestamp) -> io::Result<Self> {
        // Create the folder at the first start, as for the file of [events].
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir)?;
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = file.open(path)?;
        file.try_lock().map_err(|why| match why {
            TryLockError::WouldBlock => {
                io::Error::new(ErrorKind::ResourceBusy, "another process has the file open")
            }
            TryLockError::Error(error) => error,
        })?;
        let (length, start, tail) = tail_of(&mut file)?;
        let (kept, n, hash) = last_sound(&tail, start == 0)?;
        let torn = &tail[kept..];
        let mut chain = Chain { file, length: start + kept as u64, n, hash, is_torn: false };
        if !torn.is_empty() {
            event!(warn, AuditLineTorn, file = %path.display(), bytes = torn.len());
            keep_apart(path, torn)?;
            chain.is_torn = true;
            let what = format!("{} bytes, SHA-256 {}", torn.len(), hash_of(torn));
            let texts = [("who", "engine"), ("what", &what), ("step", "torn")];
            chain.append(&AuditLine { at: now, texts: &texts, of: None })?;
        } else if start + tail.len() as u64 != length {
            return Err(io::Error::new(
                ErrorKind::ResourceBusy,
                "another process appended to the \
                file meanwhile",
            ));
        }
        Ok(Self { path: path.to_owned(), chain: Mutex::new(chain) })
    }

    /// Appends a line, and returns when it is durable.
    pub fn append(&self, line: &AuditLine<'_>) -> io::Result<WrittenLine> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner).append(line)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Chain {
    fn append(&mut self, line: &AuditLine<'_>) -> io::Result<WrittenLine> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        let n = self.n + 1;
        let (text, hash) = line.written(n, &self.hash);
        self.is_torn = true;
        self.file.seek(SeekFrom::Start(self.length))?;
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Removes the incomplete line at once, or else before the next line is written.
            self.is_torn = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.is_torn = false;
        self.length += text.len() as u64;
        self.n = n;
        self.hash.clone_from(&hash);
        Ok(WrittenLine { n, hash })
    }
}

/// Checks that the file ends with a valid line, without changing it. A missing file is valid too.
pub fn check(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || !path.exists() {
        return Ok(());
    }
    let (_, start, tail) = tail_of(&mut File::open(path)?)?;
    last_sound(&tail, start == 0).map(|_| ())
}

/// Returns the length of the file, the offset of its last part, and the bytes of that part.
fn tail_of(file: &mut File) -> io::Result<(u64, u64, Vec<u8>)> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(length - start).read_to_end(&mut tail)?;
    Ok((length, start, tail))
}

/// Returns the end offset, the number and the hash of the last valid line. Only the last line may
/// be incomplete, because a line is durable before the next one is written.
fn last_sound(tail: &[u8], is_whole: bool) -> io::Result<(usize, u64, String)> {
    let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut end = whole;
    let mut damaged = 0;
    while end > 0 {
        let start = tail[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        match chained(&tail[start..end - 1]) {
            Ok(line) => return Ok((end, line.n, line.hash.to_owned())),
            // After a crash, the end of a line may be on disk without its beginning, which then
            // consists of zeros. An invalid line without zeros must have been edited.
            Err(_) if damaged == 0 && end == tail.len() && tail[start..end].contains(&0) => {
                damaged = 1;
            }
            Err(why) => {
                let why = format!(
                    "the last lines of the file were changed: {why}; move the file \
                                   away"
                );
                return Err(io::Error::new(ErrorKind::InvalidData, why));
            }
        }
        end = start;
    }
    match is_whole {
        true => Ok((0, 0, NO_HASH.to_owned())),
        false => Err(io::Error::new(
            ErrorKind::InvalidData,
            "the file does not end in a valid \
            audit record; move it away",
        )),
    }
}

/// Appends the bytes of an incomplete line to a file next to the audit file.
fn keep_apart(path: &Path, torn: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".torn");
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(name)?;
    file.write_all(torn)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::BufReader;

    use transfix_testkit::temp::TempDir;

    use super::*;

    fn line<'a>(texts: &'a [(&'static str, &'a str)]) -> AuditLine<'a> {
        AuditLine { at: Timestamp(1), texts, of: None }
    }

    fn verified(path: &Path) -> Verified {
        verify(BufReader::new(File::open(path).unwrap()), None).unwrap()
    }

    fn with_lines(path: &Path, lines: u64) -> u64 {
        let file = AuditFile::open(path, Timestamp(1)).unwrap();
        (0..lines).for_each(|_| _ = file.append(&line(&[("step", "done")])).unwrap());
        fs::metadata(path).unwrap().len()
    }

    #[test]
    fn it_goes_on_where_it_was() {
        let dir = TempDir::new();
        let path = dir.path().join("audit");
        with_lines(&path, 3);
        with_lines(&path, 2);
        assert_eq!(verified(&path).lines, 5);
    }

    #[test]
    fn one_process_writes_it() {
        let dir = TempDir::new();
        let path = dir.path().join("audit");
        let _first = AuditFile::open(&path, Timestamp(1)).unwrap();
        let second = AuditFile::open(&path, Timestamp(1)).err().unwrap();
        assert_eq!(second.to_string(), "another process has the file open");
    }

    #[test]
    fn a_crash_at_any_byte_of_the_last_line_is_mended_and_told() {
        let dir = TempDir::new();
        let path = dir.path().join("audit");
        let two = with_lines(&path, 2);
        let three = with_lines(&path, 1);
        let sound = fs::read(&path).unwrap();
        for cut in two..three {
            fs::write(&path, &sound[..cut as usize]).unwrap();
            with_lines(&path, 1);
            let told = u64::from(cut > two);
            assert_eq!(verified(&path).lines, 3 + told, "cut at {cut}");
            // The crash has saved the new length of the file, but not the bytes.
            let mut zeros = sound.clone();
            zeros[cut as usize..].fill(0);
            fs::write(&path, zeros).unwrap();
            with_lines(&path, 1);
            assert_eq!(verified(&path).lines, 4, "zeros from {cut}");
            // The crash has saved the end of the line, but not its beginning.
            let mut zeros = sound.clone();
            zeros[two as usize..=cut as usize].fill(0);
            fs::write(&path, zeros).unwrap();
            with_lines(&path, 1);
            assert_eq!(verified(&path).lines, 4, "zeros up to {cut}");
        }
        assert!(fs::read(dir.path().join("audit.torn")).unwrap().len() > 100);
    }

    /// An edited line is never taken for one that a crash has left incomplete.
    #[test]
    fn a_change_of_any_byte_of_the_last_line_is_found_at_the_next_start() {
        let dir = TempDir::new();
        let path = dir.path().join("audit");
        let two = with_lines(&path, 2) as usize;
        with_lines(&path, 1);
        let sound = fs::read(&path).unwrap();
        // A crash may lose the end of the line.
        for at in two..sound.len() - 1 {
            let mut changed = sound.clone();
            changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
            fs::write(&path, &changed).unwrap();
            let error = AuditFile::open(&path, Timestamp(1)).err().unwrap().to_string();
            assert!(error.starts_with("the last lines of the file were changed"), "{at}: {error}");
            assert_eq!(fs::read(&path).unwrap(), changed, "nothing is changed");
        }
    }

    #[test]
    fn more_than_one_line_that_is_not_sound_is_no_crash() {
        let dir = TempDir::new();
        let path = dir.path().join("audit");
        with_lines(&path, 3);
        let text = fs::read_to_string(&path).unwrap().replace("done", "gone");
        fs::write(&path, &text).unwrap();
        let error = AuditFile::open(&path, Timestamp(1)).err().unwrap().to_string();
        assert!(
            error.starts_with("the last lines of the file were changed: the record does not match"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "nothing is changed");
        // A file of another kind, of any length.
        fs::write(&path, "x\n".repeat(2 << 20)).unwrap();
        AuditFile::open(&path, Timestamp(1)).err().unwrap();
    }
}
