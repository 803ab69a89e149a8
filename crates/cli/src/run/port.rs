//! The sockets of a gateway: one program at each, which gets messages and sends some.
//!
//! Invariants: a message counts as taken when the program has said so; who does not answer in time,
//! or does not read, is cut off, and its messages are offered again or refused, as the settings of
//! their session have it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use transfix::{Admin, BusinessReject, Message, Sent, SessionId, Tag};

use super::line::{self, Refusal, Said, Sending};
use super::routes::Socket;

/// The longest line of a program.
const LINE_MAX: u64 = 1 << 20;
/// How long a program may leave what we write unread.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// Why a target does not have a message.
pub(super) enum Missed {
    /// It never got it: another one may.
    NotHandedOver(BusinessReject),
    /// It may have it, or has said no: nobody else gets it.
    Final(BusinessReject),
}

impl From<Missed> for BusinessReject {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::NotHandedOver(reject) | Missed::Final(reject) => reject,
        }
    }
}

/// All sockets. A clone is the same.
#[derive(Clone)]
pub(super) struct Ports {
    inner: Arc<Inner>,
}

struct Inner {
    ports: BTreeMap<String, Arc<Port>>,
    admin: OnceLock<Admin>,
}

struct Port {
    socket: Socket,
    /// Taken by the thread that listens.
    listener: Mutex<Option<UnixListener>>,
    program: Mutex<Option<Program>>,
    /// Of the next message. It goes on from program to program: an answer of one that is gone never
    /// counts for a message of another.
    next_id: AtomicU64,
}

/// A program that is connected.
struct Program {
    stream: UnixStream,
    /// Tells it apart from those before.
    number: u64,
    /// Who waits for an answer about which message.
    waiting: BTreeMap<u64, Sender<Result<(), Refusal>>>,
}

impl Program {
    /// Says a line. Who does not take it is gone.
    fn say(&mut self, line: &Value) -> io::Result<()> {
        self.stream.write_all(format!("{line}\n").as_bytes())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its reader ends, and whoever waits for an answer.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Ports {
    /// Opens them; nobody is served yet.
    ///
    /// # Errors
    /// Names the path that cannot be one.
    pub(super) fn open(sockets: &[Socket]) -> Result<Self, String> {
        let mut ports = BTreeMap::new();
        for socket in sockets {
            let failed =
                |error| format!("[[socket]] {}: {}: {error}", socket.name, socket.path.display());
            let listener = listen(&socket.path).map_err(failed)?;
            let port = Port {
                socket: socket.clone(),
                listener: Mutex::new(Some(listener)),
                program: Mutex::default(),
                next_id: AtomicU64::new(1),
            };
            ports.insert(socket.name.clone(), Arc::new(port));
        }
        Ok(Self { inner: Arc::new(Inner { ports, admin: OnceLock::new() }) })
    }

    /// Serves programs from now on, each socket in a thread of its own.
    pub(super) fn begin(&self, admin: Admin) -> Result<(), String> {
        // It is called once.
        let _ = self.inner.admin.set(admin.clone());
        for (name, port) in &self.inner.ports {
            let (port, admin) = (Arc::clone(port), admin.clone());
            let listener = port.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(listener) = listener else { continue };
            let serve = move || port.serve(&listener, &admin);
            let thread = thread::Builder::new().name(format!("socket-{name}")).spawn(serve);
            thread.map_err(|error| format!("thread socket-{name}: {error}"))?;
        }
        Ok(())
    }

    pub(super) fn admin(&self) -> Option<&Admin> {
        self.inner.admin.get()
    }

    fn port(&self, name: &str) -> Option<&Arc<Port>> {
        self.inner.ports.get(name)
    }

    /// Whether a program is connected to this socket.
    pub(super) fn has_program(&self, name: &str) -> bool {
        self.port(name).is_some_and(|port| port.program().is_some())
    }

    /// Gives a message to the program, and waits until it says that it has it.
    pub(super) fn ask(
        &self,
        name: &str,
        session: &SessionId,
        message: &Message<'_>,
    ) -> Result<(), Missed> {
        // A route that is in force names sockets that there are.
        let port = self.port(name).ok_or_else(not_there)?;
        port.ask(session, message)
    }

    /// Tells all programs that a session is logged on, or is no more.
    pub(super) fn tell_all(&self, session: &SessionId, is_on: bool) {
        let line = json!({ "session": { "id": session.to_string(), "logged_on": is_on } });
        for port in self.inner.ports.values() {
            let mut program = port.program();
            if program.as_mut().is_some_and(|one| one.say(&line).is_err()) {
                *program = None;
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for port in self.ports.values() {
            let _ = fs::remove_file(&port.socket.path);
        }
    }
}

fn not_there() -> Missed {
    Missed::NotHandedOver(BusinessReject::not_available())
}

/// A socket at this path. What another program has left there goes; one that is served does not.
fn listen(path: &PathBuf) -> io::Result<UnixListener> {
    if is_socket(path) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::other("another program listens there"));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // The owner and its group.
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

impl Port {
    fn program(&self) -> MutexGuard<'_, Option<Program>> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the program of this number, if it is still the one that is connected.
    fn with<T>(&self, number: u64, does: impl FnOnce(&mut Program) -> T) -> Option<T> {
        self.program().as_mut().filter(|one| one.number == number).map(does)
    }

    fn ask(&self, session: &SessionId, message: &Message<'_>) -> Result<(), Missed> {
        let unanswered = || Missed::Final(BusinessReject::not_available());
        let (to, answer) = channel();
        let (id, number) = {
            let mut place = self.program();
            let program = place.as_mut().ok_or_else(not_there)?;
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            program.waiting.insert(id, to);
            if program.say(&line::message(id, &session.to_string(), message)).is_err() {
                self.cut_off(&mut place, "does not read");
                return Err(unanswered());
            }
            (id, program.number)
        };
        match answer.recv_timeout(Duration::from_millis(self.socket.answer_ms)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refusal { reason, text, .. })) => {
                Err(Missed::Final(BusinessReject::new(reason, text)))
            }
            Err(_) => {
                let mut place = self.program();
                // It may be another one by now.
                if place
                    .as_ref()
                    .is_some_and(|one| one.number == number && one.waiting.contains_key(&id))
                {
                    self.cut_off(&mut place, "does not answer");
                }
                Err(unanswered())
            }
        }
    }

    fn cut_off(&self, program: &mut Option<Program>, why: &str) {
        if program.take().is_some() {
            tracing::warn!(socket = %self.socket.name, why, "a program at a socket is cut off");
        }
    }

    /// One program after the other; a second one is told to wait.
    fn serve(self: &Arc<Self>, listener: &UnixListener, admin: &Admin) {
        for (number, stream) in (1..).zip(listener.incoming()) {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.set_write_timeout(Some(WRITE_MAX));
            let mut place = self.program();
            if place.is_some() {
                let busy = json!({ "error": { "text": "another program is connected" } });
                let _ = stream.write_all(format!("{busy}\n").as_bytes());
                continue;
            }
            let Ok(writer) = stream.try_clone() else { continue };
            let mut program = Program { stream: writer, number, waiting: BTreeMap::new() };
            if program.say(&hello(admin)).is_err() {
                continue;
            }
            *place = Some(program);
            drop(place);
            let (port, admin) = (Arc::clone(self), admin.clone());
            let read = move || {
                if let Err(error) = port.read(stream, number, &admin) {
                    let line = json!({ "error": { "text": error } });
                    let _ = port.with(number, |program| program.say(&line));
                }
                // It may be another one by now.
                port.program().take_if(|program| program.number == number);
            };
            let name = format!("program-{}", self.socket.name);
            if thread::Builder::new().name(name).spawn(read).is_err() {
                *self.program() = None;
            }
        }
    }

    /// Reads what the program says, until it ends.
    fn read(&self, stream: UnixStream, number: u64, admin: &Admin) -> Result<(), String> {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes);
            if read.unwrap_or(0) == 0 {
                return Ok(());
            }
            if bytes.last() != Some(&b'\n') {
                return Err(format!("a line is longer than {LINE_MAX} bytes, or not whole"));
            }
            let said = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            // What one that was cut off has said before is not done.
            if self.with(number, |_| ()).is_none() {
                return Ok(());
            }
            let (id, answer) = match said {
                Said::Take(id) => (id, Ok(())),
                Said::Refuse(refusal) => (refusal.id, Err(refusal)),
                Said::Send(sending) => {
                    let answer = send(&sending, admin);
                    let said = self.with(number, |program| program.say(&answer));
                    if !matches!(said, Some(Ok(()))) {
                        return Ok(());
                    }
                    continue;
                }
            };
            let waiting = self.with(number, |program| program.waiting.remove(&id)).flatten();
            match waiting {
                Some(waiting) => drop(waiting.send(answer)),
                None => return Err(format!("no message {id} waits for an answer")),
            }
        }
    }
}

/// What a program hears first.
fn hello(admin: &Admin) -> Value {
    let sessions = admin
        .handles()
        .into_iter()
        .map(|one| json!({ "id": one.id().to_string(), "logged_on": one.is_logged_on() }));
    json!({ "hello": {
        "version": env!("CARGO_PKG_VERSION"), "sessions": sessions.collect::<Vec<_>>(),
    } })
}

/// Sends what a program wants to be sent. Returns what it is told.
fn send(sending: &Sending, admin: &Admin) -> Value {
    let Sending { reference, session, msg_type, fields } = sending;
    let failed = |code: Option<u16>, text: String| {
        let error = json!({ "ref": reference, "code": code, "text": text });
        json!({ "error": error })
    };
    let Some(handle) = admin.find(session) else {
        return failed(None, format!("there is no session {session}"));
    };
    let sent = handle.send(msg_type, |body| {
        for (tag, value) in fields {
            body.bytes(Tag(*tag), value.bytes());
        }
    });
    match sent {
        Ok(Sent::Direct(seq) | Sent::Stored(seq)) => {
            json!({ "sent": { "ref": reference, "seq": seq } })
        }
        Ok(_) => json!({ "sent": { "ref": reference, "seq": null } }),
        Err(error) => failed(Some(error.as_u16()), error.to_string()),
    }
}
