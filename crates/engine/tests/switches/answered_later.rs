//! Tests messages that the application answers later, and messages that are durable when
//! `send_with` returns.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use transfix::{
    Action, Application, BeginString, Body, BusinessReject, Engine, Message, MessageAnswer,
    Offline, SendError, SendOptions, Sent, SessionEvent, SessionHandle, SessionId, SessionRef,
    SessionSettings, Settings, tag,
};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored, Wake};

use crate::switches::wire::Wire;
use crate::switches::{LONG, venue};

/// An application that passes the deferred answer of each order to the test, and behaves as the
/// ClOrdID(11) says.
struct Asks(Sender<(String, Option<MessageAnswer>)>);

impl Application for Asks {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?.to_owned();
        match &*id {
            "at once" => session.answer_later().unwrap().give(Err(BusinessReject::other("no"))),
            "an error" => {
                let answer = session.answer_later();
                let _ = self.0.send((id, answer));
                return Err(BusinessReject::other("an error"));
            }
            "a panic" => {
                let _ = self.0.send((id, session.answer_later()));
                panic!("as asked for");
            }
            "twice" => {
                let first = session.answer_later();
                let _ = self.0.send((id, session.answer_later()));
                drop(first);
            }
            _ => drop(self.0.send((id, session.answer_later()))),
        }
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            assert!(session.answer_later().is_none(), "there is no message");
        }
    }
}

type Asked = Receiver<(String, Option<MessageAnswer>)>;

fn start(sessions: Vec<SessionSettings>, application_threads: usize) -> (Engine, Asked) {
    let mut settings = Settings { sessions, ..Settings::default() };
    settings.engine.application_threads = application_threads;
    let (asks, asked) = channel();
    (Engine::start(&settings, |_| Box::new(Asks(asks.clone()))).unwrap(), asked)
}

fn log_on(engine: &Engine, client: &str) -> Wire {
    let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
    wire.send(&format!("35=A|34=1|49={client}|98=0|108=30"));
    assert!(wire.next().starts_with("35=A|"));
    wire
}

fn session(engine: &Engine, client: &str) -> SessionHandle {
    engine.session(&SessionId::new(BeginString::Fix44, "VENUE", client)).unwrap()
}

#[track_caller]
fn next(asked: &Asked, id: &str) -> MessageAnswer {
    let (asked, answer) = asked.recv_timeout(LONG).unwrap();
    assert_eq!(asked, id);
    answer.unwrap()
}

/// A single thread serves all applications. Two sessions that each have an unanswered message do
/// not delay a third one. Within a session, the next message waits for the answer.
#[test]
fn a_message_that_is_answered_later_holds_up_its_own_session_alone() {
    let named = |name: &str| venue(|s| s.target_comp_id = name.to_owned());
    let (engine, asked) = start(vec![named("ONE"), named("TWO"), named("THREE")], 1);
    let mut wires: Vec<_> = ["ONE", "TWO", "THREE"].map(|name| log_on(&engine, name)).into();
    let mut answers = Vec::new();
    for (wire, name) in wires.iter_mut().zip(["ONE", "TWO", "THREE"]) {
        wire.send(&format!("35=D|34=2|49={name}|11=first of {name}"));
        wire.send(&format!("35=D|34=3|49={name}|11=second of {name}"));
        answers.push(next(&asked, &format!("first of {name}")));
    }
    // The session layer still answers while the application owes an answer.
    wires[0].send("35=1|34=4|49=ONE|112=x");
    assert_eq!(wires[0].next(), "35=0|34=2|112=x");
    let (waiting, _) = session(&engine, "ONE").waiting_for_application();
    assert_eq!(waiting, 2, "the second order, and TestRequest(1)");
    assert!(asked.try_recv().is_err(), "the second comes before the answer to the first");
    answers.remove(0).give(Err(BusinessReject::new(6, "not you")));
    assert_eq!(wires[0].next(), "35=j|34=3|45=2|372=D|380=6|58=not you");
    next(&asked, "second of ONE").give(Ok(()));
    answers.remove(0).give(Ok(()));
    next(&asked, "second of TWO").give(Ok(()));
}

#[test]
fn an_answer_counts_once_and_whenever_it_is_given() {
    let (engine, asked) = start(vec![venue(|_| ())], 1);
    let mut wire = log_on(&engine, "CLIENT");
    wire.send("35=D|34=2|11=at once");
    assert_eq!(wire.next(), "35=j|34=2|45=2|372=D|380=0|58=no");
    // The return value of the callback counts; a later answer has no effect.
    wire.send("35=D|34=3|11=an error");
    let late = next(&asked, "an error");
    assert_eq!(wire.next(), "35=j|34=3|45=3|372=D|380=0|58=an error");
    wire.send("35=D|34=4|11=twice");
    let answer = next(&asked, "twice");
    late.give(Ok(()));
    wire.send("35=D|34=5|11=dropped");
    assert!(asked.try_recv().is_err(), "a late answer to another message counts");
    answer.give(Ok(()));
    drop(next(&asked, "dropped"));
    assert!(wire.next().starts_with("35=j|34=4|45=5|372=D|380=4|"));
}

#[test]
fn a_session_that_begins_anew_has_no_use_for_the_answers_of_before() {
    let (engine, asked) = start(vec![venue(|_| ())], 1);
    let mut wire = log_on(&engine, "CLIENT");
    wire.send("35=D|34=2|11=before");
    let before = next(&asked, "before");
    wire.send("35=A|34=1|98=0|108=30|141=Y");
    assert!(wire.next().starts_with("35=A|34=1|"));
    wire.send("35=D|34=2|11=after");
    assert!(asked.try_recv().is_err(), "the application is called for two messages at a time");
    before.give(Err(BusinessReject::other("of another time")));
    // The rejection has no RefSeqNum(45), because the number from before the reset would refer to
    // another order.
    assert_eq!(wire.next(), "35=j|34=2|372=D|380=0|58=of another time");
    next(&asked, "after").give(Err(BusinessReject::other("of this time")));
    assert_eq!(wire.next(), "35=j|34=3|45=2|372=D|380=0|58=of this time");
}

/// A panic of a callback restarts the session even if the callback has already deferred its answer.
#[test]
fn a_panic_is_a_panic_whoever_has_the_answer() {
    let (engine, asked) = start(vec![venue(|_| ())], 1);
    let mut wire = log_on(&engine, "CLIENT");
    wire.send("35=D|34=2|11=a panic");
    let answer = next(&asked, "a panic");
    assert_eq!(wire.next(), "");
    answer.give(Ok(()));
    session(&engine, "CLIENT").operate(&Action::Revive {}).unwrap();
}

/// Without application threads, an answer cannot be deferred, because the session's thread does not
/// wait.
#[test]
fn without_threads_of_its_own_an_application_answers_at_once() {
    let (engine, asked) = start(vec![venue(|_| ())], 0);
    let mut wire = log_on(&engine, "CLIENT");
    wire.send("35=D|34=2|11=a");
    assert!(asked.recv_timeout(LONG).unwrap().1.is_none());
}

/// A store whose batches become durable when the test allows it.
struct Slow {
    store: MemoryStore,
    last: u64,
    does: Behaviour,
}

#[derive(Clone, Default)]
struct Behaviour {
    /// A commit blocks while another thread holds this lock.
    stuck: Arc<Mutex<()>>,
    /// The next inbound number of the last commit.
    next_in: Arc<AtomicU64>,
    safe: Arc<AtomicU64>,
    fails: Arc<AtomicBool>,
    wake: Arc<Mutex<Option<Wake>>>,
}

impl Behaviour {
    fn all_is_safe(&self) {
        self.safe.store(u64::MAX, Ordering::SeqCst);
        if let Some(wake) = &*self.wake.lock().unwrap() {
            wake();
        }
    }
}

impl Store for Slow {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        drop(self.does.stuck.lock().unwrap());
        self.store.commit()?;
        self.last += 1;
        self.does.next_in.store(self.store.numbers().next_in, Ordering::SeqCst);
        Ok(Committed::Pending(self.last))
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        match self.does.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Own(io::ErrorKind::StorageFull.into())),
            false => Ok(self.does.safe.load(Ordering::SeqCst)),
        }
    }

    fn wake_by(&mut self, wake: Wake) {
        *self.does.wake.lock().unwrap() = Some(wake);
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }
}

/// A plain `send` returns at once. With `stored`, it returns when no crash can lose the message, or
/// with an error if the store fails before. The sender learns the number before the counterparty
/// can answer.
#[test]
fn what_is_sent_stored_is_safe_when_it_returns() {
    for fails in [false, true] {
        let does = Behaviour::default();
        does.safe.store(u64::MAX, Ordering::SeqCst);
        let of_store = does.clone();
        let settings = Settings::of(venue(|_| ()));
        let (asks, _asked) = channel();
        let engine = Engine::builder(&settings)
            .stores(move |_, _| {
                let store = MemoryStore::new(1 << 20, 1);
                Ok(Some(Box::new(Slow { store, last: 0, does: of_store.clone() })))
            })
            .start(|_| Box::new(Asks(asks.clone())))
            .unwrap();
        let _wire = log_on(&engine, "CLIENT");
        let session = session(&engine, "CLIENT");
        while !session.is_logged_on() {
            thread::yield_now();
        }
        does.safe.store(0, Ordering::SeqCst);
        let (tells, numbered) = channel();
        let news = move |session: &SessionHandle| {
            let fill = |news: &mut Body<'_>| _ = news.str(tag::TEXT, "news");
            let mut note = |sent| tells.send(sent).unwrap();
            let options = SendOptions { note: Some(&mut note), ..SendOptions::default() };
            session.send_with(options, "B", fill)
        };
        let (done, is_done) = channel();
        let of_thread = session.clone();
        let sender = thread::spawn(move || done.send(news(&of_thread)).unwrap());
        // The message has its number here, but is not durable yet.
        while session.sent_message(2).unwrap().is_none() {
            thread::yield_now();
        }
        assert_eq!(numbered.try_recv(), Ok(Sent::Direct(2)));
        assert!(is_done.try_recv().is_err(), "it has returned before");
        does.fails.store(fails, Ordering::SeqCst);
        does.all_is_safe();
        match (fails, is_done.recv_timeout(LONG).unwrap()) {
            (false, Ok(Sent::Direct(2))) | (true, Err(SendError::Failed)) => {}
            (_, sent) => panic!("{sent:?}"),
        }
        sender.join().unwrap();
    }
}

/// With `stored`, a message never waits only in memory, even if the session is busy.
#[test]
fn what_is_sent_stored_has_a_number_or_is_in_the_store() {
    let with = |offline, name: &str| {
        venue(|session| {
            session.target_comp_id = name.to_owned();
            session.queue.offline = offline;
            session.threads.send = transfix::SendMode::Queued;
        })
    };
    let sessions = [
        with(Offline::Refuse, "REFUSES"),
        with(Offline::Store, "STORES"),
        with(Offline::Queue, "QUEUES"),
    ];
    let (engine, _asked) = start(sessions.into(), 0);
    let send = |name: &str| {
        let stored = SendOptions { stored: true, ..SendOptions::default() };
        session(&engine, name).send_with(stored, "B", |news| _ = news.str(tag::TEXT, "news"))
    };
    assert!(matches!(send("REFUSES"), Err(SendError::NotLoggedOn)), "{:?}", send("REFUSES"));
    assert!(matches!(send("STORES"), Ok(Sent::Stored(1))));
    assert!(matches!(send("QUEUES"), Ok(Sent::Queued { .. })));
    let mut wire = log_on(&engine, "REFUSES");
    let handle = session(&engine, "REFUSES");
    while !handle.is_logged_on() {
        thread::yield_now();
    }
    for seq in 2..200 {
        assert!(matches!(send("REFUSES"), Ok(Sent::Direct(sent)) if sent == seq));
        assert_eq!(wire.next(), format!("35=B|34={seq}|58=news"));
    }
}

/// A message to a third party whose session is busy does not count as received until that session
/// is free. No thread waits meanwhile, and the message never waits only in memory.
#[test]
fn a_message_for_a_busy_third_party_does_not_count_before_it_is_there() {
    let mut sessions = vec![venue(|s| s.route_third_party = true), venue(|_| ())];
    sessions[1].target_comp_id = "OTHER".to_owned();
    for session in &mut sessions {
        session.threads.mode = transfix::Mode::Dedicated;
    }
    let settings = Settings { sessions, ..Settings::default() };
    let does = [Behaviour::default(), Behaviour::default()];
    does.iter().for_each(Behaviour::all_is_safe);
    let of_stores = does.clone();
    let (asks, _asked) = channel();
    let engine = Engine::builder(&settings)
        .stores(move |session, _| {
            let store = MemoryStore::new(1 << 20, 1);
            let does = of_stores[usize::from(&*session.target_comp_id == "OTHER")].clone();
            Ok(Some(Box::new(Slow { store, last: 0, does })))
        })
        .start(|_| Box::new(Asks(asks.clone())))
        .unwrap();
    let (mut ours, mut theirs) = (log_on(&engine, "CLIENT"), log_on(&engine, "OTHER"));
    let [of_ours, of_theirs] = does;
    let busy = of_theirs.stuck.lock().unwrap();
    theirs.send("35=1|34=2|49=OTHER|112=x");
    // The worker of the other session is in a turn now, or soon will be.
    let other = session(&engine, "OTHER");
    while other.next_numbers().0 < 3 {
        thread::yield_now();
    }
    ours.send("35=D|34=2|128=OTHER|11=a");
    ours.send("35=D|34=3|43=Y|122=20260101-00:00:00|128=OTHER|11=b");
    ours.send("35=1|34=4|112=y");
    assert_eq!(ours.next(), "35=0|34=2|112=y", "others wait");
    assert_eq!(of_ours.next_in.load(Ordering::SeqCst), 2, "a crash now would lose the message");
    drop(busy);
    assert_eq!(theirs.next(), "35=0|34=2|112=x");
    assert_eq!(theirs.next(), "35=D|34=3|115=CLIENT|11=a");
    assert_eq!(
        theirs.next(),
        "35=D|34=4|97=Y|115=CLIENT|11=b",
        "a process of before may have had it"
    );
    // The answer names the original target as its sender.
    ours.send("35=D|34=5|128=CLIENT|11=c");
    assert_eq!(ours.next(), "35=D|34=3|115=CLIENT|11=c");
}

/// A callback in the thread of its session gets an error instead of waiting for another session,
/// because the thread already holds a session's lock.
#[test]
fn a_callback_in_the_thread_of_its_session_does_not_wait_for_another() {
    struct Sends(Sender<Result<Sent, SendError>>);
    impl Application for Sends {
        fn on_message(
            &mut self,
            _: &Message<'_>,
            session: &mut SessionRef<'_>,
        ) -> Result<(), BusinessReject> {
            let own = session.other(&session.id().clone()).unwrap();
            let stored = SendOptions { stored: true, ..SendOptions::default() };
            let _ = self.0.send(own.send_with(stored, "B", |news| _ = news.str(tag::TEXT, "x")));
            Ok(())
        }
    }
    for threads in [0, 1] {
        let mut settings = Settings::of(venue(|_| ()));
        settings.engine.application_threads = threads;
        let (sends, sent) = channel();
        let engine = Engine::start(&settings, |_| Box::new(Sends(sends.clone()))).unwrap();
        let mut wire = log_on(&engine, "CLIENT");
        wire.send("35=D|34=2|11=a");
        match (threads, sent.recv_timeout(LONG).unwrap()) {
            (0, Err(SendError::WouldWait)) | (1, Ok(Sent::Direct(2))) => {}
            (_, sent) => panic!("{sent:?}"),
        }
    }
}
