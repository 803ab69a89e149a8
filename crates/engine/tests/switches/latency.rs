//! Message latency: each message is counted in each stage, or in none if measurement is off. The
//! tests compare times only with each other.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use transfix::{
    Action, Application, BusinessReject, Engine, Latency, LatencyStage, Message, Offline, SendMode,
    SessionHandle, SessionRef, Settings, clock, tag,
};
use transfix_testkit::app::App;

use crate::switches::{LONG, echo, logged_on, start, venue};

/// Returns how often each stage was measured, in the order of `LatencyStage::ALL`.
fn counts(latency: &Latency) -> [u64; 10] {
    LatencyStage::ALL.map(|stage| latency.stage(stage).count())
}

/// Waits until the stage was measured `count` times. The writing thread may count an answer after
/// the counterparty has received it.
fn latency_after(session: &SessionHandle, stage: LatencyStage, count: u64) -> Latency {
    let until_ns = clock::monotonic_ns() + LONG.as_nanos() as u64;
    loop {
        let is_there = session.latency().stage(stage).count() >= count;
        if is_there || clock::monotonic_ns() > until_ns {
            // Reads the latencies again, because the turn may have counted more stages since the
            // first reading.
            return session.latency();
        }
        std::thread::yield_now();
    }
}

fn session(engine: &Engine) -> SessionHandle {
    engine.sessions().next().unwrap()
}

const ORDERS: u64 = 20;

#[test]
fn each_message_is_measured_in_each_stage() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let session = session(&engine);
    assert_eq!(session.latency(), Latency::default());
    let mut wire = logged_on(address);
    for n in 2..2 + ORDERS {
        wire.send(&format!("35=D|34={n}|11=A"));
        assert!(wire.next().starts_with("35=D|"));
    }
    wire.send("35=5|34=22");
    assert!(wire.next().starts_with("35=5|"));
    drop(engine);
    let (all, latency) = (session.counters().messages_in, session.latency());
    assert_eq!(all, ORDERS + 2);
    // The expected counts of the stages found, session, callback, encoded, committed and written,
    // and then of the sums.
    let expected = [all, all, ORDERS, ORDERS, all, all, ORDERS, all, 0, 0];
    assert_eq!(counts(&latency), expected, "\n{latency}");
}

#[test]
fn the_stages_of_a_turn_follow_each_other() {
    use LatencyStage::*;
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let session = session(&engine);
    let mut wire = logged_on(address);
    for n in 1..=ORDERS {
        let before = latency_after(&session, ReadToWritten, n);
        wire.send(&format!("35=D|34={}|11=A", n + 1));
        wire.next();
        let one = latency_after(&session, ReadToWritten, n + 1).since(&before);
        assert_eq!(counts(&one), [1, 1, 1, 1, 1, 1, 1, 1, 0, 0], "\n{one}");
        // The sum of the parts' lower bounds does not exceed the whole.
        for (parts, whole) in [
            (&[Found, Session][..], ReadToCallback),
            (&[Encoded], Callback),
            (&[Found, Session, Callback, Committed, Written], ReadToWritten),
            (&[ReadToCallback, Callback, Committed, Written], ReadToWritten),
        ] {
            let sum: u64 = parts.iter().map(|stage| one.stage(*stage).min_ns()).sum();
            assert!(sum <= one.stage(whole).max_ns(), "{parts:?}, {whole}:\n{one}");
        }
    }
}

#[test]
fn messages_of_a_burst_are_measured_one_by_one() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let session = session(&engine);
    let mut wire = logged_on(address);
    let before = latency_after(&session, LatencyStage::Written, 1);
    // The last order is sent first, so that the engine keeps it above the gap and delivers it from
    // there.
    let seqs = [vec![1 + ORDERS], (2..1 + ORDERS).collect()].concat();
    let orders = seqs.iter().map(|n| wire.frame(&format!("35=D|34={n}|11=A")));
    let orders = orders.collect::<Vec<_>>().concat();
    wire.write(&orders);
    assert!(wire.next().starts_with("35=2|"));
    for _ in 0..ORDERS {
        assert!(wire.next().starts_with("35=D|"));
    }
    drop(engine);
    let burst = session.latency().since(&before);
    let [found, judged, callback, encoded, committed, written, to_callback, to_written, ..] =
        counts(&burst);
    assert_eq!((found, judged, callback, encoded), (ORDERS, ORDERS, ORDERS, ORDERS), "\n{burst}");
    assert_eq!(to_callback, ORDERS - 1, "one was not called for in the turn that read it");
    assert!((1..=ORDERS).contains(&committed), "\n{burst}");
    assert_eq!((written, to_written), (committed, committed), "\n{burst}");
}

/// Returns an application that answers only orders named `A`.
fn picky() -> App {
    App::new(|message, session| {
        if message.raw(tag::CL_ORD_ID) == Some(b"A") {
            let _ = session.send("D", |order| _ = order.str(tag::CL_ORD_ID, "A"));
        }
        Ok(())
    })
}

#[test]
fn who_is_not_answered_waits_for_no_write() {
    let settings = venue(|s| s.threads.batch_messages_max = 2);
    let (engine, address) = start(vec![settings], picky);
    let session = session(&engine);
    let mut wire = logged_on(address);
    let before = latency_after(&session, LatencyStage::Written, 1);
    // The two answers are written during the turn, which ends without a further answer.
    let orders: Vec<Vec<u8>> = ["A", "A", "B", "B"]
        .iter()
        .zip(2..)
        .map(|(name, n)| wire.frame(&format!("35=D|34={n}|11={name}")))
        .collect();
    wire.write(&orders.concat());
    assert!(wire.next().starts_with("35=D|"));
    assert!(wire.next().starts_with("35=D|"));
    wire.send("35=D|34=6|11=A");
    assert!(wire.next().starts_with("35=D|"));
    drop(engine);
    let burst = session.latency().since(&before);
    let [found, _, callback, _, committed, written, _, to_written, ..] = counts(&burst);
    assert_eq!((found, callback), (5, 5), "\n{burst}");
    assert!(committed > 2, "\n{burst}");
    assert_eq!((written, to_written), (2, 2), "\n{burst}");
}

#[test]
fn sends_of_other_threads_are_measured_while_encoded_and_from_the_put_to_the_socket() {
    for (mode, offline) in [(SendMode::Direct, Offline::Refuse), (SendMode::Queued, Offline::Queue)]
    {
        let settings = venue(|s| {
            s.threads.send = mode;
            s.queue.offline = offline;
        });
        let (engine, address) = start(vec![settings], echo);
        let session = session(&engine);
        let send = || session.send("D", |order| _ = order.str(tag::CL_ORD_ID, "A"));
        // The time that a message waits for a logon does not count as latency.
        let early = u64::from(send().is_ok());
        let mut wire = logged_on(address);
        for _ in 0..early {
            assert!(wire.next().starts_with("35=D|"));
        }
        for _ in 0..ORDERS {
            send().unwrap();
        }
        for _ in 0..ORDERS {
            assert!(wire.next().starts_with("35=D|"));
        }
        drop(engine);
        let latency = session.latency();
        assert_eq!(latency.stage(LatencyStage::PutToWritten).count(), ORDERS, "{mode:?}");
        assert_eq!(latency.stage(LatencyStage::Encoded).count(), early + ORDERS, "{mode:?}");
        // Only the Logon(A) has arrived so far, and no callback has sent a message.
        for stage in [LatencyStage::Callback, LatencyStage::TestRequest] {
            assert_eq!(latency.stage(stage).count(), 0, "{mode:?}, {stage}");
        }
        assert_eq!(latency.stage(LatencyStage::Written).count(), 1, "{mode:?}:\n{latency}");
    }
}

#[test]
fn messages_of_a_batch_are_measured_each() {
    for batch_messages_max in [0, 3] {
        let settings = venue(|s| s.threads.batch_messages_max = batch_messages_max);
        let (engine, address) = start(vec![settings], echo);
        let session = session(&engine);
        let mut wire = logged_on(address);
        let mut batch = session.batch();
        for _ in 0..ORDERS {
            batch.add("D", |order| _ = order.str(tag::CL_ORD_ID, "A")).unwrap();
        }
        assert_eq!(session.send_batch(&batch).sent.len() as u64, ORDERS);
        for _ in 0..ORDERS {
            assert!(wire.next().starts_with("35=D|"));
        }
        drop(engine);
        let latency = session.latency();
        for stage in [LatencyStage::Encoded, LatencyStage::PutToWritten] {
            assert_eq!(latency.stage(stage).count(), ORDERS, "{batch_messages_max}, {stage}");
        }
    }
}

#[test]
fn a_test_request_is_measured_until_its_heartbeat() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let session = session(&engine);
    let mut wire = logged_on(address);
    let answered = |latency: &Latency| latency.stage(LatencyStage::TestRequest).count();
    for (seq, id) in [(2, "a"), (5, "b")] {
        let before = answered(&session.latency());
        session.operate(&Action::TestRequest { id: id.to_owned() }).unwrap();
        assert!(wire.next().ends_with(&format!("|112={id}")));
        wire.send(&format!("35=0|34={seq}"));
        wire.send(&format!("35=0|34={}|112=other", seq + 1));
        wire.send(&format!("35=0|34={}|112={id}", seq + 2));
        let latency = latency_after(&session, LatencyStage::TestRequest, before + 1);
        assert_eq!(answered(&latency), before + 1);
    }
    // Resent messages are not measured, and none of these was requested again.
    wire.send("35=0|34=8|112=b");
    wire.send("35=1|34=9|112=c");
    assert!(wire.next().starts_with("35=0|"));
    assert_eq!(answered(&session.latency()), 2);
}

#[test]
fn without_points_nothing_is_measured() {
    let (engine, address) = start(vec![venue(|s| s.latency_points = false)], echo);
    let session = session(&engine);
    let mut wire = logged_on(address);
    wire.send("35=D|34=2|11=A");
    assert!(wire.next().starts_with("35=D|"));
    session.send("D", |order| _ = order.str(tag::CL_ORD_ID, "A")).unwrap();
    assert!(wire.next().starts_with("35=D|"));
    drop(engine);
    assert_eq!(session.counters().messages_in, 2);
    assert_eq!(session.latency(), Latency::default());
}

/// A log writer that collects lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_stop_tells_if_it_is_asked() {
    for asked in [true, false] {
        let mut settings = Settings::of(venue(|_| ()));
        settings.engine.latency_at_stop = asked;
        let engine = Engine::start(&settings, |_| Box::new(echo())).unwrap();
        let mut wire = logged_on(engine.listening()[0]);
        wire.send("35=D|34=2|11=A");
        assert!(wire.next().starts_with("35=D|"));
        let lines = Lines::default();
        let of_writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || of_writer.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || engine.stop(Duration::ZERO));
        let bytes = lines.0.lock().unwrap().clone();
        let told = String::from_utf8(bytes).unwrap();
        for stage in LatencyStage::ALL {
            let is_told =
                told.contains(&format!("latency session=FIX.4.4:VENUE->CLIENT stage={stage} "));
            let has_times =
                !matches!(stage, LatencyStage::PutToWritten | LatencyStage::TestRequest);
            assert_eq!(is_told, asked && has_times, "{stage}:\n{told}");
        }
    }
}

/// Echoes each order. If `may_be_slow` is set, some orders take longer.
struct Moody {
    may_be_slow: Arc<AtomicBool>,
    orders: u64,
}

impl Application for Moody {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.orders += 1;
        if self.orders.is_multiple_of(50) && self.may_be_slow.load(Ordering::Relaxed) {
            let (_keep, nothing) = channel::<()>();
            let _ = nothing.recv_timeout(Duration::from_millis(30));
        }
        echo().on_message(order, session)
    }
}

#[test]
fn a_stage_that_leaves_its_usual_range_is_known() {
    const SECOND_NS: u64 = 1_000_000_000;
    let may_be_slow = Arc::<AtomicBool>::default();
    let start = |window_s, percent| {
        let mut settings = Settings::of(venue(|_| ()));
        settings.engine.latency_window = Duration::from_secs(window_s);
        settings.engine.latency_unusual_percent = percent;
        let may_be_slow = Arc::clone(&may_be_slow);
        let app = move |_: &_| {
            let may_be_slow = Arc::clone(&may_be_slow);
            Box::new(Moody { may_be_slow, orders: 0 }) as Box<dyn Application>
        };
        let engine = Engine::start(&settings, app).unwrap();
        let wire = logged_on(engine.listening()[0]);
        (engine, wire, 1)
    };
    // The first engine detects unusual latencies, the second detects none because of its limit, and
    // the third does not measure.
    let mut all = [start(1, 300), start(1, u32::MAX), start(0, 300)];
    let unusual = |engine: &Engine| session(engine).status().unusual_latency;
    let begun_ns = clock::monotonic_ns();
    // Other load on the machine may make any stage unusual, and `Callback` too early.
    while !may_be_slow.load(Ordering::Relaxed)
        || !unusual(&all[0].0).contains(&LatencyStage::Callback)
    {
        let passed_ns = clock::monotonic_ns() - begun_ns;
        may_be_slow.store(passed_ns > 13 * SECOND_NS, Ordering::Relaxed);
        assert!(passed_ns < 90 * SECOND_NS, "{:?}", unusual(&all[0].0));
        for (_, wire, seq) in &mut all {
            let seqs = *seq + 1..=*seq + 50;
            *seq += 50;
            let orders = seqs.map(|n| wire.frame(&format!("35=D|34={n}|11=A")));
            let orders = orders.collect::<Vec<_>>().concat();
            wire.write(&orders);
        }
        for (_, wire, _) in &mut all {
            for _ in 0..50 {
                assert!(wire.next().starts_with("35=D|"));
            }
        }
    }
    assert_eq!([unusual(&all[1].0), unusual(&all[2].0)], [vec![], vec![]]);
}
