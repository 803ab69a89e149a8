//! Tests the result of sending in each state of the session, for each value of `offline` and each
//! way to send. The table of results is a page of the book.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, thread};

use transfix::schedule::ScheduleSettings;
use transfix::{
    Action, BeginString, Engine, LogonAnswer, Offline, Role, SendError, SendOptions, Sent,
    SessionHandle, SessionId, SessionSettings, Settings, State, tag,
};
use transfix_store::MemoryStore;
use transfix_testkit::app::App;

use crate::switches::pool::{Bad, Behaviour};
use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, venue};

const PAGE: &str = "book/src/offline.md";

const FOOT: &str = "
A reset of the numbers forgets messages that are stored and not sent: event 2040 names their \
numbers. With `offline = \"store\"` the settings refuse `reset_on`, and warn of a schedule whose \
windows restart the numbers. A queued message gets its number after the reset.
";

const HEAD: &str = "# Sending without a logon

<!-- Made by `cargo xtask docs`. -->

What happens to a message when its session is not logged on? The key `offline` of the session \
decides. The table was made by running each case.

| word | means |
|---|---|
| sent | The message has its number, is stored, and is written. |
| stored | The message has its number and is stored. The counterparty asks for it later. |
| queued | The message waits without a number: in memory with `store`, in the store with `queue`. |
| later | `WouldBlock`: try again. |
| refused | An error names the reason. Nothing was sent, and no number was used. |

A callback of the session itself always sends: its message is sent, or stored where nothing can \
be written. The other ways are `SessionHandle::send` (also `send_batch`), `send_with` with \
`stored`, and `SessionHandle::send` in a callback of another \
session.
";

/// A function that brings a session into a state.
type Prepare = fn(&mut Case);

/// The states, each with the function that brings a session into it.
const STATES: [(&str, Prepare); 11] = [
    ("not connected, connecting, or failing over", |_| ()),
    ("outside of its schedule", Case::close_window),
    ("logging on: our Logon(A) is not answered", Case::connect_out),
    ("being judged: the application answers later", Case::let_judge),
    ("logged on", Case::log_on),
    ("resending", Case::resend),
    ("resetting: our Logon(A) with ResetSeqNumFlag(141)=Y is not answered", Case::reset),
    ("held back by an operator", Case::hold),
    ("logging out: our Logout(5) is not answered", Case::log_out),
    ("its store has failed", Case::fail),
    ("removed", Case::remove),
];

/// A session under test, in one of the states.
struct Case {
    settings: SessionSettings,
    engine: Option<Engine>,
    does: Behaviour,
    shared: Arc<Asked>,
    told: Receiver<String>,
    wires: Vec<Wire>,
    listener: TcpListener,
}

/// The state that the applications of the test share.
struct Asked {
    later: Mutex<Option<LogonAnswer>>,
    tell: Sender<String>,
    subject: SessionId,
}

/// Returns an application that sends into the session under test when the test requests it.
fn router(asked: Arc<Asked>) -> App {
    let state_on_message = asked.clone();
    App::new(move |message, session| {
        let id = message.text(tag::CL_ORD_ID)?;
        let said = if id == "own" {
            word(session.send("B", |news| _ = news.str(tag::TEXT, "x")).map(Sent::Direct))
        } else {
            let other = session.other(&state_on_message.subject);
            other.map_or("refused: closed".to_owned(), |other| send(&other))
        };
        let _ = state_on_message.tell.send(said);
        Ok(())
    })
    .judge_logon(move |logon, attempt| {
        if logon.raw(tag::USERNAME) == Some(b"later") {
            *asked.later.lock().unwrap() = Some(attempt.answer_later());
            let _ = asked.tell.send("judging".to_owned());
        }
        Ok(())
    })
}

fn word(sent: Result<Sent, SendError>) -> String {
    match sent {
        Ok(Sent::Direct(_)) => "sent",
        Ok(Sent::Stored(_)) => "stored",
        Ok(_) => "queued",
        Err(SendError::WouldBlock { .. }) => "later",
        Err(SendError::NotLoggedOn) => "refused: not logged on",
        Err(SendError::LoggingOut) => "refused: logging out",
        Err(SendError::Failed) => "refused: the store has failed",
        Err(SendError::Closed) => "refused: closed",
        Err(error) => return error.to_string(),
    }
    .to_owned()
}

/// Repeats the call until its result is not that the session is busy.
fn at_rest(handle: &SessionHandle, ask: impl Fn(&SessionHandle) -> String) -> String {
    let mut said = ask(handle);
    for n in 0..1_000 {
        let is_failing = said == "refused: not logged on" && handle.store_failure().is_some();
        if said != "queued" && !is_failing {
            break;
        }
        // Other load on the machine may delay the session's worker.
        match n < 900 {
            true => thread::yield_now(),
            false => thread::park_timeout(Duration::from_millis(2)),
        }
        said = ask(handle);
    }
    said
}

fn send(handle: &SessionHandle) -> String {
    at_rest(handle, |handle| word(handle.send("B", |news| _ = news.str(tag::TEXT, "x"))))
}

fn store(handle: &SessionHandle) -> String {
    at_rest(handle, |handle| {
        let stored = SendOptions { stored: true, ..SendOptions::default() };
        word(handle.send_with(stored, "B", |news| _ = news.str(tag::TEXT, "x")))
    })
}

impl Case {
    fn new(offline: Offline, prepare: Prepare) -> Self {
        let settings = venue(|s| s.queue.offline = offline);
        let (tell, told) = channel();
        let subject = settings.id();
        let shared = Arc::new(Asked { later: Mutex::default(), tell, subject });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (engine, does, wires) = (None, Behaviour::default(), Vec::new());
        let mut case = Self { settings, engine, does, shared, told, wires, listener };
        prepare(&mut case);
        case.started();
        case
    }

    fn started(&mut self) -> &Engine {
        let other = venue(|s| s.target_comp_id = "OTHER".to_owned());
        let sessions = vec![self.settings.clone(), other];
        let settings = Settings { sessions, ..Settings::default() };
        let (does, shared) = (self.does.clone(), Arc::clone(&self.shared));
        self.engine.get_or_insert_with(|| {
            Engine::builder(&settings)
                .stores(move |settings, now_ns| {
                    let store = MemoryStore::new(1 << 20, now_ns);
                    let is_subject = settings.target_comp_id != "OTHER";
                    let does = if is_subject { does.clone() } else { Behaviour::default() };
                    Ok(Some(Box::new(Bad { store, does })))
                })
                .start(move |_| Box::new(router(Arc::clone(&shared))))
                .unwrap()
        })
    }

    fn handle(&mut self) -> SessionHandle {
        let id = self.shared.subject.clone();
        self.started().session(&id).unwrap()
    }

    fn until(&mut self, state: State) {
        let handle = self.handle();
        while handle.state() != state {
            thread::yield_now();
        }
    }

    fn close_window(&mut self) {
        let mut schedule = ScheduleSettings::in_zone("UTC");
        // Chooses a window that is twelve hours away.
        let hour = (transfix::clock::now().utc.0 / 3_600_000_000_000 + 12) % 24;
        schedule.from = Some(format!("{hour:02}:00"));
        schedule.to = Some(format!("{hour:02}:30"));
        self.settings.schedule = Some(schedule);
    }

    fn connect_out(&mut self) {
        self.settings.role = Role::Initiator;
        self.settings.address = self.listener.local_addr().unwrap().to_string();
        self.until(State::LogonSent);
    }

    fn let_judge(&mut self) {
        let address = self.started().listening()[0];
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30|553=later");
        assert_eq!(self.told.recv_timeout(LONG).unwrap(), "judging");
        self.wires.push(wire);
    }

    fn log_on(&mut self) {
        let address = self.started().listening()[0];
        self.wires.push(logged_on(address));
    }

    fn resend(&mut self) {
        self.log_on();
        let handle = self.handle();
        for _ in 0..20 {
            assert!(handle.send("B", |news| _ = news.str(tag::TEXT, "x")).is_ok());
        }
        self.wires[0].send("35=2|34=2|7=1|16=0");
    }

    fn reset(&mut self) {
        self.log_on();
        self.handle().operate(&Action::ResetInSession {}).unwrap();
        assert!(self.wires[0].next().starts_with("35=A|34=1|"));
    }

    fn hold(&mut self) {
        self.log_on();
        self.handle().operate(&Action::HoldSending {}).unwrap();
    }

    fn log_out(&mut self) {
        self.log_on();
        self.handle().operate(&Action::LogOut { text: "the day is over".to_owned() }).unwrap();
        self.until(State::LogoutSent);
    }

    fn fail(&mut self) {
        self.log_on();
        let handle = self.handle();
        self.does.fails.store(true, Ordering::SeqCst);
        let _ = handle.send("B", |news| _ = news.str(tag::TEXT, "x"));
        self.until(State::Disconnected);
    }

    fn remove(&mut self) {
        self.log_on();
        let handle = self.handle();
        self.engine.as_mut().unwrap().remove(handle.id(), "", Duration::ZERO).unwrap();
        // A handle stays valid after the removal, and reports that the session is closed.
        assert_eq!(send(&handle), "refused: closed");
    }

    /// Returns the outcome of each way to send: through a handle, stored, and from another session.
    fn outcomes(&mut self) -> [String; 3] {
        let id = self.shared.subject.clone();
        let handle = self.started().session(&id);
        let (sent, stored) = match &handle {
            Some(handle) => (send(handle), store(handle)),
            None => ("refused: closed".to_owned(), "refused: closed".to_owned()),
        };
        let address = self.engine.as_ref().unwrap().listening();
        let Some(address) = address.last() else { return [sent, stored, "-".to_owned()] };
        let mut other = Wire::connect(*address, BeginString::Fix44);
        other.send("35=A|34=1|49=OTHER|98=0|108=30");
        assert!(other.next().starts_with("35=A|"));
        other.send("35=D|34=2|49=OTHER|11=other");
        let routed = self.told.recv_timeout(LONG).unwrap();
        self.wires.push(other);
        [sent, stored, routed]
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n| the session is | way | `refuse` | `store` | `queue` |\n|---|---|---|---|---|\n",
    );
    for (state, prepare) in STATES {
        let all = [Offline::Refuse, Offline::Store, Offline::Queue]
            .map(|offline| Case::new(offline, prepare).outcomes());
        let ways = ["`send`", "`send_with`, `stored`", "from another session"];
        let row = |way: usize| [0, 1, 2].map(|offline: usize| all[offline][way].clone());
        let same = row(0) == row(1) && row(1) == row(2);
        for (n, way) in ways.iter().enumerate().take(if same { 1 } else { 3 }) {
            let way = if same { "any" } else { way };
            let state = if n == 0 { state } else { "" };
            writeln!(page, "| {state} | {way} | {} |", row(n).join(" | ")).unwrap();
        }
    }
    page.push_str(FOOT);
    page
}

#[test]
fn every_state_and_every_way_is_in_the_book() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let text = page();
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{PAGE} is old; run `cargo xtask docs` and look at it:\n{text}");
    for refused in ["`store` | refused", "| sent | refused: logging out |"] {
        assert!(!text.contains(refused), "{refused}");
    }
}

/// A callback can send in each state in which the engine calls it.
#[test]
fn a_callback_of_the_session_always_sends() {
    for (prepare, seq) in
        [(Case::log_on as Prepare, 2), (Case::resend, 3), (Case::hold, 2), (Case::log_out, 2)]
    {
        for offline in [Offline::Refuse, Offline::Store, Offline::Queue] {
            let mut case = Case::new(offline, prepare);
            case.wires[0].send(&format!("35=D|34={seq}|11=own"));
            assert_eq!(case.told.recv_timeout(LONG).unwrap(), "sent", "{offline:?}");
        }
    }
}
