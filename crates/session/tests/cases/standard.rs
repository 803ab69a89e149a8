//! The test cases of the standard, with default settings.

use std::sync::{Arc, Mutex};

use transfix_codec::{
    CheckSumPolicy, FieldIndex, Message, Reject, RejectReason, Rules, Switches, tag,
};
use transfix_session::{
    ApplVerId, BeginString, Checks, Disconnect, Remark, ResetPolicy, Role, SendError,
    StandardRules, State, Verdict,
};

use crate::cases::counterparty::{SECOND, World, all_versions};

#[test]
fn logon_is_answered_with_the_same_terms() {
    let mut w =
        World::new(Role::Acceptor, BeginString::Fixt11, |c| c.protocol.default_appl_ver_id = None);
    assert_eq!(w.receive("35=A|34=1|98=0|108=7|1137=8"), Verdict::LoggedOn);
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=7|1137=8"]);
    assert_eq!(w.session.appl_ver_id(), Some(ApplVerId(8)));
    assert_eq!(w.receive("35=5|34=2"), Verdict::Disconnect(Disconnect::LoggedOut));
    assert_eq!(w.sent(), ["35=5|34=2"]);
}

#[test]
fn logon_above_the_expected_number_is_answered_then_asked_for() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
    assert_eq!(w.receive("35=A|34=5|98=0|108=30"), Verdict::LoggedOn);
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30", "35=2|34=2|7=1|16=0"]);
    assert_eq!(w.receive("35=5|34=6"), Verdict::Disconnect(Disconnect::LoggedOut));
    assert_eq!(w.sent(), ["35=5|34=3"]);
    assert_eq!(w.session.next_num_in(), 1);
}

#[test]
fn open_end_of_old_versions_is_999999() {
    let mut w = World::active(BeginString::Fix41);
    assert_eq!(w.receive("35=0|34=5"), Verdict::Held);
    assert_eq!(w.sent(), ["35=2|34=2|7=2|16=999999"]);
}

#[test]
fn the_first_message_must_be_a_logon() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix42, |_| ());
    let verdict = w.receive("35=D|34=1|55=EU");
    assert_eq!(verdict, Verdict::Disconnect(Disconnect::FirstMessageNotLogon));
    assert_eq!(w.sent(), [""; 0]);
}

#[test]
fn a_second_logon_is_disconnected_without_a_word() {
    all_versions(|mut w| {
        let verdict = w.receive("35=A|34=2|98=0|108=30|1137=9");
        assert_eq!(verdict, Verdict::Disconnect(Disconnect::SecondLogon));
        assert_eq!(w.sent(), [""; 0]);
    });
}

#[test]
fn reset_in_mid_session() {
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.receive("35=1|34=2|112=a"), Verdict::Handled);
    w.sent();
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::Reset);
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30|141=Y"]);
    assert_eq!((w.session.next_num_in(), w.session.next_num_out()), (2, 2));
}

#[test]
fn initiator_resets_when_it_is_told_to() {
    let mut w = World::new(Role::Initiator, BeginString::Fix44, |c| {
        c.protocol.reset_on = ResetPolicy::LOGON
    });
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30|141=Y"]);
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::LoggedOn);
    assert_eq!((w.session.next_num_in(), w.session.next_num_out()), (2, 2));
    w.disconnect();
    w.connect();
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30|141=Y"]);
}

#[test]
fn a_gap_is_asked_for_once_and_held_messages_come_in_order() {
    all_versions(|mut w| {
        assert_eq!(w.receive("35=D|34=4|11=c"), Verdict::Held);
        assert_eq!(w.receive("35=D|34=5|11=d"), Verdict::Held);
        let sent = w.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert!(sent[0].starts_with("35=2|34=2|7=2|16="), "{sent:?}");
        let time = "122=20261121-12:00:00";
        let verdict = w.receive(&format!("35=D|34=2|43=Y|{time}|11=a"));
        assert_eq!(verdict, Verdict::Deliver);
        assert_eq!(w.session.take_held(), None);
        let verdict = w.receive(&format!("35=4|34=3|43=Y|{time}|123=Y|36=4"));
        assert_eq!(verdict, Verdict::Handled);
        for id in ["11=c", "11=d"] {
            let held = w.session.take_held().unwrap();
            assert!(held.windows(4).any(|x| x == id.as_bytes()));
            assert_eq!(w.receive_bytes(&held), Verdict::Deliver);
        }
        assert_eq!(w.session.take_held(), None);
        assert_eq!(w.session.next_num_in(), 6);
        assert_eq!(w.sent(), [""; 0]);
    });
}

#[test]
fn low_numbers() {
    all_versions(|mut w| {
        let verdict = w.receive("35=0|34=1|43=Y|122=20261121-11:59:59");
        assert_eq!(verdict, Verdict::Handled);
        assert_eq!(w.sent(), [""; 0]);
        let verdict = w.receive("35=0|34=1");
        let why = Disconnect::MsgSeqNumTooLow { expected: 2, received: 1 };
        assert_eq!(verdict, Verdict::Disconnect(why));
        let text = "MsgSeqNum(34) too low, expecting 2 but received 1";
        assert_eq!(w.sent(), [format!("35=5|34=2|58={text}")]);
    });
}

#[test]
fn poss_dup_and_its_original_time() {
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.receive("35=0|34=1|43=Y"), Verdict::Handled);
    assert_eq!(
        w.sent(),
        ["35=3|34=2|45=1|371=122|372=0|373=1|58=Required tag missing, tag 122 \
         [MsgSeqNum 1, MsgType 0]"]
    );
    assert_eq!(w.session.next_num_in(), 2);
    assert_eq!(w.receive("35=0|34=1|43=Y|122=20261121-12:00:09"), Verdict::Handled);
    let sent = w.sent();
    assert!(sent[0].starts_with("35=3|34=3|45=1|371=122|372=0|373=10"), "{sent:?}");
    assert!(sent[1].starts_with("35=5|34=4"), "{sent:?}");
    assert_eq!(w.session.state(), State::LogoutSent);
    let ended = Verdict::Disconnect(Disconnect::SendingTime);
    assert_eq!(w.receive("35=5|34=2"), ended);
}

#[test]
fn wrong_comp_ids_and_times_end_the_session() {
    for field in ["49=WHO", "56=WHO", "52=20261121-11:57:59", "52=20261121-12:02:01"] {
        all_versions(|mut w| {
            assert_eq!(w.receive(&format!("35=D|34=2|{field}|11=a")), Verdict::Handled);
            let sent = w.sent();
            assert!(sent[0].starts_with("35=3|34=2|45=2"), "{sent:?}");
            assert!(sent[1].starts_with("35=5|34=3"), "{sent:?}");
            assert_eq!(w.session.next_num_in(), 3);
            assert!(matches!(w.receive("35=5|34=3"), Verdict::Disconnect(_)));
        });
    }
}

#[test]
fn another_version_in_mid_session() {
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.receive("35=0|8=FIX.4.2|34=2"), Verdict::Handled);
    assert_eq!(w.sent(), ["35=5|34=2|58=BeginString(8) of a message is not FIX.4.4"]);
    let ended = Verdict::Disconnect(Disconnect::BeginString(BeginString::Fix44));
    assert_eq!(w.later(10), ended);
}

#[test]
fn heartbeats_and_test_requests() {
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.later(29), Verdict::Handled);
    assert_eq!(w.sent(), [""; 0]);
    assert_eq!(w.later(1), Verdict::Handled);
    assert_eq!(w.sent(), ["35=0|34=2"]);
    assert_eq!(w.later(6), Verdict::Handled);
    assert_eq!(w.sent(), ["35=1|34=3|112=3"]);
    assert_eq!(w.receive("35=0|34=2|112=3"), Verdict::Handled);
    assert_eq!(w.later(36), Verdict::Handled);
    assert_eq!(w.sent().len(), 1);
    assert_eq!(w.later(20), Verdict::Disconnect(Disconnect::HeartbeatTimeout));
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.receive("35=1|34=2|112=hello"), Verdict::Handled);
    assert_eq!(w.sent(), ["35=0|34=2|112=hello"]);
}

#[test]
fn no_heartbeats_when_the_interval_is_0() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
    assert_eq!(w.receive("35=A|34=1|98=0|108=0"), Verdict::LoggedOn);
    w.sent();
    assert_eq!(w.session.next_deadline(), None);
    assert_eq!(w.later(100_000), Verdict::Handled);
    assert_eq!(w.sent(), [""; 0]);
}

#[test]
fn resend_requests() {
    let mut w = World::active(BeginString::Fix44);
    for id in ["a", "b"] {
        let fill = |body: &mut transfix_codec::Body<'_>| {
            _ = body.str(tag::CL_ORD_ID, id);
        };
        w.session.send(w.now, b"D", &mut w.out, fill).unwrap();
    }
    let stored = w.out.bytes().to_vec();
    w.sent();
    let ask = |w: &mut World, n: u64, range: &str| w.receive(&format!("35=2|34={n}|{range}"));
    assert_eq!(ask(&mut w, 2, "7=1|16=0"), Verdict::Resend { begin: 1, end: 3 });
    assert_eq!(ask(&mut w, 3, "7=2|16=2"), Verdict::Resend { begin: 2, end: 2 });
    // A request with a number that is too high is answered at once; our request for the missing
    // messages is sent too.
    assert_eq!(ask(&mut w, 8, "7=1|16=0"), Verdict::Resend { begin: 1, end: 4 });
    assert_eq!(w.sent(), ["35=2|34=4|7=4|16=0"]);
    w.session.gap_fill(w.now, 1, 2, &mut w.out);
    let mut index = FieldIndex::default();
    let transfix_codec::Frame::Whole(end) =
        transfix_codec::frame::split(&stored, transfix_codec::Limits::default())
    else {
        panic!("not whole")
    };
    let message = Message::parse(&stored[..end], &mut index, CheckSumPolicy::Verify).unwrap();
    w.session.resend(w.now, &message, &mut w.out);
    assert_eq!(w.out.entries(), []);
    assert_eq!(
        w.sent(),
        [
            "35=4|34=1|43=Y|122=20261121-12:00:00.000|123=Y|36=2",
            "35=D|34=2|43=Y|122=20261121-12:00:00.000|11=a"
        ]
    );
    assert_eq!(w.session.next_num_out(), 5);
}

/// A counterparty that requests numbers never used receives a Reject(3), and the operator is
/// informed.
#[test]
fn resend_requests_for_numbers_never_sent() {
    let fault = Reject::new(RejectReason::ValueOutOfRange, tag::BEGIN_SEQ_NO);
    all_versions(|mut w| {
        assert_eq!(w.receive("35=2|34=2|7=2|16=0"), Verdict::Handled, "all that follows: nothing");
        assert_eq!((w.sent(), w.session.take_remark()), (vec![], None));
    });
    for (begin, end) in [(2, 2), (3, 0), (3, 999_999), (9, 12)] {
        all_versions(|mut w| {
            assert_eq!(w.receive(&format!("35=2|34=2|7={begin}|16={end}")), Verdict::Handled);
            let sent = w.sent();
            assert!(sent.len() == 1 && sent[0].starts_with("35=3|34=2|45=2"), "{sent:?}");
            assert_eq!(w.session.take_remark(), Some(Remark::Rejected { seq: 2, reject: fault }));
            assert_eq!(w.session.next_num_in(), 3, "its number counts");
        });
    }
    // If its number is too high, such a request is held and rejected after the gap is closed.
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.receive("35=2|34=3|7=9|16=0"), Verdict::Held);
    assert_eq!(w.sent(), ["35=2|34=2|7=2|16=0"]);
    assert_eq!(w.receive("35=0|34=2"), Verdict::Handled);
    assert_eq!(w.receive_held(), Some(Verdict::Handled));
    assert_eq!(w.session.take_remark(), Some(Remark::Rejected { seq: 3, reject: fault }));
    assert!(w.sent()[0].starts_with("35=3|34=3|45=3|371=7|372=2|373=5"));
}

/// An invalid Logout(5) ends the session: FIX 4.4 does not define SessionStatus(1409), a field of
/// FIX 5.0.
#[test]
fn a_logout_ends_the_session_whatever_the_dictionary_has_against_it() {
    let dictionary = transfix_dictionary::standard("FIX44").unwrap();
    let rules = Arc::new(Rules::new(&dictionary, &dictionary));
    for answers in [false, true] {
        let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
        w.session.set_rules(Some(Arc::clone(&rules)), Checks::default());
        let logon = w.logon(1);
        assert_eq!(w.receive(&logon), Verdict::LoggedOn);
        if answers {
            assert!(w.session.logout(w.now, "", &mut w.out));
        }
        w.sent();
        let ended = Verdict::Disconnect(Disconnect::LoggedOut);
        assert_eq!(w.receive("35=5|34=2|58=bye|1409=4"), ended);
        let sent = w.sent();
        assert!(if answers { sent.is_empty() } else { sent == ["35=5|34=2"] }, "{sent:?}");
        let remark = w.session.take_remark();
        assert!(matches!(remark, Some(Remark::FaultyLogout(_))), "{remark:?}");
        assert_eq!(w.session.next_num_in(), 3, "its number counts");
    }
    // The CompIDs of a Logout(5) are checked nevertheless.
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.receive("35=5|34=2|49=WHO"), Verdict::Handled);
    assert!(w.sent()[0].starts_with("35=3|34=2|45=2|371=49|372=5|373=9"));
}

#[test]
fn sequence_resets() {
    all_versions(|mut w| {
        assert_eq!(w.receive("35=4|34=2|123=Y|36=10"), Verdict::Handled);
        assert_eq!(w.session.next_num_in(), 10);
        assert_eq!(w.receive("35=4|34=0|36=20"), Verdict::Handled);
        assert_eq!(w.receive("35=4|34=0|123=N|36=20"), Verdict::Handled);
        assert_eq!(w.session.next_num_in(), 20);
        assert_eq!(w.sent(), [""; 0]);
        assert_eq!(w.receive("35=4|34=0|36=19"), Verdict::Handled);
        assert_eq!(w.session.next_num_in(), 20);
        assert!(w.sent()[0].starts_with("35=3|34=2|45=0"));
        assert_eq!(w.receive("35=4|34=25|123=Y|36=30"), Verdict::Held);
        assert_eq!(w.receive("35=1|34=30|112=x"), Verdict::Held);
        assert_eq!(w.sent().len(), 1);
    });
}

#[test]
fn logout_of_ours_waits_for_theirs() {
    all_versions(|mut w| {
        assert!(w.session.logout(w.now, "the day is over", &mut w.out));
        assert_eq!(w.sent(), ["35=5|34=2|58=the day is over"]);
        let sent = w.session.send(w.now, b"D", &mut w.out, |_| ());
        assert_eq!(sent, Err(SendError::LoggingOut));
        assert_eq!(w.receive("35=D|34=2|11=late"), Verdict::Deliver);
        assert_eq!(w.receive("35=5|34=3"), Verdict::Disconnect(Disconnect::LoggedOut));
        assert_eq!(w.sent(), [""; 0]);
    });
}

#[test]
fn logon_and_logout_have_time_outs() {
    let mut w = World::new(Role::Initiator, BeginString::Fix44, |_| ());
    assert_eq!(w.later(9), Verdict::Handled);
    assert_eq!(w.later(1), Verdict::Disconnect(Disconnect::LogonTimeout));
    let mut w = World::active(BeginString::Fix44);
    w.session.logout(w.now, "", &mut w.out);
    assert_eq!(w.later(10), Verdict::Disconnect(Disconnect::LogoutTimeout));
}

#[test]
fn messages_of_the_session_layer_have_checks_of_their_own() {
    let mut w = World::active(BeginString::Fix44);
    let dictionary = transfix_dictionary::standard("FIX44").unwrap();
    let rules = Arc::new(Rules::new(&dictionary, &dictionary));
    let checks = Checks { session: Switches::default(), ..Checks::all(Switches::NONE) };
    w.session.set_rules(Some(rules), checks);
    assert_eq!(w.receive("35=D|34=2|44=cheap"), Verdict::Deliver);
    assert_eq!(w.receive("35=0|34=3|44=1"), Verdict::Handled);
    let text = "Tag not defined for this message type, tag 44 [MsgSeqNum 3, MsgType 0]";
    assert_eq!(w.sent(), [format!("35=3|34=2|45=3|371=44|372=0|373=2|58={text}")]);
}

#[test]
fn a_field_that_is_too_long_is_rejected() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |c| c.protocol.field_bytes_max = 64);
    assert_eq!(w.receive("35=A|34=1|98=0|108=30"), Verdict::LoggedOn);
    w.sent();
    let (fits, is_too_long) = ("x".repeat(64), "x".repeat(65));
    assert_eq!(w.receive(&format!("35=B|34=2|148={fits}")), Verdict::Deliver);
    assert_eq!(w.receive(&format!("35=B|34=3|148={is_too_long}")), Verdict::Handled);
    let sent = w.sent().remove(0);
    assert!(sent.starts_with("35=3|34=2|45=3|371=148|372=B|373=5|58="), "{sent}");
    assert_eq!(w.receive("35=0|34=4"), Verdict::Handled, "its number has counted");
    assert_eq!(w.sent().len(), 0);
}

#[test]
fn validation_rejects_count_and_say_why() {
    let reject = |begin_string: BeginString, line: &str| {
        let mut w = World::active(begin_string);
        let dictionary = transfix_dictionary::standard(begin_string.as_str()).unwrap();
        let rules = Rules::new(&dictionary, &dictionary);
        w.session.set_rules(Some(Arc::new(rules)), Checks::default());
        assert_eq!(w.receive(line), Verdict::Handled);
        assert_eq!(w.session.next_num_in(), 3);
        w.sent().remove(0)
    };
    let order = "35=D|34=2|11=a|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30";
    assert_eq!(
        reject(BeginString::Fix44, &format!("{order}|-1=x")),
        "35=3|34=2|45=2|371=-1|372=D|373=0|58=Invalid tag number, tag -1 [MsgSeqNum 2, MsgType D]"
    );
    assert_eq!(
        reject(BeginString::Fix44, &format!("{order}|55=EU")),
        "35=3|34=2|45=2|371=55|372=D|373=13|58=Tag appears more than once, tag 55 \
         [MsgSeqNum 2, MsgType D]"
    );
    // FIX 4.2 does not define SessionRejectReason(373) 13.
    assert_eq!(
        reject(BeginString::Fix42, &format!("{order}|55=EU")),
        "35=3|34=2|45=2|371=55|372=D|58=Tag appears more than once, tag 55 \
         [MsgSeqNum 2, MsgType D]"
    );
    assert_eq!(
        reject(BeginString::Fix41, "35=1|34=2|112=x|999=y"),
        "35=3|34=2|45=2|58=Invalid tag number, tag 999 [MsgSeqNum 2, MsgType 1]"
    );
}

/// FIXT: a message whose ApplVerID(1128) differs from the session's version is validated by the
/// rules of its own version.
#[test]
fn messages_of_several_versions_are_validated_by_their_own() {
    let standard = |name| transfix_dictionary::standard(name).unwrap();
    let rules = |name| Arc::new(Rules::new(&standard("FIXT11"), &standard(name)));
    let mut w = World::active(BeginString::Fixt11);
    w.session.set_rules(Some(rules("FIX50SP2")), Checks::default());
    w.session.set_version_rules(vec![(b"4"[..].into(), rules("FIX42"))]);
    let order = "11=a|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30";
    // FIX 4.4 removed MaturityDay(205), and FIX 5.0 added MatchIncrement(1089).
    let cases = [
        ("", "205=4", false),
        ("1128=9|", "205=4", false),
        ("1128=4|", "205=4", true),
        ("", "1089=1", true),
        ("1128=4|", "1089=1", false),
        ("1128=9|1129=4|", "205=4", true),
    ];
    for (number, (version, field, is_sound)) in (2..).zip(cases) {
        let line = format!("35=D|34={number}|{version}{order}|{field}");
        let expected = if is_sound { Verdict::Deliver } else { Verdict::Handled };
        assert_eq!(w.receive(&line), expected, "{line}");
        assert_eq!(w.sent().len(), usize::from(!is_sound), "{line}");
    }
}

/// FIXT: a message that names a version without rules in this session is rejected.
#[test]
fn a_version_that_the_session_does_not_have_is_rejected() {
    let standard = |name| transfix_dictionary::standard(name).unwrap();
    let rules = |name| Arc::new(Rules::new(&standard("FIXT11"), &standard(name)));
    let order = "11=a|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30";
    // Each case gives the version fields of a message, and the tag in the expected Reject(3).
    let cases = [
        ("1128=3|", Some(1128)),
        ("1128=10|", Some(1128)),
        ("1128=x|", Some(1128)),
        ("1128=9|1129=OTHER|", Some(1129)),
        ("1128=4|1129=OTHER|", Some(1129)),
        ("1129=CUSTOM|", None),
        ("1128=9|1129=CUSTOM|", None),
        ("1128=9|", None),
        ("1128=4|", None),
        ("", None),
    ];
    for codes in [true, false] {
        let mut w = World::new(Role::Acceptor, BeginString::Fixt11, |_| ());
        w.takes("35=A|34=1|98=0|108=30|1137=9|1408=CUSTOM");
        let checks = Checks::all(Switches { codes, ..Switches::default() });
        w.session.set_rules(Some(rules("FIX50SP2")), checks);
        w.session.set_version_rules(vec![(b"4"[..].into(), rules("FIX42"))]);
        w.sent();
        for (number, (version, blamed)) in (2..).zip(cases) {
            let verdict = w.receive(&format!("35=D|34={number}|{version}{order}"));
            let sent = w.sent();
            match blamed.filter(|_| codes) {
                Some(tag) => {
                    assert_eq!(verdict, Verdict::Handled, "{version}");
                    let expected = format!("|45={number}|371={tag}|372=D|373=18|");
                    assert!(sent[0].contains(&expected), "{version}: {sent:?}");
                }
                None => assert_eq!((verdict, sent), (Verdict::Deliver, vec![]), "{version}"),
            }
        }
        // Messages of the session layer are validated by FIXT 1.1, whatever version they name.
        assert_eq!(w.receive("35=0|34=12|1128=3"), Verdict::Handled);
        assert_eq!(w.sent(), Vec::<String>::new());
    }
}

/// FIXT: DefaultCstmApplVerID(1408) of the Logon(A) applies to messages that name no version.
#[test]
fn a_custom_version_may_be_the_default() {
    let standard = |name| transfix_dictionary::standard(name).unwrap();
    let rules = |name| Arc::new(Rules::new(&standard("FIXT11"), &standard(name)));
    for (default, expected) in [("", Verdict::Handled), ("|1408=OLD", Verdict::Deliver)] {
        let mut w = World::new(Role::Acceptor, BeginString::Fixt11, |_| ());
        w.takes(&format!("35=A|34=1|98=0|108=30|1137=9{default}"));
        w.session.set_rules(Some(rules("FIX50SP2")), Checks::default());
        w.session.set_version_rules(vec![(b"OLD"[..].into(), rules("FIX42"))]);
        // FIX 4.4 removed MaturityDay(205).
        let order = "11=a|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30|205=4";
        assert_eq!(w.receive(&format!("35=D|34=2|{order}")), expected);
    }
}

#[test]
fn numbers_beyond_all_reason_are_refused() {
    let mut w = World::active(BeginString::Fix44);
    for new in ["18446744073709551615", "18446744073709551614", "1000000000000001"] {
        assert_eq!(w.receive(&format!("35=4|34=2|36={new}")), Verdict::Handled);
        assert!(w.sent()[0].contains("|371=36|372=4|373=5|"));
        assert_eq!(w.session.next_num_in(), 2);
    }
    let verdict = w.receive("35=0|34=18446744073709551614");
    assert_eq!(verdict, Verdict::Disconnect(Disconnect::MsgSeqNumTooHigh));
}

#[test]
fn a_reset_is_asked_for_until_a_logon_is_answered() {
    let mut w = World::new(Role::Initiator, BeginString::Fix44, |_| ());
    w.sent();
    w.disconnect();
    w.session.reset_at_next_logon();
    for _ in 0..2 {
        w.connect();
        assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30|141=Y"]);
        w.disconnect();
    }
    w.connect();
    w.sent();
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::LoggedOn);
    w.disconnect();
    w.connect();
    assert_eq!(w.sent(), ["35=A|34=2|98=0|108=30"]);
}

#[test]
fn a_held_message_is_judged_by_its_time_of_arrival() {
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.receive("35=D|34=3|11=b"), Verdict::Held);
    w.now.utc.0 += 200 * SECOND as i64;
    assert_eq!(w.receive("35=D|34=2|43=Y|122=20261121-12:00:00|11=a"), Verdict::Deliver);
    assert_eq!(w.receive_held(), Some(Verdict::Deliver));
}

#[test]
fn rejects_carry_the_route_back() {
    let mut w = World::active(BeginString::Fix42);
    assert_eq!(w.receive("35=1|34=2|115=A|116=B|128=C|144=D"), Verdict::Handled);
    assert_eq!(
        w.sent(),
        ["35=3|34=2|128=A|129=B|145=D|115=C|45=2|371=112|372=1|373=1|\
          58=Required tag missing, tag 112 [MsgSeqNum 2, MsgType 1]"]
    );
}

/// An answer may echo an empty value, and is valid whatever checks are enabled.
#[test]
fn values_that_are_echoed_may_be_empty() {
    all_versions(|mut w| {
        for line in [
            "35=|34=2",
            "35=|34=3|115=|116=|128=|129=|144=|145=",
            "35=3|34=4|45=|372=|58=",
            "35=1|34=5|112=",
            "35=2|34=6|7=|16=",
            "35=4|34=7|36=",
        ] {
            let (msg_type, rest) = line.split_once('|').unwrap();
            let bytes = raw_frame(&w, msg_type, rest);
            let mut index = FieldIndex::default();
            let Ok(message) = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore) else {
                continue;
            };
            let _ = w.session.receive(w.now, &message, &mut w.out);
            for reason in [0, 4] {
                w.session.business_reject(
                    w.now,
                    (&message, message.msg_seq_num().ok()),
                    (reason, ""),
                    &mut w.out,
                );
            }
            w.session.refuse_throttled(w.now, &message, &mut w.out);
            let why = Reject { reason: RejectReason::Other, tag: None };
            w.session.reject(w.now, &message, why, &mut w.out);
            w.sent();
        }
    });
}

/// Returns a frame that the engine's encoder would not produce.
fn raw_frame(w: &World, msg_type: &str, rest: &str) -> Vec<u8> {
    let sound = w.frame(&format!("35=0|{rest}"));
    String::from_utf8(sound).unwrap().replace("\x0135=0\x01", &format!("\x01{msg_type}\x01")).into()
}

#[test]
fn each_reject_names_the_tag() {
    all_versions(|mut w| {
        let standard = |name| transfix_dictionary::standard(name).unwrap();
        let rules = match w.session.config().id.begin_string {
            BeginString::Fixt11 => Rules::new(&standard("FIXT11"), &standard("FIX50SP2")),
            old => Rules::new(&standard(old.as_str()), &standard(old.as_str())),
        };
        w.session.set_rules(Some(Arc::new(rules)), Checks::all(Switches::ALL));
        for (line, tag) in [
            ("35=1|34=2", "tag 112"),
            ("35=1|34=3|112=a|-1=b", "tag -1"),
            ("35=ZZ|34=4", "tag 35"),
            ("35=4|34=9|36=1", "tag 36"),
            ("35=2|34=5|7=0|16=0", "tag 7"),
        ] {
            w.takes(line);
            let sent = w.sent();
            assert!(sent[0].starts_with("35=3|"), "{line}: {sent:?}");
            let text = sent[0].split_once("|58=").map_or("", |(_, text)| text);
            assert!(text.contains(&format!("{tag} [")), "{line}: {text}");
        }
    });
}

/// FIXT: a session may use every version of the standard. The rules of a version are compiled when
/// a message first names it.
#[test]
fn rules_of_a_standard_version_are_asked_for_when_a_message_names_it() {
    let standard = |name| transfix_dictionary::standard(name).unwrap();
    let rules = move |name| Arc::new(Rules::new(&standard("FIXT11"), &standard(name)));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut w = World::active(BeginString::Fixt11);
    w.session.set_rules(Some(rules("FIX50SP2")), Checks::default());
    let listed = [(&b"9+7"[..], "FIX50"), (b"7", "FIX50")];
    let listed = listed.map(|(version, name)| (version.into(), rules(name)));
    w.session.set_version_rules(listed.into());
    let of_session = Arc::clone(&asked);
    w.session.set_standard_rules(Some(StandardRules::new(move |version| {
        of_session.lock().unwrap().push(version.0);
        // In this test, FIX 4.3 has no rules.
        version.dictionary().filter(|name| *name != "FIX43").map(rules)
    })));
    let order = "11=a|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30";
    // FIX 4.4 removed MaturityDay(205). SelfMatchPreventionInstruction(2964) was added long after
    // FIX 5.0.
    let cases = [
        ("", "205=4", false),
        ("1128=4|", "205=4", true),
        ("1128=4|", "2964=1", false),
        ("1128=9|1156=7|", "2964=1", false),
        ("1156=7|", "2964=1", false),
        ("1156=8|", "205=4", false),
        ("1128=11|", "58=x", false),
        ("1128=300|", "58=x", false),
        ("1128=4|", "58=x", true),
        ("1128=5|", "58=x", false),
        ("1128=5|", "58=x", false),
        ("1128=11|", "58=x", false),
        ("1128=7|", "58=x", true),
    ];
    for (number, (version, field, is_sound)) in (2..).zip(cases) {
        let line = format!("35=D|34={number}|{version}{order}|{field}");
        let expected = if is_sound { Verdict::Deliver } else { Verdict::Handled };
        assert_eq!(w.receive(&line), expected, "{line}");
        w.sent();
    }
    assert_eq!(*asked.lock().unwrap(), [4, 5], "once each, and none that is listed or no version");
}

/// A ResendRequest(2) sent before the counterparty learned of our reset is not rejected.
#[test]
fn a_resend_request_of_before_a_reset_is_no_fault() {
    let mut w = World::active(BeginString::Fix44);
    for id in ["a", "b", "c"] {
        w.send(id).unwrap();
    }
    w.session.reset_in_session(w.now, &mut w.out).unwrap();
    w.sent();
    assert_eq!(w.receive("35=2|34=2|7=4|16=5"), Verdict::Handled);
    assert_eq!((w.sent(), w.session.take_remark()), (vec![], None));
    assert_eq!(w.receive("35=2|34=3|7=5|16=5"), Verdict::Handled);
    assert!(matches!(w.session.take_remark(), Some(Remark::Rejected { .. })));
}
