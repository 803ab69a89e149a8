//! What simulated worlds have found in the engine, each as the shortest exchange that shows it.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use transfix::codec::FrameWriter;
use transfix::simulated::{SimulatedSession, Simulation};
use transfix::{
    Application, BeginString, BusinessReject, Durability, Message, Now, Offline, Role, Sent,
    SessionId, SessionRef, SessionSettings, Timestamp, tag,
};

/// 2026-11-21 12:00:00.
const NOON_NS: i64 = 1_795_262_400_000_000_000;
const MS: u64 = 1_000_000;

struct Deaf;

impl Application for Deaf {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

fn after_ms(ms: u64) -> Now {
    Now { utc: Timestamp(NOON_NS + (ms * MS) as i64), monotonic_ns: ms * MS }
}

/// A session that is logged on.
fn session(change: impl FnOnce(&mut SessionSettings)) -> SimulatedSession {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "");
    settings.durability = Durability::Memory;
    change(&mut settings);
    let mut session = Simulation::default().session(&settings, Box::new(Deaf)).unwrap();
    log_on(&mut session, 0, 1);
    session
}

fn log_on(session: &mut SimulatedSession, ms: u64, seq: u64) {
    session.connect(after_ms(ms));
    let mut logon = Vec::new();
    let mut frame = FrameWriter::new(&mut logon, b"FIX.4.4", b"A");
    frame.raw(format!("49=THEM\x0156=US\x0134={seq}\x0152=20261121-12:00:00\x01").as_bytes());
    frame.raw(b"98=0\x01108=30\x01");
    frame.finish().unwrap();
    session.receive(after_ms(ms), &logon);
}

fn send(session: &mut SimulatedSession, ms: u64, id: u64) -> Sent {
    session.send(after_ms(ms), "D", |body| _ = body.uint(tag::CL_ORD_ID, id)).unwrap()
}

/// The end of the pause after a logon was due for as long as the session was logging out, so that
/// its thread did not sleep (applications, seed 1000061).
#[test]
fn a_pause_ends_while_logging_out() {
    let mut session = session(|settings| {
        settings.offline = Offline::Queue;
        settings.queue_pause_ms = 50;
    });
    session.log_out(after_ms(10), "");
    session.tick(after_ms(50));
    assert!(session.next_deadline().unwrap() > 50 * MS);
}

/// What waited in the queue when the connection ended was overtaken by what was stored behind it
/// (applications, seed 1000021).
#[test]
fn what_waits_when_the_connection_ends_is_stored_first() {
    let mut session = session(|settings| {
        settings.offline = Offline::Store;
        settings.queue_pause_ms = 1_000;
    });
    assert!(matches!(send(&mut session, 10, 1), Sent::Queued { .. }));
    session.close(after_ms(20));
    assert_eq!(session.next_numbers().1, 3, "it has its number");
    assert_eq!(send(&mut session, 30, 2), Sent::Stored(3));
}

/// What had found no room beside what waited for the socket was left in the queue until something
/// else happened.
#[test]
fn a_queue_larger_than_its_room_is_sent_to_its_end() {
    let mut session = session(|settings| {
        settings.offline = Offline::Queue;
        settings.queued_bytes_max = 200;
    });
    session.close(after_ms(10));
    session.take_output();
    let handed_over = (1..40).filter(|id| {
        let fill = |body: &mut transfix::Body<'_>| _ = body.uint(tag::CL_ORD_ID, *id);
        session.send(after_ms(20), "D", fill).is_ok()
    });
    let handed_over = handed_over.count();
    log_on(&mut session, 30, 2);
    let output = session.take_output();
    let sent = output.windows(5).filter(|part| part == b"\x0135=D").count();
    assert_eq!((sent, handed_over > 10), (handed_over, true));
}
