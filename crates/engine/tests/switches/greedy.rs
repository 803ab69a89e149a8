//! Programs that send in a loop, as fast as they can: the session goes on with all else.

use std::collections::HashSet;
use std::fs;

use transfix::{Durability, Mode, SendError, SendMode, SessionHandle, tag};
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{Echo, logged_on, start, venue};

const MESSAGES: u64 = 4_000;

/// Sends until so many are taken. `Err` of a session that has none left to give.
fn greedy(handle: &SessionHandle, first: u64) -> Result<(), SendError> {
    let mut n = first;
    while n < first + MESSAGES {
        match handle.send("D", |order| _ = order.uint(tag::CL_ORD_ID, n)) {
            Ok(_) => n += 1,
            Err(SendError::WouldBlock { .. }) => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads what comes until `count` orders have; returns after how many of them the Heartbeat(0) came
/// that answers our TestRequest(1).
fn read_orders(wire: &mut Wire, count: u64) -> Option<u64> {
    let (mut orders, mut answered) = (HashSet::new(), None);
    while (orders.len() as u64) < count {
        let message = wire.next();
        assert_ne!(message, "", "the connection ended after {} orders", orders.len());
        if message.starts_with("35=0|") {
            answered = answered.or(Some(orders.len() as u64));
        } else {
            let id = message.split("|11=").nth(1).unwrap().to_owned();
            assert!(orders.insert(id), "twice: {message}");
        }
    }
    answered
}

#[test]
fn a_loop_of_sends_lets_the_worker_have_its_turns() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        for send in [SendMode::Direct, SendMode::Queued] {
            let dir = TempDir::new();
            let settings = venue(|s| {
                s.threads.mode = mode;
                s.threads.send = send;
                s.store.durability = Durability::Process;
                s.store.store_dir = dir.path().into();
            });
            let (engine, address) = start(vec![settings], || Echo);
            let mut wire = logged_on(address);
            wire.send("35=1|34=2|112=x");
            let handle = engine.sessions().next().unwrap();
            std::thread::scope(|scope| {
                for n in 0..2 {
                    let handle = &handle;
                    scope.spawn(move || greedy(handle, 1 + n * MESSAGES).unwrap());
                }
                let answered = read_orders(&mut wire, 2 * MESSAGES);
                let answered = answered.expect("a Heartbeat(0)");
                assert!(answered < MESSAGES, "{mode:?} {send:?}: behind {answered} orders");
            });
            engine.stop(5_000);
            let files = fs::read_dir(dir.path()).unwrap().count();
            assert!(files < 40, "{mode:?} {send:?}: {files} files of the store");
        }
    }
}

#[test]
fn an_engine_stops_while_programs_send_in_a_loop() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        let (engine, address) = start(vec![venue(|s| s.threads.mode = mode)], || Echo);
        // It never reads.
        let _wire = logged_on(address);
        let handle = engine.sessions().next().unwrap();
        std::thread::scope(|scope| {
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            match greedy(&handle, 1) {
                                Ok(()) => {}
                                Err(error) => return error,
                            }
                        }
                    })
                })
                .collect();
            engine.stop(200);
            for sender in senders {
                let why = sender.join().unwrap();
                let ended = [SendError::Closed, SendError::LoggingOut, SendError::NotLoggedOn];
                assert!(ended.contains(&why), "{why}");
            }
        });
    }
}
