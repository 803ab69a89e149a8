//! `transfix peer`: a counterparty for tests. It reads commands as lines from standard input, and
//! reports events as JSON.
//!
//! bench/peers/README.md describes the options, commands and events.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Action, ApplVerId, Application, BeginString, Body, BusinessReject, Decimal, Direction,
    Durability, Engine, Message, Mode, Offline, OperateError, Role, SendError, Sent, SessionEvent,
    SessionHandle, SessionId, SessionNotice, SessionRef, SessionSettings, SessionView, Settings,
    msg_type, tag,
};
use transfix_codec::{CheckSumPolicy, FieldIndex};

/// A counterparty for tests; see bench/peers/README.md.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  printf 'send 3\\nlogout\\nquit\\n' | transfix peer --role initiator --port 9880
Exit code: 0 quit, 1 failed, 2 wrong usage.")]
pub(crate) struct Args {
    #[arg(long, default_value = "acceptor", value_parser = ["acceptor", "initiator"])]
    role: String,
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    #[arg(long, required_unless_present = "settings")]
    port: Option<u16>,
    #[arg(long, default_value = "FIX.4.4", value_parser = begin_string)]
    begin_string: BeginString,
    #[arg(long, default_value_t = 9)]
    appl_ver: u8,
    #[arg(long, default_value = "VENUE")]
    sender: String,
    #[arg(long, default_value = "CLIENT")]
    target: String,
    /// Accepted without effect, for compatibility with other test counterparties: the standard
    /// dictionaries are built in.
    #[arg(long)]
    dictionary: Option<PathBuf>,
    #[arg(long, default_value = "memory")]
    store: PathBuf,
    #[arg(long, default_value = "yes", value_parser = ["yes", "no"])]
    validate: String,
    #[arg(long, value_parser = ["yes", "no"])]
    answer: Option<String>,
    #[arg(long, default_value_t = 30)]
    heartbeat: u32,
    #[arg(long)]
    log: Option<PathBuf>,
    /// A settings file with one session, instead of all options for the session.
    #[arg(long)]
    settings: Option<PathBuf>,
}

fn begin_string(text: &str) -> Result<BeginString, String> {
    BeginString::parse(text.as_bytes()).ok_or_else(|| format!("{text} is no BeginString(8)"))
}

/// Writes an event as one line of JSON, and flushes standard output.
fn emit(event: serde_json::Value) {
    let mut out = std::io::stdout().lock();
    // A write error is ignored, because a reader that exits also closes standard input, which ends
    // the program.
    let _ = writeln!(out, "{event}").and_then(|()| out.flush());
}

fn emit_message(event: &str, frame: &[u8]) {
    let shown: String = frame.iter().map(|&b| if b == 1 { '|' } else { char::from(b) }).collect();
    emit(serde_json::json!({ "event": event, "msg": shown }));
}

/// Application of the test counterparty: reports messages, and answers orders.
struct Peer {
    answers: bool,
    answer_changes: Receiver<bool>,
    events: Sender<()>,
    begin_string: BeginString,
    logged_on: bool,
    ids: crate::venue::book::Ids,
    index: FieldIndex,
}

impl Application for Peer {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        emit_message("app", message.bytes());
        self.answers = self.answer_changes.try_iter().last().unwrap_or(self.answers);
        if message.msg_type() == msg_type::NEW_ORDER_SINGLE && self.answers {
            let (now, begin_string) = (session.now().utc, self.begin_string);
            let order = crate::venue::book::Order::reported(message, self.ids.next())?;
            let exec_id = self.ids.next();
            let report = (&order, crate::venue::book::Event::New, &*exec_id);
            let sent = session.send(msg_type::EXECUTION_REPORT, |body| {
                crate::venue::execution_report(body, begin_string, now, report);
            });
            sent?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.logged_on = true;
            emit(serde_json::json!({ "event": "logon" }));
            let _ = self.events.send(());
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(_) = notice {
            if std::mem::take(&mut self.logged_on) {
                emit(serde_json::json!({ "event": "logout" }));
            }
            let _ = self.events.send(());
        }
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], _: &SessionView<'_>) {
        if direction == Direction::Inbound {
            return emit_message("in", frame);
        }
        if let Ok(message) = Message::parse(frame, &mut self.index, CheckSumPolicy::Ignore) {
            // A resent message is reported too, because its first transmission may have been stored
            // without a connection.
            if message.msg_type().is_application() {
                emit_message("sent", frame);
            }
        }
        emit_message("out", frame);
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    if let Some(path) = &args.log {
        match std::fs::File::create(path) {
            Ok(file) => tracing_subscriber::fmt().with_writer(std::sync::Mutex::new(file)).init(),
            Err(error) => {
                eprintln!("transfix peer: {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
    }
    match play(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix peer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn settings(args: &Args) -> SessionSettings {
    let role = if args.role == "initiator" { Role::Initiator } else { Role::Acceptor };
    let id = SessionId::new(args.begin_string, &args.sender, &args.target);
    let address = format!("{}:{}", args.host, args.port.unwrap_or(0));
    let mut session = SessionSettings::new(role, &id, &address);
    if args.begin_string == BeginString::Fixt11 {
        session.protocol.default_appl_ver_id = Some(ApplVerId(args.appl_ver));
    }
    session.protocol.heart_bt_int = Duration::from_secs(args.heartbeat.into());
    session.validation.validate = args.validate == "yes";
    session.threads.mode = Mode::Dedicated;
    session.queue.offline = Offline::Store;
    if args.store.as_os_str() == "memory" {
        session.store.durability = Durability::Memory;
    } else {
        session.store.store_dir.clone_from(&args.store);
    }
    session
}

const fn name_of(role: Role) -> &'static str {
    match role {
        Role::Acceptor => "acceptor",
        Role::Initiator => "initiator",
    }
}

/// A session, and the channels of the commands that control it.
struct CommandedSession {
    handle: SessionHandle,
    begin_string: BeginString,
    prefix: char,
    orders: u64,
    answer: Sender<bool>,
    events: Receiver<()>,
}

fn play(args: &Args) -> Result<(), String> {
    let all = match &args.settings {
        Some(path) => Settings::load(path).map_err(|error| error.to_string())?,
        None => Settings::of(settings(args)),
    };
    let [settings] = &all.sessions[..] else { return Err("--settings: one session".to_owned()) };
    let (role, begin_string, id) = (settings.role, settings.begin_string, settings.id());
    let (answer, answer_changes) = channel();
    let (sender, events) = channel();
    let by_role = if role == Role::Acceptor { "yes" } else { "no" };
    let mut peer = Some(Peer {
        answers: args.answer.as_deref().unwrap_or(by_role) == "yes",
        answer_changes,
        events: sender,
        begin_string,
        logged_on: false,
        ids: crate::venue::book::Ids::new(transfix::clock::now().utc, 0),
        index: FieldIndex::default(),
    });
    emit(serde_json::json!({ "event": "starting" }));
    let engine = Engine::start(&all, |_| match peer.take() {
        Some(peer) => Box::new(peer),
        None => unreachable!("there is one session"),
    })
    .map_err(|error| error.to_string())?;
    let port = engine.listening().first().map(std::net::SocketAddr::port).or(args.port);
    emit(serde_json::json!({ "event": "ready", "role": name_of(role), "port": port }));
    let handle = engine.session(&id).ok_or("no session")?;
    let prefix = if role == Role::Acceptor { 'A' } else { 'I' };
    let mut commander =
        CommandedSession { handle, begin_string, prefix, orders: 0, answer, events };
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        if line.trim() == "quit" {
            break;
        }
        match commander.command(line.trim()) {
            Ok(()) => emit(serde_json::json!({ "event": "done", "command": line })),
            Err(text) => {
                emit(serde_json::json!({ "event": "error", "command": line, "text": text }));
            }
        }
    }
    // The result is ignored, because the session may not be connected.
    let _ = commander.handle.operate(&Action::Disconnect {});
    Ok(())
}

impl CommandedSession {
    fn command(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        let handle = &self.handle;
        let do_all = |actions: &[Action]| {
            let done = actions.iter().try_for_each(|action| handle.operate(action));
            // A disconnect command succeeds even if the connection has already ended.
            match (done, actions.last()) {
                (Err(OperateError::NotConnected), Some(Action::Disconnect {})) => Ok(()),
                (done, _) => done.map_err(|error| error.to_string()),
            }
        };
        match words[..] {
            ["send", n] => self.send(number(n)?),
            ["logout"] => do_all(&[Action::LogOut { text: String::new() }]),
            ["logon"] => do_all(&[Action::LogOn {}]),
            ["cut"] => do_all(&[Action::Disconnect {}]),
            ["resend", begin, end] => {
                do_all(&[Action::ResendRequest { begin: number(begin)?, end: number(end)? }])
            }
            ["test-request", id] => do_all(&[Action::TestRequest { id: id.to_owned() }]),
            ["sequence-reset", n] => do_all(&[Action::SequenceReset { new_seq_no: number(n)? }]),
            ["reset"] => do_all(&[Action::ResetAtNextLogon {}, Action::Disconnect {}]),
            ["next-out", n] => {
                do_all(&[Action::SetNumbers { next_in: None, next_out: Some(number(n)?) }])
            }
            ["next-in", n] => {
                do_all(&[Action::SetNumbers { next_in: Some(number(n)?), next_out: None }])
            }
            ["answer", yes] => {
                let _ = self.answer.send(yes == "yes");
                Ok(())
            }
            ["state"] => {
                // The call waits until the session has finished its current work, so that the
                // sequence numbers are current.
                drop(handle.store_failure());
                let (next_in, next_out) = handle.next_numbers();
                let logged_on = handle.is_logged_on();
                emit(serde_json::json!({
                    "event": "state", "next_out": next_out, "next_in": next_in,
                    "logged_on": logged_on,
                }));
                Ok(())
            }
            _ => Err("no such command".to_owned()),
        }
    }

    fn send(&mut self, n: u64) -> Result<(), String> {
        for _ in 0..n {
            self.orders += 1;
            let id = format!("{}{}", self.prefix, self.orders);
            let begin_string = self.begin_string;
            loop {
                match self
                    .handle
                    .send(msg_type::NEW_ORDER_SINGLE, |body| order(body, begin_string, &id))
                {
                    Ok(Sent::Stored(seq)) => self.show_stored(seq),
                    Ok(_) => {}
                    // A Logon(A) is in progress, or the send queue is full. The send is repeated
                    // after the next event or one millisecond.
                    Err(SendError::NotLoggedOn | SendError::WouldBlock { .. }) => {
                        let _ = self.events.recv_timeout(Duration::from_millis(1));
                        continue;
                    }
                    Err(error) => return Err(error.to_string()),
                }
                break;
            }
        }
        Ok(())
    }

    /// Reports a message that was stored without a connection, because such a message does not pass
    /// `on_wire`.
    fn show_stored(&self, seq: u64) {
        if let Ok(Some(frame)) = self.handle.sent_message(seq) {
            emit_message("sent", &frame);
        }
    }
}

fn order(body: &mut Body<'_>, begin_string: BeginString, id: &str) {
    body.str(tag::CL_ORD_ID, id);
    if begin_string < BeginString::Fix44 {
        body.char(tag::HANDL_INST, b'1');
    }
    body.str(tag::SYMBOL, "EU").char(tag::SIDE, b'1');
    body.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
    body.uint(tag::ORDER_QTY, 100)
        .char(tag::ORD_TYPE, b'2')
        .decimal(tag::PRICE, Decimal::new(305, 1));
}
