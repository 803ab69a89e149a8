//! PostgreSQL with one synchronous standby: servers that are killed, paused and promoted.

mod recovery;

use std::collections::{BTreeMap, VecDeque};
use std::thread;

use transfix_store::{Committed, Kind, Record, Store, StoreError};
use transfix_stores::PostgresStore;
use transfix_testkit::laws::Patient;

use crate::gateways::orders_are_answered_once_whatever_happens;
use crate::server::{Disconnects, Pair, Postgres, Server, config};
use crate::{all, commit, order};

#[test]
fn pair() {
    let server = all(Pair::start());
    a_required_standby_is_checked(&server);
    commits_wait_for_a_stopped_standby(&server);
    a_cancelled_wait_acknowledges_nothing(&server);
    a_take_over_whose_answer_is_lost_is_recognized(&server);
    orders_are_answered_once_whatever_happens(&*server, |server| {
        server.primary.kill();
        server.standby.promote();
    });
}

fn a_required_standby_is_checked(server: &Pair) {
    let name = server.fresh_name();
    let alone = Postgres::start();
    let open = |config: &str, options: &str| {
        let config = format!("{config} options='-c transfix.require_standby=on{options}'");
        PostgresStore::open(&config, &name, 1).map(drop).map_err(|error| error.to_string())
    };
    let standby_first = config(&[&server.standby, &server.primary]);
    open(&standby_first, "").unwrap();
    let refused = open(&config(&[&alone]), "").unwrap_err();
    assert!(refused.contains("synchronous_standby_names = ''"), "{refused}");
    for weak in ["off", "local", "remote_write"] {
        let refused = open(&standby_first, &format!(" -c synchronous_commit={weak}"));
        assert!(refused.unwrap_err().contains(&format!("synchronous_commit = '{weak}'")));
    }
}

/// Commits, without waiting.
fn begin_commit(store: &mut dyn Store) -> u64 {
    match store.commit().unwrap() {
        Committed::Pending(ticket) => ticket,
        Committed::Now => unreachable!("the store has a server"),
    }
}

fn wait(store: &mut dyn Store, ticket: u64) -> Result<(), StoreError> {
    while store.safe()? < ticket {
        thread::yield_now();
    }
    Ok(())
}

fn commits_wait_for_a_stopped_standby(server: &Pair) {
    let mut store = Patient(server.open(&server.fresh_name(), 1).unwrap());
    server.standby.signal("STOP");
    store.put(2, order(1)).unwrap();
    let ticket = begin_commit(&mut store);
    server.primary.for_each_waiting("pid");
    let safe = store.safe().unwrap();
    server.standby.signal("CONT");
    assert!(safe < ticket, "acknowledged without the standby");
    wait(&mut store, ticket).unwrap();
}

/// An administrator may end the wait of a commit. The primary has the commit then, and says so,
/// but the standby does not.
fn a_cancelled_wait_acknowledges_nothing(server: &Pair) {
    let name = server.fresh_name();
    let mut store = Patient(server.open(&name, 1).unwrap());
    server.standby.signal("STOP");
    store.put(2, order(1)).unwrap();
    let ticket = begin_commit(&mut store);
    server.primary.for_each_waiting("pg_cancel_backend(pid)");
    let cancelled = wait(&mut store, ticket);
    server.standby.signal("CONT");
    let cancelled = cancelled.unwrap_err().to_string();
    assert!(cancelled.contains("the standby may not have the commit"), "{cancelled}");
    store.reopen().unwrap();
    assert_eq!(store.numbers().next_out, 2, "the primary has it, and now the standby too");
    store.put(3, order(2)).unwrap();
    commit(&mut store).unwrap();
}

/// The server dies after it has given the session to this process, and before it answers.
fn a_take_over_whose_answer_is_lost_is_recognized(server: &Pair) {
    let mut store = Patient(server.open(&server.fresh_name(), 1).unwrap());
    server.cut();
    store.put(2, order(1)).unwrap();
    commit(&mut store).unwrap_err();
    server.standby.signal("STOP");
    thread::scope(|threads| {
        threads.spawn(|| {
            server.primary.for_each_waiting("pg_terminate_backend(pid)");
            server.standby.signal("CONT");
        });
        while store.reopen().is_err() {}
    });
    store.put(2, order(1)).unwrap();
    commit(&mut store).unwrap();
}

fn message(seq: u64, text: &str) -> Record<'_> {
    Record::Outbound { seq, kind: Kind::Application, bytes: text.as_bytes() }
}

/// Messages that were acknowledged, and so may have been sent.
type Sent = BTreeMap<u64, String>;

/// Commits messages, of which a few wait at a time, until this number is acknowledged.
fn burst(
    store: &mut dyn Store,
    sent: &mut Sent,
    run: &str,
    number: usize,
) -> Result<(), StoreError> {
    const PENDING_MAX: usize = 8;
    let mut pending = VecDeque::new();
    let goal = sent.len().saturating_add(number);
    while sent.len() < goal {
        if pending.len() < PENDING_MAX {
            let seq = store.numbers().next_out;
            let text = format!("{seq} {run}");
            store.put(seq, message(seq, &text))?;
            pending.push_back((begin_commit(store), seq, text));
        }
        let safe = store.safe()?;
        while let Some((_, seq, text)) = pending.pop_front_if(|(ticket, ..)| *ticket <= safe) {
            assert_eq!(sent.insert(seq, text), None, "{seq} is used twice");
        }
    }
    Ok(())
}

/// The primary is killed during a burst, and the standby continues as the primary.
#[test]
fn a_killed_primary_loses_nothing() {
    let server = Pair::start();
    let name = server.fresh_name();
    let (mut store, mut sent) = (Patient(server.open(&name, 1).unwrap()), Sent::new());
    burst(&mut store, &mut sent, "before", 500).unwrap();
    thread::scope(|threads| {
        threads.spawn(|| server.primary.kill());
        burst(&mut store, &mut sent, "before", usize::MAX).unwrap_err();
    });
    server.standby.promote();
    while store.reopen().is_err() {}
    burst(&mut store, &mut sent, "after", 500).unwrap();
    let mut other = Patient(server.open(&name, 2).unwrap());
    assert_eq!(other.numbers().next_out, store.numbers().next_out);
    for (seq, text) in &sent {
        assert_eq!(other.outbound(*seq).unwrap().unwrap().bytes, text.as_bytes(), "{seq}");
    }
}

/// A restarted primary shows commits that the standby does not have. The store continues only when
/// the standby has them.
#[test]
fn a_restarted_primary_waits_for_its_standby() {
    let server = Pair::start();
    let mut store = Patient(server.open(&server.fresh_name(), 1).unwrap());
    server.standby.signal("STOP");
    store.put(2, order(1)).unwrap();
    let ticket = begin_commit(&mut store);
    server.primary.for_each_waiting("pid");
    server.primary.kill();
    wait(&mut store, ticket).unwrap_err();
    server.primary.serve_as_primary();
    let early = store.reopen();
    server.standby.signal("CONT");
    early.unwrap_err();
    while store.reopen().is_err() {}
    assert_eq!(store.numbers().next_out, 2);
    store.put(3, order(2)).unwrap();
    commit(&mut store).unwrap();
}

/// A primary is paused until the standby is promoted, and then continues with the commits that it
/// was sent before.
#[test]
fn an_old_primary_acknowledges_nothing() {
    let server = Pair::start();
    let name = server.fresh_name();
    let mut first = Patient(server.open(&name, 1).unwrap());
    first.put(1, order(1)).unwrap();
    commit(&mut first).unwrap();
    server.primary.signal("STOP");
    first.put(2, message(2, "old")).unwrap();
    let ticket = begin_commit(&mut first);
    server.standby.promote();
    let mut second = Patient(server.standby.open(&name, 2).unwrap());
    assert_eq!(second.numbers().next_out, 2);
    second.put(3, message(2, "new")).unwrap();
    commit(&mut second).unwrap();
    server.primary.signal("CONT");
    server.primary.for_each_waiting("pid");
    assert!(first.safe().unwrap() < ticket, "acknowledged by the old primary");
    server.primary.kill();
    wait(&mut first, ticket).unwrap_err();
    while first.reopen().is_err() {}
    assert_eq!(first.outbound(2).unwrap().unwrap().bytes, b"new");
    first.put(4, order(3)).unwrap();
    let refused = commit(&mut first).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
}
