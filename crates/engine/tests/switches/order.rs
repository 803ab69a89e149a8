//! The order in which an application receives states, events, frames and messages.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::switches::{logged_on, venue};
use transfix::{
    Action, Application, BusinessReject, Direction, Engine, EngineSettings, Message, SessionEvent,
    SessionNotice, SessionRef, SessionView, Settings, State, tag,
};

/// The actions of the application, besides reporting its callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Nothing,
    /// The application logs out when it receives the Logon(A).
    LogsOut,
    /// Panics as soon as the session is logged on.
    Panics,
}

/// An application that reports each callback.
struct Listener {
    does: Does,
    told: Sender<String>,
}

impl Application for Listener {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.told.send(format!("message {}", message.text(tag::CL_ORD_ID)?)).unwrap();
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        let what = match event {
            SessionEvent::AdminMessage(message) => format!("admin {}", message.msg_type()),
            other => format!("{other:?}"),
        };
        if self.does == Does::LogsOut && what == "admin A" {
            session.logout("not today");
        }
        self.told.send(what).unwrap();
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        let what = match notice {
            SessionNotice::StateChanged { to, .. } => format!("now {to:?}"),
            SessionNotice::Disconnected(_) => "disconnected".to_owned(),
            SessionNotice::RolledBack(_) => "undone".to_owned(),
            other => format!("{other:?}"),
        };
        self.told.send(what).unwrap();
        let is_on = matches!(notice, SessionNotice::StateChanged { to: State::Active, .. });
        assert!(!(is_on && self.does == Does::Panics), "as asked for");
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], _: &SessionView<'_>) {
        let frame = String::from_utf8_lossy(frame).replace('\x01', "|");
        let msg_type = frame.split("|35=").nth(1).and_then(|rest| rest.split('|').next());
        self.told.send(format!("{direction:?} {}", msg_type.unwrap_or_default())).unwrap();
    }
}

fn listening(threads: usize, does: Does) -> (Engine, Receiver<String>) {
    let (told, heard) = channel();
    let engine = EngineSettings { application_threads: threads, ..EngineSettings::default() };
    let settings = Settings { engine, sessions: vec![venue(|_| ())], ..Settings::default() };
    let engine = Engine::start(&settings, |_| {
        let told = told.clone();
        Box::new(Listener { does, told })
    });
    (engine.unwrap(), heard)
}

/// Checks that the expected entries were reported in this order, perhaps with others between them.
#[track_caller]
fn assert_order(heard: &[String], expected: &[&str]) {
    let mut rest = heard.iter();
    for what in expected {
        assert!(rest.any(|heard| heard == what), "{what} of {expected:?} in {heard:?}");
    }
}

#[test]
fn a_state_is_told_before_what_is_written_in_it() {
    for threads in [0, 2] {
        let (engine, heard) = listening(threads, Does::Nothing);
        let mut wire = logged_on(engine.listening()[0]);
        wire.send("35=D|34=2|11=a");
        // A message that the application has not received when the connection ends arrives after
        // the next logon.
        let mut told = Vec::new();
        while told.last().is_none_or(|last| last != "message a") {
            told.push(heard.recv_timeout(Duration::from_secs(60)).unwrap());
        }
        let session = engine.sessions().next().unwrap();
        session.operate(&Action::LogOut { text: "the desk closes".to_owned() }).unwrap();
        assert!(wire.next().starts_with("35=5|"));
        wire.send("35=5|34=3");
        assert_eq!(wire.next(), "");
        engine.stop(Duration::from_secs(8));
        told.extend(heard.try_iter());
        assert_order(
            &told,
            &[
                "Inbound A",
                "now Active",
                "admin A",
                "LoggedOn",
                "Outbound A",
                "Inbound D",
                "message a",
                "now LogoutSent",
                "Outbound 5",
                "Inbound 5",
                "now Disconnected",
                "disconnected",
            ],
        );
    }
}

#[test]
fn a_logout_in_a_callback_does_not_pass_what_has_happened_before() {
    for threads in [0, 2] {
        let (engine, heard) = listening(threads, Does::LogsOut);
        let mut wire = logged_on(engine.listening()[0]);
        assert!(wire.next().starts_with("35=5|"));
        wire.send("35=5|34=2");
        assert_eq!(wire.next(), "");
        engine.stop(Duration::from_secs(8));
        let heard: Vec<_> = heard.try_iter().collect();
        let order = ["now Active", "admin A", "LoggedOn", "now LogoutSent", "disconnected"];
        assert_order(&heard, &order);
    }
}

/// After a panic, the application does not receive the remaining events of the interrupted turn,
/// because it would send into the restarted session.
#[test]
fn a_panic_ends_the_events_of_what_is_undone() {
    let (engine, heard) = listening(0, Does::Panics);
    let mut wire =
        crate::switches::wire::Wire::connect(engine.listening()[0], transfix::BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=30");
    assert_eq!(wire.next(), "");
    engine.stop(Duration::from_secs(8));
    let heard: Vec<_> = heard.try_iter().collect();
    assert_order(&heard, &["now Active", "now Disconnected", "disconnected", "undone"]);
    assert!(!heard.iter().any(|what| what == "LoggedOn"), "{heard:?}");
}
