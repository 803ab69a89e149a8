//! Tests of the choice of the next destination, and of the pause before it.

use std::time::Duration;

use transfix_session::{BeginString, Role, SessionId};

use super::*;

const MS: u64 = 1_000_000;
use transfix_settings::{FailoverOrder, SessionSettings};

fn connector(change: impl FnOnce(&mut SessionSettings)) -> Connector {
    let id = SessionId::new(BeginString::Fix44, "A", "B");
    let mut settings = SessionSettings::new(Role::Initiator, &id, "127.0.0.1:1");
    change(&mut settings);
    Connector::new(Routes::of(&settings, &Arc::default()).unwrap(), Pauses::of(&settings.socket))
}

/// Lets `attempts` attempts end as `ended`. Returns the pause after each, in milliseconds.
fn waits(connector: &mut Connector, ended: Ended, attempts: usize) -> Vec<u64> {
    let wait = |connector: &mut Connector| {
        connector.down(7, ended);
        (connector.deadline(true).unwrap() - 7) / MS
    };
    (0..attempts).map(|_| wait(connector)).collect()
}

#[test]
fn a_refused_logon_slows_the_next_try_down() {
    let of = |interval_ms, max_ms| {
        connector(|s| {
            s.socket.reconnect_interval = Duration::from_millis(interval_ms);
            s.socket.reconnect_interval_max = Duration::from_millis(max_ms);
        })
    };
    let mut doubling = of(500, 3_000);
    let refused = waits(&mut doubling, Ended::Refused, 6);
    assert_eq!(refused, [1_000, 2_000, 3_000, 3_000, 3_000, 3_000]);
    doubling.refusals = u32::MAX;
    assert_eq!(waits(&mut doubling, Ended::Refused, 1), [3_000]);
    doubling.down(7, Ended::Unconnected);
    assert_eq!(doubling.deadline(true), Some(7 + 3_000 * MS), "nothing was refused, nor taken");
    doubling.down(7, Ended::AfterLogon);
    assert_eq!(doubling.deadline(true), Some(7 + 500 * MS));
    assert_eq!(doubling.deadline(false), None, "an operator has logged it out");
    assert_eq!(waits(&mut of(500, 1), Ended::Refused, 9), [500; 9]);
}

#[test]
fn nobody_there_slows_the_next_round_down_if_that_is_wanted() {
    let of = |backoff| {
        connector(|s| {
            s.socket.reconnect_backoff = backoff;
            s.socket.reconnect_interval_max = Duration::from_secs(5);
            s.failover.addresses = vec!["127.0.0.1:2".to_owned()];
        })
    };
    assert_eq!(waits(&mut of(Backoff::Constant), Ended::Unconnected, 7), [1_000; 7]);
    let mut growing = of(Backoff::Exponential);
    let waited = waits(&mut growing, Ended::Unconnected, 7);
    assert_eq!(waited, [1_000, 2_000, 2_000, 4_000, 4_000, 5_000, 5_000]);
    assert_eq!(waits(&mut growing, Ended::AfterLogon, 1), [1_000]);
}

#[test]
fn some_of_the_pause_is_left_to_chance_and_is_each_sessions_own() {
    let of = |name: &str| {
        connector(|s| {
            s.sender_comp_id = name.to_owned();
            s.socket.reconnect_jitter_percent = 20;
            s.socket.reconnect_interval = Duration::from_secs(10);
        })
    };
    let waited = waits(&mut of("A"), Ended::Unconnected, 1_000);
    assert!(waited.iter().all(|wait| (8_000..=10_000).contains(wait)));
    assert!(waited.iter().min() < Some(&8_050) && waited.iter().max() > Some(&9_950));
    assert_eq!(waited, waits(&mut of("A"), Ended::Unconnected, 1_000));
    assert_ne!(waited, waits(&mut of("B"), Ended::Unconnected, 1_000));
}

#[test]
fn it_gives_up_until_it_is_to_begin_anew() {
    let mut connector = connector(|s| s.socket.reconnect_attempts_max = 3);
    for _ in 0..3 {
        let ended = [Ended::Unconnected, Ended::Refused, Ended::Unconnected];
        let given_up = ended.map(|ended| connector.down(7, ended));
        assert_eq!(given_up, [None, None, Some(3)]);
        assert_eq!(connector.deadline(true), None);
        connector.put_off(9, Some(9));
        assert_eq!(connector.deadline(true), None, "the schedule alone is no reason");
        connector.hurry(9);
        assert_eq!(connector.deadline(true), Some(9));
    }
    connector.down(7, Ended::AfterLogon);
    assert_eq!(connector.down(7, Ended::Unconnected), None);
}

/// Returns the index of the destination after each of these ends.
fn tour(order: FailoverOrder, attempts: u32, ends: &str) -> String {
    let mut connector = connector(|s| {
        s.failover.addresses = vec!["127.0.0.1:2".to_owned(), "127.0.0.1:3".to_owned()];
        (s.failover.order, s.failover.attempts) = (order, attempts);
    });
    let next = |end| {
        let ended = match end {
            'l' => Ended::AfterLogon,
            'r' => Ended::Refused,
            _ => Ended::Unconnected,
        };
        connector.down(7, ended);
        char::from(b'0' + connector.routes.current() as u8)
    };
    ends.chars().map(next).collect()
}

#[test]
fn destinations_follow_each_other_as_the_settings_say() {
    // The letters mean: `u` not connected, `r` refused, `l` ended after a logon.
    for (order, attempts, ends, expected) in [
        (FailoverOrder::Stay, 1, "uruulll", "1201111"),
        (FailoverOrder::Stay, 3, "uuurrlrrr", "001111112"),
        (FailoverOrder::Stay, 0, "uuuuruuul", "000000000"),
        (FailoverOrder::First, 1, "uululul", "1201010"),
        (FailoverOrder::Next, 2, "llluul", "120012"),
    ] {
        assert_eq!(tour(order, attempts, ends), expected, "{order:?} {attempts} {ends}");
    }
    let ends = "u".repeat(600);
    let visited = tour(FailoverOrder::Random, 1, &ends);
    let bytes = visited.as_bytes();
    assert!(bytes.windows(2).all(|two| two[0] != two[1]), "one that failed is left");
    for to in ['0', '1', '2'] {
        assert!(visited.matches(to).count() > 150, "{to} in {visited}");
    }
}
