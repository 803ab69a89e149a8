//! Tests application threads when something goes wrong: connections end, stores fail, and other
//! sessions wait.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Disconnect, Durability, Engine, Message,
    SendError, SessionEvent, SessionHandle, SessionId, SessionNotice, SessionRef, SessionSettings,
    SessionView, Settings, State, clock, tag,
};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored};
use transfix_testkit::temp::TempDir;

use crate::switches::reopening::insist;
use crate::switches::wire::Wire;
use crate::switches::{LONG, venue};

/// An application that does what the words in an order's ClOrdID(11) say.
struct Actor {
    told: Sender<String>,
    gate: Arc<Mutex<Receiver<()>>>,
    waits_at_logon: bool,
}

impl Actor {
    fn tell(&self, what: impl Into<String>) {
        // The send fails only if the test has ended.
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
                "cross" => {
                    send(session, id)?;
                    for to in ["CLIENT", "OTHER"] {
                        let to = SessionId::new(BeginString::Fix44, "VENUE", to);
                        let to = session.other(&to).unwrap();
                        to.send("B", |news| _ = news.str(tag::TEXT, id))?;
                    }
                }
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

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.tell(format!("logon of {}", session.id().target_comp_id));
            if self.waits_at_logon {
                self.wait();
                send(session, "welcome").unwrap();
            }
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        match notice {
            SessionNotice::RolledBack(undone) => {
                self.tell(format!("undone {:?} {:?}", undone.received, undone.sent));
            }
            SessionNotice::Disconnected(end) if end.reason != Disconnect::LogonUnanswered => {
                self.tell(format!("end: {}", end.reason));
            }
            _ => {}
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

    /// Starts an engine with one worker and, by default, one application thread.
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

/// Messages sent in any callback are written when the callback returns; they do not wait for a
/// message to be answered.
#[test]
fn what_any_callback_has_sent_goes_out_when_it_has_returned() {
    let stage = Stage::with(Settings::of(venue(|_| ())), true, |_| None);
    let mut wire = stage.log_on("CLIENT");
    // The answer shows that the worker has finished with the logon.
    wire.send("35=1|34=2|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    stage.open();
    assert_eq!(wire.next(), "35=8|34=3|11=welcome");
}

/// A sent message does not wait for the callbacks after it. If a slow callback holds it up, the
/// next check for slow callbacks has it written.
#[test]
fn an_answer_does_not_wait_for_the_callbacks_behind_it() {
    let mut settings = Settings::of(venue(|_| ()));
    settings.engine.slow_callback = Duration::from_millis(20);
    let stage = Stage::set(settings);
    let mut wire = stage.log_on("CLIENT");
    for (seq, id) in [(2, "wait"), (3, "send"), (4, "wait")] {
        wire.send(&format!("35=D|34={seq}|11={id}"));
    }
    wire.send("35=1|34=5|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    stage.expect("wait");
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

/// A reject from an earlier connection is sent only after the counterparty has logged on again and
/// has resent the message.
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
    // The session has received the connection, but has not read from it.
    while stage.session("CLIENT").state() != State::LogonAwaited {
        thread::yield_now();
    }
    stage.open();
    stage.expect("end: logged out");
    assert_eq!(wire.next(), "35=A|34=3|98=0|108=30");
    assert_eq!(wire.next(), "35=2|34=4|7=2|16=0");
}

/// A session continues during a resend while its application is busy. The engine asks the
/// application about resends when the application is free.
#[test]
fn a_session_whose_application_takes_its_time_answers_during_a_resend() {
    let stage = Stage::set(Settings::of(venue(|_| ())));
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=send");
    assert_eq!(wire.next(), "35=8|34=2|11=send");
    wire.send("35=D|34=3|11=wait");
    for told in ["send", "sent 2, next 3", "wait"] {
        stage.expect(told);
    }
    wire.send("35=2|34=4|7=2|16=0");
    for seq in 5..8 {
        wire.send(&format!("35=1|34={seq}|112=alive?"));
        assert_eq!(wire.next(), format!("35=0|34={}|112=alive?", seq - 2));
    }
    // The counterparty may also request messages that were sent during the resend.
    wire.send("35=2|34=8|7=4|16=5");
    stage.open();
    let again = wire.next();
    assert!(again.starts_with("35=8|34=2|43=Y|"), "{again}");
    assert!(wire.next().starts_with("35=4|34=4|43=Y|"));
    wire.send("35=1|34=9|112=alive?");
    assert_eq!(wire.next(), "35=0|34=6|112=alive?");
}

/// A waiting message is delivered to the application only once, and in order.
#[test]
fn what_waits_is_not_handed_over_again() {
    let stage = Stage::set(Settings::of(venue(|_| ())));
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=wait");
    wire.send("35=D|34=3|11=a");
    for (seq, id) in [(2, "wait"), (3, "a")] {
        wire.send(&format!("35=D|34={seq}|43=Y|122=20261118-10:00:00|11={id}"));
    }
    wire.send("35=4|34=4|123=Y|36=10");
    wire.send("35=D|34=10|11=b");
    wire.send("35=1|34=11|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    stage.open();
    for told in ["wait", "a", "b"] {
        stage.expect(told);
    }
    wire.send("35=D|34=12|11=c");
    stage.expect("c");
}

/// Callbacks can send in all ways at the same time, also into each other's session, without waiting
/// for each other's lock.
#[test]
fn callbacks_send_in_all_ways_at_once() {
    const ORDERS: usize = 200;
    let mut settings =
        Settings { sessions: vec![venue(|_| ()), other(|_| ())], ..Settings::default() };
    settings.engine.application_threads = 2;
    let stage = Stage::set(settings);
    let mut wires = ["CLIENT", "OTHER"].map(|client| (client, stage.log_on(client)));
    for seq in 2..2 + ORDERS {
        for (client, wire) in &mut wires {
            wire.send(&format!("35=D|34={seq}|49={client}|11=cross"));
        }
    }
    for (client, wire) in &mut wires {
        // Each order is answered through the callback's session, through its handle, and from the
        // other session.
        for seq in 2..2 + 3 * ORDERS {
            let line = wire.next();
            assert!(line.contains(&format!("|34={seq}|")), "{client}: {line}");
        }
    }
}

/// A message that the application sends after its connection has ended counts as sent just before
/// that end, so the counterparty requests it again.
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

/// A message no longer counts as waiting after the application has processed it.
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

/// A busy session does not delay other sessions, because it leaves the thread to them after each
/// message.
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

/// The behavior of a store at a commit, and the values that the test observes.
#[derive(Clone, Default)]
pub(crate) struct Behaviour {
    pub(crate) fails: Arc<AtomicBool>,
    /// If true, the store panics once, in an application thread.
    panics: Arc<AtomicBool>,
    /// The next inbound number of the last commit.
    next_in: Arc<AtomicU64>,
}

/// A store that fails or panics while a flag is set.
pub(crate) struct Bad {
    pub(crate) store: MemoryStore,
    pub(crate) does: Behaviour,
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
        let panics = is_of_pool && self.does.panics.swap(false, Ordering::SeqCst);
        assert!(!panics, "a bug of the store");
        if self.does.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Own(io::ErrorKind::StorageFull.into()));
        }
        let committed = self.store.commit();
        self.does.next_in.store(self.store.numbers().next_in, Ordering::SeqCst);
        committed
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        match self.does.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Poisoned),
            false => self.store.reopen(),
        }
    }
}

/// Starts an engine whose sessions have such a store.
fn badly_stored(settings: Settings) -> (Stage, Behaviour) {
    let does = Behaviour::default();
    let of_store = does.clone();
    let stage = Stage::with(settings, false, move |_| {
        let (store, does) = (MemoryStore::new(1 << 20, 1), of_store.clone());
        Some(Box::new(Bad { store, does }))
    });
    (stage, does)
}

/// An answer is stored in one batch with the number of the message that it answers, although
/// different threads process the two.
#[test]
fn an_answer_is_stored_together_with_the_number_of_its_message() {
    let mut settings = Settings::of(venue(|_| ()));
    // Turns off the check for slow callbacks, which would call the worker while another message
    // waits.
    settings.engine.slow_callback = Duration::ZERO;
    let (stage, does) = badly_stored(settings);
    let mut wire = stage.log_on("CLIENT");
    for (seq, id) in [(2, "wait"), (3, "send"), (4, "wait")] {
        wire.send(&format!("35=D|34={seq}|11={id}"));
    }
    wire.send("35=1|34=5|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    stage.open();
    for told in ["wait", "send", "sent 3, next 4", "wait"] {
        stage.expect(told);
    }
    stage.session("CLIENT").send("B", |news| _ = news.str(tag::TEXT, "news")).unwrap();
    assert_eq!(wire.next(), "35=8|34=3|11=send");
    assert_eq!(does.next_in.load(Ordering::SeqCst), 4, "the one that is answered is taken");
    stage.open();
}

/// A message does not count as received if its answer was in a batch that the store has lost. The
/// counterparty must send it again.
#[test]
fn a_message_does_not_count_whose_answer_the_store_has_lost() {
    let (stage, does) = badly_stored(Settings::of(venue(|_| ())));
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=send wait");
    stage.expect("send wait");
    stage.expect("sent 2, next 3");
    does.fails.store(true, Ordering::SeqCst);
    wire.send("35=1|34=3|112=x");
    assert_eq!(wire.next(), "", "nothing is sent that is not stored");
    does.fails.store(false, Ordering::SeqCst);
    let session = stage.session("CLIENT");
    session.operate(&Action::Revive {}).unwrap();
    while session.store_failure().is_some() {
        thread::yield_now();
    }
    stage.open();
    stage.expect("end: the store failed");
    stage.expect("undone 2..4 2..4");
    let (mut wire, logon) = insist(stage.engine.listening()[0], "35=A|34=4|98=0|108=30");
    assert_eq!(logon, "35=A|34=2|98=0|108=30");
    assert_eq!(wire.next(), "35=2|34=3|7=2|16=0");
}

/// A panic of the store in an application thread ends only its own session, wherever it occurs.
#[test]
fn a_store_that_panics_in_a_thread_of_the_applications_costs_its_session_alone() {
    let (stage, does) = badly_stored(Settings::of(venue(|_| ())));
    let mut wire = stage.log_on("CLIENT");
    wire.send("35=D|34=2|11=linger wait send");
    stage.expect("linger wait send");
    wire.send("35=D|34=3|11=not before it is back");
    wire.send("35=1|34=4|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    does.panics.store(true, Ordering::SeqCst);
    stage.open();
    stage.expect("sent 3, next 4");
    assert_eq!(wire.next(), "");
    stage.expect("end: the application or the engine panicked");
    stage.session("CLIENT").operate(&Action::Revive {}).unwrap();
    // The records from before the panic became durable when the connection ended.
    stage.expect("undone 3..3 4..4");
    let (mut wire, logon) = insist(stage.engine.listening()[0], "35=A|34=3|98=0|108=30");
    assert_eq!(logon, "35=A|34=4|98=0|108=30");
    stage.expect("logon of CLIENT");
    wire.send("35=D|34=4|11=a");
    stage.expect("a");
}

/// An application that does not return does not keep the store locked. Later actions of the
/// application have no effect.
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
    let outcomes = engine.stop(Duration::ZERO);
    assert_eq!(outcomes[0].next_num_in, 2, "not taken");
    let second = Stage::set(durable);
    assert_eq!(second.session("CLIENT").next_numbers().0, 2);
    open.send(()).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), "not sent: the engine has been stopped");
}
