//! Tests engine defects that simulations have found, each with the shortest exchange that shows it.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use transfix::schedule::{NumbersAtOpening, Outside, ScheduleSettings};
use transfix::simulated::{SimulatedSession, Simulation};
use transfix::{
    Action, Application, BeginString, BusinessReject, Durability, Message, Now, Offline, Role,
    Sent, SessionId, SessionRef, SessionSettings, Timestamp, tag,
};
use transfix_codec::FrameWriter;

/// 2026-11-21 12:00:00.
const NOON_NS: i64 = 1_795_262_400_000_000_000;
const MS: u64 = 1_000_000;

/// An application that counts the messages it receives.
#[derive(Default)]
struct Counter(Arc<AtomicUsize>);

impl Application for Counter {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn after_ms(ms: u64) -> Now {
    Now { utc: Timestamp(NOON_NS + (ms * MS) as i64), monotonic_ns: ms * MS }
}

/// Returns a simulated session that is logged on, with settings that `change` may change.
fn session(change: impl FnOnce(&mut SessionSettings)) -> SimulatedSession {
    session_of(Counter::default(), change)
}

fn session_of(application: Counter, change: impl FnOnce(&mut SessionSettings)) -> SimulatedSession {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "");
    settings.store.durability = Durability::Memory;
    change(&mut settings);
    let mut session = Simulation::default().session(&settings, Box::new(application)).unwrap();
    log_on(&mut session, 0, 1);
    session
}

fn log_on(session: &mut SimulatedSession, ms: u64, seq: u64) {
    session.connect(after_ms(ms));
    receive(session, ms, ("A", seq), "98=0\x01108=30\x01");
}

fn receive(session: &mut SimulatedSession, ms: u64, (kind, seq): (&str, u64), fields: &str) {
    let mut bytes = Vec::new();
    let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", kind.as_bytes());
    frame.raw(format!("49=THEM\x0156=US\x0134={seq}\x0152=20261121-12:00:00\x01").as_bytes());
    frame.raw(fields.as_bytes());
    frame.finish().unwrap();
    session.receive(after_ms(ms), &bytes);
}

fn send(session: &mut SimulatedSession, ms: u64, id: u64) -> Sent {
    session.send(after_ms(ms), "D", |body| _ = body.uint(tag::CL_ORD_ID, id)).unwrap()
}

/// A session that logs out during the pause after its logon lets its thread sleep. Before, the end
/// of the pause stayed due (simulation `applications`, seed 1000061).
#[test]
fn a_pause_ends_while_logging_out() {
    let mut session = session(|settings| {
        settings.queue.offline = Offline::Queue;
        settings.queue.queue_pause = Duration::from_millis(50);
    });
    session.operate(after_ms(10), &Action::LogOut { text: String::new() }).unwrap();
    session.tick(after_ms(50));
    assert!(session.next_deadline().unwrap() > 50 * MS);
}

/// Messages that wait in the queue when the connection ends are stored before later messages.
/// Before, a later message overtook them (simulation `applications`, seed 1000021).
#[test]
fn what_waits_when_the_connection_ends_is_stored_first() {
    let mut session = session(|settings| {
        settings.queue.offline = Offline::Store;
        settings.queue.queue_pause = Duration::from_secs(1);
    });
    assert!(matches!(send(&mut session, 10, 1), Sent::Queued { .. }));
    session.close(after_ms(20));
    assert_eq!(session.next_numbers().1, 3, "it has its number");
    assert_eq!(send(&mut session, 30, 2), Sent::Stored(3));
}

/// A queue that is larger than the room in the output is sent completely. Before, the rest waited
/// for another event.
#[test]
fn a_queue_larger_than_its_room_is_sent_to_its_end() {
    let mut session = session(|settings| {
        settings.queue.offline = Offline::Queue;
        settings.queue.queued_bytes_max = 200;
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

/// A session that stays connected outside of its schedule windows delivers rejects of its messages
/// to the application. Before, it did not (simulation `schedules`, seed 1000000).
#[test]
fn a_reject_is_delivered_outside_of_all_windows() {
    let count = Arc::new(AtomicUsize::new(0));
    let mut session = session_of(Counter(Arc::clone(&count)), |settings| {
        let mut schedule = ScheduleSettings::in_zone("UTC");
        schedule.from = Some("13:00".to_owned());
        schedule.to = Some("14:00".to_owned());
        schedule.numbers = NumbersAtOpening::Keep;
        schedule.outside = Outside::Reject("closed".to_owned());
        settings.schedule = Some(schedule);
        settings.validation.validate = false;
    });
    receive(&mut session, 1, ("D", 2), "11=a\x01");
    assert_eq!(count.load(Ordering::Relaxed), 0);
    receive(&mut session, 2, ("j", 3), "45=2\x01372=D\x01380=4\x01");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
