//! Tests a link that is driven step by step, for example through a restart.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use transfix::simulated::rig::{Rig, Rules};
use transfix::{
    BeginString, Disconnect, Now, Offline, Role, SessionId, SessionNotice, SessionSettings, Unsent,
    tag,
};
use transfix_store::{FileStore, Options};
use transfix_testkit::app::App;
use transfix_testkit::delayed::{Delayed, Pace};
use transfix_testkit::temp::TempDir;
use transfix_transport::Stream;
use transfix_transport::memory::pipe;

/// Connects and returns the initiator's first message.
fn first_words(rig: &mut Rig) -> String {
    let (ours, mut peer) = pipe(10_000);
    rig.attach(Now::default(), Box::new(ours)).unwrap();
    let mut words = [0; 1_000];
    let n = peer.read(&mut words).unwrap();
    String::from_utf8(words[..n].to_vec()).unwrap()
}

/// A new process repeats a request to reset the numbers that was not answered. The Logon(A) with
/// the request was lost, and the old process ended; without the repetition the numbers would never
/// agree (simulation `operators`, seed 1389).
#[test]
fn a_reset_that_nobody_has_answered_is_asked_for_again_after_a_restart() {
    let dir = TempDir::new();
    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let settings = SessionSettings::new(Role::Initiator, &id, "");
    let open = || {
        let (store, _) = FileStore::open(dir.path(), Options::default(), 0).unwrap();
        let rules = Rules::default();
        Rig::new(&settings, |_| (), Box::new(store), Box::new(App::silent()), &rules).unwrap()
    };
    let mut rig = open();
    assert!(!first_words(&mut rig).contains("\x01141=Y\x01"));
    rig.close(Now::default(), Disconnect::Application);
    rig.operate(Now::default(), |session, _, _| session.reset_at_next_logon()).unwrap();
    assert!(first_words(&mut rig).contains("\x0134=1\x01"));
    drop(rig);
    let again = first_words(&mut open());
    assert!(again.contains("\x01141=Y\x01") && again.contains("\x0134=1\x01"), "{again}");
}

/// Returns an application that reports the messages which are returned unsent.
fn unsent_recorder(sender: Sender<Vec<u8>>) -> App {
    App::new(|_, _| Ok(())).on_notice(move |notice, _| {
        if let SessionNotice::Unsent(message) = notice {
            sender.send(message.body.to_vec()).unwrap();
        }
    })
}

/// A message is returned to the application only when no later process can send it. Until the store
/// has committed the removal, a crash can restore the message.
#[test]
fn a_message_is_given_back_when_that_is_safe() {
    let dir = TempDir::new();
    let pace = Arc::new(Pace::default());
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "");
    settings.queue.offline = Offline::Queue;
    settings.queue.unsent = Unsent::Return;
    let (sender, returned) = channel();
    let open = || {
        let (store, _) = FileStore::open(dir.path(), Options::default(), 0).unwrap();
        let store = Box::new(Delayed::new(store, Arc::clone(&pace)).unwrap());
        let application = Box::new(unsent_recorder(sender.clone()));
        Rig::new(&settings, |_| (), store, application, &Rules::default()).unwrap()
    };
    let go_on = |rig: &Rig| {
        pace.allow(u64::MAX);
        rig.operate(Now::default(), |_, _, _| ()).unwrap();
    };
    let end = |rig: &mut Rig| {
        rig.attach(Now::default(), Box::new(pipe(10_000).0)).unwrap();
        rig.close(Now::default(), Disconnect::LinkLost);
    };
    let mut rig = open();
    rig.send(Now::default(), b"D", |order| _ = order.str(tag::CL_ORD_ID, "a")).unwrap();
    go_on(&rig);
    end(&mut rig);
    assert!(rig.queued().is_empty());
    assert!(returned.try_recv().is_err(), "the store may still have it");
    // The process ends: the message was not returned, and waits as before.
    drop(rig);
    let mut rig = open();
    assert_eq!(rig.queued().len(), 1);
    end(&mut rig);
    assert!(returned.try_recv().is_err());
    go_on(&rig);
    assert_eq!(returned.try_recv().unwrap(), b"11=a\x01");
    drop(rig);
    assert!(open().queued().is_empty());
    assert!(returned.try_recv().is_err(), "once");
}
