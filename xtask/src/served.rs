//! A running venue with its administration, for checks over HTTP.
#![allow(clippy::disallowed_methods, reason = "what a real process does takes real time")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::root;

type Outcome<T> = Result<T, String>;

/// Time limit for an action or a change that a check waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Polling interval.
const PACE: Duration = Duration::from_millis(100);

/// The roles of the administration's users. The test has a token for each role.
pub(crate) const ROLES: [&str; 3] = ["viewer", "operator", "administrator"];

/// Features of the packaged program that are off by default, because their crates take long to
/// build and few users need them.
pub(crate) const PACKAGED: &str = "transfix-cli/packaged";
/// Features of the program that is measured. Without the client of NATS, so that this build shares
/// its crates with the instruction counts.
const MEASURED: &str = "transfix-cli/parquet";

/// Returns cargo's target directory.
pub(crate) fn target() -> PathBuf {
    // Cargo is called in the project root, so a relative target directory starts there.
    let target = std::env::var_os("CARGO_TARGET_DIR");
    root().join(target.unwrap_or_else(|| "target".into()))
}

/// Builds `transfix` in the form that tests use. Returns its path.
pub(crate) fn program() -> Outcome<PathBuf> {
    built(&[], "debug/transfix")
}

/// Builds `transfix` with `cargo build --release`, which takes less time than the packaged form.
/// Returns its path.
pub(crate) fn release_program() -> Outcome<PathBuf> {
    built(&["--release"], "release/transfix")
}

/// Builds `transfix` with `cargo build --release` and fleets. Returns its path.
pub(crate) fn fleet_program() -> Outcome<PathBuf> {
    built(&["--release", "--features", "transfix-cli/fleet"], "release/transfix")
}

/// Builds `transfix` with full optimization, and `transfix-bench` in the same directory, for
/// measurements. Returns the path of `transfix`.
pub(crate) fn dist_program() -> Outcome<PathBuf> {
    let flags = ["--profile", "dist", "--package", "transfix-bench", "--features", MEASURED];
    built(&flags, "dist/transfix")
}

fn built(flags: &[&str], place: &str) -> Outcome<PathBuf> {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--bins", "--package", "transfix-cli"])
        .args(flags)
        .current_dir(root())
        .status();
    match built {
        Ok(status) if status.success() => Ok(target().join(place)),
        Ok(status) => Err(format!("transfix-cli does not build ({status})")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// A directory that is removed when this value is dropped.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Outcome<Self> {
        let dir = std::env::temp_dir().join(format!("transfix-{name}-{}", std::process::id()));
        // An earlier process with the same ID may have left this directory behind.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file. Returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Outcome<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running `transfix serve`. Dropping this value kills the process.
pub(crate) struct Served {
    child: Child,
    log: PathBuf,
    /// Listening addresses of the sessions, in the order of the settings.
    pub(crate) listens: Vec<String>,
    /// Address of the administration, as `host:port`.
    pub(crate) admin: String,
    /// Tokens of the users, in the order of [`ROLES`].
    pub(crate) tokens: Vec<String>,
}

impl Served {
    /// Starts a venue with these session settings. The directory's path replaces `DIR` in the text.
    pub(crate) fn start(program: &Path, dir: &Dir, sessions: &str) -> Outcome<Self> {
        let users = dir.path().join("users.toml");
        let mut tokens = Vec::new();
        for role in ROLES {
            let made = Command::new(program)
                .args(["admin", "token", "add", &format!("{role}-program"), "--role", role])
                .arg("--file")
                .arg(&users)
                .output()
                .map_err(|error| format!("{}: {error}", program.display()))?;
            let token = String::from_utf8_lossy(&made.stdout).trim().to_owned();
            if !made.status.success() || token.is_empty() {
                let why = String::from_utf8_lossy(&made.stderr).into_owned();
                return Err(format!("transfix admin token add: {why}"));
            }
            tokens.push(token);
        }
        let head = "[engine]\naudit_file = \"DIR/audit.jsonl\"\n\n[admin]\n\
                    address = \"127.0.0.1:0\"\nusers_file = \"DIR/users.toml\"\n\n[defaults]\n\
                    role = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
                    sender_comp_id = \"VENUE\"\nstore_dir = \"DIR/store\"\n";
        let settings = format!("{head}{sessions}");
        let settings = settings.replace("DIR", &dir.path().display().to_string());
        let (settings, log) = (dir.write("venue.toml", &settings)?, dir.write("venue.log", "")?);
        let err = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut child = Command::new(program)
            .args(["serve", "--quiet"])
            .arg(&settings)
            .stdout(Stdio::piped())
            .stderr(err)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let stdout = child.stdout.take().ok_or("transfix serve has no output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            // This thread reads all later output too, so the server never blocks on a full pipe.
            lines.for_each(|line| drop(sender.send(line)));
        });
        let (listens, admin) = (Vec::new(), String::new());
        let mut served = Self { child, log, listens, admin, tokens };
        while served.admin.is_empty() {
            let line = lines.recv_timeout(PATIENCE);
            let line = line.map_err(|_| format!("it does not start:\n{}", served.log()))?;
            if let Some(said) = line.strip_prefix("listening at ") {
                let address = said.split(' ').next().unwrap_or_default();
                served.listens.push(address.to_owned());
            } else if let Some(url) = line.strip_prefix("administration at http://") {
                url.clone_into(&mut served.admin);
            }
        }
        Ok(served)
    }

    /// Sends a GET request as a viewer, and returns the response body.
    pub(crate) fn get(&self, path: &str) -> Outcome<String> {
        match get(&self.admin, path, &self.tokens[0])? {
            (200, body) => Ok(body),
            (status, body) => Err(format!("{path}: {status}: {body}")),
        }
    }

    /// Checks that the venue still runs and that none of its threads has panicked.
    pub(crate) fn is_sound(&mut self) -> Outcome<()> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("the venue is gone ({status}):\n{}", self.log()));
        }
        let log = self.log();
        match log.lines().find(|line| line.contains("panicked")) {
            Some(line) => Err(format!("the venue has panicked: {line}")),
            None => Ok(()),
        }
    }

    /// Returns the process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the venue's log so far.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A running `transfix connect`, which trades as the counterparty DESK. Dropping this value kills
/// the process.
pub(crate) struct Trader {
    child: Child,
}

impl Trader {
    /// Starts `transfix connect` and sends a hundred orders.
    pub(crate) fn start(program: &Path, dir: &Dir, address: &str) -> Outcome<Self> {
        let settings = format!(
            "[[session]]\nrole = \"initiator\"\naddress = \"{address}\"\n\
             begin_string = \"FIX.4.4\"\nsender_comp_id = \"DESK\"\n\
             target_comp_id = \"VENUE\"\nheart_bt_int_s = 1\nreconnect_interval_ms = 200\n\
             store_dir = \"{}\"\n",
            dir.path().join("desk").display()
        );
        let settings = dir.write("desk.toml", &settings)?;
        let log = File::create(dir.path().join("desk.log")).map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .args(["connect", "--quiet"])
            .arg(&settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut trader = Self { child };
        trader.say("wait\nburst 100")?;
        Ok(trader)
    }

    /// Sends commands to the client, as typed at the keyboard.
    pub(crate) fn say(&mut self, commands: &str) -> Outcome<()> {
        let stdin = self.child.stdin.as_mut().ok_or("transfix connect has no input")?;
        let said = stdin.write_all(format!("{commands}\n").as_bytes());
        said.map_err(|error| format!("transfix connect: {error}"))
    }
}

impl Drop for Trader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a GET request for a path. Returns the status and the body of the response.
pub(crate) fn get(address: &str, path: &str, token: &str) -> Outcome<(u16, String)> {
    let failed = |error: std::io::Error| format!("{address}{path}: {error}");
    let mut socket = TcpStream::connect(address).map_err(failed)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    // With HTTP/1.0 the response is not chunked, and the connection ends after it.
    let mut request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n");
    if !token.is_empty() {
        request += &format!("Authorization: Bearer {token}\r\n");
    }
    socket.write_all(format!("{request}\r\n").as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let answer = text.split_once("\r\n\r\n");
    let (head, body) = answer.ok_or_else(|| format!("{address}{path}: no answer"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| format!("{address}{path}: no status"))?, body.to_owned()))
}

/// Percent-encodes a text for the query part of a URL.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                encoded.push(char::from(byte));
            }
            // Writing to a String never fails.
            _ => _ = write!(encoded, "%{byte:02X}"),
        }
        encoded
    })
}

/// Repeats `what` until it succeeds; fails after `PATIENCE`.
///
/// # Errors
/// Returns the last error after [`PATIENCE`].
pub(crate) fn until<T>(mut what: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match what() {
            Ok(found) => return Ok(found),
            Err(why) if Instant::now() > end => return Err(why),
            Err(_) => thread::sleep(PACE),
        }
    }
}
