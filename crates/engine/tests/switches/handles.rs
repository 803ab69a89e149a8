//! What handles do while a turn of their session runs, and with what they are given to send.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use transfix::{
    Application, BeginString, BusinessReject, MSG_SEQ_NUM_MAX, Message, Misuse, OperateError,
    SendError, SendMode, Sent, SessionRef, State, tag,
};

use crate::{LONG, logged_on, start, venue};

/// Tells that a message is here, and keeps its turn until it is let go.
#[derive(Clone)]
struct Holder {
    here: Sender<()>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Application for Holder {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.here.send(()).unwrap();
        self.go.lock().unwrap().recv_timeout(LONG).unwrap();
        Ok(())
    }
}

#[test]
fn a_session_is_seen_while_its_turn_runs() {
    let ((here, is_here), (go, may_go)) = (channel(), channel());
    let holder = Holder { here, go: Arc::new(Mutex::new(may_go)) };
    let (engine, address) = start(vec![venue(|_| ())], || holder.clone());
    let handle = engine.sessions().next().unwrap();
    assert_eq!((handle.last_received(), handle.last_sent()), (None, None));
    let mut wire = logged_on(address);
    wire.send("35=D|34=2|11=A");
    is_here.recv_timeout(LONG).unwrap();
    // The turn has the session's lock now: whatever waited for it would wait for ever.
    assert_eq!(handle.state(), State::Active);
    assert_eq!(handle.next_numbers(), (3, 2));
    let counters = handle.counters();
    assert_eq!((counters.messages_in, counters.messages_out, counters.logons), (2, 1, 1));
    assert!(handle.last_received() >= handle.last_sent() && handle.last_sent().is_some());
    let sent = handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "B"));
    assert!(matches!(sent, Ok(Sent::Queued { bytes }) if bytes == handle.queued_bytes()));
    go.send(()).unwrap();
    assert!(wire.next().starts_with("35=D|34=2|"));
    assert_eq!(handle.queued_bytes(), 0);
}

#[test]
fn a_panic_while_a_message_is_filled_loses_that_message_alone() {
    for mode in [SendMode::Direct, SendMode::Queued] {
        let (engine, address) = start(vec![venue(|s| s.send = mode)], || crate::Echo);
        let handle = engine.sessions().next().unwrap();
        let mut wire = logged_on(address);
        let half = AssertUnwindSafe(|| {
            handle.send("D", |order| {
                order.str(tag::CL_ORD_ID, "half");
                panic!("in the middle of a message");
            })
        });
        assert!(catch_unwind(half).is_err());
        handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "whole")).unwrap();
        assert_eq!(wire.next(), "35=D|34=2|11=whole", "{mode:?}");
        assert!(handle.is_logged_on());
    }
}

#[test]
fn one_message_is_sent_while_another_is_filled() {
    let (engine, address) = start(vec![venue(|_| ())], || crate::Echo);
    let handle = engine.sessions().next().unwrap();
    let mut wire = logged_on(address);
    let outer = handle.send("D", |order| {
        order.str(tag::CL_ORD_ID, "outer");
        handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "inner")).unwrap();
        order.str(tag::SYMBOL, "EU");
    });
    assert!(outer.is_ok());
    assert_eq!(wire.next(), "35=D|34=2|11=inner");
    assert_eq!(wire.next(), "35=D|34=3|11=outer|55=EU");
}

#[test]
fn a_body_that_is_encoded_already_is_checked() {
    let (engine, address) = start(vec![venue(|_| ())], || crate::Echo);
    let handle = engine.sessions().next().unwrap();
    assert_eq!(handle.send_encoded("D", b"11=A\x01"), Err(SendError::NotLoggedOn));
    let mut wire = logged_on(address);
    for (body, misuse) in [
        ("11=A", Misuse::NotWholeFields),
        ("11A|", Misuse::NotWholeFields),
        ("11=|", Misuse::EmptyValue(tag::CL_ORD_ID)),
        ("11=A|34=7|", Misuse::SessionOwned(tag::MSG_SEQ_NUM)),
        ("11=A|10=000|", Misuse::SessionOwned(tag::CHECK_SUM)),
    ] {
        let body = body.replace('|', "\x01");
        let sent = handle.send_encoded("D", body.as_bytes());
        assert_eq!(sent, Err(SendError::Misuse(misuse)), "{body}");
        let filled = handle.send("D", |order| _ = order.fields(body.as_bytes()));
        assert_eq!(filled, Err(SendError::Misuse(misuse)), "{body}");
    }
    assert_eq!(handle.send_encoded("A", b"11=A\x01"), Err(SendError::Misuse(Misuse::MsgType)));
    assert!(handle.send_encoded("D", b"11=A\x0195=3\x0196=a\x01b\x01").is_ok());
    assert_eq!(wire.next(), r"35=D|34=2|11=A|95=3|96=a\x01b");
}

#[test]
fn an_operator_is_told_why_nothing_was_done() {
    let (engine, address) = start(vec![venue(|_| ())], || crate::Echo);
    let handle = engine.sessions().next().unwrap();
    assert_eq!(handle.test_request("x"), Err(OperateError::NotLoggedOn));
    assert_eq!(handle.reset_in_session(), Err(OperateError::NotLoggedOn));
    assert_eq!(handle.disconnect(), Err(OperateError::NotConnected));
    let mut wire = logged_on(address);
    assert_eq!(handle.sequence_reset(2), Err(OperateError::NotAbove { next: 2 }));
    let beyond = MSG_SEQ_NUM_MAX + 1;
    assert_eq!(handle.sequence_reset(beyond), Err(OperateError::MsgSeqNum(beyond)));
    assert_eq!(handle.set_next_numbers(Some(9), Some(0)), Err(OperateError::MsgSeqNum(0)));
    assert_eq!(handle.next_numbers(), (2, 2));
    assert_eq!(handle.request_resend(0, 0), Err(OperateError::MsgSeqNum(0)));
    assert_eq!(handle.request_resend(3, 2), Err(OperateError::EmptyRange));
    assert_eq!(handle.reset_in_session(), Ok(()));
    assert_eq!(handle.reset_in_session(), Err(OperateError::ResetUnderWay));
    assert!(wire.next().starts_with("35=A|34=1|"), "the first message after the logon");
    engine.stop(0);
    assert_eq!(handle.log_on(), Err(OperateError::Closed));
    assert_eq!(handle.revive(), Err(OperateError::Closed));

    let old = |settings: &mut transfix::SessionSettings| settings.begin_string = BeginString::Fix40;
    let (engine, _) = start(vec![venue(old)], || crate::Echo);
    let handle = engine.sessions().next().unwrap();
    assert_eq!(handle.reset_at_next_logon(), Err(OperateError::NoResetFlag));
}
