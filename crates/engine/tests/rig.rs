//! A link without threads, driven by the test, through a restart.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use transfix::simulated::rig::{Rig, Rules};
use transfix::{
    Application, BeginString, BusinessReject, Disconnect, Message, Now, Offline, Role, SessionId,
    SessionNotice, SessionRef, SessionSettings, SessionView, Unsent, tag,
};
use transfix_store::{FileStore, Options};
use transfix_testkit::delayed::{Delayed, Pace};
use transfix_testkit::temp::TempDir;
use transfix_transport::Stream;
use transfix_transport::memory::pipe;

struct Nothing;

impl Application for Nothing {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

/// Connects, and answers the initiator's first message.
fn first_words(rig: &mut Rig) -> String {
    let (ours, mut peer) = pipe(10_000);
    rig.attach(Now::default(), Box::new(ours)).unwrap();
    let mut words = [0; 1_000];
    let n = peer.read(&mut words).unwrap();
    String::from_utf8(words[..n].to_vec()).unwrap()
}

/// The Logon(A) that requests a reset is lost, and then the process ends. The new process must
/// request the reset again, or the numbers never agree (operators, seed 1389).
#[test]
fn a_reset_that_nobody_has_answered_is_asked_for_again_after_a_restart() {
    let dir = TempDir::new();
    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let settings = SessionSettings::new(Role::Initiator, &id, "");
    let open = || {
        let (store, _) = FileStore::open(dir.path(), Options::default(), 0).unwrap();
        let rules = Rules::default();
        Rig::new(&settings, |_| (), Box::new(store), Box::new(Nothing), &rules).unwrap()
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

/// Reports returned messages.
struct Returns(Sender<Vec<u8>>);

impl Application for Returns {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Unsent(message) = notice {
            self.0.send(message.body.to_vec()).unwrap();
        }
    }
}

/// The engine returns a message once no later process can send the message. Until the store has
/// committed the removal, the process may still end.
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
        let application = Box::new(Returns(sender.clone()));
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
