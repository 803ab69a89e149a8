//! Programs that send in a loop without pause: the session still does all its other work.

use std::fs;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transfix::{Durability, Engine, Mode, Offline, SendError, SendMode, SessionHandle, tag};
use transfix_testkit::temp::TempDir;

use crate::switches::{echo, logged_on, start, venue};

/// A limit far above the number of messages sent before the worker gets a turn.
const MESSAGES_MAX: u64 = 100_000;

/// Sends until `is_over` is set, at most `MESSAGES_MAX` messages. Returns the number of accepted
/// messages.
fn greedy(handle: &SessionHandle, is_over: &AtomicBool) -> Result<u64, SendError> {
    let mut n = 0;
    while n < MESSAGES_MAX && !is_over.load(Ordering::Relaxed) {
        match handle.send("D", |order| _ = order.uint(tag::CL_ORD_ID, n)) {
            Ok(_) => n += 1,
            Err(SendError::WouldBlock { .. }) => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

#[test]
fn a_loop_of_sends_lets_the_worker_have_its_turns() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin, Mode::Polled] {
        for send in [SendMode::Direct, SendMode::Queued] {
            let dir = TempDir::new();
            let settings = venue(|s| {
                s.threads.mode = mode;
                s.threads.send = send;
                s.store.durability = Durability::Process;
                s.store.store_dir = dir.path().into();
            });
            let (mut engine, address) = start(vec![settings], echo);
            let handle = engine.sessions().next().unwrap();
            let (is_over, is_read) = (AtomicBool::new(false), AtomicBool::new(false));
            let mut sent = 0;
            std::thread::scope(|scope| {
                if mode == Mode::Polled {
                    scope.spawn(|| {
                        while !is_read.load(Ordering::Relaxed) {
                            engine.poll();
                        }
                    });
                }
                let mut wire = logged_on(address);
                let mut orders = 0;
                let senders: Vec<_> =
                    (0..2).map(|_| scope.spawn(|| greedy(&handle, &is_over).unwrap())).collect();
                assert!(wire.next().starts_with("35=D|"));
                orders += 1;
                wire.send("35=1|34=2|112=x");
                loop {
                    let message = wire.next();
                    if message.starts_with("35=0|") {
                        break;
                    }
                    assert!(message.starts_with("35=D|"), "{mode:?} {send:?}: {message}");
                    orders += 1;
                    assert!(orders < 2 * MESSAGES_MAX, "{mode:?} {send:?}: the worker starves");
                }
                is_over.store(true, Ordering::Relaxed);
                sent = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
                while orders < sent {
                    assert!(wire.next().starts_with("35=D|"), "{mode:?} {send:?}");
                    orders += 1;
                }
                is_read.store(true, Ordering::Relaxed);
            });
            engine.stop(Duration::from_secs(5));
            let store = dir.path().join("FIX.4.4-VENUE-CLIENT");
            let files = fs::read_dir(store).unwrap().count() as u64;
            // The store may begin many short segments, if the thread that prepares longer ones gets
            // no CPU time.
            let many = 40 + sent / 1_000;
            assert!(files < many, "{mode:?} {send:?}: {files} files of the store, {sent} sent");
        }
    }
}

#[test]
fn an_engine_stops_while_programs_send_in_a_loop() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        let (engine, address) = start(vec![venue(|s| s.threads.mode = mode)], echo);
        // This counterparty never reads.
        let _wire = logged_on(address);
        stops(engine);
    }
}

/// An engine can log on and stop while programs send in a loop. Without a logon each message is
/// stored, so that no error slows the programs down.
#[test]
fn an_engine_logs_on_and_stops_while_programs_have_messages_stored_in_a_loop() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        let stores = venue(|s| {
            s.threads.mode = mode;
            s.queue.offline = Offline::Store;
        });
        let (engine, address) = start(vec![stores], echo);
        let handle = engine.sessions().next().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        greedy(&handle, &is_over).unwrap();
                    }
                });
            }
            // Catches a failure of the logon, so that the programs are ended nevertheless.
            let wire = catch_unwind(|| logged_on(address));
            is_over.store(true, Ordering::Relaxed);
            assert!(wire.is_ok(), "{mode:?}: nobody can log on");
        });
        stops(engine);
    }
}

/// Stops the engine while two threads send in a loop.
fn stops(engine: Engine) {
    let handle = engine.sessions().next().unwrap();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        if let Err(error) = greedy(&handle, &AtomicBool::new(false)) {
                            return error;
                        }
                    }
                })
            })
            .collect();
        engine.stop(Duration::from_millis(200));
        for sender in senders {
            let why = sender.join().unwrap();
            let ended = [SendError::Closed, SendError::LoggingOut, SendError::NotLoggedOn];
            assert!(ended.contains(&why), "{why}");
        }
    });
}
