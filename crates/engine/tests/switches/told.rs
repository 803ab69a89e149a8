//! Tests the events and notices that an application receives, and how a session recovers.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use transfix::{
    Action, AfterPanic, Application, BeginString, BusinessReject, Direction, Disconnect, Engine,
    LogonFault, Message, OperateError, RejectedBy, Role, RolledBack, SessionEvent, SessionHandle,
    SessionNotice, SessionRef, SessionSettings, SessionView, Settings, State, tag,
};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored};
use transfix_testkit::app::App;

use crate::switches::wire::Wire;
use crate::switches::{LONG, echo, logged_on, venue};

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Logon,
    Reset,
    Message(String),
    Rejected(RejectedBy, u64, String, String),
    RolledBack(RolledBack),
    Ended(Disconnect, String),
}

/// Returns an application that reports each callback, answers each order, and panics at certain
/// orders, before or after the answer.
fn recorder(sender: Sender<Event>) -> App {
    let sender_on_message = sender.clone();
    let sender_on_event = sender.clone();
    App::new(move |message, session| {
        let id = message.text(tag::CL_ORD_ID).unwrap_or_default();
        sender_on_message.send(Event::Message(id.to_owned())).unwrap();
        assert_ne!(id, "panic", "a bug of the application");
        if message.msg_type() == b"D" {
            let _ = session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id));
        }
        assert_ne!(id, "panic late", "a bug of the application");
        Ok(())
    })
    .on_event(move |event, _| match event {
        SessionEvent::LoggedOn => {
            sender_on_event.send(Event::Logon).unwrap();
        }
        SessionEvent::NumbersReset => {
            sender_on_event.send(Event::Reset).unwrap();
        }
        SessionEvent::Rejected(rejected) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (msg_type, why) = (rejected.msg_type.to_string(), text(rejected.text));
            sender_on_event
                .send(Event::Rejected(rejected.by, rejected.seq, msg_type, why))
                .unwrap();
        }
        _ => {}
    })
    .on_notice(move |notice, _| match notice {
        SessionNotice::RolledBack(undone) => {
            sender.send(Event::RolledBack(undone.clone())).unwrap();
        }
        SessionNotice::Disconnected(end) => {
            let text = String::from_utf8_lossy(end.text.unwrap_or_default()).into_owned();
            sender.send(Event::Ended(end.reason, text)).unwrap();
        }
        _ => {}
    })
}

struct Venue {
    engine: Engine,
    session: SessionHandle,
    events: Receiver<Event>,
}

impl Venue {
    fn start(settings: SessionSettings) -> Self {
        Self::over(settings, None)
    }

    /// Starts the engine. If `fails` is given, the store loses its batch and fails while the flag
    /// is set.
    fn over(settings: SessionSettings, fails: Option<Arc<AtomicBool>>) -> Self {
        let (sender, events) = channel();
        let settings = Settings::of(settings);
        let builder = Engine::builder(&settings);
        let builder = match fails {
            Some(fails) => builder.stores(move |_, now_ns| {
                let store = MemoryStore::new(1 << 20, now_ns);
                Ok(Some(Box::new(Losing { store, fails: Arc::clone(&fails) }) as Box<dyn Store>))
            }),
            None => builder,
        };
        let engine = builder.start(|_| Box::new(recorder(sender.clone())));
        let engine = engine.unwrap();
        let session = engine.sessions().next().unwrap();
        Self { engine, session, events }
    }

    fn log_on(&self) -> Wire {
        let wire = logged_on(self.engine.listening()[0]);
        assert_eq!(self.next(), Event::Logon);
        wire
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(LONG).unwrap()
    }

    /// Logs on with the number `seq` after the session has recovered.
    fn come_back(&self, seq: u64) -> Wire {
        loop {
            let mut wire = Wire::connect(self.engine.listening()[0], BeginString::Fix44);
            wire.send(&format!("35=A|34={seq}|98=0|108=30"));
            if wire.next().starts_with("35=A|") {
                assert_eq!(self.next(), Event::Logon);
                return wire;
            }
        }
    }
}

struct Losing {
    store: MemoryStore,
    fails: Arc<AtomicBool>,
}

impl Store for Losing {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Own(std::io::ErrorKind::StorageFull.into())),
            false => self.store.commit(),
        }
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Poisoned),
            false => self.store.reopen(),
        }
    }
}

#[test]
fn the_counterpartys_words_reach_the_application() {
    let hall = Venue::start(venue(|_| ()));
    let mut wire = hall.log_on();
    hall.session.send("B", |news| _ = news.str(tag::TEXT, "x")).unwrap();
    wire.send("35=3|34=2|45=2|371=58|372=B|373=5|58=no such news");
    let by_session = RejectedBy::Session;
    let told = |by, seq, msg_type: &str, why: &str| {
        Event::Rejected(by, seq, msg_type.to_owned(), why.to_owned())
    };
    assert_eq!(hall.next(), told(by_session, 2, "B", "no such news"));
    // The repeated Reject(3) is not reported. Its MsgType(35) comes from the store, because it has
    // no RefMsgType(372).
    wire.send("35=3|34=2|43=Y|45=2|58=no such news");
    wire.send("35=3|34=3|45=2|58=once more");
    assert_eq!(hall.next(), told(by_session, 2, "B", "once more"));
    wire.send("35=j|34=4|45=2|372=B|380=4|58=later");
    assert_eq!(hall.next(), told(RejectedBy::Application, 2, "B", "later"));
    assert_eq!(hall.next(), Event::Message(String::new()), "an application message too");
    wire.send("35=5|34=5|58=closing for today");
    let closing = "closing for today".to_owned();
    assert_eq!(hall.next(), Event::Ended(Disconnect::LoggedOut, closing));
    let wire = hall.come_back(6);
    drop(wire);
    assert_eq!(hall.next(), Event::Ended(Disconnect::LinkLost, String::new()), "of this one");
}

#[test]
fn a_reject_that_answers_our_logon_is_told_with_its_text() {
    for (answer, by) in [
        ("35=3|34=1|45=1|371=98|372=A|373=1|58=who are you?", RejectedBy::Session),
        ("35=j|34=1|45=1|372=A|380=4|58=who are you?", RejectedBy::Application),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hall = Venue::start(venue(|s| {
            s.role = Role::Initiator;
            s.address = listener.local_addr().unwrap().to_string();
        }));
        let mut wire = Wire::of(listener.accept().unwrap().0, BeginString::Fix44);
        assert!(wire.next().starts_with("35=A|34=1|"));
        wire.send(answer);
        let text = "who are you?".to_owned();
        assert_eq!(hall.next(), Event::Rejected(by, 1, "A".to_owned(), text.clone()));
        let why = Disconnect::LogonRefused(LogonFault::AnsweredByReject);
        assert_eq!(hall.next(), Event::Ended(why, text));
        assert_eq!(wire.next(), "");
    }
}

/// A wrong field that only a getter in the application detects is answered with a Reject(3).
#[test]
fn what_a_getter_refuses_is_answered_by_reject() {
    for application_threads in [0, 2] {
        let mut settings = Settings::of(venue(|_| ()));
        settings.engine.application_threads = application_threads;
        let engine = Engine::start(&settings, |_| Box::new(echo())).unwrap();
        let mut wire = logged_on(engine.listening()[0]);
        for (order, answer) in [
            ("35=D|34=2|55=EU", "35=3|34=2|45=2|371=11|372=D|373=1|58="),
            ("35=D|34=3|11=|55=EU", "35=3|34=3|45=3|371=11|372=D|373=4|58="),
            ("35=D|34=4|11=a", "35=D|34=4|11=a"),
        ] {
            wire.send(order);
            let said = wire.next();
            assert!(said.starts_with(answer), "{order}: {said}");
        }
    }
}

/// A Reject(3) above a gap is reported to the application when the gap is abandoned, because it is
/// new.
#[test]
fn a_reject_above_a_gap_that_is_given_up_is_told() {
    let hall = Venue::start(venue(|s| s.numbers.request_missing = false));
    let mut wire = hall.log_on();
    wire.send("35=3|34=9|45=1|58=late");
    let late = Event::Rejected(RejectedBy::Session, 1, "A".to_owned(), "late".to_owned());
    assert_eq!(hall.next(), late);
}

#[test]
fn a_reset_within_a_session_is_no_logon() {
    let hall = Venue::start(venue(|_| ()));
    let mut wire = hall.log_on();
    wire.send("35=A|34=1|98=0|108=30|141=Y");
    assert_eq!(hall.next(), Event::Reset);
    hall.session.operate(&Action::ResetInSession {}).unwrap();
    while !wire.next().contains("|34=1|98=0|108=30|141=Y") {}
    wire.send("35=A|34=1|98=0|108=30|141=Y");
    assert_eq!(hall.next(), Event::Reset);
}

#[test]
fn what_the_store_has_not_kept_is_told_before_it_comes_again() {
    let fails = Arc::new(AtomicBool::new(false));
    let hall = Venue::over(venue(|_| ()), Some(Arc::clone(&fails)));
    let mut wire = hall.log_on();
    wire.send("35=D|34=2|11=a");
    assert_eq!(hall.next(), Event::Message("a".to_owned()));
    assert!(wire.next().ends_with("11=a"));
    fails.store(true, Ordering::SeqCst);
    wire.send("35=D|34=3|11=b");
    assert_eq!(hall.next(), Event::Message("b".to_owned()));
    assert_eq!(wire.next(), "", "its answer has not left");
    assert_eq!(hall.next(), Event::Ended(Disconnect::StoreFailed, String::new()));
    fails.store(false, Ordering::SeqCst);
    // The session recovers without a restart of the engine: an operator revives it, or a second
    // passes.
    hall.session.operate(&Action::Revive {}).unwrap();
    let Event::RolledBack(undone) = hall.next() else { panic!("not told") };
    assert_eq!((undone.received, undone.sent), (3..4, 3..4));
    let mut wire = hall.come_back(3);
    wire.send("35=D|34=4|11=b");
    assert_eq!(hall.next(), Event::Message("b".to_owned()));
    assert_eq!(wire.next(), "35=8|34=4|11=b");
}

#[test]
fn a_session_that_has_panicked_comes_back_or_stays_down() {
    for after_panic in [AfterPanic::Revive, AfterPanic::End] {
        let hall = Venue::start(venue(|s| s.threads.after_panic = after_panic));
        let mut wire = hall.log_on();
        // The action has no effect on a healthy session and is not kept for later.
        hall.session.operate(&Action::Revive {}).unwrap();
        wire.send("35=D|34=2|11=a");
        assert_eq!(hall.next(), Event::Message("a".to_owned()));
        assert!(wire.next().ends_with("11=a"));
        wire.send("35=D|34=3|11=panic");
        assert_eq!(hall.next(), Event::Message("panic".to_owned()));
        assert_eq!(wire.next(), "");
        assert_eq!(hall.next(), Event::Ended(Disconnect::Panicked, String::new()));
        if after_panic == AfterPanic::End {
            // The refused Logon(A) shows that the first `Revive` has had no effect.
            let mut refused = Wire::connect(hall.engine.listening()[0], BeginString::Fix44);
            refused.send("35=A|34=4|98=0|108=30");
            assert_eq!(refused.next(), "", "it stays down");
            hall.session.operate(&Action::Revive {}).unwrap();
        }
        let Event::RolledBack(undone) = hall.next() else { panic!("not told") };
        assert!(undone.received.is_empty() && undone.sent.is_empty(), "{undone}");
        // The message at which the application panicked counts as received, and messages sent
        // before the panic are resent.
        let mut wire = hall.come_back(4);
        wire.send("35=2|34=5|7=1|16=0");
        assert!(wire.next().starts_with("35=4|34=1|"));
        let again = wire.next();
        assert!(again.starts_with("35=8|34=2|43=Y|") && again.ends_with("11=a"), "{again}");
        wire.send("35=D|34=6|11=b");
        assert_eq!(hall.next(), Event::Message("b".to_owned()));
    }
}

/// A message that `send` has accepted in a callback is sent even if the callback then panics.
#[test]
fn an_answer_outlives_the_panic_behind_it() {
    let hall = Venue::start(venue(|_| ()));
    let mut wire = hall.log_on();
    wire.send("35=D|34=2|11=panic late");
    assert_eq!(hall.next(), Event::Message("panic late".to_owned()));
    assert_eq!(wire.next(), "");
    assert_eq!(hall.next(), Event::Ended(Disconnect::Panicked, String::new()));
    let Event::RolledBack(undone) = hall.next() else { panic!("not told") };
    assert!(undone.received.is_empty() && undone.sent.is_empty(), "{undone}");
    let mut wire = hall.come_back(3);
    wire.send("35=2|34=4|7=2|16=0");
    let answer = wire.next();
    assert!(answer.starts_with("35=8|34=2|43=Y|") && answer.ends_with("11=panic late"), "{answer}");
}

/// An application that panics when a thread named [`SENDER`] writes a News(B), but only the first
/// time. If the worker happens to write the message, no panic occurs.
struct Shy {
    panics: Arc<AtomicBool>,
    ended: Sender<Disconnect>,
}

impl Application for Shy {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, _: Direction, frame: &[u8], _: &SessionView<'_>) {
        let is_news = frame.windows(6).any(|bytes| bytes == b"\x0135=B\x01");
        let is_sender = std::thread::current().name() == Some(SENDER);
        assert!(!is_news || !is_sender || !self.panics.swap(false, Ordering::Relaxed), "a bug");
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.ended.send(end.reason).unwrap();
        }
    }
}

const SENDER: &str = "sender";

#[test]
fn a_panic_in_the_thread_of_a_sender_takes_nobody_down_for_good() {
    let (ended, has_ended) = channel();
    let panics = Arc::new(AtomicBool::new(true));
    let shy = || Shy { panics: Arc::clone(&panics), ended: ended.clone() };
    let (engine, address) = crate::switches::start(vec![venue(|_| ())], shy);
    let session = engine.sessions().next().unwrap();
    let wire = logged_on(address);
    let sender = session.clone();
    let send = move || sender.send("B", |news| _ = news.str(tag::TEXT, "x"));
    let sends = || std::thread::Builder::new().name(SENDER.to_owned()).spawn(send.clone()).unwrap();
    while let Ok(sent) = sends().join() {
        sent.unwrap();
    }
    session.operate(&Action::Revive {}).unwrap();
    drop(wire);
    assert_eq!(has_ended.recv_timeout(LONG), Ok(Disconnect::Panicked));
    // Connects repeatedly, because the session refuses connections until it has recovered.
    let mut wire = loop {
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30|141=Y");
        if wire.next().starts_with("35=A|") {
            break wire;
        }
    };
    send().unwrap();
    assert!(wire.next().starts_with("35=B|"));
}

/// A subscriber of log events that panics once, at the event about the logout.
struct Unwilling {
    panics: AtomicBool,
    ended: Sender<Disconnect>,
}

impl Application for Unwilling {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        match notice {
            SessionNotice::StateChanged { to: State::LogoutSent, .. } => {
                assert!(!self.panics.swap(false, Ordering::Relaxed), "a bug");
            }
            SessionNotice::Disconnected(end) => self.ended.send(end.reason).unwrap(),
            _ => {}
        }
    }
}

#[test]
fn a_panic_in_the_thread_of_an_operator_costs_the_session_alone() {
    let (ended, has_ended) = channel();
    let application = || Unwilling { panics: AtomicBool::new(true), ended: ended.clone() };
    let (engine, address) = crate::switches::start(vec![venue(|_| ())], application);
    let session = engine.sessions().next().unwrap();
    let _wire = logged_on(address);
    let done = session.operate(&Action::LogOut { text: "the day is over".to_owned() });
    assert_eq!(done, Err(OperateError::Failed));
    assert_eq!(has_ended.recv_timeout(LONG), Ok(Disconnect::Panicked));
    drop(logged_on_again(&session, address));
}

/// Lets the operator log the session on, and reconnects, until the session has recovered from a
/// panic.
fn logged_on_again(session: &SessionHandle, address: SocketAddr) -> Wire {
    loop {
        let _ = session.operate(&Action::LogOn {});
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30|141=Y");
        if wire.next().starts_with("35=A|") {
            return wire;
        }
    }
}
