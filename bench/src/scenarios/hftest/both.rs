//! Runs both sides over loopback, each in its own process, unattended.

use std::process::{Command, Stdio};

use super::super::child::Side as Process;
use super::figures::{Side, Timing};
use super::server::LISTENING;
use super::{Args, client, say, server};

/// The measurements of client and server.
pub(super) struct Run {
    pub(super) client: client::Figures,
    pub(super) server: server::Figures,
    /// The faults; empty if the run was right.
    pub(super) faults: Vec<String>,
}

/// Starts both sides, sends all orders, and checks the reports. If `shows`, the output of both
/// sides is printed.
pub(super) fn run(args: &Args, shows: bool) -> Result<Run, String> {
    let (client, server) = play(args, shows)?;
    let mut faults = client.check.faults();
    let counts = client.check.counts;
    if (counts.orders, counts.reports) != (server.orders, server.reports) {
        faults.push(format!(
            "the client has sent {} orders and had {} reports, the server has had {} and sent {}",
            counts.orders, counts.reports, server.orders, server.reports
        ));
    }
    if counts.orders != u64::from(args.orders) {
        faults.push(format!("{} orders were sent instead of {}", counts.orders, args.orders));
    }
    for (name, encoded, sent) in [
        ("client", client.side.encode.msgs, counts.orders),
        ("server", server.side.encode.msgs, server.reports),
    ] {
        if encoded != sent {
            faults.push(format!("the {name} has encoded {encoded} messages and sent {sent}"));
        }
    }
    Ok(Run { client, server, faults })
}

impl Run {
    /// Returns the mean of client and server, with equal weights as on the page.
    pub(super) fn mean(&self, of: fn(&Side) -> f64) -> f64 {
        f64::midpoint(of(&self.client.side), of(&self.server.side))
    }

    /// Returns the nanoseconds per message, over client and server.
    pub(super) fn ns(&self, of: fn(&Side) -> Timing) -> f64 {
        let sides = [&self.client.side, &self.server.side].map(of);
        let sum = |part: fn(Timing) -> f64| sides.map(part).iter().sum::<f64>();
        1e9 * sum(|timing| timing.secs) / sum(|timing| timing.msgs as f64).max(1.0)
    }

    /// Returns the mean encoding time of client and server, in microseconds.
    pub(super) fn encode_us(&self) -> f64 {
        self.mean(|side| side.encode.us())
    }

    pub(super) fn decode_us(&self) -> f64 {
        self.mean(|side| side.decode.us())
    }

    pub(super) fn orders_per_s(&self) -> f64 {
        self.client.check.counts.orders as f64 / self.client.secs
    }
}

/// Runs client and server to their end. Returns the figures of both sides.
fn play(args: &Args, shows: bool) -> Result<(client::Figures, server::Figures), String> {
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
    // A side exits at its key, possibly before the rest of the line is written. If a side exits
    // early, its figures are missing, which is an error later.
    let _ = client.say("a\nx");
    let client_figures = figures(&mut client, shows)?;
    let _ = server.say("x");
    let server_figures = figures(&mut server, shows)?;
    server.finish()?;
    Ok((client_figures, server_figures))
}

/// Returns the command that starts this program as client or server.
fn role(args: &Args, role: &str) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let mut command = Command::new(program);
    command.args(["hftest", role, "--figures", "--log-dir"]).arg(&args.log_dir);
    if args.valid {
        command.arg("--valid");
    }
    command.stdin(Stdio::piped());
    Ok(command)
}

/// Reads the output of a side until its figures arrive; prints the output if `shows`.
fn figures<T: serde::de::DeserializeOwned>(side: &mut Process, shows: bool) -> Result<T, String> {
    loop {
        let line = side.line()?;
        if line.starts_with('{') {
            return serde_json::from_str(&line).map_err(|why| format!("{line}: {why}"));
        }
        if shows {
            say(&line)?;
        }
    }
}
