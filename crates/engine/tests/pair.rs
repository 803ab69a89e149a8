//! Two linked sessions in virtual time: trade, cuts and resends, heartbeats.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::mpsc::{Receiver, Sender, channel};

use transfix::simulated::Pair;
use transfix::{
    Application, BeginString, Body, BusinessReject, Disconnect, Disconnection, Durability, Message,
    Role, SendError, SessionId, SessionRef, SessionSettings, msg_type, tag,
};

/// Tells what it takes, and answers an order with News(B).
struct Desk {
    name: &'static str,
    told: Sender<String>,
    answers: bool,
}

impl Application for Desk {
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

    fn on_logon(&mut self, _: &mut SessionRef<'_>) {
        self.told.send(format!("{}: logon", self.name)).unwrap();
    }

    fn on_disconnect(&mut self, end: &Disconnection<'_>, _: &mut SessionRef<'_>) {
        self.told.send(format!("{}: {:?}", self.name, end.reason)).unwrap();
    }
}

fn news(text: &str) -> impl Fn(&mut Body<'_>) {
    let text = text.to_owned();
    move |body| {
        body.str(transfix::Tag(148), "headline").uint(transfix::Tag(33), 1).str(tag::TEXT, &text);
    }
}

struct Hall {
    pair: Pair,
    told: Receiver<String>,
}

impl Hall {
    fn of(pair: impl FnOnce([Box<dyn Application>; 2]) -> Pair) -> Self {
        let (to, told) = channel();
        let client = Desk { name: "client", told: to.clone(), answers: false };
        let venue = Desk { name: "venue", told: to, answers: true };
        Self { pair: pair([Box::new(client), Box::new(venue)]), told }
    }

    fn new() -> Self {
        let mut hall = Self::of(|[client, venue]| Pair::fix44(client, venue).unwrap());
        hall.pair.connect();
        assert!(hall.pair.is_logged_on());
        assert_eq!(hall.told(), ["client: logon", "venue: logon"]);
        hall
    }

    /// What was told since, sorted: the order of the two sides is of no interest.
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
    let mut hall = Hall::new();
    hall.send("one");
    hall.send("two");
    assert_eq!(hall.told(), [""; 0], "they are under way");
    assert!(hall.pair.step());
    assert_eq!(hall.told(), ["venue: one", "venue: two"], "the answers are under way");
    hall.pair.run();
    assert_eq!(hall.told(), ["client: re one", "client: re two"]);
    assert!(!hall.pair.step(), "nothing is under way");
    assert_eq!(hall.pair.initiator.next_numbers(), (4, 4));
    assert_eq!(hall.pair.acceptor.next_numbers(), (4, 4));
    hall.pair.initiator.log_out(hall.pair.now(), "done");
    hall.pair.run();
    assert!(!hall.pair.is_logged_on());
    assert_eq!(hall.told(), ["client: LoggedOut", "venue: LoggedOut"]);
    assert_eq!(hall.pair.acceptor.ended(), Some(Disconnect::LoggedOut));
}

#[test]
fn what_is_lost_with_the_link_is_sent_again() {
    let mut hall = Hall::new();
    hall.send("lost");
    hall.pair.cut();
    assert!(!hall.pair.is_logged_on());
    assert_eq!(hall.told(), ["client: LinkLost", "venue: LinkLost"]);
    let refused = hall.pair.initiator.send(hall.pair.now(), msg_type::NEWS, news("no"));
    assert!(matches!(refused, Err(SendError::NotLoggedOn)), "{refused:?}");
    hall.pair.connect();
    let expected = ["client: logon", "client: re lost", "venue: logon", "venue: lost again"];
    assert_eq!(hall.told(), expected);
    // The message arrives, and the answer is lost.
    hall.send("half");
    hall.pair.step();
    hall.pair.cut();
    assert_eq!(hall.told(), ["client: LinkLost", "venue: LinkLost", "venue: half"]);
    hall.pair.connect();
    assert_eq!(hall.told(), ["client: logon", "client: re half again", "venue: logon"]);
    assert_eq!(hall.pair.initiator.next_numbers(), {
        let (next_in, next_out) = hall.pair.acceptor.next_numbers();
        (next_out, next_in)
    });
    // A connection that is there is cut by the next one.
    hall.send("last");
    hall.pair.connect();
    assert!(hall.pair.is_logged_on());
    assert!(hall.told().contains(&"venue: last again".to_owned()));
}

#[test]
fn heartbeats_keep_a_link_and_find_out_a_dead_one() {
    let mut hall = Hall::new();
    let (begin, numbers) = (hall.pair.now(), hall.pair.initiator.next_numbers());
    hall.pair.advance(600_000);
    assert!(hall.pair.is_logged_on());
    let passed = hall.pair.now();
    assert_eq!(passed.monotonic_ns - begin.monotonic_ns, 600_000_000_000);
    assert_eq!(passed.utc.0 - begin.utc.0, 600_000_000_000);
    let (next_in, next_out) = hall.pair.initiator.next_numbers();
    assert!(next_in - numbers.0 >= 19 && next_out - numbers.1 >= 19, "{next_in} {next_out}");
    assert_eq!(hall.told(), [""; 0]);
    hall.pair.silence();
    hall.send("into the void");
    hall.pair.advance(29_000);
    assert_eq!(hall.told(), [""; 0], "nobody knows yet");
    hall.pair.advance(120_000);
    assert_eq!(hall.told(), ["client: HeartbeatTimeout", "venue: HeartbeatTimeout"]);
    hall.pair.connect();
    assert!(hall.told().contains(&"venue: into the void again".to_owned()));
    assert!(hall.pair.is_logged_on());
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
    let mut hall =
        Hall::of(|[client, venue]| Pair::new((&initiator, client), (&acceptor, venue)).unwrap());
    hall.pair.connect();
    assert!(hall.pair.is_logged_on());
    let other = settings(Role::Acceptor, "C", "A");
    for (one, two, expected) in [
        (&acceptor, &initiator, "an initiator and an acceptor, in this order"),
        (&initiator, &other, "are not two sides of one session"),
    ] {
        let desk = || {
            let (told, _) = channel();
            Box::new(Desk { name: "", told, answers: false })
        };
        let error = Pair::new((one, desk()), (two, desk())).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
#[should_panic(expected = "still answer")]
fn applications_that_answer_each_other_without_end_are_told() {
    let (to, _told) = channel();
    let desk = |name| Box::new(Desk { name, told: to.clone(), answers: true });
    let mut pair = Pair::fix44(desk("client"), desk("venue")).unwrap();
    pair.connect();
    pair.initiator.send(pair.now(), msg_type::NEWS, news("x")).unwrap();
    pair.run();
}
