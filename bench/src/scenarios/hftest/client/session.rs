//! The FIX session of the client: starts the engine, reports its events, and sends orders.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix::clock::monotonic_ns;
use transfix::{
    Action, Application, Batch, BeginString, BusinessReject, Durability, Engine, Message, Mode,
    Role, SendError, SessionEvent, SessionHandle, SessionId, SessionNotice, SessionRef,
    SessionSettings, SessionView, Settings, State,
};

use super::super::book::{Book, Check, Counts};
use super::super::figures::{Side, Timing};
use super::super::input::Inputs;
use super::super::orders::{CLIENT, HEARTBEAT, Order, SERVER};
use super::super::say;
use super::Args;

/// Time limit for the answer to our Logout(5), in nanoseconds.
const LOGOUT_NS: u64 = 5_000_000_000;
/// Interval between two connection attempts.
const RECONNECT: Duration = Duration::from_millis(100);

/// The values that the application records for the session's owner.
#[derive(Default)]
struct Seen {
    book: Book,
    /// Session events that are not yet printed, in order.
    events: Vec<Event>,
}

enum Event {
    LoggedOn,
    /// The connection ended, for this reason.
    Ended(String),
}

struct Listener(Arc<Mutex<Seen>>);

impl Listener {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Application for Listener {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.seen().book.reported(message);
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        match event {
            SessionEvent::LoggedOn => {
                self.seen().events.push(Event::LoggedOn);
            }
            SessionEvent::Rejected(rejected) => {
                self.seen().book.wrong(&format!("the server does not take an order: {rejected}"));
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.seen().events.push(Event::Ended(end.to_string()));
        }
    }
}

/// The client's session, polled by the thread that owns it.
pub(super) struct Session {
    engine: Option<Engine>,
    handle: SessionHandle,
    seen: Arc<Mutex<Seen>>,
    batch: Batch,
    /// Total nanoseconds spent writing the fields of orders.
    fields_ns: u64,
    fields_of: u64,
    address: String,
    is_reliable: bool,
    patience_ns: u64,
    /// Number of reports when the timeout was last checked.
    reports: u64,
    /// The time at which a check last found further reports.
    moved_ns: u64,
    /// True if the session has logged on, and neither side has logged out.
    is_wanted: bool,
    /// True after the client began to log out.
    logs_out: bool,
}

fn settings(args: &Args) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix42, CLIENT, SERVER);
    let mut session = SessionSettings::new(Role::Initiator, &id, &args.address);
    session.store.durability = Durability::Memory;
    session.threads.mode = Mode::Polled;
    session.protocol.heart_bt_int = HEARTBEAT;
    session.socket.reconnect_interval = RECONNECT;
    session.socket.reconnect_interval_max = RECONNECT;
    session.validation.checks.codes = args.valid;
    session
}

impl Session {
    pub(super) fn start(args: &Args) -> Result<Self, String> {
        let address = args.address.clone();
        // A first connection is tried here, because the engine would retry forever and report the
        // reason only in its log.
        if let Err(why) = TcpStream::connect(&address) {
            let advice = "start it by `transfix bench hftest server`";
            return Err(format!("no server at {address}: {why}; {advice}"));
        }
        let seen = Arc::<Mutex<Seen>>::default();
        let mut listener = Some(Listener(Arc::clone(&seen)));
        let settings = Settings::of(settings(args));
        let id = settings.sessions[0].id();
        let engine = Engine::start(&settings, |_| match listener.take() {
            Some(listener) => Box::new(listener),
            None => unreachable!("there is one session"),
        });
        let engine = engine.map_err(|error| error.to_string())?;
        let handle = engine.session(&id).ok_or("no session")?;
        // The server may still have the sequence numbers of another client.
        handle.operate(&Action::ResetAtNextLogon {}).map_err(|why| why.to_string())?;
        say(match args.valid {
            true => "Reports are validated by FIX 4.2",
            false => {
                "Reports are validated by FIX 4.2 but for the values of codes: LastCapacity(29)=5 \
                 of the published page is none"
            }
        })?;
        Ok(Self {
            engine: Some(engine),
            batch: handle.batch(),
            handle,
            seen,
            fields_ns: 0,
            fields_of: 0,
            address,
            is_reliable: args.reliable,
            patience_ns: args.patience * 1_000_000_000,
            reports: 0,
            moved_ns: monotonic_ns(),
            is_wanted: true,
            logs_out: false,
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> Counts {
        self.seen().book.counts()
    }

    pub(super) fn check(&self) -> Check {
        self.seen().book.check()
    }

    pub(super) fn side(&self) -> Side {
        Side::of(&self.handle.latency(), Timing::of_ns(self.fields_ns, self.fields_of))
    }

    pub(super) fn is_logged_on(&self) -> bool {
        self.handle.is_logged_on()
    }

    /// Returns true if orders may be sent now, or as soon as the connection is restored.
    pub(super) const fn may_send(&self) -> bool {
        self.is_wanted
    }

    /// Restarts the timeout for reports.
    pub(super) fn be_patient(&mut self) {
        self.moved_ns = monotonic_ns();
    }

    /// Returns an error if no report has arrived within the timeout.
    pub(super) fn check_patience(&mut self) -> Result<(), String> {
        let reports = self.counts().reports;
        if std::mem::replace(&mut self.reports, reports) != reports {
            self.be_patient();
        }
        if monotonic_ns() - self.moved_ns <= self.patience_ns {
            return Ok(());
        }
        let seconds = self.patience_ns / 1_000_000_000;
        let what = if self.is_logged_on() { "no report has come" } else { "no logon" };
        Err(format!("{what} for {seconds} s; {}", self.unanswered()))
    }

    /// Returns a text with the number of orders without reports.
    fn unanswered(&self) -> String {
        let Counts { orders, open, .. } = self.counts();
        format!("{open} of {orders} orders sent have not all their reports")
    }

    /// Lets the engine read once. Returns true if the engine did any work.
    pub(super) fn read(&mut self) -> bool {
        self.engine.as_mut().is_some_and(Engine::poll)
    }

    pub(super) fn wait_for_logon(&mut self, inputs: &Inputs) -> Result<(), String> {
        while !self.is_logged_on() {
            if !self.read() {
                std::thread::yield_now();
            }
            self.tell()?;
            self.check_patience()?;
            if inputs.is_signalled() {
                return Err("ended by a signal before the logon".to_owned());
            }
        }
        self.tell()
    }

    /// Sends orders, and returns the number of accepted orders.
    pub(super) fn send<'o>(
        &mut self,
        orders: impl Iterator<Item = &'o Order> + Clone,
    ) -> Result<usize, String> {
        if !self.is_logged_on() {
            return Ok(0);
        }
        self.batch.clear();
        let begun_ns = monotonic_ns();
        for order in orders.clone() {
            let added = self.batch.add("D", |body| order.write(body));
            added.map_err(|why| why.to_string())?;
        }
        self.fields_ns += monotonic_ns() - begun_ns;
        self.fields_of += self.batch.len() as u64;
        let sent = self.handle.send_batch(&self.batch);
        let mut seen = self.seen();
        orders.take(sent.sent.len()).for_each(|order| seen.book.sent(order));
        drop(seen);
        match sent.refused {
            // The orders are tried again later: the server reads too slowly, or the connection was
            // lost, which an event reports.
            None | Some(SendError::WouldBlock { .. } | SendError::NotLoggedOn) => {}
            Some(why) => return Err(format!("an order cannot be sent: {why}")),
        }
        Ok(sent.sent.len())
    }

    /// Prints the recorded events of the session.
    pub(super) fn tell(&mut self) -> Result<(), String> {
        let events = std::mem::take(&mut self.seen().events);
        for event in events {
            match event {
                Event::LoggedOn => {
                    let address = &self.address;
                    say(&format!("{} logged on at {address}", self.handle.id()))?;
                    self.be_patient();
                }
                Event::Ended(_) if self.logs_out => say("Logged out")?,
                Event::Ended(why) if self.is_reliable => {
                    say(&format!("The connection is cut: {why}; connecting again"))?;
                    self.be_patient();
                }
                Event::Ended(why) => {
                    self.is_wanted = false;
                    let address = &self.address;
                    let unanswered = self.unanswered();
                    return Err(format!("the connection to {address} is cut: {why}; {unanswered}"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn log_on(&mut self) -> Result<(), String> {
        self.handle.operate(&Action::LogOn {}).map_err(|why| why.to_string())?;
        (self.is_wanted, self.logs_out) = (true, false);
        self.be_patient();
        Ok(())
    }

    /// Logs out, and waits for the server's Logout(5).
    pub(super) fn log_out(&mut self) -> Result<(), String> {
        (self.is_wanted, self.logs_out) = (false, true);
        self.handle
            .operate(&Action::LogOut { text: String::new() })
            .map_err(|why| why.to_string())?;
        let until_ns = monotonic_ns() + LOGOUT_NS;
        while self.handle.state() != State::Disconnected {
            if monotonic_ns() > until_ns {
                return Err(format!("{} does not answer our Logout(5)", self.address));
            }
            if !self.read() {
                std::thread::yield_now();
            }
        }
        self.tell()
    }

    /// Logs out if necessary, and stops the engine.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let logged_out = if self.is_logged_on() { self.log_out() } else { Ok(()) };
        if let Some(engine) = self.engine.take() {
            engine.stop(Duration::ZERO);
        }
        logged_out
    }
}
