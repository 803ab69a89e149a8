//! A link driven by hand, through a restart.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use transfix::simulated::rig::{Rig, Rules};
use transfix::store::{FileStore, Options};
use transfix::{
    Application, BeginString, BusinessReject, Message, Now, Role, SessionId, SessionRef,
    SessionSettings,
};
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

/// Connects, and answers what the initiator says first.
fn first_words(rig: &mut Rig) -> String {
    let (ours, mut peer) = pipe(10_000);
    rig.attach(Now::default(), Box::new(ours)).unwrap();
    let mut words = [0; 1_000];
    let n = peer.read(&mut words).unwrap();
    String::from_utf8(words[..n].to_vec()).unwrap()
}

/// The Logon(A) that asks for a reset is lost, and then the process ends: the new one must ask
/// again, or the numbers never agree again (operators, seed 1389).
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
    rig.close(Now::default(), transfix::Disconnect::Application);
    rig.operate(Now::default(), |session, _, _| session.reset_at_next_logon()).unwrap();
    assert!(first_words(&mut rig).contains("\x0134=1\x01"));
    drop(rig);
    let again = first_words(&mut open());
    assert!(again.contains("\x01141=Y\x01") && again.contains("\x0134=1\x01"), "{again}");
}
