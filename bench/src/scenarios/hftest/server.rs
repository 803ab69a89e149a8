//! The server: an acceptor in a thread of its own, which answers orders until a key or a signal
//! stops the program.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix::{
    Action, Application, BeginString, BusinessReject, Disconnect, Durability, Engine, Message,
    Mode, Role, SendError, SessionEvent, SessionHandle, SessionId, SessionNotice, SessionRef,
    SessionSettings, SessionView, Settings,
};

use super::figures::{EXPLAINED, Side, Timing};
use super::input::{Input, Inputs};
use super::keys::{self, Command, Heard, Keys};
use super::orders::{ADDRESS, CLIENT, HEARTBEAT, SERVER};
use super::replies::Replies;
use super::say;

/// Text before the address in the first line of output.
pub(super) const LISTENING: &str = "listening at ";
/// Time in milliseconds for which the main thread waits for keys between two checks of the events.
const WAIT_MS: u64 = 20;
/// Time limit for the client's answer to the server's Logout(5).
const LOGOUT_TIME: Duration = Duration::from_secs(5);
/// Maximum number of unsent report bytes. The limit is far above all orders in transit. The store
/// keeps more bytes than the limit, so each report can be resent.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Answers orders until a key or a signal stops the program.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench hftest server
  transfix bench hftest server --address 0.0.0.0:11002 --log-dir figures

Keys: ? help, l logout, x exit; without a terminal they come as lines, and when the input ends the
server ends with its session. Times of encoding and decoding are printed at the end of each session,
and written to the file `server`.
Exit code: 0 done, 1 failed, 2 wrong usage.")]
pub(crate) struct Args {
    /// Address on which the server listens; with port 0 the system chooses a port.
    #[arg(long, default_value = ADDRESS)]
    address: String,
    /// The seed of the random order states and trade sizes.
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// Send reports with LastCapacity(29)=4 instead of the page's 5, which FIX 4.2 does not define.
    #[arg(long)]
    valid: bool,
    /// Directory for the file `server`.
    #[arg(long, value_name = "DIR", default_value = ".")]
    log_dir: PathBuf,
    /// Print the distribution of times: below 1, 3, 5, 10, 20, 50, 100, 1,000 µs, and above.
    #[arg(long)]
    histogram: bool,
    /// Print the figures as one line of JSON at the end.
    #[arg(long, hide = true)]
    figures: bool,
    /// For tests: number of the report that the server omits, counted from 1.
    #[arg(long, hide = true)]
    drop: Option<u64>,
}

/// The figures that the server passes to its parent process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// NewOrderSingle(D)s received.
    pub(super) orders: u64,
    /// ExecutionReport(8)s sent.
    pub(super) reports: u64,
    pub(super) side: Side,
}

/// Events that the session reports to the main thread.
enum Event {
    LoggedOn,
    Ended { text: String, in_order: bool },
}

/// Counts of orders and reports that the main thread reads.
#[derive(Default)]
struct Totals {
    orders: AtomicU64,
    reports: AtomicU64,
}

/// The application of the server's session: answers each order with reports.
struct Answers {
    replies: Replies,
    /// Parameters of new [`Replies`]: the seed, and true if all values must be valid under FIX 4.2.
    begins: (u64, bool),
    totals: Arc<Totals>,
    /// Number of created reports.
    made: u64,
    drop: Option<u64>,
    is_logged_on: bool,
    events: Sender<Event>,
}

impl Application for Answers {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if message.msg_type() != b"D" {
            return Err(BusinessReject::unsupported());
        }
        let Self { replies, made, drop, totals, .. } = self;
        totals.orders.fetch_add(1, Ordering::Relaxed);
        let mut sent = 0;
        let answered = replies.answer(message, |report| {
            *made += 1;
            if *drop != Some(*made) {
                session.send("8", |body| report.write(body))?;
                sent += 1;
            }
            Ok::<(), SendError>(())
        })?;
        totals.reports.fetch_add(sent, Ordering::Relaxed);
        Ok(answered?)
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            // After only a Logon(A) from each side, this is a new client, not a reconnected client.
            if session.next_numbers() == (2, 2) {
                let (seed, is_valid) = self.begins;
                self.replies = Replies::new(seed, is_valid);
            }
            self.is_logged_on = true;
            let _ = self.events.send(Event::LoggedOn);
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        match notice {
            SessionNotice::Disconnected(end) if self.is_logged_on => {
                self.is_logged_on = false;
                let in_order = end.reason == Disconnect::LoggedOut;
                let _ = self.events.send(Event::Ended { text: end.to_string(), in_order });
            }
            _ => {}
        }
    }
}

fn settings(args: &Args) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix42, SERVER, CLIENT);
    let mut session = SessionSettings::new(Role::Acceptor, &id, &args.address);
    session.store.durability = Durability::Memory;
    session.threads.mode = Mode::Dedicated;
    session.protocol.heart_bt_int = HEARTBEAT;
    session.queue.queued_bytes_max = WAITING_BYTES_MAX;
    session
}

struct Server<'a> {
    args: &'a Args,
    /// The running engine; `None` after the stop.
    engine: Option<Engine>,
    handle: SessionHandle,
    totals: Arc<Totals>,
    events: Receiver<Event>,
    sessions: u32,
}

/// Serves until a key or a signal stops the program.
pub(super) fn run(args: &Args) -> Result<(), String> {
    let mut server = Server::start(args)?;
    let inputs = Inputs::open()?;
    server.serve(&inputs)?;
    // Dropping the inputs restores the terminal, because Ctrl-C may end the program during the
    // logout.
    drop(inputs);
    server.stop()
}

impl<'a> Server<'a> {
    fn start(args: &'a Args) -> Result<Self, String> {
        let (sender, events) = channel();
        let totals = Arc::new(Totals::default());
        let mut answers = Some(Answers {
            replies: Replies::new(args.seed, args.valid),
            begins: (args.seed, args.valid),
            totals: Arc::clone(&totals),
            made: 0,
            drop: args.drop,
            is_logged_on: false,
            events: sender,
        });
        let settings = Settings::of(settings(args));
        let id = settings.sessions[0].id();
        let engine = Engine::start(&settings, |_| match answers.take() {
            Some(answers) => Box::new(answers),
            None => unreachable!("there is one session"),
        });
        let engine = engine.map_err(|error| error.to_string())?;
        let handle = engine.session(&id).ok_or("no session")?;
        say(&format!("{LISTENING}{}", engine.listening()[0]))?;
        let form = if args.valid { "4" } else { "5, as on the published page" };
        say(&format!("Orders are validated by FIX 4.2; LastCapacity(29) of reports is {form}"))?;
        Ok(Self { args, engine: Some(engine), handle, totals, events, sessions: 0 })
    }

    fn serve(&mut self, inputs: &Inputs) -> Result<(), String> {
        let mut keys = Keys::new(keys::SERVER, inputs.is_terminal());
        if inputs.is_terminal() {
            say(&keys.help())?;
        }
        let (mut has_input, mut has_served) = (true, false);
        loop {
            match inputs.next(WAIT_MS) {
                Some(Input::Signal) => return Ok(()),
                Some(Input::End) => has_input = false,
                Some(Input::Byte(byte)) => {
                    match keys.byte(byte, &mut String::new()) {
                        Heard::Command(Command::Exit) => return Ok(()),
                        Heard::Command(Command::LogOut) => {
                            self.handle
                                .operate(&Action::LogOut { text: String::new() })
                                .map_err(|why| why.to_string())?;
                            self.handle
                                .operate(&Action::LogOn {})
                                .map_err(|why| why.to_string())?;
                        }
                        Heard::Command(_) => say(&keys.help())?,
                        Heard::Wrong(why) => eprintln!("transfix bench hftest server: {why}"),
                        Heard::Nothing => {}
                    }
                    continue;
                }
                None => {}
            }
            while let Ok(event) = self.events.try_recv() {
                has_served |= self.tell(event)?;
            }
            if !has_input && has_served {
                return Ok(());
            }
        }
    }

    /// Prints an event. Returns true if a session has ended with a normal logout.
    fn tell(&mut self, event: Event) -> Result<bool, String> {
        match event {
            Event::LoggedOn => {
                self.sessions += 1;
                say(&format!("client({}) connection established.", self.sessions))?;
                Ok(false)
            }
            Event::Ended { text, in_order } => {
                let name = self.sessions;
                let line = match in_order {
                    true => format!("Session({name}) finished."),
                    false => format!("Session({name}) lost: {text}"),
                };
                say(&line)?;
                if !self.args.figures {
                    self.figures()?;
                }
                Ok(in_order)
            }
        }
    }

    /// Prints the times so far, and writes them to the file `server`.
    fn figures(&self) -> Result<Figures, String> {
        let side = Side::of(&self.handle.latency(), Timing::default());
        side.write(&self.args.log_dir, "server")?;
        let (orders, reports) = (&self.totals.orders, &self.totals.reports);
        let (orders, reports) = (orders.load(Ordering::Relaxed), reports.load(Ordering::Relaxed));
        if !self.args.figures {
            say(&format!(
                "{orders} NewOrderSingle msgs received\n{reports} ExecutionReport msgs sent\n{}{}",
                side.lines(""),
                side.rest("", self.args.histogram).trim_end(),
            ))?;
        }
        Ok(Figures { orders, reports, side })
    }

    fn stop(mut self) -> Result<(), String> {
        if let Some(engine) = self.engine.take() {
            engine.stop(LOGOUT_TIME);
        }
        while let Ok(event) = self.events.try_recv() {
            self.tell(event)?;
        }
        if self.args.figures {
            let figures = self.figures()?;
            return say(&serde_json::to_string(&figures).map_err(|why| why.to_string())?);
        }
        if self.sessions > 0 { say(EXPLAINED) } else { Ok(()) }
    }
}
