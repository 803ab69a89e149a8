//! Starts and measures the two processes of a run: the acceptor answers, the initiator sends and
//! measures.

use std::process::{Command, Stdio};

use super::super::child::Side as Process;
use super::super::contest::{Contestant, Slice};
use super::super::report::Kind;
use super::ours::Times;
use super::process::Task;

/// The acceptor and the initiator of one contestant.
pub(super) struct Pair {
    name: String,
    kind: Kind,
    /// The initiator; declared first, so that it logs out before the acceptor ends.
    asker: Process,
    /// The acceptor; `None` if it runs on another host.
    acceptor: Option<Process>,
    task: Task,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.both().for_each(Process::go_on);
    }
}

impl Pair {
    /// Starts the asking side, and suspends both processes until the first slice. `acceptor` is the
    /// running answering side; `None` if it runs on another host.
    pub(super) fn start(
        (name, kind): (&str, Kind),
        acceptor: Option<Process>,
        asker: &mut Command,
        task: Task,
    ) -> Result<Self, String> {
        let mut asker = Process::start(name, asker.stdin(Stdio::piped()))?;
        if matches!(kind, Kind::Acceptor | Kind::PeerAcceptor) {
            // Only the common client prints a line when its session is logged on.
            asker.first_line()?;
        }
        let pair = Self { name: name.to_owned(), kind, asker, acceptor, task };
        pair.both().for_each(Process::pause);
        Ok(pair)
    }

    fn both(&self) -> impl Iterator<Item = &Process> {
        self.acceptor.iter().chain([&self.asker])
    }

    /// Returns the CPU time of the acceptor in nanoseconds.
    fn cpu_ns(&self) -> u64 {
        self.acceptor.as_ref().map_or(0, Process::cpu_ns)
    }

    fn measure(&mut self, task: Task) -> Result<Slice, String> {
        let before = self.cpu_ns();
        self.asker.say(&serde_json::to_string(&task).map_err(|error| error.to_string())?)?;
        let line = self.asker.line()?;
        let cpu_ns = self.cpu_ns().saturating_sub(before);
        let times: Times =
            serde_json::from_str(&line).map_err(|error| format!("{error} in {line}"))?;
        // The CPU time of the common client is not counted, because the client spins in all cases.
        let is_client = matches!(self.kind, Kind::Acceptor | Kind::PeerAcceptor);
        let of_asker = if is_client { 0 } else { times.cpu_ns };
        Ok(Slice { ns: times.ns, late_ns: times.late_ns, cpu_ns: cpu_ns + of_asker })
    }
}

impl Contestant for Pair {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_optional(&self) -> bool {
        matches!(self.kind, Kind::Peer | Kind::PeerAcceptor)
    }

    fn slice(&mut self, warm_up: bool) -> Result<Slice, String> {
        // The processes run only in their own slice, because a spinning process would disturb other
        // contestants.
        self.both().for_each(Process::go_on);
        let Task { orders, warm_up: before } = self.task;
        let first = Task { orders: orders.min(FIRST_MAX), warm_up: before };
        let slice = self.measure(if warm_up { first } else { Task { orders, warm_up: 0 } });
        self.both().for_each(Process::pause);
        slice
    }
}

/// Maximum number of orders in the warm-up round.
const FIRST_MAX: usize = 200;
