//! The recovery of two gateways on PostgreSQL with a synchronous standby, measured by fault.

use std::time::Duration;

use crate::gateways::{Trial, Violations};
use crate::server::Pair;

/// Number of trials of each fault, unless the environment has another one.
const TRIALS: &str = "TRANSFIX_TRIALS";
const TRIALS_DEFAULT: usize = 20;
/// Duration of a pause of a gateway.
const PAUSE: Duration = Duration::from_secs(6);

type Fault = fn(&mut Trial<'_, Pair>);

const FAULTS: [(&str, Fault); 4] = [
    ("gateway-killed", |trial| trial.gateways[0].signal("KILL")),
    ("gateway-paused", |trial| {
        trial.gateways[0].signal("STOP");
        crate::gateways::pause(PAUSE);
        trial.gateways[0].signal("CONT");
    }),
    ("primary-killed", |trial| {
        trial.server.primary.kill();
        trial.server.standby.promote();
    }),
    ("gateway-and-primary-killed", |trial| {
        trial.gateways[0].signal("KILL");
        trial.server.primary.kill();
        trial.server.standby.promote();
    }),
];

/// Prints the recovery from each fault as a table. Each trial has servers and gateways of its own.
#[test]
#[ignore = "measures for minutes: cargo xtask fleet"]
fn recovery() {
    let trials = std::env::var(TRIALS).map_or(TRIALS_DEFAULT, |trials| trials.parse().unwrap());
    println!("\nPostgreSQL with a synchronous standby; the gateways are the acceptor");
    println!("fault                       trials  p50 ms  p99 ms  orders  lost  doubled  reused");
    let mut is_sound = true;
    for (name, fault) in FAULTS {
        let (mut recoveries, mut orders, mut found) = (Vec::new(), 0, Vec::new());
        for _ in 0..trials {
            let server = Pair::start();
            let mut trial = Trial::begin(&server);
            fault(&mut trial);
            let (recovery, count, violations) = trial.finish();
            recoveries.push(recovery.as_millis());
            orders += count;
            found.push(violations);
        }
        recoveries.sort_unstable();
        let [p50, p99] = [50, 99].map(|percent| recoveries[(trials * percent).div_ceil(100) - 1]);
        let count = |of: fn(&Violations) -> usize| found.iter().map(of).sum::<usize>();
        let (lost, doubled, reused) =
            (count(|v| v.lost), count(|v| v.doubled), count(|v| v.reused));
        println!(
            "{name:<27} {trials:>6}  {p50:>6}  {p99:>6}  {orders:>6}  {lost:>4}  {doubled:>7}  \
             {reused:>6}"
        );
        is_sound &= lost + doubled + reused == 0;
    }
    assert!(is_sound, "a check has failed");
}
