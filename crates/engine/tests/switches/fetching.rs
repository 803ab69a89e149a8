//! Tests stores that must fetch requested data first: meanwhile the session and other sessions of
//! its thread continue.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transfix::schedule::ScheduleSettings;
use transfix::{
    BeginString, Disconnect, Engine, Mode, Offline, Role, SendOptions, Sent, SessionHandle,
    SessionId, SessionSettings, Settings, msg_type, tag,
};
use transfix_store::{Committed, FileStore, Numbers, Record, Store, StoreError, Stored, Wake};
use transfix_testkit::temp::TempDir;

use crate::switches::dynamic::until;
use crate::switches::wire::Wire;
use crate::switches::{echo, venue};

/// The behavior of the store, as the test controls it.
#[derive(Default)]
struct Far {
    /// True if requested data is available.
    answers: bool,
    /// The number of requests without available data.
    asked: u64,
    /// The numbers that another process has written to the store.
    other: Option<(u64, u64)>,
    /// True if a refresh waits, even if other data is available.
    holds_refresh: bool,
    /// True if the next refresh fails.
    fails: bool,
    wake: Option<Wake>,
}

/// A store on a slow medium, where requested data becomes available when the test allows it.
struct FarStore {
    store: FileStore,
    far: Arc<Mutex<Far>>,
    numbers: Numbers,
    refreshes: bool,
}

/// The test's control of the store.
#[derive(Clone)]
struct Gate(Arc<Mutex<Far>>, Arc<TempDir>);

impl Gate {
    fn new(answers: bool) -> Self {
        let gate = Self(Arc::default(), Arc::new(TempDir::new()));
        gate.0.lock().unwrap().answers = answers;
        gate
    }

    fn close(&self) {
        self.0.lock().unwrap().answers = false;
    }

    fn open(&self) {
        let mut far = self.0.lock().unwrap();
        (far.answers, far.holds_refresh) = (true, false);
        let wake = far.wake.clone();
        drop(far);
        if let Some(wake) = wake {
            wake();
        }
    }

    fn asked(&self) -> u64 {
        self.0.lock().unwrap().asked
    }

    fn store(&self) -> Box<dyn Store> {
        let path = self.1.path().join("far");
        let (store, _) = FileStore::open(&path, Default::default(), 0).unwrap();
        let numbers = store.numbers();
        let far = Arc::clone(&self.0);
        Box::new(FarStore { store, far, numbers, refreshes: false })
    }
}

impl FarStore {
    fn fetch(&self) -> Result<(), StoreError> {
        let mut far = self.far.lock().unwrap();
        if far.answers {
            return Ok(());
        }
        far.asked += 1;
        Err(StoreError::NotYet)
    }
}

impl Store for FarStore {
    fn numbers(&self) -> Numbers {
        self.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        assert!(!self.refreshes, "put while the store is being refreshed: {record:?}");
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        assert!(!self.refreshes, "committed while the store is being refreshed");
        let committed = self.store.commit();
        self.numbers = self.store.numbers();
        committed
    }

    fn wake_by(&mut self, wake: Wake) {
        self.far.lock().unwrap().wake = Some(wake);
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.fetch()?;
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.fetch()?;
        self.store.inbound(seq)
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.fetch()?;
        self.store.queued(ticket)
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        self.refreshes = true;
        self.fetch()?;
        if self.far.lock().unwrap().holds_refresh {
            return Err(StoreError::NotYet);
        }
        self.refreshes = false;
        if std::mem::take(&mut self.far.lock().unwrap().fails) {
            return Err(StoreError::Own(std::io::Error::other("no server")));
        }
        if let Some((next_in, next_out)) = self.far.lock().unwrap().other.take() {
            self.store.put(0, Record::NextIn(next_in))?;
            self.store.put(0, Record::NextOut(next_out))?;
            self.store.commit()?;
            self.numbers = self.store.numbers();
        }
        Ok(())
    }
}

/// Starts two sessions in one thread; the first has a slow store.
fn start(mode: Mode, gate: &Gate, change: impl Fn(&mut SessionSettings)) -> Engine {
    let session = |name: &str| {
        venue(|s| {
            s.target_comp_id = name.to_owned();
            s.threads.mode = mode;
            change(s);
        })
    };
    let mut settings = Settings { sessions: vec![session("CLIENT")], ..Settings::default() };
    let mut near = session("NEAR");
    near.store.refresh_on_logon = false;
    settings.sessions.push(near);
    settings.engine.workers = 1;
    settings.engine.application_threads = usize::from(settings.sessions[0].application.in_pool);
    let gate = gate.clone();
    let engine = Engine::builder(&settings)
        .stores(move |session, _| Ok((&*session.target_comp_id == "CLIENT").then(|| gate.store())));
    engine.start(|_| Box::new(echo())).unwrap()
}

fn logon(to: SocketAddr, name: &str, seq: u64) -> Wire {
    let mut wire = Wire::connect(to, BeginString::Fix44);
    wire.send(&format!("35=A|34={seq}|49={name}|98=0|108=30"));
    wire
}

/// Logs on with number 1. If `is_slow` is true, the store answers only after it was asked once.
fn logon_over(gate: &Gate, engine: &Engine, is_slow: bool) -> Wire {
    if is_slow {
        gate.close();
    }
    let wire = logon(engine.listening()[0], "CLIENT", 1);
    if is_slow {
        until(|| gate.asked() > 0);
        gate.open();
    }
    wire
}

/// Lets the other session of the thread answer an order, which shows that it is not delayed.
fn trades(wire: &mut Wire, seq: &mut u64) {
    wire.send(&format!("35=D|34={seq}|49=NEAR|11=near"));
    assert!(wire.next().ends_with("|11=near"));
    *seq += 1;
}

fn far(engine: &Engine) -> SessionHandle {
    engine.sessions().find(|session| &*session.id().target_comp_id == "CLIENT").unwrap()
}

#[test]
fn a_resend_waits_for_the_store_and_nothing_else_does() {
    for (mode, in_pool) in
        [(Mode::Pool, false), (Mode::Pool, true), (Mode::Dedicated, false), (Mode::Spin, false)]
    {
        let gate = Gate::new(true);
        let engine = start(mode, &gate, |s| s.application.in_pool = in_pool);
        let to = engine.listening()[0];
        let (mut near, mut seq) = (logon(to, "NEAR", 1), 2);
        assert!(near.next().starts_with("35=A|"));
        let mut wire = logon(to, "CLIENT", 1);
        assert!(wire.next().starts_with("35=A|"));
        for n in 2..5 {
            wire.send(&format!("35=D|34={n}|11=o{n}"));
            assert_eq!(wire.next(), format!("35=D|34={n}|11=o{n}"));
        }
        gate.close();
        wire.send("35=2|34=5|7=1|16=0");
        until(|| gate.asked() > 0);
        trades(&mut near, &mut seq);
        // The session itself continues; its new messages are sent before the resent ones.
        wire.send("35=1|34=6|112=alive");
        assert_eq!(wire.next(), "35=0|34=5|112=alive");
        trades(&mut near, &mut seq);
        gate.open();
        let gap = wire.next();
        assert!(gap.starts_with("35=4|34=1|43=Y|") && gap.ends_with("|36=2"), "{gap}");
        for n in 2..5 {
            let again = wire.next();
            assert!(again.starts_with(&format!("35=D|34={n}|43=Y|")), "{again}");
        }
        wire.send("35=1|34=7|112=y");
        let gap = wire.next();
        assert_eq!(gap, "35=0|34=6|112=y", "the gap fill of number 5 is none of a message");
        assert!(far(&engine).sent_message(3).unwrap().is_some());
    }
}

#[test]
fn a_logon_waits_for_the_store_and_nothing_else_does() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        let gate = Gate::new(true);
        let engine = start(mode, &gate, |s| s.store.refresh_on_logon = true);
        gate.close();
        gate.0.lock().unwrap().other = Some((7, 9));
        let to = engine.listening()[0];
        let (mut near, mut seq) = (logon(to, "NEAR", 1), 2);
        assert!(near.next().starts_with("35=A|"));
        let mut wire = logon(to, "CLIENT", 7);
        until(|| gate.asked() > 0);
        trades(&mut near, &mut seq);
        gate.open();
        assert!(wire.next().starts_with("35=A|34=9|"), "with the numbers of the other process");
        wire.send("35=D|34=8|11=a");
        assert_eq!(wire.next(), "35=D|34=10|11=a");
    }
}

#[test]
fn a_store_that_never_answers_costs_its_connection() {
    let gate = Gate::new(true);
    let engine = start(Mode::Pool, &gate, |s| {
        s.store.refresh_on_logon = true;
        s.logon_answer = Duration::from_millis(50);
    });
    gate.close();
    let mut wire = logon(engine.listening()[0], "CLIENT", 1);
    assert_eq!(wire.next(), "");
    let handle = far(&engine);
    until(|| handle.status().last_end.is_some_and(|end| end.reason == Disconnect::StoreFailed));
    // The worker asks the store at intervals, not in a loop.
    assert!(gate.asked() < 100, "asked {} times", gate.asked());
    // The session recovers when the store answers.
    gate.open();
    let mut wire = logon(engine.listening()[0], "CLIENT", 1);
    assert!(wire.next().starts_with("35=A|34=1|"));
}

#[test]
fn a_store_that_cannot_be_refreshed_costs_its_connection() {
    for is_slow in [false, true] {
        let gate = Gate::new(true);
        let engine = start(Mode::Pool, &gate, |s| s.store.refresh_on_logon = true);
        gate.0.lock().unwrap().fails = true;
        let mut wire = logon_over(&gate, &engine, is_slow);
        assert_eq!(wire.next(), "");
        let handle = far(&engine);
        until(|| handle.status().last_end.is_some_and(|end| end.reason == Disconnect::StoreFailed));
        let mut wire = logon(engine.listening()[0], "CLIENT", 1);
        assert!(wire.next().starts_with("35=A|34=1|"));
    }
}

fn stored() -> SendOptions<'static> {
    SendOptions { stored: true, ..SendOptions::default() }
}

/// Messages sent during a refresh are neither lost nor reordered, even if the connection ends
/// during the refresh.
#[test]
fn what_is_sent_during_a_refresh_waits() {
    for offline in [Offline::Queue, Offline::Store] {
        let gate = Gate::new(true);
        let engine = start(Mode::Pool, &gate, |s| {
            s.store.refresh_on_logon = true;
            s.queue.offline = offline;
        });
        let handle = far(&engine);
        let order = |id| handle.send(msg_type::NEWS, |news| _ = news.str(tag::TEXT, id)).unwrap();
        order("before");
        gate.close();
        let wire = logon(engine.listening()[0], "CLIENT", 1);
        until(|| gate.asked() > 0);
        assert!(matches!(order("meanwhile"), Sent::Queued { .. }));
        drop(wire);
        std::thread::scope(|scope| {
            let notes = scope.spawn(|| handle.next_numbers());
            let stored =
                scope.spawn(|| handle.send_with(stored(), "B", |n| _ = n.str(tag::TEXT, "stored")));
            assert!(matches!(order("after"), Sent::Queued { .. }));
            gate.open();
            stored.join().unwrap().unwrap();
            notes.join().unwrap();
        });
        // The connection may have logged on before it ended, because the counterparty has not read
        // everything.
        until(|| handle.status().last_end.is_some());
        let seq = handle.next_numbers().0;
        let mut wire = logon(engine.listening()[0], "CLIENT", seq);
        assert!(wire.next().starts_with("35=A|"));
        wire.send(&format!("35=2|34={}|7=1|16=0", seq + 1));
        let mut texts = BTreeSet::new();
        while texts.len() < 4 {
            let line = wire.next();
            assert!(!line.is_empty(), "{texts:?}");
            let text = line.split('|').find_map(|field| field.strip_prefix("58="));
            texts.extend(text.map(str::to_owned));
        }
        let texts: Vec<_> = texts.iter().collect();
        assert_eq!(texts, ["after", "before", "meanwhile", "stored"]);
    }
}

#[test]
fn an_engine_waits_at_its_start_for_what_its_stores_fetch() {
    let gate = Gate::new(false);
    let opening = gate.clone();
    let opens = std::thread::spawn(move || {
        until(|| opening.asked() > 0);
        opening.open();
    });
    let engine = start(Mode::Pool, &gate, |_| ());
    opens.join().unwrap();
    let mut wire = logon(engine.listening()[0], "CLIENT", 1);
    assert!(wire.next().starts_with("35=A|34=1|"));
}

#[test]
fn an_initiator_connects_and_waits_for_its_store() {
    for mode in [Mode::Pool, Mode::Spin] {
        let gate = Gate::new(true);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
        let address = listener.local_addr().unwrap().to_string();
        let mut settings = SessionSettings::new(Role::Initiator, &id, &address);
        settings.store.refresh_on_logon = true;
        settings.validation.validate = false;
        settings.threads.mode = mode;
        settings.logon_answer = Duration::from_millis(200);
        settings.socket.reconnect_interval = Duration::from_millis(10);
        let stores = gate.clone();
        {
            let mut far = gate.0.lock().unwrap();
            (far.holds_refresh, far.other) = (true, Some((4, 6)));
        }
        let engine = Engine::builder(&Settings::of(settings))
            .stores(move |_, _| Ok(Some(stores.store())))
            .start(|_| Box::new(echo()))
            .unwrap();
        // If a connection ends before the store answers, the engine connects again after the
        // answer.
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let read = std::io::Read::read(&mut (&socket), &mut [0; 8]);
        assert!(!matches!(read, Ok(1..)), "nothing is sent yet");
        drop(socket);
        gate.open();
        let (socket, _) = listener.accept().unwrap();
        let mut wire = Wire::of(socket, BeginString::Fix44);
        let logon = wire.next();
        // The engine may have sent a Logon(A) on the first connection, which the counterparty has
        // not read.
        let seq = if logon.starts_with("35=A|34=6|") { 6 } else { 7 };
        assert!(logon.starts_with(&format!("35=A|34={seq}|")), "{logon}");
        wire.send("35=A|34=4|98=0|108=30");
        wire.send("35=D|34=5|11=a");
        assert_eq!(wire.next(), format!("35=D|34={}|11=a", seq + 1));
        engine.stop(Duration::from_secs(1));
    }
}

/// A store that is older than the open schedule window is reset. The reset follows the refresh,
/// which an acceptor makes during the logon.
#[test]
fn a_window_that_has_opened_restarts_what_the_store_has() {
    for is_slow in [false, true] {
        let gate = Gate::new(true);
        let engine = start(Mode::Pool, &gate, |s| {
            s.store.refresh_on_logon = true;
            let mut schedule = ScheduleSettings::in_zone("UTC");
            (schedule.from, schedule.to) = (Some("00:00".to_owned()), Some("00:00".to_owned()));
            s.schedule = Some(schedule);
        });
        gate.0.lock().unwrap().other = Some((7, 9));
        let mut wire = logon_over(&gate, &engine, is_slow);
        assert!(wire.next().starts_with("35=A|34=1|"));
        assert_eq!(far(&engine).next_numbers(), (2, 2));
    }
}
