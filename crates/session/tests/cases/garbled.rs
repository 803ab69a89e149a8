//! Tests of garbled messages in a session that rejects them.

use transfix_codec::Garbled;
use transfix_session::{BeginString, Config, Disconnect, State, Verdict};

use crate::cases::counterparty::World;

fn receive(w: &mut World, frame: &str, garbled: Garbled) -> Verdict {
    let frame = frame.replace('|', "\x01");
    w.session.receive_garbled(w.now, frame.as_bytes(), garbled, &mut w.out)
}

#[test]
fn a_garbled_message_is_rejected_and_counts() {
    let table = [
        (
            "8=FIX.4.4|9=5|35=D|34=2|10=000|",
            Garbled::CheckSum,
            "35=3|34=2|45=2|371=10|372=D|373=99|58=Other, tag 10 [MsgSeqNum 2, MsgType D]",
        ),
        (
            "8=FIX.4.4|9=5|34=2|35=D|10=000|",
            Garbled::MsgType,
            "35=3|34=2|45=2|371=35|372=D|373=14|58=Tag specified out of required order, tag 35 \
             [MsgSeqNum 2, MsgType D]",
        ),
        (
            "8=FIX.4.4|9=5|34=2|10=000|",
            Garbled::MsgType,
            "35=3|34=2|45=2|371=35|373=1|58=Required tag missing, tag 35 [MsgSeqNum 2, MsgType ]",
        ),
    ];
    for (frame, garbled, reject) in table {
        let mut w = World::active(BeginString::Fix44);
        assert_eq!(receive(&mut w, frame, garbled), Verdict::Handled);
        assert_eq!(w.sent(), [reject]);
        assert_eq!(w.session.next_num_in(), 3);
    }
}

#[test]
fn a_garbled_message_out_of_turn_is_not_rejected() {
    let mut w = World::active(BeginString::Fix44);
    let frame = |seq: &str| format!("8=FIX.4.4|9=5|35=D|{seq}10=000|");
    for seq in ["34=1|", "", "34=x|", "34=0|"] {
        assert_eq!(receive(&mut w, &frame(seq), Garbled::CheckSum), Verdict::Handled);
        assert_eq!(w.sent(), [""; 0]);
    }
    assert_eq!(receive(&mut w, &frame("34=4|"), Garbled::CheckSum), Verdict::Held);
    assert_eq!(w.sent(), ["35=2|34=2|7=2|16=0"]);
    assert_eq!((w.session.next_num_in(), w.session.state()), (2, State::Active));
}

#[test]
fn the_number_of_a_long_message_counts_and_that_of_a_damaged_one_may_be_wrong() {
    const NEXT: u64 = 5;
    let low = Verdict::Disconnect(Disconnect::MsgSeqNumTooLow { expected: NEXT, received: 4 });
    let table = [
        ("34=4|", false, true, low, NEXT),
        ("34=4|43=Y|", false, true, Verdict::Handled, NEXT),
        ("34=4|", true, true, Verdict::Handled, NEXT),
        ("34=9|", false, true, Verdict::Held, NEXT),
        ("34=9|", true, true, Verdict::Held, NEXT),
        ("34=9|", false, false, Verdict::Handled, 10),
        ("34=9|", true, false, Verdict::Handled, NEXT),
    ];
    for (seq, is_damaged, request_missing, expected, next) in table {
        let change = |config: &mut Config| config.numbers.request_missing = request_missing;
        let mut w = World::active_with(BeginString::Fix44, change);
        w.session.set_next_num_in(NEXT);
        let head = format!("8=FIX.4.4|9=9999|35=D|{seq}").replace('|', "\x01");
        let verdict = match is_damaged {
            true => receive(&mut w, &head, Garbled::CheckSum),
            false => w.session.receive_too_long(w.now, head.as_bytes(), &mut w.out),
        };
        assert_eq!(verdict, expected, "{seq} {is_damaged} {request_missing}");
        assert_eq!(w.session.next_num_in(), next, "{seq} {is_damaged} {request_missing}");
    }
}
