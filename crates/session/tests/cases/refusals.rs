//! For each cause of a refused Logon(A): its code, its text, and whether the counterparty receives
//! a Logout(5).

use std::time::Duration;

use transfix_session::{BeginString, Config, Disconnect, LogonFault as Why, Role, Secret, Verdict};

use crate::cases::counterparty::World;

const FIX44: BeginString = BeginString::Fix44;
const FIXT11: BeginString = BeginString::Fixt11;

/// Checks that the Logon(A) is refused for this cause, with a Logout(5) or without an answer.
fn check(
    (role, version): (Role, BeginString),
    change: impl FnOnce(&mut Config),
    (line, why, spoken): (&str, Why, bool),
) {
    let mut w = World::new(role, version, change);
    w.sent();
    let disconnect = Disconnect::LogonRefused(why);
    assert_eq!(w.receive(line), Verdict::Disconnect(disconnect), "{line}");
    let seq = if role == Role::Acceptor { 1 } else { 2 };
    let logout = format!("35=5|34={seq}|58={disconnect}");
    assert_eq!(w.sent(), if spoken { vec![logout] } else { Vec::new() }, "{line}");
    assert_eq!(disconnect.as_u16(), why.as_u16());
    assert_eq!(disconnect.to_string(), format!("Logon(A) refused: {why}"));
    assert!(disconnect.is_error());
}

#[test]
fn a_stranger_is_disconnected_without_a_word() {
    for (line, why) in [
        ("35=A|98=0|108=30", Why::MsgSeqNumMissing),
        ("35=A|34=x|98=0|108=30", Why::MsgSeqNumMissing),
        ("35=A|34=18446744073709551615|98=0|108=30", Why::MsgSeqNumTooHigh),
        ("35=A|34=1|49=WHO|98=0|108=30", Why::CompId),
        ("35=A|34=1|56=WHO|98=0|108=30", Why::CompId),
        ("35=A|34=1|52=20010101-00:00:00|98=0|108=30", Why::SendingTime),
    ] {
        for version in [BeginString::Fix42, FIX44] {
            check((Role::Acceptor, version), |_| (), (line, why, false));
        }
    }
    let line = "35=A|34=1|98=0|108=30";
    let fixt = (Role::Acceptor, FIXT11);
    check(fixt, |_| (), (line, Why::DefaultApplVerIdMissing, false));
}

#[test]
fn bad_terms_are_refused_with_a_reason() {
    let acceptor = (Role::Acceptor, FIX44);
    for (terms, why) in [
        ("98=0|108=-5", Why::HeartBtInt),
        ("98=0", Why::HeartBtInt),
        ("98=1|108=30", Why::EncryptMethod),
        ("98=0|108=30|141=X", Why::ResetSeqNumFlag),
    ] {
        check(acceptor, |_| (), (&format!("35=A|34=1|{terms}"), why, true));
    }
    check(acceptor, |_| (), ("35=A|34=2|98=0|108=30|141=Y", Why::ResetWithoutOne, true));
    for (terms, why) in
        [("1137=99", Why::DefaultApplVerIdUnknown), ("1137=8", Why::DefaultApplVerIdOther)]
    {
        let line = format!("35=A|34=1|98=0|108=30|{terms}");
        check((Role::Acceptor, FIXT11), |_| (), (&line, why, true));
    }
}

#[test]
fn what_only_the_settings_refuse() {
    let (acceptor, line) = ((Role::Acceptor, FIX44), "35=A|34=1|98=0|108=30|789=0");
    let password = |c: &mut Config| {
        c.logon.expected_password = Some(Secret::new("geheim".to_owned()));
    };
    check(acceptor, password, (line, Why::Credentials, true));
    let fast = |c: &mut Config| c.timing.heart_bt_int_max = Duration::from_secs(29);
    check(acceptor, fast, (line, Why::HeartBtIntOutOfRange, true));
    let test = |c: &mut Config| c.logon.test_message_indicator = Some(true);
    check(acceptor, test, (line, Why::TestMessageIndicator, true));
    let next = |c: &mut Config| c.numbers.next_expected = true;
    check(acceptor, next, (line, Why::NextExpectedMsgSeqNum, true));
    let same = |c: &mut Config| c.timing.same_heart_bt_int = true;
    let answer = "35=A|34=1|98=0|108=9";
    check((Role::Initiator, FIX44), same, (answer, Why::HeartBtIntChanged, true));
    let logout = "35=5|34=1|58=who are you?";
    check((Role::Initiator, FIX44), |_| (), (logout, Why::AnsweredByLogout, false));
    for reject in ["35=3|34=1|45=1|58=who are you?", "35=j|34=1|45=1|372=A|380=4"] {
        check((Role::Initiator, FIX44), |_| (), (reject, Why::AnsweredByReject, false));
    }
}
