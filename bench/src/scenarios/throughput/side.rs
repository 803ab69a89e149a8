//! Starts one side of the comparison: the process under test, and the client process that sends to
//! it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::super::child::Side as Process;
use super::super::remote::{self, Started, Tested};
use super::super::shared::StoreDir;
use super::client::{Load, Task};

/// The process under test, which answers the orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Bare sockets.
    Floor,
    /// This engine with file stores.
    TransfixFile,
    /// This engine with memory stores.
    TransfixMemory,
    /// QuickFIX C++ with file stores.
    QuickfixFile,
    /// QuickFIX C++ with memory stores.
    QuickfixMemory,
}

impl Kind {
    /// Returns true if the side runs another engine.
    pub(super) const fn is_peer(self) -> bool {
        matches!(self, Self::QuickfixFile | Self::QuickfixMemory)
    }

    /// Returns the name of the side in the table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor: bare sockets",
            Self::TransfixFile => "transfix, file store",
            Self::TransfixMemory => "transfix, memory store",
            Self::QuickfixFile => "QuickFIX C++, file store",
            Self::QuickfixMemory => "QuickFIX C++, memory store",
        }
    }
}

/// The process under test and its client.
pub(super) struct Side {
    pub(super) kind: Kind,
    client: Process,
    venue: Tested,
}

/// The measurements of one slice.
pub(super) struct Slice {
    pub(super) load: Load,
    /// CPU time of all threads of the process under test, in nanoseconds.
    pub(super) cpu_ns: u64,
}

impl Side {
    /// Starts the process under test, locally or on `host`, and its client, which logs on all
    /// sessions.
    pub(super) fn start(
        (kind, sessions): (Kind, usize),
        host: Option<&str>,
        store: &Path,
        peers: Option<&Path>,
    ) -> Result<Self, String> {
        let part = Part { kind, sessions };
        let command = || venue(part, "127.0.0.1:0", store, peers);
        let mut venue = Tested::start(kind.name(), host, &part, command)?;
        let address = venue.line()?;
        let mut command = super::command("client", sessions, &address)?;
        let mut client = Process::start("the sending side", command.stdin(Stdio::piped()))?;
        client.line()?;
        Ok(Self { kind, client, venue })
    }

    /// Measures one slice with the client's task.
    pub(super) fn slice(&mut self, task: Task) -> Result<Slice, String> {
        let before = self.venue.cpu_ns()?;
        self.client.say(&serde_json::to_string(&task).map_err(|error| error.to_string())?)?;
        let load = self.client.line()?;
        let cpu_ns = self.venue.cpu_ns()?.saturating_sub(before);
        let load = serde_json::from_str(&load).map_err(|error| format!("{load}: {error}"))?;
        Ok(Slice { load, cpu_ns })
    }
}

/// The process to start on another host: the kind of side, and the number of sessions.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Part {
    kind: Kind,
    sessions: usize,
}

/// Starts floors and engines on request of an initiator on another host.
pub(super) fn serve(address: &str) -> Result<(), String> {
    remote::serve("throughput", address, |part: Part, address| {
        if part.kind.is_peer() || !SESSIONS.contains(&part.sessions) {
            return Err("it serves the floor and Transfix, up to 100,000 sessions".to_owned());
        }
        super::open_files(part.sessions)?;
        let store = StoreDir::new()?;
        let mut command = venue(part, &address.to_string(), &store.0, None)?;
        let side = Process::start(part.kind.name(), &mut command)?;
        Ok(Started::new(side, Some(store)))
    })
}

/// Allowed numbers of sessions in a request from another host.
const SESSIONS: RangeInclusive<usize> = 1..=100_000;

fn venue(
    Part { kind, sessions }: Part,
    address: &str,
    store: &Path,
    peers: Option<&Path>,
) -> Result<Command, String> {
    let mut command = match kind {
        Kind::Floor => super::command("floor", sessions, address)?,
        Kind::TransfixFile => super::command("file", sessions, address)?,
        Kind::TransfixMemory => super::command("memory", sessions, address)?,
        Kind::QuickfixFile | Kind::QuickfixMemory => {
            let program = peers.ok_or("QuickFIX needs its directory")?.join("qf_throughput");
            if !program.exists() {
                let shown = program.display();
                return Err(format!("{shown} is not there; `cargo xtask peers build` builds it"));
            }
            Command::new(program)
        }
    };
    if kind.is_peer() {
        let (name, text) =
            transfix_dictionary::standard_text("FIX42").map_err(|error| error.to_string())?;
        let dictionary = store.join(format!("{name}.xml"));
        std::fs::write(&dictionary, text)
            .map_err(|error| format!("{}: {error}", dictionary.display()))?;
        command.args(["--sessions", &sessions.to_string()]);
        command.arg("--dictionary").arg(dictionary).arg("--store");
        if kind == Kind::QuickfixFile {
            command.arg(store)
        } else {
            command.arg("memory")
        };
    } else {
        command.arg("--store").arg(store);
    }
    command.stdin(Stdio::piped());
    Ok(command)
}
