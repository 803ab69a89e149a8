//! QuickFIX C++ under the same scenario: its port is built by `cargo xtask peers build`.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use transfix::Mode;

use super::child::Side;
use super::report::Figures;
use super::s1::Configuration;

/// One way of running QuickFIX C++, with its file store.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// `default`: its own thread waits in select, as its users run it. `polling`: it spins.
    mode: &'static str,
    validate: &'static str,
}

const DEFAULT: [Way; 2] = [
    Way { name: "quickfix-cpp-validation-on", mode: "default", validate: "yes" },
    Way { name: "quickfix-cpp-validation-off", mode: "default", validate: "no" },
];
const POLLING: [Way; 2] = [
    Way { name: "quickfix-cpp-polling-validation-on", mode: "polling", validate: "yes" },
    Way { name: "quickfix-cpp-polling-validation-off", mode: "polling", validate: "no" },
];

/// Runs QuickFIX C++ with and without validation, TCP_NODELAY on at both ends; where ours spins,
/// also spinning, and then pinned alike. Unpinned, its thread need not share a core with the one
/// that paces.
pub(crate) fn run_all(
    dir: &Path,
    config: Configuration,
    load: (usize, u64),
    peers: &mut BTreeMap<String, Figures>,
) -> Result<(), String> {
    let program = dir.join("qf_latency");
    if !program.exists() {
        let shown = program.display();
        return Err(format!("{shown} is not there; build it with `cargo xtask peers build`"));
    }
    let polling = if config.mode == Mode::Spin { &POLLING[..] } else { &[] };
    for way in DEFAULT.iter().chain(polling) {
        peers.insert(way.name.to_owned(), run(&program, *way, load)?);
    }
    Ok(())
}

fn run(program: &Path, way: Way, load: (usize, u64)) -> Result<Figures, String> {
    let port = free_port().map_err(|error| error.to_string())?.to_string();
    let store = std::env::temp_dir().join(format!("transfix-peer-{}", std::process::id()));
    write_dictionary(&store).map_err(|error| format!("{}: {error}", store.display()))?;
    let mut acceptor = side(program, way, ("acceptor", &port), load, &store.join("a"))?;
    acceptor.line()?;
    let mut initiator = side(program, way, ("initiator", &port), load, &store.join("i"))?;
    let mut figures = figures(&initiator.line()?)?;
    // The acceptor ends with the session and prints its own CPU time.
    let of_acceptor: serde_json::Value =
        serde_json::from_str(&acceptor.line()?).map_err(|e| e.to_string())?;
    figures.cpu_ns_per_message += of_acceptor["cpu_ns_per_message"].as_u64().unwrap_or(0);
    drop((acceptor, initiator));
    // Left behind, it lies in the directory for temporary files.
    let _ = std::fs::remove_dir_all(&store);
    Ok(figures)
}

fn figures(line: &str) -> Result<Figures, String> {
    serde_json::from_str(line).map_err(|error| format!("QuickFIX printed {line}: {error}"))
}

/// QuickFIX reads its dictionary from a file; it gets ours.
fn write_dictionary(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (name, text) = transfix::dictionary::standard_text("FIX42")?;
    std::fs::create_dir_all(dir)?;
    Ok(std::fs::write(dir.join(format!("{name}.xml")), text)?)
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn side(
    program: &Path,
    way: Way,
    (role, port): (&'static str, &str),
    (messages, rate): (usize, u64),
    store: &Path,
) -> Result<Side, String> {
    let ids = if role == "initiator" { ("INCA", "TW") } else { ("TW", "INCA") };
    std::fs::create_dir_all(store).map_err(|e| format!("{}: {e}", store.display()))?;
    let mut command = Command::new(program);
    command
        .args(["--role", role, "--port", port, "--begin-string", "FIX.4.2"])
        .args(["--sender", ids.0, "--target", ids.1, "--validate", way.validate])
        .args(["--mode", way.mode])
        .args(["--rate", &rate.to_string(), "--count", &messages.to_string()])
        .arg("--store")
        .arg(store)
        .arg("--dictionary")
        .arg(store.with_file_name("FIX42.xml"));
    if way.mode == "polling" {
        command.args(["--cpu", if role == "initiator" { "0" } else { "1" }]);
    }
    Side::start("QuickFIX", &mut command)
}
