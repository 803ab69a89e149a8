//! The behavior of handles during a turn of their session, and for each kind of message.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, Body, BusinessReject, Direction, MSG_SEQ_NUM_MAX, Message,
    Misuse, OperateError, Resend, SendError, SendMode, Sent, SessionEvent, SessionHandle,
    SessionId, SessionNotice, SessionRef, SessionSettings, SessionView, State, Unsent, msg_type,
    tag,
};

use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, start, venue};

/// An application that reports each message, and blocks its turn until the test releases it.
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
    let times = |handle: &SessionHandle| {
        let status = handle.status();
        (status.last_received, status.last_sent)
    };
    assert_eq!(times(&handle), (None, None));
    let mut wire = logged_on(address);
    wire.send("35=D|34=2|11=A");
    is_here.recv_timeout(LONG).unwrap();
    // The turn holds the session's lock: any call that waited for the lock would block forever.
    assert_eq!(handle.state(), State::Active);
    assert_eq!(handle.next_numbers(), (3, 2));
    let counters = handle.counters();
    assert_eq!((counters.messages_in, counters.messages_out, counters.logons), (2, 1, 1));
    let (received, sent) = times(&handle);
    assert!(received >= sent && sent.is_some());
    let sent = handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "B"));
    assert!(matches!(sent, Ok(Sent::Queued { bytes }) if bytes == handle.queued_bytes()));
    go.send(()).unwrap();
    assert!(wire.next().starts_with("35=D|34=2|"));
    assert_eq!(handle.queued_bytes(), 0);
}

#[test]
fn a_panic_while_a_message_is_filled_loses_that_message_alone() {
    for mode in [SendMode::Direct, SendMode::Queued] {
        let (engine, address) =
            start(vec![venue(|s| s.threads.send = mode)], crate::switches::echo);
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
    let (engine, address) = start(vec![venue(|_| ())], crate::switches::echo);
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
    let (engine, address) = start(vec![venue(|_| ())], crate::switches::echo);
    let handle = engine.sessions().next().unwrap();
    assert_eq!(handle.send("D", |body| _ = body.fields(b"11=A\x01")), Err(SendError::NotLoggedOn));
    let mut wire = logged_on(address);
    for (body, misuse) in [
        ("11=A", Misuse::NotWholeFields),
        ("11A|", Misuse::NotWholeFields),
        ("11=|", Misuse::EmptyValue(tag::CL_ORD_ID)),
        ("11=A|34=7|", Misuse::SessionOwned(tag::MSG_SEQ_NUM)),
        ("11=A|10=000|", Misuse::SessionOwned(tag::CHECK_SUM)),
    ] {
        let body = body.replace('|', "\x01");
        let sent = handle.send("D", |order| _ = order.fields(body.as_bytes()));
        assert_eq!(sent, Err(SendError::Misuse(misuse)), "{body}");
    }
    assert_eq!(
        handle.send("A", |body| _ = body.fields(b"11=A\x01")),
        Err(SendError::Misuse(Misuse::MsgType))
    );
    assert!(handle.send("D", |body| _ = body.fields(b"11=A\x0195=3\x0196=a\x01b\x01")).is_ok());
    assert_eq!(wire.next(), r"35=D|34=2|11=A|95=3|96=a\x01b");
}

/// An application that echoes each message, or forwards it to another session.
struct Passage {
    to: Option<SessionId>,
}

impl Application for Passage {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        match &self.to {
            None => session.send(message.msg_type(), |copy| _ = copy.copy(message)).map(drop)?,
            Some(to) => {
                let other = session.other(to).unwrap();
                other.send(message.msg_type(), |copy| _ = copy.copy(message)).map(drop)?;
            }
        }
        Ok(())
    }
}

#[test]
fn a_copy_has_all_fields_but_those_of_its_session() {
    let sub_id = |s: &mut SessionSettings| "DESK".clone_into(&mut s.sender_sub_id);
    for is_passed_on in [false, true] {
        let mut second = venue(sub_id);
        "OTHER".clone_into(&mut second.target_comp_id);
        let to = is_passed_on.then(|| second.id());
        let (_engine, address) = start(vec![venue(|_| ()), second], || Passage { to: to.clone() });
        let mut wire = logged_on(address);
        let mut passed = Wire::connect(address, BeginString::Fix44);
        passed.send("35=A|34=1|49=OTHER|57=DESK|98=0|108=30");
        assert!(passed.next().starts_with("35=A|"));
        let header = "142=L|128=X|97=Y|369=1|90=3|91=a\x01b";
        let mut frame = format!("35=D|34=2|{header}|11=A|95=3|96=a\x01b|453=2|448=P|448=Q|11=B");
        frame.push_str("|93=2|89=s\x01");
        wire.send(&frame);
        let copy = r"128=X|97=Y|11=A|95=3|96=a\x01b|453=2|448=P|448=Q|11=B";
        if is_passed_on {
            assert_eq!(passed.next(), format!("35=D|50=DESK|34=2|{copy}"));
        } else {
            assert_eq!(wire.next(), format!("35=D|34=2|{copy}"));
        }
        // A message that must not be sent causes an error, and the session continues.
        wire.send("35=D|34=3|11=A|58=");
        let refused = wire.next();
        assert!(refused.starts_with("35=j|") && refused.contains("58"), "{refused}");
        wire.send("35=D|34=4|11=C");
        let next = if is_passed_on { passed.next() } else { wire.next() };
        assert!(next.ends_with("|11=C"), "{next}");
    }
}

#[test]
fn an_operator_is_told_why_nothing_was_done() {
    let (engine, address) = start(vec![venue(|_| ())], crate::switches::echo);
    let handle = engine.sessions().next().unwrap();
    assert_eq!(
        handle.operate(&Action::TestRequest { id: "x".to_owned() }),
        Err(OperateError::NotLoggedOn)
    );
    assert_eq!(handle.operate(&Action::ResetInSession {}), Err(OperateError::NotLoggedOn));
    assert_eq!(handle.operate(&Action::Disconnect {}), Err(OperateError::NotConnected));
    let mut wire = logged_on(address);
    assert_eq!(
        handle.operate(&Action::SequenceReset { new_seq_no: 2 }),
        Err(OperateError::NotAbove { next: 2 })
    );
    let beyond = MSG_SEQ_NUM_MAX + 1;
    assert_eq!(
        handle.operate(&Action::SequenceReset { new_seq_no: beyond }),
        Err(OperateError::MsgSeqNum(beyond))
    );
    assert_eq!(
        handle.operate(&Action::SetNumbers { next_in: Some(9), next_out: Some(0) }),
        Err(OperateError::MsgSeqNum(0))
    );
    assert_eq!(handle.next_numbers(), (2, 2));
    assert_eq!(
        handle.operate(&Action::ResendRequest { begin: 0, end: 0 }),
        Err(OperateError::MsgSeqNum(0))
    );
    assert_eq!(
        handle.operate(&Action::ResendRequest { begin: 3, end: 2 }),
        Err(OperateError::EmptyRange)
    );
    assert_eq!(handle.operate(&Action::ResetInSession {}), Ok(()));
    assert_eq!(handle.operate(&Action::ResetInSession {}), Err(OperateError::ResetUnderWay));
    assert!(wire.next().starts_with("35=A|34=1|"), "the first message after the logon");
    engine.stop(Duration::ZERO);
    assert_eq!(handle.operate(&Action::LogOn {}), Err(OperateError::Closed));
    assert_eq!(handle.operate(&Action::Revive {}), Err(OperateError::Closed));

    let old = |settings: &mut SessionSettings| settings.begin_string = BeginString::Fix40;
    let (engine, _) = start(vec![venue(old)], crate::switches::echo);
    let handle = engine.sessions().next().unwrap();
    assert_eq!(handle.operate(&Action::ResetAtNextLogon {}), Err(OperateError::NoResetFlag));
}

/// Reports the session state from callbacks that cannot send.
#[derive(Clone)]
struct Looker(Sender<(&'static str, State, (u64, u64))>);

impl Looker {
    fn look(&self, place: &'static str, session: &SessionView<'_>) {
        assert_eq!(session.id().target_comp_id.to_string(), "CLIENT");
        assert!(session.other(&session.id().clone()).is_some());
        self.0.send((place, session.state(), session.next_numbers())).unwrap();
    }
}

impl Application for Looker {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        session.send(msg_type::NEWS, |news| _ = news.str(tag::TEXT, "here"))?;
        Ok(())
    }

    fn fill_logon(&mut self, _: &mut Body<'_>, session: &SessionView<'_>) {
        self.look("fill_logon", session);
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        // Only the session layer may send a Logon(A), so the call is refused and nothing is
        // written.
        let refused = session.send(msg_type::LOGON, |_| ());
        assert!(matches!(refused, Err(SendError::Misuse(_))), "{refused:?} at {event:?}");
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        match notice {
            SessionNotice::Unsent(message) => {
                assert_eq!((message.msg_type, message.body), (msg_type::NEWS, &b"58=held\x01"[..]));
                self.look("Unsent", session);
            }
            SessionNotice::Disconnected(_) => {
                self.look("Disconnected", session);
            }
            _ => {}
        }
    }

    fn on_resend(&mut self, _: &Message<'_>, session: &SessionView<'_>) -> Resend {
        self.look("on_resend", session);
        Resend::Send
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], session: &SessionView<'_>) {
        if direction == Direction::Inbound && frame.windows(5).any(|part| part == b"\x0135=1") {
            self.look("on_wire", session);
        }
    }
}

#[test]
fn a_callback_sees_its_session_where_nothing_can_be_sent() {
    let (seen, sees) = channel();
    let looker = Looker(seen);
    let settings = venue(|s| s.queue.unsent = Unsent::Return);
    let (engine, address) = start(vec![settings], || looker.clone());
    let handle = engine.sessions().next().unwrap();
    let mut wire = logged_on(address);
    let next = || sees.recv_timeout(LONG).unwrap();
    assert_eq!(next(), ("fill_logon", State::LogonAwaited, (1, 1)));
    wire.send("35=D|34=2");
    assert_eq!(wire.next(), "35=B|34=2|58=here");
    wire.send("35=2|34=3|7=2|16=0");
    assert_eq!(next(), ("on_resend", State::Active, (4, 3)));
    assert!(wire.next().starts_with("35=B|34=2|43=Y|"));
    wire.send("35=1|34=4|112=x");
    assert_eq!((next().0, wire.next()), ("on_wire", "35=0|34=3|112=x".to_owned()));
    handle.operate(&Action::HoldSending {}).unwrap();
    handle.send(msg_type::NEWS, |news| _ = news.str(tag::TEXT, "held")).unwrap();
    drop(wire);
    assert_eq!(next().0, "Unsent");
    assert_eq!(next(), ("Disconnected", State::Disconnected, (5, 4)));
}
