//! The counterparty of the demo: sends orders all the time, and records each answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use transfix::clock::monotonic_ns;
use transfix::{
    Application, BeginString, BusinessReject, Engine, FailoverOrder, Message, Role, SessionHandle,
    SessionId, SessionRef, SessionSettings, Settings, tag,
};
use transfix_store::{FileStore, Options, StoreError};

use super::history::{Journal, Seen};

/// Maximum number of orders without an answer.
const WINDOW: u64 = 20;
/// Pause between two orders, so that a trial has hundreds of orders and not millions.
const PAUSE: Duration = Duration::from_micros(500);
/// HeartBtInt(108) of the session.
pub(super) const HEART_BT_INT: Duration = Duration::from_secs(1);
/// Time limit for the Logon(A), and pause between two connections, of the side that connects.
pub(super) const LOGON_TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const RECONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for the logout at the end.
const LOGOUT: Duration = Duration::from_secs(5);

/// The answers that the counterparty has received.
#[derive(Default)]
struct Answers {
    reports: Vec<Seen>,
    /// The orders that have an answer.
    answered: BTreeSet<u64>,
    /// The time of the last answer, and the longest time without one since the last question.
    last_ns: u64,
    longest_ns: u64,
}

struct Client {
    answers: Arc<Mutex<Answers>>,
    count: Arc<AtomicU64>,
}

impl Application for Client {
    fn on_message(
        &mut self,
        report: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let report = Seen::of(report)?;
        let mut answers = lock(&self.answers);
        let now_ns = monotonic_ns();
        answers.longest_ns = answers.longest_ns.max(now_ns.saturating_sub(answers.last_ns));
        answers.last_ns = now_ns;
        answers.answered.insert(report.order());
        answers.reports.push(report);
        self.count.store(answers.answered.len() as u64, Ordering::Release);
        Ok(())
    }
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running counterparty.
pub(super) struct Counterparty {
    engine: Engine,
    /// The directory of the session's journal.
    journal: PathBuf,
    handle: SessionHandle,
    answers: Arc<Mutex<Answers>>,
    count: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
    orders: Option<JoinHandle<()>>,
}

impl Counterparty {
    /// Connects to one of the addresses, or listens if there is none, and sends orders until the
    /// end.
    pub(super) fn start(gateways: &[String], dir: &Path) -> Result<Self, String> {
        let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
        let mut session = match gateways.split_first() {
            Some((first, others)) => {
                let mut session = SessionSettings::new(Role::Initiator, &id, first);
                session.failover.addresses = others.to_vec();
                session.failover.order = FailoverOrder::Next;
                session
            }
            None => SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0"),
        };
        session.store.store_dir = dir.join("client");
        session.validation.validate = false;
        session.protocol.heart_bt_int = HEART_BT_INT;
        session.protocol.logon_timeout = LOGON_TIMEOUT;
        session.socket.reconnect_interval = RECONNECT_INTERVAL;
        let journal = session.store_path();
        let (answers, count) = (Arc::<Mutex<Answers>>::default(), Arc::<AtomicU64>::default());
        let engine = Engine::start(&Settings::of(session), |_| {
            Box::new(Client { answers: Arc::clone(&answers), count: Arc::clone(&count) })
        });
        let engine = engine.map_err(|error| error.to_string())?;
        let handle = engine.session(&id).ok_or("no session")?;
        let (sent, stops) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let orders = {
            let handle = handle.clone();
            let (count, sent, stops) = (Arc::clone(&count), Arc::clone(&sent), Arc::clone(&stops));
            let run = move || send_orders(&handle, (&count, &sent), &stops);
            std::thread::Builder::new().name("orders".to_owned()).spawn(run)
        };
        let orders = Some(orders.map_err(|error| error.to_string())?);
        Ok(Self { engine, journal, handle, answers, count, sent, stops, orders })
    }

    /// Returns the address at which the counterparty listens.
    pub(super) fn address(&self) -> Option<String> {
        self.engine.listening().first().map(ToString::to_string)
    }

    /// Returns the number of orders with an answer.
    pub(super) fn answered(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Begins to measure the longest time without an answer.
    pub(super) fn begin_gap(&self) {
        let mut answers = lock(&self.answers);
        answers.longest_ns = 0;
        answers.last_ns = monotonic_ns();
    }

    /// Returns the longest time without an answer since [`Counterparty::begin_gap`], including the
    /// present one.
    pub(super) fn gap(&self) -> Duration {
        let answers = lock(&self.answers);
        let present = monotonic_ns().saturating_sub(answers.last_ns);
        Duration::from_nanos(answers.longest_ns.max(present))
    }

    /// Stops sending, and waits until all orders are answered. Returns the number of orders.
    pub(super) fn finish_orders(&mut self, limit: Duration) -> Result<u64, String> {
        self.stops.store(true, Ordering::Release);
        if let Some(orders) = self.orders.take() {
            orders.join().map_err(|_| "the thread of the orders has panicked")?;
        }
        let (sent, until) = (self.sent.load(Ordering::Acquire), monotonic_ns() + nanos(limit));
        while self.answered() < sent {
            if monotonic_ns() > until {
                return Err(format!("{} of {sent} orders were answered", self.answered()));
            }
            super::pause(PAUSE);
        }
        Ok(sent)
    }

    /// Logs out, and returns the journal and the reports that were received.
    pub(super) fn stop(self) -> Result<(Journal, Vec<Seen>), String> {
        drop(self.handle);
        self.engine.stop(LOGOUT);
        let text = |error: StoreError| format!("{}: {error}", self.journal.display());
        let (mut store, _) = FileStore::open(&self.journal, Options::default(), 0).map_err(text)?;
        let journal = Journal::read(&mut store)?;
        Ok((journal, std::mem::take(&mut lock(&self.answers).reports)))
    }
}

pub(super) const fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn send_orders(
    handle: &SessionHandle,
    (count, sent): (&AtomicU64, &AtomicU64),
    stops: &AtomicBool,
) {
    let mut next = 1;
    while !stops.load(Ordering::Acquire) {
        super::pause(PAUSE);
        if next > count.load(Ordering::Acquire) + WINDOW {
            continue;
        }
        let order = handle.send("D", |order| {
            order.uint(tag::CL_ORD_ID, next).str(tag::SYMBOL, "EU").char(tag::SIDE, b'1');
            order.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
            order.uint(tag::ORDER_QTY, 1).char(tag::ORD_TYPE, b'1');
        });
        // Without a connection the same order is tried again.
        if order.is_ok() {
            sent.store(next, Ordering::Release);
            next += 1;
        }
    }
}
