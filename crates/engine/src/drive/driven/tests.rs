//! Tests of a driven session with simulated clocks, including the pauses of an initiator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use transfix_codec::{FrameWriter, Precision, tag};
use transfix_session::{BeginString, BusinessReject, Role, SessionId};
use transfix_settings::schedule::ScheduleSettings;
use transfix_settings::{Durability, Mode, SessionSettings};
use transfix_transport::memory::{MemoryStream, pipe};

use super::*;
use crate::api::adapter::ApplicationAdapter;
use crate::api::application::{Application, SessionRef};
use crate::assemble::open;
use crate::drive::connector::Pauses;
use crate::drive::registry::Registry as Sessions;
use crate::drive::routes::Routes;
use crate::io::{Io, System};
use crate::link::rule_book::RuleBook;

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

/// An application that rejects messages until it is open, then accepts and counts them.
#[derive(Clone, Default)]
struct Office {
    open: Arc<AtomicBool>,
    taken: Arc<AtomicUsize>,
}

impl Application for Office {
    fn on_message(
        &mut self,
        _: &transfix_codec::Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if !self.open.load(Ordering::Acquire) {
            return Err(BusinessReject::not_available());
        }
        self.taken.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

fn session(role: Role) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    let mut settings = SessionSettings::new(role, &id, "");
    settings.store.durability = Durability::Memory;
    settings.protocol.sending_time_tolerance = Duration::ZERO;
    settings
}

fn shared(settings: &SessionSettings) -> Arc<Shared> {
    shared_with(settings, Deaf)
}

fn shared_with(settings: &SessionSettings, application: impl Application + 'static) -> Arc<Shared> {
    let sessions = Arc::new(Sessions::new(Arc::new(RuleBook::default())));
    let owner = ApplicationAdapter::of(Box::new(application), &settings.id(), &sessions);
    Arc::new(open(settings, owner, &sessions).unwrap())
}

fn frame(now: Now, msg_type: &[u8], seq: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type);
    frame.raw(b"49=THEM\x0156=US\x01");
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.header_timestamp(tag::SENDING_TIME, now.utc, Precision::Millis);
    frame.raw(body);
    frame.finish().unwrap();
    out
}

/// Returns an acceptor with at most five messages per turn, which has received a Logon(A) and then
/// `orders` orders.
fn with_short_turns(
    now: Now,
    orders: u64,
    application: impl Application + 'static,
    change: impl FnOnce(&mut SessionSettings),
) -> (DrivenSession, MemoryStream) {
    let mut settings = session(Role::Acceptor);
    settings.threads.turn_messages_max = 5;
    settings.validation.validate = false;
    change(&mut settings);
    let mut slot = DrivenSession::new(shared_with(&settings, application), None);
    let (near, far) = pipe(1 << 20);
    let mut read = frame(now, b"A", 1, b"98=0\x01108=30\x01");
    read.extend((2..orders + 2).flat_map(|seq| frame(now, b"D", seq, b"11=a\x01")));
    slot.attach(now, Arrival { read, ..Arrival::fresh(Box::new(near)) }, None).unwrap();
    (slot, far)
}

fn queue(slot: &DrivenSession, count: usize) {
    for _ in 0..count {
        slot.shared.queue.push(b"D", |order| _ = order.str(tag::CL_ORD_ID, "q")).unwrap();
    }
}

/// Returns the number of messages sent from the queue since the last call.
fn queued_and_sent(far: &mut MemoryStream) -> usize {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = far.read(&mut buffer) {
        all.extend_from_slice(&buffer[..n]);
    }
    all.windows(6).filter(|bytes| *bytes == b"\x0111=q\x01").count()
}

/// Returns a logged-on acceptor with one schedule window per day, from midnight to midnight.
fn logged_on(now: Now) -> (DrivenSession, MemoryStream) {
    let mut settings = session(Role::Acceptor);
    let all_day = ScheduleSettings {
        from: Some("00:00".to_owned()),
        to: Some("00:00".to_owned()),
        ..ScheduleSettings::in_zone("UTC")
    };
    settings.schedule = Some(all_day);
    let mut slot = DrivenSession::new(shared(&settings), None);
    let (near, far) = pipe(1 << 16);
    let logon = frame(now, b"A", 1, b"98=0\x01108=30\x01");
    slot.attach(now, Arrival { read: logon, ..Arrival::fresh(Box::new(near)) }, None).unwrap();
    while slot.turn(false).unwrap().again {}
    slot.tick(now).unwrap();
    (slot, far)
}

/// Returns the messages that the session has sent, in readable form.
fn sent(far: &mut MemoryStream) -> String {
    let mut buffer = [0; 4096];
    let n = far.read(&mut buffer).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..n]).replace('\x01', "|")
}

#[test]
fn a_clock_that_jumps_into_another_window_ends_the_session_at_the_next_tick() {
    let now = System.now();
    let later = |utc_ns: u64, monotonic_ns: u64| Now {
        utc: transfix_codec::Timestamp(now.utc.0 + utc_ns as i64),
        monotonic_ns: now.monotonic_ns + monotonic_ns,
    };
    let (mut slot, mut far) = logged_on(now);
    assert!(sent(&mut far).contains("|35=A|"));
    slot.tick(later(0, SECOND)).unwrap();
    assert_eq!(sent(&mut far), "", "nothing has happened");
    // The machine has slept, so the wall clock has advanced further than the monotonic clock.
    slot.tick(later(DAY + SECOND, SECOND)).unwrap();
    let logout = sent(&mut far);
    assert!(logout.contains("|35=5|") && logout.contains("closed by its schedule"), "{logout}");
}

#[test]
fn an_operator_does_not_wait_for_the_pause_of_refused_logons() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let poll = System.poll().unwrap();
    let mut settings = session(Role::Initiator);
    settings.address = address.to_string();
    settings.socket.reconnect_interval = Duration::from_secs(1);
    let mut connector = Connector::new(
        Routes::of(&settings, &Arc::default()).unwrap(),
        Pauses::of(&settings.socket),
    );
    let now = System.now();
    (0..9).for_each(|_| _ = connector.down(now.monotonic_ns, Ended::Refused));
    let mut slot = DrivenSession::new(shared(&session(Role::Initiator)), Some(connector));
    // Returns the seconds to the next check: at the next attempt, or at its timeout.
    let deadline = |slot: &mut DrivenSession| {
        slot.connect(now, poll.registry(), Token(0), true).unwrap();
        (slot.deadline().unwrap() - now.monotonic_ns) / SECOND
    };
    assert_eq!(deadline(&mut slot), 60, "it waits");
    crate::SessionHandle { shared: Arc::clone(&slot.shared) }
        .operate(&crate::Action::LogOn {})
        .unwrap();
    assert_eq!(deadline(&mut slot), 10, "it tries");
    let connector = slot.connector.as_mut().unwrap();
    connector.down(now.monotonic_ns, Ended::Refused);
    assert_eq!(deadline(&mut slot), 2, "as after the first one that was refused");
}

#[test]
fn who_has_given_up_begins_anew_in_the_next_window() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let poll = System.poll().unwrap();
    let mut settings = session(Role::Initiator);
    settings.address = listener.local_addr().unwrap().to_string();
    settings.socket.reconnect_attempts_max = 1;
    // Both windows touch, so the schedule never closes.
    settings.schedule = Some(ScheduleSettings {
        from: Some("00:00".to_owned()),
        to: Some("00:00".to_owned()),
        ..ScheduleSettings::in_zone("UTC")
    });
    let connector = Connector::new(
        Routes::of(&settings, &Arc::default()).unwrap(),
        Pauses::of(&settings.socket),
    );
    let mut slot = DrivenSession::new(shared(&settings), Some(connector));
    let now = System.now();
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    slot.connect(now, poll.registry(), Token(0), true).unwrap();
    slot.down(&Down::Io(error), now, poll.registry());
    let has_given_up = |slot: &DrivenSession| slot.connector.as_ref().unwrap().has_given_up();
    slot.connect(now, poll.registry(), Token(0), true).unwrap();
    assert!(has_given_up(&slot), "the window is the same");
    // The deadline makes the worker check the session without being called.
    let at = slot.deadline().unwrap();
    let utc = transfix_codec::Timestamp(now.utc.0 + DAY as i64);
    let next_day = Now { utc, monotonic_ns: at.max(now.monotonic_ns + DAY) };
    slot.connect(next_day, poll.registry(), Token(0), true).unwrap();
    assert!(!has_given_up(&slot), "it tries");
}

#[test]
fn lines_left_out_of_a_session_without_a_connection_are_told_in_time() {
    let now = System.now();
    let poll = System.poll().unwrap();
    let mut slot = DrivenSession::new(shared(&session(Role::Acceptor)), None);
    slot.shared.enabled.store(false, Ordering::Release);
    for n in 0..11 {
        assert_eq!(slot.deadline(), None, "{n} lines are written");
        slot.attach(now, Arrival::fresh(Box::new(pipe(64).0)), None).unwrap();
    }
    let at = slot.deadline().unwrap();
    assert_eq!(at, now.monotonic_ns + 10 * SECOND);
    slot.connect(Now { monotonic_ns: at, ..now }, poll.registry(), Token(0), true).unwrap();
    assert_eq!(slot.deadline(), None, "it is told");
}

#[test]
fn a_turn_takes_so_many_messages_of_the_queue_and_the_next_ones_the_rest() {
    let (mut slot, mut far) = with_short_turns(System.now(), 0, Deaf, |_| ());
    while slot.turn(false).unwrap().again {}
    queue(&slot, 23);
    let mut turns = Vec::new();
    loop {
        let turn = slot.turn(false).unwrap();
        turns.push(queued_and_sent(&mut far));
        if !turn.again {
            break;
        }
    }
    assert_eq!(turns, [5, 5, 5, 5, 3], "without another event");
}

/// While the counterparty sends continuously, every other turn also sends queued messages.
#[test]
fn what_comes_in_does_not_keep_the_queue_from_being_sent_nor_the_other_way_round() {
    let office = Office::default();
    office.open.store(true, Ordering::Release);
    let (mut slot, mut far) = with_short_turns(System.now(), 99, office.clone(), |_| ());
    queue(&slot, 100);
    let mut sent = 0;
    for turn in 1..40 {
        assert!(slot.turn(false).unwrap().again);
        sent += queued_and_sent(&mut far);
        let taken = office.taken.load(Ordering::Acquire);
        assert!(sent + taken <= 5 * turn, "{sent} and {taken} after {turn} turns");
        assert!(sent.abs_diff(taken) <= 6, "{sent} and {taken} after {turn} turns");
    }
    while slot.turn(false).unwrap().again {}
    sent += queued_and_sent(&mut far);
    assert_eq!((sent, office.taken.load(Ordering::Acquire)), (100, 99));
}

#[test]
fn a_tick_offers_so_many_messages_again_and_the_next_ones_the_rest() {
    let (now, office) = (System.now(), Office::default());
    let (mut slot, _far) = with_short_turns(now, 17, office.clone(), |s| {
        s.unavailable.retries = 9;
        s.unavailable.delay = Duration::from_secs(1);
    });
    while slot.turn(false).unwrap().again {}
    office.open.store(true, Ordering::Release);
    let later = Now { monotonic_ns: now.monotonic_ns + 20 * SECOND, ..now };
    let mut ticks = Vec::new();
    while slot.deadline().is_some_and(|at| at <= later.monotonic_ns) {
        slot.tick(later).unwrap();
        ticks.push(office.taken.load(Ordering::Acquire));
    }
    assert_eq!(ticks, [5, 10, 15, 17]);
}

#[test]
fn a_tick_sends_so_many_messages_of_the_queue_and_turns_send_the_rest() {
    let now = System.now();
    let (mut slot, mut far) =
        with_short_turns(now, 0, Deaf, |s| s.queue.queue_pause = Duration::from_secs(10));
    while slot.turn(false).unwrap().again {}
    queue(&slot, 12);
    slot.turn(false).unwrap();
    assert_eq!(queued_and_sent(&mut far), 0, "the pause after the logon");
    let later = Now { monotonic_ns: now.monotonic_ns + 20 * SECOND, ..now };
    assert!(slot.tick(later).unwrap(), "a turn is to follow");
    let mut turns = vec![queued_and_sent(&mut far)];
    while slot.turn(false).unwrap().again {
        turns.push(queued_and_sent(&mut far));
    }
    turns.push(queued_and_sent(&mut far));
    assert_eq!(turns, [5, 5, 2]);
}

#[test]
fn a_look_stores_so_many_messages_without_a_connection_and_the_next_ones_the_rest() {
    let (now, poll) = (System.now(), System.poll().unwrap());
    let mut settings = session(Role::Acceptor);
    settings.threads.turn_messages_max = 5;
    settings.queue.offline = Offline::Store;
    let mut slot = DrivenSession::new(shared(&settings), None);
    queue(&slot, 12);
    let mut looks = Vec::new();
    loop {
        slot.connect(now, poll.registry(), Token(0), true).unwrap();
        looks.push(slot.shared.with_core(|core| core.session.next_num_out()));
        if slot.deadline().is_none() {
            break;
        }
        assert_eq!(slot.deadline(), Some(now.monotonic_ns));
    }
    assert_eq!(looks, [6, 11, 13]);
}

#[test]
fn a_session_of_a_pool_that_rests_keeps_no_receive_buffer() {
    // Each pair is the time in milliseconds since the last message, and whether the receive buffer
    // is kept. A session with its own thread keeps the buffer, and so does a session with a partial
    // message.
    for (mode, turns) in [
        (Mode::Pool, [(1, true), (249, true), (251, false), (1, true), (9_000, false)]),
        (Mode::Dedicated, [(1, true), (249, true), (251, true), (1, true), (9_000, true)]),
    ] {
        let mut now = Now { monotonic_ns: DAY, ..System.now() };
        let (mut slot, mut far) =
            with_short_turns(now, 0, Deaf, |settings| settings.threads.mode = mode);
        slot.turn(false).unwrap();
        let mut take = |bytes: &[u8], ms: u64| {
            far.write(bytes).unwrap();
            now.monotonic_ns += ms * 1_000_000;
            let mut link = slot.shared.lock();
            link.turn(&slot.shared.queue, false, || now).unwrap();
            link.input_bytes() > 0
        };
        take(&frame(System.now(), b"0", 2, b""), 0);
        for (seq, (ms, stays)) in (3..).zip(turns) {
            assert_eq!(take(&frame(System.now(), b"0", seq, b""), ms), stays, "{mode:?}, {seq}");
        }
        let next = frame(System.now(), b"0", 8, b"");
        assert!(take(&next[..30], 9_000), "{mode:?}");
        take(&next[30..], 9_000);
        assert_eq!(slot.shared.lock().core().session.next_num_in(), 9);
    }
}
