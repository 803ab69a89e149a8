//! Tests the counters of rejects, resends and ended connections.

use std::thread;
use std::time::Duration;

use transfix::{BeginString, SessionHandle, clock};

use crate::switches::wire::Wire;
use crate::switches::{LONG, echo, logged_on, start, venue};

#[track_caller]
fn until(what: impl Fn() -> bool) {
    let end = clock::monotonic_ns() + LONG.as_nanos() as u64;
    while !what() {
        assert!(clock::monotonic_ns() < end, "it has not come about");
        thread::yield_now();
    }
}

/// Returns rejects in and out, business rejects in and out, resend requests in and out, and resent
/// messages.
fn troubles(handle: &SessionHandle) -> [u64; 7] {
    let counters = handle.counters();
    [
        counters.rejects_in,
        counters.rejects_out,
        counters.business_rejects_in,
        counters.business_rejects_out,
        counters.resend_requests_in,
        counters.resend_requests_out,
        counters.resent,
    ]
}

#[test]
fn each_message_that_tells_of_trouble_is_counted_once() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let (handle, admin) = (engine.sessions().next().unwrap(), engine.admin());
    let mut wire = logged_on(address);
    for (sent, answer, expected) in [
        ("35=3|34=2|45=1|373=5", "", [1, 0, 0, 0, 0, 0, 0]),
        ("35=3|34=2|43=Y|122=20260101-00:00:00|45=1|373=5", "", [1, 0, 0, 0, 0, 0, 0]),
        ("35=3|34=3|45=1", "", [2, 0, 0, 0, 0, 0, 0]),
        ("35=j|34=4|45=1|372=A|380=1|11=j", "35=D|", [2, 0, 1, 0, 0, 0, 0]),
        ("35=D|34=5|11=refuse", "35=j|", [2, 0, 1, 1, 0, 0, 0]),
        ("35=1|34=6", "35=3|", [2, 1, 1, 1, 0, 0, 0]),
        ("35=2|34=7|7=1|16=0", "35=4|", [2, 1, 1, 1, 1, 0, 2]),
        ("35=D|34=9|11=late", "35=2|", [2, 1, 1, 1, 1, 1, 2]),
    ] {
        wire.send(sent);
        // The first answer to a ResendRequest(2) precedes the resent messages.
        let mut said = String::new();
        while !said.starts_with(answer) {
            said = wire.next();
            assert!(!said.is_empty(), "{sent}: no {answer} came");
        }
        until(|| troubles(&handle) == expected);
    }
    let reasons = admin.reasons();
    assert_eq!(reasons.rejects_in, [(Some(5), 1), (None, 1)]);
    assert_eq!(reasons.rejects_out, [(Some(1), 1)]);
    assert_eq!(reasons.disconnects, []);
}

#[test]
fn ends_are_counted_by_their_reason() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let handle = engine.sessions().next().unwrap();
    let ends = |count: u64| until(|| handle.counters().disconnects == count);
    assert_eq!(handle.status().heart_bt_int, None, "nobody has logged on yet");
    drop(logged_on(address));
    ends(1);
    assert_eq!(handle.status().heart_bt_int, Some(Duration::from_secs(30)));
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send("35=A|34=2|98=1|108=30");
    ends(2);
    assert_eq!(handle.counters().logons_refused, 1);
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send("35=A|34=3|98=0|108=7|141=Y");
    ends(3);
    assert_eq!(handle.counters().logons_refused, 2, "a reset has the number 1");
    let seen = engine.admin().reasons().disconnects;
    assert_eq!(seen.iter().map(|(_, count)| count).sum::<u64>(), 3);
    assert!(seen.contains(&(122, 1)), "the link was lost: {seen:?}");
    assert!(seen.contains(&(156, 1)), "EncryptMethod(98): {seen:?}");
}
