//! Two linked sessions in virtual time: trades, link failures, resends, and heartbeats.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::mpsc::{Receiver, Sender, channel};

use transfix::simulated::Pair;
use transfix::{
    Action, Application, BeginString, Body, BusinessReject, Disconnect, Durability, Message, Role,
    SendError, SessionEvent, SessionId, SessionNotice, SessionRef, SessionSettings, SessionView,
    msg_type, tag,
};

/// An application that reports received messages to the test, and answers an order with a News(B).
struct Recorder {
    name: &'static str,
    told: Sender<String>,
    answers: bool,
}

impl Application for Recorder {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let text = message.text(tag::TEXT)?.to_owned();
        let again = if message.raw(tag::POSS_DUP_FLAG).is_some() { " again" } else { "" };
        self.told.send(format!("{}: {text}{again}", self.name)).unwrap();
        if self.answers {
            session.send(msg_type::NEWS, news(&format!("re {text}")))?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.told.send(format!("{}: logon", self.name)).unwrap();
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.told.send(format!("{}: {:?}", self.name, end.reason)).unwrap();
        }
    }
}

fn news(text: &str) -> impl Fn(&mut Body<'_>) {
    let text = text.to_owned();
    move |body| {
        body.str(transfix::Tag(148), "headline").uint(transfix::Tag(33), 1).str(tag::TEXT, &text);
    }
}

struct Linked {
    pair: Pair,
    told: Receiver<String>,
}

impl Linked {
    fn of(pair: impl FnOnce([Box<dyn Application>; 2]) -> Pair) -> Self {
        let (to, told) = channel();
        let client = Recorder { name: "client", told: to.clone(), answers: false };
        let venue = Recorder { name: "venue", told: to, answers: true };
        Self { pair: pair([Box::new(client), Box::new(venue)]), told }
    }

    fn new() -> Self {
        let mut linked = Self::of(|[client, venue]| Pair::fix44(client, venue).unwrap());
        linked.pair.connect();
        assert!(linked.pair.is_logged_on());
        assert_eq!(linked.told(), ["client: logon", "venue: logon"]);
        linked
    }

    /// Returns the events since the last call, sorted: the order between the two sides does not
    /// matter.
    fn told(&self) -> Vec<String> {
        let mut told: Vec<_> = self.told.try_iter().collect();
        told.sort();
        told
    }

    fn send(&mut self, text: &str) {
        self.pair.initiator.send(self.pair.now(), msg_type::NEWS, news(text)).unwrap();
    }
}

#[test]
fn messages_flow_until_it_is_quiet() {
    let mut linked = Linked::new();
    linked.send("one");
    linked.send("two");
    assert_eq!(linked.told(), [""; 0], "they are under way");
    assert!(linked.pair.step());
    assert_eq!(linked.told(), ["venue: one", "venue: two"], "the answers are under way");
    linked.pair.run();
    assert_eq!(linked.told(), ["client: re one", "client: re two"]);
    assert!(!linked.pair.step(), "nothing is under way");
    assert_eq!(linked.pair.initiator.next_numbers(), (4, 4));
    assert_eq!(linked.pair.acceptor.next_numbers(), (4, 4));
    let log_out = Action::LogOut { text: "done".to_owned() };
    linked.pair.initiator.operate(linked.pair.now(), &log_out).unwrap();
    linked.pair.run();
    assert!(!linked.pair.is_logged_on());
    assert_eq!(linked.told(), ["client: LoggedOut", "venue: LoggedOut"]);
    assert_eq!(linked.pair.acceptor.ended(), Some(Disconnect::LoggedOut));
}

#[test]
fn what_is_lost_with_the_link_is_sent_again() {
    let mut linked = Linked::new();
    linked.send("lost");
    linked.pair.cut();
    assert!(!linked.pair.is_logged_on());
    assert_eq!(linked.told(), ["client: LinkLost", "venue: LinkLost"]);
    let refused = linked.pair.initiator.send(linked.pair.now(), msg_type::NEWS, news("no"));
    assert!(matches!(refused, Err(SendError::NotLoggedOn)), "{refused:?}");
    linked.pair.connect();
    let expected = ["client: logon", "client: re lost", "venue: logon", "venue: lost again"];
    assert_eq!(linked.told(), expected);
    // The message arrives, and the answer is lost.
    linked.send("half");
    linked.pair.step();
    linked.pair.cut();
    assert_eq!(linked.told(), ["client: LinkLost", "venue: LinkLost", "venue: half"]);
    linked.pair.connect();
    assert_eq!(linked.told(), ["client: logon", "client: re half again", "venue: logon"]);
    assert_eq!(linked.pair.initiator.next_numbers(), {
        let (next_in, next_out) = linked.pair.acceptor.next_numbers();
        (next_out, next_in)
    });
    // A new connection interrupts the existing one.
    linked.send("last");
    linked.pair.connect();
    assert!(linked.pair.is_logged_on());
    assert!(linked.told().contains(&"venue: last again".to_owned()));
}

#[test]
fn heartbeats_keep_a_link_and_find_out_a_dead_one() {
    let mut linked = Linked::new();
    let (begin, numbers) = (linked.pair.now(), linked.pair.initiator.next_numbers());
    linked.pair.advance(600_000);
    assert!(linked.pair.is_logged_on());
    let passed = linked.pair.now();
    assert_eq!(passed.monotonic_ns - begin.monotonic_ns, 600_000_000_000);
    assert_eq!(passed.utc.0 - begin.utc.0, 600_000_000_000);
    let (next_in, next_out) = linked.pair.initiator.next_numbers();
    assert!(next_in - numbers.0 >= 19 && next_out - numbers.1 >= 19, "{next_in} {next_out}");
    assert_eq!(linked.told(), [""; 0]);
    linked.pair.silence();
    linked.send("into the void");
    linked.pair.advance(29_000);
    assert_eq!(linked.told(), [""; 0], "nobody knows yet");
    linked.pair.advance(120_000);
    assert_eq!(linked.told(), ["client: HeartbeatTimeout", "venue: HeartbeatTimeout"]);
    linked.pair.connect();
    assert!(linked.told().contains(&"venue: into the void again".to_owned()));
    assert!(linked.pair.is_logged_on());
}

#[test]
fn the_settings_are_those_of_two_sides() {
    let settings = |role, own, other| {
        let id = SessionId::new(BeginString::Fix42, own, other);
        let mut settings = SessionSettings::new(role, &id, "");
        settings.store.durability = Durability::Memory;
        settings
    };
    let (initiator, acceptor) =
        (settings(Role::Initiator, "A", "B"), settings(Role::Acceptor, "B", "A"));
    let mut linked =
        Linked::of(|[client, venue]| Pair::new((&initiator, client), (&acceptor, venue)).unwrap());
    linked.pair.connect();
    assert!(linked.pair.is_logged_on());
    let other = settings(Role::Acceptor, "C", "A");
    for (one, two, expected) in [
        (&acceptor, &initiator, "an initiator and an acceptor, in this order"),
        (&initiator, &other, "are not two sides of one session"),
    ] {
        let recorder = || {
            let (told, _) = channel();
            Box::new(Recorder { name: "", told, answers: false })
        };
        let error = Pair::new((one, recorder()), (two, recorder())).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
#[should_panic(expected = "still answer")]
fn applications_that_answer_each_other_without_end_are_told() {
    let (to, _told) = channel();
    let recorder = |name| Box::new(Recorder { name, told: to.clone(), answers: true });
    let mut pair = Pair::fix44(recorder("client"), recorder("venue")).unwrap();
    pair.connect();
    pair.initiator.send(pair.now(), msg_type::NEWS, news("x")).unwrap();
    pair.run();
}
