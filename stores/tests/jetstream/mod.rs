//! Stores in NATS JetStream: three real brokers, which are killed, and streams that are refused.

mod access;
mod combined;
mod events;
mod fleet;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use transfix_store::{Kind, Record, Store};
use transfix_stores::FleetOperator;
use transfix_testkit::laws::Patient;
use transfix_testkit::temp::TempDir;

use fleet::fleet_settings;

use crate::gateways::orders_are_answered_once_whatever_happens;
use crate::server::{Nats, Server};
use crate::{a_logon_waits_for_its_server_alone, a_long_resend_finds_all, commit, laws, order};
use crate::{
    a_standby_writes_after_it_takes_over, a_stopped_server_holds_up_its_own_session,
    engines_take_turns, the_last_opener_writes,
};

/// A cluster uses the whole machine, and a late answer fails a store. So there is one at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Most tests wait for time limits, so they run at the same time.
#[test]
fn fleet() {
    let _turn = turn();
    events::keep();
    let (server, dir) = (Nats::start(), TempDir::new());
    let ways = fleet::ways(&dir);
    thread::scope(|threads| {
        for way in &ways {
            let server = &server;
            threads.spawn(move || {
                FleetOperator::create(&fleet_settings(server, way.name, "-")).unwrap();
                fleet::a_connected_session_is_refused_elsewhere_and_then_handed_over(server, way);
                fleet::an_initiator_connects_from_one_gateway(server, way);
            });
        }
        threads.spawn(|| fleet::messages_are_deleted_after_their_time(&server));
        threads.spawn(|| combined::an_initiator_moves_to_a_gateway_that_can_connect(&server));
        threads.spawn(|| combined::routes_are_refused(&server));
        threads.spawn(|| combined::sessions_from_a_template_move(&server));
        threads.spawn(|| combined::a_reload_leaves_each_session_at_one_gateway(&server));
        threads.spawn(|| combined::a_gateway_takes_a_thousand_initiators(&server));
    });
}

#[test]
fn jetstream() {
    let _turn = turn();
    let server = Arc::new(Nats::start());
    laws(&*server);
    the_last_opener_writes(&*server);
    a_standby_writes_after_it_takes_over(&*server);
    a_long_resend_finds_all(&*server);
    a_batch_above_the_largest_message_is_divided(&server);
    a_message_of_another_program_is_refused(&server);
    a_stream_that_could_lose_messages_is_refused(&server);
    engines_take_turns(&server);
    a_stopped_server_holds_up_its_own_session(&server);
    a_logon_waits_for_its_server_alone(&server);
    orders_are_answered_once_whatever_happens(&*server, |server| server.kill(1));
    server.restart(1);
    a_killed_broker_loses_nothing(&server);
}

/// The brokers accept messages of up to 1 MiB. A batch of 3 MiB is found whole, also after the
/// store is opened again.
fn a_batch_above_the_largest_message_is_divided(server: &Nats) {
    let name = server.fresh_name();
    let text = vec![b'x'; 300_000];
    for _ in 0..2 {
        let mut store = Patient(server.open(&name, 1).unwrap());
        let begin = store.numbers().next_out;
        for seq in begin..begin + 10 {
            let kind = Kind::Application;
            store.put(seq, Record::Outbound { seq, kind, bytes: &text }).unwrap();
        }
        store.put(1, Record::Queued { ticket: begin, bytes: b"waits" }).unwrap();
        commit(&mut store).unwrap();
        for seq in 1..begin + 10 {
            assert_eq!(store.outbound(seq).unwrap().unwrap().bytes, text, "{seq}");
        }
        assert_eq!(store.queued(begin).unwrap().unwrap().bytes, b"waits");
    }
}

fn a_message_of_another_program_is_refused(server: &Nats) {
    let name = server.fresh_name();
    let mut store = Patient(server.open(&name, 1).unwrap());
    store.put(2, order(1)).unwrap();
    commit(&mut store).unwrap();
    server.publish(&name, "hello");
    // The owner is refused: its record is no longer the last one.
    store.put(3, order(2)).unwrap();
    assert!(commit(&mut store).is_err());
    let refused = server.open(&name, 4).err().unwrap().to_string();
    assert!(refused.contains("it is no record of Transfix"), "{refused}");
}

fn a_stream_that_could_lose_messages_is_refused(server: &Nats) {
    let refused = server.connect("FIX", 1).unwrap_err().to_string();
    assert!(refused.contains("has 3 replicas instead of 1"), "{refused}");
    for (name, setting, reason) in [
        ("OLD", "\"max_age\":60000000000", "deletes old messages"),
        ("MEMORY", "\"storage\":\"memory\"", "is in memory"),
        ("QUEUE", "\"retention\":\"workqueue\"", "retention must be `limits`"),
        ("FULL", "\"discard\":\"old\"", "discard policy"),
        ("OTHER", "\"subjects\":[\"OTHER.>\",\"EXTRA.>\"]", "must have OTHER.> only"),
    ] {
        server.create_stream(name, setting);
        let refused = server.connect(name, 1).unwrap_err().to_string();
        assert!(refused.contains(reason), "{name}: {refused}");
    }
}

/// Each broker in turn is killed while a session trades, so one of them leads the stream.
fn a_killed_broker_loses_nothing(server: &Nats) {
    let name = server.fresh_name();
    let mut store = Patient(server.open(&name, 1).unwrap());
    for number in 1..=3 {
        for _ in 0..50 {
            let seq = store.numbers().next_out;
            store.put(seq, order(seq)).unwrap();
            commit(&mut store).unwrap();
        }
        server.kill(number);
        let committed = store.numbers().next_out;
        for _ in 0..50 {
            let seq = store.numbers().next_out;
            if store.put(seq, order(seq)).and_then(|()| commit(&mut store)).is_err() {
                while store.reopen().is_err() {}
            }
        }
        assert!(store.numbers().next_out > committed);
        server.restart(number);
    }
    let next_out = store.numbers().next_out;
    let mut other = Patient(server.open(&name, 9).unwrap());
    assert_eq!(other.numbers().next_out, next_out);
    for seq in 1..next_out {
        assert!(other.outbound(seq).unwrap().is_some(), "{seq}");
    }
    let refused = store.put(9, order(next_out)).and_then(|()| commit(&mut store)).unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
}
