//! Tests messages that the application cannot accept yet, and messages to third parties.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Message, SessionRef, Unavailable,
    UnavailableAction, tag,
};
use transfix_testkit::app::App;

use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{echo, logged_on, start, venue};

/// An application that is not available until it was asked `available_after` times, and then echoes
/// messages.
struct Late {
    asked: Arc<AtomicU32>,
    available_after: u32,
}

impl Application for Late {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if self.asked.fetch_add(1, Ordering::Relaxed) < self.available_after {
            return Err(BusinessReject::not_available());
        }
        echo().on_message(message, session)
    }
}

fn late(
    unavailable: Unavailable,
    available_after: u32,
) -> (transfix::Engine, Wire, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let application = || Late { asked: Arc::clone(&asked), available_after };
    let (engine, address) = start(vec![venue(|s| s.unavailable = unavailable)], application);
    let mut wire = logged_on(address);
    wire.send("35=D|34=2|11=a");
    wire.send("35=D|34=3|11=b");
    wire.send("35=1|34=4|112=x");
    (engine, wire, asked)
}

const REJECT: &str = "35=j|34=2|45=2|372=D|380=4|58=Application not available";

#[test]
fn an_application_that_is_not_available_rejects() {
    let (_engine, mut wire, _) = late(Unavailable::default(), 1);
    assert_eq!([wire.next(), wire.next()], [REJECT, "35=D|34=3|11=b"]);
}

#[test]
fn it_is_asked_again_and_the_order_is_kept() {
    let retry =
        Unavailable { retries: 3, delay: Duration::from_millis(1), ..Unavailable::default() };
    let (engine, mut wire, asked) = late(retry, 3);
    let mut lines = [wire.next(), wire.next(), wire.next()];
    // The lines are sorted, because the Heartbeat(0) may arrive before or after the echoes.
    lines.sort();
    assert!(lines[0].starts_with("35=0|"), "{lines:?}");
    assert!(lines[1].ends_with("|11=a") && lines[2].ends_with("|11=b"), "{lines:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 5);
    let (next_in, _) = engine.sessions().next().unwrap().next_numbers();
    assert_eq!(next_in, 5);
    // A message is rejected after its last retry. Retries are counted for each message.
    let (_engine, mut wire, asked) = late(retry, 5);
    let mut lines = [wire.next(), wire.next(), wire.next()];
    lines.sort();
    assert!(lines[1].ends_with("|11=b") && lines[2].starts_with("35=j|"), "{lines:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 6);
}

#[test]
fn it_may_be_silent() {
    let silence = Unavailable { then: UnavailableAction::Silence, ..Unavailable::default() };
    let (_engine, mut wire, _) = late(silence, 2);
    assert_eq!(wire.next(), "35=0|34=2|112=x");
}

#[test]
fn it_may_end_the_session_and_gets_the_message_again() {
    let end = Unavailable { then: UnavailableAction::Disconnect, ..Unavailable::default() };
    let (engine, mut wire, _) = late(end, 1);
    assert_eq!(wire.next(), "35=5|34=2|58=application not available");
    assert_eq!(wire.next(), "");
    let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
    wire.send("35=A|34=5|98=0|108=30");
    assert!(wire.next().starts_with("35=A|34=3|"));
    assert_eq!(wire.next(), "35=2|34=4|7=2|16=0");
}

/// An application that ends the session at the first message, in the way that the variant names.
#[derive(Clone, Copy)]
enum Ender {
    LogsOut,
    Disconnects,
}

impl Application for Ender {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        match self {
            Self::LogsOut => session.logout("bye"),
            Self::Disconnects => session.disconnect(),
        }
        Ok(())
    }
}

#[test]
fn an_application_ends_its_session_with_or_without_a_word() {
    for (silent, ender, expected) in [
        (false, Ender::LogsOut, "35=5|34=2|58=bye"),
        (true, Ender::LogsOut, ""),
        (false, Ender::Disconnects, ""),
    ] {
        let settings = venue(|s| s.protocol.silent_disconnect = silent);
        let (_engine, address) = start(vec![settings], || ender);
        let mut wire = logged_on(address);
        wire.send("35=D|34=2|11=a");
        assert_eq!(wire.next(), expected);
    }
}

/// Returns an application that panics at each message.
fn fragile() -> App {
    App::new(|_, _| panic!("a bug of the application"))
}

/// A message at which the application panics counts as received; otherwise the engine would deliver
/// it again after each restart.
#[test]
fn a_message_at_which_the_application_panics_counts() {
    let dir = TempDir::new();
    let settings = || {
        venue(|s| {
            s.store.durability = Durability::Process;
            s.store.store_dir = dir.path().to_owned();
        })
    };
    let (engine, address) = start(vec![settings()], fragile);
    let mut wire = logged_on(address);
    wire.send("35=D|34=2|11=a");
    assert_eq!(wire.next(), "");
    drop(engine);
    let (engine, _) = start(vec![settings()], echo);
    let (next_in, _) = engine.sessions().next().unwrap().next_numbers();
    assert_eq!(next_in, 3);
}

#[test]
fn messages_for_third_parties_are_passed_on() {
    for (routes, found) in [(true, true), (true, false), (false, true)] {
        let first = venue(|s| s.route_third_party = routes);
        let mut other = venue(|_| ());
        other.target_comp_id = "OTHER".to_owned();
        other.address.clone_from(&first.address);
        let (_engine, address) = start(vec![first, other], echo);
        let mut theirs = Wire::connect(address, BeginString::Fix44);
        theirs.send("35=A|34=1|49=OTHER|98=0|108=30");
        assert!(theirs.next().starts_with("35=A|"));
        let mut ours = logged_on(address);
        let to = if found { "OTHER" } else { "NOBODY" };
        ours.send(&format!("35=D|34=2|50=desk|128={to}|129=floor|11=a|58=hello"));
        match (routes, found) {
            (true, true) => {
                let passed = "35=D|34=2|115=CLIENT|116=desk|57=floor|11=a|58=hello";
                assert_eq!(theirs.next(), passed);
            }
            (true, false) => {
                let why = "DeliverToCompID(128) is not available at this time";
                assert_eq!(ours.next(), format!("35=j|34=2|45=2|372=D|380=7|58={why}"));
            }
            (false, _) => assert_eq!(ours.next(), "35=D|34=2|11=a"),
        }
    }
}

/// The answer cannot be sent, because a field is empty.
fn mistaken() -> App {
    App::new(|_, session| {
        session.send("8", |report| _ = report.str(tag::TEXT, ""))?;
        Ok(())
    })
}

#[test]
fn why_an_answer_could_not_be_sent_stays_on_this_side() {
    let (_engine, address) = start(vec![venue(|_| ())], mistaken);
    let mut wire = logged_on(address);
    wire.send("35=D|34=2|11=a");
    assert_eq!(wire.next(), "35=j|34=2|45=2|372=D|380=0|58=The answer could not be sent");
}
