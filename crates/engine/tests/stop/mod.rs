//! Tests an engine with misbehaving counterparties. Trouble in one session does not affect other
//! sessions, and a stop is orderly and in time.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod counterparty;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Direction, Disconnect, Durability, Engine,
    EngineSettings, Message, Outcome, Role, SendError, SendMode, SessionEvent, SessionId,
    SessionNotice, SessionRef, SessionSettings, SessionView, Settings, clock, tag,
};
use transfix_testkit::temp::TempDir;

use counterparty::Counterparty;

/// A time limit that suffices on the slowest machine; only a failing test waits this long.
const LONG: Duration = Duration::from_secs(300);
const STOP_MAX: Duration = Duration::from_secs(20);
const FIX44: BeginString = BeginString::Fix44;

/// An application that answers each order, reports the end of each connection, and panics in the
/// callback `panics_at`.
struct Venue {
    ended: Sender<(String, Disconnect)>,
    panics_at: Option<Callback>,
    /// The channel on which the callback for an order named `wait` blocks, until the test sends.
    go_on: Receiver<()>,
    entered: Sender<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callback {
    Message,
    Logon,
    Admin,
    WireIn,
    WireOut,
    Disconnect,
}

impl Venue {
    fn reach(&self, callback: Callback) {
        assert!(self.panics_at != Some(callback), "the application panics at {callback:?}");
    }
}

impl Application for Venue {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?;
        if id == "wait" {
            self.entered.send(()).unwrap();
            self.go_on.recv().unwrap();
        }
        self.reach(Callback::Message);
        session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id)).unwrap();
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        match event {
            SessionEvent::LoggedOn => {
                self.reach(Callback::Logon);
            }
            SessionEvent::AdminMessage(_) => {
                self.reach(Callback::Admin);
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            // The send fails if the test has ended and drops the engine.
            let _ = self.ended.send((session.id().target_comp_id.to_string(), end.reason));
            self.reach(Callback::Disconnect);
        }
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: Direction, _: &[u8], _: &SessionView<'_>) {
        let inbound = direction == Direction::Inbound;
        self.reach(if inbound { Callback::WireIn } else { Callback::WireOut });
    }
}

/// An engine with an acceptor session for each of several counterparties.
struct Fixture {
    engine: Engine,
    ended: Receiver<(String, Disconnect)>,
    go_on: Sender<()>,
    entered: Receiver<()>,
}

fn settings(name: &str) -> SessionSettings {
    let id = SessionId::new(FIX44, "VENUE", name);
    let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    session.store.durability = Durability::Memory;
    session.validation.validate = false;
    session
}

impl Fixture {
    fn of(sessions: Vec<SessionSettings>) -> Self {
        Self::panicking(sessions, "", None)
    }

    /// Starts sessions that share one thread. The application of the session with `name` panics in
    /// `callback`.
    fn panicking(sessions: Vec<SessionSettings>, name: &str, callback: Option<Callback>) -> Self {
        let engine = EngineSettings { workers: 1, ..EngineSettings::default() };
        let (ended_at, ended) = channel();
        let (entered_at, entered) = channel();
        let (go_on, mut going_on) = channel();
        let engine = Engine::start(&Settings { engine, sessions, ..Settings::default() }, |id| {
            // Only the application of the first session gets the channel, so only it can be
            // blocked.
            let go_on = std::mem::replace(&mut going_on, channel().1);
            let panics_at = callback.filter(|_| *id.target_comp_id == *name);
            let (ended, entered) = (ended_at.clone(), entered_at.clone());
            Box::new(Venue { ended, panics_at, go_on, entered })
        });
        Self { engine: engine.unwrap(), ended, go_on, entered }
    }

    fn address(&self) -> SocketAddr {
        self.engine.listening()[0]
    }

    fn log_on(&self, name: &str) -> Counterparty {
        Counterparty::log_on(self.address(), FIX44, name)
    }
}

fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("CLIENT{n}")).collect()
}

#[test]
fn all_sessions_log_out_at_once() {
    let names = names(50);
    let fixture = Fixture::of(names.iter().map(|name| settings(name)).collect());
    let mut parties: Vec<_> = names.iter().map(|name| fixture.log_on(name)).collect();
    for party in &mut parties {
        party.trade(1);
    }
    let stop = std::thread::spawn(move || fixture.engine.stop(STOP_MAX));
    for party in &mut parties {
        party.expect("5");
    }
    // Every counterparty must receive its Logout(5) before any of them answers.
    for party in &mut parties {
        party.send("5", |_| ());
        party.expect_close();
    }
    let outcomes = stop.join().unwrap();
    assert_eq!(outcomes.len(), names.len());
    for (outcome, name) in outcomes.iter().zip(&names) {
        assert_eq!(*outcome.id.target_comp_id, **name);
        assert_eq!(outcome.outcome, Outcome::Ended(Disconnect::LoggedOut));
        assert_eq!((outcome.next_num_in, outcome.next_num_out), (4, 4));
    }
}

#[test]
fn a_silent_counterparty_delays_the_stop_to_its_deadline_only() {
    const DEADLINE: Duration = Duration::from_millis(1_500);
    let fixture = Fixture::of(["A", "SILENT", "B", "ABSENT"].map(settings).into());
    let [mut a, mut silent, mut b] = ["A", "SILENT", "B"].map(|name| fixture.log_on(name));
    let begin = clock::monotonic_ns();
    let stop = std::thread::spawn(move || fixture.engine.stop(DEADLINE));
    silent.expect("5");
    for party in [&mut a, &mut b] {
        party.expect("5");
        party.send("5", |_| ());
        party.expect_close();
    }
    assert!(!stop.is_finished(), "the others were held up");
    let outcomes: Vec<_> = stop.join().unwrap().into_iter().map(|o| o.outcome).collect();
    assert!(clock::monotonic_ns() - begin >= DEADLINE.as_nanos() as u64);
    let logged_out = || Outcome::Ended(Disconnect::LoggedOut);
    let expected = [logged_out(), Outcome::DeadlinePassed, logged_out(), Outcome::NotConnected];
    assert_eq!(outcomes, expected);
    silent.expect_close();
}

#[test]
fn one_port_serves_all_versions() {
    let session = |begin_string| {
        let mut session = settings("CLIENT");
        session.begin_string = begin_string;
        session
    };
    let fixture = Fixture::of(BeginString::ALL.map(session).into());
    assert_eq!(fixture.engine.listening().len(), 1);
    let log_on = |version| Counterparty::log_on(fixture.address(), version, "CLIENT");
    let mut parties = BeginString::ALL.map(log_on);
    for party in &mut parties {
        party.trade(10);
    }
}

/// A process can start and stop an engine a hundred times, with the same stores and the same port.
#[test]
fn a_hundred_starts_and_stops() {
    let dir = TempDir::new();
    let mut session = settings("CLIENT");
    session.store.durability = Durability::Process;
    session.store.store_dir = dir.path().to_owned();
    for round in 0..100 {
        let fixture = Fixture::of(vec![session.clone()]);
        session.address = fixture.address().to_string();
        let next = round * 3 + 1;
        let mut client = Counterparty::log_on_at(fixture.address(), FIX44, "CLIENT", next);
        client.trade(1);
        let stop = std::thread::spawn(move || fixture.engine.stop(STOP_MAX));
        client.expect("5");
        client.send("5", |_| ());
        client.expect_close();
        let outcome = stop.join().unwrap().remove(0);
        assert_eq!(outcome.outcome, Outcome::Ended(Disconnect::LoggedOut), "round {round}");
        let numbers = (outcome.next_num_in, outcome.next_num_out);
        assert_eq!(numbers, (next + 3, next + 3), "round {round}");
    }
}

#[test]
fn garbage_before_the_logon_is_closed() {
    let fixture = Fixture::of(vec![settings("CLIENT")]);
    let order = b"8=FIX.4.4\x019=5\x0135=D\x0110=181\x01";
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], &[b'8'; 20_000], order] {
        let mut intruder = Counterparty::connect(fixture.address(), FIX44, "INTRUDER");
        intruder.write(bytes);
        intruder.expect_close();
    }
    // Both an unknown and an empty CompID are tested.
    for name in ["INTRUDER", ""] {
        let mut intruder = Counterparty::connect(fixture.address(), FIX44, name);
        intruder.logon();
        intruder.expect_close();
    }
    fixture.log_on("CLIENT").trade(10);
}

#[test]
fn silence_before_the_logon_harms_nobody() {
    let fixture = Fixture::of(vec![settings("CLIENT")]);
    let connect = |_| Counterparty::connect(fixture.address(), FIX44, "SILENT");
    let mut silent: Vec<_> = (0..20).map(connect).collect();
    silent[0].write(b"8=FI");
    fixture.log_on("CLIENT").trade(10);
    assert_eq!(fixture.ended.recv_timeout(LONG).unwrap().1, Disconnect::LinkLost);
    let outcomes = fixture.engine.stop(STOP_MAX);
    assert_eq!(outcomes[0].outcome, Outcome::NotConnected);
    for mut silent in silent {
        silent.expect_close();
    }
}

#[test]
fn a_stalled_counterparty_fills_its_own_queue_only() {
    const QUEUED_MAX: usize = 64 << 10;
    let mut session = settings("STALLED");
    session.queue.queued_bytes_max = QUEUED_MAX;
    session.socket.tcp_send_buffer_bytes = 16 << 10;
    let fixture = Fixture::of(vec![session, settings("CLIENT")]);
    let (stalled, mut client) = (fixture.log_on("STALLED"), fixture.log_on("CLIENT"));
    let handle = fixture.engine.sessions().next().unwrap();
    let text = "x".repeat(1_000);
    // The number of sends is high enough to fill both socket buffers, whose size the operating
    // system chooses.
    let refused =
        (0..100_000).find_map(|_| handle.send("B", |news| _ = news.str(tag::TEXT, &text)).err());
    let Some(SendError::WouldBlock { queued_bytes }) = refused else {
        panic!("{refused:?} instead of refusing");
    };
    assert!((QUEUED_MAX..QUEUED_MAX + 2_000).contains(&queued_bytes), "{queued_bytes}");
    assert!(handle.is_logged_on());
    client.trade(100);
    let stop = std::thread::spawn(move || fixture.engine.stop(Duration::from_millis(500)));
    client.expect("5");
    client.send("5", |_| ());
    client.expect_close();
    let outcomes: Vec<_> = stop.join().unwrap().into_iter().map(|o| o.outcome).collect();
    let expected = [Outcome::DeadlinePassed, Outcome::Ended(Disconnect::LoggedOut)];
    assert_eq!(outcomes, expected);
    drop(stalled);
}

#[test]
fn an_end_that_comes_with_the_last_bytes_is_seen() {
    let fixture = Fixture::of(vec![settings("CLIENT")]);
    let mut client = fixture.log_on("CLIENT");
    client.order("wait");
    fixture.entered.recv_timeout(LONG).unwrap();
    // The worker finds the order and the end of the stream together, and no bytes follow.
    client.order("last");
    client.end();
    fixture.go_on.send(()).unwrap();
    assert_eq!(client.expect("8"), "wait");
    assert_eq!(client.expect("8"), "last");
    client.expect_close();
    let ended = fixture.ended.recv_timeout(LONG).unwrap();
    assert_eq!(ended, ("CLIENT".to_owned(), Disconnect::LinkLost));
}

#[test]
fn a_panic_ends_its_session_only() {
    let callbacks = [
        Callback::Message,
        Callback::Logon,
        Callback::Admin,
        Callback::WireIn,
        Callback::WireOut,
        Callback::Disconnect,
    ];
    for callback in callbacks {
        println!("{callback:?}");
        let sessions = ["WILD", "CALM"].map(settings).into();
        let fixture = Fixture::panicking(sessions, "WILD", Some(callback));
        let mut calm = fixture.log_on("CALM");
        let mut wild = Counterparty::connect(fixture.address(), FIX44, "WILD");
        wild.logon();
        wild.order("1");
        if callback == Callback::Disconnect {
            wild.expect("A");
            wild.expect("8");
            wild.end();
        }
        assert_eq!(fixture.ended.recv_timeout(LONG).unwrap().0, "WILD");
        calm.trade(10);
        let wild = fixture.engine.sessions().next().unwrap();
        assert!(!wild.is_logged_on());
        assert!(wild.send("D", |order| _ = order.str(tag::CL_ORD_ID, "1")).is_err());
        let stop = std::thread::spawn(move || fixture.engine.stop(STOP_MAX));
        calm.expect("5");
        calm.send("5", |_| ());
        let outcomes: Vec<_> = stop.join().unwrap().into_iter().map(|o| o.outcome).collect();
        assert_eq!(outcomes, [Outcome::Failed, Outcome::Ended(Disconnect::LoggedOut)]);
        let ended: Vec<_> = fixture.ended.try_iter().collect();
        assert_eq!(ended, [("CALM".to_owned(), Disconnect::LoggedOut)]);
    }
}

#[test]
fn a_panic_within_a_message_of_another_thread_ends_no_session() {
    for send in [SendMode::Direct, SendMode::Queued] {
        let mut session = settings("WILD");
        session.threads.send = send;
        let fixture = Fixture::of(vec![session, settings("CALM")]);
        let (mut wild, mut calm) = (fixture.log_on("WILD"), fixture.log_on("CALM"));
        let handle = fixture.engine.sessions().next().unwrap();
        let sender = handle.clone();
        let panicked = std::thread::spawn(move || {
            sender.send("D", |order| {
                order.str(tag::CL_ORD_ID, "half");
                panic!("the sender panics");
            })
        });
        assert!(panicked.join().is_err());
        let next = handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "2"));
        assert!(next.is_ok(), "{send:?}");
        calm.trade(10);
        // The message that panicked must not leave a partial message in the queue.
        assert_eq!(wild.expect("D"), "2");
        wild.trade(10);
    }
}
