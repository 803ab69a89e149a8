//! No message contains a field that its version lacks. Each administrative message, with all
//! settings on, is valid under the dictionary of its version.

use std::sync::Arc;

use transfix_codec::{
    CheckSumPolicy, FieldIndex, Frame, Limits, Message, Reject, RejectReason, Rules, Scratch,
    Switches, Tag, frame, tag,
};
use transfix_session::{
    ApplVerId, BeginString, Config, LogonConfig, NumbersConfig, ResetPolicy, Role, Secret, SubIds,
};

use crate::cases::counterparty::World;

fn everything(config: &mut Config) {
    config.id.sub_ids = Arc::new(SubIds {
        sender_sub_id: "S".into(),
        sender_location_id: "SL".into(),
        target_sub_id: "T".into(),
        target_location_id: "TL".into(),
    });
    config.protocol.reset_on = ResetPolicy::LOGON;
    config.numbers = NumbersConfig {
        send_last_processed: true,
        next_expected: true,
        ..NumbersConfig::default()
    };
    config.logon = LogonConfig {
        username: Some("me".to_owned()),
        password: Some(Secret::new("old".to_owned())),
        new_password: Some(Secret::new("new".to_owned())),
        default_cstm_appl_ver_id: Some("VENUE2".to_owned()),
        test_message_indicator: Some(true),
        max_message_size: 5_000,
        ..LogonConfig::default()
    };
    if config.id.begin_string == BeginString::Fixt11 {
        config.protocol.default_appl_ver_id = Some(ApplVerId(9));
    }
}

/// Makes a session of this version write a message of every kind.
fn write_all(begin_string: BeginString) -> Vec<u8> {
    let mut initiator = World::new(Role::Initiator, begin_string, everything);
    let mut w = World::new(Role::Acceptor, begin_string, everything);
    w.out.clear_entries();
    let fixt = if begin_string == BeginString::Fixt11 { "|1137=9" } else { "" };
    w.takes(&format!("35=A|34=1|98=0|108=30|141=Y|464=Y{fixt}"));
    w.takes("35=1|34=2|112=x");
    w.takes("35=0|34=9");
    let (now, out) = (w.now, &mut w.out);
    assert_eq!(w.session.request_resend(now, 1, 0, out), Ok(()));
    assert_eq!(w.session.test_request(now, "hello", out), Ok(()));
    w.session.gap_fill(now, 1, 2, out);
    let route = if begin_string == BeginString::Fix40 { "" } else { "|144=OL|145=DL" };
    let order = w.frame(&format!("35=D|34=3|115=O|116=OS|128=D|129=DS{route}|11=a"));
    let mut index = FieldIndex::default();
    let order = Message::parse(&order, &mut index, CheckSumPolicy::Verify).unwrap();
    for reason in RejectReason::ALL {
        w.session.reject(now, &order, Reject::new(reason, Tag(55)), &mut w.out);
    }
    w.session.business_reject(now, (&order, order.msg_seq_num().ok()), (3, "not here"), &mut w.out);
    let _ = w.later(30);
    let _ = w.later(6);
    assert_eq!(w.session.sequence_reset(w.now, 1_000, &mut w.out), Ok(()));
    assert!(w.session.logout(w.now, "the end", &mut w.out));
    let mut bytes = initiator.out.bytes().to_vec();
    initiator.out.clear();
    bytes.extend_from_slice(w.out.bytes());
    bytes
}

#[test]
fn every_administrative_message_is_valid_in_its_version() {
    for begin_string in BeginString::ALL {
        let standard = |name| transfix_dictionary::standard(name).unwrap();
        let rules = match begin_string {
            BeginString::Fixt11 => Rules::new(&standard("FIXT11"), &standard("FIX50SP2")),
            old => Rules::new(&standard(old.as_str()), &standard(old.as_str())),
        };
        let bytes = write_all(begin_string);
        let mut rest = &bytes[..];
        let (mut index, mut scratch) = (FieldIndex::default(), Scratch::default());
        let mut types = Vec::new();
        while let Frame::Whole(end) = frame::split(rest, Limits::default()) {
            let message = Message::parse(&rest[..end], &mut index, CheckSumPolicy::Verify).unwrap();
            let valid = rules.check(&message, &Switches::ALL, &mut scratch);
            assert_eq!(valid, Ok(()), "{begin_string}: {message}");
            types.push(message.text(tag::MSG_TYPE).unwrap().to_owned());
            rest = &rest[end..];
        }
        types.sort();
        types.dedup();
        let mut expected = vec!["0", "1", "2", "3", "4", "5", "A"];
        if begin_string >= BeginString::Fix42 {
            expected.push("j");
        }
        assert_eq!(types, expected, "{begin_string}");
    }
}
