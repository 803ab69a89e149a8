//! Tests messages that are stored and written together, and the sizes of these batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use transfix::{
    Batch, Engine, Offline, SendError, SendMode, Sent, SessionHandle, SessionSettings, Settings,
    State, tag,
};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored};
use transfix_testkit::app::App;

use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, venue};

/// Returns an application that answers each order. Before the answer to an order named `wait`, it
/// blocks until the gate opens.
fn waits_at_gate(gate: Arc<Mutex<Receiver<()>>>) -> App {
    App::new(move |message, session| {
        let id = message.text(tag::CL_ORD_ID)?;
        if id == "wait" {
            gate.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        let _ = session.send("D", |order| _ = order.str(tag::CL_ORD_ID, id));
        Ok(())
    })
}

fn gated(change: impl FnOnce(&mut SessionSettings)) -> (Engine, Sender<()>) {
    let (open, gate) = channel();
    let gate = Arc::new(Mutex::new(gate));
    let settings = Settings::of(venue(change));
    let engine = Engine::start(&settings, |_| Box::new(waits_at_gate(Arc::clone(&gate)))).unwrap();
    (engine, open)
}

/// Sends orders with these names in a single write; `from` is the first number.
fn burst(wire: &mut Wire, from: u64, names: &[&str]) {
    let orders = names.iter().zip(from..);
    let frames: Vec<u8> =
        orders.flat_map(|(name, seq)| wire.frame(&format!("35=D|34={seq}|11={name}"))).collect();
    wire.write(&frames);
}

#[test]
fn answers_leave_before_the_turn_is_over_if_a_batch_is_full() {
    for limit in [
        (|s: &mut SessionSettings| s.threads.batch_messages_max = 2) as fn(&mut SessionSettings),
        |s| s.threads.batch_bytes_max = 120,
    ] {
        let (engine, open) = gated(limit);
        let mut wire = logged_on(engine.listening()[0]);
        burst(&mut wire, 2, &["a", "b", "wait", "c"]);
        // The answer arrives although the gate is still closed.
        assert_eq!(wire.next(), "35=D|34=2|11=a");
        assert_eq!(wire.next(), "35=D|34=3|11=b");
        open.send(()).unwrap();
        assert_eq!(wire.next(), "35=D|34=4|11=wait");
        assert_eq!(wire.next(), "35=D|34=5|11=c");
    }
}

/// The number of messages that a turn writes early if no other session of the thread waits.
const EARLY: usize = 16;

/// Returns `count` order names.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n}")).collect()
}

#[test]
fn first_answers_to_a_burst_leave_early_if_no_other_session_waits() {
    let (engine, open) = gated(|_| ());
    let mut wire = logged_on(engine.listening()[0]);
    let names = names(EARLY);
    let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
    all.extend(["wait", "last"]);
    burst(&mut wire, 2, &all);
    // The answers arrive although the gate is still closed.
    for (name, seq) in names.iter().zip(2..) {
        assert_eq!(wire.next(), format!("35=D|34={seq}|11={name}"));
    }
    open.send(()).unwrap();
    assert_eq!(wire.next(), "35=D|34=18|11=wait");
    assert_eq!(wire.next(), "35=D|34=19|11=last");
}

#[test]
fn a_burst_has_one_commit_where_a_commit_may_be_dear() {
    // Commits of a custom store may be expensive, so a burst has only one commit.
    let mut shop = Venue::open(|_| ());
    let (names, mut fewest, mut seq) = (names(4 * EARLY), u64::MAX, 2);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    // The system may deliver a burst in two pieces, but hardly in every one of so many attempts.
    for _ in 0..UNDISTURBED_IN {
        let before = shop.commits();
        burst(&mut shop.wire, seq, &all);
        for name in &names {
            assert_eq!(shop.wire.next(), format!("35=D|34={seq}|11={name}"));
            seq += 1;
        }
        fewest = fewest.min(shop.commits() - before);
        if fewest == 1 {
            return;
        }
    }
    panic!("{fewest} commits");
}

/// The number of attempts. A worker that runs a turn during a batch may divide it, but hardly in
/// every one of so many attempts.
const UNDISTURBED_IN: u64 = 20;

/// A store that counts commits with new records.
struct Counting {
    store: MemoryStore,
    puts: bool,
    commits: Arc<AtomicU64>,
    fails: Arc<AtomicU64>,
}

impl Store for Counting {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.puts = true;
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        if std::mem::take(&mut self.puts) {
            self.commits.fetch_add(1, Ordering::Relaxed);
            if self.fails.load(Ordering::Relaxed) == self.commits.load(Ordering::Relaxed) {
                return Err(StoreError::Own(std::io::Error::other("full")));
            }
        }
        self.store.commit()
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.store.reopen()
    }
}

struct Venue {
    engine: Engine,
    wire: Wire,
    commits: Arc<AtomicU64>,
    fails: Arc<AtomicU64>,
}

impl Venue {
    fn open(change: impl FnOnce(&mut SessionSettings)) -> Self {
        let [commits, fails] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let counts = (Arc::clone(&commits), Arc::clone(&fails));
        let (_, gate) = channel();
        let gate = Arc::new(Mutex::new(gate));
        let engine = Engine::builder(&Settings::of(venue(change)))
            .stores(move |_, _| {
                let (commits, fails) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
                let store = MemoryStore::new(1 << 20, 1);
                Ok(Some(Box::new(Counting { store, puts: false, commits, fails })))
            })
            .start(move |_| Box::new(waits_at_gate(Arc::clone(&gate))))
            .unwrap();
        let wire = logged_on(engine.listening()[0]);
        // Waits for the end of the logon's turn, because `sent_message` needs the lock.
        engine.sessions().next().unwrap().sent_message(1).unwrap();
        Self { engine, wire, commits, fails }
    }

    fn handle(&self) -> SessionHandle {
        self.engine.sessions().next().unwrap()
    }

    fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

fn batch_of(handle: &SessionHandle, count: u64) -> Batch {
    let mut batch = handle.batch();
    for n in 0..count {
        batch.add("B", |news| _ = news.uint(tag::TEXT, n)).unwrap();
    }
    assert_eq!(batch.len() as u64, count);
    batch
}

#[test]
fn a_batch_has_one_commit_unless_it_is_divided() {
    for (messages_max, commits) in [(0, 1), (4, 3), (10, 1)] {
        let mut shop = Venue::open(|s| s.threads.batch_messages_max = messages_max);
        let handle = shop.handle();
        let mut fewest = u64::MAX;
        for round in 0..UNDISTURBED_IN {
            let before = shop.commits();
            let sent = handle.send_batch(&batch_of(&handle, 10));
            assert_eq!((sent.sent.len(), sent.refused), (10, None));
            for n in 0..10 {
                let number = 2 + 10 * round + n;
                assert_eq!(shop.wire.next(), format!("35=B|34={number}|58={n}"));
            }
            fewest = fewest.min(shop.commits() - before);
            if fewest <= commits {
                break;
            }
        }
        assert_eq!(fewest, commits);
    }
}

#[test]
fn what_the_store_has_not_taken_of_a_batch_was_not_sent() {
    let mut last = None;
    for _ in 0..UNDISTURBED_IN {
        let shop = Venue::open(|s| s.threads.batch_messages_max = 4);
        let handle = shop.handle();
        shop.fails.store(shop.commits() + 2, Ordering::Relaxed);
        let sent = handle.send_batch(&batch_of(&handle, 10));
        let is_undisturbed = sent.sent == (2..6).map(Sent::Direct).collect::<Vec<_>>();
        if is_undisturbed && sent.refused == Some(SendError::Failed) {
            return;
        }
        last = Some(sent);
    }
    panic!("{last:?}");
}

#[test]
fn a_batch_keeps_its_order_in_every_mode() {
    for send in [SendMode::Direct, SendMode::Queued] {
        let mut shop = Venue::open(|s| s.threads.send = send);
        let handle = shop.handle();
        let mut batch = batch_of(&handle, 3);
        let mut all_queued = 0;
        for round in 0..50 {
            let sent = handle.send_batch(&batch);
            assert_eq!((sent.sent.len(), sent.refused), (3, None));
            let queued = sent.sent.iter().all(|sent| matches!(sent, Sent::Queued { .. }));
            all_queued += u32::from(queued);
            for n in 0..3 {
                assert_eq!(shop.wire.next(), format!("35=B|34={}|58={n}", 2 + round * 3 + n));
            }
        }
        match send {
            SendMode::Queued => assert_eq!(all_queued, 50),
            _ => assert!(all_queued < 50),
        }
        batch.clear();
        assert!(batch.is_empty());
        assert_eq!(handle.send_batch(&batch), handle.send_batch(&handle.batch()));
    }
}

#[test]
fn what_is_refused_of_a_batch_is_told() {
    let mut shop = Venue::open(|_| ());
    let handle = shop.handle();
    let mut batch = batch_of(&handle, 1);
    // A message type that is no application message, and a message with a header field.
    batch.add("0", |_| ()).unwrap();
    batch.add("B", |news| _ = news.str(tag::TEXT, "never")).unwrap();
    assert!(batch.add("B", |news| _ = news.str(tag::SENDER_COMP_ID, "x")).is_err());
    assert_eq!(batch.len(), 3);
    let sent = handle.send_batch(&batch);
    assert_eq!(sent.sent.len(), 1, "{sent:?}");
    assert!(matches!(sent.refused, Some(SendError::Misuse(_))), "{sent:?}");
    assert_eq!(shop.wire.next(), "35=B|34=2|58=0");
    shop.wire.send("35=5|34=2");
    assert_eq!(shop.wire.next(), "35=5|34=3");
    assert_eq!(shop.wire.next(), "");
    while handle.state() != State::Disconnected {
        std::thread::yield_now();
    }
    let sent = handle.send_batch(&batch_of(&handle, 2));
    assert_eq!((sent.sent.len(), sent.refused), (0, Some(SendError::NotLoggedOn)));
}

#[test]
fn a_batch_without_a_connection_is_stored_if_the_settings_say_so() {
    let mut shop = Venue::open(|s| s.queue.offline = Offline::Store);
    let handle = shop.handle();
    shop.wire.end();
    assert_eq!(shop.wire.next(), "");
    while handle.is_logged_on() {
        std::thread::yield_now();
    }
    // Waits until the worker has noticed the end of the connection, because `sent_message` needs
    // the lock.
    handle.sent_message(1).unwrap();
    let sent = handle.send_batch(&batch_of(&handle, 2));
    assert_eq!((sent.sent, sent.refused), (vec![Sent::Stored(2), Sent::Stored(3)], None));
}
