//! The server under attack: a `transfix serve` process with real settings.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::Outcome;

/// The CompIDs of the counterparties. BeginString(8) and the venue's CompID are the same for all
/// sessions.
pub(super) const SESSIONS: [&str; 5] = ["HONEST", "LIAR", "PROBE", "LOCKED", "HASHED"];
/// The password of all admin users and of the session HASHED.
pub(super) const PASSWORD: &str = "correct horse battery";
/// The names of the users of the admin interface.
const USERS: [&str; 4] = ["anna", "bert", "carl", "dora"];

/// The server's process and its addresses.
pub(super) struct Server {
    child: Child,
    pub(super) place: Place,
}

/// The addresses of a server, with an operator's token and the log file.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub(super) plain: String,
    pub(super) tls: String,
    /// Addresses of the administration: `admin` over HTTP, `fix_admin` over FIX.
    pub(super) admin: String,
    pub(super) fix_admin: String,
    /// The token of an operator, for the admin interface.
    pub(super) token: String,
    /// Process id.
    pub(super) process: u32,
    /// The path of the server's log file.
    pub(super) log: PathBuf,
}

/// The resource usage of a process, as the operating system reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// The memory in KiB, without mapped files. The stores map files, which grow with their
    /// contents.
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
        // The sessions at one address share a listener, so plain TCP and TLS need separate
        // addresses.
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
            // The thread reads all later output, so that the server never waits for a reader.
            lines.for_each(|line| drop(sender.send(line)));
        });
        let place = Place { token, log, process: child.id(), ..Place::default() };
        let mut server = Self { child, place };
        // The last line of the startup output contains the FIX address of the admin interface.
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
            // Further text after the address indicates TLS.
            let address = said.split(' ').next().unwrap_or_default();
            let Place { plain, tls, .. } = &mut server.place;
            address.clone_into(if address.starts_with("127.0.0.2") { tls } else { plain });
        }
        Ok(server)
    }

    /// Checks that the server process is still running.
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

    /// Returns the text that the server has logged so far.
    pub(super) fn log(&self) -> String {
        text_of(&self.place.log)
    }

    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

/// Returns the text of a file to which another process may be writing.
pub(super) fn text_of(file: &Path) -> String {
    let text = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the resource usage of a process.
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

/// Creates the file with the admin users. Returns the token of an operator.
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

/// Returns the line of the settings file with the hash of a session's password.
fn hash(program: &Path) -> Outcome<String> {
    let hash = said(Command::new(program).arg("password"))?;
    let hash = hash.lines().find(|line| line.starts_with("$argon2")).ok_or("no hash")?;
    Ok(format!("logon.expected_password_hash = \"{hash}\"\n"))
}

/// Runs a program that reads the password from its standard input. Returns its output.
fn said(command: &mut Command) -> Outcome<String> {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // The result is ignored, because a program that does not ask for the password may have
        // ended.
        let _ = writeln!(stdin, "{PASSWORD}");
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

const TLS: &str = "tls = { certificate = \"DIR/own.pem\", key = \"DIR/own.key\" }\n";

/// Creates a self-signed certificate for the server's TLS port.
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
