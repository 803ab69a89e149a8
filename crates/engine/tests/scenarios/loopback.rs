//! Plays scenarios with a whole engine over loopback, in real time.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use transfix::{
    Action, Application, Durability, Engine, Role, SessionHandle, SessionId, Settings, Timestamp,
    clock,
};
use transfix_codec::{Frame, Limits, frame};
use transfix_testkit::scenario::{Answer, Operation, Scenario, Version, World};
use transfix_testkit::temp::TempDir;

use crate::application::{Event, Recorder, action, fill, split};

/// The time limit for an expected event.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time without input after which the engine counts as silent.
const SILENCE: Duration = Duration::from_millis(5);
/// The time limit, in nanoseconds, for the session to read the sent bytes.
const SETTLED_NS_MAX: u64 = 200_000_000;

pub(crate) struct Loopback {
    settings: Settings,
    id: SessionId,
    /// `None` only during a restart.
    engine: Option<Engine>,
    events: Receiver<Event>,
    _store: Option<TempDir>,
    /// The listener for an initiator under test. It is opened at the scenario's first connection;
    /// earlier attempts are refused and use no number.
    listener: Option<TcpListener>,
    wire: Wire,
    /// The number of messages sent to the session, valid or not.
    sent: u64,
    /// Messages that the application has reported while the player waited for another event.
    delivered: VecDeque<Vec<u8>>,
    returned: VecDeque<Vec<u8>>,
    ended: Option<String>,
}

impl Loopback {
    pub(crate) fn new(scenario: &Scenario, version: Version) -> Self {
        let mut settings = crate::settings(scenario, version, "127.0.0.1:0");
        let session = &mut settings.sessions[0];
        // A session from a template is the one of the scenario's standard counterparty.
        let id = SessionId { target_comp_id: "THEM".into(), ..session.id() };
        let mut listener = None;
        if session.role == Role::Initiator {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            let address = socket.local_addr().unwrap().as_socket().unwrap();
            session.address = address.to_string();
            listener = Some(socket.into());
        }
        // Leaves time for a few steps of the scenario before the next attempt uses a number.
        session.socket.reconnect_interval = Duration::from_secs(2);
        let store = scenario.restarts().then(TempDir::new);
        match &store {
            Some(folder) => session.store.store_dir = folder.path().to_owned(),
            None => session.store.durability = Durability::Memory,
        }
        let (engine, events) = start(&settings);
        Self {
            settings,
            id,
            engine: Some(engine),
            events,
            _store: store,
            listener,
            wire: Wire::default(),
            sent: 0,
            delivered: VecDeque::new(),
            returned: VecDeque::new(),
            ended: None,
        }
    }

    /// Returns the session, or `None` if a template session has no Logon(A) yet.
    fn try_session(&self) -> Option<SessionHandle> {
        self.engine.as_ref().unwrap().session(&self.id)
    }

    fn session(&self) -> SessionHandle {
        self.try_session().unwrap()
    }

    /// Returns the number of messages, sound or not, that the session has seen.
    fn seen(&self) -> u64 {
        self.try_session().map_or(0, |session| {
            let counters = session.counters();
            counters.messages_in + counters.garbled
        })
    }

    /// Waits until the session has seen the sent messages and has ended that turn. The wait is
    /// short, because the bytes may not be a message.
    fn settle(&self) {
        let until = clock::monotonic_ns() + SETTLED_NS_MAX;
        while self.seen() < self.sent && clock::monotonic_ns() < until {
            std::thread::yield_now();
        }
        if let Some(session) = self.try_session() {
            // This call waits for the lock of the turn, because a message is counted before the
            // turn ends.
            drop(session.store_failure());
        }
    }

    /// Receives one report of the application. Returns false if none arrives in time.
    fn hear(&mut self, patience: Duration) -> bool {
        let Ok(event) = self.events.recv_timeout(patience) else { return false };
        match event {
            Event::Delivered(bytes) => self.delivered.push_back(bytes),
            Event::Returned(bytes) => self.returned.push_back(bytes),
            Event::Ended(reason) => self.ended = Some(reason.to_string()),
        }
        true
    }
}

fn start(settings: &Settings) -> (Engine, Receiver<Event>) {
    let (events, received) = channel();
    let others = events.clone();
    let admit = move |_: &_| -> Option<Box<dyn Application>> {
        Some(Box::new(Recorder::new(others.clone())))
    };
    let engine = Engine::builder(settings).admit(admit);
    let engine = engine.start(|_| Box::new(Recorder::new(events.clone())));
    (engine.unwrap(), received)
}

impl World for Loopback {
    fn now(&self) -> Timestamp {
        clock::now().utc
    }

    fn connect(&mut self) -> Result<(), String> {
        self.sent = self.seen();
        // Discards earlier reports, so that the end of a previous connection is not taken for the
        // end of this one.
        while self.hear(Duration::ZERO) {}
        self.ended = None;
        let stream = match &self.listener {
            Some(listener) => {
                SockRef::from(listener).listen(1).map_err(|error| error.to_string())?;
                self.session().operate(&Action::LogOn {}).unwrap();
                listener.accept().map(|(stream, _)| stream)
            }
            None => TcpStream::connect(self.engine.as_ref().unwrap().listening()[0]),
        };
        self.wire = Wire::of(stream.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn close(&mut self) {
        self.settle();
        self.wire.stream = None;
        // Waits for the report of the end, because the session notices the close only in its next
        // turn.
        while self.ended.is_none() && self.hear(PATIENCE) {}
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.sent += 1;
        self.wire.send(bytes)
    }

    fn intrude(&mut self, bytes: &[u8]) -> Result<Answer, String> {
        let address = self.engine.as_ref().unwrap().listening()[0];
        let stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        let mut wire = Wire::of(stream);
        wire.send(bytes)?;
        Ok(wire.next(PATIENCE))
    }

    fn next(&mut self, hopes: bool) -> Answer {
        if !hopes {
            self.settle();
        }
        self.wire.next(if hopes { PATIENCE } else { SILENCE })
    }

    fn wait(&mut self, time: Duration) {
        self.wire.wait(time);
    }

    fn order(&mut self, fields: &str) -> Result<(), String> {
        self.settle();
        let (msg_type, fields) = split(fields);
        let sent = self.session().send(msg_type, |body| fill(&fields, body));
        sent.map(drop).map_err(|error| error.to_string())
    }

    fn operate(&mut self, operation: &Operation) -> Result<(), String> {
        self.settle();
        let session = self.session();
        let Some(action) = action(operation) else {
            drop(session);
            if self.wire.stream.is_some() {
                // Closes the connection first, because an engine that stops would log out.
                self.close();
            }
            self.wire = Wire::default();
            self.engine = None;
            let (engine, events) = start(&self.settings);
            (self.engine, self.events, self.sent) = (Some(engine), events, 0);
            return Ok(());
        };
        let mut done = session.operate(&action);
        if matches!(action, Action::LogOut { .. }) {
            done = done.and_then(|()| session.operate(&Action::LogOn {}));
        }
        done.map_err(|error| error.to_string())
    }

    fn delivered(&mut self, hopes: bool) -> Option<Vec<u8>> {
        let patience = if hopes { PATIENCE } else { Duration::ZERO };
        while self.delivered.is_empty() && self.hear(patience) {}
        self.delivered.pop_front()
    }

    fn returned(&mut self) -> Option<Vec<u8>> {
        while self.hear(Duration::ZERO) {}
        self.returned.pop_front()
    }

    fn reason(&mut self) -> Option<String> {
        // A connection that never reached the session causes no report.
        while self.ended.is_none() && self.hear(SILENCE) {}
        self.ended.clone()
    }

    fn numbers(&mut self) -> Option<(u64, u64)> {
        self.settle();
        self.try_session().map(|session| session.next_numbers())
    }
}

/// The counterparty's end of a connection.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) stream: Option<TcpStream>,
    unread: Vec<u8>,
    ended: bool,
}

impl Wire {
    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream: Some(stream), unread: Vec::new(), ended: false }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let stream = self.stream.as_mut().ok_or("the connection is closed")?;
        stream.write_all(bytes).map_err(|error| error.to_string())
    }

    /// Returns the next message. If none arrives within `patience`, returns the end of the stream
    /// or the silence instead.
    pub(crate) fn next(&mut self, patience: Duration) -> Answer {
        loop {
            if let Frame::Whole(end) = frame::split(&self.unread, Limits::default()) {
                return Answer::Message(self.unread.drain(..end).collect());
            }
            if self.ended || self.stream.is_none() {
                return Answer::Closed;
            }
            if !self.read(patience) {
                return Answer::Nothing;
            }
        }
    }

    /// Reads for the whole of this time.
    pub(crate) fn wait(&mut self, time: Duration) {
        let until = clock::monotonic_ns() + time.as_nanos() as u64;
        loop {
            let left = until.saturating_sub(clock::monotonic_ns());
            if left == 0 {
                return;
            }
            if self.ended || self.stream.is_none() {
                // Waits for the rest of the time, although no more bytes can arrive.
                let (_nobody, nothing) = channel::<()>();
                let _ = nothing.recv_timeout(Duration::from_nanos(left));
                return;
            }
            self.read(Duration::from_nanos(left));
        }
    }

    /// Reads once. Returns true if bytes or the end of the stream arrived.
    fn read(&mut self, patience: Duration) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        stream.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => self.unread.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // A signal interrupted the read.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.ended = true,
        }
        true
    }
}
