//! Tests of a worker, round by round.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use transfix_codec::{FrameWriter, Precision, tag};
use transfix_session::{BeginString, BusinessReject, Role, SessionId};
use transfix_settings::{Durability, SessionSettings};
use transfix_transport::{Registry, SocketOptions, TcpStream};

use super::*;
use crate::api::adapter::ApplicationAdapter;
use crate::api::application::{Application, SessionRef};
use crate::assemble::open;
use crate::drive::registry::Registry as Sessions;
use crate::io::{System, Waker};
use crate::link::rule_book::RuleBook;

struct Deaf;

impl Application for Deaf {
    fn on_message(
        &mut self,
        _: &transfix_codec::Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

fn frame(msg_type: &[u8], seq: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type);
    frame.raw(b"49=THEM\x0156=US\x01");
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.header_timestamp(tag::SENDING_TIME, System.now().utc, Precision::Millis);
    frame.raw(body);
    frame.finish().unwrap();
    out
}

/// Returns a worker with one session that waits for events.
fn worker(change: impl FnOnce(&mut SessionSettings)) -> Worker {
    worker_that(false, change)
}

fn worker_that(spins: bool, change: impl FnOnce(&mut SessionSettings)) -> Worker {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "");
    settings.store.durability = Durability::Memory;
    change(&mut settings);
    let sessions = Arc::new(Sessions::new(Arc::new(RuleBook::default())));
    let owner = ApplicationAdapter::of(Box::new(Deaf), &id, &sessions);
    let shared = Arc::new(open(&settings, owner, &sessions).unwrap());
    let slots = vec![DrivenSession::new(Arc::clone(&shared), None)];
    let worker = Worker::new(slots, spins, &sessions.io).unwrap();
    shared.belongs_to(worker.command_queue().handle(), 0);
    worker
}

/// Returns a connection whose Logon(A) was already read, and the other end of the connection.
fn arrival() -> (Arrival, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let near = listener.accept().unwrap().0;
    let stream = Box::new(TcpStream::from_std(near, &SocketOptions::default()).unwrap());
    let read = frame(b"A", 1, b"98=0\x01108=30\x01");
    (Arrival { read, ..Arrival::fresh(stream) }, far)
}

/// Connects the worker's session, and returns the counterparty's end of the connection.
fn log_on(worker: &mut Worker) -> std::net::TcpStream {
    let (arrival, far) = arrival();
    let session_waker = Arc::clone(&worker.slots[0].shared.session_waker);
    PendingConnection::at(&session_waker).unwrap().hand_over(arrival);
    worker.run_once(true);
    far
}

#[test]
fn a_worker_that_is_to_stop_takes_no_session() {
    for stops in [false, true] {
        let mut worker = worker(|_| ());
        let mut far = log_on(&mut worker);
        let mut calm = Worker::new(Vec::new(), false, &worker.io).unwrap();
        let to = Arc::clone(calm.command_queue());
        if stops {
            to.stop(u64::MAX, String::new());
        }
        worker.give(0, &to);
        calm.run_once(false);
        let [has, has_not] =
            if stops { [&mut worker, &mut calm] } else { [&mut calm, &mut worker] };
        assert_eq!((has.slots.len(), has_not.slots.len()), (1, 0));
        assert_eq!((has.command_queue().sessions(), has_not.command_queue().sessions()), (1, 0));
        far.write_all(&frame(b"D", 2, b"11=a\x01")).unwrap();
        let shared = Arc::clone(&has.slots[0].shared);
        while shared.published.next_numbers().0 < 3 {
            has.run_once(true);
        }
    }
}

#[test]
fn a_worker_that_spins_leaves_the_lock_to_who_waits_for_it() {
    let mut worker = worker_that(true, |_| ());
    let mut far = log_on(&mut worker);
    let shared = Arc::clone(&worker.slots[0].shared);
    let came = || shared.published.counters.messages_in.get();
    while came() < 1 {
        worker.run_once(true);
    }
    shared.wishes.store(1, Ordering::Relaxed);
    far.write_all(&frame(b"D", 2, b"11=a\x01")).unwrap();
    let mut rounds = 0;
    while came() < 2 {
        worker.run_once(true);
        rounds += 1;
    }
    // A thread waits for the lock all the time, but the session must get a turn now and then.
    assert!(rounds > 500, "{rounds} rounds");
}

/// A session that receives more bytes than a turn reads is scheduled once per round. Otherwise each
/// event would add another turn.
#[test]
fn a_session_that_is_flooded_has_one_turn_a_round() {
    let mut worker = worker(|settings| settings.threads.turn_messages_max = 1);
    let mut far = log_on(&mut worker);
    let mut seq = 2;
    for round in 0..100 {
        let orders = (0..4).flat_map(|n| frame(b"D", seq + n, b"11=a\x01"));
        far.write_all(&orders.collect::<Vec<_>>()).unwrap();
        seq += 4;
        worker.run_once(true);
        assert!(worker.again.len() <= 1, "{} turns in round {round}", worker.again.len());
    }
    let came = worker.slots[0].shared.published.counters.messages_in.get();
    assert!((20..=102).contains(&came), "{came} messages in a hundred rounds of one");
}

/// A poll that runs a function in the middle of a round, before it waits for events.
struct Interrupted {
    sockets: Box<dyn Poll>,
    before: Option<Box<dyn FnOnce() + Send>>,
}

impl Poll for Interrupted {
    fn registry(&self) -> Registry<'_> {
        self.sockets.registry()
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, time: Option<Duration>) -> io::Result<()> {
        if let Some(before) = self.before.take() {
            before();
        }
        self.sockets.wait(ready, time)
    }

    fn waker(&self, token: Token) -> io::Result<Waker> {
        self.sockets.waker(token)
    }
}

/// A connection that arrives in the middle of a round makes the next round due at once, because the
/// round has consumed the wake-up and the descriptor is not readable.
#[test]
fn a_connection_in_the_middle_of_a_round_is_due_at_once() {
    let mut worker = worker(|_| ());
    worker.run_once(false);
    let (arrival, _far) = arrival();
    let session_waker = Arc::clone(&worker.slots[0].shared.session_waker);
    let before =
        Box::new(move || PendingConnection::at(&session_waker).unwrap().hand_over(arrival));
    let sockets = std::mem::replace(&mut worker.poll, System.poll().unwrap());
    worker.poll = Box::new(Interrupted { sockets, before: Some(before) });
    worker.run_once(false);
    assert!(!worker.slots[0].up);
    assert_eq!(worker.due_ns(), 0);
    worker.run_once(false);
    assert!(worker.slots[0].up);
}

/// A connected session has a deadline for omitted log lines, so that they are reported even without
/// other work.
#[test]
fn lines_that_are_left_out_are_due_while_the_session_is_connected() {
    let mut worker = worker(|_| ());
    let mut far = log_on(&mut worker);
    let deadlines = |worker: &Worker| {
        let link = worker.slots[0].shared.lock();
        (link.sinks().event_log.deadline(), link.next_deadline().unwrap())
    };
    assert_eq!(deadlines(&worker).0, None);
    for _ in 0..1_000 {
        far.write_all(b"garbled").unwrap();
        worker.run_once(false);
    }
    let (left_out, next) = loop {
        worker.run_once(false);
        if let (Some(left_out), next) = deadlines(&worker) {
            break (left_out, next);
        }
    };
    assert!(next <= left_out && left_out < u64::MAX, "{next} and {left_out}");
}

/// A poll that counts how often a worker checks its sockets and how often it sleeps.
struct Sleepless {
    sockets: Box<dyn Poll>,
    looks: Arc<AtomicUsize>,
    sleeps: Arc<AtomicUsize>,
}

impl Poll for Sleepless {
    fn registry(&self) -> Registry<'_> {
        self.sockets.registry()
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, time: Option<Duration>) -> io::Result<()> {
        let is_look = time == Some(Duration::ZERO);
        let count = if is_look { &self.looks } else { &self.sleeps };
        count.fetch_add(1, Ordering::Relaxed);
        self.sockets.wait(ready, Some(Duration::ZERO))
    }

    fn waker(&self, token: Token) -> io::Result<Waker> {
        self.sockets.waker(token)
    }
}

/// A worker whose rounds report their numbers of checks and sleeps.
struct Rounds {
    worker: Worker,
    looks: Arc<AtomicUsize>,
    sleeps: Arc<AtomicUsize>,
}

impl Rounds {
    fn of_spin(spin: Duration) -> Self {
        let mut worker = worker(|settings| settings.threads.spin = spin);
        // Handles the new session, so that the next round has no work left.
        worker.run_once(false);
        let [looks, sleeps] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
        let nobody = System.poll().unwrap();
        let sockets = std::mem::replace(&mut worker.poll, nobody);
        let (to_looks, to_sleeps) = (Arc::clone(&looks), Arc::clone(&sleeps));
        worker.poll = Box::new(Sleepless { sockets, looks: to_looks, sleeps: to_sleeps });
        Self { worker, looks, sleeps }
    }

    fn next(&mut self) -> (usize, usize) {
        self.worker.run_once(true);
        (self.looks.swap(0, Ordering::Relaxed), self.sleeps.swap(0, Ordering::Relaxed))
    }
}

#[test]
fn a_worker_looks_for_a_while_before_it_sleeps() {
    let mut rounds = Rounds::of_spin(Duration::from_millis(2));
    rounds.worker.command_queue().wake();
    // After the wake-up, the worker checks for the configured time, then sleeps, and afterwards no
    // longer checks.
    rounds.next();
    let (looks, sleeps) = rounds.next();
    assert!(looks > 0 && sleeps == 1, "{looks} looks, {sleeps} sleeps");
    for _ in 0..3 {
        assert_eq!(rounds.next(), (0, 1));
    }
    // A wake-up that arrives while the worker checks prevents the sleep.
    rounds.worker.command_queue().wake();
    assert_eq!(rounds.next(), (0, 1), "the first wait after a sleep");
    rounds.worker.command_queue().wake();
    assert_eq!(rounds.next(), (1, 0));
}

#[test]
fn a_look_ends_at_a_deadline_too() {
    let mut rounds = Rounds::of_spin(Duration::MAX);
    rounds.worker.command_queue().wake();
    rounds.next();
    let soon = System.monotonic_ns() + 1_000_000;
    rounds.worker.deadlines.note(0, soon);
    let (looks, _) = rounds.next();
    assert!(looks > 0);
    assert!(System.monotonic_ns() >= soon && rounds.worker.deadlines.next() > soon);
}

#[test]
fn a_worker_sleeps_at_once_by_default() {
    let mut rounds = Rounds::of_spin(Duration::ZERO);
    for _ in 0..3 {
        rounds.worker.command_queue().wake();
        assert_eq!(rounds.next(), (0, 1));
        assert_eq!(rounds.next(), (0, 1));
    }
}
