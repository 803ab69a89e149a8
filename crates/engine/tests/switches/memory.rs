//! The limit on waiting bytes of all sessions together: the session with the most is disconnected,
//! the others stay.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use transfix::{
    BeginString, Disconnect, Engine, SendError, SendMode, SessionId, SessionNotice, Settings, tag,
};
use transfix_testkit::app::App;

use crate::switches::wire::Wire;
use crate::switches::{LONG, echo, venue};

/// Returns an application that reports ended sessions with their reasons.
fn end_recorder(sender: Sender<(String, Disconnect)>) -> App {
    echo().on_notice(move |notice, session| {
        if let SessionNotice::Disconnected(end) = notice {
            sender.send((session.id().target_comp_id.to_string(), end.reason)).unwrap();
        }
    })
}

/// Sends to a counterparty that never reads, until the sockets are full or the session ends.
/// Returns the ended sessions.
fn flood(send: SendMode, waiting_bytes_max: usize) -> Vec<(String, Disconnect)> {
    const FLOOD: usize = 24 << 20;
    let sessions = ["CLIENT", "STALLED", "LIGHT"].map(|them| {
        venue(|s| {
            s.target_comp_id = them.to_owned();
            s.threads.send = send;
            s.queue.queued_bytes_max = 2 * FLOOD;
        })
    });
    let mut settings = Settings { sessions: sessions.into(), ..Settings::default() };
    settings.engine.waiting_bytes_max = waiting_bytes_max;
    let (sender, ends) = channel();
    let engine = Engine::start(&settings, |_| Box::new(end_recorder(sender.clone()))).unwrap();
    let mut wires = ["CLIENT", "STALLED", "LIGHT"].map(|them| {
        let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
        wire.send(&format!("35=A|34=1|49={them}|98=0|108=30"));
        assert!(wire.next().starts_with("35=A|"), "{them}");
        wire
    });
    let id = SessionId::new(BeginString::Fix44, "VENUE", "STALLED");
    let handle = engine.session(&id).unwrap();
    let text = "x".repeat(64 << 10);
    for _ in 0..FLOOD / text.len() {
        match handle.send("B", |news| _ = news.str(tag::TEXT, &text)) {
            Ok(_) => {}
            Err(SendError::NotLoggedOn) => break,
            Err(error) => panic!("not sent: {error}"),
        }
    }
    let patience = if waiting_bytes_max > 0 { LONG } else { Duration::from_millis(50) };
    let mut ended = Vec::new();
    match ends.recv_timeout(patience) {
        Ok(end) => ended.push(end),
        Err(error) => assert_eq!(error, RecvTimeoutError::Timeout),
    }
    wires[0].send("35=D|34=2|11=echo");
    assert_eq!(wires[0].next(), "35=D|34=2|11=echo", "the others go on");
    ended.extend(ends.try_iter());
    ended
}

#[test]
fn the_heaviest_session_makes_room() {
    for send in [SendMode::Direct, SendMode::Queued] {
        let expected = [("STALLED".to_owned(), Disconnect::MemoryLimit)];
        assert_eq!(flood(send, 1 << 20), expected);
        assert_eq!(flood(send, 0), [], "without a limit");
    }
}
