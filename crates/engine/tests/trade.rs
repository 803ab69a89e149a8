//! Two engines over loopback: logon, trade, lost connection, recovery, logout.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use transfix::{
    Action, ApplVerId, Application, BeginString, BusinessReject, Disconnect, Durability, Engine,
    EngineBuilder, Message, Mode, Outcome, ResetPolicy, Role, SendMode, Sent, SessionEvent,
    SessionId, SessionNotice, SessionRef, SessionSettings, SessionView, Settings, tag,
};
use transfix_store::journal::{self, Event};
use transfix_testkit::app::App;

/// A time limit that suffices on the slowest machine; only a failing test waits this long.
const LONG: Duration = Duration::from_secs(300);

/// A message or an event that an application has received.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Logon,
    Reset,
    Message(String, String),
    Disconnect(Disconnect),
}

struct Recorder {
    seen: Sender<Seen>,
    answers: bool,
}

impl Application for Recorder {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let kind = message.msg_type().to_string();
        let id = message.text(tag::CL_ORD_ID)?.to_owned();
        if self.answers {
            session.send("8", |report| _ = report.str(tag::CL_ORD_ID, &id)).unwrap();
        }
        self.seen.send(Seen::Message(kind, id)).unwrap();
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        match event {
            SessionEvent::LoggedOn => {
                self.seen.send(Seen::Logon).unwrap();
            }
            SessionEvent::NumbersReset => {
                self.seen.send(Seen::Reset).unwrap();
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.seen.send(Seen::Disconnect(end.reason)).unwrap();
        }
    }
}

struct Side {
    engine: Engine,
    id: SessionId,
    seen: Receiver<Seen>,
}

impl Side {
    fn start(settings: SessionSettings, answers: bool) -> Self {
        let id = settings.id();
        Self::start_with(Engine::builder(&Settings::of(settings)), id, answers)
    }

    fn start_with(builder: EngineBuilder<'_>, id: SessionId, answers: bool) -> Self {
        let (sender, seen) = channel();
        let mut sender = Some(sender);
        let engine =
            builder.start(|_| Box::new(Recorder { seen: sender.take().unwrap(), answers }));
        Self { engine: engine.unwrap(), id, seen }
    }

    fn next(&self) -> Seen {
        self.seen.recv_timeout(LONG).unwrap()
    }

    fn send(&self, id: &str) -> Sent {
        let handle = self.engine.session(&self.id).unwrap();
        handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, id)).unwrap()
    }
}

fn acceptor(begin_string: BeginString, mode: Mode) -> SessionSettings {
    let id = SessionId::new(begin_string, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    settings.threads.mode = mode;
    settings
}

fn initiator(begin_string: BeginString, mode: Mode, venue: &Side) -> SessionSettings {
    let id = SessionId::new(begin_string, "CLIENT", "VENUE");
    let address = venue.engine.listening()[0].to_string();
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address);
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    settings.socket.reconnect_interval = Duration::from_millis(10);
    settings.threads.mode = mode;
    if begin_string == BeginString::Fixt11 {
        settings.protocol.default_appl_ver_id = Some(ApplVerId(9));
    }
    settings
}

fn trade(venue: &Side, client: &Side, orders: usize) {
    for n in 0..orders {
        client.send(&format!("order{n}"));
    }
    for n in 0..orders {
        let id = format!("order{n}");
        assert_eq!(venue.next(), Seen::Message("D".to_owned(), id.clone()));
        assert_eq!(client.next(), Seen::Message("8".to_owned(), id));
    }
}

#[test]
fn every_version_and_mode_logs_on_trades_and_logs_out() {
    for begin_string in BeginString::ALL {
        for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
            println!("{begin_string} {mode:?}");
            let venue = Side::start(acceptor(begin_string, mode), true);
            let client = Side::start(initiator(begin_string, mode, &venue), false);
            assert_eq!((venue.next(), client.next()), (Seen::Logon, Seen::Logon));
            trade(&venue, &client, 100);
            let outcomes = client.engine.stop(Duration::from_secs(20));
            assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
            assert_eq!(outcomes[0].next_num_out, 103);
            assert_eq!(venue.next(), Seen::Disconnect(Disconnect::LoggedOut));
            let outcomes = venue.engine.stop(Duration::from_secs(20));
            assert_eq!(outcomes[0].outcome, Outcome::NotConnected);
            assert_eq!(outcomes[0].next_num_in, 103);
        }
    }
}

#[test]
fn an_initiator_connects_from_its_local_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let address = listener.local_addr().unwrap().to_string();
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address);
    settings.store.durability = Durability::Memory;
    // The test can bind any address of 127.0.0.0/8, because all belong to this host.
    settings.socket.local_address = "127.0.0.2".to_owned();
    settings.socket.tcp_keepalive = Duration::from_secs(30);
    settings.socket.dscp = Some(46);
    let client = Side::start(settings, false);
    let (_stream, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), std::net::Ipv4Addr::new(127, 0, 0, 2));
    client.engine.stop(Duration::ZERO);
}

#[test]
fn engines_share_a_port_if_all_of_them_say_so() {
    let settings = |role, client: &str, address: &str| {
        let (us, them) = if role == Role::Acceptor { ("VENUE", client) } else { (client, "VENUE") };
        let id = SessionId::new(BeginString::Fix44, us, them);
        let mut settings = SessionSettings::new(role, &id, address);
        settings.store.durability = Durability::Memory;
        settings.socket.reuse_port = role == Role::Acceptor;
        settings.socket.reconnect_interval = Duration::from_millis(5);
        settings.socket.reconnect_interval_max = Duration::from_millis(5);
        settings
    };
    let first = Side::start(settings(Role::Acceptor, "A", "127.0.0.1:0"), false);
    let address = first.engine.listening()[0].to_string();
    let second = Side::start(settings(Role::Acceptor, "B", &address), false);
    assert_eq!(second.engine.listening(), first.engine.listening());
    let mut alone = settings(Role::Acceptor, "C", &address);
    alone.socket.reuse_port = false;
    let refused = Engine::start(&Settings::of(alone), |_| Box::new(App::rejecting()));
    assert!(refused.err().unwrap().to_string().contains(&address));
    // Both engines listen at the same port, and the operating system chooses one for each
    // connection. A Logon(A) that reaches the wrong engine is refused, and the client tries again.
    let clients = ["A", "B"].map(|client| settings(Role::Initiator, client, &address));
    for client in clients.map(|settings| Side::start(settings, false)) {
        assert_eq!(client.seen.iter().find(|seen| *seen == Seen::Logon), Some(Seen::Logon));
        client.engine.stop(LONG);
    }
}

#[test]
fn queued_sends_keep_their_order() {
    let venue = Side::start(acceptor(BeginString::Fix44, Mode::Pool), true);
    let mut settings = initiator(BeginString::Fix44, Mode::Dedicated, &venue);
    settings.threads.send = SendMode::Queued;
    let client = Side::start(settings, false);
    assert_eq!((venue.next(), client.next()), (Seen::Logon, Seen::Logon));
    assert!(matches!(client.send("first"), Sent::Queued { .. }));
    assert_eq!(venue.next(), Seen::Message("D".to_owned(), "first".to_owned()));
    assert_eq!(client.next(), Seen::Message("8".to_owned(), "first".to_owned()));
    trade(&venue, &client, 1_000);
}

#[test]
fn many_threads_send_into_one_session() {
    const THREADS: usize = 4;
    const EACH: usize = 500;
    let venue = Side::start(acceptor(BeginString::Fix44, Mode::Dedicated), false);
    let client = Side::start(initiator(BeginString::Fix44, Mode::Dedicated, &venue), false);
    assert_eq!((venue.next(), client.next()), (Seen::Logon, Seen::Logon));
    let handle = client.engine.session(&client.id).unwrap();
    std::thread::scope(|scope| {
        for t in 0..THREADS {
            let handle = handle.clone();
            scope.spawn(move || {
                for n in 0..EACH {
                    let id = format!("{t}-{n}");
                    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, &id)).unwrap();
                }
            });
        }
    });
    let mut next = [0; THREADS];
    for _ in 0..THREADS * EACH {
        let Seen::Message(_, id) = venue.next() else { panic!("not a message") };
        let (t, n) = id.split_once('-').unwrap();
        let t: usize = t.parse().unwrap();
        assert_eq!(n.parse::<usize>().unwrap(), next[t], "order within a thread");
        next[t] += 1;
    }
    assert_eq!(handle.next_numbers().1, (THREADS * EACH + 2) as u64);
}

#[test]
fn a_second_connection_is_closed_and_the_first_stays() {
    let venue = Side::start(acceptor(BeginString::Fix44, Mode::Pool), true);
    let first = Side::start(initiator(BeginString::Fix44, Mode::Pool, &venue), false);
    assert_eq!((venue.next(), first.next()), (Seen::Logon, Seen::Logon));
    let second = Side::start(initiator(BeginString::Fix44, Mode::Pool, &venue), false);
    assert_eq!(second.next(), Seen::Disconnect(Disconnect::LogonUnanswered));
    drop(second);
    trade(&venue, &first, 10);
}

#[test]
fn polled_sessions_are_driven_by_the_application() {
    let venue = Side::start(acceptor(BeginString::Fix44, Mode::Dedicated), true);
    let mut client = Side::start(initiator(BeginString::Fix44, Mode::Polled, &venue), false);
    let wait = |client: &mut Side| loop {
        client.engine.poll();
        if let Ok(seen) = client.seen.try_recv() {
            return seen;
        }
    };
    assert_eq!(wait(&mut client), Seen::Logon);
    for n in 0..100 {
        let id = format!("order{n}");
        assert_eq!(client.send(&id), Sent::Direct(n + 2));
        assert_eq!(wait(&mut client), Seen::Message("8".to_owned(), id));
    }
    let outcomes = client.engine.stop(Duration::from_secs(20));
    assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
}

/// Runs the event loop of a program until `is_over` returns true. Returns the number of calls of
/// `Engine::poll`.
fn wait_at_fd(client: &mut Side, mut is_over: impl FnMut(&Receiver<Seen>) -> bool) -> usize {
    let mut polls = 0;
    loop {
        client.engine.poll();
        polls += 1;
        if is_over(&client.seen) {
            return polls;
        }
        let within = client.engine.poll_timeout();
        let time = within.map(|time| Timespec::try_from(time).unwrap());
        let mut fds = [PollFd::from_borrowed_fd(client.engine.poll_fd().unwrap(), PollFlags::IN)];
        rustix::event::poll(&mut fds, time.as_ref()).unwrap();
    }
}

#[test]
fn a_loop_of_its_own_waits_at_a_file_descriptor() {
    let venue = Side::start(acceptor(BeginString::Fix44, Mode::Dedicated), true);
    let mut settings = initiator(BeginString::Fix44, Mode::Polled, &venue);
    settings.protocol.heart_bt_int = Duration::from_secs(1);
    let (id, settings) = (settings.id(), Settings::of(settings));
    let mut client = Side::start_with(Engine::builder(&settings).with_poll_fd(), id, false);
    wait_at_fd(&mut client, |seen| seen.try_iter().any(|seen| seen == Seen::Logon));
    let mut polls = 0;
    for n in 0..100 {
        let expected = format!("order{n}");
        // A send in another thread wakes the loop too.
        let handle = client.engine.session(&client.id).unwrap();
        let order = expected.clone();
        let sender = std::thread::spawn(move || {
            handle.send("D", |body| _ = body.str(tag::CL_ORD_ID, &order)).unwrap();
        });
        let expected = Seen::Message("8".to_owned(), expected);
        polls += wait_at_fd(&mut client, |seen| seen.try_iter().any(|seen| seen == expected));
        sender.join().unwrap();
    }
    // An idle session wakes the loop only for heartbeats.
    let handle = client.engine.session(&client.id).unwrap();
    let before = handle.counters().messages_out;
    polls += wait_at_fd(&mut client, |_| handle.counters().messages_out >= before + 3);
    assert!(polls < 2_000, "{polls} rounds: it waits between them");
    let outcomes = client.engine.stop(Duration::from_secs(20));
    assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
}

/// An acceptor wakes the loop for connections, and so do application threads.
#[test]
fn an_acceptor_waits_at_a_file_descriptor() {
    for application_threads in [0, 2] {
        let session = acceptor(BeginString::Fix44, Mode::Polled);
        let id = session.id();
        let mut settings = Settings::of(session);
        settings.engine.application_threads = application_threads;
        let mut venue = Side::start_with(Engine::builder(&settings).with_poll_fd(), id, true);
        let mut of_client = initiator(BeginString::Fix44, Mode::Dedicated, &venue);
        of_client.protocol.reset_on = ResetPolicy::LOGON;
        let handle = venue.engine.session(&venue.id).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| wait_at_fd(&mut venue, |_| is_over.load(Ordering::SeqCst)));
            for round in 0..3 {
                let client = Side::start(of_client.clone(), false);
                assert_eq!(client.next(), Seen::Logon);
                for n in 0..10 {
                    let id = format!("{round}-{n}");
                    client.send(&id);
                    assert_eq!(client.next(), Seen::Message("8".to_owned(), id));
                }
                let outcomes = client.engine.stop(Duration::from_secs(20));
                assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
            }
            is_over.store(true, Ordering::SeqCst);
            // Each call by an operator wakes the loop.
            handle.operate(&Action::LogOn {}).unwrap();
        });
        venue.engine.stop(Duration::from_secs(20));
    }
}

/// A session that a reload adds wakes the loop through the same file descriptor as the first one.
#[test]
fn a_session_that_a_reload_adds_wakes_the_loop() {
    let venues = [0, 1].map(|_| Side::start(acceptor(BeginString::Fix44, Mode::Dedicated), true));
    let sessions = venues.each_ref().map(|venue| {
        let mut settings = initiator(BeginString::Fix44, Mode::Polled, venue);
        settings.protocol.heart_bt_int = Duration::from_hours(1);
        settings
    });
    let [first, mut second] = sessions;
    second.qualifier = "second".to_owned();
    let (id, from) = (first.id(), Settings::of(first));
    let mut client = Side::start_with(Engine::builder(&from).with_poll_fd(), id.clone(), false);
    wait_at_fd(&mut client, |seen| seen.try_iter().any(|seen| seen == Seen::Logon));
    let mut to = from.clone();
    to.sessions.push(second.clone());
    let (tells, seen_by_second) = channel();
    let done = client.engine.reload(&from, &to, Duration::ZERO, |_| {
        Box::new(Recorder { seen: tells.clone(), answers: false })
    });
    let done = done.unwrap();
    assert!(done.failed.is_empty(), "{done:?}");
    wait_at_fd(&mut client, |_| seen_by_second.try_iter().any(|seen| seen == Seen::Logon));
    for n in 0..20 {
        for (session, is_second) in [(&id, false), (&second.id(), true)] {
            let order = format!("order{n}");
            let handle = client.engine.session(session).unwrap();
            handle.send("D", |body| _ = body.str(tag::CL_ORD_ID, &order)).unwrap();
            let report = Seen::Message("8".to_owned(), order);
            wait_at_fd(&mut client, |seen| {
                let seen = if is_second { &seen_by_second } else { seen };
                seen.try_iter().any(|seen| seen == report)
            });
        }
    }
    let outcomes = client.engine.stop(Duration::from_secs(20));
    let ended = Outcome::Ended(Disconnect::LoggedOut);
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|one| one.outcome == ended), "{outcomes:?}");
}

/// Two sessions of one thread log out from each other, because the stop runs both and waits for
/// their Logout(5)s.
#[test]
fn two_sessions_of_one_thread_log_out_from_each_other() {
    for with_fd in [false, true] {
        let session = acceptor(BeginString::Fix44, Mode::Polled);
        let (id, settings) = (session.id(), Settings::of(session));
        let builder = Engine::builder(&settings);
        let builder = if with_fd { builder.with_poll_fd() } else { builder };
        let mut both = Side::start_with(builder, id, false);
        let initiator = initiator(BeginString::Fix44, Mode::Polled, &both);
        let handle = both.engine.add(&initiator, Box::new(App::rejecting())).unwrap().unwrap();
        while !handle.is_logged_on() || both.seen.try_recv() != Ok(Seen::Logon) {
            both.engine.poll();
        }
        let outcomes = both.engine.stop(LONG);
        let ended = Outcome::Ended(Disconnect::LoggedOut);
        assert!(outcomes.iter().all(|one| one.outcome == ended), "{outcomes:?}");
        assert_eq!(outcomes.len(), 2);
    }
}

#[test]
fn a_file_descriptor_has_to_be_asked_for() {
    let venue = Side::start(acceptor(BeginString::Fix44, Mode::Dedicated), true);
    assert!(venue.engine.poll_fd().is_none() && venue.engine.poll_timeout().is_none());
    let polled = Side::start(initiator(BeginString::Fix44, Mode::Polled, &venue), false);
    assert!(polled.engine.poll_fd().is_none());
    assert_eq!(polled.engine.poll_timeout(), Some(Duration::ZERO), "it looks at its sockets");
}

#[test]
fn both_sides_go_on_where_they_were_after_a_restart() {
    let dir = transfix_testkit::temp::TempDir::new();
    let durable = |mut settings: SessionSettings| {
        settings.store.durability = Durability::Process;
        settings.store.store_dir = dir.path().to_owned();
        settings
    };
    for round in 0..5 {
        let venue = Side::start(durable(acceptor(BeginString::Fix44, Mode::Pool)), true);
        let client = Side::start(durable(initiator(BeginString::Fix44, Mode::Pool, &venue)), false);
        assert_eq!((venue.next(), client.next()), (Seen::Logon, Seen::Logon));
        trade(&venue, &client, 10);
        let numbers = client.engine.session(&client.id).unwrap().next_numbers();
        assert_eq!(numbers, (12 * round + 12, 12 * round + 12));
        client.engine.stop(Duration::from_secs(20));
        venue.engine.stop(Duration::from_secs(20));
    }
}

/// Returns the notes in the journal of a session.
fn notes(settings: &SessionSettings) -> Vec<String> {
    let entries = journal::read(&settings.store_path()).unwrap();
    let notes = entries.filter_map(|entry| match entry.unwrap().event {
        Event::Note(text) => Some(text),
        _ => None,
    });
    notes.collect()
}

#[test]
fn the_journal_says_what_befell_the_session() {
    let dir = transfix_testkit::temp::TempDir::new();
    let durable = |mut settings: SessionSettings| {
        settings.store.durability = Durability::Process;
        settings.store.store_dir = dir.path().to_owned();
        settings
    };
    let ours = durable(acceptor(BeginString::Fix44, Mode::Pool));
    let venue = Side::start(ours.clone(), true);
    let theirs = durable(initiator(BeginString::Fix44, Mode::Pool, &venue));
    let client = Side::start(theirs.clone(), false);
    assert_eq!((venue.next(), client.next()), (Seen::Logon, Seen::Logon));
    trade(&venue, &client, 3);
    let handle = client.engine.session(&client.id).unwrap();
    handle.operate(&Action::ResetInSession {}).unwrap();
    assert_eq!((venue.next(), client.next()), (Seen::Reset, Seen::Reset));
    trade(&venue, &client, 3);
    let (_, next_out) = handle.next_numbers();
    handle.operate(&Action::SetNumbers { next_in: None, next_out: Some(next_out) }).unwrap();
    client.engine.stop(Duration::from_secs(20));
    venue.engine.stop(Duration::from_secs(20));
    let by_hand = format!("numbers set while the engine runs: next_out {next_out}");
    let logged_out = "disconnected: logged out";
    let reset = "reset: requested while logged on";
    assert_eq!(notes(&theirs), ["logged on", reset, &by_hand, logged_out]);
    let reset = "reset: the counterparty sent ResetSeqNumFlag(141)=Y";
    assert_eq!(notes(&ours), ["logged on", reset, logged_out]);
}

#[test]
fn messages_lost_on_the_way_are_resent_after_the_next_logon() {
    // The client's store keeps messages that are lost with a connection.
    let venue = Side::start(acceptor(BeginString::Fix44, Mode::Pool), true);
    let relay = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = initiator(BeginString::Fix44, Mode::Pool, &venue);
    settings.address = relay.local_addr().unwrap().to_string();
    let to = venue.engine.listening()[0];
    let client = Side::start(settings, false);
    let (up, cut) = pass_on(&relay, to);
    assert_eq!((venue.next(), client.next()), (Seen::Logon, Seen::Logon));
    trade(&venue, &client, 10);
    cut(&up);
    // Some of these messages are sent on a dead connection, and others without a connection.
    let mut sent = Vec::new();
    let handle = client.engine.session(&client.id).unwrap();
    for n in 0..1_000 {
        let id = format!("late{n}");
        if handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, &id)).is_ok() {
            sent.push(id);
        }
    }
    assert_eq!(venue.next(), Seen::Disconnect(Disconnect::LinkLost));
    assert_eq!(client.next(), Seen::Disconnect(Disconnect::LinkLost));
    let _again = pass_on(&relay, to);
    assert_eq!((venue.next(), client.next()), (Seen::Logon, Seen::Logon));
    for id in sent {
        assert_eq!(venue.next(), Seen::Message("D".to_owned(), id.clone()));
        assert_eq!(client.next(), Seen::Message("8".to_owned(), id));
    }
    trade(&venue, &client, 10);
}

type Ends = (std::net::TcpStream, std::net::TcpStream);

/// Relays one connection in both directions. The returned function breaks the connection.
fn pass_on(relay: &std::net::TcpListener, to: std::net::SocketAddr) -> (Ends, fn(&Ends)) {
    let (client, _) = relay.accept().unwrap();
    let venue = std::net::TcpStream::connect(to).unwrap();
    for (from, to) in [(&client, &venue), (&venue, &client)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
        });
    }
    let cut = |ends: &Ends| {
        for end in [&ends.0, &ends.1] {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    };
    ((client, venue), cut)
}
