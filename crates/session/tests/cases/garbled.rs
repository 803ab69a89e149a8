//! Garbled messages on a session that rejects them.

use transfix_codec::Garbled;
use transfix_session::{BeginString, State, Verdict};

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
