//! The Unix sockets of a gateway. At each socket, one program at a time receives and sends
//! messages.
//!
//! Invariants: a message counts as accepted only after the program has confirmed it. An answer of
//! one program is never taken for the answer of another.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use transfix::{Admin, BusinessReject, Message, SessionId};

use super::asked::Asked;
use super::line::{self, Said};
use super::origins::Origins;
use super::program::{DOES_NOT_ANSWER, DOES_NOT_READ, Program, Writer, Wrote};
use super::routes::{Socket, Target};
use super::sending;
use super::told::Told;

/// The maximum length of a program's line, in bytes.
const LINE_MAX: u64 = 1 << 20;
/// The pause before accepting programs again after accepting one has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// All sockets of a gateway. Clones share one state.
#[derive(Clone)]
pub(super) struct Ports(Arc<Opened>);

/// The open sockets, by name. Dropping this value removes their files.
#[derive(Default)]
struct Opened(BTreeMap<String, Arc<Port>>);

impl Drop for Opened {
    fn drop(&mut self) {
        for port in self.0.values() {
            let _ = fs::remove_file(&port.socket.path);
        }
    }
}

struct Port {
    socket: Socket,
    /// The listening socket, until its thread takes it.
    listener: Mutex<Option<UnixListener>>,
    program: Mutex<Option<Program>>,
    /// The ID of the next message. IDs continue from one program to the next, so that an answer of
    /// an earlier program is never taken for a later one's.
    next_id: AtomicU64,
    admin: OnceLock<Admin>,
    origins: Origins,
    told: Told,
}

impl Ports {
    /// Opens the sockets, but does not serve programs yet.
    ///
    /// # Errors
    /// Names the path where no socket can be created.
    pub(super) fn open(sockets: &[Socket], origins: &Origins, told: &Told) -> Result<Self, String> {
        let mut ports = Opened::default();
        for socket in sockets {
            let failed =
                |error| format!("[[socket]] {}: {}: {error}", socket.name, socket.path.display());
            let listener = listen(&socket.path).map_err(failed)?;
            let port = Port {
                socket: socket.clone(),
                listener: Mutex::new(Some(listener)),
                program: Mutex::default(),
                next_id: AtomicU64::new(1),
                admin: OnceLock::new(),
                origins: origins.clone(),
                told: told.clone(),
            };
            ports.0.insert(socket.name.clone(), Arc::new(port));
        }
        Ok(Self(Arc::new(ports)))
    }

    /// Begins to serve programs, with one thread per socket.
    pub(super) fn begin(&self, admin: &Admin) -> Result<(), String> {
        for (name, port) in &self.0.0 {
            // An error is impossible, because `begin` is called only once.
            let _ = port.admin.set(admin.clone());
            let listener = port.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(listener) = listener else { continue };
            let (port, admin) = (Arc::clone(port), admin.clone());
            start(format!("socket-{name}"), move || port.serve(&listener, &admin))?;
        }
        Ok(())
    }

    /// Returns true if a program is connected to this socket.
    pub(super) fn has_program(&self, name: &str) -> bool {
        self.0.0.get(name).is_some_and(|port| port.program().is_some())
    }

    /// Passes a message to the program at this socket. Returns false if there is none. The program
    /// then answers, or is disconnected.
    pub(super) fn ask(
        &self,
        name: &str,
        session: &SessionId,
        (message, repeats): (&Message<'_>, bool),
        asked: &Asked,
    ) -> bool {
        let Some(port) = self.0.0.get(name) else { return false };
        let mut place = port.program();
        let Some(program) = place.as_mut() else { return false };
        let id = port.next_id.fetch_add(1, Ordering::Relaxed);
        program.wait_for(id, asked.clone(), Target::Socket(name.to_owned()));
        if !program.say(&line::message(id, &session.to_string(), message, repeats)) {
            port.cut_off(place, DOES_NOT_READ);
        }
        true
    }

    /// Sends a line to the program at this socket, if there is one.
    pub(super) fn tell(&self, name: &str, line: &Value) {
        if let Some(port) = self.0.0.get(name) {
            port.tell(None, line);
        }
    }

    /// Notifies all programs that a session logged on or off.
    pub(super) fn tell_all(&self, session: &SessionId, is_on: bool) {
        let line = json!({ "session": { "id": session.to_string(), "logged_on": is_on } });
        for port in self.0.0.values() {
            port.tell(None, &line);
        }
    }
}

fn start(name: String, run: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let failed = |error: io::Error, name| format!("thread {name}: {error}");
    let thread = thread::Builder::new().name(name.clone()).spawn(run);
    thread.map(drop).map_err(|error| failed(error, name))
}

/// Listens on a socket at `path`, which owner and group may use. Replaces a socket that a killed
/// process has left, but not one in use.
fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            if UnixStream::connect(path).is_ok() {
                return Err(io::Error::other("another program already listens at this path"));
            }
        }
        Ok(_) => return Err(io::Error::other("the path exists, but is not a socket")),
        Err(_) => {}
    }
    // Creates the socket in a private directory, and moves it to its path after its permissions are
    // set.
    let file = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let name = format!(".{}.{}", file.to_string_lossy(), std::process::id());
    let private = parent.join(name);
    let made = private.join("s");
    // Removes what a killed process with the same process ID may have left.
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&private);
    fs::DirBuilder::new().mode(0o700).create(&private)?;
    let listener = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(0o660))?;
        fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&private);
    listener
}

impl Port {
    fn program(&self) -> MutexGuard<'_, Option<Program>> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `does` with the program of this number, or returns `None` if this program is no longer
    /// connected.
    fn with<T>(&self, number: u64, does: impl FnOnce(&mut Program) -> T) -> Option<T> {
        self.program().as_mut().filter(|one| one.number == number).map(does)
    }

    /// Sends a line to the program, or only to the program `number` if it is given. Returns false
    /// if that program is not connected.
    fn tell(&self, number: Option<u64>, line: &Value) -> bool {
        self.tell_by(number, |program| program.say(line))
    }

    fn tell_by(&self, number: Option<u64>, say: impl FnOnce(&mut Program) -> bool) -> bool {
        let mut place = self.program();
        let is_it = |one: &&mut Program| number.is_none_or(|number| one.number == number);
        let Some(program) = place.as_mut().filter(is_it) else { return false };
        let goes_on = say(program);
        if !goes_on {
            self.cut_off(place, DOES_NOT_READ);
        }
        goes_on
    }

    fn cut_off(&self, mut place: MutexGuard<'_, Option<Program>>, why: &str) {
        let program = place.take();
        // Releases the lock before the program is dropped. The drop answers the sessions that wait
        // for the program, and these may ask another program.
        drop(place);
        if program.is_some() {
            tracing::warn!(socket = %self.socket.name, why, "a program was disconnected from its \
                socket");
        }
    }

    /// Serves one program after the other. A program that connects while another is connected gets
    /// an error.
    fn serve(self: &Arc<Self>, listener: &UnixListener, admin: &Admin) {
        let mut was_told = false;
        for (number, stream) in (1..).zip(listener.incoming()) {
            let served = stream.and_then(|stream| self.welcome(stream, number, admin));
            let Err(error) = served else {
                was_told = false;
                continue;
            };
            if !std::mem::replace(&mut was_told, true) {
                tracing::warn!(socket = %self.socket.name, %error, "no program can connect to a \
                    socket");
            }
            // Pauses, because `accept` would fail again at once while no file descriptor is free.
            thread::park_timeout(ACCEPT_PAUSE);
        }
    }

    fn welcome(
        self: &Arc<Self>,
        mut stream: UnixStream,
        number: u64,
        admin: &Admin,
    ) -> io::Result<()> {
        let name = &self.socket.name;
        let mut place = self.program();
        if place.is_some() {
            drop(place);
            let busy = json!({ "error": { "text": "another program is already connected" } });
            // An error is ignored; a new socket has room for such a short line.
            let _ = stream.write_all(format!("{busy}\n").as_bytes());
            return Ok(());
        }
        let (mut program, writer) = Program::new(&stream, number, self.socket.answer_ms)?;
        let _ = program.say(&hello(admin));
        *place = Some(program);
        drop(place);
        let (reads, writes) = (Arc::clone(self), Arc::clone(self));
        let read = move || {
            let end = reads.read(stream, number);
            if let Err(error) = &end {
                reads.tell(Some(number), &json!({ "error": { "text": error } }));
            }
            // Queued lines are still written, if the program reads them.
            reads.leaves(number, end);
        };
        start(format!("socket-to-{name}"), move || writes.write(writer, number))
            .and_then(|()| start(format!("socket-from-{name}"), read))
            .map_err(|error| {
                *self.program() = None;
                io::Error::other(error)
            })?;
        tracing::info!(socket = %name, "a program has connected");
        self.told.say(format!("socket {name}: a program connected"));
        Ok(())
    }

    /// Writes the lines for the program, and disconnects the program if it does not answer in time.
    fn write(&self, mut writer: Writer, number: u64) {
        loop {
            let Some(until_ns) = self.with(number, |program| program.owes_until_ns()) else {
                // The program was removed, so only the queued lines are left to write.
                while let Wrote::Line(_) = writer.next(None) {}
                return;
            };
            let why = match writer.next(until_ns) {
                Wrote::Over => return,
                Wrote::Line(bytes) => {
                    self.with(number, |program| program.written(bytes));
                    None
                }
                Wrote::Time => None,
                Wrote::End(why) => Some(why),
            };
            let place = self.program();
            let Some(program) = place.as_ref().filter(|one| one.number == number) else { continue };
            let now_ns = transfix::clock::monotonic_ns();
            let is_late = program.owes_until_ns().is_some_and(|until_ns| until_ns <= now_ns);
            if let Some(why) = why.or_else(|| is_late.then_some(DOES_NOT_ANSWER)) {
                self.cut_off(place, why);
                return;
            }
        }
    }

    /// Removes the program, which has disconnected or sent an invalid line.
    fn leaves(&self, number: u64, end: Result<(), String>) {
        // The number distinguishes the program from another one that may be connected by now.
        let program = self.program().take_if(|program| program.number == number);
        let name = &self.socket.name;
        if let Some(program) = program {
            drop(program);
            match end {
                Ok(()) => tracing::info!(socket = %name, "a program has gone"),
                Err(why) => tracing::warn!(socket = %name, why, "a program was disconnected from \
                    its socket"),
            }
            self.told.say(format!("socket {name}: the program disconnected"));
        }
    }

    /// Reads the program's lines until it disconnects. Returns an error if a line is invalid.
    fn read(&self, stream: UnixStream, number: u64) -> Result<(), String> {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes);
            if read.unwrap_or(0) == 0 {
                return Ok(());
            }
            if bytes.last() != Some(&b'\n') {
                return Err(format!("a line is longer than {LINE_MAX} bytes, or incomplete"));
            }
            let said = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            // The rest of the lines is ignored if the program was disconnected.
            if self.with(number, |_| ()).is_none() {
                return Ok(());
            }
            let (id, answer) = match said {
                Said::Take(id) => (id, Ok(())),
                Said::Refuse(refusal) => {
                    let reject = BusinessReject::new(refusal.reason, refusal.text);
                    (refusal.id, Err(reject))
                }
                Said::Send(sending) => {
                    let from = (self.socket.name.as_str(), &self.origins);
                    let Some(admin) = self.admin.get() else { continue };
                    self.with(number, Program::hold);
                    let answer = sending::send(&sending, from, admin);
                    if !self.tell_by(Some(number), |program| program.say_sent(&answer)) {
                        return Ok(());
                    }
                    continue;
                }
            };
            let waiting = self.with(number, |program| program.answered(id)).flatten();
            match waiting {
                Some((asked, target)) => asked.answered(&target, answer),
                None => return Err(format!("no message with id {id} is waiting for an answer")),
            }
        }
    }
}

/// Returns the first line that each program receives.
fn hello(admin: &Admin) -> Value {
    let sessions = admin
        .handles()
        .into_iter()
        .map(|one| json!({ "id": one.id().to_string(), "logged_on": one.is_logged_on() }));
    json!({ "hello": {
        "version": env!("CARGO_PKG_VERSION"), "sessions": sessions.collect::<Vec<_>>(),
    } })
}
