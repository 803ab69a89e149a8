//! The server under attack: `transfix serve`, as users run it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::Outcome;

/// The counterparties. BeginString(8) and VENUE are the same for all.
pub(super) const SESSIONS: [&str; 5] = ["HONEST", "LIAR", "PROBE", "LOCKED", "HASHED"];
/// The password of all users, and of the session HASHED.
pub(super) const PASSWORD: &str = "correct horse battery";
/// Users of the administration.
const USERS: [&str; 4] = ["anna", "bert", "carl", "dora"];

/// The process and its addresses.
pub(super) struct Server {
    child: Child,
    pub(super) place: Place,
}

/// The addresses of a server.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub(super) plain: String,
    pub(super) tls: String,
    /// Addresses of the administration, over HTTP and over FIX.
    pub(super) admin: String,
    pub(super) fix_admin: String,
    /// Token of an operator.
    pub(super) token: String,
    /// Process id.
    pub(super) process: u32,
    /// Path of the log file.
    pub(super) log: PathBuf,
}

/// Resource usage, as reported by the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Memory without mapped files, because stores grow with their contents.
    pub(super) memory_kib: u64,
    pub(super) descriptors: usize,
    pub(super) threads: u64,
}

impl Server {
    pub(super) fn start(program: &Path, dir: &Path) -> Outcome<Self> {
        certificate(dir)?;
        let (token, hash) = (users(program, dir)?, hash(program)?);
        let mut settings =
            "[admin]\naddress = \"127.0.0.1:0\"\nusers_file = \"DIR/users.toml\"\n\n\
            [admin.fix]\naddress = \"127.0.0.1:0\"\nsender_comp_id = \"VENUE\"\n\n"
                .replace("DIR", &dir.display().to_string());
        settings += "[engine]\nfailed_logon_delay_max_ms = 200\n\n[defaults]\n\
            role = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
            logon_timeout_ms = 1000\nlogout_timeout_ms = 1000\n";
        settings += &format!("store_dir = \"{}\"\n", dir.join("store").display());
        // Sessions at one address share a listener, so plain and TLS need two addresses.
        for (host, mark, tls) in [("127.0.0.1", "", ""), ("127.0.0.2", "T", TLS)] {
            for name in SESSIONS {
                settings += &format!(
                    "\n[[session]]\ntarget_comp_id = \"{name}{mark}\"\n\
                     address = \"{host}:0\"\n{}{}",
                    tls.replace("DIR", &dir.display().to_string()),
                    match name {
                        "LOCKED" => "logon.expected_password = \"sesame\"\n",
                        "HASHED" => &hash,
                        _ => "",
                    },
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
            // The thread keeps reading later output, so the server never waits for its reader.
            lines.for_each(|line| drop(sender.send(line)));
        });
        let place = Place { token, log, process: child.id(), ..Place::default() };
        let mut server = Self { child, place };
        // The last line has the address of the administration over FIX.
        while server.place.fix_admin.is_empty() {
            let line = lines.recv_timeout(Duration::from_secs(20));
            let line = line.map_err(|_| format!("it does not listen: {}", server.last_lines()))?;
            if let Some(address) = line.strip_prefix("administration at http://") {
                address.clone_into(&mut server.place.admin);
            }
            if let Some(address) = line.strip_prefix("administration over FIX at ") {
                address.clone_into(&mut server.place.fix_admin);
            }
            let Some(said) = line.strip_prefix("listening at ") else { continue };
            // The text after an address marks TLS.
            let address = said.split(' ').next().unwrap_or_default();
            let Place { plain, tls, .. } = &mut server.place;
            address.clone_into(if address.starts_with("127.0.0.2") { tls } else { plain });
        }
        Ok(server)
    }

    /// Checks that the server runs.
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
        usage_of(self.place.process)
    }

    /// Returns the server's log so far.
    pub(super) fn log(&self) -> String {
        text_of(&self.place.log)
    }

    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

/// Returns the text of a file that another process writes.
pub(super) fn text_of(file: &Path) -> String {
    let text = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the system's figures for a process.
pub(super) fn usage_of(process: u32) -> Outcome<Usage> {
    let proc = PathBuf::from(format!("/proc/{process}"));
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

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates the file of users. Returns an operator's token.
fn users(program: &Path, dir: &Path) -> Outcome<String> {
    let file = dir.join("users.toml");
    for name in USERS {
        let role = if name == "dora" { "administrator" } else { "operator" };
        let add = ["admin", "user", "add", name, "--role", role, "--file"];
        said(Command::new(program).args(add).arg(&file))?;
    }
    let add = ["admin", "token", "add", "program", "--role", "operator", "--file"];
    Ok(said(Command::new(program).args(add).arg(&file))?.trim().to_owned())
}

/// Returns the settings key with the hash of a session's password.
fn hash(program: &Path) -> Outcome<String> {
    let hash = said(Command::new(program).arg("password"))?;
    let hash = hash.lines().find(|line| line.starts_with("$argon2")).ok_or("no hash")?;
    Ok(format!("logon.expected_password_hash = \"{hash}\"\n"))
}

/// Runs a program that reads the password, and returns its output.
fn said(command: &mut Command) -> Outcome<String> {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that asks for nothing may have ended.
        let _ = writeln!(stdin, "{PASSWORD}");
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

const TLS: &str = "tls = { certificate = \"DIR/own.pem\", key = \"DIR/own.key\" }\n";

/// Creates a self-signed certificate.
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
