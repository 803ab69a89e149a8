//! `transfix connect`: a client that takes commands from the keyboard.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustyline::ExternalPrinter;
use rustyline::error::ReadlineError;
use transfix::codec::{CheckSumPolicy, FieldIndex};
use transfix::store::journal::{self, Event};
use transfix::{
    ApplVerId, Application, BeginString, Body, BusinessReject, Decimal, Direction, Disconnect,
    Disconnection, Engine, Message, Outcome, Role, SendError, SessionHandle, SessionId, SessionRef,
    Settings, Tag, tag,
};

use crate::input::failed;
use crate::show::Show;

/// Run a client from a settings file, with commands from the keyboard.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix connect crates/cli/examples/client.toml
  > buy 100 EU 30.5
  > cancel 1
  > send D 11=x|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30
  > quit

Commands: buy QUANTITY SYMBOL PRICE, sell QUANTITY SYMBOL PRICE, cancel NUMBER, burst N (sends N
orders), send TYPE TAG=VALUE|…, logout, logon, wait (until logged on), quit, help.
Exit code: 0 logged out in order, 1 failed, 2 wrong usage or settings that cannot be read.")]
pub(crate) struct Args {
    /// Settings file with one initiator session.
    settings: PathBuf,
    /// Don't print the messages.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let settings = match Settings::load(&args.settings) {
        Ok(settings) => settings,
        Err(error) => return failed(&error.to_string()),
    };
    match connect(args, &settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("transfix connect: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what comes and goes, and wakes those who wait for a logon.
struct Client {
    show: Show,
    quiet: bool,
    logons: Sender<()>,
}

impl Application for Client {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn on_logon(&mut self, session: &mut SessionRef<'_>) {
        self.show.line(&format!("{} logged on", session.id()));
        let _ = self.logons.send(());
    }

    fn on_disconnect(&mut self, id: &SessionId, end: &Disconnection<'_>) {
        self.show.line(&format!("{id} ended: {end}"));
    }

    fn wants_wire(&self) -> bool {
        !self.quiet
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8]) {
        self.show.frame(transfix::clock::now().utc, direction, frame);
    }
}

fn connect(args: &Args, settings: &Settings) -> Result<bool, String> {
    let [session] = &settings.sessions[..] else {
        return Err("the settings must have exactly one session".to_owned());
    };
    if session.role != Role::Initiator {
        return Err(format!("{} is an acceptor; use `transfix serve`", session.id()));
    }
    let (begin_string, id) = (session.begin_string, session.id());
    let version = session.default_appl_ver_id.map(ApplVerId);
    let show = if args.quiet { Show::quiet() } else { Show::new(begin_string, version, "")? };
    let (orders, next_order) = placed(&session.store_path())?;
    let mut editor = rustyline::DefaultEditor::new().map_err(|error| error.to_string())?;
    // Without a terminal the output is for a program.
    let prompt = if std::io::stdin().is_terminal() { "> " } else { "" };
    let sink = if prompt.is_empty() { None } else { printer(&mut editor) };
    let show = show.through(sink);
    println!(
        "connecting to {}; orders go on at {next_order}; `help` lists the commands",
        session.address
    );
    let (logons, logged_on) = channel();
    let mut client = Some(Client { show, quiet: args.quiet, logons });
    let engine = Engine::start(settings, |_| match client.take() {
        Some(client) => Box::new(client),
        None => unreachable!("there is one session"),
    })
    .map_err(|error| error.to_string())?;
    let handle = engine.session(&id).ok_or("no session")?;
    let mut console =
        Console { handle, begin_string, orders, next_order, logged_on, logged_out: false };
    console.run(&mut editor, prompt)?;
    let outcomes = engine.stop(10_000);
    Ok(outcomes.iter().all(|o| {
        matches!(o.outcome, Outcome::NotConnected | Outcome::Ended(Disconnect::LoggedOut))
    }))
}

/// Prints around the line that is being typed.
fn printer(editor: &mut rustyline::DefaultEditor) -> Option<Box<dyn FnMut(String) + Send>> {
    // A terminal that cannot is printed to as any other output.
    let mut printer = editor.create_external_printer().ok()?;
    Some(Box::new(move |line| _ = printer.print(line)))
}

/// An order that was sent, as far as its cancellation repeats it.
struct Placed {
    symbol: String,
    side: u8,
    quantity: Decimal,
}

/// The orders of all runs, from the journal, and the number that the next request gets.
fn placed(store_path: &Path) -> Result<(HashMap<u64, Placed>, u64), String> {
    let (mut orders, mut next) = (HashMap::new(), 1);
    if !store_path.exists() {
        return Ok((orders, next));
    }
    let mut index = FieldIndex::default();
    for entry in journal::read(store_path).map_err(|error| error.to_string())? {
        let Event::Outbound(stored) = entry.map_err(|error| error.to_string())?.event else {
            continue;
        };
        let message = Message::parse(&stored.bytes, &mut index, CheckSumPolicy::Ignore);
        let Ok(message) = message else { continue };
        // Others, sent by `send`, may have any ClOrdID(11).
        let Ok(n) = message.uint(tag::CL_ORD_ID) else { continue };
        next = next.max(n + 1);
        let order = || -> Result<Placed, transfix::Reject> {
            Ok(Placed {
                symbol: message.text(tag::SYMBOL)?.to_owned(),
                side: message.char(tag::SIDE)?,
                quantity: message.decimal(tag::ORDER_QTY)?,
            })
        };
        if message.msg_type() == b"D"
            && let Ok(order) = order()
        {
            orders.insert(n, order);
        }
    }
    Ok((orders, next))
}

/// Commands from a terminal or a pipe.
struct Console {
    handle: SessionHandle,
    begin_string: BeginString,
    orders: HashMap<u64, Placed>,
    next_order: u64,
    logged_on: Receiver<()>,
    /// By `logout`: no logon comes before `logon`.
    logged_out: bool,
}

/// Longest wait for a logon before the user is told.
const LOGON_WAIT: Duration = Duration::from_secs(30);

impl Console {
    fn run(&mut self, editor: &mut rustyline::DefaultEditor, prompt: &str) -> Result<(), String> {
        loop {
            match editor.readline(prompt) {
                Ok(line) => {
                    if line.trim() == "quit" {
                        return Ok(());
                    }
                    // History is a comfort: without it the command counts all the same.
                    let _ = editor.add_history_entry(&line);
                    if let Err(error) = self.command(&line) {
                        println!("{error}");
                    }
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn command(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => Ok(()),
            ["buy", quantity, symbol, price] => self.order(b'1', quantity, symbol, price),
            ["sell", quantity, symbol, price] => self.order(b'2', quantity, symbol, price),
            ["cancel", number] => self.cancel(number),
            ["burst", n] => self.burst(n),
            ["send", msg_type, fields] => self.raw(msg_type, fields),
            ["logout"] => {
                self.handle.log_out("");
                self.logged_out = true;
                Ok(())
            }
            ["logon"] => {
                self.handle.log_on();
                self.logged_out = false;
                Ok(())
            }
            ["wait"] => self.wait(),
            ["help"] => {
                println!(
                    "buy QUANTITY SYMBOL PRICE | sell QUANTITY SYMBOL PRICE | cancel NUMBER\n\
                     burst N | send TYPE TAG=VALUE|… | logout | logon | wait | quit"
                );
                Ok(())
            }
            _ => Err("not understood; `help` lists the commands".to_owned()),
        }
    }

    fn wait(&self) -> Result<(), String> {
        if self.logged_out {
            return Err("logged out; `logon` first".to_owned());
        }
        while !self.handle.is_logged_on() {
            let came = self.logged_on.recv_timeout(LOGON_WAIT);
            came.map_err(|_| "no logon yet; is the acceptor running?".to_owned())?;
        }
        Ok(())
    }

    fn send(&self, msg_type: &str, fill: impl Fn(&mut Body<'_>)) -> Result<(), String> {
        loop {
            match self.handle.send(msg_type, &fill) {
                Ok(_) => return Ok(()),
                Err(SendError::WouldBlock { .. }) => std::thread::yield_now(),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn order(&mut self, side: u8, quantity: &str, symbol: &str, price: &str) -> Result<(), String> {
        let decimal = |text: &str| {
            Decimal::parse(text.as_bytes()).ok_or_else(|| format!("{text} is no number"))
        };
        let (quantity, price) = (decimal(quantity)?, decimal(price)?);
        let (n, begin_string) = (self.next_order, self.begin_string);
        self.send("D", |body| {
            body.uint(tag::CL_ORD_ID, n);
            if begin_string < BeginString::Fix44 {
                body.char(tag::HANDL_INST, b'1');
            }
            body.str(tag::SYMBOL, symbol).char(tag::SIDE, side);
            body.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
            body.decimal(tag::ORDER_QTY, quantity).char(tag::ORD_TYPE, b'2');
            body.decimal(tag::PRICE, price);
        })?;
        let placed = Placed { symbol: symbol.to_owned(), side, quantity };
        self.orders.insert(n, placed);
        self.next_order += 1;
        Ok(())
    }

    fn burst(&mut self, n: &str) -> Result<(), String> {
        let n: u64 = n.parse().map_err(|_| format!("{n} is no number"))?;
        for i in 0..n {
            // Two sides in turn: every second order trades with the one before.
            let side = if self.next_order.is_multiple_of(2) { b'2' } else { b'1' };
            let price = format!("{}", 30 + self.next_order / 2 % 10);
            self.order(side, "5", "EU", &price).map_err(|e| format!("{i} of {n} sent: {e}"))?;
        }
        Ok(())
    }

    fn cancel(&mut self, number: &str) -> Result<(), String> {
        let orig: u64 = number.parse().map_err(|_| format!("{number} is no order number"))?;
        let order = self.orders.get(&orig).ok_or_else(|| format!("there is no order {orig}"))?;
        let (n, begin_string) = (self.next_order, self.begin_string);
        self.send("F", |body| {
            body.uint(tag::ORIG_CL_ORD_ID, orig).uint(tag::CL_ORD_ID, n);
            if begin_string < BeginString::Fix42 {
                body.char(Tag(125), b'F');
            }
            body.str(tag::SYMBOL, &order.symbol).char(tag::SIDE, order.side);
            if begin_string >= BeginString::Fix42 {
                body.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
            }
            body.decimal(tag::ORDER_QTY, order.quantity);
        })?;
        self.next_order += 1;
        Ok(())
    }

    fn raw(&self, msg_type: &str, fields: &str) -> Result<(), String> {
        let mut parsed = Vec::new();
        for field in fields.split('|').filter(|field| !field.is_empty()) {
            let pair = field.split_once('=');
            let pair = pair.and_then(|(tag, value)| Some((Tag(tag.parse().ok()?), value)));
            parsed.push(pair.ok_or_else(|| format!("{field} is not TAG=VALUE"))?);
        }
        self.send(msg_type, |body| {
            for (tag, value) in &parsed {
                body.str(*tag, value);
            }
        })
    }
}
