//! The protocol log: every inbound and outbound message of a session, as lines of text files.
//!
//! A session's thread copies each message into a ring buffer. The thread `tfx-log` of the engine
//! masks secrets and writes the lines.
//!
//! Invariants: for the log, a session's thread never waits, makes a system call or allocates
//! memory. Lost lines are counted, and the file records their number. The files of an ended session
//! are closed, so that a session with the same name can begin.

mod file;
mod ring;
mod writer;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transfix_codec::{Frame, Limits, Timestamp, frame};

use transfix_settings::{LogSettings, ThreadLost};
use transfix_store::Helpers;

use crate::clock;
use crate::event;
use crate::supervised::pin_to_cpu;
use crate::supervised::supervise;
use file::LogFile;
use ring::Producer;
use writer::SessionLog;

pub use ring::LineKind;

/// The session's side of the log. Each call only copies bytes.
pub struct Tap {
    ring: Producer,
    registrations: Arc<Registrations>,
}

/// Ends the log of a session: `tfx-log` writes the last lines and closes the files.
impl Drop for Tap {
    fn drop(&mut self) {
        self.ring.close();
        self.registrations.orders.lock().unwrap_or_else(PoisonError::into_inner).closes = true;
        self.registrations.wakeup.notify_one();
    }
}

impl Tap {
    /// Logs a received message, or received bytes that are not a message. Returns the number of
    /// lost lines: 0 or 1.
    pub fn received(&mut self, time: Timestamp, what: LineKind, bytes: &[u8]) -> u64 {
        self.ring.push(time, what, bytes)
    }

    /// Logs sent messages, which follow each other in `bytes`. Returns the number of lost lines.
    pub fn outbound(&mut self, time: Timestamp, mut bytes: &[u8]) -> u64 {
        // No length limit applies to frames that we have encoded.
        let limits = Limits { message_bytes_max: usize::MAX };
        let mut lost = 0;
        while let Frame::Whole(end) = frame::split(bytes, limits) {
            lost += self.ring.push(time, LineKind::Outbound, &bytes[..end]);
            bytes = &bytes[end..];
        }
        lost
    }
}

/// Ranges of a turn's messages in the receive buffer. The messages are logged at the end of the
/// turn, after the write, so that the counterparty does not wait for the log.
pub struct Received {
    /// The ranges in the receive buffer; `None` without a log.
    places: Option<Vec<(LineKind, Range<usize>)>>,
}

impl Received {
    /// Returns an empty list for this log.
    #[must_use]
    pub fn of(log: Option<&Tap>) -> Self {
        Self { places: log.map(|_| Vec::with_capacity(PLACES_USUAL)) }
    }

    /// Adds the range of a whole message, unless `is_known` returns true: an earlier turn has added
    /// the message.
    #[inline]
    pub fn message(&mut self, place: Range<usize>, is_known: impl FnOnce() -> bool) {
        if self.places.is_some() && !is_known() {
            self.note(LineKind::Inbound, place);
        }
    }

    /// Adds the range of bytes that are not a sound message.
    pub fn garbled(&mut self, place: Range<usize>) {
        self.note(LineKind::Garbled, place);
    }

    #[inline(never)]
    fn note(&mut self, kind: LineKind, place: Range<usize>) {
        if let Some(places) = &mut self.places {
            places.push((kind, place));
        }
    }

    /// Combines the ranges with the buffer to which they refer. Call this method before the next
    /// read into the buffer.
    pub const fn of_turn<'a>(&'a mut self, buffer: &'a [u8]) -> Unlogged<'a> {
        Unlogged { received: self, buffer }
    }
}

/// Received bytes that are not logged yet.
pub struct Unlogged<'a> {
    received: &'a mut Received,
    buffer: &'a [u8],
}

impl Unlogged<'_> {
    /// Removes and returns the messages added since the last call.
    pub fn take(&mut self) -> impl Iterator<Item = (LineKind, &[u8])> {
        let places = self.received.places.iter_mut().flat_map(|places| places.drain(..));
        places.map(|(kind, place)| (kind, &self.buffer[place]))
    }
}

/// The number of messages in one read for which memory is reserved in advance.
const PLACES_USUAL: usize = 1_024;

/// Commands for the log thread.
#[derive(Default)]
struct Orders {
    added: Vec<SessionLog>,
    /// The channels of threads that request new files, and get the number of files or an error.
    rolls: Vec<SyncSender<Result<usize, String>>>,
    /// True if a session has ended, so that its files must be closed.
    closes: bool,
    /// Threads that wait until the files of ended sessions are closed.
    closed: Vec<SyncSender<()>>,
    ends: bool,
}

#[derive(Default)]
struct Registrations {
    orders: Mutex<Orders>,
    wakeup: Condvar,
}

/// The protocol logs of an engine, with the thread that writes them. The thread starts with the
/// first log.
#[derive(Default)]
pub struct ProtocolLogs {
    /// The CPU to which the thread is pinned, if any.
    pub cpu: Option<usize>,
    /// The helper threads, whose CPUs the log thread uses if `cpu` is `None`.
    pub helpers: Arc<Helpers>,
    /// The reaction to a panic of the log thread.
    pub lost: ThreadLost,
    registrations: Arc<Registrations>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ProtocolLogs {
    /// Opens the files of a session, whose names begin with `name`.
    ///
    /// # Errors
    /// If a file cannot be created, or another session or process has it open.
    pub fn open(&self, settings: &LogSettings, name: &Path) -> io::Result<Tap> {
        let files = self.open_files(settings, name)?;
        self.begin((settings, name), files)
    }

    /// Opens the files like [`ProtocolLogs::open`]. Files that cannot be opened now are opened
    /// later, and the lines wait meanwhile; the error is returned too.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn open_or_defer(
        &self,
        settings: &LogSettings,
        name: &Path,
    ) -> io::Result<(Tap, Option<io::Error>)> {
        match self.open_files(settings, name) {
            Ok(files) => Ok((self.begin((settings, name), files)?, None)),
            Err(error) => Ok((self.begin((settings, name), Vec::new())?, Some(error))),
        }
    }

    /// Opens the files of a log. If an ended session of the same name still has them open, waits
    /// until they are closed.
    fn open_files(&self, settings: &LogSettings, name: &Path) -> io::Result<Vec<LogFile>> {
        match writer::open_files(settings, name) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                self.close_ended();
                writer::open_files(settings, name)
            }
            opened => opened,
        }
    }

    /// Waits until the files of all ended sessions are closed, but no longer than `CLOSE_MAX`.
    fn close_ended(&self) {
        if self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return;
        }
        let (to, closed) = sync_channel(1);
        self.registrations.orders.lock().unwrap_or_else(PoisonError::into_inner).closed.push(to);
        self.registrations.wakeup.notify_one();
        // If the disk takes longer, opening the files fails, because they are still open.
        let _ = closed.recv_timeout(CLOSE_MAX);
    }

    /// Hands the files to the log thread, and starts the thread if they are the first.
    fn begin(&self, of: (&LogSettings, &Path), files: Vec<LogFile>) -> io::Result<Tap> {
        let (ring, lines) = ring::ring(of.0.buffer_bytes);
        let log = SessionLog::new(of, files, lines);
        self.registrations.orders.lock().unwrap_or_else(PoisonError::into_inner).added.push(log);
        self.registrations.wakeup.notify_one();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (registrations, cpu, lost) = (Arc::clone(&self.registrations), self.cpu, self.lost);
            let helpers = Arc::clone(&self.helpers);
            let run = move || {
                match cpu.map(|cpu| (cpu, pin_to_cpu(cpu))) {
                    // Moves the log thread to the helpers' CPUs, because it is started by a
                    // session's thread, which may be pinned.
                    None => helpers.begin(),
                    Some((_, Ok(()))) => {}
                    Some((cpu, Err(error))) => {
                        event!(error, LogThreadNotPinned, cpu, %error);
                    }
                }
                let mut logs = Vec::new();
                supervise(lost, (&clock::monotonic_ns, &thread::park_timeout), || {
                    run(&registrations, &mut logs);
                    Ok(())
                });
            };
            *thread = Some(thread::Builder::new().name("tfx-log".to_owned()).spawn(run)?);
        }
        Ok(Tap { ring, registrations: Arc::clone(&self.registrations) })
    }

    /// Starts new files at once. Returns the number of new files, and waits at most `wait` for the
    /// log thread.
    ///
    /// # Errors
    /// The files that were not rolled: they grow on, and the next line tries again if it must.
    pub fn roll(&self, wait: Duration) -> Result<usize, String> {
        if self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Ok(0);
        }
        let (to, rolled): (_, Receiver<_>) = sync_channel(1);
        self.registrations.orders.lock().unwrap_or_else(PoisonError::into_inner).rolls.push(to);
        self.registrations.wakeup.notify_one();
        rolled.recv_timeout(wait).unwrap_or_else(|why| match why {
            RecvTimeoutError::Timeout => {
                Err(format!("protocol logs: no answer within {} s", wait.as_secs()))
            }
            RecvTimeoutError::Disconnected => Err("protocol logs: the engine stops".to_owned()),
        })
    }

    /// Writes the waiting lines and ends the thread.
    pub fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        self.registrations.orders.lock().unwrap_or_else(PoisonError::into_inner).ends = true;
        self.registrations.wakeup.notify_one();
        if thread.join().is_err() {
            event!(error, LogThreadPanicked);
        }
    }
}

impl Drop for ProtocolLogs {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The maximum time to wait until the files of ended sessions are closed.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// The pause of the log thread while a ring buffer fills quickly.
const HURRY: Duration = Duration::from_millis(2);

fn run(registrations: &Registrations, logs: &mut Vec<SessionLog>) {
    let mut hurries = false;
    loop {
        let pause = logs.iter().map(|log| log.pause).min().unwrap_or(Duration::MAX);
        let pause = if hurries { pause.min(HURRY) } else { pause };
        let orders = registrations.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |orders: &mut Orders| {
            let nothing_asked = orders.rolls.is_empty() && orders.closed.is_empty();
            orders.added.is_empty() && nothing_asked && !orders.closes && !orders.ends
        };
        let waited = registrations.wakeup.wait_timeout_while(orders, pause, idle);
        let (mut orders, _) = waited.unwrap_or_else(PoisonError::into_inner);
        logs.append(&mut orders.added);
        let (ends, rolls) = (orders.ends, std::mem::take(&mut orders.rolls));
        let closed = std::mem::take(&mut orders.closed);
        orders.closes = false;
        drop(orders);
        hurries = false;
        for log in &mut *logs {
            hurries |= log.write_all();
        }
        logs.retain_mut(|log| !log.is_over());
        closed.iter().for_each(|to| _ = to.try_send(()));
        if !rolls.is_empty() {
            let rolled = roll_all(logs);
            // The send fails only if the requesting thread no longer waits.
            rolls.iter().for_each(|to| _ = to.try_send(rolled.clone()));
        }
        if ends {
            return;
        }
    }
}

/// Starts new files for all logs. Returns their number, or the errors.
fn roll_all(logs: &mut [SessionLog]) -> Result<usize, String> {
    let (mut count, mut failed) = (0, Vec::new());
    for rolled in logs.iter_mut().flat_map(SessionLog::roll) {
        match rolled {
            Ok(is_new) => count += usize::from(is_new),
            Err(why) => failed.push(why),
        }
    }
    if failed.is_empty() { Ok(count) } else { Err(failed.join("; ")) }
}
