//! `cargo xtask journald`: checks that a real journald stores a venue's events with all their
//! fields.
//!
//! The test starts its own journald in a systemd namespace, with separate sockets and files, which
//! are all removed at the end.
#![allow(clippy::disallowed_methods, reason = "what a real process does takes real time")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::geteuid;
use serde_json::Value;

use crate::Outcome;
use crate::served::{Dir, PATIENCE, Served, Trader, program, until};

const USAGE: &str = "usage: cargo xtask journald

Starts a journald beside that of the machine, and a venue that tells it its events. Needs root and
systemd-journald, which need not be the machine's first process (Debian: apt-get install systemd).";

/// The possible paths of journald, for Debian and other distributions.
const PROGRAMS: [&str; 2] = ["/usr/lib/systemd/systemd-journald", "/lib/systemd/systemd-journald"];

/// The event text that the venue logs about a stranger.
const NO_MESSAGE: &str = "closed: the first bytes are no FIX message";

/// A running journald. Dropping this value ends the process.
struct Journald {
    program: PathBuf,
    name: String,
    child: Option<Child>,
}

impl Journald {
    fn start() -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("a journald is started by root alone".to_owned());
        }
        let program = PROGRAMS.into_iter().map(PathBuf::from).find(|path| path.exists());
        let program =
            program.ok_or("there is no systemd-journald here (Debian: apt-get install systemd)")?;
        let name = format!("transfix-{}", std::process::id());
        let mut journald = Self { program, name, child: None };
        journald.run()?;
        Ok(journald)
    }

    fn run(&mut self) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", self.program.display());
        let child = Command::new(&self.program)
            .arg(&self.name)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| wrong(&error))?;
        let child = self.child.insert(child);
        let socket = PathBuf::from(format!("/run/systemd/journal.{}/socket", self.name));
        let started = until(|| {
            if let Ok(Some(status)) = child.try_wait() {
                let mut said = String::new();
                let _ = child.stderr.take().map(|mut err| err.read_to_string(&mut said));
                return Ok(Err(format!("it has ended with {status}: {said}")));
            }
            // The socket file may be left from an earlier run, so only a successful connection
            // shows that journald is running.
            let to = std::os::unix::net::UnixDatagram::unbound();
            let is_heard = to.and_then(|to| to.connect(&socket)).is_ok();
            if is_heard { Ok(Ok(())) } else { Err("it makes no socket".to_owned()) }
        });
        started.and_then(|ended| ended).map_err(|why| wrong(&why))
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn socket(&self) -> String {
        format!("/run/systemd/journal.{}/socket", self.name)
    }

    /// Returns the stored events of the venue in chronological order.
    fn entries(&self) -> Result<Vec<Value>, String> {
        let output = Command::new("journalctl")
            .args(["--namespace", &self.name, "--identifier", "transfix", "--no-pager"])
            .args(["--all", "--output", "json"])
            .output()
            .map_err(|error| format!("journalctl: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("journalctl: {why}"));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let entries = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        entries.map_err(|error| format!("journalctl: {error}"))
    }

    /// Waits until an event with this code and these fields is stored, and returns the event.
    fn has(&self, code: u64, fields: &[(&str, &str)]) -> Result<Value, String> {
        let code = code.to_string();
        until(|| {
            let all = self.entries()?;
            let fits = |entry: &&Value| {
                entry["EVENT_CODE"] == *code
                    && fields.iter().all(|(name, value)| entry[*name] == **value)
            };
            let found = all.iter().rev().find(fits).cloned();
            found.ok_or_else(|| {
                let of_code: Vec<_> =
                    all.iter().filter(|entry| entry["EVENT_CODE"] == *code).collect();
                format!("journald has no event {code} with {fields:?}, but {of_code:?}")
            })
        })
    }
}

impl Drop for Journald {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(format!("/run/systemd/journal.{}", self.name));
        // The files of journald are in a directory whose name contains the machine ID.
        for journals in ["/run/log/journal", "/var/log/journal"] {
            for dir in fs::read_dir(journals).into_iter().flatten().flatten() {
                if dir.file_name().to_string_lossy().ends_with(&format!(".{}", self.name)) {
                    let _ = fs::remove_dir_all(dir.path());
                }
            }
        }
    }
}

/// Runs the command `cargo xtask journald`.
///
/// # Errors
/// If journald cannot run here, or lacks an event.
pub fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err(USAGE.to_owned());
    }
    // The program is built before journald starts, because an idle journald ends after half a
    // minute.
    let program = program()?;
    let mut journald = Journald::start()?;
    let dir = Dir::new("journald")?;
    let sessions = format!(
        "address = \"127.0.0.1:0\"\n\n[events]\njournald = \"{}\"\n\n[[session]]\n\
         target_comp_id = \"DESK\"\n",
        journald.socket()
    );
    let mut served = Served::start(&program, &dir, &sessions)?;
    let pid = served.process().to_string();
    stranger(&served.listens[0])?;
    let who = [
        ("PRIORITY", "4"),
        ("PEER", "127.0.0.1"),
        ("SYSLOG_IDENTIFIER", "transfix"),
        ("SYSLOG_PID", &pid),
        ("_PID", &pid),
        ("_TRANSPORT", "journal"),
    ];
    let event = journald.has(2111, &who)?;
    let words = event["MESSAGE"].as_str().unwrap_or_default();
    if !words.starts_with(&format!("{NO_MESSAGE} ")) || words.contains('\n') {
        return Err(format!("MESSAGE is not the event in one line: {event}"));
    }
    let session = [("PRIORITY", "6"), ("SESSION", "FIX.4.4:VENUE->DESK")];
    let client = Trader::start(&program, &dir, &served.listens[0])?;
    journald.has(2001, &session)?;
    drop(client);
    journald.has(2002, &[("SESSION", "FIX.4.4:VENUE->DESK")])?;
    many_lines(&journald, &program, &dir, &served)?;
    // After a restart of journald, the venue reconnects with the next event or the one after it.
    journald.end();
    journald.run()?;
    let before = journald.entries()?.len();
    until(|| {
        stranger(&served.listens[0])?;
        let count = journald.entries()?.len();
        if count > before { Ok(()) } else { Err("a new journald hears nothing".to_owned()) }
    })?;
    served.is_sound()?;
    let count = journald.entries()?.len();
    Ok(format!(
        "journald has {count} events of the venue, with code, priority, session and fields; one \
         that was started anew hears the next"
    ))
}

/// Checks that journald stores a value with several lines unchanged.
fn many_lines(
    journald: &Journald,
    program: &Path,
    dir: &Dir,
    served: &Served,
) -> Result<(), String> {
    let settings = dir.path().join("venue.toml");
    let text = fs::read_to_string(&settings).map_err(|error| error.to_string())?;
    let more = format!("{text}\n[[session]]\ntarget_comp_id = \"ONE\"\n\n[[session]]\n")
        + "target_comp_id = \"TWO\"\n";
    fs::write(&settings, more).map_err(|error| error.to_string())?;
    let token = dir.write("token", &served.tokens[2])?;
    let reload = Command::new(program)
        .args(["admin", "reload", "--url", &format!("http://{}", served.admin), "--token-file"])
        .arg(token)
        .output()
        .map_err(|error| error.to_string())?;
    if !reload.status.success() {
        return Err(format!("reload: {}", String::from_utf8_lossy(&reload.stderr)));
    }
    let result = "FIX.4.4:VENUE->ONE: added\nFIX.4.4:VENUE->TWO: added";
    let event = journald.has(2704, &[("WHAT", "reload"), ("RESULT", result)])?;
    let words = event["MESSAGE"].as_str().unwrap_or_default();
    match words.contains("ONE: added\\nFIX.4.4") {
        true => Ok(()),
        false => Err(format!("MESSAGE is not in one line: {event}")),
    }
}

/// Sends bytes that are not a FIX message, and waits until the venue closes the connection.
fn stranger(address: &str) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{address}: {error}");
    let mut stream = TcpStream::connect(address).map_err(wrong)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
    stream.write_all(b"8=FIX.4.4\x019=5\x0135=A\x0149=DESK\x01").map_err(wrong)?;
    stream.write_all(&[b'x'; 300]).map_err(wrong)?;
    // The result is ignored, because a reset also ends the connection.
    let _ = stream.read(&mut [0; 100]);
    Ok(())
}
