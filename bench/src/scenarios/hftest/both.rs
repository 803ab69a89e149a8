//! Both sides over loopback, each in a process of its own, without anybody at the keys.

use std::process::{Command, Stdio};

use serde::Serialize;

use super::super::child::Side as Process;
use super::super::report::Machine;
use super::book::Check;
use super::figures::{EXPLAINED, Side};
use super::server::LISTENING;
use super::{Args, client, say, server};

/// Microseconds of the published page, the mean of both sides.
const ENCODE_US: f64 = 2.83;
const DECODE_US: f64 = 5.57;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    passed: bool,
    faults: Vec<String>,
    check: Check,
    /// From the first order to the last report.
    secs: f64,
    orders_per_s: f64,
    client: Side,
    server: Side,
    /// Means of both sides in microseconds, beside those of the published page.
    encode_us: f64,
    decode_us: f64,
    encode_p50_us: f64,
    decode_p50_us: f64,
    page_encode_us: f64,
    page_decode_us: f64,
    machine: Machine,
    settings: serde_json::Value,
}

/// Starts both, sends all, and reports. Returns whether all checks have passed.
pub(super) fn run(args: &Args) -> Result<bool, String> {
    let (client, server) = play(args)?;
    let mut faults = client.check.faults();
    let counts = client.check.counts;
    if (counts.orders, counts.reports) != (server.orders, server.reports) {
        faults.push(format!(
            "the client has sent {} orders and had {} reports, the server has had {} and sent {}",
            counts.orders, counts.reports, server.orders, server.reports
        ));
    }
    if counts.orders != u64::from(args.orders) {
        faults.push(format!("{} orders were sent in place of {}", counts.orders, args.orders));
    }
    for (name, encoded, sent) in [
        ("client", client.side.encode.msgs, counts.orders),
        ("server", server.side.encode.msgs, server.reports),
    ] {
        if encoded != sent {
            faults.push(format!("the {name} has encoded {encoded} messages and sent {sent}"));
        }
    }
    let passed = faults.is_empty();
    if args.json {
        let report = report(args, client, server, faults);
        say(&serde_json::to_string(&report).map_err(|why| why.to_string())?)?;
    } else {
        show(args, &client, &server)?;
        faults.retain(|fault| !client.check.faults().contains(fault));
        for fault in faults {
            say(&format!("Self-check: FAILED: {fault}"))?;
        }
    }
    Ok(passed)
}

/// Runs both sides to their end.
fn play(args: &Args) -> Result<(client::Figures, server::Figures), String> {
    let mut command = role(args, "server")?;
    command.args(["--address", "127.0.0.1:0", "--seed", &args.seed.wrapping_add(1).to_string()]);
    if let Some(n) = args.drop {
        command.args(["--drop", &n.to_string()]);
    }
    let mut server = Process::start("the server", &mut command)?;
    let line = server.line()?;
    let address = line.strip_prefix(LISTENING).ok_or(format!("the server says: {line}"))?;
    let mut command = role(args, "client")?;
    command.args(["--address", address, "--seed", &args.seed.to_string()]);
    command.args(["--preload", &args.orders.to_string()]);
    command.args(["--patience", &args.patience.to_string()]);
    let mut client = Process::start("the client", &mut command)?;
    // A side may end at its key, before the rest of the line is written; one that has ended too
    // early has no figures.
    let _ = client.say("a\nx");
    let client_figures = figures(&mut client, args)?;
    let _ = server.say("x");
    let server_figures = figures(&mut server, args)?;
    server.finish()?;
    Ok((client_figures, server_figures))
}

/// This program as one side.
fn role(args: &Args, role: &str) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let mut command = Command::new(program);
    command.args(["bench", "hftest", role, "--figures", "--log-dir"]).arg(&args.log_dir);
    if args.valid {
        command.arg("--valid");
    }
    command.stdin(Stdio::piped());
    Ok(command)
}

/// Shows what a side prints, until its figures come.
fn figures<T: serde::de::DeserializeOwned>(side: &mut Process, args: &Args) -> Result<T, String> {
    loop {
        let line = side.line()?;
        if line.starts_with('{') {
            return serde_json::from_str(&line).map_err(|why| format!("{line}: {why}"));
        }
        if !args.json {
            say(&line)?;
        }
    }
}

/// The mean of both sides, each counting as much as the other, as on the page.
fn means(client: &Side, server: &Side) -> [f64; 2] {
    [
        (client.encode.us() + server.encode.us()) / 2.0,
        (client.decode.us() + server.decode.us()) / 2.0,
    ]
}

fn show(args: &Args, client: &client::Figures, server: &server::Figures) -> Result<(), String> {
    say(&client.check.to_string())?;
    for (side, prefix) in [(&client.side, "client:"), (&server.side, "server:")] {
        say(side.lines(prefix).trim_end())?;
    }
    for (side, prefix) in [(&client.side, "client:"), (&server.side, "server:")] {
        say(side.rest(prefix, args.histogram).trim_end())?;
    }
    let [encode, decode] = means(&client.side, &server.side);
    let (to_encode, to_decode) = (ENCODE_US / encode, DECODE_US / decode);
    say(&format!(
        "Means of both sides: encode {encode:.3} µs, decode {decode:.3} µs; the published page has \
         {ENCODE_US} and {DECODE_US}: {to_encode:.1} and {to_decode:.1} times as much"
    ))?;
    let (c, s) = (&client.side, &server.side);
    say(&format!(
        "Sums of medians: encode {:.3} µs client, {:.3} server; decode {:.3} client, {:.3} server",
        c.encode_p50_us, s.encode_p50_us, c.decode_p50_us, s.decode_p50_us
    ))?;
    let (orders, secs) = (client.check.counts.orders, client.secs);
    say(&format!(
        "{orders} orders and their reports in {secs:.3} s: {:.0} orders a second",
        orders as f64 / secs
    ))?;
    say(EXPLAINED)
}

fn report(
    args: &Args,
    client: client::Figures,
    server: server::Figures,
    faults: Vec<String>,
) -> Report {
    let [encode_us, decode_us] = means(&client.side, &server.side);
    let mean = |of: fn(&Side) -> f64| f64::midpoint(of(&client.side), of(&server.side));
    let [encode_p50_us, decode_p50_us] = [mean(|s| s.encode_p50_us), mean(|s| s.decode_p50_us)];
    Report {
        scenario: "S2b",
        passed: faults.is_empty(),
        faults,
        orders_per_s: client.check.counts.orders as f64 / client.secs,
        check: client.check,
        secs: client.secs,
        client: client.side,
        server: server.side,
        encode_us,
        decode_us,
        encode_p50_us,
        decode_p50_us,
        page_encode_us: ENCODE_US,
        page_decode_us: DECODE_US,
        machine: Machine::this(),
        settings: serde_json::json!({
            "orders": args.orders,
            "seed": args.seed,
            "valid": args.valid,
            "check_sum_verified": true,
            "durability": "memory",
        }),
    }
}
