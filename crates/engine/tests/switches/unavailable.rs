//! Tests application threads whose applications are not available, or whose queues are full.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Engine, Message, SessionNotice, SessionRef,
    SessionSettings, SessionView, Settings, UnavailableAction, WhenFull, clock, tag,
};

use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, venue};

/// A time limit for loops that normally end much earlier.
const SETTLED: Duration = Duration::from_secs(300);

/// Reports each offered message, and answers each accepted order. Refuses the first offer of an
/// order whose name begins with `busy`. An order named `wait` or `busy wait` first waits for the
/// test.
struct Choosy {
    told: Sender<String>,
    gate: Arc<Mutex<Receiver<()>>>,
    offered: HashSet<String>,
}

impl Application for Choosy {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?;
        let _ = self.told.send(id.to_owned());
        let is_first = self.offered.insert(id.to_owned());
        if is_first && id.ends_with("wait") {
            self.gate.lock().unwrap().recv_timeout(SETTLED).unwrap();
        }
        if is_first && id.starts_with("busy") {
            return Err(BusinessReject::not_available());
        }
        let _ = session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id));
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            let _ = self.told.send(format!("end: {}", end.reason));
        }
    }
}

struct Rig {
    engine: Engine,
    told: Receiver<String>,
    open: Sender<()>,
}

impl Rig {
    fn start(application_threads: usize, session: SessionSettings) -> Self {
        let mut settings = Settings::of(session);
        settings.engine.application_threads = application_threads;
        let ((tell, told), (open, gate)) = (channel(), channel());
        let gate = Arc::new(Mutex::new(gate));
        let engine = Engine::start(&settings, |_| {
            let (told, gate) = (tell.clone(), Arc::clone(&gate));
            Box::new(Choosy { told, gate, offered: HashSet::new() })
        });
        Self { engine: engine.unwrap(), told, open }
    }

    fn wire(&self) -> Wire {
        logged_on(self.engine.listening()[0])
    }

    /// Logs on again with the MsgSeqNum(34) `seq`. Returns the connection and the answer.
    fn wire_again(&self, seq: u64) -> (Wire, String) {
        let until_ns = clock::monotonic_ns() + SETTLED.as_nanos() as u64;
        loop {
            let mut wire = Wire::connect(self.engine.listening()[0], BeginString::Fix44);
            wire.send(&format!("35=A|34={seq}|98=0|108=30"));
            // The engine closes this connection if the previous one has not ended yet.
            let answer = wire.next();
            if !answer.is_empty() {
                return (wire, answer);
            }
            assert!(clock::monotonic_ns() < until_ns, "it never logs on again");
        }
    }

    #[track_caller]
    fn expect(&self, what: &str) {
        assert_eq!(self.told.recv_timeout(LONG).unwrap(), what);
    }
}

/// Sends these orders in a single write; `first` is the number of the first order.
fn send_orders(wire: &mut Wire, first: u64, ids: &[String]) {
    let orders = (first..).zip(ids).map(|(seq, id)| wire.frame(&format!("35=D|34={seq}|11={id}")));
    let orders = orders.collect::<Vec<_>>().concat();
    wire.write(&orders);
}

#[test]
fn messages_that_are_taken_at_the_second_offer_keep_their_order() {
    for (threads, messages_max) in [(1, 1), (1, 3), (4, 10_000)] {
        let rig = Rig::start(
            threads,
            venue(|s| {
                (s.unavailable.retries, s.unavailable.delay) = (1, Duration::from_millis(1));
                s.application.messages_max = messages_max;
            }),
        );
        let mut wire = rig.wire();
        let name = |n: u64| if n.is_multiple_of(5) { format!("a{n}") } else { format!("busy{n}") };
        let mut ids: Vec<_> = (2..42).map(name).collect();
        "busy wait".clone_into(&mut ids[0]);
        send_orders(&mut wire, 2, &ids);
        rig.open.send(()).unwrap();
        for (seq, id) in (2..).zip(&ids) {
            rig.expect(id);
            if id.starts_with("busy") {
                rig.expect(id);
            }
            assert_eq!(wire.next(), format!("35=8|34={seq}|11={id}"), "{threads} threads");
        }
        wire.send("35=1|34=42|112=x");
        assert_eq!(wire.next(), "35=0|34=42|112=x");
        assert!(rig.told.try_recv().is_err(), "more offers than one and its repetition");
        assert_eq!(rig.engine.sessions().next().unwrap().next_numbers(), (43, 43));
    }
}

/// A message from before a reset is delivered at the start of the next connection, because only the
/// engine still has it.
#[test]
fn a_message_of_before_a_reset_is_offered_in_the_next_connection() {
    for retries in [0, 1] {
        let rig = Rig::start(
            1,
            venue(|s| {
                s.unavailable.then = UnavailableAction::Disconnect;
                (s.unavailable.retries, s.unavailable.delay) = (retries, Duration::from_millis(1));
            }),
        );
        let mut wire = rig.wire();
        send_orders(&mut wire, 2, &["busy wait".to_owned()]);
        rig.expect("busy wait");
        wire.send("35=A|34=1|98=0|108=30|141=Y");
        assert!(wire.next().starts_with("35=A|34=1|"));
        send_orders(&mut wire, 2, &["a".to_owned()]);
        wire.send("35=1|34=3|112=x");
        assert_eq!(wire.next(), "35=0|34=2|112=x");
        rig.open.send(()).unwrap();
        if retries == 0 {
            assert_eq!(wire.next(), "35=5|34=3|58=application not available");
            assert_eq!(wire.next(), "");
            let answer;
            (wire, answer) = rig.wire_again(4);
            assert!(answer.starts_with("35=A|"), "{answer}");
            rig.expect("busy wait");
            rig.expect("end: application not available");
            let mut came = [wire.next(), wire.next()];
            came.sort();
            assert_eq!(came[0], "35=2|34=5|7=2|16=0");
            assert_eq!(came[1], "35=8|34=6|11=busy wait");
            wire.send("35=D|34=2|43=Y|122=20261118-10:00:00|11=a");
            rig.expect("a");
            assert_eq!(wire.next(), "35=8|34=7|11=a");
        } else {
            rig.expect("busy wait");
            rig.expect("a");
            assert_eq!(wire.next(), "35=8|34=3|11=busy wait");
            assert_eq!(wire.next(), "35=8|34=4|11=a");
        }
        let more: Vec<_> = rig.told.try_iter().collect();
        assert!(more.is_empty(), "{retries} retries: {more:?}");
    }
}

#[test]
fn one_write_of_more_than_may_wait_ends_the_connection_once() {
    for (threads, messages_max) in [(1, 3), (1, 10), (4, 10)] {
        let rig = Rig::start(
            threads,
            venue(|s| {
                s.application.when_full = WhenFull::Disconnect;
                s.application.messages_max = messages_max;
            }),
        );
        let mut wire = rig.wire();
        send_orders(&mut wire, 2, &["wait".to_owned()]);
        rig.expect("wait");
        let ids: Vec<_> = (3..42).map(|n| format!("a{n}")).collect();
        send_orders(&mut wire, 3, &ids);
        assert_eq!(wire.next(), "35=5|34=2|58=application not available");
        assert_eq!(wire.next(), "");
        rig.open.send(()).unwrap();
        rig.expect("end: application not available");
        let (mut wire, answer) = rig.wire_again(42);
        assert!(answer.starts_with("35=A|34=4|"), "{answer}: 3 is the answer to the first");
        assert_eq!(wire.next(), "35=2|34=5|7=3|16=0", "it has had the first alone");
        for (seq, id) in (3..).zip(&ids) {
            wire.send(&format!("35=D|34={seq}|43=Y|122=20261118-10:00:00|11={id}"));
            rig.expect(id);
            assert_eq!(wire.next(), format!("35=8|34={}|11={id}", seq + 3));
        }
        wire.send("35=4|34=42|43=Y|122=20261118-10:00:00|123=Y|36=43");
        wire.send("35=1|34=43|112=x");
        assert_eq!(wire.next(), "35=0|34=45|112=x");
        assert!(rig.told.try_recv().is_err(), "had twice, or ended twice");
        assert_eq!(rig.engine.sessions().next().unwrap().next_numbers(), (44, 46));
    }
}
