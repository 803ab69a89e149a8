//! `transfix connect`: a test client that takes commands from the keyboard or a script.

mod commands;
mod completion;
mod console;
mod expecting;
mod fault;
mod making;
mod message;
mod placed_order;
mod received;
mod replay;
mod saved;
mod sending;
mod values;
mod vocabulary;

use std::io::IsTerminal;
use std::iter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{CompletionType, ExternalPrinter};
use transfix::{
    Application, BusinessReject, Direction, Disconnect, Engine, Message, Outcome, SessionEvent,
    SessionHandle, SessionNotice, SessionRef, SessionSettings, SessionView, Settings, clock,
};

use crate::events::{connection_failure, forget_connection_failure, take_connection_break};
use crate::foreign;
use crate::input::failed;
use crate::not_started::NotStarted;
use crate::show::{Show, say};
use crate::suits::Runner;
use crate::{administered, events};
use completion::{Help, Situation};
use console::{Console, LineEditor};
use fault::Fault;
use received::Received;
use saved::SavedMessages;
use values::Ids;
use vocabulary::Vocabulary;

/// Run a test client from a settings file, with commands from the keyboard or a script.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix connect crates/cli/examples/client.toml
  > buy 100 EU 30.5
  > cancel 1
  > send D 11=x|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30
  > new NewOrderSingle
  > set Symbol=EU Side=BUY OrderQty=5 OrdType=MARKET
  > send
  > expect ExecutionReport ClOrdID={sent.ClOrdID} ExecType=NEW within 5
  > quit
  transfix connect client.toml --script morning.txt

`help` lists the commands, and `help expect` explains the command `expect`. The Tab key completes
commands, messages, fields and codes. A script has one command in each line, and stops at the first
command that fails; the error names the line and the received messages. `expect` examines only
messages received after the last sent message; `{sent.FIELD}` is a field of that sent message. The
page \"Test client\" of the book describes all commands. The screen shows passwords and the fields
in `log.mask` of the session as stars. The file of `save` contains the real values, and only its
owner may read it. The client ends on `quit`, the end of the input, Ctrl-C or SIGTERM: it logs out
and waits for the answer.
Exit code: 0 logged on, received all messages of the counterparty, and logged out in order, 1
failed, or never logged on, 2 wrong usage or settings that cannot be read. For a script also: 1 if
an expected message was not received, the session ended, or a signal came before the last command; 2
if a command is invalid.")]
pub(crate) struct Args {
    /// Settings file with one initiator session.
    settings: PathBuf,
    /// Don't print the messages.
    #[arg(long)]
    quiet: bool,
    /// Run the commands of this file instead of commands from the keyboard.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// File for the messages of the command `save`.
    #[arg(long, value_name = "FILE", default_value = "messages.txt")]
    messages: PathBuf,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let settings = match Settings::load(&args.settings) {
        Ok(settings) => settings,
        Err(error) => return failed(&error.to_string()),
    };
    if let Some(why) = Runner::Connect.refuses(&args.settings, &settings) {
        return failed(&why);
    }
    match connect(args, &settings, &settings.sessions[0]) {
        Ok(code) => code,
        Err(why) => why.exit("connect"),
    }
}

/// History of the session: its logons and the ends of its connections.
#[derive(Default)]
struct History {
    was_logged_on: bool,
    is_logged_on: bool,
    /// Reason why the last logged-on connection ended.
    last_session: Option<Disconnect>,
    /// Reason why the last connection ended, logged on or not, and the counterparty's text.
    last_end: Option<(Disconnect, String)>,
    /// Index of the destination of the last connection; 0 is the primary.
    last_destination: usize,
    /// First and last missing MsgSeqNum(34) before the counterparty's Logout(5).
    missing: Option<(u64, u64)>,
}

/// Application of the client: prints messages and events, and wakes waiting commands.
struct Client {
    show: Show,
    quiet: bool,
    heard: Received,
    seen: Arc<Mutex<History>>,
}

impl Client {
    fn note(&self, what: impl FnOnce(&mut History)) {
        what(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Application for Client {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        match event {
            SessionEvent::LoggedOn => {
                let to = session.other(session.id()).map(|own| at(&own)).unwrap_or_default();
                self.show.line(&format!("{} logged on{to}", session.id()));
                self.note(|seen| {
                    *seen =
                        History { was_logged_on: true, is_logged_on: true, ..History::default() };
                });
                self.heard.logged_on();
            }
            // The rejected message is printed only with `--quiet`; otherwise the screen already
            // shows the message.
            SessionEvent::Rejected(rejected) if self.quiet => {
                self.show.line(&format!("not taken: {rejected}"));
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.show.line(&format!("{} ended: {end}", session.id()));
            let words = end.to_string();
            // A counterparty that does not answer may not be ready yet, so the failed logon is not
            // a refusal.
            let is_silent =
                matches!(end.reason, Disconnect::LogonUnanswered | Disconnect::LogonTimeout);
            self.heard.ended(&words, !is_silent);
            let broke = take_connection_break();
            let words = match (end.reason, broke) {
                // A counterparty refuses the client's certificate only after the TLS handshake; the
                // TLS error names the reason.
                (Disconnect::LogonUnanswered, Some(error)) => format!("{error}; {words}"),
                _ => words,
            };
            let own = session.other(session.id());
            let destination = own.as_ref().and_then(SessionHandle::destination).unwrap_or_default();
            if let Some(address) = own.as_ref().and_then(|own| own.destinations().get(destination))
            {
                forget_connection_failure(address);
            }
            self.note(|seen| {
                if std::mem::take(&mut seen.is_logged_on) {
                    seen.last_session = Some(end.reason);
                }
                seen.last_end = Some((end.reason, words));
                seen.last_destination = destination;
            });
        }
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], session: &SessionView<'_>) {
        match direction {
            Direction::Inbound => {
                self.heard.add(frame);
                // A Logout(5) after a sequence gap ends the session without consuming its
                // MsgSeqNum(34).
                let (expected, _) = session.next_numbers();
                let missing = received::logout_number(frame).filter(|seq| *seq > expected);
                let missing = missing.map(|seq| (expected, seq - 1));
                self.note(|seen| seen.missing = missing.filter(|_| seen.is_logged_on));
            }
            Direction::Outbound => self.heard.leaves(frame),
        }
        self.show.frame(clock::now().utc, direction, frame);
    }
}

/// Describes the destination in use: its address, its position in the list, and the resolved peer
/// address.
fn at(own: &SessionHandle) -> String {
    let status = own.status();
    let Some(destination) = status.destination else { return String::new() };
    let which = match (own.destination(), own.destinations().len() - 1) {
        (_, 0) | (None, _) => String::new(),
        (Some(0), _) => "primary".to_owned(),
        (Some(n), backups) => format!("backup {n} of {backups}"),
    };
    let peer = status.peer.map(|peer| peer.to_string()).filter(|peer| *peer != destination);
    let more: Vec<_> =
        [Some(which), peer].into_iter().flatten().filter(|t| !t.is_empty()).collect();
    match &more[..] {
        [] => format!(" at {destination}"),
        more => format!(" at {destination} ({})", more.join(", ")),
    }
}

fn connect(
    args: &Args,
    settings: &Settings,
    session: &SessionSettings,
) -> Result<ExitCode, NotStarted> {
    events::open(settings.events.as_ref())?;
    let (begin_string, id) = (session.begin_string, session.id());
    let show = if args.quiet { Show::quiet() } else { Show::new(session, "")? };
    let (orders, next_order) = placed_order::placed(&session.store_path())?;
    // The terminal settings are saved before the line editor changes them.
    let terminal = tcgetattr(std::io::stdin()).ok();
    let words = Arc::new(Vocabulary::new(session)?);
    let kept = SavedMessages::read(&args.messages, &words)?;
    let situation = Arc::<Mutex<Situation>>::default();
    let mut editor = editor(&words, &situation).map_err(|error| error.to_string())?;
    // Without a terminal, another program reads the output, so no prompt is printed.
    let prompt = if std::io::stdin().is_terminal() { "> " } else { "" };
    let sink = if prompt.is_empty() { None } else { printer(&mut editor) };
    let show = show.through(sink);
    let addresses = iter::once(&session.address).chain(&session.failover.addresses);
    let addresses: Vec<_> = addresses.cloned().collect();
    let to = addresses.join(" or ");
    say(&format!(
        "connecting to {to}; the next order has the number {next_order}; `help` lists \
                  the commands"
    ));
    let seen = Arc::default();
    let heard = Received::of(words.index());
    let client = Client { show, quiet: args.quiet, heard: heard.clone(), seen: Arc::clone(&seen) };
    let mut client = Some(client);
    let in_script = Arc::new(AtomicBool::new(args.script.is_some()));
    let ending = Ending { addresses, engine: Arc::default(), seen, in_script };
    let mut place = ending.engine();
    let at_signal = ending.clone();
    // The signal handler runs in its own thread, because the editor may block on input. The handler
    // is installed before a logon becomes visible, and waits until the engine is stored.
    let ended = move || at_signal.at_signal(terminal.as_ref());
    ctrlc::set_handler(ended).map_err(|error| error.to_string())?;
    administered::check(&args.settings, settings)?;
    let engine = Engine::start(settings, |_| match client.take() {
        Some(client) => Box::new(client),
        None => unreachable!("the settings have exactly one session"),
    })?;
    let _administered = administered::start(&args.settings, settings, &engine)?;
    events::rotate_with(&engine.admin());
    let handle = engine.session(&id).ok_or_else(|| "no session".to_owned())?;
    *place = Some(engine);
    drop(place);
    let mut console = Console {
        handle,
        begin_string,
        orders,
        next_order,
        logged_out: false,
        words,
        kept,
        heard,
        situation,
        typed: None,
        ids: Ids::new(u64::try_from(clock::now().utc.0 / 1_000_000).unwrap_or(0)),
        sent: Vec::new(),
        last: Vec::new(),
        has_begun: false,
        depth: 0,
        pause: console::pause(),
    };
    let failed = match &args.script {
        Some(script) => console.script(script).err(),
        None => console.run(&mut editor, prompt).map(|()| None)?,
    };
    Ok(ended_by_itself(&ending, failed))
}

/// Ends the program after the last command or the first failed command of a script.
fn ended_by_itself(ending: &Ending, failed: Option<Fault>) -> ExitCode {
    ending.in_script.store(false, Ordering::Relaxed);
    if let Some(fault) = &failed {
        eprintln!("transfix connect: {}", foreign::lines(&fault.to_string()));
    }
    let code = ending.log_out().unwrap_or_else(|| {
        loop {
            // A signal arrived first, and the thread of the signal handler ends the process.
            std::thread::park();
        }
    });
    failed.map_or(code, |fault| fault.exit_code())
}

/// Creates the line editor with Tab completion.
fn editor(
    words: &Arc<Vocabulary>,
    situation: &Arc<Mutex<Situation>>,
) -> rustyline::Result<LineEditor> {
    let config = rustyline::Config::builder().completion_type(CompletionType::List).build();
    let mut editor = LineEditor::with_config(config)?;
    editor.set_helper(Some(Help { words: Arc::clone(words), situation: Arc::clone(situation) }));
    Ok(editor)
}

/// Returns a function that prints text above the line being typed.
fn printer(editor: &mut LineEditor) -> Option<Box<dyn FnMut(String) + Send>> {
    // A terminal that the editor does not support receives plain output.
    let mut printer = editor.create_external_printer().ok()?;
    Some(Box::new(move |line| _ = printer.print(line)))
}

/// Ends the program at a command or a signal; the earlier of the two takes the engine and stops it.
#[derive(Clone)]
struct Ending {
    /// Addresses of the counterparty, the primary destination first.
    addresses: Vec<String>,
    engine: Arc<Mutex<Option<Engine>>>,
    seen: Arc<Mutex<History>>,
    /// True while the script has commands left to run.
    in_script: Arc<AtomicBool>,
}

/// Maximum time for the counterparty to answer the Logout(5).
const LOGOUT_TIME: Duration = Duration::from_secs(10);

impl Ending {
    /// Locks the engine, which is `Some` from its start to its stop.
    fn engine(&self) -> MutexGuard<'_, Option<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs out, and prints an error if the session did not end in order. Returns `None` if a
    /// logout is already in progress.
    fn log_out(&self) -> Option<ExitCode> {
        let engine = self.engine().take()?;
        let outcomes = engine.stop(LOGOUT_TIME);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // `connect` runs exactly one session.
        let outcome = outcomes.first().map_or(&Outcome::NotConnected, |session| &session.outcome);
        let is_in_order = seen.last_session == Some(Disconnect::LoggedOut)
            && matches!(outcome, Outcome::NotConnected | Outcome::Ended(Disconnect::LoggedOut));
        let why = match (outcome, seen.missing) {
            _ if !seen.was_logged_on => self.never_logged_on(&seen),
            (_, None) if is_in_order => return Some(ExitCode::SUCCESS),
            (_, Some((first, last))) if is_in_order => format!(
                "logged out, but messages of the counterparty with MsgSeqNum(34) {first} to \
                 {last} are missing; log on again to receive them"
            ),
            (Outcome::NotConnected | Outcome::Ended(_), _) if seen.last_end.is_some() => {
                format!(
                    "the session did not end with an orderly logout: {}",
                    self.newest_reason(&seen)
                )
            }
            (outcome, _) => format!("the session did not end with an orderly logout: {outcome}"),
        };
        eprintln!("transfix connect: {}", foreign::lines(&why.to_string()));
        Some(ExitCode::FAILURE)
    }

    /// Returns the reason of the newest failed connection attempt or, without one, the end of the
    /// last connection.
    fn newest_reason(&self, seen: &History) -> String {
        let failed =
            |address: &String| Some(format!("{address}: {}", connection_failure(address)?));
        let since = self.addresses.iter().find_map(failed);
        let ended = seen.last_end.as_ref().map(|(_, words)| words.clone());
        since.or(ended).unwrap_or_default()
    }

    /// Returns the reason for each destination why the logon failed.
    fn never_logged_on(&self, seen: &History) -> String {
        let reasons = self.addresses.iter().enumerate().map(|(n, address)| {
            let last = seen.last_end.as_ref().filter(|_| seen.last_destination == n);
            format!("{address}: {}", Self::not_logged_on(address, last))
        });
        format!("never logged on to {}", reasons.collect::<Vec<_>>().join("; nor to "))
    }

    fn not_logged_on(address: &str, last: Option<&(Disconnect, String)>) -> String {
        match (connection_failure(address), last) {
            // A recorded connection failure is newer than the end of the last connection.
            (Some(failure), _) => failure,
            // The program itself ended the connection when it stopped.
            (None, Some((Disconnect::Operator | Disconnect::LoggedOut, _))) => {
                "the counterparty did not answer the Logon(A)".to_owned()
            }
            (None, Some((_, words))) => words.clone(),
            (None, None) => "not connected yet".to_owned(),
        }
    }

    /// Logs out after a signal, restores the terminal and ends the process.
    fn at_signal(&self, terminal: Option<&Termios>) {
        let is_cut_off = self.in_script.load(Ordering::Relaxed);
        let Some(code) = self.log_out() else { return };
        if is_cut_off {
            eprintln!("transfix connect: a signal ended the script before its last command");
        }
        if let Some(terminal) = terminal {
            // The editor has put the terminal into raw mode, so the saved settings are restored.
            // Errors are ignored, because the terminal may be closed.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, terminal);
        }
        events::finish();
        let is_good = code == ExitCode::SUCCESS && !is_cut_off;
        std::process::exit(if is_good { 0 } else { 1 });
    }
}
