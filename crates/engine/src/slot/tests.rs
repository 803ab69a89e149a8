//! A slot with clocks that the test sets, and how long an initiator waits.

use std::sync::Arc;

use transfix_codec::{FrameWriter, Precision, tag};
use transfix_session::{BeginString, Role};
use transfix_transport::memory::{MemoryStream, pipe};

use super::*;
use crate::application::{Application, BusinessReject, SessionRef};
use crate::engine::open;
use crate::handle::Registry as Sessions;
use crate::rule_book::RuleBook;
use crate::schedule::ScheduleSettings;
use crate::settings::{Durability, SessionSettings};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

struct Deaf;

impl Application for Deaf {
    fn on_message(
        &mut self,
        _: &transfix_codec::Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

fn session(role: Role) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    let mut settings = SessionSettings::new(role, &id, "");
    settings.durability = Durability::Memory;
    settings.sending_time_tolerance_s = 0;
    settings
}

fn shared(settings: &SessionSettings) -> Arc<Shared> {
    let sessions = Arc::new(Sessions::new(Arc::new(RuleBook::default())));
    Arc::new(open(settings, Box::new(Deaf), &sessions).unwrap())
}

/// An acceptor whose window is a day, from midnight to midnight.
fn logged_on(now: Now) -> (Slot, MemoryStream) {
    let mut settings = session(Role::Acceptor);
    let all_day = ScheduleSettings {
        from: Some("00:00".to_owned()),
        to: Some("00:00".to_owned()),
        ..ScheduleSettings::in_zone("UTC")
    };
    settings.schedule = Some(all_day);
    let mut slot = Slot::new(shared(&settings), None);
    let (near, far) = pipe(1 << 16);
    let mut logon = Vec::new();
    let mut frame = FrameWriter::new(&mut logon, b"FIX.4.4", b"A");
    frame.raw(b"49=THEM\x0156=US\x0134=1\x01");
    frame.header_timestamp(tag::SENDING_TIME, now.utc, Precision::Millis);
    frame.raw(b"98=0\x01108=30\x01");
    frame.finish().unwrap();
    slot.attach(now, Box::new(near), &logon, None).unwrap();
    while slot.turn().unwrap().again {}
    slot.tick(now).unwrap();
    (slot, far)
}

/// What the session has sent, readable.
fn sent(far: &mut MemoryStream) -> String {
    let mut buffer = [0; 4096];
    let n = far.read(&mut buffer).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..n]).replace('\x01', "|")
}

#[test]
fn a_clock_that_jumps_into_another_window_ends_the_session_at_the_next_tick() {
    let now = clock::now();
    let later = |utc_ns: u64, monotonic_ns: u64| Now {
        utc: transfix_codec::Timestamp(now.utc.0 + utc_ns as i64),
        monotonic_ns: now.monotonic_ns + monotonic_ns,
    };
    let (mut slot, mut far) = logged_on(now);
    assert!(sent(&mut far).contains("|35=A|"));
    slot.tick(later(0, SECOND)).unwrap();
    assert_eq!(sent(&mut far), "", "nothing has happened");
    // The machine has slept: its monotonic clock too.
    slot.tick(later(DAY + SECOND, SECOND)).unwrap();
    let logout = sent(&mut far);
    assert!(logout.contains("|35=5|") && logout.contains("closed by its schedule"), "{logout}");
}

#[test]
fn a_refused_logon_slows_the_next_try_down() {
    let options = SocketOptions::default();
    let mut dial = Dial::new(Vec::new(), options, (500, 3_000));
    let mut waits = Vec::new();
    for _ in 0..6 {
        waits.push(dial.wait_ns() / MS);
        dial.refusals += 1;
    }
    assert_eq!(waits, [500, 1_000, 2_000, 3_000, 3_000, 3_000]);
    dial.refusals = u32::MAX;
    assert_eq!(dial.wait_ns() / MS, 3_000);
    let mut steady = Dial::new(Vec::new(), SocketOptions::default(), (500, 1));
    steady.refusals = 9;
    assert_eq!(steady.wait_ns() / MS, 500, "never faster than the interval");
}

#[test]
fn an_operator_does_not_wait_for_the_pause_of_refused_logons() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let poll = transfix_transport::Poll::new().unwrap();
    let mut dial = Dial::new(vec![address], SocketOptions::default(), (1_000, 60_000));
    let now = clock::now();
    (dial.refusals, dial.state) = (9, DialState::At(now.monotonic_ns + 60 * SECOND));
    let mut slot = Slot::new(shared(&session(Role::Initiator)), Some(dial));
    let tries = |slot: &mut Slot| {
        slot.dial(now, poll.registry(), Token(0), true).unwrap();
        !matches!(slot.dial.as_ref().unwrap().state, DialState::At(_))
    };
    assert!(!tries(&mut slot), "it waits");
    crate::SessionHandle { shared: Arc::clone(&slot.shared) }.log_on();
    assert!(tries(&mut slot));
    assert_eq!(slot.dial.as_ref().unwrap().refusals, 0);
}
