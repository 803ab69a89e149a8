//! `cargo xtask metrics`: lets a real Prometheus collect the metrics of a trading venue, and
//! evaluates all queries of the dashboard and the alerts in `packaging/`.
//!
//! Checks: each target is up, and Prometheus has stored each metric with type and unit. Each
//! expression of the dashboard has a result, and each metric in an alert exists. No alert fires at
//! first; the right alerts fire after the counterparty is killed, and then after the venue is
//! killed.

mod dashboard;
mod prometheus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::served::{Dir, Served, Trader, program, until};
use crate::{Outcome, root};
use prometheus::Prometheus;

const USAGE: &str = "usage: cargo xtask metrics

Needs prometheus and promtool (Debian: prometheus), and openssl.";

/// The settings of two sessions. The second session has a certificate but no counterparty.
const SESSIONS: &str = "address = \"127.0.0.1:0\"\n\n[[session]]\ntarget_comp_id = \"DESK\"\n\n\
    [[session]]\ntarget_comp_id = \"SAFE\"\naddress = \"127.0.0.2:0\"\n\
    tls = { certificate = \"DIR/own.pem\", key = \"DIR/own.key\" }\n";
const DESK: &str = "FIX.4.4:VENUE->DESK";

const RULES: &str = "packaging/prometheus/transfix.rules.yml";
const RULES_TEST: &str = "packaging/prometheus/transfix.rules.test.yml";

/// Runs the command `cargo xtask metrics`.
///
/// # Errors
/// Returns the first check that fails.
pub fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err(USAGE.to_owned());
    }
    let mut report = vec![promtool(&["check", "rules"], RULES)?];
    report.push(promtool(&["test", "rules"], RULES_TEST)?);
    let panels = dashboard::panels()?;
    let (program, dir) = (program()?, Dir::new("metrics")?);
    certificate(dir.path())?;
    let mut served = Served::start(&program, &dir, SESSIONS)?;
    let rules = quick_rules(&dir)?;
    let prometheus = Prometheus::start(&dir, &served.admin, &served.tokens[0], &rules)?;
    let mut trader = troubled_trader(&program, &dir, &served)?;
    prometheus.sees("up{job=\"transfix\"} == 1")?;
    prometheus.sees(&format!("rate(transfix_session_logons_total{{session=\"{DESK}\"}}[30s])"))?;
    trader.say("burst 100")?;
    let metrics = prometheus.has_taken(&served.get("/metrics")?)?;
    report.push(format!("Prometheus has taken {metrics} metrics, with their types and units"));
    for panel in &panels {
        prometheus.answers(&panel.expression).map_err(|why| format!("{}: {why}", panel.title))?;
    }
    report.push(format!("{} expressions of the dashboard have results", panels.len()));
    let names = dashboard::metrics_of(&read(RULES)?);
    for name in &names {
        prometheus.answers(&format!("count({name})")).map_err(|why| format!("{RULES}: {why}"))?;
    }
    report.push(format!("the {} metrics of the alerts are there", names.len()));
    report.push(alerts(&prometheus, trader, &mut served)?);
    let said = prometheus.complaints();
    match said.is_empty() {
        true => Ok(report.join("\n")),
        false => Err(format!("Prometheus complains:\n{said}")),
    }
}

/// Checks that no alert fires at first, and that the alerts fire after the faults that they
/// describe.
fn alerts(prometheus: &Prometheus, trader: Trader, served: &mut Served) -> Outcome {
    prometheus.evaluates_all()?;
    let of_desk = |alert: &str| format!("ALERTS{{alertname=\"{alert}\", session=\"{DESK}\"}}");
    let down = "ALERTS{alertname=\"TransfixDown\"}";
    for quiet in [&*of_desk("TransfixNotLoggedOn"), down] {
        prometheus.has_none(quiet)?;
    }
    let fires = |alert: &str| prometheus.sees(&alert.replace('}', ", alertstate=\"firing\"}"));
    // The drop kills the counterparty, so that its socket closes without a Logout(5).
    drop(trader);
    fires(&of_desk("TransfixNotLoggedOn"))?;
    served.is_sound()?;
    served.kill();
    fires(down)?;
    Ok("the counterparty killed: TransfixNotLoggedOn fires; the venue killed: TransfixDown fires"
        .to_owned())
}

/// Starts a counterparty with problems: one of its messages is rejected, and it attempts a second
/// logon.
fn troubled_trader(program: &Path, dir: &Dir, served: &Served) -> Result<Trader, String> {
    let mut trader = Trader::start(program, dir, &served.listens[0])?;
    let has = |text: &str| {
        let metrics = served.get("/metrics")?;
        let found = metrics.lines().any(|line| line.starts_with(text) && !line.ends_with(" 0"));
        if found { Ok(()) } else { Err(format!("there is no {text} of a trader")) }
    };
    until(|| has(&format!("transfix_session_logons_total{{session=\"{DESK}\"}}")))?;
    trader.say("send D 11=x")?;
    until(|| has("transfix_rejects_total{direction=\"sent\""))?;
    trader.say("logout")?;
    until(|| has("transfix_disconnects_total{code="))?;
    trader.say("logon\nwait\nburst 100")?;
    until(|| has(&format!("transfix_session_logged_on{{session=\"{DESK}\"}} 1")))?;
    Ok(trader)
}

fn promtool(verb: &[&str], file: &str) -> Outcome {
    let output = Command::new("promtool").args(verb).arg(root().join(file)).output();
    let output = output.map_err(|error| format!("promtool: {error}\n{USAGE}"))?;
    let [said, errors] = [&output.stdout, &output.stderr].map(|s| String::from_utf8_lossy(s));
    match output.status.success() {
        true => Ok(format!("promtool {}: {file} is good", verb.join(" "))),
        false => Err(format!("promtool {} {file}:\n{said}{errors}", verb.join(" "))),
    }
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))
}

/// Writes the alert rules with waiting times of seconds instead of minutes. Returns the path of the
/// file.
fn quick_rules(dir: &Dir) -> Result<PathBuf, String> {
    let quick = |line: &str| match line.split_once("for: ") {
        Some((before, _)) if before.trim().is_empty() => format!("{before}for: 2s\n"),
        _ => format!("{line}\n"),
    };
    dir.write("rules.yml", &read(RULES)?.lines().map(quick).collect::<String>())
}

/// Creates a self-signed certificate for a session of the venue.
fn certificate(dir: &Path) -> Result<(), String> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "20", "-subj", "/CN=localhost", "-keyout"])
        .arg(dir.join("own.key"))
        .arg("-out")
        .arg(dir.join("own.pem"))
        .output()
        .map_err(|error| format!("openssl: {error}; it is in Debian's package openssl"))?;
    match made.status.success() {
        true => Ok(()),
        false => Err(format!("openssl req: {}", String::from_utf8_lossy(&made.stderr))),
    }
}
