//! Tests the claims of the manifest: every claimed combination of an acceptor is started and
//! tested.
//!
//! **Invariant:** a false claim fails the test; every wait has a deadline; no child process
//! outlives its case.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::super::message::Message;
use super::super::process::now as instant;
use super::super::{Outcome, root, say};
use super::session::{Session, now};

/// Time limit for an acceptor to listen, and to end. A Java virtual machine needs several seconds
/// on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of orders that are sent one after another; as many are then sent all at once.
const ORDERS: usize = 50;

/// The number of sessions in the test `serves_many`.
const SESSIONS: usize = 300;

/// Header and trailer fields that may differ in a message that the acceptor echoes.
const OWN: [u32; 8] = [8, 9, 10, 34, 35, 49, 52, 56];

/// A combination of features that the manifest claims for an acceptor.
struct Case {
    store: String,
    validate: bool,
    answer: String,
    mode: String,
    /// True if the acceptor's store keeps messages for resends.
    resends: bool,
    folder: PathBuf,
}

/// Tests the combinations whose description contains `only`. Files of the runs are written to
/// `folder`.
pub(super) fn prove(manifest: &Value, folder: &Path, only: &str) -> Outcome<()> {
    let (mut proved, mut failed) = (0, Vec::new());
    for engine in manifest.as_array().ok_or("the manifest is no array")? {
        let name = format!("{} {}", text(&engine["engine"]), text(&engine["version"]));
        let name = name.trim_end();
        if let Some(why) = engine["missing"].as_str() {
            if name.contains(only) {
                say(&format!("{name}: missing: {why}"));
            }
            continue;
        }
        let command = strings(&engine["command"])?;
        let lines = cases(engine, folder)?.into_iter().map(Some).chain([None]);
        for case in lines {
            let shown =
                case.as_ref().map_or("wrong options, --cpu, many sessions".to_owned(), Case::shown);
            let line = format!("{name}: {shown}");
            if !line.contains(only) {
                continue;
            }
            let outcome = match &case {
                Some(case) => case.run(&command),
                None => refuses(&command).and_then(|()| serves_many(&command, folder)),
            };
            proved += 1;
            match outcome {
                Ok(found) => say(&format!("{line}: ok{found}")),
                Err(error) => {
                    say(&format!("{line}: FAILED\n  {error}"));
                    failed.push(line);
                }
            }
        }
    }
    match failed.len() {
        0 if proved == 0 => Err(format!("no acceptor's line contains {only:?}")),
        0 => Ok(()),
        n => Err(format!("{n} of {proved} failed: {}", failed.join("; "))),
    }
}

fn cases(engine: &Value, folder: &Path) -> Outcome<Vec<Case>> {
    let mut cases = Vec::new();
    for store in strings(&engine["stores"])? {
        for validate in engine["validation"].as_array().into_iter().flatten() {
            for answer in strings(&engine["answers"])? {
                for mode in strings(&engine["modes"])? {
                    cases.push(Case {
                        resends: strings(&engine["resends"])?.contains(&store),
                        store: store.clone(),
                        validate: validate.as_bool().ok_or("validation is not a bool")?,
                        answer: answer.clone(),
                        folder: folder.join(format!("acceptor-{}", cases.len())),
                        mode,
                    });
                }
            }
        }
    }
    if cases.is_empty() { Err("it claims nothing".to_owned()) } else { Ok(cases) }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Outcome<Vec<String>> {
    let list = value.as_array().map(|all| all.iter().map(|one| text(one).to_owned()).collect());
    list.ok_or_else(|| format!("the manifest has {value} instead of a list"))
}

impl Case {
    fn shown(&self) -> String {
        let validate = if self.validate { "yes" } else { "no" };
        format!("store {}, validate {validate}, {}, {}", self.store, self.answer, self.mode)
    }

    /// Runs the case. Returns a text to be shown after `ok`.
    fn run(&self, command: &[String]) -> Outcome<String> {
        fresh(&self.folder)?;
        let store = self.folder.join("store");
        let store =
            if self.store == "file" { store.display().to_string() } else { "memory".into() };
        let dictionary = root().join("dictionaries/FIX42.xml").display().to_string();
        let validate = if self.validate { "yes" } else { "no" };
        let options = ["--sessions", "2", "--store", &store, "--validate", validate]
            .into_iter()
            .chain(["--dictionary", &dictionary, "--answer", &self.answer, "--mode", &self.mode]);
        let options: Vec<String> = options.map(str::to_owned).collect();
        let acceptor = Running::start(command, &options, &self.folder)?;
        let median = self.talk(&acceptor.address).map_err(|error| acceptor.failure(&error))?;
        acceptor.end()?;
        self.stored()?;
        Ok(format!(", median of {ORDERS} round trips {} µs", median.as_micros()))
    }

    fn talk(&self, address: &str) -> Outcome<Duration> {
        let mut session = Session::log_on(address, "C1")?;
        let mut other = Session::log_on(address, "C0")?;
        let mut took = Vec::new();
        for n in 0..ORDERS {
            let begin = instant();
            self.ask(&mut session, &[format!("A{n}")])?;
            took.push(begin.elapsed());
        }
        let ids: Vec<String> = (0..ORDERS).map(|n| format!("B{n}")).collect();
        self.ask(&mut session, &ids)?;
        self.ask(&mut other, &["C0".to_owned()])?;
        for (session, id) in [(&mut session, "one"), (&mut other, "two")] {
            session.send(&[("1", format!("112={id}|"))])?;
            let heartbeat = session.receive()?;
            if !heartbeat.is(35, "0") || !heartbeat.is(112, id) {
                return Err(format!("the TestRequest(1) was answered by {heartbeat}"));
            }
        }
        self.ask_wrongly(&mut session)?;
        if self.resends {
            ask_again(&mut session)?;
        }
        took.sort_unstable();
        Ok(took[ORDERS / 2])
    }

    /// Sends all orders at once, and checks the answer to each order.
    fn ask(&self, session: &mut Session, ids: &[String]) -> Outcome<()> {
        let bodies: Vec<String> = ids.iter().map(|id| order(id, '0')).collect();
        let orders: Vec<_> = bodies.iter().map(|body| ("D", body.clone())).collect();
        session.send(&orders)?;
        for (id, body) in ids.iter().zip(&bodies) {
            let answer = session.receive()?;
            self.check(&answer, id, body)
                .map_err(|error| format!("{error} in {answer}, the answer of {body}"))?;
        }
        Ok(())
    }

    fn check(&self, answer: &Message, id: &str, body: &str) -> Outcome<()> {
        if self.answer == "echo" {
            let sent = Message::parse(body).ok_or("no fields")?;
            let same = answer.sorted_without(&OWN) == sent.sorted_without(&[]);
            return if same && answer.is(35, "D") { Ok(()) } else { Err("another body".into()) };
        }
        check_report(answer, id)
    }

    /// Sends a TimeInForce(59) value that FIX 4.2 does not define. The acceptor must reject it with
    /// validation, and answer it without validation.
    fn ask_wrongly(&self, session: &mut Session) -> Outcome<()> {
        let body = order("wrong", 'Z');
        session.send(&[("D", body.clone())])?;
        let answer = session.receive()?;
        if !self.validate {
            return self
                .check(&answer, "wrong", &body)
                .map_err(|error| format!("without validation, {error} in {answer}"));
        }
        let refers = answer.is(45, &session.last_num_out().to_string());
        if refers && (answer.is(35, "3") || answer.is(35, "j")) {
            return Ok(());
        }
        Err(format!("with validation, TimeInForce(59) = Z was answered by {answer}"))
    }

    /// Checks that a file store keeps the messages in its folder. Without a file store, the folder
    /// must contain no messages.
    fn stored(&self) -> Outcome<()> {
        let last = format!("\x0111=B{}\x01", ORDERS - 1);
        let found = holds(&self.folder, last.as_bytes())?;
        match self.store.as_str() {
            "file" if !found => Err("no file of the store holds the last answer".to_owned()),
            "memory" if found => Err("the last answer lies in a file".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Requests a resend of the first two answers after the Logon(A), and checks that they are resent
/// unchanged.
fn ask_again(session: &mut Session) -> Outcome<()> {
    session.send(&[("2", "7=2|16=3|".to_owned())])?;
    for (seq, id) in [(2, "A0"), (3, "A1")] {
        let again = session.receive_numbered(seq)?;
        if !again.is_poss_dup() || !again.is(11, id) {
            return Err(format!("instead of the answer of {id} came {again}"));
        }
    }
    Ok(())
}

/// Checks the ExecutionReport(8) for an order that [`order`] returned.
fn check_report(answer: &Message, id: &str) -> Outcome<()> {
    // The report must have ExecTransType(20) New, ExecType(150) New and OrdStatus(39) New.
    for (tag, value) in
        [(35, "8"), (11, id), (55, "EU"), (54, "1"), (20, "0"), (150, "0"), (39, "0")]
    {
        if !answer.is(tag, value) {
            return Err(format!("{tag} is not {value}"));
        }
    }
    // Price(44), OrderQty(38), LeavesQty(151), CumQty(14) and AvgPx(6) are compared as numbers,
    // because each engine formats zeros differently.
    for (tag, value) in [(44, 30.0), (38, 5.0), (151, 5.0), (14, 0.0), (6, 0.0)] {
        let found = answer.value(tag).and_then(|text| text.parse().ok());
        if found != Some(value) {
            return Err(format!("{tag} is not {value}"));
        }
    }
    // The acceptor chooses ExecID(17), OrderID(37) and TransactTime(60), so only their presence is
    // checked.
    for tag in [17, 37, 60] {
        if answer.value(tag).is_none_or(str::is_empty) {
            return Err(format!("no {tag}"));
        }
    }
    Ok(())
}

fn order(id: &str, time_in_force: char) -> String {
    format!("11={id}|21=1|55=EU|54=1|60={}|40=2|38=5|59={time_in_force}|44=30|", now())
}

fn fresh(folder: &Path) -> Outcome<()> {
    let failed = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)
}

/// Returns true if a file in the folder or its subfolders contains these bytes.
fn holds(folder: &Path, wanted: &[u8]) -> Outcome<bool> {
    let failed = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let found = if path.is_dir() {
            holds(&path, wanted)?
        } else {
            let bytes = fs::read(&path).map_err(failed)?;
            bytes.windows(wanted.len()).any(|part| part == wanted)
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks that the acceptor exits with code 2 and a message if an option is unknown or a value
/// invalid.
fn refuses(command: &[String]) -> Outcome<()> {
    for wrong in [["--colour", "red"], ["--answer", "maybe"], ["--sessions", "many"]] {
        let output = started(command)
            .args(wrong)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{command:?}: {error}"))?;
        if output.status.code() != Some(2) || output.stderr.is_empty() {
            return Err(format!("{wrong:?} ended it with {}", output.status));
        }
    }
    Ok(())
}

/// Checks that the acceptor serves many sessions, and that `--cpu 0` pins each of its threads to
/// that CPU.
fn serves_many(command: &[String], folder: &Path) -> Outcome<String> {
    let folder = folder.join("acceptor-many");
    fresh(&folder)?;
    let sessions = SESSIONS.to_string();
    let options = ["--cpu", "0", "--validate", "no", "--sessions", &sessions].map(str::to_owned);
    let acceptor = Running::start(command, &options, &folder)?;
    let outcome = log_on_many(&acceptor.address).and_then(|()| acceptor.is_pinned());
    outcome.map_err(|error| acceptor.failure(&error))?;
    acceptor.end()?;
    Ok(String::new())
}

fn log_on_many(address: &str) -> Outcome<()> {
    let mut sessions = Vec::new();
    for n in 0..SESSIONS {
        sessions.push(Session::log_on(address, &format!("C{n}"))?);
    }
    let body = order("many", '0');
    for session in &mut sessions {
        session.send(&[("D", body.clone())])?;
    }
    for session in &mut sessions {
        check_report(&session.receive()?, "many")?;
    }
    Ok(())
}

/// A running acceptor that listens.
struct Running {
    child: Child,
    lines: Receiver<String>,
    address: String,
    errors: PathBuf,
}

impl Running {
    fn start(command: &[String], options: &[String], folder: &Path) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("cannot start {command:?}: {error}");
        let errors = folder.join("errors");
        let mut child = started(command)
            .args(options)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (sender, lines) = mpsc::channel();
        // This thread ends when the process ends and thereby closes its output.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut acceptor = Self { child, lines, address: String::new(), errors };
        match acceptor.lines.recv_timeout(PATIENCE) {
            Ok(line) if line.starts_with("127.0.0.1:") => acceptor.address = line,
            Ok(line) => return Err(acceptor.failure(&format!("printed {line}"))),
            Err(_) => return Err(acceptor.failure("printed no address")),
        }
        Ok(acceptor)
    }

    fn is_pinned(&self) -> Outcome<()> {
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in fs::read_dir(&tasks).map_err(|error| format!("{tasks}: {error}"))?.flatten() {
            // A thread that ends before its status is read is skipped.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            if !status.lines().any(|line| line == "Cpus_allowed_list:\t0") {
                return Err("a thread is not pinned".to_owned());
            }
        }
        Ok(())
    }

    /// Closes the acceptor's standard input, and waits for exit code 0.
    fn end(mut self) -> Outcome<()> {
        drop(self.child.stdin.take());
        let deadline = instant() + PATIENCE;
        // This loop ends when the process has ended, because its output is then closed.
        while self.lines.recv_timeout(deadline.saturating_duration_since(instant())).is_ok() {}
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(self.failure(&format!("ended with {status}"))),
            Ok(None) if instant() < deadline => match self.child.wait() {
                Ok(status) if status.success() => Ok(()),
                outcome => Err(self.failure(&format!("ended with {outcome:?}"))),
            },
            _ => Err(self.failure("does not end")),
        }
    }

    /// Returns the failure together with the acceptor's standard error output.
    fn failure(&self, what: &str) -> String {
        let said = fs::read_to_string(&self.errors).unwrap_or_default();
        let tail: Vec<&str> = said.lines().rev().take(12).collect();
        tail.iter().rev().fold(what.to_owned(), |all, line| all + "\n  " + line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // `kill` fails only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn started(command: &[String]) -> Command {
    let mut all = command.iter();
    let mut started = Command::new(all.next().map_or("", String::as_str));
    started.args(all);
    started
}
