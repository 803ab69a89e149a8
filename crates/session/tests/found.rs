//! Defects that the simulation has found, each with the shortest exchange that shows it.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, Message, Timestamp, tag};
use transfix_session::{
    BeginString, Config, Disconnect, Entry, Now, Outbox, ResetCause, Role, Session, SessionId,
    Verdict,
};

fn now() -> Now {
    Now { utc: Timestamp::parse(b"20261121-12:00:00").unwrap(), monotonic_ns: 1_000_000_000 }
}

fn frame(msg_type: &str, fields: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
    for field in ["49=THEM", "56=US", "52=20261121-12:00:00"].iter().chain(fields) {
        frame.raw(field.as_bytes());
        frame.raw(b"\x01");
    }
    frame.finish().unwrap();
    out
}

fn receive(session: &mut Session, out: &mut Outbox, msg_type: &str, fields: &[&str]) -> Verdict {
    let bytes = frame(msg_type, fields);
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    match session.receive(now(), &message, out) {
        Verdict::LogonOffered => session.accept_logon(now(), out),
        verdict => verdict,
    }
}

fn active(out: &mut Outbox) -> Session {
    active_with(out, |_| ())
}

fn active_with(out: &mut Outbox, change: impl FnOnce(&mut Config)) -> Session {
    let mut config = Config::new(SessionId::new(BeginString::Fix44, "US", "THEM"), Role::Acceptor);
    change(&mut config);
    let mut session = Session::new(config, 1, 1);
    session.connected(now(), out);
    assert_eq!(receive(&mut session, out, "A", &["34=1", "98=0", "108=30"]), Verdict::LoggedOn);
    session
}

/// A request that was answered above a gap consumes its number when the gap is closed. Both sides
/// have a gap; the counterparty's request arrives above our gap and is answered at once, and the
/// answer to our own request ends below its number. If the request did not count, each side would
/// repeatedly wait 20 s for the other's last request (simulation `damage`, seed 15609).
#[test]
fn a_request_answered_above_a_gap_counts_when_its_turn_comes() {
    let mut out = Outbox::default();
    let mut session = active(&mut out);
    assert_eq!(receive(&mut session, &mut out, "0", &["34=4"]), Verdict::Held);
    let answered = Verdict::Resend { begin: 1, end: 2 };
    assert_eq!(receive(&mut session, &mut out, "2", &["34=5", "7=1", "16=0"]), answered);
    let fill = ["34=2", "43=Y", "122=20261121-12:00:00", "123=Y", "36=4"];
    assert_eq!(receive(&mut session, &mut out, "4", &fill), Verdict::Handled);
    let held = session.take_held().unwrap();
    let mut index = FieldIndex::default();
    let held = Message::parse(&held, &mut index, CheckSumPolicy::Verify).unwrap();
    assert_eq!(session.receive_held(now(), &held, &mut out), Verdict::Handled);
    assert_eq!((session.take_held(), session.next_num_in()), (None, 6));
}

/// An answered request counts even if the session holds no messages above a gap. Otherwise two
/// sessions with closed ranges would endlessly request each other's last request (simulation
/// `clocks`, seed 76).
#[test]
fn an_answered_request_needs_no_room() {
    let mut out = Outbox::default();
    let mut session = active_with(&mut out, |config| config.protocol.held_messages_max = 0);
    let answered = Verdict::Resend { begin: 1, end: 2 };
    assert_eq!(receive(&mut session, &mut out, "2", &["34=4", "7=1", "16=0"]), answered);
    let fill = ["34=2", "43=Y", "122=20261121-12:00:00", "123=Y", "36=4"];
    assert_eq!(receive(&mut session, &mut out, "4", &fill), Verdict::Handled);
    assert_eq!((session.take_held(), session.next_num_in()), (None, 5));
}

/// A resent message never has an OrigSendingTime(122) later than its SendingTime(52), even if the
/// clock was set back. The counterparty would reject the message and end the session (simulation
/// `clocks`, seed 4).
#[test]
fn the_original_time_is_never_later_than_the_time_of_sending() {
    let mut out = Outbox::default();
    let mut session = active(&mut out);
    session.send(now(), b"D", &mut out, |body| _ = body.uint(tag::CL_ORD_ID, 1)).unwrap();
    let bytes = out.bytes().to_vec();
    let last = bytes.windows(10).rposition(|part| part == b"8=FIX.4.4\x01").unwrap();
    let mut index = FieldIndex::default();
    let stored = Message::parse(&bytes[last..], &mut index, CheckSumPolicy::Verify).unwrap();
    for (ahead_s, original) in [(0, "20261121-12:00:00.000"), (-60, "20261121-11:59:00.000")] {
        let mut again = Outbox::default();
        let mut now = now();
        now.utc.0 += ahead_s * 1_000_000_000;
        session.resend(now, &stored, &mut again);
        let mut index = FieldIndex::default();
        let again = Message::parse(again.bytes(), &mut index, CheckSumPolicy::Verify).unwrap();
        assert_eq!(again.text(tag::ORIG_SENDING_TIME), Ok(original));
    }
}

/// A reset that the counterparty requests before it receives our Logout(5) is accepted and ends the
/// connection. The counterparty would ignore an answer after the Logout(5), and another message
/// would use its number (simulation `operators`, seed 3665).
#[test]
fn a_reset_that_crosses_a_logout_ends_the_connection() {
    let mut out = Outbox::default();
    let mut session = active(&mut out);
    assert!(session.logout(now(), "", &mut out));
    let reset = ["34=1", "98=0", "108=30", "141=Y"];
    let ended = Verdict::Disconnect(Disconnect::LoggedOut);
    assert_eq!(receive(&mut session, &mut out, "A", &reset), ended);
    assert_eq!((session.next_num_in(), session.next_num_out()), (2, 1));
}

/// When a schedule window opens, a reset is stored with its time even if the numbers are 1.
/// Otherwise the second connection in the window would reset them again (simulation `schedules`,
/// seed 1000031).
#[test]
fn the_restart_of_a_window_is_kept_even_if_the_numbers_are_at_1() {
    let mut out = Outbox::default();
    let config = Config::new(SessionId::new(BeginString::Fix44, "US", "THEM"), Role::Acceptor);
    let mut session = Session::new(config, 1, 1);
    session.restart_numbers(&mut out);
    assert_eq!(out.entries(), [Entry::Reset(ResetCause::Schedule)]);
}
