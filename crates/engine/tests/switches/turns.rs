//! Tests that a burst in one session does not delay the other sessions of its worker.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use transfix::{
    Application, BeginString, BusinessReject, Direction, Engine, Message, SendMode, SessionRef,
    SessionView, Settings, tag,
};

use crate::switches::wire::Wire;
use crate::switches::{LONG, echo, logged_on, start, venue};

/// An application that reports the session of each message, and blocks at an order named `wait`.
struct Teller {
    name: &'static str,
    seen: Sender<&'static str>,
    gate: Arc<Mutex<Receiver<()>>>,
}

impl Application for Teller {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.seen.send(self.name).unwrap();
        if message.text(tag::CL_ORD_ID) == Ok("wait") {
            self.gate.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        Ok(())
    }

    fn wants_wire(&self) -> bool {
        true
    }

    /// Reports the orders that the session sends.
    fn on_wire(&mut self, direction: Direction, message: &[u8], _: &SessionView<'_>) {
        if direction == Direction::Outbound
            && message.windows(6).any(|bytes| bytes == b"\x0135=D\x01")
        {
            self.seen.send(self.name).unwrap();
        }
    }
}

const BURST: usize = 60;

/// The way in which the messages of a burst reach the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Burst {
    /// In order.
    InOrder,
    /// The messages arrive in order, followed by the end of the stream.
    AndTheEnd,
    /// The first message arrives last, so the others are kept above a gap.
    Reversed,
    /// Other threads send the messages.
    Outbound,
}

/// Returns the sessions of the messages in the order of handling. All messages arrive before the
/// worker handles the first.
fn order_of(turn_messages_max: u32, burst: Burst) -> Vec<&'static str> {
    let names = ["GATE", "FIRST", "SECOND"];
    let sessions = names.map(|name| {
        venue(|s| {
            s.target_comp_id = name.to_owned();
            s.threads.turn_messages_max = turn_messages_max;
            s.threads.send = SendMode::Queued;
        })
    });
    let mut settings = Settings { sessions: sessions.to_vec(), ..Settings::default() };
    settings.engine.workers = 1;
    let (seen, all_seen) = channel();
    let (open, gate) = channel();
    let gate = Arc::new(Mutex::new(gate));
    let engine = Engine::start(&settings, |id| {
        let name = *names.iter().find(|name| **name == &*id.target_comp_id).unwrap();
        Box::new(Teller { name, seen: seen.clone(), gate: Arc::clone(&gate) })
    });
    let engine = engine.unwrap();
    let mut wires = names.map(|name| {
        let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
        wire.send(&format!("35=A|49={name}|34=1|98=0|108=30"));
        assert!(wire.next().starts_with("35=A|"));
        wire
    });
    wires[0].send("35=D|49=GATE|34=2|11=wait");
    assert_eq!(all_seen.recv_timeout(LONG), Ok("GATE"));
    for (name, wire) in names.iter().zip(&mut wires).skip(1) {
        if burst == Burst::Outbound {
            let session = engine.sessions().find(|s| &*s.id().target_comp_id == *name).unwrap();
            for _ in 0..BURST {
                session.send("D", |order| _ = order.str(tag::CL_ORD_ID, "a")).unwrap();
            }
            continue;
        }
        let mut seqs: Vec<_> = (2..BURST + 2).collect();
        if burst == Burst::Reversed {
            seqs.rotate_left(1);
        }
        let orders = seqs.iter().map(|seq| wire.frame(&format!("35=D|49={name}|34={seq}|11=a")));
        let orders: Vec<u8> = orders.collect::<Vec<_>>().concat();
        wire.write(&orders);
        if burst == Burst::AndTheEnd {
            wire.end();
        }
    }
    open.send(()).unwrap();
    (0..2 * BURST).map(|_| all_seen.recv_timeout(LONG).unwrap()).collect()
}

#[test]
fn a_burst_of_one_session_does_not_hold_up_the_others() {
    let longest_run = |order: &[&str]| {
        order.chunk_by(|one, next| one == next).map(<[_]>::len).max().unwrap_or_default()
    };
    for burst in [Burst::InOrder, Burst::AndTheEnd, Burst::Outbound] {
        for max in [1, 5, 20] {
            let order = order_of(max, burst);
            assert_eq!(longest_run(&order), max as usize, "messages in a row: {burst:?}");
        }
    }
    // Kept messages count toward the limit of a turn. Messages that arrive while none can be
    // delivered do not show in this test.
    for max in [5, 20] {
        assert!(longest_run(&order_of(max, Burst::Reversed)) <= max as usize);
    }
    for burst in [Burst::InOrder, Burst::Outbound] {
        // Without the limit, a turn processes all messages of one read.
        assert!(longest_run(&order_of(1_000, burst)) > 20, "{burst:?}");
    }
}

/// A Logout(5) that arrives together with a ResendRequest(2) is answered after the resent messages,
/// even if these need several turns and the counterparty reads slowly.
#[test]
fn a_logout_is_answered_behind_the_messages_that_are_sent_again() {
    const COUNT: u64 = 400;
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let mut wire = logged_on(address);
    let id = "x".repeat(5_000);
    for seq in 2..2 + COUNT {
        wire.send(&format!("35=D|34={seq}|11={id}"));
        assert!(wire.next().starts_with("35=D|"));
    }
    let last = 2 + COUNT;
    let both = [
        wire.frame(&format!("35=2|34={last}|7=2|16=0")),
        wire.frame(&format!("35=5|34={}", last + 1)),
    ];
    wire.write(&both.concat());
    for seq in 2..2 + COUNT {
        assert!(wire.next().starts_with(&format!("35=D|34={seq}|43=Y|")), "{seq}");
    }
    assert_eq!(wire.next(), format!("35=5|34={last}"));
    assert_eq!(wire.next(), "");
    drop(engine);
}
