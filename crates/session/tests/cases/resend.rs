//! Tests of the settings for requesting lost messages, and for answering requests.

use std::time::Duration;

use transfix_session::{BeginString, Disconnect, ResendConfig, Verdict};

use crate::cases::counterparty::World;

const DEFAULT: ResendConfig = ResendConfig {
    request_max: 0,
    closed_ranges: false,
    redundant_requests: false,
    repeat_after: Duration::from_secs(20),
    repeats_max: 0,
    answered_max: 0,
    same_requests_max: 0,
    answer_poss_dup: true,
    resend_rejects: false,
    orig_sending_time_required: true,
};

fn active(resend: ResendConfig) -> World {
    World::active_with(BeginString::Fix44, |config| config.resend = resend)
}

fn ranges(sent: &[String]) -> Vec<&str> {
    sent.iter()
        .filter_map(|line| line.strip_prefix("35=2|")?.split_once("|7="))
        .map(|r| r.1)
        .collect()
}

#[test]
fn defaults() {
    assert_eq!(ResendConfig::default(), DEFAULT);
}

/// Messages 2 to 8 are missing; the test checks each ResendRequest(2) at the beginning and while
/// they arrive.
#[test]
fn requests_in_parts_with_open_or_closed_end() {
    let part = ResendConfig { request_max: 3, ..DEFAULT };
    let table = [
        (DEFAULT, ["2|16=0", "", ""]),
        (ResendConfig { closed_ranges: true, ..DEFAULT }, ["2|16=8", "", ""]),
        (part, ["2|16=4", "5|16=7", "8|16=0"]),
        (ResendConfig { closed_ranges: true, ..part }, ["2|16=4", "5|16=7", "8|16=8"]),
    ];
    for (resend, expected) in table {
        let mut w = active(resend);
        assert_eq!(w.receive("35=0|34=9"), Verdict::Held);
        let mut asked = vec![ranges(&w.sent()).join(",")];
        let dup = "43=Y|122=20261121-12:00:00";
        for line in ["35=D|34=2", "35=D|34=3", "35=D|34=4", "35=4|34=5|123=Y|36=8", "35=D|34=8"] {
            let (msg_type, rest) = line.split_once('|').unwrap();
            w.takes(&format!("{msg_type}|{dup}|{rest}"));
            if line.contains("34=4") || line.contains("34=5") {
                asked.push(ranges(&w.sent()).join(","));
            }
        }
        assert_eq!(asked, expected);
        assert_eq!(w.receive_held(), Some(Verdict::Handled));
        assert_eq!(w.session.next_num_in(), 10);
        assert_eq!(w.sent(), [""; 0]);
    }
}

#[test]
fn each_early_message_asks_again_where_that_is_wanted() {
    for (redundant_requests, expected) in [(false, 1), (true, 3)] {
        let mut w = active(ResendConfig { redundant_requests, ..DEFAULT });
        for seq in [5, 6, 8] {
            assert_eq!(w.receive(&format!("35=0|34={seq}")), Verdict::Held);
        }
        assert_eq!(ranges(&w.sent()).len(), expected);
    }
}

/// A request is repeated by its own timer, even if no message arrives and heartbeats are off.
#[test]
fn an_unanswered_request_is_repeated() {
    for (repeat_after, expected) in [(0, 0), (7, 3)] {
        let mut w = World::new(transfix_session::Role::Acceptor, BeginString::Fix44, |config| {
            let repeat_after = Duration::from_secs(repeat_after);
            config.resend = ResendConfig { repeat_after, repeats_max: 3, ..DEFAULT };
        });
        w.takes("35=A|34=1|98=0|108=0");
        w.takes("35=0|34=5");
        w.sent();
        let mut repeats = 0;
        let mut end = Verdict::Handled;
        for _ in 0..60 {
            end = w.later(1);
            repeats += ranges(&w.sent()).len();
            if end != Verdict::Handled {
                break;
            }
        }
        assert_eq!(repeats, expected);
        let given_up = Verdict::Disconnect(Disconnect::ResendUnanswered);
        assert_eq!(end, if expected == 0 { Verdict::Handled } else { given_up });
    }
}

#[test]
fn requests_for_too_much_are_rejected() {
    for (answered_max, all) in [(0, true), (2, false)] {
        let mut w = active(ResendConfig { answered_max, ..DEFAULT });
        for id in ["a", "b"] {
            w.send(id).unwrap();
        }
        w.sent();
        let verdict = w.receive("35=2|34=2|7=1|16=0");
        assert_eq!(verdict == Verdict::Resend { begin: 1, end: 3 }, all);
        assert_eq!(w.sent().iter().any(|line| line.contains("|371=16|372=2|373=5|")), !all);
        let verdict = w.receive("35=2|34=3|7=2|16=3");
        assert_eq!(verdict, Verdict::Resend { begin: 2, end: 3 });
    }
}

#[test]
fn the_same_request_again_and_again_ends_the_session() {
    for (same_requests_max, ends) in [(0, false), (2, true)] {
        let mut w = active(ResendConfig { same_requests_max, ..DEFAULT });
        let resend = Verdict::Resend { begin: 1, end: 1 };
        assert_eq!(w.receive("35=2|34=2|7=1|16=0"), resend);
        assert_eq!(w.receive("35=2|34=3|7=1|16=0"), resend);
        assert_eq!(w.receive("35=2|34=4|7=1|16=1"), resend, "another one");
        assert_eq!(w.receive("35=2|34=5|7=1|16=0"), resend);
        assert_eq!(w.receive("35=2|34=6|7=1|16=0"), resend);
        let looped = Verdict::Disconnect(Disconnect::ResendLoop);
        assert_eq!(w.receive("35=2|34=7|7=1|16=0"), if ends { looped } else { resend });
        assert_eq!(w.session.next_num_in(), 8);
    }
}

#[test]
fn possible_duplicates_of_requests() {
    let dup = "43=Y|122=20261121-12:00:00";
    for (answer_poss_dup, expected) in
        [(true, Verdict::Resend { begin: 1, end: 1 }), (false, Verdict::Handled)]
    {
        let mut w = active(ResendConfig { answer_poss_dup, ..DEFAULT });
        assert_eq!(w.receive(&format!("35=2|34=2|{dup}|7=1|16=0")), expected);
        assert_eq!(w.session.next_num_in(), 3);
    }
}

#[test]
fn rejects_are_sent_again_where_that_is_wanted() {
    use transfix_session::{Entry, Kind};
    for (resend_rejects, expected) in [(false, Kind::Admin), (true, Kind::Application)] {
        let mut w = active(ResendConfig { resend_rejects, ..DEFAULT });
        w.takes("35=1|34=2");
        let kinds: Vec<_> = w.out.entries().iter().collect();
        assert!(matches!(kinds[..], [Entry::Frame { kind, .. }] if *kind == expected), "{kinds:?}");
    }
}

#[test]
fn a_duplicate_without_its_original_time() {
    for (orig_sending_time_required, verdict, rejects) in
        [(true, Verdict::Handled, 1), (false, Verdict::Deliver, 0)]
    {
        let mut w = active(ResendConfig { orig_sending_time_required, ..DEFAULT });
        assert_eq!(w.receive("35=D|34=2|43=Y|11=a"), verdict);
        assert_eq!(w.sent().len(), rejects);
        // If OrigSendingTime(122) is present, it is checked nevertheless.
        w.takes("35=D|34=3|43=Y|122=20261121-12:00:09|11=a");
        assert!(w.sent()[0].contains("|371=122|372=D|373=10|"));
    }
}

/// The form of the gap fill of a counterparty that has no message to resend.
#[derive(Clone, Copy, Debug)]
enum Fill {
    /// NewSeqNo(36) is the number after the last number covered.
    Behind,
    /// At the end of a requested part, NewSeqNo(36) is EndSeqNo(16) itself, which is then not
    /// covered. Some engines send this.
    AtEnd,
}

/// Checks that the session recovers all messages without waiting for a timer. A counterparty has
/// sent messages up to `last`; some have arrived, the others were lost. It answers each
/// ResendRequest(2) at once.
///
/// Each bit of `applications` marks an application message, and each bit of `early` marks a message
/// that arrived.
fn recovers_at_once(resend: ResendConfig, last: u64, applications: u64, early: u64, fill: Fill) {
    let what = format!("{resend:?} {applications:b} {early:b} {fill:?}");
    let mut w = active(resend);
    let is = |bits: u64, seq: u64| bits >> seq & 1 == 1;
    let line = |seq: u64, dup: &str| match is(applications, seq) {
        true => format!("35=D|34={seq}|{dup}11=a"),
        false => format!("35=0|34={seq}|{dup}58=a"),
    };
    for seq in 2..=last {
        if is(early, seq) || seq == last {
            w.takes(&line(seq, ""));
        }
    }
    let dup = "43=Y|122=20261121-12:00:00|";
    for round in 0.. {
        while w.receive_held().is_some() {}
        let sent = w.sent();
        let asked: Vec<_> = sent.iter().filter(|line| line.starts_with("35=2|")).collect();
        if asked.is_empty() {
            break;
        }
        assert!(round < 100, "asks for ever: {what}");
        for request in asked {
            let number = |tag: &str| -> u64 {
                let field = request.split('|').find_map(|field| field.strip_prefix(tag));
                field.unwrap().parse().unwrap()
            };
            let (mut seq, end) = (number("7="), number("16="));
            let end = if end == 0 { last } else { end.min(last) };
            while seq <= end {
                if is(applications, seq) {
                    w.takes(&line(seq, dup));
                    while w.receive_held().is_some() {}
                    seq += 1;
                    continue;
                }
                let next = (seq..=end).find(|seq| is(applications, *seq)).unwrap_or(end + 1);
                let new = match fill {
                    Fill::AtEnd if next == end + 1 && end + 1 < last && end > seq => end,
                    _ => next,
                };
                w.takes(&format!("35=4|34={seq}|{dup}123=Y|36={new}"));
                while w.receive_held().is_some() {}
                seq = next;
            }
        }
    }
    assert_eq!(w.session.next_num_in(), last + 1, "stands still: {what}");
}

#[test]
fn recovery_in_parts_never_stands_still() {
    let last = 12;
    for request_max in [0, 1, 2, 3, 5] {
        for closed_ranges in [false, true] {
            let resend = ResendConfig { request_max, closed_ranges, ..DEFAULT };
            let mut bits: u64 = 1;
            for n in 0..300 {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1 + n);
                let fill = if bits >> 60 & 1 == 0 { Fill::Behind } else { Fill::AtEnd };
                recovers_at_once(resend, last, bits >> 20, bits >> 40 & bits >> 30, fill);
            }
        }
    }
}
