//! Tests of the settings for sequence numbers: resets, low numbers, LastMsgSeqNumProcessed(369) and
//! NextExpectedMsgSeqNum(789).

use std::time::Duration;

use transfix_codec::{Reject, RejectReason, tag};
use transfix_session::{
    BeginString, Disconnect, NumbersConfig, OperateError, Remark, ResetPolicy, Role, State, TooLow,
    TooLowAtLogon, Verdict,
};

use crate::cases::counterparty::{World, all_versions};

fn numbers(w: &World) -> (u64, u64) {
    (w.session.next_num_in(), w.session.next_num_out())
}

/// Returns the next numbers, inbound and outbound, after a connection that ended with `end`.
fn after(reset: ResetPolicy, end: impl FnOnce(&mut World)) -> (u64, u64) {
    let mut w = World::active_with(BeginString::Fix44, |config| config.protocol.reset_on = reset);
    end(&mut w);
    w.disconnect();
    numbers(&w)
}

#[test]
fn resets_by_the_end_of_a_connection() {
    let logout = |w: &mut World| _ = w.receive("35=5|34=2");
    let error = |w: &mut World| _ = w.receive("35=0|34=1");
    let loss = |_: &mut World| ();
    let none = ResetPolicy::NEVER;
    assert_eq!(
        [after(none, logout), after(none, error), after(none, loss)],
        [(3, 3), (2, 3), (2, 2)]
    );
    let on = |on: fn(&mut ResetPolicy)| {
        let mut policy = ResetPolicy::NEVER;
        on(&mut policy);
        [after(policy, logout), after(policy, error), after(policy, loss)].map(|n| n == (1, 1))
    };
    assert_eq!(on(|p| p.logout = true), [true, false, false]);
    assert_eq!(on(|p| p.error = true), [false, true, false]);
    assert_eq!(on(|p| p.disconnect = true), [true; 3]);
}

/// A refused Logon(A) resets no numbers, because its sender may be unauthorized.
#[test]
fn a_logon_that_is_refused_resets_nothing() {
    let on_error = ResetPolicy { error: true, ..ResetPolicy::NEVER };
    for denied in [false, true] {
        let mut w =
            World::active_with(BeginString::Fix44, |config| config.protocol.reset_on = on_error);
        w.disconnect();
        w.connect();
        if denied {
            let _ = w.deny("35=A|34=2|98=0|108=30", "who are you?");
        } else {
            w.takes("35=A|34=1|98=0|108=30");
        }
        assert_eq!(w.sent().len(), 1, "a Logout(5)");
        w.disconnect();
        assert_eq!(numbers(&w), (2, 2), "it takes no number");
    }
}

#[test]
fn an_acceptor_resets_when_a_connection_begins() {
    let mut w = World::active_with(BeginString::Fix44, |config| {
        config.protocol.reset_on = ResetPolicy::LOGON
    });
    w.disconnect();
    assert_eq!(numbers(&w), (2, 2));
    w.connect();
    assert_eq!(numbers(&w), (1, 1));
    // Numbers that an operator has set before the Logon(A) are kept.
    w.session.set_next_num_out(2_000);
    assert_eq!(w.receive("35=A|34=1|98=0|108=30"), Verdict::LoggedOn);
    assert_eq!(w.sent(), ["35=A|34=2000|98=0|108=30"]);
}

#[test]
fn numbers_set_between_two_connections_stand() {
    let mut w = World::active_with(BeginString::Fix44, |config| {
        config.protocol.reset_on = ResetPolicy::DISCONNECT
    });
    w.disconnect();
    w.session.set_next_num_in(70);
    w.connect();
    assert_eq!(numbers(&w), (70, 1));
}

/// FIX 4.0 does not have ResetSeqNumFlag(141), so both sides reset by agreement.
#[test]
fn the_reset_flag_is_sent_from_4_1_on() {
    for begin_string in BeginString::ALL {
        let mut w = World::new(Role::Initiator, begin_string, |config| {
            config.protocol.reset_on = ResetPolicy::LOGON
        });
        let flagged = w.sent()[0].contains("|141=Y");
        assert_eq!(flagged, begin_string > BeginString::Fix40, "{begin_string}");
    }
}

/// Returns the seconds from a logon at 12:00:00 to the configured reset while logged on.
fn resets_after(change: impl FnOnce(&mut transfix_session::Config)) -> Option<u64> {
    let mut w = World::active_with(BeginString::Fix44, |config| {
        config.timing.watch_silence = false;
        change(config);
    });
    let mut waited = 0;
    (0..2_000).find_map(|_| {
        let _ = w.later(60);
        waited += 60;
        w.sent().iter().any(|line| line.starts_with("35=A|")).then_some(waited)
    })
}

#[test]
fn resets_by_the_clock() {
    assert_eq!(resets_after(|_| ()), None);
    assert_eq!(
        resets_after(|c| c.protocol.reset_after = Duration::from_hours(24)),
        Some(24 * 3_600)
    );
    assert_eq!(resets_after(|c| c.protocol.reset_at = Some(17 * 3_600)), Some(5 * 3_600));
    assert_eq!(resets_after(|c| c.protocol.reset_at = Some(11 * 3_600)), Some(23 * 3_600));
    // The zone is two hours ahead of UTC, and from half an hour after the logon five hours behind
    // UTC.
    let at = |hour: u32, offsets: &[(i64, i32)]| {
        resets_after(|c| {
            (c.protocol.reset_at, c.reset_at_offsets) = (Some(hour * 3_600), offsets.to_vec());
        })
    };
    assert_eq!(at(17, &[(i64::MIN, 7_200)]), Some(3 * 3_600));
    assert_eq!(at(14, &[(i64::MIN, 7_200)]), Some(24 * 3_600));
    assert_eq!(at(15, &[(i64::MIN, 7_200)]), Some(3_600));
    let changes_s = World::active(BeginString::Fix44).now.utc.0 / 1_000_000_000 + 1_800;
    let summer = [(i64::MIN, -5 * 3_600), (changes_s, -4 * 3_600)];
    assert_eq!(at(9, &summer), Some(3_600));
    let both = resets_after(|c| {
        c.protocol.reset_after = Duration::from_hours(2);
        c.protocol.reset_at = Some(17 * 3_600);
    });
    assert_eq!(both, Some(2 * 3_600));
}

#[test]
fn a_reset_of_ours_in_mid_session() {
    for begin_string in BeginString::ALL {
        let mut w = World::active(begin_string);
        w.takes("35=0|34=2");
        let sent = w.session.reset_in_session(w.now, &mut w.out);
        assert_eq!(sent.is_ok(), begin_string > BeginString::Fix40, "not in FIX 4.0");
        if sent.is_err() {
            continue;
        }
        assert_eq!(w.session.reset_in_session(w.now, &mut w.out), Err(OperateError::ResetUnderWay));
        assert!(w.sent()[0].starts_with("35=A|34=1|98=0|108=30|141=Y"));
        // Messages on the way to us still have old numbers; messages sent after the answer have new
        // numbers.
        assert_eq!(w.receive("35=D|34=3|11=a"), Verdict::Deliver);
        assert_eq!(w.send("b"), Ok(2));
        let answer = w.logon(1) + "|141=Y";
        assert_eq!(w.receive(&answer), Verdict::Reset);
        assert_eq!(numbers(&w), (2, 3));
        assert_eq!(w.sent(), ["35=D|34=2|11=b"], "an answer is not answered");
        // After our reset is complete, a further Logon(A) with ResetSeqNumFlag(141)=Y is a reset by
        // the counterparty.
        assert_eq!(w.receive(&answer), Verdict::Reset);
        assert_eq!(numbers(&w), (2, 2));
        assert_eq!(w.sent().len(), 1);
    }
}

#[test]
fn a_request_that_crosses_a_reset_is_passed_over() {
    // The last number that we used before the reset is 3; the next would have been 4.
    for (asked, passed_over) in [
        ("7=3|16=3", true),
        ("7=3|16=0", true),
        ("7=4|16=0", true),
        ("7=4|16=9", false),
        ("7=5|16=0", false),
    ] {
        let mut w = World::active(BeginString::Fix44);
        for id in ["a", "b"] {
            w.send(id).unwrap();
        }
        assert_eq!(w.session.reset_in_session(w.now, &mut w.out), Ok(()));
        w.sent();
        assert_eq!(w.receive(&format!("35=2|34=2|{asked}")), Verdict::Handled, "{asked}");
        assert_eq!(w.sent().is_empty(), passed_over, "{asked}");
    }
}

#[test]
fn a_reset_that_is_not_answered() {
    let mut w = World::active(BeginString::Fix44);
    assert_eq!(w.session.reset_in_session(w.now, &mut w.out), Ok(()));
    assert_eq!(w.later(9), Verdict::Handled);
    assert_eq!(w.later(1), Verdict::Disconnect(Disconnect::LogonTimeout));
}

/// Returns a session with the next numbers 20 and 12 whose connection breaks right after it has
/// requested a reset.
fn cut_in_a_reset(role: Role) -> World {
    let mut w = World::new(role, BeginString::Fix44, |_| ());
    let logon = w.logon(1);
    w.takes(&logon);
    for n in 2..20 {
        w.takes(&format!("35=0|34={n}"));
    }
    while w.session.next_num_out() < 12 {
        w.send("a").unwrap();
    }
    assert_eq!(w.session.reset_in_session(w.now, &mut w.out), Ok(()));
    w.send("of the new numbering").unwrap();
    w.sent();
    w.disconnect();
    assert_eq!(numbers(&w), (1, 3), "a reset restarts both");
    // A connection without a logon does not change the state of the reset.
    w.connect();
    w.disconnect();
    w.sent();
    w.connect();
    w
}

#[test]
fn an_initiator_asks_for_a_reset_that_was_cut_until_it_is_answered() {
    let mut w = cut_in_a_reset(Role::Initiator);
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30|141=Y"]);
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::LoggedOn);
    assert_eq!(numbers(&w), (2, 2));
    w.disconnect();
    w.connect();
    assert_eq!(w.sent(), ["35=A|34=2|98=0|108=30"]);
}

/// An acceptor requests the reset again if the number of the counterparty's Logon(A) shows that it
/// did not receive the reset.
#[test]
fn an_acceptor_asks_again_in_its_answer_if_the_counterparty_has_not_seen_its_reset() {
    for (seq, answer, expected) in [
        // The counterparty applied the reset and answered with number 1, but the answer was lost.
        (2, "35=A|34=3|98=0|108=30", (1, 5)),
        (4, "35=A|34=3|98=0|108=30", (1, 5)),
        // The counterparty did not receive the request for the reset.
        (20, "35=A|34=1|98=0|108=30|141=Y", (2, 2)),
        (22, "35=A|34=1|98=0|108=30|141=Y", (2, 2)),
    ] {
        let mut w = cut_in_a_reset(Role::Acceptor);
        assert_eq!(w.receive(&format!("35=A|34={seq}|98=0|108=30")), Verdict::LoggedOn, "{seq}");
        assert_eq!(w.sent()[0], answer, "{seq}");
        assert_eq!(numbers(&w), expected, "{seq}");
        // Our answer requests a reset. Some counterparties answer it with another Logon(A), which
        // is not a new reset.
        if seq >= 20 {
            assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::Reset);
            assert_eq!((w.sent().len(), numbers(&w)), (0, (2, 2)));
        }
    }
    let mut w = cut_in_a_reset(Role::Acceptor);
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::LoggedOn);
    assert_eq!(numbers(&w), (2, 2));
    // Numbers that an operator has set are kept.
    let mut w = cut_in_a_reset(Role::Acceptor);
    w.session.set_next_num_in(20);
    assert_eq!(w.receive("35=A|34=20|98=0|108=30"), Verdict::LoggedOn);
    assert_eq!(numbers(&w), (21, 4));
}

/// The answer to our reset is applied even after our Logout(5), and both sides continue with the
/// new numbers.
#[test]
fn a_reset_is_answered_while_we_log_out() {
    let mut w = World::active(BeginString::Fix44);
    w.takes("35=0|34=2");
    assert_eq!(w.session.reset_in_session(w.now, &mut w.out), Ok(()));
    assert!(w.session.awaits_reset());
    w.session.logout(w.now, "", &mut w.out);
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::Handled);
    assert_eq!(w.receive("35=5|34=2"), Verdict::Disconnect(Disconnect::LoggedOut));
    assert_eq!((w.session.awaits_reset(), numbers(&w)), (false, (3, 3)));
}

#[test]
fn low_numbers_by_policy() {
    let table = [
        (TooLow::Logout, "35=5|34=2|58=MsgSeqNum(34) too low, expecting 2 but received 1"),
        (
            TooLow::Reject,
            "35=3|34=2|45=1|371=34|372=0|373=5|58=Value is incorrect (out of range) for this tag, \
             tag 34 [MsgSeqNum 1, MsgType 0]",
        ),
        (TooLow::Ignore, ""),
    ];
    for (too_low, sent) in table {
        let mut w = World::active_with(BeginString::Fix44, |c| c.numbers.too_low = too_low);
        w.takes("35=0|34=1");
        assert_eq!(w.sent().join(","), sent);
        assert_eq!(w.session.state() == State::Active, too_low != TooLow::Logout);
        assert_eq!(w.session.next_num_in(), 2);
    }
}

#[test]
fn gaps_that_are_given_up() {
    for (request_missing, verdict, next) in [(true, Verdict::Held, 2), (false, Verdict::Deliver, 7)]
    {
        let mut w = World::active_with(BeginString::Fix44, |config| {
            config.numbers.request_missing = request_missing;
        });
        assert_eq!(w.receive("35=D|34=6|11=a"), verdict);
        assert_eq!((w.session.next_num_in(), w.sent().is_empty()), (next, !request_missing));
    }
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
        config.numbers.request_missing = false;
    });
    assert_eq!(w.receive("35=A|34=9|98=0|108=30"), Verdict::LoggedOn);
    assert_eq!((w.session.next_num_in(), w.sent().len()), (10, 1));
}

#[test]
fn a_low_number_in_the_logon() {
    for (too_low_at_logon, accepted) in
        [(TooLowAtLogon::Logout, false), (TooLowAtLogon::Accept, true)]
    {
        let mut w = World::active_with(BeginString::Fix44, |config| {
            config.numbers.too_low_at_logon = too_low_at_logon;
        });
        w.takes("35=0|34=2");
        w.disconnect();
        w.connect();
        let low = Disconnect::MsgSeqNumTooLow { expected: 3, received: 1 };
        let verdict = w.receive("35=A|34=1|98=0|108=30");
        assert_eq!(verdict, if accepted { Verdict::LoggedOn } else { Verdict::Disconnect(low) });
        assert_eq!(w.session.next_num_in(), if accepted { 2 } else { 3 });
    }
}

#[test]
fn a_gap_at_logon_so_large_that_a_reset_was_missed() {
    for (gap_at_logon_max, expected) in [
        (0, Verdict::LoggedOn),
        (9, Verdict::LoggedOn),
        (8, Verdict::Disconnect(Disconnect::MissedReset { expected: 1, received: 10 })),
    ] {
        let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
            config.numbers.gap_at_logon_max = gap_at_logon_max;
        });
        assert_eq!(w.receive("35=A|34=10|98=0|108=30"), expected);
    }
}

/// A Logon(A) with a number that is too high consumes its number once, whether the gap fill ends
/// before or after it.
#[test]
fn a_logon_above_a_gap_counts_once() {
    for new_seq_no in [5, 6] {
        let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
        w.takes("35=A|34=5|98=0|108=30");
        w.takes(&format!("35=4|34=1|43=Y|122=20261121-12:00:00|123=Y|36={new_seq_no}"));
        assert_eq!(w.session.next_num_in(), 6);
    }
}

#[test]
fn last_processed_stands_in_every_message() {
    for begin_string in BeginString::ALL {
        let on = |config: &mut transfix_session::Config| {
            config.numbers.send_last_processed = true;
        };
        let mut w = World::new(Role::Acceptor, begin_string, on);
        let logon = w.logon(1);
        w.takes(&logon);
        w.takes("35=1|34=2|112=x");
        w.takes("35=1|34=3|999");
        w.takes("35=1|34=5|112=early");
        w.send("a").unwrap();
        w.session.gap_fill(w.now, 1, 2, &mut w.out);
        let last: Vec<_> = w
            .sent()
            .iter()
            .map(|line| line.split("|369=").nth(1).map(|rest| rest[..1].to_owned()))
            .collect();
        let none = begin_string < BeginString::Fix42;
        let expected = ["1", "2", "3", "3", "3", "3"].map(|n| (!none).then(|| n.to_owned()));
        assert_eq!(last, expected, "{begin_string}");
    }
    all_versions(|mut w| {
        w.send("a").unwrap();
        assert!(!w.sent()[0].contains("|369="), "not by default");
    });
}

fn next_expected(role: Role, begin_string: BeginString) -> World {
    World::new(role, begin_string, |config| {
        config.numbers = NumbersConfig { next_expected: true, ..NumbersConfig::default() };
    })
}

#[test]
fn next_expected_is_sent_from_4_4_on() {
    for begin_string in BeginString::ALL {
        let mut w = next_expected(Role::Initiator, begin_string);
        let sent = w.sent()[0].contains("|789=1");
        assert_eq!(sent, begin_string >= BeginString::Fix44, "{begin_string}");
        let mut w = next_expected(Role::Acceptor, begin_string);
        let logon = w.logon(1);
        w.takes(&logon);
        let sent = w.sent()[0].contains("|789=2");
        assert_eq!(sent, begin_string >= BeginString::Fix44, "{begin_string}");
    }
    let mut w = World::new(Role::Initiator, BeginString::Fix44, |_| ());
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30"]);
}

#[test]
fn next_expected_of_an_initiator_is_honoured() {
    let logon = |w: &mut World, seq: u64, next: u64| {
        w.receive(&format!("35=A|34={seq}|98=0|108=30|789={next}"))
    };
    let acceptor = || {
        let mut w = next_expected(Role::Acceptor, BeginString::Fix44);
        w.session.set_next_num_out(7);
        w
    };
    let mut w = acceptor();
    assert_eq!(logon(&mut w, 1, 7), Verdict::LoggedOn);
    assert_eq!(w.sent(), ["35=A|34=7|98=0|108=30|789=2"]);
    let mut w = acceptor();
    assert_eq!(logon(&mut w, 1, 3), Verdict::LoggedOnThenResend { begin: 3, end: 7 });
    let mut w = acceptor();
    let high = Disconnect::NextExpectedTooHigh { next: 7, received: 8 };
    assert_eq!(logon(&mut w, 1, 8), Verdict::Disconnect(high));
    assert!(w.sent()[0].starts_with("35=5|34=7|58=NextExpectedMsgSeqNum(789) too high"));
    // The NextExpectedMsgSeqNum(789) in our Logon(A) requests the missing messages, so no
    // ResendRequest(2) is sent.
    let mut w = acceptor();
    assert_eq!(logon(&mut w, 5, 7), Verdict::LoggedOn);
    assert_eq!(w.sent(), ["35=A|34=7|98=0|108=30|789=1"]);
    assert_eq!(w.receive("35=0|34=6"), Verdict::Held);
    assert_eq!(w.sent(), [""; 0]);
    // If the counterparty omits NextExpectedMsgSeqNum(789), it receives a ResendRequest(2).
    let mut w = acceptor();
    assert_eq!(w.receive("35=A|34=5|98=0|108=30"), Verdict::LoggedOn);
    assert_eq!(w.sent().len(), 2);
    // With a reset, NextExpectedMsgSeqNum(789) has no meaning and is ignored.
    let mut w = acceptor();
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y|789=900"), Verdict::LoggedOn);
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=30|141=Y|789=2"]);
    // If the setting is off, NextExpectedMsgSeqNum(789) is ignored.
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
    assert_eq!(logon(&mut w, 1, 900), Verdict::LoggedOn);
}

#[test]
fn next_expected_of_an_acceptor_is_honoured() {
    for (next, expected) in [
        (3, Verdict::Disconnect(Disconnect::NextExpectedTooHigh { next: 2, received: 3 })),
        (2, Verdict::LoggedOn),
        (1, Verdict::LoggedOnThenResend { begin: 1, end: 1 }),
    ] {
        let mut w = next_expected(Role::Initiator, BeginString::Fix44);
        w.sent();
        assert_eq!(w.receive(&format!("35=A|34=1|98=0|108=30|789={next}")), expected);
    }
}

/// A failed logon does not reset numbers that an operator has set, and the refusal consumes no
/// number.
#[test]
fn a_stranger_brings_no_reset_at_the_end_of_its_connection() {
    for (set, expected) in [(None, (1, 1)), (Some(7), (1, 7))] {
        let on_disconnect = ResetPolicy { disconnect: true, ..ResetPolicy::NEVER };
        let mut w = World::active_with(BeginString::Fix44, |config| {
            config.protocol.reset_on = on_disconnect
        });
        w.disconnect();
        assert_eq!(numbers(&w), (1, 1));
        w.connect();
        // An operator may also set the number during a connection.
        if let Some(next) = set {
            w.session.set_next_num_out(next);
        }
        w.takes("35=A|34=1|98=0|108=-1");
        assert_eq!(w.sent().len(), 1, "a Logout(5)");
        w.disconnect();
        assert_eq!(numbers(&w), expected);
    }
}

#[test]
fn kept_messages_that_are_covered_are_told() {
    let mut w = World::active(BeginString::Fix44);
    for seq in [4, 5, 7] {
        assert_eq!(w.receive(&format!("35=D|34={seq}|11=a")), Verdict::Held);
    }
    assert_eq!(w.session.take_remark(), None);
    w.takes("35=4|34=2|123=Y|36=6");
    assert_eq!(w.session.take_remark(), Some(Remark::PassedOver(2)));
    assert_eq!(w.session.take_remark(), None, "once");
    assert_eq!((w.receive_held(), w.session.held().0), (None, 1), "6 is missing still");
    w.takes("35=0|34=6");
    assert_eq!(w.receive_held(), Some(Verdict::Deliver));
    assert_eq!(w.session.take_remark(), None, "delivered");
}

#[test]
fn a_faulty_reject_is_told_and_counts() {
    let mut w = World::active(BeginString::Fix44);
    w.takes("35=3|34=2|45=1");
    assert_eq!(w.session.take_remark(), None);
    w.takes("35=3|34=3|45=1|43=?");
    let fault = Reject::new(RejectReason::IncorrectDataFormat, tag::POSS_DUP_FLAG);
    assert_eq!(w.session.take_remark(), Some(Remark::FaultyReject(fault)));
    assert_eq!((w.sent().len(), w.session.next_num_in()), (0, 4));
}

#[test]
fn a_sequence_reset_too_far_ahead_is_a_slip() {
    for (max, new_seq_no, taken) in [
        (1_000_000_000, "1000000002", true),
        (1_000_000_000, "1000000003", false),
        (1_000_000_000, "999999999999999", false),
        (10, "12", true),
        (10, "13", false),
        (u64::MAX, "999999999999999", true),
    ] {
        for fill in ["", "123=Y|"] {
            let mut w = World::active_with(BeginString::Fix44, |config| {
                config.numbers.sequence_reset_max = max;
            });
            assert_eq!(w.receive(&format!("35=4|34=2|{fill}36={new_seq_no}")), Verdict::Handled);
            let sent = w.sent();
            assert_eq!(sent.is_empty(), taken, "{max} {new_seq_no}: {sent:?}");
            let far = new_seq_no.parse::<u64>().unwrap();
            assert_eq!(w.session.next_num_in() == far, taken);
            if let Some(reject) = sent.first() {
                assert!(reject.starts_with("35=3|34=2|45=2|371=36|372=4|373=5|"), "{reject}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_number_is_said() {
    let missing = "a message had no readable MsgSeqNum(34)";
    let high = "a message had a MsgSeqNum(34) above 1000000000000000";
    for (number, text) in [
        ("34=", missing),
        ("34=x", missing),
        ("34=-1", missing),
        ("112=a", missing),
        ("34=1000000000000001", high),
        ("34=99999999999999999999999999999", high),
    ] {
        let mut w = World::active_with(BeginString::Fix44, |_| ());
        assert!(matches!(w.receive(&format!("35=1|{number}|112=a")), Verdict::Disconnect(_)));
        assert_eq!(w.sent(), [format!("35=5|34=2|58={text}")], "{number}");
    }
}

#[test]
fn a_refused_logon_moves_no_number() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
        config.numbers.too_low_at_logon = TooLowAtLogon::Accept;
        config.numbers.next_expected = true;
    });
    w.session.set_next_num_in(4);
    w.session.set_next_num_out(4);
    assert!(matches!(w.receive("35=A|34=1|98=0|108=30|789=9999"), Verdict::Disconnect(_)));
    assert_eq!(numbers(&w), (4, 4));
}

#[test]
fn messages_kept_above_a_gap_that_a_reset_drops_are_told() {
    let mut w = World::active(BeginString::Fix44);
    for seq in [4, 5, 6] {
        assert_eq!(w.receive(&format!("35=D|34={seq}|11=a")), Verdict::Held);
    }
    assert_eq!(w.receive("35=A|34=1|98=0|108=30|141=Y"), Verdict::Reset);
    assert_eq!(w.session.take_remark(), Some(Remark::PassedOver(3)));
    assert_eq!(w.session.take_remark(), None);
}
