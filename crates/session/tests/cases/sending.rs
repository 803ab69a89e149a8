//! Tests of settings that change the sending or receiving of messages in ways that the standard
//! does not define.

use std::time::Duration;

use transfix_codec::{Timestamp, tag};
use transfix_session::{
    BeginString, Disconnect, HeaderChange, SendError, State, Throttle, ThrottleAction, Verdict,
};

use crate::cases::counterparty::World;

const TOO_MANY: &str = "too many messages of this type";

fn throttled(begin_string: BeginString, action: ThrottleAction) -> World {
    World::active_with(begin_string, |config| {
        let msg_type = "D".to_owned();
        config.protocol.throttles =
            vec![Throttle { msg_type, messages_max: 2, interval: Duration::from_secs(1), action }];
    })
}

#[test]
fn too_many_messages_of_a_type_are_rejected() {
    for (begin_string, reject) in [
        (BeginString::Fix41, format!("35=3|34=2|45=5|58={TOO_MANY}")),
        (BeginString::Fix44, format!("35=j|34=2|45=5|372=D|380=0|58={TOO_MANY}")),
    ] {
        let mut w = throttled(begin_string, ThrottleAction::Reject);
        assert_eq!(w.receive("35=D|34=2|11=a"), Verdict::Deliver);
        assert_eq!(w.receive("35=D|34=3|11=b"), Verdict::Deliver);
        assert_eq!(w.receive("35=F|34=4|11=c"), Verdict::Deliver, "another type");
        assert_eq!(w.receive("35=D|34=5|11=d"), Verdict::Throttled);
        assert!(w.sent().is_empty(), "those before it may wait for the application");
        w.refuse_throttled("35=D|34=5|11=d");
        assert_eq!(w.sent(), [reject]);
        let dup = "43=Y|122=20261121-12:00:00";
        assert_eq!(w.receive(&format!("35=D|34=6|{dup}|11=e")), Verdict::Deliver);
        assert_eq!(w.later(1), Verdict::Handled);
        assert_eq!(w.receive("35=D|34=7|11=f"), Verdict::Deliver);
        assert_eq!(w.session.next_num_in(), 8);
    }
}

#[test]
fn too_many_messages_of_a_type_end_the_session() {
    let mut w = throttled(BeginString::Fix44, ThrottleAction::Disconnect);
    w.takes("35=D|34=2|11=a");
    w.takes("35=D|34=3|11=b");
    assert_eq!(w.receive("35=D|34=4|11=c"), Verdict::Disconnect(Disconnect::Throttling));
    assert_eq!(w.sent(), ["35=5|34=2|58=too many messages of one type in the time allowed"]);
    assert_eq!(w.session.next_num_in(), 5);
}

#[test]
fn without_limits_any_number_is_taken() {
    let mut w = World::active(BeginString::Fix44);
    for seq in 2..100 {
        assert_eq!(w.receive(&format!("35=D|34={seq}|11=a")), Verdict::Deliver);
    }
}

#[test]
fn a_silent_end() {
    for (silent, answers) in [(false, 1), (true, 0)] {
        let active = || {
            World::active_with(BeginString::Fix44, |config| {
                config.protocol.silent_disconnect = silent
            })
        };
        let mut w = active();
        assert_eq!(w.session.logout(w.now, "bye", &mut w.out), !silent);
        assert_eq!(w.sent().len(), answers);
        let mut w = active();
        let low = Disconnect::MsgSeqNumTooLow { expected: 2, received: 1 };
        assert_eq!(w.receive("35=0|34=1"), Verdict::Disconnect(low));
        assert_eq!(w.sent().len(), answers);
        let mut w = active();
        let bad = Verdict::Disconnect(Disconnect::CompId);
        assert_eq!(w.receive("35=0|34=2|49=WHO") == bad, silent);
        assert_eq!(w.sent().len(), 1 + answers);
        // The Logout(5) of the counterparty is answered nevertheless.
        let mut w = active();
        assert_eq!(w.receive("35=5|34=2"), Verdict::Disconnect(Disconnect::LoggedOut));
        assert_eq!(w.sent(), ["35=5|34=2"]);
    }
}

#[test]
fn a_header_of_the_applications_choice() {
    let mut w = World::active(BeginString::Fix44);
    let send = |w: &mut World, change: HeaderChange| {
        let fill = |body: &mut transfix_codec::Body<'_>| _ = body.str(tag::CL_ORD_ID, "a");
        let sent = w.session.send_with(w.now, b"D", change, &mut w.out, fill);
        (sent, w.out.entries().len(), w.sent())
    };
    let seven = HeaderChange { msg_seq_num: Some(7), ..HeaderChange::default() };
    assert_eq!(send(&mut w, seven), (Ok(7), 0, vec!["35=D|34=7|11=a".to_owned()]));
    let original = Timestamp::parse(b"20261121-11:00:00");
    let dup = HeaderChange { orig_sending_time: original, ..HeaderChange::default() };
    let line = "35=D|34=2|43=Y|122=20261121-11:00:00.000|11=a".to_owned();
    assert_eq!(send(&mut w, dup), (Ok(2), 1, vec![line]));
    assert_eq!(send(&mut w, HeaderChange::default()).2, ["35=D|34=3|11=a"]);
    w.session.logout(w.now, "", &mut w.out);
    assert_eq!(w.session.state(), State::LogoutSent);
    w.sent();
    assert_eq!(send(&mut w, seven), (Err(SendError::LoggingOut), 0, vec![]));
}

/// The counterparty's MaxMessageSize(383) limits all application messages. A refused message has no
/// effect on the session: the next heartbeat is sent.
#[test]
fn what_is_too_long_is_not_sent() {
    let mut w = World::active_with(BeginString::Fix44, |_| ());
    w.disconnect();
    w.connect();
    w.takes("35=A|34=2|98=0|108=30|383=150");
    w.sent();
    let too_long = Err(SendError::TooLong { bytes_max: 150 });
    let long = "x".repeat(100);
    for _ in 0..29 {
        assert_eq!(w.later(1), Verdict::Handled);
        assert_eq!(w.send(&long), too_long);
        let seven = HeaderChange { msg_seq_num: Some(7), ..HeaderChange::default() };
        for change in [HeaderChange::default(), seven] {
            let fill = |body: &mut transfix_codec::Body<'_>| _ = body.str(tag::TEXT, &long);
            assert_eq!(w.session.send_with(w.now, b"B", change, &mut w.out, fill), too_long);
        }
    }
    assert_eq!(w.sent(), [""; 0]);
    assert_eq!(w.later(1), Verdict::Handled);
    assert_eq!(w.sent(), ["35=0|34=3"]);
    assert_eq!(w.send("short"), Ok(4));
    w.disconnect();
    let fill = |body: &mut transfix_codec::Body<'_>| _ = body.str(tag::TEXT, &long);
    assert_eq!(w.session.send_offline(w.now, b"B", &mut w.out, fill), too_long);
    assert_eq!((w.session.next_num_out(), w.out.entries().len()), (5, 0));
}
