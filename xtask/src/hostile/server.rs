//! The server under attack: `transfix serve`, as its users run it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::Outcome;

/// The sessions: BeginString(8) and VENUE are the same for all.
pub(super) const SESSIONS: [&str; 4] = ["HONEST", "LIAR", "PROBE", "LOCKED"];

/// The process, and where it listens.
pub(super) struct Server {
    child: Child,
    log: PathBuf,
    pub(super) plain: String,
    pub(super) tls: String,
}

/// What the system knows of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Without files that are mapped: stores grow with what they keep.
    pub(super) memory_kib: u64,
    pub(super) descriptors: usize,
    pub(super) threads: u64,
}

impl Server {
    pub(super) fn start(program: &Path, dir: &Path) -> Outcome<Self> {
        certificate(dir)?;
        let mut settings = "[engine]\nfailed_logon_delay_max_ms = 200\n\n[defaults]\n\
            role = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
            logon_timeout_ms = 1000\nlogout_timeout_ms = 1000\n"
            .to_owned();
        settings += &format!("store_dir = \"{}\"\n", dir.join("store").display());
        // Sessions at one address share a listener: the two of them need two.
        for (host, mark, tls) in [("127.0.0.1", "", ""), ("127.0.0.2", "T", TLS)] {
            for name in SESSIONS {
                settings += &format!(
                    "\n[[session]]\ntarget_comp_id = \"{name}{mark}\"\n\
                     address = \"{host}:0\"\n{}{}",
                    tls.replace("DIR", &dir.display().to_string()),
                    if name == "LOCKED" { "logon.expected_password = \"sesame\"\n" } else { "" },
                );
            }
        }
        let (file, log) = (dir.join("venue.toml"), dir.join("venue.log"));
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        fs::write(&file, settings).map_err(failed)?;
        let mut child = Command::new(program)
            .args(["--verbose", "serve", "--quiet"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).map_err(failed)?)
            .spawn()
            .map_err(|error| format!("transfix serve: {error}"))?;
        let stdout = child.stdout.take().ok_or("transfix serve has no output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            // What it says later is read too, so that it never waits for us.
            lines.for_each(|line| drop(sender.send(line)));
        });
        let mut server = Self { child, log, plain: String::new(), tls: String::new() };
        while server.plain.is_empty() || server.tls.is_empty() {
            let line = lines.recv_timeout(Duration::from_secs(20));
            let line = line.map_err(|_| format!("it does not listen: {}", server.last_lines()))?;
            let Some(said) = line.strip_prefix("listening at ") else { continue };
            // Behind an address with TLS stands that it has it.
            let address = said.split(' ').next().unwrap_or_default();
            let place =
                if address.starts_with("127.0.0.2") { &mut server.tls } else { &mut server.plain };
            address.clone_into(place);
        }
        Ok(server)
    }

    /// Whether it runs.
    pub(super) fn lives(&mut self) -> Outcome<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(format!("the server is gone ({status}): {}", self.last_lines()))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn usage(&self) -> Outcome<Usage> {
        let proc = PathBuf::from(format!("/proc/{}", self.child.id()));
        let failed = |error: std::io::Error| format!("{}: {error}", proc.display());
        let status = fs::read_to_string(proc.join("status")).map_err(failed)?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()
        };
        let descriptors = fs::read_dir(proc.join("fd")).map_err(failed)?.count();
        match (number("RssAnon:"), number("Threads:")) {
            (Some(memory_kib), Some(threads)) => Ok(Usage { memory_kib, descriptors, threads }),
            _ => Err("the system does not say what the process uses".to_owned()),
        }
    }

    /// What it has written to its log so far.
    pub(super) fn log(&self) -> String {
        fs::read(&self.log)
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TLS: &str = "tls = { certificate = \"DIR/own.pem\", key = \"DIR/own.key\" }\n";

/// A certificate that its owner has signed.
fn certificate(dir: &Path) -> Outcome<()> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-keyout"])
        .arg(dir.join("own.key"))
        .arg("-out")
        .arg(dir.join("own.pem"))
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("openssl req: {status}")),
        Err(error) => Err(format!("openssl: {error}; it is in Debian's package openssl")),
    }
}
