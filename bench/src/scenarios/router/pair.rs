//! Starts a router and the process that sends to it, locally or on two hosts.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::super::child::Side as Process;
use super::super::remote::{self, Started, Tested};
use super::client::{Load, Task};
use super::figures::Run;

/// Allowed numbers of sessions on one side of the router.
pub(super) const SESSIONS: RangeInclusive<usize> = 1..=100_000;

/// The two modes of the published page: the name and the configuration file of each.
pub(super) const MODES: [(&str, &str); 2] = [
    ("mode-a", include_str!("../../../configurations/router/mode-a.toml")),
    ("mode-b", include_str!("../../../configurations/router/mode-b.toml")),
];

/// Returns the command that starts this program as `part`; `address` is the address to listen on or
/// to connect to.
fn command(part: &str, sessions: [usize; 2], address: &str) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["router", "--part", part, "--address", address, "--sessions"]);
    command.args(sessions.map(|n| n.to_string()));
    Ok(command)
}

/// The router to start: an engine with a configuration, or the floor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Routing {
    /// The name of the router's configuration; `None` for the floor.
    pub(super) config: Option<String>,
    pub(super) sessions: [usize; 2],
}

impl Routing {
    fn command(&self, address: &str) -> Result<Command, String> {
        let part = if self.config.is_some() { "router" } else { "floor" };
        let mut command = command(part, self.sessions, address)?;
        command.args(self.config.iter().flat_map(|config| ["--config", config]));
        Ok(command)
    }
}

/// Starts routers and floors on request of an initiator on another host.
pub(super) fn serve(address: &str, config: Option<&Path>) -> Result<(), String> {
    remote::serve("router", address, |mut routing: Routing, address| {
        if routing.sessions.iter().any(|n| !SESSIONS.contains(n)) {
            return Err("so many sessions are too many or none".to_owned());
        }
        // For a user's configuration, the acceptor uses its own file, because the initiator's path
        // is not valid here.
        if let Some(name) = &mut routing.config
            && !MODES.iter().any(|(mode, _)| mode == name)
        {
            let own = config.map(|path| path.display().to_string());
            *name = own.ok_or("the acceptor needs the same --config")?;
        }
        let mut command = routing.command(&address.to_string())?;
        let side = Process::start("the router", command.stdin(Stdio::piped()))?;
        Ok(Started::new(side, None))
    })
}

/// A router or the floor, with the process that sends to it.
pub(super) struct Pair {
    /// The sending process; declared first, so that it ends before the router.
    client: Process,
    router: Tested,
}

impl Pair {
    /// Starts the router and the sending process. `host` is the address of the acceptor on another
    /// host.
    pub(super) fn start(name: &str, host: Option<&str>, routing: &Routing) -> Result<Self, String> {
        let mut router = Tested::start(name, host, routing, || routing.command("127.0.0.1:0"))?;
        let address = router.first_line()?;
        let mut client = command("client", routing.sessions, &address)?;
        let mut client = Process::start("the sending side", client.stdin(Stdio::piped()))?;
        client.first_line()?;
        let pair = Self { router, client };
        pair.pause()?;
        Ok(pair)
    }

    /// Resumes both processes, so that they can exit.
    fn go_on(&self) -> Result<(), String> {
        self.client.go_on();
        self.router.go_on()
    }

    fn pause(&self) -> Result<(), String> {
        let paused = self.router.pause();
        self.client.pause();
        paused
    }

    /// Measures one slice, and reads the router's latency points.
    pub(super) fn slice(&mut self, task: Task) -> Result<Run, String> {
        self.go_on()?;
        self.router.say(&task.receivers.to_string())?;
        self.router.line()?;
        let before = self.router.cpu_ns()?;
        self.client.say(&serde_json::to_string(&task).map_err(|error| error.to_string())?)?;
        let line = self.client.line()?;
        let cpu_ns = self.router.cpu_ns()?.saturating_sub(before);
        let load: Load = serde_json::from_str(&line).map_err(|e| format!("{line}: {e}"))?;
        self.router.say("points")?;
        let line = self.router.line()?;
        let points = serde_json::from_str(&line).map_err(|e| format!("{line}: {e}"))?;
        self.pause()?;
        Ok(Run { load, points, cpu_ns })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // If the connection to the other host is lost, the processes there have ended too.
        let _ = self.go_on();
    }
}
