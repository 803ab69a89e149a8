//! Tests of the settings for heartbeats and silence.

use std::time::Duration;

use transfix_session::{BeginString, Disconnect, LogonFault, Role, TimingConfig, Verdict};

use crate::cases::counterparty::{SECOND, World};

/// Returns the events until the session ends because of silence, other than Heartbeat(0), with
/// their times in seconds.
fn silence(timing: TimingConfig) -> Vec<(u64, String)> {
    let mut w = World::active_with(BeginString::Fix44, |config| config.timing = timing);
    let mut seen = Vec::new();
    for second in 1..300 {
        let verdict = w.later(1);
        for line in w.sent() {
            if !line.starts_with("35=0") {
                seen.push((second, line[..4].to_owned()));
            }
        }
        if let Verdict::Disconnect(why) = verdict {
            assert_eq!(why, Disconnect::HeartbeatTimeout);
            seen.push((second, "end".to_owned()));
            return seen;
        }
    }
    seen
}

/// The largest values of settings and messages cause no overflow in products and sums.
#[test]
fn the_longest_times_do_not_overflow() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
        config.timing.margin_percent = u32::MAX;
        config.timing.test_request_wait = Duration::MAX;
        config.protocol.logon_timeout = Duration::MAX;
        config.protocol.logout_timeout = Duration::MAX;
        config.protocol.reset_after = Duration::MAX;
    });
    assert_eq!(w.receive("35=A|34=1|98=0|108=4294967295"), Verdict::LoggedOn);
    let heart_bt_int = u64::from(u32::MAX);
    assert_eq!(w.session.next_deadline(), Some(SECOND + heart_bt_int * SECOND));
    w.sent();
    assert_eq!(w.later(heart_bt_int), Verdict::Handled);
    assert_eq!(w.sent(), ["35=0|34=2"]);
    assert!(w.session.next_deadline().is_some());
}

#[test]
fn a_part_of_a_second_counts_as_a_whole_one() {
    let mut w = World::new(Role::Initiator, BeginString::Fix44, |config| {
        config.protocol.heart_bt_int = Duration::from_millis(1_500);
        config.timing.same_heart_bt_int = true;
    });
    let sent = w.sent();
    assert!(sent[0].contains("|108=2"), "{sent:?}");
    assert_eq!(w.receive("35=A|34=1|98=0|108=2"), Verdict::LoggedOn);
    assert_eq!(w.session.agreed_heart_bt_int(), Duration::from_secs(2));
}

#[test]
fn silence_by_policy() {
    let check = |change: fn(&mut TimingConfig), expected: &[(u64, &str)]| {
        let mut timing = TimingConfig::default();
        change(&mut timing);
        let seen = silence(timing);
        let seen: Vec<_> = seen.iter().map(|(second, what)| (*second, what.as_str())).collect();
        assert_eq!(seen, expected, "{timing:?}");
    };
    check(|_| (), &[(36, "35=1"), (56, "end")]);
    check(|t| t.margin_percent = 50, &[(45, "35=1"), (65, "end")]);
    check(|t| t.margin = Duration::from_secs(4), &[(34, "35=1"), (54, "end")]);
    check(|t| t.test_request_wait = Duration::from_secs(5), &[(36, "35=1"), (41, "end")]);
    check(|t| t.test_requests_max = 3, &[(36, "35=1"), (56, "35=1"), (76, "35=1"), (96, "end")]);
    check(|t| t.logout_when_silent = true, &[(36, "35=1"), (56, "35=5"), (56, "end")]);
    check(|t| t.watch_silence = false, &[]);
}

/// Returns the verdict on a Logon(A) that requests a HeartBtInt(108) of 30 s, and our answer to it.
fn answer(change: impl FnOnce(&mut TimingConfig)) -> (Verdict, String) {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |config| {
        config.protocol.heart_bt_int = Duration::from_secs(7);
        change(&mut config.timing);
    });
    let verdict = w.receive("35=A|34=1|98=0|108=30");
    (verdict, w.sent().join(","))
}

#[test]
fn the_interval_of_an_acceptor() {
    assert_eq!(answer(|_| ()), (Verdict::LoggedOn, "35=A|34=1|98=0|108=30".to_owned()));
    let imposed = answer(|timing| timing.impose_heart_bt_int = true);
    assert_eq!(imposed, (Verdict::LoggedOn, "35=A|34=1|98=0|108=7".to_owned()));
    let why = LogonFault::HeartBtIntOutOfRange;
    let refused = Verdict::Disconnect(Disconnect::LogonRefused(why));
    for (min, max, expected) in [
        (30, 30, Verdict::LoggedOn),
        (31, 60, refused),
        (0, 29, refused),
        (31, 0, refused),
        (30, 0, Verdict::LoggedOn),
    ] {
        let (verdict, _) = answer(|timing| {
            timing.heart_bt_int_min = Duration::from_secs(min);
            timing.heart_bt_int_max = Duration::from_secs(max);
        });
        assert_eq!(verdict, expected, "{min} to {max}");
    }
}

#[test]
fn an_initiator_may_insist_on_its_interval() {
    for (same_heart_bt_int, accepted) in [(false, true), (true, false)] {
        let mut w = World::new(Role::Initiator, BeginString::Fix44, |config| {
            config.timing.same_heart_bt_int = same_heart_bt_int;
        });
        w.sent();
        assert_eq!(w.receive("35=A|34=1|98=0|108=9") == Verdict::LoggedOn, accepted);
        if accepted {
            assert_eq!(w.later(9), Verdict::Handled);
            assert_eq!(w.sent(), ["35=0|34=2"], "the acceptor's interval holds");
        }
    }
}

/// If the application needs longer to decide about the Logon(A) than the counterparty may be
/// silent, this does not count as silence.
#[test]
fn the_wait_for_the_application_is_no_silence() {
    let mut w = World::new(Role::Acceptor, BeginString::Fix44, |_| ());
    assert_eq!(w.offer("35=A|34=1|98=0|108=2"), Verdict::LogonOffered);
    assert_eq!(w.later(9), Verdict::Handled, "nothing is due before the answer");
    assert_eq!(w.session.accept_logon(w.now, &mut w.out), Verdict::LoggedOn);
    assert_eq!(w.later(0), Verdict::Handled);
    assert_eq!(w.sent(), ["35=A|34=1|98=0|108=2"]);
}
