//! Files into which routes write messages, and files whose lines are sent.
//!
//! Invariants:
//! - A message counts as written once its whole line is on the disk.
//! - A line counts as sent once its message is safe in its session's store.
//! - A line that may have been sent before is sent with PossResend(97).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use transfix::{Admin, SendError};

use super::line::Sending;
use super::mark::mark;
use super::origins::Origins;
use super::routes::{FileMode, MessageFile};
use super::sending;

/// The interval at which a file without another line, or a session that cannot send, is tried
/// again.
const LOOK: Duration = Duration::from_millis(100);
/// The maximum length of a line read, in bytes.
const LINE_MAX: u64 = 1 << 20;

/// The files into which routes write. Clones share one state.
#[derive(Clone, Default)]
pub(super) struct OutputFiles(Arc<BTreeMap<String, Mutex<OutputFile>>>);

/// A file into which routes write.
struct OutputFile {
    path: PathBuf,
    file: File,
    /// The number of lines that could not be written since the last one that could.
    refused: u64,
}

impl OutputFiles {
    /// Opens the files with mode `write`.
    ///
    /// # Errors
    /// Names the file that cannot be written.
    pub(super) fn open(files: &[MessageFile]) -> Result<Self, String> {
        let mut drains = BTreeMap::new();
        for file in files.iter().filter(|file| file.mode == FileMode::Write) {
            let drain = OutputFile::open(&file.path).map_err(|error| named(file, &error))?;
            drains.insert(file.name.clone(), Mutex::new(drain));
        }
        Ok(Self(Arc::new(drains)))
    }

    /// Writes a line to the file `name`, and returns when the line is durable.
    ///
    /// # Errors
    /// The file does not contain the line then.
    pub(super) fn write(&self, name: &str, line: &Value) -> io::Result<()> {
        let Some(drain) = self.0.get(name) else { return Err(io::ErrorKind::NotFound.into()) };
        let mut drain = drain.lock().unwrap_or_else(PoisonError::into_inner);
        let written = drain.write(line);
        drain.tell(name, &written);
        written
    }
}

fn named(file: &MessageFile, error: &io::Error) -> String {
    format!("[[file]] {}: {}: {error}", file.name, file.path.display())
}

impl OutputFile {
    fn open(path: &Path) -> io::Result<Self> {
        // Only owner and group may read the file, because messages are confidential.
        let file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(no_file());
        }
        // Locks the file, because two writers would mix their lines.
        file.try_lock().map_err(|_| io::Error::other("another program is writing to this file"))?;
        let length = whole_lines(&file)?;
        if length < file.metadata()?.len() {
            let why = "the line is incomplete: its message arrives again";
            tracing::warn!(path = %path.display(), why, "the incomplete last line of a file was \
                cut off");
            file.set_len(length)?;
        }
        Ok(Self { path: path.to_owned(), file, refused: 0 })
    }

    fn write(&mut self, line: &Value) -> io::Result<()> {
        // Checks whether the file was renamed, as by a log rotation.
        let is_it = |found: fs::Metadata| {
            self.file
                .metadata()
                .is_ok_and(|own| (own.ino(), own.dev()) == (found.ino(), found.dev()))
        };
        if !fs::metadata(&self.path).is_ok_and(is_it) {
            *self = Self { refused: self.refused, ..Self::open(&self.path)? };
        }
        // The present length matters, because another program may have truncated the file.
        let length = self.file.metadata()?.len();
        let bytes = format!("{line}\n").into_bytes();
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // Removes a partly written line, because the next line would be appended to it.
            self.file.set_len(length)?;
        }
        written
    }
}

impl OutputFile {
    /// Logs the first of several lines that cannot be written, and the first line that can be
    /// written afterwards.
    fn tell(&mut self, name: &str, written: &io::Result<()>) {
        match written {
            Ok(()) => {
                let refused = std::mem::take(&mut self.refused);
                if refused > 0 {
                    tracing::info!(file = %name, refused, "a file is writable again");
                }
            }
            Err(error) => {
                if self.refused == 0 {
                    tracing::error!(file = %name, %error, "a message could not be written to a \
                        file");
                }
                self.refused += 1;
            }
        }
    }
}

/// Returns the offset after the last whole line.
fn whole_lines(mut file: &File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = [0; 4096];
    while end > 0 {
        let begin = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Files whose lines are sent, each by its own thread, until this value is dropped.
#[derive(Debug, Default)]
pub struct InputFiles {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl InputFiles {
    /// Starts a thread for each file with mode `read`.
    ///
    /// # Errors
    /// Names the file that cannot be read, or its position.
    pub(super) fn begin(
        files: &[MessageFile],
        origins: &Origins,
        admin: &Admin,
    ) -> Result<Self, String> {
        let mut sources = Self::default();
        for file in files.iter().filter(|file| file.mode == FileMode::Read) {
            let source = Source::open(file, origins).map_err(|error| named(file, &error))?;
            let (admin, stops) = (admin.clone(), Arc::clone(&sources.stops));
            let name = format!("file-{}", file.name);
            let run = move || source.run(&admin, &stops);
            let thread = thread::Builder::new().name(name.clone()).spawn(run);
            sources.threads.push(thread.map_err(|error| format!("thread {name}: {error}"))?);
        }
        Ok(sources)
    }
}

impl Drop for InputFiles {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        for thread in std::mem::take(&mut self.threads) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A file whose lines are sent.
struct Source {
    name: String,
    path: PathBuf,
    /// The offset of the next line.
    position: u64,
    /// A hash of the last bytes before the position, by which the file is recognized.
    mark: u64,
    /// True if the next line may already have been sent.
    in_doubt: bool,
    /// The file into which the answers to the lines are written.
    answers: OutputFile,
    origins: Origins,
    /// The answer to the previous line, if not written yet.
    unanswered: Option<Value>,
    /// True if the position has changed but could not be recorded yet.
    is_position_unrecorded: bool,
}

impl Source {
    fn open(file: &MessageFile, origins: &Origins) -> io::Result<Self> {
        let (name, path) = (file.name.clone(), file.path.clone());
        let answers = OutputFile::open(&beside(&path, "answers"))?;
        let mut source = Self {
            name,
            path,
            position: 0,
            mark: mark(b""),
            in_doubt: false,
            answers,
            origins: origins.clone(),
            unanswered: None,
            is_position_unrecorded: false,
        };
        match fs::read(beside(&source.path, "position")) {
            Ok(bytes) => {
                let kept: Value = serde_json::from_slice(&bytes)?;
                source.position = kept["position"].as_u64().unwrap_or(0);
                source.mark = kept["mark"].as_u64().unwrap_or(0);
                source.in_doubt = kept["ended"] != json!(true);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Records that this process is running, so that after a crash the next line counts as
        // possibly sent.
        source.keep(false)?;
        Ok(source)
    }

    /// Records the position atomically: after a crash, the file contains either the new or the
    /// previous position.
    fn keep(&self, ended: bool) -> io::Result<()> {
        let kept = json!({ "position": self.position, "mark": self.mark, "ended": ended });
        let (path, new) = (beside(&self.path, "position"), beside(&self.path, "position.new"));
        let mut file = File::create(&new)?;
        file.write_all(format!("{kept}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(new, &path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn run(mut self, admin: &Admin, stops: &AtomicBool) {
        let mut told = String::new();
        while !stops.load(Ordering::Acquire) {
            match self.step(admin, stops) {
                Ok(true) => told.clear(),
                Ok(false) => thread::park_timeout(LOOK),
                Err(error) => {
                    let error = error.to_string();
                    if error != told {
                        tracing::error!(file = %self.name, %error, "a file cannot be sent");
                        told = error;
                    }
                    thread::park_timeout(LOOK);
                }
            }
        }
        // If the last position could not be recorded, the next process may send that line again.
        let ended = !self.in_doubt && !self.is_position_unrecorded;
        if let Err(error) = self.keep(ended) {
            tracing::error!(file = %self.name, %error, "the position in a file could not be \
                recorded");
        }
    }

    /// Sends the next line. Returns false if there is no complete line, or the gateway is ending.
    fn step(&mut self, admin: &Admin, stops: &AtomicBool) -> io::Result<bool> {
        self.write_down()?;
        // Checks the type first, because opening a named pipe without a writer would block.
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(no_file()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut file = File::open(&self.path)?;
        let sent = before(&mut file, self.position)?;
        let Some(mut sent) = sent.filter(|sent| mark(sent) == self.mark) else {
            // Reports an error, because only the owner knows whether the file is new or was
            // changed.
            let position = beside(&self.path, "position");
            let why = "the part of the file that was sent is missing or changed";
            return Err(io::Error::other(format!(
                "{why}: to send this file from its beginning, remove {} and restart the gateway",
                position.display()
            )));
        };
        let mut bytes = Vec::new();
        BufReader::new(file).take(LINE_MAX).read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            return match bytes.len() as u64 >= LINE_MAX {
                true => Err(io::Error::other(format!("a line is longer than {LINE_MAX} bytes"))),
                // The writer has not completed the line yet.
                false => Ok(false),
            };
        }
        let Some(answer) = self.send(&bytes, admin, stops) else { return Ok(false) };
        // The line was sent, so this process does not send it again, whatever fails from here on.
        self.unanswered = answered(answer, self.position);
        self.is_position_unrecorded = true;
        self.position += bytes.len() as u64;
        sent.extend_from_slice(&bytes);
        self.mark = mark(&sent[sent.len().saturating_sub(MARK_BYTES)..]);
        self.in_doubt = false;
        self.write_down()?;
        Ok(true)
    }

    /// Sends the message of a line, and tries again until its session accepts the message. Returns
    /// `None` if the gateway ends before.
    fn send(&mut self, line: &[u8], admin: &Admin, stops: &AtomicBool) -> Option<Value> {
        if line.trim_ascii().is_empty() {
            return Some(Value::Null);
        }
        let wrong = |text: String| Some(json!({ "error": { "text": text } }));
        let sending: Sending = match serde_json::from_slice(line) {
            Ok(sending) => sending,
            Err(error) => return wrong(error.to_string()),
        };
        let Some(handle) = admin.find(&sending.session) else {
            return wrong(format!("no session is named {}", sending.session));
        };
        loop {
            let mut note = self.origins.note(handle.id(), None);
            let sent = sending::stored(&sending, &handle, self.in_doubt, &mut note);
            match sent {
                Err(SendError::Closed) => return None,
                Err(error) if is_passing(&error) => {
                    // After a failure, the store may contain the message nevertheless.
                    self.in_doubt |= matches!(error, SendError::Failed);
                    if stops.load(Ordering::Acquire) {
                        return None;
                    }
                    thread::park_timeout(LOOK);
                }
                sent => return Some(sending::told(&sending, sent)),
            }
        }
    }

    /// Writes the previous line's answer and records the position, if either is still missing.
    fn write_down(&mut self) -> io::Result<()> {
        if let Some(answer) = &self.unanswered {
            self.answers.write(answer)?;
            self.unanswered = None;
        }
        if self.is_position_unrecorded {
            self.keep(false)?;
            self.is_position_unrecorded = false;
        }
        Ok(())
    }
}

/// Returns the answer to the line at `position`, or `None` for an empty line.
fn answered(answer: Value, position: u64) -> Option<Value> {
    let Value::Object(said) = answer else { return None };
    let mut line = json!({ "position": position });
    line.as_object_mut()?.extend(said);
    Some(line)
}

/// Returns the path of a file next to `path`, with `what` as a further ending.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(".");
    path.push(what);
    path.into()
}

fn no_file() -> io::Error {
    io::Error::other("the path is not a regular file")
}

/// The number of bytes before the position by which a file is recognized.
const MARK_BYTES: usize = 4096;

/// Returns the last bytes before `position`, and moves to that position in the file. Returns `None`
/// if the file is shorter.
fn before(file: &mut File, position: u64) -> io::Result<Option<Vec<u8>>> {
    if file.metadata()?.len() < position {
        return Ok(None);
    }
    let begin = position.saturating_sub(MARK_BYTES as u64);
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = vec![0; (position - begin) as usize];
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// Returns true if a message can be sent later: the session is not logged on, or its queue is full.
const fn is_passing(error: &SendError) -> bool {
    matches!(
        error,
        SendError::NotLoggedOn
            | SendError::LoggingOut
            | SendError::WouldBlock { .. }
            | SendError::Failed
    )
}
