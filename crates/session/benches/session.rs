//! Measures the cost per message, in nanoseconds, that the session layer adds to the codec. It runs
//! with default settings, and with all settings on that affect the messages:
//! `cargo bench -p transfix-session`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use transfix_codec::encode::Header;
use transfix_codec::{
    Body, CheckSumPolicy, FieldIndex, FrameWriter, Message, Precision, Timestamp, tag,
};
use transfix_session::{
    BeginString, Config, Now, NumbersConfig, Outbox, ResendConfig, Role, Session, SessionId,
    SubIds, Throttle, ThrottleAction, Verdict,
};

const MESSAGES: u64 = 2_000;
const ROUNDS: usize = 101;

fn main() {
    println!("ns for each message above the codec, median of {ROUNDS} rounds of {MESSAGES}");
    for (name, switches) in [("default", plain as fn(&mut Config)), ("all switches", everything)] {
        let receive = median(|| receive(switches)) - median(parse);
        let send = median(|| send(switches)) - median(encode);
        println!("{name:<14} receive {receive:5.1}   send {send:5.1}");
    }
}

fn plain(_: &mut Config) {}

fn everything(config: &mut Config) {
    config.id.sub_ids = Arc::new(SubIds {
        sender_sub_id: "SUB".to_owned(),
        target_sub_id: "DESK".to_owned(),
        ..SubIds::default()
    });
    config.numbers = NumbersConfig {
        send_last_processed: true,
        next_expected: true,
        gap_at_logon_max: 1_000_000,
        ..NumbersConfig::default()
    };
    config.resend = ResendConfig {
        request_max: 1_000,
        closed_ranges: true,
        repeats_max: 5,
        answered_max: 100_000,
        same_requests_max: 5,
        ..ResendConfig::default()
    };
    let action = ThrottleAction::Reject;
    config.protocol.throttles = ["8", "D", "F", "G"]
        .map(|msg_type| Throttle {
            msg_type: msg_type.to_owned(),
            messages_max: u32::MAX,
            interval: Duration::from_secs(1),
            action,
        })
        .to_vec();
}

fn now() -> Now {
    let utc = Timestamp::parse(b"20261121-12:00:00.123").unwrap();
    Now { utc, monotonic_ns: 1_000_000_000 }
}

/// Returns the nanoseconds per message: the median of all rounds, divided by the messages of a
/// round.
fn median(mut round: impl FnMut() -> u64) -> f64 {
    let mut rounds: Vec<u64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2] as f64 / MESSAGES as f64
}

#[expect(clippy::disallowed_methods, reason = "a benchmark takes the time")]
fn timed(act: impl FnOnce()) -> u64 {
    let begun = Instant::now();
    act();
    begun.elapsed().as_nanos() as u64
}

fn order(body: &mut Body<'_>) {
    body.str(tag::CL_ORD_ID, "ORDER-5000").char(tag::HANDL_INST, b'1').str(tag::SYMBOL, "EURUSD");
    body.char(tag::SIDE, b'1').timestamp(tag::TRANSACT_TIME, now().utc);
    body.uint(tag::ORDER_QTY, 1_000).char(tag::ORD_TYPE, b'2').uint(tag::PRICE, 30);
}

fn frames() -> Vec<Vec<u8>> {
    let frame = |seq: u64| {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
        frame.raw(b"49=THEM\x0156=US\x01");
        frame.header_uint(tag::MSG_SEQ_NUM, seq);
        frame.header_timestamp(tag::SENDING_TIME, now().utc, Precision::Millis);
        order(frame.body(Precision::Millis));
        frame.finish().unwrap();
        out
    };
    (2..MESSAGES + 2).map(frame).collect()
}

/// Returns an acceptor that is logged on; `switches` changes its configuration.
fn session(switches: fn(&mut Config), out: &mut Outbox) -> Session {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    let mut config = Config::new(id, Role::Acceptor);
    switches(&mut config);
    let mut session = Session::new(config, 1, 1);
    session.connected(now(), out);
    let mut logon = Vec::new();
    let mut frame = FrameWriter::new(&mut logon, b"FIX.4.4", b"A");
    frame.raw(b"49=THEM\x0156=US\x0134=1\x0152=20261121-12:00:00\x0198=0\x01108=30\x01");
    frame.finish().unwrap();
    let mut index = FieldIndex::default();
    let message = Message::parse(&logon, &mut index, CheckSumPolicy::Verify).unwrap();
    assert_eq!(session.receive(now(), &message, out), Verdict::LogonOffered);
    assert_eq!(session.accept_logon(now(), out), Verdict::LoggedOn);
    clear(out);
    session
}

fn clear(out: &mut Outbox) {
    out.clear_entries();
    out.consume(out.bytes().len());
}

fn parse() -> u64 {
    let (frames, mut index) = (frames(), FieldIndex::default());
    timed(|| {
        for frame in &frames {
            let message = Message::parse(frame, &mut index, CheckSumPolicy::Verify).unwrap();
            std::hint::black_box(&message);
        }
    })
}

fn receive(switches: fn(&mut Config)) -> u64 {
    let (frames, mut index) = (frames(), FieldIndex::default());
    let mut out = Outbox::with_capacity(64 << 10);
    let mut session = session(switches, &mut out);
    let now = now();
    timed(|| {
        for frame in &frames {
            let message = Message::parse(frame, &mut index, CheckSumPolicy::Verify).unwrap();
            assert_eq!(session.receive(now, &message, &mut out), Verdict::Deliver);
            assert!(session.take_held().is_none());
        }
    })
}

fn encode() -> u64 {
    let mut header = Header::new(b"FIX.4.4", b"49=US\x0156=THEM\x01");
    let (mut out, moment) = (Vec::with_capacity(64 << 10), (now().utc, Precision::Millis));
    timed(|| {
        for seq in 2..MESSAGES + 2 {
            let mut frame = header.frame(&mut out, b"D", seq, moment);
            order(frame.body(Precision::Millis));
            frame.finish().unwrap();
            out.clear();
        }
    })
}

fn send(switches: fn(&mut Config)) -> u64 {
    let mut out = Outbox::with_capacity(64 << 10);
    let mut session = session(switches, &mut out);
    let now = now();
    timed(|| {
        for _ in 0..MESSAGES {
            session.send(now, b"D", &mut out, order).unwrap();
            clear(&mut out);
        }
    })
}
