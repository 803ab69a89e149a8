//! Applications that are called in application threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Disconnect, Durability, Engine, Message,
    Resend, SessionEvent, SessionNotice, SessionRef, SessionSettings, SessionView, Settings, State,
    WhenFull, tag,
};
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, venue};

/// An application that answers each order, blocks at an order named `wait` until the gate opens,
/// and reports each callback.
struct Slow {
    told: Sender<String>,
    gate: Arc<Mutex<Receiver<()>>>,
}

impl Slow {
    fn tell(&self, what: impl Into<String>) {
        // The send fails only if the test has ended.
        let _ = self.told.send(what.into());
    }
}

impl Application for Slow {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?;
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or_default();
        match id {
            "where" => self.tell(thread),
            _ => self.tell(id),
        }
        match id {
            "wait" => self.gate.lock().unwrap().recv_timeout(LONG).unwrap(),
            "hang" => self.gate.lock().unwrap().recv_timeout(8 * LONG).unwrap(),
            "panic" => panic!("a bug of the application"),
            "busy" => return Err(BusinessReject::not_available()),
            "reject" => return Err(BusinessReject::new(6, "not you")),
            _ => {}
        }
        let _ = session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id));
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.tell(format!("logon of {}", session.id().target_comp_id));
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        match notice {
            SessionNotice::RolledBack(undone) => {
                self.tell(format!("undone {:?} {:?}", undone.received, undone.sent));
            }
            SessionNotice::Disconnected(end) if end.reason != Disconnect::LogonUnanswered => {
                self.tell(format!("end: {}", end.reason));
            }
            _ => {}
        }
    }

    fn on_resend(&mut self, message: &Message<'_>, _: &SessionView<'_>) -> Resend {
        match message.text(tag::CL_ORD_ID) {
            Ok("stale") => Resend::Skip,
            _ => Resend::Send,
        }
    }
}

struct Rig {
    engine: Engine,
    told: Receiver<String>,
    open: Sender<()>,
}

impl Rig {
    /// Starts an engine with one worker and `application_threads` application threads.
    fn start(sessions: Vec<SessionSettings>, application_threads: usize) -> Self {
        let mut settings = Settings { sessions, ..Settings::default() };
        settings.engine.application_threads = application_threads;
        Self::of(settings)
    }

    fn of(mut settings: Settings) -> Self {
        settings.engine.workers = 1;
        let ((told, hears), (open, gate)) = (channel(), channel());
        let gate = Arc::new(Mutex::new(gate));
        let slow = || Box::new(Slow { told: told.clone(), gate: Arc::clone(&gate) });
        let engine = Engine::start(&settings, |_| slow()).unwrap();
        Self { engine, told: hears, open }
    }

    fn wire(&self) -> Wire {
        let wire = logged_on(self.engine.listening()[0]);
        self.expect("logon of CLIENT");
        wire
    }

    fn expect(&self, what: &str) {
        assert_eq!(self.told.recv_timeout(LONG).unwrap(), what);
    }

    /// Waits until the session has noticed the end of the connection.
    fn is_over(&self) {
        while self.engine.sessions().next().unwrap().state() != State::Disconnected {
            std::thread::yield_now();
        }
    }

    fn open(&self) {
        self.open.send(()).unwrap();
    }
}

#[test]
fn a_slow_application_holds_up_neither_its_session_nor_the_others() {
    let mut other = venue(|_| ());
    other.target_comp_id = "OTHER".to_owned();
    let rig = Rig::start(vec![venue(|_| ()), other], 2);
    let mut wire = rig.wire();
    let mut other = Wire::connect(rig.engine.listening()[0], BeginString::Fix44);
    other.send("35=A|34=1|49=OTHER|98=0|108=30");
    assert!(other.next().starts_with("35=A|"));
    rig.expect("logon of OTHER");
    wire.send("35=D|34=2|11=wait");
    rig.expect("wait");
    wire.send("35=1|34=3|112=alive?");
    assert_eq!(wire.next(), "35=0|34=2|112=alive?");
    other.send("35=D|34=2|49=OTHER|11=a");
    assert_eq!(other.next(), "35=8|34=2|11=a");
    rig.open();
    assert_eq!(wire.next(), "35=8|34=3|11=wait");
}

#[test]
fn an_application_may_stay_with_its_session() {
    for (in_pool, thread) in [(true, "tfx-app-0"), (false, "tfx-pool-0")] {
        let rig = Rig::start(vec![venue(|s| s.application.in_pool = in_pool)], 1);
        let mut wire = rig.wire();
        wire.send("35=D|34=2|11=where");
        rig.expect(thread);
    }
}

#[test]
fn threads_that_look_for_work_find_it() {
    let mut settings = Settings::of(venue(|_| ()));
    settings.engine.application_threads = 1;
    settings.engine.application_spin = Duration::from_micros(200);
    let rig = Rig::of(settings);
    let mut wire = rig.wire();
    for seq in 2..500 {
        wire.send(&format!("35=D|34={seq}|11={seq}"));
        assert_eq!(wire.next(), format!("35=8|34={seq}|11={seq}"));
    }
}

#[test]
fn messages_are_answered_and_rejected_in_their_order() {
    let rig = Rig::start(vec![venue(|s| s.application.messages_max = 7)], 4);
    let mut wire = rig.wire();
    for seq in 2..2_000 {
        let id = if seq % 10 == 0 { "reject".to_owned() } else { seq.to_string() };
        wire.send(&format!("35=D|34={seq}|11={id}"));
    }
    for seq in 2..2_000 {
        let expected = match seq % 10 {
            0 => format!("35=j|34={seq}|45={seq}|372=D|380=6|58=not you"),
            _ => format!("35=8|34={seq}|11={seq}"),
        };
        assert_eq!(wire.next(), expected);
    }
}

/// Only messages that the application has received count. A new connection waits until the
/// application has finished with the previous one.
#[test]
fn what_the_application_has_not_had_comes_again() {
    let dir = TempDir::new();
    let durable = venue(|s| {
        s.store.durability = Durability::Process;
        s.store.store_dir = dir.path().to_owned();
    });
    let rig = Rig::start(vec![durable.clone()], 1);
    let mut wire = rig.wire();
    wire.send("35=D|34=2|11=wait");
    rig.expect("wait");
    wire.send("35=D|34=3|11=b");
    wire.send("35=1|34=4|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x");
    wire.send("35=5|34=5");
    assert_eq!(wire.next(), "35=5|34=3");
    rig.is_over();
    let mut wire = Wire::connect(rig.engine.listening()[0], BeginString::Fix44);
    wire.send("35=A|34=6|98=0|108=30");
    rig.open();
    rig.expect("end: logged out");
    assert_eq!(wire.next(), "35=A|34=5|98=0|108=30", "4 is the answer to the first");
    assert_eq!(wire.next(), "35=2|34=6|7=3|16=0", "all from the first that it has not had");
    rig.expect("logon of CLIENT");
    wire.send("35=D|34=3|43=Y|122=20261118-10:00:00|11=b");
    rig.expect("b");
    assert_eq!(wire.next(), "35=8|34=7|11=b");
    drop(rig);
    // The process ends while the application handles a message.
    let rig = Rig::start(vec![durable], 1);
    let numbers = rig.engine.sessions().next().unwrap().next_numbers();
    assert_eq!(numbers.0, 4, "4 to 6 have still to come");
}

#[test]
fn more_than_may_wait_holds_up_or_ends_the_connection() {
    for (messages_max, bytes_max, when_full) in [
        (2, 4 << 20, WhenFull::Wait),
        (10_000, 200, WhenFull::Wait),
        (2, 4 << 20, WhenFull::Disconnect),
    ] {
        let full = venue(|s| {
            (s.application.messages_max, s.application.when_full) = (messages_max, when_full);
            s.application.bytes_max = bytes_max;
            s.protocol.heart_bt_int = Duration::from_secs(1);
        });
        let rig = Rig::start(vec![full], 1);
        let mut wire = rig.wire();
        wire.send("35=D|34=2|11=wait");
        rig.expect("wait");
        for seq in 3..12 {
            wire.send(&format!("35=D|34={seq}|11={seq}"));
        }
        wire.send("35=1|34=12|112=x");
        if when_full == WhenFull::Disconnect {
            assert_eq!(wire.next(), "35=5|34=2|58=application not available");
            rig.is_over();
            rig.open();
            rig.expect("end: application not available");
            continue;
        }
        rig.open();
        let seen: Vec<String> = (2..13).map(|_| wire.next()).collect();
        let ids = |line: &&String| line.starts_with("35=8|");
        let answers = seen.iter().filter(ids).map(|line| line.rsplit('=').next().unwrap());
        let expected = ["wait", "3", "4", "5", "6", "7", "8", "9", "10", "11"];
        assert_eq!(answers.collect::<Vec<_>>(), expected);
        // Messages were read while the queue had room, and the session layer answered by itself.
        assert!(seen[7..].iter().any(|line| line.ends_with("|112=x")), "{seen:?}");
    }
}

/// An application that is not available is asked again. Later messages wait meanwhile, even if the
/// queue is short.
#[test]
fn an_application_that_is_not_available_is_asked_again() {
    let unavailable = venue(|s| {
        (s.unavailable.retries, s.unavailable.delay) = (2, Duration::from_millis(1));
        s.application.messages_max = 1;
    });
    let rig = Rig::start(vec![unavailable], 1);
    let mut wire = rig.wire();
    for (seq, id) in [(2, "a"), (3, "busy"), (4, "c"), (5, "busy"), (6, "e")] {
        wire.send(&format!("35=D|34={seq}|11={id}"));
    }
    for id in ["a", "busy", "busy", "busy", "c", "busy", "busy", "busy", "e"] {
        rig.expect(id);
    }
    let refused = "372=D|380=4|58=Application not available";
    for expected in [
        "35=8|34=2|11=a",
        &format!("35=j|34=3|45=3|{refused}"),
        "35=8|34=4|11=c",
        &format!("35=j|34=5|45=5|{refused}"),
        "35=8|34=6|11=e",
    ] {
        assert_eq!(wire.next(), expected);
    }
}

/// The limit of waiting messages also covers notifications about administrative messages.
#[test]
fn a_flood_of_heartbeats_does_not_pile_up() {
    let flooded = venue(|s| {
        (s.application.messages_max, s.application.when_full) = (50, WhenFull::Disconnect);
    });
    let rig = Rig::start(vec![flooded], 1);
    let mut wire = rig.wire();
    wire.send("35=D|34=2|11=wait");
    rig.expect("wait");
    for seq in 3..60 {
        wire.send(&format!("35=0|34={seq}"));
    }
    assert_eq!(wire.next(), "35=5|34=2|58=application not available");
    rig.is_over();
    rig.open();
    rig.expect("end: application not available");
}

#[test]
fn a_panic_costs_its_own_session_alone() {
    let rig = Rig::start(vec![venue(|_| ())], 1);
    let mut wire = rig.wire();
    wire.send("35=D|34=2|11=panic");
    wire.send("35=D|34=3|11=b");
    rig.expect("panic");
    assert_eq!(wire.next(), "");
    rig.expect("end: the application or the engine panicked");
    rig.engine.sessions().next().unwrap().operate(&Action::Revive {}).unwrap();
    rig.expect("undone 3..3 2..2");
    let mut wire = loop {
        let mut wire = Wire::connect(rig.engine.listening()[0], BeginString::Fix44);
        wire.send("35=A|34=3|98=0|108=30");
        if wire.next().starts_with("35=A|") {
            break wire;
        }
    };
    rig.expect("logon of CLIENT");
    wire.send("35=D|34=4|11=c");
    rig.expect("c");
    assert_eq!(wire.next(), "35=8|34=3|11=c");
}

/// Resent messages wait until the application is free, because the engine asks it about each.
#[test]
fn messages_are_sent_again_when_the_application_is_free() {
    let rig = Rig::start(vec![venue(|_| ())], 1);
    let mut wire = rig.wire();
    for (seq, id) in [(2, "a"), (3, "stale"), (4, "c")] {
        wire.send(&format!("35=D|34={seq}|11={id}"));
        rig.expect(id);
        assert_eq!(wire.next(), format!("35=8|34={seq}|11={id}"));
    }
    wire.send("35=D|34=5|11=wait");
    rig.expect("wait");
    wire.send("35=2|34=6|7=2|16=0");
    rig.open();
    let again = |answer: String| answer.split("|122=").next().unwrap().to_owned();
    let mut seen: Vec<String> = (0..4).map(|_| again(wire.next())).collect();
    let late = seen.iter().position(|answer| *answer == "35=8|34=5|11=wait").unwrap();
    seen.remove(late);
    assert!(seen[0].starts_with("35=8|43=Y|34=2") || seen[0].contains("34=2"), "{seen:?}");
    assert!(seen[1].starts_with("35=4|"), "{seen:?}");
    assert!(seen[2].contains("34=4"), "{seen:?}");
}

/// A stop abandons the thread of an application that does not return.
#[test]
fn an_application_that_does_not_return_does_not_hold_up_the_stop() {
    let rig = Rig::start(vec![venue(|_| ())], 1);
    let mut wire = rig.wire();
    wire.send("35=D|34=2|11=hang");
    rig.expect("hang");
    drop(wire);
    let Rig { engine, open, .. } = rig;
    let outcomes = engine.stop(Duration::ZERO);
    assert_eq!(outcomes[0].next_num_in, 2, "not taken");
    open.send(()).unwrap();
}
