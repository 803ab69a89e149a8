//! The size of a fleet: memory of gateways and NATS servers, disk for each message, and the
//! messages between the gateways. Small fleets are measured, large ones computed from them.

mod model;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use comfy_table::{Table, presets};
use transfix::clock::monotonic_ns;
use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, FleetSettings, Message, Role,
    SessionId, SessionRef, SessionSettings, Settings,
};
use transfix_store::{Committed, Kind, Record, Store, StoreError};
use transfix_stores::{ConnectOptions, FleetOperator, JetStream, JetStreamStore};

use super::brokers::{Brokers, COUNT, STREAM};
use super::counterparty::nanos;
use model::Model;

/// Numbers of sessions of a measured gateway.
const SESSIONS: [usize; 2] = [1_000, 2_000];
/// Number of counterparties that log on at the same time.
const AT_A_TIME: usize = 100;
/// Numbers of sessions in the stream, for the memory of a NATS server.
const SUBJECTS: [usize; 3] = [1_000, 10_000, 100_000];
/// Length of a record without a message, and of a FIX message, in bytes.
const RECORD: usize = 128;
const MESSAGE: usize = 200;
/// Number of commits whose disk is measured.
const COMMITS: u64 = 5_000;
/// Number of appends that wait for their answers.
const WINDOW: usize = 500;
/// Numbers of gateways of the table, and of sessions that each of them owns.
const GATEWAYS: [u64; 4] = [3, 10, 100, 1_000];
const OWNED: u64 = 1_000;
/// Pause before memory is read.
const REST: Duration = Duration::from_secs(5);
/// Maximum time for all sessions to log on.
const PATIENCE: Duration = Duration::from_secs(60);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Memory of a gateway in bytes, with sessions that are owned by others, and logged on.
struct Gateway {
    standby: [u64; 2],
    logged_on: [u64; 2],
    /// Length of a gateway's status for each session, in bytes.
    status: u64,
}

/// Memory and disk of the largest NATS server, in bytes.
struct Broker {
    memory: [u64; 3],
    disk: [u64; 3],
    of_commit: u64,
    memory_after_commits: u64,
}

/// Measures, computes, and returns the result as text.
pub(super) fn measure(brokers: &Brokers, dir: &Path) -> Result<String, String> {
    // The gateways first, while the stream is small.
    let gateway = gateway(brokers, dir)?;
    let broker = broker(brokers, dir)?;
    let mut said = String::new();
    // Writing to a `String` never fails.
    let _ = writeln!(said, "measured, a gateway with {SESSIONS:?} acceptors:");
    for (name, memory) in [("standby", gateway.standby), ("logged on", gateway.logged_on)] {
        let [one, two] = memory.map(|bytes| bytes / MIB);
        let each = per(memory, SESSIONS) / KIB;
        let _ = writeln!(said, "  {name}: {one} MiB, {two} MiB; {each} KiB for each session");
    }
    let _ = writeln!(said, "  status: {} bytes for each session", gateway.status);
    let _ = writeln!(said, "measured, the largest of {COUNT} NATS servers:");
    for (n, subjects) in SUBJECTS.iter().enumerate() {
        let (memory, disk) = (broker.memory[n] / MIB, broker.disk[n] / MIB);
        let _ = writeln!(said, "  {subjects} sessions: {memory} MiB of memory, {disk} MiB of disk");
    }
    let (of_commit, after) = (broker.of_commit, broker.memory_after_commits / MIB);
    let _ = writeln!(
        said,
        "  {of_commit} bytes of the stream for a commit with a message of {MESSAGE} bytes; {after} \
         MiB of memory after {COMMITS} commits"
    );
    let _ = write!(said, "\n{}", table(&gateway, &broker));
    Ok(said)
}

/// Returns the difference for each unit between two measurements.
fn per(values: [u64; 2], counts: [usize; 2]) -> u64 {
    values[1].saturating_sub(values[0]) / (counts[1] - counts[0]) as u64
}

/// Returns the table of large fleets.
fn table(gateway: &Gateway, broker: &Broker) -> Table {
    let [standby, logged_on] = [gateway.standby, gateway.logged_on].map(|all| per(all, SESSIONS));
    let base = gateway.standby[0].saturating_sub(standby * SESSIONS[0] as u64);
    let of_subject = per([broker.memory[1], broker.memory[2]], [SUBJECTS[1], SUBJECTS[2]]);
    let base_of_broker = broker.memory[0];
    let models = GATEWAYS.map(|gateways| {
        let answer_us = FleetSettings::default().answer.as_micros() as u64;
        Model { gateways, owned: OWNED, answer_us }
    });
    // A name, its quotes and a comma.
    let name_bytes = session_id(0).to_string().len() as u64 + 3;
    let per_second =
        |model: &Model| model.gateways * model.look(false).requests * 2_000_000 / model.answer_us;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(
        ["computed".to_owned()]
            .into_iter()
            .chain(GATEWAYS.map(|gateways| format!("{gateways} gateways"))),
    );
    let mut row = |name: &str, value: &dyn Fn(&Model) -> u64| {
        let values = models.iter().map(|model| value(model).to_string());
        table.add_row([name.to_owned()].into_iter().chain(values));
    };
    row("sessions in the settings of each gateway", &|model| model.sessions());
    row("memory of a gateway, MiB", &|model| {
        let more = logged_on.saturating_sub(standby) * model.owned;
        (base + standby * model.sessions() + more) / MIB
    });
    row("memory of a NATS server, MiB", &|model| {
        (base_of_broker + of_subject * model.sessions()) / MIB
    });
    row("requests between gateways a second", &per_second);
    row("answers to them, MB a second", &|model| {
        per_second(model) * model.owned * name_bytes / 1_000_000
    });
    row("reads at the start of a gateway", &|model| model.look(true).reads);
    row("loss of a gateway: reads", &|model| model.loss(1).reads);
    row("loss of a gateway: requests", &|model| model.loss(1).requests);
    row("loss of a gateway: direct gets", &|model| model.loss(1).direct_gets);
    row("loss of a gateway: appends", &|model| model.loss(1).appends);
    row("loss of a gateway: refused appends", &|model| model.loss(1).refused);
    row("status of a gateway, KiB", &|model| gateway.status * model.sessions() / KIB);
    table
}

/// Returns the resident memory of a process in bytes.
fn memory(process: u32) -> Result<u64, String> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * KIB).ok_or_else(|| format!("{path} has no VmRSS"))
}

/// Returns the length of all files of a folder in bytes.
fn disk(dir: &Path) -> u64 {
    let of_entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    fs::read_dir(dir).into_iter().flatten().flatten().map(of_entry).sum()
}

fn session_id(n: usize) -> SessionId {
    SessionId::new(BeginString::Fix44, "VENUE", &format!("CLIENT{n:07}"))
}

/// A process with one gateway, killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a gateway with acceptors. Returns its process and its address.
fn start(settings: &Path) -> Result<(Process, String), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["demo", "fleet-gateway"]).arg(settings).stdin(Stdio::piped());
    let process = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut process = Process(process);
    let lines = process.0.stdout.take().map(|output| BufReader::new(output).lines());
    let mut lines = lines.into_iter().flatten().map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.strip_prefix("listening at ")?.to_owned()));
    let address = address.ok_or("the gateway has not started")?;
    Ok((process, address))
}

fn gateway(brokers: &Brokers, dir: &Path) -> Result<Gateway, String> {
    let (mut standby, mut logged_on, mut status) = ([0; 2], [0; 2], 0);
    for (n, sessions) in SESSIONS.into_iter().enumerate() {
        println!("a gateway with {sessions} sessions");
        let (process, address) = start(&write_settings(brokers, dir, sessions)?)?;
        super::pause(REST);
        standby[n] = memory(process.0.id())?;
        let clients = log_on(&address, sessions)?;
        super::pause(REST);
        logged_on[n] = memory(process.0.id())?;
        status = status_bytes(brokers)? / sessions as u64;
        clients.into_iter().for_each(|engine| _ = engine.stop(Duration::ZERO));
    }
    Ok(Gateway { standby, logged_on, status })
}

/// Logs on counterparties of this process, some at a time.
fn log_on(address: &str, sessions: usize) -> Result<Vec<Engine>, String> {
    let session = |n: &usize| {
        let SessionId { sender_comp_id: venue, target_comp_id: client, .. } = session_id(*n);
        let id = SessionId::new(BeginString::Fix44, &client, &venue);
        let mut session = SessionSettings::new(Role::Initiator, &id, address);
        session.store.durability = Durability::Memory;
        session
    };
    let (numbers, mut clients): (Vec<_>, _) = ((0..sessions).collect(), Vec::new());
    for some in numbers.chunks(AT_A_TIME) {
        let sessions = some.iter().map(session).collect();
        let settings = Settings { sessions, ..Settings::default() };
        let engine = Engine::start(&settings, |_| Box::new(Silent));
        let engine = engine.map_err(|error| error.to_string())?;
        let until = monotonic_ns() + nanos(PATIENCE);
        while !engine.sessions().all(|session| session.is_logged_on()) {
            if monotonic_ns() > until {
                return Err("not all sessions have logged on".to_owned());
            }
            super::pause(Duration::from_millis(10));
        }
        clients.push(engine);
    }
    Ok(clients)
}

/// An application that sends nothing.
struct Silent;

impl Application for Silent {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

/// Returns the length of the status of the only gateway.
fn status_bytes(brokers: &Brokers) -> Result<u64, String> {
    let operator = FleetOperator::connect(&fleet(brokers)).map_err(|error| error.to_string())?;
    let gateways = operator.gateways().map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&gateways).map_err(|error| error.to_string())?;
    Ok(text.len() as u64)
}

fn fleet(brokers: &Brokers) -> FleetSettings {
    FleetSettings {
        gateway: "operator".to_owned(),
        brokers: brokers.addresses().to_vec(),
        stream: STREAM.to_owned(),
        ..FleetSettings::default()
    }
}

/// Writes the settings file of a gateway with acceptors, and returns its path.
fn write_settings(brokers: &Brokers, dir: &Path, sessions: usize) -> Result<PathBuf, String> {
    let mut text = format!(
        "[fleet]\ngateway = \"g0\"\nbrokers = {:?}\nstream = \"{STREAM}\"\n[defaults]\n\
         role = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
         address = \"127.0.0.1:0\"\n",
        brokers.addresses()
    );
    for n in 0..sessions {
        let client = session_id(n).target_comp_id;
        let _ = write!(text, "[[session]]\ntarget_comp_id = \"{client}\"\n");
    }
    let path = dir.join("sizing.toml");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn broker(brokers: &Brokers, dir: &Path) -> Result<Broker, String> {
    let largest = |value: &dyn Fn(usize) -> Result<u64, String>| {
        (0..COUNT).try_fold(0, |largest: u64, n| Ok::<_, String>(largest.max(value(n)?)))
    };
    let memory_now = || {
        super::pause(REST);
        largest(&|n| memory(brokers.process(n).ok_or("a NATS server is missing")?))
    };
    let disk_now = || largest(&|n| Ok(disk(&dir.join(format!("n{n}")))));
    let messages_now = || {
        let length = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        largest(&|n| Ok(brokers.message_files(n).iter().map(length).sum()))
    };
    // The sessions of the gateways are in the stream already.
    let mut publisher = Publisher::connect(&brokers.addresses()[0])?;
    let (mut memory_of, mut disk_of, mut count) = ([0; 3], [0; 3], SESSIONS[1]);
    for (n, subjects) in SUBJECTS.into_iter().enumerate() {
        println!("{subjects} sessions in the stream");
        if n > 0 {
            publisher.publish(count..subjects)?;
            count = subjects;
        }
        (memory_of[n], disk_of[n]) = (memory_now()?, disk_now()?);
    }
    println!("{COMMITS} commits");
    let before = messages_now()?;
    commit_all(brokers).map_err(|error| error.to_string())?;
    let memory_after_commits = memory_now()?;
    let of_commit = messages_now()?.saturating_sub(before) / COMMITS;
    Ok(Broker { memory: memory_of, disk: disk_of, of_commit, memory_after_commits })
}

/// Commits messages of one session, one after the other.
fn commit_all(brokers: &Brokers) -> Result<(), StoreError> {
    let urls = brokers.addresses().join(",");
    let stream = JetStream::connect(&urls, STREAM, ConnectOptions::new(), COUNT)?;
    let mut store = JetStreamStore::open(&stream, "sizing", 0)?;
    for seq in 1..=COMMITS {
        let bytes = &[b'x'; MESSAGE];
        store.put(0, Record::Outbound { seq, kind: Kind::Application, bytes })?;
        if let Committed::Pending(ticket) = store.commit()? {
            while store.safe()? < ticket {
                std::thread::yield_now();
            }
        }
    }
    Ok(())
}

/// Appends records to many subjects, with many appends under way.
struct Publisher(BufReader<TcpStream>);

impl Publisher {
    fn connect(address: &str) -> Result<Self, String> {
        let connect = || {
            let mut stream = TcpStream::connect(address)?;
            stream
                .write_all(b"CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB answer 1\r\n")?;
            Ok::<_, std::io::Error>(Self(BufReader::new(stream)))
        };
        connect().map_err(|error| format!("{address}: {error}"))
    }

    /// Appends one record for each session, with the headers and the length of a take-over.
    fn publish(&mut self, sessions: std::ops::Range<usize>) -> Result<(), String> {
        let record = "x".repeat(RECORD);
        let headers = format!(
            "NATS/1.0\r\nNats-Expected-Stream: {STREAM}\r\n\
             Nats-Expected-Last-Subject-Sequence: 0\r\n\r\n"
        );
        let (of_headers, all) = (headers.len(), headers.len() + RECORD);
        let sessions: Vec<_> = sessions.collect();
        for window in sessions.chunks(WINDOW) {
            let mut requests = String::new();
            for n in window {
                let subject = format!("{STREAM}.FIX%2E4%2E4%3AVENUE-%3ECLIENT{n:07}");
                let _ = write!(
                    requests,
                    "HPUB {subject} answer {of_headers} {all}\r\n{headers}{record}\r\n"
                );
            }
            let sent = self.0.get_mut().write_all(requests.as_bytes());
            sent.map_err(|error| error.to_string())?;
            self.wait(window.len())?;
        }
        Ok(())
    }

    /// Waits for the answers to appends.
    fn wait(&mut self, count: usize) -> Result<(), String> {
        let (mut answered, mut line) = (0, String::new());
        while answered < count {
            line.clear();
            let length = self.0.read_line(&mut line).map_err(|error| error.to_string())?;
            if length == 0 || line.contains("\"error\"") {
                return Err(format!("an append has failed: {line}"));
            }
            if line.starts_with("PING") {
                self.0.get_mut().write_all(b"PONG\r\n").map_err(|error| error.to_string())?;
            }
            answered += usize::from(line.contains("\"seq\""));
        }
        Ok(())
    }
}
