//! QuickFIX C++ at both ends of scenario S1, as on the published page. `cargo xtask peers build`
//! builds the program.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::child::Side;
use super::super::contest::{Contestant, Slice};
use super::super::s1::ReportForm;
use super::super::shared::StoreDir;
use super::process::Work;

/// QuickFIX C++ with its file store and TCP_NODELAY at both ends.
pub(super) struct BothEnds {
    name: String,
    program: PathBuf,
    /// `default`: a thread waits in select, as in most programs of users. `polling`: the thread
    /// spins and is pinned like ours, because an unpinned thread could use another core than the
    /// pacing thread.
    mode: &'static str,
    validate: &'static str,
    orders: usize,
    rate: u64,
    report: &'static str,
}

/// Number of unmeasured orders before each slice; needed, because both processes are new.
const WARM_UP: &str = "200";

impl BothEnds {
    /// Returns the configurations with and without validation, and if ours spins, also with
    /// polling.
    pub(super) fn all(dir: &Path, spins: bool, work: &Work, rate: u64) -> Vec<Self> {
        let report = if work.report == ReportForm::Valid { "valid" } else { "short" };
        let orders = work.orders;
        let modes: &[_] = if spins { &["default", "polling"] } else { &["default"] };
        let ways = modes.iter().flat_map(|mode| [(*mode, "yes", "on"), (*mode, "no", "off")]);
        let ways = ways.map(|(mode, validate, on)| {
            let polling = if mode == "polling" { "-polling" } else { "" };
            let name = format!("quickfix-cpp{polling}-validation-{on}");
            Self { name, program: dir.join("qf_latency"), mode, validate, orders, rate, report }
        });
        ways.collect()
    }

    fn side(&self, (role, port): (&'static str, &str), store: &Path) -> Result<Side, String> {
        let ids = if role == "initiator" { ("INCA", "TW") } else { ("TW", "INCA") };
        let own = store.join(role);
        std::fs::create_dir_all(&own).map_err(|e| format!("{}: {e}", own.display()))?;
        let mut command = Command::new(&self.program);
        command
            .args(["--role", role, "--port", port, "--begin-string", "FIX.4.2"])
            .args(["--sender", ids.0, "--target", ids.1, "--validate", self.validate])
            .args(["--mode", self.mode, "--rate", &self.rate.to_string()])
            .args([
                "--count",
                &self.orders.to_string(),
                "--warmup",
                WARM_UP,
                "--report",
                self.report,
            ])
            .arg("--store")
            .arg(own)
            .arg("--dictionary")
            .arg(store.join("FIX42.xml"));
        if role == "initiator" {
            command.arg("--csv").arg(store.join("times.csv"));
        }
        if self.mode == "polling" {
            command.args(["--cpu", if role == "initiator" { "0" } else { "1" }]);
        }
        Side::start("QuickFIX", &mut command)
    }
}

impl Contestant for BothEnds {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_optional(&self) -> bool {
        true
    }

    /// Both processes start anew for each slice.
    fn slice(&mut self, warm_up: bool) -> Result<Slice, String> {
        if warm_up {
            return Ok(Slice::default());
        }
        let store = StoreDir::new()?;
        let port = free_port().map_err(|error| error.to_string())?.to_string();
        write_dictionary(&store.0).map_err(|error| format!("{}: {error}", store.0.display()))?;
        let mut acceptor = self.side(("acceptor", &port), &store.0)?;
        acceptor.first_line()?;
        let mut initiator = self.side(("initiator", &port), &store.0)?;
        // Each process prints its own CPU time before it exits; the acceptor exits at the end of
        // the session.
        let lines = [initiator.line()?, acceptor.line()?];
        let cpu_ns: u64 = lines.iter().map(|line| cpu_ns(line)).sum::<Result<u64, String>>()?;
        let path = store.0.join("times.csv");
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let ns = text.lines().skip(1).map(str::parse).collect::<Result<Vec<u64>, _>>();
        let ns = ns.map_err(|error| format!("{}: {error}", path.display()))?;
        let cpu_ns = cpu_ns * ns.len() as u64;
        Ok(Slice { ns, late_ns: Vec::new(), cpu_ns })
    }
}

fn cpu_ns(line: &str) -> Result<u64, String> {
    let printed: serde_json::Value =
        serde_json::from_str(line).map_err(|error| format!("QuickFIX printed {line}: {error}"))?;
    Ok(printed["cpu_ns_per_message"].as_u64().unwrap_or(0))
}

/// Writes our dictionary of FIX 4.2 to a file, because QuickFIX reads its dictionary from a file.
fn write_dictionary(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (name, text) = transfix_dictionary::standard_text("FIX42")?;
    Ok(std::fs::write(dir.join(format!("{name}.xml")), text)?)
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
