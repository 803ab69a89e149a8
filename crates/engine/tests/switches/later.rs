//! Tests logons that the application judges later, in a thread of its own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Disconnect, Engine, LogonAnswer,
    LogonAttempt, LogonRefusal, Message, Mode, Role, SessionId, SessionNotice, SessionRef,
    SessionSettings, SessionView, Settings,
};

use crate::switches::{LONG, Wire, echo, start, venue};

/// An application that passes each deferred answer to the test, which gives the answer or keeps it.
#[derive(Clone)]
struct Asks {
    answers: Sender<LogonAnswer>,
    ended: Sender<Disconnect>,
}

impl Application for Asks {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        echo().on_message(message, session)
    }

    fn judge_logon(
        &mut self,
        _: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        self.answers.send(attempt.answer_later()).unwrap();
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            let _ = self.ended.send(end.reason);
        }
    }
}

fn asks() -> (Asks, Receiver<LogonAnswer>, Receiver<Disconnect>) {
    let (answers, asked) = channel();
    let (ended, has_ended) = channel();
    (Asks { answers, ended }, asked, has_ended)
}

const LOGON: &str = "35=A|34=1|98=0|108=30";

fn knock(address: std::net::SocketAddr) -> Wire {
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send(LOGON);
    wire
}

#[test]
fn what_follows_the_logon_waits_for_the_answer_and_others_do_not() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        let (application, asked, _ended) = asks();
        let other = |s: &mut SessionSettings| s.target_comp_id = "OTHER".to_owned();
        let mut sessions = vec![venue(|_| ()), venue(other)];
        sessions.iter_mut().for_each(|session| session.threads.mode = mode);
        let settings = Settings { sessions, ..Settings::default() };
        let engine = Engine::start(&settings, |session| -> Box<dyn Application> {
            match &*session.target_comp_id {
                "CLIENT" => Box::new(application.clone()),
                _ => Box::new(echo()),
            }
        });
        let engine = engine.unwrap();
        let address = engine.listening()[0];
        let mut wire = knock(address);
        let answer = asked.recv_timeout(LONG).unwrap();
        wire.send("35=D|34=2|11=a");
        wire.send("35=D|34=3|11=b");
        let mut other = Wire::connect(address, BeginString::Fix44);
        other.send("35=A|49=OTHER|34=1|98=0|108=30");
        assert!(other.next().starts_with("35=A|"));
        other.send("35=1|49=OTHER|34=2|112=x");
        assert_eq!(other.next(), "35=0|34=2|112=x");
        let session = engine.session(&venue(|_| ()).id()).unwrap();
        assert!(!session.is_logged_on());
        std::thread::spawn(move || answer.accept()).join().unwrap();
        assert!(wire.next().starts_with("35=A|34=1|"), "{mode:?}");
        assert_eq!(wire.next(), "35=D|34=2|11=a");
        assert_eq!(wire.next(), "35=D|34=3|11=b");
        assert_eq!(session.counters().messages_in, 3, "each once");
    }
}

#[test]
fn a_later_refusal_ends_the_connection() {
    let (application, asked, ended) = asks();
    let (_engine, address) = start(vec![venue(|_| ())], || application.clone());
    let refused = |wire: &mut Wire, why: &str| {
        assert_eq!(wire.next(), format!("35=5|34=1|58={why}"));
        assert_eq!(wire.next(), "");
        assert_eq!(ended.recv_timeout(LONG), Ok(Disconnect::LogonDenied));
    };
    let mut wire = knock(address);
    asked.recv_timeout(LONG).unwrap().refuse(LogonRefusal::new("not today"));
    refused(&mut wire, "not today");
    // Dropping an answer refuses the Logon(A).
    let mut wire = knock(address);
    drop(asked.recv_timeout(LONG).unwrap());
    refused(&mut wire, "not available");
}

#[test]
fn an_answer_that_does_not_come_in_time_is_a_refusal() {
    let (application, asked, _ended) = asks();
    let (_engine, address) =
        start(vec![venue(|s| s.logon_answer = Duration::from_millis(1))], || application.clone());
    let mut wire = knock(address);
    let late = asked.recv_timeout(LONG).unwrap();
    assert_eq!(wire.next(), "35=5|34=1|58=not available");
    assert_eq!(wire.next(), "");
    // An answer that comes too late does not affect the next connection.
    let mut wire = knock(address);
    let answer = asked.recv_timeout(LONG).unwrap();
    late.accept();
    assert_eq!(wire.next(), "35=5|34=1|58=not available");
    answer.refuse(LogonRefusal::new("too late"));
}

#[test]
fn a_session_that_waits_for_an_answer_can_be_disconnected() {
    let (application, asked, ended) = asks();
    let (engine, address) = start(vec![venue(|_| ())], || application.clone());
    let mut wire = knock(address);
    let late = asked.recv_timeout(LONG).unwrap();
    engine.sessions().next().unwrap().operate(&Action::Disconnect {}).unwrap();
    assert_eq!(wire.next(), "");
    assert_eq!(ended.recv_timeout(LONG), Ok(Disconnect::Operator));
    late.accept();
    let mut wire = knock(address);
    asked.recv_timeout(LONG).unwrap().accept();
    assert!(wire.next().starts_with("35=A|"));
    assert_eq!(engine.stop(Duration::from_secs(1)).len(), 1);
}

#[test]
fn an_initiator_judges_the_answer_to_its_logon_later() {
    let (application, asked, _ended) = asks();
    let (_venue, address) = start(vec![venue(|_| ())], echo);
    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address.to_string());
    settings.store.durability = transfix::Durability::Memory;
    let client = Engine::start(&Settings::of(settings), |_| Box::new(application.clone())).unwrap();
    let answer = asked.recv_timeout(LONG).unwrap();
    let session = client.session(&id).unwrap();
    assert!(!session.is_logged_on());
    answer.accept();
    while !session.is_logged_on() {
        std::thread::yield_now();
    }
}

#[test]
fn the_first_logon_of_a_template_is_judged_later_too() {
    let (application, asked, _ended) = asks();
    let settings = Settings::of(venue(|s| s.target_comp_id = "*".to_owned()));
    let engine = Engine::builder(&settings)
        .admit(move |_| Some(Box::new(application.clone())))
        .start(|_| unreachable!("no session of its own"));
    let engine = engine.unwrap();
    let address = engine.listening()[0];
    let mut wire = knock(address);
    asked.recv_timeout(LONG).unwrap().refuse(LogonRefusal::new("who are you?"));
    assert_eq!(wire.next(), "35=5|34=1|58=who are you?");
    assert_eq!(engine.sessions().count(), 0, "nothing is made");
    let mut wire = knock(address);
    let answer = asked.recv_timeout(LONG).unwrap();
    wire.send("35=D|34=2|11=a");
    answer.accept();
    assert!(wire.next().starts_with("35=A|34=1|"));
    assert_eq!(wire.next(), "35=D|34=2|11=a");
    assert!(asked.try_recv().is_err(), "judged once");
}

#[test]
fn the_first_logon_of_a_template_may_wait_longer_than_a_connection_without_one() {
    let (application, asked, _ended) = asks();
    let mut template = venue(|s| s.target_comp_id = "*".to_owned());
    template.protocol.logon_timeout = Duration::from_millis(50);
    let engine = Engine::builder(&Settings::of(template))
        .admit(move |_| Some(Box::new(application.clone())))
        .start(|_| unreachable!("no session of its own"));
    let engine = engine.unwrap();
    let address = engine.listening()[0];
    // The logon is repeated, because the Logon(A) itself may arrive too late on a slow machine.
    let (mut wire, answer) = loop {
        let wire = knock(address);
        if let Ok(answer) = asked.recv_timeout(Duration::from_secs(1)) {
            break (wire, answer);
        }
    };
    // A connection without a Logon(A) was closed meanwhile, which shows that the logon timeout has
    // passed.
    assert_eq!(Wire::connect(address, BeginString::Fix44).next(), "");
    answer.accept();
    assert!(wire.next().starts_with("35=A|34=1|"));
}

#[test]
fn a_logon_that_a_template_would_not_take_is_not_judged() {
    let (application, asked, _ended) = asks();
    let mut template = venue(|s| s.target_comp_id = "*".to_owned());
    template.validation.message_bytes_max = 1_024;
    let engine = Engine::builder(&Settings::of(template))
        .admit(move |_| Some(Box::new(application.clone())))
        .start(|_| unreachable!("no session of its own"));
    let engine = engine.unwrap();
    let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
    wire.send(&format!("{LOGON}|58={}", "x".repeat(2_000)));
    assert_eq!(wire.next(), "");
    assert!(asked.try_recv().is_err());
    assert_eq!(engine.sessions().count(), 0);
}
