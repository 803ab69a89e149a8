//! Tests of the settings for Logon(A), and of the identity in every message.

use std::sync::Arc;

use transfix_codec::{Tag, tag};
use transfix_session::{
    BeginString, Config, Disconnect, LogonConfig, LogonFault, Remark, Role, Secret, SendError,
    SubIds, TooLowAtLogon, Verdict,
};

use crate::cases::counterparty::World;

const fn refused(why: LogonFault) -> Verdict {
    Verdict::Disconnect(Disconnect::LogonRefused(why))
}

/// If the version lacks the field of a setting, the session does not send the field.
#[test]
fn fields_of_our_logon() {
    let all = |config: &mut Config| {
        config.logon = LogonConfig {
            username: Some("me".to_owned()),
            password: Some(Secret::new("old".to_owned())),
            new_password: Some(Secret::new("new".to_owned())),
            fields: vec![(Tag(1603), "engine".to_owned())],
            default_cstm_appl_ver_id: Some("VENUE2".to_owned()),
            test_message_indicator: Some(false),
            max_message_size: 5_000,
            ..LogonConfig::default()
        };
    };
    let table = [
        (BeginString::Fix40, ""),
        (BeginString::Fix41, ""),
        (BeginString::Fix42, "|383=5000"),
        (BeginString::Fix43, "|383=5000|464=N|553=me|554=old"),
        (BeginString::Fix44, "|383=5000|464=N|553=me|554=old"),
        (BeginString::Fixt11, "|383=5000|464=N|553=me|554=old|925=new|1137=9|1408=VENUE2"),
    ];
    for (begin_string, fields) in table {
        let mut w = World::new(Role::Initiator, begin_string, all);
        assert_eq!(w.sent(), [format!("35=A|34=1|98=0|108=30{fields}|1603=engine")]);
    }
    assert!(!format!("{:?}", Secret::new("old".to_owned())).contains("old"));
}

#[test]
fn fields_that_the_application_adds() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
    w.session.set_logon_fields(|body| _ = body.str(tag::TEXT, "welcome")).unwrap();
    assert!(w.session.set_logon_fields(|body| _ = body.str(tag::MSG_SEQ_NUM, "1")).is_err());
    assert_eq!(w.receive("35=A|34=1|98=0|108=30"), Verdict::LoggedOn);
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30|58=welcome"]);
}

#[test]
fn test_and_production_do_not_meet() {
    let why = LogonFault::TestMessageIndicator;
    let table = [
        (None, "", true),
        (None, "|464=Y", true),
        (Some(true), "|464=Y", true),
        (Some(true), "|464=N", false),
        (Some(true), "", false),
        (Some(false), "", true),
        (Some(false), "|464=Y", false),
    ];
    for (ours, theirs, accepted) in table {
        let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
            config.logon.test_message_indicator = ours;
        });
        let verdict = w.receive(&format!("35=A|34=1|98=0|108=30{theirs}"));
        assert_eq!(verdict, if accepted { Verdict::LoggedOn } else { refused(why) }, "{theirs}");
    }
}

#[test]
fn encryption_that_is_passed_over() {
    for (check, accepted) in [(true, false), (false, true)] {
        let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
            config.logon.check_encrypt_method = check;
        });
        assert_eq!(w.receive("35=A|34=1|98=2|108=30") == Verdict::LoggedOn, accepted);
    }
}

#[test]
fn a_quiet_session_refuses_without_a_word() {
    for (quiet, answers) in [(false, 1), (true, 0)] {
        let mut w =
            World::new(Role::Acceptor, BeginString::Fix44, |config| config.logon.quiet = quiet);
        let verdict = w.receive("35=A|34=1|98=0|108=-1");
        assert_eq!(verdict, refused(LogonFault::HeartBtInt));
        assert_eq!(w.sent().len(), answers);
        let mut w =
            World::new(Role::Acceptor, BeginString::Fix44, |config| config.logon.quiet = quiet);
        let denied = w.deny("35=A|34=1|98=0|108=30", "wrong password");
        assert_eq!(denied, Verdict::Disconnect(Disconnect::LogonDenied));
        let text = "35=5|34=1|58=wrong password".to_owned();
        assert_eq!(w.sent(), if quiet { vec![] } else { vec![text] });
    }
}

#[test]
fn messages_longer_than_the_counterparty_takes() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|383=90"), Verdict::LoggedOn);
    w.sent();
    assert_eq!(w.send("short"), Ok(2));
    let long = "x".repeat(50);
    assert_eq!(w.send(&long), Err(SendError::TooLong { bytes_max: 90 }));
    assert_eq!(w.send("short"), Ok(3));
    assert_eq!(w.sent(), ["35=D|34=2|11=short", "35=D|34=3|11=short"]);
    // The session layer chooses the fields of a Reject(3), so the limit does not apply.
    w.takes("35=1|34=2");
    assert_eq!(w.sent().len(), 1);
}

#[test]
fn sub_and_location_ids_stand_in_every_message() {
    for begin_string in BeginString::ALL {
        let mut w = World::new(Role::Acceptor, begin_string, |config| {
            config.id.sub_ids = Arc::new(SubIds {
                sender_sub_id: "S".into(),
                sender_location_id: "SL".into(),
                target_sub_id: "T".into(),
                target_location_id: "TL".into(),
            });
        });
        let logon = w.logon(1);
        assert_eq!(w.receive(&logon), Verdict::LoggedOn);
        w.send("a").unwrap();
        w.session.gap_fill(w.now, 1, 2, &mut w.out);
        let ids = match begin_string {
            BeginString::Fix40 => ["|50=S|", "|57=T|"].as_slice(),
            _ => ["|50=S|", "|142=SL|", "|57=T|", "|143=TL|"].as_slice(),
        };
        for line in w.sent() {
            let line = format!("{line}|");
            let all = ["|50=S|", "|142=SL|", "|57=T|", "|143=TL|"];
            let has: Vec<_> = all.into_iter().filter(|id| line.contains(id)).collect();
            assert_eq!(has, ids, "{line}");
        }
    }
    let mut w = World::active(BeginString::Fix44);
    w.send("a").unwrap();
    assert_eq!(w.sent(), ["35=D|34=2|11=a"]);
}

/// Returns an acceptor that requires this password, if one is given.
fn gate(password: Option<&str>) -> World {
    World::new(Role::Acceptor, BeginString::Fix44, |config| {
        config.logon.expected_username = password.map(|_| "desk".to_owned());
        config.logon.expected_password = password.map(|text| Secret::new(text.to_owned()));
    })
}

#[test]
fn an_acceptor_wants_the_credentials_that_it_expects() {
    let wrong = refused(LogonFault::Credentials);
    for (password, given, verdict) in [
        (None, "", Verdict::LoggedOn),
        (None, "|553=any|554=thing", Verdict::LoggedOn),
        (Some("sesame"), "|553=desk|554=sesame", Verdict::LoggedOn),
        (Some("sesame"), "", wrong),
        (Some("sesame"), "|553=desk", wrong),
        (Some("sesame"), "|554=sesame", wrong),
        (Some("sesame"), "|553=desk|554=sesamE", wrong),
        (Some("sesame"), "|553=desk|554=sesamesesame", wrong),
        (Some("sesame"), "|553=desk|554=sesam", wrong),
        (Some("sesame"), "|553=Desk|554=sesame", wrong),
        (Some(""), "|553=desk|554=x", wrong),
        // The password in the settings cannot change, so NewPassword(925) is accepted only if no
        // password is required.
        (None, "|553=any|554=thing|925=new", Verdict::LoggedOn),
        (Some("sesame"), "|553=desk|554=sesame|925=sesame", Verdict::LoggedOn),
        (Some("sesame"), "|553=desk|554=sesame|925=new", refused(LogonFault::NewPassword)),
        (Some("sesame"), "|553=desk|554=x|925=new", wrong),
        // A counterparty with a wrong password does not learn of any other fault in its Logon(A).
        (Some("sesame"), "|553=desk|554=x|98=2", wrong),
    ] {
        let mut w = gate(password);
        assert_eq!(w.receive(&format!("35=A|34=1|98=0|108=30{given}")), verdict, "{given}");
        let sent = w.sent();
        let is_in = verdict == Verdict::LoggedOn;
        assert!(sent[0].starts_with(if is_in { "35=A|34=1|" } else { "35=5|34=1|" }));
        assert!(!sent[0].contains("sesame"), "ours is never shown: {sent:?}");
    }
}

#[test]
fn a_password_of_which_there_is_a_hash_is_right_when_the_driver_says_so() {
    let wrong = refused(LogonFault::Credentials);
    for (proof, verdict) in [(None, wrong), (Some(false), wrong), (Some(true), Verdict::LoggedOn)] {
        let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
            config.logon.expected_password_hash = Some(Secret::new("a hash".to_owned()));
        });
        if let Some(proof) = proof {
            w.session.set_password_proof(proof);
        }
        // The hash itself is not accepted as a password.
        let logon = "35=A|34=1|98=0|108=30|554=a hash";
        assert_eq!(w.receive(logon), verdict, "{proof:?}");
    }
}

#[test]
fn a_refused_logon_takes_no_number_unless_its_password_is_right() {
    let low = |seq: u64| format!("35=A|34={seq}|98=0|108=30|553=desk|554=sesame");
    for (password, logon, taken) in [
        (None, low(1), 0),
        (Some("other"), low(2), 0),
        (None, "35=A|34=2|98=0|108=-1".to_owned(), 0),
        // A counterparty with the correct password is authenticated, so the Logout(5) consumes a
        // number of the session.
        (Some("sesame"), low(1), 1),
    ] {
        let mut w = gate(password);
        w.session.set_next_num_in(2);
        w.session.set_next_num_out(7);
        for n in 0..2_000 {
            assert!(matches!(w.receive(&logon), Verdict::Disconnect(_)), "{logon}");
            assert_eq!(w.out.entries().len(), taken, "what is journalled");
            assert!(w.sent()[0].starts_with(&format!("35=5|34={}|", 7 + n * taken)));
            w.disconnect();
            w.connect();
        }
        assert_eq!(
            (w.session.next_num_in(), w.session.next_num_out()),
            (2, 7 + 2_000 * taken as u64)
        );
    }
}

#[test]
fn a_logout_that_refuses_our_logon_does_not_count() {
    let mut w = World::new(Role::Initiator, BeginString::Fix44, |_| ());
    assert_eq!(w.receive("35=5|34=1|58=who are you?"), refused(LogonFault::AnsweredByLogout));
    w.disconnect();
    w.connect();
    w.sent();
    assert_eq!(w.session.next_num_in(), 1);
    // The session continues whether the counterparty's Logout(5) consumed a number or not.
    for seq in [1, 2] {
        let mut w = World::new(Role::Initiator, BeginString::Fix44, |_| ());
        w.takes("35=5|34=1|58=who are you?");
        w.disconnect();
        w.connect();
        assert_eq!(w.receive(&format!("35=A|34={seq}|98=0|108=30")), Verdict::LoggedOn);
        let asked = w.sent().iter().filter(|line| line.starts_with("35=2|")).count();
        assert_eq!(asked as u64, seq - 1);
    }
}

/// A Logon(A) with MsgSeqNum(34) 0 is refused under all settings.
#[test]
fn a_logon_with_number_0_is_refused() {
    for switches in 0..8 {
        let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
            config.numbers.too_low_at_logon =
                if switches & 1 > 0 { TooLowAtLogon::Accept } else { TooLowAtLogon::Logout };
            config.numbers.next_expected = switches & 2 > 0;
            config.numbers.send_last_processed = switches & 4 > 0;
        });
        let low = Disconnect::MsgSeqNumTooLow { expected: 1, received: 0 };
        assert_eq!(w.receive("35=A|34=0|98=0|108=30|789=1"), Verdict::Disconnect(low));
        assert_eq!(w.session.next_num_in(), 1);
    }
}

#[test]
fn a_reset_in_the_answer_that_was_not_asked_for_is_told() {
    for asks in [false, true] {
        let mut w = World::new(Role::Initiator, BeginString::Fix44, |config| {
            config.protocol.reset_on.logon = asks;
        });
        w.sent();
        assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::LoggedOn);
        let told = (!asks).then_some(Remark::UnaskedReset);
        assert_eq!(w.session.take_remark(), told);
        assert_eq!((w.session.next_num_in(), w.session.next_num_out()), (2, 2));
    }
    // A Logon(A) of an initiator may request a reset.
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::LoggedOn);
    assert_eq!(w.session.take_remark(), None);
}
