//! Applications in threads of their own when something goes wrong: connections that end, stores
//! that fail, others that wait.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use transfix::store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored};
use transfix::{
    Application, BeginString, BusinessReject, Disconnect, Disconnection, Durability, Engine,
    Message, SendError, SessionHandle, SessionId, SessionRef, SessionSettings, Settings, State,
    Undone, clock, tag,
};
use transfix_testkit::temp::TempDir;

use crate::switches::reopening::insist;
use crate::switches::wire::Wire;
use crate::switches::{LONG, venue};

/// Does with each order what its ClOrdID(11) says, word by word.
struct Actor {
    told: Sender<String>,
    gate: Arc<Mutex<Receiver<()>>>,
    waits_at_logon: bool,
}

impl Actor {
    fn tell(&self, what: impl Into<String>) {
        // The test may be over.
        let _ = self.told.send(what.into());
    }

    fn wait(&self) {
        self.gate.lock().unwrap().recv_timeout(4 * LONG).unwrap();
    }
}

fn send(session: &mut SessionRef<'_>, id: &str) -> Result<u64, SendError> {
    session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id))
}

impl Application for Actor {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?;
        self.tell(id);
        for word in id.split(' ') {
            match word {
                "wait" => self.wait(),
                "send" => self.tell(match send(session, id) {
                    Ok(seq) => format!("sent {seq}, next {}", session.next_numbers().1),
                    Err(error) => format!("not sent: {error}"),
                }),
                "reject" => return Err(BusinessReject::new(6, "not you")),
                "linger" => {
                    let until_ns = clock::monotonic_ns() + 2_000_000;
                    while clock::monotonic_ns() < until_ns {
                        thread::yield_now();
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn on_logon(&mut self, session: &mut SessionRef<'_>) {
        self.tell(format!("logon of {}", session.id().target_comp_id));
        if self.waits_at_logon {
            self.wait();
            send(session, "welcome").unwrap();
        }
    }

    fn on_undone(&mut self, undone: &Undone, _: &mut SessionRef<'_>) {
        self.tell(format!("undone {:?} {:?}", undone.received, undone.sent));
    }

    fn on_disconnect(&mut self, end: &Disconnection<'_>, _: &mut SessionRef<'_>) {
        if end.reason != Disconnect::LogonUnanswered {
            self.tell(format!("end: {}", end.reason));
        }
    }
}

struct Stage {
    engine: Engine,
    told: Receiver<String>,
    open: Sender<()>,
}

impl Stage {
    fn set(settings: Settings) -> Self {
        Self::with(settings, false, |_| None)
    }

    /// One worker, and one thread for the applications if nothing else is said.
    fn with(
        mut settings: Settings,
        waits_at_logon: bool,
        store: impl Fn(&SessionSettings) -> Option<Box<dyn Store>> + Send + Sync + 'static,
    ) -> Self {
        settings.engine.workers = 1;
        settings.engine.application_threads = settings.engine.application_threads.max(1);
        let ((told, hears), (open, gate)) = (channel(), channel());
        let gate = Arc::new(Mutex::new(gate));
        let engine =
            Engine::builder(&settings).stores(move |session, _| Ok(store(session))).start(|_| {
                let (told, gate) = (told.clone(), Arc::clone(&gate));
                Box::new(Actor { told, gate, waits_at_logon })
            });
        Self { engine: engine.unwrap(), told: hears, open }
    }

    fn connect(&self) -> Wire {
        Wire::connect(self.engine.listening()[0], BeginString::Fix44)
    }

    fn log_on(&self, client: &str) -> Wire {
        let mut wire = self.connect();
        wire.send(&format!("35=A|34=1|49={client}|98=0|108=30"));
        assert!(wire.next().starts_with("35=A|"));
        self.expect(&format!("logon of {client}"));
        wire
    }

    #[track_caller]
    fn expect(&self, what: &str) {
        assert_eq!(self.told.recv_timeout(LONG).unwrap(), what);
    }

    fn open(&self) {
        self.open.send(()).unwrap();
    }

    fn session(&self, client: &str) -> SessionHandle {
        let id = SessionId::new(BeginString::Fix44, "VENUE", client);
        self.engine.session(&id).unwrap()
    }

    fn is_over(&self) {
        while self.session("CLIENT").state() != State::Disconnected {
            thread::yield_now();
        }
    }
}

fn other(change: impl FnOnce(&mut SessionSettings)) -> SessionSettings {
    let mut other = venue(change);
    other.target_comp_id = "OTHER".to_owned();
    other
}

/// Not only when a message comes that somebody answers.
#[test]
fn what_any_callback_has_sent_goes_out_when_it_has_returned() {
    let stage = Stage::with(Settings::of(venue(|_| ())), true, |_| None);
    let mut wire = stage.log_on("CLIENT");
    // Beyond all that its worker has to do at the logon.
    wire.send("35=1|34=2|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    stage.open();
    assert_eq!(wire.next(), "35=8|34=3|11=welcome");
}

/// Who has had a message before waits no longer than for the look at callbacks that take long.
#[test]
fn an_answer_does_not_wait_for_the_callbacks_behind_it() {
    let mut settings = Settings::of(venue(|_| ()));
    settings.engine.slow_callback_ms = 20;
    let stage = Stage::set(settings);
    let mut wire = stage.log_on("CLIENT");
    for (seq, id) in [(2, "wait"), (3, "send"), (4, "wait")] {
        wire.send(&format!("35=D|34={seq}|11={id}"));
    }
    wire.send("35=1|34=5|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    let (messages, bytes) = stage.session("CLIENT").waiting_for_application();
    assert!(messages == 3 && bytes > 200, "{messages} of {bytes} bytes");
    stage.open();
    assert_eq!(wire.next(), "35=8|34=3|11=send");
    stage.open();
}

#[test]
fn a_callback_sees_the_number_that_it_has_used() {
    let stage = Stage::set(Settings::of(venue(|_| ())));
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=send send");
    stage.expect("send send");
    stage.expect("sent 2, next 3");
    stage.expect("sent 3, next 4");
}

/// It is told when the counterparty has logged on again and sent the message once more.
#[test]
fn a_reject_of_an_earlier_connection_does_not_come_before_the_logon() {
    let stage = Stage::set(Settings::of(venue(|_| ())));
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=wait reject");
    stage.expect("wait reject");
    wire.send("35=5|34=3");
    assert_eq!(wire.next(), "35=5|34=2");
    stage.is_over();
    let mut wire = stage.connect();
    wire.send("35=A|34=4|98=0|108=30");
    // The session has the connection, and nobody reads from it yet.
    while stage.session("CLIENT").state() != State::LogonAwaited {
        thread::yield_now();
    }
    stage.open();
    stage.expect("end: logged out");
    assert_eq!(wire.next(), "35=A|34=3|98=0|108=30");
    assert_eq!(wire.next(), "35=2|34=4|7=2|16=0");
}

/// As if it had been sent in the session's own thread just before the connection ended.
#[test]
fn an_answer_to_a_connection_that_has_ended_is_asked_for_again() {
    for is_back in [false, true] {
        let stage = Stage::set(Settings::of(venue(|_| ())));
        let mut wire = stage.log_on("CLIENT");
        wire.send("35=D|34=2|11=wait send");
        stage.expect("wait send");
        wire.send("35=5|34=3");
        assert_eq!(wire.next(), "35=5|34=2");
        stage.is_over();
        let relogon = || {
            let mut wire = stage.connect();
            wire.send("35=A|34=4|98=0|108=30");
            wire
        };
        let mut early = is_back.then(relogon);
        while is_back && stage.session("CLIENT").state() != State::LogonAwaited {
            thread::yield_now();
        }
        stage.open();
        stage.expect("sent 3, next 4");
        stage.expect("end: logged out");
        let mut wire = early.take().unwrap_or_else(relogon);
        assert_eq!(wire.next(), "35=A|34=4|98=0|108=30");
        assert_eq!(wire.next(), "35=2|34=5|7=3|16=0", "it has had the message");
        wire.send("35=2|34=5|7=3|16=0");
        let again = wire.next();
        assert!(again.starts_with("35=8|34=3|43=Y|"), "{again}");
        assert!(again.ends_with("|11=wait send"), "{again}");
    }
}

/// Of what waited once, nothing counts when the application has had it.
#[test]
fn what_was_handed_over_no_longer_waits() {
    let mut settings =
        Settings { sessions: vec![venue(|_| ()), other(|_| ())], ..Settings::default() };
    settings.engine.waiting_bytes_max = 600_000;
    let stage = Stage::set(settings);
    let mut wire = stage.log_on("CLIENT");
    let mut second = stage.log_on("OTHER");
    let text = "x".repeat(100_000);
    wire.send("35=D|34=2|11=wait");
    stage.expect("wait");
    for seq in 3..7 {
        wire.send(&format!("35=D|34={seq}|11=a|58={text}"));
    }
    wire.send("35=1|34=7|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    stage.open();
    (3..7).for_each(|_| stage.expect("a"));
    second.send("35=D|34=2|49=OTHER|11=wait");
    stage.expect("wait");
    for seq in 3..7 {
        second.send(&format!("35=D|34={seq}|49=OTHER|11=b|58={text}"));
    }
    second.send("35=1|34=7|49=OTHER|112=x");
    assert_eq!(second.next(), "35=0|34=2|112=x");
    stage.open();
    (3..7).for_each(|_| stage.expect("b"));
    wire.send("35=1|34=8|112=still here");
    assert_eq!(wire.next(), "35=0|34=3|112=still here");
}

/// One that takes its time leaves the thread to others after each message.
#[test]
fn who_has_much_to_do_does_not_hold_up_those_who_have_little() {
    let sessions = vec![venue(|_| ()), other(|_| ())];
    let stage = Stage::set(Settings { sessions, ..Settings::default() });
    let mut wire = stage.log_on("CLIENT");
    let mut second = stage.log_on("OTHER");
    wire.send("35=D|34=2|11=wait");
    stage.expect("wait");
    for seq in 3..63 {
        wire.send(&format!("35=D|34={seq}|11=linger"));
    }
    wire.send("35=1|34=63|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    second.send("35=D|34=2|49=OTHER|11=quick");
    second.send("35=1|34=3|49=OTHER|112=x");
    assert_eq!(second.next(), "35=0|34=2|112=x");
    stage.open();
    let before = std::iter::from_fn(|| stage.told.recv_timeout(LONG).ok());
    let before = before.take_while(|told| told != "quick").count();
    assert!(before < 10, "{before} messages of the one before the other's first");
}

/// A store that fails, or panics, as long as somebody says so.
struct Bad {
    store: MemoryStore,
    fails: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
}

impl Store for Bad {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        let is_of_pool = thread::current().name() == Some("tfx-app-0");
        assert!(!(is_of_pool && self.panics.swap(false, Ordering::SeqCst)), "a bug of the store");
        match self.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Own(io::ErrorKind::StorageFull.into())),
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

/// A stage over such a store, and its two switches: it fails, it panics once.
fn badly_stored() -> (Stage, Arc<AtomicBool>, Arc<AtomicBool>) {
    let [fails, panics] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (of_store, once) = (Arc::clone(&fails), Arc::clone(&panics));
    let stage = Stage::with(Settings::of(venue(|_| ())), false, move |_| {
        let (fails, panics) = (Arc::clone(&of_store), Arc::clone(&once));
        Some(Box::new(Bad { store: MemoryStore::new(1 << 20, 1), fails, panics }))
    });
    (stage, fails, panics)
}

/// Its answer is lost with the store's batch, so the message must come again.
#[test]
fn a_message_does_not_count_whose_answer_the_store_has_lost() {
    let (stage, fails, _) = badly_stored();
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=send wait");
    stage.expect("send wait");
    stage.expect("sent 2, next 3");
    fails.store(true, Ordering::SeqCst);
    wire.send("35=1|34=3|112=x");
    assert_eq!(wire.next(), "", "nothing is sent that is not stored");
    fails.store(false, Ordering::SeqCst);
    let session = stage.session("CLIENT");
    session.revive().unwrap();
    while session.store_failure().is_some() {
        thread::yield_now();
    }
    stage.open();
    stage.expect("end: the store failed");
    stage.expect("undone 2..3 2..4");
    let (mut wire, logon) = insist(stage.engine.listening()[0], "35=A|34=4|98=0|108=30");
    assert_eq!(logon, "35=A|34=2|98=0|108=30");
    assert_eq!(wire.next(), "35=2|34=3|7=2|16=0");
}

/// It costs the session alone, wherever the engine is when the store panics.
#[test]
fn a_store_that_panics_in_a_thread_of_the_applications_costs_its_session_alone() {
    let (stage, _, panics) = badly_stored();
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=wait send");
    stage.expect("wait send");
    panics.store(true, Ordering::SeqCst);
    stage.open();
    stage.expect("sent 2, next 3");
    assert_eq!(wire.next(), "");
    stage.expect("end: the application or the engine panicked");
    stage.session("CLIENT").revive().unwrap();
    // The end of the connection has made safe what the panic has left.
    stage.expect("undone 3..3 3..3");
    let (mut wire, logon) = insist(stage.engine.listening()[0], "35=A|34=3|98=0|108=30");
    assert_eq!(logon, "35=A|34=3|98=0|108=30");
    stage.expect("logon of CLIENT");
    wire.send("35=D|34=4|11=a");
    stage.expect("a");
}

/// Its store is free for another engine, and what it does then changes nothing any more.
#[test]
fn an_application_that_does_not_return_does_not_keep_the_store() {
    let dir = TempDir::new();
    let durable = Settings::of(venue(|s| {
        s.store.durability = Durability::Process;
        s.store.store_dir = dir.path().to_owned();
    }));
    let stage = Stage::set(durable.clone());
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=wait send");
    stage.expect("wait send");
    let Stage { engine, open, told } = stage;
    let outcomes = engine.stop(0);
    assert_eq!(outcomes[0].next_num_in, 2, "not taken");
    let second = Stage::set(durable);
    assert_eq!(second.session("CLIENT").next_numbers().0, 2);
    open.send(()).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), "not sent: the engine has been stopped");
}
