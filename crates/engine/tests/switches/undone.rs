//! Tests a store that fails once while an application thread works. The application receives each
//! message once, or learns which messages were rolled back before it receives them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Disconnect, Engine, Message, Offline, RolledBack,
    SendError, SendOptions, Sent, SessionNotice, SessionRef, SessionSettings, SessionView,
    Settings, clock, tag,
};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored};

use crate::switches::dynamic::until;
use crate::switches::wire::Wire;
use crate::switches::{logged_on, venue};

/// A time limit for loops that normally end much earlier.
const SETTLED: Duration = Duration::from_secs(300);

/// The function of the store that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Put,
    Commit,
}

/// A store that fails at one call, and accepts nothing until it is reopened.
struct FailsOnce {
    store: MemoryStore,
    call: Call,
    /// True if the next call of the chosen function must fail.
    fails: Arc<AtomicBool>,
    is_poisoned: bool,
}

impl FailsOnce {
    fn check(&mut self, call: Call) -> Result<(), StoreError> {
        if self.is_poisoned {
            return Err(StoreError::Poisoned);
        }
        if call == self.call && self.fails.swap(false, Ordering::SeqCst) {
            self.is_poisoned = true;
            return Err(StoreError::Own(std::io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }
}

impl Store for FailsOnce {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.check(Call::Put)?;
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.check(Call::Commit)?;
        self.store.commit()
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.is_poisoned = false;
        self.store.reopen()
    }
}

enum Seen {
    Order(u64),
    RolledBack(RolledBack),
    Ended(Disconnect),
}

/// An application that answers each order. It blocks at the first order until the test releases it.
/// At one order it lets the store fail, before the answer or with it.
struct Teller {
    seen: Sender<Seen>,
    gate: Arc<Mutex<Receiver<()>>>,
    waits: bool,
    fails: Arc<AtomicBool>,
    fails_at: Option<u64>,
}

impl Application for Teller {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?;
        let seq = id.parse().unwrap();
        let _ = self.seen.send(Seen::Order(seq));
        if std::mem::take(&mut self.waits) {
            self.gate.lock().unwrap().recv_timeout(SETTLED).unwrap();
        }
        if self.fails_at.take_if(|at| *at == seq).is_some() {
            self.fails.store(true, Ordering::SeqCst);
        }
        let _ = session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id));
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        let _ = match notice {
            SessionNotice::RolledBack(undone) => self.seen.send(Seen::RolledBack(undone.clone())),
            SessionNotice::Disconnected(end) => self.seen.send(Seen::Ended(end.reason)),
            _ => return,
        };
    }
}

/// The number of the last order; the first order has number 2.
const LAST: u64 = 21;

struct Rig {
    engine: Engine,
    seen: Receiver<Seen>,
    open: Sender<()>,
    fails: Arc<AtomicBool>,
    /// The number of each answer, by the number of its order.
    answers: BTreeMap<u64, u64>,
}

impl Rig {
    fn start(call: Call, fails_at: u64) -> Self {
        Self::start_with(call, fails_at, |_| ())
    }

    fn start_with(call: Call, fails_at: u64, change: impl FnOnce(&mut SessionSettings)) -> Self {
        let mut settings = Settings::of(venue(change));
        settings.engine.application_threads = 1;
        let fails = Arc::new(AtomicBool::new(false));
        let of_store = Arc::clone(&fails);
        let ((tell, seen), (open, gate)) = (channel(), channel());
        let gate = Arc::new(Mutex::new(gate));
        let engine = Engine::builder(&settings)
            .stores(move |_, now_ns| {
                let (store, fails) = (MemoryStore::new(1 << 20, now_ns), Arc::clone(&of_store));
                Ok(Some(Box::new(FailsOnce { store, call, fails, is_poisoned: false })))
            })
            .start(|_| {
                let (seen, gate) = (tell.clone(), Arc::clone(&gate));
                let (fails, fails_at) = (Arc::clone(&fails), Some(fails_at));
                Box::new(Teller { seen, gate, waits: true, fails, fails_at })
            });
        Self { engine: engine.unwrap(), seen, open, fails, answers: BTreeMap::new() }
    }

    /// Reads until the connection ends, or each order has an answer. Returns the first number that
    /// the engine requests again, if any.
    fn read(&mut self, wire: &mut Wire) -> Option<u64> {
        while self.answers.len() as u64 != LAST - 1 {
            let line = wire.next();
            let field = |tag: &str| {
                let value = line.split('|').find_map(|field| field.strip_prefix(tag));
                value.map(|value| value.parse::<u64>().unwrap())
            };
            if line.is_empty() {
                return None;
            }
            if line.starts_with("35=2|") {
                return field("7=");
            }
            if line.starts_with("35=8|") {
                let before = self.answers.insert(field("11=").unwrap(), field("34=").unwrap());
                assert_eq!(before, None, "answered twice: {line}");
            }
        }
        None
    }

    /// Logs on after the session has recovered, with the number after the orders.
    fn come_back(&self) -> Wire {
        self.log_on(LAST + 1).0
    }

    /// Logs on with the number `seq` after the session has recovered. Returns the answer too.
    fn log_on(&self, seq: u64) -> (Wire, String) {
        let until_ns = clock::monotonic_ns() + SETTLED.as_nanos() as u64;
        loop {
            let mut wire = Wire::connect(self.engine.listening()[0], BeginString::Fix44);
            wire.send(&format!("35=A|34={seq}|98=0|108=30"));
            let answer = wire.next();
            if answer.starts_with("35=A|") {
                return (wire, answer);
            }
            assert!(clock::monotonic_ns() < until_ns, "it never logs on again");
            std::thread::yield_now();
        }
    }

    /// Checks that each order counts exactly once, and that the store caused each end of a
    /// connection.
    fn check(&self, case: &str) {
        let mut had = BTreeSet::new();
        let mut ends = 0;
        for seen in self.seen.try_iter() {
            match seen {
                Seen::Order(seq) => assert!(had.insert(seq), "{case}: {seq} comes twice"),
                Seen::RolledBack(undone) => had.retain(|seq| !undone.received.contains(seq)),
                Seen::Ended(why) => {
                    assert_eq!(why, Disconnect::StoreFailed, "{case}");
                    ends += 1;
                }
            }
        }
        assert_eq!(had, (2..=LAST).collect(), "{case}");
        assert_eq!(ends, 1, "{case}: ends");
        let numbers: BTreeSet<_> = self.answers.values().collect();
        assert_eq!(numbers.len(), self.answers.len(), "{case}: a number is used twice");
        assert!(self.answers.values().is_sorted(), "{case}: {:?}", self.answers);
    }
}

fn orders(wire: &mut Wire, from: u64, again: &str) {
    let orders = (from..=LAST).map(|seq| wire.frame(&format!("35=D|34={seq}{again}|11={seq}")));
    let orders = orders.collect::<Vec<_>>().concat();
    wire.write(&orders);
}

#[test]
fn a_store_that_fails_once_costs_no_message_and_brings_none_twice() {
    for call in [Call::Put, Call::Commit] {
        for fails_at in [2, 3, 9, LAST] {
            let case = format!("{call:?} at {fails_at}");
            let mut rig = Rig::start(call, fails_at);
            let mut wire = logged_on(rig.engine.listening()[0]);
            orders(&mut wire, 2, "");
            // Reads the counter to see that the orders have arrived, because a TestRequest(1) would
            // use the number of the next logon.
            let handle = rig.engine.sessions().next().unwrap();
            until(|| handle.counters().messages_in >= LAST);
            rig.open.send(()).unwrap();
            rig.read(&mut wire);
            while (rig.answers.len() as u64) < LAST - 1 {
                wire = rig.come_back();
                if let Some(from) = rig.read(&mut wire) {
                    const AGAIN: &str = "|43=Y|122=20261118-10:00:00";
                    orders(&mut wire, from, AGAIN);
                    let next = LAST + 2;
                    wire.send(&format!("35=4|34={}{AGAIN}|123=Y|36={next}", LAST + 1));
                    rig.read(&mut wire);
                }
            }
            assert!(!rig.fails.load(Ordering::SeqCst), "{case}: it has not failed");
            rig.check(&case);
        }
    }
}

/// A message that the store refuses without a connection takes no number. Here the store refuses
/// the second of three messages.
#[test]
fn a_message_that_a_store_refuses_without_a_connection_takes_no_number() {
    for call in [Call::Put, Call::Commit] {
        let rig = Rig::start_with(call, 0, |s| s.queue.offline = Offline::Store);
        let handle = rig.engine.sessions().next().unwrap();
        let send = |id: &str| {
            let options = SendOptions { stored: true, ..SendOptions::default() };
            handle.send_with(options, "8", |report| _ = report.str(tag::CL_ORD_ID, id))
        };
        assert_eq!(send("first").unwrap(), Sent::Stored(1), "{call:?}");
        rig.fails.store(true, Ordering::SeqCst);
        assert_eq!(send("second").unwrap_err(), SendError::Failed, "{call:?}");
        let until_ns = clock::monotonic_ns() + SETTLED.as_nanos() as u64;
        let third = loop {
            match send("third") {
                Ok(third) => break third,
                Err(why) => assert_eq!(why, SendError::Failed, "{call:?}"),
            }
            assert!(clock::monotonic_ns() < until_ns, "{call:?}: it never comes back");
            std::thread::yield_now();
        };
        assert_eq!(third, Sent::Stored(2), "{call:?}");
        let (mut wire, logon) = rig.log_on(1);
        assert!(logon.starts_with("35=A|34=3|"), "{call:?}: {logon}");
        wire.send("35=2|34=2|7=1|16=0");
        for (seq, id) in [(1, "first"), (2, "third")] {
            let report = wire.next();
            assert!(report.starts_with(&format!("35=8|34={seq}|43=Y|")), "{call:?}: {report}");
            assert!(report.ends_with(&format!("|11={id}")), "{call:?}: {report}");
        }
        assert!(wire.next().starts_with("35=4|34=3|"), "{call:?}");
    }
}
