//! An application's answers: no answer is refused after its order was executed.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Durability, Engine, Message, Mode,
    SessionRef, SessionSettings, Settings, clock, tag,
};
use transfix_store::journal::{self, Event};
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, venue};

/// Returns each mode with each durability that keeps a journal.
fn ways() -> impl Iterator<Item = (Mode, Durability)> {
    [Mode::Pool, Mode::Dedicated, Mode::Spin]
        .into_iter()
        .flat_map(|mode| [Durability::Process, Durability::Power].map(|kept| (mode, kept)))
}

/// The time limit for many messages on the slowest machine.
const SETTLED: Duration = Duration::from_secs(300);

/// Answers each order with `?`, as the documentation recommends, and reports the executed orders.
struct Trader {
    executed: Sender<String>,
    text: String,
    /// The channel on which the callback waits between its two answers to the order named `hold`.
    hold: Option<Receiver<()>>,
}

impl Application for Trader {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?;
        session.send("8", |b| _ = b.str(tag::CL_ORD_ID, id).str(tag::TEXT, &self.text))?;
        let _ = self.executed.send(id.to_owned());
        if id == "hold" {
            // The wait is limited, because a stopping engine waits for the callback.
            self.hold.as_ref().unwrap().recv_timeout(SETTLED).unwrap();
            session.send("8", |b| _ = b.str(tag::CL_ORD_ID, id).str(tag::TEXT, "end"))?;
        }
        Ok(())
    }
}

struct Desk {
    engine: Engine,
    executed: Receiver<String>,
    release: Sender<()>,
    dir: TempDir,
}

impl Desk {
    fn of(threads: usize, (mode, durability): (Mode, Durability)) -> Self {
        Self::open(threads, 10, |s| (s.threads.mode, s.store.durability) = (mode, durability))
    }

    fn open(threads: usize, text_bytes: usize, change: impl FnOnce(&mut SessionSettings)) -> Self {
        let dir = TempDir::new();
        let mut settings = Settings::of(venue(|s| {
            s.store.durability = Durability::Process;
            s.store.store_dir = dir.path().into();
            change(s);
        }));
        settings.engine.application_threads = threads;
        let ((tell, executed), (release, hold)) = (channel(), channel());
        let mut hold = Some(hold);
        let text = "x".repeat(text_bytes);
        let engine = Engine::start(&settings, |_| {
            let (executed, text) = (tell.clone(), text.clone());
            Box::new(Trader { executed, text, hold: hold.take() })
        });
        Self { engine: engine.unwrap(), executed, release, dir }
    }
}

/// Logs on again with the number `seq`, and requests all messages from the beginning. Returns the
/// IDs of the reports that arrive before the Heartbeat(0) which answers the last TestRequest(1).
fn asked_again(desk: &Desk, seq: u64) -> Vec<String> {
    let until_ns = clock::monotonic_ns() + SETTLED.as_nanos() as u64;
    let (mut wire, last) = loop {
        let mut wire = Wire::connect(desk.engine.listening()[0], BeginString::Fix44);
        wire.send(&format!("35=A|34={seq}|98=0|108=30"));
        // The engine closes this connection if the previous one has not ended yet.
        match &*wire.next() {
            "" => assert!(clock::monotonic_ns() < until_ns, "it never logs on again"),
            answer => {
                assert!(answer.starts_with("35=A|"), "{answer}");
                let last: u64 = field(answer, "34").unwrap().parse().unwrap();
                break (wire, last);
            }
        }
    };
    wire.send(&format!("35=2|34={}|7=1|16=0", seq + 1));
    let mut ids = Vec::new();
    let mut asks_for_the_end = false;
    loop {
        let message = wire.next();
        assert_ne!(message, "");
        assert!(!message.starts_with("35=j") && !message.starts_with("35=3|"), "{message}");
        if message.starts_with("35=2|") {
            // The connection ended during a callback: the engine requests the later messages again.
            let from = field(&message, "7").unwrap();
            wire.send(&format!("35=4|34={from}|43=Y|122=20200101-00:00:00|123=Y|36={}", seq + 1));
        }
        if message.ends_with("|112=end") {
            return ids;
        }
        if message.starts_with("35=8|") {
            ids.push(field(&message, "11").unwrap().to_owned());
        }
        // A resent message may arrive after newer messages, because the engine first asks the
        // application about it.
        let fills_to = field(&message, "36").and_then(|next| next.parse::<u64>().ok());
        if !asks_for_the_end && fills_to.is_some_and(|next| next > last) {
            asks_for_the_end = true;
            wire.send(&format!("35=1|34={}|112=end", seq + 2));
        }
    }
}

/// Returns the value of a field in a line.
fn field<'l>(line: &'l str, tag: &str) -> Option<&'l str> {
    line.split('|').find_map(|field| field.strip_prefix(tag)?.strip_prefix('='))
}

#[test]
fn a_slow_reader_loses_its_connection_and_no_answer() {
    for threads in [0, 2] {
        let desk = Desk::open(threads, 64 << 10, |s| {
            s.queue.queued_bytes_max = 1 << 20;
            s.queue.slow_consumer_bytes = 0;
        });
        // The counterparty sends orders and reads nothing: the answers exceed the sockets and the
        // queue. Heartbeats are off, because each would use a number.
        let mut wire = Wire::connect(desk.engine.listening()[0], BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=0");
        assert!(wire.next().starts_with("35=A|"));
        for n in 2..402 {
            wire.send(&format!("35=D|34={n}|11={n}"));
        }
        let handle = desk.engine.sessions().next().unwrap();
        let mut executed = Vec::new();
        let until_ns = clock::monotonic_ns() + SETTLED.as_nanos() as u64;
        // Each answer has a number; the first number belongs to the Logon(A).
        while handle.is_logged_on() || handle.next_numbers().1 != executed.len() as u64 + 2 {
            executed.extend(desk.executed.try_iter());
            let state = (handle.is_logged_on(), handle.next_numbers(), executed.len());
            assert!(clock::monotonic_ns() < until_ns, "{threads} threads: not settled: {state:?}");
            std::thread::yield_now();
        }
        drop(wire);
        // The counterparty continues with the number after its last order, and does not resend
        // orders that were not executed.
        let ids = asked_again(&desk, 402);
        // The last order may have been in its callback until now.
        executed.extend(desk.executed.try_iter());
        assert_eq!(ids, executed, "{threads} threads");
    }
}

#[test]
fn an_order_that_comes_behind_our_logout_is_answered() {
    for (threads, way) in [0, 2].into_iter().flat_map(|threads| ways().map(move |w| (threads, w))) {
        let desk = Desk::of(threads, way);
        let mut wire = logged_on(desk.engine.listening()[0]);
        let handle = desk.engine.sessions().next().unwrap();
        handle.operate(&Action::LogOut { text: "the desk closes".to_owned() }).unwrap();
        assert_eq!(wire.next(), "35=5|34=2|58=the desk closes");
        for n in 2..7 {
            wire.send(&format!("35=D|34={n}|11={n}"));
        }
        let executed: Vec<_> = (2..7).map(|_| desk.executed.recv_timeout(LONG).unwrap()).collect();
        wire.send("35=5|34=7");
        assert_eq!(wire.next(), "", "{threads} threads, {way:?}");
        handle.operate(&Action::LogOn {}).unwrap();
        assert_eq!(asked_again(&desk, 8), executed, "{threads} threads, {way:?}");
    }
}

/// Returns the numbers of sent messages in the journal, and the next expected number.
fn kept(dir: &TempDir) -> (Vec<u64>, Option<u64>) {
    let (mut sent, mut next_in) = (Vec::new(), None);
    for entry in journal::read(&dir.path().join("FIX.4.4-VENUE-CLIENT")).unwrap() {
        match entry.unwrap().event {
            Event::Outbound(message) => sent.push(message.seq),
            Event::NextIn(seq) => next_in = Some(seq),
            _ => {}
        }
    }
    (sent, next_in)
}

#[test]
fn a_connection_that_ends_in_a_call_leaves_the_answer_and_its_number() {
    for way in ways() {
        let desk = Desk::of(2, way);
        let mut wire = logged_on(desk.engine.listening()[0]);
        wire.send("35=D|34=2|11=hold");
        assert_eq!(desk.executed.recv_timeout(LONG).unwrap(), "hold");
        drop(wire);
        let until_ns = clock::monotonic_ns() + SETTLED.as_nanos() as u64;
        let next_in = loop {
            let (sent, next_in) = kept(&desk.dir);
            if sent.contains(&2) {
                break next_in;
            }
            assert!(clock::monotonic_ns() < until_ns, "{way:?}: the answer is not kept");
            std::thread::yield_now();
        };
        assert!(next_in > Some(2), "{way:?}: the order would come again: {next_in:?}");
        desk.release.send(()).unwrap();
    }
}

#[test]
fn an_engine_that_stops_in_a_call_keeps_the_answer_and_its_number() {
    // In both modes, a stopping engine waits for the callback for a while.
    for way in [(Mode::Pool, Durability::Process), (Mode::Dedicated, Durability::Power)] {
        let Desk { engine, executed, release, dir } = Desk::of(2, way);
        let mut wire = logged_on(engine.listening()[0]);
        wire.send("35=D|34=2|11=hold");
        assert_eq!(executed.recv_timeout(LONG).unwrap(), "hold");
        engine.stop(Duration::from_millis(1));
        let (sent, next_in) = kept(&dir);
        assert!(sent.contains(&2), "{way:?}: the answer: {sent:?}");
        assert!(next_in > Some(2), "{way:?}: the order would come again: {next_in:?}");
        release.send(()).unwrap();
    }
}

#[test]
fn an_answer_is_committed_with_the_number_that_it_answers() {
    for way in ways() {
        let desk = Desk::of(2, way);
        let mut wire = logged_on(desk.engine.listening()[0]);
        wire.send("35=D|34=2|11=hold");
        assert_eq!(desk.executed.recv_timeout(LONG).unwrap(), "hold");
        // The session continues while the application has sent the first of two answers.
        wire.send("35=1|34=3|112=x");
        let mut came = [wire.next(), wire.next()];
        came.sort();
        assert_eq!(came[0], "35=0|34=3|112=x", "{way:?}");
        let (sent, next_in) = kept(&desk.dir);
        assert!(sent.contains(&2), "{way:?}: the answer is on the wire");
        assert!(next_in > Some(2), "{way:?}: and so the order counts");
        desk.release.send(()).unwrap();
        assert!(wire.next().starts_with("35=8|34=4|11=hold|58=end"), "{way:?}");
    }
}

/// An answer sent during a callback is written although no other event wakes the session's worker.
#[test]
fn an_answer_goes_out_while_its_call_goes_on() {
    for way in ways() {
        let desk = Desk::of(2, way);
        let mut wire = Wire::connect(desk.engine.listening()[0], BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=3600");
        assert!(wire.next().starts_with("35=A|"));
        wire.send("35=D|34=2|11=hold");
        assert!(wire.next().starts_with("35=8|34=2|11=hold|"), "{way:?}");
        desk.release.send(()).unwrap();
    }
}
