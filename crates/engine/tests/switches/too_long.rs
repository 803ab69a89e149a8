//! Tests messages longer than `message_bytes_max`: no part of them is processed as a message.

use transfix::{Mode, SessionSettings, TooLongPolicy};

use crate::switches::wire::Wire;
use crate::switches::{echo, logged_on, start, venue};

/// Returns an order of at least `bytes` bytes whose RawData(96) contains a whole order with the
/// same number. If the engine accepted the inner order, no gap would reveal the error.
fn hiding_an_order(wire: &Wire, seq: u64, bytes: usize) -> Vec<u8> {
    let mut data = wire.frame(&format!("35=D|34={seq}|11=forged"));
    let padding = bytes.saturating_sub(data.len());
    data.splice(0..0, std::iter::repeat_n(b'x', padding));
    let mut frame = wire.frame(&format!("35=D|34={seq}|11=outer|95={}|96=DATA", data.len()));
    let at = frame.windows(4).position(|w| w == b"DATA").unwrap();
    frame.splice(at..at + 4, data.iter().copied());
    rewrap(&frame)
}

/// Rebuilds the frame with correct BodyLength(9) and CheckSum(10).
fn rewrap(frame: &[u8]) -> Vec<u8> {
    let body = frame.windows(4).position(|w| w == b"\x0135=").unwrap() + 1;
    let body = &frame[body..frame.len() - 7];
    let mut whole = format!("8=FIX.4.4\x019={}\x01", body.len()).into_bytes();
    whole.extend_from_slice(body);
    let sum = whole.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    whole.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    whole
}

fn in_mode(mode: Mode, change: impl FnOnce(&mut SessionSettings)) -> SessionSettings {
    venue(|s| {
        s.threads.mode = mode;
        change(s);
    })
}

#[test]
fn an_order_within_one_is_never_executed() {
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        for (limit, bytes) in [(2_048, 3_000), (2_048, 200_000), (1 << 20, 2 << 20)] {
            let settings = in_mode(mode, |s| s.validation.message_bytes_max = limit);
            let (_engine, address) = start(vec![settings], echo);
            let mut wire = logged_on(address);
            wire.write(&hiding_an_order(&wire, 2, bytes));
            wire.send("35=D|34=3|11=next");
            let reject = "35=3|34=2|45=2|371=9|372=D|373=5|58=Value is incorrect (out of range) \
                          for this tag, tag 9 [MsgSeqNum 2, MsgType D]";
            assert_eq!(wire.next(), reject, "{mode:?} {limit}");
            assert_eq!(wire.next(), "35=D|34=3|11=next", "{mode:?} {limit}");
        }
    }
}

#[test]
fn one_above_a_gap_is_asked_for_and_rejected_in_its_turn() {
    let settings = venue(|s| s.validation.message_bytes_max = 2_048);
    let (_engine, address) = start(vec![settings], echo);
    let mut wire = logged_on(address);
    wire.write(&hiding_an_order(&wire, 3, 3_000));
    assert_eq!(wire.next(), "35=2|34=2|7=2|16=0");
    wire.send("35=D|34=2|11=a");
    wire.write(&hiding_an_order(&wire, 3, 3_000));
    wire.send("35=D|34=4|11=b");
    assert_eq!(wire.next(), "35=D|34=3|11=a");
    assert!(wire.next().starts_with("35=3|34=4|45=3|371=9|"));
    assert_eq!(wire.next(), "35=D|34=5|11=b");
}

#[test]
fn one_that_is_garbled_does_not_count() {
    let settings = venue(|s| s.validation.message_bytes_max = 2_048);
    let (engine, address) = start(vec![settings], echo);
    let mut wire = logged_on(address);
    let mut frame = hiding_an_order(&wire, 2, 3_000);
    let at = frame.len() - 2;
    frame[at] = if frame[at] == b'0' { b'1' } else { b'0' };
    wire.write(&frame);
    wire.send("35=1|34=3|112=x");
    assert_eq!(wire.next(), "35=2|34=2|7=2|16=0");
    assert_eq!(engine.sessions().next().unwrap().counters().garbled, 1);
}

#[test]
fn it_ends_the_session_if_the_settings_say_so_or_it_is_endless() {
    let logout = |s: &mut SessionSettings| {
        s.validation.message_bytes_max = 2_048;
        s.validation.too_long = TooLongPolicy::Logout;
    };
    let (_engine, address) = start(vec![venue(logout)], echo);
    let mut wire = logged_on(address);
    let frame = hiding_an_order(&wire, 2, 3_000);
    wire.write(&frame);
    let bytes = frame.len();
    let text = format!("58=a message of {bytes} bytes exceeds the limit of 2048 bytes");
    assert_eq!(wire.next(), format!("35=5|34=2|{text}"));
    assert_eq!(wire.next(), "");

    let (_engine, address) = start(vec![venue(|_| ())], echo);
    let mut wire = logged_on(address);
    wire.write(b"8=FIX.4.4\x019=999999999999\x0135=D\x01");
    assert!(wire.next().starts_with("35=5|34=2|58=a message of 1000000000031 bytes"));
    assert_eq!(wire.next(), "");
}
