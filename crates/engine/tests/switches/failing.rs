//! A store that fails at a commit: no accepted message is lost, and no refused or returned message
//! is sent.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use transfix::{
    Action, Application, BusinessReject, Disconnect, Engine, Message, Offline, OperateError,
    Outcome, SendError, SendMode, Sent, SessionHandle, SessionNotice, SessionRef, SessionSettings,
    SessionView, Settings, Unsent, tag,
};
use transfix_store::{
    Committed, FileStore, MemoryStore, Numbers, Options, Record, Store, StoreError, Stored,
};
use transfix_testkit::temp::TempDir;

use crate::switches::reopening::insist;
use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, venue};

/// An outcome of a commit: the batch is stored, and the commit succeeds.
const SOUND: u8 = 0;
const LOST: u8 = 1;
/// The batch is stored, but the commit reports a failure.
const FOUND: u8 = 2;
/// The store accepts no more records.
const FULL: u8 = 3;

struct Failing {
    store: Box<dyn Store>,
    fails: Arc<AtomicU8>,
}

impl Store for Failing {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            FULL => Err(StoreError::Own(io::ErrorKind::StorageFull.into())),
            _ => self.store.put(now_ns, record),
        }
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        let fails = self.fails.load(Ordering::SeqCst);
        if fails != LOST {
            self.store.commit()?;
        }
        match fails {
            SOUND => Ok(Committed::Now),
            _ => Err(StoreError::Own(io::ErrorKind::StorageFull.into())),
        }
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.queued(ticket)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            SOUND => self.store.reopen(),
            _ => Err(StoreError::Poisoned),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Ended(Disconnect),
    Unsent(String, SendError),
}

/// An application that reports each callback. When the connection ends, it sends three messages
/// through its own handle, if it has one, while the store begins to fail.
struct Told {
    events: Sender<Event>,
    own: Arc<OnceLock<SessionHandle>>,
    fails: Arc<AtomicU8>,
    how: u8,
}

impl Application for Told {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        match notice {
            SessionNotice::Unsent(unsent) => {
                let body = unsent.body.escape_ascii().to_string();
                self.events.send(Event::Unsent(body, unsent.why)).unwrap();
            }
            SessionNotice::Disconnected(end) => {
                if let Some(own) = self.own.get() {
                    self.fails.store(self.how, Ordering::SeqCst);
                    for id in ["a", "b", "c"] {
                        assert!(matches!(send(own, id), Ok(Sent::Queued { .. })));
                    }
                }
                self.events.send(Event::Ended(end.reason)).unwrap();
            }
            _ => {}
        }
    }
}

fn send(session: &SessionHandle, id: &str) -> Result<Sent, SendError> {
    session.send("D", |order| _ = order.str(tag::CL_ORD_ID, id))
}

struct Venue {
    engine: Engine,
    session: SessionHandle,
    fails: Arc<AtomicU8>,
    own: Arc<OnceLock<SessionHandle>>,
    events: Receiver<Event>,
}

impl Venue {
    /// Starts an engine whose store is in this directory, or in memory.
    fn start(settings: SessionSettings, dir: Option<&Path>, how: u8) -> Self {
        let (sender, events) = channel();
        let (fails, own) = (Arc::new(AtomicU8::new(SOUND)), Arc::new(OnceLock::new()));
        let (dir, of_store) = (dir.map(Path::to_path_buf), Arc::clone(&fails));
        let (of_own, of_app) = (Arc::clone(&own), Arc::clone(&fails));
        let engine = Engine::builder(&Settings::of(settings))
            .stores(move |_, now_ns| {
                let store: Box<dyn Store> = match &dir {
                    None => Box::new(MemoryStore::new(1 << 20, now_ns)),
                    Some(dir) => {
                        let options = Options::default();
                        Box::new(FileStore::open(dir, options, now_ns)?.0)
                    }
                };
                Ok(Some(Box::new(Failing { store, fails: Arc::clone(&of_store) })))
            })
            .start(move |_| {
                let (events, own) = (sender.clone(), Arc::clone(&of_own));
                Box::new(Told { events, own, fails: Arc::clone(&of_app), how })
            })
            .unwrap();
        let session = engine.sessions().next().unwrap();
        Self { engine, session, fails, own, events }
    }

    fn fail(&self, how: u8) {
        self.fails.store(how, Ordering::SeqCst);
    }

    fn next_event(&self) -> Event {
        self.events.recv_timeout(LONG).unwrap()
    }

    /// Logs on after the store has reopened. Returns the answer to the Logon(A) too.
    fn come_back(&self, seq: u64) -> (Wire, String) {
        insist(self.engine.listening()[0], &format!("35=A|34={seq}|98=0|108=30"))
    }
}

/// Checks that no other message arrives before the answer to a TestRequest(1).
fn assert_quiet(wire: &mut Wire, seq: u64) {
    wire.send(&format!("35=1|34={seq}|112=x"));
    let answer = wire.next();
    assert!(answer.starts_with("35=0|"), "{answer}");
}

#[test]
fn a_failure_in_a_thread_that_sends_is_seen_at_once() {
    let venue = Venue::start(venue(|_| ()), None, LOST);
    let _wire = logged_on(venue.engine.listening()[0]);
    venue.fail(LOST);
    let sent = send(&venue.session, "a");
    assert_eq!(venue.next_event(), Event::Ended(Disconnect::StoreFailed));
    assert!(!venue.session.is_logged_on());
    venue.fail(SOUND);
    let (mut wire, answer) = venue.come_back(2);
    assert_eq!(answer, "35=A|34=2|98=0|108=30");
    match sent {
        Err(SendError::Failed) => {}
        // The message was queued if the worker held the session's lock at that moment.
        Ok(Sent::Queued { .. }) => assert_eq!(wire.next(), "35=D|34=3|11=a"),
        other => panic!("{other:?}"),
    }
    assert_quiet(&mut wire, 3);
}

#[test]
fn a_failure_under_an_operators_hand_is_seen_at_once() {
    let venue = Venue::start(venue(|_| ()), None, LOST);
    let _wire = logged_on(venue.engine.listening()[0]);
    venue.fail(LOST);
    assert_eq!(
        venue.session.operate(&Action::TestRequest { id: "x".to_owned() }),
        Err(OperateError::Failed)
    );
    assert_eq!(venue.next_event(), Event::Ended(Disconnect::StoreFailed));
    assert!(!venue.session.is_logged_on());
}

/// Messages that the store does not accept are returned at the end of the engine. None is in doubt,
/// because the store has received none.
#[test]
fn what_a_store_does_not_take_comes_back_at_the_end() {
    let venue = Venue::start(venue(|s| s.queue.offline = Offline::Store), None, FULL);
    let wire = logged_on(venue.engine.listening()[0]);
    venue.session.operate(&Action::HoldSending {}).unwrap();
    for id in ["a", "b", "c"] {
        assert!(matches!(send(&venue.session, id), Ok(Sent::Queued { .. })));
    }
    drop(wire);
    assert_eq!(venue.next_event(), Event::Ended(Disconnect::LinkLost));
    venue.fail(FULL);
    venue.session.operate(&Action::ReleaseSending {}).unwrap();
    while venue.session.store_failure().is_none() {
        std::thread::yield_now();
    }
    let Venue { engine, session, events, .. } = venue;
    drop(session);
    engine.stop(Duration::from_millis(1));
    let back = ["a", "b", "c"];
    let back = back.map(|id| Event::Unsent(format!("11={id}\\x01"), SendError::Closed));
    assert_eq!(events.try_iter().collect::<Vec<_>>(), back);
}

#[test]
fn what_was_sent_from_the_queue_and_not_committed_waits_or_comes_back() {
    for (unsent, how) in [
        (Unsent::Keep, LOST),
        (Unsent::Return, LOST),
        (Unsent::Keep, FOUND),
        (Unsent::Return, FOUND),
    ] {
        let settings = venue(|s| {
            s.threads.send = SendMode::Queued;
            s.queue.unsent = unsent;
        });
        let venue = Venue::start(settings, None, SOUND);
        let _wire = logged_on(venue.engine.listening()[0]);
        venue.fail(how);
        assert!(matches!(send(&venue.session, "a"), Ok(Sent::Queued { .. })));
        assert_eq!(venue.next_event(), Event::Ended(Disconnect::StoreFailed));
        venue.fail(SOUND);
        if (unsent, how) == (Unsent::Return, LOST) {
            let back = Event::Unsent("11=a\\x01".to_owned(), SendError::NotLoggedOn);
            assert_eq!(venue.next_event(), back);
        }
        let (mut wire, answer) = venue.come_back(2);
        let mut seq = 3;
        match (unsent, how) {
            (_, FOUND) => {
                assert_eq!(answer, "35=A|34=3|98=0|108=30", "it has its number: {unsent:?}");
                wire.send("35=2|34=3|7=2|16=0");
                let again = wire.next();
                assert!(
                    again.starts_with("35=D|34=2|43=Y|") && again.ends_with("|11=a"),
                    "{again}"
                );
                assert!(wire.next().starts_with("35=4|34=3|"));
                seq = 4;
            }
            (Unsent::Keep, _) => assert_eq!(wire.next(), "35=D|34=3|11=a"),
            (_, _) => assert_eq!(answer, "35=A|34=2|98=0|108=30"),
        }
        assert_quiet(&mut wire, seq);
        assert_eq!(venue.events.try_recv().ok(), None, "{unsent:?} {how}");
    }
}

#[test]
fn a_stop_settles_what_was_in_doubt() {
    for (how, is_mended) in [(LOST, true), (FOUND, true), (LOST, false)] {
        let settings = venue(|s| s.threads.send = SendMode::Queued);
        let venue = Venue::start(settings, None, SOUND);
        let _wire = logged_on(venue.engine.listening()[0]);
        venue.fail(how);
        assert!(matches!(send(&venue.session, "a"), Ok(Sent::Queued { .. })));
        assert_eq!(venue.next_event(), Event::Ended(Disconnect::StoreFailed));
        if is_mended {
            venue.fail(SOUND);
        }
        let outcome = venue.engine.stop(Duration::from_secs(1)).remove(0);
        let told: Vec<_> = venue.events.try_iter().collect();
        let back = Event::Unsent("11=a\\x01".to_owned(), SendError::Closed);
        match (how, is_mended) {
            (LOST, true) => assert_eq!((told, outcome.next_num_out), (vec![back], 2)),
            (_, true) => assert_eq!((told, outcome.next_num_out), (vec![], 3), "it has a number"),
            // A later process may find the message in the store.
            (_, false) => assert_eq!((told, outcome.outcome), (vec![], Outcome::Failed)),
        }
    }
}

#[test]
fn what_a_stop_finds_in_no_store_comes_back() {
    let settings = venue(|s| s.queue.offline = Offline::Queue);
    let venue = Venue::start(settings, None, SOUND);
    let mut wire = logged_on(venue.engine.listening()[0]);
    venue.session.operate(&Action::HoldSending {}).unwrap();
    assert!(matches!(send(&venue.session, "a"), Ok(Sent::Queued { .. })));
    venue.fail(LOST);
    wire.send("35=1|34=2|112=x");
    assert_eq!(venue.next_event(), Event::Ended(Disconnect::StoreFailed));
    let outcome = venue.engine.stop(Duration::from_secs(1)).remove(0);
    assert_eq!(outcome.outcome, Outcome::Failed);
    let back = Event::Unsent("11=a\\x01".to_owned(), SendError::Closed);
    assert_eq!(venue.events.try_iter().collect::<Vec<_>>(), [back]);
}

#[test]
fn what_waits_for_a_logon_outlives_a_failed_commit() {
    for (in_files, how) in [(false, LOST), (true, LOST), (true, FOUND)] {
        let dir = TempDir::new();
        let settings = venue(|s| s.queue.offline = Offline::Queue);
        let venue = Venue::start(settings, in_files.then_some(dir.path()), how);
        venue.own.set(venue.session.clone()).unwrap();
        let wire = logged_on(venue.engine.listening()[0]);
        drop(wire);
        assert!(matches!(venue.next_event(), Event::Ended(_)));
        // A new message is refused, because the store has failed.
        assert_eq!(send(&venue.session, "d"), Err(SendError::Failed));
        venue.fail(SOUND);
        let (mut wire, answer) = venue.come_back(2);
        assert_eq!(answer, "35=A|34=2|98=0|108=30");
        for expected in ["35=D|34=3|11=a", "35=D|34=4|11=b", "35=D|34=5|11=c"] {
            assert_eq!(wire.next(), expected, "in files: {in_files}, {how}");
        }
        assert_quiet(&mut wire, 3);
        assert_eq!(venue.session.queued(), []);
    }
}

#[test]
fn what_the_store_never_had_comes_back_although_it_fails() {
    let settings = venue(|s| s.queue.unsent = Unsent::Return);
    let venue = Venue::start(settings, None, SOUND);
    let mut wire = logged_on(venue.engine.listening()[0]);
    venue.session.operate(&Action::HoldSending {}).unwrap();
    assert!(matches!(send(&venue.session, "a"), Ok(Sent::Queued { .. })));
    venue.fail(LOST);
    wire.send("35=1|34=2|112=x");
    let back = Event::Unsent("11=a\\x01".to_owned(), SendError::NotLoggedOn);
    assert_eq!(venue.next_event(), back);
    assert_eq!(venue.next_event(), Event::Ended(Disconnect::StoreFailed));
}
